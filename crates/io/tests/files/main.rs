//! Files as this and other programs write them, read and written again.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod common;
mod crashes;
mod hdf5;
mod labels;
mod real_files;
mod regions;
mod round_trip;
mod transforms;
