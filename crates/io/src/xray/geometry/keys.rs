//! Values of a table by their keys, with errors that name them.

use super::Label;
use crate::error::{Result, shorten};
use toml::{Table, Value};
use voxalign_image::Vector3;

/// How far from the world's origin anything of a view is at most, mm: a hundred metres.
pub(super) const FARTHEST: f64 = 1e5;
/// The largest angle, degrees.
const TURN: f64 = 360.0;

/// The table of a view.
pub(super) struct Keys<'a> {
    pub(super) table: &'a Table,
    pub(super) label: Label,
}

impl<'a> Keys<'a> {
    pub(super) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// An error about a value.
    fn wrong<T>(&self, key: &str, value: &Value, problem: &str, remedy: &str) -> Result<T> {
        let value = shorten(&words(value));
        Err(self.label.error(format!("'{key} = {value}' {problem}"), remedy))
    }

    /// The value of a key that has to be there.
    pub(super) fn needed(&self, key: &str, form: &str, remedy: &str) -> Result<&'a Value> {
        self.table.get(key).ok_or_else(|| {
            self.label.error(format!("{form} needs '{key}', which is missing"), remedy)
        })
    }

    pub(super) fn text(&self, key: &str) -> Result<Option<&'a str>> {
        match self.table.get(key) {
            None => Ok(None),
            Some(Value::String(text)) if !text.is_empty() => Ok(Some(text)),
            Some(other) => self.wrong(key, other, "is not a text", "put letters between quotes"),
        }
    }

    /// So many whole numbers.
    pub(super) fn counts<const N: usize>(
        &self,
        key: &str,
        least: usize,
        remedy: &str,
    ) -> Result<Option<[usize; N]>> {
        let Some(value) = self.table.get(key) else { return Ok(None) };
        let array = self.array::<N>(key, value, remedy)?;
        let mut counts = [0; N];
        for (to, from) in counts.iter_mut().zip(array) {
            let count = match from {
                Value::Integer(n) => usize::try_from(*n).ok().filter(|n| *n >= least),
                _ => None,
            };
            let Some(count) = count else {
                let problem = format!("has {}, which is not a count", shorten(&words(from)));
                return self.wrong(key, value, &problem, remedy);
            };
            *to = count;
        }
        Ok(Some(counts))
    }

    /// A number.
    pub(super) fn number(&self, key: &str, value: &Value, remedy: &str) -> Result<f64> {
        match value {
            Value::Integer(n) => Ok(*n as f64),
            Value::Float(v) if v.is_finite() => Ok(*v),
            Value::Float(_) => self.wrong(key, value, "is not finite", remedy),
            _ => self.wrong(key, value, "is not a number", remedy),
        }
    }

    /// So many numbers.
    pub(super) fn numbers<const N: usize>(
        &self,
        key: &str,
        value: &Value,
        remedy: &str,
    ) -> Result<[f64; N]> {
        let mut numbers = [0.0; N];
        for (to, from) in numbers.iter_mut().zip(self.array::<N>(key, value, remedy)?) {
            *to = match self.number(key, from, remedy) {
                Ok(number) => number,
                Err(_) => {
                    let problem =
                        format!("has {}, which is not a finite number", shorten(&words(from)));
                    return self.wrong(key, value, &problem, remedy);
                }
            };
        }
        Ok(numbers)
    }

    /// A place or a direction.
    pub(super) fn vector(&self, key: &str, value: &Value) -> Result<Vector3<f64>> {
        let remedy = "give x, y and z in mm, such as '[0.0, 100.0, -20.5]'";
        let numbers = self.numbers::<3>(key, value, remedy)?;
        for length in numbers {
            self.check_length(key, value, length, remedy)?;
        }
        Ok(Vector3::from(numbers))
    }

    /// A length, mm.
    pub(super) fn length(&self, key: &str, value: &Value, remedy: &str) -> Result<f64> {
        let length = self.number(key, value, remedy)?;
        self.check_length(key, value, length, remedy)?;
        Ok(length)
    }

    /// Refuses a length that no room has.
    pub(super) fn check_length(
        &self,
        key: &str,
        value: &Value,
        length: f64,
        remedy: &str,
    ) -> Result<()> {
        if length.abs() <= FARTHEST {
            return Ok(());
        }
        self.wrong(key, value, "is more than the 100 m of any room", remedy)
    }

    /// An angle, degrees.
    pub(super) fn angle(&self, key: &str, value: &Value, remedy: &str) -> Result<f64> {
        let angle = self.number(key, value, remedy)?;
        if angle.abs() <= TURN {
            return Ok(angle);
        }
        self.wrong(key, value, "is more than a turn", remedy)
    }

    /// The rows of a matrix.
    pub(super) fn rows<const C: usize>(&self, key: &str, value: &Value) -> Result<[[f64; C]; 3]> {
        let remedy = format!("give 3 rows of {C} numbers, such as '[[1, 0, 0], [0, 1, 0], ...]'");
        let mut rows = [[0.0; C]; 3];
        for (to, from) in rows.iter_mut().zip(self.array::<3>(key, value, &remedy)?) {
            *to = self.numbers::<C>(key, from, &remedy)?;
        }
        Ok(rows)
    }

    fn array<'v, const N: usize>(
        &self,
        key: &str,
        value: &'v Value,
        remedy: &str,
    ) -> Result<&'v [Value; N]> {
        let Value::Array(array) = value else {
            return self.wrong(key, value, &format!("is not a list of {N}"), remedy);
        };
        match array.as_slice().try_into() {
            Ok(array) => Ok(array),
            Err(_) => {
                let problem = format!("has {} values instead of {N}", array.len());
                self.wrong(key, value, &problem, remedy)
            }
        }
    }
}

/// A value as it may have been written.
fn words(value: &Value) -> String {
    match value {
        Value::String(text) => format!("\"{}\"", shorten(text)),
        Value::Integer(n) => n.to_string(),
        Value::Float(v) if v.is_finite() && v.abs() >= 1e7 => format!("{v:e}"),
        Value::Float(v) => format!("{v:?}").to_lowercase(),
        Value::Boolean(b) => b.to_string(),
        Value::Datetime(date) => date.to_string(),
        Value::Array(array) => {
            let some: Vec<String> = array.iter().take(8).map(words).collect();
            let more = if array.len() > 8 { ", ..." } else { "" };
            format!("[{}{more}]", some.join(", "))
        }
        Value::Table(_) => "{...}".to_owned(),
    }
}
