//! Files that killed processes left in a folder.

use crate::exchange;
use crate::hidden::{LOCK, PREFIX, is_hidden, is_temporary, unheld};
use std::path::Path;
use std::{fs, io};

/// Removes what killed processes left in a folder: hidden folders, locks and temporary files that nobody holds. An
/// [exchange of files](exchange) that was begun is brought to its end before, where that is possible.
pub fn remove_abandoned(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let entries: Vec<_> = entries.flatten().collect();
    for entry in &entries {
        let name = entry.file_name();
        let Some(of) = name.to_str().filter(|n| n.starts_with('.')) else { continue };
        // The kind of a link is its own: it counts as neither.
        let Ok(kind) = entry.file_type() else { continue };
        let path = entry.path();
        if kind.is_file()
            && is_temporary(of)
            && let Some(_file) = unheld(&path)
        {
            let _ = fs::remove_file(&path);
        }
        if !of.starts_with(PREFIX) {
            continue;
        }
        if kind.is_file() && of.ends_with(LOCK) {
            let Some(_file) = unheld(&path) else { continue };
            if let Some(name) = of.strip_suffix(LOCK).filter(|n| is_hidden(n)) {
                remove_folder(&folder.join(name), folder);
            }
            // Another user's stays.
            let _ = fs::remove_file(&path);
        } else if kind.is_dir() && is_hidden(of) {
            let lock = folder.join(format!("{of}{LOCK}"));
            let without = lock.symlink_metadata();
            if without.is_err_and(|e| e.kind() == io::ErrorKind::NotFound) {
                remove_folder(&path, folder);
            }
        }
    }
}

fn remove_folder(hidden: &Path, folder: &Path) {
    if hidden.symlink_metadata().is_ok_and(|m| m.is_dir()) && exchange::finish(hidden, folder) {
        let _ = fs::remove_dir_all(hidden);
    }
}
