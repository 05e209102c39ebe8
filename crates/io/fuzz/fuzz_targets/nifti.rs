#![no_main]

use libfuzzer_sys::fuzz_target;
use voxalign_io::image::{read_info_from_bytes, read_labels_from_bytes, read_volume_from_bytes};

fuzz_target!(|bytes: &[u8]| {
    let _ = read_info_from_bytes("a.nii", bytes);
    let _ = read_volume_from_bytes("a.nii", bytes);
    let _ = read_labels_from_bytes("a.nii", bytes);
});
