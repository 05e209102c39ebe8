//! The `voxalign` program.
fn main() {}
