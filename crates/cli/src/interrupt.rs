//! Ctrl-C and termination: the work stops at its next step and leaves no half file.

use crate::failure::Failure;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

static STOP: AtomicBool = AtomicBool::new(false);

/// Folder that a second interrupt removes before it ends the program at once.
static STAGING: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Starts to listen. The first interrupt asks the work to stop, the second ends the program.
pub(crate) fn listen() {
    // Without a handler the default one ends the program, which is no worse than before.
    let _ = ctrlc::set_handler(|| {
        if STOP.swap(true, Ordering::SeqCst) {
            let staging = STAGING.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(folder) = staging {
                let _ = std::fs::remove_dir_all(folder);
            }
            std::process::exit(i32::from(Failure::Stopped.code()));
        }
    });
}

/// Removes the folder of unfinished files, if there is one and no other thread is about to name it.
pub(crate) fn remove_staging() {
    if let Some(folder) = STAGING.try_lock().ok().and_then(|mut staging| staging.take()) {
        let _ = std::fs::remove_dir_all(folder);
    }
}

/// Whether the user asked to stop.
pub(crate) fn requested() -> bool {
    STOP.load(Ordering::SeqCst)
}

/// Ends the work where the user asked for it.
///
/// # Errors
/// [`Failure::Stopped`].
pub(crate) fn check() -> Result<(), Failure> {
    if requested() { Err(Failure::Stopped) } else { Ok(()) }
}

/// Names the folder of unfinished files, or none.
pub(crate) fn set_staging(folder: Option<PathBuf>) {
    *STAGING.lock().unwrap_or_else(PoisonError::into_inner) = folder;
}
