//! Options from a TOML file.
//!
//! The file's keys are the long names of the options. They are turned into arguments and put
//! before those of the command line, so that there is one parser and one set of checks, and the
//! command line wins.

use crate::failure::Failure;
use crate::interrupt;
use crate::output::{self, plain_words};
use crate::progress::Talk;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, Command, Parser};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use voxalign_io::text;

/// What a file says.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Config {
    options: Vec<Given>,
    /// Values of the positional arguments, by name.
    positionals: Vec<(String, PathBuf)>,
}

/// An option of a file.
#[derive(Debug, Clone, PartialEq)]
struct Given {
    key: String,
    /// The identity of the argument that it becomes.
    argument: String,
    /// The words that it would be on a command line.
    words: Vec<OsString>,
}

/// The arguments of a command line and a file.
#[derive(Debug)]
pub(crate) struct Merged<A> {
    pub(crate) args: A,
    /// The file's values of positional arguments, by name.
    pub(crate) positionals: Vec<(String, PathBuf)>,
    pub(crate) origin: Origin,
    /// What of the file was left out because of the command line, and why.
    pub(crate) notes: Vec<String>,
}

/// Which options are from a file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Origin {
    path: PathBuf,
    keys: Vec<String>,
}

impl Origin {
    /// The first option of the file that a message is about.
    fn named(&self, message: &str) -> Option<&String> {
        let place = |key: &String| {
            let option = format!("--{key}");
            message.match_indices(&option).map(|(at, _)| at).find(|at| {
                // Not the begin of a longer name.
                let next = message[at + option.len()..].chars().next();
                next.is_none_or(|c| !c.is_ascii_alphanumeric() && c != '-')
            })
        };
        let found = self.keys.iter().filter_map(|key| Some((place(key)?, key)));
        found.min_by_key(|(at, _)| *at).map(|(_, key)| key)
    }

    /// A failure that is about an option of the file, with the name of the file and the key.
    pub(crate) fn blame(&self, failure: Failure) -> Failure {
        match failure {
            Failure::Input(message) => match self.named(&message) {
                Some(key) => Failure::Input(format!(
                    "{message} (it is the key '{key}' of '{}')",
                    self.path.display()
                )),
                None => Failure::Input(message),
            },
            other => other,
        }
    }
}

impl Config {
    fn arguments(&self) -> Vec<OsString> {
        self.options.iter().flat_map(|o| o.words.clone()).collect()
    }

    /// Leaves an option out.
    fn remove(&mut self, key: &str) {
        self.options.retain(|o| o.key != key);
        self.positionals.retain(|(name, _)| name != key);
    }

    /// Leaves out lists that were typed: one value after the other would come after the file's. What has one value
    /// overrides itself.
    fn replaced(&mut self, command: &Command, typed: &[String]) {
        let is_list = |id: &str| {
            let mut all = command.get_arguments();
            all.any(|a| a.get_id() == id && matches!(a.get_action(), ArgAction::Append))
        };
        self.options.retain(|o| !(typed.contains(&o.argument) && is_list(&o.argument)));
    }

    /// Leaves out what cannot go together with arguments that were typed; gives what, and beside which.
    fn give_way(&mut self, command: &Command, typed: &[String]) -> Vec<(String, String)> {
        let find = |id: &str| command.get_arguments().find(|a| a.get_id() == id);
        let against = |a: &Arg, b: &Arg| {
            command.get_arg_conflicts_with(a).iter().any(|c| c.get_id() == b.get_id())
        };
        let own = self.options.iter().map(|o| (&o.key, &o.argument));
        let own = own.chain(self.positionals.iter().map(|(name, _)| (name, name)));
        let mut left = Vec::new();
        for (key, id) in own {
            let Some(argument) = find(id) else { continue };
            for other in typed.iter().filter(|t| *t != id).filter_map(|t| find(t)) {
                if against(argument, other) || against(other, argument) {
                    let name = match other.get_long() {
                        Some(long) => format!("--{long}"),
                        None => other.get_id().to_string().to_uppercase(),
                    };
                    left.push((key.clone(), name));
                    break;
                }
            }
        }
        left.iter().for_each(|(key, _)| self.remove(key));
        left
    }
}

/// The message of a command line that does not parse, without its usage lines.
fn said(error: &clap::Error) -> String {
    let text = plain_words(&error.to_string());
    let said = text.trim_start_matches("error: ");
    let said = said.split("\n\nUsage").next().unwrap_or(said);
    said.split("\n\nFor more").next().unwrap_or(said).replace('\n', " ")
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

/// The arguments of the command `name` with those of a file before them; `of` takes the arguments of that command out,
/// and `check` refuses options that others make meaningless.
///
/// The command line wins: an option of the file that cannot go with what was typed, or that it makes meaningless, is
/// left out, which is noted. What is wrong with the file by itself is told with its name.
pub(crate) fn merged<Cli: Parser, A>(
    path: &Path,
    name: &str,
    typed: &[OsString],
    of: impl Fn(Cli) -> Option<A>,
    check: impl Fn(&A) -> Result<(), Failure>,
) -> Result<Merged<A>, Failure> {
    let mut root = Cli::command();
    root.build();
    let command = root
        .find_subcommand(name)
        .ok_or_else(|| Failure::Internal(format!("the command {name} is not defined")))?;
    let mut config = read(path, command)?;
    let file = path.display();
    let parse = |rest: Vec<OsString>| -> Result<Option<A>, clap::Error> {
        Cli::try_parse_from(typed.iter().take(2).cloned().chain(rest)).map(&of)
    };
    // First alone, so that a bad value is blamed on the file.
    let alone = match parse(config.arguments()) {
        Ok(alone) => alone,
        // The rest may be typed.
        Err(e) if e.kind() == ErrorKind::MissingRequiredArgument => None,
        Err(_) if config.options.is_empty() => None,
        Err(e) => return Err(Failure::input(format!("'{file}': {}", said(&e)))),
    };
    let ids = typed_ids(&root, typed);
    let note = |key: &str, why: &str| format!("'{file}': the key '{key}' is left out: {why}");
    config.replaced(command, &ids);
    let left = config.give_way(command, &ids);
    let mut notes: Vec<String> =
        left.iter().map(|(key, other)| note(key, &format!("{other} is given"))).collect();
    loop {
        let all = config.arguments().into_iter().chain(typed.iter().skip(2).cloned());
        let args = parse(all.collect()).map_err(|e| Failure::input(said(&e)))?;
        let args = args.ok_or_else(|| Failure::input("it is not for this command"))?;
        let untyped = config.options.iter().filter(|o| !ids.contains(&o.argument));
        let keys = untyped.map(|o| o.key.clone()).collect();
        let origin = Origin { path: path.to_owned(), keys };
        match check(&args) {
            Ok(()) => return Ok(Merged { args, positionals: config.positionals, origin, notes }),
            Err(Failure::Input(message)) => {
                let by_itself = alone.as_ref().and_then(|alone| check(alone).err());
                let by_itself = by_itself.is_some_and(|e| e.to_string() == message);
                match origin.named(&message).cloned() {
                    Some(key) if !by_itself => {
                        notes.push(note(&key, message.split("; ").next().unwrap_or(&message)));
                        config.remove(&key);
                    }
                    _ => return Err(origin.blame(Failure::Input(message))),
                }
            }
            Err(other) => return Err(other),
        }
    }
}

/// The arguments of a command, with those of its configuration file where one was given: `fill` takes the file's values
/// of positional arguments, where none were typed.
pub(crate) fn complete<Cli: Parser, A>(
    args: A,
    file: Option<PathBuf>,
    name: &str,
    of: impl Fn(Cli) -> Option<A>,
    check: impl Fn(&A) -> Result<(), Failure>,
    fill: impl FnOnce(&mut A, Vec<(String, PathBuf)>),
) -> Result<(A, Origin, Vec<String>), Failure> {
    let Some(path) = file else { return Ok((args, Origin::default(), Vec::new())) };
    let typed: Vec<_> = std::env::args_os().collect();
    let Merged { mut args, positionals, origin, notes } = merged(&path, name, &typed, of, check)?;
    fill(&mut args, positionals);
    Ok((args, origin, notes))
}

/// Says what of a file was left out.
pub(crate) fn say(notes: &[String], talk: Talk) {
    if talk > Talk::Quiet {
        notes.iter().for_each(|note| output::note(note));
    }
}

/// Reads the options of `command` from a file.
fn read(path: &Path, command: &Command) -> Result<Config, Failure> {
    let at = format!("'{}'", path.display());
    let text = interrupt::reading(|| text::read(path))?;
    parse(&text, command).map_err(|e| e.at(&at))
}

fn parse(text: &str, command: &Command) -> Result<Config, Failure> {
    let table: toml::Table = text.parse().map_err(|e: toml::de::Error| {
        let line =
            e.span().map_or(1, |s| text[..s.start.min(text.len())].matches('\n').count() + 1);
        Failure::input(format!("line {line} is not valid TOML: {}", e.message()))
    })?;
    let mut config = Config { options: Vec::new(), positionals: Vec::new() };
    for (key, value) in &table {
        let known = |a: &&Arg| {
            let mut aliases = a.get_all_aliases().into_iter().flatten();
            name_of(a) == Some(key.as_str()) || aliases.any(|alias| alias == key)
        };
        let argument = command.get_arguments().find(known);
        let Some(argument) = argument.filter(|_| !is_reserved(key)) else {
            return Err(Failure::input(unknown(key, command)));
        };
        let bad = |asked: &str| {
            let found = found(value);
            Failure::input(format!("the value of {key} is {found}; give {asked}"))
        };
        let mut put = |argument: &Arg, words: Vec<OsString>| {
            let argument = argument.get_id().to_string();
            config.options.push(Given { key: key.clone(), argument, words });
        };
        if argument.is_positional() {
            let several = argument.get_num_args().is_some_and(|n| n.max_values() > 1)
                || matches!(argument.get_action(), ArgAction::Append);
            let paths = match value {
                toml::Value::String(text) => Some(vec![text.clone()]),
                toml::Value::Array(all) if several => {
                    all.iter().map(|v| v.as_str().map(str::to_owned)).collect()
                }
                _ => None,
            };
            let asked =
                if several { "a path in quotes, or a list of them" } else { "a path in quotes" };
            let paths = paths.ok_or_else(|| bad(asked))?;
            config.positionals.extend(paths.into_iter().map(|p| (key.clone(), p.into())));
        } else if let Some(count) = values_of(argument) {
            let lists = lists(value, count).ok_or_else(|| {
                bad(&format!("a list of {count} values, or a list of such lists"))
            })?;
            let words = lists.into_iter().flat_map(|list| {
                std::iter::once(format!("--{key}")).chain(list).map(OsString::from)
            });
            put(argument, words.collect());
        } else if argument.get_action().takes_values() {
            // What may be given several times is, once for each value of a list.
            let all = match value {
                toml::Value::Array(all) if repeats(argument) => all.as_slice(),
                one => std::slice::from_ref(one),
            };
            let texts: Option<Vec<_>> = all.iter().map(scalar).collect();
            let texts = texts.ok_or_else(|| bad("a string, a number or a list of them"))?;
            put(argument, texts.iter().map(|text| format!("--{key}={text}").into()).collect());
        } else {
            match value.as_bool() {
                Some(true) => put(argument, vec![format!("--{key}").into()]),
                // `report = false` is `--no-report`; a switch that is off is nothing to say.
                Some(false) => {
                    let opposite = format!("no-{key}");
                    let named = |a: &&Arg| a.get_long() == Some(opposite.as_str());
                    if let Some(argument) = command.get_arguments().find(named) {
                        put(argument, vec![format!("--{opposite}").into()]);
                    }
                }
                None => return Err(bad("true or false")),
            }
        }
    }
    Ok(config)
}

/// The key of an argument.
fn name_of(argument: &clap::Arg) -> Option<&str> {
    match argument.get_long() {
        Some(long) => Some(long),
        None => argument.is_positional().then(|| argument.get_id().as_str()),
    }
}

/// Options that only make sense on the command line.
fn is_reserved(key: &str) -> bool {
    ["config", "help", "version"].contains(&key)
}

/// Whether an option is given once for each of several values.
fn repeats(argument: &Arg) -> bool {
    matches!(argument.get_action(), ArgAction::Append) && argument.get_value_delimiter().is_none()
}

/// How many values an option takes at a time, where it is more than one.
fn values_of(argument: &clap::Arg) -> Option<usize> {
    argument.get_num_args().map(|range| range.min_values()).filter(|&n| n > 1)
}

/// A list of `count` values, or several.
fn lists(value: &toml::Value, count: usize) -> Option<Vec<Vec<String>>> {
    let list = |value: &toml::Value| -> Option<Vec<String>> {
        let parts = value.as_array()?.iter().map(plain).collect::<Option<Vec<_>>>()?;
        Some(parts).filter(|p| p.len() == count)
    };
    list(value).map(|one| vec![one]).or_else(|| value.as_array()?.iter().map(list).collect())
}

/// What a value is, for messages.
fn found(value: &toml::Value) -> String {
    match value {
        toml::Value::Boolean(b) => b.to_string(),
        toml::Value::Array(_) => "a list".to_owned(),
        toml::Value::Table(_) => "a table".to_owned(),
        _ => plain(value).map_or_else(|| "a date".to_owned(), |text| format!("'{text}'")),
    }
}

/// A single value as it would be typed.
fn plain(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(s) => Some(s.clone()),
        toml::Value::Integer(i) => Some(i.to_string()),
        toml::Value::Float(f) => Some(f.to_string()),
        _ => None,
    }
}

/// A value as it would be typed: lists with commas, ranges within lists with colons.
fn scalar(value: &toml::Value) -> Option<String> {
    let list = |values: &[toml::Value], join: &str, part: fn(&toml::Value) -> Option<String>| {
        Some(values.iter().map(part).collect::<Option<Vec<_>>>()?.join(join))
    };
    fn range(value: &toml::Value) -> Option<String> {
        match value {
            toml::Value::Array(ends) => {
                Some(ends.iter().map(plain).collect::<Option<Vec<_>>>()?.join(":"))
            }
            _ => plain(value),
        }
    }
    match value {
        toml::Value::Array(values) => list(values, ",", range),
        _ => plain(value),
    }
}

/// Names the key that is not known, and the nearest known one.
fn unknown(key: &str, command: &Command) -> String {
    let usual = key.replace('_', "-").to_lowercase();
    let nearest = command
        .get_arguments()
        .filter_map(name_of)
        .filter(|name| !is_reserved(name))
        .map(|name| (strsim::jaro_winkler(&usual, name), name))
        .max_by(|a, b| a.0.total_cmp(&b.0));
    let hint = match nearest {
        Some((likeness, name)) if likeness > 0.7 => format!("did you mean '{name}'?"),
        _ => format!("`voxalign {} --help` lists the options", command.get_name()),
    };
    format!("unknown key '{key}'; {hint}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::Cli;
    use clap::CommandFactory;
    use proptest::prelude::*;

    fn command() -> Command {
        let switch = |name: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue);
        Command::new("affine")
            .arg(Arg::new("fixed"))
            .arg(Arg::new("dof").long("dof"))
            .arg(Arg::new("fixed-mask").long("fixed-mask"))
            .arg(Arg::new("search-angles").long("search-angles"))
            .arg(Arg::new("levels").long("levels"))
            .arg(Arg::new("config").long("config"))
            .arg(switch("quiet"))
            .arg(switch("report"))
            .arg(switch("no-report"))
    }

    #[test]
    fn every_kind_of_value() {
        let text = "fixed = 'a.nii'\ndof = 6\nlevels = [8, 4.5]\nreport = false\nquiet = false\n\
                    search-angles = [30, [-90, 90], '0:5']";
        let config = parse(text, &command()).unwrap();
        let mut arguments: Vec<_> =
            config.arguments().iter().map(|a| a.to_string_lossy().into_owned()).collect();
        arguments.sort();
        assert_eq!(
            arguments,
            ["--dof=6", "--levels=8,4.5", "--no-report", "--search-angles=30,-90:90,0:5"]
        );
        assert_eq!(config.positionals, [("fixed".to_owned(), PathBuf::from("a.nii"))]);
    }

    #[test]
    fn options_of_several_values() {
        let command = Command::new("x").arg(Arg::new("pair").long("pair").num_args(2));
        let words = |text: &str| {
            let config = parse(text, &command).map_err(|e| e.to_string())?;
            Ok(config.arguments().iter().map(|a| a.to_string_lossy().into_owned()).collect())
        };
        let found: Result<Vec<String>, String> = words("pair = ['a,b', 2]");
        assert_eq!(found.unwrap(), ["--pair", "a,b", "2"]);
        let found = words("pair = [['a', 2], ['c', 0.5]]");
        assert_eq!(found.unwrap(), ["--pair", "a", "2", "--pair", "c", "0.5"]);
        for bad in ["pair = 'a'", "pair = ['a']", "pair = [['a', 2], ['c']]"] {
            assert!(words(bad).unwrap_err().contains("a list of 2 values"), "{bad}");
        }
    }

    #[test]
    fn options_that_may_be_given_several_times() {
        let files = Arg::new("file").long("file").action(ArgAction::Append);
        let names = Arg::new("name").long("name").action(ArgAction::Append).value_delimiter(',');
        let command = Command::new("x").arg(files).arg(names);
        let words = |config: &Config| {
            let all = config.arguments();
            all.iter().map(|a| a.to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        let text = "file = ['a,b', 'c']\nname = ['d', 'e']";
        let mut config = parse(text, &command).unwrap();
        assert_eq!(words(&config), ["--file=a,b", "--file=c", "--name=d,e"]);
        config.replaced(&command, &["name".to_owned()]);
        assert_eq!(words(&config), ["--file=a,b", "--file=c"]);
        assert_eq!(words(&parse("file = 'a'", &command).unwrap()), ["--file=a"]);
    }

    #[test]
    fn bad_files_say_why() {
        let said = |text: &str| parse(text, &command()).unwrap_err().to_string();
        assert_eq!(
            said("fixed_mask = 'm'"),
            "unknown key 'fixed_mask'; did you mean 'fixed-mask'?"
        );
        assert!(said("zzz = 1").contains("--help"), "{}", said("zzz = 1"));
        assert!(said("config = 'x'").contains("unknown key 'config'"));
        assert!(said("dof = 6\ndof = ").contains("line 2"), "{}", said("dof = 6\ndof = "));
        assert_eq!(said("quiet = 3"), "the value of quiet is '3'; give true or false");
        assert!(said("dof = {a = 1}").contains("give a string"));
        assert!(said("[affine]\ndof = 6").contains("unknown key 'affine'"));
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
            let names: Vec<_> = command.get_arguments().filter_map(name_of).collect();
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
                match parse(&some.join("\n"), command) {
                    Ok(config) => {
                        let head = ["voxalign", command.get_name()].map(OsString::from);
                        let _ = Cli::try_parse_from(head.into_iter().chain(config.arguments()));
                    }
                    Err(e) => prop_assert!(!e.to_string().is_empty()),
                }
            }
        }
    }
}
