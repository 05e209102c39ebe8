//! Tests of the backend itself.

mod huge;

use super::runtime::device::CHECK;
use super::runtime::program::Kernel;
use super::*;
use crate::device::{Memory, MemoryInfo, Transfer};
use crate::error::{ComputeError, Result};
use crate::ops::Reduce;
use crate::ops::reduce::Reduction;

const TEXT: &str = r#"#include "prelude.cuh"
KERNEL(block_sums, 256, IN(float) a, OUT(float) b, u32 n) {
    SHARED(float, scratch, 32);
    u64 i = global_thread();
    float sum = block_sum(i < n ? a[i] : 0.0f, scratch);
    if (threadIdx.x == 0) b[blockIdx.x] = sum;
}
KERNEL(reversed, 256, IN(u32) a, OUT(u32) b) {
    DYNAMIC_SHARED(u32, all);
    all[threadIdx.x] = a[global_thread()];
    __syncthreads();
    b[global_thread()] = all[blockDim.x - 1 - threadIdx.x];
}
KERNEL(half_done, 32, INOUT(u32) scratch, OUT(u32) b, u32 at) { scratch[0] += 1; b[at] = scratch[0]; }
KERNEL(beyond, 32, OUT(u32) b, u32 at) { b[at + threadIdx.x] = 1; }
KERNEL(stuck, 64, OUT(u32) b) {
    if (threadIdx.x == 3) __syncthreads();
    else __syncwarp();
    b[threadIdx.x] = 1;
}
"#;

/// The kernel of a name.
fn kernel<'p>(program: &'p Program, name: &str) -> Kernel<'p> {
    program.kernel(program.kernels().iter().position(|&known| known == name).unwrap())
}

/// The kernels of the GPU on the host; none where there is no C++ compiler, unless it is required.
pub(crate) fn emulated() -> Option<Cuda> {
    match Cuda::emulated() {
        Ok(cuda) => Some(cuda),
        Err(e) => {
            let required = std::env::var_os("VOXALIGN_REQUIRE_EMULATION").is_some();
            assert!(!required, "the kernels of the GPU cannot be tested: {e}");
            eprintln!("skipped: {e}");
            None
        }
    }
}

#[test]
fn the_emulation_runs_kernels_and_finds_their_faults() {
    let Some(cuda) = emulated() else { return };
    let program = Program::new("test", TEXT);
    assert_eq!(program.kernels(), ["block_sums", "reversed", "half_done", "beyond", "stuck"]);
    let data: Vec<f32> = (0..1000).map(|i| i as f32).collect();
    let a = cuda.upload(&data).unwrap();
    let mut b = cuda.alloc::<f32>(4).unwrap();
    let launch = |name: &str, shape: Shape, args: &[Arg]| {
        // SAFETY: the parameters are those of the kernels above; faults are what is tested.
        unsafe { cuda.launch(kernel(&program, name), shape, args, &[]) }
    };
    launch("block_sums", Shape::blocks(4, 256), &[(&a).into(), (&mut b).into(), Arg::of(1000u32)])
        .unwrap();
    let sums = cuda.download(&b).unwrap();
    assert_eq!(sums.iter().sum::<f32>(), 499_500.0);
    assert_eq!(sums[0], (0..256).sum::<i32>() as f32);
    let counts = cuda.upload(&(0..64u32).collect::<Vec<_>>()).unwrap();
    let mut turned = cuda.alloc::<u32>(64).unwrap();
    let shape = Shape::blocks(2, 32).with_shared(128);
    launch("reversed", shape, &[(&counts).into(), (&mut turned).into()]).unwrap();
    let turned = cuda.download(&turned).unwrap();
    assert!((0..64).all(|i| turned[i as usize] == (31 - i % 32) + i / 32 * 32));

    let mut small = cuda.alloc::<u32>(40).unwrap();
    let beyond = launch("beyond", Shape::blocks(1, 32), &[(&mut small).into(), Arg::of(10u32)]);
    let message = beyond.unwrap_err().to_string();
    assert!(message.contains("beyond") && message.contains("index 4"), "{message}");
    let stuck = launch("stuck", Shape::blocks(1, 32), &[(&mut small).into()]);
    assert!(stuck.unwrap_err().to_string().contains("for ever"));
    let wrong = launch(
        "reversed",
        Shape::blocks(1, 32).with_shared(64),
        &[(&counts).into(), (&mut small).into()],
    );
    assert!(wrong.unwrap_err().to_string().contains("outside"));
    for grid in [[1, 65_536, 1], [1, 1, 65_536], [1 << 31, 1, 1], [1, 0, 1]] {
        let beyond = launch("beyond", Shape { grid, ..shape }, &[(&mut small).into()]);
        assert!(beyond.unwrap_err().to_string().contains("which no GPU can launch"));
    }
    let missing = launch("reversed", shape, &[(&counts).into()]);
    assert!(missing.unwrap_err().to_string().contains("parameters"));
    assert!(cuda.launched().contains("block_sums"));
}

/// On a GPU, if the environment names one.
#[test]
fn a_gpu_runs_kernels_and_keeps_its_memory() {
    if std::env::var("VOXALIGN_TEST_DEVICE").is_ok_and(|v| v.starts_with("cuda")) {
        let cuda = Cuda::new(0).unwrap();
        let program = Program::new("test", TEXT);
        for n in [0usize, 1, 1000, 3_000_001] {
            let data: Vec<f32> = (0..n).map(|i| (i % 7) as f32).collect();
            let a = cuda.upload(&data).unwrap();
            assert_eq!(cuda.download(&a).unwrap(), data);
            let blocks = n.div_ceil(256).max(1);
            let mut reserved = None;
            for _ in 0..3 {
                let mut b = cuda.alloc::<f32>(blocks).unwrap();
                let args = [(&a).into(), (&mut b).into(), Arg::of(n as u32)];
                let sums = kernel(&program, "block_sums");
                // SAFETY: the parameters are those of the kernel above.
                unsafe {
                    cuda.launch(sums, Shape::blocks(blocks, 256), &args, &[]).unwrap();
                }
                let sum: f64 = cuda.into_host(b).unwrap().iter().map(|&v| f64::from(v)).sum();
                assert_eq!(sum, data.iter().map(|&v| f64::from(v)).sum::<f64>());
                let now = cuda.pool().reserved;
                assert!(reserved.is_none() || reserved == now, "the pool grew");
                reserved = now;
            }
        }
        let message = cuda.alloc::<f64>(1 << 45).unwrap_err().to_string();
        assert!(message.contains("out of memory") && message.contains("free"), "{message}");
        let more = cuda.memory().free.unwrap() / 4;
        let first = cuda.alloc_unset::<f32>((more / 2) as usize).unwrap();
        let message = cuda.alloc_unset::<f32>(more as usize).unwrap_err().to_string();
        assert!(message.contains("out of memory"), "{message}");
        drop(first);
        // After such an error the device goes on.
        let again = cuda.alloc::<f32>(1000).unwrap();
        assert_eq!(cuda.download(&again).unwrap(), vec![0.0; 1000]);
        let bad = Program::new("bad", "KERNEL(broken, 32, IN(float) a) { nonsense; }");
        // SAFETY: it does not compile.
        let e = unsafe { cuda.launch(bad.kernel(0), Shape::blocks(1, 32), &[Arg::NULL], &[]) };
        assert!(e.unwrap_err().to_string().contains("bad"));
        let seconds = cuda.seconds(&mut || cuda.alloc::<f32>(1 << 24).map(|_| ())).unwrap();
        assert!(seconds > 0.0 && seconds < 0.1, "{seconds}");
        let other = cuda.fork().unwrap();
        let a = cuda.upload(&vec![1.5f32; 1 << 22]).unwrap();
        let mut b = other.alloc::<f32>(1 << 22).unwrap();
        other.copy(&a, &mut b).unwrap();
        drop(a);
        assert!(other.into_host(b).unwrap().iter().all(|&v| v == 1.5));
        // Reductions in two streams at once do not meet.
        let data = vec![1f32; 1 << 22];
        let mut sums = [&cuda, &other].map(|c| {
            (c, c.upload(&data).unwrap(), c.alloc::<f64>(200).unwrap(), c.alloc(1).unwrap())
        });
        for i in 0..200 {
            for (c, ones, _, sum) in &mut sums {
                c.reduce_into(&[ones], &[Reduction::Sum(0)], sum).unwrap();
            }
            for (c, _, all, sum) in &sums {
                let (from, to) = (sum.read_by().address, all.read_by().address + 8 * i);
                let Target::Gpu(gpu) = &c.0.target else { panic!("no GPU") };
                gpu.copy(from, to, 8).unwrap();
            }
        }
        for (c, _, all, _) in sums {
            assert_eq!(c.into_host(all).unwrap(), vec![f64::from(1 << 22); 200]);
        }
        eprintln!("{:?} {:?} {seconds}", cuda.info(), cuda.pool());
    } else {
        eprintln!("skipped: VOXALIGN_TEST_DEVICE names no GPU");
    }
}

#[test]
fn work_is_counted() {
    let Some(cuda) = emulated() else { return };
    // Its start has been checked by a launch.
    let before = cuda.work();
    let a = cuda.upload(&[1.0f32, 2.0, 3.0]).unwrap();
    let mut sum = cuda.alloc::<f64>(1).unwrap();
    cuda.reduce_into(&[&a], &[Reduction::Sum(0)], &mut sum).unwrap();
    assert_eq!(cuda.arriving(&sum).unwrap().wait().unwrap(), [6.0]);
    cuda.download(&a).unwrap();
    let now = cuda.work();
    assert_eq!((now.launches - before.launches, now.clears - before.clears), (1, 1));
    assert_eq!((now.uploads - before.uploads, now.downloads - before.downloads), (1, 1));
    assert_eq!(now.arrivals - before.arrivals, 1);
}

#[test]
fn the_pool_counts() {
    let Some(cuda) = emulated() else { return };
    let before = cuda.pool().allocations;
    let a = cuda.alloc::<f64>(100).unwrap();
    let b = cuda.alloc::<u8>(7).unwrap();
    assert_eq!(cuda.pool().live, 807);
    drop(a);
    assert_eq!(cuda.pool().live, 7);
    assert_eq!((cuda.pool().peak, cuda.pool().allocations - before), (807, 2));
    drop(b);
    assert!(cuda.alloc::<f64>(usize::MAX / 4).is_err());
    assert!(cuda.alloc::<u8>(isize::MAX as usize - 4096).is_err());
}

#[test]
fn scratch_is_zero_again_after_a_fault() {
    let Some(cuda) = emulated() else { return };
    let program = Program::new("test", TEXT);
    let mut out = cuda.alloc::<u32>(1).unwrap();
    // Adds one to a number in the scratch, and writes it to a place of the output.
    let mut count = |at: u32| {
        let done = cuda.with_scratch(|address| {
            let args = [Arg::memory(address, 4), (&mut out).into(), Arg::of(at)];
            let half_done = kernel(&program, "half_done");
            // SAFETY: the parameters are those of the kernel; a fault is what is tested.
            unsafe { cuda.launch(half_done, Shape::blocks(1, 1), &args, &[]) }
        });
        done.map(|()| cuda.download(&out).unwrap()[0])
    };
    assert_eq!((count(0).unwrap(), count(0).unwrap()), (1, 2));
    assert!(count(1).is_err());
    assert_eq!(count(0).unwrap(), 1);
}

/// The handle of a queue and its buffers are for its turns.
#[test]
fn handles_of_queues_are_for_their_turns() {
    let Some(cuda) = emulated() else { return };
    let (queue, lasting) = (cuda.queue().unwrap(), cuda.lasting_queue().unwrap());
    let kept = queue.run(|d| Ok::<_, ComputeError>(d.clone())).unwrap();
    let refused = kept.alloc::<f32>(3).unwrap_err().to_string();
    assert!(refused.contains("outside of a turn"), "{refused}");
    let mut beyond = None;
    let left = queue.run(|d| d.upload(&[1.0f32, 2.0]).map(|b| beyond = Some(b)));
    assert!(left.unwrap_err().to_string().contains("8 bytes"));
    // It can be used, and dropped, none the less.
    assert_eq!(cuda.into_host(beyond.take().unwrap()).unwrap(), [1.0, 2.0]);
    queue.run(|d| d.alloc::<f32>(2).map(drop)).unwrap();
    let stays = lasting.run(|d| d.upload(&[3.0f32])).unwrap();
    lasting.run(|d| d.download(&stays).map(|found| assert_eq!(found, [3.0]))).unwrap();
    // Bounds are for all of them together.
    cuda.limit_memory(MemoryLimit::Bytes(12));
    assert!(queue.run(|d| d.alloc::<f32>(3).map(drop)).is_err());
    queue.run(|d| d.alloc::<f32>(2).map(drop)).unwrap();
    drop(stays);
    queue.run(|d| d.alloc::<f32>(3).map(drop)).unwrap();
    cuda.limit_memory(MemoryLimit::Device);
    // Another device's buffers are refused, whichever handle they are of.
    let other = emulated().unwrap();
    let far = other.upload(&[1.0f32]).unwrap();
    assert!(queue.run(|d| d.download(&far).map(drop)).is_err());
    assert!(cuda.wait_for(&other).is_err() && cuda.wait_for(&cuda.fork().unwrap()).is_ok());
}

/// A kernel is not given what it changes as what it reads.
#[test]
fn what_kernels_change_is_said() {
    let Some(cuda) = emulated() else { return };
    let out = cuda.alloc::<u32>(32).unwrap();
    let program = CHECK::DECLARATION.program();
    // SAFETY: the parameters are those of the kernel, which has room for what it writes.
    let launched =
        unsafe { cuda.launch(program.kernel(0), Shape::blocks(1, 32), &[(&out).into()], &[]) };
    let said = launched.unwrap_err().to_string();
    assert!(said.contains("changes parameter 0, which was passed to be read"), "{said}");
}

#[test]
fn memory_can_be_bounded() {
    let Some(cuda) = emulated() else { return };
    let peak = cuda.memory().peak.filter(|peak| *peak < 800);
    assert!(peak.is_some());
    assert_eq!(cuda.memory(), MemoryInfo { peak, ..MemoryInfo::default() });
    cuda.limit_memory(MemoryLimit::Bytes(1000));
    let a = cuda.alloc::<f32>(200).unwrap();
    let error = cuda.alloc::<f32>(51).err().unwrap();
    let taken = MemoryInfo { total: Some(1000), free: Some(200), peak: Some(800) };
    assert_eq!(cuda.memory(), taken);
    let expected = ComputeError::OutOfMemory { device: cuda.name(), bytes: 204, free: Some(200) };
    assert_eq!(error, expected);
    let said = error.to_string();
    assert!(said.contains("204 bytes were requested, 200 bytes are free; use smaller"), "{said}");
    drop(a);
    cuda.alloc::<f32>(250).unwrap();
    cuda.limit_memory(MemoryLimit::Requests(1));
    cuda.alloc::<u8>(1).unwrap();
    assert!(cuda.alloc::<u8>(1).is_err() && cuda.alloc::<u8>(1).is_err());
    cuda.limit_memory(MemoryLimit::Device);
    cuda.alloc::<u8>(1).unwrap();
    assert_eq!(cuda.pool().live, 0);
}

#[test]
fn what_is_missing_is_said() {
    match gpus() {
        Ok(list) => assert!(list.iter().all(|g| g.memory > 0)),
        Err(e) => assert!(e.to_string().starts_with("cuda cannot be used: "), "{e}"),
    }
}
