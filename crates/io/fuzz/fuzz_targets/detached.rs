//! Header and values in two files, which only files on disk can be. The first two bytes of the input
//! are the length of the header, the next one says which format, the rest are the two files.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::path::PathBuf;
use std::sync::OnceLock;
use voxalign_io::image::{read_info, read_labels, read_volume};
use voxalign_io::transform::{Geometry, read};
use voxalign_io_fuzz::checked;

/// A folder of this process, in memory where `TMPDIR` says so.
static FOLDER: OnceLock<PathBuf> = OnceLock::new();

/// The names of header and values.
const NAMES: [[&str; 2]; 5] = [
    ["a.hdr", "a.img"],
    ["b.hdr.gz", "b.img.gz"],
    ["c.mhd", "c.raw"],
    ["d.nhdr", "d.raw"],
    ["e.hdr", "e.img.gz"],
];

fuzz_target!(|bytes: &[u8]| {
    let folder = FOLDER.get_or_init(|| {
        let folder = std::env::temp_dir().join(format!("voxalign-fuzz-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a temporary folder can be made");
        folder
    });
    let Some((&[low, high, kind], files)) = bytes.split_first_chunk() else { return };
    let at = usize::from(u16::from_le_bytes([low, high])).min(files.len());
    let (header, values) = files.split_at(at);
    let names = NAMES[usize::from(kind) % NAMES.len()];
    let paths = names.map(|name| folder.join(name));
    for (path, content) in paths.iter().zip([header, values]) {
        std::fs::write(path, content).expect("a temporary file can be written");
    }
    // An error may be about either file.
    let folder = &*folder.to_string_lossy();
    let [header, values] = &paths;
    checked(folder, read_info(header));
    checked(folder, read_volume(header));
    checked(folder, read_labels(header));
    checked(folder, read(header, &Geometry::default()));
    if names[1].contains(".img") {
        checked(folder, read_volume(values));
    }
});
