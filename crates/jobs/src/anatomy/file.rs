//! The file of an anatomy and its named items.

use crate::options::PointConvention;
use crate::surface::{ObjectOptions, ShapeOptions};
use std::path::{Path, PathBuf};
use voxalign_compute::ops::pairwise::KernelShape;
use voxalign_io::mesh::MeshSpace;
use voxalign_register::similarity::Similarity;

/// What something of an anatomy is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The probability of a class, 0 to 1.
    Probability,
    /// An ordinary image.
    Image,
    /// A surface without correspondence.
    Surface,
    /// Curves without correspondence.
    Curve,
    /// Points without correspondence.
    Points,
    /// Corresponding points.
    Landmarks,
}

impl Kind {
    /// All of them, in the order of reports.
    pub const ALL: [Self; 6] =
        [Self::Probability, Self::Image, Self::Surface, Self::Curve, Self::Points, Self::Landmarks];

    /// The name of its tables in the file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Probability => "probability",
            Self::Image => "image",
            Self::Surface => "surface",
            Self::Curve => "curve",
            Self::Points => "points",
            Self::Landmarks => "landmarks",
        }
    }

    /// Whether it is an image, of ordinary intensities or of probabilities.
    #[must_use]
    pub fn is_image(self) -> bool {
        matches!(self, Self::Probability | Self::Image)
    }

    /// Whether it is a shape that has no correspondence.
    #[must_use]
    pub fn is_shape(self) -> bool {
        matches!(self, Self::Surface | Self::Curve | Self::Points)
    }
}

/// Where something comes from. Paths are as they can be opened: relative ones were relative to the file.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// Images that are added: files, each with the number of the volume where one is chosen.
    Images(Vec<(PathBuf, Option<usize>)>),
    /// Labels of a map as a probability of 0 and 1, smoothed by a Gaussian of this standard deviation, mm.
    Labels {
        /// The map.
        path: PathBuf,
        /// The labels that count.
        labels: Vec<i32>,
        /// The standard deviation, mm; 0 for none.
        sigma: f64,
        /// The table in which labels that were given by their names were found.
        names: Option<PathBuf>,
    },
    /// A mesh, and the space of a file that does not say it.
    Mesh(PathBuf, Option<MeshSpace>),
    /// A surface that is made of labels or of an image, or the outlines of these in two dimensions.
    Voxels(Box<OfVoxels>),
    /// A list of points.
    List(PathBuf, Option<PointConvention>),
}

/// What a surface is made of, and how; as of the job [`surface`](crate::surface), without a Gaussian.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OfVoxels {
    /// A label map, or an image where there is a level.
    pub path: PathBuf,
    /// Which volume of an image that has several.
    pub volume: Option<usize>,
    /// The labels or the level.
    pub object: ObjectOptions,
    /// Smoothing and size.
    pub shape: ShapeOptions,
    /// The table in which labels that were given by their names were found.
    pub names: Option<PathBuf>,
}

impl Source {
    /// The images, meshes and lists of points.
    #[must_use]
    pub fn paths(&self) -> Vec<&Path> {
        match self {
            Self::Images(files) => files.iter().map(|f| &*f.0).collect(),
            Self::Labels { path, .. } | Self::Mesh(path, _) | Self::List(path, _) => vec![path],
            Self::Voxels(of) => vec![&of.path],
        }
    }

    /// The table of label names, where one is used.
    #[must_use]
    pub fn names(&self) -> Option<&Path> {
        match self {
            Self::Labels { names, .. } => names.as_deref(),
            Self::Voxels(of) => of.names.as_deref(),
            _ => None,
        }
    }
}

/// How something is compared, as far as a file says it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Given {
    /// The factor of its energy.
    pub weight: Option<f64>,
    /// Of a shape the width of the kernel, mm.
    pub width: Option<f64>,
    /// Of a shape how the kernel falls off.
    pub kernel: Option<KernelShape>,
    /// Of a surface or curves whether the orientation counts.
    pub oriented: Option<bool>,
    /// Of an image the similarity, with its parameters.
    pub similarity: Option<Similarity>,
}

/// Something of an anatomy.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// By which it is found in the other file.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// Where it comes from.
    pub source: Source,
    /// How it is compared.
    pub given: Given,
}

impl Part {
    /// It in words, for messages: `[[surface]] 'left'`.
    #[must_use]
    pub fn words(&self) -> String {
        format!("[[{}]] '{}'", self.kind.name(), self.name)
    }
}

/// An anatomy as its file lists it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Anatomy {
    /// The file.
    pub path: PathBuf,
    /// What it lists, by kinds, and within one as in the file.
    pub parts: Vec<Part>,
}
