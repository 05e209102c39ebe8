//! Rays within the faces of voxels, along axes, and through edges and corners. All numbers have few binary digits, so that places are
//! exact on every device.

use super::adjoint::{self, Places, Rays};
use super::reference::{self, Volume};
use super::{found, image, image_and_derivatives};
use crate::support::{Random, assert_close};
use voxalign_compute::ops::raycast::{Along, Filtering, Pixels, RayView, Traversal};
use voxalign_compute::{Device, Dims};

const DIMS: Dims = [4, 3, 5];
const KINDS: [Traversal; 4] = [
    Traversal::Trilinear { step: 1.0, filtering: Filtering::Exact },
    Traversal::Trilinear { step: 0.5, filtering: Filtering::Exact },
    Traversal::Siddon,
    Traversal::Joseph,
];
/// The middle one of the pixels has the ray along the axis.
const PIXELS: [usize; 2] = [5, 5];
const MIDDLE: usize = 12;

/// Places along an axis: the ends of interpolated values, the outer faces, inner ones, and within voxels.
fn places(n: usize) -> [f64; 7] {
    let n = n as f64;
    [-1.0, -0.5, 0.0, 0.5, n - 1.5, n - 0.5, n]
}

/// A view along an axis from a source at a place of the two others; pixels are twice as far apart as voxels are where they are seen.
fn view(axis: usize, forwards: bool, [a, b]: [f64; 2]) -> RayView {
    let (u, v) = ((axis + 1) % 3, (axis + 2) % 3);
    let mut world = [[0.0; 3]; 4];
    let ends = if forwards { [-62.0, 66.0] } else { [66.0, -62.0] };
    for (place, end) in world.iter_mut().zip(ends) {
        (place[axis], place[u], place[v]) = (end, a, b);
    }
    world[1][u] -= 2.0;
    world[1][v] -= 2.0;
    world[2][u] = 1.0;
    world[3][v] = 1.0;
    RayView { places: world, world }
}

fn views(axis: usize) -> Vec<RayView> {
    let at = |a: usize| places(DIMS[(axis + a) % 3]);
    let pairs = at(1).into_iter().flat_map(|a| at(2).map(|b| [a, b]));
    pairs.flat_map(|pair| [true, false].map(|forwards| view(axis, forwards, pair))).collect()
}

/// What the first and the last voxels have of a ray within the outer faces of the volume, by the rule.
pub(crate) fn rule<D: Device>(device: &D) {
    let values = image(DIMS, 31);
    let pixels = Pixels::region([2, 2], [1, 1]);
    for axis in 0..3 {
        let (u, v) = ((axis + 1) % 3, (axis + 2) % 3);
        // The sum along the axis over the voxels at a place of the two others.
        let sum = |a: usize, b: usize| -> f64 {
            let at = |i: usize| {
                let mut place = [0; 3];
                (place[axis], place[u], place[v]) = (i, a, b);
                f64::from(values[place[0] + DIMS[0] * (place[1] + DIMS[1] * place[2])])
            };
            (0..DIMS[axis]).map(at).sum()
        };
        let last = DIMS[v] - 1;
        let upper = DIMS[u] as f64 - 0.5;
        for (place, expected) in [
            ([-0.5, -0.5], sum(0, 0)),
            ([-0.5, last as f64], sum(0, last)),
            ([0.5, last as f64 - 0.5], sum(1, last)),
            ([upper, 0.0], 0.0),
            ([0.0, last as f64 + 0.5], 0.0),
            ([upper - 1.0, 0.0], sum(DIMS[u] - 1, 0)),
        ] {
            for forwards in [true, false] {
                let view = [view(axis, forwards, place)];
                let how = Traversal::Siddon;
                let found = found(device, (&values, DIMS), &view, &pixels, how, Along::Integral);
                let off = (f64::from(found[0]) - expected).abs();
                assert!(off < 1e-5, "{axis} {forwards} {place:?}: {found:?} {expected}");
            }
        }
    }
}

pub(crate) fn faces<D: Device>(device: &D) {
    let (values, pixels) = (image(DIMS, 32), Pixels::region([0, 0], PIXELS));
    let volume = Volume { values: &values, dims: DIMS };
    for axis in 0..3 {
        let views = views(axis);
        let n = views.len() * pixels.len();
        let weights = Random::new(33).image([n, 1, 1]);
        for how in KINDS {
            let name = format!("{axis} {how:?}");
            let expected = reference::project(&volume, &views, &pixels, how, Along::Integral);
            let lit = expected.iter().skip(MIDDLE).step_by(pixels.len());
            assert!(lit.clone().any(|&x| x == 0.0) && lit.clone().any(|&x| x != 0.0));
            let found = found(device, (&values, DIMS), &views, &pixels, how, Along::Integral);
            assert_close(&name, &found, &expected, 1e-5);
            let rays = Rays { views: &views, pixels: &pixels, how, weights: &weights };
            adjoint::check(device, &volume, rays, Places::Exact);
        }
        for step in [1.0, 0.5] {
            let (_, found) =
                image_and_derivatives(device, (&values, DIMS), &views, &pixels, step, &weights);
            let expected = reference::derivative(&volume, &views, &pixels, step, &weights);
            for (found, expected) in found.iter().zip(&expected) {
                let size = expected.iter().flatten().fold(0.0f64, |most, x| most.max(x.abs()));
                for (found, expected) in found.iter().flatten().zip(expected.iter().flatten()) {
                    let off = (found - expected).abs();
                    assert!(off <= 1e-5 * (1.0 + size), "{axis} {step}: {found} {expected}");
                }
            }
        }
    }
    // Diagonals, through edges and corners.
    let world = [[-62.0, -62.0, -62.0], [64.0, 64.0, 66.0], [1.0, -1.0, 0.0], [0.0, 1.0, -1.0]];
    let views = [RayView { places: world, world }];
    let weights = Random::new(34).image([pixels.len(), 1, 1]);
    for how in [Traversal::Siddon, Traversal::Joseph] {
        let expected = reference::project(&volume, &views, &pixels, how, Along::Integral);
        assert!(expected.iter().any(|&x| x != 0.0));
        let found = found(device, (&values, DIMS), &views, &pixels, how, Along::Integral);
        assert_close(&format!("{how:?}"), &found, &expected, 1e-4);
        let rays = Rays { views: &views, pixels: &pixels, how, weights: &weights };
        adjoint::check(device, &volume, rays, Places::Rounded);
    }
}
