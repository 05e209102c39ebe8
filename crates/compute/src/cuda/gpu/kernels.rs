//! Kernels of a GPU: modules, functions and launches.

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::sync::{Arc, Mutex};

use cudarc::driver::sys;

use super::super::nvrtc::nvrtc;
use super::super::program::{Arg, Program, Shape};
use super::{Gpu, lock};
use crate::error::Result;

/// The shared memory that a function may use without being allowed more, bytes.
const USUAL_SHARED: u32 = 48 << 10;

/// A loaded program; unloaded when dropped, where its context is current.
pub(super) struct Module {
    handle: sys::CUmodule,
    functions: Mutex<HashMap<String, Function>>,
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

#[derive(Clone, Copy)]
struct Function {
    handle: sys::CUfunction,
    /// Shared memory that it has by itself.
    fixed: u32,
    /// Shared memory that it may use in all.
    allowed: u32,
}

impl Gpu {
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
        let module = Arc::new(Module { handle, functions: Mutex::default() });
        modules.insert(program.key(), Arc::clone(&module));
        Ok(module)
    }

    fn function(&self, program: &Program, kernel: &str, shared: u32) -> Result<Function> {
        let module = self.module(program)?;
        let mut functions = lock(&module.functions);
        let mut function = match functions.get(kernel) {
            Some(function) => *function,
            None => self.load(&module, program, kernel)?,
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

    /// Finds a kernel in its module.
    fn load(&self, module: &Module, program: &Program, kernel: &str) -> Result<Function> {
        let what = format!("kernel {kernel} of {}", program.name());
        let name = CString::new(kernel).map_err(|e| self.failed(e.to_string()))?;
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
        Ok(Function { handle, fixed: fixed.max(0) as u32, allowed: USUAL_SHARED })
    }

    /// How many blocks of a kernel fit on a multiprocessor at once.
    pub(in crate::cuda) fn occupancy(
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
    pub(in crate::cuda) unsafe fn launch(
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
