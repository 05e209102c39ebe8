//! Writes the first inputs of every fuzz target to `corpus/`: small files of every kind as the
//! library writes them, some as others write them, and the small ones of folders that are named
//! as arguments (`cargo run --example seeds -- FOLDER…`).

use std::error::Error;
use std::fs;
use std::path::Path;
use voxalign_image::{
    Affine, CArm, Displacement, Gantry, Grid, Mesh, PointSet, TetraMesh, Transform, Vector3,
    VectorField, VertexData, Volume,
};
use voxalign_io::image::{DataType, WriteOptions, write_volume};
use voxalign_io::mesh;
use voxalign_io::points::{self, PointConvention, PointFormat, WriteOptions as PointOptions};
use voxalign_io::tetra;
use voxalign_io::transform::{self, Geometry, TransformFormat};
use voxalign_io::xray::{self, XrayToWrite};

/// Files of other programs above this size are left out, bytes.
const LARGEST: u64 = 8_000;

/// Headers with fields that the library does not write.
const NRRD: [&str; 4] = [
    "NRRD0005\n# a comment\ntype: short\ndimension: 3\nsizes: 2 2 2\nspace: scanner-xyz\n\
     space directions: (1,0,0) (0,2,0) (0,0,3)\nspace origin: (-1,2,3.5)\nspace units: \"cm\" \"cm\" \
     \"cm\"\nendian: big\nencoding: raw\nkey:=value\nbyte skip: -1\n\n0123456789abcdef",
    "NRRD0004\ntype: float\ndimension: 2\nsizes: 2 2\nspacings: 1 nan\nencoding: ascii\n\n1 2,3e1 \
     -4.5\n",
    "NRRD0004\ntype: uchar\ndimension: 3\nsizes: 3 2 2\nkinds: vector domain domain\nencoding: raw\n\
     line skip: 1\nbyte skip: 2\ncontent: a colour\n\nline\n..0123456789ab",
    "NRRD0005\ntype: double\ndimension: 4\nsizes: 1 2 1 3\nspace: RAS\n\
     space directions: none (1,0,0) (0,1,0) (0,0,1)\nkinds: list space space space\n\
     endian: little\nencoding: raw\n\n0123456701234567012345670123456701234567012345670123456789",
];
const METAIMAGE: [&str; 3] = [
    "ObjectType = Image\nNDims = 3\nBinaryData = True\nBinaryDataByteOrderMSB = True\n\
     CompressedData = False\nTransformMatrix = 1 0 0 0 1 0 0 0 -1\nOffset = 1 2 3\n\
     CenterOfRotation = 0 0 0\nElementSpacing = 1 2 3\nDimSize = 2 2 2\nAnatomicalOrientation = RAI\n\
     ElementNumberOfChannels = 1\nElementType = MET_SHORT\nElementDataFile = LOCAL\n0123456789abcdef",
    "NDims = 2\nDimSize = 2 2\nBinaryData = False\nElementType = MET_FLOAT\nElementSize = 1 2\n\
     ElementDataFile = local\n1 2 3.5 -4e-1\n",
    "NDims = 2\nDimSize = 2 2\nElementNumberOfChannels = 2\nElementType = MET_UCHAR\nComment = text\n\
     Position = 0 0\nElementDataFile = LOCAL\n01234567",
];
const TRANSFORMS: [&str; 7] = [
    "#Insight Transform File V1.0\n#Transform 0\nTransform: CompositeTransform_double_3_3\n\
     #Transform 1\nTransform: Euler3DTransform_double_3_3\nParameters: 0.1 0.2 0.3 4 5 6\n\
     FixedParameters: 1 2 3 0\n#Transform 2\nTransform: ScaleTransform_float_3_3\n\
     Parameters: 1 2 3\nFixedParameters: 0 0 0\n",
    "#Insight Transform File V1.0\nTransform: VersorRigid3DTransform_double_3_3\n\
     Parameters: 0.1 0.2 0.3 4 5 6\nFixedParameters: 1 2 3\n",
    "#Insight Transform File V1.0\nTransform: Similarity3DTransform_double_3_3\n\
     Parameters: 0.1 0.2 0.3 4 5 6 1.5\nFixedParameters: 1 2 3\n",
    "#Insight Transform File V1.0\nTransform: Euler2DTransform_double_2_2\nParameters: 0.1 4 5\n\
     FixedParameters: 1 2\n",
    "#Insight Transform File V1.0\nTransform: Similarity2DTransform_double_2_2\n\
     Parameters: 1.2 0.1 4 5\nFixedParameters: 1 2\n",
    "#Insight Transform File V1.0\nTransform: QuaternionRigidTransform_double_3_3\n\
     Parameters: 0.1 0.2 0.3 0.9 4 5 6\nFixedParameters:\n",
    "#Insight Transform File V1.0\nTransform: TranslationTransform_double_3_3\nParameters: 1 2 3\n\
     FixedParameters:\nTransform: IdentityTransform_double_3_3\nParameters:\nFixedParameters:\n",
];
const POINTS: [&str; 7] = [
    "\u{feff}name, Z ,x,Y\n\"a, \"\"b\"\"\",1e3,-2,.5\r\nc,1,2,3\n",
    "x,y,z,t,label,comment\n1,2,3,0,1,\n-0.0,1e-300,inf,,,\n",
    "# Markups fiducial file version = 4.11\n# CoordinateSystem = 1\n# columns = id,x,y,z,label,desc\n\
     1,1,2,3,\"a, b\",,2,0\n2,4,5,6,c,d,0,0\n",
    "{\"@schema\": \"markups-schema-v1.0.3.json#\", \"markups\": [{\"type\": \"Curve\", \"coordinateSystem\": \"RAS\", \
     \"coordinateUnits\": \"mm\", \"controlPoints\": [{\"label\": \"a\", \"position\": [1, 2, 3], \"positionStatus\": \"undefined\"}, \
     {\"position\": [4, 5, 6], \"locked\": true, \"description\": \"d\"}]}]}",
    "2\n1 2\n3 4\n",
    "Point\t0\t; InputIndex = [ 1 2 3 ]\t; InputPoint = [ 1 2 3 ]\t; OutputPoint = [ 10.5 20 30 ]\t; Deformation = [ 9 18 27 ]\n",
    "MNI Tag Point File\nVolumes = 2;\n% c\n\nPoints =\n 1 2 3 4 5 6 0 -1 -1 \"nose\"\n -7 8 9 10 11 12;\n",
];

const NAMES: [&str; 5] = [
    "#No. Label Name: R G B A\n\n0  Unknown  0 0 0 0\n17  Left-Hippocampus  220 216 20 0\n",
    "# ITK-SnAP Label Description File\n    0     0    0    0        0  0  0    \"Clear Label\"\n   17   220  216   20        1  1  1    \"Left \
     Hippocampus\"\n",
    "number,name,colour\r\n17,\"Left, \"\"hippocampus\"\"\",red\r\n-3,b,\r\n",
    "\u{feff}label\tname\n4\tThird ventricle\n5\tb\n",
    "NRRD0004\ntype: uchar\nSegment0_ID:=Segment_1\nSegment0_Name:=cyst \\\\ a\nSegment0_Color:=0.5 0 1\n\
     Segment0_LabelValue:=1\nSegment0_Layer:=0\n\n\0",
];

const VIEWS: [&str; 8] = [
    "%YAML:1.0\n---\nimage_size: [ 5, 4 ]\ncamera_matrix: !!opencv-matrix\n   rows: 3\n   cols: 3\n   dt: d\n   data: [ 9., 0., 2., 0., \
     9., 2., 0., 0., 1. ]\nrvec: [ 0.1, 0.2, 0.3 ]\ntvec: [ 1., 2., 900. ]\n",
    "<?xml version=\"1.0\"?>\n<opencv_storage><M1 type_id=\"opencv-matrix\"><rows>3</rows><cols>3</cols><dt>d</dt><data>9. 0. 2. 0. 9. \
     2. 0. 0. 1.</data></M1><M2>9 0 2 0 9 2 0 0 1</M2><R>1 0 0 0 1 0 0 0 1</R><T>-800 0 9</T></opencv_storage>\n",
    "[[view]]\nname = 'a'\nimage = 'a.png'\nsource_to_isocentre = 700\nsource_to_detector = 1e3\n\
     isocentre = [1, 2, 3]\nprimary = 30\nsecondary = -10\npixel = 0.4\nregion = [0, 0, 2, 2]\n",
    "[[view]]\nsource_to_isocentre = 700\nsource_to_detector = 1e3\nisocentre = [1, 2, 3]\n\
     gantry = 90.5\npixel = [0.4, 0.5]\ncentre = [1, 2]\nsize = [5, 4]\nworld = 'lps'\n",
    "[[view]]\nsource = [1, 1000, 2]\norigin = [100, -500, 50]\ncolumn = [-1, 0, 0]\nrow = [0, 0, -0.5]\n\
     size = [5, 4]\n[[view]]\nprojection = [[1, 2, 3, 4], [5, 6, 8, 8], [9, 10, 17, 12]]\nsize = [5, 4]\n\
     source_to_detector = 1000\n",
    "[[view]]\nK = [[2000, 0, 320], [0, 2500, 240], [0, 0, 1]]\nR = [[1, 0, 0], [0, 1, 0], [0, 0, 1]]\n\
     t = [10, -20, 900]\nsize = [640, 480]\npixel = [0.5, 0.4]\n",
    "image size\n640,480\n\ncamera matrix\n2000,0,320\n0,2500,240\n0,0,1\n\nrotation\n1,0,0\n0,1,0\n\
     0,0,1\n\ntranslation\n10\n-20\n900\n",
    "63.5 31.5\n0 .2 0 0\n0 0 -.2 0\n-.0006 0 0 .6\n1e3\n1.6e3\n1 0 0\nExtrinsic\n1 2 3 4\n",
];

/// The byte that chooses the name, and the content.
const MESHES: [(u8, &str); 5] = [
    (
        1,
        "# vtk DataFile Version 3.0\n3D Slicer output. SPACE=LPS\nASCII\nDATASET POLYDATA\nPOINTS 4 float\n\
         0 0 0 1 0 0 0 1 0\n1 1 0\nVERTICES 1 2\n1 0\nTRIANGLE_STRIPS 1 5\n4 0 1 2 3\nPOLYGONS 1 5\n4 0 1 3 2\n\
         CELL_DATA 2\nSCALARS c int\nLOOKUP_TABLE default\n1 2\nPOINT_DATA 4\nSCALARS s%20t float 1\nLOOKUP_TABLE t\n\
         1 2 3 4\nLOOKUP_TABLE t 1\n0 0 0 1\nVECTORS v double\n1 2 3 1 2 3 1 2 3 1 2 3\n\
         FIELD FieldData 2\nf 2 4 int\n1 2 3 4 5 6 7 8\nMETADATA\nINFORMATION 0\n\ng 1 4 string\na\nb\nc\nd\n",
    ),
    (
        1,
        "# vtk DataFile Version 5.1\nv\nASCII\nDATASET UNSTRUCTURED_GRID\nPOINTS 4 float\n0 0 0 1 0 0 0 1 0 1 1 0\n\
         CELLS 4 7\nOFFSETS vtktypeint64\n0 3 7\nCONNECTIVITY vtktypeint64\n0 1 2 0 1 2 3\nCELL_TYPES 3\n5\n8\n3\n",
    ),
    (
        3,
        "solid a SPACE=RAS\n facet normal 0 0 1\n  outer loop\n   vertex 0 0 0\n   vertex 1 0 0\n   vertex 1 1 0\n\
         \n   vertex 0 1 0\n  endloop\n endfacet\nendsolid a\n",
    ),
    (
        4,
        "ply\nformat ascii 1.0\ncomment SPACE=LPS\nelement vertex 3\nproperty float x\nproperty float y\n\
         property float z\nproperty uchar red\nelement face 1\nproperty list uchar int vertex_index\n\
         element edge 2\nproperty int vertex1\nproperty int vertex2\nelement tristrips 1\n\
         property list int int vertex_indices\nend_header\n0 0 0 1\n1 0 0 2\n1 1 0 3\n3 0 1 2\n0 1\n1 2\n4 0 1 2 -1\n",
    ),
    (
        0,
        "<GIFTI><DataArray Intent=\"NIFTI_INTENT_POINTSET\" DataType=\"NIFTI_TYPE_FLOAT32\" Dimensionality=\"2\" \
         Dim0=\"1\" Dim1=\"3\" Encoding=\"ASCII\"><MetaData><MD><Name>VolGeomC_R</Name><Value>3</Value></MD></MetaData>\
         <CoordinateSystemTransformMatrix><DataSpace>NIFTI_XFORM_TALAIRACH</DataSpace><TransformedSpace>\
         NIFTI_XFORM_SCANNER_ANAT</TransformedSpace><MatrixData>2 0 0 1 0 1 0 2 0 0 1 3 0 0 0 1</MatrixData>\
         </CoordinateSystemTransformMatrix><Data>1 1 1</Data></DataArray></GIFTI>",
    ),
];

fn main() -> Result<(), Box<dyn Error>> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let scratch = tempfile::tempdir()?;
    let at = |name: &str| scratch.path().join(name);
    let put = |target: &str, name: &str, bytes: &[u8]| -> Result<(), Box<dyn Error>> {
        fs::create_dir_all(corpus.join(target))?;
        Ok(fs::write(corpus.join(target).join(name), bytes)?)
    };
    // As `detached` takes two files apart.
    let put_pair = |kind: u8, name: &str, header: &[u8], values: &[u8]| {
        let mut bytes = u16::try_from(header.len())?.to_le_bytes().to_vec();
        bytes.push(kind);
        bytes.extend([header, values].concat());
        put("detached", name, &bytes)
    };

    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/pyramid/data");
    for (kind, chunk) in [
        (0, "v2_blosc_lz4.zarr/0/0/0/0"),
        (0, "v2_blosc_zstd_bits.zarr/0/0/0/0"),
        (0, "v2_blosc_blosclz.zarr/0/0/0/0"),
        (0, "v2_blosc_zlib.zarr/0/0/0/0"),
        (1, "v3_zstd.zarr/0/c/0/0/0"),
        (2, "v3_gzip.zarr/0/c/0/0/0"),
        (3, "v2_lz4.zarr/0/0/0/0"),
        (4, "v2_zlib.zarr/0/0.0.0"),
        (6, "v3_sharded.zarr/0/c/0/0/0"),
    ] {
        let bytes = [&[kind], &fs::read(tests.join(chunk))?[..]].concat();
        put("zarr", &chunk.replace('/', "_"), &bytes)?;
    }
    for entry in fs::read_dir(&tests)?.flatten().filter(|e| e.path().is_file()) {
        put("pyramid", &entry.file_name().to_string_lossy(), &fs::read(entry.path())?)?;
    }

    let solid = Grid::axis_aligned([4, 3, 2], [1.0, 2.0, 3.0])?;
    let turned = solid.moved(&Affine::from_rows([
        [0.8, -0.6, 0.0, 1.0],
        [0.6, 0.8, 0.0, 2.0],
        [0.0, 0.0, 1.0, 3.0],
    ]))?;
    let plane = Grid::axis_aligned([4, 3, 1], [1.0; 3])?;
    for data_type in DataType::ALL {
        for (place, grid, dimensions) in [("turned", &turned, 3), ("plane", &plane, 2)] {
            let volume = Volume::from_fn(grid.clone(), |x, y, z| (x + 10 * y + 50 * z) as f32);
            for level in [0, 3] {
                let description = Some("a description".into());
                let options =
                    WriteOptions { data_type, dimensions, compression_level: level, description };
                let name = format!("{place}_{data_type}_{level}");
                let written = |file: &str| -> Result<Vec<u8>, Box<dyn Error>> {
                    write_volume(at(file), &volume, &options)?;
                    Ok(fs::read(at(file))?)
                };
                put("nifti", &name, &written("a.nii")?)?;
                put("nifti_gz", &name, &written("a.nii.gz")?)?;
                put("nrrd", &name, &written("a.nrrd")?)?;
                put("metaimage", &name, &written("a.mha")?)?;
                put("analyze", &name, &written("a.hdr")?)?;
                put_pair(
                    0,
                    &format!("hdr_{name}"),
                    &fs::read(at("a.hdr"))?,
                    &fs::read(at("a.img"))?,
                )?;
                let header = written("b.hdr.gz")?;
                put_pair(1, &format!("hdr_gz_{name}"), &header, &fs::read(at("b.img.gz"))?)?;
                let header = written("c.mhd")?;
                let values = if level == 0 { "c.raw" } else { "c.zraw" };
                let text = String::from_utf8_lossy(&header).replace(values, "c.raw");
                put_pair(2, &format!("mhd_{name}"), text.as_bytes(), &fs::read(at(values))?)?;
                let header = written("d.nhdr")?;
                let values = if level == 0 { "d.raw" } else { "d.raw.gz" };
                let text = String::from_utf8_lossy(&header).replace(values, "d.raw");
                put_pair(3, &format!("nhdr_{name}"), text.as_bytes(), &fs::read(at(values))?)?;
            }
        }
    }
    // The library writes NIfTI-2 for long axes only: one such, cut to five voxels.
    let long = Volume::filled(Grid::axis_aligned([40_000, 1, 1], [1.0; 3])?, 1.0);
    write_volume(
        at("2.nii"),
        &long,
        &WriteOptions { data_type: DataType::U8, ..Default::default() },
    )?;
    let mut two = fs::read(at("2.nii"))?;
    two.truncate(544 + 5);
    two[24..32].copy_from_slice(&5i64.to_le_bytes());
    put("nifti", "two", &two)?;
    for (i, text) in NRRD.iter().enumerate() {
        put("nrrd", &format!("text_{i}"), text.as_bytes())?;
        if let Some((header, values)) = text.split_once("\n\n") {
            let header = format!("{header}\ndata file: d.raw\n\n");
            put_pair(3, &format!("nhdr_text_{i}"), header.as_bytes(), values.as_bytes())?;
        }
    }
    for (i, text) in METAIMAGE.iter().enumerate() {
        put("metaimage", &format!("text_{i}"), text.as_bytes())?;
        for (size, place) in ["HeaderSize = -1\n", "HeaderSize = 0\n"].into_iter().zip(0..) {
            let text = text
                .replace("LOCAL", "c.raw")
                .replace("ElementDataFile", &format!("{size}ElementDataFile"));
            if let Some((header, values)) = text.split_once("c.raw\n") {
                let name = format!("mhd_text_{i}_{place}");
                put_pair(2, &name, format!("{header}c.raw\n").as_bytes(), values.as_bytes())?;
            }
        }
    }

    let affine =
        Affine::from_rows([[1.0, 0.1, 0.0, 4.0], [0.0, 0.9, 0.0, 5.0], [0.0, 0.0, 1.1, 6.0]]);
    let both = Transform::Composite(vec![Transform::Affine(affine), Transform::Affine(affine)]);
    let geometry = Geometry { fixed: Some(&solid), moving: Some(&turned) };
    for (name, format) in [
        ("text", TransformFormat::ItkText),
        ("matlab", TransformFormat::ItkMatlab),
        ("hdf5", TransformFormat::ItkHdf5),
        ("fsl", TransformFormat::Fsl),
    ] {
        transform::write_as(at(name), &both, &geometry, format)?;
        put("transform", name, &fs::read(at(name))?)?;
    }
    for (i, text) in TRANSFORMS.iter().enumerate() {
        put("transform", &format!("text_{i}"), text.as_bytes())?;
    }
    for (name, grid) in [("solid", solid.clone()), ("turned", turned), ("plane", plane)] {
        let flat = grid.is_2d();
        let shift = |p: Vector3<f64>| Vector3::new(p[0], 1.0, if flat { 0.0 } else { p[2] });
        let field = VectorField::from_world_fn(grid, shift);
        let field = Transform::Displacement(Displacement::new(field));
        for file in ["w.nii", "w.nii.gz"] {
            transform::write(at(file), &field, &Geometry::default())?;
            put("field", &format!("{name}_{file}"), &fs::read(at(file))?)?;
        }
        transform::write(at("w.h5"), &field, &Geometry::default())?;
        put("transform", &format!("{name}_w.h5"), &fs::read(at("w.h5"))?)?;
    }

    let points = [Vector3::new(1.0, -2.5, 3e10), Vector3::zeros()];
    let notes = vec![("note".to_string(), vec!["a,\"b\"".to_string(), String::new()])];
    let set = PointSet::with_columns(points.into(), notes)?;
    let lps = Some(PointConvention::Lps);
    for (name, convention, format) in [
        ("p.csv", lps, None),
        ("a.csv", lps, Some(PointFormat::Ants)),
        ("p.fcsv", lps, None),
        ("p.mrk.json", None, None),
        ("p.txt", None, None),
        ("i.txt", None, Some(PointFormat::ElastixIndex)),
        ("p.tag", None, None),
    ] {
        let options = PointOptions { convention, format, grid: Some(&solid) };
        points::write(at(name), &set, &options)?;
        put("points", &format!("written_{name}"), &fs::read(at(name))?)?;
    }
    for (i, text) in NAMES.iter().enumerate() {
        put("names", &format!("text{i}"), text.as_bytes())?;
    }
    for (i, text) in POINTS.iter().enumerate() {
        put("points", &format!("text_{i}"), text.as_bytes())?;
    }

    let pixels: Vec<f32> = (0..40).map(|i| i as f32).collect();
    let arm = CArm {
        source_to_isocentre: 700.0,
        source_to_detector: 1000.0,
        isocentre: Vector3::zeros(),
        primary: 0.5,
        secondary: 0.1,
        pixel_size: [0.5, 0.4],
        dims: [5, 4],
        centre: None,
    };
    for (i, view) in [arm.geometry()?, Gantry { arm, angle: 2.0 }.geometry()?].iter().enumerate() {
        let one = XrayToWrite { geometry: Some(*view), ..XrayToWrite::new(&pixels[..20], [5, 4]) };
        let two = XrayToWrite { values: &pixels, ..one };
        let window = XrayToWrite { window: Some([0.0, 40.0]), ..two };
        for (name, image) in [
            ("a.png", one),
            ("a.tif", one),
            ("b.tif", two),
            ("c.tif", window),
            ("a.dcm", one),
            ("b.dcm", two),
        ] {
            xray::write(at(name), &image)?;
            put("xray", &format!("{i}_{name}"), &fs::read(at(name))?)?;
        }
    }
    for (i, text) in VIEWS.iter().enumerate() {
        put("views", &format!("text_{i}"), text.as_bytes())?;
    }

    meshes(scratch.path(), &|name, bytes| put("mesh", name, bytes))?;
    tetrahedra(scratch.path(), &|name, bytes| put("tetra", name, bytes))?;

    for folder in std::env::args_os().skip(1) {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let metadata = entry.metadata()?;
            if !metadata.is_file() || metadata.len() > LARGEST {
                continue;
            }
            let targets: &[&str] = match name.rsplit('.').next() {
                Some("nii") => &["nifti", "field"],
                Some("gz") if name.ends_with(".nii.gz") => &["nifti_gz", "nifti", "field"],
                Some("hdr" | "gz") if name.contains(".hdr") => &["analyze"],
                Some("nrrd" | "nhdr") => &["nrrd", "field"],
                Some("mha" | "mhd") => &["metaimage", "field"],
                Some("txt") => &["transform", "views"],
                Some("tfm" | "mat" | "fsl" | "h5") => &["transform"],
                Some("csv") => &["points"],
                Some("dcm") => &["dicom", "xray"],
                Some("png") => &["xray"],
                Some("tif" | "tiff" | "btf") => &["xray", "pyramid"],
                Some("toml") => &["views"],
                _ => &[],
            };
            if let Some(kind) = name.rsplit('.').next().and_then(tetra_kind) {
                let bytes = [&[kind, 0], &fs::read(entry.path())?[..]].concat();
                put("tetra", &format!("real_{name}"), &bytes)?;
            }
            if let Some(kind) = name.rsplit('.').next().and_then(mesh_kind) {
                let bytes = [&[kind, 0], &fs::read(entry.path())?[..]].concat();
                put("mesh", &format!("real_{name}"), &bytes)?;
            }
            for target in targets {
                put(target, &format!("real_{name}"), &fs::read(entry.path())?)?;
            }
        }
    }
    Ok(())
}

/// The byte that chooses the name of a mesh.
fn mesh_kind(extension: &str) -> Option<u8> {
    let known = ["gii", "vtk", "vtp", "stl", "ply", "pial", "tck", "trk"];
    known.iter().zip(0..).find(|(name, _)| **name == extension).map(|(_, kind)| kind)
}

/// The byte that chooses the name of a mesh of tetrahedra.
fn tetra_kind(extension: &str) -> Option<u8> {
    ["vtu", "vtk", "msh"]
        .iter()
        .zip(0..)
        .find(|(name, _)| **name == extension)
        .map(|(_, kind)| kind)
}

/// Meshes of tetrahedra as they are written, and files of other programs that the tests read.
fn tetrahedra(
    scratch: &Path,
    put: &dyn Fn(&str, &[u8]) -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let corners = [[0., 0., 0.], [1.5, 0., 0.], [0., 2., 0.], [0.25, 0., 1.]].map(Vector3::from);
    let moved = VertexData {
        name: "a value".into(),
        components: 3,
        values: vec![0.5; 12],
        is_direction: true,
    };
    let strain = VertexData {
        name: "strain".into(),
        components: 6,
        values: vec![0.5; 6],
        ..Default::default()
    };
    let mesh = TetraMesh::new(corners.into(), vec![[0, 1, 2, 3]])?
        .with_labels(vec![7])?
        .with_data(vec![moved], vec![strain])?;
    for (kind, name) in [(0, "a.vtu"), (1, "a.vtk")] {
        for as_text in [false, true] {
            let options = tetra::WriteOptions { as_text, ..tetra::WriteOptions::default() };
            tetra::write(scratch.join(name), &mesh, &options)?;
            let bytes = [&[kind, u8::from(as_text)], &fs::read(scratch.join(name))?[..]].concat();
            put(&format!("{as_text}_{name}"), &bytes)?;
        }
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/meshes/tetra");
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(kind) = name.rsplit('.').next().and_then(tetra_kind) {
            put(&name, &[&[kind, 0], &fs::read(entry.path())?[..]].concat())?;
        }
    }
    Ok(())
}

/// Meshes of every format, as text and as bytes.
fn meshes(
    scratch: &Path,
    put: &dyn Fn(&str, &[u8]) -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let corners = [[0., 0., 0.], [1.5, 0., 0.], [0., 2., 0.], [0.25, 0., 1.]].map(Vector3::from);
    let data = VertexData {
        name: "a value".into(),
        components: 3,
        values: vec![0.5; 12],
        is_direction: true,
    };
    let surface = Mesh::new(corners.into(), vec![[0, 2, 1], [0, 1, 3], [1, 2, 3], [0, 3, 2]])?;
    let surface = surface.with_data(vec![data.clone()])?;
    let curves = Mesh::new(corners.into(), vec![])?.with_lines(vec![2, 4], vec![0, 1, 2, 3])?;
    let curves = curves.with_data(vec![VertexData { is_direction: false, ..data }])?;
    let both = surface.clone().with_lines(vec![3], vec![0, 1, 3])?;
    for (name, mesh) in [
        ("a.gii", &surface),
        ("a.vtk", &both),
        ("a.vtp", &both),
        ("a.stl", &surface),
        ("a.ply", &both),
        ("a.pial", &surface),
        ("a.tck", &curves),
        ("a.trk", &curves),
    ] {
        for as_text in [false, true] {
            let options = mesh::WriteOptions { as_text, ..mesh::WriteOptions::default() };
            let kind = name.rsplit('.').next().and_then(mesh_kind).unwrap_or(0);
            if as_text && !["a.vtk", "a.vtp"].contains(&name) {
                continue;
            }
            mesh::write(scratch.join(name), mesh, &options)?;
            let bytes = [&[kind, u8::from(as_text)], &fs::read(scratch.join(name))?[..]].concat();
            put(&format!("{as_text}_{name}"), &bytes)?;
        }
    }
    // Files with what is not written, which the tests read.
    for (i, (kind, text)) in MESHES.iter().enumerate() {
        put(&format!("text_{i}"), &[&[*kind, 0], text.as_bytes()].concat())?;
    }
    Ok(())
}
