//! The context that a thread of others works in.

use cudarc::driver::sys;

/// The context that was current for this thread, which is current again when this goes: libraries that share the thread, such as
/// torch, keep their current device in it.
#[derive(Debug)]
pub(in crate::cuda) struct Current(sys::CUcontext);

// SAFETY: a context is a number for the driver, which any thread may use.
unsafe impl Send for Current {}
// SAFETY: as above; nothing of it changes.
unsafe impl Sync for Current {}

impl Current {
    /// That of this thread; none where the driver does not say. The driver has been started.
    pub(in crate::cuda) fn of_thread() -> Option<Self> {
        let mut context = std::ptr::null_mut();
        // SAFETY: the pointer is valid.
        let code = unsafe { sys::cuCtxGetCurrent(&raw mut context) };
        (code == sys::CUresult::CUDA_SUCCESS).then_some(Self(context))
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        // Nothing can be done about an error here.
        // SAFETY: it was current before, or there was none.
        let _ = unsafe { sys::cuCtxSetCurrent(self.0) };
    }
}
