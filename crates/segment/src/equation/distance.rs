//! Signed distances from a front.

use crate::error::{Result, same_length};
use crate::lattice::Lattice;
use voxalign_image::memory;

/// The most rounds of sweeps in all directions, and the change below which they end.
const ROUNDS: usize = 8;
const CHANGE: f64 = 1e-9;

/// The signed distance from where a function is 0, of the same signs. Next to the front it is the function divided by its slope, the greatest of
/// central and one-sided ones (G. Russo and P. Smereka 2000), elsewhere the solution of |∇φ| = 1 by sweeps (H. Zhao 2005), to the first order.
///
/// Farther from the front than a limit it is infinite, as it is everywhere where there is no front.
///
/// # Errors
/// [`SegmentError::Length`](crate::SegmentError::Length), [`SegmentError::OutOfMemory`](crate::SegmentError::OutOfMemory).
pub fn redistanced(
    lattice: &Lattice,
    phi: &[f64],
    spacing: [f64; 3],
    limit: f64,
) -> Result<Vec<f64>> {
    same_length("the function", phi.len(), lattice.len())?;
    let mut distances = memory::filled(phi.len(), f64::INFINITY)?;
    let mut fixed = memory::filled(phi.len(), false)?;
    for point in 0..phi.len() {
        if let Some(distance) = beside(lattice, phi, spacing, point) {
            distances[point] = distance;
            fixed[point] = true;
        }
    }
    for _ in 0..ROUNDS {
        let mut change: f64 = 0.0;
        for direction in 0..1 << lattice.dimension() {
            change = change.max(sweep(lattice, &fixed, spacing, direction, limit, &mut distances));
        }
        if change <= CHANGE {
            break;
        }
    }
    for (distance, phi) in distances.iter_mut().zip(phi) {
        if *distance > limit {
            *distance = f64::INFINITY;
        }
        if *phi < 0.0 {
            *distance = -*distance;
        }
    }
    Ok(distances)
}

/// The distance of a point from the front where a neighbour along an axis is on the other side.
fn beside(lattice: &Lattice, phi: &[f64], spacing: [f64; 3], point: usize) -> Option<f64> {
    let (here, place) = (phi[point], lattice.place(point));
    let (mut square, mut most, mut is_beside) = (0.0, 0.0f64, false);
    for axis in 0..lattice.dimension() {
        let mut by = [0; 3];
        by[axis] = -1;
        let before = phi[lattice.clamped(place, by)];
        by[axis] = 1;
        let after = phi[lattice.clamped(place, by)];
        is_beside |= (before < 0.0) != (here < 0.0) || (after < 0.0) != (here < 0.0);
        square += ((after - before) / (2.0 * spacing[axis])).powi(2);
        most = most.max((after - here).abs() / spacing[axis]);
        most = most.max((here - before).abs() / spacing[axis]);
    }
    let slope = square.sqrt().max(most);
    is_beside.then(|| if slope > 0.0 { here.abs() / slope } else { 0.0 })
}

/// One pass over all points, from a corner of the lattice to the opposite one. Gives the greatest change.
fn sweep(
    lattice: &Lattice,
    fixed: &[bool],
    spacing: [f64; 3],
    direction: usize,
    limit: f64,
    distances: &mut [f64],
) -> f64 {
    let [nx, ny, nz] = lattice.dims();
    let turned =
        |axis: usize, i: usize, n: usize| if direction >> axis & 1 == 1 { n - 1 - i } else { i };
    let mut change: f64 = 0.0;
    for k in 0..nz {
        let z = turned(2, k, nz);
        for j in 0..ny {
            let y = turned(1, j, ny);
            for i in 0..nx {
                let x = turned(0, i, nx);
                let point = lattice.point([x, y, z]);
                if fixed[point] {
                    continue;
                }
                let nearest = |at: usize, n: usize, stride: usize| {
                    let before = if at > 0 { distances[point - stride] } else { f64::INFINITY };
                    let after = if at + 1 < n { distances[point + stride] } else { f64::INFINITY };
                    before.min(after)
                };
                let all = [nearest(x, nx, 1), nearest(y, ny, nx), nearest(z, nz, nx * ny)];
                if all[0].min(all[1]).min(all[2]) >= limit.min(distances[point]) {
                    continue;
                }
                let distance = solved([0, 1, 2].map(|a| (all[a], spacing[a])));
                if distance < distances[point] {
                    let less = distances[point] - distance;
                    change = change.max(if less.is_finite() { less } else { f64::MAX });
                    distances[point] = distance;
                }
            }
        }
    }
    change
}

/// The distance u with Σ max(0, (u - aₖ) / hₖ)² = 1.
fn solved(mut axes: [(f64, f64); 3]) -> f64 {
    axes.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut u = axes[0].0 + axes[0].1;
    // Σ (u - a)² / h² = 1 over the first axes, as p u² - 2 q u + r = 0.
    let (mut p, mut q, mut r) = (0.0, 0.0, -1.0);
    for (k, &(a, h)) in axes.iter().enumerate() {
        if u <= a || !a.is_finite() {
            break;
        }
        p += 1.0 / (h * h);
        q += a / (h * h);
        r += a * a / (h * h);
        if k > 0 {
            u = (q + (q * q - p * r).max(0.0).sqrt()) / p;
        }
    }
    u
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lattice::Neighbourhood;

    /// Distances from a plane are exact, from a circle and a sphere to a fraction of a step.
    #[test]
    fn distances_from_planes_circles_and_spheres_are_found() {
        for (dims, kind, spacing, most) in [
            ([60, 50, 1], Neighbourhood::Four, [1.0, 1.0, 1.0], 0.35),
            ([60, 50, 1], Neighbourhood::Eight, [0.5, 1.0, 1.0], 0.35),
            ([24, 26, 28], Neighbourhood::Six, [1.0, 1.0, 1.0], 0.6),
        ] {
            let lattice = Lattice::new(dims, kind).unwrap();
            let of = |f: &dyn Fn([f64; 3]) -> f64| -> Vec<f64> {
                let from = |p| {
                    let place = lattice.place(p);
                    f(std::array::from_fn(|a| {
                        (place[a] as f64 - (dims[a] - 1) as f64 / 2.0) * spacing[a]
                    }))
                };
                (0..lattice.len()).map(from).collect()
            };
            let plane = of(&|x| 3.0 * (x[0] - 2.3));
            let found = redistanced(&lattice, &plane, spacing, f64::INFINITY).unwrap();
            assert!(found.iter().zip(&plane).all(|(f, p)| (f - p / 3.0).abs() < 1e-9));
            let ball = of(&|x| x.iter().map(|c| c * c).sum::<f64>().sqrt() - 8.1);
            let bent: Vec<f64> = ball.iter().map(|d| d * (2.0 + 0.02 * d)).collect();
            let found = redistanced(&lattice, &bent, spacing, f64::INFINITY).unwrap();
            let near = redistanced(&lattice, &bent, spacing, 4.0).unwrap();
            for (n, f) in near.iter().zip(&found) {
                let expected = if f.abs() > 4.0 { f.signum() * f64::INFINITY } else { *f };
                assert!(*n == expected || (n - expected).abs() < 1e-9, "{n} {f}");
            }
            for (f, b) in found.iter().zip(&ball).filter(|(_, b)| **b > -5.0) {
                assert!(
                    (f - b).abs() < most + 0.015 * b.abs() && (*f < 0.0) == (*b < 0.0),
                    "{f} {b}"
                );
            }
        }
        let lattice = Lattice::new([3, 3, 1], Neighbourhood::Four).unwrap();
        let none = redistanced(&lattice, &[1.0; 9], [1.0; 3], f64::INFINITY).unwrap();
        assert!(none.iter().all(|d| *d == f64::INFINITY));
    }
}
