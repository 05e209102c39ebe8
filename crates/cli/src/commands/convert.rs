//! `voxalign convert`: the same content in another format.

use crate::args::GeometryArgs;
use crate::device::start_threads;
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::progress::{Printer, Talk};
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};
use voxalign_io::IoError;
use voxalign_io::image::{self, DataType, Format, ImageInfo, ImageSource, ReadOptions, Region};
use voxalign_io::mesh::MeshFormat;
use voxalign_io::points::{PointFormat, WriteOptions};
use voxalign_io::transform;
use voxalign_io::xray::geometry;
use voxalign_jobs::beside::Beside;
use voxalign_jobs::carry;
use voxalign_jobs::files::{self, Kind, WhichImage};
use voxalign_jobs::options::PointConvention;
use voxalign_jobs::projection::ViewTable;

/// Arguments of `voxalign convert`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  voxalign convert brain.hdr brain.nii.gz
  voxalign convert ct.nrrd ct.nii.gz --data-type i16
  voxalign convert dicom_folder ct.nii.gz
      the slices of a DICOM series; --series says which, where there are several. Several volumes become one 4D
      file. What the headers say is in ct.json, as BIDS has it, and b-values with their directions in ct.bval and
      ct.bvec; --no-bids leaves these out
  voxalign convert old_mr mr.nii.gz --even
  voxalign convert bold.nii.gz tenth.nii.gz --volume 9
  voxalign convert perfusion.nii.gz clean.nii.gz --replace-nan 0
  voxalign convert flirt.mat affine.tfm --fixed-geometry ref.nii.gz --moving-geometry in.nii.gz
  voxalign convert affine.tfm field.nii.gz --fixed-geometry ref.nii.gz
  voxalign convert ras.csv lps.csv --to-convention lps
  voxalign convert landmarks.mrk.json landmarks.csv
  voxalign convert landmarks.fcsv points.txt --to-format index --points-of scan.nii.gz
      for elastix, as voxel indices of this image
  voxalign convert pairs.tag fixed.csv --volume 0
  voxalign convert lh.pial lh.pial.gii
  voxalign convert model.stl model.vtp --from-convention lps --to-convention lps
  voxalign convert cam1.txt cam2.txt views.toml --image cam1.tif --image cam2.tif
      where X-ray images were taken from, as one table for voxalign pose and drr, in which a 'region' of each view
      can be written: of MayaCam 2 files, cameras of OpenCV, matrices of plastimatch, other tables
  voxalign convert xa1.dcm xa2.dcm views.toml
      the same of DICOM X-ray images whose headers say it

The extensions set the formats. Images: .nii, .nii.gz, .hdr/.img, .mha, .mhd, .nrrd, .nhdr; DICOM is read. Transforms:
.tfm and .txt (ITK text), .mat (ITK/ANTs; FSL's is recognised when read), .h5 (ITK/ANTs, with its
fields), .fsl and .fsl.mat (FSL), .nii and .nii.gz (displacement field). Points: .csv, .fcsv and .mrk.json
(3D Slicer), .txt and .pts (elastix), .tag (MNI). Meshes: .gii, .vtk, .vtp, .stl, .ply, lh.pial and the
like (FreeSurfer), .tck, .trk. Views: .toml is written; .txt, .yml, .xml and DICOM are read. What the new format does not hold is said. An existing output file is
replaced.")]
pub(crate) struct ConvertArgs {
    /// The file to convert; of views there may be several, which become one table
    #[arg(value_name = "IN", required = true)]
    inputs: Vec<PathBuf>,
    /// The file to write
    #[arg(value_name = "OUT", required = true)]
    output: PathBuf,
    /// The X-ray image of a view, for the table; once for each, in their order
    #[arg(long = "image", value_name = "IMAGE")]
    images: Vec<PathBuf>,
    /// Type of the stored values: u8, i8, u16, i16, u32, i32, u64, i64, f32 or f64; where an integer type cannot
    /// hold them, values are rounded and clamped, and it is said of how many [default: that of the input, or
    /// f32 where it is scaled]
    #[arg(long, value_name = "TYPE")]
    data_type: Option<DataType>,
    /// Value for voxels that are NaN or infinite
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    replace_nan: Option<f32>,
    /// Make DICOM slices at uneven distances an even stack, linearly interpolated between them
    #[arg(long)]
    even: bool,
    /// Of DICOM, write the image alone, without .json, .bval and .bvec beside it
    #[arg(long)]
    no_bids: bool,
    /// World coordinates of points and meshes that are read, where the file does not say them [default:
    /// ras; of ANTs' CSV lps]
    #[arg(long, value_enum)]
    from_convention: Option<PointConvention>,
    /// World coordinates of points and meshes that are written, in formats that can have both [default:
    /// ras; for 3D Slicer's points lps]
    #[arg(long, value_enum)]
    to_convention: Option<PointConvention>,
    /// Format of the list of points [default: that of the name]
    #[arg(long, value_enum)]
    to_format: Option<ListFormat>,
    /// The image that the points belong to: elastix' lists of voxel indices need it
    #[arg(long, value_name = "IMAGE")]
    points_of: Option<PathBuf>,
    #[command(flatten)]
    which: WhichImage,
    #[command(flatten)]
    geometry: GeometryArgs,
}

/// A format of lists of points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ListFormat {
    /// Comma-separated, with x,y,z as header
    Csv,
    /// Comma-separated as ANTs has it: x,y,z,t,label,comment, LPS
    Ants,
    /// 3D Slicer's markups (.mrk.json)
    Markups,
    /// 3D Slicer's fiducials (.fcsv)
    Fcsv,
    /// elastix' list of points, LPS mm
    Point,
    /// elastix' list of voxel indices of the image of --points-of
    Index,
    /// MNI's tags
    Tag,
}

impl From<ListFormat> for PointFormat {
    fn from(format: ListFormat) -> Self {
        match format {
            ListFormat::Csv => Self::Csv,
            ListFormat::Ants => Self::Ants,
            ListFormat::Markups => Self::Markups,
            ListFormat::Fcsv => Self::Fcsv,
            ListFormat::Point => Self::ElastixPoint,
            ListFormat::Index => Self::ElastixIndex,
            ListFormat::Tag => Self::Tag,
        }
    }
}

impl ConvertArgs {
    /// The only input of what has one.
    fn input(&self) -> &Path {
        self.inputs.first().map_or(Path::new(""), PathBuf::as_path)
    }

    /// What of the image is read.
    fn reading(&self) -> ReadOptions {
        ReadOptions { even: self.even, ..self.which.options() }
    }
}

/// Converts the file.
pub(crate) fn run(args: ConvertArgs) -> Result<Outcome, Failure> {
    let args = &args;
    let is_table = args.output.extension().is_some_and(|e| e.eq_ignore_ascii_case("toml"));
    if is_table {
        return convert_views(args);
    }
    check_single(args)?;
    let inputs = args.inputs.iter().chain(args.geometry.paths()).chain(&args.points_of);
    files::check_output(&args.output, inputs.map(PathBuf::as_path))?;
    start_threads(None)?;
    let from = files::kind_to_read(args.input())?;
    let to = files::kind_to_write(&args.output, from)?;
    match (from, to) {
        (Kind::Points, Kind::Points) => convert_points(args),
        (Kind::Mesh, Kind::Mesh) => convert_mesh(args),
        (Kind::Transform, Kind::Transform | Kind::Image) => convert_transform(args),
        (Kind::Image, Kind::Transform | Kind::Image) => {
            let info = image::read_info_of(args.input(), &args.reading())?;
            match (files::is_field(&info), to) {
                (true, _) => convert_transform(args),
                (false, Kind::Image) => convert_image(args, &info),
                (false, _) => Err(mismatch(args)),
            }
        }
        _ => Err(mismatch(args)),
    }
}

/// Refuses what is for a table of views.
fn check_single(args: &ConvertArgs) -> Result<(), Failure> {
    let output = args.output.display();
    if let [first, .., last] = &args.inputs[..] {
        return Err(Failure::input(format!(
            "'{}' to '{}' are {} files, and '{output}' is made of one; several are views of X-ray images, whose table is a \
             .toml file",
            first.display(),
            last.display(),
            args.inputs.len()
        )));
    }
    let input = args.input();
    if geometry::is_views(input) {
        return Err(Failure::input(format!(
            "'{}' holds views of X-ray images, and '{output}' is not a table of them; name a .toml file to write",
            input.display()
        )));
    }
    Ok(())
}

fn mismatch(args: &ConvertArgs) -> Failure {
    Failure::input(format!(
        "'{}' cannot be converted to '{}': images convert to images, transforms to transforms and \
         points to points and meshes to meshes",
        args.input().display(),
        args.output.display()
    ))
}

/// Refuses options that are for another kind of file; views are of no kind.
fn only(args: &ConvertArgs, kind: Option<Kind>) -> Result<(), Failure> {
    const IMAGE: Option<Kind> = Some(Kind::Image);
    const POINTS: Option<Kind> = Some(Kind::Points);
    const TRANSFORM: Option<Kind> = Some(Kind::Transform);
    const MESH: Option<Kind> = Some(Kind::Mesh);
    let options = [
        ("--data-type", args.data_type.is_some(), &[IMAGE][..]),
        ("--replace-nan", args.replace_nan.is_some(), &[IMAGE]),
        ("--volume", args.which.volume.is_some(), &[IMAGE, POINTS]),
        ("--series", args.which.series.is_some(), &[IMAGE]),
        ("--even", args.even, &[IMAGE]),
        ("--no-bids", args.no_bids, &[IMAGE]),
        ("--from-convention", args.from_convention.is_some(), &[POINTS, MESH]),
        ("--to-convention", args.to_convention.is_some(), &[POINTS, MESH]),
        ("--to-format", args.to_format.is_some(), &[POINTS]),
        ("--points-of", args.points_of.is_some(), &[POINTS]),
        ("--fixed-geometry", args.geometry.fixed_geometry.is_some(), &[TRANSFORM]),
        ("--moving-geometry", args.geometry.moving_geometry.is_some(), &[TRANSFORM]),
        ("--image", !args.images.is_empty(), &[None]),
    ];
    let name = |kind| match kind {
        Some(Kind::Image) => "images",
        Some(Kind::Points) => "points",
        Some(Kind::Transform) => "transforms",
        Some(Kind::Mesh) => "a mesh",
        None => "views",
    };
    match options.iter().find(|(_, given, of)| *given && !of.contains(&kind)) {
        Some((option, _, of)) => Err(Failure::input(format!(
            "{option} is for {}, but '{}' holds {}; leave it out",
            of.iter().map(|of| name(*of)).collect::<Vec<_>>().join(" and "),
            args.input().display(),
            name(kind)
        ))),
        None => Ok(()),
    }
}

/// Makes a table of views.
fn convert_views(args: &ConvertArgs) -> Result<Outcome, Failure> {
    only(args, None)?;
    start_threads(None)?;
    let table = ViewTable { inputs: args.inputs.clone(), images: args.images.clone() };
    table.write(&args.output, &Printer::lines(Talk::Normal))?;
    Ok(Outcome::Good)
}

fn convert_points(args: &ConvertArgs) -> Result<Outcome, Failure> {
    only(args, Some(Kind::Points))?;
    let printer = Printer::lines(Talk::Normal);
    let grid = args
        .points_of
        .as_ref()
        .map(|image| files::grid(image, &printer).map_err(|e| Failure::from(e).at("--points-of")));
    let grid = grid.transpose()?;
    let reading = carry::Reading {
        convention: args.from_convention,
        grid: grid.as_ref(),
        volume: args.which.volume,
    };
    let (set, info) = files::points(args.input(), &reading.options(), &printer)?;
    let options = WriteOptions {
        convention: args.to_convention.map(Into::into),
        format: args.to_format.map(Into::into),
        grid: grid.as_ref(),
    };
    let indices = [Some(info.format), options.format].contains(&Some(PointFormat::ElastixIndex));
    if grid.is_some() && !indices {
        return Err(Failure::input(
            "--points-of is for lists of voxel indices (--to-format index), and there are none; leave it out",
        ));
    }
    carry::write_points(&args.output, &set, &options, &printer)?;
    Ok(Outcome::Good)
}

fn convert_mesh(args: &ConvertArgs) -> Result<Outcome, Failure> {
    only(args, Some(Kind::Mesh))?;
    let printer = Printer::lines(Talk::Normal);
    let format = MeshFormat::from_path(&args.output)?;
    if args.to_convention.is_some() && format.has_world() {
        return Err(Failure::input(format!(
            "--to-convention is for formats that may be in any space, and {format} says where it is; leave it out"
        )));
    }
    let (mesh, _) = files::mesh(args.input(), args.from_convention, &printer)?;
    let space = args.to_convention.map(Into::into).unwrap_or_default();
    carry::write_mesh(&args.output, &mesh, space, &printer)?;
    Ok(Outcome::Good)
}

fn convert_transform(args: &ConvertArgs) -> Result<Outcome, Failure> {
    only(args, Some(Kind::Transform))?;
    let grids = args.geometry.grids()?;
    let read = files::transform(args.input(), &grids.geometry(), &Printer::lines(Talk::Normal))?;
    transform::write(&args.output, &read.simplified(), &grids.geometry())?;
    Ok(Outcome::Good)
}

fn convert_image(args: &ConvertArgs, info: &ImageInfo) -> Result<Outcome, Failure> {
    only(args, Some(Kind::Image))?;
    let which = args.reading();
    if args.no_bids && info.format != Format::Dicom {
        return Err(Failure::input(format!(
            "--no-bids is for DICOM, but '{}' is a {} image; leave it out",
            args.input().display(),
            info.format
        )));
    }
    let nifti = matches!(Format::from_path(&args.output)?, Format::Nifti | Format::NiftiPair);
    let beside = (info.format == Format::Dicom && nifti && !args.no_bids)
        .then(|| Beside::of(&args.output))
        .transpose()?;
    let several = info.volumes() > 1 && which.volume.is_none() && nifti;
    if !several && beside.is_none() {
        convert_volume(args, info, &which)?;
        return Ok(Outcome::Good);
    }
    let source = image::open(args.input(), &which)?;
    let sidecar = source.sidecar(which.volume)?;
    if several {
        convert_volumes(args, &*source, sidecar.as_ref().and_then(|s| s.time_step_s))?;
    } else {
        convert_volume(args, info, &which)?;
    }
    if let (Some(beside), Some(sidecar)) = (beside, sidecar) {
        beside.write(&sidecar)?;
    }
    Ok(Outcome::Good)
}

/// The type to store, where none is asked for: that of the input where it holds the values and 32-bit floats
/// hold its own.
fn usual_type(info: &ImageInfo) -> DataType {
    let wide = info.data_type.size() >= 4 && info.data_type.is_integer();
    match info.unscaled_type() {
        Some(kept) if !wide && kept != DataType::F64 => kept,
        _ => DataType::F32,
    }
}

/// Says that values are stored in another type than that of the input.
fn say_type(args: &ConvertArgs, info: &ImageInfo, data_type: DataType) {
    if args.data_type.is_none() && data_type != info.data_type {
        output::warning(&format!(
            "the values are stored as {data_type}; in the input they were {}{}",
            info.data_type,
            if info.unscaled_type().is_some() { "" } else { " with a scale" }
        ));
    }
}

/// Puts finite values in place of others, and refuses what a type cannot hold; gives how many are clamped, and rounded.
fn check_values(
    args: &ConvertArgs,
    values: &mut [f32],
    data_type: DataType,
) -> Result<(usize, usize), Failure> {
    if let Some(value) = args.replace_nan {
        values.iter_mut().filter(|v| !v.is_finite()).for_each(|v| *v = value);
    }
    let not_finite = values.iter().filter(|v| !v.is_finite()).count();
    if data_type.is_integer() && not_finite > 0 {
        return Err(Failure::input(format!(
            "'{}' has {not_finite} voxels that are NaN or infinite, which {data_type} cannot hold; \
             add --replace-nan 0",
            args.input().display()
        )));
    }
    let (clamped, rounded) = files::changed(values, data_type);
    if args.data_type.is_none() && clamped + rounded > 0 {
        return Err(Failure::input(format!(
            "{} voxels of '{}' cannot be stored as {data_type}; add --data-type f32",
            clamped + rounded,
            args.input().display()
        )));
    }
    Ok((clamped, rounded))
}

/// Converts one volume.
fn convert_volume(
    args: &ConvertArgs,
    info: &ImageInfo,
    which: &ReadOptions,
) -> Result<(), Failure> {
    let unscaled = info.unscaled_type().is_some();
    let wide = info.data_type.size() >= 4 && info.data_type.is_integer();
    if unscaled && wide && args.data_type.is_none() && args.replace_nan.is_none() {
        // Values that 32-bit floats would round.
        if let Ok(map) = image::read_labels_of(args.input(), which) {
            let options = files::write_options(DataType::I32, info.dimensions);
            image::write_labels(&args.output, &map, &options)?;
            return Ok(());
        }
    }
    let (mut volume, _) = files::image_of(args.input(), which, &Printer::lines(Talk::Normal))?;
    let data_type = args.data_type.unwrap_or_else(|| usual_type(info));
    let changed = check_values(args, volume.data_mut(), data_type)?;
    say_type(args, info, data_type);
    files::say_changes(changed, data_type, &Printer::lines(Talk::Normal));
    let options = files::write_options(data_type, info.dimensions);
    image::write_volume(&args.output, &volume, &options)?;
    Ok(())
}

/// Converts all volumes into one file, one after the other.
fn convert_volumes(
    args: &ConvertArgs,
    source: &dyn ImageSource,
    time_step_s: Option<f64>,
) -> Result<(), Failure> {
    let info = source.info();
    let printer = Printer::lines(Talk::Normal);
    files::say_oddities(info, &printer);
    let data_type = args.data_type.unwrap_or_else(|| usual_type(info));
    say_type(args, info, data_type);
    let options = files::write_options(data_type, 4);
    let whole = Region::whole(info.grid.dims());
    let mut refused = None;
    let mut changed = (0, 0);
    let mut read = |volume: usize, values: &mut [f32]| {
        source.read(&whole, volume, values)?;
        match check_values(args, values, data_type) {
            Ok((clamped, rounded)) => {
                changed = (changed.0 + clamped, changed.1 + rounded);
                Ok(())
            }
            Err(failure) => {
                refused = Some(failure);
                Err(IoError::Malformed {
                    path: args.input().to_owned(),
                    problem: "it cannot be stored".into(),
                    remedy: "choose another type".into(),
                })
            }
        }
    };
    let (grid, volumes) = (&info.grid, info.volumes());
    let done = image::write_volumes(&args.output, grid, volumes, time_step_s, &options, &mut read);
    if let Some(refused) = refused {
        return Err(refused);
    }
    done?;
    files::say_changes(changed, data_type, &printer);
    Ok(())
}
