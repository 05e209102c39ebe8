//! The report on a registration by an elastic body, also in a real browser.

use crate::common::{HIDDEN, Layout, browser, is_printable, layout, show, soon};
use crate::deform::{bend, energies, head, jacobian, oblique, record};
use voxalign_image::{Displacement, Grid, TetraMesh, Transform, Vector3};
use voxalign_register::multiscale::{Motion, ScaleRecord};
use voxalign_report::deform::DeformReport;
use voxalign_report::elastic::render;
use voxalign_report::{
    ElasticRecord, ElasticReport, GridRecord, Images, InputRecord, MaterialRecord, RunRecord,
    StepPartRecord,
};

/// Cells over a grid, so many along each axis, in six tetrahedra each that share the diagonal.
pub(crate) fn cells(grid: &Grid, n: [usize; 3]) -> TetraMesh {
    let count = n.map(|n| n + 1);
    let place = |i: usize| [i % count[0], i / count[0] % count[1], i / (count[0] * count[1])];
    let vertices = (0..count.iter().product()).map(|i| {
        let at = place(i);
        let dims = grid.dims();
        grid.index_to_world(Vector3::from_fn(|a, _| {
            at[a] as f64 / n[a] as f64 * dims[a] as f64 - 0.5
        }))
    });
    let vertices: Vec<_> = vertices.collect();
    let steps = [1, count[0], count[0] * count[1]];
    let mut tetrahedra = Vec::new();
    for low in (0..vertices.len()).filter(|i| (0..3).all(|a| place(*i)[a] < n[a])) {
        for [a, b, c] in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let path = [low, low + steps[a], low + steps[a] + steps[b]].map(|i| i as u32);
            tetrahedra.push([path[0], path[1], path[2], path[2] + steps[c] as u32]);
        }
    }
    let mut mesh = TetraMesh::new(vertices, tetrahedra).unwrap();
    let mut turned = mesh.tetrahedra().to_vec();
    for (e, corners) in turned.iter_mut().enumerate() {
        if voxalign_image::tetra::volume(mesh.corners(e)) < 0.0 {
            corners.swap(1, 2);
        }
    }
    mesh = TetraMesh::new(mesh.vertices().to_vec(), turned).unwrap();
    mesh
}

/// A scale that rises, falls and comes to rest.
pub(crate) fn scale(factor: usize, count: usize) -> ScaleRecord {
    let motion = |i: usize| {
        let t = i as f64 / count as f64;
        Motion {
            kinetic_energy: 900.0 * t * (-9.0 * t).exp(),
            strain_energy: 4000.0 * (1.0 - (-4.0 * t).exp()),
            unbalanced_force: 70.0 * (-5.0 * t).exp(),
            voxel_force: 70.0,
            voxel_kinetic: 900.0,
            least_jacobian: 1.0 - 0.4 * t,
            cuts: 0,
            held: 0,
        }
    };
    ScaleRecord {
        factor,
        allowed: count,
        energies: (0..count).map(|i| 1.0 / (i + 1) as f64).collect(),
        parts: Vec::new(),
        motion: (0..count).map(motion).collect(),
        residual: None,
        seconds: 0.4,
    }
}

pub(crate) fn elastic(mesh: &TetraMesh) -> ElasticRecord {
    let part = |name: &str, seconds: f64| StepPartRecord {
        name: name.into(),
        seconds,
        seconds_per_iteration: seconds / 50.0,
    };
    let material = |label, young_kpa| MaterialRecord {
        label: Some(label),
        young_kpa,
        poisson: 0.45,
        density_kg_m3: 1000.0,
        tetrahedra: mesh.tetrahedra().len() / 2,
    };
    ElasticRecord {
        vertices: mesh.vertices().len(),
        tetrahedra: mesh.tetrahedra().len(),
        volume_mm3: mesh.volume(),
        file: Some(format!("x/<mesh>{HIDDEN}.vtu")),
        held: 12,
        materials: vec![material(1, 3.0), material(2, 12.0)],
        force_scale_kpa: 12.0,
        time_step_s: 0.02,
        newmark: [0.25, 0.5],
        mass_damping_per_s: 200.0,
        solver: "direct".into(),
        iterations: 50,
        least_volume_ratio: 0.613,
        largest_strain: 0.47,
        largest_von_mises_kpa: 1.84,
        at_rest: true,
        setup_seconds: 0.125,
        step_parts: vec![
            part("interpolation", 0.3),
            part("similarity", 0.1),
            part("forces", 0.4),
            part("motion", 0.15),
            part("displacement", 0.05),
        ],
        slices: Vec::new(),
        ..ElasticRecord::default()
    }
}

/// A report of a head that a mesh of cells moves.
fn report(cells_along: [usize; 3]) -> String {
    let grid = oblique();
    let field = bend(&grid, false);
    let transform = Transform::Displacement(Displacement::new(field.clone()));
    let (fixed, _) = head(&grid, |w| w);
    let (moving, _) = head(&grid, |w| w - (transform.apply(w) - w));
    let (warped, _) = head(&grid, |w| w + Vector3::new(0.2, 0.0, 0.0));
    let mesh = cells(&grid, cells_along);
    let displacements: Vec<_> =
        mesh.vertices().iter().map(|v| field.sample_clamped(*v) * 0.5).collect();
    let strain: Vec<f32> = (0..mesh.tetrahedra().len())
        .map(|e| 0.3 * (mesh.corners(e)[0].norm() / 40.0).sin().abs() as f32)
        .collect();
    let usual = record(&grid, true);
    let mut deformation = usual.deformation.clone().unwrap();
    deformation.scales = vec![scale(2, 30), scale(1, 20)];
    let record = RunRecord {
        program: "voxalign elastic".into(),
        inputs: vec![InputRecord {
            sha256_of: None,
            role: "fixed".into(),
            path: format!("x/<fixed>{HIDDEN}.nii.gz"),
            sha256: "0".into(),
            grid: Some(GridRecord::from(&grid)),
        }],
        deformation: Some(deformation),
        elastic: Some(elastic(&mesh)),
        ..usual
    };
    render(&ElasticReport {
        deform: DeformReport {
            record: &record,
            images: Images::new(&fixed, &moving, &warped),
            jacobian: &jacobian(&field),
            field: &field,
            energies: &energies(),
        },
        mesh: &mesh,
        displacements: &displacements,
        strain: &strain,
    })
    .unwrap()
}

/// What a page of a body has beside that of a deformation.
const SECTIONS: [&str; 5] = ["fig-sections", "fig-strain", "fig-motion", "body", "steps"];

#[test]
fn a_page_has_the_body_and_loads_nothing() {
    let page = soon(8.0, || report([6, 5, 6]));
    for id in SECTIONS {
        assert!(page.contains(&format!(" id=\"{id}\"")), "{id} is not in the page");
    }
    for part in [
        "mesh at rest",
        "kinetic energy",
        "unbalanced force",
        "Largest norm of strain",
        "0.613",
        ">1080<",
        "displacement",
        "40 %",
    ] {
        assert!(page.contains(part), "{part} is not in the page");
    }
    // Without the letters of pictures, in which all may be.
    let pieces = page.split("base64,").map(|piece| piece.split_once('"').map_or(piece, |p| p.1));
    let text: String = page.split("base64,").take(1).chain(pieces.skip(1)).collect();
    for part in ["://", "src=\"h", "NaN", "<mesh>", "<fixed>"] {
        assert!(!text.contains(part), "{part} is in the page");
    }
    is_printable(&page);
    assert_eq!(page, report([6, 5, 6]), "other bytes the second time");
}

/// All is drawn, nothing is wider than its place, and no script fails, on a screen and on a phone.
#[test]
fn a_page_of_a_body_is_drawn_in_a_browser() {
    let Some(browser) = browser() else { return };
    let page = report([6, 5, 6]);
    show(&browser, "elastic", &page, 1280);
    for width in [1280, 420] {
        let Layout { pictures, drawn, hidden, wide, errors, sections } =
            layout(&browser, &page, width, &SECTIONS);
        assert_eq!(errors, 0, "at {width}");
        assert_eq!(sections, SECTIONS.len(), "at {width}");
        // Slices, their comparison, mosaic, grid, Jacobian, displacement, difference, edges; the mesh twice; strain.
        assert_eq!(
            (pictures, drawn),
            (12 + 3 * (3 + 2 + 3 + 2 + 2) + 6 + 3, pictures),
            "at {width}"
        );
        assert_eq!(hidden, 0, "at {width}");
        assert_eq!(wide, "", "at {width}");
    }
}

/// The page that looks for faults finds them.
#[test]
fn faults_of_a_page_are_found() {
    let Some(browser) = browser() else { return };
    let page = report([3, 3, 3]);
    let of = |page: &str| layout(&browser, page, 420, &SECTIONS);
    let sound = of(&page);
    assert_eq!((sound.errors, sound.wide.as_str()), (0, ""));
    let wide = page.replace("</main>", "<p style=\"width:900px\" id=\"far\">far</p></main>");
    assert!(of(&wide).wide.contains("far"), "{}", of(&wide).wide);
    let broken = page.replace("</body>", "<script>nothing_of_this_name()</script></body>");
    assert_eq!(of(&broken).errors, 1);
    let gone = page.replace(" id=\"fig-strain\"", " id=\"fig-other\" hidden");
    assert_eq!(of(&gone).sections, SECTIONS.len() - 1);
    assert!(of(&gone).hidden > 0);
}
