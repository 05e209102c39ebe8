//! Registers two files by an elastic body, and says how far its tissue was strained:
//! `cargo run --release -p voxalign --example elastic FIXED MOVING OUT`

#![allow(clippy::print_stdout)]

use voxalign::Job as _;
use voxalign::{Auto, Caller, Error, Machine, MachineOptions, Silent, elastic, options};

/// Registers by a body of one tissue, and says whether the result can be used. `more` are further options, as the lines of a
/// TOML file.
pub fn register(fixed: &str, moving: &str, out: &str, more: &str) -> Result<bool, Error> {
    let text =
        format!("fixed = '{fixed}'\nmoving = '{moving}'\noutput = '{out}'\nyoung = 2000\n{more}");
    let job: elastic::Job = options::from_toml(&text)?;
    let machine = Machine::start(MachineOptions::default(), Auto::Gpu)?;
    let done = job.run(&machine, &Caller::default(), &Silent)?;
    if let Some(body) = &done.record.elastic {
        println!("strain up to {:.3}, at rest: {}", body.largest_strain, body.at_rest);
    }
    println!("verdict: {}", done.record.verdict.summary());
    Ok(done.is_good())
}

#[allow(dead_code)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [fixed, moving, out] = &arguments[..] else {
        return Err("give a fixed image, a moving image and a folder for the results".into());
    };
    register(fixed, moving, out, "")?;
    Ok(())
}
