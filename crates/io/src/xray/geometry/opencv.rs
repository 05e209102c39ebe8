//! Cameras of OpenCV: an intrinsic matrix, a pose and the size of the image, under the names that OpenCV's samples and
//! calibration programs give them.

use super::keys::FARTHEST;
use super::storage::{Node, Numbers, nodes};
use super::table::camera_of;
use super::{Label, View};
use crate::error::{IoError, Result, shorten};
use std::f64::consts::TAU;
use std::path::Path;
use voxalign_image::{Matrix3, Rotation3, Vector3};

/// What a camera needs.
const SHAPE: &str = "a camera has an intrinsic matrix ('camera_matrix', 'cameraMatrix', 'K'), and where it is: 'R' and 'T', or 'rvec' \
                     and 'tvec', from the world to the camera, mm";
/// Intrinsic matrices. Names are compared without `_` and the case of letters.
const INTRINSIC: [&str; 5] = ["cameramatrix", "k", "intrinsicmatrix", "intrinsics", "m"];
/// Those of the cameras of a stereo pair, of which the pose is that of the second by the first.
const PAIRS: [[&str; 2]; 4] = [
    ["m1", "m2"],
    ["k1", "k2"],
    ["cameramatrix1", "cameramatrix2"],
    ["intrinsicmatrix1", "intrinsicmatrix2"],
];
const ROTATION: [&str; 5] = ["r", "rvec", "rotationvector", "rotationmatrix", "rotation"];
const TRANSLATION: [&str; 4] = ["t", "tvec", "translationvector", "translation"];
/// Rotation and translation of boards in their images, a row for each.
const BOARDS: &str = "extrinsicparameters";
const WIDTH: [&str; 2] = ["imagewidth", "width"];
const HEIGHT: [&str; 2] = ["imageheight", "height"];
const SIZE: [&str; 4] = ["imagesize", "imgsize", "cameraresolution", "resolution"];
/// How far two ways to say a rotation may differ.
const SAME: f64 = 1e-3;

struct Storage {
    nodes: Vec<Node>,
    label: Label,
}

/// The camera of a text, or the two of a stereo pair.
pub(super) fn views(path: &Path, text: &str) -> Result<Vec<View>> {
    let label = Label { file: path.into(), view: String::new() };
    let storage = Storage { nodes: nodes(path, text)?, label };
    storage.check_lens()?;
    let size = storage.size()?;
    let view = |k: &Node, pose: ([&str; 2], Matrix3<f64>, Vector3<f64>)| {
        let (names, r, t) = pose;
        let matrix = storage.matrix(k)?;
        let names = [k.name.as_str(), names[0]];
        let form = camera_of(&matrix, &r, &t, &Matrix3::identity(), names);
        let mut view = View::empty(storage.label.clone());
        view.form = Some(form.map_err(|(problem, remedy)| storage.label.error(problem, remedy))?);
        view.size = size;
        Ok::<View, IoError>(view)
    };
    for pair in PAIRS {
        match pair.map(|name| storage.find(&[name])) {
            [Ok(None), Ok(None)] => {}
            [Ok(Some(first)), Ok(Some(second))] => {
                let still = (["R"; 2], Matrix3::identity(), Vector3::zeros());
                return Ok(vec![view(first, still)?, view(second, storage.pose()?)?]);
            }
            [Err(error), _] | [_, Err(error)] => return Err(error),
            [Ok(one), Ok(other)] => {
                let name = one.or(other).map_or("", |node| &node.name);
                let problem = format!(
                    "'{}' is the matrix of one of two cameras, and that of the other is missing",
                    shorten(name)
                );
                let remedy = "give both, or call that of a single camera 'camera_matrix'";
                return Err(storage.label.error(problem, remedy));
            }
        }
    }
    let Some(k) = storage.find(&INTRINSIC)? else {
        return Err(storage.label.error("there is no intrinsic matrix", SHAPE));
    };
    Ok(vec![view(k, storage.pose()?)?])
}

/// A name as names are compared.
fn plain(name: &str) -> String {
    name.chars().filter(|c| *c != '_').flat_map(char::to_lowercase).collect()
}

impl Storage {
    /// The nodes of one of these names.
    fn all(&self, names: &[&str]) -> Vec<&Node> {
        let known = |node: &&Node| names.contains(&plain(&node.name).as_str());
        self.nodes.iter().filter(known).collect()
    }

    /// The only node of one of these names.
    fn find(&self, names: &[&str]) -> Result<Option<&Node>> {
        match self.all(names)[..] {
            [] => Ok(None),
            [one] => Ok(Some(one)),
            [a, b, ..] => {
                let [a, b] = [a, b].map(|node| shorten(&node.name));
                let problem = format!("there are both '{a}' and '{b}', which mean the same");
                Err(self.label.error(problem, "take one of them out"))
            }
        }
    }

    fn wrong(&self, node: &Node, problem: &str, remedy: &str) -> IoError {
        self.label.error(format!("'{}' {problem}", shorten(&node.name)), remedy)
    }

    fn numbers(&self, node: &Node) -> Result<Numbers> {
        node.numbers().map_err(|problem| self.wrong(node, &problem, super::storage::SHAPE))
    }

    /// An intrinsic matrix.
    fn matrix(&self, node: &Node) -> Result<Matrix3<f64>> {
        let Numbers { all, shape } = self.numbers(node)?;
        if all.len() == 9 && shape.is_none_or(|shape| shape == [3, 3]) {
            return Ok(Matrix3::from_row_slice(&all));
        }
        let remedy = "give 3 x 3: fx, 0, cx; 0, fy, cy; 0, 0, 1, in pixels";
        Err(self.wrong(node, &format!("is {}", shaped(&all, shape)), remedy))
    }

    /// A rotation: a matrix, or an axis as long as the angle.
    fn rotation(&self, node: &Node) -> Result<Matrix3<f64>> {
        let Numbers { all, shape } = self.numbers(node)?;
        match all[..] {
            [x, y, z] => self.turned(node, Vector3::new(x, y, z)),
            _ if all.len() == 9 && shape.is_none_or(|shape| shape == [3, 3]) => {
                Ok(Matrix3::from_row_slice(&all))
            }
            _ => {
                let remedy = "give a rotation as 3 x 3 numbers, or as a vector of 3, radians";
                Err(self.wrong(node, &format!("is {}", shaped(&all, shape)), remedy))
            }
        }
    }

    fn turned(&self, node: &Node, axis: Vector3<f64>) -> Result<Matrix3<f64>> {
        let angle = axis.norm();
        if angle > TAU + SAME {
            let problem = format!("turns by {angle}, which is more than a turn");
            return Err(self.wrong(node, &problem, "give the angle in radians"));
        }
        Ok(*Rotation3::from_scaled_axis(axis).matrix())
    }

    fn translation(&self, node: &Node) -> Result<Vector3<f64>> {
        let Numbers { all, shape } = self.numbers(node)?;
        let [x, y, z] = all[..] else {
            let problem = format!("is {}", shaped(&all, shape));
            return Err(self.wrong(node, &problem, "give x, y and z in mm"));
        };
        self.within(node, Vector3::new(x, y, z))
    }

    fn within(&self, node: &Node, place: Vector3<f64>) -> Result<Vector3<f64>> {
        if place.abs().max() > FARTHEST {
            let problem = format!("is {:?}, more than the 100 m of any room", place.as_slice());
            return Err(self.wrong(node, &problem, "give mm"));
        }
        Ok(place)
    }

    /// From the world to the camera, with the names of what says it.
    fn pose(&self) -> Result<([&str; 2], Matrix3<f64>, Vector3<f64>)> {
        let rotations = self.all(&ROTATION);
        let translation = self.find(&TRANSLATION)?;
        match (&rotations[..], translation) {
            ([first, more @ ..], Some(t)) => {
                let r = self.rotation(first)?;
                for other in more {
                    let off = (self.rotation(other)? - r).abs().max();
                    if off > SAME {
                        let problem = format!(
                            "and '{}' are different rotations, by {off:.4}",
                            shorten(&first.name)
                        );
                        return Err(self.wrong(other, &problem, "take out the one that is wrong"));
                    }
                }
                Ok(([&first.name, &t.name], r, self.translation(t)?))
            }
            ([], None) => self.board(),
            ([one, ..], None) => {
                Err(self.wrong(one, "is there, and no translation ('T' or 'tvec')", SHAPE))
            }
            ([], Some(one)) => {
                Err(self.wrong(one, "is there, and no rotation ('R' or 'rvec')", SHAPE))
            }
        }
    }

    /// Where the camera is by the only board that was seen.
    fn board(&self) -> Result<([&str; 2], Matrix3<f64>, Vector3<f64>)> {
        let Some(node) = self.find(&[BOARDS])? else {
            return Err(self.label.error("the position of the camera is missing", SHAPE));
        };
        let remedy =
            "give 'R' and 'T', or 'rvec' and 'tvec', of the one that all cameras saw as the world";
        match self.numbers(node) {
            Ok(Numbers { all, .. }) if all.len() == 6 => {
                let r = self.turned(node, Vector3::new(all[0], all[1], all[2]))?;
                let t = self.within(node, Vector3::new(all[3], all[4], all[5]))?;
                Ok(([&node.name; 2], r, t))
            }
            _ => Err(self.wrong(node, "has not the pose of one board, but those of many", remedy)),
        }
    }

    /// Columns and rows, where they are said.
    fn size(&self) -> Result<Option<[usize; 2]>> {
        let remedy = "give whole numbers above 0: 'image_width' and 'image_height'";
        let count = |node: &Node, value: f64| {
            let whole = value >= 1.0 && value.fract() == 0.0 && value < 1e9;
            let problem = format!("has {value}, which is not a number of pixels");
            if whole { Ok(value as usize) } else { Err(self.wrong(node, &problem, remedy)) }
        };
        let one = |node: &Node| match self.numbers(node)?.all[..] {
            [value] => count(node, value),
            _ => Err(self.wrong(node, "is not one number", remedy)),
        };
        let size = match (self.find(&WIDTH)?, self.find(&HEIGHT)?) {
            (Some(width), Some(height)) => Some([one(width)?, one(height)?]),
            (Some(one), None) | (None, Some(one)) => {
                return Err(self.wrong(one, "is there alone", remedy));
            }
            (None, None) => None,
        };
        let Some(node) = self.find(&SIZE)? else { return Ok(size) };
        let both = match self.numbers(node)?.all[..] {
            [width, height] => [count(node, width)?, count(node, height)?],
            _ => return Err(self.wrong(node, "is not two numbers", remedy)),
        };
        match size {
            Some([width, height]) if size != Some(both) => {
                let problem = format!(
                    "is {} x {}, and width and height are {width} x {height}",
                    both[0], both[1]
                );
                Err(self.wrong(node, &problem, "take out what is wrong"))
            }
            _ => Ok(Some(both)),
        }
    }

    /// Refuses lenses that bend rays.
    fn check_lens(&self) -> Result<()> {
        let remedy = "rays of X-rays are straight here: undistort the images with this calibration (cv::undistort), and \
                      give it with coefficients of 0";
        for node in &self.nodes {
            let name = plain(&node.name);
            let deviation = name.ends_with("stddev") || name.ends_with("deviations");
            let bends = name.starts_with("distort") || name.starts_with("distcoef");
            let short =
                ["d", "d1", "d2", "dist", "kc", "xi", "fisheyemodel"].contains(&name.as_str());
            // Models are words.
            if deviation || name.ends_with("model") && bends || !(bends || short) {
                continue;
            }
            if let Some(value) = self.numbers(node)?.all.into_iter().find(|v| *v != 0.0) {
                return Err(self.wrong(node, &format!("has {value}: the lens distorts"), remedy));
            }
        }
        Ok(())
    }
}

/// How many numbers there are.
fn shaped(all: &[f64], shape: Option<[usize; 2]>) -> String {
    match shape {
        Some([rows, columns]) => format!("{rows} x {columns}"),
        None if all.is_empty() => "no list of numbers".to_owned(),
        None => format!("{} numbers", all.len()),
    }
}
