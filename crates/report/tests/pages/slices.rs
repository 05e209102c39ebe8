//! The report on a registration of a volume to slices, also in a real browser.

use crate::common::{
    HIDDEN, Layout, browser, faint_texts, is_printable, layout, show, soon, tables_that_are_cut,
};
use crate::deform::record;
use crate::elastic::{cells, elastic, scale};
use voxalign_image::{Affine, AffineParameters, Grid, Matrix3, TetraMesh, Vector3, Volume};
use voxalign_register::diffeo::SliceEvidence;
use voxalign_report::slices::{SlicePictures, SlicesReport, render};
use voxalign_report::{ElasticRecord, GridRecord, InputRecord, RunRecord, SliceRecord};

/// A body of 130 x 160 x 120 mm with folds and cavities around the origin of the world.
fn tissue(at: Vector3<f64>) -> f32 {
    let p = Vector3::new(at[0] / 65.0, at[1] / 80.0, at[2] / 60.0);
    let angle = p[1].atan2(p[0]);
    let radius = p.norm() + 0.03 * (9.0 * angle).sin() + 0.03 * (8.0 * p[2]).cos();
    let cavity = (p - Vector3::new(0.2, 0.05, 0.1)).component_mul(&Vector3::new(2.0, 1.0, 1.2));
    let value = match () {
        () if cavity.norm() < 0.32 => 20.0,
        () if radius < 0.68 => 100.0,
        () if radius < 0.84 => 65.0,
        () if p.norm() > 0.92 && p.norm() < 0.99 => 85.0,
        () => 2.0,
    };
    value + ((13.0 * at[0]).sin() + (11.0 * at[1]).sin() + (17.0 * at[2]).sin()) as f32
}

/// How far the tissue at a place of the fixed world has come, mm.
fn bent(at: Vector3<f64>) -> Vector3<f64> {
    let wave = Vector3::new((at[1] / 30.0).sin(), (at[2] / 26.0).sin(), (at[0] / 28.0).cos());
    wave * 6.0 * (-at.norm_squared() / 8000.0).exp()
}

fn on(grid: &Grid, value: impl Fn(Vector3<f64>) -> f32) -> Volume<f32> {
    Volume::from_fn(grid.clone(), |x, y, z| {
        value(grid.index_to_world(Vector3::new(x as f64, y as f64, z as f64)))
    })
}

/// A grid around a place, its axes turned by angles, radians.
fn around(dims: [usize; 3], spacing: [f64; 3], at: [f64; 3], turned: [f64; 3]) -> Grid {
    let parts = AffineParameters {
        rotation: Vector3::from(turned),
        ..AffineParameters::identity(Vector3::zeros())
    };
    let matrix = parts.to_affine().matrix * Matrix3::from_diagonal(&Vector3::from(spacing));
    let middle = Vector3::from(dims.map(|n| (n as f64 - 1.0) / 2.0));
    Grid::new(dims, Affine::new(matrix, Vector3::from(at) - matrix * middle)).unwrap()
}

/// An axial slice, a coronal one with long pixels and an oblique one.
fn grids() -> [Grid; 3] {
    [
        around([150, 176, 1], [1.0, 1.0, 5.0], [0.0, 0.0, 12.0], [0.0; 3]),
        around([120, 1, 36], [1.25, 8.0, 4.0], [0.0, -18.0, 0.0], [0.0; 3]),
        around([1, 110, 130], [1.0, 1.5, 1.0], [15.0, 0.0, 0.0], [0.1, 0.2, 0.6]),
    ]
}

fn volume() -> Grid {
    around([56, 64, 50], [2.5, 2.75, 2.75], [0.0; 3], [0.1, 0.05, -0.15])
}

fn record_of(mesh: &TetraMesh, names: &[String; 3], good: bool) -> RunRecord {
    let usual = record(&volume(), good);
    let mut deformation = usual.deformation.clone().unwrap();
    deformation.scales = vec![scale(2, 30), scale(1, 20)];
    let input = |role: &str, path: &str, grid: &Grid| InputRecord {
        sha256_of: None,
        role: role.into(),
        path: path.into(),
        sha256: "0".into(),
        grid: Some(GridRecord::from(grid)),
    };
    let mut inputs = vec![input("moving", &format!("x/<moving>{HIDDEN}.nii.gz"), &volume())];
    inputs.extend(names.iter().zip(grids()).map(|(name, grid)| input("slice", name, &grid)));
    let evidence = |i: usize| {
        let off = 0.07 * i as f64;
        let sign = if good { 1.0 } else { -1.0 };
        SliceEvidence {
            pixels: 26_400 - 9000 * i,
            inside: [0.97 - off, 0.96 - off],
            correlation: [0.61 * sign, (0.95 - off) * sign],
            local: [0.34, if good { 0.88 - off } else { 0.36 }],
            elsewhere: 0.31 + off,
        }
    };
    let slices = names.iter().enumerate();
    let slices = slices.map(|(i, file)| SliceRecord { file: file.clone(), evidence: evidence(i) });
    RunRecord {
        program: "voxalign elastic".into(),
        inputs,
        parameters: serde_json::json!({ "similarity": if good { "ssd" } else { "mi" } }),
        deformation: Some(deformation),
        elastic: Some(ElasticRecord { slices: slices.collect(), ..elastic(mesh) }),
        ..usual
    }
}

/// A report on three slices; where it is bad, the volume has another contrast and folds.
fn report(cells_along: [usize; 3], good: bool) -> String {
    let names = ["axial.nii.gz", "coronal.nii.gz", "oblique.nii.gz"];
    let names = names.map(|name| format!("x/<slice & \"{HIDDEN}\">-{name}"));
    let contrast = |v: f32| if good { v } else { 120.0 - v };
    let volume = volume();
    let grids = grids();
    let slices = grids.each_ref().map(|grid| on(grid, tissue));
    let shift = |grid: &Grid, part: f64| on(grid, |w| contrast(tissue(w + bent(w) * part)));
    let before = grids.each_ref().map(|grid| shift(grid, 1.0));
    let after = grids.each_ref().map(|grid| shift(grid, if good { 0.08 } else { 0.95 }));
    let warped = shift(&volume, 0.08);
    let mesh = cells(&volume, cells_along);
    let displacements: Vec<_> = mesh.vertices().iter().map(|v| -bent(*v) * 0.92).collect();
    let strain: Vec<f32> = (0..mesh.tetrahedra().len())
        .map(|e| (bent(mesh.corners(e)[0]) - bent(mesh.corners(e)[3])).norm() as f32 / 40.0)
        .collect();
    let lowest = if good { 0.35 } else { 1.15 };
    let jacobian = on(&volume, |w| {
        let at = w - Vector3::new(10.0, 5.0, 12.0);
        (1.0 + 0.25 * (w[0] / 25.0).sin() - lowest * (-at.norm_squared() / 150.0).exp()) as f32
    });
    let pictures: Vec<_> = (0..3)
        .map(|i| SlicePictures {
            name: names[i].rsplit('/').next().unwrap(),
            slice: &slices[i],
            before: &before[i],
            after: &after[i],
        })
        .collect();
    render(&SlicesReport {
        record: &record_of(&mesh, &names, good),
        slices: &pictures,
        mesh: &mesh,
        displacements: &displacements,
        strain: &strain,
        warped: &warped,
        jacobian: &jacobian,
    })
    .unwrap()
}

/// The sections of a page, but for that of differences or of checkerboards.
const SECTIONS: [&str; 12] = [
    "verdict",
    "fig-slices",
    "fig-edges",
    "agreement",
    "fig-mesh",
    "fig-3d",
    "fig-sections",
    "fig-jacobian",
    "fig-strain",
    "fig-motion",
    "body",
    "steps",
];

/// A page without what is in pictures, in which all letters may be.
fn text(page: &str) -> String {
    let pieces = page.split("base64,").map(|piece| piece.split_once('"').map_or(piece, |p| p.1));
    page.split("base64,").take(1).chain(pieces.skip(1)).collect()
}

#[test]
fn a_page_has_all_slices_and_loads_nothing() {
    let page = soon(8.0, || report([6, 6, 5], true));
    for id in SECTIONS.into_iter().chain(["fig-difference", "files", "parameters"]) {
        assert!(page.contains(&format!(" id=\"{id}\"")), "{id} is not in the page");
    }
    for part in [
        "Verdict: Good",
        "axial at S\u{a0}12.0\u{a0}mm",
        "coronal at P\u{a0}18.0\u{a0}mm",
        "oblique, tilted by",
        "120 \u{d7} 36 pixels of 1.25 \u{d7} 4\u{a0}mm",
        "local agreement 0.34 \u{2192} 0.81, elsewhere 0.38; correlation 0.61 \u{2192} 0.88; in the body 90 % \u{2192} 89 %",
        "onto 3 slices",
        "kinetic energy",
        ">1080<",
    ] {
        assert!(page.contains(part), "{part} is not in the page");
    }
    assert!(!page.contains("fig-checker") && !page.contains("are reduced"));
    let text = text(&page);
    for part in ["://", "src=\"h", "NaN", "<slice", "<moving>", "<mesh>", "<script>alert"] {
        assert!(!text.contains(part), "{part} is in the page");
    }
    assert_eq!(page.matches("<img ").count(), page.matches(" alt=\"").count());
    is_printable(&page);
    assert_eq!(page, report([6, 6, 5], true), "other bytes the second time");
}

/// Each slice is crossed by the mesh at rest and at the end, the oblique one as well.
#[test]
fn the_mesh_is_drawn_in_every_slice() {
    let page = report([6, 6, 5], true);
    let figure = page.split("id=\"fig-mesh\"").nth(1).unwrap().split("</figure>").next().unwrap();
    let lines: Vec<&str> = figure.split("<svg class=\"over cuts\"").skip(1).collect();
    assert_eq!(lines.len(), 6);
    for (i, svg) in lines.iter().enumerate() {
        let svg = svg.split("</svg>").next().unwrap();
        assert!(svg.matches('M').count() > 10, "{i}: {svg}");
    }
    // The mesh has moved.
    assert_ne!(lines[0], lines[1]);
}

#[test]
fn a_bad_result_of_other_contrast_is_shown_as_such() {
    let page = report([5, 5, 4], false);
    for part in ["Verdict: Bad", "voxels fold</strong>", "fig-checker", "\u{2212}0.95"] {
        assert!(page.contains(part), "{part} is not in the page");
    }
    assert!(!page.contains("fig-difference"));
    is_printable(&page);
}

#[test]
fn pictures_on_another_grid_are_an_error() {
    let grid = volume();
    let [axial, coronal, _] = grids().map(|grid| on(&grid, tissue));
    let (mesh, warped) = (cells(&grid, [2, 2, 2]), on(&grid, tissue));
    let still = vec![Vector3::zeros(); mesh.vertices().len()];
    let record = RunRecord::default();
    let of = |after, jacobian| {
        let slices = [SlicePictures { name: "a", slice: &axial, before: &axial, after }];
        render(&SlicesReport {
            record: &record,
            slices: &slices,
            mesh: &mesh,
            displacements: &still,
            strain: &[],
            warped: &warped,
            jacobian,
        })
    };
    assert!(of(&axial, &warped).is_ok());
    for wrong in [of(&coronal, &warped), of(&axial, &axial)] {
        let error = wrong.unwrap_err().to_string();
        assert!(error.contains("different grid"), "{error}");
    }
}

/// All is drawn, nothing is wider than its place, and no script fails, on a screen and on a phone.
#[test]
fn a_page_of_slices_is_drawn_in_a_browser() {
    let Some(browser) = browser() else { return };
    for good in [true, false] {
        let page = report([6, 6, 5], good);
        let name = if good { "slices" } else { "slices-bad" };
        show(&browser, name, &page, if good { 1280 } else { 420 });
        let different = if good { "fig-difference" } else { "fig-checker" };
        let expected: Vec<&str> = SECTIONS.into_iter().chain([different]).collect();
        for width in [1280, 420] {
            let Layout { pictures, drawn, hidden, wide, errors, sections } =
                layout(&browser, &page, width, &expected);
            assert_eq!(errors, 0, "at {width}");
            assert_eq!(sections, expected.len(), "at {width}");
            // Slices, their comparison, difference or checkerboard, edges, mesh; places, Jacobian and strain of the volume.
            let all = 3 * (3 + 2 + 2 + 2 + 2) + 3 * 3;
            assert_eq!((pictures, drawn), (all, all), "at {width}");
            assert_eq!((hidden, wide.as_str()), (0, ""), "at {width}");
        }
        let (all, cut) = tables_that_are_cut(&browser, &page, 375);
        assert!(all > 0);
        assert_eq!(cut, 0, "of {all} tables");
    }
}

/// All texts can be read in light and dark windows, and ones that cannot are found.
#[test]
fn texts_stand_out_in_light_and_dark_windows() {
    let Some(browser) = browser() else { return };
    for good in [true, false] {
        let page = report([3, 3, 3], good);
        for dark in [false, true] {
            let (all, faint) = faint_texts(&browser, &page, dark);
            assert!(all > 100, "{all}");
            assert_eq!(faint, "", "{good} {dark}");
        }
        let grey =
            page.replace("</main>", "<p style=\"color:#808080\" class=\"pale\">pale</p></main>");
        assert!(faint_texts(&browser, &grey, false).1.contains("P.pale"));
    }
}
