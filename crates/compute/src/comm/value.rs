//! Values that ranks exchange, and an order-preserving mapping of floats to integers.

mod sealed {
    pub trait Sealed {}
}

/// A number that can be sent from rank to rank, bit by bit.
pub trait Value: sealed::Sealed + Copy + Default {
    /// Its bytes.
    const BYTES: usize;

    /// Writes it to [`BYTES`](Self::BYTES) bytes.
    fn put(self, bytes: &mut [u8]);

    /// Reads it from [`BYTES`](Self::BYTES) bytes; the default from any other number of them.
    fn get(bytes: &[u8]) -> Self;
}

macro_rules! values {
    ($($t:ty),*) => {$(
        impl sealed::Sealed for $t {}
        impl Value for $t {
            const BYTES: usize = size_of::<$t>();

            fn put(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_le_bytes());
            }

            fn get(bytes: &[u8]) -> Self {
                bytes.try_into().map_or_else(|_| Self::default(), Self::from_le_bytes)
            }
        }
    )*};
}
values!(u8, u32, i64, u64, f32, f64);

/// Writes numbers as bytes.
pub(super) fn put_all<T: Value>(values: &[T], bytes: &mut [u8]) {
    for (value, bytes) in values.iter().zip(bytes.chunks_exact_mut(T::BYTES)) {
        value.put(bytes);
    }
}

/// The bytes of numbers.
pub(super) fn to_bytes<T: Value>(values: &[T]) -> Vec<u8> {
    let mut bytes = vec![0; values.len() * T::BYTES];
    put_all(values, &mut bytes);
    bytes
}

/// The numbers that bytes hold; none if these are not those of whole numbers.
pub(super) fn from_bytes<T: Value>(bytes: &[u8]) -> Option<Vec<T>> {
    bytes.len().is_multiple_of(T::BYTES).then(|| bytes.chunks_exact(T::BYTES).map(T::get).collect())
}

/// An integer for a float, in the same order: −∞ < … < −0 < 0 < … < ∞. NaN becomes `nan`, so that the caller
/// decides at which end of the order it is.
pub(super) fn ordered(value: f64, nan: i64) -> i64 {
    if value.is_nan() {
        return nan;
    }
    let bits = value.to_bits() as i64;
    // Below zero the bits of the magnitude grow the wrong way.
    bits ^ (((bits >> 63) as u64) >> 1) as i64
}

/// The float of an integer of [`ordered`]; both ends of the order are not a number.
pub(super) fn from_ordered(key: i64) -> f64 {
    f64::from_bits((key ^ (((key >> 63) as u64) >> 1) as i64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bytes_hold_whole_numbers_only() {
        let values = [1.5, -0.0, f64::NAN, f64::INFINITY];
        let found = from_bytes::<f64>(&to_bytes(&values)).unwrap();
        assert!(values.iter().zip(&found).all(|(a, b)| a.to_bits() == b.to_bits()));
        assert_eq!(from_bytes::<f64>(&[0; 12]), None);
        assert_eq!(from_bytes::<u32>(&[1, 0, 0, 0]), Some(vec![1]));
        assert_eq!(from_bytes::<i64>(&[]), Some(vec![]));
    }

    #[test]
    fn the_ends_of_the_order_are_no_numbers() {
        assert!(from_ordered(i64::MAX).is_nan() && from_ordered(i64::MIN).is_nan());
        assert_eq!(ordered(f64::NAN, 7), 7);
        assert!(ordered(f64::INFINITY, 0) < i64::MAX);
        assert!(ordered(f64::NEG_INFINITY, 0) > i64::MIN);
        assert!(ordered(-0.0, 0) < ordered(0.0, 0));
    }

    proptest! {
        #[test]
        fn integers_keep_the_order(a: f64, b: f64) {
            prop_assert_eq!(from_ordered(ordered(a, 0)).to_bits(), a.to_bits());
            prop_assert_eq!(ordered(a, 0).cmp(&ordered(b, 0)), a.total_cmp(&b));
        }
    }
}
