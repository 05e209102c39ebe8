//! Point lists, in both worlds.
#![no_main]

use libfuzzer_sys::fuzz_target;
use voxalign_io::points::{PointConvention, read_points_from_bytes};
use voxalign_io_fuzz::checked;

fuzz_target!(|bytes: &[u8]| {
    for world in [PointConvention::Ras, PointConvention::Lps] {
        checked("a.csv", read_points_from_bytes("a.csv", bytes, world));
    }
});
