//! Buffers in GPU memory.

use std::iter::once;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::lanes::{Access, Touch, Uses};
use super::resident::Resident;
use super::transfers::Way;
use super::{Cuda, MemoryLimit, Target};
use crate::comm::DeviceSums;
use crate::device::{DeviceBuffer, Element, Memory, MemoryInfo, Transfer, not_published};
use crate::error::{ComputeError, Result, check_len, check_part};
use crate::host::{Arriving, HostBuffer, Kept, Queue, zeroed};
use voxalign_image::Elsewhere;

/// Elements in GPU memory. Returned to the pool when dropped, after all work submitted earlier to any handle.
#[derive(Debug)]
pub struct CudaBuffer<T: Element> {
    device: Cuda,
    address: u64,
    len: usize,
    /// Its uses by streams.
    uses: Arc<Uses>,
    origin: Origin,
    element: PhantomData<T>,
}

/// Where memory comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    Pool,
    /// Memory that other processes open.
    Apart,
    /// Memory of another process.
    Opened,
    /// Memory that others of this process hold, who give it back.
    Lent,
}

impl<T: Element> CudaBuffer<T> {
    /// That it is about to be read.
    pub(in crate::cuda) fn read_by(&self) -> Touch<'_> {
        let (address, owner) = (self.address, self.device.identity());
        Touch { address, owner, uses: &self.uses, access: Access::Read }
    }

    /// That it is about to be changed.
    pub(in crate::cuda) fn changed_by(&mut self) -> Touch<'_> {
        Touch { access: Access::Change, ..self.read_by() }
    }

    /// That it is about to be copied to where its uses are not known: others come after that as after a change.
    pub(in crate::cuda) fn copied_by(&self) -> Touch<'_> {
        Touch { access: Access::Change, ..self.read_by() }
    }

    /// Whether it is in the memory of a device, whichever of its handles made it.
    pub(in crate::cuda) fn is_of(&self, device: &Cuda) -> bool {
        self.device.identity() == device.identity()
    }

    /// The address by which kernels of a device read the buffer, also where it is in the memory of another GPU, which is opened to it. The
    /// buffer has to be there, and nobody may change it meanwhile.
    pub(in crate::cuda) fn reached_by(&self, reader: &Cuda) -> Result<u64> {
        if self.device.identity() != reader.identity() {
            match (&self.device.0.target, &reader.0.target) {
                (Target::Gpu(owner), Target::Gpu(reader)) => {
                    if !owner.open_to(reader)? {
                        let (what, expected) =
                            ("memory of another GPU", "one that this machine lets the GPU reach");
                        return Err(ComputeError::argument(what, "not reachable", expected));
                    }
                }
                (Target::Emulated(_), Target::Emulated(_)) => {}
                _ => reader.check_owner(self.device.identity())?,
            }
        }
        Ok(self.address)
    }

    pub(in crate::cuda) fn bytes(&self) -> u64 {
        (self.len * size_of::<T>()) as u64
    }

    /// The bytes that it takes of the memory of this process.
    fn taken(&self) -> u64 {
        match self.origin {
            Origin::Pool | Origin::Apart => self.bytes(),
            Origin::Opened | Origin::Lent => 0,
        }
    }

    /// Where it is in the memory of the device.
    pub(in crate::cuda) fn address(&self) -> u64 {
        self.address
    }
}

impl<T: Element> DeviceBuffer<T> for CudaBuffer<T> {
    fn len(&self) -> usize {
        self.len
    }
}

impl<T: Element> Drop for CudaBuffer<T> {
    fn drop(&mut self) {
        let inner = &self.device.0;
        inner.live.fetch_sub(self.taken(), Ordering::Relaxed);
        inner.ledger.live.fetch_sub(self.taken(), Ordering::Relaxed);
        // Memory of which nobody knows whether it is in use is not given out again.
        if self.uses.wait(&inner.lane, Access::Change).is_ok() {
            match &inner.target {
                Target::Gpu(gpu) => match self.origin {
                    Origin::Pool => gpu.free(self.address),
                    Origin::Apart => gpu.free_apart(self.address),
                    Origin::Opened => gpu.close_apart(self.address),
                    Origin::Lent => {}
                },
                Target::Emulated(_) if self.origin == Origin::Lent => {}
                Target::Emulated(emulated) => {
                    let (emulated, address) = (Arc::clone(emulated), self.address);
                    // Errors are those of work before, which have nobody to go to here.
                    let _ = inner.lane.perform(move || {
                        emulated.free(address);
                        Ok(())
                    });
                }
            }
        }
    }
}

/// The bytes of elements.
fn bytes_of<T: Element>(data: &[T]) -> &[u8] {
    // SAFETY: elements are numbers, without padding; any byte may be read.
    unsafe { std::slice::from_raw_parts(data.as_ptr().cast(), size_of_val(data)) }
}

/// The bytes of elements, to be written.
fn bytes_of_mut<T: Element>(data: &mut [T]) -> &mut [u8] {
    // SAFETY: elements are numbers for which all bits are valid.
    unsafe { std::slice::from_raw_parts_mut(data.as_mut_ptr().cast(), size_of_val(data)) }
}

/// Copies memory of an emulated device.
///
/// # Safety
/// Both have so many elements, and are two.
unsafe fn emulated_copy<T: Element>(from: *const T, to: *mut T, len: usize) -> Result<()> {
    // SAFETY: the caller's.
    unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
    Ok(())
}

impl Cuda {
    /// That so much memory may be taken.
    fn grant(&self, bytes: usize) -> Result<()> {
        let held = self.0.ledger.live.load(Ordering::Relaxed);
        self.limit().grant(bytes as u64, held).map(drop).map_err(|free| ComputeError::OutOfMemory {
            device: self.name(),
            bytes: bytes as u64,
            free: Some(free),
        })
    }

    /// Memory whose content is anything, to be given back by [`Target::free`].
    pub(in crate::cuda) fn take(&self, bytes: usize) -> Result<u64> {
        self.check_turn()?;
        self.grant(bytes)?;
        match &self.0.target {
            Target::Gpu(gpu) => gpu.alloc(bytes),
            Target::Emulated(emulated) => emulated.alloc(bytes),
        }
    }

    /// A buffer whose content is anything; to be written before it is read.
    pub(crate) fn alloc_unset<T: Element>(&self, len: usize) -> Result<CudaBuffer<T>> {
        let bytes = len
            .checked_mul(size_of::<T>())
            .filter(|&b| b <= isize::MAX as usize)
            .ok_or_else(|| ComputeError::OutOfMemory {
                device: self.name(),
                bytes: u64::MAX,
                free: self.memory().free,
            })?;
        let address = self.take(bytes)?;
        Ok(self.holding(address, len, Origin::Pool))
    }

    /// A buffer of memory that was taken.
    fn holding<T: Element>(&self, address: u64, len: usize, origin: Origin) -> CudaBuffer<T> {
        let (inner, uses) = (&self.0, Uses::made_by(&self.0.lane));
        let buffer =
            CudaBuffer { device: self.clone(), address, len, uses, origin, element: PhantomData };
        let (bytes, ledger) = (buffer.taken(), &inner.ledger);
        inner.live.fetch_add(bytes, Ordering::Relaxed);
        let live = ledger.live.fetch_add(bytes, Ordering::Relaxed) + bytes;
        ledger.peak.fetch_max(live, Ordering::Relaxed);
        ledger.allocations.fetch_add(1, Ordering::Relaxed);
        buffer
    }

    /// Memory of this device that others of this process hold.
    ///
    /// # Safety
    /// The memory has that many bytes, and is there, and nobody changes it, as long as the buffer and the work that was asked
    /// of it are.
    pub(in crate::cuda) unsafe fn lent(&self, address: u64, bytes: usize) -> CudaBuffer<u8> {
        self.holding(address, bytes, Origin::Lent)
    }

    /// Copies memory of this device, which another handle holds, to a buffer, and waits for it.
    ///
    /// # Safety
    /// The memory has as many bytes as the buffer, and nobody changes it meanwhile.
    pub(in crate::cuda) unsafe fn copy_here(
        &self,
        from: u64,
        to: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let (bytes, target) = (to.bytes(), to.address);
        self.moves(Way::WithinDevice, bytes);
        self.using(once(to.changed_by()), || match &self.0.target {
            _ if bytes == 0 => Ok(()),
            Target::Gpu(gpu) => gpu.copy(from, target, bytes as usize),
            Target::Emulated(_) => self.0.lane.perform(move || {
                // SAFETY: emulated memory is that of the host; the rest is the caller's care.
                unsafe { emulated_copy(from as *const u8, target as *mut u8, bytes as usize) }
            }),
        })?;
        self.synchronize()
    }

    /// Copies `data` into a buffer from element `first` on.
    pub(crate) fn write<T: Element>(
        &self,
        data: &[T],
        buffer: &mut CudaBuffer<T>,
        first: usize,
    ) -> Result<()> {
        let end = first.saturating_add(data.len());
        if end > buffer.len {
            return check_len("written part of a buffer", buffer.len, end);
        }
        self.count(|ledger| &ledger.uploads);
        self.moves(Way::ToDevice, size_of_val(data) as u64);
        let to = buffer.address + (first * size_of::<T>()) as u64;
        self.using(once(buffer.changed_by()), || match &self.0.target {
            Target::Gpu(gpu) => gpu.upload(bytes_of(data), to),
            Target::Emulated(_) if self.0.lane.backlog.is_some() => {
                let data = data.to_vec();
                self.0.lane.perform(move || {
                    // SAFETY: as below; its memory is kept until the device goes.
                    unsafe { emulated_copy(data.as_ptr(), to as *mut T, data.len()) }
                })
            }
            // SAFETY: the emulated buffer is host memory of at least that length, and it is borrowed for
            // change.
            Target::Emulated(_) => unsafe {
                emulated_copy(data.as_ptr(), to as *mut T, data.len())
            },
        })
    }

    /// Copies elements of a buffer, from `first` on, to `out`, and waits for them.
    pub(crate) fn read<T: Element>(
        &self,
        buffer: &CudaBuffer<T>,
        first: usize,
        out: &mut [T],
    ) -> Result<()> {
        self.count(|ledger| &ledger.downloads);
        self.fetch(buffer, first, out)
    }

    /// The same without being counted.
    pub(in crate::cuda) fn fetch<T: Element>(
        &self,
        buffer: &CudaBuffer<T>,
        first: usize,
        out: &mut [T],
    ) -> Result<()> {
        let end = first.saturating_add(out.len());
        if end > buffer.len {
            return check_len("read part of a buffer", buffer.len, end);
        }
        let from = buffer.address + (first * size_of::<T>()) as u64;
        self.moves(Way::ToHost, size_of_val(out) as u64);
        let asked = self.0.lane.asked();
        self.using(once(buffer.read_by()), || match &self.0.target {
            Target::Gpu(gpu) => gpu.download(from, bytes_of_mut(out)),
            Target::Emulated(_) => {
                self.0.lane.catch_up(u64::MAX)?;
                // SAFETY: as in `write`.
                unsafe { emulated_copy(from as *const T, out.as_mut_ptr(), out.len()) }
            }
        })?;
        // What came before in the stream is over, too.
        self.0.lane.ended(asked);
        Ok(())
    }

    /// Sets all elements to zero.
    pub(crate) fn zero<T: Element>(&self, buffer: &mut CudaBuffer<T>) -> Result<()> {
        let (bytes, address) = (buffer.bytes() as usize, buffer.address);
        if bytes == 0 {
            return self.check_owner(buffer.read_by().owner);
        }
        self.count(|ledger| &ledger.clears);
        self.using(once(buffer.changed_by()), || match &self.0.target {
            Target::Gpu(gpu) => gpu.zero(address, bytes),
            Target::Emulated(_) => self.0.lane.perform(move || {
                // SAFETY: the buffer is host memory of that length, and is borrowed for change.
                unsafe { std::ptr::write_bytes(address as *mut u8, 0, bytes) };
                Ok(())
            }),
        })
    }
}

/// Bytes whose clearing keeps a GPU busy for some 50 us and more.
const BUSY: usize = 256 << 20;

impl Cuda {
    /// Device seconds of each of this many calls of `f`, none of which downloads anything to the host. All are
    /// submitted before the device reaches the first, so that it never waits for the host.
    pub(crate) fn laps(
        &self,
        count: usize,
        f: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<Vec<f64>> {
        // What happens only once, such as compiling a kernel, does not count.
        f(0)?;
        match &self.0.target {
            Target::Gpu(gpu) => {
                let mut busy = self.alloc_unset::<u32>(BUSY / size_of::<u32>())?;
                gpu.laps(count, &mut |lap| match lap {
                    Some(i) => f(i),
                    None => {
                        (0..count.div_ceil(5)).try_for_each(|_| self.zero(&mut busy))?;
                        f(0)
                    }
                })
            }
            Target::Emulated(_) => {
                let timed = |i| {
                    let start = std::time::Instant::now();
                    f(i)?;
                    Ok(start.elapsed().as_secs_f64())
                };
                (0..count).map(timed).collect()
            }
        }
    }
}

impl Memory for Cuda {
    type Buffer<T: Element> = CudaBuffer<T>;

    fn name(&self) -> String {
        match &self.0.target {
            Target::Gpu(gpu) => gpu.name(),
            Target::Emulated(_) => super::emulated::NAME.into(),
        }
    }

    fn alloc<T: Element>(&self, len: usize) -> Result<CudaBuffer<T>> {
        let mut buffer = self.alloc_unset(len)?;
        self.zero(&mut buffer)?;
        Ok(buffer)
    }

    fn upload<T: Element>(&self, data: &[T]) -> Result<CudaBuffer<T>> {
        let mut buffer = self.alloc_unset(data.len())?;
        self.write(data, &mut buffer, 0)?;
        Ok(buffer)
    }

    fn upload_vec<T: Element>(&self, data: Vec<T>) -> Result<CudaBuffer<T>> {
        self.upload(&data)
    }

    fn download<T: Element>(&self, buffer: &CudaBuffer<T>) -> Result<Vec<T>> {
        let mut out = zeroed(buffer.len)?;
        self.read(buffer, 0, &mut out)?;
        Ok(out)
    }

    fn download_into<T: Element>(&self, buffer: &CudaBuffer<T>, out: &mut [T]) -> Result<()> {
        check_len("output", buffer.len, out.len())?;
        self.read(buffer, 0, out)
    }

    fn download_part<T: Element>(
        &self,
        buffer: &CudaBuffer<T>,
        first: usize,
        out: &mut [T],
    ) -> Result<()> {
        check_part(buffer.len, first, out.len())?;
        self.read(buffer, first, out)
    }

    fn into_host<T: Element>(&self, buffer: CudaBuffer<T>) -> Result<Vec<T>> {
        self.download(&buffer)
    }

    fn copy<T: Element>(&self, from: &CudaBuffer<T>, to: &mut CudaBuffer<T>) -> Result<()> {
        check_len("output", from.len, to.len)?;
        let (bytes, source, target) = (from.bytes() as usize, from.address, to.address);
        self.moves(Way::WithinDevice, from.bytes());
        self.using([from.read_by(), to.changed_by()].into_iter(), || match &self.0.target {
            _ if bytes == 0 => Ok(()),
            Target::Gpu(gpu) => gpu.copy(source, target, bytes),
            Target::Emulated(_) => self.0.lane.perform(move || {
                // SAFETY: both are host memory of that length; one is borrowed for change, so they
                // are two.
                unsafe { emulated_copy(source as *const u8, target as *mut u8, bytes) }
            }),
        })
    }

    fn upload_into<T: Element>(&self, buffer: &mut CudaBuffer<T>, data: &[T]) -> Result<()> {
        check_len("data for a buffer", buffer.len, data.len())?;
        self.write(data, buffer, 0)
    }

    fn upload_part<T: Element>(
        &self,
        buffer: &mut CudaBuffer<T>,
        first: usize,
        data: &[T],
    ) -> Result<()> {
        check_part(buffer.len, first, data.len())?;
        self.write(data, buffer, first)
    }

    fn sums(devices: &[Self]) -> Box<dyn DeviceSums<Self>> {
        super::nccl::sums(devices)
    }

    fn here(&self, values: &dyn Elsewhere<f32>) -> Result<Option<CudaBuffer<f32>>> {
        let resident = values.as_any().downcast_ref::<Resident>();
        resident.map_or(Ok(None), |resident| resident.copied_to(self))
    }

    fn kept(&self, buffer: CudaBuffer<f32>) -> Result<Kept> {
        Ok(Kept::Elsewhere(Arc::new(Resident::new(self, buffer)?)))
    }

    fn synchronize(&self) -> Result<()> {
        let asked = self.0.lane.asked();
        match &self.0.target {
            Target::Gpu(gpu) => gpu.synchronize()?,
            Target::Emulated(_) => self.0.lane.catch_up(asked)?,
        }
        self.0.lane.ended(asked);
        Ok(())
    }

    fn has_own_memory(&self) -> bool {
        true
    }

    fn memory(&self) -> MemoryInfo {
        let ledger = &self.0.ledger;
        let (total, free) = match &self.0.target {
            Target::Gpu(gpu) => (Some(gpu.info().memory), gpu.free_memory()),
            Target::Emulated(_) => match *self.limit() {
                MemoryLimit::Bytes(total) => {
                    (Some(total), Some(total.saturating_sub(ledger.live.load(Ordering::Relaxed))))
                }
                _ => (None, None),
            },
        };
        MemoryInfo { total, free, peak: Some(ledger.peak.load(Ordering::Relaxed)) }
    }

    fn seconds(&self, f: &mut dyn FnMut() -> Result<()>) -> Result<f64> {
        match &self.0.target {
            Target::Gpu(gpu) => gpu.seconds(f),
            Target::Emulated(_) => {
                let start = std::time::Instant::now();
                f()?;
                Ok(start.elapsed().as_secs_f64())
            }
        }
    }
}

impl Transfer for Cuda {
    fn host_alloc<T: Element>(&self, len: usize) -> Result<HostBuffer<T>> {
        self.pinned(len)
    }

    fn host_map<T: Element>(&self, memory: HostBuffer<T>) -> Result<HostBuffer<T>> {
        self.map(memory)
    }

    fn publish<T: Element>(&self, from: &CudaBuffer<T>) -> Result<(CudaBuffer<T>, Vec<u8>)> {
        let Target::Gpu(gpu) = &self.0.target else { return Err(not_published(&self.name())) };
        self.grant(from.bytes() as usize)?;
        let (address, handle) = gpu.alloc_apart(from.bytes() as usize)?;
        let mut published = self.holding(address, from.len, Origin::Apart);
        self.copy(from, &mut published)?;
        self.synchronize()?;
        Ok((published, handle))
    }

    fn open_published<T: Element>(&self, handle: &[u8], len: usize) -> Result<CudaBuffer<T>> {
        let Target::Gpu(gpu) = &self.0.target else { return Err(not_published(&self.name())) };
        match gpu.open_apart(handle)? {
            Some(address) => Ok(self.holding(address, len, Origin::Opened)),
            None => Err(not_published(&self.name())),
        }
    }

    fn upload_from<T: Element>(&self, from: &HostBuffer<T>, to: &mut CudaBuffer<T>) -> Result<()> {
        self.copy_in(from, to)
    }

    fn download_to<T: Element>(&self, from: &CudaBuffer<T>, to: &mut HostBuffer<T>) -> Result<()> {
        self.copy_out(from, to)
    }

    fn arriving(&self, buffer: &CudaBuffer<f64>) -> Result<Arriving> {
        self.noted(buffer)
    }

    fn queue(&self) -> Result<Queue<Self>> {
        self.own_queue(false)
    }

    fn lasting_queue(&self) -> Result<Queue<Self>> {
        self.own_queue(true)
    }

    fn begin_turn(&self, base: &Self) -> Result<()> {
        self.open_turn(base)
    }

    fn end_turn(&self) -> Result<()> {
        self.close_turn()
    }
}
