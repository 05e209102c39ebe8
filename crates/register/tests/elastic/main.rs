//! Registrations with an elastic body.

// A failure in a helper is a failure of the test; figures and what was skipped are told.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

mod bodies;
mod devices;
mod slices;
mod steps;
