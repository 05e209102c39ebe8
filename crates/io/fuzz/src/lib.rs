//! What the fuzz targets share: reading bytes in every way that the library has, and what must
//! hold of whatever comes out.

use std::path::Path;
use voxalign_image::{Grid, Vector3};
use voxalign_io::IoError;
use voxalign_io::image::{
    ImageInfo, Region, read_info_from_bytes, read_labels_from_bytes, read_volume_from_bytes,
};
use voxalign_io::mesh::{self, MeshSpace, ReadOptions};
use voxalign_io::names::read_label_names_from_bytes;
use voxalign_io::points::{
    PointConvention, ReadOptions as PointOptions, read_from_bytes as read_points,
};
use voxalign_io::pyramid::{
    Missing, PyramidOptions, PyramidSource, open as open_pyramid, open_tiff_bytes,
};
use voxalign_io::tetra::{self, ReadOptions as TetraOptions};
use voxalign_io::transform::{Geometry, read_from_bytes};
use voxalign_io::xray::read_from_bytes as read_xray;

/// Reads an image's header, values and labels.
pub fn image(name: &str, bytes: &[u8]) {
    let info = checked(name, read_info_from_bytes(name, bytes));
    if let Some((volume, of_volume)) = checked(name, read_volume_from_bytes(name, bytes)) {
        assert_eq!(volume.data().len(), volume.grid().len());
        let words = |info: ImageInfo| format!("{info:?}");
        assert_eq!(info.map(words), Some(words(of_volume)), "one header, one meaning");
    }
    if let Some(labels) = checked(name, read_labels_from_bytes(name, bytes)) {
        assert_eq!(labels.data().len(), labels.grid().len());
    }
}

/// Reads all frames of an X-ray image.
pub fn xray(name: &str, bytes: &[u8]) {
    if let Some(image) = checked(name, read_xray(name, bytes)) {
        let [columns, rows] = image.dims;
        assert_eq!(image.values.len(), image.frames * columns * rows);
        assert!(image.geometry.is_none_or(|view| view.dims() == image.dims));
        assert!(image.times.is_none_or(|times| times.len() == image.frames));
    }
}

/// Reads the corners of all levels of a TIFF file.
pub fn pyramid(name: &str, bytes: &[u8]) {
    for options in [
        PyramidOptions::default(),
        PyramidOptions {
            channel: Some(0),
            window: Some([0.0, 1e3]),
            volume: Some(0),
            ..Default::default()
        },
    ] {
        if let Some(source) = checked(name, open_tiff_bytes(name, bytes, &options)) {
            corners(name, &*source);
        }
    }
}

/// Reads the corners of all levels of an OME-Zarr.
pub fn zarr(folder: &Path) {
    let name = &*folder.to_string_lossy();
    let options = PyramidOptions { missing: Missing::Background, ..Default::default() };
    if let Some(source) = checked(name, open_pyramid(folder, &options)) {
        corners(name, &*source);
    }
}

fn corners(name: &str, source: &dyn PyramidSource) {
    assert!(!source.levels().is_empty());
    for (number, level) in source.levels().iter().enumerate() {
        let dims = level.dims();
        let size = dims.map(|n| n.min(9));
        for start in [[0; 3], std::array::from_fn(|a| dims[a] - size[a])] {
            let region = Region { start, size };
            if let Some(pixels) = checked(name, source.block(number, &region)) {
                assert_eq!(
                    (pixels.len(), pixels.pixel_type()),
                    (region.len(), source.info().pixel_type)
                );
            }
        }
    }
}

/// Reads points; they are finite, and each has a value in every column.
pub fn points(name: &str, bytes: &[u8]) {
    let Ok(grid) = Grid::axis_aligned([5, 4, 3], [1.0, 2.0, 3.0]) else { return };
    for convention in [None, Some(PointConvention::Ras), Some(PointConvention::Lps)] {
        for (grid, volume) in [(None, None), (Some(&grid), Some(1))] {
            let options = PointOptions { convention, grid, volume };
            if let Some((set, info)) = checked(name, read_points(name, bytes, &options)) {
                assert!(set.points().iter().all(|p| p.iter().all(|v| v.is_finite())));
                assert!(set.columns().iter().all(|(_, values)| values.len() == set.len()));
                assert!(
                    info.oddities.iter().all(|oddity| oddity.len() < 500),
                    "{:?}",
                    info.oddities
                );
            }
        }
    }
}

/// Reads the names of labels; there are some, and each is a line.
pub fn names(name: &str, bytes: &[u8]) {
    if let Some(names) = checked(name, read_label_names_from_bytes(name, bytes)) {
        assert!(!names.is_empty());
        assert!(names.values().all(|name| !name.is_empty() && !name.contains('\n')));
    }
}

/// Reads a mesh and measures it.
pub fn mesh(name: &str, lps: bool, bytes: &[u8]) {
    let space = lps.then_some(MeshSpace::Lps);
    if let Some((mesh, info)) =
        checked(name, mesh::read_from_bytes(name, bytes, &ReadOptions { space }))
    {
        assert_eq!(info.vertices, mesh.vertices().len());
        assert_eq!((info.faces, info.lines), (mesh.faces().len(), mesh.lines().len()));
        assert!(info.oddities.iter().all(|oddity| oddity.len() < 500), "{:?}", info.oddities);
        let _ = (mesh.area(), mesh.length(), mesh.bounds());
        assert!(mesh.unused().is_ok() && mesh.volume().is_ok());
        assert!(
            mesh.components().is_ok()
                && mesh.duplicate_vertices().is_ok()
                && mesh.contrary_edges().is_ok()
        );
        assert!(mesh.without_degenerate().is_ok_and(|(kept, _)| kept.faces().len() <= info.faces));
    }
}

/// Reads a mesh of tetrahedra and measures it.
pub fn tetra(name: &str, lps: bool, bytes: &[u8]) {
    let options = TetraOptions { space: lps.then_some(MeshSpace::Lps), labels: None };
    if let Some((mesh, info)) = checked(name, tetra::read_from_bytes(name, bytes, &options)) {
        let tetrahedra = mesh.tetrahedra().len();
        assert_eq!((info.vertices, info.tetrahedra), (mesh.vertices().len(), tetrahedra));
        assert_eq!(mesh.labels().len(), if info.labels.is_some() { tetrahedra } else { 0 });
        assert!(info.oddities.iter().all(|oddity| oddity.len() < 500), "{:?}", info.oddities);
        let _ = (mesh.volume(), mesh.bounds());
        assert!(mesh.used().is_ok_and(|used| used.iter().all(|&used| used)));
        assert!(mesh.surface().is_ok() && mesh.parts().is_ok() && mesh.faults().is_ok());
    }
}

/// Reads a transform and maps a point by it.
pub fn transform(name: &str, bytes: &[u8]) {
    let Ok(grid) = Grid::axis_aligned([5, 4, 3], [1.0, 2.0, 3.0]) else { return };
    let geometry = Geometry { fixed: Some(&grid), moving: Some(&grid) };
    if let Some(transform) = checked(name, read_from_bytes(name, bytes, &geometry)) {
        let _ = transform.apply(Vector3::new(1.5, -2.0, 3.0));
        let _ = transform.to_affine();
    }
}

/// The value; an error has to name the file and to be of a length that can be read.
pub fn checked<T>(name: &str, result: Result<T, IoError>) -> Option<T> {
    result
        .map_err(|error| {
            let message = error.to_string();
            assert!(message.contains(name) && message.len() < 1500, "{message}");
        })
        .ok()
}
