//! Images with metal and text, and with values that are no attenuations, on a head of ellipsoids.

use super::common::thorough;
use super::verdicts::{found, head, images, truth};
use super::{device, error, photographed, targets};
use voxalign_image::{Affine, Vector3, Volume, XrayGeometry};
use voxalign_register::Choice;
use voxalign_register::projection::objective::View;
use voxalign_register::projection::register::{
    Metal, PoseResult, Response, TrackOptions, TrackView, Tracker,
};
use voxalign_register::projection::{PoseOptions, PreparedCt, XraySimilarity};
use voxalign_register::random::Random;
use voxalign_register::{RegisterError, Silent};

/// Two rods and a wire in a square image, which one has to be seen; how much they absorb.
fn rods(side: usize, angle: f64) -> Vec<f32> {
    let n = side as f64;
    let one = |i: usize| {
        let (x, y) = ((i % side) as f64 / n - 0.5, (i / side) as f64 / n - 0.5);
        let (u, v) = (x * angle.cos() + y * angle.sin(), y * angle.cos() - x * angle.sin());
        let rod = |at: f64| u.abs() < 0.16 && (v - at).abs() < 0.013;
        let wire = u.abs() < 0.22 && (v - 0.06 * (20.0 * u).sin()).abs() < 0.008;
        4.0 * f32::from(rod(0.1) || rod(-0.12)) + 3.0 * f32::from(wire)
    };
    (0..side * side).map(one).collect()
}

/// The head, its images with noise, and the pose at which they were taken.
struct Case {
    ct: Volume<f32>,
    truth: Affine,
    images: Vec<(XrayGeometry, Vec<f32>)>,
}

impl Case {
    fn new() -> Self {
        let (device, ct, mut random) = (device(), head([4.0; 3]), Random::new(7));
        let truth = truth(&ct);
        let taken = images(&ct, &device, &truth);
        let noisy = |(view, image): (XrayGeometry, Vec<f32>)| {
            (view, photographed(&image, 1e5, &mut random))
        };
        Self { truth, images: taken.into_iter().map(noisy).collect(), ct }
    }

    /// With metal in both images.
    fn with_metal(mut self) -> Self {
        for ((view, image), angle) in self.images.iter_mut().zip([0.5, 2.2]) {
            let rods = rods(view.dims()[0], angle);
            image.iter_mut().zip(rods).for_each(|(v, metal)| *v += metal);
        }
        self
    }

    fn found(&self, options: PoseOptions) -> (PoseResult, f64) {
        let options = PoseOptions { starts: 32, landscape: false, ..options };
        let found =
            found(&self.ct, &device(), &self.images, &Affine::identity(), &options, &Silent);
        let off = error(&found.transform, &self.truth, &targets(&self.ct), None);
        println!("{off:.3} mm, {:?}, {}", found.left_out, found.verdict.summary());
        (found, off)
    }
}

#[test]
fn metal_is_found_and_left_out() {
    let case = Case::new().with_metal();
    let some = ["gradient-ncc", "mi", "ssd"];
    let all = XraySimilarity::ALL.iter();
    for &similarity in all.filter(|s| thorough() || some.contains(&s.name())) {
        let (found, off) = case.found(PoseOptions { similarity, ..PoseOptions::default() });
        assert!(
            off < 0.5 && found.verdict.good,
            "{similarity:?}: {off} mm, {}",
            found.verdict.summary()
        );
        for (without, ((view, _), angle)) in
            found.without.iter().zip(case.images.iter().zip([0.5, 2.2]))
        {
            let metal = rods(view.dims()[0], angle);
            let without = without.as_ref().unwrap();
            let count = |of: &dyn Fn(usize) -> bool| (0..metal.len()).filter(|&i| of(i)).count();
            let (all, left) = (count(&|i| metal[i] > 0.0), count(&|i| without[i]));
            let found = count(&|i| metal[i] > 0.0 && without[i]);
            assert!(found * 10 > all * 9 && left < 4 * all, "{found} of {all}, {left} left out");
        }
        let said = found.verdict.remarks.iter().filter(|r| r.contains("such as metal")).count();
        assert_eq!(said, 2, "{:?}", found.verdict.remarks);
    }
    let (kept, off) = case.found(PoseOptions { metal: Metal::Keep, ..PoseOptions::default() });
    println!("kept: {off} mm, {}", kept.verdict.summary());
    assert!(kept.without.iter().all(Option::is_none) && kept.left_out == [0.0; 2]);
}

#[test]
fn images_of_the_ct_alone_lose_nothing() {
    let case = Case::new();
    let keep = (Metal::Keep, Response::Keep);
    let [usual, kept] = [(Metal::Mask, Response::Straighten), keep].map(|(metal, response)| {
        case.found(PoseOptions { metal, response, ..PoseOptions::default() }).0
    });
    assert_eq!(usual.transform, kept.transform);
    assert_eq!(usual.verdict, kept.verdict);
    assert!(usual.verdict.good && usual.without.iter().all(Option::is_none));
    assert_eq!((&usual.left_out[..], &usual.straightened[..]), (&[0.0; 2][..], &[false; 2][..]));
}

#[test]
fn what_contradicts_the_pose_is_not_taken_for_metal() {
    let mut case = Case::new().with_metal();
    let (first, second) = case.images.split_at_mut(1);
    std::mem::swap(&mut first[0].1, &mut second[0].1);
    let (found, off) = case.found(PoseOptions::default());
    assert!(!found.verdict.good, "{off} mm");
    // More than a quarter of an image.
    let mut case = Case::new();
    for (view, image) in &mut case.images {
        let columns = view.dims()[0];
        for (i, v) in image.iter_mut().enumerate() {
            *v += 4.0 * f32::from(i % columns % 8 < 3);
        }
    }
    let (found, _) = case.found(PoseOptions::default());
    assert!(found.without.iter().all(Option::is_none), "{:?}", found.left_out);
}

#[test]
fn bent_values_are_straightened() {
    let root = |v: f32| 200.0 * v.max(0.0).sqrt() + 10.0;
    let power = |v: f32| v.max(0.0).powf(2.2);
    let display = |v: f32| 255.0 * (1.0 - (-0.6 * v.max(0.0)).exp());
    let bent: [&dyn Fn(f32) -> f32; 3] = [&root, &power, &display];
    for (of, name) in bent.into_iter().zip(["root", "power", "display"]) {
        let mut case = Case::new();
        case.images.iter_mut().for_each(|(_, image)| image.iter_mut().for_each(|v| *v = of(*v)));
        let (found, off) = case.found(PoseOptions::default());
        assert!(off < 0.5 && found.verdict.good, "{name}: {off} mm, {}", found.verdict.summary());
        assert_eq!(found.straightened, [true; 2], "{name}");
        let said = found.verdict.remarks.iter().filter(|r| r.contains("linearised")).count();
        assert_eq!(said, 2, "{:?}", found.verdict.remarks);
        if thorough() || name == "root" {
            let options = PoseOptions { response: Response::Keep, ..PoseOptions::default() };
            assert_eq!(case.found(options).0.straightened, [false; 2]);
        }
    }
}

#[test]
fn a_mask_has_the_size_of_its_image() {
    let case = Case::new();
    let (geometry, image) = &case.images[0];
    let short = vec![false; image.len() - 1];
    let views = [View { geometry, image, region: None, without: Some(&short) }];
    let device = device();
    let mut ct = PreparedCt::new(&device, &case.ct).unwrap();
    let found = ct.register(&views, &Affine::identity(), &PoseOptions::default(), &Silent);
    let Err(RegisterError::Option(wrong)) = found else { panic!() };
    assert_eq!(wrong.name(), "mask of an X-ray image");
    // All of it: nothing is left to compare.
    let all = vec![true; image.len()];
    let views = [View { without: Some(&all), ..views[0] }];
    let found = ct.register(&views, &Affine::identity(), &PoseOptions::default(), &Silent);
    let Err(RegisterError::Option(wrong)) = found else { panic!() };
    assert_eq!(wrong.name(), "mask of an X-ray image");
}

/// The CT moves by a few millimetres a frame; two frames show metal.
#[test]
fn frames_with_metal_are_followed() {
    let (device, ct, mut random) = (device(), head([4.0; 3]), Random::new(11));
    let poses: Vec<Affine> = (0..4)
        .map(|i| Affine::translation(Vector3::new(f64::from(i), -2.0, 0.5)).then(&truth(&ct)))
        .collect();
    let views: Vec<_> = images(&ct, &device, &poses[0]).into_iter().map(|(view, _)| view).collect();
    let of = views.iter().map(|view| TrackView { geometry: *view, region: None }).collect();
    let pose = PoseOptions { starts: 32, landscape: false, ..PoseOptions::default() };
    let mut prepared = PreparedCt::new(&device, &ct).unwrap();
    let options = TrackOptions { pose, ..TrackOptions::default() };
    let mut tracker = Tracker::new(&mut prepared, of, &Affine::identity(), options).unwrap();
    for (frame, at) in poses.iter().enumerate() {
        let metal = frame % 2 == 1;
        let taken = images(&ct, &device, at).into_iter().zip([0.5, 2.2]);
        let shown: Vec<Vec<f32>> = taken
            .map(|((view, image), angle)| {
                let rods = rods(view.dims()[0], angle);
                let noisy = photographed(&image, 1e5, &mut random);
                noisy.iter().zip(rods).map(|(v, m)| if metal { v + m } else { *v }).collect()
            })
            .collect();
        let shown: Vec<_> = shown.iter().map(Vec::as_slice).collect();
        let found = tracker.next(&shown, &Silent).unwrap();
        let off = error(&found.transform, at, &targets(&ct), None);
        println!("frame {frame}: {:?}, {off:.3} mm, {:?}", found.status, found.left_out);
        assert!(found.status.is_good() && off < 0.5, "{frame}: {:?}", found.status);
        assert_eq!(found.left_out.iter().any(|part| *part > 0.0), metal, "{frame}");
    }
}
