//! `voxalign stack`: operators over many images, streamed through bounded memory.

mod work;

use crate::args::{RunArgs, number};
use crate::device::Auto;
use crate::failure::{Failure, Outcome};
use crate::files;
use crate::interrupt;
use crate::list;
use crate::output;
use crate::progress::Talk;
use crate::registration::{self, Clock, Input};
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};
use voxalign_io::image::DataType;
use voxalign_population::stream::{Files, Source};
use voxalign_report::{GridRecord, StackRecord};

/// What to compute from the images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Operation {
    /// The (weighted) mean: one image
    Mean,
    /// The largest value of each voxel: one image
    Max,
    /// The smallest value of each voxel: one image
    Min,
    /// The sample variance of each voxel (over n - 1): one image
    Variance,
    /// The product of each voxel over all images, such as the intersection of masks: one image
    Product,
    /// The sum of squares of each image, or of its differences to --reference: a table (.csv)
    Energy,
    /// Each image scaled to common intensities: a folder of images
    Normalise,
    /// Each image smoothed by a Gaussian of --sigma: a folder of images
    Smooth,
    /// The mean of each image and its neighbours in the series: a folder of images
    WindowMean,
}

impl Operation {
    /// What the output is.
    fn output(self) -> Kind {
        match self {
            Self::Mean | Self::Max | Self::Min | Self::Variance | Self::Product => Kind::Image,
            Self::Energy => Kind::Table,
            Self::Normalise | Self::Smooth | Self::WindowMean => Kind::Folder,
        }
    }

    fn name(self) -> String {
        self.to_possible_value().map(|v| v.get_name().to_owned()).unwrap_or_default()
    }
}

/// What a result is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Image,
    Table,
    Folder,
}

/// Arguments of `voxalign stack`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  voxalign stack mean warped/*.nii.gz -o mean.nii.gz
  voxalign stack mean --list subjects.csv -o mean.nii.gz
  voxalign stack normalise raw/*.nii.gz -o normalised --range 0,1
  voxalign stack smooth raw/*.nii.gz -o smooth --sigma 2
  voxalign stack energy warped/*.nii.gz --reference mean.nii.gz -o energy.csv

All images must be on one grid; `voxalign apply` resamples them onto one. Reading, computing and
writing go on at the same time, and memory does not grow with the number of images. Results do not
depend on the order of the images (except for window-mean) nor on the number of threads. A list has
a line for each image, as for `voxalign atlas`: the column `path`, relative to the folder of the
list, and optionally `weight`. A folder of results has files with the names of the images, with
.nii.gz instead of formats of two files; they appear together when all are complete.

Beside an image or a table OUT there is its record OUT.json, such as mean.nii.gz.json; in a folder
it is result.json. It has the version, the command, all parameters, the checksums of the images
(taken while they are read), times and the memory that was used.")]
pub(crate) struct StackArgs {
    /// What to compute from the images
    #[arg(value_enum)]
    operation: Operation,
    /// The images, all on one grid
    #[arg(value_name = "IMAGES", required_unless_present = "list", conflicts_with = "list")]
    images: Vec<PathBuf>,
    /// The images as a table with the column `path` and, for mean, optionally `weight`
    #[arg(long, value_name = "FILE.csv")]
    list: Option<PathBuf>,
    /// The result: an image, a table for energy, a folder for normalise, smooth and window-mean
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Weights of the images, for mean; they are divided by their sum
    #[arg(long, value_name = "W,W,...", value_delimiter = ',', value_parser = number,
          conflicts_with = "list", allow_hyphen_values = true)]
    weights: Vec<f64>,
    /// Standard deviation of the Gaussian, mm, for smooth
    #[arg(long, value_name = "MM", value_parser = number, allow_hyphen_values = true)]
    sigma: Option<f64>,
    /// Number of images in a window, odd, for window-mean [default: 3]
    #[arg(long, value_name = "N")]
    window: Option<usize>,
    /// Intensity range that each image is scaled to, for normalise [default: zero mean and unit
    /// variance]
    #[arg(long, value_name = "LOW,HIGH", value_delimiter = ',', num_args = 1,
          value_parser = number, allow_hyphen_values = true)]
    range: Vec<f64>,
    /// Type of the stored values: u8, i8, u16, i16, u32, i32, u64, i64, f32 or f64; not for energy
    /// [default: f32; for max and min that of the images, if all have the same one of at most 16
    /// bits and none is scaled]
    #[arg(long, value_name = "TYPE")]
    data_type: Option<DataType>,
    /// Image that is subtracted first, for energy
    #[arg(long, value_name = "IMAGE")]
    reference: Option<PathBuf>,
    #[command(flatten)]
    run: RunArgs,
}

impl StackArgs {
    /// Images of a window.
    fn window(&self) -> usize {
        self.window.unwrap_or(3)
    }
}

/// The images, and their weights or none.
struct Images {
    paths: Vec<PathBuf>,
    weights: Vec<f64>,
}

impl Images {
    fn of_list(list: &Path) -> Result<Self, Failure> {
        let entries = interrupt::reading(|| list::of_csv(list))?;
        if entries[0].channels.len() > 1 {
            return Err(Failure::input(format!(
                "the list '{}': it has several channels, but stack takes one image per line; leave \
                 out the column channel2",
                list.display()
            )));
        }
        // Without a column all are 1, which are no weights.
        let weighted = entries.iter().any(|e| e.weight != 1.0);
        let weights =
            if weighted { entries.iter().map(|e| e.weight).collect() } else { Vec::new() };
        Ok(Self { paths: entries.into_iter().flat_map(|e| e.channels).collect(), weights })
    }
}

/// Makes the result.
pub(crate) fn run(args: &StackArgs) -> Result<Outcome, Failure> {
    check_options(args)?;
    let images = match &args.list {
        Some(list) => Images::of_list(list)?,
        None => Images { paths: args.images.clone(), weights: args.weights.clone() },
    };
    if !images.weights.is_empty() && args.operation != Operation::Mean {
        return Err(Failure::input(format!(
            "weights are for mean, but this is {}; leave them out",
            args.operation.name()
        )));
    }
    let inputs = images.paths.iter().chain(&args.reference).chain(&args.list);
    let inputs: Vec<_> = inputs.map(PathBuf::as_path).collect();
    let mut clock = Clock::start();
    match args.operation.output() {
        Kind::Folder => work::check_folder(args, &images.paths, &inputs)?,
        kind => {
            files::check_output(&args.output, inputs.iter().copied())?;
            files::check_output(&work::beside(&args.output), inputs.iter().copied())?;
            let named = files::kind(&args.output)?;
            let (wanted, name) = match kind {
                Kind::Image => (files::Kind::Image, "an image, such as mean.nii.gz"),
                _ => (files::Kind::Points, "a table, such as energy.csv"),
            };
            if named != wanted {
                return Err(Failure::input(format!(
                    "'{}': the result of {} must be {name}",
                    args.output.display(),
                    args.operation.name()
                )));
            }
        }
    }
    let source = Files::open(images.paths.clone())?.with_checksums();
    clock.lap("headers");
    let machine = args.run.machine(Auto::Cpu)?;
    clock.lap("device");
    // Other inputs are small; images are hashed while they are read.
    let others: Vec<_> = (args.list.iter().map(|p| Input::other("list", p)))
        .chain(args.reference.iter().map(|p| Input::image("reference", p)))
        .collect();
    let record = registration::record("voxalign stack", &machine, registration::inputs(&others)?);
    let job = work::Job {
        args,
        images: &images,
        source: &source,
        data_type: args.data_type.unwrap_or_else(|| usual_type(args.operation, &source)),
        record: StackRecord::new(record, GridRecord::from(source.grid())),
        clock,
        options: voxalign_population::stream::StreamOptions {
            readers: machine.readers(),
            ..Default::default()
        },
    };
    let trace = job.run(&machine.device)?;
    if args.run.talk() > Talk::Quiet {
        let (count, name) = (images.paths.len(), args.operation.name());
        output::line(&format!("{name} of {count} images on {}", machine.name()));
    }
    if args.run.talk() == Talk::Verbose {
        let bound = trace.bound();
        output::line(&format!("{:.3} s; the slowest stage took {bound:.3} s", trace.wall()));
        for (i, stage) in trace.stages.iter().enumerate() {
            output::line(&format!("  {}: {:.3} s", stage.name, trace.busy(i)));
        }
    }
    Ok(Outcome::Good)
}

/// The type of the stored values where none is asked for: results that are values of the images keep that of
/// the images, where 32-bit floats hold all of it.
fn usual_type(operation: Operation, source: &Files) -> DataType {
    let small = |t: &DataType| t.is_integer() && t.size() <= 2;
    match operation {
        Operation::Max | Operation::Min => source.data_type().filter(small),
        _ => None,
    }
    .unwrap_or(DataType::F32)
}

/// Options that would be ignored are errors.
fn check_options(args: &StackArgs) -> Result<(), Failure> {
    let options = [
        ("--weights", !args.weights.is_empty(), Operation::Mean),
        ("--sigma", args.sigma.is_some(), Operation::Smooth),
        ("--window", args.window.is_some(), Operation::WindowMean),
        ("--range", !args.range.is_empty(), Operation::Normalise),
        ("--reference", args.reference.is_some(), Operation::Energy),
    ];
    for (option, given, of) in options {
        if given && of != args.operation {
            return Err(Failure::input(format!(
                "{option} is for {}, but this is {}; leave it out",
                of.name(),
                args.operation.name()
            )));
        }
    }
    if args.data_type.is_some() && args.operation == Operation::Energy {
        return Err(Failure::input(
            "--data-type is for images, and the result of energy is a table; leave it out",
        ));
    }
    if args.operation == Operation::Smooth && args.sigma.is_none() {
        return Err(Failure::input("smooth needs --sigma, the width of the Gaussian in mm"));
    }
    if !args.range.is_empty() && !matches!(args.range[..], [low, high] if low < high) {
        return Err(Failure::input("--range: give the lower number first, such as 0,1"));
    }
    if args.window.is_some_and(|n| n % 2 == 0) {
        return Err(Failure::input(
            "--window: give an odd number, for the image and as many neighbours on each side",
        ));
    }
    Ok(())
}
