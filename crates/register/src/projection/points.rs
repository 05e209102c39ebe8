//! The pose of a CT from points of it that are located in X-ray images.

use super::rotations::evenly;
use crate::error::{RegisterError, Result};
use nalgebra::{DMatrix, DVector, Vector6};
use voxalign_image::{Affine, Matrix3, Rotation3, Vector3, XrayGeometry};

/// A point of a CT where a view shows it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SeenPoint<'a> {
    /// The view.
    pub view: &'a XrayGeometry,
    /// Which of the views it is: points in one view alone need to be more.
    pub number: usize,
    /// The point in the world of the CT, mm.
    pub point: Vector3<f64>,
    /// Column and row, from 0 at the centre of the first pixel.
    pub pixel: [f64; 2],
}

/// A pose by points.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PointPose {
    /// From the room to the world of the CT; rigid.
    pub pose: Affine,
    /// The reprojection error at the detector, root mean square, mm.
    pub residual: f64,
}

/// Rotations that are tried, and those of them that are refined.
const TRIED: usize = 500;
const REFINED: usize = 24;
/// Steps of a refinement.
const STEPS: usize = 60;

/// Finds the pose with the least squared reprojection error of points at the detector: from many rotations, each
/// with the translation that moves the points nearest to their rays, by Levenberg-Marquardt steps. It takes four
/// points in one view, or three that are seen six times in several views.
///
/// # Errors
/// Too few points; collinear points; none in front of all sources.
pub fn pose_by_points(seen: &[SeenPoint<'_>]) -> Result<PointPose> {
    let wrong = |value: String, remedy: &str| RegisterError::option("points", value, remedy);
    let views = 1 + seen.iter().map(|s| s.number).max().unwrap_or(0);
    let most = (0..views).map(|v| seen.iter().filter(|s| s.number == v).count()).max();
    let mut points: Vec<Vector3<f64>> = Vec::new();
    for one in seen {
        if points.iter().all(|p| (p - one.point).norm() > 1e-6) {
            points.push(one.point);
        }
    }
    if points.len() < 3 || (most < Some(4) && seen.len() < 6) {
        return Err(wrong(
            format!("{} points, seen {} times", points.len(), seen.len()),
            "give at least four points in one view, or three in two views",
        ));
    }
    let middle = points.iter().sum::<Vector3<f64>>() / points.len() as f64;
    let spread: Matrix3<f64> = points.iter().map(|p| (p - middle) * (p - middle).transpose()).sum();
    let mut sizes: Vec<f64> = spread.symmetric_eigenvalues().iter().copied().collect();
    sizes.sort_by(|a, b| b.total_cmp(a));
    if sizes[1] < 1e-4 * sizes[0] {
        return Err(wrong("collinear points".to_owned(), "give points that are not collinear"));
    }
    let problem = Problem { seen, middle };
    let mut tried: Vec<(f64, Placed)> = evenly(TRIED)
        .filter_map(|rotation| {
            let placed = problem.beside(rotation)?;
            Some((problem.cost(&placed)?, placed))
        })
        .collect();
    tried.sort_by(|a, b| a.0.total_cmp(&b.0));
    let refined =
        tried.into_iter().take(REFINED).map(|(cost, placed)| problem.refined(cost, placed));
    let best = refined.min_by(|a, b| a.0.total_cmp(&b.0));
    let Some((cost, Placed { rotation, middle: place })) = best else {
        return Err(wrong("points behind a source".to_owned(), "check them and the geometry"));
    };
    let back = Affine::new(rotation, place - rotation * middle);
    let residual = (cost / seen.len() as f64).sqrt();
    Ok(PointPose { pose: back.inverse()?, residual })
}

/// The pose of the CT: its rotation in the room, and the position of the centre of the points.
#[derive(Debug, Clone, Copy)]
struct Placed {
    rotation: Matrix3<f64>,
    middle: Vector3<f64>,
}

struct Problem<'a> {
    seen: &'a [SeenPoint<'a>],
    middle: Vector3<f64>,
}

impl Problem<'_> {
    /// With the translation that moves the points nearest to their rays.
    fn beside(&self, rotation: Matrix3<f64>) -> Option<Placed> {
        let (mut all, mut sum) = (Matrix3::zeros(), Vector3::zeros());
        for one in self.seen {
            let source = one.view.source();
            let ray = (one.view.place(one.pixel[0], one.pixel[1]) - source).normalize();
            let across = Matrix3::identity() - ray * ray.transpose();
            all += across;
            sum += across * (source - rotation * (one.point - self.middle));
        }
        Some(Placed { rotation, middle: all.try_inverse()? * sum })
    }

    /// The reprojection error of each point along columns and rows, mm.
    fn residuals(&self, placed: &Placed) -> Option<DVector<f64>> {
        let mut all = Vec::with_capacity(2 * self.seen.len());
        for one in self.seen {
            let place = placed.middle + placed.rotation * (one.point - self.middle);
            let at = one.view.project(place)?;
            let size = one.view.pixel_size();
            all.extend([0, 1].map(|a| (at[a] - one.pixel[a]) * size[a]));
        }
        Some(DVector::from_vec(all))
    }

    fn cost(&self, placed: &Placed) -> Option<f64> {
        self.residuals(placed).map(|r| r.norm_squared())
    }

    fn moved(placed: &Placed, by: &Vector6<f64>) -> Placed {
        let turn = Vector3::new(by[3], by[4], by[5]);
        Placed {
            rotation: Rotation3::new(turn).matrix() * placed.rotation,
            middle: placed.middle + Vector3::new(by[0], by[1], by[2]),
        }
    }

    fn refined(&self, mut cost: f64, mut placed: Placed) -> (f64, Placed) {
        let mut damping = 1e-3;
        for _ in 0..STEPS {
            let Some(here) = self.residuals(&placed) else { break };
            let mut derivatives = DMatrix::zeros(here.len(), 6);
            for axis in 0..6 {
                let by = if axis < 3 { 1e-3 } else { 1e-6 };
                let step = Vector6::ith(axis, by);
                let ends = [1.0, -1.0].map(|s| self.residuals(&Self::moved(&placed, &(step * s))));
                let [Some(up), Some(down)] = ends else { return (cost, placed) };
                derivatives.set_column(axis, &((up - down) / (2.0 * by)));
            }
            let mut normal = derivatives.transpose() * &derivatives;
            for axis in 0..6 {
                normal[(axis, axis)] *= 1.0 + damping;
            }
            let Some(step) = normal.lu().solve(&(derivatives.transpose() * -here)) else { break };
            let next = Self::moved(&placed, &Vector6::from_iterator(step.iter().copied()));
            match self.cost(&next) {
                Some(better) if better < cost => {
                    let done = cost - better < 1e-12 * cost;
                    (cost, placed) = (better, next);
                    damping *= 0.2;
                    if done {
                        break;
                    }
                }
                _ => {
                    damping *= 5.0;
                    if damping > 1e12 {
                        break;
                    }
                }
            }
        }
        (cost, placed)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::projection::pose_of;
    use voxalign_image::CArm;

    pub(in crate::projection) fn arm(primary: f64) -> XrayGeometry {
        CArm {
            source_to_isocentre: 700.0,
            source_to_detector: 1100.0,
            isocentre: Vector3::new(10.0, -20.0, 30.0),
            primary,
            secondary: 0.1,
            pixel_size: [0.5; 2],
            dims: [800; 2],
            centre: None,
        }
        .geometry()
        .unwrap()
    }

    #[test]
    fn poses_are_found_by_points() {
        let views = [arm(0.2), arm(1.6)];
        let points = [
            [10., 5., -30.],
            [-25., 12., 8.],
            [30., -22., 18.],
            [-4., 30., 25.],
            [-15., -28., -12.],
        ];
        let turns = [[0.1, 0.2, -0.3], [2.0, -1.0, 0.5], [-0.4, 0.3, 3.0]];
        for (count, of) in [(3, 2), (4, 1), (5, 1), (5, 2)] {
            for turn in turns {
                let shift = Vector3::new(15.0, -40.0, 60.0);
                let truth = pose_of(Vector3::zeros(), turn.into(), shift).unwrap();
                let back = truth.inverse().unwrap();
                let mut seen = Vec::new();
                for (number, view) in views.iter().enumerate().take(of) {
                    for point in points.map(Vector3::from).into_iter().take(count) {
                        let pixel = view.project(back.apply(point)).unwrap();
                        seen.push(SeenPoint { view, number, point, pixel });
                    }
                }
                let found = pose_by_points(&seen).unwrap();
                let corners = points.map(Vector3::from).map(|p| back.apply(p));
                let off = found.pose.largest_distance(&truth, &corners);
                assert!(off < 1e-3 && found.residual < 1e-4, "{count} {of} {turn:?}: {off}");
            }
        }
    }

    #[test]
    fn points_that_tell_too_little_are_refused() {
        let view = arm(0.0);
        let seen = |points: &[[f64; 3]]| {
            let of = |p: &[f64; 3]| {
                let point = Vector3::from(*p);
                SeenPoint { view: &view, number: 0, point, pixel: view.project(point).unwrap() }
            };
            pose_by_points(&points.iter().map(of).collect::<Vec<_>>()).unwrap_err().to_string()
        };
        let three = [[0., 0., 0.], [10., 0., 0.], [0., 10., 0.]];
        assert!(seen(&three).contains("four points"), "{}", seen(&three));
        let line = [[0., 0., 0.], [10., 0., 0.], [20., 0., 0.], [30., 0., 0.]];
        assert!(seen(&line).contains("collinear"), "{}", seen(&line));
        assert!(pose_by_points(&[]).is_err());
    }
}
