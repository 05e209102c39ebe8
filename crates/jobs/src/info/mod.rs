//! Contents of a file, and anything unusual about it.
//!
//! A [`Job`] looks at files. Of what is in memory, [`of_grid`], [`of_values`], [`of_affine`], [`of_field`], [`of_points`] and
//! [`of_mesh`] give the [`Facts`].
//!
//! ```no_run
//! use voxalign_jobs::{Caller, Silent, info};
//!
//! # fn main() -> Result<(), voxalign_jobs::Error> {
//! let facts = info::Job::new(["t1.nii.gz"]).run(&Caller::default(), &Silent)?;
//! println!("{:?} {:?}", facts[0].get("orientation"), facts[0].odd);
//! # Ok(())
//! # }
//! ```

mod facts;
mod pyramid;
mod shapes;
mod transforms;
mod xray;

pub use facts::{Facts, number, of_grid, of_values};
pub use shapes::{of_mesh, of_points};
pub use transforms::{of_affine, of_field};

use crate::blocks::is_pyramid;
use crate::error::{Error, Result};
use crate::files::{self, Kind, WhichImage};
use crate::listener::{Listener, reading};
use crate::options::{GeometryOptions, PointOptions, refuse};
use crate::run::Caller;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::{Path, PathBuf};
use voxalign_io::image::{self, ImageInfo, SeriesInfo};
use voxalign_io::xray::geometry;
use voxalign_options::text;

/// Files that are to be looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(default)]
pub struct Job {
    /// Images, also in blocks (OME-Zarr, TIFF, SVS, JPEG), transforms, lists of points, meshes, X-ray images (PNG, TIFF) and
    /// files of their views (TOML); a folder that is no OME-Zarr is read as a DICOM series
    #[cfg_attr(feature = "clap", arg(value_name = "FILE", required = true))]
    pub files: Vec<PathBuf>,
    /// Read the header only, not the voxels
    #[cfg_attr(feature = "clap", arg(long))]
    pub header_only: bool,
    /// How points and meshes are read.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub points: PointOptions,
    /// Which image of several.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub which: WhichImage,
    /// The images that transform files are relative to.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub geometry: GeometryOptions,
}

impl Job {
    /// Files, with usual options.
    pub fn new<P: Into<PathBuf>>(files: impl IntoIterator<Item = P>) -> Self {
        Self { files: files.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// The facts of all files, in their order.
    ///
    /// # Errors
    /// As of [`check`](Self::check) and [`about`](Self::about).
    pub fn run(&self, caller: &Caller, listener: &dyn Listener) -> Result<Vec<Facts>> {
        self.check()?;
        self.files.iter().map(|file| self.about(file, caller, listener)).collect()
    }

    /// Checks that no option would be ignored.
    ///
    /// # Errors
    /// Options of points where there are none; a file whose name says nothing.
    pub fn check(&self) -> Result<()> {
        let Some(option) = self.points.given() else { return Ok(()) };
        let kinds = self.files.iter().map(|file| files::kind_to_read(file));
        let kinds = kinds.collect::<Result<Vec<_>>>()?;
        let none = !kinds.iter().any(|kind| matches!(kind, Kind::Points | Kind::Mesh));
        refuse(none, option, "points and meshes, and none is given")
    }

    /// The facts of a file, with options in the words of the caller.
    ///
    /// # Errors
    /// What is wrong with the file; options that are for other files.
    pub fn about(&self, file: &Path, caller: &Caller, listener: &dyn Listener) -> Result<Facts> {
        reading(listener, || self.facts(file, caller, listener))
    }

    fn facts(&self, file: &Path, caller: &Caller, listener: &dyn Listener) -> Result<Facts> {
        if is_pyramid(file)
            && file.exists()
            && let Some(facts) = pyramid::about(file, &self.which)?
        {
            return Ok(facts);
        }
        if file.exists() && !self.which.is_given() {
            if xray::is_picture(file) {
                return xray::about_image(file);
            }
            if geometry::is_views(file) {
                return xray::about_views(file);
            }
        }
        let kind = files::kind_to_read(file)?;
        let chosen =
            self.which.series.is_some() || self.which.volume.is_some() && kind != Kind::Points;
        if kind != Kind::Image && chosen {
            return Err(Error::input(text!(
                "`volume` and `series` are for images, but '{}' is not one; leave them out",
                file.display()
            )));
        }
        match kind {
            Kind::Points => shapes::about_points(file, self, caller, listener),
            Kind::Mesh => shapes::about_mesh(file, self, caller, listener),
            Kind::Transform => transforms::about(file, self, listener),
            Kind::Image => {
                if self.which.series.is_none() && file.is_dir() {
                    let series = image::list_series(file)?;
                    if series.len() > 1 {
                        return Ok(about_series(file, &series));
                    }
                }
                let info = image::read_info_of(file, &self.which.options())?;
                if files::is_field(&info) {
                    transforms::about(file, self, listener)
                } else {
                    self.about_image(file, &info, caller)
                }
            }
        }
    }

    fn about_image(&self, file: &Path, info: &ImageInfo, caller: &Caller) -> Result<Facts> {
        let mut facts = Facts::of_file(file, "image");
        facts.put("format", info.format_name.clone());
        if info.data_path != info.path {
            facts.put("data_file", info.data_path.display().to_string());
        }
        facts.put("dims", info.dims.clone());
        facts.put("volumes", info.volumes());
        if !info.volume_names.is_empty() {
            facts.put("volume_names", info.volume_names.clone());
        }
        facts.put("data_type", info.data_type.to_string());
        facts.put("byte_order", info.byte_order.to_string());
        facts.put("compression", info.compression.to_string());
        facts.put("slope", info.slope);
        facts.put("intercept", info.intercept);
        facts.add(of_grid(&info.grid));
        facts.put("geometry_from", info.grid_source.to_string());
        if info.format_name.starts_with("NIfTI") {
            facts.put("qform_code", info.qform_code);
            facts.put("sform_code", info.sform_code);
        }
        facts.put("qform_sform_difference_mm", info.form_difference_mm);
        let some = |s: &str| if s.is_empty() { Value::Null } else { s.into() };
        facts.put("intent", some(&info.intent));
        facts.put("description", some(&info.description));
        let m = &info.grid.to_world().matrix;
        facts.flat =
            info.dimensions == 2 && [(2, 0), (2, 1), (0, 2), (1, 2)].iter().all(|&at| m[at] == 0.0);
        let (notes, odd): (Vec<_>, Vec<_>) =
            info.oddities.iter().partition(|oddity| oddity.is_normal_geometry());
        if !notes.is_empty() {
            facts.put("notes", notes.into_iter().map(ToString::to_string).collect::<Vec<_>>());
        }
        facts.strange(odd);
        let one = info.volumes() == 1 || self.which.volume.is_some();
        if !self.header_only && one {
            let (volume, _) = image::read_volume_of(file, &self.which.options())?;
            let (values, not_finite) = of_values(volume.data(), "voxels_not_finite");
            facts.add(values);
            if not_finite > 0 {
                facts.strange([format!(
                    "{not_finite} voxels are NaN or infinite; `voxalign convert --replace-nan 0` \
                     replaces them"
                )]);
            }
        }
        if !one {
            facts.strange([caller.say(text!(
                "several volumes: registration takes one; the values were not read (`volume = N` for those of one)"
            ))]);
        }
        Ok(facts)
    }
}

/// Several series of one folder.
fn about_series(folder: &Path, series: &[SeriesInfo]) -> Facts {
    let mut facts = Facts::default();
    facts.put("file", folder.display().to_string());
    facts.put("format", "DICOM");
    facts.put("series", series.iter().map(SeriesInfo::to_string).collect::<Vec<_>>());
    facts
}
