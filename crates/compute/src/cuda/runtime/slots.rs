//! A lock-free table of values that are created once and found by number.

use std::sync::{Mutex, OnceLock, PoisonError};

/// Slots of a chunk, which is made where one of them is asked for.
const CHUNK: usize = 256;
/// Chunks: a process has fewer programs than there is room for.
const CHUNKS: usize = 256;

/// Up to 65 536 things.
pub(in crate::cuda) struct Slots<T> {
    chunks: [OnceLock<Box<[Slot<T>]>>; CHUNKS],
}

struct Slot<T> {
    made: OnceLock<T>,
    making: Mutex<()>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { chunks: std::array::from_fn(|_| OnceLock::new()) }
    }
}

impl<T> Slots<T> {
    /// The thing of a number; the first who asks for it makes it, and others wait for that. None where the
    /// number is too large.
    pub(in crate::cuda) fn get<E>(
        &self,
        number: usize,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Option<Result<&T, E>> {
        let chunk = self.chunks.get(number / CHUNK)?.get_or_init(|| {
            (0..CHUNK).map(|_| Slot { made: OnceLock::new(), making: Mutex::default() }).collect()
        });
        let slot = chunk.get(number % CHUNK)?;
        if let Some(made) = slot.made.get() {
            return Some(Ok(made));
        }
        let _making = slot.making.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = slot.made.get() {
            return Some(Ok(made));
        }
        Some(make().map(|made| slot.made.get_or_init(|| made)))
    }
}

impl<T> std::fmt::Debug for Slots<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Slots")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn things_are_made_once_whoever_asks() {
        let (slots, made) = (Slots::default(), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for number in [0, 255, 256, 65_535] {
                        let make = || -> Result<usize, ()> {
                            made.fetch_add(1, Ordering::Relaxed);
                            Ok(number)
                        };
                        assert_eq!(slots.get(number, make), Some(Ok(&number)));
                    }
                });
            }
        });
        assert_eq!(made.into_inner(), 4);
        assert!(slots.get(65_536, || Ok::<_, ()>(0)).is_none());
    }

    #[test]
    fn what_failed_is_tried_again() {
        let slots = Slots::default();
        assert_eq!(slots.get(3, || Err("no")), Some(Err("no")));
        assert_eq!(slots.get(3, || Ok::<_, ()>(7)), Some(Ok(&7)));
    }
}
