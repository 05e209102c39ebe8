//! The frames of a sequence, from folders, files with several frames, or a stream.

use crate::error::{Error, Result};
use std::cmp::Ordering;
use std::collections::VecDeque;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use voxalign_image::{XrayGeometry, memory};
use voxalign_io::image::Oddity;
use voxalign_io::xray::{self, FrameType, Frames, Signal, Xray};
use voxalign_options::text;

/// Frames that are read ahead.
const AHEAD: usize = 4;

/// An image of each view, taken together.
pub(super) type Moment = Vec<Vec<f32>>;

/// The images of a view, file by file.
pub(super) struct Reel {
    path: PathBuf,
    files: VecDeque<PathBuf>,
    open: Option<(Xray, usize)>,
    dims: [usize; 2],
    count: usize,
}

impl Reel {
    /// Of a folder, whose files are taken in the order of their names and the numbers in these, or of a file with several frames.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let at = |what: String| Error::input(text!("'{}': {what}", path.display()));
        let files = if path.is_dir() { listed(path)? } else { vec![path.to_owned()] };
        if files.is_empty() {
            return Err(at("the folder has no files".into()));
        }
        Self::of(path, files)
    }

    /// Of the images of a view, `NAME_0000.EXT` and on, in a folder with those of others; of several formats the first of floats, TIFF and
    /// NIfTI, else DICOM or PNG.
    pub(super) fn of_view(folder: &Path, name: &str) -> Result<Self> {
        let all = listed(folder)?;
        for format in [".tif", ".nii.gz", ".dcm", ".png"] {
            let is_of = |path: &&PathBuf| {
                let file = path.file_name().unwrap_or_default().to_string_lossy();
                let number = file.strip_prefix(name).and_then(|rest| rest.strip_prefix('_'));
                let number = number.and_then(|rest| rest.strip_suffix(format));
                number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
            };
            let files: Vec<_> = all.iter().filter(is_of).cloned().collect();
            if !files.is_empty() {
                return Self::of(folder, files);
            }
        }
        Err(Error::input(text!(
            "'{}': it has no images {name}_0000 and on of the view '{name}'; give a folder that `voxalign drr` wrote by `poses`",
            folder.display()
        )))
    }

    fn of(path: &Path, files: Vec<PathBuf>) -> Result<Self> {
        let at = |what: String| Error::input(text!("'{}': {what}", path.display()));
        let mut files = VecDeque::from(files);
        let first = files.pop_front().ok_or_else(|| at("the folder has no files".into()))?;
        let image = xray::read(&first)?;
        let dims = image.dims;
        Ok(Self { path: path.to_owned(), files, open: Some((image, 0)), dims, count: 0 })
    }

    /// Columns and rows.
    pub(super) fn dims(&self) -> [usize; 2] {
        self.dims
    }

    /// Source and detector as the header of the first image says them, or what it lacks.
    pub(super) fn geometry(&self) -> Result<XrayGeometry> {
        let (image, _) = self.open.as_ref().ok_or_else(|| Error::Internal("no frame".into()))?;
        image.geometry.ok_or_else(|| {
            let missing = image.missing_attribute();
            let why = missing.map_or_else(String::new, |m| format!(" (its header lacks {m})"));
            Error::input(text!(
                "'{}': its geometry is unknown{why}; give `geometry`",
                self.path.display()
            ))
        })
    }

    /// What is odd about the first image.
    pub(super) fn oddities(&self) -> &[Oddity] {
        self.open.as_ref().map(|(image, _)| image.oddities.as_slice()).unwrap_or_default()
    }

    /// What the header of the first image says of values.
    pub(super) fn signal(&self) -> Option<Signal> {
        self.open.as_ref().and_then(|(image, _)| image.signal)
    }

    /// The next image; none at the end.
    fn next(&mut self) -> Result<Option<Vec<f32>>> {
        loop {
            let next = self.open.as_mut().and_then(|(image, frame)| {
                *frame += 1;
                image.frame(*frame - 1)
            });
            if let Some(values) = next {
                self.count += 1;
                return Ok(Some(memory::copied(values)?));
            }
            let Some(path) = self.files.pop_front() else { return Ok(None) };
            let image = xray::read(&path)?;
            if image.dims != self.dims {
                let ([a, b], [c, d]) = (image.dims, self.dims);
                return Err(Error::input(text!(
                    "'{}': it has {a} x {b} pixels, and the images before it {c} x {d}; give a sequence of \
                     one size",
                    path.display()
                )));
            }
            self.open = Some((image, 0));
        }
    }
}

/// The files of a folder in the order of their names and the numbers in these, without hidden ones.
fn listed(folder: &Path) -> Result<Vec<PathBuf>> {
    let at = |e: std::io::Error| Error::input(text!("'{}': {e}", folder.display()));
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(at)? {
        let file = entry.map_err(at)?.path();
        let hidden = file.file_name().is_some_and(|n| n.to_string_lossy().starts_with('.'));
        if file.is_file() && !hidden {
            files.push(file);
        }
    }
    files.sort_by(|a, b| by_numbers(&a.to_string_lossy(), &b.to_string_lossy()));
    Ok(files)
}

/// Names as people order them: numbers in them by their size.
fn by_numbers(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a.chars().peekable(), b.chars().peekable());
    loop {
        match (a.peek().copied(), b.peek().copied()) {
            (None, None) => return Ordering::Equal,
            (None, _) => return Ordering::Less,
            (_, None) => return Ordering::Greater,
            (Some(x), Some(y)) if x.is_ascii_digit() && y.is_ascii_digit() => {
                let number = |chars: &mut std::iter::Peekable<std::str::Chars<'_>>| {
                    let mut digits = String::new();
                    while let Some(digit) = chars.next_if(char::is_ascii_digit) {
                        digits.push(digit);
                    }
                    digits
                };
                let (x, y) = (number(&mut a), number(&mut b));
                let (p, q) = (x.trim_start_matches('0'), y.trim_start_matches('0'));
                let order = p.len().cmp(&q.len()).then_with(|| p.cmp(q));
                if order != Ordering::Equal {
                    return order;
                }
            }
            (Some(x), Some(y)) if x != y => return x.cmp(&y),
            _ => {
                a.next();
                b.next();
            }
        }
    }
}

/// A stream that several read from in turn.
#[derive(Clone)]
pub(super) struct Shared(Arc<Mutex<Box<dyn Read + Send>>>);

impl Read for Shared {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).read(out)
    }
}

/// Where frames come from.
pub(super) enum Sequence {
    /// Files, of each view.
    Reels(Vec<Reel>),
    /// Raw frames, of one view after the other, with the pixels of each.
    Raw(Vec<(Frames<Shared>, usize)>),
}

impl Sequence {
    /// Raw frames of a stream: one per view in turn.
    pub(super) fn raw(
        stream: Box<dyn Read + Send>,
        dims: &[[usize; 2]],
        kind: FrameType,
    ) -> Result<Self> {
        let shared = Shared(Arc::new(Mutex::new(stream)));
        let one = |&dims: &[usize; 2]| {
            Ok((Frames::new(shared.clone(), dims, kind)?, dims[0].saturating_mul(dims[1])))
        };
        Ok(Self::Raw(dims.iter().map(one).collect::<Result<_>>()?))
    }

    /// The next image of each view; none at the end.
    fn next(&mut self) -> Result<Option<Moment>> {
        let mut all = Moment::new();
        match self {
            Self::Reels(reels) => {
                for reel in reels.iter_mut() {
                    if let Some(image) = reel.next()? {
                        all.push(image);
                    }
                }
                if all.is_empty() {
                    return Ok(None);
                }
                if all.len() < reels.len() {
                    // Those that have an image have counted it.
                    let most = reels.iter().map(|r| r.count).max().unwrap_or(0);
                    let short = reels.iter().find(|r| r.count < most);
                    let (path, count) =
                        short.map_or((Path::new(""), 0), |r| (r.path.as_path(), r.count));
                    return Err(Error::input(text!(
                        "'{}': it ends after {count} images, and another view continues; give the same number for each view",
                        path.display()
                    )));
                }
            }
            Self::Raw(views) => {
                for (number, (frames, pixels)) in views.iter_mut().enumerate() {
                    let mut image = memory::zeroed::<f32>(*pixels)?;
                    if !frames.next_into(&mut image)? {
                        if number == 0 {
                            return Ok(None);
                        }
                        return Err(Error::input(text!(
                            "'standard input': the stream ends after view {number} of frame {}; send a frame of each view in turn",
                            frames.count()
                        )));
                    }
                    all.push(image);
                }
            }
        }
        Ok(Some(all))
    }

    /// Reads ahead in a thread of its own, which ends with the stream or when nobody listens any more.
    pub(super) fn ahead(mut self) -> Result<Receiver<Result<Moment>>> {
        let (send, receive) = sync_channel(AHEAD);
        let read = move || {
            loop {
                let (item, last) = match self.next() {
                    Ok(None) => return,
                    Ok(Some(moment)) => (Ok(moment), false),
                    Err(error) => (Err(error), true),
                };
                if send.send(item).is_err() || last {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("frames".to_owned()).spawn(read);
        thread.map_err(|e| Error::Internal(format!("no thread can be started: {e}")))?;
        Ok(receive)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_ordered_by_their_numbers() {
        let mut names = ["f10.png", "f9.png", "f009b.png", "a2.png", "f1.png", "f", "f010.png"];
        names.sort_by(|a, b| by_numbers(a, b));
        assert_eq!(names, ["a2.png", "f", "f1.png", "f9.png", "f009b.png", "f10.png", "f010.png"]);
    }

    #[test]
    fn views_take_turns_in_a_stream() {
        let bytes: Vec<u8> = (0..20).collect();
        let of = |bytes: &[u8]| {
            let stream = Box::new(std::io::Cursor::new(bytes.to_vec()));
            Sequence::raw(stream, &[[2, 2], [3, 2]], FrameType::U8).unwrap()
        };
        let mut two = of(&bytes);
        let first = two.next().unwrap().unwrap();
        assert_eq!(first, [vec![0.0, 1.0, 2.0, 3.0], vec![4.0, 5.0, 6.0, 7.0, 8.0, 9.0]]);
        assert_eq!(two.next().unwrap().unwrap()[1][5], 19.0);
        assert!(two.next().unwrap().is_none());
        let mut cut = of(&bytes[..14]);
        assert!(cut.next().unwrap().is_some());
        let said = cut.next().unwrap_err().to_string();
        assert!(said.contains("ends after view 1 of frame 1;"), "{said}");
        let mut cut = of(&bytes[..12]);
        assert!(cut.next().unwrap().is_some());
        let said = cut.next().unwrap_err().to_string();
        assert!(said.contains("in the middle of a frame"), "{said}");
        // What was read before an error is not lost.
        let received: Vec<_> = of(&bytes[..12]).ahead().unwrap().iter().collect();
        assert!(received.len() == 2 && received[0].is_ok() && received[1].is_err());
    }
}
