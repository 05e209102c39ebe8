//! Writing a file under a temporary name and renaming it when complete.

use crate::abandoned;
use crate::error::{IoError, Result};
use crate::exchange::{Exchange, exchange, sync};
use crate::hidden::{self, HiddenFolder, Hold, TEMPORARY};
use crate::unfinished::Listed;
use std::fs::{self, File, TryLockError};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use tempfile::TempPath;

const RANDOM: usize = 6;

/// Writes a file so that its name never shows an incomplete one: `f` writes to a temporary name
/// in the same folder, which is brought to the disk and renamed when all is written; then the folder is brought there. Where `f` fails, or the
/// program is interrupted by a panic, nothing is left; an existing file is replaced only by a complete
/// one. What killed programs left in the folder is [removed](crate::abandoned::remove_abandoned).
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
    /// Locked until it has its name.
    file: File,
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
        let (file, temporary) = temporary(path).map_err(fail)?;
        let listed = Listed::new(&temporary);
        let mut writer = BufWriter::with_capacity(1 << 18, file);
        f(&mut writer).map_err(fail)?;
        let file = writer.into_inner().map_err(|e| fail(e.into_error()))?;
        set_usual_permissions(&file, path).map_err(fail)?;
        // Those of a hidden folder are brought to the disk together, before they leave it.
        if !hidden::is_inside(path) {
            file.sync_all().map_err(fail)?;
        }
        Ok(Self { temporary, path: path.into(), file, _listed: listed })
    }

    pub(crate) fn commit(self) -> Result<()> {
        self.temporary.persist(&self.path).map_err(|e| IoError::writing(&self.path, e.error))?;
        drop(self.file);
        let folder = folder_of(&self.path);
        remove_abandoned(folder);
        // The name comes to the disk as the content has; a hidden folder's do together.
        if !hidden::is_inside(&self.path) {
            sync(&[folder.to_owned()]).map_err(|(path, e)| IoError::writing(&path, e))?;
        }
        Ok(())
    }

    /// As [`commit`](Self::commit), one of many files in a folder that is brought to the disk with all of them.
    pub(crate) fn persist(self) -> Result<()> {
        self.temporary.persist(&self.path).map_err(|e| IoError::writing(&self.path, e.error))?;
        drop(self.file);
        Ok(())
    }

    /// Gives both files of an image their names, the header last. An older header goes first: where
    /// the program is killed in between, no header describes the values of another image. Where a file cannot
    /// have its name, the older ones stay.
    pub(crate) fn commit_pair(values: Self, header: Self) -> Result<()> {
        Self::commit_pair_by(values, header, &mut || Ok(()))
    }

    /// As [`commit_pair`](Self::commit_pair), with a word before each step.
    fn commit_pair_by(
        values: Self,
        header: Self,
        step: &mut dyn FnMut() -> io::Result<()>,
    ) -> Result<()> {
        let path = header.path.clone();
        let fail = |e| IoError::writing(&path, e);
        let folder = folder_of(&path);
        // Another process that writes the same image takes its turn, or the pair could be of both.
        let _turn = Hold::wait(folder, &hidden::key_of(&path)).map_err(fail)?;
        let hidden = HiddenFolder::new_in(folder).map_err(fail)?;
        let mut files = Exchange::default();
        for one in [values, header] {
            let name = one.path.file_name().unwrap_or_default();
            fs::rename(&one.temporary, hidden.path().join(name)).map_err(fail)?;
            files.new.push(name.to_string_lossy().into_owned());
        }
        exchange(hidden, folder, &files, step)
            .map_err(|(e, _)| IoError::writing(&e.path, e.source))?;
        remove_abandoned(folder);
        Ok(())
    }
}

/// A new file beside the one of this name, locked so that others see that it is being written.
fn temporary(path: &Path) -> io::Result<(File, TempPath)> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // The whole may not be longer than a name can be.
    let shown: String = name.chars().take(48).collect();
    loop {
        let (file, temporary) = tempfile::Builder::new()
            .prefix(&format!(".{shown}."))
            .rand_bytes(RANDOM)
            .suffix(TEMPORARY)
            .tempfile_in(folder_of(path))
            // Without its text, which has the temporary name.
            .map_err(|e| io::Error::from(e.kind()))?
            .into_parts();
        let locked = match file.try_lock() {
            Ok(()) => temporary.exists(),
            Err(TryLockError::WouldBlock) => false,
            Err(TryLockError::Error(_)) => true,
        };
        // One that was taken for abandoned before it was locked goes.
        if locked {
            return Ok((file, temporary));
        }
    }
}

/// Removes what killed programs left in a folder: temporary files that nobody writes any more, and hidden
/// folders.
fn remove_abandoned(folder: &Path) {
    // Nobody else writes into one of those.
    if hidden::is_hidden(&folder.file_name().unwrap_or_default().to_string_lossy()) {
        return;
    }
    abandoned::remove_abandoned(folder);
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
        let leave = |name: &str| File::create(folder.path().join(name)).unwrap();
        drop(leave(".a.nii.Ab3xYz.voxalign.tmp"));
        // One that was just made, of another name, goes too.
        drop(leave(".b.nii.Cb3xYz.voxalign.tmp"));
        // One of a program that is at work, for however long, and others' files.
        let busy = leave(".a.nii.Bb3xYz.voxalign.tmp");
        busy.lock().unwrap();
        busy.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        let others = [
            ".a.nii.longer7.voxalign.tmp",
            ".a.nii.Ab3xYz.tmp",
            "a.nii.Ab3xYz.voxalign.tmp",
            ".a.nii.Ab3-Yz.voxalign.tmp",
        ];
        others.iter().for_each(|name| drop(leave(name)));
        fs::create_dir(folder.path().join(".voxalign-Ab3xYz")).unwrap();
        write_file(&path, |w| w.write_all(b"one")).unwrap();
        let has = |name: &str| folder.path().join(name).exists();
        assert!(!has(".a.nii.Ab3xYz.voxalign.tmp") && !has(".b.nii.Cb3xYz.voxalign.tmp"));
        assert!(!has(".voxalign-Ab3xYz"));
        for kept in others.iter().chain(&["a.nii", ".a.nii.Bb3xYz.voxalign.tmp"]) {
            assert!(has(kept), "{kept}");
        }
        // Once the other program is gone, its file goes too.
        drop(busy);
        write_file(&path, |w| w.write_all(b"two")).unwrap();
        assert!(!has(".a.nii.Bb3xYz.voxalign.tmp"));
    }

    #[test]
    fn a_name_may_be_as_long_as_names_are() {
        let folder = tempfile::tempdir().unwrap();
        let [values, header] =
            ["img", "hdr"].map(|end| folder.path().join(format!("{}.{end}", "a".repeat(251))));
        write_file(&values, |w| w.write_all(b"one")).unwrap();
        let one = |path: &Path| Pending::write(path, |w| w.write_all(b"two")).unwrap();
        Pending::commit_pair(one(&values), one(&header)).unwrap();
        assert_eq!(fs::read(&header).unwrap(), b"two");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
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
        // Any of the steps fails: the older pair stays, or the newer one is there.
        let mut failed = 0;
        for n in 0.. {
            let mut left = n;
            let (v, h) = write(b"new");
            let done = Pending::commit_pair_by(v, h, &mut || {
                left -= 1;
                if left == -1 { Err(io::ErrorKind::PermissionDenied.into()) } else { Ok(()) }
            });
            let found = [&values, &header].map(|p| fs::read(p).unwrap());
            assert!(found == [b"two", b"two"] || found == [b"new", b"new"], "{n}: {found:?}");
            failed += i32::from(done.is_err());
            if left >= 0 {
                assert!(done.is_ok() && found[0] == b"new");
                break;
            }
            let (v, h) = write(b"two");
            Pending::commit_pair(v, h).unwrap();
        }
        assert!(failed > 6, "{failed}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
        // The end comes when the values cannot have their name.
        let (v, h) = write(b"three");
        fs::remove_file(&values).unwrap();
        fs::create_dir(&values).unwrap();
        let said = Pending::commit_pair(v, h).unwrap_err().to_string();
        assert!(said.contains("a.img"), "{said}");
        assert_eq!(fs::read(&header).unwrap(), b"new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
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
