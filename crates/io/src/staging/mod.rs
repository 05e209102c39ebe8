//! Sets of output files that appear together when all are complete.

use crate::abandoned::remove_abandoned;
use crate::error::{IoError, Result};
use crate::exchange::{Exchange, Left, Step, exchange, sync};
use crate::hidden::{HiddenFolder, Hold, key_of};
use crate::unfinished::{self, Leftovers};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Outputs of a command that appear together: they are written into a hidden folder inside the
/// output folder and moved out of it, the last of them at the end, when all are complete. Dropped before that, it leaves
/// nothing, not even the output folder where that was new.
///
/// While it lives, no other process gets one for the same outputs, and none takes its hidden folder for abandoned. What
/// killed processes left in the output folder goes when it is made.
#[derive(Debug)]
pub struct Staging {
    hidden: Option<Hidden>,
    /// None where another process made the hidden folder.
    claim: Option<Arc<Claim>>,
    folder: PathBuf,
    /// Folders in the hidden one that are no outputs.
    scratch: Vec<PathBuf>,
    files: Exchange,
}

/// The hidden folder: made by this process, or by the one that all write for.
#[derive(Debug)]
enum Hidden {
    Own(HiddenFolder),
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

/// The outputs are this process's, until this is dropped.
#[derive(Debug)]
pub struct Claim {
    hold: Option<Hold>,
    /// Folders made for it, outermost first.
    made: Vec<PathBuf>,
}

impl Drop for Claim {
    fn drop(&mut self) {
        drop(self.hold.take());
        for folder in self.made.iter().rev() {
            // A folder that is not empty is not ours any more.
            let _ = std::fs::remove_dir(folder);
        }
    }
}

/// What helps where a folder cannot be made in the hidden one.
const SPACE: &str = "check its permissions and the space left";

/// The name that stands for all outputs of a folder. No file that is written has it, as it has no extension.
const RESULTS: &str = "results";

impl Staging {
    /// Of a result whose hidden folder another process has made, which moves it all in the end: what this
    /// one writes, it [hands over](Self::hand_over).
    ///
    /// # Errors
    /// [`IoError::Results`] where this process does not see the hidden folder.
    pub fn joined(folder: &Path, hidden: &Path) -> Result<Self> {
        if !hidden.is_dir() {
            return Err(IoError::Results {
                what: "cannot write to the output folder that the first process created,",
                path: folder.to_owned(),
                problem: "this process does not see it".to_owned(),
                remedy: "give a folder that all machines share".to_owned(),
            });
        }
        Ok(Self {
            hidden: Some(Hidden::Joined(hidden.to_owned())),
            claim: None,
            folder: folder.to_owned(),
            scratch: Vec::new(),
            files: Exchange::default(),
        })
    }

    /// The hidden folder, which other processes can [join](Self::joined).
    #[must_use]
    pub fn hidden(&self) -> Option<&Path> {
        self.hidden.as_ref().map(Hidden::path)
    }

    /// The names of what a process that [joined](Self::joined) has written, all of which is on the disk.
    ///
    /// # Errors
    /// What the system says.
    pub fn hand_over(&self) -> Result<&[String]> {
        if let Some(Hidden::Joined(hidden)) = &self.hidden {
            // The first one may be on another machine.
            let own: Vec<_> = self.files.new.iter().map(|name| hidden.join(name)).collect();
            sync(&own)
                .map_err(|(_, e)| IoError::unwritable(&self.folder, e, "check the folder"))?;
        }
        Ok(&self.files.new)
    }

    /// Takes what another process handed over.
    pub fn take_over(&mut self, names: impl IntoIterator<Item = String>) {
        self.files.new.extend(names);
    }

    /// Why nothing can be written; the kind alone, as an error's own text may have the name of the hidden
    /// folder.
    fn refused(&self, e: &std::io::Error, remedy: &str) -> IoError {
        IoError::unwritable(&self.folder, e.kind(), remedy)
    }

    /// The folder to write into.
    fn place(&self) -> Result<PathBuf> {
        let hidden = self.hidden.as_ref().map(|h| h.path().to_owned());
        hidden.ok_or_else(|| IoError::unwritable(&self.folder, "it is gone", "write anew"))
    }

    /// A folder for what is needed while the outputs are made, and goes with the hidden one.
    ///
    /// # Errors
    /// What the system says.
    pub fn scratch(&mut self, name: &str) -> Result<PathBuf> {
        let path = self.place()?.join(name);
        std::fs::create_dir_all(&path).map_err(|e| self.refused(&e, SPACE))?;
        self.scratch.push(path.clone());
        Ok(path)
    }

    /// Makes the output folder and checks that it can be written, and that no other process writes its results
    /// there.
    ///
    /// # Errors
    /// [`IoError::Results`] for what the system says, [`IoError::Busy`].
    pub fn new(folder: &Path) -> Result<Self> {
        Self::of(folder, RESULTS, "folder", folder)
    }

    /// As [`new`](Self::new) for a file and what belongs to it, in whose folder others may write other files.
    ///
    /// # Errors
    /// As of [`new`](Self::new).
    pub fn for_file(path: &Path) -> Result<Self> {
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
        Self::of(folder.unwrap_or(Path::new(".")), &key_of(path), "file", path)
    }

    fn of(folder: &Path, key: &str, what: &'static str, output: &Path) -> Result<Self> {
        // The kind alone, as an error's own text may have the name of the hidden folder.
        let fail = |e: std::io::Error| {
            IoError::unwritable(folder, e.kind(), "check its name and permissions")
        };
        let mut missing: Vec<_> = folder
            .ancestors()
            .take_while(|p| !p.as_os_str().is_empty() && !p.exists())
            .map(Path::to_owned)
            .collect();
        missing.reverse();
        // From here on, dropping the claim takes the made folders away again.
        let mut claim = Claim { hold: None, made: Vec::new() };
        for path in missing {
            match std::fs::create_dir(&path) {
                Ok(()) => claim.made.push(path),
                // Another process was faster.
                Err(_) if path.is_dir() => {}
                Err(e) => return Err(fail(e)),
            }
        }
        claim.hold = Hold::take(folder, key).map_err(fail)?;
        let Some(hold) = &claim.hold else {
            return Err(IoError::Busy { what, path: output.to_owned() });
        };
        remove_abandoned(folder);
        let hidden = HiddenFolder::new_in(folder).map_err(fail)?;
        unfinished::add_results(Leftovers {
            hidden: hidden.path().to_owned(),
            locks: vec![hidden.lock().to_owned(), hold.path().to_owned()],
            made: claim.made.clone(),
        });
        Ok(Self {
            hidden: Some(Hidden::Own(hidden)),
            claim: Some(Arc::new(claim)),
            folder: folder.to_owned(),
            scratch: Vec::new(),
            files: Exchange::default(),
        })
    }

    /// Keeps other processes from these outputs for as long as it lives, also when they have been moved.
    #[must_use]
    pub fn claim(&self) -> Option<Arc<Claim>> {
        self.claim.clone()
    }

    /// Where to write the file that will get this name, which may be in folders of its own.
    ///
    /// # Errors
    /// What the system says.
    pub fn path(&mut self, name: &str) -> Result<PathBuf> {
        let path = self.place()?.join(name);
        if let Some(folder) = path.parent().filter(|folder| !folder.exists()) {
            std::fs::create_dir_all(folder).map_err(|e| self.refused(&e, SPACE))?;
        }
        self.files.new.push(name.to_owned());
        Ok(path)
    }

    /// Writes the file that will get this name; an error is about that name.
    ///
    /// # Errors
    /// What the system says, and of `write`.
    pub fn write(&mut self, name: &str, write: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        let path = self.path(name)?;
        write(&path).map_err(|e| e.instead_at(&self.final_path(name)))
    }

    /// As [`write`](Self::write) for an image that may be of two files: the values are moved before the
    /// header, and an older header goes before anything is moved.
    ///
    /// # Errors
    /// As of [`write`](Self::write).
    pub fn write_image(
        &mut self,
        name: &str,
        write: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<()> {
        self.write(name, write)?;
        let hidden = self.hidden.as_ref().map(|h| h.path().to_owned()).unwrap_or_default();
        let found = std::fs::read_dir(&hidden).into_iter().flatten().flatten();
        let found = found.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let others: Vec<String> = found.filter(|n| !self.files.new.contains(n)).collect();
        if !others.is_empty() {
            self.files.stale.push(name.to_owned());
            let header = self.files.new.len() - 1;
            self.files.new.splice(header..header, others);
        }
        Ok(())
    }

    /// Says that this result has no file of this name: one of an older result goes, so that the
    /// folder never holds a mixture.
    pub fn without(&mut self, name: &str) {
        self.files.stale.push(name.to_owned());
    }

    /// The path that a file will have in the end.
    #[must_use]
    pub fn final_path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Moves all files to their names, in the order in which they were asked for; an old file of
    /// such a name is replaced. When it returns, all of that is on the disk.
    ///
    /// The last one stands for the whole: an older one of its name goes before anything else does.
    /// Where the program is killed in between, a folder that has it holds one result, of one run, and the next run
    /// brings the move to its end. Where a file cannot have its name, the older ones stay, and the new ones are kept
    /// in a folder that the message names.
    ///
    /// # Errors
    /// [`IoError::Results`], which says where all files are.
    pub fn commit(self) -> Result<()> {
        self.commit_by(&mut || Ok(()))
    }

    /// As [`commit`](Self::commit), with a word before each step.
    fn commit_by(mut self, step: &mut Step<'_>) -> Result<()> {
        let Some(Hidden::Own(hidden)) = self.hidden.take() else { return Ok(()) };
        for folder in self.scratch.drain(..) {
            let _ = std::fs::remove_dir_all(folder);
        }
        let path = hidden.path().to_owned();
        let done = unfinished::whole(&path, || exchange(hidden, &self.folder, &self.files, step));
        done.map_err(|(error, hidden)| {
            let kept = match (hidden, error.left) {
                (Some(hidden), _) => format!(
                    "the older files are as they were, and the new ones are in '{}'",
                    hidden.keep_as(KEPT).display()
                ),
                (None, Left::Newer) => "the files are there, but may not be on the disk".to_owned(),
                _ => "the next run into this folder puts the new files in their places".to_owned(),
            };
            IoError::Results {
                what: "cannot write",
                path: error.path,
                problem: error.source.to_string(),
                remedy: format!("{kept}; check the folder"),
            }
        })?;
        for folder in self.files.stale.iter().filter_map(|n| Path::new(n).parent()) {
            // A folder that has something else stays, and so does that of all outputs.
            if !folder.as_os_str().is_empty() {
                let _ = std::fs::remove_dir(self.folder.join(folder));
            }
        }
        Ok(())
    }
}

/// What the name of a folder begins with that keeps results which could not have their names.
const KEPT: &str = "voxalign-kept";

impl Drop for Staging {
    fn drop(&mut self) {
        if matches!(self.hidden, Some(Hidden::Joined(_))) {
            return;
        }
        if let Some(hidden) = self.hidden.take() {
            let path = hidden.path().to_owned();
            drop(hidden);
            unfinished::no_results(&path);
        }
    }
}

#[cfg(test)]
mod tests;
