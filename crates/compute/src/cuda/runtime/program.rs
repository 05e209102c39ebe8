//! Kernel sources and parameters.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use super::CudaBuffer;
use super::declare::Plain;
use super::lanes::{Access, Touch, Uses};
use crate::device::Element;

// The headers and the names of all files, listed when this is built.
include!(concat!(env!("OUT_DIR"), "/kernels.rs"));

/// The prologue that the emulation adds to a program.
pub(in crate::cuda) const EMULATION: &str = include_str!("../kernels/emulation.h");

/// A kernel of a program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kernel<'p> {
    pub(crate) program: &'p Program,
    /// Its place among those of the program.
    pub(crate) index: usize,
}

impl Kernel<'_> {
    pub(crate) fn name(self) -> &'static str {
        self.program.0.kernels.get(self.index).copied().unwrap_or("unknown")
    }
}

/// Kernels that are compiled together. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Program(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    name: String,
    /// The whole text, headers included.
    text: String,
    /// The slot of its module on every device: programs of one text have one number.
    slot: usize,
    kernels: &'static [&'static str],
}

impl Program {
    /// A program of a text, in which headers are put in place of their includes.
    pub(crate) fn new(name: impl Into<String>, text: &str) -> Self {
        let mut flat = String::with_capacity(2 * text.len());
        let mut seen = Vec::new();
        include(text, &mut seen, &mut flat);
        Self::of(name.into(), flat)
    }

    /// Of a text without includes.
    fn of(name: String, text: String) -> Self {
        let (slot, kernels) = known(&text);
        Self(Arc::new(Inner { name, text, slot, kernels }))
    }

    /// The same with macros defined before it, as `("BINS", 64)`.
    pub(crate) fn with<V: Literal>(&self, macros: &[(&str, V)]) -> Self {
        use std::fmt::Write;
        let (mut text, mut name) = (String::new(), self.0.name.clone());
        for (macro_name, value) in macros {
            let value = value.literal();
            // Writing to a string does not fail.
            let _ = writeln!(text, "#define {macro_name} {value}");
            let _ = write!(name, " {macro_name}={value}");
        }
        text.push_str(&self.0.text);
        Self::of(name, text)
    }

    /// Its name in messages.
    pub(crate) fn name(&self) -> &str {
        &self.0.name
    }

    /// The text that is compiled.
    pub(crate) fn text(&self) -> &str {
        &self.0.text
    }

    /// Its place among all programs.
    pub(crate) fn slot(&self) -> usize {
        self.0.slot
    }

    /// The names of the kernels in it, in the order of the text.
    pub(crate) fn kernels(&self) -> &'static [&'static str] {
        self.0.kernels
    }

    /// The kernel of a place.
    pub(crate) fn kernel(&self, index: usize) -> Kernel<'_> {
        Kernel { program: self, index }
    }
}

/// A number as kernels write it.
pub(crate) trait Literal {
    fn literal(&self) -> String;
}

impl Literal for i64 {
    fn literal(&self) -> String {
        self.to_string()
    }
}

impl Literal for f32 {
    fn literal(&self) -> String {
        format!("{self:?}f")
    }
}

/// The number of a text among all that there were in this process, and the names of its kernels.
fn known(text: &str) -> (usize, &'static [&'static str]) {
    type Known = HashMap<u64, (usize, &'static [&'static str])>;
    static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);
    let mut all = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let next = all.len();
    *all.entry(fnv(text.as_bytes())).or_insert_with(|| {
        // Kept for the life of the process, as its number is.
        let leak = |name: &str| -> &'static str { Box::leak(name.to_owned().into_boxed_str()) };
        let names: Vec<&'static str> = kernels_of(text).map(leak).collect();
        (next, Box::leak(names.into_boxed_slice()))
    })
}

/// The names of the kernels that a text declares.
pub(in crate::cuda) fn kernels_of(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let rest = line.trim_start().strip_prefix("KERNEL(")?;
        rest.split(',').next().map(str::trim)
    })
}

fn include(text: &str, seen: &mut Vec<&'static str>, out: &mut String) {
    for line in text.lines() {
        let header = line
            .trim()
            .strip_prefix("#include \"")
            .and_then(|rest| rest.strip_suffix('"'))
            .and_then(|name| HEADERS.iter().find(|(header, _)| *header == name));
        match header {
            Some((name, _)) if seen.contains(name) => {}
            Some((name, body)) => {
                seen.push(name);
                include(body, seen, out);
            }
            None if line.trim() == "#pragma once" => {}
            None => {
                out.push_str(line);
                out.push('\n');
            }
        }
    }
}

/// A number for a text: FNV-1a.
pub(in crate::cuda) fn fnv(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// A parameter of a kernel.
#[derive(Debug, Clone)]
pub(crate) struct Arg {
    /// The value, as bytes of the machine.
    value: [u64; 16],
    /// For a pointer the bytes from it to the end of its buffer; the emulation checks them.
    pub(in crate::cuda) extent: u64,
    /// For the pointer of a buffer the device that it is on, and its uses.
    buffer: Option<(usize, Arc<Uses>)>,
    /// For a pointer what the kernel does there; the emulation checks it.
    pub(in crate::cuda) access: Access,
}

impl Arg {
    /// A null pointer, for a missing buffer.
    pub(crate) const NULL: Self =
        Self { value: [0; 16], extent: 0, buffer: None, access: Access::Read };

    /// The buffer from element `first` on, which the kernel reads.
    pub(crate) fn from_element<T: Element>(buffer: &CudaBuffer<T>, first: usize) -> Self {
        let skipped = (first * size_of::<T>()) as u64;
        let touch = buffer.read_by();
        let mut arg = Self::NULL;
        arg.value[0] = touch.address + skipped;
        arg.extent = buffer.bytes().saturating_sub(skipped);
        arg.buffer = Some((touch.owner, Arc::clone(touch.uses)));
        arg
    }

    /// The same where the kernel changes the buffer, which must not be used by others meanwhile.
    pub(crate) fn changed(mut self) -> Self {
        self.access = Access::Change;
        self
    }

    /// The use of its buffer, if it is a pointer of one.
    pub(in crate::cuda) fn touch(&self) -> Option<Touch<'_>> {
        let (address, access) = (self.address(), self.access);
        self.buffer.as_ref().map(|(owner, uses)| Touch { address, owner: *owner, uses, access })
    }

    /// Memory exclusive to this stream, of this many bytes from an address on.
    pub(in crate::cuda) fn memory(address: u64, bytes: usize) -> Self {
        let mut arg = Self::NULL;
        arg.value[0] = address;
        arg.extent = bytes as u64;
        arg.changed()
    }

    /// A buffer, or null where there is none.
    pub(crate) fn optional<T: Element>(buffer: Option<&CudaBuffer<T>>) -> Self {
        buffer.map_or(Self::NULL, Self::from)
    }

    /// A structure that is passed by value, of at most 128 bytes, `repr(C)` and without padding.
    pub(crate) fn of<T: Plain>(value: T) -> Self {
        const { assert!(size_of::<T>() <= 128, "at most 128 bytes are passed by value") };
        let mut arg = Self::NULL;
        // SAFETY: `Plain` types have no padding and nothing to drop, the source is a value of that
        // size, the target is large enough and of no smaller alignment than bytes need.
        unsafe {
            std::ptr::copy_nonoverlapping(
                (&raw const value).cast::<u8>(),
                arg.value.as_mut_ptr().cast::<u8>(),
                size_of::<T>(),
            );
        }
        arg
    }

    /// The address, where the parameter is a pointer.
    pub(crate) fn address(&self) -> u64 {
        self.value[0]
    }

    pub(in crate::cuda) fn pointer(&self) -> *mut c_void {
        self.value.as_ptr().cast_mut().cast()
    }
}

impl<T: Element> From<&CudaBuffer<T>> for Arg {
    fn from(buffer: &CudaBuffer<T>) -> Self {
        Self::from_element(buffer, 0)
    }
}

impl<T: Element> From<&mut CudaBuffer<T>> for Arg {
    fn from(buffer: &mut CudaBuffer<T>) -> Self {
        Self::from_element(buffer, 0).changed()
    }
}

/// Blocks, threads and dynamic shared memory of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Blocks along x, y and z.
    pub(crate) grid: [u32; 3],
    /// Threads of a block along x, y and z.
    pub(crate) block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub(crate) shared: u32,
}

impl Shape {
    /// The most blocks of a launch along x, y and z.
    pub(crate) const MOST_BLOCKS: [u32; 3] = [i32::MAX as u32, 65_535, 65_535];

    /// Whether a GPU accepts a launch of this many blocks: at least one, and not too many along an axis.
    pub(crate) fn is_launchable(&self) -> bool {
        let mut sides = self.grid.iter().zip(Self::MOST_BLOCKS);
        sides.all(|(&blocks, most)| (1..=most).contains(&blocks))
    }

    /// Blocks of `threads` threads in one dimension, enough of them for `items` items.
    pub(crate) fn covering(items: usize, threads: u32) -> Self {
        let blocks = items.div_ceil(threads as usize).clamp(1, i32::MAX as usize);
        Self { grid: [blocks as u32, 1, 1], block: [threads, 1, 1], shared: 0 }
    }

    /// `blocks` blocks of `threads` threads in one dimension.
    pub(crate) fn blocks(blocks: usize, threads: u32) -> Self {
        Self {
            grid: [blocks.clamp(1, i32::MAX as usize) as u32, 1, 1],
            block: [threads, 1, 1],
            shared: 0,
        }
    }

    /// The same with `bytes` of dynamic shared memory.
    pub(crate) fn with_shared(self, bytes: usize) -> Self {
        Self { shared: bytes as u32, ..self }
    }
}
