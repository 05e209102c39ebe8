//! How points and meshes are read.

use crate::failure::Failure;
use crate::progress::Printer;
use clap::Args;
use std::path::PathBuf;
use voxalign_image::Grid;
use voxalign_jobs::carry::Reading;
use voxalign_jobs::files;
use voxalign_jobs::options::PointConvention;

/// How lists of points, and meshes, are read.
#[derive(Debug, Clone, Args)]
pub(crate) struct PointArgs {
    /// World coordinates of points and meshes whose files do not say them [default: ras; of ANTs' CSV
    /// lps]
    #[arg(long, value_enum)]
    pub(crate) point_convention: Option<PointConvention>,
    /// The image that the points or the mesh belong to: elastix' lists of voxel indices need it, and
    /// that the others lie on it is checked
    #[arg(long, value_name = "IMAGE")]
    pub(crate) points_of: Option<PathBuf>,
}

impl PointArgs {
    /// The grid of the image.
    pub(crate) fn grid(&self, printer: &Printer) -> Result<Option<Grid>, Failure> {
        let read =
            |p: &PathBuf| files::grid(p, printer).map_err(|e| Failure::from(e).at("--points-of"));
        self.points_of.as_ref().map(read).transpose()
    }

    /// How they are read.
    pub(crate) fn reading<'a>(&self, grid: Option<&'a Grid>) -> Reading<'a> {
        Reading { convention: self.point_convention, grid, volume: None }
    }

    /// Those that are given, by their names.
    pub(crate) fn given(&self) -> [(&'static str, bool); 2] {
        [
            ("--point-convention", self.point_convention.is_some()),
            ("--points-of", self.points_of.is_some()),
        ]
    }
}
