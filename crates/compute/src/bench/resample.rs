//! Measurements of resampling.

use super::Bench;
use crate::device::Device;
use crate::error::{Result, voxels};
use crate::ops::resample::{Interpolation, LabelInterpolation};
use crate::{AffineMap, Dims, IDENTITY};

/// A rotation by 10 degrees about each axis and 5 % of scaling, around the centre.
fn oblique(dims: Dims) -> AffineMap {
    let (sin, cos) = 10f64.to_radians().sin_cos();
    let turn = |[x, y, z]: [f64; 3]| {
        let [x, y] = [cos * x - sin * y, sin * x + cos * y];
        let [y, z] = [cos * y - sin * z, sin * y + cos * z];
        let [z, x] = [cos * z - sin * x, sin * z + cos * x];
        [x, y, z].map(|v| 1.05 * v)
    };
    let columns = [turn([1., 0., 0.]), turn([0., 1., 0.]), turn([0., 0., 1.])];
    let mut map = [0, 1, 2].map(|r| [columns[0][r], columns[1][r], columns[2][r], 0.0]);
    for row in &mut map {
        row[3] = -(0..3).map(|a| row[a] * 0.5 * (dims[a] as f64 - 1.0)).sum::<f64>();
    }
    for (row, n) in map.iter_mut().zip(dims) {
        row[3] += 0.5 * (n as f64 - 1.0);
    }
    map
}

pub(super) fn run<D: Device>(bench: &mut Bench<'_, D>) -> Result<()> {
    let (device, dims) = (bench.device, bench.dims);
    let n = voxels("dims", dims)?;
    let mut src = bench.image()?;
    let mut out = device.alloc(n)?;
    let map = oblique(dims);
    for kind in [Interpolation::Nearest, Interpolation::Linear, Interpolation::Cubic] {
        bench.measure("resample", format!("affine {kind:?}"), 8 * n, || {
            device.warp_affine(&src, dims, &map, dims, kind, 0.0, &mut out)
        })?;
    }
    bench.measure("resample", "affine Linear, identity", 8 * n, || {
        device.warp_affine(&src, dims, &IDENTITY, dims, Interpolation::Linear, 0.0, &mut out)
    })?;
    // Displacements of a few voxels, smooth as the image is.
    let mut wave = device.download(&src)?;
    wave.iter_mut().for_each(|v| *v *= 0.02);
    let mut field = wave.clone();
    field.extend(wave.iter().map(|v| 0.7 * v));
    field.extend(wave.iter().map(|v| -0.5 * v));
    let field = device.upload_vec(field)?;
    for kind in [Interpolation::Linear, Interpolation::Cubic] {
        bench.measure("resample", format!("field {kind:?}"), 20 * n, || {
            device.warp_field(&src, dims, &IDENTITY, &field, dims, kind, 0.0, &mut out)
        })?;
    }
    bench.measure("resample", "spline prefilter", 8 * n, || {
        device.bspline_prefilter(&mut src, dims)
    })?;
    let labels: Vec<i32> = wave.iter().map(|v| v.round() as i32).collect();
    let labels = device.upload_vec(labels)?;
    let mut chosen = device.alloc(n)?;
    for rule in [LabelInterpolation::Nearest, LabelInterpolation::Majority] {
        bench.measure("resample", format!("labels {rule:?}"), 8 * n, || {
            device.warp_labels(&labels, dims, &map, None, dims, rule, 0, &mut chosen)
        })?;
    }
    drop((labels, chosen));
    let mut composed = device.alloc(3 * n)?;
    bench.measure("resample", "compose fields", 36 * n, || {
        device.compose_fields(&field, dims, &IDENTITY, &field, dims, &mut composed)
    })?;
    bench.measure("resample", "field on the same grid", 24 * n, || {
        device.resample_field(&field, dims, &IDENTITY, dims, &mut composed)
    })
}
