//! Writing a file under a temporary name and renaming it when complete.

use crate::error::{IoError, Result};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use tempfile::TempPath;

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
        let folder = match path.parent() {
            Some(p) if !p.as_os_str().is_empty() => p,
            _ => Path::new("."),
        };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let temporary = tempfile::Builder::new()
            .prefix(&format!(".{name}."))
            .suffix(".tmp")
            .tempfile_in(folder)
            // Without its text, which has the temporary name.
            .map_err(|e| fail(e.kind().into()))?;
        let (file, temporary) = temporary.into_parts();
        let mut writer = BufWriter::with_capacity(1 << 18, file);
        f(&mut writer).map_err(fail)?;
        let file = writer.into_inner().map_err(|e| fail(e.into_error()))?;
        set_usual_permissions(&file, path).map_err(fail)?;
        Ok(Self { temporary, path: path.into() })
    }

    pub(crate) fn commit(self) -> Result<()> {
        self.temporary.persist(&self.path).map_err(|e| IoError::writing(&self.path, e.error))
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
