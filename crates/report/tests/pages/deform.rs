//! The report on a deformable registration, also in a real browser.

use crate::common::{browser, check, draw, noise, soon, tables_that_are_cut};
use voxalign_image::{
    Affine, AffineParameters, Displacement, Grid, LabelMap, Matrix3, Transform, Vector3,
    VectorField, Volume,
};
use voxalign_register::Verdict;
use voxalign_register::diffeo::DeformationEvidence;
use voxalign_register::diffeo::clip::IndexBox;
use voxalign_register::evidence::{Evidence, Measures, Unmasked};
use voxalign_register::measures::FieldMeasures;
use voxalign_report::deform::{self, DeformReport, EnergyCurve, EnergyScale};
use voxalign_report::{DeformationRecord, Figure, Images, RunRecord, TransformRecord, When};

/// A head of nested shapes with folds, as seen through a deformation.
pub(crate) fn head(
    grid: &Grid,
    through: impl Fn(Vector3<f64>) -> Vector3<f64>,
) -> (Volume<f32>, LabelMap) {
    let size = grid.extent().map(|e| e / 2.0);
    let flat = grid.is_2d();
    let mut labels = Vec::new();
    let mut values = Vec::new();
    let [nx, ny, _] = grid.dims();
    for i in 0..grid.len() {
        let (x, y, z) = (i % nx, i / nx % ny, i / (nx * ny));
        let world = grid.index_to_world(Vector3::new(x as f64, y as f64, z as f64));
        let q = grid.to_world().matrix.try_inverse().unwrap() * (through(world) - grid.centre());
        let spacing = grid.spacing();
        let p = Vector3::from_fn(|a, _| q[a] * spacing[a] / size[a]);
        let p = if flat { Vector3::new(p[0], p[1], 0.0) } else { p };
        let angle = p[1].atan2(p[0]);
        let radius = p.norm() + 0.03 * (9.0 * angle).sin() + 0.02 * (7.0 * p[2]).cos();
        let (value, label) = match () {
            () if (p - Vector3::new(0.15, 0.0, 0.0))
                .component_mul(&Vector3::new(2.5, 1.0, 1.0))
                .norm()
                < 0.28 =>
            {
                (20.0, 3)
            }
            () if radius < 0.52 => (100.0, 2),
            () if radius < 0.66 => (65.0, 1),
            () if p.norm() > 0.74 && p.norm() < 0.8 => (85.0, 0),
            () => (2.0, 0),
        };
        values.push(value + ((x * 7 + y * 13 + z * 5) % 11) as f32 * 0.3);
        labels.push(label);
    }
    (Volume::new(grid.clone(), values).unwrap(), LabelMap::new(grid.clone(), labels).unwrap())
}

/// A smooth field with a place that is squeezed, so hard that it folds if asked for.
pub(crate) fn bend(grid: &Grid, fold: bool) -> VectorField {
    let centre = grid.centre();
    let size = grid.extent().iter().fold(0.0f64, |a, &b| a.max(b));
    let flat = grid.is_2d();
    VectorField::from_world_fn(grid.clone(), |w| {
        let mut p = (w - centre) / size;
        if flat {
            p[2] = 0.0;
        }
        let blob = |at: [f64; 3], width: f64| {
            let d = p - Vector3::from(at);
            (d * size, (-d.norm_squared() / (width * width)).exp())
        };
        let (grow, a) = blob([0.1, 0.1, 0.05], 0.15);
        let (squeeze, b) = blob([-0.15, -0.1, 0.0], 0.1);
        let strength = if fold { 1.3 } else { 0.4 };
        let wave =
            Vector3::new((9.0 * p[1]).sin(), (8.0 * p[2] + 3.0 * p[0]).sin(), (7.0 * p[0]).cos());
        let mut u = grow * 0.35 * a - squeeze * strength * b + wave * (0.012 * size);
        if flat {
            u[2] = 0.0;
        }
        u
    })
}

/// The Jacobian determinant of a field by central differences.
pub(crate) fn jacobian(field: &VectorField) -> Volume<f32> {
    let grid = field.grid().clone();
    let dims = grid.dims();
    let to_index = grid.to_index().matrix;
    Volume::from_fn(grid, |x, y, z| {
        let here = [x, y, z];
        let at = |p: [usize; 3]| to_index * field.get((p[2] * dims[1] + p[1]) * dims[0] + p[0]);
        let mut m = Matrix3::identity();
        for a in 0..3 {
            let (mut low, mut high) = (here, here);
            low[a] = here[a].saturating_sub(1);
            high[a] = (here[a] + 1).min(dims[a] - 1);
            if high[a] > low[a] {
                let d = (at(high) - at(low)) / (high[a] - low[a]) as f64;
                m.set_column(a, &(m.column(a) + d));
            }
        }
        m.determinant() as f32
    })
}

pub(crate) fn energies() -> Vec<EnergyScale> {
    let scale = |name: &str, count: usize, from: f64, to: f64| {
        let total = |i: usize| to + (from - to) * (-(i as f64) / count as f64 * 5.0).exp();
        let curve = |name: &str, f: &dyn Fn(usize) -> f64| EnergyCurve {
            name: name.into(),
            points: (0..=count).map(|i| (i, f(i))).collect(),
        };
        EnergyScale {
            name: name.into(),
            seconds: count as f64 * 0.02,
            curves: vec![
                curve("total", &total),
                curve("similarity", &|i| total(i) * 0.9 - 10.0 * (i as f64 / count as f64)),
                curve("regularity", &|i| total(i) * 0.1 + 10.0 * (i as f64 / count as f64)),
            ],
        }
    };
    vec![
        scale("8 mm", 100, 900.0, 300.0),
        scale("4 mm", 60, 420.0, 180.0),
        scale("2 mm", 25, 230.0, 120.0),
    ]
}

fn evidence() -> DeformationEvidence {
    let of = |edges| Evidence {
        found: Measures { edges, information: 0.4, tissue: 0.8, foreground: 0.9, overlap: 1.0 },
        ..Evidence::default()
    };
    let unmasked = Some(Unmasked { kept: 0.43, evidence: of(0.27) });
    DeformationEvidence {
        start: of(0.31),
        straight: of(0.32),
        unmasked,
        deformed: of(0.76),
        bent: 0.02,
    }
}

pub(crate) fn record(grid: &Grid, good: bool) -> RunRecord {
    let parts = AffineParameters {
        translation: Vector3::new(9.0, -6.0, 5.0),
        ..AffineParameters::identity(grid.centre())
    };
    RunRecord {
        program: "voxalign deform".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        command: ["voxalign", "deform", "<script>alert(1)</script>"].map(Into::into).into(),
        date: "2026-01-31T12:00:00Z".into(),
        parameters: serde_json::json!({"model": "greedy", "step": 0.25}),
        transform: TransformRecord::new(&parts.to_affine(), grid.centre()),
        figures: [
            (Figure::Ncc, Some(When::Before), 0.71),
            (Figure::Ncc, Some(When::After), 0.97),
            (Figure::LabelOverlap, Some(When::Before), 0.62),
            (Figure::LabelOverlap, Some(When::After), 0.91),
        ]
        .into(),
        timings: [("read", 0.1), ("register", 12.5)].map(|(k, v)| (k.to_owned(), v)).into(),
        verdict: Verdict::new(
            vec![
                check("folded voxels", if good { 0.0 } else { 212.0 }, "0", good),
                check("inverse consistency, largest, mm", 0.12, "at most 1", true),
                check(
                    "mean inverse-consistency error over the grid, mm",
                    0.002781,
                    "at most 0.1",
                    true,
                ),
                check("change in energy over all scales", -0.0213, "at most 1.0e-6", true),
                check(
                    "harmonic energy in the object per nat of shared information",
                    0.0884,
                    "at most 2",
                    true,
                ),
            ],
            vec!["<i>remark</i>".into()],
        ),
        deformation: Some(DeformationRecord {
            measures: FieldMeasures { smallest_jacobian: 0.31, ..FieldMeasures::default() },
            scales: Vec::new(),
            path: None,
            clipped: IndexBox { start: [0; 3], size: grid.dims() },
            mended: 0,
            affine_verdict: None,
            evidence: Some(evidence()),
        }),
        ..RunRecord::default()
    }
}

fn report(grid: &Grid, labels: bool, good: bool) -> String {
    let field = bend(grid, !good);
    let transform = Transform::Displacement(Displacement::new(field.clone()));
    let (fixed, fixed_labels) = head(grid, |w| w);
    // The moving head is one that the field carries the fixed head to.
    let back = |w: Vector3<f64>| {
        let mut p = w;
        for _ in 0..8 {
            p = w - (transform.apply(p) - p);
        }
        p
    };
    let (affine, before_labels) = head(grid, back);
    let (warped, after_labels) = head(grid, |w| back(transform.apply(w)));
    deform::render(&DeformReport {
        record: &record(grid, good),
        images: Images {
            fixed_labels: labels.then_some(&fixed_labels),
            before_labels: labels.then_some(&before_labels),
            after_labels: labels.then_some(&after_labels),
            ..Images::new(&fixed, &affine, &warped)
        },
        jacobian: &jacobian(&field),
        field: &field,
        energies: &energies(),
    })
    .unwrap()
}

pub(crate) fn oblique() -> Grid {
    let tilt = AffineParameters {
        rotation: Vector3::new(0.1, 0.05, -0.15),
        ..AffineParameters::identity(Vector3::zeros())
    };
    let matrix =
        tilt.to_affine().matrix * Matrix3::new(0.0, 0.0, 2.0, -2.0, 0.0, 0.0, 0.0, -2.5, 0.0);
    Grid::new([76, 48, 72], Affine::new(matrix, Vector3::new(-40.0, 60.0, 50.0))).unwrap()
}

#[test]
fn nothing_of_the_input_becomes_markup_and_nothing_is_loaded() {
    let page = report(&oblique(), true, false);
    assert!(!page.contains("<script>alert") && !page.contains("<i>remark"));
    assert!(page.contains("Smallest Jacobian determinant") && page.contains("0.3100"));
    assert_eq!(page.matches("<script").count(), 1);
    for outside in ["http://", "https://", "src=\"/", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert_eq!(page.matches("<img ").count(), page.matches(" alt=\"").count());
    let ids =
        ["slices", "grid", "jacobian", "displacement", "difference", "edges", "labels", "energy"];
    for id in ids {
        assert!(page.contains(&format!("<figure id=\"fig-{id}\"")), "{id}");
    }
    assert_eq!(page.matches("<svg class=\"over\"").count(), 3);
    assert!(page.contains("Verdict: Bad") && page.contains("voxels fold</strong>"));
    assert!(page.contains("The affine part"));
    assert!(page.len() < 3_000_000, "{}", page.len());
    assert!(report(&oblique(), false, true).contains("no folded voxels"));
}

#[test]
fn evidence_is_shown_of_what_is_bent_and_of_what_is_not() {
    let page = report(&oblique(), false, true);
    let section = page.split("id=\"evidence\"").nth(1).unwrap().split("</section>").next().unwrap();
    for expected in
        ["0.310", "0.320", "0.760", "Nearest affine map", "Edges elsewhere", "Agreement"]
    {
        assert!(section.contains(expected), "{expected} {section}");
    }
}

#[test]
fn the_same_bytes_every_time() {
    let flat = Grid::axis_aligned([60, 50, 1], [1.0; 3]).unwrap();
    assert_eq!(report(&flat, true, false), report(&flat, true, false));
}

#[test]
fn odd_images_make_a_report_too() {
    let record = RunRecord::default();
    type Image = (&'static str, [usize; 3], f32);
    let images: [Image; 5] = [
        ("zero", [20, 30, 25], 0.0),
        ("nan", [20, 30, 25], f32::NAN),
        ("huge", [9, 9, 9], f32::MAX),
        ("one voxel", [1, 1, 1], 1.0),
        ("a line", [1, 50, 1], 3.0),
    ];
    for (name, dims, value) in images {
        let grid = Grid::axis_aligned(dims, [1.0, 2.0, 0.5]).unwrap();
        let image = Volume::filled(grid.clone(), value);
        let mut field = VectorField::zeros(grid);
        field.data_mut().fill(value);
        let page = deform::render(&DeformReport {
            record: &record,
            images: Images::new(&image, &image, &image),
            jacobian: &image,
            field: &field,
            energies: &[],
        })
        .unwrap();
        assert!(!page.contains("NaN") && !page.contains("inf<"), "{name}");
        assert!(page.contains("No energy was recorded"));
    }
}

#[test]
fn another_grid_is_an_error() {
    let grid = Grid::axis_aligned([4, 4, 4], [1.0; 3]).unwrap();
    let image = Volume::filled(grid.clone(), 0.0);
    let moved = grid.moved(&Affine::translation(Vector3::x())).unwrap();
    let error = deform::render(&DeformReport {
        record: &RunRecord::default(),
        images: Images::new(&image, &image, &image),
        jacobian: &image,
        field: &VectorField::zeros(moved),
        energies: &[],
    })
    .unwrap_err()
    .to_string();
    assert!(error.contains("displacement field"), "{error}");
}

#[test]
fn fields_may_have_several_voxels_in_a_thick_slice() {
    let grid = oblique();
    let [x, y, z] = grid.spacing();
    let fine = grid.with_spacing([x, y, z / 3.0]).unwrap();
    let (image, _) = head(&grid, |w| w);
    let page = |of: &Grid, folds: bool| {
        let field = bend(of, folds);
        deform::render(&DeformReport {
            record: &record(&grid, !folds),
            images: Images::new(&image, &image, &image),
            jacobian: &jacobian(&field),
            field: &field,
            energies: &energies(),
        })
        .unwrap()
    };
    for id in ["grid", "jacobian", "displacement"] {
        assert!(page(&fine, false).contains(&format!("<figure id=\"fig-{id}\"")), "{id}");
    }
    // Folds are counted where they are.
    let folded = |page: &str| -> f64 {
        let number = page.split(" voxels fold</strong>").next().unwrap();
        let number = number.rsplit("<strong class=\"fail\">").next().unwrap();
        let of: Vec<f64> = number
            .split(" of ")
            .map(|n| n.replace(|c: char| !c.is_ascii_digit(), "").parse().unwrap())
            .collect();
        of[0] / of[1]
    };
    let [coarse, fine] = [&grid, &fine].map(|of| folded(&page(of, true)));
    assert!(coarse > 0.0 && (fine / coarse - 1.0).abs() < 0.3, "{fine} {coarse}");
}

#[test]
fn a_whole_head_is_quick_and_small() {
    let grid = Grid::axis_aligned([182, 218, 182], [1.0; 3]).unwrap();
    let [fixed, before, after] = [0, 5, 11].map(|seed| noise(&grid, seed));
    let field = bend(&grid, false);
    // Rough and folded in many places.
    let jacobian = noise(&grid, 17).map(|v| v / 500.0 - 0.1);
    let record = record(&grid, true);
    let report = DeformReport {
        record: &record,
        images: Images::new(&fixed, &before, &after),
        jacobian: &jacobian,
        field: &field,
        energies: &energies(),
    };
    let page = soon(6.0, || deform::render(&report).unwrap());
    assert!(page.len() < 5_000_000, "{}", page.len());
}

#[test]
fn every_figure_is_drawn_in_a_browser() {
    let Some(browser) = browser() else { return };
    let flat = Grid::axis_aligned([120, 140, 1], [1.0; 3]).unwrap();
    let cases = [
        ("volume", oblique(), true, 1280),
        ("folded", oblique(), false, 420),
        ("flat", flat, true, 1280),
    ];
    for (name, grid, good, width) in cases {
        // An image of one slice has no mosaic.
        let (planes, mosaic) = if grid.is_2d() { (1, 0) } else { (3, 12) };
        // Slices, their comparison, grid, Jacobian, displacement, difference, edges, regions.
        let expected = mosaic + planes * (3 + 2 + 3 + 2 + 2 + if good { 2 } else { 0 });
        draw(&browser, &format!("deform-{name}"), &report(&grid, good, good), expected, width);
    }
}

/// The last column of the verdict is on a phone, too.
#[test]
fn the_verdict_fits_a_phone() {
    let Some(browser) = browser() else { return };
    for good in [true, false] {
        let (all, cut) = tables_that_are_cut(&browser, &report(&oblique(), true, good), 375);
        assert!(all > 0);
        assert_eq!(cut, 0, "of {all} tables");
    }
}
