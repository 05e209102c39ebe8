//! Agreement of two images within the tissue that both show.

use crate::compare::{both_finite, entropies};
use crate::error::Result;
use crate::metric::range::{robust_range, robust_range_on};
use rayon::prelude::*;
use voxalign_compute::ops::elementwise::{param, x};
use voxalign_compute::ops::reduce::Reduction;
use voxalign_compute::ops::values::bin_of;
use voxalign_compute::{Device, DeviceBuffer};
use voxalign_image::Volume;

/// The part of a grid that a registration is about: where an image is above a value.
#[derive(Debug, Clone, Copy)]
pub struct Object<'a> {
    /// A mask, or the image whose foreground it is.
    pub image: &'a Volume<f32>,
    /// The value that the object is above.
    pub above: f32,
}

impl Object<'_> {
    /// Whether it has the voxel of an index into its data.
    #[must_use]
    pub fn has(&self, index: usize) -> bool {
        self.image.data().get(index).is_some_and(|v| *v > self.above)
    }
}

/// The tissue that two images have in common.
#[derive(Debug, Clone, Copy)]
pub struct Tissue<'a> {
    /// That of the fixed image.
    pub object: Object<'a>,
    /// The value that the moving image is above where it shows tissue; minus infinity where all of it
    /// counts.
    pub moving_above: f32,
}

/// Agreement of two images where both show tissue. The background, which matches wherever two outlines do, takes no
/// part, nor does the region between the two outlines.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Agreement {
    /// Voxels of the object where the moving image is defined.
    pub object: usize,
    /// Those of them where it shows tissue.
    pub voxels: usize,
    /// The mutual information of these in nats, with [`Agreement::BINS`] bins per axis, less the expected bias for
    /// independent images of this many voxels: `(r - 1) (c - 1) / 2 n` for `r` and `c` bins that are not empty
    /// (Miller 1955). About 0 where one image is constant there, and 0 where less than [`Agreement::LEAST_PART`] of
    /// the object, or fewer than [`Agreement::LEAST_VOXELS`], is tissue of both.
    pub information: f64,
    /// Whether both are plain shapes, such as masks: nearly constant there, so that nothing within them
    /// could agree or not.
    pub plain: bool,
}

/// Quantiles of an image between which its bins are.
const ENDS: (f64, f64) = (0.001, 0.999);

/// Voxels that a thread looks at, at least.
pub(super) const PART: usize = 1 << 16;

impl Agreement {
    /// Bins of each axis, from the 0.1th to the 99.9th percentile of each image.
    pub const BINS: usize = 32;
    /// The entropy in nats, that of two values that are equally frequent, below which a shape is plain.
    pub const PLAIN: f64 = std::f64::consts::LN_2;
    /// The least fraction of the object that both must show as tissue to be informative.
    pub const LEAST_PART: f64 = 0.05;
    /// The least number of its voxels: fewer are not informative.
    pub const LEAST_VOXELS: usize = 100;

    /// Of a fixed image and a moving one on its grid that is NaN where it is not defined.
    #[must_use]
    pub fn new(tissue: &Tissue<'_>, fixed: &Volume<f32>, warped: &Volume<f32>) -> Self {
        let range = |image: &Volume<f32>| robust_range(image.data(), ENDS.0, ENDS.1);
        let (Some(rows), Some(columns)) = (range(fixed), range(warped)) else {
            return Self::default();
        };
        let [rows, columns] = [rows, columns].map(|(low, high)| [low, high].map(f64::from));
        let bin = |value: f32, range| bin_of(f64::from(value), range, Self::BINS);
        // Counts do not depend on the order in which they are made.
        let empty = || (0, vec![0u64; Self::BINS * Self::BINS]);
        let pairs = fixed.data().par_iter().zip(warped.data()).enumerate().with_min_len(PART);
        let (object, joint) = pairs
            .fold(empty, |(mut object, mut joint), (i, (&f, &w))| {
                if tissue.object.has(i) && f.is_finite() && w.is_finite() {
                    object += 1;
                    if w > tissue.moving_above {
                        joint[bin(w, columns) * Self::BINS + bin(f, rows)] += 1;
                    }
                }
                (object, joint)
            })
            .reduce(empty, |(object, mut joint), (more, other)| {
                joint.iter_mut().zip(other).for_each(|(sum, count)| *sum += count);
                (object + more, joint)
            });
        Self::of(object, &joint)
    }

    /// As [`new`](Self::new), of values on a device; the object is what `object` is above.
    pub(super) fn on<D: Device>(
        device: &D,
        (object, above, moving_above): (&D::Buffer<f32>, f32, f32),
        fixed: &D::Buffer<f32>,
        warped: &D::Buffer<f32>,
    ) -> Result<Self> {
        let range = |image| robust_range_on(device, image, None, ENDS.0, ENDS.1);
        let (Some(rows), Some(columns)) = (range(fixed)?, range(warped)?) else {
            return Ok(Self::default());
        };
        let mut counts = device.alloc::<f32>(fixed.len())?;
        let inside = both_finite() * x(2).gt(param(0));
        device.eval(&inside, &[fixed, warped, object], &[above], None, &mut counts)?;
        let voxels = device.reduce(&[&counts], &[Reduction::Sum(0)])?[0];
        let tissue = x(0) * x(1).gt(param(0));
        device.eval_in_place(&tissue, &mut counts, &[warped], &[moving_above], None)?;
        let ranges = [rows, columns].map(|(low, high)| [low, high].map(f64::from));
        let joint = device.pair_counts(fixed, warped, Some(&counts), ranges, Self::BINS)?;
        Ok(Self::of(voxels as usize, &joint))
    }

    /// Of the voxels of the object, and the joint histogram of those that are tissue, moving slowest.
    fn of(object: usize, joint: &[u64]) -> Self {
        let voxels = joint.iter().sum::<u64>() as usize;
        let few = voxels < Self::LEAST_VOXELS;
        if few || (voxels as f64) < Self::LEAST_PART * object as f64 {
            return Self { object, voxels, ..Self::default() };
        }
        let filled = |of: &dyn Fn(usize) -> bool| (0..Self::BINS).filter(|&i| of(i)).count() as f64;
        let at = |w: usize, f: usize| joint[w * Self::BINS + f] > 0;
        let used_f = filled(&|f| (0..Self::BINS).any(|w| at(w, f)));
        let used_w = filled(&|w| (0..Self::BINS).any(|f| at(w, f)));
        let (h_f, h_w, h_joint) = entropies(joint, Self::BINS);
        let chance = (used_f - 1.0) * (used_w - 1.0) / (2.0 * voxels as f64);
        let plain = h_f.max(h_w) < Self::PLAIN;
        Self { object, voxels, information: h_f + h_w - h_joint - chance, plain }
    }
}
