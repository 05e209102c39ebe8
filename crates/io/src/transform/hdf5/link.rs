//! A link of a group: a name and the address of an object.

use super::input::{Cursor, Outcome};
use std::collections::BTreeMap;

/// Names and addresses.
pub(super) type Links = BTreeMap<String, u64>;

/// Adds the link of a message.
pub(super) fn link(message: &[u8], links: &mut Links) -> Outcome<()> {
    let mut c = Cursor::new(message);
    c.expect(&[1], "link of version 1")?;
    let flags = c.byte()?;
    let target = if flags & 8 != 0 { c.byte()? } else { 0 };
    if flags & 4 != 0 {
        c.skip(8)?;
    }
    if flags & 16 != 0 {
        c.skip(1)?;
    }
    let len = c.number(1 << (flags & 3))?;
    let name = c.take(usize::try_from(len).unwrap_or(usize::MAX))?;
    if target == 0 {
        links.insert(String::from_utf8_lossy(name).into_owned(), c.eight()?);
    }
    Ok(())
}
