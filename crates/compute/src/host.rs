//! Host memory that a device copies from and to directly, and work queues.

use std::alloc::{Layout, alloc_zeroed};
use std::any::Any;
use std::fmt::{self, Debug, Formatter};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use voxalign_image::{Elsewhere, memory};

use crate::device::{Element, Transfer};
use crate::error::{ComputeError, Result};

/// A vector of zeros, or an error with the size requested. The pages are touched by whoever writes to them first,
/// and so by all threads.
///
/// # Errors
/// [`ComputeError::OutOfMemory`] with the size asked for.
pub fn zeroed<T: Element>(len: usize) -> Result<Vec<T>> {
    if len == 0 {
        return Ok(Vec::new());
    }
    let start = memory::ask::<T, _>(len, || {
        let layout = Layout::array::<T>(len).ok()?;
        // SAFETY: the layout has a size above zero, as `len` is and elements are not zero-sized.
        NonNull::new(unsafe { alloc_zeroed(layout) }.cast::<T>())
    })?;
    // SAFETY: `start` was allocated by the global allocator with the layout of `len` elements, and
    // all bits zero is a valid value of every `Element`, a sealed trait of plain numbers.
    Ok(unsafe { Vec::from_raw_parts(start.as_ptr(), len, len) })
}

/// Memory of the host that a backend makes in a way of its own, such as page-locked memory.
pub trait HostMemory<T: Element>: DerefMut<Target = [T]> + Any + Debug + Send + Sync {
    /// Lets it have `len` elements, whatever they hold, where there is room for as many; whether there is.
    fn resize(&mut self, len: usize) -> bool;
}

/// Elements in the memory of the host that a device copies from and to without a detour: page-locked
/// for a GPU. Made by [`Transfer::host_alloc`].
#[derive(Debug)]
pub struct HostBuffer<T: Element>(Storage<T>);

#[derive(Debug)]
enum Storage<T: Element> {
    Usual(Vec<T>),
    Own(Box<dyn HostMemory<T>>),
}

impl<T: Element> HostBuffer<T> {
    /// Elements in ordinary memory.
    #[must_use]
    pub fn usual(data: Vec<T>) -> Self {
        Self(Storage::Usual(data))
    }

    /// Elements in memory that a backend has made.
    #[must_use]
    pub fn own(memory: impl HostMemory<T>) -> Self {
        Self(Storage::Own(Box::new(memory)))
    }

    /// The memory, where it is ordinary.
    pub fn usual_mut(&mut self) -> Option<&mut Vec<T>> {
        match &mut self.0 {
            Storage::Usual(data) => Some(data),
            Storage::Own(_) => None,
        }
    }

    /// Whether it is memory of a kind that a backend makes.
    #[must_use]
    pub fn is<M: HostMemory<T>>(&self) -> bool {
        match &self.0 {
            Storage::Usual(_) => false,
            Storage::Own(memory) => {
                let memory: &dyn Any = &**memory;
                memory.is::<M>()
            }
        }
    }

    /// Lets it have `len` elements, whatever they hold, where its memory has room for as many; whether it
    /// has.
    pub fn resize(&mut self, len: usize) -> bool {
        match &mut self.0 {
            Storage::Usual(data) if len <= data.capacity() => {
                data.resize(len, T::default());
                true
            }
            Storage::Own(memory) => memory.resize(len),
            Storage::Usual(_) => false,
        }
    }
}

impl<T: Element> Deref for HostBuffer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.0 {
            Storage::Usual(data) => data,
            Storage::Own(memory) => memory,
        }
    }
}

impl<T: Element> DerefMut for HostBuffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match &mut self.0 {
            Storage::Usual(data) => data,
            Storage::Own(memory) => memory,
        }
    }
}

/// Where the values of a buffer are kept as those of an image.
#[derive(Debug)]
pub enum Kept {
    /// On the host.
    Here(Vec<f32>),
    /// In the memory of the device.
    Elsewhere(Arc<dyn Elsewhere<f32>>),
}

/// A function that waits for numbers.
type Wait = dyn FnOnce() -> Result<Vec<f64>> + Send + Sync;

/// Numbers on their way to the host. Made by [`Transfer::arriving`].
pub struct Arriving(Source);

enum Source {
    Here(Vec<f64>),
    Later(Box<Wait>),
}

impl Debug for Arriving {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Source::Here(numbers) => write!(f, "{numbers:?}"),
            Source::Later(_) => f.write_str("on their way"),
        }
    }
}

impl Arriving {
    /// Numbers that are here.
    #[must_use]
    pub fn here(numbers: Vec<f64>) -> Self {
        Self(Source::Here(numbers))
    }

    /// Numbers that `wait` waits for and returns; it is dropped if they are not needed.
    #[must_use]
    pub fn later(wait: impl FnOnce() -> Result<Vec<f64>> + Send + Sync + 'static) -> Self {
        Self(Source::Later(Box::new(wait)))
    }

    /// The numbers, once they are here.
    ///
    /// # Errors
    /// What failed on the device before.
    pub fn wait(self) -> Result<Vec<f64>> {
        match self.0 {
            Source::Here(numbers) => Ok(numbers),
            Source::Later(wait) => wait(),
        }
    }
}

/// A work queue on a device: work of different queues may run at the same time. Made by [`Transfer::queue`].
///
/// ```
/// use voxalign_compute::select::DeviceChoice;
/// use voxalign_compute::{ComputeError, Memory, Transfer};
///
/// let device = DeviceChoice::Auto.open(None)?;
/// let queue = device.queue()?;
/// let mut buffer = device.alloc::<f32>(3)?;
/// let mut host = device.host_alloc(3)?;
/// host.copy_from_slice(&[1.0, 2.0, 3.0]);
/// queue.run(|device| device.upload_from(&host, &mut buffer))?;
/// assert_eq!(device.into_host(buffer)?, [1.0, 2.0, 3.0]);
/// # Ok::<(), ComputeError>(())
/// ```
#[derive(Debug)]
pub struct Queue<M: Transfer> {
    /// The handle whose buffers are worked on.
    base: M,
    /// The handle of the queue; one turn at a time.
    own: Mutex<M>,
}

impl<M: Transfer> Queue<M> {
    /// The queue of a handle of its own, `own`, for buffers of `base`. A backend makes it, whose
    /// [`Transfer::begin_turn`] and [`Transfer::end_turn`] are asked for every turn.
    pub fn new(base: M, own: M) -> Self {
        Self { base, own: Mutex::new(own) }
    }

    /// The same queue, with its handles converted to equivalent ones.
    pub(crate) fn turned<N: Transfer>(self, turn: impl Fn(M) -> N) -> Queue<N> {
        let own = self.own.into_inner().unwrap_or_else(PoisonError::into_inner);
        Queue { base: turn(self.base), own: Mutex::new(turn(own)) }
    }

    /// Does some work through the handle of the queue, on buffers that the device's other handles made.
    /// It begins after all that the handle was asked for which made the queue, and is over when
    /// this returns: buffers can be handed on.
    ///
    /// Meanwhile the other handles can be used as well, by `work` itself or by other threads. Whatever several
    /// handles do to one buffer, reading, changing or dropping it, happens in the order in which it is asked
    /// for; nothing else is waited for. A turn within a turn of the same queue would wait for ever.
    ///
    /// The handle and the buffers that it makes are for this turn: a clone is refused afterwards, and
    /// buffers that are still there are an error.
    ///
    /// # Errors
    /// What `work` returns; what failed on the device.
    pub fn run<R, E: From<ComputeError>>(
        &self,
        work: impl FnOnce(&M) -> std::result::Result<R, E>,
    ) -> std::result::Result<R, E> {
        let (mut work, mut result) = (Some(work), None);
        let ended = self.turn(&mut |own| result = work.take().map(|work| work(own)))?;
        match result {
            Some(Ok(value)) => ended.map(|()| value).map_err(E::from),
            Some(Err(e)) => Err(e),
            None => {
                Err(E::from(ComputeError::argument("a turn", "without its work", "one with it")))
            }
        }
    }

    /// A turn, which begins and ends; the outer result is that of the beginning. Compiled once, for any work.
    fn turn(&self, work: &mut dyn FnMut(&M)) -> Result<Result<()>> {
        let own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        // Ends the turn on a panic as well.
        let turn = Open { own: &*own };
        own.begin_turn(&self.base)?;
        work(&own);
        Ok(turn.end())
    }
}

struct Open<'q, M: Transfer> {
    own: &'q M,
}

impl<M: Transfer> Open<'_, M> {
    fn end(self) -> Result<()> {
        let own = self.own;
        std::mem::forget(self);
        own.end_turn()
    }
}

impl<M: Transfer> Drop for Open<'_, M> {
    fn drop(&mut self) {
        // Only after a panic or a failed begin, which say more.
        let _ = self.own.end_turn();
    }
}
