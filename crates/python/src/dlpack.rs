//! Images in the memory of a GPU that go from one library to another by DLPack, without the host.
//!
//! The structures are those of `dlpack.h`, of versions before 1 and from 1 on.

use crate::error;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::ffi::{CStr, c_void};
use std::ptr::NonNull;
use std::sync::Arc;
use voxalign_compute::cuda::{Cuda, Foreign, Resident};
use voxalign_compute::ops::values::{Number, Strided};
use voxalign_image::{Elsewhere, ImageError};
use voxalign_options::text;

/// The memory of the host, and that of a GPU, in the enumeration of DLPack.
const HOST: i32 = 1;
const CUDA: i32 = 2;

/// The version that is spoken.
const VERSION: Version = Version { major: 1, minor: 0 };

/// That the memory is the reader's own.
const IS_COPIED: u64 = 2;

#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Place {
    kind: i32,
    number: i32,
}

#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct DataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Tensor {
    data: *mut c_void,
    place: Place,
    dimensions: i32,
    data_type: DataType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Version {
    major: u32,
    minor: u32,
}

/// A tensor of a version before 1.
#[repr(C)]
struct Plain {
    tensor: Tensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Self)>,
}

/// A tensor from version 1 on.
#[repr(C)]
struct Versioned {
    version: Version,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Self)>,
    flags: u64,
    tensor: Tensor,
}

/// What a capsule has.
trait Managed: Sized {
    const NAME: &'static CStr;
    const USED: &'static CStr;
    fn tensor(&self) -> &Tensor;
    fn version(&self) -> Version;
    fn deleter(&self) -> Option<unsafe extern "C" fn(*mut Self)>;
    fn new(tensor: Tensor, context: *mut c_void) -> Self;
    fn context(&self) -> *mut c_void;
}

impl Managed for Plain {
    const NAME: &'static CStr = c"dltensor";
    const USED: &'static CStr = c"used_dltensor";

    fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    fn version(&self) -> Version {
        VERSION
    }

    fn deleter(&self) -> Option<unsafe extern "C" fn(*mut Self)> {
        self.deleter
    }

    fn new(tensor: Tensor, context: *mut c_void) -> Self {
        Self { tensor, context, deleter: Some(delete::<Self>) }
    }

    fn context(&self) -> *mut c_void {
        self.context
    }
}

impl Managed for Versioned {
    const NAME: &'static CStr = c"dltensor_versioned";
    const USED: &'static CStr = c"used_dltensor_versioned";

    fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    fn version(&self) -> Version {
        self.version
    }

    fn deleter(&self) -> Option<unsafe extern "C" fn(*mut Self)> {
        self.deleter
    }

    fn new(tensor: Tensor, context: *mut c_void) -> Self {
        let deleter = Some(delete::<Self> as unsafe extern "C" fn(*mut Self));
        Self { version: VERSION, context, deleter, flags: IS_COPIED, tensor }
    }

    fn context(&self) -> *mut c_void {
        self.context
    }
}

/// A tensor of another library, whose capsule is used up; it goes back with this.
struct Taken<M: Managed>(NonNull<M>);

impl<M: Managed> Drop for Taken<M> {
    fn drop(&mut self) {
        // SAFETY: the tensor is there until its deleter is called, once.
        unsafe {
            if let Some(deleter) = self.0.as_ref().deleter() {
                deleter(self.0.as_ptr());
            }
        }
    }
}

/// The tensor of a capsule, unless that has another kind of them.
fn in_capsule<M: Managed>(capsule: &Bound<'_, PyAny>) -> Option<NonNull<M>> {
    // SAFETY: the object is there, and the name lives for ever; of other objects, and of capsules of another name or without a
    // pointer, this is false.
    let valid = unsafe { ffi::PyCapsule_IsValid(capsule.as_ptr(), M::NAME.as_ptr()) } == 1;
    // SAFETY: the capsule is one of that name.
    let pointer = || unsafe { ffi::PyCapsule_GetPointer(capsule.as_ptr(), M::NAME.as_ptr()) };
    valid.then(pointer).and_then(|pointer| NonNull::new(pointer.cast()))
}

/// An image of another library in the memory of a GPU.
#[derive(Debug)]
pub(crate) struct Described {
    pub(crate) shape: Vec<usize>,
    /// The number of the GPU.
    pub(crate) gpu: usize,
    image: Foreign,
}

/// What is in a capsule of DLPack, which stays as it is. `shape_of` says which shape an image of some dimensions has.
pub(crate) fn described(
    capsule: &Bound<'_, PyAny>,
    shape_of: impl FnOnce(&[usize]) -> PyResult<Vec<usize>>,
) -> PyResult<Described> {
    if let Some(managed) = in_capsule::<Versioned>(capsule) {
        return of_managed(managed, shape_of);
    }
    match in_capsule::<Plain>(capsule) {
        Some(managed) => of_managed(managed, shape_of),
        None => Err(error::input(text!(
            "the values were given by DLPack in no capsule that holds a tensor, or one that was used before"
        ))),
    }
}

fn of_managed<M: Managed>(
    managed: NonNull<M>,
    shape_of: impl FnOnce(&[usize]) -> PyResult<Vec<usize>>,
) -> PyResult<Described> {
    // SAFETY: whoever makes a capsule of that name says that this is in it, as long as it is not used up.
    let managed = unsafe { managed.as_ref() };
    let version = managed.version();
    if version.major != VERSION.major {
        return Err(error::input(format!(
            "the values were given by DLPack {}.{}, and version 1 is known; update voxalign",
            version.major, version.minor
        )));
    }
    let tensor = managed.tensor();
    let Place { kind, number } = tensor.place;
    let gpu = usize::try_from(number).ok().filter(|_| kind == CUDA).ok_or_else(|| {
        error::input(format!(
            "the values are on the device {kind}:{number} of DLPack, which is no GPU of CUDA"
        ))
    })?;
    let count = usize::try_from(tensor.dimensions).unwrap_or_default();
    let listed = |list: *const i64| match list.is_null() || count == 0 {
        true => None,
        // SAFETY: a list that is there has a number for each dimension.
        false => Some(unsafe { std::slice::from_raw_parts(list, count) }),
    };
    let sizes = listed(tensor.shape).unwrap_or_default().iter().map(|n| usize::try_from(*n));
    let sizes = sizes.collect::<Result<Vec<_>, _>>();
    let sizes = sizes.map_err(|_| error::input("the values have a shape with sizes below 0"))?;
    let number = number_of(tensor.data_type)?;
    let shape = shape_of(&sizes)?;
    if shape.contains(&0) {
        return Err(error::input(format!(
            "the values have the shape {sizes:?}, without a voxel; every axis needs at least 1"
        )));
    }
    let too_many = || error::of(ImageError::TooLarge { dims: dims_of(&shape) });
    // Without steps the last axis is fastest.
    let mut dense = vec![1i64; shape.len()];
    for a in (1..shape.len()).rev() {
        let n = i64::try_from(shape[a]).ok();
        dense[a - 1] = n.and_then(|n| n.checked_mul(dense[a])).ok_or_else(too_many)?;
    }
    let steps = listed(tensor.strides).map_or(&*dense, |steps| &steps[..shape.len()]);
    placed(tensor, (number, &shape), steps)
        .map(|image| Described { shape, gpu, image })
        .ok_or_else(|| error::input("the values have steps that lead out of the memory of a GPU"))
}

/// Sizes along x, y and z.
fn dims_of(shape: &[usize]) -> [usize; 3] {
    std::array::from_fn(|a| shape.get(a).copied().unwrap_or(1))
}

/// Where the voxels are.
fn placed(tensor: &Tensor, (number, shape): (Number, &[usize]), steps: &[i64]) -> Option<Foreign> {
    let (mut below, mut above) = (0isize, 0isize);
    let mut all = [0isize; 3];
    for (a, (&n, &step)) in shape.iter().zip(steps).enumerate() {
        all[a] = isize::try_from(step).ok()?;
        let way = isize::try_from(n - 1).ok()?.checked_mul(all[a])?;
        let end = if way < 0 { &mut below } else { &mut above };
        *end = end.checked_add(way)?;
    }
    let first = usize::try_from(below.checked_neg()?).ok()?;
    let numbers = usize::try_from(above).ok()?.checked_add(first)?.checked_add(1)?;
    let size = number.bytes();
    let bytes = numbers.checked_mul(size)?;
    let start = (tensor.data as u64).checked_add(tensor.byte_offset)?;
    let address = start.checked_sub((first * size) as u64).filter(|a| *a > 0)?;
    let at = Strided { number, first, steps: all };
    Some(Foreign { address, bytes, at, dims: dims_of(shape) })
}

/// The type of numbers, in the words of numpy where it cannot be used.
fn number_of(DataType { code, bits, lanes }: DataType) -> PyResult<Number> {
    let number = match (code, bits, lanes) {
        (6, 8, 1) => Number::Bool,
        (0, 8, 1) => Number::I8,
        (1, 8, 1) => Number::U8,
        (0, 16, 1) => Number::I16,
        (1, 16, 1) => Number::U16,
        (0, 32, 1) => Number::I32,
        (1, 32, 1) => Number::U32,
        (0, 64, 1) => Number::I64,
        (1, 64, 1) => Number::U64,
        (2, 16, 1) => Number::F16,
        (2, 32, 1) => Number::F32,
        (2, 64, 1) => Number::F64,
        _ => {
            let name = match code {
                0 => "int",
                1 => "uint",
                2 | 7.. => "float",
                3 => "opaque",
                4 => "bfloat",
                5 => "complex",
                6 => "bool",
            };
            let several = if lanes == 1 { String::new() } else { format!("x{lanes}") };
            return Err(error::input(format!(
                "the values are of the type {name}{bits}{several}, which are no numbers of an image; give numbers, as by \
                 astype or .to(torch.float32)"
            )));
        }
    };
    Ok(number)
}

/// A copy of an image of another library in the memory of its GPU, which has been opened. The capsule is used up.
pub(crate) fn taken(
    py: Python<'_>,
    capsule: &Bound<'_, PyAny>,
    described: &Described,
    gpu: &Cuda,
) -> PyResult<Arc<dyn Elsewhere<f32>>> {
    if let Some(managed) = in_capsule::<Versioned>(capsule) {
        return copied(py, capsule, managed, described, gpu);
    }
    match in_capsule::<Plain>(capsule) {
        Some(managed) => copied(py, capsule, managed, described, gpu),
        None => Err(error::internal("a capsule of DLPack has changed")),
    }
}

fn copied<M: Managed>(
    py: Python<'_>,
    capsule: &Bound<'_, PyAny>,
    managed: NonNull<M>,
    described: &Described,
    gpu: &Cuda,
) -> PyResult<Arc<dyn Elsewhere<f32>>> {
    // SAFETY: the capsule is valid, and the name lives for ever; from here on nobody else takes the tensor.
    if unsafe { ffi::PyCapsule_SetName(capsule.as_ptr(), M::USED.as_ptr()) } != 0 {
        return Err(PyErr::fetch(py));
    }
    let taken = Taken(managed);
    let image = described.image;
    // SAFETY: the tensor is there until `taken` goes, and whoever gave it for the default stream does not change it in others.
    let found = py.detach(|| unsafe { Resident::of_foreign(gpu, &image) });
    drop(taken);
    Ok(Arc::new(found.map_err(error::of)?))
}

/// A tensor with what it needs.
struct Given {
    shape: [i64; 3],
    steps: [i64; 3],
    /// What is lent.
    image: Resident,
}

impl Drop for Given {
    fn drop(&mut self) {
        // Whoever had it may have work in streams of its own that is still to read it. Nothing can be done about an error here.
        let _ = self.image.wait_for_all();
    }
}

/// Takes a tensor back.
unsafe extern "C" fn delete<M: Managed>(managed: *mut M) {
    // SAFETY: both were leaked where the tensor was made, and whoever has it calls this once.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.context().cast::<Given>()));
    }
}

/// The end of a capsule, which takes the tensor back unless somebody has taken it.
unsafe extern "C" fn end<M: Managed>(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls it once, with the capsule.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, M::NAME.as_ptr()) == 1 {
            delete::<M>(ffi::PyCapsule_GetPointer(capsule, M::NAME.as_ptr()).cast());
        }
    }
}

/// How an image is asked for.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    /// Whether it may be of version 1.
    versioned: bool,
    /// The device that it is to be on; none for that where it is.
    place: Option<(i32, i32)>,
}

impl Asked {
    /// Of keyword arguments of `__dlpack__`.
    ///
    /// # Errors
    /// A refusal of copies: whoever takes an image may write to it.
    pub(crate) fn of(how: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let Some(how) = how else { return Ok(Self::default()) };
        let given = |name| Ok::<_, PyErr>(how.get_item(name)?.filter(|value| !value.is_none()));
        if let Some(copy) = given("copy")?
            && !copy.extract::<bool>().unwrap_or(true)
        {
            return Err(PyBufferError::new_err(
                "an image is lent as a copy alone; ask for none without one",
            ));
        }
        let version: Option<(u32, u32)> = given("max_version")?.map(|v| v.extract()).transpose()?;
        let place = given("dl_device")?.map(|v| v.extract()).transpose()?;
        Ok(Self { versioned: version.is_some_and(|v| v.0 >= VERSION.major), place })
    }

    /// Whether that is the memory of a GPU, where the image is.
    ///
    /// # Errors
    /// Another device.
    pub(crate) fn stays_on(&self, gpu: usize) -> PyResult<bool> {
        match self.place {
            None => Ok(true),
            Some((HOST, _)) => Ok(false),
            Some((CUDA, number)) if usize::try_from(number) == Ok(gpu) => Ok(true),
            Some((kind, number)) => Err(PyBufferError::new_err(format!(
                "the image is on cuda:{gpu}, and is not brought to the device ({kind}, {number}) of DLPack; ask for it there, or \
                 on the host"
            ))),
        }
    }
}

/// Where an image is, in the enumeration of DLPack.
pub(crate) fn place(gpu: Option<usize>) -> (i32, i32) {
    match gpu {
        Some(gpu) => (CUDA, gpu as i32),
        None => (HOST, 0),
    }
}

/// A copy of an image in the memory of its GPU, in a capsule.
pub(crate) fn capsule<'py>(
    py: Python<'py>,
    image: &Resident,
    dims: &[usize],
    asked: &Asked,
) -> PyResult<Bound<'py, PyAny>> {
    let copy = py.detach(|| image.copied()).map_err(error::of)?;
    match asked.versioned {
        true => in_new_capsule::<Versioned>(py, copy, dims),
        false => in_new_capsule::<Plain>(py, copy, dims),
    }
}

fn in_new_capsule<'py, M: Managed>(
    py: Python<'py>,
    image: Resident,
    dims: &[usize],
) -> PyResult<Bound<'py, PyAny>> {
    let (mut shape, mut steps, mut step) = ([1; 3], [1; 3], 1);
    for (a, &n) in dims.iter().take(3).enumerate() {
        (shape[a], steps[a]) = (n as i64, step);
        step *= n as i64;
    }
    let (data, gpu) = (image.address() as *mut c_void, image.ordinal());
    let given = Box::into_raw(Box::new(Given { shape, steps, image }));
    let (kind, number) = place(gpu);
    let tensor = Tensor {
        data,
        place: Place { kind, number },
        dimensions: dims.len().min(3) as i32,
        data_type: DataType { code: 2, bits: 32, lanes: 1 },
        // SAFETY: it was made just now, and stays where it is.
        shape: unsafe { &raw mut (*given).shape }.cast(),
        // SAFETY: as above.
        strides: unsafe { &raw mut (*given).steps }.cast(),
        byte_offset: 0,
    };
    let managed = Box::into_raw(Box::new(M::new(tensor, given.cast())));
    // SAFETY: the pointer is that of a tensor of this kind, and the name lives for ever.
    let capsule = unsafe { ffi::PyCapsule_New(managed.cast(), M::NAME.as_ptr(), Some(end::<M>)) };
    if capsule.is_null() {
        // SAFETY: nobody else has it.
        unsafe { delete::<M>(managed) };
        return Err(PyErr::fetch(py));
    }
    // SAFETY: it is new, and ours.
    Ok(unsafe { Bound::from_owned_ptr(py, capsule) })
}
