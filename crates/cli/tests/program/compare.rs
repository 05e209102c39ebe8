//! `compare`.

use crate::common::{Place, grid};
use voxalign_image::Volume;

#[test]
fn images() {
    let place = Place::new();
    let g = grid([4, 4, 4], 2.0);
    let a = Volume::from_fn(g.clone(), |x, y, z| (x + 4 * y + 16 * z) as f32);
    place.image("a.nii.gz", &a);
    place.image("b.nii.gz", &a.map(|v| 2.0 * v + 3.0));
    let run = place.line("compare a.nii.gz a.nii.gz").expect(0);
    assert!(run.out.contains("normalised cross correlation") && run.out.contains("1.0000"));
    let json = place.line("compare a.nii.gz b.nii.gz --json --bins 32").expect(0).json();
    let scores = &json["images"];
    assert_eq!(scores["voxels"], 64);
    assert!((scores["ncc"].as_f64().unwrap() - 1.0).abs() < 1e-9);
    // The difference is v + 3 for v = 0..63.
    let expected = ((3..67).map(|d| f64::from(d * d)).sum::<f64>() / 64.0).sqrt();
    assert!((scores["rms"].as_f64().unwrap() - expected).abs() < 1e-4);
    assert!((scores["mi"].as_f64().unwrap() - 32f64.ln()).abs() < 1e-9);

    place.image("mask.nii.gz", &Volume::from_fn(g, |x, _, _| if x < 2 { 1.0 } else { 0.0 }));
    let json = place.line("compare a.nii.gz b.nii.gz --mask mask.nii.gz --json").expect(0).json();
    assert_eq!(json["images"]["voxels"], 32);
}

#[test]
fn labels() {
    let place = Place::new();
    let g = grid([10, 1, 1], 2.0);
    let map = |values: [i32; 10]| Volume::new(g.clone(), values.to_vec()).unwrap();
    place.labels("a.nii.gz", &map([0, 1, 1, 1, 1, 2, 2, 0, 0, 0]));
    place.labels("b.nii.gz", &map([0, 0, 1, 1, 2, 2, 2, 3, 0, 0]));
    let run = place.line("compare a.nii.gz b.nii.gz --labels").expect(0);
    assert!(run.out.contains("mean of 3 labels") && run.out.contains("-50.0 %"), "{}", run.out);
    let scores = |options: &str| {
        let line = format!("compare a.nii.gz b.nii.gz --labels --json {options}");
        place.line(&line).expect(0).json()["labels"].clone()
    };
    let all = scores("");
    let mean = (2.0 * 2.0 / 6.0 + 2.0 * 2.0 / 5.0 + 0.0) / 3.0;
    assert!((all["mean_dice"].as_f64().unwrap() - mean).abs() < 1e-12);
    assert_eq!(all["labels"][0]["volume_fixed"], 32.0);
    assert_eq!(all["labels"][2]["volume_change"], serde_json::Value::Null);
    assert!((scores("--min-voxels 1")["mean_dice"].as_f64().unwrap() - mean * 1.5).abs() < 1e-12);
    assert_eq!(scores("--smallest-label 3")["counted"], 1);
}

#[test]
fn points() {
    let place = Place::new();
    place.write("a.csv", "x,y,z\n0,0,0\n0,0,0\n0,0,0\n");
    place.write("b.csv", "z,y,x\n1,0,0\n0,2,0\n0,0,6\n");
    let run = place.line("compare --points a.csv b.csv").expect(0);
    for part in ["median", "2.0000 mm", "95th", "largest", "6.0000 mm"] {
        assert!(run.out.contains(part), "{part} is not in\n{}", run.out);
    }
    let json = place.line("compare --points a.csv b.csv --json").expect(0).json();
    assert_eq!(json["landmarks"]["mean"], 3.0);
    assert!((json["landmarks"]["p95"].as_f64().unwrap() - 5.6).abs() < 1e-12);
}

#[test]
fn what_cannot_be_compared() {
    let place = Place::new();
    place.image("a.nii.gz", &Volume::filled(grid([4, 4, 4], 2.0), 1.5));
    place.image("b.nii.gz", &Volume::filled(grid([4, 4, 4], 1.0), 1.0));
    place.line("compare a.nii.gz b.nii.gz").expect(2).says(&["grids differ", "voxalign apply"]);
    place.line("compare a.nii.gz a.nii.gz --labels").expect(2).says(&["not a whole number"]);
    place.line("compare a.nii.gz none.nii.gz").expect(2).says(&["none.nii.gz"]);
    place.line("compare a.nii.gz a.nii.gz --bins 1").expect(2).says(&["bins"]);
    place.line("compare a.nii.gz a.nii.gz --min-voxels 5").expect(2).says(&["--labels"]);
    place.write("p.csv", "x,y,z\n0,0,0\n");
    place.write("q.csv", "x,y,z\n0,0,0\n1,1,1\n");
    place.line("compare --points p.csv q.csv").expect(2).says(&["1 points", "2"]);
    place.write("r.csv", "x,y\n0,0\n");
    place.line("compare --points p.csv r.csv").expect(2).says(&["r.csv"]);
}

/// Labels have names where a table is given, in the forms that people have.
#[test]
fn labels_have_names() {
    let place = Place::new();
    place.pair();
    let forms = [
        ("lut.txt", "#No. Label Name: R G B A\n1 Outer-Part 1 2 3 0\n2 Inner-Part 4 5 6 0\n"),
        ("snap.txt", "1 1 2 3 1 1 1 \"Outer-Part\"\n2 4 5 6 1 1 1 \"Inner-Part\"\n"),
        ("names.csv", "Label Number,Label Name,Class\n1,Outer-Part,GM\n2,Inner-Part,\n"),
    ];
    let labels = "fixed_labels.nii.gz fixed_labels.nii.gz --labels --label-names";
    for (name, text) in forms {
        place.write(name, text);
        let run = place.line(&format!("compare {labels} {name}")).expect(0);
        assert!(
            run.out.contains("1 Outer-Part") && run.out.contains("2 Inner-Part"),
            "{}",
            run.out
        );
    }
    let json = place.line(&format!("compare {labels} lut.txt --json")).expect(0).json();
    assert_eq!(json["labels"]["labels"][1]["name"], "Inner-Part");
    assert_eq!(json["labels"]["labels"][1]["label"], 2);
    place.write("bad.txt", "1 a\n1 b\n");
    let said =
        ["--label-names", "bad.txt", "the label 1 is called 'a' in line 1 and 'b' in line 2"];
    place.line(&format!("compare {labels} bad.txt")).expect(2).says(&said);
    place.line("compare fixed.nii.gz moving.nii.gz --label-names lut.txt").expect(2);

    let pair = "affine fixed.nii.gz moving.nii.gz -o out --search local";
    place
        .line(&format!("{pair} --label-names lut.txt"))
        .expect(2)
        .says(&["--label-names is for label maps", "--fixed-labels"]);
    let maps = "--fixed-labels fixed_labels.nii.gz --moving-labels moving_labels.nii.gz";
    let run = place.line(&format!("{pair} {maps} --label-names names.csv")).expect(0);
    assert!(run.out.contains("1 Outer-Part") && run.out.contains("Dice after"), "{}", run.out);
    let text = std::fs::read_to_string(place.path("out/result.json")).unwrap();
    let record: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(record["labels"][0]["name"], "Outer-Part");
    assert!(
        record["labels"][0]["dice_after"].as_f64() > record["labels"][0]["dice_before"].as_f64()
    );
    assert!(record["inputs"].as_array().unwrap().iter().any(|i| i["role"] == "label_names"));
    let html = std::fs::read_to_string(place.path("out/report.html")).unwrap();
    assert!(html.contains("1 Outer-Part") && html.contains("Dice before"));
}
