//! How well a moving image agrees with the fixed one under a transform: the scores that every
//! registration reports before and after, whatever similarity drove it.

use crate::compare::{
    CompareError, ImageScores, OverlapRule, OverlapScores, compare_images, compare_labels,
};
use crate::error::Result;
use crate::resample::{MovingImage, labels_onto};
use crate::verdict::Check;
use std::collections::BTreeMap;
use voxalign_compute::Device;
use voxalign_compute::ops::resample::{Interpolation, LabelInterpolation};
use voxalign_image::{LabelMap, Transform, Volume};

/// Bins of the joint histogram of the scores.
const BINS: usize = 64;

/// Scores of a moving image on the fixed grid.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Scores {
    /// Of the intensities where both images are defined; `None` where they do not overlap.
    pub images: Option<ImageScores>,
    /// Of the label maps, where both images have one.
    pub labels: Option<OverlapScores>,
}

impl Scores {
    /// Whether the images tell at least nearly as much of each other after a deformation as under an
    /// `affine` transform alone, by what their normalised mutual information has over 1, that of images
    /// that tell nothing: it is for all kinds of image and does not favour small overlaps. Of images
    /// that are nearly the same, interpolation takes much of it, so that more than `MOST` is never asked
    /// for. `None` where one of the two is not known; `remedy` says what helps.
    #[must_use]
    pub fn worth(&self, affine: &Scores, remedy: &str) -> Option<Check> {
        const LEAST: f64 = 0.8;
        const MOST: f64 = 0.6;
        let of = |s: &Scores| s.images.as_ref().and_then(|i| i.nmi).map(|nmi| nmi - 1.0);
        let part = of(self)? / of(affine)?.clamp(1e-9, MOST);
        let name = "shared information, of that under the best affine transform alone";
        Some(Check::new(name, part, format!("at least {LEAST}"), part >= LEAST, remedy))
    }

    /// The scores as named numbers: `rms`, `ncc`, `mi` and `nmi` of the images and `label_overlap`
    /// (mean Dice), as far as they are known.
    #[must_use]
    pub fn figures(&self) -> BTreeMap<&'static str, f64> {
        let images = self.images.as_ref();
        [
            ("rms", images.map(|s| s.rms)),
            ("ncc", images.and_then(|s| s.ncc)),
            ("mi", images.map(|s| s.mi)),
            ("nmi", images.and_then(|s| s.nmi)),
            ("label_overlap", self.labels.as_ref().and_then(|l| l.mean_dice)),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
    }
}

/// A moving image and its labels on the fixed grid.
#[derive(Debug, Clone)]
pub struct Resampled {
    /// The image.
    pub image: Volume<f32>,
    /// Its labels, where it has some; 0 outside.
    pub labels: Option<LabelMap>,
    /// How well they agree with the fixed ones.
    pub scores: Scores,
}

/// The fixed side of a comparison, and how the moving side is brought to it.
#[derive(Debug, Clone, Copy)]
pub struct Scoring<'a> {
    /// The fixed image.
    pub fixed: &'a Volume<f32>,
    /// Its voxels that count (above 0), or all.
    pub fixed_mask: Option<&'a Volume<f32>>,
    /// Its labels, on its grid.
    pub fixed_labels: Option<&'a LabelMap>,
    /// Labels of the moving image, on any grid.
    pub moving_labels: Option<&'a LabelMap>,
    /// Which labels count.
    pub rule: &'a OverlapRule,
    /// How the moving image is resampled. Labels are by the nearest voxel.
    pub interpolation: Interpolation,
    /// The value outside of the moving image; it takes no part in the scores.
    pub outside: f32,
}

impl Scoring<'_> {
    /// The moving image and labels on the fixed grid under `transform` (fixed to moving world), and
    /// how well they agree with the fixed ones.
    ///
    /// # Errors
    /// As [`MovingImage::onto`]; labels or a mask on another grid than the fixed image.
    pub fn under<D: Device>(
        &self,
        device: &D,
        moving: &MovingImage<'_, D>,
        transform: &Transform,
    ) -> Result<Resampled> {
        let grid = self.fixed.grid();
        // Outside is NaN at first, so that the scores are those of the overlap.
        let mut image = moving.onto(grid, transform, self.interpolation, f32::NAN)?;
        let images = match compare_images(self.fixed, &image, self.fixed_mask, BINS) {
            Ok(scores) => Some(scores),
            Err(CompareError::Nothing { .. }) => None,
            Err(e) => return Err(e.into()),
        };
        image.data_mut().iter_mut().filter(|v| v.is_nan()).for_each(|v| *v = self.outside);
        let labels = self.moving_labels;
        let labels = labels
            .map(|m| labels_onto(device, m, grid, transform, LabelInterpolation::Nearest, 0))
            .transpose()?;
        let overlap = match (self.fixed_labels, &labels) {
            (Some(fixed), Some(warped)) => Some(compare_labels(fixed, warped, None, self.rule)?),
            _ => None,
        };
        Ok(Resampled { image, labels, scores: Scores { images, labels: overlap } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_compute::cpu::Cpu;
    use voxalign_image::{Affine, Grid, Vector3};

    fn scored(shift: f64) -> Resampled {
        let grid = Grid::axis_aligned([12, 10, 8], [1.0, 2.0, 1.5]).unwrap();
        let fixed = Volume::from_fn(grid.clone(), |x, y, z| (x * x + 3 * y + z) as f32);
        let labels = Volume::from_fn(grid, |x, _, _| i32::from(x >= 6));
        let device = Cpu::new(Some(2)).unwrap();
        let moving = MovingImage::new(&device, fixed.clone()).unwrap();
        let scoring = Scoring {
            fixed: &fixed,
            fixed_mask: None,
            fixed_labels: Some(&labels),
            moving_labels: Some(&labels),
            rule: &OverlapRule::default(),
            interpolation: Interpolation::Linear,
            outside: -5.0,
        };
        let shift = Transform::Affine(Affine::translation(Vector3::new(shift, 0.0, 0.0)));
        scoring.under(&device, &moving, &shift).unwrap()
    }

    #[test]
    fn an_image_agrees_with_itself_only() {
        let same = scored(0.0).scores.figures();
        assert_eq!((same["rms"], same["label_overlap"]), (0.0, 1.0));
        let off = scored(3.0).scores.figures();
        assert!(off["rms"] > 1.0 && off["mi"] < same["mi"] && off["label_overlap"] < 1.0);
    }

    #[test]
    fn a_deformation_is_worth_its_affine_part_or_not() {
        let of = |nmi: f64| {
            let mut scores = scored(0.0).scores;
            if let Some(images) = &mut scores.images {
                images.nmi = Some(nmi);
            }
            scores
        };
        let affine = of(1.2);
        assert!(of(1.17).worth(&affine, "").unwrap().passed);
        let bad = of(1.1).worth(&affine, "start nearer").unwrap();
        assert!(!bad.passed && (bad.value - 0.5).abs() < 1e-9, "{bad:?}");
        assert_eq!(bad.remedy, "start nearer");
        // Of images that are the same, no more than 0.6 is asked for.
        assert!(of(1.5).worth(&of(2.0), "").unwrap().passed);
        assert!(!of(1.4).worth(&of(2.0), "").unwrap().passed);
        assert_eq!(affine.worth(&Scores::default(), ""), None);
    }

    #[test]
    fn outside_counts_for_nothing_but_is_filled() {
        let off = scored(3.0);
        assert_eq!(off.image.get(11, 0, 0), Some(&-5.0));
        // Where both are defined, x against x + 3: (x + 3)^2 - x^2 = 6 x + 9.
        let squares = (0..9).map(|x| f64::from(6 * x + 9).powi(2)).sum::<f64>();
        let rms = off.scores.images.unwrap().rms;
        assert!((rms - (squares / 9.0).sqrt()).abs() < 1e-3, "{rms}");
        assert_eq!(scored(100.0).scores.images, None);
    }
}
