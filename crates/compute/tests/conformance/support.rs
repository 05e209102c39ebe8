//! Test images, comparisons, and the devices to test.

// A check that is skipped says so.
#![allow(clippy::print_stderr)]

use voxalign_compute::cpu::{Cpu, Simd};
use voxalign_compute::cuda::{Cuda, Late};
use voxalign_compute::{Device, Dims};

/// Sizes that are odd, tiny, flat, and not powers of two.
pub(crate) const SIZES: [Dims; 12] = [
    [1, 1, 1],
    [2, 1, 1],
    [1, 2, 1],
    [1, 1, 3],
    [3, 2, 2],
    [17, 1, 1],
    [16, 16, 1],
    [33, 21, 1],
    [1, 19, 18],
    [5, 1, 35],
    [37, 23, 11],
    [70, 9, 6],
];

/// Every SIMD level of this machine with one thread, and the best one with more.
pub(crate) fn cpus() -> Vec<Cpu> {
    let cpu = |threads, simd| Cpu::new(Some(threads)).unwrap().with_simd(simd).unwrap();
    let mut cpus: Vec<Cpu> = Simd::available().into_iter().map(|simd| cpu(1, simd)).collect();
    cpus.extend([2, 5].map(|threads| cpu(threads, Simd::detect())));
    cpus
}

/// The number of the GPU that the environment names, if it does.
pub(crate) fn gpu_number() -> Option<usize> {
    let name = std::env::var("VOXALIGN_TEST_DEVICE").unwrap_or_default();
    match name.as_str() {
        "cuda" => Some(0),
        _ => match name.strip_prefix("cuda:") {
            Some(number) => Some(number.parse().unwrap()),
            None => {
                eprintln!("skipped: VOXALIGN_TEST_DEVICE names no GPU");
                None
            }
        },
    }
}

/// The GPU that the environment names, if it does.
pub(crate) fn gpu() -> Option<Cuda> {
    // One device for all tests: they run at the same time, as programs' threads do.
    static DEVICE: std::sync::OnceLock<Cuda> = std::sync::OnceLock::new();
    gpu_number().map(|number| DEVICE.get_or_init(|| Cuda::new(number).unwrap()).clone())
}

/// The kernels of the GPU on the host, with a record of its own of what ran.
pub(crate) fn emulated() -> Option<Cuda> {
    required(Cuda::emulated())
}

/// The same with streams that are late.
pub(crate) fn emulated_late(late: Late) -> Option<Cuda> {
    required(Cuda::emulated_late(late))
}

fn required(emulated: voxalign_compute::Result<Cuda>) -> Option<Cuda> {
    match emulated {
        Ok(cuda) => Some(cuda),
        Err(e) => {
            let required = std::env::var_os("VOXALIGN_REQUIRE_EMULATION").is_some();
            assert!(!required, "the kernels of the GPU cannot be tested: {e}");
            eprintln!("skipped: {e}");
            None
        }
    }
}

/// Fails if a kernel of the files has not run on the device.
pub(crate) fn assert_all_ran(cuda: &Cuda, files: &[(&str, &str)]) {
    let ran = cuda.launched();
    for (file, text) in files {
        for line in text.lines() {
            let Some(rest) = line.trim_start().strip_prefix("KERNEL(") else { continue };
            let name = rest.split(',').next().unwrap_or_default().trim();
            assert!(ran.contains(name), "{file}: no check has run the kernel {name}");
        }
    }
}

/// The results of an operator: for each case its name and its values.
pub(crate) type Results = Vec<(String, Vec<f32>)>;

/// Asserts that two devices gave the same bits.
pub(crate) fn assert_same_bits(device: &impl Device, expected: &Results, found: &Results) {
    assert_eq!(expected.len(), found.len());
    for ((name, a), (_, b)) in expected.iter().zip(found) {
        let different = a.iter().zip(b).position(|(a, b)| a.to_bits() != b.to_bits());
        assert!(
            different.is_none() && a.len() == b.len(),
            "{}: {name}: other bits at {different:?}: {:?}",
            device.name(),
            different.map(|i| (a[i], b[i]))
        );
    }
}

/// Asserts that a device gives the bits that one thread of the CPU gives.
pub(crate) fn assert_bits_of_cpu<D: Device>(
    device: &D,
    of_cpu: impl Fn(&Cpu) -> Results,
    of_device: impl Fn(&D) -> Results,
) {
    let cpu = Cpu::new(Some(1)).unwrap();
    assert_same_bits(device, &of_cpu(&cpu), &of_device(device));
}

/// A sequence of numbers that looks random, the same for the same seed.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03)
    }

    /// From 0 to 1.
    pub(crate) fn unit(&mut self) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let x = self.0 ^ (self.0 >> 29);
        (x.wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 11) as f64 / (1u64 << 53) as f64
    }

    pub(crate) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    pub(crate) fn image(&mut self, dims: Dims) -> Vec<f32> {
        (0..len(dims)).map(|_| self.between(-50.0, 200.0) as f32).collect()
    }
}

pub(crate) fn len(dims: Dims) -> usize {
    dims.iter().product()
}

pub(crate) fn indices(dims: Dims) -> impl Iterator<Item = [usize; 3]> {
    let [nx, ny, nz] = dims;
    (0..nz).flat_map(move |z| (0..ny).flat_map(move |y| (0..nx).map(move |x| [x, y, z])))
}

pub(crate) fn offset(dims: Dims, [x, y, z]: [usize; 3]) -> usize {
    x + dims[0] * (y + dims[1] * z)
}

/// Asserts that values are within `tolerance` of the expected ones.
pub(crate) fn assert_close(name: &str, found: &[f32], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{name}: length");
    for (i, (&f, &e)) in found.iter().zip(expected).enumerate() {
        assert!(
            (f64::from(f) - e).abs() <= tolerance,
            "{name}: element {i} is {f}, expected {e} within {tolerance}"
        );
    }
}
