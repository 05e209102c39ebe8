//! Scores of how well two images, label maps, point lists, meshes or transforms agree.
//!
//! A [`Job`] reads files. In memory, [`voxalign_register::compare`] has the scores, [`transforms`] those of transforms on a
//! grid of their own.
//!
//! ```no_run
//! use voxalign_jobs::{Silent, compare};
//!
//! # fn main() -> Result<(), voxalign_jobs::Error> {
//! let scores = compare::Job::of_images("fixed.nii.gz", "warped.nii.gz").run(&Silent)?;
//! println!("{:?}", scores.images.and_then(|s| s.ncc));
//! # Ok(())
//! # }
//! ```

use crate::chain::{Chain, Link, own_grid};
use crate::error::{Error, Result};
use crate::files::{self, Grids};
use crate::listener::{Level, Listener};
use crate::machine::host;
use crate::options::{GeometryOptions, PointOptions, refuse};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use voxalign_image::{Grid, Mesh, PointSet, Transform, Volume};
use voxalign_io::names::{LabelNames, read_label_names};
use voxalign_options::{OptionError, Text, text};
use voxalign_register::compare::{
    ImageScores, LabelScore, LandmarkScores, MeshScores, OverlapRule, OverlapScores,
    TransformScores, compare_images, compare_labels, compare_landmarks, compare_meshes,
    compare_transforms,
};

/// Two things that are to be compared.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(default)]
pub struct Job {
    /// The fixed image or label map
    #[cfg_attr(
        feature = "clap",
        arg(value_name = "FIXED", requires = "warped", required_unless_present_any = ["points", "meshes", "transforms"])
    )]
    pub fixed: Option<PathBuf>,
    /// The other image or label map, on the same grid
    #[cfg_attr(feature = "clap", arg(value_name = "WARPED"))]
    pub warped: Option<PathBuf>,
    /// FIXED and WARPED are label maps
    #[cfg_attr(feature = "clap", arg(long, requires = "fixed"))]
    pub labels: bool,
    /// Compare only where this image is above 0
    #[cfg_attr(feature = "clap", arg(long, value_name = "IMAGE", conflicts_with_all = ["points", "meshes"]))]
    pub mask: Option<PathBuf>,
    /// Number of bins along each axis of the joint histogram [default: 64]
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "N", conflicts_with = "labels", value_parser = clap::value_parser!(u16).range(2..=4096))
    )]
    pub bins: Option<u16>,
    /// In the mean Dice, leave out labels with fewer voxels in one of the maps; with 0, a label
    /// that one map lacks counts as 0
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "N", default_value_t = 0, requires = "labels")
    )]
    pub min_voxels: usize,
    /// In the mean Dice, leave out labels below this
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "LABEL", requires = "labels", allow_hyphen_values = true)
    )]
    pub smallest_label: Option<i32>,
    /// Names of the labels: FreeSurfer's colour table, ITK-SNAP's label descriptions, or CSV or TSV
    /// with a number and a name in each line
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE", requires = "labels"))]
    pub label_names: Option<PathBuf>,
    /// Two lists of corresponding points: CSV with world coordinates in mm, or lists of 3D Slicer, elastix, ANTs or MNI
    #[cfg_attr(feature = "clap", arg(long, num_args = 2, action = clap::ArgAction::Set, value_names = ["A", "B"]))]
    pub points: Vec<PathBuf>,
    /// Two surfaces, or curves, or streamlines
    #[cfg_attr(
        feature = "clap",
        arg(long, num_args = 2, action = clap::ArgAction::Set, value_names = ["A", "B"], conflicts_with_all = ["fixed", "points"])
    )]
    pub meshes: Vec<PathBuf>,
    /// How points and meshes are read.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub lists: PointOptions,
    /// Two transforms, each FILE or inverse:FILE
    #[cfg_attr(
        feature = "clap",
        arg(long, num_args = 2, action = clap::ArgAction::Set, value_names = ["A", "B"], conflicts_with_all = ["fixed", "points", "meshes"])
    )]
    pub transforms: Vec<Link>,
    /// The images that transform files are relative to.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub geometry: GeometryOptions,
}

/// All scores that were asked for.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Scores {
    /// Of images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub images: Option<ImageScores>,
    /// Of label maps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<NamedOverlap>,
    /// Of corresponding points.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub landmarks: Option<LandmarkScores>,
    /// Of meshes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meshes: Option<MeshScores>,
    /// Of transforms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transforms: Option<TransformScores>,
}

/// How label maps overlap, with the names of the labels.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NamedOverlap {
    /// Every label of either map but the background, in ascending order.
    pub labels: Vec<NamedLabel>,
    /// Mean Dice over the labels that count; `None` where none does.
    pub mean_dice: Option<f64>,
    /// How many labels count.
    pub counted: usize,
}

/// How one label fares, with its name where a table has one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NamedLabel {
    /// How it fares.
    #[serde(flatten)]
    pub score: LabelScore,
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl NamedOverlap {
    /// Gives labels their names.
    #[must_use]
    pub fn new(scores: OverlapScores, names: &LabelNames) -> Self {
        let OverlapScores { labels, mean_dice, counted } = scores;
        let named =
            |score: LabelScore| NamedLabel { name: names.get(&score.label).cloned(), score };
        Self { labels: labels.into_iter().map(named).collect(), mean_dice, counted }
    }
}

impl Job {
    /// Two images on one grid; with `labels`, two label maps.
    pub fn of_images(fixed: impl Into<PathBuf>, warped: impl Into<PathBuf>) -> Self {
        Self { fixed: Some(fixed.into()), warped: Some(warped.into()), ..Self::default() }
    }

    /// Two lists of corresponding points.
    pub fn of_points(a: impl Into<PathBuf>, b: impl Into<PathBuf>) -> Self {
        Self { points: vec![a.into(), b.into()], ..Self::default() }
    }

    /// Two meshes.
    pub fn of_meshes(a: impl Into<PathBuf>, b: impl Into<PathBuf>) -> Self {
        Self { meshes: vec![a.into(), b.into()], ..Self::default() }
    }

    /// Two transforms.
    #[must_use]
    pub fn of_transforms(a: Link, b: Link) -> Self {
        Self { transforms: vec![a, b], ..Self::default() }
    }

    /// Checks the options alone.
    ///
    /// # Errors
    /// Nothing to compare, or not two of it; what is out of range, and options that others make meaningless.
    pub fn check_options(&self) -> Result<()> {
        let counts = [
            self.fixed.iter().chain(&self.warped).count(),
            self.points.len(),
            self.meshes.len(),
            self.transforms.len(),
        ];
        let [images, points, meshes, transforms] = counts.map(|count| count > 0);
        // Images and points may be compared in one go.
        let kinds = usize::from(images || points) + usize::from(meshes) + usize::from(transforms);
        if kinds != 1 || counts.iter().any(|count| ![0, 2].contains(count)) {
            return Err(Error::input(text!(
                "give two inputs of one kind to compare: `fixed` and `warped`, `points`, `meshes` or `transforms`"
            )));
        }
        refuse(self.labels && !images, "labels", text!("`fixed` and `warped`"))?;
        refuse(self.mask.is_some() && (points || meshes), "mask", "images and transforms")?;
        refuse(self.bins.is_some() && self.labels, "bins", "images")?;
        for (option, given) in [
            ("min_voxels", self.min_voxels > 0),
            ("smallest_label", self.smallest_label.is_some()),
            ("label_names", self.label_names.is_some()),
        ] {
            refuse(given && !self.labels, option, text!("`labels`"))?;
        }
        if let Some(bins) = self.bins.filter(|bins| !(2..=4096).contains(bins)) {
            return Err(OptionError::value("bins", bins, "give a number from 2 to 4096").into());
        }
        if let Some(option) = self.lists.given() {
            refuse(!points && !meshes, option, text!("`points` and `meshes`"))?;
        }
        refuse(self.lists.points_of.is_some() && !points, "points_of", text!("`points`"))?;
        if !transforms && self.geometry.paths().next().is_some() {
            return Err(Error::input(text!(
                "`fixed_geometry` and `moving_geometry` are for `transforms`; leave them out"
            )));
        }
        Ok(())
    }

    /// Reads and compares.
    ///
    /// # Errors
    /// As of [`check_options`](Self::check_options); what is wrong with a file; things that cannot be compared, such as images
    /// on other grids.
    pub fn run(&self, listener: &dyn Listener) -> Result<Scores> {
        self.check_options()?;
        let mut scores = Scores::default();
        if let (Some(fixed), Some(warped)) = (&self.fixed, &self.warped) {
            let mask = self.mask(listener)?;
            let mask = mask.as_ref();
            if self.labels {
                let rule = OverlapRule {
                    min_voxels: self.min_voxels,
                    smallest_label: self.smallest_label,
                    only: None,
                };
                let (fixed, warped) =
                    (files::labels(fixed, listener)?, files::labels(warped, listener)?);
                let names = self.names()?;
                let found = compare_labels(&fixed, &warped, mask, &rule)?;
                scores.labels = Some(NamedOverlap::new(found, &names));
            } else {
                let (fixed, warped) =
                    (files::image(fixed, listener)?, files::image(warped, listener)?);
                let bins = usize::from(self.bins.unwrap_or(64));
                scores.images = Some(compare_images(&fixed, &warped, mask, bins)?);
            }
        }
        if let [a, b] = &self.points[..] {
            scores.landmarks = Some(self.landmarks(a, b, listener)?);
        }
        if let [a, b] = &self.meshes[..] {
            scores.meshes = Some(self.distances(a, b, listener)?);
        }
        if let [a, b] = &self.transforms[..] {
            let mask = self.mask(listener)?;
            let (grids, host) = (self.geometry.grids(listener)?, host()?);
            let load = |link: &Link| {
                let link = std::slice::from_ref(link);
                Chain::load(link, &grids, &Grids::default(), listener)?
                    .into_transform(&host, listener)
            };
            let (a, b) = (load(a)?, load(b)?);
            scores.transforms = Some(transforms(&a, &b, grids.fixed.as_ref(), mask.as_ref())?);
        }
        Ok(scores)
    }

    /// The mask.
    fn mask(&self, listener: &dyn Listener) -> Result<Option<Volume<f32>>> {
        let read = |path| files::image(path, listener).map_err(|e| e.at(Text::option("mask")));
        self.mask.as_ref().map(|path| read(path)).transpose()
    }

    /// The names of labels; without a table no label has one.
    fn names(&self) -> Result<LabelNames> {
        let read =
            |p| read_label_names(p).map_err(|e| Error::from(e).at(Text::option("label_names")));
        Ok(self.label_names.as_ref().map(read).transpose()?.unwrap_or_default())
    }

    /// Corresponding points.
    fn landmarks(&self, a: &Path, b: &Path, listener: &dyn Listener) -> Result<LandmarkScores> {
        let grid = self.lists.grid(listener)?;
        let options = self.lists.reading(grid.as_ref()).options();
        let read = |path: &Path, side: usize| -> Result<PointSet> {
            let side = (a == b).then_some(side);
            let (set, info) = files::points_of_pair(path, &options, side, listener)?;
            if info.without_position > 0 {
                return Err(Error::input(text!(
                    "`points`: '{}' has {} points without a position, so that it is not known which belong together; \
                     place them, or delete them in both lists",
                    path.display(),
                    info.without_position
                )));
            }
            Ok(set)
        };
        let (first, second) = (read(a, 0)?, read(b, 1)?);
        if first.is_2d() != second.is_2d() {
            let (flat, other) = if first.is_2d() { (a, b) } else { (b, a) };
            return Err(Error::input(text!(
                "`points`: '{}' has no column z, and '{}' has one; give both lists of one kind",
                flat.display(),
                other.display()
            )));
        }
        Ok(compare_landmarks(&first, &second)?)
    }

    /// Meshes without correspondence.
    fn distances(&self, a: &Path, b: &Path, listener: &dyn Listener) -> Result<MeshScores> {
        let read = |path: &Path| files::mesh(path, self.lists.point_convention, listener);
        let (first, second) = (read(a)?.0, read(b)?.0);
        let kind = |mesh: &Mesh| match (mesh.faces().is_empty(), mesh.lines().len()) {
            (false, _) => "a surface",
            (true, 0) => "points alone",
            (true, _) => "curves",
        };
        let (of_first, of_second) = (kind(&first), kind(&second));
        if of_first != of_second {
            let warning = format!(
                "'{}' is {of_first}, and '{}' {of_second}: they are compared anyway",
                a.display(),
                b.display()
            );
            listener.say(Level::Warning, warning);
        }
        let files = || text!("`meshes` '{}' '{}'", a.display(), b.display());
        compare_meshes(&first, &second).map_err(|e| Error::from(e).at(files()))
    }
}

/// How far apart two transforms map the voxels of a mask that are above 0, else of a grid, else of the grid of the first
/// displacement field.
///
/// ```
/// use voxalign_image::{Affine, Grid, Transform, Vector3};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let [a, b] = [1.0, 4.0].map(|x| Transform::Affine(Affine::translation(Vector3::new(x, 0.0, 0.0))));
/// let grid = Grid::axis_aligned([4, 3, 2], [1.0; 3])?;
/// let scores = voxalign_jobs::compare::transforms(&a, &b, Some(&grid), None)?;
/// assert_eq!((scores.voxels, scores.max), (24, 3.0));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// No grid; no voxel to compare; memory that runs out.
pub fn transforms(
    a: &Transform,
    b: &Transform,
    grid: Option<&Grid>,
    mask: Option<&Volume<f32>>,
) -> Result<TransformScores> {
    let grid = mask.map(Volume::grid).or(grid).or_else(|| own_grid(a)).or_else(|| own_grid(b));
    let Some(grid) = grid else {
        return Err(Error::input(text!(
            "there is no grid on which to compare the transforms; give `mask` or `fixed_geometry`"
        )));
    };
    Ok(compare_transforms(a, b, grid, mask)?)
}
