//! Data between Python and options: texts, numbers, lists, and dicts.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use serde_json::{Map, Value};

/// Lists within lists are no deeper than this.
const DEEPEST: usize = 8;

/// A value of an option as data; what it is otherwise, in words.
pub(crate) fn of_python(value: &Bound<'_, PyAny>) -> Result<Value, String> {
    within(value, DEEPEST)
}

fn within(value: &Bound<'_, PyAny>, deeper: usize) -> Result<Value, String> {
    let unreadable = |e: PyErr| e.to_string();
    if value.is_none() {
        return Ok(Value::Null);
    }
    if value.is_instance_of::<PyBool>() {
        return Ok(Value::Bool(value.is_truthy().map_err(unreadable)?));
    }
    if value.is_instance_of::<PyInt>() {
        let number = value.extract::<i64>().map(Value::from);
        let number = number.or_else(|_| value.extract::<u64>().map(Value::from));
        return number.map_err(|_| "a number of too many digits".to_owned());
    }
    if value.is_instance_of::<PyFloat>() {
        let number: f64 = value.extract().map_err(unreadable)?;
        // JSON has no others.
        return Ok(match number.is_finite() {
            true => Value::from(number),
            false => Value::String(number.to_string().to_lowercase()),
        });
    }
    if value.is_instance_of::<PyString>() {
        return value.extract().map(Value::String).map_err(|_| NOT_UNICODE.to_owned());
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        if deeper == 0 {
            return Err("lists within lists, too deep".to_owned());
        }
        let all = value.try_iter().map_err(unreadable)?;
        let all = all.map(|v| within(&v.map_err(unreadable)?, deeper - 1));
        return all.collect::<Result<_, _>>().map(Value::Array);
    }
    if let Some(path) = path(value)? {
        return Ok(Value::String(path));
    }
    // Numbers and arrays of numpy and others.
    match value.call_method0("tolist") {
        Ok(plain) if deeper > 0 => within(&plain, deeper - 1),
        _ => Err(format!("of the type {}", type_name(value))),
    }
}

const NOT_UNICODE: &str = "a text that is not Unicode";

/// The path that an object stands for: a text, or what `os.fspath` takes.
pub(crate) fn path(value: &Bound<'_, PyAny>) -> Result<Option<String>, String> {
    let text = match value.is_instance_of::<PyString>() {
        true => value.clone(),
        false => match value.call_method0("__fspath__") {
            Ok(text) => text,
            Err(_) => return Ok(None),
        },
    };
    text.extract().map(Some).map_err(|_| NOT_UNICODE.to_owned())
}

/// The name of the type of an object.
pub(crate) fn type_name(value: &Bound<'_, PyAny>) -> String {
    value.get_type().fully_qualified_name().map_or_else(|_| "object".to_owned(), |n| n.to_string())
}

/// Data as objects of Python.
pub(crate) fn to_python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(value) => PyBool::new(py, *value).to_owned().into_any(),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => number.into_pyobject(py)?.into_any(),
            (None, Some(number)) => number.into_pyobject(py)?.into_any(),
            _ => PyFloat::new(py, number.as_f64().unwrap_or(f64::NAN)).into_any(),
        },
        Value::String(text) => PyString::new(py, text).into_any(),
        Value::Array(all) => {
            let list = PyList::empty(py);
            for value in all {
                list.append(to_python(py, value)?)?;
            }
            list.into_any()
        }
        Value::Object(all) => dict(py, all)?.into_any(),
    })
}

/// An object of data as a dict.
pub(crate) fn dict<'py>(py: Python<'py>, all: &Map<String, Value>) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, value) in all {
        dict.set_item(name, to_python(py, value)?)?;
    }
    Ok(dict)
}
