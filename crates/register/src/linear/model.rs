//! The transform model: a pose and the parameters by which a search moves it.

use voxalign_image::{Affine, Matrix3, Vector3};

/// What a search may change. Lengths are in mm: a unit of any parameter moves the head by about a
/// millimetre, so that one optimiser setting serves all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Freedom {
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

/// What stays the same during a registration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Model {
    /// Centre of the linear part, fixed world mm.
    pub(super) centre: Vector3<f64>,
    /// Axes of scales and shears in the fixed world, as columns: the world's in 3D, those of the
    /// slice in 2D.
    pub(super) frame: Matrix3<f64>,
    /// Axes of rotation and translation in the moving world, as columns: the world's in 3D, those
    /// of the moving slice in 2D.
    pub(super) target: Matrix3<f64>,
    /// Typical distance of the object from the centre, mm.
    pub(super) radius: f64,
    /// Whether the images are flat.
    pub(super) flat: bool,
}

/// A transform in the terms of a [`Model`]: `x -> G R S K F' (x - c) + c + t` with the frames `F` of
/// the fixed and `G` of the moving world.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pose {
    /// Rotation `R` in the model's frame (may hold the reflection of a given start).
    pub(super) rotation: Matrix3<f64>,
    /// Translation of the centre, world mm.
    pub(super) translation: Vector3<f64>,
    /// Logarithms of the scales `S`.
    pub(super) log_scale: Vector3<f64>,
    /// Shears xy, xz, yz of `K`.
    pub(super) shear: Vector3<f64>,
}

#[cfg(test)]
impl Pose {
    /// A translation.
    pub(super) fn at(translation: Vector3<f64>) -> Self {
        Self {
            rotation: Matrix3::identity(),
            translation,
            log_scale: Vector3::zeros(),
            shear: Vector3::zeros(),
        }
    }
}

fn rotation(v: Vector3<f64>) -> Matrix3<f64> {
    *nalgebra::Rotation3::new(v).matrix()
}

impl Model {
    /// Number of parameters of a freedom.
    #[must_use]
    pub(super) fn parameters(&self, freedom: Freedom) -> usize {
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
    pub(super) fn affine(&self, pose: &Pose) -> Affine {
        let k = pose.shear;
        let shear = Matrix3::new(1.0, k[0], k[1], 0.0, 1.0, k[2], 0.0, 0.0, 1.0);
        let scale = Matrix3::from_diagonal(&pose.log_scale.map(f64::exp));
        let linear = self.target * (pose.rotation * scale * shear) * self.frame.transpose();
        Affine::about(linear, self.centre, pose.translation)
    }

    /// The pose of an affine map (the inverse of [`Model::affine`]).
    #[must_use]
    pub(super) fn pose_of(&self, affine: &Affine) -> Pose {
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
    pub(super) fn moved(&self, pose: &Pose, freedom: Freedom, q: &[f64]) -> Pose {
        let mut new = *pose;
        let mut rest = q.iter().copied();
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

    /// Carries a derivative in the rows of the affine map to one in the parameters at `q`, by
    /// central differences of the (smooth, cheap) map from parameters to rows.
    #[must_use]
    pub(super) fn gradient(
        &self,
        pose: &Pose,
        freedom: Freedom,
        q: &[f64],
        of_rows: &[f64; 12],
    ) -> Vec<f64> {
        const H: f64 = 1e-3;
        let mut at = q.to_vec();
        (0..q.len())
            .map(|i| {
                at[i] = q[i] + H;
                let up = self.affine(&self.moved(pose, freedom, &at)).rows();
                at[i] = q[i] - H;
                let down = self.affine(&self.moved(pose, freedom, &at)).rows();
                at[i] = q[i];
                let mut sum = 0.0;
                for r in 0..3 {
                    for c in 0..4 {
                        sum += of_rows[4 * r + c] * (up[r][c] - down[r][c]) / (2.0 * H);
                    }
                }
                sum
            })
            .collect()
    }
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
        let m = model(false);
        let base = Pose::at(Vector3::new(3.0, 1.0, 0.0));
        let of_rows: [f64; 12] = std::array::from_fn(|i| (i as f64).cos());
        let f = |q: &[f64]| -> f64 {
            let rows = m.affine(&m.moved(&base, Freedom::Affine, q)).rows();
            rows.iter().flatten().zip(&of_rows).map(|(a, b)| a * b).sum()
        };
        let q: Vec<f64> = (0..12).map(|i| i as f64 * 0.5 - 2.0).collect();
        let g = m.gradient(&base, Freedom::Affine, &q, &of_rows);
        for i in 0..12 {
            let mut up = q.clone();
            up[i] += 1e-4;
            let mut down = q.clone();
            down[i] -= 1e-4;
            let slope = (f(&up) - f(&down)) / 2e-4;
            assert!((slope - g[i]).abs() < 1e-5 * (1.0 + slope.abs()), "{i}");
        }
    }
}
