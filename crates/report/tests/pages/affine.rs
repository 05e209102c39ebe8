//! The whole report, also in a real browser.

use crate::common::{HIDDEN, browser, check, draw, is_printable, noise, soon};
use voxalign_image::{Affine, AffineParameters, Grid, LabelMap, Matrix3, Vector3, Volume};
use voxalign_register::Verdict;
use voxalign_register::search::{StageRecord, TracePoint};
use voxalign_report::{
    AffineReport, BlockScaleRecord, DistributedRecord, Figure, Images, InputRecord, PyramidRecord,
    RankRecord, RunRecord, TransformRecord, When, affine,
};

/// A head of nested ellipsoids, moved by a transform.
fn head(grid: &Grid, moved: &Affine) -> (Volume<f32>, LabelMap) {
    let mut values = Vec::new();
    let mut labels = Vec::new();
    let [nx, ny, nz] = grid.dims();
    for (z, y, x) in
        (0..nz).flat_map(|z| (0..ny).flat_map(move |y| (0..nx).map(move |x| (z, y, x))))
    {
        let world = grid.index_to_world(Vector3::new(x as f64, y as f64, z as f64));
        let p = moved.apply(world) - grid.centre();
        let radius = |a: f64, b: f64, c: f64| (p[0] / a).hypot(p[1] / b).hypot(p[2] / c);
        let (value, label) = match () {
            () if (p - Vector3::new(12.0, 20.0, 8.0)).norm() < 8.0 => (40.0, 3),
            () if radius(28.0, 36.0, 24.0) < 1.0 => (100.0, 2),
            () if radius(42.0, 54.0, 38.0) < 1.0 => (70.0, 1),
            () => (0.0, 0),
        };
        values.push(value + ((x * 7 + y * 13 + z * 5) % 11) as f32 * 0.3);
        labels.push(label);
    }
    let volume = Volume::new(grid.clone(), values).unwrap();
    (volume, LabelMap::new(grid.clone(), labels).unwrap())
}

fn stage(name: &str, count: usize) -> StageRecord {
    let cost = |i: usize| 0.3 + 0.5 / (1.0 + i as f64 * 0.1);
    StageRecord {
        name: name.into(),
        spacing: [8.0; 3],
        samples: 12_345,
        cost: if name.starts_with('1') { "ncc" } else { "nmi" }.to_owned(),
        bins: 32,
        dof: vec![6, 12],
        candidates: [24, 4],
        evaluations: count,
        cost_start: cost(0),
        cost_end: cost(count),
        seconds: 0.25,
        trace: (0..count).map(|i| TracePoint { evaluation: i, cost: cost(i) }).collect(),
    }
}

fn record(grid: &Grid, transform: &Affine, good: bool) -> RunRecord {
    let input = |role: &str| InputRecord {
        sha256_of: None,
        role: role.into(),
        path: format!("/data/<{role}>{HIDDEN} & \"friends\".nii.gz"),
        sha256: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08".into(),
        grid: Some(grid.into()),
    };
    RunRecord {
        program: "voxalign affine".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        command: ["voxalign", "affine", "<script>alert(1)</script>", HIDDEN].map(Into::into).into(),
        date: "2026-01-31T12:00:00Z".into(),
        inputs: vec![input("fixed"), input("moving")],
        parameters: serde_json::json!({"cost": "cr", "dof": 12, "note": format!("</script><b>{HIDDEN}")}),
        transform: TransformRecord::new(transform, grid.centre()),
        stages: vec![stage("8 mm", 300), stage("4 mm", 80), stage("2 mm", 40)],
        figures: [
            (Figure::Cost, Some(When::Before), 0.8),
            (Figure::Cost, Some(When::After), 0.3),
            (Figure::Overlap, None, 0.97),
        ]
        .into(),
        timings: [("read", 0.1), ("register", 1.5)].map(|(k, v)| (k.to_owned(), v)).into(),
        verdict: Verdict::new(
            vec![
                check("overlap of the fields of view", 0.97, "at least 0.3", true),
                check("volume factor", 1.04, "between 0.4 and 2.5", good),
            ],
            vec![format!("<i>remark</i>{HIDDEN}").into()],
        ),
        ..RunRecord::default()
    }
}

/// The whole report on the head over a grid.
fn report(grid: &Grid, labels: bool, good: bool) -> String {
    let parts = AffineParameters {
        translation: Vector3::new(9.0, -6.0, 5.0),
        rotation: Vector3::new(0.05, -0.1, 0.3),
        ..AffineParameters::identity(grid.centre())
    };
    let transform = parts.to_affine();
    let (fixed, fixed_labels) = head(grid, &Affine::identity());
    let (before, before_labels) = head(grid, &transform);
    let (after, after_labels) = head(grid, &Affine::translation(Vector3::new(0.4, 0.3, 0.0)));
    let record = record(grid, &transform, good);
    affine::render(&AffineReport {
        record: &record,
        images: Images {
            fixed_labels: labels.then_some(&fixed_labels),
            before_labels: labels.then_some(&before_labels),
            after_labels: labels.then_some(&after_labels),
            ..Images::new(&fixed, &before, &after)
        },
    })
    .unwrap()
}

fn oblique() -> Grid {
    let tilt = AffineParameters {
        rotation: Vector3::new(0.1, 0.05, -0.15),
        ..AffineParameters::identity(Vector3::zeros())
    };
    let matrix =
        tilt.to_affine().matrix * Matrix3::new(0.0, 0.0, 1.0, -1.5, 0.0, 0.0, 0.0, -2.5, 0.0);
    Grid::new([80, 40, 96], Affine::new(matrix, Vector3::new(-40.0, 60.0, 50.0))).unwrap()
}

#[test]
fn nothing_of_the_input_becomes_markup_and_nothing_is_loaded() {
    let page = report(&oblique(), true, true);
    assert!(!page.contains("<script>alert") && !page.contains("<i>remark"));
    is_printable(&page);
    assert_eq!(page.matches("<script").count(), 1);
    assert_eq!(page.matches("</script>").count(), 1);
    for outside in ["http://", "https://", "src=\"/", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert_eq!(page.matches("<img ").count(), page.matches(" alt=\"").count());
    assert_eq!(page.matches("<figure id=\"").count(), page.matches("<figcaption>").count());
    for id in ["slices", "checkerboard", "edges", "difference", "labels", "histogram", "cost"] {
        assert!(page.contains(&format!("<figure id=\"fig-{id}\"")), "{id}");
    }
    assert!(page.contains("oblique") && page.contains("radiological"));
    assert!(page.contains("Verdict: Good"));
    assert!(report(&oblique(), false, false).contains("Verdict: Bad"));
}

#[test]
fn a_mask_is_told_and_drawn() {
    let grid = oblique();
    let (image, labels) = head(&grid, &Affine::identity());
    let mask = labels.map(|&l| f32::from(u8::from(l > 1)));
    let mut record = record(&grid, &Affine::identity(), true);
    let page = |record: &RunRecord, mask| {
        let images = Images { fixed_mask: mask, ..Images::new(&image, &image, &image) };
        affine::render(&AffineReport { record, images }).unwrap()
    };
    let without = page(&record, None);
    assert!(!without.contains("class=\"over mask\"") && !without.contains("is inside the mask"));
    record.inputs.push(InputRecord { role: "fixed_mask".into(), ..record.inputs[0].clone() });
    let with = page(&record, Some(&mask));
    // Fixed, before and after, and two differences, on three planes.
    assert_eq!(with.matches("class=\"over mask\"").count(), 15);
    assert!(with.contains("Only voxels inside the mask of the fixed image counted."));
    assert!(with.contains("the fixed mask: only voxels inside it counted"));
    let other = Volume::filled(Grid::axis_aligned([4, 4, 4], [1.0; 3]).unwrap(), 1.0);
    let images = Images { fixed_mask: Some(&other), ..Images::new(&image, &image, &image) };
    let error = affine::render(&AffineReport { record: &record, images }).unwrap_err();
    assert!(error.to_string().contains("fixed mask"), "{error}");
}

#[test]
fn ct_is_shown_in_a_window_that_is_told() {
    let grid = oblique();
    let (mr, _) = head(&grid, &Affine::identity());
    // Air, brain and bone.
    let ct = mr.map(|&v| {
        if v < 20.0 {
            -1000.0
        } else if v > 80.0 {
            900.0
        } else {
            v / 2.0
        }
    });
    let record = record(&grid, &Affine::identity(), true);
    let images = Images::new(&mr, &ct, &ct);
    let page = affine::render(&AffineReport { record: &record, images }).unwrap();
    let wanted = "the moving image from \u{2212}160 to 240 HU (CT, soft tissue).";
    assert!(page.contains(wanted), "{}", page.split("From black").nth(1).unwrap_or(""));
    assert!(page.contains("the fixed image is shown from 0"));
    // The joint histogram has all of the range.
    assert!(page.contains("<span>\u{2212}1000</span>"));
}

#[test]
fn numbers_of_a_table_look_alike() {
    let mut record = record(&oblique(), &Affine::identity(), true);
    record.verdict.checks[0].value = 1.0;
    record.verdict.checks[1].value = 0.99997;
    record.figures.set_at(Figure::Cost, When::Before, 0.05);
    let (image, _) = head(&oblique(), &Affine::identity());
    let images = Images::new(&image, &image, &image);
    let page = affine::render(&AffineReport { record: &record, images }).unwrap();
    assert_eq!(page.matches("<td class=\"n\">1.0000</td>").count(), 2);
    assert!(page.contains("<td class=\"n\">0.0500</td><td class=\"n\">0.3000</td>"));
}

#[test]
fn the_same_bytes_every_time() {
    assert_eq!(report(&oblique(), true, true), report(&oblique(), true, true));
}

#[test]
fn odd_images_make_a_report_too() {
    let record = RunRecord::default();
    type Image = (&'static str, [usize; 3], fn(usize) -> f32);
    let images: [Image; 6] = [
        ("constant", [20, 30, 25], |_| 7.0),
        ("zero", [20, 30, 25], |_| 0.0),
        ("nan", [20, 30, 25], |_| f32::NAN),
        ("huge", [9, 9, 9], |i| if i.is_multiple_of(2) { f32::MAX } else { f32::MIN }),
        ("one voxel", [1, 1, 1], |_| 1.0),
        ("a line", [1, 50, 1], |i| i as f32),
    ];
    for (name, dims, value) in images {
        let grid = Grid::axis_aligned(dims, [1.0, 2.0, 0.5]).unwrap();
        let mut i = 0;
        let image = Volume::from_fn(grid, |_, _, _| {
            i += 1;
            value(i)
        });
        let page = affine::render(&AffineReport {
            record: &record,
            images: Images::new(&image, &image, &image),
        })
        .unwrap();
        assert!(!page.contains("NaN") && !page.contains("inf<"), "{name}");
        assert!(page.contains("There were no stages"));
    }
}

#[test]
fn another_grid_is_an_error() {
    let grid = Grid::axis_aligned([4, 4, 4], [1.0; 3]).unwrap();
    let image = Volume::filled(grid.clone(), 0.0);
    let moved = grid.moved(&Affine::translation(Vector3::x())).unwrap();
    let other = Volume::filled(moved, 0.0);
    let error = affine::render(&AffineReport {
        record: &RunRecord::default(),
        images: Images::new(&image, &image, &other),
    })
    .unwrap_err()
    .to_string();
    assert!(error.contains("moving (after)") && error.contains("resample"), "{error}");
}

#[test]
fn a_whole_head_is_quick_and_small() {
    let grid = Grid::axis_aligned([182, 218, 182], [1.0; 3]).unwrap();
    let [fixed, before, after] = [0, 5, 11].map(|seed| noise(&grid, seed));
    let record = record(&grid, &Affine::identity(), true);
    let report = AffineReport { record: &record, images: Images::new(&fixed, &before, &after) };
    let page = soon(2.0, || affine::render(&report).unwrap());
    assert!(page.len() < 4_000_000, "{}", page.len());
}

#[test]
fn every_figure_is_drawn_in_a_browser() {
    let Some(browser) = browser() else { return };
    let flat = Grid::axis_aligned([120, 140, 1], [1.0; 3]).unwrap();
    let cases = [
        ("volume", oblique(), true, 1280),
        ("narrow", oblique(), false, 420),
        ("flat", flat, true, 1280),
    ];
    for (name, grid, good, width) in cases {
        let expected = page_images(&grid, good);
        draw(&browser, &format!("affine-{name}"), &report(&grid, good, good), expected, width);
    }
}

/// How many pictures the page has with its comparison.
fn page_images(grid: &Grid, labels: bool) -> usize {
    // An image of one slice has no mosaic.
    let (planes, mosaic) = if grid.is_2d() { (1, 0) } else { (3, 12) };
    planes * (3 + 2 * 3 + if labels { 2 } else { 0 } + 2) + 2 + mosaic
}

/// Sections are of pixels, areas and two axes, also where ranks registered them together.
#[test]
fn sections_have_the_words_of_two_dimensions() {
    let axes = Matrix3::from_diagonal(&Vector3::new(-0.01, -0.01, 0.01));
    let grid = Grid::new([90, 70, 1], Affine::new(axes, Vector3::zeros())).unwrap();
    let image = Volume::from_fn(grid.clone(), |x, y, _| ((x / 9 + y / 7) % 5) as f32 * 30.0);
    let (s, c) = 0.2f64.sin_cos();
    let turn = Matrix3::new(1.1 * c, -s, 0.0, 1.1 * s, c, 0.0, 0.0, 0.0, 1.0);
    let transform = Affine::about(turn, grid.centre(), Vector3::new(0.03, -0.04, 0.0));
    let mut record = record(&grid, &transform, true);
    for stage in &mut record.stages {
        stage.spacing = [0.02, 0.04, 0.01];
    }
    record.host.threads = 1;
    let rank = |name: &str| RankRecord { name: name.to_owned(), ..RankRecord::default() };
    let image_of = |role: &str, channels| PyramidRecord {
        role: role.to_owned(),
        channels,
        levels: vec![[90, 70, 1]],
        ..PyramidRecord::default()
    };
    record.distributed = Some(DistributedRecord {
        asked: "peer".to_owned(),
        ranks: vec![rank("here"), rank("there")],
        images: vec![image_of("fixed", 3), image_of("moving", 1)],
        scales: vec![BlockScaleRecord { peers: true, ..BlockScaleRecord::default() }],
        ..DistributedRecord::default()
    });
    let images = Images::new(&image, &image, &image);
    let page = affine::render(&AffineReport { record: &record, images }).unwrap();
    for words in [
        "90 \u{d7} 70 pixels",
        "x 0.03000\u{a0}mm, y \u{2212}0.04000\u{a0}mm",
        "11.46\u{b0}",
        "x 1.1000, y 1.0000; the moving section is 10.00\u{a0}% larger by area",
        ">0.02000 \u{d7} 0.04000<",
        "2 ranks, 1 thread each",
        "ranks read each other",
        "3, as luminance",
        "<th scope=\"row\">1</th><td>there</td>",
    ] {
        assert!(page.contains(words), "{words}");
    }
    for words in ["voxel", "pitch", "to the front", "anatomy", "by volume", "yaw"] {
        let at = page.find(words).map(|at| page[..at].chars().rev().take(60).collect::<String>());
        assert!(at.is_none(), "{words} after {at:?}");
    }
}
