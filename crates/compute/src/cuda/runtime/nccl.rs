//! Bindings to NCCL, for several GPUs of one machine, loaded on first use.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::libraries::{self, function};
use super::{Cuda, CudaBuffer, Target};
use crate::comm::{DeviceSums, HostSums, check_buffers};
use crate::device::Memory;
use crate::error::{ComputeError, Result};

/// The major version that serves.
const MAJORS: [u32; 1] = [2];

/// `ncclInt64` and `ncclSum`.
const INT64: c_int = 4;
const SUM: c_int = 0;

type Handle = *mut c_void;

/// The functions of NCCL that are used.
struct Functions {
    version: unsafe extern "C" fn(*mut c_int) -> c_int,
    init_all: unsafe extern "C" fn(*mut Handle, c_int, *const c_int) -> c_int,
    destroy: unsafe extern "C" fn(Handle) -> c_int,
    group_start: unsafe extern "C" fn() -> c_int,
    group_end: unsafe extern "C" fn() -> c_int,
    all_reduce: unsafe extern "C" fn(
        *const c_void,
        *mut c_void,
        usize,
        c_int,
        c_int,
        Handle,
        *mut c_void,
    ) -> c_int,
    words: unsafe extern "C" fn(c_int) -> *const c_char,
    _library: libloading::Library,
}

/// The library, or why there is none.
fn functions() -> std::result::Result<&'static Functions, String> {
    static NCCL: OnceLock<std::result::Result<Functions, String>> = OnceLock::new();
    NCCL.get_or_init(|| open("nccl")).as_ref().map_err(Clone::clone)
}

fn open(stem: &str) -> std::result::Result<Functions, String> {
    let library = libraries::open(stem, &MAJORS).map_err(|tried| {
        libraries::missing("the library NCCL", &tried, "nvidia-nccl-cu12", stem)
    })?;
    // SAFETY: NCCL documents these functions with these types; its enumerations are ints.
    unsafe {
        Ok(Functions {
            version: function(&library, "ncclGetVersion")?,
            init_all: function(&library, "ncclCommInitAll")?,
            destroy: function(&library, "ncclCommDestroy")?,
            group_start: function(&library, "ncclGroupStart")?,
            group_end: function(&library, "ncclGroupEnd")?,
            all_reduce: function(&library, "ncclAllReduce")?,
            words: function(&library, "ncclGetErrorString")?,
            _library: library,
        })
    }
}

impl Functions {
    fn check(&self, code: c_int, what: &str) -> std::result::Result<(), String> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: NCCL gives a string that lives for ever for any code.
        let words = unsafe {
            let words = (self.words)(code);
            if words.is_null() { c"no description" } else { CStr::from_ptr(words) }
        };
        Err(format!("NCCL, {what}: {} (code {code})", words.to_string_lossy()))
    }

    /// The version, such as 2.21.5.
    fn version(&self) -> String {
        let mut code = 0;
        // SAFETY: the pointer is valid.
        match unsafe { (self.version)(&raw mut code) } {
            0 => dotted(code),
            _ => "of an unknown version".into(),
        }
    }
}

/// A version as NCCL counts: 22105, but 2804 up to 2.8.
fn dotted(code: c_int) -> String {
    let unit = if code < 10_000 { 1000 } else { 10_000 };
    format!("{}.{}.{}", code / unit, code % unit / 100, code % 100)
}

/// The best way to sum over GPUs of this process: NCCL, or the host with the reason.
pub(in crate::cuda) fn sums(devices: &[Cuda]) -> Box<dyn DeviceSums<Cuda>> {
    if devices.len() < 2 {
        return Box::new(HostSums::default());
    }
    match Nccl::new(devices) {
        Ok(nccl) => Box::new(nccl),
        Err(why) => Box::new(HostSums::because(why)),
    }
}

/// GPUs that NCCL connects.
struct Nccl {
    library: &'static Functions,
    /// One of each device, and one thread at a time may use them.
    handles: Mutex<Vec<Handle>>,
    devices: Vec<Cuda>,
}

// SAFETY: NCCL's handles may be used from any thread, by one at a time, which the lock sees to.
unsafe impl Send for Nccl {}
// SAFETY: as above.
unsafe impl Sync for Nccl {}

impl Nccl {
    fn new(devices: &[Cuda]) -> std::result::Result<Self, String> {
        let mut ordinals: Vec<c_int> = Vec::new();
        for device in devices {
            let info = device.info().ok_or("an emulated device is not a GPU")?;
            let ordinal = info.ordinal as c_int;
            if ordinals.contains(&ordinal) {
                return Err(format!("cuda:{ordinal} is listed more than once"));
            }
            ordinals.push(ordinal);
        }
        let library = functions()?;
        share_memory(devices).map_err(|e| e.to_string())?;
        let mut handles = vec![std::ptr::null_mut(); devices.len()];
        // SAFETY: there is room for as many handles as there are numbers, which are those of GPUs.
        let code = unsafe {
            (library.init_all)(handles.as_mut_ptr(), ordinals.len() as c_int, ordinals.as_ptr())
        };
        library.check(code, "start")?;
        Ok(Self { library, handles: Mutex::new(handles), devices: devices.to_vec() })
    }

    /// Puts the sum into the streams of the devices.
    ///
    /// # Safety
    /// The addresses are of buffers of `len` numbers, one on each device.
    unsafe fn run(
        &self,
        streams: &[*mut c_void],
        addresses: &[u64],
        len: usize,
    ) -> std::result::Result<(), String> {
        let handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        let library = self.library;
        // SAFETY: the caller's care; each buffer is read and written in place, in the stream of its
        // device, by the handle of its device.
        unsafe {
            library.check((library.group_start)(), "group")?;
            let each = handles.iter().zip(streams).zip(addresses);
            let asked = each.map(|((&handle, &stream), &address)| {
                let at = address as *mut c_void;
                let code =
                    (library.all_reduce)(at.cast_const(), at, len, INT64, SUM, handle, stream);
                library.check(code, "sum")
            });
            let asked: std::result::Result<(), String> = asked.collect();
            // The group has to end whatever happened in it.
            let ended = library.check((library.group_end)(), "group");
            asked.and(ended)
        }
    }
}

/// Lets each GPU access the memory of the others. NCCL directly accesses buffers of GPUs of one process, and memory
/// of a pool is accessible to other GPUs only where the pool permits it.
fn share_memory(devices: &[Cuda]) -> Result<()> {
    for (i, owner) in devices.iter().enumerate() {
        for (j, reader) in devices.iter().enumerate() {
            if let (true, Target::Gpu(owner), Target::Gpu(reader)) =
                (i != j, &owner.0.target, &reader.0.target)
            {
                owner.open_to(reader)?;
            }
        }
    }
    Ok(())
}

impl DeviceSums<Cuda> for Nccl {
    fn name(&self) -> String {
        format!("NCCL {}", self.library.version())
    }

    fn all_reduce_sum(&self, devices: &[Cuda], buffers: &mut [&mut CudaBuffer<i64>]) -> Result<()> {
        let len = check_buffers(devices, buffers)?;
        let same = devices.len() == self.devices.len()
            && devices.iter().zip(&self.devices).all(|(a, b)| a.identity() == b.identity());
        if !same {
            let found = devices.iter().map(Memory::name).collect::<Vec<_>>().join(", ");
            let expected = "the devices that the sums were set up for";
            return Err(ComputeError::argument("the devices", found, expected));
        }
        // Each device's stream comes after what others do with its buffer.
        for (device, buffer) in devices.iter().zip(&mut *buffers) {
            device.using(std::iter::once(buffer.changed_by()), || Ok(()))?;
        }
        if len == 0 {
            return Ok(());
        }
        let failed = |message| ComputeError::Backend { device: devices[0].name(), message };
        let streams: Option<Vec<_>> = devices.iter().map(Cuda::stream).collect();
        let streams = streams.ok_or_else(|| failed("a GPU has no stream".into()))?;
        let addresses: Vec<u64> = buffers.iter().map(|b| b.read_by().address).collect();
        // SAFETY: the buffers were checked above, and are borrowed for change.
        let summed = unsafe { self.run(&streams, &addresses, len) }.map_err(failed);
        // And what others do with it next comes after the sum.
        for (device, buffer) in devices.iter().zip(buffers) {
            device.using(std::iter::once(buffer.changed_by()), || Ok(()))?;
        }
        summed
    }
}

impl Drop for Nccl {
    fn drop(&mut self) {
        // Errors have nobody to go to.
        let handles = self.handles.get_mut().unwrap_or_else(PoisonError::into_inner);
        for (handle, device) in handles.drain(..).zip(&self.devices) {
            let _ = device.synchronize();
            // SAFETY: the handle is ours, and is destroyed once; its device has nothing to do.
            let _ = unsafe { (self.library.destroy)(handle) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_told_with_what_helps() {
        let Err(said) = open("voxalign-has-no-such") else { panic!("there is such a library") };
        for part in ["NCCL", "libvoxalign-has-no-such.so.2", "pip install nvidia-nccl-cu12"] {
            assert!(said.contains(part), "{said}");
        }
    }

    #[test]
    fn the_library_is_there_or_named() {
        match functions() {
            Ok(library) => assert!(library.version().starts_with("2."), "{}", library.version()),
            Err(said) => assert!(said.contains("nccl"), "{said}"),
        }
    }

    #[test]
    fn versions() {
        assert_eq!(dotted(22105), "2.21.5");
        assert_eq!(dotted(2708), "2.7.8");
    }

    #[test]
    fn what_nccl_cannot_do_goes_through_the_host() {
        let Some(cuda) = crate::cuda::tests::emulated() else { return };
        assert_eq!(sums(std::slice::from_ref(&cuda)).name(), "through the host");
        let why = sums(&[cuda.clone(), cuda]).name();
        assert_eq!(why, "through the host: an emulated device is not a GPU");
    }
}
