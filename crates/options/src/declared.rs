//! What is declared of the arguments of a command: their names as data, help, defaults and values.

use clap::{Arg, ArgAction, Command};
use serde_json::Value;

/// The name of an argument as data: its long name, words joined by `_`.
#[must_use]
pub fn key_of(argument: &Arg) -> String {
    argument.get_long().unwrap_or(argument.get_id().as_str()).replace('-', "_")
}

/// The help of an argument in one line, and its default.
#[must_use]
pub fn said(argument: &Arg) -> (String, Option<String>) {
    let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    match help.rsplit_once(" [default: ") {
        Some((help, default)) if default.ends_with(']') => {
            (help.to_owned(), Some(default.trim_end_matches(']').to_owned()))
        }
        _ => (help, None),
    }
}

/// The names of the values of an argument, where there are few.
#[must_use]
pub fn values(argument: &Arg) -> Vec<String> {
    let all = argument.get_possible_values();
    all.iter().filter(|v| !v.is_hide_set()).map(|v| v.get_name().to_owned()).collect()
}

/// Whether an argument takes values, and is no switch.
#[must_use]
pub fn takes_values(argument: &Arg) -> bool {
    argument.get_action().takes_values()
}

/// What stands for the values of an argument.
#[must_use]
pub fn placeholder(argument: &Arg) -> String {
    let names = argument.get_value_names().unwrap_or_default();
    names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(" ")
}

/// What stands for paths.
const PATHS: [&str; 16] = [
    "FILE",
    "IMAGE",
    "DIR",
    "LABELS",
    "FIXED",
    "MOVING",
    "WARPED",
    "OUT",
    "IN",
    "MESH",
    "CT",
    "XRAY",
    "IMAGES",
    "CHECKPOINT",
    "A B",
    "MESH|DIR",
];

/// Whether the values of an argument are paths.
#[must_use]
pub fn is_path(argument: &Arg) -> bool {
    let of = placeholder(argument);
    PATHS.contains(&&*of) || of.starts_with("FILE.") || of.ends_with(".toml")
}

/// Whether several values can be given to an argument.
#[must_use]
pub fn takes_several(argument: &Arg) -> bool {
    is_repeated(argument)
        || argument.get_value_delimiter().is_some()
        || argument.get_num_args().is_some_and(|n| n.max_values() > 1)
}

/// Whether an argument is given once for each of several values.
#[must_use]
pub fn is_repeated(argument: &Arg) -> bool {
    matches!(argument.get_action(), ArgAction::Append)
        && argument.get_value_delimiter().is_none()
        && argument.get_num_args().is_none_or(|n| n.min_values() <= 1)
}

/// A value as data for an argument: one text stands for a list of one, where several can be given.
#[must_use]
pub fn listed(argument: &Arg, value: Value) -> Value {
    match value {
        Value::String(_) if is_repeated(argument) => Value::Array(vec![value]),
        value => value,
    }
}

/// The argument of a command, among these identities, beside which an argument cannot be given.
#[must_use]
pub fn rival<'c>(command: &'c Command, argument: &Arg, among: &[String]) -> Option<&'c Arg> {
    let against = |a: &Arg, b: &Arg| {
        command.get_arg_conflicts_with(a).iter().any(|c| c.get_id() == b.get_id())
    };
    let others = among.iter().filter(|id| *id != argument.get_id().as_str());
    let mut others = others.filter_map(|id| command.get_arguments().find(|a| a.get_id() == id));
    others.find(|other| against(argument, other) || against(other, argument))
}
