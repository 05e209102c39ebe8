//! The header of a NIfTI pair or of ANALYZE 7.5.
#![no_main]

use libfuzzer_sys::fuzz_target;
use voxalign_io_fuzz::image;

fuzz_target!(|bytes: &[u8]| {
    image("a.hdr", bytes);
});
