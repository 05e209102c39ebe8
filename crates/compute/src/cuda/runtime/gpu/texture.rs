//! Volumes as textures.

use std::sync::Arc;

use cudarc::driver::sys::{self, CUresult};

use super::{Gpu, Shared};
use crate::Dims;
use crate::error::Result;

/// A volume in the layout of textures: values are interpolated linearly, with weights of 8 bits, and places outside are
/// those at the border.
pub(in crate::cuda) struct Texture {
    shared: Arc<Shared>,
    array: sys::CUarray,
    object: sys::CUtexObject,
}

// SAFETY: as for `Shared`.
unsafe impl Send for Texture {}
// SAFETY: as above; nothing is changed through a shared reference.
unsafe impl Sync for Texture {}

impl std::fmt::Debug for Texture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "texture {}", self.object)
    }
}

impl Texture {
    /// Its handle in kernels.
    pub(in crate::cuda) fn object(&self) -> u64 {
        self.object
    }
}

impl Drop for Texture {
    fn drop(&mut self) {
        // Errors have nobody to go to.
        if self.shared.bind().is_ok() {
            // SAFETY: both are ours, and nothing reads them any more once the device is idle.
            unsafe {
                let _ = sys::cuCtxSynchronize();
                if self.object != 0 {
                    let _ = sys::cuTexObjectDestroy(self.object);
                }
                let _ = sys::cuArrayDestroy(self.array);
            }
        }
    }
}

impl Gpu {
    /// A texture with a copy of a buffer of these sizes; none where the GPU has no textures that large.
    ///
    /// # Safety
    /// There are so many numbers at the address.
    pub(in crate::cuda) unsafe fn texture(&self, from: u64, dims: Dims) -> Result<Option<Texture>> {
        self.bind()?;
        let [width, height, depth] = dims;
        let layout = sys::CUDA_ARRAY3D_DESCRIPTOR {
            Width: width,
            Height: height,
            Depth: depth,
            Format: sys::CUarray_format::CU_AD_FORMAT_FLOAT,
            NumChannels: 1,
            Flags: 0,
        };
        let mut array = std::ptr::null_mut();
        let mut refused = false;
        let bytes = (width * height * depth * size_of::<f32>()) as u64;
        self.with_room(Some(bytes), "memory of a texture", || {
            // SAFETY: the pointers are valid, the context is current.
            match unsafe { sys::cuArray3DCreate_v2(&raw mut array, &raw const layout) } {
                CUresult::CUDA_ERROR_INVALID_VALUE => {
                    refused = true;
                    CUresult::CUDA_SUCCESS
                }
                code => code,
            }
        })?;
        if refused {
            return Ok(None);
        }
        let mut texture = Texture { shared: Arc::clone(&self.shared), array, object: 0 };
        let row = width * size_of::<f32>();
        let copy = sys::CUDA_MEMCPY3D {
            srcXInBytes: 0,
            srcY: 0,
            srcZ: 0,
            srcLOD: 0,
            srcMemoryType: sys::CUmemorytype::CU_MEMORYTYPE_DEVICE,
            srcHost: std::ptr::null(),
            srcDevice: from,
            srcArray: std::ptr::null_mut(),
            reserved0: std::ptr::null_mut(),
            srcPitch: row,
            srcHeight: height,
            dstXInBytes: 0,
            dstY: 0,
            dstZ: 0,
            dstLOD: 0,
            dstMemoryType: sys::CUmemorytype::CU_MEMORYTYPE_ARRAY,
            dstHost: std::ptr::null_mut(),
            dstDevice: 0,
            dstArray: array,
            reserved1: std::ptr::null_mut(),
            dstPitch: 0,
            dstHeight: 0,
            WidthInBytes: row,
            Height: height,
            Depth: depth,
        };
        // SAFETY: the source is the caller's care, the array has the sizes of the copy.
        let code = unsafe { sys::cuMemcpy3DAsync_v2(&raw const copy, self.queue()) };
        self.checked(code, "copy to a texture")?;
        // SAFETY: plain numbers and pointers, for all of which zeros are valid.
        let (mut resource, mut how): (sys::CUDA_RESOURCE_DESC, sys::CUDA_TEXTURE_DESC) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        resource.resType = sys::CUresourcetype::CU_RESOURCE_TYPE_ARRAY;
        resource.res.array.hArray = array;
        how.addressMode = [sys::CUaddress_mode::CU_TR_ADDRESS_MODE_CLAMP; 3];
        how.filterMode = sys::CUfilter_mode::CU_TR_FILTER_MODE_LINEAR;
        // SAFETY: the descriptions live until the call returns, the array as long as the texture.
        let code = unsafe {
            sys::cuTexObjectCreate(
                &raw mut texture.object,
                &raw const resource,
                &raw const how,
                std::ptr::null(),
            )
        };
        self.checked(code, "texture")?;
        Ok(Some(texture))
    }
}
