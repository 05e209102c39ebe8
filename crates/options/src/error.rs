//! Errors in options, as data.

use crate::Text;
use thiserror::Error;

/// An option that cannot be used as it is given.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OptionError {
    /// A value that it cannot have.
    #[error("{} is {value}; {remedy}", Text::named(.name))]
    Value {
        /// The option; what is no option of its own is named in several words, such as `kernel width`.
        name: &'static str,
        /// What was given.
        value: String,
        /// What would do.
        remedy: String,
    },
    /// It would be ignored.
    #[error("`{name}` is for `{option} = {}`{}; leave it out", .kinds[0], Self::rest(.kinds))]
    Ignored {
        /// The option.
        name: &'static str,
        /// The option that decides.
        option: &'static str,
        /// The values of that one for which it has a meaning; at least one.
        kinds: Vec<&'static str>,
    },
    /// A name that is none of the alternatives.
    #[error("`{name}` is '{value}'; expected one of {}", .known.join(", "))]
    Unknown {
        /// The option.
        name: &'static str,
        /// What was given.
        value: String,
        /// The alternatives.
        known: Vec<&'static str>,
    },
}

/// Result with [`OptionError`].
pub type Result<T, E = OptionError> = std::result::Result<T, E>;

impl OptionError {
    /// A value that an option cannot have, with what would do.
    pub fn value(name: &'static str, value: impl ToString, remedy: impl Into<String>) -> Self {
        Self::Value { name, value: value.to_string(), remedy: remedy.into() }
    }

    /// Kinds after the first one, as `, sor and cg`.
    pub(crate) fn rest(kinds: &[&str]) -> String {
        match kinds {
            [] | [_] => String::new(),
            [_, between @ .., last] => {
                let between: String = between.iter().map(|k| format!(", {k}")).collect();
                format!("{between} and {last}")
            }
        }
    }

    /// The option that it is about.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Value { name, .. } | Self::Ignored { name, .. } | Self::Unknown { name, .. } => {
                name
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_listed() {
        let said = |kinds: &[&'static str]| {
            OptionError::Ignored { name: "a", option: "b", kinds: kinds.to_vec() }.to_string()
        };
        assert_eq!(said(&["x"]), "`a` is for `b = x`; leave it out");
        assert_eq!(said(&["x", "y"]), "`a` is for `b = x` and y; leave it out");
        assert_eq!(said(&["x", "y", "z"]), "`a` is for `b = x`, y and z; leave it out");
    }
}
