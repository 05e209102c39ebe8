//! Who is told how the work goes: warnings, and a callback.

use super::teller::Told;
use crate::error;
use crate::json;
use crate::words::spoken;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};
use voxalign_jobs::Level;

/// Who is told how the work goes.
pub(crate) struct Watcher {
    callback: Option<Py<PyAny>>,
}

impl Watcher {
    /// Nobody but who sees warnings.
    pub(crate) fn quiet() -> Self {
        Self { callback: None }
    }

    /// Of the keyword argument `progress`: a function, or true for a bar.
    pub(crate) fn of(progress: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let Some(progress) = progress.filter(|p| !p.is_none()) else { return Ok(Self::quiet()) };
        let callback = if progress.is_instance_of::<PyBool>() {
            let py = progress.py();
            let bar = || py.import("voxalign._progress")?.getattr("Bar")?.call0();
            progress.is_truthy()?.then(bar).transpose()?
        } else if progress.is_callable() {
            Some(progress.clone())
        } else {
            return Err(error::option(voxalign_options::text!(
                "`progress` is neither true nor a function"
            )));
        };
        Ok(Self { callback: callback.map(Bound::unbind) })
    }

    pub(super) fn wants_steps(&self) -> bool {
        self.callback.is_some()
    }

    /// Tells it, on the thread that asked for the work.
    pub(super) fn tell(&self, py: Python<'_>, told: &Told) -> PyResult<()> {
        if let Told::Line(Level::Warning, text) = told {
            return error::warn(py, &spoken(text));
        }
        let Some(callback) = &self.callback else { return Ok(()) };
        let message = PyDict::new(py);
        match told {
            Told::Line(_, text) => {
                message.set_item("kind", "line")?;
                message.set_item("text", spoken(text))?;
            }
            Told::Stage { index, count, name, share } => {
                message.set_item("kind", "stage")?;
                message.set_item("index", index)?;
                message.set_item("count", count)?;
                message.set_item("name", name)?;
                message.set_item("share", share)?;
            }
            Told::Step { done, best } => {
                message.set_item("kind", "step")?;
                message.set_item("done", done)?;
                message.set_item("best", best)?;
            }
            Told::Frame(frame) => {
                message.set_item("kind", "frame")?;
                message.set_item("frame", json::to_python(py, frame)?)?;
            }
            Told::End { name, best, seconds } => {
                message.set_item("kind", "end")?;
                message.set_item("name", name)?;
                message.set_item("best", best)?;
                message.set_item("seconds", seconds)?;
            }
        }
        callback.call1(py, (message,)).map(drop)
    }
}
