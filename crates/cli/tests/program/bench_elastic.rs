//! `voxalign bench elastic` as a program.

use crate::common::Place;
use serde_json::Value;

/// The rows of a table that were measured, and those that were printed in the thesis.
fn rows(json: &Value, part: &str) -> [Vec<Value>; 2] {
    let tables = json["tables"].as_array().unwrap();
    let table = tables.iter().find(|t| t["part"] == part).unwrap();
    let count = table["quantities"].as_array().unwrap().len();
    let rows = table["rows"].as_array().unwrap();
    assert!(rows.iter().all(|r| r["values"].as_array().unwrap().len() == count), "{rows:?}");
    [false, true]
        .map(|published| rows.iter().filter(|r| r["published"] == published).cloned().collect())
}

#[test]
fn operators_are_measured_with_all_threads_and_with_one() {
    let place = Place::new();
    let line = "bench elastic --parts interpolation,displacement,memory,product --size 40x36x20 \
                --repeat 1 --threads 2 --device cpu --csv e.csv --html e.html --json";
    let json = place.line(line).expect(0).json();
    let [found, printed] = rows(&json, "interpolation");
    // Three grids on two CPUs, and three devices of the thesis.
    assert_eq!((found.len(), printed.len()), (6, 9));
    assert_eq!(
        (&found[0]["on"], &found[1]["on"]),
        (&"CPU, 2 threads".into(), &"CPU, 1 thread".into())
    );
    assert_eq!((&found[0]["what"], &found[5]["what"]), (&"64x64x25".into(), &"256x256x50".into()));
    let numbers = |row: &Value| -> Vec<f64> {
        row["values"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
    };
    for row in &found {
        let [regular, rate, displaced, _] = numbers(row)[..] else { panic!("{row}") };
        assert!(regular > 0.0 && displaced > 0.0, "{row}");
        let dims = row["what"].as_str().unwrap().split('x').map(|n| n.parse::<f64>().unwrap());
        let expected = 43.0 * dims.product::<f64>() / regular * 1e-6;
        assert!((rate / expected - 1.0).abs() < 1e-9, "{rate} {expected}");
    }
    // What the thesis prints for one table agrees with what it prints for its operations.
    assert!(printed.iter().all(|row| {
        let values = row["values"].as_array().unwrap();
        values[0].as_f64().unwrap() > 0.0 && values[2].is_null()
    }));
    let [found, printed] = rows(&json, "displacement");
    assert_eq!((found.len(), printed.len()), (8, 9));
    assert!(found.iter().all(|row| numbers(row).iter().all(|v| *v > 0.0)), "{found:?}");
    let tables = json["tables"].as_array().unwrap();
    assert!(tables[1]["title"].as_str().unwrap().contains("2304 tetrahedra"), "{}", tables[1]);
    let [found, _] = rows(&json, "product");
    assert_eq!(found.len(), 8);
    let [found, printed] = rows(&json, "memory");
    let kinds: Vec<&str> = found.iter().map(|r| r["what"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["copied", "handed over", "copied", "handed over"]);
    assert_eq!(printed.len(), 2);

    assert_eq!(place.names(), ["e.csv", "e.html"]);
    let csv = std::fs::read_to_string(place.path("e.csv")).unwrap();
    assert!(csv.starts_with("version,device,part,what,on,published,quantity,value\n"), "{csv}");
    assert!(csv.contains(",128x128x50,thesis: GTX 480,true,any mesh ms,2.15\n"), "{csv}");
    assert!(
        csv.contains("256x256x50,\"thesis: GTX 480, texture memory\",true,regular ms,0.52\n"),
        "{csv}"
    );
    let html = std::fs::read_to_string(place.path("e.html")).unwrap();
    assert!(html.contains("table 5.1") && !html.contains("NaN") && !html.contains("<script"));
}

#[test]
fn the_parts_of_a_registration_are_measured() {
    let place = Place::new();
    let line = "bench elastic --parts registration --size 48x44x30 --samples 12x12x10,all \
                --mesh-spacing 45 --repeat 1 --device cpu";
    let json = place.line(&format!("{line} --json")).expect(0).json();
    let [found, printed] = rows(&json, "registration");
    assert_eq!((found.len(), printed.len()), (2, 2));
    let title = json["tables"][0]["title"].as_str().unwrap();
    assert!(title.contains("48x44x30, 2304 tetrahedra, 567 vertices"), "{title}");
    for row in &found {
        let v: Vec<f64> =
            row["values"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect();
        let [parts, others, total, all] = [v[..5].iter().sum(), v[5], v[6], v[7]];
        assert!(v[..5].iter().all(|ms| *ms > 0.0) && others > 0.0, "{row}");
        assert!((parts + others - total).abs() < 1e-6 * total, "{row}");
        assert!((all - 15.0 * total * 1e-3).abs() < 1e-6 * all, "{row}");
        // It comes nearer to the known displacement.
        assert!(v[8] > 2.0 && v[9] < 0.8 * v[8], "{row}");
    }
    let out = place.line(line).expect(0).out;
    for words in
        ["every voxel", "12x12x10", "4 displacement ms", "thesis: Core i5, 1 thread", "82.8"]
    {
        assert!(out.contains(words), "{words} is not in\n{out}");
    }
}

#[test]
fn what_would_be_ignored_is_refused() {
    let place = Place::new();
    for (options, said) in [
        ("--parts product --size 64", "--size is for the parts"),
        ("--parts memory --samples all", "--samples is for the parts"),
        ("--samples some", "20x20x15"),
        ("--mesh-spacing 0", "--mesh-spacing"),
        ("--parts steps", "registration"),
        ("--size 8 --csv no/x.csv", "'no' does not exist"),
        ("--size 8 --csv a.x --html a.x", "same file"),
        ("--parts displacement --mesh-spacing 1e-9 --device cpu", "--mesh-spacing"),
    ] {
        place.line(&format!("bench elastic {options}")).expect(2).says(&[said]);
    }
    assert!(place.names().is_empty());
}
