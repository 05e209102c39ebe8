//! Replacing a set of files by new ones: all of them, or none.
//!
//! The new files are in a hidden folder on the file system of the old ones. Everything that is new is brought to
//! the disk first. Then the older file that stands for the whole (the last one, a record) goes aside into the
//! hidden folder, then file by file an older one goes aside and a new one gets its name, that of the record last.
//! Where a step fails, all of them are undone. Where the process dies, the folder has no record, and the hidden
//! one has a plan by which [the next process](crate::abandoned::remove_abandoned) brings the exchange to its end.
//! Older files are removed once the new ones have their names on the disk.

use crate::hidden::HiddenFolder;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use voxalign_image::memory;

/// The folder, in the hidden one, of older files.
const ASIDE: &str = ".older";
/// The file, in the hidden folder, that says what is exchanged.
const PLAN: &str = ".plan";
/// How many files are brought to the disk at once.
const SYNCING: usize = 8;
/// What stands before the names in a plan.
const NEW: &str = "new ";
const STALE: &str = "old ";

/// What files take the place of which.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exchange {
    /// Names in the hidden folder and in that of the results, relative to both, in the order in which they appear.
    /// The last one stands for the whole.
    pub new: Vec<String>,
    /// Names of older files that go and have no successor.
    pub stale: Vec<String>,
}

/// Why files were not exchanged.
#[derive(Debug)]
pub struct ExchangeError {
    /// The file or folder at which it ended.
    pub path: PathBuf,
    /// Why.
    pub source: io::Error,
    /// What is in the folder of the results now.
    pub left: Left,
}

/// What an exchange that failed leaves in the folder of the results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// All as it was before.
    Older,
    /// Neither result as a whole: what is missing is in the hidden folder.
    Neither,
    /// All that is new, but it may not be on the disk yet.
    Newer,
}

/// Says that a step is about to be made; one that fails is not made.
pub type Step<'s> = dyn FnMut() -> io::Result<()> + 's;

impl Exchange {
    /// Exchanges the files of `folder` for those of `hidden`, which is in it. `step` is called before each
    /// change of a file; tests let it fail.
    ///
    /// # Errors
    /// A file that cannot have its name, or cannot be brought to the disk.
    pub fn run(
        &self,
        hidden: &Path,
        folder: &Path,
        step: &mut Step<'_>,
    ) -> Result<(), ExchangeError> {
        if self.new.is_empty() && self.stale.is_empty() {
            return Ok(());
        }
        let mut moves =
            Moves { done: Vec::new(), made: Vec::new(), aside: hidden.join(ASIDE), step };
        let done = self
            .prepare(hidden, folder, &mut moves)
            .and_then(|()| self.exchange(hidden, folder, &mut moves));
        if let Err((path, source)) = done {
            let left = if moves.undo() { Left::Older } else { Left::Neither };
            if left == Left::Older {
                let _ = fs::remove_file(hidden.join(PLAN));
            }
            return Err(ExchangeError { path, source, left });
        }
        // A failure from here on changes nothing: each file has its name.
        let synced = (moves.step)().map_err(|e| (folder.to_owned(), e));
        synced.and_then(|()| sync(&self.folders(folder))).map_err(|(path, source)| ExchangeError {
            path,
            source,
            left: Left::Newer,
        })
    }

    /// What can fail before a file of the folder is touched.
    fn prepare(
        &self,
        hidden: &Path,
        folder: &Path,
        moves: &mut Moves<'_, '_>,
    ) -> Result<(), Failed> {
        for name in &self.new {
            let to = folder.join(name);
            if to.symlink_metadata().is_ok_and(|m| m.is_dir()) {
                return Err((to, io::ErrorKind::IsADirectory.into()));
            }
        }
        let at = |path: &Path| {
            let path = path.to_owned();
            move |e| (path, e)
        };
        for of in self.folders(folder) {
            moves.make(&of).map_err(at(&of))?;
        }
        // What is in the hidden folder is told of by the name that it will have.
        let here = at(folder);
        let plan = hidden.join(PLAN);
        (moves.step)().and_then(|()| self.write(&plan)).map_err(at(folder))?;
        moves.make(&moves.aside.clone()).map_err(at(folder))?;
        let mut all = self.folders(hidden);
        all.extend(self.new.iter().map(|name| hidden.join(name)));
        all.push(plan);
        (moves.step)().map_err(here)?;
        sync(&all).map_err(|(path, e)| {
            let name = path.strip_prefix(hidden).unwrap_or(Path::new(""));
            (folder.join(name), e)
        })
    }

    fn exchange(
        &self,
        hidden: &Path,
        folder: &Path,
        moves: &mut Moves<'_, '_>,
    ) -> Result<(), Failed> {
        for name in self.new.last().into_iter().chain(&self.stale) {
            moves.aside(&folder.join(name))?;
        }
        for name in &self.new {
            let to = folder.join(name);
            moves.aside(&to)?;
            moves.rename(&hidden.join(name), &to).map_err(|e| (to.clone(), e))?;
        }
        Ok(())
    }

    /// The folders of the new files, the outer ones first.
    fn folders(&self, root: &Path) -> Vec<PathBuf> {
        let of = self.new.iter().filter_map(|n| Path::new(n).parent());
        let mut all: Vec<_> = of.flat_map(Path::ancestors).map(|p| root.join(p)).collect();
        all.push(root.to_owned());
        all.sort();
        all.dedup();
        all
    }

    fn write(&self, path: &Path) -> io::Result<()> {
        let lines = |start: &str, names: &[String]| {
            names.iter().map(|n| format!("{start}{n}\n")).collect::<String>()
        };
        let text = lines(NEW, &self.new) + &lines(STALE, &self.stale);
        // The last line says that all of it is there.
        fs::write(path, format!("{text}end\n"))
    }

    fn read(path: &Path) -> Option<Self> {
        let text = fs::read_to_string(path).ok()?;
        let mut plan = Self::default();
        for line in text.strip_suffix("end\n")?.lines() {
            match (line.strip_prefix(NEW), line.strip_prefix(STALE)) {
                (Some(name), _) => plan.new.push(name.to_owned()),
                (_, Some(name)) => plan.stale.push(name.to_owned()),
                _ => return None,
            }
        }
        Some(plan)
    }
}

/// Where something failed, and why.
pub type Failed = (PathBuf, io::Error);

/// Renames that can be undone.
struct Moves<'m, 's> {
    /// From where to where.
    done: Vec<(PathBuf, PathBuf)>,
    /// Folders that were made.
    made: Vec<PathBuf>,
    aside: PathBuf,
    step: &'m mut Step<'s>,
}

impl Moves<'_, '_> {
    fn make(&mut self, folder: &Path) -> io::Result<()> {
        if folder.is_dir() {
            return Ok(());
        }
        (self.step)()?;
        fs::create_dir(folder)?;
        self.made.push(folder.to_owned());
        Ok(())
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        (self.step)()?;
        fs::rename(from, to)?;
        self.done.push((from.to_owned(), to.to_owned()));
        Ok(())
    }

    /// Moves an older file away, where there is one. To replace it by a rename instead makes some file systems
    /// write the new one out at once, and the moment in which there is no whole result longer.
    fn aside(&mut self, path: &Path) -> Result<(), Failed> {
        match path.symlink_metadata() {
            Ok(older) if !older.is_dir() => {}
            _ => return Ok(()),
        }
        let names = (self.done.len()..).map(|n| self.aside.join(n.to_string()));
        // A process that was killed may have put some there.
        let free = |to: &PathBuf| to.symlink_metadata().is_err();
        let Some(to) = names.into_iter().find(free) else { return Ok(()) };
        self.rename(path, &to).map_err(|e| (path.to_owned(), e))
    }

    /// Gives all files the names that they had; whether all have them.
    fn undo(&mut self) -> bool {
        let mut all = (self.step)().is_ok();
        for (from, to) in self.done.iter().rev() {
            all &= (self.step)().and_then(|()| fs::rename(to, from)).is_ok();
        }
        for folder in self.made.iter().rev().filter(|_| all) {
            if (self.step)().is_ok() {
                // What another process put there stays.
                let _ = fs::remove_dir(folder);
            }
        }
        all
    }
}

/// Ends an exchange that a killed process began in its hidden folder; whether that folder may go.
pub(crate) fn finish(hidden: &Path, folder: &Path) -> bool {
    let Some(mut plan) = Exchange::read(&hidden.join(PLAN)) else { return true };
    let is_there = |root: &Path, name: &str| root.join(name).symlink_metadata().is_ok();
    // Where there is a record, there is a whole result: the new one, or one that it did not replace.
    let Some(record) = plan.new.last().filter(|name| !is_there(folder, name)) else { return true };
    let whole = plan.new.iter().all(|n| is_there(hidden, n) || is_there(folder, n));
    if !whole || !is_there(hidden, record) {
        // Somebody took files away meanwhile.
        return true;
    }
    // Those that have their names already are neither moved nor taken for older ones.
    plan.new.retain(|name| is_there(hidden, name));
    plan.run(hidden, folder, &mut || Ok(())).is_ok()
}

/// Brings files, and folders as lists of names, to the disk, several at once as the system does that in one go.
///
/// # Errors
/// The first of them that cannot be, and why.
pub fn sync(paths: &[PathBuf]) -> Result<(), Failed> {
    let threads = match paths.len().min(SYNCING) {
        // Where there is no memory for threads, this one does it.
        several if several > 1 && memory::for_threads(several).is_ok() => several,
        _ => 1,
    };
    let of = |thread: usize| {
        let mut own = paths.iter().skip(thread).step_by(threads.max(1));
        own.try_for_each(|path| sync_one(path).map_err(|e| (path.clone(), e)))
    };
    if threads == 1 {
        return of(0);
    }
    std::thread::scope(|scope| {
        let start = |n| std::thread::Builder::new().spawn_scoped(scope, move || of(n));
        let started: Vec<_> = (0..threads).map(|n| (n, start(n))).collect();
        started.into_iter().try_for_each(|(n, thread)| match thread.map(|t| t.join()) {
            Ok(Ok(done)) => done,
            // Where there are no threads to be had, this one does it.
            _ => of(n),
        })
    })
}

#[cfg(unix)]
fn sync_one(path: &Path) -> io::Result<()> {
    match File::open(path)?.sync_all() {
        // Some file systems over networks do not know this of folders.
        Err(e) if matches!(e.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => {
            Ok(())
        }
        done => done,
    }
}

#[cfg(not(unix))]
fn sync_one(path: &Path) -> io::Result<()> {
    // Folders are no files there.
    if path.is_dir() { Ok(()) } else { File::options().write(true).open(path)?.sync_all() }
}

/// A hidden folder whose files take the place of older ones when all are there.
///
/// # Errors
/// As [`Exchange::run`], with the hidden folder where the older files are as they were. Where they could not be put
/// back, that folder is left for the next process, which brings the exchange to its end.
pub fn exchange(
    hidden: HiddenFolder,
    folder: &Path,
    files: &Exchange,
    step: &mut Step<'_>,
) -> Result<(), (ExchangeError, Option<HiddenFolder>)> {
    match files.run(hidden.path(), folder, step) {
        Ok(()) => {
            // The older files go with it.
            if step().is_err() {
                hidden.abandon();
            }
            Ok(())
        }
        Err(error) => {
            let hidden = match error.left {
                Left::Older => Some(hidden),
                Left::Neither | Left::Newer => {
                    hidden.abandon();
                    None
                }
            };
            Err((error, hidden))
        }
    }
}
