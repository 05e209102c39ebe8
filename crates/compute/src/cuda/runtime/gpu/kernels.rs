//! Kernels on a GPU: modules, functions and launches.

use std::ffi::{CString, c_void};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};

use cudarc::driver::sys;

use super::super::nvrtc::{Nvrtc, nvrtc};
use super::super::program::{Arg, Kernel, Program, Shape};
use super::{Gpu, lock};
use crate::error::Result;

/// The shared memory that a function may use without being allowed more, bytes.
const USUAL_SHARED: u32 = 48 << 10;
/// Parameters of a kernel for whose addresses there is room without a request for memory.
const PARAMETERS: usize = 48;

/// A loaded program; unloaded when dropped, where its context is current.
pub(super) struct Module {
    handle: sys::CUmodule,
    /// In the order of the kernels of the program.
    functions: Box<[OnceLock<Function>]>,
}

// SAFETY: handles of the driver may be used from any thread that has made the context current.
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Sync for Module {}

impl Drop for Module {
    fn drop(&mut self) {
        // An error has nobody to go to.
        // SAFETY: the module is ours, and nothing of it is launched any more.
        let _ = unsafe { sys::cuModuleUnload(self.handle) };
    }
}

struct Function {
    handle: sys::CUfunction,
    /// Shared memory that it has by itself.
    fixed: u32,
    /// Shared memory that it may use in all.
    allowed: AtomicU32,
    /// Held by who allows it more.
    allowing: Mutex<()>,
}

impl Gpu {
    fn module(&self, program: &Program) -> Result<&Module> {
        let found = self.modules.get(program.slot(), || self.load(program));
        found.unwrap_or_else(|| Err(self.failed("too many programs of kernels in one process")))
    }

    /// Compiles and loads a program, unless that was done.
    pub(in crate::cuda) fn compile(&self, program: &Program) -> Result<()> {
        self.module(program).map(|_| ())
    }

    /// Whether the cache has a program.
    pub(in crate::cuda) fn knows(&self, program: &Program) -> bool {
        let nvrtc = nvrtc(self.info.driver.0);
        nvrtc.is_ok_and(|nvrtc| self.cache.load(&self.key(nvrtc, program)).is_some())
    }

    /// The cache key of a compiled program.
    fn key(&self, nvrtc: &Nvrtc, program: &Program) -> String {
        let (major, minor) = nvrtc.version();
        format!(
            "{}\nNVRTC {major}.{minor}\n{}\n{}",
            self.info.name,
            self.options.join(" "),
            program.text()
        )
    }

    /// Loads a program, which is compiled where the cache has it not.
    fn load(&self, program: &Program) -> Result<Module> {
        self.bind()?;
        let nvrtc = nvrtc(self.info.driver.0).map_err(|e| self.failed(e))?;
        let key = self.key(nvrtc, program);
        let mut image = match self.cache.load(&key) {
            Some(image) => image,
            None => {
                let compiled = nvrtc
                    .compile(program.name(), program.text(), &self.options)
                    .map_err(|e| self.failed(format!("kernels {}: {e}", program.name())))?;
                self.cache.store(&key, &compiled);
                compiled
            }
        };
        image.push(0); // PTX ends with a zero
        let mut handle = std::ptr::null_mut();
        self.with_room(None, &format!("loading the kernels {}", program.name()), || {
            // SAFETY: the image is machine code or PTX of our own text.
            unsafe { sys::cuModuleLoadData(&raw mut handle, image.as_ptr().cast()) }
        })?;
        let functions = program.kernels().iter().map(|_| OnceLock::new()).collect();
        Ok(Module { handle, functions })
    }

    /// The function of a kernel, which may use so much shared memory from now on.
    fn function(&self, kernel: Kernel<'_>, shared: u32) -> Result<&Function> {
        let module = self.module(kernel.program)?;
        let missing =
            || self.failed(format!("{} has no kernel {}", kernel.program.name(), kernel.index));
        let slot = module.functions.get(kernel.index).ok_or_else(missing)?;
        let function = match slot.get() {
            Some(function) => function,
            None => {
                let found = self.find(module, kernel)?;
                slot.get_or_init(|| found)
            }
        };
        let wanted = function.fixed + shared;
        if wanted > function.allowed.load(Ordering::Acquire) {
            let attribute =
                sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            let _allowing = lock(&function.allowing);
            if wanted > function.allowed.load(Ordering::Acquire) {
                // SAFETY: the function is loaded.
                let code =
                    unsafe { sys::cuFuncSetAttribute(function.handle, attribute, shared as i32) };
                self.checked_as(code, || {
                    format!("kernel {} with {shared} bytes of shared memory", kernel.name())
                })?;
                function.allowed.store(wanted, Ordering::Release);
            }
        }
        Ok(function)
    }

    /// Finds a kernel in its module.
    fn find(&self, module: &Module, kernel: Kernel<'_>) -> Result<Function> {
        let what = format!("kernel {} of {}", kernel.name(), kernel.program.name());
        let name = CString::new(kernel.name()).map_err(|e| self.failed(e.to_string()))?;
        let mut handle = std::ptr::null_mut();
        self.with_room(None, &what, || {
            // SAFETY: the module is loaded, the name ends with zero.
            unsafe { sys::cuModuleGetFunction(&raw mut handle, module.handle, name.as_ptr()) }
        })?;
        let mut fixed = 0;
        let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES;
        // SAFETY: the function is loaded, the pointer valid.
        let code = unsafe { sys::cuFuncGetAttribute(&raw mut fixed, attribute, handle) };
        self.checked(code, &what)?;
        let (fixed, allowed) = (fixed.max(0) as u32, USUAL_SHARED.into());
        Ok(Function { handle, fixed, allowed, allowing: Mutex::default() })
    }

    /// # Safety
    /// The parameters must be those of the kernel, and what it reads and writes within buffers.
    pub(in crate::cuda) unsafe fn launch(
        &self,
        kernel: Kernel<'_>,
        shape: Shape,
        args: &[Arg],
    ) -> Result<()> {
        self.bind()?;
        let function = self.function(kernel, shape.shared)?;
        let mut room = [std::ptr::null_mut::<c_void>(); PARAMETERS];
        let mut more = Vec::new();
        let pointers = match room.get_mut(..args.len()) {
            Some(room) => room,
            None => {
                more.resize(args.len(), std::ptr::null_mut());
                &mut more[..]
            }
        };
        for (pointer, arg) in pointers.iter_mut().zip(args) {
            *pointer = arg.pointer();
        }
        let [gx, gy, gz] = shape.grid;
        let [bx, by, bz] = shape.block;
        let mut launch = || {
            // SAFETY: the parameters are the caller's care; the pointers live until the call
            // returns, by when the driver has copied what they point to.
            unsafe {
                sys::cuLaunchKernel(
                    function.handle,
                    gx,
                    gy,
                    gz,
                    bx,
                    by,
                    bz,
                    shape.shared,
                    self.queue(),
                    pointers.as_mut_ptr(),
                    std::ptr::null_mut(),
                )
            }
        };
        // A kernel that is new, or has more threads at once, may need memory for their own variables.
        let code = match launch() {
            sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
                self.make_room()?;
                launch()
            }
            code => code,
        };
        self.checked_as(code, || format!("launch of kernel {} as {shape:?}", kernel.name()))?;
        self.note(kernel);
        if self.synchronous { self.synchronize() } else { Ok(()) }
    }

    /// Keeps in mind which kernel was launched last.
    fn note(&self, kernel: Kernel<'_>) {
        if let Some(name) = kernel.program.kernels().get(kernel.index) {
            self.last.store(std::ptr::from_ref(name).cast_mut(), Ordering::Relaxed);
        }
    }
}
