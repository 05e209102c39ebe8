//! What a rank has in memory at a scale.

use super::options::SpreadOptions;
use super::ranges::Counts;
use super::register::SpreadInput;
use super::scales::Scales;
use super::source::{ImageBlocks, PixelBlock};
use super::supply::{self, strips};
use crate::error::{RegisterError, Result, Role};
use crate::search::distributed::{
    Halo, Held, List, Machine, Peer, Plan, Replicated, Strategy, StrategyKind,
};
use std::sync::Arc;
use voxalign_compute::comm::Communicator;
use voxalign_compute::ops::joint::{
    Block, FixedBins, FixedPointMap, JointRule, MovingBins, NO_SAMPLE, Pixel,
};
use voxalign_compute::{Device, HostBuffer};
use voxalign_image::memory;

/// Images at a scale, in blocks on the devices of all ranks.
pub(super) struct Spread<'a> {
    pub(super) strategy: Box<dyn Strategy + 'a>,
    pub(super) rule: JointRule,
    /// Whether moving pixels have 16 bits.
    pub(super) wide: bool,
    /// The fixed pixels that count, of all ranks.
    pub(super) samples: u64,
}

/// Reads the blocks of this rank and puts them on its device.
pub(super) fn held<'a, D: Device>(
    device: &D,
    ranks: &Communicator,
    input: SpreadInput<'a>,
    scales: Scales,
    (options, bins): (&SpreadOptions, usize),
    (strategy, machine): (StrategyKind, &Machine),
) -> Result<Spread<'a>> {
    let dims = [&input.fixed.scales()[scales.fixed], &input.moving.scales()[scales.moving]]
        .map(|grid| grid.dims());
    let rank = [ranks.rank(), ranks.size()];
    let plan = ranks
        .agree(Plan::new(strategy, dims, rank, options.blocks).map_err(RegisterError::from))?;
    // What is streamed is looked at in strips; all else is read once.
    let own = match strategy {
        StrategyKind::Streamed => None,
        _ => Some(ranks.agree(Own::read(input, scales, &plan))?),
    };
    let counts = match &own {
        Some(own) => Ok([
            own.count_fixed(input.fixed.is_wide()),
            own.count_moving(input.moving.is_wide(), &plan),
        ]),
        None => ranks.agree(supply::counts(input, scales, &plan)),
    };
    let [fixed, moving] = counts?;
    let (fixed, moving) = (fixed.of_all(ranks)?, moving.of_all(ranks)?);
    let range = |counts: &Counts, role: Role| {
        counts.range().ok_or_else(|| RegisterError::Constant {
            role,
            value: counts.most().into(),
            within: "",
        })
    };
    let (low, high) = range(&fixed, Role::Fixed)?;
    let fixed_bins = FixedBins::new(low, high, bins)?;
    let (low, high) = range(&moving, Role::Moving)?;
    let moving_bins = MovingBins::new(low, high, bins)?;
    let (map, window) = (FixedPointMap::new(&voxalign_compute::IDENTITY)?, options.window());
    let rule = JointRule {
        pixels_per_thread: options.pixels_per_thread,
        ..JointRule::new(map, dims[1], bins, moving_bins, window)
    };
    let samples = fixed.total();
    let Some(Own { fixed, mask, moving }) = own else {
        let from = supply::Images { input, scales, bins: fixed_bins, plan };
        let wide = input.moving.is_wide();
        let strategy = ranks.agree(from.streamed(device, machine))?;
        return Ok(Spread { strategy, rule, wide, samples });
    };
    let on_device = || {
        let values = binned(&fixed, mask.as_deref(), &fixed_bins)?;
        Ok::<_, RegisterError>(device.upload(&values)?)
    };
    let bins = ranks.agree(on_device())?;
    drop((fixed, mask));
    let wide = matches!(moving, PixelBlock::Words(_));
    let parts = Parts { device, ranks, plan, input, scale: scales.moving, options };
    let strategy = match moving {
        PixelBlock::Bytes(pixels) => parts.strategy(bins, pixels)?,
        PixelBlock::Words(pixels) => parts.strategy(bins, pixels)?,
    };
    Ok(Spread { strategy, rule, wide, samples })
}

/// What a rank reads.
struct Own {
    fixed: PixelBlock,
    mask: Option<Vec<u8>>,
    moving: PixelBlock,
}

impl Own {
    fn read(input: SpreadInput<'_>, scales: Scales, plan: &Plan) -> Result<Self> {
        let some = |from: &dyn ImageBlocks, scale, block: &Block| match block.is_empty() {
            // A rank without work.
            true if from.is_wide() => Ok(PixelBlock::Words(Vec::new())),
            true => Ok(PixelBlock::Bytes(Vec::new())),
            false => from.read(scale, block),
        };
        let mask = match plan.fixed.is_empty() {
            true => None,
            false => input.fixed.mask(scales.fixed, &plan.fixed)?,
        };
        let fixed = some(input.fixed, scales.fixed, &plan.fixed)?;
        Ok(Self { fixed, mask, moving: some(input.moving, scales.moving, &plan.moving)? })
    }

    /// The fixed pixels that count.
    fn count_fixed(&self, wide: bool) -> Counts {
        let mut counts = Counts::new(wide);
        counts.add_block(&self.fixed, self.mask.as_deref());
        counts
    }

    /// The moving pixels of the own block, without its halo: those of all ranks are the image.
    fn count_moving(&self, wide: bool, plan: &Plan) -> Counts {
        let (own, stored) = (plan.moving_blocks.block(plan.rank), plan.moving);
        let mut counts = Counts::new(wide);
        for z in 0..own.dims[2] {
            for y in 0..own.dims[1] {
                let at = |a: usize, i: usize| own.origin[a] + i - stored.origin[a];
                let row = at(0, 0) + stored.dims[0] * (at(1, y) + stored.dims[1] * at(2, z));
                counts.add(self.moving.row(row..row + own.dims[0]));
            }
        }
        counts
    }
}

/// The bins of fixed pixels, as the device holds them.
pub(super) fn binned(
    values: &PixelBlock,
    mask: Option<&[u8]>,
    bins: &FixedBins,
) -> Result<Vec<u8>> {
    let mut out = memory::filled(values.len(), NO_SAMPLE)?;
    match values {
        PixelBlock::Bytes(values) => bins.fill(values, mask, &mut out)?,
        PixelBlock::Words(values) => bins.fill(values, mask, &mut out)?,
    }
    Ok(out)
}

/// What strategies are made from.
struct Parts<'a, D: Device> {
    device: &'a D,
    ranks: &'a Communicator,
    plan: Plan,
    input: SpreadInput<'a>,
    /// Of the moving image.
    scale: usize,
    options: &'a SpreadOptions,
}

impl<D: Device> Parts<'_, D> {
    fn strategy<P: OfBlock>(
        self,
        bins: D::Buffer<u8>,
        pixels: Vec<P>,
    ) -> Result<Box<dyn Strategy>> {
        let Self { device, ranks, plan, options, .. } = &self;
        let on_device = || {
            let moving = device.upload(&pixels)?;
            Ok::<_, RegisterError>(Held::new((*device).clone(), *plan, bins, moving)?)
        };
        let held = ranks.agree(on_device())?;
        drop(pixels);
        Ok(match plan.kind() {
            // Of nothing on the device there is nothing to be made here.
            StrategyKind::Replicated | StrategyKind::Streamed => Box::new(Replicated::new(held)),
            StrategyKind::List(_) => Box::new(List::new(held, options.list)),
            StrategyKind::Peer(_) => Box::new(Peer::new(ranks, held)?),
            StrategyKind::Halo(_) => {
                let whole = self.whole::<P>()?;
                Box::new(Halo::new(held, Arc::new(whole))?)
            }
        })
    }

    /// The whole moving image in memory of the host that the device reads: once for all ranks of a machine, of which each reads some of it.
    fn whole<P: OfBlock>(&self) -> Result<HostBuffer<P>> {
        let dims = self.plan.moving_blocks.dims();
        let len = dims.iter().product();
        let (mut whole, [place, count]) = match self.ranks.size() {
            1 => (self.device.host_alloc::<P>(len)?, [0, 1]),
            _ => {
                let shared = self.ranks.shared_memory::<P>(len)?;
                (shared.memory, shared.share)
            }
        };
        // Some rows at a time, so that there is no second copy.
        let strips = strips(&Block::whole(dims));
        let mut read = || {
            let mut done = 0;
            for (number, strip) in strips.iter().enumerate() {
                let here = done..done + strip.len();
                done = here.end;
                if number % count == place {
                    let pixels = self.input.moving.read(self.scale, strip)?;
                    whole[here].copy_from_slice(P::of(&pixels));
                }
            }
            Ok::<_, RegisterError>(())
        };
        // All of it is there once all have read.
        self.ranks.agree(read())?;
        match self.ranks.size() {
            1 => Ok(whole),
            _ => Ok(self.ranks.agree(self.device.host_map(whole).map_err(RegisterError::from))?),
        }
    }
}

/// Pixels that are read at a time.
pub(super) const STRIP: usize = 1 << 24;

/// A kind of pixel in a block.
pub(super) trait OfBlock: Pixel {
    /// The pixels of a block of this kind; none of one of the other kind.
    fn of(block: &PixelBlock) -> &[Self];

    /// The same to be kept.
    fn kept(block: PixelBlock) -> Vec<Self>;
}

impl OfBlock for u8 {
    fn of(block: &PixelBlock) -> &[Self] {
        match block {
            PixelBlock::Bytes(values) => values,
            PixelBlock::Words(_) => &[],
        }
    }

    fn kept(block: PixelBlock) -> Vec<Self> {
        match block {
            PixelBlock::Bytes(values) => values,
            PixelBlock::Words(_) => Vec::new(),
        }
    }
}

impl OfBlock for u16 {
    fn of(block: &PixelBlock) -> &[Self] {
        match block {
            PixelBlock::Words(values) => values,
            PixelBlock::Bytes(_) => &[],
        }
    }

    fn kept(block: PixelBlock) -> Vec<Self> {
        match block {
            PixelBlock::Words(values) => values,
            PixelBlock::Bytes(_) => Vec::new(),
        }
    }
}
