//! Atlases of subjects that have surfaces, points and landmarks beside images.

use super::*;
use std::time::Duration;
use voxalign_image::{Mesh, PointSet};
use voxalign_population::atlas::{AtlasChannel, Forms};
use voxalign_register::Choice;
use voxalign_register::attachment::currents::{Shape, ShapeOptions};
use voxalign_register::compare::compare_meshes;

/// Where the displacement of a subject brings this point of the template from.
fn origin(subject: usize, q: Vector3<f64>) -> Vector3<f64> {
    let mut p = q;
    for _ in 0..40 {
        p += q - displaced(subject, p);
    }
    p
}

/// The surface of the dark ellipsoid of the head, with so many rings.
fn surface(rings: usize) -> Mesh {
    let around = 2 * rings;
    let mut vertices = vec![Vector3::new(0.0, 0.0, 1.0)];
    for ring in 1..rings {
        let polar = std::f64::consts::PI * ring as f64 / rings as f64;
        for k in 0..around {
            let turn = std::f64::consts::PI * k as f64 / rings as f64;
            let flat = polar.sin();
            vertices.push(Vector3::new(flat * turn.cos(), flat * turn.sin(), polar.cos()));
        }
    }
    vertices.push(Vector3::new(0.0, 0.0, -1.0));
    let at = |ring: usize, k: usize| (1 + (ring - 1) * around + k % around) as u32;
    let last = vertices.len() as u32 - 1;
    let mut faces = Vec::new();
    for k in 0..around {
        faces.push([0, at(1, k), at(1, k + 1)]);
        faces.push([last, at(rings - 1, k + 1), at(rings - 1, k)]);
        for ring in 1..rings - 1 {
            faces.push([at(ring, k), at(ring + 1, k), at(ring + 1, k + 1)]);
            faces.push([at(ring, k), at(ring + 1, k + 1), at(ring, k + 1)]);
        }
    }
    let place = |v: Vector3<f64>| {
        Vector3::new(-16.0, 8.0, 0.0) + v.component_mul(&Vector3::new(10.0, 22.0, 20.0))
    };
    Mesh::new(vertices.into_iter().map(place).collect(), faces).unwrap()
}

fn moved(mesh: &Mesh, to: impl Fn(Vector3<f64>) -> Vector3<f64>) -> Mesh {
    Mesh::new(mesh.vertices().iter().map(|v| to(*v)).collect(), mesh.faces().to_vec()).unwrap()
}

/// The surface of a subject: of other triangles than those of others.
fn surface_of(subject: usize) -> Mesh {
    moved(&surface(8 + subject), |q| origin(subject, q))
}

fn marks() -> Vec<Vector3<f64>> {
    [[-16.0, 8.0, 0.0], [16.0, 8.0, 2.0], [0.0, -35.0, -4.0], [-40.0, 0.0, 5.0], [30.0, 30.0, 0.0]]
        .map(Vector3::from)
        .to_vec()
}

fn landmarks(count: usize) -> Geometry {
    let of = |subject: usize| {
        let points: Vec<_> = marks().into_iter().map(|q| origin(subject, q)).collect();
        let each = vec![1.0; points.len()];
        (PointSet::new(points), each)
    };
    let subjects = (0..count).map(of).collect();
    Geometry { name: "marks".to_owned(), forms: Forms::Landmarks { weight: 3e-3, subjects } }
}

fn shapes(count: usize, weight: f64) -> Geometry {
    let of = |subject: usize| {
        let mesh = surface_of(subject);
        Arc::new(Shape::surface(mesh.vertices(), mesh.faces(), true).unwrap())
    };
    let options = ShapeOptions { width: 8.0, weight, ..ShapeOptions::default() };
    let subjects = (0..count).map(of).collect();
    Geometry { name: "dark".to_owned(), forms: Forms::Shapes { options, subjects } }
}

/// A head of a coarse grid of three dimensions.
fn heads(count: usize) -> Vec<(Subject, Images)> {
    let plain = Grid::axis_aligned([30, 34, 14], [4.5; 3]).unwrap();
    let grid = Grid::new(plain.dims(), Affine::new(plain.to_world().matrix, -plain.centre()));
    let grid = grid.unwrap();
    let mut all = population(count, 1);
    for (number, (_, images)) in all.iter_mut().enumerate() {
        let volume = Volume::from_fn(grid.clone(), |x, y, z| {
            let p = grid.index_to_world(Vector3::new(x as f64, y as f64, z as f64));
            (1000.0 * head(displaced(number, p))) as f32
        });
        images.channels = vec![Arc::new(volume)];
    }
    all
}

/// How far the template's surface is from the true one, and the worst of how far the surfaces of subjects are from that which is carried to
/// them, mm.
fn apart(atlas: &Atlas, found: &[Found]) -> [f64; 2] {
    let template = &atlas.geometry[0];
    let faces = surface(8 + template.from).faces().to_vec();
    let mesh = Mesh::new(template.vertices.clone(), faces.clone()).unwrap();
    let truth = compare_meshes(&mesh, &surface(20)).unwrap().mean;
    let of = |f: &Found| {
        let mesh = Mesh::new(f.geometry[0].after.clone(), faces.clone()).unwrap();
        compare_meshes(&mesh, &surface_of(f.subject)).unwrap().mean
    };
    [truth, found.iter().map(of).fold(0.0, f64::max)]
}

fn farthest(points: &[Vector3<f64>], others: &[Vector3<f64>]) -> f64 {
    points.iter().zip(others).map(|(a, b)| (a - b).norm()).fold(0.0, f64::max)
}

/// The template has the mean surface and the mean landmarks, and each subject is found by them.
#[test]
fn templates_have_the_mean_geometry() {
    let cpu = Cpu::new(None).unwrap();
    let count = 4;
    let start = (0..count)
        .map(|i| compare_meshes(&surface_of(i), &surface(20)).unwrap().mean)
        .fold(f64::INFINITY, f64::min);
    let marks_start =
        farthest(&marks().iter().map(|q| origin(0, *q)).collect::<Vec<_>>(), &marks());
    println!(
        "the nearest surface of a subject is {start:.2} mm off, its landmarks {marks_start:.2}"
    );
    for model in MODELS {
        let mut options = options(model);
        options.matching.multiscale.schedule.0.iter_mut().for_each(|s| s.iterations = 20);
        let geometry = vec![shapes(count, 0.05), landmarks(count)];
        let how = How { geometry, ..How::default() };
        let (atlas, found) = try_build(&alone(&cpu), heads(count), &options, &how).unwrap();
        let [truth, worst] = apart(&atlas, &found);
        let marks_off = farthest(&atlas.geometry[1].vertices, &marks());
        let carried = found.iter().map(|f| {
            let own: Vec<_> = marks().into_iter().map(|q| origin(f.subject, q)).collect();
            farthest(&f.geometry[1].after, &own)
        });
        let carried = carried.fold(0.0, f64::max);
        println!(
            "{model:?}: template surface {truth:.3} mm, subjects {worst:.3}; landmarks {marks_off:.3}, {carried:.3}"
        );
        assert!(truth < 0.6 && truth < 0.5 * start, "{truth}");
        assert!(worst < 0.6, "{worst}");
        assert!(marks_off < 0.25 * marks_start && carried < 0.4 * marks_start);
        assert!(found.iter().all(|f| f.verdict.good));
    }
}

/// Surfaces alone find the mean surface, too: what is drawn of them pulls nothing.
#[test]
fn of_surfaces_alone() {
    let cpu = Cpu::new(None).unwrap();
    let count = 4;
    let mut options = options(DeformModel::GREEDY);
    options.matching.multiscale.schedule.0.iter_mut().for_each(|s| s.iterations = 20);
    options.matching.model.set("total_sigma", "0").unwrap();
    options.channels = vec![AtlasChannel { similarity: Similarity::SSD, weight: 0.0 }];
    let how = How { geometry: vec![shapes(count, 1.0)], ..How::default() };
    let (atlas, found) = try_build(&alone(&cpu), heads(count), &options, &how).unwrap();
    let [truth, worst] = apart(&atlas, &found);
    println!("template surface {truth:.3} mm, subjects {worst:.3}");
    assert!(truth < 0.6 && worst < 0.6);
}

/// Subjects that are streamed, ranks, and runs that were stopped give the bits of a run that was left alone on one device.
#[test]
fn the_same_bits() {
    let cpu = Cpu::new(Some(2)).unwrap();
    let count = 3;
    for model in MODELS {
        let options = short(model);
        let geometry = vec![shapes(count, 0.05), landmarks(count)];
        let all = heads(count);
        let usual = How { geometry: geometry.clone(), ..How::default() };
        let whole = try_build(&alone(&cpu), all.clone(), &options, &usual).unwrap();
        let memory = MemoryOptions { device_memory: Some(Bytes(1)), ..MemoryOptions::USUAL };
        let streams = How { memory, geometry: geometry.clone(), ..How::default() };
        let streamed = try_build(&alone(&cpu), all.clone(), &options, &streams).unwrap();
        assert!(!streamed.0.plans[0].in_core());
        assert_same(&streamed, &whole, &format!("{model:?}, streamed"));
        let (first, of_all) = std::thread::scope(|scope| {
            let (all, options, usual) = (&all, &options, &usual);
            let threads: Vec<_> = Communicator::local(2)
                .into_iter()
                .map(|rank| {
                    let cpu = cpu.clone();
                    scope.spawn(move || {
                        let team = Team::new(vec![cpu], rank).unwrap();
                        try_build(&team, all.clone(), options, usual).unwrap()
                    })
                })
                .collect();
            let mut all: Vec<_> = threads.into_iter().map(|t| t.join().unwrap()).collect();
            let found = all.iter_mut().flat_map(|f| std::mem::take(&mut f.1)).collect::<Vec<_>>();
            (all.remove(0).0, found)
        });
        assert_same(&(first, of_all), &whole, &format!("{model:?}, ranks"));
        for stop in [2, 6] {
            let root = tempfile::tempdir().unwrap();
            let folder = root.path().join("c");
            let every = Duration::ZERO;
            let checkpoints = Checkpoints { folder: &folder, every, key: "k", device: "cpu" };
            let checkpoints = Some(&checkpoints);
            let stopped = How { checkpoints, stop: Some(stop), ..usual.clone() };
            let stopped = try_build(&alone(&cpu), all.clone(), &options, &stopped);
            assert!(matches!(stopped, Err(PopulationError::Stopped)), "{stopped:?}");
            let resumes = How { checkpoints, resume: true, ..usual.clone() };
            let resumed = try_build(&alone(&cpu), all.clone(), &options, &resumes).unwrap();
            assert_same(&resumed, &whole, &format!("{model:?}, stopped after {stop}"));
        }
    }
}

#[test]
fn what_not_all_have_is_refused() {
    let cpu = Cpu::new(Some(1)).unwrap();
    let options = short(DeformModel::GREEDY);
    let how = How { geometry: vec![shapes(2, 0.05)], ..How::default() };
    let said = try_build(&alone(&cpu), heads(3), &options, &how).unwrap_err().to_string();
    assert!(said.contains("dark") && said.contains("2 of 3"), "{said}");
    let mut options = options;
    options.channels = vec![AtlasChannel { similarity: Similarity::SSD, weight: 1.0 }; 2];
    let said = try_build(&alone(&cpu), heads(3), &options, &How::default()).unwrap_err();
    assert!(said.to_string().contains("a list of 2"), "{said}");
    options.channels.clear();
    let mut few = landmarks(3);
    if let Forms::Landmarks { subjects, .. } = &mut few.forms {
        subjects[1] = (PointSet::new(vec![Vector3::zeros()]), vec![1.0]);
    }
    let how = How { geometry: vec![few], ..How::default() };
    let said = try_build(&alone(&cpu), heads(3), &options, &how).unwrap_err().to_string();
    assert!(said.contains("marks") && said.contains("the same number of points"), "{said}");
}
