//! Values of parameters, and their text representation.

use serde_json::Value as Json;

/// A type that a parameter can have.
pub trait Value: Sized {
    /// What stands for a value in help where nothing else is said, such as `N`; empty for alternatives.
    const UNIT: &'static str;

    /// Whether a text of a value may begin with a hyphen and be no number.
    const HYPHENS: bool = false;

    /// Whether a text of a value may be a negative number.
    const NEGATIVE: bool = false;

    /// Whether it is a list, with commas between its values.
    const LIST: bool = false;

    /// Reads a value as it is typed.
    ///
    /// # Errors
    /// What it should be.
    fn parse(text: &str) -> Result<Self, String>;

    /// The value as it is typed.
    fn text(&self) -> String;

    /// Whether a value can be used at all: numbers that are not finite cannot, nor what would not be read.
    ///
    /// # Errors
    /// What it should be.
    fn usable(&self) -> Result<(), String> {
        Ok(())
    }

    /// The value as data.
    fn json(&self) -> Json {
        Json::String(self.text())
    }

    /// The names and summaries of all values, where there are few.
    #[must_use]
    fn alternatives() -> Vec<(&'static str, &'static str)> {
        Vec::new()
    }
}

macro_rules! integers {
    ($($type:ty),+) => {$(
        impl Value for $type {
            const UNIT: &'static str = "N";
            const NEGATIVE: bool = <$type>::MIN != 0;

            fn parse(text: &str) -> Result<Self, String> {
                text.trim().parse().map_err(|_| format!("'{text}' is not one: give a whole number"))
            }

            fn text(&self) -> String {
                self.to_string()
            }

            fn json(&self) -> Json {
                (*self).into()
            }
        }
    )+};
}

integers!(usize, u64, i32);

impl Value for f64 {
    const UNIT: &'static str = "X";
    const NEGATIVE: bool = true;

    fn parse(text: &str) -> Result<Self, String> {
        let value = text.trim().parse::<f64>().ok().filter(|v| v.is_finite());
        value.ok_or_else(|| format!("'{text}' is not a number"))
    }

    fn text(&self) -> String {
        self.to_string()
    }

    fn usable(&self) -> Result<(), String> {
        if self.is_finite() { Ok(()) } else { Err("give a finite number".to_owned()) }
    }

    fn json(&self) -> Json {
        (*self).into()
    }
}

impl Value for bool {
    const UNIT: &'static str = "";

    fn parse(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| format!("'{text}' is not true or false"))
    }

    fn text(&self) -> String {
        self.to_string()
    }

    fn json(&self) -> Json {
        (*self).into()
    }
}

impl<T: Value> Value for Vec<T> {
    const UNIT: &'static str = T::UNIT;
    const HYPHENS: bool = T::HYPHENS || T::NEGATIVE;
    const LIST: bool = true;

    fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Vec::new());
        }
        text.split(',').map(T::parse).collect()
    }

    fn text(&self) -> String {
        self.iter().map(T::text).collect::<Vec<_>>().join(",")
    }

    fn usable(&self) -> Result<(), String> {
        self.iter().try_for_each(T::usable)
    }

    fn json(&self) -> Json {
        self.iter().map(T::json).collect()
    }
}

impl<T: Value> Value for Option<T> {
    const UNIT: &'static str = T::UNIT;
    const HYPHENS: bool = T::HYPHENS;
    const NEGATIVE: bool = T::NEGATIVE;
    const LIST: bool = T::LIST;

    fn parse(text: &str) -> Result<Self, String> {
        T::parse(text).map(Some)
    }

    fn text(&self) -> String {
        self.as_ref().map_or_else(String::new, T::text)
    }

    fn json(&self) -> Json {
        self.as_ref().map_or(Json::Null, T::json)
    }

    fn alternatives() -> Vec<(&'static str, &'static str)> {
        T::alternatives()
    }
}

/// [`Value`] for types that are read and written as texts.
#[macro_export]
macro_rules! text_value {
    ($type:ty, $unit:literal) => {
        impl $crate::Value for $type {
            const UNIT: &'static str = $unit;
            const HYPHENS: bool = true;

            fn parse(text: &str) -> ::std::result::Result<Self, String> {
                text.parse()
            }

            fn text(&self) -> String {
                self.to_string()
            }

            fn usable(&self) -> ::std::result::Result<(), String> {
                <Self as $crate::Value>::parse(&self.to_string()).map(drop)
            }
        }
    };
}
