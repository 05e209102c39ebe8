//! Images that are streamed: chunks from files, or from copies in memory of the host.

use super::held::{OfBlock, STRIP, binned};
use super::ranges::Counts;
use super::register::SpreadInput;
use super::scales::Scales;
use super::source::PixelBlock;
use crate::error::{RegisterError, Result};
use crate::search::distributed::{Machine, Plan, Strategy, Streamed, Supply};
use std::marker::PhantomData;
use voxalign_compute::Device;
use voxalign_compute::comm::{self, CommError};
use voxalign_compute::ops::joint::{Block, FixedBins};
use voxalign_image::memory;

/// Where streamed images come from.
#[derive(Clone, Copy)]
pub(super) struct Images<'a> {
    pub(super) input: SpreadInput<'a>,
    pub(super) scales: Scales,
    pub(super) bins: FixedBins,
    pub(super) plan: Plan,
}

/// Strips of a block, some rows each.
pub(super) fn strips(block: &Block) -> Vec<Block> {
    let rows = (STRIP / block.dims[0].max(1)).max(1);
    block.chunks([block.dims[0], rows, 1])
}

/// How often each value is in the own blocks: of fixed pixels that count, and of moving ones.
pub(super) fn counts(input: SpreadInput<'_>, scales: Scales, plan: &Plan) -> Result<[Counts; 2]> {
    let mut fixed = Counts::new(input.fixed.is_wide());
    for strip in strips(&plan.fixed) {
        let pixels = input.fixed.read(scales.fixed, &strip)?;
        fixed.add_block(&pixels, input.fixed.mask(scales.fixed, &strip)?.as_deref());
    }
    let mut moving = Counts::new(input.moving.is_wide());
    for strip in strips(&plan.moving_blocks.block(plan.rank)) {
        moving.add_block(&input.moving.read(scales.moving, &strip)?, None);
    }
    Ok([fixed, moving])
}

impl<'a> Images<'a> {
    /// The strategy that streams them: from memory of the host, where that has room for the fixed block and the moving image, else from
    /// their files at every evaluation.
    pub(super) fn streamed<D: Device>(
        self,
        device: &D,
        machine: &Machine,
    ) -> Result<Box<dyn Strategy + 'a>> {
        match self.input.moving.is_wide() {
            false => self.of::<D, u8>(device, machine),
            true => self.of::<D, u16>(device, machine),
        }
    }

    fn of<D: Device, P: OfBlock>(
        self,
        device: &D,
        machine: &Machine,
    ) -> Result<Box<dyn Strategy + 'a>> {
        let whole = self.plan.moving_blocks.dims().iter().product::<usize>() * size_of::<P>();
        let bytes = (self.plan.fixed.len() + whole) as u64;
        let files = Files::<P> { images: self, pixels: PhantomData };
        let supply: Box<dyn Supply<P> + 'a> = match bytes <= machine.host_memory {
            true => Box::new(InMemory::read(&files)?),
            false => Box::new(files),
        };
        Ok(Box::new(Streamed::new(device.clone(), self.plan, supply, machine.device_memory)))
    }
}

/// Chunks from files.
struct Files<'a, P> {
    images: Images<'a>,
    pixels: PhantomData<fn() -> P>,
}

impl<P: OfBlock> Files<'_, P> {
    fn bins(&self, block: &Block) -> Result<Vec<u8>> {
        let Images { input, scales, bins, .. } = &self.images;
        let mask = input.fixed.mask(scales.fixed, block)?;
        binned(&input.fixed.read(scales.fixed, block)?, mask.as_deref(), bins)
    }

    fn pixels(&self, block: &Block) -> Result<Vec<P>> {
        let Images { input, scales, .. } = &self.images;
        let pixels: PixelBlock = input.moving.read(scales.moving, block)?;
        Ok(P::kept(pixels))
    }
}

/// What a file refuses, as ranks tell it.
fn told(error: RegisterError) -> CommError {
    match error {
        RegisterError::Comm(error) => error,
        RegisterError::Compute(error) => error.into(),
        other => CommError::Unavailable(other.to_string()),
    }
}

impl<P: OfBlock> Supply<P> for Files<'_, P> {
    fn fixed(&self, block: &Block) -> comm::Result<Vec<u8>> {
        self.bins(block).map_err(told)
    }

    fn moving(&self, block: &Block) -> comm::Result<Vec<P>> {
        self.pixels(block).map_err(told)
    }
}

/// The fixed block and the whole moving image in memory.
struct InMemory<P> {
    fixed: (Block, Vec<u8>),
    moving: (Block, Vec<P>),
}

impl<P: OfBlock> InMemory<P> {
    fn read(files: &Files<'_, P>) -> Result<Self> {
        let plan = &files.images.plan;
        let whole = Block::whole(plan.moving_blocks.dims());
        let mut fixed = memory::room(plan.fixed.len())?;
        for strip in strips(&plan.fixed) {
            fixed.extend(files.bins(&strip)?);
        }
        let mut moving = memory::room(whole.len())?;
        for strip in strips(&whole) {
            moving.extend(files.pixels(&strip)?);
        }
        Ok(Self { fixed: (plan.fixed, fixed), moving: (whole, moving) })
    }
}

/// A block of one that is in memory.
fn part<T: Copy>((stored, values): &(Block, Vec<T>), block: &Block) -> comm::Result<Vec<T>> {
    let mut out =
        memory::room(block.len()).map_err(|refused| CommError::Unavailable(refused.to_string()))?;
    let [nx, ny, nz] = block.dims;
    for row in 0..ny * nz {
        let [x, y, z] = block.origin;
        let first = stored.place([x, y + row % ny, z + row / ny]);
        out.extend_from_slice(&values[first..first + nx]);
    }
    Ok(out)
}

impl<P: OfBlock> Supply<P> for InMemory<P> {
    fn fixed(&self, block: &Block) -> comm::Result<Vec<u8>> {
        part(&self.fixed, block)
    }

    fn moving(&self, block: &Block) -> comm::Result<Vec<P>> {
        part(&self.moving, block)
    }
}
