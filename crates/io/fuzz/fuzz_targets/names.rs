//! Tables of label names of every form.
#![no_main]

use libfuzzer_sys::fuzz_target;
use voxalign_io_fuzz::names;

fuzz_target!(|bytes: &[u8]| {
    names("a.txt", bytes);
});
