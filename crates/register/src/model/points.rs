//! Points that are pulled: where fields carry them, and the forces of their covectors.
//!
//! Between voxels a field is interpolated linearly, beyond its border it keeps its border values, as
//! where images are warped. Its values around the points come to the host, where all else is done in double
//! precision; forces go back to the voxels around them with the same weights, which is the adjoint of the
//! interpolation.

use crate::error::Result;
use voxalign_compute::ops::resample::Interpolation;
use voxalign_compute::{Device, Dims, IDENTITY};
use voxalign_image::{Affine, Grid, Matrix3, Vector3};

/// A row of the list in which values come to the host: short, so that single precision has its indices.
const ROW: usize = 256;

/// Numbers of a field around a point: three components at eight voxels.
const AROUND: usize = 24;

/// The voxels around a point, and how near it is to each of them.
struct Cell {
    /// The two indices along each axis; the same along one of a single voxel.
    ends: [[usize; 2]; 3],
    /// How far it is from the first to the second.
    part: [f64; 3],
    /// Whether the point is within the grid along an axis: beyond, nothing changes.
    inside: [bool; 3],
}

impl Cell {
    fn new(at: Vector3<f64>, dims: Dims) -> Self {
        let mut cell = Self { ends: [[0; 2]; 3], part: [0.0; 3], inside: [false; 3] };
        for a in 0..3 {
            let last = dims[a].saturating_sub(1);
            let within = at[a].clamp(0.0, last as f64);
            // A point that is not a number has its cell at the first voxel, and stays no number.
            let low = (within as usize).min(last.saturating_sub(1));
            cell.ends[a] = [low, (low + 1).min(last)];
            cell.part[a] = within - low as f64;
            cell.inside[a] = within == at[a] && last > 0;
        }
        cell
    }

    /// Its corners: the voxel, its weight, and the derivative of that along each axis.
    fn corners(&self) -> impl Iterator<Item = ([usize; 3], f64, Vector3<f64>)> + '_ {
        (0..8usize).map(|corner| {
            let far = [0, 1, 2].map(|a| corner >> a & 1);
            let index = [0, 1, 2].map(|a| self.ends[a][far[a]]);
            let along = |a: usize| if far[a] == 1 { self.part[a] } else { 1.0 - self.part[a] };
            let slope = |a: usize| match (self.inside[a], far[a]) {
                (false, _) => 0.0,
                (true, 1) => 1.0,
                (true, _) => -1.0,
            };
            let slopes = Vector3::new(
                slope(0) * along(1) * along(2),
                along(0) * slope(1) * along(2),
                along(0) * along(1) * slope(2),
            );
            (index, along(0) * along(1) * along(2), slopes)
        })
    }
}

/// A field at a point, in its own units.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    pub(super) value: Vector3<f64>,
    /// Its derivative by voxels: a row a component.
    pub(super) derivative: Matrix3<f64>,
}

/// A field at points, voxels of its grid. Waits for the device.
///
/// # Errors
/// A field too large to be [resampled](voxalign_compute::ops::Resample) in one piece with all its components one
/// behind the other; what fails on the device.
pub(super) fn sample<D: Device>(
    device: &D,
    field: &D::Buffer<f32>,
    dims: Dims,
    at: &[Vector3<f64>],
) -> Result<Vec<Sample>> {
    if at.is_empty() {
        return Ok(Vec::new());
    }
    let [nx, ny, nz] = dims;
    let cells: Vec<_> = at.iter().map(|&p| Cell::new(p, dims)).collect();
    // The components of the field are the parts of one long image; voxel `i` of the list shows one of its voxels.
    let rows = (AROUND * at.len()).div_ceil(ROW);
    let len = ROW * rows;
    let mut there = vec![0f32; 3 * len];
    for (i, cell) in cells.iter().enumerate() {
        for (corner, (index, ..)) in cell.corners().enumerate() {
            for component in 0..3 {
                let place = AROUND * i + 3 * corner + component;
                let from = [place % ROW, place / ROW, 0];
                let to = [index[0], index[1], index[2] + component * nz];
                for a in 0..3 {
                    there[a * len + place] = (to[a] as f64 - from[a] as f64) as f32;
                }
            }
        }
    }
    let (there, mut values) = (device.upload(&there)?, device.alloc::<f32>(len)?);
    let (from, nearest) = ([nx, ny, 3 * nz], Interpolation::Nearest);
    let list = [ROW, rows, 1];
    device.warp_field(field, from, &IDENTITY, &there, list, nearest, 0.0, &mut values)?;
    let values = device.into_host(values)?;
    let of_cell = |(cell, values): (&Cell, &[f32])| {
        let mut sample = Sample { value: Vector3::zeros(), derivative: Matrix3::zeros() };
        for ((_, weight, slopes), v) in cell.corners().zip(values.chunks_exact(3)) {
            let v = Vector3::new(f64::from(v[0]), f64::from(v[1]), f64::from(v[2]));
            sample.value += weight * v;
            sample.derivative += v * slopes.transpose();
        }
        sample
    };
    Ok(cells.iter().zip(values.chunks_exact(AROUND)).map(of_cell).collect())
}

/// Points of one world that a model has carried to the other.
#[derive(Debug, Default)]
pub(super) struct Carried {
    /// Where forces act on them, voxels of the grid.
    pub(super) at: Vec<Vector3<f64>>,
    /// Where they are now, mm of the other world.
    pub(super) to: Vec<Vector3<f64>>,
    /// How that follows `at` where the field stays: mm by voxels.
    pub(super) slopes: Vec<Matrix3<f64>>,
}

impl Carried {
    /// Points of `grid`, voxels, carried by the displacement `field` of it, and from its world on by `affine`.
    ///
    /// # Errors
    /// As of [`sample`].
    pub(super) fn along<D: Device>(
        device: &D,
        grid: &Grid,
        affine: &Affine,
        field: &D::Buffer<f32>,
        at: Vec<Vector3<f64>>,
    ) -> Result<Self> {
        let samples = sample(device, field, grid.dims(), &at)?;
        let map = grid.to_world().then(affine);
        let to = at.iter().zip(&samples).map(|(p, s)| map.apply(p + s.value)).collect();
        let slope = |s: &Sample| map.matrix * (Matrix3::identity() + s.derivative);
        let slopes = samples.iter().map(slope).collect();
        Ok(Self { at, to, slopes })
    }

    /// The forces of covectors at `to`, by voxels.
    pub(super) fn forces<'a>(
        &'a self,
        covectors: &'a [Vector3<f64>],
    ) -> impl Iterator<Item = (Vector3<f64>, Vector3<f64>)> + 'a {
        let forces = self.slopes.iter().zip(covectors).map(|(m, c)| m.transpose() * c);
        self.at.iter().copied().zip(forces)
    }
}

/// The most steps to where a field leads to a given point, and how near it has to be, voxels.
const STEPS: usize = 30;
const NEAR: f64 = 1e-4;

/// The points `m` with `m + u(m)` at the given ones, voxels, for the displacement `u` of `field`: by Newton's method
/// with the derivative of the interpolation, with half the step where that leads further away.
///
/// # Errors
/// As of [`sample`].
pub(super) fn origins<D: Device>(
    device: &D,
    field: &D::Buffer<f32>,
    dims: Dims,
    to: &[Vector3<f64>],
) -> Result<Vec<Vector3<f64>>> {
    let mut best = to.to_vec();
    let mut at = best.clone();
    let mut rest = vec![f64::INFINITY; to.len()];
    let mut steps = vec![Vector3::zeros(); to.len()];
    for _ in 0..STEPS {
        let samples = sample(device, field, dims, &at)?;
        let mut near = true;
        for (i, s) in samples.iter().enumerate() {
            let off = at[i] + s.value - to[i];
            if off.norm() < rest[i] {
                (rest[i], best[i]) = (off.norm(), at[i]);
                let inverse = (Matrix3::identity() + s.derivative).try_inverse();
                steps[i] = -inverse.map_or(off, |m| m * off);
            } else {
                steps[i] *= 0.5;
            }
            at[i] = best[i] + steps[i];
            near &= rest[i] <= NEAR;
        }
        if near {
            break;
        }
    }
    Ok(best)
}

/// Forces at points, on their way to the voxels around them.
#[derive(Debug)]
pub(super) struct Splat {
    dims: Dims,
    /// Spacing along each axis in units of the smallest.
    spacing: [f64; 3],
    /// Elements of the force with what is added to them.
    parts: Vec<(usize, f64)>,
}

impl Splat {
    /// Nothing yet; the `spacing` is in units of the smallest.
    pub(super) fn new(dims: Dims, spacing: [f64; 3]) -> Self {
        Self { dims, spacing, parts: Vec::new() }
    }

    /// Adds forces at points, both in voxels, times a factor; along an axis of one voxel there is none.
    pub(super) fn add(
        &mut self,
        forces: impl Iterator<Item = (Vector3<f64>, Vector3<f64>)>,
        factor: f64,
    ) {
        let (dims, [nx, ny, nz]) = (self.dims, self.dims);
        for (at, force) in forces {
            for (index, weight, _) in Cell::new(at, dims).corners() {
                let voxel = (index[2] * ny + index[1]) * nx + index[0];
                for a in (0..3).filter(|&a| dims[a] > 1) {
                    let part = factor * weight * force[a] / self.spacing[a];
                    self.parts.push((a * nx * ny * nz + voxel, part));
                }
            }
        }
    }

    /// Adds them to a force. It passes through the host: on the CPU without a copy.
    ///
    /// # Errors
    /// What fails on the device.
    pub(super) fn onto<D: Device>(mut self, device: &D, force: &mut D::Buffer<f32>) -> Result<()> {
        if self.parts.is_empty() {
            return Ok(());
        }
        // In the order in which they were added at each voxel, as sorting is stable.
        self.parts.sort_by_key(|part| part.0);
        let mut values = device.into_host(std::mem::replace(force, device.alloc(0)?))?;
        for group in self.parts.chunk_by(|a, b| a.0 == b.0) {
            let sum: f64 = group.iter().map(|part| part.1).sum();
            let place = group.first().and_then(|part| values.get_mut(part.0));
            if let Some(value) = place {
                *value = (f64::from(*value) + sum) as f32;
            }
        }
        *force = device.upload_vec(values)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_compute::Memory;
    use voxalign_compute::cpu::Cpu;

    const DIMS: Dims = [9, 7, 5];

    fn field(dims: Dims) -> Vec<f32> {
        let n: usize = dims.iter().product();
        (0..3 * n).map(|i| (i as f32 * 0.61).sin() * 0.3).collect()
    }

    fn points(count: usize, dims: Dims) -> Vec<Vector3<f64>> {
        // Some of them are beyond the grid, and some at voxels.
        let at = |i: usize, a: usize| {
            let part = 0.5 + 0.6 * ((i * 3 + a) as f64 * 1.7).sin();
            let at = part * (dims[a] as f64 - 1.0);
            if i.is_multiple_of(5) { at.round() } else { at }
        };
        (0..count).map(|i| Vector3::new(at(i, 0), at(i, 1), at(i, 2))).collect()
    }

    #[test]
    fn samples_are_those_of_the_interpolation() {
        let device = Cpu::new(Some(2)).unwrap();
        for dims in [DIMS, [12, 9, 1], [1, 8, 4]] {
            let n: usize = dims.iter().product();
            let field = field(dims);
            let on_device = device.upload(&field).unwrap();
            // More than a row of the list.
            for p in points(40, dims) {
                let found = sample(&device, &on_device, dims, &[p]).unwrap()[0];
                let at = |p: Vector3<f64>, c: usize| {
                    let (mut sum, last) = (0.0, dims.map(|n| n as f64 - 1.0));
                    for i in 0..n {
                        let index = [i % dims[0], i / dims[0] % dims[1], i / dims[0] / dims[1]];
                        let near = |a: usize| {
                            (1.0 - (p[a].clamp(0.0, last[a]) - index[a] as f64).abs()).max(0.0)
                        };
                        sum += near(0) * near(1) * near(2) * f64::from(field[c * n + i]);
                    }
                    sum
                };
                let off = p + Vector3::new(0.011, 0.013, 0.007);
                let there = sample(&device, &on_device, dims, &[off]).unwrap()[0];
                for c in 0..3 {
                    assert!((found.value[c] - at(p, c)).abs() < 1e-9);
                    for a in 0..3 {
                        let (mut up, h) = (off, 1e-4);
                        up[a] += h;
                        let slope = (at(up, c) - at(off, c)) / h;
                        assert!((there.derivative[(c, a)] - slope).abs() < 1e-6, "{off}");
                    }
                }
            }
            let all = sample(&device, &on_device, dims, &points(40, dims)).unwrap();
            for (all, p) in all.iter().zip(points(40, dims)) {
                let one = sample(&device, &on_device, dims, &[p]).unwrap()[0];
                assert!(all.value == one.value && all.derivative == one.derivative);
            }
        }
    }

    #[test]
    fn forces_are_the_adjoint_of_samples() {
        let device = Cpu::new(Some(2)).unwrap();
        let spacing = [1.0, 1.5, 2.0];
        for dims in [DIMS, [12, 9, 1]] {
            let field = field(dims);
            let (n, points) = (field.len() / 3, points(30, dims));
            let forces: Vec<_> = points.iter().map(|p| Vector3::new(p[1], 1.0, -p[0])).collect();
            let samples = sample(&device, &device.upload(&field).unwrap(), dims, &points).unwrap();
            let flat = |a: usize| dims[a] == 1;
            let of_points: f64 = samples
                .iter()
                .zip(&forces)
                .flat_map(|(s, f)| (0..3).filter(|&a| !flat(a)).map(|a| s.value[a] * f[a]))
                .sum();
            let mut splat = Splat::new(dims, spacing);
            splat.add(points.into_iter().zip(forces), 1.0);
            let mut force = device.upload(&vec![2f32; 3 * n]).unwrap();
            splat.onto(&device, &mut force).unwrap();
            let force = device.into_host(force).unwrap();
            let of_voxels: f64 = (0..3 * n)
                .map(|i| (f64::from(force[i]) - 2.0) * spacing[i / n] * f64::from(field[i]))
                .sum();
            assert!((of_points - of_voxels).abs() < 1e-4 * of_points.abs(), "{of_points}");
        }
    }

    #[test]
    fn origins_lead_to_their_points() {
        let device = Cpu::new(Some(2)).unwrap();
        let field = device.upload(&field(DIMS)).unwrap();
        let to = points(30, DIMS);
        let from = origins(&device, &field, DIMS, &to).unwrap();
        let samples = sample(&device, &field, DIMS, &from).unwrap();
        for ((from, s), to) in from.iter().zip(samples).zip(to) {
            assert!((from + s.value - to).norm() <= NEAR);
        }
    }
}
