//! Damaged files: an error or values, and never a panic.

use crate::packed::*;
use crate::writer::*;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use voxalign_io::image::{read_info_from_bytes, read_labels_from_bytes, read_volume_from_bytes};

/// Files of all kinds.
fn samples() -> Vec<Vec<u8>> {
    let plain = slice("1.2.3", 0, [1.0, 2.0, 3.0]);
    let mut nested = plain.clone();
    let place = Set::from([(0x0020_0032, ds(&[1.0, 2.0, 3.0]))]);
    let frame = Set::from([(0x0020_9113, V::Items(vec![place], false))]);
    nested.insert(0x5200_9230, V::Items(vec![frame], true));
    nested.insert(0x0018_9082, V::F64(vec![1.5]));
    let mut files: Vec<Vec<u8>> =
        [Form::Explicit, Form::Implicit, Form::Big, Form::Deflated, Form::Bare]
            .iter()
            .flat_map(|&form| [file(&plain, form), file(&nested, form)])
            .collect();
    let rle = run_lengths(&[vec![0; 54], (0..54).collect()]);
    for (syntax, bytes, bits) in [
        ("1.2.840.10008.1.2.5", rle, [16, 16, 15]),
        ("1.2.840.10008.1.2.4.50", hex(BASELINE), [8, 8, 7]),
        ("1.2.840.10008.1.2.4.70", hex(LOSSLESS), [16, 12, 11]),
        ("1.2.840.10008.1.2.4.90", hex(UNSIGNED_12), [16, 12, 11]),
        ("1.2.840.10008.1.2.4.90", hex(SIGNED_16), [16, 16, 15]),
    ] {
        files.push(packed_file(&packed(bits, false, &[&bytes]), syntax));
    }
    files
}

/// Reads in every way; errors have to name the file.
fn read(bytes: &[u8]) -> bool {
    let results = [
        read_info_from_bytes("a.dcm", bytes).err(),
        read_labels_from_bytes("a.dcm", bytes).err(),
        read_volume_from_bytes("a.dcm", bytes).err(),
    ];
    let read = results[2].is_none();
    for error in results.into_iter().flatten() {
        let message = error.to_string();
        assert!(message.contains("a.dcm") && message.len() < 1000, "{message}");
    }
    read
}

#[test]
fn every_cut_is_read_or_refused() {
    for bytes in samples() {
        assert!(read(&bytes));
        for n in 0..bytes.len() {
            read(&bytes[..n]);
        }
        assert!(!read(&bytes[..bytes.len() - 24]));
    }
}

#[test]
fn flipped_bits_are_read_or_refused() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let rounds = std::env::var("VOXALIGN_FLIPS").ok().and_then(|n| n.parse().ok()).unwrap_or(400);
    for bytes in samples() {
        // After the preamble, which says nothing.
        let flips = prop::collection::vec((0..bytes.len(), any::<u8>()), 1..4);
        for _ in 0..rounds {
            let mut damaged = bytes.clone();
            for (at, value) in flips.new_tree(&mut runner).unwrap().current() {
                damaged[at] ^= value;
            }
            read(&damaged);
        }
    }
}

#[test]
fn every_byte_of_a_header_may_be_any_extreme() {
    for bytes in samples() {
        for at in 128..bytes.len() {
            for value in [0, 0x7F, 0x80, 0xFF] {
                let mut damaged = bytes.clone();
                damaged[at] = value;
                read(&damaged);
            }
        }
    }
}

#[test]
fn depth_and_claims_are_bounded() {
    let head = meta("1.2.840.10008.1.2.1");
    let open = |tag: [u8; 4]| {
        let mut bytes = tag.to_vec();
        bytes.extend(b"SQ\0\0\xFF\xFF\xFF\xFF\xFE\xFF\x00\xE0\xFF\xFF\xFF\xFF");
        bytes
    };
    // Half a million sequences in each other, of a kind that is looked at and of one that is not.
    for tag in [[0x18, 0, 0x14, 0x91], [0x08, 0, 0x40, 0x11]] {
        let bytes = [head.clone(), open(tag).repeat(500_000)].concat();
        let said = read_info_from_bytes("a.dcm", &bytes).unwrap_err().to_string();
        assert!(said.contains("deep in each other"), "{said}");
    }
    // A value of nearly 4 GiB in a file of 200 bytes.
    let mut bytes = head;
    bytes.extend(b"\x08\x00\x05\x00UT\0\0\x00\x00\x00\xF0");
    let said = read_info_from_bytes("a.dcm", &bytes).unwrap_err().to_string();
    assert!(said.contains("ends early"), "{said}");
}
