//! The directories of a file that are levels of one image.

use super::page::{Page, Reader, refused};
use crate::error::{IoError, Result};
use crate::image::Oddity;
use crate::pyramid::flat::no_volume;
use crate::source::Source;
use crate::xray::check_tiff_claims;
use std::collections::BTreeSet;
use tiff::Directory;
use tiff::decoder::{Decoder, Limits};
use tiff::tags::IfdPointer;

/// Directories that are looked at.
const PAGES: usize = 1 << 12;
/// Values of a tag are no longer than this, bytes: places of 8 million tiles.
const LONGEST: u64 = 1 << 26;

/// The levels of the image that is chosen, from the finest.
pub(super) struct Found {
    pub(super) pages: Vec<Page>,
    /// How many times as large their pixels are as those of the first.
    pub(super) factors: Vec<f64>,
    pub(super) big: bool,
    pub(super) oddities: Vec<Oddity>,
}

pub(super) fn find(source: &Source<'_>, chosen: Option<usize>) -> Result<Found> {
    let path = source.path();
    check_tiff_claims(source)?;
    let wrong = |e| refused(path, &e);
    let mut limits = Limits::default();
    let of = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    limits.ifd_value_size = of(source.length().min(LONGEST));
    // Lists of values are held against this one; a file has a byte at least for each.
    let value = size_of::<tiff::decoder::ifd::Value>() as u64;
    limits.decoding_buffer_size = of(source.length().saturating_mul(value).min(LONGEST));
    limits.intermediate_buffer_size = of(source.length());
    let mut head = [0; 4];
    let n = crate::source::read_full(&mut source.raw_with(0, 16)?, &mut head)
        .map_err(|e| IoError::reading(path, e))?;
    let big = n == 4 && (head[2..] == [43, 0] || head[2..] == [0, 43]);
    let mut reader: Reader<'_> =
        Decoder::new(source.seekable()?).map_err(wrong)?.with_limits(limits);
    let first = reader.ifd_pointer();
    let (mut mains, mut copies, mut skipped) = (Vec::new(), Vec::new(), 0);
    let mut seen = BTreeSet::new();
    let mut budget = Budget { source, tiles: 0 };
    let mut next = first;
    while let Some(at) = next.take() {
        if seen.len() >= PAGES || !seen.insert(at.0) {
            break;
        }
        let directory = reader.read_directory(at).map_err(wrong)?;
        next = directory.next();
        match budget.page(&mut reader, directory) {
            Ok(page) if page.small => copies.push(page),
            Ok(page) => mains.push(page),
            // A small copy or a label beside the image may be of any kind.
            Err(_) if !mains.is_empty() && budget.is_left() => skipped += 1,
            Err(error) => return Err(error),
        }
    }
    let mut found = choose(source, mains, copies, chosen)?;
    below(&mut budget, &mut reader, &mut found, seen)?;
    let main = found.remove(0);
    let mut levels = Found { pages: vec![main], factors: vec![1.0], big, oddities: Vec::new() };
    skipped += levels.add(found);
    if skipped > 0 {
        let words = format!("{skipped} pages are no levels of the image; they are not read");
        levels.oddities.push(Oddity::Other(words));
    }
    Ok(levels)
}

/// What directories may claim together: each tile has its place and its length in the file, of two bytes at least.
struct Budget<'s> {
    source: &'s Source<'s>,
    tiles: u64,
}

impl Budget<'_> {
    fn is_left(&self) -> bool {
        self.tiles.saturating_mul(4) <= self.source.length()
    }

    fn page(&mut self, reader: &mut Reader<'_>, directory: Directory) -> Result<Page> {
        let path = self.source.path();
        let page = Page::read(path, reader, directory)?;
        self.tiles = self.tiles.saturating_add(page.offsets.len() as u64);
        if self.is_left() {
            return Ok(page);
        }
        let problem = format!(
            "the directories claim {} tiles, which {} bytes cannot hold",
            self.tiles,
            self.source.length()
        );
        Err(IoError::malformed(path, problem, "the file is damaged: copy or download it again"))
    }
}

/// The image that is chosen, and what may be its levels.
fn choose(
    source: &Source<'_>,
    mut mains: Vec<Page>,
    copies: Vec<Page>,
    chosen: Option<usize>,
) -> Result<Vec<Page>> {
    let path = source.path();
    if mains.is_empty() {
        let problem = "all pages are small copies of others, which are not there";
        return Err(IoError::malformed(path, problem, "export the image again"));
    }
    // Pages without that word may be levels all the same: they are smaller than the largest.
    let area = |page: &Page| page.dims[0].saturating_mul(page.dims[1]);
    let largest = mains.iter().map(area).max().unwrap_or(0);
    let (images, smaller): (Vec<_>, Vec<_>) = mains.drain(..).partition(|p| area(p) == largest);
    let all = images.len();
    let number = match chosen {
        Some(number) if number < all => number,
        Some(number) => return Err(no_volume(path, number, all)),
        None if all == 1 => 0,
        None => {
            return Err(IoError::malformed(
                path,
                format!("the file has {all} pages of the same size, of which none is chosen"),
                format!("choose one of 0 to {} as `volume`", all - 1),
            ));
        }
    };
    let mut found: Vec<Page> = images.into_iter().skip(number).take(1).collect();
    // Whose copies the others are cannot be told where there are several.
    if all == 1 {
        found.extend(smaller.into_iter().chain(copies));
    }
    Ok(found)
}

/// Adds what is in the SubIFDs of the image.
fn below(
    budget: &mut Budget<'_>,
    reader: &mut Reader<'_>,
    found: &mut Vec<Page>,
    mut seen: BTreeSet<u64>,
) -> Result<()> {
    let path = budget.source.path();
    let Some(main) = found.first_mut() else { return Ok(()) };
    let mut places: Vec<IfdPointer> = std::mem::take(&mut main.below);
    // Each may have one after it.
    places.reverse();
    while let Some(at) = places.pop() {
        if at.0 == 0 || seen.len() >= PAGES || !seen.insert(at.0) {
            continue;
        }
        let directory = reader.read_directory(at).map_err(|e| refused(path, &e))?;
        places.extend(directory.next());
        found.push(budget.page(reader, directory)?);
    }
    Ok(())
}

impl Found {
    /// Adds what are levels; returns how many are none.
    fn add(&mut self, others: Vec<Page>) -> usize {
        let count = others.len();
        let main = &self.pages[0];
        let mut levels: Vec<(usize, Page)> = others
            .into_iter()
            .filter(|page| page.is_alike(main))
            .filter_map(|page| Some((factor(main.dims, page.dims)?, page)))
            .collect();
        levels.sort_by_key(|(factor, _)| *factor);
        levels.dedup_by_key(|(factor, _)| *factor);
        let skipped = count - levels.len();
        for (factor, page) in levels {
            self.factors.push(factor as f64);
            self.pages.push(page);
        }
        skipped
    }
}

/// By which whole number sizes are reduced, rounded either way.
fn factor(from: [usize; 2], to: [usize; 2]) -> Option<usize> {
    let longer = usize::from(from[1] > from[0]);
    let near = (from[longer] as f64 / to[longer] as f64).round() as usize;
    let fits = |factor: usize| {
        let one = |a: usize| {
            let up = from[a].div_ceil(factor);
            to[a] == up || to[a] == (from[a] / factor).max(1)
        };
        factor > 1 && one(0) && one(1)
    };
    // Small levels are reduced by many numbers: by a power of two, most likely.
    let power = near.checked_next_power_of_two()?;
    [power, power / 2, near].into_iter().find(|&factor| fits(factor))
}

#[cfg(test)]
mod tests {
    use super::factor;

    #[test]
    fn factors_are_whole_numbers() {
        assert_eq!(factor([46001, 32914], [11500, 8228]), Some(4));
        assert_eq!(factor([46001, 32914], [11501, 8229]), Some(4));
        assert_eq!(factor([100, 60], [40, 24]), None);
        assert_eq!(factor([100, 60], [100, 60]), None);
        assert_eq!(factor([4096, 4096], [1, 1]), Some(4096));
        assert_eq!(factor([1000, 700], [7, 5]), Some(128));
        assert_eq!(factor([1000, 1], [500, 1]), Some(2));
        // A label beside a slide.
        assert_eq!(factor([46000, 32914], [574, 768]), None);
    }
}
