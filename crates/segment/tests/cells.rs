//! The operations on whole sets against the lists, and words against the simulated network.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Random, repaired};
use proptest::prelude::*;
use voxalign_segment::cells::cnn::Network;
use voxalign_segment::cells::{CellFront, Machine, Words};
use voxalign_segment::front::{EXTERIOR, INNER, INTERIOR, OUTER};
use voxalign_segment::{Evolution, Front, Lattice, Neighbourhood, Options, Speed};

/// The levels that four sets stand for; each point must be in one of them.
fn levels<M: Machine>(machine: &mut M, front: &CellFront<M::Set>) -> Vec<i8> {
    let sets = [&front.interior, &front.inner, &front.outer, &front.exterior]
        .map(|s| machine.store(s).unwrap());
    (0..sets[0].len())
        .map(|p| {
            let of: Vec<i8> = [INTERIOR, INNER, OUTER, EXTERIOR]
                .into_iter()
                .zip(&sets)
                .filter(|(_, s)| s[p])
                .map(|(l, _)| l)
                .collect();
            assert_eq!(of.len(), 1, "{of:?}");
            of[0]
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Under forces that change at random all four sets are those of the lists after each iteration.
    #[test]
    fn sets_are_those_of_the_lists(seed in any::<u64>(), kind in 0usize..5) {
        let kind = Neighbourhood::ALL[kind];
        let mut random = Random(seed);
        let mut side = |most| 1 + random.below(most) as usize;
        let dims = if kind.is_2d() { [side(140), side(8), 1] } else { [side(70), side(4), 1 + side(3)] };
        let lattice = Lattice::new(dims, kind).unwrap();
        let start = random.set(&lattice);
        prop_assume!(start.iter().any(|s| *s != start[0]));
        let mut words = Words::new(&lattice);
        let mut cells = CellFront::new(&mut words, &start).unwrap();
        let mut lists = Front::new(&lattice, &start).unwrap();
        for _ in 0..5 {
            let signs: Vec<i8> = (0..lattice.len()).map(|_| random.below(3) as i8 - 1).collect();
            let draws = [1, -1].map(|s| signs.iter().map(|f| *f == s).collect::<Vec<bool>>());
            let [draws_in, draws_out] = [&draws[0], &draws[1]].map(|d| words.load(d).unwrap());
            let moved = cells.advance(&mut words, &draws_in, &draws_out).unwrap();
            let switched = lists.advance(&signs).unwrap();
            prop_assert_eq!(moved, switched.inwards + switched.outwards > 0);
            prop_assert!(levels(&mut words, &cells) == lists.levels());
        }
    }

    /// Under a force that does not change the final set and the number of iterations are those of the sequential evolution.
    #[test]
    fn the_end_is_that_of_the_sequential_evolution(seed in any::<u64>(), kind in 0usize..5) {
        let kind = Neighbourhood::ALL[kind];
        let mut random = Random(seed);
        let mut side = |most| 1 + random.below(most) as usize;
        let dims = if kind.is_2d() { [side(70), side(8), 1] } else { [side(20), side(4), 1 + side(3)] };
        let lattice = Lattice::new(dims, kind).unwrap();
        let object = random.set(&lattice);
        let start = random.set(&lattice);
        let start = repaired(&lattice, &object, start, &mut random);
        prop_assume!(start.iter().any(|s| *s != start[0]));
        let speeds: Vec<f32> = object.iter().map(|o| if *o { 1.0 } else { -1.0 }).collect();
        let mut force = Speed::new(&lattice, &speeds).unwrap();
        let evolution = Evolution::run(&lattice, &start, &mut force, &Options::default()).unwrap();
        let mut words = Words::new(&lattice);
        let mut cells = CellFront::new(&mut words, &start).unwrap();
        let away: Vec<bool> = object.iter().map(|o| !o).collect();
        let [draws_in, draws_out] = [&object, &away].map(|d| words.load(d).unwrap());
        let mut iterations = 0;
        while cells.advance(&mut words, &draws_in, &draws_out).unwrap() {
            iterations += 1;
        }
        prop_assert!(cells.set(&mut words).unwrap() == evolution.set);
        prop_assert_eq!(iterations, evolution.iterations);
    }
}

/// The network of analogue cells has the same four sets as the words after each iteration.
#[test]
fn words_are_the_simulated_network() {
    let mut random = Random(21);
    for kind in [Neighbourhood::Four, Neighbourhood::Eight] {
        for dims in [[9, 8, 1], [17, 3, 1], [1, 6, 1]] {
            let lattice = Lattice::new(dims, kind).unwrap();
            let mut words = Words::new(&lattice);
            let mut network = Network::new(&lattice).unwrap();
            let mut start = random.set(&lattice);
            start[0] = true;
            let mut by_words = CellFront::new(&mut words, &start).unwrap();
            let mut by_cells = CellFront::new(&mut network, &start).unwrap();
            for _ in 0..4 {
                let signs: Vec<i8> =
                    (0..lattice.len()).map(|_| random.below(3) as i8 - 1).collect();
                let draws = [1, -1].map(|s| signs.iter().map(|f| *f == s).collect::<Vec<bool>>());
                let [a, b] = [&draws[0], &draws[1]].map(|d| words.load(d).unwrap());
                let [c, d] = [&draws[0], &draws[1]].map(|d| network.load(d).unwrap());
                let moved = by_words.advance(&mut words, &a, &b).unwrap();
                assert_eq!(moved, by_cells.advance(&mut network, &c, &d).unwrap());
                assert!(levels(&mut words, &by_words) == levels(&mut network, &by_cells));
            }
            assert!(network.margin() > 0.8);
        }
    }
}
