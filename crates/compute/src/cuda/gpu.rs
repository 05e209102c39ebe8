//! A GPU: context, stream, memory pool, modules and launches.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::sys::{self, CUresult};

use super::cache::KernelCache;
use super::nvrtc::nvrtc;
use super::program::{Arg, Program, Shape};
use crate::error::{ComputeError, Result};

/// The oldest driver that serves, as CUDA counts: that of CUDA 12.0.
pub(super) const OLDEST_DRIVER: i32 = 12000;

/// The least compute capability that serves, times ten.
const OLDEST_GPU: i32 = 70;

/// What is known of a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuInfo {
    /// Its number, as in `cuda:0`.
    pub ordinal: usize,
    /// Its name.
    pub name: String,
    /// Compute capability, such as `(9, 0)`.
    pub capability: (i32, i32),
    /// Multiprocessors.
    pub multiprocessors: usize,
    /// Memory, bytes.
    pub memory: u64,
    /// Memory that is free now, bytes.
    pub free: u64,
    /// Cache of the second level, bytes.
    pub l2_cache: u64,
    /// Shared memory that a block can have, bytes.
    pub shared_memory: usize,
    /// The CUDA version that the driver serves, such as `(12, 4)`.
    pub driver: (i32, i32),
}

/// The name and the words of an error of the driver.
fn words(code: CUresult) -> String {
    let mut text = String::new();
    for function in [sys::cuGetErrorName, sys::cuGetErrorString] {
        let mut s = std::ptr::null();
        // SAFETY: the driver gives a string that lives for ever, or null.
        unsafe {
            if function(code, &raw mut s) == CUresult::CUDA_SUCCESS && !s.is_null() {
                let separator = if text.is_empty() { "" } else { ": " };
                text = format!("{text}{separator}{}", CStr::from_ptr(s).to_string_lossy());
            }
        }
    }
    if text.is_empty() { format!("error {} of the CUDA driver", code as u32) } else { text }
}

fn check(code: CUresult) -> std::result::Result<(), String> {
    if code == CUresult::CUDA_SUCCESS { Ok(()) } else { Err(words(code)) }
}

/// Loads and starts the driver; says in words why it cannot be.
pub(super) fn start_driver() -> std::result::Result<(i32, i32), String> {
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
                    "the CUDA driver finds no GPU; see whether `nvidia-smi` lists one, and \
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
                "the CUDA driver is too old: it serves CUDA {}.{}, 12.0 or newer is needed; update \
                 NVIDIA's driver (525 or newer)",
                version_pair.0, version_pair.1
            ));
        }
        Ok(version_pair)
    }
}

/// How many GPUs there are.
pub(super) fn count() -> std::result::Result<usize, String> {
    start_driver()?;
    let mut count = 0;
    // SAFETY: the pointer is valid.
    check(unsafe { sys::cuDeviceGetCount(&raw mut count) })?;
    Ok(count.max(0) as usize)
}

struct Module {
    handle: sys::CUmodule,
    functions: Mutex<HashMap<String, Function>>,
}

// SAFETY: handles of the driver may be used from any thread that has made the context current.
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Sync for Module {}

#[derive(Clone, Copy)]
struct Function {
    handle: sys::CUfunction,
    /// Shared memory that it has by itself.
    fixed: u32,
    /// Shared memory that it may use in all.
    allowed: u32,
}

/// A pinned piece of host memory.
struct Staging {
    address: *mut c_void,
    event: sys::CUevent,
}

/// Bytes of each of the staging buffers.
const STAGING: usize = 4 << 20;

/// A stream of work on a GPU.
pub(super) struct Gpu {
    shared: Arc<Shared>,
    stream: sys::CUstream,
}

/// What the streams of a GPU share.
pub(super) struct Shared {
    info: GpuInfo,
    device: sys::CUdevice,
    context: sys::CUcontext,
    pool: sys::CUmemoryPool,
    cache: KernelCache,
    options: Vec<String>,
    modules: Mutex<HashMap<u64, Arc<Module>>>,
    staging: Mutex<Vec<Staging>>,
    /// The kernel launched last, for errors that are found later.
    last: Mutex<&'static str>,
    names: Mutex<HashMap<String, &'static str>>,
    synchronous: bool,
}

// SAFETY: handles of the driver may be used from any thread that has made the context current, which
// every call here does first; what is changed is behind locks.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Gpu {}
// SAFETY: as above.
unsafe impl Sync for Gpu {}

impl std::fmt::Debug for Gpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.info)
    }
}

impl std::ops::Deref for Gpu {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Gpu {
    /// Starts work on a GPU.
    pub(super) fn new(ordinal: usize) -> std::result::Result<Self, String> {
        let driver = start_driver()?;
        let count = count()?;
        if ordinal >= count {
            return Err(format!("there is no GPU number {ordinal}; the driver finds {count}"));
        }
        let nvrtc = nvrtc(driver.0)?;
        // SAFETY: handles come from the driver and are used as it documents; pointers are valid for
        // the calls.
        unsafe {
            let mut device = 0;
            check(sys::cuDeviceGet(&raw mut device, ordinal as i32))?;
            let mut context = std::ptr::null_mut();
            check(sys::cuDevicePrimaryCtxRetain(&raw mut context, device))?;
            check(sys::cuCtxSetCurrent(context))?;
            let stream = new_stream()?;
            let mut pool = std::ptr::null_mut();
            check(sys::cuDeviceGetDefaultMemPool(&raw mut pool, device))?;
            // What is freed stays with the pool: a steady state allocates nothing.
            let mut keep = u64::MAX;
            check(sys::cuMemPoolSetAttribute(
                pool,
                sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
                (&raw mut keep).cast(),
            ))?;
            let info = info(ordinal, device, driver)?;
            let capability = info.capability.0 * 10 + info.capability.1;
            if capability < OLDEST_GPU {
                let (major, minor) = info.capability;
                return Err(format!(
                    "the GPU number {ordinal} ({}) is too old: its compute capability is \
                     {major}.{minor}, 7.0 or newer is needed (Volta, 2017)",
                    info.name
                ));
            }
            let options = vec![
                format!("--gpu-architecture={}", nvrtc.architecture(capability)),
                "--std=c++17".to_owned(),
                "--fmad=false".to_owned(),
                "--generate-line-info".to_owned(),
                "-default-device".to_owned(),
            ];
            let shared = Shared {
                info,
                device,
                context,
                pool,
                cache: KernelCache::new(),
                options,
                modules: Mutex::default(),
                staging: Mutex::default(),
                last: Mutex::new("none"),
                names: Mutex::default(),
                synchronous: std::env::var_os("VOXALIGN_CUDA_SYNCHRONOUS")
                    .is_some_and(|v| v == "1"),
            };
            Ok(Self { shared: Arc::new(shared), stream })
        }
    }

    /// Another stream of the same GPU.
    pub(super) fn fork(&self) -> Result<Self> {
        self.bind()?;
        // SAFETY: the context is current.
        let stream = unsafe { new_stream() }.map_err(|e| self.failed(e))?;
        Ok(Self { shared: Arc::clone(&self.shared), stream })
    }

    /// Lets this stream wait for all that was asked of another one, without waiting here.
    pub(super) fn wait_for(&self, other: &Self) -> Result<()> {
        self.bind()?;
        let mut event = std::ptr::null_mut();
        // SAFETY: the event is made, recorded, waited for and destroyed; the driver keeps it until
        // the wait is over.
        unsafe {
            let flags = sys::CUevent_flags_enum::CU_EVENT_DISABLE_TIMING as u32;
            self.checked(sys::cuEventCreate(&raw mut event, flags), "event")?;
            let recorded = self.checked(sys::cuEventRecord(event, other.stream), "event");
            let waited = recorded.and_then(|()| {
                self.checked(sys::cuStreamWaitEvent(self.stream, event, 0), "event")
            });
            let _ = sys::cuEventDestroy_v2(event);
            waited
        }
    }

    /// A number for the GPU, the same for all of its streams.
    pub(super) fn identity(&self) -> usize {
        Arc::as_ptr(&self.shared) as usize
    }

    pub(super) fn info(&self) -> &GpuInfo {
        &self.info
    }

    pub(super) fn name(&self) -> String {
        format!("cuda:{} ({})", self.info.ordinal, self.info.name)
    }

    fn failed(&self, message: impl Into<String>) -> ComputeError {
        ComputeError::Backend { device: self.name(), message: message.into() }
    }

    /// An error that may stem from any work before.
    fn checked(&self, code: CUresult, what: &str) -> Result<()> {
        check(code).map_err(|words| {
            let last = *lock(&self.last);
            self.failed(format!("{what}: {words} (the kernel launched last: {last})"))
        })
    }

    /// Makes the context current for this thread.
    pub(super) fn bind(&self) -> Result<()> {
        // SAFETY: the context lives as long as this.
        self.checked(unsafe { sys::cuCtxSetCurrent(self.context) }, "context")
    }

    pub(super) fn stream(&self) -> *mut c_void {
        self.stream.cast()
    }

    pub(super) fn alloc(&self, bytes: usize) -> Result<u64> {
        self.bind()?;
        let mut address = 0;
        let ask = |address: &mut u64| {
            // SAFETY: the pointer is valid; zero bytes are not asked for.
            unsafe { sys::cuMemAllocAsync(address, bytes.max(1), self.stream) }
        };
        let mut code = ask(&mut address);
        if code == CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            // What the pool keeps in pieces that are too small is given back, and asked for anew.
            self.synchronize()?;
            self.trim();
            code = ask(&mut address);
        }
        if code == CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            return Err(ComputeError::OutOfMemory {
                device: self.name(),
                bytes: bytes as u64,
                free: self.free_memory(),
            });
        }
        self.checked(code, "allocation")?;
        Ok(address)
    }

    /// Gives what the pool keeps and nobody uses back to the GPU.
    fn trim(&self) {
        // A pool that cannot be trimmed stays as it is.
        // SAFETY: the pool is that of the GPU.
        unsafe {
            let _ = sys::cuMemPoolTrimTo(self.pool, 0);
        }
    }

    pub(super) fn free(&self, address: u64) {
        // Nothing can be done about an error here; the next call reports it.
        // SAFETY: the address came from `alloc` and is given back once.
        unsafe {
            let _ = sys::cuCtxSetCurrent(self.context);
            let _ = sys::cuMemFreeAsync(address, self.stream);
        }
    }

    /// Free memory, with what the pool holds and nobody uses.
    pub(super) fn free_memory(&self) -> Option<u64> {
        self.bind().ok()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: pointers are valid; the attributes have 64 bits.
        unsafe {
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

    /// Bytes that the pool holds of the GPU.
    pub(super) fn reserved(&self) -> Option<u64> {
        self.bind().ok()?;
        self.pool_use().map(|(reserved, _)| reserved)
    }

    pub(super) fn zero(&self, address: u64, bytes: usize) -> Result<()> {
        self.bind()?;
        // SAFETY: the caller gives a range of a buffer.
        let code = unsafe { sys::cuMemsetD8Async(address, 0, bytes, self.stream) };
        self.checked(code, "filling with zeros")
    }

    pub(super) fn copy(&self, from: u64, to: u64, bytes: usize) -> Result<()> {
        self.bind()?;
        // SAFETY: the caller gives ranges of buffers.
        let code = unsafe { sys::cuMemcpyDtoDAsync_v2(to, from, bytes, self.stream) };
        self.checked(code, "copy")
    }

    fn staging(&self) -> Result<Staging> {
        if let Some(staging) = lock(&self.staging).pop() {
            return Ok(staging);
        }
        let mut staging = Staging { address: std::ptr::null_mut(), event: std::ptr::null_mut() };
        // SAFETY: pointers are valid.
        unsafe {
            let code = sys::cuMemHostAlloc(&raw mut staging.address, STAGING, 0);
            self.checked(code, "pinned memory")?;
            let flags = sys::CUevent_flags_enum::CU_EVENT_DISABLE_TIMING as u32;
            self.checked(sys::cuEventCreate(&raw mut staging.event, flags), "event")?;
        }
        Ok(staging)
    }

    /// Copies host memory to the device. The host memory may be changed as soon as this returns.
    pub(super) fn upload(&self, data: &[u8], to: u64) -> Result<()> {
        self.bind()?;
        if data.is_empty() {
            return Ok(());
        }
        // Two pinned buffers take turns: one is filled while the other is copied.
        let pair = [self.staging()?, self.staging()?];
        let step = |i: usize, piece: &[u8]| -> Result<()> {
            let staging = &pair[i % 2];
            // SAFETY: the event and the pinned memory are ours; the copy before from this memory is
            // waited for; the piece fits; the target has room for all of the data.
            unsafe {
                self.checked(sys::cuEventSynchronize(staging.event), "upload")?;
                let target =
                    std::slice::from_raw_parts_mut(staging.address.cast::<u8>(), piece.len());
                parallel_copy(piece, target);
                let at = to + (i * STAGING) as u64;
                let code = sys::cuMemcpyHtoDAsync_v2(at, staging.address, piece.len(), self.stream);
                self.checked(code, "upload")?;
                self.checked(sys::cuEventRecord(staging.event, self.stream), "upload")
            }
        };
        let result = data.chunks(STAGING).enumerate().try_for_each(|(i, piece)| step(i, piece));
        lock(&self.staging).extend(pair);
        result
    }

    /// Copies device memory to the host and waits for it.
    pub(super) fn download(&self, from: u64, out: &mut [u8]) -> Result<()> {
        self.bind()?;
        if out.is_empty() {
            return self.synchronize();
        }
        let pair = [self.staging()?, self.staging()?];
        for staging in &pair {
            // An upload, of another stream perhaps, may still be reading it.
            // SAFETY: the event is ours.
            self.checked(unsafe { sys::cuEventSynchronize(staging.event) }, "download")?;
        }
        let pieces = out.len().div_ceil(STAGING);
        let start = |i: usize, length: usize| -> Result<()> {
            let staging = &pair[i % 2];
            // SAFETY: the pinned memory has room for the piece; the source was checked by the
            // caller.
            unsafe {
                let at = from + (i * STAGING) as u64;
                let code = sys::cuMemcpyDtoHAsync_v2(staging.address, at, length, self.stream);
                self.checked(code, "download")?;
                self.checked(sys::cuEventRecord(staging.event, self.stream), "download")
            }
        };
        let total = out.len();
        let length = |i: usize| STAGING.min(total - i * STAGING);
        let mut result = start(0, length(0));
        for (i, piece) in out.chunks_mut(STAGING).enumerate() {
            if result.is_err() {
                break;
            }
            if i + 1 < pieces {
                result = start(i + 1, length(i + 1));
            }
            let staging = &pair[i % 2];
            // SAFETY: the copy to the pinned memory is waited for before it is read.
            unsafe {
                let waited = self.checked(sys::cuEventSynchronize(staging.event), "download");
                if result.is_ok() {
                    result = waited;
                }
                if result.is_ok() {
                    let source = std::slice::from_raw_parts(
                        staging.address.cast::<u8>().cast_const(),
                        piece.len(),
                    );
                    parallel_copy(source, piece);
                }
            }
        }
        lock(&self.staging).extend(pair);
        result
    }

    pub(super) fn synchronize(&self) -> Result<()> {
        self.bind()?;
        // SAFETY: the stream is ours.
        self.checked(unsafe { sys::cuStreamSynchronize(self.stream) }, "work on the device")
    }

    /// Seconds between two points of the stream: before and after what `f` asks for.
    pub(super) fn seconds(&self, f: &mut dyn FnMut() -> Result<()>) -> Result<f64> {
        self.bind()?;
        let mut events = [std::ptr::null_mut(); 2];
        // SAFETY: events are made, recorded, read and destroyed as the driver documents.
        unsafe {
            for event in &mut events {
                self.checked(sys::cuEventCreate(event, 0), "event")?;
            }
            let [start, end] = events;
            self.checked(sys::cuEventRecord(start, self.stream), "event")?;
            let done = f();
            let mut milliseconds = 0.0;
            let timed = done.and_then(|()| {
                self.bind()?;
                self.checked(sys::cuEventRecord(end, self.stream), "event")?;
                self.checked(sys::cuEventSynchronize(end), "work on the device")?;
                self.checked(sys::cuEventElapsedTime(&raw mut milliseconds, start, end), "event")
            });
            for event in events {
                let _ = sys::cuEventDestroy_v2(event);
            }
            timed?;
            Ok(f64::from(milliseconds) * 1e-3)
        }
    }

    fn module(&self, program: &Program) -> Result<Arc<Module>> {
        // Held while compiling: a program is compiled once.
        let mut modules = lock(&self.modules);
        if let Some(module) = modules.get(&program.key()) {
            return Ok(Arc::clone(module));
        }
        let nvrtc = nvrtc(self.info.driver.0).map_err(|e| self.failed(e))?;
        let (major, minor) = nvrtc.version();
        let key = format!(
            "{}\nNVRTC {major}.{minor}\n{}\n{}",
            self.info.name,
            self.options.join(" "),
            program.text()
        );
        let mut image = self.cache.load(&key);
        if image.is_none() {
            let compiled = nvrtc.compile(program.name(), program.text(), &self.options);
            let compiled =
                compiled.map_err(|e| self.failed(format!("kernels {}: {e}", program.name())))?;
            self.cache.store(&key, &compiled);
            image = Some(compiled);
        }
        let mut handle = std::ptr::null_mut();
        if let Some(mut image) = image {
            image.push(0); // PTX ends with a zero
            // SAFETY: the image is machine code or PTX of our own text.
            let code = unsafe { sys::cuModuleLoadData(&raw mut handle, image.as_ptr().cast()) };
            self.checked(code, &format!("loading the kernels {}", program.name()))?;
        }
        let module = Arc::new(Module { handle, functions: Mutex::default() });
        modules.insert(program.key(), Arc::clone(&module));
        Ok(module)
    }

    fn function(&self, program: &Program, kernel: &str, shared: u32) -> Result<Function> {
        let module = self.module(program)?;
        let mut functions = lock(&module.functions);
        let mut function = match functions.get(kernel) {
            Some(function) => *function,
            None => {
                let name = CString::new(kernel).map_err(|e| self.failed(e.to_string()))?;
                let mut handle = std::ptr::null_mut();
                // SAFETY: the module is loaded, the name ends with zero.
                let code = unsafe {
                    sys::cuModuleGetFunction(&raw mut handle, module.handle, name.as_ptr())
                };
                self.checked(code, &format!("kernel {kernel} of {}", program.name()))?;
                let mut fixed = 0;
                let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES;
                // SAFETY: the function is loaded, the pointer valid.
                let code = unsafe { sys::cuFuncGetAttribute(&raw mut fixed, attribute, handle) };
                self.checked(code, &format!("kernel {kernel} of {}", program.name()))?;
                Function { handle, fixed: fixed.max(0) as u32, allowed: 48 << 10 }
            }
        };
        if function.fixed + shared > function.allowed {
            let attribute =
                sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: the function is loaded.
            let code =
                unsafe { sys::cuFuncSetAttribute(function.handle, attribute, shared as i32) };
            let what = format!("kernel {kernel} with {shared} bytes of shared memory");
            self.checked(code, &what)?;
            function.allowed = function.fixed + shared;
        }
        functions.insert(kernel.to_owned(), function);
        Ok(function)
    }

    /// How many blocks of a kernel fit on a multiprocessor at once.
    pub(super) fn occupancy(
        &self,
        program: &Program,
        kernel: &str,
        threads: u32,
        shared: u32,
    ) -> Result<usize> {
        self.bind()?;
        let function = self.function(program, kernel, shared)?;
        let mut blocks = 0;
        // SAFETY: the function is loaded.
        let code = unsafe {
            sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(
                &raw mut blocks,
                function.handle,
                threads as i32,
                shared as usize,
            )
        };
        self.checked(code, &format!("kernel {kernel}"))?;
        Ok(blocks.max(0) as usize)
    }

    /// # Safety
    /// The parameters must be those of the kernel, and what it reads and writes within buffers.
    pub(super) unsafe fn launch(
        &self,
        program: &Program,
        kernel: &str,
        shape: Shape,
        args: &[Arg],
    ) -> Result<()> {
        self.bind()?;
        let function = self.function(program, kernel, shape.shared)?;
        let mut pointers: Vec<*mut c_void> = args.iter().map(Arg::pointer).collect();
        let [gx, gy, gz] = shape.grid;
        let [bx, by, bz] = shape.block;
        // SAFETY: the parameters are the caller's care; the pointers live until the call returns,
        // by when the driver has copied what they point to.
        let code = unsafe {
            sys::cuLaunchKernel(
                function.handle,
                gx,
                gy,
                gz,
                bx,
                by,
                bz,
                shape.shared,
                self.stream,
                pointers.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        };
        self.checked(code, &format!("launch of kernel {kernel} as {shape:?}"))?;
        self.note(kernel);
        if self.synchronous { self.synchronize() } else { Ok(()) }
    }

    fn note(&self, kernel: &str) {
        let mut names = lock(&self.names);
        let name = match names.get(kernel) {
            Some(name) => name,
            None => {
                // Few names, kept for the life of the process.
                let name: &'static str = Box::leak(kernel.to_owned().into_boxed_str());
                names.insert(kernel.to_owned(), name);
                name
            }
        };
        *lock(&self.last) = name;
    }
}

/// A stream that does not wait for the default one.
///
/// # Safety
/// A context must be current.
unsafe fn new_stream() -> std::result::Result<sys::CUstream, String> {
    let mut stream = std::ptr::null_mut();
    let flags = sys::CUstream_flags_enum::CU_STREAM_NON_BLOCKING as u32;
    // SAFETY: the pointer is valid, the context the caller's care.
    check(unsafe { sys::cuStreamCreate(&raw mut stream, flags) })?;
    Ok(stream)
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // Errors at the end have nobody to go to.
        // SAFETY: the stream is ours, and no buffer of it is left: each holds this.
        unsafe {
            let _ = sys::cuCtxSetCurrent(self.context);
            let _ = sys::cuStreamSynchronize(self.stream);
            let _ = sys::cuStreamDestroy_v2(self.stream);
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: what is destroyed is ours, and no stream is left: each holds this.
        unsafe {
            let _ = sys::cuCtxSetCurrent(self.context);
            for staging in lock(&self.staging).drain(..) {
                let _ = sys::cuEventDestroy_v2(staging.event);
                let _ = sys::cuMemFreeHost(staging.address);
            }
            for (_, module) in lock(&self.modules).drain() {
                let _ = sys::cuModuleUnload(module.handle);
            }
            let _ = sys::cuDevicePrimaryCtxRelease_v2(self.device);
        }
    }
}

/// What is known of a GPU.
///
/// # Safety
/// The device must be one of the driver's, and its context current.
unsafe fn info(
    ordinal: usize,
    device: sys::CUdevice,
    driver: (i32, i32),
) -> std::result::Result<GpuInfo, String> {
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
