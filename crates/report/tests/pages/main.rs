//! Reports as pages, also in a real browser.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests may fail loudly")]

mod affine;
mod atlas;
mod common;
mod deform;
mod elastic;
mod slices;
mod surface;
mod timeline;
mod xray;
