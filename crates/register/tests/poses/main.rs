//! Poses of real CTs by X-ray images that were simulated of them.

// A check that does not hold is a panic; figures are printed.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

use std::path::PathBuf;
use std::time::Instant;
use voxalign_compute::cpu::Cpu;
use voxalign_compute::ops::raycast::{Along, Traversal};
use voxalign_image::{Affine, AffineParameters, CArm, Vector3, Volume, XrayGeometry};
use voxalign_register::projection::objective::View;
use voxalign_register::projection::{
    Attenuation, PoseInput, PoseOptions, Simulator, XraySimilarity, register_pose,
};
use voxalign_register::random::Random;
use voxalign_register::search::OptimiserKind;
use voxalign_register::{Choice, Silent};

/// The attenuations of a CT of the folder of real images; none where there is no such folder.
fn ct(name: &str) -> Option<Volume<f32>> {
    let Some(folder) = std::env::var_os("VOXALIGN_TEST_DATA") else {
        eprintln!("skipped: VOXALIGN_TEST_DATA names no folder");
        return None;
    };
    let path = PathBuf::from(folder).join(name);
    if !path.exists() {
        eprintln!("skipped: there is no {}", path.display());
        return None;
    }
    let hu = voxalign_io::image::read_volume(path).unwrap();
    let attenuation = Attenuation::at_energy(70.0).unwrap();
    Some(hu.map(|v| attenuation.of(*v)))
}

fn arm(centre: Vector3<f64>, primary: f64) -> XrayGeometry {
    let size = 256;
    CArm {
        source_to_isocentre: 1000.0,
        source_to_detector: 1500.0,
        isocentre: centre,
        primary: primary.to_radians(),
        secondary: 0.0,
        pixel_size: [400.0 / size as f64; 2],
        dims: [size; 2],
        centre: None,
    }
    .geometry()
    .unwrap()
}

/// An X-ray image with Poisson noise, of so many photons a pixel without anything in between.
fn photographed(image: &[f32], photons: f64, random: &mut Random) -> Vec<f32> {
    let one = |&a: &f32| {
        let expected = photons * f64::from(-a).exp();
        let counted = (expected + expected.sqrt() * random.normal()).max(1.0);
        (photons / counted).ln() as f32
    };
    image.iter().map(one).collect()
}

/// How well the poses of a CT are found from random starts.
struct Study {
    views: usize,
    sampling: Option<f64>,
    starts: usize,
    similarity: XraySimilarity,
    optimiser: OptimiserKind,
}

/// Of all starts: found, found and good, wrong and good.
fn study(ct: &Volume<f32>, study: &Study) -> [usize; 3] {
    let device = Cpu::new(None).unwrap();
    let centre = ct.grid().centre();
    let geometries: Vec<_> = [0.0, 90.0][..study.views].iter().map(|&a| arm(centre, a)).collect();
    let simulator = Simulator::new(&device, ct).unwrap();
    let mut random = Random::new(7);
    let images: Vec<Vec<f32>> = geometries
        .iter()
        .map(|g| {
            let how = Traversal::trilinear(0.4);
            let image = simulator.image(g, &Affine::identity(), how, Along::Integral).unwrap();
            photographed(&image, 1e5, &mut random)
        })
        .collect();
    let views: Vec<_> = geometries
        .iter()
        .zip(&images)
        .map(|(geometry, image)| View { geometry, image, region: None })
        .collect();
    let extent = ct.grid().extent();
    let targets: Vec<Vector3<f64>> = (0..27)
        .map(|i| {
            let at = [i % 3, i / 3 % 3, i / 9].map(|x| f64::from(x) - 1.0);
            centre + Vector3::from_fn(|a, _| 0.25 * extent[a] * at[a])
        })
        .collect();
    let options = PoseOptions {
        sampling: study.sampling,
        similarity: study.similarity,
        optimiser: study.optimiser,
        ..PoseOptions::default()
    };
    let (mut counts, mut seconds, mut renders) = ([0; 3], 0.0, 0);
    let (mut errors, mut leads) = (Vec::new(), Vec::new());
    for number in 0..study.starts {
        let mut within = |most: f64| (2.0 * random.uniform() - 1.0) * most;
        let turn = Vector3::from_fn(|_, _| within(15f64.to_radians()));
        let shift = Vector3::from_fn(|_, _| within(20.0));
        let start = AffineParameters {
            rotation: turn,
            translation: shift,
            ..AffineParameters::identity(centre)
        };
        let input = PoseInput { ct, views: views.clone(), start: start.to_affine() };
        let began = Instant::now();
        let found = register_pose(&device, &input, &options, &Silent).unwrap();
        seconds += began.elapsed().as_secs_f64();
        renders += found.renders;
        // Where points of the CT are in the room: the truth is that they stay.
        let back = found.transform.inverse().unwrap();
        let along = geometries[0].normal();
        let off = |p: &Vector3<f64>| {
            let d = back.apply(*p) - p;
            // A single view tells little of the depth.
            if study.views == 1 { (d - along * d.dot(&along)).norm() } else { d.norm() }
        };
        let error = targets.iter().map(off).sum::<f64>() / targets.len() as f64;
        let limit = if study.views == 1 { 2.0 } else { 1.0 };
        let (hit, good) = (error < limit, found.verdict.good);
        counts[0] += usize::from(hit);
        counts[1] += usize::from(hit && good);
        counts[2] += usize::from(!hit && good);
        errors.push(error);
        if !hit || !good {
            println!("  {number}: {error:.2} mm, good {good}: {}", found.verdict.summary());
        }
        leads.push(found.correlations[0]);
    }
    errors.sort_by(f64::total_cmp);
    let n = study.starts as f64;
    println!(
        "{} views, {} {} sampling {:?}: found {} of {}, good {}, wrong but good {}; median {:.3} mm; {:.2} s, {:.0} \
         images each",
        study.views,
        study.similarity.name(),
        study.optimiser.name(),
        study.sampling,
        counts[0],
        study.starts,
        counts[1],
        counts[2],
        errors[errors.len() / 2],
        seconds / n,
        renders as f64 / n
    );
    counts
}

/// How many starts: few, unless the environment asks for more.
fn starts(usual: usize) -> usize {
    let asked = std::env::var("VOXALIGN_TEST_STARTS").ok();
    asked.and_then(|n| n.parse().ok()).unwrap_or(usual)
}

const CTS: [&str; 2] = ["ct_head_invesalius/cranium_ct.nii.gz", "lung_4dct_plastimatch/t0.nii.gz"];

#[test]
fn poses_are_found_from_random_starts() {
    let kinds = std::env::var("VOXALIGN_TEST_SIMILARITY").unwrap_or("gradient-ncc".into());
    for name in CTS {
        let Some(ct) = ct(name) else { return };
        println!("{name}");
        for kind in kinds.split(',') {
            for views in [2, 1] {
                for sampling in [None, Some(0.05)] {
                    let of = Study {
                        views,
                        sampling,
                        starts: starts(2),
                        similarity: XraySimilarity::named(kind).unwrap(),
                        optimiser: OptimiserKind::default(),
                    };
                    let [found, _, wrong] = study(&ct, &of);
                    assert_eq!(wrong, 0);
                    assert!(found as f64 >= 0.8 * of.starts as f64);
                }
            }
        }
    }
}
