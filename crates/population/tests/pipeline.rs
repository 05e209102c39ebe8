//! The executor: what runs, when, and how it ends.

// A failure in a helper is a failure of the test.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use voxalign_population::PopulationError;
use voxalign_population::stream::{
    Engine, Listener, Mapping, Model, Order, Pipeline, Ring, Stage, Task, Trace, Turn,
};

const ENGINES: [Engine; 5] =
    [Engine::Reader, Engine::Upload, Engine::Compute, Engine::Download, Engine::Writer];

fn pause(millis: f64) {
    std::thread::sleep(Duration::from_secs_f64(millis * 1e-3));
}

fn failure(file: &str) -> PopulationError {
    PopulationError::Input { file: file.into(), what: "is bad".into() }
}

/// Every task once, and none before what it needs.
fn assert_in_order(trace: &Trace, rings: &[Ring], items: usize, parts: &[usize]) {
    let tasks: usize = parts.iter().sum();
    assert_eq!(trace.tasks.len(), tasks * items);
    let find = |stage, item, part| {
        let mut of = trace.tasks.iter();
        *of.find(|t| (t.stage, t.item, t.part) == (stage, item, part)).unwrap()
    };
    for item in 0..items {
        for (stage, &parts_of) in parts.iter().enumerate() {
            let first = find(stage, item, 0);
            if parts_of == 2 {
                assert!(find(stage, item, 1).start >= first.end);
            }
            if stage > 0 {
                assert!(first.start >= find(stage - 1, item, parts[stage - 1] - 1).end);
            }
            for ring in rings.iter().filter(|r| r.first == stage && item >= r.size) {
                let before = item - ring.size + ring.keep;
                assert!(first.start >= find(ring.last, before, parts[ring.last] - 1).end);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// Any stages, any rings, any model: either refused, or all is done in order and no buffer has two
    /// users at once.
    #[test]
    fn buffers_have_one_user(
        present in prop::array::uniform5(any::<bool>()),
        synchronising in prop::array::uniform5(any::<bool>()),
        size in 1usize..5,
        workers in 1usize..4,
        items in 0usize..12,
        model in prop::sample::select(Model::all()),
        micros in prop::array::uniform5(0u64..300),
    ) {
        let used: Vec<usize> = (0..5).filter(|&i| present[i]).collect();
        prop_assume!(!used.is_empty());
        let last = used.len() - 1;
        let ring = Ring { first: 0, last, size, keep: 0 };
        let users: Vec<AtomicUsize> = (0..size).map(|_| AtomicUsize::new(usize::MAX)).collect();
        let clash = AtomicBool::new(false);
        let mut parts = Vec::new();
        let mut stages = Vec::new();
        for (place, &i) in used.iter().enumerate() {
            let (users, clash) = (&users, &clash);
            let work = move |t: Turn, begins: bool, ends: bool| {
                let user = &users[t.item % size];
                let expected = if begins && place == 0 { usize::MAX } else { t.item };
                if user.swap(t.item, Ordering::SeqCst) != expected {
                    clash.store(true, Ordering::SeqCst);
                }
                std::thread::sleep(Duration::from_micros(micros[i]));
                if ends && place == last && user.swap(usize::MAX, Ordering::SeqCst) != t.item {
                    clash.store(true, Ordering::SeqCst);
                }
                Ok(())
            };
            let name = ENGINES[i].name();
            parts.push(if synchronising[i] { 2 } else { 1 });
            stages.push(if synchronising[i] {
                let (before, after) =
                    (move |t| work(t, true, false), move |t| work(t, false, true));
                Stage::synchronising(name, ENGINES[i], before, after)
            } else {
                Stage::new(name, ENGINES[i], move |t| work(t, true, true)).with_workers(workers)
            });
        }
        let pipeline = Pipeline::new(stages, vec![ring]).unwrap();
        match pipeline.run(0..items, model, &()) {
            Ok(trace) => {
                assert_in_order(&trace, &[ring], items, &parts);
                prop_assert!(!clash.load(Ordering::SeqCst), "two users of a buffer");
            }
            // A ring that is large enough is never refused.
            Err(e) => {
                let implicit = matches!(model, Model::Implicit { .. });
                let enough = if implicit { items } else { used.len() + workers };
                prop_assert!(size < enough, "{e}");
                prop_assert!(matches!(e, PopulationError::Option { .. }), "{e}");
            }
        }
    }
}

/// Upload, execution in two parts with a synchronisation or in one, download.
fn three<'a>(times: [f64; 3], synchronise: Option<f64>, size: usize) -> Pipeline<'a> {
    let [u, e, d] = times;
    // An engine does one thing at a time, whatever queues it is fed from.
    let engines: [Arc<Mutex<()>>; 3] = Default::default();
    let wait = |ms: f64, engine: usize| {
        let engine = Arc::clone(&engines[engine]);
        move |_: Turn| -> Result<(), PopulationError> {
            let _one = engine.lock().unwrap();
            pause(ms);
            Ok(())
        }
    };
    let execute = match synchronise {
        Some(part) => Stage::synchronising(
            "execute",
            Engine::Compute,
            wait(e * part, 1),
            wait(e * (1.0 - part), 1),
        ),
        None => Stage::new("execute", Engine::Compute, wait(e, 1)),
    };
    let stages = vec![
        Stage::new("upload", Engine::Upload, wait(u, 0)),
        execute,
        Stage::new("download", Engine::Download, wait(d, 2)),
    ];
    Pipeline::new(stages, vec![Ring { first: 0, last: 2, size, keep: 0 }]).unwrap()
}

fn predicted(times: [f64; 3], synchronise: Option<f64>, items: usize, model: Model) -> f64 {
    let size = if matches!(model, Model::Implicit { .. }) { items } else { 3 };
    let [u, e, d] = times;
    let part = synchronise.unwrap_or(1.0);
    let seconds = [[u, 0.0], [e * part, e * (1.0 - part)], [d, 0.0]];
    three(times, synchronise, size).predict(0..items, model, &seconds).unwrap().wall()
}

/// Without synchronisation all models but the synchronous are near the bound `n max(T)` (section 4.4);
/// the guess `UE_D` or `U_ED` is so as far as it is right.
#[test]
fn models_without_synchronisation() {
    let n = 40;
    for times in [[2.0f64, 5.0, 3.0], [5.0, 2.0, 1.0], [1.0, 1.0, 4.0], [3.0, 3.0, 3.0]] {
        let [u, e, d] = times;
        let bound = n as f64 * u.max(e).max(d);
        let all = u + e + d;
        let wall = |model| predicted(times, None, n, model);
        assert_eq!(wall(Model::Synchronous), n as f64 * all);
        for order in Order::ALL {
            assert!(wall(Model::HardwareIndependent(order)) <= bound + all, "{order:?} {times:?}");
        }
        assert!(wall(Model::Implicit { streams: None }) <= bound + all);
        assert!(wall(Model::HardwareAware(Mapping::U_E_D)) <= bound + all);
        let shared = n as f64 * u.max(e + d);
        let aware = wall(Model::HardwareAware(Mapping::U_ED));
        assert!((shared..=shared + all).contains(&aware), "{times:?}: {aware}");
        let shared = n as f64 * d.max(u + e);
        let aware = wall(Model::HardwareAware(Mapping::UE_D));
        assert!((shared..=shared + all).contains(&aware), "{times:?}: {aware}");
    }
}

/// With a synchronisation in the execution (section 4.7.2): the implicit model is as slow as the
/// synchronous one, no order is the best everywhere, and the best order hides what can be hidden.
#[test]
fn models_with_synchronisation() {
    let n = 40;
    let times = [3.0, 6.0, 3.0];
    let mut winners = std::collections::BTreeSet::new();
    for tenth in 1..10 {
        let part = f64::from(tenth) / 10.0;
        let wall = |model| predicted(times, Some(part), n, model);
        let synchronous = wall(Model::Synchronous);
        let implicit = wall(Model::Implicit { streams: None });
        assert!(implicit >= 0.95 * synchronous, "{part}: {implicit} {synchronous}");
        let walls = Order::ALL.map(|o| (wall(Model::HardwareIndependent(o)), o.name()));
        let best = walls.iter().fold(f64::INFINITY, |a, w| a.min(w.0));
        for mapping in [Mapping::U_ED, Mapping::UE_D] {
            assert!(best <= wall(Model::HardwareAware(mapping)) + 1e-9, "{part} {mapping:?}");
        }
        assert!(best < 0.85 * synchronous, "{part}: {walls:?}");
        winners.extend(walls.iter().filter(|w| w.0 <= best * 1.001).map(|w| (tenth, w.1)));
    }
    let everywhere = |o: &Order| (1..10).all(|t| winners.contains(&(t, o.name())));
    let late = winners.contains(&(9, "DUE")) || winners.contains(&(9, "UDE"));
    let early = winners.contains(&(1, "EDU")) || winners.contains(&(1, "EUD"));
    assert!(late && early, "{winners:?} {}", Order::ALL.iter().any(everywhere));
}

/// With one unit for copies the independent model is as fast as the aware one (figure 4.8).
#[test]
fn one_copy_unit() {
    let n = 50;
    let seconds = [[2.0, 0.0], [5.0, 0.0], [2.5, 0.0]];
    let pipeline = three([2.0, 5.0, 2.5], None, 3);
    let wall = |model| pipeline.predict_with_one_copy_unit(0..n, model, &seconds).unwrap().wall();
    let bound = n as f64 * 5.0;
    let independent = wall(Model::default());
    assert!((bound..=bound + 9.5).contains(&independent), "{independent}");
    assert!(wall(Model::HardwareAware(Mapping::U_ED)) > 1.2 * independent);
}

/// The number of executions during which another stage was at work.
fn hidden(trace: &Trace) -> usize {
    let executions = trace.tasks.iter().filter(|t| t.stage == 1 && t.part == 0);
    let beside =
        |t: &&Task| trace.tasks.iter().any(|o| o.stage != 1 && o.start < t.end && t.start < o.end);
    executions.filter(beside).count()
}

#[test]
fn a_run_is_as_predicted() {
    let (n, times) = (16, [6.0, 12.0, 6.0]);
    let wall = |model: Model, part| {
        let size = if matches!(model, Model::Implicit { .. }) { n } else { 3 };
        three(times, part, size).run(0..n, model, &()).unwrap()
    };
    let independent = wall(Model::default(), None);
    let synchronous = wall(Model::Synchronous, None);
    assert!(synchronous.wall() >= synchronous.busy(0) + synchronous.busy(1));
    assert!(independent.wall() >= independent.bound());
    assert!(independent.bound() >= n as f64 * 0.012);
    // 16 (6 + 12 + 6) ms against 16 * 12 + 12 ms, where nothing else wants the processors.
    assert_eq!(hidden(&synchronous), 0);
    assert!(hidden(&independent) > n / 2, "{}", hidden(&independent));
    let implicit = wall(Model::Implicit { streams: None }, Some(0.5));
    let best = wall(Model::HardwareIndependent(Order::DUE), Some(0.5));
    println!("hidden: {} of {n} and {} of {n}", hidden(&implicit), hidden(&best));
    assert!(hidden(&best) > n / 2 && hidden(&best) > hidden(&implicit));
    let back: Trace = serde_json::from_str(&serde_json::to_string(&best).unwrap()).unwrap();
    assert_eq!((back.queues.len(), back.tasks.len()), (best.queues.len(), best.tasks.len()));
}

#[test]
fn the_order_is_measured() {
    let times = [4.0, 8.0, 4.0];
    for (n, part) in [(12, 0.9), (110, 0.9), (12, 0.1)] {
        let pipeline = three(times, Some(part), 3);
        let (order, trace) = pipeline.run_measured(n, &()).unwrap();
        let done: std::collections::BTreeSet<_> =
            trace.tasks.iter().map(|t| (t.stage, t.item, t.part)).collect();
        assert_eq!((done.len(), trace.tasks.len()), (4 * n, 4 * n));
        // By the times that were found, whatever else the machine did meanwhile.
        let span = |items: std::ops::Range<usize>| {
            let tasks = trace.tasks.iter().filter(|t| items.contains(&t.item));
            let ends = |(a, b): (f64, f64), t: &Task| (a.min(t.start), b.max(t.end));
            let (start, end) = tasks.fold((f64::INFINITY, 0.0), ends);
            end - start
        };
        let walls = if n < 108 {
            let least = |stage, part| {
                let of = trace.tasks.iter().filter(|t| (t.stage, t.part) == (stage, part));
                let of = of.filter(|t| t.item < 2).map(|t| t.end - t.start);
                of.fold(f64::INFINITY, f64::min)
            };
            let seconds = [[least(0, 0), 0.0], [least(1, 0), least(1, 1)], [least(2, 0), 0.0]];
            let wall = |o| pipeline.predict(0..n, Model::HardwareIndependent(o), &seconds);
            Order::ALL.map(|o| wall(o).unwrap().wall())
        } else {
            let mut tried = 0..6;
            Order::ALL.map(|_| {
                let seconds = span(tried.clone());
                tried = tried.end..tried.end + 6;
                seconds
            })
        };
        let best = walls.into_iter().fold(f64::INFINITY, f64::min);
        let chosen = Order::ALL.iter().position(|o| *o == order).unwrap();
        assert!(walls[chosen] <= 1.12 * best, "{n} {part} {order:?} {walls:?}");
    }
    // Nothing to choose.
    let (order, trace) = three([1.0; 3], None, 3).run_measured(5, &()).unwrap();
    assert_eq!((order, trace.tasks.len()), (Order::UED, 15));
}

#[test]
fn the_first_error_ends_the_run() {
    for model in Model::all() {
        for synchronise in [false, true] {
            let started = AtomicUsize::new(0);
            let ended = AtomicUsize::new(0);
            let execute = |t: Turn| {
                started.fetch_add(1, Ordering::SeqCst);
                pause(1.0);
                ended.fetch_add(1, Ordering::SeqCst);
                if t.item == 3 { Err(failure("three")) } else { Ok(()) }
            };
            let compute = if synchronise {
                Stage::synchronising("execute", Engine::Compute, execute, |_| Ok(()))
            } else {
                Stage::new("execute", Engine::Compute, execute)
            };
            let stages = vec![
                Stage::new("read", Engine::Reader, |t| {
                    if t.item == 5 { Err(failure("five")) } else { Ok(()) }
                })
                .with_workers(3),
                compute,
                Stage::new("write", Engine::Writer, |_| Ok(())),
            ];
            let rings = vec![Ring { first: 0, last: 2, size: 100, keep: 0 }];
            let result = Pipeline::new(stages, rings).unwrap().run(0..100, model, &());
            let said = result.unwrap_err().to_string();
            // Item 5 may fail in the reader before item 3 is computed; then 3 is not begun.
            assert!(said == "three: is bad" || said == "five: is bad", "{model}: {said}");
            if model == Model::Synchronous {
                assert_eq!(said, "three: is bad");
            }
            assert_eq!(started.load(Ordering::SeqCst), ended.load(Ordering::SeqCst));
            assert!(started.load(Ordering::SeqCst) < 20);
        }
    }
}

/// Of errors that happen at once that of the first item is told.
#[test]
fn the_first_item_is_told() {
    let stages = vec![
        Stage::new("read", Engine::Reader, |t| {
            pause(if t.item == 0 { 60.0 } else { 5.0 });
            Err(failure(&format!("item {}", t.item)))
        })
        .with_workers(4),
    ];
    let result = Pipeline::new(stages, Vec::new()).unwrap().run(0..50, Model::default(), &());
    assert_eq!(result.unwrap_err().to_string(), "item 0: is bad");
}

#[test]
fn a_panic_is_not_lost() {
    for model in Model::all() {
        let stages = vec![
            Stage::new("upload", Engine::Upload, |_| Ok(())),
            Stage::new("execute", Engine::Compute, |t| {
                assert!(t.item != 4, "the sky fell");
                Ok(())
            }),
        ];
        let rings = vec![Ring { first: 0, last: 1, size: 20, keep: 0 }];
        let pipeline = Pipeline::new(stages, rings).unwrap();
        let run = catch_unwind(AssertUnwindSafe(|| pipeline.run(0..20, model, &())));
        let payload = run.err().unwrap();
        assert_eq!(payload.downcast_ref::<&str>(), Some(&"the sky fell"), "{model}");
    }
}

struct StopsAfter(usize, AtomicUsize);

impl Listener for StopsAfter {
    fn ended(&self, done: usize, count: usize) {
        assert!(done <= count);
        self.1.fetch_max(done, Ordering::SeqCst);
    }
    fn stop(&self) -> bool {
        self.1.load(Ordering::SeqCst) >= self.0
    }
}

#[test]
fn a_run_can_be_stopped() {
    for model in Model::all() {
        if matches!(model, Model::Implicit { .. }) {
            continue; // all uploads are over before the first item is done
        }
        let listener = StopsAfter(5, AtomicUsize::new(0));
        let result = three([0.2, 0.5, 0.2], None, 3).run(0..500, model, &listener);
        assert!(matches!(result, Err(PopulationError::Stopped)), "{model}");
        assert!((5..12).contains(&listener.1.load(Ordering::SeqCst)), "{model}");
    }
}

/// What cannot run is refused, with what would help.
#[test]
fn rings_that_are_too_small() {
    let implicit = Model::Implicit { streams: None };
    let said = three([0.0; 3], None, 3).run(0..10, implicit, &()).unwrap_err().to_string();
    assert!(said.contains("10 images at once") && said.contains("3 buffers"), "{said}");
    assert!(three([0.0; 3], None, 10).run(0..10, implicit, &()).is_ok());
    // The upload of the next item waits for the download of this one, which is asked for after the
    // synchronisation that waits for the upload.
    let model = Model::HardwareIndependent(Order::UED);
    let said = three([0.0; 3], Some(0.5), 1).run(0..10, model, &()).unwrap_err().to_string();
    assert!(said.contains("forever") && said.contains("larger rings"), "{said}");
    assert!(three([0.0; 3], Some(0.5), 1).run(0..10, Model::Synchronous, &()).is_ok());
    let bad = |ring| Pipeline::new(vec![Stage::new("a", Engine::Compute, |_| Ok(()))], vec![ring]);
    assert!(bad(Ring { first: 0, last: 1, size: 1, keep: 0 }).is_err());
    assert!(bad(Ring { first: 0, last: 0, size: 1, keep: 1 }).is_err());
    assert!(bad(Ring { first: 0, last: 0, size: 2, keep: 1 }).is_ok());
    assert!(Pipeline::new(Vec::new(), Vec::new()).is_err());
}

/// Several readers share the work of unpacking.
#[test]
fn readers_work_beside_each_other() {
    let run = |workers| {
        let stages = vec![
            Stage::new("read", Engine::Reader, |_| {
                pause(10.0);
                Ok(())
            })
            .with_workers(workers),
            Stage::new("execute", Engine::Compute, |_| Ok(())),
        ];
        let rings = vec![Ring { first: 0, last: 1, size: 6, keep: 0 }];
        let trace =
            Pipeline::new(stages, rings).unwrap().run(0..20, Model::default(), &()).unwrap();
        assert!(trace.wall() >= trace.bound());
        trace.wall()
    };
    let (one, four) = (run(1), run(4));
    assert!(four < 0.5 * one, "{four} {one}");
}
