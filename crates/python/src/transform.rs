//! Transforms in memory.

use crate::image::{Geometry, empty, grid_of, matrix, needed_path};
use crate::work::{Watcher, run, threads_of};
use crate::{error, json, pickled};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::Arc;
use voxalign_compute::cpu::Cpu;
use voxalign_image::{Transform as Map, Vector3, memory};
use voxalign_io::transform::{self, TransformFormat};
use voxalign_jobs::chain::{inverted, own_grid};
use voxalign_jobs::files::{self, Grids};
use voxalign_options::text;
use voxalign_python_macros::guarded;

/// A map from points of the fixed image to points of the moving one, RAS+ mm.
#[pyclass(frozen, module = "voxalign", weakref)]
pub(crate) struct Transform {
    map: Arc<Map>,
}

impl From<Map> for Transform {
    fn from(map: Map) -> Self {
        Self { map: map.into() }
    }
}

impl Transform {
    /// The map, which others share.
    pub(crate) fn shared(&self) -> Arc<Map> {
        Arc::clone(&self.map)
    }
}

/// Grids that files of transforms are relative to.
struct Relative([Option<Geometry>; 2]);

impl Relative {
    fn of(fixed: Option<&Bound<'_, PyAny>>, moving: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        Ok(Self([grid_of(fixed)?, grid_of(moving)?]))
    }

    fn read(self, listener: &dyn voxalign_jobs::Listener) -> voxalign_jobs::Result<Grids> {
        let [fixed, moving] = self.0.map(|g| g.map(|g| g.read(listener)).transpose());
        Ok(Grids { fixed: fixed?, moving: moving? })
    }
}

/// Reads a transform.
///
/// Parameters
/// ----------
/// path : PathLike
///     ITK and ANTs (.tfm, .txt, .mat, .h5), FreeSurfer (.lta), FSL, or a displacement field.
/// fixed_geometry, moving_geometry : ImageLike
///     The images between which the transform is, which FSL's matrices are relative to.
///
/// Returns
/// -------
/// Transform
///     From points of the fixed image to points of the moving one, RAS+ mm.
///
/// Raises
/// ------
/// InputError
///     A file that is not there, is damaged, or holds no transform.
#[guarded]
#[pyfunction]
#[pyo3(signature = (path, *, fixed_geometry=None, moving_geometry=None))]
pub(crate) fn read_transform(
    py: Python<'_>,
    path: &Bound<'_, PyAny>,
    fixed_geometry: Option<&Bound<'_, PyAny>>,
    moving_geometry: Option<&Bound<'_, PyAny>>,
) -> PyResult<Transform> {
    let path = needed_path(path)?;
    let relative = Relative::of(fixed_geometry, moving_geometry)?;
    let map = run(py, None, &Watcher::quiet(), move |teller| {
        let grids = relative.read(teller)?;
        Ok(files::transform(&path, &grids.geometry(), teller)?.simplified())
    })?;
    Ok(map.into())
}

#[guarded]
#[pymethods]
impl Transform {
    /// An affine map of the world.
    ///
    /// Parameters
    /// ----------
    /// affine : array_like
    ///     4x4, RAS+ mm, from points of the fixed image to points of the moving one, with the last row 0 0 0 1.
    ///
    /// Raises
    /// ------
    /// InputError
    ///     No such matrix, or numbers that are not finite.
    #[new]
    fn new(py: Python<'_>, affine: &Bound<'_, PyAny>) -> PyResult<Self> {
        let numbers: Vec<f64> =
            py.import("voxalign._foreign")?.getattr("matrix")?.call1((affine,))?.extract()?;
        let rows = crate::image::affine_of(&numbers)?;
        let affine = voxalign_image::Affine::from_rows(rows);
        if !affine.is_finite() {
            return Err(error::input(text!("the affine has numbers that are not finite")));
        }
        Ok(Map::Affine(affine).into())
    }

    /// Whether it is a matrix alone.
    #[getter]
    fn is_affine(&self) -> bool {
        self.map.to_affine().is_ok()
    }

    /// The 4x4 matrix, RAS+ mm; none where a displacement field is in it.
    #[getter]
    fn affine<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.map.to_affine().ok().map(|affine| matrix(py, &affine)).transpose()
    }

    /// Carries points of the fixed image to the moving one.
    ///
    /// Parameters
    /// ----------
    /// points : array_like
    ///     N points of the fixed image, N x 3, or one of three coordinates, RAS+ mm.
    ///
    /// Returns
    /// -------
    /// numpy.ndarray
    ///     The points of the moving image, of the same shape, RAS+ mm.
    ///
    /// Raises
    /// ------
    /// InputError
    ///     What is no list of points.
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        points: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let points = py.import("voxalign._foreign")?.getattr("points")?.call1((points,))?;
        let buffer = PyBuffer::<f64>::get(&points)?;
        let mut numbers = memory::zeroed::<f64>(buffer.item_count()).map_err(error::of)?;
        buffer.copy_to_slice(py, &mut numbers)?;
        let map = Arc::clone(&self.map);
        let carried = py.detach(move || {
            for p in numbers.chunks_exact_mut(3) {
                p.copy_from_slice(map.apply(Vector3::new(p[0], p[1], p[2])).as_slice());
            }
            numbers
        });
        let array = empty(py, buffer.shape(), "float64")?;
        PyBuffer::<f64>::get(&array)?.copy_from_slice(py, &carried)?;
        Ok(array)
    }

    /// `a @ b` is the map that does `b` first and `a` after it, as matrices are multiplied.
    fn __matmul__(&self, other: &Bound<'_, PyAny>) -> PyResult<Self> {
        match other.cast::<Self>() {
            Ok(first) => Ok(first.get().map.then(&self.map).into()),
            Err(_) => Err(error::input(format!(
                "a transform is composed with a transform, and not with an object of the type {}",
                json::type_name(other)
            ))),
        }
    }

    /// The map from the moving to the fixed image; that of a displacement field is a field on the same grid.
    ///
    /// Parameters
    /// ----------
    /// threads : int
    ///     Threads to use; the result does not depend on it [default: all].
    ///
    /// Raises
    /// ------
    /// InputError
    ///     A transform that has no inverse.
    #[pyo3(signature = (*, threads=None))]
    fn inverse(&self, py: Python<'_>, threads: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let threads = threads_of(threads)?;
        let map = Arc::clone(&self.map);
        let inverse = run(py, threads, &Watcher::quiet(), move |teller| {
            let device = Cpu::new(Some(rayon::current_num_threads()))?;
            Ok(inverted(&device, &map, "the transform", teller)?.0)
        })?;
        Ok(inverse.into())
    }

    /// Writes it to a file that is complete or absent.
    ///
    /// Parameters
    /// ----------
    /// path : PathLike
    ///     The name sets the format: .tfm or .txt (ITK), .mat (ITK and ANTs), .h5 (ITK and ANTs, with fields), .fsl
    ///     or .fsl.mat (FSL), .nii.gz (a displacement field on the grid of the fixed image, or on its own).
    /// fixed_geometry, moving_geometry : ImageLike
    ///     The images between which the transform is, which FSL's matrices are relative to.
    ///
    /// Raises
    /// ------
    /// InputError
    ///     A name of no format, a transform that the format cannot hold, or a place that cannot be written to.
    #[pyo3(signature = (path, *, fixed_geometry=None, moving_geometry=None))]
    fn save(
        &self,
        py: Python<'_>,
        path: &Bound<'_, PyAny>,
        fixed_geometry: Option<&Bound<'_, PyAny>>,
        moving_geometry: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let (path, map) = (needed_path(path)?, Arc::clone(&self.map));
        let relative = Relative::of(fixed_geometry, moving_geometry)?;
        run(py, None, &Watcher::quiet(), move |teller| {
            files::check_output(&path, [])?;
            let mut grids = relative.read(teller)?;
            let as_field = TransformFormat::from_path(&path)? != TransformFormat::ItkHdf5;
            if as_field && grids.fixed.is_none() && map.to_affine().is_err() {
                grids.fixed = own_grid(&map).cloned();
            }
            Ok(transform::write(&path, &map, &grids.geometry())?)
        })
    }

    /// The same as a transform of SimpleITK, which has to be installed: LPS, from fixed to moving points, as its
    /// resampling takes it.
    ///
    /// Parameters
    /// ----------
    /// dimensions : int
    ///     2 for images of the plane, or 3 [default: those of a displacement field; of a matrix alone 3].
    ///
    /// Raises
    /// ------
    /// InputError
    ///     A transform that leaves the plane, where two dimensions are asked for, or a field of others.
    #[pyo3(signature = (*, dimensions=None))]
    fn to_sitk<'py>(
        slf: &Bound<'py, Self>,
        dimensions: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let n = json::whole("dimensions", dimensions, "give 2 or 3")?;
        let foreign = slf.py().import("voxalign._foreign")?;
        foreign.getattr("transform_to_sitk")?.call1((slf, n))
    }

    fn __copy__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __deepcopy__(slf: Py<Self>, _memo: &Bound<'_, PyAny>) -> Py<Self> {
        // Nobody can change it.
        slf
    }

    /// What it is pickled as: all its numbers, to the bit.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        pickled::made_by(py, "_transform", (pickled::parts(py, &self.map)?,))
    }

    fn __repr__(&self) -> String {
        match self.map.to_affine() {
            Ok(affine) => {
                let rows = affine.rows().map(|row| row.map(|v| format!("{v:.6}")).join(" "));
                format!("<voxalign.Transform affine, RAS+ mm: {}>", rows.join("; "))
            }
            Err(_) => match own_grid(&self.map) {
                Some(grid) => format!("<voxalign.Transform with a displacement field on {grid}>"),
                None => "<voxalign.Transform>".to_owned(),
            },
        }
    }
}
