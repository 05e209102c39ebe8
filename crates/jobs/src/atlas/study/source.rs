//! The files of the subjects of an atlas.

use crate::anatomy::{self, Subject as Anatomy};
use crate::error::{Error, Result};
use crate::files;
use crate::list::Entry;
use crate::listener::{Level, Listener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use voxalign_image::memory;
use voxalign_image::{Affine, Volume};
use voxalign_io::image;
use voxalign_options::Text;
use voxalign_population::PopulationError;
use voxalign_population::atlas::{Geometry, Images, Size, Source, Subject};
use voxalign_register::{Event, Progress};

/// Subjects that are read when they are asked for, and kept where there is room.
pub(in crate::atlas) struct Files<'l> {
    subjects: Vec<Subject>,
    entries: Vec<Entry>,
    /// What they are made of, of anatomies; none of images.
    anatomies: Vec<Anatomy>,
    geometry: Vec<Geometry>,
    sizes: Vec<Size>,
    kept: Vec<OnceLock<Images>>,
    keep: bool,
    listener: &'l dyn Listener,
    /// Whether what is odd about a subject's headers was said.
    told: Vec<AtomicBool>,
}

impl<'l> Files<'l> {
    /// Subjects in the order of sums, of which this rank reads one in so many.
    pub(in crate::atlas) fn new(
        entries: &[Entry],
        anatomies: Vec<Anatomy>,
        listener: &'l dyn Listener,
        ranks: usize,
    ) -> Result<Self> {
        let (mut bytes, mut sizes) = (0, Vec::with_capacity(entries.len()));
        for (number, entry) in entries.iter().enumerate() {
            let (channels, voxels) = match anatomies.get(number) {
                Some(anatomy) => anatomy.size(),
                None => {
                    let mut voxels = 0;
                    for path in &entry.channels {
                        voxels += image::read_info(path)?.grid.len() as u64;
                    }
                    (entry.channels.len(), voxels)
                }
            };
            sizes.push(Size { channels, voxels });
            // A mask is on the grid of the first image.
            bytes += 4 * (voxels + u64::from(entry.mask.is_some()) * voxels);
        }
        bytes /= ranks.max(1) as u64;
        let subject = |e: &Entry| Subject {
            name: e.name.clone(),
            weight: e.weight,
            affine: Affine::identity(),
        };
        let free = memory::host().free;
        Ok(Self {
            subjects: entries.iter().map(subject).collect(),
            entries: entries.to_vec(),
            geometry: anatomy::geometry(&anatomies)?,
            anatomies,
            sizes,
            kept: entries.iter().map(|_| OnceLock::new()).collect(),
            keep: free.is_none_or(|free| bytes < free / 3),
            listener,
            told: entries.iter().map(|_| AtomicBool::new(false)).collect(),
        })
    }

    /// Leaves out all but some of the subjects.
    pub(in crate::atlas) fn keep(&mut self, numbers: &[usize]) {
        fn some<T>(all: &mut Vec<T>, numbers: &[usize]) {
            let mut number = 0;
            all.retain(|_| {
                number += 1;
                numbers.contains(&(number - 1))
            });
        }
        some(&mut self.subjects, numbers);
        some(&mut self.entries, numbers);
        some(&mut self.anatomies, numbers);
        self.geometry = self.geometry.iter().map(|g| g.of(numbers)).collect();
        some(&mut self.sizes, numbers);
        some(&mut self.kept, numbers);
        some(&mut self.told, numbers);
    }

    /// The same subjects in a common space.
    pub(in crate::atlas) fn place(&mut self, affines: &[Affine]) {
        for (subject, affine) in self.subjects.iter_mut().zip(affines) {
            subject.affine = *affine;
        }
    }

    fn read(&self, subject: usize) -> Result<Images, PopulationError> {
        let entry = self.entries.get(subject).ok_or_else(|| PopulationError::Input {
            file: PathBuf::from(subject.to_string()),
            what: "there is no such subject".to_owned(),
        })?;
        let told = self.told[subject].swap(true, Ordering::Relaxed);
        let once = Once { listener: self.listener, told };
        let wrong = |path: &Path, e: Error| -> PopulationError {
            match e {
                Error::Stopped => PopulationError::Stopped,
                e => {
                    // The file is named once.
                    let (said, name) = (e.to_string(), format!("'{}': ", path.display()));
                    let said = said.strip_prefix(&name).unwrap_or(&said);
                    let (file, what) = (path.to_owned(), said.to_owned());
                    match e {
                        Error::Memory(_) => PopulationError::Input { file, what },
                        _ if entry.anatomy.is_some() => PopulationError::Input { file, what },
                        _ => PopulationError::Unreadable { file, what },
                    }
                }
            }
        };
        let read = |path: &Path| -> Result<Arc<Volume<f32>>, PopulationError> {
            files::image(path, &once).map(Arc::new).map_err(|e| wrong(path, e))
        };
        let mask = entry.mask.as_deref().map(read).transpose()?;
        if let Some(anatomy) = self.anatomies.get(subject) {
            let images = anatomy.images(&once).map_err(|e| wrong(&entry.channels[0], e))?;
            let channels = images.into_iter().map(Arc::new).collect();
            return Ok(Images { channels, mask, as_they_are: anatomy.as_they_are() });
        }
        let channels = entry.channels.iter().map(|p| read(p)).collect::<Result<_, _>>()?;
        Ok(Images { channels, mask, as_they_are: Vec::new() })
    }

    /// What a subject is made of, where it is an anatomy.
    pub(in crate::atlas) fn anatomy(&self, subject: usize) -> Option<&Anatomy> {
        self.anatomies.get(subject)
    }
}

impl Source for Files<'_> {
    fn subjects(&self) -> &[Subject] {
        &self.subjects
    }

    fn load(&self, subject: usize) -> Result<Images, PopulationError> {
        let Some(place) = self.kept.get(subject).filter(|_| self.keep) else {
            return self.read(subject);
        };
        if let Some(images) = place.get() {
            return Ok(images.clone());
        }
        let images = self.read(subject)?;
        Ok(place.get_or_init(|| images).clone())
    }

    fn size(&self, subject: usize) -> Result<Size, PopulationError> {
        self.sizes.get(subject).copied().ok_or_else(|| PopulationError::Input {
            file: PathBuf::from(subject.to_string()),
            what: "there is no such subject".to_owned(),
        })
    }

    fn geometry(&self) -> &[Geometry] {
        &self.geometry
    }

    fn label(&self, subject: usize) -> PathBuf {
        self.entries.get(subject).map(|e| e.channels[0].clone()).unwrap_or_default()
    }
}

/// A listener that is told what is odd about a file once.
struct Once<'l> {
    listener: &'l dyn Listener,
    told: bool,
}

impl Progress for Once<'_> {
    fn event(&self, event: &Event<'_>) {
        self.listener.event(event);
    }

    fn stop(&self) -> bool {
        self.listener.stop()
    }
}

impl Listener for Once<'_> {
    fn tell(&self, level: Level, text: &Text) {
        if !self.told {
            self.listener.tell(level, text);
        }
    }

    fn reading(&self, read: &mut dyn FnMut()) {
        self.listener.reading(read);
    }
}
