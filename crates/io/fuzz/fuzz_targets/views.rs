//! Tables of views, and calibrations of other programs.
#![no_main]

use libfuzzer_sys::fuzz_target;
use voxalign_io::xray::geometry;
use voxalign_io_fuzz::checked;

fuzz_target!(|bytes: &[u8]| {
    for view in checked("a.toml", geometry::read_from_bytes("a.toml", bytes)).unwrap_or_default() {
        checked("a.toml", view.geometry(Some([5, 4])));
    }
});
