//! `voxalign bench deform` as a program.

use crate::common::Place;

#[test]
fn all_parts_are_measured() {
    let place = Place::new();
    let line = "bench deform --size 20x18x16 --models greedy,lddmm --solvers fft,hybrid,gaussian \
                --device cpu --json --csv d.csv";
    let json = place.line(line).expect(0).json();
    let iterations = json["iterations"].as_array().unwrap();
    // Two similarities; four and three solvers, with that of a periodic grid.
    assert_eq!(iterations.len(), 2 * (4 + 3), "{iterations:?}");
    assert!(iterations.iter().all(|t| t["milliseconds"].as_f64().unwrap() > 0.0));
    assert!(iterations.iter().any(|t| t["solver"] == "fft, periodic"));
    let whole = json["whole"].as_array().unwrap();
    assert_eq!(whole.len(), 3);
    assert_eq!(whole[2]["iterations"][0], 50);
    assert!(whole[0]["warm"].as_f64().unwrap() >= whole[0]["scales"].as_f64().unwrap());
    let multiscale = json["multiscale"].as_array().unwrap();
    assert_eq!(multiscale.len(), 2);
    assert!(multiscale[0]["alone_seconds"].as_f64().unwrap() > 0.0);
    assert_eq!(json["overlap"].as_array().unwrap().len(), 0);
    let csv = std::fs::read_to_string(place.path("d.csv")).unwrap();
    assert!(csv.lines().count() > 20 && csv.lines().all(|l| l.split(',').count() >= 9), "{csv}");
}

#[test]
fn labels_are_compared() {
    let place = Place::new();
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/");
    for name in ["icbm152_t1", "colin27_brain", "icbm152_tissues", "colin27_tissues"] {
        let file = format!("{name}.nii.gz");
        std::fs::copy(format!("{data}{file}"), place.path(&file)).unwrap();
    }
    let line = "bench deform --pair icbm152_t1.nii.gz colin27_brain.nii.gz --models greedy \
                --similarities lncc --solvers gaussian --min-voxels 50 \
                --labels icbm152_tissues.nii.gz colin27_tissues.nii.gz --device cpu --json";
    let json = place.line(line).expect(0).json();
    let overlap = json["overlap"].as_array().unwrap();
    assert_eq!(overlap.len(), 1);
    assert!(overlap[0]["mean_dice"].as_f64().unwrap() > 0.75, "{overlap:?}");
    assert_eq!(overlap[0]["folded"], 0);
    assert_eq!(overlap[0]["verdict_good"], true);
    let line = line.replace("--min-voxels 50", "--smallest-label 900");
    place.line(&line).expect(2).says(&["have no label in common", "--smallest-label"]);
}

#[test]
fn what_does_not_go_together_is_an_error() {
    let place = Place::new();
    place.line("bench deform --parts overlap").expect(2).says(&["--labels"]);
    place.line("bench deform --labels a b").expect(2).says(&["--pair"]);
    place.line("bench deform --models best").expect(2).says(&["greedy", "lddmm"]);
    place.line("bench deform --size 8 --pair a b").expect(2).says(&["--size"]);
    place.line("bench deform --pair no.nii no.nii").expect(2).says(&["no.nii"]);
}
