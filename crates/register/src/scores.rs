//! Agreement of a moving image with the fixed one under a transform: the scores that every registration reports
//! before and after, whatever similarity drove it.

mod agreement;

pub use agreement::{Agreement, Object, Tissue};

use crate::compare::compare_images_on;
use crate::compare::{
    CompareError, ImageScores, OverlapRule, OverlapScores, compare_images, compare_labels,
    same_grid,
};
use crate::error::{RegisterError, Result};
use crate::limits::{DEFORMATION, LANDMARKS};
use crate::resample::{MovingImage, labels_onto};
use crate::there::{kept, uploaded};
use crate::verdict::{Check, Remedy};
use agreement::PART;
use rayon::prelude::*;
use voxalign_compute::ops::elementwise::{param, select, x};
use voxalign_compute::ops::resample::{Interpolation, LabelInterpolation};
use voxalign_compute::{ComputeError, Device};
use voxalign_image::{LabelMap, Transform, Volume};

/// Bins of the joint histogram of the scores.
const BINS: usize = 64;

/// Scores of a moving image on the fixed grid.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Scores {
    /// Of the intensities where both images are defined; `None` where they do not overlap.
    pub images: Option<ImageScores>,
    /// Where both show tissue, where that is known.
    pub agreement: Option<Agreement>,
    /// Of the label maps, where both images have one.
    pub labels: Option<OverlapScores>,
}

impl Scores {
    /// Whether the images share nearly as much information after a deformation as under an `affine` transform
    /// alone, or more, by the excess of their normalised mutual information over 1, the value of independent
    /// images: it suits all kinds of image and does not favour small overlaps. Interpolation takes much of it from
    /// images that are nearly the same, so that more than `MOST` is never asked for. `None` where one of the two is
    /// not known.
    #[must_use]
    pub fn worth(&self, affine: &Scores, remedy: Remedy) -> Option<Check> {
        const MOST: f64 = 0.6;
        let of = |s: &Scores| s.images.as_ref().and_then(|i| i.nmi).map(|nmi| nmi - 1.0);
        let part = of(self)? / of(affine)?.clamp(1e-9, MOST);
        let name =
            "shared information, as a fraction of that under the best affine transform alone";
        Some(Check::at_least(name, part, DEFORMATION.worth).or(remedy))
    }

    /// Whether the images share enough information where both show tissue, whatever they shared before: noise or a
    /// plain shape can be deformed to the outline of the fixed image, but not to its inside. What is `asked` is in nats. `None` where that is
    /// not known, and for two plain shapes.
    #[must_use]
    pub fn agrees(&self, asked: f64) -> Option<Check> {
        let value = self.agreement.filter(|a| !a.plain)?.information;
        let name = "information shared by the images within tissue";
        let check = Check::at_least(name, value, asked).in_unit("nats");
        Some(check.or(Remedy::SameTissue))
    }

    /// Whether the images share hardly less information within their tissue than under an `affine` transform alone:
    /// where points drive the deformation as well, and are misplaced, the images get worse. `None` where one of the
    /// two is not known, and for two plain shapes.
    #[must_use]
    pub fn pays(&self, affine: &Scores) -> Option<Check> {
        let of = |s: &Scores| s.agreement.filter(|a| !a.plain).map(|a| a.information);
        let (after, before) = (of(self)?, of(affine)?);
        if before < DEFORMATION.information {
            return None;
        }
        let name =
            "information within the tissue, as a fraction of that under the affine transform alone";
        Some(Check::at_least(name, after / before, LANDMARKS.pays).or(Remedy::Landmarks))
    }

    /// Whether a deformation of an `energy` (the harmonic one, for each voxel of the object) is worth the
    /// information that the images share after it: what does not belong together is bent a lot and
    /// agrees little; `most` is allowed for each nat. `None` where it is not known, or where they do not [agree](Self::agrees) at all.
    #[must_use]
    pub fn earns(&self, energy: f64, most: f64) -> Option<Check> {
        let information = self.agreement.filter(|a| !a.plain)?.information;
        if information < DEFORMATION.information {
            return None;
        }
        let name = "harmonic energy in the object per nat of shared information";
        let check = Check::at_most(name, energy / information, most);
        Some(check.or(Remedy::SameTissue))
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

/// An image with its scores.
type Shown = (Volume<f32>, Option<ImageScores>, Option<Agreement>);

/// Scores of images, where these overlap.
fn overlapping(scores: Result<ImageScores>) -> Result<Option<ImageScores>> {
    match scores {
        Ok(scores) => Ok(Some(scores)),
        Err(RegisterError::Compare(CompareError::Nothing { .. })) => Ok(None),
        Err(e) => Err(e),
    }
}

/// The fixed side of a comparison, and how the moving side is resampled onto it.
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
    /// The tissue within which the images are scored once more, where that is asked for.
    pub tissue: Option<Tissue<'a>>,
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
        let found = device.has_own_memory().then(|| self.images_on(device, moving, transform));
        let (image, images, agreement) = match found {
            // The host does it where the device has no room for it.
            None | Some(Err(RegisterError::Compute(ComputeError::OutOfMemory { .. }))) => {
                self.images(moving, transform)?
            }
            Some(found) => found?,
        };
        let labels = self.moving_labels;
        let labels = labels
            .map(|m| labels_onto(device, m, grid, transform, LabelInterpolation::Nearest, 0))
            .transpose()?;
        let overlap = match (self.fixed_labels, &labels) {
            (Some(fixed), Some(warped)) => Some(compare_labels(fixed, warped, None, self.rule)?),
            _ => None,
        };
        Ok(Resampled { image, labels, scores: Scores { images, agreement, labels: overlap } })
    }

    /// The image, and its scores, found on the host.
    fn images<D: Device>(
        &self,
        moving: &MovingImage<'_, D>,
        transform: &Transform,
    ) -> Result<Shown> {
        let object = self.tissue.map(|tissue| tissue.object.image);
        for image in [Some(self.fixed), self.fixed_mask, object].into_iter().flatten() {
            image.bring()?;
        }
        // Outside is NaN at first, so that the scores are those of the overlap.
        let grid = self.fixed.grid();
        let mut image = moving.onto(grid, transform, self.interpolation, f32::NAN)?;
        let images = compare_images(self.fixed, &image, self.fixed_mask, BINS);
        let images = overlapping(images.map_err(Into::into))?;
        let agreement = self.tissue.map(|tissue| Agreement::new(&tissue, self.fixed, &image));
        let values = image.data_mut().par_iter_mut().with_min_len(PART);
        values.filter(|v| v.is_nan()).for_each(|v| *v = self.outside);
        Ok((image, images, agreement))
    }

    /// The same found on a device, where the image stays if one of the two was there.
    fn images_on<D: Device>(
        &self,
        device: &D,
        moving: &MovingImage<'_, D>,
        transform: &Transform,
    ) -> Result<Shown> {
        let grid = self.fixed.grid();
        let mut warped = moving.values_onto(grid, transform, self.interpolation, f32::NAN)?;
        let fixed = uploaded(device, self.fixed)?;
        let mask = match self.fixed_mask {
            Some(mask) => {
                same_grid(grid, mask.grid())?;
                Some(uploaded(device, mask)?)
            }
            None => None,
        };
        let images = compare_images_on(device, &fixed, &warped, mask.as_ref(), BINS);
        let images = overlapping(images)?;
        let of = |Tissue { object, moving_above }: Tissue<'_>| {
            let own = match () {
                () if std::ptr::eq(object.image, self.fixed) => None,
                () => Some(uploaded(device, object.image)?),
            };
            let object = (own.as_ref().unwrap_or(&fixed), object.above, moving_above);
            Agreement::on(device, object, &fixed, &warped)
        };
        let agreement = self.tissue.map(of).transpose()?;
        let filled = select(x(0).equals(x(0)), x(0), param(0));
        device.eval_in_place(&filled, &mut warped, &[], &[self.outside], None)?;
        drop(fixed);
        let image = match moving.is_elsewhere() || self.fixed.elsewhere().is_some() {
            true => kept(device, grid.clone(), warped)?,
            false => Volume::new(grid.clone(), device.into_host(warped)?)?,
        };
        Ok((image, images, agreement))
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
            tissue: Some(Tissue {
                object: Object { image: &fixed, above: 10.0 },
                moving_above: 10.0,
            }),
            rule: &OverlapRule::default(),
            interpolation: Interpolation::Linear,
            outside: -5.0,
        };
        let shift = Transform::Affine(Affine::translation(Vector3::new(shift, 0.0, 0.0)));
        scoring.under(&device, &moving, &shift).unwrap()
    }

    #[test]
    fn an_image_agrees_with_itself_only() {
        let [same, off] = [0.0, 3.0].map(|shift| {
            let scores = scored(shift).scores;
            let images = scores.images.unwrap();
            (images.rms, images.mi, scores.labels.and_then(|l| l.mean_dice).unwrap())
        });
        assert_eq!((same.0, same.2), (0.0, 1.0));
        assert!(off.0 > 1.0 && off.1 < same.1 && off.2 < 1.0);
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
        let worth = |a: &Scores, b: &Scores| a.worth(b, Remedy::BetterStart);
        assert!(worth(&of(1.17), &affine).unwrap().passed);
        let bad = worth(&of(1.1), &affine).unwrap();
        assert!(!bad.passed && (bad.value - 0.5).abs() < 1e-9, "{bad:?}");
        assert_eq!(bad.remedy_code, Some(Remedy::BetterStart));
        // Of images that are the same, no more than 0.6 is asked for.
        assert!(worth(&of(1.5), &of(2.0)).unwrap().passed);
        assert!(!worth(&of(1.4), &of(2.0)).unwrap().passed);
        assert_eq!(worth(&affine, &Scores::default()), None);
    }

    /// What fills a plain shape to its outline tells nothing of it within.
    #[test]
    fn bending_has_to_be_worth_it() {
        let sharing = |information| Scores {
            agreement: Some(Agreement { object: 1000, voxels: 900, information, plain: false }),
            ..Scores::default()
        };
        let of = |energy, information: f64| sharing(information).earns(energy, 2.0).unwrap();
        assert!(of(0.5, 0.9).passed && of(0.2, 0.3).passed);
        let bent = of(0.84, 0.31);
        assert!(
            !bent.passed
                && bent.remedy_code == Some(Remedy::SameTissue)
                && (bent.value - 0.84 / 0.31).abs() < 1e-12
        );
        assert_eq!(sharing(0.01).earns(0.1, 2.0), None);
        assert_eq!(Scores::default().earns(0.1, 2.0), None);
    }

    #[test]
    fn outlines_alone_are_no_agreement() {
        let grid = Grid::axis_aligned([40, 36, 20], [1.0; 3]).unwrap();
        let from_centre = |x: usize, y: usize, z: usize| {
            let along = |i: usize, n: f64| (i as f64 - (n - 1.0) / 2.0).powi(2);
            (along(x, 40.0) + along(y, 36.0) + along(z, 20.0)).sqrt()
        };
        let ball = |inside: &dyn Fn(usize, usize, usize) -> f32| {
            Volume::from_fn(grid.clone(), |x, y, z| {
                if from_centre(x, y, z) < 9.0 { inside(x, y, z) } else { 0.0 }
            })
        };
        let tissue = ball(&|x, y, z| 50.0 + ((x / 3 + y / 4 + z / 3) % 5) as f32 * 10.0);
        let other = ball(&|x, y, z| 300.0 - ((x / 3 + y / 4 + z / 3) % 5) as f32 * 20.0);
        let plain = ball(&|_, _, _| 70.0);
        let mut state = 9u32;
        let noise = Volume::from_fn(grid.clone(), |x, y, z| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if from_centre(x, y, z) < 9.0 { 20.0 + (state >> 25) as f32 } else { 0.0 }
        });
        let both = Tissue { object: Object { image: &tissue, above: 10.0 }, moving_above: 5.0 };
        let of = |image: &Volume<f32>| {
            let agreement = Agreement::new(&both, &tissue, image);
            let whole = compare_images(&tissue, image, None, BINS).unwrap();
            let scores = Scores { agreement: Some(agreement), ..Scores::default() };
            (
                agreement.information,
                whole.nmi.unwrap(),
                scores.agrees(DEFORMATION.information).unwrap(),
            )
        };
        let (same, _, check) = of(&tissue);
        assert!(same > 1.3 && check.passed && check.remedy.is_empty(), "{same}");
        // Another kind of image tells as much.
        assert!((of(&other).0 - same).abs() < 1e-9);
        for (image, name) in [(&plain, "plain"), (&noise, "noise")] {
            let (information, nmi, check) = of(image);
            // By the whole images these look as if they agreed well.
            assert!(information.abs() < 0.03 && nmi > 1.25, "{name}: {information} {nmi}");
            assert!(!check.passed && check.remedy_code == Some(Remedy::SameTissue));
        }
        // Of two plain shapes nothing is asked but that they meet.
        let both_plain = Tissue { object: Object { image: &plain, above: 7.0 }, moving_above: 7.0 };
        let shapes = Agreement::new(&both_plain, &plain, &plain);
        assert!(shapes.plain && shapes.voxels > 1000, "{shapes:?}");
        let scores = Scores { agreement: Some(shapes), ..Scores::default() };
        assert_eq!((scores.agrees(DEFORMATION.information), scores.earns(1.0, 2.0)), (None, None));
        // Nothing within the object, and nothing at all.
        let nothing = Volume::filled(grid.clone(), f32::NAN);
        assert_eq!(Agreement::new(&both, &tissue, &nothing), Agreement::default());
        let nowhere = Tissue { object: Object { above: 1e9, ..both.object }, ..both };
        assert_eq!(Agreement::new(&nowhere, &tissue, &tissue), Agreement::default());
        // So little tissue in common that chance could have it.
        let mut dot = Volume::filled(grid.clone(), 0.0);
        dot.data_mut()[40 * 36 * 10 + 40 * 18 + 20] = 9.0;
        let one = Tissue { object: Object { image: &dot, above: 1.0 }, moving_above: 5.0 };
        let one = Agreement::new(&one, &dot, &tissue);
        assert_eq!((one.object, one.voxels, one.information, one.plain), (1, 1, 0.0, false));
        let mut speck = plain.clone();
        speck.data_mut().iter_mut().enumerate().for_each(|(i, v)| {
            if i % 100 != 0 {
                *v = 0.0
            }
        });
        let speck = Agreement::new(&both, &tissue, &speck);
        assert!(speck.voxels > 10 && speck.information == 0.0, "{speck:?}");
        assert_eq!(Scores::default().agrees(DEFORMATION.information), None);
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
