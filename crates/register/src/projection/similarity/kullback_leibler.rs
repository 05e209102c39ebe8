//! Kullback-Leibler divergence of images as distributions over pixels.

use voxalign_options::Parameters;

/// Images as distributions.
#[derive(Debug, Clone, Copy, PartialEq, Parameters)]
pub struct KullbackLeibler {
    /// Offset added to each pixel, as a fraction of the mean of its image
    #[parameter(default = 1e-3, unit = "PART", above = 0.0, most = 1.0)]
    pub floor: f64,
}

/// `Σ p log (p / q)`, where `p` and `q` are the images, with a part of their means added to each pixel, divided by their
/// sums. Whatever factor is between the images does not count.
pub(super) fn cost(
    reference: &[f32],
    image: &[f32],
    derivative: Option<&mut [f32]>,
    KullbackLeibler { floor }: KullbackLeibler,
) -> f64 {
    let mean = |values: &[f32]| {
        let sum: f64 = values.iter().map(|&v| f64::from(v.max(0.0))).sum();
        sum / values.len().max(1) as f64
    };
    let (mean_x, mean_i) = (mean(reference), mean(image));
    // Nothing to distribute: no image is like it.
    if !(mean_x > 0.0 && mean_i > 0.0) {
        if let Some(derivative) = derivative {
            derivative.fill(0.0);
        }
        return f64::from(u8::MAX);
    }
    let raised = |v: f32, mean: f64| f64::from(v.max(0.0)) + floor * mean;
    let n = reference.len() as f64;
    // Both sums are those of the values times 1 + floor.
    let (sum_x, sum_i) = (n * mean_x * (1.0 + floor), n * mean_i * (1.0 + floor));
    let mut cost = 0.0;
    // Σ p / i, by which a change of the mean acts through the floor.
    let mut by_floor = 0.0;
    for (&x, &i) in reference.iter().zip(image) {
        let (p, i) = (raised(x, mean_x) / sum_x, raised(i, mean_i));
        cost += p * (p * sum_i / i).ln();
        by_floor += p / i;
    }
    if let Some(derivative) = derivative {
        for ((s, &x), &i) in derivative.iter_mut().zip(reference).zip(image) {
            let p = raised(x, mean_x) / sum_x;
            // ∂/∂i of log sum_i − Σ p log (i + floor mean).
            let own = if i > 0.0 {
                1.0 / (n * mean_i) - p / raised(i, mean_i) - by_floor * floor / n
            } else {
                0.0
            };
            *s = own as f32;
        }
    }
    cost
}
