//! The cost of poses against X-ray images.

pub(super) mod scores;

use super::similarity::{Reference, XraySimilarity};
use super::simulator::Simulator;
use super::view::{ray_view, to_map};
use crate::error::{RegisterError, Result};
use crate::search::objective::{Evaluation, Objective};
use rayon::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};
use voxalign_compute::Device;
use voxalign_compute::ops::raycast::{Along, Pixels, RayView, Traversal};
use voxalign_image::{Affine, Vector3, XrayGeometry, memory};

/// An X-ray image with its geometry, and the part of it that counts.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// How it was taken.
    pub geometry: &'a XrayGeometry,
    /// The values of its pixels, row by row: attenuations, larger where more is absorbed.
    pub image: &'a [f32],
    /// The first column and row and the numbers of columns and rows that count; all where there is none.
    pub region: Option<[usize; 4]>,
    /// Whether each pixel is left out, row by row; those of no mask are not.
    pub without: Option<&'a [bool]>,
}

impl View<'_> {
    /// The columns and rows that count: the first and the number.
    ///
    /// # Errors
    /// A region that is empty or not on the detector.
    pub fn counted(&self) -> Result<([usize; 2], [usize; 2])> {
        let dims = self.geometry.dims();
        let [x, y, width, height] = self.region.unwrap_or([0, 0, dims[0], dims[1]]);
        self.geometry.part([x, y], [width, height])?;
        if let Some(without) = self.without.filter(|w| w.len() != dims[0] * dims[1]) {
            return Err(RegisterError::option(
                "mask of an X-ray image",
                format!("{} pixels", without.len()),
                format!("its geometry has {} x {}", dims[0], dims[1]),
            ));
        }
        Ok(([x, y], [width, height]))
    }
}

/// A fraction of the pixels, drawn at random.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// The part of all, above 0 to 1.
    pub fraction: f64,
    /// The random seed of the draw.
    pub seed: u64,
    /// Whether every evaluation draws others, one after the other from the seed on; without, an objective keeps its own.
    pub anew: bool,
}

/// The most rays of an evaluation with and without derivatives: what a device has room for.
const RAYS: usize = 1 << 22;

/// A view as it is compared.
struct Prepared<D: Device> {
    geometry: XrayGeometry,
    /// The whole image, for other draws.
    image: D::Buffer<f32>,
    /// The first column and row that count, and their numbers.
    counted: ([usize; 2], [usize; 2]),
    /// Whether each pixel of the whole image is left out, where some are.
    without: Option<Vec<bool>>,
    /// The largest extent of simulated images.
    most: f64,
    drawn: Drawn,
}

/// The pixels of a view that are compared, and the X-ray image there.
struct Drawn {
    pixels: Pixels,
    reference: Reference,
}

/// The cost of poses by any number of views: the mean of their costs. Maps lead from the room to the world of the CT.
pub struct XrayObjective<'a, D: Device> {
    ct: &'a Simulator<'a, D>,
    views: Vec<Prepared<D>>,
    similarity: XraySimilarity,
    sampling: Option<Sampling>,
    traversal: Traversal,
    step: f64,
    draws: AtomicU64,
}

impl<'a, D: Device> XrayObjective<'a, D> {
    /// Of a volume of attenuations, 1/mm, with samples `step` mm apart along rays. Histograms of simulated images reach as far as
    /// images near `at` let expect.
    ///
    /// # Errors
    /// No views; images of other lengths than their geometry says; regions that cannot be; what fails on the device.
    pub fn new(
        ct: &'a Simulator<'a, D>,
        views: &[View<'_>],
        similarity: XraySimilarity,
        sampling: Option<Sampling>,
        step: f64,
        at: &Affine,
    ) -> Result<Self> {
        if views.is_empty() {
            return Err(RegisterError::option("number of X-ray images", "0", "give one or more"));
        }
        let traversal = Traversal::trilinear(step);
        let draws = AtomicU64::new(0);
        let mut all = Self { ct, views: Vec::new(), similarity, sampling, traversal, step, draws };
        for view in views {
            let prepared = all.prepared(view, at)?;
            all.views.push(prepared);
        }
        Ok(all)
    }

    fn prepared(&self, view: &View<'_>, at: &Affine) -> Result<Prepared<D>> {
        let geometry = *view.geometry;
        let counted = view.counted()?;
        let image = self.ct.device.upload(view.image)?;
        let most = match self.similarity.needs_range() {
            true => self.most(&geometry, counted, at)?,
            false => 0.0,
        };
        let without = view.without.map(memory::copied).transpose()?;
        let from = (&geometry, &image, without.as_deref());
        let drawn = self.draw(from, counted, most, 0)?;
        Ok(Prepared { geometry, image, counted, without, most, drawn })
    }

    /// The largest extent of simulated images: a little more than the image at a pose, and than the one with the CT
    /// centred in the views.
    fn most(
        &self,
        geometry: &XrayGeometry,
        (first, dims): ([usize; 2], [usize; 2]),
        at: &Affine,
    ) -> Result<f64> {
        let whole = Pixels::region(first, dims);
        let back = at.inverse()?;
        let middle = back.apply(self.ct.grid.centre());
        let pixel = [0, 1].map(|a| first[a] as f64 + (dims[a] as f64 - 1.0) / 2.0);
        let ray: Vector3<f64> =
            (geometry.place(pixel[0], pixel[1]) - geometry.source()).normalize();
        let along = ray.dot(&geometry.normal()).abs();
        let depth = (middle - geometry.source()).dot(&geometry.normal()).abs();
        let seen = geometry.source() + ray * (depth / along.max(1e-3));
        // The room moved so that this place maps to the middle of the CT.
        let mut centred = *at;
        centred.offset += at.matrix * (middle - seen);
        let mut most = 0.0f32;
        for pose in [at, &centred] {
            let found = self.images(&[ray_view(geometry, pose, &self.ct.grid)], &whole)?;
            most = found.iter().fold(most, |most, &v| most.max(v));
        }
        Ok(1.3 * f64::from(most))
    }

    /// The pixels of a draw, and the X-ray image there.
    fn draw(
        &self,
        (geometry, image, without): (&XrayGeometry, &D::Buffer<f32>, Option<&[bool]>),
        (first, dims): ([usize; 2], [usize; 2]),
        most: f64,
        number: u64,
    ) -> Result<Drawn> {
        let sampling =
            self.sampling.map(|s| Sampling { seed: s.seed.wrapping_add(number << 24), ..s });
        let pixels = drawn(self.similarity, first, dims, sampling);
        let mut picked = self.ct.device.alloc(pixels.len())?;
        self.ct.device.pick(image, geometry.dims(), &pixels, &mut picked)?;
        let values = self.ct.device.into_host(picked)?;
        let mut reference = Reference::new(values, &pixels, most);
        if let Some(without) = without {
            let width = geometry.dims()[0];
            let counts = |i: usize| {
                let [x, y] = pixels.at(i);
                !without[y * width + x]
            };
            reference = reference.counting(memory::collected((0..pixels.len()).map(counts))?);
        }
        Ok(Drawn { pixels, reference })
    }

    /// Another draw of a view.
    fn draw_of(&self, view: &Prepared<D>, number: u64) -> Result<Drawn> {
        let from = (&view.geometry, &view.image, view.without.as_deref());
        self.draw(from, view.counted, view.most, number)
    }

    fn images(&self, rays: &[RayView], pixels: &Pixels) -> Result<Vec<f32>> {
        self.ct.images(rays, pixels, self.traversal, Along::Integral)
    }

    /// The pixels that are compared, of all views.
    #[must_use]
    pub fn compared(&self) -> usize {
        self.views.iter().map(|view| view.drawn.pixels.len()).sum()
    }

    /// The number of views.
    #[must_use]
    pub fn views(&self) -> usize {
        self.views.len()
    }

    /// Draws other pixels where a part of them is compared.
    ///
    /// # Errors
    /// What fails on the device.
    pub fn redraw(&mut self) -> Result<()> {
        let number = self.draws.fetch_add(1, Ordering::Relaxed) + 1;
        let drawn: Vec<Drawn> =
            self.views.iter().map(|v| self.draw_of(v, number)).collect::<Result<_>>()?;
        for (view, drawn) in self.views.iter_mut().zip(drawn) {
            view.drawn = drawn;
        }
        Ok(())
    }

    /// The pixels that count, of all views.
    #[must_use]
    pub fn counted(&self) -> usize {
        self.views.iter().map(|view| view.counted.1.iter().product::<usize>()).sum()
    }

    /// The costs of each view at a pose.
    ///
    /// # Errors
    /// What fails on the device.
    pub fn by_view(&self, map: &Affine) -> Result<Vec<f64>> {
        let one = |view: &Prepared<D>| {
            let Drawn { pixels, reference } = &view.drawn;
            let image = self.images(&[ray_view(&view.geometry, map, &self.ct.grid)], pixels)?;
            Ok(self.similarity.cost(reference, &image, None))
        };
        self.views.iter().map(one).collect()
    }

    /// How a view was taken.
    pub(crate) fn geometry(&self, view: usize) -> &XrayGeometry {
        &self.views[view].geometry
    }

    /// Changes the geometry of a view from now on.
    pub(crate) fn take_from(&mut self, view: usize, geometry: &XrayGeometry) {
        self.views[view].geometry = *geometry;
    }

    /// Adds the costs of all views at poses, a batch that the device has room for.
    fn add(
        &self,
        drawn: &[&Drawn],
        maps: &[Affine],
        gradient: bool,
        out: &mut [Evaluation],
    ) -> Result<()> {
        let (device, part) = (self.ct.device, 1.0 / self.views.len() as f64);
        let views = || self.views.iter().zip(drawn);
        // All are on their way before the first one is waited for.
        let mut simulated = Vec::with_capacity(drawn.len());
        for (view, Drawn { pixels, .. }) in views() {
            let rays: Vec<_> =
                maps.iter().map(|map| ray_view(&view.geometry, map, &self.ct.grid)).collect();
            let mut images = device.alloc(pixels.len() * rays.len())?;
            let mut derivatives = None;
            if gradient {
                let derivatives = derivatives.insert(device.alloc(6 * pixels.len() * rays.len())?);
                let (volume, step) = (&self.ct.volume, self.step);
                device.project_with_derivatives(
                    volume,
                    &rays,
                    pixels,
                    step,
                    &mut images,
                    derivatives,
                )?;
            } else {
                let (how, along) = (self.traversal, Along::Integral);
                device.project(&self.ct.volume, &rays, pixels, how, along, &mut images)?;
            }
            simulated.push((images, derivatives));
        }
        let mut compared = Vec::with_capacity(drawn.len());
        for ((images, derivatives), Drawn { pixels, .. }) in simulated.into_iter().zip(drawn) {
            let images = device.into_host(images)?;
            let room = if gradient { images.len() } else { 0 };
            compared.push((images, memory::zeroed::<f32>(room)?, pixels.len(), derivatives));
        }
        let similarity = self.similarity;
        let cost = |reference: &Reference, image: &[f32], weights: Option<&mut [f32]>| {
            let seen = image.iter().filter(|v| **v != 0.0).count();
            (similarity.cost(reference, image, weights), seen)
        };
        let costs: Vec<Vec<(f64, usize)>> = compared
            .par_iter_mut()
            .zip(drawn)
            .map(|((images, weights, n, _), Drawn { reference, .. })| {
                let images = images.par_chunks(*n);
                if gradient {
                    let pairs = images.zip(weights.par_chunks_mut(*n));
                    pairs.map(|(image, w)| cost(reference, image, Some(w))).collect()
                } else {
                    images.map(|image| cost(reference, image, None)).collect()
                }
            })
            .collect();
        for (costs, (_, _, n, _)) in costs.iter().zip(&compared) {
            for (out, (cost, seen)) in out.iter_mut().zip(costs) {
                out.cost += part * cost;
                out.overlap += part * *seen as f64 / *n as f64;
            }
        }
        for ((_, weights, _, derivatives), (view, Drawn { pixels, .. })) in
            compared.into_iter().zip(views())
        {
            let Some(derivatives) = derivatives else { continue };
            let weights = device.upload_vec(weights)?;
            let sums = device.view_derivatives(maps.len(), pixels, &weights, &derivatives)?;
            for ((out, map), sums) in out.iter_mut().zip(maps).zip(&sums) {
                let rows = to_map(&view.geometry, map, &self.ct.grid, self.step, sums)?;
                let all = out.gradient.get_or_insert([0.0; 12]);
                for (all, row) in all.iter_mut().zip(rows) {
                    *all += part * row;
                }
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
    let Some(Sampling { fraction, seed, .. }) = sampling else { return whole };
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
        let mut others = Vec::new();
        if self.sampling.is_some_and(|s| s.anew) {
            let number = self.draws.fetch_add(1, Ordering::Relaxed) + 1;
            for v in &self.views {
                others.push(self.draw_of(v, number)?);
            }
        }
        let drawn: Vec<&Drawn> = match others.is_empty() {
            true => self.views.iter().map(|v| &v.drawn).collect(),
            false => others.iter().collect(),
        };
        for (maps, out) in maps.chunks(self.batch()).zip(out.chunks_mut(self.batch())) {
            self.add(&drawn, maps, gradient, out)?;
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
            .map(|(geometry, image)| View {
                geometry,
                image,
                region: Some([4, 3, 50, 44]),
                without: None,
            })
            .collect();
        for &kind in XraySimilarity::ALL {
            for sampling in [None, Some(Sampling { fraction: 0.3, seed: 4, anew: false })] {
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

    #[test]
    fn draws_are_anew_and_the_same_from_the_same_seed() {
        let (ct, device) = (ct(), Cpu::new(None).unwrap());
        let geometry = arm(ct.grid().centre(), 0.2);
        let simulator = Simulator::new(&device, &ct).unwrap();
        let at = Affine::translation(Vector3::new(3.0, -2.0, 1.0));
        let how = Traversal::trilinear(1.0);
        let image = simulator.image(&geometry, &at, how, Along::Integral).unwrap();
        let views = [View { geometry: &geometry, image: &image, region: None, without: None }];
        let costs = |anew, seed| {
            let sampling = Some(Sampling { fraction: 0.1, seed, anew });
            let kind = XraySimilarity::default();
            let at = Affine::identity();
            let objective = XrayObjective::new(&simulator, &views, kind, sampling, 1.0, &at);
            let objective = objective.unwrap();
            let one = |_| objective.evaluate(&[Affine::identity()], false).unwrap()[0].cost;
            (0..4).map(one).collect::<Vec<f64>>()
        };
        let (kept, anew) = (costs(false, 5), costs(true, 5));
        assert!(kept.iter().all(|c| *c == kept[0]), "{kept:?}");
        assert!(anew.windows(2).all(|pair| pair[0] != pair[1]), "{anew:?}");
        assert_eq!(anew, costs(true, 5));
        assert_ne!(anew, costs(true, 6));
    }
}
