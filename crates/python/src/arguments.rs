//! Arguments of a call, as options of a job and what is in memory.

use crate::declared::{Declared, Kind, Parameter, Runs};
use crate::image::Image;
use crate::transform::Transform;
use crate::work::{Watcher, threads_of};
use crate::{config, error, json};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyList, PyString, PyTuple};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use voxalign_compute::cuda::gpu_of;
use voxalign_jobs::machine::{DryRun, MachineOptions};
use voxalign_jobs::options::from_json;
use voxalign_jobs::pair::HeldImage;
use voxalign_jobs::team::TeamOptions;
use voxalign_options::Text;
use voxalign_options::declared::{listed, rival};

/// A transform that was given.
#[derive(Debug, Clone)]
pub(crate) enum Link {
    /// A file, or the inverse of one, as it is written.
    Path(String),
    /// One in memory.
    Held(Arc<voxalign_image::Transform>),
}

/// What was given to a function.
pub(crate) struct Given {
    /// Options of the job by their names.
    pub(crate) options: Map<String, Value>,
    /// Images in memory.
    pub(crate) images: BTreeMap<String, HeldImage>,
    /// Transforms, where some of them are in memory.
    pub(crate) transforms: Option<Vec<Link>>,
    pub(crate) machine: MachineOptions,
    pub(crate) team: TeamOptions,
    /// The file of options that are not given by their names.
    pub(crate) config: Option<PathBuf>,
    /// Whether only what would be done is told.
    pub(crate) dry_run: bool,
    pub(crate) watcher: Watcher,
}

/// An option by its name.
fn named(name: &str) -> Text {
    Text::option(name)
}

impl Given {
    /// Of the arguments of a call.
    pub(crate) fn of(
        declared: &Declared,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let all = by_name(declared, args, kwargs)?;
        let progress = all.iter().find(|(name, _)| name == "progress").map(|(_, value)| value);
        let mut given = Self {
            options: Map::new(),
            images: BTreeMap::new(),
            transforms: None,
            machine: MachineOptions::default(),
            team: TeamOptions::default(),
            config: None,
            dry_run: false,
            watcher: Watcher::of(progress)?,
        };
        let mut ids = Vec::new();
        for (name, value) in &all {
            let Some(parameter) = declared.named(name).filter(|_| !value.is_none()) else {
                continue;
            };
            ids.push(parameter.id.clone());
            if name == "threads" {
                given.options.insert(name.clone(), threads_of(Some(value))?.into());
                continue;
            }
            given.take(declared, parameter, value)?;
        }
        if let Some(Value::String(path)) = given.options.remove("config") {
            let file = config::read(Path::new(&path), declared, &ids)?;
            for note in &file.notes {
                error::warn(args.py(), note)?;
            }
            ids.extend(file.ids);
            given.options.extend(file.options);
            given.config = Some(path.into());
        }
        check_together(declared, &ids)?;
        for parameter in declared.parameters.iter().filter(|p| p.required) {
            if !ids.contains(&parameter.id) {
                let missing = format!(" is missing: {}", lower(&parameter.help));
                return Err(error::option(named(&parameter.name).and(missing)));
            }
        }
        given.machine = given.taken(&["device", "threads"])?;
        // Of images that are used there; others are brought to the host.
        let there = given.images.iter().filter(|(name, _)| declared.stay.contains(&&***name));
        if let Some(gpu) = there.filter_map(|(_, i)| gpu_of(i.image.elsewhere()?)).next() {
            given.machine = given.machine.on_gpu(gpu).map_err(|e| error::of_options(&e))?;
        }
        // Of a job that has these among its own, they stay there.
        if declared.runs == Runs::Team {
            given.team = given.taken(&["gpus"])?;
        }
        let DryRun { dry_run } = given.taken(&["dry_run"])?;
        given.dry_run = dry_run;
        Ok(given)
    }

    /// Takes the value of a parameter.
    fn take(
        &mut self,
        declared: &Declared,
        parameter: &Parameter,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let name = &parameter.name;
        let wrong = |what: String| error::option(named(name).and(format!(" is {what}")));
        match parameter.kind {
            Kind::Image => {
                let path = json::path(value).map_err(wrong)?;
                match path {
                    Some(path) => self.options.insert(name.clone(), path.into()).map(drop),
                    None => {
                        let image =
                            Image::of_python(value).map_err(|e| prefixed(value.py(), e, name))?;
                        if !declared.stay.contains(&&**name) {
                            value.py().detach(|| image.image.bring()).map_err(error::of)?;
                        }
                        self.images.insert(name.clone(), image).map(drop)
                    }
                };
                return Ok(());
            }
            Kind::Transforms => {
                let links = links(name, value)?;
                match links.iter().any(|link| matches!(link, Link::Held(_))) {
                    true => self.transforms = Some(links),
                    false => {
                        let texts = links.into_iter().filter_map(|link| match link {
                            Link::Path(path) => Some(Value::String(path)),
                            Link::Held(_) => None,
                        });
                        let texts: Vec<_> = texts.collect();
                        let one = || texts.first().cloned().unwrap_or_default();
                        let is_list = declared.argument(parameter).is_some_and(is_list);
                        let value = if is_list { Value::Array(texts) } else { one() };
                        self.options.insert(name.clone(), value);
                    }
                }
                return Ok(());
            }
            Kind::Path | Kind::Paths => {
                check_path(value, parameter.kind == Kind::Paths).map_err(wrong)?;
            }
            Kind::Switch(_) if !value.is_instance_of::<PyBool>() => {
                return Err(json::refused(name, value, "give True or False"));
            }
            Kind::Names(ref names) if !value.is_instance_of::<PyString>() => {
                let remedy = format!("give one of {}", names.join(", "));
                return Err(json::refused(name, value, &remedy));
            }
            Kind::Integer => {
                let number = json::whole(name, Some(value), "give a whole number, 0 or more")?;
                self.options.insert(name.clone(), number.into());
                return Ok(());
            }
            _ => {}
        }
        let data = json::of_python(value).map_err(|what| wrong(format!("{what}; {ASK}")))?;
        let data = match (declared.argument(parameter), data) {
            // A list of one, where several can be given, by its one path.
            (Some(argument), data) if parameter.kind == Kind::Paths => match data {
                Value::String(_) if is_list(argument) => Value::Array(vec![data]),
                data => data,
            },
            (Some(argument), Value::Array(all)) if !is_list(argument) => joined(all),
            (Some(argument), data) => listed(argument, data),
            (None, data) => data,
        };
        self.options.insert(name.clone(), data);
        Ok(())
    }

    /// Options of how it runs, which are taken out of those of the job.
    fn taken<T: Default + Serialize + DeserializeOwned>(&mut self, names: &[&str]) -> PyResult<T> {
        let own = names.iter().filter_map(|&name| self.options.remove_entry(name)).collect();
        from_json(Value::Object(own)).map_err(|e| error::of_options(&e))
    }

    /// The job of the options.
    pub(crate) fn job<J: Default + Serialize + DeserializeOwned>(&self) -> PyResult<J> {
        from_json(Value::Object(self.options.clone())).map_err(|e| error::of_options(&e))
    }

    /// Whether anything is in memory.
    pub(crate) fn is_in_memory(&self) -> bool {
        !self.images.is_empty() || self.transforms.is_some()
    }

    /// Refuses options that are for files alone, where the call is about what is in memory.
    pub(crate) fn only(&self, used: &[&str]) -> PyResult<()> {
        match self.options.keys().find(|name| !used.contains(&name.as_str())) {
            Some(name) => Err(error::option(
                named(name).and(" is for inputs and results that are files; leave it out"),
            )),
            None => Ok(()),
        }
    }

    /// A path among the options.
    pub(crate) fn path(&self, name: &str) -> Option<&str> {
        self.options.get(name).and_then(Value::as_str)
    }
}

/// What would do where a value is of a wrong type.
const ASK: &str = "give a text, a number, or a list of them";

/// The arguments by the names of parameters.
fn by_name<'py>(
    declared: &Declared,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Vec<(String, Bound<'py, PyAny>)>> {
    let places: Vec<_> = declared.parameters.iter().filter(|p| p.positional).collect();
    if args.len() > places.len() {
        return Err(error::option(format!(
            "{}() has {} arguments by their places, and {} are given; give the others by their names",
            declared.name,
            places.len(),
            args.len()
        )));
    }
    let mut all: Vec<(String, Bound<'_, PyAny>)> =
        places.iter().zip(args.iter()).map(|(p, value)| (p.name.clone(), value)).collect();
    for (name, value) in kwargs.into_iter().flatten() {
        let name = name.cast::<PyString>()?.to_string_lossy().into_owned();
        let own = match declared.named(&name) {
            Some(parameter) => parameter.name.clone(),
            None if name == "progress" => name.clone(),
            None => return Err(error::option(unknown(declared, &name))),
        };
        if all.iter().any(|(known, _)| *known == own) {
            return Err(error::option(named(&own).and(" is given twice")));
        }
        all.push((own, value));
    }
    Ok(all)
}

/// That there is no such parameter, and the nearest one.
pub(crate) fn unknown(declared: &Declared, name: &str) -> Text {
    let names = declared.shown().map(|p| &*p.name).chain(["progress"]);
    let nearest = names
        .map(|known| (strsim::jaro_winkler(name, known), known))
        .max_by(|a, b| a.0.total_cmp(&b.0));
    let hint = match nearest {
        Some((likeness, known)) if likeness > 0.7 => {
            Text::from("did you mean ").and(named(known)).and("?")
        }
        _ => format!("help(voxalign.{}) lists them", declared.name).into(),
    };
    Text::from(format!("{}() has no argument ", declared.name)).and(named(name)).and("; ").and(hint)
}

/// Refuses what cannot be given together.
fn check_together(declared: &Declared, ids: &[String]) -> PyResult<()> {
    for parameter in declared.parameters.iter().filter(|p| ids.contains(&p.id)) {
        let Some(argument) = declared.argument(parameter) else { continue };
        let Some(other) = rival(&declared.command, argument, ids) else { continue };
        let other = declared.parameters.iter().find(|p| p.id == other.get_id().as_str());
        // Both sides of one switch are one parameter.
        let Some(other) = other.filter(|p| p.name != parameter.name) else { continue };
        let message = named(&parameter.name).and(" and ").and(named(&other.name));
        return Err(error::option(message.and(" cannot be given together; leave one out")));
    }
    Ok(())
}

/// A list of texts as one, where the command line has one; other lists as they are.
fn joined(all: Vec<Value>) -> Value {
    let texts: Option<Vec<_>> = all.iter().map(Value::as_str).collect();
    texts
        .filter(|texts| !texts.is_empty())
        .map_or(Value::Array(all.clone()), |t| t.join(",").into())
}

/// That a value is a path, or, where that is `many`, paths.
fn check_path(value: &Bound<'_, PyAny>, many: bool) -> Result<(), String> {
    let is_path = |v: &Bound<'_, PyAny>| Ok::<_, String>(json::path(v)?.is_some());
    if is_path(value)? {
        return Ok(());
    }
    let all: Vec<Bound<'_, PyAny>> = value.extract().unwrap_or_default();
    let flat = all.iter().try_fold(!all.is_empty(), |ok, v| Ok::<_, String>(ok && is_path(v)?))?;
    // What is deeper, such as channels, is for the job to look at.
    let deep =
        all.first().is_some_and(|v| v.is_instance_of::<PyList>() || v.is_instance_of::<PyTuple>());
    match many && (flat || deep) {
        true => Ok(()),
        false => Err(format!("of the type {}; give a path", json::type_name(value))),
    }
}

/// Transforms: one, or a list of them, each a path or in memory.
fn links(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Vec<Link>> {
    let link = |value: &Bound<'_, PyAny>| -> PyResult<Link> {
        if let Ok(held) = value.cast::<Transform>() {
            return Ok(Link::Held(held.get().shared()));
        }
        let wrong = |what: String| error::option(named(name).and(format!(" is {what}")));
        match json::path(value).map_err(wrong)? {
            Some(path) => Ok(Link::Path(path)),
            None => Err(wrong(format!(
                "of the type {}; give a Transform, a path, or a list of them",
                json::type_name(value)
            ))),
        }
    };
    match value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        true => value.try_iter()?.map(|v| link(&v?)).collect(),
        false => Ok(vec![link(value)?]),
    }
}

/// Whether an argument holds several values.
fn is_list(argument: &clap::Arg) -> bool {
    let many = argument.get_num_args().is_some_and(|n| n.max_values() > 1);
    many || voxalign_options::declared::is_repeated(argument)
}

/// The same exception with the name of the argument before what it says.
fn prefixed(py: Python<'_>, e: PyErr, name: &str) -> PyErr {
    match e.is_instance_of::<error::InputError>(py) {
        true => error::input(named(name).and(format!(": {}", e.value(py)))),
        false => e,
    }
}

/// A sentence that goes on.
fn lower(help: &str) -> String {
    let mut letters = help.chars();
    match letters.next() {
        Some(first) => first.to_lowercase().chain(letters).collect(),
        None => String::new(),
    }
}
