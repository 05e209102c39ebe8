//! Damaged and hostile files give one clear error: no panic, and no memory beyond the file's worth.

#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
#[path = "dicom/writer.rs"]
mod writer;

use proptest::prelude::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use voxalign_image::{Affine, Grid, Transform, Volume};
use voxalign_io::image::{
    DataType, WriteOptions, read_info, read_info_from_bytes, read_labels_from_bytes, read_volume,
    read_volume_from_bytes, write_volume,
};
use voxalign_io::points::{self, ReadOptions};
use voxalign_io::transform::{self, Geometry};
use voxalign_io::xray;

/// The largest single request for memory.
static LARGEST: AtomicUsize = AtomicUsize::new(0);

struct Watching;

// SAFETY: every call is passed on unchanged to the system's allocator.
unsafe impl GlobalAlloc for Watching {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Watching = Watching;

/// Buffers and small files need less than this at once.
const BOUND: usize = 64 << 20;

const NAMES: [&str; 5] = ["a.nii", "a.nii.gz", "a.nrrd", "a.mha", "a.hdr"];

fn sample(name: &str, level: u32) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    let grid = Grid::axis_aligned([5, 4, 3], [1.0, 2.0, 3.0]).unwrap();
    let volume = Volume::from_fn(grid, |x, y, z| (x + y * z) as f32);
    let options = WriteOptions { compression_level: level, ..WriteOptions::default() };
    write_volume(&path, &volume, &options).unwrap();
    std::fs::read(path).unwrap()
}

/// Lists of points in every format.
const POINTS: [&str; 7] = [
    "name,x,y,z\na,1,2,3\n\"b, c\",4,5e1,-6\n",
    "x,y,z,t,label,comment\n1,2,3,0,7,a nose\n",
    "# Markups fiducial file version = 4.11\n# CoordinateSystem = LPS\n\
     # columns = id,x,y,z,ow,ox,oy,oz,vis,sel,lock,label,desc,associatedNodeID\n\
     1,1,2,3,0,0,0,1,1,1,0,\"a, b\",,\n2,-4,5,6e0,0,0,0,1,1,0,0,F-2,tip,v,2,0\n3,0,0,0,0,0,0,1,1,1,0,c,,,0,0\n",
    "{\"@schema\": \"markups-schema-v1.0.3.json#\", \"markups\": [{\"type\": \"Curve\", \"coordinateSystem\": \"LPS\", \
     \"controlPoints\": [{\"label\": \"a\", \"position\": [1, 2, 3.5], \"positionStatus\": \"undefined\"}, \
     {\"position\": [4e1, 5, -6], \"locked\": true}]}]}",
    "index\n2\n1 2 3\n4.5 5 6\n",
    "Point\t0\t; InputIndex = [ 1 2 3 ]\t; OutputPoint = [ 10.5 20 30 ]\t; Deformation = [ 9 18 27 ]\n",
    "MNI Tag Point File\nVolumes = 2;\n% c\n\nPoints =\n 1 2 3 4 5 6 0 -1 -1 \"nose\"\n -7 8 9 10 11 12;\n",
];

/// Reads points in every way; errors have to name the file, and points are numbers.
fn read_points(bytes: &[u8]) {
    let grid = Grid::axis_aligned([5, 4, 3], [1.0, 2.0, 3.0]).unwrap();
    for grid in [None, Some(&grid)] {
        for volume in [None, Some(1)] {
            let options = ReadOptions { grid, volume, ..ReadOptions::default() };
            match points::read_from_bytes("p.csv", bytes, &options) {
                Ok((set, info)) => {
                    assert!(set.points().iter().all(|p| p.iter().all(|v| v.is_finite())));
                    assert!(info.oddities.iter().all(|oddity| oddity.len() < 500));
                }
                Err(error) => {
                    let said = error.to_string();
                    assert!(said.contains("p.csv") && said.len() < 1000, "{said}");
                }
            }
        }
    }
    assert!(LARGEST.load(Ordering::Relaxed) < BOUND);
}

#[test]
fn lists_cut_anywhere_are_read_or_refused() {
    for text in POINTS {
        for n in 0..text.len() {
            read_points(&text.as_bytes()[..n]);
        }
    }
}

/// Reads in every way; errors have to name the file.
fn read_all(name: &str, bytes: &[u8]) {
    let results = [
        read_info_from_bytes(name, bytes).err(),
        read_volume_from_bytes(name, bytes).err(),
        read_labels_from_bytes(name, bytes).err(),
        transform::read_from_bytes(name, bytes, &Geometry::default()).err(),
    ];
    for error in results.into_iter().flatten() {
        let message = error.to_string();
        assert!(message.contains(name) && message.len() < 1000, "{message}");
    }
    assert!(LARGEST.load(Ordering::Relaxed) < BOUND);
}

#[test]
fn every_cut_is_an_error() {
    for name in NAMES {
        for level in [0, 3] {
            let bytes = sample(name, level);
            for n in 0..bytes.len() {
                read_all(name, &bytes[..n]);
                assert!(read_volume_from_bytes(name, &bytes[..n]).is_err(), "{name} {n}");
            }
        }
    }
}

#[test]
fn claims_of_pictures_allocate_nothing() {
    // Tiles and strips whose sizes no file of this length could hold.
    for (tag, bytes) in [(0x0100u16, 4), (0x0101, 4), (0x0142, 4), (0x0143, 4), (0x0115, 2)] {
        for tiles in [false, true] {
            let places: [(u16, u32); 4] = match tiles {
                true => [(0x0142, 16), (0x0143, 16), (0x0144, 8), (0x0145, 20)],
                false => [(0x0111, 8), (0x0115, 1), (0x0116, 10), (0x0117, 20)],
            };
            let sizes = [(0x0100, 10), (0x0101, 10), (0x0102, 8), (0x0103, 5), (0x0106, 1)];
            let mut file = b"II*\0\x08\0\0\0\x09\0".to_vec();
            for (own, value) in sizes.into_iter().chain(places) {
                let value = if own == tag { u32::MAX >> (32 - 8 * bytes) } else { value };
                file.extend(own.to_le_bytes());
                file.extend([4, 0, 1, 0, 0, 0]);
                file.extend(value.to_le_bytes());
            }
            file.extend([0; 60]);
            let error = xray::read_from_bytes("a.tif", &file).unwrap_err().to_string();
            assert!(error.contains("a.tif") && error.len() < 1000, "{error}");
        }
    }
    // The sizes of a PNG, with the checksum of its header.
    let mut file = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR".to_vec();
    file.extend([0x7F, 0xFF, 0xFF, 0xFF, 0, 0xFF, 0xFF, 0xFF, 16, 6, 0, 0, 0]);
    let mut sum = flate2::Crc::new();
    sum.update(&file[12..]);
    file.extend(sum.sum().to_be_bytes());
    file.extend(b"\0\0\0\x08IDATabcdefgh");
    let error = xray::read_from_bytes("a.png", &file).unwrap_err().to_string();
    assert!(error.contains("a.png") && error.len() < 1000, "{error}");
    assert!(LARGEST.load(Ordering::Relaxed) < BOUND);
}

fn message(name: &str, bytes: &[u8]) -> String {
    let error = read_volume_from_bytes(name, bytes).unwrap_err().to_string();
    assert!(error.contains(name), "{error}");
    error
}

/// A NIfTI-1 file with some bytes changed.
fn nifti(changes: &[(usize, &[u8])]) -> Vec<u8> {
    let mut bytes = sample("a.nii", 0);
    for (at, new) in changes {
        bytes[*at..at + new.len()].copy_from_slice(new);
    }
    bytes
}

#[test]
fn claims_beyond_the_file_allocate_nothing() {
    let big = 30_000i16.to_le_bytes();
    let huge = nifti(&[(42, &big), (44, &big), (46, &big)]);
    assert!(message("a.nii", &huge).contains("108000000000352 bytes are expected"));
    let mut packed = voxalign_io::gzip::GzipWriter::new(Vec::new(), 1).unwrap();
    std::io::Write::write_all(&mut packed, &huge).unwrap();
    assert!(message("a.nii.gz", &packed.finish().unwrap()).contains("ends early"));
    let nrrd = |sizes: &str| {
        format!("NRRD0004\ntype: float\ndimension: 3\nsizes: {sizes}\nencoding: gzip\n\n")
    };
    assert!(message("a.nrrd", nrrd("100000 100000 100").as_bytes()).contains("ends early"));
    let overflow = nrrd("4294967296 4294967296 4294967296");
    assert!(message("a.nrrd", overflow.as_bytes()).contains("more voxels"));
    assert!(LARGEST.load(Ordering::Relaxed) < BOUND);
}

#[test]
fn one_clear_error_each() {
    let f = |v: f32| v.to_le_bytes();
    let zero = [0u8; 2];
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (vec![], "0 bytes"),
        (nifti(&[(0, &[1, 2, 3, 4])]), "348"),
        (nifti(&[(344, b"abcd")]), "magic"),
        (nifti(&[(344, b"ni1\0")]), "pair"),
        (nifti(&[(40, &[9, 0])]), "number of axes"),
        (nifti(&[(42, &(-5i16).to_le_bytes())]), "size of axis 1 is -5"),
        (nifti(&[(44, &zero)]), "size of axis 2 is 0"),
        (nifti(&[(70, &128i16.to_le_bytes())]), "RGB"),
        (nifti(&[(70, &1536i16.to_le_bytes())]), "128-bit"),
        (nifti(&[(70, &32i16.to_le_bytes())]), "complex"),
        (nifti(&[(108, &f(f32::NAN))]), "vox_offset"),
        (nifti(&[(108, &f(100.0))]), "within the header"),
        (nifti(&[(108, &f(1e9))]), "ends early"),
        (nifti(&[(252, &zero), (280, &f(f32::NAN))]), "sform"),
        (nifti(&[(252, &zero), (254, &zero), (80, &f(0.0))]), "pixdim[1]"),
        (nifti(&[(254, &zero), (84, &f(f32::INFINITY))]), "pixdim[2]"),
        (nifti(&[(254, &zero), (256, &f(f32::NAN))]), "quaternion"),
    ];
    for (bytes, part) in cases {
        let error = message("a.nii", &bytes);
        assert!(error.contains(part), "'{part}' is not in: {error}");
    }
    let four = nifti(&[(40, &[4, 0]), (46, &1i16.to_le_bytes()), (48, &3i16.to_le_bytes())]);
    assert!(message("a.nii", &four).contains("[5, 4, 1, 3]"));
    for (text, part) in [
        ("NRRD0004\n\n", "sizes"),
        ("NRRD0004\ntype: float\ndimension: 2\nsizes: 3\nencoding: raw\n\n", "dimension"),
        ("NRRD0004\ntype: float\ndimension: 2\nsizes: 3 -3\nencoding: raw\n\n", "'-3'"),
        ("NRRD0004\ntype: block\ndimension: 2\nsizes: 3 3\nencoding: raw\n\n", "block"),
        ("NRRD0004\ntype: float\ndimension: 2\nsizes: 3 3\nencoding: bzip2\n\n", "bzip2"),
        (
            "NRRD0004\ntype: float\ndimension: 2\nsizes: 3 3\nencoding: raw\nspace: x\n\n",
            "space 'x'",
        ),
        (
            "NRRD0004\ntype: float\ndimension: 2\nsizes: 3 3\nencoding: raw\n\
             space directions: (1,0) (nan,1)\n\n",
            "'nan'",
        ),
    ] {
        let error = message("a.nrrd", text.as_bytes());
        assert!(error.contains(part), "'{part}' is not in: {error}");
    }
    let meta = |lines: &str| {
        format!("NDims = 2\nDimSize = 3 3\nElementType = MET_UCHAR\n{lines}\n").into_bytes()
    };
    for (lines, part) in [
        ("", "ElementDataFile"),
        ("ElementSpacing = 1 0\nElementDataFile = LOCAL", "not a valid spacing"),
        ("TransformMatrix = 1 0 0\nElementDataFile = LOCAL", "TransformMatrix"),
        ("TransformMatrix = 0 0 0 0\nElementDataFile = LOCAL", "spacing along axis 0"),
        ("ElementDataFile = LIST", "several files"),
        ("ElementDataFile = other.raw", "other.raw"),
        ("ElementDataFile = LOCAL", "ends early"),
        ("ObjectType = Tube\nElementDataFile = LOCAL", "Tube"),
    ] {
        let error = message("a.mha", &meta(lines));
        assert!(error.contains(part), "'{part}' is not in: {error}");
    }
}

#[test]
fn files_that_are_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let check = |path: &Path, part: &str| {
        let error = read_volume(path).unwrap_err().to_string();
        assert!(error.contains(part), "'{part}' is not in: {error}");
        assert!(error.contains(path.file_name().unwrap().to_str().unwrap()), "{error}");
    };
    check(&folder.path().join("none.nii"), "check the path");
    check(folder.path(), "folder");
    let put = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    check(&put("empty.nii.gz", b""), "empty");
    check(&put("image.xyz", b"abc"), ".nii.gz");
    check(&put("alone.hdr", &sample("a.hdr", 0)), "alone.img");
    check(&put("other.img", b"abc"), "other.hdr");
    check(
        &put(
            "d.mhd",
            b"NDims = 2\nDimSize = 2 2\nElementType = MET_UCHAR\n\
        ElementDataFile = gone.raw\n",
        ),
        "gone.raw",
    );
    let name = folder.path().join("image.jpg");
    let volume = Volume::filled(Grid::axis_aligned([2, 2, 2], [1.0; 3]).unwrap(), 0.0);
    let error = write_volume(&name, &volume, &WriteOptions::default()).unwrap_err().to_string();
    assert!(error.contains("image.jpg") && error.contains(".nrrd"), "{error}");
    assert!(read_info(&name).is_err());
    assert!("f16".parse::<DataType>().unwrap_err().contains("f32"));
}

#[test]
fn damaged_checksums_are_noticed() {
    let mut bytes = sample("a.nii.gz", 3);
    let n = bytes.len();
    bytes[n - 6] ^= 0x40;
    assert!(message("a.nii.gz", &bytes).contains("damaged"));
    let mut bytes = sample("a.mha", 3);
    let n = bytes.len();
    bytes[n - 2] ^= 0x40;
    assert!(message("a.mha", &bytes).contains("a.mha"));
}

/// HDF5 transforms as this and other programs write them.
fn hdf5_files() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/h5");
    let mut names: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.retain(|name| name.extension().is_some_and(|e| e == "gz"));
    names.sort();
    let unpacked = |name: &std::path::PathBuf| {
        let mut bytes = Vec::new();
        let packed = std::fs::read(name).unwrap();
        let mut reader = flate2::read::GzDecoder::new(&packed[..]);
        std::io::Read::read_to_end(&mut reader, &mut bytes).unwrap();
        bytes
    };
    let mut all: Vec<Vec<u8>> = names.iter().map(unpacked).collect();
    all.push(transforms().pop().unwrap());
    all
}

/// Reads an HDF5 transform; errors have to name the file.
fn read_hdf5(bytes: &[u8]) -> bool {
    let result = transform::read_from_bytes("a.h5", bytes, &Geometry::default());
    assert!(LARGEST.load(Ordering::Relaxed) < BOUND);
    if let Err(error) = &result {
        let message = error.to_string();
        assert!(message.contains("a.h5") && message.len() < 1000, "{message}");
    }
    result.is_ok()
}

#[test]
fn every_cut_of_hdf5_is_an_error() {
    for bytes in hdf5_files() {
        let every = bytes.len() / 1500 + 1;
        for n in (0..bytes.len()).step_by(every) {
            assert!(!read_hdf5(&bytes[..n]), "{n} of {}", bytes.len());
        }
    }
}

#[test]
fn every_changed_byte_of_hdf5() {
    let (mut tried, mut read) = (0, 0);
    for mut bytes in hdf5_files() {
        // Of a long file with many transforms some bytes are enough.
        let every = if bytes.len() > 20_000 { 11 } else { 1 };
        for at in (0..bytes.len()).step_by(every) {
            let old = bytes[at];
            // Within what is not used, one of many bytes is enough.
            let unused =
                bytes[at.saturating_sub(24)..bytes.len().min(at + 24)].iter().all(|&b| b == 0);
            if unused && at % 61 != 0 {
                continue;
            }
            for new in [old ^ 1, 0xff - old] {
                bytes[at] = new;
                tried += 1;
                read += usize::from(read_hdf5(&bytes));
            }
            bytes[at] = old;
        }
    }
    println!("{tried} changed files, {read} still read");
}

/// Bytes of a valid file with a few of them changed, and perhaps cut or extended.
fn mutated(files: Vec<Vec<u8>>) -> impl Strategy<Value = (usize, Vec<u8>)> {
    let change = (any::<prop::sample::Index>(), any::<u8>());
    let n = files.len();
    (
        0..n,
        prop::collection::vec(change, 0..12),
        prop::option::of(any::<prop::sample::Index>()),
        any::<bool>(),
    )
        .prop_map(move |(which, changes, cut, head)| {
            let mut bytes = files[which].clone();
            let range = if head { bytes.len().min(400) } else { bytes.len() };
            for (at, value) in changes {
                bytes[at.index(range)] = value;
            }
            if let Some(cut) = cut {
                bytes.truncate(cut.index(bytes.len()));
            }
            (which, bytes)
        })
}

/// Number of changed files; more by the environment variable `PROPTEST_CASES`.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(4000)
}

fn images() -> Vec<Vec<u8>> {
    NAMES.iter().flat_map(|n| [sample(n, 0), sample(n, 3)]).collect()
}

fn transforms() -> Vec<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let grid = Grid::axis_aligned([5, 4, 3], [1.0, 2.0, 3.0]).unwrap();
    let geometry = Geometry { fixed: Some(&grid), moving: Some(&grid) };
    let rows = [[1., 0.1, 0., 4.], [0., 0.9, 0., 5.], [0., 0., 1.1, 6.]];
    let affine = Transform::Affine(Affine::from_rows(rows));
    let both = Transform::Composite(vec![affine.clone(), affine]);
    ["a.tfm", "a.mat", "a.fsl", "a.nii", "a.h5"]
        .iter()
        .map(|name| {
            let path = folder.path().join(name);
            transform::write(&path, &both, &geometry).unwrap();
            std::fs::read(path).unwrap()
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn changed_images((which, bytes) in mutated(images())) {
        read_all(NAMES[which / 2], &bytes);
    }

    #[test]
    fn changed_hdf5((_, bytes) in mutated(hdf5_files())) {
        read_hdf5(&bytes);
    }

    #[test]
    fn changed_transforms((which, bytes) in mutated(transforms())) {
        let grid = Grid::axis_aligned([5, 4, 3], [1.0, 2.0, 3.0]).unwrap();
        let geometry = Geometry { fixed: Some(&grid), moving: Some(&grid) };
        let name = ["a.tfm", "a.mat", "a.mat", "a.nii", "a.h5"][which];
        if let Err(e) = transform::read_from_bytes(name, &bytes, &geometry) {
            let message = e.to_string();
            prop_assert!(message.contains(name) && message.len() < 1500, "{}", message);
        }
        prop_assert!(LARGEST.load(Ordering::Relaxed) < BOUND);
    }

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..600), which in 0..NAMES.len()) {
        read_all(NAMES[which], &bytes);
        read_points(&bytes);
    }

    #[test]
    fn any_points(text in "[xyzXYZ,\"\n0-9.e-]{0,80}") {
        read_points(text.as_bytes());
        for begin in ["x,y,z\n", "point\n2\n", "index\n", "# columns = id,x,y,z\n", "{\"markups\": [", "MNI Tag Point File\n"] {
            read_points(format!("{begin}{text}").as_bytes());
        }
    }

    #[test]
    fn changed_points((_, bytes) in mutated(POINTS.iter().map(|text| text.as_bytes().to_vec()).collect())) {
        read_points(&bytes);
    }
}

#[test]
fn dicom_claims_allocate_nothing() {
    use writer::{Form, V, file, meta, packed_file, slice};
    let plain = slice("1.2.3", 0, [0.0; 3]);
    for form in [Form::Explicit, Form::Implicit, Form::Big, Form::Deflated, Form::Bare] {
        let bytes = file(&plain, form);
        for n in (0..bytes.len()).step_by(7) {
            read_all("a.dcm", &bytes[..n]);
        }
        for at in 128..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0xFF;
            read_all("a.dcm", &damaged);
        }
    }
    let mut large = plain;
    large.insert(0x0028_0010, V::U16(vec![u16::MAX]));
    large.insert(0x0028_0011, V::U16(vec![u16::MAX]));
    assert!(message("a.dcm", &file(&large, Form::Explicit)).contains("ends early"));
    large.insert(0x7FE0_0010, V::Fragments(vec![vec![], vec![7; 100]]));
    for syntax in ["1.2.840.10008.1.2.5", "1.2.840.10008.1.2.4.50", "1.2.840.10008.1.2.4.90"] {
        let said = message("a.dcm", &packed_file(&large, syntax));
        assert!(said.contains("cannot hold"), "{said}");
    }
    // Of what is looked at, a value of nearly 4 GiB.
    let mut long = meta("1.2.840.10008.1.2.1");
    long.extend(b"\x20\x00\x0E\x00UT\0\0\x00\x00\x00\xF0");
    assert!(message("a.dcm", &long).contains("ends early"));
    assert!(LARGEST.load(Ordering::Relaxed) < BOUND);
}
