//! Buffers in host memory.

use std::alloc::{Layout, alloc_zeroed};

use super::Cpu;
use crate::device::{DeviceBuffer, Element, Memory, MemoryInfo};
use crate::error::{ComputeError, Result, check_len};
use crate::host::{HostBuffer, Storage};

/// Copies are split into chunks of this many elements.
const COPY_CHUNK: usize = 1 << 18;

/// Requests of at least this many bytes are held against the free memory before they are made:
/// the system may promise more than it has, and would end the process when it is touched.
const CHECKED_BYTES: usize = 1 << 28;

/// Elements in host memory.
#[derive(Debug, Clone, PartialEq)]
pub struct CpuBuffer<T>(Vec<T>);

impl<T> CpuBuffer<T> {
    /// The elements.
    pub fn as_slice(&self) -> &[T] {
        &self.0
    }

    /// The elements, to be changed.
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        &mut self.0
    }
}

impl<T: Element> DeviceBuffer<T> for CpuBuffer<T> {
    fn len(&self) -> usize {
        self.0.len()
    }
}

/// A vector of zeros, or an error that says what was asked for. The pages are touched by whoever
/// writes to them first, and so by all threads.
pub(crate) fn zeroed<T: Element>(len: usize) -> Result<Vec<T>> {
    let refused = |bytes: u64| ComputeError::OutOfMemory {
        device: "cpu".into(),
        bytes,
        free: host_memory().free,
    };
    if len == 0 {
        return Ok(Vec::new());
    }
    let layout = Layout::array::<T>(len).map_err(|_| refused(u64::MAX))?;
    let bytes = layout.size() as u64;
    if layout.size() >= CHECKED_BYTES && host_memory().free.is_some_and(|free| bytes > free) {
        return Err(refused(bytes));
    }
    // SAFETY: the layout has a size above zero, as `len` is and elements are not zero-sized.
    let start = unsafe { alloc_zeroed(layout) }.cast::<T>();
    if start.is_null() {
        return Err(refused(bytes));
    }
    // SAFETY: `start` was allocated by the global allocator with the layout of `len` elements, and
    // all bits zero is a valid value of every `Element`, a sealed trait of plain numbers.
    Ok(unsafe { Vec::from_raw_parts(start, len, len) })
}

/// The memory of the machine, or of the control group that the process is in.
fn host_memory() -> MemoryInfo {
    let mut info = MemoryInfo::default();
    if let Ok(text) = std::fs::read_to_string("/proc/meminfo") {
        let field = |name: &str| {
            let line = text.lines().find_map(|l| l.strip_prefix(name))?;
            let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
            kib.checked_mul(1024)
        };
        info = MemoryInfo { total: field("MemTotal:"), free: field("MemAvailable:") };
    }
    let number = |path: &str| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    if let Some(limit) = number("/sys/fs/cgroup/memory.max") {
        let cache = std::fs::read_to_string("/sys/fs/cgroup/memory.stat")
            .ok()
            .and_then(|text| {
                let line = text.lines().find_map(|l| l.strip_prefix("inactive_file "))?;
                line.trim().parse::<u64>().ok()
            })
            .unwrap_or(0);
        let used = number("/sys/fs/cgroup/memory.current").unwrap_or(0).saturating_sub(cache);
        info.total = Some(info.total.map_or(limit, |t| t.min(limit)));
        let left = limit.saturating_sub(used);
        info.free = Some(info.free.map_or(left, |f| f.min(left)));
    }
    info
}

impl Memory for Cpu {
    type Buffer<T: Element> = CpuBuffer<T>;

    fn name(&self) -> String {
        format!("cpu ({} threads, {:?})", self.threads(), self.simd())
    }

    fn alloc<T: Element>(&self, len: usize) -> Result<CpuBuffer<T>> {
        Ok(CpuBuffer(zeroed(len)?))
    }

    fn upload<T: Element>(&self, data: &[T]) -> Result<CpuBuffer<T>> {
        let mut copy = zeroed(data.len())?;
        self.copy_slice(data, &mut copy);
        Ok(CpuBuffer(copy))
    }

    fn upload_vec<T: Element>(&self, data: Vec<T>) -> Result<CpuBuffer<T>> {
        Ok(CpuBuffer(data))
    }

    fn download<T: Element>(&self, buffer: &CpuBuffer<T>) -> Result<Vec<T>> {
        Ok(self.upload(buffer.as_slice())?.0)
    }

    fn download_into<T: Element>(&self, buffer: &CpuBuffer<T>, out: &mut [T]) -> Result<()> {
        check_len("output", buffer.len(), out.len())?;
        self.copy_slice(buffer.as_slice(), out);
        Ok(())
    }

    fn into_host<T: Element>(&self, buffer: CpuBuffer<T>) -> Result<Vec<T>> {
        Ok(buffer.0)
    }

    fn copy<T: Element>(&self, from: &CpuBuffer<T>, to: &mut CpuBuffer<T>) -> Result<()> {
        self.download_into(from, to.as_mut_slice())
    }

    fn upload_into<T: Element>(&self, buffer: &mut CpuBuffer<T>, data: &[T]) -> Result<()> {
        check_len("data for a buffer", buffer.len(), data.len())?;
        self.copy_slice(data, buffer.as_mut_slice());
        Ok(())
    }

    fn upload_from<T: Element>(&self, from: &HostBuffer<T>, to: &mut CpuBuffer<T>) -> Result<()> {
        check_len("output", from.len(), to.len())?;
        self.copy_slice(from, to.as_mut_slice());
        Ok(())
    }

    fn hand_over<T: Element>(&self, from: &mut HostBuffer<T>, to: &mut CpuBuffer<T>) -> Result<()> {
        self.hand_back(to, from)
    }

    fn hand_back<T: Element>(&self, from: &mut CpuBuffer<T>, to: &mut HostBuffer<T>) -> Result<()> {
        check_len("output", from.len(), to.len())?;
        match &mut to.0 {
            Storage::Usual(data) => std::mem::swap(&mut from.0, data),
            // Memory for a GPU: the elements go both ways, whichever is asked for.
            Storage::Pinned(data) => data.swap_with_slice(from.as_mut_slice()),
        }
        Ok(())
    }

    fn synchronize(&self) -> Result<()> {
        Ok(())
    }

    fn memory(&self) -> MemoryInfo {
        host_memory()
    }
}

impl Cpu {
    /// Copies `from` to `to`, of the same length, on all threads.
    pub(crate) fn copy_slice<T: Element>(&self, from: &[T], to: &mut [T]) {
        self.chunks_mut(to, COPY_CHUNK, |i, chunk| {
            let start = i * COPY_CHUNK;
            chunk.copy_from_slice(&from[start..start + chunk.len()]);
        });
    }
}
