//! `voxalign bench currents` as a program.

use crate::common::Place;

#[test]
fn errors_fall_with_the_spacing() {
    let place = Place::new();
    let line = "bench currents --quick --parts errors --device cpu --json";
    let json = place.line(line).expect(0).json();
    let errors = json["errors"].as_array().unwrap();
    // Two kernels, three scenes, three widths.
    assert_eq!((errors.len(), json["times"].as_array().unwrap().len()), (18, 0));
    for of_scene in errors.chunks(3) {
        let of = |k: usize, what: &str| of_scene[k][what].as_f64().unwrap();
        assert_eq!([0, 1, 2].map(|k| of(k, "spacings")), [1.0, 3.0, 4.0]);
        let gradient = [0, 1, 2].map(|k| of(k, "gradient"));
        assert!(gradient[0] > gradient[1] && gradient[1] > gradient[2], "{of_scene:?}");
        assert!(of(1, "value") < 0.015 && gradient[0] > 0.05 && gradient[1] < 0.03, "{of_scene:?}");
    }
}

#[test]
fn times_have_both_ways() {
    let place = Place::new();
    let line = "bench currents --parts times --faces 600,500 --width 12 --repeat 1 --device cpu --html c.html --json";
    let json = place.line(line).expect(0).json();
    let [time] = &json["times"].as_array().unwrap()[..] else { panic!("{json}") };
    assert_eq!((&time["kernel"], &time["width"]), (&"gaussian".into(), &12.0.into()));
    for what in ["grid_seconds", "start_seconds", "exact_seconds", "all_pairs_seconds"] {
        assert!(time[what].as_f64().unwrap() > 0.0, "{what}");
    }
    assert!(time["off"].as_f64().unwrap() < 0.01 && time["pairs"].as_f64().unwrap() > 5e5);
    assert_eq!(place.names(), ["c.html"]);
    let html = std::fs::read_to_string(place.path("c.html")).unwrap();
    assert!(html.contains("pair by pair") && !html.contains("NaN") && !html.contains("<script"));
    let line =
        "bench currents --parts times --faces 600,500 --width 12 --repeat 1 --device cpu --cauchy";
    let out = place.line(line).expect(0).out;
    for words in ["cauchy kernel of 12 mm", "on the grid", "pair by pair", "600"] {
        assert!(out.contains(words), "{words} is not in\n{out}");
    }
}

#[test]
fn what_cannot_be_is_an_error() {
    let place = Place::new();
    place.line("bench currents --parts error").expect(2).says(&["errors", "times"]);
    place.line("bench currents --faces 10,10").expect(2).says(&["--faces 10", "100"]);
    place.line("bench currents --faces 500").expect(2).says(&["--faces"]);
    place.line("bench currents --parts errors --faces 500,500").expect(2).says(&["part times"]);
    place.line("bench currents --width 0").expect(2).says(&["--width 0", "200 mm"]);
    place.line("bench currents --html no/x.html").expect(2).says(&["'no' does not exist"]);
    assert!(place.names().is_empty());
}
