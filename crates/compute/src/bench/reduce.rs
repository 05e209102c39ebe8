//! Measurements of reductions.

use super::Bench;
use crate::device::Device;
use crate::error::{Result, voxels};
use crate::ops::reduce::Reduction;

pub(super) fn run<D: Device>(bench: &mut Bench<'_, D>) -> Result<()> {
    use Reduction::{Dot, Max, Min, Sum, SumSquares};
    let (device, n) = (bench.device, voxels("dims", bench.dims)?);
    let (a, b) = (bench.image()?, bench.image()?);
    bench.measure("reduce", "sum", 4 * n, || device.reduce(&[&a], &[Sum(0)]).map(drop))?;
    bench.measure("reduce", "min and max", 4 * n, || {
        device.reduce(&[&a], &[Min(0), Max(0)]).map(drop)
    })?;
    bench.measure("reduce", "dot", 8 * n, || device.reduce(&[&a, &b], &[Dot(0, 1)]).map(drop))?;
    let moments = [Sum(0), Sum(1), SumSquares(0), SumSquares(1), Dot(0, 1)];
    bench.measure("reduce", "five moments of two images", 8 * n, || {
        device.reduce(&[&a, &b], &moments).map(drop)
    })
}
