//! Applying transforms to images, label maps, points and meshes.
//!
//! A [`Job`] goes from files to a file; images larger than memory are resampled block by block (docs/pyramids.md). In memory, [`image`] and [`labels`] resample on a device that already runs, and a
//! [`PointMap`](voxalign_register::carry::PointMap), such as a [`Chain`] gives, carries points and meshes.
//!
//! ```no_run
//! use voxalign_jobs::{Silent, apply, machine};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let job = apply::Job {
//!     reference: Some("fixed.nii.gz".into()),
//!     transforms: vec!["warp.nii.gz".parse()?, "affine.mat".parse()?],
//!     ..apply::Job::new("moving.nii.gz", "warped.nii.gz")
//! };
//! let machine = machine::Machine::start(Default::default(), machine::Auto::Cpu)?;
//! assert!(job.run(&machine, &Silent)?.met);
//! # Ok(())
//! # }
//! ```

mod checks;
mod large;

use crate::carry;
use crate::chain::{Chain, Link};
use crate::error::{Error, Result};
use crate::files::{self, Grids, Kind};
use crate::listener::{Level, Listener, check, reading};
use crate::machine::{Machine, host};
use crate::options::{
    GeometryOptions, Interpolation, Outside, PointOptions, as_text, refuse as refuse_one,
};
use checks::{fits, label_outside, looks_like_labels, refuse};
use large::Large;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use voxalign_compute::Device;
use voxalign_compute::ops::resample::LabelInterpolation;
use voxalign_compute::select::AnyDevice;
use voxalign_image::{Grid, ImageView, LabelMap, Transform, Volume};
use voxalign_io::image::{DataType, ImageInfo, read_info, write_labels, write_volume};
use voxalign_options::{Choice, Text, text};
use voxalign_register::resample::{MovingImage, labels_onto, meets};

/// A file that is to be carried through transforms.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(default)]
pub struct Job {
    /// An image, also one larger than memory (.ome.zarr, .tif, .svs, .btf, .png, .jpg), a label map
    /// (with --interpolation label or nearest), a list of points (.csv, .fcsv, .mrk.json, .tag,
    /// elastix' .txt) or a mesh (.gii, .vtk, .vtp, .stl, .ply, .tck, .trk, lh.pial)
    #[cfg_attr(feature = "clap", arg(short, long, value_name = "FILE"))]
    pub input: PathBuf,
    /// The image that defines the grid of the result, by its finest level where it has several; not
    /// for points and meshes
    #[cfg_attr(feature = "clap", arg(short, long, value_name = "IMAGE"))]
    pub reference: Option<PathBuf>,
    /// A transform: FILE, or inverse:FILE (or ANTs' `[FILE,1]`) for its inverse; a fixed point goes
    /// through the first -t, then the next. Without any, an image is resampled as the headers say
    #[cfg_attr(feature = "clap", arg(short, long = "transform", value_name = "FILE", num_args = 1..))]
    #[serde(rename = "transform")]
    pub transforms: Vec<Link>,
    /// The inverse of the displacement field in the chain, such as ANTs' 1InverseWarp.nii.gz: used
    /// where that inverse is needed, instead of computing it
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE"))]
    pub inverse_warp: Option<PathBuf>,
    /// The result; an image named .zarr, .tif, .tiff or .btf is written block by block, with coarser
    /// levels, and may be larger than memory
    #[cfg_attr(feature = "clap", arg(short, long, value_name = "FILE"))]
    pub output: PathBuf,
    /// How values between voxels are interpolated [default: linear]
    #[cfg_attr(feature = "clap", arg(long))]
    pub interpolation: Option<Interpolation>,
    /// Value outside the moving image, or `nan` [default: 0; for images with a background below 0,
    /// such as CT, their smallest value]
    #[cfg_attr(feature = "clap", arg(long, value_name = "VALUE", allow_hyphen_values = true))]
    #[serde(with = "as_text")]
    pub outside: Option<Outside>,
    /// Type of the stored values: u8, i8, u16, i16, u32, i32, u64, i64, f32 or f64; not for label
    /// maps [default: f32; that of the input with --interpolation nearest, and where the result is
    /// .zarr or TIFF, which hold 8 or 16 bits]
    #[cfg_attr(feature = "clap", arg(long, value_name = "TYPE"))]
    #[serde(with = "as_text")]
    pub data_type: Option<DataType>,
    /// Which of the two images the points or the mesh belong to [default: moving]
    #[cfg_attr(feature = "clap", arg(long, value_enum))]
    pub points_from: Option<Side>,
    /// How points and meshes are read.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub points: PointOptions,
    /// The images that transform files are relative to.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub geometry: GeometryOptions,
}

/// One of the two images of a transform.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Choice)]
pub enum Side {
    /// Points of the fixed image are mapped to the moving one.
    Fixed,
    /// Points of the moving image are mapped to the fixed one.
    #[default]
    Moving,
}

/// What is carried, once its options are checked.
#[derive(Debug)]
pub enum Inputs {
    /// An image or a label map.
    Image(Box<Headers>),
    /// A list of points.
    Points,
    /// A mesh.
    Mesh,
}

/// What is known of an image and its reference before they are read.
#[derive(Debug)]
pub struct Headers {
    /// The grid of the result.
    pub reference: Grid,
    /// The dimensions of the reference's file.
    dimensions: usize,
    input: Input,
}

/// How the image is read.
#[derive(Debug)]
enum Input {
    /// Whole.
    Whole(Box<ImageInfo>),
    /// In blocks.
    Blocks(Large),
}

/// What was carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Applied {
    /// What the file holds.
    pub kind: Kind,
    /// How many points, vertices, or voxels of the result.
    pub count: usize,
    /// Whether any voxel of the result shows something of the image, or any point lies where the transform and its image
    /// are: the result means nothing otherwise.
    pub met: bool,
}

impl Job {
    /// A file that is carried to another one, with usual options and no transform yet.
    pub fn new(input: impl Into<PathBuf>, output: impl Into<PathBuf>) -> Self {
        Self { input: input.into(), output: output.into(), ..Self::default() }
    }

    /// Which image points and meshes belong to.
    #[must_use]
    pub fn side(&self) -> Side {
        self.points_from.unwrap_or_default()
    }

    /// Carries the input.
    ///
    /// # Errors
    /// Options that would be ignored; an output that is an input; what is wrong with a file; transforms that cannot be
    /// inverted where that is needed; values that the type to store cannot hold; a file that cannot be written; what fails
    /// on the device.
    pub fn run(&self, machine: &Machine, listener: &dyn Listener) -> Result<Applied> {
        match self.read(listener)? {
            Inputs::Image(headers) => self.image(machine, *headers, listener),
            Inputs::Points => self.points(listener),
            Inputs::Mesh => self.mesh(listener),
        }
    }

    /// Checks the options with the files that they name, and reads the headers of images.
    ///
    /// # Errors
    /// As of [`run`](Self::run).
    pub fn read(&self, listener: &dyn Listener) -> Result<Inputs> {
        let inputs = std::iter::once(&self.input)
            .chain(&self.reference)
            .chain(self.transforms.iter().map(|t| &t.path))
            .chain(&self.inverse_warp)
            .chain(&self.points.points_of)
            .chain(self.geometry.paths());
        large::check_output(&self.output, inputs.map(PathBuf::as_path))?;
        let from = match large::is_pyramid(&self.input) {
            true => Kind::Image,
            false => files::kind_to_read(&self.input)?,
        };
        let to = large::kind_to_write(&self.output, from)?;
        if from == Kind::Transform && to == Kind::Points {
            return Err(Error::input(format!(
                "'{}' has the name of a transform, and does not begin as an elastix list of points does ('point' or \
                 'index', and their number); points are read from CSV files (.csv) whose header line is x,y,z, too, and from \
                 lists of 3D Slicer and MNI",
                self.input.display()
            )));
        }
        if from != to {
            return Err(Error::input(format!(
                "'{}' and '{}' are of different kinds; an image gives an image, points give points, a mesh gives a mesh",
                self.input.display(),
                self.output.display()
            )));
        }
        match from {
            Kind::Image => Ok(Inputs::Image(Box::new(self.headers(listener)?))),
            Kind::Points => self.check_shape("points", "a list of points").map(|()| Inputs::Points),
            Kind::Mesh => self.check_shape("a mesh", "a mesh").map(|()| Inputs::Mesh),
            Kind::Transform => Err(Error::input(format!(
                "'{}' is a transform; use `voxalign compose` to join transforms",
                self.input.display()
            ))),
        }
    }

    /// Refuses what is for images.
    fn check_shape(&self, what: &str, input: &str) -> Result<()> {
        if self.transforms.is_empty() {
            return Err(Error::input(text!("{what} need a transform; give `transform = FILE`")));
        }
        let unused = [
            ("reference", self.reference.is_some()),
            ("interpolation", self.interpolation.is_some()),
            ("outside", self.outside.is_some()),
            ("data_type", self.data_type.is_some()),
        ];
        refuse(&unused, &format!("images, but the input is {input}"))
    }

    /// Refuses what is for points and meshes, and reads the headers.
    fn headers(&self, listener: &dyn Listener) -> Result<Headers> {
        const SHAPES: &str = "points and meshes, but the input is an image";
        refuse(&[("points_from", self.points_from.is_some())], SHAPES)?;
        if let Some(option) = self.points.given() {
            refuse_one(true, option, SHAPES)?;
        }
        let Some(reference) = &self.reference else {
            return Err(Error::input(text!(
                "`reference = REFERENCE` is missing: the image that defines the grid of the result"
            )));
        };
        let (reference, dimensions) =
            large::reference(reference, listener).map_err(|e| e.at(Text::option("reference")))?;
        if large::is_pyramid(&self.input) || large::is_written(&self.output) {
            let input =
                Input::Blocks(Large::open(&self.input, large::is_written(&self.output), listener)?);
            return Ok(Headers { reference, dimensions, input });
        }
        let info = reading(listener, || read_info(&self.input))?;
        if files::is_field(&info) {
            return Err(Error::input(format!(
                "'{}' is a displacement field; use `voxalign compose` to join transforms",
                self.input.display()
            )));
        }
        Ok(Headers { reference, dimensions, input: Input::Whole(Box::new(info)) })
    }

    /// The chain with the inverse that was given for its field.
    fn chain(&self, usual: &Grids, backwards: bool, listener: &dyn Listener) -> Result<Chain> {
        let given = self.geometry.grids(listener)?;
        let mut chain = Chain::load(&self.transforms, &given, usual, listener)?;
        if let Some(path) = &self.inverse_warp {
            chain.know_inverse(path, backwards, listener)?;
        }
        Ok(chain)
    }

    /// Carries the points that were [checked](Self::read); no device is needed.
    ///
    /// # Errors
    /// As of [`run`](Self::run).
    pub fn points(&self, listener: &dyn Listener) -> Result<Applied> {
        self.shape(Kind::Points, listener)
    }

    /// Carries the mesh that was [checked](Self::read); no device is needed.
    ///
    /// # Errors
    /// As of [`run`](Self::run).
    pub fn mesh(&self, listener: &dyn Listener) -> Result<Applied> {
        self.shape(Kind::Mesh, listener)
    }

    fn shape(&self, kind: Kind, listener: &dyn Listener) -> Result<Applied> {
        let backwards = self.side() == Side::Moving;
        let own = match self.points.grid(listener)? {
            Some(grid) => Some(grid),
            None => {
                let grids = self.geometry.grids(listener)?;
                if backwards { grids.moving } else { grids.fixed }
            }
        };
        let chain = self.chain(&Grids::default(), backwards, listener)?;
        let map = chain.into_point_map(backwards)?;
        let reading = self.points.reading(own.as_ref());
        let carry = if kind == Kind::Mesh { carry::mesh_file } else { carry::points_file };
        let done = carry(&self.input, &self.output, &map, &reading, listener)?;
        Ok(Applied { kind, count: done.count, met: !done.elsewhere })
    }

    /// Resamples the image of these [headers](Self::read). Where the result shows nothing of it, that is written as well,
    /// as a batch may hold such a case.
    ///
    /// # Errors
    /// As of [`run`](Self::run).
    pub fn image(
        &self,
        machine: &Machine,
        headers: Headers,
        listener: &dyn Listener,
    ) -> Result<Applied> {
        let Headers { reference, dimensions, input } = headers;
        let info = match input {
            Input::Whole(info) => *info,
            Input::Blocks(large) => {
                return self.large(machine, (&reference, dimensions), &large, listener);
            }
        };
        let device = &machine.device;
        let transform = self.transform(machine, &reference, &info.grid, listener)?;
        let interpolation = self.interpolation.unwrap_or_default();
        let met = meets(&reference, &transform, &info.grid);
        // Whole numbers too wide for an image in memory are a label map with `nearest` as well.
        let unscaled = info.unscaled_type().is_some();
        let wide =
            matches!(info.data_type, DataType::I32 | DataType::U32 | DataType::I64 | DataType::U64);
        let is_labels = interpolation == Interpolation::Label
            || (interpolation == Interpolation::Nearest
                && wide
                && unscaled
                && self.data_type.is_none());
        if is_labels {
            if self.data_type.is_some() {
                return Err(Error::input(text!(
                    "`data_type` is not for label maps; they get the smallest type that holds their labels; leave it out"
                )));
            }
            let outside = label_outside(self.outside)?;
            let map = files::labels(&self.input, listener)?;
            let warped = labels(device, &map, &reference, &transform, interpolation, outside)?;
            check(listener)?;
            let options = files::write_options(DataType::I32, dimensions);
            write_labels(&self.output, &warped, &options)?;
        } else {
            let rule = interpolation.of_image()?;
            let moving = files::image(&self.input, listener)?;
            if interpolation != Interpolation::Nearest
                && looks_like_labels(moving.data(), moving.dims()[0])
            {
                let warning = text!(
                    "'{}' looks like a label map, and its labels are interpolated to values in \
                     between; use `interpolation = label` to keep them",
                    self.input.display()
                );
                listener.say(Level::Warning, warning);
            }
            let outside = self.outside.map_or_else(|| files::background(&moving), |o| o.0);
            let data_type = self.data_type(&info, interpolation)?;
            if !fits(outside, data_type) {
                return Err(Error::input(text!(
                    "`outside = {outside}` cannot be stored as {data_type}; add `data_type = f32`"
                )));
            }
            let warped =
                MovingImage::new(device, moving)?.onto(&reference, &transform, rule, outside)?;
            check(listener)?;
            files::warn_of_rounding(warped.data(), data_type, listener);
            write_volume(&self.output, &warped, &files::write_options(data_type, dimensions))?;
        }
        Ok(Applied { kind: Kind::Image, count: reference.len(), met })
    }

    /// The chain as one transform between these grids.
    fn transform(
        &self,
        machine: &Machine,
        reference: &Grid,
        moving: &Grid,
        listener: &dyn Listener,
    ) -> Result<Transform> {
        let usual = Grids { fixed: Some(reference.clone()), moving: Some(moving.clone()) };
        let chain = self.chain(&usual, false, listener)?;
        // A field has the same inverse whatever device resamples.
        match &machine.device {
            AnyDevice::Cpu(cpu) => chain.into_transform(cpu, listener),
            AnyDevice::Cuda(_) => chain.into_transform(&host()?, listener),
        }
    }

    /// The type to store, and a refusal where values would not survive it.
    fn data_type(&self, info: &ImageInfo, interpolation: Interpolation) -> Result<DataType> {
        if let Some(given) = self.data_type {
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
        Err(Error::input(text!(
            "'{}' holds {} values, which may not fit 32-bit floats exactly; if it is a label map, use \
             `interpolation = label`, otherwise `data_type = f32`",
            self.input.display(),
            info.data_type
        )))
    }
}

/// An image on the grid of a reference, under a transform from points of the reference to points of the image (world mm).
/// `outside` is the value where the image is not defined; without one, it is its [background](files::background). What is made
/// of an image in the memory of a device is on the device that made it.
///
/// ```
/// use voxalign_compute::cpu::Cpu;
/// use voxalign_image::{Affine, Grid, Transform, Vector3, Volume};
/// use voxalign_jobs::{apply, options::Interpolation};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let grid = Grid::axis_aligned([4, 3, 2], [1.0; 3])?;
/// let image = Volume::from_fn(grid.clone(), |x, _, _| 10.0 + x as f32);
/// let shift = Transform::Affine(Affine::translation(Vector3::new(2.0, 0.0, 0.0)));
/// let device = Cpu::new(Some(1))?;
/// let moved = apply::image(&device, &image, &grid, &shift, Interpolation::Linear, None)?;
/// assert_eq!(moved.data()[..4], [12.0, 13.0, 0.0, 0.0]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// The interpolation of labels; a linear part of the transform that cannot be inverted and stands before a field; what fails
/// on the device.
pub fn image<'i, D: Device>(
    device: &D,
    moving: impl Into<ImageView<'i>>,
    reference: &Grid,
    transform: &Transform,
    interpolation: Interpolation,
    outside: Option<f32>,
) -> Result<Volume<f32>> {
    let (moving, rule) = (moving.into(), interpolation.of_image()?);
    let outside = outside.map_or_else(|| files::background_on(device, moving), Ok)?;
    let image = MovingImage::lent(device, moving)?;
    Ok(match moving.elsewhere() {
        None => image.onto(reference, transform, rule, outside)?,
        Some(_) => image.kept_onto(reference, transform, rule, outside)?,
    })
}

/// As [`image`], of a label map: a voxel gets the nearest label, or with any interpolation but that the one of the largest
/// weight.
///
/// # Errors
/// A linear part of the transform that cannot be inverted and stands before a field; what fails on the device.
pub fn labels<D: Device>(
    device: &D,
    moving: &LabelMap,
    reference: &Grid,
    transform: &Transform,
    interpolation: Interpolation,
    outside: i32,
) -> Result<LabelMap> {
    let rule = match interpolation {
        Interpolation::Nearest => LabelInterpolation::Nearest,
        _ => LabelInterpolation::Majority,
    };
    Ok(labels_onto(device, moving, reference, transform, rule, outside)?)
}
