//! The record of a segmentation.

use super::GridRecord;
use crate::record::labels::title;
use serde::Serialize;
use voxalign_register::Verdict;

/// Where a front began.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct StartRecord {
    /// Its kind, such as `dense`.
    pub kind: String,
    /// Voxels inside, of several regions those with a label other than 0.
    pub voxels: usize,
    /// The bound on iterations that follows from it (theorem 1 of Tornai 2014): most voxels of a connected part of either side.
    pub bound: usize,
}

/// What there was at the start and after each iteration: lists of one length.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct HistoryRecord {
    /// Voxels inside, of several regions those with a label other than 0.
    pub size: Vec<usize>,
    /// Voxels inside with a neighbour outside; none for several regions.
    pub inner: Vec<usize>,
    /// Voxels outside with a neighbour inside; none for several regions.
    pub outer: Vec<usize>,
    /// The energy of the force, without the length of the front; `null` where the force has none.
    pub energy: Vec<Option<f64>>,
    /// Voxels that the iteration before took in, of several regions those that took a label other than 0.
    pub inwards: Vec<usize>,
    /// Voxels that it put out, of several regions those that took the label 0.
    pub outwards: Vec<usize>,
}

impl HistoryRecord {
    /// Iterations that it is of.
    #[must_use]
    pub fn iterations(&self) -> usize {
        self.size.len().saturating_sub(1)
    }
}

/// A component of the mixture of Gaussians that was fitted to the image.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ClassRecord {
    /// Its number by rising mean, from 1.
    pub class: usize,
    /// Its share of the image.
    pub weight: f64,
    /// Its mean, an intensity.
    pub mean: f64,
    /// Its standard deviation, an intensity.
    pub deviation: f64,
    /// The label of the region that it belongs to.
    pub label: i32,
}

/// A region as it ended, after it was tidied.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct RegionRecord {
    /// Its label; 0 is the background.
    pub label: i32,
    /// Its name, where a table of names has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its voxels.
    pub voxels: usize,
    /// Their volume, mm³; of an image of two dimensions with the thickness that its file has.
    pub volume_mm3: f64,
    /// The same in millilitres.
    pub volume_ml: f64,
    /// Of an image of two dimensions their area, mm².
    #[serde(skip_serializing_if = "Option::is_none")]
    pub area_mm2: Option<f64>,
    /// Connected parts.
    pub parts: usize,
    /// The mean of the image within; `null` without voxels.
    pub mean: Option<f64>,
    /// The standard deviation of the image within.
    pub deviation: Option<f64>,
    /// Whether it reaches the border of the image.
    pub at_border: bool,
    /// What the image says about its border; not of the background.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<FrontRecord>,
}

impl RegionRecord {
    /// The label with its name.
    #[must_use]
    pub fn title(&self) -> String {
        title(self.label, self.name.as_deref())
    }
}

/// What an image says about the border of a region.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FrontRecord {
    /// The mean difference of the image between neighbours on both sides, in standard deviations of the image.
    pub contrast: Option<f64>,
    /// The same two voxels further in.
    pub contrast_inside: Option<f64>,
    /// The same two voxels further out.
    pub contrast_outside: Option<f64>,
    /// The first over the mean of the others.
    pub edge: Option<f64>,
    /// The part of the variance of the image that is between inside and outside (Otsu's η).
    pub separation: f64,
    /// The most of it that a threshold gives.
    pub separable: f64,
    /// That threshold, an intensity.
    pub threshold: f64,
    /// What voxels say that a front has not seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_out: Option<HeldOutRecord>,
}

/// What every other voxel of a thinned image says about a front that was found without it: that of the object, or of several regions the one between those below a region and
/// all others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct HeldOutRecord {
    /// The difference between the voxels on both sides of the front, in standard deviations within them.
    pub contrast: Option<f64>,
    /// That difference as a part of the one three voxels further away on both sides.
    pub share: Option<f64>,
    /// The part of the variance of the image that is between both sides.
    pub separation: f64,
    /// The part of the voxels next to the front that were not looked at, as they are at the border of a mask.
    pub masked: f64,
}

/// What was changed after the front had come to rest.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TidiedRecord {
    /// Parts that were removed.
    pub parts_removed: usize,
    /// Voxels that they had.
    pub voxels_removed: usize,
    /// Voxels of holes that were filled.
    pub voxels_filled: usize,
}

/// What a preset measures of its object. What does not belong to it is left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct PresetRecord {
    /// Its name.
    pub name: String,
    /// The distance between the means of white and grey matter, in standard deviations within the tissues.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gap: Option<f64>,
    /// The same of white matter and cerebrospinal fluid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub span: Option<f64>,
    /// The volume that is taken for the brain, ml.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub brain_ml: Option<f64>,
    /// The part of the brain, or of the head, that is the object; of bone the part of the image above the threshold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<f64>,
    /// The volume of the object, ml.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object_ml: Option<f64>,
    /// The part of the brain's rim that is the object, in proportion to that of the whole brain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rim: Option<f64>,
    /// The part of the object that is connected with its largest part, before anything is tidied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub largest: Option<f64>,
    /// The standard deviation of the noise, HU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub noise: Option<f64>,
    /// The intensity that a hundredth of the image is below, without what is below -1200 HU: of air in computed tomography.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub air: Option<f64>,
    /// The median of what is above -500 HU: of tissue in computed tomography.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tissue: Option<f64>,
    /// Of what has been cut out: where more than half of the image is exactly its least value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut_out: Option<CutOutRecord>,
}

/// What has been cut out of computed tomography.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CutOutRecord {
    /// The intensity that a hundredth of it is below, HU: of fat in marrow.
    pub least: f64,
    /// The intensity that a hundredth of it is above, HU: of compact bone.
    pub most: f64,
    /// The part of it above the threshold.
    pub above: f64,
}

/// The result of a segmentation.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SegmentFound {
    /// The force that moved the front, or the preset.
    pub force: String,
    /// What a preset measures; of other segmentations nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<PresetRecord>,
    /// Where it began.
    pub start: StartRecord,
    /// Iterations by the force.
    pub iterations: usize,
    /// The most that were allowed.
    pub limit: usize,
    /// Iterations of smoothing between them.
    pub smoothing_iterations: usize,
    /// Why it ended: `steady`, `vanished`, `filled`, `repeating` or `limit`.
    pub ending: String,
    /// After how many iterations a set that repeats is the same again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub period: Option<usize>,
    /// The mixture that was fitted, where one was.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassRecord>,
    /// The regions, the background first.
    pub regions: Vec<RegionRecord>,
    /// The part of the variance of the image that is between the regions, before anything was tidied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explained: Option<f64>,
    /// The most that as many ranges of intensities explain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explained_by_ranges: Option<f64>,
    /// What was tidied; `null` where nothing was asked for.
    pub tidied: Option<TidiedRecord>,
    /// Dice of the result and that of a start that is moved by half the distance of its shapes, where it is dense.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agreement: Option<f64>,
    /// What there was after each iteration.
    pub history: HistoryRecord,
}

record! {
    /// The record of a segmentation. Numbers that are not finite are written as `null`.
    #[derive(Debug, Clone, Default, PartialEq, Serialize)]
    SegmentRecord {
        /// The grid of the image.
        pub grid: GridRecord,
        /// What was found.
        #[serde(flatten)]
        pub found: SegmentFound,
    }
}

begun!(SegmentRecord verdict: Verdict::new(Vec::new(), Vec::new()));
