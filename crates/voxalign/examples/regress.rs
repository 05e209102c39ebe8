//! Atlases at values of a covariate, and a test of how many subjects one needs: `cargo run --release -p voxalign
//! --example regress LIST.csv OUT`. The list has a column `path` and one of numbers, `age`.

#![allow(clippy::print_stdout)]

use voxalign::{Auto, Caller, Error, Job, Judged, Machine, MachineOptions, Silent, atlas, options};

/// Runs a job whose options are the lines of a TOML file.
pub fn run(text: &str) -> Result<bool, Error> {
    let job: atlas::Job = options::from_toml(text)?;
    let machine = Machine::start(MachineOptions::default(), Auto::Gpu)?;
    let done = job.run(&machine, &Caller::default(), &Silent)?;
    println!("verdict: {}", done.record.verdict().summary());
    Ok(done.is_good())
}

#[allow(dead_code)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [list, out] = &arguments[..] else {
        return Err("give a list of subjects and a folder for the results".into());
    };
    run(&format!(
        "list = '{list}'\noutput = '{out}/ages'\nregress = 'age'\nat = [65, 75]\nbandwidth = 5\n"
    ))?;
    run(&format!(
        "list = '{list}'\noutput = '{out}/stability'\nstability = '2..6'\ncohorts = 20\n"
    ))?;
    Ok(())
}
