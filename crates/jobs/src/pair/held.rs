//! Images of a pair that are in memory.

use crate::error::Result;
use crate::files;
use crate::listener::{Listener, reading};
use rayon::prelude::*;
use std::path::Path;
use std::sync::Arc;
use voxalign_compute::cuda::shared_copy;
use voxalign_image::{ImageError, LabelMap, Volume};
use voxalign_io::image::{ImageInfo, ReadOptions, read_labels_of};

/// The largest number up to which all whole numbers are 32-bit floats.
pub const EXACT: f32 = 16_777_216.0;

/// An image in memory, with what is known of the file that it is of.
#[derive(Debug, Clone)]
pub struct HeldImage {
    /// The image.
    pub image: Arc<Volume<f32>>,
    /// The dimensions of files on its grid, 2 or 3.
    pub dimensions: usize,
    /// What the header of its file says; none where it is of no file.
    pub info: Option<ImageInfo>,
    /// The same values as labels, where they are whole numbers of 32 bits and 32-bit floats do not hold all of them.
    pub labels: Option<Arc<LabelMap>>,
}

impl HeldImage {
    /// A result that remains in the memory of a GPU, by a handle that outlives the job; none of what is on the host.
    pub(crate) fn remaining(image: &Volume<f32>, dimensions: usize) -> Result<Option<Self>> {
        let Some(values) = image.elsewhere() else { return Ok(None) };
        // Where there is no room for a copy, the memory of the job is kept.
        let values = shared_copy(values).unwrap_or_else(|_| Arc::clone(values));
        let image = Volume::of_elsewhere(image.grid().clone(), values)?;
        Ok(Some(Self { dimensions, ..Self::from(image) }))
    }

    /// Reads an image of a file or folder, which may hold several.
    ///
    /// # Errors
    /// As of [`files::image_of`].
    pub fn read(path: &Path, which: &ReadOptions, listener: &dyn Listener) -> Result<Self> {
        let held = Self::from(files::image_of(path, which, listener)?);
        let is_wide = |info: &ImageInfo| info.data_type.is_integer() && info.data_type.size() >= 4;
        let is_beyond = || held.image.data().par_iter().any(|v| v.abs() >= EXACT);
        if !held.info.as_ref().is_some_and(is_wide) || !is_beyond() {
            return Ok(held);
        }
        // Scaled values, and those of more bits, are no labels.
        let labels = reading(listener, || read_labels_of(path, which)).ok().map(Arc::new);
        Ok(Self { labels, ..held })
    }
}

/// An image that was read.
impl From<(Volume<f32>, ImageInfo)> for HeldImage {
    fn from((image, info): (Volume<f32>, ImageInfo)) -> Self {
        Self { image: image.into(), dimensions: info.dimensions, info: Some(info), labels: None }
    }
}

/// An image of no file.
impl From<Volume<f32>> for HeldImage {
    fn from(image: Volume<f32>) -> Self {
        let dimensions = if image.grid().is_2d() { 2 } else { 3 };
        Self { image: image.into(), dimensions, info: None, labels: None }
    }
}

/// Labels as an image of no file.
impl TryFrom<LabelMap> for HeldImage {
    type Error = ImageError;

    fn try_from(labels: LabelMap) -> std::result::Result<Self, ImageError> {
        let image = Self::from(labels.try_map(|v| *v as f32)?);
        let is_beyond = labels.data().par_iter().any(|v| v.unsigned_abs() >= EXACT as u32);
        Ok(Self { labels: is_beyond.then(|| labels.into()), ..image })
    }
}

/// The images of a pair, and of what goes with them, that are in memory.
#[derive(Debug, Clone, Default)]
pub struct Held {
    /// The image that stays.
    pub fixed: Option<HeldImage>,
    /// The image that is brought to it.
    pub moving: Option<HeldImage>,
    /// What counts of the fixed image.
    pub fixed_mask: Option<Volume<f32>>,
    /// What counts of the moving image.
    pub moving_mask: Option<Volume<f32>>,
    /// Labels of the fixed image.
    pub fixed_labels: Option<LabelMap>,
    /// Labels of the moving image.
    pub moving_labels: Option<LabelMap>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pair::PairPaths;
    use crate::{Silent, files};
    use voxalign_image::Grid;
    use voxalign_io::image::{DataType, write_volume};

    #[test]
    fn images_in_memory_are_those_of_files() {
        let folder = tempfile::tempdir().unwrap();
        let grid = Grid::axis_aligned([5, 4, 3], [1.0, 1.5, 2.0]).unwrap();
        let paths = ["f.nii", "m.nii", "mask.nii"].map(|name| folder.path().join(name));
        for (i, path) in paths.iter().enumerate() {
            let image = Volume::from_fn(grid.clone(), |x, y, z| (x + 2 * y + 3 * z + i) as f32);
            write_volume(path, &image, &files::write_options(DataType::F32, 3)).unwrap();
        }
        let mut of_files = PairPaths::new(&paths[0], &paths[1]);
        of_files.masks.fixed_mask = Some(paths[2].clone());
        let read = of_files.read(&Silent).unwrap();
        let image = |path| files::image_with_info(path, &Silent).unwrap();
        let held = |moving| Held {
            fixed: Some(image(&paths[0]).into()),
            moving,
            fixed_mask: Some(image(&paths[2]).0),
            ..Held::default()
        };
        let none = PairPaths::default();
        let whole = none.read_beside(held(Some(image(&paths[1]).into())), &Silent).unwrap();
        let mixed = PairPaths::new("", &paths[1]).read_beside(held(None), &Silent).unwrap();
        for pair in [whole, mixed] {
            assert_eq!(pair.fixed, read.fixed);
            assert_eq!(pair.moving, read.moving);
            assert_eq!(pair.fixed_mask, read.fixed_mask);
            assert_eq!(pair.dimensions, read.dimensions);
        }
        let mut one_of_several = PairPaths::new("", &paths[1]);
        one_of_several.which.fixed_volume = Some(0);
        let said = one_of_several.read_beside(held(None), &Silent).unwrap_err().to_string();
        assert!(said.contains("`fixed_volume` is for images that are read from files"), "{said}");
    }
}
