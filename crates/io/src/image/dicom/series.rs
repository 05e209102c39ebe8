//! Grouping files into series, and selecting one of several.

use super::copies;
use super::header::{Frame, Header};
use crate::error::{IoError, Result};
use crate::image::info::SeriesInfo;
use crate::source::Source;
use nalgebra::Vector3;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Frames of one series that can be one image: a frame as the number of its file and its own in it.
#[derive(Debug)]
pub(super) struct Series {
    pub(super) info: SeriesInfo,
    pub(super) frames: Vec<(usize, usize)>,
    /// Files of the series that cannot be read.
    pub(super) broken: Vec<usize>,
}

/// The headers of the files of a folder.
#[derive(Debug)]
pub(super) struct Folder {
    pub(super) files: Vec<Header>,
    /// Files that are not DICOM, hold no image, or are damaged before their series is known.
    pub(super) others: Vec<PathBuf>,
    /// Files whose image is that of another file, byte by byte.
    pub(super) copies: Vec<PathBuf>,
}

impl Folder {
    /// Reads the headers of all files, in the order of their names; folders within are left out.
    pub(super) fn read(folder: &Path) -> Result<Folder> {
        let fail = |e| IoError::reading(folder, e);
        let mut found = Folder { files: Vec::new(), others: Vec::new(), copies: Vec::new() };
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(fail)? {
            let path = entry.map_err(fail)?.path();
            match std::fs::metadata(&path) {
                Ok(meta) if meta.is_file() && meta.len() > 0 => paths.push(path),
                Ok(meta) if meta.is_file() => found.others.push(path),
                _ => {}
            }
        }
        paths.sort();
        for path in paths {
            let source = Source::open(&path)?;
            let is_list = path.file_name().is_some_and(|n| n.eq_ignore_ascii_case("DICOMDIR"));
            if is_list || !super::is_dicom(&source)? {
                found.others.push(path);
                continue;
            }
            match Header::read(&source) {
                Ok(header) if header.is_image() => found.files.push(header),
                // Not even the series of a damaged one is known.
                Ok(_)
                | Err(
                    IoError::Malformed { .. }
                    | IoError::Truncated { .. }
                    | IoError::Unsupported { .. },
                ) => found.others.push(path),
                Err(other) => return Err(other),
            }
        }
        found.others.sort();
        found.copies = copies::set_aside(&mut found.files)?;
        Ok(found)
    }
}

/// So many groups of one series are looked through for one that a frame is like; no series has more.
const LOOKED_THROUGH: usize = 256;

/// The series of some files, in the order of their numbers and UIDs.
pub(super) fn group(files: &[Header]) -> Vec<Series> {
    let mut groups: Vec<(Series, Option<usize>)> = Vec::new();
    let mut of_uid: HashMap<&str, Vec<usize>> = HashMap::new();
    for (f, file) in files.iter().enumerate().filter(|(_, file)| file.problem.is_none()) {
        // Frames of one file with the very same geometry are in one group.
        let mut known = HashMap::new();
        let own = of_uid.entry(&file.series).or_default();
        for i in 0..file.frames.len() {
            let key = exact(&file.frames[i]);
            let like = |&at: &usize| {
                let (group, first) = &groups[at];
                first.is_some_and(|g| alike(files, group.frames.first(), (f, i), g))
            };
            let same = known.get(&key).copied();
            let same = same.or_else(|| own.iter().take(LOOKED_THROUGH).copied().find(like));
            let at = same.unwrap_or(groups.len());
            known.insert(key, at);
            match same {
                Some(at) => groups[at].0.frames.push((f, i)),
                None => {
                    own.push(at);
                    groups.push((Series::new(file, vec![(f, i)]), Some(f)));
                }
            }
        }
    }
    for (f, file) in files.iter().enumerate().filter(|(_, file)| file.problem.is_some()) {
        let mut known = false;
        for (group, _) in groups.iter_mut().filter(|(group, _)| group.info.uid == file.series) {
            group.broken.push(f);
            known = true;
        }
        if !known {
            let mut group = Series::new(file, Vec::new());
            group.broken.push(f);
            groups.push((group, None));
        }
    }
    let mut all: Vec<Series> = groups.into_iter().map(|(group, _)| group).collect();
    all.sort_by_cached_key(|s| (s.info.series_number.unwrap_or(i64::MAX), s.info.uid.clone()));
    for (i, series) in all.iter_mut().enumerate() {
        let mut of: Vec<usize> = series.frames.iter().map(|&(f, _)| f).collect();
        of.dedup();
        series.info.number = i + 1;
        series.info.files = of.len().max(series.broken.len());
        series.info.frames = series.frames.len();
    }
    all
}

impl Series {
    fn new(file: &Header, frames: Vec<(usize, usize)>) -> Series {
        let info = SeriesInfo {
            number: 0,
            uid: file.series.clone(),
            series_number: file.series_number,
            description: file.description.clone(),
            modality: file.modality.clone(),
            files: 0,
            frames: 0,
            size: file.size,
        };
        Series { info, frames, broken: Vec::new() }
    }

    /// Whether it has this file.
    fn has(&self, file: usize) -> bool {
        self.broken.contains(&file) || self.frames.iter().any(|&(f, _)| f == file)
    }
}

/// What frames of one file that are surely alike have in common, bit by bit.
fn exact(frame: &Frame) -> (Option<[u64; 6]>, Option<[u64; 2]>, bool) {
    let axes = frame.orientation.map(|[a, b]| [a.x, a.y, a.z, b.x, b.y, b.z].map(f64::to_bits));
    (axes, frame.spacing.map(|s| s.map(f64::to_bits)), frame.position.is_some())
}

/// Whether two frames have the same size, directions and spacing.
fn alike(
    files: &[Header],
    first: Option<&(usize, usize)>,
    (f, i): (usize, usize),
    of: usize,
) -> bool {
    let Some(&(g, j)) = first else { return false };
    if files[of].size != files[f].size {
        return false;
    }
    let (a, b) = (&files[g].frames[j], &files[f].frames[i]);
    let near = |a: &Vector3<f64>, b: &Vector3<f64>| (a - b).norm() < 1e-3;
    let axes = match (&a.orientation, &b.orientation) {
        (Some([a1, a2]), Some([b1, b2])) => near(a1, b1) && near(a2, b2),
        (None, None) => true,
        _ => false,
    };
    let spacing = match (a.spacing, b.spacing) {
        (Some(a), Some(b)) => (0..2).all(|k| (a[k] - b[k]).abs() <= 1e-4 * a[k]),
        (None, None) => true,
        _ => false,
    };
    axes && spacing && a.position.is_some() == b.position.is_some()
}

/// The series that is meant: by its number in the list or its UID, else the one of a file that was
/// named, else the only one.
pub(super) fn choose(
    path: &Path,
    mut all: Vec<Series>,
    wanted: Option<&str>,
    named: Option<usize>,
) -> Result<Series> {
    let list = |all: &[Series]| all.iter().map(|s| s.info.clone()).collect::<Vec<_>>();
    let several = |all: &[Series], problem: String| IoError::SeveralSeries {
        path: path.into(),
        problem,
        series: list(all),
    };
    let total = all.len();
    if let Some(wanted) = wanted {
        let wanted = wanted.trim();
        let matches = |s: &Series| match wanted.parse::<usize>() {
            Ok(number) => s.info.number == number,
            Err(_) => s.info.uid == wanted,
        };
        if !all.iter().any(matches) {
            let problem = format!("there is no series '{}'", crate::error::shorten(wanted));
            return Err(several(&all, problem));
        }
        all.retain(matches);
    } else if let Some(file) = named {
        all.retain(|s| s.has(file));
    }
    match all.len() {
        1 => Ok(all.remove(0)),
        n => {
            let uid = all.first().map(|s| s.info.uid.clone());
            let one = all.iter().all(|s| Some(&s.info.uid) == uid.as_ref());
            let problem = match (n == total, one) {
                (_, true) => format!("the series has images of {n} sizes, directions or spacings"),
                _ => format!("there are {n} series of images"),
            };
            Err(several(&all, problem))
        }
    }
}
