//! Rays through volumes on the CPU.

mod count;
mod march;
mod walk;

use super::simd::{LANES, Lanes};
use super::{Cpu, CpuBuffer};
use crate::Dims;
use crate::device::{DeviceBuffer, Memory};
use crate::error::{ComputeError, Result};
use crate::host::zeroed;
use crate::ops::Raycast;
use crate::ops::raycast::{
    Along, BRICK, Pixels, RayFrame, RayView, Traversable, Traversal, ViewDerivatives,
    adjoint_units, bricks, check_backproject, check_derivatives, check_pick, check_project,
    check_ray_volume, check_weights, leaps, occupied_by,
};
use std::sync::atomic::{AtomicI64, Ordering};
use voxalign_image::memory;

/// The rays of a task, whole packets.
const TASK: usize = 16 * LANES;
/// The rays of a sum.
const SUMMED: usize = 256 * LANES;

/// A volume for rays in the memory of the host.
#[derive(Debug)]
pub struct CpuRayVolume {
    dims: Dims,
    /// With a border of zeros, a voxel wide.
    values: CpuBuffer<f32>,
    /// How far rays may skip, for each brick.
    leaps: CpuBuffer<f32>,
    bricks: Dims,
}

impl CpuRayVolume {
    fn padded(&self) -> Dims {
        self.dims.map(|n| n + 2)
    }

    fn value(&self, index: usize) -> f32 {
        let [nx, ny, _] = self.dims;
        let [x, y, z] = [index % nx, index / nx % ny, index / nx / ny];
        let [sx, sy, _] = self.padded();
        self.values.as_slice()[x + 1 + sx * (y + 1 + sy * (z + 1))]
    }
}

impl Traversable for CpuRayVolume {
    fn dims(&self) -> Dims {
        self.dims
    }
}

/// The integral of a ray, or the largest sample.
struct Gather<'a> {
    volume: &'a CpuRayVolume,
    along: Along,
    found: f32,
}

impl walk::Visitor for Gather<'_> {
    fn sample(&mut self, voxels: &[(usize, f32)], length: f32) {
        let value: f32 = voxels.iter().map(|&(i, weight)| weight * self.volume.value(i)).sum();
        match self.along {
            Along::Integral => self.found += value * length,
            Along::Maximum => self.found = self.found.max(value),
        }
    }
}

/// The contribution of a ray to voxels, in units.
struct Spread<'a> {
    sums: &'a [AtomicI64],
    /// The weight of the ray in units.
    weight: f64,
}

impl walk::Visitor for Spread<'_> {
    fn sample(&mut self, voxels: &[(usize, f32)], length: f32) {
        for &(i, weight) in voxels {
            let units = self.weight * f64::from(weight) * f64::from(length);
            self.sums[i].fetch_add(units.round_ties_even() as i64, Ordering::Relaxed);
        }
    }
}

/// The columns and rows of the rays of a task, in packets; those beyond its end are those of its last.
fn packets(pixels: &Pixels, first: usize, count: usize) -> (Vec<Lanes>, Vec<Lanes>) {
    let mut columns = vec![[0.0; LANES]; count.div_ceil(LANES)];
    let mut rows = columns.clone();
    for i in 0..columns.len() * LANES {
        let [u, v] = pixels.at(first + i.min(count - 1));
        columns[i / LANES][i % LANES] = u as f32;
        rows[i / LANES][i % LANES] = v as f32;
    }
    (columns, rows)
}

/// Numbers in packets, with zeros at the end.
fn in_packets(from: &[f32]) -> Vec<Lanes> {
    let packet = |from: &[f32]| {
        let mut lanes = [0.0; LANES];
        lanes[..from.len()].copy_from_slice(from);
        lanes
    };
    from.chunks(LANES).map(packet).collect()
}

impl Cpu {
    /// The images of one view at a time, cut into tasks.
    fn each_view(
        &self,
        out: &mut [f32],
        pixels: &Pixels,
        one: impl Fn(usize, usize, &mut [f32]) + Send + Sync,
    ) {
        for (view, out) in out.chunks_mut(pixels.len()).enumerate() {
            self.chunks_mut(out, TASK, |task, out| one(view, task * TASK, out));
        }
    }

    fn marched<const KIND: usize>(
        &self,
        volume: &CpuRayVolume,
        frames: &[RayFrame],
        pixels: &Pixels,
        out: &mut [f32],
    ) {
        self.each_view(out, pixels, |view, first, out| {
            let (columns, rows) = packets(pixels, first, out.len());
            let mut found = [[0.0; LANES]; 7];
            for ((out, columns), rows) in out.chunks_mut(LANES).zip(&columns).zip(&rows) {
                let frame = &frames[view];
                march::march::<KIND>(self.simd(), volume, frame, columns, rows, &mut found);
                out.copy_from_slice(&found[0][..out.len()]);
            }
        });
    }
}

impl Raycast for Cpu {
    type RayVolume = CpuRayVolume;

    fn ray_volume(&self, values: &CpuBuffer<f32>, dims: Dims) -> Result<CpuRayVolume> {
        check_ray_volume(values.len(), dims)?;
        let [nx, ny, nz] = dims;
        let [sx, sy, _] = dims.map(|n| n + 2);
        let mut padded = self.alloc::<f32>(dims.iter().map(|n| n + 2).product())?;
        let from = values.as_slice();
        self.chunks_mut(padded.as_mut_slice(), sx * sy, |slice, out| {
            let Some(z) = slice.checked_sub(1).filter(|&z| z < nz) else { return };
            for y in 0..ny {
                let row = &from[(z * ny + y) * nx..][..nx];
                out[(y + 1) * sx + 1..][..nx].copy_from_slice(row);
            }
        });
        let bricks = bricks(dims);
        let [bx, by, _] = bricks;
        let mut occupied = zeroed::<u32>(bricks.iter().product())?;
        // A layer of bricks by the voxels whose cells it has.
        self.chunks_mut(&mut occupied, bx * by, |layer, occupied| {
            for z in (layer * BRICK).saturating_sub(1)..nz.min((layer + 1) * BRICK) {
                for y in 0..ny {
                    for (x, value) in from[(z * ny + y) * nx..][..nx].iter().enumerate() {
                        if *value != 0.0 {
                            for b in occupied_by(y) {
                                for a in occupied_by(x) {
                                    occupied[a + bx * b] = 1;
                                }
                            }
                        }
                    }
                }
            }
        });
        let leaps = self.upload_vec(leaps(&occupied, bricks)?)?;
        Ok(CpuRayVolume { dims, values: padded, leaps, bricks })
    }

    fn project(
        &self,
        volume: &CpuRayVolume,
        views: &[RayView],
        pixels: &Pixels,
        traversal: Traversal,
        along: Along,
        out: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        let frames = check_project(volume.dims, views, pixels, traversal, out.len())?;
        let out = out.as_mut_slice();
        match (traversal, along) {
            (Traversal::Trilinear { .. }, Along::Integral) => {
                self.marched::<{ march::INTEGRAL }>(volume, &frames, pixels, out);
            }
            (Traversal::Trilinear { .. }, Along::Maximum) => {
                self.marched::<{ march::MAXIMUM }>(volume, &frames, pixels, out);
            }
            _ => self.each_view(out, pixels, |view, first, out| {
                for (i, out) in out.iter_mut().enumerate() {
                    let at = pixels.at(first + i).map(|x| x as f32);
                    let mut all = Gather { volume, along, found: 0.0 };
                    walk::walk(&frames[view], volume.dims, traversal, at, &mut all);
                    *out = all.found;
                }
            }),
        }
        Ok(())
    }

    fn project_with_derivatives(
        &self,
        volume: &CpuRayVolume,
        views: &[RayView],
        pixels: &Pixels,
        step: f64,
        out: &mut CpuBuffer<f32>,
        derivatives: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        let traversal = Traversal::trilinear(step);
        let frames = check_project(volume.dims, views, pixels, traversal, out.len())?;
        check_derivatives(views.len(), pixels, derivatives.len())?;
        let n = pixels.len();
        let derivatives = derivatives.as_mut_slice().chunks_mut(6 * n);
        let all = out.as_mut_slice().chunks_mut(n).zip(derivatives).zip(&frames);
        for ((out, derivatives), frame) in all {
            let mut planes = std::iter::once(out).chain(derivatives.chunks_mut(n));
            let planes: [&mut [f32]; 7] =
                std::array::from_fn(|_| planes.next().unwrap_or_default());
            self.chunks_mut_of(planes, TASK, |task, mut planes| {
                let (columns, rows) = packets(pixels, task * TASK, planes[0].len());
                let mut found = [[0.0; LANES]; 7];
                for (packet, (columns, rows)) in columns.iter().zip(&rows).enumerate() {
                    let simd = self.simd();
                    march::march::<{ march::DERIVATIVES }>(
                        simd, volume, frame, columns, rows, &mut found,
                    );
                    for (plane, found) in planes.iter_mut().zip(&found) {
                        let out = &mut plane[packet * LANES..];
                        let count = LANES.min(out.len());
                        out[..count].copy_from_slice(&found[..count]);
                    }
                }
            });
        }
        Ok(())
    }

    fn view_derivatives(
        &self,
        views: usize,
        pixels: &Pixels,
        weights: &CpuBuffer<f32>,
        derivatives: &CpuBuffer<f32>,
    ) -> Result<Vec<ViewDerivatives>> {
        check_weights(weights.len(), views, pixels)?;
        check_derivatives(views, pixels, derivatives.len())?;
        let (n, weights, derivatives) = (pixels.len(), weights.as_slice(), derivatives.as_slice());
        let parts = n.div_ceil(SUMMED);
        let of_part = |task: usize| {
            let (view, first) = (task / parts, task % parts * SUMMED);
            let count = SUMMED.min(n - first);
            let (columns, rows) = packets(pixels, first, count);
            let weights = in_packets(&weights[view * n + first..][..count]);
            let mut sums: ViewDerivatives = [[0.0; 3]; 6];
            for (plane, sums) in sums.iter_mut().enumerate() {
                let derivatives =
                    in_packets(&derivatives[(view * 6 + plane) * n + first..][..count]);
                *sums = march::products(self.simd(), &weights, &derivatives, &columns, &rows);
            }
            sums
        };
        let mut found = memory::filled::<ViewDerivatives>(views * parts, [[0.0; 3]; 6])?;
        self.chunks_mut(&mut found, 1, |task, found| found.fill(of_part(task)));
        let together = |parts: &[ViewDerivatives]| {
            let mut all: ViewDerivatives = [[0.0; 3]; 6];
            for part in parts {
                for (all, part) in all.iter_mut().flatten().zip(part.iter().flatten()) {
                    *all += part;
                }
            }
            all
        };
        Ok(memory::collected(found.chunks(parts).map(together))?)
    }

    fn backproject(
        &self,
        weights: &CpuBuffer<f32>,
        views: &[RayView],
        pixels: &Pixels,
        traversal: Traversal,
        dims: Dims,
        out: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        let frames = check_backproject(dims, views, pixels, traversal, (weights.len(), out.len()))?;
        let weights = weights.as_slice();
        if weights.iter().any(|w| !w.is_finite()) {
            return Err(ComputeError::argument("weights", "not finite", "finite numbers"));
        }
        let most = weights.iter().fold(0.0f32, |most, w| most.max(w.abs()));
        let units = adjoint_units(most, &frames, pixels);
        let sums = memory::collected((0..out.len()).map(|_| AtomicI64::new(0)))?;
        let n = pixels.len();
        self.tasks(weights.len().div_ceil(TASK), |task| {
            for (i, weight) in weights.iter().enumerate().skip(task * TASK).take(TASK) {
                let at = pixels.at(i % n).map(|x| x as f32);
                let mut spread = Spread { sums: &sums, weight: f64::from(*weight) * units };
                walk::walk(&frames[i / n], dims, traversal, at, &mut spread);
            }
        });
        self.chunks_mut(out.as_mut_slice(), SUMMED, |task, out| {
            for (out, sum) in out.iter_mut().zip(&sums[task * SUMMED..]) {
                *out = (sum.load(Ordering::Relaxed) as f64 / units) as f32;
            }
        });
        Ok(())
    }

    fn pick(
        &self,
        image: &CpuBuffer<f32>,
        size: [usize; 2],
        pixels: &Pixels,
        out: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        check_pick(image.len(), size, pixels, out.len())?;
        let image = image.as_slice();
        self.chunks_mut(out.as_mut_slice(), SUMMED, |task, out| {
            for (i, out) in out.iter_mut().enumerate() {
                let [u, v] = pixels.at(task * SUMMED + i);
                *out = image[v * size[0] + u];
            }
        });
        Ok(())
    }
}
