//! Point lists of every format, in both worlds, with an image and without.
#![no_main]

use libfuzzer_sys::fuzz_target;
use voxalign_io_fuzz::points;

fuzz_target!(|bytes: &[u8]| {
    points("a.csv", bytes);
});
