//! Sources of the images of an atlas.

use crate::atlas::geometry::Geometry;
use crate::error::{PopulationError, Result};
use std::path::PathBuf;
use std::sync::Arc;
use voxalign_image::{Affine, Volume};

/// The images of a subject.
#[derive(Debug, Clone)]
pub struct Images {
    /// One image a channel, each on its own grid, as they were read.
    pub channels: Vec<Arc<Volume<f32>>>,
    /// The voxels of the first channel that count (above 0), on its grid.
    pub mask: Option<Arc<Volume<f32>>>,
    /// The numbers of the channels whose values count as they are, as those of probabilities do; all others are calibrated.
    pub as_they_are: Vec<usize>,
}

/// Facts about a subject before its images are read.
#[derive(Debug, Clone, PartialEq)]
pub struct Subject {
    /// Its name, for messages and folders.
    pub name: String,
    /// Its weight among the others, above 0.
    pub weight: f64,
    /// From the world of the atlas to that of its images.
    pub affine: Affine,
}

/// How large the images of a subject are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// The number of images.
    pub channels: usize,
    /// Voxels of all of them together.
    pub voxels: u64,
}

/// Subjects, in an order that does not depend on how they were given: the order of sums.
pub trait Source: Sync {
    /// All of them.
    fn subjects(&self) -> &[Subject];

    /// The images of one.
    ///
    /// # Errors
    /// Images that cannot be read; the error names the file.
    fn load(&self, subject: usize) -> Result<Images>;

    /// How large the images of one are, where that is known without reading them.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    fn size(&self, subject: usize) -> Result<Size> {
        let loaded = self.load(subject)?;
        let voxels = loaded.channels.iter().map(|c| c.grid().len() as u64).sum();
        Ok(Size { channels: loaded.channels.len(), voxels })
    }

    /// The geometry of the subjects besides images, each item in the order of [`subjects`](Self::subjects).
    fn geometry(&self) -> &[Geometry] {
        &[]
    }

    /// The name of its images in messages.
    fn label(&self, subject: usize) -> PathBuf {
        self.subjects().get(subject).map(|s| PathBuf::from(&s.name)).unwrap_or_default()
    }
}

/// Images in memory.
#[derive(Debug, Clone, Default)]
pub struct InMemory {
    subjects: Vec<Subject>,
    images: Vec<Images>,
    geometry: Vec<Geometry>,
}

impl InMemory {
    /// Subjects and their images, in the order given.
    #[must_use]
    pub fn new(all: Vec<(Subject, Images)>) -> Self {
        let (subjects, images) = all.into_iter().unzip();
        Self { subjects, images, geometry: Vec::new() }
    }

    /// With their geometry, in the same order.
    #[must_use]
    pub fn with_geometry(self, geometry: Vec<Geometry>) -> Self {
        Self { geometry, ..self }
    }
}

impl Source for InMemory {
    fn subjects(&self) -> &[Subject] {
        &self.subjects
    }

    fn load(&self, subject: usize) -> Result<Images> {
        self.images.get(subject).cloned().ok_or_else(|| PopulationError::Input {
            file: self.label(subject),
            what: "there is no such subject".to_owned(),
        })
    }

    fn geometry(&self) -> &[Geometry] {
        &self.geometry
    }
}

/// Checks subjects before anything is read.
///
/// # Errors
/// Fewer than two; a weight that is not above 0.
pub(in crate::atlas) fn check_subjects(subjects: &[Subject]) -> Result<()> {
    if subjects.len() < 2 {
        return Err(PopulationError::Images {
            found: match subjects.len() {
                0 => "no image is given".to_owned(),
                _ => "only one image is given".to_owned(),
            },
            remedy: "an atlas needs at least two".to_owned(),
        });
    }
    for subject in subjects {
        if !(subject.weight > 0.0 && subject.weight.is_finite()) {
            return Err(PopulationError::Input {
                file: PathBuf::from(&subject.name),
                what: format!("its weight is {}, but must be above 0", subject.weight),
            });
        }
    }
    Ok(())
}
