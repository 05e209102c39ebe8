//! The reference of joint histograms in whole numbers: whole images, one pixel after the other, every number of 128 bits.

use voxalign_compute::Dims;
use voxalign_compute::ops::joint::{
    FixedPointMap, JointRule, JointSlopes, MovingBins, NO_SAMPLE, Pixel, Window, window_tables,
};

use crate::support::Random;

/// A pair of images in bins and pixels.
#[derive(Debug, Clone)]
pub struct Pair<P> {
    /// The sizes of the fixed image.
    pub fixed: Dims,
    /// Its bins.
    pub bins: Vec<u8>,
    /// The number of bins.
    pub count: usize,
    /// The sizes of the moving image.
    pub moving: Dims,
    /// Its pixels.
    pub pixels: Vec<P>,
}

impl<P: Pixel + TryFrom<u32>> Pair<P> {
    /// Images of noise on a slope, the same for the same seed; a part of the fixed one takes no part.
    #[must_use]
    pub fn new(fixed: Dims, moving: Dims, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let count = 2 + (random.between(0.0, 20.0) as usize);
        let len = |dims: Dims| dims.iter().product::<usize>();
        let bin = |_| match random.between(0.0, 1.0) {
            part if part < 0.2 => NO_SAMPLE,
            part => ((part * 977.0) as usize % count) as u8,
        };
        let bins = (0..len(fixed)).map(bin).collect();
        let most = f64::from((1u32 << P::BITS) - 1);
        let pixel = |i: usize| {
            let slope = (i % moving[0]) as f64 / moving[0] as f64;
            let value = most * (0.5 * slope + random.between(0.0, 0.5));
            P::try_from(value as u32).unwrap_or_default()
        };
        let pixels = (0..len(moving)).map(pixel).collect();
        Self { fixed, bins, count, moving, pixels }
    }

    /// A rule for them: bins over a part of the range, so that values are outside as well.
    #[must_use]
    pub fn rule(&self, map: FixedPointMap, bins: usize, window: Window) -> JointRule {
        let most = ((1u32 << P::BITS) - 1) as u16;
        let bins = MovingBins::new(most / 9, most - most / 7, bins).unwrap();
        JointRule::new(map, self.moving, self.count, bins, window)
    }
}

/// A table of slopes, up to the largest that are allowed.
#[must_use]
pub fn table(rule: &JointRule, seed: u64) -> Vec<i32> {
    let mut random = Random::new(seed);
    let most = f64::from(voxalign_compute::ops::joint::MOST_SLOPE);
    let number = |i| match i % 7 {
        0 => most as i32,
        1 => -most as i32,
        _ => random.between(-most, most) as i32,
    };
    (0..rule.entries()).map(number).collect()
}

/// What the reference finds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reference {
    /// The entries of the histogram.
    pub counts: Vec<i128>,
    /// The sums of slopes, where there is a table.
    pub slopes: JointSlopes,
    /// The number of samples.
    pub samples: u64,
}

impl Reference {
    /// Of a pair under a rule, which may be of any backend.
    #[must_use]
    pub fn new<P: Pixel>(pair: &Pair<P>, rule: &JointRule, table: Option<&[i32]>) -> Self {
        let mut found = Self { counts: vec![0; rule.entries()], ..Self::default() };
        let [nx, ny, nz] = pair.fixed;
        for z in 0..nz {
            for y in 0..ny {
                for x in 0..nx {
                    let bin = pair.bins[x + nx * (y + ny * z)];
                    if bin != NO_SAMPLE {
                        found.add(pair, rule, table, [x, y, z], usize::from(bin));
                    }
                }
            }
        }
        found.slopes.samples = found.samples;
        found
    }

    fn add<P: Pixel>(
        &mut self,
        pair: &Pair<P>,
        rule: &JointRule,
        table: Option<&[i32]>,
        pixel: [usize; 3],
        bin: usize,
    ) {
        let Some(q) = coordinate(rule, pixel) else { return };
        self.samples += 1;
        let n = rule.moving;
        let cell = |a: usize| (q[a] / 256).min((n[a] as i128 - 2).max(0));
        let m = [cell(0), cell(1), cell(2)];
        // The value at a corner: the upper one along an axis of one pixel is never weighed.
        let corner = |k: usize| {
            let at = [0, 1, 2].map(|a| ((m[a] as usize) + (k >> a & 1)).min(n[a] - 1));
            let value: u32 = pair.pixels[at[0] + n[0] * (at[1] + n[1] * at[2])].into();
            i128::from(value)
        };
        let axes = if n[2] == 1 { 2 } else { 3 };
        let weight = |k: usize, a: usize| {
            let upper = q[a] - 256 * m[a];
            if k >> a & 1 == 1 { upper } else { 256 - upper }
        };
        let corners = 1usize << axes;
        let value: i128 = (0..corners)
            .map(|k| corner(k) * (0..axes).map(|a| weight(k, a)).product::<i128>())
            .sum();
        let (place, inside) = place(&rule.moving_bins, value, 8 * axes as u32);
        let columns = rule.columns();
        let at = bin * columns + (place / 256) as usize;
        let (weights, derivatives) = window_tables();
        match rule.window {
            Window::Plain => self.counts[at] += 1,
            Window::Cubic => {
                for k in 0..4 {
                    self.counts[at + k] += i128::from(weights[(place % 256) as usize][k]);
                }
            }
        }
        let Some(table) = table.filter(|_| inside) else { return };
        let derivative = derivatives[(place % 256) as usize];
        let sum: i128 = (0..4).map(|k| i128::from(derivative[k]) * i128::from(table[at + k])).sum();
        let s = (sum + 2048).div_euclid(4096);
        for d in 0..axes {
            let face = |k: usize| {
                let others = (0..axes).filter(|&a| a != d).map(|a| weight(k, a)).product::<i128>();
                let sign = if k >> d & 1 == 1 { 1 } else { -1 };
                sign * corner(k) * others
            };
            let difference: i128 = (0..corners).map(face).sum();
            let cut = 1i128 << (8 * (axes - 1) + P::BITS as usize - 8);
            let h = (s * difference + cut / 2).div_euclid(cut);
            assert!(h.abs() < 1 << 31);
            self.slopes.force[d] += h;
            for e in 0..axes {
                self.slopes.moment[d][e] += h * q[e];
            }
        }
    }
}

/// The coordinate of a sample, where the pixel is one.
fn coordinate(rule: &JointRule, pixel: [usize; 3]) -> Option<[i128; 3]> {
    let FixedPointMap { matrix, offset } = rule.map;
    let q = [0, 1, 2].map(|r| {
        let product = |a: usize| i128::from(matrix[r][a]) * pixel[a] as i128;
        let exact = product(0) + product(1) + product(2) + i128::from(offset[r]);
        (2 * exact + (1 << 24)).div_euclid(1 << 25)
    });
    (0..3).all(|a| (0..=256 * (rule.moving[a] as i128 - 1)).contains(&q[a])).then_some(q)
}

/// The place of a value with some fractional bits, and whether it is within the range.
fn place(bins: &MovingBins, value: i128, bits: u32) -> (i128, bool) {
    let (low, high) = bins.range();
    let (low, high) = (i128::from(low), i128::from(high));
    let range = high - low + 1;
    let f = (0..=8).rev().find(|f| range << f <= 1 << 16).unwrap();
    let factor = ((bins.count() as i128) << 24).div_euclid(range << f)
        + i128::from(((bins.count() as i128) << 24) % (range << f) != 0);
    let cut = value >> (bits - f);
    let t = cut.clamp(low << f, high << f) - (low << f);
    let place = ((t * factor) >> 16).min(256 * bins.count() as i128 - 1);
    (place, (low << f..=high << f).contains(&cut))
}

/// The map that turns the fixed image about its centre, in the plane and out of it where both have several planes, stretches it, and brings its centre to
/// that of the moving image and on by a shift in pixels.
#[must_use]
pub fn turned<P>(pair: &Pair<P>, angle: f64, scale: f64, shift: f64) -> FixedPointMap {
    let deep = pair.moving[2] > 1 && pair.fixed[2] > 1;
    let tilt = if deep { 0.3 * angle } else { 0.0 };
    let ((s, c), (u, v)) = (angle.sin_cos(), tilt.sin_cos());
    let turn = [[c, -s, 0.0], [s * v, c * v, -u], [s * u, c * u, v]];
    let centre = |n: usize| (n as f64 - 1.0) / 2.0;
    let mut map = voxalign_compute::IDENTITY;
    for r in 0..3 {
        let stretch = if r == 2 && !deep { 1.0 } else { scale };
        let mut offset = centre(pair.moving[r]) + if r < 2 { shift } else { 0.0 };
        for a in 0..3 {
            map[r][a] = stretch * turn[r][a];
            offset -= map[r][a] * centre(pair.fixed[a]);
        }
        map[r][3] = offset;
    }
    FixedPointMap::new(&map).unwrap()
}
