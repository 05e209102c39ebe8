//! A mesh or a list of points of the moving image on the fixed one:
//! `cargo run --release -p voxalign --example carry INPUT OUTPUT TRANSFORMS...`

#![allow(clippy::print_stdout)]

use std::path::Path;
use voxalign::io::transform::{self, Geometry};
use voxalign::{Error, PointMap, Silent, Step, carry, files};

/// Carries a file by the inverses of a chain of transforms, as `voxalign apply` does; gives how many points went.
pub fn to_fixed(input: &str, output: &str, transforms: &[String]) -> Result<usize, Error> {
    let read = |path: &String| Ok(Step::Backward(transform::read(path, &Geometry::default())?));
    // A fixed point goes through the first transform, then the next: a moving one the other way.
    let steps = transforms.iter().rev().map(read).collect::<Result<_, Error>>()?;
    let (map, reading) = (PointMap::new(steps), carry::Reading::default());
    let [input, output] = [input, output].map(Path::new);
    let done = match files::kind(input)? {
        files::Kind::Mesh => carry::mesh_file(input, output, &map, &reading, &Silent)?,
        _ => carry::points_file(input, output, &map, &reading, &Silent)?,
    };
    Ok(done.count)
}

#[allow(dead_code)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [input, output, transforms @ ..] = &arguments[..] else {
        return Err("give a mesh or points, a file to write, and transforms".into());
    };
    println!("{} points", to_fixed(input, output, transforms)?);
    Ok(())
}
