//! A breast at rest: what is where, and how bright.

use std::f64::consts::TAU;
use voxalign_image::Vector3;

/// Labels of the tissues.
pub(super) const AIR: i32 = 0;
pub(super) const FAT: i32 = 1;
pub(super) const GLAND: i32 = 2;
pub(super) const LESION: i32 = 3;
pub(super) const MUSCLE: i32 = 4;

/// The radii of the half of a body before the muscle, mm: to the sides, to the front, upwards.
const RADII: [f64; 3] = [58.0, 80.0, 54.0];

/// The power of its coordinates that adds up to 1 on its surface: 2 for an ellipsoid, more for flatter sides.
const POWER: f64 = 3.0;

/// How thick the muscle is, mm; it reaches farther than the breast by so much.
const MUSCLE_MM: f64 = 18.0;
const BROADER: f64 = 10.0;

/// The middle and the radii of the gland, and those of a lesion.
const GLAND_AT: ([f64; 3], [f64; 3]) = ([0.0, 34.0, 2.0], [34.0, 30.0, 30.0]);
const LESION_AT: ([f64; 3], f64) = ([14.0, 40.0, -8.0], 12.0);

/// Intensities.
const BRIGHT: [(i32, f64); 4] = [(FAT, 180.0), (GLAND, 85.0), (LESION, 45.0), (MUSCLE, 70.0)];

/// The width of edges, mm.
const EDGE: f64 = 0.8;

/// Waves of the texture: how many, their lengths from and to, mm, and how strong all are.
const WAVES: usize = 40;
const LENGTHS: [f64; 2] = [7.0, 26.0];
const TEXTURE: f64 = 0.1;

/// A number from 0 to 1 that follows from three (S. Vigna's finaliser of splitmix64).
fn random(seed: u64, stream: u64, number: u64) -> f64 {
    let mut z = seed
        .wrapping_mul(0x9E37_79B9_7F4A_7C15)
        .wrapping_add(stream.wrapping_mul(0xD1B5_4A32_D192_ED03))
        .wrapping_add(number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

/// A number with a normal distribution (G. E. P. Box and M. E. Muller, 1958).
pub(super) fn noise(seed: u64, stream: u64, number: u64) -> f64 {
    let [a, b] = [0, 1].map(|part| random(seed, 2 * stream + part, number));
    (-2.0 * (1.0 - a).ln()).sqrt() * (TAU * b).cos()
}

/// How far inside a body of these radii a place is, mm, about; below 0 outside.
fn depth(x: Vector3<f64>, middle: [f64; 3], radii: [f64; 3], power: f64) -> f64 {
    let off = (x - Vector3::from(middle)).component_div(&Vector3::from(radii));
    let off = off.map(|c| c.abs().powf(power)).sum().powf(1.0 / power);
    (1.0 - off) * radii.into_iter().fold(f64::INFINITY, f64::min)
}

/// From 0 outside to 1 inside.
fn inside(depth: f64) -> f64 {
    1.0 / (1.0 + (-depth / EDGE).exp())
}

/// The breast.
#[derive(Debug, Clone)]
pub(super) struct Organ {
    /// Wave vectors, 1/mm, and phases.
    waves: Vec<(Vector3<f64>, f64)>,
}

impl Organ {
    pub(super) fn new(seed: u64) -> Self {
        let wave = |k: usize| {
            let number = |part: u64| random(seed, 100 + part, k as u64);
            let (height, turn) = (2.0 * number(0) - 1.0, TAU * number(1));
            let across = (1.0 - height * height).sqrt();
            let along = Vector3::new(across * turn.cos(), across * turn.sin(), height);
            let length = LENGTHS[0] + (LENGTHS[1] - LENGTHS[0]) * number(2);
            (along * (TAU / length), TAU * number(3))
        };
        Self { waves: (0..WAVES).map(wave).collect() }
    }

    /// How far a place is in the breast, in the muscle, in the gland, in the lesion, and in any of them, mm.
    fn depths(x: Vector3<f64>) -> [f64; 5] {
        let whole = depth(x, [0.0; 3], RADII, POWER);
        let broad = RADII.map(|r| r + BROADER);
        let behind = depth(Vector3::new(x.x, 0.0, x.z), [0.0; 3], broad, POWER);
        let (before, within) = (behind.min(-x.y), x.y + MUSCLE_MM);
        let (middle, radii) = GLAND_AT;
        // Lobes.
        let lobes = (0.24 * x.x).sin() * (0.2 * x.y).cos() + (0.22 * x.z + 0.1 * x.x).sin();
        let gland = depth(x, middle, radii, 2.0) + 2.5 * lobes;
        let (middle, radius) = LESION_AT;
        let lesion = depth(x, middle, [radius; 3], 2.0);
        [whole.min(x.y), before.min(within), gland, lesion, whole.max(before).min(within)]
    }

    /// The tissue at a place.
    pub(super) fn tissue(&self, x: Vector3<f64>) -> i32 {
        let [breast, muscle, gland, lesion, _] = Self::depths(x);
        match () {
            () if muscle >= 0.0 => MUSCLE,
            () if breast < 0.0 => AIR,
            () if lesion >= 0.0 => LESION,
            () if gland >= 0.0 => GLAND,
            () => FAT,
        }
    }

    /// The tissue at a place or the nearest one, where it is less than so far away, mm: fat around the breast.
    pub(super) fn tissue_around(&self, x: Vector3<f64>, margin: f64) -> i32 {
        match (self.tissue(x), Self::depths(x)) {
            (AIR, [breast, muscle, ..]) if muscle > -margin && muscle > breast => MUSCLE,
            (AIR, [breast, ..]) if breast > -margin => FAT,
            (tissue, _) => tissue,
        }
    }

    /// The image without noise, 0 to 255 but for extremes of the texture.
    pub(super) fn intensity(&self, x: Vector3<f64>) -> f64 {
        let [_, _, gland, lesion, any] = Self::depths(x);
        let all = inside(any);
        if all < 1e-6 {
            return 0.0;
        }
        let [fat, of_gland, of_lesion, of_muscle] = BRIGHT.map(|(_, value)| value);
        let mixed = |a: f64, b: f64, part: f64| a + (b - a) * part;
        let value = mixed(mixed(fat, of_gland, inside(gland)), of_lesion, inside(lesion));
        let value = mixed(value, of_muscle, inside(-x.y));
        let waves = self.waves.iter().map(|(k, phase)| (k.dot(&x) + phase).cos());
        let texture = waves.sum::<f64>() * (2.0 / WAVES as f64).sqrt();
        all * value * (1.0 + TEXTURE * texture)
    }
}
