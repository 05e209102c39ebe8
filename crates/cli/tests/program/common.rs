//! Running the program and making small images for it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;
use voxalign_image::{Affine, AffineParameters, Grid, LabelMap, Vector3, Volume};
use voxalign_io::image::{DataType, WriteOptions, write_labels, write_volume};

/// What a run said and how it ended.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Run {
    /// The run, which must have ended with this code.
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "out:\n{}\nerr:\n{}", self.out, self.err);
        self
    }

    /// The run, which must have said all of this on standard error, and no trace of a panic.
    #[track_caller]
    pub(crate) fn says(self, parts: &[&str]) -> Self {
        for part in parts {
            assert!(self.err.contains(part), "'{part}' is not in:\n{}", self.err);
        }
        assert!(!self.err.contains("panicked"), "{}", self.err);
        self
    }

    /// Standard output as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e} in:\n{}", self.out))
    }
}

/// A folder in which the program runs.
pub(crate) struct Place(TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The names of all files and folders, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        names(self.0.path())
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_voxalign"));
        command.args(arguments).current_dir(self.0.path()).stdin(Stdio::null());
        command.env_remove("VOXALIGN_DEVICE");
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Run {
        let output = self.command(arguments).output().unwrap();
        Run {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Runs a line of words.
    pub(crate) fn line(&self, line: &str) -> Run {
        self.run(&line.split_whitespace().collect::<Vec<_>>())
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    pub(crate) fn image(&self, name: &str, image: &Volume<f32>) {
        write_volume(self.path(name), image, &WriteOptions::default()).unwrap();
    }

    pub(crate) fn image_as(&self, name: &str, image: &Volume<f32>, data_type: DataType) {
        let options = WriteOptions { data_type, ..WriteOptions::default() };
        write_volume(self.path(name), image, &options).unwrap();
    }

    pub(crate) fn labels(&self, name: &str, labels: &LabelMap) {
        write_labels(self.path(name), labels, &WriteOptions::default()).unwrap();
    }

    /// A fixed and a moving image of the same head, `fixed.nii.gz` and `moving.nii.gz`, with label
    /// maps `fixed_labels.nii.gz` and `moving_labels.nii.gz`; gives the transform between them.
    pub(crate) fn pair(&self) -> Affine {
        let found = motion();
        let moving = grid([44, 40, 42], 4.0);
        let back = found.inverse().unwrap();
        self.image("fixed.nii.gz", &head(&grid([40, 44, 40], 4.0), &Affine::identity()));
        self.image("moving.nii.gz", &head(&moving, &back));
        self.labels("fixed_labels.nii.gz", &regions(&grid([40, 44, 40], 4.0), &Affine::identity()));
        self.labels("moving_labels.nii.gz", &regions(&moving, &back));
        found
    }
}

/// Whether `VOXALIGN_TEST_THOROUGH` asks for all cases of the tests that usually run some of them.
pub(crate) fn thorough() -> bool {
    std::env::var_os("VOXALIGN_TEST_THOROUGH").is_some()
}

/// The names of all files and folders in a folder, sorted.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// A motion that a registration can find: 12 degrees, 9 mm and some scale.
pub(crate) fn motion() -> Affine {
    AffineParameters {
        translation: Vector3::new(6.0, -5.0, 4.0),
        rotation: Vector3::new(0.1, -0.12, 0.15),
        scale: Vector3::new(1.05, 0.97, 1.02),
        ..AffineParameters::identity(Vector3::new(3.0, -2.0, 5.0))
    }
    .to_affine()
}

/// A grid of one spacing in mm with its middle at the world's origin.
pub(crate) fn grid(dims: [usize; 3], spacing: f64) -> Grid {
    let at_zero = Grid::axis_aligned(dims, [spacing; 3]).unwrap();
    at_zero.moved(&Affine::translation(-at_zero.centre())).unwrap()
}

/// Smooth ellipsoids without symmetry: centre, radii and value.
const PARTS: [([f64; 3], [f64; 3], f64); 5] = [
    ([0.0, 0.0, 0.0], [55.0, 70.0, 60.0], 100.0),
    ([5.0, 10.0, 8.0], [30.0, 38.0, 28.0], 60.0),
    ([-25.0, 20.0, -10.0], [12.0, 16.0, 10.0], -70.0),
    ([22.0, -30.0, 15.0], [14.0, 10.0, 18.0], 50.0),
    ([10.0, 35.0, -28.0], [10.0, 14.0, 9.0], 80.0),
];

fn inside(part: &([f64; 3], [f64; 3], f64), p: Vector3<f64>) -> f64 {
    let d: f64 = (0..3).map(|a| ((p[a] - part.0[a]) / part.1[a]).powi(2)).sum();
    1.0 / (1.0 + ((d.sqrt() - 1.0) * 12.0).exp())
}

/// The value of the head at a position.
pub(crate) fn value(p: Vector3<f64>) -> f32 {
    PARTS.iter().map(|part| part.2 * inside(part, p)).sum::<f64>() as f32
}

/// The label of the head at a position; a later part covers an earlier one.
pub(crate) fn region(p: Vector3<f64>) -> i32 {
    PARTS.iter().rposition(|part| inside(part, p) > 0.5).map_or(0, |i| i as i32 + 1)
}

/// The head on a grid, seen at `to_head` of each world position.
pub(crate) fn head(grid: &Grid, to_head: &Affine) -> Volume<f32> {
    Volume::from_fn(grid.clone(), |x, y, z| {
        let world = grid.index_to_world(Vector3::new(x as f64, y as f64, z as f64));
        value(to_head.apply(world))
    })
}

/// The labels 1 to 5 of the parts; a later part covers an earlier one.
pub(crate) fn regions(grid: &Grid, to_head: &Affine) -> LabelMap {
    Volume::from_fn(grid.clone(), |x, y, z| {
        let world = grid.index_to_world(Vector3::new(x as f64, y as f64, z as f64));
        region(to_head.apply(world))
    })
}
