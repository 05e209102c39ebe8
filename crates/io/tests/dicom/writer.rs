//! Writes DICOM files for the tests.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// A value.
#[derive(Debug, Clone)]
pub(crate) enum V {
    Text(&'static [u8; 2], String),
    U16(Vec<u16>),
    F64(Vec<f64>),
    /// Items of a sequence, with or without written lengths.
    Items(Vec<Set>, bool),
    Bytes(&'static [u8; 2], Vec<u8>),
    /// Fragments of packed pixels; the first is the table of offsets.
    Fragments(Vec<Vec<u8>>),
}

pub(crate) type Set = BTreeMap<u32, V>;

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Form {
    Explicit,
    Implicit,
    Big,
    Deflated,
    /// Without the part before the data set.
    Bare,
    BareImplicit,
}

pub(crate) fn ds(numbers: &[f64]) -> V {
    V::Text(b"DS", numbers.iter().map(|v| v.to_string()).collect::<Vec<_>>().join("\\"))
}

pub(crate) fn is(number: i64) -> V {
    V::Text(b"IS", number.to_string())
}

pub(crate) fn text(value: &str) -> V {
    V::Text(b"LO", value.into())
}

pub(crate) const ROWS: usize = 3;
pub(crate) const COLUMNS: usize = 4;
pub(crate) const AXIAL: [f64; 6] = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0];

/// The value of a pixel of slice `k` as it is stored.
pub(crate) fn stored(x: usize, y: usize, k: usize) -> i16 {
    (x + 10 * y + 100 * k) as i16 - 50
}

/// The bytes of slice `k`, little-endian.
pub(crate) fn pixels(k: usize) -> Vec<u8> {
    let at = |i: usize| stored(i % COLUMNS, i / COLUMNS, k);
    (0..ROWS * COLUMNS).flat_map(|i| at(i).to_le_bytes()).collect()
}

/// An axial slice of 4 x 3 pixels of 0.5 x 2 mm, whose first pixel is at `position` in LPS.
pub(crate) fn slice(series: &str, k: usize, position: [f64; 3]) -> Set {
    Set::from([
        (0x0008_0018, V::Text(b"UI", format!("{series}.{k}"))),
        (0x0008_0060, V::Text(b"CS", "CT".into())),
        (0x0008_103E, text("made for a test")),
        (0x0020_000E, V::Text(b"UI", series.into())),
        (0x0020_0011, is(1)),
        (0x0020_0013, is(k as i64)),
        (0x0020_0032, ds(&position)),
        (0x0020_0037, ds(&AXIAL)),
        (0x0028_0002, V::U16(vec![1])),
        (0x0028_0004, V::Text(b"CS", "MONOCHROME2".into())),
        (0x0028_0010, V::U16(vec![ROWS as u16])),
        (0x0028_0011, V::U16(vec![COLUMNS as u16])),
        (0x0028_0030, ds(&[2.0, 0.5])),
        (0x0028_0100, V::U16(vec![16])),
        (0x0028_0101, V::U16(vec![16])),
        (0x0028_0102, V::U16(vec![15])),
        (0x0028_0103, V::U16(vec![1])),
        (0x7FE0_0010, V::Bytes(b"OW", pixels(k))),
    ])
}

/// The slices of an even stack along z, 3 mm apart.
pub(crate) fn stack(series: &str, count: usize) -> Vec<Set> {
    (0..count).map(|k| slice(series, k, [-10.0, -20.0, 30.0 + 3.0 * k as f64])).collect()
}

fn put(out: &mut Vec<u8>, tag: u32, kind: &[u8; 2], length: u32, form: Form) {
    let big = form == Form::Big;
    let u16 = |v: u16| if big { v.to_be_bytes() } else { v.to_le_bytes() };
    let u32 = |v: u32| if big { v.to_be_bytes() } else { v.to_le_bytes() };
    out.extend(u16((tag >> 16) as u16));
    out.extend(u16(tag as u16));
    if matches!(form, Form::Implicit | Form::BareImplicit) || tag >> 16 == 0xFFFE {
        out.extend(u32(length));
        return;
    }
    out.extend(kind);
    if matches!(kind, b"OB" | b"OW" | b"OF" | b"OD" | b"SQ" | b"UN" | b"UT") {
        out.extend([0, 0]);
        out.extend(u32(length));
    } else {
        out.extend(u16(length as u16));
    }
}

pub(crate) fn encode(set: &Set, form: Form) -> Vec<u8> {
    let big = form == Form::Big;
    let mut out = Vec::new();
    for (&tag, value) in set {
        let (kind, mut bytes): (&[u8; 2], Vec<u8>) = match value {
            V::Text(kind, text) => (kind, text.clone().into_bytes()),
            V::U16(v) => (
                b"US",
                v.iter()
                    .flat_map(|v| if big { v.to_be_bytes() } else { v.to_le_bytes() })
                    .collect(),
            ),
            V::F64(v) => (
                b"FD",
                v.iter()
                    .flat_map(|v| if big { v.to_be_bytes() } else { v.to_le_bytes() })
                    .collect(),
            ),
            V::Bytes(kind, bytes) => {
                let mut bytes = bytes.clone();
                if big && *kind == b"OW" {
                    bytes.chunks_exact_mut(2).for_each(<[u8]>::reverse);
                }
                (kind, bytes)
            }
            V::Items(items, lengths) => {
                let mut bytes = Vec::new();
                for item in items {
                    let inner = encode(item, form);
                    let length = if *lengths { inner.len() as u32 } else { u32::MAX };
                    put(&mut bytes, 0xFFFE_E000, b"UN", length, form);
                    bytes.extend(inner);
                    if !lengths {
                        put(&mut bytes, 0xFFFE_E00D, b"UN", 0, form);
                    }
                }
                if !lengths {
                    put(&mut bytes, 0xFFFE_E0DD, b"UN", 0, form);
                    put(&mut out, tag, b"SQ", u32::MAX, form);
                    out.extend(bytes);
                    continue;
                }
                (b"SQ", bytes)
            }
            V::Fragments(fragments) => {
                put(&mut out, tag, b"OB", u32::MAX, form);
                for fragment in fragments {
                    let odd = fragment.len() % 2;
                    put(&mut out, 0xFFFE_E000, b"UN", (fragment.len() + odd) as u32, form);
                    out.extend(fragment);
                    out.extend(vec![0; odd]);
                }
                put(&mut out, 0xFFFE_E0DD, b"UN", 0, form);
                continue;
            }
        };
        if bytes.len() % 2 == 1 {
            bytes.push(if kind == b"UI" || kind == b"OB" { 0 } else { b' ' });
        }
        put(&mut out, tag, kind, bytes.len() as u32, form);
        out.extend(bytes);
    }
    out
}

/// The bytes of a file.
pub(crate) fn file(set: &Set, form: Form) -> Vec<u8> {
    let syntax = match form {
        Form::Bare | Form::BareImplicit => return encode(set, form),
        Form::Explicit => "1.2.840.10008.1.2.1",
        Form::Implicit => "1.2.840.10008.1.2",
        Form::Big => "1.2.840.10008.1.2.2",
        Form::Deflated => "1.2.840.10008.1.2.1.99",
    };
    let mut body = encode(set, form);
    if form == Form::Deflated {
        let level = flate2::Compression::default();
        let mut packer = flate2::write::DeflateEncoder::new(Vec::new(), level);
        packer.write_all(&body).unwrap();
        body = packer.finish().unwrap();
    }
    [meta(syntax), body].concat()
}

/// As [`file`], with a transfer syntax of packed pixels.
pub(crate) fn packed_file(set: &Set, syntax: &str) -> Vec<u8> {
    [meta(syntax), encode(set, Form::Explicit)].concat()
}

/// What is before the data set.
pub(crate) fn meta(syntax: &str) -> Vec<u8> {
    let uid = V::Text(b"UI", syntax.into());
    let rest = encode(&Set::from([(0x0002_0010, uid)]), Form::Explicit);
    let mut out = vec![0; 128];
    out.extend(b"DICM");
    put(&mut out, 0x0002_0000, b"UL", 4, Form::Explicit);
    out.extend((rest.len() as u32).to_le_bytes());
    out.extend(rest);
    out
}

/// Writes the files of a series, named by `name` and in the reverse order of their slices.
pub(crate) fn write(folder: &Path, name: &str, sets: &[Set], form: Form) -> Vec<PathBuf> {
    let last = sets.len() - 1;
    sets.iter()
        .enumerate()
        .map(|(k, set)| {
            let path = folder.join(format!("{name}{:03}.dcm", last - k));
            std::fs::write(&path, file(set, form)).unwrap();
            path
        })
        .collect()
}
