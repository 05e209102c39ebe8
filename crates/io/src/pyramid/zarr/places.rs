//! Where the parts of shards are, of those that were read last.

use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// The first byte and the length of each part of a shard.
pub(super) type Parts = Arc<Vec<(u64, u64)>>;

/// Shards that are remembered, and the parts of the largest one: a MiB each.
const SHARDS: usize = 16;
const PARTS: usize = 1 << 16;

/// What tells a file from one that was written over it.
type Version = (u64, Option<SystemTime>);

/// The places of the parts of some shards, the one that was needed last at the end.
#[derive(Debug, Default)]
pub(super) struct Places(Mutex<Vec<(PathBuf, Version, Parts)>>);

fn version(meta: &Metadata) -> Version {
    (meta.len(), meta.modified().ok())
}

impl Places {
    /// Those of a file, where it is as it was.
    pub(super) fn of(&self, path: &Path, meta: &Metadata) -> Option<Parts> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = known.iter().position(|(name, ..)| name == path)?;
        let found = known.remove(at);
        if found.1 != version(meta) {
            return None;
        }
        let parts = found.2.clone();
        known.push(found);
        Some(parts)
    }

    /// Remembers those of a file.
    pub(super) fn keep(&self, path: &Path, meta: &Metadata, parts: &Parts) {
        if parts.len() > PARTS {
            return;
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|(name, ..)| name != path);
        if known.len() >= SHARDS {
            known.remove(0);
        }
        known.push((path.to_owned(), version(meta), parts.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn files_that_were_changed_are_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let places = Places::default();
        let file = |number: usize| folder.path().join(number.to_string());
        let meta = |number: usize| fs::metadata(file(number)).unwrap();
        for number in 0..SHARDS + 1 {
            fs::write(file(number), [0; 5]).unwrap();
            places.keep(&file(number), &meta(number), &Arc::new(vec![(number as u64, 1)]));
        }
        // The first one had to go.
        assert_eq!(places.of(&file(0), &meta(0)), None);
        for number in 1..SHARDS + 1 {
            assert_eq!(*places.of(&file(number), &meta(number)).unwrap(), [(number as u64, 1)]);
        }
        fs::write(file(3), [0; 6]).unwrap();
        assert_eq!(places.of(&file(3), &meta(3)), None);
        let large = Arc::new(vec![(0, 0); PARTS + 1]);
        places.keep(&file(3), &meta(3), &large);
        assert_eq!(places.of(&file(3), &meta(3)), None);
    }
}
