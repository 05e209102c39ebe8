//! Data between Python and options: texts, numbers, lists, and dicts.

use crate::error;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use serde_json::{Map, Value};
use voxalign_options::Text;

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

/// A keyword argument that is a whole number from 0 on; `remedy` says what to give.
pub(crate) fn whole(
    name: &str,
    value: Option<&Bound<'_, PyAny>>,
    remedy: &str,
) -> PyResult<Option<usize>> {
    let Some(value) = value.filter(|value| !value.is_none()) else { return Ok(None) };
    // Texts and floats of a whole number as well, as at the command line; true and false are none.
    let number = match of_python(value) {
        Ok(Value::Number(number)) => number.as_u64().or_else(|| whole_float(number.as_f64()?)),
        Ok(Value::String(text)) => text.trim().parse().ok(),
        _ => None,
    };
    let number = number.and_then(|number| usize::try_from(number).ok());
    number.map(Some).ok_or_else(|| refused(name, value, remedy))
}

/// A float that is a whole number.
fn whole_float(number: f64) -> Option<u64> {
    let fits = number.fract() == 0.0 && (0.0..=u64::from(u32::MAX) as f64).contains(&number);
    fits.then_some(number as u64)
}

/// A keyword argument that is a text.
pub(crate) fn words(name: &str, value: Option<&Bound<'_, PyAny>>) -> PyResult<Option<String>> {
    let Some(value) = value.filter(|value| !value.is_none()) else { return Ok(None) };
    value.extract().map(Some).map_err(|_| refused(name, value, "give a text"))
}

/// That a keyword argument is not what it should be: a number or a text as it is written, of others the type.
pub(crate) fn refused(name: &str, value: &Bound<'_, PyAny>, remedy: &str) -> PyErr {
    let said = match of_python(value) {
        Ok(Value::String(text)) => format!("'{text}'"),
        Ok(Value::Bool(true)) => "True".to_owned(),
        Ok(Value::Bool(false)) => "False".to_owned(),
        Ok(Value::Number(number)) => number.to_string(),
        Ok(_) => format!("of the type {}", type_name(value)),
        Err(what) => what,
    };
    error::option(Text::option(name).and(format!(" is {said}; {remedy}")))
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
