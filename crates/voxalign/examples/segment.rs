//! Regions of an image: `cargo run --release -p voxalign --example segment IMAGE DIR`

#![allow(clippy::print_stdout)]

use voxalign::image::Volume;
use voxalign::segment::{Force, Job, Options, segment};
use voxalign::{Auto, Caller, Chosen, Error, Given, Job as _, Machine, MachineOptions, Silent};

/// The two brightest of four classes, without small parts.
pub fn options() -> Result<Options, Error> {
    Ok(Options {
        force: Chosen::of(Force::GEODESIC_REGIONS)
            .with("classes", 4)?
            .with("object_classes", "3,4")?,
        tidy: Given::default().with("smallest_island", 100)?,
        ..Options::default()
    })
}

/// Segments a file into a folder; gives whether the verdict is good, and the volume of the object, ml.
pub fn file(image: &str, folder: &str) -> Result<(bool, f64), Error> {
    let job = Job { options: options()?, ..Job::new(image, folder) };
    let machine = Machine::start(MachineOptions::default(), Auto::Cpu)?;
    let done = job.run(&machine, &Caller::default(), &Silent)?;
    Ok((done.is_good(), done.record.found.regions[1].volume_ml))
}

/// The labels of an image in memory.
pub fn labels(image: &Volume<f32>) -> Result<Vec<i32>, Error> {
    let machine = Machine::start(MachineOptions::default(), Auto::Cpu)?;
    let found = segment(&machine.device, image, &options()?, &Silent)?;
    Ok(found.labels.into_parts().1)
}

#[allow(dead_code)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [image, folder] = &arguments[..] else { return Err("give an image and a folder".into()) };
    println!("{:?}", file(image, folder)?);
    Ok(())
}
