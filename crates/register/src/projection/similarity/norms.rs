//! Norms of the difference of images in the same units.

use super::sums::{moments, sum, sums};

/// The unit of differences: that of the X-ray image to its mean; 1 where it has no contrast.
fn unit(size: f64) -> f64 {
    if size > 0.0 { size } else { 1.0 }
}

/// `Σ (i − x)² / Σ (x − x̄)²`.
pub(super) fn squares(reference: &[f32], image: &[f32], derivative: Option<&mut [f32]>) -> f64 {
    let all = unit(moments(reference).1 * reference.len() as f64);
    if let Some(derivative) = derivative {
        for ((s, &x), &i) in derivative.iter_mut().zip(reference).zip(image) {
            *s = (2.0 * (f64::from(i) - f64::from(x)) / all) as f32;
        }
    }
    sums(reference, image, |x, i| [(i - x) * (i - x), 0.0])[0] / all
}

/// `Σ |i − x| / Σ |x − x̄|`.
pub(super) fn magnitudes(reference: &[f32], image: &[f32], derivative: Option<&mut [f32]>) -> f64 {
    let mean = moments(reference).0;
    let all = unit(sum(reference, |x| (x - mean).abs()));
    if let Some(derivative) = derivative {
        for ((s, &x), &i) in derivative.iter_mut().zip(reference).zip(image) {
            let off = f64::from(i) - f64::from(x);
            *s = (if off == 0.0 { 0.0 } else { off.signum() } / all) as f32;
        }
    }
    sums(reference, image, |x, i| [(i - x).abs(), 0.0])[0] / all
}
