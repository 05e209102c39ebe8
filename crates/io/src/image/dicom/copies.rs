//! Detection of files that are copies of one image.

use super::dataset::Pixels;
use super::header::Header;
use crate::error::{IoError, Result};
use crate::source::{Source, read_full};
use std::collections::HashMap;
use std::path::PathBuf;

/// Bytes that are compared at a time.
const PIECE: usize = 1 << 16;

/// Takes those files out that have the instance, the places and the values of an earlier one.
pub(super) fn set_aside(files: &mut Vec<Header>) -> Result<Vec<PathBuf>> {
    let mut known: HashMap<(String, String), usize> = HashMap::new();
    let mut copies = vec![false; files.len()];
    for (f, file) in files.iter().enumerate() {
        if file.instance.is_empty() || file.problem.is_some() {
            continue;
        }
        let first = *known.entry((file.series.clone(), file.instance.clone())).or_insert(f);
        copies[f] = first != f && is_copy(&files[first], file)?;
    }
    let mut found = Vec::new();
    let mut at = 0;
    files.retain(|file| {
        at += 1;
        if copies[at - 1] {
            found.push(file.path.clone());
        }
        !copies[at - 1]
    });
    Ok(found)
}

/// Whether two files have frames at the same places, of the same kinds, with the same bytes.
fn is_copy(a: &Header, b: &Header) -> Result<bool> {
    let same = a.frames.len() == b.frames.len()
        && a.frames.iter().zip(&b.frames).all(|(a, b)| {
            (a.position, a.orientation, a.spacing) == (b.position, b.orientation, b.spacing)
                && (a.slope, a.intercept) == (b.slope, b.intercept)
                && a.distinctions == b.distinctions
        });
    if !same || a.syntax != b.syntax || a.layout != b.layout || a.syntax.deflated {
        return Ok(false);
    }
    let pieces = |header: &Header| match &header.pixels {
        Pixels::None => Vec::new(),
        Pixels::Plain { at, length, .. } => vec![(*at, *length)],
        Pixels::Fragments { pieces, .. } => pieces.clone(),
    };
    let (of_a, of_b) = (pieces(a), pieces(b));
    if of_a.len() != of_b.len() || of_a.iter().zip(&of_b).any(|(a, b)| a.1 != b.1) {
        return Ok(false);
    }
    let (one, other) = (Source::open(&a.path)?, Source::open(&b.path)?);
    let (mut left, mut right) = (vec![0; PIECE], vec![0; PIECE]);
    for (&(from_a, length), &(from_b, _)) in of_a.iter().zip(&of_b) {
        let (mut x, mut y) = (one.raw_with(from_a, PIECE)?, other.raw_with(from_b, PIECE)?);
        let mut rest = length;
        while rest > 0 {
            let now = usize::try_from(rest).unwrap_or(PIECE).min(PIECE);
            let m =
                read_full(&mut x, &mut left[..now]).map_err(|e| IoError::reading(&a.path, e))?;
            let n =
                read_full(&mut y, &mut right[..now]).map_err(|e| IoError::reading(&b.path, e))?;
            if m < now || n < now || left[..now] != right[..now] {
                return Ok(false);
            }
            rest -= now as u64;
        }
    }
    Ok(true)
}
