//! The module `voxalign._native` of the Python package: jobs as functions, images and transforms as objects.
//!
//! A function of Python is a job: keyword arguments become its options by their one declaration, and what it gives back
//! is its record and its files. Nothing is computed or decided here.

mod arguments;
mod bids;
mod config;
mod declared;
mod dlpack;
mod error;
mod functions;
mod image;
mod json;
mod pickled;
mod program;
mod result;
mod stubs;
mod transform;
mod words;
mod work;

use pyo3::prelude::*;

/// The module. It needs no lock of the interpreter: objects never change, and what is shared has locks of its own.
#[pymodule(gil_used = false)]
#[pyo3(name = "_native")]
fn native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    error::add(module)?;
    module.add_class::<image::Image>()?;
    module.add_class::<transform::Transform>()?;
    module.add_class::<result::Result>()?;
    module.add_class::<result::Verdict>()?;
    module.add_function(wrap_pyfunction!(image::read, module)?)?;
    module.add_function(wrap_pyfunction!(image::transfers, module)?)?;
    module.add_function(wrap_pyfunction!(transform::read_transform, module)?)?;
    module.add_function(wrap_pyfunction!(bids::bids, module)?)?;
    pickled::add(module)?;
    module.add_function(wrap_pyfunction!(program::program, module)?)?;
    module.add_function(wrap_pyfunction!(stubs::stubs, module)?)?;
    functions::add(module)
}
