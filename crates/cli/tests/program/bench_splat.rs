//! `voxalign bench splat` as a program.

use crate::common::Place;

#[test]
fn all_fields_are_measured() {
    let place = Place::new();
    let line =
        "bench splat --size 16x12x10 --size 20 --device cpu --csv s.csv --html s.html --json";
    let json = place.line(line).expect(0).json();
    let rows = json["rows"].as_array().unwrap();
    // Two grids, three fields, splatted and gathered.
    assert_eq!(rows.len(), 2 * 3 * 2);
    assert!(rows.iter().all(|r| r["milliseconds"].as_f64().unwrap() > 0.0 && r["bytes"].is_null()));
    let fields: Vec<&str> = rows.iter().map(|r| r["field"].as_str().unwrap()).collect();
    assert_eq!(
        fields[..6],
        ["random", "random", "diffeomorphic", "diffeomorphic", "singular", "singular"]
    );
    assert_eq!(
        (&rows[0]["scheme"], &rows[1]["scheme"]),
        (&"cpu".into(), &"gathered on the cpu".into())
    );
    assert_eq!((&rows[0]["dims"][0], &rows[6]["dims"][2]), (&16.into(), &20.into()));
    assert!(rows[0]["published_milliseconds"].is_null(), "of another grid");
    assert_eq!(place.names(), ["s.csv", "s.html"]);
    let csv = std::fs::read_to_string(place.path("s.csv")).unwrap();
    assert!(csv.starts_with("version,device,size,field,scheme,milliseconds,bytes\n"), "{csv}");
    assert_eq!(csv.lines().count(), 1 + rows.len());
    let html = std::fs::read_to_string(place.path("s.html")).unwrap();
    assert!(html.contains("singular") && !html.contains("NaN") && !html.contains("<script"));
}

#[test]
fn tables_have_all_fields() {
    let place = Place::new();
    let out = place.line("bench splat --size 9x8x7 --device cpu").expect(0).out;
    for words in ["9x8x7", "random", "diffeomorphic", "singular", "cpu", "published", "memory, MiB"]
    {
        assert!(out.contains(words), "{words} is not in\n{out}");
    }
}

#[test]
fn what_cannot_be_is_an_error() {
    let place = Place::new();
    place.line("bench splat --size 0").expect(2).says(&["160x192x160"]);
    place.line("bench splat --size 9 --csv no/x.csv").expect(2).says(&["'no' does not exist"]);
    place.line("bench splat --size 9 --csv a.x --html a.x").expect(2).says(&["same file"]);
    assert!(place.names().is_empty());
}
