//! The images that files of transforms, points and meshes are relative to.

use super::values::PointConvention;
use crate::carry::Reading;
use crate::error::Result;
use crate::files::{self, Grids};
use crate::listener::Listener;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use voxalign_image::Grid;
use voxalign_options::Text;

/// The images that transform files are relative to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "clap", command(next_help_heading = "Geometry of transform files"))]
#[serde(default)]
pub struct GeometryOptions {
    /// The fixed (reference) image of the transform: FSL matrices need it, and displacement
    /// fields are written on its grid
    #[cfg_attr(feature = "clap", arg(long, value_name = "IMAGE"))]
    pub fixed_geometry: Option<PathBuf>,
    /// The moving (input) image of the transform: FSL matrices need it
    #[cfg_attr(feature = "clap", arg(long, value_name = "IMAGE"))]
    pub moving_geometry: Option<PathBuf>,
}

impl GeometryOptions {
    /// Reads the grids of the images that were named.
    ///
    /// # Errors
    /// What is wrong with a file.
    pub fn grids(&self, listener: &dyn Listener) -> Result<Grids> {
        Ok(Grids {
            fixed: grid_of(self.fixed_geometry.as_ref(), "fixed_geometry", listener)?,
            moving: grid_of(self.moving_geometry.as_ref(), "moving_geometry", listener)?,
        })
    }

    /// The files that were named.
    pub fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.fixed_geometry.iter().chain(&self.moving_geometry)
    }
}

/// How lists of points, and meshes, are read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(default)]
pub struct PointOptions {
    /// World coordinates of points and meshes whose files do not state them [default: ras; of ANTs' CSV
    /// lps]
    #[cfg_attr(feature = "clap", arg(long, value_enum))]
    pub point_convention: Option<PointConvention>,
    /// The image that the points or the mesh belong to: elastix' lists of voxel indices need it, and other points are
    /// checked to lie on it
    #[cfg_attr(feature = "clap", arg(long, value_name = "IMAGE"))]
    pub points_of: Option<PathBuf>,
}

impl PointOptions {
    /// Reads the grid of the image.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn grid(&self, listener: &dyn Listener) -> Result<Option<Grid>> {
        grid_of(self.points_of.as_ref(), "points_of", listener)
    }

    /// How files are read, of points of an image on this grid.
    #[must_use]
    pub fn reading<'a>(&self, grid: Option<&'a Grid>) -> Reading<'a> {
        Reading { convention: self.point_convention, grid, volume: None }
    }

    /// The first option that is given.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let all = [
            ("point_convention", self.point_convention.is_some()),
            ("points_of", self.points_of.is_some()),
        ];
        all.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
    }
}

/// Reads the grid of an image that an option names.
pub(crate) fn grid_of(
    image: Option<&PathBuf>,
    option: &str,
    listener: &dyn Listener,
) -> Result<Option<Grid>> {
    let read = |path| files::grid(path, listener).map_err(|e| e.at(Text::option(option)));
    image.map(|path| read(path)).transpose()
}
