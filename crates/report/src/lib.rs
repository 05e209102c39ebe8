//! Outputs of a run: a record for programs and a report for people.
//!
//! [`RunRecord`] is `result.json`, the record of a run: versions, command, inputs with checksums,
//! parameters, transform, stages, figures and verdict. [`affine::render`] makes one HTML file of a
//! record and its images that opens offline in any browser, [`deform::render`] one of a deformable
//! registration, [`elastic::render`] one of an elastic body, [`slices::render`] one of a volume and slices, [`stream::render`] one of a sequence that a body follows, [`atlas::render`] one of an atlas, [`regression::render`] and [`stability::render`] ones of
//! many atlases, [`drr::render`] one of simulated X-ray images, [`pose::render`] one of the pose of a CT by X-ray
//! images, [`segment::render`] one of a segmentation, [`surface::render`] one of a surface, [`surfaces::render`] one of many, [`meshes`] are figures of surfaces and curves, [`bench::render`], [`curves::render`] and [`timeline::render`] pages of measurements.
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

pub mod draw;
pub mod error;
mod page;
pub mod record;
mod table;
mod text;

pub use draw::fronts::{Fronts, Rgb};
pub use draw::meshes;
pub use draw::slices::MiddleSlices;
pub use draw::studio::Images;
pub use draw::xray::{self, XrayPicture};
pub use error::{ReportError, Result};
pub use page::affine::{self, AffineReport};
pub use page::anatomy::{self, AnatomyReport, ClassImages, Marks, ShapeMeshes};
pub use page::atlas::{self, AtlasReport, TemplateMarks, TemplateShape};
pub use page::deform::{self, DeformReport};
pub use page::drr::{self, DrrReport};
pub use page::elastic::{self, ElasticReport};
pub use page::pose::{self, PosePictures, PoseReport};
pub use page::segment::{self, SegmentReport};
pub use page::slices::{self, SlicePictures, SlicesReport};
pub use page::surface::{self, SurfaceReport};
pub use page::{bench, curves, regression, stability, stream, surfaces, timeline, track};
pub use record::anatomy::{AnatomyRecord, ClassRecord, MarksRecord, ShapeRecord};
pub use record::atlas::{AtlasRecord, SubjectRecord, TemplateRecord};
pub use record::distributed::{
    BlockScaleRecord, DistributedRecord, EstimateRecord, PyramidRecord, RankRecord,
};
pub use record::drr::{DrrImageRecord, DrrRecord};
pub use record::elastic::{ElasticRecord, MaterialRecord, SliceRecord, StepPartRecord};
pub use record::labels::{self, LabelRecord};
pub use record::pose::{PoseRecord, PoseViewRecord};
pub use record::regression::RegressionRecord;
pub use record::segment::{SegmentFound, SegmentRecord};
pub use record::stability::StabilityRecord;
pub use record::stack::{self, StackRecord};
pub use record::stream::{StreamFrameRecord, StreamRecord};
pub use record::surface::SurfaceRecord;
pub use record::surfaces::SurfacesRecord;
pub use record::{
    DeformationRecord, Figure, Figures, GpuRecord, GridRecord, HostRecord, InputRecord, Judged,
    LandmarkRecord, OutputRecord, Provenance, RECORD_FORMAT, RunRecord, TransformRecord,
    ViewRecord, When,
};
pub use table::Table;
