//! Pyramids: as other programs write them (`tools/make_pyramids.py` made `data`), as this library does, and damaged ones.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod common;
mod complete;
mod flat;
mod others;
mod robust;
mod written;
mod zarr;
