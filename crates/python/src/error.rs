//! Exceptions, in the words of keyword arguments.

use crate::words::spoken;
use pyo3::exceptions::{PyException, PyUserWarning};
use pyo3::prelude::*;
use pyo3::{PyErr, create_exception};
use std::any::Any;
use std::ffi::CString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use voxalign_jobs::Error;
use voxalign_options::Text;
#[cfg(debug_assertions)]
use voxalign_python_macros::guarded;

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
create_exception!(voxalign, InternalError, VoxalignError, "A defect of voxalign.");
create_exception!(
    voxalign,
    VoxalignWarning,
    PyUserWarning,
    "Something to look at although the work goes on."
);

/// Adds them to the module.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    #[cfg(debug_assertions)]
    module.add_function(wrap_pyfunction!(panic, module)?)?;
    module.add("VoxalignError", py.get_type::<VoxalignError>())?;
    module.add("InputError", py.get_type::<InputError>())?;
    module.add("OptionError", py.get_type::<OptionError>())?;
    module.add("DeviceError", py.get_type::<DeviceError>())?;
    module.add("InternalError", py.get_type::<InternalError>())?;
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
        Error::Internal(_) => InternalError::new_err(said),
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
    InternalError::new_err(format!(
        "internal error: {message}; please report this, with the steps that led to it"
    ))
}

/// Does what a function of the module does; a panic becomes an exception. The attribute [`guarded`] puts it around each.
///
/// [`guarded`]: macro@voxalign_python_macros::guarded
pub(crate) fn guard<T>(body: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| Err(internal(&said(&*panic))))
}

/// What a panic says.
pub(crate) fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("the work gave up").to_owned()
}

/// Panics, for a test of what Python sees of that.
#[cfg(debug_assertions)]
#[guarded]
#[pyfunction]
#[pyo3(name = "_panic")]
fn panic() -> PyResult<()> {
    panic!("the sky fell")
}
