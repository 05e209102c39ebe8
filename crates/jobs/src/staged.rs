//! Staged results of jobs, which appear together when all are complete.

use crate::error::{Error, Result};
use crate::listener::{Listener, check};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use voxalign_compute::comm::Communicator;
use voxalign_io::staging::{Claim, Staging};

/// Staged results; between two files the work can be stopped.
pub(crate) struct Staged<'l> {
    staging: Staging,
    listener: &'l dyn Listener,
}

impl<'l> Staged<'l> {
    /// Into a folder, which is made where it is not there.
    pub(crate) fn new(folder: &Path, listener: &'l dyn Listener) -> Result<Self> {
        Ok(Self { staging: Staging::new(folder)?, listener })
    }

    /// A file with what belongs to it.
    pub(crate) fn for_file(path: &Path, listener: &'l dyn Listener) -> Result<Self> {
        Ok(Self { staging: Staging::for_file(path)?, listener })
    }

    /// As [`new`](Self::new) for all processes of a run: the first makes the folders, the others write into
    /// them, and what they wrote is [gathered](Self::gather) before the first one moves it all.
    pub(crate) fn shared(
        folder: &Path,
        world: &Communicator,
        listener: &'l dyn Listener,
    ) -> Result<Self> {
        if world.size() == 1 {
            return Self::new(folder, listener);
        }
        let own = if world.is_first() { Staging::new(folder).map(Some) } else { Ok(None) };
        let own = own.map_err(Error::from);
        let own = world.agree(own)?;
        let hidden = own.as_ref().and_then(Staging::hidden).map(Path::to_owned);
        let mut path = hidden.unwrap_or_default().to_string_lossy().into_owned().into_bytes();
        world.broadcast_bytes(&mut path, 0)?;
        let joined = match own {
            Some(own) => Ok(own),
            None => {
                let hidden = String::from_utf8_lossy(&path);
                Staging::joined(folder, Path::new(&*hidden)).map_err(Error::from)
            }
        };
        Ok(Self { staging: world.agree(joined)?, listener })
    }

    /// Gives the names of what all processes wrote to the first one.
    pub(crate) fn gather(&mut self, world: &Communicator) -> Result<()> {
        if world.size() == 1 {
            return Ok(());
        }
        let own =
            if world.is_first() { String::new() } else { self.staging.hand_over()?.join("\n") };
        if let Some(all) = world.gather(own.as_bytes(), 0)? {
            for block in all {
                let text = String::from_utf8_lossy(&block);
                self.staging.take_over(text.lines().map(str::to_owned));
            }
        }
        Ok(())
    }

    /// Keeps other processes from these outputs.
    pub(crate) fn claim(&self) -> Option<Arc<Claim>> {
        self.staging.claim()
    }

    /// A folder for what goes with the hidden one.
    pub(crate) fn scratch(&mut self, name: &str) -> Result<PathBuf> {
        Ok(self.staging.scratch(name)?)
    }

    /// Where to write the file that will get this name.
    pub(crate) fn path(&mut self, name: &str) -> Result<PathBuf> {
        check(self.listener)?;
        Ok(self.staging.path(name)?)
    }

    /// Writes the file that will get this name.
    pub(crate) fn write(
        &mut self,
        name: &str,
        write: impl FnOnce(&Path) -> voxalign_io::Result<()>,
    ) -> Result<()> {
        check(self.listener)?;
        Ok(self.staging.write(name, write)?)
    }

    /// As [`write`](Self::write) for an image that may be of two files.
    pub(crate) fn write_image(
        &mut self,
        name: &str,
        write: impl FnOnce(&Path) -> voxalign_io::Result<()>,
    ) -> Result<()> {
        check(self.listener)?;
        Ok(self.staging.write_image(name, write)?)
    }

    /// Writes a text.
    pub(crate) fn write_text(&mut self, name: &str, text: &str) -> Result<()> {
        self.write(name, |path| {
            voxalign_io::atomic::write_file(path, |w| w.write_all(text.as_bytes()))
        })
    }

    /// Says that this result has no file of this name.
    pub(crate) fn without(&mut self, name: &str) {
        self.staging.without(name);
    }

    /// The path that a file will have in the end.
    pub(crate) fn final_path(&self, name: &str) -> PathBuf {
        self.staging.final_path(name)
    }

    /// Moves all files to their names.
    pub(crate) fn commit(self) -> Result<()> {
        Ok(self.staging.commit()?)
    }
}
