//! Which way messages take, and that streams stay.

use super::*;
use crate::search::distributed::{Plan, StrategyKind};
use std::sync::Arc;
use voxalign_compute::cpu::Cpu;
use voxalign_compute::cuda::Cuda;
use voxalign_compute::ops::joint::{BlockRule, FixedPointMap, Halo, MovingBins, Window};

/// Whether the messages of each rank are read where they are, and which room it has; after two evaluations, and after one with other options.
fn ways<D: Device>(devices: &[D], direct: bool) -> Vec<[(bool, usize); 3]> {
    let dims = [24, 20, 1];
    let work = |ranks: Communicator| {
        let device = devices[ranks.rank()].clone();
        let kind = StrategyKind::List(Halo::default());
        let place = [ranks.rank(), ranks.size()];
        let plan = Plan::new(kind, [dims; 2], place, BlockRule::AlongX).unwrap();
        let fixed = device.upload_vec(vec![0; plan.fixed.len()]).unwrap();
        let moving = device.upload_vec(vec![0u8; plan.moving.len()]).unwrap();
        let held = Held::new(device, plan, fixed, moving).unwrap();
        let options = ListOptions { chunk: [5, 7, 1], direct, streams: 2, ..Default::default() };
        let mut list = List::new(held, options);
        // Half a turn: all samples are elsewhere but for a column in the halo of one of two ranks, and for the block in the middle of three.
        let rows = [[-1.0, 0.0, 0.0, 23.0], [0.0, -1.0, 0.0, 19.0], [0.0, 0.0, 1.0, 0.0]];
        let map = FixedPointMap::new(&rows).unwrap();
        let bins = MovingBins::new(0, 1, 2).unwrap();
        let rule = JointRule::new(map, dims, 2, bins, Window::Plain);
        let way = |list: &List<D, u8>| {
            let sums = list.sums(&ranks, &rule, None).unwrap();
            assert_eq!((sums.counts()[0], sums.traffic.samples), (480, 480));
            assert_eq!(sums.traffic.messages, [0, 460, 320][ranks.size() - 1]);
            let kept = list.kept.lock().unwrap();
            let kept = kept.as_ref().unwrap();
            let room = Arc::as_ptr(kept.rooms.last().unwrap()) as usize;
            (matches!(kept.way, Way::Direct(_)), room)
        };
        let two = [way(&list), way(&list)];
        list.set_options(ListOptions { streams: 1, ..options });
        [two[0], two[1], way(&list)]
    };
    std::thread::scope(|scope| {
        let ranks = Communicator::local(devices.len());
        let work = &work;
        let threads: Vec<_> = ranks.into_iter().map(|r| scope.spawn(move || work(r))).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    })
}

#[test]
fn messages_take_the_way_that_is_asked_for_and_room_stays() {
    let cpu = Cpu::new(Some(1)).unwrap();
    for ranks in 1..=3 {
        let devices = vec![cpu.clone(); ranks];
        for direct in [true, false] {
            for [first, second, other] in ways(&devices, direct) {
                assert_eq!(first, second, "the room stays");
                assert_eq!([first.0, other.0], [direct && ranks > 1; 2]);
            }
        }
    }
}

/// Emulated, each rank has a device of its own; a real one is shared.
#[test]
#[allow(clippy::print_stderr)] // a test that is skipped says so
fn gpus_read_messages_of_each_other() {
    let open = |_| match std::env::var("VOXALIGN_TEST_DEVICE") {
        Ok(name) if name == "cuda" => Cuda::new(0),
        _ => Cuda::emulated(),
    };
    let devices = match (0..2).map(open).collect::<voxalign_compute::Result<Vec<_>>>() {
        Ok(devices) => devices,
        Err(e) if std::env::var_os("VOXALIGN_REQUIRE_EMULATION").is_none() => {
            return eprintln!("skipped: {e}");
        }
        Err(e) => panic!("the kernels of the GPU cannot be tested: {e}"),
    };
    assert!(ways(&devices, true).iter().flatten().all(|(direct, _)| *direct));
    assert!(!ways(&devices, false).iter().flatten().any(|(direct, _)| *direct));
}
