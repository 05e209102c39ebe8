//! `voxalign bench stream` as a program.

use crate::common::Place;

#[test]
fn all_parts_are_measured() {
    let place = Place::new();
    std::fs::create_dir(place.path("disk")).unwrap();
    let line = "bench stream --size 12x10x8 --images 6 --device cpu --disk disk --csv s.csv \
                --html s.html --json";
    let json = place.line(line).expect(0).json();
    // Synchronous, implicit, three mappings, six orders.
    assert_eq!(json["ratio"].as_array().unwrap().len(), 9 * 11);
    let places = json["synchronisation"].as_array().unwrap();
    assert_eq!(places.len(), 9 * 11);
    for p in json["ratio"].as_array().unwrap().iter().chain(places) {
        let (seconds, bound) = (p["seconds"].as_f64().unwrap(), p["bound"].as_f64().unwrap());
        // No pause is shorter than what was asked for.
        assert!(bound > 0.0 && seconds >= 0.999 * bound, "{p}");
    }
    let functions = json["functions"].as_array().unwrap();
    assert_eq!(functions.len(), 6);
    assert!(functions.iter().all(|f| f["stages"].as_array().unwrap().len() == 3));
    assert!(functions.iter().all(|f| f["models"].as_array().unwrap().len() == 4));
    // Of each kind of files five functions, and six ratios on two engines.
    let disk = json["disk"].as_array().unwrap();
    assert_eq!(disk.len(), 2 * (5 + 2 * 6));
    for (row, files) in disk.iter().zip([".nii"; 17].into_iter().chain([".nii.gz"; 17])) {
        assert_eq!(row["files"], files);
        let of = |stage: &str| row[stage]["seconds"].as_f64().unwrap();
        let work = row["work"].as_str().unwrap();
        let one = ["max", "energy", "average"].contains(&work);
        assert!(of("read") > 0.0 && of("compute") > 0.0 && (of("write") > 0.0) != one, "{row}");
        let [bound, streamed] = ["bound", "streamed"].map(|n| row[n].as_f64().unwrap());
        assert!(["read", "compute", "write"].iter().all(|s| of(s) <= bound), "{row}");
        assert!(streamed > 0.0);
        // An engine that rests for so long cannot be faster.
        if work.ends_with("= 10.0, an engine of its own") {
            assert!(streamed >= 0.5 * bound, "{row}");
        }
    }
    let csv = std::fs::read_to_string(place.path("s.csv")).unwrap();
    assert_eq!(csv.lines().count(), 1 + 2 * 2 * 99 + 6 * (3 + 4) + 34 * 6);
    let html = std::fs::read_to_string(place.path("s.html")).unwrap();
    assert_eq!(html.matches("<svg").count(), 11);
    // 6 images, in the execution two boxes each.
    assert_eq!(html.matches("class=\"task\"").count(), 11 * 6 * 4);
    assert_eq!(crate::common::names(&place.path("disk")).len(), 0, "files are left");
}

#[test]
fn the_tables_have_all_models() {
    let place = Place::new();
    let line = "bench stream --size 8 --images 3 --device cpu --parts synchronisation,functions";
    let out = place.line(line).expect(0).out;
    for word in ["synchronous", "implicit", "U_ED", "UE_D", "DUE", "bound", "Gaussian", "average"] {
        assert!(out.contains(word), "{word} is not in\n{out}");
    }
    assert!(!out.contains("E/(U+D)"), "{out}");
}

#[test]
fn what_cannot_be_is_an_error() {
    let place = Place::new();
    place.line("bench stream --images 1").expect(2).says(&["--images"]);
    place.line("bench stream --disk none").expect(2).says(&["--disk", "none"]);
    place.line("bench stream --parts disk").expect(2).says(&["--parts disk needs --disk"]);
    place.line("bench stream --parts ratio --disk .").expect(2).says(&["--disk is for"]);
    place.line("bench stream --parts all").expect(2).says(&["ratio", "functions"]);
    place.line("bench stream --csv no/x.csv").expect(2).says(&["no"]);
}
