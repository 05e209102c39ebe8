//! Ranges of values for bins, from exact histograms.

use super::source::PixelBlock;
use crate::error::Result;
use voxalign_compute::comm::Communicator;

/// Of all pixels at most this part is below the range, and at most this part above it: one in so many.
const OUTSIDE: u64 = 1000;

/// How often each value is, over blocks and ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Counts(Vec<i64>);

impl Counts {
    /// Of no pixel; `wide` is whether pixels have 16 bits.
    pub(super) fn new(wide: bool) -> Self {
        Self(vec![0; if wide { 1 << 16 } else { 1 << 8 }])
    }

    /// Counts values; those above what the pixels can hold are the largest.
    pub(super) fn add(&mut self, values: impl Iterator<Item = u16>) {
        let last = self.0.len() - 1;
        for value in values {
            self.0[usize::from(value).min(last)] += 1;
        }
    }

    /// Counts the pixels of a block where its mask, if there is one, is not 0.
    pub(super) fn add_block(&mut self, pixels: &PixelBlock, mask: Option<&[u8]>) {
        match mask {
            None => self.add(pixels.values()),
            Some(mask) => {
                let inside = pixels.values().zip(mask).filter(|(_, m)| **m != 0);
                self.add(inside.map(|(v, _)| v));
            }
        }
    }

    /// Those of all ranks.
    pub(super) fn of_all(mut self, ranks: &Communicator) -> Result<Self> {
        ranks.all_reduce_sum(&mut self.0)?;
        Ok(self)
    }

    /// The pixels.
    pub(super) fn total(&self) -> u64 {
        self.0.iter().map(|&n| n as u64).sum()
    }

    /// The most frequent value.
    pub(super) fn most(&self) -> u16 {
        let most = (0..self.0.len()).rev().max_by_key(|&v| self.0[v]);
        most.unwrap_or_default() as u16
    }

    /// The smallest range of values below which, and above which, there is at most one in a thousand pixels; none where all pixels that are left have
    /// one value, which tells nothing.
    pub(super) fn range(&self) -> Option<(u16, u16)> {
        let most = self.total() / OUTSIDE;
        let counts = || self.0.iter().map(|&n| n as u64);
        let low = passed(counts(), most)? as u16;
        let high = (self.0.len() - 1 - passed(counts().rev(), most)?) as u16;
        if low < high {
            return Some((low, high));
        }
        // Next to all have one value: what else there is counts.
        let some = || self.0.iter().enumerate().filter(|(_, n)| **n > 0).map(|(v, _)| v as u16);
        let (low, high) = (some().next()?, some().next_back()?);
        (low < high).then_some((low, high))
    }
}

/// The first place up to which there are more than so many.
fn passed(mut counts: impl Iterator<Item = u64>, most: u64) -> Option<usize> {
    let mut sum = 0;
    counts.position(|n| {
        sum += n;
        sum > most
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counted(values: &[u16], wide: bool) -> Counts {
        let mut counts = Counts::new(wide);
        counts.add(values.iter().copied());
        counts
    }

    #[test]
    fn few_values_far_off_are_outside() {
        let mut values = vec![3u16; 1];
        values.extend((10..=90).flat_map(|v| vec![v; 25]));
        values.extend([250, 250]);
        // 2028 pixels: two may be outside at each end, one of three is.
        assert_eq!(counted(&values, false).range(), Some((10, 90)));
        values.push(250);
        assert_eq!(counted(&values, false).range(), Some((10, 250)));
    }

    #[test]
    fn one_value_has_no_range_and_a_spot_in_it_has() {
        assert_eq!(counted(&[7; 5000], false).range(), None);
        assert_eq!(counted(&[], false).range(), None);
        let mut spot = vec![7; 5000];
        spot[17] = 9;
        assert_eq!(counted(&spot, true).range(), Some((7, 9)));
    }

    proptest! {
        #[test]
        fn ranks_agree(values in prop::collection::vec(any::<u16>(), 1..4000), parts in 1usize..5) {
            let whole = counted(&values, true);
            let ranks = Communicator::local(parts);
            let share = values.len().div_ceil(parts);
            let found = std::thread::scope(|scope| {
                let mut threads = Vec::new();
                for (rank, own) in ranks.into_iter().enumerate() {
                    let begin = (rank * share).min(values.len());
                    let part = &values[begin..(begin + share).min(values.len())];
                    threads.push(scope.spawn(move || counted(part, true).of_all(&own).unwrap()));
                }
                threads.into_iter().map(|t| t.join().unwrap()).collect::<Vec<_>>()
            });
            for counts in found {
                prop_assert_eq!(counts.range(), whole.range());
                prop_assert_eq!(&counts, &whole);
            }
        }
    }
}
