//! What is written beside an image: slice times, phase encoding, b-values and directions, by scanners of several makers.

use crate::frames::enhanced;
use crate::mosaic::mosaic;
use crate::writer::*;
use serde_json::{Value, json};
use std::path::Path;
use voxalign_io::image::{ReadOptions, Sidecar, open, read_info, read_info_from_bytes};

fn ss(number: i16) -> V {
    V::Bytes(b"SS", number.to_le_bytes().to_vec())
}

fn fl(number: f32) -> V {
    V::Bytes(b"FL", number.to_le_bytes().to_vec())
}

fn cs(word: &str) -> V {
    V::Text(b"CS", word.into())
}

fn beside(folder: &Path) -> Sidecar {
    let image = open(folder, &ReadOptions::default()).unwrap();
    image.sidecar(None).unwrap().unwrap()
}

/// The facts of a series of files.
fn facts(sets: &[Set]) -> serde_json::Map<String, Value> {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "a", sets, Form::Explicit);
    beside(folder.path()).facts
}

/// Volumes of three slices of a maker, in each of some times, with more attributes by volume and slice.
fn scans(maker: &str, volumes: usize, more: impl Fn(usize, usize) -> Vec<(u32, V)>) -> Vec<Set> {
    let mut sets = Vec::new();
    for v in 0..volumes {
        for (k, mut set) in stack("1.2.3", 3).into_iter().enumerate() {
            set.insert(0x0008_0018, V::Text(b"UI", format!("1.2.3.{v}.{k}")));
            set.insert(0x0008_0060, cs("MR"));
            set.insert(0x0008_0070, text(maker));
            set.insert(0x0018_0080, ds(&[2000.0]));
            set.insert(0x0018_1312, cs("COL"));
            set.insert(0x0018_5100, cs("HFS"));
            set.insert(0x0020_0100, is(v as i64 + 1));
            set.extend(more(v, k));
            sets.push(set);
        }
    }
    sets
}

const GE: &str = "GE MEDICAL SYSTEMS";

fn close(found: &Value, expected: &[f64]) {
    let found: Vec<f64> = found.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect();
    assert_eq!(found.len(), expected.len());
    let same = found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6);
    assert!(same, "{found:?} {expected:?}");
}

#[test]
fn slices_of_ge_have_the_times_of_its_timer() {
    // In seconds, and in units of 0.1 ms; of the second volume, as the first is written wrongly.
    for unit in [1.0, 1e4] {
        let sets = scans(GE, 2, |v, k| {
            let time = if v == 0 { [0.0, 9.0, 0.0][k] } else { 2.0 + [0.0, 1.0, 0.5][k] };
            vec![(0x0021_105E, ds(&[time * unit]))]
        });
        close(&facts(&sets)["SliceTiming"], &[0.0, 1.0, 0.5]);
    }
    // Trigger times come first; a timer that stands still says nothing.
    let sets = scans(GE, 2, |v, k| {
        let time = 2000.0 * v as f64 + [500.0, 0.0, 1000.0][k];
        vec![(0x0018_1060, ds(&[time])), (0x0021_105E, ds(&[0.0]))]
    });
    close(&facts(&sets)["SliceTiming"], &[0.5, 0.0, 1.0]);
    let sets = scans(GE, 2, |_, _| vec![(0x0021_105E, ds(&[0.0]))]);
    assert_eq!(facts(&sets).get("SliceTiming"), None);
}

#[test]
fn a_pause_of_ge_is_a_part_of_the_repetition_time() {
    let folder = tempfile::tempdir().unwrap();
    let sets = scans(GE, 2, |_, _| vec![(0x0043_107C, fl(0.055))]);
    write(folder.path(), "a", &sets, Form::Explicit);
    let beside = beside(folder.path());
    assert_eq!(beside.facts["RepetitionTime"], json!(2.055));
    assert_eq!(beside.facts["DelayTime"], json!(0.055));
    assert_eq!(beside.time_step_s, Some(2.055));
}

#[test]
fn phases_of_ge_have_a_sign_and_a_speed() {
    let epi = |more: Vec<(u32, V)>| {
        facts(&scans(GE, 1, |_, _| {
            let mut all = vec![
                (0x0018_0022, cs("EPI_GEMS\\ACC_GEMS")),
                (0x0018_1310, V::U16(vec![64, 0, 0, 64])),
                (0x0043_102C, ss(544)),
                (0x0043_1083, ds(&[0.5, 1.0])),
            ];
            all.extend(more.clone());
            all
        }))
    };
    let found = epi(vec![(0x0018_9034, cs("LINEAR"))]);
    assert_eq!(found["PhaseEncodingDirection"], "j-");
    let found = epi(vec![(0x0018_9034, cs("REVERSE_LINEAR"))]);
    assert_eq!(found["PhaseEncodingDirection"], "j");
    // 16 shots of 2 lines: 31 of 63 steps.
    close(&json!([found["EffectiveEchoSpacing"]]), &[31.0 / 63.0 * 544e-6]);
    close(&json!([found["TotalReadoutTime"]]), &[2.0 * 31.0 / 63.0 * 544e-6]);
    // A third of 64 lines, in shots of 4.
    let third = vec![
        (0x0018_0022, cs("EPI_GEMS\\PFF")),
        (0x0043_1083, ds(&[0.333_333, 1.0])),
        (0x0018_1312, cs("ROW")),
    ];
    let found = epi(third);
    close(&json!([found["EffectiveEchoSpacing"]]), &[23.0 / 63.0 * 544e-6]);
    close(&json!([found["TotalReadoutTime"]]), &[3.0 * 23.0 / 63.0 * 544e-6]);
    // Older scanners do not write the sign.
    assert_eq!(found["PhaseEncodingAxis"], "i");
    assert_eq!(found.get("PhaseEncodingDirection"), None);
    let found = epi(vec![(0x0018_0022, cs("VB_GEMS"))]);
    assert_eq!(found.get("TotalReadoutTime"), None);
}

#[test]
fn directions_of_ge_are_along_frequency_phase_and_slice() {
    let dwi = |more: (u32, V)| {
        scans(GE, 2, |v, _| {
            let mut all = vec![
                (0x0043_1039, V::Text(b"IS", format!("{}\\8\\0\\0", [0, 1_000_001_000][v]))),
                (0x0019_10BB, ds(&[[0.0, 0.6][v]])),
                (0x0019_10BC, ds(&[0.0])),
                (0x0019_10BD, ds(&[[0.0, 0.8][v]])),
            ];
            all.extend(std::iter::once(more.clone()));
            all
        })
    };
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "a", &dwi((0x0018_9087, V::F64(vec![1000.0]))), Form::Explicit);
    let found = beside(folder.path()).diffusion.unwrap();
    assert_eq!(found[0], (0.0, [0.0; 3]));
    let (b, v) = found[1];
    assert_eq!(b, 1000.0);
    assert!(v.iter().zip([0.6, 0.0, 0.8]).all(|(a, b)| (a - b).abs() < 1e-9), "{v:?}");
    // Where they cannot be told, they are left out, which is said.
    for other in [(0x0018_1312, cs("ROW")), (0x0018_5100, cs("FFS"))] {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "a", &dwi(other), Form::Explicit);
        assert_eq!(beside(folder.path()).diffusion, None);
        let odd = read_info(folder.path()).unwrap().oddities;
        assert!(odd.iter().any(|o| o.contains("directions of diffusion of GE")), "{odd:?}");
    }
}

#[test]
fn field_and_magnitude_of_ge_are_told_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let sets = scans(GE, 2, |v, _| {
        vec![
            (0x0008_0008, cs("ORIGINAL\\PRIMARY\\OTHER")),
            (0x0019_109E, text("B0map")),
            (0x0020_0100, is(1)),
            (0x0043_102F, ss(0)),
            (0x0043_1030, ss([2, 0][v])),
        ]
    });
    write(folder.path(), "a", &sets, Form::Explicit);
    let names = read_info(folder.path()).unwrap().volume_names;
    let kind = |name: &str| format!("ORIGINAL\\PRIMARY\\OTHER\\{name}");
    assert_eq!(names, [kind("FIELDMAP"), kind("MAGNITUDE")]);
    let folder = tempfile::tempdir().unwrap();
    let sets = scans(GE, 3, |v, _| vec![(0x0020_0100, is(1)), (0x0043_102F, ss(v as i16 + 1))]);
    write(folder.path(), "a", &sets, Form::Explicit);
    let names = read_info(folder.path()).unwrap().volume_names;
    assert_eq!(names, ["IMAGINARY", "PHASE", "REAL"]);
}

#[test]
fn rows_that_a_sequence_of_ge_turns_round_are_said() {
    for (mode, said) in [(1, "(all)"), (2, "(the first and every other one)"), (0, "")] {
        let folder = tempfile::tempdir().unwrap();
        let sets = scans(GE, 2, |_, _| {
            vec![(0x0019_109C, text("/usr/g/research/epi_pepolar")), (0x0019_10B3, is(mode))]
        });
        write(folder.path(), "a", &sets, Form::Explicit);
        let odd = read_info(folder.path()).unwrap().oddities;
        let found = odd.iter().find(|o| o.contains("epi_pepolar"));
        assert_eq!(found.is_some(), mode != 0, "{odd:?}");
        assert!(found.is_none_or(|o| o.contains(said)), "{found:?}");
    }
}

#[test]
fn single_slices_of_siemens_have_their_times() {
    let scan = |kind: &str| {
        scans("SIEMENS", 1, |_, k| {
            let time = ["235959.000000", "235959.500000", "235959.250000"][k];
            vec![(0x0008_0032, V::Text(b"TM", time.into())), (0x0018_0023, cs(kind))]
        })
    };
    close(&facts(&scan("2D"))["SliceTiming"], &[0.0, 0.5, 0.25]);
    assert_eq!(facts(&scan("3D")).get("SliceTiming"), None);
    // Slices that took longer than the time from one volume to the next.
    let mut long = scan("2D");
    long.iter_mut().for_each(|set| _ = set.insert(0x0018_0080, ds(&[400.0])));
    assert_eq!(facts(&long).get("SliceTiming"), None);
}

#[test]
fn mosaics_without_times_have_those_of_the_protocol() {
    let of = |mode: &str| {
        let mut set = mosaic(1, [10.0, 20.0, 30.0]);
        set.remove(&0x0019_1029);
        let protocol = format!(
            "### ASCCONV BEGIN ###\nsGRADSPEC.ucMode = 0x8\nsSliceArray.ucMode        = {mode}\n\
             lDelayTimeInTR     = 500000\n### ASCCONV END ###"
        );
        set.insert(0x0029_1020, V::Bytes(b"OB", protocol.into_bytes()));
        facts(&[set])
    };
    close(&of("0x1")["SliceTiming"], &[0.0, 0.5, 1.0]);
    close(&of("0x2")["SliceTiming"], &[1.0, 0.5, 0.0]);
    close(&of("0x4")["SliceTiming"], &[0.0, 1.0, 0.5]);
    assert_eq!(of("0x10").get("SliceTiming"), None);
    assert_eq!(of("é").get("SliceTiming"), None);
}

#[test]
fn enhanced_images_of_siemens_say_how_phases_were_encoded() {
    let mut set = enhanced(&[0, 1, 2], 1, true);
    set.insert(0x0008_0060, cs("MR"));
    set.insert(0x0008_0070, text("Siemens Healthineers"));
    let Some(V::Items(shared, _)) = set.get_mut(&0x5200_9229) else { panic!() };
    let view = Set::from([(0x0018_1312, cs("COLUMN"))]);
    shared[0].insert(0x0018_9125, V::Items(vec![view], true));
    let timing = Set::from([(0x0018_0080, ds(&[1000.0]))]);
    shared[0].insert(0x0018_9112, V::Items(vec![timing], true));
    let Some(V::Items(frames, _)) = set.get_mut(&0x5200_9230) else { panic!() };
    for (k, frame) in frames.iter_mut().enumerate() {
        let time = ["20220711121126.79", "20220711121127.29", "20220711121127.04"][k];
        let content = Set::from([(0x0018_9074, V::Text(b"DT", time.into()))]);
        frame.insert(0x0020_9111, V::Items(vec![content], true));
        let own = Set::from([(0x0021_111C, is(0)), (0x0021_1153, V::F64(vec![50.0]))]);
        frame.insert(0x0021_11FE, V::Items(vec![own], true));
    }
    for form in [Form::Explicit, Form::Implicit] {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "a", std::slice::from_ref(&set), form);
        let found = beside(folder.path()).facts;
        assert_eq!(found["PhaseEncodingDirection"], "j-");
        close(&found["SliceTiming"], &[0.0, 0.5, 0.25]);
        close(&json!([found["EffectiveEchoSpacing"]]), &[1.0 / 150.0]);
        close(&json!([found["TotalReadoutTime"]]), &[2.0 / 150.0]);
    }
}

#[test]
fn a_private_scale_without_a_standard_one_is_said() {
    let scan = |more: &[(u32, V)]| {
        let mut set = slice("1.2.3", 0, [1.0, 2.0, 3.0]);
        set.insert(0x0008_0070, text("Philips Medical Systems"));
        set.insert(0x2005_100E, fl(0.25));
        set.extend(more.iter().cloned());
        let info = read_info_from_bytes("a.dcm", &file(&set, Form::Explicit)).unwrap();
        info.oddities.iter().any(|o| o.contains("(2005,100E)"))
    };
    assert!(scan(&[]));
    assert!(!scan(&[(0x0028_1053, ds(&[1.0])), (0x0028_1052, ds(&[0.0]))]));
}
