//! Poses from random starts, by X-ray images that the library made itself or others did.

use super::{CTS, ct, device, error, photographed, random_pose, starts, targets, views};
use std::time::Instant;
use voxalign_compute::cpu::Cpu;
use voxalign_image::Rotation3;
use voxalign_image::{Affine, Volume, XrayGeometry};
use voxalign_register::projection::objective::View;
use voxalign_register::projection::register::Uncertainty;
use voxalign_register::projection::{PoseOptions, PreparedCt, XraySimilarity};
use voxalign_register::random::Random;
use voxalign_register::{Choice, Silent};

/// How well the poses of a CT are found from random starts by images without noise, whose true pose is the identity.
pub(super) struct Study<'a> {
    pub(super) ct: &'a Volume<f32>,
    pub(super) geometries: &'a [XrayGeometry],
    pub(super) images: &'a [Vec<f32>],
    pub(super) starts: usize,
    pub(super) options: PoseOptions,
    /// Photons of a pixel without anything in between.
    pub(super) photons: f64,
    /// How far starts are from the truth along and about each axis, mm and degrees.
    pub(super) off: [f64; 2],
}

/// How far starts are that a search has to find the pose from.
pub(super) const OFF: [f64; 2] = [20.0, 15.0];
/// The same where searches are to fail.
const FAR: [f64; 2] = [60.0, 45.0];

/// That, or what the environment says: mm and degrees.
pub(super) fn off() -> [f64; 2] {
    let said = std::env::var("VOXALIGN_TEST_OFF").unwrap_or_default();
    let both: Vec<f64> = said.split(',').filter_map(|n| n.parse().ok()).collect();
    both.try_into().unwrap_or(OFF)
}

/// What came of a study.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Outcome {
    pub(super) found: usize,
    pub(super) good: usize,
    pub(super) wrong_but_good: usize,
}

impl Study<'_> {
    pub(super) fn run(&self, name: &str) -> Outcome {
        let device = device();
        let mut random = Random::new(7);
        let (centre, targets) = (self.ct.grid().centre(), targets(self.ct));
        let mut ct = PreparedCt::new(&device, self.ct).unwrap();
        let single = (self.geometries.len() == 1).then(|| &self.geometries[0]);
        let limit = if single.is_some() { 2.0 } else { 1.0 };
        let mut all = Outcome::default();
        let (mut errors, mut ratios) = (Vec::new(), Vec::new());
        let (mut seconds, mut searched, mut renders, mut iterations) = (0.0, 0.0, 0, 0);
        for number in 0..self.starts {
            // Other noise each time.
            let images: Vec<_> =
                self.images.iter().map(|i| photographed(i, self.photons, &mut random)).collect();
            let views: Vec<_> = self
                .geometries
                .iter()
                .zip(&images)
                .map(|(geometry, image)| View { geometry, image, region: None, without: None })
                .collect();
            let start = random_pose(&mut random, centre, self.off[0], self.off[1]);
            let began = Instant::now();
            let found = ct.register(&views, &start, &self.options, &Silent).unwrap();
            seconds += began.elapsed().as_secs_f64();
            searched += found.stages.iter().map(|s| s.seconds).sum::<f64>();
            renders += found.renders;
            iterations += found.iterations;
            let error = error(&found.transform, &Affine::identity(), &targets, single);
            let (hit, good) = (error < limit, found.verdict.good);
            all.found += usize::from(hit);
            all.good += usize::from(hit && good);
            all.wrong_but_good += usize::from(!hit && good);
            errors.push(error);
            let Uncertainty { curvature, restarts, .. } = &found.uncertainty;
            let shift = found.transform.inverse().unwrap().apply(ct.middle()) - ct.middle();
            for axis in 0..3 {
                ratios.push([
                    shift[axis] / curvature[axis],
                    shift[axis] / restarts.map_or(f64::NAN, |r| r[axis]),
                ]);
            }
            let checks: Vec<_> =
                found.verdict.checks.iter().map(|c| format!("{:.3}", c.value)).collect();
            if !hit || !good || std::env::var_os("VOXALIGN_TEST_ALL").is_some() {
                println!("  {number}: {error:.2} mm, good {good}: {}", checks.join(" "));
            }
        }
        errors.sort_by(f64::total_cmp);
        let of = |which: usize| {
            let mut all: Vec<f64> = ratios.iter().map(|r| r[which].abs()).collect();
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        };
        let n = self.starts as f64;
        println!(
            "{name}: found {} of {}, good {}, wrong but good {}; median {:.3} mm, largest {:.2}; {:.0} ms, of which the \
             search {:.0}; {:.0} images, {:.0} steps each; errors over deviations, median: {:.1} by curvature, {:.1} by \
             restarts",
            all.found,
            self.starts,
            all.good,
            all.wrong_but_good,
            errors[errors.len() / 2],
            errors[errors.len() - 1],
            1e3 * seconds / n,
            1e3 * searched / n,
            renders as f64 / n,
            iterations as f64 / n,
            of(0),
            of(1),
        );
        all
    }
}

/// The views and samplings that all studies have.
pub(super) const CASES: [(usize, Option<f64>); 4] =
    [(2, None), (2, Some(0.05)), (1, None), (1, Some(0.05))];

#[test]
fn poses_are_found_from_random_starts() {
    let kinds = std::env::var("VOXALIGN_TEST_SIMILARITY").unwrap_or("gradient-ncc".into());
    for name in CTS {
        let Some(ct) = ct(name) else { return };
        let (geometries, images) = views(&ct, &device());
        for kind in kinds.split(',') {
            for (views, sampling) in CASES {
                let similarity = XraySimilarity::named(kind).unwrap();
                let study = Study {
                    ct: &ct,
                    geometries: &geometries[..views],
                    images: &images[..views],
                    starts: starts(1),
                    options: PoseOptions { sampling, similarity, ..PoseOptions::default() },
                    photons: 1e5,
                    off: off(),
                };
                let found = study.run(&format!("{name} {kind}, {views} views, {sampling:?}"));
                assert_eq!(found.wrong_but_good, 0);
                assert!(found.found as f64 >= 0.8 * study.starts as f64);
                assert!(found.good as f64 >= 0.8 * study.starts as f64);
            }
        }
    }
}

#[test]
fn wrong_poses_are_called_bad() {
    // Searches that cannot find it from everywhere: local ones, and ones that begin too far away.
    let mut wrong = 0;
    for name in CTS {
        let Some(ct) = ct(name) else { return };
        let (geometries, images) = views(&ct, &device());
        for (views, sampling) in CASES {
            for (kind, first, off) in [("local", 1, FAR), ("far", 64, FAR)] {
                let study = Study {
                    ct: &ct,
                    geometries: &geometries[..views],
                    images: &images[..views],
                    starts: starts(1),
                    options: PoseOptions { sampling, starts: first, ..PoseOptions::default() },
                    photons: 1e5,
                    off,
                };
                let found = study.run(&format!("{name} {kind}, {views} views, {sampling:?}"));
                assert_eq!(found.wrong_but_good, 0);
                wrong += study.starts - found.found;
            }
        }
    }
    assert!(wrong > 0, "no search failed, so that nothing was shown");
}

#[test]
fn devices_find_the_same_poses() {
    if !std::env::var("VOXALIGN_TEST_DEVICE").is_ok_and(|d| d.starts_with("cuda")) {
        eprintln!("skipped: VOXALIGN_TEST_DEVICE names no GPU");
        return;
    }
    for name in CTS {
        let Some(ct) = ct(name) else { return };
        let (gpu, cpu) = (device(), Cpu::new(None).unwrap());
        let centre = ct.grid().centre();
        let (geometries, images) = views(&ct, &gpu);
        let mut random = Random::new(11);
        let images = images.map(|image| photographed(&image, 1e5, &mut random));
        let (mut on_gpu, mut on_cpu) =
            (PreparedCt::new(&gpu, &ct).unwrap(), PreparedCt::new(&cpu, &ct).unwrap());
        let mut random = Random::new(12);
        for (views, sampling) in CASES {
            let mut most = [0.0f64; 2];
            let pairs = geometries.iter().zip(&images).take(views);
            let all: Vec<_> = pairs
                .map(|(geometry, image)| View { geometry, image, region: None, without: None })
                .collect();
            let options = PoseOptions { sampling, restarts: 0, ..PoseOptions::default() };
            for _ in 0..starts(1) {
                let start = random_pose(&mut random, centre, OFF[0], OFF[1]);
                let a = on_gpu.register(&all, &start, &options, &Silent).unwrap().transform;
                let b = on_cpu.register(&all, &start, &options, &Silent).unwrap().transform;
                let turn = Rotation3::from_matrix(&(a.matrix.transpose() * b.matrix));
                let apart = [(a.apply(centre) - b.apply(centre)).norm(), turn.angle().to_degrees()];
                most = [0, 1].map(|i| most[i].max(apart[i]));
            }
            println!(
                "{name}, {views} views, {sampling:?}: GPU and CPU differ by {:.5} mm and {:.5} degrees",
                most[0], most[1]
            );
            // The depth of a single view is what rounding makes of it.
            assert!(views == 1 || most[0] < 0.02 && most[1] < 0.02);
        }
    }
}
