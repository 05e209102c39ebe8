//! The members of a group: names and object addresses.
//!
//! Names are in messages of the group's header (few of them), in a heap of their own (many, see
//! [`dense`]), or, in older files, in a symbol table.

use super::dense;
use super::input::{Cursor, Input, Outcome, UNDEFINED, damaged};
use super::link::{Links, link};
use super::object::{Object, kind};

/// Largest number of levels of a tree.
const DEEPEST: usize = 16;

/// What the group at an address holds; links to elsewhere are left out.
pub(super) fn links(input: &Input<'_>, address: u64) -> Outcome<Links> {
    let object = Object::read(input, address)?;
    let mut links = Links::new();
    for message in object.all(kind::LINK) {
        link(message?, &mut links)?;
    }
    if let Some(message) = object.first(kind::LINK_INFO)? {
        let mut c = Cursor::new(message);
        c.skip(1)?;
        if c.byte()? & 1 != 0 {
            c.skip(8)?;
        }
        let (heap, tree) = (c.eight()?, c.eight()?);
        if heap != UNDEFINED {
            dense::links(input, heap, tree, &mut links)?;
        }
    }
    if let Some(message) = object.first(kind::SYMBOL_TABLE)? {
        let mut c = Cursor::new(message);
        let (tree, heap) = (c.eight()?, c.eight()?);
        let names = names(input, heap)?;
        symbols(input, tree, &names, DEEPEST, &mut links)?;
    }
    Ok(links)
}

/// The data of a local heap, in which names are.
fn names(input: &Input<'_>, heap: u64) -> Outcome<Vec<u8>> {
    let head = input.piece(heap, 32)?;
    let mut c = Cursor::new(&head);
    c.expect(b"HEAP\0", "heap of names")?;
    c.skip(3)?;
    let size = c.eight()?;
    c.skip(8)?;
    input.piece(c.eight()?, size)
}

/// Adds what the tree of a symbol table holds.
fn symbols(
    input: &Input<'_>,
    tree: u64,
    names: &[u8],
    levels: usize,
    links: &mut Links,
) -> Outcome<()> {
    let node = Node::read(input, tree, 0, 8)?;
    for (_, child) in node.children {
        if node.level == 0 {
            symbol_node(input, child, names, links)?;
        } else if levels > 0 {
            symbols(input, child, names, levels - 1, links)?;
        } else {
            return damaged("a table of names has too many levels");
        }
    }
    Ok(())
}

fn symbol_node(input: &Input<'_>, at: u64, names: &[u8], links: &mut Links) -> Outcome<()> {
    let head = input.piece(at, 8)?;
    let mut c = Cursor::new(&head);
    c.expect(b"SNOD\x01", "table of names")?;
    c.skip(1)?;
    let count = u64::from(c.two()?);
    let entries = input.piece(at + 8, count * 40)?;
    let mut c = Cursor::new(&entries);
    for _ in 0..count {
        let (name, address, cached) = (c.eight()?, c.eight()?, c.four()?);
        c.skip(20)?;
        let name = usize::try_from(name).ok().and_then(|at| names.get(at..));
        let Some(name) = name.and_then(|n| n.split(|&b| b == 0).next()) else {
            return damaged("a name is outside of its heap");
        };
        // 2 is a link by name.
        if cached != 2 {
            links.insert(String::from_utf8_lossy(name).into_owned(), address);
        }
    }
    Ok(())
}

/// A node of a tree of version 1: of a symbol table (kind 0) or of chunks (kind 1).
pub(super) struct Node {
    /// 0 for a leaf.
    pub(super) level: u8,
    /// The key before each child, and its address.
    pub(super) children: Vec<(Vec<u8>, u64)>,
}

impl Node {
    /// `key` is the size of a key, bytes.
    pub(super) fn read(input: &Input<'_>, address: u64, kind: u8, key: usize) -> Outcome<Node> {
        let head = input.piece(address, 24)?;
        let mut c = Cursor::new(&head);
        c.expect(b"TREE", "tree")?;
        c.expect(&[kind], "tree of this kind")?;
        let level = c.byte()?;
        let count = u64::from(c.two()?);
        let entries = input.piece(address + 24, count * (key as u64 + 8))?;
        let mut c = Cursor::new(&entries);
        let mut children = Vec::new();
        for _ in 0..count {
            children.push((c.take(key)?.to_vec(), c.eight()?));
        }
        Ok(Node { level, children })
    }
}
