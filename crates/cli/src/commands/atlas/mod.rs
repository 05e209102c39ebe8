//! `voxalign atlas`: builds the unbiased mean of many images.

mod job;
mod prepared;
mod regress;
mod source;
mod stability;
mod table;

use crate::args::RunArgs;
use crate::args::{choice, number};
use crate::device::Auto;
use crate::failure::{Failure, Outcome};
use crate::files;
use crate::list;
use crate::registration::MatchingArgs;
use clap::{Args, ValueEnum};
use job::Job;
use prepared::Study;
use regress::{RegressArgs, Regression};
use stability::{StabilityArgs, Test};
use std::path::PathBuf;
use voxalign_population::atlas::{AlignOptions, AtlasOptions};
use voxalign_register::linear::AffineOptions;
use voxalign_register::metric::Cost;

const EXAMPLES: &str = "\
Examples:
  voxalign atlas t1/*.nii.gz -o atlas
      an affine registration of all to their mean, then Algorithm 4: the template and the
      deformations of all subjects to it, from coarse to fine
  voxalign atlas --list subjects.csv -o atlas --spacing 2
      a list with a line for each subject; an atlas with voxels of 2 mm
  voxalign atlas aligned/*.nii.gz -o atlas --align none --model lddmm --similarity ssd
      images that share a space already
  voxalign atlas t1/*.nii.gz -o atlas --align rigid --schedule 4x50,2x30
      the sizes of the subjects stay to the deformations
  voxalign atlas --list subjects.csv -o atlas --regress age --at 65,70,75,80 --bandwidth 5
      the atlas at each of these ages, and the volumes of labels over them
  voxalign atlas t1/*.nii.gz -o test --stability 2..14 --cohorts 100
      how many subjects an atlas needs: 100 of randomly chosen ones, of 2 each to 14 each

The list is CSV with a header line: the column path, and any of name, weight, mask (voxels above 0
count), labels (a label map, to report the overlap), channel2, channel3, ... (further images of the
same subject, on whatever grid), and numbers of other names. Paths are relative to its folder.

The result does not depend on the order of the images, nor on the number of threads.

Written to DIR (older files of these names are replaced):
  atlas.nii.gz                        the template: the mean of the subjects in their mean shape
  atlas_affine.nii.gz                 their mean after the affine maps alone, to compare with
  variance.nii.gz                     the variance over the subjects, calibrated units squared
  log_jacobian.nii.gz                 the mean logarithm of the subjects' changes of volume
  labels.nii.gz                       where there are labels: the most frequent one
  subjects/NAME/warp.nii.gz           displacements on the grid of the atlas (ANTs: 1Warp)
  subjects/NAME/inverse_warp.nii.gz   their inverse (ANTs: 1InverseWarp)
  subjects/NAME/affine.tfm            the affine part, atlas to subject (ANTs: 0GenericAffine)
  subjects/NAME/warped.nii.gz         the subject on the grid of the atlas, calibrated
  subjects/NAME/jacobian.nii.gz       Jacobian determinant of the warp
  result.json                         verdict, subjects, energies, parameters, checksums
With --regress: at_VALUE/ with the images above for each value, volumes.csv, report.html, result.json.
With --stability: cohorts.csv (a row an atlas), sizes.csv (a row a size), report.html, result.json.
To carry a subject to the atlas: voxalign apply -i SUBJECT -r atlas.nii.gz
-t subjects/NAME/warp.nii.gz -t subjects/NAME/affine.tfm -o w.nii.gz

Exit codes: 0 done and the verdict is good, 1 done but the verdict is bad,
2 bad input or options (nothing is written), 3 internal error, 130 stopped by Ctrl-C.";

/// How subjects are brought to a common space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Align {
    /// As the headers have it
    None,
    /// Rotations and translations
    Rigid,
    /// And one scale
    Similarity,
    /// And scales and shears
    #[default]
    Affine,
}

/// Arguments of `voxalign atlas`.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES, arg_required_else_help = true, args_override_self = true)]
pub(crate) struct AtlasArgs {
    /// The images, one of each subject
    #[arg(value_name = "IMAGES", conflicts_with = "list")]
    images: Vec<PathBuf>,
    /// CSV file with a line for each subject
    #[arg(long, value_name = "FILE.csv")]
    list: Option<PathBuf>,
    /// Folder for the results; made where it is not there
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,

    /// How subjects are brought to a common space first [default: affine]
    #[arg(long, value_enum, help_heading = "Common space")]
    align: Option<Align>,
    /// How often the subjects are registered to their mean [default: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=20),
          help_heading = "Common space")]
    rounds: Option<u8>,
    /// Similarity of these registrations [default: ncc]
    #[arg(long, value_parser = choice::<Cost>(), help_heading = "Common space")]
    cost: Option<Cost>,
    /// Spacing of the atlas, mm [default: the median of the subjects]
    #[arg(long, value_name = "MM", value_parser = above_zero, help_heading = "Common space",
          conflicts_with = "reference")]
    spacing: Option<f64>,
    /// Image whose grid is that of the atlas [default: along the world's axes around all subjects; with
    /// --align none the grid of the images, where they share one]
    #[arg(long, value_name = "IMAGE", help_heading = "Common space")]
    reference: Option<PathBuf>,

    #[command(flatten)]
    matching: MatchingArgs,
    /// Leave the mean displacement in the result: the template then has a shape that depends on how the
    /// flows went
    #[arg(long, help_heading = "Method")]
    no_centre: bool,

    /// Write atlas and record only, nothing for each subject
    #[arg(long, help_heading = "Output")]
    no_subjects: bool,

    #[command(flatten)]
    regress: RegressArgs,
    #[command(flatten)]
    stability: StabilityArgs,
    #[command(flatten)]
    run: RunArgs,
}

fn above_zero(text: &str) -> Result<f64, String> {
    number(text).ok().filter(|v| *v > 0.0).ok_or_else(|| "give a number above 0".to_owned())
}

/// Builds the atlas.
pub(crate) fn run(args: &AtlasArgs) -> Result<Outcome, Failure> {
    let entries = match &args.list {
        Some(list) => list::of_csv(list)?,
        None => list::of_images(&args.images),
    };
    let align = args.align.unwrap_or_default();
    let dof = match align {
        Align::None => None,
        Align::Rigid => Some(6),
        Align::Similarity => Some(7),
        Align::Affine => Some(12),
    };
    if dof.is_none() {
        for (given, option) in
            [(args.rounds.is_some(), "--rounds"), (args.cost.is_some(), "--cost")]
        {
            crate::registration::refuse(given, option, "--align rigid, similarity and affine")?;
        }
    }
    let cost = args.cost.unwrap_or(Cost::Ncc);
    let affine = dof.map(|dof| AffineOptions { dof, cost, ..AffineOptions::default() });
    let usual = |model| AtlasOptions::of(model).matching;
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
    };
    let list = args.list.as_deref();
    let study = |entries, align, options| Study {
        entries,
        list,
        output: &args.output,
        align,
        options,
        talk: args.run.talk(),
    };
    if let Some(column) = &args.regress.regress {
        let study = study(entries, align, options);
        return Regression::new(&args.regress, column, study)?.run(&args.run.machine(Auto::Gpu)?);
    }
    if let Some(sizes) = &args.stability.stability {
        let study = study(entries, align, options);
        return Test::new(&args.stability, sizes, study)?.run(&args.run.machine(Auto::Gpu)?);
    }
    let job = Job {
        entries,
        list: args.list.as_deref(),
        output: &args.output,
        align,
        options,
        subjects: !args.no_subjects,
        talk: args.run.talk(),
    };
    job.check()?;
    job.run(&args.run.machine(Auto::Gpu)?)
}
