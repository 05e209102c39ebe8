//! Atlases at values of a covariate, and a test of how many subjects one needs: `cargo run --release -p voxalign
//! --example regress LIST.csv OUT`. The list has a column `path` and one of numbers, `age`.

#![allow(clippy::print_stdout)]

use voxalign::{Caller, Communicator, Error, MachineOptions, Silent, atlas, options, team};

/// Runs a job whose options are the lines of a TOML file.
pub fn run(text: &str) -> Result<bool, Error> {
    let job: atlas::Job = options::from_toml(text)?;
    let alone = Communicator::single();
    let (machine, team) = team::start(MachineOptions::default(), None, &alone, &Silent)?;
    let verdict = match job.run(&machine, &team, &Caller::default(), &Silent)? {
        atlas::Built::Atlas(done) => done.record.verdict,
        atlas::Built::Regression(done) => done.record.verdict,
        atlas::Built::Stability(done) => done.record.verdict,
        atlas::Built::Elsewhere => return Ok(true),
    };
    println!("verdict: {}", verdict.summary());
    Ok(verdict.good)
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
