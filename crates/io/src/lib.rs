//! Files of voxalign: images, transforms, points and meshes.
//!
//! - [`image`]: NIfTI-1 and -2, ANALYZE 7.5, NRRD, MetaImage and series of DICOM files, which are read and not
//!   written; scalar volumes and label maps, whole or in parts.
//! - [`transform`]: ITK text, ITK/ANTs MATLAB and HDF5 files, FSL matrices and displacement fields.
//! - [`points`]: lists of points as CSV, and as 3D Slicer, elastix, ANTs and MNI have them.
//! - [`mesh`]: surfaces and curves as GIFTI, VTK, STL, PLY and FreeSurfer have them, streamlines of MRtrix and TrackVis.
//! - [`tetra`]: meshes of tetrahedra as VTK, VTK XML and Gmsh have them.
//! - [`xray`]: X-ray images as PNG, TIFF, DICOM, NIfTI, NRRD and MetaImage, of one or several frames; tables of the views
//!   that they were taken from, and calibrations of MayaCam and plastimatch; streams of raw frames.
//! - [`pyramid`]: images of any size, read in blocks and levels: tiled TIFF and BigTIFF, PNG, JPEG, and all of [`image`].
//! - [`labels`]: label maps with names and colours, as 3D Slicer and ITK-SNAP open them.
//! - [`names`]: names of labels, as FreeSurfer, ITK-SNAP, 3D Slicer and CSV tables have them.
//! - [`staging`]: files of a result that appear together when all are complete.
//! - [`abandoned`], [`atomic`], [`checksum`], [`gzip`], [`hidden`], [`exchange`], [`text`]: what programs need that write files of their own.
//!
//! # Conventions
//!
//! World space is RAS+ millimetres inside the program; what a format says otherwise (LPS in ITK,
//! NRRD and MetaImage, scaled voxels in FSL) is converted at this border and nowhere else. A
//! transform maps the fixed world to the moving world, whatever its file says.
//!
//! A file's name says the format of an image and that of what is written, but for DICOM, which is seen
//! from the content as well; a transform's format is seen from its content. Every read checks sizes before it allocates. Every write goes to a
//! temporary name that is renamed when complete. Written files have the same bytes for any number
//! of threads. Every error ([`IoError`]) names the file, what is wrong and what helps; no content of
//! a file makes a panic.
//!
//! # Example
//!
//! ```
//! use voxalign_image::{Affine, Grid, Transform, Vector3, Volume};
//! use voxalign_io::image::{WriteOptions, read_volume_with_info, write_volume};
//! use voxalign_io::transform::{self, Geometry};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = tempfile::tempdir()?;
//! let grid = Grid::axis_aligned([6, 5, 4], [1.0, 1.0, 2.5])?;
//! let image = Volume::from_fn(grid, |x, y, z| (x * y + z) as f32);
//!
//! let path = folder.path().join("image.nii.gz");
//! write_volume(&path, &image, &WriteOptions::default())?;
//! let (read, info) = read_volume_with_info(&path)?;
//! assert_eq!(read, image);
//! assert_eq!(info.dims, [6, 5, 4]);
//! // What is unusual about a file is said in words.
//! assert_eq!(info.oddities, ["the voxels are anisotropic: 1.0000 to 2.5000 mm"]);
//!
//! // An FSL matrix means something only together with both images.
//! let shift = Transform::Affine(Affine::translation(Vector3::new(3.0, 0.0, 0.0)));
//! let between = Geometry { fixed: Some(read.grid()), moving: Some(read.grid()) };
//! for name in ["shift.tfm", "shift.fsl"] {
//!     let path = folder.path().join(name);
//!     transform::write(&path, &shift, &between)?;
//!     let back = transform::read(&path, &between)?;
//!     assert!((back.apply(Vector3::zeros()) - shift.apply(Vector3::zeros())).norm() < 1e-6);
//! }
//! assert!(transform::read(folder.path().join("shift.fsl"), &Geometry::default()).is_err());
//! # Ok(())
//! # }
//! ```

pub mod abandoned;
pub mod atomic;
pub mod checksum;
pub mod error;
pub mod exchange;
pub mod gzip;
pub mod hidden;
pub mod image;
pub mod labels;
pub mod mesh;
pub mod names;
pub mod points;
pub mod pyramid;
mod source;
pub mod staging;
pub mod tetra;
pub mod text;
pub mod transform;
pub mod unfinished;
pub mod xray;

pub use error::{IoError, Result};
