//! Reads a mesh and writes it in another format: `mesh_convert INPUT OUTPUT [ras|lps]`.
//!
//! The third argument is the space of both files, where their formats do not say it.

use std::error::Error;
use voxalign_io::mesh::{MeshSpace, ReadOptions, WriteOptions, read, write};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (input, output, space) = match &arguments[..] {
        [input, output] => (input, output, None),
        [input, output, space] if space == "ras" => (input, output, Some(MeshSpace::Ras)),
        [input, output, space] if space == "lps" => (input, output, Some(MeshSpace::Lps)),
        _ => return Err("usage: mesh_convert INPUT OUTPUT [ras|lps]".into()),
    };
    let (mesh, _) = read(input, &ReadOptions { space })?;
    let space = space.unwrap_or_default();
    write(output, &mesh, &WriteOptions { space, ..WriteOptions::default() })?;
    Ok(())
}
