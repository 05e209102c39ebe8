//! The pages on X-ray images, also in a real browser.

use crate::common::{HIDDEN, browser, check, draw, is_printable, soon};
use voxalign_image::{Affine, AffineParameters, CArm, Grid, Vector3, XrayGeometry};
use voxalign_register::Verdict;
use voxalign_register::projection::PoseResult;
use voxalign_register::projection::register::{Evidence, Landscape, Uncertainty};
use voxalign_register::search::{StageRecord, TracePoint};
use voxalign_report::{
    DrrImageRecord, DrrRecord, DrrReport, GridRecord, InputRecord, PosePictures, PoseRecord,
    PoseReport, RunRecord, ViewRecord, XrayPicture, drr, pose,
};

/// Bodies: their middles, half axes, mm, and what they add to the attenuation, 1/mm.
const HEAD: [([f64; 3], [f64; 3], f64); 12] = [
    ([0.0, 0.0, 0.0], [76.0, 95.0, 85.0], 0.045),
    ([0.0, 0.0, 0.0], [70.0, 89.0, 79.0], -0.026),
    ([-30.0, 50.0, -22.0], [16.0, 20.0, 15.0], -0.01),
    ([30.0, 50.0, -22.0], [16.0, 20.0, 15.0], -0.01),
    ([0.0, 52.0, -40.0], [10.0, 16.0, 15.0], -0.015),
    ([0.0, 45.0, -85.0], [38.0, 44.0, 12.0], 0.03),
    ([0.0, -25.0, -88.0], [22.0, 20.0, 8.0], 0.04),
    ([0.0, -27.0, -106.0], [21.0, 19.0, 8.0], 0.04),
    ([0.0, -29.0, -124.0], [22.0, 20.0, 8.0], 0.04),
    ([0.0, -5.0, -110.0], [58.0, 60.0, 50.0], 0.012),
    ([-52.0, -10.0, -40.0], [15.0, 26.0, 12.0], 0.04),
    ([52.0, -10.0, -40.0], [15.0, 26.0, 12.0], 0.04),
];

/// The integrals of the attenuation along the rays of a view.
fn integrals(view: &XrayGeometry, pose: &Affine) -> Vec<f32> {
    let view = view.mapped(pose);
    let [columns, rows] = view.dims();
    let along = |column: usize, row: usize| {
        let ray = (view.place(column as f64, row as f64) - view.source()).normalize();
        let chord = |(middle, axes, value): &([f64; 3], [f64; 3], f64)| {
            let axes = Vector3::from(*axes);
            let from = (view.source() - Vector3::from(*middle)).component_div(&axes);
            let ray = ray.component_div(&axes);
            let (a, b) = (ray.norm_squared(), from.dot(&ray));
            let root = b * b - a * (from.norm_squared() - 1.0);
            value * 2.0 * root.max(0.0).sqrt() / a
        };
        HEAD.iter().map(chord).sum::<f64>() as f32
    };
    (0..rows).flat_map(|row| (0..columns).map(move |column| along(column, row))).collect()
}

/// The same with noise and an instrument.
fn xray(view: &XrayGeometry, pose: &Affine) -> Vec<f32> {
    let width = view.dims()[0];
    let mut values = integrals(view, pose);
    for (i, value) in values.iter_mut().enumerate() {
        let noise = (i.wrapping_mul(2_654_435_761) >> 9) % 97;
        *value += noise as f32 * 0.003;
        let (x, y) = ((i % width) as f64 / width as f64, (i / width) as f64 / width as f64);
        if (x + 0.6 * y - 0.55).abs() < 0.006 && y < 0.4 {
            *value += 4.0;
        }
    }
    values
}

fn arm(primary: f64, secondary: f64, dims: [usize; 2], pixel: [f64; 2]) -> XrayGeometry {
    let arm = CArm {
        source_to_isocentre: 780.0,
        source_to_detector: 1200.0,
        isocentre: Vector3::new(0.0, 0.0, -20.0),
        primary: primary.to_radians(),
        secondary: secondary.to_radians(),
        pixel_size: pixel,
        dims,
        centre: None,
    };
    arm.geometry().unwrap()
}

/// A pose whose CT is turned, degrees, and moved, mm.
fn turned(rotation: [f64; 3], offset: [f64; 3]) -> Affine {
    let parts = AffineParameters {
        rotation: Vector3::from(rotation).map(f64::to_radians),
        translation: Vector3::from(offset),
        ..AffineParameters::identity(Vector3::zeros())
    };
    parts.to_affine()
}

fn grid() -> Grid {
    let to_world = Affine::translation(Vector3::new(-100.0, -110.0, -165.0));
    Grid::new([200, 220, 260], to_world).unwrap()
}

fn run(program: &str) -> RunRecord {
    let input = |role: &str, name: &str| InputRecord {
        sha256_of: None,
        role: role.into(),
        path: format!("/data/{name} & \"friends\".nii.gz"),
        sha256: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08".into(),
        grid: (role == "ct").then(|| GridRecord::from(&grid())),
    };
    RunRecord {
        program: program.into(),
        version: env!("CARGO_PKG_VERSION").into(),
        command: ["voxalign", "pose", "<script>alert(1)</script>", "a b"].map(Into::into).into(),
        date: "2026-01-31T12:00:00Z".into(),
        inputs: vec![input("ct", "<ct>"), input("xray", "AP"), input("xray", "lateral")],
        parameters: serde_json::json!({"similarity": "gradient_ncc", "note": "</script><b>"}),
        ..RunRecord::default()
    }
}

/// Costs along a parameter, with a valley beside the deepest one.
fn along(reach: f64, width: f64) -> Landscape {
    let offsets: Vec<f64> = (-20..=20).map(|i| reach * f64::from(i) / 20.0).collect();
    let valley = |x: f64| (-(x / reach / width).powi(2)).exp();
    let cost = |x: &f64| 0.9 - 0.65 * valley(*x) - 0.15 * valley(x - 0.7 * reach);
    Landscape { costs: offsets.iter().map(cost).collect(), offsets }
}

fn stage(size: f64, count: usize) -> StageRecord {
    let cost = |i: usize| 0.25 + 0.5 / (1.0 + i as f64 * 0.1);
    StageRecord {
        name: format!("{size:.1} mm"),
        spacing: [size; 3],
        samples: 9000,
        cost: String::new(),
        bins: 0,
        dof: vec![6],
        candidates: [16, 6],
        evaluations: count,
        cost_start: cost(0),
        cost_end: cost(count),
        seconds: 0.7,
        trace: (0..count).map(|i| TracePoint { evaluation: i, cost: cost(i) }).collect(),
    }
}

/// What a search would give.
fn found(start: Affine, good: bool) -> PoseResult {
    PoseResult {
        transform: turned([0.0, 2.0, -3.0], [1.0, -2.0, 4.0]),
        start,
        centre: Vector3::new(0.0, 3.0, -15.0),
        costs: [0.83, 0.25],
        by_view: vec![0.21, 0.29],
        correlations: vec![0.79, 0.71],
        evidence: Evidence::default(),
        middle: Vector3::zeros(),
        geometry: Vec::new(),
        uncertainty: Uncertainty {
            curvature: [0.08, 0.21, 0.05, 0.002, f64::INFINITY, 0.001],
            restarts: Some([0.1, 0.2, 0.06, 0.003, 0.004, 0.001]),
            apart: vec![0.12, 0.31, 0.08, 0.22],
            by_blocks: None,
            covariance: None,
        },
        landscape: (0..6)
            .map(|i| along(if i < 3 { 16.0 } else { 0.2 }, 0.2 + 0.1 * i as f64))
            .collect(),
        stages: vec![stage(4.0, 900), stage(2.0, 300), stage(1.0, 120)],
        without: vec![None; 2],
        left_out: vec![0.0; 2],
        straightened: vec![false; 2],
        iterations: 310,
        renders: 4210,
        verdict: Verdict::new(
            vec![
                check("gradient correlation, in the worst view", 0.71, "at least 0.35", true),
                check("margin over the best competing pose", 0.2, "at least 0.05", good),
            ],
            vec!["<i>remark</i>".into()],
        ),
    }
}

#[test]
fn poses_draw_in_a_browser() {
    let start = turned([3.0, -4.0, 2.0], [-6.0, 3.0, -5.0]);
    let result = found(start, true);
    let views = [arm(0.0, 0.0, [400, 360], [0.8, 0.8]), arm(90.0, 10.0, [400, 500], [0.8, 0.6])];
    let images: Vec<[Vec<f32>; 3]> = views
        .iter()
        .map(|v| {
            [xray(v, &result.transform), integrals(v, &start), integrals(v, &result.transform)]
        })
        .collect();
    let all: Vec<PosePictures<'_>> = views
        .iter()
        .zip(&images)
        .map(|(view, values)| {
            let [xray, before, after] =
                [0, 1, 2].map(|i: usize| XrayPicture::new(view.dims(), &values[i]));
            PosePictures { xray, before, after, left_out: None }
        })
        .collect();
    let records = || {
        let regions = [Some([40, 30, 320, 300]), None];
        [format!("AP <1>{HIDDEN}"), "lateral".to_owned()]
            .into_iter()
            .zip(&views)
            .zip(regions)
            .map(|((n, v), r)| (ViewRecord::new(n, v), r))
    };
    let mut both = PoseRecord::new(
        run("voxalign pose"),
        GridRecord::from(&grid()),
        records().collect(),
        &result,
    );
    both.timings =
        [("read", 0.4), ("register", 6.5), ("write", 0.2)].map(|(k, v)| (k.to_owned(), v)).into();
    let page = soon(2.0, || pose::render(&PoseReport { record: &both, pictures: &all }).unwrap());
    assert!(
        page.contains("Verdict: Good") && !page.contains("<script>alert") && !page.contains("<1>")
    );
    is_printable(&page);
    let single = found(start, false);
    let one = PoseRecord::new(
        run("voxalign pose"),
        GridRecord::from(&grid()),
        records().take(1).collect(),
        &single,
    );
    let narrow = pose::render(&PoseReport { record: &one, pictures: &all }).unwrap();
    if let Some(browser) = browser() {
        // Three pictures and two with edges of each view, two to compare, and the whole image, as one has a region.
        draw(&browser, "pose", &page, 2 * 8, 1200);
        draw(&browser, "pose-single", &narrow, 8, 420);
    }
}

#[test]
fn simulated_images_draw_in_a_browser() {
    let views: Vec<XrayGeometry> = [(0.0, 0.0), (90.0, 0.0), (-30.0, 20.0)]
        .map(|(a, b)| arm(a, b, [1200, 1100], [0.27, 0.27]))
        .into();
    let pose = turned([0.0, 0.0, 5.0], [0.0; 3]);
    let mut values: Vec<Vec<f32>> = views.iter().map(|v| integrals(v, &pose)).collect();
    values[2].iter_mut().for_each(|v| *v = (-*v).exp());
    let mut record = DrrRecord::new(run("voxalign drr"), GridRecord::from(&grid()));
    for (i, view) in views.iter().enumerate() {
        let name = format!("{}{HIDDEN}", ["AP", "lateral", "<oblique>"][i]);
        record.images.push(DrrImageRecord {
            view: ViewRecord::new(name.clone(), view),
            pose: pose.rows(),
            rotation_degrees: [0.0, 0.0, -5.0],
            translation_mm: [0.0; 3],
            centre_mm: grid().centre().into(),
            least: values[i].iter().fold(f64::INFINITY, |a, v| a.min(f64::from(*v))),
            most: values[i].iter().fold(f64::NEG_INFINITY, |a, v| a.max(f64::from(*v))),
            unit: if i == 2 { "intensity" } else { "attenuation" }.to_owned(),
            window: None,
            files: vec![format!("out/{name}.nii.gz"), format!("out/{name}.png")],
            name,
        });
    }
    let mut pictures: Vec<XrayPicture<'_>> =
        views.iter().zip(&values).map(|(v, values)| XrayPicture::new(v.dims(), values)).collect();
    pictures[2] = pictures[2].inverted();
    let page =
        soon(4.0, || drr::render(&DrrReport { record: &record, pictures: &pictures }).unwrap());
    is_printable(&page);
    assert!(!page.contains("<oblique>") && !page.contains("id=\"verdict\""));
    record.images.truncate(1);
    let one = drr::render(&DrrReport { record: &record, pictures: &pictures }).unwrap();
    if let Some(browser) = browser() {
        draw(&browser, "drr", &page, 3, 1200);
        draw(&browser, "drr-single", &one, 1, 420);
    }
}
