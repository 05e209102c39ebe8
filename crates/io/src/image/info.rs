//! Description of an image, from its header.

use super::oddity::Oddity;
use super::options::{ByteOrder, Compression, DataType, Format};
use crate::error::{shorten, shorten_uid};
use std::fmt;
use std::path::PathBuf;
use voxalign_image::Grid;

/// Where the geometry of an image comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GridSource {
    /// NIfTI's sform.
    Sform,
    /// NIfTI's qform.
    Qform,
    /// The directions, spacing and origin of NRRD or MetaImage.
    Directions,
    /// The origin field that SPM keeps in ANALYZE headers, with axes to the left, to the front
    /// and up.
    SpmOrigin,
    /// The positions and directions of DICOM slices.
    Slices,
    /// The file gives spacing at most; the rest is assumed, as [`ImageInfo::oddities`] says.
    Assumed,
}

impl fmt::Display for GridSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            GridSource::Sform => "sform",
            GridSource::Qform => "qform",
            GridSource::Directions => "directions",
            GridSource::SpmOrigin => "SPM origin",
            GridSource::Slices => "slice positions",
            GridSource::Assumed => "assumed",
        })
    }
}

/// A NIfTI header extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extension {
    /// Its registered code (4 AFNI, 6 comment, 32 CIFTI …).
    pub code: i32,
    /// Its size with its own header, bytes.
    pub size: usize,
}

/// A series of DICOM images.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SeriesInfo {
    /// Its place in the list of series, from 1.
    pub number: usize,
    /// SeriesInstanceUID.
    pub uid: String,
    /// SeriesNumber.
    pub series_number: Option<i64>,
    /// SeriesDescription; empty where there is none.
    pub description: String,
    /// Modality, such as `MR` or `CT`.
    pub modality: String,
    /// Number of files.
    pub files: usize,
    /// Number of slices, of all volumes; 0 where no file can be read.
    pub frames: usize,
    /// Columns and rows of a slice.
    pub size: [usize; 2],
}

impl fmt::Display for SeriesInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, uid, description, modality, files, frames, size, .. } = self;
        let description = shorten(description);
        let uid = shorten_uid(uid);
        let [columns, rows] = size;
        write!(f, "{number}: {modality} '{description}', ")?;
        match frames {
            0 => write!(f, "not read: name a file of it to see why, {files} files, {uid}"),
            n => write!(f, "{n} slices of {columns} x {rows} in {files} files, {uid}"),
        }
    }
}

/// What the header of an image says.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ImageInfo {
    /// The header's file.
    pub path: PathBuf,
    /// The file that holds the values; the same for formats of one file.
    pub data_path: PathBuf,
    /// All files that the image is in: one, a header and its values, or the slices of a DICOM series in the
    /// order of their names.
    pub files: Vec<PathBuf>,
    /// The format.
    pub format: Format,
    /// The format with its version in words, such as `NIfTI-1` or `ANALYZE 7.5`.
    pub format_name: String,
    /// Sizes of all axes.
    pub dims: Vec<usize>,
    /// How many axes the file has; `dims` are at least three, filled up with ones.
    pub dimensions: usize,
    /// Values of each voxel that are stored beside each other, as the vectors of NRRD and
    /// MetaImage are; `dims` has them as an axis after the spatial ones. 1 for NIfTI, which stores
    /// every component as a volume.
    pub components: usize,
    /// The stored type.
    pub data_type: DataType,
    /// The order of bytes.
    pub byte_order: ByteOrder,
    /// How the values are packed.
    pub compression: Compression,
    /// Factor from stored to true values.
    pub slope: f64,
    /// Summand from stored to true values.
    pub intercept: f64,
    /// Whether values are made in other ways than by one scale of one type, as those of DICOM slices with scales of
    /// their own, or between slices; `slope` is then 1, `intercept` 0 and `data_type` that of the first part.
    pub own_scales: bool,
    /// What tells each of several volumes of a DICOM series from the others, such as `echo time 4.92`;
    /// empty where it is not known.
    pub volume_names: Vec<String>,
    /// The geometry that is used (of the first three axes).
    pub grid: Grid,
    /// Where it comes from.
    pub grid_source: GridSource,
    /// NIfTI's code of the qform; 0 means not set.
    pub qform_code: i32,
    /// NIfTI's code of the sform; 0 means not set.
    pub sform_code: i32,
    /// The grid by the qform, where it is set and valid.
    pub qform: Option<Grid>,
    /// The grid by the sform, where it is set and valid.
    pub sform: Option<Grid>,
    /// The largest distance in mm between the corners of the two, where both are set.
    pub form_difference_mm: Option<f64>,
    /// NIfTI's intent code and name, such as `1007 (vector)`; empty for none.
    pub intent: String,
    /// Free text of the header.
    pub description: String,
    /// NIfTI extensions.
    pub extensions: Vec<Extension>,
    /// Everything unusual, a sentence each.
    pub oddities: Vec<Oddity>,
}

impl ImageInfo {
    /// Number of volumes: the product of the axes after the third; at most `usize::MAX`.
    #[must_use]
    pub fn volumes(&self) -> usize {
        self.dims.iter().skip(3).fold(1, |n, &d| n.saturating_mul(d))
    }

    /// The stored type, where it holds the true values as well: nothing where a scale changes any of them.
    #[must_use]
    pub fn unscaled_type(&self) -> Option<DataType> {
        let unscaled = self.slope == 1.0 && self.intercept == 0.0 && !self.own_scales;
        unscaled.then_some(self.data_type)
    }
}

impl ImageInfo {
    /// Adds what is unusual about the grid to the oddities.
    pub(crate) fn describe_grid(&mut self) {
        let grid = &self.grid;
        let mut found = Vec::new();
        let oblique = grid.obliqueness().to_degrees();
        if oblique > 0.1 {
            found.push(Oddity::Oblique(format!(
                "the voxel axes are oblique: {oblique:.2} degrees off the world axes"
            )));
        }
        let skew = grid.skewness().to_degrees();
        if skew > 0.05 {
            found.push(Oddity::Other(format!(
                "the voxel axes are not orthogonal: {skew:.2} degrees off a right angle"
            )));
        }
        if !grid.is_right_handed() {
            let code = grid.orientation();
            let words = format!("the voxel axes are left-handed ({code}, one axis is flipped)");
            found.push(Oddity::LeftHanded(words));
        }
        let spacing = grid.spacing();
        let used: Vec<f64> = (0..3).filter(|&a| grid.dims()[a] > 1).map(|a| spacing[a]).collect();
        let low = used.iter().fold(f64::MAX, |a, &b| a.min(b));
        let high = used.iter().fold(0.0, |a: f64, &b| a.max(b));
        if high > 1.5 * low {
            let words = format!("the voxels are anisotropic: {low:.4} to {high:.4} mm");
            found.push(Oddity::Anisotropic(words));
        }
        let widest = (0..3)
            .filter(|&a| grid.dims()[a] > 1)
            .map(|a| spacing[a] * grid.dims()[a] as f64)
            .fold(0.0, f64::max);
        if high > 50.0 || (high > 0.0 && low < 1e-4) {
            let words = format!("a spacing of {low:e} to {high:e} mm is unusual; is the unit mm?");
            found.push(Oddity::Other(words));
        } else if used.len() == 3 && widest < TINY_MM {
            let words = format!(
                "the whole image is {} mm wide; is the unit mm? (as metres it would be {} mm)",
                short(widest),
                short(1000.0 * widest)
            );
            found.push(Oddity::Other(words));
        }
        if self.data_type == DataType::F64 {
            found.push(Oddity::Other("64-bit floats are rounded to 32 bits".into()));
        }
        self.oddities.extend(found);
    }
}

/// Images of three dimensions that are narrower are hardly ever in millimetres: those of people in metres are.
const TINY_MM: f64 = 3.0;

/// A length in three digits.
fn short(mm: f64) -> String {
    let digits = (2 - mm.abs().log10().floor() as i32).clamp(0, 9) as usize;
    format!("{mm:.digits$}")
}

#[cfg(test)]
mod tests {
    use crate::image::{WriteOptions, read_info, write_volume};
    use voxalign_image::{Grid, Volume};

    #[test]
    fn an_image_in_metres_is_odd() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.nii");
        let odd = |dims: [usize; 3], spacing: [f64; 3]| {
            let grid = Grid::axis_aligned(dims, spacing).unwrap();
            write_volume(&path, &Volume::filled(grid, 0.0), &WriteOptions::default()).unwrap();
            let found = read_info(&path).unwrap().oddities;
            found.iter().filter(|o| !o.is_normal_geometry()).map(|o| o.to_string()).collect()
        };
        let said: Vec<String> = odd([160, 200, 180], [0.001; 3]);
        assert_eq!(
            said,
            ["the whole image is 0.200 mm wide; is the unit mm? (as metres it would be 200 mm)"]
        );
        // A mouse's brain, and a picture through a microscope.
        assert!(odd([160, 200, 180], [0.05; 3]).is_empty());
        assert!(odd([160, 200, 1], [0.001; 3]).is_empty());
    }
}
