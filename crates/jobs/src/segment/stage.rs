//! Where fronts move: on the voxels of an image, or on what a preset has made of them.

use super::evolve::{Moving, lattice};
use super::preset::Prepared;
use super::settings::Settings;
use super::start::{Masks, Start, start, start_of_preset};
use crate::error::Result;
use voxalign_image::Volume;
use voxalign_report::segment::PresetRecord;
use voxalign_segment::Lattice;

/// An image on which fronts move.
pub(super) struct Stage<'a> {
    image: &'a Volume<f32>,
    speed: Option<&'a Volume<f32>>,
    masks: Masks<'a>,
    settings: &'a Settings,
    prepared: Option<Prepared>,
    lattice: Lattice,
}

impl<'a> Stage<'a> {
    /// Of an image, with a field of one's own that moves fronts.
    pub(super) fn new(
        image: &'a Volume<f32>,
        speed: Option<&'a Volume<f32>>,
        masks: Masks<'a>,
        settings: &'a Settings,
    ) -> Result<Self> {
        let prepared = Prepared::new(settings, image, masks.prior)?;
        let lattice = match &prepared {
            Some(prepared) => prepared.lattice(settings)?,
            None => lattice(image.grid(), settings)?,
        };
        Ok(Self { image, speed, masks, settings, prepared, lattice })
    }

    /// Where fronts begin; or the `other` start, whose result is compared with that: [`start`], [`start_of_preset`].
    pub(super) fn start(&self, other: bool) -> Result<Option<Start>> {
        match &self.prepared {
            Some(prepared) => start_of_preset(&self.lattice, prepared, other).map(Some),
            None => start(&self.lattice, self.image.grid(), self.settings, self.masks, other),
        }
    }

    /// What moves them.
    pub(super) fn moving(&self) -> Result<Moving<'_>> {
        match &self.prepared {
            Some(prepared) => Moving::by_preset(&self.lattice, prepared, self.settings),
            None => Moving::new(&self.lattice, self.image, self.speed, self.settings),
        }
    }

    /// The point where fronts move that a voxel of the image is.
    pub(super) fn point(&self, voxel: usize) -> usize {
        self.prepared.as_ref().map_or(voxel, |prepared| prepared.point(voxel))
    }

    /// The labels of the voxels of the image, where fronts have come to rest.
    pub(super) fn labels(&self, moved: Vec<u8>) -> Result<Vec<u8>> {
        match &self.prepared {
            Some(prepared) => prepared.object(moved),
            None => Ok(moved),
        }
    }

    /// How much of an object is connected, which tidying would change: [`Prepared::connected`].
    pub(super) fn connected(&self, labels: &[u8]) -> Result<Option<f64>> {
        let of = |prepared: &Prepared| prepared.connected(self.image.grid(), labels);
        self.prepared.as_ref().map_or(Ok(None), of)
    }

    /// What a preset measures of its object.
    pub(super) fn record(
        &self,
        labels: &[u8],
        connected: Option<f64>,
    ) -> Result<Option<PresetRecord>> {
        let of = |prepared: &Prepared| prepared.record(self.image.grid(), labels, connected);
        self.prepared.as_ref().map(of).transpose()
    }
}
