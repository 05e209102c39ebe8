//! Options whose values the library lists.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use voxalign_register::Choice;

/// As [`choice`], of the alternatives that serve a purpose.
pub fn choice_of<T: Choice>(serves: fn(&T) -> bool) -> impl TypedValueParser<Value = T> {
    let known = T::ALL.iter().filter(|c| serves(c));
    let known = known.map(|c| PossibleValue::new(c.name()).help(c.summary()));
    PossibleValuesParser::new(known)
        .try_map(|name| T::named(&name).ok_or_else(|| format!("'{name}' is not known")))
}

/// The parser of an option that takes one of the alternatives, with their descriptions for the help.
pub fn choice<T: Choice>() -> impl TypedValueParser<Value = T> {
    choice_of(|_| true)
}
