//! Rays through volumes against one sample at a time.

mod adjoint;
mod faces;
mod launches;
mod reference;

use crate::support::{Random, Results, SIZES, assert_close, len};
use adjoint::{Places, Rays};
pub(crate) use faces::{faces, rule};
pub(crate) use launches::{detectors_within, many_views, tall};
use reference::Volume;
use voxalign_compute::ops::raycast::{Along, Filtering, Pixels, RayView, Traversable, Traversal};
use voxalign_compute::{Device, Dims};

const KINDS: [Traversal; 3] = [
    Traversal::Trilinear { step: 0.7, filtering: Filtering::Exact },
    Traversal::Siddon,
    Traversal::Joseph,
];
/// Columns and rows of the detectors.
const SIZE: [usize; 2] = [19, 13];

/// A detector seen through the middle of a volume from a random side; voxels of 0.8 x 1.1 x 1.7 mm.
fn view(random: &mut Random, dims: Dims) -> RayView {
    let spacing = [0.8, 1.1, 1.7];
    let mut unit = || {
        let v = [0; 3].map(|_| random.between(-1.0, 1.0));
        let length = v.iter().map(|x| x * x).sum::<f64>().sqrt();
        v.map(|x| x / length)
    };
    let (towards, other) = (unit(), unit());
    let cross = |a: [f64; 3], b: [f64; 3]| {
        [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
    };
    let across = cross(towards, other);
    let across = across.map(|x| x / across.iter().map(|x| x * x).sum::<f64>().sqrt());
    let down = cross(towards, across);
    let size = (0..3).map(|a| dims[a] as f64 * spacing[a]).fold(0.0, f64::max);
    let middle = [0, 1, 2].map(|a| spacing[a] * (dims[a] as f64 - 1.0) / 2.0);
    let (near, far) = (2.0 * size + 5.0, 3.3 * size + 9.0);
    // Wider than the volume, so that some rays miss it.
    let pixel = 2.0 * size / 13.0;
    let at = |along: f64, u: f64, v: f64| {
        [0, 1, 2].map(|a| middle[a] + towards[a] * along + pixel * (across[a] * u + down[a] * v))
    };
    let step = |d: [f64; 3]| d.map(|x| x * pixel);
    let world = [at(-near, 0.0, 0.0), at(far - near, -9.3, -6.2), step(across), step(down)];
    let places = world.map(|p| [0, 1, 2].map(|a| p[a] / spacing[a]));
    RayView { places, world }
}

fn views(dims: Dims, seed: u64) -> Vec<RayView> {
    let mut random = Random::new(seed);
    (0..3).map(|_| view(&mut random, dims)).collect()
}

fn image(dims: Dims, seed: u64) -> Vec<f32> {
    let mut random = Random::new(seed);
    (0..len(dims)).map(|_| random.between(-0.2, 1.0) as f32).collect()
}

/// The same with large parts that are 0.
fn sparse(dims: Dims, seed: u64) -> Vec<f32> {
    let mut values = image(dims, seed);
    for (i, value) in values.iter_mut().enumerate() {
        let (x, y) = (i % dims[0], i / dims[0] % dims[1]);
        if x > dims[0] / 4 || y < dims[1] / 2 {
            *value = 0.0;
        }
    }
    values
}

fn found<D: Device>(
    device: &D,
    (values, dims): (&[f32], Dims),
    views: &[RayView],
    pixels: &Pixels,
    how: Traversal,
    along: Along,
) -> Vec<f32> {
    let volume = device.ray_volume(&device.upload(values).unwrap(), dims).unwrap();
    assert_eq!(volume.dims(), dims);
    let mut out = device.alloc(views.len() * pixels.len()).unwrap();
    device.project(&volume, views, pixels, how, along, &mut out).unwrap();
    device.into_host(out).unwrap()
}

fn check<D: Device>(device: &D, values: &[f32], dims: Dims, pixels: &Pixels, along: Along) {
    let views = views(dims, len(dims) as u64);
    for how in KINDS {
        let expected = reference::project(&Volume { values, dims }, &views, pixels, how, along);
        let found = found(device, (values, dims), &views, pixels, how, along);
        // Places are rounded to some 1e-6 of a voxel for each that they are from the middle.
        let size = dims.iter().max().map_or(1.0, |&n| n as f64);
        assert_close(&format!("{dims:?} {how:?}"), &found, &expected, 3e-6 * size * size.max(3.0));
    }
}

pub(crate) fn projections<D: Device>(device: &D) {
    for dims in SIZES {
        let pixels = Pixels::region([0, 0], SIZE);
        check(device, &image(dims, 1), dims, &pixels, Along::Integral);
    }
    let part = Pixels::region([4, 3], [11, 5]);
    check(device, &image([37, 23, 11], 2), [37, 23, 11], &part, Along::Integral);
}

pub(crate) fn maxima<D: Device>(device: &D) {
    // Smooth, so that a ray that passes a voxel's face a hair elsewhere makes no difference.
    for dims in [[37, 23, 11], [16, 16, 1]] {
        let of = |(i, _): (usize, _)| {
            let [x, y, z] = [i % dims[0], i / dims[0] % dims[1], i / dims[0] / dims[1]];
            ((x as f32 * 0.11).sin() + (y as f32 * 0.07).cos()) * (1.0 + z as f32 * 0.05)
        };
        let values: Vec<f32> = vec![0; len(dims)].into_iter().enumerate().map(of).collect();
        let pixels = Pixels::region([0, 0], SIZE);
        let views = views(dims, 5);
        for how in [KINDS[0], KINDS[2]] {
            let along = Along::Maximum;
            let volume = Volume { values: &values, dims };
            let expected = reference::project(&volume, &views, &pixels, how, along);
            let found = found(device, (&values, dims), &views, &pixels, how, along);
            assert_close(&format!("{dims:?} {how:?}"), &found, &expected, 1e-4);
        }
        // Within a voxel: what the ray has of it does not count, so one that it hardly meets may be another.
        let (how, along) = (Traversal::Siddon, Along::Maximum);
        let volume = Volume { values: &values, dims };
        let expected = reference::project(&volume, &views, &pixels, how, along);
        let found = found(device, (&values, dims), &views, &pixels, how, along);
        let other =
            found.iter().zip(&expected).filter(|(f, e)| (f64::from(**f) - **e).abs() > 1e-4);
        assert!(other.count() <= 3, "{dims:?}");
    }
}

/// Interpolated by texture units: places are rounded to 1/256 of a voxel.
pub(crate) fn textures<D: Device>(device: &D) {
    let dims = [37, 23, 11];
    let values = image(dims, 17);
    let (views, volume) = (views(dims, 5), Volume { values: &values, dims });
    for pixels in [Pixels::region([0, 0], SIZE), Pixels::drawn([0, 0], SIZE, [1, 1], 99, 4)] {
        for along in [Along::Integral, Along::Maximum] {
            let how = Traversal::Trilinear { step: 0.3, filtering: Filtering::Texture };
            let expected = reference::project(&volume, &views, &pixels, how, along);
            let found = found(device, (&values, dims), &views, &pixels, how, along);
            // Half of that along each axis, of differences of up to 1.2, of a sample of 0.3 mm; most of it cancels out.
            let each = 3.0 * 1.2 / 512.0;
            let tolerance = if along == Along::Maximum { each } else { each * 6.0 };
            assert_close(&format!("{along:?}"), &found, &expected, tolerance);
        }
    }
}

pub(crate) fn draws<D: Device>(device: &D) {
    let dims = [37, 23, 11];
    for (tile, count) in [([1, 1], 100), ([1, 1], 247), ([2, 2], 31), ([4, 3], 5)] {
        let pixels = Pixels::drawn([0, 0], SIZE, tile, count, 77);
        check(device, &image(dims, 3), dims, &pixels, Along::Integral);
    }
    let pixels = Pixels::drawn([5, 2], [9, 8], [3, 2], 20, u64::MAX);
    check(device, &image(dims, 3), dims, &pixels, Along::Integral);
}

/// What is 0 is passed, and nothing else.
pub(crate) fn emptiness<D: Device>(device: &D) {
    let pixels = Pixels::region([0, 0], SIZE);
    for dims in [[70, 9, 6], [37, 23, 11], [33, 21, 1], [40, 41, 39]] {
        check(device, &sparse(dims, 4), dims, &pixels, Along::Integral);
    }
    let dims = [40, 33, 29];
    // One voxel at a time.
    for place in [0, 17, 40 * 33 * 14 + 40 * 16 + 20, len(dims) - 1] {
        let mut values = vec![0.0; len(dims)];
        values[place] = 1.0;
        check(device, &values, dims, &pixels, Along::Integral);
    }
    check(device, &vec![0.0; len(dims)], dims, &pixels, Along::Integral);
}

/// The image, its derivative in the views against sums of one sample after the other.
fn image_and_derivatives<D: Device>(
    device: &D,
    (values, dims): (&[f32], Dims),
    views: &[RayView],
    pixels: &Pixels,
    step: f64,
    weights: &[f32],
) -> (Vec<f32>, Vec<[[f64; 3]; 4]>) {
    let volume = device.ray_volume(&device.upload(values).unwrap(), dims).unwrap();
    let n = views.len() * pixels.len();
    let (mut out, mut derivatives) = (device.alloc(n).unwrap(), device.alloc(6 * n).unwrap());
    device
        .project_with_derivatives(&volume, views, pixels, step, &mut out, &mut derivatives)
        .unwrap();
    let weights = device.upload(weights).unwrap();
    let sums = device.view_derivatives(views.len(), pixels, &weights, &derivatives).unwrap();
    let all = views.iter().zip(&sums);
    let of_views = all.map(|(view, sums)| view.derivative(dims, step, sums).unwrap()).collect();
    (device.into_host(out).unwrap(), of_views)
}

pub(crate) fn derivatives<D: Device>(device: &D) {
    let step = 0.7;
    let draw = Pixels::drawn([1, 0], [18, 13], [2, 2], 40, 5);
    for (dims, pixels) in [
        ([37, 23, 11], Pixels::region([0, 0], SIZE)),
        ([33, 21, 1], Pixels::region([2, 3], [16, 9])),
        ([70, 9, 6], draw),
    ] {
        let (values, views) = (sparse(dims, 6), views(dims, 7));
        let weights = Random::new(8).image([views.len() * pixels.len(), 1, 1]);
        let (found_image, found) =
            image_and_derivatives(device, (&values, dims), &views, &pixels, step, &weights);
        let volume = Volume { values: &values, dims };
        let how = Traversal::trilinear(step);
        let expected = reference::project(&volume, &views, &pixels, how, Along::Integral);
        assert_close(&format!("{dims:?}"), &found_image, &expected, 1e-3);
        let expected = reference::derivative(&volume, &views, &pixels, step, &weights);
        for (found, expected) in found.iter().zip(&expected) {
            for (found, expected) in found.iter().zip(expected) {
                let size = expected.iter().map(|x| x * x).sum::<f64>().sqrt();
                for a in 0..3 {
                    let off = (found[a] - expected[a]).abs();
                    assert!(off <= 2e-3 * size, "{dims:?}: {found:?} {expected:?}");
                }
            }
        }
    }
}

/// Differences of smooth images are what the derivative says.
pub(crate) fn derivatives_are_of_the_image<D: Device>(device: &D) {
    let dims = [24, 21, 18];
    let values: Vec<f32> = (0..len(dims))
        .map(|i| {
            let at = [i % dims[0], i / dims[0] % dims[1], i / dims[0] / dims[1]];
            let off = |a: usize| (at[a] as f64 - dims[a] as f64 / 2.0 + a as f64) / 5.0;
            (-(off(0).powi(2) + off(1).powi(2) + off(2).powi(2)) / 2.0).exp() as f32
        })
        .collect();
    let pixels = Pixels::region([0, 0], SIZE);
    let view = views(dims, 9)[0];
    let weights = Random::new(10).image([pixels.len(), 1, 1]);
    let (_, derivative) =
        image_and_derivatives(device, (&values, dims), &[view], &pixels, 0.7, &weights);
    // All four places move along some direction.
    let mut random = Random::new(12);
    let direction = [0; 4].map(|_| [0; 3].map(|_| random.between(-1.0, 1.0)));
    let along = |by: f64| {
        let mut places = view.places;
        for p in 0..4 {
            // A pixel's step counts as often as there are pixels.
            let by = if p < 2 { by } else { by / 19.0 };
            places[p] = [0, 1, 2].map(|a| places[p][a] + by * direction[p][a]);
        }
        let view = RayView { places, ..view };
        let how = Traversal::trilinear(0.7);
        let found = found(device, (&values, dims), &[view], &pixels, how, Along::Integral);
        found.iter().zip(&weights).map(|(f, w)| f64::from(*f) * f64::from(*w)).sum::<f64>()
    };
    let expected: f64 = (0..4)
        .map(|p| {
            let by = if p < 2 { 1.0 } else { 1.0 / 19.0 };
            by * (0..3).map(|a| derivative[0][p][a] * direction[p][a]).sum::<f64>()
        })
        .sum();
    let found = (along(0.05) - along(-0.05)) / 0.1;
    assert!((found - expected).abs() < 0.01 * expected.abs(), "{found} {expected}");
}

/// ⟨A x, w⟩ = ⟨x, Aᵀ w⟩, and every voxel of Aᵀ w.
pub(crate) fn adjoints<D: Device>(device: &D) {
    for (dims, pixels) in [
        ([37, 23, 11], Pixels::region([0, 0], SIZE)),
        ([33, 21, 1], Pixels::region([2, 3], [16, 9])),
        ([3, 2, 2], Pixels::region([0, 0], SIZE)),
        ([17, 9, 6], Pixels::drawn([1, 0], [18, 13], [1, 1], 50, 5)),
    ] {
        let (views, values) = (views(dims, 13), image(dims, 15));
        let weights = Random::new(14).image([views.len() * pixels.len(), 1, 1]);
        for how in KINDS {
            let rays = Rays { views: &views, pixels: &pixels, how, weights: &weights };
            adjoint::check(device, &Volume { values: &values, dims }, rays, Places::Rounded);
        }
    }
}

/// Rays of one view along the longest and the shortest sides of voxels.
pub(crate) fn wide_angles<D: Device>(device: &D) {
    let (dims, spacing) = ([5, 4, 3], [1.0, 1.0, 100.0]);
    let world = [[2.2, 1.3, -140.0], [-497.8, 1.1, 410.0], [500.0, 0.1, 0.0], [0.1, 0.4, 0.0]];
    let places = world.map(|p| [0, 1, 2].map(|a| p[a] / spacing[a]));
    let (views, values) = ([RayView { places, world }], image(dims, 25));
    for (pixels, weights) in [
        (Pixels::region([0, 0], [3, 1]), vec![1e30, -3e30, 2e30]),
        (Pixels::region([1, 0], [1, 1]), vec![7.0]),
    ] {
        for how in KINDS {
            let rays = Rays { views: &views, pixels: &pixels, how, weights: &weights };
            adjoint::check(device, &Volume { values: &values, dims }, rays, Places::Rounded);
        }
    }
}

pub(crate) fn picks<D: Device>(device: &D) {
    let values = Random::new(16).image([SIZE[0], SIZE[1], 1]);
    let image = device.upload(&values).unwrap();
    for pixels in [
        Pixels::region([0, 0], SIZE),
        Pixels::region([7, 2], [3, 5]),
        Pixels::drawn([1, 2], [18, 11], [2, 3], 33, 3),
    ] {
        let mut out = device.alloc(pixels.len()).unwrap();
        device.pick(&image, SIZE, &pixels, &mut out).unwrap();
        let found = device.into_host(out).unwrap();
        for (i, found) in found.iter().enumerate() {
            let [u, v] = pixels.at(i);
            assert_eq!(*found, values[v * SIZE[0] + u]);
        }
    }
}

/// Rays end at the source and at the detector, also within a volume.
pub(crate) fn ends<D: Device>(device: &D) {
    let dims = [20, 20, 20];
    let values = image(dims, 18);
    let pixels = Pixels::region([0, 0], [5, 4]);
    let world = [[2.3, 9.1, 4.2], [7.9, 15.7, 12.6], [0.31, -0.2, 0.11], [0.1, 0.25, -0.4]];
    let view = RayView { places: world, world };
    // Behind the detector, behind the source.
    let behind = |by: f64| {
        let move_all = |p: [[f64; 3]; 4]| [p[0].map(|x| x + by), p[1].map(|x| x + by), p[2], p[3]];
        RayView { places: move_all(world), world: move_all(world) }
    };
    for how in [Traversal::trilinear(0.43), Traversal::Siddon, Traversal::Joseph] {
        let views = [view, behind(60.0), behind(-60.0)];
        let volume = Volume { values: &values, dims };
        let expected = reference::project(&volume, &views, &pixels, how, Along::Integral);
        let found = found(device, (&values, dims), &views, &pixels, how, Along::Integral);
        assert!(expected[0].abs() > 0.1 && expected[20..].iter().all(|&x| x == 0.0));
        assert_close(&format!("{how:?}"), &found, &expected, 2e-4);
    }
}

/// Sources far away, and rays along the axes.
pub(crate) fn far_away<D: Device>(device: &D) {
    let dims = [30, 25, 20];
    let values = image(dims, 19);
    let pixels = Pixels::region([0, 0], [9, 7]);
    for axis in 0..3 {
        let (u, v) = ((axis + 1) % 3, (axis + 2) % 3);
        let mut world = [[12.3, 11.2, 9.1]; 4];
        world[0][axis] = -1e5;
        world[1][axis] = 500.0;
        world[1][u] -= 10.1;
        world[1][v] -= 7.2;
        world[2] = [0.0; 3];
        world[2][u] = 2.4;
        world[3] = [0.0; 3];
        world[3][v] = 2.1;
        let view = RayView { places: world, world };
        for how in [Traversal::trilinear(1.0), Traversal::Siddon, Traversal::Joseph] {
            let volume = Volume { values: &values, dims };
            let expected = reference::project(&volume, &[view], &pixels, how, Along::Integral);
            let found = found(device, (&values, dims), &[view], &pixels, how, Along::Integral);
            assert_close(&format!("{axis} {how:?}"), &found, &expected, 5e-3);
        }
    }
}

pub(crate) fn errors<D: Device>(device: &D) {
    let dims = [6, 5, 4];
    let values = device.alloc::<f32>(120).unwrap();
    let volume = device.ray_volume(&values, dims).unwrap();
    assert!(device.ray_volume(&values, [6, 5, 5]).is_err());
    assert!(device.ray_volume(&values, [6, 5, 0]).is_err());
    let view = views(dims, 20)[0];
    let pixels = Pixels::region([0, 0], [3, 2]);
    let mut out = device.alloc::<f32>(6).unwrap();
    let how = Traversal::trilinear(0.5);
    let along = Along::Integral;
    assert!(device.project(&volume, &[view], &pixels, how, along, &mut out).is_ok());
    assert!(device.project(&volume, &[view; 2], &pixels, how, along, &mut out).is_err());
    let empty = Pixels::region([0, 0], [3, 0]);
    assert!(device.project(&volume, &[view], &empty, how, along, &mut out).is_err());
    for step in [0.0, -1.0, f64::NAN, 1e-9] {
        let how = Traversal::trilinear(step);
        assert!(device.project(&volume, &[view], &pixels, how, along, &mut out).is_err(), "{step}");
    }
    // No plane, or one alone, says nothing of what is before the detector.
    let depth = view.depth();
    for (part, is_ok) in [(0.5, true), (0.501, false), (1.0, false), (3.0, false)] {
        let how = Traversal::trilinear(part * depth);
        let found = device.project(&volume, &[view], &pixels, how, along, &mut out);
        assert_eq!(found.is_ok(), is_ok, "{part}");
        if let Err(error) = found {
            let said = error.to_string();
            let step = format!("step along rays is {} mm where the detector is", part * depth);
            assert!(said.contains(&step) && said.contains("at most half of that"), "{said}");
        }
    }
    let mut flat = view;
    flat.places[0] = flat.places[1];
    flat.world[0] = flat.world[1];
    assert!(device.project(&volume, &[flat], &pixels, how, along, &mut out).is_err());
    let mut nan = view;
    nan.places[2][1] = f64::NAN;
    assert!(device.project(&volume, &[nan], &pixels, how, along, &mut out).is_err());

    let mut derivatives = device.alloc::<f32>(36).unwrap();
    let one = [view];
    let mut with = |derivatives: &mut D::Buffer<f32>, step| {
        device.project_with_derivatives(&volume, &one, &pixels, step, &mut out, derivatives)
    };
    assert!(with(&mut derivatives, 0.5).is_ok() && with(&mut derivatives, 0.0).is_err());
    assert!(with(&mut derivatives, 0.6 * depth).is_err());
    assert!(with(&mut device.alloc(35).unwrap(), 0.5).is_err());
    let weights = device.alloc::<f32>(6).unwrap();
    assert!(device.view_derivatives(1, &pixels, &weights, &derivatives).is_ok());
    assert!(device.view_derivatives(2, &pixels, &weights, &derivatives).is_err());
    let mut back = device.alloc::<f32>(120).unwrap();
    assert!(device.backproject(&weights, &[view], &pixels, how, dims, &mut back).is_ok());
    assert!(device.backproject(&weights, &[view], &pixels, how, [6, 5, 3], &mut back).is_err());
    let far = Traversal::trilinear(0.6 * depth);
    assert!(device.backproject(&weights, &[view], &pixels, far, dims, &mut back).is_err());
    let odd = device.upload(&[1.0, f32::NAN, 0.0, 0.0, 0.0, 0.0]).unwrap();
    assert!(device.backproject(&odd, &[view], &pixels, how, dims, &mut back).is_err());
    assert!(device.pick(&weights, [3, 2], &pixels, &mut out).is_ok());
    assert!(device.pick(&weights, [2, 3], &pixels, &mut out).is_err());
    assert!(device.pick(&weights, [3, 3], &pixels, &mut out).is_err());
}

pub(crate) fn bits<D: Device>(device: &D) -> Results {
    let mut results = Results::new();
    let dims = [37, 23, 11];
    let (values, views) = (sparse(dims, 21), views(dims, 22));
    for pixels in [Pixels::region([0, 0], SIZE), Pixels::drawn([0, 0], SIZE, [1, 1], 90, 1)] {
        for how in KINDS {
            for along in [Along::Integral, Along::Maximum] {
                let found = found(device, (&values, dims), &views, &pixels, how, along);
                results.push((format!("{how:?} {along:?}"), found));
            }
            let n = views.len() * pixels.len();
            let weights = device.upload(&Random::new(23).image([n, 1, 1])).unwrap();
            let mut out = device.alloc(len(dims)).unwrap();
            device.backproject(&weights, &views, &pixels, how, dims, &mut out).unwrap();
            results.push((format!("{how:?} adjoint"), device.into_host(out).unwrap()));
        }
        let weights = Random::new(24).image([views.len() * pixels.len(), 1, 1]);
        let (image, derivatives) =
            image_and_derivatives(device, (&values, dims), &views, &pixels, 0.5, &weights);
        results.push(("image with derivatives".into(), image));
        // Both halves of the numbers.
        let halves = derivatives.iter().flatten().flatten().flat_map(|x| {
            let high = *x as f32;
            [high, (*x - f64::from(high)) as f32]
        });
        results.push(("derivatives".into(), halves.collect()));
    }
    results
}
