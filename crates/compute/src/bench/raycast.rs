//! Measurements of rays through volumes.

use super::Bench;
use crate::device::Device;
use crate::error::{Result, voxels};
use crate::ops::raycast::{Along, Filtering, Pixels, RayView, Traversal};

/// A source in front of the image, twice as far from its middle as from there to the detector, which has a column and a row
/// for each voxel along x and z and sees all of it.
fn view(dims: [usize; 3]) -> RayView {
    let size = dims.map(|n| n as f64);
    let far = size[0].max(size[1]).max(size[2]);
    let middle = size.map(|n| (n - 1.0) / 2.0);
    let source = [middle[0], middle[1] - 4.0 * far, middle[2]];
    // What is at the front is seen 6/3.5 times as large as it is.
    let (pixel, detector) = (1.8, middle[1] + 2.0 * far);
    let first = |a: usize| middle[a] - pixel * middle[a];
    let origin = [first(0), detector, first(2)];
    let world = [source, origin, [pixel, 0.01, 0.0], [0.0, 0.01, pixel]];
    RayView { places: world, world }
}

pub(super) fn run<D: Device>(bench: &mut Bench<'_, D>) -> Result<()> {
    let (device, dims) = (bench.device, bench.dims);
    let n = voxels("dims", dims)?;
    let (view, pixels) = ([view(dims)], Pixels::region([0, 0], [dims[0], dims[2]]));
    let m = pixels.len();
    let image = bench.head()?;
    bench.measure("raycast", "volume for rays", 8 * n, || {
        device.ray_volume(&image, dims).map(|_| ())
    })?;
    let volume = device.ray_volume(&image, dims)?;
    drop(image);
    let mut out = device.alloc(m)?;
    let texture = Traversal::Trilinear { step: 1.0, filtering: Filtering::Texture };
    let exact = Traversal::trilinear(1.0);
    for (name, how, along) in [
        ("integrals, trilinear", exact, Along::Integral),
        ("integrals, trilinear by texture units", texture, Along::Integral),
        ("maxima, trilinear", exact, Along::Maximum),
        ("integrals, Siddon", Traversal::Siddon, Along::Integral),
        ("integrals, Joseph", Traversal::Joseph, Along::Integral),
    ] {
        bench.measure("raycast", name, 4 * (n + m), || {
            device.project(&volume, &view, &pixels, how, along, &mut out)
        })?;
    }
    let mut derivatives = device.alloc(6 * m)?;
    bench.measure("raycast", "integrals with derivatives", 4 * (n + 7 * m), || {
        device.project_with_derivatives(&volume, &view, &pixels, 1.0, &mut out, &mut derivatives)
    })?;
    bench.measure("raycast", "sums of derivatives", 28 * m, || {
        device.view_derivatives(1, &pixels, &out, &derivatives).map(|_| ())
    })?;
    drop((volume, derivatives));
    let mut back = device.alloc(n)?;
    for (name, how) in [("adjoint, trilinear", exact), ("adjoint, Siddon", Traversal::Siddon)] {
        bench.measure("raycast", name, 4 * (n + m), || {
            device.backproject(&out, &view, &pixels, how, dims, &mut back)
        })?;
    }
    Ok(())
}
