//! The evolution as operations on whole sets: dilation, erosion, and, or, and-not (figure 3.5).
//!
//! A front is four sets, whose union is the lattice: the points of both lists and the rest of both sides (equations 3.10 and 3.11). An iteration is a
//! fixed sequence of operations on them, written once ([`CellFront::advance`]) for any [`Machine`] that has them: [`Words`], which work on 64 points an
//! operation, or the simulation of a cellular network ([`cnn`]), which is the machine of the source. Its sets are those of
//! [`Front::advance`](crate::Front::advance) after every iteration, whatever the forces are.
//!
//! ```
//! use voxalign_segment::cells::{CellFront, Machine, Words};
//! use voxalign_segment::{Lattice, Neighbourhood};
//!
//! # fn main() -> Result<(), voxalign_segment::SegmentError> {
//! let lattice = Lattice::new([100, 1, 1], Neighbourhood::Four)?;
//! let mut words = Words::new(&lattice);
//! let start: Vec<bool> = (0..100).map(|x| x < 60).collect();
//! let mut front = CellFront::new(&mut words, &start)?;
//! let [draws_in, draws_out] = [words.load(&[true; 100])?, words.load(&[false; 100])?];
//! while front.advance(&mut words, &draws_in, &draws_out)? {}
//! assert_eq!(front.set(&mut words)?, [true; 100]);
//! # Ok(())
//! # }
//! ```

pub mod cnn;
mod words;

use crate::error::Result;
use voxalign_image::memory;

pub use words::{Bits, Words};

/// What can operate on sets of the points of a lattice.
pub trait Machine {
    /// A set.
    type Set: Clone;

    /// A set from one value a point.
    ///
    /// # Errors
    /// [`SegmentError::Length`](crate::SegmentError::Length), [`SegmentError::OutOfMemory`](crate::SegmentError::OutOfMemory); the
    /// latter of all others.
    fn load(&mut self, set: &[bool]) -> Result<Self::Set>;

    /// One value a point.
    ///
    /// # Errors
    /// As [`Machine::load`].
    fn store(&mut self, set: &Self::Set) -> Result<Vec<bool>>;

    /// The points of both sets.
    ///
    /// # Errors
    /// As [`Machine::load`].
    fn and(&mut self, a: &Self::Set, b: &Self::Set) -> Result<Self::Set>;

    /// The points of either set.
    ///
    /// # Errors
    /// As [`Machine::load`].
    fn or(&mut self, a: &Self::Set, b: &Self::Set) -> Result<Self::Set>;

    /// The points of the first set that are not of the second.
    ///
    /// # Errors
    /// As [`Machine::load`].
    fn and_not(&mut self, a: &Self::Set, b: &Self::Set) -> Result<Self::Set>;

    /// The points of a set and their neighbours.
    ///
    /// # Errors
    /// As [`Machine::load`].
    fn dilated(&mut self, set: &Self::Set) -> Result<Self::Set>;

    /// The points of a set all of whose neighbours are of it. What is beyond the border is no neighbour.
    ///
    /// # Errors
    /// As [`Machine::load`].
    fn eroded(&mut self, set: &Self::Set) -> Result<Self::Set>;

    /// Whether a set has no point.
    fn is_empty(&mut self, set: &Self::Set) -> bool;
}

/// A front as four sets of a machine.
#[derive(Debug, Clone)]
pub struct CellFront<S> {
    /// Points inside with a neighbour outside, `L_in`.
    pub inner: S,
    /// Points outside with a neighbour inside, `L_out`.
    pub outer: S,
    /// The other points inside, `F_in`.
    pub interior: S,
    /// The other points outside, `F_out`.
    pub exterior: S,
}

impl<S: Clone> CellFront<S> {
    /// The front of a set. One without points on both sides is a front that does not move.
    ///
    /// # Errors
    /// Of the machine.
    pub fn new<M: Machine<Set = S>>(machine: &mut M, set: &[bool]) -> Result<Self> {
        let inside = machine.load(set)?;
        let all = machine.load(&memory::filled(set.len(), true)?)?;
        let outside = machine.and_not(&all, &inside)?;
        let [interior, exterior] = [machine.eroded(&inside)?, machine.eroded(&outside)?];
        let inner = machine.and_not(&inside, &interior)?;
        let outer = machine.and_not(&outside, &exterior)?;
        Ok(Self { inner, outer, interior, exterior })
    }

    /// One iteration: the points that the force draws in, and those that it draws out. Gives whether any point moved.
    ///
    /// # Errors
    /// Of the machine.
    pub fn advance<M: Machine<Set = S>>(
        &mut self,
        m: &mut M,
        draws_in: &S,
        draws_out: &S,
    ) -> Result<bool> {
        let inwards = m.and(&self.outer, draws_in)?;
        switch(
            m,
            &inwards,
            [&mut self.outer, &mut self.exterior],
            [&mut self.inner, &mut self.interior],
        )?;
        let outwards = m.and(&self.inner, draws_out)?;
        switch(
            m,
            &outwards,
            [&mut self.inner, &mut self.interior],
            [&mut self.outer, &mut self.exterior],
        )?;
        Ok(!(m.is_empty(&inwards) && m.is_empty(&outwards)))
    }

    /// Whether each point is inside.
    ///
    /// # Errors
    /// Of the machine.
    pub fn set<M: Machine<Set = S>>(&self, machine: &mut M) -> Result<Vec<bool>> {
        let inside = machine.or(&self.inner, &self.interior)?;
        machine.store(&inside)
    }
}

/// Two phases of figure 3.5: points of the front leave one side (its points at the front, and the rest of it), and the other side, which takes them, is
/// cleaned.
fn switch<M: Machine>(
    m: &mut M,
    moved: &M::Set,
    [left_front, left_rest]: [&mut M::Set; 2],
    [to_front, to_rest]: [&mut M::Set; 2],
) -> Result<()> {
    let stays = m.and_not(left_front, moved)?;
    let around = m.dilated(moved)?;
    let around = m.and_not(&around, moved)?;
    let joins = m.and(&around, left_rest)?;
    *left_front = m.or(&stays, &joins)?;
    *left_rest = m.and_not(left_rest, left_front)?;
    let merged = m.or(to_front, moved)?;
    let merged = m.or(&merged, to_rest)?;
    *to_rest = m.eroded(&merged)?;
    *to_front = m.and_not(&merged, to_rest)?;
    Ok(())
}
