//! The ranks: threads of this process with a device each, or the processes of an MPI run.

use std::sync::Arc;
use voxalign_compute::Memory;
use voxalign_compute::comm::Communicator;
use voxalign_compute::cuda::{self, Cuda};
use voxalign_compute::select::{AnyDevice, DeviceChoice};
use voxalign_image::memory::{amount, host};
use voxalign_jobs::machine::Machine;
use voxalign_jobs::team::as_ranks;
use voxalign_jobs::{Error, Result};

/// Who counts.
pub(super) enum Crew {
    /// Threads of this process; rank `k` has device `k` of these, or one that others have as well.
    Threads(Vec<AnyDevice>),
    /// This process with its device, and the others.
    Processes(Communicator, Box<AnyDevice>),
}

/// What a strategy has in memory, bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Needs {
    /// On the device of each rank.
    pub(super) devices: Vec<u64>,
    /// In the host's memory, beside that, for each process.
    pub(super) host: u64,
}

impl Crew {
    /// Threads as ranks: of a CPU each has one thread, of GPUs each has one while there are enough.
    pub(super) fn threads(machine: &Machine, ranks: usize, named: bool) -> Result<Self> {
        let first = machine.gpu().map(|gpu| gpu.ordinal);
        let device = |rank: usize| -> Result<AnyDevice> {
            let Some(first) = first else { return Ok(DeviceChoice::Cpu.open(Some(1))?) };
            let number = if named { first } else { rank % cuda::gpu_count()?.max(1) };
            match rank {
                0 if number == first => Ok(machine.device.clone()),
                _ => Ok(AnyDevice::Cuda(Cuda::new(number)?)),
            }
        };
        Ok(Self::Threads((0..ranks).map(device).collect::<Result<_>>()?))
    }

    /// Whether this process prints and writes.
    pub(super) fn is_first(&self) -> bool {
        match self {
            Self::Threads(_) => true,
            Self::Processes(world, _) => world.is_first(),
        }
    }

    /// A device of this process, whose memory of the host all of its ranks reach.
    pub(super) fn device(&self) -> Result<&AnyDevice> {
        match self {
            Self::Threads(devices) => {
                devices.first().ok_or_else(|| Error::Internal("there are no ranks".into()))
            }
            Self::Processes(_, device) => Ok(device),
        }
    }

    /// Ranks and their devices, in words.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Processes(world, device) => {
                format!("{} processes, the first with {}", world.size(), device.name())
            }
            Self::Threads(devices) if devices.iter().all(|d| d.gpu().is_none()) => {
                let cores = std::thread::available_parallelism().map_or(1, usize::from);
                format!("threads of one process on a CPU with {cores} cores, one for each rank")
            }
            Self::Threads(devices) => {
                let mut numbers: Vec<_> =
                    devices.iter().filter_map(|d| d.gpu().map(|g| g.ordinal)).collect();
                numbers.sort_unstable();
                numbers.dedup();
                let shared = match numbers.len() < devices.len() {
                    true => "; more ranks than that share them",
                    false => "",
                };
                let name = devices[0].name();
                format!("threads of one process, GPUs {numbers:?}{shared}; the first is {name}")
            }
        }
    }

    /// What the first `ranks` do together; none where this process is not among them.
    ///
    /// The result is that of the lowest of them in this process; all ranks have to fail where one does.
    pub(super) fn run<R: Send>(
        &self,
        ranks: usize,
        work: impl Fn(&Communicator, &AnyDevice) -> Result<R> + Sync,
    ) -> Result<Option<R>> {
        let devices = match self {
            Self::Threads(devices) => devices,
            Self::Processes(world, device) => {
                let own = world.first(ranks)?.map(|some| work(&some, device)).transpose();
                return world.agree(own);
            }
        };
        as_ranks(&devices[..ranks.min(devices.len())], work).map(Some)
    }

    /// Whether what a strategy has fits in what is free, and in the limit of a device; else why not.
    pub(super) fn fits(&self, needs: &Needs, limit: Option<u64>) -> Result<(), String> {
        let most = needs.devices.iter().copied().max().unwrap_or(0);
        if let Some(limit) = limit.filter(|limit| most > *limit) {
            let (bytes, limit) = (amount(most), amount(limit));
            return Err(format!("{bytes} are needed on a device, and --device-memory is {limit}"));
        }
        let ranks = needs.devices.len();
        let own = match self {
            Self::Threads(devices) => fit(&devices[..ranks.min(devices.len())], needs),
            Self::Processes(world, device) => match needs.devices.get(world.rank()) {
                Some(&bytes) => {
                    let own = Needs { devices: vec![bytes], host: needs.host };
                    fit(std::slice::from_ref(&**device), &own)
                }
                None => Ok(()),
            },
        };
        match self {
            Self::Threads(_) => own,
            Self::Processes(world, _) => {
                // The words of a rank that has no room are those of all.
                let own = own.map_err(|why| Error::Memory(why.into()));
                world.agree(own).map_err(|error| error.to_string())
            }
        }
    }
}

/// The same for the devices of one process.
fn fit(devices: &[AnyDevice], needs: &Needs) -> Result<(), String> {
    let mut left: Vec<(Arc<str>, Option<u64>, u64, usize)> = Vec::new();
    let mut on_host = needs.host;
    for (device, &bytes) in devices.iter().zip(&needs.devices) {
        let Some(gpu) = device.gpu() else {
            on_host += bytes;
            continue;
        };
        let name: Arc<str> = format!("GPU {}", gpu.ordinal).into();
        match left.iter_mut().find(|l| l.0 == name) {
            Some(same) => (same.2, same.3) = (same.2 + bytes, same.3 + 1),
            None => left.push((name, device.memory().free, bytes, 1)),
        }
    }
    for (name, free, bytes, ranks) in left {
        if let Some(free) = free.filter(|free| bytes > *free) {
            let of = if ranks == 1 { String::new() } else { format!(" of {ranks} ranks") };
            let (bytes, free) = (amount(bytes), amount(free));
            return Err(format!("{bytes}{of} are needed on {name}, which has {free} free"));
        }
    }
    match host().free.filter(|free| on_host > *free) {
        Some(free) => {
            let (bytes, free) = (amount(on_host), amount(free));
            Err(format!("{bytes} of the host's memory are needed, and {free} are free"))
        }
        None => Ok(()),
    }
}
