//! Overlap of the fields of view of two images.

use voxalign_image::{Affine, Grid, Vector3};

/// The fraction of the smaller field of view (by volume, in 2D by area) that is within the other under a transform,
/// 0 to 1.
#[must_use]
pub fn field_overlap(fixed: &Grid, moving: &Grid, transform: &Affine) -> f64 {
    const STEPS: usize = 24;
    let flat = fixed.is_2d();
    let size = |g: &Grid| {
        let e = g.extent();
        e[0] * e[1] * if flat { 1.0 } else { e[2] }
    };
    // Points of the smaller one are looked up in the other.
    let to_moving = fixed.to_world().then(transform).then(moving.to_index());
    let moving_here = size(moving) / transform.determinant().abs().max(1e-12);
    let Ok(to_fixed) = to_moving.inverse() else { return 0.0 };
    let (from, to, map) = if moving_here < size(fixed) {
        (moving, fixed, to_fixed)
    } else {
        (fixed, moving, to_moving)
    };
    let dims = from.dims();
    let steps = [STEPS, STEPS, if flat { 1 } else { STEPS }];
    let mut inside = 0usize;
    for k in 0..steps[2] {
        for j in 0..steps[1] {
            for i in 0..steps[0] {
                let at =
                    |n: usize, s: usize, i: usize| (i as f64 + 0.5) / s as f64 * n as f64 - 0.5;
                let p = Vector3::new(
                    at(dims[0], steps[0], i),
                    at(dims[1], steps[1], j),
                    at(dims[2], steps[2], k),
                );
                let mut q = map.apply(p);
                if flat {
                    q[2] = 0.0;
                }
                inside += usize::from(to.contains_index(q));
            }
        }
    }
    inside as f64 / (steps[0] * steps[1] * steps[2]) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlap_by_hand() {
        let g = Grid::axis_aligned([20, 20, 20], [2.0; 3]).unwrap();
        assert!((field_overlap(&g, &g, &Affine::identity()) - 1.0).abs() < 1e-9);
        let half = Affine::translation(Vector3::new(20.0, 0.0, 0.0));
        assert!((field_overlap(&g, &g, &half) - 0.5).abs() < 0.05);
        let off = Affine::translation(Vector3::new(50.0, 0.0, 0.0));
        assert_eq!(field_overlap(&g, &g, &off), 0.0);
        let small = Grid::axis_aligned([10, 10, 10], [2.0; 3]).unwrap();
        assert!((field_overlap(&g, &small, &Affine::identity()) - 1.0).abs() < 0.1);
        let slice = Grid::axis_aligned([20, 20, 1], [2.0, 2.0, 5.0]).unwrap();
        assert!((field_overlap(&slice, &slice, &half) - 0.5).abs() < 0.05);
    }
}
