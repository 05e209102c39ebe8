//! Measurements of interpolation at points and of its adjoint: all voxels of a grid, displaced by three kinds of field
//! (L. K. Ha, 2011, table 3.2).

use super::{Bench, room};
use crate::Dims;
use crate::device::Device;
use crate::error::{Result, voxels};
use crate::ops::SplatScheme;
use crate::ops::splat::{Beyond, Lattice, Spline};

/// The fields of the table.
pub const FIELDS: [&str; 3] = ["random", "diffeomorphic", "singular"];

/// Displacements that move all voxels to one point, or anywhere.
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

/// The time of an operator of the table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FieldTime {
    /// One of [`FIELDS`].
    pub field: &'static str,
    /// How sums were made; none where values were gathered.
    pub scheme: Option<SplatScheme>,
    /// Median, in seconds.
    pub seconds: f64,
}

/// Times of splatting one value a voxel with linear weights, by each scheme, and of gathering, for all fields.
///
/// # Errors
/// If the device has not the memory, or fails.
pub fn times<D: Device>(device: &D, dims: Dims, schemes: &[SplatScheme]) -> Result<Vec<FieldTime>> {
    let mut bench = Bench::new(device, &super::Settings::new(dims))?;
    let n = voxels("dims", dims)?;
    let lattice = Lattice::linear(dims, Beyond::Nearest);
    let (image, mut out) = (bench.image()?, device.alloc(n)?);
    let mut found = Vec::new();
    for kind in FIELDS {
        let field = displaced(&bench, kind)?;
        for scheme in schemes.iter().copied().map(Some).chain([None]) {
            bench.measure("splat", kind, 20 * n, || match scheme {
                Some(scheme) => device.splat(&image, &field, Some(dims), lattice, scheme, &mut out),
                None => device.gather(&image, lattice, &field, Some(dims), &mut out),
            })?;
            let seconds = bench.results.last().map_or(f64::NAN, |m| m.seconds);
            found.push(FieldTime { field: kind, scheme, seconds });
        }
    }
    Ok(found)
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
    let (moments, mut derivatives) = (bench.image()?, device.alloc(3 * n)?);
    bench.measure("splat", "diffeomorphic, gathered with derivatives", 36 * n, || {
        device.gather_with_gradients(
            &image,
            lattice,
            &field,
            Some(dims),
            &moments,
            &mut out,
            &mut derivatives,
        )
    })
}
