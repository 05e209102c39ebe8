//! The start of the search for a pose.

use super::seen;
use crate::error::{Error, Result};
use crate::listener::Listener;
use crate::options::as_text;
use crate::projection::{Numbers, in_room, read_pose};
use crate::run::{Input, Role};
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;
use std::str::FromStr;
use voxalign_image::{Affine, Grid, Vector3, XrayGeometry};
use voxalign_options::{Given, Parameters, text};
use voxalign_register::projection::{PoseSearch, in_the_middle};

/// A start that a file gives, or files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PoseInit {
    /// A rigid transform file, from the room to the world of the CT.
    File(PathBuf),
    /// Corresponding points: a list of those of the CT, and a table of where views show them.
    Points([PathBuf; 2]),
}

impl FromStr for PoseInit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some(names) = text.strip_prefix("points:") else {
            return match text {
                "" => Err("give a transform file, or points:CT.csv,XRAY.csv".to_owned()),
                path => Ok(Self::File(path.into())),
            };
        };
        match names.split_once(',') {
            Some((ct, xray)) if !ct.is_empty() && !xray.is_empty() => {
                Ok(Self::Points([ct.into(), xray.into()]))
            }
            _ => Err("give the points of the CT and where views show them: points:CT.csv,XRAY.csv"
                .to_owned()),
        }
    }
}

impl Display for PoseInit {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Points([ct, xray]) => write!(f, "points:{},{}", ct.display(), xray.display()),
        }
    }
}

/// How far around where a search looks.
#[derive(Debug, Clone, Copy, PartialEq, Parameters)]
pub struct Start {
    /// Start of the search: rotation of the CT in the room about x, y and z, in that order, around `centre`, degrees
    #[parameter(default = Numbers([0.0; 3]))]
    pub init_rotation: Numbers<3>,
    /// Start of the search: translation of the CT in the room, applied after the rotation, RAS mm
    #[parameter(default = Numbers([0.0; 3]))]
    pub init_translation: Numbers<3>,
    /// How far the search looks: `local` within `range` around the start, `full` at all rotations, with the CT in the middle of what the
    /// views show
    #[parameter(unit = "HOW", says = "local, and full where the verdict would be bad")]
    pub search: Option<PoseSearch>,
    /// Centre of rotation, in the world coordinates of the CT, RAS mm
    #[parameter(says = "the centre of its grid")]
    pub centre: Option<Numbers<3>>,
}

impl Start {
    /// The centre of rotations of a CT.
    pub(super) fn centre(&self, ct: &Grid) -> Vector3<f64> {
        self.centre.map_or_else(|| ct.centre(), |p| Vector3::from(p.0))
    }
}

/// Where the search starts, and the centre of rotations.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Start"))]
#[serde(default)]
pub struct StartOptions {
    /// Where the search starts: a rigid transform file from the room to the world of the CT, as `voxalign pose` writes it; or
    /// points:CT.csv,XRAY.csv, points of the CT (label,x,y,z) and where views show them (label,view,column,row): 4 in one view, or 3 in
    /// two
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE|points:CT.csv,XRAY.csv"))]
    #[serde(with = "as_text")]
    pub init: Option<PoseInit>,
    /// Start and range of the search.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub given: Given<Start>,
    /// Points of the CT (label,x,y,z, or any other list of points) for which the record says how far they are expected to be from where
    /// the pose has them
    #[cfg_attr(feature = "clap", arg(long, value_name = "POINTS"))]
    pub targets: Option<PathBuf>,
}

impl StartOptions {
    /// Refuses what says different things.
    pub(super) fn check(&self) -> Result<()> {
        if self.init.is_some() && self.has_numbers() {
            return Err(Error::input(text!(
                "`init`, and `init_rotation` and `init_translation`, say different things about where the search \
                 starts; give one of them"
            )));
        }
        Ok(())
    }

    /// The files that are read.
    pub(super) fn files(&self) -> Vec<Input<'_>> {
        let mut all = match &self.init {
            None => Vec::new(),
            Some(PoseInit::File(path)) => vec![Input::new(Role::Init, path)],
            Some(PoseInit::Points([ct, xray])) => vec![
                Input::new(Role::InitMovingLandmarks, ct),
                Input::new(Role::InitFixedLandmarks, xray),
            ],
        };
        all.extend(self.targets.as_deref().map(|path| Input::new(Role::Landmarks, path)));
        all
    }

    /// Whether numbers say where it starts.
    pub(super) fn has_numbers(&self) -> bool {
        self.given.has("init_rotation") || self.given.has("init_translation")
    }

    /// What is given over what is usual.
    pub(super) fn start(&self) -> Result<Start> {
        Ok(self.given.over(Start::USUAL)?)
    }

    /// Where the search for the pose of a CT starts, by views with their names and what of them counts.
    pub(super) fn read(
        &self,
        ct: &Grid,
        views: &[(&str, XrayGeometry, Option<[usize; 4]>)],
        listener: &dyn Listener,
    ) -> Result<Affine> {
        let given = self.start()?;
        let start = match &self.init {
            Some(PoseInit::File(path)) => read_pose(path, ct, listener)?,
            Some(PoseInit::Points(files)) => {
                let views: Vec<_> = views.iter().map(|(name, view, _)| (*name, *view)).collect();
                seen::start(files, &views, listener)?
            }
            None if self.has_numbers() => {
                in_room(given.centre(ct), given.init_rotation.0, given.init_translation.0)?
            }
            None => Affine::identity(),
        };
        if given.search != Some(PoseSearch::Full) {
            return Ok(start);
        }
        let counted = views.iter().map(|(_, view, region)| (view, *region));
        Ok(in_the_middle(&start, ct, counted)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Silent;
    use std::fs;
    use voxalign_image::CArm;

    fn arm(primary: f64) -> XrayGeometry {
        CArm {
            source_to_isocentre: 700.0,
            source_to_detector: 1100.0,
            isocentre: Vector3::new(10.0, -20.0, 30.0),
            primary,
            secondary: 0.1,
            pixel_size: [0.5; 2],
            dims: [801; 2],
            centre: None,
        }
        .geometry()
        .unwrap()
    }

    #[test]
    fn a_start_by_points() {
        let ct = Grid::axis_aligned([40, 50, 60], [1.0; 3]).unwrap();
        let truth = in_room(ct.centre(), [100.0, 20.0, 30.0], [5.0, -40.0, 10.0]).unwrap();
        let back = truth.inverse().unwrap();
        let views = [("ap", arm(0.0), None), ("side", arm(1.5), None)];
        let points = [("a", [1., 2., 3.]), ("b", [30., 5., 50.]), ("c", [8., 45., 20.])];
        let (mut list, mut table) =
            ("label,x,y,z\n".to_owned(), "label,view,column,row\n".to_owned());
        for (name, p) in points {
            list += &format!("{name},{},{},{}\n", p[0], p[1], p[2]);
            for (number, (view, geometry, _)) in views.iter().enumerate() {
                let [u, v] = geometry.project(back.apply(Vector3::from(p))).unwrap();
                let view = if number == 0 { (*view).to_owned() } else { "2".to_owned() };
                table += &format!("{name},{view},{u},{v}\n");
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let of = |list: &str, table: &str| {
            let [a, b] = ["ct.csv", "xray.csv"].map(|name| folder.path().join(name));
            fs::write(&a, list).unwrap();
            fs::write(&b, table).unwrap();
            let text = format!("points:{},{}", a.display(), b.display());
            let init = Some(text.parse::<PoseInit>().unwrap());
            assert_eq!(init.as_ref().unwrap().to_string(), text);
            StartOptions { init, ..StartOptions::default() }.read(&ct, &views, &Silent)
        };
        let found = of(&list, &table).unwrap();
        assert!(found.largest_distance(&truth, &[back.apply(ct.centre())]) < 1e-3);
        let more = |line: &str| format!("{table}{line}\n");
        for (list, table, said) in [
            (list.clone(), more("d,ap,3,4"), "'d' is not in"),
            (list.clone(), more("a,ap,3,4"), "occurs twice"),
            (list.clone(), more("a,front,3,4"), "no view 'front'; the views are ap, side"),
            (list.clone(), table.replace("view", "of"), "no column 'view'"),
            (list.clone() + "e,1,1,1\n", table.clone(), "'e' of"),
            (list.clone() + "a,1,1,1\n", table.clone(), "twice"),
            (list.clone() + ",1,1,1\n", table.clone(), "no name"),
            (list.replace("label", "size"), table.clone(), "names"),
            (list.clone(), table.replace("label,view", "what,view"), "column of names"),
        ] {
            let error = of(&list, &table).unwrap_err().to_string();
            assert!(error.contains(said) && error.contains(".csv"), "{said}: {error}");
        }
        for bad in ["", "points:a", "points:,b"] {
            assert!(bad.parse::<PoseInit>().is_err(), "{bad}");
        }
    }
}
