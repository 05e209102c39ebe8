//! Test images and comparisons.

use voxalign_compute::cpu::Cpu;
use voxalign_compute::{Device, Dims};

/// Sizes that are odd, tiny, flat, and not powers of two.
pub const SIZES: [Dims; 12] = [
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

/// The results of an operator: for each case its name and its values.
pub type Results = Vec<(String, Vec<f32>)>;

/// Asserts that two devices gave the same bits, or one at two runs.
///
/// # Panics
/// Unless they did.
pub fn assert_same_bits(device: &impl Device, expected: &Results, found: &Results) {
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

/// Asserts that results have the same bits at two runs on a device, and on all of them.
///
/// # Panics
/// Where they have not.
pub fn assert_reproducible<D: Device>(
    devices: impl IntoIterator<Item = D>,
    results: impl Fn(&D) -> Results,
) {
    let mut expected = None;
    for device in devices {
        let found = results(&device);
        let again = expected.get_or_insert_with(|| results(&device));
        assert_same_bits(&device, again, &found);
    }
}

/// Asserts that a device gives the bits that one thread of the CPU gives.
///
/// # Panics
/// Unless it does.
pub fn assert_bits_of_cpu<D: Device>(
    device: &D,
    of_cpu: impl Fn(&Cpu) -> Results,
    of_device: impl Fn(&D) -> Results,
) {
    let cpu = Cpu::new(Some(1)).unwrap();
    assert_same_bits(device, &of_cpu(&cpu), &of_device(device));
}

/// A sequence of numbers that looks random, the same for the same seed.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The sequence of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03)
    }

    /// From 0 to 1.
    pub fn unit(&mut self) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let x = self.0 ^ (self.0 >> 29);
        (x.wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Between two numbers.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// An image of noise.
    pub fn image(&mut self, dims: Dims) -> Vec<f32> {
        (0..len(dims)).map(|_| self.between(-50.0, 200.0) as f32).collect()
    }
}

/// The voxels of an image.
#[must_use]
pub fn len(dims: Dims) -> usize {
    dims.iter().product()
}

/// All indices of an image, x fastest.
pub fn indices(dims: Dims) -> impl Iterator<Item = [usize; 3]> {
    let [nx, ny, nz] = dims;
    (0..nz).flat_map(move |z| (0..ny).flat_map(move |y| (0..nx).map(move |x| [x, y, z])))
}

/// The place of an index in memory.
#[must_use]
pub fn offset(dims: Dims, [x, y, z]: [usize; 3]) -> usize {
    x + dims[0] * (y + dims[1] * z)
}

/// Asserts that values are within `tolerance` of the expected ones.
///
/// # Panics
/// Unless they are.
pub fn assert_close(name: &str, found: &[f32], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{name}: length");
    for (i, (&f, &e)) in found.iter().zip(expected).enumerate() {
        assert!(
            (f64::from(f) - e).abs() <= tolerance,
            "{name}: element {i} is {f}, expected {e} within {tolerance}"
        );
    }
}
