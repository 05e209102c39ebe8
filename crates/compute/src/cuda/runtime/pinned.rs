//! Page-locked host memory and queues, with which copies and kernels overlap.

use std::iter::once;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};

use super::gpu::Locked;
use super::transfers::Way;
use super::{Cuda, CudaBuffer, Target};
use crate::device::{DeviceBuffer, Element, Memory};
use crate::error::{ComputeError, Result, check_len};
use crate::host::{Arriving, HostBuffer, HostMemory, Queue, zeroed};

/// Elements in page-locked memory.
#[derive(Debug)]
struct Pinned<T: Element> {
    memory: Locked,
    len: usize,
    /// Elements that the memory has room for.
    room: usize,
    element: PhantomData<T>,
}

impl<T: Element> HostMemory<T> for Pinned<T> {
    fn resize(&mut self, len: usize) -> bool {
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

/// Memory that was made elsewhere, and is page-locked as long as this is there.
#[derive(Debug)]
struct Mapped<T: Element> {
    // Dropped before the memory is.
    #[allow(dead_code)]
    registration: Locked,
    memory: HostBuffer<T>,
}

impl<T: Element> HostMemory<T> for Mapped<T> {
    fn resize(&mut self, len: usize) -> bool {
        len == self.memory.len()
    }
}

impl<T: Element> Deref for Mapped<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.memory
    }
}

impl<T: Element> DerefMut for Mapped<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.memory
    }
}

/// The turns of the handle of a queue.
#[derive(Debug)]
pub(in crate::cuda) struct Turns {
    /// Whether one goes on.
    pub(in crate::cuda) open: AtomicBool,
    /// Whether buffers stay from one to the next.
    pub(in crate::cuda) lasting: bool,
}

impl Cuda {
    pub(in crate::cuda) fn pinned<T: Element>(&self, len: usize) -> Result<HostBuffer<T>> {
        match &self.0.target {
            Target::Gpu(gpu) if len > 0 => {
                let bytes = len.checked_mul(size_of::<T>()).filter(|&b| b <= isize::MAX as usize);
                let bytes = bytes.ok_or_else(|| ComputeError::OutOfMemory {
                    device: format!("{}, pinned memory of the host", self.name()),
                    bytes: u64::MAX,
                    free: None,
                })?;
                let memory = gpu.lock_memory(bytes)?;
                Ok(HostBuffer::own(Pinned { memory, len, room: len, element: PhantomData }))
            }
            _ => Ok(HostBuffer::usual(zeroed(len)?)),
        }
    }

    /// The address by which kernels read page-locked memory of the host.
    pub(in crate::cuda) fn host_address<T: Element>(&self, memory: &HostBuffer<T>) -> Result<u64> {
        match &self.0.target {
            Target::Emulated(_) => Ok(memory.as_ptr() as u64),
            Target::Gpu(_) if memory.is_empty() => Ok(0),
            Target::Gpu(gpu) if memory.is::<Pinned<T>>() || memory.is::<Mapped<T>>() => {
                gpu.mapped(memory.as_ptr().cast())
            }
            Target::Gpu(_) => Err(ComputeError::argument(
                "memory of the host that a GPU reads",
                "ordinary memory",
                "page-locked: made by `host_alloc` or `host_map` of the device",
            )),
        }
    }

    /// Memory of the host that kernels read from now on.
    pub(in crate::cuda) fn map<T: Element>(
        &self,
        mut memory: HostBuffer<T>,
    ) -> Result<HostBuffer<T>> {
        match &self.0.target {
            Target::Gpu(gpu) if !memory.is_empty() && !memory.is::<Pinned<T>>() => {
                let bytes = size_of_val(&*memory);
                // SAFETY: the memory is kept beside, and neither moves nor changes its size.
                let registration = unsafe { gpu.lock_lent(memory.as_mut_ptr().cast(), bytes)? };
                Ok(HostBuffer::own(Mapped { registration, memory }))
            }
            _ => Ok(memory),
        }
    }

    pub(in crate::cuda) fn copy_in<T: Element>(
        &self,
        from: &HostBuffer<T>,
        to: &mut CudaBuffer<T>,
    ) -> Result<()> {
        check_len("output", from.len(), to.len())?;
        match &self.0.target {
            Target::Gpu(gpu) if from.is::<Pinned<T>>() => {
                self.count(|ledger| &ledger.uploads);
                self.moves(Way::ToDevice, to.bytes());
                let (source, bytes) = (from.as_ptr().cast(), to.bytes());
                let touch = to.changed_by();
                let target = touch.address;
                // SAFETY: both have that many bytes; one is borrowed for change and the other is not
                // changed until the copy is over, which is waited for.
                self.using(once(touch), || unsafe { gpu.copy_from_locked(source, target, bytes) })
            }
            _ => {
                self.write(from, to, 0)?;
                self.synchronize()
            }
        }
    }

    pub(in crate::cuda) fn copy_out<T: Element>(
        &self,
        from: &CudaBuffer<T>,
        to: &mut HostBuffer<T>,
    ) -> Result<()> {
        check_len("output", from.len(), to.len())?;
        match &self.0.target {
            Target::Gpu(gpu) if to.is::<Pinned<T>>() => {
                self.count(|ledger| &ledger.downloads);
                self.moves(Way::ToHost, from.bytes());
                let (source, bytes) = (from.read_by(), from.bytes());
                let target = to.as_mut_ptr().cast();
                // SAFETY: as in `copy_in`.
                self.using(once(source), || unsafe {
                    gpu.copy_to_locked(source.address, target, bytes)
                })
            }
            _ => self.read(from, 0, to),
        }
    }

    pub(in crate::cuda) fn noted(&self, buffer: &CudaBuffer<f64>) -> Result<Arriving> {
        let (touch, bytes) = (buffer.read_by(), buffer.bytes() as usize);
        self.count(|ledger| &ledger.arrivals);
        let note = match &self.0.target {
            Target::Gpu(gpu) => self.using(once(touch), || gpu.begin_note(touch.address, bytes))?,
            Target::Emulated(_) => None,
        };
        Ok(match note {
            Some(note) => {
                self.moves(Way::ToHost, bytes as u64);
                Arriving::later(move || note.numbers())
            }
            None => {
                let mut here = zeroed(buffer.len())?;
                self.fetch(buffer, 0, &mut here)?;
                Arriving::here(here)
            }
        })
    }

    /// A queue with a stream of its own, whose buffers are for one turn or stay.
    pub(in crate::cuda) fn own_queue(&self, lasting: bool) -> Result<Queue<Self>> {
        let own = self.forked(Some(Turns { open: AtomicBool::new(false), lasting }))?;
        Ok(Queue::new(self.clone(), own))
    }

    pub(in crate::cuda) fn open_turn(&self, base: &Self) -> Result<()> {
        if let Some(turn) = &self.0.turn {
            turn.open.store(true, Ordering::SeqCst);
            self.wait_for(base)?;
        }
        Ok(())
    }

    pub(in crate::cuda) fn close_turn(&self) -> Result<()> {
        let Some(turn) = &self.0.turn else { return Ok(()) };
        // Closed first: a clone that was kept adds nothing after the wait.
        turn.open.store(false, Ordering::SeqCst);
        self.synchronize()?;
        match self.0.live.load(Ordering::SeqCst) {
            _ if turn.lasting => Ok(()),
            0 => Ok(()),
            bytes => Err(ComputeError::argument(
                "buffers of a queue kept beyond their turn",
                format!("{bytes} bytes"),
                "none: make them by the handle that made the queue, or take a lasting queue",
            )),
        }
    }

    /// Refuses the handle of a queue outside of its turns.
    pub(in crate::cuda) fn check_turn(&self) -> Result<()> {
        match &self.0.turn {
            Some(turn) if !turn.open.load(Ordering::SeqCst) => Err(ComputeError::argument(
                "the handle of a queue",
                "used outside of a turn",
                "used by `Queue::run` alone",
            )),
            _ => Ok(()),
        }
    }
}
