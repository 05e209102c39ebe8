//! Registers two files by an affine transform: `cargo run --release -p voxalign --example affine FIXED MOVING OUT`

#![allow(clippy::print_stdout)]

use voxalign::Job as _;
use voxalign::{Auto, Caller, Error, Machine, MachineOptions, Silent, affine};

/// Registers, writes to a folder, and says whether the result can be used.
pub fn register(fixed: &str, moving: &str, out: &str) -> Result<bool, Error> {
    let job = affine::Job::new(fixed, moving, out);
    let machine = Machine::start(MachineOptions::default(), Auto::Gpu)?;
    let done = job.run(&machine, &Caller::default(), &Silent)?;
    println!("verdict: {}", done.record.verdict.summary());
    Ok(done.is_good())
}

#[allow(dead_code)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [fixed, moving, out] = &arguments[..] else {
        return Err("give a fixed image, a moving image and a folder for the results".into());
    };
    register(fixed, moving, out)?;
    Ok(())
}
