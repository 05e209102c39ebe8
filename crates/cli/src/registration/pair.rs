//! The images of a registration: their files, what is read, and how they are scored.

use super::{Input, Views};
use crate::args::OutputArgs;
use crate::failure::Failure;
use crate::files;
use crate::progress::Talk;
use std::collections::BTreeSet;
use std::path::PathBuf;
use voxalign_image::{Grid, LabelMap, Volume};
use voxalign_io::names::{LabelNames, read_label_names};
use voxalign_register::compare::{OverlapRule, same_grid};
use voxalign_register::scores::{Resampled, Scoring};

/// The files that every registration of a pair reads.
#[derive(Debug, Clone, Default)]
pub(crate) struct PairPaths {
    pub(crate) fixed: PathBuf,
    pub(crate) moving: PathBuf,
    pub(crate) fixed_mask: Option<PathBuf>,
    pub(crate) moving_mask: Option<PathBuf>,
    pub(crate) fixed_labels: Option<PathBuf>,
    pub(crate) moving_labels: Option<PathBuf>,
    pub(crate) label_names: Option<PathBuf>,
}

impl PairPaths {
    /// All files with what they are.
    pub(crate) fn all(&self) -> Vec<Input<'_>> {
        let mut all =
            vec![Input::image("fixed", &self.fixed), Input::image("moving", &self.moving)];
        let optional = [
            ("fixed_mask", &self.fixed_mask),
            ("moving_mask", &self.moving_mask),
            ("fixed_labels", &self.fixed_labels),
            ("moving_labels", &self.moving_labels),
        ];
        all.extend(Input::those_given(&optional));
        all.extend(self.label_names.as_deref().map(|p| Input::other("label_names", p)));
        all
    }

    /// Label maps come in pairs.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if self.fixed_labels.is_some() != self.moving_labels.is_some() {
            return Err(Failure::input(
                "--fixed-labels and --moving-labels go together; give both or neither",
            ));
        }
        if self.label_names.is_some() && self.fixed_labels.is_none() {
            return Err(Failure::input(
                "--label-names is for label maps; give --fixed-labels and --moving-labels too",
            ));
        }
        Ok(())
    }

    /// Reads them all.
    pub(crate) fn read(&self, talk: Talk) -> Result<Pair, Failure> {
        let labels = |path: &Option<PathBuf>, option: &str| {
            path.as_ref().map(|p| files::labels(p).map_err(|e| e.at(option))).transpose()
        };
        let (fixed, info) = files::image_with_info(&self.fixed, talk)?;
        let (moving, moving_info) = files::image_with_info(&self.moving, talk)?;
        let mut oddities = Vec::new();
        for (role, info) in [("fixed", &info), ("moving", &moving_info)] {
            let odd = info.oddities.iter().filter(|o| !files::is_normal_geometry(o));
            oddities.extend(odd.map(|o| format!("the file of the {role} image: {o}")));
        }
        if fixed == moving {
            oddities.push("the fixed and the moving image are the same".to_owned());
        }
        let mut pair = Pair {
            fixed,
            dimensions: info.dimensions,
            moving,
            oddities,
            fixed_mask: optional_image(&self.fixed_mask, "--fixed-mask", talk)?,
            moving_mask: optional_image(&self.moving_mask, "--moving-mask", talk)?,
            fixed_labels: labels(&self.fixed_labels, "--fixed-labels")?,
            moving_labels: labels(&self.moving_labels, "--moving-labels")?,
            label_names: label_names(&self.label_names)?,
            rule: OverlapRule::default(),
        };
        if let (Some(fixed), Some(moving)) = (&pair.fixed_labels, &pair.moving_labels) {
            pair.rule = label_rule(fixed, moving, pair.fixed.grid())?;
        }
        Ok(pair)
    }
}

/// Reads the table of `--label-names`; without one no label has a name.
pub(crate) fn label_names(path: &Option<PathBuf>) -> Result<LabelNames, Failure> {
    let read = |p: &PathBuf| read_label_names(p).map_err(|e| Failure::from(e).at("--label-names"));
    Ok(path.as_ref().map(read).transpose()?.unwrap_or_default())
}

/// Reads an image that an option names.
pub(crate) fn optional_image(
    path: &Option<PathBuf>,
    option: &str,
    talk: Talk,
) -> Result<Option<Volume<f32>>, Failure> {
    path.as_ref().map(|p| files::image(p, talk).map_err(|e| e.at(option))).transpose()
}

/// The images of a pair.
pub(crate) struct Pair {
    pub(crate) fixed: Volume<f32>,
    /// Dimensions of the file of the fixed image, 2 or 3.
    pub(crate) dimensions: usize,
    pub(crate) moving: Volume<f32>,
    /// What is odd about the files of the two images.
    oddities: Vec<String>,
    pub(crate) fixed_mask: Option<Volume<f32>>,
    pub(crate) moving_mask: Option<Volume<f32>>,
    pub(crate) fixed_labels: Option<LabelMap>,
    pub(crate) moving_labels: Option<LabelMap>,
    pub(crate) label_names: LabelNames,
    /// Which labels count.
    rule: OverlapRule,
}

impl Pair {
    /// How the moving image is resampled onto the fixed one and scored.
    pub(crate) fn scoring(
        &self,
        output: &OutputArgs,
        outside: f32,
    ) -> Result<Scoring<'_>, Failure> {
        Ok(Scoring {
            fixed: &self.fixed,
            fixed_mask: self.fixed_mask.as_ref(),
            fixed_labels: self.fixed_labels.as_ref(),
            moving_labels: self.moving_labels.as_ref(),
            tissue: None,
            rule: &self.rule,
            interpolation: output.interpolation().of_image()?,
            outside,
        })
    }

    /// What the reader of a result should know that no check of the registration can see.
    pub(crate) fn remarks(&self, views: &Views) -> Vec<String> {
        let mut remarks = self.oddities.clone();
        let dice = |view: &Resampled| view.scores.labels.as_ref().and_then(|l| l.mean_dice);
        if let (Some(before), Some(after)) = (dice(&views.before), dice(&views.after))
            && after < before
        {
            remarks.push(format!(
                "the labels overlap less than before: mean Dice {after:.4}, before {before:.4}"
            ));
        }
        remarks
    }

    /// The value outside of the moving image: what was asked for, else 0, or, of images such as CT
    /// whose background is below 0, the smallest value.
    pub(crate) fn outside(&self, output: &OutputArgs) -> f32 {
        output.outside().unwrap_or_else(|| files::background(&self.moving))
    }

    /// Takes the moving image out once it has been registered; one voxel is left.
    pub(crate) fn take_moving(&mut self) -> Result<Volume<f32>, Failure> {
        let one = Volume::filled(Grid::axis_aligned([1; 3], [1.0; 3])?, 0.0);
        Ok(std::mem::replace(&mut self.moving, one))
    }
}

/// Which labels count, of two maps of which the first is on the grid of the fixed image.
fn label_rule(fixed: &LabelMap, moving: &LabelMap, grid: &Grid) -> Result<OverlapRule, Failure> {
    same_grid(fixed.grid(), grid)
        .map_err(|e| Failure::from(e).at("--fixed-labels and the fixed image"))?;
    let rule = OverlapRule::common_labels(fixed, moving);
    if rule.only.as_ref().is_some_and(BTreeSet::is_empty) {
        return Err(Failure::input(
            "--fixed-labels and --moving-labels have no label in common; check that they use the \
             same numbers",
        ));
    }
    Ok(rule)
}
