//! Measurements of reductions.

use super::Bench;
use crate::device::Device;
use crate::error::{Result, voxels};
use crate::ops::reduce::Reduction;

pub(super) fn run<D: Device>(bench: &mut Bench<'_, D>) -> Result<()> {
    use Reduction::{CountNonFinite, Dot, Max, Min, Sum, SumAbs, SumSquaredDifference, SumSquares};
    let (device, n) = (bench.device, voxels("dims", bench.dims)?);
    let (a, b) = (bench.image()?, bench.image()?);
    // Inputs are read once, whatever is made of them; the numbers themselves do not count.
    let (one, two) = (4 * n, 8 * n);
    bench.measure("reduce", "sum", one, || device.reduce(&[&a], &[Sum(0)]).map(drop))?;
    let mut number = device.alloc::<f64>(1)?;
    bench.measure("reduce", "sum, left on the device", one, || {
        device.reduce_into(&[&a], &[Sum(0)], &mut number)
    })?;
    bench.measure("reduce", "min and max", one, || {
        device.reduce(&[&a], &[Min(0), Max(0)]).map(drop)
    })?;
    let summary = [Sum(0), SumSquares(0), SumAbs(0), Min(0), Max(0), CountNonFinite(0)];
    bench.measure("reduce", "six numbers of an image", one, || {
        device.reduce(&[&a], &summary).map(drop)
    })?;
    bench.measure("reduce", "dot", two, || device.reduce(&[&a, &b], &[Dot(0, 1)]).map(drop))?;
    bench.measure("reduce", "sum of squared differences", two, || {
        device.reduce(&[&a, &b], &[SumSquaredDifference(0, 1)]).map(drop)
    })?;
    let moments = [Sum(0), Sum(1), SumSquares(0), SumSquares(1), Dot(0, 1)];
    bench.measure("reduce", "five moments of two images", two, || {
        device.reduce(&[&a, &b], &moments).map(drop)
    })
}
