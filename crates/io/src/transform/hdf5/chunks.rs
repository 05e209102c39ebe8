//! Locating the chunks of a one-dimensional dataset.

use super::group::Node;
use super::input::{Cursor, Input, Outcome, UNDEFINED, damaged, unsupported};
use voxalign_image::memory;

/// Largest number of levels of a tree.
const DEEPEST: usize = 16;

/// A chunk as it is stored.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chunk {
    pub(super) address: u64,
    /// Bytes in the file.
    pub(super) size: u64,
    /// A bit for each filter that was left out.
    pub(super) mask: u32,
}

/// Values in each chunk, and the chunks in their order; `c` is behind the class of the layout.
/// `[count, size]` are the number of values and the bytes of each.
pub(super) fn read(
    input: &Input<'_>,
    c: &mut Cursor<'_>,
    version: u8,
    [count, size]: [u64; 2],
    packed: bool,
) -> Outcome<(u64, Vec<Chunk>)> {
    let (flags, rank, bytes) = match version {
        3 => (0, c.byte()?, 4),
        _ => (c.byte()?, c.byte()?, usize::from(c.byte()?)),
    };
    if rank != 2 {
        return damaged(format!("chunks of {} axes instead of one", i32::from(rank) - 1));
    }
    let tree = if version == 3 { c.eight()? } else { 0 };
    let length = c.number(bytes)?;
    let stored_size = c.number(bytes)?;
    let plain = length.checked_mul(size).filter(|&n| n > 0 && stored_size == size);
    let Some(plain) = plain else {
        return damaged(format!("chunks of {length} values of {stored_size} bytes"));
    };
    let many = count.div_ceil(length);
    if many == 0 {
        return Ok((length, Vec::new()));
    }
    // Each has an address at least, but where they lie one after the other.
    let holds = |chunks: u64| {
        if chunks <= input.length() / 8 {
            return Ok(());
        }
        damaged(format!("{chunks} chunks are more than the file has room for"))
    };
    let whole = |address: u64| Chunk { address, size: plain, mask: 0 };
    let all = if version == 3 {
        holds(many)?;
        let mut found = memory::filled(many as usize, None)?;
        branch(input, tree, length, DEEPEST, &mut found)?;
        found.into_iter().collect()
    } else {
        match c.byte()? {
            1 if many > 1 => return damaged("one chunk is too small for all values"),
            1 if flags & 2 != 0 => {
                let (size, mask) = (c.eight()?, c.four()?);
                Some(vec![Chunk { address: c.eight()?, size, mask }])
            }
            1 => Some(vec![whole(c.eight()?)]),
            2 => {
                let address = c.eight()?;
                input.holds(address, many.saturating_mul(plain))?;
                holds(many)?;
                Some((0..many).map(|i| whole(address + i * plain)).collect())
            }
            3 => {
                c.skip(1)?;
                holds(many)?;
                let stored = array(input, c.eight()?, many, packed)?;
                Some(stored.into_iter().map(|s| s.unwrap_or_else(whole)).collect())
            }
            index => {
                return unsupported(format!(
                    "its chunks are listed by HDF5's index {index}, as where a dataset can grow"
                ));
            }
        }
    };
    let all: Option<Vec<Chunk>> = all;
    match all {
        Some(chunks) if chunks.iter().all(|chunk| chunk.address != UNDEFINED) => {
            Ok((length, chunks))
        }
        _ => damaged("some of its values were never written"),
    }
}

/// Finds the chunks of a tree of version 1.
fn branch(
    input: &Input<'_>,
    tree: u64,
    length: u64,
    levels: usize,
    found: &mut [Option<Chunk>],
) -> Outcome<()> {
    let node = Node::read(input, tree, 1, 24)?;
    for (key, address) in node.children {
        if node.level > 0 {
            if levels == 0 {
                return damaged("a list of chunks has too many levels");
            }
            branch(input, address, length, levels - 1, found)?;
            continue;
        }
        let mut c = Cursor::new(&key);
        let (size, mask, first) = (u64::from(c.four()?), c.four()?, c.eight()?);
        let place = usize::try_from(first / length).ok().and_then(|i| found.get_mut(i));
        match place {
            Some(place) if first % length == 0 => *place = Some(Chunk { address, size, mask }),
            _ => return damaged(format!("there is a chunk at the value {first}")),
        }
    }
    Ok(())
}

/// The entries of a fixed array: chunks, or the addresses of whole ones.
fn array(
    input: &Input<'_>,
    address: u64,
    many: u64,
    packed: bool,
) -> Outcome<Vec<Result<Chunk, u64>>> {
    let head = input.checked(address, 28, b"FAHD")?;
    let mut c = Cursor::new(&head);
    c.expect(&[0, u8::from(packed)], "list of chunks")?;
    let entry = usize::from(c.byte()?);
    let bits = u32::from(c.byte()?);
    let (count, block) = (c.eight()?, c.eight()?);
    let smallest = if packed { 13 } else { 8 };
    if count < many || !(smallest..=20).contains(&entry) || !(1..=32).contains(&bits) {
        return damaged(format!(
            "a list of {count} chunks with {entry} bytes and {bits} bits each"
        ));
    }
    let page = 1u64 << bits;
    let paged = count > page;
    let pages = count.div_ceil(page);
    // Signature, version, kind and the address of the header.
    let before = 14u64;
    let mut bytes = Vec::new();
    if paged {
        let map = pages.div_ceil(8);
        input.checked(block, before + map + 4, b"FADB")?;
        let mut at = block + before + map + 4;
        for i in 0..pages {
            let len = (count - i * page).min(page).saturating_mul(entry as u64);
            let piece = input.piece(at, len.saturating_add(4))?;
            let (body, sum) = piece.split_at(piece.len() - 4);
            if super::checksum::lookup3(body).to_le_bytes() != sum {
                return damaged("the checksum of a list of chunks is wrong");
            }
            bytes.extend_from_slice(body);
            at += len + 4;
        }
    } else {
        let len = before.saturating_add(count.saturating_mul(entry as u64)).saturating_add(4);
        bytes.extend_from_slice(&input.checked(block, len, b"FADB")?[before as usize - 4..]);
    }
    let mut c = Cursor::new(&bytes);
    let mut all = Vec::new();
    for _ in 0..many {
        let address = c.eight()?;
        all.push(if packed {
            let size = c.number(entry - 12)?;
            Ok(Chunk { address, size, mask: c.four()? })
        } else {
            Err(address)
        });
    }
    Ok(all)
}
