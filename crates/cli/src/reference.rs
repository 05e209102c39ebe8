//! The pages of options in `docs/`, which are written from the definition of the command line: `docs/options.md` has all
//! commands, and `docs/COMMAND.toml` a configuration file for each job. `VOXALIGN_WRITE_DOCS=1 cargo test -p voxalign-cli
//! --lib reference` writes them anew.

use crate::commands::Cli;
use clap::{Arg, ArgAction, Command, CommandFactory};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use voxalign_options::declared::{placeholder, said, takes_values, values};

/// The jobs that take a configuration file, with how they are called.
const JOBS: [(&str, &str); 9] = [
    ("affine", "FIXED MOVING -o DIR"),
    ("deform", "FIXED MOVING -o DIR"),
    ("elastic", "FIXED MOVING -o DIR"),
    ("anatomy", "FIXED.toml MOVING.toml -o DIR"),
    ("atlas", "IMAGES... -o DIR"),
    ("drr", "CT -o DIR"),
    ("pose", "CT XRAY... -o DIR"),
    ("segment", "IMAGE -o DIR"),
    ("surface", "IMAGE -o MESH"),
];

/// What is only of the command line, or of every command.
const OF_ALL: [&str; 3] = ["config", "help", "version"];

/// The arguments of a command by their headings, in the order of the help.
fn by_heading(command: &Command) -> Vec<(String, Vec<&Arg>)> {
    let mut all: Vec<(String, Vec<&Arg>)> = Vec::new();
    let shown = |a: &&Arg| !a.is_hide_set() && !OF_ALL.contains(&a.get_id().as_str());
    for argument in command.get_arguments().filter(shown) {
        let heading = match argument.is_positional() {
            true => "Arguments",
            false => argument.get_help_heading().unwrap_or("Options"),
        };
        match all.iter_mut().find(|(of, _)| of == heading) {
            Some((_, of)) => of.push(argument),
            None => all.push((heading.to_owned(), vec![argument])),
        }
    }
    all
}

/// A text in lines of a comment.
fn comment(text: &str) -> String {
    let mut out = String::new();
    let mut line = String::from("#");
    for word in text.split(' ') {
        if line.len() + word.len() + 1 > 110 {
            out += &line;
            out.push('\n');
            line = String::from("#");
        }
        line.push(' ');
        line += word;
    }
    out + &line + "\n"
}

/// A value as an example in a file.
fn example(argument: &Arg, default: Option<&str>) -> String {
    if !takes_values(argument) {
        return "false".to_owned();
    }
    let plain = |text: &str| text.parse::<f64>().is_ok() || text == "true" || text == "false";
    let quoted = |text: &str| if plain(text) { text.to_owned() } else { format!("\"{text}\"") };
    // Of the first kind, where it depends on that.
    let first = default.and_then(|d| d.split(';').next());
    let first = first.map(|d| d.split_once(": ").map_or(d, |(_, default)| default));
    let usual = first.and_then(|d| d.split(' ').next().map(|d| d.trim_end_matches(',')));
    let several = argument.get_num_args().is_some_and(|n| n.min_values() > 1)
        || (matches!(argument.get_action(), ArgAction::Append)
            && argument.get_value_delimiter().is_none());
    let known = values(argument);
    if several {
        let names = placeholder(argument);
        let all: Vec<_> = names.split(' ').map(|name| format!("\"{name}\"")).collect();
        return format!("[{}]", all.join(", "));
    }
    match usual {
        Some(usual) if known.is_empty() && default == Some(usual) => quoted(usual),
        Some(usual) if known.iter().any(|k| k == usual) => quoted(usual),
        _ => match known.first() {
            Some(first) => quoted(first),
            None => format!("\"{}\"", placeholder(argument)),
        },
    }
}

/// A configuration file with every option of a job.
fn toml(command: &Command, call: &str) -> String {
    let name = command.get_name();
    let mut out = comment(&format!(
        "Every option of `voxalign {name}`. Keys are the long names of the options; the command line takes precedence. \
         Paths are relative to the current folder. Uncomment what you want to set; everything else keeps its default."
    ));
    let _ = write!(out, "#\n#     voxalign {name} --config docs/{name}.toml {call}\n");
    for (heading, arguments) in by_heading(command) {
        let _ = write!(out, "\n# ---- {heading} ----\n");
        for argument in arguments {
            let key = argument.get_long().unwrap_or(argument.get_id().as_str());
            let (help, default) = said(argument);
            let known = values(argument);
            out.push('\n');
            out += &comment(&help);
            if !known.is_empty() {
                out += &comment(&format!("One of {}.", known.join(", ")));
            }
            if let Some(default) = &default {
                out += &comment(&format!("Default: {default}."));
            }
            let _ = writeln!(out, "# {key} = {}", example(argument, default.as_deref()));
        }
    }
    out
}

/// A text within a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}

/// The page with all commands.
fn page(root: &Command) -> String {
    let mut out = String::from(
        "# Options\n\nAll commands with their options, as shown by `voxalign COMMAND --help`. In configuration files \
         (`--config`), in records and in the library, options have the same names, with `_` between words.\n",
    );
    for command in root.get_subcommands().filter(|c| c.get_name() != "help") {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let _ = write!(out, "\n## {}\n\n{about}.\n", command.get_name());
        for (heading, arguments) in by_heading(command) {
            let _ = write!(
                out,
                "\n### {heading}\n\n| option | description | values | default |\n|---|---|---|---|\n"
            );
            for argument in arguments {
                let (help, default) = said(argument);
                let known = values(argument);
                let of = placeholder(argument);
                let name = match (argument.get_long(), argument.get_short()) {
                    (Some(long), Some(short)) => format!("`-{short}`, `--{long}`"),
                    (Some(long), None) => format!("`--{long}`"),
                    (None, _) => format!("`{of}`"),
                };
                let values = match (takes_values(argument), known.is_empty()) {
                    (false, _) => String::new(),
                    (true, true) => format!("`{of}`"),
                    (true, false) => known.join(", "),
                };
                let default = default.unwrap_or_default();
                let _ = writeln!(
                    out,
                    "| {name} | {} | {} | {} |",
                    cell(&help),
                    cell(&values),
                    cell(&default)
                );
            }
        }
    }
    out
}

/// All pages, by their places.
fn pages() -> Vec<(PathBuf, String)> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut root = Cli::command();
    root.build();
    let of_job = |(name, call): &(&str, &str)| {
        let command = root.find_subcommand(name)?;
        Some((docs.join(format!("{name}.toml")), toml(command, call)))
    };
    let mut all: Vec<_> = JOBS.iter().filter_map(of_job).collect();
    all.push((docs.join("options.md"), page(&root)));
    all
}

/// That a file is what it would be written as now; it is, where `VOXALIGN_WRITE_DOCS` says so.
pub(crate) fn compare(path: &std::path::Path, text: &str) {
    if std::env::var_os("VOXALIGN_WRITE_DOCS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    let path = path.display();
    assert!(found == text, "{path} is out of date: regenerate it with VOXALIGN_WRITE_DOCS=1");
}

#[test]
fn the_pages_of_options_are_those_of_the_program() {
    let pages = pages();
    assert_eq!(pages.len(), JOBS.len() + 1);
    for (path, text) in pages {
        compare(&path, &text);
    }
}
