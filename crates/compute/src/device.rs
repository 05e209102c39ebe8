//! Devices: where buffers live and operators run.

use std::fmt::Debug;

use crate::comm::{DeviceSums, HostSums};
use crate::error::{ComputeError, Result, check_len, check_part};
use crate::host::{Arriving, HostBuffer, Kept, Queue, zeroed};
use crate::ops;
use voxalign_image::Elsewhere;

mod sealed {
    pub trait Sealed {}
}

/// A number that a buffer can hold. All bits zero is the value zero.
pub trait Element:
    sealed::Sealed + Copy + Default + PartialEq + Debug + Send + Sync + 'static
{
}

macro_rules! elements {
    ($($t:ty),*) => {$(
        impl sealed::Sealed for $t {}
        impl Element for $t {}
    )*};
}
elements!(f32, f64, u8, u16, i16, u32, i32, u64, i64);

/// Elements in the memory of a device.
pub trait DeviceBuffer<T: Element>: Send + Sync {
    /// The number of elements.
    fn len(&self) -> usize;
    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The memory of a device, in bytes, where known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryInfo {
    /// All of it.
    pub total: Option<u64>,
    /// Available now.
    pub free: Option<u64>,
    /// The most that buffers of this handle and of those derived from it have taken at once, where it is counted; of its own memory alone, apart from
    /// the host's.
    pub peak: Option<u64>,
}

/// The memory of a device: making, filling and reading buffers.
///
/// A handle is cheap to clone; clones mean the same device.
pub trait Memory: Clone + Send + Sync + 'static {
    /// A buffer in the memory of this device.
    type Buffer<T: Element>: DeviceBuffer<T>;

    /// The name of the device, for reports and messages.
    fn name(&self) -> String;

    /// A buffer of `len` zeros.
    ///
    /// # Errors
    /// [`OutOfMemory`](crate::ComputeError::OutOfMemory) with the size asked for.
    fn alloc<T: Element>(&self, len: usize) -> Result<Self::Buffer<T>>;

    /// A buffer with a copy of `data`.
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc).
    fn upload<T: Element>(&self, data: &[T]) -> Result<Self::Buffer<T>>;

    /// A buffer with the content of `data`; without a copy where the memory is that of the host.
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc).
    fn upload_vec<T: Element>(&self, data: Vec<T>) -> Result<Self::Buffer<T>>;

    /// The elements of `buffer`, once all work submitted to the device before is done.
    ///
    /// # Errors
    /// [`OutOfMemory`](crate::ComputeError::OutOfMemory), or what failed on the device before.
    fn download<T: Element>(&self, buffer: &Self::Buffer<T>) -> Result<Vec<T>>;

    /// Copies the elements of `buffer` to `out`, of the same length.
    ///
    /// # Errors
    /// [`Length`](crate::ComputeError::Length), or what failed on the device before.
    fn download_into<T: Element>(&self, buffer: &Self::Buffer<T>, out: &mut [T]) -> Result<()>;

    /// Copies the elements of `buffer` from one on to `out`, which is no longer than what there is.
    ///
    /// # Errors
    /// As [`download_into`](Self::download_into).
    fn download_part<T: Element>(
        &self,
        buffer: &Self::Buffer<T>,
        first: usize,
        out: &mut [T],
    ) -> Result<()> {
        check_part(buffer.len(), first, out.len())?;
        let all = self.download(buffer)?;
        out.copy_from_slice(&all[first..first + out.len()]);
        Ok(())
    }

    /// Turns the buffer into host memory; without a copy where it is such memory.
    ///
    /// # Errors
    /// As [`download`](Self::download).
    #[allow(clippy::wrong_self_convention)] // `self` is the device, the buffer is what is turned
    fn into_host<T: Element>(&self, buffer: Self::Buffer<T>) -> Result<Vec<T>>;

    /// A buffer with a copy of the values of an image that are elsewhere; none where that is not the memory of this device.
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc).
    fn here(&self, _values: &dyn Elsewhere<f32>) -> Result<Option<Self::Buffer<f32>>> {
        Ok(None)
    }

    /// The content of a buffer as values of an image, which stay in the memory of the device where it has its own.
    ///
    /// # Errors
    /// As [`download`](Self::download).
    fn kept(&self, buffer: Self::Buffer<f32>) -> Result<Kept> {
        Ok(Kept::Here(self.into_host(buffer)?))
    }

    /// Copies `from` to `to`, of the same length.
    ///
    /// # Errors
    /// [`Length`](crate::ComputeError::Length).
    fn copy<T: Element>(&self, from: &Self::Buffer<T>, to: &mut Self::Buffer<T>) -> Result<()>;

    /// Copies `data` into `buffer`, of the same length.
    ///
    /// # Errors
    /// [`Length`](crate::ComputeError::Length), or as [`alloc`](Self::alloc).
    fn upload_into<T: Element>(&self, buffer: &mut Self::Buffer<T>, data: &[T]) -> Result<()> {
        check_len("data for a buffer", buffer.len(), data.len())?;
        *buffer = self.upload(data)?;
        Ok(())
    }

    /// Copies `data` into the elements of `buffer` from one on, which are no fewer; a large buffer is filled piece by piece, so that the
    /// host never has all of it.
    ///
    /// # Errors
    /// As [`upload_into`](Self::upload_into).
    fn upload_part<T: Element>(
        &self,
        buffer: &mut Self::Buffer<T>,
        first: usize,
        data: &[T],
    ) -> Result<()> {
        check_part(buffer.len(), first, data.len())?;
        let mut all = self.download(buffer)?;
        all[first..first + data.len()].copy_from_slice(data);
        self.upload_into(buffer, &all)
    }

    /// The best way to sum over several such devices of this process.
    fn sums(_devices: &[Self]) -> Box<dyn DeviceSums<Self>> {
        Box::new(HostSums::default())
    }

    /// Waits until all work submitted to the device is done.
    ///
    /// # Errors
    /// What failed on the device since the last wait.
    fn synchronize(&self) -> Result<()>;

    /// The total and the available memory.
    fn memory(&self) -> MemoryInfo;

    /// Whether that is memory of its own, apart from the host's.
    fn has_own_memory(&self) -> bool {
        false
    }

    /// The seconds that the device takes for the work that `f` asks of it. Waits for the work, and
    /// counts neither the wait nor what was asked for before.
    ///
    /// # Errors
    /// What `f` returns, or what failed on the device.
    fn seconds(&self, f: &mut dyn FnMut() -> Result<()>) -> Result<f64> {
        self.synchronize()?;
        let start = std::time::Instant::now();
        f()?;
        self.synchronize()?;
        Ok(start.elapsed().as_secs_f64())
    }
}

/// That other processes do not open the memory of a device.
pub(crate) fn not_published(device: &str) -> ComputeError {
    let (what, expected) = ("memory for other processes", "a GPU");
    ComputeError::argument(what, device, expected)
}

/// Copies past the work of a device: memory of the host that it reaches directly, and queues of their own.
pub trait Transfer: Memory {
    /// Memory of the host for `len` elements, all zero, from and to which this device copies without a
    /// detour: page-locked for a GPU. Such memory is dear: the system cannot use it for anything else.
    ///
    /// # Errors
    /// [`OutOfMemory`](crate::ComputeError::OutOfMemory) with the size asked for.
    fn host_alloc<T: Element>(&self, len: usize) -> Result<HostBuffer<T>> {
        Ok(HostBuffer::usual(zeroed(len)?))
    }

    /// Memory of the host, such as a file that several processes have in their memory, as memory that operators of this device read where they take
    /// such: page-locked for a GPU, and so as dear as that of [`host_alloc`](Self::host_alloc).
    ///
    /// # Errors
    /// [`OutOfMemory`](crate::ComputeError::OutOfMemory), or what the driver says of the memory.
    fn host_map<T: Element>(&self, memory: HostBuffer<T>) -> Result<HostBuffer<T>> {
        Ok(memory)
    }

    /// A copy of a buffer that other processes of this machine can open, and by what they do.
    ///
    /// # Errors
    /// A device whose memory other processes do not open; too little memory.
    fn publish<T: Element>(&self, from: &Self::Buffer<T>) -> Result<(Self::Buffer<T>, Vec<u8>)> {
        let _ = from;
        Err(not_published(&self.name()))
    }

    /// The buffer that another process has [published](Self::publish), of `len` elements: to be read while it is there.
    ///
    /// # Errors
    /// As there; a handle that is none, or of memory that is gone.
    fn open_published<T: Element>(&self, handle: &[u8], len: usize) -> Result<Self::Buffer<T>> {
        let _ = (handle, len);
        Err(not_published(&self.name()))
    }

    /// Copies the elements of `from` to `to`, of the same length, and waits for it.
    ///
    /// # Errors
    /// [`Length`](crate::ComputeError::Length), or what failed on the device before.
    fn upload_from<T: Element>(
        &self,
        from: &HostBuffer<T>,
        to: &mut Self::Buffer<T>,
    ) -> Result<()> {
        check_len("output", from.len(), to.len())?;
        *to = self.upload(from)?;
        self.synchronize()
    }

    /// Copies the elements of `from` to `to`, of the same length, and waits for it.
    ///
    /// # Errors
    /// As [`upload_from`](Self::upload_from).
    fn download_to<T: Element>(
        &self,
        from: &Self::Buffer<T>,
        to: &mut HostBuffer<T>,
    ) -> Result<()> {
        check_len("output", from.len(), to.len())?;
        self.download_into(from, to)
    }

    /// As [`upload_from`](Self::upload_from) where the host needs the elements no longer: what `from` holds
    /// afterwards is anything. In memory of the host both exchange theirs and nothing is copied.
    ///
    /// # Errors
    /// As [`upload_from`](Self::upload_from).
    fn hand_over<T: Element>(
        &self,
        from: &mut HostBuffer<T>,
        to: &mut Self::Buffer<T>,
    ) -> Result<()> {
        self.upload_from(from, to)
    }

    /// As [`download_to`](Self::download_to) where the device needs the elements no longer: what `from`
    /// holds afterwards is anything. In memory of the host both exchange theirs and nothing is copied.
    ///
    /// # Errors
    /// As [`download_to`](Self::download_to).
    fn hand_back<T: Element>(
        &self,
        from: &mut Self::Buffer<T>,
        to: &mut HostBuffer<T>,
    ) -> Result<()> {
        self.download_to(from, to)
    }

    /// Starts a copy of the numbers of `buffer`, after the work submitted so far, to the host: the device goes on
    /// with later work, and only those who need the numbers wait for them.
    ///
    /// # Errors
    /// As [`download`](Memory::download).
    fn arriving(&self, buffer: &Self::Buffer<f64>) -> Result<Arriving> {
        Ok(Arriving::here(self.download(buffer)?))
    }

    /// A queue of work of its own on this device; where there are none, one that does the work at
    /// once.
    ///
    /// # Errors
    /// What failed on the device before.
    fn queue(&self) -> Result<Queue<Self>> {
        Ok(Queue::new(self.clone(), self.clone()))
    }

    /// As [`queue`](Self::queue), for work that keeps what it has from one turn to the next: the handle of its
    /// turns can be kept for later ones, and so can the buffers that it makes.
    ///
    /// # Errors
    /// What failed on the device before.
    fn lasting_queue(&self) -> Result<Queue<Self>> {
        self.queue()
    }

    /// Opens the handle of a queue for a turn, after the work submitted to `base`. A backend with queues of its own
    /// has it; only [`Queue::run`] calls it.
    ///
    /// # Errors
    /// What failed on the device before.
    fn begin_turn(&self, base: &Self) -> Result<()> {
        let _ = base;
        Ok(())
    }

    /// Waits for the work of the turn and closes the handle. As [`begin_turn`](Self::begin_turn).
    ///
    /// # Errors
    /// What failed on the device.
    fn end_turn(&self) -> Result<()> {
        Ok(())
    }
}

/// A device with all families of operators. Algorithms are generic over it.
///
/// A backend implements [`Memory`], [`Transfer`] and every trait of [`ops`]; `docs/extending.md` says how, and how
/// the conformance tests are run on it.
pub trait Device:
    Memory
    + Transfer
    + ops::Elementwise
    + ops::Reduce
    + ops::Resample
    + ops::Stencil
    + ops::Filter
    + ops::Fourier
    + ops::Front
    + ops::Regions
    + ops::Histogram
    + ops::Joint
    + ops::Sort
    + ops::Elastic
    + ops::Flow
    + ops::Similarity
    + ops::Accumulate
    + ops::Raycast
    + ops::Splat
    + ops::Simplices
    + ops::Pairwise
    + ops::Points
    + ops::Sparse
    + ops::Tetrahedra
    + ops::Values
{
}
