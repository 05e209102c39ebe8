//! The record of a run: the JSON sidecar of a result.

#[macro_use]
mod kind;

pub mod anatomy;
pub mod atlas;
pub mod distributed;
pub mod drr;
pub mod elastic;
mod figure;
pub mod labels;
pub mod pose;
mod provenance;
pub mod regression;
pub mod segment;
pub mod stability;
pub mod stack;
pub mod stream;
pub mod surface;
pub mod surfaces;
pub mod track;
mod view;

pub use figure::{Figure, Figures, When};
pub use provenance::Provenance;
pub use view::ViewRecord;

use anatomy::AnatomyRecord;
use distributed::DistributedRecord;
use elastic::ElasticRecord;
use labels::LabelRecord;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use voxalign_image::{Affine, AffineParameters, Grid, ImageError, Vector3};
use voxalign_register::Verdict;
use voxalign_register::diffeo::clip::IndexBox;
use voxalign_register::diffeo::{DeformationEvidence, PathRecord};
use voxalign_register::evidence::{Evidence, Unmasked};
use voxalign_register::limits::Limits;
use voxalign_register::linear::Attempt;
use voxalign_register::measures::FieldMeasures;
use voxalign_register::multiscale::ScaleRecord;
use voxalign_register::search::StageRecord;

/// The version of the layout of [`RunRecord`]; it grows when a field changes its meaning or goes.
pub const RECORD_FORMAT: u32 = 1;

/// All that is worth keeping of a run: what `result.json` holds.
///
/// Fields are written in the order given here and the keys of maps in alphabetical order, so that
/// two records of the same run differ only where the runs differ. Numbers that are not finite are
/// written as `null`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunRecord {
    /// Version of this layout: [`RECORD_FORMAT`].
    pub format: u32,
    /// The program, such as `voxalign affine`.
    pub program: String,
    /// Its version.
    pub version: String,
    /// The command with its arguments, as it was given.
    pub command: Vec<String>,
    /// When the run began: RFC 3339, UTC, such as `2026-01-31T12:00:00Z`.
    pub date: String,
    /// The machine.
    pub host: HostRecord,
    /// The files that were read.
    pub inputs: Vec<InputRecord>,
    /// All parameters, also those left at their default.
    pub parameters: serde_json::Value,
    /// The transform that was found.
    pub transform: TransformRecord,
    /// The stages of the search, coarse to fine.
    pub stages: Vec<StageRecord>,
    /// The results of a deformable registration besides its affine part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deformation: Option<DeformationRecord>,
    /// Named numbers: `cost_before` (under the headers), `cost_start` (of the search),
    /// `cost_after`, `overlap`, `ncc_before`, `ncc_after`,
    /// `mi_after`, `label_overlap_before`, ... A report shows `x_before` and `x_after` as a pair.
    pub figures: Figures,
    /// Every label of label maps that were given, ascending.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<LabelRecord>,
    /// Every pair of corresponding points that were given, in their order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub landmarks: Vec<LandmarkRecord>,
    /// How the classes, shapes and landmarks of anatomies fare.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anatomy: Option<AnatomyRecord>,
    /// The elastic body that the images moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elastic: Option<ElasticRecord>,
    /// How images that are read in blocks were spread over ranks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distributed: Option<DistributedRecord>,
    /// Wall time of each part in seconds: `device` (starting a GPU), `read`, `affine`,
    /// `register`, `resample`, `write`, `report`, `total`.
    pub timings: BTreeMap<String, f64>,
    /// The peak memory of the process, bytes, where the system reports it.
    pub peak_memory_bytes: Option<u64>,
    /// The files that were written.
    pub outputs: Vec<OutputRecord>,
    /// Evidence for the alignment from the images, independent of the cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
    /// Evidence of the whole images, where masks exclude part of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unmasked: Option<Unmasked>,
    /// The other attempts, made because the registration that was asked for gave a bad result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<Attempt>,
    /// Whether the result can be used, and why.
    pub verdict: Verdict,
    /// The bounds of verdicts, and the data that they were calibrated on; none in records of earlier programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
}

impl Default for RunRecord {
    fn default() -> Self {
        Self {
            format: RECORD_FORMAT,
            program: String::new(),
            version: String::new(),
            command: Vec::new(),
            date: String::new(),
            host: HostRecord::default(),
            inputs: Vec::new(),
            parameters: serde_json::Value::Null,
            transform: TransformRecord::default(),
            stages: Vec::new(),
            deformation: None,
            figures: Figures::default(),
            labels: Vec::new(),
            landmarks: Vec::new(),
            anatomy: None,
            elastic: None,
            distributed: None,
            timings: BTreeMap::new(),
            peak_memory_bytes: None,
            outputs: Vec::new(),
            evidence: None,
            unmasked: None,
            attempts: Vec::new(),
            verdict: Verdict::default(),
            limits: None,
        }
    }
}

impl RunRecord {
    /// Program, version and date in a line.
    pub(crate) fn line(&self) -> String {
        let dot = if self.date.is_empty() { "" } else { " \u{b7} " };
        format!("{} {}{dot}{}", self.program, self.version, self.date)
    }
}

/// A record that ends with a verdict: what a program does alike with all of them.
pub trait Judged {
    /// Notes the wall time of each part in seconds, and the most memory that the process held.
    fn measured(&mut self, timings: BTreeMap<String, f64>, peak_memory_bytes: Option<u64>);

    /// Notes the files that are written.
    fn wrote(&mut self, outputs: Vec<OutputRecord>);

    /// Whether the result can be used, and why.
    fn verdict(&self) -> &Verdict;

    /// The record as indented JSON with a newline at its end.
    fn text(&self) -> String;
}

judged!(RunRecord);

/// The results of a deformable registration besides its affine part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeformationRecord {
    /// Numbers of the displacement field.
    pub measures: FieldMeasures,
    /// The scales, coarse to fine, with their energies.
    pub scales: Vec<ScaleRecord>,
    /// The path, of an LDDMM registration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathRecord>,
    /// The part of the fixed grid that was registered.
    pub clipped: IndexBox,
    /// Voxels near folds that were smoothed at the end.
    pub mended: usize,
    /// The verdict on the affine registration, where it was part of the run.
    pub affine_verdict: Option<Verdict>,
    /// Evidence for it from the images, independent of the similarity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<DeformationEvidence>,
}

/// A pair of corresponding points.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LandmarkRecord {
    /// Where it is in the fixed world, RAS+ mm.
    pub fixed_mm: [f64; 3],
    /// Where it is in the moving world, RAS+ mm.
    pub moving_mm: [f64; 3],
    /// Its weight relative to the others; 0 where it is measured only.
    pub weight: f64,
    /// The distance of the mapped fixed point and the moving one before the registration, mm; for a deformation, by
    /// the affine part alone.
    pub before_mm: f64,
    /// The same by the result.
    pub after_mm: f64,
}

/// The machine that a run was made on.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HostRecord {
    /// Threads used.
    pub threads: usize,
    /// The vector instructions of the processor that the CPU device uses, such as `avx2`.
    pub simd: String,
    /// The device as the library names it, such as `cpu (2 threads, Avx2)` or
    /// `cuda:0 (NVIDIA H200)`.
    pub device: String,
    /// The GPU, where the device is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<GpuRecord>,
}

/// A GPU and the software that drives it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GpuRecord {
    /// Its name.
    pub name: String,
    /// Its compute capability, such as `9.0`.
    pub compute_capability: String,
    /// Its memory, bytes.
    pub memory_bytes: u64,
    /// The release of the driver, such as `550.54.15`, where the system reports it.
    pub driver: Option<String>,
    /// The version of CUDA that the driver serves, such as `12.4`.
    pub driver_cuda: String,
    /// The version of NVRTC, the compiler of the kernels, such as `12.8`.
    pub nvrtc: String,
}

/// A file that was read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InputRecord {
    /// Its role: `fixed`, `moving`, `fixed_mask`, ...
    pub role: String,
    /// Its path as given.
    pub path: String,
    /// The SHA-256 of its bytes, lower-case hexadecimal.
    pub sha256: String,
    /// Of an image of several files, or of many gigabytes: of what the SHA-256 is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256_of: Option<String>,
    /// Its geometry, where it is an image.
    pub grid: Option<GridRecord>,
}

/// A file that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputRecord {
    /// Its content: `transform`, `resampled`, `report`, ...
    pub role: String,
    /// Its path.
    pub path: String,
}

/// The geometry of an image.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GridRecord {
    /// Voxels along each axis.
    pub dims: [usize; 3],
    /// Distance of neighbouring voxel centres along each axis, mm.
    pub spacing_mm: [f64; 3],
    /// To which side each axis runs, such as `RAS`.
    pub orientation: String,
    /// Rows of the 4x4 matrix from voxel index to world (RAS+ mm).
    pub index_to_world: [[f64; 4]; 4],
}

impl From<&Grid> for GridRecord {
    fn from(grid: &Grid) -> Self {
        Self {
            dims: grid.dims(),
            spacing_mm: grid.spacing(),
            orientation: grid.orientation(),
            index_to_world: rows_of(grid.to_world()),
        }
    }
}

impl GridRecord {
    /// The grid.
    ///
    /// # Errors
    /// Sizes and a matrix that make none.
    pub fn grid(&self) -> Result<Grid, ImageError> {
        let [x, y, z, _] = self.index_to_world;
        Grid::new(self.dims, Affine::from_rows([x, y, z]))
    }
}

/// An affine transform and its parts.
///
/// The parts are those of [`AffineParameters`]: `x -> R S K (x - centre) + centre + translation`
/// with `R = Rz Ry Rx`, scales `S` and upper triangular shears `K`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TransformRecord {
    /// The space whose points go in.
    pub from: String,
    /// The space whose points come out.
    pub to: String,
    /// Rows of the 4x4 matrix, fixed world to moving world, RAS+ mm.
    pub matrix: [[f64; 4]; 4],
    /// The point about which the parts are given, in the fixed world, mm.
    pub centre_mm: [f64; 3],
    /// The displacement of the centre along x, y and z, mm.
    pub translation_mm: [f64; 3],
    /// Angles about the x, y and z axes, degrees.
    pub rotation_degrees: [f64; 3],
    /// The angle of the rotation as a whole, degrees.
    pub rotation_total_degrees: f64,
    /// Factors along the x, y and z axes; a reflection has a negative third factor.
    pub scale: [f64; 3],
    /// Shears xy, xz and yz.
    pub shear: [f64; 3],
    /// The volume scale factor from the fixed to the moving world.
    pub determinant: f64,
}

impl TransformRecord {
    /// The record of a transform from fixed to moving world, with its parts about `centre` (a point of the fixed
    /// world, preferably the centre of the object).
    #[must_use]
    pub fn new(transform: &Affine, centre: Vector3<f64>) -> Self {
        let parts = AffineParameters::from_affine(transform, centre);
        let degrees = parts.rotation.map(f64::to_degrees);
        Self {
            from: "fixed world (RAS+ mm)".to_owned(),
            to: "moving world (RAS+ mm)".to_owned(),
            matrix: rows_of(transform),
            centre_mm: centre.into(),
            translation_mm: parts.translation.into(),
            rotation_degrees: degrees.into(),
            rotation_total_degrees: parts.angle().to_degrees(),
            scale: parts.scale.into(),
            shear: parts.shear.into(),
            determinant: transform.determinant(),
        }
    }
}

impl Default for TransformRecord {
    fn default() -> Self {
        Self::new(&Affine::identity(), Vector3::zeros())
    }
}

/// The rows of the 4x4 matrix of a map.
fn rows_of<A, B>(affine: &Affine<A, B>) -> [[f64; 4]; 4] {
    let [x, y, z] = affine.rows();
    [x, y, z, [0.0, 0.0, 0.0, 1.0]]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Figure, When};

    #[test]
    fn json_is_deterministic_and_says_nothing_untrue() {
        let mut record = RunRecord { program: "voxalign affine".into(), ..RunRecord::default() };
        record.figures.set(Figure::Overlap, 0.5);
        record.figures.set_at(Figure::Cost, When::Before, f64::NAN);
        let text = record.to_json();
        assert_eq!(text, record.clone().to_json());
        assert!(text.ends_with("}\n"));
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["format"], RECORD_FORMAT);
        assert!(value["figures"]["cost_before"].is_null());
        assert_eq!(value["transform"]["matrix"][3][3], 1.0);
        assert_eq!(value["verdict"]["good"], false);
        assert!(text.find("cost_before").unwrap() < text.find("\"overlap\"").unwrap());
    }

    #[test]
    fn parts_of_a_known_transform() {
        let centre = Vector3::new(10.0, -20.0, 30.0);
        let parts = AffineParameters {
            translation: Vector3::new(1.0, 2.0, 3.0),
            rotation: Vector3::new(0.0, 0.0, 30f64.to_radians()),
            scale: Vector3::new(1.1, 1.0, 0.9),
            ..AffineParameters::identity(centre)
        };
        let record = TransformRecord::new(&parts.to_affine(), centre);
        assert!((record.rotation_degrees[2] - 30.0).abs() < 1e-9);
        assert!((record.rotation_total_degrees - 30.0).abs() < 1e-9);
        assert!((record.translation_mm[1] - 2.0).abs() < 1e-9);
        assert!((record.determinant - 0.99).abs() < 1e-9);
        let back: TransformRecord =
            serde_json::from_str(&serde_json::to_string(&record).unwrap()).unwrap();
        assert_eq!(back, record);
    }

    #[test]
    fn grid_facts() {
        let grid = Grid::axis_aligned([3, 4, 5], [1.0, 2.0, 3.0]).unwrap();
        let record = GridRecord::from(&grid);
        assert_eq!(record.orientation, "RAS");
        assert_eq!(record.index_to_world[2], [0.0, 0.0, 3.0, 0.0]);
    }
}
