//! Poses of real CTs by X-ray images that were simulated of them: from random starts, by images of another program, and followed over
//! sequences.

// A check that does not hold is a panic; figures are printed.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

#[path = "../pairs/common.rs"]
mod common;
mod deviations;
mod evidence;
mod geometry;
mod metal;
mod others;
mod starts;
mod track;
mod verdicts;

use voxalign_compute::ops::raycast::{Along, Traversal};
use voxalign_compute::select::{AnyDevice, DeviceChoice};
use voxalign_image::{Affine, AffineParameters, CArm, Vector3, Volume, XrayGeometry};
use voxalign_register::projection::{Attenuation, Simulator};
use voxalign_register::random::Random;

/// The CPU, or what the environment names.
fn device() -> AnyDevice {
    let name = std::env::var("VOXALIGN_TEST_DEVICE").unwrap_or("cpu".into());
    name.parse::<DeviceChoice>().unwrap().open(None).unwrap()
}

/// The attenuations of a CT of the folder of real images; none where there is no such folder.
fn ct(name: &str) -> Option<Volume<f32>> {
    let hu = common::volume(common::real_data("a pose")?.join(name));
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

/// The views of a CT from the front and from the side, and its images without noise, as it lies in its own world.
fn views(ct: &Volume<f32>, device: &AnyDevice) -> ([XrayGeometry; 2], [Vec<f32>; 2]) {
    let geometries = [0.0, 90.0].map(|angle| arm(ct.grid().centre(), angle));
    let simulator = Simulator::new(device, ct).unwrap();
    let how = Traversal::trilinear(0.4);
    let image = |g| simulator.image(g, &Affine::identity(), how, Along::Integral).unwrap();
    (geometries, geometries.each_ref().map(image))
}

/// Points of a CT whose error is that of a pose: a grid of 3 x 3 x 3 over the middle half of it.
fn targets(ct: &Volume<f32>) -> Vec<Vector3<f64>> {
    let (centre, extent) = (ct.grid().centre(), ct.grid().extent());
    let at = |i: i32| [i % 3, i / 3 % 3, i / 9].map(|x| f64::from(x) - 1.0);
    (0..27).map(|i| centre + Vector3::from_fn(|a, _| 0.25 * extent[a] * at(i)[a])).collect()
}

/// The mean distance of targets in the room under a pose from where they are, of which a single view tells little along its rays.
fn error(
    found: &Affine,
    truth: &Affine,
    targets: &[Vector3<f64>],
    single: Option<&XrayGeometry>,
) -> f64 {
    let (found, truth) = (found.inverse().unwrap(), truth.inverse().unwrap());
    let off = |p: &Vector3<f64>| {
        let d = found.apply(*p) - truth.apply(*p);
        match single {
            Some(view) => (d - view.normal() * d.dot(&view.normal())).norm(),
            None => d.norm(),
        }
    };
    targets.iter().map(off).sum::<f64>() / targets.len() as f64
}

/// A pose, turned and moved about a centre by up to so many mm and degrees along and about each axis.
fn random_pose(random: &mut Random, centre: Vector3<f64>, mm: f64, degrees: f64) -> Affine {
    let mut within = |most: f64| (2.0 * random.uniform() - 1.0) * most;
    let rotation = Vector3::from_fn(|_, _| within(degrees.to_radians()));
    let translation = Vector3::from_fn(|_, _| within(mm));
    AffineParameters { rotation, translation, ..AffineParameters::identity(centre) }.to_affine()
}

/// How many starts: few, unless the environment asks for more.
fn starts(usual: usize) -> usize {
    let asked = std::env::var("VOXALIGN_TEST_STARTS").ok();
    asked.and_then(|n| n.parse().ok()).unwrap_or(usual)
}

const CTS: [&str; 2] = ["ct_head_invesalius/cranium_ct.nii.gz", "lung_4dct_plastimatch/t0.nii.gz"];
