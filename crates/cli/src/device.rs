//! Which device computes: what the user asks for, what the machine has, and what is used.

use crate::failure::Failure;
use crate::output;
use crate::progress::Talk;
use std::error::Error;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;
use voxalign_compute::cpu::{Cpu, Simd, threads};
use voxalign_compute::cuda::{self, CompilingAhead, GpuInfo};
use voxalign_compute::select::{AnyDevice, DeviceChoice, first_gpu};
use voxalign_compute::{ComputeError, Memory};
use voxalign_report::{GpuRecord, HostRecord};

/// The environment variable that stands in for `--device` where that is not given.
pub(crate) const VARIABLE: &str = "VOXALIGN_DEVICE";

/// What the environment asks for, if anything.
pub(crate) fn from_environment() -> Result<Option<DeviceChoice>, Failure> {
    let Some(value) = std::env::var_os(VARIABLE).filter(|v| !v.is_empty()) else { return Ok(None) };
    let text = value.to_string_lossy();
    let choice = text.parse().map_err(|e| {
        Failure::input(format!("the environment variable {VARIABLE} is '{text}'; {e}"))
    });
    choice.map(Some)
}

/// What `auto` stands for. Starting a GPU takes some tenths of a second: a search profits from it,
/// a single pass over an image does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Auto {
    /// The first GPU that can be used, else the CPU.
    Gpu,
    Cpu,
}

/// The device of a command and the threads for the work beside it.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) device: AnyDevice,
    /// Threads of the host, for whatever is not the device's too.
    pub(crate) threads: usize,
    /// Why `auto` took the CPU although a GPU would have served.
    pub(crate) fallback: Option<String>,
    /// What starting the device took.
    pub(crate) seconds: f64,
    /// On a machine that has not compiled its kernels yet.
    _ahead: Option<CompilingAhead>,
}

/// A [`Machine`] that may be on its way.
#[derive(Debug)]
pub(crate) enum Starting {
    Started(Machine),
    Beside(JoinHandle<Result<Machine, Failure>>),
}

impl Starting {
    /// The machine, once it is there; its seconds are those of this wait.
    pub(crate) fn wait(self) -> Result<Machine, Failure> {
        match self {
            Self::Started(machine) => Ok(machine),
            Self::Beside(thread) => {
                let start = Instant::now();
                let gone =
                    |_| Failure::Internal("the thread that starts the device is gone".into());
                let machine = thread.join().map_err(gone)??;
                Ok(Machine { seconds: start.elapsed().as_secs_f64(), ..machine })
            }
        }
    }
}

impl Machine {
    /// Starts the device that `--device` names, else the environment, else `auto`.
    pub(crate) fn start(
        given: Option<DeviceChoice>,
        auto: Auto,
        threads: Option<usize>,
    ) -> Result<Self, Failure> {
        let start = Instant::now();
        let (choice, asked) = match given {
            Some(choice) => (choice, format!("--device {choice}")),
            None => {
                let choice = from_environment()?.unwrap_or_default();
                (choice, format!("{VARIABLE}={choice}"))
            }
        };
        let refused = |e: ComputeError| match e {
            ComputeError::Unavailable { .. } => Failure::input(format!(
                "{asked}: {e}; `--device cpu` works, and `voxalign devices` shows more"
            )),
            other => other.into(),
        };
        let mut fallback = None;
        let device = match (choice, auto) {
            (DeviceChoice::Auto, Auto::Gpu) => match first_gpu() {
                Ok(gpu) => AnyDevice::Cuda(gpu),
                Err(e) => {
                    fallback = Some(e.to_string());
                    DeviceChoice::Cpu.open(threads)?
                }
            },
            (DeviceChoice::Auto, Auto::Cpu) => DeviceChoice::Cpu.open(threads)?,
            (choice, _) => choice.open(threads).map_err(refused)?,
        };
        let threads = match &device {
            AnyDevice::Cpu(cpu) => cpu.threads(),
            AnyDevice::Cuda(_) => threads
                .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)),
        };
        start_threads(Some(threads))?;
        let mut ahead = None;
        if let AnyDevice::Cuda(gpu) = &device {
            // It is given back with the process, which takes no longer then.
            static KEPT: OnceLock<AnyDevice> = OnceLock::new();
            KEPT.get_or_init(|| device.clone());
            if auto == Auto::Gpu {
                ahead = gpu.compile_ahead();
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        Ok(Self { device, threads, fallback, seconds, _ahead: ahead })
    }

    /// As [`start`](Self::start), while the caller does something else, where a GPU may be used.
    pub(crate) fn starting(
        given: Option<DeviceChoice>,
        auto: Auto,
        threads: Option<usize>,
    ) -> Result<Starting, Failure> {
        let now = || Self::start(given, auto, threads).map(Starting::Started);
        let choice = match given {
            Some(choice) => choice,
            None => from_environment()?.unwrap_or_default(),
        };
        let no_gpu = match choice {
            DeviceChoice::Cpu => true,
            DeviceChoice::Auto => auto == Auto::Cpu,
            _ => false,
        };
        if no_gpu {
            return now();
        }
        start_threads(threads)?;
        if threads::check(1).is_err() {
            return now();
        }
        let start = move || Self::start(given, auto, threads);
        let thread = std::thread::Builder::new().name("device".to_owned()).spawn(start);
        thread.map_or_else(|_| now(), |thread| Ok(Starting::Beside(thread)))
    }

    /// Threads that read and unpack the files of a stream.
    pub(crate) fn readers(&self) -> usize {
        self.threads.clamp(1, 4)
    }

    /// The name of the device.
    pub(crate) fn name(&self) -> String {
        self.device.name()
    }

    /// What `--device` calls it.
    pub(crate) fn choice(&self) -> DeviceChoice {
        self.device.choice()
    }

    /// What is known of the GPU, where one is used.
    pub(crate) fn gpu(&self) -> Option<&GpuInfo> {
        self.device.gpu()
    }

    /// Says which device is used, and why not another, to those who want to know every step.
    pub(crate) fn explain(&self, talk: Talk) {
        if talk == Talk::Verbose {
            output::note(&format!("device: {}", self.name()));
            if let Some(why) = &self.fallback {
                output::note(&format!("no GPU is used: {why}"));
            }
        }
    }

    /// For the record of a run.
    pub(crate) fn record(&self) -> HostRecord {
        HostRecord {
            threads: self.threads,
            simd: simd_name(match &self.device {
                AnyDevice::Cpu(cpu) => cpu.simd(),
                AnyDevice::Cuda(_) => Simd::detect(),
            }),
            device: self.name(),
            gpu: self.gpu().map(gpu_record),
        }
    }
}

/// Starts the threads of what is not a device's, such as the compression of files; all that the machine
/// has where no number is given. They can be started once only: a second command of the same process
/// keeps the first one's.
pub(crate) fn start_threads(number: Option<usize>) -> Result<(), Failure> {
    static STARTED: AtomicBool = AtomicBool::new(false);
    if STARTED.load(Ordering::Acquire) {
        return Ok(());
    }
    let count =
        number.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    threads::check(count)?;
    let built = rayon::ThreadPoolBuilder::new().num_threads(number.unwrap_or(0)).build_global();
    match built {
        // The system refused a thread; else there are some already.
        Err(e) if e.source().is_some() => Err(threads::refused(count, e).into()),
        _ => {
            // As those of a device, they have what they need once they have begun.
            rayon::broadcast(|_| rayon::yield_now());
            STARTED.store(true, Ordering::Release);
            Ok(())
        }
    }
}

/// The CPU with the threads of a command that chooses no device.
pub(crate) fn host() -> Result<Cpu, Failure> {
    start_threads(None)?;
    Ok(Cpu::new(Some(rayon::current_num_threads()))?)
}

/// A SIMD level as records have it.
pub(crate) fn simd_name(simd: Simd) -> String {
    format!("{simd:?}").to_lowercase()
}

fn gpu_record(info: &GpuInfo) -> GpuRecord {
    GpuRecord {
        name: info.name.clone(),
        compute_capability: dotted(info.capability),
        memory_bytes: info.memory,
        driver: driver_release(),
        driver_cuda: dotted(info.driver),
        nvrtc: cuda::compiler().map_or_else(|_| String::new(), dotted),
    }
}

/// Major and minor as text.
pub(crate) fn dotted((major, minor): (i32, i32)) -> String {
    format!("{major}.{minor}")
}

/// The release of NVIDIA's driver, such as `550.54.15`, where the system tells.
pub(crate) fn driver_release() -> Option<String> {
    let text = std::fs::read_to_string("/proc/driver/nvidia/version").ok()?;
    release_in(&text)
}

fn release_in(text: &str) -> Option<String> {
    let line = text.lines().find(|l| l.starts_with("NVRM version:"))?;
    let is_release = |word: &&str| {
        word.contains('.') && word.split('.').all(|p| !p.is_empty() && p.parse::<u32>().is_ok())
    };
    line.split_whitespace().find(is_release).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_is_what_auto_takes_for_short_work() {
        let machine = Machine::start(Some(DeviceChoice::Auto), Auto::Cpu, Some(2)).unwrap();
        assert_eq!((machine.choice(), machine.threads), (DeviceChoice::Cpu, 2));
        assert!(machine.fallback.is_none() && machine.record().gpu.is_none());
        assert!(machine.name().contains("2 threads"));
    }

    #[test]
    fn auto_says_why_no_gpu_is_used() {
        let machine = Machine::start(Some(DeviceChoice::Auto), Auto::Gpu, Some(1)).unwrap();
        assert_eq!(machine.fallback.is_some(), machine.choice() == DeviceChoice::Cpu);
        assert_eq!(machine.fallback.is_none(), machine.record().gpu.is_some());
    }

    #[test]
    fn releases_of_the_driver() {
        let text = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5\nGCC \
                    version:  gcc version 12.3.0\n";
        assert_eq!(release_in(text).as_deref(), Some("550.54.15"));
        let open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.133.20  Release\n";
        assert_eq!(release_in(open).as_deref(), Some("570.133.20"));
        assert_eq!(release_in("nothing"), None);
    }
}
