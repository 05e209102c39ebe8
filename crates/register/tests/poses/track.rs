//! A CT followed over sequences.

use super::{CTS, arm, ct, device, error, photographed, starts, targets};
use voxalign_compute::ops::raycast::{Along, Traversal};
use voxalign_image::{Affine, AffineParameters, Vector3, XrayGeometry};
use voxalign_register::Silent;
use voxalign_register::projection::register::{Loss, TrackStatus, TrackView};
use voxalign_register::projection::{PoseOptions, PreparedCt, Simulator, TrackOptions, Tracker};
use voxalign_register::random::Random;

/// A motion: as breathing and a patient that turns, up to 2 mm and a degree between frames.
fn pose(centre: Vector3<f64>, frame: usize) -> Affine {
    let t = frame as f64;
    let wave = |size: f64, period: f64| size * (t * std::f64::consts::TAU / period).sin();
    AffineParameters {
        rotation: Vector3::new(wave(3.0, 31.0), wave(4.0, 40.0), wave(6.0, 50.0))
            .map(f64::to_radians),
        translation: Vector3::new(wave(5.0, 33.0), wave(8.0, 41.0), wave(10.0, 36.0)),
        ..AffineParameters::identity(centre)
    }
    .to_affine()
}

#[test]
fn a_ct_is_followed_and_a_lost_track_is_said() {
    let frames = starts(12);
    for name in CTS {
        let Some(ct) = ct(name) else { return };
        let (centre, targets) = (ct.grid().centre(), targets(&ct));
        let device = device();
        let simulator = Simulator::new(&device, &ct).unwrap();
        let geometries = [0.0, 90.0].map(|a| arm(centre, a));
        for views in [2, 1] {
            let geometries = &geometries[..views];
            let mut random = Random::new(3);
            let mut image = |g: &XrayGeometry, at: &Affine| {
                let image = simulator.image(g, at, Traversal::trilinear(0.6), Along::Integral);
                photographed(&image.unwrap(), 1e5, &mut random)
            };
            let mut prepared = PreparedCt::new(&device, &ct).unwrap();
            let each = |g: &XrayGeometry| TrackView { geometry: *g, region: None };
            let of = geometries.iter().map(each).collect();
            let pose_options =
                PoseOptions { restarts: 2, landscape: false, ..PoseOptions::default() };
            let options = TrackOptions { pose: pose_options, ..TrackOptions::default() };
            let start = Affine::identity();
            let mut tracker = Tracker::new(&mut prepared, of, &start, options).unwrap();
            // Something else in front of the detector, frames without contrast, and the CT gone elsewhere.
            let (upset, blank, away) = (frames / 3, frames / 3 + 1, 2 * frames / 3);
            let (mut worst, mut seconds, mut followed) = (0.0f64, 0.0, 0);
            let mut images_each = 0;
            for frame in 0..frames {
                let truth = pose(centre, frame);
                let mut shown: Vec<_> = geometries.iter().map(|g| image(g, &truth)).collect();
                if frame == upset {
                    shown.iter_mut().for_each(|i| i.reverse());
                } else if frame == blank {
                    shown[0].fill(0.5);
                } else if frame == away {
                    let far = Affine::translation(Vector3::new(0.0, 45.0, 60.0)).then(&truth);
                    shown = geometries.iter().map(|g| image(g, &far)).collect();
                }
                let shown: Vec<_> = shown.iter().map(Vec::as_slice).collect();
                let found = tracker.next(&shown, &Silent).unwrap();
                assert_eq!(found.frame, frame);
                let off =
                    error(&found.transform, &truth, &targets, (views == 1).then(|| &geometries[0]));
                let detail =
                    format!("{name} {views} views, frame {frame}: {:?}, {off:.2} mm", found.status);
                if std::env::var_os("VOXALIGN_TEST_ALL").is_some() {
                    println!(
                        "  {detail} {:.2?} {} images, {:.1} ms",
                        found.correlations,
                        found.renders,
                        1e3 * found.seconds
                    );
                }
                if frame == upset || frame == away {
                    assert!(!found.status.is_good(), "{detail}");
                } else if frame == blank {
                    assert_eq!(found.status, TrackStatus::Lost(Loss::Blank(0)), "{detail}");
                } else {
                    let afresh = frame == 0 || frame == blank + 1 || frame == away + 1;
                    let expected = if afresh { TrackStatus::Found } else { TrackStatus::Followed };
                    assert_eq!(found.status, expected, "{detail}");
                    assert!(off < if views == 1 { 2.0 } else { 1.0 }, "{detail}");
                    worst = worst.max(off);
                    if !afresh {
                        seconds += found.seconds;
                        images_each += found.renders;
                        followed += 1;
                    }
                }
            }
            let n = f64::from(followed);
            println!(
                "{name}, {views} views: {frames} frames, largest error {worst:.2} mm, {:.1} frames/s, {:.0} images each",
                n / seconds,
                images_each as f64 / n
            );
        }
    }
}
