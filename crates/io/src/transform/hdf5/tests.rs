//! Files with sound checksums and unsound content.

use super::checksum::lookup3;
use super::*;
use crate::transform::{self, Geometry};

fn written(transform: &Transform) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.h5");
    transform::write(&path, transform, &Geometry::default()).unwrap();
    std::fs::read(path).unwrap()
}

fn field() -> Transform {
    let grid = Grid::axis_aligned([4, 3, 2], [1.0, 2.0, 3.0]).unwrap();
    Transform::Displacement(Displacement::new(VectorField::zeros(grid)))
}

/// Makes the checksums of all headers right again.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let seal = |part: &mut [u8]| {
        let (body, sum) = part.split_at_mut(part.len() - 4);
        sum.copy_from_slice(&lookup3(body).to_le_bytes());
    };
    seal(&mut bytes[..48]);
    for at in 48..bytes.len() - 10 {
        if bytes[at..].starts_with(b"OHDR\x02\x02") {
            let size = u32::from_le_bytes(bytes[at + 6..at + 10].try_into().unwrap()) as usize;
            if let Some(part) = bytes.get_mut(at..at + 14 + size) {
                seal(part);
            }
        }
    }
    bytes
}

/// The place of the nth of some bytes.
fn find(bytes: &[u8], what: &[u8], nth: usize) -> usize {
    let mut found = (0..bytes.len()).filter(|&i| bytes[i..].starts_with(what));
    found.nth(nth).unwrap()
}

fn message(bytes: &[u8]) -> String {
    let read = transform::read_from_bytes("a.h5", bytes, &Geometry::default());
    let error = read.map_or_else(|e| e.to_string(), |_| "a.h5 is read".into());
    assert!(error.contains("a.h5") && error.len() < 1000, "{error}");
    error
}

/// A file with some bytes put in the place of others, and sound checksums.
fn changed(bytes: &[u8], what: &[u8], nth: usize, new: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let at = find(&bytes, what, nth);
    bytes[at..at + new.len()].copy_from_slice(new);
    sealed(bytes)
}

#[test]
fn one_clear_error_each() {
    let good = written(&field());
    assert_eq!(sealed(good.clone()), good);
    assert!(transform::read_from_bytes("a.h5", &good, &Geometry::default()).is_ok());
    // The sizes of the parameters, 72 numbers.
    let count = [&[2u8, 1, 0, 1][..], &72u64.to_le_bytes()].concat();
    let sized = |n: u64| [&[2u8, 1, 0, 1][..], &n.to_le_bytes()].concat();
    let double = b"\x11\x20\x3f\0\x08\0\0\0";
    let size = |n: f64| [n.to_le_bytes(), 3f64.to_le_bytes()].concat();
    let sizes = size(4.0);
    let spacing = [1f64, 2.0, 3.0].map(f64::to_le_bytes).concat();
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (changed(&good, &count, 0, &sized(u64::MAX)), "18446744073709551615 values"),
        (changed(&good, &count, 0, &sized(1 << 60)), "1152921504606846976 values"),
        (changed(&good, &count, 0, &sized(1 << 40)), "576 bytes for 1099511627776 values"),
        (changed(&good, &count, 0, &sized(71)), "71 numbers for a field of the sizes [4, 3, 2]"),
        (changed(&good, &count, 0, &[2, 2]), "2 axes"),
        (changed(&good, &sizes, 0, &size(1e15)), "[1000000000000000, 3, 2]"),
        (changed(&good, &sizes, 0, &size(1e300)), "sizes [1e300"),
        (changed(&good, &sizes, 0, &size(4.5)), "sizes [4.5"),
        (changed(&good, &sizes, 0, &size(f64::NAN)), "sizes [NaN"),
        (changed(&good, &spacing, 0, &0f64.to_le_bytes()), "spacing [0.0"),
        (changed(&good, double, 1, b"\x10\x08\0\0"), "whole numbers"),
        (changed(&good, double, 1, b"\x11\x20\x3f\0\x04"), "4 bytes are of an unusual kind"),
        (
            changed(&good, b"TransformParameters", 0, b"TransformXarameters"),
            "no TransformParameters",
        ),
        (changed(&good, b"TransformType", 0, b"TransformTyqe"), "no TransformType"),
        (changed(&good, b"TransformGroup", 0, b"SomethingElse!"), "no group TransformGroup"),
        (
            changed(&good, b"DisplacementFieldTransform_d", 0, b"BSplineSomethingTransform__"),
            "BSplineSome",
        ),
        (changed(&good, b"_double_3_3", 0, b"_double_2_3"), "unknown dimensions"),
        (changed(&good, b"_double_3_3", 0, b"_double_2_2"), "18 fixed parameters instead of 10"),
        (changed(&good, b"GCOL", 0, b"GCOX"), "heap of texts"),
        (changed(&good, b"HDF\r\n", 0, b"HDF\n\n"), "text mode"),
        ([&b"\x89HDF"[..], &[0; 40]].concat(), "text mode"),
        (b"\x89HDF\r\n\x1a\n\x09".to_vec(), "ends early"),
    ];
    for (bytes, part) in cases {
        let error = message(&bytes);
        assert!(error.contains(part), "'{part}' is not in: {error}");
    }
    // A changed header alone.
    let mut bytes = good.clone();
    let at = find(&bytes, b"OHDR", 0);
    bytes[at + 12] ^= 4;
    assert!(message(&bytes).contains("checksum of the OHDR"));
    let mut bytes = good;
    bytes[40] ^= 1;
    assert!(message(&bytes).contains("checksum"));
}

#[test]
fn values_that_are_not_numbers() {
    let grid = Grid::axis_aligned([4, 3, 2], [1.0, 2.0, 3.0]).unwrap();
    for value in [f32::NAN, f32::INFINITY] {
        let mut field = VectorField::zeros(grid.clone());
        field.data_mut()[24 + 5] = value;
        let bytes = written(&Transform::Displacement(Displacement::new(field)));
        assert!(message(&bytes).contains("component 1 of voxel 5"));
    }
    let far = Affine::translation(Vector3::new(1e300, 0.0, 0.0));
    let bytes = written(&Transform::Affine(far));
    let t = transform::read_from_bytes("a.h5", &bytes, &Geometry::default()).unwrap();
    assert_eq!(t, Transform::Affine(far));
}

/// Parts that refer to each other in circles come to an end.
#[test]
fn circles() {
    let good = written(&Transform::Composite(vec![Transform::identity(); 2]));
    // The group of the transforms is its own first member, and the root.
    let link = |name: &[u8]| [&[1, 0, name.len() as u8][..], name].concat();
    let root = 48u64.to_le_bytes();
    for name in [&b"0"[..], b"TransformGroup", b"TransformType"] {
        let at = find(&good, &link(name), 0) + 3 + name.len();
        let mut bytes = good.clone();
        bytes[at..at + 8].copy_from_slice(&root);
        let _ = message(&sealed(bytes));
    }
    let mut bytes = good.clone();
    // The group's information becomes a continuation of the header in itself.
    let at = find(&bytes, &[0x0a, 2, 0, 1, 0, 0], 0);
    bytes[at] = 0x10;
    assert!(message(&sealed(bytes)).contains("ends early"));
}

#[test]
fn many_transforms() {
    let shift = |i: usize| Transform::Affine(Affine::translation(Vector3::new(i as f64, 0.0, 0.5)));
    let many = Transform::Composite((0..3000).map(shift).collect());
    let bytes = written(&many);
    let back = transform::read_from_bytes("a.h5", &bytes, &Geometry::default()).unwrap();
    assert_eq!(back, many);
    let more = Transform::Composite((0..10_000).map(shift).collect());
    assert!(message(&written(&more)).contains("more than 10000"));
}

/// Values that many links lead to are not read once a link: small files would become large images.
#[test]
fn many_links_to_one_field() {
    let grid = Grid::axis_aligned([20, 20, 20], [1.0; 3]).unwrap();
    let field = Transform::Displacement(Displacement::new(VectorField::zeros(grid)));
    let shift = |_| Transform::Affine(Affine::translation(Vector3::new(1.0, 0.0, 0.5)));
    let all = [field].into_iter().chain((0..30).map(shift)).collect();
    let mut bytes = written(&Transform::Composite(all));
    let place = |bytes: &[u8], number: usize| {
        let name = number.to_string();
        find(bytes, &[&[1, 0, name.len() as u8][..], name.as_bytes()].concat(), 0) + 3 + name.len()
    };
    let last = place(&bytes, 31);
    let field: [u8; 8] = bytes[last..last + 8].try_into().unwrap();
    for number in 30..31 {
        let at = place(&bytes, number);
        bytes[at..at + 8].copy_from_slice(&field);
    }
    // Two parts may share their values.
    assert_eq!(message(&sealed(bytes.clone())), "a.h5 is read");
    for number in 10..30 {
        let at = place(&bytes, number);
        bytes[at..at + 8].copy_from_slice(&field);
    }
    let said = message(&sealed(bytes));
    assert!(said.contains("are the same values, more than the file has bytes"), "{said}");
}
