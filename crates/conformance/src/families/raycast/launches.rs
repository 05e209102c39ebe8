//! More rows and more views than a launch of a GPU has, and rays that end within the volume.

use super::adjoint::{self, Places, Rays};
use super::reference::{self, Volume};
use super::{KINDS, SIZE, found, image, image_and_derivatives, view, views};
use crate::support::{Random, assert_close, len};
use voxalign_compute::Device;
use voxalign_compute::ops::raycast::{Along, Filtering, Pixels, RayView, Traversal};

/// More rows than a launch on a GPU has.
const TALL: usize = 40_001;

/// A detector of two columns and many rows.
pub(crate) fn tall<D: Device>(device: &D) {
    let dims = [5, 4, 3];
    let mut view = view(&mut Random::new(41), dims);
    for of in [&mut view.places, &mut view.world] {
        // Two of the columns and all of the rows cover what they did before.
        of[1] = reference::add(of[1], of[2], 8.0);
        of[3] = of[3].map(|x| x * 13.0 / TALL as f64);
    }
    let (values, views) = (image(dims, 42), [view]);
    let (all, volume) = (Pixels::region([0, 0], [2, TALL]), Volume { values: &values, dims });
    // Windows at the begin, at the end, and where launches of some sizes end.
    let windows = [0, 16_382, 32_766, 36_000, TALL - 5];
    let part = |row: usize| Pixels::region([0, row], [2, 5]);
    let texture = Traversal::Trilinear { step: 0.7, filtering: Filtering::Texture };
    for how in KINDS.into_iter().chain([texture]) {
        for along in [Along::Integral, Along::Maximum] {
            if (how, along) == (Traversal::Siddon, Along::Maximum) {
                continue;
            }
            let found = found(device, (&values, dims), &views, &all, how, along);
            assert!(found.iter().filter(|x| **x != 0.0).count() > TALL / 10);
            for row in windows {
                let expected = reference::project(&volume, &views, &part(row), how, along);
                let tolerance = if how == texture { 0.05 } else { 1e-4 };
                let name = format!("{how:?} {along:?} from row {row}");
                assert_close(&name, &found[2 * row..][..10], &expected, tolerance);
            }
        }
    }
    // Weights in the windows alone.
    let mut weights = vec![0.0; all.len()];
    let mut random = Random::new(43);
    for row in windows {
        weights[2 * row..][..10].fill_with(|| random.between(-1.0, 2.0) as f32);
    }
    let (image, derivative) =
        image_and_derivatives(device, (&values, dims), &views, &all, 0.7, &weights);
    let mut expected = [[0.0; 3]; 4];
    for row in windows {
        let how = Traversal::trilinear(0.7);
        let of_part = reference::project(&volume, &views, &part(row), how, Along::Integral);
        assert_close(&format!("row {row}"), &image[2 * row..][..10], &of_part, 1e-4);
        let weights = &weights[2 * row..][..10];
        let of_part = reference::derivative(&volume, &views, &part(row), 0.7, weights);
        for p in 0..4 {
            expected[p] = reference::add(expected[p], of_part[0][p], 1.0);
        }
    }
    for (found, expected) in derivative[0].iter().zip(&expected) {
        let size = expected.iter().map(|x| x * x).sum::<f64>().sqrt();
        let off = (0..3).map(|a| (found[a] - expected[a]).abs()).fold(0.0, f64::max);
        assert!(size > 0.0 && off <= 2e-3 * size, "{found:?} {expected:?}");
    }
    for how in KINDS {
        let rays = Rays { views: &views, pixels: &all, how, weights: &weights };
        adjoint::check(device, &volume, rays, Places::Rounded);
    }
}

/// Views that are some again and again.
pub(crate) fn many_views<D: Device>(device: &D) {
    let (dims, pixels) = ([5, 4, 3], Pixels::region([8, 6], [3, 2]));
    let values = image(dims, 44);
    let mut random = Random::new(45);
    let few: Vec<RayView> = (0..5).map(|_| view(&mut random, dims)).collect();
    let views: Vec<RayView> = few.iter().copied().cycle().take(2 * 4096 + 3).collect();
    assert_eq!(views.len() % 5, 0);
    let (n, volume) = (pixels.len(), Volume { values: &values, dims });
    for how in KINDS {
        let expected = reference::project(&volume, &few, &pixels, how, Along::Integral);
        let found = found(device, (&values, dims), &views, &pixels, how, Along::Integral);
        assert_close(&format!("{how:?}"), &found[..5 * n], &expected, 1e-4);
        for (view, image) in found.chunks(n).enumerate() {
            assert_eq!(*image, found[view % 5 * n..][..n], "{how:?} view {view}");
        }
    }
    let weights = Random::new(46).image([5 * n, 1, 1]);
    let all: Vec<f32> = weights.iter().copied().cycle().take(views.len() * n).collect();
    let (_, found) = image_and_derivatives(device, (&values, dims), &views, &pixels, 0.7, &all);
    let expected = reference::derivative(&volume, &few, &pixels, 0.7, &weights);
    assert_eq!(found.len(), views.len());
    for (view, found) in found.iter().enumerate() {
        let expected = &expected[view % 5];
        let size = expected.iter().flatten().fold(0.0f64, |most, x| most.max(x.abs()));
        for (found, expected) in found.iter().flatten().zip(expected.iter().flatten()) {
            assert!((found - expected).abs() <= 1e-3 * size, "view {view}: {found} {expected}");
        }
    }
    let how = Traversal::Siddon;
    let of = |views: &[RayView], weights: &[f32]| {
        let mut out = device.alloc(len(dims)).unwrap();
        let weights = device.upload(weights).unwrap();
        device.backproject(&weights, views, &pixels, how, dims, &mut out).unwrap();
        device.into_host(out).unwrap()
    };
    let times = (views.len() / 5) as f64;
    for (found, once) in of(&views, &all).iter().zip(of(&few, &weights)) {
        let (found, expected) = (f64::from(*found), times * f64::from(once));
        assert!((found - expected).abs() <= 1e-6 * expected.abs() + 1e-3, "{found} {expected}");
    }
}

/// A detector whose plane cuts the volume: what is behind it is not seen, and has no part in derivatives and sums.
pub(crate) fn detectors_within<D: Device>(device: &D) {
    let (dims, pixels) = ([37, 23, 11], Pixels::region([0, 0], SIZE));
    let values = image(dims, 47);
    // The middle of the volume is at 0.6 of the way to the detector.
    let nearer = |view: &RayView, by: f64| {
        let moved = |p: [[f64; 3]; 4]| {
            let along = reference::add(p[1], p[0], -1.0);
            [p[0], reference::add(p[0], along, by), p[2].map(|x| x * by), p[3].map(|x| x * by)]
        };
        RayView { places: moved(view.places), world: moved(view.world) }
    };
    let whole = views(dims, 48);
    let volume = Volume { values: &values, dims };
    let weights = Random::new(49).image([whole.len() * pixels.len(), 1, 1]);
    for by in [0.58, 0.61, 0.65] {
        let views: Vec<RayView> = whole.iter().map(|view| nearer(view, by)).collect();
        // The last of these planes of samples are those of the detectors, as near as numbers are.
        let exact = Traversal::trilinear(views[0].depth() / 128.0);
        for how in KINDS.into_iter().chain([exact]) {
            let name = format!("{by} {how:?}");
            let (some, all) = {
                let of = |views: &[RayView]| {
                    reference::project(&volume, views, &pixels, how, Along::Integral)
                };
                (of(&views), of(&whole))
            };
            let sum = |image: &[f64]| image.iter().sum::<f64>();
            let seen = sum(&some) / sum(&all);
            assert!((0.05..0.95).contains(&seen), "{name}: {seen}");
            let found = found(device, (&values, dims), &views, &pixels, how, Along::Integral);
            assert_close(&name, &found, &some, 4e-3);
            let rays = Rays { views: &views, pixels: &pixels, how, weights: &weights };
            adjoint::check(device, &volume, rays, Places::Rounded);
        }
        let (_, found) =
            image_and_derivatives(device, (&values, dims), &views, &pixels, 0.7, &weights);
        let expected = reference::derivative(&volume, &views, &pixels, 0.7, &weights);
        for (found, expected) in found.iter().flatten().zip(expected.iter().flatten()) {
            let size = expected.iter().map(|x| x * x).sum::<f64>().sqrt();
            let off = (0..3).map(|a| (found[a] - expected[a]).abs()).fold(0.0, f64::max);
            assert!(off <= 2e-3 * size, "{by}: {found:?} {expected:?}");
        }
    }
}
