//! Option values and their parsers, with messages that list what is accepted.

use crate::error::{Error, Result};
use crate::files;
use crate::listener::Listener;
use crate::pair::read_pairs;
use crate::run::{Input, Role};
use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use voxalign_compute::ops::resample;
use voxalign_io::mesh::MeshSpace;
use voxalign_io::points;
use voxalign_io::transform::Geometry;
use voxalign_options::{Choice, text};
use voxalign_register::linear::Init;

/// How values between voxels are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Choice)]
pub enum Interpolation {
    /// Value of the nearest voxel.
    Nearest,
    /// Linear between the eight neighbours.
    #[default]
    Linear,
    /// Cubic B-spline: sharper, may overshoot.
    Cubic,
    /// For label maps: the label with the largest weight among the eight neighbours.
    Label,
}

impl Interpolation {
    /// For an image; labels have a rule of their own.
    ///
    /// # Errors
    /// Where it is that of labels.
    pub fn of_image(self) -> Result<resample::Interpolation> {
        match self {
            Interpolation::Nearest => Ok(resample::Interpolation::Nearest),
            Interpolation::Linear => Ok(resample::Interpolation::Linear),
            Interpolation::Cubic => Ok(resample::Interpolation::Cubic),
            Interpolation::Label => Err(Error::input(text!(
                "`interpolation = label` is for label maps; use nearest, linear or cubic for an image"
            ))),
        }
    }
}

/// The world that the coordinates of a point file are in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Choice)]
pub enum PointConvention {
    /// x to the right, y to the front, z up, as everywhere in this program.
    #[default]
    Ras,
    /// x to the left, y to the back, z up, as ITK, ANTs and DICOM.
    Lps,
}

impl From<PointConvention> for points::PointConvention {
    fn from(convention: PointConvention) -> Self {
        match convention {
            PointConvention::Ras => Self::Ras,
            PointConvention::Lps => Self::Lps,
        }
    }
}

impl From<PointConvention> for MeshSpace {
    fn from(convention: PointConvention) -> Self {
        match convention {
            PointConvention::Ras => Self::Ras,
            PointConvention::Lps => Self::Lps,
        }
    }
}

/// Where a registration starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InitChoice {
    /// The headers as they are.
    Header,
    /// The image centres on each other.
    Centre,
    /// The centres of mass on each other.
    Moments,
    /// The first voxels on each other, and the axes.
    Identity,
    /// A transform file, fixed to moving.
    File(PathBuf),
    /// Corresponding points on each other: files of those of the fixed and of the moving image.
    Landmarks([PathBuf; 2]),
}

impl FromStr for InitChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "header" => InitChoice::Header,
            "centre" | "center" => InitChoice::Centre,
            "moments" => InitChoice::Moments,
            "identity" => InitChoice::Identity,
            "" => {
                return Err("use header, centre, moments, identity, a transform file or \
                            landmarks:FIXED.csv,MOVING.csv"
                    .into());
            }
            _ if text.starts_with("landmarks:") => InitChoice::Landmarks(two_files(text)?),
            _ if !Path::new(text).exists() => {
                return Err(
                    "neither header, centre, moments or identity, nor an existing file, nor \
                     landmarks:FIXED.csv,MOVING.csv"
                        .into(),
                );
            }
            _ => InitChoice::File(text.into()),
        })
    }
}

/// The two files of `landmarks:FIXED.csv,MOVING.csv`, whose names may have commas.
fn two_files(text: &str) -> Result<[PathBuf; 2], String> {
    let names = text.strip_prefix("landmarks:").unwrap_or(text);
    let splits: Vec<_> =
        names.match_indices(',').map(|(i, _)| (&names[..i], &names[i + 1..])).collect();
    let there = |name: &str| Path::new(name).is_file();
    match (splits.iter().find(|(a, b)| there(a) && there(b)), splits.as_slice()) {
        (Some((fixed, moving)), _) => Ok([fixed.into(), moving.into()]),
        (None, [(fixed, moving)]) if !fixed.is_empty() && !moving.is_empty() => {
            let missing = if there(fixed) { moving } else { fixed };
            Err(format!("'{missing}' is not a file; check the path"))
        }
        (None, _) => Err("give two files with a comma between them, points of the fixed and of the moving image: \
                          landmarks:FIXED.csv,MOVING.csv"
            .into()),
    }
}

impl InitChoice {
    /// The files that it reads, with what they are.
    pub(crate) fn inputs(&self) -> Vec<Input<'_>> {
        match self {
            InitChoice::File(path) => vec![Input::new(Role::Init, path)],
            InitChoice::Landmarks([fixed, moving]) => vec![
                Input::new(Role::InitFixedLandmarks, fixed),
                Input::new(Role::InitMovingLandmarks, moving),
            ],
            _ => Vec::new(),
        }
    }

    /// Whether it has points.
    #[must_use]
    pub fn has_points(&self) -> bool {
        matches!(self, InitChoice::Landmarks(_))
    }

    /// The start; that of a file is relative to the grids of the two images, points are in a convention where their
    /// files do not say it.
    ///
    /// # Errors
    /// A file that is no affine transform; points that do not belong together, or to the images.
    pub fn load(
        &self,
        geometry: &Geometry<'_>,
        convention: Option<PointConvention>,
        listener: &dyn Listener,
    ) -> Result<Init> {
        Ok(match self {
            InitChoice::Header => Init::Header,
            InitChoice::Centre => Init::Centre,
            InitChoice::Moments => Init::Moments,
            InitChoice::Identity => Init::Identity,
            InitChoice::File(path) => {
                let start = files::transform(path, geometry, listener)?;
                Init::Given(start.to_affine().map_err(|e| {
                    Error::input(text!("'{}': {e}; give an affine one", path.display()))
                })?)
            }
            InitChoice::Landmarks([fixed, moving]) => {
                let (Some(a), Some(b)) = (geometry.fixed, geometry.moving) else {
                    return Err(Error::Internal("points without images".into()));
                };
                Init::Landmarks(read_pairs([fixed, moving], convention, [a, b], listener)?)
            }
        })
    }
}

/// The name, or the file.
impl Display for InitChoice {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            InitChoice::Header => f.write_str("header"),
            InitChoice::Centre => f.write_str("centre"),
            InitChoice::Moments => f.write_str("moments"),
            InitChoice::Identity => f.write_str("identity"),
            InitChoice::File(path) => path.display().fmt(f),
            InitChoice::Landmarks([fixed, moving]) => {
                write!(f, "landmarks:{},{}", fixed.display(), moving.display())
            }
        }
    }
}

/// The value where an image is not defined.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outside(pub f32);

impl FromStr for Outside {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.eq_ignore_ascii_case("nan") {
            return Ok(Outside(f32::NAN));
        }
        number(text).map(|v| Outside(v as f32)).map_err(|e| format!("{e}, or nan"))
    }
}

impl Display for Outside {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.0.is_nan() { f.write_str("nan") } else { self.0.fmt(f) }
    }
}

/// A finite number.
///
/// # Errors
/// What it should be.
pub fn number(text: &str) -> Result<f64, String> {
    let value = text.trim().parse::<f64>().ok().filter(|v| v.is_finite());
    value.ok_or_else(|| format!("'{text}' is not a number"))
}

/// A number above 0.
///
/// # Errors
/// What it should be.
pub fn positive(text: &str) -> Result<f64, String> {
    number(text).and_then(
        |v| {
            if v > 0.0 { Ok(v) } else { Err(format!("'{text}' must be above 0")) }
        },
    )
}

/// A number that is at least 0.
///
/// # Errors
/// What it should be.
pub fn not_negative(text: &str) -> Result<f64, String> {
    number(text)
        .and_then(|v| if v >= 0.0 { Ok(v) } else { Err(format!("'{text}' must be at least 0")) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outside() {
        assert_eq!("-1024".parse(), Ok(Outside(-1024.0)));
        assert!("NaN".parse::<Outside>().unwrap().0.is_nan());
        assert!("inf".parse::<Outside>().is_err());
    }

    #[test]
    fn starts() {
        assert_eq!("centre".parse(), Ok(InitChoice::Centre));
        assert!("momentss".parse::<InitChoice>().is_err());
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, "").unwrap();
            path
        };
        let both = [file("a,1.csv"), file("b.csv")];
        let text = format!("landmarks:{},{}", both[0].display(), both[1].display());
        let found = text.parse::<InitChoice>().unwrap();
        assert_eq!((found.to_string(), found), (text, InitChoice::Landmarks(both)));
        for (bad, said) in [
            ("landmarks:", "give two files"),
            ("landmarks:a.csv", "give two files"),
            ("landmarks:nowhere.csv,b.csv", "'nowhere.csv' is not a file"),
        ] {
            let e = bad.parse::<InitChoice>().unwrap_err();
            assert!(e.contains(said), "{e}");
        }
    }
}
