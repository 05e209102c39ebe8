//! Tables of labels: values, names and colours.

use super::colour::colours_besides;
use crate::image::DataType;
use std::collections::{BTreeMap, HashSet};
use thiserror::Error;

/// What can be wrong with a table of labels, or with an image that should have its labels.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LabelError {
    /// There is no label.
    #[error("a table of labels needs one label at least")]
    NoLabels,
    /// A value that an image of labels cannot have in all formats.
    #[error(
        "the label '{name}' has the value {value}; a label is a whole number from 1 to 65535, as 0 is the background"
    )]
    Value {
        /// The value.
        value: i32,
        /// The label's name.
        name: String,
    },
    /// Two labels have one value.
    #[error(
        "the labels '{}' and '{}' have both the value {value}; give each a value of its own",
        .names[0], .names[1]
    )]
    Repeated {
        /// The value.
        value: u16,
        /// The names.
        names: [String; 2],
    },
    /// A label without a name.
    #[error("the label {value} has an empty name; give it one")]
    NoName {
        /// The label.
        value: u16,
    },
    /// A name that a format cannot hold.
    #[error("the name {name:?} of the label {value} has {what}; leave it out")]
    Name {
        /// The label.
        value: u16,
        /// The name.
        name: String,
        /// What it has.
        what: &'static str,
    },
    /// A value in an image that the table does not have.
    #[error(
        "voxel {index:?} has the value {value}, which is not in the table of labels; add it to the table, or make it 0"
    )]
    Unlisted {
        /// The value.
        value: i32,
        /// The first voxel that has it.
        index: [usize; 3],
    },
}

/// A label: the value that voxels have, a name, and a colour to show it in.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Label {
    value: u16,
    name: String,
    colour: [u8; 3],
}

impl Label {
    /// The value in images, from 1.
    #[must_use]
    pub fn value(&self) -> u16 {
        self.value
    }

    /// The name: not empty, one line, without quotes (`"`) and without blanks around it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Red, green and blue, 0 to 255.
    #[must_use]
    pub fn colour(&self) -> [u8; 3] {
        self.colour
    }
}

/// The labels of an image, by their values; what is not listed is background, whose value is 0.
///
/// ```
/// use voxalign_io::labels::LabelTable;
///
/// let table = LabelTable::new([(1, "liver"), (4, "left kidney")])?;
/// assert_eq!(table.get(4).map(|label| label.name()), Some("left kidney"));
/// // Colours that are not given differ from each other and from those that are.
/// let red = Some([230, 25, 75]);
/// let table = LabelTable::with_colours([(1, "liver", red), (4, "left kidney", None)])?;
/// assert_ne!(table.labels()[0].colour(), table.labels()[1].colour());
/// assert!(LabelTable::new([(0, "background")]).is_err());
/// # Ok::<(), voxalign_io::labels::LabelError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelTable {
    labels: Vec<Label>,
}

impl LabelTable {
    /// A table from values and names, in any order, with [default colours](super::default_colours) in the order of the
    /// values.
    ///
    /// # Errors
    /// As [`LabelTable::with_colours`].
    pub fn new<N: Into<String>>(
        labels: impl IntoIterator<Item = (i32, N)>,
    ) -> Result<Self, LabelError> {
        Self::with_colours(labels.into_iter().map(|(value, name)| (value, name, None)))
    }

    /// A table from values, names and colours (red, green and blue, 0 to 255), in any order. Labels without a colour get
    /// [default ones](super::default_colours), in the order of the values, that no other label has.
    ///
    /// # Errors
    /// No label; a value that is not from 1 to 65535, or that two labels have; a name that is empty, has blanks around
    /// it, or holds a quote (`"`), a line break or another control character.
    pub fn with_colours<N: Into<String>>(
        labels: impl IntoIterator<Item = (i32, N, Option<[u8; 3]>)>,
    ) -> Result<Self, LabelError> {
        let mut found: BTreeMap<u16, (String, Option<[u8; 3]>)> = BTreeMap::new();
        for (value, name, colour) in labels {
            let name = name.into();
            let value = match u16::try_from(value) {
                Ok(value) if value > 0 => value,
                _ => return Err(LabelError::Value { value, name }),
            };
            check_name(value, &name)?;
            if let Some((first, _)) = found.get(&value) {
                return Err(LabelError::Repeated { value, names: [first.clone(), name] });
            }
            found.insert(value, (name, colour));
        }
        if found.is_empty() {
            return Err(LabelError::NoLabels);
        }
        let taken: HashSet<_> = found.values().filter_map(|(_, colour)| *colour).collect();
        let mut further = colours_besides(&taken);
        let labels = found.into_iter().map(|(value, (name, colour))| {
            // Colours have no end.
            let colour = colour.or_else(|| further.next()).unwrap_or_default();
            Label { value, name, colour }
        });
        Ok(Self { labels: labels.collect() })
    }

    /// The labels, by their values.
    #[must_use]
    pub fn labels(&self) -> &[Label] {
        &self.labels
    }

    /// The label of a value.
    #[must_use]
    pub fn get(&self, value: i32) -> Option<&Label> {
        let value = u16::try_from(value).ok()?;
        let at = self.labels.binary_search_by_key(&value, Label::value).ok()?;
        self.labels.get(at)
    }

    /// The smallest type that holds all values: unsigned 8, signed 16 or unsigned 16 bits. It depends on the table alone, so
    /// that an image in which a label is missing has the type of the others.
    #[must_use]
    pub fn data_type(&self) -> DataType {
        match self.labels.last().map_or(0, Label::value) {
            0..=255 => DataType::U8,
            256..=32767 => DataType::I16,
            _ => DataType::U16,
        }
    }
}

/// Whether all formats can hold a name.
fn check_name(value: u16, name: &str) -> Result<(), LabelError> {
    if name.trim().is_empty() {
        return Err(LabelError::NoName { value });
    }
    let what = if name.contains('"') {
        "a quote"
    } else if name.contains(['\n', '\r', '\u{2028}', '\u{2029}']) {
        "a line break"
    } else if name.contains(char::is_control) {
        "a control character"
    } else if name.trim() != name {
        "blanks around it"
    } else {
        return Ok(());
    };
    Err(LabelError::Name { value, name: name.to_owned(), what })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn labels_are_in_the_order_of_their_values() {
        let table = LabelTable::new([(300, "c"), (2, "a"), (7, "b")]).unwrap();
        let found: Vec<_> = table.labels().iter().map(|l| (l.value(), l.name())).collect();
        assert_eq!(found, [(2, "a"), (7, "b"), (300, "c")]);
        assert_eq!(table.get(7).unwrap().name(), "b");
        for value in [0, 3, -7, 65543, i32::MAX, i32::MIN] {
            assert_eq!(table.get(value), None);
        }
    }

    #[test]
    fn given_colours_stay_and_others_differ() {
        let first = LabelTable::new([(1, "a")]).unwrap().labels()[0].colour();
        let table =
            LabelTable::with_colours([(1, "a", None), (2, "b", Some(first)), (3, "c", None)]);
        let colours: Vec<_> = table.unwrap().labels().iter().map(Label::colour).collect();
        assert_eq!(colours[1], first);
        assert!(colours[0] != first && colours[2] != first && colours[0] != colours[2]);
        let all = LabelTable::new((1..=65535).map(|v| (v, format!("label {v}")))).unwrap();
        let different: HashSet<_> = all.labels().iter().map(Label::colour).collect();
        assert_eq!(different.len(), 65535);
    }

    #[test]
    fn what_is_wrong_is_told() {
        let table = |list: &[(i32, &str)]| LabelTable::new(list.iter().copied()).unwrap_err();
        assert_eq!(table(&[]), LabelError::NoLabels);
        for value in [0, -1, 65536, i32::MIN, i32::MAX] {
            let name = "liver".to_owned();
            assert_eq!(table(&[(value, "liver")]), LabelError::Value { value, name });
        }
        let names = ["a".to_owned(), "b".to_owned()];
        assert_eq!(table(&[(3, "a"), (3, "b")]), LabelError::Repeated { value: 3, names });
        for name in ["", " ", "\t", "\u{3000}", "\n"] {
            assert_eq!(table(&[(9, name)]), LabelError::NoName { value: 9 });
        }
        for (name, expected) in [
            ("a\"b", "a quote"),
            ("a\nb", "a line break"),
            ("a\rb", "a line break"),
            ("a\u{2028}b", "a line break"),
            ("a\tb", "a control character"),
            ("a\u{85}b", "a control character"),
            (" a", "blanks around it"),
            ("a\u{2003}", "blanks around it"),
        ] {
            let said = table(&[(9, name)]);
            let LabelError::Name { value: 9, what, .. } = said else { panic!("{said}") };
            assert_eq!(what, expected, "{name:?}");
            let said = table(&[(9, name)]).to_string();
            assert!(said.contains("label 9") && !said.contains('\n'), "{said}");
        }
        // What looks odd and is none of these.
        assert!(LabelTable::new([(1, "#1 'x' | y:=\\n ~^& é 肝")]).is_ok());
    }

    #[test]
    fn the_type_is_that_of_the_largest_value() {
        for (value, expected) in [
            (1, DataType::U8),
            (255, DataType::U8),
            (256, DataType::I16),
            (32767, DataType::I16),
            (32768, DataType::U16),
            (65535, DataType::U16),
        ] {
            assert_eq!(LabelTable::new([(value, "a")]).unwrap().data_type(), expected);
        }
    }

    proptest! {
        #[test]
        fn a_table_has_what_it_was_made_of(
            list in proptest::collection::btree_map(1..=65535i32, "[a-zé][a-z é]{0,9}[a-z]", 1..30)
        ) {
            let table = LabelTable::new(list.iter().rev().map(|(v, n)| (*v, n.clone()))).unwrap();
            let found: BTreeMap<i32, String> =
                table.labels().iter().map(|l| (i32::from(l.value()), l.name().to_owned())).collect();
            prop_assert_eq!(found, list);
        }

        #[test]
        fn any_name_is_taken_or_refused(name in "\\PC{0,12}|[\\s\"a]{0,4}") {
            if let Ok(table) = LabelTable::new([(1, name.clone())]) {
                let kept = table.labels()[0].name();
                prop_assert_eq!(kept, &name);
                prop_assert!(kept.lines().count() == 1 && kept.trim() == kept && !kept.contains('"'));
            }
        }
    }
}
