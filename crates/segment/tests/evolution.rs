//! Evolutions under forces that change.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Random, dice};
use voxalign_segment::{
    ChanVese, EdgeStop, Edges, Ending, Equation, Evolution, Force, GeodesicRegions, Lattice,
    Likelihoods, Limit, MeanCurvature, MeanIntensities, Mixture, Neighbourhood, Options, Partition,
    PartitionOptions, SegmentError, Shape, Smoothing, Speed, Steps, Terms, patchwork, single,
};

/// An image of two intensities with noise is told apart, in the plane and in a volume, from a start that is beside it.
#[test]
fn chan_vese_finds_a_disc_and_a_ball() {
    for (dims, kind) in [
        ([48, 40, 1], Neighbourhood::Four),
        ([48, 40, 1], Neighbourhood::Eight),
        ([24, 20, 16], Neighbourhood::Six),
        ([24, 20, 16], Neighbourhood::TwentySix),
    ] {
        let lattice = Lattice::new(dims, kind).unwrap();
        let middle = dims.map(|d| (d as f64 - 1.0) / 2.0);
        let radius = dims[1] as f64 / 4.0;
        let object = single(&lattice, Shape::Ball, middle, 2.0 * radius).unwrap();
        let mut random = Random(1);
        let values: Vec<f32> = object
            .iter()
            .map(|o| if *o { 3.0 } else { 1.0 } + 0.3 * random.normal() as f32)
            .collect();
        let beside = [middle[0] - 4.0, middle[1], middle[2]];
        let start = single(&lattice, Shape::Ball, beside, radius).unwrap();
        let mut force = ChanVese::new(&lattice, &values, 0.2, [1.0; 2]).unwrap();
        let options = Options { limit: Limit::Iterations(60), sigma: 2.0, ..Options::default() };
        let evolution = Evolution::run(&lattice, &start, &mut force, &options).unwrap();
        assert!(evolution.converged(), "{:?}", evolution.ending);
        let found = dice(&evolution.set, &object);
        assert!(found > 0.97, "{dims:?} {kind:?}: {found}");
        let energies: Vec<f64> = evolution.history.iter().filter_map(|h| h.energy).collect();
        assert_eq!(energies.len(), evolution.iterations + 1);
        assert!(energies[energies.len() - 1] < 0.4 * energies[0], "{energies:?}");
        assert_eq!(
            evolution.history[evolution.iterations].size,
            evolution.set.iter().filter(|s| **s).count()
        );
    }
}

#[test]
fn a_disc_shrinks_by_its_curvature_until_it_is_gone() {
    let lattice = Lattice::new([50, 50, 1], Neighbourhood::Four).unwrap();
    let start = single(&lattice, Shape::Ball, [24.5, 24.5, 0.0], 24.0).unwrap();
    let options = Options { limit: Limit::Iterations(500), sigma: 4.0, ..Options::default() };
    let evolution = Evolution::run(&lattice, &start, &mut MeanCurvature, &options).unwrap();
    assert_eq!(evolution.ending, Ending::Vanished);
    assert!(evolution.history.windows(2).all(|w| w[1].size < w[0].size));
    assert!(!evolution.converged() && evolution.set.iter().all(|s| !s));
}

/// From within, a pressure takes the front to the edge of a square, where it stays.
#[test]
fn edges_hold_a_front() {
    let lattice = Lattice::new([60, 60, 1], Neighbourhood::Four).unwrap();
    let square: Vec<bool> =
        (0..3600).map(|p| (15..45).contains(&(p % 60)) && (15..45).contains(&(p / 60))).collect();
    let values: Vec<f32> = square.iter().map(|s| if *s { 100.0 } else { 0.0 }).collect();
    let stop = EdgeStop::new(&lattice, &values, 1.5, 1.0, [1.0; 3]).unwrap();
    let mut force = Edges::new(stop, 0.4).unwrap();
    let options = Options { limit: Limit::Iterations(100), ..Options::default() };
    let start = single(&lattice, Shape::Ball, [28.0, 31.0, 0.0], 10.0).unwrap();
    let evolution = Evolution::run(&lattice, &start, &mut force, &options).unwrap();
    assert!(evolution.converged(), "{:?}", evolution.ending);
    // At the edge but for a pixel on each side, and rounded corners.
    let all_within = |low: usize, high: usize| {
        (0..3600).all(|p| {
            let [x, y] = [p % 60, p / 60];
            !evolution.set[p] || ((low..high).contains(&x) && (low..high).contains(&y))
        })
    };
    let found = dice(&evolution.set, &square);
    assert!(all_within(14, 46) && found > 0.93, "{found}");
}

/// Points that a speed takes in by themselves are gone after smoothing, and the square beneath stays.
#[test]
fn smoothing_takes_away_what_is_small() {
    let lattice = Lattice::new([40, 40, 1], Neighbourhood::Four).unwrap();
    let square = |p: usize| (10..30).contains(&(p % 40)) && (10..30).contains(&(p / 40));
    let is_speck = |p: usize| (p % 40) % 7 == 3 && (p / 40) % 7 == 3 && !square(p);
    let speeds: Vec<f32> =
        (0..1600).map(|p| if square(p) || is_speck(p) { 1.0 } else { -1.0 }).collect();
    let start: Vec<bool> = (0..1600).map(|p| p % 2 == (p / 40) % 2).collect();
    let mut force = Speed::new(&lattice, &speeds).unwrap();
    let rough = Evolution::run(&lattice, &start, &mut force, &Options::default()).unwrap();
    assert!((0..1600).all(|p| rough.set[p] == (speeds[p] > 0.0)));
    let smoothing = Some(Smoothing { every: 10, iterations: 3, sigma: 1.5 });
    let options = Options { smoothing, ..Options::default() };
    let smooth = Evolution::run(&lattice, &start, &mut force, &options).unwrap();
    assert!(smooth.smoothing_iterations > 0 && smooth.smoothing_iterations <= 3);
    assert!((0..1600).all(|p| !is_speck(p) || !smooth.set[p]));
    let object: Vec<bool> = (0..1600).map(square).collect();
    assert!(dice(&smooth.set, &object) > 0.97);
    let none =
        Options { smoothing: Some(Smoothing { every: 0, iterations: 1, sigma: 1.0 }), ..options };
    assert!(Evolution::run(&lattice, &start, &mut force, &none).is_err());
}

/// A force that turns with the set goes back and forth, and that is said.
#[test]
fn a_set_that_returns_is_said() {
    struct Back(bool);
    impl Force for Back {
        fn update(&mut self, is_inside: &dyn Fn(usize) -> bool) -> Result<(), SegmentError> {
            self.0 = is_inside(2);
            Ok(())
        }
        fn terms(&self, point: usize) -> Terms {
            let speed = if point == 2 && !self.0 { 1.0 } else { -f64::from(u8::from(point == 2)) };
            Terms { speed, ..Terms::default() }
        }
    }
    let lattice = Lattice::new([5, 1, 1], Neighbourhood::Four).unwrap();
    let start = [true, true, false, false, false];
    let options = Options { limit: Limit::Iterations(50), ..Options::default() };
    let evolution = Evolution::run(&lattice, &start, &mut Back(false), &options).unwrap();
    assert_eq!(evolution.ending, Ending::Repeating { period: 2 });
    assert!(evolution.iterations < 6);
    struct Nothing;
    impl Force for Nothing {
        fn terms(&self, _: usize) -> Terms {
            Terms { speed: f64::NAN, ..Terms::default() }
        }
    }
    let error = Evolution::run(&lattice, &start, &mut Nothing, &options).unwrap_err();
    assert!(error.to_string().contains("the force has the value NaN at point 2"), "{error}");
}

/// Forces, starts and scores of another lattice are refused, wherever they are used.
#[test]
fn what_is_of_another_lattice_is_refused() {
    let [small, large] = [4, 5].map(|nx| Lattice::new([nx, 2, 1], Neighbourhood::Four).unwrap());
    let values: Vec<f32> = (0..8).map(|v| v as f32).collect();
    let stop = EdgeStop::new(&small, &values, 1.0, 1.0, [1.0; 3]).unwrap();
    let mixture = Mixture::fit(&values, 1).unwrap();
    let parts = [&mixture, &mixture];
    let mut forces: [Box<dyn Force>; 4] = [
        Box::new(Speed::new(&small, &values).unwrap()),
        Box::new(ChanVese::new(&small, &values, 1.0, [1.0; 2]).unwrap()),
        Box::new(GeodesicRegions::new(&small, &values, parts, stop.clone(), 0.5).unwrap()),
        Box::new(Edges::new(stop.clone(), 0.5).unwrap()),
    ];
    let start: Vec<bool> = (0..10).map(|p| p < 5).collect();
    let options = Options::default();
    let steps = Steps { time: 0.1, redistance: 5, band: None, spacing: [1.0; 3] };
    for force in &mut forces {
        let force = force.as_mut();
        let refused = Err(SegmentError::Length { what: "the force", found: 8, expected: 10 });
        assert_eq!(Evolution::run(&large, &start, force, &options), refused);
        let mut equation = Equation::new(&large, &start, steps).unwrap();
        assert_eq!(equation.advance(force, 1).map(|()| 0), refused.map(|_: Evolution| 0));
        assert!(Evolution::run(&small, &start[1..9], force, &options).is_ok());
        assert!(Evolution::run(&small, &start, force, &options).is_err());
    }
    assert!(
        Speed::new(&large, &values).is_err()
            && ChanVese::new(&large, &values, 1.0, [1.0; 2]).is_err()
    );
    assert!(GeodesicRegions::new(&large, &[0.5; 10], parts, stop.clone(), 0.5).is_err());
    let mut scores = MeanIntensities::new(&small, &values).unwrap();
    let labels = patchwork(&large, 1, 2).unwrap();
    assert!(Partition::run(&large, &labels, &mut scores, &PartitionOptions::default()).is_err());
    let mut scores = Likelihoods::new(&small, &values, vec![mixture; 2]).unwrap();
    assert!(Partition::run(&large, &labels, &mut scores, &PartitionOptions::default()).is_err());
}
