//! One DICOM file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use voxalign_io_fuzz::image;

fuzz_target!(|bytes: &[u8]| {
    image("a.dcm", bytes);
});
