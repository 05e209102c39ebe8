//! Candidate poses of a search, and the selection of the best of them.

use super::moments::Moments;
use super::rotations::{Rotations, angle};
use crate::search::pose::{Freedom, Model, Pose};
use crate::search::refine::Candidate;
use crate::search::stage;
use voxalign_image::Vector3;

/// Results of the fine rotation search that are refined, and the largest number of local minima among them.
pub(super) const REFINED: usize = 24;
const MINIMA: usize = 14;
/// Perturbations of the second stage.
const TURN: f64 = 9.0;
const ZOOMS: [f64; 4] = [-0.2, -0.1, 0.1, 0.2];
/// Small changes of slices: degrees, and the logarithm of a scale.
const SMALL_TURN: f64 = 2.0;
const SMALL_STRETCH: f64 = 0.04;

/// Candidates for refinement, from all that were evaluated, best first: local minima (nothing
/// better within `apart` radians), and the best of the rest that are as far from those picked.
pub(super) fn pick(all: &[Candidate], apart: f64) -> Vec<Candidate> {
    // Close in angle is a large trace of one rotation's transpose times the other.
    let close = 1.0 + 2.0 * apart.cos();
    let rotations = Rotations::new(all.iter().map(|c| &c.pose.rotation));
    let mut picked: Vec<Candidate> = Vec::new();
    for (i, c) in all.iter().enumerate() {
        if picked.len() >= MINIMA {
            break;
        }
        if !rotations.any_near(i, &c.pose.rotation, close) {
            picked.push(*c);
        }
    }
    for c in all {
        if picked.len() >= REFINED {
            break;
        }
        if !picked.iter().any(|p| p.pose.rotation.dot(&c.pose.rotation) > close) {
            picked.push(*c);
        }
    }
    picked
}

/// The best candidates that are not the same place, best first.
pub(super) fn distinct(
    candidates: Vec<Candidate>,
    model: &Model,
    spacing: f64,
    most: usize,
) -> Vec<Candidate> {
    stage::distinct(candidates, spacing, most, |a, b| apart(a, b, model))
}

/// The distance between two poses, mm at the model's radius.
fn apart(a: &Pose, b: &Pose, model: &Model) -> f64 {
    let turn = angle(&a.rotation, &b.rotation) * model.radius;
    let zoom = (a.log_scale - b.log_scale).norm() * model.radius;
    ((a.translation - b.translation).norm_squared() + turn * turn + zoom * zoom).sqrt()
}

/// A candidate and its neighbours: rotated by 9 degrees about each axis, scaled by 0.1 and 0.2.
pub(super) fn perturbed(pose: &Pose, flat: bool, scaling: bool) -> Vec<Pose> {
    let mut poses = vec![*pose];
    for axis in if flat { 2..3 } else { 0..3 } {
        for sign in [-1.0, 1.0] {
            let mut turn = Vector3::zeros();
            turn[axis] = sign * TURN.to_radians();
            let rotation = nalgebra::Rotation3::new(turn).matrix() * pose.rotation;
            poses.push(Pose { rotation, ..*pose });
        }
    }
    if scaling {
        for zoom in ZOOMS {
            let mut p = *pose;
            for a in 0..if flat { 2 } else { 3 } {
                p.log_scale[a] += (1.0f64 + zoom).ln();
            }
            poses.push(p);
        }
    }
    poses
}

/// A pose of a slice and what differs from it little: rotated by 2 degrees, each axis scaled by 4 %, sheared by as much, as far as it has that
/// freedom.
pub(super) fn changed(pose: &Pose, freedom: Freedom) -> Vec<Pose> {
    // The axes that change their length together.
    let stretched: &[&[usize]] = match freedom {
        Freedom::Scales | Freedom::Affine => &[&[0], &[1]],
        Freedom::Similarity => &[&[0, 1]],
        _ => &[],
    };
    let mut poses = vec![*pose];
    for sign in [-1.0, 1.0] {
        let turn = Vector3::z() * (sign * SMALL_TURN.to_radians());
        let rotation = nalgebra::Rotation3::new(turn).matrix() * pose.rotation;
        poses.push(Pose { rotation, ..*pose });
        for axes in stretched {
            let mut scaled = *pose;
            axes.iter().for_each(|&a| scaled.log_scale[a] += sign * SMALL_STRETCH);
            poses.push(scaled);
        }
        if freedom == Freedom::Affine {
            let mut sheared = *pose;
            sheared.shear[0] += sign * SMALL_STRETCH;
            poses.push(sheared);
        }
    }
    poses
}

/// A pose after a reflection of the fixed world about the model's centre, across an axis of its frame.
pub(super) fn reflected(pose: &Pose, axis: usize) -> Pose {
    let mut new = *pose;
    new.rotation.column_mut(axis).neg_mut();
    // A reflection commutes with scales, and turns the signs of shears with its axis.
    let with_axis = [[0, 1], [0, 2], [1, 2]];
    for (k, axes) in with_axis.into_iter().enumerate() {
        if axes.contains(&axis) {
            new.shear[k] = -new.shear[k];
        }
    }
    new
}

/// The start and the four ways in which principal axes can be laid on each other without a
/// reflection.
pub(super) fn principal_starts(start: &Pose, fixed: &Moments, moving: &Moments) -> Vec<Pose> {
    let mut poses = vec![*start];
    for signs in [[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]] {
        let mut axes = moving.axes;
        axes.column_mut(0).scale_mut(signs[0]);
        axes.column_mut(1).scale_mut(signs[1]);
        let mut rotation = axes * fixed.axes.transpose();
        if rotation.determinant() < 0.0 {
            axes.column_mut(2).neg_mut();
            rotation = axes * fixed.axes.transpose();
        }
        poses.push(Pose { rotation, ..*start });
    }
    poses
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_image::Matrix3;

    #[test]
    fn a_reflection_is_one_of_the_fixed_world() {
        let model = Model {
            centre: Vector3::new(3.0, -2.0, 1.0),
            frame: Matrix3::identity(),
            target: Matrix3::identity(),
            radius: 50.0,
            flat: false,
        };
        let pose = Pose {
            rotation: *nalgebra::Rotation3::from_euler_angles(0.3, -0.2, 0.5).matrix(),
            log_scale: Vector3::new(0.1, -0.2, 0.05),
            shear: Vector3::new(0.1, 0.2, -0.15),
            ..Pose::at(Vector3::new(1.0, 2.0, 3.0))
        };
        for axis in 0..3 {
            let (plain, mirrored) = (model.affine(&pose), model.affine(&reflected(&pose, axis)));
            let p = Vector3::new(10.0, 7.0, -4.0);
            let mut q = p;
            q[axis] = 2.0 * model.centre[axis] - p[axis];
            assert!((mirrored.apply(p) - plain.apply(q)).norm() < 1e-9, "{axis}");
        }
    }

    #[test]
    fn perturbations_as_in_the_paper() {
        let pose = Pose::at(Vector3::zeros());
        assert_eq!(perturbed(&pose, false, true).len(), 11);
        assert_eq!(perturbed(&pose, false, false).len(), 7);
        assert_eq!(perturbed(&pose, true, true).len(), 7);
    }

    #[test]
    fn small_changes_keep_to_the_freedom() {
        let pose = Pose::at(Vector3::new(1.0, 2.0, 0.0));
        for (freedom, count) in [
            (Freedom::Rigid, 3),
            (Freedom::Similarity, 5),
            (Freedom::Scales, 7),
            (Freedom::Affine, 9),
        ] {
            let all = changed(&pose, freedom);
            assert_eq!(all.len(), count, "{freedom:?}");
            for p in &all {
                assert!(p.log_scale[2] == 0.0 && p.translation == pose.translation);
                assert!(freedom == Freedom::Affine || p.shear == pose.shear);
                assert!(freedom != Freedom::Similarity || p.log_scale[0] == p.log_scale[1]);
            }
        }
    }
}
