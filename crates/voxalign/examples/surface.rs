//! The surface of labels: `cargo run --release -p voxalign --example surface LABELS LABEL MESH`

#![allow(clippy::print_stdout)]

use voxalign::surface::Job;
use voxalign::{Auto, Caller, Error, Given, Machine, MachineOptions, Silent};

/// Writes the surface of a label with at most 2000 triangles; gives whether the verdict is good, and its volume, mm³.
pub fn make(labels: &str, label: i32, mesh: &str) -> Result<(bool, f64), Error> {
    let mut job = Job::new(labels, mesh);
    job.options.object = Given::default().with("label", label)?;
    job.options.shape = Given::default().with("triangles", 2000)?;
    let machine = Machine::start(MachineOptions::default(), Auto::Cpu)?;
    let made = job.make(&machine, &Caller::default(), &Silent)?;
    Ok((made.done.is_good(), made.mesh.volume()?.unwrap_or(0.0)))
}

#[allow(dead_code)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [labels, label, mesh] = &arguments[..] else {
        return Err("give a label map, a label and a mesh to write".into());
    };
    println!("{:?}", make(labels, label.parse()?, mesh)?);
    Ok(())
}
