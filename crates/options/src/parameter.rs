//! Parameters and their declared properties.

use crate::OptionError;
use serde_json::Value as Json;

/// What is declared of a parameter.
#[derive(Debug, Clone)]
pub struct Parameter {
    /// Its name, words joined by `_`, as in files of options and records; at the command line they are joined by `-`.
    pub name: &'static str,
    /// What it is, for help: the first paragraph of the field's documentation.
    pub help: &'static str,
    /// What stands for its value in help.
    pub unit: &'static str,
    /// The default as it is typed, or in words.
    pub default: String,
    /// The default of a switch.
    pub switch: Option<bool>,
    /// The heading under which it is listed, where it is not that of its neighbours.
    pub heading: &'static str,
    /// Names and summaries of its values, where there are few.
    pub alternatives: Vec<(&'static str, &'static str)>,
    /// Whether values may begin with a hyphen and be no number.
    pub hyphens: bool,
    /// Whether values may be negative numbers.
    pub negative: bool,
    /// Whether it is a list, with commas between its values.
    pub list: bool,
    /// The value as it is typed, from a text that stands for it; what it should be otherwise.
    pub parse: fn(&str) -> Result<String, String>,
    /// The value as data, from what is typed.
    pub json: fn(&str) -> Json,
}

/// A struct whose fields are parameters.
///
/// It is derived, with [`Default`]. Attributes of a field: `#[parameter(default = VALUE, unit = "MM", above = A, least = A, most = B, what =
/// "number of voxels", says = THE_DEFAULT_IN_WORDS, heading = "Method", remedy = "give ...")]`; `#[parameter(flatten)]` takes the parameters of a struct in, `#[parameter(skip)]`
/// leaves a field out of what can be said.
pub trait Parameters: Clone + Default + Send + Sync + 'static {
    /// What is declared of all fields, with the defaults of `self`.
    fn parameters(&self) -> Vec<Parameter>;

    /// The value of a parameter as text.
    fn get(&self, name: &str) -> Option<String>;

    /// Sets a parameter by text; whether there is one of that name.
    ///
    /// # Errors
    /// [`OptionError::Value`] for a text that is no value of it.
    fn set(&mut self, name: &str, text: &str) -> Result<bool, OptionError>;

    /// Checks the ranges of all parameters.
    ///
    /// # Errors
    /// [`OptionError::Value`] for the first one out of its range.
    fn check(&self) -> Result<(), OptionError>;

    /// The parameters as data, by their names.
    #[must_use]
    fn as_json(&self) -> serde_json::Map<String, Json> {
        let of =
            |p: Parameter| (p.name.to_owned(), (p.json)(&self.get(p.name).unwrap_or_default()));
        self.parameters().into_iter().map(of).collect()
    }
}
