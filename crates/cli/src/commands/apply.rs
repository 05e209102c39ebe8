//! `voxalign apply`: carries an image, a label map, points or a mesh through transforms.

use crate::args::{GeometryArgs, PointArgs, RunArgs, TransformArg};
use crate::chain::Chain;
use crate::device::start_threads;
use crate::failure::{Failure, Outcome};
use crate::interrupt;
use crate::output;
use crate::progress::{Printer, Talk};
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use voxalign_compute::ops::resample::LabelInterpolation;
use voxalign_io::image::{self, DataType, ImageInfo};
use voxalign_jobs::carry;
use voxalign_jobs::files::{self, Grids, Kind};
use voxalign_jobs::machine::Auto;
use voxalign_jobs::options::{Interpolation, Outside};
use voxalign_register::resample::{MovingImage, labels_onto, meets};

/// Arguments of `voxalign apply`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  voxalign apply -i moving.nii.gz -r fixed.nii.gz -t out/affine.tfm -o warped.nii.gz
  voxalign apply -i labels.nii.gz -r fixed.nii.gz -t out/affine.tfm -o warped_labels.nii.gz \\
      --interpolation label
  voxalign apply -i atlas.nii.gz -r person.nii.gz -t inverse:out/affine.tfm \\
      -o atlas_on_person.nii.gz
  voxalign apply -i moving_points.csv -t out/affine.tfm -o fixed_points.csv
  voxalign apply -i markups.mrk.json -t out/warp.nii.gz -t out/affine.tfm \\
      -o markups_on_fixed.mrk.json
  voxalign apply -i lh.pial.gii -t out/warp.nii.gz -t out/affine.tfm -o lh.pial_on_fixed.gii
  voxalign apply -i template_bundle.trk --points-from fixed -t out/warp.nii.gz -t out/affine.tfm \\
      -o bundle_on_scan.trk

Several -t are composed first, so that the image is interpolated once. A fixed point goes through
the first -t, then the next: the order of ANTs' command line (`-t warp -t affine`).
Points that belong to the moving image are mapped to the fixed one, by the inverse; with
`--points-from fixed` they are mapped the other way, as in antsApplyTransformsToPoints. Surfaces,
curves and streamlines go as points do; normals turn along, and where the map mirrors the faces
keep their outside. The names of the files set the formats (docs/landmarks.md, docs/meshes.md).
An existing output file is replaced.

Exit codes: 0 done, 1 done but nothing of the image lies on the grid of the reference, or no point
where the transform is known, 2 bad input or options (nothing is written), 3 internal error, 130
stopped by Ctrl-C.")]
pub(crate) struct ApplyArgs {
    /// An image, a label map (with --interpolation label or nearest), a list of points (.csv, .fcsv,
    /// .mrk.json, .tag, elastix' .txt) or a mesh (.gii, .vtk, .vtp, .stl, .ply, .tck, .trk, lh.pial)
    #[arg(short, long, value_name = "FILE")]
    input: PathBuf,
    /// The image that defines the grid of the result; not for points and meshes
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
    #[arg(long)]
    interpolation: Option<Interpolation>,
    /// Value outside the moving image, or `nan` [default: 0; for images with a background below 0,
    /// such as CT, their smallest value]
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    outside: Option<Outside>,
    /// Type of the stored values: u8, i8, u16, i16, u32, i32, u64, i64, f32 or f64; not for label
    /// maps [default: f32, and that of the input with --interpolation nearest]
    #[arg(long, value_name = "TYPE")]
    data_type: Option<DataType>,
    /// Which of the two images the points or the mesh belong to [default: moving]
    #[arg(long, value_enum)]
    points_from: Option<Side>,
    #[command(flatten)]
    points: PointArgs,
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
        .chain(&args.points.points_of)
        .chain(args.geometry.paths());
    files::check_output(&args.output, inputs.map(PathBuf::as_path))?;
    let from = files::kind_to_read(&args.input)?;
    let to = files::kind_to_write(&args.output, from)?;
    if from == Kind::Transform && to == Kind::Points {
        return Err(Failure::input(format!(
            "'{}' has the name of a transform, and does not begin as an elastix list of points does ('point' or \
             'index', and their number); points are read from CSV files (.csv) whose header line is x,y,z, too, and from \
             lists of 3D Slicer and MNI",
            args.input.display()
        )));
    }
    if from != to {
        return Err(Failure::input(format!(
            "'{}' and '{}' are of different kinds; an image gives an image, points give points, a mesh gives a mesh",
            args.input.display(),
            args.output.display()
        )));
    }
    match from {
        Kind::Points | Kind::Mesh => apply_to_points(args, from),
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

/// Carries points or a mesh.
fn apply_to_points(args: &ApplyArgs, kind: Kind) -> Result<Outcome, Failure> {
    let mesh = kind == Kind::Mesh;
    let what = if mesh { "a mesh" } else { "points" };
    if args.transforms.is_empty() {
        return Err(Failure::input(format!("{what} need a transform; give -t FILE")));
    }
    let unused = [
        ("--reference", args.reference.is_some()),
        ("--interpolation", args.interpolation.is_some()),
        ("--outside", args.outside.is_some()),
        ("--data-type", args.data_type.is_some()),
        ("--device", args.run.running.machine.device.is_some()),
    ];
    let input = if mesh { "a mesh" } else { "a list of points" };
    refuse(&unused, &format!("is for images, but the input is {input}"))?;
    start_threads(args.run.running.machine.threads)?;
    let printer = Printer::lines(args.run.talk());
    let side = args.points_from.unwrap_or(Side::Moving);
    let backwards = side == Side::Moving;
    let own = match args.points.grid(&printer)? {
        Some(grid) => Some(grid),
        None => {
            let grids = args.geometry.grids()?;
            if backwards { grids.moving } else { grids.fixed }
        }
    };
    let map = chain(args, &Grids::default(), backwards)?.into_point_map(backwards)?;
    let reading = args.points.reading(own.as_ref());
    let carry = if mesh { carry::mesh_file } else { carry::points_file };
    let done = carry(&args.input, &args.output, &map, &reading, &printer)?;
    if args.run.talk() > Talk::Quiet {
        let way = match side {
            Side::Fixed => "from the fixed to the moving image",
            Side::Moving => "from the moving to the fixed image (by the inverse)",
        };
        let noun = if mesh { "vertices" } else { "points" };
        output::line(&format!("{} {noun} mapped {way}", done.count));
    }
    if done.elsewhere {
        output::warning(&format!(
            "nothing of '{}' lies where the transform is known, so the result means nothing; check which image it \
             belongs to (--points-from), its coordinates (--point-convention), and the order of the transforms",
            args.input.display()
        ));
    }
    Ok(Outcome::of(!done.elsewhere))
}

fn apply_to_image(args: &ApplyArgs) -> Result<Outcome, Failure> {
    let [convention, of] = args.points.given();
    let unused = [("--points-from", args.points_from.is_some()), convention, of];
    refuse(&unused, "is for points and meshes, but the input is an image")?;
    let Some(reference) = &args.reference else {
        return Err(Failure::input(
            "-r REFERENCE is missing: the image that defines the grid of the result",
        ));
    };
    let reference = interrupt::reading(|| image::read_info(reference))
        .map_err(|e| Failure::from(e).at("--reference"))?;
    let (reference, dimensions) = (reference.grid, reference.dimensions);
    let info = interrupt::reading(|| image::read_info(&args.input))?;
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
    let unscaled = info.unscaled_type().is_some();
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

/// Most values of a label map that is told by their number alone.
const FEW: usize = 32;

/// Whether values are whole numbers that are few, or the same over regions: of two neighbours in a row that
/// are not 0, nearly all are equal. Scans of whole numbers have noise.
fn looks_like_labels(values: &[f32], width: usize) -> bool {
    const SAME: f64 = 0.8;
    if values.iter().any(|v| v.fract() != 0.0) {
        return false;
    }
    let mut known: Vec<f32> = Vec::with_capacity(FEW + 1);
    for &value in values {
        if known.len() <= FEW && !known.contains(&value) {
            known.push(value);
        }
    }
    if (2..=FEW).contains(&known.len()) {
        return true;
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
    let unscaled = info.unscaled_type().is_some();
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
