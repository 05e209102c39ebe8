//! Registration of two images by an elastic body that they move, after an affine part, with the inverse.
//!
//! A mesh of tetrahedra lies in the fixed image. The images push it as their similarity says, and it moves with mass, damping and stiffness
//! until the stress within it balances them. What a deformation has by [`deform`] is found, written and judged here too,
//! and `mesh.vtu` with it: the body as it ended, with its strain.
//!
//! ```no_run
//! use voxalign_jobs::{Caller, Job, Silent, elastic, machine};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut job = elastic::Job::new("fixed.nii.gz", "moving.nii.gz", "out");
//! job.mesh.mesh_spacing = Some(10.0);
//! job.tissue = job.tissue.with("young", 3000.0)?;
//! let machine = machine::Machine::start(Default::default(), machine::Auto::Gpu)?;
//! let done = job.run(&machine, &Caller::default(), &Silent)?;
//! println!("{}", done.record.verdict.summary());
//! # Ok(())
//! # }
//! ```
//!
//! With [`Job::stream`] it is a sequence of fixed images, which the body follows ([`Job::track`]); a [`Tracker`] follows one in memory.

mod body;
mod job;
mod materials;
mod measures;
mod mesh;
mod sequence;
mod slices;
mod state;
mod stream;
mod task;

pub use body::of_image;
pub use job::{Inputs, Job};
pub use materials::read_materials;
pub use measures::Measures;
pub use mesh::{MeshOptions, USUAL_SPACING_MM, labelled};
pub use sequence::{Begin, Tracked, Tracker};
pub use state::{deformed, read_state};
pub(crate) use task::results;

use crate::deform;
use crate::error::Result;
use crate::listener::Listener;
use crate::options::OutputOptions;
use voxalign_compute::select::AnyDevice;
use voxalign_register::diffeo::ElasticSetting;
use voxalign_register::model::elastic::ElasticResult;
use voxalign_register::similarity::Similarity;

/// A registration of images in memory.
#[derive(Debug)]
pub struct Registered {
    /// As of any deformation; the verdict has what is said of the body, too.
    pub images: deform::Registered,
    /// The body at its end.
    pub body: ElasticResult,
    /// Its strain, stress and volume there.
    pub measures: Measures,
}

/// Registers images in memory by a body in the world of the fixed one. Of `written` the interpolation and the value outside are
/// looked at.
///
/// ```
/// use voxalign_compute::select::DeviceChoice;
/// use voxalign_image::{Affine, Grid, Volume};
/// use voxalign_jobs::{Silent, deform, elastic};
/// use voxalign_register::diffeo::ElasticSetting;
/// use voxalign_register::multiscale::Schedule;
/// use voxalign_register::similarity::Similarity;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let ball = |centre: f64| {
///     let grid = Grid::axis_aligned([24, 24, 24], [2.0; 3])?;
///     let of = |i: usize, j: usize, k: usize| {
///         let [x, y, z] = [i, j, k].map(|v| 2.0 * v as f64 - 23.0);
///         let away = ((x - centre).powi(2) + y * y + z * z).sqrt();
///         (100.0 / (1.0 + ((away - 12.0) / 2.0).exp())) as f32
///     };
///     Ok::<_, voxalign_image::ImageError>(Volume::from_fn(grid, of))
/// };
/// let (fixed, moving) = (ball(0.0)?, ball(2.0)?);
/// let body = elastic::of_image(fixed.grid(), 12.0, Default::default())?;
/// let mut setting = ElasticSetting::new(body);
/// setting.multiscale.schedule = Schedule::of(&[(2, 20)]);
/// let mut inputs = deform::Inputs::new(fixed, moving);
/// inputs.start = Some(Affine::identity());
/// inputs.with_rival = false;
/// let device = DeviceChoice::Cpu.open(Some(2))?;
/// let found =
///     elastic::register(&device, &inputs, Similarity::SSD, &setting, &Default::default(), &Silent)?;
/// assert_eq!(found.body.state.displacements.len(), 125);
/// assert!(found.measures.least.ratio > 0.5);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// As of [`deform::register`]; a mesh outside of the fixed image, and what else [`ElasticSetting::check`] refuses.
pub fn register(
    device: &AnyDevice,
    inputs: &deform::Inputs,
    similarity: Similarity,
    setting: &ElasticSetting,
    written: &OutputOptions,
    listener: &dyn Listener,
) -> Result<Registered> {
    setting.check(&inputs.as_input(similarity, Default::default()))?;
    let (mut images, body) =
        deform::register_by(device, inputs, similarity, setting, written, listener)?;
    let scales = &images.deformation.scales;
    let measures = Measures::of(&body, scales, setting.elastic.tolerance)?;
    images.verdict = measures.judged(std::mem::take(&mut images.verdict));
    Ok(Registered { images, body, measures })
}
