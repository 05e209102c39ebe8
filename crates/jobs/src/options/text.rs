//! How options are read and written as data: by their names, or as the text that stands for them on a command
//! line. Lists and numbers do as well where they say the same: `[60, 18]` is `"60,18"`.

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use std::fmt::Display;
use std::str::FromStr;
use voxalign_register::Choice;

/// Alternatives by their names.
pub(crate) mod by_name {
    use super::*;

    pub(crate) fn serialize<T: Choice, S: Serializer>(
        value: &Option<T>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        value.map(Choice::name).serialize(to)
    }

    pub(crate) fn deserialize<'de, T: Choice, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<T>, D::Error> {
        let Some(name) = Option::<String>::deserialize(from)? else { return Ok(None) };
        T::named(&name).map(Some).ok_or_else(|| {
            let known: Vec<_> = T::ALL.iter().map(|c| c.name()).collect();
            D::Error::custom(format!("'{name}' is none of {}", known.join(", ")))
        })
    }
}

/// Values that have a text, as it is typed.
pub(crate) mod as_text {
    use super::*;

    pub(crate) fn serialize<T: Display, S: Serializer>(
        value: &Option<T>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        value.as_ref().map(ToString::to_string).serialize(to)
    }

    pub(crate) fn deserialize<'de, T, D>(from: D) -> Result<Option<T>, D::Error>
    where
        T: FromStr,
        T::Err: Display,
        D: Deserializer<'de>,
    {
        let value = Value::deserialize(from)?;
        if value.is_null() {
            return Ok(None);
        }
        let text = text(&value)
            .ok_or_else(|| D::Error::custom("give a text, a number, or a list of them"))?;
        text.parse().map(Some).map_err(D::Error::custom)
    }
}

/// Several alternatives by their names.
pub(crate) mod by_names {
    use super::*;

    pub(crate) fn serialize<T: Choice, S: Serializer>(
        values: &[T],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        values.iter().map(|v| v.name()).collect::<Vec<_>>().serialize(to)
    }

    pub(crate) fn deserialize<'de, T: Choice, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<T>, D::Error> {
        let value = Value::deserialize(from)?;
        let all =
            text(&value).ok_or_else(|| D::Error::custom("give a name, or a list of names"))?;
        let named = |name: &str| {
            T::named(name.trim()).ok_or_else(|| {
                let known: Vec<_> = T::ALL.iter().map(|c| c.name()).collect();
                D::Error::custom(format!("'{name}' is none of {}", known.join(", ")))
            })
        };
        all.split(',').filter(|part| !part.is_empty()).map(named).collect()
    }
}

/// Several values that have a text.
pub(crate) mod texts {
    use super::*;

    pub(crate) fn serialize<T: Display, S: Serializer>(
        values: &[T],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        values.iter().map(ToString::to_string).collect::<Vec<_>>().serialize(to)
    }

    pub(crate) fn deserialize<'de, T, D>(from: D) -> Result<Vec<T>, D::Error>
    where
        T: FromStr,
        T::Err: Display,
        D: Deserializer<'de>,
    {
        let value = Value::deserialize(from)?;
        let all = text(&value)
            .ok_or_else(|| D::Error::custom("give a text, a number, or a list of them"))?;
        let parts = all.split(',').filter(|part| !part.is_empty());
        parts.map(|part| part.parse().map_err(D::Error::custom)).collect()
    }
}

/// A switch that is off, by the name of what it turns off: `report = false` for `no_report`.
pub(crate) mod negated {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(off: &bool, to: S) -> Result<S::Ok, S::Error> {
        (!off).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
        Ok(!bool::deserialize(from)?)
    }
}

/// What a text, a number, or a list of them is on a command line.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Array(all) => Some(all.iter().map(text).collect::<Option<Vec<_>>>()?.join(",")),
        _ => None,
    }
}

/// A job, or options, from a JSON object of their names (with `_` or `-` between words); what is unknown is
/// refused.
///
/// # Errors
/// A message that names the option and what would do.
pub fn from_json<T>(object: Value) -> crate::Result<T>
where
    T: Default + Serialize + DeserializeOwned,
{
    let wrong = |e: serde_json::Error| crate::Error::input(e.to_string());
    // All names are in what a default writes.
    let known = match serde_json::to_value(T::default()).map_err(wrong)? {
        Value::Object(known) => known,
        _ => Map::new(),
    };
    let Value::Object(given) = object else {
        return Err(crate::Error::input("options are names with values"));
    };
    let mut all = Map::new();
    for (key, value) in given {
        let mut key = key.replace('-', "_");
        // An affine registration calls it so.
        if key == "similarity" && !known.contains_key(&key) && known.contains_key("cost") {
            "cost".clone_into(&mut key);
        }
        if !known.contains_key(&key) {
            return Err(crate::Error::input(format!("there is no option `{key}`")));
        }
        all.insert(key, value);
    }
    serde_json::from_value(Value::Object(all)).map_err(wrong)
}

/// As [`from_json`] of a text in TOML.
///
/// # Errors
/// As there, and what is no TOML.
pub fn from_toml<T>(text: &str) -> crate::Result<T>
where
    T: Default + Serialize + DeserializeOwned,
{
    let table: Value = toml::from_str(text)
        .map_err(|e: toml::de::Error| crate::Error::input(e.message().to_owned()))?;
    from_json(table)
}
