//! The same content in another format: images, transforms, lists of points, meshes, and tables of X-ray views. Formats are
//! those of files: what is in memory is written by [`voxalign_io`].
//!
//! ```no_run
//! use voxalign_jobs::{Silent, convert};
//!
//! # fn main() -> Result<(), voxalign_jobs::Error> {
//! convert::Job::new("dicom_folder", "ct.nii.gz").run(&Silent)?;
//! # Ok(())
//! # }
//! ```

use crate::beside::Beside;
use crate::blocks::is_zarr;
use crate::carry::{self, Reading};
use crate::error::{Error, Result};
use crate::files::{self, Kind, WhichImage};
use crate::listener::{Level, Listener};
use crate::options::{GeometryOptions, PointConvention, as_text, grid_of, negated, refuse};
use crate::projection::ViewTable;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use voxalign_io::IoError;
use voxalign_io::image::{self, DataType, Format, ImageInfo, ImageSource, ReadOptions, Region};
use voxalign_io::mesh::MeshFormat;
use voxalign_io::points::{PointFormat, WriteOptions};
use voxalign_io::transform;
use voxalign_io::xray::geometry;
use voxalign_options::{Choice, text};

/// A file that is to be written in another format.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(default)]
pub struct Job {
    /// The file to convert; several files of views become one table
    #[cfg_attr(feature = "clap", arg(value_name = "IN", required = true))]
    pub inputs: Vec<PathBuf>,
    /// The file to write
    #[cfg_attr(feature = "clap", arg(value_name = "OUT", required = true))]
    pub output: PathBuf,
    /// X-ray image of a view, for the table; once per view, in order
    #[cfg_attr(feature = "clap", arg(long = "image", value_name = "IMAGE"))]
    #[serde(rename = "image")]
    pub images: Vec<PathBuf>,
    /// Type of the stored values: u8, i8, u16, i16, u32, i32, u64, i64, f32 or f64; where an integer type cannot
    /// hold them, values are rounded and clamped, and their number is reported [default: that of the input, or
    /// f32 where it is scaled]
    #[cfg_attr(feature = "clap", arg(long, value_name = "TYPE"))]
    #[serde(with = "as_text")]
    pub data_type: Option<DataType>,
    /// Value for voxels that are NaN or infinite
    #[cfg_attr(feature = "clap", arg(long, value_name = "VALUE", allow_hyphen_values = true))]
    pub replace_nan: Option<f32>,
    /// Resample unevenly spaced DICOM slices to even spacing, by linear interpolation
    #[cfg_attr(feature = "clap", arg(long))]
    pub even: bool,
    /// From DICOM, write only the image, without .json, .bval and .bvec beside it
    #[cfg_attr(feature = "clap", arg(long))]
    #[serde(rename = "bids", with = "negated")]
    pub no_bids: bool,
    /// World coordinates of points and meshes that are read, if the file does not state them [default:
    /// ras; of ANTs' CSV lps]
    #[cfg_attr(feature = "clap", arg(long, value_enum))]
    pub from_convention: Option<PointConvention>,
    /// World coordinates of points and meshes that are written, in formats that can have both [default:
    /// ras; for 3D Slicer's points lps]
    #[cfg_attr(feature = "clap", arg(long, value_enum))]
    pub to_convention: Option<PointConvention>,
    /// Format of the list of points [default: that of the name]
    #[cfg_attr(feature = "clap", arg(long, value_enum))]
    pub to_format: Option<ListFormat>,
    /// The image that the points belong to: elastix' lists of voxel indices need it
    #[cfg_attr(feature = "clap", arg(long, value_name = "IMAGE"))]
    pub points_of: Option<PathBuf>,
    /// Which image of several.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub which: WhichImage,
    /// The images that transform files are relative to.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub geometry: GeometryOptions,
}

/// A format of lists of points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Choice)]
pub enum ListFormat {
    /// Comma-separated, with x,y,z as header.
    Csv,
    /// Comma-separated as ANTs has it: x,y,z,t,label,comment, LPS.
    Ants,
    /// 3D Slicer's markups (.mrk.json).
    Markups,
    /// 3D Slicer's fiducials (.fcsv).
    Fcsv,
    /// elastix' list of points, LPS mm.
    Point,
    /// elastix' list of voxel indices of the image of --points-of.
    Index,
    /// MNI's tags.
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

/// What was converted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Converted {
    /// What the file holds; nothing for a table of views.
    pub kind: Option<Kind>,
    /// Voxels whose values were clamped to the range of the type.
    pub clamped: usize,
    /// Voxels whose values were rounded to whole numbers.
    pub rounded: usize,
}

impl Converted {
    fn of(kind: Kind) -> Self {
        Self { kind: Some(kind), ..Self::default() }
    }
}

impl Job {
    /// A file that becomes another one.
    pub fn new(input: impl Into<PathBuf>, output: impl Into<PathBuf>) -> Self {
        Self { inputs: vec![input.into()], output: output.into(), ..Self::default() }
    }

    /// The only input of what has one.
    fn input(&self) -> &Path {
        self.inputs.first().map_or(Path::new(""), PathBuf::as_path)
    }

    /// What of the image is read.
    fn reading(&self) -> ReadOptions {
        ReadOptions { even: self.even, ..self.which.options() }
    }

    /// Converts the file.
    ///
    /// # Errors
    /// Options that are for another kind of file; an output that is an input, or of another kind; what is wrong with a file;
    /// values that the type to store cannot hold; a file that cannot be written.
    pub fn run(&self, listener: &dyn Listener) -> Result<Converted> {
        if self.output.extension().is_some_and(|e| e.eq_ignore_ascii_case("toml")) {
            self.only(None)?;
            let table = ViewTable { inputs: self.inputs.clone(), images: self.images.clone() };
            table.write(&self.output, listener)?;
            return Ok(Converted::default());
        }
        self.check_single()?;
        let inputs = self.inputs.iter().chain(self.geometry.paths()).chain(&self.points_of);
        files::check_output(&self.output, inputs.map(PathBuf::as_path))?;
        if is_zarr(self.input()) && self.input().is_dir() {
            return Err(Error::input(text!(
                "'{}' is an OME-Zarr, an image that is read in blocks; `voxalign apply` with it as `input` and `reference` writes it in \
                 another format (.nii.gz, .mha, .nrrd, .tif, .zarr)",
                self.input().display()
            )));
        }
        let from = files::kind_to_read(self.input())?;
        let to = files::kind_to_write(&self.output, from)?;
        match (from, to) {
            (Kind::Points, Kind::Points) => self.points(listener),
            (Kind::Mesh, Kind::Mesh) => self.mesh(listener),
            (Kind::Transform, Kind::Transform | Kind::Image) => self.transform(listener),
            (Kind::Image, Kind::Transform | Kind::Image) => {
                let info = image::read_info_of(self.input(), &self.reading())?;
                match (files::is_field(&info), to) {
                    (true, _) => self.transform(listener),
                    (false, Kind::Image) => self.image(&info, listener),
                    (false, _) => Err(self.mismatch()),
                }
            }
            _ => Err(self.mismatch()),
        }
    }

    /// Refuses what is for a table of views.
    fn check_single(&self) -> Result<()> {
        let output = self.output.display();
        if let [first, .., last] = &self.inputs[..] {
            return Err(Error::input(format!(
                "'{}' to '{}' are {} files, and '{output}' is made of one; several are views of X-ray images, whose table is a \
                 .toml file",
                first.display(),
                last.display(),
                self.inputs.len()
            )));
        }
        let input = self.input();
        if geometry::is_views(input) {
            return Err(Error::input(format!(
                "'{}' holds views of X-ray images, and '{output}' is not a table of them; name a .toml file to write",
                input.display()
            )));
        }
        Ok(())
    }

    fn mismatch(&self) -> Error {
        Error::input(format!(
            "'{}' cannot be converted to '{}': images convert to images, transforms to transforms and \
             points to points and meshes to meshes",
            self.input().display(),
            self.output.display()
        ))
    }

    /// Refuses options that are for another kind of file; views are of no kind.
    fn only(&self, kind: Option<Kind>) -> Result<()> {
        const IMAGE: Option<Kind> = Some(Kind::Image);
        const POINTS: Option<Kind> = Some(Kind::Points);
        const TRANSFORM: Option<Kind> = Some(Kind::Transform);
        const MESH: Option<Kind> = Some(Kind::Mesh);
        let options = [
            ("data_type", self.data_type.is_some(), &[IMAGE][..]),
            ("replace_nan", self.replace_nan.is_some(), &[IMAGE]),
            ("volume", self.which.volume.is_some(), &[IMAGE, POINTS]),
            ("series", self.which.series.is_some(), &[IMAGE]),
            ("even", self.even, &[IMAGE]),
            ("bids = false", self.no_bids, &[IMAGE]),
            ("from_convention", self.from_convention.is_some(), &[POINTS, MESH]),
            ("to_convention", self.to_convention.is_some(), &[POINTS, MESH]),
            ("to_format", self.to_format.is_some(), &[POINTS]),
            ("points_of", self.points_of.is_some(), &[POINTS]),
            ("fixed_geometry", self.geometry.fixed_geometry.is_some(), &[TRANSFORM]),
            ("moving_geometry", self.geometry.moving_geometry.is_some(), &[TRANSFORM]),
            ("image", !self.images.is_empty(), &[None]),
        ];
        let name = |kind| match kind {
            Some(Kind::Image) => "images",
            Some(Kind::Points) => "points",
            Some(Kind::Transform) => "transforms",
            Some(Kind::Mesh) => "a mesh",
            None => "views",
        };
        let (input, holds) = (self.input().display(), name(kind));
        options.into_iter().try_for_each(|(option, given, of)| {
            let is_for = of.iter().map(|of| name(*of)).collect::<Vec<_>>().join(" and ");
            let given = given && !of.contains(&kind);
            refuse(given, option, format!("{is_for}, but '{input}' holds {holds}"))
        })
    }

    fn points(&self, listener: &dyn Listener) -> Result<Converted> {
        self.only(Some(Kind::Points))?;
        let grid = grid_of(self.points_of.as_ref(), "points_of", listener)?;
        let reading = Reading {
            convention: self.from_convention,
            grid: grid.as_ref(),
            volume: self.which.volume,
        };
        let (set, info) = files::points(self.input(), &reading.options(), listener)?;
        let options = WriteOptions {
            convention: self.to_convention.map(Into::into),
            format: self.to_format.map(Into::into),
            grid: grid.as_ref(),
        };
        let indices =
            [Some(info.format), options.format].contains(&Some(PointFormat::ElastixIndex));
        let none = text!("lists of voxel indices (`to_format = index`), and there are none");
        refuse(grid.is_some() && !indices, "points_of", none)?;
        carry::write_points(&self.output, &set, &options, listener)?;
        Ok(Converted::of(Kind::Points))
    }

    fn mesh(&self, listener: &dyn Listener) -> Result<Converted> {
        self.only(Some(Kind::Mesh))?;
        let format = MeshFormat::from_path(&self.output)?;
        refuse(
            self.to_convention.is_some() && format.has_world(),
            "to_convention",
            format!("formats without a fixed world, and {format} has one"),
        )?;
        let (mesh, _) = files::mesh(self.input(), self.from_convention, listener)?;
        let space = self.to_convention.map(Into::into).unwrap_or_default();
        carry::write_mesh(&self.output, &mesh, space, listener)?;
        Ok(Converted::of(Kind::Mesh))
    }

    fn transform(&self, listener: &dyn Listener) -> Result<Converted> {
        self.only(Some(Kind::Transform))?;
        let grids = self.geometry.grids(listener)?;
        let read = files::transform(self.input(), &grids.geometry(), listener)?;
        transform::write(&self.output, &read.simplified(), &grids.geometry())?;
        Ok(Converted::of(Kind::Transform))
    }

    fn image(&self, info: &ImageInfo, listener: &dyn Listener) -> Result<Converted> {
        self.only(Some(Kind::Image))?;
        let which = self.reading();
        refuse(
            self.no_bids && info.format != Format::Dicom,
            "bids = false",
            format!("DICOM, but '{}' is a {} image", self.input().display(), info.format),
        )?;
        let nifti = matches!(Format::from_path(&self.output)?, Format::Nifti | Format::NiftiPair);
        let beside = (info.format == Format::Dicom && nifti && !self.no_bids)
            .then(|| Beside::of(&self.output))
            .transpose()?;
        let several = info.volumes() > 1 && which.volume.is_none() && nifti;
        let mut found = (None, None);
        if several || beside.is_some() {
            let source = image::open(self.input(), &which)?;
            let sidecar = source.sidecar(which.volume)?;
            found = (Some(source), sidecar);
        }
        let (clamped, rounded) = match &found {
            (Some(source), sidecar) if several => {
                let time_step_s = sidecar.as_ref().and_then(|s| s.time_step_s);
                self.volumes(&**source, time_step_s, listener)?
            }
            _ => self.volume(info, &which, listener)?,
        };
        if let (Some(beside), (_, Some(sidecar))) = (beside, found) {
            beside.write(&sidecar)?;
        }
        Ok(Converted { kind: Some(Kind::Image), clamped, rounded })
    }

    /// Says that values are stored in another type than that of the input.
    fn say_type(&self, info: &ImageInfo, data_type: DataType, listener: &dyn Listener) {
        if self.data_type.is_none() && data_type != info.data_type {
            let warning = format!(
                "the values are stored as {data_type}; in the input they were {}{}",
                info.data_type,
                if info.unscaled_type().is_some() { "" } else { " with a scale" }
            );
            listener.say(Level::Warning, warning);
        }
    }

    /// Puts finite values in place of others, and refuses what a type cannot hold; gives how many are clamped, and rounded.
    fn check_values(&self, values: &mut [f32], data_type: DataType) -> Result<(usize, usize)> {
        if let Some(value) = self.replace_nan {
            values.iter_mut().filter(|v| !v.is_finite()).for_each(|v| *v = value);
        }
        let not_finite = values.iter().filter(|v| !v.is_finite()).count();
        if data_type.is_integer() && not_finite > 0 {
            return Err(Error::input(text!(
                "'{}' has {not_finite} voxels that are NaN or infinite, which {data_type} cannot hold; \
                 add `replace_nan = 0`",
                self.input().display()
            )));
        }
        let (clamped, rounded) = files::changed(values, data_type);
        if self.data_type.is_none() && clamped + rounded > 0 {
            return Err(Error::input(text!(
                "{} voxels of '{}' cannot be stored as {data_type}; add `data_type = f32`",
                clamped + rounded,
                self.input().display()
            )));
        }
        Ok((clamped, rounded))
    }

    /// Converts one volume.
    fn volume(
        &self,
        info: &ImageInfo,
        which: &ReadOptions,
        listener: &dyn Listener,
    ) -> Result<(usize, usize)> {
        let unscaled = info.unscaled_type().is_some();
        let wide = info.data_type.size() >= 4 && info.data_type.is_integer();
        if unscaled && wide && self.data_type.is_none() && self.replace_nan.is_none() {
            // Values that 32-bit floats would round.
            if let Ok(map) = image::read_labels_of(self.input(), which) {
                let options = files::write_options(DataType::I32, info.dimensions);
                image::write_labels(&self.output, &map, &options)?;
                return Ok((0, 0));
            }
        }
        let (mut volume, _) = files::image_of(self.input(), which, listener)?;
        let data_type = self.data_type.unwrap_or_else(|| usual_type(info));
        let changed = self.check_values(volume.data_mut(), data_type)?;
        self.say_type(info, data_type, listener);
        files::say_changes(changed, data_type, listener);
        let options = files::write_options(data_type, info.dimensions);
        image::write_volume(&self.output, &volume, &options)?;
        Ok(changed)
    }

    /// Converts all volumes into one file, one after the other.
    fn volumes(
        &self,
        source: &dyn ImageSource,
        time_step_s: Option<f64>,
        listener: &dyn Listener,
    ) -> Result<(usize, usize)> {
        let info = source.info();
        files::say_oddities(info, listener);
        let data_type = self.data_type.unwrap_or_else(|| usual_type(info));
        self.say_type(info, data_type, listener);
        let options = files::write_options(data_type, 4);
        let whole = Region::whole(info.grid.dims());
        let mut refused = None;
        let mut changed = (0, 0);
        let mut read = |volume: usize, values: &mut [f32]| {
            source.read(&whole, volume, values)?;
            match self.check_values(values, data_type) {
                Ok((clamped, rounded)) => {
                    changed = (changed.0 + clamped, changed.1 + rounded);
                    Ok(())
                }
                Err(error) => {
                    refused = Some(error);
                    Err(IoError::Malformed {
                        path: self.input().to_owned(),
                        problem: "it cannot be stored".into(),
                        remedy: "choose another type".into(),
                    })
                }
            }
        };
        let (grid, volumes) = (&info.grid, info.volumes());
        let done =
            image::write_volumes(&self.output, grid, volumes, time_step_s, &options, &mut read);
        if let Some(refused) = refused {
            return Err(refused);
        }
        done?;
        files::say_changes(changed, data_type, listener);
        Ok(changed)
    }
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
