//! The options of the registration method.

use crate::error::{Error, Result};
use crate::options::{MatchingOptions, number};
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use voxalign_options::{Choice, Given, text};
use voxalign_register::diffeo::{DeformModel, Matching, Preparation};
use voxalign_register::similarity::Similarity;

/// Where the deformation starts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum AffineChoice {
    /// An affine registration comes first.
    #[default]
    Auto,
    /// The headers as they are.
    None,
    /// A transform file, fixed to moving.
    File(PathBuf),
}

impl FromStr for AffineChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(AffineChoice::Auto),
            "none" => Ok(AffineChoice::None),
            _ if !Path::new(text).exists() => {
                Err("neither auto or none, nor an existing transform file".into())
            }
            _ => Ok(AffineChoice::File(text.into())),
        }
    }
}

impl AffineChoice {
    /// The file, where it is one.
    #[must_use]
    pub fn file(&self) -> Option<&PathBuf> {
        match self {
            AffineChoice::File(path) => Some(path),
            _ => None,
        }
    }
}

/// The name, or the file.
impl Display for AffineChoice {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            AffineChoice::Auto => f.write_str("auto"),
            AffineChoice::None => f.write_str("none"),
            AffineChoice::File(path) => path.display().fmt(f),
        }
    }
}

/// A pair of images with a similarity of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct Channel {
    /// The image that stays, on the grid of the first one.
    pub fixed: PathBuf,
    /// The image that is brought to it.
    pub moving: PathBuf,
    /// How they are compared.
    pub similarity: Similarity,
    /// The factor of its energy.
    pub weight: f64,
}

impl Channel {
    /// Channels from the words of all `--channel` options, four each.
    ///
    /// # Errors
    /// What is wrong with the words.
    pub fn all(words: &[String]) -> Result<Vec<Self>> {
        words.chunks(4).map(Self::new).collect()
    }

    fn new(words: &[String]) -> Result<Self> {
        let bad = |what: String| {
            let known = Similarity::ALL.iter().filter(|s| s.has_energy());
            let known: Vec<_> = known.map(|s| s.name()).collect();
            Error::input(text!(
                "`channel`: {what}; give a fixed image, a moving one, a similarity ({}) and a weight, \
                 such as `t2a.nii.gz t2b.nii.gz lncc 0.5`",
                known.join(", ")
            ))
        };
        let [fixed, moving, similarity, weight] = words else {
            return Err(bad(format!("{} values are given", words.len())));
        };
        let similarity = Similarity::named(similarity)
            .filter(Similarity::has_energy)
            .ok_or_else(|| bad(format!("'{similarity}' is not a similarity")))?;
        let weight = number(weight)
            .ok()
            .filter(|w| *w > 0.0)
            .ok_or_else(|| bad(format!("'{weight}' is not a number above 0")))?;
        let (fixed, moving) = (fixed.into(), moving.into());
        Ok(Self { fixed, moving, similarity, weight })
    }
}

/// The method of a deformable registration.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(default)]
pub struct DeformMethod {
    /// How one image is deformed to another.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub matching: MatchingOptions,
    /// Another pair of images, its similarity and its weight (FIXED and MOVING have weight 1); the fixed image must be
    /// on the grid of FIXED. May be repeated
    #[cfg_attr(
        feature = "clap",
        arg(
            long,
            num_args = 4,
            value_names = ["FIXED", "MOVING", "SIM", "WEIGHT"],
            allow_negative_numbers = true,
            action = clap::ArgAction::Append,
            help_heading = "Method"
        )
    )]
    #[serde(with = "fours")]
    pub channel: Vec<String>,
    /// What is done with the images first.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub preparation: Given<Preparation>,
}

/// Channels as lists of four words each, or as one such list.
mod fours {
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use serde_json::Value;

    pub(super) fn serialize<S: Serializer>(words: &[String], to: S) -> Result<S::Ok, S::Error> {
        words.chunks(4).collect::<Vec<_>>().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
        let word = |value: &Value| match value {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        let four = |value: &Value| {
            let words = value.as_array()?.iter().map(word).collect::<Option<Vec<_>>>()?;
            Some(words).filter(|words| words.len() == 4)
        };
        let value = Value::deserialize(from)?;
        let all = four(&value).map(|one| vec![one]);
        let all = all.or_else(|| value.as_array()?.iter().map(four).collect());
        let all = all.ok_or_else(|| {
            D::Error::custom(
                "give a list of a fixed image, a moving one, a similarity and a weight, or several",
            )
        })?;
        Ok(all.into_iter().flatten().collect())
    }
}

impl DeformMethod {
    /// Further pairs of images, with the parameters of similarities that were given.
    ///
    /// # Errors
    /// What is wrong with the words of one.
    pub fn channels(&self) -> Result<Vec<Channel>> {
        let mut channels = Channel::all(&self.channel)?;
        for channel in &mut channels {
            self.matching.similarity.tell(&mut channel.similarity)?;
        }
        Ok(channels)
    }

    /// How is matched, by a model where none is chosen; what would be ignored is refused.
    ///
    /// # Errors
    /// Names an option that has no meaning, or a value that none may have.
    pub fn matching(&self, channels: &[Channel], model: DeformModel) -> Result<Matching> {
        self.matching_by(&self.matching.similarity()?, channels, model)
    }

    /// The same of images that are compared by a similarity.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn matching_by(
        &self,
        similarity: &Similarity,
        channels: &[Channel],
        usual: DeformModel,
    ) -> Result<Matching> {
        let others: Vec<_> = channels.iter().map(|c| c.similarity).collect();
        let usual = |model: Option<_>| Matching::suiting(model.unwrap_or(usual), similarity);
        self.matching.matching(usual, &others)
    }

    /// What is done with the images first.
    ///
    /// # Errors
    /// A value that cannot be.
    pub fn preparation(&self) -> Result<Preparation> {
        Ok(self.preparation.over(Preparation::default())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let found = Channel::all(&words("a b mi 0.5 c d ssd 2")).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!((found[1].similarity, found[1].weight), (Similarity::SSD, 2.0));
        for bad in ["a b mi", "a b xx 1", "a b mi 0", "a b mi -1", "a b mi nan"] {
            assert!(Channel::all(&words(bad)).is_err(), "{bad}");
        }
    }
}
