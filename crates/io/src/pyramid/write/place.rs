//! Where a pyramid is while it is written.

use super::super::zarr::is_group;
use crate::abandoned::remove_abandoned;
use crate::error::{IoError, Result};
use crate::exchange::sync;
use crate::hidden::{self, HiddenFolder, Hold, key_of};
use crate::unfinished::{self, Leftovers};
use std::fs;
use std::path::{Path, PathBuf};

/// The name, in the hidden folder, of what had the final name before.
const OLDER: &str = ".older";

/// A name in a hidden folder beside the final one; or the final one, where that is in a hidden folder itself.
#[derive(Debug)]
pub(super) struct Place {
    hidden: Option<(HiddenFolder, Hold)>,
    joined: bool,
    work: PathBuf,
    target: PathBuf,
}

impl Place {
    pub(super) fn new(target: &Path, folder: bool) -> Result<Self> {
        if folder {
            check(target)?;
        } else if target.is_dir() {
            return Err(IoError::malformed(target, "this is a folder", "name a file to write"));
        }
        let mut place =
            Self { hidden: None, joined: false, work: target.into(), target: target.into() };
        if !hidden::is_inside(target) {
            let parent = parent(target);
            // The kind alone, as an error's own text may have the name of the hidden folder.
            let fail = |e: std::io::Error| IoError::writing(target, e.kind().into());
            let Some(hold) = Hold::take(parent, &key_of(target)).map_err(fail)? else {
                let what = if folder { "folder" } else { "file" };
                return Err(IoError::Busy { what, path: target.to_owned() });
            };
            remove_abandoned(parent);
            let hidden = HiddenFolder::new_in(parent).map_err(fail)?;
            unfinished::add_results(Leftovers {
                hidden: hidden.path().to_owned(),
                locks: vec![hidden.lock().to_owned(), hold.path().to_owned()],
                made: Vec::new(),
            });
            place.work = hidden.path().join(target.file_name().unwrap_or_default());
            place.hidden = Some((hidden, hold));
        }
        Ok(place)
    }

    pub(super) fn joined(target: &Path, work: &Path) -> Result<Self> {
        if !work.is_dir() {
            return Err(IoError::Results {
                what: "cannot write to the image that the first process created,",
                path: target.to_owned(),
                problem: "this process does not see it".to_owned(),
                remedy: "give a folder that all machines share".to_owned(),
            });
        }
        Ok(Self { hidden: None, joined: true, work: work.to_owned(), target: target.to_owned() })
    }

    pub(super) fn work(&self) -> &Path {
        &self.work
    }

    /// An error of the system about the file that will be there.
    pub(super) fn told(&self, error: IoError) -> IoError {
        let inside = match &error {
            IoError::System { path, .. } => path.strip_prefix(&self.work).ok().map(Path::to_owned),
            _ => None,
        };
        match inside {
            Some(inside) => error.instead_at(&self.target.join(inside)),
            None => error,
        }
    }

    /// Gives it the final name.
    pub(super) fn commit(mut self) -> Result<()> {
        if self.joined {
            let remedy = "finish it in the process that created it";
            let problem = "this process has joined";
            return Err(IoError::malformed(&self.target, problem, remedy));
        }
        let Some((hidden, hold)) = self.hidden.take() else { return Ok(()) };
        let path = hidden.path().to_owned();
        let fail = |e| IoError::writing(&self.target, e);
        let done = unfinished::whole(&path, || {
            let older = path.join(OLDER);
            // A folder takes no other's place: the older one goes aside, and back where the new one cannot have its name.
            let aside = self.target.is_dir() && fs::rename(&self.target, &older).is_ok();
            fs::rename(&self.work, &self.target).inspect_err(|_| {
                if aside {
                    let _ = fs::rename(&older, &self.target);
                }
            })
        });
        drop((hidden, hold));
        done.map_err(fail)?;
        sync(&[parent(&self.target).to_owned()]).map_err(|(path, e)| IoError::writing(&path, e))
    }

    pub(super) fn abandon(mut self) {
        if let Some((hidden, hold)) = self.hidden.take() {
            unfinished::no_results(hidden.path());
            hidden.abandon();
            drop(hold);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some((hidden, hold)) = self.hidden.take() {
            let path = hidden.path().to_owned();
            drop((hidden, hold));
            unfinished::no_results(&path);
        }
    }
}

/// An error where something else has the name of a folder.
fn check(target: &Path) -> Result<()> {
    let empty = || fs::read_dir(target).is_ok_and(|mut entries| entries.next().is_none());
    match fs::symlink_metadata(target) {
        Ok(meta) if meta.is_dir() && (is_group(target) || empty()) => Ok(()),
        Ok(_) => Err(IoError::malformed(
            target,
            "something of this name is there, and it is no OME-Zarr that could be replaced",
            "remove it, or write elsewhere",
        )),
        Err(_) => Ok(()),
    }
}

/// The folder that it is in.
fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    }
}
