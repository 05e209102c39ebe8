//! Images in memory.

use crate::dlpack::{self, Asked};
use crate::work::{Failure, Watcher, run};
use crate::{error, json};
use json::{whole, words};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::path::PathBuf;
use voxalign_compute::cuda::{Cuda, gpu_of, transfers as counted};
use voxalign_compute::select::DeviceChoice;
use voxalign_image::{Affine, Grid, LabelMap, Volume, memory};
use voxalign_io::image::{DataType, ReadOptions};
use voxalign_jobs::files;
use voxalign_jobs::pair::{EXACT, HeldImage};
use voxalign_options::{Text, text};
use voxalign_python_macros::guarded;

/// An image with its geometry.
#[pyclass(frozen, module = "voxalign", weakref)]
pub(crate) struct Image {
    held: HeldImage,
}

impl From<HeldImage> for Image {
    fn from(held: HeldImage) -> Self {
        Self { held }
    }
}

impl Image {
    /// What an object holds that is an image, of whatever package.
    pub(crate) fn of_python(object: &Bound<'_, PyAny>) -> PyResult<HeldImage> {
        if let Ok(image) = object.cast::<Self>() {
            return Ok(image.get().held.clone());
        }
        let foreign = object.py().import("voxalign._foreign")?;
        let image = foreign.getattr("image")?.call1((object,))?;
        Ok(image.cast::<Self>()?.get().held.clone())
    }

    fn grid(&self) -> &Grid {
        self.held.image.grid()
    }

    /// Dimensions, 2 or 3.
    fn dimensions(&self) -> usize {
        self.held.dimensions.clamp(2, 3)
    }

    /// The image of an array in the memory of a GPU, where it stays; none of other arrays, and where the GPU cannot be used,
    /// with a warning.
    fn on_gpu(
        py: Python<'_>,
        foreign: &Bound<'_, PyModule>,
        values: &Bound<'_, PyAny>,
        affine: &Bound<'_, PyAny>,
    ) -> PyResult<Option<Self>> {
        let capsule = foreign.getattr("lent_by_gpu")?.call1((values,))?;
        if capsule.is_none() {
            return Ok(None);
        }
        let shape_of = |shape: &[usize]| {
            let shape = PyTuple::new(py, shape)?;
            foreign.getattr("shape_of_image")?.call1((shape,))?.extract()
        };
        let described = dlpack::described(&capsule, shape_of)?;
        let plane = described.shape.len() < 3;
        let affine: Vec<f64> = foreign.getattr("matrix")?.call1((affine, plane))?.extract()?;
        let (_, grid) = grid_with(&described.shape, &affine)?;
        let number = described.gpu;
        let gpu = match py.detach(|| Cuda::shared(number)) {
            Ok(gpu) => gpu,
            Err(why) => {
                let why = voxalign_jobs::Error::from(why);
                error::warn(
                    py,
                    &format!(
                        "the values on cuda:{number} are copied to the host, as voxalign cannot use that GPU: {why}"
                    ),
                )?;
                return Ok(None);
            }
        };
        let values = dlpack::taken(py, &capsule, &described, &gpu)?;
        let image = Volume::of_elsewhere(grid, values).map_err(error::of)?;
        let dimensions = described.shape.len().max(2);
        Ok(Some(HeldImage { dimensions, ..HeldImage::from(image) }.into()))
    }

    /// The number of the GPU that the values are on; none where they are on the host.
    fn gpu(&self) -> Option<usize> {
        gpu_of(self.held.image.elsewhere()?)
    }

    /// The values on the host, where they are brought to if they are elsewhere.
    fn values(&self, py: Python<'_>) -> PyResult<&[f32]> {
        py.detach(|| self.held.image.bring()).map_err(error::of)
    }

    /// Calls a function of the module that knows other packages.
    fn foreign<'py>(slf: &Bound<'py, Self>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("voxalign._foreign")?.getattr(name)?.call1((slf,))
    }
}

/// An image as a label map.
pub(crate) fn labels(held: &HeldImage) -> PyResult<LabelMap> {
    if let Some(labels) = &held.labels {
        return labels.try_clone().map_err(error::of);
    }
    let values = held.image.bring().map_err(error::of)?;
    if let Some(value) = values.iter().find(|v| v.fract() != 0.0 || v.is_nan()) {
        return Err(error::input(text!(
            "a label map holds whole numbers, and this image has {value}"
        )));
    }
    match values.iter().find(|v| v.abs() >= EXACT) {
        Some(value) => Err(error::input(text!(
            "a label map holds whole numbers of 32 bits, and this image has {value} as a float, which may stand for several; give \
             labels of 2^24 and more as an array of integers"
        ))),
        None => held.image.try_map(|v| *v as i32).map_err(error::of),
    }
}

/// An affine from its 16 numbers, row by row.
pub(crate) fn affine_of(numbers: &[f64]) -> PyResult<[[f64; 4]; 3]> {
    let row = |r: usize| [0, 1, 2, 3].map(|c| numbers.get(4 * r + c).copied().unwrap_or(f64::NAN));
    match numbers.len() == 16 && row(3) == [0.0, 0.0, 0.0, 1.0] {
        true => Ok([row(0), row(1), row(2)]),
        false => Err(error::input(text!("the affine is no 4x4 matrix whose last row is 0 0 0 1"))),
    }
}

/// The sizes and the grid of an image of a shape.
fn grid_with(shape: &[usize], affine: &[f64]) -> PyResult<([usize; 3], Grid)> {
    let mut dims = [1; 3];
    dims.iter_mut().zip(shape).for_each(|(d, n)| *d = *n);
    let grid = Grid::new(dims, Affine::from_rows(affine_of(affine)?)).map_err(error::of)?;
    Ok((dims, grid))
}

/// Reads an image.
///
/// Parameters
/// ----------
/// path : PathLike
///     NIfTI, ANALYZE, NRRD, MetaImage, or a folder of DICOM.
/// volume : int
///     Which volume of several, from 0.
/// series : str
///     Which series of a folder of DICOM, by its UID or a part of it.
///
/// Returns
/// -------
/// Image
///     Values as 32-bit floats, x first, scaled as the header says, with the geometry in RAS+ mm.
///
/// Raises
/// ------
/// InputError
///     A file that is not there, is damaged, or holds no single image.
/// OptionError
///     A volume that is no number from 0 on.
#[guarded]
#[pyfunction]
#[pyo3(signature = (path, *, volume=None, series=None))]
pub(crate) fn read(
    py: Python<'_>,
    path: &Bound<'_, PyAny>,
    volume: Option<&Bound<'_, PyAny>>,
    series: Option<&Bound<'_, PyAny>>,
) -> PyResult<Image> {
    let path = needed_path(path)?;
    let volume = whole("volume", volume, "give the number of a volume, from 0")?;
    let series = words("series", series)?;
    let which = ReadOptions { volume, series, ..ReadOptions::default() };
    let held = run(py, None, &Watcher::quiet(), move |teller| {
        Ok(HeldImage::read(&path, &which, teller)?)
    })?;
    Ok(held.into())
}

/// A path that has to be given.
pub(crate) fn needed_path(path: &Bound<'_, PyAny>) -> PyResult<PathBuf> {
    match json::path(path) {
        Ok(Some(path)) => Ok(path.into()),
        Ok(None) => Err(error::input(format!(
            "the path is of the type {}; give a text or a Path",
            json::type_name(path)
        ))),
        Err(what) => Err(error::input(format!("the path is {what}"))),
    }
}

#[guarded]
#[pymethods]
impl Image {
    /// An image of values and their geometry; the values are copied once. Those on a GPU stay there: they are copied within
    /// its memory, once what was asked of them there before is done.
    ///
    /// Parameters
    /// ----------
    /// values : array_like
    ///     One to three dimensions, x first, of real numbers of any type, which become 32-bit floats. Arrays of
    ///     numpy, or of torch, cupy and jax through DLPack. Integers of which some are 2^24 or more, as labels may
    ///     be, are kept as 32-bit integers, too.
    /// affine : array_like
    ///     4x4, from voxel index to world, RAS+ mm, with the last row 0 0 0 1; of two dimensions 3x3 as well.
    ///
    /// Raises
    /// ------
    /// InputError
    ///     No such values, or an affine that is singular or not finite.
    /// VoxalignError
    ///     Memory that does not suffice.
    #[new]
    fn new(py: Python<'_>, values: &Bound<'_, PyAny>, affine: &Bound<'_, PyAny>) -> PyResult<Self> {
        let foreign = py.import("voxalign._foreign")?;
        if let Some(image) = Self::on_gpu(py, &foreign, values, affine)? {
            return Ok(image);
        }
        let (values, shape, affine, whole): (Bound<'_, PyAny>, Vec<usize>, Vec<f64>, bool) =
            foreign.getattr("parts")?.call1((values, affine))?.extract()?;
        let (dims, grid) = grid_with(&shape, &affine)?;
        // Nothing else knows of it yet: numpy writes the values, of whatever type and order, without a copy on the way.
        let mut data = memory::zeroed::<f32>(grid.len()).map_err(error::of)?;
        let lent = Lent::of(data.as_mut_ptr() as usize, &dims, Kind::Floats, false);
        foreign.getattr("fill")?.call1((lent, &values))?;
        let labels = match whole {
            false => None,
            true => {
                let mut whole = memory::zeroed::<i32>(grid.len()).map_err(error::of)?;
                let lent = Lent::of(whole.as_mut_ptr() as usize, &dims, Kind::Integers, false);
                foreign.getattr("fill")?.call1((lent, values))?;
                Some(LabelMap::new(grid.clone(), whole).map_err(error::of)?.into())
            }
        };
        let volume = Volume::new(grid, data).map_err(error::of)?;
        let dimensions = shape.len().max(2);
        Ok(HeldImage { dimensions, labels, ..HeldImage::from(volume) }.into())
    }

    /// Sizes along x, y and, of three dimensions, z.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.held.image.dims()[..self.dimensions()])
    }

    /// Dimensions, 2 or 3.
    #[getter]
    fn ndim(&self) -> usize {
        self.dimensions()
    }

    /// The affine from voxel index to world, RAS+ mm, 4x4.
    #[getter]
    fn affine<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        matrix(py, self.grid().to_world())
    }

    /// Lengths of a voxel's edges, mm.
    #[getter]
    fn spacing(&self) -> (f64, f64, f64) {
        self.grid().spacing().into()
    }

    /// The directions of the axes, such as `RAS`.
    #[getter]
    fn orientation(&self) -> String {
        self.grid().orientation()
    }

    /// The values as an array, x first: a view that cannot be written to, and that keeps the image.
    ///
    /// Returns
    /// -------
    /// numpy.ndarray
    ///     32-bit floats of the shape of the image, x fastest (Fortran order); 32-bit integers of an image that
    ///     keeps these. `numpy().copy()` can be written to.
    fn numpy<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("numpy")?.getattr("asarray")?.call1((slf,))
    }

    /// By which numpy makes arrays, which keep the image.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dims = self.held.image.dims();
        let (address, kind) = match &self.held.labels {
            Some(labels) => (labels.data().as_ptr() as usize, Kind::Integers),
            None => (self.values(py)?.as_ptr() as usize, Kind::Floats),
        };
        Lent::of(address, &dims[..self.dimensions()], kind, true).__array_interface__(py)
    }

    /// A copy for other packages, as by `torch.from_dlpack(image)`: who takes it may write to it. That of an image on a GPU is
    /// there as well.
    ///
    /// Raises
    /// ------
    /// BufferError
    ///     Where no copy is asked for (`copy=False`), or one on a device where the image is not.
    #[pyo3(signature = (**how))]
    fn __dlpack__<'py>(
        slf: &Bound<'py, Self>,
        how: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (asked, image) = (Asked::of(how)?, slf.get());
        let resident = image.held.image.elsewhere().and_then(|v| v.as_any().downcast_ref());
        if let (Some(gpu), Some(resident)) = (image.gpu(), resident)
            && asked.stays_on(gpu)?
        {
            let dims = image.held.image.dims();
            return dlpack::capsule(slf.py(), resident, &dims[..image.dimensions()], &asked);
        }
        // Streams are of those that are on a GPU.
        let how = how.map(|how| how.copy()).transpose()?;
        if let Some(how) = how.as_ref().filter(|_| resident.is_some()) {
            how.set_item("stream", slf.py().None())?;
        }
        Self::numpy(slf)?.call_method1("copy", ("F",))?.call_method("__dlpack__", (), how.as_ref())
    }

    fn __dlpack_device__(&self) -> (i32, i32) {
        dlpack::place(self.gpu())
    }

    /// Where the values are: `cpu`, or `cuda:0` and so on. Of an image on a GPU, `numpy()`, `save()` and whatever takes it and
    /// is not on that GPU copy them to the host, once.
    #[getter]
    fn device(&self) -> String {
        DeviceChoice::of_gpu(self.gpu()).to_string()
    }

    /// The same as an image of nibabel, which has to be installed: RAS+, x first, with the values as a view that
    /// cannot be written to.
    fn to_nibabel<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::foreign(slf, "to_nibabel")
    }

    /// The same as an image of SimpleITK, which has to be installed: LPS, with a copy of the values.
    ///
    /// Raises
    /// ------
    /// InputError
    ///     Axes that are not orthogonal, which such an image cannot hold.
    fn to_sitk<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::foreign(slf, "to_sitk")
    }

    /// The same as an image of ITK, which has to be installed: LPS, with a copy of the values.
    ///
    /// Raises
    /// ------
    /// InputError
    ///     Axes that are not orthogonal, which such an image cannot hold.
    fn to_itk<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::foreign(slf, "to_itk")
    }

    /// The same as an image of ANTs, which has to be installed: LPS, with a copy of the values.
    ///
    /// Raises
    /// ------
    /// InputError
    ///     Axes that are not orthogonal, which such an image cannot hold.
    fn to_ants<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::foreign(slf, "to_ants")
    }

    /// Writes it to a file that is complete or absent.
    ///
    /// Parameters
    /// ----------
    /// path : PathLike
    ///     The name sets the format: .nii, .nii.gz, .hdr, .mha, .mhd, .nrrd or .nhdr.
    /// data_type : str
    ///     The type of values in the file: u8, i8, u16, i16, u32, i32, u64, i64, f32 or f64 [default: f32; i32 of an
    ///     image that keeps 32-bit integers, which has no other]. What is rounded is warned of.
    ///
    /// Raises
    /// ------
    /// OptionError
    ///     A type of values that there is not.
    /// InputError
    ///     A name of no format, or a place that cannot be written to.
    #[pyo3(signature = (path, *, data_type=None))]
    fn save(
        &self,
        py: Python<'_>,
        path: &Bound<'_, PyAny>,
        data_type: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let (path, held) = (needed_path(path)?, self.held.clone());
        let usual = if held.labels.is_some() { DataType::I32 } else { DataType::F32 };
        let data_type: DataType = words("data_type", data_type)?
            .map_or(Ok(usual), |name| name.parse())
            .map_err(|e: String| error::option(Text::option("data_type").and(format!(": {e}"))))?;
        if held.labels.is_some() && data_type != usual {
            return Err(error::option(text!(
                "`data_type` is {data_type}, and the image has integers that only {usual} keeps; leave it out"
            )));
        }
        run(py, None, &Watcher::quiet(), move |teller| {
            files::check_output(&path, [])?;
            let options = files::write_options(data_type, held.dimensions);
            if let Some(labels) = &held.labels {
                voxalign_io::image::write_labels(&path, labels, &options)?;
                return Ok(());
            }
            files::warn_of_rounding(held.image.bring()?, data_type, teller);
            voxalign_io::image::write_volume(&path, &held.image, &options)?;
            Ok::<_, Failure>(())
        })
    }

    fn __repr__(&self) -> String {
        format!("<voxalign.Image {}>", self.grid())
    }

    fn __copy__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __deepcopy__(slf: Py<Self>, _memo: &Bound<'_, PyAny>) -> Py<Self> {
        // Nobody can change it.
        slf
    }

    /// What it is pickled as: values and affine, to the bit.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let parts = (Self::numpy(slf)?, slf.get().affine(slf.py())?);
        (slf.get_type(), parts).into_pyobject(slf.py())
    }
}

/// The bytes that were copied between the host and GPUs since the process began, by all that it did.
///
/// Returns
/// -------
/// dict
///     `to_device`, `to_host` and `within_device`, and `images_to_host`: of those to the host, the ones of images that had been
///     given on a GPU.
#[guarded]
#[pyfunction]
pub(crate) fn transfers(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let (all, found) = (PyDict::new(py), counted());
    all.set_item("to_device", found.to_device)?;
    all.set_item("to_host", found.to_host)?;
    all.set_item("within_device", found.within_device)?;
    all.set_item("images_to_host", found.images_to_host)?;
    Ok(all)
}

/// What values are, of 32 bits.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Floats,
    Integers,
}

/// Values that numpy makes an array over, x fastest. The address stays good as long as their owner does.
#[pyclass(frozen)]
pub(crate) struct Lent {
    address: usize,
    shape: Vec<usize>,
    kind: Kind,
    read_only: bool,
}

impl Lent {
    fn of(address: usize, shape: &[usize], kind: Kind, read_only: bool) -> Self {
        Self { address, shape: shape.to_vec(), kind, read_only }
    }
}

#[guarded]
#[pymethods]
impl Lent {
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let steps = self.shape.iter().scan(size_of::<f32>(), |step, n| {
            let this = *step;
            *step *= n;
            Some(this)
        });
        let (steps, dict) = (steps.collect::<Vec<_>>(), PyDict::new(py));
        let order = if cfg!(target_endian = "big") { '>' } else { '<' };
        let kind = match self.kind {
            Kind::Floats => "f4",
            Kind::Integers => "i4",
        };
        dict.set_item("version", 3)?;
        dict.set_item("typestr", format!("{order}{kind}"))?;
        dict.set_item("data", (self.address, self.read_only))?;
        dict.set_item("shape", PyTuple::new(py, &self.shape)?)?;
        dict.set_item("strides", PyTuple::new(py, steps)?)?;
        Ok(dict)
    }
}

/// An array of numpy in the order of images, x fastest.
pub(crate) fn empty<'py>(
    py: Python<'py>,
    shape: &[usize],
    of: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let how = PyDict::new(py);
    how.set_item("dtype", of)?;
    how.set_item("order", "F")?;
    py.import("numpy")?.getattr("empty")?.call((PyTuple::new(py, shape)?,), Some(&how))
}

/// An affine as a 4x4 matrix of numpy.
pub(crate) fn matrix<'py, A, B>(
    py: Python<'py>,
    affine: &Affine<A, B>,
) -> PyResult<Bound<'py, PyAny>> {
    let [x, y, z] = affine.rows();
    let rows = [x, y, z, [0.0, 0.0, 0.0, 1.0]].map(Vec::from).to_vec();
    py.import("numpy")?.getattr("array")?.call1((rows,))
}

/// The grid of an image in memory or in a file, where one is given.
pub(crate) fn grid_of(image: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Geometry>> {
    let Some(image) = image.filter(|image| !image.is_none()) else { return Ok(None) };
    match json::path(image).map_err(error::input)? {
        Some(path) => Ok(Some(Geometry::File(path.into()))),
        None => Ok(Some(Geometry::Grid(Image::of_python(image)?.image.grid().clone()))),
    }
}

/// Where a grid is.
#[derive(Debug, Clone)]
pub(crate) enum Geometry {
    /// In a file.
    File(PathBuf),
    /// Here.
    Grid(Grid),
}

impl Geometry {
    /// Reads it.
    pub(crate) fn read(
        self,
        listener: &dyn voxalign_jobs::Listener,
    ) -> voxalign_jobs::Result<Grid> {
        match self {
            Self::File(path) => files::grid(&path, listener),
            Self::Grid(grid) => Ok(grid),
        }
    }
}
