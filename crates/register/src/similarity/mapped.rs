//! Neighbourhood descriptors, and local correlation after the intensities of one image are mapped to the other's.

use super::{Images, Kind, Lncc, Mind, PendingEnergy};
use crate::error::{RegisterError, Result};
use serde::{Deserialize, Serialize};
use voxalign_compute::ops::elementwise::{param, x};
use voxalign_compute::ops::histogram::{Binning, ParzenBins};
use voxalign_compute::{Device, DeviceBuffer};
use voxalign_options::Parameters;

/// The weight of the mean of both correlations beside the descriptors.
const WEIGHT: f64 = 0.2;

/// Of the joint histogram: along the image that is mapped, and along the other one.
const COLUMNS: ParzenBins =
    ParzenBins { low: -0.05, high: 1.05, count: 32 + 2 * ParzenBins::MARGIN };
const ROWS: Binning = Binning { low: -0.05, high: 1.05, bins: 64 };

/// This part of all voxels, of no intensity, is added to each: one that hardly any voxel has tells nothing.
const RARE: f64 = 1e-5;

/// [`Mind`], and [`Lncc`] of each image with the other one, whose intensities are mapped to those of the first, from -0.2.
///
/// What an intensity is mapped to is the mean of the other image where the one has it, as the images lie at the moment. A derivative
/// takes this map for given: that the next step has another one is left out. Both together lead fewer places astray than either
/// alone, as measured (docs/accuracy.md).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Parameters)]
#[serde(deny_unknown_fields, default)]
pub struct Mapped {
    /// Radius of the windows, voxels at the current scale
    #[parameter(default = 2, unit = "VOX", least = 1, most = 20, what = "whole number of voxels")]
    pub radius: usize,
    /// Radius of the patches, voxels at the current scale
    #[parameter(default = 1, unit = "VOX", least = 1, most = 8, what = "whole number of voxels")]
    pub patch_radius: usize,
    /// Distance from a voxel to the patches around it that are compared, voxels at the current scale
    #[parameter(default = 1, unit = "VOX", least = 1, most = 8, what = "whole number of voxels")]
    pub patch_distance: usize,
}

impl Mapped {
    fn parts(&self) -> (Mind, Lncc) {
        let Self { radius, patch_radius, patch_distance } = *self;
        (Mind { patch_radius, patch_distance }, Lncc { radius })
    }
}

impl Kind for Mapped {
    fn has_energy(&self) -> bool {
        true
    }

    fn temporaries(&self) -> u64 {
        // What it keeps itself when the descriptors are done is less.
        self.parts().0.temporaries()
    }

    fn energy<D: Device>(
        &self,
        device: &D,
        images: Images<'_, D>,
        derivative: &mut D::Buffer<f32>,
    ) -> Result<PendingEnergy> {
        let (mind, lncc) = self.parts();
        let mut energy = mind.energy(device, images, derivative)?;
        let n = derivative.len();
        let (mut of_mapped, mut of_other) = (device.alloc(n)?, device.alloc(n)?);
        let there = MappedImage::new(device, images)?;
        let one = lncc.energy(device, there.beside(images), &mut of_mapped)?;
        let back = MappedImage::new(device, images.exchanged())?;
        let other = back.beside(images.exchanged()).exchanged();
        let other = lncc.energy(device, other, &mut of_other)?;
        add(device, derivative, [&of_mapped, &there.derivative, &of_other])?;
        energy.add(one.mean(other).times(WEIGHT));
        Ok(energy)
    }

    fn energy_of_both<D: Device>(
        &self,
        device: &D,
        images: Images<'_, D>,
        derivatives: [&mut D::Buffer<f32>; 2],
    ) -> Result<PendingEnergy> {
        let (mind, lncc) = self.parts();
        let [of_moved, of_reference] = derivatives;
        let mut energy = mind.energy_of_both(device, images, [of_moved, of_reference])?;
        let way = |images: Images<'_, D>| {
            let (mut of_mapped, mut of_other) =
                (device.alloc(images.moved.len())?, device.alloc(images.moved.len())?);
            let map = MappedImage::new(device, images)?;
            let both = [&mut of_mapped, &mut of_other];
            let energy = lncc.energy_of_both(device, map.beside(images), both)?;
            Ok::<_, RegisterError>((energy, of_mapped, map.derivative, of_other))
        };
        let (one, moved, by_moved, reference_beside) = way(images)?;
        let (other, reference, by_reference, moved_beside) = way(images.exchanged())?;
        add(device, of_moved, [&moved, &by_moved, &moved_beside])?;
        add(device, of_reference, [&reference, &by_reference, &reference_beside])?;
        energy.add(one.mean(other).times(WEIGHT));
        Ok(energy)
    }
}

/// Adds what correlations have as derivatives in an image: in the values that it is mapped to, times the derivative of the map, and
/// in its own beside the other image mapped.
fn add<D: Device>(
    device: &D,
    derivative: &mut D::Buffer<f32>,
    [of_mapped, by_value, of_own]: [&D::Buffer<f32>; 3],
) -> Result<()> {
    let sum = x(0) + (x(1) * x(2) + x(3)) * param(0);
    let others = [of_mapped, by_value, of_own];
    Ok(device.eval_in_place(&sum, derivative, &others, &[(0.5 * WEIGHT) as f32], None)?)
}

/// An image whose intensities are mapped to those of its reference, and the derivative of the map at each voxel.
struct MappedImage<D: Device> {
    values: D::Buffer<f32>,
    derivative: D::Buffer<f32>,
}

impl<D: Device> MappedImage<D> {
    /// Of the moved image.
    fn new(device: &D, images: Images<'_, D>) -> Result<Self> {
        let Images { reference, moved, weights, .. } = images;
        let joint = device.pair_histogram(reference, moved, weights, &ROWS, &COLUMNS)?;
        let (mut values, mut derivative) = (device.alloc(moved.len())?, device.alloc(moved.len())?);
        device.map_values(moved, &COLUMNS, &means(&joint), &mut values, &mut derivative)?;
        Ok(Self { values, derivative })
    }

    /// The same images with this one as the one that is moved.
    fn beside<'a>(&'a self, images: Images<'a, D>) -> Images<'a, D> {
        Images { moved: &self.values, ..images }
    }
}

/// The mean of each column of a joint histogram.
fn means(joint: &[f64]) -> Vec<f64> {
    let [low, high] = [ROWS.low, ROWS.high].map(f64::from);
    let mut sums = vec![[0.0; 2]; COLUMNS.count];
    for (row, counts) in joint.chunks_exact(COLUMNS.count).enumerate() {
        let value = low + (row as f64 + 0.5) * (high - low) / ROWS.bins as f64;
        for (sum, count) in sums.iter_mut().zip(counts) {
            sum[0] += count;
            sum[1] += count * value;
        }
    }
    let rare = RARE * joint.iter().sum::<f64>();
    let mean = |[count, sum]: [f64; 2]| if count + rare > 0.0 { sum / (count + rare) } else { 0.0 };
    sums.into_iter().map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_compute::Memory;
    use voxalign_compute::cpu::Cpu;

    /// An image of smooth noise from dark to bright.
    fn image(n: usize) -> Vec<f32> {
        let at = |i: usize| (i as f32 * 0.137).sin() * (i as f32 * 0.011 + 0.4).cos();
        (0..n).map(|i| 0.55 + 0.44 * at(i)).collect()
    }

    #[test]
    fn intensities_go_to_the_mean_of_the_other_image() {
        let device = Cpu::new(None).unwrap();
        let mut moved = image(40_000);
        // Falling, but dark where the other one is black.
        let mut reference: Vec<f32> =
            moved.iter().map(|m| 0.2 + 0.7 * (1.0 - m) * (1.0 - m)).collect();
        for image in [&mut moved, &mut reference] {
            image[..8000].fill(0.0);
        }
        let [r, m] = [&reference, &moved].map(|v| device.upload(v).unwrap());
        let images = Images {
            reference: &r,
            moved: &m,
            weights: None,
            dims: [40, 40, 25],
            reference_moves: false,
        };
        let found = MappedImage::new(&device, images).unwrap();
        let [values, derivative] =
            [found.values, found.derivative].map(|b| device.into_host(b).unwrap());
        for (i, value) in values.iter().enumerate() {
            if moved[i] > 0.15 && moved[i] < 0.95 || i < 8000 {
                assert!((value - reference[i]).abs() < 0.02, "{i}: {value} of {}", reference[i]);
            }
            if moved[i] > 0.25 && moved[i] < 0.9 {
                let expected = -1.4 * (1.0 - moved[i]);
                assert!(
                    (derivative[i] - expected).abs() < 0.12,
                    "{i}: {} of {expected}",
                    derivative[i]
                );
            }
        }
    }
}
