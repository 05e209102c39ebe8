//! Buffers in host memory.

use voxalign_image::memory;

use super::Cpu;
use crate::device::{DeviceBuffer, Element, Memory, MemoryInfo, Transfer};
use crate::error::{Result, check_len, check_part};
use crate::host::{HostBuffer, zeroed};

/// Copies are split into chunks of this many elements.
const COPY_CHUNK: usize = 1 << 18;

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

    fn download_part<T: Element>(
        &self,
        buffer: &CpuBuffer<T>,
        first: usize,
        out: &mut [T],
    ) -> Result<()> {
        check_part(buffer.len(), first, out.len())?;
        self.copy_slice(&buffer.as_slice()[first..first + out.len()], out);
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

    fn upload_part<T: Element>(
        &self,
        buffer: &mut CpuBuffer<T>,
        first: usize,
        data: &[T],
    ) -> Result<()> {
        check_part(buffer.len(), first, data.len())?;
        self.copy_slice(data, &mut buffer.as_mut_slice()[first..first + data.len()]);
        Ok(())
    }

    fn synchronize(&self) -> Result<()> {
        Ok(())
    }

    fn memory(&self) -> MemoryInfo {
        let memory::HostMemory { total, free } = memory::host();
        MemoryInfo { total, free, peak: None }
    }
}

impl Transfer for Cpu {
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
        match to.usual_mut() {
            Some(data) => std::mem::swap(&mut from.0, data),
            // Memory of another device's: the elements go both ways, whichever is asked for.
            None => to.swap_with_slice(from.as_mut_slice()),
        }
        Ok(())
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
