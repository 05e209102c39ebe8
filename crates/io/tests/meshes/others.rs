//! Files as other programs write them.

use crate::parsed;
use voxalign_image::Vector3;
use voxalign_io::mesh::{MeshSpace, ReadOptions, read_from_bytes};

/// Small files with what is not written here.
pub(crate) const TEXTS: [(&str, &str); 9] = [
    (
        "strips.vtk",
        "# vtk DataFile Version 3.0\n3D Slicer output. SPACE=LPS\nASCII\nDATASET POLYDATA\nPOINTS 5 float\n\
         0 0 0 1 0 0 0 1 0\n1 1 0 2 2 1\nVERTICES 1 2\n1 0\nTRIANGLE_STRIPS 1 5\n4 0 1 2 3\nPOLYGONS 2 9\n4 0 1 3 2\n\
         3 1 4 3\nCELL_DATA 3\nSCALARS c int\nLOOKUP_TABLE default\n1 2 3\nPOINT_DATA 5\nSCALARS s%20t float 1\nLOOKUP_TABLE t\n\
         1 2 3 4 5\nLOOKUP_TABLE t 1\n0 0 0 1\nVECTORS v double\n1 2 3 1 2 3 1 2 3 1 2 3 1 2 3\n\
         FIELD FieldData 2\nf 2 5 int\n1 2 3 4 5 6 7 8 9 10\nMETADATA\nINFORMATION 0\n\ng 1 5 string\na\nb\nc\nd\ne\n",
    ),
    (
        "new.vtk",
        "# vtk DataFile Version 5.1\nvtk output\nASCII\nDATASET POLYDATA\nPOINTS 4 double\n0 0 0 1 0 0 0 1 0 0 0 1\n\
         METADATA\nINFORMATION 1\nNAME L2_NORM_RANGE LOCATION vtkDataArray\nDATA 2 0 1\n\nLINES 2 3\nOFFSETS vtktypeint64\n0 3 \
         CONNECTIVITY\n",
    ),
    (
        "grid.vtk",
        "# vtk DataFile Version 2.0\ng\nASCII\nDATASET UNSTRUCTURED_GRID\nPOINTS 4 float\n0 0 0 1 0 0 0 1 0 1 1 0\n\
         CELLS 4 14\n3 0 1 2\n4 0 1 2 3\n2 0 3\n1 2\nCELL_TYPES 4\n5\n8\n3\n1\n",
    ),
    (
        "loops.stl",
        "solid a vertex SPACE=RAS\n facet normal 0 0 1\n  outer loop\n   vertex 0 0 0\n   vertex 1 0 0\n   vertex 1 1 0\n\
         \n   vertex 0 1 0\n  endloop\n endfacet\nendsolid a\nsolid b\nendsolid b\n",
    ),
    (
        "text.ply",
        "ply\nformat ascii 1.0\ncomment made by hand\nelement vertex 4\nproperty float x\nproperty float y\nproperty float z\n\
         property uchar red\nelement face 2\nproperty list uchar int vertex_index\nproperty int flags\nelement edge 3\n\
         property int vertex1\nproperty int vertex2\nend_header\n0 0 0 1\n1 0 0 2\n1 1 0 3\n0 1 0 4\n4 0 1 2 3 7\n3 0 1 2 7\n\
         0 1\n1 2\n0 3\n",
    ),
    (
        "text.gii",
        "<?xml version=\"1.0\"?><!DOCTYPE GIFTI SYSTEM \"gifti.dtd\"><GIFTI><DataArray Intent=\"NIFTI_INTENT_TRIANGLE\" \
         DataType=\"NIFTI_TYPE_INT32\" ArrayIndexingOrder=\"ColumnMajorOrder\" Dimensionality=\"2\" Dim0=\"2\" Dim1=\"3\" \
         Encoding=\"ASCII\"><Data>0 1 1 2 2 3</Data></DataArray><DataArray Intent=\"NIFTI_INTENT_POINTSET\" \
         DataType=\"NIFTI_TYPE_FLOAT32\" ArrayIndexingOrder=\"RowMajorOrder\" Dimensionality=\"2\" Dim0=\"4\" Dim1=\"3\" \
         Encoding=\"ASCII\"><MetaData><MD><Name><![CDATA[VolGeomC_R]]></Name><Value><![CDATA[10]]></Value></MD>\
         <MD><Name>VolGeomC_S</Name><Value>-5</Value></MD></MetaData><CoordinateSystemTransformMatrix><DataSpace>\
         <![CDATA[NIFTI_XFORM_UNKNOWN]]></DataSpace><TransformedSpace>NIFTI_XFORM_TALAIRACH</TransformedSpace><MatrixData>\
         2 0 0 0 0 1 0 0 0 0 1 0 0 0 0 1</MatrixData></CoordinateSystemTransformMatrix><Data>0 0 0 1 0 0 0 1 0 0 0 1</Data>\
         </DataArray><DataArray Intent=\"NIFTI_INTENT_SHAPE\" DataType=\"NIFTI_TYPE_UINT8\" Dimensionality=\"1\" Dim0=\"4\" \
         Encoding=\"Base64Binary\" Endian=\"BigEndian\"><Data>AQID\nBA==</Data></DataArray></GIFTI>",
    ),
    (
        "space.gii",
        "<GIFTI><DataArray Intent=\"NIFTI_INTENT_POINTSET\" DataType=\"NIFTI_TYPE_FLOAT32\" Dimensionality=\"2\" Dim0=\"1\" \
         Dim1=\"3\" Encoding=\"ASCII\"><CoordinateSystemTransformMatrix><DataSpace>NIFTI_XFORM_TALAIRACH</DataSpace>\
         <TransformedSpace>NIFTI_XFORM_SCANNER_ANAT</TransformedSpace><MatrixData>2 0 0 1 0 1 0 2 0 0 1 3 0 0 0 1</MatrixData>\
         </CoordinateSystemTransformMatrix><Data>1 1 1</Data></DataArray></GIFTI>",
    ),
    (
        "pieces.vtp",
        "<VTKFile type=\"PolyData\" byte_order=\"LittleEndian\" compressor=\"vtkZLibDataCompressor\"><PolyData><FieldData>\
         <Array type=\"String\" Name=\"SPACE\" NumberOfTuples=\"1\" format=\"ascii\">76 80 83 0</Array></FieldData>\
         <Piece NumberOfPoints=\"3\"><PointData Normals=\"n\"><DataArray type=\"Float32\" Name=\"n\" NumberOfComponents=\"3\" \
         format=\"ascii\">1 1 1 1 1 1 1 1 1</DataArray></PointData><CellData><DataArray type=\"Int8\" Name=\"c\">1</DataArray>\
         </CellData><Points><DataArray type=\"Float32\" NumberOfComponents=\"3\" format=\"ascii\">0 0 0 1 0 0 0 1 0\
         <InformationKey name=\"L2\">7</InformationKey></DataArray></Points><Polys><DataArray type=\"Int32\" \
         Name=\"connectivity\" format=\"ascii\">0 1 2</DataArray><DataArray type=\"Int32\" Name=\"offsets\" \
         format=\"ascii\">3</DataArray></Polys></Piece><Piece NumberOfPoints=\"1\"><Points><DataArray type=\"Float32\" \
         NumberOfComponents=\"3\" format=\"binary\">AQAAAACAAAAMAAAAEgAAAA==eJxjYGiwZ2BgcAAiBwAJQwGA</DataArray></Points><Strips>\
         <DataArray type=\"Int32\" Name=\"connectivity\" format=\"ascii\">0 0 0</DataArray><DataArray type=\"Int32\" \
         Name=\"offsets\" format=\"ascii\">3</DataArray></Strips></Piece></PolyData></VTKFile>",
    ),
    (
        "external.gii",
        "<GIFTI><DataArray Intent=\"NIFTI_INTENT_POINTSET\" DataType=\"NIFTI_TYPE_FLOAT32\" Dimensionality=\"2\" Dim0=\"1\" \
         Dim1=\"3\" Encoding=\"ExternalFileBinary\" ExternalFileName=\"a.dat\"><Data></Data></DataArray></GIFTI>",
    ),
];

fn text(name: &str) -> &'static [u8] {
    TEXTS.iter().find(|(n, _)| *n == name).unwrap().1.as_bytes()
}

fn says(oddities: &[voxalign_io::image::Oddity], part: &str) {
    assert!(oddities.iter().any(|o| o.contains(part)), "'{part}' is not in {oddities:?}");
}

#[test]
fn sections_of_legacy_vtk() {
    let (mesh, info) = parsed("strips.vtk", text("strips.vtk")).unwrap();
    assert_eq!(info.space, MeshSpace::Lps);
    assert_eq!(mesh.vertices()[4], Vector3::new(-2., -2., 1.));
    assert_eq!(mesh.faces(), [[0, 1, 2], [2, 1, 3], [0, 1, 3], [0, 3, 2], [1, 4, 3]]);
    let names: Vec<_> = mesh.data().iter().map(|d| (d.name.as_str(), d.components)).collect();
    assert_eq!(names, [("s t", 1), ("v", 3), ("f", 2)]);
    assert_eq!(mesh.data()[1].values[..3], [-1., -2., 3.]);
    for part in ["strips", "1 polygons", "vertices were left out", "'c', values of cells"] {
        says(&info.oddities, part);
    }
    let (grid, info) = parsed("grid.vtk", text("grid.vtk")).unwrap();
    assert_eq!(grid.faces(), [[0, 1, 2], [0, 1, 3], [0, 3, 2]]);
    assert_eq!(grid.lines().collect::<Vec<_>>(), [[0, 3]]);
    says(&info.oddities, "does not state whether its coordinates are RAS or LPS");
    let tetra = String::from_utf8(text("grid.vtk").to_vec()).unwrap().replace("\n8\n", "\n10\n");
    let said = parsed("grid.vtk", tetra.as_bytes()).unwrap_err().to_string();
    assert!(
        said.contains("cell 1 is a tetrahedron (type 10") && said.contains("extract the surface")
    );
    let new = String::from_utf8(text("new.vtk").to_vec()).unwrap();
    let new = new.replace("0 3 CONNECTIVITY\n", "0 3\nCONNECTIVITY vtktypeint64\n0 1 2\n");
    let (mesh, _) = parsed("new.vtk", new.as_bytes()).unwrap();
    assert_eq!(mesh.lines().collect::<Vec<_>>(), [[0, 1, 2]]);
}

#[test]
fn the_space_is_that_of_the_file_or_of_the_options() {
    let lps = ReadOptions::in_space(MeshSpace::Lps);
    let (mesh, info) = read_from_bytes("grid.vtk", text("grid.vtk"), &lps).unwrap();
    assert_eq!((mesh.vertices()[1][0], info.space), (-1.0, MeshSpace::Lps));
    assert!(!info.oddities.iter().any(|o| o.contains("does not state")));
    let ras = ReadOptions::in_space(MeshSpace::Ras);
    let (_, info) = read_from_bytes("strips.vtk", text("strips.vtk"), &ras).unwrap();
    assert_eq!(info.space, MeshSpace::Lps);
    says(&info.oddities, "the file states that the coordinates are LPS");
    let (_, info) = read_from_bytes("space.gii", text("space.gii"), &lps).unwrap();
    says(&info.oddities, "the format states that the coordinates are RAS");
}

#[test]
fn stl_and_ply_as_text() {
    let (mesh, info) = parsed("loops.stl", text("loops.stl")).unwrap();
    assert_eq!(mesh.faces(), [[0, 1, 2], [0, 2, 3]]);
    assert_eq!(mesh.vertices()[3], Vector3::new(0., 1., 0.));
    says(&info.oddities, "2 solids");
    let (mesh, _) = parsed("text.ply", text("text.ply")).unwrap();
    assert_eq!(mesh.faces(), [[0, 1, 2], [0, 2, 3], [0, 1, 2]]);
    assert_eq!(mesh.lines().collect::<Vec<_>>(), [&[0, 1, 2][..], &[0, 3]]);
    assert_eq!(
        (mesh.data()[0].name.as_str(), &mesh.data()[0].values[..]),
        ("red", &[1., 2., 3., 4.][..])
    );
}

#[test]
fn spaces_of_gifti() {
    let (mesh, info) = parsed("text.gii", text("text.gii")).unwrap();
    assert_eq!(mesh.faces(), [[0, 1, 2], [1, 2, 3]]);
    assert_eq!(mesh.vertices()[1], Vector3::new(11., 0., -5.));
    assert_eq!(mesh.data()[0].values, [1., 2., 3., 4.]);
    assert_eq!(info.frame.as_deref(), Some("UNKNOWN"));
    says(&info.oddities, "centre of the volume (10 0 -5)");
    says(&info.oddities, "the matrix to TALAIRACH was not applied");
    let (mesh, info) = parsed("space.gii", text("space.gii")).unwrap();
    assert_eq!(mesh.vertices(), [Vector3::new(3., 3., 4.)]);
    says(&info.oddities, "from TALAIRACH to SCANNER_ANAT");
    let said = parsed("external.gii", text("external.gii")).unwrap_err().to_string();
    assert!(said.contains("another file ('a.dat')") && said.contains("wb_command"), "{said}");
    let none = b"<GIFTI NumberOfDataArrays=\"0\"></GIFTI>";
    assert!(parsed("a.gii", none).unwrap_err().to_string().contains("no coordinates"));
}

#[test]
fn pieces_of_vtp() {
    let (mesh, info) = parsed("pieces.vtp", text("pieces.vtp")).unwrap();
    assert_eq!(info.space, MeshSpace::Lps);
    assert_eq!(mesh.vertices().len(), 4);
    assert_eq!(mesh.faces(), [[0, 1, 2], [3, 3, 3]]);
    assert!(mesh.data().is_empty());
    says(&info.oddities, "'n', which not every piece has");
    says(&info.oddities, "'c', values of cells");
    // VTK stores the space as bytes where it stores numbers so.
    let packed = String::from_utf8_lossy(text("pieces.vtp"))
        .replace("\"ascii\">76 80 83 0<", "\"binary\">AQAAAAQAAAAAAAAADAAAAA==eJzzCQhmAAACygDw<");
    let (again, info) = parsed("pieces.vtp", packed.as_bytes()).unwrap();
    assert!(again == mesh && info.space == MeshSpace::Lps && !info.assumed);
    for (from, to, part) in [
        ("vtkZLibDataCompressor", "vtkLZ4DataCompressor", "packed by 'vtkLZ4DataCompressor'"),
        ("\"PolyData\"", "\"UnstructuredGrid\"", "no polygonal data"),
        ("NumberOfPoints=\"1\"", "NumberOfPoints=\"2\"", "2 points are expected"),
    ] {
        let other = String::from_utf8_lossy(text("pieces.vtp")).replace(from, to);
        let said = parsed("pieces.vtp", other.as_bytes()).unwrap_err().to_string();
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn volumes_of_freesurfer() {
    let surface = |footer: &[u8]| {
        let mut bytes = b"\xff\xff\xfecreated by someone\n\n\0\0\0\x01\0\0\0\0".to_vec();
        for value in [1f32, 2.0, 3.0] {
            bytes.extend(value.to_be_bytes());
        }
        bytes.extend(footer);
        parsed("lh.orig", &bytes).map(|(mesh, info)| (mesh.vertices()[0], info.oddities))
    };
    let text = "valid = 1  # volume info valid\nfilename = a\nvolume = 9 9 9\nvoxelsize = 1 1 1\n\
                xras   = 1 0 0\nyras   = 0 1 0\nzras   = 0 0 1\ncras   = 10 20 30\n";
    let tagged = |tags: &[i32], text: &str| {
        let tags: Vec<u8> = tags.iter().flat_map(|tag| tag.to_be_bytes()).collect();
        surface(&[&tags, text.as_bytes()].concat())
    };
    // The axes of a volume stored as RAS.
    let expected = Vector3::new(10. - 1., 20. - 3., 30. + 2.);
    for tags in [&[20][..], &[2, 0, 20]] {
        let (vertex, oddities) = tagged(tags, text).unwrap();
        assert_eq!((vertex, oddities.len()), (expected, 0));
    }
    assert_eq!(tagged(&[2, 1, 20], text).unwrap().0, Vector3::new(1., 2., 3.));
    for none in [tagged(&[20], &text.replace("valid = 1", "valid = 0")), surface(b"")] {
        let (vertex, oddities) = none.unwrap();
        assert_eq!(vertex, Vector3::new(1., 2., 3.));
        says(&oddities, "does not give the geometry of its volume");
    }
    assert!(tagged(&[20], &text.replace("10 20", "10 x")).is_err());
    let quad = parsed("lh.orig", b"\xff\xff\xff\0\0\0").unwrap_err().to_string();
    assert!(quad.contains("mris_convert"), "{quad}");
}

#[test]
fn axes_of_trackvis() {
    let mut head = vec![0u8; 1000];
    head[..5].copy_from_slice(b"TRACK");
    let put = |head: &mut Vec<u8>, at: usize, bytes: &[u8]| {
        head[at..at + bytes.len()].copy_from_slice(bytes);
    };
    for (axis, (dim, size)) in [(10i16, 2f32), (20, 3.0), (30, 4.0)].into_iter().enumerate() {
        put(&mut head, 6 + 2 * axis, &dim.to_le_bytes());
        put(&mut head, 12 + 4 * axis, &size.to_le_bytes());
        put(&mut head, 440 + 20 * axis, &size.to_le_bytes());
        put(&mut head, 452 + 16 * axis, &[100f32, 200., 300.][axis].to_le_bytes());
    }
    put(&mut head, 500, &1f32.to_le_bytes());
    put(&mut head, 992, &2i32.to_le_bytes());
    put(&mut head, 996, &1000i32.to_le_bytes());
    let mut one = 1i32.to_le_bytes().to_vec();
    for value in [1f32, 1.5, 2.0] {
        one.extend(value.to_le_bytes());
    }
    for (order, expected) in [
        // The first corner is half a voxel before the first centre.
        ("RAS", [100., 200., 300.]),
        // The last voxel of the axes that run the other way.
        ("LPS", [100. + 9. * 2., 200. + 19. * 3., 300.]),
        ("RAI", [100., 200., 300. + 29. * 4.]),
    ] {
        put(&mut head, 948, order.as_bytes());
        let (mesh, info) = parsed("a.trk", &[&head[..], &one].concat()).unwrap();
        assert_eq!(mesh.vertices()[0], Vector3::from(expected), "{order}");
        assert!(info.oddities.is_empty());
    }
    put(&mut head, 948, b"RAX");
    assert!(parsed("a.trk", &[&head[..], &one].concat()).is_err());
    put(&mut head, 948, b"\0\0\0");
    put(&mut head, 500, &0f32.to_le_bytes());
    let (_, info) = parsed("a.trk", &[&head[..], &one].concat()).unwrap();
    says(&info.oddities, "no vox_to_ras");
    says(&info.oddities, "no voxel_order");
}
