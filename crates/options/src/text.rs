//! Messages that name options as data.

use crate::OptionError;
use std::fmt::{self, Display, Formatter};

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Words.
    Words(String),
    /// An option, with a value of it where one is meant.
    Option {
        /// Its name, words joined by `_`.
        name: String,
        /// The value.
        value: Option<String>,
    },
}

/// A message in which options are parts of their own, so that each program can say them in its way.
///
/// [`text!`](crate::text) makes it of a format string in which options stand in backticks.
///
/// ```
/// use voxalign_options::text;
///
/// let views = 2;
/// let message = text!("`geometry` has {views} views; leave `model = lddmm` out of {}", "a`b.toml");
/// assert_eq!(message.to_string(), "`geometry` has 2 views; leave `model = lddmm` out of a`b.toml");
/// let typed = message.said(&|name, value| format!("--{name}{}", value.map_or(String::new(), |v| format!("={v}"))));
/// assert_eq!(typed, "--geometry has 2 views; leave --model=lddmm out of a`b.toml");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Text {
    parts: Vec<Part>,
}

impl Text {
    /// Of parts.
    #[must_use]
    pub fn new(parts: Vec<Part>) -> Self {
        Self { parts }
    }

    /// A single option, such as `bins`, or one with a value, such as `model = lddmm`.
    #[must_use]
    pub fn option(name: &str) -> Self {
        let (name, value) = match name.split_once(" = ") {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (name, None),
        };
        Self::new(vec![Part::Option { name: name.to_owned(), value }])
    }

    /// An option by its name, or `the kernel width` for what has a name of several words.
    pub(crate) fn named(name: &str) -> Self {
        match name.contains(' ') {
            true => format!("the {name}").into(),
            false => Self::option(name),
        }
    }

    /// The options that it names, in their order.
    pub fn options(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Option { name, .. } => Some(name.as_str()),
            Part::Words(_) => None,
        })
    }

    /// The message with options in somebody's words.
    #[must_use]
    pub fn said(&self, option: &dyn Fn(&str, Option<&str>) -> String) -> String {
        let part = |part: &Part| match part {
            Part::Words(words) => words.clone(),
            Part::Option { name, value } => option(name, value.as_deref()),
        };
        self.parts.iter().map(part).collect()
    }

    /// Words of a library that does not know this crate, in which options stand in backticks, as in
    /// [`text!`](crate::text). They must hold nothing of a file or a user.
    #[must_use]
    pub fn quoted(words: &str) -> Self {
        let mut text = Self::default();
        for (i, piece) in words.split('`').enumerate() {
            let name = piece.split(" = ").next().unwrap_or_default();
            let shape = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            let is_option =
                name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(shape);
            text = text.and(match (i % 2 == 1, is_option) {
                (true, true) => Self::option(piece),
                (true, false) => format!("`{piece}`").into(),
                (false, _) => Self::from(piece),
            });
        }
        text
    }

    /// Messages with words between them.
    #[must_use]
    pub fn joined(all: impl IntoIterator<Item = Self>, between: &str) -> Self {
        let mut all = all.into_iter();
        let first = all.next().unwrap_or_default();
        all.fold(first, |text, next| text.and(between).and(next))
    }

    /// The message, and another one after it.
    #[must_use]
    pub fn and(mut self, other: impl Into<Self>) -> Self {
        self.parts.extend(other.into().parts);
        self
    }
}

/// With options in backticks, as in [`text!`](crate::text).
impl Display for Text {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let quoted = |name: &str, value: Option<&str>| match value {
            Some(value) => format!("`{name} = {value}`"),
            None => format!("`{name}`"),
        };
        f.write_str(&self.said(&quoted))
    }
}

impl From<String> for Text {
    fn from(words: String) -> Self {
        Self::new(vec![Part::Words(words)])
    }
}

impl From<&String> for Text {
    fn from(words: &String) -> Self {
        words.clone().into()
    }
}

impl From<&str> for Text {
    fn from(words: &str) -> Self {
        words.to_owned().into()
    }
}

impl From<OptionError> for Text {
    fn from(error: OptionError) -> Self {
        let named = Self::named(error.name());
        match error {
            OptionError::Value { value, remedy, .. } => named.and(format!(" is {value}; {remedy}")),
            OptionError::Ignored { option, kinds, .. } => {
                let value = kinds.first().map(|kind| (*kind).to_owned());
                let of = Self::new(vec![Part::Option { name: option.to_owned(), value }]);
                let rest = OptionError::rest(&kinds);
                named.and(" is for ").and(of).and(format!("{rest}; leave it out"))
            }
            OptionError::Unknown { value, known, .. } => {
                named.and(format!(" is '{value}', which is none of {}", known.join(", ")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_other_libraries() {
        let text = Text::quoted("run `voxalign info`, or give `volume`, or `model = lddmm`");
        assert_eq!(text.options().collect::<Vec<_>>(), ["volume", "model"]);
        assert_eq!(text.to_string(), "run `voxalign info`, or give `volume`, or `model = lddmm`");
    }
}
