//! The memory of a backend that is made elsewhere, with queues, host memory and arrivals of its own.

#![allow(clippy::unwrap_used)]

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use voxalign_compute::device::{DeviceBuffer, Element, Memory, MemoryInfo, Transfer};
use voxalign_compute::error::{Result, check_len};
use voxalign_compute::{Arriving, HostBuffer, HostMemory, Queue};

/// A handle of the device, which counts its turns.
#[derive(Debug, Clone, Default)]
struct Mine(Arc<AtomicUsize>);

struct MineBuffer<T>(Vec<T>);

impl<T: Element> DeviceBuffer<T> for MineBuffer<T> {
    fn len(&self) -> usize {
        self.0.len()
    }
}

/// Memory that the device reaches, of which some is kept free.
#[derive(Debug)]
struct Reached<T> {
    all: Vec<T>,
    len: usize,
}

impl<T> Deref for Reached<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.all[..self.len]
    }
}

impl<T> DerefMut for Reached<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.all[..self.len]
    }
}

impl<T: Element> HostMemory<T> for Reached<T> {
    fn resize(&mut self, len: usize) -> bool {
        let fits = len <= self.all.len();
        self.len = if fits { len } else { self.len };
        fits
    }
}

impl Memory for Mine {
    type Buffer<T: Element> = MineBuffer<T>;

    fn name(&self) -> String {
        "mine".into()
    }

    fn alloc<T: Element>(&self, len: usize) -> Result<MineBuffer<T>> {
        Ok(MineBuffer(vec![T::default(); len]))
    }

    fn upload<T: Element>(&self, data: &[T]) -> Result<MineBuffer<T>> {
        Ok(MineBuffer(data.to_vec()))
    }

    fn upload_vec<T: Element>(&self, data: Vec<T>) -> Result<MineBuffer<T>> {
        Ok(MineBuffer(data))
    }

    fn download<T: Element>(&self, buffer: &MineBuffer<T>) -> Result<Vec<T>> {
        Ok(buffer.0.clone())
    }

    fn download_into<T: Element>(&self, buffer: &MineBuffer<T>, out: &mut [T]) -> Result<()> {
        check_len("output", buffer.len(), out.len())?;
        out.copy_from_slice(&buffer.0);
        Ok(())
    }

    fn into_host<T: Element>(&self, buffer: MineBuffer<T>) -> Result<Vec<T>> {
        Ok(buffer.0)
    }

    fn copy<T: Element>(&self, from: &MineBuffer<T>, to: &mut MineBuffer<T>) -> Result<()> {
        check_len("output", from.len(), to.len())?;
        to.0.copy_from_slice(&from.0);
        Ok(())
    }

    fn synchronize(&self) -> Result<()> {
        Ok(())
    }

    fn memory(&self) -> MemoryInfo {
        MemoryInfo::default()
    }
}

impl Transfer for Mine {
    fn host_alloc<T: Element>(&self, len: usize) -> Result<HostBuffer<T>> {
        Ok(HostBuffer::own(Reached { all: vec![T::default(); len], len }))
    }

    fn arriving(&self, buffer: &MineBuffer<f64>) -> Result<Arriving> {
        let numbers = buffer.0.clone();
        Ok(Arriving::later(move || Ok(numbers)))
    }

    fn queue(&self) -> Result<Queue<Self>> {
        Ok(Queue::new(self.clone(), self.clone()))
    }

    fn begin_turn(&self, _: &Self) -> Result<()> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

#[test]
fn a_backend_has_memory_of_its_own() {
    let mine = Mine::default();
    let mut host = mine.host_alloc::<f32>(3).unwrap();
    assert!(host.is::<Reached<f32>>() && host.usual_mut().is_none());
    assert!(host.resize(2) && !host.resize(4) && host.len() == 2);
    host.copy_from_slice(&[1.0, 2.0]);
    let mut buffer = mine.alloc(2).unwrap();
    let queue = mine.queue().unwrap();
    queue.run(|device| device.upload_from(&host, &mut buffer)).unwrap();
    assert_eq!(mine.0.load(Ordering::Relaxed), 1);
    queue.run(|device| device.hand_back(&mut buffer, &mut host)).unwrap();
    assert_eq!(*host, [1.0, 2.0]);
    let numbers = mine.upload(&[3.0, 4.0]).unwrap();
    assert_eq!(mine.arriving(&numbers).unwrap().wait().unwrap(), [3.0, 4.0]);
}

/// What one backend gave the host another takes.
#[test]
fn memory_of_one_backend_is_of_use_to_another() {
    use voxalign_compute::cpu::Cpu;
    let cpu = Cpu::new(Some(1)).unwrap();
    let mut host = Mine::default().host_alloc::<f32>(2).unwrap();
    host.copy_from_slice(&[5.0, 6.0]);
    let mut buffer = cpu.alloc(2).unwrap();
    cpu.hand_over(&mut host, &mut buffer).unwrap();
    assert_eq!(cpu.into_host(buffer).unwrap(), [5.0, 6.0]);
}
