use super::*;
use crate::draw::xray::tests::arm;
use crate::draw::xray::{ViewRecord, XrayPicture};
use crate::record::{GridRecord, InputRecord, RunRecord};
use voxalign_image::{Affine, AffineParameters, Grid, Vector3};
use voxalign_register::projection::PoseResult;
use voxalign_register::projection::register::{
    Evidence, Landscape, Refined, RefinedView, Uncertainty,
};
use voxalign_register::search::{StageRecord, TracePoint};
use voxalign_register::{Check, Verdict};

fn rigid(angle: f64, offset: [f64; 3]) -> Affine {
    let parts = AffineParameters {
        rotation: Vector3::new(0.0, 0.0, angle.to_radians()),
        ..AffineParameters::identity(Vector3::zeros())
    };
    Affine::new(parts.to_affine().matrix, Vector3::from(offset))
}

fn stage(cost_start: f64) -> StageRecord {
    StageRecord {
        name: "2 mm".to_owned(),
        spacing: [2.0; 3],
        samples: 1200,
        cost: String::new(),
        bins: 0,
        dof: vec![6],
        candidates: [16, 3],
        evaluations: 300,
        cost_start,
        cost_end: 0.2,
        seconds: 1.5,
        trace: vec![TracePoint { evaluation: 1, cost: 0.7 }],
    }
}

/// Two views that were refined, one of them in vain.
fn refined() -> Vec<RefinedView> {
    let number = |found, within| Refined { given: 0.0, found, within };
    let view = |angle| RefinedView {
        geometry: arm(angle, [30, 20]),
        source_to_detector: None,
        shift: Some([number(-1.25, 0.5), number(2.0, 0.75)]),
    };
    let distance = Refined { given: 1000.0, found: 1020.0, within: f64::INFINITY };
    vec![RefinedView { source_to_detector: Some(distance), shift: None, ..view(0.0) }, view(90.0)]
}

#[test]
fn refined_geometries_are_said() {
    let words: Vec<_> = record().views.iter().filter_map(|v| v.refined_words()).collect();
    assert_eq!(
        words,
        [
            "<AP>: the detector is 1020.00 mm from the source (which the images do not determine), not 1000.00 mm.",
            "lateral: the detector is shifted along its columns by -1.25 mm (within 0.50 mm) and along its rows by 2.00 mm \
             (within 0.75 mm)."
        ]
    );
    let text = serde_json::to_string(&record()).unwrap();
    assert!(text.contains("\"found_mm\":1020.0,\"within_mm\":null"), "{text}");
    let back: PoseRecord = serde_json::from_str(&text).unwrap();
    assert_eq!(back.views[1].refined, record().views[1].refined);
}

/// A result with numbers that are not finite.
fn result() -> PoseResult {
    let reach = |i: usize| if i < 3 { 10.0 } else { 0.1 };
    let along = |i: usize| Landscape {
        offsets: vec![-reach(i), 0.0, reach(i)],
        costs: vec![f64::INFINITY, 0.2, 0.9],
    };
    PoseResult {
        transform: rigid(0.0, [0.0, 0.0, 0.0]),
        start: rigid(10.0, [3.0, 4.0, 0.0]),
        centre: Vector3::new(50.0, 60.0, 70.0),
        costs: [f64::INFINITY, 0.2],
        by_view: vec![0.1, 0.3],
        correlations: vec![0.8, f64::NAN],
        evidence: Evidence::default(),
        middle: Vector3::zeros(),
        geometry: refined(),
        uncertainty: Uncertainty {
            curvature: [0.1, f64::INFINITY, 0.2, 0.01, 0.02, f64::NAN],
            restarts: Some([0.1, 0.2, 0.3, 0.01, 0.02, 0.03]),
            apart: vec![0.4, f64::INFINITY],
            by_blocks: None,
            covariance: None,
        },
        landscape: (0..6).map(along).collect(),
        stages: vec![stage(f64::INFINITY)],
        without: vec![None, Some(vec![true; 4])],
        left_out: vec![0.0, 0.05],
        straightened: vec![true, false],
        iterations: 77,
        renders: 12_345,
        verdict: Verdict::new(vec![Check::at_least("<gradients>", 0.3, 0.35)], Vec::new()),
    }
}

fn record() -> PoseRecord {
    let input = InputRecord {
        sha256_of: None,
        role: "ct".to_owned(),
        path: "/data/<ct>.nii".to_owned(),
        sha256: String::new(),
        grid: None,
    };
    let run = RunRecord {
        inputs: vec![input],
        parameters: serde_json::json!({"similarity": "<ncc>"}),
        ..RunRecord::default()
    };
    let grid = Grid::axis_aligned([10, 12, 8], [20.0; 3]).unwrap();
    let view = |name: &str, angle| ViewRecord::new(name, &arm(angle, [30, 20]));
    let views = vec![(view("<AP>", 0.0), Some([5, 5, 20, 10])), (view("lateral", 90.0), None)];
    PoseRecord::new(run, GridRecord::from(&grid), views, &result())
}

#[test]
fn the_motion_is_that_of_the_ct_in_the_room() {
    let (record, result) = (record(), result());
    // A point of the CT, where it was and where it is found.
    let turn = AffineParameters {
        rotation: Vector3::from(record.rotation_degrees).map(f64::to_radians),
        ..AffineParameters::identity(Vector3::zeros())
    };
    let (turn, centre) = (turn.to_affine().matrix, Vector3::from(record.centre_mm));
    let translation = Vector3::from(record.translation_mm);
    for point in [Vector3::new(1.0, 2.0, 3.0), Vector3::new(-40.0, 25.0, 90.0)] {
        // Turned first, about a point of the CT, and then moved; alike where the search began.
        let is = result.transform.inverse().unwrap().apply(point);
        let moved = turn * (point - centre) + centre + translation;
        assert!((moved - is).norm() < 1e-9, "{moved} {is}");
    }
    let start = Vector3::from(record.start_translation_mm);
    let began = result.start.inverse().unwrap().apply(centre) - centre;
    assert!((began - start).norm() < 1e-9, "{began} {start}");
    assert!((record.start_rotation_degrees[2] + 10.0).abs() < 1e-9);
    assert!((record.landscape[3].offsets[2] - 0.1f64.to_degrees()).abs() < 1e-9);
    assert_eq!(record.landscape[0].offsets[2], 10.0);
    assert_eq!(
        (record.landscape[5].parameter.as_str(), record.landscape[5].unit.as_str()),
        ("rotation z", "degrees")
    );
    assert!((record.uncertainty.restarts.unwrap()[3] - 0.01f64.to_degrees()).abs() < 1e-12);
}

#[test]
fn records_come_back() {
    let record = record();
    let text = record.to_json();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(value["cost_before"].is_null() && value["uncertainty"]["curvature"][1].is_null());
    assert_eq!(value["format"], crate::RECORD_FORMAT);
    let back: PoseRecord = serde_json::from_str(&text).unwrap();
    assert_eq!(back.to_json(), text);
    // What is not a number is equal to nothing, and what is not finite comes back as none.
    let shown = |record: &PoseRecord| {
        let view = format!("{:?}", record.views[0]).replace("inf", "NaN");
        format!("{:?} {view}", record.provenance)
    };
    assert_eq!(shown(&back), shown(&record));
    let uncertainty = &back.uncertainty;
    assert!(uncertainty.curvature[1].is_nan() && uncertainty.restarts_apart_mm[1].is_nan());
    assert!(back.stages[0].cost_start.is_nan() && back.landscape[2].costs[0].is_nan());
    let none = PoseUncertaintyRecord { restarts: None, ..record.uncertainty };
    let back: PoseUncertaintyRecord =
        serde_json::from_str(&serde_json::to_string(&none).unwrap()).unwrap();
    assert_eq!(back.restarts, None);
}

#[test]
fn the_page_is_whole_and_escaped() {
    let record = record();
    let square = |from: usize| -> Vec<f32> {
        let inside =
            |i: usize| (from..from + 10).contains(&(i % 30)) && (5..15).contains(&(i / 30));
        (0..600).map(|i| if inside(i) { 1.0 } else { 0.0 }).collect()
    };
    let values = [square(10), square(14), square(10)];
    let [xray, before, after] = [0, 1, 2].map(|i: usize| XrayPicture::new([30, 20], &values[i]));
    let pictures = [PosePictures { xray, before, after, left_out: None }; 2];
    let page = render(&PoseReport { record: &record, pictures: &pictures }).unwrap();
    assert_eq!(page.matches("<img").count(), 2 * (3 + 1 + 2));
    // The pictures that are compared show the region alone, which is drawn upon the whole image beside them.
    assert_eq!(page.matches("class=\"over mask\"").count(), 1);
    let size = |id: &str| {
        let after = page.split(&format!("id=\"{id}\"")).nth(1).unwrap();
        after.split(" src").next().unwrap().split_once(" width").unwrap().1.to_owned()
    };
    for (id, [w, h]) in [
        ("slice-0-v0", [20, 10]),
        ("slice-2-v0", [20, 10]),
        ("slice-9-v0", [30, 20]),
        ("slice-0-v1", [30, 20]),
    ] {
        assert_eq!(size(id), format!("=\"{w}\" height=\"{h}\""), "{id}");
    }
    let edges = page.split("id=\"edge-").skip(1).map(|p| p.split(" src").next().unwrap());
    let sizes: Vec<_> = edges.map(|p| p.split_once(" width").unwrap().1.to_owned()).collect();
    let [part, whole] = [(20, 10), (30, 20)].map(|(w, h)| format!("=\"{w}\" height=\"{h}\""));
    assert!(sizes == [part.clone(), part, whole.clone(), whole], "{sizes:?}");
    assert_eq!(page.matches("the region that counted</small>").count(), 1);
    // Six parameters, one stage, two sketches.
    assert_eq!(page.matches("<svg class=\"chart").count(), 6 + 1 + 2);
    assert_eq!(page.matches("l6 6").count(), 6);
    assert!(page.contains("Verdict: Bad") && page.contains(">unknown<"));
    assert!(page.contains("&lt;ct&gt;.nii by 2 X-ray images") && page.contains("12\u{202f}345"));
    assert!(!page.contains("Bins"));
    for raw in ["<AP>", "<ct>", "<ncc>", "<gradients>", "NaN", ">inf"] {
        assert!(!page.contains(raw), "{raw}");
    }
    for tag in ["div", "section", "figure", "table", "svg", "p", "g", "details", "small"] {
        let count = |text: &str| page.matches(text).count();
        let opened = count(&format!("<{tag}>")) + count(&format!("<{tag} "));
        assert_eq!(opened, count(&format!("</{tag}>")), "{tag}");
    }
    // What was left out is painted.
    assert!(!page.contains("left out"));
    let left_out: Vec<f32> = square(10);
    let left_out = Some(XrayPicture::new([30, 20], &left_out));
    let painted = pictures.map(|of| PosePictures { left_out, ..of });
    let painted = render(&PoseReport { record: &record, pictures: &painted }).unwrap();
    let picture = |page: &str, id: &str| {
        let after = page.split(&format!("id=\"{id}\"")).nth(1).unwrap();
        after.split("src=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
    };
    assert!(painted.contains("not in the CT: left out"));
    for (id, same) in [("slice-0-v1", true), ("edge-2-v0", false), ("edge-2-v1", false)] {
        assert_eq!(picture(&painted, id) == picture(&page, id), same, "{id}");
    }
    assert_eq!((record.views[0].left_out, record.views[1].left_out), (None, Some(0.05)));
    assert_eq!((record.views[0].straightened, record.views[1].straightened), (true, false));
    // Without pictures all the rest is there.
    let page = render(&PoseReport { record: &record, pictures: &[] }).unwrap();
    assert!(!page.contains("<img") && !page.contains("#fig-slices\"") && page.contains("Verdict"));
    // Pictures of other sizes than each other have no lines; those of other sizes than they say are refused.
    let small = XrayPicture::new([2, 2], &values[0][..4]);
    let odd = [PosePictures { after: small, ..pictures[0] }];
    assert!(render(&PoseReport { record: &record, pictures: &odd }).is_ok());
    let wrong = [PosePictures { after: XrayPicture::new([3, 2], &values[0][..4]), ..pictures[0] }];
    assert!(render(&PoseReport { record: &record, pictures: &wrong }).is_err());
}
