//! Two anatomies registered: tissue probabilities, images, surfaces, curves, points and landmarks together, by one affine
//! part and one deformation (L. K. Ha, 2011, chapter 3).
//!
//! An [`Anatomy`] is a file that lists what there is, each under a name by which the two are [`matched`]. An anatomy of one
//! image is registered as [`deform`](crate::deform) does it, to the bit.
//!
//! ```no_run
//! use voxalign_jobs::{Caller, Job, Silent, anatomy, machine};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let job = anatomy::Job::new("template.toml", "patient.toml", "out");
//! let machine = machine::Machine::start(Default::default(), machine::Auto::Gpu)?;
//! let done = job.run(&machine, &Caller::default(), &Silent)?;
//! println!("{}", done.record.verdict.summary());
//! # Ok(())
//! # }
//! ```

mod chosen;
mod drawing;
mod file;
mod job;
mod matched;
mod measures;
mod place;
mod prepared;
mod read;
mod subject;
mod tables;
mod task;

pub(crate) use job::{extension, of_shapes_alone, results};
pub(crate) use measures::{follows, marks_at, shape as shape_record};
pub(crate) use subject::{Common, Subject, check_all, files_of, geometry, is_anatomy};
pub(crate) use task::{write_list, write_mesh};

pub use file::{Anatomy, Given, Kind, OfVoxels, Part, Source};
pub use job::{Inputs, Job, Start};
pub use matched::{Matched, SHAPE_WEIGHT, WIDTH, matched};
