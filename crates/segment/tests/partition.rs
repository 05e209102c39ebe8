//! Several regions at once.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Random, parts};
use proptest::prelude::*;
use voxalign_segment::{
    ChanVese, Evolution, Force, Lattice, Likelihoods, Limit, MeanIntensities, Mixture,
    Neighbourhood, Options, Partition, PartitionOptions, Result, Scores, SegmentError, Terms,
    patchwork,
};

/// Scores that do not change: for each point one a label.
struct Fixed(Vec<Vec<f64>>);

impl Scores for Fixed {
    fn score(&self, point: usize, label: u8) -> f64 {
        self.0[point][usize::from(label)]
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Labels end where their scores are highest, within the bound, whatever the scores and the start.
    #[test]
    fn labels_end_where_they_fit_best_within_the_bound(seed in any::<u64>(), kind in 0usize..5, count in 2u64..5) {
        let kind = Neighbourhood::ALL[kind];
        let mut random = Random(seed);
        let mut side = |most| 2 + random.below(most) as usize;
        let dims = if kind.is_2d() { [side(9), side(7), 1] } else { [side(4), side(3), side(3)] };
        let lattice = Lattice::new(dims, kind).unwrap();
        let best: Vec<u8> = {
            let mut best = vec![0; lattice.len()];
            for label in 1..count {
                let set = random.set(&lattice);
                best.iter_mut().zip(set).filter(|(_, s)| *s).for_each(|(b, _)| *b = label as u8);
            }
            best
        };
        let mut start: Vec<u8> = (0..lattice.len()).map(|_| random.below(count) as u8).collect();
        // One point of each part has its label.
        for label in 0..count as u8 {
            let set: Vec<bool> = best.iter().map(|b| *b == label).collect();
            let number = parts(&lattice, &set);
            for first in (0..lattice.len()).filter(|p| set[*p] && number[*p] == *p) {
                let part: Vec<usize> = (0..lattice.len()).filter(|p| number[*p] == first).collect();
                start[part[random.below(part.len() as u64) as usize]] = label;
            }
        }
        prop_assume!(start.iter().any(|l| *l != start[0]));
        let scores = best.iter().map(|b| {
            let mut row: Vec<f64> = (0..count).map(|_| random.below(1000) as f64).collect();
            row[usize::from(*b)] = 1000.0;
            row
        });
        let mut scores = Fixed(scores.collect());
        let partition = Partition::run(&lattice, &start, &mut scores, &PartitionOptions::default()).unwrap();
        prop_assert!(partition.converged() && partition.labels == best);
        prop_assert!(partition.iterations <= partition.bound);
    }
}

/// Of two labels it is the evolution of one front, with curvature and means that change.
#[test]
fn two_labels_are_one_front() {
    let mut random = Random(4);
    for (dims, kind) in [([30, 24, 1], Neighbourhood::Eight), ([10, 9, 6], Neighbourhood::Six)] {
        let lattice = Lattice::new(dims, kind).unwrap();
        let values: Vec<f32> = (0..lattice.len())
            .map(|p| {
                let [x, y, _] = lattice.place(p);
                f32::from(u8::from(x > 7 && y < 8)) + 0.4 * random.normal() as f32
            })
            .collect();
        // Means of one brightness are told apart in both from the same side.
        let start = patchwork(&lattice, 3, 2).unwrap();
        let set: Vec<bool> = start.iter().map(|l| *l == 1).collect();
        for most in [1, 2, 5, 40] {
            let mut scores = MeanIntensities::new(&lattice, &values).unwrap();
            let options = PartitionOptions {
                iterations: Some(most),
                curvature: 0.3,
                sigma: 1.5,
                ..PartitionOptions::default()
            };
            let partition = Partition::run(&lattice, &start, &mut scores, &options).unwrap();
            let mut force = ChanVese::new(&lattice, &values, 0.3, [1.0; 2]).unwrap();
            let options =
                Options { limit: Limit::Iterations(most), sigma: 1.5, ..Options::default() };
            let evolution = Evolution::run(&lattice, &set, &mut force, &options).unwrap();
            assert_eq!(partition.iterations, evolution.iterations);
            assert!(partition.labels.iter().zip(&evolution.set).all(|(l, s)| (*l == 1) == *s));
            assert_eq!(partition.ending, evolution.ending);
            assert_eq!(partition.bound, evolution.bounds.max_region_size);
            assert!(force.terms(0) != Terms::default());
        }
    }
}

/// Three intensities with noise, from squares of three labels all over the image.
#[test]
fn three_regions_are_told_apart() {
    let lattice = Lattice::new([60, 48, 1], Neighbourhood::Four).unwrap();
    let truth: Vec<u8> = (0..lattice.len())
        .map(|p| {
            let [x, y] = [(p % 60) as f64 - 30.0, (p / 60) as f64 - 24.0];
            u8::from(x.hypot(y) < 20.0) + u8::from((x + 3.0).hypot(y) < 10.0)
        })
        .collect();
    let mut random = Random(9);
    let values: Vec<f32> =
        truth.iter().map(|t| 10.0 * f32::from(*t) + 2.0 * random.normal() as f32).collect();
    let start = patchwork(&lattice, 3, 3).unwrap();
    let all = Mixture::fit(&values, 3).unwrap();
    let mixtures = (0..3).map(|k| all.part(&[k]).unwrap()).collect();
    let mut scores = Likelihoods::new(&lattice, &values, mixtures).unwrap();
    let options = PartitionOptions {
        iterations: Some(60),
        curvature: 4.0,
        sigma: 2.0,
        ..PartitionOptions::default()
    };
    let partition = Partition::run(&lattice, &start, &mut scores, &options).unwrap();
    let wrong = partition.labels.iter().zip(&truth).filter(|(l, t)| l != t).count();
    assert!(partition.converged() && wrong < 20, "{wrong} wrong after {}", partition.iterations);
    struct Nothing;
    impl Scores for Nothing {
        fn update(&mut self, _: &[u8]) -> Result<()> {
            Ok(())
        }
        fn score(&self, _: usize, _: u8) -> f64 {
            f64::NAN
        }
    }
    let error = Partition::run(&lattice, &start, &mut Nothing, &options).unwrap_err();
    assert!(matches!(error, SegmentError::NotFinite { .. }), "{error}");
    let one = vec![1; lattice.len()];
    assert!(Partition::run(&lattice, &one, &mut scores, &options).is_err());
    assert!(patchwork(&lattice, 1, 1).is_err() && patchwork(&lattice, 0, 2).is_err());
    let error = patchwork(&lattice, 1, 257).unwrap_err();
    assert!(error.to_string().contains("at most 256"), "{error}");
}
