//! Emulated kernels: compiled by the host's C++ compiler against a small emulation of the GPU.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{c_char, c_int};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use super::cache::KernelCache;
use super::lanes::Access;
use super::late::Late;
use super::program::{Arg, EMULATION, Kernel, Program, Shape};
use super::slots::Slots;
use crate::error::{ComputeError, Result};

/// The name of the device in messages.
pub(in crate::cuda) const NAME: &str = "cuda (emulated on the host)";

/// Options of the host's compiler.
const OPTIONS: [&str; 9] =
    ["-std=c++17", "-O1", "-fPIC", "-shared", "-ffp-contract=off", "-w", "-x", "c++", "-"];

/// As `emulation.h` has it.
#[repr(C)]
struct Parameter {
    value: *const std::ffi::c_void,
    bytes: u64,
    /// Whether the kernel may change what a pointer points to.
    may_change: u64,
}

impl Parameter {
    fn of(arg: &Arg) -> Self {
        let may_change = u64::from(arg.access == Access::Change);
        Self { value: arg.pointer(), bytes: arg.extent, may_change }
    }
}

/// As `emulation.h` has it.
#[repr(C)]
struct Launch {
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    parameters: u32,
    parameter: *const Parameter,
    message: *mut c_char,
    message_bytes: u64,
}

type Entry = unsafe extern "C" fn(*const Launch) -> c_int;

/// The host emulating a GPU.
#[derive(Debug)]
pub(in crate::cuda) struct Emulated {
    compiler: String,
    version: String,
    cache: KernelCache,
    modules: Slots<libloading::Library>,
    launched: Mutex<BTreeSet<String>>,
    allocations: Mutex<BTreeMap<u64, Vec<u64>>>,
    /// Which streams are late.
    pub(in crate::cuda) late: Option<Late>,
}

fn backend(message: impl Into<String>) -> ComputeError {
    ComputeError::Backend { device: NAME.into(), message: message.into() }
}

/// The first available C++ compiler, and its version string.
fn compiler() -> Option<(String, String)> {
    let named = std::env::var("CXX").ok();
    named.into_iter().chain(["c++", "g++", "clang++"].map(str::to_owned)).find_map(|name| {
        let out = Command::new(&name).arg("--version").output().ok()?;
        out.status.success().then(|| (name, String::from_utf8_lossy(&out.stdout).into_owned()))
    })
}

impl Emulated {
    pub(in crate::cuda) fn new(late: Option<Late>) -> Result<Self> {
        let (compiler, version) = compiler().ok_or_else(|| ComputeError::Unsupported {
            device: NAME.into(),
            what: "running kernels on the host without a C++ compiler".into(),
            remedy: "install one (such as the package g++), or name one in the variable CXX",
        })?;
        Ok(Self {
            compiler,
            version,
            cache: KernelCache::new(),
            modules: Slots::default(),
            launched: Mutex::default(),
            allocations: Mutex::default(),
            late,
        })
    }

    /// The kernels that were launched so far.
    pub(in crate::cuda) fn launched(&self) -> BTreeSet<String> {
        self.launched.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Memory whose content is not zero: what is read before it is written shows.
    pub(in crate::cuda) fn alloc(&self, bytes: usize) -> Result<u64> {
        // As on the GPU every buffer is aligned to 256 bytes.
        let count = bytes.div_ceil(8) + 32;
        let mut words = Vec::new();
        words.try_reserve_exact(count).map_err(|_| ComputeError::OutOfMemory {
            device: NAME.into(),
            bytes: bytes as u64,
            free: None,
        })?;
        words.resize(count, 0xcdcd_cdcd_cdcd_cdcd);
        let address = (words.as_ptr() as u64).next_multiple_of(256);
        self.allocations.lock().unwrap_or_else(PoisonError::into_inner).insert(address, words);
        Ok(address)
    }

    pub(in crate::cuda) fn free(&self, address: u64) {
        let mut allocations = self.allocations.lock().unwrap_or_else(PoisonError::into_inner);
        match self.late {
            None => drop(allocations.remove(&address)),
            // Whoever still reads it, numbers that are none.
            Some(_) => {
                if let Some(words) = allocations.get_mut(&address) {
                    words.fill(u64::MAX);
                }
            }
        }
    }

    fn module(&self, program: &Program) -> Result<&libloading::Library> {
        let found = self.modules.get(program.slot(), || self.load(program));
        found.unwrap_or_else(|| Err(backend("too many programs of kernels in one process")))
    }

    /// Loads a program, which is compiled where the cache has it not.
    fn load(&self, program: &Program) -> Result<libloading::Library> {
        let text = format!("{EMULATION}\n{}", program.text());
        let key = format!("emulated\n{}\n{OPTIONS:?}\n{text}", self.version);
        let image = match self.cache.load(&key) {
            Some(image) => image,
            None => {
                let image = self.compile(program, &text)?;
                self.cache.store(&key, &image);
                image
            }
        };
        // A library is loaded from a file; the file is gone again once it is loaded.
        let path = Temporary::new()?;
        std::fs::write(&path.0, image)
            .map_err(|e| backend(format!("{}: {e}", path.0.display())))?;
        // SAFETY: the library was compiled from our own text and runs nothing when loaded.
        let library = unsafe { libloading::Library::new(&path.0) };
        library.map_err(|e| backend(format!("{}: {e}", program.name())))
    }

    fn compile(&self, program: &Program, text: &str) -> Result<Vec<u8>> {
        let path = Temporary::new()?;
        let failed = |e: std::io::Error| backend(format!("{}: {e}", self.compiler));
        let mut child = Command::new(&self.compiler)
            .args(OPTIONS)
            .arg("-o")
            .arg(&path.0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        if let Some(mut input) = child.stdin.take() {
            // What the compiler does not take it says itself.
            let _ = input.write_all(text.as_bytes());
        }
        let out = child.wait_with_output().map_err(failed)?;
        if !out.status.success() {
            let said = String::from_utf8_lossy(&out.stderr);
            return Err(backend(format!("kernels {} do not compile:\n{said}", program.name())));
        }
        std::fs::read(&path.0).map_err(failed)
    }

    /// # Safety
    /// The parameters must be those of the kernel.
    pub(in crate::cuda) unsafe fn launch(
        &self,
        kernel: Kernel<'_>,
        shape: Shape,
        args: &[Arg],
    ) -> Result<()> {
        let (module, name) = (self.module(kernel.program)?, kernel.name());
        if !shape.is_launchable() {
            let problem = format!("a grid of {:?} blocks, which no GPU can launch", shape.grid);
            return Err(backend(format!("kernel {name}: {problem}")));
        }
        // SAFETY: kernels are compiled to functions of this type.
        let entry = unsafe { module.get::<Entry>(name.as_bytes()) }
            .map_err(|e| backend(format!("kernel {name} of {}: {e}", kernel.program.name())))?;
        let parameters: Vec<Parameter> = args.iter().map(Parameter::of).collect();
        let mut message = vec![0u8; 512];
        let launch = Launch {
            grid: shape.grid,
            block: shape.block,
            shared_bytes: shape.shared,
            parameters: parameters.len() as u32,
            parameter: parameters.as_ptr(),
            message: message.as_mut_ptr().cast(),
            message_bytes: message.len() as u64,
        };
        self.launched.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
        // SAFETY: the pointers outlive the call; the parameters are the caller's care.
        if unsafe { entry(&launch) } == 0 {
            return Ok(());
        }
        let end = message.iter().position(|&b| b == 0).unwrap_or(message.len());
        Err(backend(String::from_utf8_lossy(&message[..end])))
    }
}

/// A newly created file of this user that nobody else can write; removed when dropped.
struct Temporary(PathBuf);

impl Temporary {
    fn new() -> Result<Self> {
        use std::sync::atomic::{AtomicU64, Ordering};
        static COUNT: AtomicU64 = AtomicU64::new(0);
        loop {
            let n = COUNT.fetch_add(1, Ordering::Relaxed);
            let name = format!("voxalign-{}-{n}.so", std::process::id());
            let path = std::env::temp_dir().join(name);
            match std::fs::OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(_) => return Ok(Self(path)),
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(backend(format!("{}: {e}", path.display()))),
            }
        }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // A file that cannot be removed is left to the system.
        let _ = std::fs::remove_file(&self.0);
    }
}
