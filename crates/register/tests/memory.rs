//! Registrations where the memory of the device does not suffice: the error says so, nothing is left
//! behind, and the same registration then gives the bits that it gave before.

// A check that does not hold is a panic; a test that is skipped says so.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

use voxalign_compute::cuda::{Cuda, MemoryLimit};
use voxalign_compute::ops::fourier::spectrum_len;
use voxalign_compute::ops::{Elementwise, Fourier, expression};
use voxalign_compute::{ComputeError, Memory};
use voxalign_image::{Affine, Grid, Matrix3, Vector3, Volume};
use voxalign_register::Choice;
use voxalign_register::diffeo::{
    ChannelInput, DeformInput, DeformModel, Matching, Preparation, register_deformable,
};
use voxalign_register::linear::{AffineInput, AffineOptions, Search, register_affine};
use voxalign_register::model::solver::{Fft, Operator, SolverKind};
use voxalign_register::multiscale::Schedule;
use voxalign_register::numbers::Levels;
use voxalign_register::similarity::Similarity;
use voxalign_register::{RegisterError, Silent};

/// Attempts of a registration: spread over its requests for memory.
const ATTEMPTS: u64 = 8;

/// A blob with some structure, moved by `shift` voxels of 4 mm.
fn blob(shift: f64) -> Volume<f32> {
    let dims = [13, 12, 11];
    let affine = Affine::new(Matrix3::from_diagonal_element(4.0), Vector3::zeros());
    let values = (0..dims.iter().product()).map(|i: usize| {
        let p = [i % dims[0], i / dims[0] % dims[1], i / (dims[0] * dims[1])];
        let [x, y, z] = [0, 1, 2].map(|a| p[a] as f64 - dims[a] as f64 / 2.0 - shift);
        let body = (-(x * x / 12.0 + y * y / 9.0 + z * z / 15.0)).exp();
        (100.0 * body * (1.0 + 0.3 * (0.9 * x).sin() * (0.7 * y + 0.5 * z).cos())) as f32
    });
    Volume::new(Grid::new(dims, affine).unwrap(), values.collect()).unwrap()
}

type Bits = Result<Vec<u64>, RegisterError>;

fn affine(device: &Cuda, cost: Similarity) -> Bits {
    let (fixed, moving) = (blob(0.0), blob(0.4));
    let options = AffineOptions {
        similarity: Some(cost),
        search: Search::Local,
        levels: Some(Levels(vec![8.0, 4.0])),
        ..AffineOptions::default()
    };
    let input = AffineInput::new(&fixed, &moving);
    let found = register_affine(device, &input, &options, &Silent)?;
    Ok(found.transform.rows().concat().into_iter().map(f64::to_bits).collect())
}

fn deformable(device: &Cuda, model: DeformModel, kind: SolverKind, similarity: Similarity) -> Bits {
    let (fixed, moving) = (blob(0.0), blob(0.4));
    let mut options = Matching { solver: kind, ..Matching::of(model) };
    options.multiscale.schedule = Schedule::of(&[(2, 2), (1, 1)]);
    options.model.set("time_steps", "3").unwrap();
    let channel = ChannelInput::new(&fixed, &moving, similarity);
    let affine = Affine::identity();
    let input = DeformInput {
        channels: vec![channel],
        fixed_mask: None,
        moving_mask: None,
        landmarks: None,
        shapes: Vec::new(),
        affine,
        preparation: Preparation::default(),
    };
    let found = register_deformable(device, &input, &options, &Silent)?;
    let n = fixed.grid().len();
    let vectors = (0..n).flat_map(|i| [found.forward.get(i), found.inverse.get(i)]);
    Ok(vectors.flat_map(|v| [v.x.to_bits(), v.y.to_bits(), v.z.to_bits()]).collect())
}

/// Runs a registration with too little memory, as many requests as are given into it.
fn run_out(device: &Cuda, name: &str, run: &dyn Fn(&Cuda) -> Bits) {
    let expected = run(device).unwrap();
    // The first run may have measured what the device is good at, too.
    let before = device.pool().allocations;
    assert!(run(device).unwrap() == expected, "{name}: other bits");
    let requests = device.pool().allocations - before;
    assert!(requests > 2 * ATTEMPTS, "{name}: {requests} requests");
    // The first ones, the last one, and others between.
    let spread = (0..ATTEMPTS).map(|i| i * requests / ATTEMPTS).chain([1, requests - 1]);
    let limits = spread.map(MemoryLimit::Requests).chain([0, 20_000].map(MemoryLimit::Bytes));
    for limit in limits {
        device.limit_memory(limit);
        let result = run(device);
        device.limit_memory(MemoryLimit::Device);
        match result {
            Err(RegisterError::Compute(ComputeError::OutOfMemory { free, .. })) => {
                assert!(free.is_some(), "{name}, {limit:?}");
            }
            Err(error) => panic!("{name}, {limit:?}: {error}"),
            Ok(_) => panic!("{name}, {limit:?}: no memory was missed"),
        }
        assert_eq!(device.pool().live, 0, "{name}, {limit:?}: memory is left behind");
    }
    assert!(run(device).unwrap() == expected, "{name}: other bits afterwards");
}

fn all(device: &Cuda) {
    for cost in [Similarity::CR, Similarity::NMI] {
        run_out(device, &format!("affine, {cost:?}"), &|d| affine(d, cost));
    }
    let fft = SolverKind::Fft(Fft { operator: Operator::USUAL });
    for (model, solver, similarity) in [
        (DeformModel::GREEDY, SolverKind::GAUSSIAN, Similarity::LNCC),
        (DeformModel::GREEDY, fft, Similarity::MI),
        (DeformModel::GREEDY, SolverKind::HYBRID, Similarity::SSD),
        (DeformModel::SYMMETRIC, SolverKind::GAUSSIAN, Similarity::LNCC),
        (DeformModel::SYMMETRIC, fft, Similarity::SSD),
        (DeformModel::SYMMETRIC, SolverKind::HYBRID, Similarity::MI),
        (DeformModel::LDDMM, fft, Similarity::SSD),
        (DeformModel::LDDMM, SolverKind::HYBRID, Similarity::LNCC),
    ] {
        let name = format!("{}, {}, {}", model.name(), solver.name(), similarity.name());
        run_out(device, &name, &|d| deformable(d, model, solver, similarity));
    }
}

#[test]
fn the_emulated_gpu_runs_out() {
    match Cuda::emulated() {
        Ok(device) => all(&device),
        Err(e) => {
            let required = std::env::var_os("VOXALIGN_REQUIRE_EMULATION").is_some();
            assert!(!required, "the kernels of the GPU cannot be tested: {e}");
            eprintln!("skipped: {e}");
        }
    }
}

/// Takes all memory of a GPU, to the last pieces.
fn fill(cuda: &Cuda) -> Vec<<Cuda as Memory>::Buffer<u8>> {
    let (mut taken, mut size) = (Vec::new(), cuda.memory().free.unwrap() as usize);
    while size >= 256 {
        match cuda.alloc::<u8>(size) {
            Ok(buffer) => taken.push(buffer),
            Err(ComputeError::OutOfMemory { bytes, free, .. }) => {
                assert_eq!(bytes, size as u64);
                assert!(free.is_some());
                size /= 2;
            }
            Err(error) => panic!("{error}"),
        }
    }
    taken
}

/// One test for all of it: two at once would take each other's memory.
#[test]
fn a_gpu_runs_out() {
    if !std::env::var("VOXALIGN_TEST_DEVICE").is_ok_and(|d| d.starts_with("cuda")) {
        eprintln!("skipped: a_gpu_runs_out needs a GPU; set VOXALIGN_TEST_DEVICE to cuda");
        return;
    }
    let cuda = Cuda::new(0).unwrap();
    all(&cuda);

    let dims = [96, 80, 60];
    let (n, m) = (dims.iter().product(), spectrum_len(dims).unwrap());
    let ramp: Vec<f32> = (0..n).map(|i| (i % 101) as f32).collect();
    let image = cuda.upload(&ramp).unwrap();
    let (mut halves, mut spectrum) = (cuda.alloc::<f32>(n).unwrap(), cuda.alloc(m).unwrap());
    let half = expression::x(0) * 0.5;
    let run = || affine(&cuda, Similarity::CR);
    let expected = run().unwrap();

    let taken = fill(&cuda);
    // What needs buffers says that there are none.
    assert!(matches!(
        cuda.alloc::<f32>(1 << 20),
        Err(ComputeError::OutOfMemory { bytes: 4_194_304, free: Some(_), .. })
    ));
    assert!(matches!(run(), Err(RegisterError::Compute(ComputeError::OutOfMemory { .. }))));
    // What needs none but those it is given may do with what the driver has kept for itself.
    let fits = |done: Result<(), ComputeError>| match done {
        Ok(()) | Err(ComputeError::OutOfMemory { .. }) => {}
        Err(error) => assert!(error.to_string().contains("possibly out of memory"), "{error}"),
    };
    fits(cuda.eval(&half, &[&image], &[], None, &mut halves));
    fits(cuda.forward(&image, dims, &mut spectrum));
    cuda.synchronize().unwrap();
    drop(taken);

    // Afterwards all is as before.
    assert!(run().unwrap() == expected, "other bits afterwards");
    cuda.eval(&half, &[&image], &[], None, &mut halves).unwrap();
    let found = cuda.download(&halves).unwrap();
    assert!(found.iter().zip(&ramp).all(|(f, r)| *f == 0.5 * r));
    cuda.forward(&image, dims, &mut spectrum).unwrap();
    let sum = f64::from(cuda.download(&spectrum).unwrap()[0]);
    let exact: f64 = ramp.iter().map(|&v| f64::from(v)).sum();
    assert!((sum - exact).abs() < 1e-5 * exact, "{sum} instead of {exact}");

    // Many pieces that were freed make one large buffer.
    let free = cuda.memory().free.unwrap() as usize;
    let pieces: Vec<_> = (0..60).map(|_| cuda.alloc::<u8>(free / 64).unwrap()).collect();
    drop(pieces);
    cuda.alloc::<u8>(free / 10 * 9).unwrap();
}
