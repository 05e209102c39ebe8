//! Selection of labels by number, or by name from a table.

use crate::error::{Error, Result};
use serde::Deserialize;
use std::path::Path;
use voxalign_io::names::LabelNames;
use voxalign_options::text;

/// Names that a message lists.
const LISTED: usize = 20;

/// What reads a table of names.
pub(super) type Names<'a> = &'a dyn Fn(&Path) -> Result<LabelNames>;

/// A label as a file has it.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum LabelKey {
    /// Its number.
    Number(i32),
    /// Its name.
    Name(String),
}

/// One, or a list of them.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum Many<T> {
    One(T),
    List(Vec<T>),
}

impl<T> Many<T> {
    pub(super) fn list(self) -> Vec<T> {
        match self {
            Self::One(one) => vec![one],
            Self::List(all) => all,
        }
    }
}

/// The numbers of the labels that are given.
pub(super) fn numbers(
    given: Option<Many<LabelKey>>,
    table: Option<&Path>,
    names: Names<'_>,
) -> Result<Vec<i32>> {
    let given = given.map(Many::list).unwrap_or_default();
    if given.is_empty() {
        return Err(Error::input(
            "'labels' needs 'label' to select labels, such as label = [2, 41]",
        ));
    }
    let by_name = given.iter().any(|label| matches!(label, LabelKey::Name(_)));
    let known = match table {
        Some(table) if by_name => names(table)?,
        Some(_) => {
            return Err(Error::input(
                "'label_names' is for labels that are given by their names; leave it out",
            ));
        }
        None => LabelNames::new(),
    };
    let number = |label: LabelKey| match (label, table) {
        (LabelKey::Number(number), _) => Ok(number),
        (LabelKey::Name(name), None) => Err(Error::input(text!(
            "'label' is '{name}': give the numbers of labels, or name their table by 'label_names'"
        ))),
        (LabelKey::Name(name), Some(table)) => named(&name, &known, table),
    };
    given.into_iter().map(number).collect()
}

/// The label of a name; small and capital letters are the same where that is clear.
fn named(name: &str, known: &LabelNames, table: &Path) -> Result<i32> {
    let exact: Vec<i32> = known.iter().filter(|k| k.1 == name).map(|k| *k.0).collect();
    let alike = known.iter().filter(|k| k.1.to_lowercase() == name.to_lowercase());
    let found = if exact.is_empty() { alike.map(|k| *k.0).collect() } else { exact };
    match &*found {
        [one] => Ok(*one),
        [] => {
            let mut all: Vec<&str> = known.values().map(String::as_str).collect();
            all.dedup();
            let more = if all.len() > LISTED { ", ..." } else { "" };
            all.truncate(LISTED);
            Err(Error::input(text!(
                "'{}' has no label '{name}'; it has {}{more}",
                table.display(),
                all.join(", ")
            )))
        }
        several => {
            let all: Vec<_> = several.iter().map(ToString::to_string).collect();
            Err(Error::input(text!(
                "'{name}' is in '{}' the name of {}; give the numbers instead",
                table.display(),
                all.join(", ")
            )))
        }
    }
}
