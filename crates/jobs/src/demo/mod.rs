//! A pair of brains to try registrations with: the ICBM 152 template and one person's brain (Colin 27), both at 2 mm.
//!
//! As both lie in the same space already, the header of the second one is turned and shifted, so that there is
//! something to find.

pub mod anatomy;
pub mod elastic;
pub mod sections;
pub mod segment;
pub mod xray;

use crate::error::Result;
use crate::files;
use crate::listener::Listener;
use crate::pair::{MaskPaths, PairPaths};
use crate::staged::Staged;
use std::path::Path;
use voxalign_image::{Affine, AffineParameters, LabelMap, Vector3, Volume};
use voxalign_io::image::{self, DataType};

const FIXED: &[u8] = include_bytes!("../../../../data/icbm152_t1.nii.gz");
const FIXED_LABELS: &[u8] = include_bytes!("../../../../data/icbm152_tissues.nii.gz");
const MOVING: &[u8] = include_bytes!("../../../../data/colin27_brain.nii.gz");
const MOVING_LABELS: &[u8] = include_bytes!("../../../../data/colin27_tissues.nii.gz");

/// By how much the header of the moving image is turned about x, y and z, degrees.
pub const TURN: [f64; 3] = [25.0, -40.0, 60.0];
/// By how much it is shifted, mm.
pub const SHIFT: [f64; 3] = [30.0, -20.0, 25.0];

/// The pair: images and label maps.
#[derive(Debug, Clone)]
pub struct Pair {
    /// The template.
    pub fixed: Volume<f32>,
    /// The brain of one person.
    pub moving: Volume<f32>,
    fixed_labels: LabelMap,
    moving_labels: LabelMap,
}

impl Pair {
    /// The pair, the header of the moving image turned and shifted.
    ///
    /// # Errors
    /// Memory that runs out.
    pub fn load() -> Result<Self> {
        let volume = |name: &str, bytes: &[u8]| image::read_volume_from_bytes(name, bytes);
        let (fixed, _) = volume("icbm152_t1.nii.gz", FIXED)?;
        let (moving, _) = volume("colin27_brain.nii.gz", MOVING)?;
        let labels = |name: &str, bytes: &[u8]| image::read_labels_from_bytes(name, bytes);
        let fixed_labels = labels("icbm152_tissues.nii.gz", FIXED_LABELS)?;
        let moving_labels = labels("colin27_tissues.nii.gz", MOVING_LABELS)?;
        let motion = motion(moving.grid().centre());
        let moved = moving.grid().moved(&motion)?;
        let moved_labels = moving_labels.grid().moved(&motion)?;
        Ok(Self {
            fixed,
            moving: moving.with_grid(moved)?,
            fixed_labels,
            moving_labels: moving_labels.with_grid(moved_labels)?,
        })
    }

    /// Writes the pair into a folder, which is made where it is not there.
    ///
    /// # Errors
    /// What the system says.
    pub fn write(&self, folder: &Path, listener: &dyn Listener) -> Result<PairPaths> {
        let mut staged = Staged::new(folder, listener)?;
        let bytes = files::write_options(DataType::U8, 3);
        image::write_volume(staged.path("fixed.nii.gz")?, &self.fixed, &bytes)?;
        image::write_volume(staged.path("moving.nii.gz")?, &self.moving, &bytes)?;
        image::write_labels(staged.path("fixed_labels.nii.gz")?, &self.fixed_labels, &bytes)?;
        image::write_labels(staged.path("moving_labels.nii.gz")?, &self.moving_labels, &bytes)?;
        staged.commit()?;
        let masks = MaskPaths {
            fixed_labels: Some(folder.join("fixed_labels.nii.gz")),
            moving_labels: Some(folder.join("moving_labels.nii.gz")),
            ..MaskPaths::default()
        };
        Ok(PairPaths {
            fixed: folder.join("fixed.nii.gz"),
            moving: folder.join("moving.nii.gz"),
            masks,
            ..PairPaths::default()
        })
    }
}

/// The motion of the header, about the middle of the image.
fn motion(centre: Vector3<f64>) -> Affine {
    let parameters = AffineParameters {
        rotation: Vector3::from(TURN.map(f64::to_radians)),
        translation: Vector3::from(SHIFT),
        ..AffineParameters::identity(centre)
    };
    parameters.to_affine()
}
