//! What iterations count.

use crate::error::{ComputeError, Result};

/// The numbers of [`Totals`].
pub const TOTALS: usize = 8;

/// The numbers of a [`Slot`].
pub const SLOT: usize = 8;

/// The fewest slots of a log: that of the iteration before, of the one that runs, and of the next.
pub const LEAST_SLOTS: usize = 3;

/// Sums over the points of a set, and over all, as they are on the device: running ones, which every iteration changes, and those of the start at
/// the head of the log. Measured values are in whole [`Units`](super::Units).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// How many points are inside.
    pub size: i64,
    /// The values inside.
    pub sum: i64,
    /// Their squares.
    pub squares: i64,
    /// The values of all points.
    pub all: i64,
    /// The squares of all.
    pub all_squares: i64,
}

impl Totals {
    /// From the numbers of a device.
    #[must_use]
    pub fn of(numbers: &[i64]) -> Self {
        let at = |i: usize| numbers.get(i).copied().unwrap_or(0);
        Self { size: at(0), sum: at(1), squares: at(2), all: at(3), all_squares: at(4) }
    }

    /// As the device has them.
    #[must_use]
    pub fn numbers(&self) -> [i64; TOTALS] {
        [self.size, self.sum, self.squares, self.all, self.all_squares, 0, 0, 0]
    }

    /// What they are after the iteration of a slot.
    #[must_use]
    pub fn after(&self, slot: &Slot) -> Self {
        Self {
            size: self.size.wrapping_add(slot.inwards - slot.outwards),
            sum: self.sum.wrapping_add(slot.sum),
            squares: self.squares.wrapping_add(slot.squares),
            ..*self
        }
    }
}

/// What an iteration has counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Slot {
    /// The tiles that it went over; none where it had nothing to do.
    pub tiles: i64,
    /// The points of the set that it began with that have a neighbour outside: by how many more they are than in the set before, where
    /// tiles are planned; the number of them where all points are looked at.
    pub inner: i64,
    /// The same of the points outside that have a neighbour inside.
    pub outer: i64,
    /// Points that came in.
    pub inwards: i64,
    /// Points that went out.
    pub outwards: i64,
    /// Points of the set that it made that are not as in the set two iterations ago, which was where it wrote. Without meaning in the first one.
    pub different: i64,
    /// The change of the measured values inside.
    pub sum: i64,
    /// The change of their squares.
    pub squares: i64,
}

impl Slot {
    /// From the numbers of a device.
    #[must_use]
    pub fn of(numbers: &[i64]) -> Self {
        let at = |i: usize| numbers.get(i).copied().unwrap_or(0);
        Self {
            tiles: at(0),
            inner: at(1),
            outer: at(2),
            inwards: at(3),
            outwards: at(4),
            different: at(5),
            sum: at(6),
            squares: at(7),
        }
    }

    /// As the device has them.
    #[must_use]
    pub fn numbers(&self) -> [i64; SLOT] {
        [
            self.tiles,
            self.inner,
            self.outer,
            self.inwards,
            self.outwards,
            self.different,
            self.sum,
            self.squares,
        ]
    }

    /// Adds what another part of the image has counted.
    pub(crate) fn add(&mut self, other: &Self) {
        self.tiles += other.tiles;
        self.inner += other.inner;
        self.outer += other.outer;
        self.inwards += other.inwards;
        self.outwards += other.outwards;
        self.different += other.different;
        self.sum = self.sum.wrapping_add(other.sum);
        self.squares = self.squares.wrapping_add(other.squares);
    }
}

/// The log of iterations, on the host: the totals of the start, and a ring of slots. The slot of an iteration serves again after as many
/// iterations as there are slots, and every iteration clears that of the next.
#[derive(Debug, Clone, Copy)]
pub struct Log<'a>(&'a [i64]);

impl<'a> Log<'a> {
    /// The length of the buffer of a log of so many slots, at least three.
    #[must_use]
    pub fn len_of(slots: usize) -> usize {
        slots.saturating_mul(SLOT).saturating_add(TOTALS)
    }

    /// What a device has written.
    ///
    /// # Errors
    /// As [`slots`](Self::slots).
    pub fn new(numbers: &'a [i64]) -> Result<Self> {
        Self::slots(numbers.len()).map(|_| Self(numbers))
    }

    /// The slots of a buffer of this length.
    ///
    /// # Errors
    /// A length that is not that of a log.
    pub fn slots(len: usize) -> Result<usize> {
        let slots = len.saturating_sub(TOTALS) / SLOT;
        match slots >= LEAST_SLOTS && Self::len_of(slots) == len {
            true => Ok(slots),
            false => Err(ComputeError::argument(
                "length of a log",
                len,
                "8 more than 8 numbers a slot, of which there are at least 3",
            )),
        }
    }

    /// Where the slot of an iteration is.
    #[must_use]
    pub fn place(slots: usize, step: usize) -> usize {
        TOTALS + step % slots.max(1) * SLOT
    }

    /// The totals of the start.
    #[must_use]
    pub fn start(&self) -> Totals {
        Totals::of(self.0)
    }

    /// The slot of an iteration.
    #[must_use]
    pub fn slot(&self, step: usize) -> Slot {
        let at = Self::place((self.0.len() - TOTALS) / SLOT, step);
        Slot::of(&self.0[at..at + SLOT])
    }
}

/// Whether there is nothing to do in an iteration, by the slot of the one before.
pub(crate) fn has_ended(step: super::Step, before: &Slot, size: i64, points: usize) -> bool {
    if size == 0 || size == points as i64 {
        return true;
    }
    let repeats = step.ends_on_repeats && step.number >= 3 && before.different == 0;
    step.number > 0 && (before.inwards + before.outwards == 0 || repeats)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_go_round() {
        let slots = 3;
        let mut numbers = vec![0; Log::len_of(slots)];
        let slot = Slot { inwards: 7, outwards: 2, sum: -5, ..Slot::default() };
        numbers[..TOTALS].copy_from_slice(&Totals { size: 10, ..Totals::default() }.numbers());
        let at = Log::place(slots, 4);
        numbers[at..at + SLOT].copy_from_slice(&slot.numbers());
        let log = Log::new(&numbers).unwrap();
        assert_eq!((log.slot(4), log.slot(1), log.slot(2)), (slot, slot, Slot::default()));
        let after = log.start().after(&slot);
        assert_eq!((after.size, after.sum), (15, -5));
        for len in [0, 8, 24, 31, 33] {
            assert!(Log::slots(len).is_err(), "{len}");
        }
    }
}
