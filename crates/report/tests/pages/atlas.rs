//! The report on an atlas, also in a real browser.

use crate::common::{HIDDEN, browser, check, draw, is_printable, noise, show, soon};
use voxalign_image::{Affine, Grid, LabelMap, Mesh, Vector3, Volume};
use voxalign_population::atlas::{Sharpness, Snapshot};
use voxalign_population::stream::{Engine, StageName, Task, Trace};
use voxalign_register::Check;
use voxalign_register::Verdict;
use voxalign_register::compare::MeshScores;
use voxalign_register::measures::FieldMeasures;
use voxalign_register::multiscale::ScaleRecord;
use voxalign_report::anatomy::{AnatomyRecord, MarksRecord, ShapeRecord};
use voxalign_report::atlas::{AtlasRecord, AtlasReport, SubjectRecord, render};
use voxalign_report::{
    Figure, GridRecord, InputRecord, RunRecord, TemplateMarks, TemplateRecord, TemplateShape, When,
};

/// What a report is made of.
struct Made {
    record: AtlasRecord,
    images: [Volume<f32>; 5],
    labels: LabelMap,
    snapshots: Vec<Snapshot>,
    trace: Trace,
}

impl Made {
    fn new(grid: &Grid, subjects: usize, good: bool) -> Self {
        let images = [
            head(grid, 0.25),
            head(grid, 0.05),
            head(grid, 0.3).map(|v| 0.05 * v * (1.0 - v)),
            head(grid, 0.3).map(|v| 8.0 * v * (1.0 - v)),
            head(grid, 0.4).map(|v| 0.2 * (v - 0.5)),
        ];
        let blur = |by: f32| head(grid, by);
        let snapshots = vec![
            Snapshot::of(&blur(0.3), 4, 0),
            Snapshot::of(&blur(0.2), 4, 30),
            Snapshot::of(&blur(0.1), 2, 15),
            Snapshot::of(&blur(0.05), 1, 10),
        ];
        Self {
            record: record(grid, subjects, good),
            labels: images[1].map(|v| (v * 4.0) as i32),
            images,
            snapshots,
            trace: trace(subjects),
        }
    }

    fn report(&self) -> AtlasReport<'_> {
        let [affine_mean, template, variance, entropy, log_jacobian] = &self.images;
        AtlasReport {
            record: &self.record,
            affine_mean,
            template,
            variance,
            entropy,
            log_jacobian,
            labels: Some(&self.labels),
            snapshots: &self.snapshots,
            timeline: Some(&self.trace),
            shapes: &[],
            marks: &[],
        }
    }
}

/// A head of two shells, their borders so wide.
fn head(grid: &Grid, border: f32) -> Volume<f32> {
    let centre = grid.centre();
    let size = grid.extent().iter().fold(0.0f64, |a, &b| a.max(b)) / 2.0;
    let flat = grid.is_2d();
    Volume::from_fn(grid.clone(), |x, y, z| {
        let mut p =
            (grid.index_to_world(Vector3::new(x as f64, y as f64, z as f64)) - centre) / size;
        if flat {
            p[2] = 0.0;
        }
        let radius = (p.norm() + 0.04 * (7.0 * p[1].atan2(p[0])).sin()) as f32;
        let inside = |r: f32| 1.0 / (1.0 + ((radius - r) * 4.0 / border).exp());
        0.55 * inside(0.7) + 0.4 * inside(0.35)
    })
}

fn record(grid: &Grid, subjects: usize, good: bool) -> AtlasRecord {
    let run = RunRecord {
        program: "voxalign atlas".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        command: ["voxalign", "atlas", "<script>alert(1)</script>"].map(Into::into).into(),
        date: "2026-01-31T12:00:00Z".into(),
        inputs: (0..subjects)
            .map(|i| InputRecord {
                sha256_of: None,
                role: "channel".into(),
                path: format!("data/subject{i}{HIDDEN}.nii.gz"),
                sha256: format!("{i:064x}"),
                grid: Some(GridRecord::from(grid)),
            })
            .collect(),
        parameters: serde_json::json!({"model": "greedy", "centre": true}),
        ..RunRecord::default()
    };
    let mut record = AtlasRecord::new(run, GridRecord::from(grid));
    record.subjects = (0..subjects).map(|i| subject(i, subjects, good)).collect();
    for (scale, (factor, count)) in [(4, 30), (2, 20), (1, 10)].into_iter().enumerate() {
        let fall = |i: usize| (-(i as f64) / 8.0).exp();
        let from = 5.0 - 0.2 * scale as f64;
        record.sharpness.extend((0..=count).map(|iteration| Sharpness {
            factor,
            iteration,
            entropy: from + 0.4 * fall(iteration),
            gradient_energy: 0.001 * (1.0 + scale as f64 - fall(iteration)),
        }));
        record.scales.push(ScaleRecord {
            parts: Vec::new(),
            motion: Vec::new(),
            factor,
            allowed: count,
            energies: (0..count).map(|i| 3.0 + fall(i)).collect(),
            residual: None,
            seconds: 1.5,
        });
    }
    record.figures = [
        (Figure::Entropy, Some(When::Before), 5.4),
        (Figure::Entropy, Some(When::After), 4.6),
        (Figure::GradientEnergy, Some(When::Before), 0.0012),
        (Figure::GradientEnergy, Some(When::After), 0.0031),
        (Figure::LabelOverlap, Some(When::Before), 0.61),
        (Figure::LabelOverlap, Some(When::After), 0.79),
        (Figure::LogJacobianRms, None, 0.0123),
    ]
    .into();
    record.timings = [("read", 1.0), ("register", 42.0)].map(|(k, v)| (k.to_owned(), v)).into();
    record.verdict = Verdict::new(
        vec![
            check(
                "information about the others within the tissue, as a fraction of that after affine alignment",
                1.4,
                "at least 0.97",
                true,
            ),
            check("subjects whose deformation cannot be used", 1.0, "none", good),
        ],
        vec![format!("<i>remark</i>{HIDDEN}").into()],
    );
    record
}

/// Subjects in the order of the alphabet: the last but one cannot be used, the last is unlike the
/// others where the atlas is not `good`.
fn subject(i: usize, of: usize, good: bool) -> SubjectRecord {
    let folds = !good && i + 2 == of;
    let checks = vec![Check::none("folded voxels", if folds { 12 } else { 0 })];
    let after = 0.95 + 0.03 * (i as f64 / of as f64);
    SubjectRecord {
        name: format!("<b>{i:03}"),
        weight: 1.0,
        covariates: [("age".to_owned(), 60.0 + i as f64)].into(),
        affine: [[0.0; 4]; 4],
        correlation: [after - 0.1, after],
        information: Some([0.9 * after, after]),
        measures: FieldMeasures {
            smallest_jacobian: 0.31,
            largest_jacobian: 2.25,
            folded: if folds { 12 } else { 0 },
            mean_displacement: 2.0 + i as f64 * 0.1,
            largest_displacement: 9.5,
            ..FieldMeasures::default()
        },
        mended: 0,
        outlying: !good && i + 1 == of,
        anatomy: AnatomyRecord::default(),
        verdict: Verdict::new(checks, Vec::new()),
    }
}

fn trace(items: usize) -> Trace {
    let stage = |name: &str, engine| StageName { name: name.into(), engine, workers: 1 };
    let task = |stage: usize, item: usize| {
        let start = (item + stage) as f64 * 0.1;
        Task { queue: stage, stage, item, part: 0, start, end: start + 0.09 }
    };
    Trace {
        queues: vec!["upload".into(), "execute".into()],
        stages: vec![stage("upload", Engine::Upload), stage("execute", Engine::Compute)],
        tasks: (0..items).flat_map(|i| [task(0, i), task(1, i)]).collect(),
    }
}

fn solid() -> Grid {
    Grid::axis_aligned([60, 72, 50], [2.0, 2.0, 2.5]).unwrap()
}

fn flat() -> Grid {
    Grid::axis_aligned([120, 140, 1], [1.0; 3]).unwrap()
}

/// The elements that a page has to close, each as often as it opens it.
fn is_well_formed(page: &str) {
    let tags =
        ["div", "figure", "section", "table", "thead", "tbody", "tr", "th", "td", "svg", "g"];
    for tag in tags.into_iter().chain(["p", "span", "small", "h2", "h3", "main", "nav", "title"]) {
        let opened =
            page.matches(&format!("<{tag} ")).count() + page.matches(&format!("<{tag}>")).count();
        assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
    }
    for link in page.split("href=\"#").skip(1) {
        let id = link.split('"').next().unwrap();
        assert_eq!(page.matches(&format!(" id=\"{id}\"")).count(), 1, "{id}");
    }
    assert_eq!(page.matches("<img ").count(), page.matches(" alt=\"").count());
    // Scripts have words of their own, and pictures any letters.
    let without = |page: &str, begin: &str, end: &str| -> String {
        let parts = page.split(begin).enumerate();
        let kept = parts.map(|(i, part)| match part.split_once(end) {
            Some((_, rest)) if i > 0 => rest,
            _ => part,
        });
        kept.collect()
    };
    let shown = without(&without(page, "<script", "</script>"), "base64,", "\"");
    for odd in ["NaN", "inf<", "inf\""] {
        assert!(!shown.contains(odd), "{odd}");
    }
}

/// The names of the subjects in the order of the table.
fn order(page: &str) -> Vec<&str> {
    let table = page.split("<table class=\"subjects").nth(1).unwrap();
    let body = table.split("<tbody>").nth(1).unwrap().split("</tbody>").next().unwrap();
    let names = body.split("<th scope=\"row\">").skip(1);
    names.map(|row| row.split("</th>").next().unwrap()).collect()
}

#[test]
fn the_page_has_all_parts_and_loads_nothing() {
    let page = render(&Made::new(&solid(), 6, false).report()).unwrap();
    is_well_formed(&page);
    is_printable(&page);
    assert!(
        !page.contains("<script>alert") && !page.contains("<i>remark") && !page.contains("<b>00")
    );
    assert_eq!(page.matches("<script").count(), 1);
    for outside in ["http://", "https://", "src=\"/", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    let figures =
        ["slices", "sharpening", "course", "variance", "entropy", "jacobian", "labels", "timeline"];
    for id in figures {
        assert!(page.contains(&format!("<figure id=\"fig-{id}\"")), "{id}");
        assert!(page.contains(&format!("href=\"#fig-{id}\"")), "{id}");
    }
    for part in [
        "Verdict: Bad",
        "Try &lt;something&gt; else",
        "6 subjects, 1 cannot be used, 1 unlike the others; 60 \u{d7} 72 \u{d7} 50 voxels of 2 \u{d7} 2 \u{d7} 2.5\u{a0}mm",
        "after 30 iterations",
        ">8 mm<small>at the start",
        "svg-entropy",
        "svg-gradient",
        "svg-energy",
        "Mean Dice of all pairs of subjects",
        "<td class=\"n\">5.4000</td><td class=\"n\">4.6000</td>",
        "12 folded voxels (none allowed)",
        // A count of subjects, not a measure.
        "<td class=\"n\">1</td><td>none</td>",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert_eq!(page.matches("<img ").count(), pictures(3, true));
    assert!(page.len() < 3_000_000, "{}", page.len());
}

/// How many pictures a page has, without those of its comparison.
fn pictures(planes: usize, all: bool) -> usize {
    planes * (2 + 3 + if all { 4 + 1 } else { 0 })
}

#[test]
fn an_atlas_of_one_slice() {
    let page = render(&Made::new(&flat(), 2, true).report()).unwrap();
    is_well_formed(&page);
    assert_eq!(page.matches("<img ").count(), pictures(1, true));
    assert!(page.contains("2 subjects, all usable; 120 \u{d7} 140 voxels of 1\u{a0}mm"));
    assert!(page.contains("Verdict: Good"));
    assert!(!page.contains("coronal"));
}

#[test]
fn what_there_is_not_has_no_section() {
    let made = Made::new(&solid(), 3, true);
    let report = AtlasReport { labels: None, snapshots: &[], timeline: None, ..made.report() };
    let page = render(&report).unwrap();
    is_well_formed(&page);
    assert_eq!(page.matches("<img ").count(), pictures(3, false));
    for id in ["fig-sharpening", "fig-labels", "fig-timeline"] {
        assert!(!page.contains(id), "{id}");
    }
    let empty = Trace::default();
    let page = render(&AtlasReport { timeline: Some(&empty), ..report }).unwrap();
    assert!(!page.contains("fig-timeline"));
}

#[test]
fn those_to_look_at_come_first() {
    let made = Made::new(&flat(), 6, false);
    let page = render(&made.report()).unwrap();
    let wanted = ["004", "005", "000", "001", "002", "003"].map(|n| format!("&lt;b&gt;{n}"));
    assert_eq!(order(&page), wanted);
    let row = page.split("&lt;b&gt;005</th>").nth(1).unwrap();
    assert!(row.starts_with("<td><span class=\"warn\">! unlike the others"), "{row:.80}");
}

#[test]
fn hundreds_of_subjects_have_a_window_of_their_own() {
    let few = render(&Made::new(&flat(), 5, true).report()).unwrap();
    assert!(!few.contains("class=\"long\""));
    let page = render(&Made::new(&flat(), 315, true).report()).unwrap();
    is_well_formed(&page);
    assert_eq!(order(&page).len(), 315);
    // The table of the subjects and that of the files.
    assert_eq!(page.matches("class=\"long\"").count(), 2);
    assert!(page.len() < 2_000_000, "{}", page.len());
}

#[test]
fn many_iterations_are_thinned_but_keep_their_ends() {
    let mut made = Made::new(&flat(), 3, true);
    made.snapshots = (0..101).map(|i| Snapshot::of(&made.images[1], 1, i)).collect();
    let page = render(&made.report()).unwrap();
    let shown = page.matches("id=\"snapshot-").count();
    assert!((12..=25).contains(&shown), "{shown}");
    assert!(page.contains("at the start") && page.contains("after 100 iterations"));
}

#[test]
fn slices_of_a_broken_file_are_left_out() {
    let mut made = Made::new(&solid(), 3, true);
    made.snapshots[1].slices[2].dims = [7, 7, 7];
    made.snapshots[2].slices.clear();
    let page = render(&made.report()).unwrap();
    is_well_formed(&page);
    assert_eq!(page.matches("id=\"snapshot-").count(), 3 * 4 - 1 - 3);
    assert!(!page.contains("after 15 iterations"));
}

#[test]
fn the_same_bytes_every_time() {
    let page = || render(&Made::new(&flat(), 4, false).report()).unwrap();
    assert_eq!(page(), page());
}

#[test]
fn odd_images_make_a_report_too() {
    let images: [([usize; 3], f32); 5] = [
        ([20, 30, 25], 0.0),
        ([20, 30, 25], f32::NAN),
        ([9, 9, 9], f32::MAX),
        ([1, 1, 1], 1.0),
        ([1, 50, 1], -3.0),
    ];
    for (dims, value) in images {
        let grid = Grid::axis_aligned(dims, [1.0, 2.0, 0.5]).unwrap();
        let image = Volume::filled(grid.clone(), value);
        let snapshots = [Snapshot::of(&image, 1, 0)];
        let mut record = AtlasRecord::new(RunRecord::default(), GridRecord::from(&grid));
        for subjects in [0, 2] {
            record.subjects = (0..subjects).map(|i| subject(i, subjects, true)).collect();
            record.subjects.iter_mut().for_each(|s| s.correlation = [f64::NAN; 2]);
            let page = render(&AtlasReport {
                record: &record,
                affine_mean: &image,
                template: &image,
                variance: &image,
                entropy: &image,
                log_jacobian: &image,
                labels: Some(&image.map(|_| i32::MIN)),
                snapshots: &snapshots,
                timeline: None,
                shapes: &[],
                marks: &[],
            })
            .unwrap();
            is_well_formed(&page);
            assert!(page.contains("No iteration was recorded") && !page.contains("svg-subjects"));
        }
    }
}

/// Shapes of the template are shown upon slices and in 3D, and how far the subjects are from them is told, with the worst.
#[test]
fn shapes_are_shown() {
    let mut made = Made::new(&Grid::axis_aligned([24, 22, 20], [2.0; 3]).unwrap(), 3, true);
    let corner = |i: usize| {
        Vector3::new(10.0, 12.0, 9.0) + 14.0 * Vector3::from([0, 1, 2].map(|a| (i >> a & 1) as f64))
    };
    let faces = vec![[0, 2, 1], [1, 2, 3], [4, 5, 6], [5, 7, 6], [0, 1, 4], [1, 5, 4]];
    let mesh = Mesh::new((0..8).map(corner).collect(), faces).unwrap();
    let marks = Mesh::new(vec![corner(0), corner(7)], Vec::new()).unwrap();
    let variation = [0.5f32; 8];
    let of = |name: &str, kind: &str| TemplateRecord {
        name: name.to_owned(),
        kind: kind.to_owned(),
        from: "<b>001".to_owned(),
        vertices: 8,
        variation_mm: 0.5,
    };
    let (box_name, marks_name) = (format!("<i>box{HIDDEN}"), format!("marks{HIDDEN}"));
    made.record.geometry = vec![of(&box_name, "surface"), of(&marks_name, "landmarks")];
    for (i, subject) in made.record.subjects.iter_mut().enumerate() {
        let scores = |mean: f64| MeshScores {
            mean,
            p95: 2.0 * mean,
            hausdorff: 3.0 * mean,
            there: mean,
            back: mean,
        };
        subject.anatomy.shapes.push(ShapeRecord {
            name: box_name.clone(),
            kind: "surface".to_owned(),
            vertices: [8; 2],
            elements: [6; 2],
            before: scores(3.0),
            after: scores(0.25 + i as f64),
            bound_mm: 4.0,
        });
        subject.anatomy.landmarks.push(MarksRecord {
            name: marks_name.clone(),
            count: 2,
            mean_before_mm: 5.0,
            mean_after_mm: 0.5,
            largest_after_mm: 0.75 + i as f64,
        });
    }
    let shape = TemplateShape { name: &box_name, mesh: &mesh, variation: &variation };
    let marks = TemplateMarks { name: &marks_name, mesh: &marks };
    let page = render(&AtlasReport { shapes: &[shape], marks: &[marks], ..made.report() }).unwrap();
    is_well_formed(&page);
    for part in
        ["fig-sections", "fig-3d", "id=\"geometry\"", "2.25", "&lt;b&gt;002", "2.75", "variation"]
    {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("<i>box"));
    is_printable(&page);
    let bare = render(&made.report()).unwrap();
    assert!(!bare.contains("fig-3d") && bare.contains("id=\"geometry\""));
    made.record.geometry.clear();
    assert!(!render(&made.report()).unwrap().contains("id=\"geometry\""));
}

#[test]
fn another_grid_is_an_error() {
    let made = Made::new(&flat(), 2, true);
    let moved = flat().moved(&Affine::translation(Vector3::x())).unwrap();
    let other = Volume::filled(moved, 0.0);
    let labels = other.map(|_| 1);
    for (role, report) in [
        ("affine mean", AtlasReport { affine_mean: &other, ..made.report() }),
        ("variance", AtlasReport { variance: &other, ..made.report() }),
        ("entropy", AtlasReport { entropy: &other, ..made.report() }),
        ("mean log Jacobian", AtlasReport { log_jacobian: &other, ..made.report() }),
        ("label", AtlasReport { labels: Some(&labels), ..made.report() }),
    ] {
        let error = render(&report).unwrap_err().to_string();
        assert!(
            error.contains(&format!("the {role} image")) && error.contains("resample"),
            "{error}"
        );
    }
}

#[test]
fn a_whole_head_is_quick_and_small() {
    let grid = Grid::axis_aligned([182, 218, 182], [1.0; 3]).unwrap();
    let images = [0, 5, 11, 17, 23].map(|seed| noise(&grid, seed).map(|v| v / 1000.0));
    let made = Made {
        record: record(&grid, 315, true),
        labels: images[1].map(|v| (v * 10.0) as i32),
        snapshots: (0..12).map(|i| Snapshot::of(&images[1], 1, i)).collect(),
        images,
        trace: trace(315),
    };
    let page = soon(2.0, || render(&made.report()).unwrap());
    assert!(page.len() < 6_000_000, "{}", page.len());
}

#[test]
fn every_figure_is_drawn_in_a_browser() {
    let Some(browser) = browser() else { return };
    let cases = [
        ("volume", solid(), 12, false, 1280),
        ("narrow", solid(), 3, true, 420),
        ("flat", flat(), 2, true, 1280),
        ("many", flat(), 315, false, 1280),
    ];
    for (name, grid, subjects, good, width) in cases {
        let page = render(&Made::new(&grid, subjects, good).report()).unwrap();
        let planes = if grid.is_2d() { 1 } else { 3 };
        let expected = pictures(planes, true) + 2 * planes;
        draw(&browser, &format!("atlas-{name}"), &page, expected, width);
    }
}

#[test]
fn headings_sort_the_subjects() {
    let Some(browser) = browser() else { return };
    let page = render(&Made::new(&flat(), 12, false).report()).unwrap();
    // The fifth heading is that of the correlations before, whose largest come first.
    let click =
        "<script>document.querySelectorAll('table.subjects .sort')[4].click()</script></body>";
    let dom = show(&browser, "atlas-sorted", &page.replace("</body>", click), 1280);
    let wanted: Vec<String> = (0..12).rev().map(|i| format!("&lt;b&gt;{i:03}")).collect();
    assert_eq!(order(&dom), wanted);
    assert!(dom.contains("aria-sort=\"descending\""));
}
