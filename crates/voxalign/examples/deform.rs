//! Registers two files by a deformation, with options from a text, telling how far it is:
//! `cargo run --release -p voxalign --example deform FIXED MOVING OUT`

#![allow(clippy::print_stdout)]

use voxalign::Job as _;
use voxalign::Text;
use voxalign::{
    Auto, Caller, Error, Event, Level, Listener, Machine, MachineOptions, Progress, deform, options,
};

/// Prints each stage, and would stop where it is asked to.
struct Printed;

impl Progress for Printed {
    fn event(&self, event: &Event<'_>) {
        if let Event::StageEnd { name, best, seconds, .. } = event {
            println!("{name}: {best:.5} after {seconds:.1} s");
        }
    }
}

impl Listener for Printed {
    fn tell(&self, level: Level, text: &Text) {
        if level == Level::Warning {
            println!("warning: {text}");
        }
    }
}

/// Registers by a symmetric model, and says whether the result can be used. `more` are further options, as the lines of a
/// TOML file.
pub fn register(fixed: &str, moving: &str, out: &str, more: &str) -> Result<bool, Error> {
    let text = format!(
        "fixed = '{fixed}'\nmoving = '{moving}'\noutput = '{out}'\nmodel = 'symmetric'\n{more}"
    );
    let job: deform::Job = options::from_toml(&text)?;
    let machine = Machine::start(MachineOptions::default(), Auto::Gpu)?;
    let done = job.run(&machine, &Caller::default(), &Printed)?;
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
