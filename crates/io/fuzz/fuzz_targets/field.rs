#![no_main]

use libfuzzer_sys::fuzz_target;
use voxalign_image::Grid;
use voxalign_io::transform::{Geometry, read_from_bytes};

fuzz_target!(|bytes: &[u8]| {
    let Ok(grid) = Grid::axis_aligned([5, 4, 3], [1.0, 2.0, 3.0]) else { return };
    let geometry = Geometry { fixed: Some(&grid), moving: Some(&grid) };
    let _ = read_from_bytes("a.nii", bytes, &geometry);
});
