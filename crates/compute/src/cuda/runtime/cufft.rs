//! Bindings to cuFFT, loaded on first use.

use std::ffi::{c_int, c_longlong, c_void};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::libraries::{self, function};
use crate::Dims;

/// Majors of cuFFT that serve: those of CUDA 13 and 12.
const MAJORS: [u32; 2] = [12, 11];

/// The plans that are kept, those used last.
const MOST_PLANS: usize = 16;

/// The kind of transform of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cuda) enum Kind {
    RealToComplex = 0x2a,
    ComplexToReal = 0x2c,
    ComplexToComplex = 0x29,
}

/// The memory layout of the transforms of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cuda) struct Layout {
    /// The sizes of a transform.
    pub(in crate::cuda) dims: Dims,
    /// Their number.
    pub(in crate::cuda) batch: usize,
    /// None: one after the other. Else they are of one dimension, the numbers of each are so far
    /// apart, and those of neighbouring transforms are neighbours.
    pub(in crate::cuda) stride: Option<usize>,
}

type Handle = c_int;

/// The functions of cuFFT that are used.
struct Functions {
    create: unsafe extern "C" fn(*mut Handle) -> c_int,
    automatic: unsafe extern "C" fn(Handle, c_int) -> c_int,
    make: unsafe extern "C" fn(
        Handle,
        c_int,
        *mut c_longlong,
        *mut c_longlong,
        c_longlong,
        c_longlong,
        *mut c_longlong,
        c_longlong,
        c_longlong,
        c_int,
        c_longlong,
        *mut usize,
    ) -> c_int,
    set_stream: unsafe extern "C" fn(Handle, *mut c_void) -> c_int,
    set_work: unsafe extern "C" fn(Handle, *mut c_void) -> c_int,
    real_to_complex: unsafe extern "C" fn(Handle, *mut c_void, *mut c_void) -> c_int,
    complex_to_real: unsafe extern "C" fn(Handle, *mut c_void, *mut c_void) -> c_int,
    complex_to_complex: unsafe extern "C" fn(Handle, *mut c_void, *mut c_void, c_int) -> c_int,
    destroy: unsafe extern "C" fn(Handle) -> c_int,
    _library: libloading::Library,
}

/// The library, or why there is none.
fn functions() -> Result<&'static Functions, String> {
    static CUFFT: OnceLock<Result<Functions, String>> = OnceLock::new();
    CUFFT.get_or_init(open).as_ref().map_err(Clone::clone)
}

fn open() -> Result<Functions, String> {
    let library = libraries::open("cufft", &MAJORS).map_err(|tried| {
        let is = "the library of Fourier transforms";
        libraries::missing(is, &tried, "nvidia-cufft-cu12", "cufft")
    })?;
    // SAFETY: cuFFT documents these functions with these types.
    unsafe {
        Ok(Functions {
            create: function(&library, "cufftCreate")?,
            automatic: function(&library, "cufftSetAutoAllocation")?,
            make: function(&library, "cufftMakePlanMany64")?,
            set_stream: function(&library, "cufftSetStream")?,
            set_work: function(&library, "cufftSetWorkArea")?,
            real_to_complex: function(&library, "cufftExecR2C")?,
            complex_to_real: function(&library, "cufftExecC2R")?,
            complex_to_complex: function(&library, "cufftExecC2C")?,
            destroy: function(&library, "cufftDestroy")?,
            _library: library,
        })
    }
}

/// Why a transform was not done.
#[derive(Debug)]
pub(in crate::cuda) enum Failure {
    /// The library is missing; the remedy.
    Missing(String),
    /// Memory was missing that the library takes by itself.
    OutOfMemory,
    /// The library has failed inside, as it also does where memory is missing.
    Internal(String),
    /// Any other error of the library.
    Failed(String),
}

impl Functions {
    fn check(code: c_int, what: &str) -> Result<(), Failure> {
        let message = |words: &str| format!("cuFFT, {what}: {words} (code {code})");
        Err(match code {
            0 => return Ok(()),
            1 => Failure::Failed(message("the plan is not valid")),
            2 => Failure::OutOfMemory,
            4 => Failure::Failed(message("a pointer or value is not valid")),
            5 => Failure::Internal(message("internal error, possibly out of memory")),
            6 => Failure::Failed(message("the transform could not be run")),
            7 => Failure::Internal(message("could not be started, possibly out of memory")),
            8 => Failure::Failed(message("the sizes are not supported")),
            _ => Failure::Failed(message("failed")),
        })
    }
}

/// A plan for a layout; destroyed when dropped, which needs the context of its device.
#[derive(Debug)]
struct Plan {
    layout: Layout,
    kind: Kind,
    handle: Handle,
    work_bytes: usize,
}

impl Drop for Plan {
    fn drop(&mut self) {
        if let Ok(f) = functions() {
            // SAFETY: the handle is ours, and is destroyed once. Errors have nobody to go to.
            let _ = unsafe { (f.destroy)(self.handle) };
        }
    }
}

impl Plan {
    fn new(
        f: &Functions,
        layout: Layout,
        kind: Kind,
        stream: *mut c_void,
    ) -> Result<Self, Failure> {
        let Layout { dims, batch, stride } = layout;
        // The slowest first; axes of one voxel are left out, but not that of the real rows.
        let is_real = kind != Kind::ComplexToComplex;
        let mut sizes: Vec<c_longlong> = (0..3)
            .rev()
            .filter(|&a| dims[a] > 1 || (a == 0 && is_real))
            .map(|a| dims[a] as c_longlong)
            .collect();
        let mut handle = 0;
        // SAFETY: the pointer is valid.
        Functions::check(unsafe { (f.create)(&raw mut handle) }, "plan")?;
        let mut plan = Self { layout, kind, handle, work_bytes: 0 };
        let null = std::ptr::null_mut();
        // SAFETY: the sizes and embeddings are as many as said; without embeddings the numbers are
        // contiguous; the stream lives longer than the plans.
        unsafe {
            // Working memory is of our own pool, and only held while it is used.
            Functions::check((f.automatic)(handle, 0), "plan")?;
            let rank = sizes.len() as c_int;
            let (sizes, bytes) = (sizes.as_mut_ptr(), &raw mut plan.work_bytes);
            // Embedded in itself: then strides count.
            let embedded = if stride.is_some() { sizes } else { null };
            let (step, kind) = (stride.unwrap_or(1) as c_longlong, kind as c_int);
            let (batch, of) = (batch as c_longlong, embedded);
            let code = (f.make)(handle, rank, sizes, of, step, 1, of, step, 1, kind, batch, bytes);
            Functions::check(code, &format!("plan for {batch} of sizes {dims:?}"))?;
            Functions::check((f.set_stream)(handle, stream), "stream")?;
        }
        Ok(plan)
    }
}

/// The plans of a device.
#[derive(Debug, Default)]
pub(in crate::cuda) struct Plans(Mutex<Vec<Plan>>);

/// A plan for exclusive use: a plan serves one thread at a time.
pub(in crate::cuda) struct Ready<'a>(&'static Functions, MutexGuard<'a, Vec<Plan>>);

impl Plans {
    /// The plan for transforms of a layout in a stream.
    ///
    /// # Safety
    /// The context of the device is current; the stream is of that device and outlives the plans.
    pub(in crate::cuda) unsafe fn plan(
        &self,
        layout: Layout,
        kind: Kind,
        stream: *mut c_void,
    ) -> Result<Ready<'_>, Failure> {
        let f = functions().map_err(Failure::Missing)?;
        let mut plans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match plans.iter().position(|p| p.layout == layout && p.kind == kind) {
            Some(at) => plans[..=at].rotate_right(1),
            None => {
                plans.truncate(MOST_PLANS - 1);
                plans.insert(0, Plan::new(f, layout, kind, stream)?);
            }
        }
        Ok(Ready(f, plans))
    }

    /// Forgets all plans; needs the context of the device.
    pub(in crate::cuda) fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Ready<'_> {
    /// The bytes of working memory that it takes.
    pub(in crate::cuda) fn work_bytes(&self) -> usize {
        self.1[0].work_bytes
    }

    /// Puts transforms of numbers at `from` to `to` into the stream.
    ///
    /// # Safety
    /// The addresses are those of buffers with the lengths that the kind and the layout ask for, and
    /// of [so many bytes](Self::work_bytes) that live until the transform is in the stream; the
    /// context of the device is current.
    pub(in crate::cuda) unsafe fn run(
        &self,
        inverse: bool,
        (from, to): (u64, u64),
        work: u64,
    ) -> Result<(), Failure> {
        let (f, plan) = (self.0, &self.1[0]);
        let (from, to) = (from as *mut c_void, to as *mut c_void);
        // SAFETY: the caller's care.
        unsafe {
            Functions::check((f.set_work)(plan.handle, work as *mut c_void), "memory")?;
            let code = match plan.kind {
                Kind::RealToComplex => (f.real_to_complex)(plan.handle, from, to),
                Kind::ComplexToReal => (f.complex_to_real)(plan.handle, from, to),
                Kind::ComplexToComplex => {
                    (f.complex_to_complex)(plan.handle, from, to, if inverse { 1 } else { -1 })
                }
            };
            Functions::check(code, &format!("transform of sizes {:?}", plan.layout.dims))
        }
    }
}
