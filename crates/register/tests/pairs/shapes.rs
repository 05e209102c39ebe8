//! Registrations that surfaces, curves and points without correspondence pull, alone or with images.

use crate::deform::Told;
use crate::deform::{fft, scales};
use std::sync::Arc;
use voxalign_compute::Device;
use voxalign_compute::cpu::Cpu;
use voxalign_compute::cuda::Cuda;
use voxalign_image::{Affine, Grid, Mesh, Vector3, VectorField, Volume};
use voxalign_register::attachment::currents::{Shape, ShapeOptions};
use voxalign_register::compare::{MeshScores, compare_meshes};
use voxalign_register::diffeo::{
    DeformInput, DeformModel, DeformResult, Matching, ShapeInput, StepRule, register_deformable,
};
use voxalign_register::similarity::Similarity;
use voxalign_register::{Choice, Silent};

fn grid() -> Grid {
    let half = Vector3::new(2.0 * 19.5, 2.0 * 19.5, 2.5 * 15.5);
    let to_world = voxalign_image::Matrix3::from_diagonal(&Vector3::new(2.0, 2.0, 2.5));
    Grid::new([40, 40, 32], Affine::new(to_world, -half)).unwrap()
}

fn start() -> Affine {
    Affine::translation(Vector3::new(1.0, -2.0, 1.5))
}

/// A smooth displacement of some mm, before the start.
fn displaced(p: &Vector3<f64>) -> Vector3<f64> {
    let wave = |a: f64, b: f64| (a / 17.0).sin() * (b / 21.0 + 0.4).cos();
    start().apply(p + 4.0 * Vector3::new(wave(p[1], p[2]), wave(p[2], p[0]), wave(p[0], p[1])))
}

/// A ball with waves, of so many rings, with its rings as curves.
fn ball(rings: usize) -> Mesh {
    use std::f64::consts::{PI, TAU};
    let around = 2 * rings;
    let mut vertices = Vec::new();
    for i in 0..=rings {
        for j in 0..around {
            let (theta, phi) =
                (PI * i as f64 / rings as f64, TAU * (j as f64 + 0.3) / around as f64);
            let r = 18.0 + 2.5 * (3.0 * theta).cos() * (2.0 * phi).sin();
            let (x, y) = (theta.sin() * phi.cos(), theta.sin() * phi.sin());
            vertices.push(r * Vector3::new(x, y, theta.cos()));
        }
    }
    let index = |i: usize, j: usize| (i * around + j % around) as u32;
    let faces = (0..rings)
        .flat_map(|i| (0..around).map(move |j| (i, j)))
        .flat_map(|(i, j)| {
            [
                [index(i, j), index(i + 1, j), index(i + 1, j + 1)],
                [index(i, j), index(i + 1, j + 1), index(i, j + 1)],
            ]
        })
        .collect();
    let lines: Vec<u32> = (1..rings).flat_map(|i| (0..=around).map(move |j| index(i, j))).collect();
    let ends = (1..rings).map(|k| k * (around + 1)).collect();
    Mesh::new(vertices, faces).unwrap().with_lines(ends, lines).unwrap()
}

/// The fixed mesh and the moving one. They have other vertices.
fn meshes() -> [Mesh; 2] {
    [ball(14), ball(12).map(displaced).unwrap()]
}

/// What of them is compared.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Surface(bool),
    Curves(bool),
    Points,
}

const KINDS: [Kind; 5] = [
    Kind::Surface(true),
    Kind::Surface(false),
    Kind::Curves(true),
    Kind::Curves(false),
    Kind::Points,
];

fn shape(mesh: &Mesh, kind: Kind) -> Shape {
    let vertices = mesh.vertices();
    match kind {
        Kind::Surface(oriented) => Shape::surface(vertices, mesh.faces(), oriented).unwrap(),
        Kind::Curves(oriented) => Shape::curves(vertices, mesh.lines(), oriented).unwrap(),
        Kind::Points => Shape::points(vertices).unwrap(),
    }
}

fn options(model: DeformModel) -> Matching {
    Matching { solver: fft(), ..Matching::of(model) }
        .told("schedule", scales(&[(4, 40), (2, 30), (1, 10)]))
        .told("step_rule", StepRule::Adaptive.name())
        .told("convergence", 0.0)
        .told("total_sigma", 0.0)
        .told("lddmm_sigma", 0.1)
        .told("time_steps", 5)
}

fn registered<D: Device>(
    device: &D,
    meshes: &[Mesh; 2],
    kind: Kind,
    options: &Matching,
) -> DeformResult {
    let image = Volume::from_fn(grid(), |x, y, z| ((x * 3 + y * 5 + z * 7) % 11) as f32);
    let mut input = DeformInput::new(&image, &image, Similarity::SSD, start());
    input.preparation.clip = false;
    input.channels[0].weight = 0.0;
    let [fixed, moving] = meshes.each_ref().map(|mesh| Arc::new(shape(mesh, kind)));
    let of_shape = ShapeOptions { width: 4.0, ..ShapeOptions::default() };
    input.shapes.push(ShapeInput { fixed, moving, options: of_shape });
    register_deformable(device, &input, options, &Silent).unwrap()
}

/// How far the fixed mesh, carried there, is from the moving one, as surfaces.
fn apart(found: &DeformResult, [fixed, moving]: &[Mesh; 2]) -> MeshScores {
    let there = found.transform();
    compare_meshes(&fixed.map(|v| there.apply(*v)).unwrap(), moving).unwrap()
}

#[test]
fn shapes_alone_are_brought_together() {
    let (device, meshes) = (Cpu::new(None).unwrap(), meshes());
    let [fixed, moving] = &meshes;
    let before = compare_meshes(&fixed.map(|v| start().apply(*v)).unwrap(), moving).unwrap();
    for &model in DeformModel::ALL {
        // All kinds with one model, one of them with the others.
        let kinds = if model == DeformModel::GREEDY { &KINDS[..] } else { &KINDS[..1] };
        for &kind in kinds {
            let found = registered(&device, &meshes, kind, &options(model));
            let after = apart(&found, &meshes);
            println!(
                "{} {kind:?}: mean {:.2} mm to {:.3}, 95 % {:.2} to {:.3}, Hausdorff {:.2} to {:.2}; Jacobian {:.2} to {:.2}",
                model.name(),
                before.mean,
                after.mean,
                before.p95,
                after.p95,
                before.hausdorff,
                after.hausdorff,
                found.measures.smallest_jacobian,
                found.measures.largest_jacobian
            );
            assert!(before.mean > 1.0 && after.mean < 0.3 * before.mean, "{kind:?}");
            assert_eq!(found.measures.folded, 0);
        }
    }
}

fn short(model: DeformModel) -> Matching {
    options(model).told("schedule", scales(&[(4, 4), (2, 2)])).told("time_steps", 3)
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let meshes = meshes();
    for &model in DeformModel::ALL {
        let bits = |threads| {
            let device = Cpu::new(Some(threads)).unwrap();
            let found = registered(&device, &meshes, Kind::Surface(true), &short(model));
            let bits = |f: &VectorField| f.data().iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            let energies: Vec<f64> = found.scales.iter().flat_map(|s| s.energies.clone()).collect();
            (bits(&found.forward), bits(&found.inverse), energies)
        };
        let expected = bits(1);
        for threads in [1, 2, 3] {
            assert!(bits(threads) == expected, "{} with {threads} threads", model.name());
        }
    }
}

/// The kernels of a GPU, emulated, do as the CPU.
#[test]
fn the_emulated_gpu_agrees() {
    let Ok(cuda) = Cuda::emulated() else {
        assert!(std::env::var_os("VOXALIGN_REQUIRE_EMULATION").is_none(), "no C++ compiler");
        println!("skipped: there is no C++ compiler");
        return;
    };
    let (cpu, meshes) = (Cpu::new(None).unwrap(), [ball(6), ball(5).map(displaced).unwrap()]);
    let options = short(DeformModel::GREEDY).told("schedule", scales(&[(4, 2)]));
    for kind in [Kind::Surface(true), Kind::Curves(false)] {
        let one = registered(&cpu, &meshes, kind, &options);
        let other = registered(&cuda, &meshes, kind, &options);
        let apart = one.forward.data().iter().zip(other.forward.data());
        let apart = apart.map(|(a, b)| (a - b).abs()).fold(0f32, f32::max);
        println!("{kind:?}: {apart:e} mm apart");
        assert!(apart < 0.02, "{apart}");
    }
}
