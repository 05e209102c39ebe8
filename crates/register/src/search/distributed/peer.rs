//! Direct reads of the memory of the device that has the pixels.

use super::shared::{exchange, one_process, unreachable};
use super::{Held, JointSums, Plan, Strategy, StrategyKind, with_bricks};
use std::sync::Arc;
use voxalign_compute::comm::{CommError, Communicator, Result};
use voxalign_compute::ops::joint::{
    BlockRule, Brick, FixedPointMap, Halo, JointRule, MovingBins, Pixel, Pixels, Window,
};
use voxalign_compute::{Device, HostBuffer};

/// The moving block of every rank on its device, and reads of all of them by all.
pub struct Peer<D: Device, P: Pixel> {
    held: Held<D, P>,
    others: Others<D, P>,
}

/// The moving blocks of all ranks.
enum Others<D: Device, P: Pixel> {
    /// On their devices.
    Devices(Vec<Arc<D::Buffer<P>>>),
    /// In memory that processes share, of devices without memory of their own.
    Processes(Vec<HostBuffer<P>>),
    /// On the devices of other processes of this machine; that of this one is its own.
    Opened(Vec<D::Buffer<P>>),
}

impl<D: Device, P: Pixel> Peer<D, P> {
    /// With what a plan of [`StrategyKind::Peer`](super::StrategyKind::Peer) names. All ranks call it.
    ///
    /// # Errors
    /// At every rank, where ranks do not reach each other's memory: processes of several machines, GPUs that do not reach each other.
    pub fn new(ranks: &Communicator, mut held: Held<D, P>) -> Result<Self> {
        // What others read has to be there.
        ranks.agree(held.device.synchronize().map_err(CommError::from))?;
        let others = match one_process(ranks)? {
            true => Others::Devices(exchange(ranks, &held.moving)?),
            false if held.device.has_own_memory() => Others::Opened(opened(ranks, &mut held)?),
            false => Others::Processes(shared(ranks, &held)?),
        };
        Ok(Self { held, others })
    }

    /// The pixels of a rank.
    fn of(&self, rank: usize) -> Pixels<'_, D> {
        match &self.others {
            Others::Devices(all) => Pixels::on_device::<P>(&*all[rank]),
            Others::Processes(all) => Pixels::on_host(&all[rank]),
            Others::Opened(all) => Pixels::on_device::<P>(&all[rank]),
        }
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
    fn sums(
        &self,
        ranks: &Communicator,
        rule: &JointRule,
        table: Option<&[i32]>,
    ) -> Result<JointSums> {
        let plan = &self.held.plan;
        let dims = plan.moving_blocks.dims();
        let mut bricks = vec![self.held.own()];
        for rank in (0..ranks.size()).filter(|&rank| rank != plan.rank) {
            let brick = Brick::new(plan.moving_of(rank), dims, self.of(rank));
            bricks.push(brick.within(plan.moving_blocks.cells(rank)));
        }
        with_bricks(ranks, &self.held, rule, table, &bricks)
    }
}

fn one_machine(ranks: &Communicator) -> Result<()> {
    let alike = ranks.machines()?.iter().all(|&machine| machine == 0);
    ranks.agree(if alike { Ok(()) } else { Err(unreachable()) })
}

/// The moving blocks of all processes of a machine, on their GPUs; the own one moves to memory that others open.
fn opened<D: Device, P: Pixel>(
    ranks: &Communicator,
    held: &mut Held<D, P>,
) -> Result<Vec<D::Buffer<P>>> {
    one_machine(ranks)?;
    let published = ranks.agree(held.device.publish(&held.moving).map_err(CommError::from));
    let (own, handle) = published?;
    held.moving = Arc::new(own);
    let handles = ranks.all_gather(&handle)?;
    let open = |(rank, handle): (usize, &Vec<u8>)| match rank == held.plan.rank {
        // In its place.
        true => held.device.alloc::<P>(0),
        false => held.device.open_published(handle, held.plan.moving_of(rank).len()),
    };
    let all = handles.iter().enumerate().map(|handle| Ok(open(handle)?)).collect::<Result<_>>();
    ranks.agree(all)
}

/// The moving blocks of all processes of a machine, in memory that they share.
fn shared<D: Device, P: Pixel>(
    ranks: &Communicator,
    held: &Held<D, P>,
) -> Result<Vec<HostBuffer<P>>> {
    one_machine(ranks)?;
    let mut all = Vec::with_capacity(ranks.size());
    for rank in 0..ranks.size() {
        let mut block = ranks.shared_memory::<P>(held.plan.moving_of(rank).len())?;
        let is_shared = block.share[1] == ranks.size();
        ranks.agree(if is_shared { Ok(()) } else { Err(unreachable()) })?;
        if rank == held.plan.rank {
            let pixels = held.device.download(&held.moving).map_err(CommError::from);
            let copied = pixels.map(|pixels| block.memory.copy_from_slice(&pixels));
            ranks.agree(copied)?;
        } else {
            ranks.agree(Ok::<_, CommError>(()))?;
        }
        all.push(block.memory);
    }
    Ok(all)
}
