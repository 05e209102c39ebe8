//! Transforms whose format is seen from the content: ITK text, ITK MATLAB and HDF5, FSL.
#![no_main]

use libfuzzer_sys::fuzz_target;
use voxalign_io_fuzz::transform;

fuzz_target!(|bytes: &[u8]| {
    transform("a.mat", bytes);
});
