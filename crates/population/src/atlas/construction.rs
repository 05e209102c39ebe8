//! The construction of an atlas: its inputs and its result.

use super::checkpoint::Checkpoints;
use super::geometry::{CarriedGeometry, TemplateGeometry};
use super::options::{AtlasOptions, Sharpness};
use super::subjects::memory::{MemoryOptions, MemoryPlan};
use super::subjects::source::Source;
use super::template::snapshot::Snapshot;
use crate::error::Result;
use crate::stream::Trace;
use voxalign_compute::Device;
use voxalign_compute::comm::Team;
use voxalign_image::{Grid, VectorField, Volume};
use voxalign_register::measures::FieldMeasures;
use voxalign_register::multiscale::ScaleRecord;
use voxalign_register::{Progress, Verdict};

/// Bins of the entropy over the subjects at each voxel.
pub const ENTROPY_BINS: usize = 16;

/// An atlas.
#[derive(Debug, Clone, PartialEq)]
pub struct Atlas {
    /// The mean of the subjects after their deformation, calibrated to 0 to 1, one image a channel.
    pub template: Vec<Volume<f32>>,
    /// The mean of the subjects after their affine alignment alone.
    pub affine_mean: Vec<Volume<f32>>,
    /// The weighted variance of the first channel over the subjects, calibrated units squared.
    pub variance: Volume<f32>,
    /// The entropy of the first channel over the subjects at each voxel, bits: [`ENTROPY_BINS`] bins from 0
    /// to 1.
    pub entropy: Volume<f32>,
    /// The weighted mean over the subjects of the natural logarithm of the Jacobian determinants: 0
    /// everywhere for an atlas without bias.
    pub log_jacobian: Volume<f32>,
    /// For each subject the correlation of its first channel, after its affine map and after its deformation, with the mean of the
    /// others there.
    pub correlations: Vec<[f64; 2]>,
    /// For each subject the information that its first channel, after its affine map and after its deformation, and the mean of the others
    /// there have of each other within the tissue of that mean, nats.
    pub information: Vec<[f64; 2]>,
    /// How sharp the template was before each iteration, and after the last one of each scale.
    pub sharpness: Vec<Sharpness>,
    /// Entropy and gradient energy of the mean after affine alignment, and of the template.
    pub ends: [Sharpness; 2],
    /// The geometry of the template, as in the [source](Source::geometry).
    pub geometry: Vec<TemplateGeometry>,
    /// Middle slices of the template at some iterations.
    pub snapshots: Vec<Snapshot>,
    /// The scales, coarse to fine; energies are weighted means over the subjects.
    pub scales: Vec<ScaleRecord>,
    /// Where the subjects of each device of this rank were between iterations.
    pub plans: Vec<MemoryPlan>,
    /// The timeline of the last iteration, where subjects were streamed.
    pub trace: Option<Trace>,
}

/// The result for a subject.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// Its number among those of the source.
    pub subject: usize,
    /// The displacement `u`, mm: a point `x` of the atlas is at `A(x + u(x))` in the subject.
    pub forward: VectorField,
    /// The displacement `w` that takes it back: a point `y` of the subject is at `p + w(p)` in the
    /// atlas, with `p = A⁻¹ y`.
    pub inverse: VectorField,
    /// The determinant of the Jacobian of `x + u(x)`.
    pub jacobian: Volume<f32>,
    /// Its images on the grid of the atlas, calibrated.
    pub warped: Vec<Volume<f32>>,
    /// The geometry of the template.
    pub geometry: Vec<CarriedGeometry>,
    /// Numbers of the fields.
    pub measures: FieldMeasures,
    /// Voxels that were smoothed at the end, near extreme changes of volume and where the inverse missed too far, summed over rounds.
    pub mended: usize,
    /// Whether its deformation can be used.
    pub verdict: Verdict,
}

/// Takes what is found for each subject of this rank, in any order, from the threads of its devices.
pub trait Sink: Sync {
    /// Takes a result, which is not kept afterwards.
    ///
    /// # Errors
    /// What ends the construction.
    fn subject(&self, found: Found) -> Result<()>;
}

impl<F: Fn(Found) -> Result<()> + Sync> Sink for F {
    fn subject(&self, found: Found) -> Result<()> {
        self(found)
    }
}

/// The construction of an atlas on a grid.
#[derive(Clone, Copy)]
pub struct Construction<'a, D: Device> {
    /// The devices of all ranks; they share the subjects.
    pub team: &'a Team<D>,
    /// The grid of the atlas.
    pub grid: &'a Grid,
    /// The subjects, the same at all ranks.
    pub source: &'a dyn Source,
    /// How it is done.
    pub options: &'a AtlasOptions,
    /// The memory that it may take.
    pub memory: &'a MemoryOptions,
    /// Where it is saved from time to time.
    pub checkpoints: Option<&'a Checkpoints<'a>>,
    /// Whether to resume from the last checkpoint, if there is one.
    pub resume: bool,
    /// Who listens; of several ranks every one to its own.
    pub progress: &'a dyn Progress,
    /// Is called with where subjects will be kept, before the first is read.
    pub planned: &'a (dyn Fn(&[MemoryPlan]) + Sync),
}

/// Ignores memory plans.
pub fn unheard(_: &[MemoryPlan]) {}

/// Where the time of the iterations goes.
#[derive(Debug, Clone, PartialEq)]
pub struct Times {
    /// Seconds to upload the calibrated subjects to the device; 0 where they do not stay there.
    pub load: f64,
    /// The scales, with their seconds.
    pub scales: Vec<ScaleRecord>,
    /// Where the subjects of each device of this rank were between iterations.
    pub plans: Vec<MemoryPlan>,
    /// The timeline of the last iteration, where subjects were streamed.
    pub trace: Option<Trace>,
}
