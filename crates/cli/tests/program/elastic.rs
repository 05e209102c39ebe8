//! A registration by an elastic body, from files to files.

use crate::common::{Place, Run, grid, names};
use crate::deform::record;
use std::fs;
use voxalign_image::{Grid, LabelMap, TetraMesh, Vector3, Volume};
use voxalign_io::tetra;

/// What is written where nothing is said.
pub(crate) const FILES: [&str; 8] = [
    "affine.fsl.mat",
    "affine.tfm",
    "inverse_warp.nii.gz",
    "mesh.vtu",
    "report.html",
    "result.json",
    "warp.nii.gz",
    "warped.nii.gz",
];

/// Options of a run that is short.
const FAST: &str = "--affine none --schedule 2x12 --mesh-spacing 24 --device cpu";

fn space() -> Grid {
    grid([26, 28, 24], 4.0)
}

/// A small pair, `a.nii.gz` and `b.nii.gz`, that a smooth push is between, and `parts.nii.gz`: label 1 at the left and 2 at the right
/// of what is not 0.
fn place() -> Place {
    let place = Place::new();
    let value = |p: Vector3<f64>| {
        let away = |c: [f64; 3], r: f64| ((p - Vector3::from(c)).norm() / r - 1.0) * 6.0;
        let part = |c, r| 1.0 / (1.0 + away(c, r).exp());
        (100.0 * part([0.0; 3], 34.0) + 80.0 * part([10.0, -8.0, 5.0], 13.0)) as f32
    };
    let push = |p: Vector3<f64>| {
        p + Vector3::new(4.0, -3.0, 2.0) * (-(p.norm_squared()) / (2.0 * 30.0 * 30.0)).exp()
    };
    let world = |g: &Grid, at: [usize; 3]| g.index_to_world(Vector3::from(at.map(|v| v as f64)));
    let g = space();
    let image = |moved: bool| {
        Volume::from_fn(g.clone(), |x, y, z| {
            let p = world(&g, [x, y, z]);
            value(if moved { push(p) } else { p })
        })
    };
    place.image("a.nii.gz", &image(false));
    place.image("b.nii.gz", &image(true));
    let parts: LabelMap = Volume::from_fn(g.clone(), |x, y, z| {
        let p = world(&g, [x, y, z]);
        match p.norm() < 42.0 {
            true if p.x < 0.0 => 1,
            true => 2,
            false => 0,
        }
    });
    place.labels("parts.nii.gz", &parts);
    place.write(
        "materials.csv",
        "label,young,poisson,density\n0,1000,0.3,1000\n1,2000,0.4,1000\n2,300,0.4,1100\n",
    );
    place
}

/// Runs a registration that must be refused, and checks that nothing is left.
#[track_caller]
fn refused(place: &Place, options: &str, parts: &[&str]) -> Run {
    let before = place.names();
    let line = format!("elastic a.nii.gz b.nii.gz -o new/out --affine none --no-report {options}");
    let run = place.line(&line).expect(2).says(parts);
    assert_eq!(place.names(), before, "something is left");
    run
}

/// The mesh of a run.
fn mesh(place: &Place, name: &str) -> TetraMesh {
    tetra::read(place.path(name), &tetra::ReadOptions::default()).unwrap().0
}

/// A block of cells as a mesh, its first vertex at a place.
fn block(at: f64) -> TetraMesh {
    let vertices = Grid::axis_aligned([3; 3], [20.0; 3]).unwrap();
    let at = voxalign_image::Affine::translation(Vector3::repeat(at));
    voxalign::elasticity::TetraBox::new(vertices.moved(&at).unwrap()).unwrap().mesh().unwrap()
}

fn write(place: &Place, name: &str, mesh: &TetraMesh) {
    tetra::write(place.path(name), mesh, &tetra::WriteOptions::default()).unwrap();
}

#[test]
fn the_help_has_groups_units_and_the_spacing_that_is_usual() {
    let help = Place::new().line("elastic --help").expect(0).out;
    let usual = format!("[default: {}]", voxalign::elastic::USUAL_SPACING_MM);
    for word in
        ["Body:", "Mesh:", "Motion:", "<PA>", "<KPA>", "mesh.vtu", "--state", "pyvista", &usual]
    {
        assert!(help.contains(word), "{word} is not in\n{help}");
    }
    assert!(!help.contains("--convergence") && !help.contains("--clip"), "{help}");
}

#[test]
fn values_that_cannot_be_are_refused() {
    let place = place();
    for (options, parts) in [
        ("--young 0", ["--young", "above 0"]),
        ("--poisson 0.5", ["--poisson", "below 0.5"]),
        ("--density=-1", ["--density", "above 0"]),
        ("--newmark 0.1,0.5", ["--newmark", "not stable"]),
        ("--time-step 0", ["--time-step", "above 0"]),
        ("--force-scale 0", ["--force-scale", "above 0"]),
        ("--samples 20x20", ["--samples", "20x20x15"]),
        ("--tolerance 1", ["--tolerance", "below 1"]),
        ("--mesh-spacing 0", ["--mesh-spacing", "above 0"]),
        ("--schedule 4", ["--schedule", "4x100,2x100,1x50"]),
        ("--force nowhere", ["--force", "consistent"]),
        ("--outputs mash", ["--outputs", "mesh"]),
        ("--similarity cr", ["--similarity", "ssd"]),
        ("--convergence 0.1", ["--convergence", "unexpected"]),
        ("--landmarks a.csv b.csv", ["--landmarks", "unexpected"]),
    ] {
        refused(&place, options, &parts);
    }
}

#[test]
fn options_that_would_be_ignored_are_refused() {
    let place = place();
    write(&place, "block.vtu", &block(-20.0));
    for (options, parts) in [
        ("--samples 8x8x8 --similarity lncc", ["--similarity lncc", "--samples all"]),
        ("--samples 8x8x8 --moving-mask parts.nii.gz", ["--moving-mask", "--samples all"]),
        ("--mesh block.vtu --mesh-spacing 10", ["--mesh-spacing", "without --mesh"]),
        ("--mesh block.vtu --mesh-mask parts.nii.gz", ["--mesh-mask", "without --mesh"]),
        ("--materials materials.csv", ["--materials", "--mesh-labels"]),
        (
            "--materials materials.csv --mesh-labels parts.nii.gz --young 2000",
            ["--young", "without --materials"],
        ),
        ("--fix-label 1", ["--fix-label", "--mesh-labels"]),
        ("--point-convention lps", ["--point-convention", "--mesh"]),
        ("--init header", ["--init", "--affine auto"]),
        ("--dof 6", ["--dof", "--affine auto"]),
        ("--radius 3", ["--radius", "--similarity lncc"]),
    ] {
        refused(&place, options, &parts);
    }
    // And where there is no mesh, none is written.
    let run = place.line("deform a.nii.gz b.nii.gz -o new/out --outputs mesh").expect(2);
    run.says(&["mesh", "jacobian"]);
}

#[test]
fn meshes_that_cannot_be_are_refused() {
    let place = place();
    write(&place, "away.vtu", &block(1000.0));
    refused(&place, "--mesh away.vtu", &["--mesh", "outside of the fixed image"]);
    let whole = block(-20.0);
    let mut turned = whole.tetrahedra().to_vec();
    turned[0].swap(2, 3);
    let bad = TetraMesh::new(whole.vertices().to_vec(), turned).unwrap();
    write(&place, "turned.vtk", &bad);
    refused(&place, "--mesh turned.vtk", &["turned.vtk", "inside out"]);
    let far = whole.vertices().iter().map(|v| v + Vector3::new(60.0, 0.0, 0.0));
    let both = whole.vertices().iter().copied().chain(far).collect();
    let count = whole.vertices().len() as u32;
    let more = whole.tetrahedra().iter().map(|t| t.map(|i| i + count));
    let all = whole.tetrahedra().iter().copied().chain(more).collect();
    write(&place, "two.vtu", &TetraMesh::new(both, all).unwrap());
    refused(&place, "--mesh two.vtu", &["two.vtu", "2 parts"]);
    refused(&place, "--mesh none.vtu", &["none.vtu", "check the path"]);
    refused(&place, "--mesh materials.csv", &["materials.csv", ".vtu"]);
    let labels = "--mesh-labels parts.nii.gz --mesh-spacing 24";
    place.write("one.csv", "1,1000,0.3,1000\n");
    let run =
        refused(&place, &format!("{labels} --materials one.csv"), &["one.csv", "no material"]);
    assert!(run.err.contains("label 0") || run.err.contains("label 2"), "{}", run.err);
    place.write("bad.csv", "label,young,poisson,density\n0,1000,0.3,1000\n1,1000,0.5,1000\n");
    let parts = ["--materials", "bad.csv", "line 3", "0.5", "below 0.5"];
    refused(&place, &format!("{labels} --materials bad.csv"), &parts);
    refused(&place, &format!("{labels} --fix-label 7"), &["--fix-label", "label 7"]);
    refused(&place, &format!("{labels} --fix-label 0,1,2"), &["are held", "--fix-label"]);
    place.write("nodes.txt", "0\n4000\n");
    refused(&place, "--fix-nodes nodes.txt", &["nodes.txt", "vertex 4000"]);
    place.write("nodes.txt", "0\nfirst\n");
    refused(&place, "--fix-nodes nodes.txt", &["nodes.txt", "line 2", "first"]);
    refused(&place, "--state away.vtu", &["--state", "away.vtu", "displacement"]);
    place.labels("nothing.nii.gz", &Volume::filled(space(), 0));
    refused(&place, "--mesh-mask nothing.nii.gz", &["--mesh-mask", "nothing.nii.gz", "0 voxels"]);
}

#[test]
fn a_pair_is_registered_and_the_body_goes_on_from_its_end() {
    let place = place();
    let run = place.line(&format!("elastic a.nii.gz b.nii.gz -o new/out {FAST}"));
    assert!(run.code < 2, "{}", run.err);
    for part in ["kinetic", "panicked"] {
        assert!(!run.out.contains(part) && !run.err.contains(part), "{}", run.err);
    }
    for part in
        ["tetrahedra", "largest norm of strain", "part of a step", "interpolation", "verdict:"]
    {
        assert!(run.out.contains(part), "{part} is not in\n{}", run.out);
    }
    assert_eq!(names(&place.path("new/out")), FILES);
    let found = record(&place, "new/out");
    assert_eq!(found["program"], "voxalign elastic");
    let (body, figures) = (&found["elastic"], &found["figures"]);
    assert!(figures["ncc_after"].as_f64() > figures["ncc_before"].as_f64(), "{figures}");
    assert_eq!(body["spacing_mm"], 24.0);
    assert_eq!(body["materials"][0]["young_kpa"], 1.0);
    assert_eq!(body["held"], 0);
    let steps = body["iterations"].as_u64().unwrap();
    // It comes to rest before the end of its schedule.
    assert!((3..12).contains(&steps) && body["at_rest"] == true, "{steps}");
    assert_eq!(body["step_parts"].as_array().unwrap().len(), 5);
    let times =
        body["step_parts"].as_array().unwrap().iter().map(|p| p["seconds"].as_f64().unwrap());
    assert!(times.sum::<f64>() > 0.0);
    let motion = found["deformation"]["scales"][0]["motion"].as_array().unwrap();
    assert_eq!(motion.len() as u64, steps);
    assert_eq!(found["parameters"]["young"], 1000.0);
    assert_eq!(found["limits"]["elastic"]["volume"], 0.25);
    let checks = found["verdict"]["checks"].as_array().unwrap();
    assert!(
        checks.iter().any(|c| c["name"] == "smallest volume of a tetrahedron over that at rest")
    );
    let html = fs::read_to_string(place.path("new/out/report.html")).unwrap();
    for part in [
        "fig-strain",
        "svg-kinetic",
        "svg-force",
        "mesh at rest",
        "Time of the parts",
        "Elastic registration",
    ] {
        assert!(html.contains(part), "{part}");
    }
    // In pictures that is a part of their bytes.
    let words =
        html.split("base64,").map(|part| part.split_once('"').map_or(part, |(_, rest)| rest));
    assert!(words.skip(1).all(|part| !part.contains("NaN")));
    assert_eq!(body["solver"], "direct");

    // The mesh is at rest over the whole image, and its values are those of the record.
    let ended = mesh(&place, "new/out/mesh.vtu");
    assert_eq!(body["vertices"], ended.vertices().len());
    assert_eq!(body["tetrahedra"], ended.tetrahedra().len());
    let of_vertices: Vec<_> =
        ended.vertex_data().iter().map(|d| (&*d.name, d.components)).collect();
    assert_eq!(of_vertices, [("displacement", 3), ("velocity", 3), ("acceleration", 3)]);
    let of_cells: Vec<_> = ended.cell_data().iter().map(|d| (&*d.name, d.components)).collect();
    assert_eq!(of_cells, [("strain", 6), ("von_mises", 1), ("volume_ratio", 1)]);
    assert!(ended.labels().iter().all(|l| *l == 0) && !ended.labels().is_empty());
    let least = ended.cell_data()[2].values.iter().copied().fold(f32::MAX, f32::min);
    assert!((f64::from(least) - body["least_volume_ratio"].as_f64().unwrap()).abs() < 1e-6);
    let far = ended.vertex_data()[0].values.iter().fold(0f32, |a, v| a.max(v.abs()));
    assert!(far > 1.0 && far < 12.0, "{far}");
    let displacements = ended.vertex_data()[0].values.chunks_exact(3);
    let rest: Vec<_> = ended
        .vertices()
        .iter()
        .zip(displacements)
        .map(|(v, u)| v - Vector3::from_iterator(u.iter().map(|c| f64::from(*c))))
        .collect();
    let lowest = rest.iter().fold([f64::MAX; 3], |a, v| [0, 1, 2].map(|i| a[i].min(v[i])));
    let corner = space().index_to_world(Vector3::repeat(-0.5));
    assert!((0..3).all(|i| (lowest[i] - corner[i]).abs() < 1e-4), "{lowest:?} {corner}");

    // It goes on from there: the first energy is near the last one, which was far below the first.
    let line =
        format!("elastic a.nii.gz b.nii.gz -o on {FAST} --no-report --state new/out/mesh.vtu");
    assert!(place.line(&line).code < 2);
    let on = record(&place, "on");
    let energy = |record: &serde_json::Value, last: bool| {
        let all = record["deformation"]["scales"][0]["energies"].as_array().unwrap().clone();
        if last { all.last().unwrap().as_f64().unwrap() } else { all[0].as_f64().unwrap() }
    };
    let [first, last, then] = [energy(&found, false), energy(&found, true), energy(&on, false)];
    assert!(
        last < 0.5 * first && (then - last).abs() < 0.1 * (first - last),
        "{first} {last} {then}"
    );
    assert_eq!(on["parameters"]["state"], "new/out/mesh.vtu");
    // Not with another mesh.
    let other = FAST.replace("spacing 24", "spacing 30");
    let line = format!("elastic a.nii.gz b.nii.gz -o other {other} --state new/out/mesh.vtu");
    place.line(&line).expect(2).says(&["new/out/mesh.vtu", "another mesh"]);
    assert!(!place.path("other").exists());
}

#[test]
fn a_body_of_materials_is_held_and_a_file_has_the_options_of_the_line() {
    let place = place();
    place.write("nodes.txt", "0\n1\n2\n");
    let line = format!(
        "elastic a.nii.gz b.nii.gz -o out {FAST} --mesh-mask parts.nii.gz --mesh-labels parts.nii.gz --materials materials.csv \
         --fix-label 1 --fix-nodes nodes.txt --samples 12x12x10 --force least-squares --step-solver cg --outputs warp,mesh --no-report"
    );
    let run = place.line(&line);
    assert!(run.code < 2, "{}", run.err);
    assert_eq!(names(&place.path("out")), ["mesh.vtu", "result.json", "warp.nii.gz"]);
    let found = record(&place, "out");
    assert_eq!(found["elastic"]["materials"].as_array().unwrap().len(), 3);
    let ended = mesh(&place, "out/mesh.vtu");
    let of: Vec<_> = found["inputs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|i| i["role"].as_str().unwrap().to_owned())
        .collect();
    for role in ["mesh_mask", "mesh_labels", "materials", "fixed_nodes"] {
        assert!(of.iter().any(|r| r == role), "{of:?}");
    }
    // What is held stays, and something else moves.
    let held = ended.tetrahedra().iter().zip(ended.labels()).filter(|(_, l)| **l == 1);
    let held: std::collections::BTreeSet<_> =
        held.flat_map(|(t, _)| t).copied().chain([0, 1, 2]).collect();
    assert_eq!(found["elastic"]["held"], held.len());
    assert!(!held.is_empty() && held.len() < ended.vertices().len());
    let moved = |i: u32| {
        let u = &ended.vertex_data()[0].values[3 * i as usize..][..3];
        u.iter().fold(0f32, |a, v| a.max(v.abs()))
    };
    assert!(held.iter().all(|&i| moved(i) == 0.0));
    assert!((0..ended.vertices().len() as u32).any(|i| moved(i) > 0.5));

    place.write(
        "job.toml",
        "fixed = 'a.nii.gz'\nmoving = 'b.nii.gz'\naffine = 'none'\nschedule = '2x12'\nmesh_spacing = 24\nmesh_mask = 'parts.nii.gz'\n\
         mesh-labels = 'parts.nii.gz'\nmaterials = 'materials.csv'\nfix_label = [1]\nfix_nodes = 'nodes.txt'\nsamples = '12x12x10'\n\
         force = 'least-squares'\nstep_solver = 'cg'\noutputs = 'warp,mesh'\nreport = false\n",
    );
    assert!(place.line("elastic --config job.toml -o again --device cpu").code < 2);
    for name in ["mesh.vtu", "warp.nii.gz"] {
        let [a, b] = ["out", "again"].map(|f| fs::read(place.path(f).join(name)).unwrap());
        assert!(a == b, "{name}");
    }
    assert_eq!(record(&place, "again")["parameters"], found["parameters"]);
}
