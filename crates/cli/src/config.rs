//! Options from a TOML file.
//!
//! The file's keys are the long names of the options. They are turned into arguments and put
//! before those of the command line, so that there is one parser and one set of checks, and the
//! command line wins.

use crate::failure::Failure;
use crate::output::plain_words;
use clap::{Command, Parser};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What a file says.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Config {
    /// Arguments for the options.
    pub(crate) arguments: Vec<OsString>,
    /// Values of the positional arguments, by name.
    pub(crate) positionals: Vec<(String, PathBuf)>,
}

/// The arguments of the command `name` with those of a file before those that were `typed`, and the
/// file's values of positional arguments; `of` takes the arguments of that command out.
pub(crate) fn merged<Cli: Parser, A>(
    path: &Path,
    name: &str,
    typed: Vec<OsString>,
    of: impl Fn(Cli) -> Option<A>,
) -> Result<(A, Vec<(String, PathBuf)>), Failure> {
    let root = Cli::command();
    let command = root
        .find_subcommand(name)
        .ok_or_else(|| Failure::Internal(format!("the command {name} is not defined")))?;
    let config = read(path, command)?;
    let head: Vec<OsString> = typed.iter().take(2).cloned().collect();
    let parse = |rest: Vec<OsString>| match Cli::try_parse_from(head.iter().cloned().chain(rest)) {
        Ok(cli) => of(cli).ok_or_else(|| "it is not for this command".to_owned()),
        // Clap's message without its usage lines.
        Err(e) => {
            let text = plain_words(&e.to_string());
            let said = text.trim_start_matches("error: ");
            let said = said.split("\n\nUsage").next().unwrap_or(said);
            Err(said.split("\n\nFor more").next().unwrap_or(said).replace('\n', " "))
        }
    };
    // First alone, so that a bad value is blamed on the file.
    let from_file = |e: String| Failure::input(format!("'{}': {e}", path.display()));
    if !config.arguments.is_empty() {
        parse(config.arguments.clone()).map_err(from_file)?;
    }
    let rest = config.arguments.iter().chain(typed.iter().skip(2)).cloned().collect();
    Ok((parse(rest).map_err(Failure::Input)?, config.positionals))
}

/// Reads the options of `command` from a file.
fn read(path: &Path, command: &Command) -> Result<Config, Failure> {
    let text = std::fs::read_to_string(path).map_err(|e| {
        Failure::input(format!("'{}': cannot read: {e}; check the path", path.display()))
    })?;
    parse(&text, command).map_err(|e| e.at(&format!("'{}'", path.display())))
}

fn parse(text: &str, command: &Command) -> Result<Config, Failure> {
    let table: toml::Table = text.parse().map_err(|e: toml::de::Error| {
        let line =
            e.span().map_or(1, |s| text[..s.start.min(text.len())].matches('\n').count() + 1);
        Failure::input(format!("line {line} is not valid TOML: {}", e.message()))
    })?;
    let mut config = Config { arguments: Vec::new(), positionals: Vec::new() };
    for (key, value) in &table {
        let argument = command.get_arguments().find(|a| name_of(a) == Some(key.as_str()));
        let Some(argument) = argument.filter(|_| !is_reserved(key)) else {
            return Err(Failure::input(unknown(key, command)));
        };
        let bad = |asked: &str| {
            let found = found(value);
            Failure::input(format!("the value of {key} is {found}; give {asked}"))
        };
        if argument.is_positional() {
            let text = value.as_str().ok_or_else(|| bad("a path in quotes"))?;
            config.positionals.push((key.clone(), text.into()));
        } else if let Some(count) = values_of(argument) {
            let lists = lists(value, count).ok_or_else(|| {
                bad(&format!("a list of {count} values, or a list of such lists"))
            })?;
            for list in lists {
                config.arguments.push(format!("--{key}").into());
                config.arguments.extend(list.into_iter().map(OsString::from));
            }
        } else if argument.get_action().takes_values() {
            let text = scalar(value).ok_or_else(|| bad("a string, a number or a list of them"))?;
            config.arguments.push(format!("--{key}={text}").into());
        } else {
            match value.as_bool() {
                Some(true) => config.arguments.push(format!("--{key}").into()),
                // `report = false` is `--no-report`; a switch that is off is nothing to say.
                Some(false) => {
                    let opposite = format!("no-{key}");
                    let named = |a: &clap::Arg| a.get_long() == Some(opposite.as_str());
                    if command.get_arguments().any(named) {
                        config.arguments.push(format!("--{opposite}").into());
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
    use clap::{Arg, ArgAction};
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
            config.arguments.iter().map(|a| a.to_string_lossy().into_owned()).collect();
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
            Ok(config.arguments.iter().map(|a| a.to_string_lossy().into_owned()).collect())
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
        assert!(said("dof = {a = 1}").contains("give a text"));
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
                        let _ = Cli::try_parse_from(head.into_iter().chain(config.arguments));
                    }
                    Err(e) => prop_assert!(!e.to_string().is_empty()),
                }
            }
        }
    }
}
