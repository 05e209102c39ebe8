//! Values that are not in the memory of the host.

use crate::error::Result;
use std::any::Any;
use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Values, x fastest, in another memory than that of the host, such as that of a GPU. They do not change.
pub trait Elsewhere<T>: Debug + Send + Sync {
    /// By which whoever knows the memory finds its own.
    fn as_any(&self) -> &dyn Any;

    /// How many there are.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A copy on the host.
    ///
    /// # Errors
    /// Memory that runs out, what fails where they are.
    fn bring(&self) -> Result<Vec<T>>;

    /// Whether they equal these, of the same number, as they would on the host; none where that cannot be found out without
    /// bringing them.
    fn holds(&self, values: &Values<'_, T>) -> Option<bool>;
}

/// Values to compare others with.
#[derive(Debug)]
pub enum Values<'a, T> {
    /// On the host.
    Here(&'a [T]),
    /// In another memory.
    Elsewhere(&'a dyn Elsewhere<T>),
}

/// What was brought of values that are elsewhere, for all copies of their image.
#[derive(Debug)]
pub(crate) struct Brought<T> {
    values: OnceLock<Vec<T>>,
    /// Whether a thread is bringing them.
    begun: AtomicBool,
}

/// How long a thread that has nothing else to do waits before it looks again.
const PAUSE: Duration = Duration::from_micros(200);

/// How many pauses it waits at most. Threads of a pool take on other work of it while they wait for their own: what is waited for
/// here may be below this on the stack of a thread, and never end.
const PAUSES: usize = 2_500;

/// The turn of the thread that brings values; it ends also where that fails or panics.
struct Turn<'a>(&'a AtomicBool);

impl<'a> Turn<'a> {
    /// The turn, unless another thread has it.
    fn of(begun: &'a AtomicBool) -> Option<Self> {
        // Not made where another has it: its end would end that of the other.
        (!begun.swap(true, Ordering::AcqRel)).then(|| Self(begun))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl<T> Brought<T> {
    pub(crate) fn nothing() -> Arc<Self> {
        Arc::new(Self { values: OnceLock::new(), begun: AtomicBool::new(false) })
    }

    /// What is here.
    pub(crate) fn here(&self) -> Option<&[T]> {
        self.values.get().map(Vec::as_slice)
    }

    /// The values, where no other image shares them.
    pub(crate) fn taken(brought: &mut Arc<Self>) -> Option<Vec<T>> {
        Arc::get_mut(brought)?.values.take()
    }

    /// The values, brought unless they are here: by one thread, while others wait for it. Where it fails, the next one tries.
    pub(crate) fn all(&self, from: &dyn Elsewhere<T>) -> Result<&[T]> {
        let (mut turn, mut left) = (None, PAUSES);
        while self.here().is_none() && turn.is_none() && left > 0 {
            turn = Turn::of(&self.begun);
            // What is waited for may need the threads of this pool.
            if turn.is_none() && rayon::yield_now() != Some(rayon::Yield::Executed) {
                std::thread::sleep(PAUSE);
                left -= 1;
            }
        }
        // Another's turn may have ended just before this one began.
        if let Some(values) = self.here() {
            return Ok(values);
        }
        let values = from.bring()?;
        Ok(self.values.get_or_init(|| values))
    }
}

/// An image to be compared: its values on the host, where they are there, and where they are else.
pub(crate) type Compared<'a, T> = (Option<&'a [T]>, Option<&'a Arc<dyn Elsewhere<T>>>);

/// Whether two images have the same values. Nothing is brought for it: where that cannot be told otherwise, they have not.
pub(crate) fn same<T: PartialEq>(one: Compared<'_, T>, other: Compared<'_, T>) -> bool {
    match (one, other) {
        ((Some(one), _), (Some(other), _)) => one == other,
        ((_, Some(one)), (_, Some(other))) => {
            Arc::ptr_eq(one, other) || one.holds(&Values::Elsewhere(&**other)) == Some(true)
        }
        ((_, Some(away)), (Some(here), _)) | ((Some(here), _), (_, Some(away))) => {
            away.holds(&Values::Here(here)) == Some(true)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ImageError;
    use rayon::prelude::*;
    use std::sync::atomic::AtomicUsize;

    /// Values that need the threads of the pool to be brought, which take their time, and fail so often.
    #[derive(Debug)]
    struct Slow {
        brought: AtomicUsize,
        fail: usize,
    }

    impl Elsewhere<i32> for Slow {
        fn as_any(&self) -> &dyn Any {
            self
        }

        fn len(&self) -> usize {
            64
        }

        fn bring(&self) -> Result<Vec<i32>> {
            let times = self.brought.fetch_add(1, Ordering::SeqCst);
            let values = (0..64).into_par_iter().map(|i| {
                std::thread::sleep(PAUSE);
                i
            });
            let values = values.collect();
            match times < self.fail {
                true => Err(ImageError::Elsewhere("not yet".into())),
                false => Ok(values),
            }
        }

        fn holds(&self, _: &Values<'_, i32>) -> Option<bool> {
            None
        }
    }

    #[test]
    fn threads_that_need_values_at_once_have_them_brought_once() {
        let slow = Slow { brought: 0.into(), fail: 0 };
        let brought = Brought::nothing();
        let start = std::sync::Barrier::new(4);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    start.wait();
                    assert_eq!(brought.all(&slow).unwrap()[63], 63);
                });
            }
        });
        assert_eq!(slow.brought.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn what_failed_is_tried_again() {
        let slow = Slow { brought: 0.into(), fail: 1 };
        let brought = Brought::nothing();
        assert!(brought.all(&slow).is_err() && brought.here().is_none());
        assert_eq!(brought.all(&slow).unwrap().len(), 64);
        assert!(brought.all(&slow).is_ok() && slow.brought.load(Ordering::SeqCst) == 2);
    }

    /// Threads of one pool that wait for each other, and for work of that pool, get there.
    #[test]
    fn threads_of_a_pool_do_not_wait_for_ever() {
        for threads in [1, 2, 3] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let slow = [(); 2].map(|()| Slow { brought: 0.into(), fail: 0 });
            let brought = [(); 2].map(|()| Brought::nothing());
            let all = || {
                (0..64).into_par_iter().for_each(|i| {
                    assert_eq!(brought[i % 2].all(&slow[i % 2]).unwrap().len(), 64);
                });
            };
            std::thread::scope(|scope| {
                scope.spawn(|| pool.install(all));
                scope.spawn(|| pool.install(all));
            });
        }
    }
}
