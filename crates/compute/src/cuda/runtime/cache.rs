//! The cache of compiled kernels on disk, so that only the first run on a machine compiles them.

use std::io::Write;
use std::path::{Path, PathBuf};

use super::program::fnv;

/// First bytes of a file of the cache.
const MAGIC: &[u8; 8] = b"vxkrn\x001\n";

/// A folder of compiled kernels.
///
/// A file holds the whole key that its image was made from (text, options, GPU, version of the
/// compiler) and a checksum: a file that is damaged, or that belongs to another key of the same
/// number, counts as none. The folder is `VOXALIGN_KERNEL_CACHE`, or `voxalign/kernels` in the
/// user's cache folder; without one, or where it cannot be written, kernels are compiled by every
/// process.
#[derive(Debug, Clone)]
pub(in crate::cuda) struct KernelCache {
    folder: Option<PathBuf>,
}

impl KernelCache {
    /// The cache of the user.
    pub(in crate::cuda) fn new() -> Self {
        let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        let folder = set("VOXALIGN_KERNEL_CACHE").or_else(|| {
            let base = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|h| h.join(".cache")));
            base.map(|b| b.join("voxalign").join("kernels"))
        });
        Self { folder }
    }

    #[cfg(test)]
    fn at(folder: PathBuf) -> Self {
        Self { folder: Some(folder) }
    }

    /// The folder, where there is one.
    pub(in crate::cuda) fn folder(&self) -> Option<&PathBuf> {
        self.folder.as_ref()
    }

    fn path(&self, key: &str) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(format!("{:016x}.bin", fnv(key.as_bytes()))))
    }

    /// The image that was stored for a key.
    pub(in crate::cuda) fn load(&self, key: &str) -> Option<Vec<u8>> {
        let file = std::fs::read(self.path(key)?).ok()?;
        let rest = file.strip_prefix(MAGIC)?;
        let (length, rest) = rest.split_first_chunk::<8>()?;
        let (sum, rest) = rest.split_first_chunk::<8>()?;
        let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
        let (stored, image) = rest.split_at_checked(length)?;
        let good = stored == key.as_bytes() && fnv(image) == u64::from_le_bytes(*sum);
        good.then(|| image.to_vec())
    }

    /// Stores an image. A cache that cannot be written is as good as none.
    pub(in crate::cuda) fn store(&self, key: &str, image: &[u8]) {
        let Some(path) = self.path(key) else { return };
        let lengths = [(key.len() as u64).to_le_bytes(), fnv(image).to_le_bytes()];
        let _ = write(&path, &[MAGIC, &lengths[0], &lengths[1], key.as_bytes(), image]);
    }

    /// Why nothing can be stored, where that is so.
    pub(in crate::cuda) fn problem(&self) -> Option<String> {
        let path = self.folder.as_ref()?.join(format!("try-{}.tmp", std::process::id()));
        let tried = write(&path, &[]).and_then(|()| std::fs::remove_file(&path));
        tried.err().map(|e| e.to_string())
    }
}

/// Writes a file that is complete or absent, into a folder that is made if need be.
fn write(path: &Path, parts: &[&[u8]]) -> std::io::Result<()> {
    // Several devices of a process, or processes of several machines, may store at once.
    let moment = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let moment = moment.map_or(0, |d| d.as_nanos());
    let temporary = path.with_extension(format!("{}-{moment}.part", std::process::id()));
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut file = std::fs::File::create_new(&temporary)?;
    let written = parts.iter().try_for_each(|part| file.write_all(part));
    drop(file);
    written
        .and_then(|()| std::fs::rename(&temporary, path))
        .inspect_err(|_| drop(std::fs::remove_file(&temporary)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_and_foreign_files_count_as_none() {
        let folder = std::env::temp_dir().join(format!("voxalign-cache-{}", std::process::id()));
        let cache = KernelCache::at(folder.clone());
        assert_eq!(cache.load("key"), None);
        cache.store("key", b"image");
        assert_eq!(cache.load("key").as_deref(), Some(&b"image"[..]));
        let path = cache.path("key").unwrap();
        assert_eq!(KernelCache { folder: None }.load("key"), None);
        let whole = std::fs::read(&path).unwrap();
        for cut in 0..whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            assert_eq!(cache.load("key"), None, "cut at {cut}");
        }
        for i in 0..whole.len() {
            let mut other = whole.clone();
            other[i] ^= 1;
            std::fs::write(&path, &other).unwrap();
            assert_eq!(cache.load("key"), None, "byte {i} changed");
        }
        for length in [u64::MAX, u64::MAX - 23, i64::MAX as u64, whole.len() as u64, 0] {
            let mut other = whole.clone();
            other[8..16].copy_from_slice(&length.to_le_bytes());
            std::fs::write(&path, &other).unwrap();
            assert_eq!(cache.load("key"), None, "a key of {length} bytes");
        }
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_told_and_does_no_harm() {
        let folder = std::env::temp_dir().join(format!("voxalign-try-{}", std::process::id()));
        let good = KernelCache::at(folder.join("kernels"));
        assert_eq!(good.problem(), None);
        assert_eq!(std::fs::read_dir(folder.join("kernels")).unwrap().count(), 0);
        // A file stands where the folder would be.
        std::fs::write(folder.join("file"), "").unwrap();
        let bad = KernelCache::at(folder.join("file"));
        bad.store("key", b"image");
        assert_eq!(bad.load("key"), None);
        assert!(bad.problem().is_some_and(|problem| !problem.is_empty()));
        assert_eq!(KernelCache { folder: None }.problem(), None);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
