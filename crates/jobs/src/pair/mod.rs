//! The images of a registration: their files, what is read, and how they are scored.

mod held;
mod landmarks;
mod views;

pub use held::{EXACT, Held, HeldImage};
pub use landmarks::remedy as landmark_remedy;
pub(crate) use landmarks::{Distances, read_pairs, remarks as landmark_remarks};
pub use views::Views;
pub(crate) use views::score_figures;

use crate::bids::BidsOptions;
use crate::error::{Error, Result};
use crate::files;
use crate::job::missing;
use crate::listener::{Listener, reading};
use crate::options::{OutputOptions, as_text, refuse};
use crate::run::{Input, IntoBids, Role};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use voxalign_compute::Device;
use voxalign_image::{Grid, LabelMap, Volume};
use voxalign_io::image::{ImageInfo, ReadOptions};
use voxalign_io::names::{LabelNames, read_label_names};
use voxalign_options::{Text, text};
use voxalign_register::compare::{OverlapRule, same_grid};
use voxalign_register::linear::AffineInput;
use voxalign_register::scores::{Resampled, Scoring};

/// What goes with the two images.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "clap", command(next_help_heading = "Masks and labels"))]
#[serde(default)]
pub struct MaskPaths {
    /// Mask of the fixed image, on its grid: only voxels above 0 count
    #[cfg_attr(feature = "clap", arg(long, value_name = "IMAGE"))]
    pub fixed_mask: Option<PathBuf>,
    /// Mask of the moving image, on its grid: only voxels above 0 count, so that a lesion can be left out
    #[cfg_attr(feature = "clap", arg(long, value_name = "IMAGE"))]
    pub moving_mask: Option<PathBuf>,
    /// Label map of the fixed image, to report the overlap before and after; not used for the
    /// registration
    #[cfg_attr(feature = "clap", arg(long, value_name = "LABELS", display_order = 1000))]
    pub fixed_labels: Option<PathBuf>,
    /// Label map of the moving image, to report the overlap before and after
    #[cfg_attr(feature = "clap", arg(long, value_name = "LABELS", display_order = 1001))]
    pub moving_labels: Option<PathBuf>,
    /// Names of the labels: FreeSurfer's colour table, ITK-SNAP's label descriptions, or CSV or TSV
    /// with a number and a name in each line
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE", display_order = 1002))]
    pub label_names: Option<PathBuf>,
}

/// Which image of a file or folder that holds several.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "clap", command(next_help_heading = "Which image"))]
#[serde(default)]
pub struct Which {
    /// Which volume of a fixed image with several, such as a 4D NIfTI file, counted from 0
    #[cfg_attr(feature = "clap", arg(long, value_name = "N"))]
    pub fixed_volume: Option<usize>,
    /// The same for the moving image
    #[cfg_attr(feature = "clap", arg(long, value_name = "N"))]
    pub moving_volume: Option<usize>,
    /// Which DICOM series of a fixed image folder with several: its UID, or its number in the list that `voxalign info
    /// FOLDER` shows
    #[cfg_attr(feature = "clap", arg(long, value_name = "UID|N"))]
    #[serde(with = "as_text")]
    pub fixed_series: Option<String>,
    /// The same for the moving image
    #[cfg_attr(feature = "clap", arg(long, value_name = "UID|N"))]
    #[serde(with = "as_text")]
    pub moving_series: Option<String>,
}

impl Which {
    /// Of the fixed and of the moving image, as readers take it.
    pub(crate) fn of_both(&self) -> [ReadOptions; 2] {
        let of = |volume: Option<usize>, series: &Option<String>| ReadOptions {
            series: series.clone(),
            volume,
            ..ReadOptions::default()
        };
        [of(self.fixed_volume, &self.fixed_series), of(self.moving_volume, &self.moving_series)]
    }

    /// What was chosen, for the record.
    pub(crate) fn parameters(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(all)) => all.into_iter().filter(|(_, v)| !v.is_null()).collect(),
            _ => Map::new(),
        }
    }
}

/// The files that every registration of a pair reads.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(default)]
pub struct PairPaths {
    /// The fixed (reference) image
    #[cfg_attr(
        feature = "clap",
        arg(value_name = "FIXED", default_value = "", hide_default_value = true, value_parser = crate::options::path())
    )]
    pub fixed: PathBuf,
    /// The moving image, which is registered to it
    #[cfg_attr(
        feature = "clap",
        arg(value_name = "MOVING", default_value = "", hide_default_value = true, value_parser = crate::options::path())
    )]
    pub moving: PathBuf,
    /// What goes with them.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub masks: MaskPaths,
    /// Which of several images in a file.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub which: Which,
}

impl PairPaths {
    /// Two images.
    pub fn new(fixed: impl Into<PathBuf>, moving: impl Into<PathBuf>) -> Self {
        Self { fixed: fixed.into(), moving: moving.into(), ..Self::default() }
    }

    /// Into a data set of BIDS derivatives.
    pub(crate) fn as_bids<'a>(&'a self, options: &'a BidsOptions) -> IntoBids<'a> {
        IntoBids { options, fixed: &self.fixed, moving: &self.moving }
    }

    /// All files with what they are.
    pub(crate) fn all(&self) -> Vec<Input<'_>> {
        let [fixed, moving] = self.which.of_both();
        let mut all = vec![
            Input::new(Role::Fixed, &self.fixed).of(fixed),
            Input::new(Role::Moving, &self.moving).of(moving),
        ];
        // Those in memory are of no file.
        all.retain(|input| !input.path().as_os_str().is_empty());
        let masks = &self.masks;
        all.extend(Input::those_given(&[
            (Role::FixedMask, &masks.fixed_mask),
            (Role::MovingMask, &masks.moving_mask),
            (Role::FixedLabels, &masks.fixed_labels),
            (Role::MovingLabels, &masks.moving_labels),
            (Role::LabelNames, &masks.label_names),
        ]));
        all
    }

    /// The first of the two images that is missing.
    pub(crate) fn missing(&self) -> Option<&'static str> {
        missing(&[
            (&self.fixed, "the fixed image FIXED"),
            (&self.moving, "the moving image MOVING"),
        ])
    }

    /// Label maps come in pairs.
    pub(crate) fn check(&self) -> Result<()> {
        self.masks.check()
    }

    /// Reads them all.
    ///
    /// # Errors
    /// What is wrong with a file.
    pub fn read(&self, listener: &dyn Listener) -> Result<Pair> {
        self.read_beside(Held::default(), listener)
    }

    /// The same where some of the images are in memory: no file is named for these.
    ///
    /// # Errors
    /// As of [`read`](Self::read); one of several images of a file, where there is none.
    pub fn read_beside(&self, held: Held, listener: &dyn Listener) -> Result<Pair> {
        let [of_fixed, of_moving] = self.which.of_both();
        let image = |held: Option<HeldImage>, path: &Path, which: &ReadOptions, role: Role| {
            let Some(image) = held else {
                let read = files::image_of(path, which, listener);
                return read.map(HeldImage::from).map_err(|e| e.choosing(role));
            };
            let names = match role {
                Role::Fixed => ["fixed_volume", "fixed_series"],
                _ => ["moving_volume", "moving_series"],
            };
            let given = [which.volume.is_some(), which.series.is_some()];
            for (name, given) in names.into_iter().zip(given) {
                refuse(given, name, "images that are read from files")?;
            }
            Ok(image)
        };
        let fixed = image(held.fixed, &self.fixed, &of_fixed, Role::Fixed)?;
        let moving = image(held.moving, &self.moving, &of_moving, Role::Moving)?;
        let mut pair = Pair::new(fixed.image, moving.image);
        pair.dimensions = fixed.dimensions;
        pair.oddities.fixed = fixed.info.as_ref().map_or_else(Vec::new, |i| odd("fixed", i));
        pair.oddities.moving = moving.info.as_ref().map_or_else(Vec::new, |i| odd("moving", i));
        (pair.fixed_mask, pair.moving_mask) = (held.fixed_mask, held.moving_mask);
        (pair.fixed_labels, pair.moving_labels) = (held.fixed_labels, held.moving_labels);
        self.masks.read(pair, listener)
    }
}

/// What the reader of a result should know of the file of an image.
pub(crate) fn odd(role: &str, info: &ImageInfo) -> Vec<Text> {
    let odd = info.oddities.iter().filter(|o| !o.is_normal_geometry());
    odd.map(|o| text!("the file of the {role} image: {o}")).collect()
}

impl MaskPaths {
    /// Label maps come in pairs.
    pub(crate) fn check(&self) -> Result<()> {
        if self.fixed_labels.is_some() != self.moving_labels.is_some() {
            return Err(Error::input(text!(
                "`fixed_labels` and `moving_labels` go together; give both or neither"
            )));
        }
        if self.label_names.is_some() && self.fixed_labels.is_none() {
            return Err(Error::input(text!(
                "`label_names` is for label maps; give `fixed_labels` and `moving_labels` too"
            )));
        }
        Ok(())
    }

    /// Reads all that goes with a pair.
    ///
    /// # Errors
    /// What is wrong with a file, with the name of its option.
    pub fn read(&self, mut pair: Pair, listener: &dyn Listener) -> Result<Pair> {
        let labels = |path: &Option<PathBuf>, option: &str| {
            path.as_ref()
                .map(|p| files::labels(p, listener).map_err(|e| e.at(Text::option(option))))
                .transpose()
        };
        let mask = |path, option| optional_image(path, option, listener);
        // What the pair has already is in memory.
        pair.fixed_mask = mask(&self.fixed_mask, "fixed_mask")?.or(pair.fixed_mask);
        pair.moving_mask = mask(&self.moving_mask, "moving_mask")?.or(pair.moving_mask);
        pair.fixed_labels = labels(&self.fixed_labels, "fixed_labels")?.or(pair.fixed_labels);
        pair.moving_labels = labels(&self.moving_labels, "moving_labels")?.or(pair.moving_labels);
        pair.label_names = label_names(&self.label_names, listener)?;
        pair.rule()?;
        Ok(pair)
    }
}

/// Reads the table of label names; without one no label has a name.
pub(crate) fn label_names(path: &Option<PathBuf>, listener: &dyn Listener) -> Result<LabelNames> {
    let read = |p: &PathBuf| {
        reading(listener, || read_label_names(p)).map_err(|e| e.at(text!("`label_names`")))
    };
    Ok(path.as_ref().map(read).transpose()?.unwrap_or_default())
}

/// Reads an image that an option names.
pub(crate) fn optional_image(
    path: &Option<PathBuf>,
    option: &str,
    listener: &dyn Listener,
) -> Result<Option<Volume<f32>>> {
    path.as_ref()
        .map(|p| files::image(p, listener).map_err(|e| e.at(Text::option(option))))
        .transpose()
}

/// The images of a pair, and what goes with them.
#[derive(Debug, Clone)]
pub struct Pair {
    /// The image that stays.
    pub fixed: Arc<Volume<f32>>,
    /// The image that is brought to it.
    pub moving: Arc<Volume<f32>>,
    /// What counts of the fixed image, above 0, on its grid.
    pub fixed_mask: Option<Volume<f32>>,
    /// What counts of the moving image, above 0, on its grid.
    pub moving_mask: Option<Volume<f32>>,
    /// Labels on the grid of the fixed image, for scores alone.
    pub fixed_labels: Option<LabelMap>,
    /// Labels of the moving image.
    pub moving_labels: Option<LabelMap>,
    /// What labels are called.
    pub label_names: LabelNames,
    /// Dimensions of the files of results, 2 or 3.
    pub dimensions: usize,
    /// What is odd about the two images.
    oddities: Oddities,
}

/// What is odd about two images.
#[derive(Debug, Clone, Default)]
struct Oddities {
    fixed: Vec<Text>,
    moving: Vec<Text>,
    both: Vec<Text>,
}

impl Oddities {
    fn of_both(fixed: &Arc<Volume<f32>>, moving: &Arc<Volume<f32>>) -> Vec<Text> {
        let same = (fixed == moving).then(|| text!("the fixed and the moving image are the same"));
        same.into_iter().collect()
    }
}

impl Pair {
    /// Two images, which may be shared with others.
    #[must_use]
    pub fn new(fixed: impl Into<Arc<Volume<f32>>>, moving: impl Into<Arc<Volume<f32>>>) -> Self {
        let (fixed, moving) = (fixed.into(), moving.into());
        let dimensions = if fixed.grid().is_2d() { 2 } else { 3 };
        let both = Oddities::of_both(&fixed, &moving);
        Self {
            fixed,
            moving,
            fixed_mask: None,
            moving_mask: None,
            fixed_labels: None,
            moving_labels: None,
            label_names: LabelNames::default(),
            dimensions,
            oddities: Oddities { both, ..Oddities::default() },
        }
    }

    /// Another fixed image on the same grid takes the place of this one, with what is odd about its file.
    pub(crate) fn set_fixed(&mut self, fixed: Arc<Volume<f32>>, odd: Vec<Text>) {
        self.oddities.both = Oddities::of_both(&fixed, &self.moving);
        self.oddities.fixed = odd;
        self.fixed = fixed;
    }

    /// What is odd about the file of the fixed image.
    pub(crate) fn odd_fixed(&self) -> &[Text] {
        &self.oddities.fixed
    }

    /// The same moving image and masks with another fixed image on the same grid, without labels.
    pub(crate) fn of_frame(&self, fixed: Arc<Volume<f32>>, odd: Vec<Text>) -> Result<Self> {
        let mask = |mask: &Option<Volume<f32>>| mask.as_ref().map(Volume::try_clone).transpose();
        let mut pair = Self::new(fixed, Arc::clone(&self.moving));
        (pair.oddities.fixed, pair.oddities.moving) = (odd, self.oddities.moving.clone());
        pair.fixed_mask = mask(&self.fixed_mask)?;
        pair.moving_mask = mask(&self.moving_mask)?;
        pair.dimensions = self.dimensions;
        Ok(pair)
    }

    /// What is odd about the two images.
    pub(crate) fn oddities(&self) -> impl Iterator<Item = &Text> {
        let Oddities { fixed, moving, both } = &self.oddities;
        fixed.iter().chain(moving).chain(both)
    }

    /// Which labels count: those of both maps, of which the first is on the grid of the fixed image.
    ///
    /// # Errors
    /// A map on another grid; no label in common.
    pub(crate) fn rule(&self) -> Result<OverlapRule> {
        match (&self.fixed_labels, &self.moving_labels) {
            (Some(fixed), Some(moving)) => label_rule(fixed, moving, self.fixed.grid()),
            _ => Ok(OverlapRule::default()),
        }
    }

    /// How the moving image is resampled onto the fixed one and scored.
    pub(crate) fn scoring<'a>(
        &'a self,
        rule: &'a OverlapRule,
        (output, outside): (&OutputOptions, f32),
    ) -> Result<Scoring<'a>> {
        Ok(Scoring {
            fixed: &self.fixed,
            fixed_mask: self.fixed_mask.as_ref(),
            fixed_labels: self.fixed_labels.as_ref(),
            moving_labels: self.moving_labels.as_ref(),
            tissue: None,
            rule,
            interpolation: output.interpolation().of_image()?,
            outside,
        })
    }

    /// What the reader of a result should know that no check of the registration can see.
    pub(crate) fn remarks(&self, views: &Views) -> Vec<Text> {
        let mut remarks: Vec<_> = self.oddities().cloned().collect();
        let dice = |view: &Resampled| view.scores.labels.as_ref().and_then(|l| l.mean_dice);
        if let (Some(before), Some(after)) = (dice(&views.before), dice(&views.after))
            && after < before
        {
            remarks.push(text!(
                "the labels overlap less than before: mean Dice {after:.4}, before {before:.4}"
            ));
        }
        remarks
    }

    /// What an affine registration takes.
    pub(crate) fn as_affine_input(&self) -> AffineInput<'_> {
        AffineInput {
            fixed_mask: self.fixed_mask.as_ref().map(Into::into),
            moving_mask: self.moving_mask.as_ref().map(Into::into),
            ..AffineInput::new(&*self.fixed, &*self.moving)
        }
    }

    /// Takes the moving image out once it has been registered; one voxel is left.
    pub(crate) fn take_moving(&mut self) -> Result<Arc<Volume<f32>>> {
        let one = Volume::filled(Grid::axis_aligned([1; 3], [1.0; 3])?, 0.0);
        Ok(std::mem::replace(&mut self.moving, one.into()))
    }
}

/// The value outside of a moving image: what was asked for, else 0, or, of images such as CT whose background is below 0, the
/// smallest value.
///
/// # Errors
/// What fails on the device, where the image is there.
pub(crate) fn outside<D: Device>(
    device: &D,
    output: &OutputOptions,
    moving: &Volume<f32>,
) -> Result<f32> {
    output.outside().map_or_else(|| files::background_on(device, moving), Ok)
}

/// Which labels count, of two maps of which the first is on the grid of the fixed image.
fn label_rule(fixed: &LabelMap, moving: &LabelMap, grid: &Grid) -> Result<OverlapRule> {
    same_grid(fixed.grid(), grid)
        .map_err(|e| Error::from(e).at(text!("`fixed_labels` and the fixed image")))?;
    let rule = OverlapRule::common_labels(fixed, moving);
    if rule.only.as_ref().is_some_and(BTreeSet::is_empty) {
        return Err(Error::input(text!(
            "`fixed_labels` and `moving_labels` have no label in common; check that they use the \
             same numbers"
        )));
    }
    Ok(rule)
}
