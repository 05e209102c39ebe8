//! Direct reads of the memory of the device that has the pixels.

use super::shared::exchange;
use super::{Held, JointSums, Plan, Strategy, StrategyKind, with_bricks};
use std::sync::Arc;
use voxalign_compute::Device;
use voxalign_compute::comm::{CommError, Communicator, Result};
use voxalign_compute::ops::joint::{
    BlockRule, Brick, FixedPointMap, Halo, JointRule, MovingBins, Pixel, Pixels, Window,
};

/// The moving block of every rank on its device, and reads of all of them by all.
pub struct Peer<D: Device, P: Pixel> {
    held: Held<D, P>,
    /// Those of all ranks.
    moving: Vec<Arc<D::Buffer<P>>>,
}

impl<D: Device, P: Pixel> Peer<D, P> {
    /// With what a plan of [`StrategyKind::Peer`](super::StrategyKind::Peer) names. All ranks call it.
    ///
    /// # Errors
    /// [`CommError::Unavailable`], at every rank, where ranks are not threads of one process.
    pub fn new(ranks: &Communicator, held: Held<D, P>) -> Result<Self> {
        // What others read has to be there.
        ranks.agree(held.device.synchronize().map_err(CommError::from))?;
        let moving = exchange(ranks, &held.moving)?;
        Ok(Self { held, moving })
    }
}

impl<D: Device> Peer<D, u8> {
    /// Whether ranks read each other's memory: tried with images of some pixels. All ranks call it, and all get the same.
    pub fn works(ranks: &Communicator, device: &D) -> bool {
        let dims = [2 * ranks.size(), 2, 1];
        let one = || {
            let kind = StrategyKind::Peer(Halo::default());
            let rank = [ranks.rank(), ranks.size()];
            let plan = Plan::new(kind, [dims; 2], rank, BlockRule::AlongX)?;
            let fixed = device.upload_vec(vec![0; plan.fixed.len()])?;
            let moving = device.upload_vec(vec![0; plan.moving.len()])?;
            Held::new(device.clone(), plan, fixed, moving)
        };
        let tried = || {
            let peer = Self::new(ranks, ranks.agree(one())?)?;
            let map = FixedPointMap::new(&voxalign_compute::IDENTITY)?;
            let bins = MovingBins::new(0, 1, 2)?;
            peer.sums(ranks, &JointRule::new(map, dims, 2, bins, Window::Plain), None)
        };
        tried().is_ok()
    }
}

impl<D: Device, P: Pixel> Strategy for Peer<D, P> {
    fn name(&self) -> &'static str {
        "peer"
    }

    fn sums(
        &self,
        ranks: &Communicator,
        rule: &JointRule,
        table: Option<&[i32]>,
    ) -> Result<JointSums> {
        let plan = &self.held.plan;
        let dims = plan.moving_blocks.dims();
        let mut bricks = vec![self.held.own()];
        for (rank, moving) in self.moving.iter().enumerate().filter(|&(r, _)| r != plan.rank) {
            let brick = Brick::new(plan.moving_of(rank), dims, Pixels::on_device::<P>(&**moving));
            bricks.push(brick.within(plan.moving_blocks.cells(rank)));
        }
        with_bricks(ranks, &self.held, rule, table, &bricks)
    }
}
