//! Images in memory.

use crate::work::{Failure, Watcher, run};
use crate::{error, json};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::path::PathBuf;
use voxalign_image::{Affine, Grid, LabelMap, Volume};
use voxalign_io::image::{DataType, ReadOptions};
use voxalign_jobs::files;
use voxalign_jobs::pair::HeldImage;
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

    /// Calls a function of the module that knows other packages.
    fn foreign<'py>(slf: &Bound<'py, Self>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("voxalign._foreign")?.getattr(name)?.call1((slf,))
    }
}

/// The largest whole number below which all have a float of their own.
const EXACT: f32 = 16_777_216.0;

/// An image as a label map.
pub(crate) fn labels(image: &Volume<f32>) -> PyResult<LabelMap> {
    match image.data().iter().find(|v| v.fract() != 0.0 || v.abs() >= EXACT || v.is_nan()) {
        Some(value) => Err(error::input(text!(
            "a label map holds whole numbers below 2^24, and this image {value}; give larger labels as a file"
        ))),
        None => image.try_map(|v| *v as i32).map_err(error::of),
    }
}

/// A label map as an image.
pub(crate) fn of_labels(labels: &LabelMap) -> PyResult<Volume<f32>> {
    match labels.data().iter().find(|v| v.unsigned_abs() >= EXACT as u32) {
        Some(value) => Err(error::input(text!(
            "the label {value} is too large for an image in memory; give `output`"
        ))),
        None => labels.try_map(|v| *v as f32).map_err(error::of),
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

/// Reads an image: NIfTI, ANALYZE, NRRD, MetaImage or a folder of DICOM.
#[guarded]
#[pyfunction]
#[pyo3(signature = (path, *, volume=None, series=None))]
pub(crate) fn read(
    py: Python<'_>,
    path: &Bound<'_, PyAny>,
    volume: Option<usize>,
    series: Option<String>,
) -> PyResult<Image> {
    let path = needed_path(path)?;
    let which = ReadOptions { volume, series, ..ReadOptions::default() };
    let held = run(py, None, &Watcher::quiet(), move |teller| {
        Ok(HeldImage::from(files::image_of(&path, &which, teller)?))
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
    /// From values of one to three dimensions, x first, and the affine from voxel index to world, RAS+ mm.
    #[new]
    fn new(py: Python<'_>, values: &Bound<'_, PyAny>, affine: &Bound<'_, PyAny>) -> PyResult<Self> {
        let foreign = py.import("voxalign._foreign")?;
        let (values, affine): (Bound<'_, PyAny>, Vec<f64>) =
            foreign.getattr("parts")?.call1((values, affine))?.extract()?;
        let values = PyBuffer::<f32>::get(&values)?;
        let mut dims = [1; 3];
        dims.iter_mut().zip(values.shape()).for_each(|(d, n)| *d = *n);
        let grid = Grid::new(dims, Affine::from_rows(affine_of(&affine)?)).map_err(error::of)?;
        let dimensions = values.dimensions().max(2);
        let volume = Volume::new(grid, values.to_fortran_vec(py)?).map_err(error::of)?;
        Ok(HeldImage { dimensions, ..HeldImage::from(volume) }.into())
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

    /// The values as an array of 32-bit floats, x first; a copy.
    fn numpy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let array = empty(py, &self.held.image.dims()[..self.dimensions()], "float32")?;
        let buffer = PyBuffer::<f32>::get(&array)?;
        buffer.copy_from_fortran_slice(py, self.held.image.data())?;
        Ok(array)
    }

    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _ = copy;
        let array = self.numpy(py)?;
        match dtype {
            Some(dtype) => array.call_method1("astype", (dtype,)),
            None => Ok(array),
        }
    }

    #[pyo3(signature = (**how))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        how: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.numpy(py)?.call_method("__dlpack__", (), how)
    }

    fn __dlpack_device__(&self) -> (i32, i32) {
        // The memory of the host, in the enumeration of DLPack.
        (1, 0)
    }

    /// The same as an image of nibabel.
    fn to_nibabel<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::foreign(slf, "to_nibabel")
    }

    /// The same as an image of SimpleITK.
    fn to_sitk<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::foreign(slf, "to_sitk")
    }

    /// The same as an image of ANTs.
    fn to_ants<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::foreign(slf, "to_ants")
    }

    /// Writes it; the name sets the format: .nii, .nii.gz, .hdr, .mha, .mhd, .nrrd or .nhdr.
    #[pyo3(signature = (path, *, data_type="f32"))]
    fn save(&self, py: Python<'_>, path: &Bound<'_, PyAny>, data_type: &str) -> PyResult<()> {
        let (path, held) = (needed_path(path)?, self.held.clone());
        let data_type: DataType = data_type
            .parse()
            .map_err(|e: String| error::option(Text::option("data_type").and(format!(": {e}"))))?;
        run(py, None, &Watcher::quiet(), move |teller| {
            files::check_output(&path, [])?;
            files::warn_of_rounding(held.image.data(), data_type, teller);
            let options = files::write_options(data_type, held.dimensions);
            voxalign_io::image::write_volume(&path, &held.image, &options)?;
            Ok::<_, Failure>(())
        })
    }

    fn __repr__(&self) -> String {
        format!("<voxalign.Image {}>", self.grid())
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
