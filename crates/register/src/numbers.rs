//! Numbers in records.
//!
//! JSON has no word for NaN and infinities: in records they are `null`. Types that are read back from records take
//! such a `null` as NaN. (What ranks tell each other and what checkpoints hold keeps all bits, in another form.)

use serde::{Deserialize, Deserializer};

/// What is made of numbers, some of which may be `null`.
pub trait FromNulls: Sized {
    /// The same with `null` for what is no finite number.
    type Nullable: for<'de> Deserialize<'de>;

    /// With NaN in the place of nulls.
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
