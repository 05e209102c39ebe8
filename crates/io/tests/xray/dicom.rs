//! DICOM X-ray images as machines write them.

use crate::writer::*;
use voxalign_image::{CArm, Gantry, Vector3, XrayGeometry};
use voxalign_io::image::Oddity;
use voxalign_io::xray::{Signal, Xray, read_from_bytes};

/// A picture of 4 x 3 pixels of 12 bits, of the frames given.
fn picture(modality: &str, frames: usize) -> Set {
    let values = (0..12 * frames).map(|i| (i * 10) as u16);
    let mut set = Set::from([
        (0x0008_0018, V::Text(b"UI", "1.2.3.4".into())),
        (0x0008_0060, V::Text(b"CS", modality.into())),
        (0x0020_000E, V::Text(b"UI", "1.2.3".into())),
        (0x0028_0002, V::U16(vec![1])),
        (0x0028_0004, V::Text(b"CS", "MONOCHROME2".into())),
        (0x0028_0010, V::U16(vec![3])),
        (0x0028_0011, V::U16(vec![4])),
        (0x0028_0100, V::U16(vec![16])),
        (0x0028_0101, V::U16(vec![12])),
        (0x0028_0102, V::U16(vec![11])),
        (0x0028_0103, V::U16(vec![0])),
        (0x7FE0_0010, V::Bytes(b"OW", values.flat_map(u16::to_le_bytes).collect())),
    ]);
    if frames > 1 {
        set.insert(0x0028_0008, is(frames as i64));
    }
    set
}

/// The attributes of a C-arm.
pub(crate) fn angiogram(frames: usize) -> Set {
    let mut set = picture("XA", frames);
    set.extend([
        (0x0018_1110, ds(&[1000.0])),
        (0x0018_1111, ds(&[700.0])),
        (0x0018_1164, ds(&[0.25, 0.5])),
        (0x0018_1510, ds(&[30.0])),
        (0x0018_1511, ds(&[-10.0])),
    ]);
    set
}

fn treatment() -> Set {
    let mut set = picture("RTIMAGE", 1);
    set.extend([
        (0x3002_0010, ds(&[1.0, 0.0, 0.0, 0.0, -1.0, 0.0])),
        (0x3002_0011, ds(&[0.25, 0.5])),
        (0x3002_0012, ds(&[-0.5, 0.75])),
        (0x3002_0022, ds(&[1000.0])),
        (0x3002_0026, ds(&[1500.0])),
        (0x300A_011E, ds(&[90.0])),
        (0x300A_012C, ds(&[1.0, 2.0, 3.0])),
    ]);
    set
}

fn read(set: &Set) -> Xray {
    read_from_bytes("a.dcm", &file(set, Form::Explicit)).unwrap()
}

fn words(image: &Xray) -> String {
    image.oddities.iter().map(|o| format!("{o}; ")).collect()
}

fn near(a: &XrayGeometry, b: &XrayGeometry) -> bool {
    (a.source() - b.source()).norm() < 1e-9 && (a.place(3.0, 2.0) - b.place(3.0, 2.0)).norm() < 1e-9
}

#[test]
fn values_are_rescaled() {
    for form in [Form::Explicit, Form::Implicit, Form::Big, Form::Deflated, Form::Bare] {
        let mut set = picture("CR", 1);
        set.extend([(0x0028_1052, ds(&[-5.0])), (0x0028_1053, ds(&[0.5]))]);
        for name in ["a.dcm", "a"] {
            let image = read_from_bytes(name, &file(&set, form)).unwrap();
            let expected: Vec<f32> = (0..12).map(|i| i as f32 * 5.0 - 5.0).collect();
            assert_eq!(
                (image.values.as_slice(), image.dims, image.frames),
                (&expected[..], [4, 3], 1)
            );
            assert!(image.oddities.is_empty() && image.times.is_none(), "{image:?}");
            assert_eq!(image.missing_attribute(), Some("DistanceSourceToDetector (0018,1110)"));
        }
    }
}

#[test]
fn dark_values_are_inverted() {
    let mut set = picture("DX", 1);
    set.insert(0x0028_0004, V::Text(b"CS", "MONOCHROME1".into()));
    let image = read(&set);
    let expected: Vec<f32> = (0..12).map(|i| 4095.0 - i as f32 * 10.0).collect();
    assert_eq!(image.values, expected);
    assert!(matches!(image.oddities[..], [Oddity::Inverted(_)]), "{}", words(&image));
    set.insert(0x0028_0103, V::U16(vec![1]));
    set.insert(0x0028_1053, ds(&[2.0]));
    let expected: Vec<f32> = (0..12).map(|i| 2.0 * (-1.0 - i as f32 * 10.0)).collect();
    assert_eq!(read(&set).values, expected);
    set.insert(0x0028_0100, V::U16(vec![8]));
    set.insert(0x0028_0101, V::U16(vec![8]));
    set.insert(0x0028_0102, V::U16(vec![7]));
    set.insert(0x7FE0_0010, V::Bytes(b"OW", vec![0; 12]));
    assert!(words(&read(&set)).contains("8 bits: 256 grey values"));
}

#[test]
fn what_values_say_of_x_rays() {
    let signed = |sign: i16| V::Bytes(b"SS", sign.to_le_bytes().to_vec());
    let cases = [
        ("LIN", Some(1), Some(Signal::Intensity)),
        ("LIN", None, Some(Signal::Intensity)),
        ("LIN", Some(-1), Some(Signal::FallingIntensity { dark: 4095.0 })),
        ("LOG", Some(-1), Some(Signal::Attenuation)),
        ("LOG", Some(1), Some(Signal::LogIntensity)),
        ("DISP", None, None),
    ];
    for (relation, sign, expected) in cases {
        let mut set = picture("DX", 1);
        set.insert(0x0028_1040, V::Text(b"CS", relation.into()));
        sign.map(|sign| set.insert(0x0028_1041, signed(sign)));
        let image = read(&set);
        assert_eq!(image.signal, expected, "{relation} {sign:?}");
        assert!(image.oddities.is_empty(), "{}", words(&image));
        // Dark values are inverted, and a scale may turn them as well.
        for dark in [false, true] {
            let (slope, intercept) = if dark { (1.0, 0.0) } else { (-2.0, 5.0) };
            let mut set = set.clone();
            set.extend([(0x0028_1052, ds(&[intercept])), (0x0028_1053, ds(&[slope]))]);
            if dark {
                set.insert(0x0028_0004, V::Text(b"CS", "MONOCHROME1".into()));
            }
            // No X-rays are the stored 0.
            let none = if dark { 4095.0 } else { 5.0 };
            let turned = expected.map(|signal| match signal {
                Signal::Intensity => Signal::FallingIntensity { dark: none },
                Signal::FallingIntensity { .. } => Signal::Intensity,
                Signal::LogIntensity => Signal::Attenuation,
                Signal::Attenuation => Signal::LogIntensity,
            });
            assert_eq!(read(&set).signal, turned, "{relation} {sign:?}");
            set.insert(0x0028_1053, ds(&[-2.0]));
            if dark {
                let again = read(&set).signal.map(|s| std::mem::discriminant(&s));
                assert_eq!(again, expected.map(|s| std::mem::discriminant(&s)));
            }
        }
    }
    assert_eq!(read(&picture("DX", 1)).signal, None);
    let mut odd = picture("DX", 1);
    odd.insert(0x0028_1040, V::Text(b"CS", "LIN".into()));
    odd.insert(0x0028_1041, signed(0));
    let image = read(&odd);
    assert!(image.signal.is_none() && words(&image).contains("(0028,1041) is '0'"));
}

#[test]
fn frames_and_their_times() {
    let mut set = angiogram(3);
    assert_eq!(read(&set).times, None);
    set.insert(0x0018_0040, is(25));
    assert_eq!(read(&set).times, Some(vec![0.0, 0.04, 0.08]));
    set.insert(0x0018_1063, ds(&[100.0]));
    let image = read(&set);
    assert_eq!((image.frames, image.times), (3, Some(vec![0.0, 0.1, 0.2])));
    assert_eq!(image.values[35], 350.0);
    set.insert(0x0018_1065, ds(&[0.0, 250.0, 500.0]));
    set.insert(0x0018_1520, ds(&[0.0, 1.0, 1.0]));
    let image = read(&set);
    assert_eq!(image.times, Some(vec![0.0, 0.25, 0.75]));
    assert!(words(&image).contains("the arm turns") && image.geometry.is_some());
}

#[test]
fn a_c_arm_is_where_its_angles_say() {
    let arm = CArm {
        source_to_isocentre: 700.0,
        source_to_detector: 1000.0,
        isocentre: Vector3::zeros(),
        primary: 30f64.to_radians(),
        secondary: -10f64.to_radians(),
        pixel_size: [0.5, 0.25],
        dims: [4, 3],
        centre: None,
    };
    let image = read(&angiogram(1));
    assert!(near(&image.geometry.unwrap(), &arm.geometry().unwrap()));
    assert_eq!((image.pixel_size, image.missing_attribute()), (Some([0.5, 0.25]), None));
    assert!(image.oddities.is_empty(), "{}", words(&image));
    for (tag, name) in [
        (0x0018_1110, "DistanceSourceToDetector (0018,1110)"),
        (0x0018_1111, "DistanceSourceToPatient (0018,1111)"),
        (0x0018_1510, "PositionerPrimaryAngle (0018,1510)"),
        (0x0018_1511, "PositionerSecondaryAngle (0018,1511)"),
        (0x0018_1164, "ImagerPixelSpacing (0018,1164)"),
    ] {
        let mut set = angiogram(1);
        set.remove(&tag);
        let image = read(&set);
        assert_eq!((image.geometry, image.missing_attribute()), (None, Some(name)));
    }
    // Numbers that cannot be.
    let mut set = angiogram(1);
    set.insert(0x0018_1110, ds(&[600.0]));
    let image = read(&set);
    assert!(image.geometry.is_none() && words(&image).contains("detector 600 mm from the source"));
    assert!(words(&image).contains("is not used"), "{}", words(&image));
    // A pixel spacing of the patient alone.
    let mut set = picture("DX", 1);
    set.insert(0x0028_0030, ds(&[0.2, 0.1]));
    let image = read(&set);
    assert_eq!(image.pixel_size, Some([0.1, 0.2]));
    assert!(words(&image).contains("PixelSpacing (0028,0030)"));
}

#[test]
fn a_picture_that_was_turned_has_the_geometry_of_its_pixels() {
    let flip = |said: &str| V::Text(b"CS", said.into());
    // The detector has 3 columns of 0.25 mm and 4 rows of 0.5 mm where the stored picture lies across it.
    let lying = read(&angiogram(1)).geometry.unwrap();
    let arm = CArm {
        source_to_isocentre: 700.0,
        source_to_detector: 1000.0,
        isocentre: Vector3::zeros(),
        primary: 30f64.to_radians(),
        secondary: -10f64.to_radians(),
        pixel_size: [0.25, 0.5],
        dims: [3, 4],
        centre: None,
    };
    let across = arm.geometry().unwrap();
    // Where the first pixel of the stored picture and the one at its lower right are on the detector.
    for (turn, flipped, detector, first, last, said) in [
        (0.0, "NO", &lying, [0.0, 0.0], [3.0, 2.0], ""),
        (0.0, "YES", &lying, [3.0, 0.0], [0.0, 2.0], "was mirrored from left to right"),
        (90.0, "NO", &across, [0.0, 3.0], [2.0, 0.0], "turned clockwise by 90 degrees"),
        (90.0, "YES", &across, [0.0, 0.0], [2.0, 3.0], "(0018,7032), then mirrored"),
        (180.0, "NO", &lying, [3.0, 2.0], [0.0, 0.0], "by 180 degrees"),
        (180.0, "YES", &lying, [0.0, 2.0], [3.0, 0.0], "then mirrored"),
        (270.0, "NO", &across, [2.0, 0.0], [0.0, 3.0], "by 270 degrees"),
        (270.0, "YES", &across, [2.0, 3.0], [0.0, 0.0], "then mirrored"),
    ] {
        let mut set = angiogram(1);
        set.extend([(0x0018_7032, ds(&[turn])), (0x0018_7034, flip(flipped))]);
        let image = read(&set);
        let view = image.geometry.unwrap();
        let off =
            |[c, r]: [f64; 2], [x, y]: [f64; 2]| (view.place(c, r) - detector.place(x, y)).norm();
        assert!(off([0.0, 0.0], first) < 1e-9 && off([3.0, 2.0], last) < 1e-9, "{turn} {flipped}");
        let size = view.pixel_size();
        assert!((size[0] - 0.5).abs() < 1e-9 && (size[1] - 0.25).abs() < 1e-9);
        let words = words(&image);
        assert!(words.contains(said) && words.is_empty() == said.is_empty(), "{words}");
        // Values are where they were.
        assert_eq!(image.values, read(&angiogram(1)).values);
    }
    for (tag, value, said) in [
        (0x0018_7032, ds(&[45.0]), "(0018,7032) is 45"),
        (0x0018_7034, flip("PERHAPS"), "(0018,7034) is 'PERHAPS'"),
    ] {
        let mut set = angiogram(1);
        set.insert(tag, value);
        let image = read(&set);
        assert!(image.geometry.is_none() && words(&image).contains(said), "{}", words(&image));
    }
    // The ends of rows and columns are those of the picture as it is stored.
    let mut set = angiogram(1);
    set.extend([(0x0018_7034, flip("YES")), (0x0020_0020, flip("R\\F"))]);
    assert!(!words(&read(&set)).contains("(0020,0020)"));
}

#[test]
fn the_distance_of_a_table_is_none_of_an_isocentre() {
    let geometry = read(&angiogram(1)).geometry.unwrap();
    for modality in ["DX", "CR", "MG", "PX", "IO"] {
        let mut set = angiogram(1);
        set.insert(0x0008_0060, V::Text(b"CS", modality.into()));
        let image = read(&set);
        // What of it can be known is the same: rays, but for where the origin is.
        assert!(near(&image.geometry.unwrap(), &geometry));
        let words = words(&image);
        assert!(words.contains(&format!("of {modality} is the distance of the table")), "{words}");
    }
    for modality in ["XA", "RF"] {
        let mut set = angiogram(1);
        set.insert(0x0008_0060, V::Text(b"CS", modality.into()));
        assert!(read(&set).oddities.is_empty());
    }
}

#[test]
fn an_isocentre_in_the_patient_is_where_it_is() {
    let mut set = angiogram(1);
    set.insert(0x300A_012C, ds(&[10.0, -20.0, 30.0]));
    let (there, here) = (read(&set).geometry.unwrap(), read(&angiogram(1)).geometry.unwrap());
    let shift = Vector3::new(-10.0, 20.0, 30.0);
    assert!((there.source() - here.source() - shift).norm() < 1e-9);
    assert!((there.place(3.0, 2.0) - here.place(3.0, 2.0) - shift).norm() < 1e-9);
}

#[test]
fn a_mirrored_image_is_said() {
    for (orientation, said) in
        [("L\\F", ""), ("R\\F", "rows go to R"), ("L\\H", "columns go to H"), ("LA", "")]
    {
        let mut set = angiogram(1);
        set.insert(0x0020_0020, V::Text(b"CS", orientation.into()));
        let words = words(&read(&set));
        assert_eq!(words.is_empty(), said.is_empty(), "{words}");
        assert!(words.contains(said), "{words}");
    }
}

#[test]
fn a_treatment_machine_is_where_it_says() {
    let arm = CArm {
        source_to_isocentre: 1000.0,
        source_to_detector: 1500.0,
        isocentre: Vector3::new(-1.0, -2.0, 3.0),
        primary: 0.0,
        secondary: 0.0,
        pixel_size: [0.5, 0.25],
        dims: [4, 3],
        centre: Some([1.0, 3.0]),
    };
    let angle = 90f64.to_radians();
    let image = read(&treatment());
    assert!(near(&image.geometry.unwrap(), &Gantry { arm, angle }.geometry().unwrap()));
    assert_eq!(image.pixel_size, Some([0.5, 0.25]));
    let mut set = treatment();
    set.insert(0x3002_000D, ds(&[2.0, -1.0, -500.0]));
    let arm = CArm { centre: Some([-3.0, -1.0]), ..arm };
    assert!(near(&read(&set).geometry.unwrap(), &Gantry { arm, angle }.geometry().unwrap()));
    for (tag, name) in [
        (0x300A_011E, "GantryAngle (300A,011E)"),
        (0x3002_0022, "RadiationMachineSAD (3002,0022)"),
        (0x3002_0026, "RTImageSID (3002,0026)"),
        (0x3002_0011, "ImagePlanePixelSpacing (3002,0011)"),
        (0x3002_0012, "RTImagePosition (3002,0012)"),
        (0x300A_012C, "IsocenterPosition (300A,012C)"),
    ] {
        let mut set = treatment();
        set.remove(&tag);
        let image = read(&set);
        assert_eq!((image.geometry, image.missing_attribute()), (None, Some(name)));
    }
    for (tag, value, said) in [
        (0x0018_5100, V::Text(b"CS", "HFP".into()), "the patient lies as HFP"),
        (0x3002_000E, ds(&[10.0]), "the detector is turned by 10 degrees"),
        (0x300A_0122, ds(&[-5.0]), "the table is turned by -5 degrees"),
        (0x3002_0010, ds(&[0.0, 1.0, 0.0, 1.0, 0.0, 0.0]), "the directions [0.0, 1.0"),
    ] {
        let mut set = treatment();
        set.insert(tag, value);
        let image = read(&set);
        assert!(image.geometry.is_none() && words(&image).contains(said), "{}", words(&image));
    }
    let mut set = treatment();
    set.extend([(0x300A_0122, ds(&[360.0])), (0x0018_5100, V::Text(b"CS", "HFS".into()))]);
    assert!(read(&set).geometry.is_some());
}

#[test]
fn headers_that_are_refused() {
    let mut colour = picture("OT", 1);
    colour.insert(0x0028_0002, V::U16(vec![3]));
    let mut cut = picture("XA", 2);
    cut.insert(0x0028_0008, is(3));
    let mut numbers = angiogram(1);
    numbers.insert(0x0018_1110, ds(&[1.0, 2.0]));
    let mut text = angiogram(1);
    text.insert(0x0018_1110, V::Text(b"DS", "near".into()));
    let mut none = picture("SR", 1);
    none.remove(&0x7FE0_0010);
    for (set, said) in [
        (colour, "3 samples per pixel"),
        (cut, "ends early"),
        (numbers, "(0018,1110) has 2 numbers instead of 1"),
        (text, "'near', which is not a number"),
        (none, "no image (its modality is 'SR')"),
    ] {
        let error = read_from_bytes("a.dcm", &file(&set, Form::Explicit)).unwrap_err().to_string();
        assert!(error.contains("a.dcm") && error.contains(said), "{error}");
    }
    // A series is not needed.
    let mut alone = picture("XA", 1);
    alone.remove(&0x0020_000E);
    assert_eq!(read(&alone).frames, 1);
}
