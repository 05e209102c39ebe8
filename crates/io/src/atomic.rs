//! Writing a file under a temporary name and renaming it when complete.

use crate::error::{IoError, Result};
use crate::unfinished::Listed;
use std::fs::{self, File, TryLockError};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};
use tempfile::TempPath;

/// How temporary names end: some letters and digits, and this.
const SUFFIX: &str = ".tmp";
const RANDOM: usize = 6;

/// Writes a file so that its name never shows an incomplete one: `f` writes to a temporary name
/// in the same folder, which is renamed when all is written. Where `f` fails, or the program
/// is interrupted by a panic, nothing is left; an existing file is replaced only by a complete
/// one.
///
/// # Errors
/// [`IoError::System`] where the folder is missing or not writable, the disk is full, or `f` fails.
pub fn write_file(path: &Path, f: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    Pending::write(path, |w| f(w))?.commit()
}

/// A complete file that still has its temporary name, for outputs that are made of several files
/// and should appear together.
#[derive(Debug)]
pub(crate) struct Pending {
    temporary: TempPath,
    path: std::path::PathBuf,
    _listed: Listed,
}

impl Pending {
    pub(crate) fn write(
        path: &Path,
        f: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    ) -> Result<Self> {
        if path.is_dir() {
            return Err(IoError::malformed(path, "this is a folder", "name a file to write"));
        }
        let fail = |e| IoError::writing(path, e);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let temporary = tempfile::Builder::new()
            .prefix(&format!(".{name}."))
            .rand_bytes(RANDOM)
            .suffix(SUFFIX)
            .tempfile_in(folder_of(path))
            // Without its text, which has the temporary name.
            .map_err(|e| fail(e.kind().into()))?;
        let (file, temporary) = temporary.into_parts();
        let listed = Listed::new(&temporary);
        // Others see by the lock that this file is being written. Where a file system has no locks,
        // its age has to tell.
        let _ = file.try_lock();
        let mut writer = BufWriter::with_capacity(1 << 18, file);
        f(&mut writer).map_err(fail)?;
        let file = writer.into_inner().map_err(|e| fail(e.into_error()))?;
        set_usual_permissions(&file, path).map_err(fail)?;
        Ok(Self { temporary, path: path.into(), _listed: listed })
    }

    pub(crate) fn commit(self) -> Result<()> {
        self.temporary.persist(&self.path).map_err(|e| IoError::writing(&self.path, e.error))?;
        remove_abandoned(&self.path, SystemTime::now());
        Ok(())
    }

    /// Gives both files of an image their names, the header last. An older header goes first: where
    /// the program is killed in between, no header describes the values of another image.
    pub(crate) fn commit_pair(values: Self, header: Self) -> Result<()> {
        match fs::remove_file(&header.path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                return Err(IoError::writing(&header.path, e));
            }
            _ => {}
        }
        values.commit()?;
        header.commit()
    }
}

/// How old a temporary file must be to count as abandoned: of one that is not locked, which its writer
/// does within this time, and of one on a file system without locks.
const ABANDONED: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(24 * 3600)];

/// Removes what killed programs left of files of this name: temporary ones that nobody writes any more.
fn remove_abandoned(path: &Path, now: SystemTime) {
    let Ok(entries) = fs::read_dir(folder_of(path)) else { return };
    let prefix = format!(".{}.", path.file_name().unwrap_or_default().to_string_lossy());
    for entry in entries.flatten() {
        let name = entry.file_name();
        let random = name.to_str().and_then(|n| n.strip_prefix(&prefix)?.strip_suffix(SUFFIX));
        let ours = random
            .is_some_and(|r| r.len() == RANDOM && r.bytes().all(|b| b.is_ascii_alphanumeric()));
        // The metadata of a link are its own: it counts as no file.
        let Some(metadata) = entry.metadata().ok().filter(|m| ours && m.is_file()) else {
            continue;
        };
        let age = metadata.modified().ok().and_then(|t| now.duration_since(t).ok());
        // A file is locked soon after it is made: until then it is not touched.
        let Some(age) = age.filter(|a| *a > ABANDONED[0]) else { continue };
        let Ok(file) = File::open(entry.path()) else { continue };
        let abandoned = match file.try_lock() {
            Ok(()) => true,
            Err(TryLockError::WouldBlock) => false,
            Err(TryLockError::Error(_)) => age > ABANDONED[1],
        };
        if abandoned {
            // Another user's file stays.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// The folder that a file is in.
fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    }
}

/// Temporary files are private to their owner; the finished file gets the permissions of the one
/// it replaces, or those of a newly created file.
#[cfg(unix)]
fn set_usual_permissions(file: &File, path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mode = match fs::metadata(path) {
        Ok(old) => old.permissions().mode() & 0o777,
        Err(_) => 0o666 & !umask(),
    };
    file.set_permissions(fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
fn set_usual_permissions(_: &File, _: &Path) -> io::Result<()> {
    Ok(())
}

/// The process's mask for new files, read where Linux shows it; elsewhere the usual one.
#[cfg(unix)]
fn umask() -> u32 {
    fs::read_to_string("/proc/self/status")
        .ok()
        .and_then(|s| {
            let line = s.lines().find_map(|l| l.strip_prefix("Umask:"))?;
            u32::from_str_radix(line.trim(), 8).ok()
        })
        .unwrap_or(0o022)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complete_or_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        write_file(&path, |w| w.write_all(b"one")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"one");
        let failed = write_file(&path, |w| {
            w.write_all(b"two")?;
            Err(io::Error::other("stop"))
        });
        let message = failed.unwrap_err().to_string();
        assert!(message.contains("a.txt") && message.contains("stop"), "{message}");
        assert_eq!(fs::read(&path).unwrap(), b"one");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(write_file(folder.path(), |_| Ok(())).is_err());
        let missing = write_file(&folder.path().join("no/b.txt"), |_| Ok(()));
        assert!(missing.unwrap_err().to_string().contains("create the folder"));
    }

    #[test]
    fn what_killed_programs_left_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.nii");
        let old = SystemTime::now() - Duration::from_secs(60);
        let leave = |name: &str, at: SystemTime| {
            let file = File::create(folder.path().join(name)).unwrap();
            file.set_modified(at).unwrap();
            file
        };
        drop(leave(".a.nii.Ab3xYz.tmp", old));
        // One of a program that is at work, one that was just made, and others' files.
        let busy = leave(".a.nii.Bb3xYz.tmp", old);
        busy.lock().unwrap();
        drop(leave(".a.nii.Cb3xYz.tmp", SystemTime::now()));
        drop(leave(".a.nii.longer7.tmp", old));
        drop(leave(".b.nii.Ab3xYz.tmp", old));
        drop(leave("a.nii.Ab3xYz.tmp", old));
        write_file(&path, |w| w.write_all(b"one")).unwrap();
        let has = |name: &str| folder.path().join(name).exists();
        assert!(!has(".a.nii.Ab3xYz.tmp"));
        for kept in [
            "a.nii",
            ".a.nii.Bb3xYz.tmp",
            ".a.nii.Cb3xYz.tmp",
            ".a.nii.longer7.tmp",
            ".b.nii.Ab3xYz.tmp",
            "a.nii.Ab3xYz.tmp",
        ] {
            assert!(has(kept), "{kept}");
        }
        // Once the other program is gone, its file goes too.
        drop(busy);
        write_file(&path, |w| w.write_all(b"two")).unwrap();
        assert!(!has(".a.nii.Bb3xYz.tmp"));
    }

    #[test]
    fn a_header_describes_the_values_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let [values, header] = ["a.img", "a.hdr"].map(|n| folder.path().join(n));
        let write = |text: &'static [u8]| {
            let one = |path: &Path| Pending::write(path, |w| w.write_all(text)).unwrap();
            (one(&values), one(&header))
        };
        let (v, h) = write(b"one");
        Pending::commit_pair(v, h).unwrap();
        let (v, h) = write(b"two");
        Pending::commit_pair(v, h).unwrap();
        assert_eq!(fs::read(&values).unwrap(), b"two");
        assert_eq!(fs::read(&header).unwrap(), b"two");
        // The end comes when the values cannot have their name.
        let (v, h) = write(b"three");
        fs::remove_file(&values).unwrap();
        fs::create_dir(&values).unwrap();
        assert!(Pending::commit_pair(v, h).is_err());
        assert!(!header.exists(), "the header of other values is left");
    }

    #[cfg(unix)]
    #[test]
    fn permissions_are_those_of_a_new_file() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let ours = folder.path().join("ours");
        let plain = folder.path().join("plain");
        write_file(&ours, |w| w.write_all(b"x")).unwrap();
        fs::write(&plain, b"x").unwrap();
        let mode = |p| fs::metadata(p).unwrap().permissions().mode();
        assert_eq!(mode(ours), mode(plain));
    }
}
