//! Registers two anatomies, each a file that lists tissue probabilities, images, surfaces, curves and points:
//! `cargo run --release -p voxalign --example anatomy FIXED.toml MOVING.toml OUT`

#![allow(clippy::print_stdout)]

use voxalign::Job as _;
use voxalign::{Auto, Caller, Error, Machine, MachineOptions, Silent, anatomy, options};

/// Registers, tells how far surfaces are apart, and says whether the result can be used. `more` are further options, as the
/// lines of a TOML file.
pub fn register(fixed: &str, moving: &str, out: &str, more: &str) -> Result<bool, Error> {
    let text = format!("fixed = '{fixed}'\nmoving = '{moving}'\noutput = '{out}'\n{more}");
    let job: anatomy::Job = options::from_toml(&text)?;
    let machine = Machine::start(MachineOptions::default(), Auto::Gpu)?;
    let done = job.run(&machine, &Caller::default(), &Silent)?;
    for shape in done.record.anatomy.iter().flat_map(|anatomy| &anatomy.shapes) {
        let (before, after) = (shape.before.mean, shape.after.mean);
        println!("{}: {before:.2} mm apart before, {after:.2} mm after", shape.name);
    }
    println!("verdict: {}", done.record.verdict.summary());
    Ok(done.is_good())
}

#[allow(dead_code)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [fixed, moving, out] = &arguments[..] else {
        return Err(
            "give the files of a fixed and of a moving anatomy, and a folder for the results"
                .into(),
        );
    };
    register(fixed, moving, out, "")?;
    Ok(())
}
