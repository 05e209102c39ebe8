//! Meshes of tetrahedra; the first byte chooses the name, and the second the space.
#![no_main]

use libfuzzer_sys::fuzz_target;
use voxalign_io_fuzz::tetra;

const NAMES: [&str; 3] = ["a.vtu", "a.vtk", "a.msh"];

fuzz_target!(|bytes: &[u8]| {
    if let [name, space, bytes @ ..] = bytes {
        tetra(NAMES[usize::from(*name) % NAMES.len()], space % 2 == 1, bytes);
    }
});
