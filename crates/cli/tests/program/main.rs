//! The program as users meet it: every command, its files, its messages and its exit codes.

// A failure in a helper is a failure of the test; what was killed and what was skipped is told.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

mod affine;
mod affine_blocks;
mod anatomy;
mod anatomy_input;
mod apply;
mod apply_pyramids;
mod atlas;
mod atlas_anatomies;
mod atlas_runs;
mod bad_input;
mod bench_currents;
mod bench_deform;
mod bench_distributed;
mod bench_drr;
mod bench_elastic;
mod bench_histogram;
mod bench_splat;
mod bench_stream;
mod bids;
mod common;
mod compare;
mod deform;
mod deform_slices;
mod deform_verdicts;
mod demo;
mod devices;
mod dicom;
mod elastic;
mod elastic_slices;
mod elastic_stream;
#[allow(unreachable_pub)]
mod examples;
mod files;
mod help;
mod killed;
mod landmark_files;
mod landmarks;
mod memory;
mod meshes;
mod plans;
mod projection;
mod records;
mod regress;
mod runs;
mod segment;
mod segment_input;
mod shell;
mod stability;
mod stack;
mod surface;
mod track;
mod transforms;
mod views;
mod warps;
mod written_commands;
mod xray_files;
mod xray_options;
