//! The pose of a CT by X-ray images: `cargo run --release -p voxalign --example pose CT VIEWS.toml OUT XRAY...`

#![allow(clippy::print_stdout)]

use voxalign::Job as _;
use voxalign::pose::Job;
use voxalign::{Auto, Caller, Error, Machine, MachineOptions, Silent};

/// Finds the pose, and gives whether its verdict is good.
pub fn find(ct: &str, views: &str, xrays: &[String], out: &str) -> Result<bool, Error> {
    let mut job = Job::new(ct, xrays, out);
    job.geometry = vec![views.into()];
    let machine = Machine::start(MachineOptions::default(), Auto::Gpu)?;
    let done = job.run(&machine, &Caller::default(), &Silent)?;
    println!("{}", done.record.verdict.summary());
    Ok(done.is_good())
}

#[allow(dead_code)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [ct, views, out, xrays @ ..] = &arguments[..] else {
        return Err("give a CT, a table of views, a folder to write, and X-ray images".into());
    };
    find(ct, views, xrays, out)?;
    Ok(())
}
