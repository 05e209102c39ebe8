//! Descriptors of the commands for pipelines, in the format of Boutiques: `python/voxalign/descriptors/COMMAND.json`, one for
//! each command that works on files, written from the definition of the command line as the pages in `docs/` are.
//! `VOXALIGN_WRITE_DOCS=1 cargo test -p voxalign-cli --lib descriptors` writes them anew.

use crate::commands::Cli;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, Command, CommandFactory};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use voxalign_jobs::results::{self, ResultFile};
use voxalign_options::declared::{
    is_path, is_repeated, key_of, placeholder, said, takes_several, takes_values, values,
};

/// The commands that have one.
const COMMANDS: [&str; 16] = [
    "affine", "deform", "elastic", "anatomy", "atlas", "drr", "pose", "segment", "stack",
    "surface", "apply", "invert", "compose", "compare", "info", "convert",
];

/// What is of no use in a pipeline.
const LEFT_OUT: [&str; 3] = ["help", "version", "dry_run"];

/// Exit codes, as `voxalign --help` has them; 0 is success.
const EXIT_CODES: [(u8, &str); 5] = [
    (1, "Done, but the verdict is bad: look at the report before using the result"),
    (2, "Bad input or options, or no space or memory left; no result was written"),
    (
        3,
        "Internal error: a defect of the program, of a GPU, or of the connection of several processes",
    ),
    (4, "Standard output took no more; files that were written are complete"),
    (130, "Stopped by Ctrl-C or SIGTERM; no result was written"),
];

/// Texts that some options take and others do not: those that take none but numbers are numbers.
const WORDS: [&str; 12] =
    ["x", "auto", "none", "nan", "all", "1GiB", "1:1", "1x1x1", "1,1", "2,1", "1,2", "1,1,1"];
const WHOLE: [&str; 7] = ["0", "1", "2", "3", "10", "100", "-1"];
const BROKEN: [&str; 5] = ["0.5", "1.5", "2.5", "10.5", "-0.5"];

/// Whether the option of a command takes a text.
fn takes(command: &Command, argument: &Arg, text: &str) -> bool {
    let Some(long) = argument.get_long() else { return false };
    let typed = [command.get_name().to_owned(), format!("--{long}={text}")];
    match command.clone().try_get_matches_from(typed) {
        Ok(_) => true,
        Err(e) => !matches!(e.kind(), ErrorKind::ValueValidation | ErrorKind::InvalidValue),
    }
}

/// Whether the values of an option are numbers, and whether these are whole.
fn number(command: &Command, argument: &Arg) -> Option<bool> {
    let any = |texts: &[&str]| texts.iter().any(|text| takes(command, argument, text));
    let has_names = placeholder(argument).contains('|') || !values(argument).is_empty();
    let split = argument.get_value_delimiter().is_some();
    // A list of them takes commas.
    let words = WORDS.iter().filter(|word| !(split && word.contains(',')));
    let is_number = !has_names
        && !is_path(argument)
        && !words.into_iter().any(|word| takes(command, argument, word))
        && (any(&WHOLE) || any(&BROKEN));
    is_number.then(|| !any(&BROKEN))
}

/// The key that stands for an input in a command line.
fn value_key(id: &str) -> String {
    format!("[{}]", id.to_uppercase())
}

/// Whether an argument has to be given.
fn is_required(argument: &Arg) -> bool {
    let is_empty = argument.get_default_values().iter().any(|v| v.is_empty());
    let has_place = argument.is_positional() || argument.get_id() == "output";
    argument.is_required_set() || has_place && is_empty
}

/// An argument that turns off what another one is the default of.
fn is_default(argument: &Arg, command: &Command) -> bool {
    let off = format!("no_{}", key_of(argument));
    !takes_values(argument) && command.get_arguments().any(|a| key_of(a) == off)
}

/// Whether several values can follow each other.
fn is_list(argument: &Arg) -> bool {
    let follow =
        argument.is_positional() || argument.get_num_args().is_some_and(|n| n.max_values() > 1);
    takes_several(argument) && (follow || !is_repeated(argument))
}

/// Whether an option is given again for further values, or for further groups of values.
fn is_given_again(argument: &Arg) -> bool {
    let group = argument.get_num_args().is_some_and(|n| n.min_values() > 1);
    matches!(argument.get_action(), ArgAction::Append) && group
        || is_repeated(argument) && !is_list(argument)
}

/// An input. Where an option is given again for each value, it is what separates values; what is given again for each of several
/// groups of values is one group to Boutiques. `repeated` among what is beyond that format names both.
fn input(command: &Command, argument: &Arg) -> Value {
    let id = key_of(argument);
    let (help, default) = said(argument);
    let counts = argument.get_num_args().unwrap_or_default();
    let mut input = Map::new();
    let mut put = |key: &str, value: Value| input.insert(key.to_owned(), value);
    let default = default.map_or_else(String::new, |d| format!(" [default: {d}]"));
    put("id", json!(id));
    put("name", json!(id.replace('_', " ")));
    put("description", json!(help + &default));
    put("value-key", json!(value_key(&id)));
    put("optional", json!(!is_required(argument)));
    if let Some(long) = argument.get_long() {
        put("command-line-flag", json!(format!("--{long}")));
    }
    let is_output = id == "output" || placeholder(argument) == "DIR";
    match () {
        () if !takes_values(argument) => _ = put("type", json!("Flag")),
        () if is_path(argument) && !is_output => _ = put("type", json!("File")),
        () => match number(command, argument) {
            Some(is_whole) => {
                put("type", json!("Number"));
                put("integer", json!(is_whole));
            }
            None => _ = put("type", json!("String")),
        },
    }
    let known = values(argument);
    if takes_values(argument) && !known.is_empty() {
        put("value-choices", json!(known));
    }
    if is_list(argument) {
        put("list", json!(true));
        if let Some(delimiter) = argument.get_value_delimiter() {
            put("list-separator", json!(delimiter.to_string()));
        } else if counts.min_values() > 1 {
            put("min-list-entries", json!(counts.min_values()));
            put("max-list-entries", json!(counts.max_values()));
        }
    }
    if let Some(long) =
        argument.get_long().filter(|_| !is_list(argument) && is_given_again(argument))
    {
        put("list", json!(true));
        put("list-separator", json!(format!(" --{long} ")));
    }
    Value::Object(input)
}

/// An output.
fn output(of: &ResultFile, inputs: &[&Arg]) -> Value {
    // Inputs and outputs are not called the same.
    let id = match inputs.iter().any(|a| key_of(a) == of.role) {
        true => format!("{}_file", of.role),
        false => of.role.to_owned(),
    };
    let mut output = json!({
        "id": id,
        "name": id.replace('_', " "),
        "description": of.about,
        "path-template": format!("{}{}", value_key("output"), of.after),
        "optional": !of.always,
    });
    if of.is_several() {
        output["list"] = json!(true);
    }
    output
}

/// The descriptor of a command.
fn descriptor(command: &Command) -> Value {
    let name = command.get_name();
    let is_shown =
        |a: &&Arg| !a.is_hide_set() && !LEFT_OUT.contains(&&*key_of(a)) && !is_default(a, command);
    let (places, named): (Vec<_>, Vec<_>) =
        command.get_arguments().filter(is_shown).partition(|a| a.is_positional());
    // A list by its place ends where an option begins.
    let (output_place, places): (Vec<_>, Vec<_>) =
        places.into_iter().partition(|a| a.get_id() == "output");
    let all: Vec<&Arg> = match output_place.is_empty() {
        true => places.into_iter().chain(named).collect(),
        false => named.into_iter().chain(places).chain(output_place).collect(),
    };
    let keys: Vec<_> = all.iter().map(|a| value_key(&key_of(a))).collect();
    let repeated: Vec<_> = all.iter().filter(|a| is_given_again(a)).map(|a| key_of(a)).collect();
    let outputs: Vec<_> = results::of(name).iter().map(|of| output(of, &all)).collect();
    let mut descriptor = json!({
        "name": format!("voxalign_{name}"),
        "description": command.get_about().map(ToString::to_string).unwrap_or_default(),
        "author": env!("CARGO_PKG_AUTHORS"),
        "tool-version": env!("CARGO_PKG_VERSION"),
        "schema-version": "0.5",
        "command-line": format!("voxalign {name} {}", keys.join(" ")),
        "inputs": all.iter().map(|a| input(command, a)).collect::<Vec<_>>(),
        "error-codes": EXIT_CODES.map(|(code, about)| json!({"code": code, "description": about})),
        "custom": { "repeated": repeated },
    });
    if !outputs.is_empty() {
        descriptor["output-files"] = outputs.into();
    }
    descriptor
}

/// All descriptors, by their places.
fn descriptors() -> Vec<(PathBuf, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/voxalign/descriptors");
    let mut root = Cli::command();
    root.build();
    let of = |name: &&str| {
        let command = root.find_subcommand(name)?;
        Some((folder.join(format!("{name}.json")), descriptor(command)))
    };
    COMMANDS.iter().filter_map(of).collect()
}

#[test]
fn descriptors_are_those_of_the_program() {
    let all = descriptors();
    assert_eq!(all.len(), COMMANDS.len());
    for (path, descriptor) in all {
        let text = serde_json::to_string_pretty(&descriptor).unwrap() + "\n";
        crate::reference::compare(&path, &text);
    }
}

#[test]
fn types_are_those_that_options_take() {
    let all = descriptors();
    let input = |command: &str, id: &str| {
        let (_, descriptor) =
            all.iter().find(|(path, _)| path.ends_with(format!("{command}.json"))).unwrap();
        let inputs = descriptor["inputs"].as_array().unwrap();
        inputs.iter().find(|input| input["id"] == id).unwrap().clone()
    };
    let kind = |command: &str, id: &str| input(command, id)["type"].as_str().unwrap().to_owned();
    assert_eq!(kind("affine", "fixed"), "File");
    assert_eq!(kind("affine", "output"), "String");
    assert_eq!(kind("affine", "outside"), "String");
    assert_eq!(kind("affine", "wolfe"), "Number");
    assert_eq!(kind("affine", "no_report"), "Flag");
    assert_eq!(kind("affine", "device_memory"), "String");
    assert_eq!(kind("affine", "levels"), "String");
    assert_eq!(input("affine", "dof")["integer"], true);
    assert_eq!(input("affine", "wolfe")["integer"], false);
    assert_eq!(input("affine", "fixed")["optional"], false);
    assert_eq!(input("apply", "transform")["list"], true);
    assert_eq!(input("pose", "geometry")["list-separator"], " --geometry ");
    let repeated = |command: &str| {
        let of = all.iter().find(|(path, _)| path.ends_with(format!("{command}.json")));
        of.unwrap().1["custom"]["repeated"].clone()
    };
    assert_eq!(repeated("deform"), json!(["channel"]));
    assert_eq!((repeated("apply"), repeated("elastic")), (json!([]), json!(["slice"])));
    assert_eq!(input("apply", "interpolation")["value-choices"][3], "label");
}
