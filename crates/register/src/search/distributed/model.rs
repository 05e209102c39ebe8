//! Which strategy serves, by a model of the machine.

use super::streamed::LEAST_MEMORY;
use super::{ListOptions, Plan, StrategyKind};
use crate::error::Result;
use voxalign_compute::ops::joint::{BlockRule, FixedPointMap, Halo};
use voxalign_compute::{AffineMap, Dims};

/// How fast the parts of a machine are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// Fixed pixels that a device goes through, per second.
    pub samples: f64,
    /// Those of them whose moving pixels are in the memory of another device, per second, in addition.
    pub peer: f64,
    /// Those whose moving pixels are in the memory of the host, likewise.
    pub host: f64,
    /// Those that are sent to another rank and counted there, likewise.
    pub messages: f64,
    /// Bytes that reach a device from the host, per second and device.
    pub transfer: f64,
}

impl Rates {
    /// Of a GPU: measured with two H200 (`voxalign bench distributed` with images of 65,536 x 65,536 pixels) under rotations by 90 and 180
    /// degrees, the slower of both; messages are those that go through the host, as where devices reach each other the strategy peer is
    /// faster than any.
    pub const GPU: Self =
        Self { samples: 2e11, peer: 5e11, host: 6e9, messages: 6e8, transfer: 1.3e10 };

    /// Of a rank that computes on the CPU with one thread; samples are measured, the others reckoned: remote pixels are in memory like all others, and messages are copied.
    pub const CPU: Self =
        Self { samples: 1.2e8, peer: 1.2e8, host: 1.2e8, messages: 2e7, transfer: 2e9 };
}

/// The ranks and what they have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Machine {
    /// The number of ranks.
    pub ranks: usize,
    /// Memory of the device that images may take, bytes: the least of all ranks.
    pub device_memory: u64,
    /// Memory of the host that images of one rank may take, bytes: the least of all ranks.
    pub host_memory: u64,
    /// Whether ranks read each other's memory; of a single one, which has no others, false.
    pub peers: bool,
    /// Whether devices have memory of their own, apart from the host's.
    pub apart: bool,
    /// How fast it is.
    pub rates: Rates,
}

/// What a strategy would take, of the rank that takes most.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The strategy.
    pub strategy: StrategyKind,
    /// Memory of the device for images and messages, bytes.
    pub device_bytes: u64,
    /// Memory of the host for images, bytes.
    pub host_bytes: u64,
    /// The part of the samples whose pixels another rank has.
    pub remote: f64,
    /// Seconds of one joint histogram.
    pub seconds: f64,
    /// Whether memory is enough, and the machine can do it.
    pub serves: bool,
}

/// Samples of each axis by which remote pixels are estimated.
const SAMPLED: usize = 64;

/// What each strategy would take with images of these sizes and bytes a moving pixel under a map between pixels. The best is the first
/// of them that serves: those that do come first, the fastest in front.
///
/// # Errors
/// Sizes that are refused.
pub fn estimates(
    machine: &Machine,
    dims: [Dims; 2],
    pixel: usize,
    map: &FixedPointMap,
    (halo, blocks, list): (Halo, BlockRule, &ListOptions),
) -> Result<Vec<Estimate>> {
    let kinds = [
        StrategyKind::Replicated,
        StrategyKind::Peer(halo),
        StrategyKind::Halo(halo),
        StrategyKind::List(halo),
        StrategyKind::Streamed,
    ];
    let map = map.to_affine();
    let of = |kind| estimate(machine, dims, pixel, &map, kind, (blocks, list));
    let mut all = kinds.into_iter().map(of).collect::<Result<Vec<_>>>()?;
    // Stable: of equal ones the simplest.
    all.sort_by(|a, b| b.serves.cmp(&a.serves).then(a.seconds.total_cmp(&b.seconds)));
    Ok(all)
}

fn estimate(
    machine: &Machine,
    [fixed, moving]: [Dims; 2],
    pixel: usize,
    map: &AffineMap,
    kind: StrategyKind,
    (blocks, list): (BlockRule, &ListOptions),
) -> Result<Estimate> {
    let whole = (moving.iter().product::<usize>() * pixel) as u64;
    let mut found = Estimate {
        strategy: kind,
        device_bytes: 0,
        host_bytes: 0,
        remote: 0.0,
        seconds: 0.0,
        serves: false,
    };
    let rates = machine.rates;
    for rank in 0..machine.ranks {
        let plan = Plan::new(kind, [fixed, moving], [rank, machine.ranks], blocks)?;
        let own = plan.fixed.len() as f64;
        let device = (plan.fixed.len() + plan.moving.len() * pixel) as u64;
        let share = match kind {
            StrategyKind::Replicated | StrategyKind::Streamed => 0.0,
            _ => remote(&plan, map),
        };
        let far = own * share;
        let counted = own / rates.samples;
        let (device, host, seconds) = match kind {
            StrategyKind::Replicated => (device, 0, counted),
            StrategyKind::Peer(_) => (device, 0, counted + far / rates.peer),
            StrategyKind::Halo(_) => (device, whole, counted + far / rates.host),
            StrategyKind::List(_) => {
                (device + list.memory(&plan), 0, counted + far / rates.messages)
            }
            StrategyKind::Streamed => {
                // Chunks meet about as many moving pixels as they would at half a right angle.
                let bytes = own + 2.0 * whole as f64 / machine.ranks as f64;
                let taken = machine.device_memory.min(device + whole).max(LEAST_MEMORY);
                (taken, 0, counted + bytes / rates.transfer)
            }
        };
        found.device_bytes = found.device_bytes.max(device);
        found.host_bytes = found.host_bytes.max(host);
        found.remote = found.remote.max(share);
        found.seconds = found.seconds.max(seconds);
    }
    let fits = if machine.apart {
        found.device_bytes <= machine.device_memory && found.host_bytes <= machine.host_memory
    } else {
        found.device_bytes + found.host_bytes <= machine.device_memory
    };
    // A single rank has all pixels itself.
    let reached = machine.peers || machine.ranks == 1;
    found.serves = fits && (reached || !matches!(kind, StrategyKind::Peer(_)));
    Ok(found)
}

/// The part of the samples of a rank whose pixels are within the moving image, but not on its device: of samples at regular places.
fn remote(plan: &Plan, map: &AffineMap) -> f64 {
    let (block, dims) = (plan.fixed, plan.moving_blocks.dims());
    if block.is_empty() {
        return 0.0;
    }
    let places = |a: usize| {
        let n = block.dims[a].min(SAMPLED);
        (0..n).map(move |k| {
            block.origin[a] as f64 + (k as f64 + 0.5) / n as f64 * block.dims[a] as f64 - 0.5
        })
    };
    let (mut all, mut far) = (0u64, 0u64);
    for z in places(2) {
        for y in places(1) {
            for x in places(0) {
                let at = |r: usize| map[r][0] * x + map[r][1] * y + map[r][2] * z + map[r][3];
                let inside = |r: usize, low: usize, end: usize| {
                    let at = at(r);
                    dims[r] == 1 || (low as f64 <= at && at <= end as f64 - 1.0)
                };
                all += 1;
                if (0..3).all(|r| inside(r, 0, dims[r])) {
                    let here = (0..3).all(|r| inside(r, plan.moving.origin[r], plan.moving.end(r)));
                    far += u64::from(!here);
                }
            }
        }
    }
    far as f64 / all as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(ranks: usize, device_memory: u64) -> Machine {
        let rates = Rates::GPU;
        Machine { ranks, device_memory, host_memory: 1 << 40, peers: true, apart: true, rates }
    }

    fn turned(n: usize, degrees: f64) -> FixedPointMap {
        let (s, c) = degrees.to_radians().sin_cos();
        let m = (n as f64 - 1.0) / 2.0;
        let row = |a: f64, b: f64| [a, b, 0.0, m - a * m - b * m];
        FixedPointMap::new(&[row(c, -s), row(s, c), [0.0, 0.0, 1.0, 0.0]]).unwrap()
    }

    fn best(machine: &Machine, n: usize, degrees: f64) -> &'static str {
        let sizes = [[n, n, 1]; 2];
        let how = (Halo::default(), BlockRule::default(), &ListOptions::default());
        let all = estimates(machine, sizes, 1, &turned(n, degrees), how).unwrap();
        assert!(all[0].serves && all[0].device_bytes <= machine.device_memory);
        all[0].strategy.name()
    }

    #[test]
    fn what_fits_decides() {
        let n = 4096;
        let image = (n * n) as u64;
        assert_eq!(best(&machine(2, 3 * image), n, 90.0), "replicate");
        assert_eq!(best(&machine(2, image + image / 4), n, 90.0), "peer");
        let alone = Machine { peers: false, ..machine(2, image + image / 4) };
        assert_eq!(best(&alone, n, 180.0), "halo");
        assert_eq!(best(&alone, n, 0.0), "halo");
        // Neither the host has room for the whole image, nor the device for messages.
        let short = Machine { host_memory: image / 2, ..alone };
        assert_eq!(best(&short, n, 90.0), "stream");
        assert_eq!(best(&machine(2, image / 4), n, 30.0), "stream");
        assert_eq!(best(&machine(1, image / 4), n, 0.0), "stream");
        // A single rank needs no others.
        let single = Machine { peers: false, ..machine(1, 3 * image) };
        let how = (Halo::default(), BlockRule::default(), &ListOptions::default());
        let all = estimates(&single, [[n, n, 1]; 2], 1, &turned(n, 0.0), how).unwrap();
        assert!(all.iter().all(|e| e.serves || matches!(e.strategy, StrategyKind::List(_))));
    }

    #[test]
    fn what_is_remote_is_what_turns_out_of_the_block() {
        let n = 512;
        let part = |ranks, degrees| {
            let plan = Plan::new(
                StrategyKind::List(Halo::default()),
                [[n, n, 1]; 2],
                [0, ranks],
                BlockRule::AlongX,
            );
            remote(&plan.unwrap(), &turned(n, degrees).to_affine())
        };
        assert_eq!(part(1, 40.0), 0.0);
        assert!(part(2, 0.0) < 0.01);
        assert!((part(2, 90.0) - 0.5).abs() < 0.01);
        assert!((part(2, 180.0) - 1.0).abs() < 0.02);
    }
}
