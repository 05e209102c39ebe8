//! Measurements of interpolation at points and of its adjoint: all voxels of a grid, displaced by three kinds of field
//! (L. K. Ha, 2011, table 3.2).

use super::{Bench, room};
use crate::device::Device;
use crate::error::{Result, voxels};
use crate::ops::SplatScheme;
use crate::ops::splat::{Beyond, Lattice, Spline};

/// The fields of the table.
pub const FIELDS: [&str; 3] = ["random", "diffeomorphic", "singular"];

/// Displacements that bring all voxels to one place, or anywhere.
fn displaced<D: Device>(bench: &Bench<'_, D>, kind: &str) -> Result<D::Buffer<f32>> {
    if kind == "diffeomorphic" {
        return bench.field();
    }
    let ([nx, ny, _], n) = (bench.dims, voxels("dims", bench.dims)?);
    let mut field = room(3 * n)?;
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    for a in 0..3 {
        for i in 0..n {
            let at = [i % nx, i / nx % ny, i / (nx * ny)][a] as f32;
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let part =
                if kind == "random" { (state >> 40) as f32 / (1 << 24) as f32 } else { 0.437 };
            field.push(part * (bench.dims[a] - 1) as f32 - at);
        }
    }
    bench.device.upload_vec(field)
}

pub(super) fn run<D: Device>(bench: &mut Bench<'_, D>) -> Result<()> {
    let (device, dims, n) = (bench.device, bench.dims, voxels("dims", bench.dims)?);
    let lattice = Lattice::linear(dims, Beyond::Nearest);
    let image = bench.image()?;
    let mut out = device.alloc(n)?;
    for kind in FIELDS {
        let field = displaced(bench, kind)?;
        for scheme in SplatScheme::ALL {
            let what = format!("{kind}, {}", format!("{scheme:?}").to_lowercase());
            bench.measure("splat", what, 20 * n, || {
                device.splat(&image, &field, Some(dims), lattice, scheme, &mut out)
            })?;
        }
        bench.measure("splat", format!("{kind}, gathered"), 20 * n, || {
            device.gather(&image, lattice, &field, Some(dims), &mut out)
        })?;
    }
    let field = displaced(bench, "diffeomorphic")?;
    let cubic = Lattice { spline: Spline::Cubic, ..lattice };
    let scheme = SplatScheme::default();
    bench.measure("splat", "diffeomorphic, cubic", 20 * n, || {
        device.splat(&image, &field, Some(dims), cubic, scheme, &mut out)
    })?;
    let (moments, mut slopes) = (bench.image()?, device.alloc(3 * n)?);
    bench.measure("splat", "diffeomorphic, gathered with slopes", 36 * n, || {
        device.gather_with_slopes(
            &image,
            lattice,
            &field,
            Some(dims),
            &moments,
            &mut out,
            &mut slopes,
        )
    })
}
