//! Damaged files: an error or values, and never a panic.

use crate::packed::*;
use crate::writer::*;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use voxalign_io::image::{
    ReadOptions, open, read_info_from_bytes, read_labels_from_bytes, read_volume_from_bytes,
};

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

/// What makers write beside the standard, for which there is more than one file.
fn samples_of_makers() -> Vec<Vec<u8>> {
    let mut ge = slice("1.2.3", 0, [1.0, 2.0, 3.0]);
    ge.insert(0x0008_0060, V::Text(b"CS", "MR".into()));
    ge.insert(0x0008_0070, text("GE MEDICAL SYSTEMS"));
    ge.insert(0x0018_0022, V::Text(b"CS", "EPI_GEMS\\PFF".into()));
    ge.insert(0x0018_0080, ds(&[2000.0]));
    ge.insert(0x0018_1310, V::U16(vec![64, 0, 0, 64]));
    ge.insert(0x0018_1312, V::Text(b"CS", "COL".into()));
    ge.insert(0x0018_5100, V::Text(b"CS", "HFS".into()));
    ge.insert(0x0018_9034, V::Text(b"CS", "LINEAR".into()));
    ge.insert(0x0019_10BB, ds(&[0.6]));
    ge.insert(0x0019_10BC, ds(&[0.0]));
    ge.insert(0x0019_10BD, ds(&[0.8]));
    ge.insert(0x0021_105E, ds(&[0.5]));
    ge.insert(0x0043_102C, V::Bytes(b"SS", vec![32, 2]));
    ge.insert(0x0043_1039, V::Text(b"IS", "1000001000\\8\\0\\0".into()));
    ge.insert(0x0043_1083, ds(&[0.5, 1.0]));
    ge.insert(0x0043_107C, V::Bytes(b"FL", 0.5f32.to_le_bytes().to_vec()));
    let mut mosaic = crate::mosaic::mosaic(1, [1.0, 2.0, 3.0]);
    mosaic.remove(&0x0019_1029);
    let protocol = b"sSliceArray.ucMode = 0x4\nlDelayTimeInTR = 500000\n".to_vec();
    mosaic.insert(0x0029_1020, V::Bytes(b"OB", protocol));
    let mut xa = crate::frames::enhanced(&[0, 1, 2], 2, false);
    xa.insert(0x0008_0070, text("Siemens"));
    let Some(V::Items(frames, _)) = xa.get_mut(&0x5200_9230) else { return Vec::new() };
    for (k, frame) in frames.iter_mut().enumerate() {
        let time = V::Text(b"DT", format!("2022071112112{k}.79"));
        frame.insert(0x0020_9111, V::Items(vec![Set::from([(0x0018_9074, time)])], true));
        let own = Set::from([(0x0021_111C, is(0)), (0x0021_1153, V::F64(vec![50.0]))]);
        frame.insert(0x0021_11FE, V::Items(vec![own], true));
    }
    [ge, mosaic, xa]
        .iter()
        .flat_map(|s| [Form::Explicit, Form::Implicit].map(|f| file(s, f)))
        .collect()
}

/// Bytes that are replaced, cut out, doubled or ended.
fn mutated(bytes: &[u8], next: &mut impl FnMut(usize) -> usize) -> Vec<u8> {
    let mut out = bytes.to_vec();
    for _ in 0..=next(4) {
        if out.len() < 2 {
            break;
        }
        // Headers come first, where most of a file is pixels.
        let reach = if next(4) > 0 { out.len().min(4096) } else { out.len() };
        let at = next(reach);
        match next(6) {
            0 => out[at] ^= 1 << next(8),
            1 => out[at] = [0, 0x7F, 0x80, 0xFF][next(4)],
            2 => out[at] = next(256) as u8,
            3 => {
                let end = (at + 1 + next(64)).min(out.len());
                out.drain(at..end);
            }
            4 => {
                let end = (at + 1 + next(64)).min(out.len());
                let copy = out[at..end].to_vec();
                out.splice(at..at, copy);
            }
            _ if next(4) == 0 => out.truncate(at),
            _ => out[at..].iter_mut().take(4).for_each(|b| *b = 0xFF),
        }
    }
    out
}

/// Reads a file with all that is written beside it; whether that was possible.
fn read_beside(path: &std::path::Path, bytes: &[u8]) -> bool {
    std::fs::write(path, bytes).unwrap();
    let options = ReadOptions { alone: true, ..ReadOptions::default() };
    let found = open(path, &options).and_then(|image| {
        image.sidecar(Some(0))?;
        image.sidecar(None)
    });
    if let Err(error) = &found {
        let message = error.to_string();
        assert!(message.contains("a.dcm") && message.len() < 1500, "{message}");
    }
    found.is_ok_and(|beside| beside.is_some())
}

/// Mutations of the shapes of files that there are here, and of real ones; returns how many were read, and how many
/// were not.
fn mutations(rounds: usize, real: &[std::path::PathBuf]) -> [usize; 2] {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.dcm");
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as usize % below
    };
    let mut counts = [0; 2];
    let files = real.iter().map(|p| std::fs::read(p).unwrap());
    let all: Vec<Vec<u8>> = samples().into_iter().chain(samples_of_makers()).chain(files).collect();
    for bytes in &all {
        for _ in 0..rounds.div_ceil(all.len()) {
            let damaged = mutated(bytes, &mut next);
            let begin = std::time::Instant::now();
            read(&damaged);
            counts[usize::from(!read_beside(&path, &damaged))] += 1;
            let took = begin.elapsed().as_secs_f64();
            assert!(took < 5.0, "{took} s, {:?}", std::fs::write("slow.dcm", &damaged));
        }
    }
    counts
}

#[test]
fn mutations_are_read_or_refused_with_what_is_beside() {
    let [read, refused] = mutations(1500, &[]);
    // Both happen, so that both are tested.
    assert!(read > 100 && refused > 100, "{read} {refused}");
}

/// `VOXALIGN_MUTATIONS` of them, also of real files: of those that `VOXALIGN_TEST_DATA` has.
#[test]
#[ignore = "takes minutes"]
fn many_mutations_are_read_or_refused() {
    let count = std::env::var("VOXALIGN_MUTATIONS").ok().and_then(|n| n.parse().ok());
    let mut real = Vec::new();
    let folder = tempfile::tempdir().unwrap();
    for part in ["dicom_scales", "hostile/defl_frames_4e9", "hostile/imagetype4MB_deflated"] {
        let Some(found) = crate::common::real_files(part) else { continue };
        real.extend(std::fs::read_dir(found).unwrap().map(|entry| entry.unwrap().path()));
    }
    if let Some(data) = crate::common::real_files("dicom_series") {
        for entry in std::fs::read_dir(data).unwrap() {
            let own = folder.path().join(real.len().to_string());
            std::fs::create_dir(&own).unwrap();
            crate::real::unpack(&entry.unwrap().path(), &own);
            real.extend(std::fs::read_dir(own).unwrap().map(|entry| entry.unwrap().path()).min());
        }
    }
    real.retain(|path| path.extension().is_some_and(|e| e == "dcm"));
    real.sort();
    let [read, refused] = mutations(count.unwrap_or(20_000), &real);
    println!("{} real files; read {read}, refused {refused}", real.len());
}
