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
