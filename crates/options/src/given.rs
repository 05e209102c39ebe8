//! Values given for declared options.

use crate::{Choice, OptionError, Parameter, Parameters};
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::fmt::{self, Debug, Formatter};
use std::marker::PhantomData;

/// The word for a kind that is chosen by what it is for.
pub(crate) const AUTO: &str = "auto";

/// How declared options are said in one place, such as a job; whatever is not said otherwise is as it is declared.
pub trait UseOf<T>: 'static {
    /// The option by which a kind is chosen; empty for [`Choice::OPTION`].
    const OPTION: &'static str = "";
    /// Another name of it.
    const ALIAS: &'static str = "";
    /// What it is, for help; empty for [`Choice::HELP`].
    const HELP: &'static str = "";
    /// The heading under which all are listed; empty for that which is declared.
    const HEADING: &'static str = "";

    /// What becomes of it where none is chosen, which is said as `auto` as well; empty where that is always the same kind.
    const AUTO: &'static str = "";

    /// Whether a kind can be chosen.
    fn serves(kind: &T) -> bool {
        let _ = kind;
        true
    }

    /// Whether a parameter can be given.
    fn takes(parameter: &str) -> bool {
        let _ = parameter;
        true
    }

    /// The help of a parameter, where it is another one than is declared.
    fn help(parameter: &str) -> Option<&'static str> {
        let _ = parameter;
        None
    }

    /// The default of the option in words, where that is not the usual kind.
    fn default_in_words() -> Option<String> {
        None
    }

    /// What is usual there.
    fn usual() -> Option<T> {
        None
    }
}

/// As everything is declared.
#[derive(Debug, Clone, Copy)]
pub struct Usual;

impl<T> UseOf<T> for Usual {}

/// A declared option, in one place.
#[derive(Debug)]
pub(crate) struct Declared {
    pub(crate) parameter: Parameter,
    /// The help with the kinds that it is for.
    #[cfg_attr(
        not(feature = "clap"),
        expect(dead_code, reason = "shown on the command line only")
    )]
    pub(crate) help: String,
}

/// Values by the names of parameters, as they are typed.
pub(crate) type Values = BTreeMap<&'static str, String>;

/// Parameters of one struct that may be given.
pub struct Given<P, U = Usual> {
    pub(crate) values: Values,
    of: PhantomData<fn() -> (P, U)>,
}

/// A kind that may be chosen, and parameters that may be given to whichever is.
pub struct Chosen<K, U = Usual> {
    pub(crate) kind: Option<K>,
    pub(crate) values: Values,
    of: PhantomData<fn() -> U>,
}

impl<P: Parameters, U: UseOf<P>> Given<P, U> {
    pub(crate) fn new(values: Values) -> Self {
        Self { values, of: PhantomData }
    }

    /// The parameters that can be given.
    pub(crate) fn declared() -> Vec<Declared> {
        let all = U::usual().unwrap_or_default().parameters();
        let taken = all.into_iter().filter(|p| U::takes(p.name));
        let declared = |parameter: Parameter| {
            let help = U::help(parameter.name).unwrap_or(parameter.help).to_owned();
            Declared { parameter, help }
        };
        taken.map(declared).collect()
    }

    /// Gives a parameter.
    ///
    /// # Errors
    /// A name or value that cannot be given.
    pub fn with(mut self, name: &str, value: impl ToString) -> Result<Self, OptionError> {
        put(&mut self.values, Self::declared(), name, &value.to_string())?;
        Ok(self)
    }

    /// Whether a parameter is given.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// The name of a parameter that is given, the first one of several.
    #[must_use]
    pub fn first(&self) -> Option<&'static str> {
        self.values.keys().next().copied()
    }

    /// The parameters that are given over others.
    ///
    /// # Errors
    /// A value that cannot be; ranges are for [`Parameters::check`].
    pub fn over(&self, mut usual: P) -> Result<P, OptionError> {
        for (name, value) in &self.values {
            usual.set(name, value)?;
        }
        Ok(usual)
    }
}

impl<K: Choice, U: UseOf<K>> Chosen<K, U> {
    pub(crate) fn new(kind: Option<K>, values: Values) -> Self {
        Self { kind, values, of: PhantomData }
    }

    /// A kind, with its usual parameters but for those that are given to it.
    #[must_use]
    pub fn of(kind: K) -> Self {
        Self::new(Some(kind), Values::new())
    }

    /// The option by which the kind is chosen.
    #[must_use]
    pub fn option() -> &'static str {
        if U::OPTION.is_empty() { K::OPTION } else { U::OPTION }
    }

    /// The kinds that can be chosen.
    pub(crate) fn kinds() -> impl Iterator<Item = &'static K> {
        K::ALL.iter().filter(|kind| U::serves(kind))
    }

    /// The parameters that can be given to one of the kinds or another.
    pub(crate) fn declared() -> Vec<Declared> {
        let mut all: Vec<(Parameter, Vec<(&'static str, String)>)> = Vec::new();
        let count = Self::kinds().count();
        let usual = U::usual();
        for kind in Self::kinds() {
            let kind = usual.filter(|usual| usual.name() == kind.name()).unwrap_or(*kind);
            for parameter in kind.parameters().into_iter().filter(|p| U::takes(p.name)) {
                let is = (kind.name(), parameter.default.clone());
                match all.iter_mut().find(|(p, _)| p.name == parameter.name) {
                    Some((_, of)) => of.push(is),
                    None => all.push((parameter, vec![is])),
                }
            }
        }
        let declared = |(mut parameter, of): (Parameter, Vec<(&'static str, String)>)| {
            let mut help = U::help(parameter.name).unwrap_or(parameter.help).to_owned();
            if of.len() < count {
                let names: Vec<_> = of.iter().map(|(name, _)| *name).collect();
                help = format!("{help}; for {}", names.join(", "));
            }
            if of.iter().any(|(_, default)| *default != parameter.default) {
                parameter.default = by_value(of);
            }
            Declared { parameter, help }
        };
        all.into_iter().map(declared).collect()
    }

    /// Gives a parameter.
    ///
    /// # Errors
    /// A name or value that cannot be given.
    pub fn with(mut self, name: &str, value: impl ToString) -> Result<Self, OptionError> {
        put(&mut self.values, Self::declared(), name, &value.to_string())?;
        Ok(self)
    }

    /// The kind, where one is chosen, with its usual parameters.
    #[must_use]
    pub fn kind(&self) -> Option<K> {
        self.kind
    }

    /// Whether a parameter is given.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// The name of an option that is given: that of the kind, or the first parameter.
    #[must_use]
    pub fn first(&self) -> Option<&'static str> {
        let kind = self.kind.map(|_| Self::option());
        kind.or_else(|| self.values.keys().next().copied())
    }

    /// The chosen kind, or the usual one, with the parameters that are given.
    ///
    /// # Errors
    /// A parameter that the kind does not have, a value that cannot be; ranges are for [`Choice::check`].
    pub fn over(&self, usual: K) -> Result<K, OptionError> {
        let mut kind = match self.kind {
            Some(kind) if kind.name() != usual.name() => kind,
            _ => usual,
        };
        self.check_used(&[kind])?;
        self.tell(&mut kind)?;
        Ok(kind)
    }

    /// Tells a kind the parameters that are given, as far as it has them.
    ///
    /// # Errors
    /// A value that cannot be.
    pub fn tell(&self, kind: &mut K) -> Result<(), OptionError> {
        self.values.iter().try_for_each(|(name, value)| kind.set(name, value).map(drop))
    }

    /// Refuses parameters that none of the kinds in use has.
    ///
    /// # Errors
    /// [`OptionError::Ignored`].
    pub fn check_used(&self, used: &[K]) -> Result<(), OptionError> {
        let has = |kind: &K, name: &str| kind.get(name).is_some();
        let ignored = self.values.keys().find(|name| !used.iter().any(|kind| has(kind, name)));
        let Some(name) = ignored else { return Ok(()) };
        let kinds = Self::kinds().filter(|kind| has(kind, name)).map(|kind| kind.name()).collect();
        Err(OptionError::Ignored { name, option: Self::option(), kinds })
    }
}

/// Values with the names that have them, such as `cr, ncc: 0.1; ssd: 2`.
#[must_use]
pub fn by_value(all: impl IntoIterator<Item = (&'static str, String)>) -> String {
    let mut each: Vec<(Vec<&str>, String)> = Vec::new();
    for (name, value) in all {
        match each.iter_mut().find(|(_, known)| *known == value) {
            Some((names, _)) => names.push(name),
            None => each.push((vec![name], value)),
        }
    }
    let of = |(names, value): &(Vec<&str>, String)| format!("{}: {value}", names.join(", "));
    each.iter().map(of).collect::<Vec<_>>().join("; ")
}

/// Puts a value among those that are given.
fn put(
    values: &mut Values,
    declared: Vec<Declared>,
    name: &str,
    value: &str,
) -> Result<(), OptionError> {
    let Some(Declared { parameter: p, .. }) = declared.iter().find(|d| d.parameter.name == name)
    else {
        let known = declared.iter().map(|d| d.parameter.name).collect();
        return Err(OptionError::Unknown { name: "parameter", value: name.to_owned(), known });
    };
    let text = (p.parse)(value).map_err(|remedy| OptionError::value(p.name, value, remedy))?;
    values.insert(p.name, text);
    Ok(())
}

/// What a text, a number, or a list of them is on a command line: lists have commas, lists within them colons.
#[must_use]
pub fn as_typed(value: &Json) -> Option<String> {
    fn joined(value: &Json, between: &str) -> Option<String> {
        match value {
            Json::String(text) => Some(text.clone()),
            Json::Bool(value) => Some(value.to_string()),
            Json::Number(number) if number.is_f64() => Some(number.as_f64()?.to_string()),
            Json::Number(number) => Some(number.to_string()),
            Json::Array(all) => {
                Some(all.iter().map(|v| joined(v, ":")).collect::<Option<Vec<_>>>()?.join(between))
            }
            _ => None,
        }
    }
    joined(value, ",")
}

/// The values as data: all names, null where none is given.
fn write<M: SerializeMap>(
    map: &mut M,
    values: &Values,
    declared: Vec<Declared>,
) -> Result<(), M::Error> {
    declared.iter().try_for_each(|Declared { parameter, .. }| {
        let value = values.get(parameter.name).map(|text| (parameter.json)(text));
        map.serialize_entry(parameter.name, &value)
    })
}

/// Takes the entries out of a map that are wanted.
struct Entries<F>(F);

impl<'de, F: FnMut(&str, &Json) -> Result<bool, String>> Visitor<'de> for Entries<F> {
    type Value = ();

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("options by their names")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            let value = map.next_value::<Json>()?;
            if !value.is_null() {
                // What is not known is somebody else's.
                self.0(&key, &value).map_err(serde::de::Error::custom)?;
            }
        }
        Ok(())
    }
}

/// The value of a parameter among those that are given, from data.
fn take(
    values: &mut Values,
    declared: &[Declared],
    key: &str,
    value: &Json,
) -> Result<bool, String> {
    let name = key.replace('-', "_");
    let Some(p) = declared.iter().map(|d| &d.parameter).find(|p| p.name == name) else {
        return Ok(false);
    };
    let text = as_typed(value).ok_or("give a text, a number, or a list of them")?;
    if !p.alternatives.is_empty() && !p.alternatives.iter().any(|(known, _)| *known == text) {
        let known: Vec<_> = p.alternatives.iter().map(|(name, _)| *name).collect();
        return Err(format!("'{text}' is not one of {}", known.join(", ")));
    }
    values.insert(p.name, (p.parse)(&text)?);
    Ok(true)
}

impl<P: Parameters, U: UseOf<P>> Serialize for Given<P, U> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        write(&mut map, &self.values, Self::declared())?;
        map.end()
    }
}

impl<'de, P: Parameters, U: UseOf<P>> Deserialize<'de> for Given<P, U> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let (mut values, declared) = (Values::new(), Self::declared());
        from.deserialize_map(Entries(|key: &str, value: &Json| {
            take(&mut values, &declared, key, value)
        }))?;
        Ok(Self::new(values))
    }
}

impl<K: Choice, U: UseOf<K>> Serialize for Chosen<K, U> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        map.serialize_entry(Self::option(), &self.kind.map(Choice::name))?;
        write(&mut map, &self.values, Self::declared())?;
        map.end()
    }
}

impl<'de, K: Choice, U: UseOf<K>> Deserialize<'de> for Chosen<K, U> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let (mut kind, mut values, declared) = (None, Values::new(), Self::declared());
        from.deserialize_map(Entries(|key: &str, value: &Json| {
            if key.replace('-', "_") != Self::option() && (key != U::ALIAS || key.is_empty()) {
                return take(&mut values, &declared, key, value);
            }
            let name = value.as_str().ok_or("give a name")?;
            if name == AUTO && !U::AUTO.is_empty() {
                kind = None;
                return Ok(true);
            }
            kind = Self::kinds().find(|kind| kind.name() == name).copied();
            let known = || Self::kinds().map(|kind| kind.name()).collect::<Vec<_>>().join(", ");
            kind.map(|_| true).ok_or_else(|| format!("'{name}' is not one of {}", known()))
        }))?;
        Ok(Self::new(kind, values))
    }
}

impl<P, U> Clone for Given<P, U> {
    fn clone(&self) -> Self {
        Self { values: self.values.clone(), of: PhantomData }
    }
}

impl<P, U> Default for Given<P, U> {
    fn default() -> Self {
        Self { values: Values::new(), of: PhantomData }
    }
}

impl<P, U> PartialEq for Given<P, U> {
    fn eq(&self, other: &Self) -> bool {
        self.values == other.values
    }
}

impl<P, U> Debug for Given<P, U> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.values.fmt(f)
    }
}

impl<K: Choice, U> Clone for Chosen<K, U> {
    fn clone(&self) -> Self {
        Self { kind: self.kind, values: self.values.clone(), of: PhantomData }
    }
}

impl<K: Choice, U> Default for Chosen<K, U> {
    fn default() -> Self {
        Self { kind: None, values: Values::new(), of: PhantomData }
    }
}

impl<K: Choice, U> PartialEq for Chosen<K, U> {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind && self.values == other.values
    }
}

impl<K: Choice, U> Debug for Chosen<K, U> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let kind = self.kind.map(Choice::name);
        f.debug_tuple("Chosen").field(&kind).field(&self.values).finish()
    }
}
