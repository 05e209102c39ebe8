//! Measures of displacement fields: Jacobian determinants, inverse consistency, energies.

use crate::error::Result;
use serde::{Deserialize, Serialize};
use voxalign_compute::error::check_len;
use voxalign_compute::ops::elementwise::{constant, param, select, x};
use voxalign_compute::ops::reduce::Reduction;
use voxalign_compute::{Device, DeviceBuffer, IDENTITY};
use voxalign_image::Grid;

/// Inverse consistency of a field and its inverse: the lengths of `ψ(φ(x)) − x` and of `φ(ψ(x)) − x`, over the
/// voxels that count and that the first mapping leaves within the grid: beyond it the other one is not known.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Consistency {
    /// The mean over both orders, mm.
    pub mean: f64,
    /// The largest of both orders, mm.
    pub largest: f64,
    /// The mean of the field first and its inverse after, mm.
    pub forward_mean: f64,
    /// The mean of the inverse first and the field after, mm.
    pub backward_mean: f64,
}

/// Measures of a mapping within an object: the tissue that an image shows, without the background around it, which
/// dominates a mean over a whole grid.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct ObjectMeasures {
    /// Voxels of the object, of the grid of the field.
    pub voxels: u64,
    /// The smallest Jacobian determinant of these voxels.
    pub smallest_jacobian: f64,
    /// The largest Jacobian determinant of these voxels.
    pub largest_jacobian: f64,
    /// Those of them whose Jacobian determinant is not above 0 (nor a number).
    pub folded: u64,
    /// The mean of the natural logarithm of their Jacobian determinants above 0.
    pub log_jacobian_mean: f64,
    /// The standard deviation of these logarithms.
    pub log_jacobian_sd: f64,
    /// The inverse consistency of the ways that begin within the object, where the inverse is known.
    pub inverse_consistency: Option<Consistency>,
}

/// The measures of a displacement field `u`, of the mapping `φ(x) = x + u(x)`.
///
/// The energies and the Jacobian determinant are those of the finite differences of
/// [`Stencil`](voxalign_compute::ops::Stencil) over all voxels. Lengths take the axes of the grid as
/// orthogonal.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct FieldMeasures {
    /// Measures within the object, where one is known; all others are over the whole grid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectMeasures>,
    /// The smallest Jacobian determinant: the volume scaling where it shrinks most (as seen from the fixed image);
    /// not above 0 where the mapping folds.
    pub smallest_jacobian: f64,
    /// The largest Jacobian determinant.
    pub largest_jacobian: f64,
    /// Voxels of the grid of the field whose Jacobian determinant is not above 0 (nor a number): the mapping folds there.
    pub folded: u64,
    /// The mean of the natural logarithm of the Jacobian determinants above 0.
    pub log_jacobian_mean: f64,
    /// Their standard deviation.
    pub log_jacobian_sd: f64,
    /// The inverse consistency, where the inverse is known.
    pub inverse_consistency: Option<Consistency>,
    /// The mean over the voxels of `Σ_ab (∂u_a/∂x_b)²`, no unit.
    pub harmonic_energy: f64,
    /// The mean over the voxels of `Σ_abc (∂²u_a/∂x_b∂x_c)²`, 1/mm².
    pub bending_energy: f64,
    /// The largest displacement, mm.
    pub largest_displacement: f64,
    /// The mean displacement, mm.
    pub mean_displacement: f64,
}

/// One of the measures, for tables.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeasureRow {
    /// Its name, such as `smallest Jacobian determinant`.
    pub name: &'static str,
    /// Its value within the object, where it is known there.
    pub object: Option<f64>,
    /// Its value over the whole grid.
    pub grid: f64,
    /// Whether it is a number of voxels.
    pub counts: bool,
    /// Its unit; empty where it has none.
    pub unit: &'static str,
}

impl FieldMeasures {
    /// The measures of the displacements `field` (voxels of `grid`; all x, then all y, then all z), the
    /// inverse consistency with `inverse`, displacements on the same grid: over the whole grid, and over
    /// the voxels whose `object` is above 0, where one is given.
    ///
    /// Takes temporaries of the size of a field, two at a time.
    ///
    /// # Errors
    /// Buffers of other lengths than the grid asks for, memory that runs out.
    pub fn new<D: Device>(
        device: &D,
        grid: &Grid,
        field: &D::Buffer<f32>,
        inverse: Option<&D::Buffer<f32>>,
        object: Option<&D::Buffer<f32>>,
    ) -> Result<Self> {
        let n = grid.len();
        check_len("field", 3 * n, field.len())?;
        let mut found = Self::default();
        if let Some(object) = object {
            check_len("object", n, object.len())?;
            found.object = Some(ObjectMeasures::default());
        }
        found.add_jacobian(device, grid, field, object)?;
        if let Some(inverse) = inverse {
            check_len("inverse field", 3 * n, inverse.len())?;
            let [whole, within] = consistency(device, grid, field, inverse, object)?;
            found.inverse_consistency = whole;
            if let Some(object) = &mut found.object {
                object.inverse_consistency = within;
            }
        }
        let (spacing, count) = (grid.spacing(), n as f64);
        let mut numbers = device.alloc::<f64>(2)?;
        device.field_energies(field, grid.dims(), spacing, spacing, &mut numbers)?;
        let energies = device.download(&numbers)?;
        found.harmonic_energy = energies[0] / count;
        found.bending_energy = energies[1] / count;
        let [largest, sum] = norms(device, grid, field)?;
        found.largest_displacement = largest;
        found.mean_displacement = sum / count;
        Ok(found)
    }

    fn add_jacobian<D: Device>(
        &mut self,
        device: &D,
        grid: &Grid,
        field: &D::Buffer<f32>,
        object: Option<&D::Buffer<f32>>,
    ) -> Result<()> {
        let n = grid.len();
        let mut jacobian = device.alloc::<f32>(n)?;
        device.jacobian_determinant(field, grid.dims(), &mut jacobian)?;
        let (mut positive, mut log) = (device.alloc::<f32>(n)?, device.alloc::<f32>(n)?);
        device.eval(&x(0).gt(0.0), &[&jacobian], &[], None, &mut positive)?;
        let log_or_zero = select(x(0).gt(0.0), x(0).log(), constant(0.0));
        device.eval(&log_or_zero, &[&jacobian], &[], None, &mut log)?;
        let what = [
            Reduction::Min(0),
            Reduction::Max(0),
            Reduction::Sum(1),
            Reduction::Sum(2),
            Reduction::SumSquares(2),
        ];
        let sums = device.reduce(&[&jacobian, &positive, &log], &what)?;
        let whole = Volumes::new(&sums, n as u64);
        self.smallest_jacobian = whole.smallest;
        self.largest_jacobian = whole.largest;
        self.folded = whole.folded;
        self.log_jacobian_mean = whole.log_mean;
        self.log_jacobian_sd = whole.log_sd;
        if let (Some(object), Some(found)) = (object, &mut self.object) {
            // What is not a number takes no part in the ends, and zero none in the sums.
            let within = select(x(1).gt(0.0), x(0), param(0));
            for (buffer, outside) in
                [(&mut jacobian, f32::NAN), (&mut positive, 0.0), (&mut log, 0.0)]
            {
                device.eval_in_place(&within, buffer, &[object], &[outside], None)?;
            }
            let sums = device.reduce(&[&jacobian, &positive, &log], &what)?;
            device.eval(&x(0).gt(0.0), &[object], &[], None, &mut positive)?;
            found.voxels = device.reduce(&[&positive], &[Reduction::Sum(0)])?[0] as u64;
            let within = Volumes::new(&sums, found.voxels);
            found.smallest_jacobian = within.smallest;
            found.largest_jacobian = within.largest;
            found.folded = within.folded;
            found.log_jacobian_mean = within.log_mean;
            found.log_jacobian_sd = within.log_sd;
        }
        Ok(())
    }

    /// The mean inverse-consistency error, mm: within the object, where one is known, else over the whole
    /// grid.
    #[must_use]
    pub fn mean_inverse_error(&self) -> Option<f64> {
        let of = |c: Option<Consistency>| c.map(|c| c.mean);
        match &self.object {
            Some(object) => of(object.inverse_consistency),
            None => of(self.inverse_consistency),
        }
    }

    /// The harmonic energy over a grid of this many voxels, per voxel of the object: there is little in the
    /// background. `None` where no object is known or it has no voxel.
    #[must_use]
    pub fn harmonic_energy_of_object(&self, grid_voxels: usize) -> Option<f64> {
        let voxels = self.object.map(|o| o.voxels).filter(|&n| n > 0)?;
        Some(self.harmonic_energy * grid_voxels as f64 / voxels as f64)
    }

    /// All measures as rows of a table.
    #[must_use]
    pub fn rows(&self) -> Vec<MeasureRow> {
        let object = self.object.as_ref();
        let row = |name, of_object: Option<f64>, grid, unit| MeasureRow {
            name,
            object: of_object,
            grid,
            counts: false,
            unit,
        };
        let mut rows = vec![
            row(
                "smallest Jacobian determinant",
                object.map(|o| o.smallest_jacobian),
                self.smallest_jacobian,
                "",
            ),
            row(
                "largest Jacobian determinant",
                object.map(|o| o.largest_jacobian),
                self.largest_jacobian,
                "",
            ),
            MeasureRow {
                counts: true,
                ..row("folded voxels", object.map(|o| o.folded as f64), self.folded as f64, "")
            },
            row(
                "mean of the log Jacobian",
                object.map(|o| o.log_jacobian_mean),
                self.log_jacobian_mean,
                "",
            ),
            row(
                "standard deviation of the log Jacobian",
                object.map(|o| o.log_jacobian_sd),
                self.log_jacobian_sd,
                "",
            ),
        ];
        if let Some(c) = &self.inverse_consistency {
            let within = object.and_then(|o| o.inverse_consistency.as_ref());
            rows.extend([
                row("inverse consistency, mean", within.map(|c| c.mean), c.mean, "mm"),
                row("inverse consistency, largest", within.map(|c| c.largest), c.largest, "mm"),
            ]);
        }
        rows.extend([
            row("harmonic energy", None, self.harmonic_energy, ""),
            row("bending energy", None, self.bending_energy, "1/mm\u{b2}"),
            row("largest displacement", None, self.largest_displacement, "mm"),
            row("mean displacement", None, self.mean_displacement, "mm"),
        ]);
        rows
    }
}

/// Changes of volume over some voxels.
struct Volumes {
    smallest: f64,
    largest: f64,
    folded: u64,
    log_mean: f64,
    log_sd: f64,
}

impl Volumes {
    /// From the smallest and largest determinant, the number of those above 0, and the sums of their logarithms and
    /// of the squares of these, over this many voxels.
    fn new(sums: &[f64], voxels: u64) -> Self {
        let (count, mean) = (sums[2], sums[3] / sums[2].max(1.0));
        Self {
            smallest: sums[0],
            largest: sums[1],
            folded: voxels - count as u64,
            log_mean: mean,
            log_sd: (sums[4] / count.max(1.0) - mean * mean).max(0.0).sqrt(),
        }
    }
}

/// The largest length and the sum of the lengths of displacements in voxels, mm.
fn norms<D: Device>(device: &D, grid: &Grid, field: &D::Buffer<f32>) -> Result<[f64; 2]> {
    let mut numbers = device.alloc::<f64>(3)?;
    device.field_norms(field, grid.spacing(), &mut numbers)?;
    let found = device.download(&numbers)?;
    Ok([found[0], found[1]])
}

/// Voxels beyond the border that are still on it: rounding.
const BORDER: f32 = 1e-3;

/// For each voxel 1 where its displacement leaves it within the grid, else 0.
///
/// # Errors
/// Wrong lengths, memory that runs out.
pub(super) fn stays_inside<D: Device>(
    device: &D,
    field: &D::Buffer<f32>,
    dims: [usize; 3],
) -> Result<D::Buffer<f32>> {
    let mut inside = device.alloc::<f32>(dims.iter().product())?;
    device.field_overshoot(field, dims, &mut inside)?;
    // What is not a number is no reason not to count.
    let within = constant(1.0) - x(0).gt(BORDER);
    device.eval_in_place(&within, &mut inside, &[], &[], None)?;
    Ok(inside)
}

/// Over the whole grid, and over the voxels whose `object` is above 0.
fn consistency<D: Device>(
    device: &D,
    grid: &Grid,
    field: &D::Buffer<f32>,
    inverse: &D::Buffer<f32>,
    object: Option<&D::Buffer<f32>>,
) -> Result<[Option<Consistency>; 2]> {
    let (dims, n) = (grid.dims(), grid.len());
    let mut rest = device.alloc::<f32>(3 * n)?;
    let mut lengths = device.alloc::<f32>(n)?;
    // Largest and mean, over the grid and within the object.
    let mut order = |outer, inner| -> Result<[[f64; 2]; 2]> {
        device.compose_fields(outer, dims, &IDENTITY, inner, dims, &mut rest)?;
        device.field_lengths(&rest, grid.spacing(), &mut lengths)?;
        let mut counts = stays_inside(device, inner, dims)?;
        // Not a product, for what is outside need not be a number.
        let counted = select(x(1).gt(0.0), x(0), constant(0.0));
        let mut found = [[0.0; 2]; 2];
        for (found, part) in found.iter_mut().zip([None, object]) {
            if let Some(object) = part {
                let within = x(0) * x(1).gt(0.0);
                device.eval_in_place(&within, &mut counts, &[object], &[], None)?;
            }
            device.eval_in_place(&counted, &mut lengths, &[&counts], &[], None)?;
            let what = [Reduction::Max(0), Reduction::Sum(0), Reduction::Sum(1)];
            let sums = device.reduce(&[&lengths, &counts], &what)?;
            *found = [sums[0], sums[1] / sums[2].max(1.0)];
            if object.is_none() {
                break;
            }
        }
        Ok(found)
    };
    let forward = order(inverse, field)?;
    let backward = order(field, inverse)?;
    let of = |part: usize| Consistency {
        mean: (forward[part][1] + backward[part][1]) / 2.0,
        largest: forward[part][0].max(backward[part][0]),
        forward_mean: forward[part][1],
        backward_mean: backward[part][1],
    };
    Ok([Some(of(0)), object.map(|_| of(1))])
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_compute::Memory;
    use voxalign_compute::cpu::Cpu;

    /// Displacements in voxels as a function of the index.
    fn field(dims: [usize; 3], f: impl Fn([f64; 3]) -> [f64; 3]) -> Vec<f32> {
        let n: usize = dims.iter().product();
        let mut out = vec![0f32; 3 * n];
        for i in 0..n {
            let (x, y, z) = (i % dims[0], i / dims[0] % dims[1], i / (dims[0] * dims[1]));
            let v = f([x as f64, y as f64, z as f64]);
            (0..3).for_each(|c| out[c * n + i] = v[c] as f32);
        }
        out
    }

    fn measure(
        grid: &Grid,
        field: &[f32],
        inverse: Option<&[f32]>,
        object: Option<&[f32]>,
    ) -> FieldMeasures {
        let device = Cpu::new(Some(2)).unwrap();
        let up = |v: &[f32]| device.upload(v).unwrap();
        let (inverse, object) = (inverse.map(up), object.map(up));
        let field = up(field);
        FieldMeasures::new(&device, grid, &field, inverse.as_ref(), object.as_ref()).unwrap()
    }

    fn close(found: f64, wanted: f64) {
        assert!((found - wanted).abs() <= 1e-5 * wanted.abs().max(1e-2), "{found} {wanted}");
    }

    #[test]
    fn a_scaling_has_the_measures_that_it_must_have() {
        let dims = [12, 9, 7];
        let spacing = [1.0, 2.0, 0.5];
        let grid = Grid::axis_aligned(dims, spacing).unwrap();
        // Growth by 1.2, 0.9 and 1.1 about the first voxel.
        let found =
            measure(&grid, &field(dims, |p| [0.2 * p[0], -0.1 * p[1], 0.1 * p[2]]), None, None);
        let factor = 1.2 * 0.9 * 1.1f64;
        close(found.smallest_jacobian, factor);
        close(found.largest_jacobian, factor);
        close(found.log_jacobian_mean, factor.ln());
        assert!(found.log_jacobian_sd < 1e-3 && found.folded == 0);
        close(found.harmonic_energy, 0.04 + 0.01 + 0.01);
        assert!(found.bending_energy >= 0.0);
        let far = [0.2 * 11.0, 0.1 * 8.0 * 2.0, 0.1 * 6.0 * 0.5f64];
        close(found.largest_displacement, far.iter().map(|v| v * v).sum::<f64>().sqrt());
        assert_eq!(found.inverse_consistency, None);
        assert_eq!(found.rows().len(), 9);
    }

    #[test]
    fn folds_are_counted() {
        let dims = [10, 10, 4];
        let grid = Grid::axis_aligned(dims, [1.0; 3]).unwrap();
        // Turned over in x where x is 5 or more: differences of 3 and more fold there.
        let flip = |p: [f64; 3]| if p[0] >= 5.0 { -1.5 * (p[0] - 5.0) } else { 0.0 };
        let found = measure(&grid, &field(dims, |p| [flip(p), 0.0, 0.0]), None, None);
        // Central differences: -0.5 from x = 6 on, 1 - 0.75 at x = 5.
        assert_eq!(found.folded, 4 * 10 * 4);
        close(found.smallest_jacobian, -0.5);
        close(found.largest_jacobian, 1.0);
        close(found.log_jacobian_mean, 0.25f64.ln() / 6.0);
        let mut broken = field(dims, |_| [0.0; 3]);
        broken[0] = f32::NAN;
        assert!(measure(&grid, &broken, None, None).folded > 0);
    }

    #[test]
    fn the_inverse_of_a_shift_is_consistent_and_a_wrong_one_is_not() {
        let dims = [16, 14, 1];
        let grid = Grid::axis_aligned(dims, [2.0, 1.0, 3.0]).unwrap();
        let there = field(dims, |_| [1.5, -1.0, 0.0]);
        let back = field(dims, |_| [-1.5, 1.0, 0.0]);
        let found = measure(&grid, &there, Some(&back), None).inverse_consistency.unwrap();
        assert!(found.largest < 1e-6, "{found:?}");
        // One voxel short in x (2 mm) in the left half only.
        let n = 16 * 14;
        let wrong: Vec<f32> =
            (0..3 * n).map(|i| if i < n && i % 16 < 8 { -0.5 } else { back[i] }).collect();
        let all = measure(&grid, &there, Some(&wrong), None).inverse_consistency.unwrap();
        close(all.largest, 2.0);
        // Of 16 columns the first leaves the grid, and so counts as little as a row of y.
        close(all.backward_mean, 7.0 * 2.0 / 15.0);
        close(all.mean, (all.forward_mean + all.backward_mean) / 2.0);
        let right: Vec<f32> = (0..n).map(|i| f32::from(i % 16 >= 8)).collect();
        let both = measure(&grid, &there, Some(&wrong), Some(&right));
        let within = both.object.unwrap();
        assert!(within.inverse_consistency.unwrap().largest < 1e-6, "{within:?}");
        assert_eq!(within.voxels, 8 * 14);
        assert_eq!(both.inverse_consistency.unwrap(), all);
        assert_eq!(both.mean_inverse_error(), Some(within.inverse_consistency.unwrap().mean));
        let zero = measure(&grid, &vec![0.0; 3 * n], None, None);
        close(zero.smallest_jacobian, 1.0);
        assert_eq!((zero.folded, zero.largest_displacement), (0, 0.0));
    }

    /// An object in a large background that nothing happens to: means over the grid say little of it.
    #[test]
    fn an_object_is_measured_by_itself() {
        let dims = [24, 20, 10];
        let grid = Grid::axis_aligned(dims, [1.0, 1.0, 2.0]).unwrap();
        let inside = |p: [f64; 3]| p[0] >= 14.0;
        // Folded and shrunk in the right part, at rest in the left; the inverse knows of none of it.
        let there =
            field(dims, |p| [if p[0] >= 14.0 { -0.5 * (p[0] - 14.0) } else { 0.0 }, 0.0, 0.0]);
        let n: usize = dims.iter().product();
        let object: Vec<f32> =
            (0..n).map(|i| f32::from(u8::from(inside([(i % 24) as f64, 0.0, 0.0])))).collect();
        let found = measure(&grid, &there, Some(&vec![0.0; 3 * n]), Some(&object));
        let within = found.object.unwrap();
        assert_eq!(within.voxels, 10 * 20 * 10);
        // Central differences: 0.75 at the first column, 0.5 behind it.
        close(within.smallest_jacobian, 0.5);
        close(within.largest_jacobian, 0.75);
        close(found.largest_jacobian, 1.0);
        close(within.log_jacobian_mean, (0.75f64.ln() + 9.0 * 0.5f64.ln()) / 10.0);
        close(found.log_jacobian_mean, within.log_jacobian_mean * 10.0 / 24.0);
        assert_eq!((within.folded, found.folded), (0, 0));
        // 0 to 4.5 mm there, on the way forth and on the way back.
        let (own, all) = (within.inverse_consistency.unwrap(), found.inverse_consistency.unwrap());
        close(own.mean, 2.25);
        close(own.largest, 4.5);
        close(all.mean, 2.25 * 10.0 / 24.0);
        let each = found.harmonic_energy_of_object(grid.len()).unwrap();
        close(each, found.harmonic_energy * 24.0 / 10.0);
        // Nothing changes over the grid where an object is given.
        let plain = measure(&grid, &there, Some(&vec![0.0; 3 * n]), None);
        assert_eq!(plain, FieldMeasures { object: None, ..found });
        let rows = found.rows();
        let row = rows.iter().find(|r| r.name == "inverse consistency, mean").unwrap();
        assert_eq!((row.object, row.grid), (Some(own.mean), all.mean));
        assert!(rows.iter().any(|r| r.name == "folded voxels" && r.counts));
        // A fold outside of the object is none of it.
        let fold = field(dims, |p| [if p[0] <= 6.0 { -1.5 * (p[0] - 6.0) } else { 0.0 }, 0.0, 0.0]);
        let outside = measure(&grid, &fold, None, Some(&object));
        assert!(outside.folded > 0 && outside.object.unwrap().folded == 0, "{outside:?}");
    }

    #[test]
    fn wrong_lengths_are_errors() {
        let device = Cpu::new(Some(1)).unwrap();
        let grid = Grid::axis_aligned([4, 4, 4], [1.0; 3]).unwrap();
        let short = device.alloc::<f32>(64).unwrap();
        assert!(FieldMeasures::new(&device, &grid, &short, None, None).is_err());
    }
}
