//! Sums over several devices of a process against one number at a time.

// A check that is skipped says so, and one that runs by what way.
#![allow(clippy::print_stderr)]

use voxalign_compute::Transfer;
use voxalign_compute::comm::{Communicator, Team};
use voxalign_compute::cuda::{Cuda, gpu_count};
use voxalign_compute::ops::Accumulate;
use voxalign_compute::ops::Elementwise;
use voxalign_compute::{ComputeError, Device, Memory};

use crate::support::{Random, emulated, gpu_number};

on_devices!(
    ;
    sums, uploads, errors;
    same bits:
);

#[test]
fn emulated_devices() {
    let Some(cuda) = emulated() else { return };
    sums(&cuda);
    uploads(&cuda);
    errors(&cuda);
}

/// Numbers over the whole range, so that sums wrap around.
fn numbers(seed: u64, len: usize) -> Vec<i64> {
    let mut random = Random::new(seed);
    (0..len).map(|_| (random.between(-1.0, 1.0) * i64::MAX as f64) as i64).collect()
}

fn expected(members: usize, len: usize) -> Vec<i64> {
    let all: Vec<_> = (0..members).map(|m| numbers(m as u64, len)).collect();
    (0..len).map(|i| all.iter().fold(0i64, |sum, own| sum.wrapping_add(own[i]))).collect()
}

/// The sum that each device of a team holds afterwards.
fn summed<D: Device>(team: &Team<D>, len: usize) -> Vec<Vec<i64>> {
    let upload = |(m, device): (usize, &D)| device.upload(&numbers(m as u64, len)).unwrap();
    let mut buffers: Vec<_> = team.devices().iter().enumerate().map(upload).collect();
    team.all_reduce_sum(&mut buffers).unwrap();
    let devices = team.devices().iter().zip(buffers);
    devices.map(|(device, buffer)| device.into_host(buffer).unwrap()).collect()
}

fn sums<D: Device>(device: &D) {
    for count in 1..=3 {
        let team = Team::new(vec![device.clone(); count], Communicator::single()).unwrap();
        for len in [0, 1, 33, 65_537] {
            let expected = expected(count, len);
            let found = summed(&team, len);
            assert!(found.iter().all(|f| *f == expected), "{count} devices, {len} numbers");
        }
    }
}

fn uploads<D: Device>(device: &D) {
    let mut buffer = device.upload(&[1.0f32; 70]).unwrap();
    let values: Vec<f32> = (0..70).map(|i| i as f32).collect();
    device.upload_into(&mut buffer, &values).unwrap();
    assert_eq!(device.download(&buffer).unwrap(), values);
    let short = device.upload_into(&mut buffer, &values[1..]);
    assert!(matches!(short, Err(ComputeError::Length { expected: 70, found: 69, .. })));
    assert_eq!(device.into_host(buffer).unwrap(), values);
}

fn errors<D: Device>(device: &D) {
    let team = Team::new(vec![device.clone(); 2], Communicator::single()).unwrap();
    let buffers = |lens: &[usize]| -> Vec<_> {
        lens.iter().map(|&len| device.alloc::<i64>(len).unwrap()).collect()
    };
    assert!(team.all_reduce_sum(&mut buffers(&[4, 4])).is_ok());
    assert!(team.all_reduce_sum(&mut buffers(&[4, 5])).is_err());
    assert!(team.all_reduce_sum(&mut buffers(&[4])).is_err());
    assert!(team.all_reduce_sum(&mut buffers(&[4, 4, 4])).is_err());
}

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
