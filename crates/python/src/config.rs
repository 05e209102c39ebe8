//! Options from a TOML file, for those that are not given by their names.

use crate::arguments::unknown;
use crate::declared::{Declared, Kind, Parameter};
use crate::error;
use pyo3::PyResult;
use serde_json::{Map, Value};
use std::path::Path;
use voxalign_io::text;
use voxalign_jobs::options::toml_table;
use voxalign_options::declared::{listed, rival};

/// What says how much the program prints, and in which form: nothing here.
const OF_TERMINALS: [&str; 3] = ["json", "quiet", "verbose"];

/// The options of a file.
pub(crate) struct File {
    /// By the names of parameters.
    pub(crate) options: Map<String, Value>,
    /// The identities of their arguments.
    pub(crate) ids: Vec<String>,
    /// What of it was left out, and why.
    pub(crate) notes: Vec<String>,
}

/// Reads a file; what is given by its name, or excludes an option of the file, takes precedence.
pub(crate) fn read(path: &Path, declared: &Declared, given: &[String]) -> PyResult<File> {
    let at = path.display();
    let blamed = |why: &dyn std::fmt::Display| error::option(format!("'{at}': {why}"));
    let text = text::read(path).map_err(error::of)?;
    let table = toml_table(&text).map_err(|e| blamed(&e))?;
    let mut file = File { options: Map::new(), ids: Vec::new(), notes: Vec::new() };
    for (key, value) in table {
        let name = key.replace('-', "_");
        if OF_TERMINALS.contains(&&*name) {
            continue;
        }
        let Some((parameter, value)) = meant(declared, &name, value) else {
            return Err(blamed(&unknown(declared, &name)));
        };
        if given.contains(&parameter.id) {
            continue;
        }
        let argument = declared.argument(parameter);
        if let Some(other) = argument.and_then(|a| rival(&declared.command, a, given)) {
            let other = declared.parameters.iter().find(|p| p.id == other.get_id().as_str());
            // Both sides of a switch are one parameter.
            let name = other.map_or("another option", |p| &*p.name);
            if name != parameter.name {
                file.notes.push(format!("'{at}': the key '{key}' is left out: `{name}` is given"));
            }
            continue;
        }
        if file.ids.contains(&parameter.id) {
            return Err(blamed(&format!("the key '{key}' is given twice")));
        }
        let value = argument.map_or(value.clone(), |a| listed(a, value));
        file.ids.push(parameter.id.clone());
        file.options.insert(parameter.name.clone(), value);
    }
    Ok(file)
}

/// The parameter of a key, with its value: `no_report = true` is `report = false`.
fn meant<'d>(declared: &'d Declared, name: &str, value: Value) -> Option<(&'d Parameter, Value)> {
    let of = |name: &str| declared.named(name).filter(|p| p.name != "config");
    if let Some(parameter) = of(name) {
        return Some((parameter, value));
    }
    let parameter = of(name.strip_prefix("no_")?)?;
    let off = value.as_bool().filter(|_| matches!(parameter.kind, Kind::Switch(_)))?;
    Some((parameter, Value::Bool(!off)))
}
