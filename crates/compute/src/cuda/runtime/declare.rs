//! Kernel declarations: file, threads and parameters. A declaration generates the program, and a typed launch
//! function for each of its kernels.
//!
//! ```ignore
//! kernels! { MIRROR = "mirror/mirror.cu";
//!     fn mirror[256](src: &[f32], n: u64, stride: u64, size: u64, out: &mut [f32]);
//! }
//! // SAFETY: only voxels below n are touched.
//! unsafe { MIRROR.mirror(cuda, Shape::covering(n, 256), src, n as u64, stride, size, out) }
//! ```
//!
//! The functions of a file are in the order of its `KERNEL(...)` lines; a test holds every declaration against
//! them. `build.rs` lists what begins a line with `kernels! {`. Of structures that pass by value the compiler of the kernels checks the size.

use std::marker::PhantomData;

use super::program::{Arg, Program};
use super::{CudaBuffer, Shape};
use crate::device::Element;
use crate::error::{ComputeError, Result};

/// The kernels of a file.
#[derive(Debug)]
pub(crate) struct Declaration {
    /// Its path in `kernels/`.
    pub(crate) file: &'static str,
    pub(crate) text: &'static str,
    pub(crate) kernels: &'static [Declared],
}

/// A kernel of a declaration.
#[derive(Debug)]
pub(crate) struct Declared {
    pub(crate) name: &'static str,
    /// The most threads of its blocks.
    pub(crate) threads: u32,
    pub(crate) parameters: &'static [&'static [Kind]],
}

/// The kind of a kernel's parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Number(&'static str),
    /// A structure that passes by value, and its bytes.
    Structure(&'static str, usize),
    /// A pointer to what it reads.
    In(&'static str),
    /// A pointer to what it changes.
    Out(&'static str),
}

include!(concat!(env!("OUT_DIR"), "/declarations.rs"));

impl Declaration {
    /// The program, with what the sizes of its structures are on the host.
    pub(crate) fn program(&self) -> Program {
        let mut text = self.text.to_owned();
        let mut known = Vec::new();
        for kind in self.kernels.iter().flat_map(|k| k.parameters).copied().flatten() {
            if let Kind::Structure(name, bytes) = kind
                && !known.contains(name)
            {
                known.push(name);
                text.push_str(&assertion(name, *bytes));
            }
        }
        Program::new(self.file, &text)
    }

    /// Refuses blocks of more threads than a kernel is compiled for.
    pub(crate) fn check(&self, kernel: usize, shape: &Shape) -> Result<()> {
        let Some(kernel) = self.kernels.get(kernel) else { return Ok(()) };
        let [x, y, z] = shape.block.map(u64::from);
        if x * y * z <= u64::from(kernel.threads) {
            return Ok(());
        }
        let (most, threads) = (kernel.threads, x * y * z);
        let message = format!(
            "the kernel {} is for blocks of at most {most} threads, not {threads}",
            kernel.name
        );
        Err(ComputeError::Backend { device: "cuda".into(), message })
    }
}

/// A static assertion of the size of a structure.
fn assertion(name: &str, bytes: usize) -> String {
    format!("static_assert(sizeof({name}) == {bytes}, \"{name} is not as the host has it\");\n")
}

/// The same of a type, for texts that are written at run time; nothing for plain numbers.
pub(crate) fn size_of_is_known<T: Plain>() -> String {
    match T::KIND {
        Kind::Structure(name, bytes) => assertion(name, bytes),
        _ => String::new(),
    }
}

/// The value of a parameter: a number, a structure, [`In`] or [`Out`].
pub(crate) trait Parameter {
    /// The kernel's parameters for it; several where one value expands to several.
    const KINDS: &'static [Kind];
    fn push(self, args: &mut Vec<Arg>);
}

/// A value that is nothing but its bytes.
///
/// # Safety
/// No padding, no pointers, `Copy`; for structures `repr(C)` with the layout that C++ gives the
/// structure of the same fields.
pub(crate) unsafe trait Plain: Copy {
    const KIND: Kind;
}

/// The types that a field of a plain structure may have: a number, an array of numbers, or another plain structure.
///
/// # Safety
/// As of [`Plain`].
pub(crate) unsafe trait Field {}

// SAFETY: arrays have no padding between their elements.
unsafe impl<T: Field, const N: usize> Field for [T; N] {}

/// Compiles for fields alone.
pub(crate) const fn is_field<T: Field>() {}

macro_rules! numbers {
    ($($t:ty = $name:literal),* $(,)?) => {$(
        // SAFETY: numbers are their bytes.
        unsafe impl Plain for $t {
            const KIND: Kind = Kind::Number($name);
        }
        // SAFETY: as above.
        unsafe impl Field for $t {}
        impl Cell for $t {
            const NAME: &'static str = $name;
        }
    )*};
}
numbers!(
    f32 = "float",
    f64 = "double",
    u8 = "u8",
    u16 = "u16",
    i16 = "i16",
    u32 = "u32",
    i32 = "i32",
    u64 = "u64",
    i64 = "i64",
);

/// Declares a structure that passes by value, with the name that it has in the kernels where that is another
/// one. Its fields are plain and have no padding between them, which is checked.
macro_rules! plain {
    ($(#[$meta:meta])* $vis:vis struct $Name:ident $(as $name:literal)? {
        $($(#[$field_meta:meta])* $field_vis:vis $field:ident : $t:ty),* $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq)]
        #[repr(C)]
        $vis struct $Name {
            $($(#[$field_meta])* $field_vis $field: $t),*
        }

        const _: () = {
            $($crate::cuda::runtime::declare::is_field::<$t>();)*
            assert!(size_of::<$Name>() == 0 $(+ size_of::<$t>())*, "there is padding");
        };

        // SAFETY: its fields are plain, and there is no padding between them.
        unsafe impl $crate::cuda::runtime::declare::Field for $Name {}

        // SAFETY: plain numbers without padding, laid out as C++ does.
        unsafe impl $crate::cuda::runtime::declare::Plain for $Name {
            const KIND: $crate::cuda::runtime::declare::Kind = {
                const NAMES: &[&str] = &[$($name,)? stringify!($Name)];
                $crate::cuda::runtime::declare::Kind::Structure(NAMES[0], size_of::<$Name>())
            };
        }
    };
}

impl<T: Plain> Parameter for T {
    const KINDS: &'static [Kind] = &[T::KIND];

    fn push(self, args: &mut Vec<Arg>) {
        args.push(Arg::of(self));
    }
}

/// The types that a pointer of a kernel may point to.
pub(crate) trait Cell {
    /// Its name in the kernels.
    const NAME: &'static str;
}

/// Declares names that kernels have for what buffers hold as plain numbers, such as pairs of them.
macro_rules! cells {
    ($($(#[$meta:meta])* $vis:vis $Name:ident = $name:literal;)*) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, Copy)]
        $vis enum $Name {}
        impl $crate::cuda::runtime::declare::Cell for $Name {
            const NAME: &'static str = $name;
        }
    )*};
}

/// A pointer to what a kernel reads.
#[derive(Debug)]
pub(crate) struct In<T>(Arg, PhantomData<fn() -> T>);

/// A pointer to what a kernel changes.
#[derive(Debug)]
pub(crate) struct Out<T>(Arg, PhantomData<fn() -> T>);

impl<T> Clone for In<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone(), PhantomData)
    }
}

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone(), PhantomData)
    }
}

impl<T: Cell> Parameter for In<T> {
    const KINDS: &'static [Kind] = &[Kind::In(T::NAME)];

    fn push(self, args: &mut Vec<Arg>) {
        args.push(self.0);
    }
}

impl<T: Cell> Parameter for Out<T> {
    const KINDS: &'static [Kind] = &[Kind::Out(T::NAME)];

    fn push(self, args: &mut Vec<Arg>) {
        args.push(self.0);
    }
}

impl<T> In<T> {
    /// Null, for a missing buffer.
    pub(crate) fn none() -> Self {
        Self(Arg::NULL, PhantomData)
    }

    /// A buffer that the kernel sees as another type.
    pub(crate) fn cast<U: Element>(buffer: &CudaBuffer<U>) -> Self {
        Self(Arg::from(buffer), PhantomData)
    }
}

impl<T: Element> In<T> {
    /// A buffer from an element on.
    pub(crate) fn from_element(buffer: &CudaBuffer<T>, first: usize) -> Self {
        Self(Arg::from_element(buffer, first), PhantomData)
    }
}

impl<T> Out<T> {
    /// Null, for a missing buffer.
    pub(crate) fn none() -> Self {
        Self(Arg::NULL.changed(), PhantomData)
    }

    /// A buffer that the kernel sees as another type.
    pub(crate) fn cast<U: Element>(buffer: &mut CudaBuffer<U>) -> Self {
        Self(Arg::from(buffer), PhantomData)
    }

    /// Memory exclusive to this stream, of this many bytes from an address on.
    pub(crate) fn memory(address: u64, bytes: usize) -> Self {
        Self(Arg::memory(address, bytes), PhantomData)
    }

    /// The same for a kernel that reads it, before or while it is changed.
    pub(crate) fn read(&self) -> In<T> {
        let mut arg = self.0.clone();
        arg.access = super::lanes::Access::Read;
        In(arg, PhantomData)
    }
}

impl<T: Element> Out<T> {
    /// A buffer from an element on.
    pub(crate) fn from_element(buffer: &mut CudaBuffer<T>, first: usize) -> Self {
        Self(Arg::from_element(buffer, first).changed(), PhantomData)
    }
}

impl<T: Element> From<&CudaBuffer<T>> for In<T> {
    fn from(buffer: &CudaBuffer<T>) -> Self {
        Self(Arg::from(buffer), PhantomData)
    }
}

impl<T: Element> From<&mut CudaBuffer<T>> for In<T> {
    fn from(buffer: &mut CudaBuffer<T>) -> Self {
        Self(Arg::from(&*buffer), PhantomData)
    }
}

impl<T: Element> From<Option<&CudaBuffer<T>>> for In<T> {
    fn from(buffer: Option<&CudaBuffer<T>>) -> Self {
        buffer.map_or_else(Self::none, Self::from)
    }
}

impl<T: Element> From<&mut CudaBuffer<T>> for Out<T> {
    fn from(buffer: &mut CudaBuffer<T>) -> Self {
        Self(Arg::from(buffer), PhantomData)
    }
}

impl<T: Element> From<Option<&mut CudaBuffer<T>>> for Out<T> {
    fn from(buffer: Option<&mut CudaBuffer<T>>) -> Self {
        buffer.map_or_else(Self::none, Self::from)
    }
}

/// Declares the kernels of a file; see the [module](self).
///
/// `NAME.kernel(cuda, shape, parameters...)` launches one. Buffers pass as references, `Option`s of them,
/// [`In`] or [`Out`]; numbers and structures as themselves.
macro_rules! kernels {
    (
        $(#[$meta:meta])*
        $vis:vis $NAME:ident = $file:literal;
        $(fn $kernel:ident [$threads:expr] (
            $($p:ident : $(&mut [$changed:ident])? $(&[$read:ident])? $($value:ident)?),* $(,)?
        );)*
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone)]
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        pub(crate) struct $NAME {
            program: $crate::cuda::runtime::Program,
        }

        $(#[$meta])*
        $vis static $NAME: std::sync::LazyLock<$NAME> =
            std::sync::LazyLock::new(|| $NAME { program: $NAME::DECLARATION.program() });

        // Not every file has variants.
        #[allow(dead_code)]
        impl $NAME {
            /// The declarations that are compared with the file.
            pub(crate) const DECLARATION: $crate::cuda::runtime::declare::Declaration =
                $crate::cuda::runtime::declare::Declaration {
                    file: $file,
                    text: include_str!(concat!(
                        env!("CARGO_MANIFEST_DIR"), "/src/cuda/kernels/", $file
                    )),
                    kernels: &[$($crate::cuda::runtime::declare::Declared {
                        name: stringify!($kernel),
                        threads: $threads,
                        parameters: &[$(
                            <$($crate::cuda::runtime::declare::Out<$changed>)?
                             $($crate::cuda::runtime::declare::In<$read>)?
                             $($value)? as $crate::cuda::runtime::declare::Parameter>::KINDS
                        ),*],
                    }),*],
                };

            /// The text that is compiled.
            #[cfg(test)]
            pub(crate) fn program(&self) -> &$crate::cuda::runtime::Program {
                &self.program
            }

            /// The same with macros defined before it.
            pub(crate) fn with<V: $crate::cuda::runtime::program::Literal>(
                &self,
                macros: &[(&str, V)],
            ) -> Self {
                Self { program: self.program.with(macros) }
            }

            kernels!(@functions 0usize; $(fn $kernel($(
                $p: $($crate::cuda::runtime::declare::Out<$changed>)? $($crate::cuda::runtime::declare::In<$read>)? $($value)?
            ),*);)*);
        }
    };
    (@functions $index:expr;) => {};
    (@functions $index:expr;
        fn $kernel:ident($($p:ident : $t:ty),*);
        $($rest:tt)*
    ) => {
        /// Launches the kernel.
        ///
        /// # Safety
        /// With these parameters it reads and writes nothing outside of the buffers.
        // Its structures need not be known where the kernels are.
        #[allow(clippy::too_many_arguments, private_bounds)]
        pub(crate) unsafe fn $kernel(
            &self,
            cuda: &$crate::cuda::Cuda,
            shape: $crate::cuda::runtime::Shape,
            $($p: impl Into<$t>),*
        ) -> $crate::error::Result<()> {
            const INDEX: usize = $index;
            Self::DECLARATION.check(INDEX, &shape)?;
            let mut args = Vec::with_capacity(Self::DECLARATION.kernels[INDEX].parameters.len());
            $(<$t as $crate::cuda::runtime::declare::Parameter>::push($p.into(), &mut args);)*
            // SAFETY: the types are those of the declaration, which is that of the kernel; the rest is
            // the caller's care.
            unsafe { cuda.launch(self.program.kernel(INDEX), shape, &args, &[]) }
        }

        kernels!(@functions $index + 1usize; $($rest)*);
    };
}

#[cfg(test)]
mod tests;
