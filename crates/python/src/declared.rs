//! What is declared of a function: its parameters, with their types, defaults and help, from the options of its job.

mod text;

use crate::words::Typed;
use clap::{Arg, Args, Command};
use serde::Serialize;
use serde_json::Value;
use voxalign_jobs::machine::{ConfigFile, DryRun, MachineOptions};
use voxalign_jobs::team::TeamOptions;
use voxalign_options::declared::{
    is_path, key_of, placeholder, said, takes_several, takes_values, values,
};

/// Which options a function has beside those of its job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runs {
    /// On a device: `device` and `threads`.
    Device,
    /// On several devices: `gpus` as well.
    Team,
    /// On the host: `threads`.
    Host,
}

/// A function.
#[derive(Debug)]
pub(crate) struct Declared {
    pub(crate) name: &'static str,
    /// What it does, in one line.
    pub(crate) about: &'static str,
    /// What it gives back: a type, and what that is.
    pub(crate) gives: (&'static str, &'static str),
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) runs: Runs,
    /// The images that may stay in the memory of a GPU.
    pub(crate) stay: &'static [&'static str],
    /// The options as arguments of a command line, where it is declared which exclude each other.
    pub(crate) command: Command,
}

/// A parameter.
#[derive(Debug)]
pub(crate) struct Parameter {
    pub(crate) name: String,
    /// The identity of the argument that it is.
    pub(crate) id: String,
    pub(crate) help: String,
    /// The default in words, where there is one.
    pub(crate) default: Option<String>,
    pub(crate) kind: Kind,
    /// Whether it can be given by its place.
    pub(crate) positional: bool,
    pub(crate) required: bool,
    /// Another name.
    pub(crate) alias: Option<String>,
    /// Whether it is not shown, as in the help of the program: given, it is refused in words that say what to do instead.
    pub(crate) hidden: bool,
}

/// What values a parameter has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// True or false, with the default.
    Switch(bool),
    /// One of these names.
    Names(Vec<String>),
    /// A path.
    Path,
    /// Several paths.
    Paths,
    /// An image, in memory or as a path.
    Image,
    /// A transform, or several.
    Transforms,
    /// A whole number.
    Integer,
    /// A number, a text that stands for values, or a list of them.
    Value,
}

/// What a job has, and what it is called with.
pub(crate) struct Own {
    pub(crate) name: &'static str,
    pub(crate) runs: Runs,
    pub(crate) gives: (&'static str, &'static str),
    /// The parameters that may be images in memory.
    pub(crate) images: &'static [&'static str],
    /// Those of them that may stay in the memory of a GPU.
    pub(crate) stay: &'static [&'static str],
    /// The parameters that may be transforms in memory.
    pub(crate) transforms: &'static [&'static str],
    /// Whether it has `config`, and can tell what it would do: `dry_run`.
    pub(crate) plans: bool,
    /// The parameter that comes first, where the command line has none by its place.
    pub(crate) first: Option<&'static str>,
}

impl Declared {
    /// Of a job.
    pub(crate) fn of<J: Args + Default + Serialize>(own: &Own) -> Self {
        let mut command = J::augment_args(Command::new(own.name));
        if own.plans {
            command = DryRun::augment_args(ConfigFile::augment_args(command));
        }
        if own.runs == Runs::Team {
            command = TeamOptions::augment_args(command);
        }
        command = MachineOptions::augment_args(command);
        command.build();
        let known = serde_json::to_value(J::default()).unwrap_or_default();
        let program = voxalign_cli::command();
        let shown = program.find_subcommand(own.name);
        let mut parameters: Vec<Parameter> = Vec::new();
        let is_own = |argument: &&Arg| match argument.get_id().as_str() {
            "help" | "version" => false,
            "device" => own.runs != Runs::Host,
            _ => true,
        };
        for argument in command.get_arguments().filter(is_own) {
            let mut parameter = parameter(argument, &known, own);
            let same = |a: &&Arg| a.get_id() == argument.get_id();
            parameter.hidden =
                shown.and_then(|c| c.get_arguments().find(same)).is_some_and(Arg::is_hide_set);
            // `report` turns on what `no_report` turns off.
            match parameters.iter_mut().find(|p| p.name == parameter.name) {
                Some(same) if parameter.kind == Kind::Switch(true) => *same = parameter,
                Some(_) => {}
                None => parameters.push(parameter),
            }
        }
        let typed = typed(&command, &parameters);
        for parameter in &mut parameters {
            parameter.help = typed.spoken(&parameter.help);
            parameter.default = parameter.default.take().map(|words| typed.spoken(&words));
        }
        parameters.sort_by_key(|p| !p.positional);
        let about = voxalign_jobs::about::of(own.name).unwrap_or_default();
        let Own { name, gives, runs, stay, .. } = *own;
        Self { name, about, gives, parameters, runs, stay, command }
    }

    /// The argument that a parameter is.
    pub(crate) fn argument(&self, parameter: &Parameter) -> Option<&Arg> {
        self.command.get_arguments().find(|a| a.get_id().as_str() == parameter.id)
    }

    /// The parameters that are shown.
    pub(crate) fn shown(&self) -> impl Iterator<Item = &Parameter> {
        self.parameters.iter().filter(|p| !p.hidden)
    }

    /// The parameter of a name, also of one that is not shown.
    pub(crate) fn named(&self, name: &str) -> Option<&Parameter> {
        self.parameters.iter().find(|p| p.name == name || p.alias.as_deref() == Some(name))
    }
}

/// How parameters are called at the command line.
fn typed(command: &Command, parameters: &[Parameter]) -> Typed {
    let switches = parameters.iter().filter(|p| matches!(p.kind, Kind::Switch(_)));
    let short = command.get_arguments().filter_map(|a| Some((a.get_short()?, key_of(a))));
    Typed { switches: switches.map(|p| p.name.clone()).collect(), short: short.collect() }
}

fn parameter(argument: &Arg, known: &Value, own: &Own) -> Parameter {
    let key = key_of(argument);
    let positive = key.strip_prefix("no_").filter(|k| known.get(k).is_some());
    let name = positive.map_or_else(|| data_name(argument, &key, known), str::to_owned);
    let (help, default) = said(argument);
    let of_values = || {
        let values = argument.get_default_values().iter().filter(|v| !v.is_empty());
        values.map(|v| v.to_string_lossy().into_owned()).next()
    };
    let default = default.or_else(of_values);
    let positional = argument.is_positional() || own.first == Some(&*name);
    let is_empty = |a: &Arg| a.get_default_values().iter().any(|v| v.is_empty());
    let in_folder = name == "output" && placeholder(argument) == "DIR";
    // Where the command line has nothing by its place, what is in memory needs no file.
    let is_file = name == "output" && own.first.is_none();
    let required = (argument.is_positional() || is_file || own.first == Some(&*name))
        && (argument.is_required_set() || is_empty(argument))
        && !in_folder;
    let help = match in_folder {
        true => format!("{help}; none for one that goes with the result"),
        false => help,
    };
    let alias = argument.get_all_aliases().unwrap_or_default().first().map(|a| a.replace('-', "_"));
    let kind = match (&name, takes_values(argument)) {
        (_, false) => Kind::Switch(positive.is_some()),
        (name, _) if own.images.contains(&&**name) => Kind::Image,
        (name, _) if own.transforms.contains(&&**name) => Kind::Transforms,
        _ => kind_of(argument),
    };
    let id = argument.get_id().to_string();
    let mut made =
        Parameter { name, id, help, default, kind, positional, required, alias, hidden: false };
    if let Kind::Switch(on) = made.kind {
        made.default = Some(made.written().to_owned());
        if on {
            // The command line says what turning it off does.
            made.help = format!("False: {}", uncapitalized(&made.help));
        }
    }
    made
}

/// A sentence as it goes on after a colon.
fn uncapitalized(sentence: &str) -> String {
    let mut letters = sentence.chars();
    let first = letters.next().map(|c| c.to_ascii_lowercase());
    first.into_iter().chain(letters).collect()
}

/// The name as data, which is that of the field where the command line shows another.
fn data_name(argument: &Arg, key: &str, known: &Value) -> String {
    let id = argument.get_id().as_str();
    if known.get(key).is_none() && known.get(id).is_some() { id.to_owned() } else { key.to_owned() }
}

fn kind_of(argument: &Arg) -> Kind {
    let (known, of) = (values(argument), placeholder(argument));
    let (several, is_path) = (takes_several(argument), is_path(argument));
    match () {
        () if !known.is_empty() && !several => Kind::Names(known),
        () if is_path && several => Kind::Paths,
        () if is_path => Kind::Path,
        () if of == "N" && !several => Kind::Integer,
        () => Kind::Value,
    }
}
