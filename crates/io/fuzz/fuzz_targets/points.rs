#![no_main]

use libfuzzer_sys::fuzz_target;
use voxalign_io::points::{PointConvention, read_points_from_bytes};

fuzz_target!(|bytes: &[u8]| {
    let _ = read_points_from_bytes("a.csv", bytes, PointConvention::Lps);
});
