//! Exponential, logarithm and power, written so that loops over them vectorise and give the same bits
//! everywhere. They are computed in `f64` to about 10⁻¹⁰ and then rounded.

use std::f64::consts::{LN_2, LOG2_E, SQRT_2};

/// Adding and taking away this rounds to an integer, which is then in the low bits.
const ROUND: f64 = 1.5 * (1u64 << 52) as f64;

/// eˣ for a sum of the Taylor series around the nearest multiple of ln 2. Beyond the exponents of `f32`,
/// with some margin, the result is one that rounds to 0 or ∞.
#[inline(always)]
fn exp_wide(x: f64) -> f64 {
    let x = if x < -110.0 { -110.0 } else { x };
    let x = if x > 90.0 { 90.0 } else { x };
    let shifted = x * LOG2_E + ROUND;
    let r = x - (shifted - ROUND) * LN_2;
    let mut sum = 1.0 / 40320.0;
    for factor in [5040.0, 720.0, 120.0, 24.0, 6.0, 2.0, 1.0, 1.0] {
        sum = sum * r + 1.0 / factor;
    }
    let power = (shifted.to_bits() << 52).wrapping_add(1.0f64.to_bits());
    sum * f64::from_bits(power)
}

/// ln x for a positive and finite normal number, by the series of the inverse hyperbolic tangent.
#[inline(always)]
fn log_wide(x: f64) -> f64 {
    const MANTISSA: u64 = (1 << 52) - 1;
    let bits = x.to_bits();
    let m = f64::from_bits(bits & MANTISSA | 1.0f64.to_bits());
    // The exponent as a number, without a conversion from 64-bit integers.
    let exponent = f64::from_bits(bits >> 52 | ROUND.to_bits()) - ROUND - 1023.0;
    let above = m > SQRT_2;
    let m = if above { 0.5 * m } else { m };
    let exponent = if above { exponent + 1.0 } else { exponent };
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    let mut sum = 1.0 / 17.0;
    for odd in [15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0] {
        sum = sum * z + 1.0 / odd;
    }
    exponent * LN_2 + 2.0 * s * sum
}

/// eˣ
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    exp_wide(f64::from(x)) as f32
}

/// The natural logarithm.
#[inline(always)]
pub(crate) fn log(x: f32) -> f32 {
    let value = log_wide(f64::from(x)) as f32;
    let value = if x == f32::INFINITY { x } else { value };
    let value = if x == 0.0 { f32::NEG_INFINITY } else { value };
    if x >= 0.0 { value } else { f32::NAN }
}

/// xʸ
#[inline(always)]
pub(crate) fn pow(x: f32, y: f32) -> f32 {
    if x == 1.0 || y == 0.0 || (x == -1.0 && y.is_infinite()) {
        return 1.0;
    }
    if x.is_nan() || y.is_nan() {
        return f32::NAN;
    }
    let is_integer = y.abs() >= 16_777_216.0 || (y as i32) as f32 == y;
    let is_odd = y.abs() < 16_777_216.0 && is_integer && (y as i32) & 1 == 1;
    let size = x.abs();
    let power = if size == 0.0 || size.is_infinite() {
        if (size == 0.0) == (y > 0.0) { 0.0 } else { f32::INFINITY }
    } else if x < 0.0 && !is_integer && y.is_finite() {
        return f32::NAN;
    } else {
        exp_wide(f64::from(y) * log_wide(f64::from(size))) as f32
    };
    if is_odd && x.is_sign_negative() { -power } else { power }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The distance from the exact value, in units in the last place.
    fn error(found: f32, exact: f64) -> f64 {
        let rounded = exact as f32;
        if found == rounded || (found.is_nan() && exact.is_nan()) {
            return 0.0;
        }
        let unit =
            f64::from(f32::from_bits(rounded.abs().to_bits() + 1)) - f64::from(rounded.abs());
        ((f64::from(found) - exact) / unit).abs()
    }

    #[test]
    fn exponential_and_logarithm() {
        let mut worst = [0f64; 2];
        // All exponents, some mantissas.
        for bits in (0..u32::MAX).step_by(10_007) {
            let x = f32::from_bits(bits);
            let wide = f64::from(x);
            worst[0] = worst[0].max(error(exp(x), wide.exp()));
            worst[1] = worst[1].max(error(log(x), wide.ln()));
        }
        for special in [0.0, -0.0, 1.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -1.0, 1e-45] {
            worst[0] = worst[0].max(error(exp(special), f64::from(special).exp()));
            worst[1] = worst[1].max(error(log(special), f64::from(special).ln()));
        }
        assert!(worst.iter().all(|&w| w <= 0.51), "{worst:?}");
    }

    #[test]
    fn power() {
        let numbers = [
            0.0,
            0.3,
            0.5,
            1.0,
            1.5,
            2.0,
            3.0,
            7.25,
            1e-40,
            1e-7,
            1e20,
            3e38,
            16_777_217.0,
            f32::INFINITY,
            2.000_000_2,
            126.5,
            0.999_999_9,
        ];
        let numbers: Vec<f32> = numbers.iter().flat_map(|&v| [v, -v]).chain([f32::NAN]).collect();
        for &x in &numbers {
            for &y in &numbers {
                let (found, std) = (pow(x, y), x.powf(y));
                let exact = f64::from(x).powf(f64::from(y));
                assert!(error(found, exact) <= 0.51, "{x}^{y} = {found}, exactly {exact}");
                assert!(found.is_nan() || found.is_sign_negative() == std.is_sign_negative());
            }
        }
    }
}
