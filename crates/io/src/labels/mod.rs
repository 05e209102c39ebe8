//! Label maps with names and colours: what 3D Slicer and ITK-SNAP open.
//!
//! | written by | files | opened by |
//! |---|---|---|
//! | [`write_nifti`] | NIfTI with intent 1002 (label), and a label description file beside it | ITK-SNAP; any reader of NIfTI |
//! | [`write_segmentation`] | `.seg.nrrd`: NRRD with names and colours in its header | 3D Slicer, slicerio; any reader of NRRD |
//! | [`write_descriptions`] | a label description file alone | ITK-SNAP |
//!
//! A [`LabelTable`] has the labels; a voxel with a value that is not in it is an error, so that no region lacks its name. The image
//! of each is read by [`read_labels`](crate::image::read_labels), names and colours by [`read_table`], names alone, of any
//! number, by [`names`](crate::names).
//!
//! ```
//! use voxalign_image::{Grid, Volume};
//! use voxalign_io::image::{WriteOptions, read_labels};
//! use voxalign_io::labels::{self, LabelTable};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = tempfile::tempdir()?;
//! let grid = Grid::axis_aligned([6, 5, 4], [1.0, 1.0, 2.5])?;
//! let map = Volume::from_fn(grid, |x, _, _| if x < 3 { 1 } else { 0 });
//! let table = LabelTable::with_colours([(1, "liver", Some([200, 100, 60]))])?;
//!
//! let path = folder.path().join("organs.seg.nrrd");
//! labels::write_segmentation(&path, &map, &table, &WriteOptions::default())?;
//! assert_eq!(read_labels(&path)?, map);
//! assert_eq!(labels::read_table(&path)?, table);
//!
//! let path = folder.path().join("organs.nii.gz");
//! let descriptions = labels::write_nifti(&path, &map, &table, &WriteOptions::default())?;
//! assert_eq!(descriptions, folder.path().join("organs_labels.txt"));
//! assert_eq!(labels::read_table(&descriptions)?, table);
//! # Ok(())
//! # }
//! ```

mod colour;
pub(crate) mod seg;
mod snap;
mod table;

pub use colour::default_colours;
pub use table::{Label, LabelError, LabelTable};

use crate::atomic::{Pending, write_file};
use crate::error::{IoError, Result};
use crate::image::{Format, WriteOptions, write_label_nifti, write_label_nrrd};
use crate::names::read_entries;
use rayon::prelude::*;
use std::io::Write;
use std::path::{Path, PathBuf};
use voxalign_image::LabelMap;

/// Writes a label map as one NIfTI file (`.nii`, `.nii.gz`) with intent 1002 (label), and beside it the names and
/// colours as ITK-SNAP's label description file, whose path is [that of](description_path) the image with
/// `_labels.txt` or, where its name ends in `labels`, `.txt`, and is returned. The values have the table's [type](LabelTable::data_type); `options.data_type` is not used.
///
/// Both appear together, the image last. Within a [`Staging`](crate::staging::Staging), write it by
/// [`write_image`](crate::staging::Staging::write_image), which moves both.
///
/// # Errors
/// [`IoError::Labels`] for a value that is not in the table; another name than that of one NIfTI file; a folder that
/// cannot be written; a full disk.
pub fn write_nifti(
    path: impl AsRef<Path>,
    labels: &LabelMap,
    table: &LabelTable,
    options: &WriteOptions,
) -> Result<PathBuf> {
    let path = path.as_ref();
    if Format::from_path(path)? != Format::Nifti {
        let what = "label maps with a label description file are NIfTI in one file";
        return Err(IoError::unsupported(path, what, "write .nii.gz, or .seg.nrrd for 3D Slicer"));
    }
    check(path, labels, table)?;
    let descriptions = description_path(path);
    let text = Pending::write(&descriptions, |w| w.write_all(snap::text(table).as_bytes()))?;
    let image = write_label_nifti(path, labels, table.data_type(), options)?;
    Pending::commit_pair(text, image)?;
    Ok(descriptions)
}

/// Where [`write_nifti`] writes the label description file of an image: `a_labels.txt` beside `a.nii.gz`, and `a_labels.txt` beside `a_labels.nii.gz` as well.
#[must_use]
pub fn description_path(image: impl AsRef<Path>) -> PathBuf {
    let image = image.as_ref();
    let name = image.file_name().unwrap_or_default().to_string_lossy();
    let end = |end: &str| {
        let at = name.len().checked_sub(end.len())?;
        name.get(at..)?.eq_ignore_ascii_case(end).then_some(at)
    };
    let stem = [".nii.gz", ".nii"].iter().find_map(|e| end(e)).unwrap_or(name.len());
    let stem = &name[..stem];
    let end = if stem.to_ascii_lowercase().ends_with("labels") { "" } else { "_labels" };
    image.with_file_name(format!("{stem}{end}.txt"))
}

/// Writes a table as ITK-SNAP's label description file, all labels visible and opaque.
///
/// # Errors
/// A folder that cannot be written; a full disk.
pub fn write_descriptions(path: impl AsRef<Path>, table: &LabelTable) -> Result<()> {
    write_file(path.as_ref(), |w| w.write_all(snap::text(table).as_bytes()))
}

/// Writes a label map with names and colours as a segmentation of 3D Slicer (`.seg.nrrd`): one layer in LPS, packed by gzip where
/// `options.compression_level` is above 0. The values have the table's [type](LabelTable::data_type);
/// `options.data_type` is not used. A 2D image is a volume of depth 1, as Slicer has it.
///
/// # Errors
/// [`IoError::Labels`] for a value that is not in the table; a name that does not end in `.seg.nrrd`, by which Slicer
/// knows segmentations; an image of one voxel, which stands for none there; a folder that cannot be written; a full disk.
pub fn write_segmentation(
    path: impl AsRef<Path>,
    labels: &LabelMap,
    table: &LabelTable,
    options: &WriteOptions,
) -> Result<()> {
    let path = path.as_ref();
    if !seg::is_name(path) {
        let what = "3D Slicer knows segmentations by the end .seg.nrrd of their names";
        return Err(IoError::unsupported(path, what, "name the file so"));
    }
    if labels.grid().len() == 1 {
        let what = "the image has one voxel, which means no image in 3D Slicer's segmentations";
        return Err(IoError::unsupported(path, what, "write .nii.gz"));
    }
    check(path, labels, table)?;
    let pairs = seg::pairs(labels.grid(), table);
    write_label_nrrd(path, labels, table.data_type(), options, &pairs)
}

/// Reads the names and colours of labels: ITK-SNAP's label description files, segmentations of 3D Slicer and FreeSurfer's
/// colour tables, and CSV or TSV of numbers and names. The background, 0, is left out. A label without a valid colour gets a
/// [default one](default_colours).
///
/// # Errors
/// As [`read_label_names`](crate::names::read_label_names); [`IoError::Labels`] for what a [`LabelTable`] does not hold.
pub fn read_table(path: impl AsRef<Path>) -> Result<LabelTable> {
    let path = path.as_ref();
    let entries = read_entries(path)?.into_iter().filter(|(label, _)| *label != 0);
    LabelTable::with_colours(entries.map(|(label, entry)| (label, entry.name, entry.colour)))
        .map_err(|wrong| IoError::labels(path, wrong))
}

/// Checks that all values are in the table, or 0.
fn check(path: &Path, labels: &LabelMap, table: &LabelTable) -> Result<()> {
    let mut known = [false; 1 << 16];
    known[0] = true;
    for label in table.labels() {
        known[usize::from(label.value())] = true;
    }
    let listed = |value: i32| usize::try_from(value).is_ok_and(|v| known.get(v) == Some(&true));
    let values = labels.data();
    let Some(at) = values.par_iter().position_first(|&value| !listed(value)) else { return Ok(()) };
    let [nx, ny, _] = labels.dims();
    let index = [at % nx, at / nx % ny, at / (nx * ny)];
    Err(IoError::labels(path, LabelError::Unlisted { value: values[at], index }))
}
