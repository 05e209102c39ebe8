//! A CT prepared for searches: on a device, at all their scales.

use crate::error::{RegisterError, Result, Role};
use crate::projection::scale::binned_volume;
use crate::projection::simulator::Simulator;
use rayon::prelude::*;
use voxalign_compute::Device;
use voxalign_image::{Matrix3, Vector3, Volume};

/// The largest attenuation, 1/mm: hundreds of times that of gold for the photons of any X-ray tube.
const MOST: f32 = 1e4;

/// Voxels from which the axes of inertia are computed.
const SAMPLES: f64 = 1e5;

/// A CT on a device, at the scales of searches: what is made once, for any number of poses.
pub struct PreparedCt<'a, D: Device> {
    pub(super) device: &'a D,
    pub(super) ct: &'a Volume<f32>,
    /// The centre of attenuation, in the world of the CT.
    pub(super) middle: Vector3<f64>,
    /// Its radius: the root mean square distance from there, mm.
    pub(super) radius: f64,
    scales: Vec<([usize; 3], Simulator<'a, D>)>,
}

impl<'a, D: Device> PreparedCt<'a, D> {
    /// Of attenuations, 1/mm; outside of the volume is 0. The volume is put on the device when a scale is first asked for.
    ///
    /// # Errors
    /// Values that are no numbers, or that no material has; nothing that attenuates.
    pub fn new(device: &'a D, ct: &'a Volume<f32>) -> Result<Self> {
        let odd = ct.data().par_iter().filter(|v| !v.is_finite()).count();
        if odd > 0 {
            return Err(RegisterError::NotFinite { role: Role::Ct, count: odd });
        }
        let most = ct.data().par_iter().copied().reduce(|| 0.0, f32::max);
        if most > MOST {
            return Err(RegisterError::option(
                "attenuation of the CT",
                format!("{most} / mm"),
                "give linear attenuation coefficients in 1/mm: water has 0.02",
            ));
        }
        let (middle, radius) =
            middle(ct).ok_or(RegisterError::Constant { role: Role::Ct, value: 0.0, within: "" })?;
        Ok(Self { device, ct, middle, radius, scales: Vec::new() })
    }

    /// The centre of attenuation, in the world of the CT.
    #[must_use]
    pub fn middle(&self) -> Vector3<f64> {
        self.middle
    }

    /// The axes of inertia, in the world of the CT, as columns.
    pub(super) fn axes(&self) -> Matrix3<f64> {
        let grid = self.ct.grid();
        let [nx, ny, nz] = grid.dims();
        let step = ((nx * ny * nz) as f64 / SAMPLES).cbrt().ceil().max(1.0) as usize;
        let mut tensor = Matrix3::zeros();
        for z in (0..nz).step_by(step) {
            for y in (0..ny).step_by(step) {
                for x in (0..nx).step_by(step) {
                    let mass = f64::from(self.ct.data()[(z * ny + y) * nx + x].max(0.0));
                    if mass > 0.0 {
                        let at = Vector3::new(x as f64, y as f64, z as f64);
                        let from = grid.index_to_world(at) - self.middle;
                        tensor += from * from.transpose() * mass;
                    }
                }
            }
        }
        tensor.symmetric_eigen().eigenvectors
    }

    /// The number of voxels that are averaged for pixels of this size at the place of the CT, mm.
    fn factors(&self, size: f64) -> [usize; 3] {
        self.ct.grid().spacing().map(|s| ((size / s + 0.2).floor() as usize).max(1))
    }

    /// Makes the volumes of scales that do not exist yet.
    ///
    /// # Errors
    /// Too little memory.
    pub fn prepare(&mut self, sizes: &[f64]) -> Result<()> {
        for &size in sizes {
            let factors = self.factors(size);
            if self.scales.iter().any(|(f, _)| *f == factors) {
                continue;
            }
            let simulator = match factors {
                [1, 1, 1] => Simulator::new(self.device, self.ct)?,
                factors => Simulator::new(self.device, &binned_volume(self.ct, factors)?)?,
            };
            self.scales.push((factors, simulator));
        }
        Ok(())
    }

    /// The volume of a scale that was prepared.
    pub(super) fn at(&self, size: f64) -> Result<&Simulator<'a, D>> {
        let factors = self.factors(size);
        let found = self.scales.iter().find(|(f, _)| *f == factors);
        found.map(|(_, simulator)| simulator).ok_or_else(|| super::nothing("levels"))
    }
}

/// The centre of attenuation, in the world, and the root mean square distance from there; none where nothing
/// attenuates.
fn middle(ct: &Volume<f32>) -> Option<(Vector3<f64>, f64)> {
    let grid = ct.grid();
    let [nx, ny, _] = grid.dims();
    let slice = |(z, slice): (usize, &[f32])| {
        let (mut mass, mut sum, mut squares) = (0.0, Vector3::zeros(), Vector3::zeros());
        for (y, row) in slice.chunks(nx).enumerate() {
            let (mut m0, mut m1, mut m2) = (0.0, 0.0, 0.0);
            for (x, &value) in row.iter().enumerate() {
                let (m, x) = (f64::from(value.max(0.0)), x as f64);
                m0 += m;
                m1 += x * m;
                m2 += x * x * m;
            }
            let (y, z) = (y as f64, z as f64);
            mass += m0;
            sum += Vector3::new(m1, y * m0, z * m0);
            squares += Vector3::new(m2, y * y * m0, z * z * m0);
        }
        (mass, sum, squares)
    };
    // Summed up slice by slice, whatever thread had which.
    let slices: Vec<_> = ct.data().par_chunks(nx * ny).enumerate().map(slice).collect();
    let (mut mass, mut sum, mut squares) = (0.0, Vector3::zeros(), Vector3::zeros());
    for (m, s, q) in slices {
        mass += m;
        sum += s;
        squares += q;
    }
    if mass <= 0.0 {
        return None;
    }
    let mean = sum / mass;
    let spread = squares / mass - mean.component_mul(&mean);
    let spacing = Vector3::from(grid.spacing());
    let variance = spread.dot(&spacing.component_mul(&spacing)).max(1.0);
    Some((grid.index_to_world(mean), variance.sqrt()))
}
