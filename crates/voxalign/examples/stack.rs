//! The mean of images on one grid, in bounded memory: `cargo run --release -p voxalign --example stack OUT.nii.gz IMAGES...`

#![allow(clippy::print_stdout)]

use voxalign::stack::{self, Operation};
use voxalign::{Auto, Caller, Error, Job, Machine, MachineOptions, Silent};

/// Writes the mean of images, and gives the seconds that it took.
pub fn mean(images: &[String], out: &str) -> Result<f64, Error> {
    let job = stack::Job::new(Operation::Mean, images, out);
    let machine = Machine::start(MachineOptions::default(), Auto::Cpu)?;
    Ok(job.run(&machine, &Caller::default(), &Silent)?.record.timings["total"])
}

#[allow(dead_code)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [out, images @ ..] = &arguments[..] else {
        return Err("give an image to write, and images".into());
    };
    println!("{:.2} s", mean(images, out)?);
    Ok(())
}
