//! The voxels enclosed by a surface.

use super::options::ObjectOptions;
use crate::error::{Error, Result};
use crate::files::{self, WhichImage};
use crate::listener::{Listener, check, reading};
use std::collections::BTreeSet;
use std::path::Path;
use voxalign_compute::Memory;
use voxalign_compute::ops::Filter;
use voxalign_compute::ops::filter::GaussianMethod;
use voxalign_compute::select::AnyDevice;
use voxalign_image::{Grid, LabelMap, Volume};
use voxalign_io::image;
use voxalign_options::text;
use voxalign_surface::{Region, fill_cavities, keep_largest};

/// Labels that a message names.
const NAMED: usize = 40;
/// How far a Gaussian reaches, in standard deviations.
const REACH: f64 = 4.0;

/// What a surface is around.
pub(super) struct Object {
    /// Values near it.
    values: Volume<f32>,
    /// Inside they are at least this large.
    pub(super) level: f32,
    /// A value outside, and one inside.
    ends: [f32; 2],
    /// The grid of the whole image.
    pub(super) grid: Grid,
    /// Whether it reaches the border of the image.
    pub(super) at_border: bool,
}

impl Object {
    /// Reads it.
    pub(super) fn read(
        path: &Path,
        which: &WhichImage,
        options: &ObjectOptions,
        listener: &dyn Listener,
    ) -> Result<Self> {
        match options.level {
            None => {
                let labels = reading(listener, || image::read_labels_of(path, &which.options()))?;
                Self::of_labels(&labels, &options.label)
            }
            Some(level) => {
                let (volume, _) = files::image_of(path, &which.options(), listener)?;
                Self::of_image(volume, level, options.below)
            }
        }
        .map_err(|e| e.at(format!("'{}'", path.display())))
    }

    /// Of some labels together.
    pub(super) fn of_labels(labels: &LabelMap, wanted: &[i32]) -> Result<Self> {
        let found = labels_of(labels);
        if let Some(missing) = wanted.iter().find(|label| !found.contains(label)) {
            return Err(no_label(*missing, &found));
        }
        let is_wanted = |label: i32| wanted.contains(&label);
        let region = Region::around(labels, is_wanted)
            .ok_or_else(|| Error::Internal("a label without a voxel".to_owned()))?;
        let values = region.map(labels, |label| f32::from(u8::from(is_wanted(label))))?;
        Ok(Self {
            at_border: at_border(&region, labels.grid()),
            values,
            level: 0.5,
            ends: [0.0, 1.0],
            grid: labels.grid().clone(),
        })
    }

    /// Of an image, at a level.
    pub(super) fn of_image(mut image: Volume<f32>, level: f64, below: bool) -> Result<Self> {
        let finite = image.data().iter().copied().filter(|v| v.is_finite());
        let [low, high] = finite
            .fold([f32::INFINITY, f32::NEG_INFINITY], |[low, high], v| [low.min(v), high.max(v)]);
        let inner = if below { low as f64 <= level } else { level <= f64::from(high) };
        if !inner || low > high {
            let (asked, remedy) = match (low > high, below) {
                (true, _) => ("has no finite value".to_owned(), "give another image"),
                (_, true) => {
                    (format!("has values from {low} to {high}"), "nothing is at most as large")
                }
                _ => (format!("has values from {low} to {high}"), "nothing is at least as large"),
            };
            return Err(Error::input(text!(
                "the image {asked} and `level` is {level}: {remedy}; give a level between"
            )));
        }
        let sign = if below { -1.0 } else { 1.0 };
        if below {
            image.data_mut().iter_mut().for_each(|v| *v = -*v);
        }
        let level = sign * level as f32;
        let region = Region::around(&image, |v| v >= level);
        let region = region.ok_or_else(|| Error::Internal("a level without a voxel".to_owned()))?;
        if image.data().iter().all(|v| *v >= level) {
            return Err(Error::input(text!(
                "all of the image is {} `level`: it has values from {low} to {high}; give a level between",
                if below { "at most" } else { "at least" }
            )));
        }
        let ends = if below { [-high, -low] } else { [low, high] };
        Ok(Self {
            at_border: at_border(&region, image.grid()),
            grid: image.grid().clone(),
            values: image,
            level,
            ends,
        })
    }

    /// Keeps its largest part alone; gives how many there were.
    pub(super) fn keep_largest(&mut self) -> Result<usize> {
        let below = self.below();
        Ok(keep_largest(&mut self.values, self.level, below)?)
    }

    /// Fills its cavities; gives how many voxels that were.
    pub(super) fn fill(&mut self) -> Result<usize> {
        Ok(fill_cavities(&mut self.values, self.level, self.ends[1].max(self.level))?)
    }

    /// A value that is outside.
    fn below(&self) -> f32 {
        match self.ends[0] < self.level {
            true => self.ends[0],
            false => self.level.next_down(),
        }
    }

    /// Voxels inside.
    pub(super) fn voxels(&self) -> usize {
        self.values.data().iter().filter(|v| **v >= self.level).count()
    }

    /// Values around the surface.
    pub(super) fn values(&self) -> &Volume<f32> {
        &self.values
    }

    /// The same smoothed by a Gaussian of a standard deviation in mm.
    pub(super) fn smoothed(
        &self,
        device: &AnyDevice,
        sigma: f64,
        listener: &dyn Listener,
    ) -> Result<Volume<f32>> {
        check(listener)?;
        let spacing = self.grid.spacing();
        let voxels = spacing.map(|s| sigma / s);
        // Outside of an image there is no label; of other images the border goes on.
        let is_labels = self.ends == [0.0, 1.0] && self.level == 0.5;
        let wide = match is_labels {
            true => {
                let mut by = voxels.map(|s| (REACH * s).ceil() as usize + 1);
                if self.grid.is_2d() {
                    by[2] = 0;
                }
                Region::padded(&self.values, by, 0.0)?
            }
            false => self.values.try_clone()?,
        };
        let dims = wide.dims();
        let (grid, data) = wide.into_parts();
        let from = device.upload_vec(data)?;
        let mut to = device.alloc::<f32>(dims.iter().product())?;
        device.gaussian(&from, dims, voxels, GaussianMethod::Fir, &mut to)?;
        drop(from);
        Ok(Volume::new(grid, device.into_host(to)?)?)
    }

    /// The same object with other values.
    pub(super) fn with_values(&self, values: Volume<f32>) -> Self {
        Self { values, grid: self.grid.clone(), ..*self }
    }
}

fn at_border(region: &Region, grid: &Grid) -> bool {
    let axes = if grid.is_2d() { 2 } else { 3 };
    (0..axes).any(|a| region.start[a] == 0 || region.start[a] + region.dims[a] == grid.dims()[a])
}

/// The labels of a map.
pub(super) fn labels_of(map: &LabelMap) -> BTreeSet<i32> {
    // Neighbours mostly have the same label.
    map.data().chunk_by(|a, b| a == b).map(|same| same[0]).collect()
}

/// A label that is not there.
pub(super) fn no_label(missing: i32, found: &BTreeSet<i32>) -> Error {
    Error::input(text!("there is no label {missing}; {}", named(found)))
}

/// The labels that there are, in words.
fn named(found: &BTreeSet<i32>) -> String {
    let shown: Vec<String> =
        found.iter().filter(|l| **l != 0).take(NAMED).map(ToString::to_string).collect();
    let more = found.iter().filter(|l| **l != 0).count() - shown.len();
    match (shown.len(), more) {
        (0, _) => "the label map has no label but 0".to_owned(),
        (_, 0) => format!("there are {}", shown.join(", ")),
        _ => format!("there are {} and {more} more", shown.join(", ")),
    }
}
