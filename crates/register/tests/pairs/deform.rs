//! Deformable registration: shapes, known deformations, symmetry, the same bits.

use crate::common::shipped;
use voxalign_compute::cpu::Cpu;
use voxalign_compute::cuda::Cuda;
use voxalign_compute::ops::resample::Interpolation;
use voxalign_compute::{Device, IDENTITY, Memory};
use voxalign_image::{Affine, Grid, Transform, Vector3, VectorField, Volume};
use voxalign_options::Parameters;
use voxalign_register::attachment::{Attachment, ChannelSimilarity, Gradient, Maps};
use voxalign_register::diffeo::clip::{IndexBox, crop};
use voxalign_register::diffeo::{
    DeformInput, DeformModel, DeformResult, Matching, register_deformable,
};
use voxalign_register::model::solver::{Fft, Operator, SolverKind};
use voxalign_register::multiscale::Schedule;
use voxalign_register::resample::MovingImage;
use voxalign_register::similarity::{Images, Nmi, Similarity};
use voxalign_register::{Choice, Silent};

pub(crate) fn scales(list: &[(usize, usize)]) -> Schedule {
    Schedule::of(list)
}

/// A matching that is told parameters by their names.
pub(crate) trait Told {
    /// With a parameter, where it has that one.
    fn told(self, name: &str, value: impl ToString) -> Self;
}

impl Told for Matching {
    fn told(mut self, name: &str, value: impl ToString) -> Self {
        let value = value.to_string();
        self.multiscale.set(name, &value).unwrap();
        self.model.set(name, &value).unwrap();
        self
    }
}

fn register<D: Device>(
    device: &D,
    fixed: &Volume<f32>,
    moving: &Volume<f32>,
    similarity: Similarity,
    options: &Matching,
) -> DeformResult {
    let input = DeformInput::new(fixed, moving, similarity, Affine::identity());
    register_deformable(device, &input, options, &Silent).unwrap()
}

pub(crate) fn fft() -> SolverKind {
    SolverKind::Fft(Fft { operator: Operator::USUAL })
}

/// A C, or the part of it that lies to the right of its beginning: a ring of 128 voxels, open to the
/// right by 45 degrees on either side when it is whole.
fn letter_c(whole: bool) -> Volume<f32> {
    let grid = Grid::axis_aligned([128, 128, 1], [1.0; 3]).unwrap();
    Volume::from_fn(grid, |x, y, _| {
        let (dx, dy) = (x as f64 - 63.5, y as f64 - 63.5);
        let (r, angle) = (dx.hypot(dy), dy.atan2(dx).abs());
        // From the back of the letter to its ends.
        let from_back = std::f64::consts::PI - angle;
        let reach = if whole { 0.75 } else { 0.40 } * std::f64::consts::PI;
        let edge = |d: f64| (0.5 - d / 2.0).clamp(0.0, 1.0);
        let ring = edge((r - 36.0).abs() - 10.0);
        (ring * edge((from_back - reach) * r)) as f32
    })
}

fn fall(result: &DeformResult) -> f64 {
    let last = result.scales.last().unwrap();
    let first = result.scales[0].energies[0];
    last.energies.last().unwrap() / first
}

/// Figure 1.6 of Ha (2011): a part of a C becomes a whole one, without a fold.
#[test]
fn letter_c_greedy() {
    let device = Cpu::new(None).unwrap();
    for solver in [fft(), Matching::default().solver] {
        let options = Matching { solver, ..Matching::default() }
            .told("total_sigma", 0.0)
            .told("schedule", scales(&[(2, 200), (1, 100)]))
            .told("convergence", 0.0)
            .told("convergence_window", 10);
        let (part, whole) = (letter_c(false), letter_c(true));
        let found = register(&device, &whole, &part, Similarity::SSD, &options);
        println!(
            "greedy {}: energy to {:.4} of its start, Jacobian {:.3} to {:.2}, {}",
            options.solver.name(),
            fall(&found),
            found.measures.smallest_jacobian,
            found.measures.largest_jacobian,
            found.verdict.summary()
        );
        assert!(fall(&found) < 0.1);
        assert_eq!(found.measures.folded, 0);
    }
}

#[test]
fn letter_c_lddmm() {
    let device = Cpu::new(None).unwrap();
    let options = Matching { solver: fft(), ..Matching::of(DeformModel::LDDMM) }
        .told("schedule", scales(&[(2, 200), (1, 100)]))
        .told("lddmm_sigma", 0.01)
        .told("convergence", 0.0)
        .told("convergence_window", 10);
    let (part, whole) = (letter_c(false), letter_c(true));
    let found = register(&device, &whole, &part, Similarity::SSD, &options);
    let path = found.path.as_ref().unwrap();
    let (first, last) = (path.energies[0], path.energies.last().unwrap());
    println!(
        "lddmm: similarity {:.5} -> {:.5}, length {:.3}, Jacobian {:.3} to {:.2}, {}",
        first.similarity,
        last.similarity,
        last.length,
        found.measures.smallest_jacobian,
        found.measures.largest_jacobian,
        found.verdict.summary()
    );
    assert!(last.similarity < 0.1 * first.similarity);
    assert!(last.length > 0.0);
    assert_eq!(found.measures.folded, 0);
}

/// A smooth displacement, mm, of some voxels' amplitude.
pub(crate) fn waves(grid: &Grid, amplitude: f64) -> VectorField {
    let centre = grid.centre();
    VectorField::from_world_fn(grid.clone(), |w| {
        let p = (w - centre) / 22.0;
        Vector3::new(
            (p[1] + 0.3).sin() * (p[2] * 0.8).cos(),
            (p[2] - 0.5).sin() * (p[0] * 0.9).cos(),
            (p[0] + 0.7).sin() * (p[1] * 1.1).cos(),
        ) * amplitude
    })
}

/// The image under a displacement: `out(p) = image(p + u(p))`, by cubic splines.
pub(crate) fn warped(image: &Volume<f32>, field: &VectorField) -> Volume<f32> {
    let device = Cpu::new(None).unwrap();
    let (grid, n) = (image.grid(), image.grid().len());
    let back = grid.to_world().matrix.try_inverse().unwrap();
    let mut voxels = vec![0f32; 3 * n];
    for i in 0..n {
        let v = back * field.get(i);
        (0..3).for_each(|a| voxels[a * n + i] = v[a] as f32);
    }
    let (src, u) = (device.upload(image.data()).unwrap(), device.upload(&voxels).unwrap());
    let mut out = device.alloc::<f32>(n).unwrap();
    use voxalign_compute::ops::Resample;
    let dims = grid.dims();
    device
        .warp_field(&src, dims, &IDENTITY, &u, dims, Interpolation::Cubic, 0.0, &mut out)
        .unwrap();
    Volume::new(grid.clone(), device.into_host(out).unwrap()).unwrap()
}

/// An image on a grid through a transform, by linear interpolation.
fn through(image: &Volume<f32>, grid: &Grid, transform: &Transform) -> Volume<f32> {
    let device = Cpu::new(None).unwrap();
    let moving = MovingImage::new(&device, image.clone()).unwrap();
    moving.onto(grid, transform, Interpolation::Linear, 0.0).unwrap()
}

/// The mean distance of two displacements where an image is bright, in voxels.
fn distance(image: &Volume<f32>, a: &VectorField, b: &VectorField) -> f64 {
    let top = image.data().iter().fold(0f32, |m, &v| m.max(v));
    let inside: Vec<usize> =
        (0..image.data().len()).filter(|&i| image.data()[i] > 0.15 * top).collect();
    let sum: f64 = inside.iter().map(|&i| (a.get(i) - b.get(i)).norm()).sum();
    sum / inside.len() as f64 / image.grid().spacing()[0]
}

#[test]
fn a_known_deformation_is_found() {
    let device = Cpu::new(None).unwrap();
    let moving = shipped("colin27_t1.nii.gz");
    let truth = waves(moving.grid(), 5.0);
    let fixed = warped(&moving, &truth);
    let zero = VectorField::zeros(moving.grid().clone());
    let before = distance(&fixed, &truth, &zero);
    for (model, similarity) in [
        (DeformModel::GREEDY, Similarity::LNCC),
        (DeformModel::GREEDY, Similarity::SSD),
        (DeformModel::SYMMETRIC, Similarity::LNCC),
    ] {
        let options = Matching::of(model);
        let found = register(&device, &fixed, &moving, similarity, &options);
        let after = distance(&fixed, &truth, &found.forward);
        println!(
            "{} {}: {before:.3} voxels before, {after:.3} after; {}",
            model.name(),
            similarity.name(),
            found.verdict.summary()
        );
        // Squared differences see little inside of tissue.
        let most = if similarity == Similarity::LNCC { 0.5 } else { 1.0 };
        assert!(after < most, "{after}");
        assert!(found.verdict.good);
    }
}

/// Between two kinds of image of a head with noise many iterations do not run away: no energy rises again by more than steps ripple, and
/// the displacement ends nearer than after few. Squares suit one kind alone, and so does local correlation on coarse scales, where windows hold many
/// tissues, which nothing smooths away along a path.
#[test]
fn many_iterations_do_not_run_away() {
    let device = Cpu::new(None).unwrap();
    let head = shipped("colin27_t1.nii.gz");
    let truth = waves(head.grid(), 5.0);
    let top = head.data().iter().fold(0f32, |m, &v| m.max(v));
    let noisy = |image: Volume<f32>, seed: u32, of: &dyn Fn(f32) -> f32| {
        let mut state = seed;
        image.map(|&v| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            of(v / top) + 0.02 * (state as f32 / u32::MAX as f32 - 0.5)
        })
    };
    // Fluid brighter than grey matter, and that brighter than white; what is around stays dark.
    let other_kind = |v: f32| if v < 0.25 { 3.0 * v } else { 1.0 - v };
    let fixed = noisy(warped(&head, &truth), 1, &|v| v);
    let moving = noisy(head, 2, &other_kind);
    for model in [DeformModel::GREEDY, DeformModel::SYMMETRIC, DeformModel::LDDMM] {
        let all = [
            Similarity::MI,
            Similarity::NMI,
            Similarity::LNCC,
            Similarity::MAPPED,
            Similarity::MIND,
            Similarity::SSD,
        ];
        for similarity in all {
            let name = similarity.name();
            let of_paths = model == DeformModel::LDDMM;
            let of_one_kind =
                similarity == Similarity::SSD || (of_paths && similarity == Similarity::LNCC);
            let fixed = if of_one_kind { fixed.map(|&v| other_kind(v)) } else { fixed.clone() };
            let after = |iterations: usize| {
                let schedule = scales(&[(4, iterations), (2, iterations / 2)]);
                let options =
                    Matching::of(model).told("schedule", schedule).told("convergence", 0.0);
                let found = register(&device, &fixed, &moving, similarity, &options);
                for scale in &found.scales {
                    let least = |of: &[f64]| of.iter().copied().fold(f64::INFINITY, f64::min);
                    let (first, all) = (scale.energies[0], &*scale.energies);
                    // Along paths a few steps do not end with shorter ones, and one of them may have led uphill.
                    let last =
                        least(&all[all.len() - if of_paths && all.len() < 8 { 3 } else { 1 }..]);
                    let least = least(all);
                    let rise = (last - least) / (first - least).max(f64::MIN_POSITIVE);
                    assert!(rise < 0.05, "{} {name}: a rise by {rise} of the fall", model.name());
                }
                distance(&fixed, &truth, &found.forward)
            };
            // An iteration of a whole path costs as much as its time steps.
            let most = if of_paths { 60 } else { 200 };
            let (few, many) = (after(most / 10), after(most));
            println!(
                "{} {name}: {few:.3} voxels after {}, {many:.3} after {most}",
                model.name(),
                most / 10
            );
            assert!(many < few, "{} {name}: {few} to {many}", model.name());
        }
    }
}

/// A moving image that ends within the head moves nothing towards its border: what it shows is found
/// as if it were whole.
#[test]
fn a_moving_image_that_is_cut_off() {
    let device = Cpu::new(None).unwrap();
    let whole = shipped("colin27_t1.nii.gz");
    let truth = waves(whole.grid(), 5.0);
    let fixed = warped(&whole, &truth);
    let [nx, ny, nz] = whole.dims();
    let shown = IndexBox { start: [0, 0, nz / 4], size: [nx, ny, nz / 2] };
    let moving = crop(&whole, &shown).unwrap();
    // The fixed image, where the moving one has something at a few voxels from its borders.
    let mut seen = fixed.clone();
    let inner = shown.start[2] as f64 + 4.0..(shown.start[2] + shown.size[2]) as f64 - 5.0;
    for (i, v) in seen.data_mut().iter_mut().enumerate() {
        let z = (i / (nx * ny)) as f64 + truth.get(i)[2] / whole.grid().spacing()[2];
        if !inner.contains(&z) {
            *v = 0.0;
        }
    }
    for model in [DeformModel::GREEDY, DeformModel::SYMMETRIC, DeformModel::LDDMM] {
        let mut options = Matching::of(model);
        if model == DeformModel::LDDMM {
            options = options.told("schedule", scales(&[(4, 60), (2, 15)]));
        }
        let found = register(&device, &fixed, &moving, Similarity::LNCC, &options);
        let after = distance(&seen, &truth, &found.forward);
        println!("{}: {after:.3} voxels", model.name());
        let most = if model == DeformModel::LDDMM { 0.95 } else { 0.5 };
        assert!(after < most, "{}: {after}", model.name());
    }
}

/// What a mask leaves out of the fixed image has no force: a bright ball that the moving image does not
/// have leads nothing astray.
#[test]
fn a_mask_hides_what_has_no_counterpart() {
    let device = Cpu::new(None).unwrap();
    let moving = shipped("colin27_t1.nii.gz");
    let truth = waves(moving.grid(), 5.0);
    let mut fixed = warped(&moving, &truth);
    let [nx, ny, nz] = moving.dims();
    let from_centre = |x: usize, y: usize, z: usize| {
        let from = |i: usize, n: usize, part: f64| (i as f64 - part * n as f64).powi(2);
        (from(x, nx, 0.35) + from(y, ny, 0.5) + from(z, nz, 0.55)).sqrt()
    };
    let grid = moving.grid().clone();
    let mask =
        Volume::from_fn(grid.clone(), |x, y, z| f32::from(u8::from(from_centre(x, y, z) > 13.0)));
    let around = Volume::from_fn(grid, |x, y, z| f32::from(u8::from(from_centre(x, y, z) < 16.0)));
    for (i, v) in fixed.data_mut().iter_mut().enumerate() {
        if from_centre(i % nx, i / nx % ny, i / (nx * ny)) < 7.0 {
            *v = 2.0 * *v + 100.0;
        }
    }
    for model in [DeformModel::GREEDY, DeformModel::SYMMETRIC] {
        let options = Matching::of(model).told("schedule", scales(&[(4, 40), (2, 20)]));
        let off = |fixed_mask| {
            let input = DeformInput {
                fixed_mask,
                ..DeformInput::new(&fixed, &moving, Similarity::LNCC, Affine::identity())
            };
            let found = register_deformable(&device, &input, &options, &Silent).unwrap();
            distance(&around, &truth, &found.forward)
        };
        let (without, with) = (off(None), off(Some((&mask).into())));
        println!("{}: off by {without:.3} voxels without a mask, {with:.3} with it", model.name());
        assert!(with < 0.8 * without, "{}", model.name());
    }
}

#[test]
fn exchanging_the_images_inverts_a_symmetric_registration() {
    let device = Cpu::new(None).unwrap();
    let a = shipped("colin27_brain.nii.gz");
    let b = warped(&a, &waves(a.grid(), 4.0));
    let options =
        Matching::of(DeformModel::SYMMETRIC).told("schedule", scales(&[(4, 20), (2, 10)]));
    let one = register(&device, &a, &b, Similarity::LNCC, &options);
    let other = register(&device, &b, &a, Similarity::LNCC, &options);
    let apart = |p: &VectorField, q: &VectorField| {
        p.data().iter().zip(q.data()).map(|(a, b)| (a - b).abs()).fold(0f32, f32::max)
    };
    let (there, back) = (apart(&one.forward, &other.inverse), apart(&one.inverse, &other.forward));
    println!("fields of exchanged images differ by {there:e} and {back:e} mm");
    assert!(there < 1e-2 && back < 1e-2);
}

/// Thick slices do not hold what the middle of a symmetric registration shows at a finer grid: going there
/// and back has to meet the bound of the verdict all the same.
#[test]
fn symmetric_fields_on_thick_slices_meet_the_bound_of_their_verdict() {
    let device = Cpu::new(None).unwrap();
    let (fine, moving) = (shipped("icbm152_t1.nii.gz"), shipped("colin27_brain.nii.gz"));
    let [nx, ny, nz] = fine.dims();
    let mut to_world = *fine.grid().to_world();
    let along_z = to_world.matrix.column(2) * 3.0;
    to_world.matrix.set_column(2, &along_z);
    let grid = Grid::new([nx, ny, nz.div_ceil(3)], to_world).unwrap();
    let fixed = Volume::from_fn(grid, |x, y, z| *fine.get(x, y, 3 * z).unwrap());
    let options = Matching::of(DeformModel::SYMMETRIC);
    let found = register(&device, &fixed, &moving, Similarity::LNCC, &options);
    let largest = found.measures.inverse_consistency.unwrap().largest;
    println!("{largest:.3} mm at most, {} smoothed, {}", found.mended, found.verdict.summary());
    let voxel = fine.grid().spacing()[0];
    assert!(largest <= 0.5 * voxel, "{largest}");
    assert!(found.verdict.good, "{}", found.verdict.summary());
    // The fields have three voxels in a slice, of which as few fold as elsewhere.
    assert_eq!(found.forward.grid().parts_of(fixed.grid()).unwrap(), [1, 1, 3]);
    assert_eq!(
        (found.inverse.grid(), found.jacobian.grid()),
        (found.forward.grid(), found.forward.grid())
    );
    assert_eq!(found.measures.folded, 0);
    // Most of it is left as it was found.
    assert!(found.mended < found.jacobian.data().len() / 10, "{}", found.mended);
    // It is still the registration that it was: the images agree.
    let top = fixed.data().iter().fold(0f32, |m, &v| m.max(v));
    let inside: Vec<usize> =
        (0..fixed.data().len()).filter(|&i| fixed.data()[i] > 0.15 * top).collect();
    let correlation = |image: &Volume<f32>| {
        let of = |v: &Volume<f32>| -> Vec<f64> {
            inside.iter().map(|&i| f64::from(v.data()[i])).collect()
        };
        let (a, b) = (of(&fixed), of(image));
        let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
        let (ma, mb) = (mean(&a), mean(&b));
        let dot = |p: &[f64], mp: f64, q: &[f64], mq: f64| -> f64 {
            p.iter().zip(q).map(|(x, y)| (x - mp) * (y - mq)).sum()
        };
        dot(&a, ma, &b, mb) / (dot(&a, ma, &a, ma) * dot(&b, mb, &b, mb)).sqrt()
    };
    let [before, after] = [Transform::identity(), found.transform()]
        .map(|transform| correlation(&through(&moving, fixed.grid(), &transform)));
    println!("correlation within the brain {before:.3} before, {after:.3} after");
    assert!(after > before + 0.1, "{before} {after}");
}

#[test]
fn the_same_bits() {
    let a = shipped("colin27_brain.nii.gz");
    let b = warped(&a, &waves(a.grid(), 4.0));
    for (model, similarity) in [
        (DeformModel::GREEDY, Similarity::LNCC),
        (DeformModel::SYMMETRIC, Similarity::MI),
        (DeformModel::LDDMM, Similarity::SSD),
    ] {
        let lddmm = model == DeformModel::LDDMM;
        let options = Matching {
            solver: if lddmm { fft() } else { Matching::default().solver },
            ..Matching::of(model)
        }
        .told("schedule", scales(&[(4, 8), (2, 3)]))
        .told("time_steps", 4);
        let run = |threads| {
            let device = Cpu::new(Some(threads)).unwrap();
            let found = register(&device, &a, &b, similarity, &options);
            let bits = |f: &VectorField| f.data().iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            (bits(&found.forward), bits(&found.inverse))
        };
        let expected = run(1);
        for threads in [1, 2, 4] {
            assert!(run(threads) == expected, "{} with {threads} threads", model.name());
        }
    }
}

/// The derivative of every similarity is the derivative of its energy.
#[test]
fn derivatives_match_differences() {
    let device = Cpu::new(None).unwrap();
    let dims = [24, 20, 18];
    let n: usize = dims.iter().product();
    let image = |phase: f64| -> Vec<f32> {
        (0..n)
            .map(|i| {
                let (x, y, z) = (i % 24, i / 24 % 20, i / 480);
                let p = (x as f64 * 0.5 + phase).sin() + (y as f64 * 0.4 - phase).cos();
                (0.5 + 0.2 * (p + (z as f64 * 0.6 + phase).sin() * 0.7)) as f32
            })
            .collect()
    };
    let (f, m, w) = (image(0.0), image(0.4), image(2.0));
    let weights: Vec<f32> = (0..n).map(|i| (i % 3) as f32 * 0.5).collect();
    let upload = |v: &[f32]| device.upload(v).unwrap();
    let driving = Similarity::ALL.iter().filter(|s| s.has_energy());
    let cases = driving.flat_map(|&s| [(s, false), (s, true)]);
    for (similarity, reference_moves) in cases {
        for weights in [None, Some(upload(&weights))] {
            let similarity = similarity.with_bins(32);
            let mut metric = ChannelSimilarity { channel: 0, similarity, weight: 1.7 };
            let mut energy = |t: f64| {
                let moved: Vec<f32> =
                    m.iter().zip(&w).map(|(m, w)| m + t as f32 * (w - 0.5)).collect();
                let derivatives = &mut [device.alloc::<f32>(n).unwrap()];
                let moved = upload(&moved);
                let (reference, weights) = (&upload(&f), weights.as_ref());
                let images = [Images { reference, moved: &moved, weights, dims, reference_moves }];
                let at = Maps { images: &images, carried: [None, None] };
                let mut none = [0, 1].map(|_| device.alloc::<f32>(0).unwrap());
                let (reference_derivatives, covectors) = (&mut [], none.each_mut());
                let mut out = Gradient { derivatives, reference_derivatives, covectors };
                let e = metric.evaluate(&device, &at, &mut out).unwrap().wait().unwrap();
                (e, device.download(&derivatives[0]).unwrap())
            };
            let h = 0.01;
            let expected = (energy(h).0 - energy(-h).0) / (2.0 * h);
            let found: f64 =
                energy(0.0).1.iter().zip(&w).map(|(s, w)| f64::from(*s) * f64::from(w - 0.5)).sum();
            let error = (found - expected).abs() / expected.abs().max(1e-3);
            println!("{} {expected:.6} {found:.6}", similarity.name());
            assert!(error < 0.02, "{}: {found} is not {expected}", similarity.name());
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
    agrees_with_the_cpu(&cuda);
}

/// A GPU does as the CPU, where the environment names one.
#[test]
fn a_gpu_agrees() {
    if std::env::var("VOXALIGN_TEST_DEVICE").is_ok_and(|d| d.starts_with("cuda")) {
        agrees_with_the_cpu(&Cuda::new(0).unwrap());
    } else {
        println!("skipped: VOXALIGN_TEST_DEVICE names no GPU");
    }
}

fn agrees_with_the_cpu(cuda: &Cuda) {
    let grid = Grid::axis_aligned([20, 18, 16], [2.0; 3]).unwrap();
    let moving = Volume::from_fn(grid.clone(), |x, y, z| {
        let d = Vector3::new(x as f64 - 9.0, y as f64 - 8.0, z as f64 - 7.5);
        ((-d.norm_squared() / 30.0).exp() * (1.0 + 0.3 * (x as f64).sin())) as f32
    });
    let fixed = warped(&moving, &waves(&grid, 1.0));
    let cpu = Cpu::new(None).unwrap();
    for (model, similarity, solver) in [
        (DeformModel::GREEDY, Similarity::LNCC, Matching::default().solver),
        (DeformModel::GREEDY, Nmi { bins: 16 }.into(), SolverKind::HYBRID),
        (DeformModel::LDDMM, Similarity::SSD, fft()),
    ] {
        let options = Matching { solver, ..Matching::of(model) }
            .told("schedule", scales(&[(2, 3), (1, 2)]))
            .told("time_steps", 3);
        let one = register(&cpu, &fixed, &moving, similarity, &options);
        let other = register(cuda, &fixed, &moving, similarity, &options);
        let apart = one.forward.data().iter().zip(other.forward.data());
        let apart = apart.map(|(a, b)| (a - b).abs()).fold(0f32, f32::max);
        println!("{} {}: {apart:e} mm apart", model.name(), similarity.name());
        assert!(apart < 0.02, "{apart}");
    }
}
