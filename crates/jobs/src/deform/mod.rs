//! A deformation between two images, after an affine part, and its inverse.
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
mod fields;
mod job;
mod method;
mod record;
mod unfit;

pub(crate) use course::{Carried, Course, Task, given, outputs};
pub use job::{Job, check_points, check_way, usual_landmark_weight};
pub use method::{AffineChoice, Channel, DeformMethod};

use crate::error::{Error, Result};
use crate::listener::{Listener, Quiet, check};
use crate::options::{OutputOptions, usual_affine};
use crate::pair::{Distances, Pair, Views, landmark_remarks};
use fields::displacement;
use voxalign_compute::select::AnyDevice;
use voxalign_image::{Affine, Grid, Transform, VectorField, Volume};
use voxalign_options::Text;
use voxalign_register::attachment::Landmarks;
use voxalign_register::diffeo::calibrate::foreground_threshold;
use voxalign_register::diffeo::{
    ChannelInput, DeformInput, DeformResult, DeformationEvidence, Intensities, Matching,
    Preparation, ShapeInput, check_start, object_of, register_deformable,
};
use voxalign_register::linear::{AffineOptions, AffineResult, Init, register_affine, see};
use voxalign_register::measures::FieldMeasures;
use voxalign_register::resample::MovingImage;
use voxalign_register::scores::{Resampled, Scores, Scoring, Tissue};
use voxalign_register::similarity::Similarity;
use voxalign_register::{RegisterError, Remedy, Verdict};

/// Two images of a further channel.
#[derive(Debug, Clone)]
pub struct ChannelImages {
    /// The fixed and the moving one.
    pub images: [Volume<f32>; 2],
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
        return Ok(AffinePart { start: found.transform, found: Some(found), rival: None });
    };
    if !inputs.with_rival {
        return Ok(AffinePart { start, found: None, rival: None });
    }
    let rival = match register_affine(device, &input, options, &Quiet(listener)) {
        Ok(rival) => Some(rival).filter(|f| f.verdict.good),
        Err(e) if e.is_of_images() => None,
        Err(e) => return Err(e),
    };
    Ok(AffinePart { start, found: None, rival })
}

/// Registers images in memory; the moving one, and those of further channels, are let go. Of `written` the interpolation and
/// the value outside are looked at.
///
/// # Errors
/// Images that cannot be registered, an affine part from which no deformation can start, [`Error::Stopped`].
pub fn register(
    device: &AnyDevice,
    inputs: &mut Inputs,
    similarity: Similarity,
    matching: &Matching,
    written: &OutputOptions,
    listener: &dyn Listener,
) -> Result<Registered> {
    inputs.pair.check()?;
    let moving = inputs.pair.moving.grid().clone();
    let AffinePart { start, found, rival } = affine_part(device, inputs, listener)?;
    check(listener)?;
    check_start(&start, matching.model)?;
    let input = inputs.as_input(similarity, start);
    let mut deformation = register_deformable(device, &input, matching, listener)?;
    drop(input);
    let (images_pull, has_points) = (inputs.images_pull(), inputs.has_points());
    inputs.channels.clear();
    let outside = inputs.pair.outside(written);
    // Lent to a transform while the result is scored.
    let none = VectorField::zeros(Grid::axis_aligned([1; 3], [1.0; 3])?);
    let field = std::mem::replace(&mut deformation.forward, none);
    let whole = Transform::Composite(vec![displacement(field), Transform::Affine(start)]);
    let scored = Scored::of(device, &mut inputs.pair, &whole, (start, rival), (written, outside))?;
    let distances = inputs.distances(start, &whole);
    if let Transform::Composite(parts) = whole
        && let Some(Transform::Displacement(field)) = parts.into_iter().next()
    {
        deformation.forward = field.into_field();
    }
    let verdict = with_affine_part(deformation.verdict.clone(), found.as_ref());
    let voxels = inputs.pair.fixed.grid().len();
    let mut verdict = scored.judged(verdict, &deformation.measures, voxels, images_pull);
    let (views, evidence) = (scored.views, scored.evidence);
    if has_points {
        verdict = verdict.with(views.after.scores.pays(&views.before.scores));
    }
    if let Some(distances) = distances {
        let grids = [inputs.pair.fixed.grid(), &moving];
        verdict = distances.judged(verdict, grids[0]);
        verdict.remarks.extend(inputs.landmark_remarks(grids));
    }
    verdict.remarks.extend(inputs.pair.remarks(&views).into_iter().map(Text::from));
    Ok(Registered { affine: found, deformation, views, evidence, verdict })
}

/// The verdict on a deformation after that on its affine part.
fn with_affine_part(verdict: Verdict, affine: Option<&AffineResult>) -> Verdict {
    match affine {
        Some(affine) => verdict.after("affine part", &affine.verdict, Remedy::OtherAffinePart),
        None => verdict,
    }
}

/// The moving image on the fixed one.
struct Scored {
    views: Views,
    /// By the best affine map, where that is not the start.
    rival: Option<Scores>,
    /// What the images say, whatever similarity drove the deformation; none where one of them is constant.
    evidence: Option<DeformationEvidence>,
}

impl Scored {
    /// Brings the moving image to the fixed one by the result, by the affine map alone, and by its rival.
    fn of(
        device: &AnyDevice,
        pair: &mut Pair,
        whole: &Transform,
        (start, rival): (Affine, Option<AffineResult>),
        (written, outside): (&OutputOptions, f32),
    ) -> Result<Self> {
        let evidence = match see(device, &pair.as_affine_input()) {
            Ok(seen) => Some(DeformationEvidence::new(&seen, &start, whole)),
            Err(e) if e.is_of_images() => None,
            Err(e) => return Err(e.into()),
        };
        let moving = pair.take_moving()?;
        // A mask says by itself what counts.
        let masked = pair.fixed_mask.is_some();
        let moving_above = match foreground_threshold(moving.data()) {
            Some((_, above)) if !masked => above,
            _ => f32::NEG_INFINITY,
        };
        let object = object_of(&pair.fixed, pair.fixed_mask.as_ref());
        let tissue = object.map(|object| Tissue { object, moving_above });
        let moving = MovingImage::new(device, moving)?;
        let scoring = Scoring { tissue, ..pair.scoring(written, outside)? };
        let after = scoring.under(device, &moving, whole)?;
        let before: Resampled = scoring.under(device, &moving, &Transform::Affine(start))?;
        let rival = rival.map(|rival| {
            let rival = Transform::Affine(rival.transform);
            Ok::<_, Error>(scoring.under(device, &moving, &rival)?.scores)
        });
        Ok(Self { views: Views { before, after }, rival: rival.transpose()?, evidence })
    }

    /// The verdict with what the images say: `voxels` is the number of those of the fixed one.
    /// Where images pull, a deformation has to earn what it bends in them; pictures that were drawn of shapes tell too little for that.
    fn judged(
        &self,
        verdict: Verdict,
        measures: &FieldMeasures,
        voxels: usize,
        images_pull: bool,
    ) -> Verdict {
        let Views { before, after } = &self.views;
        let (worse, remedy) = match &self.rival {
            Some(rival) => (rival, Remedy::BetterStart),
            None => (&before.scores, Remedy::OtherAffinePart),
        };
        let energy = measures.harmonic_energy_of_object(voxels).filter(|_| images_pull);
        let earns = energy.and_then(|energy| after.scores.earns(energy));
        let agreement = self.evidence.filter(|_| images_pull);
        let plain = after.scores.agreement.is_some_and(|a| a.plain);
        let verdict = agreement
            .into_iter()
            .flat_map(|evidence| evidence.checks(plain))
            .fold(verdict, |verdict, check| verdict.with(Some(check)));
        let verdict = verdict.with(after.scores.worth(worse, remedy));
        verdict.with(after.scores.agrees()).with(earns)
    }
}

impl Inputs {
    /// Two images, of which an affine registration finds where the deformation starts.
    #[must_use]
    pub fn new(fixed: Volume<f32>, moving: Volume<f32>) -> Self {
        let pair = Pair::new(fixed, moving);
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

    /// Whether images pull.
    fn images_pull(&self) -> bool {
        self.weight > 0.0 || self.channels.iter().any(|c| c.weight > 0.0)
    }

    /// Whether points pull beside images that do.
    fn has_points(&self) -> bool {
        self.images_pull() && (self.landmarks.is_some() || !self.shapes.is_empty())
    }

    /// How far landmarks are apart by the affine part and by the whole.
    fn distances(&self, start: Affine, whole: &Transform) -> Option<Distances> {
        let pairs = self.landmarks.as_ref()?.pairs();
        let grid = self.pair.fixed.grid();
        Some(Distances::of(pairs, &Transform::Affine(start), whole, grid))
    }

    /// What to say of where they lie on the images of these grids.
    fn landmark_remarks(&self, grids: [&Grid; 2]) -> Vec<Text> {
        self.landmarks.as_ref().map_or_else(Vec::new, |l| landmark_remarks(l.pairs(), grids))
    }

    fn as_input(&self, similarity: Similarity, affine: Affine) -> DeformInput<'_> {
        let (fixed, moving) = (&self.pair.fixed, &self.pair.moving);
        let first = ChannelInput::new(fixed, moving, similarity);
        let mut channels = vec![ChannelInput { weight: self.weight, ..first }];
        for ChannelImages { images: [fixed, moving], similarity, weight, intensities } in
            &self.channels
        {
            let channel = ChannelInput::new(fixed, moving, *similarity);
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
