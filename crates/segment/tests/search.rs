//! All objects and all starts of small images: where the bounds of theorems 1 and 2 hold. What comes out is in `docs/segment-bounds.md`.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod common;

use voxalign_segment::{Bounds, Evolution, Lattice, Limit, Neighbourhood, Options, Speed};

/// Sets of the points of a lattice of at most 32 as the bits of a number.
struct Board {
    lattice: Lattice,
    full: u32,
    /// For each neighbour which points have it, and how far its bit is.
    moves: Vec<(u32, i32)>,
}

impl Board {
    fn new(dims: [usize; 3], kind: Neighbourhood) -> Self {
        let lattice = Lattice::new(dims, kind).unwrap();
        let full = u32::MAX >> (32 - lattice.len());
        let moves = lattice
            .offsets()
            .iter()
            .map(|&o| {
                let has = |p: &usize| lattice.moved(lattice.place(*p), o).is_some();
                let from = (0..lattice.len()).filter(has).fold(0, |m, p| m | 1 << p);
                let by = o[0] + dims[0] as isize * (o[1] + dims[1] as isize * o[2]);
                (from, by as i32)
            })
            .collect();
        Self { lattice, full, moves }
    }

    /// All neighbours of the points of a set.
    fn near(&self, set: u32) -> u32 {
        self.moves.iter().fold(0, |all, &(from, by)| {
            let from = set & from;
            all | if by > 0 { from << by } else { from >> -by }
        })
    }

    /// Iterations from a start to an object.
    fn iterations(&self, object: u32, start: u32) -> usize {
        let (mut set, mut count) = (start, 0);
        loop {
            let grown = set | (self.near(set) & object);
            let next = grown & !(self.near(self.full & !grown) & !object);
            if next == set {
                return if set == object { count } else { usize::MAX };
            }
            set = next;
            count += 1;
        }
    }

    /// The connected parts of a set.
    fn parts(&self, set: u32) -> Vec<u32> {
        let (mut rest, mut parts) = (set, Vec::new());
        while rest != 0 {
            let mut part = rest & rest.wrapping_neg();
            loop {
                let more = part | (self.near(part) & set);
                if more == part {
                    break;
                }
                part = more;
            }
            rest &= !part;
            parts.push(part);
        }
        parts
    }

    /// Whether shortest paths within a part are shortest paths of the lattice (definition 6).
    fn is_convex(&self, part: u32) -> bool {
        (0..self.lattice.len()).filter(|p| part >> p & 1 == 1).all(|p| {
            let (mut within, mut anywhere) = (1u32 << p, 1u32 << p);
            loop {
                let [more, all] =
                    [within | (self.near(within) & part), anywhere | self.near(anywhere)];
                if more != all & part {
                    return false;
                }
                if more == within && all == anywhere {
                    return true;
                }
                (within, anywhere) = (more, all);
            }
        })
    }

    /// The most points of a part, and the most points of a shortest path between two points of one.
    fn largest(&self, set: u32) -> [usize; 2] {
        let mut most = [0; 2];
        for part in self.parts(set) {
            let size = part.count_ones() as usize;
            let place = |p: usize| self.lattice.place(p);
            let points: Vec<usize> =
                (0..self.lattice.len()).filter(|p| part >> p & 1 == 1).collect();
            let far = |&p: &usize| {
                let to = |&q: &usize| {
                    let d = std::array::from_fn(|a| place(p)[a].abs_diff(place(q)[a]));
                    1 + self.lattice.neighbourhood().distance(d)
                };
                points.iter().map(to).max().unwrap_or(0)
            };
            most = [most[0].max(size), most[1].max(points.iter().map(far).max().unwrap_or(0))];
        }
        most
    }

    /// The number of images of a set under reflections (and turns of squares), or none if another of them comes first.
    fn orbit(&self, set: u32) -> Option<u64> {
        let dims = self.lattice.dims();
        let mut images: Vec<u32> = Vec::new();
        for turn in [[0, 1, 2], [1, 0, 2], [0, 2, 1], [2, 1, 0], [1, 2, 0], [2, 0, 1]] {
            if (0..3).any(|a| dims[turn[a]] != dims[a]) {
                continue;
            }
            for flip in 0..8 {
                let image =
                    (0..self.lattice.len()).filter(|p| set >> p & 1 == 1).fold(0, |all, p| {
                        let place = self.lattice.place(p);
                        let to = std::array::from_fn(|a| {
                            let c = place[turn[a]];
                            if flip >> a & 1 == 1 { dims[a] - 1 - c } else { c }
                        });
                        all | 1 << self.lattice.point(to)
                    });
                if image < set {
                    return None;
                }
                images.push(image);
            }
        }
        images.sort_unstable();
        images.dedup();
        Some(images.len() as u64)
    }
}

/// What was found among objects of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Found {
    objects: u64,
    pairs: u64,
    /// Pairs of object and start that need more iterations than theorem 1 says.
    above_size: u64,
    /// The same of theorem 2.
    above_diameter: u64,
    /// The same of the diameter on sides of convex objects and the size on others.
    above_mixed: u64,
    /// The most iterations, and the most beyond the diameter.
    most: usize,
    excess: usize,
}

/// Which sides of an object have convex parts alone.
const KINDS: [&str; 4] = ["neither", "object", "background", "both"];

/// Which objects of an image are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Objects {
    All,
    /// Those of which a side is convex.
    Convex,
    /// Those that are in one part, and what is around them too.
    Whole,
    /// The same, where both sides are convex.
    WholeAndConvex,
}

/// All starts for all such objects.
fn search(dims: [usize; 3], kind: Neighbourhood, objects: Objects) -> [Found; 4] {
    let board = Board::new(dims, kind);
    let sets = 1u64 << board.lattice.len();
    let largest: Vec<[u8; 2]> =
        (0..sets).map(|s| board.largest(s as u32).map(|n| n as u8)).collect();
    let mut found = [Found::default(); 4];
    for object in 0..sets as u32 {
        let Some(orbit) = board.orbit(object) else { continue };
        let sides = [board.parts(object), board.parts(board.full & !object)];
        let convex = [0, 1].map(|s| sides[s].iter().all(|p| board.is_convex(*p)));
        let class = usize::from(convex[0]) + 2 * usize::from(convex[1]);
        let is_whole = sides.iter().all(|s| s.len() == 1);
        let is_wanted = match objects {
            Objects::All => true,
            Objects::Convex => class > 0,
            Objects::Whole => is_whole,
            Objects::WholeAndConvex => is_whole && class == 3,
        };
        if !is_wanted {
            continue;
        }
        let found = &mut found[class];
        found.objects += orbit;
        for start in 1..board.full {
            let away = board.full & !start;
            let is_met =
                sides[0].iter().all(|p| p & start != 0) && sides[1].iter().all(|p| p & away != 0);
            if !is_met {
                continue;
            }
            let [inside, outside] = [start, away].map(|s| largest[s as usize].map(usize::from));
            let count = board.iterations(object, start);
            // What is outside at the start has to be entered where the object is, what is inside to be left where it is not.
            let mixed = outside[usize::from(convex[0])].max(inside[usize::from(convex[1])]);
            let diameter = inside[1].max(outside[1]);
            found.pairs += orbit;
            found.above_size += orbit * u64::from(count > inside[0].max(outside[0]));
            found.above_diameter += orbit * u64::from(count > diameter);
            found.above_mixed += orbit * u64::from(count > mixed);
            found.most = found.most.max(count);
            found.excess = found.excess.max(count.saturating_sub(diameter));
        }
    }
    found
}

fn print(dims: [usize; 3], kind: Neighbourhood, found: &[Found; 4]) {
    for (name, f) in KINDS.iter().zip(found) {
        println!(
            "| {}x{}x{} | {} | {name} | {} | {} | {} | {} | {} | {} | {} |",
            dims[0],
            dims[1],
            dims[2],
            kind.count(),
            f.objects,
            f.pairs,
            f.above_size,
            f.above_diameter,
            f.above_mixed,
            f.most,
            f.excess
        );
    }
}

/// What holds for every image: theorem 1, theorem 2 where both sides are convex, and the mixed bound.
fn check(found: &[Found; 4]) {
    for f in found {
        assert_eq!((f.above_size, f.above_mixed), (0, 0), "{found:?}");
    }
    assert_eq!(found[3].above_diameter, 0, "{found:?}");
}

/// The search counts as the evolution and its bounds do.
#[test]
fn the_search_is_one_of_evolutions() {
    let mut random = common::Random(3);
    for kind in Neighbourhood::ALL {
        let board = Board::new(if kind.is_2d() { [5, 4, 1] } else { [3, 3, 2] }, kind);
        let bits = |set: &[bool]| set.iter().rev().fold(0u32, |all, s| all << 1 | u32::from(*s));
        for _ in 0..200 {
            let object = random.set(&board.lattice);
            let start = random.set(&board.lattice);
            let start = common::repaired(&board.lattice, &object, start, &mut random);
            if start.iter().all(|s| *s == start[0]) {
                continue;
            }
            let speeds: Vec<f32> = object.iter().map(|o| if *o { 1.0 } else { -1.0 }).collect();
            let mut force = Speed::new(&board.lattice, &speeds).unwrap();
            let options = Options { limit: Limit::Iterations(1000), ..Options::default() };
            let evolution = Evolution::run(&board.lattice, &start, &mut force, &options).unwrap();
            assert_eq!(board.iterations(bits(&object), bits(&start)), evolution.iterations);
            let [inside, outside] =
                [bits(&start), board.full & !bits(&start)].map(|s| board.largest(s));
            let bounds = Bounds {
                max_region_size: inside[0].max(outside[0]),
                max_region_diameter: inside[1].max(outside[1]),
            };
            assert_eq!(bounds, evolution.bounds);
            // An object of one part is convex, or some two of its points are farther apart within it.
            let parts = board.parts(bits(&object));
            assert_eq!(parts.len(), {
                let label = common::parts(&board.lattice, &object);
                (0..label.len()).filter(|p| label[*p] == *p && object[*p]).count()
            });
        }
    }
    let four = Board::new([3, 3, 1], Neighbourhood::Four);
    let eight = Board::new([3, 3, 1], Neighbourhood::Eight);
    // A hook, and a diagonal.
    assert!(four.is_convex(0b000_001_111) && !four.is_convex(0b101_101_111));
    assert!(eight.is_convex(0b100_010_001) && !eight.is_convex(0b111_001_111));
}

/// All of 3 x 3 pixels: theorem 2 fails there already where one side alone is convex.
#[test]
fn all_objects_and_starts_of_nine_pixels() {
    for kind in [Neighbourhood::Four, Neighbourhood::Eight] {
        let found = search([3, 3, 1], kind, Objects::All);
        print([3, 3, 1], kind, &found);
        check(&found);
        assert_eq!(found.iter().map(|f| f.objects).sum::<u64>(), 512);
        let fails = found[1].above_diameter + found[2].above_diameter;
        assert!(fails > 0);
    }
    for kind in [Neighbourhood::Six, Neighbourhood::Eighteen, Neighbourhood::TwentySix] {
        check(&search([2, 2, 2], kind, Objects::All));
    }
}

fn search_all(cases: &[([usize; 3], &[Neighbourhood], Objects)]) {
    for &(dims, kinds, objects) in cases {
        for &kind in kinds {
            let found = search(dims, kind, objects);
            print(dims, kind, &found);
            check(&found);
        }
    }
}

const PLANE: [Neighbourhood; 2] = [Neighbourhood::Four, Neighbourhood::Eight];
const VOLUME: [Neighbourhood; 3] =
    [Neighbourhood::Six, Neighbourhood::Eighteen, Neighbourhood::TwentySix];

#[test]
#[ignore = "20 minutes: 5 * 10^10 pairs of objects and starts"]
fn all_objects_and_starts_of_small_images() {
    search_all(&[
        ([3, 3, 1], &PLANE, Objects::All),
        ([4, 3, 1], &PLANE, Objects::All),
        ([5, 3, 1], &PLANE, Objects::All),
        ([4, 4, 1], &PLANE, Objects::All),
        ([2, 2, 2], &VOLUME, Objects::All),
        ([3, 2, 2], &VOLUME, Objects::All),
        ([6, 3, 1], &PLANE, Objects::Convex),
    ]);
}

#[test]
#[ignore = "5 minutes: all starts for objects in one part"]
fn whole_objects_and_starts_of_larger_images() {
    search_all(&[
        ([4, 4, 1], &PLANE, Objects::Whole),
        ([5, 4, 1], &PLANE[..1], Objects::Whole),
        ([5, 4, 1], &PLANE[1..], Objects::WholeAndConvex),
        ([3, 3, 2], &VOLUME[..2], Objects::WholeAndConvex),
    ]);
}
