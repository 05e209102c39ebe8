//! The unbiased mean of many images, with the deformation of each to it; atlases along a covariate; and how many
//! subjects an atlas needs.
//!
//! ```no_run
//! use voxalign_jobs::{Caller, Job, Silent, atlas, machine};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut job = atlas::Job::new(["a.nii.gz", "b.nii.gz", "c.nii.gz"], "out");
//! job.options.space = voxalign_options::Given::default().with("spacing", 2.0)?;
//! let machine = machine::Machine::start(Default::default(), machine::Auto::Gpu)?;
//! job.run(&machine, &Caller::default(), &Silent)?;
//! # Ok(())
//! # }
//! ```

mod job;
mod options;
mod outcome;
mod regress;
mod stability;
mod study;

pub use options::{
    Align, At, Every, Exclude, Execution, Memory, Options, Regression, RegressionOptions, Rounds,
    Sizes, Stability,
};

use crate::anatomy::{Common, of_shapes_alone};
use crate::error::{Error, Result};
use crate::files;
use crate::job::missing;
use crate::list::{self, Entry};
use crate::listener::{Listener, reading};
use crate::machine::{Auto, Machine};
use crate::plan::Plan;
use crate::results::ResultFile;
use crate::run::{Caller, Done};
use job::One;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use study::{Anatomies, Study};
use voxalign_compute::comm::{Communicator, Team};
use voxalign_options::text;
use voxalign_population::atlas::{AlignOptions, AtlasOptions};
use voxalign_register::Verdict;
use voxalign_register::linear::AffineOptions;
use voxalign_register::similarity::Similarity;
use voxalign_report::regression::RegressionRecord;
use voxalign_report::stability::StabilityRecord;
use voxalign_report::{AtlasRecord, Judged, OutputRecord};

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

/// What was built: the record of it.
#[derive(Debug)]
pub enum Built {
    /// One atlas.
    Atlas(Box<AtlasRecord>),
    /// An atlas at each of several values of a covariate.
    Regression(Box<RegressionRecord>),
    /// Many atlases of some of the subjects.
    Stability(Box<StabilityRecord>),
    /// What another process writes and judges; there is nothing to complain of here.
    Elsewhere(Verdict),
}

impl Judged for Built {
    fn measured(&mut self, timings: BTreeMap<String, f64>, peak_memory_bytes: Option<u64>) {
        match self {
            Self::Atlas(record) => record.measured(timings, peak_memory_bytes),
            Self::Regression(record) => record.measured(timings, peak_memory_bytes),
            Self::Stability(record) => record.measured(timings, peak_memory_bytes),
            Self::Elsewhere(_) => {}
        }
    }

    fn wrote(&mut self, outputs: Vec<OutputRecord>) {
        match self {
            Self::Atlas(record) => record.wrote(outputs),
            Self::Regression(record) => record.wrote(outputs),
            Self::Stability(record) => record.wrote(outputs),
            Self::Elsewhere(_) => {}
        }
    }

    fn verdict(&self) -> &Verdict {
        match self {
            Self::Atlas(record) => &record.verdict,
            Self::Regression(record) => &record.verdict,
            Self::Stability(record) => &record.verdict,
            Self::Elsewhere(verdict) => verdict,
        }
    }

    /// Nothing where another process has it.
    fn text(&self) -> String {
        match self {
            Self::Atlas(record) => record.text(),
            Self::Regression(record) => record.text(),
            Self::Stability(record) => record.text(),
            Self::Elsewhere(_) => String::new(),
        }
    }
}

/// What a job builds, once it is checked.
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

    /// What is to be built, checked as far as that goes before a device is started.
    fn kind<'a>(&'a self, caller: &'a Caller, listener: &'a dyn Listener) -> Result<Kind<'a>> {
        let options = &self.options;
        options.check()?;
        let study = self.study(caller, listener)?;
        if let Some(column) = &options.regression.regress {
            let job = regress::Regression::new(&options.regression, column, study)?;
            return Ok(Kind::Regression(Box::new(job)));
        }
        let test = options.test.over(Stability::USUAL)?;
        if let Some(sizes) = test.stability {
            let how = (test.cohorts, test.seed);
            return Ok(Kind::Stability(stability::Test::new(sizes, how, study)?));
        }
        let Execution { checkpoint_every, processes } = options.execution.over(Execution::USUAL)?;
        let job = One {
            study,
            subjects: !options.no_subjects,
            report: !options.no_report,
            every: checkpoint_every.0,
            resume: options.resume,
            processes,
        };
        job.check()?;
        Ok(Kind::Atlas(job))
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
        let align = match options.align.over(Align::AFFINE)? {
            Align::None => None,
            Align::Rigid(of) => Some((6, of.rounds)),
            Align::Similarity(of) => Some((7, of.rounds)),
            Align::Affine(of) => Some((12, of.rounds)),
        };
        let space = options.space.over(AlignOptions::default())?;
        let similarity = Some(options.cost.kind().unwrap_or(Similarity::NCC));
        let affine =
            align.map(|(dof, _)| AffineOptions { dof, similarity, ..AffineOptions::default() });
        let mut matching = AtlasOptions {
            matching: options
                .matching
                .matching(|model| options::usual(model.unwrap_or_default()), &[])?,
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
                Some(Anatomies { common, spacing: space.spacing })
            }
        };
        let grid = options.reference.as_deref().map(|path| files::grid(path, listener));
        let exclude = options.exclude.clone();
        let align = AlignOptions {
            affine,
            rounds: align.map_or(Rounds::USUAL.rounds, |(_, rounds)| rounds),
            grid: grid.transpose()?,
            exclude_outlying: exclude.contains(&Exclude::Outlying),
            ..space
        };
        Ok(Study {
            entries,
            anatomies,
            list: self.list.as_deref(),
            caller,
            output: &self.output,
            align,
            options: matching,
            memory: options.memory.options()?,
            exclude,
            listener,
        })
    }
}

impl crate::Job for Job {
    type Record = Built;
    type Inputs = ();
    const NAME: &'static str = "atlas";
    const AUTO: Auto = Auto::Gpu;

    fn missing(&self) -> Option<&'static str> {
        missing(&[(&self.output, "the output folder -o DIR")])
    }

    fn check_options(&self) -> Result<()> {
        self.options.check()
    }

    fn check(&self, caller: &Caller, listener: &dyn Listener) -> Result<()> {
        self.kind(caller, listener).map(drop)
    }

    /// The memory is what there is, as subjects that do not fit are streamed.
    fn plan(&self, caller: &Caller, listener: &dyn Listener) -> Result<Plan> {
        let kind = self.kind(caller, listener)?;
        let (study, names) = match &kind {
            Kind::Atlas(job) => (&job.study, job.names()),
            Kind::Regression(job) => (&job.study, job.names()),
            Kind::Stability(job) => (&job.study, stability::Test::names()),
        };
        let writes = names.iter().map(|name| study.output.join(name)).collect();
        Plan::new(&study.inputs(), writes, study.listener)
    }

    /// Images are read by all processes, each its own.
    fn read(&self, _: &Caller, _: &dyn Listener) -> Result<()> {
        Ok(())
    }

    fn find(
        &self,
        machine: &Machine,
        (): (),
        caller: &Caller,
        listener: &dyn Listener,
    ) -> Result<Done<Built>> {
        let alone;
        let team = match &machine.team {
            Some(team) => team,
            None => {
                alone = Team::new(vec![machine.device.clone()], Communicator::single())?;
                &alone
            }
        };
        let record = match self.kind(caller, listener)? {
            Kind::Atlas(job) => match job.run(machine, team)? {
                Some(done) => Built::Atlas(Box::new(done.record)),
                None => Built::Elsewhere(Verdict::new(Vec::new(), Vec::new())),
            },
            Kind::Regression(job) => Built::Regression(Box::new(job.run(machine, team)?.record)),
            Kind::Stability(job) => Built::Stability(Box::new(job.run(machine, team)?.record)),
        };
        Ok(Done::new(record, &self.output))
    }
}

/// The files of all that is built, for pipelines.
pub(crate) fn results() -> Vec<ResultFile> {
    let mut all = outcome::results();
    all.push(regress::results());
    all.extend(stability::results());
    all.extend([ResultFile::record(), ResultFile::report()]);
    all
}
