//! Meshes of tetrahedra: VTK, VTK XML (`.vtu`) and Gmsh.
//!
//! [`read`] sees the format from the content, and from the name where the content says nothing; [`write()`] takes
//! it from the name. Meshes are RAS mm inside the program. No format says where its coordinates are: the space that is
//! stated as 3D Slicer does it (`SPACE=LPS` in the title of legacy VTK, in a field of VTK XML, in a comment of
//! Gmsh) is believed, and [`ReadOptions::space`] is for files without. **Meshes of ITK are LPS and do not say so.**
//!
//! Tetrahedra are linear. Cells of surfaces, lines and vertices are left out with a remark, other cells of volumes are
//! refused. A mesh whose tetrahedra are all turned inside out has them turned round with a remark; one with some of them
//! is refused.
//!
//! ```
//! use voxalign_image::{TetraMesh, Vector3, VertexData};
//! use voxalign_io::mesh::MeshSpace;
//! use voxalign_io::tetra::{self, ReadOptions, WriteOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let corners = [[0., 0., 0.], [1., 0., 0.], [0., 1., 0.], [0., 0., 1.]].map(Vector3::from);
//! let moved = VertexData {
//!     name: "displacement".into(),
//!     components: 3,
//!     values: vec![0.5; 12],
//!     is_direction: true,
//! };
//! let strain = VertexData { name: "strain".into(), components: 6, values: vec![0.1; 6], ..Default::default() };
//! let mesh = TetraMesh::new(corners.into(), vec![[0, 1, 2, 3]])?
//!     .with_labels(vec![7])?
//!     .with_data(vec![moved], vec![strain])?;
//! let folder = tempfile::tempdir()?;
//! for name in ["a.vtu", "a.vtk"] {
//!     let path = folder.path().join(name);
//!     tetra::write(&path, &mesh, &WriteOptions::default())?;
//!     let (read, info) = tetra::read(&path, &ReadOptions::default())?;
//!     assert_eq!((&read, info.space, info.assumed), (&mesh, MeshSpace::Ras, false));
//! }
//! # Ok(())
//! # }
//! ```

mod msh;
mod parts;
mod vtk;
mod vtu;

use crate::error::{IoError, Result, shorten};
use crate::image::Oddity;
use crate::mesh::MeshSpace;
use crate::source::Source;
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::path::Path;
use voxalign_image::{TetraMesh, VertexData};

/// Names of files, for messages.
const KNOWN: &str = ".vtu, .vtk, .msh";

/// The name of labels in files that are written.
const LABEL: &str = "label";

/// A format of meshes of tetrahedra.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TetraFormat {
    /// VTK XML, of an unstructured grid.
    Vtu,
    /// Legacy VTK.
    Vtk,
    /// Gmsh, which is read and not written.
    Gmsh,
}

impl TetraFormat {
    /// All formats.
    pub const ALL: [Self; 3] = [Self::Vtu, Self::Vtk, Self::Gmsh];

    /// The format that a name says.
    ///
    /// # Errors
    /// [`IoError::UnknownExtension`].
    pub fn from_path(path: &Path) -> Result<Self> {
        let extension = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        match extension.as_str() {
            "vtu" => Ok(Self::Vtu),
            "vtk" => Ok(Self::Vtk),
            "msh" => Ok(Self::Gmsh),
            _ => {
                let others =
                    ["inp", "mesh", "bdf", "nas", "xdmf", "med", "e", "exo", "ele", "node"];
                let hint = others.contains(&extension.as_str()).then(|| {
                    format!("convert .{extension} with `meshio convert in.{extension} out.vtu`")
                });
                let (path, purpose) = (path.into(), "a mesh of tetrahedra");
                Err(IoError::UnknownExtension { path, purpose, known: KNOWN, hint })
            }
        }
    }

    /// The format that a file begins as.
    fn from_content(bytes: &[u8]) -> Option<Self> {
        let head = bytes.get(..bytes.len().min(4096)).unwrap_or_default();
        let has = |words: &[u8]| head.windows(words.len()).any(|w| w == words);
        if head.starts_with(b"# vtk") {
            return Some(Self::Vtk);
        }
        if has(b"<VTKFile") {
            return Some(Self::Vtu);
        }
        has(b"$MeshFormat").then_some(Self::Gmsh)
    }
}

impl Display for TetraFormat {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Vtu => "VTK XML",
            Self::Vtk => "VTK",
            Self::Gmsh => "Gmsh",
        })
    }
}

/// How a mesh is read.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ReadOptions {
    /// The space of a file that does not say it; RAS, and an oddity, where this does not either.
    pub space: Option<MeshSpace>,
    /// The array of cells that has the labels. Without it labels are the array whose name says so: `label`,
    /// `material`, `tissue`, `region`, `subdomain`, `attribute` (also in the plural, and with `id` at the end),
    /// `gmsh:physical`, `medit:ref` or `CellEntityIds`; in files of Gmsh the physical groups.
    pub labels: Option<String>,
}

/// How a mesh is written.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WriteOptions {
    /// The space of the file, which is stated as 3D Slicer does it. Directions turn along; other values, such as the
    /// components of strain, stay as they are.
    pub space: MeshSpace,
    /// Numbers as text: legacy VTK in ASCII, VTK XML with arrays in base64, each in its place.
    pub as_text: bool,
}

/// What a file says beside the mesh.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TetraInfo {
    /// The format.
    pub format: TetraFormat,
    /// How numbers are stored, in words.
    pub encoding: String,
    /// Number of vertices.
    pub vertices: usize,
    /// Number of tetrahedra.
    pub tetrahedra: usize,
    /// The space of the file's coordinates, which were brought to RAS.
    pub space: MeshSpace,
    /// Whether that was an assumption or an option, as the file does not say it.
    pub assumed: bool,
    /// What labels were taken from, such as an array's name; nothing where there are none.
    pub labels: Option<String>,
    /// Names of labels, as far as the file has any.
    pub label_names: BTreeMap<i32, String>,
    /// Everything unusual, a sentence each.
    pub oddities: Vec<Oddity>,
}

/// Reads a mesh of tetrahedra; files packed by gzip, too.
///
/// Vertices of no tetrahedron are left out with a remark, as are values of vertices or cells that not all have.
///
/// # Errors
/// A missing, cut or malformed file; an unknown format; cells of volumes other than linear tetrahedra, or no tetrahedra;
/// some tetrahedra turned inside out; indices of vertices that do not exist; coordinates that are not finite; labels that
/// were asked for and are none; too little memory.
pub fn read(path: impl AsRef<Path>, options: &ReadOptions) -> Result<(TetraMesh, TetraInfo)> {
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
) -> Result<(TetraMesh, TetraInfo)> {
    of(&Source::memory(name.as_ref(), bytes), options)
}

fn of(source: &Source<'_>, options: &ReadOptions) -> Result<(TetraMesh, TetraInfo)> {
    let path = source.path();
    let (bytes, _) = source.head(usize::MAX)?;
    let format = match TetraFormat::from_content(&bytes) {
        Some(format) => format,
        None => TetraFormat::from_path(path).map_err(|_| unknown(path))?,
    };
    let body = match format {
        TetraFormat::Vtu => vtu::read(path, &bytes),
        TetraFormat::Vtk => vtk::read(path, &bytes),
        TetraFormat::Gmsh => msh::read(path, &bytes),
    }?;
    body.finish(format, options)
}

fn unknown(path: &Path) -> IoError {
    let problem =
        "the extension is not known for a mesh of tetrahedra, and the file does not begin as one";
    IoError::malformed(path, problem, format!("use one of {KNOWN}"))
}

/// Writes a mesh in the format that its name says: VTK XML or legacy VTK, which ParaView and PyVista open.
///
/// Coordinates are 64-bit floats, labels 32-bit integers by the name `label`, all other values 32-bit floats.
///
/// # Errors
/// An unknown extension, or Gmsh's; a cell array with the name that labels have; more vertices or tetrahedra than
/// legacy VTK counts; a folder that cannot be written.
pub fn write(path: impl AsRef<Path>, mesh: &TetraMesh, options: &WriteOptions) -> Result<()> {
    let path = path.as_ref();
    let format = TetraFormat::from_path(path)?;
    let is_label = |array: &VertexData| array.name.eq_ignore_ascii_case(LABEL);
    if !mesh.labels().is_empty()
        && let Some(array) = mesh.cell_data().iter().find(|array| is_label(array))
    {
        let what = format!("labels and other values are both named '{}'", shorten(&array.name));
        return Err(IoError::unsupported(path, what, "give the other values another name"));
    }
    match format {
        TetraFormat::Vtu => vtu::write(path, mesh, options),
        TetraFormat::Vtk => vtk::write(path, mesh, options),
        TetraFormat::Gmsh => {
            let what = "files of Gmsh are read here, and not written";
            let remedy = "write .vtk, and convert it with `meshio convert out.vtk out.msh`";
            Err(IoError::unsupported(path, what, remedy))
        }
    }
}
