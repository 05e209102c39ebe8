//! Ranks that are threads, and one that is alone.

use super::*;
use crate::cpu::Cpu;
use crate::device::Memory;
use proptest::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// What `work` returns at each rank of a group; panics of a rank are errors.
fn at_ranks<R: Send>(
    size: usize,
    work: impl Fn(Communicator) -> R + Sync,
) -> Vec<std::thread::Result<R>> {
    std::thread::scope(|scope| {
        let work = &work;
        let ranks = Communicator::local(size).into_iter();
        let threads: Vec<_> = ranks.map(|rank| scope.spawn(move || work(rank))).collect();
        threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
    })
}

/// The same where no rank may fail.
fn all<R: Send>(size: usize, work: impl Fn(Communicator) -> R + Sync) -> Vec<R> {
    at_ranks(size, work).into_iter().map(std::result::Result::unwrap).collect()
}

fn random(rank: usize, i: usize) -> i64 {
    let mixed = (i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (rank as u64) << 17;
    (mixed ^ mixed >> 31).wrapping_mul(0xBF58_476D_1CE4_E5B9) as i64
}

#[test]
fn sums_are_those_of_one_after_the_other() {
    // Below, at and beyond a segment, and more than all segments hold at once.
    for len in [0, 1, 65_535, 65_537, (1 << 22) + 3] {
        for size in 1..=4 {
            let found = all(size, |ranks| {
                let mut values: Vec<_> = (0..len).map(|i| random(ranks.rank(), i)).collect();
                ranks.all_reduce_sum(&mut values).unwrap();
                values
            });
            let expected: Vec<_> = (0..len)
                .map(|i| (0..size).fold(0i64, |sum, r| sum.wrapping_add(random(r, i))))
                .collect();
            assert!(found.iter().all(|values| *values == expected), "{len} numbers, {size} ranks");
        }
    }
}

#[test]
fn sums_do_not_depend_on_how_images_are_shared() {
    let sum = |size: usize| {
        all(size, |ranks| {
            let mut sums = vec![0; 1000];
            for image in balance::share(13, ranks.size(), ranks.rank()) {
                sums.iter_mut().enumerate().for_each(|(i, s)| *s += random(image, i) >> 8);
            }
            ranks.all_reduce_sum(&mut sums).unwrap();
            sums
        })
    };
    let alone = sum(1).remove(0);
    for size in 2..=4 {
        assert!(sum(size).iter().all(|sums| *sums == alone), "{size} ranks");
    }
}

#[test]
fn extremes_are_ordered_in_every_bit() {
    let rows = [
        [1.0, -0.0, f64::NEG_INFINITY, 2.0, 0.0],
        [-3.5, 0.0, 7.0, f64::NAN, -f64::MIN_POSITIVE],
        [0.25, -0.0, f64::INFINITY, -f64::NAN, 5e-324],
    ];
    let bits = |values: [f64; 5]| {
        values.map(|v| if v.is_nan() { "nan".to_owned() } else { v.to_bits().to_string() })
    };
    for (most, least) in all(3, |ranks| {
        let [mut most, mut least] = [rows[ranks.rank()]; 2];
        ranks.all_reduce_max(&mut most).unwrap();
        ranks.all_reduce_min(&mut least).unwrap();
        (most, least)
    }) {
        assert_eq!(bits(most), bits([1.0, 0.0, f64::INFINITY, f64::NAN, 5e-324]));
        assert_eq!(
            bits(least),
            bits([-3.5, -0.0, f64::NEG_INFINITY, f64::NAN, -f64::MIN_POSITIVE])
        );
    }
}

#[test]
fn blocks_come_in_the_order_of_the_ranks() {
    let block = |rank: usize| vec![rank as f64 + 0.5; rank * 3];
    let expected: Vec<_> = (0..4).map(block).collect();
    for root in 0..4 {
        for (rank, (some, every)) in all(4, |ranks| {
            let own = block(ranks.rank());
            (ranks.gather(&own, root).unwrap(), ranks.all_gather(&own).unwrap())
        })
        .into_iter()
        .enumerate()
        {
            assert_eq!(some, (rank == root).then(|| expected.clone()), "root {root}");
            assert_eq!(every, expected);
        }
    }
}

#[test]
fn blocks_are_exchanged() {
    let for_rank = |from: usize, to: usize| vec![(16 * from + to) as u8; (from * to) % 7 * 1000];
    for size in 1..6 {
        let found = all(size, |ranks| {
            let rank = ranks.rank();
            let turn = || {
                let blocks = (0..size).map(|to| for_rank(rank, to)).collect();
                ranks.all_to_all(blocks).unwrap()
            };
            [turn(), turn()]
        });
        for (rank, found) in found.into_iter().enumerate() {
            let expected: Vec<_> = (0..size).map(|from| for_rank(from, rank)).collect();
            assert!(found.iter().all(|found| *found == expected));
        }
        // One that has not a block for each rank is an error for all.
        let odd = all(size, |ranks| {
            ranks.all_to_all(vec![vec![1]; size + usize::from(ranks.is_first())])
        });
        assert!(odd.iter().all(|e| matches!(e, Err(CommError::Argument { .. }))), "{odd:?}");
    }
}

#[test]
fn roots_give_what_they_have() {
    // More than what is converted at a time.
    let image: Vec<f32> = (0..PIECE / 4 + 5).map(|i| i as f32).collect();
    for root in 0..3 {
        for (values, bytes) in all(3, |ranks| {
            let here = ranks.rank() == root;
            let mut values = if here { image.clone() } else { vec![-1.0; image.len()] };
            ranks.broadcast(&mut values, root).unwrap();
            let mut bytes =
                if here { b"a longer text".to_vec() } else { vec![7; ranks.rank() * 20] };
            ranks.broadcast_bytes(&mut bytes, root).unwrap();
            (values, bytes)
        }) {
            assert!(values == image && bytes == b"a longer text");
        }
        let wrong = all(2, |ranks| ranks.broadcast(&mut [0u8], root + 2).unwrap_err().to_string());
        assert!(wrong[1].contains(&format!("rank 1: the root is {}", root + 2)), "{wrong:?}");
    }
}

#[test]
fn a_barrier_waits_for_all() {
    let arrived = AtomicUsize::new(0);
    all(4, |ranks| {
        for round in 1..=50 {
            arrived.fetch_add(1, Ordering::SeqCst);
            ranks.barrier().unwrap();
            assert!(arrived.load(Ordering::SeqCst) >= 4 * round);
            ranks.barrier().unwrap();
        }
    });
    assert_eq!(arrived.into_inner(), 200);
}

#[test]
fn one_process_has_all_there_is() {
    let alone = Communicator::single();
    assert_eq!((alone.rank(), alone.size(), alone.is_first()), (0, 1, true));
    let (mut sums, mut most) = ([1, -2], [0.5, -0.0]);
    alone.all_reduce_sum(&mut sums).unwrap();
    alone.all_reduce_max(&mut most).unwrap();
    assert!(sums == [1, -2] && most[1].is_sign_negative());
    assert_eq!(alone.all_gather(&[3u32]).unwrap(), [[3]]);
    assert_eq!(alone.gather::<u8>(&[], 0).unwrap(), Some(vec![vec![]]));
    assert!(alone.gather(&[1u8], 1).is_err());
    let failed: Result<()> = alone.agree(Err(CommError::Unavailable("no".into())));
    assert_eq!(failed, Err(CommError::Unavailable("no".into())));
    let said = alone.abort(3, "it is over").to_string();
    assert_eq!(said, "rank 0 ended the run with the exit code 3: it is over");
    alone.finish().unwrap();
}

#[test]
fn all_see_the_failure_of_the_lowest_rank() {
    let found = all(4, |ranks| {
        let own = match ranks.rank() {
            2 => Err(CommError::Unavailable("b.nii: no such file".into())),
            3 => Err(CommError::Unavailable("c.nii: no such file".into())),
            rank => Ok(rank),
        };
        let first = ranks.agree(own);
        // All are at the same step afterwards.
        (first, ranks.agree::<_, CommError>(Ok(5)), ranks.barrier())
    });
    for (rank, (first, second, third)) in found.into_iter().enumerate() {
        let message = "b.nii: no such file".to_owned();
        let expected = match rank {
            2 => CommError::Unavailable(message),
            _ => CommError::Peer { rank: 2, message },
        };
        assert_eq!(first, Err(expected));
        assert_eq!((second, third), (Ok(5), Ok(())));
    }
}

#[test]
fn nobody_waits_for_a_rank_that_ended() {
    let start = Instant::now();
    // One returns early, one panics; the others are in the middle of something.
    let found = at_ranks(4, |ranks| {
        ranks.barrier().unwrap();
        match ranks.rank() {
            1 => return Ok(()),
            2 => {
                std::thread::sleep(Duration::from_millis(20));
                std::panic::resume_unwind(Box::new("the sky fell"));
            }
            _ => {}
        }
        let mut sums = vec![1; 100];
        ranks.all_reduce_sum(&mut sums)
    });
    assert!(start.elapsed() < Duration::from_secs(20));
    assert!(found[2].is_err());
    for rank in [0, 3] {
        let error = found[rank].as_ref().unwrap().clone().unwrap_err();
        assert!(
            matches!(error, CommError::Gone { rank: 1, waiting, .. } if waiting == rank),
            "{error}"
        );
        assert!(error.to_string().starts_with("rank 1 has ended"), "{error}");
    }
    // A failure is not hidden by those of ranks that are gone.
    let found = all(2, |ranks| match ranks.rank() {
        0 => Ok(()),
        _ => {
            while ranks.barrier().is_ok() {}
            ranks.agree::<(), _>(Err(CommError::Unavailable("mine".into())))
        }
    });
    assert_eq!(found[1], Err(CommError::Unavailable("mine".into())));
}

#[test]
fn an_abort_reaches_all() {
    let found = all(3, |ranks| match ranks.rank() {
        1 => Err(ranks.abort(3, "the disk is full")),
        _ => ranks.barrier().and_then(|()| ranks.barrier()),
    });
    for error in found {
        let message = "the disk is full".into();
        assert_eq!(error, Err(CommError::Aborted { rank: 1, code: 3, message }));
    }
}

#[test]
fn ranks_that_do_different_things_are_told() {
    let found = all(3, |ranks| match ranks.rank() {
        1 => ranks.all_gather(&[1u8]).map(|_| ()),
        _ => ranks.barrier(),
    });
    assert!(found.iter().all(|r| matches!(r, Err(CommError::Mismatch { .. }))), "{found:?}");
    let said = found[0].as_ref().unwrap_err().to_string();
    assert!(said.contains("a barrier") && said.contains("a gathering at all ranks"), "{said}");

    let found = all(3, |ranks| ranks.all_reduce_sum(&mut vec![0; 10 + ranks.rank()]));
    for error in found {
        let said = error.unwrap_err().to_string();
        assert!(said.contains("some have 12 numbers, others 10"), "{said}");
    }
    let found = all(2, |ranks| match ranks.rank() {
        0 => ranks.all_gather(&[1u8, 2]).map(|_| ()),
        _ => ranks.all_gather(&[1.0f64]).map(|_| ()),
    });
    let said = found[1].as_ref().unwrap_err().to_string();
    assert!(said.contains("rank 0 sends 2 bytes, rank 1 expects numbers of 8 bytes"), "{said}");
    let roots = all(2, |ranks| ranks.gather(&[1u8], ranks.rank()).unwrap_err().to_string());
    assert!(roots[0].contains("root 0") && roots[0].contains("root 1"), "{roots:?}");
}

/// Sums over teams of CPUs: how many devices each rank has.
fn team_sums(devices: &[usize], len: usize) -> Vec<Vec<Vec<i64>>> {
    all(devices.len(), |ranks| {
        let own = (0..devices[ranks.rank()]).map(|_| Cpu::new(Some(1)).unwrap()).collect();
        let team = Team::new(own, ranks).unwrap();
        assert_eq!(team.members(), devices.iter().sum::<usize>());
        let mut none = vec![(); team.devices().len()];
        let fill = |member: Member<'_, Cpu>, (): &mut ()| -> Result<_> {
            let mut sums = vec![0i64; len];
            for image in member.share(29) {
                sums.iter_mut().enumerate().for_each(|(i, s)| *s += random(image, i) >> 8);
            }
            Ok(member.device.upload(&sums)?)
        };
        let mut buffers = team.each(&mut none, fill).unwrap();
        team.all_reduce_sum(&mut buffers).unwrap();
        let devices = team.devices().iter().zip(buffers);
        devices.map(|(device, buffer)| device.into_host(buffer).unwrap()).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn teams_of_any_shape_have_the_same_sums(
        devices in prop::collection::vec(1usize..4, 1..5), len in 0usize..200,
    ) {
        let alone = team_sums(&[1], len);
        let expected = &alone[0][0];
        let found = team_sums(&devices, len);
        prop_assert!(found.iter().zip(&devices).all(|(own, &n)| own.len() == n));
        prop_assert!(found.iter().flatten().all(|sums| sums == expected));
    }
}

#[test]
fn members_are_numbered_over_all_ranks() {
    let devices = [2, 1, 3];
    let found = all(3, |ranks| {
        let rank = ranks.rank();
        let own = (0..devices[rank]).map(|_| Cpu::new(Some(1)).unwrap()).collect();
        let team = Team::through_host(own, ranks).unwrap();
        let shares: Vec<_> = team.local().map(|m| (m.number, m.share(14))).collect();
        let images = team.images(14);
        assert_eq!((images.start, images.end), {
            (shares[0].1.start, shares[shares.len() - 1].1.end)
        });
        assert_eq!(team.sums(), "through the host");
        shares
    });
    let flat: Vec<_> = found.into_iter().flatten().collect();
    assert!(flat.iter().map(|(number, _)| *number).eq(0..6));
    assert!(flat.into_iter().flat_map(|(_, share)| share).eq(0..14));
}

#[test]
fn teams_fail_together() {
    // A rank without devices.
    let found = all(2, |ranks| {
        let own = (0..ranks.rank()).map(|_| Cpu::new(Some(1)).unwrap()).collect();
        Team::new(own, ranks).unwrap_err().to_string()
    });
    assert!(found[1].starts_with("rank 0 failed: the number of devices"), "{found:?}");

    // A rank whose buffers do not fit each other.
    let found = all(2, |ranks| {
        let cpu = Cpu::new(Some(1)).unwrap();
        let rank = ranks.rank();
        let team = Team::new(vec![cpu.clone(), cpu.clone()], ranks).unwrap();
        let mut buffers = [5, 5 + rank].map(|len| cpu.alloc::<i64>(len).unwrap());
        team.all_reduce_sum(&mut buffers).unwrap_err()
    });
    assert!(matches!(found[0], CommError::Peer { rank: 1, .. }), "{found:?}");
    assert!(matches!(found[1], CommError::Device(_)), "{found:?}");

    // A device that fails while others work, and a state too few.
    let cpu = Cpu::new(Some(1)).unwrap();
    let team = Team::new(vec![cpu; 3], Communicator::single()).unwrap();
    let work = |member: Member<'_, Cpu>, state: &mut i32| {
        *state += 1;
        let what = format!("device {}", member.place);
        if member.place > 0 { Err(CommError::Unavailable(what)) } else { Ok(()) }
    };
    let mut states = [0; 3];
    let error = team.each(&mut states, work).unwrap_err();
    assert_eq!(error, CommError::Unavailable("device 1".into()));
    assert_eq!(states, [1; 3]);
    assert!(team.each(&mut states[..2], work).unwrap_err().to_string().contains("states"));
    assert_eq!(states, [1; 3]);
}

#[test]
fn this_process_is_alone_or_says_what_it_lacks() {
    // Tests run on their own; where a launcher started them, its variable has to be named.
    match (Launch::of_this_process(), Communicator::world()) {
        (None, world) => assert_eq!(world.unwrap().size(), 1),
        (Some(_), Ok(world)) => assert!(world.rank() < world.size()),
        (Some(launch), Err(e)) => assert!(e.to_string().contains(launch.variable), "{e}"),
    }
}

/// The first ranks work among themselves, and all of them together afterwards.
#[test]
fn the_first_ranks() {
    for (size, count) in [(1, 1), (3, 1), (4, 3), (4, 4)] {
        let found: Vec<_> = std::thread::scope(|scope| {
            let ranks = Communicator::local(size).into_iter();
            let threads: Vec<_> = ranks
                .map(|all| {
                    scope.spawn(move || {
                        let first = all.first(count).unwrap();
                        assert_eq!(first.is_some(), all.rank() < count);
                        let mut sum = [1 + all.rank() as i64];
                        if let Some(first) = &first {
                            assert_eq!((first.rank(), first.size()), (all.rank(), count));
                            first.all_reduce_sum(&mut sum).unwrap();
                        }
                        let mut whole = [1];
                        all.all_reduce_sum(&mut whole).unwrap();
                        assert!(all.first(0).is_err() && all.first(size + 1).is_err());
                        (first.is_some().then_some(sum[0]), whole[0])
                    })
                })
                .collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        let sum = (count * (count + 1) / 2) as i64;
        for (rank, (own, whole)) in found.into_iter().enumerate() {
            assert_eq!((own, whole), ((rank < count).then_some(sum), size as i64));
        }
    }
}
