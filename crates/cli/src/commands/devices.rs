//! `voxalign devices`: lists the devices that can be used.

use crate::args::JsonArgs;
use crate::failure::{Failure, Outcome};
use crate::output::{self, Print, Table};
use crate::ranks;
use crate::words::typed;
use clap::Args;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use voxalign_compute::comm::{Communicator, Launch};
use voxalign_compute::cpu::Cpu;
use voxalign_compute::cuda::{self, Cuda, GpuInfo};
use voxalign_compute::select::DeviceChoice;
use voxalign_compute::{Memory, MemoryInfo};
use voxalign_image::memory::amount;
use voxalign_jobs::machine;
use voxalign_population::exchange::all_told;

/// Numbers in the sum that is checked.
const CHECKED: i64 = 1_500_000;

/// Arguments of `voxalign devices`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
A GPU needs NVIDIA's driver (525 or newer) and the compiler library NVRTC of CUDA 12.0 or newer,
from CUDA's toolkit or by `pip install nvidia-cuda-nvrtc-cu12`. Kernels are compiled when they are
first used and kept in the folder that is shown; VOXALIGN_KERNEL_CACHE names another.

Examples:
  voxalign devices
  mpirun -np 4 voxalign devices     # the processes of a cluster, with a check of their sums
  voxalign affine fixed.nii.gz moving.nii.gz -o out --device cuda:1
  VOXALIGN_DEVICE=cpu voxalign affine fixed.nii.gz moving.nii.gz -o out

Exit code: 0, also where there is no GPU.")]
pub(crate) struct DevicesArgs {
    #[command(flatten)]
    json: JsonArgs,
}

/// All that is known of the devices.
#[derive(Debug, Serialize)]
struct Devices {
    version: &'static str,
    cpu: CpuFacts,
    cuda: CudaFacts,
    gpus: Vec<GpuFacts>,
    auto: AutoFacts,
    /// What VOXALIGN_DEVICE says.
    environment: Option<String>,
    /// The processes, where a launcher such as mpirun has started this one.
    processes: Option<ProcessFacts>,
}

#[derive(Debug, Serialize)]
struct ProcessFacts {
    /// Why they cannot work together; then nothing else is known.
    problem: Option<String>,
    /// In their order.
    ranks: Vec<RankFacts>,
    /// Whether a sum over all ranks has every bit of the sum by one of them.
    exact_sums: bool,
}

/// One of the processes.
#[derive(Debug, Serialize, Deserialize)]
struct RankFacts {
    rank: usize,
    /// The library that connects it, and its machine.
    name: String,
    threads: usize,
    /// The GPUs that it can use.
    gpus: Vec<String>,
}

#[derive(Debug, Serialize)]
struct CpuFacts {
    /// Its name in `--device`.
    device: String,
    name: String,
    processor: Option<String>,
    threads: usize,
    simd: String,
    memory_bytes: Option<u64>,
    free_bytes: Option<u64>,
}

#[derive(Debug, Serialize)]
struct CudaFacts {
    usable: bool,
    /// Why not.
    problem: Option<String>,
    driver: Option<String>,
    /// The version of CUDA that the driver serves.
    driver_cuda: Option<String>,
    nvrtc: Option<String>,
    kernel_cache: Option<PathBuf>,
    /// Why nothing can be kept there; looked for where kernels are needed.
    kernel_cache_problem: Option<String>,
}

#[derive(Debug, Clone, Serialize)]
struct GpuFacts {
    /// Its name in `--device`.
    device: String,
    usable: bool,
    /// Why not; then nothing else is known.
    problem: Option<String>,
    name: Option<String>,
    compute_capability: Option<String>,
    multiprocessors: Option<usize>,
    memory_bytes: Option<u64>,
    free_bytes: Option<u64>,
    l2_cache_bytes: Option<u64>,
    shared_memory_bytes: Option<usize>,
}

/// What `--device auto` stands for in each command.
#[derive(Debug, Serialize)]
struct AutoFacts {
    affine: String,
    demo: String,
    apply: String,
    bench: String,
}

/// Looks and prints.
pub(crate) fn run(args: DevicesArgs) -> Result<Outcome, Failure> {
    let args = &args;
    let devices = match (Launch::of_this_process(), ranks::world()) {
        (None, _) => find()?,
        // A build without MPI can still tell what this machine has.
        (Some(_), Err(Failure::Input(problem))) => Devices {
            processes: Some(ProcessFacts {
                problem: Some(typed(&problem)),
                ranks: Vec::new(),
                exact_sums: false,
            }),
            ..find()?
        },
        (Some(_), world) => {
            let world = world?;
            let devices = world.agree(find())?;
            let processes = Some(meet(world, &devices)?);
            Devices { processes, ..devices }
        }
    };
    if devices.processes.is_some() && !ranks::is_first() {
        return Ok(Outcome::Good);
    }
    if args.json.json {
        output::json(&devices)?;
    } else {
        print(&devices);
    }
    Ok(Outcome::Good)
}

/// What the processes tell each other, and whether their sums are right.
fn meet(world: &Communicator, devices: &Devices) -> Result<ProcessFacts, Failure> {
    let usable = devices.gpus.iter().filter(|g| g.usable);
    let own = RankFacts {
        rank: world.rank(),
        name: world.name(),
        threads: devices.cpu.threads,
        gpus: usable.map(|g| g.name.clone().unwrap_or_else(|| g.device.clone())).collect(),
    };
    let ranks = all_told(world, &own)?;
    // Numbers over the whole range, so that sums wrap around.
    let number = |rank: usize, i: i64| {
        (i + 1).wrapping_mul(0x1E37_79B9_7F4A_7C15).rotate_left((rank % 64) as u32)
    };
    let mut sums: Vec<i64> = (0..CHECKED).map(|i| number(world.rank(), i)).collect();
    world.all_reduce_sum(&mut sums)?;
    let expected = |i| (0..world.size()).fold(0i64, |sum, r| sum.wrapping_add(number(r, i)));
    let exact_sums = (0..CHECKED).zip(&sums).all(|(i, &sum)| sum == expected(i));
    let checked = if exact_sums {
        Ok(())
    } else {
        Err(Failure::Ranks(
            "a sum over all processes is wrong, so MPI does not work correctly \
                            here"
                .into(),
        ))
    };
    world.agree(checked)?;
    Ok(ProcessFacts { problem: None, ranks, exact_sums })
}

fn find() -> Result<Devices, Failure> {
    let environment = machine::from_environment()?.map(|choice| choice.to_string());
    let cpu = Cpu::new(None)?;
    let MemoryInfo { total, free, .. } = cpu.memory();
    // One GPU that cannot be used hides no other.
    let found = cuda::gpu_count().map(|count| (0..count).map(look).collect::<Vec<_>>());
    let (gpus, mut problem) = match found {
        Ok(gpus) => (gpus, None),
        Err(e) => (Vec::new(), Some(e.to_string())),
    };
    let facts: Vec<GpuFacts> = gpus.iter().map(|(facts, _)| facts.clone()).collect();
    let first = facts.iter().find(|g| g.usable);
    if first.is_none() {
        problem = problem.or_else(|| facts.iter().find_map(|g| g.problem.clone()));
    }
    let cpu_name = DeviceChoice::Cpu.to_string();
    let searching = first.map_or_else(|| cpu_name.clone(), |g| g.device.clone());
    let driver_cuda = gpus.iter().find_map(|(_, info)| info.as_ref().map(|i| i.driver));
    Ok(Devices {
        version: env!("CARGO_PKG_VERSION"),
        cpu: CpuFacts {
            device: cpu_name.clone(),
            name: cpu.name(),
            processor: processor(),
            threads: cpu.threads(),
            simd: machine::simd_name(cpu.simd()),
            memory_bytes: total,
            free_bytes: free,
        },
        cuda: CudaFacts {
            usable: first.is_some(),
            problem,
            driver: machine::driver_release(),
            driver_cuda: driver_cuda.map(machine::dotted),
            nvrtc: cuda::compiler().ok().map(machine::dotted),
            kernel_cache: cuda::kernel_cache(),
            kernel_cache_problem: first.and_then(|_| cuda::kernel_cache_problem()),
        },
        auto: AutoFacts {
            affine: searching.clone(),
            demo: searching,
            apply: cpu_name.clone(),
            bench: cpu_name,
        },
        gpus: facts,
        environment,
        processes: None,
    })
}

/// What is known of a GPU.
fn look(ordinal: usize) -> (GpuFacts, Option<GpuInfo>) {
    let (info, problem) = match Cuda::new(ordinal) {
        Ok(gpu) => (gpu.info().cloned(), None),
        Err(e) => (None, Some(e.to_string())),
    };
    let known = info.as_ref();
    let facts = GpuFacts {
        device: DeviceChoice::Cuda(Some(ordinal)).to_string(),
        usable: problem.is_none(),
        problem,
        name: known.map(|i| i.name.clone()),
        compute_capability: known.map(|i| machine::dotted(i.capability)),
        multiprocessors: known.map(|i| i.multiprocessors),
        memory_bytes: known.map(|i| i.memory),
        free_bytes: known.map(|i| i.free),
        l2_cache_bytes: known.map(|i| i.l2_cache),
        shared_memory_bytes: known.map(|i| i.shared_memory),
    };
    (facts, info)
}

/// The model of the processor, where the system tells.
fn processor() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|l| l.starts_with("model name"))?;
    let name = line.split_once(':')?.1.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

fn print(devices: &Devices) {
    let unknown = || "unknown".to_owned();
    let memory = |total: Option<u64>, free: Option<u64>| match (total, free) {
        (Some(total), Some(free)) => format!("{}, {} free", amount(total), amount(free)),
        (Some(total), None) => amount(total),
        _ => unknown(),
    };
    let cpu = &devices.cpu;
    let mut table = Table::default();
    table.row(["  processor", cpu.processor.as_deref().unwrap_or("unknown")]);
    table.row(["  threads", &cpu.threads.to_string()]);
    table.row(["  vector instructions", &cpu.simd]);
    table.row(["  memory", &memory(cpu.memory_bytes, cpu.free_bytes)]);
    output::line(&cpu.device);
    table.print_left();
    for gpu in &devices.gpus {
        let mut table = Table::default();
        output::line("");
        output::line(&gpu.device);
        if let Some(problem) = &gpu.problem {
            output::line(&format!("  {problem}"));
            continue;
        }
        let number = |n: Option<usize>| n.map_or_else(unknown, |n| n.to_string());
        let bytes = |n: Option<u64>| n.map_or_else(unknown, amount);
        table.row(["  name", gpu.name.as_deref().unwrap_or("unknown")]);
        let capability = gpu.compute_capability.clone().unwrap_or_else(unknown);
        table.row(["  compute capability", &capability]);
        table.row(["  multiprocessors", &number(gpu.multiprocessors)]);
        table.row(["  memory", &memory(gpu.memory_bytes, gpu.free_bytes)]);
        table.row(["  second-level cache", &bytes(gpu.l2_cache_bytes)]);
        let shared = gpu.shared_memory_bytes.map(|n| n as u64);
        table.row(["  shared memory of a block", &bytes(shared)]);
        table.print_left();
    }
    output::line("");
    let cuda = &devices.cuda;
    if cuda.usable {
        let mut table = Table::default();
        let release = cuda.driver.as_ref().map_or_else(String::new, |r| format!("{r}, "));
        let served = cuda.driver_cuda.clone().unwrap_or_else(unknown);
        table.row(["  driver", &format!("{release}CUDA {served}")]);
        let nvrtc = cuda.nvrtc.clone().unwrap_or_else(unknown);
        table.row(["  compiler of kernels", &format!("NVRTC {nvrtc}")]);
        let none = || "none; they are compiled at every run".to_owned();
        let cache = cuda.kernel_cache.as_ref().map_or_else(none, |p| p.display().to_string());
        table.row(["  compiled kernels", &cache]);
        if let Some(problem) = &cuda.kernel_cache_problem {
            table.row([
                "",
                &format!(
                    "cannot be kept there and are compiled at every run: \
                                     {problem}"
                ),
            ]);
        }
        output::line("CUDA");
        table.print_left();
    } else if let (Some(problem), []) = (&cuda.problem, devices.gpus.as_slice()) {
        output::line(problem);
    }
    output::line("");
    let auto = &devices.auto;
    output::line(&if auto.affine == auto.apply {
        format!("--device auto is {}", auto.affine)
    } else {
        format!(
            "--device auto is {} for affine, deform, atlas and demo, {} for apply and bench",
            auto.affine, auto.apply
        )
    });
    if let Some(choice) = &devices.environment {
        output::line(&format!("{}={choice} is the default here", machine::VARIABLE));
    }
    if let Some(processes) = &devices.processes {
        output::line("");
        print_processes(processes);
    }
}

fn print_processes(processes: &ProcessFacts) {
    if let Some(problem) = &processes.problem {
        output::line(problem);
        return;
    }
    let size = processes.ranks.len();
    let mut table = Table::default();
    for RankFacts { rank, name, threads, gpus } in &processes.ranks {
        let gpus = if gpus.is_empty() { "no GPU".to_owned() } else { gpus.join(", ") };
        let threads = format!("{threads} thread{}", if *threads == 1 { "" } else { "s" });
        table.row([format!("  rank {rank} of {size}"), name.clone(), threads, gpus]);
    }
    output::line("processes");
    table.print_left();
    output::line("sums over all processes are exact");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_is_consistent() {
        let devices = find().unwrap();
        assert!(devices.cpu.threads > 0 && devices.cpu.device == "cpu");
        assert_eq!(devices.cuda.usable, devices.gpus.iter().any(|g| g.usable));
        assert_eq!(devices.cuda.usable, devices.auto.affine.starts_with("cuda:"));
        assert_eq!(devices.cuda.problem.is_none(), devices.cuda.usable);
    }
}
