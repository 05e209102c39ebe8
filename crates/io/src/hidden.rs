//! Hidden folders and names owned by a running process, and those left by killed ones.
//!
//! Whom they belong to is told by locks on small files beside them, which the operating system gives up when a
//! process ends, however it ends. A file that nobody has locked is abandoned, however young or old it is.
//!
//! On file systems without locks (some of clusters) nobody is refused and nothing is removed: there a folder that
//! a killed process left has to be removed by hand.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What the names of hidden folders and of locks begin with.
pub(crate) const PREFIX: &str = ".voxalign-";
/// How many letters and digits follow in the names of hidden folders.
const RANDOM: usize = 6;
/// What the names of locks end with.
pub(crate) const LOCK: &str = ".lock";
/// How temporary names of files end: some letters and digits, and this.
pub(crate) const TEMPORARY: &str = ".voxalign.tmp";
/// How many names are tried where others take them away.
const TRIES: usize = 64;

/// A name in a folder that no other process can take meanwhile.
#[derive(Debug)]
pub struct Hold {
    // Locked until it is closed, which is after the drop below.
    _file: File,
    path: PathBuf,
}

impl Hold {
    /// Takes a name in a folder, or none where another process has it. Where the file system has no locks, it is
    /// always given.
    ///
    /// # Errors
    /// A folder that cannot be written.
    pub fn take(folder: &Path, name: &str) -> io::Result<Option<Self>> {
        let path = folder.join(format!("{PREFIX}{name}{LOCK}"));
        let mut busy = 0;
        for _ in 0..TRIES {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false);
            let file = or_to_read(options.open(&path), &path)?;
            match file.try_lock() {
                // Whoever had it removed it between the two calls: the lock is on a file without a name.
                Ok(()) if !is_at(&file, &path) => {}
                Ok(()) | Err(TryLockError::Error(_)) => {
                    return Ok(Some(Self { _file: file, path }));
                }
                // Whoever looks for what is abandoned has it for a moment.
                Err(TryLockError::WouldBlock) if busy < 10 => {
                    busy += 1;
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(TryLockError::WouldBlock) => return Ok(None),
            }
        }
        Ok(None)
    }

    /// As [`take`](Self::take), once another process that has the name is done with it.
    pub(crate) fn wait(folder: &Path, name: &str) -> io::Result<Self> {
        loop {
            if let Some(hold) = Self::take(folder, name)? {
                return Ok(hold);
            }
        }
    }

    /// The file that is locked; it goes when this is dropped.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        // While it is locked, so that nobody's new one of this name is removed.
        let _ = fs::remove_file(&self.path);
    }
}

/// A new hidden folder, `.voxalign-` and some letters and digits, that goes with all that is in it when this is
/// dropped. While its process lives, [`remove_abandoned`](crate::abandoned::remove_abandoned) leaves it alone.
#[derive(Debug)]
pub struct HiddenFolder {
    path: PathBuf,
    kept: bool,
    hold: Hold,
}

impl HiddenFolder {
    /// Makes one in a folder.
    ///
    /// # Errors
    /// A folder that is missing or cannot be written.
    pub fn new_in(folder: &Path) -> io::Result<Self> {
        for _ in 0..TRIES {
            let mut named = tempfile::Builder::new();
            named.prefix(PREFIX).rand_bytes(RANDOM).suffix(LOCK);
            let (file, temporary) = named.tempfile_in(folder)?.into_parts();
            // The lock comes before the folder: a folder without one is nobody's.
            let locked = match file.try_lock() {
                Ok(()) => temporary.exists(),
                Err(TryLockError::WouldBlock) => false,
                Err(TryLockError::Error(_)) => true,
            };
            if !locked {
                // It was taken for abandoned before it was locked.
                continue;
            }
            let lock = temporary.keep().map_err(|e| e.error)?;
            let hold = Hold { _file: file, path: lock };
            let path = hold.path.with_extension("");
            match make_private(&path) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                made => {
                    made?;
                    return Ok(Self { path, kept: false, hold });
                }
            }
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, "no name is free"))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file that is locked while this is there.
    #[must_use]
    pub fn lock(&self) -> &Path {
        self.hold.path()
    }

    /// Leaves the folder there under a name that is not hidden, so that nothing removes it, and says which; where it
    /// cannot be renamed, its own.
    #[must_use]
    pub fn keep_as(mut self, name: &str) -> PathBuf {
        self.kept = true;
        let letters = self.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let letters = letters.strip_prefix(PREFIX).unwrap_or_default();
        let to = self.path.with_file_name(format!("{name}-{letters}"));
        match fs::rename(&self.path, &to) {
            Ok(()) => to,
            Err(_) => self.path.clone(),
        }
    }

    /// Leaves it as a process leaves it that is killed here.
    pub fn abandon(mut self) {
        self.kept = true;
    }
}

impl Drop for HiddenFolder {
    fn drop(&mut self) {
        if !self.kept {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// A file as it was opened for writing; where that was not permitted, for reading: one that another user left can be locked all the same.
/// Where there is none, the folder is what cannot be written.
fn or_to_read(opened: io::Result<File>, path: &Path) -> io::Result<File> {
    match opened {
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => File::open(path).map_err(|_| e),
        opened => opened,
    }
}

/// The name to [hold](Hold) for a file that is written: its own, or a short one that stands for it.
#[must_use]
pub fn key_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let sum = crc32fast::hash(name.as_bytes());
    if name.len() <= 200 { name.into_owned() } else { format!("{sum:08x}.{}", name.len()) }
}

/// Whether a name is that of a hidden folder.
pub(crate) fn is_hidden(name: &str) -> bool {
    name.strip_prefix(PREFIX).is_some_and(is_random)
}

/// Whether a file is in a hidden folder.
pub(crate) fn is_inside(path: &Path) -> bool {
    let names = path.ancestors().skip(1).filter_map(Path::file_name);
    names.map(std::ffi::OsStr::to_string_lossy).any(|name| is_hidden(&name))
}

/// Whether this part of a name was drawn at random.
pub(crate) fn is_random(part: &str) -> bool {
    part.len() == RANDOM && part.bytes().all(|b| b.is_ascii_alphanumeric())
}

/// Whether a name is that of a temporary file.
pub(crate) fn is_temporary(name: &str) -> bool {
    let random = name.strip_prefix('.').and_then(|n| n.strip_suffix(TEMPORARY)?.rsplit_once('.'));
    random.is_some_and(|(_, r)| is_random(r))
}

/// A file that nobody has locked; none where somebody has, or where there are no locks. While the file that is given
/// lives, nobody else takes it for theirs.
pub(crate) fn unheld(path: &Path) -> Option<File> {
    // Over some networks only a file that is open for writing can be locked.
    let file = OpenOptions::new().read(true).write(true).open(path).or_else(|_| File::open(path));
    let file = file.ok()?;
    (file.try_lock().is_ok() && is_at(&file, path)).then_some(file)
}

/// Makes a folder that nobody else looks into.
fn make_private(path: &Path) -> io::Result<()> {
    #[cfg_attr(not(unix), expect(unused_mut))]
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Whether an open file is the one of this name.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    // Opened, as over networks the name alone may be that of some seconds ago.
    let there = File::open(path).and_then(|f| f.metadata());
    let identity = |m: fs::Metadata| (m.dev(), m.ino());
    there.is_ok_and(|there| file.metadata().is_ok_and(|own| identity(own) == identity(there)))
}

#[cfg(not(unix))]
fn is_at(_: &File, path: &Path) -> bool {
    path.exists()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abandoned::remove_abandoned;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap().flatten();
        let mut names: Vec<_> =
            entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_name_has_one_holder() {
        let root = tempfile::tempdir().unwrap();
        let first = Hold::take(root.path(), "results").unwrap().unwrap();
        assert!(Hold::take(root.path(), "results").unwrap().is_none());
        let other = Hold::take(root.path(), "a.nii.gz").unwrap().unwrap();
        drop(first);
        let again = Hold::take(root.path(), "results").unwrap().unwrap();
        drop((other, again));
        assert_eq!(names(root.path()), [""; 0]);
        // A killed process leaves the file, without a lock.
        fs::write(root.path().join(".voxalign-results.lock"), b"").unwrap();
        drop(Hold::take(root.path(), "results").unwrap().unwrap());
        assert!(Hold::take(&root.path().join("none"), "results").is_err());
    }

    #[test]
    fn a_folder_that_is_not_permitted_is_not_said_to_be_missing() {
        let root = tempfile::tempdir().unwrap();
        let denied = || Err(io::ErrorKind::PermissionDenied.into());
        let missing = root.path().join("none.lock");
        let kind = or_to_read(denied(), &missing).unwrap_err().kind();
        assert_eq!(kind, io::ErrorKind::PermissionDenied);
        let lock = root.path().join("results.lock");
        fs::write(&lock, b"").unwrap();
        assert!(or_to_read(denied(), &lock).is_ok());
    }

    #[test]
    fn many_threads_take_turns() {
        let root = tempfile::tempdir().unwrap();
        let inside = std::sync::atomic::AtomicUsize::new(0);
        let order = std::sync::atomic::Ordering::SeqCst;
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        // Others clean up while names are taken and given back.
                        remove_abandoned(root.path());
                        let folder = HiddenFolder::new_in(root.path()).unwrap();
                        if let Some(hold) = Hold::take(root.path(), "results").unwrap() {
                            assert_eq!(inside.fetch_add(1, order), 0);
                            fs::write(folder.path().join("a"), b"x").unwrap();
                            remove_abandoned(root.path());
                            assert!(folder.path().join("a").exists() && folder.lock().exists());
                            assert_eq!(inside.fetch_sub(1, order), 1);
                            drop(hold);
                        }
                    }
                });
            }
        });
        assert_eq!(names(root.path()), [""; 0]);
    }

    #[test]
    fn what_nobody_holds_goes_whatever_its_age() {
        let root = tempfile::tempdir().unwrap();
        let held = HiddenFolder::new_in(root.path()).unwrap();
        let old = std::time::SystemTime::now() - Duration::from_secs(7 * 24 * 3600);
        // One that a long run has, with nothing that changed for a week.
        for path in [held.path(), held.lock()] {
            File::open(path).unwrap().set_modified(old).unwrap();
        }
        let killed = HiddenFolder::new_in(root.path()).unwrap();
        let (path, lock) = (killed.path().to_owned(), killed.lock().to_owned());
        fs::write(path.join("warped.nii.gz"), b"x").unwrap();
        killed.abandon();
        fs::write(&lock, b"").unwrap();
        for name in [".voxalign-aB3xYz", ".voxalign-mine", ".voxalign-a.b.c.", "voxalign-aB3xYz"] {
            fs::create_dir(root.path().join(name)).unwrap();
        }
        fs::write(root.path().join(".voxalign-123456"), b"a file").unwrap();
        remove_abandoned(root.path());
        assert!(held.path().exists() && held.lock().exists());
        assert!(!path.exists() && !lock.exists());
        // One without a lock is nobody's; others' names stay.
        assert_eq!(names(root.path()).len(), 6, "{:?}", names(root.path()));
        assert!(!root.path().join(".voxalign-aB3xYz").exists());
        drop(held);
        assert_eq!(names(root.path()).len(), 4);
    }

    #[test]
    fn what_is_kept_has_a_name_that_is_seen() {
        let root = tempfile::tempdir().unwrap();
        let folder = HiddenFolder::new_in(root.path()).unwrap();
        fs::write(folder.path().join("a"), b"x").unwrap();
        let kept = folder.keep_as("voxalign-kept");
        remove_abandoned(root.path());
        assert_eq!(fs::read(kept.join("a")).unwrap(), b"x");
        assert_eq!(names(root.path()).len(), 1);
        assert!(names(root.path())[0].starts_with("voxalign-kept-"));
    }
}
