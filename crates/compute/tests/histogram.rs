#![allow(missing_docs)]
#[path = "conformance/histogram.rs"]
mod histogram;
