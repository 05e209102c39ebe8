//! GPU memory: the pool, copies within it, and copies to and from the host.

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::sys::{self, CUresult};

use super::driver::{Event, check};
use super::{Gpu, Shared, lock};
use crate::error::{ComputeError, Result};

/// Bytes of each of the staging buffers.
const STAGING: usize = 4 << 20;

/// A pinned piece of host memory; dropped where its context is current.
pub(super) struct Staging {
    address: *mut c_void,
    /// The copy from or to it that was asked for last.
    event: Event,
}

impl Drop for Staging {
    fn drop(&mut self) {
        // An error has nobody to go to.
        // SAFETY: the memory is ours; the driver waits for copies of it.
        let _ = unsafe { sys::cuMemFreeHost(self.address) };
    }
}

/// Bytes of the pinned memory of a [`Note`].
const NOTE: usize = 4 << 10;

/// A few numbers that a GPU copies to the host asynchronously.
pub(in crate::cuda) struct Note {
    shared: Arc<Shared>,
    /// Where they come to; none once it was given back.
    pinned: Option<Staging>,
    bytes: usize,
}

// SAFETY: as for `Locked`; the event may be waited for from any thread that makes the context current.
unsafe impl Send for Note {}
// SAFETY: as above; nothing is changed through a shared reference.
unsafe impl Sync for Note {}

impl std::fmt::Debug for Note {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.bytes)
    }
}

impl Note {
    /// Waits for the copy, and for nothing that was asked for after it.
    pub(in crate::cuda) fn numbers(&self) -> Result<Vec<f64>> {
        let Some(pinned) = &self.pinned else { return Ok(Vec::new()) };
        let count = self.bytes / size_of::<f64>();
        self.shared.bind()?;
        // SAFETY: the event is ours. The copy is waited for before its memory is looked at, which is aligned to
        // a page and has so many bytes, all of them of numbers.
        unsafe {
            let code = sys::cuEventSynchronize(pinned.event.0);
            self.shared.checked(code, "work on the device")?;
            Ok(std::slice::from_raw_parts(pinned.address.cast::<f64>(), count).to_vec())
        }
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        // The copy may go on: who takes the memory next waits for it.
        lock(&self.shared.notes).extend(self.pinned.take());
    }
}

/// Page-locked memory of the host, of any GPU's use.
pub(in crate::cuda) struct Locked {
    address: *mut c_void,
    /// Whether it is somebody else's memory, which is no longer locked when this is dropped.
    lent: bool,
    /// Holds the context that the memory was made in.
    shared: Arc<Shared>,
}

// SAFETY: the memory is owned by this alone, as that of a box is, and may be freed from any thread that
// makes the context current.
unsafe impl Send for Locked {}
// SAFETY: as above; nothing is changed through a shared reference.
unsafe impl Sync for Locked {}

impl std::fmt::Debug for Locked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.address)
    }
}

impl Locked {
    pub(in crate::cuda) fn address(&self) -> *mut c_void {
        self.address
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // An error has nobody to go to.
        // SAFETY: the context is held; the memory is ours, and no copy of it goes on: calls wait for theirs.
        unsafe {
            let _ = sys::cuCtxSetCurrent(self.shared.context.handle);
            let _ = match self.lent {
                true => sys::cuMemHostUnregister(self.address),
                false => sys::cuMemFreeHost(self.address),
            };
        }
    }
}

impl Shared {
    /// The error of a failed request; of 0 bytes if the size is unknown.
    pub(in crate::cuda) fn out_of_memory(&self, bytes: u64) -> ComputeError {
        ComputeError::OutOfMemory { device: self.name(), bytes, free: self.free_memory() }
    }

    /// Free memory, including unused memory of the pool.
    pub(in crate::cuda) fn free_memory(&self) -> Option<u64> {
        let (mut free, mut total) = (0, 0);
        // Not by `bind`: errors are made with what is free.
        // SAFETY: the context is held, the pointers are valid.
        unsafe {
            check(sys::cuCtxSetCurrent(self.context.handle)).ok()?;
            check(sys::cuMemGetInfo_v2(&raw mut free, &raw mut total)).ok()?;
        }
        let (reserved, used) = self.pool_use()?;
        Some(free as u64 + reserved.saturating_sub(used))
    }

    /// Bytes that the pool holds, and those of them in use.
    fn pool_use(&self) -> Option<(u64, u64)> {
        let read = |attribute| {
            let mut value = 0u64;
            // SAFETY: the attributes asked for have 64 bits.
            let code = unsafe {
                sys::cuMemPoolGetAttribute(self.pool, attribute, (&raw mut value).cast())
            };
            check(code).ok().map(|()| value)
        };
        Some((
            read(sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)?,
            read(sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)?,
        ))
    }
}

impl Gpu {
    /// Page-locked memory of the host, all zero; of at least one byte.
    pub(in crate::cuda) fn lock_memory(&self, bytes: usize) -> Result<Locked> {
        /// `CU_MEMHOSTALLOC_PORTABLE`: for all GPUs.
        const PORTABLE: u32 = 1;
        self.bind()?;
        let mut address = std::ptr::null_mut();
        // SAFETY: the pointer is valid.
        match unsafe { sys::cuMemHostAlloc(&raw mut address, bytes, PORTABLE) } {
            CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
                return Err(ComputeError::OutOfMemory {
                    device: format!("{}, pinned memory of the host", self.name()),
                    bytes: bytes as u64,
                    free: None,
                });
            }
            code => self.checked(code, "pinned memory")?,
        }
        // SAFETY: the memory is new and has that length.
        unsafe { std::ptr::write_bytes(address.cast::<u8>(), 0, bytes) };
        Ok(Locked { address, lent: false, shared: Arc::clone(&self.shared) })
    }

    /// Locks the pages of memory of the host, of at least one byte, which somebody else owns.
    ///
    /// # Safety
    /// The memory is there until what is returned is dropped.
    pub(in crate::cuda) unsafe fn lock_lent(
        &self,
        address: *mut c_void,
        bytes: usize,
    ) -> Result<Locked> {
        /// `CU_MEMHOSTREGISTER_PORTABLE`, for all GPUs, and `CU_MEMHOSTREGISTER_DEVICEMAP`, for their kernels.
        const PORTABLE_AND_MAPPED: u32 = 3;
        self.bind()?;
        // SAFETY: passed on to the caller.
        let code = unsafe { sys::cuMemHostRegister_v2(address, bytes, PORTABLE_AND_MAPPED) };
        if code == CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            return Err(ComputeError::OutOfMemory {
                device: format!("{}, pinned memory of the host", self.name()),
                bytes: bytes as u64,
                free: None,
            });
        }
        self.checked(code, "pinned memory")?;
        Ok(Locked { address, lent: true, shared: Arc::clone(&self.shared) })
    }

    /// The address by which kernels read page-locked memory.
    pub(in crate::cuda) fn mapped(&self, address: *const c_void) -> Result<u64> {
        self.bind()?;
        let mut mapped = 0;
        // SAFETY: the pointer is valid; the driver refuses an address that it does not know.
        let code =
            unsafe { sys::cuMemHostGetDevicePointer_v2(&raw mut mapped, address.cast_mut(), 0) };
        self.checked(code, "mapped memory").map(|()| mapped)
    }

    /// Copies page-locked memory to the device and waits for it.
    ///
    /// # Safety
    /// Both have that many bytes, and nobody changes the first or uses the second meanwhile.
    pub(in crate::cuda) unsafe fn copy_from_locked(
        &self,
        from: *const c_void,
        to: u64,
        bytes: u64,
    ) -> Result<()> {
        self.bind()?;
        // SAFETY: passed on to the caller.
        let code = unsafe { sys::cuMemcpyHtoDAsync_v2(to, from, bytes as usize, self.queue()) };
        self.checked(code, "upload")?;
        self.synchronize()
    }

    /// Copies device memory to page-locked memory and waits for it.
    ///
    /// # Safety
    /// Both have that many bytes, and nobody uses the second meanwhile.
    pub(in crate::cuda) unsafe fn copy_to_locked(
        &self,
        from: u64,
        to: *mut c_void,
        bytes: u64,
    ) -> Result<()> {
        self.bind()?;
        // SAFETY: passed on to the caller.
        let code = unsafe { sys::cuMemcpyDtoHAsync_v2(to, from, bytes as usize, self.queue()) };
        self.checked(code, "download")?;
        self.synchronize()
    }

    /// Begins to copy device memory to the host, after what was asked so far; none of more bytes than a note
    /// has room for.
    pub(in crate::cuda) fn begin_note(&self, from: u64, bytes: usize) -> Result<Option<Note>> {
        if bytes > NOTE || bytes == 0 {
            return Ok(None);
        }
        self.bind()?;
        let kept = lock(&self.notes).pop();
        let pinned = match kept {
            Some(pinned) => pinned,
            None => self.one_staging(NOTE)?,
        };
        // SAFETY: the event and the pinned memory are ours; the copy before to this memory is waited for; the
        // bytes fit, and the caller gives a range of a buffer.
        let asked = unsafe {
            let before = self.checked(sys::cuEventSynchronize(pinned.event.0), "download");
            let copied = before.and_then(|()| {
                let code = sys::cuMemcpyDtoHAsync_v2(pinned.address, from, bytes, self.queue());
                self.checked(code, "download")
            });
            copied.and_then(|()| {
                self.checked(sys::cuEventRecord(pinned.event.0, self.queue()), "download")
            })
        };
        let note = Note { shared: Arc::clone(&self.shared), pinned: Some(pinned), bytes };
        asked.map(|()| Some(note))
    }

    /// Uninitialised memory of this many bytes.
    pub(in crate::cuda) fn alloc(&self, bytes: usize) -> Result<u64> {
        self.bind()?;
        let mut address = 0;
        self.with_room(Some(bytes as u64), "allocation", || {
            // SAFETY: the pointer is valid; zero bytes are not asked for.
            unsafe { sys::cuMemAllocAsync(&raw mut address, bytes.max(1), self.queue()) }
        })?;
        Ok(address)
    }

    /// Requests something from the driver that takes GPU memory, of this many bytes if that is known. If there is
    /// not enough, [makes room](Self::make_room) and tries once more.
    pub(super) fn with_room(
        &self,
        bytes: Option<u64>,
        what: &str,
        mut ask: impl FnMut() -> CUresult,
    ) -> Result<()> {
        let mut code = ask();
        if code == CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            self.make_room()?;
            code = ask();
        }
        match (code, bytes) {
            (CUresult::CUDA_ERROR_OUT_OF_MEMORY, Some(bytes)) => Err(self.out_of_memory(bytes)),
            _ => self.checked(code, what),
        }
    }

    /// Returns unused memory of the pool to the GPU: it may be fragmented, and libraries and the driver itself take
    /// nothing from the pool.
    pub(in crate::cuda) fn make_room(&self) -> Result<()> {
        self.bind()?;
        // What other streams have freed is free once they are done.
        // SAFETY: the context is current.
        self.checked(unsafe { sys::cuCtxSynchronize() }, "work on the device")?;
        self.trim();
        Ok(())
    }

    /// Lets another GPU reach the memory of the pool, now and from now on, where the machine can; whether it can.
    pub(in crate::cuda) fn open_to(&self, other: &Self) -> Result<bool> {
        // Handles of one GPU have one context.
        if self.info.ordinal == other.info.ordinal {
            return Ok(true);
        }
        self.bind()?;
        let device = |ordinal: usize| {
            let mut device = 0;
            // SAFETY: the pointer is valid.
            let code = unsafe { sys::cuDeviceGet(&raw mut device, ordinal as i32) };
            self.checked(code, "device").map(|()| device)
        };
        let (owner, reader) = (device(self.info.ordinal)?, device(other.info.ordinal)?);
        let mut reaches = 0;
        // SAFETY: the pointer is valid, the devices are the driver's.
        let code = unsafe { sys::cuDeviceCanAccessPeer(&raw mut reaches, reader, owner) };
        self.checked(code, "access of another GPU")?;
        if reaches == 0 {
            return Ok(false);
        }
        let access = sys::CUmemAccessDesc {
            location: sys::CUmemLocation {
                type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
                id: reader,
            },
            flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        // SAFETY: the pool is that of the GPU; there is one description.
        let code = unsafe { sys::cuMemPoolSetAccess(self.pool, &raw const access, 1) };
        self.checked(code, "access of another GPU").map(|()| true)
    }

    pub(in crate::cuda) fn free(&self, address: u64) {
        // Nothing can be done about an error here; the next call reports it.
        // SAFETY: the address came from `alloc` and is given back once.
        unsafe {
            let _ = sys::cuCtxSetCurrent(self.context.handle);
            let _ = sys::cuMemFreeAsync(address, self.queue());
        }
    }

    /// Memory apart from the pool, which other processes of the machine can open, and by what they do.
    pub(in crate::cuda) fn alloc_apart(&self, bytes: usize) -> Result<(u64, Vec<u8>)> {
        self.bind()?;
        let mut address = 0;
        self.with_room(Some(bytes as u64), "allocation", || {
            // SAFETY: the pointer is valid; zero bytes are not asked for.
            unsafe { sys::cuMemAlloc_v2(&raw mut address, bytes.max(1)) }
        })?;
        let mut handle = sys::CUipcMemHandle { reserved: [0; 64] };
        // SAFETY: the pointer is valid, the memory was made just now.
        let code = unsafe { sys::cuIpcGetMemHandle(&raw mut handle, address) };
        if let Err(refused) = self.checked(code, "memory for other processes") {
            self.free_apart(address);
            return Err(refused);
        }
        Ok((address, handle.reserved.iter().map(|&byte| byte as u8).collect()))
    }

    /// Memory of another process; none where that is no handle.
    pub(in crate::cuda) fn open_apart(&self, handle: &[u8]) -> Result<Option<u64>> {
        self.bind()?;
        let Ok(bytes) = <[u8; 64]>::try_from(handle) else { return Ok(None) };
        let handle = sys::CUipcMemHandle { reserved: bytes.map(|byte| byte as _) };
        let mut address = 0;
        let flags = sys::CUipcMem_flags::CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS as u32;
        // SAFETY: the pointer is valid; a handle that is none is refused.
        let code = unsafe { sys::cuIpcOpenMemHandle_v2(&raw mut address, handle, flags) };
        self.checked(code, "memory of another process").map(|()| Some(address))
    }

    pub(in crate::cuda) fn free_apart(&self, address: u64) {
        // Nothing can be done about an error here.
        // SAFETY: the address came from `alloc_apart` and is given back once.
        unsafe {
            let _ = sys::cuCtxSetCurrent(self.context.handle);
            let _ = sys::cuMemFree_v2(address);
        }
    }

    pub(in crate::cuda) fn close_apart(&self, address: u64) {
        // SAFETY: the address came from `open_apart` and is given back once.
        unsafe {
            let _ = sys::cuCtxSetCurrent(self.context.handle);
            let _ = sys::cuIpcCloseMemHandle(address);
        }
    }

    /// Bytes that the pool holds of the GPU.
    pub(in crate::cuda) fn reserved(&self) -> Option<u64> {
        self.bind().ok()?;
        self.pool_use().map(|(reserved, _)| reserved)
    }

    pub(in crate::cuda) fn zero(&self, address: u64, bytes: usize) -> Result<()> {
        self.bind()?;
        // SAFETY: the caller gives a range of a buffer.
        let code = unsafe { sys::cuMemsetD8Async(address, 0, bytes, self.queue()) };
        self.checked(code, "filling with zeros")
    }

    pub(in crate::cuda) fn copy(&self, from: u64, to: u64, bytes: usize) -> Result<()> {
        self.bind()?;
        // SAFETY: the caller gives ranges of buffers.
        let code = unsafe { sys::cuMemcpyDtoDAsync_v2(to, from, bytes, self.queue()) };
        self.checked(code, "copy")
    }

    /// Whether an address is in the memory of this GPU, or in memory that it shares.
    pub(in crate::cuda) fn has(&self, address: u64) -> Result<bool> {
        self.bind()?;
        let mut ordinal = -1i32;
        let asked = sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
        // SAFETY: the pointer is valid, and to a number of the type that is asked for.
        let code = unsafe { sys::cuPointerGetAttribute((&raw mut ordinal).cast(), asked, address) };
        // What the driver does not know is not in its memory.
        Ok(code == CUresult::CUDA_SUCCESS && ordinal == self.info.ordinal as i32)
    }

    /// Waits for the default stream, which others use.
    pub(in crate::cuda) fn wait_for_default(&self) -> Result<()> {
        self.bind()?;
        // By the number that the driver has for it.
        let stream = std::ptr::without_provenance_mut(1);
        // SAFETY: that is a stream, which is always there.
        let code = unsafe { sys::cuStreamSynchronize(stream) };
        self.checked(code, "work of others on the device")
    }

    /// Waits for all that anyone has asked of the GPU.
    pub(in crate::cuda) fn wait_for_all(&self) -> Result<()> {
        self.bind()?;
        // SAFETY: the context is current.
        self.checked(unsafe { sys::cuCtxSynchronize() }, "work of others on the device")
    }

    /// Two pinned buffers, to take turns: one is filled while the other is copied.
    fn staging(&self) -> Result<[Staging; 2]> {
        let one = || match lock(&self.staging).pop() {
            Some(staging) => Ok(staging),
            None => self.one_staging(STAGING),
        };
        Ok([one()?, one()?])
    }

    fn one_staging(&self, bytes: usize) -> Result<Staging> {
        let event = self.event(false)?;
        let mut address = std::ptr::null_mut();
        // SAFETY: the pointer is valid.
        match unsafe { sys::cuMemHostAlloc(&raw mut address, bytes, 0) } {
            CUresult::CUDA_ERROR_OUT_OF_MEMORY => Err(ComputeError::OutOfMemory {
                device: format!("{}, pinned memory of the host", self.name()),
                bytes: bytes as u64,
                free: None,
            }),
            code => self.checked(code, "pinned memory").map(|()| Staging { address, event }),
        }
    }

    /// Copies host memory to the device. The host memory may be changed as soon as this returns.
    pub(in crate::cuda) fn upload(&self, data: &[u8], to: u64) -> Result<()> {
        self.bind()?;
        if data.is_empty() {
            return Ok(());
        }
        let pair = self.staging()?;
        let step = |i: usize, piece: &[u8]| -> Result<()> {
            let staging = &pair[i % 2];
            // SAFETY: the event and the pinned memory are ours; the copy before from this memory is
            // waited for; the piece fits; the target has room for all of the data.
            unsafe {
                self.checked(sys::cuEventSynchronize(staging.event.0), "upload")?;
                let target =
                    std::slice::from_raw_parts_mut(staging.address.cast::<u8>(), piece.len());
                parallel_copy(piece, target);
                let at = to + (i * STAGING) as u64;
                let code =
                    sys::cuMemcpyHtoDAsync_v2(at, staging.address, piece.len(), self.queue());
                self.checked(code, "upload")?;
                self.checked(sys::cuEventRecord(staging.event.0, self.queue()), "upload")
            }
        };
        let result = data.chunks(STAGING).enumerate().try_for_each(|(i, piece)| step(i, piece));
        lock(&self.staging).extend(pair);
        result
    }

    /// Copies device memory to the host and waits for it.
    pub(in crate::cuda) fn download(&self, from: u64, out: &mut [u8]) -> Result<()> {
        self.bind()?;
        if out.is_empty() {
            return self.synchronize();
        }
        let pair = self.staging()?;
        let result = self.download_through(&pair, from, out);
        lock(&self.staging).extend(pair);
        result
    }

    fn download_through(&self, pair: &[Staging; 2], from: u64, out: &mut [u8]) -> Result<()> {
        let wait = |staging: &Staging| {
            // SAFETY: the event is ours.
            self.checked(unsafe { sys::cuEventSynchronize(staging.event.0) }, "download")
        };
        // An upload, of another stream perhaps, may still be reading them.
        pair.iter().try_for_each(wait)?;
        let total = out.len();
        if total > STAGING {
            touch(out);
        }
        let start = |i: usize| -> Result<()> {
            let staging = &pair[i % 2];
            let length = STAGING.min(total - i * STAGING);
            // SAFETY: the pinned memory has room for the piece; the source was checked by the
            // caller.
            unsafe {
                let at = from + (i * STAGING) as u64;
                let code = sys::cuMemcpyDtoHAsync_v2(staging.address, at, length, self.queue());
                self.checked(code, "download")?;
                self.checked(sys::cuEventRecord(staging.event.0, self.queue()), "download")
            }
        };
        start(0)?;
        for (i, piece) in out.chunks_mut(STAGING).enumerate() {
            if (i + 1) * STAGING < total {
                start(i + 1)?;
            }
            let staging = &pair[i % 2];
            wait(staging)?;
            // SAFETY: the copy to the pinned memory was waited for.
            let source = unsafe {
                std::slice::from_raw_parts(staging.address.cast::<u8>().cast_const(), piece.len())
            };
            parallel_copy(source, piece);
        }
        Ok(())
    }
}

/// Has all threads write to memory that is about to be filled: new memory is made available as it is first
/// written to, a large page at a time, and a piece of the copies has but a few of those.
fn touch(memory: &mut [u8]) {
    use rayon::prelude::*;
    const LARGE_PAGE: usize = 2 << 20;
    const PAGE: usize = 4 << 10;
    memory.par_chunks_mut(LARGE_PAGE).for_each(|part| {
        for page in part.chunks_mut(PAGE) {
            page[0] = 0;
        }
    });
}

/// Copies on all threads where that pays.
fn parallel_copy(from: &[u8], to: &mut [u8]) {
    use rayon::prelude::*;
    const PIECE: usize = 1 << 19;
    if from.len() <= PIECE {
        to.copy_from_slice(from);
    } else {
        to.par_chunks_mut(PIECE)
            .zip(from.par_chunks(PIECE))
            .for_each(|(t, f)| t.copy_from_slice(f));
    }
}
