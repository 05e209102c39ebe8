//! What a stopped run goes on from.
//!
//! In the folder of checkpoints there are two places, `a` and `b`, which are written in turns, and a file
//! `current` with the name of the one that is whole. That file is exchanged once everything is on the
//! disk, so that a run which is killed at any moment leaves the last whole checkpoint.

use super::align::Aligned;
use super::away::{failed, read_state, write_state};
use super::options::Sharpness;
use super::snapshot::Snapshot;
use crate::error::{PopulationError, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use voxalign_image::{Affine, Grid};
use voxalign_register::Verdict;
use voxalign_register::diffeo::multiscale::{Course, Scale};

/// Where and when a run is saved.
#[derive(Debug, Clone)]
pub struct Checkpoints<'a> {
    /// The folder, which all ranks see.
    pub folder: &'a Path,
    /// The time from one to the next.
    pub every: Duration,
    /// What the run is of: a run goes on only from a checkpoint that has the same text.
    pub key: &'a str,
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

/// A file with what it is of.
#[derive(Serialize, Deserialize)]
struct Keyed<T> {
    key: String,
    value: T,
}

/// The folder of a checkpoint.
#[derive(Debug, Clone)]
pub(super) struct Place {
    folder: PathBuf,
    key: String,
}

const CURRENT: &str = "current";
const PLACES: [&str; 2] = ["a", "b"];
const ALIGNED: &str = "aligned.json";
const STATE: &str = "state.json";
const TEMPLATE: &str = "template.state";

impl Checkpoints<'_> {
    fn current(&self) -> Result<Option<&'static str>> {
        let path = self.folder.join(CURRENT);
        match fs::read_to_string(&path) {
            Ok(text) => match PLACES.into_iter().find(|p| *p == text.trim()) {
                Some(place) => Ok(Some(place)),
                None => Err(self.is_other()),
            },
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(failed(&path, "read", &e)),
        }
    }

    fn place(&self, name: &str) -> Place {
        Place { folder: self.folder.join(name), key: self.key.to_owned() }
    }

    fn is_other(&self) -> PopulationError {
        is_other(self.folder)
    }

    /// Makes the place that the next checkpoint goes to; every rank calls it, `first` makes the folder.
    pub(super) fn begin(&self, first: bool) -> Result<Place> {
        let place = self.place(if self.current()? == Some("a") { "b" } else { "a" });
        if first {
            fs::create_dir_all(&place.folder).map_err(|e| failed(&place.folder, "make", &e))?;
        }
        Ok(place)
    }

    /// Makes a place the one that a run goes on from, once all ranks have written what is theirs.
    pub(super) fn end(&self, place: &Place, saved: &Saved, template: &[Vec<f32>]) -> Result<()> {
        write_state(&place.folder.join(TEMPLATE), &[], template)?;
        write_json(&place.folder.join(STATE), &place.key, saved)?;
        let name = place.folder.file_name().unwrap_or_default().to_string_lossy();
        replace(&self.folder.join(CURRENT), name.as_bytes())
    }

    /// The last one that is whole, where there is one.
    pub(super) fn last(&self) -> Result<Option<Place>> {
        Ok(self.current()?.map(|name| self.place(name)))
    }

    /// Keeps the common space of the subjects, for which there is no checkpoint yet: an older one, which may
    /// be of another run, goes.
    ///
    /// # Errors
    /// A folder that cannot be written.
    pub fn write_aligned(&self, aligned: &Aligned) -> Result<()> {
        fs::create_dir_all(self.folder).map_err(|e| failed(self.folder, "make", &e))?;
        remove_file(&self.folder.join(CURRENT))?;
        let space = Space {
            dims: aligned.grid.dims(),
            to_world: aligned.grid.to_world().rows(),
            kept: aligned.kept.clone(),
            affines: aligned.affines.iter().map(Affine::rows).collect(),
            verdicts: aligned.verdicts.clone(),
        };
        write_json(&self.folder.join(ALIGNED), self.key, &space)
    }

    /// The common space that was kept, where there is one.
    ///
    /// # Errors
    /// A file that cannot be read, or is of another run.
    pub fn read_aligned(&self) -> Result<Option<Aligned>> {
        let path = self.folder.join(ALIGNED);
        if !path.exists() {
            return Ok(None);
        }
        let space: Space = read_json(&path, self.key)?;
        Ok(Some(Aligned {
            grid: Grid::new(space.dims, Affine::from_rows(space.to_world))?,
            kept: space.kept,
            affines: space.affines.into_iter().map(Affine::from_rows).collect(),
            verdicts: space.verdicts,
        }))
    }

    /// Whether there is something that a run can go on from, of whichever run.
    #[must_use]
    pub fn exist(&self) -> bool {
        [CURRENT, ALIGNED].iter().any(|name| self.folder.join(name).is_file())
    }

    /// Removes all of them, and the folder, unless it has something else.
    ///
    /// # Errors
    /// A file that cannot be removed.
    pub fn remove(&self) -> Result<()> {
        for name in [CURRENT, ALIGNED] {
            remove_file(&self.folder.join(name))?;
            remove_file(&self.folder.join(name).with_extension("new"))?;
        }
        for place in PLACES.map(|name| self.folder.join(name)) {
            let Ok(entries) = fs::read_dir(&place) else { continue };
            for path in entries.flatten().map(|e| e.path()) {
                let end = path.extension().unwrap_or_default();
                if end == "state" || path.file_stem().is_some_and(|n| n == "state") {
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

impl Place {
    fn subject(&self, index: usize) -> PathBuf {
        self.folder.join(format!("subject-{index}.state"))
    }

    pub(super) fn write_subject(
        &self,
        index: usize,
        numbers: &[f64],
        buffers: &[Vec<f32>],
    ) -> Result<()> {
        write_state(&self.subject(index), numbers, buffers)
    }

    pub(super) fn read_subject(&self, index: usize) -> Result<(Vec<f64>, Vec<Vec<f32>>)> {
        read_state(&self.subject(index))
    }

    /// The state and the template.
    pub(super) fn read(&self) -> Result<(Saved, Vec<Vec<f32>>)> {
        let saved = read_json(&self.folder.join(STATE), &self.key)?;
        Ok((saved, read_state(&self.folder.join(TEMPLATE))?.1))
    }

    pub(super) fn is_other(&self) -> PopulationError {
        is_other(&self.folder)
    }
}

/// The error of a checkpoint that does not fit.
fn is_other(path: &Path) -> PopulationError {
    PopulationError::OtherCheckpoint { path: path.to_owned() }
}

fn write_json<T: Serialize>(path: &Path, key: &str, value: &T) -> Result<()> {
    let keyed = Keyed { key: key.to_owned(), value };
    let text = serde_json::to_string(&keyed).map_err(|e| failed(path, "write", &e.into()))?;
    replace(path, text.as_bytes())
}

fn read_json<T: DeserializeOwned>(path: &Path, key: &str) -> Result<T> {
    let text = fs::read_to_string(path).map_err(|e| failed(path, "read", &e))?;
    match serde_json::from_str::<Keyed<T>>(&text) {
        Ok(keyed) if keyed.key == key => Ok(keyed.value),
        _ => Err(is_other(path)),
    }
}

/// Removes a file, where there is one.
fn remove_file(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(failed(path, "remove", &e)),
        _ => Ok(()),
    }
}

/// Writes a file that is there as a whole or as it was, also after a loss of power.
fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let new = path.with_extension("new");
    let write = || -> io::Result<()> {
        let mut file = File::create(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        match path.parent() {
            Some(folder) => File::open(folder)?.sync_all(),
            None => Ok(()),
        }
    };
    write().map_err(|e| failed(path, "write", &e))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saved(iteration: usize) -> Saved {
        Saved {
            course: Course { energies: vec![0.1, 0.3 - 1e-17], ..Course::default() },
            iteration,
            scale: Scale { factor: 2, iterations: 9 },
            masked: false,
            sharpness: Vec::new(),
            snapshots: Vec::new(),
        }
    }

    #[test]
    fn the_last_whole_one_is_found() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("checkpoint");
        let all = Checkpoints { folder: &folder, every: Duration::ZERO, key: "this run" };
        assert!(all.last().unwrap().is_none());
        for i in 0..3 {
            let place = all.begin(true).unwrap();
            place.write_subject(0, &[i as f64], &[vec![i as f32; 4]]).unwrap();
            all.end(&place, &saved(i), &[vec![0.5]]).unwrap();
        }
        // One that was begun and not ended changes nothing.
        let half = all.begin(true).unwrap();
        half.write_subject(0, &[9.0], &[vec![9.0; 4]]).unwrap();
        let last = all.last().unwrap().unwrap();
        assert_eq!(last.read().unwrap(), (saved(2), vec![vec![0.5]]));
        assert_eq!(last.read_subject(0).unwrap(), (vec![2.0], vec![vec![2.0; 4]]));

        let other = Checkpoints { key: "another run", ..all.clone() };
        let said = other.last().unwrap().unwrap().read().unwrap_err().to_string();
        assert!(said.contains("other images or options"), "{said}");
        // What is not of checkpoints stays.
        fs::write(folder.join("a/weights.bin"), b"of another program").unwrap();
        all.remove().unwrap();
        assert!(!all.exist() && all.last().unwrap().is_none());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        assert_eq!(fs::read_dir(folder.join("a")).unwrap().count(), 1);
        fs::remove_file(folder.join("a/weights.bin")).unwrap();
        all.remove().unwrap();
        assert!(!folder.exists());
        all.remove().unwrap();
    }
}
