//! What the subjects on a device share: the template, the sums behind it, and workspace.

use super::geometry::{Shared as Geometries, UNIT};
use super::member::Member;
use super::subjects::memory::MemoryPlan;
use super::subjects::prepare::{Prepared, prepared, whole};
use super::subjects::source::Images;
use crate::error::{PopulationError, Result};
use std::path::Path;
use voxalign_compute::Device;
use voxalign_compute::ops::elementwise::{param, x};
use voxalign_compute::ops::reduce::Reduction;
use voxalign_image::Grid;
use voxalign_register::attachment::Attachments;
use voxalign_register::attachment::images::finest;
use voxalign_register::attachment::images::{Moved, coarser, factors_for};
use voxalign_register::diffeo::TISSUE;
use voxalign_register::model::{CohortModel, Counts, FixedImage, Pull, Sources};
use voxalign_register::multiscale::Scale;
use voxalign_register::similarity::PendingEnergies;

/// The template at a scale.
pub(super) struct Template<D: Device> {
    pub(super) grid: Grid,
    /// Its values, one image a channel.
    pub(super) channels: Vec<D::Buffer<f32>>,
}

impl<D: Device> Template<D> {
    /// As what subjects are compared with.
    pub(super) fn images(&self) -> Vec<FixedImage<'_, D>> {
        let image = |values| FixedImage { grid: &self.grid, values, outside: 0.0, open: false };
        self.channels.iter().map(image).collect()
    }
}

/// The state shared by the subjects of a device.
pub(super) struct Core<D: Device, M> {
    pub(super) device: D,
    /// The grid of the atlas.
    pub(super) grid: Grid,
    pub(super) model: M,
    /// The data terms each of them to the template.
    pub(super) attachments: Attachments<D>,
    /// The data terms of each of them besides images.
    pub(super) geometry: Geometries<D>,
    pub(super) template: Template<D>,
    pub(super) channels: usize,
    pub(super) plan: MemoryPlan,
    /// The length of voxels at the scale, mm.
    pub(super) target: f64,
    /// Where subjects are warped to that keep no warped images.
    pub(super) spare: Vec<D::Buffer<f32>>,
    pub(super) sums: Vec<D::Buffer<i64>>,
    /// Sums of voxel weights, one where they are not the same everywhere.
    pub(super) counted: Vec<D::Buffer<i64>>,
    /// Units of the subjects that count everywhere.
    pub(super) everywhere: i64,
    /// At the end: the mean after the affine alignment alone, one image a channel.
    pub(super) affine_mean: Vec<D::Buffer<f32>>,
}

/// The error for images that should have been read.
pub(super) fn missing(file: &Path) -> PopulationError {
    PopulationError::Input { file: file.to_owned(), what: "its images were not read".to_owned() }
}

impl<D: Device, M: CohortModel<D>> Core<D, M> {
    /// Images of the template's grid, one a channel.
    pub(super) fn images(&self) -> Result<Vec<D::Buffer<f32>>> {
        (0..self.channels).map(|_| Ok(self.device.alloc(self.template.grid.len())?)).collect()
    }

    pub(super) fn go_to_scale(&mut self, scale: &Scale) -> Result<()> {
        self.target = finest(&self.grid) * scale.factor as f64;
        let grid = coarser(&self.grid, factors_for(&self.grid, self.target))?;
        self.spare.clear();
        self.template = Template { grid: grid.clone(), channels: Vec::new() };
        self.model.to_scale(scale, &grid);
        self.geometry.go_to_scale(scale);
        for attachment in &mut self.attachments {
            attachment.to_scale(&self.device, scale, &grid, self.model.sides())?;
        }
        self.spare = self.images()?;
        Ok(())
    }

    /// The images of a subject as they are worked on.
    pub(super) fn prepare(&self, images: &Images, file: &Path) -> Result<Prepared<D>> {
        let wrong = |what: String| PopulationError::Input { file: file.to_owned(), what };
        let (found, count) = (images.channels.len(), self.channels);
        if found != count || count == 0 {
            return Err(wrong(format!(
                "it has {found} channels, but the first subject has {count}; \
                                      give all subjects the same number"
            )));
        }
        if let (Some(_), Some(why)) = (&images.mask, self.model.refuses_masks()) {
            return Err(wrong(format!("it has a mask, but {why}")));
        }
        prepared(&self.device, images, file)
    }

    pub(super) fn refine(
        &mut self,
        prepared: &Prepared<D>,
        member: &mut Member<D, M::State>,
    ) -> Result<()> {
        let device = &self.device;
        if member.state.is_none() {
            member.state = Some(self.model.begin_among(device, &member.affine)?);
        }
        member.pulls = None;
        let Some(state) = &mut member.state else { return Ok(()) };
        let at = prepared.images.iter().map(|image| Ok(image.at(device, self.target)?));
        self.model.refine(device, at.collect::<Result<Vec<_>>>()?, state)?;
        (member.mask, member.weights) = (None, None);
        if let Some(mask) = &prepared.mask {
            let (mask, grid) = (mask.at(device, self.target)?, &self.template.grid);
            member.mask = Some(Moved::new(mask, grid, &member.affine));
        }
        Ok(())
    }

    /// Begins a new average.
    pub(super) fn clear(&mut self, masked: bool) -> Result<()> {
        let n = self.template.grid.len();
        self.sums.clear();
        for _ in 0..self.channels {
            self.sums.push(self.device.alloc(n)?);
        }
        self.counted.clear();
        if masked {
            self.counted.push(self.device.alloc(n)?);
        }
        self.everywhere = 0;
        Ok(())
    }

    /// Adds images of a subject, on the grid of the template, to the average.
    pub(super) fn add(
        &mut self,
        images: &[D::Buffer<f32>],
        weights: Option<&D::Buffer<f32>>,
        weight: f64,
    ) -> Result<()> {
        let (device, factor) = (&self.device, weight * UNIT);
        for (image, sums) in images.iter().zip(&mut self.sums) {
            match weights {
                None => device.add_fixed(image, factor, sums)?,
                Some(weights) => {
                    let mut seen = device.alloc::<f32>(self.template.grid.len())?;
                    device.eval(&(x(0) * x(1)), &[image, weights], &[], None, &mut seen)?;
                    device.add_fixed(&seen, factor, sums)?;
                }
            }
        }
        match (self.counted.first_mut(), weights) {
            (Some(counted), Some(weights)) => device.add_fixed(weights, factor, counted)?,
            (Some(_), None) => self.everywhere += factor.round_ties_even() as i64,
            (None, _) => {}
        }
        Ok(())
    }

    /// Makes the average the template, once the sums are those of all subjects.
    pub(super) fn average(&mut self) -> Result<()> {
        let (device, n) = (&self.device, self.template.grid.len());
        self.template.channels.clear();
        for sums in &self.sums {
            let mut mean = device.alloc::<f32>(n)?;
            device.fixed_to_float(sums, 1.0 / UNIT, &mut mean)?;
            if let Some(counted) = self.counted.first() {
                let mut count = device.alloc::<f32>(n)?;
                device.fixed_to_float(counted, 1.0 / UNIT, &mut count)?;
                // What nobody shows is background.
                let mean_of_those = x(0) / (x(1) + param(0)).max(1e-6);
                let everywhere = (self.everywhere as f64 / UNIT) as f32;
                device.eval_in_place(&mean_of_those, &mut mean, &[&count], &[everywhere], None)?;
            }
            self.template.channels.push(mean);
        }
        Ok(())
    }

    /// Where a subject is warped to: its own images, or those that all share.
    fn take_room(&mut self, member: &mut Member<D, M::State>) -> Vec<D::Buffer<f32>> {
        let own = if member.warped.is_empty() { &mut self.spare } else { &mut member.warped };
        std::mem::take(own)
    }

    fn put_back(
        &mut self,
        member: &mut Member<D, M::State>,
        warped: Vec<D::Buffer<f32>>,
        weights: Option<D::Buffer<f32>>,
    ) {
        if self.spare.is_empty() {
            self.spare = warped;
            member.weights = None;
        } else {
            member.warped = warped;
            member.weights = weights;
        }
    }

    /// Warps a subject to where it is now.
    fn warp(
        &mut self,
        member: &mut Member<D, M::State>,
        out: &mut [D::Buffer<f32>],
    ) -> Result<Option<D::Buffer<f32>>> {
        let Some(state) = &mut member.state else { return Ok(None) };
        let (device, grid) = (&self.device, &self.template.grid);
        self.model.warp(device, state, grid, out)?;
        let Some(mask) = &member.mask else { return Ok(None) };
        let mut weights = device.alloc::<f32>(grid.len())?;
        self.model.lend_displacement(device, state, &mut |field, _| {
            mask.warp_to(device, field, grid.dims(), &mut weights)
        })?;
        whole(device, &mut weights)?;
        Ok(Some(weights))
    }

    /// Warps a subject to where it is now, and adds it to the average.
    pub(super) fn place(&mut self, member: &mut Member<D, M::State>) -> Result<()> {
        let mut warped = self.take_room(member);
        let weights = self.warp(member, &mut warped)?;
        self.add(&warped, weights.as_ref(), member.weight)?;
        self.put_back(member, warped, weights);
        Ok(())
    }

    /// Warps a subject to where it is now, where its warped images are kept.
    pub(super) fn warp_again(&mut self, member: &mut Member<D, M::State>) -> Result<()> {
        if !member.warped.is_empty() {
            let mut warped = self.take_room(member);
            let weights = self.warp(member, &mut warped)?;
            self.put_back(member, warped, weights);
        }
        Ok(())
    }

    /// The data terms a subject by its geometry, as it was just made.
    fn pulls_of(&self, member: &mut Member<D, M::State>) -> Result<Attachments<D>> {
        match member.pulls.take() {
            Some(mut pulls) => {
                pulls.iter_mut().try_for_each(|pull| pull.forget(&self.device))?;
                Ok(pulls)
            }
            None => {
                let (grid, sides) = (&self.template.grid, self.model.sides());
                self.geometry.attachments(&self.device, member.index, grid, sides)
            }
        }
    }

    /// Keeps it for the next step, where there is room.
    fn keep_pulls(&self, pulls: Attachments<D>, member: &mut Member<D, M::State>) {
        member.pulls = self.plan.in_core().then_some(pulls);
    }

    /// Adds where a subject pulls the geometry of the template.
    pub(super) fn pull_template(&mut self, member: &mut Member<D, M::State>) -> Result<()> {
        if self.geometry.is_empty() {
            return Ok(());
        }
        let mut pulls = self.pulls_of(member)?;
        let Some(state) = &mut member.state else { return Err(missing(&member.file)) };
        let (device, grid, weight) = (&self.device, &self.template.grid, member.weight);
        let of = (&mut self.model, state, &member.affine);
        self.geometry.pull(device, of, &mut pulls, grid, weight)?;
        self.keep_pulls(pulls, member);
        Ok(())
    }

    /// The fraction of the template's voxels in the object.
    pub(super) fn object_share(&self) -> Result<f64> {
        let Some(first) = self.template.channels.first() else { return Ok(1.0) };
        let n = self.template.grid.len();
        let mut object = self.device.alloc::<f32>(n)?;
        self.device.eval(&x(0).gt(param(0)), &[first], &[TISSUE], None, &mut object)?;
        let voxels = self.device.reduce(&[&object], &[Reduction::Sum(0)])?[0];
        Ok(if voxels > 0.0 { voxels / n as f64 } else { 1.0 })
    }

    /// Makes a step of a subject towards the template, and adds it to the average where it is then.
    pub(super) fn step(&mut self, member: &mut Member<D, M::State>) -> Result<PendingEnergies> {
        let keeps = !member.warped.is_empty();
        let mut warped = self.take_room(member);
        let needs = self.model.needs_warped() || member.mask.is_some();
        let weights = match keeps {
            true => member.weights.take(),
            false if needs => self.warp(member, &mut warped)?,
            false => None,
        };
        let mut pulls = self.pulls_of(member)?;
        let Some(state) = &mut member.state else { return Err(missing(&member.file)) };
        let (device, fixed) = (&self.device, self.template.images());
        let counts = Counts { given: weights.as_ref(), moving: None };
        let (shared, own) = (&mut self.attachments, &mut pulls);
        let grid = &self.template.grid;
        let counted_volume = grid.len() as f64 * grid.voxel_volume();
        let sources = Sources { shared, own, share: self.geometry.share, counted_volume };
        let pull = Pull { sources, fixed: &fixed, warped: &warped, counts };
        let energy = self.model.step(device, pull, state)?;
        drop((weights, fixed));
        self.keep_pulls(pulls, member);
        let weights = self.warp(member, &mut warped)?;
        self.add(&warped, weights.as_ref(), member.weight)?;
        self.put_back(member, warped, weights);
        Ok(energy)
    }
}
