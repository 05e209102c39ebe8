//! Reading inputs and protecting them from being overwritten by outputs.

pub use crate::background::{background, background_on};
use crate::error::{Error, Result};
use crate::listener::{Level, Listener, reading};
use crate::options::{PointConvention, as_text};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use voxalign_image::Transform;
use voxalign_image::{Grid, LabelMap, Mesh, PointSet, Volume};
use voxalign_io::IoError;
use voxalign_io::image::{self, DataType, ImageInfo, ReadOptions, WriteOptions};
use voxalign_io::mesh::{self, MeshFormat, MeshInfo};
use voxalign_io::points::{self, PointFormat, PointInfo};
use voxalign_io::transform::{self, Geometry};
use voxalign_options::text;

/// What a file holds, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// An image or a label map.
    Image,
    /// A transform.
    Transform,
    /// A list of points.
    Points,
    /// A surface, curves or streamlines.
    Mesh,
}

/// What a file of this name holds. A NIfTI file may be an image or a displacement field; it counts
/// as an image here.
///
/// # Errors
/// What no name of these is.
pub fn kind(path: &Path) -> Result<Kind> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let ends = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
    if ends(&[".csv", ".fcsv", ".json", ".tag", ".pts"]) {
        return Ok(Kind::Points);
    }
    // elastix' lists have any name, which is that of a transform often.
    if ends(&[".txt"]) && points::is_list(path) {
        return Ok(Kind::Points);
    }
    if MeshFormat::from_path(path).is_ok() {
        return Ok(Kind::Mesh);
    }
    if ends(&[".tfm", ".txt", ".mat", ".h5", ".hdf5", ".fsl", ".fslmat", ".flirt", ".lta"]) {
        return Ok(Kind::Transform);
    }
    // A folder, or a file of another name that begins as DICOM files do, is an image.
    let format = image::Format::from_path(path)
        .or_else(|e| if path.exists() { image::Format::of_input(path) } else { Err(e) });
    if format.is_ok() {
        return Ok(Kind::Image);
    }
    if points::is_list(path) {
        return Ok(Kind::Points);
    }
    if mesh::is_mesh(path) {
        return Ok(Kind::Mesh);
    }
    if !matches!(format, Err(IoError::UnknownExtension { hint: None, .. })) {
        // The message says what converts it.
        format?;
    }
    Err(Error::input(text!(
        "'{}': the extension is not that of an image (.nii, .nii.gz, .hdr, .mha, .mhd, .nrrd, .nhdr, a folder or file of DICOM), \
         a transform (.tfm, .txt, .mat, .h5, .fsl, .lta), a list of points (.csv, .fcsv, .mrk.json, .tag, elastix' .txt) or a \
         mesh (.gii, .vtk, .vtp, .stl, .ply, .tck, .trk, FreeSurfer's lh.pial)",
        path.display()
    )))
}

/// As [`kind()`], of a file that is read: one that is missing is said to be missing, whatever its name.
///
/// # Errors
/// As of [`kind`]; a file that is not there.
pub fn kind_to_read(path: &Path) -> Result<Kind> {
    match kind(path) {
        Err(_) if !path.exists() => {
            Err(Error::input(text!("'{}': no such file or folder; check the path", path.display())))
        }
        found => found,
    }
}

/// What a file of this name will hold, where it is made of one of the kind `from`: lists of points may have the name of a
/// transform (.txt).
///
/// # Errors
/// As of [`kind`].
pub fn kind_to_write(path: &Path, from: Kind) -> Result<Kind> {
    if from == Kind::Points && PointFormat::from_path(path).is_ok() {
        return Ok(Kind::Points);
    }
    kind(path)
}

/// Whether an image file holds vectors: a displacement field.
#[must_use]
pub fn is_field(info: &ImageInfo) -> bool {
    if info.components > 1 {
        // NRRD and MetaImage; integers are colours.
        let vector = info.components == 3 || info.components == 2 && info.dims[2] == 1;
        return vector && info.volumes() == info.components && !info.data_type.is_integer();
    }
    let vector_intent = info.intent.starts_with("1007") || info.intent.starts_with("1006");
    info.dims.len() == 5 && info.dims[4] > 1 && info.dims[3] == 1
        || vector_intent && info.volumes() > 1
}

/// Which image of a file or folder that holds several.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Which image"))]
#[serde(default)]
pub struct WhichImage {
    /// Which volume of an image with several, such as a 4D NIfTI file, counted from 0
    #[cfg_attr(feature = "clap", arg(long, value_name = "N"))]
    pub volume: Option<usize>,
    /// Which DICOM series of a folder with several: its UID, or its number in the list that `voxalign info FOLDER`
    /// shows
    #[cfg_attr(feature = "clap", arg(long, value_name = "UID|N"))]
    #[serde(with = "as_text")]
    pub series: Option<String>,
}

impl WhichImage {
    /// As the readers take it.
    #[must_use]
    pub fn options(&self) -> ReadOptions {
        let Self { volume, series } = self.clone();
        ReadOptions { series, volume, ..ReadOptions::default() }
    }

    /// Whether one is chosen.
    #[must_use]
    pub fn is_given(&self) -> bool {
        self.volume.is_some() || self.series.is_some()
    }
}

/// Reads an image; what is odd about it becomes a warning.
///
/// # Errors
/// As of [`voxalign_io::image::read_volume`].
pub fn image(path: &Path, listener: &dyn Listener) -> Result<Volume<f32>> {
    Ok(image_with_info(path, listener)?.0)
}

/// As [`image()`], with what the header says.
///
/// # Errors
/// As there.
pub fn image_with_info(path: &Path, listener: &dyn Listener) -> Result<(Volume<f32>, ImageInfo)> {
    image_of(path, &ReadOptions::default(), listener)
}

/// As [`image_with_info()`], of a file or folder that holds several.
///
/// # Errors
/// As there.
pub fn image_of(
    path: &Path,
    which: &ReadOptions,
    listener: &dyn Listener,
) -> Result<(Volume<f32>, ImageInfo)> {
    let (volume, info) = reading(listener, || image::read_volume_of(path, which))?;
    say_oddities(&info, listener);
    Ok((volume, info))
}

/// Says what is odd about an image.
pub fn say_oddities(info: &ImageInfo, listener: &dyn Listener) {
    for oddity in &info.oddities {
        let level = if oddity.is_normal_geometry() { Level::Verbose } else { Level::Warning };
        listener.say(level, format!("'{}': {oddity}", info.path.display()));
    }
}

/// Reads a label map.
///
/// # Errors
/// As of [`voxalign_io::image::read_labels`].
pub fn labels(path: &Path, listener: &dyn Listener) -> Result<LabelMap> {
    reading(listener, || image::read_labels(path))
}

/// Reads the geometry of an image.
///
/// # Errors
/// As of [`voxalign_io::image::read_info`].
pub fn grid(path: &Path, listener: &dyn Listener) -> Result<Grid> {
    Ok(reading(listener, || image::read_info(path))?.grid)
}

/// Reads points; what is odd about the file becomes a warning.
///
/// # Errors
/// As of [`points::read`].
pub fn points(
    path: &Path,
    options: &points::ReadOptions<'_>,
    listener: &dyn Listener,
) -> Result<(PointSet, PointInfo)> {
    points_of_pair(path, options, None, listener)
}

/// As [`points()`], of one of two sides of a pair: a file that has the points of two volumes (MNI tags), and is given for both
/// sides, has those of the fixed image first.
///
/// # Errors
/// As there.
pub fn points_of_pair(
    path: &Path,
    options: &points::ReadOptions<'_>,
    side: Option<usize>,
    listener: &dyn Listener,
) -> Result<(PointSet, PointInfo)> {
    let (set, info) = reading(listener, || match side.filter(|_| points::volumes(path) > 1) {
        Some(side) => {
            points::read(path, &points::ReadOptions { volume: Some(side), ..options.clone() })
        }
        None => points::read(path, options),
    })?;
    for oddity in &info.oddities {
        listener.say(Level::Warning, format!("'{}': {oddity}", path.display()));
    }
    Ok((set, info))
}

/// Reads a mesh; `space` is that of a file that does not say it. What is odd about the file becomes a warning.
///
/// # Errors
/// As of [`mesh::read`].
pub fn mesh(
    path: &Path,
    space: Option<PointConvention>,
    listener: &dyn Listener,
) -> Result<(Mesh, MeshInfo)> {
    let options = mesh::ReadOptions { space: space.map(Into::into) };
    let (mesh, info) = reading(listener, || mesh::read(path, &options))?;
    for oddity in &info.oddities {
        listener.say(Level::Warning, format!("'{}': {oddity}", path.display()));
    }
    Ok((mesh, info))
}

/// The grids that transform files are relative to.
#[derive(Debug, Clone, Default)]
pub struct Grids {
    /// Of the fixed image.
    pub fixed: Option<Grid>,
    /// Of the moving image.
    pub moving: Option<Grid>,
}

impl Grids {
    /// As the io room takes them.
    #[must_use]
    pub fn geometry(&self) -> Geometry<'_> {
        Geometry { fixed: self.fixed.as_ref(), moving: self.moving.as_ref() }
    }
}

/// Reads one transform.
///
/// # Errors
/// As of [`voxalign_io::transform::read`]; one of the plane for images of three dimensions.
pub fn transform(
    path: &Path,
    geometry: &Geometry<'_>,
    listener: &dyn Listener,
) -> Result<Transform> {
    let (transform, planar) = reading(listener, || transform::read_with_planar(path, geometry))?;
    if planar {
        check_planar(path, &[geometry.fixed, geometry.moving])?;
    }
    Ok(transform)
}

/// As [`transform()`], for images that the file is not relative to but meant for.
///
/// # Errors
/// As there.
pub fn transform_for(
    path: &Path,
    geometry: &Geometry<'_>,
    images: &[Option<&Grid>],
    listener: &dyn Listener,
) -> Result<Transform> {
    let (transform, planar) = reading(listener, || transform::read_with_planar(path, geometry))?;
    if planar {
        check_planar(path, &[geometry.fixed, geometry.moving])?;
        check_planar(path, images)?;
    }
    Ok(transform)
}

/// A transform of the plane is for images of two dimensions.
fn check_planar(path: &Path, images: &[Option<&Grid>]) -> Result<()> {
    match images.iter().flatten().find(|grid| !grid.is_2d()) {
        None => Ok(()),
        Some(grid) => Err(Error::input(text!(
            "'{}' holds a 2D transform, but the image has 3 dimensions ({grid}); give a transform \
             that was made for 3D images",
            path.display()
        ))),
    }
}

/// How images are written; `dimensions` is that of the file whose grid they have.
#[must_use]
pub fn write_options(data_type: DataType, dimensions: usize) -> WriteOptions {
    WriteOptions {
        data_type,
        dimensions,
        description: Some(format!("voxalign {}", env!("CARGO_PKG_VERSION"))),
        ..WriteOptions::default()
    }
}

/// Warns where values will not be stored as they are.
pub fn warn_of_rounding(values: &[f32], data_type: DataType, listener: &dyn Listener) {
    say_changes(changed(values, data_type), data_type, listener);
}

/// Warns of so many voxels that are clamped, and rounded.
pub fn say_changes(
    (clamped, rounded): (usize, usize),
    data_type: DataType,
    listener: &dyn Listener,
) {
    if clamped + rounded > 0 {
        let text = format!(
            "stored as {data_type}: {clamped} voxels are clamped to its range and {rounded} are \
             rounded to whole numbers"
        );
        listener.say(Level::Warning, &text);
    }
}

/// How many values an integer type clamps, and how many it rounds by more than 1e-6.
#[must_use]
pub fn changed(values: &[f32], data_type: DataType) -> (usize, usize) {
    let Some((low, high)) = data_type.range() else { return (0, 0) };
    let (mut clamped, mut rounded) = (0, 0);
    for value in values.iter().map(|&v| f64::from(v)) {
        let whole = value.round_ties_even();
        // What is not a number is out of every range.
        if !(low..=high).contains(&whole) {
            clamped += 1;
        } else if (whole - value).abs() > 1e-6 {
            rounded += 1;
        }
    }
    (clamped, rounded)
}

/// Checks that writing `output` would not overwrite one of the inputs, whatever the paths look
/// like, and that its folder is there.
///
/// # Errors
/// What is wrong with it.
pub fn check_output<'a>(output: &Path, inputs: impl IntoIterator<Item = &'a Path>) -> Result<()> {
    let targets = with_companions(output);
    for input in inputs {
        let sources = with_companions(input);
        let same = sources.iter().any(|s| targets.iter().any(|t| same_file(s, t)));
        if same {
            return Err(Error::input(text!(
                "'{}' is both an input and an output; inputs are never overwritten: choose another \
                 name for the output",
                output.display()
            )));
        }
    }
    if output.is_dir() {
        return Err(Error::input(text!(
            "'{}' is a folder; name a file to write",
            output.display()
        )));
    }
    // What takes its place would never reach who reads it.
    if output.exists() && !output.is_file() {
        return Err(Error::input(text!(
            "'{}' is a pipe or a device, and files are written as a whole; name a file to write",
            output.display()
        )));
    }
    let folder = match output.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    };
    if !folder.is_dir() {
        return Err(Error::input(text!(
            "'{}': the folder '{}' does not exist; create it first",
            output.display(),
            folder.display()
        )));
    }
    Ok(())
}

fn same_file(a: &Path, b: &Path) -> bool {
    match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}

/// A file and those that belong to it in formats of two files.
fn with_companions(path: &Path) -> Vec<PathBuf> {
    let mut all = vec![path.to_owned()];
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let pairs: [(&str, &[&str]); 6] = [
        (".hdr", &[".img", ".img.gz"]),
        (".img", &[".hdr"]),
        (".hdr.gz", &[".img.gz"]),
        (".img.gz", &[".hdr.gz", ".hdr"]),
        (".mhd", &[".raw", ".zraw"]),
        (".nhdr", &[".raw", ".raw.gz"]),
    ];
    for (end, others) in pairs {
        if let Some(stem) = name.strip_suffix(end) {
            all.extend(others.iter().map(|o| path.with_file_name(format!("{stem}{o}"))));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_by_name() {
        for (name, expected) in [
            ("a.nii.gz", Kind::Image),
            ("A.NRRD", Kind::Image),
            ("a.fsl.mat", Kind::Transform),
            ("a.tfm", Kind::Transform),
            ("a.h5", Kind::Transform),
            ("a.csv", Kind::Points),
            ("a.mrk.json", Kind::Points),
            ("a.fcsv", Kind::Points),
            ("a.gii.gz", Kind::Mesh),
            ("lh.pial", Kind::Mesh),
        ] {
            assert_eq!(kind(Path::new(name)).unwrap(), expected, "{name}");
        }
        assert!(kind(Path::new("a.jpg")).is_err());
        assert!(kind(Path::new("a")).is_err());
    }

    #[test]
    fn outside_is_background() {
        let grid = Grid::axis_aligned([10, 10, 2], [1.0; 3]).unwrap();
        let ct = Volume::from_fn(grid.clone(), |x, _, _| if x < 3 { -1000.0 } else { 40.0 });
        assert_eq!(background(&ct), -1000.0);
        // Ringing below 0 is no background.
        let mr = Volume::from_fn(grid, |x, y, z| if x + y + z == 0 { -2.0 } else { x as f32 });
        assert_eq!(background(&mr), 0.0);
    }

    #[test]
    fn inputs_are_safe() {
        let folder = tempfile::tempdir().unwrap();
        let input = folder.path().join("a.img");
        std::fs::write(&input, b"x").unwrap();
        std::fs::write(folder.path().join("a.hdr"), b"x").unwrap();
        std::fs::create_dir(folder.path().join("b")).unwrap();
        let output = folder.path().join("b/../a.hdr");
        assert!(check_output(&output, [input.as_path()]).is_err());
        assert!(check_output(&folder.path().join("c.nii"), [input.as_path()]).is_ok());
        assert!(check_output(&folder.path().join("none/c.nii"), []).is_err());
        assert!(check_output(folder.path(), []).is_err());
    }

    #[test]
    #[cfg(unix)]
    fn pipes_and_devices_are_no_outputs() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        assert!(std::process::Command::new("mkfifo").arg(at("a.nii")).status().unwrap().success());
        std::os::unix::fs::symlink("/dev/null", at("b.nii")).unwrap();
        std::fs::write(at("c"), b"x").unwrap();
        std::os::unix::fs::symlink(at("c"), at("c.nii")).unwrap();
        std::os::unix::fs::symlink(at("none"), at("d.nii")).unwrap();
        for (output, ok) in [
            (at("a.nii"), false),
            (at("b.nii"), false),
            (at("c.nii"), true),
            (at("d.nii"), true),
            ("/dev/null".into(), false),
            ("/dev/full".into(), false),
        ] {
            let found = check_output(&output, []);
            assert_eq!(found.is_ok(), ok, "{output:?}: {found:?}");
        }
    }

    #[test]
    fn changed_values_are_counted() {
        let values = [0.0, 1.5, -1.0, 300.0, 255.4, f32::NAN, 7.0, -0.4];
        assert_eq!(changed(&values, DataType::U8), (3, 3));
        assert_eq!(changed(&values, DataType::I16), (1, 3));
        assert_eq!(changed(&values, DataType::F32), (0, 0));
    }
}
