//! Values of options, with parsers that say what would do.

use crate::failure::Failure;
use crate::files;
use clap::ValueEnum;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use voxalign_compute::ops::resample;
use voxalign_io::transform::Geometry;
use voxalign_register::linear::Init;

/// How values between voxels are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Interpolation {
    /// Value of the nearest voxel
    Nearest,
    /// Linear between the eight neighbours
    Linear,
    /// Cubic B-spline: sharper, may overshoot
    Cubic,
    /// For label maps: the label with the largest weight among the eight neighbours
    Label,
}

impl Interpolation {
    /// For an image; labels have a rule of their own.
    pub(crate) fn of_image(self) -> Result<resample::Interpolation, Failure> {
        match self {
            Interpolation::Nearest => Ok(resample::Interpolation::Nearest),
            Interpolation::Linear => Ok(resample::Interpolation::Linear),
            Interpolation::Cubic => Ok(resample::Interpolation::Cubic),
            Interpolation::Label => Err(Failure::input(
                "--interpolation label is for label maps; use nearest, linear or cubic for an image",
            )),
        }
    }
}

/// Where a registration starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum InitChoice {
    Header,
    Centre,
    Moments,
    Identity,
    File(PathBuf),
}

impl FromStr for InitChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "header" => InitChoice::Header,
            "centre" | "center" => InitChoice::Centre,
            "moments" => InitChoice::Moments,
            "identity" => InitChoice::Identity,
            "" => return Err("use header, centre, moments, identity or a transform file".into()),
            _ if !Path::new(text).exists() => {
                return Err(
                    "neither header, centre, moments or identity, nor an existing file".into()
                );
            }
            _ => InitChoice::File(text.into()),
        })
    }
}

impl InitChoice {
    /// The library's start.
    pub(crate) fn load(&self, geometry: &Geometry<'_>) -> Result<Init, Failure> {
        Ok(match self {
            InitChoice::Header => Init::Header,
            InitChoice::Centre => Init::Centre,
            InitChoice::Moments => Init::Moments,
            InitChoice::Identity => Init::Identity,
            InitChoice::File(path) => {
                let start = files::transform(path, geometry)?;
                Init::Given(start.to_affine().map_err(|e| {
                    Failure::input(format!("'{}': {e}; give an affine one", path.display()))
                })?)
            }
        })
    }

    /// The name, or the file.
    pub(crate) fn name(&self) -> String {
        match self {
            InitChoice::Header => "header".into(),
            InitChoice::Centre => "centre".into(),
            InitChoice::Moments => "moments".into(),
            InitChoice::Identity => "identity".into(),
            InitChoice::File(path) => path.display().to_string(),
        }
    }
}

/// Ranges of angles about x, y and z, degrees.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Angles(pub(crate) [[f64; 2]; 3]);

impl FromStr for Angles {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<_> = text.split(',').map(str::trim).collect();
        let ranges = parts.iter().map(|p| angle_range(p)).collect::<Result<Vec<_>, _>>()?;
        match ranges[..] {
            [all] => Ok(Angles([all; 3])),
            [x, y, z] => Ok(Angles([x, y, z])),
            _ => Err(format!(
                "{} angles are given; give one for all axes, or three (x,y,z)",
                ranges.len()
            )),
        }
    }
}

fn angle_range(text: &str) -> Result<[f64; 2], String> {
    let range = match text.split_once(':') {
        Some((low, high)) => [number(low)?, number(high)?],
        None => {
            let a = number(text)?;
            [-a, a]
        }
    };
    if range[0] > range[1] || range.iter().any(|a| a.abs() > 180.0) {
        return Err(format!(
            "'{text}' is not a range of angles: use A from 0 to 180, or MIN:MAX from -180 to 180"
        ));
    }
    Ok(range)
}

impl Angles {
    /// The same in radians.
    pub(crate) fn radians(self) -> [[f64; 2]; 3] {
        self.0.map(|r| r.map(f64::to_radians))
    }
}

/// Steps of the rotation searches, degrees.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Steps([f64; 2]);

impl FromStr for Steps {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let steps = text.split(',').map(positive).collect::<Result<Vec<_>, _>>()?;
        match steps[..] {
            [coarse, fine] if fine >= 5.0 && fine <= coarse && coarse <= 180.0 => {
                Ok(Steps([coarse, fine]))
            }
            [_, _] => {
                Err("the fine step must be at least 5 degrees, and the coarse step between that \
                     and 180 degrees"
                    .into())
            }
            _ => Err("give two steps in degrees, coarse and fine, such as 60,18".into()),
        }
    }
}

impl Steps {
    /// The same in radians.
    pub(crate) fn radians(self) -> [f64; 2] {
        self.0.map(f64::to_radians)
    }
}

/// Spacings of the levels, mm.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Levels(pub(crate) Vec<f64>);

impl FromStr for Levels {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let levels = text.split(',').map(positive).collect::<Result<Vec<_>, _>>()?;
        if levels.windows(2).any(|w| w[1] >= w[0]) {
            return Err("give levels from coarse to fine, such as 8,4,2,1".into());
        }
        Ok(Levels(levels))
    }
}

/// The value where an image is not defined.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Outside(pub(crate) f32);

impl FromStr for Outside {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.eq_ignore_ascii_case("nan") {
            return Ok(Outside(f32::NAN));
        }
        number(text).map(|v| Outside(v as f32)).map_err(|e| format!("{e}, or nan"))
    }
}

/// A transform file, or the inverse of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TransformArg {
    pub(crate) path: PathBuf,
    pub(crate) inverse: bool,
}

impl FromStr for TransformArg {
    type Err = String;

    /// `FILE`, `inverse:FILE`, and ANTs' `[FILE,0]` and `[FILE,1]`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (path, inverse) = if let Some(path) = text.strip_prefix("inverse:") {
            (path, true)
        } else if let Some(inner) = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
            match inner.rsplit_once(',').map(|(p, flag)| (p.trim(), flag.trim())) {
                Some((path, "1")) => (path, true),
                Some((path, "0")) => (path, false),
                _ => return Err("use FILE, inverse:FILE or [FILE,1]".into()),
            }
        } else {
            (text, false)
        };
        if path.is_empty() {
            return Err("the file name is missing".into());
        }
        Ok(Self { path: path.into(), inverse })
    }
}

/// A finite number.
pub(crate) fn number(text: &str) -> Result<f64, String> {
    let value = text.trim().parse::<f64>().ok().filter(|v| v.is_finite());
    value.ok_or_else(|| format!("'{text}' is not a number"))
}

/// A number above 0.
fn positive(text: &str) -> Result<f64, String> {
    number(text).and_then(
        |v| {
            if v > 0.0 { Ok(v) } else { Err(format!("'{text}' must be above 0")) }
        },
    )
}

/// A number that is at least 0.
pub(crate) fn not_negative(text: &str) -> Result<f64, String> {
    number(text)
        .and_then(|v| if v >= 0.0 { Ok(v) } else { Err(format!("'{text}' must be at least 0")) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn angles() {
        assert_eq!("30".parse(), Ok(Angles([[-30.0, 30.0]; 3])));
        let three = "10, -90:90,0:45".parse::<Angles>().unwrap();
        assert_eq!(three.0, [[-10.0, 10.0], [-90.0, 90.0], [0.0, 45.0]]);
        for bad in ["", "1,2", "x", "-5", "20:10", "190", "1:2:3", "nan", "1,2,3,4"] {
            assert!(bad.parse::<Angles>().is_err(), "{bad}");
        }
    }

    #[test]
    fn steps_and_levels() {
        assert!("60,18".parse::<Steps>().is_ok());
        for bad in ["60", "18,60", "60,4", "0,0", "a,b", "200,18"] {
            assert!(bad.parse::<Steps>().is_err(), "{bad}");
        }
        assert_eq!("8,4".parse(), Ok(Levels(vec![8.0, 4.0])));
        for bad in ["", "4,8", "4,4", "8,-1", "8,,1"] {
            assert!(bad.parse::<Levels>().is_err(), "{bad}");
        }
    }

    #[test]
    fn transforms() {
        let parse = |t: &str| t.parse::<TransformArg>().map(|a| (a.path, a.inverse));
        assert_eq!(parse("a.mat"), Ok(("a.mat".into(), false)));
        assert_eq!(parse("inverse:a.mat"), Ok(("a.mat".into(), true)));
        assert_eq!(parse("[a,b.mat,1]"), Ok(("a,b.mat".into(), true)));
        assert_eq!(parse("[a.mat, 0]"), Ok(("a.mat".into(), false)));
        for bad in ["", "inverse:", "[a.mat]", "[a.mat,2]", "[,1]"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

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
    }
}
