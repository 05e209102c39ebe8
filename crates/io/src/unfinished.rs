//! Files being written, so that they can be removed when the program has to end at once.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

static ALL: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Removes the temporary files that are being written, as far as that goes without waiting for another
/// thread: for a program that ends at once and runs no destructors.
pub fn remove() {
    let all = ALL.try_lock().map(|mut all| std::mem::take(&mut *all)).unwrap_or_default();
    for path in all {
        // What has its name already need not go.
        let _ = std::fs::remove_file(path);
    }
}

/// A file that is being written, on the list as long as this lives.
#[derive(Debug)]
pub(crate) struct Listed(PathBuf);

impl Listed {
    pub(crate) fn new(path: &Path) -> Self {
        let path = path.to_owned();
        ALL.lock().unwrap_or_else(PoisonError::into_inner).push(path.clone());
        Self(path)
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        ALL.lock().unwrap_or_else(PoisonError::into_inner).retain(|path| *path != self.0);
    }
}

/// What an end at once has to remove of results that are [staged](crate::staging).
static RESULTS: Mutex<Vec<Leftovers>> = Mutex::new(Vec::new());

/// What an unfinished run has put on the disk.
#[derive(Debug)]
pub(crate) struct Leftovers {
    /// The folder of unfinished files.
    pub(crate) hidden: PathBuf,
    pub(crate) locks: Vec<PathBuf>,
    /// Folders that were made, outermost first.
    pub(crate) made: Vec<PathBuf>,
}

impl Leftovers {
    fn remove(self) {
        // Others may write into it meanwhile.
        let gone = |_: &u32| std::fs::remove_dir_all(&self.hidden).is_ok() || !self.hidden.exists();
        let _ = (0..20).find(gone);
        for lock in self.locks {
            let _ = std::fs::remove_file(lock);
        }
        for folder in self.made.iter().rev() {
            // A folder that is not empty is not ours any more.
            let _ = std::fs::remove_dir(folder);
        }
    }
}

fn results() -> MutexGuard<'static, Vec<Leftovers>> {
    RESULTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes what an unfinished run has put on the disk, and calls `end` before anything new can be put there.
/// Files that are being moved get their names first.
pub fn end(end: impl FnOnce()) {
    let mut results = results();
    results.drain(..).for_each(Leftovers::remove);
    remove();
    end();
}

/// As [`end`] without waiting for another thread, for a program that is out of memory.
pub fn remove_all() {
    remove();
    if let Ok(mut results) = RESULTS.try_lock() {
        results.drain(..).for_each(Leftovers::remove);
    }
}

/// Does what must not end half-way with the results of a hidden folder, of which nothing is left then.
pub(crate) fn whole<T>(hidden: &Path, work: impl FnOnce() -> T) -> T {
    let mut results = results();
    let done = work();
    results.retain(|left| left.hidden != hidden);
    done
}

/// Names what an unfinished run leaves.
pub(crate) fn add_results(left: Leftovers) {
    results().push(left);
}

/// Nothing of a hidden folder is left.
pub(crate) fn no_results(hidden: &Path) {
    results().retain(|left| left.hidden != hidden);
}
