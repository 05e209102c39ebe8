//! Results of jobs: the record, and the files that it names.

use crate::image::Image;
use crate::transform::Transform;
use crate::work::{Teller, Watcher, run};
use crate::{error, json, pickled};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use serde::Deserialize;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;
use voxalign_compute::cpu::Cpu;
use voxalign_image::{Grid, Transform as Map, Volume};
use voxalign_io::image::read_info;
use voxalign_io::transform::Geometry;
use voxalign_jobs::pair::HeldImage;
use voxalign_jobs::{Done, Error, files};
use voxalign_options::text;
use voxalign_python_macros::guarded;
use voxalign_register::fields::jacobian_determinants;
use voxalign_report::{GridRecord, Judged};

/// What a job found, as data.
#[derive(Debug)]
pub(crate) struct Found {
    /// The record, as it is in `result.json`.
    record: String,
    folder: PathBuf,
    summary: String,
    warped: Option<HeldImage>,
}

impl Found {
    /// Of a job that is done.
    pub(crate) fn of<R: Judged>(done: Done<R>) -> Self {
        let (record, summary) = (done.record.text(), done.record.verdict().summary());
        Self { record, folder: done.folder, summary, warped: done.warped }
    }
}

/// A folder that goes with what holds it.
pub(crate) type Kept = Option<Arc<TempDir>>;

/// The result of a job.
#[pyclass(frozen, module = "voxalign", weakref)]
pub(crate) struct Result {
    text: String,
    record: Value,
    summary: String,
    folder: PathBuf,
    /// Where the files go with the result.
    kept: Kept,
    /// The moving image on the fixed one, where that is on a GPU as well.
    warped: Option<HeldImage>,
}

impl Result {
    /// Of what was found, in a folder that may go with it.
    pub(crate) fn new(found: Found, kept: Option<TempDir>) -> PyResult<Self> {
        let Found { record: text, folder, summary, warped } = found;
        let record = serde_json::from_str(&text).map_err(|e| error::internal(&e.to_string()))?;
        let kept = kept.map(Arc::new);
        Ok(Self { text, record, summary, folder, kept, warped })
    }

    /// The folder of its files, its record, and what keeps the folder.
    pub(crate) fn parts(&self) -> (PathBuf, Value, Kept) {
        (self.folder.clone(), self.record.clone(), self.kept.clone())
    }

    /// Of what it was pickled as. Files that went with it get a folder of their own.
    pub(crate) fn restored(
        text: String,
        summary: String,
        folder: PathBuf,
        files: Option<Vec<(String, Vec<u8>)>>,
    ) -> PyResult<Self> {
        let Some(files) = files else {
            return Self::new(Found { record: text, folder, summary, warped: None }, None);
        };
        let refused = |e: std::io::Error| {
            error::input(format!(
                "the files of a result cannot be written: {e}; check the folder of temporary files"
            ))
        };
        let kept = tempfile::Builder::new().prefix("voxalign-").tempdir().map_err(refused)?;
        let new = kept.path().join("result");
        for (name, bytes) in files {
            let path = new.join(name);
            std::fs::create_dir_all(path.parent().unwrap_or(&new)).map_err(refused)?;
            std::fs::write(path, bytes).map_err(refused)?;
        }
        // The record says where the files are.
        let quoted = |path: &Path| {
            let text = Value::from(path.display().to_string()).to_string();
            text.trim_matches('"').to_owned()
        };
        let record = text.replace(&quoted(&folder), &quoted(&new));
        Self::new(Found { record, folder: new, summary, warped: None }, Some(kept))
    }

    /// The file of a role.
    fn file(&self, role: &str) -> Option<PathBuf> {
        let outputs = self.record["outputs"].as_array()?;
        let output = outputs.iter().find(|output| output["role"] == role)?;
        Some(Path::new(output["path"].as_str()?).to_owned())
    }

    /// The same, which has to be there.
    fn needed(&self, role: &str, what: &str) -> PyResult<PathBuf> {
        self.file(role).ok_or_else(|| {
            error::VoxalignError::new_err(format!(
                "this result has no {what}: it was not asked for (`outputs`), or the job has none, or the result is \
                 too bad for it ({})",
                self.summary
            ))
        })
    }

    /// The grid of the fixed image, where the record has it, as of images in files, or the moving image was written on it.
    fn fixed_grid(&self) -> PyResult<Option<Grid>> {
        let inputs = self.record["inputs"].as_array().into_iter().flatten();
        let of_fixed = |input: &&Value| {
            ["fixed", "fixed_probability"].iter().any(|role| input["role"] == *role)
        };
        let Some(grid) = inputs.filter(of_fixed).map(|i| &i["grid"]).find(|g| !g.is_null()) else {
            let warped = self.file("resampled");
            let info = warped.map(read_info).transpose().map_err(error::of)?;
            return Ok(info.map(|info| info.grid));
        };
        let grid = GridRecord::deserialize(grid).map_err(|e| error::internal(&e.to_string()))?;
        grid.grid().map(Some).map_err(|e| error::internal(&e.to_string()))
    }

    /// Reads something of its files. They stay as long as that takes.
    fn read<T: Send + 'static>(
        &self,
        py: Python<'_>,
        read: impl FnOnce(&Teller) -> std::result::Result<T, Error> + Send + 'static,
    ) -> PyResult<T> {
        let kept = self.kept.clone();
        run(py, None, &Watcher::quiet(), move |teller| {
            let read = read(teller);
            drop(kept);
            Ok(read?)
        })
    }

    fn image(&self, py: Python<'_>, role: &str, what: &str) -> PyResult<Image> {
        let path = self.needed(role, what)?;
        let read = move |teller: &Teller| files::image_with_info(&path, teller);
        Ok(HeldImage::from(self.read(py, read)?).into())
    }
}

/// A transform file of a result.
fn map(path: &Path, teller: &Teller) -> std::result::Result<Map, Error> {
    files::transform(path, &Geometry::default(), teller)
}

#[guarded]
#[pymethods]
impl Result {
    /// The record of the run: the dict of result.json.
    #[getter]
    fn record<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        // Its own order of fields.
        py.import("json")?.getattr("loads")?.call1((&self.text,))
    }

    /// Whether the result can be used, and why.
    #[getter]
    fn verdict(&self) -> Verdict {
        Verdict { verdict: self.record["verdict"].clone(), summary: self.summary.clone() }
    }

    /// Named figures, before and after.
    #[getter]
    fn scores<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        json::to_python(py, self.record.get("figures").unwrap_or(&Value::Null))
    }

    /// The folder of the files.
    #[getter]
    fn folder<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("pathlib")?.getattr("Path")?.call1((self.folder.as_os_str(),))
    }

    /// The files that were written, by what they are; of several of one kind the last.
    #[getter]
    fn outputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        let path = py.import("pathlib")?.getattr("Path")?;
        for output in self.record["outputs"].as_array().into_iter().flatten() {
            if let (Some(role), Some(file)) = (output["role"].as_str(), output["path"].as_str()) {
                all.set_item(role, path.call1((file,))?)?;
            }
        }
        Ok(all)
    }

    /// The transform from the fixed to the moving image: the affine part after the warp, where there is one.
    #[getter]
    fn transform(&self, py: Python<'_>) -> PyResult<Transform> {
        let affine = self.needed("transform", "transform")?;
        let warp = self.file("warp");
        let map = self.read(py, move |teller| {
            let affine = map(&affine, teller)?;
            let warp = warp.map(|path| map(&path, teller)).transpose()?;
            Ok(Map::Composite(warp.into_iter().chain([affine]).collect()).simplified())
        })?;
        Ok(map.into())
    }

    /// The moving image on the grid of the fixed one. Where one of the two was on the GPU that registered them, it is there as
    /// well.
    #[getter]
    fn warped(&self, py: Python<'_>) -> PyResult<Image> {
        match &self.warped {
            Some(warped) => Ok(warped.clone().into()),
            None => self.image(py, "resampled", "warped image"),
        }
    }

    /// The Jacobian determinant of the warp, without the affine part, in each voxel of the fixed image.
    ///
    /// Where images were in memory and `outputs` left out `warped` and `jacobian`, in each voxel of the warp.
    #[getter]
    fn jacobian(&self, py: Python<'_>) -> PyResult<Image> {
        if self.file("jacobian").is_some() {
            return self.image(py, "jacobian", "Jacobian determinant");
        }
        let warp = self.needed("warp", "warp")?;
        let fixed = self.fixed_grid()?;
        let image = self.read(py, move |teller| {
            let Map::Displacement(field) = map(&warp, teller)? else {
                return Err(Error::Internal("the warp is no field".into()));
            };
            let device = Cpu::new(Some(rayon::current_num_threads()))?;
            let field = field.into_field();
            let values = jacobian_determinants(&device, &field)?;
            let jacobian = Volume::new(field.grid().clone(), values)?;
            Ok(match fixed {
                Some(fixed) if jacobian.grid().parts_of(&fixed).is_ok() => {
                    jacobian.averaged_on(&fixed)?.into_owned()
                }
                _ => jacobian,
            })
        })?;
        Ok(HeldImage::from(image).into())
    }

    /// The report, one page of HTML that opens offline.
    fn report(&self) -> PyResult<String> {
        let path = self.needed("report", "report")?;
        std::fs::read_to_string(&path).map_err(|e| error::input(text!("'{}': {e}", path.display())))
    }

    /// The verdict and the first pictures of the report, for notebooks.
    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("voxalign._notebook")?.getattr("pictures")?.call1((slf,))
    }

    fn __copy__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __deepcopy__(slf: Py<Self>, _memo: &Bound<'_, PyAny>) -> Py<Self> {
        // Nobody can change it.
        slf
    }

    /// What it is pickled as: the record, and the files, too, where these go with the result.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let files = match &self.kept {
            None => None,
            Some(_) => {
                let all = py.detach(|| files_within(&self.folder));
                let all =
                    all.map_err(|e| error::input(text!("'{}': {e}", self.folder.display())))?;
                Some(pickled::files(py, all)?)
            }
        };
        let folder = self.folder.as_os_str();
        pickled::made_by(py, "_result", (&self.text, &self.summary, folder, files))
    }

    fn __repr__(&self) -> String {
        let program = self.record["program"].as_str().unwrap_or("voxalign");
        format!("<result of {program}: {}>", self.summary)
    }
}

/// All files of a folder, by their names in it.
fn files_within(folder: &Path) -> std::io::Result<Vec<(String, Vec<u8>)>> {
    let mut all = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(folder).unwrap_or(&path).to_string_lossy().into_owned();
            all.push((name, std::fs::read(&path)?));
        }
    }
    Ok(all)
}

/// Whether a result can be used, and why: true or false where that is asked.
#[pyclass(frozen, module = "voxalign", weakref)]
pub(crate) struct Verdict {
    verdict: Value,
    summary: String,
}

impl Verdict {
    /// Of a record.
    pub(crate) fn new(verdict: Value, summary: String) -> Self {
        Self { verdict, summary }
    }

    fn is_good(&self) -> bool {
        self.verdict["good"] == true
    }
}

#[guarded]
#[pymethods]
impl Verdict {
    fn __bool__(&self) -> bool {
        self.is_good()
    }

    /// Whether the result can be used.
    #[getter]
    fn good(&self) -> bool {
        self.is_good()
    }

    /// What was checked, each with its value and its bound.
    #[getter]
    fn checks<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        json::to_python(py, &self.verdict["checks"])
    }

    /// What no check can see.
    #[getter]
    fn remarks<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let none = Value::Array(Vec::new());
        json::to_python(py, self.verdict.get("remarks").unwrap_or(&none))
    }

    fn __copy__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __deepcopy__(slf: Py<Self>, _memo: &Bound<'_, PyAny>) -> Py<Self> {
        // Nobody can change it.
        slf
    }

    /// What it is pickled as.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let verdict = json::to_python(py, &self.verdict)?;
        pickled::made_by(py, "_verdict", (verdict, &self.summary))
    }

    fn __str__(&self) -> &str {
        &self.summary
    }

    fn __repr__(&self) -> String {
        format!("<verdict {}>", self.summary)
    }
}
