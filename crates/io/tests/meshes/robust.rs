//! Damaged and hostile files give one clear error.

use crate::{NAMES, parsed, sample};
use proptest::prelude::*;
use std::sync::LazyLock;
use std::time::Instant;
use voxalign_io::mesh::{self, WriteOptions};

fn written(name: &str, as_text: bool) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    let options = WriteOptions { as_text, ..WriteOptions::default() };
    mesh::write(&path, &sample(name), &options).unwrap();
    std::fs::read(path).unwrap()
}

/// Files of all formats and codings.
static FILES: LazyLock<Vec<(&str, Vec<u8>)>> = LazyLock::new(|| {
    let mut files: Vec<_> = NAMES.iter().map(|&name| (name, written(name, false))).collect();
    files.extend(["a.vtk", "a.vtp"].map(|name| (name, written(name, true))));
    files.extend(crate::others::TEXTS.iter().map(|&(name, text)| (name, text.as_bytes().to_vec())));
    files
});

fn check(name: &str, bytes: &[u8]) -> bool {
    let result = parsed(name, bytes);
    if let Err(error) = &result {
        let said = error.to_string();
        assert!(said.contains(name) && said.len() < 1000, "{said}");
    }
    result.is_ok()
}

#[test]
fn every_cut_is_read_or_refused() {
    for (name, bytes) in FILES.iter() {
        for n in 0..bytes.len() {
            let read = check(name, &bytes[..n]);
            // What follows the numbers of a surface may be missing in other formats; so may the end of a line.
            let counted = ["a.gii", "a.gii.gz", "a.stl", "a.tck"].contains(name);
            let rest = bytes[n..].trim_ascii();
            assert!(!(read && counted) || rest.is_empty(), "{name}: {n} of {}", bytes.len());
        }
    }
}

#[test]
fn claims_beyond_the_file_are_refused_at_once() {
    let huge = i32::MAX.to_be_bytes();
    let surface = [b"\xff\xff\xfea\n\n".as_slice(), &huge, &huge].concat();
    let mut stl = [0; 84];
    stl[80..].fill(0xff);
    let mut trk = written("a.trk", false);
    trk[1000..1004].copy_from_slice(&i32::MAX.to_le_bytes());
    let vtk =
        |rest: &str| format!("# vtk DataFile Version 3.0\n\nBINARY\nDATASET POLYDATA\n{rest}\n");
    let many = 1u64 << 61;
    let gii = |encoding: &str, dims: &str| {
        format!(
            "<GIFTI><DataArray Intent=\"NIFTI_INTENT_POINTSET\" DataType=\"NIFTI_TYPE_FLOAT32\" Dimensionality=\"2\" {dims} \
             Encoding=\"{encoding}\" Endian=\"LittleEndian\"><Data>AAAA</Data></DataArray></GIFTI>"
        )
    };
    let large = "Dim0=\"4000000000000\" Dim1=\"3\"";
    let vtp = |array: &str| {
        format!(
            "<VTKFile type=\"PolyData\" compressor=\"vtkZLibDataCompressor\"><PolyData><Piece NumberOfPoints=\"{many}\"><Points>\
             <DataArray type=\"Float32\" NumberOfComponents=\"3\" {array}</DataArray></Points></Piece></PolyData></VTKFile>"
        )
    };
    let ply = |rest: &str| format!("ply\nformat binary_little_endian 1.0\n{rest}end_header\n");
    for (name, bytes) in [
        ("lh.pial", surface),
        ("a.stl", stl.to_vec()),
        ("a.trk", trk),
        ("a.vtk", vtk("POINTS 99999999999999 double").into()),
        ("a.vtk", vtk(&format!("POINTS {many} double")).into()),
        ("a.vtk", vtk(&format!("POINTS {many} double")).replace("BINARY", "ASCII").into()),
        ("a.vtk", vtk(&format!("POLYGONS 1 {many}")).into()),
        ("a.vtk", vtk("POLYGONS 9999999999 0").into()),
        ("a.gii", gii("GZipBase64Binary", large).into()),
        ("a.gii", gii("Base64Binary", large).into()),
        ("a.gii", gii("ASCII", large).into()),
        ("a.gii", gii("ASCII", &format!("Dim0=\"{many}\" Dim1=\"{many}\"")).into()),
        ("a.vtp", vtp("format=\"binary\">/////////////////////w==").into()),
        ("a.vtp", vtp("format=\"appended\" offset=\"0\">").into()),
        ("a.vtp", vtp("format=\"ascii\">1 2 3").into()),
        ("a.ply", ply(&format!("element vertex {many}\nproperty float x\n")).into()),
        ("a.ply", ply("element a 9\nproperty list uint int b\n").into()),
    ] {
        let begin = Instant::now();
        assert!(!check(name, &bytes), "{name}: {}", String::from_utf8_lossy(&bytes));
        assert!(begin.elapsed().as_secs() < 2, "{name}");
    }
    // An element that takes no bytes takes no time.
    let none = format!(
        "element a {many}\nelement vertex 0\nproperty float x\nproperty float y\nproperty float z\n"
    );
    assert!(check("a.ply", ply(&none).as_bytes()));
    let deep = "<a>".repeat(100_000);
    assert!(!check("a.gii", format!("<GIFTI>{deep}").as_bytes()));
}

#[test]
fn indices_and_vertices_are_checked() {
    let vtk = |points: &str, cells: &str| {
        format!(
            "# vtk DataFile Version 3.0\nt\nASCII\nDATASET POLYDATA\nPOINTS 3 float\n{points}\n{cells}\n"
        )
    };
    let good = "0 0 0 1 0 0 0 1 0";
    for (text, part) in [
        (vtk(good, "POLYGONS 1 4\n3 0 1 3"), "face 0 has the vertex 3, but there are 3"),
        (vtk(good, "POLYGONS 1 4\n3 0 1 -1"), "-1 of a vertex is not a whole number"),
        (vtk(good, "LINES 1 3\n2 0 7"), "line 0 has the vertex 7"),
        (vtk(good, "LINES 1 3\n9 0 7"), "goes beyond"),
        (vtk("0 0 0 1 nan 0 0 1 0", ""), "vertex 1 is at [1.0, NaN, 0.0]"),
        (vtk(good, "POINT_DATA 4"), "4 values are for 3 points"),
        (vtk("0 0 0 1 x 0 0 1 0", ""), "line 6: 'x' is not a number"),
        (vtk(good, "").replace("POLYDATA", "STRUCTURED_POINTS"), "which is not a mesh"),
    ] {
        let said = parsed("a.vtk", text.as_bytes()).unwrap_err().to_string();
        assert!(said.contains(part) && said.contains("a.vtk"), "{said}");
    }
    for (name, at) in
        [("a.ply", 0), ("a.stl", 84 + 12), ("a.tck", 0), ("a.trk", 1004), ("lh.pial", 0)]
    {
        let mut bytes = written(name, false);
        let header = match name {
            "a.ply" => bytes.windows(11).position(|w| w == b"end_header\n").unwrap() + 11,
            "lh.pial" => bytes.windows(2).position(|w| w == b"\n\n").unwrap() + 10,
            "a.tck" => bytes.windows(4).position(|w| w == b"END\n").unwrap() + 4,
            _ => at,
        };
        // A coordinate that is not a number, in either byte order and size.
        let header = if name == "a.tck" { header.next_multiple_of(4) + 20 } else { header };
        bytes[header..header + 8].fill(0xff);
        if name == "a.tck" || name == "a.trk" || name == "a.stl" {
            bytes[header + 4..header + 8].fill(0);
        }
        assert!(!check(name, &bytes), "{name}");
    }
    for (name, bytes) in [("a.xyz", &b"nothing"[..]), ("a", b""), ("a.gz", b"\x1f\x8b")] {
        assert!(!check(name, bytes));
    }
}

proptest! {
    #[test]
    fn damaged_files_are_read_or_refused(
        file in 0usize..20,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let (name, mut bytes) = FILES[file % FILES.len()].clone();
        for (place, value) in changes {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        check(name, &bytes);
    }
}
