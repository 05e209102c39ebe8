//! The transform model: a pose and its search parameters.

use voxalign_image::{Affine, Matrix3, Vector3};

/// What a search may change. Lengths are in mm: a unit of any parameter moves the head by about a
/// millimetre, so that one optimiser setting serves all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Freedom {
    /// Translation only.
    Translation,
    /// Translation and one scale: the paper's local search at the coarse rotations. (It calls the
    /// four parameters "rotation and global scale"; as the rotation is given there, translation is
    /// meant, as in Jenkinson and Smith 2001.)
    TranslationScale,
    /// Rotation and translation: 6 (2D: 3).
    Rigid,
    /// And one scale: 7 (2D: 4).
    Similarity,
    /// And one scale an axis: 9 (2D: 5).
    Scales,
    /// And shears: 12 (2D: 6).
    Affine,
}

/// The constants of a registration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Model {
    /// Centre of the linear part, fixed world mm.
    pub(crate) centre: Vector3<f64>,
    /// Axes of scales and shears in the fixed world, as columns: the world's in 3D, those of the
    /// slice in 2D.
    pub(crate) frame: Matrix3<f64>,
    /// Axes of rotation and translation in the moving world, as columns: the world's in 3D, those
    /// of the moving slice in 2D.
    pub(crate) target: Matrix3<f64>,
    /// Typical distance of the object from the centre, mm.
    pub(crate) radius: f64,
    /// Whether the images are flat.
    pub(crate) flat: bool,
}

/// A transform in the terms of a [`Model`]: `x -> G R S K F' (x - c) + c + t` with the frames `F` of
/// the fixed and `G` of the moving world.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Pose {
    /// Rotation `R` in the model's frame (may hold the reflection of a given start).
    pub(crate) rotation: Matrix3<f64>,
    /// Translation of the centre, world mm.
    pub(crate) translation: Vector3<f64>,
    /// Logarithms of the scales `S`.
    pub(crate) log_scale: Vector3<f64>,
    /// Shears xy, xz, yz of `K`.
    pub(crate) shear: Vector3<f64>,
}

#[cfg(test)]
impl Pose {
    /// A translation.
    pub(crate) fn at(translation: Vector3<f64>) -> Self {
        Self {
            rotation: Matrix3::identity(),
            translation,
            log_scale: Vector3::zeros(),
            shear: Vector3::zeros(),
        }
    }
}

/// The largest change of a parameter in a step, mm: images that share nothing give meaningless derivatives, and a
/// search must stay finite.
const STEP: f64 = 1e6;
/// The largest logarithm of a scale, for the same reason.
const LOG_SCALE: f64 = 14.0;

/// A value within bounds; 0 where it is not a number.
fn within(value: f64, most: f64) -> f64 {
    if value.is_nan() { 0.0 } else { value.clamp(-most, most) }
}

fn rotation(v: Vector3<f64>) -> Matrix3<f64> {
    *nalgebra::Rotation3::new(v).matrix()
}

impl Model {
    /// Number of parameters of a freedom.
    #[must_use]
    pub(crate) fn parameters(&self, freedom: Freedom) -> usize {
        match (freedom, self.flat) {
            (Freedom::Translation, false) => 3,
            (Freedom::Translation, true) => 2,
            (Freedom::TranslationScale, false) => 4,
            (Freedom::TranslationScale, true) | (Freedom::Rigid, true) => 3,
            (Freedom::Rigid, false) => 6,
            (Freedom::Similarity, false) => 7,
            (Freedom::Similarity, true) => 4,
            (Freedom::Scales, false) => 9,
            (Freedom::Scales, true) => 5,
            (Freedom::Affine, false) => 12,
            (Freedom::Affine, true) => 6,
        }
    }

    /// The affine map of a pose.
    #[must_use]
    pub(crate) fn affine(&self, pose: &Pose) -> Affine {
        let k = pose.shear;
        let shear = Matrix3::new(1.0, k[0], k[1], 0.0, 1.0, k[2], 0.0, 0.0, 1.0);
        let scale = Matrix3::from_diagonal(&pose.log_scale.map(|s| within(s, LOG_SCALE).exp()));
        let linear = self.target * (pose.rotation * scale * shear) * self.frame.transpose();
        Affine::about(linear, self.centre, pose.translation)
    }

    /// The pose of an affine map (the inverse of [`Model::affine`]).
    #[must_use]
    pub(crate) fn pose_of(&self, affine: &Affine) -> Pose {
        let translation = affine.apply(self.centre) - self.centre;
        let inner = self.target.transpose() * affine.matrix * self.frame;
        let qr = inner.qr();
        let (mut q, mut r) = (qr.q(), qr.r());
        for i in 0..3 {
            if r[(i, i)] < 0.0 {
                q.column_mut(i).neg_mut();
                r.row_mut(i).neg_mut();
            }
        }
        let scale = r.diagonal().map(|s| s.max(1e-6));
        Pose {
            rotation: q,
            translation,
            log_scale: scale.map(f64::ln),
            shear: Vector3::new(r[(0, 1)] / scale[0], r[(0, 2)] / scale[0], r[(1, 2)] / scale[1]),
        }
    }

    /// A pose moved by parameters: rotations turn it further, all else is added.
    #[must_use]
    pub(crate) fn moved(&self, pose: &Pose, freedom: Freedom, q: &[f64]) -> Pose {
        let mut new = *pose;
        let mut rest = q.iter().map(|&step| within(step, STEP));
        let mut next = || rest.next().unwrap_or(0.0);
        let axes = if self.flat { 2 } else { 3 };
        for a in 0..axes {
            let step = next();
            new.translation += self.target.column(a) * step;
        }
        if matches!(
            freedom,
            Freedom::Rigid | Freedom::Similarity | Freedom::Scales | Freedom::Affine
        ) {
            let turn = if self.flat {
                Vector3::new(0.0, 0.0, next() / self.radius)
            } else {
                Vector3::new(next(), next(), next()) / self.radius
            };
            new.rotation = rotation(turn) * pose.rotation;
        }
        match freedom {
            Freedom::Translation | Freedom::Rigid => {}
            Freedom::TranslationScale | Freedom::Similarity => {
                let s = next() / self.radius;
                for a in 0..axes {
                    new.log_scale[a] += s;
                }
            }
            Freedom::Scales | Freedom::Affine => {
                for a in 0..axes {
                    new.log_scale[a] += next() / self.radius;
                }
                if freedom == Freedom::Affine {
                    for a in 0..if self.flat { 1 } else { 3 } {
                        new.shear[a] += next() / self.radius;
                    }
                }
            }
        }
        new
    }

    /// Carries a derivative in the rows of the affine map to one in the parameters at `q`.
    ///
    /// With the linear part `L = G X F'`, `X = R S K`, and the offset `c + t - L c`, a derivative
    /// `M` in the linear part and `o` in the offset is `o . dt + <B, dX>` with
    /// `B = G' (M - o c') F`.
    #[must_use]
    pub(crate) fn gradient(
        &self,
        pose: &Pose,
        freedom: Freedom,
        q: &[f64],
        of_rows: &[f64; 12],
    ) -> Vec<f64> {
        let at = self.moved(pose, freedom, q);
        let g = nalgebra::Matrix3x4::from_row_slice(of_rows);
        let offset = g.column(3).into_owned();
        let linear = g.fixed_view::<3, 3>(0, 0) - offset * self.centre.transpose();
        let b = self.target.transpose() * linear * self.frame;
        let k = at.shear;
        let shear = Matrix3::new(1.0, k[0], k[1], 0.0, 1.0, k[2], 0.0, 0.0, 1.0);
        let scale = at.log_scale.map(f64::exp);
        // R' B: what is left of it for scales and shears.
        let inner = at.rotation.transpose() * b;
        let axes = if self.flat { 2 } else { 3 };
        let mut found = Vec::with_capacity(q.len());
        for a in 0..axes {
            found.push(self.target.column(a).dot(&offset));
        }
        if matches!(
            freedom,
            Freedom::Rigid | Freedom::Similarity | Freedom::Scales | Freedom::Affine
        ) {
            // A turn by w more: dX = [w] X, and <B, [w] X> = w . (what is skew in X B').
            let p = at.rotation * Matrix3::from_diagonal(&scale) * shear * b.transpose();
            let skew =
                Vector3::new(p[(1, 2)] - p[(2, 1)], p[(2, 0)] - p[(0, 2)], p[(0, 1)] - p[(1, 0)]);
            let part = |i: usize| q.get(axes + i).copied().unwrap_or(0.0) / self.radius;
            if self.flat {
                found.push(skew[2] / self.radius);
            } else {
                let turn = Vector3::new(part(0), part(1), part(2));
                let along = left_jacobian(turn).transpose() * skew / self.radius;
                found.extend(along.iter());
            }
        }
        let of_scales: [f64; 3] =
            std::array::from_fn(|a| scale[a] * inner.row(a).dot(&shear.row(a)) / self.radius);
        match freedom {
            Freedom::Translation | Freedom::Rigid => {}
            Freedom::TranslationScale | Freedom::Similarity => {
                found.push(of_scales[..axes].iter().sum());
            }
            Freedom::Scales | Freedom::Affine => {
                found.extend(&of_scales[..axes]);
                if freedom == Freedom::Affine {
                    let places = [(0, 1), (0, 2), (1, 2)];
                    for &(r, c) in &places[..if self.flat { 1 } else { 3 }] {
                        found.push(scale[r] * inner[(r, c)] / self.radius);
                    }
                }
            }
        }
        found
    }
}

/// How the rotation by the vector `v + dv` turns further than that by `v`: `exp [v + dv] =
/// exp [J dv] exp [v]` to first order (the left Jacobian of the rotation group).
fn left_jacobian(v: Vector3<f64>) -> Matrix3<f64> {
    let angle = v.norm();
    let (one, two) = if angle < 1e-3 {
        (0.5 - angle * angle / 24.0, 1.0 / 6.0 - angle * angle / 120.0)
    } else {
        let square = angle * angle;
        ((1.0 - angle.cos()) / square, (angle - angle.sin()) / (square * angle))
    };
    let cross = v.cross_matrix();
    Matrix3::identity() + cross * one + cross * cross * two
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(flat: bool) -> Model {
        let frame = |turn: Vector3<f64>| if flat { rotation(turn) } else { Matrix3::identity() };
        Model {
            centre: Vector3::new(10.0, -20.0, 30.0),
            frame: frame(Vector3::new(0.3, 0.1, -0.2)),
            target: frame(Vector3::new(-0.5, 0.2, 0.9)),
            radius: 60.0,
            flat,
        }
    }

    #[test]
    fn poses_and_maps_agree() {
        for flat in [false, true] {
            let m = model(flat);
            let n = m.parameters(Freedom::Affine);
            let q: Vec<f64> = (0..n).map(|i| (i as f64 * 1.7).sin() * 8.0).collect();
            let pose = m.moved(&Pose::at(Vector3::new(1.0, 2.0, 3.0)), Freedom::Affine, &q);
            let affine = m.affine(&pose);
            let back = m.affine(&m.pose_of(&affine));
            assert!((back.matrix - affine.matrix).norm() < 1e-9);
            assert!((back.offset - affine.offset).norm() < 1e-9);
        }
    }

    #[test]
    fn flat_models_stay_in_their_planes() {
        let m = model(true);
        for freedom in [Freedom::Rigid, Freedom::Similarity, Freedom::Scales, Freedom::Affine] {
            let q = vec![5.0; m.parameters(freedom)];
            let t = m.affine(&m.moved(&Pose::at(Vector3::zeros()), freedom, &q));
            let normal = m.target.column(2).into_owned();
            let point = m.centre + m.frame.column(0) * 7.0 - m.frame.column(1) * 3.0;
            assert!((t.apply(point) - m.centre).dot(&normal).abs() < 1e-9);
        }
    }

    #[test]
    fn a_unit_moves_the_head_by_about_a_millimetre() {
        let m = model(false);
        let base = Pose::at(Vector3::zeros());
        for i in 0..12 {
            let mut q = [0.0; 12];
            q[i] = 1.0;
            let t = m.affine(&m.moved(&base, Freedom::Affine, &q));
            let far = [Vector3::x(), Vector3::y(), Vector3::z()]
                .map(|d| m.centre + d * m.radius)
                .iter()
                .map(|&p| (t.apply(p) - p).norm())
                .fold(0.0, f64::max);
            assert!((far - 1.0).abs() < 0.05, "{i}: {far}");
        }
    }

    #[test]
    fn gradients_follow_the_chain_rule() {
        let of_rows: [f64; 12] = std::array::from_fn(|i| (i as f64).cos());
        let freedoms = [
            Freedom::Translation,
            Freedom::TranslationScale,
            Freedom::Rigid,
            Freedom::Similarity,
            Freedom::Scales,
            Freedom::Affine,
        ];
        for flat in [false, true] {
            let m = model(flat);
            let n = m.parameters(Freedom::Affine);
            let away: Vec<f64> = (0..n).map(|i| (i as f64 * 1.7).sin() * 8.0).collect();
            let base = m.moved(&Pose::at(Vector3::new(3.0, 1.0, 0.0)), Freedom::Affine, &away);
            for freedom in freedoms {
                for size in [0.0, 1e-3, 0.5, 20.0] {
                    let n = m.parameters(freedom);
                    let q: Vec<f64> = (0..n).map(|i| size * (i as f64 * 0.5 - 2.0)).collect();
                    let f = |q: &[f64]| -> f64 {
                        let rows = m.affine(&m.moved(&base, freedom, q)).rows();
                        rows.iter().flatten().zip(&of_rows).map(|(a, b)| a * b).sum()
                    };
                    let g = m.gradient(&base, freedom, &q, &of_rows);
                    assert_eq!(g.len(), n);
                    for i in 0..n {
                        let moved = |h: f64| {
                            let mut q = q.clone();
                            q[i] += h;
                            f(&q)
                        };
                        let derivative = (moved(1e-3) - moved(-1e-3)) / 2e-3;
                        let close = (derivative - g[i]).abs() < 1e-7 * (1.0 + derivative.abs());
                        assert!(close, "{freedom:?} {flat} {i}: {derivative} {}", g[i]);
                    }
                }
            }
        }
    }
}
