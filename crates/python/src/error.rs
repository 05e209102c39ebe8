//! Exceptions, in the words of keyword arguments.

use crate::words::spoken;
use pyo3::exceptions::{PyException, PyUserWarning};
use pyo3::prelude::*;
use pyo3::{PyErr, create_exception};
use std::ffi::CString;
use voxalign_jobs::Error;
use voxalign_options::Text;

create_exception!(voxalign, VoxalignError, PyException, "What voxalign could not do.");
create_exception!(
    voxalign,
    InputError,
    VoxalignError,
    "An image, a file or another input that cannot be used."
);
create_exception!(
    voxalign,
    OptionError,
    VoxalignError,
    "A keyword argument that cannot be used as it is given, or that would be ignored."
);
create_exception!(
    voxalign,
    DeviceError,
    VoxalignError,
    "A device that is not there, or that failed."
);
create_exception!(
    voxalign,
    VoxalignWarning,
    PyUserWarning,
    "Something to look at although the work goes on."
);

/// Adds them to the module.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("VoxalignError", py.get_type::<VoxalignError>())?;
    module.add("InputError", py.get_type::<InputError>())?;
    module.add("OptionError", py.get_type::<OptionError>())?;
    module.add("DeviceError", py.get_type::<DeviceError>())?;
    module.add("VoxalignWarning", py.get_type::<VoxalignWarning>())
}

/// The exception of an error of a job.
pub(crate) fn of_job(error: &Error) -> PyErr {
    let said = spoken(&error.text());
    match error {
        Error::Option(_) | Error::Ignored(..) => OptionError::new_err(said),
        Error::Input(text) if is_of_value(text) => OptionError::new_err(said),
        error if error.is_of_input() => InputError::new_err(said),
        Error::Gpu(_) => DeviceError::new_err(said),
        _ => VoxalignError::new_err(said),
    }
}

/// Whether a message begins with an option and what its value is, rather than with an input that it names.
fn is_of_value(text: &Text) -> bool {
    let whole = text.to_string();
    let begins = |name: &str| {
        whole.starts_with(&format!("`{name}` is ")) || whole.starts_with(&format!("`{name} = "))
    };
    text.options().next().is_some_and(begins)
}

/// The exception of what is wrong with keyword arguments.
pub(crate) fn of_options(error: &Error) -> PyErr {
    match error.is_of_input() {
        true => OptionError::new_err(spoken(&error.text())),
        false => of_job(error),
    }
}

/// The exception of a device that cannot be started.
pub(crate) fn of_device(error: &Error) -> PyErr {
    match error {
        error if error.is_of_input() => DeviceError::new_err(spoken(&error.text())),
        other => of_job(other),
    }
}

/// The exception of an error of a library.
pub(crate) fn of<E>(error: E) -> PyErr
where
    Error: From<E>,
{
    of_job(&error.into())
}

/// A keyword argument that cannot be used.
pub(crate) fn option(message: impl Into<Text>) -> PyErr {
    OptionError::new_err(spoken(&message.into()))
}

/// Warns of something that does no harm to the result.
pub(crate) fn warn(py: Python<'_>, message: &str) -> PyResult<()> {
    let text = CString::new(message.replace('\0', " ")).unwrap_or_default();
    PyErr::warn(py, &py.get_type::<VoxalignWarning>(), &text, 1)
}

/// An input that cannot be used.
pub(crate) fn input(message: impl Into<Text>) -> PyErr {
    InputError::new_err(spoken(&message.into()))
}

/// A defect of voxalign.
pub(crate) fn internal(message: &str) -> PyErr {
    VoxalignError::new_err(format!(
        "internal error: {message}; please report this, with the steps that led to it"
    ))
}
