//! Options of surfaces: the object, and how its surface is made.

use crate::error::{Error, Result};
use crate::options::refuse;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use voxalign_io::mesh::{MeshFormat, MeshSpace};
use voxalign_options::{Choice, Given, Parameters, UseOf, text};

/// Iterations of smoothing of labels, where nothing is said.
const SMOOTHING: usize = 15;
/// Most iterations of smoothing.
const MOST_SMOOTHING: usize = 1000;

/// The space of a mesh file that may be in any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Choice)]
pub enum Space {
    /// x to the right, y to the front, as in NIfTI.
    #[default]
    Ras,
    /// x to the left, y to the back, as in DICOM and ITK.
    Lps,
}

impl From<Space> for MeshSpace {
    fn from(space: Space) -> Self {
        match space {
            Space::Ras => Self::Ras,
            Space::Lps => Self::Lps,
        }
    }
}

/// What the surface is of.
#[derive(Debug, Clone, PartialEq, Parameters)]
pub struct ObjectOptions {
    /// Labels of a label map, separated by commas: the surface is that of all of them together, or with --each a surface of
    /// each
    #[parameter(default = Vec::new(), unit = "N,...")]
    pub label: Vec<i32>,
    /// Isovalue of an image: the surface encloses values at or above it
    #[parameter(unit = "VALUE")]
    pub level: Option<f64>,
    /// Enclose values at or below --level instead
    #[parameter(default = false)]
    pub below: bool,
    /// Keep only the largest connected component (face connectivity)
    #[parameter(default = false)]
    pub largest_component: bool,
    /// Fill enclosed cavities
    #[parameter(default = false)]
    pub fill_holes: bool,
}

impl ObjectOptions {
    /// Checks them; with `each` no label stands for all.
    pub(crate) fn check_all(&self, each: bool) -> Result<()> {
        self.check()?;
        match (self.label.is_empty(), self.level) {
            (_, Some(_)) if each => Err(Error::input(text!(
                "`each` is for labels, and `level` is given; leave one of them out"
            ))),
            (true, None) if !each => Err(Error::input(text!(
                "give `label` N of a label map, or `level` VALUE of an image"
            ))),
            (false, Some(_)) => Err(Error::input(text!(
                "both `label` and `level` are given; leave one of them out"
            ))),
            (_, None) => refuse(self.below, "below", text!("`level`")),
            _ => Ok(()),
        }
    }
}

/// How it is made.
#[derive(Debug, Clone, Copy, PartialEq, Parameters)]
pub struct ShapeOptions {
    /// Standard deviation of a Gaussian that smooths the voxels first, mm; removes staircase artefacts, but also thin
    /// parts
    #[parameter(default = 0.0, unit = "MM", least = 0.0, remedy = "give 0 or more, mm")]
    pub sigma: f64,
    /// Iterations of non-shrinking (Taubin) smoothing
    #[parameter(
        most = MOST_SMOOTHING,
        remedy = "give at most 1000 iterations",
        says = "15 for labels without --sigma, else 0"
    )]
    pub smoothing: Option<usize>,
    /// Most triangles
    #[parameter(least = 4, remedy = "give at least 4, as a tetrahedron has", says = "all of them")]
    pub triangles: Option<usize>,
    /// Fraction of the triangles to keep, such as 0.25
    #[parameter(
        unit = "PART",
        above = 0.0,
        most = 1.0,
        remedy = "give a fraction above 0 and at most 1"
    )]
    pub keep: Option<f64>,
}

impl ShapeOptions {
    /// Checks them.
    pub(crate) fn check_all(&self) -> Result<()> {
        self.check()?;
        if self.triangles.is_some() && self.keep.is_some() {
            return Err(Error::input(text!(
                "both `triangles` and `keep` are given; leave one of them out"
            )));
        }
        Ok(())
    }

    /// Iterations, of labels or of an image.
    pub(crate) fn smoothing(&self, labels: bool) -> usize {
        let usual = if labels && self.sigma == 0.0 { SMOOTHING } else { 0 };
        self.smoothing.unwrap_or(usual)
    }

    /// Most triangles of a surface that has so many.
    pub(super) fn most(&self, triangles: usize) -> Option<usize> {
        let part = |part: f64| ((triangles as f64 * part).round() as usize).max(4);
        self.triangles.or(self.keep.map(part))
    }
}

/// Of a job.
#[derive(Debug)]
pub struct OfJob;

impl UseOf<ObjectOptions> for OfJob {
    const HEADING: &'static str = "Object";
}

impl UseOf<ShapeOptions> for OfJob {
    const HEADING: &'static str = "Smoothing and size";
}

/// All options.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(default)]
pub struct Options {
    /// What the surface is of.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub object: Given<ObjectOptions, OfJob>,
    /// How it is made.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub shape: Given<ShapeOptions, OfJob>,
    /// One surface for each label of --label, or without it for each non-zero label; OUTPUT is the folder for them
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Output"))]
    pub each: bool,
    /// Format of the meshes of --each, as a file extension: gii, surf.gii, vtk, vtp, stl or ply
    /// [default: gii, of outlines vtk]
    #[cfg_attr(feature = "clap", arg(long, value_name = "ENDING", help_heading = "Output"))]
    pub format: Option<String>,
    /// Names of the labels, which become part of the names of the meshes of --each: FreeSurfer's colour
    /// table, ITK-SNAP's label descriptions, or CSV or TSV with a number and a name in each line
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE", help_heading = "Output"))]
    pub label_names: Option<PathBuf>,
    /// World coordinates of a VTK, STL or PLY file, stated in the file; other formats prescribe theirs [default: ras]
    #[cfg_attr(feature = "clap", arg(long, value_name = "SPACE", help_heading = "Output"))]
    pub space: Option<Space>,
    /// Write a report beside the surface: MESH.html, or with --each report.html
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Output"))]
    pub report: bool,
}

impl Options {
    /// What the surface is of, and how it is made.
    pub(super) fn made(&self) -> Result<(ObjectOptions, ShapeOptions)> {
        Ok((self.object.over(ObjectOptions::USUAL)?, self.shape.over(ShapeOptions::USUAL)?))
    }

    /// Checks them, and the name of the mesh or the folder that is written.
    ///
    /// # Errors
    /// What is out of range, what would be ignored, a format without triangles.
    pub fn check(&self, output: &Path) -> Result<()> {
        let (object, shape) = self.made()?;
        object.check_all(self.each)?;
        shape.check_all()?;
        let format = match (self.each, &self.format) {
            (false, Some(_)) => {
                return Err(Error::input(text!(
                    "`format` is for `each`: that of one surface is in its name; leave it out"
                )));
            }
            (false, None) if self.label_names.is_some() => {
                return Err(Error::input(text!(
                    "`label_names` is for `each`: the name of one surface is given; leave it out"
                )));
            }
            (false, None) => MeshFormat::from_path(output)?,
            (true, Some(ending)) => {
                let plain = ending.chars().all(|c| c.is_ascii_alphanumeric() || c == '.');
                let found = MeshFormat::from_path(Path::new(&format!("a.{ending}")));
                found.ok().filter(|f| plain && f.holds_faces()).ok_or_else(|| {
                    Error::input(text!(
                        "`format` is '{ending}'; give gii, surf.gii, vtk, vtp, stl or ply"
                    ))
                })?
            }
            // Of surfaces; outlines have one with a space to choose.
            (true, None) => return self.check_folder(output),
        };
        if !format.holds_faces() {
            return Err(Error::input(text!(
                "'{}': {format} holds streamlines and no surfaces; write .gii, .vtk, .vtp, .stl or .ply",
                output.display()
            )));
        }
        if self.space.is_some() && format.has_world() {
            return Err(Error::input(text!(
                "`space` is for .vtk, .vtp, .stl and .ply: {format} has a space of its own; leave it out"
            )));
        }
        if self.each { self.check_folder(output) } else { Ok(()) }
    }

    /// Whether a folder can be one.
    fn check_folder(&self, output: &Path) -> Result<()> {
        if output.is_file() {
            return Err(Error::input(text!(
                "'{}' is a file, and `each` writes into a folder; name another one",
                output.display()
            )));
        }
        Ok(())
    }

    /// Checks that a format holds what an image of so many dimensions gives.
    pub(super) fn check_lines(&self, output: &Path, flat: bool) -> Result<()> {
        let format = MeshFormat::from_path(output)?;
        if flat && !format.holds_lines() {
            return Err(Error::input(text!(
                "'{}': a 2D image has outlines, and {format} holds no lines; write .vtk, .vtp or .ply",
                output.display()
            )));
        }
        if self.space.is_some() && format.has_world() {
            return Err(Error::input(text!(
                "`space` is for .vtk, .vtp, .stl and .ply: {format} has a space of its own; leave it out, or give a `format`"
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_be_ignored_is_refused() {
        let said = |text: &str, output: &str| {
            let options: Options = crate::options::from_toml(text).unwrap();
            options.check(Path::new(output)).unwrap_err().to_string()
        };
        for (text, output, part) in [
            ("", "a.gii", "`label` N"),
            ("label = [1]\nlevel = 2", "a.gii", "leave one"),
            ("label = 1\nbelow = true", "a.gii", "`below` is for `level`"),
            ("label = 1\nsigma = -1", "a.gii", "`sigma` is -1"),
            ("label = 1\nkeep = 1.5", "a.gii", "`keep` is 1.5"),
            ("label = 1\nkeep = 0.5\ntriangles = 9", "a.gii", "leave one"),
            ("label = 1\ntriangles = 3", "a.gii", "at least 4"),
            ("label = 1\nsmoothing = 2000", "a.gii", "at most 1000"),
            ("label = 1\nspace = 'lps'", "a.gii", "`space` is for"),
            ("label = 1", "a.tck", "holds streamlines"),
            ("label = 1", "a.obj", "export .obj"),
            ("label = 1\nformat = 'vtk'", "a.gii", "`format` is for `each`"),
            ("label = 1\nlabel_names = 'n.csv'", "a.gii", "`label_names` is for `each`"),
            ("each = true\nlevel = 1", "a", "`each` is for labels"),
            ("each = true\nbelow = true", "a", "`below` is for `level`"),
            ("each = true\nformat = 'tck'", "a", "`format` is 'tck'"),
            ("each = true\nformat = 'x/a.vtk'", "a", "`format` is 'x/a.vtk'"),
            ("each = true\nformat = 'gii'\nspace = 'lps'", "a", "`space` is for"),
            ("each = true", "Cargo.toml", "is a file"),
        ] {
            let text = said(text, output);
            assert!(text.contains(part), "{part}: {text}");
        }
        let options: Options = crate::options::from_toml("label = '3,4'\nspace = 'lps'").unwrap();
        let (object, shape) = options.made().unwrap();
        assert_eq!(object.label, [3, 4]);
        options.check(Path::new("a.ply")).unwrap();
        assert!(options.check_lines(Path::new("a.ply"), true).is_ok());
        assert!(options.check_lines(Path::new("a.stl"), false).is_ok());
        assert!(options.check_lines(Path::new("a.stl"), true).is_err());
        assert_eq!((shape.smoothing(true), shape.smoothing(false)), (15, 0));
    }
}
