//! `voxalign atlas`: builds the unbiased mean of many images.

mod job;
mod prepared;
mod regress;
mod source;
mod stability;
mod subjects;
mod table;

use super::{Cli, Command};
use crate::args::RunArgs;
use crate::args::{choice_of, number, of_maps};
use crate::config;
use crate::failure::{Failure, Outcome};
use crate::files;
use crate::interrupt;
use crate::list;
use crate::ranks;
use crate::registration::{MatchingArgs, refuse};
use crate::team;
use clap::{Args, ValueEnum};
use job::Job;
use prepared::{Exclude, Study};
use regress::{RegressArgs, Regression};
use stability::{StabilityArgs, Test};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;
use voxalign_compute::comm::Launch;
use voxalign_population::atlas::{AlignOptions, AtlasOptions, MemoryOptions};
use voxalign_register::diffeo::{DeformModel, DeformOptions};
use voxalign_register::linear::AffineOptions;
use voxalign_register::similarity::Similarity;

const EXAMPLES: &str = "\
Examples:
  voxalign atlas t1/*.nii.gz -o atlas
      an affine registration of all subjects to their mean, then the template and the
      deformations of all subjects to it, from coarse to fine
  voxalign atlas --list subjects.csv -o atlas --spacing 2
      a list with a line for each subject; an atlas with 2 mm voxels
  voxalign atlas aligned/*.nii.gz -o atlas --align none --model lddmm --similarity ssd
      images that are already aligned
  voxalign atlas t1/*.nii.gz -o atlas --align rigid --schedule 4x50,2x30
      differences in size are left to the deformations
  voxalign atlas --list subjects.csv -o atlas --regress age --at 65,70,75,80 --bandwidth 5
      the atlas at each of these ages, and the volumes of labels over them
  voxalign atlas t1/*.nii.gz -o test --stability 2..14 --cohorts 100
      how many subjects an atlas needs: 100 atlases of randomly chosen subjects, for each
      number of subjects from 2 to 14
  mpirun -np 4 --bind-to none voxalign atlas --list subjects.csv -o atlas
      four processes share the subjects (or start them by srun; see docs/cluster.md)
  voxalign atlas --list subjects.csv -o atlas --resume
      continues an atlas that was stopped, was killed, or ran out of memory or disk space
  voxalign atlas t1/*.nii.gz -o atlas --device-memory 20GiB --scratch /local/scratch
      20 GiB of each GPU; subjects that do not fit are kept in host memory, and then on disk
  voxalign atlas --config job.toml -o atlas
      all options from a file: keys are the long option names, `images` the images; the
      command line takes precedence; paths are relative to the current folder
  voxalign atlas raw/*.nii.gz -o atlas --exclude unreadable,outlying
      leaves out files that cannot be read and images that are unlike all others

The list is a CSV file with a header line: the column path, and any of name, weight, mask (voxels above 0
count), labels (a label map, to report the overlap), channel2, channel3, ... (further images of the
same subject, on any grid), and numeric columns of any other name. Paths are relative to the folder of the list.

The result does not depend on the order of the images, on the number of threads, GPUs or processes,
on memory, or on interruptions.

Written to DIR (older files with these names are replaced):
  atlas.nii.gz                        the template: the mean of the subjects in their mean shape
  atlas_affine.nii.gz                 their mean after the affine alignment alone, to compare with
  variance.nii.gz                     the variance over the subjects, calibrated units squared
  entropy.nii.gz                      the entropy over the subjects at each voxel, bits
  log_jacobian.nii.gz                 the mean logarithm of the subjects' changes of volume
  labels.nii.gz                       the most frequent label, if there are label maps
  subjects/NAME/warp.nii.gz           displacements on the grid of the atlas (ANTs: 1Warp)
  subjects/NAME/inverse_warp.nii.gz   their inverse (ANTs: 1InverseWarp)
  subjects/NAME/affine.tfm            the affine part, atlas to subject (ANTs: 0GenericAffine)
  subjects/NAME/warped.nii.gz         the subject on the grid of the atlas, calibrated
  subjects/NAME/jacobian.nii.gz       Jacobian determinant of the warp
  report.html                         everything on one page: pictures, curves, subjects, verdict
  result.json                         verdict, subjects, energies, parameters, checksums
With --regress: at_VALUE/ with the images above for each value, volumes.csv, report.html,
result.json.
With --stability: cohorts.csv (a row per atlas), sizes.csv (a row per size), report.html,
result.json.
To resample a subject onto the atlas: voxalign apply -i SUBJECT -r atlas.nii.gz
-t subjects/NAME/warp.nii.gz -t subjects/NAME/affine.tfm -o w.nii.gz

Exit codes: 0 done and the verdict is good, 1 done but the verdict is bad,
2 bad input or options, or no space left (no result is written), 3 internal error, 130 stopped by
Ctrl-C. A run that was stopped, killed, or had no space leaves DIR/checkpoint for --resume.";

/// How subjects are brought to a common space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Align {
    /// As the headers say
    None,
    /// Rotations and translations
    Rigid,
    /// Rotations, translations and one scale
    Similarity,
    /// Rotations, translations, scales and shears
    #[default]
    Affine,
}

/// Arguments of `voxalign atlas`.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES, arg_required_else_help = true, args_override_self = true)]
pub(crate) struct AtlasArgs {
    /// The images, one per subject
    #[arg(value_name = "IMAGES", conflicts_with = "list")]
    images: Vec<PathBuf>,
    /// CSV file with a line for each subject
    #[arg(long, value_name = "FILE.csv")]
    list: Option<PathBuf>,
    /// Folder for the results; created if it does not exist
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// TOML file with options; those on the command line take precedence
    #[arg(long, value_name = "FILE.toml")]
    config: Option<PathBuf>,

    /// How subjects are first aligned to a common space [default: affine]
    #[arg(long, value_enum, help_heading = "Common space")]
    align: Option<Align>,
    /// How many times the subjects are registered to their mean [default: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=20),
          help_heading = "Common space")]
    rounds: Option<u8>,
    /// Similarity of these registrations [default: ncc]
    #[arg(long, value_parser = choice_of(of_maps), help_heading = "Common space")]
    cost: Option<Similarity>,
    /// Spacing of the atlas, mm [default: the median of the subjects]
    #[arg(long, value_name = "MM", value_parser = above_zero, help_heading = "Common space",
          conflicts_with = "reference")]
    spacing: Option<f64>,
    /// Image that defines the grid of the atlas [default: along the world axes around all subjects;
    /// with --align none the grid of the images, if they share one]
    #[arg(long, value_name = "IMAGE", help_heading = "Common space")]
    reference: Option<PathBuf>,

    #[command(flatten)]
    matching: MatchingArgs,
    /// Keep the mean displacement in the result: the shape of the template then depends on the
    /// course of the registrations
    #[arg(long, help_heading = "Method")]
    no_centre: bool,

    /// Leave out subjects with a file that cannot be read, or subjects unlike the mean of all after
    /// affine alignment (of four or more); the record says which, and why
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        value_name = "unreadable,outlying",
        help_heading = "Subjects"
    )]
    exclude: Vec<Exclude>,

    /// Do not write the results of each subject
    #[arg(long, help_heading = "Output")]
    no_subjects: bool,
    /// Do not write report.html
    #[arg(long, help_heading = "Output")]
    no_report: bool,

    /// Continue from the last checkpoint of a run that was stopped or killed; the result is
    /// identical, to the bit, to that of an uninterrupted run. The options must be the same, except
    /// for --gpus, --threads, the number of processes and memory; --device may name another GPU, but not
    /// the CPU instead
    #[arg(long, help_heading = "Checkpoints")]
    resume: bool,
    /// Minutes between checkpoints, 0 for one after each iteration, or `never`. They are in
    /// DIR/checkpoint, and are removed when the atlas is complete
    #[arg(long, value_name = "MINUTES", default_value = "10", help_heading = "Checkpoints")]
    checkpoint_every: Every,

    /// Under mpirun or srun, how many of the processes hold subjects; the others wait [default: the
    /// number that a dry run predicts to be fastest]
    #[arg(long, value_name = "N", value_parser = from_one, help_heading = "Running")]
    processes: Option<usize>,
    #[command(flatten)]
    memory: MemoryArgs,
    /// GPUs per process [default: all those of its machine, shared among the processes there]
    #[arg(long, value_name = "N", value_parser = from_one, help_heading = "Running")]
    gpus: Option<usize>,

    #[command(flatten)]
    regress: RegressArgs,
    #[command(flatten)]
    stability: StabilityArgs,
    #[command(flatten)]
    run: RunArgs,
}

/// What memory may be taken.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Memory")]
pub(crate) struct MemoryArgs {
    /// Memory that may be used on each device, such as 20GiB; subjects that do not fit are streamed
    /// at every iteration [default: nine tenths of the free memory]
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    device_memory: Option<u64>,
    /// Host memory for subjects that are streamed; those that do not fit are kept on disk [default:
    /// six tenths of the free memory]
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    host_memory: Option<u64>,
    /// Folder for subjects that are streamed from disk, best on a local disk of each machine; a
    /// killed run leaves a folder .voxalign-... there, which the next run removes [default: within DIR]
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
}

impl MemoryArgs {
    pub(crate) fn options(&self) -> MemoryOptions {
        let (device, host, scratch) = (self.device_memory, self.host_memory, self.scratch.clone());
        MemoryOptions { device, host, scratch }
    }
}

/// A number of bytes, such as `500MiB` or `20GB`.
fn bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let scale = match unit.trim().to_lowercase().as_str() {
        "" | "b" => 1.0,
        "kib" | "k" => 1024.0,
        "mib" | "m" => 1024f64.powi(2),
        "gib" | "g" => 1024f64.powi(3),
        "tib" | "t" => 1024f64.powi(4),
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        "tb" => 1e12,
        _ => f64::NAN,
    };
    let bytes = number.parse::<f64>().map_or(f64::NAN, |n| n * scale);
    if bytes.is_finite() && bytes >= 0.0 {
        Ok(bytes as u64)
    } else {
        Err("give a size, such as 20GiB or 500MiB".to_owned())
    }
}

/// The time between checkpoints; none for never.
#[derive(Debug, Clone, Copy)]
struct Every(Option<Duration>);

impl FromStr for Every {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "never" {
            return Ok(Self(None));
        }
        let minutes = number(text).ok().filter(|m| (0.0..=1e6).contains(m));
        let minutes = minutes.ok_or("give a number of minutes, 0 or more, or never")?;
        Ok(Self(Some(Duration::from_secs_f64(60.0 * minutes))))
    }
}

/// What is usual for a model.
fn usual(model: DeformModel) -> DeformOptions {
    AtlasOptions::of(model).matching
}

impl AtlasArgs {
    /// Refuses options that others make meaningless.
    fn check(&self) -> Result<(), Failure> {
        if self.align == Some(Align::None) {
            for (given, option) in
                [(self.rounds.is_some(), "--rounds"), (self.cost.is_some(), "--cost")]
            {
                refuse(given, option, "--align rigid, similarity and affine")?;
            }
        }
        self.regress.check()?;
        self.stability.check()?;
        for (several, option) in [
            (self.regress.regress.is_some(), "--regress"),
            (self.stability.stability.is_some(), "--stability"),
        ] {
            if several {
                self.alone(option)?;
            }
        }
        self.matching.options(usual, &[]).map(|_| ())
    }

    /// Refuses what is not for several atlases.
    fn alone(&self, option: &str) -> Result<(), Failure> {
        if Launch::of_this_process().and_then(|l| l.size).is_some_and(|n| n > 1) {
            return Err(Failure::input(format!(
                "{option} runs in one process, on all GPUs of its machine; start it without mpirun \
                 or srun"
            )));
        }
        refuse(self.resume, "--resume", "one atlas")?;
        refuse(self.no_subjects, "--no-subjects", "one atlas")?;
        refuse(self.no_report, "--no-report", "one atlas")
    }
}

pub(crate) fn from_one(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|n| (1..=4096).contains(n));
    number.ok_or_else(|| "give a whole number, 1 or more".to_owned())
}

fn above_zero(text: &str) -> Result<f64, String> {
    number(text).ok().filter(|v| *v > 0.0).ok_or_else(|| "give a number above 0".to_owned())
}

/// Builds the atlas.
pub(crate) fn run(args: AtlasArgs) -> Result<Outcome, Failure> {
    let file = args.config.clone();
    let fill = |args: &mut AtlasArgs, positionals: Vec<(String, PathBuf)>| {
        if args.images.is_empty() {
            args.images = positionals.into_iter().map(|(_, path)| path).collect();
        }
    };
    let (args, origin, notes) =
        config::complete(args, file, "atlas", of_cli, AtlasArgs::check, fill)?;
    if ranks::is_first() {
        config::say(&notes, args.run.talk());
    }
    with_all(&args).map_err(|e| origin.blame(e))
}

/// The arguments of this command.
fn of_cli(cli: Cli) -> Option<AtlasArgs> {
    match cli.command {
        Command::Atlas(args) => Some(*args),
        _ => None,
    }
}

/// Builds the atlas, once all arguments are known.
fn with_all(args: &AtlasArgs) -> Result<Outcome, Failure> {
    args.check()?;
    let Some(output) = &args.output else {
        return Err(Failure::input(
            "the output folder -o DIR is missing; see `voxalign atlas --help`",
        ));
    };
    let entries = match &args.list {
        Some(_) if !args.images.is_empty() => {
            return Err(Failure::input(
                "both images and a list by --list are given; leave one of them out",
            ));
        }
        Some(list) => interrupt::reading(|| list::of_csv(list))?,
        None => list::of_images(&args.images)?,
    };
    let align = args.align.unwrap_or_default();
    let dof = match align {
        Align::None => None,
        Align::Rigid => Some(6),
        Align::Similarity => Some(7),
        Align::Affine => Some(12),
    };
    let similarity = args.cost.unwrap_or(Similarity::NCC);
    let affine = dof.map(|dof| AffineOptions { dof, similarity, ..AffineOptions::default() });
    let options = AtlasOptions {
        matching: args.matching.options(usual, &[])?,
        similarity: args.matching.similarity(),
        centre: !args.no_centre,
    };
    let align = AlignOptions {
        affine,
        rounds: args.rounds.map_or(2, usize::from),
        spacing: args.spacing,
        grid: args.reference.as_deref().map(files::grid).transpose()?,
        ..AlignOptions::default()
    };
    let exclude = args.exclude.clone();
    let study = Study {
        entries,
        list: args.list.as_deref(),
        config: args.config.as_deref(),
        output,
        align: AlignOptions { exclude_outlying: exclude.contains(&Exclude::Outlying), ..align },
        options,
        memory: args.memory.options(),
        exclude,
        talk: args.run.talk(),
    };
    let start = || team::start(&args.run, args.gpus);
    if let Some(column) = &args.regress.regress {
        let job = Regression::new(&args.regress, column, study)?;
        let (machine, team) = start()?;
        return job.run(&machine, &team);
    }
    if let Some(sizes) = &args.stability.stability {
        let job = Test::new(&args.stability, sizes, study)?;
        let (machine, team) = start()?;
        return job.run(&machine, &team);
    }
    let job = Job {
        study,
        subjects: !args.no_subjects,
        report: !args.no_report,
        every: args.checkpoint_every.0,
        resume: args.resume,
        processes: args.processes,
    };
    job.check()?;
    let (machine, team) = start()?;
    job.run(&machine, &team)
}
