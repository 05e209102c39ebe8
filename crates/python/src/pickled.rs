//! What transforms, results and verdicts are pickled as, and how they are made of that again, to the bit.

use crate::result::{Result, Verdict};
use crate::transform::Transform;
use crate::{error, json};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};
use serde_json::Value;
use voxalign_image::{
    Affine, Displacement, Grid, Rigid, Similarity, Transform as Map, UnitQuaternion, Vector3,
    VectorField, memory,
};
use voxalign_python_macros::guarded;

/// A function of the module and its arguments, by which an object is made again.
pub(crate) fn made_by<'py>(
    py: Python<'py>,
    function: &str,
    arguments: impl IntoPyObject<'py, Target = PyTuple, Output = Bound<'py, PyTuple>, Error = PyErr>,
) -> PyResult<Bound<'py, PyTuple>> {
    let function = py.import("voxalign._native")?.getattr(function)?;
    (function, arguments.into_pyobject(py)?).into_pyobject(py)
}

fn of_rows(numbers: &[f64]) -> Option<[[f64; 4]; 3]> {
    let row = |r: usize| numbers.get(4 * r..4 * r + 4)?.try_into().ok();
    Some([row(0)?, row(1)?, row(2)?])
}

fn rigid_numbers(rigid: &Rigid) -> Vec<f64> {
    let parts =
        [rigid.rotation.coords.as_slice(), rigid.centre.as_slice(), rigid.translation.as_slice()];
    parts.concat()
}

fn rigid_of(numbers: &[f64]) -> Option<Rigid> {
    let vector = |at: usize| Some(Vector3::from_column_slice(numbers.get(at..at + 3)?));
    let quaternion: [f64; 4] = numbers.get(..4)?.try_into().ok()?;
    let rotation = UnitQuaternion::new_unchecked(quaternion.into());
    Some(Rigid { rotation, centre: vector(4)?, translation: vector(7)? })
}

/// A transform as kinds with their numbers; a field has the sizes of its grid, its affine, and 32-bit floats in little-endian order.
pub(crate) fn parts<'py>(py: Python<'py>, map: &Map) -> PyResult<Bound<'py, PyTuple>> {
    let (kind, numbers, rest) = match map {
        Map::Rigid(rigid) => ("rigid", rigid_numbers(rigid), py.None()),
        Map::Similarity(similarity) => {
            let mut numbers = rigid_numbers(&similarity.rigid);
            numbers.push(similarity.scale);
            ("similarity", numbers, py.None())
        }
        Map::Affine(affine) => ("affine", affine.rows().concat(), py.None()),
        Map::Displacement(displacement) => {
            let field = displacement.field();
            let (grid, values) = (field.grid(), field.data());
            let bytes = PyBytes::new_with(py, 4 * values.len(), |bytes| {
                for (to, value) in bytes.chunks_exact_mut(4).zip(values) {
                    to.copy_from_slice(&value.to_le_bytes());
                }
                Ok(())
            })?;
            let rest = (grid.dims(), bytes).into_py_any(py)?;
            ("displacement", grid.to_world().rows().concat(), rest)
        }
        Map::Composite(all) => {
            let all = all.iter().map(|one| parts(py, one)).collect::<PyResult<Vec<_>>>()?;
            ("composite", Vec::new(), all.into_py_any(py)?)
        }
        _ => return Err(error::internal("a transform of an unknown kind")),
    };
    (kind, numbers, rest).into_pyobject(py)
}

/// The transform of [`parts`].
fn map_of(parts: &Bound<'_, PyAny>) -> PyResult<Map> {
    let (kind, numbers, rest): (String, Vec<f64>, Bound<'_, PyAny>) = parts.extract()?;
    let map = match &*kind {
        "rigid" => rigid_of(&numbers).map(Map::Rigid),
        "similarity" => rigid_of(&numbers)
            .zip(numbers.get(10))
            .map(|(rigid, scale)| Map::Similarity(Similarity { rigid, scale: *scale })),
        "affine" => of_rows(&numbers).map(|rows| Map::Affine(Affine::from_rows(rows))),
        "displacement" => match of_rows(&numbers) {
            Some(rows) => {
                let (dims, bytes): ([usize; 3], Bound<'_, PyBytes>) = rest.extract()?;
                let grid = Grid::new(dims, Affine::from_rows(rows)).map_err(error::of)?;
                let bytes = bytes.as_bytes();
                let mut values = memory::zeroed::<f32>(bytes.len() / 4).map_err(error::of)?;
                for (value, from) in values.iter_mut().zip(bytes.chunks_exact(4)) {
                    *value = f32::from_le_bytes([from[0], from[1], from[2], from[3]]);
                }
                let field = VectorField::new(grid, values).map_err(error::of)?;
                Some(Map::Displacement(Displacement::new(field)))
            }
            None => None,
        },
        "composite" => {
            let all = rest.try_iter()?.map(|one| map_of(&one?)).collect::<PyResult<_>>()?;
            Some(Map::Composite(all))
        }
        _ => None,
    };
    map.ok_or_else(|| error::input("what was pickled is no transform of this version of voxalign; save() it to a file instead"))
}

/// A transform of what it was pickled as.
#[guarded]
#[pyfunction]
fn _transform(parts: &Bound<'_, PyAny>) -> PyResult<Transform> {
    Ok(map_of(parts)?.into())
}

/// A verdict of what it was pickled as.
#[guarded]
#[pyfunction]
fn _verdict(verdict: &Bound<'_, PyAny>, summary: String) -> PyResult<Verdict> {
    Ok(Verdict::new(data(verdict)?, summary))
}

/// Dicts, lists and what is in them, as data.
fn data(value: &Bound<'_, PyAny>) -> PyResult<Value> {
    if let Ok(dict) = value.cast::<PyDict>() {
        let pair = |(key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
            Ok((key.extract()?, data(&value)?))
        };
        return dict.iter().map(pair).collect::<PyResult<_>>().map(Value::Object);
    }
    if let Ok(list) = value.cast::<PyList>() {
        return list.iter().map(|value| data(&value)).collect::<PyResult<_>>().map(Value::Array);
    }
    json::of_python(value).map_err(error::input)
}

/// A result of what it was pickled as: the record, its summary, the folder, and the files where they went with the result.
#[guarded]
#[pyfunction]
fn _result(
    py: Python<'_>,
    record: String,
    summary: String,
    folder: &Bound<'_, PyAny>,
    files: Option<&Bound<'_, PyDict>>,
) -> PyResult<Result> {
    let folder = crate::image::needed_path(folder)?;
    let files = files.map(|files| {
        let all = files
            .iter()
            .map(|(name, bytes)| Ok((name.extract::<String>()?, bytes.extract::<Vec<u8>>()?)));
        all.collect::<PyResult<Vec<_>>>()
    });
    let files = files.transpose()?;
    py.detach(|| Result::restored(record, summary, folder, files))
}

/// Adds what makes objects again to the module.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_transform, module)?)?;
    module.add_function(wrap_pyfunction!(_verdict, module)?)?;
    module.add_function(wrap_pyfunction!(_result, module)?)
}

/// Files by their names in a folder, for what is pickled.
pub(crate) fn files<'py>(
    py: Python<'py>,
    all: Vec<(String, Vec<u8>)>,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, bytes) in all {
        dict.set_item(name, PyBytes::new(py, &bytes))?;
    }
    Ok(dict)
}
