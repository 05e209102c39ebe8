//! TIFF files as pyramids of tiles or strips.
#![no_main]

use libfuzzer_sys::fuzz_target;
use voxalign_io_fuzz::pyramid;

fuzz_target!(|bytes: &[u8]| pyramid("a.tif", bytes));
