//! Reading inputs and keeping outputs away from them.

use crate::failure::Failure;
use crate::interrupt;
use crate::output;
use crate::progress::Talk;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use voxalign_image::{Grid, LabelMap, Volume};
use voxalign_io::image::{self, DataType, ImageInfo, WriteOptions};

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
    if image::Format::from_path(path).is_ok() {
        return Ok(Kind::Image);
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

/// Whether a NIfTI file holds vectors: a displacement field.
pub(crate) fn is_field(info: &ImageInfo) -> bool {
    let vector_intent = info.intent.starts_with("1007") || info.intent.starts_with("1006");
    info.dims.len() == 5 && info.dims[4] > 1 && info.dims[3] == 1
        || vector_intent && info.volumes() > 1
}

/// Reads an image; what is odd about it becomes a warning.
pub(crate) fn image(path: &Path, talk: Talk) -> Result<Volume<f32>, Failure> {
    interrupt::check()?;
    let (volume, info) = image::read_volume_with_info(path)?;
    for oddity in &info.oddities {
        if talk == Talk::Verbose || talk == Talk::Normal && !is_normal_geometry(oddity) {
            output::warning(&format!("'{}': {oddity}", path.display()));
        }
    }
    Ok(volume)
}

/// Facts about a geometry that `info` tells but that nothing has to be done about.
fn is_normal_geometry(oddity: &str) -> bool {
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

/// How images are written.
pub(crate) fn write_options(data_type: DataType) -> WriteOptions {
    WriteOptions {
        data_type,
        description: Some(format!("voxalign {}", env!("CARGO_PKG_VERSION"))),
        ..WriteOptions::default()
    }
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
/// output folder and moved out of it when all are complete. Dropped before that, it leaves
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
        let hidden = tempfile::Builder::new().prefix(".voxalign-").tempdir_in(folder);
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

    /// Moves all files to their names; an old file of such a name is replaced.
    pub(crate) fn commit(mut self) -> Result<(), Failure> {
        let Some(hidden) = self.hidden.take() else { return Ok(()) };
        for name in &self.names {
            let to = self.folder.join(name);
            std::fs::rename(hidden.path().join(name), &to).map_err(|e| {
                Failure::input(format!("cannot write '{}': {e}; check the folder", to.display()))
            })?;
        }
        for name in &self.stale {
            // What is not there need not go.
            let _ = std::fs::remove_file(self.folder.join(name));
        }
        self.made.clear();
        Ok(())
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
        image::write_volume(&path, &Volume::filled(grid, 0.0), &write_options(DataType::U8))
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
}
