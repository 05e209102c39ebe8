//! Processes under `mpirun`: this test program starts itself several times.
//!
//! What has to hold at every rank are tests that are ignored in a common run, as each needs processes
//! of its own.

use super::*;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Names the part that the processes of a test take.
const PART: &str = "VOXALIGN_MPI_PART";

/// Runs a part in `size` processes; nothing where there is no `mpirun`.
fn processes(part: &str, size: usize) -> Option<Output> {
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new("mpirun");
    command.args(["--allow-run-as-root", "--oversubscribe", "-np", &size.to_string()]);
    command.arg(program).args(["--ignored", "--exact", "--nocapture", "--test-threads=1"]);
    command.arg("comm::mpi::tests::a_rank").env(PART, part);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(e) => {
            let required = std::env::var_os("VOXALIGN_REQUIRE_MPI").is_some();
            assert!(!required, "mpirun cannot be started: {e}");
            eprintln!("skipped: mpirun cannot be started: {e}");
            return None;
        }
    };
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > Duration::from_secs(120) {
            child.kill().unwrap();
            panic!("{part} with {size} processes hangs");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Some(child.wait_with_output().unwrap())
}

#[test]
fn several_processes_have_the_results_of_one() {
    for size in [1, 2, 4] {
        let Some(output) = processes("work", size) else { return };
        let out = String::from_utf8_lossy(&output.stdout);
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{size} processes:\n{out}\n{err}");
        for rank in 0..size {
            assert!(out.contains(&format!("rank {rank} of {size} is done")), "{out}\n{err}");
        }
    }
}

#[test]
fn a_rank_that_fails_ends_all() {
    // An abort gives its code to mpirun; a rank that is killed, that panics or that ends without a
    // word gives another one that is not zero.
    for part in ["abort", "killed", "gone"] {
        let Some(output) = processes(part, 3) else { return };
        let err = String::from_utf8_lossy(&output.stderr);
        let out = String::from_utf8_lossy(&output.stdout);
        assert!(!output.status.success(), "{part}:\n{out}\n{err}");
        assert!(!out.contains("is done"), "{part}: {out}");
        if part == "abort" {
            assert_eq!(output.status.code(), Some(7), "{err}");
            assert!(err.contains("rank 1 of 3: the disk is full"), "{err}");
        }
    }
}

#[test]
fn names_of_libraries_are_short() {
    let open = "Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4, repo rev: v4.1.4";
    assert_eq!(short(open), "Open MPI v4.1.4");
    assert_eq!(short("MPICH Version:      4.0.2\nMPICH Release date: x"), "MPICH 4.0.2");
    assert_eq!(short(""), "");
}

/// One of the processes that the tests above start.
#[test]
#[ignore = "needs to be started by mpirun"]
fn a_rank() {
    let part = std::env::var(PART).expect("started by the tests of this file");
    if part == "work" {
        return work();
    }
    let ranks = Communicator::world().unwrap();
    ranks.barrier().unwrap();
    if ranks.rank() == 1 {
        match part.as_str() {
            "abort" => {
                let message = "the disk is full";
                eprintln!("rank {} of {}: {message}", ranks.rank(), ranks.size());
                let error = ranks.abort(7, message);
                panic!("the abort has returned: {error}");
            }
            // As the system does where memory is missing.
            "killed" => {
                let me = std::process::id().to_string();
                Command::new("kill").args(["-9", &me]).status().unwrap();
                std::thread::sleep(Duration::from_secs(60));
            }
            // The test program ends; MPI was not told.
            _ => return,
        }
    }
    let waited = ranks.barrier();
    panic!("a rank was waited for that had ended: {waited:?}");
}

/// Everything that ranks do together, in pieces that are small enough to need several.
fn work() {
    let ranks = Communicator::over(Mpi::start(1000, 777).unwrap());
    let (rank, size) = (ranks.rank(), ranks.size());
    let number = |rank: usize, i: usize| {
        (i as i64 + 1).wrapping_mul(0x1E37_79B9_7F4A_7C15) ^ (rank as i64) << 40
    };
    for len in [0, 1, 999, 1000, 1001, 12_345] {
        let mut sums: Vec<_> = (0..len).map(|i| number(rank, i)).collect();
        ranks.all_reduce_sum(&mut sums).unwrap();
        for (i, sum) in sums.into_iter().enumerate() {
            assert_eq!(sum, (0..size).fold(0i64, |s, r| s.wrapping_add(number(r, i))));
        }
    }
    let mut most = [rank as f64, -0.0, f64::NEG_INFINITY];
    ranks.all_reduce_max(&mut most).unwrap();
    assert_eq!(most, [size as f64 - 1.0, 0.0, f64::NEG_INFINITY]);
    let mut least = [rank as f64 + 2.5, if rank + 1 == size { f64::NAN } else { 1.0 }];
    ranks.all_reduce_min(&mut least).unwrap();
    assert!(least[0] == 2.5 && least[1].is_nan());

    let block = |rank: usize| vec![rank as f64 + 0.25; rank * 300];
    let expected: Vec<_> = (0..size).map(block).collect();
    for root in 0..size {
        let found = ranks.gather(&block(rank), root).unwrap();
        assert_eq!(found, (rank == root).then(|| expected.clone()));
        let mut values = vec![if rank == root { 1.5f32 } else { 0.0 }; 2000];
        ranks.broadcast(&mut values, root).unwrap();
        assert!(values.iter().all(|&v| v == 1.5));
        let mut bytes = if rank == root { vec![9; 5000] } else { vec![1; rank] };
        ranks.broadcast_bytes(&mut bytes, root).unwrap();
        assert_eq!(bytes, [9; 5000]);
    }
    assert_eq!(ranks.all_gather(&block(rank)).unwrap(), expected);

    // Blocks for each rank: none, of other lengths, and of several pieces.
    let for_rank = |from: usize, to: usize| vec![(16 * from + to) as u8; from * to * 411];
    for _ in 0..2 {
        let blocks = (0..size).map(|to| for_rank(rank, to)).collect();
        let found = ranks.all_to_all(blocks).unwrap();
        assert_eq!(found, (0..size).map(|from| for_rank(from, rank)).collect::<Vec<_>>());
    }
    if size > 1 {
        let odd = vec![Vec::new(); if rank == 0 { size + 1 } else { size }];
        assert!(matches!(ranks.all_to_all(odd), Err(CommError::Argument { .. })));
    }

    // A failure of one rank is that of all; nobody waits.
    let own = if rank + 1 == size {
        Err(CommError::Unavailable("a.nii: no such file".into()))
    } else {
        Ok(())
    };
    let message = "a.nii: no such file".to_owned();
    let seen = if rank + 1 == size {
        CommError::Unavailable(message)
    } else {
        CommError::Peer { rank: size - 1, message }
    };
    assert_eq!(ranks.agree(own), Err(seen));
    if size > 1 {
        let uneven = ranks.all_reduce_sum(&mut vec![0; rank + 1]).unwrap_err();
        assert!(matches!(uneven, CommError::Mismatch { .. }), "{uneven}");
    }

    // Two devices a rank, and the sums of all images by one rank alone.
    let cpu = crate::cpu::Cpu::new(Some(1)).unwrap();
    let sum_of = |team: &super::super::Team<crate::cpu::Cpu>| {
        use crate::device::Memory;
        let mut none = vec![(); team.devices().len()];
        let fill = |member: super::super::Member<'_, crate::cpu::Cpu>, (): &mut ()| {
            let mut sums = vec![0i64; 3000];
            for image in member.share(11) {
                sums.iter_mut().enumerate().for_each(|(i, s)| *s += number(image, i) >> 8);
            }
            member.device.upload(&sums).map_err(CommError::from)
        };
        let mut buffers = team.each(&mut none, fill).unwrap();
        team.all_reduce_sum(&mut buffers).unwrap();
        buffers.into_iter().map(|b| cpu.into_host(b).unwrap()).collect::<Vec<_>>()
    };
    let team = |devices, ranks| super::super::Team::new(vec![cpu.clone(); devices], ranks).unwrap();
    let alone = sum_of(&team(1, Communicator::single()));
    let together = sum_of(&team(2, ranks.clone()));
    assert!(together.iter().all(|sums| *sums == alone[0]));

    ranks.barrier().unwrap();
    println!("rank {rank} of {size} is done ({})", ranks.name());
    ranks.finish().unwrap();
    assert!(ranks.barrier().unwrap_err().to_string().contains("done"));
}
