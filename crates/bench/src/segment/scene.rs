//! Images that are made, and the objects in them.

use voxalign_register::random::Random;

/// The contrast of the image, and the standard deviation of its noise.
const CONTRAST: f64 = 100.0;
const NOISE: f64 = 12.0;

/// Waves of which the sum is above 0 in the object: how often they repeat over an image along its axes, and their phases.
const WAVES: [([f64; 3], f64); 6] = [
    ([2.0, 1.0, 1.0], 0.3),
    ([1.0, -3.0, 2.0], 1.9),
    ([4.0, 2.0, -1.0], 4.4),
    ([-3.0, 4.0, 3.0], 2.7),
    ([5.0, 1.0, -4.0], 0.8),
    ([1.0, 6.0, 5.0], 5.1),
];

/// An image of bright, branching blobs, a tenth of the image wide and less, on a darker ground, with noise. It has the same shapes at every size.
pub(super) fn blobs(dims: [usize; 3], seed: u64) -> Vec<f32> {
    let mut random = Random::new(seed);
    let [nx, ny, nz] = dims;
    let tau = std::f64::consts::TAU;
    let mut out = Vec::with_capacity(nx * ny * nz);
    for z in 0..nz {
        for y in 0..ny {
            for x in 0..nx {
                let at = [x as f64 / nx as f64, y as f64 / ny as f64, z as f64 / nz as f64];
                let wave = |([a, b, c], phase): &([f64; 3], f64)| {
                    (tau * (a * at[0] + b * at[1] + c * at[2]) + phase).cos()
                };
                let sum: f64 = WAVES.iter().map(wave).sum();
                let object = 1.0 / (1.0 + (-8.0 * sum).exp());
                out.push((CONTRAST * object + NOISE * random.normal()) as f32);
            }
        }
    }
    out
}

/// A disc of a radius in the middle of a square image, as a force: 1 inside, -1 outside.
pub(super) fn disc(size: usize, radius: f64) -> Vec<f32> {
    let middle = (size as f64 - 1.0) / 2.0;
    let value = |i: usize| {
        let [x, y] = [(i % size) as f64 - middle, (i / size) as f64 - middle];
        if x * x + y * y <= radius * radius { 1.0 } else { -1.0 }
    };
    (0..size * size).map(value).collect()
}
