//! `voxalign bench drr` as a program.

use crate::common::Place;

#[test]
fn all_parts_are_measured() {
    let place = Place::new();
    let line = "bench drr --quick --repeat 2 --coarser 16 --volumes spine,long --device cpu \
                --csv d.csv --html d.html --json";
    let json = place.line(line).expect(0).json();
    let points = json["points"].as_array().unwrap();
    // Two volumes, three numbers of pixels; no rules and no blocks.
    assert_eq!(points.len(), 2 * 3);
    assert!(points.iter().all(|p| p["mean_us"].as_f64().unwrap() > 0.0 && p["block"].is_null()));
    assert_eq!((&points[2]["pixels"], &points[2]["all"]), (&90000.into(), &true.into()));
    let calls = json["calls"].as_array().unwrap();
    assert_eq!(calls.len(), 4);
    assert!(calls.iter().all(|c| c["kernel"].is_null()));
    let samples = calls[0]["samples"].as_array().unwrap();
    let [planes, inside, taken] = [0, 1, 2].map(|i| samples[i].as_f64().unwrap());
    assert!(planes > inside && inside >= taken && taken > 0.0, "{samples:?}");
    let batch = json["batch"].as_array().unwrap();
    assert_eq!(batch.len(), 3);
    assert!(
        batch.iter().all(|b| b["frames"] == 32 && b["frames_a_second"].as_f64().unwrap() > 0.0)
    );
    assert!([2, 4].contains(&json["cpu"].as_array().unwrap().len()));
    assert_eq!(place.names(), ["d.csv", "d.html"]);
    let csv = std::fs::read_to_string(place.path("d.csv")).unwrap();
    assert!(csv.starts_with("version,device,part,volume,what,pixels,block,"), "{csv}");
    assert!(csv.lines().count() > 15 && csv.lines().all(|l| l.split(',').count() >= 12), "{csv}");
    let html = std::fs::read_to_string(place.path("d.html")).unwrap();
    assert!(html.contains("frames/s") && !html.contains("NaN") && !html.contains("<script"));
}

#[test]
fn the_cpu_says_that_it_has_no_blocks() {
    let place = Place::new();
    let line = "bench drr --quick --repeat 1 --coarser 32 --parts rules,cpu --device cpu";
    let out = place.line(line).expect(0).out;
    for words in ["are for GPUs", "--device cuda", "10240", "90000 (all)", "threads"] {
        assert!(out.contains(words), "{words} is not in\n{out}");
    }
    assert!(!out.contains("table 2.3") && !out.contains("frames/s"), "{out}");
}

#[test]
fn what_cannot_be_is_an_error() {
    let place = Place::new();
    place.line("bench drr --parts blocs").expect(2).says(&["rules", "blocks"]);
    place.line("bench drr --volumes all").expect(2).says(&["spine", "long"]);
    let few = "bench drr --quick --repeat 1 --coarser 32 --parts cpu --device cpu";
    assert!(place.line(few).expect(0).out.contains("CPU"));
    place.line("bench drr --volumes long --parts calls").expect(2).says(&["--volumes is for"]);
    place.line("bench drr --coarser 0").expect(2).says(&["--coarser"]);
    place.line("bench drr --repeat 0").expect(2).says(&["--repeat"]);
    place.line("bench drr --csv no/x.csv").expect(2).says(&["'no' does not exist"]);
    place.line("bench drr --csv a.x --html a.x").expect(2).says(&["same file"]);
}
