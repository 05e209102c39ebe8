//! The cost of poses by X-ray images.

use super::similarity::{Reference, XraySimilarity};
use super::simulator::Simulator;
use super::view::{ray_view, to_map};
use crate::error::{RegisterError, Result};
use crate::search::objective::{Evaluation, Objective};
use rayon::prelude::*;
use voxalign_compute::Device;
use voxalign_compute::ops::raycast::{Along, Pixels, RayView, Traversal};
use voxalign_image::{Affine, XrayGeometry};

/// An X-ray image with its geometry, and the part of it that counts.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// How it was taken.
    pub geometry: &'a XrayGeometry,
    /// The values of its pixels, row by row: attenuations, larger where more is absorbed.
    pub image: &'a [f32],
    /// The first column and row and the numbers of columns and rows that count; all where there is none.
    pub region: Option<[usize; 4]>,
}

impl View<'_> {
    /// The columns and rows that count: the first and how many.
    ///
    /// # Errors
    /// A region that is empty or not on the detector.
    pub fn counted(&self) -> Result<([usize; 2], [usize; 2])> {
        let dims = self.geometry.dims();
        let [x, y, width, height] = self.region.unwrap_or([0, 0, dims[0], dims[1]]);
        self.geometry.part([x, y], [width, height])?;
        Ok(([x, y], [width, height]))
    }
}

/// A part of the pixels, drawn anew for each objective.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// The part of all, above 0 to 1.
    pub fraction: f64,
    /// What the draw begins with.
    pub seed: u64,
}

/// The most rays of an evaluation with and without derivatives: what a device has room for.
const RAYS: usize = 1 << 22;

struct Prepared {
    geometry: XrayGeometry,
    pixels: Pixels,
    reference: Reference,
}

/// The cost of poses by any number of views: the mean of their costs. Maps lead from the room to the world of the CT.
pub struct XrayObjective<'a, D: Device> {
    ct: &'a Simulator<'a, D>,
    views: Vec<Prepared>,
    similarity: XraySimilarity,
    traversal: Traversal,
    step: f64,
}

impl<'a, D: Device> XrayObjective<'a, D> {
    /// Of a volume of attenuations, 1/mm, with samples `step` mm apart along rays. Histograms of simulated images reach as far as `at`
    /// lets expect.
    ///
    /// # Errors
    /// No views; images of other lengths than their geometry says, or without contrast; regions that cannot be; what fails on the
    /// device.
    pub fn new(
        ct: &'a Simulator<'a, D>,
        views: &[View<'_>],
        similarity: XraySimilarity,
        sampling: Option<Sampling>,
        step: f64,
        at: &Affine,
    ) -> Result<Self> {
        if views.is_empty() {
            return Err(RegisterError::Option {
                option: "number of X-ray images",
                value: "0".to_owned(),
                remedy: "give one or more".to_owned(),
            });
        }
        let traversal = Traversal::trilinear(step);
        let mut all = Self { ct, views: Vec::new(), similarity, traversal, step };
        for view in views {
            let prepared = all.prepared(view, sampling, at)?;
            all.views.push(prepared);
        }
        Ok(all)
    }

    fn prepared(
        &self,
        view: &View<'_>,
        sampling: Option<Sampling>,
        at: &Affine,
    ) -> Result<Prepared> {
        let size = view.geometry.dims();
        let (first, dims) = view.counted()?;
        let pixels = drawn(self.similarity, first, dims, sampling);
        let image = self.ct.device.upload(view.image)?;
        let mut picked = self.ct.device.alloc(pixels.len())?;
        self.ct.device.pick(&image, size, &pixels, &mut picked)?;
        let values = self.ct.device.into_host(picked)?;
        let whole = Pixels::region(first, dims);
        let rays = ray_view(view.geometry, at, &self.ct.grid);
        let found = self.images(&[rays], &whole)?;
        let most = found.iter().fold(0.0f32, |most, &v| most.max(v));
        // What another pose may show at most.
        let reference = Reference::new(values, &pixels, 1.3 * f64::from(most));
        Ok(Prepared { geometry: *view.geometry, pixels, reference })
    }

    fn images(&self, rays: &[RayView], pixels: &Pixels) -> Result<Vec<f32>> {
        self.ct.images(rays, pixels, self.traversal, Along::Integral)
    }

    /// The pixels that are compared, of all views.
    #[must_use]
    pub fn compared(&self) -> usize {
        self.views.iter().map(|view| view.pixels.len()).sum()
    }

    /// The costs of each view at a pose.
    ///
    /// # Errors
    /// What fails on the device.
    pub fn by_view(&self, map: &Affine) -> Result<Vec<f64>> {
        let one = |view: &Prepared| {
            let image =
                self.images(&[ray_view(&view.geometry, map, &self.ct.grid)], &view.pixels)?;
            Ok(self.similarity.cost(&view.reference, &image, None))
        };
        self.views.iter().map(one).collect()
    }

    /// Adds the costs of a view at poses, a batch that the device has room for.
    fn add(
        &self,
        view: &Prepared,
        maps: &[Affine],
        gradient: bool,
        out: &mut [Evaluation],
    ) -> Result<()> {
        let part = 1.0 / self.views.len() as f64;
        let n = view.pixels.len();
        let rays: Vec<_> =
            maps.iter().map(|map| ray_view(&view.geometry, map, &self.ct.grid)).collect();
        let (images, slopes) = if gradient {
            let mut images = self.ct.device.alloc(n * rays.len())?;
            let mut slopes = self.ct.device.alloc(6 * n * rays.len())?;
            let (volume, pixels) = (&self.ct.volume, &view.pixels);
            self.ct.device.project_with_slopes(
                volume,
                &rays,
                pixels,
                self.step,
                &mut images,
                &mut slopes,
            )?;
            (self.ct.device.into_host(images)?, Some(slopes))
        } else {
            (self.images(&rays, &view.pixels)?, None)
        };
        let mut weights = vec![0.0f32; if gradient { images.len() } else { 0 }];
        let cost = |image: &[f32], weights: Option<&mut [f32]>| {
            let seen = image.iter().filter(|v| **v != 0.0).count();
            (self.similarity.cost(&view.reference, image, weights), seen)
        };
        let costs: Vec<(f64, usize)> = if gradient {
            let pairs = images.par_chunks(n).zip(weights.par_chunks_mut(n));
            pairs.map(|(image, weights)| cost(image, Some(weights))).collect()
        } else {
            images.par_chunks(n).map(|image| cost(image, None)).collect()
        };
        for (out, (cost, seen)) in out.iter_mut().zip(&costs) {
            out.cost += part * cost;
            out.overlap += part * *seen as f64 / n as f64;
        }
        let Some(slopes) = slopes else { return Ok(()) };
        let weights = self.ct.device.upload_vec(weights)?;
        let sums = self.ct.device.view_slopes(rays.len(), &view.pixels, &weights, &slopes)?;
        for ((out, map), sums) in out.iter_mut().zip(maps).zip(&sums) {
            let rows = to_map(&view.geometry, map, &self.ct.grid, self.step, sums)?;
            let all = out.gradient.get_or_insert([0.0; 12]);
            for (all, row) in all.iter_mut().zip(rows) {
                *all += part * row;
            }
        }
        Ok(())
    }
}

/// The pixels of a region that are compared.
fn drawn(
    similarity: XraySimilarity,
    first: [usize; 2],
    dims: [usize; 2],
    sampling: Option<Sampling>,
) -> Pixels {
    let whole = Pixels::region(first, dims);
    let Some(Sampling { fraction, seed }) = sampling else { return whole };
    let tile = similarity.tile();
    if tile[0] > dims[0] || tile[1] > dims[1] {
        return whole;
    }
    let wanted = (fraction * (dims[0] * dims[1]) as f64 / (tile[0] * tile[1]) as f64).ceil();
    let mut some = Pixels::drawn(first, dims, tile, 1, seed);
    // Patches that lie on each other cost more than they tell.
    let count = (wanted.max(1.0) as usize).min(some.places());
    if count * tile[0] * tile[1] >= whole.len() {
        return whole;
    }
    if let Some(drawn) = &mut some.drawn {
        drawn.count = count;
    }
    some
}

impl<D: Device> Objective for XrayObjective<'_, D> {
    fn batch(&self) -> usize {
        (RAYS / self.compared().max(1)).clamp(1, 64)
    }

    fn evaluate(&self, maps: &[Affine], gradient: bool) -> Result<Vec<Evaluation>> {
        let none = Evaluation { cost: 0.0, gradient: None, overlap: 0.0 };
        let mut out = vec![none; maps.len()];
        for (maps, out) in maps.chunks(self.batch()).zip(out.chunks_mut(self.batch())) {
            for view in &self.views {
                self.add(view, maps, gradient, out)?;
            }
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Choice;
    use voxalign_compute::cpu::Cpu;
    use voxalign_image::{AffineParameters, CArm, Grid, Vector3, Volume};

    /// Some balls in a box.
    fn ct() -> Volume<f32> {
        let grid = Grid::axis_aligned([40, 36, 32], [2.0, 2.2, 2.5]).unwrap();
        let centre = grid.centre();
        Volume::from_fn(grid.clone(), |x, y, z| {
            let p = grid.index_to_world(Vector3::new(x as f64, y as f64, z as f64)) - centre;
            let ball = |c: [f64; 3], r: f64| {
                1.0 / (1.0 + (((p - Vector3::from(c)).norm() - r) / 1.5).exp())
            };
            let body = ball([0.0, 0.0, 0.0], 26.0) * 0.02;
            (body + 0.03 * ball([10.0, 5.0, -4.0], 7.0) + 0.04 * ball([-9.0, 2.0, 8.0], 5.0)) as f32
        })
    }

    fn arm(centre: Vector3<f64>, primary: f64) -> XrayGeometry {
        CArm {
            source_to_isocentre: 600.0,
            source_to_detector: 1000.0,
            isocentre: centre,
            primary,
            secondary: 0.1,
            pixel_size: [2.5; 2],
            dims: [56, 48],
            centre: None,
        }
        .geometry()
        .unwrap()
    }

    #[test]
    fn gradients_are_derivatives() {
        let (ct, device) = (ct(), Cpu::new(None).unwrap());
        let centre = ct.grid().centre();
        let geometries = [arm(centre, 0.2), arm(centre, 1.6)];
        let pose = |q: [f64; 6]| {
            let turn = Vector3::new(q[3], q[4], q[5]) / 40.0;
            AffineParameters {
                rotation: turn,
                translation: Vector3::new(q[0], q[1], q[2]),
                ..AffineParameters::identity(centre)
            }
            .to_affine()
        };
        let simulator = Simulator::new(&device, &ct).unwrap();
        let shown = |geometry: &XrayGeometry| {
            let at = pose([3.0, -2.0, 4.0, 3.0, -4.0, 2.0]);
            simulator.image(geometry, &at, Traversal::trilinear(1.0), Along::Integral).unwrap()
        };
        let images: Vec<_> = geometries.iter().map(shown).collect();
        let views: Vec<_> = geometries
            .iter()
            .zip(&images)
            .map(|(geometry, image)| View { geometry, image, region: Some([4, 3, 50, 44]) })
            .collect();
        for &kind in XraySimilarity::ALL {
            for sampling in [None, Some(Sampling { fraction: 0.3, seed: 4 })] {
                let at = pose([0.0; 6]);
                let objective =
                    XrayObjective::new(&simulator, &views, kind, sampling, 1.0, &at).unwrap();
                let q0 = [1.0, 0.5, 1.5, 1.0, -1.0, 0.7];
                let way = [0.4, -0.3, 0.5, 0.3, 0.6, -0.4];
                let moved = |by: f64| {
                    let mut q = q0;
                    q.iter_mut().zip(way).for_each(|(q, w)| *q += by * w);
                    pose(q)
                };
                let found = objective.evaluate(&[moved(0.0), moved(0.1)], true).unwrap();
                let alone = objective.evaluate(&[moved(0.0)], false).unwrap();
                assert_eq!(found[0].cost.to_bits(), alone[0].cost.to_bits());
                let by = 0.02;
                let ends = objective.evaluate(&[moved(by), moved(-by)], false).unwrap();
                let expected = (ends[0].cost - ends[1].cost) / (2.0 * by);
                let difference = {
                    let (a, b) = (moved(by).rows(), moved(-by).rows());
                    let all = a.iter().flatten().zip(b.iter().flatten());
                    all.map(|(a, b)| (a - b) / (2.0 * by)).collect::<Vec<_>>()
                };
                let rows = found[0].gradient.unwrap();
                let derivative: f64 = rows.iter().zip(&difference).map(|(g, d)| g * d).sum();
                let name = kind.name();
                let tolerance = if kind == XraySimilarity::L1 { 0.05 } else { 0.02 };
                assert!(
                    (derivative - expected).abs() < tolerance * expected.abs().max(1e-4),
                    "{name} {sampling:?}: {derivative} {expected}"
                );
            }
        }
    }
}
