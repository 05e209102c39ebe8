//! Options of the search for a pose.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use voxalign_options::{Choice, Chosen, Given, UseOf, text};
use voxalign_register::projection::XraySimilarity;
use voxalign_register::projection::register::PoseOptions;
use voxalign_register::search::OptimiserKind;

/// What the values of X-ray images are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Choice)]
pub enum Pixels {
    /// Bright where much is absorbed: bone is bright.
    Attenuation,
    /// Bright where much arrives: bone is dark, as detectors count it.
    Intensity,
}

/// The pixels of a view that a search compares where nothing is said.
const WORTH: u64 = 1 << 14;
/// The poses by which it measures the curvature of the cost.
const POSES: u64 = 12;
/// The rays that it has at a time, unless a view has more.
const RAYS: u64 = 1 << 22;

/// How the pose is found.
#[derive(Debug)]
pub struct Registration;

impl UseOf<PoseOptions> for Registration {
    const HEADING: &'static str = "Registration";
}

impl UseOf<XraySimilarity> for Registration {
    const HEADING: &'static str = "Registration";

    fn usual() -> Option<XraySimilarity> {
        Some(XraySimilarity::default())
    }
}

impl UseOf<OptimiserKind> for Registration {
    const HEADING: &'static str = "Registration";

    fn usual() -> Option<OptimiserKind> {
        Some(OptimiserKind::default())
    }
}

/// How the pose is found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(default)]
pub struct Method {
    /// How images are compared.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub similarity: Chosen<XraySimilarity, Registration>,
    /// How the minimum of the cost is found.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub optimiser: Chosen<OptimiserKind, Registration>,
    /// All else.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub given: Given<PoseOptions, Registration>,
}

/// The options of the library.
///
/// # Errors
/// What is out of range.
pub(super) fn options(method: &Method) -> Result<PoseOptions> {
    let usual = PoseOptions::default();
    let similarity = method.similarity.over(usual.similarity)?;
    let optimiser = method.optimiser.over(usual.optimiser)?;
    let options = method.given.over(PoseOptions { similarity, optimiser, ..usual })?;
    if options.redraw && options.sampling.is_none() {
        return Err(Error::input(text!(
            "`redraw` is for a part of the pixels; give `sampling`, too"
        )));
    }
    options.check_all()?;
    Ok(options)
}

/// The rays whose derivatives are held at a time, at most, for views of so many pixels.
pub(super) fn rays(options: &PoseOptions, pixels: u64, views: u64) -> u64 {
    let part = |of: f64| (of * pixels as f64).ceil() as u64;
    let compared = options.sampling.map_or(WORTH.min(pixels), part);
    // Derivatives differ between draws of a tenth.
    let again = part(0.1);
    (POSES * compared).min(RAYS / views.max(1)).max(compared).max(again)
}
