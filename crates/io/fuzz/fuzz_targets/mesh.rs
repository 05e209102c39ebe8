//! Meshes; the first byte chooses the name, and the second the space.
#![no_main]

use libfuzzer_sys::fuzz_target;
use voxalign_io_fuzz::mesh;

const NAMES: [&str; 8] = ["a.gii", "a.vtk", "a.vtp", "a.stl", "a.ply", "lh.pial", "a.tck", "a.trk"];

fuzz_target!(|bytes: &[u8]| {
    if let [name, space, bytes @ ..] = bytes {
        mesh(NAMES[usize::from(*name) % NAMES.len()], space % 2 == 1, bytes);
    }
});
