//! A device of the backend that was chosen at run time: each call is forwarded to it. Algorithms are thus
//! compiled once, for [`AnyDevice`], and not for each backend.
//!
//! Memory and transfers are forwarded here; the operators are where their traits are declared, by `#[forwarded]`.

use super::AnyDevice;
use crate::Dims;
use crate::comm::{DeviceSums, HostSums};
use crate::cpu::{Cpu, CpuBuffer, CpuRayVolume, CpuSamples};
use crate::cuda::{Cuda, CudaBuffer, CudaRayVolume, CudaSamples};
use crate::device::{Device, DeviceBuffer, Element, Memory, MemoryInfo, Transfer};
use crate::error::{ComputeError, Result};
use crate::host::{Arriving, HostBuffer, Kept, Queue};
use crate::ops::histogram::SampleSet;
use crate::ops::raycast::Traversable;
use voxalign_image::Elsewhere;

/// Evaluates an expression with the device behind; it is compiled for each backend.
macro_rules! behind {
    ($any:expr, |$device:ident: $backend:ident| $body:expr) => {
        match $any {
            $crate::select::AnyDevice::Cpu($device) => {
                type $backend = $crate::cpu::Cpu;
                $body
            }
            $crate::select::AnyDevice::Cuda($device) => {
                type $backend = $crate::cuda::Cuda;
                $body
            }
        }
    };
    ($any:expr, |$device:ident| $body:expr) => {
        match $any {
            $crate::select::AnyDevice::Cpu($device) => $body,
            $crate::select::AnyDevice::Cuda($device) => $body,
        }
    };
    ($any:expr, |$device:ident| $body:expr, as $kind:ident) => {
        match $any {
            $crate::select::AnyDevice::Cpu($device) => $kind::Cpu($body),
            $crate::select::AnyDevice::Cuda($device) => $kind::Cuda($body),
        }
    };
}

pub(crate) use behind;

mod arguments;

pub(crate) use arguments::Behind;

/// A buffer of an [`AnyDevice`].
#[derive(Debug)]
pub enum AnyBuffer<T: Element> {
    /// On the CPU.
    Cpu(CpuBuffer<T>),
    /// On a GPU.
    Cuda(CudaBuffer<T>),
}

impl<T: Element> DeviceBuffer<T> for AnyBuffer<T> {
    fn len(&self) -> usize {
        match self {
            Self::Cpu(buffer) => buffer.len(),
            Self::Cuda(buffer) => buffer.len(),
        }
    }
}

/// The samples of an [`AnyDevice`].
#[derive(Debug)]
pub enum AnySamples {
    /// On the CPU.
    Cpu(CpuSamples),
    /// On a GPU.
    Cuda(Box<CudaSamples>),
}

impl From<CpuSamples> for AnySamples {
    fn from(samples: CpuSamples) -> Self {
        Self::Cpu(samples)
    }
}

impl From<CudaSamples> for AnySamples {
    fn from(samples: CudaSamples) -> Self {
        Self::Cuda(Box::new(samples))
    }
}

impl AnySamples {
    fn behind(&self) -> &dyn SampleSet {
        match self {
            Self::Cpu(samples) => samples,
            Self::Cuda(samples) => &**samples,
        }
    }
}

impl SampleSet for AnySamples {
    fn len(&self) -> usize {
        self.behind().len()
    }

    fn bins(&self) -> usize {
        self.behind().bins()
    }

    fn total_weight(&self) -> f64 {
        self.behind().total_weight()
    }
}

/// A volume for rays of an [`AnyDevice`].
#[derive(Debug)]
pub enum AnyRayVolume {
    /// On the CPU.
    Cpu(CpuRayVolume),
    /// On a GPU.
    Cuda(Box<CudaRayVolume>),
}

impl From<CpuRayVolume> for AnyRayVolume {
    fn from(volume: CpuRayVolume) -> Self {
        Self::Cpu(volume)
    }
}

impl From<CudaRayVolume> for AnyRayVolume {
    fn from(volume: CudaRayVolume) -> Self {
        Self::Cuda(Box::new(volume))
    }
}

impl Traversable for AnyRayVolume {
    fn dims(&self) -> Dims {
        match self {
            Self::Cpu(volume) => volume.dims(),
            Self::Cuda(volume) => volume.dims(),
        }
    }
}

/// The error of a buffer that another backend made.
fn foreign() -> ComputeError {
    ComputeError::argument("a buffer", "of another device", "one that this device made")
}

/// A backend as what is behind an [`AnyDevice`].
pub(crate) trait Backend: Device {
    fn device(device: &AnyDevice) -> Result<&Self>;
    fn wrapped(self) -> AnyDevice;
    fn own<T: Element>(buffer: AnyBuffer<T>) -> Result<Self::Buffer<T>>;
    fn of<T: Element>(buffer: &AnyBuffer<T>) -> Result<&Self::Buffer<T>>;
    fn of_mut<T: Element>(buffer: &mut AnyBuffer<T>) -> Result<&mut Self::Buffer<T>>;
    fn any<T: Element>(buffer: Self::Buffer<T>) -> AnyBuffer<T>;
    fn samples(samples: &AnySamples) -> Result<&Self::Samples>;
    fn ray_volume_of(volume: &AnyRayVolume) -> Result<&Self::RayVolume>;
}

macro_rules! backend {
    ($backend:ident) => {
        impl Backend for $backend {
            fn device(device: &AnyDevice) -> Result<&Self> {
                match device {
                    AnyDevice::$backend(device) => Ok(device),
                    _ => Err(foreign()),
                }
            }

            fn wrapped(self) -> AnyDevice {
                AnyDevice::$backend(self)
            }

            fn own<T: Element>(buffer: AnyBuffer<T>) -> Result<Self::Buffer<T>> {
                match buffer {
                    AnyBuffer::$backend(buffer) => Ok(buffer),
                    _ => Err(foreign()),
                }
            }

            fn of<T: Element>(buffer: &AnyBuffer<T>) -> Result<&Self::Buffer<T>> {
                match buffer {
                    AnyBuffer::$backend(buffer) => Ok(buffer),
                    _ => Err(foreign()),
                }
            }

            fn any<T: Element>(buffer: Self::Buffer<T>) -> AnyBuffer<T> {
                AnyBuffer::$backend(buffer)
            }

            fn of_mut<T: Element>(buffer: &mut AnyBuffer<T>) -> Result<&mut Self::Buffer<T>> {
                match buffer {
                    AnyBuffer::$backend(buffer) => Ok(buffer),
                    _ => Err(foreign()),
                }
            }

            fn samples(samples: &AnySamples) -> Result<&Self::Samples> {
                match samples {
                    AnySamples::$backend(samples) => Ok(samples),
                    _ => Err(foreign()),
                }
            }

            fn ray_volume_of(volume: &AnyRayVolume) -> Result<&Self::RayVolume> {
                match volume {
                    AnyRayVolume::$backend(volume) => Ok(volume),
                    _ => Err(foreign()),
                }
            }
        }
    };
}
backend!(Cpu);
backend!(Cuda);

impl Memory for AnyDevice {
    type Buffer<T: Element> = AnyBuffer<T>;

    fn name(&self) -> String {
        behind!(self, |device| device.name())
    }

    fn alloc<T: Element>(&self, len: usize) -> Result<AnyBuffer<T>> {
        Ok(behind!(self, |device| device.alloc(len)?, as AnyBuffer))
    }

    fn upload<T: Element>(&self, data: &[T]) -> Result<AnyBuffer<T>> {
        Ok(behind!(self, |device| device.upload(data)?, as AnyBuffer))
    }

    fn upload_vec<T: Element>(&self, data: Vec<T>) -> Result<AnyBuffer<T>> {
        Ok(behind!(self, |device| device.upload_vec(data)?, as AnyBuffer))
    }

    fn download<T: Element>(&self, buffer: &AnyBuffer<T>) -> Result<Vec<T>> {
        behind!(self, |device: B| device.download(B::of(buffer)?))
    }

    fn download_into<T: Element>(&self, buffer: &AnyBuffer<T>, out: &mut [T]) -> Result<()> {
        behind!(self, |device: B| device.download_into(B::of(buffer)?, out))
    }

    fn download_part<T: Element>(
        &self,
        buffer: &AnyBuffer<T>,
        first: usize,
        out: &mut [T],
    ) -> Result<()> {
        behind!(self, |device: B| device.download_part(B::of(buffer)?, first, out))
    }

    fn into_host<T: Element>(&self, buffer: AnyBuffer<T>) -> Result<Vec<T>> {
        behind!(self, |device: B| device.into_host(B::own(buffer)?))
    }

    fn here(&self, values: &dyn Elsewhere<f32>) -> Result<Option<AnyBuffer<f32>>> {
        behind!(self, |device: B| Ok(device.here(values)?.map(B::any)))
    }

    fn kept(&self, buffer: AnyBuffer<f32>) -> Result<Kept> {
        behind!(self, |device: B| device.kept(B::own(buffer)?))
    }

    fn copy<T: Element>(&self, from: &AnyBuffer<T>, to: &mut AnyBuffer<T>) -> Result<()> {
        behind!(self, |device: B| device.copy(B::of(from)?, B::of_mut(to)?))
    }

    fn upload_into<T: Element>(&self, buffer: &mut AnyBuffer<T>, data: &[T]) -> Result<()> {
        behind!(self, |device: B| device.upload_into(B::of_mut(buffer)?, data))
    }

    fn upload_part<T: Element>(
        &self,
        buffer: &mut AnyBuffer<T>,
        first: usize,
        data: &[T],
    ) -> Result<()> {
        behind!(self, |device: B| device.upload_part(B::of_mut(buffer)?, first, data))
    }

    fn sums(devices: &[Self]) -> Box<dyn DeviceSums<Self>> {
        fn of<B: Backend>(devices: &[AnyDevice]) -> Option<Box<dyn DeviceSums<AnyDevice>>> {
            let own: Result<Vec<B>> = devices.iter().map(|d| B::device(d).cloned()).collect();
            Some(Box::new(SumsBehind(B::sums(&own.ok()?))))
        }
        match devices.first() {
            Some(Self::Cpu(_)) => of::<Cpu>(devices),
            Some(Self::Cuda(_)) => of::<Cuda>(devices),
            None => None,
        }
        .unwrap_or_else(|| Box::new(HostSums::because("devices of several kinds")))
    }

    fn synchronize(&self) -> Result<()> {
        behind!(self, |device| device.synchronize())
    }

    fn memory(&self) -> MemoryInfo {
        behind!(self, |device| device.memory())
    }

    fn has_own_memory(&self) -> bool {
        behind!(self, |device| device.has_own_memory())
    }

    fn seconds(&self, f: &mut dyn FnMut() -> Result<()>) -> Result<f64> {
        behind!(self, |device| device.seconds(f))
    }
}

impl Transfer for AnyDevice {
    fn host_alloc<T: Element>(&self, len: usize) -> Result<HostBuffer<T>> {
        behind!(self, |device| device.host_alloc(len))
    }

    fn host_map<T: Element>(&self, memory: HostBuffer<T>) -> Result<HostBuffer<T>> {
        behind!(self, |device| device.host_map(memory))
    }

    fn publish<T: Element>(&self, from: &AnyBuffer<T>) -> Result<(AnyBuffer<T>, Vec<u8>)> {
        behind!(self, |device: B| {
            let (copy, handle) = device.publish(B::of(from)?)?;
            Ok((B::any(copy), handle))
        })
    }

    fn open_published<T: Element>(&self, handle: &[u8], len: usize) -> Result<AnyBuffer<T>> {
        behind!(self, |device: B| Ok(B::any(device.open_published(handle, len)?)))
    }

    fn upload_from<T: Element>(&self, from: &HostBuffer<T>, to: &mut AnyBuffer<T>) -> Result<()> {
        behind!(self, |device: B| device.upload_from(from, B::of_mut(to)?))
    }

    fn download_to<T: Element>(&self, from: &AnyBuffer<T>, to: &mut HostBuffer<T>) -> Result<()> {
        behind!(self, |device: B| device.download_to(B::of(from)?, to))
    }

    fn hand_over<T: Element>(&self, from: &mut HostBuffer<T>, to: &mut AnyBuffer<T>) -> Result<()> {
        behind!(self, |device: B| device.hand_over(from, B::of_mut(to)?))
    }

    fn hand_back<T: Element>(&self, from: &mut AnyBuffer<T>, to: &mut HostBuffer<T>) -> Result<()> {
        behind!(self, |device: B| device.hand_back(B::of_mut(from)?, to))
    }

    fn arriving(&self, buffer: &AnyBuffer<f64>) -> Result<Arriving> {
        behind!(self, |device: B| device.arriving(B::of(buffer)?))
    }

    fn queue(&self) -> Result<Queue<Self>> {
        behind!(self, |device: B| Ok(device.queue()?.turned(B::wrapped)))
    }

    fn lasting_queue(&self) -> Result<Queue<Self>> {
        behind!(self, |device: B| Ok(device.lasting_queue()?.turned(B::wrapped)))
    }

    fn begin_turn(&self, base: &Self) -> Result<()> {
        behind!(self, |device: B| device.begin_turn(B::device(base)?))
    }

    fn end_turn(&self) -> Result<()> {
        behind!(self, |device| device.end_turn())
    }
}

impl Device for AnyDevice {}

/// Sums over the devices behind.
struct SumsBehind<B: Backend>(Box<dyn DeviceSums<B>>);

impl<B: Backend> DeviceSums<AnyDevice> for SumsBehind<B> {
    fn name(&self) -> String {
        self.0.name()
    }

    fn all_reduce_sum(
        &self,
        devices: &[AnyDevice],
        buffers: &mut [&mut AnyBuffer<i64>],
    ) -> Result<()> {
        let devices: Vec<B> =
            devices.iter().map(|d| B::device(d).cloned()).collect::<Result<_>>()?;
        let buffers = buffers.iter_mut().map(|b| B::of_mut(b));
        self.0.all_reduce_sum(&devices, &mut buffers.collect::<Result<Vec<_>>>()?)
    }
}
