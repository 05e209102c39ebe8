//! Synthetic shapes: spheres with folds, as long as brains.

use std::f64::consts::{PI, TAU};
use voxalign_image::Vector3;
use voxalign_jobs::Result;
use voxalign_register::attachment::currents::Shape;

/// Semi-axes, mm: with the default width, their grid is 160x224x160.
const AXES: [f64; 3] = [47.0, 84.0, 47.0];

/// A surface of about this many triangles, with folds that `phase` moves.
pub(super) fn folded(faces: usize, phase: f64) -> Result<Shape> {
    let rings = ((faces as f64 / 4.0).sqrt().round() as usize).max(3);
    let around = (faces / (2 * rings)).max(3);
    let mut vertices = Vec::with_capacity((rings + 1) * around);
    for i in 0..=rings {
        let theta = PI * i as f64 / rings as f64;
        for j in 0..around {
            let phi = TAU * j as f64 / around as f64;
            let fold = (9.0 * theta + phase).sin() * (8.0 * phi).cos() * theta.sin();
            let r = 1.0 + 0.06 * fold + 0.02 * (phase + 2.0 * phi).sin() * theta.sin();
            let at = [theta.sin() * phi.cos(), theta.cos(), theta.sin() * phi.sin()];
            vertices.push(Vector3::from_fn(|a, _| AXES[a] * r * at[a]));
        }
    }
    let index = |i: usize, j: usize| (i * around + j % around) as u32;
    let mut triangles = Vec::with_capacity(2 * rings * around);
    for i in 0..rings {
        for j in 0..around {
            triangles.push([index(i, j), index(i + 1, j), index(i + 1, j + 1)]);
            triangles.push([index(i, j), index(i + 1, j + 1), index(i, j + 1)]);
        }
    }
    Ok(Shape::surface(&vertices, &triangles, true)?)
}

/// Points and moments of length 1, all x, then all y, then all z.
pub(super) struct Masses {
    pub(super) points: Vec<f32>,
    pub(super) moments: Vec<f32>,
}

/// Points anywhere in a cube of this side, with moments of any direction.
pub(super) fn random(count: usize, side: f64) -> Masses {
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    let mut list = |n: usize, scale: f64, off: f64| -> Vec<f32> {
        (0..n).map(|_| (scale * (next() - off)) as f32).collect()
    };
    Masses { points: list(3 * count, side, 0.0), moments: list(3 * count, 2.0, 0.5) }
}
