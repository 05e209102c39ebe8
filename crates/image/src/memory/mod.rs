//! Allocations that can fail: memory that grows with an image is allocated here, so that running out of it is
//! an error and does not abort the program.
//!
//! ```
//! use voxalign_image::memory;
//!
//! let squares = memory::collected((0..4).map(|i| i * i))?;
//! assert_eq!(squares, [0, 1, 4, 9]);
//! assert!(memory::zeroed::<f32>(1 << 55).is_err());
//! # Ok::<(), memory::OutOfMemory>(())
//! ```

mod host;

use bytemuck::Zeroable;
use rayon::iter::{IndexedParallelIterator, ParallelExtend};
use std::cell::Cell;
use thiserror::Error;

pub use host::{HostMemory, address_space, host};

/// A memory request that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "out of memory: {} more were needed{}",
    amount(*bytes),
    free.map_or_else(String::new, |free| format!(", {} were free", amount(free)))
)]
pub struct OutOfMemory {
    /// The bytes of the request; `u64::MAX` where they do not fit.
    pub bytes: u64,
    /// The bytes that were free, where the system reports it.
    pub free: Option<u64>,
}

/// A number of bytes in the unit that reads best, such as `16.9 GiB`.
#[must_use]
pub fn amount(bytes: u64) -> String {
    let (mut value, mut unit) = (bytes as f64, "bytes");
    for larger in ["KiB", "MiB", "GiB", "TiB"] {
        if value >= 1024.0 {
            (value, unit) = (value / 1024.0, larger);
        }
    }
    match unit {
        "bytes" if bytes == 1 => "1 byte".to_owned(),
        "bytes" => format!("{bytes} bytes"),
        "KiB" | "MiB" if value >= 9.95 => format!("{value:.0} {unit}"),
        _ => format!("{value:.1} {unit}"),
    }
}

/// Result with [`OutOfMemory`].
pub type Result<T> = std::result::Result<T, OutOfMemory>;

/// Requests of at least this many bytes are held against the free memory before they are made:
/// the system may promise more than it has, and would end the process when it is touched.
const CHECKED_BYTES: u64 = 1 << 28;

/// Requests of at least this many bytes are granted only if [`MARGIN`] bytes are left after them. Memory that the
/// runtime and the C library request by themselves, as when a thread uses something of its own for the first time,
/// cannot be refused: the process would end.
const LARGE_BYTES: u64 = 1 << 20;
const MARGIN: usize = 1 << 20;

thread_local! {
    static ASKING: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is asking for memory that may be refused. A program whose allocator has a last
/// resort for all other requests leaves those alone.
#[must_use]
pub fn is_asking() -> bool {
    ASKING.get()
}

/// Asks for `len` elements by `request`, which gives `None` where it is refused.
///
/// # Errors
/// [`OutOfMemory`] where it is, where the bytes cannot be counted, or where they are many and more than
/// what is free, or nothing would be left.
pub fn ask<T, R>(len: usize, request: impl FnOnce() -> Option<R>) -> Result<R> {
    let bytes = (len as u64).saturating_mul(size_of::<T>() as u64);
    let refused = |bytes| OutOfMemory { bytes, free: host().free };
    if bytes > isize::MAX as u64 {
        return Err(refused(u64::MAX));
    }
    if bytes >= CHECKED_BYTES && host().free.is_some_and(|free| bytes > free) {
        return Err(refused(bytes));
    }
    let before = ASKING.replace(true);
    let answer = request().filter(|_| bytes < LARGE_BYTES || is_margin_left());
    ASKING.set(before);
    answer.ok_or_else(|| refused(bytes))
}

fn is_margin_left() -> bool {
    let mut margin = Vec::<u8>::new();
    let is_left = margin.try_reserve_exact(MARGIN).is_ok();
    // A request whose answer nobody looks at need not be made.
    std::hint::black_box(&mut margin);
    is_left
}

/// The stack of a thread, and what the system and the runtime add to it, bytes.
const STACK: usize = (2 << 20) + (96 << 10);
/// The reserve: what other threads request while these start, and tables that a thread allocates when it begins.
const SPARE: usize = 8 << 20;

/// The bytes needed to start this many threads.
#[must_use]
pub fn needed_by_threads(threads: usize) -> usize {
    threads.saturating_mul(STACK).saturating_add(SPARE)
}

/// Checks that there is memory to start this many threads. A thread that lacks the memory that the runtime needs
/// besides its stack aborts the program, so it must not be started.
///
/// # Errors
/// [`OutOfMemory`].
pub fn for_threads(threads: usize) -> Result<()> {
    let (needed, free) = (needed_by_threads(threads), host().free);
    match free {
        Some(left) if left < needed as u64 => Err(OutOfMemory { bytes: needed as u64, free }),
        // No request is made to see: the allocator might keep its memory, which stacks cannot use then.
        Some(_) => Ok(()),
        None => room::<u8>(needed).map(drop),
    }
}

/// An empty vector with room for `len` elements.
///
/// # Errors
/// [`OutOfMemory`].
pub fn room<T>(len: usize) -> Result<Vec<T>> {
    let mut vector = Vec::new();
    ask::<T, ()>(len, || vector.try_reserve_exact(len).ok())?;
    Ok(vector)
}

/// A vector of zeros. Its pages are touched by whoever writes to them first, and so by all threads.
///
/// # Errors
/// [`OutOfMemory`].
pub fn zeroed<T: Zeroable>(len: usize) -> Result<Vec<T>> {
    let request = || bytemuck::allocation::try_zeroed_slice_box(len).ok();
    Ok(ask::<T, Box<[T]>>(len, request)?.into_vec())
}

/// A vector of one value.
///
/// # Errors
/// [`OutOfMemory`].
pub fn filled<T: Clone>(len: usize, value: T) -> Result<Vec<T>> {
    let mut vector = room(len)?;
    vector.resize(len, value);
    Ok(vector)
}

/// A copy.
///
/// # Errors
/// [`OutOfMemory`].
pub fn copied<T: Clone>(values: &[T]) -> Result<Vec<T>> {
    let mut vector = room(values.len())?;
    vector.extend_from_slice(values);
    Ok(vector)
}

/// Collects an iterator; the memory is requested at once where its length is known.
///
/// # Errors
/// [`OutOfMemory`].
pub fn collected<T>(values: impl IntoIterator<Item = T>) -> Result<Vec<T>> {
    let values = values.into_iter();
    let (least, most) = values.size_hint();
    let mut vector = room(least)?;
    if most == Some(least) {
        vector.extend(values);
        return Ok(vector);
    }
    for value in values {
        push(&mut vector, value)?;
    }
    Ok(vector)
}

/// Collects a parallel iterator of known length, in order.
///
/// # Errors
/// [`OutOfMemory`].
pub fn par_collected<T: Send>(values: impl IndexedParallelIterator<Item = T>) -> Result<Vec<T>> {
    let mut vector = room(values.len())?;
    vector.par_extend(values);
    Ok(vector)
}

/// Appends a value.
///
/// # Errors
/// [`OutOfMemory`].
pub fn push<T>(vector: &mut Vec<T>, value: T) -> Result<()> {
    if vector.len() == vector.capacity() {
        // Many lists are short: those of headers have a value or two.
        let more = vector.len().max(4);
        ask::<T, ()>(vector.len() + more, || vector.try_reserve_exact(more).ok())?;
    }
    vector.push(value);
    Ok(())
}

/// Makes a vector longer by a value, or shorter.
///
/// # Errors
/// [`OutOfMemory`].
pub fn resize<T: Clone>(vector: &mut Vec<T>, len: usize, value: T) -> Result<()> {
    if len > vector.capacity() {
        let more = len - vector.len();
        ask::<T, ()>(len, || vector.try_reserve_exact(more).ok())?;
    }
    vector.resize(len, value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_in_units_that_people_read() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (1, "1 byte"),
            (204, "204 bytes"),
            (1500, "1.5 KiB"),
            (232_448, "227 KiB"),
            (60 << 20, "60 MiB"),
            (18_140_340_224, "16.9 GiB"),
            (141 << 30, "141.0 GiB"),
            (3 << 40, "3.0 TiB"),
        ] {
            assert_eq!(amount(bytes), text);
        }
    }
    use rayon::prelude::*;

    #[test]
    fn what_cannot_be_had_is_refused_and_said() {
        let many = 1usize << 55;
        assert_eq!(zeroed::<f32>(many).unwrap_err().bytes, 1 << 57);
        assert_eq!(zeroed::<f64>(usize::MAX).unwrap_err().bytes, u64::MAX);
        let all = [
            filled(many, 1u8).map(drop),
            room::<u64>(many).map(drop),
            collected(std::iter::repeat_n(1u16, many)).map(drop),
            par_collected((0..many).into_par_iter()).map(drop),
            resize(&mut vec![1u8], many, 0),
        ];
        for refused in all {
            let said = refused.unwrap_err().to_string();
            assert!(
                said.starts_with("out of memory: ") && said.contains(" TiB more were needed"),
                "{said}"
            );
        }
        assert!(!is_asking());
    }

    #[test]
    fn what_can_be_had_is_as_usual() {
        assert_eq!(zeroed::<i64>(3).unwrap(), [0; 3]);
        assert!(zeroed::<i64>(0).unwrap().is_empty());
        assert_eq!(filled(2, 7u8).unwrap(), [7; 2]);
        assert_eq!(copied(&[1, 2]).unwrap(), [1, 2]);
        let odd: Vec<usize> = (0..1000).filter(|i| i % 2 == 1).collect();
        assert_eq!(collected((0..1000).filter(|i| i % 2 == 1)).unwrap(), odd);
        let doubled: Vec<usize> = (0..1000).map(|i| 2 * i).collect();
        assert_eq!(par_collected((0..1000).into_par_iter().map(|i| 2 * i)).unwrap(), doubled);
        let mut vector = vec![1];
        resize(&mut vector, 3, 2).unwrap();
        push(&mut vector, 3).unwrap();
        assert_eq!(vector, [1, 2, 2, 3]);
    }

    #[test]
    fn only_what_may_be_refused_is_asked_for() {
        assert!(!is_asking());
        let inside = ask::<u8, bool>(1, || Some(is_asking())).unwrap();
        assert!(inside && !is_asking());
    }
}
