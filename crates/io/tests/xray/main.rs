//! X-ray images: made here, damaged, and real ones.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "../files/common.rs"]
mod common;
mod dicom;
mod pictures;
mod real;
mod robust;
#[allow(dead_code)]
#[path = "../dicom/writer.rs"]
mod writer;
mod written;
