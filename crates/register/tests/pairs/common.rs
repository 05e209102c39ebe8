//! Shared by the end-to-end tests: data, noise, resampling.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::print_stdout)]

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex, OnceLock};
use voxalign_compute::Memory;
use voxalign_compute::cpu::Cpu;
use voxalign_compute::ops::Resample;
use voxalign_compute::ops::resample::Interpolation;
use voxalign_image::{Affine, Grid, LabelMap, Matrix3, Vector3, Volume};
use voxalign_register::Silent;
use voxalign_register::linear::{AffineInput, AffineOptions, AffineResult, register_affine};

/// The root of the sources; a test binary that was carried to another machine finds it where it runs.
fn workspace() -> PathBuf {
    let built = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    if built.is_dir() { built } else { PathBuf::from(".") }
}

/// An image that ships with the project.
pub fn shipped(name: &str) -> Volume<f32> {
    let path = workspace().join("data").join(name);
    assert!(
        path.exists(),
        "no '{}': run the tests where the folder `data` of the sources is",
        path.display()
    );
    voxalign_io::image::read_volume(path).unwrap()
}

/// Whether `VOXALIGN_TEST_THOROUGH` asks for all cases of the tests that usually run some of them.
pub fn thorough() -> bool {
    std::env::var_os("VOXALIGN_TEST_THOROUGH").is_some()
}

/// The folder of real images beside the checkout; without it nothing (and a line that says so), and a failure
/// where `VOXALIGN_REQUIRE_DATA` is set.
pub fn real_data(test: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("VOXALIGN_TEST_DATA")
        .map_or_else(|| workspace().join("../shared/data"), PathBuf::from);
    if folder.is_dir() {
        Some(folder)
    } else {
        let required = std::env::var_os("VOXALIGN_REQUIRE_DATA").is_some();
        assert!(!required, "no folder {}, but VOXALIGN_REQUIRE_DATA is set", folder.display());
        println!("skipped: {test} needs real images; set VOXALIGN_TEST_DATA to their folder");
        None
    }
}

pub fn volume(path: PathBuf) -> Volume<f32> {
    voxalign_io::image::read_volume(path).unwrap()
}

pub fn labels(path: PathBuf) -> LabelMap {
    voxalign_io::image::read_labels(path).unwrap()
}

/// Registers on the CPU. Several tests begin with the same map, which is found once.
pub fn register(
    fixed: &Volume<f32>,
    moving: &Volume<f32>,
    options: &AffineOptions,
) -> AffineResult {
    type Known = Mutex<HashMap<u64, Arc<OnceLock<AffineResult>>>>;
    static KNOWN: LazyLock<Known> = LazyLock::new(Known::default);
    let mut key = DefaultHasher::new();
    for image in [fixed, moving] {
        image.data().iter().for_each(|v| v.to_bits().hash(&mut key));
        format!("{:?}", image.grid()).hash(&mut key);
    }
    format!("{options:?}").hash(&mut key);
    let slot = Arc::clone(KNOWN.lock().unwrap().entry(key.finish()).or_default());
    let find = || {
        let device = Cpu::new(None).unwrap();
        register_affine(&device, &input(fixed, moving), options, &Silent).unwrap()
    };
    slot.get_or_init(find).clone()
}

pub fn input<'a>(fixed: &'a Volume<f32>, moving: &'a Volume<f32>) -> AffineInput<'a> {
    AffineInput::new(fixed, moving)
}

/// The image on another grid: `out(p) = image(transform(p))`.
pub fn resample(
    image: &Volume<f32>,
    transform: &Affine,
    grid: Grid,
    interpolation: Interpolation,
) -> Volume<f32> {
    let device = Cpu::new(None).unwrap();
    let map = grid.to_world().then(transform).then(image.grid().to_index()).rows();
    let source = device.upload(image.data()).unwrap();
    let mut out = device.alloc::<f32>(grid.len()).unwrap();
    device
        .warp_affine(&source, image.dims(), &map, grid.dims(), interpolation, 0.0, &mut out)
        .unwrap();
    Volume::new(grid, device.into_host(out).unwrap()).unwrap()
}

/// A small generator of random numbers (xorshift), so that every machine sees the same cases.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        let mut r = Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        for _ in 0..16 {
            r.unit();
        }
        r
    }

    /// Between 0 and 1.
    pub fn unit(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Between -1 and 1.
    pub fn sign(&mut self) -> f64 {
        2.0 * self.unit() - 1.0
    }

    pub fn gauss(&mut self) -> f64 {
        let a = self.unit().max(1e-12);
        (-2.0 * a.ln()).sqrt() * (2.0 * std::f64::consts::PI * self.unit()).cos()
    }
}

/// A random affine map about a centre: rotation up to 40 degrees about any axis, scales 0.85 to
/// 1.15, shears up to 0.05, translation up to 30 mm an axis.
pub fn random_affine(random: &mut Random, centre: Vector3<f64>) -> Affine {
    let axis = Vector3::new(random.gauss(), random.gauss(), random.gauss()).normalize();
    let turn = nalgebra::Rotation3::new(axis * random.sign() * 40f64.to_radians());
    let scale = Vector3::from_fn(|_, _| 1.0 + 0.15 * random.sign());
    let k = Vector3::from_fn(|_, _| 0.05 * random.sign());
    let shear = Matrix3::new(1.0, k[0], k[1], 0.0, 1.0, k[2], 0.0, 0.0, 1.0);
    let translation = Vector3::from_fn(|_, _| 30.0 * random.sign());
    Affine::about(turn.matrix() * Matrix3::from_diagonal(&scale) * shear, centre, translation)
}

/// Adds 3 % noise (of the 98th percentile) and multiplies by a smooth bias field of +-20 %.
pub fn spoil(image: &mut Volume<f32>, random: &mut Random) {
    let mut sorted = image.data().to_vec();
    sorted.sort_by(f32::total_cmp);
    let level = f64::from(sorted[sorted.len() * 98 / 100]);
    let dims = image.dims();
    let phase = [random.unit() * 6.3, random.unit() * 6.3, random.unit() * 6.3];
    for (i, v) in image.data_mut().iter_mut().enumerate() {
        let p = [i % dims[0], i / dims[0] % dims[1], i / (dims[0] * dims[1])];
        let bias: f64 =
            (0..3).map(|a| (3.0 * p[a] as f64 / dims[a] as f64 + phase[a]).sin()).sum::<f64>()
                / 3.0;
        let noise = 0.03 * level * random.gauss();
        *v = (f64::from(*v) * (1.0 + 0.2 * bias) + noise) as f32;
    }
}

/// Mean and largest distance of two maps over the voxels of an image above a tenth of its 98th
/// percentile.
pub fn error_inside(image: &Volume<f32>, a: &Affine, b: &Affine) -> (f64, f64) {
    let mut sorted = image.data().to_vec();
    sorted.sort_by(f32::total_cmp);
    let limit = 0.1 * sorted[sorted.len() * 98 / 100];
    let dims = image.dims();
    let (mut sum, mut n, mut largest) = (0.0, 0, 0.0f64);
    for (i, &v) in image.data().iter().enumerate().step_by(7) {
        if v > limit {
            let p = Vector3::new(
                (i % dims[0]) as f64,
                (i / dims[0] % dims[1]) as f64,
                (i / (dims[0] * dims[1])) as f64,
            );
            let w = image.grid().index_to_world(p);
            let d = (a.apply(w) - b.apply(w)).norm();
            sum += d;
            n += 1;
            largest = largest.max(d);
        }
    }
    (sum / f64::from(n), largest)
}

/// A grid that holds the whole image under any transform of the tests.
pub fn padded(grid: &Grid, mm: f64) -> Grid {
    let spacing = grid.spacing();
    let pad: [usize; 3] = std::array::from_fn(|a| (mm / spacing[a]).ceil() as usize);
    let dims: [usize; 3] = std::array::from_fn(|a| grid.dims()[a] + 2 * pad[a]);
    let first = Vector3::from_fn(|a, _| -(pad[a] as f64));
    Grid::new(dims, Affine::new(grid.to_world().matrix, grid.index_to_world(first))).unwrap()
}

/// Mean Dice over the labels of 4 and above with more than 50 voxels in both maps; the moving map
/// is resampled by nearest neighbour.
pub fn dice(fixed: &LabelMap, moving: &LabelMap, transform: &Affine) -> f64 {
    dice_through(fixed, moving, 4, |_, p| transform.apply(p))
}

/// As [`dice`], through a function of the voxel's number and its world position.
pub fn dice_through(
    fixed: &LabelMap,
    moving: &LabelMap,
    smallest: usize,
    to: impl Fn(usize, Vector3<f64>) -> Vector3<f64>,
) -> f64 {
    const MOST: usize = 4096;
    let mut counts = vec![[0u32; 4]; MOST];
    for &l in moving.data() {
        counts[l as usize][1] += 1;
    }
    let (world, index) = (fixed.grid().to_world(), moving.grid().to_index());
    let dims = fixed.dims();
    for (i, &l) in fixed.data().iter().enumerate() {
        let p = Vector3::new(
            (i % dims[0]) as f64,
            (i / dims[0] % dims[1]) as f64,
            (i / (dims[0] * dims[1])) as f64,
        );
        let q = index.apply(to(i, world.apply(p))).map(f64::round);
        let inside = (0..3).all(|a| q[a] >= 0.0 && q[a] < moving.dims()[a] as f64);
        let w = if inside {
            moving.get(q[0] as usize, q[1] as usize, q[2] as usize).copied().unwrap_or(0)
        } else {
            0
        };
        counts[l as usize][0] += 1;
        counts[w as usize][2] += 1;
        if l == w {
            counts[l as usize][3] += 1;
        }
    }
    let scores: Vec<f64> = counts[smallest..]
        .iter()
        .filter(|c| c[0] > 50 && c[1] > 50)
        .map(|c| 2.0 * f64::from(c[3]) / f64::from(c[0] + c[2]))
        .collect();
    scores.iter().sum::<f64>() / scores.len() as f64
}

/// The image on a grid, each of whose voxels (with its world position) comes from a place of the
/// image's world; by linear interpolation, the nearest value outside.
pub fn through(
    image: &Volume<f32>,
    grid: &Grid,
    from: impl Fn(usize, Vector3<f64>) -> Vector3<f64>,
) -> Vec<f32> {
    let (dims, size, index) = (grid.dims(), image.dims(), image.grid().to_index());
    let value = |i: usize| {
        let at = [i % dims[0], i / dims[0] % dims[1], i / (dims[0] * dims[1])];
        let p = index.apply(from(i, grid.index_to_world(Vector3::from(at.map(|v| v as f64)))));
        let q = [0, 1, 2].map(|a| p[a].clamp(0.0, (size[a] - 1) as f64));
        let mut sum = 0.0;
        for corner in 0..8 {
            let (mut weight, mut voxel) = (1.0, [0; 3]);
            for a in 0..3 {
                let (low, part) = (q[a].floor(), q[a].fract());
                let upper = corner >> a & 1;
                voxel[a] = (low as usize + upper).min(size[a] - 1);
                weight *= if upper == 1 { part } else { 1.0 - part };
            }
            sum += weight
                * f64::from(image.data()[(voxel[2] * size[1] + voxel[1]) * size[0] + voxel[0]]);
        }
        sum as f32
    };
    (0..grid.len()).map(value).collect()
}
