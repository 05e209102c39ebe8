//! Displacement fields: the content suits at most one of the names.
#![no_main]

use libfuzzer_sys::fuzz_target;
use voxalign_io_fuzz::transform;

fuzz_target!(|bytes: &[u8]| {
    for name in ["a.nii", "a.nrrd", "a.mha"] {
        transform(name, bytes);
    }
});
