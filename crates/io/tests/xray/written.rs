//! What is written is read again, with the same values.

use crate::writer::{Form, Set, V, file, slice, text};
use proptest::prelude::*;
use std::path::PathBuf;
use voxalign_image::{CArm, Gantry, Vector3, XrayGeometry};
use voxalign_io::xray::{self, Series, Signal, Study, Written, Xray, XrayToWrite};

fn arm() -> CArm {
    CArm {
        source_to_isocentre: 700.0,
        source_to_detector: 1000.0,
        isocentre: Vector3::zeros(),
        primary: 0.4,
        secondary: -0.3,
        pixel_size: [0.5, 0.25],
        dims: [3, 2],
        centre: None,
    }
}

fn through(name: &str, image: &XrayToWrite<'_>) -> (Written, Xray, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    let written = xray::write(&path, image).unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    let bytes = std::fs::read(&path).unwrap();
    let read = xray::read(&path).unwrap();
    assert_eq!(xray::read_from_bytes(&path, &bytes).unwrap(), read);
    xray::write(&path, image).unwrap();
    assert!(bytes == std::fs::read(&path).unwrap(), "the same bytes every time");
    (written, read, bytes)
}

fn near(a: &XrayGeometry, b: &XrayGeometry) -> bool {
    let [columns, rows] = a.dims().map(|n| n as f64);
    let off = [[0.0, 0.0], [columns, 0.0], [0.0, rows]]
        .map(|[c, r]| (a.place(c, r) - b.place(c, r)).norm());
    off.iter().fold((a.source() - b.source()).norm(), |x, y| x.max(*y)) < 1e-6
}

const VALUES: [f32; 6] = [-1.5, 0.25, 3.0, 1.0, 2.75, 0.0];

#[test]
fn windows_of_every_format() {
    for name in ["a.png", "a.tif", "a.tiff", "a.dcm", "a.ima"] {
        let image = XrayToWrite {
            window: Some([-2.0, 2.0]),
            pixel_size: Some([0.5, 0.3]),
            ..XrayToWrite::new(&VALUES, [3, 2])
        };
        let (written, read, _) = through(name, &image);
        assert_eq!((written.window, written.outside), (Some([-2.0, 2.0]), 2), "{name}");
        assert!(!written.geometry && read.geometry.is_none());
        assert_eq!((read.dims, read.frames, read.pixel_size), ([3, 2], 1, Some([0.5, 0.3])));
        for (found, value) in read.values.iter().zip(VALUES) {
            assert!(
                (found - value.clamp(-2.0, 2.0)).abs() <= 2.0 / 65535.0,
                "{name} {found} {value}"
            );
        }
        assert!(read.oddities.is_empty(), "{name} {:?}", read.oddities);
    }
}

#[test]
fn floats_are_kept() {
    for name in ["a.tif", "a.nii", "a.nii.gz", "a.mha", "a.nrrd"] {
        let image = XrayToWrite::new(&VALUES, [3, 2]);
        let (written, read, _) = through(name, &image);
        assert_eq!((written.window, written.outside), (None, 0));
        assert_eq!((read.values.as_slice(), read.dims), (&VALUES[..], [3, 2]), "{name}");
    }
}

#[test]
fn the_range_of_values_is_the_window_of_whole_numbers() {
    let odd = [f32::NAN, -1.5, 3.0, f32::INFINITY, 0.0, f32::NEG_INFINITY];
    for name in ["a.png", "a.dcm"] {
        let (written, read, _) = through(name, &XrayToWrite::new(&odd, [3, 2]));
        assert_eq!((written.window, written.outside), (Some([-1.5, 3.0]), 3));
        let ends = [-1.5, -1.5, 3.0, 3.0, 0.0, -1.5];
        assert!(read.values.iter().zip(ends).all(|(a, b)| (a - b).abs() < 1e-4), "{read:?}");
        let (_, flat, _) = through(name, &XrayToWrite::new(&[4.0; 6], [3, 2]));
        assert_eq!(flat.values, [4.0; 6]);
    }
}

#[test]
fn frames_are_pages_of_tiff_and_frames_of_dicom() {
    let values: Vec<f32> = (0..18).map(|i| i as f32).collect();
    for name in ["a.tif", "a.dcm"] {
        let image =
            XrayToWrite { window: Some([0.0, 65535.0]), ..XrayToWrite::new(&values, [3, 2]) };
        let (_, read, _) = through(name, &image);
        assert_eq!((read.frames, read.values.as_slice()), (3, &values[..]), "{name}");
    }
    let (_, read, _) = through("b.tif", &XrayToWrite::new(&values, [3, 2]));
    assert_eq!((read.frames, read.values.as_slice()), (3, &values[..]));
    for name in ["a.png", "a.nii"] {
        let error = xray::write(name, &XrayToWrite::new(&values, [3, 2])).unwrap_err();
        assert!(error.to_string().contains("one frame, and there are 3"), "{error}");
    }
}

#[test]
fn geometries_that_dicom_can_say() {
    let places = [
        (arm().geometry().unwrap(), true),
        (CArm { primary: 0.0, secondary: 0.0, ..arm() }.geometry().unwrap(), true),
        (CArm { primary: -3.0, secondary: 1.2, ..arm() }.geometry().unwrap(), true),
        (Gantry { arm: arm(), angle: 0.7 }.geometry().unwrap(), true),
        (
            Gantry {
                arm: CArm { isocentre: Vector3::new(10.0, -20.0, 300.0), ..arm() },
                angle: -2.0,
            }
            .geometry()
            .unwrap(),
            true,
        ),
        (
            Gantry { arm: CArm { centre: Some([-7.0, 30.5]), ..arm() }, angle: 3.0 }
                .geometry()
                .unwrap(),
            true,
        ),
        // A C-arm that turns about another place, and a detector that is turned in its plane.
        (CArm { isocentre: Vector3::new(10.0, 0.0, 0.0), ..arm() }.geometry().unwrap(), false),
        (CArm { centre: Some([0.0, 0.0]), ..arm() }.geometry().unwrap(), false),
    ];
    for (view, known) in places {
        let image = XrayToWrite { geometry: Some(view), ..XrayToWrite::new(&VALUES, [3, 2]) };
        let (written, read, _) = through("a.dcm", &image);
        assert_eq!(written.geometry, known, "{view:?}");
        assert!(read.oddities.is_empty(), "{:?}", read.oddities);
        let size = read.pixel_size.unwrap();
        assert!((size[0] - 0.5).abs() < 1e-9 && (size[1] - 0.25).abs() < 1e-9);
        match read.geometry {
            Some(found) => assert!(known && near(&found, &view), "{found:?}\n{view:?}"),
            None => {
                assert!(!known);
                assert_eq!(read.missing_attribute(), Some("DistanceSourceToDetector (0018,1110)"));
            }
        }
    }
}

/// An isocentre on the detector is not farther away than that, whatever is rounded.
#[test]
fn an_isocentre_on_the_detector_is_kept() {
    for step in 0..60 {
        let (angle, far) = (0.1 * f64::from(step) - 3.0, 700.0 + f64::from(step) / 7.0);
        let arm = CArm { source_to_isocentre: far, source_to_detector: far, ..arm() };
        let arms = [
            CArm { primary: angle, ..arm }.geometry().unwrap(),
            // The world's origin is behind the detector.
            Gantry {
                arm: CArm {
                    isocentre: Vector3::new(-angle.sin(), angle.cos(), 0.0) * 300.0,
                    source_to_isocentre: 500.0,
                    ..arm
                },
                angle,
            }
            .geometry()
            .unwrap(),
        ];
        for view in arms {
            let image = XrayToWrite { geometry: Some(view), ..XrayToWrite::new(&VALUES, [3, 2]) };
            let (written, read, _) = through("a.dcm", &image);
            assert!(written.geometry && near(&read.geometry.unwrap(), &view), "{view:?}");
        }
    }
}

#[test]
fn uids_are_those_of_the_content() {
    let uid = |values: &[f32]| {
        let (.., bytes) = through(
            "a.dcm",
            &XrayToWrite { window: Some([0.0, 9.0]), ..XrayToWrite::new(values, [3, 2]) },
        );
        let at = bytes.windows(8).position(|w| w == b"\x08\x00\x18\x00UI\x2c\x00").unwrap();
        String::from_utf8_lossy(&bytes[at + 8..at + 52]).into_owned()
    };
    let one = uid(&VALUES);
    assert!(one.starts_with("2.25.") && one.trim_end_matches('\0').len() <= 44, "{one}");
    assert_ne!(one, uid(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]));
}

/// The bytes of an element with a short length, without what fills it up; nothing where there is none.
fn value(bytes: &[u8], tag: u32) -> Option<&[u8]> {
    let halves = [(tag >> 16) as u16, tag as u16].map(u16::to_le_bytes);
    let at = bytes.windows(4).position(|w| w == halves.as_flattened())?;
    let length = usize::from(u16::from_le_bytes([bytes[at + 6], bytes[at + 7]]));
    let value = bytes[at + 8..at + 8 + length].trim_ascii_end();
    Some(value.strip_suffix(b"\0").unwrap_or(value))
}

const STUDY: u32 = 0x0020_000D;
const SERIES: u32 = 0x0020_000E;

#[test]
fn images_of_a_series_share_its_uids() {
    let written = |series: &Series, number, values: &[f32]| {
        let image = XrayToWrite {
            window: Some([0.0, 9.0]),
            series: Some((series, number)),
            ..XrayToWrite::new(values, [3, 2])
        };
        through("a.dcm", &image).2
    };
    let series = Series::new("inputs and options", "Simulated \u{2192} here", None);
    let (first, second) = (written(&series, 1, &VALUES), written(&series, 2, &[1.0; 6]));
    // The very same picture is another image of the series.
    let third = written(&series, 3, &VALUES);
    for tag in [STUDY, SERIES] {
        let uid = value(&first, tag).unwrap();
        assert!(uid.starts_with(b"2.25."));
        assert!(value(&second, tag).unwrap() == uid && value(&third, tag).unwrap() == uid);
    }
    assert_ne!(value(&first, STUDY), value(&first, SERIES));
    let instances = [&first, &second, &third].map(|bytes| value(bytes, 0x0008_0018).unwrap());
    assert!(instances[0] != instances[1] && instances[0] != instances[2]);
    let numbers = [&first, &second, &third].map(|bytes| value(bytes, 0x0020_0013).unwrap());
    assert_eq!(numbers, [b"1", b"2", b"3"]);
    assert_eq!(value(&first, 0x0008_103E).unwrap(), b"Simulated  here");
    assert_eq!(value(&first, 0x0010_0010).unwrap(), b"");
    let other = written(&Series::new("other options", "", None), 1, &VALUES);
    assert!([STUDY, SERIES].iter().all(|&tag| value(&other, tag) != value(&first, tag)));
}

#[test]
fn what_values_are_comes_back() {
    for signal in [Signal::Intensity, Signal::LogIntensity, Signal::Attenuation] {
        let image = XrayToWrite { signal: Some(signal), ..XrayToWrite::new(&VALUES, [3, 2]) };
        assert_eq!(through("a.dcm", &image).1.signal, Some(signal));
    }
    assert_eq!(through("a.dcm", &XrayToWrite::new(&VALUES, [3, 2])).1.signal, None);
}

#[test]
fn a_study_is_taken_over() {
    let mut ct: Set = slice("1.2.3", 0, [0.0; 3]);
    ct.extend([
        (0x0008_0005, V::Text(b"CS", "ISO_IR 100".into())),
        (0x0008_0020, V::Text(b"DA", "20260102".into())),
        (0x0008_0050, V::Text(b"SH", "A17".into())),
        (0x0010_0010, V::Bytes(b"PN", b"M\xfcller^Eva".to_vec())),
        (0x0010_0020, text("4711")),
        (STUDY, V::Text(b"UI", "1.2.840.77".into())),
        (0x0020_0010, V::Text(b"SH", "S5".into())),
    ]);
    let folder = tempfile::tempdir().unwrap();
    for form in [Form::Explicit, Form::Implicit, Form::Big] {
        let path = folder.path().join("ct.dcm");
        std::fs::write(&path, file(&ct, form)).unwrap();
        let study = Study::read(&path).unwrap();
        assert_eq!(study.uid(), Some("1.2.840.77"));
        let series = Series::new("key", "Simulated", Some(study));
        let image = XrayToWrite { series: Some((&series, 1)), ..XrayToWrite::new(&VALUES, [3, 2]) };
        let (.., bytes) = through("a.dcm", &image);
        for (tag, expected) in [
            (0x0008_0005, &b"ISO_IR 100"[..]),
            (0x0008_0020, b"20260102"),
            (0x0008_0030, b""),
            (0x0008_0050, b"A17"),
            (0x0010_0010, b"M\xfcller^Eva"),
            (0x0010_0020, b"4711"),
            (0x0010_0030, b""),
            (STUDY, b"1.2.840.77"),
            (0x0020_0010, b"S5"),
            (0x0020_0011, b""),
        ] {
            assert_eq!(value(&bytes, tag).unwrap(), expected, "{tag:08X}");
        }
        assert!(value(&bytes, SERIES).unwrap().starts_with(b"2.25."));
        assert!(value(&bytes, 0x0008_1030).is_none());
    }
    // What is no UID is not taken over.
    ct.insert(STUDY, V::Text(b"UI", "study one".into()));
    let path = folder.path().join("odd.dcm");
    std::fs::write(&path, file(&ct, Form::Explicit)).unwrap();
    assert_eq!(Study::read(&path).unwrap().uid(), None);
    assert!(Study::read(folder.path().join("none.dcm")).is_err());
}

#[test]
fn distances_are_those_of_the_isocentre() {
    let isocentre = Vector3::new(10.0, -122.0, 300.0);
    let arm = CArm { isocentre, ..arm() };
    let views = [
        (arm.geometry().unwrap(), 0x0018_1111),
        (CArm { primary: 0.0, secondary: 0.0, ..arm }.geometry().unwrap(), 0x0018_1111),
        (Gantry { arm, angle: Gantry::AP }.geometry().unwrap(), 0x3002_0022),
        (Gantry { arm, angle: Gantry::LATERAL }.geometry().unwrap(), 0x3002_0022),
    ];
    for (view, tag) in views {
        let image = XrayToWrite {
            geometry: Some(view),
            isocentre: Some(isocentre),
            ..XrayToWrite::new(&VALUES, [3, 2])
        };
        let (written, read, bytes) = through("a.dcm", &image);
        assert!(written.geometry && read.oddities.is_empty(), "{:?}", read.oddities);
        assert!(near(&read.geometry.unwrap(), &view), "{:?}\n{view:?}", read.geometry);
        let said = |tag| {
            let text = String::from_utf8_lossy(value(&bytes, tag).unwrap()).into_owned();
            text.split('\\').map(|v| v.parse().unwrap()).collect::<Vec<f64>>()
        };
        let off = (said(tag)[0] - 700.0).abs();
        assert!(off < 1e-6, "{off}");
        let place = said(0x300A_012C);
        let off = (Vector3::new(-place[0], -place[1], place[2]) - isocentre).norm();
        assert!(place.len() == 3 && off < 1e-6, "{off}");
    }
}

#[test]
fn what_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let view = arm().geometry().unwrap();
    let good = XrayToWrite::new(&VALUES, [3, 2]);
    let cases = [
        (
            "a.png",
            XrayToWrite::new(&VALUES, [4, 2]),
            "6 values are not a whole number of frames of 4 x 2",
        ),
        ("a.png", XrayToWrite::new(&[], [4, 2]), "0 values are not a whole number of frames"),
        ("a.png", XrayToWrite::new(&VALUES, [0, 2]), "0 x 2"),
        ("a.png", XrayToWrite::new(&VALUES, [usize::MAX, 2]), "not a whole number of frames"),
        (
            "a.png",
            XrayToWrite { window: Some([1.0, 1.0]), ..good },
            "the window [1.0, 1.0] is none",
        ),
        ("a.dcm", XrayToWrite { window: Some([f64::NAN, 1.0]), ..good }, "the window [NaN"),
        (
            "a.tif",
            XrayToWrite { pixel_size: Some([0.0, 1.0]), ..good },
            "the size of a pixel is [0.0",
        ),
        ("a.nii", XrayToWrite { window: Some([0.0, 1.0]), ..good }, "leave the window out"),
        ("a.jpg", good, "use one of .png"),
        ("a", good, "use one of .png"),
        (
            "a.png",
            XrayToWrite { geometry: Some(view), pixel_size: Some([1.0; 2]), ..good },
            "leave the size out",
        ),
        (
            "a.png",
            XrayToWrite {
                geometry: Some(CArm { dims: [2, 3], ..arm() }.geometry().unwrap()),
                ..good
            },
            "3 x 2 pixels, and the detector of its geometry 2 x 3",
        ),
        ("no/such/folder/a.dcm", good, "create the folder first"),
    ];
    for (name, image, said) in cases {
        let path = folder.path().join(name);
        let error = xray::write(&path, &image).unwrap_err().to_string();
        assert!(error.contains(said) && error.contains(name), "{error}");
    }
    let long = vec![0.0; 65_536];
    let error = xray::write("a.dcm", &XrayToWrite::new(&long, [65_536, 1])).unwrap_err();
    assert!(error.to_string().contains("at most 65535"), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

fn image() -> impl Strategy<Value = (Vec<f32>, [usize; 2])> {
    (1..9usize, 1..9usize).prop_flat_map(|(columns, rows)| {
        (prop::collection::vec(-1e4..1e4f32, columns * rows), Just([columns, rows]))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_image_comes_back((values, dims) in image(), low in -1e4..1e4f64, wide in 1e-2..1e5f64, windowed: bool) {
        let folder = tempfile::tempdir().unwrap();
        let window = windowed.then_some([low, low + wide]);
        for name in ["a.png", "a.tif", "a.dcm"] {
            let path: PathBuf = folder.path().join(name);
            let written = xray::write(&path, &XrayToWrite { window, ..XrayToWrite::new(&values, dims) }).unwrap();
            let read = xray::read(&path).unwrap();
            prop_assert_eq!(read.dims, dims);
            let Some([low, high]) = written.window else {
                prop_assert_eq!(&read.values, &values);
                continue;
            };
            let outside = values.iter().filter(|v| !(low..=high).contains(&f64::from(**v))).count();
            prop_assert_eq!(written.outside, outside);
            let step = (high - low) / 65535.0;
            for (&found, &value) in read.values.iter().zip(&values) {
                let expected = f64::from(value).clamp(low, high);
                let rounding = 1e-6 * low.abs().max(high.abs());
                prop_assert!((f64::from(found) - expected).abs() <= 0.5 * step + rounding);
            }
        }
    }

    #[test]
    fn any_arm_about_the_origin_comes_back(
        primary in -3.1..3.1f64,
        secondary in -1.5..1.5f64,
        near_ in 100.0..900.0f64,
        beyond in 0.0..900.0f64,
        pixel in 0.05..2.0f64,
        turns: bool,
        aside in prop::array::uniform2(-500.0..500.0f64),
        isocentre in prop::array::uniform3(-200.0..200.0f64),
    ) {
        let arm = CArm {
            source_to_isocentre: near_,
            source_to_detector: near_ + beyond,
            primary,
            secondary,
            pixel_size: [pixel, 0.7 * pixel],
            ..arm()
        };
        let view = if turns {
            let arm = CArm { centre: Some(aside), isocentre: isocentre.into(), ..arm };
            Gantry { arm, angle: primary }.geometry().unwrap()
        } else {
            arm.geometry().unwrap()
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.dcm");
        let image = XrayToWrite { geometry: Some(view), ..XrayToWrite::new(&VALUES, [3, 2]) };
        prop_assert!(xray::write(&path, &image).unwrap().geometry);
        let found = xray::read(&path).unwrap();
        prop_assert!(near(&found.geometry.unwrap(), &view), "{:?}\n{:?}", found.geometry, view);
        prop_assert!(found.oddities.is_empty(), "{:?}", found.oddities);
    }
}
