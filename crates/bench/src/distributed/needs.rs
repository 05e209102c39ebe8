//! What strategies have in memory, before anything is allocated.

use super::crew::Needs;
use super::scene::Scene;
use super::texture::Depth;
use super::variants::Group;
use voxalign_compute::ops::joint::{Block, BlockRule, Sending};
use voxalign_jobs::Result;
use voxalign_register::search::distributed::{ListOptions, Plan, StrategyKind, streamed_memory};

/// The plan of a rank.
pub(super) fn plan(scene: &Scene, kind: StrategyKind, [rank, ranks]: [usize; 2]) -> Result<Plan> {
    Ok(Plan::new(kind, [scene.dims(); 2], [rank, ranks], BlockRule::Balanced)?)
}

/// What the ranks of a group have: bins of the fixed block, pixels of the moving block, messages of the variant that has
/// the most of them, and the whole image on the host where it is read there. Of what is streamed, chunks alone, within a limit of the device.
pub(super) fn needs<P: Depth>(
    scene: &Scene,
    group: &Group,
    ranks: usize,
    limit: Option<u64>,
) -> Result<Needs> {
    if group.kind == StrategyKind::Streamed {
        let images = (1 + size_of::<P>() as u64) * Block::whole(scene.dims()).len() as u64;
        let each = streamed_memory(limit.unwrap_or(u64::MAX)).min(images);
        return Ok(Needs { devices: vec![each; ranks], host: ranks as u64 * each });
    }
    let pixel = size_of::<P>() as u64;
    let (mut devices, mut host) = (Vec::new(), 0);
    for rank in 0..ranks {
        let plan = plan(scene, group.kind, [rank, ranks])?;
        let images = plan.fixed.len() as u64 + pixel * plan.moving.len() as u64;
        let of_list = |list: &ListOptions| messages(&plan, list);
        let lists = match group.kind {
            StrategyKind::List(_) => group.variants.iter().map(|v| of_list(&v.list)).max(),
            _ => None,
        };
        devices.push(images + lists.unwrap_or(0));
        if plan.whole_on_host {
            host = pixel * Block::whole(scene.dims()).len() as u64;
        }
    }
    Ok(Needs { devices, host })
}

/// The bytes of messages that are collected and of those that arrive, of all streams.
fn messages(plan: &Plan, list: &ListOptions) -> u64 {
    let along = |a: usize| plan.fixed.dims[a].min(list.chunk[a]);
    let most = along(0) * along(1) * along(2);
    let chunks: usize = (0..3).map(|a| plan.fixed.dims[a].div_ceil(list.chunk[a].max(1))).product();
    let sending = Sending {
        owners: plan.moving_blocks,
        own: plan.rank,
        here: plan.moving,
        layout: list.layout,
        collect: list.collect,
        most,
        axes: 2,
    };
    let own = sending.words() + sending.scratch();
    // Those of a second chunk, or at most all pixels of a chunk of all others.
    let others = plan.moving_blocks.ranks().saturating_sub(1);
    let words = own + if list.direct { own } else { list.layout.words(most * others, 2) };
    4 * (words * list.streams.clamp(1, chunks.max(1))) as u64
}
