//! Files that once broke a parser, kept in `crashes/`: every one is read in every way.

use std::path::Path;
use voxalign_image::Grid;
use voxalign_io::image::{
    read_info, read_info_from_bytes, read_labels_from_bytes, read_volume, read_volume_from_bytes,
};
use voxalign_io::mesh;
use voxalign_io::points;
use voxalign_io::transform::{self, Geometry};
use voxalign_io::xray;

/// What is wrong with each file, as the first of the readers that suit it says.
const SAID: &[(&str, &str)] = &[
    ("axes_beyond_memory.hdr", "more than this machine can address"),
    ("long_class.tfm", "unknown dimensions"),
    ("planes_in_tiles.tif", "colours in tiles of their own are not supported"),
    ("values_elsewhere.nhdr", "its data file"),
    ("wide_tiles.tif", "bytes cannot hold"),
];

#[test]
fn every_file_is_read_or_refused_in_a_sentence() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/crashes");
    let grid = Grid::axis_aligned([5, 4, 3], [1.0, 2.0, 3.0]).unwrap();
    let geometry = Geometry { fixed: Some(&grid), moving: Some(&grid) };
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let bytes = std::fs::read(&path).unwrap();
        let errors = [
            read_info_from_bytes(&name, &bytes).err(),
            read_volume_from_bytes(&name, &bytes).err(),
            read_labels_from_bytes(&name, &bytes).err(),
            read_info(&path).err(),
            read_volume(&path).err(),
            transform::read_from_bytes(&name, &bytes, &geometry).err(),
            transform::read(&path, &geometry).err(),
            points::read_from_bytes(&name, &bytes, &points::ReadOptions::default()).err(),
            xray::read_from_bytes(&name, &bytes).err(),
            mesh::read_from_bytes(&name, &bytes, &mesh::ReadOptions::default()).err(),
            xray::geometry::read_from_bytes(&name, &bytes).err(),
        ];
        let words: Vec<_> = errors.into_iter().flatten().map(|e| e.to_string()).collect();
        for text in &words {
            assert!(text.contains(&name) && text.len() < 1500, "{text}");
        }
        let said = SAID.iter().find(|(of, _)| *of == name).map(|(_, part)| part);
        let said = said.unwrap_or_else(|| panic!("say what is wrong with {name}"));
        assert!(words.iter().any(|text| text.contains(said)), "'{said}' is not in {words:?}");
        names.push(name);
    }
    assert_eq!(names.len(), SAID.len(), "{names:?}");
}
