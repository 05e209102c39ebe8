//! Medical image registration: exact geometry, the same bits every time, a verdict on every result.
//!
//! This crate is the front door: it names what users of the libraries need, and nothing else is in it. What the program
//! `voxalign` does is one call here, with the same result, to the bit, and the same verdict:
//!
//! ```no_run
//! use voxalign::{Auto, Caller, Job, Machine, Silent, affine};
//!
//! fn main() -> Result<(), voxalign::Error> {
//!     let job = affine::Job::new("template.nii.gz", "scan.nii.gz", "out");
//!     let machine = Machine::start(Default::default(), Auto::Gpu)?;
//!     let done = job.run(&machine, &Caller::default(), &Silent)?;
//!     println!("{}", done.record.verdict.summary());
//!     Ok(())
//! }
//! ```
//!
//! | what | where |
//! |---|---|
//! | jobs, from files to a judged and recorded result | [`affine`], [`deform`], [`elastic`], [`anatomy`], [`atlas`], [`drr`], [`pose`], [`segment`], [`stack`], [`surface`] |
//! | the same of images in memory | [`affine::register`], [`deform::register`], [`elastic::register`], [`segment::segment`], [`surface::make`] |
//! | files through transforms, inverted and joined transforms, scores, other formats, what files hold | [`apply`], [`invert`], [`compose`], [`compare`], [`convert`], [`info`] |
//! | the same of what is in memory | [`apply::image`], [`apply::labels`], [`chain`], [`register::compare`], [`info::of_mesh`] and others |
//! | images, grids, transforms, points, meshes | [`image`] |
//! | their files | [`io`] |
//! | points and meshes through maps, from file to file | [`carry`] |
//! | resampling, comparing, inverting, and the registrations themselves | [`register`] |
//! | many images: streams and atlases | [`population`] |
//! | devices and operators | [`compute`] |
//! | meshes of tetrahedra, and elastic bodies of them | [`elasticity`] |
//! | level sets: fronts, forces, starts and bounds | [`level_sets`] |
//! | isosurfaces, their smoothing, decimation and figures | [`surfaces`] |
//! | records and reports | [`report`] |
//!
//! The folder `examples` has a program for each job, and some for what is in memory.

pub use voxalign_compute as compute;
pub use voxalign_elasticity as elasticity;
pub use voxalign_image as image;
pub use voxalign_io as io;
pub use voxalign_population as population;
pub use voxalign_register as register;
pub use voxalign_report as report;
pub use voxalign_segment as level_sets;
pub use voxalign_surface as surfaces;

pub use voxalign_compute::comm::Communicator;
pub use voxalign_compute::select::{AnyDevice, DeviceChoice};
pub use voxalign_image::{Affine, Grid, LabelMap, Mesh, PointSet, Transform, VectorField, Volume};
pub use voxalign_jobs::machine::{Auto, Machine, MachineOptions};
pub use voxalign_jobs::{
    Caller, Done, Error, Job, Level, Listener, OfPair, Plan, Read, Reads, Result, Silent, affine,
    anatomy, apply, atlas, bids, carry, chain, check, compare, compose, convert, deform, demo, drr,
    elastic, files, info, invert, list, machine, options, pair, pose, projection, segment, stack,
    surface, team,
};
pub use voxalign_options::{Chosen, Given, OptionError, Text};
pub use voxalign_register::carry::{PointMap, Step};
pub use voxalign_register::{Choice, Event, Progress, Verdict};
pub use voxalign_report::Judged;
