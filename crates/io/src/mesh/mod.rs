//! Surfaces and curves: GIFTI, VTK, STL, PLY, FreeSurfer's surfaces, and streamlines of MRtrix and TrackVis.
//!
//! [`read`] sees the format from the content, and from the name where the content says nothing; [`write()`] takes
//! it from the name. Meshes are RAS mm inside the program. GIFTI, FreeSurfer's and both formats of streamlines say
//! where they are; of the others 3D Slicer states the space in a title or a comment, which is read and written here,
//! too, and [`ReadOptions::space`] is for files without.
//!
//! ```
//! use voxalign_image::{Mesh, Vector3};
//! use voxalign_io::mesh::{self, MeshSpace, ReadOptions, WriteOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let corners = [[0., 0., 0.], [1., 0., 0.], [0., 1., 0.]].map(Vector3::from);
//! let triangle = Mesh::new(corners.into(), vec![[0, 1, 2]])?;
//! let folder = tempfile::tempdir()?;
//! for name in ["a.surf.gii", "a.vtk", "a.vtp", "a.stl", "a.ply", "lh.white"] {
//!     let path = folder.path().join(name);
//!     mesh::write(&path, &triangle, &WriteOptions::default())?;
//!     let (read, info) = mesh::read(&path, &ReadOptions::default())?;
//!     assert_eq!((&read, info.space), (&triangle, MeshSpace::Ras));
//! }
//! // STL holds no curves: that is an error, not a loss.
//! let line = Mesh::new(corners.into(), vec![])?.with_lines(vec![2], vec![0, 1])?;
//! let error = mesh::write(folder.path().join("b.stl"), &line, &WriteOptions::default());
//! assert!(error.unwrap_err().to_string().contains("STL holds no lines"));
//! # Ok(())
//! # }
//! ```

pub(crate) mod bytes;
pub(crate) mod cells;
mod freesurfer;
mod gifti;
pub(crate) mod parts;
mod ply;
mod stl;
mod tck;
mod trk;
pub(crate) mod vtk;
pub(crate) mod vtp;
mod xml;

use crate::error::{IoError, Result, shorten};
use crate::image::Oddity;
use crate::source::Source;
use std::fmt::{self, Display, Formatter};
use std::path::Path;
use voxalign_image::{Mesh, Vector3, VertexData};

/// Names of files, for messages.
const KNOWN: &str =
    ".gii, .gii.gz, .vtk, .vtp, .stl, .ply, .tck, .trk, or a name of FreeSurfer such as lh.pial";

/// Ends of names that FreeSurfer gives to surfaces.
const SURFACES: [&str; 9] =
    ["white", "pial", "orig", "inflated", "sphere", "smoothwm", "midthickness", "fs", "surf"];

/// A format of meshes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MeshFormat {
    /// GIFTI, also packed.
    Gifti,
    /// Legacy VTK.
    Vtk,
    /// VTK XML, of polygonal data.
    Vtp,
    /// Stereolithography.
    Stl,
    /// Polygon file format.
    Ply,
    /// FreeSurfer's triangles.
    FreeSurfer,
    /// MRtrix streamlines.
    Tck,
    /// TrackVis streamlines.
    Trk,
}

impl MeshFormat {
    /// All formats.
    pub const ALL: [Self; 8] = [
        Self::Gifti,
        Self::Vtk,
        Self::Vtp,
        Self::Stl,
        Self::Ply,
        Self::FreeSurfer,
        Self::Tck,
        Self::Trk,
    ];

    /// The format that a name says.
    ///
    /// # Errors
    /// [`IoError::UnknownExtension`].
    pub fn from_path(path: &Path) -> Result<Self> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        let extension = name.rsplit_once('.').map_or("", |(_, end)| end);
        match extension {
            "gii" => Ok(Self::Gifti),
            "gz" if name.ends_with(".gii.gz") => Ok(Self::Gifti),
            "vtk" => Ok(Self::Vtk),
            "vtp" => Ok(Self::Vtp),
            "stl" => Ok(Self::Stl),
            "ply" => Ok(Self::Ply),
            "tck" => Ok(Self::Tck),
            "trk" => Ok(Self::Trk),
            _ if SURFACES.contains(&extension) => Ok(Self::FreeSurfer),
            _ => {
                let hint = (extension == "obj" || extension == "vtu").then(|| {
                    format!(
                        "export .{extension} as .ply or .vtp, for example with ParaView or MeshLab"
                    )
                });
                let (path, purpose) = (path.into(), "a mesh");
                Err(IoError::UnknownExtension { path, purpose, known: KNOWN, hint })
            }
        }
    }

    /// The format that a file begins as.
    fn from_content(bytes: &[u8]) -> Option<Self> {
        let has = |words: &[u8]| {
            let head = bytes.get(..bytes.len().min(4096)).unwrap_or_default();
            head.windows(words.len()).any(|w| w == words)
        };
        match bytes {
            [0xff, 0xff, 0xfd..=0xff, ..] => Some(Self::FreeSurfer),
            [b'#', b' ', b'v', b't', b'k', ..] => Some(Self::Vtk),
            [b'p', b'l', b'y', b'\n' | b'\r', ..] => Some(Self::Ply),
            [b'T', b'R', b'A', b'C', b'K', 0, ..] => Some(Self::Trk),
            _ if bytes.starts_with(b"mrtrix tracks") => Some(Self::Tck),
            [b's', b'o', b'l', b'i', b'd', b' ' | b'\n' | b'\r', ..] => Some(Self::Stl),
            _ if has(b"<GIFTI") => Some(Self::Gifti),
            _ if has(b"<VTKFile") => Some(Self::Vtp),
            _ => None,
        }
    }

    /// Whether the format says in which space coordinates are.
    #[must_use]
    pub fn has_world(self) -> bool {
        matches!(self, Self::Gifti | Self::FreeSurfer | Self::Tck | Self::Trk)
    }

    /// Whether it holds faces.
    #[must_use]
    pub fn holds_faces(self) -> bool {
        !matches!(self, Self::Tck | Self::Trk)
    }

    /// Whether it holds lines.
    #[must_use]
    pub fn holds_lines(self) -> bool {
        matches!(self, Self::Vtk | Self::Vtp | Self::Ply | Self::Tck | Self::Trk)
    }
}

impl Display for MeshFormat {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gifti => "GIFTI",
            Self::Vtk => "VTK",
            Self::Vtp => "VTK XML",
            Self::Stl => "STL",
            Self::Ply => "PLY",
            Self::FreeSurfer => "FreeSurfer",
            Self::Tck => "MRtrix",
            Self::Trk => "TrackVis",
        })
    }
}

/// The world in which a file's coordinates are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum MeshSpace {
    /// RAS+ mm, as everywhere in this program.
    #[default]
    Ras,
    /// LPS+ mm, as ITK and DICOM, and newer versions of 3D Slicer.
    Lps,
}

impl MeshSpace {
    /// From the space to RAS, or back: a half turn, which leaves the orientation of faces.
    pub(crate) fn convert(self, p: Vector3<f64>) -> Vector3<f64> {
        match self {
            Self::Ras => p,
            // No zero becomes a negative one.
            Self::Lps => Vector3::new(0.0 - p[0], 0.0 - p[1], p[2]),
        }
    }

    /// The same of a component of values at vertices, of which directions turn.
    pub(crate) fn turn(self, array: &VertexData, component: usize, value: f32) -> f32 {
        let turns = self == Self::Lps && array.is_direction && component < 2;
        if turns { 0.0 - value } else { value }
    }
}

impl Display for MeshSpace {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ras => "RAS",
            Self::Lps => "LPS",
        })
    }
}

/// How a mesh is read.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ReadOptions {
    /// The space of a file that does not say it; RAS, and an oddity, where this does not either.
    pub space: Option<MeshSpace>,
}

impl ReadOptions {
    /// Files that do not say it are in this space.
    #[must_use]
    pub fn in_space(space: MeshSpace) -> Self {
        Self { space: Some(space) }
    }
}

/// How a mesh is written.
#[derive(Debug, Clone, PartialEq)]
pub struct WriteOptions {
    /// The space of formats that may be in any: VTK, VTK XML, STL and PLY, which state it as 3D Slicer does.
    pub space: MeshSpace,
    /// Numbers as text: legacy VTK in ASCII, VTK XML with arrays in base64, each in its place. GIFTI is text
    /// always, and other formats refuse it.
    pub as_text: bool,
    /// Level of compression of GIFTI, 1 to 9.
    pub compression_level: u32,
    /// FreeSurfer's `c_ras`, mm: the centre of the volume that a surface of FreeSurfer belongs to. Coordinates in the
    /// file are relative to it.
    pub centre: [f64; 3],
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self { space: MeshSpace::Ras, as_text: false, compression_level: 6, centre: [0.0; 3] }
    }
}

/// What a file says beside the mesh.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct MeshInfo {
    /// The format.
    pub format: MeshFormat,
    /// How numbers are stored, in words.
    pub encoding: String,
    /// Number of vertices.
    pub vertices: usize,
    /// Number of triangles.
    pub faces: usize,
    /// Number of lines.
    pub lines: usize,
    /// The space of the file's coordinates, which were brought to RAS.
    pub space: MeshSpace,
    /// Whether that was an assumption or an option, as neither the file nor its format says it.
    pub assumed: bool,
    /// What the file calls its space, such as `NIFTI_XFORM_SCANNER_ANAT`.
    pub frame: Option<String>,
    /// Everything unusual, a sentence each.
    pub oddities: Vec<Oddity>,
}

/// Reads a surface, curves, or streamlines; files packed by gzip, too.
///
/// # Errors
/// A missing, cut or malformed file; an unknown format; indices of vertices that do not exist; coordinates that are
/// not finite; cells of volumes; too little memory.
pub fn read(path: impl AsRef<Path>, options: &ReadOptions) -> Result<(Mesh, MeshInfo)> {
    let path = path.as_ref();
    if path.is_dir() {
        return Err(IoError::malformed(path, "this is a folder", "name the file of a mesh"));
    }
    of(&Source::open(path)?, options)
}

/// As [`read`], from the bytes of a file; `name` says the format where the content does not, and appears in messages.
///
/// # Errors
/// As [`read`].
pub fn read_from_bytes(
    name: impl AsRef<Path>,
    bytes: &[u8],
    options: &ReadOptions,
) -> Result<(Mesh, MeshInfo)> {
    of(&Source::memory(name.as_ref(), bytes), options)
}

fn of(source: &Source<'_>, options: &ReadOptions) -> Result<(Mesh, MeshInfo)> {
    let path = source.path();
    let (bytes, packed) = source.head(usize::MAX)?;
    let format = match MeshFormat::from_content(&bytes) {
        Some(format) => format,
        // Of a packed file the name without that.
        None if packed && path.extension().is_some_and(|e| e.eq_ignore_ascii_case("gz")) => {
            MeshFormat::from_path(&path.with_extension("")).map_err(|_| unknown(path))?
        }
        None => MeshFormat::from_path(path).map_err(|_| unknown(path))?,
    };
    let parts = match format {
        MeshFormat::Gifti => gifti::read(path, &bytes),
        MeshFormat::Vtk => vtk::read(path, &bytes),
        MeshFormat::Vtp => vtp::read(path, &bytes),
        MeshFormat::Stl => stl::read(path, &bytes),
        MeshFormat::Ply => ply::read(path, &bytes),
        MeshFormat::FreeSurfer => freesurfer::read(path, &bytes),
        MeshFormat::Tck => tck::read(path, &bytes),
        MeshFormat::Trk => trk::read(path, &bytes),
    }?;
    parts.finish(format, options)
}

/// Whether an existing file begins as a mesh does.
#[must_use]
pub fn is_mesh(path: &Path) -> bool {
    let head = Source::open(path).and_then(|source| source.head(1 << 12));
    head.is_ok_and(|(bytes, _)| MeshFormat::from_content(&bytes).is_some())
}

/// What a format does not hold of a mesh, and [`write()`] leaves out, a sentence each.
///
/// # Errors
/// Too little memory.
pub fn losses(
    format: MeshFormat,
    mesh: &Mesh,
) -> std::result::Result<Vec<String>, voxalign_image::ImageError> {
    let mut lost = Vec::new();
    let arrays = mesh.data().len();
    let (holds, what) = match format {
        MeshFormat::Stl | MeshFormat::FreeSurfer | MeshFormat::Tck => (0, "no values at vertices"),
        MeshFormat::Trk => (trk::NAMES, "values at vertices of ten names"),
        _ => (arrays, ""),
    };
    if arrays > holds {
        let names: Vec<_> = mesh
            .data()
            .iter()
            .skip(holds)
            .take(5)
            .map(|a| format!("'{}'", shorten(&a.name)))
            .collect();
        let more = if arrays > holds + 5 { ", …" } else { "" };
        lost.push(format!("{format} holds {what}: {}{more} left out", names.join(", ")));
    }
    if !format.holds_faces() {
        let alone = mesh.unused()?;
        if alone > 0 {
            lost.push(format!(
                "{format} holds lines only: {alone} points outside lines are left out"
            ));
        }
    }
    Ok(lost)
}

fn unknown(path: &Path) -> IoError {
    let problem = "the extension is not known for a mesh, and the file does not begin as one";
    IoError::malformed(path, problem, format!("use one of {KNOWN}"))
}

/// Writes a mesh in the format that its name says.
///
/// Coordinates are 64-bit floats in VTK, VTK XML and PLY, and 32-bit floats in the other formats, as their readers
/// expect. STL holds no values at vertices, FreeSurfer's surfaces and MRtrix's streamlines neither, TrackVis those
/// of ten names at most: these are left out. Streamlines have their points one after the other, so that points outside
/// lines are left out and those of several lines are repeated.
///
/// # Errors
/// An unknown extension; faces or lines that the format does not hold; text asked of a format without; a folder that
/// cannot be written.
pub fn write(path: impl AsRef<Path>, mesh: &Mesh, options: &WriteOptions) -> Result<()> {
    let path = path.as_ref();
    let format = MeshFormat::from_path(path)?;
    check_held(path, format, mesh)?;
    let text = matches!(format, MeshFormat::Gifti | MeshFormat::Vtk | MeshFormat::Vtp);
    if options.as_text && !text {
        let what = format!("{format} is not written as text here");
        return Err(IoError::unsupported(
            path,
            what,
            "write .vtk, .vtp or .gii, or leave it binary",
        ));
    }
    match format {
        MeshFormat::Gifti => gifti::write(path, mesh, options),
        MeshFormat::Vtk => vtk::write(path, mesh, options),
        MeshFormat::Vtp => vtp::write(path, mesh, options),
        MeshFormat::Stl => stl::write(path, mesh, options),
        MeshFormat::Ply => ply::write(path, mesh, options),
        MeshFormat::FreeSurfer => freesurfer::write(path, mesh, options),
        MeshFormat::Tck => tck::write(path, mesh),
        MeshFormat::Trk => trk::write(path, mesh),
    }
}

/// An error where a format does not hold the geometry of a mesh.
fn check_held(path: &Path, format: MeshFormat, mesh: &Mesh) -> Result<()> {
    let remedy = "write .vtk, .vtp or .ply, which hold both";
    if !format.holds_lines() && mesh.lines().len() > 0 {
        return Err(IoError::unsupported(path, format!("{format} holds no lines"), remedy));
    }
    if !format.holds_faces() && !mesh.faces().is_empty() {
        return Err(IoError::unsupported(path, format!("{format} holds no faces"), remedy));
    }
    if i32::try_from(4 * mesh.vertices().len().max(mesh.faces().len())).is_err() {
        let what = format!("{format} counts by 32 bits, which are too few for this mesh");
        return Err(IoError::unsupported(path, what, "write it in parts"));
    }
    Ok(())
}
