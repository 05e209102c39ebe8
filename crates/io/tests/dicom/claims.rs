//! Files that claim more than they hold: what is asked for by a claim is held against the bytes that are there.

use crate::writer::*;
use std::io::Write as _;
use std::time::{Duration, Instant};
use voxalign_io::image::read_info_from_bytes;

/// The message about bytes that are refused, soon.
fn refused(bytes: &[u8]) -> String {
    let start = Instant::now();
    let said = read_info_from_bytes("a.dcm", bytes).unwrap_err().to_string();
    assert!(start.elapsed() < Duration::from_secs(10), "{said}");
    assert!(said.contains("a.dcm") && said.len() < 1000, "{said}");
    said
}

/// A deflated file of these bytes of a data set.
fn deflated(body: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(body).unwrap();
    [meta("1.2.840.10008.1.2.1.99"), packer.finish().unwrap()].concat()
}

/// A slice of one pixel of 8 bits.
fn point() -> Set {
    let mut set = slice("1.2.3", 0, [0.0; 3]);
    for (tag, value) in [(0x10, 1), (0x11, 1), (0x100, 8), (0x101, 8), (0x102, 7), (0x103, 0)] {
        set.insert(0x0028_0000 + tag, V::U16(vec![value]));
    }
    set.insert(0x7FE0_0010, V::Bytes(b"OB", vec![0; 2]));
    set
}

#[test]
fn pixels_are_no_longer_than_deflate_can_make_of_the_file() {
    let mut set = point();
    set.insert(0x0028_0008, is(4_000_000_000));
    let mut body = encode(&set, Form::Explicit);
    // The length of the pixels, before their two bytes.
    let at = body.len() - 6;
    body[at..at + 4].copy_from_slice(&4_000_000_000u32.to_le_bytes());
    let said = refused(&deflated(&body));
    assert!(said.contains("the file ends early: "), "{said}");
}

#[test]
fn frames_are_no_more_than_a_file_of_its_size_has() {
    let mut set = point();
    set.insert(0x0028_0008, is(1_500_000));
    set.insert(0x7FE0_0010, V::Bytes(b"OB", vec![0; 1_500_000]));
    let said = refused(&deflated(&encode(&set, Form::Explicit)));
    assert!(said.contains("1500000 frames of 1 x 1 pixels, too many for a file of"), "{said}");
    // What each frame repeats of the header counts.
    set.insert(0x0028_0008, is(30_000));
    set.insert(0x7FE0_0010, V::Bytes(b"OB", vec![0; 30_000]));
    assert!(read_info_from_bytes("a.dcm", &deflated(&encode(&set, Form::Explicit))).is_err_and(
        // Frames without places are refused later.
        |e| e.to_string().contains("have no positions")
    ));
    set.insert(0x0018_0088, V::Text(b"DS", format!("{}3", " ".repeat(60_000))));
    let said = refused(&deflated(&encode(&set, Form::Explicit)));
    assert!(said.contains("30000 frames of 1 x 1 pixels, too many"), "{said}");
}

#[test]
fn long_texts_are_refused() {
    let mut set = slice("1.2.3", 0, [0.0; 3]);
    set.insert(0x0008_0008, V::Text(b"CS", "A".repeat(5000)));
    let said = refused(&file(&set, Form::Implicit));
    assert!(said.contains("the value of (0008,0008) has 5000 bytes"), "{said}");
}

#[test]
fn headers_are_no_longer_than_those_of_images() {
    // Empty items: 8 bytes each, of which deflate makes nearly none.
    let mut body = encode(&slice("1.2.3", 0, [0.0; 3]), Form::Explicit);
    body.truncate(body.len() - 12 - 24);
    body.extend(b"\x00\x52\x30\x92SQ\0\0\xFF\xFF\xFF\xFF");
    let items = b"\xFE\xFF\x00\xE0\0\0\0\0".repeat(3_000_000);
    let said = refused(&deflated(&[&body[..], &items].concat()));
    assert!(said.contains("the header of this file of") && said.contains("takes more"), "{said}");
    // A value that is not looked at, longer than any header.
    let mut long = body[..body.len() - 12].to_vec();
    long.extend(b"\x51\x00\x10\x10UN\0\0\0\0\0\x10");
    long.resize(long.len() + (1 << 28), 0);
    let said = refused(&deflated(&long));
    assert!(said.contains("the header of this file of") && said.contains("takes more"), "{said}");
}

#[test]
fn of_attributes_that_are_there_again_the_first_counts() {
    let mut body = encode(&slice("1.2.3", 0, [0.0; 3]), Form::Explicit);
    let pixels = body.split_off(body.len() - 12 - 24);
    // Values of 200 bytes, more than the program keeps of a file of this size.
    let mut again = b"\x28\x00\x30\x00DS\xC8\0".to_vec();
    again.resize(again.len() + 200, b' ');
    let bytes = deflated(&[body, again.repeat(330_000), pixels].concat());
    let info = read_info_from_bytes("a.dcm", &bytes).map_err(|e| e.to_string());
    assert_eq!(info.unwrap().grid.spacing()[..2], [0.5, 2.0]);
}

#[test]
fn images_of_thousands_of_spacings_are_listed_in_a_message_that_is_read() {
    let frame = |k: usize| {
        let spacing = Set::from([(0x0028_0030, ds(&[1.0005f64.powi(k as i32), 1.0]))]);
        Set::from([(0x0028_9110, V::Items(vec![spacing], true))])
    };
    let mut set = slice("1.2.3", 0, [0.0; 3]);
    set.insert(0x0028_0008, is(12_000));
    set.insert(0x5200_9230, V::Items((0..12_000).map(frame).collect(), true));
    set.insert(0x7FE0_0010, V::Bytes(b"OW", vec![0; 12_000 * 2 * ROWS * COLUMNS]));
    let start = Instant::now();
    let said = read_info_from_bytes("a.dcm", &file(&set, Form::Explicit)).unwrap_err().to_string();
    assert!(start.elapsed() < Duration::from_secs(10));
    assert!(
        said.contains("the series has images of 12000 sizes, directions or spacings"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 22);
    assert!(said.ends_with("\n  and 11980 more"), "{said}");
}

#[test]
fn controls_in_texts_are_shown_and_not_sent() {
    let folder = tempfile::tempdir().unwrap();
    for (k, series) in ["1.2.3", "1.2.4"].iter().enumerate() {
        let mut set = slice(series, k, [0.0; 3]);
        set.insert(0x0008_103E, text("red \x1b[31m\u{202E}\x07"));
        std::fs::write(folder.path().join(format!("{k}.dcm")), file(&set, Form::Explicit)).unwrap();
    }
    let said = voxalign_io::image::read_info(folder.path()).unwrap_err().to_string();
    assert!(said.contains(r"'red \u{1b}[31m\u{202e}\u{7}'"), "{said:?}");
    let said = voxalign_io::image::read_info(folder.path().join("0.dcm")).unwrap();
    assert_eq!(said.description, r"red \u{1b}[31m\u{202e}\u{7}");
    // In an error.
    let mut set = slice("1.2.3", 0, [0.0; 3]);
    set.insert(0x0008_0060, V::Text(b"CS", "\x1b[2J".into()));
    set.remove(&0x7FE0_0010);
    let said = refused(&file(&set, Form::Explicit));
    assert!(!said.contains('\x1b') && said.contains(r"\u{1b}[2J"), "{said:?}");
}

#[test]
fn long_values_are_cut_in_messages() {
    let mut set = slice("1.2.3", 0, [0.0; 3]);
    let many: Vec<f64> = (0..5000).map(|k| k as f64 + 0.5).collect();
    set.insert(0x0028_0030, ds(&many));
    let said = refused(&file(&set, Form::Implicit));
    assert!(
        said.contains("PixelSpacing (0028,0030) is [0.5, 1.5,") && said.contains('…'),
        "{said}"
    );
}
