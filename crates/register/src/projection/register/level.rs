//! Images and volume at the scales of a search.

use crate::error::Result;
use crate::projection::objective::{Sampling, View, XrayObjective};
use crate::projection::scale::{binned_image, binned_volume};
use crate::projection::similarity::XraySimilarity;
use crate::projection::simulator::Simulator;
use voxalign_compute::Device;
use voxalign_image::{Affine, Vector3, Volume, XrayGeometry};

/// Pixels that are worth comparing at a scale, of each view.
const WORTH: f64 = 16384.0;
/// Pixels that a sparse draw has at least: fewer tell too little at coarse scales.
const LEAST: f64 = 1024.0;
/// Columns and rows that a coarse image has at least.
const SMALLEST: usize = 20;

/// An X-ray image at a scale.
struct Coarse {
    geometry: XrayGeometry,
    image: Vec<f32>,
    region: Option<[usize; 4]>,
}

impl Coarse {
    fn view(&self) -> View<'_> {
        View { geometry: &self.geometry, image: &self.image, region: self.region }
    }
}

/// All images at a scale.
pub(super) struct Level<'d, D: Device> {
    /// The size of a pixel at the place of the CT, mm.
    pub(super) size: f64,
    ct: Simulator<'d, D>,
    views: Vec<Coarse>,
}

/// The size of a pixel of a view at a point, mm.
fn at_point(view: &View<'_>, point: Vector3<f64>) -> f64 {
    let [a, b] = view.geometry.pixel_size();
    (a * b).sqrt() / view.geometry.magnification(point).unwrap_or(1.0)
}

/// The sizes of pixels of the scales that images are worth, mm, coarse to fine: down to that of the voxels, or of the pixels
/// where they are larger, each half of that before.
pub(super) fn sizes(ct: &Volume<f32>, views: &[View<'_>], centre: Vector3<f64>) -> Vec<f64> {
    let finest = ct.grid().voxel_volume().cbrt();
    let pixel = views.iter().map(|v| at_point(v, centre)).fold(0.0, f64::max);
    let mut sizes = vec![finest.max(pixel)];
    while sizes.len() < 4 {
        let next = 2.0 * sizes[0];
        let fits = |view: &View<'_>| {
            let factor = factor(view, next, centre);
            let size = view.region.map_or(view.geometry.dims(), |r| [r[2], r[3]]);
            size.iter().all(|n| n / factor >= SMALLEST)
        };
        if !views.iter().all(fits) {
            break;
        }
        sizes.insert(0, next);
    }
    sizes
}

fn factor(view: &View<'_>, size: f64, centre: Vector3<f64>) -> usize {
    ((size / at_point(view, centre)).round() as usize).max(1)
}

impl<'d, D: Device> Level<'d, D> {
    /// All images with pixels of this size at a point of the room.
    pub(super) fn new(
        device: &'d D,
        ct: &Volume<f32>,
        views: &[View<'_>],
        size: f64,
        centre: Vector3<f64>,
    ) -> Result<Self> {
        let factors = ct.grid().spacing().map(|s| ((size / s + 0.2).floor() as usize).max(1));
        let coarse = |view: &View<'_>| {
            let factor = factor(view, size, centre);
            let (geometry, image) = binned_image(view.geometry, view.image, factor)?;
            // What is whole in the region.
            let region = view.region.map(|[x, y, w, h]| {
                let begin = [x, y].map(|b| b.div_ceil(factor));
                let end = [(x + w) / factor, (y + h) / factor];
                let most = geometry.dims();
                let size = [0, 1].map(|a| end[a].min(most[a]).saturating_sub(begin[a]).max(1));
                let begin = [0, 1].map(|a| begin[a].min(most[a] - size[a].min(most[a])));
                [begin[0], begin[1], size[0].min(most[0]), size[1].min(most[1])]
            });
            Ok(Coarse { geometry, image, region })
        };
        let views = views.iter().map(coarse).collect::<Result<_>>()?;
        let ct = match factors {
            [1, 1, 1] => Simulator::new(device, ct)?,
            factors => Simulator::new(device, &binned_volume(ct, factors)?)?,
        };
        Ok(Self { size, ct, views })
    }

    /// The views at this scale.
    pub(super) fn views(&self) -> Vec<View<'_>> {
        self.views.iter().map(Coarse::view).collect()
    }

    /// The samples of a view that are compared for a fraction that was asked for.
    fn fraction(&self, asked: Option<f64>) -> f64 {
        let pixels = |v: &Coarse| {
            let [w, h] = v.region.map_or(v.geometry.dims(), |r| [r[2], r[3]]);
            (w * h) as f64
        };
        let most = self.views.iter().map(pixels).fold(1.0, f64::max);
        match asked {
            Some(fraction) => fraction.max(LEAST / most).min(1.0),
            None => (WORTH / most).min(1.0),
        }
    }

    /// The cost of poses at this scale; draws of pixels begin with `seed`.
    pub(super) fn objective(
        &self,
        similarity: XraySimilarity,
        asked: Option<f64>,
        seed: u64,
        at: &Affine,
    ) -> Result<XrayObjective<'_, D>> {
        let fraction = self.fraction(asked);
        let sampling = (fraction < 1.0).then_some(Sampling { fraction, seed });
        // As far apart as voxels are, at most as pixels.
        let step = self.ct.grid().voxel_volume().cbrt().min(self.size);
        let geometry = self.views.first().map(|v| &v.geometry);
        let step = geometry.map_or(step, |g| step.min(g.source_to_detector() / 4.0));
        XrayObjective::new(&self.ct, &self.views(), similarity, sampling, step, at)
    }
}
