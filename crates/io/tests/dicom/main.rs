//! DICOM files: made here, and real ones.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod bids;
mod claims;
#[path = "../files/common.rs"]
mod common;
mod folders;
mod frames;
mod mosaic;
mod packed;
mod real;
mod regions;
mod robust;
mod series;
mod volumes;
mod writer;
