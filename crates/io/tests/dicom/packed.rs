//! Packed frames.

use crate::writer::*;
use voxalign_io::image::{Compression, read_info_from_bytes, read_volume_from_bytes};

const RLE: &str = "1.2.840.10008.1.2.5";
const JPEG_BASELINE: &str = "1.2.840.10008.1.2.4.50";
const JPEG_EXTENDED: &str = "1.2.840.10008.1.2.4.51";
const JPEG_LOSSLESS: &str = "1.2.840.10008.1.2.4.70";
const JPEG_2000: &str = "1.2.840.10008.1.2.4.90";

pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digit = |c: u8| (c as char).to_digit(16).unwrap() as u8;
    text.as_bytes().chunks(2).map(|c| digit(c[0]) << 4 | digit(c[1])).collect()
}

// 9 x 6 values, by imagecodecs 2026: of x and y, `300 x + 17 y` in lossless JPEG of 12 bits
// (ljpeg_encode), `20 x + 9 y` in baseline JPEG (jpeg8_encode, level 90), and `37 x - 91 y - 100`,
// 40 times that, and `300 x + 17 y` in JPEG 2000 of signed 12, signed 16 and unsigned 12 bits
// (jpeg2k_encode, reversible).
pub(crate) const LOSSLESS: &str = "\
    ffd8ffc4001700010101010000000000000000000000000409050cffc3000b0c0006000901001100ffda000801\
    0000060000e7ff00a594b29652ca594b29652cd14a5294a529d14a5294a529d14a5294a529d14a5294a529d14a\
    5294a529ffd9";
pub(crate) const BASELINE: &str = "\
    ffd8ffe000104a46494600010100000100010000ffdb0043000302020302020303030304030304050805050404\
    050a070706080c0a0c0c0b0a0b0b0d0e12100d0e110e0b0b1016101113141515150c0f171816141812141514ff\
    c0000b080006000901011100ffc4001f0000010501010101010100000000000000000102030405060708090a0b\
    ffc400b5100002010303020403050504040000017d01020300041105122131410613516107227114328191a108\
    2342b1c11552d1f02433627282090a161718191a25262728292a3435363738393a434445464748494a53545556\
    5758595a636465666768696a737475767778797a838485868788898a92939495969798999aa2a3a4a5a6a7a8a9\
    aab2b3b4b5b6b7b8b9bac2c3c4c5c6c7c8c9cad2d3d4d5d6d7d8d9dae1e2e3e4e5e6e7e8e9eaf1f2f3f4f5f6f7\
    f8f9faffda0008010100003f00f2ff00d927e1fdb7fa172bdbb57de1ff000afedbd57f2affd9";
pub(crate) const SIGNED_12: &str = "\
    ff4fff5100290000000000090000000600000000000000000000000900000006000000000000000000018b0101\
    ff52000c00000001000004040001ff5c00044060ff640025000143726561746564206279204f70656e4a504547\
    2076657273696f6e20322e352e34ff90000a0000000000500001ff93c7ec7e46d5e3fa95b549871d51bcf9db34\
    bb9e52e213b4a15f504ee1d10ad7e6eb723f6a3776274c65371d4e514f8b73de80e3ff4167bc03802363ad5788\
    9c4042afffd9";
pub(crate) const UNSIGNED_12: &str = "\
    ff4fff5100290000000000090000000600000000000000000000000900000006000000000000000000010b0101\
    ff52000c00000001000004040001ff5c00044060ff640025000143726561746564206279204f70656e4a504547\
    2076657273696f6e20322e352e34ff90000a00000000005b0001ff93dfe128122b82889e5f9d2cc846b03d0d0e\
    99e1e1e65aab2c7723a27dff5fb201e158c43bd24fc81603da5e6d443b62afacf764a897fb6aed35775f387ac5\
    661782999c45d565f07a000000001fffd9";
pub(crate) const SIGNED_16: &str = "\
    ff4fff5100290000000000090000000600000000000000000000000900000006000000000000000000018f0101\
    ff52000c00000001000004040001ff5c00044080ff640025000143726561746564206279204f70656e4a504547\
    2076657273696f6e20322e352e34ff90000a0000000000630001ff93cffc314442ca69dfb41016eda285ef24b9\
    452814e6376262e4621a3bef212db40c77603c6f55ec924932d49b9b1f33283c90a74d2bb836186837ed31aabb\
    1df134bdd9e379b7c307b8046c75aaf1138808560ad9dfffd9";

/// A slice of 9 x 6 packed pixels: its frames, and the bits of values.
pub(crate) fn packed(bits: [u16; 3], signed: bool, frames: &[&[u8]]) -> Set {
    let [allocated, stored, high] = bits;
    let mut set = slice("1.2.3", 0, [0.0; 3]);
    set.insert(0x0028_0010, V::U16(vec![6]));
    set.insert(0x0028_0011, V::U16(vec![9]));
    set.insert(0x0028_0100, V::U16(vec![allocated]));
    set.insert(0x0028_0101, V::U16(vec![stored]));
    set.insert(0x0028_0102, V::U16(vec![high]));
    set.insert(0x0028_0103, V::U16(vec![u16::from(signed)]));
    let mut fragments = vec![Vec::new()];
    fragments.extend(frames.iter().map(|f| f.to_vec()));
    set.insert(0x7FE0_0010, V::Fragments(fragments));
    set
}

/// Run lengths of values: the segments of their bytes, the upper one first.
pub(crate) fn run_lengths(segments: &[Vec<u8>]) -> Vec<u8> {
    let mut head = vec![segments.len() as u32];
    let mut body = Vec::new();
    for segment in segments {
        head.push(64 + body.len() as u32);
        for piece in segment.chunks(5) {
            if piece.iter().all(|&b| b == piece[0]) && piece.len() > 1 {
                body.extend([(257 - piece.len()) as u8, piece[0]]);
            } else {
                body.push(piece.len() as u8 - 1);
                body.extend(piece);
            }
        }
        // No operation.
        body.push(128);
    }
    head.resize(16, 0);
    head.iter().flat_map(|v| v.to_le_bytes()).chain(body).collect()
}

fn read(set: &Set, syntax: &str) -> Vec<f32> {
    let (volume, _) = read_volume_from_bytes("a.dcm", &packed_file(set, syntax)).unwrap();
    volume.into_parts().1
}

fn message(set: &Set, syntax: &str) -> String {
    read_volume_from_bytes("a.dcm", &packed_file(set, syntax)).unwrap_err().to_string()
}

fn of(value: impl Fn(f32, f32) -> f32) -> Vec<f32> {
    (0..54).map(|i| value((i % 9) as f32, (i / 9) as f32)).collect()
}

#[test]
fn run_lengths_are_unpacked() {
    let values: Vec<i16> = (0..54).map(|i| if i < 20 { -7 } else { i * 100 - 3000 }).collect();
    let byte = |k: usize| values.iter().map(|v| v.to_be_bytes()[k]).collect::<Vec<u8>>();
    let frame = run_lengths(&[byte(0), byte(1)]);
    let expected: Vec<f32> = values.iter().map(|&v| f32::from(v)).collect();
    let set = packed([16, 16, 15], true, &[&frame]);
    assert_eq!(read(&set, RLE), expected);
    let info = read_info_from_bytes("a.dcm", &packed_file(&set, RLE)).unwrap();
    assert_eq!(info.compression, Compression::RunLengths);
    let small = run_lengths(&[byte(1)]);
    let expected: Vec<f32> = byte(1).iter().map(|&v| f32::from(v)).collect();
    assert_eq!(read(&packed([8, 8, 7], false, &[&small]), RLE), expected);
    let said = message(&packed([16, 16, 15], true, &[&small]), RLE);
    assert!(said.contains("1 segments instead of 2"), "{said}");
    let said = message(&packed([16, 16, 15], true, &[&frame[..frame.len() - 9]]), RLE);
    assert!(said.contains("values early"), "{said}");
}

#[test]
fn jpeg_is_unpacked() {
    let set = packed([16, 12, 11], false, &[&hex(LOSSLESS)]);
    assert_eq!(read(&set, JPEG_LOSSLESS), of(|x, y| 300.0 * x + 17.0 * y));
    let set = packed([8, 8, 7], false, &[&hex(BASELINE)]);
    let found = read(&set, JPEG_BASELINE);
    // With loss: libjpeg's sum is 5524, and its first values these.
    let near = of(|x, y| 20.0 * x + 9.0 * y);
    assert!(found.iter().zip(&near).all(|(a, b)| (a - b).abs() <= 3.0), "{found:?}");
    assert!((found.iter().sum::<f32>() - 5524.0).abs() <= 20.0, "{}", found.iter().sum::<f32>());
    // The same bytes where the header has other sizes.
    let mut other = set.clone();
    other.insert(0x0028_0010, V::U16(vec![7]));
    let said = message(&other, JPEG_BASELINE);
    assert!(said.contains("9 x 6 pixels, but the header says 9 x 7"), "{said}");
    let mut twelve = hex(BASELINE);
    let at = twelve.windows(2).position(|w| w == [0xFF, 0xC0]).unwrap();
    twelve[at + 1] = 0xC1;
    twelve[at + 4] = 12;
    let said = message(&packed([16, 12, 11], false, &[&twelve]), JPEG_EXTENDED);
    assert!(said.contains("JPEG with loss and 12 bits"), "{said}");
}

#[test]
fn jpeg_2000_is_unpacked() {
    let plane = of(|x, y| 37.0 * x - 91.0 * y - 100.0);
    let set = packed([16, 12, 11], true, &[&hex(SIGNED_12)]);
    assert_eq!(read(&set, JPEG_2000), plane);
    let set = packed([16, 16, 15], true, &[&hex(SIGNED_16)]);
    assert_eq!(read(&set, JPEG_2000), plane.iter().map(|v| v * 40.0).collect::<Vec<_>>());
    let set = packed([16, 12, 11], false, &[&hex(UNSIGNED_12)]);
    assert_eq!(read(&set, JPEG_2000), of(|x, y| 300.0 * x + 17.0 * y));
    // In the boxes of a JP2 file: signature, what it is, header, and the stream to the end.
    let mut boxed = b"\0\0\0\x0CjP  \r\n\x87\n\0\0\0\x14ftypjp2 \0\0\0\0jp2 ".to_vec();
    boxed.extend(b"\0\0\0\x0Djp2hnothe");
    for length in [[0; 4], (hex(UNSIGNED_12).len() as u32 + 8).to_be_bytes()] {
        let mut whole = boxed.clone();
        whole.extend(length);
        whole.extend(b"jp2c");
        whole.extend(hex(UNSIGNED_12));
        let set = packed([16, 12, 11], false, &[&whole]);
        assert_eq!(read(&set, JPEG_2000), of(|x, y| 300.0 * x + 17.0 * y));
        // Without the box of the stream, or cut within a box.
        for end in [boxed.len(), boxed.len() + 6, 30] {
            let set = packed([16, 12, 11], false, &[&whole[..end]]);
            assert!(message(&set, JPEG_2000).contains("does not begin as one"));
        }
    }
    let mut other = set.clone();
    other.insert(0x0028_0011, V::U16(vec![60_000]));
    assert!(message(&other, JPEG_2000).contains("9 x 6 pixels"));
    other.insert(0x0028_0010, V::U16(vec![60_000]));
    let said = message(&other, JPEG_2000);
    assert!(said.contains("bytes of packed frames cannot hold"), "{said}");
}

#[test]
fn frames_in_fragments() {
    let frame = hex(LOSSLESS);
    let plane = of(|x, y| 300.0 * x + 17.0 * y);
    // One frame in three fragments.
    let set = packed([16, 12, 11], false, &[&frame[..30], &frame[30..52], &frame[52..]]);
    assert_eq!(read(&set, JPEG_LOSSLESS), plane);
    // Two frames in three fragments need the table.
    let mut set = packed([16, 12, 11], false, &[&frame[..30], &frame[30..], &frame]);
    set.insert(0x0028_0008, is(2));
    set.insert(0x3004_000C, ds(&[0.0, 2.0]));
    let said = message(&set, JPEG_LOSSLESS);
    assert!(said.contains("2 frames are in 3 fragments without a table"), "{said}");
    let Some(V::Fragments(fragments)) = set.get_mut(&0x7FE0_0010) else { panic!() };
    fragments[0] = [0u32, (frame.len() + 16) as u32].iter().flat_map(|v| v.to_le_bytes()).collect();
    assert_eq!(read(&set, JPEG_LOSSLESS), [plane.clone(), plane].concat());
    set.insert(0x0028_0008, is(4));
    assert!(message(&set, JPEG_LOSSLESS).contains("4 frames are expected, but there are 3"));
}

#[test]
fn other_packing_is_refused() {
    let set = packed([16, 12, 11], false, &[&[1, 2]]);
    for (syntax, what) in [
        ("1.2.840.10008.1.2.4.80", "JPEG-LS"),
        ("1.2.840.10008.1.2.4.201", "high-throughput JPEG 2000"),
        ("1.2.840.10008.1.2.4.103", "a video"),
        ("1.2.840.113619.5.2", "its maker's own"),
    ] {
        let said = message(&set, syntax);
        assert!(said.contains(what) && said.contains("gdcmconv"), "{said}");
    }
    assert!(message(&set, "1.2.840.10008.1.2.1").contains("not compressed"));
    let plain = slice("1.2.3", 0, [0.0; 3]);
    assert!(message(&plain, RLE).contains("not in fragments"));
}
