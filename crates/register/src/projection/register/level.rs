//! Images and volume at the scales of a search.

use crate::error::{RegisterError, Result};
use crate::projection::objective::{Sampling, View, XrayObjective};
use crate::projection::scale::{Binned, binned_image};
use crate::projection::similarity::XraySimilarity;
use crate::projection::simulator::Simulator;
use crate::projection::view::ray_view;
use serde::{Deserialize, Serialize};
use voxalign_compute::Device;
use voxalign_compute::ops::raycast::{Along, Pixels, Traversal};
use voxalign_image::{Affine, Vector3, Volume, XrayGeometry, memory};

/// Pixels that are worth comparing at a scale, of each view.
pub(super) const WORTH: f64 = 16384.0;
/// The least number of pixels of a sparse draw: fewer are too few at coarse scales.
const LEAST: f64 = 1024.0;
/// Columns and rows that a coarse image has at least.
const SMALLEST: usize = 20;
/// The margin around the image of the CT that is compared with it, pixels.
const BESIDE: usize = 4;
/// Columns and rows that one has at least where its size was asked for.
const FEWEST: usize = 4;

/// Possible mix-ups of X-ray images; views are numbered from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Suspect {
    /// One is mirrored, left to right.
    Mirrored(usize),
    /// All are.
    AllMirrored,
    /// Two are exchanged.
    Exchanged(usize, usize),
}

impl std::fmt::Display for Suspect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Mirrored(view) => {
                write!(f, "the image of view {} mirrored left to right", view + 1)
            }
            Self::AllMirrored => f.write_str("all images mirrored left to right"),
            Self::Exchanged(a, b) => {
                write!(f, "the images of views {} and {} exchanged", a + 1, b + 1)
            }
        }
    }
}

/// An X-ray image at a scale.
struct Coarse {
    geometry: XrayGeometry,
    image: Vec<f32>,
    region: Option<[usize; 4]>,
    without: Option<Vec<bool>>,
    /// Columns and rows of the image that one of its pixels has.
    factor: usize,
}

impl Coarse {
    fn view(&self) -> View<'_> {
        let without = self.without.as_deref();
        View { geometry: &self.geometry, image: &self.image, region: self.region, without }
    }

    /// The same.
    fn copied(&self) -> Result<Self> {
        let (geometry, region, factor) = (self.geometry, self.region, self.factor);
        let without = self.without.as_deref().map(memory::copied).transpose()?;
        Ok(Self { geometry, image: memory::copied(&self.image)?, region, without, factor })
    }
}

/// All images at a scale.
pub(super) struct Level<'c, D: Device> {
    /// The size of a pixel at the place of the CT, mm.
    pub(super) size: f64,
    ct: &'c Simulator<'c, D>,
    views: Vec<Coarse>,
}

/// The pixels of a view that count, and those that are simulated.
pub(super) struct Shown {
    pub(super) dims: [usize; 2],
    pub(super) taken: Vec<f32>,
    pub(super) simulated: Vec<f32>,
    /// Whether each pixel is left out, where some are.
    pub(super) without: Option<Vec<bool>>,
}

/// What is compared at a scale.
#[derive(Debug, Clone, Copy)]
pub(super) struct Compared {
    pub(super) similarity: XraySimilarity,
    /// The fraction of the pixels that was asked for.
    pub(super) part: Option<f64>,
    /// The number of pixels of a view that pays where no fraction was asked for.
    pub(super) worth: f64,
    /// The random seed of pixel draws.
    pub(super) seed: u64,
    /// Whether every evaluation draws anew.
    pub(super) anew: bool,
}

impl Compared {
    /// Pixels as options have them.
    pub(super) fn by(options: &super::PoseOptions, seed: u64) -> Self {
        let (similarity, part, anew) = (options.similarity, options.sampling, options.redraw);
        Self { similarity, part, worth: WORTH, seed, anew }
    }
}

/// The size of a pixel of a view at a point, mm.
pub(super) fn at_point(view: &View<'_>, point: Vector3<f64>) -> f64 {
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

/// Scales beyond a last one: at most this many.
const FINER: usize = 3;

/// The sizes of pixels, each half of that before, of finer scales than a last one, as far as the images have finer pixels.
pub(super) fn finer(views: &[View<'_>], centre: Vector3<f64>, last: f64) -> Vec<f64> {
    let halves = (1..=FINER).map(|n| last / f64::from(1u32 << n));
    let tells =
        |size: &f64| views.iter().any(|v| factor(v, *size, centre) < factor(v, 2.0 * size, centre));
    halves.take_while(tells).collect()
}

fn factor(view: &View<'_>, size: f64, centre: Vector3<f64>) -> usize {
    ((size / at_point(view, centre)).round() as usize).max(1)
}

impl<'c, D: Device> Level<'c, D> {
    /// All images with pixels of this size at a point of the room, and the CT at that scale.
    pub(super) fn new(
        ct: &'c Simulator<'c, D>,
        views: &[View<'_>],
        size: f64,
        centre: Vector3<f64>,
    ) -> Result<Self> {
        let coarse = |view: &View<'_>| {
            let factor = factor(view, size, centre);
            let whole = view.geometry.dims();
            let [x, y, w, h] = view.region.unwrap_or([0, 0, whole[0], whole[1]]);
            // What is whole in the region.
            let begin = [x, y].map(|b| b.div_ceil(factor));
            let end = [(x + w) / factor, (y + h) / factor];
            let counts = [0, 1].map(|a| end[a].saturating_sub(begin[a]));
            if factor > 1 && counts.iter().any(|n| *n < FEWEST) {
                return Err(RegisterError::option(
                    "levels",
                    format!(
                        "{size} mm, which leaves {} x {} pixels to compare",
                        counts[0], counts[1]
                    ),
                    format!("give smaller ones: {FEWEST} x {FEWEST} pixels are needed"),
                ));
            }
            let binned = binned_image(view.geometry, view.image, view.without, factor)?;
            let Binned { geometry, image, without } = binned;
            let region = view.region.map(|_| [begin[0], begin[1], counts[0], counts[1]]);
            Ok(Coarse { geometry, image, region, without, factor })
        };
        let views = views.iter().map(coarse).collect::<Result<_>>()?;
        Ok(Self { size, ct, views })
    }

    /// The same, restricted to the parts of the views inside a box around the image of the CT at a pose, with a
    /// margin of a few pixels: pixels beyond do not depend on the pose.
    pub(super) fn around_ct(&self, at: &Affine) -> Result<Self> {
        let cut = |view: &Coarse| {
            let (first, dims) = view.view().counted()?;
            let rays = ray_view(&view.geometry, at, self.ct.grid());
            let pixels = Pixels::region(first, dims);
            let how = Traversal::trilinear(self.step());
            let image = self.ct.images(&[rays], &pixels, how, Along::Integral)?;
            let (mut low, mut high) = (dims, [0, 0]);
            for (i, _) in image.iter().enumerate().filter(|(_, v)| **v > 0.0) {
                for (axis, at) in [i % dims[0], i / dims[0]].into_iter().enumerate() {
                    low[axis] = low[axis].min(at.saturating_sub(BESIDE));
                    high[axis] = high[axis].max((at + BESIDE + 1).min(dims[axis]));
                }
            }
            let seen = (0..2).all(|axis| high[axis] >= low[axis] + FEWEST);
            let part = [first[0] + low[0], first[1] + low[1]];
            let region = seen.then(|| [part[0], part[1], high[0] - low[0], high[1] - low[1]]);
            let all = view.copied()?;
            Ok(Coarse { region: region.or(view.region), ..all })
        };
        Ok(Self {
            size: self.size,
            ct: self.ct,
            views: self.views.iter().map(cut).collect::<Result<_>>()?,
        })
    }

    /// The same with images as something may have happened to them; none where that cannot be, as images have other sizes.
    pub(super) fn suspected(&self, suspect: Suspect) -> Result<Option<Self>> {
        let mirrored = |view: &Coarse| -> Result<Coarse> {
            let columns = view.geometry.dims()[0];
            let mut all = view.copied()?;
            all.image.chunks_mut(columns).for_each(<[f32]>::reverse);
            for line in all.without.iter_mut().flat_map(|w| w.chunks_mut(columns)) {
                line.reverse();
            }
            all.region = view.region.map(|[x, y, w, h]| [columns - x - w, y, w, h]);
            Ok(all)
        };
        let mut views: Vec<Coarse> = Vec::with_capacity(self.views.len());
        for (number, view) in self.views.iter().enumerate() {
            views.push(match suspect {
                Suspect::AllMirrored => mirrored(view)?,
                Suspect::Mirrored(one) if one == number => mirrored(view)?,
                _ => view.copied()?,
            });
        }
        if let Suspect::Exchanged(a, b) = suspect {
            if views[a].geometry.dims() != views[b].geometry.dims() {
                return Ok(None);
            }
            let image = std::mem::take(&mut views[a].image);
            views[a].image = std::mem::replace(&mut views[b].image, image);
            let without = views[a].without.take();
            views[a].without = std::mem::replace(&mut views[b].without, without);
            let region = views[a].region;
            views[a].region = std::mem::replace(&mut views[b].region, region);
        }
        Ok(Some(Self { size: self.size, ct: self.ct, views }))
    }

    /// The pixels of each view that count, of the X-ray image and of the simulated one at a pose.
    pub(super) fn simulated(&self, at: &Affine) -> Result<Vec<Shown>> {
        let one = |view: &Coarse| {
            let (first, dims) = view.view().counted()?;
            let rays = ray_view(&view.geometry, at, self.ct.grid());
            let pixels = Pixels::region(first, dims);
            let how = Traversal::trilinear(self.step());
            let found = self.ct.images(&[rays], &pixels, how, Along::Integral)?;
            let width = view.geometry.dims()[0];
            let rows = || (first[1]..first[1] + dims[1]).map(|y| y * width + first[0]);
            let taken = rows().flat_map(|row| &view.image[row..][..dims[0]]);
            let taken = memory::collected(taken.copied())?;
            let left = |without: &Vec<bool>| {
                memory::collected(rows().flat_map(|row| &without[row..][..dims[0]]).copied())
            };
            let without = view.without.as_ref().map(left).transpose()?;
            Ok(Shown { dims, taken, simulated: found, without })
        };
        self.views.iter().map(one).collect()
    }

    /// Pixels of the part of a view that counts, of these columns and rows, as those of the whole image, of that size.
    pub(super) fn whole(
        &self,
        view: usize,
        dims: [usize; 2],
        part: &[bool],
        [w, h]: [usize; 2],
    ) -> Result<Vec<bool>> {
        let view = &self.views[view];
        let [x, y] = view.view().counted()?.0;
        let one = |i: usize| {
            let at = [i % w / view.factor, i / w / view.factor];
            let (column, row) = (at[0].checked_sub(x), at[1].checked_sub(y));
            let inside = |at: Option<usize>, n: usize| at.filter(|at| *at < n);
            match (inside(column, dims[0]), inside(row, dims[1])) {
                (Some(column), Some(row)) => part[row * dims[0] + column],
                _ => false,
            }
        };
        Ok(memory::collected((0..w * h).map(one))?)
    }

    /// The number of views.
    pub(super) fn count(&self) -> usize {
        self.views.len()
    }

    /// One of its views alone.
    pub(super) fn alone(&self, view: usize) -> Result<Self> {
        Ok(Self { size: self.size, ct: self.ct, views: vec![self.views[view].copied()?] })
    }

    /// The distance of samples along rays: that of neighbouring voxels, at most that of pixels, and a few in front
    /// of every detector.
    pub(super) fn step(&self) -> f64 {
        let step = self.ct.grid().spacing().into_iter().fold(self.size, f64::min);
        let lengths = self.views.iter().map(|v| v.geometry.source_to_detector() / 4.0);
        lengths.fold(step, f64::min)
    }

    /// The views at this scale.
    fn views(&self) -> Vec<View<'_>> {
        self.views.iter().map(Coarse::view).collect()
    }

    /// The fraction of the pixels of the largest view that is compared.
    pub(super) fn fraction(&self, by: Compared) -> f64 {
        let pixels = |v: &Coarse| {
            let [w, h] = v.region.map_or(v.geometry.dims(), |r| [r[2], r[3]]);
            (w * h) as f64
        };
        let most = self.views.iter().map(pixels).fold(1.0, f64::max);
        match by.part {
            Some(fraction) => fraction.max(LEAST / most).min(1.0),
            None => (by.worth / most).min(1.0),
        }
    }

    /// The cost of poses at this scale; where no fraction of the pixels is asked for, the number that pays, but at
    /// least enough to be informative.
    pub(super) fn objective(&self, by: Compared, at: &Affine) -> Result<XrayObjective<'_, D>> {
        self.drawn(by, self.fraction(by), at)
    }

    /// As [`objective`](Self::objective) with exactly this fraction of the pixels.
    pub(super) fn drawn(
        &self,
        by: Compared,
        fraction: f64,
        at: &Affine,
    ) -> Result<XrayObjective<'_, D>> {
        let (seed, anew) = (by.seed, by.anew);
        let sampling = (fraction < 1.0).then_some(Sampling { fraction, seed, anew });
        XrayObjective::new(self.ct, &self.views(), by.similarity, sampling, self.step(), at)
    }
}
