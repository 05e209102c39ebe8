//! Results under the names of BIDS derivatives.

use crate::image::needed_path;
use crate::json::{refused, words};
use crate::result::Result;
use crate::work::{Failure, Watcher, run};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};
use serde_json::Value;
use std::path::PathBuf;
use voxalign_io::text;
use voxalign_jobs::Error;
use voxalign_jobs::bids::{BidsOptions, Registered, YesNo};
use voxalign_options::text;
use voxalign_python_macros::guarded;

/// An error in the words of the function: what is `bids_space` of a job is `space` here.
fn own(error: Error) -> Error {
    let name = |name: &str| match name {
        "bids" => Some("output".to_owned()),
        name => name.strip_prefix("bids_").map(str::to_owned),
    };
    match error.is_of_input() {
        true => Error::input(error.text().renamed(name)),
        false => error,
    }
}

/// An argument that is true or false.
fn truth(name: &str, value: Option<&Bound<'_, PyAny>>) -> PyResult<Option<bool>> {
    let Some(value) = value.filter(|value| !value.is_none()) else { return Ok(None) };
    match value.is_instance_of::<PyBool>() {
        true => value.is_truthy().map(Some),
        false => Err(refused(name, value, "give True or False")),
    }
}

/// Puts the result of a registration into a data set of BIDS derivatives, as the option `bids` of `affine`, `deform` and
/// `elastic` does.
///
/// The moving image on the grid of the fixed one, the transforms both ways, the Jacobian determinant where there is one, and
/// the report get the names of the standard, each image and transform with a sidecar that says by what it was made and what
/// the verdict is. Transforms are named as fMRIPrep does, and listed in `.bidsignore`, as the standard has no names for them
/// yet: `from-T1w_to-MNI` resamples images of the subject to the space. The files appear together; where one of these names is
/// there already, nothing is written.
///
/// Parameters
/// ----------
/// result : Result or path
///     What `affine`, `deform` or `elastic` gave, or the folder that the program wrote.
/// output : path
///     The folder of the data set; made where it is not there. `dataset_description.json` is written if there is none.
/// space : str
///     The label of the space of the fixed image, such as `MNI152NLin2009cAsym` [default: that of the name of its file: of a
///     template (`tpl-LABEL`), of a space (`space-LABEL`), or its suffix where both images are of one subject].
/// name : str
///     Entities and suffix of the moving image, such as `sub-01_ses-two_T1w` [default: those of the name of its file].
/// desc : str
///     The label of the resampled image [default: preproc].
/// skull_stripped : bool
///     Whether voxels outside the brain of the moving image are 0, which the standard wants to know of anatomical images
///     [default: what the sidecar of the moving image says].
/// reference : str
///     What `SpatialReference` says [default: the path of the fixed image].
/// accept_bad : bool
///     Take a result whose verdict is bad, too; its sidecars say so [default: False].
/// overwrite : bool
///     Replace files that the data set has under these names [default: False].
///
/// Returns
/// -------
/// dict of str to pathlib.Path
///     The files that were written, by what they are: `resampled`, `jacobian`, `transform`, `inverse_transform`, `report`.
///
/// Raises
/// ------
/// OptionError
///     A label that BIDS does not allow, or one that is missing.
/// InputError
///     A folder without a result, a result whose verdict is bad, a data set that is none of derivatives, or files that are
///     there already.
#[guarded]
#[pyfunction]
#[pyo3(signature = (result, output, *, space=None, name=None, desc=None, skull_stripped=None, reference=None, accept_bad=None, overwrite=None))]
#[expect(clippy::too_many_arguments, reason = "they are keywords")]
pub(crate) fn bids<'py>(
    py: Python<'py>,
    result: &Bound<'py, PyAny>,
    output: &Bound<'py, PyAny>,
    space: Option<&Bound<'py, PyAny>>,
    name: Option<&Bound<'py, PyAny>>,
    desc: Option<&Bound<'py, PyAny>>,
    skull_stripped: Option<&Bound<'py, PyAny>>,
    reference: Option<&Bound<'py, PyAny>>,
    accept_bad: Option<&Bound<'py, PyAny>>,
    overwrite: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let skull = truth("skull_stripped", skull_stripped)?;
    let options = BidsOptions {
        bids: Some(needed_path(output)?),
        bids_space: words("space", space)?,
        bids_name: words("name", name)?,
        bids_desc: words("desc", desc)?,
        bids_skull_stripped: skull.map(|yes| if yes { YesNo::Yes } else { YesNo::No }),
        bids_reference: words("reference", reference)?,
        bids_accept_bad: truth("accept_bad", accept_bad)?.unwrap_or_default(),
        bids_overwrite: truth("overwrite", overwrite)?.unwrap_or_default(),
    };
    let source = match result.cast::<Result>() {
        Ok(result) => Source::Held(result.get().parts()),
        Err(_) => Source::Folder(needed_path(result)?),
    };
    let written = run(py, None, &Watcher::quiet(), move |teller| {
        let (found, _kept) = match source {
            Source::Held((folder, record, kept)) => (Registered::of(&folder, record), kept),
            Source::Folder(folder) => (Registered::of(&folder, record(&folder)?), None),
        };
        let found = found?;
        found.check(&options).map_err(|e| Failure::Options(own(e)))?;
        Ok(found.put(&options, teller).map_err(own)?)
    })?;
    let (all, path) = (PyDict::new(py), py.import("pathlib")?.getattr("Path")?);
    for (role, file) in written {
        all.set_item(role, path.call1((file.into_os_string(),))?)?;
    }
    Ok(all)
}

/// A result, in memory or in a folder.
enum Source {
    Held((PathBuf, Value, crate::result::Kept)),
    Folder(PathBuf),
}

/// The record of a folder.
fn record(folder: &std::path::Path) -> voxalign_jobs::Result<Value> {
    let wrong = |what: String| {
        Error::input(text!(
            "'{}': {what}; give the folder of a registration, or what it gave",
            folder.display()
        ))
    };
    let text = text::read(folder.join("result.json")).map_err(|e| wrong(e.to_string()))?;
    serde_json::from_str(&text).map_err(|e| wrong(e.to_string()))
}
