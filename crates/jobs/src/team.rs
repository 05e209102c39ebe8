//! The devices of this process and of the other processes of the run.

use crate::error::{Error, Result};
use crate::listener::Listener;
use crate::machine::{Auto, Machine, MachineOptions, from_environment};
use serde::{Deserialize, Serialize};
use voxalign_compute::comm::{Communicator, Team};
use voxalign_compute::cuda::{self, Cuda};
use voxalign_compute::select::{AnyDevice, DeviceChoice};
use voxalign_options::text;
use voxalign_population::exchange::all_told;

/// How many GPUs a process has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(default)]
pub struct TeamOptions {
    /// GPUs per process [default: all those of its machine, shared among the processes there]
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", value_parser = from_one, help_heading = "Running"))]
    pub gpus: Option<usize>,
}

/// A number of GPUs, 1 or more.
///
/// # Errors
/// What it should be.
pub fn from_one(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|n| (1..=4096).contains(n));
    number.ok_or_else(|| "give a whole number, 1 or more".to_owned())
}

/// The processes of this machine.
struct Neighbours {
    /// The place of this one among them.
    place: usize,
    count: usize,
}

/// The processes that run on the machine of this one.
fn neighbours(world: &Communicator) -> Result<Neighbours> {
    // The name of a rank ends with that of its machine.
    let names = world.all_gather(world.name().as_bytes())?;
    let own = &names[world.rank()];
    let same = |names: &[Vec<u8>]| names.iter().filter(|n| *n == own).count();
    Ok(Neighbours { place: same(&names[..world.rank()]), count: same(&names) })
}

/// Starts the device of a process, and all other GPUs that it is to use: those of the machine, shared
/// among its processes, unless one was named or fewer are asked for.
///
/// # Errors
/// Devices that are not there, or not of one kind.
pub fn start(
    options: MachineOptions,
    gpus: Option<usize>,
    world: &Communicator,
    listener: &dyn Listener,
) -> Result<Machine> {
    let own = neighbours(world)?;
    let threads = options.threads.or_else(|| {
        let all = std::thread::available_parallelism().map_or(1, usize::from);
        (own.count > 1).then(|| (all / own.count).max(1))
    });
    let mut machine =
        world.agree(Machine::start(MachineOptions { threads, ..options }, Auto::Gpu))?;
    machine.explain(listener);
    let on_gpu = matches!(machine.device, AnyDevice::Cuda(_));
    let all = all_told(world, &on_gpu)?;
    let place = |gpu: bool| all.iter().position(|on_gpu| *on_gpu == gpu);
    let alike = match (place(true), place(false)) {
        (Some(gpu), Some(cpu)) => Err(Error::input(text!(
            "rank {gpu} computes on a GPU and rank {cpu} on the CPU, whose digits differ; give `device = cpu`, or \
             start processes that all have a GPU"
        ))),
        _ => Ok(()),
    };
    world.agree(alike)?;
    let devices = match &machine.device {
        cpu @ AnyDevice::Cpu(_) => {
            let refused = match gpus {
                Some(_) => Err(Error::input(text!(
                    "`gpus` is for GPUs, but the device is the CPU; leave it out, or give `device` \
                     cuda"
                ))),
                None => Ok(()),
            };
            world.agree(refused)?;
            vec![cpu.clone()]
        }
        AnyDevice::Cuda(first) => {
            let named = match options.device {
                Some(choice) => Some(choice),
                None => from_environment()?,
            };
            let one = matches!(named, Some(DeviceChoice::Cuda(Some(_))));
            let found = if one { Ok(vec![first.clone()]) } else { all_gpus(first, &own, gpus) };
            world.agree(found)?.into_iter().map(AnyDevice::Cuda).collect()
        }
    };
    // What the process does with one device alone is done by one of its own.
    if let Some(first) = devices.first() {
        machine.device = first.clone();
    }
    let team = Team::new(devices, world.clone())?;
    machine.team = Some(team);
    Ok(machine)
}

/// Does something with several devices of this process at once, each a rank of its own, and gives what the first one found.
///
/// # Errors
/// Of a rank that failed by itself, or that the work has; threads that cannot be started.
pub fn as_ranks<R: Send>(
    devices: &[AnyDevice],
    work: impl Fn(&Communicator, &AnyDevice) -> Result<R> + Sync,
) -> Result<R> {
    let work = &work;
    let results: Vec<Result<R>> = std::thread::scope(|scope| {
        let start = |(rank, device): (Communicator, _)| {
            let thread = std::thread::Builder::new().name("rank".into());
            thread.spawn_scoped(scope, move || work(&rank, device))
        };
        let ranks = Communicator::local(devices.len()).into_iter().zip(devices);
        // A thread that does not start ends the wait of the others.
        let threads: Vec<_> = ranks.map(start).collect();
        let end = |thread: std::io::Result<std::thread::ScopedJoinHandle<'_, _>>| match thread {
            Ok(thread) => thread
                .join()
                .unwrap_or_else(|_| Err(Error::Internal("the thread of a rank has failed".into()))),
            Err(e) => Err(Error::Ranks(format!("a thread could not be started: {e}"))),
        };
        threads.into_iter().map(end).collect()
    });
    let (mut first, mut told) = (None, None);
    for result in results {
        match result {
            Ok(found) => first = first.or(Some(found)),
            // The rank that failed by itself says why.
            Err(error @ (Error::Peer(_) | Error::Ranks(_))) => told = told.or(Some(error)),
            Err(other) => return Err(other),
        }
    }
    let none = || Error::Internal("there are no ranks".into());
    match told {
        Some(told) => Err(told),
        None => first.ok_or_else(none),
    }
}

/// The GPUs of this process.
fn all_gpus(first: &Cuda, own: &Neighbours, most: Option<usize>) -> Result<Vec<Cuda>> {
    let count = cuda::gpu_count()?;
    let mut numbers: Vec<usize> = (0..count).filter(|g| g % own.count == own.place).collect();
    if numbers.is_empty() {
        numbers.push(own.place % count);
    }
    if let Some(most) = most {
        if most > numbers.len() {
            return Err(Error::input(text!(
                "`gpus` is {most}, but this process has {} of the {count} GPUs of its machine",
                numbers.len()
            )));
        }
        numbers.truncate(most);
    }
    let started = first.info().map(|i| i.ordinal);
    let open = |&n: &usize| {
        if Some(n) == started { Ok(first.clone()) } else { Cuda::new(n).map_err(Error::from) }
    };
    numbers.iter().map(open).collect()
}
