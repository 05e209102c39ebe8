//! Poses of the CT in the room.

use crate::error::{Error, Result};
use crate::listener::{Listener, reading};
use crate::projection::{Numbers, in_room, read_pose};
use crate::run::{Input, Role};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use voxalign_image::{Affine, Grid, Vector3};
use voxalign_options::{Given, Parameters, Text, text};
use voxalign_register::projection::motion_of;
use voxalign_report::track::FrameRecord;

/// How the CT is turned and moved in the room of the views.
#[derive(Debug, Clone, Copy, PartialEq, Parameters)]
pub struct Motion {
    /// Rotation of the CT about x, y and z, in that order, around `centre`, degrees
    #[parameter(default = Numbers([0.0; 3]))]
    pub rotation: Numbers<3>,
    /// Translation of the CT, applied after the rotation, RAS mm
    #[parameter(default = Numbers([0.0; 3]))]
    pub translation: Numbers<3>,
    /// Centre of rotation, in the world coordinates of the CT, RAS mm
    #[parameter(says = "the centre of its grid")]
    pub centre: Option<Numbers<3>>,
}

/// Where the CT is in the room of the views; where it is in its own world if nothing is said.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Pose"))]
#[serde(default)]
pub struct PoseChoice {
    /// Its rotation and translation.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub motion: Given<Motion>,
    /// A rigid transform file: from the room (fixed) to the world of the CT (moving), as `voxalign pose` writes it
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE"))]
    pub pose: Option<PathBuf>,
    /// A sequence: a table with one row per pose and the columns rotation_x, rotation_y, rotation_z (degrees),
    /// translation_x, translation_y, translation_z (mm), and possibly centre_x, centre_y, centre_z instead of `centre`; such as
    /// a track.csv that `voxalign pose` wrote
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
    /// Centre of rotation, in the world coordinates of the CT, RAS mm.
    pub(super) centre: Vector3<f64>,
}

const COLUMNS: [&str; 9] = [
    "rotation_x",
    "rotation_y",
    "rotation_z",
    "translation_x",
    "translation_y",
    "translation_z",
    "centre_x",
    "centre_y",
    "centre_z",
];

impl PoseChoice {
    /// Refuses what says different things.
    pub(super) fn check(&self) -> Result<()> {
        let numbers = self.motion.has("rotation") || self.motion.has("translation");
        let given = [numbers, self.pose.is_some(), self.poses.is_some()];
        if given.iter().filter(|g| **g).count() > 1 {
            return Err(Error::input(text!(
                "`rotation` and `translation`, `pose`, and `poses` say different things about where the \
                 CT is; give one of them"
            )));
        }
        Ok(())
    }

    /// The files that are read.
    pub(super) fn files(&self) -> impl Iterator<Item = Input<'_>> {
        Input::those_given(&[(Role::Pose, &self.pose), (Role::List, &self.poses)])
            .collect::<Vec<_>>()
            .into_iter()
    }

    /// The poses of a CT; one at least.
    pub(super) fn read(&self, ct: &Grid, listener: &dyn Listener) -> Result<Vec<Pose>> {
        let Motion { rotation, translation, centre } = self.motion.over(Motion::USUAL)?;
        let given = centre.is_some();
        let centre = centre.map_or_else(|| ct.centre(), |p| Vector3::from(p.0));
        if let Some(path) = &self.pose {
            let map = read_pose(path, ct, listener)?;
            let motion = motion_of(&map, centre);
            let degrees = motion.rotation.map(f64::to_degrees).into();
            return Ok(vec![Pose { map, degrees, mm: motion.translation.into(), centre }]);
        }
        if let Some(path) = &self.poses {
            return of_table(path, (centre, given), listener);
        }
        let (degrees, mm) = (rotation.0, translation.0);
        Ok(vec![Pose { map: in_room(centre, degrees, mm)?, degrees, mm, centre }])
    }
}

/// The poses of a table; rotations are about `centre`, which an option gave or not, unless it has columns for that.
fn of_table(
    path: &Path,
    (centre, given): (Vector3<f64>, bool),
    listener: &dyn Listener,
) -> Result<Vec<Pose>> {
    let at = |what: Text| Error::input(what).at(text!("'{}'", path.display()));
    let text = reading(listener, || voxalign_io::text::read(path))?;
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
    let names = reader.headers().map_err(|e| at(text!("{e}; give a table with commas")))?.clone();
    let place = |name: &str| names.iter().position(|n| n.eq_ignore_ascii_case(name));
    let of_track = || FrameRecord::COLUMNS.split(',');
    let known = |name: &str| {
        COLUMNS.into_iter().chain(of_track()).any(|column| name.eq_ignore_ascii_case(column))
    };
    if let Some(odd) = names.iter().find(|n| !known(n)) {
        return Err(at(text!("the column '{odd}' is not known; give {}", COLUMNS.join(", "))));
    }
    let places = COLUMNS.map(place);
    let of_centre = places[6..].iter().filter(|p| p.is_some()).count();
    if of_centre != 0 && of_centre != 3 {
        return Err(at("give all of the columns centre_x, centre_y and centre_z, or none".into()));
    }
    if of_centre == 3 && given {
        return Err(at(text!("its columns give the centre of rotation; leave `centre` out")));
    }
    if places.iter().all(Option::is_none) {
        return Err(at(text!("it has none of the columns {}", COLUMNS.join(", "))));
    }
    let mut poses = Vec::new();
    for (number, row) in reader.records().enumerate() {
        let line = number + 2;
        let row = row.map_err(|e| at(text!("line {line}: {e}")))?;
        let [x, y, z] = <[f64; 3]>::from(centre);
        let mut values = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, x, y, z];
        for (value, place) in values.iter_mut().zip(places) {
            let Some(text) = place.and_then(|p| row.get(p)) else { continue };
            *value = text.parse::<f64>().ok().filter(|v| v.is_finite()).ok_or_else(|| {
                at(text!("line {line}: '{text}' is not a number; give degrees and millimetres"))
            })?;
        }
        let [rx, ry, rz, x, y, z, cx, cy, cz] = values;
        let (degrees, mm, centre) = ([rx, ry, rz], [x, y, z], Vector3::new(cx, cy, cz));
        poses.push(Pose { map: in_room(centre, degrees, mm)?, degrees, mm, centre });
    }
    if poses.is_empty() {
        return Err(at("it has no poses; give a row for each".into()));
    }
    Ok(poses)
}
