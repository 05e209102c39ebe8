//! Declared options as arguments of a command line.

use crate::given::{AUTO, Declared, Values};
use crate::{Choice, Chosen, Given, Parameters, UseOf};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::{Error, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

/// A name as it is typed.
fn typed(name: &str) -> String {
    name.replace('_', "-")
}

/// The argument of a parameter.
fn argument(Declared { parameter: p, help }: Declared, heading: &'static str) -> Arg {
    let name = p.name;
    let long = match p.switch {
        Some(true) => format!("no-{}", typed(name)),
        _ => typed(name),
    };
    let arg = Arg::new(name).long(long);
    let arg = match [heading, p.heading].into_iter().find(|h| !h.is_empty()) {
        Some(heading) => arg.help_heading(heading),
        None => arg,
    };
    if p.switch.is_some() {
        return arg.help(help).action(ArgAction::SetTrue);
    }
    let arg = arg.help(match p.default.as_str() {
        "" => help,
        default => format!("{help} [default: {default}]"),
    });
    if !p.alternatives.is_empty() {
        let known = p.alternatives.iter().map(|(name, is)| PossibleValue::new(name).help(is));
        return arg.value_name(p.unit).value_parser(PossibleValuesParser::new(known));
    }
    let parse = p.parse;
    let arg = arg.value_name(p.unit);
    let arg =
        match p.list {
            // Each value by itself.
            true => arg.action(ArgAction::Append).value_delimiter(',').value_parser(
                move |text: &str| match text {
                    "" => Err("a value is missing next to a comma".to_owned()),
                    text => parse(text),
                },
            ),
            false => arg.value_parser(move |text: &str| parse(text)),
        };
    arg.allow_hyphen_values(p.hyphens).allow_negative_numbers(p.negative)
}

/// The values that were typed.
fn values(declared: Vec<Declared>, matches: &ArgMatches) -> Values {
    let given = |Declared { parameter: p, .. }: Declared| {
        if let Some(default) = p.switch {
            let turned = matches.try_get_one::<bool>(p.name).ok().flatten();
            return turned.filter(|turned| **turned).map(|_| (p.name, (!default).to_string()));
        }
        let all = matches.try_get_many::<String>(p.name).ok().flatten()?;
        Some((p.name, all.cloned().collect::<Vec<_>>().join(",")))
    };
    declared.into_iter().filter_map(given).collect()
}

impl<P: Parameters, U: UseOf<P>> Args for Given<P, U> {
    fn augment_args(command: Command) -> Command {
        command.args(Self::declared().into_iter().map(|d| argument(d, U::HEADING)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<P: Parameters, U: UseOf<P>> FromArgMatches for Given<P, U> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Ok(Self::new(values(Self::declared(), matches)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl<K: Choice, U: UseOf<K>> Args for Chosen<K, U> {
    fn augment_args(command: Command) -> Command {
        let heading = if U::HEADING.is_empty() { K::HEADING } else { U::HEADING };
        let help = if U::HELP.is_empty() { K::HELP } else { U::HELP };
        let usual = || if U::AUTO.is_empty() { U::usual().map(|k| k.name()) } else { Some(AUTO) };
        let default = U::default_in_words().or_else(|| Some(usual()?.to_owned()));
        let default = default.map_or_else(String::new, |words| format!(" [default: {words}]"));
        let auto = (!U::AUTO.is_empty()).then(|| PossibleValue::new(AUTO).help(U::AUTO));
        let known = Self::kinds().map(|k| PossibleValue::new(k.name()).help(k.summary()));
        let known = auto.into_iter().chain(known);
        let parse = |name: String| match K::named(&name) {
            None if name != AUTO => Err(format!("'{name}' is not known")),
            kind => Ok(kind),
        };
        let mut kind = Arg::new(Self::option())
            .long(typed(Self::option()))
            .help(format!("{help}{default}"))
            .value_name(Self::option().to_uppercase())
            .value_parser(PossibleValuesParser::new(known).try_map(parse));
        if !U::ALIAS.is_empty() {
            kind = kind.visible_alias(U::ALIAS);
        }
        if !heading.is_empty() {
            kind = kind.help_heading(heading);
        }
        let parameters = Self::declared().into_iter().map(|d| argument(d, heading));
        command.arg(kind).args(parameters)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<K: Choice, U: UseOf<K>> FromArgMatches for Chosen<K, U> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let kind = matches.try_get_one::<Option<K>>(Self::option());
        let kind = kind.map_err(|e| Error::raw(ErrorKind::InvalidValue, e.to_string()))?.copied();
        Ok(Self::new(kind.flatten(), values(Self::declared(), matches)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
