//! Whether the error of poses is within what is stated, on a head of ellipsoids with noise.

use super::verdicts::{head, images, truth};
use super::{device, starts};
use voxalign_image::Vector3;
use voxalign_register::Silent;
use voxalign_register::projection::objective::View;
use voxalign_register::projection::{PoseOptions, PreparedCt, XraySimilarity};
use voxalign_register::random::Random;

/// An image with noise of this deviation; of neighbours that err together where it is blurred.
fn noisy(image: &[f32], width: usize, by: f64, blurred: bool, random: &mut Random) -> Vec<f32> {
    let mut noise: Vec<f64> = image.iter().map(|_| random.normal()).collect();
    if blurred {
        for _ in 0..3 {
            for step in [1, width] {
                let n = noise.len();
                noise = (0..n)
                    .map(|i| {
                        let at = |k: usize| noise[k % n];
                        (at(i + n - step) + 2.0 * at(i) + at(i + step)) / 4.0
                    })
                    .collect();
            }
        }
        let size = (noise.iter().map(|v| v * v).sum::<f64>() / noise.len() as f64).sqrt();
        noise.iter_mut().for_each(|v| *v /= size);
    }
    image.iter().zip(&noise).map(|(v, n)| v + (by * n) as f32).collect()
}

/// Of so many registrations each, the parts whose errors at the middle are within what is stated: in space, and in the plane and the depth of
/// the first view.
fn within(
    similarity: XraySimilarity,
    (by, blurred): (f64, bool),
    levels: &[f64],
    count: usize,
) -> [f64; 3] {
    let (device, ct) = (device(), head([4.0; 3]));
    let truth = truth(&ct);
    let clean = images(&ct, &device, &truth);
    let mut prepared = PreparedCt::new(&device, &ct).unwrap();
    let mut random = Random::new(11);
    let mut inside = [0usize; 3];
    let (mut errors, mut stated) = (0.0, 0.0);
    for number in 0..count {
        let taken: Vec<_> =
            clean.iter().map(|(g, i)| noisy(i, g.dims()[0], by, blurred, &mut random)).collect();
        let views: Vec<_> = clean
            .iter()
            .zip(&taken)
            .map(|((geometry, _), image)| View { geometry, image, region: None })
            .collect();
        let options = PoseOptions {
            similarity,
            starts: 1,
            landscape: false,
            seed: number as u64,
            levels: levels.to_vec(),
            ..PoseOptions::default()
        };
        let found = prepared.register(&views, &truth, &options, &Silent).unwrap();
        let point = ct.grid().centre() + Vector3::new(30.0, 20.0, -25.0);
        let place = |map: &voxalign_image::Affine| map.inverse().unwrap().apply(point);
        let off = place(&found.transform) - place(&truth);
        let Some(expected) = found.expected_error(point, views.iter().map(|v| v.geometry)) else {
            continue;
        };
        if number == 0 {
            let sure = &found.uncertainty;
            println!("  by curvature {:.3?}, by restarts {:.3?}", sure.curvature, sure.restarts);
        }
        let ray = (place(&truth) - views[0].geometry.source()).normalize();
        let depth = off.dot(&ray);
        let plane = (off - ray * depth).norm();
        let all = [
            off.norm() <= expected.within,
            plane <= expected.in_plane[0],
            depth.abs() <= expected.depth[0],
        ];
        inside.iter_mut().zip(all).for_each(|(n, ok)| *n += usize::from(ok));
        errors += off.norm() / count as f64;
        stated += expected.within / count as f64;
    }
    let parts = inside.map(|n| n as f64 / count as f64);
    println!(
        "{similarity:?}, noise {by}, blurred {blurred}, scales {levels:?}: {parts:.3?} of {count}; error {errors:.4} mm, stated {stated:.4} mm"
    );
    parts
}

/// The table of the documentation.
#[test]
#[ignore = "takes minutes"]
fn errors_are_within_what_is_stated() {
    let count = starts(40);
    for similarity in
        [XraySimilarity::GradientNcc, XraySimilarity::Ncc, XraySimilarity::Ssd, XraySimilarity::Mi]
    {
        for (by, blurred) in [(0.0, false), (0.05, false), (0.3, false), (0.05, true), (0.2, true)]
        {
            within(similarity, (by, blurred), &[8.0, 4.0], count);
        }
    }
}

#[test]
fn neighbours_that_err_together_are_known() {
    // With the variance of single pixels three of four were outside.
    let parts = within(XraySimilarity::Ncc, (0.1, true), &[8.0, 4.0], 40);
    assert!(parts.iter().all(|p| *p >= 0.75), "{parts:?}");
}
