//! Single-slice images in the formats of [`crate::image`].

use super::{Xray, XrayToWrite};
use crate::error::{IoError, Result};
use crate::image::{self, GridSource, Region, WriteOptions};
use crate::source::Source;
use std::path::Path;
use voxalign_image::{Affine, Grid, ImageError, Matrix3, Vector3};

/// Pixels that are read at a time: a packed file may claim more than it has.
const PIECE: usize = 1 << 22;

/// Reads an image of one slice; its volumes are frames.
pub(super) fn read(source: Source<'_>) -> Result<Xray> {
    let stored = image::open_source(source)?;
    let info = stored.info();
    let [columns, rows, slices] = info.grid.dims();
    if slices != 1 {
        return Err(IoError::malformed(
            &info.path,
            format!(
                "it has {slices} slices of {columns} x {rows} pixels, and an X-ray image has one"
            ),
            "take a slice out, or write frames as the pages of a TIFF file",
        ));
    }
    let mut image = Xray::new([columns, rows]);
    let [x, y, _] = info.grid.spacing();
    let known = info.grid_source != GridSource::Assumed || [x, y] != [1.0; 2];
    image.pixel_size = known.then_some([x, y]);
    image.oddities.clone_from(&info.oddities);
    let volumes = info.volumes();
    let total = columns.saturating_mul(rows).saturating_mul(volumes);
    let height = (PIECE / columns).max(1);
    for volume in 0..volumes {
        for y in (0..rows).step_by(height) {
            let region = Region { start: [0, y, 0], size: [columns, height.min(rows - y), 1] };
            let out = image.grow(&info.path, region.len(), total)?;
            stored.read(&region, volume, out)?;
        }
        image.frames += 1;
    }
    Ok(image)
}

/// Writes one frame as floats, where the detector is in the world; without a geometry at the world's origin, with
/// pixels of 1 mm where their size is not known.
pub(super) fn write(path: &Path, image: &XrayToWrite<'_>) -> Result<()> {
    let grid = grid(image).map_err(|e| IoError::image(path, e))?;
    image::write_values(path, &grid, image.values, &WriteOptions::default())
}

/// Columns along x, rows along y, and a slice as thick as pixels are wide.
fn grid(image: &XrayToWrite<'_>) -> std::result::Result<Grid, ImageError> {
    let [columns, rows] = image.dims;
    let [column, row, origin] = match &image.geometry {
        Some(view) => [view.column(), view.row(), view.origin()],
        None => {
            let [x, y] = image.pixel_size.unwrap_or([1.0; 2]);
            [Vector3::x() * x, Vector3::y() * y, Vector3::zeros()]
        }
    };
    let depth = column.cross(&row).normalize() * column.norm();
    let matrix = Matrix3::from_columns(&[column, row, depth]);
    Grid::new([columns, rows, 1], Affine::new(matrix, origin))
}

#[cfg(test)]
mod tests {
    use crate::image::{WriteOptions, read_info, write_volume};
    use crate::xray::{self, XrayToWrite};
    use voxalign_image::{CArm, Grid, Vector3, Volume};

    #[test]
    fn the_detector_is_where_it_is() {
        let view = CArm {
            source_to_isocentre: 700.0,
            source_to_detector: 1000.0,
            isocentre: Vector3::new(1.0, 2.0, 3.0),
            primary: 0.5,
            secondary: -0.25,
            pixel_size: [0.5, 0.25],
            dims: [5, 4],
            centre: None,
        };
        let view = view.geometry().unwrap();
        let values: Vec<f32> = (0..20).map(|i| i as f32 / 3.0).collect();
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.nii.gz", "a.nii", "a.mha", "a.nrrd"] {
            let path = folder.path().join(name);
            let image = XrayToWrite { geometry: Some(view), ..XrayToWrite::new(&values, [5, 4]) };
            xray::write(&path, &image).unwrap();
            let grid = read_info(&path).unwrap().grid;
            let place = |x, y| grid.index_to_world(Vector3::new(x, y, 0.0));
            assert!((place(0.0, 0.0) - view.origin()).norm() < 1e-4);
            assert!((place(4.0, 3.0) - view.place(4.0, 3.0)).norm() < 1e-4);
            assert!(grid.is_right_handed());
            let read = xray::read(&path).unwrap();
            assert_eq!((read.values.as_slice(), read.dims, read.frames), (&values[..], [5, 4], 1));
            let size = read.pixel_size.unwrap();
            assert!((size[0] - 0.5).abs() < 1e-6 && (size[1] - 0.25).abs() < 1e-6);
            assert_eq!(read.missing_attribute(), None);
        }
    }

    #[test]
    fn volumes_are_no_x_ray_images() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.nii");
        let grid = Grid::axis_aligned([4, 3, 2], [1.0; 3]).unwrap();
        write_volume(&path, &Volume::filled(grid, 1.0), &WriteOptions::default()).unwrap();
        let said = xray::read(&path).unwrap_err().to_string();
        assert!(said.contains("a.nii") && said.contains("2 slices of 4 x 3"), "{said}");
    }

    #[test]
    fn volumes_of_one_slice_are_frames() {
        let text = "NRRD0004\ntype: short\ndimension: 4\nsizes: 3 2 1 2\nspace directions: (1,0,0) (0,2,0) \
                    (0,0,3) none\nspace: RAS\nendian: little\nencoding: raw\n\n";
        let values = (0..12i16).flat_map(i16::to_le_bytes);
        let bytes: Vec<u8> = text.bytes().chain(values).collect();
        let read = xray::read_from_bytes("a.nrrd", &bytes).unwrap();
        assert_eq!((read.dims, read.frames, read.pixel_size), ([3, 2], 2, Some([1.0, 2.0])));
        assert_eq!(read.frame(1).unwrap(), [6.0, 7.0, 8.0, 9.0, 10.0, 11.0]);
        assert_eq!(read.frame(2), None);
    }
}
