//! How a pose is searched.

use crate::error::{Error, Result};
use crate::options::{Levels, as_text, by_name};
use crate::projection::Numbers;
use serde::{Deserialize, Serialize};
use voxalign_register::choices;
use voxalign_register::projection::XraySimilarity;
use voxalign_register::projection::register::{Metal, PoseOptions, Range, Refinement, Response};
use voxalign_register::search::OptimiserKind;

/// What the values of X-ray images are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pixels {
    /// Attenuation.
    Attenuation,
    /// Intensity.
    Intensity,
}

choices! { Pixels:
    Attenuation "attenuation" "Bright where much is absorbed: bone is bright",
    Intensity "intensity" "Bright where much arrives: bone is dark, as detectors count it",
}

/// The pixels of a view that a search compares where nothing is said.
const WORTH: u64 = 1 << 14;
/// The poses by which it measures the curvature of the cost.
const POSES: u64 = 12;
/// The rays that it has at a time, unless a view has more.
const RAYS: u64 = 1 << 22;

/// How the pose is found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Registration"))]
#[serde(default)]
pub struct Method {
    /// What is compared [default: gradient-ncc]
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME", value_parser = crate::options::choice::<XraySimilarity>()))]
    #[serde(with = "by_name")]
    pub similarity: Option<XraySimilarity>,
    /// How the minimum is found [default: bfgs]
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME", value_parser = crate::options::choice::<OptimiserKind>()))]
    #[serde(with = "by_name")]
    pub optimiser: Option<OptimiserKind>,
    /// The part of the pixels that is compared, drawn at random: such as 0.05 [default: as many as are worth it]
    #[cfg_attr(feature = "clap", arg(long, value_name = "PART"))]
    pub sampling: Option<f64>,
    /// Draw other pixels for each evaluation of a cost
    #[cfg_attr(feature = "clap", arg(long, requires = "sampling"))]
    pub redraw: bool,
    /// How far from the start the search begins to look, and how far around the result others are looked for, along and about
    /// each axis, mm and degrees [default: 20,15]
    #[cfg_attr(feature = "clap", arg(long, value_name = "MM,DEGREES"))]
    #[serde(with = "as_text")]
    pub range: Option<Numbers<2>>,
    /// How many poses within the range the search begins with; 1 for a local search from the start [default: 256]
    #[cfg_attr(feature = "clap", arg(long, value_name = "COUNT"))]
    pub starts: Option<usize>,
    /// Sizes of pixels at the place of the CT, coarse to fine, mm [default: down to the voxels of the CT, each half of that before]
    #[cfg_attr(feature = "clap", arg(long, value_name = "MM,MM,..."))]
    #[serde(with = "as_text")]
    pub levels: Option<Levels>,
    /// What of the geometry of each view is refined together with the pose; of two views or more [default: nothing]
    #[cfg_attr(feature = "clap", arg(long, value_name = "WHAT", value_parser = crate::options::choice::<Refinement>()))]
    #[serde(with = "by_name")]
    pub refine: Option<Refinement>,
    /// What becomes of pixels that show what the CT does not: metal, markers, text [default: mask]
    #[cfg_attr(feature = "clap", arg(long, value_name = "WHAT", value_parser = crate::options::choice::<Metal>()))]
    #[serde(with = "by_name")]
    pub metal: Option<Metal>,
    /// What becomes of values that are no attenuations, but rise and fall with them [default: straighten]
    #[cfg_attr(feature = "clap", arg(long, value_name = "WHAT", value_parser = crate::options::choice::<Response>()))]
    #[serde(with = "by_name")]
    pub response: Option<Response>,
    /// How often the result is found again from places near it, for its uncertainty [default: 4]
    #[cfg_attr(feature = "clap", arg(long, value_name = "COUNT"))]
    pub restarts: Option<usize>,
    /// What random draws begin with [default: 0]
    #[cfg_attr(feature = "clap", arg(long, value_name = "NUMBER"))]
    pub seed: Option<u64>,
}

impl Method {
    /// The options of the library.
    ///
    /// # Errors
    /// What is out of range.
    pub fn options(&self) -> Result<PoseOptions> {
        let usual = PoseOptions::default();
        if self.redraw && self.sampling.is_none() {
            return Err(Error::input("`redraw` is for a part of the pixels; give `sampling`, too"));
        }
        let range = self
            .range
            .map_or(usual.range, |r| Range { translation: r.0[0], rotation: r.0[1].to_radians() });
        let options = PoseOptions {
            similarity: self.similarity.unwrap_or(usual.similarity),
            optimiser: self.optimiser.unwrap_or(usual.optimiser),
            sampling: self.sampling,
            redraw: self.redraw,
            seed: self.seed.unwrap_or(usual.seed),
            range,
            starts: self.starts.unwrap_or(usual.starts),
            levels: self.levels.as_ref().map(|l| l.0.clone()).unwrap_or_default(),
            restarts: self.restarts.unwrap_or(usual.restarts),
            refine: self.refine,
            metal: self.metal.unwrap_or(usual.metal),
            response: self.response.unwrap_or(usual.response),
            ..usual
        };
        options.check()?;
        Ok(options)
    }

    /// Whether images are looked at for metal and bent values.
    pub(super) fn adapts(&self) -> bool {
        self.metal != Some(Metal::Keep) || self.response != Some(Response::Keep)
    }

    /// The rays whose derivatives are held at a time, at most, for views of so many pixels.
    pub(super) fn rays(&self, pixels: u64, views: u64) -> u64 {
        let part = |of: f64| (of * pixels as f64).ceil() as u64;
        let compared = self.sampling.map_or(WORTH.min(pixels), part);
        // Derivatives differ between draws of a tenth.
        let again = part(0.1);
        (POSES * compared).min(RAYS / views.max(1)).max(compared).max(again)
    }
}
