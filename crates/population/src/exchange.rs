//! Messages between ranks, and state kept by runs, as bytes (MessagePack) that preserve every float exactly,
//! including non-finite ones.

use crate::error::{PopulationError, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use voxalign_compute::comm::Communicator;

/// A value as bytes (MessagePack). Floats keep their bits.
///
/// # Errors
/// [`PopulationError::Exchange`] for a value that has no such form, such as a map whose length is not known.
pub fn pack<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>> {
    rmp_serde::to_vec_named(value).map_err(|e| PopulationError::Exchange(e.to_string()))
}

/// Decodes the bytes of [`pack`].
///
/// # Errors
/// [`PopulationError::Exchange`] for bytes that are something else.
pub fn unpack<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    rmp_serde::from_slice(bytes).map_err(|e| PopulationError::Exchange(e.to_string()))
}

/// The values of all ranks, in their order, at every rank. All ranks call it.
///
/// # Errors
/// A value that cannot be told, at every rank; ranks that fail.
pub fn all_told<T: Serialize + DeserializeOwned>(ranks: &Communicator, own: &T) -> Result<Vec<T>> {
    let bytes = ranks.agree(pack(own))?;
    let blocks = ranks.all_gather(&bytes)?;
    ranks.agree(blocks.iter().map(|block| unpack(block)).collect())
}

/// The values of all ranks, in their order, at the first one, and nothing at the others. All ranks call it.
///
/// # Errors
/// As [`all_told`].
pub fn told_to_first<T: Serialize + DeserializeOwned>(
    ranks: &Communicator,
    own: &T,
) -> Result<Vec<T>> {
    let bytes = ranks.agree(pack(own))?;
    let blocks = ranks.gather(&bytes, 0)?.unwrap_or_default();
    ranks.agree(blocks.iter().map(|block| unpack(block)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_register::{Check, Verdict};

    /// Numbers of every kind that JSON has no word for, and some that it has.
    fn odd() -> Vec<f64> {
        let payload = f64::from_bits(0x7ff8_0000_0000_0123);
        let values = [f64::NAN, -f64::NAN, payload, f64::INFINITY, -f64::INFINITY, -0.0, 1e-320];
        values.into_iter().chain([0.1 + 0.2, 1.0, 3e300]).collect()
    }

    #[test]
    fn numbers_keep_their_bits() {
        let bits = |v: &[f64]| v.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        let back: Vec<f64> = unpack(&pack(&odd()).unwrap()).unwrap();
        assert_eq!(bits(&back), bits(&odd()));
        let short: Vec<f32> = odd().iter().map(|&v| v as f32).collect();
        let back: Vec<f32> = unpack(&pack(&short).unwrap()).unwrap();
        assert!(back.iter().zip(&short).all(|(a, b)| a.to_bits() == b.to_bits()));
        let back: (Option<f64>, Option<f64>) =
            unpack(&pack(&(Some(f64::NAN), None::<f64>)).unwrap()).unwrap();
        assert!(back.0.is_some_and(f64::is_nan) && back.1.is_none());
        assert!(unpack::<Vec<f64>>(&pack("text").unwrap()).is_err());
        assert!(unpack::<Vec<f64>>(&[]).is_err());
    }

    #[test]
    fn verdicts_of_all_ranks_arrive_whatever_their_numbers() {
        let verdict = |rank: usize| {
            let checks =
                odd().into_iter().map(|v| Check::new("mean cost", v, "at most 1", v <= 1.0));
            Verdict::new(checks.collect(), vec![format!("of rank {rank}").into()])
        };
        let all: Vec<Vec<Verdict>> = std::thread::scope(|scope| {
            let threads: Vec<_> = Communicator::local(3)
                .into_iter()
                .map(|ranks| scope.spawn(move || all_told(&ranks, &verdict(ranks.rank())).unwrap()))
                .collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        for told in all {
            assert_eq!(told.len(), 3);
            for (rank, told) in told.iter().enumerate() {
                assert!(!told.good);
                assert_eq!(told.remarks, [format!("of rank {rank}").into()]);
                let values: Vec<u64> = told.checks.iter().map(|c| c.value.to_bits()).collect();
                assert_eq!(values, odd().iter().map(|v| v.to_bits()).collect::<Vec<_>>());
            }
        }
    }
}
