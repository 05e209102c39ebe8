//! X-ray images, whose kind is seen from the content.
#![no_main]

use libfuzzer_sys::fuzz_target;
use voxalign_io_fuzz::xray;

fuzz_target!(|bytes: &[u8]| {
    let name = match bytes {
        [0x89, ..] => "a.png",
        [b'I' | b'M', ..] => "a.tif",
        _ => "a.dcm",
    };
    xray(name, bytes);
});
