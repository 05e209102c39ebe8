//! `voxalign bench distributed` as a program.

use crate::common::Place;

#[test]
fn all_strategies_are_measured() {
    let place = Place::new();
    let line = "bench distributed --quick --size 96x80 --ranks 1,2,4 --angles 5 --chunks 32 \
                --variants all --device cpu --csv d.csv --trace t.csv --html d.html --json";
    let json = place.line(line).expect(0).json();
    let rows = json["rows"].as_array().unwrap();
    // Four halos, the list and its eight variants, the baseline and reads of other devices; one rank is the baseline.
    assert_eq!(rows.len(), 5 * (1 + 2 * (1 + 4 + 9 + 1)));
    assert!(rows.iter().all(|r| r["milliseconds"].as_f64().unwrap() > 0.0));
    assert_eq!(json["compared_with"], "whole images on one rank");
    let remote = |r: &&serde_json::Value| {
        r["strategy"] == "list" && r["ranks"] == 2 && r["degrees"] == 90.0 && r["usual"] == true
    };
    let row = rows.iter().find(remote).unwrap();
    assert_eq!(row["expected_share"], 0.5);
    assert!((row["remote_share"].as_f64().unwrap() - 0.5).abs() < 0.03);
    assert_eq!(place.names(), ["d.csv", "d.html", "t.csv"]);
    let csv = std::fs::read_to_string(place.path("d.csv")).unwrap();
    assert!(csv.starts_with("version,device,size,bits,bins,ranks,strategy,variant,"), "{csv}");
    assert_eq!(csv.lines().count(), 1 + rows.len());
    let html = std::fs::read_to_string(place.path("d.html")).unwrap();
    assert!(html.contains("Figure 7") && !html.contains("NaN") && !html.contains("<script"));
}

#[test]
fn the_summary_has_times_ratios_and_memory() {
    let place = Place::new();
    let line = "bench distributed --quick --size 64 --ranks 1,2 --bits 16 --device cpu";
    let out = place.line(line).expect(0).out;
    for words in [
        "64x64 pixels of 16 bits",
        "ms at 90",
        "x baseline at 180",
        "speed-up over 1 rank",
        "by the formula",
        "transactions per sample at 90",
        "Loads of ranks at 90 degrees",
        "device memory of each rank",
    ] {
        assert!(out.contains(words), "{words} is not in\n{out}");
    }
}

#[test]
fn what_does_not_fit_is_refused_before_it_is_allocated() {
    let place = Place::new();
    let line = "bench distributed --size 1048576 --ranks 2 --once 30 --device cpu";
    place.line(line).expect(2).says(&["nothing was measured", "replicate: 3.0 TiB", "are free"]);
}

#[test]
fn what_cannot_be_is_an_error() {
    let place = Place::new();
    place.line("bench distributed --size 8").expect(2).says(&["262144x270000"]);
    place.line("bench distributed --angles 0,190").expect(2).says(&["0 to 180 degrees"]);
    place.line("bench distributed --once 30 --angles 5").expect(2).says(&["--once"]);
    place.line("bench distributed --strategies lists").expect(2).says(&["list"]);
    place.line("bench distributed --halos 2").expect(2).says(&["fraction"]);
    place.line("bench distributed --pixels-per-thread 2x2").expect(2).says(&["4x2"]);
    place.line("bench distributed --csv a.x --html a.x").expect(2).says(&["same file"]);
    place.line("bench distributed --csv a.x --trace a.x").expect(2).says(&["--trace"]);
    assert!(place.names().is_empty());
}
