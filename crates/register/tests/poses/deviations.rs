//! Whether the error of poses is within what is stated, on a head of ellipsoids and real CTs with noise.

use super::verdicts::{head, images};
use super::{device, starts};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use voxalign_compute::select::DeviceChoice;
use voxalign_image::{Affine, Grid, Vector3, Volume, XrayGeometry};
use voxalign_register::Silent;
use voxalign_register::numbers::Levels;
use voxalign_register::projection::objective::View;
use voxalign_register::projection::{PoseOptions, PreparedCt, XraySimilarity, pose_of};
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

/// A body that is registered to images of itself, and where a point of it is that is looked at.
struct Body {
    name: &'static str,
    ct: Volume<f32>,
    truth: Affine,
    point: Vector3<f64>,
    images: Vec<(XrayGeometry, Vec<f32>)>,
}

impl Body {
    fn new(name: &'static str, ct: Volume<f32>) -> Self {
        let centre = ct.grid().centre();
        let degrees = Vector3::new(3.0, -2.0, 4.0).map(f64::to_radians);
        let truth = pose_of(centre, degrees, Vector3::new(5.0, -3.0, 6.0)).unwrap();
        let point = centre + Vector3::new(30.0, 20.0, -25.0);
        let images = images(&ct, &device(), &truth);
        Self { name, ct, truth, point, images }
    }

    /// A head of ellipsoids.
    fn ellipsoids() -> Self {
        Self::new("ellipsoids", head([4.0; 3]))
    }

    /// A CT of the folder of real images, with voxels of some 4 mm.
    fn real(name: &'static str, path: &str) -> Option<Self> {
        let fine = super::ct(path)?;
        let by = fine.grid().spacing().map(|s| ((4.0 / s).round() as usize).max(1));
        let dims: [usize; 3] = std::array::from_fn(|a| fine.grid().dims()[a] / by[a]);
        let map = fine.grid().to_world();
        let scale = Vector3::from_fn(|a, _| by[a] as f64);
        let middle = scale.map(|s| (s - 1.0) / 2.0);
        let offset = fine.grid().index_to_world(middle);
        let matrix = map.matrix * voxalign_image::Matrix3::from_diagonal(&scale);
        let grid = Grid::new(dims, voxalign_image::Affine::new(matrix, offset)).unwrap();
        let [nx, ny, _] = fine.grid().dims();
        let mean = |x: usize, y: usize, z: usize| {
            let mut sum = 0.0;
            for k in 0..by[2] {
                for j in 0..by[1] {
                    let row = ((z * by[2] + k) * ny + y * by[1] + j) * nx + x * by[0];
                    sum += fine.data()[row..row + by[0]].iter().sum::<f32>();
                }
            }
            sum / (by[0] * by[1] * by[2]) as f32
        };
        Some(Self::new(name, Volume::from_fn(grid, mean)))
    }
}

/// How many of so many registrations have an error within what is stated, in space and in the plane and the depth of the first view; the mean
/// error, and what is stated, mm.
struct Counted {
    within: [usize; 3],
    of: usize,
    error: f64,
    stated: f64,
}

/// Of images with noise of this part of their largest value, which is blurred or not.
fn counted(
    body: &Body,
    similarity: XraySimilarity,
    (by, blurred): (f64, bool),
    count: usize,
) -> Counted {
    let device = "cpu".parse::<DeviceChoice>().unwrap().open(Some(1)).unwrap();
    let mut prepared = PreparedCt::new(&device, &body.ct).unwrap();
    let mut random = Random::new(11);
    let mut found = Counted { within: [0; 3], of: count, error: 0.0, stated: 0.0 };
    let most = body.images.iter().flat_map(|(_, i)| i).fold(0.0f32, |a, &b| a.max(b));
    for number in 0..count {
        let noise = by * f64::from(most);
        let taken: Vec<_> = body
            .images
            .iter()
            .map(|(g, i)| noisy(i, g.dims()[0], noise, blurred, &mut random))
            .collect();
        let views = body.images.iter().zip(&taken);
        let views: Vec<_> = views
            .map(|((geometry, _), image)| View { geometry, image, region: None, without: None })
            .collect();
        let options = PoseOptions {
            similarity,
            starts: 1,
            landscape: false,
            seed: number as u64,
            levels: Some(Levels(vec![8.0, 4.0])),
            ..PoseOptions::default()
        };
        let result = prepared.register(&views, &body.truth, &options, &Silent).unwrap();
        let place = |map: &Affine| map.inverse().unwrap().apply(body.point);
        let off = place(&result.transform) - place(&body.truth);
        let geometries = views.iter().map(|v| v.geometry);
        let Some(expected) = result.expected_error(body.point, geometries) else { continue };
        let ray = (place(&body.truth) - views[0].geometry.source()).normalize();
        let depth = off.dot(&ray);
        let plane = (off - ray * depth).norm();
        let all = [
            off.norm() <= expected.within,
            plane <= expected.in_plane[0],
            depth.abs() <= expected.depth[0],
        ];
        found.within.iter_mut().zip(all).for_each(|(n, ok)| *n += usize::from(ok));
        found.error += off.norm() / count as f64;
        found.stated += expected.within / count as f64;
    }
    found
}

const SIMILARITIES: [XraySimilarity; 4] =
    [XraySimilarity::GradientNcc, XraySimilarity::Ncc, XraySimilarity::Ssd, XraySimilarity::MI];
/// Noise as a part of the largest value, and whether it is blurred.
const NOISE: [(f64, bool); 4] = [(0.01, false), (0.05, false), (0.01, true), (0.04, true)];

/// The table of the documentation, with a thread for each of its rows at a time.
#[test]
#[ignore = "takes minutes on many cores"]
fn errors_are_within_what_is_stated() {
    let mut bodies = vec![Body::ellipsoids()];
    bodies.extend(Body::real("head", super::CTS[0]));
    bodies.extend(Body::real("chest", super::CTS[1]));
    let mut rows = Vec::new();
    for body in &bodies {
        for similarity in SIMILARITIES {
            rows.extend(NOISE.map(|noise| (body, similarity, noise)));
        }
    }
    let (next, count) = (AtomicUsize::new(0), starts(20));
    let (total, cores) = (Mutex::new([0; 4]), std::thread::available_parallelism().unwrap().get());
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while let Some(&(body, similarity, noise)) =
                    rows.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    let Counted { within, of, error, stated } =
                        counted(body, similarity, noise, count);
                    println!(
                        "{}, {similarity:?}, noise {noise:?}: {within:?} of {of}; error {error:.4} mm, stated {stated:.4} mm",
                        body.name
                    );
                    let mut total = total.lock().unwrap();
                    total.iter_mut().zip(within).for_each(|(sum, n)| *sum += n);
                    total[3] += of;
                }
            });
        }
    });
    let [space, plane, depth, all] = total.into_inner().unwrap();
    println!("all: {space} in space, {plane} in the plane, {depth} in the depth, of {all}");
    let part = |n: usize| n as f64 / all as f64;
    assert!([space, plane, depth].iter().all(|n| (0.9..=0.99).contains(&part(*n))));
}

#[test]
fn neighbours_that_err_together_are_known() {
    // With the variance of single pixels three of four were outside.
    let found = counted(&Body::ellipsoids(), XraySimilarity::Ncc, (0.02, true), 12);
    println!("{:?} of {}: {:.3} mm, {:.3} mm", found.within, found.of, found.error, found.stated);
    assert!(found.within.iter().all(|n| *n >= 9), "{:?}", found.within);
    // And not by deviations that say nothing.
    assert!(found.stated < 4.0 * found.error, "{} {}", found.error, found.stated);
}
