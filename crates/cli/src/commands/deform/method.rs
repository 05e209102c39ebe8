//! The options that say how is registered.

use crate::args::{choice, number};
use crate::failure::Failure;
use crate::registration::{MatchingArgs, refuse};
use clap::Args;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use voxalign_register::Choice;
use voxalign_register::diffeo::{DeformModel, DeformOptions};
use voxalign_register::model::lddmm::Storage;
use voxalign_register::similarity::Similarity;

/// Where the deformation starts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum AffineChoice {
    /// An affine registration comes first.
    #[default]
    Auto,
    /// The headers as they are.
    None,
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
    pub(super) fn file(&self) -> Option<&PathBuf> {
        match self {
            AffineChoice::File(path) => Some(path),
            _ => None,
        }
    }

    /// The name, or the file.
    pub(super) fn name(&self) -> String {
        match self {
            AffineChoice::Auto => "auto".into(),
            AffineChoice::None => "none".into(),
            AffineChoice::File(path) => path.display().to_string(),
        }
    }
}

/// A pair of images with a similarity of its own.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Channel {
    pub(super) fixed: PathBuf,
    pub(super) moving: PathBuf,
    pub(super) similarity: Similarity,
    pub(super) weight: f64,
}

impl Channel {
    /// Channels from the words of all `--channel` options, four each.
    pub(super) fn all(words: &[String]) -> Result<Vec<Self>, Failure> {
        words.chunks(4).map(Self::new).collect()
    }

    fn new(words: &[String]) -> Result<Self, Failure> {
        let bad = |what: String| {
            let known = Similarity::ALL.iter().filter(|s| s.has_energy());
            let known: Vec<_> = known.map(|s| s.name()).collect();
            Failure::input(format!(
                "--channel: {what}; give a fixed image, a moving one, a similarity ({}) and a weight, \
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
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct DeformMethodArgs {
    #[command(flatten)]
    matching: MatchingArgs,
    /// A further pair of images with its similarity and the weight of it (that of FIXED and MOVING
    /// is 1); the fixed image is on the grid of FIXED. Can be given several times
    #[arg(long, num_args = 4, value_names = ["FIXED", "MOVING", "SIM", "WEIGHT"],
          allow_negative_numbers = true, action = clap::ArgAction::Append,
          help_heading = "Method")]
    channel: Vec<String>,
    /// What is kept of the path over time; with less, half precision changes the result in its last
    /// digits; for lddmm [default: full]
    #[arg(long, value_parser = choice::<Storage>(), help_heading = "Method")]
    path_storage: Option<Storage>,
    /// Match the histogram of each moving image to that of its fixed one first
    #[arg(long, help_heading = "Method")]
    histogram_match: bool,
    /// Compute on the whole fixed grid, not only where the images are more than background;
    /// symmetric does so anyway
    #[arg(long, help_heading = "Method")]
    no_clip: bool,
}

impl DeformMethodArgs {
    /// The words of all channels.
    pub(super) fn channels(&self) -> &[String] {
        &self.channel
    }

    /// The similarity of a further pair with the parameters that were given.
    pub(super) fn told(&self, mut channel: Channel) -> Channel {
        self.matching.tell(&mut channel.similarity);
        channel
    }

    /// The similarity of the first pair.
    pub(super) fn similarity(&self) -> Similarity {
        self.matching.similarity()
    }

    /// The library's options; what would be ignored is refused.
    pub(super) fn options(&self, channels: &[Channel]) -> Result<DeformOptions, Failure> {
        let others: Vec<_> = channels.iter().map(|c| c.similarity).collect();
        let options = self.matching.options(DeformOptions::of, &others)?;
        if options.model == DeformModel::Symmetric {
            refuse(self.no_clip, "--no-clip", "--model greedy and lddmm")?;
        }
        if options.model != DeformModel::Lddmm {
            refuse(self.path_storage.is_some(), "--path-storage", "--model lddmm")?;
        }
        let storage = self.path_storage.unwrap_or(options.storage);
        let clip = !self.no_clip && options.clip;
        Ok(DeformOptions { storage, histogram_match: self.histogram_match, clip, ..options })
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
