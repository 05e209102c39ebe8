//! Numbers in records, where non-finite ones are `null`, and lists of lengths.
//!
//! JSON has no word for NaN and infinities: in records they are `null`. Types that are read back from records take
//! such a `null` as NaN. (What ranks tell each other and what checkpoints hold keeps all bits, in another form.)

use serde::{Deserialize, Deserializer};
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;
use voxalign_options::{Value, text_value};

/// A value with numbers, some of which may be `null`.
pub trait FromNulls: Sized {
    /// The same with `null` for what is not a finite number.
    type Nullable: for<'de> Deserialize<'de>;

    /// With NaN in place of nulls.
    fn from_nulls(nullable: Self::Nullable) -> Self;
}

impl FromNulls for f64 {
    type Nullable = Option<f64>;

    fn from_nulls(nullable: Option<f64>) -> Self {
        nullable.unwrap_or(f64::NAN)
    }
}

impl FromNulls for [f64; 2] {
    type Nullable = [Option<f64>; 2];

    fn from_nulls(nullable: [Option<f64>; 2]) -> Self {
        nullable.map(f64::from_nulls)
    }
}

impl FromNulls for [f64; 6] {
    type Nullable = [Option<f64>; 6];

    fn from_nulls(nullable: [Option<f64>; 6]) -> Self {
        nullable.map(f64::from_nulls)
    }
}

impl<T: FromNulls> FromNulls for Option<T> {
    type Nullable = Option<T::Nullable>;

    fn from_nulls(nullable: Self::Nullable) -> Self {
        nullable.map(T::from_nulls)
    }
}

impl FromNulls for Vec<f64> {
    type Nullable = Vec<Option<f64>>;

    fn from_nulls(nullable: Vec<Option<f64>>) -> Self {
        nullable.into_iter().map(f64::from_nulls).collect()
    }
}

/// Reads numbers with `null` as NaN: for `#[serde(deserialize_with = ...)]`.
///
/// # Errors
/// What is neither a number nor null.
pub fn null_is_nan<'de, D: Deserializer<'de>, T: FromNulls>(
    deserializer: D,
) -> Result<T, D::Error> {
    T::Nullable::deserialize(deserializer).map(T::from_nulls)
}

/// Spacings of levels, coarse to fine, mm.
#[derive(Debug, Clone, PartialEq)]
pub struct Levels(pub Vec<f64>);

impl FromStr for Levels {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let levels = lengths(text)?;
        if levels.windows(2).any(|w| w[1] >= w[0]) {
            return Err("give levels from coarse to fine, such as 8,4,2,1".into());
        }
        Ok(Levels(levels))
    }
}

impl Display for Levels {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        listed(&self.0, f)
    }
}

/// Numbers above 0 with commas between them.
pub(crate) fn lengths(text: &str) -> Result<Vec<f64>, String> {
    let one = |part: &str| match f64::parse(part)? {
        v if v > 0.0 => Ok(v),
        _ => Err(format!("'{part}' must be above 0")),
    };
    text.split(',').map(one).collect()
}

/// Numbers with commas between them.
pub(crate) fn listed(numbers: &[f64], f: &mut Formatter<'_>) -> fmt::Result {
    let all: Vec<_> = numbers.iter().map(f64::to_string).collect();
    f.write_str(&all.join(","))
}

text_value!(Levels, "MM,MM,...");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels() {
        assert_eq!("8,4".parse(), Ok(Levels(vec![8.0, 4.0])));
        assert_eq!("8,0.5".parse::<Levels>().unwrap().to_string(), "8,0.5");
        for bad in ["", "4,8", "4,4", "8,-1", "8,,1"] {
            assert!(bad.parse::<Levels>().is_err(), "{bad}");
        }
    }
}
