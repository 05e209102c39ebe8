//! Operators over many images, streamed through bounded memory (Ha 2011, chapter 4).
//!
//! [`Pipeline`] is the executor: items go through stages (read, upload, execute, download, write),
//! each on its engine, and take buffers in turns. A [`Model`] says which stages share a queue and in
//! which order they are asked for; a [`Trace`] says afterwards what ran when.

mod images;
mod measured;
mod model;
pub mod operators;
mod pipeline;
mod plan;
mod run;
mod simulate;
mod trace;

pub use images::{
    Checksums, Files, Kept, Loaded, OutputFiles, Resident, ResidentSink, Sink, Source,
};
pub use model::{Engine, Mapping, Model, Order};
pub use pipeline::{Listener, Pipeline, Stage, Turn, Work};
pub use plan::Ring;
pub use run::{StreamOptions, Streamed, bound, mimo, miso, sliding_window};
pub use trace::{StageName, Task, Trace};
