//! A fixed number of comma-separated values.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;
use voxalign_options::text_value;

/// Numbers such as `10,-20,5.5`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Numbers<const N: usize>(pub [f64; N]);

/// Whole numbers, 0 or more, such as `512,384`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Whole<const N: usize>(pub [usize; N]);

/// Splits a text into as many parts as are wanted.
fn parts<T, const N: usize>(text: &str, one: impl Fn(&str) -> Option<T>) -> Result<[T; N], String> {
    let all: Option<Vec<T>> = text.split(',').map(|part| one(part.trim())).collect();
    let wrong = || format!("give {N} numbers with commas between them");
    all.ok_or_else(wrong)?.try_into().map_err(|_| wrong())
}

impl<const N: usize> FromStr for Numbers<N> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parts(text, |part| part.parse::<f64>().ok().filter(|v| v.is_finite())).map(Self)
    }
}

impl<const N: usize> FromStr for Whole<N> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parts(text, |part| part.parse::<usize>().ok().filter(|&v| v <= 1 << 24)).map(Self)
    }
}

fn listed<T: ToString>(all: &[T], f: &mut Formatter<'_>) -> fmt::Result {
    f.write_str(&all.iter().map(ToString::to_string).collect::<Vec<_>>().join(","))
}

impl<const N: usize> Display for Numbers<N> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        listed(&self.0, f)
    }
}

impl<const N: usize> Display for Whole<N> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        listed(&self.0, f)
    }
}

text_value!(Numbers<3>, "X,Y,Z");
text_value!(Whole<2>, "N,N");
text_value!(Whole<4>, "N,N,N,N");

/// Numbers as a message has them: with as many digits as count.
pub(crate) fn short(all: &[f64]) -> String {
    let one = |v: &f64| match v.abs() {
        size if size < 1e6 => format!("{}", (v * 1e3).round() / 1e3 + 0.0),
        _ => format!("{v:.3e}"),
    };
    all.iter().map(one).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_messages_are_short() {
        assert_eq!(short(&[0.1 + 0.2, -0.00001, 1e300, -12.0]), "0.3,0,1.000e300,-12");
    }

    #[test]
    fn numbers_and_nothing_else() {
        assert_eq!("10,-20, 5.5".parse(), Ok(Numbers([10.0, -20.0, 5.5])));
        assert_eq!(Numbers([10.0, -20.0, 5.5]).to_string(), "10,-20,5.5");
        assert_eq!("512,384".parse(), Ok(Whole([512, 384])));
        for bad in ["1,2", "1,2,3,4", "1,2,x", "1,2,", "", "1,2,nan", "1,2,inf"] {
            assert!(bad.parse::<Numbers<3>>().is_err(), "{bad}");
        }
        for bad in ["1", "1,-2", "1.5,2", "1,99999999999"] {
            assert!(bad.parse::<Whole<2>>().is_err(), "{bad}");
        }
    }
}
