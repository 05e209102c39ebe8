//! Surfaces, curves and streamlines in the commands.

use crate::common::{Place, grid, head};
use voxalign_image::{
    Affine, Displacement, Grid, Mesh, Transform, Vector3, VectorField, VertexData,
};
use voxalign_io::mesh::{self, MeshSpace, ReadOptions, WriteOptions};
use voxalign_io::transform::{self, Geometry};

/// The mesh of a file.
fn read(place: &Place, name: &str) -> Mesh {
    mesh::read(place.path(name), &ReadOptions::default()).unwrap().0
}

/// A closed ball of 12 rings of 12 vertices with two poles, with normals and a value, in LPS as 3D Slicer writes it.
pub(crate) fn ball(place: &Place, name: &str) {
    let options = WriteOptions { space: MeshSpace::Lps, ..WriteOptions::default() };
    mesh::write(place.path(name), &ball_mesh(), &options).unwrap();
}

fn ball_mesh() -> Mesh {
    let (rings, around) = (11u32, 12u32);
    let centre = Vector3::new(5.0, 10.0, 8.0);
    let mut normals = vec![Vector3::z()];
    for ring in 1..=rings {
        let polar = std::f64::consts::PI * f64::from(ring) / f64::from(rings + 1);
        for i in 0..around {
            let angle = std::f64::consts::TAU * f64::from(i) / f64::from(around);
            let (s, c) = polar.sin_cos();
            normals.push(Vector3::new(s * angle.cos(), s * angle.sin(), c));
        }
    }
    normals.push(-Vector3::z());
    let last = normals.len() as u32 - 1;
    let at = |ring: u32, i: u32| 1 + (ring - 1) * around + i % around;
    let mut faces = Vec::new();
    for i in 0..around {
        faces.extend([[0, at(1, i), at(1, i + 1)], [last, at(rings, i + 1), at(rings, i)]]);
        for ring in 1..rings {
            let [a, b] = [at(ring, i), at(ring, i + 1)];
            let [c, d] = [at(ring + 1, i), at(ring + 1, i + 1)];
            faces.extend([[a, c, b], [b, c, d]]);
        }
    }
    let vertices: Vec<_> = normals.iter().map(|n| centre + n * 30.0).collect();
    let values = normals.iter().flat_map(|n| [n[0] as f32, n[1] as f32, n[2] as f32]).collect();
    let number = (0..vertices.len()).map(|i| i as f32).collect();
    let data = vec![
        VertexData { name: "Normals".into(), components: 3, values, is_direction: true },
        VertexData { name: "number".into(), components: 1, values: number, is_direction: false },
    ];
    Mesh::new(vertices, faces).unwrap().with_data(data).unwrap()
}

/// `warp.nii.gz`, `t.tfm` and `mirror.tfm`.
pub(crate) fn transforms(place: &Place) {
    let field = VectorField::from_world_fn(grid([40, 40, 40], 4.0), |w| {
        Vector3::new((w[1] / 20.0).sin(), (w[2] / 25.0).cos(), (w[0] / 30.0).sin()) * 4.0
    });
    let rows = [[1.05, 0.1, 0.0, 6.0], [-0.1, 0.97, 0.05, -5.0], [0.0, 0.02, 1.1, 4.0]];
    let mirror = [[-1.0, 0.0, 0.0, 2.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]];
    for (name, transform) in [
        ("warp.nii.gz", Transform::Displacement(Displacement::new(field))),
        ("t.tfm", Transform::Affine(Affine::from_rows(rows))),
        ("mirror.tfm", Transform::Affine(Affine::from_rows(mirror))),
    ] {
        transform::write(place.path(name), &transform, &Geometry::default()).unwrap();
    }
}

/// The largest distance of vertices of the same number.
fn apart(a: &Mesh, b: &Mesh) -> f64 {
    assert_eq!(a.vertices().len(), b.vertices().len());
    a.vertices().iter().zip(b.vertices()).map(|(p, q)| (p - q).norm()).fold(0.0, f64::max)
}

#[test]
fn there_and_back_in_every_format() {
    let place = Place::new();
    ball(&place, "ball.vtk");
    transforms(&place);
    let original = read(&place, "ball.vtk");
    for (name, by, off) in [
        ("a.vtk", "t.tfm", 1e-9),
        ("a.vtp", "t.tfm", 1e-9),
        ("a.ply", "mirror.tfm", 1e-9),
        ("a.gii", "t.tfm", 1e-4),
        ("lh.pial", "mirror.tfm", 1e-4),
        ("a.vtk", "warp.nii.gz", 2e-3),
    ] {
        let run = place.line(&format!("apply -i ball.vtk -t {by} -o {name}")).expect(0);
        assert!(run.out.contains("134 vertices mapped from the moving to the fixed image"));
        assert_eq!(run.err.contains("mirrors"), by == "mirror.tfm", "{}", run.err);
        assert_eq!(run.err.contains("no values at vertices"), name == "lh.pial", "{}", run.err);
        let moved = read(&place, name);
        assert!(apart(&moved, &original) > 1.0, "{name}");
        assert!(moved.volume().unwrap().unwrap() > 0.0, "{name} is inside out");
        place.line(&format!("apply -i {name} -t {by} --points-from fixed -o back.vtp")).expect(0);
        let back = read(&place, "back.vtp");
        assert!(apart(&back, &original) < off, "{name} {by}: {}", apart(&back, &original));
        if name != "lh.pial" {
            let same =
                back.data().iter().zip(original.data()).all(|(a, b)| {
                    a.values.iter().zip(&b.values).all(|(a, b)| (a - b).abs() < 0.02)
                });
            assert!(same && back.data().len() == 2, "{name} {by}");
        }
    }
    // A vertex goes as a point does, and normals stand on what the surface became.
    let first = original.vertices()[17];
    place.write("p.csv", &format!("x,y,z\n{},{},{}\n", first[0], first[1], first[2]));
    place.line("apply -i p.csv -t warp.nii.gz -t t.tfm -o q.csv").expect(0);
    place.line("apply -i ball.vtk -t warp.nii.gz -t t.tfm -o moved.vtk").expect(0);
    let text = std::fs::read_to_string(place.path("q.csv")).unwrap();
    let q: Vec<f64> = text.lines().nth(1).unwrap().split(',').map(|v| v.parse().unwrap()).collect();
    let moved = read(&place, "moved.vtk");
    assert!((moved.vertices()[17] - Vector3::from_row_slice(&q)).norm() < 1e-9);
    let normal = |i: u32| {
        let n = &moved.data()[0].values[3 * i as usize..][..3];
        Vector3::new(f64::from(n[0]), f64::from(n[1]), f64::from(n[2]))
    };
    for face in moved.faces() {
        let [a, b, c] = face.map(|i| moved.vertices()[i as usize]);
        let across = (b - a).cross(&(c - a)).normalize();
        assert!(face.iter().all(|&i| across.dot(&normal(i)) > 0.85));
    }
    // What 3D Slicer said of the space is kept.
    let (_, info) = mesh::read(place.path("moved.vtk"), &ReadOptions::default()).unwrap();
    assert_eq!((info.space, info.assumed), (MeshSpace::Lps, false));
}

#[test]
fn streamlines_and_curves() {
    let place = Place::new();
    transforms(&place);
    let points: Vec<_> =
        (0..9).map(|i| Vector3::new(f64::from(i), 2.0, f64::from(i % 3))).collect();
    let lines =
        Mesh::new(points, vec![]).unwrap().with_lines(vec![4, 9], (0..9).collect()).unwrap();
    for name in ["a.tck", "a.trk", "a.vtk"] {
        mesh::write(place.path(name), &lines, &WriteOptions::default()).unwrap();
        place.line(&format!("apply -i {name} -t t.tfm -t warp.nii.gz -o b_{name}")).expect(0);
        place
            .line(&format!(
                "apply -i b_{name} -t t.tfm -t warp.nii.gz --points-from fixed -o c_{name}"
            ))
            .expect(0);
        let back = read(&place, &format!("c_{name}"));
        assert_eq!(back.lines().map(<[u32]>::len).collect::<Vec<_>>(), [4, 5]);
        assert!(apart(&back, &lines) < 2e-3, "{name}: {}", apart(&back, &lines));
    }
    place.line("apply -i a.tck -t t.tfm -o no.gii").expect(2).says(&["GIFTI holds no lines"]);
    place.line("convert a.tck a.trk").expect(0);
    place.line("convert a.trk no.stl").expect(2).says(&["STL holds no lines"]);
    let info = place.line("info a.trk --json").expect(0).json();
    assert_eq!((&info["lines"], &info["components"]), (&2.into(), &2.into()));
    assert!((info["length_mm"].as_f64().unwrap() - lines.length()).abs() < 1e-5);
    let json = place.line("compare --meshes a.tck b_a.tck --json").expect(0).json();
    assert!(json["meshes"]["hausdorff"].as_f64().unwrap() > 1.0);
    assert!(!place.path("no.gii").exists() && !place.path("no.stl").exists());
}

#[test]
fn what_a_mesh_is() {
    let place = Place::new();
    ball(&place, "ball.vtk");
    let json = place.line("info ball.vtk --json").expect(0).json();
    let ball = ball_mesh();
    for (name, value) in [
        ("kind", serde_json::json!("mesh")),
        ("format", "VTK".into()),
        ("stored_coordinates", "LPS".into()),
        ("coordinates_from", "the file".into()),
        ("vertices", 134.into()),
        ("triangles", 264.into()),
        ("components", 1.into()),
        ("closed", true.into()),
        ("boundary_edges", 0.into()),
        ("duplicate_vertices", 0.into()),
        ("unused_vertices", 0.into()),
        ("degenerate_parts", 0.into()),
        ("arrays", serde_json::json!(["Normals (3, a direction)", "number (1)"])),
        ("odd", serde_json::json!([])),
    ] {
        assert_eq!(json[name], value, "{name}");
    }
    let volume = json["volume_mm3"].as_f64().unwrap();
    assert!((volume - ball.volume().unwrap().unwrap()).abs() < 1e-6 && volume > 9e4);
    assert!((json["area_mm2"].as_f64().unwrap() - ball.area()).abs() < 1e-6);
    // Half of it, inside out, with a vertex that nothing has and one twice.
    let mut vertices = ball.vertices().to_vec();
    vertices.push(vertices[3]);
    let odd = Mesh::new(vertices, ball.faces()[..100].to_vec()).unwrap();
    mesh::write(place.path("odd.ply"), &odd, &WriteOptions::default()).unwrap();
    let run = place.line("info odd.ply").expect(0);
    for part in ["boundary edges", "vertices that no face", "1 vertices at the place"] {
        assert!(run.out.contains(part), "{part} is not in\n{}", run.out);
    }
    let turned = ball.flipped();
    mesh::write(place.path("in.stl"), &turned, &WriteOptions::default()).unwrap();
    assert!(place.line("info in.stl").expect(0).out.contains("inside out"));
    let text = std::fs::read(place.path("in.stl")).unwrap();
    // A header that says nothing.
    let mut bare = text.clone();
    bare[..80].fill(b' ');
    std::fs::write(place.path("bare.stl"), bare).unwrap();
    let run = place.line("info bare.stl").expect(0);
    assert!(
        run.out.contains("does not state whether its coordinates are RAS or LPS"),
        "{}",
        run.out
    );
    let run = place.line("info bare.stl --point-convention lps").expect(0);
    assert!(run.out.contains("--point-convention") && !run.out.contains("does not state"));
    place.line("convert bare.stl lps.ply --from-convention lps").expect(0);
    place.line("convert bare.stl ras.ply --from-convention ras").expect(0);
    let [lps, ras] = ["lps.ply", "ras.ply"].map(|name| read(&place, name));
    assert_eq!(lps.vertices()[5][0], -ras.vertices()[5][0]);
    place
        .line("convert ras.ply a.gii --to-convention lps")
        .expect(2)
        .says(&["without a fixed world"]);
    place.line("convert ras.ply a.ply --to-convention lps").expect(0);
    assert_eq!(read(&place, "a.ply").vertices(), ras.vertices());
}

#[test]
fn distances_of_meshes() {
    let place = Place::new();
    ball(&place, "ball.vtk");
    let larger = ball_mesh().map(|v| v + Vector3::new(0.0, 0.0, 3.0)).unwrap();
    mesh::write(place.path("up.gii"), &larger, &WriteOptions::default()).unwrap();
    let json = place.line("compare --meshes ball.vtk up.gii --json").expect(0).json();
    let of = |name: &str| json["meshes"][name].as_f64().unwrap();
    assert!(of("mean") > 1.0 && of("mean") < of("p95") && of("p95") <= of("hausdorff"));
    assert!(of("hausdorff") < 3.001);
    let run = place.line("compare --meshes ball.vtk ball.vtk").expect(0);
    assert!(run.out.contains("largest (Hausdorff)") && run.out.contains("0.0000 mm"));
    place.line("compare --meshes ball.vtk none.vtk").expect(2).says(&["none.vtk"]);
    place.line("compare --meshes ball.vtk").expect(2).says(&["2 values"]);
    place
        .line("compare --meshes ball.vtk up.gii --points-of up.gii")
        .expect(2)
        .says(&["--points-of is for --points"]);
}

#[test]
fn a_mesh_that_lies_elsewhere_is_told() {
    let place = Place::new();
    transforms(&place);
    // An image far from the origin, so that nothing lies where it does not belong.
    let shift = Affine::translation(Vector3::new(300.0, 400.0, 50.0));
    let there = grid([40, 40, 40], 4.0).moved(&shift).unwrap();
    place.image("there.nii.gz", &head(&there, &shift.inverse().unwrap()));
    let field = VectorField::from_world_fn(there.clone(), |_| Vector3::new(1.0, 0.0, 0.0));
    let field = Transform::Displacement(Displacement::new(field));
    transform::write(place.path("far.nii.gz"), &field, &Geometry::default()).unwrap();
    let ball = ball_mesh();
    let save = |name: &str, f: &dyn Fn(&Vector3<f64>) -> Vector3<f64>| {
        mesh::write(place.path(name), &ball.map(f).unwrap(), &WriteOptions::default()).unwrap();
    };
    save("good.gii", &|v| shift.apply(*v));
    save("lps.gii", &|v| {
        let p = shift.apply(*v);
        Vector3::new(-p[0], -p[1], p[2])
    });
    save("voxels.gii", &|v| there.world_to_index(shift.apply(*v)));
    save("tk.gii", &|v| shift.apply(*v) - there.centre() - Vector3::new(60.0, 0.0, 0.0));
    save("half.gii", &|v| shift.apply(*v) + Vector3::new(95.0, 0.0, 0.0));
    let run = place.line("apply -i good.gii -t far.nii.gz -o a.gii").expect(0);
    assert!(!run.err.contains("warning"), "{}", run.err);
    for (name, said) in [
        ("lps.gii", "it lies there as LPS"),
        ("voxels.gii", "voxel indices"),
        ("tk.gii", "mris_convert --to-scanner"),
    ] {
        for of in ["--points-of there.nii.gz -t t.tfm", "--points-from fixed -t far.nii.gz"] {
            let run = place.line(&format!("apply -i {name} {of} -o a.gii")).expect(1);
            run.says(&[name, said, "the result means nothing"]);
        }
        let run = place.line(&format!("info {name} --points-of there.nii.gz")).expect(0);
        assert!(run.out.contains(said), "{}", run.out);
    }
    // By the way through an affine part, too.
    let near = Transform::Affine(Affine::translation(Vector3::new(3.0, 1.0, -2.0)));
    transform::write(place.path("near.tfm"), &near, &Geometry::default()).unwrap();
    place
        .line("apply -i lps.gii -t far.nii.gz -t near.tfm -o a.gii")
        .expect(1)
        .says(&["all of 134 vertices lie beyond the grid of a displacement field", "as LPS"]);
    let run = place.line("apply -i half.gii -t far.nii.gz -o a.gii").expect(0);
    run.says(&[
        "of 134 vertices lie beyond the grid of a displacement field, where nothing is moved",
    ]);
    // Of a format without a world the option is the remedy.
    let ply = "convert lps.gii lps.ply";
    place.line(ply).expect(0);
    let text = std::fs::read(place.path("lps.ply")).unwrap();
    let text: Vec<u8> = text
        .split_inclusive(|b| *b == b'\n')
        .filter(|l| !l.starts_with(b"comment"))
        .flatten()
        .copied()
        .collect();
    std::fs::write(place.path("bare.ply"), text).unwrap();
    place
        .line("apply -i bare.ply -t far.nii.gz -o a.ply")
        .expect(1)
        .says(&["does not state whether", "give --point-convention lps"]);
    place.line("apply -i bare.ply -t far.nii.gz -o a.ply --point-convention lps").expect(0);
}

#[test]
fn bad_meshes_leave_nothing() {
    let place = Place::new();
    ball(&place, "ball.vtk");
    transforms(&place);
    place.image("a.nii.gz", &head(&grid([9, 8, 7], 9.0), &Affine::identity()));
    let bytes = std::fs::read(place.path("ball.vtk")).unwrap();
    std::fs::write(place.path("cut.vtk"), &bytes[..bytes.len() / 2]).unwrap();
    let text =
        "# vtk DataFile Version 3.0\nt\nASCII\nDATASET POLYDATA\nPOINTS 3 float\n0 0 0 1 0 0 0 1";
    place.write("nan.vtk", &format!("{text} nan\nPOLYGONS 1 4\n3 0 1 2\n"));
    place.write("index.vtk", &format!("{text} 0\nPOLYGONS 1 4\n3 0 1 3\n"));
    place.write(
        "singular.tfm",
        "#Insight Transform File V1.0\nTransform: AffineTransform_double_3_3\n\
        Parameters: 1 0 0 0 1 0 0 0 0 0 0 0\nFixedParameters: 0 0 0\n",
    );
    let names = place.names();
    for (line, said) in [
        ("apply -i cut.vtk -t t.tfm -o out.vtk", &["cut.vtk"][..]),
        ("apply -i nan.vtk -t t.tfm -o out.vtk", &["nan.vtk", "NaN"]),
        ("apply -i index.vtk -t t.tfm -o out.vtk", &["index.vtk", "vertex 3"]),
        ("apply -i none.vtk -t t.tfm -o out.vtk", &["none.vtk", "check the path"]),
        ("apply -i ball.vtk -o out.vtk", &["a mesh need", "-t FILE"]),
        ("apply -i ball.vtk -t singular.tfm -o out.vtk", &["singular"]),
        ("apply -i ball.vtk -t t.tfm -o out.csv", &["different kinds"]),
        ("apply -i ball.vtk -t t.tfm -o out.nii", &["different kinds"]),
        ("apply -i ball.vtk -t t.tfm -o out.vtk -r a.nii.gz", &["--reference", "a mesh"]),
        ("apply -i ball.vtk -t t.tfm -o out.tck", &["MRtrix holds no faces"]),
        (
            "apply -i a.nii.gz -r a.nii.gz -o out.nii --points-of a.nii.gz",
            &["--points-of is for points"],
        ),
        ("convert cut.vtk out.ply", &["cut.vtk"]),
        ("convert ball.vtk out.csv", &["meshes to meshes"]),
        ("convert ball.vtk out.ply --data-type f32", &["--data-type is for images"]),
        ("convert ball.vtk out.ply --to-format csv", &["--to-format is for points"]),
        ("convert ball.vtk ball.vtk", &["never overwritten"]),
        ("info cut.vtk", &["cut.vtk"]),
        ("info a.nii.gz --point-convention lps", &["--point-convention", "none is given"]),
        ("compare --meshes cut.vtk ball.vtk", &["cut.vtk"]),
    ] {
        place.line(line).expect(2).says(said);
        assert_eq!(place.names(), names, "{line}");
    }
}

/// A grid of depth 1 is no reason to lose a mesh of its plane.
#[test]
fn a_plane_of_an_image_of_two_dimensions() {
    let place = Place::new();
    let plane = Grid::axis_aligned([30, 30, 1], [1.0; 3]).unwrap();
    let field = VectorField::from_world_fn(plane, |_| Vector3::new(2.0, 0.0, 0.0));
    let field = Transform::Displacement(Displacement::new(field));
    transform::write(place.path("w.nii.gz"), &field, &Geometry::default()).unwrap();
    let corners = [[5., 5., 0.], [9., 5., 0.], [5., 9., 0.]].map(Vector3::from);
    let triangle = Mesh::new(corners.into(), vec![[0, 1, 2]]).unwrap();
    mesh::write(place.path("a.ply"), &triangle, &WriteOptions::default()).unwrap();
    place.line("apply -i a.ply -t w.nii.gz --points-from fixed -o b.ply").expect(0);
    assert_eq!(read(&place, "b.ply").vertices()[0], Vector3::new(7.0, 5.0, 0.0));
}
