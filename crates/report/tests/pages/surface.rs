//! Pages with surfaces, also in a real browser.

use crate::common::{HIDDEN, browser, check, is_printable, show, soon};
use voxalign_image::{Grid, Mesh, Vector3, Volume};
use voxalign_register::Verdict;
use voxalign_register::compare::{compare_meshes, distances_to};
use voxalign_report::meshes::{Colour, Layer, Row, Scale, Scene, Sections, segments};
use voxalign_report::surface::{ObjectRecord, SurfaceRecord, SurfaceReport, render};
use voxalign_report::{GridRecord, InputRecord, OutputRecord, RunRecord};
use voxalign_surface::{Figures, decimated, isosurface, smoothed};

/// A bent body of about 60 mm, moved by some mm, as values above 0.
fn body(grid: &Grid, shift: f64) -> Volume<f32> {
    Volume::from_fn(grid.clone(), |x, y, z| {
        let at = grid.index_to_world(Vector3::new(x as f64, y as f64, z as f64));
        let [x, y, z] = [at[0] - 60.0 - shift, at[1] - 60.0, at[2] - 50.0];
        let bent = y - 0.012 * x * x + 5.0;
        (1.0 - x * x / 900.0 - bent * bent / 170.0 - z * z / 260.0) as f32
    })
}

fn grid() -> Grid {
    Grid::axis_aligned([80, 80, 50], [1.5, 1.5, 2.0]).unwrap()
}

fn page() -> String {
    let grid = grid();
    let values = body(&grid, 0.0);
    let voxels = values.map(|v| f32::from(u8::from(*v >= 0.0)));
    let exact = isosurface(&voxels, 0.5).unwrap();
    let mesh = decimated(&smoothed(&exact, 10).unwrap(), 3000).unwrap();
    let distances: Vec<f32> =
        distances_to(mesh.vertices(), &exact).unwrap().into_iter().map(|d| d as f32).collect();
    let run = RunRecord {
        program: "voxalign surface".into(),
        version: "1".into(),
        inputs: vec![InputRecord {
            sha256_of: None,
            role: "labels".into(),
            path: format!("x/<labels>.nii.gz{HIDDEN}"),
            sha256: "0".into(),
            grid: None,
        }],
        parameters: serde_json::json!({ "label": [3, 4], "smoothing": 10 }),
        ..RunRecord::default()
    };
    let record = SurfaceRecord {
        object: ObjectRecord { voxels: 9000, volume_mm3: 40_500.0, ..ObjectRecord::default() },
        isosurface: Figures::of(&exact).unwrap(),
        surface: Figures::of(&mesh).unwrap(),
        distance: Some(compare_meshes(&exact, &mesh).unwrap()),
        outputs: vec![OutputRecord { role: "surface".into(), path: "out/a.gii".into() }],
        verdict: Verdict::new(vec![check("open edges", 0.0, "none", true)], vec![]),
        ..SurfaceRecord::new(run, GridRecord::from(&grid))
    };
    render(&SurfaceReport {
        record: &record,
        image: &values,
        mesh: &mesh,
        isosurface: &exact,
        distances: Some(&distances),
    })
    .unwrap()
}

#[test]
fn a_page_has_all_and_loads_nothing() {
    let page = soon(8.0, page);
    for part in [
        "a.gii of &lt;labels&gt;.nii.gz",
        "Verdict: Good",
        "distance to the isosurface, mm",
        "Hausdorff",
        "Handles (genus)",
    ] {
        assert!(page.contains(part), "{part} is not in the page");
    }
    for part in ["://", "src=\"h", "NaN", "<labels>"] {
        assert!(!page.contains(part), "{part} is in the page");
    }
    assert_eq!(page.matches("<figure").count(), page.matches("</figure>").count());
    is_printable(&page);
    is_printable(&registered());
}

/// Before and after of a registration: fixed and moving surfaces, curves, points and pairs.
fn registered() -> String {
    let hidden = format!("points{HIDDEN}");
    let grid = grid();
    let of = |shift: f64| isosurface(&body(&grid, shift), 0.0).unwrap();
    let (fixed, before, after) = (of(0.0), of(9.0), of(0.7));
    let values: Vec<f32> =
        distances_to(after.vertices(), &fixed).unwrap().into_iter().map(|d| d as f32).collect();
    let spiral = |i: u32| {
        let t = f64::from(i) * 0.1;
        Vector3::new(60.0 + 34.0 * t.cos(), 62.0 + 30.0 * t.sin(), 20.0 + 0.25 * f64::from(i))
    };
    let curve = Mesh::new((0..240).map(spiral).collect(), vec![]).unwrap();
    let points: Vec<_> = fixed.vertices().iter().step_by(300).copied().collect();
    let moved: Vec<_> = points.iter().map(|p| p + Vector3::new(9.0, 0.0, 0.0)).collect();
    let pairs = segments(&points, &moved).unwrap();
    let dots = Mesh::new(moved, vec![]).unwrap();
    let curve = curve.with_lines(vec![240], (0..240).collect()).unwrap();
    let scene = Scene {
        layers: vec![
            Layer::new("fixed", &fixed, Colour::Blue).with_opacity(0.35),
            Layer::new("moving before", &before, Colour::Orange).hidden(),
            Layer::new("moving after", &after, Colour::Teal).with_values(&values),
            Layer::new("curve", &curve, Colour::Violet),
            Layer::new(&hidden, &dots, Colour::Yellow),
            Layer::new("landmark pairs", &pairs, Colour::Red),
        ],
        scale: Some(Scale::new("distance", "mm")),
    };
    let image = body(&grid, 0.0).map(|v| v.max(-1.0));
    let layer = |name: &str, mesh, colour| Layer::new(name, mesh, colour);
    let rows = vec![
        Row {
            name: "Before".into(),
            image: &image,
            layers: vec![
                layer("fixed", &fixed, Colour::Blue),
                layer("moving before", &before, Colour::Orange),
                layer(&hidden, &dots, Colour::Yellow),
            ],
        },
        Row {
            name: format!("After{HIDDEN}"),
            image: &image,
            layers: vec![
                layer("fixed", &fixed, Colour::Blue),
                layer("moving after", &after, Colour::Teal),
            ],
        },
    ];
    scene.figure("fig-all", "Before and after in 3D", "Caption.").unwrap()
        + &Sections { rows }.figure("fig-cuts", "Over slices", "Caption.").unwrap()
}

/// The number that an attribute has where it first comes.
fn number(dom: &str, attribute: &str) -> usize {
    let from = dom.split(&format!("{attribute}=\"")).nth(1).unwrap_or_default();
    from.split('"').next().and_then(|n| n.parse().ok()).unwrap_or(0)
}

#[test]
fn meshes_are_drawn_in_a_browser() {
    let Some(browser) = browser() else { return };
    let figures = registered();
    let page = page().replace("<section id=\"figures\"", &(figures + "<section id=\"figures\""));
    let dom = show(&browser, "surface", &page, 1280);
    assert_eq!(number(&dom, "data-figures"), 9);
    assert_eq!(number(&dom, "data-figures-ok"), 9);
    // Both views drew a good part of their picture, and no message is left.
    let drawn: Vec<usize> =
        dom.match_indices("data-lit=\"").map(|(at, _)| number(&dom[at..], "data-lit")).collect();
    assert!(drawn.len() == 2 && drawn.iter().all(|&lit| lit > 50_000), "{drawn:?}");
    assert!(!dom.contains("class=\"view3d\" hidden"));
}
