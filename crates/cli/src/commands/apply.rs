//! `voxalign apply`: carries an image, a label map or points through transforms.

use crate::args::{GeometryArgs, RunArgs, TransformArg};
use crate::chain::{Chain, WORTH_A_WORD};
use crate::device::start_threads;
use crate::failure::{Failure, Outcome};
use crate::interrupt;
use crate::output;
use crate::progress::Talk;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use voxalign_compute::ops::resample::LabelInterpolation;
use voxalign_image::memory;
use voxalign_io::image::{self, DataType, ImageInfo};
use voxalign_io::points;
use voxalign_jobs::files::{self, Grids, Kind};
use voxalign_jobs::machine::Auto;
use voxalign_jobs::options::PointConvention;
use voxalign_jobs::options::{Interpolation, Outside, choice};
use voxalign_register::resample::{MovingImage, labels_onto, meets};

/// Arguments of `voxalign apply`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  voxalign apply -i moving.nii.gz -r fixed.nii.gz -t out/affine.tfm -o warped.nii.gz
  voxalign apply -i labels.nii.gz -r fixed.nii.gz -t out/affine.tfm -o warped_labels.nii.gz \\
      --interpolation label
  voxalign apply -i atlas.nii.gz -r person.nii.gz -t inverse:out/affine.tfm -o atlas_on_person.nii.gz
  voxalign apply -i moving_points.csv -t out/affine.tfm -o fixed_points.csv

Several -t are composed first, so that the image is interpolated once. A fixed point goes through
the first -t, then the next: the order of ANTs' command line (`-t warp -t affine`).
Points that belong to the moving image are mapped to the fixed one, by the inverse; with
`--points-from fixed` they are mapped the other way, as in antsApplyTransformsToPoints.
An existing output file is replaced.

Exit codes: 0 done, 1 done but nothing of the image lies on the grid of the reference, 2 bad input or
options (nothing is written), 3 internal error, 130 stopped by Ctrl-C.")]
pub(crate) struct ApplyArgs {
    /// An image, a label map (with --interpolation label or nearest) or a list of points (.csv)
    #[arg(short, long, value_name = "FILE")]
    input: PathBuf,
    /// The image that defines the grid of the result; not for points
    #[arg(short, long, value_name = "IMAGE")]
    reference: Option<PathBuf>,
    /// A transform: FILE, or inverse:FILE (or ANTs' `[FILE,1]`) for its inverse; a fixed point goes
    /// through the first -t, then the next. Without any, an image is resampled as the headers say
    #[arg(short, long = "transform", value_name = "FILE")]
    transforms: Vec<TransformArg>,
    /// The inverse of the displacement field in the chain, such as ANTs' 1InverseWarp.nii.gz: used
    /// where that inverse is needed, instead of computing it
    #[arg(long, value_name = "FILE")]
    inverse_warp: Option<PathBuf>,
    /// The result
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// How values between voxels are interpolated [default: linear]
    #[arg(long, value_parser = choice::<Interpolation>())]
    interpolation: Option<Interpolation>,
    /// Value outside the moving image, or `nan` [default: 0; for images with a background below 0,
    /// such as CT, their smallest value]
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    outside: Option<Outside>,
    /// Type of the stored values: u8, i8, u16, i16, u32, i32, u64, i64, f32 or f64; not for label
    /// maps [default: f32, and that of the input with --interpolation nearest]
    #[arg(long, value_name = "TYPE")]
    data_type: Option<DataType>,
    /// The image that the points belong to [default: moving]
    #[arg(long, value_enum)]
    points_from: Option<Side>,
    /// World coordinates of the points, both read and written [default: ras]
    #[arg(long, value_enum)]
    point_convention: Option<PointConvention>,
    #[command(flatten)]
    geometry: GeometryArgs,
    #[command(flatten)]
    run: RunArgs,
}

/// One of the two images of a transform.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Side {
    /// Points of the fixed image are mapped to the moving one
    Fixed,
    /// Points of the moving image are mapped to the fixed one
    Moving,
}

/// Carries the input.
pub(crate) fn run(args: ApplyArgs) -> Result<Outcome, Failure> {
    let args = &args;
    let transforms = args.transforms.iter().map(|t| &t.path);
    let inputs = std::iter::once(&args.input)
        .chain(&args.reference)
        .chain(transforms)
        .chain(&args.inverse_warp)
        .chain(args.geometry.paths());
    files::check_output(&args.output, inputs.map(PathBuf::as_path))?;
    let (from, to) = (files::kind(&args.input)?, files::kind(&args.output)?);
    if from == Kind::Transform && to == Kind::Points {
        return Err(Failure::input(format!(
            "'{}' has the name of a transform; points are read from CSV files (.csv) whose header line \
             is x,y,z, with coordinates in mm: convert the list to that form first",
            args.input.display()
        )));
    }
    if from != to {
        return Err(Failure::input(format!(
            "'{}' and '{}' are of different kinds; an image gives an image, points give points",
            args.input.display(),
            args.output.display()
        )));
    }
    match from {
        Kind::Points => apply_to_points(args),
        Kind::Image => apply_to_image(args),
        Kind::Transform => Err(Failure::input(format!(
            "'{}' is a transform; use `voxalign compose` to join transforms",
            args.input.display()
        ))),
    }
}

/// The chain with the inverse that was given for its field.
fn chain(args: &ApplyArgs, usual: &Grids, backwards: bool) -> Result<Chain, Failure> {
    let mut chain = Chain::load(&args.transforms, &args.geometry.grids()?, usual)?;
    if let Some(path) = &args.inverse_warp {
        chain.know_inverse(path, backwards)?;
    }
    Ok(chain)
}

fn apply_to_points(args: &ApplyArgs) -> Result<Outcome, Failure> {
    if args.transforms.is_empty() {
        return Err(Failure::input("points need a transform; give -t FILE"));
    }
    let unused = [
        ("--reference", args.reference.is_some()),
        ("--interpolation", args.interpolation.is_some()),
        ("--outside", args.outside.is_some()),
        ("--data-type", args.data_type.is_some()),
        ("--device", args.run.running.machine.device.is_some()),
    ];
    refuse(&unused, "is for images, but the input is a list of points")?;
    start_threads(args.run.running.machine.threads)?;
    let convention = args.point_convention.unwrap_or_default().into();
    let set = points::read_points(&args.input, convention)?;
    let side = args.points_from.unwrap_or(Side::Moving);
    let backwards = side == Side::Moving;
    let map = chain(args, &Grids::default(), backwards)?.into_point_map(backwards)?;
    let mut carried = memory::room(set.points().len())?;
    for point in set.points() {
        carried.push(map.apply(*point)?);
    }
    let off = carried.iter().filter(|(_, off)| *off > WORTH_A_WORD).count();
    if off > 0 {
        let largest = carried.iter().fold(0.0, |a: f64, (_, off)| a.max(*off));
        output::warning(&format!(
            "the displacement field folds: {off} points cannot be mapped exactly and are off by up \
             to {largest:.3} mm"
        ));
    }
    let mut carried = carried.iter();
    let moved = set.map(|p| carried.next().map_or(*p, |(q, _)| *q));
    if set.is_2d() && moved.points().iter().any(|p| p[2].abs() > WORTH_A_WORD) {
        return Err(Failure::input(format!(
            "'{}': its points have x and y alone, and the transform takes them out of that plane; give a transform \
             of 2D images, or points with a column z",
            args.input.display()
        )));
    }
    points::write_points(&args.output, &moved, convention)?;
    if args.run.talk() > Talk::Quiet {
        let way = match side {
            Side::Fixed => "from the fixed to the moving image",
            Side::Moving => "from the moving to the fixed image (by the inverse)",
        };
        output::line(&format!("{} points mapped {way}", set.len()));
    }
    Ok(Outcome::Good)
}

fn apply_to_image(args: &ApplyArgs) -> Result<Outcome, Failure> {
    let unused = [
        ("--points-from", args.points_from.is_some()),
        ("--point-convention", args.point_convention.is_some()),
    ];
    refuse(&unused, "is for points, but the input is an image")?;
    let Some(reference) = &args.reference else {
        return Err(Failure::input(
            "-r REFERENCE is missing: the image that defines the grid of the result",
        ));
    };
    let reference = image::read_info(reference).map_err(|e| Failure::from(e).at("--reference"))?;
    let (reference, dimensions) = (reference.grid, reference.dimensions);
    let info = image::read_info(&args.input)?;
    if files::is_field(&info) {
        return Err(Failure::input(format!(
            "'{}' is a displacement field; use `voxalign compose` to join transforms",
            args.input.display()
        )));
    }
    let usual = Grids { fixed: Some(reference.clone()), moving: Some(info.grid.clone()) };
    let interpolation = args.interpolation.unwrap_or(Interpolation::Linear);
    let machine = args.run.machine(Auto::Cpu)?;
    let transform = chain(args, &usual, false)?.into_transform(args.run.talk())?;
    // What is nothing but outside is written, as a batch may hold such a case, and said.
    let met = meets(&reference, &transform, &info.grid);
    // Whole numbers too wide for an image in memory are a label map with `nearest` as well.
    let unscaled = info.slope == 1.0 && info.intercept == 0.0;
    let wide =
        matches!(info.data_type, DataType::I32 | DataType::U32 | DataType::I64 | DataType::U64);
    let is_labels = interpolation == Interpolation::Label
        || (interpolation == Interpolation::Nearest
            && wide
            && unscaled
            && args.data_type.is_none());
    if is_labels {
        refuse(
            &[("--data-type", args.data_type.is_some())],
            "is not for label maps; they get the smallest type that holds their labels",
        )?;
        let outside = label_outside(args.outside)?;
        let rule = match interpolation {
            Interpolation::Nearest => LabelInterpolation::Nearest,
            _ => LabelInterpolation::Majority,
        };
        let map = files::labels(&args.input, &args.run.printer())?;
        let warped = labels_onto(&machine.device, &map, &reference, &transform, rule, outside)?;
        interrupt::check()?;
        let options = files::write_options(DataType::I32, dimensions);
        image::write_labels(&args.output, &warped, &options)?;
    } else {
        let rule = interpolation.of_image()?;
        let moving = files::image(&args.input, &args.run.printer())?;
        if interpolation != Interpolation::Nearest
            && args.run.talk() > Talk::Quiet
            && looks_like_labels(moving.data(), moving.dims()[0])
        {
            output::warning(&format!(
                "'{}' looks like a label map, and its labels are interpolated to values in \
                 between; use --interpolation label to keep them",
                args.input.display()
            ));
        }
        let outside = args.outside.map_or_else(|| files::background(&moving), |Outside(v)| v);
        let data_type = data_type(args, &info, interpolation)?;
        if !fits(outside, data_type) {
            return Err(Failure::input(format!(
                "--outside {outside} cannot be stored as {data_type}; add --data-type f32"
            )));
        }
        let warped = MovingImage::new(&machine.device, moving)?
            .onto(&reference, &transform, rule, outside)?;
        interrupt::check()?;
        files::warn_of_rounding(warped.data(), data_type, &args.run.printer());
        image::write_volume(&args.output, &warped, &files::write_options(data_type, dimensions))?;
    }
    if args.run.talk() > Talk::Quiet {
        output::line(&format!("resampled on {}", machine.name()));
    }
    if args.run.talk() == Talk::Verbose {
        output::line(&format!("result: {reference}"));
    }
    if met {
        return Ok(Outcome::Good);
    }
    output::warning(&format!(
        "no voxel of '{}' shows anything of '{}' under the transform, so the result is the value for \
         outside everywhere; check the reference, the order of the transforms, and whether one of \
         them has to be inverted (-t inverse:FILE)",
        args.reference.as_deref().unwrap_or(&args.input).display(),
        args.input.display()
    ));
    Ok(Outcome::Bad)
}

/// Whether values are whole numbers that are the same over regions: of two neighbours in a row that
/// are not 0, nearly all are equal. Scans of whole numbers have noise.
fn looks_like_labels(values: &[f32], width: usize) -> bool {
    const SAME: f64 = 0.8;
    if values.iter().any(|v| v.fract() != 0.0) {
        return false;
    }
    let neighbours = values.chunks_exact(width.max(1)).flat_map(|row| row.windows(2));
    let (mut pairs, mut same) = (0usize, 0usize);
    for pair in neighbours.filter(|p| p[0] != 0.0 && p[1] != 0.0) {
        pairs += 1;
        same += usize::from(pair[0] == pair[1]);
    }
    pairs > 0 && same as f64 >= SAME * pairs as f64
}

/// The type to store, and a refusal where values would not survive it.
fn data_type(
    args: &ApplyArgs,
    info: &ImageInfo,
    interpolation: Interpolation,
) -> Result<DataType, Failure> {
    if let Some(given) = args.data_type {
        return Ok(given);
    }
    let unscaled = info.slope == 1.0 && info.intercept == 0.0;
    let exact = matches!(
        info.data_type,
        DataType::U8 | DataType::I8 | DataType::U16 | DataType::I16 | DataType::F32
    );
    if interpolation != Interpolation::Nearest {
        return Ok(DataType::F32);
    }
    if !unscaled || exact || info.data_type == DataType::F64 {
        return Ok(if unscaled && exact { info.data_type } else { DataType::F32 });
    }
    Err(Failure::input(format!(
        "'{}' holds {} values, which may not fit 32-bit floats exactly; if it is a label map, use \
         --interpolation label, otherwise --data-type f32",
        args.input.display(),
        info.data_type
    )))
}

/// Whether a value survives being stored.
fn fits(value: f32, data_type: DataType) -> bool {
    let Some((low, high)) = data_type.range() else { return true };
    let value = f64::from(value);
    value.fract() == 0.0 && value >= low && value <= high
}

/// The label outside the moving map.
fn label_outside(outside: Option<Outside>) -> Result<i32, Failure> {
    let Some(Outside(value)) = outside else { return Ok(0) };
    if value.fract() == 0.0 && value.abs() <= 16_777_216.0 {
        return Ok(value as i32);
    }
    Err(Failure::input(format!("--outside is {value}; give a whole number, as it is a label")))
}

/// Options that would be ignored are errors.
fn refuse(options: &[(&str, bool)], why: &str) -> Result<(), Failure> {
    match options.iter().find(|(_, given)| *given) {
        Some((name, _)) => Err(Failure::input(format!("{name} {why}; leave it out"))),
        None => Ok(()),
    }
}
