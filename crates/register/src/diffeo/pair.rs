//! One or several pairs of images on their way through the scales, with any model.

use crate::attachment::Attachments;
use crate::attachment::images::{DeviceImage, coarser, factors_for, finest};
use crate::attachment::moving_mask::MovingMask;
use crate::error::{RegisterError, Result};
use crate::model::{Counts, FixedImage, Found, Model, Pull, Sources};
use crate::multiscale::{Course, Deformation, Iteration, Motion, Scale};
use crate::similarity::Energies;
use voxalign_compute::Device;
use voxalign_compute::ops::reduce::Reduction;
use voxalign_image::{Affine, Grid};

/// Calibrated images on a device, and what pulls.
pub(super) struct Prepared<D: Device> {
    pub(super) fixed: Vec<DeviceImage<D>>,
    pub(super) moving: Vec<DeviceImage<D>>,
    /// The mask or weights of the fixed images.
    pub(super) mask: Option<DeviceImage<D>>,
    pub(super) moving_mask: Option<MovingMask<D>>,
    pub(super) attachments: Attachments<D>,
    /// The volume of the object in the fixed and in the moving image, mm³; of all of an image where that is not known.
    pub(super) volumes: [f64; 2],
}

/// The images of a pair, as warped by its model.
pub(super) struct Pair<D: Device, M: Model<D>> {
    device: D,
    images: Prepared<D>,
    model: M,
    state: M::State,
    /// The grid on which the images meet.
    grid: Grid,
    /// The same at the current scale.
    at: Option<Grid>,
    fixed: Vec<DeviceImage<D>>,
    weights: Option<D::Buffer<f32>>,
    /// The volume of the object on the grid where the images meet, mm³.
    volume: f64,
    /// The volume of the voxels that count, mm³.
    counted_volume: f64,
    /// The part that the object has of it.
    share: f64,
}

impl<D: Device, M: Model<D>> Pair<D, M> {
    /// Of images that `affine` carries from the fixed to the moving world, and the grids of what is registered of them; `make` makes
    /// the model.
    pub(super) fn new(
        device: &D,
        mut images: Prepared<D>,
        [fixed, moving]: &[Grid; 2],
        affine: &Affine,
        make: impl Fn(&Grid) -> M,
    ) -> Result<Self> {
        let grid = match images.moving.is_empty() {
            false => M::samples(fixed, moving, affine)?,
            true => fixed.clone(),
        };
        let mut model = make(&grid);
        let finer = |image: DeviceImage<D>| image.with_finer_slices(device);
        images.moving = images.moving.into_iter().map(finer).collect::<Result<_>>()?;
        // Where the fixed images are warped, too.
        if model.sides() == 2 {
            images.fixed = images.fixed.into_iter().map(finer).collect::<Result<_>>()?;
        }
        let state = model.begin(device, affine, images.moving.len())?;
        let volume = M::volume(images.volumes, affine);
        let counted_volume = grid.len() as f64 * grid.voxel_volume();
        Ok(Self {
            device: device.clone(),
            images,
            model,
            state,
            grid,
            at: None,
            fixed: Vec::new(),
            weights: None,
            volume,
            counted_volume,
            share: 1.0,
        })
    }

    /// The result, with fields on a grid.
    pub(super) fn conclude(self, grid: &Grid) -> Result<Found<D, M::Extra>> {
        let Self { device, model, state, images, .. } = self;
        drop(images);
        model.conclude(&device, grid, state)
    }
}

impl<D: Device, M: Model<D>> Deformation for Pair<D, M> {
    type Error = RegisterError;

    fn to_scale(&mut self, scale: &Scale) -> Result<()> {
        let (device, state) = (&self.device, &mut self.state);
        let target = finest(&self.grid) * scale.factor as f64;
        let grid = coarser(&self.grid, factors_for(&self.grid, target))?;
        // The old ones go before there are new ones.
        self.fixed.clear();
        self.weights = None;
        self.model.to_scale(scale, &grid);
        for attachment in &mut self.images.attachments {
            attachment.to_scale(device, scale, &grid, self.model.sides())?;
        }
        for image in &self.images.fixed {
            self.fixed.push(image.at(device, target)?);
        }
        let moving = self.images.moving.iter().map(|image| image.at(device, target));
        self.model.refine(device, moving.collect::<Result<_>>()?, state)?;
        let fixed: Vec<_> = self.fixed.iter().map(FixedImage::from).collect();
        let mask = self.images.mask.as_ref();
        self.weights = self.model.counts(device, &fixed, mask, target, state)?;
        let counted = match &self.weights {
            Some(weights) => device.reduce(&[weights], &[Reduction::Sum(0)])?[0],
            None => grid.len() as f64,
        };
        self.counted_volume = counted * grid.voxel_volume();
        self.share = self.volume / self.counted_volume.max(f64::MIN_POSITIVE);
        if let Some(mask) = &mut self.images.moving_mask {
            let weights = self.weights.as_ref();
            self.model.lend(device, state, &mut |affine, field| {
                mask.to_scale(device, &grid, affine, target, field, weights)
            })?;
        }
        self.at = Some(grid);
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.fixed.clear();
        self.weights = None;
        // The last scale may have been a coarse one.
        if self.at.as_ref().map(Grid::dims) != Some(self.grid.dims()) {
            self.model.to_scale(&Scale { factor: 1, iterations: 0 }, &self.grid);
            self.model.refine(&self.device, Vec::new(), &mut self.state)?;
        }
        Ok(())
    }
}

/// One step of the model.
pub(super) struct OneStep;

impl<D: Device, M: Model<D>> Iteration<Pair<D, M>> for OneStep {
    fn to_scale(&mut self, _: &Pair<D, M>, _: &Scale) -> Result<()> {
        Ok(())
    }

    fn iterate(&mut self, pair: &mut Pair<D, M>) -> Result<Energies> {
        let (device, state) = (&pair.device, &mut pair.state);
        let fixed: Vec<_> = pair.fixed.iter().map(FixedImage::from).collect();
        let Prepared { attachments, moving_mask, .. } = &mut pair.images;
        let counts = Counts { given: pair.weights.as_ref(), moving: moving_mask.as_ref() };
        let (shared, share, counted_volume) = (attachments, pair.share, pair.counted_volume);
        let sources = Sources { shared, own: &mut Vec::new(), share, counted_volume };
        let pull = Pull { sources, fixed: &fixed, warped: &[], counts };
        let energies = pair.model.step(device, pull, state)?.wait()?;
        pair.model.told(state, &energies.parts);
        pair.model.review(device, state, energies.total)?;
        Ok(energies)
    }

    fn at_rest(&self, pair: &Pair<D, M>, course: &Course) -> Option<bool> {
        pair.model.at_rest(&pair.state, course)
    }

    fn motion(&self, pair: &Pair<D, M>) -> Option<Motion> {
        pair.model.motion(&pair.state)
    }

    fn settling(&self, pair: &Pair<D, M>) -> usize {
        pair.model.settling(&pair.state)
    }

    fn settle(&mut self, pair: &mut Pair<D, M>) {
        pair.model.settle(&mut pair.state);
    }

    fn put_back(&self, pair: &Pair<D, M>) -> Option<f64> {
        pair.model.put_back(&pair.state)
    }

    fn end_scale(&mut self, pair: &mut Pair<D, M>) -> Result<Option<f64>> {
        pair.model.end_scale(&pair.device, &mut pair.state)?;
        pair.model.residual()
    }
}
