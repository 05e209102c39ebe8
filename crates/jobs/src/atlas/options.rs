//! The options of an atlas.

use crate::error::{Error, Result};
use crate::options::of_maps;
use crate::options::{MatchingOptions, by_names, negated, refuse};
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;
use voxalign_compute::comm::Launch;
use voxalign_options::{Choice, Chosen, Given, Parameters, UseOf, text, text_value};
use voxalign_population::atlas::{AlignOptions, AtlasOptions, MemoryOptions};
use voxalign_register::diffeo::{DeformModel, Matching};
use voxalign_register::similarity::Similarity;

/// How often.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Parameters)]
pub struct Rounds {
    /// Number of times the subjects are registered to their mean
    #[parameter(default = 2, least = 1, most = 20, remedy = "give a number from 1 to 20")]
    pub rounds: usize,
}

/// How subjects are first aligned to a common space
#[derive(Debug, Clone, Copy, PartialEq, Eq, Choice)]
#[choice(option = "align", heading = "Common space")]
pub enum Align {
    /// As the headers say.
    None,
    /// Rotations and translations.
    Rigid(Rounds),
    /// Rotations, translations and one scale.
    Similarity(Rounds),
    /// Rotations, translations, scales and shears.
    Affine(Rounds),
}

/// What is left out where it does not serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Choice)]
pub enum Exclude {
    /// Subjects with a file that cannot be read.
    Unreadable,
    /// Subjects unlike the mean of all after the affine alignment.
    Outlying,
}

/// The similarity by which subjects are aligned.
#[derive(Debug)]
pub struct Alignment;

impl UseOf<Similarity> for Alignment {
    const OPTION: &'static str = "cost";
    const HEADING: &'static str = "Common space";
    const HELP: &'static str = "Similarity measure of these registrations";

    fn serves(kind: &Similarity) -> bool {
        of_maps(kind)
    }

    fn takes(_: &str) -> bool {
        false
    }

    fn usual() -> Option<Similarity> {
        Some(Similarity::NCC)
    }
}

impl UseOf<AlignOptions> for Alignment {
    const HEADING: &'static str = "Common space";
}

impl UseOf<Align> for Alignment {
    fn usual() -> Option<Align> {
        Some(Align::AFFINE)
    }
}

/// How an atlas is made.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(default)]
pub struct Options {
    /// How subjects are first aligned to a common space.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub align: Chosen<Align, Alignment>,
    /// The similarity of these registrations.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub cost: Chosen<Similarity, Alignment>,
    /// The spacing of the atlas.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub space: Given<AlignOptions, Alignment>,
    /// Image that defines the grid of the atlas [default: along the world axes around all subjects;
    /// with --align none the grid of the images, if they share one]
    #[cfg_attr(feature = "clap", arg(long, value_name = "IMAGE", help_heading = "Common space"))]
    pub reference: Option<PathBuf>,

    /// How a subject is deformed to the template.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub matching: MatchingOptions,
    /// Keep the mean displacement in the result: the shape of the template then depends on the
    /// course of the registrations
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Method"))]
    #[serde(rename = "centre", with = "negated")]
    pub no_centre: bool,

    /// Leave out subjects with a file that cannot be read, or subjects unlike the mean of all after
    /// affine alignment (of four or more); the record says which, and why
    #[cfg_attr(
        feature = "clap",
        arg(
            long,
            value_delimiter = ',',
            value_name = "unreadable,outlying",
            help_heading = "Subjects"
        )
    )]
    #[serde(with = "by_names")]
    pub exclude: Vec<Exclude>,

    /// Do not write the results of each subject
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Output"))]
    #[serde(rename = "subjects", with = "negated")]
    pub no_subjects: bool,
    /// Do not write report.html
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Output"))]
    #[serde(rename = "report", with = "negated")]
    pub no_report: bool,

    /// Continue from the last checkpoint of a run that was stopped or killed; the result is
    /// identical, to the bit, to that of an uninterrupted run. The options must be the same, except
    /// for --gpus, --threads, the number of processes and memory; --device may name another GPU, but not
    /// the CPU instead
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Checkpoints"))]
    pub resume: bool,
    /// How it runs.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub execution: Given<Execution>,
    /// What memory may be taken.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub memory: Memory,

    /// Atlases along a covariate, instead of one.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub regression: Regression,
    /// A test of how many subjects an atlas needs, instead of one.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub test: Given<Stability, OfJob>,
}

/// How the construction of an atlas runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Parameters)]
pub struct Execution {
    /// Minutes between checkpoints, 0 for one after each iteration, or `never`. They are in DIR/checkpoint, and are removed
    /// when the atlas is complete
    #[parameter(default = Every(Some(Duration::from_secs(600))), heading = "Checkpoints")]
    pub checkpoint_every: Every,
    /// Under mpirun or srun, how many of the processes hold subjects; the others wait
    #[parameter(
        least = 1,
        most = 4096,
        heading = "Running",
        says = "the number that a dry run predicts to be fastest"
    )]
    pub processes: Option<usize>,
}

/// What memory may be taken.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "clap", command(next_help_heading = "Memory"))]
#[serde(default)]
pub struct Memory {
    /// How much.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub sizes: Given<MemoryOptions>,
    /// Folder for subjects that are streamed from disk, best on a local disk of each machine; a
    /// killed run leaves a folder .voxalign-... there, which the next run removes [default: within DIR]
    #[cfg_attr(feature = "clap", arg(long, value_name = "DIR"))]
    pub scratch: Option<PathBuf>,
}

impl Memory {
    /// As a construction takes it.
    ///
    /// # Errors
    /// A size that none is.
    pub fn options(&self) -> Result<MemoryOptions> {
        let scratch = self.scratch.clone();
        Ok(self.sizes.over(MemoryOptions { scratch, ..MemoryOptions::USUAL })?)
    }
}

/// The time between checkpoints; none for never.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Every(pub Option<Duration>);

impl FromStr for Every {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "never" {
            return Ok(Self(None));
        }
        let minutes = crate::options::number(text).ok().filter(|m| (0.0..=1e6).contains(m));
        let minutes = minutes.ok_or("give a number of minutes, 0 or more, or never")?;
        Ok(Self(Some(Duration::from_secs_f64(60.0 * minutes))))
    }
}

impl Display for Every {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(time) => (time.as_secs_f64() / 60.0).fmt(f),
            None => f.write_str("never"),
        }
    }
}

text_value!(Every, "MINUTES");

/// Atlases along a covariate: their values and the width of the weights.
#[derive(Debug, Clone, PartialEq, Parameters)]
pub struct RegressionOptions {
    /// Values of the covariate; each atlas is written to at_VALUE
    #[parameter(default = Vec::new(), unit = "VALUE,...")]
    pub at: Vec<At>,
    /// Standard deviation of the Gaussian weights, in the units of the column
    #[parameter(unit = "WIDTH", above = 0.0)]
    pub bandwidth: Option<f64>,
    /// Labels whose volumes are reported against the column, if the list has label maps
    #[parameter(
        default = Vec::new(),
        unit = "LABEL,...",
        says = "the twelve largest that all subjects have"
    )]
    pub volumes: Vec<i32>,
}

/// Atlases along a covariate.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "clap", command(next_help_heading = "Atlases along a covariate"))]
#[serde(default)]
pub struct Regression {
    /// A numeric column of the list, such as age: build an atlas at each value of --at, in which subjects weigh more
    /// the closer their value is
    #[cfg_attr(feature = "clap", arg(long, value_name = "COLUMN"))]
    pub regress: Option<String>,
    /// Values of the covariate and width of the weights.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub given: Given<RegressionOptions>,
    /// Names of the labels: FreeSurfer's colour table, ITK-SNAP's label descriptions, or CSV or TSV
    /// with a number and a name in each line
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE", requires = "regress"))]
    pub label_names: Option<PathBuf>,
}

/// A value as it was written.
#[derive(Debug, Clone, PartialEq)]
pub struct At {
    pub(super) text: String,
    pub(super) value: f64,
}

impl FromStr for At {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self { text: text.trim().to_owned(), value: crate::options::number(text)? })
    }
}

impl Display for At {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

text_value!(At, "VALUE");

impl At {
    /// The folder of its atlas.
    pub(super) fn folder(&self) -> String {
        format!("at_{}", self.text)
    }
}

impl Regression {
    /// Refuses what is missing, and what is for nothing.
    fn check(&self) -> Result<()> {
        let given = self.given.over(RegressionOptions::USUAL)?;
        given.check()?;
        if self.regress.is_none() {
            refuse(self.label_names.is_some(), "label_names", text!("`regress`"))?;
            let first = self.given.first();
            return first.map_or(Ok(()), |option| refuse(true, option, text!("`regress`")));
        }
        let missing = [("at", given.at.is_empty()), ("bandwidth", given.bandwidth.is_none())];
        match missing.iter().find(|(_, missing)| *missing) {
            Some((option, _)) => Err(Error::input(text!(
                "`regress` needs `{option}` as well: the values of `at` and the width of `bandwidth`"
            ))),
            None => Ok(()),
        }
    }
}

/// How many subjects an atlas needs.
#[derive(Debug, Clone, PartialEq, Eq, Parameters)]
pub struct Stability {
    /// Instead of one atlas of all subjects, build atlases of random subsets of each of these sizes, and report how
    /// sharp they are: a range such as 2..14 (both ends included), or 2,4,8
    pub stability: Option<Sizes>,
    /// Number of atlases to build for each number of subjects
    #[parameter(
        default = 100,
        least = 1,
        most = 1_000_000,
        remedy = "give a number from 1 to 1000000"
    )]
    pub cohorts: usize,
    /// Random seed; the same seed chooses the same subjects
    #[parameter(default = 0)]
    pub seed: u64,
}

/// Of a job.
#[derive(Debug)]
pub struct OfJob;

impl UseOf<Stability> for OfJob {
    const HEADING: &'static str = "Stability test";
}

/// Numbers of subjects, ascending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sizes(pub(super) Vec<usize>);

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let whole = |part: &str| {
            let number = part.trim().parse::<usize>().ok().filter(|n| (2..=100_000).contains(n));
            number.ok_or_else(|| format!("'{part}' is not a whole number of 2 or more"))
        };
        let mut sizes = Vec::new();
        for part in text.split(',') {
            match part.split_once("..") {
                Some((from, to)) => {
                    let (from, to) = (whole(from)?, whole(to.trim_start_matches('='))?);
                    if from > to {
                        return Err(format!("'{part}' is in descending order; write {to}..{from}"));
                    }
                    sizes.extend(from..=to);
                }
                None => sizes.push(whole(part)?),
            }
        }
        sizes.sort_unstable();
        sizes.dedup();
        Ok(Self(sizes))
    }
}

impl Display for Sizes {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let all: Vec<_> = self.0.iter().map(usize::to_string).collect();
        f.write_str(&all.join(","))
    }
}

text_value!(Sizes, "FROM..TO");

/// What is usual for a model.
pub(super) fn usual(model: DeformModel) -> Matching {
    AtlasOptions::of(model).matching
}

impl Options {
    /// Refuses options that others make meaningless.
    ///
    /// # Errors
    /// Names one.
    pub fn check(&self) -> Result<()> {
        let align = self.align.over(Align::AFFINE)?;
        align.check()?;
        refuse(
            align == Align::None && self.cost.kind().is_some(),
            "cost",
            text!("`align = rigid`, similarity and affine"),
        )?;
        refuse(
            self.space.has("spacing") && self.reference.is_some(),
            "spacing",
            text!("atlases without a `reference`, which has a spacing of its own"),
        )?;
        self.space.over(AlignOptions::default())?.check()?;
        self.execution.over(Execution::USUAL)?.check()?;
        self.regression.check()?;
        self.test.over(Stability::USUAL)?.check()?;
        let tested = self.test.has("stability");
        for option in ["cohorts", "seed"] {
            refuse(!tested && self.test.has(option), option, text!("`stability`"))?;
        }
        for (several, option) in
            [(self.regression.regress.is_some(), "regress"), (tested, "stability")]
        {
            if several {
                self.alone(option)?;
            }
        }
        if self.regression.regress.is_some() && tested {
            return Err(Error::input(text!(
                "`regress` and `stability` are separate jobs; leave one of them out"
            )));
        }
        refuse(
            self.matching.model.has("path_storage"),
            "path_storage",
            "pairs of images: nothing is in half precision of one subject of several",
        )?;
        self.matching.matching(|model| usual(model.unwrap_or_default()), &[]).map(|_| ())
    }

    /// Refuses what atlases of anatomies do not have.
    ///
    /// # Errors
    /// Names an option.
    pub(super) fn check_of_anatomies(&self) -> Result<()> {
        if let Some(option) = self.matching.similarity.first() {
            return Err(Error::input(text!(
                "`{option}` is set for each image in the files of the anatomies; leave it out"
            )));
        }
        for (given, option) in [
            (self.regression.regress.is_some(), "regress"),
            (self.test.has("stability"), "stability"),
        ] {
            refuse(given, option, text!("lists of images, not for anatomies"))?;
        }
        refuse(
            self.exclude.contains(&Exclude::Unreadable),
            "exclude = unreadable",
            text!(
                "lists of images: the files of anatomies are all read before the first is aligned"
            ),
        )
    }

    /// Refuses what is not for several atlases.
    fn alone(&self, option: &'static str) -> Result<()> {
        if Launch::of_this_process().and_then(|l| l.size).is_some_and(|n| n > 1) {
            return Err(Error::input(text!(
                "`{option}` runs in one process, on all GPUs of its machine; start it without mpirun \
                 or srun"
            )));
        }
        refuse(self.resume, "resume", text!("one atlas"))?;
        for option in ["processes", "checkpoint_every"] {
            refuse(self.execution.has(option), option, text!("one atlas"))?;
        }
        refuse(self.no_subjects, "subjects = false", text!("one atlas"))?;
        refuse(self.no_report, "report = false", text!("one atlas"))
    }
}
