//! Made images that an elastic body is moved between.

use std::sync::Arc;
use voxalign_compute::Device;
use voxalign_compute::cpu::Cpu;
use voxalign_elasticity::{Body, Fixed, Material, Materials, TetraBox, fitted};
use voxalign_image::{Affine, Grid, LabelMap, Matrix3, Vector3, VectorField, Volume};
use voxalign_register::Silent;
use voxalign_register::diffeo::{
    DeformInput, DeformResult, ElasticSetting, Intensities, register_elastic,
};
use voxalign_register::model::elastic::{
    BodyLevel, Elastic, ElasticBody, ElasticResult, FALL_OFF_MM, Force, Sampling, StepSolver,
};
use voxalign_register::multiscale::Schedule;
use voxalign_register::similarity::Similarity;

const SPACING: [f64; 3] = [1.5, 1.6, 1.8];

/// A grid whose axes are not those of the world.
pub(crate) fn grid() -> Grid {
    let (s, c) = 0.3f64.sin_cos();
    let turn = Matrix3::new(c, -s, 0.0, s, c, 0.0, 0.0, 0.0, 1.0);
    let matrix = turn * Matrix3::from_diagonal(&Vector3::from(SPACING));
    Grid::new([40, 36, 30], Affine::new(matrix, Vector3::new(-20.0, 10.0, 5.0))).unwrap()
}

/// Tissue with edges and texture, 0 to 1, at a place in mm.
pub(crate) fn tissue(x: Vector3<f64>) -> f64 {
    let off = x - grid().centre();
    let ball = 1.0 / (1.0 + ((off.norm() - 20.0) / 0.8).exp());
    let texture = (0.45 * x.x).sin() + (0.4 * x.y + 0.2 * x.z).sin() + (0.5 * x.z).cos();
    let core = 1.0 / (1.0 + (((off - Vector3::new(4.0, 2.0, -3.0)).norm() - 7.0) / 0.8).exp());
    ball * (0.45 + 0.1 * texture + 0.25 * core)
}

/// A smooth displacement of some mm, at most 3.5.
pub(crate) fn truth(x: Vector3<f64>) -> Vector3<f64> {
    let off = x - grid().centre();
    let near = (-off.norm_squared() / (2.0 * 14.0f64.powi(2))).exp();
    Vector3::new(2.5, -1.5, 1.8) * near + Vector3::new(0.03 * off.y, -0.02 * off.x, 0.0) * near
}

fn volume(of: impl Fn(Vector3<f64>) -> f64) -> Volume<f32> {
    let grid = grid();
    Volume::from_fn(grid.clone(), |i, j, k| {
        of(grid.index_to_world(Vector3::new(i as f64, j as f64, k as f64))) as f32
    })
}

/// The fixed and the moving image.
pub(crate) fn pair() -> [Volume<f32>; 2] {
    [volume(|x| tissue(x + truth(x))), volume(tissue)]
}

pub(crate) fn input<'a>([fixed, moving]: &'a [Volume<f32>; 2]) -> DeformInput<'a> {
    let mut input = DeformInput::new(fixed, moving, Similarity::SSD, Affine::identity());
    input.channels[0].intensities = Intensities::AsTheyAre;
    input
}

pub(crate) fn materials() -> Materials {
    Materials::Uniform(Material::new(1000.0, 0.4, 1000.0).unwrap())
}

/// A box of cells over the image.
pub(crate) fn cells(spacing: f64) -> (Body, Fixed, TetraBox) {
    let cells = TetraBox::over(&grid(), spacing).unwrap();
    let body = Body::new(cells.mesh().unwrap(), &materials()).unwrap();
    let fixed = Fixed::none(body.mesh()).unwrap();
    (body, fixed, cells)
}

pub(crate) fn setting(spacing: f64) -> ElasticSetting {
    let (body, fixed, cells) = cells(spacing);
    let mut setting = ElasticSetting::new(ElasticBody::new(body, fixed, Some(cells)));
    setting.multiscale.schedule = Schedule::of(&[(2, 60), (1, 40)]);
    // The contrast of these images is a tenth of that of most.
    setting.elastic.force_scale = Some(100.0);
    setting
}

pub(crate) fn run<D: Device>(
    device: &D,
    setting: &ElasticSetting,
) -> (DeformResult, ElasticResult) {
    register_elastic(device, &input(&pair()), setting, &Silent).unwrap()
}

/// The mean distance from the truth within the tissue, smallest voxels.
pub(crate) fn error(field: &VectorField) -> f64 {
    let grid = grid();
    let [nx, ny, nz] = grid.dims();
    let (mut sum, mut count) = (0.0, 0usize);
    for k in 0..nz {
        for j in 0..ny {
            for i in 0..nx {
                let x = grid.index_to_world(Vector3::new(i as f64, j as f64, k as f64));
                if (x - grid.centre()).norm() > 18.0 {
                    continue;
                }
                let found = field.get(i + nx * (j + ny * k));
                sum += (found - truth(x)).norm() / SPACING[0];
                count += 1;
            }
        }
    }
    sum / count as f64
}

fn cpu() -> Cpu {
    Cpu::new(Some(2)).unwrap()
}

/// Tissue that is cut by the field of view, and moves out of it at one end by more than a voxel: what has left says nothing, in particular not
/// that there is background.
#[test]
fn tissue_may_leave_the_field_of_view() {
    let grid = grid();
    let everywhere = |x: Vector3<f64>| {
        let texture = (0.45 * x.x).sin() + (0.4 * x.y + 0.2 * x.z).sin() + (0.5 * x.z).cos();
        0.5 + 0.12 * texture
    };
    let out = grid.direction().column(2).into_owned();
    let push = |x: Vector3<f64>| {
        let depth = grid.world_to_index(x).z * SPACING[2];
        out * (-3.0 * (-(depth / 20.0).powi(2)).exp())
    };
    let images = [volume(|x| everywhere(x + push(x))), volume(everywhere)];
    let (result, _) = register_elastic(&cpu(), &input(&images), &setting(6.0), &Silent).unwrap();
    for (scale, energies) in result.scales.iter().map(|s| &s.energies).enumerate() {
        let (first, last) = (energies[0], energies[energies.len() - 1]);
        assert!(last < first, "scale {scale}: {energies:?}");
    }
    assert!(result.verdict.good, "{:?}", result.verdict);
    let mean = |field: &dyn Fn(usize, Vector3<f64>) -> Vector3<f64>| {
        let [nx, ny, nz] = grid.dims();
        // What is shown by both images, and not next to the other faces.
        let inside = (3..nz - 4).flat_map(|k| (4..ny - 4).map(move |j| (j, k)));
        let at = inside.flat_map(|(j, k)| (4..nx - 4).map(move |i| [i, j, k]));
        let far = at.map(|[i, j, k]| {
            let x = grid.index_to_world(Vector3::new(i as f64, j as f64, k as f64));
            (field(i + nx * (j + ny * k), x) - push(x)).norm()
        });
        let (sum, count) = far.fold((0.0, 0usize), |(sum, n), d| (sum + d, n + 1));
        sum / count as f64
    };
    let [before, after] = [mean(&|_, _| Vector3::zeros()), mean(&|i, _| result.forward.get(i))];
    println!("{before:.3} mm before, {after:.3} mm after");
    assert!(after < 0.3 * before, "{before} {after}");
}

#[test]
fn a_body_is_pushed_to_where_it_belongs() {
    let before = error(&VectorField::zeros(grid()));
    let (result, found) = run(&cpu(), &setting(6.0));
    let after = error(&result.forward);
    let scales: Vec<_> = result.scales.iter().map(|s| s.energies.len()).collect();
    let last = result.scales.last().unwrap();
    let fell = 1.0 - last.energies.last().unwrap() / result.scales[0].energies[0];
    println!(
        "error {before:.3} to {after:.3} voxels in {scales:?} steps, energy down by {fell:.4}"
    );
    assert!(before > 1.4 && after < 0.2, "{before} {after}");
    assert!(fell > 0.95, "{fell}");
    assert_eq!(found.cuts, 0);
    let rest = found.body.least_ratio(&found.state.displacements).unwrap();
    assert!(rest.ratio > 0.5, "{rest:?}");
    assert!(last.motion.len() == last.energies.len() && last.motion[0].least_jacobian > 0.5);
    assert!(result.verdict.good, "{}", result.verdict.summary());
}

/// Every way from samples to vertices brings the body there.
#[test]
fn all_forces_and_samples_serve() {
    for (force, samples, most) in [
        (Force::LeastSquares, Sampling::All, 0.22),
        (Force::Nodes, Sampling::All, 0.3),
        (Force::Consistent, Sampling::Lattice([16, 16, 14]), 0.25),
        (Force::LeastSquares, Sampling::Lattice([16, 16, 14]), 0.25),
    ] {
        let mut setting = setting(6.0);
        setting.elastic = Elastic { force, samples, ..setting.elastic };
        let (result, _) = run(&cpu(), &setting);
        let after = error(&result.forward);
        println!("{force:?} {samples:?}: {after:.3} voxels");
        assert!(after < most, "{force:?} {samples:?} {after}");
    }
}

/// Whatever solves for the steps, the body goes the same way.
#[test]
fn all_solvers_agree() {
    let with = |step_solver| {
        let mut setting = setting(8.0);
        setting.elastic.step_solver = step_solver;
        setting.multiscale.schedule = Schedule::of(&[(2, 8)]);
        run(&cpu(), &setting)
    };
    let (direct, moved) = with(StepSolver::Direct);
    for solver in [StepSolver::Cg, StepSolver::Chebyshev, StepSolver::Inverse] {
        let (other, there) = with(solver);
        let data = direct.forward.data().iter().zip(other.forward.data());
        let most = data.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        println!("{solver:?}: {most:.2e} mm");
        assert!(most < 0.001, "{solver:?} {most}");
        let of = |r: &DeformResult| r.scales[0].motion[7];
        let (a, b) = (of(&direct), of(&other));
        for (a, b) in [
            (a.kinetic_energy, b.kinetic_energy),
            (a.strain_energy, b.strain_energy),
            (a.unbalanced_force, b.unbalanced_force),
            (a.least_jacobian, b.least_jacobian),
        ] {
            assert!((a - b).abs() < 2e-3 * a.abs(), "{solver:?} {a} {b}");
        }
        let apart = moved.state.velocities.iter().zip(&there.state.velocities);
        let largest = moved.state.velocities.iter().map(|v| v.norm()).fold(0.0, f64::max);
        let apart = apart.map(|(a, b)| (a - b).norm()).fold(0.0, f64::max);
        println!("{solver:?}: {apart:.2e} of {largest:.2e} mm/s");
        assert!(largest > 0.1 && apart < 5e-3 * largest, "{solver:?} {apart} {largest}");
    }
}

#[test]
fn the_same_bits_on_any_number_of_threads() {
    let with = |threads, step_solver| {
        let mut setting = setting(8.0);
        setting.elastic.step_solver = step_solver;
        setting.multiscale.schedule = Schedule::of(&[(2, 6), (1, 3)]);
        run(&Cpu::new(Some(threads)).unwrap(), &setting).0
    };
    for solver in [StepSolver::Direct, StepSolver::Cg, StepSolver::Chebyshev] {
        let one = with(1, solver);
        for threads in [2, 3] {
            let other = with(threads, solver);
            assert!(one.forward == other.forward && one.inverse == other.inverse);
        }
    }
}

/// A mesh of a mask: what is outside of it goes along near it, and stays farther away.
#[test]
fn a_mask_has_a_body_and_its_surroundings_go_along() {
    let grid = grid();
    let mask = LabelMap::from_fn(grid.clone(), |i, j, k| {
        let x = grid.index_to_world(Vector3::new(i as f64, j as f64, k as f64));
        i32::from((x - grid.centre()).norm() < 22.0)
    });
    let fitted = fitted(&mask, 6.0).unwrap();
    let body = Body::new(fitted.mesh.clone(), &materials()).unwrap();
    let fixed = Fixed::none(body.mesh()).unwrap();
    let mut setting = setting(6.0);
    setting.body = Arc::new(ElasticBody::new(body, fixed, None));
    let (result, found) = run(&cpu(), &setting);
    let after = error(&result.forward);
    println!("{after:.3} voxels");
    assert!(after < 0.2, "{after}");
    // At vertices the field is their displacement.
    let inside = |i: usize| (found.body.mesh().vertices()[i] - grid.centre()).norm() < 15.0;
    let n = found.body.mesh().vertices().len();
    for i in (0..n).filter(|&i| inside(i)) {
        let at = result.forward.sample_clamped(found.body.mesh().vertices()[i]);
        assert!((at - found.state.displacements[i]).norm() < 0.3, "{at}");
    }
    let far = grid.corners().map(|c| result.forward.sample_clamped(c).norm());
    let from = grid.corners().map(|c| (c - grid.centre()).norm() - 22.0);
    for (far, from) in far.into_iter().zip(from) {
        // A twentieth of the largest displacement.
        assert!(from < 2.0 * FALL_OFF_MM || far < 0.175, "{far} mm at {from} mm");
    }
}

/// Coarse meshes at coarse scales, and a body that goes on from where it was.
#[test]
fn bodies_change_meshes_and_go_on() {
    let (fine, coarse) = (cells(6.0), cells(12.0));
    let body = ElasticBody::new(fine.0, fine.1, Some(fine.2)).with_level(BodyLevel {
        factor: 2,
        body: Arc::new(coarse.0),
        fixed: coarse.1,
        cells: Some(coarse.2),
    });
    let mut setting = ElasticSetting { body: Arc::new(body), ..setting(6.0) };
    let (result, found) = run(&cpu(), &setting);
    let after = error(&result.forward);
    assert!(after < 0.2, "{after}");
    let cold: usize = result.scales.iter().map(|s| s.energies.len()).sum();
    setting.multiscale.schedule = Schedule::of(&[(1, 40)]);
    setting.start = Some(found.state);
    let (again, _) = run(&cpu(), &setting);
    let warm = again.scales[0].energies.len();
    println!("{after:.3} voxels after {cold} steps, {warm} more");
    assert!(again.scales[0].energies[0] < 1.2 * result.scales[1].energies.last().unwrap());
    assert!(error(&again.forward) < 1.1 * after);
}

#[test]
fn what_cannot_be_is_refused() {
    let images = pair();
    let refused = |change: &dyn Fn(&mut ElasticSetting, &mut DeformInput<'_>)| {
        let (mut setting, mut input) = (setting(12.0), input(&images));
        change(&mut setting, &mut input);
        let error = register_elastic(&cpu(), &input, &setting, &Silent).err().unwrap();
        error.to_string()
    };
    let said = refused(&|setting, input| {
        setting.elastic.samples = Sampling::Lattice([8, 8, 8]);
        input.channels[0].similarity = Similarity::LNCC;
    });
    assert!(said.contains("`samples` is 8x8x8") && said.contains("lncc"), "{said}");
    let said = refused(&|setting, _| setting.elastic.newmark.gamma = 0.4);
    assert!(said.contains("0.4"), "{said}");
    let said = refused(&|setting, _| {
        let grid = Grid::axis_aligned([3; 3], [5.0; 3]).unwrap();
        let far = TetraBox::new(grid).unwrap().mesh().unwrap();
        let far = far.vertices().iter().map(|v| v.add_scalar(500.0)).collect();
        let mesh = TetraBox::new(Grid::axis_aligned([3; 3], [5.0; 3]).unwrap()).unwrap();
        let body =
            Body::new(mesh.mesh().unwrap().with_vertices(far).unwrap(), &materials()).unwrap();
        let fixed = Fixed::none(body.mesh()).unwrap();
        setting.body = Arc::new(ElasticBody::new(body, fixed, None));
    });
    assert!(said.contains("outside of the fixed image") && said.contains("RAS"), "{said}");
    let said = refused(&|setting, _| setting.start = Some(Default::default()));
    assert!(said.contains("0 vectors"), "{said}");
}
