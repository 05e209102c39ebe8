//! Messages that refer to options as data.

use crate::OptionError;
use serde::{Deserialize, Serialize};
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
/// As data it is the text with options in backticks, and read back words alone.
///
/// [`text!`](crate::text) makes it of a format string in which options stand in backticks. A `Text` among its arguments keeps its
/// options.
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
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Text {
    parts: Vec<Part>,
}

impl Text {
    /// Of parts; words that follow each other become one.
    #[must_use]
    pub fn new(parts: Vec<Part>) -> Self {
        let mut all: Vec<Part> = Vec::with_capacity(parts.len());
        for part in parts {
            match (all.last_mut(), part) {
                (Some(Part::Words(before)), Part::Words(words)) => before.push_str(&words),
                (_, part) => all.push(part),
            }
        }
        Self { parts: all }
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

    /// The same with other names of options, where this gives one.
    #[must_use]
    pub fn renamed(mut self, other: impl Fn(&str) -> Option<String>) -> Self {
        for part in &mut self.parts {
            if let Part::Option { name, .. } = part
                && let Some(other) = other(name)
            {
                *name = other;
            }
        }
        self
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

    /// Whether some words are in it; its options are in backticks.
    #[must_use]
    pub fn contains(&self, words: &str) -> bool {
        self.to_string().contains(words)
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
        Self::new(self.parts)
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

impl From<Text> for String {
    fn from(text: Text) -> Self {
        text.to_string()
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
                named.and(format!(" is '{value}'; expected one of {}", known.join(", ")))
            }
        }
    }
}

/// An argument of [`text!`](crate::text).
#[doc(hidden)]
#[derive(Debug)]
pub struct Argument<'a, T: ?Sized>(pub &'a T);

/// What a text among the arguments is: its parts.
#[doc(hidden)]
pub trait Nested {
    fn part_of(&self) -> Text;
}

/// What any other argument is, which the compiler chooses where the first trait has nothing: words.
#[doc(hidden)]
pub trait Shown {
    fn part_of(&self) -> Text;
}

macro_rules! nested {
    ($($type:ty),+) => {$(
        impl Nested for Argument<'_, $type> {
            fn part_of(&self) -> Text {
                (*self.0).clone().into()
            }
        }

        impl Nested for Argument<'_, &$type> {
            fn part_of(&self) -> Text {
                (**self.0).clone().into()
            }
        }

        impl Nested for Argument<'_, &&$type> {
            fn part_of(&self) -> Text {
                (***self.0).clone().into()
            }
        }
    )+};
}

nested!(Text, OptionError);

impl<T: Display + ?Sized> Shown for &Argument<'_, T> {
    fn part_of(&self) -> Text {
        self.0.to_string().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_within_texts_keep_their_options() {
        let (inner, count) = (crate::text!("give `bins` or `model = lddmm`"), 3);
        let error = OptionError::value("sigma", 0, "give more");
        let all = [
            crate::text!("{count:>2} of {}: {inner}; see `step`", "a`b`"),
            crate::text!("{}; {error}", &inner),
            crate::text!("{again}", again = inner.clone()),
        ];
        let options = |text: &Text| text.options().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(options(&all[0]), ["bins", "model", "step"]);
        assert_eq!(options(&all[1]), ["bins", "model", "sigma"]);
        assert_eq!(all[2], inner);
        let said = " 3 of a`b`: give `bins` or `model = lddmm`; see `step`";
        assert_eq!(all[0].to_string(), said);
    }

    #[test]
    fn words_of_other_libraries() {
        let text = Text::quoted("run `voxalign info`, or give `volume`, or `model = lddmm`");
        assert_eq!(text.options().collect::<Vec<_>>(), ["volume", "model"]);
        assert_eq!(text.to_string(), "run `voxalign info`, or give `volume`, or `model = lddmm`");
    }
}
