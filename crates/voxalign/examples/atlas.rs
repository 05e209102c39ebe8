//! Builds the unbiased mean of images: `cargo run --release -p voxalign --example atlas OUT IMAGES...`

#![allow(clippy::print_stdout)]

use voxalign::{Auto, Caller, Error, Given, Job, Judged, Machine, MachineOptions, Silent, atlas};

/// Builds it with voxels of `spacing` mm, and says whether it can be used.
pub fn build(
    images: &[String],
    out: &str,
    spacing: f64,
    schedule: Option<&str>,
) -> Result<bool, Error> {
    let mut job = atlas::Job::new(images, out);
    job.options.space = Given::default().with("spacing", spacing)?;
    if let Some(schedule) = schedule {
        job.options.matching.multiscale = Given::default().with("schedule", schedule)?;
    }
    let machine = Machine::start(MachineOptions::default(), Auto::Gpu)?;
    let done = job.run(&machine, &Caller::default(), &Silent)?;
    println!("verdict: {}", done.record.verdict().summary());
    Ok(done.is_good())
}

#[allow(dead_code)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [out, images @ ..] = &arguments[..] else {
        return Err("give a folder for the results, and images".into());
    };
    build(images, out, 2.0, None)?;
    Ok(())
}
