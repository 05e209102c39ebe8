//! The unbiased mean of many images, with the deformation of each to it; atlases along a covariate; and how many
//! subjects an atlas needs.
//!
//! ```no_run
//! use voxalign_compute::comm::Communicator;
//! use voxalign_jobs::{Caller, Silent, atlas, team};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut job = atlas::Job::new(["a.nii.gz", "b.nii.gz", "c.nii.gz"], "out");
//! job.options.spacing = Some(2.0);
//! let alone = Communicator::single();
//! let (machine, team) = team::start(Default::default(), None, &alone, &Silent)?;
//! job.run(&machine, &team, &Caller::default(), &Silent)?;
//! # Ok(())
//! # }
//! ```

mod geometry;
mod job;
mod options;
mod outcome;
mod prepared;
mod regress;
mod source;
mod stability;
mod subjects;

pub use options::{
    Align, At, Bytes, Every, Exclude, Memory, Options, Regression, Sizes, Stability, from_one,
};

use crate::anatomy::{Common, of_shapes_alone};
use crate::error::{Error, Result};
use crate::files;
use crate::list::{self, Entry};
use crate::listener::{Listener, reading};
use crate::machine::Machine;
use crate::plan::Plan;
use crate::run::{Caller, Done};
use job::One;
use prepared::{Anatomies, Study};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;
use voxalign_compute::comm::Team;
use voxalign_compute::select::AnyDevice;
use voxalign_options::text;
use voxalign_population::atlas::{AlignOptions, AtlasOptions};
use voxalign_register::linear::AffineOptions;
use voxalign_register::similarity::Similarity;
use voxalign_report::AtlasRecord;
use voxalign_report::regression::RegressionRecord;
use voxalign_report::stability::StabilityRecord;

/// An atlas that is to be built.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(default)]
pub struct Job {
    /// The images, one per subject; or files of anatomies, which end in .toml
    #[cfg_attr(feature = "clap", arg(value_name = "IMAGES", conflicts_with = "list"))]
    pub images: Vec<PathBuf>,
    /// CSV file with a line for each subject
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE.csv"))]
    pub list: Option<PathBuf>,
    /// Folder for the results; created if it does not exist
    #[cfg_attr(
        feature = "clap",
        arg(short, long, value_name = "DIR", default_value = "", hide_default_value = true, value_parser = crate::options::path())
    )]
    pub output: PathBuf,
    /// How it is made.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub options: Options,
}

/// What was built.
#[derive(Debug)]
pub enum Built {
    /// One atlas.
    Atlas(Box<Done<AtlasRecord>>),
    /// An atlas at each of several values of a covariate.
    Regression(Box<Done<RegressionRecord>>),
    /// Many atlases of some of the subjects.
    Stability(Box<Done<StabilityRecord>>),
    /// What another process writes.
    Elsewhere,
}

/// A job that is checked, and ready for a device.
pub struct Ready<'a>(Kind<'a>);

enum Kind<'a> {
    Atlas(One<'a>),
    Regression(Box<regress::Regression<'a>>),
    Stability(stability::Test<'a>),
}

impl Job {
    /// Of images, with usual options; results go to a folder.
    pub fn new<P: Into<PathBuf>>(
        images: impl IntoIterator<Item = P>,
        output: impl Into<PathBuf>,
    ) -> Self {
        let images = images.into_iter().map(Into::into).collect();
        Self { images, output: output.into(), ..Self::default() }
    }

    /// Checks what can be checked before a device is started.
    ///
    /// # Errors
    /// Options that others make meaningless, lists that cannot be read, outputs that are inputs.
    pub fn ready<'a>(
        &'a self,
        caller: &'a Caller,
        listener: &'a dyn Listener,
    ) -> Result<Ready<'a>> {
        let options = &self.options;
        options.check()?;
        let study = self.study(caller, listener)?;
        if let Some(column) = &options.regression.regress {
            let job = regress::Regression::new(&options.regression, column, study)?;
            return Ok(Ready(Kind::Regression(Box::new(job))));
        }
        if let Some(sizes) = &options.test.stability {
            let job = stability::Test::new(&options.test, sizes, study)?;
            return Ok(Ready(Kind::Stability(job)));
        }
        let job = One {
            study,
            subjects: !options.no_subjects,
            report: !options.no_report,
            every: options.checkpoint_every.unwrap_or_default().0,
            resume: options.resume,
            processes: options.processes,
        };
        job.check()?;
        Ok(Ready(Kind::Atlas(job)))
    }

    /// Does it all, with the devices of all processes.
    ///
    /// # Errors
    /// As of [`ready`](Self::ready); images that cannot be read or registered, [`Error::Stopped`].
    pub fn run(
        &self,
        machine: &Machine,
        team: &Team<AnyDevice>,
        caller: &Caller,
        listener: &dyn Listener,
    ) -> Result<Built> {
        self.ready(caller, listener)?.run(machine, team)
    }

    fn entries(&self, listener: &dyn Listener) -> Result<Vec<Entry>> {
        let mut entries = self.listed(listener)?;
        list::read_anatomies(&mut entries, listener)?;
        Ok(entries)
    }

    fn listed(&self, listener: &dyn Listener) -> Result<Vec<Entry>> {
        match &self.list {
            Some(_) if !self.images.is_empty() => Err(Error::input(text!(
                "both images and a list by `list` are given; leave one of them out"
            ))),
            Some(list) => reading(listener, || list::of_csv(list)),
            None => list::of_images(&self.images),
        }
    }

    fn study<'a>(&'a self, caller: &'a Caller, listener: &'a dyn Listener) -> Result<Study<'a>> {
        let options = &self.options;
        let entries = self.entries(listener)?;
        let dof = match options.align.unwrap_or_default() {
            Align::None => None,
            Align::Rigid => Some(6),
            Align::Similarity => Some(7),
            Align::Affine => Some(12),
        };
        let similarity = Some(options.cost.kind().unwrap_or(Similarity::NCC));
        let affine = dof.map(|dof| AffineOptions { dof, similarity, ..AffineOptions::default() });
        let mut matching = AtlasOptions {
            matching: options.matching.matching(options::usual, &[])?,
            similarity: options.matching.similarity()?,
            channels: Vec::new(),
            centre: !options.no_centre,
        };
        let of_entries: Vec<_> = entries.iter().filter_map(|e| e.anatomy.as_ref()).collect();
        let anatomies = match &*of_entries {
            [] => None,
            all => {
                let common = Arc::new(Common::of(all)?);
                options.check_of_anatomies()?;
                matching.channels = common.channels();
                if common.is_of_shapes_alone() {
                    of_shapes_alone(&mut matching.matching, &options.matching)?;
                }
                Some(Anatomies { common, spacing: options.spacing })
            }
        };
        let grid = options.reference.as_deref().map(|path| files::grid(path, listener));
        let exclude = options.exclude.clone();
        let align = AlignOptions {
            affine,
            rounds: options.rounds.map_or(2, usize::from),
            spacing: options.spacing,
            grid: grid.transpose()?,
            exclude_outlying: exclude.contains(&Exclude::Outlying),
        };
        Ok(Study {
            entries,
            anatomies,
            list: self.list.as_deref(),
            caller,
            output: &self.output,
            align,
            options: matching,
            memory: options.memory.options(),
            exclude,
            listener,
        })
    }
}

impl Ready<'_> {
    /// What it would do; the memory is what there is, as subjects that do not fit are streamed.
    ///
    /// # Errors
    /// Headers that cannot be read.
    pub fn plan(&self) -> Result<Plan> {
        let (study, names) = match &self.0 {
            Kind::Atlas(job) => (&job.study, job.names()),
            Kind::Regression(job) => (&job.study, job.names()),
            Kind::Stability(job) => (&job.study, stability::Test::names()),
        };
        let writes = names.iter().map(|name| study.output.join(name)).collect();
        Plan::new(&study.inputs(), writes, study.listener)
    }

    /// Does it.
    ///
    /// # Errors
    /// As of [`Job::run`].
    pub fn run(&self, machine: &Machine, team: &Team<AnyDevice>) -> Result<Built> {
        Ok(match &self.0 {
            Kind::Atlas(job) => {
                job.run(machine, team)?.map_or(Built::Elsewhere, |d| Built::Atlas(Box::new(d)))
            }
            Kind::Regression(job) => Built::Regression(Box::new(job.run(machine, team)?)),
            Kind::Stability(job) => Built::Stability(Box::new(job.run(machine, team)?)),
        })
    }
}
