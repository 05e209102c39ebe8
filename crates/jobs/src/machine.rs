//! Selection of the device: requested, available and used.

use crate::error::{Error, Result};
use crate::listener::{Level, Listener};
use crate::options::as_text;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::Instant;
use voxalign_compute::comm::Team;
use voxalign_compute::cpu::{Cpu, Simd, threads};
use voxalign_compute::cuda::{self, CompilingAhead, GpuInfo};
use voxalign_compute::select::{AnyDevice, DeviceChoice, first_gpu};
use voxalign_compute::{ComputeError, Memory};
use voxalign_options::{Text, text};
use voxalign_report::{GpuRecord, HostRecord};

/// The environment variable that stands in for `device` where that is not given.
pub const VARIABLE: &str = "VOXALIGN_DEVICE";

/// What the environment asks for, if anything.
///
/// # Errors
/// A value that is no device.
pub fn from_environment() -> Result<Option<DeviceChoice>> {
    let Some(value) = std::env::var_os(VARIABLE).filter(|v| !v.is_empty()) else { return Ok(None) };
    let text = value.to_string_lossy();
    let choice = text.parse().map_err(|e: String| {
        Error::input(text!("the environment variable {VARIABLE} is '{text}'; {e}"))
    });
    choice.map(Some)
}

/// What `auto` stands for. Starting a GPU takes some tenths of a second: a search profits from it,
/// a single pass over an image does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Auto {
    /// The first GPU that can be used, else the CPU.
    Gpu,
    /// The CPU.
    Cpu,
}

/// Which device, and how many threads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "clap", command(next_help_heading = "Running"))]
#[serde(default)]
pub struct MachineOptions {
    /// Device to compute on [default: VOXALIGN_DEVICE, else auto]
    ///
    /// `cpu`, `cuda` (the first GPU that can be used), `cuda:N`, or `auto`: for affine, deform,
    /// atlas, pose and demo `cuda` where there is a usable GPU, else `cpu`; for apply, drr, segment, stack, surface and bench
    /// always `cpu`, as starting a GPU takes longer than their work. The environment variable VOXALIGN_DEVICE
    /// sets the default; `voxalign devices` lists what there is.
    #[cfg_attr(feature = "clap", arg(long, value_name = "auto|cpu|cuda|cuda:N"))]
    #[serde(with = "as_text")]
    pub device: Option<DeviceChoice>,
    /// Threads to use; the result does not depend on it. With a GPU, they do the remaining work on the CPU [default:
    /// all]
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", value_parser = thread_count))]
    pub threads: Option<usize>,
}

impl MachineOptions {
    /// The device that they name, or else the environment.
    fn choice(self) -> Result<DeviceChoice> {
        match self.device {
            Some(choice) => Ok(choice),
            None => Ok(from_environment()?.unwrap_or_default()),
        }
    }

    /// The same, where `auto` stands for the GPU that an image in memory is on.
    ///
    /// # Errors
    /// An environment that names no device.
    pub fn on_gpu(self, gpu: usize) -> Result<Self> {
        Ok(match self.choice()? {
            DeviceChoice::Auto => Self { device: Some(DeviceChoice::of_gpu(Some(gpu))), ..self },
            _ => self,
        })
    }
}

/// How something runs, and how much it says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "clap", command(next_help_heading = "Running"))]
#[serde(default)]
pub struct Running {
    /// Which device, and how many threads.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub machine: MachineOptions,
    /// Print errors only
    #[cfg_attr(feature = "clap", arg(short, long, conflicts_with = "verbose"))]
    pub quiet: bool,
    /// Print every step
    #[cfg_attr(feature = "clap", arg(short, long, conflicts_with = "quiet"))]
    pub verbose: bool,
}

/// A file of options.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(default)]
pub struct ConfigFile {
    /// TOML file with options; those that are given beside it take precedence
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE.toml"))]
    #[serde(skip)]
    pub config: Option<PathBuf>,
}

/// Whether a job is done, or only told what it would be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(default)]
pub struct DryRun {
    /// Report what would be read and written and how much memory is needed, and stop there
    #[cfg_attr(feature = "clap", arg(long, help_heading = "Running"))]
    pub dry_run: bool,
}

/// A number of threads.
///
/// # Errors
/// What it should be.
pub fn thread_count(text: &str) -> Result<usize, String> {
    const MOST: usize = 1024;
    let number = text.trim().parse().ok().filter(|n| (1..=MOST).contains(n));
    number.ok_or_else(|| format!("give a number of threads from 1 to {MOST}"))
}

/// The device of a command and the threads for the work beside it.
#[derive(Debug)]
pub struct Machine {
    /// The device.
    pub device: AnyDevice,
    /// Threads of the host, for whatever is not the device's too.
    pub threads: usize,
    /// Why `auto` took the CPU although a GPU would have served.
    pub fallback: Option<String>,
    /// What starting the device took.
    pub seconds: f64,
    /// All devices of all processes, where [`team::start`](crate::team::start) started it; a job that uses several devices
    /// has this one alone otherwise.
    pub team: Option<Team<AnyDevice>>,
    /// On a machine that has not compiled its kernels yet.
    _ahead: Option<CompilingAhead>,
}

/// A [`Machine`] that may be on its way.
#[derive(Debug)]
pub struct Starting(Kind);

#[derive(Debug)]
enum Kind {
    Started(Box<Machine>),
    Beside(JoinHandle<Result<Machine>>),
}

impl Starting {
    /// The machine, once it is there; its seconds are those of this wait.
    ///
    /// # Errors
    /// As of [`Machine::start`].
    pub fn wait(self) -> Result<Machine> {
        match self.0 {
            Kind::Started(machine) => Ok(*machine),
            Kind::Beside(thread) => {
                let start = Instant::now();
                let gone = |_| Error::Internal("the thread that starts the device is gone".into());
                let machine = thread.join().map_err(gone)??;
                Ok(Machine { seconds: start.elapsed().as_secs_f64(), ..machine })
            }
        }
    }
}

impl Machine {
    /// Starts the device that the options name, else the environment, else `auto`.
    ///
    /// # Errors
    /// A device that is not there, with what is.
    pub fn start(options: MachineOptions, auto: Auto) -> Result<Self> {
        let (start, threads) = (Instant::now(), options.threads);
        let (choice, asked) = match options.device {
            Some(choice) => (choice, Text::option(&format!("device = {choice}"))),
            None => {
                let choice = from_environment()?.unwrap_or_default();
                (choice, format!("{VARIABLE}={choice}").into())
            }
        };
        let refused = |e: ComputeError| match e {
            ComputeError::Unavailable { .. } => {
                Error::input(text!("{e}; `device = cpu` works, and `voxalign devices` shows more"))
                    .at(asked.clone())
            }
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
        let mut ahead = None;
        if let (AnyDevice::Cuda(gpu), Auto::Gpu) = (&device, auto) {
            ahead = gpu.compile_ahead();
        }
        let seconds = start.elapsed().as_secs_f64();
        Ok(Self { device, threads, fallback, seconds, team: None, _ahead: ahead })
    }

    /// As [`start`](Self::start), while the caller does something else, where a GPU may be used.
    ///
    /// # Errors
    /// As there.
    pub fn starting(options: MachineOptions, auto: Auto) -> Result<Starting> {
        let now = || Self::start(options, auto).map(|m| Starting(Kind::Started(Box::new(m))));
        if !may_be_gpu(options, auto)? || threads::check(1).is_err() {
            return now();
        }
        let start = move || Self::start(options, auto);
        let thread = std::thread::Builder::new().name("device".to_owned()).spawn(start);
        thread.map_or_else(|_| now(), |thread| Ok(Starting(Kind::Beside(thread))))
    }

    /// Threads that read and unpack the files of a stream.
    #[must_use]
    pub fn readers(&self) -> usize {
        self.threads.clamp(1, 4)
    }

    /// The name of the device.
    #[must_use]
    pub fn name(&self) -> String {
        self.device.name()
    }

    /// What `device` calls it.
    #[must_use]
    pub fn choice(&self) -> DeviceChoice {
        self.device.choice()
    }

    /// What is known of the GPU, where one is used.
    #[must_use]
    pub fn gpu(&self) -> Option<&GpuInfo> {
        self.device.gpu()
    }

    /// Says which device is used, and why not another, to those who want to know every step.
    pub fn explain(&self, listener: &dyn Listener) {
        listener.say(Level::Verbose, format!("device: {}", self.name()));
        if let Some(why) = &self.fallback {
            listener.say(Level::Verbose, format!("no GPU is used: {why}"));
        }
    }

    /// For the record of a run.
    #[must_use]
    pub fn record(&self) -> HostRecord {
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

/// The CPU with as many threads as the pool that this is called in: of jobs that choose no device.
///
/// # Errors
/// Threads that cannot be started.
pub fn host() -> Result<Cpu> {
    Ok(Cpu::new(Some(rayon::current_num_threads()))?)
}

/// Whether a GPU may be what the options name.
///
/// # Errors
/// An environment that names no device.
pub fn may_be_gpu(options: MachineOptions, auto: Auto) -> Result<bool> {
    Ok(match options.choice()? {
        DeviceChoice::Cpu => false,
        DeviceChoice::Auto => auto == Auto::Gpu,
        _ => true,
    })
}

/// A SIMD level as records have it.
#[must_use]
pub fn simd_name(simd: Simd) -> String {
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
#[must_use]
pub fn dotted((major, minor): (i32, i32)) -> String {
    format!("{major}.{minor}")
}

/// The release of NVIDIA's driver, such as `550.54.15`, where the system tells.
#[must_use]
pub fn driver_release() -> Option<String> {
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

    fn auto(threads: usize) -> MachineOptions {
        MachineOptions { device: Some(DeviceChoice::Auto), threads: Some(threads) }
    }

    #[test]
    fn the_cpu_is_what_auto_takes_for_short_work() {
        let machine = Machine::start(auto(2), Auto::Cpu).unwrap();
        assert_eq!((machine.choice(), machine.threads), (DeviceChoice::Cpu, 2));
        assert!(machine.fallback.is_none() && machine.record().gpu.is_none());
        assert!(machine.name().contains("2 threads"));
    }

    #[test]
    fn auto_is_the_gpu_of_an_image_and_another_device_stays() {
        let on = |device| MachineOptions { device, threads: None }.on_gpu(2).unwrap().device;
        assert_eq!(on(Some(DeviceChoice::Auto)), Some(DeviceChoice::Cuda(Some(2))));
        for named in [DeviceChoice::Cpu, DeviceChoice::Cuda(None), DeviceChoice::Cuda(Some(0))] {
            assert_eq!(on(Some(named)), Some(named));
        }
    }

    #[test]
    fn auto_says_why_no_gpu_is_used() {
        let machine = Machine::start(auto(1), Auto::Gpu).unwrap();
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
