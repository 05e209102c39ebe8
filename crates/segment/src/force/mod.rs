//! Forces: what moves a front. One file a kind.
//!
//! A force says where a front is to go by the terms of its speed outwards,
//!
//! F = f - w κ + v · n,
//!
//! where n is the unit normal that points outwards, κ = div n the curvature (in a volume the sum of both principal ones), above 0 where the
//! set is convex. Both the fast evolution and the solver of the differential equation take the same terms; they differ in where κ and n are
//! from, and in that the former looks at the sign of F alone.
//!
//! ```
//! use voxalign_segment::{Evolution, Lattice, Neighbourhood, Options, Speed};
//!
//! # fn main() -> Result<(), voxalign_segment::SegmentError> {
//! // A line of five points, of which the middle three are the object.
//! let lattice = Lattice::new([5, 1, 1], Neighbourhood::Four)?;
//! let mut force = Speed::new(&lattice, &[-1.0, 1.0, 1.0, 1.0, -1.0])?;
//! let start = [false, true, false, false, false];
//! let evolution = Evolution::run(&lattice, &start, &mut force, &Options::default())?;
//! assert_eq!(evolution.set, [false, true, true, true, false]);
//! assert!(evolution.converged() && evolution.iterations == 2);
//! # Ok(())
//! # }
//! ```

mod chan_vese;
mod curvature;
mod edge;
mod regions;
mod speed;

use crate::error::{Result, same_length};

pub use chan_vese::{ChanVese, Object};
pub use curvature::MeanCurvature;
pub use edge::{EdgeStop, Edges};
pub use regions::GeodesicRegions;
pub use speed::Speed;

/// The terms of a force at a point, F = f - w κ + v · n. Lengths are those of the image's spacing, times are free.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Terms {
    /// f, the speed outwards that depends on neither the curvature nor the normal.
    pub speed: f64,
    /// w, the weight of the curvature, at least 0.
    pub curvature: f64,
    /// v, a flow whose part along the normal moves the front.
    pub flow: [f64; 3],
}

/// Checks that a force is for so many points.
pub(crate) fn fits(force: &dyn Force, points: usize) -> Result<()> {
    force.points().map_or(Ok(()), |found| same_length("the force", found, points))
}

/// What moves a front.
pub trait Force {
    /// Takes note of which points are inside, before each iteration.
    ///
    /// # Errors
    /// Of the kind.
    fn update(&mut self, is_inside: &dyn Fn(usize) -> bool) -> Result<()> {
        let _ = is_inside;
        Ok(())
    }

    /// How many points the force is for, where it is for a number of them.
    fn points(&self) -> Option<usize> {
        None
    }

    /// The terms at a point, under the last [`Force::update`].
    fn terms(&self, point: usize) -> Terms;

    /// What the force lowers, without the length of the front: a sum over the points, under the last [`Force::update`].
    fn energy(&self, is_inside: &dyn Fn(usize) -> bool) -> Option<f64> {
        let _ = is_inside;
        None
    }
}
