//! Evolutions on devices against those on the host.

// A check that is skipped says so.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod common;

use common::{Random, dice};
use proptest::prelude::*;
use voxalign_compute::Device;
use voxalign_compute::cpu::Cpu;
use voxalign_compute::cuda::Cuda;
use voxalign_segment::device::{
    DeviceEvolution, Form, Motion, Movement, Speeds, evolve, evolve_watched,
};
use voxalign_segment::{
    ChanVese, EdgeStop, Edges, Ending, Evolution, Force, GeodesicRegions, Lattice, Limit,
    MeanCurvature, Mixture, Neighbourhood, Object, Options, SegmentError, Shape, Smoothing, Speed,
    dense, single,
};

fn cpu(threads: usize) -> Cpu {
    Cpu::new(Some(threads)).unwrap()
}

/// The kernels of the GPU on the host, where there is a compiler.
fn emulated() -> Option<Cuda> {
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

/// Asserts that an evolution by a speed has the sets, the counts and the ending of the host after each iteration.
fn assert_same<D: Device>(
    device: &D,
    lattice: &Lattice,
    start: &[bool],
    speed: &[f32],
    options: &Options,
    form: Form,
) {
    let mut force = Speed::new(lattice, speed).unwrap();
    let mut sets = Vec::new();
    let expected = Evolution::watched(lattice, start, &mut force, options, |front| {
        sets.push(front.set().unwrap());
    })
    .unwrap();
    let mut seen = 0;
    let motion = force.motion().unwrap();
    let found = evolve_watched(device, lattice, start, &motion, options, form, 1, &mut |n, set| {
        assert_eq!(n, seen);
        assert_eq!(set, sets[n], "{form:?}: iteration {n}");
        seen += 1;
        Ok(())
    })
    .unwrap();
    assert_eq!((seen, found.iterations), (sets.len(), expected.iterations));
    assert_equal(&found, &expected, 1e-6);
    // The host looks at several iterations at once where nobody watches.
    assert_eq!(evolve(device, lattice, start, &motion, options, form).unwrap(), found);
}

fn assert_equal(found: &DeviceEvolution, expected: &Evolution, tolerance: f64) {
    assert_eq!(found.ending, expected.ending);
    assert_eq!(found.set, expected.set);
    assert_eq!(found.iterations, expected.iterations);
    assert_eq!(found.smoothing_iterations, expected.smoothing_iterations);
    assert_eq!(found.history.len(), expected.history.len());
    for (f, e) in found.history.iter().zip(&expected.history) {
        assert_eq!((f.size, f.inner, f.outer, f.switched), (e.size, e.inner, e.outer, e.switched));
        match (f.energy, e.energy) {
            (Some(f), Some(e)) => assert!((f - e).abs() <= tolerance * (1.0 + e.abs()), "{f} {e}"),
            (f, e) => assert_eq!(f, e),
        }
    }
}

fn random_speed(random: &mut Random, lattice: &Lattice) -> Vec<f32> {
    let wave = 0.1 + random.below(20) as f64 / 40.0;
    (0..lattice.len())
        .map(|p| {
            let [x, y, z] = lattice.place(p).map(|c| c as f64);
            let value = (wave * x).sin() + (wave * 0.8 * y).cos() + 0.3 * z.sin();
            let noise = 0.2 * random.normal();
            if random.below(9) == 0 { 0.0 } else { (value + noise) as f32 }
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    /// In both forms, on one thread and on several.
    #[test]
    fn static_forces_give_the_sets_of_the_host(seed in any::<u64>(), kind in 0usize..5) {
        let kind = Neighbourhood::ALL[kind];
        let mut random = Random(seed);
        let mut side = |most| 1 + random.below(most) as usize;
        let dims = if kind.is_2d() { [side(140), side(40), 1] } else { [side(70), side(20), 1 + side(12)] };
        let lattice = Lattice::new(dims, kind).unwrap();
        let start = random.set(&lattice);
        prop_assume!(start.iter().any(|s| *s != start[0]));
        let speed = random_speed(&mut random, &lattice);
        let options = Options { limit: Limit::Iterations(random.below(60) as usize), ..Options::default() };
        for form in [Form::Tiles, Form::Words] {
            assert_same(&cpu(1 + seed as usize % 3), &lattice, &start, &speed, &options, form);
        }
    }
}

#[test]
fn static_forces_give_the_same_on_an_emulated_gpu() {
    let Some(device) = emulated() else { return };
    for kind in Neighbourhood::ALL {
        let mut random = Random(7);
        let dims = if kind.is_2d() { [70, 37, 1] } else { [21, 18, 11] };
        let lattice = Lattice::new(dims, kind).unwrap();
        let start = dense(&lattice, Shape::Ball, 3.0, 9.0).unwrap();
        let speed = random_speed(&mut random, &lattice);
        let options = Options { limit: Limit::Bound, ..Options::default() };
        for form in [Form::Tiles, Form::Words] {
            assert_same(&device, &lattice, &start, &speed, &options, form);
        }
    }
}

/// Fronts that vanish, that fill the image, and that come to rest or to a limit at the very last.
#[test]
fn endings_are_those_of_the_host() {
    let lattice = Lattice::new([50, 33, 1], Neighbourhood::Four).unwrap();
    let start = single(&lattice, Shape::Ball, [24.0, 16.0, 0.0], 12.0).unwrap();
    let device = cpu(2);
    for (value, ending) in [(-1.0, Ending::Vanished), (1.0, Ending::Filled), (0.0, Ending::Steady)]
    {
        let speed = vec![value; lattice.len()];
        let mut force = Speed::new(&lattice, &speed).unwrap();
        let all = Options { limit: Limit::Iterations(200), ..Options::default() };
        let full = Evolution::run(&lattice, &start, &mut force, &all).unwrap();
        assert_eq!(full.ending, ending);
        let last = full.iterations;
        for limit in [0, 1, 7, 8, 9, last.saturating_sub(1), last, last + 1] {
            let options = Options { limit: Limit::Iterations(limit), ..all };
            for form in [Form::Tiles, Form::Words] {
                assert_same(&device, &lattice, &start, &speed, &options, form);
            }
        }
    }
}

/// An image of two intensities with noise, and the brighter one.
fn picture(lattice: &Lattice) -> (Vec<f32>, Vec<bool>) {
    let dims = lattice.dims();
    let middle = dims.map(|d| (d as f64 - 1.0) / 2.0);
    let object = single(lattice, Shape::Ball, middle, dims[1] as f64 / 2.0).unwrap();
    let mut random = Random(3);
    let value = |o: &bool| if *o { 3.0 } else { 1.0 } + 0.35 * random.normal() as f32;
    (object.iter().map(value).collect(), object)
}

/// Asserts that an evolution is as good as that of the host, and the same on any number of threads; gives both.
fn assert_alike<F: Force + Movement + Clone>(
    name: &str,
    lattice: &Lattice,
    start: &[bool],
    force: &F,
    options: &Options,
    form: Form,
) -> (DeviceEvolution, Evolution) {
    let motion = force.motion().unwrap();
    let found = evolve(&cpu(1), lattice, start, &motion, options, form).unwrap();
    for threads in [2, 3] {
        let again = evolve(&cpu(threads), lattice, start, &motion, options, form).unwrap();
        assert_eq!(again, found, "{name}: {threads} threads");
    }
    let expected = Evolution::run(lattice, start, &mut force.clone(), options).unwrap();
    let alike = dice(&found.set, &expected.set);
    assert!(alike >= 0.99, "{name}: {alike}");
    let last = |history: &[voxalign_segment::State]| history.last().and_then(|s| s.energy);
    if let (Some(f), Some(e)) = (last(&found.history), last(&expected.history)) {
        assert!((f - e).abs() <= 1e-6 * e.abs(), "{name}: energies {f} and {e}");
    }
    (found, expected)
}

/// Two means without curvature: every sign is that of the host, but for ties, of which there are none here.
#[test]
fn two_means_are_those_of_the_host() {
    for (dims, kind) in
        [([90, 70, 1], Neighbourhood::Four), ([26, 22, 19], Neighbourhood::TwentySix)]
    {
        let lattice = Lattice::new(dims, kind).unwrap();
        let (values, object) = picture(&lattice);
        let start = dense(&lattice, Shape::Ball, 4.0, 8.0).unwrap();
        for of in [Object::AsStarted, Object::Brighter, Object::Darker] {
            let force = ChanVese::new(&lattice, &values, 0.0, [1.0, 1.2]).unwrap().with_object(of);
            let options = Options { limit: Limit::Iterations(40), ..Options::default() };
            for form in [Form::Tiles, Form::Words] {
                let (found, expected) =
                    assert_alike("two means", &lattice, &start, &force, &options, form);
                assert_equal(&found, &expected, 1e-9);
                if of == Object::Brighter {
                    assert!(dice(&found.set, &object) > 0.9);
                }
            }
            let fixed = force.with_means([2.9, 1.1]).unwrap();
            let (found, expected) =
                assert_alike("fixed means", &lattice, &start, &fixed, &options, Form::Words);
            assert_equal(&found, &expected, 1e-9);
        }
    }
}

/// Forces with curvature and edges, and smoothing between iterations.
#[test]
fn forces_with_curvature_end_as_on_the_host() {
    for (dims, kind, sigma) in
        [([90, 70, 1], Neighbourhood::Four, 2.5), ([26, 22, 19], Neighbourhood::Six, 1.5)]
    {
        let lattice = Lattice::new(dims, kind).unwrap();
        let (values, object) = picture(&lattice);
        let middle = dims.map(|d| (d as f64 - 1.0) / 2.0);
        let beside =
            single(&lattice, Shape::Ball, [middle[0] + 3.0, middle[1], middle[2]], 12.0).unwrap();
        let many = dense(&lattice, Shape::Ball, 4.0, 8.0).unwrap();
        let smoothing = Some(Smoothing { every: 3, iterations: 2, sigma });
        let plain = Options { limit: Limit::Iterations(60), sigma, ..Options::default() };
        let smooth = Options { smoothing, ..plain };
        let stop = EdgeStop::new(&lattice, &values, 1.5, 0.5, [1.0; 3]).unwrap();
        let mixture = Mixture::fit(&values, 2).unwrap();
        let parts = [&mixture.part(&[1]).unwrap(), &mixture.part(&[0]).unwrap()];
        let regions = GeodesicRegions::new(&lattice, &values, parts, stop.clone(), 0.4).unwrap();
        let means = ChanVese::new(&lattice, &values, 0.3, [1.0; 2]).unwrap();
        let even = ChanVese::new(&lattice, &values, 0.0, [1.0; 2]).unwrap();
        let edges = Edges::new(stop, 0.3).unwrap();
        let tiles = Form::Tiles;
        let (found, _) = assert_alike("means", &lattice, &beside, &means, &plain, tiles);
        assert!(dice(&found.set, &object) > 0.97);
        assert_alike("regions", &lattice, &many, &regions, &plain, tiles);
        assert_alike("edges", &lattice, &beside, &edges, &plain, tiles);
        for form in [Form::Tiles, Form::Words] {
            let (found, expected) =
                assert_alike("smoothing", &lattice, &many, &even, &smooth, form);
            assert!(found.smoothing_iterations > 0);
            assert_eq!(
                found.history.len(),
                found.iterations + usize::from(!matches!(found.ending, Ending::Repeating { .. }))
            );
            assert!(found.iterations.abs_diff(expected.iterations) <= 6);
        }
        let few = Options { limit: Limit::Iterations(5), ..plain };
        assert_alike("curvature", &lattice, &beside, &MeanCurvature, &few, tiles);
    }
}

/// The emulated GPU has the bits of the CPU, whatever the force.
#[test]
fn devices_have_the_same_bits() {
    let Some(device) = emulated() else { return };
    let lattice = Lattice::new([45, 37, 1], Neighbourhood::Eight).unwrap();
    let (values, _) = picture(&lattice);
    let start = dense(&lattice, Shape::Ball, 4.0, 8.0).unwrap();
    let smoothing = Some(Smoothing { every: 2, iterations: 1, sigma: 2.0 });
    let options =
        Options { limit: Limit::Iterations(7), sigma: 2.0, smoothing, ..Options::default() };
    let stop = EdgeStop::new(&lattice, &values, 1.5, 0.5, [1.0; 3]).unwrap();
    let means = ChanVese::new(&lattice, &values, 0.3, [1.0; 2]).unwrap();
    let edges = Edges::new(stop, 0.3).unwrap();
    for motion in [means.motion().unwrap(), edges.motion().unwrap()] {
        let expected = evolve(&cpu(2), &lattice, &start, &motion, &options, Form::Tiles).unwrap();
        let found = evolve(&device, &lattice, &start, &motion, &options, Form::Tiles).unwrap();
        assert_eq!(found, expected);
    }
}

/// A front that goes back and forth, in noise under a strong curvature, ends as on the host.
#[test]
fn repeats_are_noticed() {
    let lattice = Lattice::new([24, 20, 1], Neighbourhood::Four).unwrap();
    let mut random = Random(6);
    let values: Vec<f32> = (0..lattice.len()).map(|_| random.normal() as f32).collect();
    let start: Vec<bool> = (0..lattice.len()).map(|_| random.below(2) == 0).collect();
    let force = ChanVese::new(&lattice, &values, 4.0, [1.0; 2]).unwrap();
    let force = force.with_object(Object::Brighter);
    let options = Options { limit: Limit::Iterations(100), ..Options::default() };
    let (found, expected) = assert_alike("noise", &lattice, &start, &force, &options, Form::Tiles);
    assert_eq!(expected.ending, Ending::Repeating { period: 2 });
    assert_equal(&found, &expected, 1e-9);
}

/// The sets that are seen are those at every so many iterations.
#[test]
fn sets_are_seen_as_often_as_asked_for() {
    let lattice = Lattice::new([60, 10, 1], Neighbourhood::Four).unwrap();
    let speed = vec![1.0; lattice.len()];
    let force = Speed::new(&lattice, &speed).unwrap();
    let start: Vec<bool> = (0..lattice.len()).map(|p| p % 60 == 0).collect();
    let options = Options { limit: Limit::Iterations(25), ..Options::default() };
    let mut seen = Vec::new();
    let motion = force.motion().unwrap();
    let mut watch = |n: usize, set: &[bool]| {
        seen.push((n, set.iter().filter(|s| **s).count()));
        Ok(())
    };
    evolve_watched(&cpu(1), &lattice, &start, &motion, &options, Form::Tiles, 10, &mut watch)
        .unwrap();
    assert_eq!(seen, [(0, 10), (10, 110), (20, 210)]);
    // Who watches may stop it.
    let mut stop = |n: usize, _: &[bool]| if n < 10 { Ok(()) } else { Err(SegmentError::Stopped) };
    let stopped =
        evolve_watched(&cpu(1), &lattice, &start, &motion, &options, Form::Tiles, 10, &mut stop);
    assert!(matches!(stopped, Err(SegmentError::Stopped)));
}

#[test]
fn what_cannot_be_is_refused() {
    let lattice = Lattice::new([20, 12, 1], Neighbourhood::Four).unwrap();
    let device = cpu(1);
    let start = single(&lattice, Shape::Ball, [9.0, 6.0, 0.0], 6.0).unwrap();
    let usual = Options::default();
    let speed = vec![1.0; lattice.len()];
    let speed = Speed::new(&lattice, &speed).unwrap();
    let force = speed.motion().unwrap();
    let bent = MeanCurvature.motion().unwrap();
    let said = |start: &[bool], motion: &Motion<'_>, options: &Options, form| {
        evolve(&device, &lattice, start, motion, options, form).unwrap_err().to_string()
    };
    let tiles = Form::Tiles;
    assert!(said(&start[1..], &force, &usual, tiles).contains("239 values"));
    assert!(said(&[false; 240], &force, &usual, tiles).contains("empty"));
    assert!(said(&[true; 240], &force, &usual, tiles).contains("the whole image"));
    assert!(said(&start, &bent, &usual, Form::Words).contains("use tiles"));
    let wide = Options { sigma: 11.0, ..usual };
    assert!(said(&start, &bent, &wide, tiles).contains("at most 10.3 points"));
    let none = Options { sigma: 0.0, ..usual };
    assert!(said(&start, &bent, &none, tiles).contains("standard deviation"));
    let smoothing = Some(Smoothing { every: 0, iterations: 1, sigma: 2.0 });
    assert!(said(&start, &force, &Options { smoothing, ..usual }, tiles).contains("at least 1"));
    let short = Motion {
        speed: Speeds::Field { values: vec![1.0; 7].into(), lowers: false },
        curvature: 0.0,
        edges: None,
    };
    assert!(said(&start, &short, &usual, tiles).contains("7 values"));
    let mut values = vec![1.0; 240];
    values[5] = f32::NAN;
    let nothing = Motion {
        speed: Speeds::Field { values: values.into(), lowers: false },
        curvature: 0.0,
        edges: None,
    };
    assert!(said(&start, &nothing, &usual, tiles).contains("at point 5"));
}
