//! Where the CT is in the room.

use crate::error::{Error, Result};
use crate::listener::{Listener, reading};
use crate::options::as_text;
use crate::projection::{Numbers, in_room, read_pose};
use crate::run::{Input, Role};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use voxalign_image::{Affine, Grid, Vector3};

/// Where the CT is in the room of the views; where it is in its own world if nothing is said.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Pose"))]
#[serde(default)]
pub struct PoseChoice {
    /// Turns the CT about x, y and z, in that order, degrees: through the isocentre, with `geometry` through the middle of the
    /// CT
    #[cfg_attr(feature = "clap", arg(long, value_name = "X,Y,Z", allow_hyphen_values = true))]
    #[serde(with = "as_text")]
    pub rotation: Option<Numbers<3>>,
    /// Moves the CT, after it was turned, RAS mm
    #[cfg_attr(feature = "clap", arg(long, value_name = "X,Y,Z", allow_hyphen_values = true))]
    #[serde(with = "as_text")]
    pub translation: Option<Numbers<3>>,
    /// A rigid transform file: from the room (fixed) to the world of the CT (moving), as `voxalign pose` writes it
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE"))]
    pub pose: Option<PathBuf>,
    /// A sequence: a table with a row a pose and the columns rotation_x, rotation_y, rotation_z (degrees),
    /// translation_x, translation_y, translation_z (mm)
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE.csv"))]
    pub poses: Option<PathBuf>,
}

/// A pose with the numbers that it was made of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pose {
    /// From the room to the world of the CT.
    pub(super) map: Affine,
    pub(super) degrees: [f64; 3],
    pub(super) mm: [f64; 3],
}

const COLUMNS: [&str; 6] =
    ["rotation_x", "rotation_y", "rotation_z", "translation_x", "translation_y", "translation_z"];

impl PoseChoice {
    /// Refuses what says different things.
    pub(super) fn check(&self) -> Result<()> {
        let numbers = self.rotation.is_some() || self.translation.is_some();
        let given = [numbers, self.pose.is_some(), self.poses.is_some()];
        if given.iter().filter(|g| **g).count() > 1 {
            return Err(Error::input(
                "`rotation` and `translation`, `pose`, and `poses` say different things about where the \
                 CT is; give one of them",
            ));
        }
        Ok(())
    }

    /// The files that are read.
    pub(super) fn files(&self) -> impl Iterator<Item = Input<'_>> {
        Input::those_given(&[(Role::Pose, &self.pose), (Role::List, &self.poses)])
            .collect::<Vec<_>>()
            .into_iter()
    }

    /// The poses of a CT, with turns about a point; one at least.
    pub(super) fn read(
        &self,
        ct: &Grid,
        centre: Vector3<f64>,
        listener: &dyn Listener,
    ) -> Result<Vec<Pose>> {
        if let Some(path) = &self.pose {
            let map = read_pose(path, ct, listener)?;
            let (degrees, mm) = in_numbers(&map, centre)?;
            return Ok(vec![Pose { map, degrees, mm }]);
        }
        if let Some(path) = &self.poses {
            return of_table(path, centre, listener);
        }
        let numbers = |n: Option<Numbers<3>>| n.map_or([0.0; 3], |n| n.0);
        let (degrees, mm) = (numbers(self.rotation), numbers(self.translation));
        Ok(vec![Pose { map: in_room(centre, degrees, mm)?, degrees, mm }])
    }
}

/// How a pose turns and moves the CT in the room: degrees about x, y and z through a point, and mm.
fn in_numbers(map: &Affine, centre: Vector3<f64>) -> Result<([f64; 3], [f64; 3])> {
    let moved = map.inverse()?;
    let (x, y, z) = voxalign_image::Rotation3::from_matrix(&moved.matrix).euler_angles();
    let mm = moved.apply(centre) - centre;
    Ok(([x, y, z].map(f64::to_degrees), mm.into()))
}

fn of_table(path: &Path, centre: Vector3<f64>, listener: &dyn Listener) -> Result<Vec<Pose>> {
    let at = |what: String| Error::input(format!("'{}': {what}", path.display()));
    let system = |e: std::io::Error| at(format!("cannot be read: {e}; check the path"));
    let text = reading::<_, Error>(listener, || std::fs::read_to_string(path).map_err(system))?;
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
    let names = reader.headers().map_err(|e| at(format!("{e}; give a table with commas")))?.clone();
    let place = |name: &str| names.iter().position(|n| n.eq_ignore_ascii_case(name));
    if let Some(odd) = names.iter().find(|n| !COLUMNS.iter().any(|c| n.eq_ignore_ascii_case(c))) {
        return Err(at(format!("the column '{odd}' is not known; give {}", COLUMNS.join(", "))));
    }
    let places = COLUMNS.map(place);
    if places.iter().all(Option::is_none) {
        return Err(at(format!("it has none of the columns {}", COLUMNS.join(", "))));
    }
    let mut poses = Vec::new();
    for (number, row) in reader.records().enumerate() {
        let line = number + 2;
        let row = row.map_err(|e| at(format!("line {line}: {e}")))?;
        let mut values = [0.0; 6];
        for (value, place) in values.iter_mut().zip(places) {
            let Some(text) = place.and_then(|p| row.get(p)) else { continue };
            *value = text.parse::<f64>().ok().filter(|v| v.is_finite()).ok_or_else(|| {
                at(format!("line {line}: '{text}' is no number; give degrees and millimetres"))
            })?;
        }
        let [rx, ry, rz, x, y, z] = values;
        let (degrees, mm) = ([rx, ry, rz], [x, y, z]);
        poses.push(Pose { map: in_room(centre, degrees, mm)?, degrees, mm });
    }
    if poses.is_empty() {
        return Err(at("it has no poses; give a row for each".to_owned()));
    }
    Ok(poses)
}
