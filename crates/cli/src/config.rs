//! Options from a TOML file.
//!
//! The file's keys are the long names of the options. What it says and what was typed are merged as data: the command line
//! wins, and an option of the file that cannot go with what was typed, or that it makes meaningless, is left out with a note.

use crate::args::JobArgs;
use crate::commands::Cli;
use crate::failure::Failure;
use crate::interrupt;
use crate::output;
use crate::progress::Talk;
use clap::parser::ValueSource;
use clap::{Arg, Args, Command, CommandFactory};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use voxalign_io::text;
use voxalign_jobs::options::{from_json, toml_table};
use voxalign_options::Text;
use voxalign_options::declared::{self, key_of, rival};

/// The arguments of a command line and a file.
#[derive(Debug)]
pub(crate) struct Merged<J: Args> {
    pub(crate) args: JobArgs<J>,
    pub(crate) origin: Origin,
    /// What of the file was left out because of the command line, and why.
    pub(crate) notes: Vec<String>,
}

/// Which options are from a file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Origin {
    path: PathBuf,
    /// By their names, words joined by `_`, and as the file has them.
    keys: Vec<(String, String)>,
}

impl Origin {
    /// The first option of the file that a message is about.
    fn named(&self, message: &Text) -> Option<&(String, String)> {
        message.options().find_map(|name| self.keys.iter().find(|(key, _)| key == name))
    }

    /// A failure that is about an option of the file, with the name of the file and the key.
    pub(crate) fn blame(&self, failure: Failure) -> Failure {
        match failure {
            Failure::Input(message) => Failure::Input(match self.named(&message) {
                Some((_, key)) => message
                    .clone()
                    .and(format!(" (it is the key '{key}' of '{}')", self.path.display())),
                None => message,
            }),
            other => other,
        }
    }
}

/// The identities of the arguments of a command that were typed.
fn typed_ids(root: &Command, typed: &[OsString]) -> Vec<String> {
    let Ok(matches) = root.clone().try_get_matches_from(typed) else { return Vec::new() };
    let Some((_, matches)) = matches.subcommand() else { return Vec::new() };
    let ids = matches.ids().map(|id| id.as_str());
    ids.filter(|id| {
        matches!(matches.try_contains_id(id), Ok(true))
            && matches.value_source(id) == Some(ValueSource::CommandLine)
    })
    .map(str::to_owned)
    .collect()
}

/// The argument of a key, by its name, another name, or the name of what it turns off.
fn argument_of<'c>(command: &'c Command, key: &str) -> Option<&'c Arg> {
    let is = |name: &str| name.replace('-', "_") == key;
    let named = |a: &&Arg| {
        let mut aliases = a.get_all_aliases().into_iter().flatten();
        is(&key_of(a)) || aliases.any(is)
    };
    let off = |a: &&Arg| key_of(a) == format!("no_{key}");
    let all = || command.get_arguments().filter(|a| !is_reserved(&key_of(a)));
    all().find(named).or_else(|| all().find(off))
}

/// Options that only make sense on the command line.
fn is_reserved(key: &str) -> bool {
    ["config", "help", "version"].contains(&key)
}

/// The options of a file, by their names as data, with the names that the file has.
fn read(path: &Path, command: &Command) -> Result<Map<String, Value>, Failure> {
    let at = format!("'{}'", path.display());
    let text = interrupt::reading(|| text::read(path))?;
    let table = toml_table(&text).map_err(|e| Failure::from(e).at(at.as_str()))?;
    match table.keys().find(|key| argument_of(command, &key.replace('-', "_")).is_none()) {
        Some(key) => Err(Failure::input(unknown(key, command)).at(at)),
        None => Ok(table.into_iter().map(|(key, value)| listed(command, key, value)).collect()),
    }
}

/// One text stands for a list of one, where an option is given once for each of several values.
fn listed(command: &Command, key: String, value: Value) -> (String, Value) {
    let value = match argument_of(command, &key.replace('-', "_")) {
        Some(argument) => declared::listed(argument, value),
        None => value,
    };
    (key, value)
}

/// The arguments with those of a file: what was typed is in `args` and named by `ids`; `check` refuses options that others
/// make meaningless.
pub(crate) fn merged<J>(
    path: &Path,
    name: &str,
    (args, typed): (&JobArgs<J>, &[OsString]),
    check: impl Fn(&J) -> Result<(), Failure>,
) -> Result<Merged<J>, Failure>
where
    J: Args + Default + Serialize + DeserializeOwned,
{
    let mut root = Cli::command();
    root.build();
    let command = root
        .find_subcommand(name)
        .ok_or_else(|| Failure::Internal(format!("the command {name} is not defined")))?;
    let mut table = read(path, command)?;
    let file = path.display();
    let read = |table: &Map<String, Value>| from_json::<JobArgs<J>>(Value::Object(table.clone()));
    // First alone, so that a bad value is blamed on the file.
    let alone = read(&table).map_err(|e| Failure::from(e).at(format!("'{file}'")))?;
    let ids = typed_ids(&root, typed);
    let argument = |key: &str| argument_of(command, &key.replace('-', "_"));
    let note = |key: &str, why: &str| format!("'{file}': the key '{key}' is left out: {why}");
    let mut notes = Vec::new();
    table.retain(|key, _| {
        let Some(argument) = argument(key) else { return true };
        match rival(command, argument, &ids) {
            Some(other) => {
                let name = match other.get_long() {
                    Some(long) => format!("--{long}"),
                    None => other.get_id().to_string().to_uppercase(),
                };
                notes.push(note(key, &format!("{name} is given")));
                false
            }
            None => !ids.iter().any(|id| argument.get_id() == id),
        }
    });
    let said = |of: &JobArgs<J>| match serde_json::to_value(of) {
        Ok(Value::Object(all)) => Ok(all),
        _ => Err(Failure::Internal("the options are no data".into())),
    };
    let own = said(args)?;
    loop {
        let mut all = said(&read(&table)?)?;
        for id in &ids {
            let Some(argument) = command.get_arguments().find(|a| a.get_id() == id) else {
                continue;
            };
            let key = key_of(argument);
            let key = key.strip_prefix("no_").filter(|k| own.contains_key(*k)).unwrap_or(&key);
            if let Some(value) = own.get(key) {
                all.insert(key.to_owned(), value.clone());
            }
        }
        let mut args: JobArgs<J> = serde_json::from_value(Value::Object(all))
            .map_err(|e| Failure::input(e.to_string()).at(format!("'{file}'")))?;
        args.file.config = Some(path.to_owned());
        let name = |key: &String| {
            (argument(key).map_or_else(|| key.replace('-', "_"), key_of), key.clone())
        };
        let origin = Origin { path: path.to_owned(), keys: table.keys().map(name).collect() };
        match check(&args.job) {
            Ok(()) => return Ok(Merged { args, origin, notes }),
            Err(Failure::Input(message)) => {
                let by_itself = check(&alone.job).err();
                let by_itself =
                    matches!(by_itself, Some(Failure::Input(other)) if other == message);
                match origin.named(&message).cloned() {
                    Some((_, key)) if !by_itself => {
                        let why = Failure::Input(message).to_string();
                        notes.push(note(&key, why.split("; ").next().unwrap_or(&why)));
                        table.remove(&key);
                    }
                    _ => return Err(origin.blame(Failure::Input(message))),
                }
            }
            Err(other) => return Err(other),
        }
    }
}

/// Says what of a file was left out.
pub(crate) fn say(notes: &[String], talk: Talk) {
    if talk > Talk::Quiet {
        notes.iter().for_each(|note| output::note(note));
    }
}

/// Names the key that is not known, and the nearest known one.
fn unknown(key: &str, command: &Command) -> Text {
    let usual = key.replace('_', "-").to_lowercase();
    let names = command.get_arguments().map(key_of).filter(|name| !is_reserved(name));
    let names = names.map(|name| name.replace('_', "-"));
    let nearest = names
        .map(|name| (strsim::jaro_winkler(&usual, &name), name))
        .max_by(|a, b| a.0.total_cmp(&b.0));
    let hint = match nearest {
        Some((likeness, name)) if likeness > 0.7 => format!("did you mean '{name}'?"),
        _ => format!("`voxalign {} --help` lists the options", command.get_name()),
    };
    format!("unknown key '{key}'; {hint}").into()
}
#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use proptest::prelude::*;
    use voxalign_jobs::affine::Job;

    /// The job that a file says, with nothing typed.
    fn told<J>(path: &Path, name: &str) -> Result<J, Failure>
    where
        J: Args + Default + Serialize + DeserializeOwned,
    {
        let typed = ["voxalign".into(), name.into(), "--config".into(), path.into()];
        let args = JobArgs::<J>::default();
        Ok(merged(path, name, (&args, &typed), |_| Ok(()))?.args.job)
    }

    fn affine(text: &str) -> Result<Job, Failure> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("job.toml");
        std::fs::write(&path, text).unwrap();
        told(&path, "affine")
    }

    #[test]
    fn every_kind_of_value() {
        let text = "fixed = 'a.nii'\ndof = 6\nlevels = [8, 4.5]\nreport = false\nquiet = false\n\
                    search-angles = [30, [-90, 90], '0:5']";
        let job = affine(text).unwrap();
        assert_eq!(job.paths.fixed, Path::new("a.nii"));
        assert!(!job.written.wants_report());
        let method = serde_json::to_value(&job.method).unwrap();
        assert_eq!(method["dof"], 6);
        assert_eq!(method["levels"], "8,4.5");
        assert_eq!(method["search_angles"], "-30:30,-90:90,0:5");
    }

    #[test]
    fn bad_files_say_why() {
        let said = |text: &str| affine(text).unwrap_err().to_string();
        let text = said("fixedmask = 'm'");
        assert!(text.ends_with("unknown key 'fixedmask'; did you mean 'fixed-mask'?"), "{text}");
        assert!(said("zzz = 1").contains("--help"), "{}", said("zzz = 1"));
        assert!(said("config = 'x'").contains("unknown key 'config'"));
        assert!(said("dof = 6\ndof = ").contains("line 2"), "{}", said("dof = 6\ndof = "));
        assert!(said("quiet = 3").contains("--quiet is 3"), "{}", said("quiet = 3"));
        assert!(said("dof = {a = 1}").contains("--dof is"), "{}", said("dof = {a = 1}"));
        assert!(said("[affine]\ndof = 6").contains("unknown key 'affine'"));
        assert!(said("fixed-mask = 'a'\nfixed_mask = 'b'").contains("given twice"));
    }

    /// Values of every kind of option, whole ones and what is nearly one.
    const VALUES: [&str; 28] = [
        "6",
        "8,4.5",
        "30,-90:90,0:45",
        "60,18",
        "4x100,2x50",
        "inverse:a.mat",
        "[a.mat,1]",
        "nan",
        "-1024",
        "1e308",
        "1e-320",
        "-0",
        "18446744073709551615",
        "cuda:0",
        "160x192x160",
        "ssd",
        "header",
        "auto",
        "",
        ",",
        ":",
        "x",
        "[,1]",
        "''",
        "true",
        "[[1, 2], 3]",
        "'a', 2",
        "µ…",
    ];

    /// Values that are cut and put together from others.
    fn value() -> impl Strategy<Value = String> {
        let part = (0..VALUES.len(), any::<prop::sample::Index>()).prop_map(|(i, end)| {
            let letters: Vec<char> = VALUES[i].chars().collect();
            letters[..end.index(letters.len() + 1)].iter().collect::<String>()
        });
        prop::collection::vec(part, 1..4).prop_map(|parts| parts.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        /// Whatever the values of the options are, on a command line or in a file, they are taken
        /// or there is a message; no parser of a value gives up.
        #[test]
        fn any_values(
            options in prop::collection::vec((any::<prop::sample::Index>(), value()), 1..5),
            which in any::<prop::sample::Index>(),
            cut in any::<prop::sample::Index>(),
        ) {
            let root = Cli::command();
            let commands: Vec<_> = root.get_subcommands().collect();
            let command = which.get(&commands);
            let names: Vec<_> = command.get_arguments().map(|a| a.get_long().unwrap_or(a.get_id().as_str())).collect();
            let mut words = vec!["voxalign".to_owned(), command.get_name().to_owned()];
            let mut text = String::new();
            for (option, value) in options {
                let name = option.get(&names);
                words.push(format!("--{name}={value}"));
                text.push_str(&format!("{name} = {value}\n{name}2 = '{value}'\n[{value}]\n"));
            }
            if let Err(e) = Cli::try_parse_from(words) {
                prop_assert!(!e.to_string().is_empty());
            }
            let lines: Vec<_> = text.lines().collect();
            for some in [&lines[..], &lines[..cut.index(lines.len())], &lines[..1]] {
                let folder = tempfile::tempdir().unwrap();
                let path = folder.path().join("job.toml");
                std::fs::write(&path, some.join("\n")).unwrap();
                if let Err(e) = told::<voxalign_jobs::deform::Job>(&path, "deform") {
                    prop_assert!(!e.to_string().is_empty());
                }
            }
        }
    }
}
