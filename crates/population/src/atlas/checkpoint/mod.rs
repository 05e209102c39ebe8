//! Checkpoints, from which a stopped run resumes.
//!
//! In the folder of checkpoints there are two places, `a` and `b`, which are written in turns, and a file
//! `current` with the name of the one that is whole. That file is exchanged once everything is on the
//! disk, so that a run which is killed at any moment leaves the last whole checkpoint. Where that one is
//! damaged later on, the older one serves, unless a newer one was begun over it.
//!
//! Every file has its checksum, and the [stamp](Stamp) of what it is of.

mod sealed;

use super::align::aligned::Aligned;
use super::options::Sharpness;
use super::subjects::away::failed;
use super::template::snapshot::Snapshot;
use crate::error::{PopulationError, Result};
use crate::exchange::all_told;
use sealed::{Content, Fault, Stamp, read, refused};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use voxalign_compute::comm::Communicator;
use voxalign_image::{Affine, Grid};
use voxalign_io::checksum::sha256;
use voxalign_register::multiscale::{Course, Scale};
use voxalign_register::{Event, Progress, Verdict};

/// Where and when a run is saved.
#[derive(Debug, Clone)]
pub struct Checkpoints<'a> {
    /// The folder, which all ranks see.
    pub folder: &'a Path,
    /// The time from one to the next.
    pub every: Duration,
    /// The identity of the run: a run resumes only from a checkpoint with the same text.
    pub key: &'a str,
    /// The kind of device, as `--device` names it, such as `cpu` or `cuda`: another kind gives other bits, so that
    /// a run does not resume from its checkpoints.
    pub device: &'a str,
}

/// A state of a run, without its images.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Saved {
    pub(super) course: Course,
    pub(super) iteration: usize,
    /// The scale that the subjects are at.
    pub(super) scale: Scale,
    pub(super) masked: bool,
    pub(super) sharpness: Vec<Sharpness>,
    pub(super) snapshots: Vec<Snapshot>,
    /// The geometry of the template: the number of a subject, and vertices.
    pub(super) geometry: Vec<(usize, Vec<[f64; 3]>)>,
    /// The factor of the energy of points.
    pub(super) share: f64,
    /// The model of the devices, such as `NVIDIA H200`.
    pub(super) model: String,
}

/// An [`Aligned`] in numbers.
#[derive(Serialize, Deserialize)]
struct Space {
    dims: [usize; 3],
    to_world: [[f64; 4]; 3],
    kept: Vec<usize>,
    affines: Vec<[[f64; 4]; 3]>,
    verdicts: Vec<Verdict>,
}

/// The folder of a checkpoint, and what its files are of.
#[derive(Debug, Clone)]
pub(super) struct Place {
    folder: PathBuf,
    stamp: Stamp,
}

const CURRENT: &str = "current";
const PLACES: [&str; 2] = ["a", "b"];
/// The common space, twice, as there is no older one.
const ALIGNED: [&str; 2] = ["aligned.state", "aligned-copy.state"];
const STATE: &str = "course.state";
const TEMPLATE: &str = "template.state";

/// The progress of a run, for its stamp.
fn position(iteration: usize, course: &Course) -> [u64; 3] {
    [course.records.len(), iteration, course.energies.len()].map(|n| n as u64)
}

impl Checkpoints<'_> {
    fn stamp(&self, at: [u64; 3]) -> Stamp {
        Stamp { key: sha256(self.key.as_bytes()), device: self.device.to_owned(), at }
    }

    fn place(&self, name: &str, at: [u64; 3]) -> Place {
        Place { folder: self.folder.join(name), stamp: self.stamp(at) }
    }

    /// Refuses a file that is not of this run.
    fn check(&self, path: &Path, stamp: &Stamp) -> Result<()> {
        let own = self.stamp(stamp.at);
        if stamp.key != own.key {
            return Err(is_other(path));
        }
        if stamp.device != own.device {
            return Err(PopulationError::OtherDevice {
                path: path.to_owned(),
                made: stamp.device.clone(),
                here: own.device,
            });
        }
        Ok(())
    }

    /// The place that `current` names.
    fn current(&self) -> std::result::Result<&'static str, Fault> {
        let name = read::<String>(&self.folder.join(CURRENT), false)?.value;
        let known = PLACES.into_iter().find(|p| *p == name);
        known.ok_or_else(|| Fault::Damaged(format!("it names '{name}'")))
    }

    fn set_current(&self, name: &str) -> Result<()> {
        sealed::replace(&self.folder.join(CURRENT), &self.stamp([0; 3]), &name)
    }

    /// The state in a place.
    fn state(&self, name: &str) -> std::result::Result<Content<Saved>, Fault> {
        read(&self.folder.join(name).join(STATE), false)
    }

    /// The places from the newest to the oldest.
    fn newest_first(&self) -> [&'static str; 2] {
        let at = |name| self.state(name).ok().map(|s| s.stamp.at);
        let a_is_newer = match self.current() {
            Ok(name) => name == PLACES[0],
            Err(_) => at(PLACES[0]) > at(PLACES[1]),
        };
        if a_is_newer { PLACES } else { [PLACES[1], PLACES[0]] }
    }

    /// Makes the place that the next checkpoint goes to, of a run that has come so far; every rank calls it,
    /// `first` makes the folder.
    pub(super) fn begin(&self, first: bool, iteration: usize, course: &Course) -> Result<Place> {
        let place = self.place(self.newest_first()[1], position(iteration, course));
        if first {
            fs::create_dir_all(&place.folder).map_err(|e| failed(&place.folder, "make", &e))?;
            // Until this one is whole, its place has none.
            remove_file(&place.folder.join(STATE))?;
        }
        Ok(place)
    }

    /// Makes a place the one that a run resumes from, once all ranks have written their parts.
    pub(super) fn end(&self, place: &Place, saved: &Saved, template: &[Vec<f32>]) -> Result<()> {
        sealed::write(&place.folder.join(TEMPLATE), &place.stamp, &(), template)?;
        sealed::replace(&place.folder.join(STATE), &place.stamp, saved)?;
        let name = place.folder.file_name().unwrap_or_default().to_string_lossy();
        self.set_current(&name)
    }

    /// The last intact checkpoint, if there is one; `subjects` are those of this rank. All ranks call it and get
    /// the same; the listener is told of a damaged one.
    pub(super) fn last(
        &self,
        ranks: &Communicator,
        subjects: &[usize],
        progress: &dyn Progress,
    ) -> Result<Option<Place>> {
        let current = self.current();
        let there = PLACES.map(|name| self.folder.join(name).join(STATE).exists());
        if current == Err(Fault::Missing) && there == [false; 2] {
            return Ok(None);
        }
        let mut faults = Vec::new();
        for (turn, name) in self.newest_first().into_iter().enumerate() {
            let found = ranks.agree(self.whole(name, subjects))?;
            let (place, fault) = match found {
                Ok(place) => (Some(place), None),
                Err((file, fault)) => (None, Some((file.display().to_string(), fault.words()))),
            };
            // One rank may see what others do not.
            let of_all = all_told(ranks, &fault)?.into_iter().flatten().next();
            match (place, of_all) {
                (Some(place), None) => {
                    if let Some((file, why)) = faults.first() {
                        let text = format!(
                            "the last checkpoint is damaged ('{file}': {why}); the run resumes from the \
                             previous one, in '{}', which costs some iterations but does not change the result",
                            place.folder.display()
                        );
                        progress.event(&Event::Warning { text: &text });
                    }
                    if ranks.is_first() && (turn > 0 || current.is_err()) {
                        self.set_current(name)?;
                    }
                    return Ok(Some(place));
                }
                (_, fault) => faults.extend(fault),
            }
        }
        let why: Vec<_> = faults.iter().map(|(file, why)| format!("'{file}': {why}")).collect();
        Err(PopulationError::Damaged {
            path: self.folder.to_owned(),
            what: format!("no checkpoint is intact ({})", why.join("; ")),
        })
    }

    /// A place all of whose files that this rank needs are whole and of one state; else the file that is
    /// not, and why.
    fn whole(
        &self,
        name: &str,
        subjects: &[usize],
    ) -> Result<std::result::Result<Place, (PathBuf, Fault)>> {
        let folder = self.folder.join(name);
        let path = folder.join(STATE);
        let stamp = match self.state(name) {
            Ok(content) => content.stamp,
            Err(fault) => return at_fault(path, fault),
        };
        self.check(&path, &stamp)?;
        let place = Place { folder, stamp };
        let template = place.folder.join(TEMPLATE);
        if let Err(fault) = place.checked::<()>(&template, false) {
            return at_fault(template, fault);
        }
        for &index in subjects {
            let path = place.subject(index);
            if let Err(fault) = place.checked::<Vec<f64>>(&path, false) {
                return at_fault(path, fault);
            }
        }
        Ok(Ok(place))
    }

    /// Saves the common space of the subjects before there is a checkpoint; an older one, which may be of another
    /// run, is removed.
    ///
    /// # Errors
    /// A folder that cannot be written.
    pub fn write_aligned(&self, aligned: &Aligned) -> Result<()> {
        fs::create_dir_all(self.folder).map_err(|e| failed(self.folder, "make", &e))?;
        for name in [CURRENT, ALIGNED[0], ALIGNED[1]] {
            remove_file(&self.folder.join(name))?;
        }
        for name in PLACES {
            remove_file(&self.folder.join(name).join(STATE))?;
        }
        let space = Space {
            dims: aligned.grid.dims(),
            to_world: aligned.grid.to_world().rows(),
            kept: aligned.kept.clone(),
            affines: aligned.affines.iter().map(Affine::rows).collect(),
            verdicts: aligned.verdicts.clone(),
        };
        for name in ALIGNED {
            sealed::replace(&self.folder.join(name), &self.stamp([0; 3]), &space)?;
        }
        Ok(())
    }

    /// The common space that was kept, where there is one; the listener is told of a damaged file.
    ///
    /// # Errors
    /// Files that are damaged, or of another run.
    pub fn read_aligned(&self, progress: &dyn Progress) -> Result<Option<Aligned>> {
        if !self.exist() {
            return Ok(None);
        }
        let mut faults = Vec::new();
        for path in ALIGNED.map(|name| self.folder.join(name)) {
            let Content { stamp, value, .. } = match read::<Space>(&path, false) {
                Ok(content) => content,
                Err(Fault::Memory(refused)) => return Err(refused.into()),
                Err(fault) => {
                    faults.push((path, fault));
                    continue;
                }
            };
            self.check(&path, &stamp)?;
            if let Some((damaged, fault)) = faults.first() {
                let text = format!(
                    "'{}' is damaged: {}; its copy is used",
                    damaged.display(),
                    fault.words()
                );
                progress.event(&Event::Warning { text: &text });
            }
            return Ok(Some(Aligned {
                grid: Grid::new(value.dims, Affine::from_rows(value.to_world))?,
                kept: value.kept,
                affines: value.affines.into_iter().map(Affine::from_rows).collect(),
                verdicts: value.verdicts,
            }));
        }
        match faults.first() {
            Some((path, fault)) => Err(refused(path, fault)),
            None => Ok(None),
        }
    }

    /// Whether there is a checkpoint to resume from, of any run.
    #[must_use]
    pub fn exist(&self) -> bool {
        let states = PLACES.map(|name| self.folder.join(name).join(STATE));
        let others = [CURRENT, ALIGNED[0], ALIGNED[1]].map(|name| self.folder.join(name));
        states.iter().chain(&others).any(|path| path.is_file())
    }

    /// Removes all of them, and the folder, unless it has something else.
    ///
    /// # Errors
    /// A file that cannot be removed.
    pub fn remove(&self) -> Result<()> {
        for name in [CURRENT, ALIGNED[0], ALIGNED[1]] {
            remove_file(&self.folder.join(name))?;
            remove_file(&self.folder.join(name).with_extension("new"))?;
        }
        for place in PLACES.map(|name| self.folder.join(name)) {
            let Ok(entries) = fs::read_dir(&place) else { continue };
            for path in entries.flatten().map(|e| e.path()) {
                let end = path.extension().unwrap_or_default();
                if end == "state" || path == place.join(STATE).with_extension("new") {
                    remove_file(&path)?;
                }
            }
            // What is not of this program stays, and its folder with it.
            let _ = fs::remove_dir(&place);
        }
        let _ = fs::remove_dir(self.folder);
        Ok(())
    }
}

/// The outcome for a place with an unusable file. Too little memory to read one ends the search: an older place
/// would take as much.
fn at_fault<T>(path: PathBuf, fault: Fault) -> Result<std::result::Result<T, (PathBuf, Fault)>> {
    match fault {
        Fault::Memory(refused) => Err(refused.into()),
        fault => Ok(Err((path, fault))),
    }
}

impl Place {
    fn subject(&self, index: usize) -> PathBuf {
        self.folder.join(format!("subject-{index}.state"))
    }

    /// A file of this place, which has to be of the same state as the others.
    fn checked<T: serde::de::DeserializeOwned>(
        &self,
        path: &Path,
        with_buffers: bool,
    ) -> std::result::Result<Content<T>, Fault> {
        let content = read(path, with_buffers)?;
        match content.stamp == self.stamp {
            true => Ok(content),
            false => Err(Fault::Damaged("it is from another iteration than the others".to_owned())),
        }
    }

    pub(super) fn write_subject(
        &self,
        index: usize,
        numbers: &[f64],
        buffers: &[Vec<f32>],
    ) -> Result<()> {
        sealed::write(&self.subject(index), &self.stamp, &numbers, buffers)
    }

    pub(super) fn read_subject(&self, index: usize) -> Result<(Vec<f64>, Vec<Vec<f32>>)> {
        let path = self.subject(index);
        let content = self.checked(&path, true).map_err(|fault| refused(&path, &fault))?;
        Ok((content.value, content.buffers))
    }

    /// The state and the template.
    pub(super) fn read(&self) -> Result<(Saved, Vec<Vec<f32>>)> {
        let [state, template] = [STATE, TEMPLATE].map(|name| self.folder.join(name));
        let saved = self.checked(&state, false).map_err(|fault| refused(&state, &fault))?.value;
        let content = self.checked::<()>(&template, true);
        Ok((saved, content.map_err(|fault| refused(&template, &fault))?.buffers))
    }

    pub(super) fn is_other(&self) -> PopulationError {
        is_other(&self.folder)
    }
}

/// The error of a checkpoint that does not fit.
fn is_other(path: &Path) -> PopulationError {
    PopulationError::OtherCheckpoint { path: path.to_owned() }
}

/// Removes a file, where there is one.
fn remove_file(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(failed(path, "remove", &e)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
