//! Sums over the GPUs of a machine.

use voxalign_compute::comm::{Communicator, Team};
use voxalign_compute::cuda::{Cuda, gpu_count};
use voxalign_compute::ops::{Accumulate, Elementwise};
use voxalign_compute::{Memory, Transfer};
use voxalign_conformance::sums::{expected, numbers, summed};

use crate::devices::gpu_number;

/// All GPUs of the machine, if there are several and a GPU is to be tested.
fn gpus() -> Option<Vec<Cuda>> {
    gpu_number()?;
    let count = gpu_count().unwrap();
    if count < 2 {
        eprintln!("skipped: there is one GPU");
        return None;
    }
    Some((0..count).map(|n| Cuda::new(n).unwrap()).collect())
}

#[test]
fn nccl_has_the_bits_of_the_host() {
    let Some(gpus) = gpus() else { return };
    let team = Team::new(gpus.clone(), Communicator::single()).unwrap();
    let host = Team::through_host(gpus, Communicator::single()).unwrap();
    eprintln!("sums over {} GPUs: {}", team.members(), team.sums());
    assert_eq!(host.sums(), "through the host");
    let required = std::env::var_os("VOXALIGN_REQUIRE_NCCL").is_some();
    assert!(!required || team.sums().starts_with("NCCL "), "{}", team.sums());
    for len in [1, 1000, (1 << 24) + 7] {
        let expected = expected(team.members(), len);
        for round in 0..3 {
            let (fast, slow) = (summed(&team, len), summed(&host, len));
            assert!(fast.iter().all(|f| *f == expected), "{len} numbers, round {round}");
            assert!(slow.iter().all(|f| *f == expected), "{len} numbers, round {round}");
        }
    }
}

/// What a queue still writes is summed only afterwards, and what a queue reads next is the sum.
#[test]
fn sums_wait_for_queues() {
    use voxalign_compute::ops::elementwise::x;
    let Some(gpus) = gpus() else { return };
    let team = Team::new(gpus.clone(), Communicator::single()).unwrap();
    let (len, members) = (1 << 22, gpus.len() as f32);
    let queues: Vec<_> = gpus.iter().map(|gpu| gpu.queue().unwrap()).collect();
    let mut works: Vec<_> = gpus.iter().map(|gpu| gpu.alloc::<f32>(1 << 26).unwrap()).collect();
    for round in 0..4 {
        let mut sums: Vec<_> = gpus.iter().map(|gpu| gpu.alloc::<i64>(len).unwrap()).collect();
        let mut outs: Vec<_> = gpus.iter().map(|gpu| gpu.alloc::<f32>(len).unwrap()).collect();
        let ones = gpus.iter().map(|gpu| gpu.upload(&vec![1f32; len]).unwrap()).collect::<Vec<_>>();
        queues[0]
            .run(|d| {
                for _ in 0..200 {
                    let work = &mut works[0];
                    d.eval_in_place(&(x(0) * 0.5 + 1.0), work, &[], &[], None)?;
                }
                d.add_fixed(&ones[0], 5.0, &mut sums[0])?;
                for (gpu, (one, sum)) in gpus.iter().zip(ones.iter().zip(&mut sums)).skip(1) {
                    gpu.add_fixed(one, 5.0, sum)?;
                }
                team.all_reduce_sum(&mut sums).unwrap();
                d.fixed_to_float(&sums[0], 1.0, &mut outs[0])
            })
            .unwrap();
        queues[1].run(|d| d.fixed_to_float(&sums[1], 1.0, &mut outs[1])).unwrap();
        for (gpu, out) in gpus.iter().zip(&outs).take(2) {
            let found = gpu.download(out).unwrap();
            assert!(found.iter().all(|&v| v == 5.0 * members), "round {round}: {}", found[0]);
        }
    }
}

#[test]
fn ranks_of_several_gpus_have_the_sums_of_one() {
    let Some(gpus) = gpus() else { return };
    let expected = expected(gpus.len(), 12_345);
    // Each rank has one GPU: what NCCL does in one process is done between threads.
    let found: Vec<Vec<i64>> = std::thread::scope(|scope| {
        let ranks = Communicator::local(gpus.len()).into_iter().zip(gpus);
        let threads: Vec<_> = ranks
            .map(|(rank, gpu)| {
                scope.spawn(move || {
                    let seed = rank.rank() as u64;
                    let team = Team::new(vec![gpu.clone()], rank).unwrap();
                    let mut buffer = [gpu.upload(&numbers(seed, 12_345)).unwrap()];
                    team.all_reduce_sum(&mut buffer).unwrap();
                    gpu.download(&buffer[0]).unwrap()
                })
            })
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert!(found.iter().all(|f| *f == expected));
}
