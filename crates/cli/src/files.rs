//! Reading inputs and keeping outputs away from them.

use crate::failure::Failure;
use crate::interrupt;
use crate::output;
use crate::progress::Talk;
use rayon::prelude::*;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use tempfile::TempDir;
use voxalign_image::Transform;
use voxalign_image::{Grid, LabelMap, Volume};
use voxalign_io::image::{self, DataType, ImageInfo, WriteOptions};
use voxalign_io::transform::{self, Geometry};

/// What a file holds, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Image,
    Transform,
    Points,
}

/// What a file of this name holds. A NIfTI file may be an image or a displacement field; it counts
/// as an image here.
pub(crate) fn kind(path: &Path) -> Result<Kind, Failure> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    if name.ends_with(".csv") {
        return Ok(Kind::Points);
    }
    let format = image::Format::from_path(path);
    if format.is_ok() {
        return Ok(Kind::Image);
    }
    if path.is_dir() || [".dcm", ".mgz", ".mgh", ".mnc"].iter().any(|e| name.ends_with(e)) {
        // The message says what converts it.
        format?;
    }
    if [".tfm", ".txt", ".mat", ".fsl", ".fslmat", ".flirt", ".h5"]
        .iter()
        .any(|e| name.ends_with(e))
    {
        return Ok(Kind::Transform);
    }
    Err(Failure::input(format!(
        "'{}': the name says neither image (.nii, .nii.gz, .hdr, .mha, .mhd, .nrrd, .nhdr), \
         transform (.tfm, .txt, .mat, .fsl) nor points (.csv)",
        path.display()
    )))
}

/// Whether an image file holds vectors: a displacement field.
pub(crate) fn is_field(info: &ImageInfo) -> bool {
    if info.components > 1 {
        // NRRD and MetaImage; integers are colours.
        let vector = info.components == 3 || info.components == 2 && info.dims[2] == 1;
        return vector && info.volumes() == info.components && !info.data_type.is_integer();
    }
    let vector_intent = info.intent.starts_with("1007") || info.intent.starts_with("1006");
    info.dims.len() == 5 && info.dims[4] > 1 && info.dims[3] == 1
        || vector_intent && info.volumes() > 1
}

/// Reads an image; what is odd about it becomes a warning.
pub(crate) fn image(path: &Path, talk: Talk) -> Result<Volume<f32>, Failure> {
    Ok(image_with_info(path, talk)?.0)
}

/// As [`image()`], with what the header says.
pub(crate) fn image_with_info(
    path: &Path,
    talk: Talk,
) -> Result<(Volume<f32>, ImageInfo), Failure> {
    interrupt::check()?;
    let (volume, info) = image::read_volume_with_info(path)?;
    for oddity in &info.oddities {
        if talk == Talk::Verbose || talk == Talk::Normal && !is_normal_geometry(oddity) {
            output::warning(&format!("'{}': {oddity}", path.display()));
        }
    }
    Ok((volume, info))
}

/// Facts about a geometry that `info` tells but that nothing has to be done about.
pub(crate) fn is_normal_geometry(oddity: &str) -> bool {
    ["the voxel axes are oblique", "the voxel axes are left-handed", "the voxels are anisotropic"]
        .iter()
        .any(|fact| oddity.starts_with(fact))
}

/// Reads a label map.
pub(crate) fn labels(path: &Path) -> Result<LabelMap, Failure> {
    interrupt::check()?;
    Ok(image::read_labels(path)?)
}

/// Reads the geometry of an image.
pub(crate) fn grid(path: &Path) -> Result<Grid, Failure> {
    Ok(image::read_info(path)?.grid)
}

/// The grids that transform files are relative to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Grids {
    pub(crate) fixed: Option<Grid>,
    pub(crate) moving: Option<Grid>,
}

impl Grids {
    /// As the io room takes them.
    pub(crate) fn geometry(&self) -> Geometry<'_> {
        Geometry { fixed: self.fixed.as_ref(), moving: self.moving.as_ref() }
    }
}

/// Reads one transform.
pub(crate) fn transform(path: &Path, geometry: &Geometry<'_>) -> Result<Transform, Failure> {
    Ok(transform::read(path, geometry)?)
}

/// The value outside of an image where none is given: 0, or the smallest value where at least a
/// hundredth of the voxels are below 0, as in CT.
pub(crate) fn background(image: &Volume<f32>) -> f32 {
    let data = image.data();
    let below = data.par_iter().filter(|&&v| v < 0.0).count();
    if below * 100 < data.len() {
        return 0.0;
    }
    let smallest = |a: f32, b: f32| a.min(b);
    let finite = data.par_iter().copied().filter(|v| v.is_finite());
    finite.reduce(|| 0.0, smallest)
}

/// How images are written; `dimensions` is that of the file whose grid they have.
pub(crate) fn write_options(data_type: DataType, dimensions: usize) -> WriteOptions {
    WriteOptions {
        data_type,
        dimensions,
        description: Some(format!("voxalign {}", env!("CARGO_PKG_VERSION"))),
        ..WriteOptions::default()
    }
}

/// Warns where values will not be stored as they are.
pub(crate) fn warn_of_rounding(values: &[f32], data_type: DataType, talk: Talk) {
    let (clamped, rounded) = changed(values, data_type);
    if talk > Talk::Quiet && clamped + rounded > 0 {
        output::warning(&format!(
            "stored as {data_type}, {clamped} voxels are clamped to its range and {rounded} \
             rounded to whole numbers"
        ));
    }
}

/// How many values an integer type clamps, and how many it rounds by more than 1e-6.
fn changed(values: &[f32], data_type: DataType) -> (usize, usize) {
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
pub(crate) fn check_output<'a>(
    output: &Path,
    inputs: impl IntoIterator<Item = &'a Path>,
) -> Result<(), Failure> {
    let targets = with_companions(output);
    for input in inputs {
        let sources = with_companions(input);
        let same = sources.iter().any(|s| targets.iter().any(|t| same_file(s, t)));
        if same {
            return Err(Failure::input(format!(
                "'{}' is an input and an output; inputs are never overwritten: choose another \
                 name for the output",
                output.display()
            )));
        }
    }
    if output.is_dir() {
        return Err(Failure::input(format!(
            "'{}' is a folder; name a file to write",
            output.display()
        )));
    }
    let folder = match output.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    };
    if !folder.is_dir() {
        return Err(Failure::input(format!(
            "'{}': the folder '{}' is not there; create it first",
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

/// Outputs of a command that appear together: they are written into a hidden folder inside the
/// output folder and moved out of it, the last of them at the end, when all are complete. Dropped before that, it leaves
/// nothing, not even the output folder where that was new.
#[derive(Debug)]
pub(crate) struct Staging {
    hidden: Option<TempDir>,
    folder: PathBuf,
    /// Folders made for it, outermost first.
    made: Vec<PathBuf>,
    names: Vec<String>,
    /// Files of an older result that this one does not have.
    stale: Vec<String>,
}

impl Staging {
    /// Makes the output folder and checks that it can be written.
    pub(crate) fn new(folder: &Path) -> Result<Self, Failure> {
        let fail = |e: std::io::Error| {
            Failure::input(format!(
                "cannot write to the folder '{}': {e}; check its name and permissions",
                folder.display()
            ))
        };
        let mut made = Vec::new();
        let mut missing: Vec<_> = folder
            .ancestors()
            .take_while(|p| !p.as_os_str().is_empty() && !p.exists())
            .map(Path::to_owned)
            .collect();
        missing.reverse();
        let result = missing.iter().try_for_each(|path| {
            std::fs::create_dir(path)?;
            made.push(path.clone());
            Ok(())
        });
        // From here on, dropping the staging takes the made folders away again.
        let mut staging = Self {
            hidden: None,
            folder: folder.to_owned(),
            made,
            names: Vec::new(),
            stale: Vec::new(),
        };
        result.map_err(fail)?;
        let hidden =
            tempfile::Builder::new().prefix(HIDDEN).rand_bytes(HIDDEN_LETTERS).tempdir_in(folder);
        let hidden = hidden.map_err(fail)?;
        interrupt::set_staging(Some(hidden.path().to_owned()));
        staging.hidden = Some(hidden);
        Ok(staging)
    }

    /// Where to write the file that will get this name.
    pub(crate) fn path(&mut self, name: &str) -> Result<PathBuf, Failure> {
        interrupt::check()?;
        let hidden = self.hidden.as_ref();
        let hidden = hidden.ok_or_else(|| Failure::Internal("the outputs are gone".into()))?;
        self.names.push(name.to_owned());
        Ok(hidden.path().join(name))
    }

    /// Says that this result has no file of this name: one of an older result goes, so that the
    /// folder never holds a mixture.
    pub(crate) fn without(&mut self, name: &str) {
        self.stale.push(name.to_owned());
    }

    /// The path that a file will have in the end.
    pub(crate) fn final_path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Moves all files to their names, in the order in which they were asked for; an old file of
    /// such a name is replaced.
    ///
    /// The last one stands for the whole: an older one of its name goes before anything else does.
    /// Where the program is killed in between, a folder that has it holds one result, of one run.
    pub(crate) fn commit(mut self) -> Result<(), Failure> {
        let Some(hidden) = self.hidden.take() else { return Ok(()) };
        for name in self.names.last().into_iter().chain(&self.stale) {
            // What is not there need not go.
            let _ = std::fs::remove_file(self.folder.join(name));
        }
        for name in &self.names {
            let to = self.folder.join(name);
            std::fs::rename(hidden.path().join(name), &to).map_err(|e| {
                Failure::input(format!("cannot write '{}': {e}; check the folder", to.display()))
            })?;
        }
        self.made.clear();
        drop(hidden);
        remove_abandoned(&self.folder, SystemTime::now());
        Ok(())
    }
}

/// What the names of the hidden folders begin with; a few letters and digits follow.
const HIDDEN: &str = ".voxalign-";
const HIDDEN_LETTERS: usize = 6;

/// Removes hidden folders that killed runs left more than an hour ago.
fn remove_abandoned(folder: &Path, now: SystemTime) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let rest = name.to_str().and_then(|n| n.strip_prefix(HIDDEN)).unwrap_or_default();
        let ours = rest.len() == HIDDEN_LETTERS && rest.bytes().all(|b| b.is_ascii_alphanumeric());
        // The metadata of a link are its own: it counts as no folder.
        let Ok(metadata) = entry.metadata() else { continue };
        let age = metadata.modified().ok().and_then(|t| now.duration_since(t).ok());
        if ours && metadata.is_dir() && age.is_some_and(|a| a > Duration::from_secs(3600)) {
            // Another user's folder stays.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        self.hidden = None;
        interrupt::set_staging(None);
        for folder in self.made.iter().rev() {
            // A folder that is not empty is not ours any more.
            let _ = std::fs::remove_dir(folder);
        }
    }
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
            ("a.csv", Kind::Points),
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
    fn normal_geometry_is_no_warning() {
        let turn = turned();
        let grid = Grid::axis_aligned([4, 4, 4], [-1.0, 1.0, 3.0]).unwrap().moved(&turn).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.nii");
        image::write_volume(&path, &Volume::filled(grid, 0.0), &write_options(DataType::U8, 3))
            .unwrap();
        let oddities = image::read_info(&path).unwrap().oddities;
        assert!(oddities.len() >= 3, "{oddities:?}");
        assert!(oddities.iter().all(|o| is_normal_geometry(o)), "{oddities:?}");
        assert!(!is_normal_geometry("qform and sform disagree"));
    }

    fn turned() -> voxalign_image::Affine {
        let centre = voxalign_image::Vector3::zeros();
        let mut parts = voxalign_image::AffineParameters::identity(centre);
        parts.rotation[2] = 0.3;
        parts.to_affine()
    }

    #[test]
    fn staging_is_all_or_nothing() {
        let root = tempfile::tempdir().unwrap();
        let out = root.path().join("x/y");
        let mut staging = Staging::new(&out).unwrap();
        std::fs::write(staging.path("a").unwrap(), b"1").unwrap();
        drop(staging);
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);

        let mut staging = Staging::new(&out).unwrap();
        std::fs::write(staging.path("a").unwrap(), b"1").unwrap();
        std::fs::write(staging.path("b").unwrap(), b"2").unwrap();
        staging.commit().unwrap();
        let names: Vec<_> =
            std::fs::read_dir(&out).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names.len(), 2, "{names:?}");
        assert!(Staging::new(&out.join("a")).is_err());
    }

    #[test]
    fn the_last_file_stands_for_the_whole() {
        let root = tempfile::tempdir().unwrap();
        let stage = |text: &str| {
            let mut staging = Staging::new(root.path()).unwrap();
            for name in ["a", "b", "record"] {
                std::fs::write(staging.path(name).unwrap(), text).unwrap();
            }
            staging
        };
        stage("one").commit().unwrap();
        let read = |name: &str| std::fs::read_to_string(root.path().join(name));
        assert_eq!(read("record").unwrap(), "one");
        // The move ends half-way: at a name that cannot be had.
        std::fs::remove_file(root.path().join("b")).unwrap();
        std::fs::create_dir_all(root.path().join("b/full")).unwrap();
        assert!(stage("two").commit().is_err());
        assert_eq!(read("a").unwrap(), "two");
        assert!(read("record").is_err(), "the record of an older result beside newer files");
        std::fs::remove_dir_all(root.path().join("b")).unwrap();
        stage("three").commit().unwrap();
        assert_eq!(["a", "b", "record"].map(|n| read(n).unwrap()), ["three"; 3]);
    }

    #[test]
    fn what_a_killed_run_left_goes_after_an_hour() {
        let root = tempfile::tempdir().unwrap();
        for name in [".voxalign-aB3xYz", ".voxalign-mine", ".voxalign-a.b.c.", "voxalign-aB3xYz"] {
            std::fs::create_dir(root.path().join(name)).unwrap();
        }
        std::fs::write(root.path().join(".voxalign-123456"), b"a file").unwrap();
        std::fs::write(root.path().join(".voxalign-aB3xYz/warped.nii.gz"), b"x").unwrap();
        let count = || std::fs::read_dir(root.path()).unwrap().count();
        remove_abandoned(root.path(), SystemTime::now());
        assert_eq!(count(), 5);
        remove_abandoned(root.path(), SystemTime::now() + Duration::from_secs(3700));
        assert_eq!(count(), 4);
        assert!(!root.path().join(".voxalign-aB3xYz").exists());
    }

    #[test]
    fn changed_values_are_counted() {
        let values = [0.0, 1.5, -1.0, 300.0, 255.4, f32::NAN, 7.0, -0.4];
        assert_eq!(changed(&values, DataType::U8), (3, 3));
        assert_eq!(changed(&values, DataType::I16), (1, 3));
        assert_eq!(changed(&values, DataType::F32), (0, 0));
    }
}
