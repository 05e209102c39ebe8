//! Registrations of pairs, from made shapes to real images.

// A failure in a helper is a failure of the test; figures and what was skipped are told.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

mod common;
mod control;
mod crossings;
mod deform;
mod devices;
mod exact;
mod landmarks;
mod lesions;
mod lungs;
mod probabilities;
mod real;
mod shapes;
mod shipped;
mod solvers;
mod there;
