//! What a run leaves behind for its reader: a record for programs and a report for people.
//!
//! [`RunRecord`] is the JSON sidecar of a result: versions, command, inputs with checksums,
//! parameters, transform, stages, figures and verdict. [`affine::render`] makes one HTML file of a
//! record and its images that opens offline in any browser, [`bench::render`] one of measurements.

pub mod affine;
pub mod bench;
mod chart;
pub mod curves;
mod edges;
pub mod error;
mod html;
mod intensity;
mod picture;
mod plane;
pub mod record;

pub use affine::AffineReport;
pub use error::{ReportError, Result};
pub use record::{
    GpuRecord, GridRecord, HostRecord, InputRecord, OutputRecord, RECORD_FORMAT, RunRecord,
    TransformRecord,
};
