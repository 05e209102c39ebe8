//! Which device computes: what the user asks for, what the machine has, and what is used.

use crate::failure::Failure;
use crate::output;
use crate::progress::Talk;
use std::str::FromStr;
use std::time::Instant;
use voxalign_compute::cpu::{Cpu, Simd};
use voxalign_compute::cuda::{self, Cuda, GpuInfo};
use voxalign_compute::{ComputeError, Memory};
use voxalign_report::{GpuRecord, HostRecord};

/// The environment variable that stands in for `--device` where that is not given.
pub(crate) const VARIABLE: &str = "VOXALIGN_DEVICE";

/// What the user asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum DeviceChoice {
    /// What suits the command and the machine.
    #[default]
    Auto,
    Cpu,
    /// The GPU of a number, or the first that can be used.
    Cuda(Option<usize>),
}

impl FromStr for DeviceChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |n: &str| n.bytes().all(|b| b.is_ascii_digit()).then(|| n.parse().ok())?;
        match text {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda(None)),
            _ => match text.strip_prefix("cuda:").and_then(number) {
                Some(n) => Ok(Self::Cuda(Some(n))),
                None => Err("use auto, cpu, cuda or cuda:N with N the number of a GPU, such as \
                             cuda:0"
                    .into()),
            },
        }
    }
}

impl std::fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(None) => f.write_str("cuda"),
            Self::Cuda(Some(n)) => write!(f, "cuda:{n}"),
        }
    }
}

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

/// A device of any backend.
#[derive(Debug, Clone)]
pub(crate) enum AnyDevice {
    Cpu(Cpu),
    Cuda(Cuda),
}

/// Evaluates an expression with the device bound to a name, compiled for each backend.
macro_rules! on_device {
    ($device:expr, |$name:ident| $body:expr) => {
        match $device {
            $crate::device::AnyDevice::Cpu($name) => $body,
            $crate::device::AnyDevice::Cuda($name) => $body,
        }
    };
}
pub(crate) use on_device;

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
                "{asked}: {e}; `--device cpu` works, and `voxalign devices` tells more"
            )),
            other => other.into(),
        };
        let mut fallback = None;
        let gpu = match (choice, auto) {
            (DeviceChoice::Cpu, _) | (DeviceChoice::Auto, Auto::Cpu) => None,
            (DeviceChoice::Cuda(Some(n)), _) => Some(Cuda::new(n).map_err(refused)?),
            (DeviceChoice::Cuda(None), _) => Some(first_gpu().map_err(refused)?),
            (DeviceChoice::Auto, Auto::Gpu) => {
                first_gpu().map_err(|e| fallback = Some(e.to_string())).ok()
            }
        };
        let (device, threads) = match gpu {
            Some(gpu) => {
                let all = || std::thread::available_parallelism().map_or(1, usize::from);
                (AnyDevice::Cuda(gpu), threads.unwrap_or_else(all))
            }
            None => {
                let cpu = Cpu::new(threads)?;
                let threads = cpu.threads();
                (AnyDevice::Cpu(cpu), threads)
            }
        };
        // What is not the device's, such as the compression of files, runs in the global pool. It
        // can be built once only; a second command of the same process keeps the first one's.
        rayon::ThreadPoolBuilder::new().num_threads(threads).build_global().ok();
        Ok(Self { device, threads, fallback, seconds: start.elapsed().as_secs_f64() })
    }

    /// The name of the device.
    pub(crate) fn name(&self) -> String {
        on_device!(&self.device, |device| device.name())
    }

    /// What `--device` calls it.
    pub(crate) fn choice(&self) -> DeviceChoice {
        match &self.device {
            AnyDevice::Cpu(_) => DeviceChoice::Cpu,
            AnyDevice::Cuda(gpu) => DeviceChoice::Cuda(gpu.info().map(|i| i.ordinal)),
        }
    }

    /// What is known of the GPU, where one is used.
    pub(crate) fn gpu(&self) -> Option<&GpuInfo> {
        match &self.device {
            AnyDevice::Cpu(_) => None,
            AnyDevice::Cuda(gpu) => gpu.info(),
        }
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

/// A SIMD level as records have it.
pub(crate) fn simd_name(simd: Simd) -> String {
    format!("{simd:?}").to_lowercase()
}

/// The first GPU that can be used; the error is that of the first that cannot.
fn first_gpu() -> Result<Cuda, ComputeError> {
    let mut first = None;
    for ordinal in 0..cuda::gpu_count()? {
        match Cuda::new(ordinal) {
            Ok(gpu) => return Ok(gpu),
            Err(e) => first = first.or(Some(e)),
        }
    }
    Err(first.unwrap_or_else(|| ComputeError::Unavailable {
        backend: "cuda",
        reason: "there is no GPU".into(),
    }))
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
    fn choices() {
        for (text, choice) in [
            ("auto", DeviceChoice::Auto),
            ("cpu", DeviceChoice::Cpu),
            ("cuda", DeviceChoice::Cuda(None)),
            ("cuda:0", DeviceChoice::Cuda(Some(0))),
            ("cuda:12", DeviceChoice::Cuda(Some(12))),
        ] {
            assert_eq!(text.parse(), Ok(choice));
            assert_eq!(choice.to_string(), text);
        }
        for bad in ["", "gpu", "CPU", "cuda:", "cuda:-1", "cuda:+1", "cuda:x", "cuda0", "cpu:0"] {
            assert!(bad.parse::<DeviceChoice>().is_err(), "{bad}");
        }
        let huge = "cuda:99999999999999999999999";
        assert!(huge.parse::<DeviceChoice>().is_err());
    }

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
