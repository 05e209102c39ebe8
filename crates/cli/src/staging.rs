//! Files that appear together when all are complete.

use crate::failure::Failure;
use crate::interrupt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use tempfile::TempDir;
use voxalign_compute::comm::Communicator;

/// Outputs of a command that appear together: they are written into a hidden folder inside the
/// output folder and moved out of it, the last of them at the end, when all are complete. Dropped before that, it leaves
/// nothing, not even the output folder where that was new.
#[derive(Debug)]
pub(crate) struct Staging {
    hidden: Option<Hidden>,
    folder: PathBuf,
    /// Folders made for it, outermost first.
    made: Vec<PathBuf>,
    names: Vec<String>,
    /// Files of an older result that this one does not have.
    stale: Vec<String>,
}

/// The hidden folder: made by this process, or by the one that all write for.
#[derive(Debug)]
enum Hidden {
    Own(TempDir),
    Joined(PathBuf),
}

impl Hidden {
    fn path(&self) -> &Path {
        match self {
            Self::Own(folder) => folder.path(),
            Self::Joined(path) => path,
        }
    }
}

impl Staging {
    /// As [`new`](Self::new) for all processes of a run: the first makes the folders, the others write into
    /// them, and what they wrote is [gathered](Self::gather) before the first one moves it all.
    pub(crate) fn shared(folder: &Path, world: &Communicator) -> Result<Self, Failure> {
        if world.size() == 1 {
            return Self::new(folder);
        }
        let own = if world.is_first() { Self::new(folder).map(Some) } else { Ok(None) };
        let own = world.agree(own)?;
        let hidden = own.as_ref().and_then(|s| s.hidden.as_ref()).map(|h| h.path().to_owned());
        let mut path = hidden.unwrap_or_default().to_string_lossy().into_owned().into_bytes();
        world.broadcast_bytes(&mut path, 0)?;
        let joined = || -> Result<Self, Failure> {
            let path = PathBuf::from(String::from_utf8_lossy(&path).into_owned());
            if !path.is_dir() {
                return Err(Failure::input(format!(
                    "this process cannot see the output folder '{}' that the first process \
                     created; give a folder that all machines share",
                    folder.display()
                )));
            }
            Ok(Self {
                hidden: Some(Hidden::Joined(path)),
                folder: folder.to_owned(),
                made: Vec::new(),
                names: Vec::new(),
                stale: Vec::new(),
            })
        };
        let joined = match own {
            Some(own) => Ok(own),
            None => joined(),
        };
        world.agree(joined)
    }

    /// Gives the names of what all processes wrote to the first one.
    pub(crate) fn gather(&mut self, world: &Communicator) -> Result<(), Failure> {
        if world.size() == 1 {
            return Ok(());
        }
        let own = if world.is_first() { String::new() } else { self.names.join("\n") };
        if let Some(all) = world.gather(own.as_bytes(), 0)? {
            for block in all {
                let text = String::from_utf8_lossy(&block);
                self.names.extend(text.lines().map(str::to_owned));
            }
        }
        Ok(())
    }

    /// A folder for what is needed while the outputs are made, and goes with the hidden one.
    pub(crate) fn scratch(&self, name: &str) -> Result<PathBuf, Failure> {
        let hidden = self.hidden.as_ref();
        let hidden = hidden.ok_or_else(|| Failure::Internal("the outputs are gone".into()))?;
        let path = hidden.path().join(name);
        std::fs::create_dir_all(&path).map_err(|e| {
            Failure::input(format!(
                "cannot write to the folder '{}': {}; check its permissions and the space left",
                self.folder.display(),
                e.kind()
            ))
        })?;
        Ok(path)
    }

    /// Makes the output folder and checks that it can be written.
    pub(crate) fn new(folder: &Path) -> Result<Self, Failure> {
        // The kind alone, as an error's own text may have the name of the hidden folder.
        let fail = |e: std::io::Error| {
            Failure::input(format!(
                "cannot write to the folder '{}': {}; check its name and permissions",
                folder.display(),
                e.kind()
            ))
        };
        let mut made = Vec::new();
        let mut missing: Vec<_> = folder
            .ancestors()
            .take_while(|p| !p.as_os_str().is_empty() && !p.exists())
            .map(Path::to_owned)
            .collect();
        missing.reverse();
        let result = missing.iter().try_for_each(|path| {
            std::fs::create_dir(path)?;
            made.push(path.clone());
            Ok(())
        });
        // From here on, dropping the staging takes the made folders away again.
        let mut staging = Self {
            hidden: None,
            folder: folder.to_owned(),
            made,
            names: Vec::new(),
            stale: Vec::new(),
        };
        result.map_err(fail)?;
        let hidden =
            tempfile::Builder::new().prefix(HIDDEN).rand_bytes(HIDDEN_LETTERS).tempdir_in(folder);
        let hidden = hidden.map_err(fail)?;
        interrupt::set_staging(Some(hidden.path().to_owned()));
        staging.hidden = Some(Hidden::Own(hidden));
        Ok(staging)
    }

    /// Where to write the file that will get this name, which may be in folders of its own.
    pub(crate) fn path(&mut self, name: &str) -> Result<PathBuf, Failure> {
        interrupt::check()?;
        let hidden = self.hidden.as_ref();
        let hidden = hidden.ok_or_else(|| Failure::Internal("the outputs are gone".into()))?;
        let path = hidden.path().join(name);
        if let Some(folder) = path.parent().filter(|folder| !folder.exists()) {
            std::fs::create_dir_all(folder).map_err(|e| {
                Failure::input(format!(
                    "cannot write to the folder '{}': {}; check its permissions and the space left",
                    self.folder.display(),
                    e.kind()
                ))
            })?;
        }
        self.names.push(name.to_owned());
        Ok(path)
    }

    /// Writes the file that will get this name; an error is about that name.
    pub(crate) fn write(
        &mut self,
        name: &str,
        write: impl FnOnce(&Path) -> voxalign_io::Result<()>,
    ) -> Result<(), Failure> {
        let path = self.path(name)?;
        Ok(write(&path).map_err(|e| e.instead_at(&self.final_path(name)))?)
    }

    /// As [`write`](Self::write) for an image that may be of two files: the values are moved before the
    /// header, and an older header goes before anything is moved.
    pub(crate) fn write_image(
        &mut self,
        name: &str,
        write: impl FnOnce(&Path) -> voxalign_io::Result<()>,
    ) -> Result<(), Failure> {
        self.write(name, write)?;
        let hidden = self.hidden.as_ref().map(|h| h.path().to_owned()).unwrap_or_default();
        let found = std::fs::read_dir(&hidden).into_iter().flatten().flatten();
        let found = found.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let others: Vec<String> = found.filter(|n| !self.names.contains(n)).collect();
        if !others.is_empty() {
            self.stale.push(name.to_owned());
            let header = self.names.len() - 1;
            self.names.splice(header..header, others);
        }
        Ok(())
    }

    /// Says that this result has no file of this name: one of an older result goes, so that the
    /// folder never holds a mixture.
    pub(crate) fn without(&mut self, name: &str) {
        self.stale.push(name.to_owned());
    }

    /// The path that a file will have in the end.
    pub(crate) fn final_path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Moves all files to their names, in the order in which they were asked for; an old file of
    /// such a name is replaced.
    ///
    /// The last one stands for the whole: an older one of its name goes before anything else does.
    /// Where the program is killed in between, a folder that has it holds one result, of one run.
    pub(crate) fn commit(mut self) -> Result<(), Failure> {
        let Some(hidden) = self.hidden.take() else { return Ok(()) };
        // To replace a file by a rename makes some file systems write it out at once. Older files are moved
        // aside instead, so that the moment in which there is no whole result is short.
        let aside = hidden.path().join(ASIDE);
        let _ = std::fs::create_dir(&aside);
        for folder in self.names.iter().filter_map(|n| Path::new(n).parent()) {
            // Where it cannot be made, a file cannot be moved there.
            let _ = std::fs::create_dir_all(self.folder.join(folder));
        }
        let (mut number, from) = (0, self.folder.clone());
        let mut move_aside = |name: &str| {
            let path = from.join(name);
            let is_folder = path.symlink_metadata().is_ok_and(|m| m.is_dir());
            if !is_folder {
                // What is not there need not go.
                let _ = std::fs::rename(path, aside.join(number.to_string()));
                number += 1;
            }
        };
        for name in self.names.last().into_iter().chain(&self.stale) {
            move_aside(name);
        }
        for name in &self.names {
            let to = self.folder.join(name);
            move_aside(name);
            std::fs::rename(hidden.path().join(name), &to).map_err(|e| {
                Failure::input(format!("cannot write '{}': {e}; check the folder", to.display()))
            })?;
        }
        for folder in self.stale.iter().filter_map(|n| Path::new(n).parent()) {
            // A folder that has something else stays, and so does that of all outputs.
            if !folder.as_os_str().is_empty() {
                let _ = std::fs::remove_dir(self.folder.join(folder));
            }
        }
        self.made.clear();
        drop(hidden);
        remove_abandoned(&self.folder, SystemTime::now());
        Ok(())
    }
}

/// The folder, in the hidden one, of older files that were replaced.
const ASIDE: &str = ".older";

/// What the names of the hidden folders begin with; a few letters and digits follow.
const HIDDEN: &str = ".voxalign-";
const HIDDEN_LETTERS: usize = 6;

/// Removes hidden folders that killed runs left more than an hour ago.
fn remove_abandoned(folder: &Path, now: SystemTime) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let rest = name.to_str().and_then(|n| n.strip_prefix(HIDDEN)).unwrap_or_default();
        let ours = rest.len() == HIDDEN_LETTERS && rest.bytes().all(|b| b.is_ascii_alphanumeric());
        // The metadata of a link are its own: it counts as no folder.
        let Ok(metadata) = entry.metadata() else { continue };
        let age = metadata.modified().ok().and_then(|t| now.duration_since(t).ok());
        if ours && metadata.is_dir() && age.is_some_and(|a| a > Duration::from_secs(3600)) {
            // Another user's folder stays.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if matches!(self.hidden.take(), Some(Hidden::Joined(_))) {
            return;
        }
        interrupt::set_staging(None);
        for folder in self.made.iter().rev() {
            // A folder that is not empty is not ours any more.
            let _ = std::fs::remove_dir(folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn staging_is_all_or_nothing() {
        let root = tempfile::tempdir().unwrap();
        let out = root.path().join("x/y");
        let mut staging = Staging::new(&out).unwrap();
        std::fs::write(staging.path("a").unwrap(), b"1").unwrap();
        drop(staging);
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);

        let mut staging = Staging::new(&out).unwrap();
        std::fs::write(staging.path("a").unwrap(), b"1").unwrap();
        std::fs::write(staging.path("b").unwrap(), b"2").unwrap();
        staging.commit().unwrap();
        let names: Vec<_> =
            std::fs::read_dir(&out).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names.len(), 2, "{names:?}");
        assert!(Staging::new(&out.join("a")).is_err());
    }

    #[test]
    fn the_last_file_stands_for_the_whole() {
        let root = tempfile::tempdir().unwrap();
        let stage = |text: &str| {
            let mut staging = Staging::new(root.path()).unwrap();
            for name in ["a", "b", "record"] {
                std::fs::write(staging.path(name).unwrap(), text).unwrap();
            }
            staging
        };
        stage("one").commit().unwrap();
        let read = |name: &str| std::fs::read_to_string(root.path().join(name));
        assert_eq!(read("record").unwrap(), "one");
        // The move ends half-way: at a name that cannot be had.
        std::fs::remove_file(root.path().join("b")).unwrap();
        std::fs::create_dir_all(root.path().join("b/full")).unwrap();
        assert!(stage("two").commit().is_err());
        assert_eq!(read("a").unwrap(), "two");
        assert!(read("record").is_err(), "the record of an older result beside newer files");
        std::fs::remove_dir_all(root.path().join("b")).unwrap();
        stage("three").commit().unwrap();
        assert_eq!(["a", "b", "record"].map(|n| read(n).unwrap()), ["three"; 3]);
    }

    #[test]
    fn files_have_folders_of_their_own() {
        let root = tempfile::tempdir().unwrap();
        let mut staging = Staging::new(root.path()).unwrap();
        std::fs::write(staging.path("a/b/c").unwrap(), b"1").unwrap();
        std::fs::write(staging.path("record").unwrap(), b"2").unwrap();
        assert!(!root.path().join("a").exists());
        staging.commit().unwrap();
        assert_eq!(std::fs::read(root.path().join("a/b/c")).unwrap(), b"1");
    }

    #[test]
    fn what_a_killed_run_left_goes_after_an_hour() {
        let root = tempfile::tempdir().unwrap();
        for name in [".voxalign-aB3xYz", ".voxalign-mine", ".voxalign-a.b.c.", "voxalign-aB3xYz"] {
            std::fs::create_dir(root.path().join(name)).unwrap();
        }
        std::fs::write(root.path().join(".voxalign-123456"), b"a file").unwrap();
        std::fs::write(root.path().join(".voxalign-aB3xYz/warped.nii.gz"), b"x").unwrap();
        let count = || std::fs::read_dir(root.path()).unwrap().count();
        remove_abandoned(root.path(), SystemTime::now());
        assert_eq!(count(), 5);
        remove_abandoned(root.path(), SystemTime::now() + Duration::from_secs(3700));
        assert_eq!(count(), 4);
        assert!(!root.path().join(".voxalign-aB3xYz").exists());
    }
}
