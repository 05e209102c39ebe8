//! Similarities from joint histograms of two images on one grid, with hard bins or Parzen windows along the
//! rows.

use super::{CostAndDerivatives, Images};
use crate::error::Result;
use voxalign_compute::ops::elementwise::{Expr, param, x};
use voxalign_compute::ops::histogram::{Binning, ParzenBins};
use voxalign_compute::{Device, DeviceBuffer};

/// The range of calibrated intensities that joint histograms cover.
const RANGE: (f32, f32) = (-0.05, 1.05);

/// Added to a number of single precision and taken away again, it leaves the nearest whole number.
const WHOLE: f32 = 12_582_912.0;

/// Two images whose values are counted in pairs.
pub(super) struct Joint<'a, D: Device> {
    pub(super) device: &'a D,
    /// The reference is the image of the rows, the moved one that of the columns.
    pub(super) images: Images<'a, D>,
    pub(super) bins: usize,
}

impl<D: Device> Joint<'_, D> {
    fn columns(&self) -> ParzenBins {
        let count = self.bins + 2 * ParzenBins::MARGIN;
        ParzenBins { low: RANGE.0, high: RANGE.1, count }
    }

    /// A function of the histogram, whose rows are made for a reference that moves where it does. Writes its
    /// derivative.
    pub(super) fn energy(
        &self,
        cost: fn(&[f64], usize) -> CostAndDerivatives,
        derivative: &mut D::Buffer<f32>,
    ) -> Result<f64> {
        match self.images.reference_moves {
            true => self.smooth(cost, derivative),
            false => self.hard(cost, derivative),
        }
    }

    /// A function of the histogram with hard bins as rows: for a reference that does not change. Writes
    /// its derivative.
    fn hard(
        &self,
        cost: impl Fn(&[f64], usize) -> CostAndDerivatives,
        derivative: &mut D::Buffer<f32>,
    ) -> Result<f64> {
        let Self { device, images, bins } = *self;
        let Images { reference, moved, weights, .. } = images;
        let (rows, columns) = (Binning { low: RANGE.0, high: RANGE.1, bins }, self.columns());
        let joint = device.pair_histogram(reference, moved, weights, &rows, &columns)?;
        let cost = cost(&joint, columns.count);
        device.pair_derivatives(
            reference,
            moved,
            weights,
            &rows,
            &columns,
            &cost.derivatives,
            derivative,
        )?;
        Ok(cost.cost)
    }

    /// A function of the histogram whose rows are linear windows as wide as two bins, one about each end
    /// of a bin: for a reference that is warped itself, whose values would jump from bin to bin. Writes
    /// its derivative.
    ///
    /// The windows about every other end do not overlap, so that they are hard bins in which a voxel
    /// counts by how near it is to the middle: nothing at their ends, where it goes from one to the next.
    fn smooth(
        &self,
        cost: impl Fn(&[f64], usize) -> CostAndDerivatives,
        derivative: &mut D::Buffer<f32>,
    ) -> Result<f64> {
        let Self { device, images, bins } = *self;
        let Images { reference, moved, .. } = images;
        let ((low, high), columns) = (RANGE, self.columns());
        let width = (high - low) / bins as f32;
        let every_other = |low: f32, bins: usize| {
            let high = low + 2.0 * width * bins as f32;
            Binning { low, high, bins }
        };
        let (even, odd) =
            (every_other(low - width, bins / 2 + 1), every_other(low, bins.div_ceil(2)));
        // The distance from the nearest middle of the even windows, in their half width.
        let at = (x(0).clamp(param(0), param(1)) - param(0)) * param(2);
        let off = (&at - ((&at + WHOLE) - WHOLE)).abs() * 2.0;
        let near = 1.0 - &off;
        let count = |share: &Expr, out: &mut D::Buffer<f32>| {
            let params = [low, high, 0.5 / width];
            match images.weights {
                None => device.eval(share, &[reference], &params, None, out),
                Some(w) => device.eval(&(share * x(1)), &[reference, w], &params, None, out),
            }
        };
        let mut counts = device.alloc::<f32>(reference.len())?;
        count(&near, &mut counts)?;
        let mut joint = device.pair_histogram(reference, moved, Some(&counts), &even, &columns)?;
        let of_even = joint.len();
        count(&off, &mut counts)?;
        joint.extend(device.pair_histogram(reference, moved, Some(&counts), &odd, &columns)?);
        let cost = cost(&joint, columns.count);
        let (of_even, of_odd) = cost.derivatives.split_at(of_even);
        let mut other = device.alloc::<f32>(reference.len())?;
        device.pair_derivatives(
            reference,
            moved,
            Some(&counts),
            &odd,
            &columns,
            of_odd,
            &mut other,
        )?;
        count(&near, &mut counts)?;
        device.pair_derivatives(
            reference,
            moved,
            Some(&counts),
            &even,
            &columns,
            of_even,
            derivative,
        )?;
        device.eval_in_place(&(x(0) + x(1)), derivative, &[&other], &[], None)?;
        Ok(cost.cost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::similarity::mutual_information;
    use voxalign_compute::Memory;
    use voxalign_compute::cpu::Cpu;

    const BINS: usize = 32;

    /// The energy, and its derivative as a fraction of the largest derivative.
    fn evaluated(device: &Cpu, reference: &[f32], moved: &[f32], smooth: bool) -> (f64, Vec<f64>) {
        let [reference, moved] = [reference, moved].map(|v| device.upload(v).unwrap());
        let mut derivative = device.alloc::<f32>(moved.len()).unwrap();
        let images = Images {
            reference: &reference,
            moved: &moved,
            weights: None,
            dims: [4, 4, 4],
            reference_moves: smooth,
        };
        let joint = Joint { device, images, bins: BINS };
        let energy = joint.energy(mutual_information, &mut derivative).unwrap();
        let derivative = device.into_host(derivative).unwrap();
        let most = derivative.iter().fold(0f32, |a, v| a.max(v.abs()));
        (energy, derivative.iter().map(|v| f64::from(v / most)).collect())
    }

    /// The most that the derivative changes where one voxel of the reference goes up by one unit in the last
    /// place, from a little below to a little above each end and middle of a bin.
    fn most_of_a_jump(smooth: bool) -> f64 {
        let (device, n) = (Cpu::new(None).unwrap(), 4096);
        let moved: Vec<f32> = (0..n).map(|i| 0.5 + 0.45 * (i as f32 * 0.37).sin()).collect();
        let mut reference: Vec<f32> =
            (0..n).map(|i| 0.5 + 0.45 * (i as f32 * 0.37 + 0.2).sin()).collect();
        let width = (RANGE.1 - RANGE.0) / BINS as f32;
        let mut most = 0f64;
        for half in 0..=2 * BINS {
            let mut value = RANGE.0 + 0.5 * width * half as f32;
            (0..4).for_each(|_| value = value.next_down());
            reference[1234] = value;
            let mut before = evaluated(&device, &reference, &moved, smooth);
            for _ in 0..8 {
                value = value.next_up();
                reference[1234] = value;
                let after = evaluated(&device, &reference, &moved, smooth);
                let change = before.1.iter().zip(&after.1).map(|(a, b)| (a - b).abs());
                most = most.max(change.fold(0.0, f64::max));
                before = after;
            }
        }
        most
    }

    #[test]
    fn a_reference_that_is_warped_does_not_jump() {
        let (hard, smooth) = (most_of_a_jump(false), most_of_a_jump(true));
        assert!(hard > 0.1, "{hard}");
        assert!(smooth < 1e-3, "{smooth}");
    }

    #[test]
    fn windows_and_bins_tell_the_same() {
        // The images are one, but for a turn of the values: windows blur what they tell by little.
        let moved: Vec<f32> = (0..20_000).map(|i| 0.5 + 0.5 * (i as f32 * 0.7371).sin()).collect();
        let reference: Vec<f32> = moved.iter().map(|v| 1.0 - v * v).collect();
        let device = Cpu::new(None).unwrap();
        let of = |smooth| evaluated(&device, &reference, &moved, smooth).0;
        let (hard, smooth) = (of(false), of(true));
        assert!(hard < -1.5 && (smooth - hard).abs() < 0.3, "{hard} {smooth}");
    }
}
