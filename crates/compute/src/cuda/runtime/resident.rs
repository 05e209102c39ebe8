//! Images in GPU memory that others than the algorithms of this crate hold.

use std::any::Any;
use std::collections::BTreeMap;
use std::iter::once;
use std::sync::{Arc, Mutex, PoisonError};

use super::gpu::{Current, start_driver};
use super::transfers::Way;
use super::{Cuda, CudaBuffer, Target};
use crate::Dims;
use crate::device::{DeviceBuffer, Memory};
use crate::error::{ComputeError, Result};
use crate::ops::elementwise::x;
use crate::ops::reduce::Reduction;
use crate::ops::values::Strided;
use crate::ops::{Elementwise as _, Reduce, Values as _};
use voxalign_image::elsewhere::{Elsewhere, Values};
use voxalign_image::{ImageError, error};

/// The values of an image in the memory of a GPU, which do not change. Registrations on that GPU take them from there.
#[derive(Debug)]
pub struct Resident {
    values: CudaBuffer<f32>,
    device: Cuda,
    /// The context of the thread that lets it go, which is put back last.
    before: Option<Current>,
}

impl Drop for Resident {
    fn drop(&mut self) {
        self.before = self.device.current();
    }
}

/// An image in the memory of a GPU that others hold.
#[derive(Debug, Clone, Copy)]
pub struct Foreign {
    /// Where its memory begins.
    pub address: u64,
    /// Bytes of it.
    pub bytes: usize,
    /// Where in it the voxels are.
    pub at: Strided,
    /// Sizes along x, y and z.
    pub dims: Dims,
}

impl Resident {
    /// Of a buffer, once the work on it is over.
    ///
    /// # Errors
    /// What failed on the device before.
    pub fn new(device: &Cuda, values: CudaBuffer<f32>) -> Result<Self> {
        // Whoever reads it by another handle does not know what is still to be done: here, and by the handle that changed it last.
        device.using(once(values.read_by()), || Ok(()))?;
        device.synchronize()?;
        Ok(Self { values, device: device.clone(), before: None })
    }

    /// A copy, as floats, of an image that others hold in the memory of a device. When this returns they may do with it
    /// what they like.
    ///
    /// # Errors
    /// Memory that is not of this device; places that are not in it; too little memory.
    ///
    /// # Safety
    /// The memory is there and has that many bytes, and nobody changes it meanwhile, but for work that the default stream of
    /// the GPU waits for.
    pub unsafe fn of_foreign(device: &Cuda, image: &Foreign) -> Result<Self> {
        let _before = device.current();
        let what = "memory of another library";
        if !image.address.is_multiple_of(image.at.number.bytes() as u64) {
            let found = format!("at {:#x}", image.address);
            return Err(ComputeError::argument(what, found, "aligned to the bytes of a number"));
        }
        if let Target::Gpu(gpu) = &device.0.target {
            if !gpu.has(image.address)? {
                let expected = "in the memory of the GPU that it was said to be on";
                return Err(ComputeError::argument(what, "elsewhere", expected));
            }
            gpu.wait_for_default()?;
        }
        let mut values = device.alloc_unset(image.dims.iter().product())?;
        // SAFETY: the caller's; the work is waited for below.
        let lent = unsafe { device.lent(image.address, image.bytes) };
        let taken = device.values_of(&lent, &image.at, image.dims, &mut values);
        device.moves(Way::WithinDevice, values.bytes());
        // Also where it failed: something may have begun.
        let over = device.synchronize();
        taken.and(over)?;
        Ok(Self { values, device: device.clone(), before: None })
    }

    /// Another copy in the memory of the same GPU.
    ///
    /// # Errors
    /// Too little memory.
    pub fn copied(&self) -> Result<Self> {
        let _before = self.device.current();
        let mut values = self.device.alloc_unset(self.values.len())?;
        self.device.copy(&self.values, &mut values)?;
        Self::new(&self.device, values)
    }

    /// The same in a buffer of a handle; none where that is of another GPU.
    pub(in crate::cuda) fn copied_to(&self, device: &Cuda) -> Result<Option<CudaBuffer<f32>>> {
        let own = self.device.identity() == device.identity();
        let one = match (&self.device.0.target, &device.0.target) {
            (Target::Gpu(own), Target::Gpu(other)) => own.info().ordinal == other.info().ordinal,
            _ => own,
        };
        if !one {
            return Ok(None);
        }
        let mut to = device.alloc_unset(self.values.len())?;
        match own {
            true => device.copy(&self.values, &mut to)?,
            // SAFETY: both have as many values; those of an image do not change, and it is there until the copy is over.
            false => unsafe { device.copy_here(self.values.address(), &mut to)? },
        }
        Ok(Some(to))
    }

    /// Waits for all that anyone has asked of its GPU: memory that was lent to others may go once they have done with it, and what
    /// they asked for may not have begun.
    ///
    /// # Errors
    /// What failed on the device before.
    pub fn wait_for_all(&self) -> Result<()> {
        let _before = self.device.current();
        match &self.device.0.target {
            Target::Gpu(gpu) => gpu.wait_for_all(),
            Target::Emulated(_) => self.device.synchronize(),
        }
    }

    /// The number of its GPU, as in `cuda:0`; none of an emulated one.
    #[must_use]
    pub fn ordinal(&self) -> Option<usize> {
        self.device.info().map(|info| info.ordinal)
    }

    /// Where its values are in the memory of the GPU, x fastest.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.values.address()
    }

    /// Whether all its values equal others of the same number; none of those that are on another device.
    fn same(&self, values: &Values<'_, f32>) -> Result<Option<bool>> {
        let device = &self.device;
        let resident = match values {
            Values::Here(_) => None,
            Values::Elsewhere(other) => other.as_any().downcast_ref::<Self>(),
        };
        let equal = match (resident, values) {
            (Some(other), _) if other.device.identity() == device.identity() => {
                let mut equal = device.alloc_unset(self.values.len())?;
                device.eval(
                    &x(0).equals(x(1)),
                    &[&self.values, &other.values],
                    &[],
                    None,
                    &mut equal,
                )?;
                equal
            }
            (_, values) => {
                let other = match values {
                    Values::Here(values) => Some(device.upload(values)?),
                    Values::Elsewhere(values) => device.here(*values)?,
                };
                let Some(mut equal) = other else { return Ok(None) };
                device.eval_in_place(&x(0).equals(x(1)), &mut equal, &[&self.values], &[], None)?;
                equal
            }
        };
        // 1 where they are; NaN equals nothing.
        Ok(Some(device.reduce(&[&equal], &[Reduction::Min(0)])?[0] >= 1.0))
    }
}

impl Elsewhere<f32> for Resident {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn len(&self) -> usize {
        self.values.len()
    }

    fn bring(&self) -> error::Result<Vec<f32>> {
        let _before = self.device.current();
        self.device.moves(Way::ImageToHost, self.values.bytes());
        self.device.download(&self.values).map_err(|e| ImageError::Elsewhere(e.to_string()))
    }

    fn holds(&self, values: &Values<'_, f32>) -> Option<bool> {
        let _before = self.device.current();
        self.same(values).ok()?
    }
}

impl Cuda {
    /// The context of this thread, which is current again when this goes; none of an emulated GPU.
    fn current(&self) -> Option<Current> {
        match &self.0.target {
            Target::Gpu(_) => Current::of_thread(),
            Target::Emulated(_) => None,
        }
    }

    /// The handle of a GPU that all of this process share, opened where it is not yet, for images that are not in a
    /// registration.
    ///
    /// # Errors
    /// As of [`new`](Self::new).
    pub fn shared(ordinal: usize) -> Result<Self> {
        static OPEN: Mutex<BTreeMap<usize, Cuda>> = Mutex::new(BTreeMap::new());
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(device) = open.get(&ordinal) {
            return Ok(device.clone());
        }
        let _before = start_driver().ok().and_then(|_| Current::of_thread());
        let device = Self::new(ordinal)?;
        open.insert(ordinal, device.clone());
        Ok(device)
    }
}

/// A copy of values on a GPU by the handle that [all share](Cuda::shared), which keeps nothing of a registration; of others, they
/// themselves.
///
/// # Errors
/// Too little memory.
pub fn shared_copy(values: &Arc<dyn Elsewhere<f32>>) -> Result<Arc<dyn Elsewhere<f32>>> {
    let Some(gpu) = gpu_of(values) else { return Ok(Arc::clone(values)) };
    let device = Cuda::shared(gpu)?;
    Ok(match device.here(&**values)? {
        Some(copy) => Arc::new(Resident::new(&device, copy)?),
        None => Arc::clone(values),
    })
}

/// The number of the GPU that the values of an image are on; none where they are elsewhere.
#[must_use]
pub fn gpu_of(values: &Arc<dyn Elsewhere<f32>>) -> Option<usize> {
    values.as_any().downcast_ref::<Resident>()?.ordinal()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::Late;
    use crate::host::Kept;
    use crate::ops::values::Number;
    use voxalign_image::{Grid, Volume};

    /// An image of another library, z fastest, in numbers of 16 bits, in the memory of the emulated GPU, and what is in it.
    fn foreign(numbers: &[i16]) -> (Foreign, Vec<f32>) {
        let dims = [3, 4, 5];
        let at = Strided { number: Number::I16, first: 0, steps: [20, 5, 1] };
        let image =
            Foreign { address: numbers.as_ptr() as u64, bytes: size_of_val(numbers), at, dims };
        let value = |i: usize| f32::from(numbers[20 * (i % 3) + 5 * (i / 3 % 4) + i / 12]);
        (image, (0..60).map(value).collect())
    }

    #[test]
    fn images_of_others_become_those_of_a_device_without_the_host() {
        let Ok(device) = Cuda::emulated() else { return eprintln!("skipped: no C++ compiler") };
        let numbers: Vec<i16> = (0..60).map(|i| 7 * i - 200).collect();
        let (image, expected) = foreign(&numbers);
        let before = device.transfers();
        // SAFETY: the memory is that of the numbers.
        let resident = Arc::new(unsafe { Resident::of_foreign(&device, &image) }.unwrap());
        drop(numbers);
        let grid = Grid::axis_aligned([3, 4, 5], [1.0; 3]).unwrap();
        let there = Volume::of_elsewhere(grid.clone(), resident).unwrap();
        let copy = there.elsewhere().unwrap();
        let own = device.here(&**copy).unwrap().unwrap();
        let forked = device.fork().unwrap();
        let other = forked.here(&**copy).unwrap().unwrap();
        let moved = device.transfers();
        assert_eq!(moved.to_host, before.to_host);
        assert_eq!(moved.within_device - before.within_device, 3 * 4 * 60);
        assert_eq!(device.download(&own).unwrap(), expected);
        assert_eq!(forked.into_host(other).unwrap(), expected);
        assert_eq!(device.transfers().images_to_host, 0);

        // Compared where it is.
        let here = Volume::new(grid.clone(), expected.clone()).unwrap();
        let Kept::Elsewhere(kept) = device.kept(own).unwrap() else { panic!("it was not kept") };
        let kept = Volume::of_elsewhere(grid, kept).unwrap();
        assert!(there == here && there == kept);
        assert_eq!(device.transfers().images_to_host, 0);
        assert_eq!(kept.data(), expected);
        assert_eq!(device.transfers().images_to_host, 4 * 60);
        // NaN equals nothing, and the least difference is one.
        let changed = |value: f32| {
            let mut here = here.clone();
            here.data_mut()[7] = value;
            let values = device.upload(here.data()).unwrap();
            let Kept::Elsewhere(values) = device.kept(values).unwrap() else { panic!("not kept") };
            (Volume::of_elsewhere(here.grid().clone(), values).unwrap(), here)
        };
        let (none, least) = (changed(f32::NAN), changed(f32::from_bits(1)));
        assert!(none.0 != none.1 && none.0 != there && there != none.1);
        assert!(least.0 == least.1 && least.0 != there && there != least.1);
        let (zero, negative) = (changed(0.0), changed(-0.0));
        assert!(least.0 != zero.1 && least.0 != zero.0 && zero.0 == negative.0);
        // Other handles of the device, and devices.
        let forked = device.fork().unwrap();
        let Kept::Elsewhere(values) = forked.kept(forked.upload(here.data()).unwrap()).unwrap()
        else {
            panic!("not kept")
        };
        assert!(there == Volume::of_elsewhere(here.grid().clone(), values).unwrap());
        assert_eq!(device.transfers().images_to_host, 4 * 60);
        // Another device does not know it.
        let another = Cuda::emulated().unwrap();
        assert!(another.here(&**there.elsewhere().unwrap()).unwrap().is_none());
        assert_eq!(there.data(), expected);
    }

    /// What other handles have asked of a buffer has been done when it becomes an image.
    #[test]
    fn images_are_those_of_the_last_change() {
        for late in [Late::Forks, Late::First] {
            let Ok(device) = Cuda::emulated_late(late) else {
                return eprintln!("skipped: no C++ compiler");
            };
            let forked = device.fork().unwrap();
            for [maker, other] in [[&device, &forked], [&forked, &device]] {
                let mut values = maker.upload(&[1.0f32; 60]).unwrap();
                maker.synchronize().unwrap();
                let change = x(0) + x(0);
                other.eval_in_place(&change, &mut values, &[], &[], None).unwrap();
                let resident = Resident::new(maker, values).unwrap();
                // SAFETY: memory of the emulated GPU is that of the host.
                let found =
                    unsafe { std::slice::from_raw_parts(resident.address() as *const f32, 60) };
                assert_eq!(found, [2.0; 60]);
            }
        }
    }

    #[test]
    fn places_that_are_not_there_are_refused() {
        let Ok(device) = Cuda::emulated() else { return eprintln!("skipped: no C++ compiler") };
        let numbers = vec![0i16; 60];
        let (image, _) = foreign(&numbers);
        let short = Foreign { bytes: 2 * 59, ..image };
        let odd = Foreign { address: image.address + 1, ..image };
        for wrong in [short, odd] {
            // SAFETY: what is beyond the memory is refused.
            assert!(unsafe { Resident::of_foreign(&device, &wrong) }.is_err());
        }
        device.limit_memory(crate::cuda::MemoryLimit::Bytes(16));
        // SAFETY: the memory is that of the numbers.
        let refused = unsafe { Resident::of_foreign(&device, &image) }.unwrap_err();
        assert!(matches!(refused, ComputeError::OutOfMemory { .. }), "{refused}");
    }
}
