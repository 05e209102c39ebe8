//! Groups with many links: the names are in a fractal heap, and a tree of version 2 lists them.
//!
//! HDF5 has groups of more than eight members so, which is a composite of eight transforms.

use super::input::{Cursor, Input, Outcome, UNDEFINED, damaged, unsupported};
use super::link::{Links, link};

/// Largest number of levels of a tree or a heap.
const DEEPEST: u16 = 16;

/// Size of a record of the tree: the hash of a name and where it is in the heap.
const RECORD: usize = 11;
/// Bytes of a node of the tree that are not records: signature, version, kind and checksum.
const AROUND: u64 = 10;

/// Adds the links of the heap that a tree lists.
pub(super) fn links(input: &Input<'_>, heap: u64, tree: u64, links: &mut Links) -> Outcome<()> {
    let heap = Heap::read(input, heap)?;
    let tree = Tree::read(input, tree)?;
    let mut found = Vec::new();
    tree.records(tree.root, tree.count, tree.depth, &mut found)?;
    for id in found {
        link(&heap.object(&id)?, links)?;
    }
    Ok(())
}

/// The number of bytes that any number up to `limit` fits into.
fn bytes_for(limit: u64) -> usize {
    (limit.max(1).ilog2() / 8 + 1) as usize
}

/// A tree of version 2.
struct Tree<'i, 'a> {
    input: &'i Input<'a>,
    node: u64,
    depth: u16,
    root: u64,
    count: u64,
    /// Sizes of the numbers that say how many records a child has, and for each level how many are
    /// below it.
    own: usize,
    below: Vec<usize>,
}

impl<'i, 'a> Tree<'i, 'a> {
    fn read(input: &'i Input<'a>, address: u64) -> Outcome<Self> {
        let head = input.checked(address, 38, b"BTHD")?;
        let mut c = Cursor::new(&head);
        c.expect(&[0, 5], "tree of names")?;
        let node = u64::from(c.four()?);
        let record = usize::from(c.two()?);
        let depth = c.two()?;
        c.skip(2)?;
        let (root, count) = (c.eight()?, u64::from(c.two()?));
        if record != RECORD || depth > DEEPEST || node < 64 {
            return damaged(format!(
                "a tree of names has {depth} levels and nodes of {node} bytes with records of {record}"
            ));
        }
        let leaf = (node - AROUND) / RECORD as u64;
        let own = bytes_for(leaf);
        // As the format has it: what fits into a node of each level, and into all below.
        let mut below = vec![0];
        let mut all = leaf;
        for _ in 0..depth {
            let pointer = (8 + own + below.last().copied().unwrap_or(0)) as u64;
            let here = node.saturating_sub(AROUND + pointer) / (RECORD as u64 + pointer);
            all = (here + 1).saturating_mul(all).saturating_add(here);
            below.push(bytes_for(all));
        }
        Ok(Self { input, node, depth, root, count, own, below })
    }

    /// Adds the records of a node and of those below it.
    fn records(&self, at: u64, count: u64, depth: u16, out: &mut Vec<Vec<u8>>) -> Outcome<()> {
        if at == UNDEFINED || count == 0 {
            return Ok(());
        }
        let records = count * RECORD as u64;
        let level = usize::from(depth).saturating_sub(1);
        let below = self.below.get(level).copied().unwrap_or(0);
        let pointer = 8 + self.own + below;
        let pointers = if depth > 0 { (count + 1) * pointer as u64 } else { 0 };
        let size = AROUND + records + pointers;
        if size > self.node {
            return damaged(format!("a node of a tree of names has {count} records"));
        }
        let signature = if depth > 0 { b"BTIN" } else { b"BTLF" };
        let node = self.input.checked(at, size, signature)?;
        let mut c = Cursor::new(&node);
        c.expect(&[0, 5], "tree of names")?;
        for _ in 0..count {
            c.skip(4)?;
            out.push(c.take(RECORD - 4)?.to_vec());
        }
        if depth > 0 {
            for _ in 0..=count {
                let child = c.eight()?;
                let count = c.number(self.own)?;
                c.skip(below)?;
                self.records(child, count, depth - 1, out)?;
            }
        }
        Ok(())
    }
}

/// A fractal heap: its space is cut into blocks, whose sizes double from row to row of a table.
struct Heap<'i, 'a> {
    input: &'i Input<'a>,
    address: u64,
    /// Blocks in a row of the table.
    width: u64,
    /// Size of the first blocks, bytes.
    first: u64,
    /// Size above which a block is a table again.
    largest: u64,
    /// Sizes of the numbers for an offset within the heap and for a length.
    offset_len: usize,
    length_len: usize,
    root: u64,
    /// Rows of the first table; 0 where there is one block.
    rows: u64,
}

impl<'i, 'a> Heap<'i, 'a> {
    fn read(input: &'i Input<'a>, address: u64) -> Outcome<Self> {
        let head = input.piece(address, 146)?;
        // The piece without the word on filters, which is refused.
        let filters = Cursor::new(&head[7..9]).two()?;
        if filters != 0 {
            return unsupported("its names are compressed");
        }
        let head = input.checked(address, 146, b"FRHP")?;
        let mut c = Cursor::new(&head);
        c.expect(&[0], "heap of version 0")?;
        c.skip(5)?;
        let largest_object = u64::from(c.four()?);
        c.skip(96)?;
        let width = u64::from(c.two()?);
        let (first, largest) = (c.eight()?, c.eight()?);
        let bits = usize::from(c.two()?);
        c.skip(2)?;
        let (root, rows) = (c.eight()?, u64::from(c.two()?));
        let sizes = [width, first, largest];
        if !sizes.iter().all(|s| s.is_power_of_two()) || largest < first || bits > 64 {
            return damaged(format!("a heap of names has the sizes {sizes:?} and {bits} bits"));
        }
        let length_len = (largest.ilog2() as usize).div_ceil(8).min(bytes_for(largest_object));
        let offset_len = bits.div_ceil(8);
        Ok(Self { input, address, width, first, largest, offset_len, length_len, root, rows })
    }

    /// The object of an identifier.
    fn object(&self, id: &[u8]) -> Outcome<Vec<u8>> {
        let mut c = Cursor::new(id);
        let flags = c.byte()?;
        if flags & 0xf0 != 0 {
            return unsupported("it has names of an unusual length");
        }
        let offset = c.number(self.offset_len)?;
        let len = c.number(self.length_len)?;
        if self.rows == 0 {
            return self.in_block(self.root, self.first, offset, len);
        }
        self.in_table(self.root, self.rows, offset, len, DEEPEST)
    }

    /// An object of a block.
    fn in_block(&self, block: u64, size: u64, offset: u64, len: u64) -> Outcome<Vec<u8>> {
        if self.input.piece(block, 4)? != b"FHDB" || offset.saturating_add(len) > size {
            return damaged("a name is outside of its heap");
        }
        self.input.piece(block.saturating_add(offset), len)
    }

    /// An object within a table of blocks.
    fn in_table(
        &self,
        table: u64,
        rows: u64,
        offset: u64,
        len: u64,
        levels: u16,
    ) -> Outcome<Vec<u8>> {
        let outside = || damaged("a name is outside of its heap");
        // The row: those up to row r > 0 are 2^r times as long as the first.
        let line = self.width.saturating_mul(self.first);
        let row = match offset / line {
            0 => 0,
            lines => u64::from(lines.ilog2()) + 1,
        };
        let (start, size) = match row {
            0 => (0, self.first),
            _ => (line << (row - 1), self.first.checked_shl(row as u32 - 1).unwrap_or(0)),
        };
        if row >= rows || size == 0 || levels == 0 {
            return outside();
        }
        let column = (offset - start) / size;
        let within = offset - start - column * size;
        // All entries are addresses.
        let entries = self.width * 8;
        let before = 5 + 8 + self.offset_len as u64;
        let head = self.input.piece(table, before)?;
        let mut c = Cursor::new(&head);
        c.expect(b"FHIB\0", "table of a heap")?;
        if c.eight()? != self.address {
            return outside();
        }
        let at = table.saturating_add(before + row * entries + column * 8);
        let block = Cursor::new(&self.input.piece(at, 8)?).eight()?;
        if size <= self.largest {
            return self.in_block(block, size, within, len);
        }
        // The rows of a table within the table.
        let rows = u64::from((size / line).max(1).ilog2()) + 1;
        self.in_table(block, rows, within, len, levels - 1)
    }
}
