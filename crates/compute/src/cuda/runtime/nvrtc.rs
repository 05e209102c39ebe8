//! Compilation of kernels for the GPU at hand by NVRTC.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::OnceLock;

use super::libraries::{self, function};

type Handle = *mut c_void;

/// The functions of NVRTC that are used.
struct Functions {
    version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int,
    architectures: Option<unsafe extern "C" fn(*mut c_int) -> c_int>,
    architecture_count: Option<unsafe extern "C" fn(*mut c_int) -> c_int>,
    create: unsafe extern "C" fn(
        *mut Handle,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> c_int,
    compile: unsafe extern "C" fn(Handle, c_int, *const *const c_char) -> c_int,
    cubin_size: unsafe extern "C" fn(Handle, *mut usize) -> c_int,
    cubin: unsafe extern "C" fn(Handle, *mut c_char) -> c_int,
    ptx_size: unsafe extern "C" fn(Handle, *mut usize) -> c_int,
    ptx: unsafe extern "C" fn(Handle, *mut c_char) -> c_int,
    log_size: unsafe extern "C" fn(Handle, *mut usize) -> c_int,
    log: unsafe extern "C" fn(Handle, *mut c_char) -> c_int,
    destroy: unsafe extern "C" fn(*mut Handle) -> c_int,
    message: unsafe extern "C" fn(c_int) -> *const c_char,
    _library: libloading::Library,
}

/// The compiler of CUDA C++ at run time.
pub(in crate::cuda) struct Nvrtc {
    functions: Functions,
    version: (i32, i32),
}

impl std::fmt::Debug for Nvrtc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Nvrtc {}.{}", self.version.0, self.version.1)
    }
}

/// The compiler, or why there is none. One that is not newer than the `driver`, by the major version
/// of CUDA, is preferred: the driver has to understand its code. The first call decides.
pub(in crate::cuda) fn nvrtc(driver: i32) -> Result<&'static Nvrtc, String> {
    static NVRTC: OnceLock<Result<Nvrtc, String>> = OnceLock::new();
    NVRTC.get_or_init(|| Nvrtc::open(driver)).as_ref().map_err(Clone::clone)
}

impl Nvrtc {
    fn open(driver: i32) -> Result<Self, String> {
        let library = libraries::open_nvrtc(driver).map_err(|tried| {
            let is = "the compiler library NVRTC";
            libraries::missing(is, &tried, "nvidia-cuda-nvrtc-cu12", "nvrtc")
        })?;
        // SAFETY: NVRTC documents these functions with these types; before 11.2 it lacks two.
        let functions = unsafe {
            Functions {
                version: function(&library, "nvrtcVersion")?,
                architectures: function(&library, "nvrtcGetSupportedArchs").ok(),
                architecture_count: function(&library, "nvrtcGetNumSupportedArchs").ok(),
                create: function(&library, "nvrtcCreateProgram")?,
                compile: function(&library, "nvrtcCompileProgram")?,
                cubin_size: function(&library, "nvrtcGetCUBINSize")?,
                cubin: function(&library, "nvrtcGetCUBIN")?,
                ptx_size: function(&library, "nvrtcGetPTXSize")?,
                ptx: function(&library, "nvrtcGetPTX")?,
                log_size: function(&library, "nvrtcGetProgramLogSize")?,
                log: function(&library, "nvrtcGetProgramLog")?,
                destroy: function(&library, "nvrtcDestroyProgram")?,
                message: function(&library, "nvrtcGetErrorString")?,
                _library: library,
            }
        };
        let (mut major, mut minor) = (0, 0);
        // SAFETY: the pointers are valid.
        let code = unsafe { (functions.version)(&raw mut major, &raw mut minor) };
        if code != 0 {
            return Err("the NVRTC library that was found does not report its version".into());
        }
        if major < 12 {
            return Err(format!(
                "NVRTC {major}.{minor} is too old: 12.0 or newer is needed; install CUDA's toolkit \
                 12.0 or newer, or `pip install nvidia-cuda-nvrtc-cu12`"
            ));
        }
        Ok(Self { functions, version: (major, minor) })
    }

    /// Major and minor version.
    pub(in crate::cuda) fn version(&self) -> (i32, i32) {
        self.version
    }

    /// The architecture option for a GPU of a compute capability, such as 90: machine code if this NVRTC supports
    /// the GPU, else code of the newest architecture that it supports, for the driver to compile further.
    pub(in crate::cuda) fn architecture(&self, capability: i32) -> String {
        let f = &self.functions;
        let (mut count, mut known) = (0, Vec::new());
        if let (Some(number), Some(list)) = (f.architecture_count, f.architectures) {
            // SAFETY: the list has as many elements as NVRTC said.
            unsafe {
                if number(&raw mut count) == 0 && count > 0 {
                    known = vec![0; count as usize];
                    if list(known.as_mut_ptr()) != 0 {
                        known.clear();
                    }
                }
            }
        }
        let newest = known.iter().copied().filter(|&a| a <= capability).max();
        match newest {
            _ if known.is_empty() || known.contains(&capability) => format!("sm_{capability}"),
            Some(a) => format!("compute_{a}"),
            None => format!("sm_{capability}"),
        }
    }

    /// Compiles a text. Gives machine code, or PTX for an architecture `compute_…`.
    pub(in crate::cuda) fn compile(
        &self,
        name: &str,
        text: &str,
        options: &[String],
    ) -> Result<Vec<u8>, String> {
        let f = &self.functions;
        let c_string = |s: &str| CString::new(s).map_err(|e| format!("{name}: {e}"));
        let (source, title) = (c_string(text)?, c_string(&name.replace([' ', '='], "_"))?);
        let options: Vec<CString> =
            options.iter().map(|o| c_string(o)).collect::<Result<_, _>>()?;
        let pointers: Vec<*const c_char> = options.iter().map(|o| o.as_ptr()).collect();
        let to_ptx = options.iter().any(|o| o.to_bytes().windows(8).any(|w| w == b"compute_"));
        let mut program: Handle = std::ptr::null_mut();
        // SAFETY: strings end with zero and outlive the calls; buffers have the sizes that NVRTC
        // gave; the program is destroyed once.
        unsafe {
            self.check((f.create)(
                &raw mut program,
                source.as_ptr(),
                title.as_ptr(),
                0,
                std::ptr::null(),
                std::ptr::null(),
            ))?;
            let code = (f.compile)(program, pointers.len() as c_int, pointers.as_ptr());
            let result = if code == 0 {
                let (size_of, get) =
                    if to_ptx { (f.ptx_size, f.ptx) } else { (f.cubin_size, f.cubin) };
                let mut size = 0;
                self.check(size_of(program, &raw mut size)).and_then(|()| {
                    let mut image = vec![0u8; size];
                    self.check(get(program, image.as_mut_ptr().cast())).map(|()| image)
                })
            } else {
                let mut size = 0;
                let mut log = Vec::new();
                if (f.log_size)(program, &raw mut size) == 0 {
                    log = vec![0u8; size];
                    (f.log)(program, log.as_mut_ptr().cast());
                }
                let said = self.check(code).err().unwrap_or_default();
                let log = String::from_utf8_lossy(&log);
                Err(format!("{said}\n{}", log.trim_end_matches(['\0', '\n'])))
            };
            (f.destroy)(&raw mut program);
            result
        }
    }

    fn check(&self, code: c_int) -> Result<(), String> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: NVRTC gives a string that lives for ever.
        let text = unsafe { CStr::from_ptr((self.functions.message)(code)) };
        Err(text.to_string_lossy().into_owned())
    }
}
