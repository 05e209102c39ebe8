//! The CUDA driver: initialisation, error messages, and handles.

use std::ffi::CStr;

use cudarc::driver::sys::{self, CUresult};

use super::GpuInfo;

/// The oldest driver that serves, as CUDA counts: that of CUDA 12.0.
const OLDEST_DRIVER: i32 = 12000;

/// The driver's description of an error, or a note that it has none.
pub(super) fn words(code: CUresult) -> String {
    let said = [sys::cuGetErrorName, sys::cuGetErrorString].map(|function| {
        let mut s = std::ptr::null();
        // SAFETY: the driver gives a string that lives for ever, or null.
        unsafe {
            (function(code, &raw mut s) == CUresult::CUDA_SUCCESS && !s.is_null())
                .then(|| CStr::from_ptr(s).to_string_lossy().into_owned())
        }
    });
    sentence(said, code as u32)
}

/// An error of the driver from its name, its words and its number.
fn sentence(said: [Option<String>; 2], code: u32) -> String {
    let said: Vec<String> = said.into_iter().flatten().collect();
    if said.is_empty() {
        format!("unknown error {code} of the CUDA driver")
    } else {
        format!("{} (error {code} of the CUDA driver)", said.join(": "))
    }
}

pub(super) fn check(code: CUresult) -> Result<(), String> {
    if code == CUresult::CUDA_SUCCESS { Ok(()) } else { Err(words(code)) }
}

/// Loads and initialises the driver, or explains why it cannot.
pub(in crate::cuda) fn start_driver() -> Result<(i32, i32), String> {
    // The driver's library is looked for before `cudarc` is asked: that would panic.
    // SAFETY: the library of the driver, whose loading has no other effects.
    let present = ["libcuda.so", "libcuda.so.1"]
        .iter()
        .any(|name| unsafe { libloading::Library::new(*name) }.is_ok());
    if !present {
        return Err(
            "no CUDA driver was found (libcuda.so.1); install NVIDIA's driver for the GPU".into()
        );
    }
    // SAFETY: any thread may start the driver, any number of times.
    unsafe {
        match sys::cuInit(0) {
            CUresult::CUDA_SUCCESS => {}
            CUresult::CUDA_ERROR_NO_DEVICE => {
                return Err(
                    "the CUDA driver finds no GPU; check whether `nvidia-smi` lists one, and \
                     whether CUDA_VISIBLE_DEVICES hides it"
                        .into(),
                );
            }
            code => return Err(format!("the CUDA driver cannot be started: {}", words(code))),
        }
        let mut version = 0;
        check(sys::cuDriverGetVersion(&raw mut version))?;
        let version_pair = (version / 1000, version % 1000 / 10);
        if version < OLDEST_DRIVER {
            return Err(format!(
                "the CUDA driver is too old: it supports CUDA {}.{}, but 12.0 or newer is needed; update \
                 NVIDIA's driver (525 or newer)",
                version_pair.0, version_pair.1
            ));
        }
        Ok(version_pair)
    }
}

/// The number of GPUs.
pub(in crate::cuda) fn count() -> Result<usize, String> {
    start_driver()?;
    let mut count = 0;
    // SAFETY: the pointer is valid.
    check(unsafe { sys::cuDeviceGetCount(&raw mut count) })?;
    Ok(count.max(0) as usize)
}

/// A GPU's context that all of the process share, held until this is dropped.
pub(super) struct Context {
    device: sys::CUdevice,
    pub(super) handle: sys::CUcontext,
}

impl Context {
    /// Holds the context and makes it current for this thread.
    ///
    /// # Safety
    /// The device must be one of the driver's.
    pub(super) unsafe fn retain(device: sys::CUdevice) -> Result<Self, String> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: the pointer is valid, the device the caller's care.
        check(unsafe { sys::cuDevicePrimaryCtxRetain(&raw mut handle, device) })?;
        let context = Self { device, handle };
        // SAFETY: the context is held.
        check(unsafe { sys::cuCtxSetCurrent(handle) })?;
        Ok(context)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // Errors at the end have nobody to go to, here and below.
        // SAFETY: it was retained once.
        let _ = unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}

/// A stream; dropped where its context is current.
pub(super) struct Stream(pub(super) sys::CUstream);

impl Stream {
    /// A stream of the current context that does not wait for the default one.
    pub(super) fn new() -> Result<Self, CUresult> {
        let mut stream = std::ptr::null_mut();
        let flags = sys::CUstream_flags_enum::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: the pointer is valid; without a context the driver says so.
        match unsafe { sys::cuStreamCreate(&raw mut stream, flags) } {
            CUresult::CUDA_SUCCESS => Ok(Self(stream)),
            code => Err(code),
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: the stream is ours, and no buffer of it is left: each holds its owner.
        unsafe {
            let _ = sys::cuStreamSynchronize(self.0);
            let _ = sys::cuStreamDestroy_v2(self.0);
        }
    }
}

/// An event; dropped where its context is current. Streams that wait for it keep waiting.
pub(super) struct Event(pub(super) sys::CUevent);

impl Event {
    /// An event of the current context, which can be timed if asked for.
    pub(super) fn new(timed: bool) -> Result<Self, CUresult> {
        let untimed = sys::CUevent_flags_enum::CU_EVENT_DISABLE_TIMING as u32;
        let mut event = std::ptr::null_mut();
        // SAFETY: the pointer is valid; without a context the driver says so.
        match unsafe { sys::cuEventCreate(&raw mut event, if timed { 0 } else { untimed }) } {
            CUresult::CUDA_SUCCESS => Ok(Self(event)),
            code => Err(code),
        }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: the event is ours.
        let _ = unsafe { sys::cuEventDestroy_v2(self.0) };
    }
}

/// Facts about a GPU.
///
/// # Safety
/// The device must be one of the driver's, and its context current.
pub(super) unsafe fn info(
    ordinal: usize,
    device: sys::CUdevice,
    driver: (i32, i32),
) -> Result<GpuInfo, String> {
    use sys::CUdevice_attribute as A;
    let attribute = |which| {
        let mut value = 0;
        // SAFETY: the caller's device.
        check(unsafe { sys::cuDeviceGetAttribute(&raw mut value, which, device) }).map(|()| value)
    };
    let mut name = [0 as std::ffi::c_char; 256];
    let (mut free, mut total) = (0, 0);
    // SAFETY: the name has the length that is given; the context is current.
    unsafe {
        check(sys::cuDeviceGetName(name.as_mut_ptr(), 255, device))?;
        check(sys::cuMemGetInfo_v2(&raw mut free, &raw mut total))?;
        Ok(GpuInfo {
            ordinal,
            name: CStr::from_ptr(name.as_ptr()).to_string_lossy().into_owned(),
            capability: (
                attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
                attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
            ),
            multiprocessors: attribute(A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?.max(1)
                as usize,
            memory: total as u64,
            free: free as u64,
            l2_cache: attribute(A::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?.max(0) as u64,
            shared_memory: attribute(A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?
                .max(0) as usize,
            driver,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_carry_their_number() {
        let unknown = sentence([None, None], 12345);
        assert!(unknown.contains("12345") && unknown.contains("unknown error"), "{unknown}");
        let known = sentence([Some("CUDA_ERROR".into()), Some("it failed".into())], 700);
        assert_eq!(known, "CUDA_ERROR: it failed (error 700 of the CUDA driver)");
    }
}
