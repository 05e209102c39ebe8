//! Where a front begins: one shape, many small ones all over the image, a chessboard, and these within a mask.
//!
//! The more and the smaller the parts of a start are, the fewer iterations can be needed ([`Bounds`](crate::Bounds)).
//!
//! ```
//! use voxalign_segment::{Bounds, Lattice, Neighbourhood, Shape, chessboard, dense};
//!
//! # fn main() -> Result<(), voxalign_segment::SegmentError> {
//! let lattice = Lattice::new([64, 64, 1], Neighbourhood::Four)?;
//! // Balls of 4 pixels, 8 pixels apart; what is between them is one part.
//! let balls = dense(&lattice, Shape::Ball, 4.0, 8.0)?;
//! assert!(Bounds::of(&lattice, &balls)?.max_region_size > 3000);
//! // Squares of 4 pixels that touch at corners alone.
//! assert_eq!(Bounds::of(&lattice, &chessboard(&lattice, 4)?)?.max_region_size, 16);
//! # Ok(())
//! # }
//! ```

use crate::error::{Result, SegmentError, above, same_length};
use crate::lattice::Lattice;
use voxalign_image::memory;

/// What a start is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Circles in the plane, balls in a volume.
    Ball,
    /// Squares in the plane, cubes in a volume.
    Box,
}

impl Shape {
    /// Whether a point at this distance from the centre is inside, in a shape of a diameter or side.
    fn has(self, from: [f64; 3], size: f64) -> bool {
        let half = size / 2.0;
        match self {
            Self::Ball => from.iter().map(|c| c * c).sum::<f64>() <= half * half,
            Self::Box => from.iter().all(|c| (-half..half).contains(c)),
        }
    }
}

/// One shape: its centre, in points counted from 0, and its diameter or side in points.
///
/// # Errors
/// [`SegmentError::Parameter`] for a size that is not above 0, or a centre that is not a number, [`SegmentError::OutOfMemory`].
pub fn single(lattice: &Lattice, shape: Shape, centre: [f64; 3], size: f64) -> Result<Vec<bool>> {
    single_of(lattice, shape, centre, [size; 3])
}

/// The same with a diameter or side for each axis, in points: a ball of an image whose points are not equally far apart along all axes. That
/// across an image of one plane is not looked at.
///
/// # Errors
/// As [`single`].
pub fn single_of(
    lattice: &Lattice,
    shape: Shape,
    centre: [f64; 3],
    sizes: [f64; 3],
) -> Result<Vec<bool>> {
    for size in &sizes[..lattice.dimension()] {
        above("the size of the shape", *size, 0.0, "give a number of points above 0")?;
    }
    for value in centre {
        if !value.is_finite() {
            let (name, remedy) = ("the centre of the shape", "give numbers of points");
            return Err(SegmentError::Parameter { name, value, remedy });
        }
    }
    let is_inside = |point| {
        let place = lattice.place(point);
        // An image of one plane has no extent across it. Lengths are brought to those of the first axis.
        let of = |a: usize| match lattice.is_2d() && a == 2 {
            true => 0.0,
            false => (place[a] as f64 - centre[a]) * (sizes[0] / sizes[a]),
        };
        shape.has(std::array::from_fn(of), sizes[0])
    };
    Ok(memory::collected((0..lattice.len()).map(is_inside))?)
}

/// Shapes of a diameter or side in points all over the lattice, so many points apart. Their pattern is symmetrical about the middle of the lattice
/// but for what it takes that shapes of an odd size have a point at their centre, those of an even size one between points, and are all the same.
///
/// # Errors
/// [`SegmentError::Parameter`] for a size that is not above 0, or a distance below 1, [`SegmentError::OutOfMemory`].
pub fn dense(lattice: &Lattice, shape: Shape, size: f64, spacing: f64) -> Result<Vec<bool>> {
    above("the size of the shapes", size, 0.0, "give a number of points above 0")?;
    above(
        "the distance of the shapes",
        spacing,
        1.0 - f64::EPSILON,
        "give a number of points of at least 1",
    )?;
    let is_even = size.round() % 2.0 == 0.0;
    // Along an axis, from each point to the centre of the shapes that are nearest before and behind it.
    let nearest = |axis: usize, at: usize| {
        let points = lattice.dims()[axis] as f64;
        let shapes = (points / spacing).ceil();
        let first = (points - 1.0) / 2.0 - (shapes - 1.0) / 2.0 * spacing;
        let near = ((at as f64 - first) / spacing).floor();
        [near, near + 1.0].map(|k| {
            let centre = first + k.clamp(0.0, shapes - 1.0) * spacing;
            let snapped = if is_even { centre.floor() + 0.5 } else { (centre - 0.25).round() };
            at as f64 - snapped
        })
    };
    let axes: [Vec<[f64; 2]>; 3] = std::array::from_fn(|axis| match (axis, lattice.is_2d()) {
        (2, true) => vec![[0.0; 2]],
        _ => (0..lattice.dims()[axis]).map(|at| nearest(axis, at)).collect(),
    });
    let is_inside = |point| {
        let [x, y, z] = lattice.place(point);
        (0..8).any(|k| {
            shape.has([axes[0][x][k & 1], axes[1][y][k >> 1 & 1], axes[2][z][k >> 2]], size)
        })
    };
    Ok(memory::collected((0..lattice.len()).map(is_inside))?)
}

/// A chessboard of squares (cubes) of a side in points, the first of which is inside. By 4 or 6 neighbours no two squares are connected, so that
/// no start of squares of that side has a lower bound.
///
/// # Errors
/// [`SegmentError::Parameter`] for a side of 0, [`SegmentError::OutOfMemory`].
pub fn chessboard(lattice: &Lattice, side: usize) -> Result<Vec<bool>> {
    above("the side of the squares", side as f64, 0.0, "give a number of points above 0")?;
    let is_inside = |point| {
        let sum: usize = lattice.place(point).into_iter().map(|c| c / side).sum();
        sum.is_multiple_of(2)
    };
    Ok(memory::collected((0..lattice.len()).map(is_inside))?)
}

/// A start whose pattern is moved by so many points towards the first one along each axis: `make` gives the start of a lattice that is larger by
/// `period` points, after which the pattern repeats, and that is cut.
///
/// # Errors
/// Of `make`; [`SegmentError::Dims`], [`SegmentError::Length`], [`SegmentError::OutOfMemory`].
pub fn shifted<T: Copy>(
    lattice: &Lattice,
    period: usize,
    by: usize,
    make: impl Fn(&Lattice) -> Result<Vec<T>>,
) -> Result<Vec<T>> {
    let axes = lattice.dimension();
    let dims = lattice.dims();
    let grown = std::array::from_fn(|a| match a < axes {
        true => dims[a].saturating_add(period),
        false => dims[a],
    });
    let large = Lattice::new(grown, lattice.neighbourhood())?;
    let all = make(&large)?;
    same_length("the start", all.len(), large.len())?;
    let by = by.min(period);
    let of = |point| {
        let place = lattice.place(point);
        all[large.point(std::array::from_fn(|a| if a < axes { place[a] + by } else { place[a] }))]
    };
    Ok(memory::collected((0..lattice.len()).map(of))?)
}

/// What of a start is within a mask that is known before (figure 3.4c).
///
/// # Errors
/// [`SegmentError::Length`], [`SegmentError::OutOfMemory`].
pub fn within(start: &[bool], mask: &[bool]) -> Result<Vec<bool>> {
    same_length("the mask", mask.len(), start.len())?;
    Ok(memory::collected(start.iter().zip(mask).map(|(s, m)| *s && *m))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounds::{Bounds, parts};
    use crate::lattice::Neighbourhood;

    fn picture(lattice: &Lattice, set: &[bool]) -> Vec<String> {
        let row = |r: &[bool]| r.iter().map(|s| if *s { '#' } else { '.' }).collect();
        set.chunks(lattice.dims()[0]).map(row).collect()
    }

    #[test]
    fn shapes_are_as_drawn() {
        let lattice = Lattice::new([9, 8, 1], Neighbourhood::Four).unwrap();
        let boxes = dense(&lattice, Shape::Box, 2.0, 4.0).unwrap();
        let expected = [
            ".........",
            "##..##..#",
            "##..##..#",
            ".........",
            ".........",
            "##..##..#",
            "##..##..#",
            ".........",
        ];
        assert_eq!(picture(&lattice, &boxes), expected);
        let ball = single(&lattice, Shape::Ball, [4.0, 3.0, 7.0], 4.0).unwrap();
        let expected = [
            ".........",
            "....#....",
            "...###...",
            "..#####..",
            "...###...",
            "....#....",
            ".........",
            ".........",
        ];
        assert_eq!(picture(&lattice, &ball), expected);
        let both = within(&boxes, &ball).unwrap();
        assert_eq!(both.iter().filter(|s| **s).count(), 4);
    }

    /// The 25 circles of section 3.9: all alike, 40 pixels apart.
    #[test]
    fn twenty_five_circles_are_alike() {
        let lattice = Lattice::new([200, 200, 1], Neighbourhood::Four).unwrap();
        let set = dense(&lattice, Shape::Ball, 27.0, 40.0).unwrap();
        let parts = parts(&lattice, &set).unwrap();
        let circles: Vec<_> = parts.iter().filter(|p| p.inside).collect();
        assert_eq!(circles.len(), 25);
        assert!(circles.iter().all(|c| c.size == circles[0].size));
        let area = std::f64::consts::PI * 13.5f64.powi(2);
        assert!((circles[0].size as f64 / area - 1.0).abs() < 0.02, "{}", circles[0].size);
        let step = lattice.place(circles[6].first)[0] - lattice.place(circles[5].first)[0];
        assert_eq!(step, 40);
    }

    /// The bounds of table 3.2: squares of one side of a chessboard of 128 x 128 pixels.
    #[test]
    fn chessboards_have_the_bounds_of_the_source() {
        let lattice = Lattice::new([128, 128, 1], Neighbourhood::Four).unwrap();
        for (side, size, diameter) in [
            (64, 64 * 64, 127),
            (32, 32 * 32, 63),
            (16, 256, 31),
            (8, 64, 15),
            (4, 16, 7),
            (3, 9, 5),
            (2, 4, 3),
            (1, 1, 1),
        ] {
            let bounds = Bounds::of(&lattice, &chessboard(&lattice, side).unwrap()).unwrap();
            assert_eq!((bounds.max_region_size, bounds.max_region_diameter), (size, diameter));
        }
        let cubes = Lattice::new([8, 8, 8], Neighbourhood::Six).unwrap();
        let bounds = Bounds::of(&cubes, &chessboard(&cubes, 2).unwrap()).unwrap();
        assert_eq!((bounds.max_region_size, bounds.max_region_diameter), (8, 4));
    }

    #[test]
    fn patterns_are_moved() {
        let lattice = Lattice::new([9, 8, 1], Neighbourhood::Four).unwrap();
        let board = |l: &Lattice| chessboard(l, 2);
        let moved = shifted(&lattice, 4, 1, board).unwrap();
        let at = |set: &[bool], x, y| set[lattice.point([x, y, 0])];
        let original = board(&lattice).unwrap();
        for (x, y) in (0..8).flat_map(|x| (0..7).map(move |y| (x, y))) {
            assert_eq!(at(&moved, x, y), at(&original, x + 1, y + 1));
        }
        // Shapes of any number, as they lie symmetrically in the larger lattice.
        let balls = |l: &Lattice| dense(l, Shape::Box, 2.0, 4.0);
        let (original, moved) = (balls(&lattice).unwrap(), shifted(&lattice, 4, 2, balls).unwrap());
        for (x, y) in (0..7).flat_map(|x| (0..6).map(move |y| (x, y))) {
            assert_eq!(at(&moved, x, y), at(&original, x + 2, y + 2), "{x} {y}");
        }
    }

    #[test]
    fn sizes_may_differ_along_axes() {
        let lattice = Lattice::new([21, 21, 11], Neighbourhood::Six).unwrap();
        let centre = [10.0, 10.0, 5.0];
        let ball = single_of(&lattice, Shape::Ball, centre, [16.0, 16.0, 8.0]).unwrap();
        let is = |x, y, z| ball[lattice.point([x, y, z])];
        assert!(is(18, 10, 5) && !is(19, 10, 5) && is(10, 10, 9) && !is(10, 10, 10));
        assert!(single_of(&lattice, Shape::Ball, centre, [16.0, 16.0, 0.0]).is_err());
        let flat = Lattice::new([9, 9, 1], Neighbourhood::Four).unwrap();
        assert!(single_of(&flat, Shape::Box, [4.0; 3], [4.0, 4.0, 0.0]).is_ok());
    }

    #[test]
    fn balls_of_a_volume_are_dense_along_all_axes() {
        let lattice = Lattice::new([16, 12, 8], Neighbourhood::Six).unwrap();
        let set = dense(&lattice, Shape::Ball, 3.0, 4.0).unwrap();
        let parts = parts(&lattice, &set).unwrap();
        assert_eq!(parts.iter().filter(|p| p.inside && p.size == 19).count(), 4 * 3 * 2);
    }

    #[test]
    fn sizes_that_cannot_be_are_refused() {
        let lattice = Lattice::new([8, 8, 1], Neighbourhood::Four).unwrap();
        assert!(dense(&lattice, Shape::Ball, 0.0, 4.0).is_err());
        assert!(dense(&lattice, Shape::Ball, 2.0, 0.5).is_err());
        assert!(dense(&lattice, Shape::Ball, f64::NAN, 4.0).is_err());
        assert!(single(&lattice, Shape::Box, [f64::NAN, 0.0, 0.0], 4.0).is_err());
        assert!(chessboard(&lattice, 0).is_err());
        assert!(within(&[true; 64], &[true; 63]).is_err());
    }
}
