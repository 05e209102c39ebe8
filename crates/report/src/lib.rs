//! What a run leaves behind for its reader: a record for programs and a report for people.
//!
//! [`RunRecord`] is the JSON sidecar of a result: versions, command, inputs with checksums,
//! parameters, transform, stages, figures and verdict. [`affine::render`] makes one HTML file of a
//! record and its images that opens offline in any browser, [`deform::render`] one of a deformable
//! registration, [`bench::render`] one of measurements.

pub mod affine;
pub mod bench;
mod chart;
mod contour;
pub mod curves;
pub mod deform;
mod edges;
pub mod error;
mod frame;
mod html;
mod intensity;
mod page;
mod picture;
mod plane;
pub mod record;
mod studio;
mod words;

pub use affine::AffineReport;
pub use deform::DeformReport;
pub use error::{ReportError, Result};
pub use record::{
    DeformationRecord, GpuRecord, GridRecord, HostRecord, InputRecord, OutputRecord, RECORD_FORMAT,
    RunRecord, TransformRecord,
};
pub use studio::Images;
