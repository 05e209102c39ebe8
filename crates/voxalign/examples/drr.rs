//! X-ray images of a CT: `cargo run --release -p voxalign --example drr CT OUT`

#![allow(clippy::print_stdout)]

use voxalign::Job as _;
use voxalign::drr::Job;
use voxalign::projection::Preset;
use voxalign::{Auto, Caller, Error, Machine, MachineOptions, Silent};

/// Writes images from the front and from the right, and gives the largest attenuation of each.
pub fn simulate(ct: &str, out: &str) -> Result<Vec<f64>, Error> {
    let mut job = Job::new(ct, out);
    job.views.presets = vec![Preset::Ap, Preset::Lateral];
    let machine = Machine::start(MachineOptions::default(), Auto::Cpu)?;
    let done = job.run(&machine, &Caller::default(), &Silent)?;
    Ok(done.record.images.iter().map(|image| image.most).collect())
}

#[allow(dead_code)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [ct, out] = &arguments[..] else { return Err("give a CT and a folder to write".into()) };
    println!("{:?}", simulate(ct, out)?);
    Ok(())
}
