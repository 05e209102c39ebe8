//! How fast the forces of images change where a body moves.

use super::body::{DeviceMesh, Places, vectors};
use crate::attachment::images::Moved;
use crate::error::Result;
use rayon::prelude::*;
use voxalign_compute::ops::elementwise::{constant, x};
use voxalign_compute::ops::reduce::Reduction;
use voxalign_compute::{Device, DeviceBuffer};
use voxalign_elasticity::Pattern;
use voxalign_image::{Affine, Matrix3, Vector3, memory};

/// Steps after which it is looked anew how fast forces change.
const LOOK_EVERY: usize = 10;

/// By how much the curvature may be above what is counted on before this is raised.
const EXCESS: f64 = 1.2;

/// How much more than what was seen is counted on then.
const MARGIN: f64 = 1.5;

/// The most by which it is raised at once.
const MOST: f64 = 4.0;

/// The part of the largest trace around a vertex that counts in all directions,
const AROUND: f64 = 0.01;

/// and where little is known of what comes: fewer samples than vertices, or forces that are not those of the energy. Of the mean of all
/// as well then.
const AROUND_FEW: f64 = 0.1;
const ANYWHERE: f64 = 0.02;

/// For each vertex the change of its force by its displacement, mN/mm, for an energy whose [curvature] in the value of a voxel is the
/// same everywhere. Of a sum over samples, each with the squared product of its gradient with its displacement, those of the vertices of a tetrahedron are
/// put on the diagonal: that is no less, whatever the displacement, as squares are convex.
///
/// [curvature]: crate::attachment::Attachment::curvature
pub(super) struct Coupled {
    /// Sums over samples of weight and `g gᵀ`, 1/mm²; the parts of several images with an own factor each are added up.
    blocks: Vec<Matrix3<f64>>,
    /// mN mm for each of these.
    unit: f64,
    /// The norm of the forces of images that are a voxel off, mN.
    pub(super) voxel_force: f64,
    /// The factor of the curvatures that is counted on.
    curvature: f64,
    /// Whether a factor of the curvatures has to be learnt.
    learns: bool,
    /// Where forces were known last.
    last: Option<At>,
    /// Steps made.
    steps: usize,
}

/// Images that pull, where a displacement of the samples brings the moving ones.
pub(super) struct Pulling<'a, D: Device> {
    pub(super) moved: &'a [Moved<D>],
    pub(super) affine: &'a Affine,
    /// The displacement of the samples, voxels of their grid.
    pub(super) field: &'a D::Buffer<f32>,
    pub(super) warped: &'a [D::Buffer<f32>],
    pub(super) weights: Option<&'a D::Buffer<f32>>,
    /// The curvature of the energy in each moving image, where it is known.
    pub(super) curvatures: &'a [Option<f64>],
    /// Whether forces are those of the energy.
    pub(super) consistent: bool,
}

/// What blocks are sums of.
pub(super) struct Sampled {
    /// What one is, mN mm.
    pub(super) unit: f64,
    /// How far samples are apart, mm.
    pub(super) voxel: f64,
    /// Whether blocks tell how forces change also a little farther on: forces of the energy at many samples.
    pub(super) whole: bool,
    /// Whether some curvature is not known.
    pub(super) learns: bool,
}

/// Displacements, and the forces there.
pub(super) struct At {
    displacements: Vec<Vector3<f64>>,
    forces: Vec<Vector3<f64>>,
}

impl At {
    /// Displacements of vertices, mm, and the forces on them, mN.
    pub(super) fn of<D: Device>(
        device: &D,
        displacements: &D::Buffer<f32>,
        forces: &D::Buffer<f32>,
    ) -> Result<Self> {
        let displacements = vectors(&device.download(displacements)?);
        Ok(Self { displacements, forces: vectors(&device.download(forces)?) })
    }
}

impl Coupled {
    /// Where images are now. `pressure` is what their energy is multiplied by, kPa.
    ///
    /// # Errors
    /// Memory that runs out.
    pub(super) fn new<D: Device>(
        device: &D,
        (mesh, places): (&DeviceMesh<D>, &Places<D>),
        images: &Pulling<'_, D>,
        pressure: f64,
        pattern: &Pattern,
    ) -> Result<Self> {
        let &Pulling { moved, affine, field, warped, weights, curvatures, consistent } = images;
        let (dims, n) = (places.grid.dims(), places.grid.len());
        let mut blocks = memory::filled(mesh.vertices, Matrix3::zeros())?;
        let mut root = device.alloc(n)?;
        match weights {
            Some(weights) => {
                device.eval(&x(0).max(0.0).sqrt(), &[weights], &[], None, &mut root)?
            }
            None => device.eval_in_place(&constant(1.0), &mut root, &[], &[], None)?,
        }
        let (mut gradient, mut next) = (device.alloc(3 * n)?, device.alloc(3 * n)?);
        let (mut product, mut sums) = (device.alloc(3 * n)?, device.alloc(3 * mesh.vertices)?);
        for ((moved, warped), curvature) in moved.iter().zip(warped).zip(curvatures) {
            let from = &moved.image;
            let m = affine.then(from.grid.to_index()).matrix;
            // The gradient, and the same with its components moved on by one.
            for (out, shift) in [(&mut gradient, 0), (&mut next, 1)] {
                let units = [0, 1, 2].map(|r| [0, 1, 2].map(|c| m[(r, (c + shift) % 3)]));
                let (values, size) = (&from.values, from.grid.dims());
                device.force_at(&root, values, size, &moved.map, field, dims, &units, out)?;
            }
            let factor = match curvature {
                Some(curvature) => *curvature,
                // As of a squared difference of values whose variance is 1.
                None => 2.0 / variance(device, warped, weights)?.max(f64::MIN_POSITIVE),
            };
            for other in [&gradient, &next] {
                device.eval(&(x(0) * x(1)), &[&gradient, other], &[], None, &mut product)?;
                let gather = places.gather(mesh);
                device.to_nodes(&places.placed(mesh), gather, &product, &mut sums)?;
                let sums = vectors(&device.download(&sums)?);
                let is_diagonal = std::ptr::eq(other, &gradient);
                blocks.iter_mut().zip(&sums).for_each(|(block, s)| {
                    for a in 0..3 {
                        let b = (a + usize::from(!is_diagonal)) % 3;
                        block[(a, b)] += factor * s[a];
                        if a != b {
                            block[(b, a)] += factor * s[a];
                        }
                    }
                });
            }
        }
        // A sample stands for a voxel, of those that count.
        let unit = pressure * places.grid.voxel_volume();
        let learns = curvatures.iter().any(Option::is_none);
        let voxel = places.grid.voxel_volume().cbrt();
        let whole = consistent && n >= mesh.vertices;
        Self::of(blocks, Sampled { unit, voxel, whole, learns }, pattern)
    }

    /// Of sums over the samples around each vertex, 1/mm².
    ///
    /// # Errors
    /// Memory that runs out.
    pub(super) fn of(
        mut blocks: Vec<Matrix3<f64>>,
        Sampled { unit, voxel, whole, learns }: Sampled,
        pattern: &Pattern,
    ) -> Result<Self> {
        let voxel_force = Self::of_a_shift(&blocks, unit, voxel);
        spread(&mut blocks, pattern, if whole { [AROUND, 0.0] } else { [AROUND_FEW, ANYWHERE] })?;
        Ok(Self { blocks, unit, voxel_force, curvature: 1.0, learns, last: None, steps: 0 })
    }

    /// The norm of the forces of images that are shifted by a voxel, whatever the direction, if they were the same at all vertices: blocks are sums
    /// of rows of the whole matrix of changes, and so tell the force of a shift exactly.
    fn of_a_shift(blocks: &[Matrix3<f64>], unit: f64, voxel: f64) -> f64 {
        let force = |b: &Matrix3<f64>| unit * voxel * b.trace() / 3.0;
        blocks.iter().map(force).sum::<f64>() / (blocks.len().max(1) as f64).sqrt()
    }

    /// Whether it learns from forces and displacements how fast forces change: where no curvature is known.
    pub(super) fn learns(&self) -> bool {
        self.learns
    }

    /// Looks at the forces before a step, where it learns; the blocks, mN/mm, where other ones have to be counted on from now on. `now` tells how fast forces
    /// change there.
    ///
    /// # Errors
    /// Memory that runs out; those of `now`.
    pub(super) fn look(
        &mut self,
        at: Option<At>,
        now: impl FnOnce() -> Result<Self>,
    ) -> Result<Option<Vec<Matrix3<f64>>>> {
        self.steps += 1;
        let mut changed = self.steps.is_multiple_of(LOOK_EVERY) && self.take(now()?);
        if let Some(last) = std::mem::replace(&mut self.last, at) {
            changed |= self.learn(&last);
        }
        changed.then(|| self.blocks()).transpose()
    }

    /// Counts on the larger of these and those where the images are by now; whether that is more than before at some vertex.
    fn take(&mut self, now: Self) -> bool {
        let mut changed = false;
        for (own, now) in self.blocks.iter_mut().zip(now.blocks) {
            if now.trace() > EXCESS * own.trace() {
                (*own, changed) = (now, true);
            }
        }
        changed
    }

    /// The blocks, mN/mm.
    ///
    /// # Errors
    /// Memory that runs out.
    pub(super) fn blocks(&self) -> Result<Vec<Matrix3<f64>>> {
        Ok(memory::collected(self.blocks.iter().map(|b| b * (self.unit * self.curvature)))?)
    }

    /// Compares the last forces with those before; whether more has to be counted on from now on.
    fn learn(&mut self, before: &At) -> bool {
        let Some(after) = &self.last else { return false };
        let n = self.blocks.len();
        let terms: Vec<[f64; 2]> = (0..n)
            .into_par_iter()
            .map(|i| {
                let d = after.displacements[i] - before.displacements[i];
                let fall = (before.forces[i] - after.forces[i]).dot(&d);
                [fall, d.dot(&(self.blocks[i] * d)) * self.unit]
            })
            .collect();
        let [fall, counted] =
            terms.iter().fold([0.0; 2], |sums, term| [sums[0] + term[0], sums[1] + term[1]]);
        let seen = if counted > 0.0 { fall / counted } else { 0.0 };
        if seen <= EXCESS * self.curvature {
            return false;
        }
        self.curvature = (MARGIN * seen).min(MOST * self.curvature);
        true
    }
}

/// Adds to the block of each vertex, whatever the direction, a part of the largest trace around it, as edges move, and one of the mean of all.
fn spread(
    blocks: &mut [Matrix3<f64>],
    pattern: &Pattern,
    [around, anywhere]: [f64; 2],
) -> Result<()> {
    let traces: Vec<f64> = memory::collected(blocks.iter().map(Matrix3::trace))?;
    let mean = traces.iter().sum::<f64>() / traces.len().max(1) as f64;
    for (i, block) in blocks.iter_mut().enumerate() {
        let row = pattern.rows()[i]..pattern.rows()[i + 1];
        let near = pattern.columns()[row].iter().map(|&j| traces[j as usize]).fold(0.0, f64::max);
        *block += Matrix3::identity() * (around * near + anywhere * mean);
    }
    Ok(())
}

/// The variance of the values of an image.
pub(super) fn variance<D: Device>(
    device: &D,
    values: &D::Buffer<f32>,
    weights: Option<&D::Buffer<f32>>,
) -> Result<f64> {
    let [count, sum, squares] = match weights {
        None => {
            let sums = [Reduction::Sum(0), Reduction::SumSquares(0)];
            let sums = device.reduce(&[values], &sums)?;
            [values.len() as f64, sums[0], sums[1]]
        }
        Some(weights) => {
            let mut weighed = device.alloc(values.len())?;
            device.eval(&(x(0) * x(1)), &[values, weights], &[], None, &mut weighed)?;
            let sums = [Reduction::Sum(1), Reduction::Sum(2), Reduction::Dot(0, 2)];
            let sums = device.reduce(&[values, weights, &weighed], &sums)?;
            [sums[0], sums[1], sums[2]]
        }
    };
    let mean = sum / count.max(1.0);
    Ok((squares / count.max(1.0) - mean * mean).max(0.0))
}
