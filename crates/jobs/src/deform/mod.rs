//! Deformable registration of two images, after an affine part, with the inverse.
//!
//! The chain: an affine registration, unless a start is given; the deformation from there; and a verdict on both. A
//! start that is given is compared with the best affine map at the end, so that a wrong one is seen.
//!
//! ```no_run
//! use voxalign_jobs::{Caller, Job, Silent, deform, machine};
//! use voxalign_options::Chosen;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut job = deform::Job::new("fixed.nii.gz", "moving.nii.gz", "out");
//! job.method.matching.similarity = Chosen::of(voxalign_register::similarity::Similarity::MI);
//! let machine = machine::Machine::start(Default::default(), machine::Auto::Gpu)?;
//! let done = job.run(&machine, &Caller::default(), &Silent)?;
//! println!("{}", done.record.verdict.summary());
//! # Ok(())
//! # }
//! ```

mod course;
mod deformer;
mod fields;
mod job;
mod method;
mod record;

pub(crate) use course::{Carried, Course, Task, given, outputs, results};
pub(crate) use deformer::Deformer;
use fields::displacement;
pub(crate) use fields::{Fields, field_files, write_chains};
pub use job::{Job, check_points, check_way};
pub use method::{AffineChoice, Channel, DeformMethod};
pub(crate) use record::record;

use crate::error::{Error, Result};
use crate::listener::{Listener, Quiet, check};
use crate::options::{OutputOptions, usual_affine};
use crate::pair::{Distances, Pair, Views, landmark_remarks, outside};
use std::sync::Arc;
use voxalign_compute::select::AnyDevice;
use voxalign_image::{Affine, Grid, Transform, VectorField, Volume};
use voxalign_options::{Text, text};
use voxalign_register::attachment::Landmarks;
use voxalign_register::diffeo::{
    ChannelInput, DeformInput, DeformResult, DeformationEvidence, Intensities, Matching,
    Preparation, ShapeInput, energy_allowed, information_asked, object_of,
};
use voxalign_register::evidence::Seen;
use voxalign_register::linear::{
    AGREEMENT_CHECK, AffineOptions, AffineResult, Init, register_affine, see,
};
use voxalign_register::measures::FieldMeasures;
use voxalign_register::resample::MovingImage;
use voxalign_register::scores::{Resampled, Scores, Scoring, Tissue};
use voxalign_register::similarity::Similarity;
use voxalign_register::{RegisterError, Remedy, Verdict};

/// Two images of a further channel.
#[derive(Debug, Clone)]
pub struct ChannelImages {
    /// The fixed and the moving one.
    pub images: [Arc<Volume<f32>>; 2],
    /// How they are compared.
    pub similarity: Similarity,
    /// The factor of that energy.
    pub weight: f64,
    /// What becomes of their intensities first.
    pub intensities: Intensities,
}

/// What was read.
#[derive(Debug)]
pub struct Inputs {
    /// The images.
    pub pair: Pair,
    /// The factor of their energy; 0 where they only say where everything is.
    pub weight: f64,
    /// Further channels.
    pub channels: Vec<ChannelImages>,
    /// The affine map to start from, where it is not to be found.
    pub start: Option<Affine>,
    /// Whether a start that was given is compared with the best affine map of the images.
    pub with_rival: bool,
    /// Where the search for that map starts, where it is to be found.
    pub init: Init,
    /// How it is made otherwise.
    pub way: AffineOptions,
    /// What is done with the images first.
    pub preparation: Preparation,
    /// Corresponding points that pull as well.
    pub landmarks: Option<Landmarks>,
    /// Surfaces, curves and points without correspondence that pull as well.
    pub shapes: Vec<ShapeInput>,
}

/// A registration of images in memory.
#[derive(Debug)]
pub struct Registered {
    /// The affine part, where it was to be found.
    pub affine: Option<AffineResult>,
    /// The deformation; its own verdict is a part of [`verdict`](Self::verdict).
    pub deformation: DeformResult,
    /// The moving image on the fixed one by the affine part and by the result, with scores.
    pub views: Views,
    /// What the images say of it, whatever similarity drove it; none where one of them is constant.
    pub evidence: Option<DeformationEvidence>,
    /// Whether the result can be used, and why.
    pub verdict: Verdict,
}

/// The affine part of a registration.
struct AffinePart {
    /// From the fixed to the moving world.
    start: Affine,
    /// How it was found, where it was.
    found: Option<AffineResult>,
    /// The best one, where another was given.
    rival: Option<AffineResult>,
    /// The images as evidence looks at them, where a registration has.
    seen: Option<Arc<Seen>>,
    /// What a registration that has tried it says of images that fit better with one of them mirrored.
    mirrored: Option<Verdict>,
}

/// Finds the affine part; a start that was given is compared with the best affine map at the end.
fn affine_part(
    device: &AnyDevice,
    inputs: &Inputs,
    listener: &dyn Listener,
) -> Result<AffinePart, RegisterError> {
    let options = &inputs.way;
    let input = inputs.pair.as_affine_input();
    let Some(start) = inputs.start else {
        let options = AffineOptions { init: inputs.init.clone(), ..options.clone() };
        let found = register_affine(device, &input, &options, listener)?;
        let (start, seen, mirrored) = (found.transform, found.seen.clone(), found.mirrored());
        return Ok(AffinePart { start, found: Some(found), rival: None, seen, mirrored });
    };
    if !inputs.with_rival {
        return Ok(AffinePart { start, found: None, rival: None, seen: None, mirrored: None });
    }
    let rival = match register_affine(device, &input, options, &Quiet(listener)) {
        Ok(rival) => Some(rival),
        Err(e) if e.is_of_images() => None,
        Err(e) => return Err(e),
    };
    let seen = rival.as_ref().and_then(|rival| rival.seen.clone());
    let mirrored = rival.as_ref().and_then(AffineResult::mirrored);
    let rival = rival.filter(|f| f.verdict.good);
    Ok(AffinePart { start, found: None, rival, seen, mirrored })
}

/// Registers images in memory. Of `written` the interpolation and the value outside are looked at.
///
/// # Errors
/// Images that cannot be registered, an affine part from which no deformation can start, [`Error::Stopped`].
pub fn register(
    device: &AnyDevice,
    inputs: &Inputs,
    similarity: Similarity,
    matching: &Matching,
    written: &OutputOptions,
    listener: &dyn Listener,
) -> Result<Registered> {
    Ok(register_by(device, inputs, similarity, matching, written, listener)?.0)
}

/// The same by whatever deforms images, with what that finds beside fields.
pub(crate) fn register_by<D: Deformer>(
    device: &AnyDevice,
    inputs: &Inputs,
    similarity: Similarity,
    deformer: &D,
    written: &OutputOptions,
    listener: &dyn Listener,
) -> Result<(Registered, D::Extra)> {
    let pair = &inputs.pair;
    let outside = outside(device, written, &pair.moving)?;
    pair.rule()?;
    let AffinePart { start, found, rival, seen, mirrored } = affine_part(device, inputs, listener)?;
    check(listener)?;
    deformer.check_start(&start)?;
    let input = inputs.as_input(similarity, start);
    let (mut deformation, extra) = deformer.deform(device, &input, listener)?;
    // Lent to a transform while the result is scored.
    let none = VectorField::zeros(Grid::axis_aligned([1; 3], [1.0; 3])?);
    let field = std::mem::replace(&mut deformation.forward, none);
    let whole = Transform::Composite(vec![displacement(field), Transform::Affine(start)]);
    let evidence = evidence(device, pair, seen, (&start, &whole))?;
    let scored = Scored::of(
        device,
        (pair, Arc::clone(&pair.moving)),
        &whole,
        (start, rival),
        deformation.foreground,
        (written, outside),
    )?;
    let to_judge = Found {
        pulls: inputs.pulls(),
        verdict: with_affine_part(
            deformation.verdict.clone(),
            found.as_ref(),
            mirrored,
            evidence.as_ref(),
        ),
        measures: &deformation.measures,
        voxels: deformation.jacobian.grid().len(),
        evidence,
        start,
        whole: &whole,
    };
    let (verdict, _) = inputs.judged(to_judge, &scored, [pair.fixed.grid(), pair.moving.grid()]);
    if let Transform::Composite(parts) = whole
        && let Some(Transform::Displacement(field)) = parts.into_iter().next()
    {
        deformation.forward = field.into_field();
    }
    Ok((Registered { affine: found, deformation, views: scored.views, evidence, verdict }, extra))
}

/// The verdict on a deformation after that on its affine part, with what is said of mirrored images. That the images agree too little
/// under the affine part alone counts no more where the deformation confirms it.
fn with_affine_part(
    mut verdict: Verdict,
    affine: Option<&AffineResult>,
    mirrored: Option<Verdict>,
    evidence: Option<&DeformationEvidence>,
) -> Verdict {
    if let Some(affine) = affine {
        let (before, remark) = confirmed(affine.verdict.clone(), evidence);
        verdict = verdict.after("affine part", &before, Remedy::OtherAffinePart);
        verdict.remarks.extend(remark);
    }
    let Some(mirrored) = mirrored else { return verdict };
    // Those of an affine part are in the verdict already.
    let further = if affine.is_some() { Vec::new() } else { mirrored.checks };
    let mut verdict = further.into_iter().fold(verdict, |verdict, c| verdict.with(Some(c)));
    verdict.remarks.extend(mirrored.remarks);
    verdict
}

/// The verdict on an affine part without the check of the agreement of its images, where that failed and the deformation confirms it; and
/// a remark on that.
fn confirmed(
    mut affine: Verdict,
    evidence: Option<&DeformationEvidence>,
) -> (Verdict, Option<Text>) {
    let failed = affine.checks.iter().position(|c| c.name == AGREEMENT_CHECK && !c.passed);
    let confirms = evidence.filter(|e| e.confirms_start());
    let (Some(failed), Some(evidence)) = (failed, confirms) else { return (affine, None) };
    let failed = affine.checks.remove(failed);
    let remark = text!(
        "the images agree too little under the affine part alone ({}; {}), and the deformation confirms it: after it they agree by {}",
        format!("{:.2}", failed.value),
        failed.asked,
        format!("{:.1}", evidence.deformed.agreement())
    );
    (affine, Some(remark))
}

/// What the images say of a whole transform, whatever similarity drove the deformation; none where one of them is constant.
fn evidence(
    device: &AnyDevice,
    pair: &Pair,
    seen: Option<Arc<Seen>>,
    (start, whole): (&Affine, &Transform),
) -> Result<Option<DeformationEvidence>> {
    let seen = match seen.map_or_else(|| see(device, &pair.as_affine_input()).map(Arc::new), Ok) {
        Ok(seen) => seen,
        Err(e) if e.is_of_images() => return Ok(None),
        Err(e) => return Err(e.into()),
    };
    Ok(Some(DeformationEvidence::new(&seen, start, whole)))
}

/// The moving image on the fixed one.
struct Scored {
    views: Views,
    /// By the best affine map, where that is not the start.
    rival: Option<Scores>,
}

impl Scored {
    /// Brings the moving image to the fixed one by the result, by the affine map alone, and by its rival.
    fn of(
        device: &AnyDevice,
        (pair, moving): (&Pair, Arc<Volume<f32>>),
        whole: &Transform,
        (start, rival): (Affine, Option<AffineResult>),
        foreground: [Option<f32>; 2],
        output: (&OutputOptions, f32),
    ) -> Result<Self> {
        // A mask says by itself what counts.
        let moving_above = foreground[1].filter(|_| pair.fixed_mask.is_none());
        let moving_above = moving_above.unwrap_or(f32::NEG_INFINITY);
        let object = object_of(&pair.fixed, foreground[0], pair.fixed_mask.as_ref());
        let tissue = object.map(|object| Tissue { object, moving_above });
        let moving = MovingImage::new(device, moving)?;
        let rule = pair.rule()?;
        let scoring = Scoring { tissue, ..pair.scoring(&rule, output)? };
        let after = scoring.under(device, &moving, whole)?;
        let before: Resampled = scoring.under(device, &moving, &Transform::Affine(start))?;
        let rival = rival.map(|rival| {
            let rival = Transform::Affine(rival.transform);
            Ok::<_, Error>(scoring.under(device, &moving, &rival)?.scores)
        });
        Ok(Self { views: Views { before, after }, rival: rival.transpose()? })
    }
}

/// What pulls in a deformation.
#[derive(Clone, Copy)]
struct Pulls {
    images: bool,
    points: bool,
}

/// A deformation that is to be judged.
struct Found<'a> {
    pulls: Pulls,
    /// What the registration says of it.
    verdict: Verdict,
    measures: &'a FieldMeasures,
    /// Voxels of the grid that these are of.
    voxels: usize,
    evidence: Option<DeformationEvidence>,
    /// The affine part, and the whole.
    start: Affine,
    whole: &'a Transform,
}

impl Inputs {
    /// Two images, of which an affine registration finds where the deformation starts.
    #[must_use]
    pub fn new(fixed: impl Into<Arc<Volume<f32>>>, moving: impl Into<Arc<Volume<f32>>>) -> Self {
        Self::of(Pair::new(fixed, moving))
    }

    /// The same of a pair.
    pub(crate) fn of(pair: Pair) -> Self {
        let (init, way) = (Init::default(), usual_affine(pair.fixed.grid().is_2d()));
        let preparation = Preparation::default();
        let (channels, shapes) = (Vec::new(), Vec::new());
        let (start, landmarks, with_rival) = (None, None, true);
        Self {
            pair,
            weight: 1.0,
            channels,
            start,
            with_rival,
            init,
            way,
            landmarks,
            shapes,
            preparation,
        }
    }

    /// The same images with another fixed one on the same grid, and what is odd about that one's file; masks and affine start are
    /// those of all. Labels, landmarks, shapes and channels are of one image and not of the other.
    pub(crate) fn of_frame(&self, fixed: Arc<Volume<f32>>, oddities: Vec<Text>) -> Result<Self> {
        Ok(Self {
            start: self.start,
            with_rival: self.with_rival,
            init: self.init.clone(),
            way: self.way.clone(),
            preparation: self.preparation,
            ..Self::of(self.pair.of_frame(fixed, oddities)?)
        })
    }

    fn pulls(&self) -> Pulls {
        let images = self.weight > 0.0 || self.channels.iter().any(|c| c.weight > 0.0);
        Pulls { images, points: self.landmarks.is_some() || !self.shapes.is_empty() }
    }

    /// The verdict with what the images and the landmarks say, and how far landmarks are apart.
    ///
    /// Where images pull, a deformation has to earn what it bends in them; pictures that were drawn of shapes tell too little
    /// for that.
    fn judged(
        &self,
        found: Found<'_>,
        scored: &Scored,
        grids: [&Grid; 2],
    ) -> (Verdict, Option<Distances>) {
        let Found { pulls, mut verdict, measures, voxels, evidence, start, whole } = found;
        let Views { before, after } = &scored.views;
        let (before, after) = (&before.scores, &after.scores);
        let (worse, remedy) = match &scored.rival {
            Some(rival) => (rival, Remedy::BetterStart),
            None => (before, Remedy::OtherAffinePart),
        };
        if pulls.images
            && let Some(evidence) = evidence
        {
            let plain = after.agreement.is_some_and(|a| a.plain);
            for check in evidence.checks(plain) {
                verdict = verdict.with(Some(check));
            }
        }
        let energy = measures.harmonic_energy_of_object(voxels).filter(|_| pulls.images);
        let most = energy_allowed(evidence.as_ref());
        let earns = energy.and_then(|energy| after.earns(energy, most));
        verdict = verdict
            .with(after.worth(worse, remedy))
            .with(after.agrees(information_asked(evidence.as_ref())))
            .with(earns);
        if pulls.images && pulls.points {
            verdict = verdict.with(after.pays(before));
        }
        let distances = self.landmarks.as_ref().map(|landmarks| {
            let of = Distances::of(landmarks.pairs(), &Transform::Affine(start), whole, grids[0]);
            verdict = of.judged(std::mem::take(&mut verdict), grids[0]);
            verdict.remarks.extend(landmark_remarks(landmarks.pairs(), grids));
            of
        });
        verdict.remarks.extend(self.pair.remarks(&scored.views));
        (verdict, distances)
    }

    pub(crate) fn as_input(&self, similarity: Similarity, affine: Affine) -> DeformInput<'_> {
        let (fixed, moving) = (&*self.pair.fixed, &*self.pair.moving);
        let first = ChannelInput::new(fixed, moving, similarity);
        let mut channels = vec![ChannelInput { weight: self.weight, ..first }];
        for ChannelImages { images: [fixed, moving], similarity, weight, intensities } in
            &self.channels
        {
            let channel = ChannelInput::new(&**fixed, &**moving, *similarity);
            let (weight, intensities) = (*weight, *intensities);
            channels.push(ChannelInput { weight, intensities, ..channel });
        }
        let [fixed_mask, moving_mask] =
            [&self.pair.fixed_mask, &self.pair.moving_mask].map(|m| m.as_ref().map(Into::into));
        let (landmarks, shapes) = (self.landmarks.clone(), self.shapes.clone());
        let preparation = self.preparation;
        DeformInput { channels, fixed_mask, moving_mask, affine, landmarks, shapes, preparation }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_register::Check;
    use voxalign_register::evidence::{Evidence, Measures};

    #[test]
    fn a_deformation_confirms_that_its_affine_part_agrees_and_nothing_else() {
        let affine = || {
            let too_little = Check::at_least(AGREEMENT_CHECK, -0.4, 0.0);
            Verdict::new(vec![too_little, Check::at_least("overlap", 0.1, 0.3)], Vec::new())
        };
        // As of heads of two kinds that are bent by 10 mm.
        let measures = |edges, information, tissue| Measures {
            edges,
            information,
            tissue,
            ..Measures::default()
        };
        let found = measures(0.69, 0.31, 0.27);
        let (near, elsewhere) = (measures(0.48, 0.19, 0.06), measures(0.41, 0.13, 0.04));
        let agree = Evidence { found, near, elsewhere, ..Evidence::default() };
        let confirms =
            DeformationEvidence { straight: agree, deformed: agree, ..Default::default() };
        let (rest, remark) = confirmed(affine(), Some(&confirms));
        assert!(rest.checks.len() == 1 && rest.checks[0].name == "overlap", "{rest:?}");
        assert!(remark.unwrap().to_string().contains("(-0.40; at least 0)"));
        // Nothing is said where it does not, or nobody knows, or nothing failed.
        let does_not = DeformationEvidence { deformed: agree, ..Default::default() };
        assert_eq!(confirmed(affine(), Some(&does_not)), (affine(), None));
        assert_eq!(confirmed(affine(), None), (affine(), None));
        let good = Verdict::new(vec![Check::at_least(AGREEMENT_CHECK, 1.0, 0.0)], Vec::new());
        assert_eq!(confirmed(good.clone(), Some(&confirms)), (good, None));
    }
}
