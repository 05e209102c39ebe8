//! Values of options that only a segmentation has.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;
use voxalign_options::{Choice, Value, text_value};
use voxalign_segment::Neighbourhood;

/// Most classes of a mixture.
pub(super) const MOST_CLASSES: usize = 32;

/// Numbers of classes, from 1; none for the usual ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Classes(u32);

impl Classes {
    /// None.
    pub const NONE: Self = Self(0);

    /// The numbers, from 1.
    pub fn numbers(self) -> impl Iterator<Item = usize> {
        (1..=MOST_CLASSES).filter(move |n| self.0 >> (n - 1) & 1 == 1)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether a class is among them.
    #[must_use]
    pub fn contains(self, number: usize) -> bool {
        self.numbers().any(|n| n == number)
    }

    /// The same and one more.
    fn with(self, number: usize) -> Result<Self, String> {
        match number {
            1..=MOST_CLASSES => Ok(Self(self.0 | 1 << (number - 1))),
            _ => Err(format!("{number} is not a class: give numbers from 1 to {MOST_CLASSES}")),
        }
    }
}

impl Display for Classes {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let all: Vec<_> = self.numbers().map(|n| n.to_string()).collect();
        f.write_str(&all.join(","))
    }
}

impl Value for Classes {
    const UNIT: &'static str = "N,...";

    fn parse(text: &str) -> Result<Self, String> {
        let all = text.split(',').filter(|word| !word.trim().is_empty());
        all.map(usize::parse).try_fold(Self::default(), |all, n| all.with(n?))
    }

    fn text(&self) -> String {
        self.to_string()
    }

    fn json(&self) -> serde_json::Value {
        self.numbers().collect()
    }
}

/// A point of the world, mm.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Centre {
    /// x and y, and z where it is given.
    at: [f64; 3],
    flat: bool,
}

impl Centre {
    /// A point.
    #[must_use]
    pub fn new(at: [f64; 3]) -> Self {
        Self { at, flat: false }
    }

    /// The point; where no z was given, with this one.
    pub(super) fn with_z(self, z: f64) -> [f64; 3] {
        let [x, y, own] = self.at;
        [x, y, if self.flat { z } else { own }]
    }

    /// Whether it has no z.
    pub(super) fn is_flat(self) -> bool {
        self.flat
    }
}

impl FromStr for Centre {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = text.split(',').map(f64::parse).collect::<Result<Vec<_>, _>>();
        match all.as_deref() {
            Ok([x, y, z]) => Ok(Self::new([*x, *y, *z])),
            Ok([x, y]) => Ok(Self { at: [*x, *y, 0.0], flat: true }),
            _ => Err(format!("'{text}' is not a point: give X,Y,Z in mm, such as 10,-25.5,40")),
        }
    }
}

impl Display for Centre {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.at;
        if self.flat { write!(f, "{x},{y}") } else { write!(f, "{x},{y},{z}") }
    }
}

text_value!(Centre, "X,Y,Z");

/// When a front is stopped that has not come to rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Iterations {
    /// At the bound that follows from the start.
    #[default]
    Auto,
    /// After so many.
    Most(usize),
}

impl FromStr for Iterations {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text.trim(), text.trim().parse()) {
            ("auto", _) => Ok(Self::Auto),
            (_, Ok(most)) if most > 0 => Ok(Self::Most(most)),
            _ => Err(format!("'{text}' is not one: give auto, or a whole number above 0")),
        }
    }
}

impl Display for Iterations {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Most(most) => most.fmt(f),
        }
    }
}

text_value!(Iterations, "auto|N");

/// Which voxels are neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Choice)]
pub enum Connectivity {
    /// In 2D, pixels that share a side.
    #[choice(name = "4")]
    Four,
    /// In 2D, pixels that share a side or a corner.
    #[choice(name = "8")]
    Eight,
    /// In 3D, voxels that share a face.
    #[choice(name = "6")]
    Six,
    /// In 3D, voxels that share a face or an edge.
    #[choice(name = "18")]
    Eighteen,
    /// In 3D, voxels that share a face, an edge or a corner.
    #[choice(name = "26")]
    TwentySix,
}

impl From<Connectivity> for Neighbourhood {
    fn from(of: Connectivity) -> Self {
        match of {
            Connectivity::Four => Self::Four,
            Connectivity::Eight => Self::Eight,
            Connectivity::Six => Self::Six,
            Connectivity::Eighteen => Self::Eighteen,
            Connectivity::TwentySix => Self::TwentySix,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_and_written_alike() {
        let classes = Classes::parse("3,1").unwrap();
        assert_eq!((classes.text().as_str(), classes.contains(3)), ("1,3", true));
        assert!(
            !classes.contains(2) && !classes.contains(0) && Classes::parse("").unwrap().is_empty()
        );
        for wrong in ["0", "33", "1,x", "-1"] {
            assert!(Classes::parse(wrong).is_err(), "{wrong}");
        }
        let centre: Centre = "1,-2.5,3".parse().unwrap();
        assert_eq!(
            (centre.with_z(9.0), centre.to_string().as_str()),
            ([1.0, -2.5, 3.0], "1,-2.5,3")
        );
        let flat: Centre = "1,2".parse().unwrap();
        assert_eq!((flat.with_z(9.0), flat.to_string().as_str()), ([1.0, 2.0, 9.0], "1,2"));
        for wrong in ["1", "1,2,nan", "a,b,c", "1,2,3,4", ""] {
            assert!(wrong.parse::<Centre>().is_err(), "{wrong}");
        }
        for (text, is) in [("auto", Iterations::Auto), ("12", Iterations::Most(12))] {
            assert_eq!((text.parse(), is.to_string().as_str()), (Ok(is), text));
        }
        for wrong in ["0", "-3", "1.5", "all"] {
            assert!(wrong.parse::<Iterations>().is_err(), "{wrong}");
        }
    }
}
