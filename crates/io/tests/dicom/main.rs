//! DICOM files: made here, and real ones.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod claims;
#[path = "../files/common.rs"]
mod common;
mod frames;
mod packed;
mod real;
mod regions;
mod robust;
mod series;
mod writer;
