//! Stable sorting of keys, with or without a value for each.
//!
//! Every key type has a map to unsigned integers that keeps the order: integers with a sign have
//! that bit turned over; of negative floats all bits are turned over and of the others the sign.
//! So floats have a total order, `-NaN < -inf < … < -0 < +0 < … < inf < NaN`, that of
//! [`f32::total_cmp`]. Sorting works on the integers of this map, its *order number*.
//!
//! The time of a radix sort grows with the bits that it looks at, and keys seldom use all of them.
//! A [`KeyRange`] limits the bits to those of the range (L. K. Ha, 2011, appendix A.3.3.1): the
//! least order number is subtracted from all, and only the bits that the greatest one then has are
//! sorted.

use voxalign_compute_macros::forwarded;

use crate::device::{DeviceBuffer, Element, Memory};
use crate::error::{ComputeError, Result, check_len};

/// A number that can be sorted by. Only numbers of this crate's [`Element`] are.
pub trait SortKey: Element {
    /// The bits of the type.
    const BITS: u32;
    /// The bits that are inverted where the highest bit is set.
    #[doc(hidden)]
    const TURNED_IF_NEGATIVE: u64;
    /// The bits that are always inverted, after that.
    #[doc(hidden)]
    const TURNED: u64;
    /// Whether this is [`f32`].
    #[doc(hidden)]
    const FLOAT: bool;

    /// The order number: an unsigned integer of [`BITS`](Self::BITS) bits whose order is that of
    /// the keys.
    fn order(self) -> u64;
}

macro_rules! keys {
    ($($t:ty, $bits:ty, $to_bits:expr, $turned_if_negative:expr, $turned:expr, $float:expr;)*) => {$(
        impl SortKey for $t {
            const BITS: u32 = <$bits>::BITS;
            const TURNED_IF_NEGATIVE: u64 = $turned_if_negative;
            const TURNED: u64 = $turned;
            const FLOAT: bool = $float;

            #[inline]
            fn order(self) -> u64 {
                let bits: $bits = $to_bits(self);
                let negative = bits >> (<$bits>::BITS - 1) == 1;
                let turned = if negative { Self::TURNED_IF_NEGATIVE } else { 0 };
                u64::from(bits) ^ turned ^ Self::TURNED
            }
        }
    )*};
}
keys! {
    u32, u32, u32::from, 0, 0, false;
    i32, u32, i32::cast_unsigned, 0, 1 << 31, false;
    u64, u64, u64::from, 0, 0, false;
    i64, u64, i64::cast_unsigned, 0, 1 << 63, false;
    f32, u32, f32::to_bits, (1 << 31) - 1, 1 << 31, true;
}

/// The range of the keys.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum KeyRange<K> {
    /// Nothing: all bits of the keys are sorted.
    Full,
    /// The keys are between `low` and `high`, both included. A key outside counts as the nearer end: such keys come
    /// first, or last, together with those that equal the end, in the order of the input.
    Known {
        /// The least key.
        low: K,
        /// The greatest key.
        high: K,
    },
    /// The range is measured first. On a GPU this reads all keys once more and waits for the
    /// result, so it pays where the range is likely to be small; a range within 24 bits of 32 saves
    /// one pass of four.
    Measured,
    /// For `f32`, an approximate sort by 24 bits: the measured range `[a, b]` of the finite keys is mapped linearly
    /// to integers of 24 bits, and keys are sorted by these. Keys that differ by less than `(b - a) · 2⁻²³` may
    /// stay in the order of the input, all others are sorted. `-NaN` and `-inf` come first, `inf` and `NaN` last,
    /// each two as if they were equal. Keys and values themselves are unchanged. The host does not wait.
    Approximate24,
}

/// Sorting.
///
/// All sorts are stable: pairs of equal keys stay in the order of the input. So there is one right
/// result, and every backend gives it with any number of threads. Nothing is sorted in place: the
/// inputs stay as they are. On a GPU a sort takes, for its time, as much memory again as the
/// output; a sort of segments some 32 bytes a pair.
///
/// # Errors
/// All operators: [`ComputeError::Length`] if lengths do not agree, [`ComputeError::Argument`] for
/// more than [`MOST_KEYS`] (2^31 - 1) keys or segments, whose positions are counted in 32 bits, for a [`KeyRange::Known`] whose `low` comes after its `high`, and
/// for [`KeyRange::Approximate24`] with keys that are not `f32`; [`ComputeError::OutOfMemory`].
#[forwarded]
pub trait Sort: Memory {
    /// Sorts `keys` with their `values` to `sorted_keys` and `sorted_values`. Without values these are the
    /// positions `0, 1, …`, so that `sorted_values` gives the original position of each sorted key.
    ///
    /// # Errors
    /// As said at [`Sort`].
    fn sort_pairs<K: SortKey>(
        &self,
        range: KeyRange<K>,
        keys: &Self::Buffer<K>,
        values: Option<&Self::Buffer<u32>>,
        sorted_keys: &mut Self::Buffer<K>,
        sorted_values: &mut Self::Buffer<u32>,
    ) -> Result<()>;

    /// Sorts `keys` alone, to `sorted_keys`.
    ///
    /// # Errors
    /// As said at [`Sort`].
    fn sort_keys<K: SortKey>(
        &self,
        range: KeyRange<K>,
        keys: &Self::Buffer<K>,
        sorted_keys: &mut Self::Buffer<K>,
    ) -> Result<()>;

    /// Sorts each segment of the keys on its own, as [`sort_pairs`](Self::sort_pairs) does for all.
    ///
    /// Segments begin at the positions `starts`, in ascending order; equal ones stand for empty
    /// segments. Keys before the first start are a segment too, and the last one goes to the end,
    /// so it does not matter whether `starts` begins with 0 or ends with the number of keys. If
    /// `starts` does not ascend, it is not defined which pairs make a segment.
    ///
    /// # Errors
    /// As said at [`Sort`].
    fn sort_segments<K: SortKey>(
        &self,
        range: KeyRange<K>,
        keys: &Self::Buffer<K>,
        values: Option<&Self::Buffer<u32>>,
        starts: &Self::Buffer<u32>,
        sorted_keys: &mut Self::Buffer<K>,
        sorted_values: &mut Self::Buffer<u32>,
    ) -> Result<()>;
}

/// The most keys that a sort takes: more are refused with [`ComputeError::Argument`] before anything is done;
/// sort them in pieces and merge these.
pub const MOST_KEYS: usize = i32::MAX as usize;

/// The order numbers that are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limits {
    /// Those from `low` to `high`; others are clamped.
    Within {
        /// The least order number.
        low: u64,
        /// The greatest.
        high: u64,
    },
    /// Those of a measured range.
    Measured,
    /// Places in the measured range of the finite keys.
    Approximate,
}

/// Checks the arguments that all sorts have; gives what is sorted by.
pub(crate) fn check<K: SortKey>(
    range: KeyRange<K>,
    keys: usize,
    values: Option<usize>,
    sorted: &[usize],
) -> Result<Limits> {
    if keys > MOST_KEYS {
        return Err(ComputeError::argument(
            "number of keys",
            keys,
            "at most 2147483647; sort them in pieces",
        ));
    }
    check_len("values to sort", keys, values.unwrap_or(keys))?;
    for &len in sorted {
        check_len("output of a sort", keys, len)?;
    }
    match range {
        KeyRange::Full => Ok(Limits::Within { low: 0, high: u64::MAX >> (64 - K::BITS) }),
        KeyRange::Known { low, high } if low.order() <= high.order() => {
            Ok(Limits::Within { low: low.order(), high: high.order() })
        }
        KeyRange::Known { low, high } => Err(ComputeError::argument(
            "range of keys",
            format!("{low:?} to {high:?}"),
            "from the least to the greatest key",
        )),
        KeyRange::Measured => Ok(Limits::Measured),
        KeyRange::Approximate24 if K::FLOAT => Ok(Limits::Approximate),
        KeyRange::Approximate24 => Err(ComputeError::argument(
            "range of keys",
            "approximate",
            "exact for keys other than f32",
        )),
    }
}

/// The lengths of the buffers of a sort of pairs, checked.
pub(crate) fn check_pairs<K: SortKey>(
    range: KeyRange<K>,
    keys: &impl DeviceBuffer<K>,
    values: Option<&impl DeviceBuffer<u32>>,
    sorted_keys: &impl DeviceBuffer<K>,
    sorted_values: &impl DeviceBuffer<u32>,
) -> Result<Limits> {
    let values = values.map(DeviceBuffer::len);
    check(range, keys.len(), values, &[sorted_keys.len(), sorted_values.len()])
}

/// Checks the number of starts of segments.
pub(crate) fn check_starts(starts: usize) -> Result<()> {
    if starts > MOST_KEYS {
        return Err(ComputeError::argument("number of segments", starts, "at most 2147483647"));
    }
    Ok(())
}

/// The bits of an approximate sort.
pub(crate) const APPROXIMATE_BITS: u32 = 24;

/// The number of the last finite place of an approximate sort, counted from the first; the first
/// and the last of all places are for what is not finite.
const LAST_PLACE: u64 = (1 << APPROXIMATE_BITS) - 3;

/// The map from keys to places of an approximate sort: monotonous, since each of its steps is.
/// Kernels do the same steps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Places {
    low: f64,
    scale: f64,
}

impl Places {
    /// The map for finite keys from `low` to `high`; for no finite keys any numbers serve.
    pub(crate) fn new(low: f32, high: f32) -> Self {
        let (low, high) = (f64::from(low), f64::from(high));
        Self { low, scale: if high > low { LAST_PLACE as f64 / (high - low) } else { 0.0 } }
    }

    /// The place of a key.
    pub(crate) fn of(self, key: f32) -> u64 {
        match (key.is_finite(), key.is_sign_negative()) {
            (true, _) => 1 + ((f64::from(key) - self.low) * self.scale) as u64,
            (false, true) => 0,
            (false, false) => LAST_PLACE + 2,
        }
    }
}

/// The float of an order number.
pub(crate) fn float_of_order(order: u64) -> f32 {
    let bits = order as u32 ^ (1 << 31);
    f32::from_bits(if bits >> 31 == 1 { bits ^ (u32::MAX >> 1) } else { bits })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_numbers_keep_the_order() {
        let nan = f32::NAN.copysign(1.0);
        let floats = [-nan, f32::NEG_INFINITY, f32::MIN, -1.0, -1e-45, -0.0, 0.0, 1e-45, 1.0, nan];
        for pair in floats.windows(2) {
            assert!(pair[0].order() < pair[1].order(), "{pair:?}");
        }
        for f in floats {
            assert_eq!(float_of_order(f.order()).to_bits(), f.to_bits());
        }
        assert!([i32::MIN, -1, 0, 1, i32::MAX].is_sorted_by_key(|k| k.order()));
        assert!([i64::MIN, -1, 0, 1, i64::MAX].is_sorted_by_key(|k| k.order()));
        assert_eq!((i32::MIN.order(), i64::MIN.order(), u64::MAX.order()), (0, 0, u64::MAX));
        assert_eq!(
            (i32::MAX.order(), f32::from_bits(u32::MAX >> 1).order()),
            (0xffff_ffff, 0xffff_ffff)
        );
    }

    #[test]
    fn places_have_24_bits() {
        for (low, high) in [(0.0, 1.0), (-3.4e38, 3.4e38), (5.0, 5.0), (1.0, 1.000_000_1)] {
            let places = Places::new(low, high);
            assert_eq!(places.of(low), 1);
            assert!(places.of(high) <= LAST_PLACE + 1);
            assert!(high == low || places.of(high) >= LAST_PLACE);
            assert_eq!(places.of(f32::INFINITY), (1 << 24) - 1);
            assert_eq!(places.of(f32::NEG_INFINITY), 0);
        }
    }
}
