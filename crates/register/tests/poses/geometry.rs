//! Geometries of views that are refined together with a pose, on a head of ellipsoids.

use super::evidence::changed;
use super::verdicts::{found, head, images, truth};
use super::{arm, device, error, photographed, targets};
use voxalign_compute::ops::raycast::{Along, Traversal};
use voxalign_image::{Vector3, XrayGeometry};
use voxalign_register::Silent;
use voxalign_register::projection::objective::View;
use voxalign_register::projection::register::{PoseResult, Refinement};
use voxalign_register::projection::{PoseOptions, PreparedCt, Simulator};
use voxalign_register::random::Random;

/// The detector so much farther from the source, as a part of the distance, and shifted along columns and rows, mm.
fn wrong(view: &XrayGeometry, farther: f64, shift: [f64; 2]) -> XrayGeometry {
    changed(view, |[s, o, c, r]: [Vector3<f64>; 4]| {
        let away = view.normal() * (view.source_to_detector() * farther);
        [s, o + away + c.normalize() * shift[0] + r.normalize() * shift[1], c, r]
    })
}

/// The result by views that are wrong by so much, with noise, and its error at points of the CT.
fn by(all: &[(f64, [f64; 2])], refine: Option<Refinement>) -> (PoseResult, f64) {
    let (device, ct) = (device(), head([5.0; 3]));
    let truth = truth(&ct);
    let mut views = images(&ct, &device, &truth);
    if all.len() > 2 {
        let simulator = Simulator::new(&device, &ct).unwrap();
        let view = arm(ct.grid().centre(), 45.0);
        let how = Traversal::trilinear(0.5);
        views.push((view, simulator.image(&view, &truth, how, Along::Integral).unwrap()));
    }
    let mut random = Random::new(5);
    for ((view, image), (farther, shift)) in views.iter_mut().zip(all) {
        *view = wrong(view, *farther, *shift);
        *image = photographed(image, 1e5, &mut random);
    }
    let options = PoseOptions { starts: 8, landscape: false, refine, ..PoseOptions::default() };
    let result = found(&ct, &device, &views, &truth, &options, &Silent);
    let error = error(&result.transform, &truth, &targets(&ct), None);
    println!("{all:?} {:?}: {error:.3} mm, {}", options.refine, result.verdict.good);
    for (view, (farther, shift)) in result.geometry.iter().zip(all) {
        let right = [1500.0, -shift[0], -shift[1]];
        let of = [0, 1].map(|i| view.shift.map(|s| s[i]));
        for (found, right) in [view.source_to_detector, of[0], of[1]].into_iter().zip(right) {
            let Some(found) = found else { continue };
            println!(
                "   {found:.3?}, {:.2} of what is stated",
                (found.found - right).abs() / found.within
            );
        }
        assert!(
            view.source_to_detector.is_none_or(|d| (d.given / 1500.0 - 1.0 - farther).abs() < 1e-9)
        );
    }
    for misfit in &result.evidence.misfits {
        println!("   {misfit:.2?}");
    }
    (result, error)
}

const NONE: [f64; 2] = [0.0; 2];

/// Whether the result is right and good, and its geometry right.
fn right((result, error): (PoseResult, f64), shifts: &[[f64; 2]]) {
    assert!(result.verdict.good && error < 0.5, "{error} mm: {}", result.verdict.summary());
    assert_eq!(result.geometry.len(), shifts.len());
    for (view, shift) in result.geometry.iter().zip(shifts) {
        if let Some(found) = view.source_to_detector {
            assert!((found.found - 1500.0).abs() < found.within.clamp(0.5, 5.0), "{found:?}");
        }
        for (found, shift) in view.shift.iter().flatten().zip(shift) {
            assert!((found.found + shift).abs() < found.within.clamp(0.5, 5.0), "{found:?}");
        }
        let wanted =
            view.source_to_detector.map_or(view.geometry.source_to_detector(), |d| d.found);
        assert!((view.geometry.source_to_detector() - wanted).abs() < 1e-9);
    }
}

#[test]
fn distances_are_refined() {
    for (first, second) in [(0.02, 0.02), (0.0, 0.1)] {
        right(by(&[(first, NONE), (second, NONE)], Some(Refinement::Distance)), &[NONE; 2]);
    }
}

#[test]
fn principal_points_are_refined() {
    for shifts in [[NONE, [0.0, 8.0]], [[20.0, 0.0], NONE], [[8.0, -8.0], [-5.0, 20.0]]] {
        let wrong = shifts.map(|shift| (0.0, shift));
        right(by(&wrong, Some(Refinement::PrincipalPoint)), &shifts);
    }
}

#[test]
fn three_views_are_refined() {
    let wrong = [(0.02, NONE), (0.0, NONE), (-0.03, NONE)];
    right(by(&wrong, Some(Refinement::Distance)), &[NONE; 3]);
}

#[test]
fn geometries_that_would_move_the_pose_are_told() {
    let (result, error) = by(&[(0.0, [20.0, 0.0]), (0.0, NONE)], None);
    let summary = result.verdict.summary();
    assert!(error > 5.0 && !result.verdict.good, "{error} mm: {summary}");
    let misfit = result.evidence.misfits.iter().find(|m| m.what == Refinement::PrincipalPoint);
    assert!((misfit.unwrap().by[0][1][0] + 20.0).abs() < 8.0, "{misfit:?}");
    let remarks = result.verdict.remarks.iter().map(ToString::to_string).collect::<String>();
    assert!(remarks.contains("principal points"), "{remarks}");
    let (result, error) = by(&[(0.0, NONE); 2], None);
    assert!(result.verdict.good && error < 0.5 && result.geometry.is_empty(), "{error}");
    assert_eq!(result.evidence.misfits.len(), 2);
}

#[test]
fn one_view_does_not_tell_its_geometry() {
    let (device, ct) = (device(), head([8.0; 3]));
    let truth = truth(&ct);
    let images = images(&ct, &device, &truth);
    let (geometry, image) = &images[0];
    let views = [View { geometry, image, region: None, without: None }];
    let refine = Some(Refinement::Distance);
    let options = PoseOptions { refine, ..PoseOptions::default() };
    let mut ct = PreparedCt::new(&device, &ct).unwrap();
    let error = ct.register(&views, &truth, &options, &Silent).unwrap_err().to_string();
    assert!(error.contains("distance") && error.contains("give another view"), "{error}");
}
