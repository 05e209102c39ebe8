//! What a run leaves behind for its reader: a record for programs and a report for people.
//!
//! [`RunRecord`] is `result.json`, the record of a run: versions, command, inputs with checksums,
//! parameters, transform, stages, figures and verdict. [`affine::render`] makes one HTML file of a
//! record and its images that opens offline in any browser, [`deform::render`] one of a deformable
//! registration, [`atlas::render`] one of an atlas, [`regression::render`] and [`stability::render`] ones of
//! many atlases, [`drr::render`] one of simulated X-ray images, [`pose::render`] one of the pose of a CT by X-ray
//! images, [`surface::render`] one of a surface, [`surfaces::render`] one of many, [`meshes`] are figures of surfaces and curves, [`bench::render`], [`curves::render`] and [`timeline::render`] pages of measurements.
//!
//! Nothing is written here: records and pages are text. The same input gives the same bytes. Images of
//! a report are on the grid of the fixed image; resampling them is the caller's work. In records
//! lengths are mm and angles, other than in the libraries, degrees; times are seconds. A unit that is
//! not plain is in the name of its field.
//!
//! # Example
//!
//! ```
//! use voxalign_image::{Affine, Grid, Vector3, Volume};
//! use voxalign_register::{Check, Verdict};
//! use voxalign_report::{
//!     AffineReport, Figure, Figures, Images, RunRecord, TransformRecord, affine,
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let grid = Grid::axis_aligned([24, 20, 16], [2.0; 3])?;
//! let image = |shift: usize| {
//!     Volume::from_fn(grid.clone(), move |x, y, z| ((x + shift) * y + 5 * z) as f32)
//! };
//! let (fixed, before, after) = (image(0), image(3), image(0));
//!
//! let found = Affine::translation(Vector3::new(6.0, 0.0, 0.0));
//! let check = Check::at_least("overlap of the fields of view", 0.88, 0.3);
//! let mut figures = Figures::default();
//! figures.set(Figure::Overlap, 0.88);
//! let record = RunRecord {
//!     program: "an example".into(),
//!     transform: TransformRecord::new(&found, grid.centre()),
//!     figures,
//!     verdict: Verdict::new(vec![check], Vec::new()),
//!     ..RunRecord::default()
//! };
//! assert!(record.to_json().contains("\"good\": true"));
//!
//! let report = AffineReport { record: &record, images: Images::new(&fixed, &before, &after) };
//! let page = affine::render(&report)?;
//! assert!(page.starts_with("<!DOCTYPE html>") && page.contains("Checkerboard"));
//!
//! // Images on other grids are refused.
//! let coarse = Volume::filled(grid.with_spacing([4.0; 3])?, 0.0);
//! let images = Images::new(&fixed, &before, &coarse);
//! let wrong = AffineReport { record: &record, images };
//! assert!(affine::render(&wrong).is_err());
//! # Ok(())
//! # }
//! ```

pub mod affine;
pub mod anatomy;
pub mod atlas;
pub mod bench;
mod chart;
mod contour;
pub mod curves;
pub mod deform;
pub mod drr;
mod edges;
pub mod error;
mod figure;
mod frame;
mod gallery;
mod html;
mod intensity;
pub mod labels;
mod mask;
pub mod meshes;
mod page;
mod picture;
mod plane;
mod plot;
pub mod pose;
mod provenance;
pub mod record;
pub mod regression;
mod sketch;
mod slices;
pub mod stability;
pub mod stack;
mod studio;
pub mod surface;
pub mod surfaces;
mod table;
pub mod timeline;
pub mod track;
mod window;
mod words;
pub mod xray;

pub use affine::AffineReport;
pub use anatomy::{
    AnatomyRecord, AnatomyReport, ClassImages, ClassRecord, Marks, MarksRecord, ShapeMeshes,
    ShapeRecord,
};
pub use atlas::{
    AtlasRecord, AtlasReport, SubjectRecord, TemplateMarks, TemplateRecord, TemplateShape,
};
pub use deform::DeformReport;
pub use drr::{DrrImageRecord, DrrRecord, DrrReport};
pub use error::{ReportError, Result};
pub use figure::{Figure, Figures, When};
pub use labels::LabelRecord;
pub use pose::{PosePictures, PoseRecord, PoseReport, PoseViewRecord};
pub use provenance::Provenance;
pub use record::{
    DeformationRecord, GpuRecord, GridRecord, HostRecord, InputRecord, Judged, LandmarkRecord,
    OutputRecord, RECORD_FORMAT, RunRecord, TransformRecord,
};
pub use regression::RegressionRecord;
pub use slices::MiddleSlices;
pub use stability::StabilityRecord;
pub use stack::StackRecord;
pub use studio::Images;
pub use surface::{SurfaceRecord, SurfaceReport};
pub use surfaces::SurfacesRecord;
pub use table::Table;
pub use xray::{ViewRecord, XrayPicture};
