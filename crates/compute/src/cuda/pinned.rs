//! Page-locked memory of the host, and queues: what lets copies and kernels run at the same time.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};

use super::gpu::Locked;
use super::{Cuda, CudaBuffer, Target};
use crate::cpu::zeroed;
use crate::device::{DeviceBuffer, Element, Memory};
use crate::error::{ComputeError, Result, check_len};
use crate::host::{HostBuffer, Queue, Storage};

/// Elements in page-locked memory.
#[derive(Debug)]
pub(crate) struct Pinned<T: Element> {
    memory: Locked,
    len: usize,
    /// Elements that the memory has room for.
    room: usize,
    element: PhantomData<T>,
}

impl<T: Element> Pinned<T> {
    pub(crate) fn resize(&mut self, len: usize) -> bool {
        let fits = len <= self.room;
        if fits {
            self.len = len;
        }
        fits
    }
}

impl<T: Element> Deref for Pinned<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the memory has room for `room` elements, and so for `len`, is aligned to a page and was zeroed, which is a
        // value of every `Element`, when it was made; copies by the device are over when calls return.
        unsafe { std::slice::from_raw_parts(self.memory.address().cast(), self.len) }
    }
}

impl<T: Element> DerefMut for Pinned<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`; it is borrowed for change.
        unsafe { std::slice::from_raw_parts_mut(self.memory.address().cast(), self.len) }
    }
}

impl Cuda {
    pub(super) fn pinned<T: Element>(&self, len: usize) -> Result<HostBuffer<T>> {
        match &self.0.target {
            Target::Gpu(gpu) if len > 0 => {
                let bytes = len.checked_mul(size_of::<T>()).filter(|&b| b <= isize::MAX as usize);
                let bytes = bytes.ok_or_else(|| ComputeError::OutOfMemory {
                    device: format!("{}, pinned memory of the host", self.name()),
                    bytes: u64::MAX,
                    free: None,
                })?;
                let memory = gpu.lock_memory(bytes)?;
                Ok(HostBuffer(Storage::Pinned(Pinned {
                    memory,
                    len,
                    room: len,
                    element: PhantomData,
                })))
            }
            _ => Ok(HostBuffer::usual(zeroed(len)?)),
        }
    }

    pub(super) fn copy_in<T: Element>(
        &self,
        from: &HostBuffer<T>,
        to: &mut CudaBuffer<T>,
    ) -> Result<()> {
        check_len("output", from.len(), to.len())?;
        match (&self.0.target, &from.0) {
            (Target::Gpu(gpu), Storage::Pinned(_)) => {
                self.check_owner(to.owner())?;
                // SAFETY: both have that many bytes; one is borrowed for change and the other is not
                // changed until the copy is over, which is waited for.
                unsafe { gpu.copy_from_locked(from.as_ptr().cast(), to.address(), to.bytes()) }
            }
            _ => {
                self.write(from, to, 0)?;
                self.synchronize()
            }
        }
    }

    pub(super) fn copy_out<T: Element>(
        &self,
        from: &CudaBuffer<T>,
        to: &mut HostBuffer<T>,
    ) -> Result<()> {
        check_len("output", from.len(), to.len())?;
        match (&self.0.target, &to.0) {
            (Target::Gpu(gpu), Storage::Pinned(_)) => {
                self.check_owner(from.owner())?;
                // SAFETY: as in `copy_in`.
                unsafe { gpu.copy_to_locked(from.address(), to.as_mut_ptr().cast(), from.bytes()) }
            }
            _ => self.read(from, 0, to),
        }
    }

    /// A queue with a stream of its own, whose buffers are for one turn or stay; the emulation has but one.
    pub(super) fn own_queue(&self, lasting: bool) -> Result<Queue<Self>> {
        let base = lasting.then(|| self.clone());
        let own = match &self.0.target {
            Target::Gpu(gpu) => Self::with_turns(Target::Gpu(gpu.fork()?), base),
            Target::Emulated(_) => self.clone(),
        };
        if lasting && own.0.base.is_some() {
            let mut all = self.0.lasting.lock().unwrap_or_else(PoisonError::into_inner);
            all.retain(|queue| queue.strong_count() > 0);
            all.push(Arc::downgrade(&own.0));
        }
        Ok(Queue::new(self.clone(), own))
    }

    /// Lets this stream wait for those that may still use its buffers: that of the handle which made this
    /// one, and those of lasting queues.
    pub(super) fn wait_for_users(&self) {
        // One that cannot be waited for runs nothing any more.
        if let Some(base) = &self.0.base {
            let _ = self.wait_for(base);
        }
        let lasting = self.0.lasting.lock().unwrap_or_else(PoisonError::into_inner);
        for queue in lasting.iter().filter_map(Weak::upgrade) {
            let _ = self.wait_for(&Self(queue));
        }
    }

    pub(super) fn open_turn(&self, base: &Self) -> Result<()> {
        if let Some(open) = &self.0.turn {
            // In this stream all that follows is after what `base` was asked for, and the turn ends
            // when all of it is done: no buffer is in use by two streams at once.
            open.store(true, Ordering::SeqCst);
            self.wait_for(base)?;
        }
        Ok(())
    }

    pub(super) fn close_turn(&self) -> Result<()> {
        let Some(open) = &self.0.turn else { return Ok(()) };
        // Closed first: a clone that was kept adds nothing after the wait.
        open.store(false, Ordering::SeqCst);
        self.synchronize()?;
        match self.0.live.load(Ordering::SeqCst) {
            _ if self.0.base.is_some() => Ok(()),
            0 => Ok(()),
            bytes => Err(ComputeError::argument(
                "buffers of a queue kept beyond their turn",
                format!("{bytes} bytes"),
                "none: make them by the handle that made the queue, or take a lasting queue",
            )),
        }
    }

    /// Refuses the handle of a queue outside of its turns.
    pub(super) fn check_turn(&self) -> Result<()> {
        match &self.0.turn {
            Some(open) if !open.load(Ordering::SeqCst) => Err(ComputeError::argument(
                "the handle of a queue",
                "used outside of a turn",
                "used by `Queue::run` alone",
            )),
            _ => Ok(()),
        }
    }
}
