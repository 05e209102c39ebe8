//! The superblock, and headers of objects (groups and datasets): lists of messages.

use super::input::{Cursor, Input, Outcome, check, damaged, unsupported};

/// The signature at the beginning of a file.
pub(super) const SIGNATURE: [u8; 8] = *b"\x89HDF\r\n\x1a\n";

/// Kinds of messages.
pub(super) mod kind {
    pub(crate) const DATASPACE: u16 = 0x01;
    pub(crate) const LINK_INFO: u16 = 0x02;
    pub(crate) const DATATYPE: u16 = 0x03;
    pub(crate) const FILL_VALUE: u16 = 0x05;
    pub(crate) const LINK: u16 = 0x06;
    pub(crate) const EXTERNAL: u16 = 0x07;
    pub(crate) const LAYOUT: u16 = 0x08;
    pub(crate) const GROUP_INFO: u16 = 0x0a;
    pub(crate) const FILTERS: u16 = 0x0b;
    pub(crate) const CONTINUATION: u16 = 0x10;
    pub(crate) const SYMBOL_TABLE: u16 = 0x11;
}

/// A message of an object's header.
pub(super) struct Message {
    kind: u16,
    shared: bool,
    data: Vec<u8>,
}

/// The header of an object.
pub(super) struct Object {
    messages: Vec<Message>,
}

/// The address of the root group.
pub(super) fn root(input: &Input<'_>) -> Outcome<u64> {
    let head = input.piece(0, 16)?;
    let mut c = Cursor::new(&head);
    if c.take(8)? != SIGNATURE {
        return damaged(
            "its first bytes are not those of an HDF5 file any more, as after a copy in text mode",
        );
    }
    let version = c.byte()?;
    let (sizes_at, body_at, end) = match version {
        0 => (13, 24, 96),
        1 => (13, 28, 100),
        2 | 3 => (9, 12, 48),
        _ => return unsupported(format!("HDF5 superblocks of version {version} are not known")),
    };
    if head[sizes_at] != 8 || head[sizes_at + 1] != 8 {
        return unsupported(format!(
            "HDF5 files with addresses of {} and lengths of {} bytes are not read",
            head[sizes_at],
            head[sizes_at + 1]
        ));
    }
    let block = input.piece(0, end)?;
    if version >= 2 {
        check(&block, b"\x89HDF", 0)?;
    }
    let mut c = Cursor::new(&block);
    c.skip(body_at)?;
    let base = c.eight()?;
    c.eight()?;
    let length = c.eight()?;
    if base != 0 {
        return unsupported(format!("the HDF5 data begin at byte {base}"));
    }
    // Old files end where their last part does, which may be before the end of the file.
    input.holds(0, length)?;
    if version < 2 {
        c.skip(8)?;
        // The entry of the root group: its name, then its header.
        c.skip(8)?;
    }
    c.eight()
}

impl Object {
    /// The header at an address.
    pub(super) fn read(input: &Input<'_>, address: u64) -> Outcome<Object> {
        let start = input.piece(address, 6)?;
        if start.starts_with(b"OHDR") {
            Self::read_new(input, address)
        } else if start.starts_with(&[1]) {
            Self::read_old(input, address)
        } else {
            damaged(format!("there is no object at byte {address}"))
        }
    }

    fn read_old(input: &Input<'_>, address: u64) -> Outcome<Object> {
        let head = input.piece(address, 16)?;
        let mut c = Cursor::new(&head[2..12]);
        let count = usize::from(c.two()?);
        c.skip(4)?;
        let size = u64::from(c.four()?);
        let mut messages: Vec<Message> = Vec::new();
        let mut blocks = vec![(address + 16, size)];
        let mut seen = 0;
        while let Some((at, len)) = blocks.pop() {
            let block = input.piece(at, len)?;
            let mut c = Cursor::new(&block);
            while c.left() >= 8 && seen < count {
                let kind = c.two()?;
                let len = usize::from(c.two()?);
                let flags = c.byte()?;
                c.skip(3)?;
                let data = c.take(len)?;
                seen += 1;
                push(&mut messages, &mut blocks, kind, flags, data)?;
            }
        }
        Ok(Object { messages })
    }

    fn read_new(input: &Input<'_>, address: u64) -> Outcome<Object> {
        let flags = input.piece(address, 6)?[5];
        let times = if flags & 0x20 != 0 { 16 } else { 0 };
        let phase = if flags & 0x10 != 0 { 4 } else { 0 };
        let size_len = 1usize << (flags & 3);
        let prefix = 6 + times + phase + size_len;
        let head = input.piece(address, prefix as u64)?;
        if head[4] != 2 {
            return unsupported(format!("HDF5 objects of version {} are not known", head[4]));
        }
        let size = Cursor::new(&head[prefix - size_len..]).number(size_len)?;
        let mut messages: Vec<Message> = Vec::new();
        let mut blocks = vec![(address, size.saturating_add(prefix as u64 + 4), prefix)];
        while let Some((at, len, skip)) = blocks.pop() {
            let block = input.piece(at, len)?;
            check(&block, if skip == 4 { b"OCHK" } else { b"OHDR" }, at)?;
            let mut c = Cursor::new(&block[..block.len() - 4]);
            c.skip(skip)?;
            let mut more = Vec::new();
            let order = if flags & 4 != 0 { 2 } else { 0 };
            // A rest that is too short for a message is a gap.
            while c.left() >= 4 + order {
                let kind = u16::from(c.byte()?);
                let len = usize::from(c.two()?);
                let flags = c.byte()?;
                c.skip(order)?;
                push(&mut messages, &mut more, kind, flags, c.take(len)?)?;
            }
            blocks.extend(more.into_iter().map(|(at, len)| (at, len, 4)));
        }
        Ok(Object { messages })
    }

    /// All messages of a kind.
    pub(super) fn all(&self, kind: u16) -> impl Iterator<Item = Outcome<&[u8]>> {
        self.messages.iter().filter(move |m| m.kind == kind).map(|m| {
            if m.shared {
                return unsupported("it shares parts of headers, which is not read");
            }
            Ok(&m.data[..])
        })
    }

    /// The first message of a kind.
    pub(super) fn first(&self, kind: u16) -> Outcome<Option<&[u8]>> {
        self.all(kind).next().transpose()
    }
}

/// Keeps a message, or the address and size of the block in which more of them are.
fn push(
    messages: &mut Vec<Message>,
    blocks: &mut Vec<(u64, u64)>,
    kind: u16,
    flags: u8,
    data: &[u8],
) -> Outcome<()> {
    if kind == self::kind::CONTINUATION {
        let mut c = Cursor::new(data);
        blocks.push((c.eight()?, c.eight()?));
    } else {
        messages.push(Message { kind, shared: flags & 2 != 0, data: data.to_vec() });
    }
    Ok(())
}
