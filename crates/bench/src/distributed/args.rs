//! The arguments of the measurement.

use super::scene::Scene;
use super::variants::{Extent, Side, Strategy, Wanted, WindowName};
use clap::Args;
use std::path::PathBuf;
use std::str::FromStr;
use voxalign_compute::ops::joint::PixelsPerThread;
use voxalign_compute::select::DeviceChoice;
use voxalign_jobs::machine::{Running, from_environment};
use voxalign_jobs::{Error, Result};
use voxalign_population::atlas::Bytes;

/// Arguments of `voxalign bench distributed`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
The experiment of Adinetz et al. (Computation of mutual information metric for image registration on
multiple GPUs), figures 3 to 7. Fixed and moving image are equal: a smooth random texture that every
rank makes for the blocks that it holds. Samples are the pixels within a circle of 0.9 of the smaller
half axis, and the moving image is turned about the centre: the angle sets how many samples need
pixels that another rank has, a part of min(N angle / 360 degrees, 1) with N = 2 or 4 ranks. Blocks
are cut along x, then along y.

Every strategy counts the same joint histogram in whole numbers; one that differs from that of whole
images on one rank ends the command. `replicate` is the baseline: the whole moving image on every
device. `halo` reads what its device lacks from host memory; a larger halo (--halos, a fraction of the
block on each side; 0 is the one pixel that interpolation needs) spares some of it. `list` sends
samples to the rank that has their pixels, chunk after chunk, on several streams; its variants differ
from the first in one thing each: arrays of structures, messages compacted by a second pass, the order
of the chunks, --streams and --chunks. Its messages are read where they were collected, by ranks of one
process whose devices reach each other; one variant sends them through the host, as processes do. `peer`
reads the memory of other devices. `stream` keeps nothing on devices: chunks of both images are made and
brought there at every evaluation, whose time has that of making them. With one rank there are the
baseline and `stream` alone.

A time is the mean of --repeats evaluations after one that is not counted, of the slowest rank, by the
clock of the host. Samples, remote reads, messages and bytes are counted as they happen. Transactions
are those of the kernels of a GPU, worked out on the host from how its threads share pixels: for each
load of a warp the sectors of 32 bytes that its 32 threads touch in the moving image, summed over all
loads; what caches spare is not looked at. Of many warps those at regular distances are looked at.
Those of messages that arrive are not counted. With one pixel per thread they are most at 90 degrees,
where the threads of a warp read a column. The loads of ranks are those of one more evaluation in which
ranks wait for each other before every exchange, so that waiting and exchanging are told apart;
computing is the rest.

Ranks are threads of this process: on the CPU one thread each, on GPUs rank k has GPU k, and where
there are fewer GPUs than ranks several share one. Under mpirun (a build with MPI) they are its
processes, and --ranks 2 means the first two. What does not fit in memory, or in --device-memory, is left
out, with how much it needs; nothing is allocated for it. With --verbose it says how long images are made
and brought to devices.

Examples:
  voxalign bench distributed --quick
  voxalign bench distributed --device cuda --ranks 1,2 --html ranks.html --csv ranks.csv
  voxalign bench distributed --device cuda --ranks 2 --angles 5 --strategies replicate,list
  voxalign bench distributed --device cuda --ranks 2 --size 262144x270000 --once 30
  voxalign bench distributed --device cuda --size 147456 --device-memory 8GiB --strategies stream --once 30
  voxalign bench distributed --size 4096 --ranks 1,2 --strategies replicate --angles 3")]
pub(crate) struct DistributedArgs {
    /// Size of both images, pixels [default: 2048, and 65536 on a GPU; 512 and 8192 with --quick]
    #[arg(long, value_name = "N|WxH")]
    size: Option<Plane>,
    /// Bits of a pixel
    #[arg(long, value_name = "8|16", default_value = "8", value_parser = ["8", "16"])]
    bits: String,
    /// Numbers of ranks [default: 1,2,4, and 1 to all processes under mpirun]
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u8).range(1..=64))]
    ranks: Vec<u8>,
    /// Strategies [default: all but stream]
    #[arg(long, value_enum, value_name = "STRATEGY,...", value_delimiter = ',')]
    strategies: Vec<Strategy>,
    /// Which variants of each strategy [default: all, and usual with --quick and --once]
    #[arg(long, value_enum)]
    variants: Option<Extent>,
    /// Angles from 0 to 180 degrees: how many, at equal distances, or a list such as 0,45,90 [default: 101, and
    /// 5 with --quick]
    #[arg(long, value_name = "COUNT|DEGREES,...", conflicts_with = "once")]
    angles: Option<Angles>,
    /// Evaluations that are averaged [default: 5, and 2 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000), conflicts_with = "once")]
    repeats: Option<u16>,
    /// Measure a single evaluation at this angle, for images that only several devices hold together; strategies are
    /// compared with each other
    #[arg(long, value_name = "DEGREES", value_parser = degrees)]
    once: Option<f64>,
    /// Small images, few angles and variants
    #[arg(long)]
    quick: bool,
    /// Halos of `halo`, as fractions of the block; the first is the usual one
    #[arg(long, value_name = "FRACTION,...", value_delimiter = ',', default_value = "0,0.1,0.25,0.5", value_parser = fraction)]
    halos: Vec<f64>,
    /// Pixels of a side of the chunks of `list`; the first is the usual one
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1536,512,4096", value_parser = chunk)]
    chunks: Vec<usize>,
    /// Streams of `list`; the first is the usual number
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "4,1,2,8", value_parser = streams)]
    streams: Vec<usize>,
    /// Pixels of a thread of a GPU, and how they lie; the first are the usual ones. 1, 4x2, 4x4, 32x32: neighbours, with
    /// the threads of a warp along x; 4x4-column: along y; 4x4-tile and 4x4-tall: warps of 8x4 and of 4x8 pixels at
    /// every step; auto: one of 4x4, 4x4-tile and 4x4-tall, by the angle [default: auto and all others, auto with the usual
    /// variants, and 1 on the CPU, whose times do not depend on it]
    #[arg(long, value_name = "auto|1|4x2|4x4|...,...", value_delimiter = ',')]
    pixels_per_thread: Vec<Side>,
    /// Windows over the moving bins
    #[arg(
        long,
        value_enum,
        value_name = "WINDOW,...",
        value_delimiter = ',',
        default_value = "plain"
    )]
    windows: Vec<WindowName>,
    /// Memory of the device of each rank that images and messages may take, such as 8GiB: what needs more is left out,
    /// and the chunks of `stream` are no larger [default: what is free]
    #[arg(long, value_name = "SIZE")]
    device_memory: Option<Bytes>,
    /// Bins of each image
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u8).range(2..=128))]
    bins: u8,
    /// Write a row for every variant and angle
    #[arg(long, value_name = "FILE.csv", help_heading = "Output")]
    pub(super) csv: Option<PathBuf>,
    /// Write the loads of all ranks, and the exchanges of `list` at the angle next to 90 degrees
    #[arg(long, value_name = "FILE.csv", help_heading = "Output")]
    pub(super) trace: Option<PathBuf>,
    /// Write plots and tables; opens offline in any browser
    #[arg(long, value_name = "FILE.html", help_heading = "Output")]
    pub(super) html: Option<PathBuf>,
    /// How it runs.
    #[command(flatten)]
    pub running: Running,
    /// Print JSON, for programs; non-finite numbers become null
    #[arg(long)]
    pub(super) json: bool,
}

/// Sizes along x and y.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Plane(pub(super) [usize; 2]);

impl FromStr for Plane {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Option<Vec<usize>> = text.split('x').map(|p| p.trim().parse().ok()).collect();
        let size = match parts.as_deref() {
            Some(&[n]) => Some([n; 2]),
            Some(&[x, y]) => Some([x, y]),
            _ => None,
        };
        let fits = |size: &[usize; 2]| size.iter().all(|n| (16..=1 << 20).contains(n));
        let wrong = || "give a size such as 4096 or 262144x270000, each from 16 to 1048576".into();
        size.filter(fits).map(Self).ok_or_else(wrong)
    }
}

/// Angles, degrees.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Angles(pub(super) Vec<f64>);

impl Angles {
    /// So many from 0 to 180, at equal distances.
    pub(super) fn steps(count: usize) -> Self {
        let at = |k: usize| 180.0 * k as f64 / (count - 1).max(1) as f64;
        Self((0..count).map(at).collect())
    }
}

impl FromStr for Angles {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if !text.contains(',') {
            let count = text.trim().parse().ok().filter(|n| (2..=1801).contains(n));
            let wrong = "give a number of angles from 2 to 1801, or several angles such as 0,45,90";
            return count.map(Self::steps).ok_or_else(|| wrong.into());
        }
        let mut angles = text.split(',').map(degrees).collect::<Result<Vec<_>, _>>()?;
        angles.sort_by(f64::total_cmp);
        angles.dedup();
        Ok(Self(angles))
    }
}

fn degrees(text: &str) -> Result<f64, String> {
    let angle = text.trim().parse().ok().filter(|a| (0.0..=180.0).contains(a));
    angle.ok_or_else(|| format!("'{text}' is not an angle from 0 to 180 degrees"))
}

fn fraction(text: &str) -> Result<f64, String> {
    let part = text.trim().parse().ok().filter(|f| (0.0..=1.0).contains(f));
    part.ok_or_else(|| format!("'{text}' is not a fraction from 0 to 1"))
}

fn chunk(text: &str) -> Result<usize, String> {
    let side = text.trim().parse().ok().filter(|n| (1..=32768).contains(n));
    side.ok_or_else(|| "give a side from 1 to 32768 pixels".into())
}

fn streams(text: &str) -> Result<usize, String> {
    let count = text.trim().parse().ok().filter(|n| (1..=64).contains(n));
    count.ok_or_else(|| "give a number of streams from 1 to 64".into())
}

/// What is measured.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) size: [usize; 2],
    pub(super) bits: u8,
    pub(super) bins: usize,
    pub(super) ranks: Vec<usize>,
    pub(super) wanted: Wanted,
    pub(super) angles: Vec<f64>,
    pub(super) repeats: usize,
    /// The memory of the device of each rank that images may take, bytes.
    pub(super) device_memory: Option<u64>,
    /// Nothing is evaluated to compare with alone.
    pub(super) once: bool,
}

impl Settings {
    pub(super) fn scene(&self) -> Scene {
        Scene { size: self.size, bins: self.bins }
    }

    /// The number of the angle that is nearest to one.
    pub(super) fn nearest(&self, degrees: f64) -> usize {
        let off = |k: &usize| (self.angles[*k] - degrees).abs();
        let near = (0..self.angles.len()).min_by(|a, b| off(a).total_cmp(&off(b)));
        near.unwrap_or(0)
    }
}

impl DistributedArgs {
    /// Whether one GPU is to be used by all ranks.
    pub(super) fn names_a_device(&self) -> bool {
        let named = self.running.machine.device.or_else(|| from_environment().ok().flatten());
        matches!(named, Some(DeviceChoice::Cuda(Some(_))))
    }

    /// What is to be measured, with defaults for the device; `processes` are those of an MPI run.
    pub(super) fn settings(&self, gpu: bool, processes: Option<usize>) -> Result<Settings> {
        let ranks = self.numbers(processes)?;
        let usual = match (gpu, self.quick) {
            (true, false) => 65536,
            (true, true) => 8192,
            (false, false) => 2048,
            (false, true) => 512,
        };
        let count = if self.quick { 5 } else { 101 };
        let angles = match (self.once, &self.angles) {
            (Some(angle), _) => vec![angle],
            (None, Some(angles)) => angles.0.clone(),
            (None, None) => Angles::steps(count).0,
        };
        let repeats = self.repeats.map_or(if self.quick { 2 } else { 5 }, usize::from);
        let few = self.quick || self.once.is_some();
        let extent = self.variants.unwrap_or(if few { Extent::Usual } else { Extent::All });
        Ok(Settings {
            size: self.size.map_or([usual; 2], |s| s.0),
            bits: if self.bits == "16" { 16 } else { 8 },
            bins: usize::from(self.bins),
            ranks,
            wanted: Wanted {
                strategies: match self.strategies.is_empty() {
                    true => Strategy::USUAL.to_vec(),
                    false => distinct(&self.strategies),
                },
                extent,
                halos: distinct(&self.halos),
                chunks: distinct(&self.chunks),
                streams: distinct(&self.streams),
                pixels_per_thread: self.sides(gpu, extent),
                windows: distinct(&self.windows),
            },
            angles,
            repeats: if self.once.is_some() { 1 } else { repeats },
            device_memory: self.device_memory.map(|bytes| bytes.0),
            once: self.once.is_some(),
        })
    }

    fn sides(&self, gpu: bool, extent: Extent) -> Vec<PixelsPerThread> {
        if !self.pixels_per_thread.is_empty() {
            return distinct(&self.pixels_per_thread.iter().map(|s| s.0).collect::<Vec<_>>());
        }
        match (gpu, extent) {
            (true, Extent::All) => PixelsPerThread::ALL.to_vec(),
            (true, Extent::Usual) => vec![PixelsPerThread::Auto],
            // For the transactions alone.
            (false, _) => vec![PixelsPerThread::One],
        }
    }

    /// The numbers of ranks, rising.
    fn numbers(&self, processes: Option<usize>) -> Result<Vec<usize>> {
        let mut ranks: Vec<usize> = self.ranks.iter().map(|&n| usize::from(n)).collect();
        if ranks.is_empty() {
            let usual = |n: &usize| processes.is_none_or(|all| *n <= all);
            ranks = [1, 2, 4].into_iter().filter(usual).chain(processes).collect();
        }
        ranks.sort_unstable();
        ranks.dedup();
        let most = ranks.last().copied().unwrap_or(1);
        match processes.filter(|all| most > *all) {
            Some(all) => Err(Error::input(format!(
                "--ranks has {most}, but mpirun has started {all} processes; start more, or ask for fewer ranks"
            ))),
            None => Ok(ranks),
        }
    }
}

/// Values without those that were there before.
fn distinct<T: Copy + PartialEq>(values: &[T]) -> Vec<T> {
    let mut seen = Vec::new();
    values.iter().for_each(|v| {
        if !seen.contains(v) {
            seen.push(*v);
        }
    });
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_angles() {
        assert_eq!("2048".parse(), Ok(Plane([2048; 2])));
        assert_eq!("262144x270000".parse(), Ok(Plane([262_144, 270_000])));
        for wrong in ["", "8", "15x20", "64x64x64", "2000000", "-5", "axb"] {
            assert!(wrong.parse::<Plane>().is_err(), "{wrong}");
        }
        assert_eq!("5".parse(), Ok(Angles(vec![0.0, 45.0, 90.0, 135.0, 180.0])));
        assert_eq!("90,0,90".parse(), Ok(Angles(vec![0.0, 90.0])));
        for wrong in ["", "1", "0,200", "0,x", "-3", "2.5"] {
            assert!(wrong.parse::<Angles>().is_err(), "{wrong}");
        }
        assert_eq!(distinct(&[4, 1, 4, 2, 1]), [4, 1, 2]);
    }
}
