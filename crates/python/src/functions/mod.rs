//! The functions, one file for what is alike, each with what is declared of it.

mod apply;
mod compare;
mod compose;
mod convert;
mod info;
mod invert;
mod job;
mod pair;
mod sequence;
mod team;

use crate::arguments::Given;
use crate::declared::{Declared, Own, Runs};
use crate::error;
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyTuple};
use std::ffi::CString;
use voxalign_jobs::{
    Caller, affine, anatomy, atlas, deform, drr, elastic, pose, segment, stack, surface,
};

/// A function: what is declared of it, and what it does.
pub(crate) struct Function {
    pub(crate) declared: Declared,
    call: fn(Python<'_>, Given) -> PyResult<Py<PyAny>>,
}

/// Images of a pair, and what goes with them.
const PAIR: &[&str] =
    &["fixed", "moving", "fixed_mask", "moving_mask", "fixed_labels", "moving_labels"];

/// What every job gives back.
const RESULT: (&str, &str) = (
    "Result",
    "The record, the verdict, and what is in the files; with `dry_run` a dict: `reads`, `writes`, `memory_bytes`, `free_bytes`.",
);

/// What is written and not given back.
const FACTS: (&str, &str) = ("dict[str, Any]", "What was written.");

/// A job of files.
const JOB: Own = Own {
    name: "",
    runs: Runs::Device,
    gives: RESULT,
    images: &[],
    stay: &[],
    transforms: &[],
    first: None,
    plans: false,
};

macro_rules! functions {
    ($($job:ty, $call:expr, $own:expr;)+) => {
        vec![$(Function { declared: Declared::of::<$job>(&$own), call: $call },)+]
    };
}

/// All of them.
pub(crate) fn all() -> Vec<Function> {
    let of = |name: &'static str| Own { name, plans: true, ..JOB };
    let pair = |name: &'static str| Own { images: PAIR, ..of(name) };
    let staying = |name: &'static str| Own { stay: &["fixed", "moving"], ..pair(name) };
    functions! {
        affine::Job, team::affine, staying("affine");
        deform::Job, pair::call::<deform::Job>, staying("deform");
        elastic::Job, sequence::elastic, pair("elastic");
        anatomy::Job, job::call::<anatomy::Job>, of("anatomy");
        atlas::Job, team::atlas, Own { runs: Runs::Team, ..of("atlas") };
        drr::Job, job::call::<drr::Job>, of("drr");
        pose::Job, sequence::pose, of("pose");
        segment::Job, job::call::<segment::Job>, of("segment");
        stack::Job, job::call::<stack::Job>, of("stack");
        surface::Job, job::call::<surface::Job>, of("surface");
        voxalign_jobs::apply::Job, apply::call, apply::OWN;
        voxalign_jobs::invert::Job, invert::call, invert::OWN;
        voxalign_jobs::compose::Job, compose::call, compose::OWN;
        voxalign_jobs::compare::Job, compare::call, compare::OWN;
        voxalign_jobs::info::Job, info::call, info::OWN;
        voxalign_jobs::convert::Job, convert::call, convert::OWN;
    }
}

/// Adds them to the module.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    for Function { declared, call } in all() {
        let name = declared.name;
        let text = format!("{}\n--\n\n{}", declared.signature("$self, "), declared.documentation());
        // Functions are there as long as the interpreter, and so are their names and documentation.
        let leaked = |text: String| {
            let text = CString::new(text).map_err(|e| error::internal(&e.to_string()))?;
            Ok::<_, PyErr>(&*Box::leak(text.into_boxed_c_str()))
        };
        let (own_name, text) = (leaked(name.to_owned())?, leaked(text)?);
        let body = move |args: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>| {
            error::guard(|| call(args.py(), Given::of(&declared, args, kwargs)?))
        };
        let function = PyCFunction::new_closure(module.py(), Some(own_name), Some(text), body)?;
        module.add(name, function)?;
    }
    Ok(())
}

/// Who runs a job: a function of Python, in whose words options are said.
pub(crate) fn caller(name: &str, given: &Given) -> Caller {
    Caller {
        program: format!("voxalign.{name}"),
        config: given.config.clone(),
        words: crate::words::spoken,
        ..Caller::default()
    }
}
