//! The `voxalign` program, which is the library of this crate with an allocator of its own.

use std::process::ExitCode;
use voxalign_cli::{Allocator, Invoked};

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

fn main() -> ExitCode {
    Allocator::prepare();
    ExitCode::from(voxalign_cli::main(Invoked::of_process()))
}
