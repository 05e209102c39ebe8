//! The grid of rotations of a full search.

use super::options::SearchRange;
use crate::search::pose::Pose;
use crate::search::refine::Candidate;
use voxalign_image::{Matrix3, Vector3};

/// All rotations of the range at a step, each once (three Euler angles name most rotations twice),
/// the identity first.
pub(super) fn rotations(range: &SearchRange, step: f64, flat: bool) -> Vec<Matrix3<f64>> {
    let angles = |a: usize| -> Vec<f64> {
        let [low, high] = range.angles[a];
        let full = high - low >= 2.0 * std::f64::consts::PI - 1e-9;
        if full {
            let count = ((high - low) / step - 1e-6).ceil().max(1.0);
            return (0..count as usize).map(|i| low + (high - low) / count * i as f64).collect();
        }
        // A range that is no multiple of the step is covered evenly about its middle.
        let count = ((high - low) / step + 1e-6).floor() as usize + 1;
        let start = 0.5 * (low + high) - 0.5 * step * (count - 1) as f64;
        (0..count).map(|i| start + step * i as f64).collect()
    };
    let mut found: Vec<Matrix3<f64>> = vec![Matrix3::identity()];
    let mut seen = std::collections::HashSet::new();
    let key = |m: &Matrix3<f64>| -> [i32; 9] {
        std::array::from_fn(|i| (m[(i / 3, i % 3)] * 200.0).round() as i32)
    };
    seen.insert(key(&found[0]));
    let (xs, ys) = if flat { (vec![0.0], vec![0.0]) } else { (angles(0), angles(1)) };
    for &z in &angles(2) {
        for &y in &ys {
            for &x in &xs {
                let m = *nalgebra::Rotation3::from_euler_angles(x, y, z).matrix();
                if seen.insert(key(&m)) {
                    found.push(m);
                }
            }
        }
    }
    found
}

/// Angle between two rotations, radians.
pub(super) fn angle(a: &Matrix3<f64>, b: &Matrix3<f64>) -> f64 {
    (((a.transpose() * b).trace() - 1.0) / 2.0).clamp(-1.0, 1.0).acos()
}

/// Poses at the given rotations of the start, each with the translation and the scales of the
/// coarse candidates around it: their means with the weights `exp(-(angle / width)^2)`.
pub(super) fn between(
    rotations: &[Matrix3<f64>],
    start: &Pose,
    coarse: &[Candidate],
    width: f64,
) -> Vec<Pose> {
    let weight_of = Bell::new(width);
    let of_coarse = Rotations::new(coarse.iter().map(|c| &c.pose.rotation));
    let values: Vec<[f64; 6]> = coarse
        .iter()
        .map(|c| {
            let (t, s) = (c.pose.translation, c.pose.log_scale);
            [t[0], t[1], t[2], s[0], s[1], s[2]]
        })
        .collect();
    rotations
        .iter()
        .map(|r| {
            let rotation = r * start.rotation;
            let mut weight = 0.0;
            let mut sums = [0.0; 6];
            for (traces, values) in of_coarse.traces(&rotation).zip(values.chunks(LANES)) {
                for (trace, values) in traces.iter().zip(values) {
                    let w = weight_of.at((trace - 1.0) / 2.0);
                    weight += w;
                    sums.iter_mut().zip(values).for_each(|(s, v)| *s += w * v);
                }
            }
            let [x, y, z, a, b, c] = sums.map(|s| s / weight);
            Pose {
                rotation,
                translation: Vector3::new(x, y, z),
                log_scale: Vector3::new(a, b, c),
                shear: start.shear,
            }
        })
        .collect()
}

/// Rotations that are compared at once.
const LANES: usize = 8;

/// Many rotations, stored so that several are compared with another at once.
pub(super) struct Rotations {
    /// The entries of as many rotations as there are lanes, entry by entry; zeros beyond the last.
    groups: Vec<[[f64; LANES]; 9]>,
}

impl Rotations {
    pub(super) fn new<'a>(all: impl Iterator<Item = &'a Matrix3<f64>>) -> Self {
        let mut groups = Vec::new();
        for (i, m) in all.enumerate() {
            if i % LANES == 0 {
                groups.push([[0.0; LANES]; 9]);
            }
            if let Some(group) = groups.last_mut() {
                (0..9).for_each(|k| group[k][i % LANES] = m[k]);
            }
        }
        Self { groups }
    }

    /// The traces of the transposes of all of them times `other`, in groups: 1 and twice the cosine
    /// of the angle between them. Beyond the last rotation there are zeros.
    pub(super) fn traces(&self, other: &Matrix3<f64>) -> impl Iterator<Item = [f64; LANES]> + '_ {
        let own: [f64; 9] = std::array::from_fn(|k| other[k]);
        self.groups.iter().map(move |group| {
            let mut sums = [0.0; LANES];
            for (entries, o) in group.iter().zip(own) {
                sums.iter_mut().zip(entries).for_each(|(s, e)| *s += e * o);
            }
            sums
        })
    }

    /// Whether any of the first `count` has a trace above `close` with `other`.
    pub(super) fn any_near(&self, count: usize, other: &Matrix3<f64>, close: f64) -> bool {
        let groups = count.div_ceil(LANES);
        self.traces(other).take(groups).enumerate().any(|(g, traces)| {
            // Whole groups are looked at first: most are far.
            traces.iter().any(|&t| t > close)
                && traces.iter().take(count - g * LANES).any(|&t| t > close)
        })
    }
}

/// `exp(-(acos(c) / width)^2)` from a table with cubic interpolation, exact to some 1e-12: it is
/// wanted for all pairs of coarse and fine rotations.
struct Bell {
    width: f64,
    low: f64,
    per_unit: f64,
    /// Value and derivative (in steps) at every node, from the smallest cosine to 1; none for a width
    /// that no table serves, as the function has no derivative at a cosine of -1.
    nodes: Vec<[f64; 2]>,
}

impl Bell {
    /// Widths from the middle beyond which the weight counts as that at the end: 1e-21.
    const REACH: f64 = 7.0;
    const STEPS: usize = 4096;
    /// The largest width with a table: with it the weight at a half turn is 1e-11.
    const WIDEST: f64 = std::f64::consts::PI / 5.0;

    fn new(width: f64) -> Self {
        let low = (Self::REACH * width).min(std::f64::consts::PI).cos();
        let step = (1.0 - low) / Self::STEPS as f64;
        let count = if width <= Self::WIDEST { Self::STEPS + 1 } else { 0 };
        let nodes = (0..count)
            .map(|i| {
                let c = (low + i as f64 * step).clamp(-1.0, 1.0);
                let (angle, sine) = (c.acos(), (1.0 - c * c).sqrt());
                let value = (-(angle / width).powi(2)).exp();
                // d(acos^2) = -2 acos / sqrt(1 - c^2), which tends to -2 at c = 1; at c = -1, where
                // it has none, the value is next to nothing.
                let derivative = match sine {
                    s if s > 1e-4 => 2.0 * angle / s,
                    _ if c > 0.0 => 2.0,
                    _ => 0.0,
                };
                [value, value * derivative / (width * width) * step]
            })
            .collect();
        Self { width, low, per_unit: 1.0 / step, nodes }
    }

    fn at(&self, cosine: f64) -> f64 {
        let u = ((cosine - self.low) * self.per_unit).clamp(0.0, Self::STEPS as f64);
        let i = (u as usize).min(Self::STEPS - 1);
        let t = u - i as f64;
        match self.nodes.get(i..i + 2) {
            Some(&[[a, da], [b, db]]) => {
                let rise = b - a;
                let (p, q) = (da - rise, rise - db);
                a + t * (rise + (1.0 - t) * (p * (1.0 - t) + q * t))
            }
            _ => (-(cosine.clamp(-1.0, 1.0).acos() / self.width).powi(2)).exp(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rotation_once() {
        let range = SearchRange::default();
        assert_eq!(rotations(&range, 60f64.to_radians(), false).len(), 108);
        assert_eq!(rotations(&range, 60f64.to_radians(), true).len(), 6);
        assert_eq!(rotations(&range, 18f64.to_radians(), true).len(), 20);
        let fine = rotations(&range, 18f64.to_radians(), false);
        assert!(fine.len() > 3500 && fine.len() < 4100, "{}", fine.len());
        // Every rotation has one of them near.
        let mut state = 1u64;
        for _ in 0..200 {
            let mut next = || {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (state >> 33) as f64 / (1u64 << 31) as f64 * 6.3
            };
            let r = *nalgebra::Rotation3::from_euler_angles(next(), next(), next()).matrix();
            let near = fine.iter().map(|f| angle(f, &r)).fold(f64::MAX, f64::min);
            assert!(near < 17f64.to_radians(), "{}", near.to_degrees());
        }
    }

    #[test]
    fn the_table_of_weights_is_exact() {
        for width in [2.5f64, 10.0, 30.0, 36.0, 90.0] {
            let width = width.to_radians();
            let bell = Bell::new(width);
            for i in 0..=100_000 {
                let angle = f64::from(i) / 1e5 * std::f64::consts::PI;
                let exact = (-(angle / width).powi(2)).exp();
                let found = bell.at(angle.cos());
                assert!((found - exact).abs() < 1e-10, "{width} {angle}: {found} {exact}");
            }
        }
    }

    #[test]
    fn a_narrow_range_is_kept() {
        let ten = 10f64.to_radians();
        let range = SearchRange { angles: [[-ten, ten], [0.0, 0.0], [-ten, ten]], ..range_of(18.) };
        for r in rotations(&range, 18f64.to_radians(), false) {
            assert!(angle(&r, &Matrix3::identity()) < 15f64.to_radians());
        }
        let n = rotations(&range, 18f64.to_radians(), false).len();
        assert_eq!(n, 5); // identity and two by two
    }

    fn range_of(fine: f64) -> SearchRange {
        SearchRange { fine: fine.to_radians(), ..SearchRange::default() }
    }
}
