//! Poses by images or geometries that are wrong are not believed, on a head of ellipsoids.

use super::device;
use super::verdicts::{found, head, images, truth};
use voxalign_image::{Matrix3, Rotation3, Vector3, XrayGeometry};
use voxalign_register::projection::register::{PoseResult, Suspect};
use voxalign_register::projection::{PoseOptions, pose_of};
use voxalign_register::{Remedy, Silent};

/// A view with its places changed.
pub(super) fn changed(
    view: &XrayGeometry,
    change: impl Fn([Vector3<f64>; 4]) -> [Vector3<f64>; 4],
) -> XrayGeometry {
    let [source, origin, column, row] =
        change([view.source(), view.origin(), view.column(), view.row()]);
    XrayGeometry::new(source, origin, column, row, view.dims()).unwrap()
}

/// The result by images whose geometry or values were changed, from the truth.
fn by(change: impl Fn(&mut Vec<(XrayGeometry, Vec<f32>)>)) -> PoseResult {
    let (device, ct) = (device(), head([4.0; 3]));
    let truth = truth(&ct);
    let mut all = images(&ct, &device, &truth);
    change(&mut all);
    let options = PoseOptions { starts: 32, landscape: false, ..PoseOptions::default() };
    found(&ct, &device, &all, &truth, &options, &Silent)
}

fn remedies(result: &PoseResult) -> Vec<Remedy> {
    result.verdict.checks.iter().filter_map(|c| c.remedy_code).collect()
}

#[test]
fn views_that_contradict_each_other_are_not_believed() {
    let centre = head([4.0; 3]).grid().centre();
    let right = by(|_| {});
    assert!(right.verdict.good, "{}", right.verdict.summary());
    assert!(right.evidence.alone.iter().all(|a| *a < 0.05), "{:?}", right.evidence);
    let turn = |degrees: f64| {
        let turn: Matrix3<f64> = *Rotation3::new(Vector3::z() * degrees.to_radians()).matrix();
        move |[s, o, c, r]: [Vector3<f64>; 4]| {
            [turn * (s - centre) + centre, turn * (o - centre) + centre, turn * c, turn * r]
        }
    };
    let distance = |[s, o, c, r]: [Vector3<f64>; 4]| {
        let n = r.cross(&c).normalize();
        let far = (o - s).dot(&n) * 0.02;
        [s, o + n * far, c, r]
    };
    let up = |[s, o, c, r]: [Vector3<f64>; 4]| [s, o + r.normalize() * 8.0, c, r];
    let wrong = [
        by(|all| all[1].0 = changed(&all[1].0, turn(4.0))),
        by(|all| all.iter_mut().for_each(|v| v.0 = changed(&v.0, distance))),
        by(|all| all[1].0 = changed(&all[1].0, up)),
    ];
    for result in &wrong {
        assert!(!result.verdict.good, "{:?}", result.evidence);
        assert!(remedies(result).contains(&Remedy::Geometry), "{}", result.verdict.summary());
    }
}

#[test]
fn images_of_other_views_and_mirrored_ones_are_told() {
    let mirrored = |(geometry, image): &mut (XrayGeometry, Vec<f32>)| {
        image.chunks_mut(geometry.dims()[0]).for_each(<[f32]>::reverse);
    };
    let told = |result: &PoseResult, suspect: Suspect| {
        let summary = result.verdict.summary();
        assert!(!result.verdict.good && summary.contains(&suspect.to_string()), "{summary}");
        assert!(remedies(result).contains(&Remedy::OtherImages), "{summary}");
    };
    told(&by(|all| mirrored(&mut all[0])), Suspect::Mirrored(0));
    let exchanged = by(|all| {
        let first = std::mem::take(&mut all[0].1);
        all[0].1 = std::mem::replace(&mut all[1].1, first);
    });
    told(&exchanged, Suspect::Exchanged(0, 1));
}

#[test]
fn a_local_search_that_ends_far_from_the_truth_is_not_believed() {
    let (device, ct) = (device(), head([5.0; 3]));
    let all = images(&ct, &device, &truth(&ct));
    for turn in [[145.0, 0.0, 0.0], [0.0, 0.0, 145.0], [0.0, 180.0, 0.0]] {
        let turn = Vector3::from(turn).map(f64::to_radians);
        let start = pose_of(ct.grid().centre(), turn, Vector3::zeros()).unwrap();
        let options = PoseOptions { landscape: false, ..PoseOptions::default() };
        let found = found(&ct, &device, &all, &start, &options, &Silent);
        let off = super::error(&found.transform, &truth(&ct), &super::targets(&ct), None);
        assert!(off < 1.0 || !found.verdict.good, "{off} mm: {:?}", found.verdict);
        assert!(off < 1.0 || remedies(&found).contains(&Remedy::OtherRotation), "{off}");
    }
}
