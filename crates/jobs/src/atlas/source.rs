//! The subjects of an atlas as files.

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
use voxalign_population::PopulationError;
use voxalign_population::atlas::{Images, Size, Source, Subject};
use voxalign_register::{Event, Progress};

/// Subjects that are read when they are asked for, and kept where there is room.
pub(super) struct Files<'l> {
    subjects: Vec<Subject>,
    entries: Vec<Entry>,
    sizes: Vec<Size>,
    kept: Vec<OnceLock<Images>>,
    keep: bool,
    listener: &'l dyn Listener,
    /// Whether what is odd about a subject's headers was said.
    told: Vec<AtomicBool>,
}

impl<'l> Files<'l> {
    /// Subjects in the order of sums, of which this rank reads one in so many.
    pub(super) fn new(entries: &[Entry], listener: &'l dyn Listener, ranks: usize) -> Result<Self> {
        let (mut bytes, mut sizes) = (0, Vec::with_capacity(entries.len()));
        for entry in entries {
            let mut voxels = 0;
            for path in &entry.channels {
                voxels += image::read_info(path)?.grid.len() as u64;
            }
            sizes.push(Size { channels: entry.channels.len(), voxels });
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
            sizes,
            kept: entries.iter().map(|_| OnceLock::new()).collect(),
            keep: free.is_none_or(|free| bytes < free / 3),
            listener,
            told: entries.iter().map(|_| AtomicBool::new(false)).collect(),
        })
    }

    /// Leaves out all but some of the subjects.
    pub(super) fn keep(&mut self, numbers: &[usize]) {
        fn some<T>(all: &mut Vec<T>, numbers: &[usize]) {
            let mut number = 0;
            all.retain(|_| {
                number += 1;
                numbers.contains(&(number - 1))
            });
        }
        some(&mut self.subjects, numbers);
        some(&mut self.entries, numbers);
        some(&mut self.sizes, numbers);
        some(&mut self.kept, numbers);
        some(&mut self.told, numbers);
    }

    /// The same subjects in a common space.
    pub(super) fn place(&mut self, affines: &[Affine]) {
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
        let read = |path: &Path| -> Result<Arc<Volume<f32>>, PopulationError> {
            let wrong = |e: Error| match e {
                Error::Stopped => PopulationError::Stopped,
                e => {
                    // The file is named once.
                    let (said, name) = (e.to_string(), format!("'{}': ", path.display()));
                    let said = said.strip_prefix(&name).unwrap_or(&said);
                    let hint = match e {
                        Error::Memory(_) => "",
                        _ => "; `exclude = unreadable` leaves such subjects out",
                    };
                    PopulationError::Input { file: path.to_owned(), what: format!("{said}{hint}") }
                }
            };
            files::image(path, &once).map(Arc::new).map_err(wrong)
        };
        Ok(Images {
            channels: entry.channels.iter().map(|p| read(p)).collect::<Result<_, _>>()?,
            mask: entry.mask.as_deref().map(read).transpose()?,
        })
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
    fn say(&self, level: Level, text: &str) {
        if !self.told {
            self.listener.say(level, text);
        }
    }

    fn reading(&self, read: &mut dyn FnMut()) {
        self.listener.reading(read);
    }
}
