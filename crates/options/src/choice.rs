//! Option values chosen by name: similarities, models, solvers.

use crate::{OptionError, Parameter};

/// A set of alternatives, each with one name, the same at the command line, in records and in reports.
///
/// It is derived. A name is that of the variant in lower case with hyphens, unless `#[choice(name = "...")]` says otherwise
/// (`#[choice(snake_case)]` on the enumeration for `_` instead); the summary is the first paragraph of the variant's documentation. A variant is
/// alone, or holds one struct of [`Parameters`](crate::Parameters); then there is a constant such as `GAUSSIAN` for the variant with its
/// usual ones. `#[choice(option = "...", heading = "...")]` names the option by which one is chosen, whose help is the documentation of the
/// enumeration. With `#[choice(each = each_solver)]`, `each_solver!(choice, kind => expression)` is the expression for whichever kind the
/// choice holds: `kind` is what the variant holds, or, of variants that hold nothing, the type of the variant's name in the module at hand.
pub trait Choice: Copy + PartialEq + Send + Sync + 'static {
    /// All alternatives with their usual parameters, in the order in which they are listed.
    const ALL: &'static [Self];

    /// The option that it is chosen by; empty where there is none in particular.
    const OPTION: &'static str;

    /// What the option is, for its help.
    const HELP: &'static str;

    /// The heading under which the option is listed; empty for none.
    const HEADING: &'static str;

    /// The name.
    fn name(self) -> &'static str;

    /// What it is, in one line.
    fn summary(self) -> &'static str;

    /// The alternative of a name, with its usual parameters.
    #[must_use]
    fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|c| c.name() == name)
    }

    /// The parameters of this alternative.
    fn parameters(&self) -> Vec<Parameter>;

    /// The value of a parameter as text; none where it has no such parameter.
    fn get(&self, name: &str) -> Option<String>;

    /// Sets a parameter by text; whether it has one of that name.
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
    fn as_json(&self) -> serde_json::Map<String, serde_json::Value> {
        let parameters = self.parameters();
        let of =
            |p: Parameter| (p.name.to_owned(), (p.json)(&self.get(p.name).unwrap_or_default()));
        parameters.into_iter().map(of).collect()
    }
}
