//! Fast level sets with dense initial conditions: on the host in double precision, the plain forms that faster ones are held against, and on devices.
//!
//! A front between two sets of points moves by the sign of a force: points outside that the force draws in are switched, then points inside that it
//! draws out (Y. Shi and W. Karl, IEEE Transactions on Image Processing 17, 2008). Where it begins from many small shapes all over the image it
//! needs few iterations, and no more than a bound that the start alone gives (G. Tornai, Design and optimization of medical image
//! processing algorithms on many-core architectures, PhD thesis, Pázmány Péter Catholic University 2014, chapter 3; numbers of equations and algorithms are of that work).
//!
//! | module | contents |
//! |---|---|
//! | [`lattice`] | points and their 4, 8, 6, 18 or 26 neighbours |
//! | [`front`] | the levels and the two lists of a set, and one iteration (Algorithms 3.1 to 3.3) |
//! | [`evolution`] | iterations to where the front stays (Algorithms 3.3 and 3.4), with smoothing between them |
//! | [`start`] | initial sets: single and dense shapes, chessboards, within masks |
//! | [`force`] | what moves a front, one file a kind |
//! | [`gaussian`] | curvature and normals of fronts, smoothed images |
//! | [`mixture`] | mixtures of Gaussians by expectation maximisation |
//! | [`cells`] | the same evolution as operations on whole sets: 64 points a word, and a simulated cellular network |
//! | [`equation`] | the differential equation, solved on the grid, for comparison |
//! | [`partition`] | several regions at once |
//! | [`presets`] | forces and steps for white matter, heads and bone |
//! | [`bounds`] | how many iterations a start can need |
//! | [`device`] | the same evolutions on a device, by tiles or by words |
//! | [`tidy`] | parts and holes of a finished set |
//! | [`evidence`] | what an image says about a finished set, whatever force found it |
//!
//! Sets have one `bool` a point, images one `f32`, x fastest. Results depend neither on the order of lists nor on the run.
//!
//! # The rule of snapshots
//!
//! A scan goes over its list as it is when the scan begins. Points that are appended meanwhile wait for the next iteration. Every count of iterations
//! is under this rule. It is the one that fits a force that is computed before both scans: what is appended has none yet.
//!
//! # Where this differs from the source
//!
//! - Line 8 of Algorithms 3.1 and 3.2 sets the level of the neighbour y, not that of x, which line 4 has set.
//! - Algorithm 3.3 goes on while its condition to *stop* is true, computes that once only, before there is a force, and never counts; Algorithm 3.4
//!   has no value at its end. Here each iteration computes the force, ends if it moves no point or the limit is reached, and counts
//!   otherwise.
//! - The curvature of (3.13) has a sign: it is below 0 where the set is concave, which the norm of a second derivative cannot be. (3.14) has one
//!   gradient too many: κ = div(∇φ / |∇φ|).
//! - (3.15) must have -μ κ, as (3.13) has: with +μ κ fronts become longer.
//! - (3.16) has its sign reversed if R₁ is the object and F > 0 moves outwards, as in (3.6).
//! - The proof of theorem 1 has a set within the background lose two points of its diameter in every iteration, which one at the border of the image does
//!   not; the theorem is true all the same ([`Bounds`]). The force must be other than 0 at every point. Theorem 2 is not true as stated.
//! - Table B.1 has a boundary for erosions that takes points from sets at the border of the image ([`cells::cnn`]).
//! - Section 3.9.1 does not say how wide the Gaussian is. An iteration by curvature alone takes a front as far as a time of σ²/2 does, so that the four times
//!   given for 20, 40, 60 and 80 iterations are those of Gaussians that become wider (σ = 2.4, 3.7, 4.6 and 5.5). The time step of section 3.9.2 is at
//!   the limit where the shortest waves along a front do not decay.
//!
//! ```
//! use voxalign_segment::{
//!     ChanVese, Evolution, Lattice, Limit, Neighbourhood, Object, Options, Shape, dense, single,
//! };
//!
//! # fn main() -> Result<(), voxalign_segment::SegmentError> {
//! // A bright disc of 40 pixels, and a start of small circles everywhere.
//! let lattice = Lattice::new([64, 64, 1], Neighbourhood::Four)?;
//! let disc = single(&lattice, Shape::Ball, [31.5, 31.5, 0.0], 40.0)?;
//! let image: Vec<f32> = disc.iter().map(|d| if *d { 100.0 } else { 20.0 }).collect();
//! let start = dense(&lattice, Shape::Ball, 4.0, 8.0)?;
//! let mut force = ChanVese::new(&lattice, &image, 50.0, [1.0, 1.0])?.with_object(Object::Brighter);
//! let options = Options { limit: Limit::Iterations(50), ..Options::default() };
//! let evolution = Evolution::run(&lattice, &start, &mut force, &options)?;
//! assert!(evolution.converged() && evolution.iterations < 10);
//! let wrong = evolution.set.iter().zip(&disc).filter(|(s, d)| s != d).count();
//! assert!(wrong < 10);
//! # Ok(())
//! # }
//! ```

pub mod bounds;
pub mod cells;
pub mod device;
pub mod equation;
pub mod error;
pub mod evidence;
pub mod evolution;
pub mod force;
pub mod front;
pub mod gaussian;
pub mod lattice;
pub mod mixture;
pub mod partition;
pub mod presets;
pub mod start;
pub mod tidy;

pub use bounds::Bounds;
pub use equation::{Equation, Steps};
pub use error::{Result, SegmentError};
pub use evidence::{Evidence, HeldOut, dice, explained, two_means, without_odd};
pub use evolution::{Ending, Evolution, Limit, Options, Smoothing, State};
pub use force::{
    ChanVese, EdgeStop, Edges, Force, GeodesicRegions, MeanCurvature, Object, Speed, Terms,
};
pub use front::{Front, Switched};
pub use gaussian::Gaussian;
pub use lattice::{Lattice, Neighbourhood};
pub use mixture::{Component, Mixture, Ranges};
pub use partition::{Likelihoods, MeanIntensities, Partition, PartitionOptions, Scores, patchwork};
pub use start::{Shape, chessboard, dense, shifted, single, single_of, within};

#[cfg(test)]
mod tests {
    /// Numbers for tests, the same every time.
    pub(crate) struct Random(pub(crate) u64);

    impl Random {
        fn next(&mut self) -> u64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        }

        pub(crate) fn below(&mut self, n: u64) -> u64 {
            ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
        }

        /// Of mean 0 and deviation 1.
        pub(crate) fn normal(&mut self) -> f64 {
            let sum: f64 = (0..12).map(|_| (self.next() >> 11) as f64 / (1u64 << 53) as f64).sum();
            sum - 6.0
        }
    }
}
