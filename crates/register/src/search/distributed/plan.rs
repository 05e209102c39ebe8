//! What a rank has in memory.

use std::sync::Arc;
use voxalign_compute::comm::Result;
use voxalign_compute::error::check_len;
use voxalign_compute::ops::joint::{Block, BlockRule, Brick, Decomposition, Halo, Pixel, Pixels};
use voxalign_compute::{Device, DeviceBuffer, Dims};

/// The strategies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum StrategyKind {
    /// All moving pixels on every device.
    Replicated,
    /// The block with a halo, and the whole image in the memory of the host.
    Halo(Halo),
    /// The block; others count for the pixels that they have. A halo spares messages.
    List(Halo),
    /// The block; others' are read directly. A halo spares such reads.
    Peer(Halo),
    /// Nothing: chunks of both images pass through.
    Streamed,
}

impl StrategyKind {
    /// Its name as an option.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Replicated => "replicate",
            Self::Halo(_) => "halo",
            Self::List(_) => "list",
            Self::Peer(_) => "peer",
            Self::Streamed => "stream",
        }
    }

    /// The pixels around a block that its rank has as well; of a kind without blocks those of all others.
    #[must_use]
    pub fn halo(&self) -> Halo {
        match self {
            Self::Halo(halo) | Self::List(halo) | Self::Peer(halo) => *halo,
            Self::Replicated | Self::Streamed => Halo::default(),
        }
    }
}

/// What a rank has to have in memory, pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plan {
    /// The own rank.
    pub rank: usize,
    /// How the fixed image is cut.
    pub fixed_blocks: Decomposition,
    /// How the moving image is cut.
    pub moving_blocks: Decomposition,
    /// The block of the fixed image whose bins are on the device.
    pub fixed: Block,
    /// The block of the moving image whose pixels are on the device.
    pub moving: Block,
    /// Whether the whole moving image is in the memory of the host as well.
    pub whole_on_host: bool,
    kind: StrategyKind,
}

impl Plan {
    /// For a rank of some, with images of these sizes.
    ///
    /// # Errors
    /// Sizes that are refused; parts that are not as many as ranks.
    pub fn new(
        kind: StrategyKind,
        [fixed, moving]: [Dims; 2],
        [rank, ranks]: [usize; 2],
        rule: BlockRule,
    ) -> Result<Self> {
        let fixed_blocks = Decomposition::new(fixed, ranks, rule)?;
        let moving_blocks = Decomposition::new(moving, ranks, rule)?;
        let plan = Self {
            rank,
            fixed_blocks,
            moving_blocks,
            fixed: fixed_blocks.block(rank),
            moving: Block::default(),
            whole_on_host: matches!(kind, StrategyKind::Halo(_)),
            kind,
        };
        Ok(Self { moving: plan.moving_of(rank), ..plan })
    }

    /// The moving block that a rank has on its device: with at least the one pixel around it that interpolation needs.
    #[must_use]
    pub fn moving_of(&self, rank: usize) -> Block {
        let dims = self.moving_blocks.dims();
        let halo = match self.kind {
            StrategyKind::Replicated => return Block::whole(dims),
            StrategyKind::Streamed => return Block::default(),
            StrategyKind::Halo(halo) | StrategyKind::List(halo) | StrategyKind::Peer(halo) => halo,
        };
        let block = self.moving_blocks.block(rank);
        block.grown(halo.of(&block).map(|n| n.max(1)), dims)
    }

    /// The kind of the strategy.
    #[must_use]
    pub fn kind(&self) -> StrategyKind {
        self.kind
    }
}

/// What a rank has on its device.
pub struct Held<D: Device, P: Pixel> {
    pub(super) device: D,
    pub(super) plan: Plan,
    pub(super) fixed: D::Buffer<u8>,
    pub(super) moving: Arc<D::Buffer<P>>,
}

impl<D: Device, P: Pixel> Held<D, P> {
    /// The bins of the fixed block and the pixels of the moving block that a plan names.
    ///
    /// # Errors
    /// If they are not as many.
    pub fn new(device: D, plan: Plan, fixed: D::Buffer<u8>, moving: D::Buffer<P>) -> Result<Self> {
        check_len("bins of the fixed block", plan.fixed.len(), fixed.len())?;
        check_len("pixels of the moving block", plan.moving.len(), moving.len())?;
        Ok(Self { device, plan, fixed, moving: Arc::new(moving) })
    }

    /// The plan.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The own moving block with its halo.
    pub(super) fn own(&self) -> Brick<'_, D> {
        let dims = self.plan.moving_blocks.dims();
        Brick::new(self.plan.moving, dims, Pixels::on_device::<P>(&*self.moving))
    }
}
