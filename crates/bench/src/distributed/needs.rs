//! What strategies have in memory, before anything is allocated.

use super::crew::Needs;
use super::scene::Scene;
use super::texture::Depth;
use super::variants::Group;
use voxalign_compute::ops::joint::{Block, BlockRule};
use voxalign_jobs::Result;
use voxalign_register::search::distributed::{Plan, StrategyKind, streamed_memory};

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
        let lists = match group.kind {
            StrategyKind::List(_) => group.variants.iter().map(|v| v.list.memory(&plan)).max(),
            _ => None,
        };
        devices.push(images + lists.unwrap_or(0));
        if plan.whole_on_host {
            host = pixel * Block::whole(scene.dims()).len() as u64;
        }
    }
    Ok(Needs { devices, host })
}
