//! A subject of an atlas, and its buffers.

use super::subjects::away::DevicePack;
use super::subjects::prepare::Prepared;
use crate::error::Result;
use std::path::PathBuf;
use voxalign_compute::Device;
use voxalign_image::Affine;
use voxalign_register::attachment::Attachments;
use voxalign_register::attachment::images::Moved;
use voxalign_register::model::{Buffers, CohortModel};

/// A subject.
pub(super) struct Member<D: Device, S> {
    /// Its number among those of the source.
    pub(super) index: usize,
    /// Its fraction of the sum of all weights.
    pub(super) weight: f64,
    pub(super) affine: Affine,
    /// Its name in messages.
    pub(super) file: PathBuf,
    /// None before the first scale, and at the end.
    pub(super) state: Option<S>,
    /// Its images at full resolution, where they stay on the device.
    pub(super) whole: Option<Prepared<D>>,
    /// The voxels of its images that count at the scale, where not all do: those inside its mask, and inside a
    /// field of view that ends within tissue.
    pub(super) mask: Option<Moved<D>>,
    /// The images on the grid of the template, where they are now and if they stay on the device.
    pub(super) warped: Vec<D::Buffer<f32>>,
    /// The weights of their voxels there.
    pub(super) weights: Option<D::Buffer<f32>>,
    /// The data terms it by its geometry, where all subjects stay on the device and the template has not moved since.
    pub(super) pulls: Option<Attachments<D>>,
    /// At the end: the first image after the deformation, and after the affine map alone.
    pub(super) done: Vec<D::Buffer<f32>>,
}

impl<D: Device, S> Member<D, S> {
    /// Its images at full resolution, which stay on the device no longer.
    pub(super) fn take_whole(&mut self) -> Option<Prepared<D>> {
        self.whole.take()
    }

    /// Ends its iterations: what is left are images.
    pub(super) fn end(&mut self, done: Vec<D::Buffer<f32>>) {
        (self.state, self.mask, self.weights) = (None, None, None);
        self.pulls = None;
        self.warped.clear();
        self.done = done;
    }

    fn buffers<'s, M: CohortModel<D, State = S>>(&'s mut self, model: &M) -> Buffers<'s, D> {
        let mut all = match &mut self.state {
            Some(state) => model.buffers(state),
            None => Buffers { changing: self.done.iter_mut().collect(), fixed: Vec::new() },
        };
        all.fixed.extend(self.mask.iter_mut().map(|m| &mut m.image.values));
        all
    }

    /// Exchanges its buffers with those of a pack; what the one has more than the other stays there.
    pub(super) fn exchange<M: CohortModel<D, State = S>>(
        &mut self,
        model: &M,
        pack: &mut DevicePack<D>,
    ) {
        let Buffers { changing, fixed } = self.buffers(model);
        for (own, other) in changing.into_iter().zip(&mut pack.changing) {
            std::mem::swap(own, other);
        }
        for (own, other) in fixed.into_iter().zip(&mut pack.fixed) {
            std::mem::swap(own, other);
        }
    }

    /// Puts all of its buffers into a pack; what the pack had goes back in their place.
    pub(super) fn leave<M: CohortModel<D, State = S>>(
        &mut self,
        device: &D,
        model: &M,
        pack: &mut DevicePack<D>,
    ) -> Result<()> {
        let Buffers { changing, fixed } = self.buffers(model);
        for (own, pack) in [(changing, &mut pack.changing), (fixed, &mut pack.fixed)] {
            pack.truncate(own.len());
            while pack.len() < own.len() {
                pack.push(device.alloc(0)?);
            }
            for (own, other) in own.into_iter().zip(pack) {
                std::mem::swap(own, other);
            }
        }
        Ok(())
    }
}
