//! What moves a front, as the operators are lent it.

use voxalign_compute_macros::forwarded;

use super::{Totals, Window};
use crate::device::Memory;

/// The amount in units that one value adds at most.
const MOST: f64 = (1u64 << 62) as f64;

/// Whole units in which values of an image are summed, so that sums are the same in any order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Units {
    /// The value that counts as zero.
    pub offset: f64,
    /// Units of a value: a power of two.
    pub scale: f64,
    /// Units of a square of a value: a power of two.
    pub squares: f64,
}

impl Units {
    /// For an image of so many points with values between two.
    #[must_use]
    pub fn between(low: f64, high: f64, points: usize) -> Self {
        let half = ((high - low) / 2.0).max(f64::MIN_POSITIVE.sqrt());
        let half = if half.is_finite() { half } else { 1.0 };
        // The least power of two that is not below the half.
        let exponent = half.log2().ceil() as i32 + 1;
        let bits = 61 - points.max(1).next_power_of_two().trailing_zeros().min(60) as i32;
        let bits = bits.min(50);
        let power = |e: i32| f64::from(e.clamp(-1000, 1000)).exp2();
        Self {
            offset: low + (high - low) / 2.0,
            scale: power(bits - exponent),
            squares: power(bits - 2 * exponent),
        }
    }

    /// A value and its square.
    #[must_use]
    pub fn of(&self, value: f32) -> [i64; 2] {
        let value = f64::from(value) - self.offset;
        [whole(value * self.scale), whole(value * value * self.squares)]
    }

    /// The sum of so many values of a sum in units.
    #[must_use]
    pub fn sum(&self, sum: i64, count: i64) -> f64 {
        self.offset * count as f64 + sum as f64 / self.scale
    }

    /// The mean of so many values, at least one, of their sum in units.
    #[must_use]
    pub fn mean(&self, sum: i64, count: i64) -> f64 {
        self.offset + sum as f64 / self.scale / count as f64
    }

    /// The sum of the squared differences of so many values from one, of their sums in units.
    #[must_use]
    pub fn spread(&self, [sum, squares]: [i64; 2], count: i64, from: f64) -> f64 {
        let away = from - self.offset;
        let cross = away * (away * count as f64 - 2.0 * (sum as f64 / self.scale));
        squares as f64 / self.squares + cross
    }
}

/// To the nearest whole number; zero of what is not a number.
fn whole(value: f64) -> i64 {
    value.clamp(-MOST, MOST).round_ties_even() as i64
}

/// An image whose values inside are summed.
#[derive(Debug)]
#[forwarded]
pub struct Measured<'a, D: Memory> {
    /// One value a point.
    pub values: &'a D::Buffer<f32>,
    /// The units of the sums.
    pub units: Units,
}

/// Which of two regions is inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Object {
    /// That which the set says.
    #[default]
    AsStarted,
    /// The one of the higher mean: means are exchanged where they are the wrong way round.
    Brighter,
    /// The one of the lower mean.
    Darker,
}

/// Two regions of one intensity each, c₁ inside and c₂ outside: a speed of -λ₁ (c₁ - I)² + λ₂ (c₂ - I)² (T. Chan and L. Vese, IEEE Transactions on Image
/// Processing 10, 2001).
#[derive(Debug)]
#[forwarded]
pub struct TwoMeans<'a, D: Memory> {
    /// I, one value a point.
    pub image: &'a D::Buffer<f32>,
    /// λ₁ and λ₂.
    pub weights: [f64; 2],
    /// c₁ and c₂ where they do not change. Otherwise they are the means of the set, of its totals.
    pub fixed: Option<[f64; 2]>,
    /// Which region is inside.
    pub object: Object,
    /// The units of the sums of this image that the totals have.
    pub units: Units,
}

impl<D: Memory> TwoMeans<'_, D> {
    /// c₁ and c₂ of a set among so many points. That of a side without points has no meaning.
    pub(crate) fn means(&self, totals: &Totals, points: usize) -> [f64; 2] {
        self.fixed.unwrap_or_else(|| means(&self.units, self.object, totals, points))
    }
}

/// The mean values inside and outside, in the order that an object asks for. Without points on a side, what counts as zero is its mean.
#[must_use]
pub fn means(units: &Units, object: Object, totals: &Totals, points: usize) -> [f64; 2] {
    let outside = points as i64 - totals.size;
    let of = |sum: i64, count: i64| match count > 0 {
        true => units.mean(sum, count),
        false => units.offset,
    };
    let [a, b] = [of(totals.sum, totals.size), of(totals.all.wrapping_sub(totals.sum), outside)];
    let is_wrong = match object {
        Object::AsStarted => false,
        Object::Brighter => a < b,
        Object::Darker => a > b,
    };
    if is_wrong { [b, a] } else { [a, b] }
}

/// What moves a front: a speed outwards F = f - w κ + v · n at each point. The normal n points outwards, and κ is the curvature, above 0 where a set is convex. f is
/// given, or that of two means, or 0; the weight w is a constant, or with edges b it is the constant times b, and v = -w ∇b, so
/// that fronts are held where b is small (V. Caselles, R. Kimmel and G. Sapiro, International Journal of Computer Vision 22, 1997).
#[derive(Debug)]
#[forwarded]
pub struct Rule<'a, D: Memory> {
    /// f, one value a point.
    pub speed: Option<&'a D::Buffer<f32>>,
    /// What f is from, instead.
    pub means: Option<TwoMeans<'a, D>>,
    /// The constant w.
    pub curvature: f64,
    /// b, one value a point; not without w. Its gradient is by central differences; beyond the border the value there continues.
    pub edges: Option<&'a D::Buffer<f32>>,
    /// What κ and n are from; not needed without w.
    pub window: Option<Window<'a, D>>,
}

impl<D: Memory> Rule<'_, D> {
    /// The rule that moves nothing.
    pub const NONE: Self =
        Self { speed: None, means: None, curvature: 0.0, edges: None, window: None };

    /// Whether the force depends neither on the set nor on its front.
    #[must_use]
    pub fn is_static(&self) -> bool {
        self.is_pointwise() && self.means.is_none_or(|m| m.fixed.is_some())
    }

    /// Whether the force of a point is that of its values, without the curvature and the normal of the front.
    #[must_use]
    pub fn is_pointwise(&self) -> bool {
        self.curvature == 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_in_units_are_those_of_the_values() {
        for (low, high) in [(-50.0f64, 200.0f64), (1e-30, 2e-30), (5.0, 5.0), (-1e30, 1e30)] {
            let n = 1000;
            let values: Vec<f32> =
                (0..n).map(|i| (low + (high - low) * f64::from(i % 97) / 96.0) as f32).collect();
            let units = Units::between(low, high, values.len());
            let [mut sum, mut squares] = [0i64; 2];
            for &v in &values {
                let [a, b] = units.of(v);
                sum = sum.checked_add(a).unwrap();
                squares = squares.checked_add(b).unwrap();
            }
            let all: f64 = values.iter().map(|v| f64::from(*v)).sum();
            let width = (high - low).max(high.abs() * 1e-6);
            assert!((units.sum(sum, i64::from(n)) - all).abs() < 1e-6 * width, "{low} {high}");
            let from = low + (high - low) / 3.0;
            let spread: f64 = values.iter().map(|v| (f64::from(*v) - from).powi(2)).sum();
            let found = units.spread([sum, squares], i64::from(n), from);
            assert!((found - spread).abs() <= 1e-9 * spread + 1e-30, "{found}, not {spread}");
        }
        assert_eq!(Units::between(0.0, 1.0, 10).of(f32::NAN), [0, 0]);
    }

    #[test]
    fn means_are_in_the_order_of_the_object() {
        let units = Units::between(0.0, 8.0, 4);
        let of = |values: &[f32]| values.iter().map(|v| units.of(*v)[0]).sum::<i64>();
        let all = of(&[1.0, 3.0, 5.0, 7.0]);
        let totals = Totals { size: 2, sum: of(&[1.0, 3.0]), all, ..Totals::default() };
        for (object, expected) in [
            (Object::AsStarted, [2.0, 6.0]),
            (Object::Brighter, [6.0, 2.0]),
            (Object::Darker, [2.0, 6.0]),
        ] {
            assert_eq!(means(&units, object, &totals, 4), expected);
        }
    }
}
