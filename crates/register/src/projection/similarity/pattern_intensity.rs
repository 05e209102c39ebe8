//! Pattern intensity.

use super::Reference;
use super::sums::moments;
use voxalign_options::Parameters;

/// Structure in a difference image.
#[derive(Debug, Clone, Copy, PartialEq, Parameters)]
pub struct PatternIntensity {
    /// Radius of the neighbourhood that each pixel is compared with, pixels
    #[parameter(
        default = 3,
        unit = "PIXELS",
        least = 1,
        most = 15,
        what = "whole number of pixels"
    )]
    pub radius: usize,
    /// Difference between neighbours that counts as structure, in standard deviations of the images
    #[parameter(default = 0.2, above = 0.0)]
    pub sigma: f64,
}

/// One of each pair of neighbours within a radius.
fn offsets(radius: usize) -> Vec<(usize, isize)> {
    let reach = radius as isize;
    let all = (0..=reach).flat_map(|dy| (-reach..=reach).map(move |dx| (dy as usize, dx)));
    let one_of_each = all.filter(|&(dy, dx)| dy > 0 || dx > 0);
    one_of_each.filter(|&(dy, dx)| (dy * dy) as isize + dx * dx <= reach * reach).collect()
}

/// `1 − mean over pairs of neighbours of σ² / (σ² + (dₖ − dₗ)²)`, where `d` is the difference of both images, each less its mean and
/// divided by its standard deviation (Weese et al. 1997).
pub(super) fn cost(
    reference: &Reference,
    image: &[f32],
    derivative: Option<&mut [f32]>,
    PatternIntensity { radius, sigma }: PatternIntensity,
) -> f64 {
    let ((mean_x, var_x), (mean_i, var_i)) = match &reference.counted {
        None => (moments(&reference.values), moments(image)),
        Some(counted) => (moments(&counted.values), moments(&counted.of(image))),
    };
    let floor = 1e-12 * (mean_i * mean_i).max(f64::MIN_POSITIVE);
    let (width, height) = (reference.tiles.width, reference.tiles.height);
    let offsets = offsets(radius);
    let flat = var_x.is_nan() || var_x <= 0.0 || var_i.is_nan() || var_i <= floor;
    if flat || width * height < 2 {
        if let Some(derivative) = derivative {
            derivative.fill(0.0);
        }
        return 1.0;
    }
    let (sd_x, sd_i) = (var_x.sqrt(), var_i.sqrt());
    let standard = |i: f32| (f64::from(i) - mean_i) / sd_i;
    let pairs = reference.values.iter().zip(image);
    let d: Vec<f64> = pairs.map(|(&x, &i)| standard(i) - (f64::from(x) - mean_x) / sd_x).collect();
    let mut of_d = vec![0.0f64; if derivative.is_some() { d.len() } else { 0 }];
    let (mut sum, mut count) = (0.0, 0u64);
    let square = sigma * sigma;
    for first in (0..d.len()).step_by(width * height) {
        for &(dy, dx) in &offsets {
            let columns = (-dx).max(0) as usize..(width as isize - dx.max(0)).max(0) as usize;
            for y in 0..height.saturating_sub(dy) {
                for x in columns.clone() {
                    let a = first + y * width + x;
                    let b = a + dy * width;
                    let Some(b) = b.checked_add_signed(dx) else { continue };
                    if !(reference.counts(a) && reference.counts(b)) {
                        continue;
                    }
                    let off = d[a] - d[b];
                    let part = square / (square + off * off);
                    sum += part;
                    count += 1;
                    if !of_d.is_empty() {
                        // ∂part/∂off = −2 off part² / σ².
                        let s = -2.0 * off * part * part / square;
                        of_d[a] += s;
                        of_d[b] -= s;
                    }
                }
            }
        }
    }
    let count = count.max(1) as f64;
    if let Some(derivative) = derivative {
        // Through the mean and the standard deviation of the image.
        let n = reference.counted.as_ref().map_or(d.len(), |c| c.places.len()) as f64;
        let mean_s = of_d.iter().sum::<f64>() / n;
        let along = of_d.iter().zip(image).map(|(s, &i)| s * standard(i)).sum::<f64>() / n;
        for (place, ((out, s), &i)) in derivative.iter_mut().zip(&of_d).zip(image).enumerate() {
            let of_image = (s - mean_s - standard(i) * along) / sd_i;
            *out = if reference.counts(place) { (-of_image / count) as f32 } else { 0.0 };
        }
    }
    1.0 - sum / count
}
