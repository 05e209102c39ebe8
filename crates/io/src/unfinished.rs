//! The files that are being written, for a program that has to end at once.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

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
