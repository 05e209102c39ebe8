//! How options are read and written as data: by their names, or as the text that stands for them on a command
//! line. Lists and numbers do as well where they say the same: `[60, 18]` is `"60,18"`, `[[-30, 30], 10]` `"-30:30,10"`.

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use std::fmt::Display;
use std::str::FromStr;
use voxalign_options::text;
use voxalign_options::{Choice, as_typed};

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
        let text = as_typed(&value)
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
            as_typed(&value).ok_or_else(|| D::Error::custom("give a name, or a list of names"))?;
        if all.is_empty() {
            return Ok(Vec::new());
        }
        all.split(',').map(|name| named(name.trim())).collect()
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
        let all = as_typed(&value)
            .ok_or_else(|| D::Error::custom("give a text, a number, or a list of them"))?;
        if all.is_empty() {
            return Ok(Vec::new());
        }
        all.split(',').map(|part| part.parse().map_err(D::Error::custom)).collect()
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

/// The alternative of a name.
fn named<T: Choice, E: serde::de::Error>(name: &str) -> Result<T, E> {
    T::named(name).ok_or_else(|| {
        let known: Vec<_> = T::ALL.iter().map(|c| c.name()).collect();
        E::custom(format!("'{name}' is not one of {}", known.join(", ")))
    })
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
    let mut all = known.clone();
    let mut seen: Vec<String> = Vec::new();
    for (given, value) in given {
        let mut key = given.replace('-', "_");
        let mut value = value;
        if !known.contains_key(&key) {
            // `no_report = true` is `report = false`, and an affine registration calls its similarity so.
            let positive = key.strip_prefix("no_").filter(|k| known.contains_key(*k));
            if let (Some(positive), Some(off)) = (positive, value.as_bool()) {
                (value, key) = (Value::Bool(!off), positive.to_owned());
            } else if key == "similarity" && known.contains_key("cost") {
                "cost".clone_into(&mut key);
            } else {
                let why = match OF_PROGRAMS.contains(&key.as_str()) {
                    true => "it controls how the program runs and is not part of a job",
                    false => "look at its spelling",
                };
                return Err(crate::Error::input(text!("there is no option `{key}`: {why}")));
            }
        }
        if seen.contains(&key) {
            let message = text!("`{key}` is given twice, the second time as '{given}'");
            return Err(crate::Error::input(message));
        }
        // Alone, so that what is wrong is told with its name.
        let mut alone = known.clone();
        alone.insert(key.clone(), value.clone());
        serde_json::from_value::<T>(Value::Object(alone)).map_err(|e| {
            let said = e.to_string();
            match needed(&said) {
                Some(needed) => crate::Error::input(text!("`{key}` is {value}; give {needed}")),
                None => crate::Error::input(text!("`{key}` is {value}: {said}")),
            }
        })?;
        all.insert(key.clone(), value);
        seen.push(key);
    }
    serde_json::from_value(Value::Object(all)).map_err(wrong)
}

/// What would do where data is of a wrong type, of serde's message about that.
fn needed(said: &str) -> Option<&str> {
    let wrong = said.starts_with("invalid type: ") || said.starts_with("invalid value: ");
    let (_, expected) = said.rsplit_once(", expected ").filter(|_| wrong)?;
    Some(match expected {
        "a string" => "a text",
        "a boolean" => "true or false",
        "path string" => "a path",
        "a sequence" => "a list",
        "f32" | "f64" => "a number",
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, 0 or more",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        other => other,
    })
}

/// Options that a program has beside those of its jobs.
const OF_PROGRAMS: [&str; 8] =
    ["config", "device", "threads", "gpus", "quiet", "verbose", "json", "dry_run"];

/// As [`from_json`] of a text in TOML.
///
/// # Errors
/// As there, and what is no TOML.
pub fn from_toml<T>(text: &str) -> crate::Result<T>
where
    T: Default + Serialize + DeserializeOwned,
{
    from_json(Value::Object(toml_table(text)?))
}

/// A text in TOML as data.
///
/// # Errors
/// What is no TOML, with the line.
pub fn toml_table(text: &str) -> crate::Result<Map<String, Value>> {
    let table: toml::Table = text.parse().map_err(|e: toml::de::Error| {
        let line =
            e.span().map_or(1, |s| text[..s.start.min(text.len())].matches('\n').count() + 1);
        crate::Error::input(format!("line {line} is not valid TOML: {}", e.message()))
    })?;
    Ok(table.into_iter().map(|(key, value)| (key, as_json(value))).collect())
}

/// The same in JSON; numbers that are not finite are their texts, as JSON has none.
fn as_json(value: toml::Value) -> Value {
    match value {
        toml::Value::String(text) => Value::String(text),
        toml::Value::Integer(number) => number.into(),
        toml::Value::Float(number) if number.is_finite() => number.into(),
        toml::Value::Float(number) => Value::String(number.to_string().to_lowercase()),
        toml::Value::Boolean(value) => Value::Bool(value),
        toml::Value::Datetime(date) => Value::String(date.to_string()),
        toml::Value::Array(all) => Value::Array(all.into_iter().map(as_json).collect()),
        toml::Value::Table(all) => {
            Value::Object(all.into_iter().map(|(k, v)| (k, as_json(v))).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{affine, apply, atlas, compare, compose, convert, drr, info, invert, pose, stack};

    const PAIR: &str = "fixed = 'a'\nmoving = 'b'\noutput = 'c'\n";

    fn affine(more: &str) -> crate::Result<affine::Job> {
        from_toml(&format!("{PAIR}{more}"))
    }

    #[test]
    fn what_says_the_same_is_the_same() {
        for (one, other) in [
            ("search-angles = [30, [-90, 90], 10]", "search_angles = '30,-90:90,10'"),
            ("search_steps = [60.0, 18]", "search_steps = '60,18'"),
            ("no-report = true", "report = false"),
            ("similarity = 'nmi'", "cost = 'nmi'"),
            ("outside = nan", "outside = 'nan'"),
            ("levels = [8, 4.5]", "levels = '8,4.5'"),
            ("", "report = true"),
        ] {
            // What is not a number is not itself.
            let as_said = |text: &str| serde_json::to_string(&affine(text).unwrap()).unwrap();
            assert_eq!(as_said(one), as_said(other));
        }
        let job: atlas::Job = from_toml("output = 'c'\nat = [65.0, 70]").unwrap();
        let given = job.options.regression.given.over(atlas::RegressionOptions::USUAL).unwrap();
        let at: Vec<_> = given.at.iter().map(ToString::to_string).collect();
        assert_eq!(at, ["65", "70"]);
    }

    #[test]
    fn wrong_types_are_told_with_what_would_do() {
        for (line, said) in [
            ("outputs = 3", "`outputs` is 3; give a text"),
            ("report = 'perhaps'", "`report` is \"perhaps\"; give true or false"),
            ("fixed_volume = -1", "`fixed_volume` is -1; give a whole number, 0 or more"),
            ("work = [1]", "`work` is [1]; give a path"),
        ] {
            assert_eq!(affine(line).unwrap_err().to_string(), said);
        }
    }

    #[test]
    fn jobs_of_x_ray_images_are_data() {
        let job: drr::Job = from_toml(
            "ct = 'a'\noutput = 'b'\nview = ['ap', 'pa']\nvolume = 1\nno-report = true\nregion = [1, 2, 3, 4]",
        )
        .unwrap();
        assert_eq!((job.views.presets.len(), job.report.wanted()), (2, false));
        assert_eq!(job.material.which.volume, Some(1));
        let xrays = "ct = 'a'\noutput = 'b'\nxrays = ['c', 'd']\ngeometry = ['e', 'f']\n";
        let of = |more: &str| from_toml::<pose::Job>(&format!("{xrays}{more}")).unwrap();
        assert_eq!((of("frame = 3").frame, of("frame = [1, 0]").frame), (vec![3], vec![1, 0]));
        assert_eq!(of("series = 2").material.which.series, Some("2".to_owned()));
        assert!(!of("report = false").report.wanted() && of("").report.wanted());
        // What is read is written, and read back.
        let job = of("levels = [8, 4]\npixels = 'intensity'\nonly = 3\nlabels = 'l'");
        assert_eq!(from_json::<pose::Job>(serde_json::to_value(&job).unwrap()).unwrap(), job);
    }

    #[test]
    fn jobs_without_a_verdict_are_data() {
        fn read<T>(text: &str) -> T
        where
            T: Default + Serialize + DeserializeOwned + PartialEq + std::fmt::Debug,
        {
            let job: T = from_toml(text).unwrap();
            assert_eq!(from_json::<T>(serde_json::to_value(&job).unwrap()).unwrap(), job);
            assert!(from_toml::<T>(&format!("{text}\nuotside = 1")).is_err());
            job
        }
        let chain = "transform = ['a', 'inverse:b']\noutput = 'c'\nfixed-geometry = 'd'";
        let job: compose::Job = read(chain);
        assert!(job.transforms[1].inverse && job.geometry.fixed_geometry.is_some());
        let more = "input = 'e'\noutside = -1000\npoints_from = 'fixed'\npoints-of = 'f'";
        let job: apply::Job = read(&format!("{chain}\n{more}"));
        assert_eq!((job.outside.map(|o| o.0), job.side()), (Some(-1000.0), apply::Side::Fixed));
        let job: convert::Job =
            read("inputs = ['a']\noutput = 'b'\nbids = false\ndata-type = 'i16'\nvolume = 2");
        assert_eq!((job.no_bids, job.which.volume), (true, Some(2)));
        let job: compare::Job = read("points = ['a', 'b']\npoint-convention = 'lps'\nbins = 32");
        assert_eq!((job.points.len(), job.bins), (2, Some(32)));
        read::<invert::Job>("transform = 'a'\noutput = 'b'\nmoving-geometry = 'c'");
        read::<info::Job>("files = ['a']\nheader-only = true\nseries = '3'");
    }

    #[test]
    fn what_cannot_be_is_told_with_its_name() {
        for (text, said) in [
            ("dof = 'six'", "`dof` is \"six\""),
            ("dof = 1\ndof = 2", "line 5 is not valid TOML"),
            ("cost = 'x'", "`cost` is \"x\": 'x' is not one of cr, mi"),
            ("apodise = nan", "`apodise` is \"nan\""),
            ("search-steps = '60,18'\nsearch_steps = '60,20'", "`search_steps` is given twice"),
            ("cost = 'cr'\nsimilarity = 'mi'", "`cost` is given twice"),
            ("device = 'cpu'", "no option `device`: it controls how the program runs"),
            ("doff = 6", "no option `doff`"),
            ("init = 'nowhere.tfm'", "`init` is \"nowhere.tfm\""),
        ] {
            let error = affine(text).unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
        let list = "operation = 'mean'\nlist = 'a.csv'\noutput = 'm.nii'\n";
        let job: stack::Job = from_toml(&format!("{list}weights = [1, 2]")).unwrap();
        let caller = crate::Caller::default();
        let said = crate::Job::check(&job, &caller, &crate::Silent).unwrap_err().to_string();
        assert!(said.contains("`weights`"), "{said}");
        assert!(from_toml::<stack::Job>(&format!("{list}weights = '1,,2'")).is_err());
    }

    #[test]
    fn atlases_refuse_what_the_command_line_does() {
        let said = |more: &str| {
            let job: atlas::Job = from_toml(&format!("output = 'c'\n{more}")).unwrap();
            job.options.check().unwrap_err().to_string()
        };
        for (more, part) in [
            ("spacing = 0", "`spacing`"),
            ("spacing = -1.5", "`spacing`"),
            ("rounds = 0", "`rounds`"),
            ("processes = 0", "`processes`"),
            ("regress = 'age'\nat = 3\nbandwidth = 0", "`bandwidth`"),
            ("stability = '2..3'\ncohorts = 0", "`cohorts`"),
            ("stability = '2..3'\nprocesses = 2", "`processes` is for one atlas"),
            ("stability = '2..3'\nregress = 'age'\nat = 3\nbandwidth = 1", "separate jobs"),
        ] {
            let error = said(more);
            assert!(error.contains(part), "{more}: {error}");
        }
    }
}
