//! The times of strategies over angles, at one of the ranks.

use super::needs::plan;
use super::scene::{Scene, Spent};
use super::sectors::transactions;
use super::supply::{Clocked, Made};
use super::texture::Depth;
use super::variants::{Group, Variant, WindowName};
use crate::Host;
use std::sync::Arc;
use std::time::Instant;
use voxalign_compute::comm::{Clock, Communicator, Operation};
use voxalign_compute::ops::joint::{JointRule, PixelsPerThread};
use voxalign_compute::{Device, HostBuffer};
use voxalign_jobs::{Error, Level, Result, check};
use voxalign_register::search::distributed::{
    Halo, Held, JointSums, List, Peer, Plan, Replicated, Strategy, StrategyKind, Streamed, Traffic,
};

/// Steps of warps that are looked at for the transactions of a rank, and warps at least.
const STEPS: usize = 1 << 13;
const WARPS: usize = 64;

/// How it is measured.
pub(super) struct Job<'a, P: Depth> {
    pub(super) scene: Scene,
    pub(super) group: Group,
    /// Degrees.
    pub(super) angles: &'a [f64],
    /// The angle, by its number, whose operations are kept.
    pub(super) traced: usize,
    /// Runs that are timed, after one that is not; none to have the histograms alone.
    pub(super) repeats: usize,
    /// The moving image on the host, where the strategy reads it there.
    pub(super) whole: Option<Arc<HostBuffer<P>>>,
    /// What images may take of the memory of a device.
    pub(super) device_memory: Option<u64>,
    /// The histograms that have to be found, by window.
    pub(super) expected: &'a Expected,
    pub(super) host: &'a dyn Host,
}

/// Histograms by window and angle, and whose they are.
#[derive(Debug, Clone, Default)]
pub(super) struct Expected {
    pub(super) of: Vec<(WindowName, Vec<Vec<i64>>)>,
    pub(super) by: String,
}

impl Expected {
    fn at(&self, window: WindowName, angle: usize) -> Option<&[i64]> {
        let (_, all) = self.of.iter().find(|(w, _)| *w == window)?;
        all.get(angle).map(Vec::as_slice)
    }
}

/// What a rank did with its time in one evaluation, s.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Load {
    pub(super) all: f64,
    /// Sums and messages on their way, while all ranks are there.
    pub(super) communicating: f64,
    /// Until all ranks are there.
    pub(super) waiting: f64,
}

impl Load {
    /// The rest.
    pub(super) fn computing(&self) -> f64 {
        (self.all - self.communicating - self.waiting).max(0.0)
    }

    fn new(all: f64, operations: &[Operation]) -> Self {
        let sum = |f: &dyn Fn(&Operation) -> f64| operations.iter().map(f).sum();
        let (communicating, waiting) = (sum(&|o| o.ended - o.began), sum(&|o| o.began - o.came));
        Self { all, communicating, waiting }
    }
}

/// The exchange of messages of one chunk, at one rank.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Round {
    pub(super) rank: usize,
    pub(super) round: usize,
    /// When its own messages were there, when those of all were, and when they were exchanged; s.
    pub(super) times: [f64; 3],
    /// What it sent.
    pub(super) bytes: u64,
}

/// A variant at an angle.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Point {
    /// Its number in the group.
    pub(super) variant: usize,
    pub(super) degrees: f64,
    /// What was taken under the rotation.
    pub(super) pixels_per_thread: PixelsPerThread,
    /// Of each run, that of the slowest rank.
    pub(super) seconds: Vec<f64>,
    pub(super) traffic: Traffic,
    /// All memory transactions, and those of remote memory.
    pub(super) transactions: [i64; 2],
    /// Of every rank.
    pub(super) loads: Vec<Load>,
    /// At the traced angle, of a list.
    pub(super) rounds: Vec<Round>,
}

impl Point {
    /// The mean.
    pub(super) fn mean(&self) -> f64 {
        self.seconds.iter().sum::<f64>() / self.seconds.len() as f64
    }

    /// The part of the samples whose pixels another rank has.
    pub(super) fn share(&self) -> f64 {
        let Traffic { samples, remote_reads, messages, .. } = self.traffic;
        (remote_reads + messages) as f64 / samples.max(1) as f64
    }
}

/// What a group has.
#[derive(Debug, Clone, Default)]
pub(super) struct Found {
    pub(super) points: Vec<Point>,
    /// Where none were expected, the histograms of the first variant of each window.
    pub(super) counts: Vec<(WindowName, Vec<Vec<i64>>)>,
}

/// A strategy whose options can be changed.
enum Sharing<D: Device, P: Depth> {
    Fixed(Box<dyn Strategy>),
    List(Box<List<D, P>>),
    Streamed(Box<dyn Strategy>, Arc<Clocked>),
}

impl<D: Device, P: Depth> Sharing<D, P> {
    fn new(ranks: &Communicator, device: &D, plan: Plan, job: &Job<'_, P>) -> Result<Self> {
        if plan.kind() == StrategyKind::Streamed {
            let (made, making) = Made::new(job.scene);
            let memory = job.device_memory.unwrap_or(u64::MAX);
            let streamed = Streamed::<D, P>::new(device.clone(), plan, Box::new(made), memory);
            return Ok(Self::Streamed(Box::new(streamed), making));
        }
        let held = || -> Result<_> {
            let mut spent = Spent::default();
            let fixed = job.scene.fixed_block::<P, D>(device, &plan.fixed, &mut spent)?;
            let moving = job.scene.moving_block::<P, D>(device, &plan.moving, &mut spent)?;
            Ok((Held::new(device.clone(), plan, fixed, moving)?, spent))
        };
        let (held, spent) = ranks.agree(held())?;
        say(ranks, spent, job)?;
        Ok(match plan.kind() {
            StrategyKind::Replicated | StrategyKind::Streamed => {
                Self::Fixed(Box::new(Replicated::new(held)))
            }
            StrategyKind::List(_) => {
                Self::List(Box::new(List::new(held, job.group.variants[0].list)))
            }
            StrategyKind::Peer(_) => Self::Fixed(Box::new(Peer::new(ranks, held)?)),
            StrategyKind::Halo(_) => {
                let missing = || Error::Internal("there is no whole image".into());
                let whole = job.whole.clone().ok_or_else(missing)?;
                Self::Fixed(Box::new(Halo::new(held, whole)?))
            }
        })
    }

    fn strategy(&mut self, variant: &Variant) -> &dyn Strategy {
        match self {
            Self::Fixed(strategy) | Self::Streamed(strategy, _) => &**strategy,
            Self::List(list) => {
                list.set_options(variant.list);
                &**list
            }
        }
    }
}

/// Tells what the slowest rank needed to have its images.
fn say<P: Depth>(ranks: &Communicator, spent: Spent, job: &Job<'_, P>) -> Result<()> {
    let mut seconds = [spent.making, spent.uploading];
    ranks.all_reduce_max(&mut seconds)?;
    if ranks.is_first() {
        let [making, uploading] = seconds;
        let text = format!(
            "images of the slowest rank: made in {making:.3} s, brought to its device in {uploading:.3} s"
        );
        job.host.tell(Level::Verbose, &text.into());
    }
    Ok(())
}

/// A rank that measures.
struct Rank<'a, D: Device, P: Depth> {
    job: &'a Job<'a, P>,
    ranks: &'a Communicator,
    clocked: Communicator,
    clock: Arc<Clock>,
    plan: Plan,
    sharing: Sharing<D, P>,
    /// Transactions at the present angle, by the pixels of a thread.
    known: Vec<(PixelsPerThread, [i64; 2])>,
}

/// Measures a group at one of the ranks; all have the same result.
pub(super) fn at_rank<D: Device, P: Depth>(
    ranks: &Communicator,
    device: &D,
    job: &Job<'_, P>,
) -> Result<Found> {
    let plan = plan(&job.scene, job.group.kind, [ranks.rank(), ranks.size()])?;
    let sharing = Sharing::new(ranks, device, plan, job)?;
    let (clocked, clock) = ranks.clocked();
    let mut rank = Rank { job, ranks, clocked, clock, plan, sharing, known: Vec::new() };
    let mut found = Found::default();
    for angle in 0..job.angles.len() {
        ranks.agree(check(job.host))?;
        rank.known.clear();
        for variant in 0..job.group.variants.len() {
            rank.variant(variant, angle, &mut found)?;
        }
    }
    Ok(found)
}

impl<D: Device, P: Depth> Rank<'_, D, P> {
    fn variant(&mut self, number: usize, angle: usize, found: &mut Found) -> Result<()> {
        let job = self.job;
        let variant = &job.group.variants[number];
        let (degrees, window) = (job.angles[angle], variant.window);
        let rule = job.scene.rule::<P>(degrees, window.window(), variant.pixels_per_thread)?;
        let sums = self.sharing.strategy(variant).sums(self.ranks, &rule, None)?;
        self.check(&sums, number, angle, found)?;
        if job.repeats == 0 {
            return Ok(());
        }
        let mut seconds = Vec::new();
        for _ in 0..job.repeats {
            self.ranks.barrier()?;
            let start = Instant::now();
            self.sharing.strategy(variant).sums(self.ranks, &rule, None)?;
            seconds.push(start.elapsed().as_secs_f64());
        }
        self.ranks.all_reduce_max(&mut seconds)?;
        self.say_making(number, degrees)?;
        let (loads, rounds) = self.trace(variant, &rule, angle == job.traced)?;
        let transactions = self.transactions(&rule)?;
        let traffic = sums.traffic;
        let variant = number;
        found.points.push(Point {
            variant,
            degrees,
            pixels_per_thread: rule.pixels_per_thread.under(&rule.map),
            seconds,
            traffic,
            transactions,
            loads,
            rounds,
        });
        Ok(())
    }

    /// Tells how long chunks were made since the last time, on average of evaluations.
    fn say_making(&self, number: usize, degrees: f64) -> Result<()> {
        let Sharing::Streamed(_, making) = &self.sharing else { return Ok(()) };
        // One evaluation came before those that count.
        let mut seconds = [making.take() / (self.job.repeats + 1) as f64];
        self.ranks.all_reduce_max(&mut seconds)?;
        if self.ranks.is_first() {
            let (name, seconds) = (&self.job.group.variants[number].name, seconds[0]);
            let text = format!(
                "'{name}' at {degrees} degrees: chunks of the slowest rank were made in {seconds:.3} s of an evaluation"
            );
            self.job.host.tell(Level::Verbose, &text.into());
        }
        Ok(())
    }

    /// Checks a histogram, or keeps it where it is the first.
    fn check(
        &self,
        sums: &JointSums,
        number: usize,
        angle: usize,
        found: &mut Found,
    ) -> Result<()> {
        let job = self.job;
        let variant = &job.group.variants[number];
        let window = variant.window;
        let own = found.counts.iter().position(|(w, _)| *w == window);
        let expected = match job.expected.at(window, angle) {
            Some(expected) => Some(expected),
            None => own.and_then(|k| found.counts[k].1.get(angle)).map(Vec::as_slice),
        };
        let same = match expected {
            None => {
                let counts = sums.counts().to_vec();
                match own {
                    Some(k) => found.counts[k].1.push(counts),
                    None => found.counts.push((window, vec![counts])),
                }
                Ok(())
            }
            Some(expected) if expected == sums.counts() => Ok(()),
            Some(_) => Err(Error::Internal(format!(
                "the histogram of '{}' on {} ranks at {} degrees is not that of {}",
                variant.name,
                self.ranks.size(),
                job.angles[angle],
                if job.expected.by.is_empty() { "another variant" } else { &job.expected.by },
            ))),
        };
        self.ranks.agree(same)
    }

    /// One more evaluation, with a clock.
    fn trace(
        &mut self,
        variant: &Variant,
        rule: &JointRule,
        keep: bool,
    ) -> Result<(Vec<Load>, Vec<Round>)> {
        self.ranks.barrier()?;
        self.clock.start();
        self.sharing.strategy(variant).sums(&self.clocked, rule, None)?;
        let all = self.clock.seconds();
        let operations = self.clock.operations();
        let own = Load::new(all, &operations);
        let loads = self.ranks.all_gather(&[own.all, own.communicating, own.waiting])?;
        let load = |l: &Vec<f64>| match l[..] {
            [all, communicating, waiting] => Load { all, communicating, waiting },
            _ => Load::default(),
        };
        let exchanges = operations.iter().filter(|o| keep && o.name == "exchange");
        let own: Vec<f64> =
            exchanges.flat_map(|o| [o.came, o.began, o.ended, o.bytes as f64]).collect();
        let of_all = self.ranks.all_gather(&own)?;
        let mut rounds = Vec::new();
        for (rank, own) in of_all.iter().enumerate() {
            for (round, o) in own.chunks_exact(4).enumerate() {
                rounds.push(Round { rank, round, times: [o[0], o[1], o[2]], bytes: o[3] as u64 });
            }
        }
        Ok((loads.iter().map(load).collect(), rounds))
    }

    /// The transactions of all ranks.
    fn transactions(&mut self, rule: &JointRule) -> Result<[i64; 2]> {
        let pixels = rule.pixels_per_thread.under(&rule.map);
        if let Some((_, known)) = self.known.iter().find(|(p, _)| *p == pixels) {
            return Ok(*known);
        }
        let bytes = size_of::<P>() as u64;
        let most = STEPS.max(WARPS * pixels.sides().iter().product::<usize>());
        let mut sums = transactions(&self.job.scene, &self.plan, rule, bytes, most);
        self.ranks.all_reduce_sum(&mut sums)?;
        self.known.push((pixels, sums));
        Ok(sums)
    }
}
