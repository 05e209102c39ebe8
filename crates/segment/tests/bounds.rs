//! Bounds on iterations, over random shapes and starts.

mod common;

use common::{Random, repaired};
use proptest::prelude::*;
use voxalign_segment::{
    Bounds, Ending, Evolution, Lattice, Limit, Neighbourhood, Options, Shape, Speed, chessboard,
    single,
};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    /// Theorem 1: whatever the object and the start, the end is the object, within as many iterations as the largest part of the start has points.
    #[test]
    fn evolutions_end_in_the_object_within_the_size_of_the_largest_part(seed in any::<u64>(), kind in 0usize..5) {
        let kind = Neighbourhood::ALL[kind];
        let mut random = Random(seed);
        let mut side = |most| 1 + random.below(most) as usize;
        let dims = if kind.is_2d() { [side(12), side(12), 1] } else { [side(6), side(6), 1 + side(4)] };
        let lattice = Lattice::new(dims, kind).unwrap();
        let object = random.set(&lattice);
        let start = random.set(&lattice);
        let start = repaired(&lattice, &object, start, &mut random);
        let inside = start.iter().filter(|s| **s).count();
        prop_assume!(inside > 0 && inside < start.len());
        let speeds: Vec<f32> = object.iter().map(|o| (if *o { 1.0 } else { -1.0 }) * (1 + random.below(9)) as f32).collect();
        let mut force = Speed::new(&lattice, &speeds).unwrap();
        let evolution = Evolution::run(&lattice, &start, &mut force, &Options::default()).unwrap();
        let bounds = Bounds::of(&lattice, &start).unwrap();
        prop_assert!(evolution.set == object);
        prop_assert!(evolution.iterations <= bounds.max_region_size);
        prop_assert!(evolution.ending != Ending::Limit);
        // One iteration less is not enough: the count is not a matter of how it ends.
        if evolution.iterations > 0 {
            let options = Options { limit: Limit::Iterations(evolution.iterations - 1), ..Options::default() };
            let short = Evolution::run(&lattice, &start, &mut force, &options).unwrap();
            prop_assert!(short.set != object);
            prop_assert_eq!(short.ending, Ending::Limit);
        }
    }
}

/// The bound is reached: a line of one point's width that is entered at its end.
#[test]
fn the_bound_is_reached_by_a_line() {
    let lattice = Lattice::new([9, 1, 1], Neighbourhood::Four).unwrap();
    let mut start = [false; 9];
    start[0] = true;
    let mut force = Speed::new(&lattice, &[1.0; 9]).unwrap();
    let evolution = Evolution::run(&lattice, &start, &mut force, &Options::default()).unwrap();
    assert_eq!((evolution.iterations, evolution.bounds.max_region_size), (8, 8));
    assert_eq!(evolution.ending, Ending::Filled);
}

/// The diameter is no bound where the object alone is convex: the object is the middle one of three rows without its leftmost pixel, and all but the
/// top right pixel is inside at the start. What is outside has to go all the way round.
#[test]
fn the_diameter_is_no_bound_where_the_object_alone_is_convex() {
    for width in [3, 6, 10, 20] {
        let lattice = Lattice::new([width, 3, 1], Neighbourhood::Four).unwrap();
        let is_object = |p: usize| p > width && p < 2 * width;
        let speeds: Vec<f32> =
            (0..3 * width).map(|p| if is_object(p) { 1.0 } else { -1.0 }).collect();
        let start: Vec<bool> = (0..3 * width).map(|p| p != width - 1).collect();
        let mut force = Speed::new(&lattice, &speeds).unwrap();
        let evolution = Evolution::run(&lattice, &start, &mut force, &Options::default()).unwrap();
        assert_eq!(evolution.iterations, 2 * width);
        let bounds = Bounds { max_region_size: 3 * width - 1, max_region_diameter: width + 2 };
        assert_eq!(evolution.bounds, bounds);
    }
}

/// The eight chessboards of table 3.2 and its circle of a radius of 11 pixels: the squares at the corners of the image shrink from two sides only, so
/// that it takes as many iterations as their sides have pixels, at most the bound.
#[test]
fn chessboards_come_to_a_circle_within_their_bounds() {
    let lattice = Lattice::new([128, 128, 1], Neighbourhood::Four).unwrap();
    let circle = single(&lattice, Shape::Ball, [63.5, 63.5, 0.0], 22.0).unwrap();
    let speeds: Vec<f32> = circle.iter().map(|o| if *o { 1.0 } else { -1.0 }).collect();
    let mut force = Speed::new(&lattice, &speeds).unwrap();
    for side in [64, 32, 16, 8, 4, 3, 2, 1] {
        let start = chessboard(&lattice, side).unwrap();
        let evolution = Evolution::run(&lattice, &start, &mut force, &Options::default()).unwrap();
        assert!(evolution.set == circle && evolution.converged());
        assert_eq!(evolution.iterations, side);
        assert!(evolution.iterations <= evolution.bounds.max_region_size);
    }
}
