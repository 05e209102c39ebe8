//! What a verdict on a pose asks for, how far a search goes, and what it tells on its way, on a head of ellipsoids.

use super::{arm, device, error, targets};
use std::sync::Mutex;
use voxalign_compute::ops::raycast::{Along, Traversal};
use voxalign_compute::select::AnyDevice;
use voxalign_image::{Affine, Grid, Vector3, Volume, XrayGeometry};
use voxalign_register::numbers::Levels;
use voxalign_register::projection::objective::View;
use voxalign_register::projection::phantom::Phantom;
use voxalign_register::projection::register::{PoseRange, PoseSearch};
use voxalign_register::projection::{PoseOptions, PoseResult, PreparedCt, Simulator, pose_of};
use voxalign_register::{Event, Progress, Silent};

/// A head with voxels of such sizes, mm.
pub(super) fn head(spacing: [f64; 3]) -> Volume<f32> {
    let dims = [0, 1, 2].map(|a| ([190.0, 240.0, 245.0][a] / spacing[a]) as usize);
    let scale = Affine::new(
        voxalign_image::Matrix3::from_diagonal(&Vector3::from(spacing)),
        -0.5 * Vector3::from_fn(|a, _| spacing[a] * (dims[a] as f64 - 1.0)),
    );
    Phantom::head().volume(&Grid::new(dims, scale).unwrap()).unwrap()
}

/// Images of a CT at a pose, from the front and from the side, by fine samples.
pub(super) fn images(
    ct: &Volume<f32>,
    device: &AnyDevice,
    at: &Affine,
) -> Vec<(XrayGeometry, Vec<f32>)> {
    let simulator = Simulator::new(device, ct).unwrap();
    let how = Traversal::trilinear(0.5);
    let of = |angle: f64| {
        let view = arm(ct.grid().centre(), angle);
        (view, simulator.image(&view, at, how, Along::Integral).unwrap())
    };
    vec![of(0.0), of(90.0)]
}

pub(super) fn truth(ct: &Volume<f32>) -> Affine {
    let degrees = Vector3::new(3.0, -2.0, 4.0).map(f64::to_radians);
    pose_of(ct.grid().centre(), degrees, Vector3::new(5.0, -3.0, 6.0)).unwrap()
}

pub(super) fn found(
    ct: &Volume<f32>,
    device: &AnyDevice,
    images: &[(XrayGeometry, Vec<f32>)],
    start: &Affine,
    options: &PoseOptions,
    progress: &dyn Progress,
) -> PoseResult {
    let views: Vec<_> = images
        .iter()
        .map(|(geometry, image)| View { geometry, image, region: None, without: None })
        .collect();
    PreparedCt::new(device, ct).unwrap().register(&views, start, options, progress).unwrap()
}

#[test]
fn what_was_not_measured_is_not_met() {
    let (device, ct) = (device(), head([5.0; 3]));
    let truth = truth(&ct);
    let images = images(&ct, &device, &truth);
    let usual = PoseOptions { starts: 1, landscape: false, ..PoseOptions::default() };
    let verdict = |options| found(&ct, &device, &images, &truth, &options, &Silent).verdict;
    let failed = |options| -> Vec<String> {
        let verdict = verdict(options);
        verdict.checks.iter().filter(|c| !c.passed).map(|c| c.words()).collect()
    };
    assert_eq!(failed(usual.clone()), [""; 0]);
    // Others are looked for as far around as ever, however small the range of the search is.
    let none = PoseRange([0.0, 0.0]);
    let verdict = verdict(PoseOptions { range: none, ..usual.clone() });
    assert!(verdict.good && verdict.checks.len() == 11, "{verdict:?}");
    // One coarse pixel has no other place to look at.
    let coarse = failed(PoseOptions { levels: Some(Levels(vec![40.0])), ..usual.clone() });
    let lead = "margin over the best competing pose not measured (at least 0.05 needed)";
    assert!(coarse.iter().any(|c| c == lead), "{coarse:?}");
    let alone = failed(PoseOptions { restarts: 0, ..usual });
    assert!(alone.len() == 1, "{alone:?}");
    assert!(alone[0].contains("restarts") && alone[0].contains("not measured"));
}

#[test]
fn a_pose_is_refined_until_it_stands_still() {
    let (device, ct) = (device(), head([2.5; 3]));
    let truth = truth(&ct);
    let images = images(&ct, &device, &truth);
    let usual = PoseOptions { starts: 1, landscape: false, ..PoseOptions::default() };
    let off = |levels| {
        let options = PoseOptions { levels, ..usual.clone() };
        let found = found(&ct, &device, &images, &Affine::identity(), &options, &Silent);
        let error = error(&found.transform, &truth, &targets(&ct), None);
        println!("{error:.5} mm, {} scales", found.stages.len());
        error
    };
    let (fine, chosen) = (off(Some(Levels(vec![8.0, 4.0, 2.0, 1.0, 0.5]))), off(None));
    assert!(fine < 0.002 && chosen < 0.004, "{fine} {chosen}");
}

/// Thick slices: samples along rays are as close as voxels are in a slice.
#[test]
fn thick_slices_are_sampled_as_they_are_in_a_slice() {
    let (device, ct) = (device(), head([1.2, 1.2, 8.0]));
    let truth = truth(&ct);
    let images = images(&ct, &device, &truth);
    let options = PoseOptions {
        starts: 1,
        landscape: false,
        levels: Some(Levels(vec![6.0, 3.0, 1.5])),
        ..PoseOptions::default()
    };
    let found = found(&ct, &device, &images, &Affine::identity(), &options, &Silent);
    let error = error(&found.transform, &truth, &targets(&ct), None);
    println!("{error:.5} mm, cost {:.6}", found.costs[1]);
    assert!(error < 0.002 && found.costs[1] < 1e-5, "{error} {}", found.costs[1]);
}

/// What it hears of.
#[derive(Default)]
struct Heard(Mutex<(Vec<(String, usize)>, usize)>);

impl Progress for Heard {
    fn event(&self, event: &Event<'_>) {
        let mut heard = self.0.lock().unwrap();
        match *event {
            Event::StageEnd { name, evaluations, .. } => {
                heard.0.push((name.to_owned(), evaluations));
            }
            Event::StageStart { index, count, .. } => {
                assert!(index == heard.1 && index < count, "{index} {count}");
                heard.1 += 1;
            }
            _ => {}
        }
    }
}

#[test]
fn all_work_is_told_and_adds_up() {
    let (device, ct) = (device(), head([5.0; 3]));
    let images = images(&ct, &device, &truth(&ct));
    let heard = Heard::default();
    let options = PoseOptions { starts: 8, ..PoseOptions::default() };
    let found = found(&ct, &device, &images, &Affine::identity(), &options, &heard);
    let (told, begun) = heard.0.into_inner().unwrap();
    let names: Vec<_> = told.iter().map(|(name, _)| name.as_str()).collect();
    let last = &names[names.len() - 4..];
    let parts =
        ["poses elsewhere", "other rotations and images", "uncertainty", "cost along parameters"];
    assert_eq!(last, parts);
    assert_eq!((told.len(), begun), (found.stages.len(), found.stages.len()));
    let all: usize = told.iter().map(|(_, evaluations)| evaluations).sum();
    assert_eq!(all * images.len(), found.renders);
    assert_eq!(found.stages.iter().map(|s| s.evaluations).sum::<usize>(), all);
}

#[test]
fn all_rotations_are_searched_where_that_is_asked_for() {
    let (device, ct) = (device(), head([5.0; 3]));
    let truth = truth(&ct);
    let images = images(&ct, &device, &truth);
    let turn = Vector3::new(0.6, -0.5, 2.4);
    let start = pose_of(ct.grid().centre(), turn, Vector3::zeros()).unwrap();
    let off = |search| {
        let options = PoseOptions { search, landscape: false, ..PoseOptions::default() };
        let found = found(&ct, &device, &images, &start, &options, &Silent);
        (error(&found.transform, &truth, &targets(&ct), None), found.verdict.good)
    };
    let (near, full) = (off(PoseSearch::Local), off(PoseSearch::Full));
    println!("{near:?} {full:?}");
    assert!(near.0 > 10.0 && full.0 < 0.1 && full.1, "{near:?} {full:?}");
}
