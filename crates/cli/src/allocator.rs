//! The program's allocator, which ends a run with a message when memory runs out.
//!
//! Whatever grows with an image is asked for by `voxalign_image::memory`, and a refusal is an error like
//! any other. Small requests, and those of libraries, know no refusal: the standard library ends the
//! program by an abort, with the code of a crash and the hidden folder of unfinished outputs left behind, and
//! there is no stable way to do so in another manner. So the program's allocator stands in between:
//! for such a request it first gives back memory that was set aside at the start, so that the work goes on to its
//! end or to the next request that may be refused; where that is used up too, the program ends as it
//! does for bad input.
//!
//! Images come in large requests, and are new memory each time. That the system makes four kilobytes at a time
//! available, as they are first written to, costs some twentieth of a registration; so large requests ask for pages
//! of two megabytes, which systems have had for long and give or not, and images of usual sizes are not given back
//! to the system between one step and the next.
//!
//! `unsafe` is here because the trait asks for it; nothing but the system's allocator is called.
//!
//! The C library sets 64 MiB of addresses aside for each new thread. Where the address space is limited, that is what
//! others need, as for stacks: there all threads allocate from one place. And a stack that cannot grow, or a thread that
//! lacks what the runtime needs as it begins, is a crash: there the program ends with words before it begins its work
//! unless the first thread can be started, and makes the stack of the main thread as large as it will be.

use crate::failure::Failure;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::Write;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use voxalign_image::memory;

/// The system's allocator, which does not give up at once.
#[derive(Debug, Clone, Copy)]
pub struct Allocator;

#[cfg(test)]
#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

/// Memory set aside, in bytes: for going on, and for the end. None of it is touched, so that it is a part of
/// the address space alone.
const SIZES: [usize; 2] = [4 << 20, 1 << 18];

static RESERVES: [AtomicPtr<u8>; 2] = [const { AtomicPtr::new(ptr::null_mut()) }; 2];

fn layout(reserve: usize) -> Option<Layout> {
    Layout::from_size_align(SIZES[reserve], 16).ok()
}

impl Allocator {
    /// Sets memory aside. Where there is none, the program has to do without; where too little of a limited address
    /// space is left to begin, it ends.
    pub fn prepare() {
        let is_limited = memory::address_space().is_some();
        if is_limited {
            if memory::for_threads(1).is_err() {
                end(memory::needed_by_threads(1));
            }
            grow_stack();
        }
        #[cfg(all(target_os = "linux", target_env = "gnu"))]
        {
            let settings: &[_] = if is_limited {
                &[(libc::M_ARENA_MAX, 1)]
            } else {
                // The largest number that is taken; what is below is kept for the next request.
                &[(libc::M_MMAP_THRESHOLD, 32 << 20), (libc::M_TRIM_THRESHOLD, i32::MAX)]
            };
            for &(which, value) in settings {
                // SAFETY: it sets a number of the allocator, and no other thread has been started.
                unsafe { libc::mallopt(which, value) };
            }
        }
        for (i, reserve) in RESERVES.iter().enumerate() {
            let Some(layout) = layout(i) else { continue };
            // SAFETY: the layout has a size above zero.
            reserve.store(unsafe { System.alloc(layout) }, Ordering::Release);
        }
    }
}

/// Makes the stack of this thread half a megabyte long. The system lengthens that of the main thread as it is touched, and
/// ends the program where no addresses are left for that.
#[inline(never)]
fn grow_stack() {
    std::hint::black_box(&mut [0u8; 512 << 10]);
}

/// Gives a reserve back to the system.
fn give_back(reserve: usize) {
    let start = RESERVES[reserve].swap(ptr::null_mut(), Ordering::AcqRel);
    if let (Some(start), Some(layout)) = (NonNull::new(start), layout(reserve)) {
        // SAFETY: it was allocated there with this layout, and the swap lets one thread alone have it.
        unsafe { System.dealloc(start.as_ptr(), layout) };
    }
}

// SAFETY: all memory is the system allocator's, which is asked with what the caller gave. A request that was
// refused has changed nothing, so that it can be made again. Nothing here unwinds.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps to the same contract.
        answer(layout.size(), || unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps to the same contract.
        answer(layout.size(), || unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller keeps to the same contract, and a refused request leaves the memory as it was.
        answer(size, || unsafe { System.realloc(start, layout, size) })
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps to the same contract.
        unsafe { System.dealloc(start, layout) }
    }
}

#[inline]
fn answer(size: usize, request: impl Fn() -> *mut u8) -> *mut u8 {
    let start = request();
    if start.is_null() {
        return refused(size, &request);
    }
    if size >= LARGE {
        ask_for_large_pages(start, size);
    }
    start
}

/// From this size on requests ask for large pages, bytes.
const LARGE: usize = 4 << 20;

/// Asks for large pages where memory is first written to. A system that has none says so, to nobody.
#[cold]
fn ask_for_large_pages(start: *mut u8, size: usize) {
    #[cfg(target_os = "linux")]
    {
        const PAGE: usize = 2 << 20;
        // Only pages that are all the caller's.
        let before = start.align_offset(PAGE).min(size);
        let length = (size - before) / PAGE * PAGE;
        // SAFETY: the range is within memory that was just allocated; its contents stay as they are.
        unsafe { libc::madvise(start.add(before).cast(), length, libc::MADV_HUGEPAGE) };
    }
}

/// What is done where the system has no such memory.
#[cold]
fn refused(size: usize, request: &dyn Fn() -> *mut u8) -> *mut u8 {
    if memory::is_asking() {
        return ptr::null_mut();
    }
    give_back(0);
    // Another thread may have given it back before.
    let start = request();
    if start.is_null() { end(size) } else { start }
}

thread_local! {
    static ENDS: Cell<bool> = const { Cell::new(false) };
}

/// Ends the program: with words, and without the unfinished outputs.
fn end(size: usize) -> ! {
    static ENDING: AtomicBool = AtomicBool::new(false);
    let code = i32::from(Failure::Usage.code());
    if ENDING.swap(true, Ordering::AcqRel) {
        if ENDS.get() {
            std::process::exit(code);
        }
        // Another thread is about to end the program.
        loop {
            std::thread::park();
        }
    }
    ENDS.set(true);
    give_back(1);
    let free = memory::host().free;
    let refused = memory::OutOfMemory { bytes: size as u64, free };
    say(&format!("voxalign: error: {}\n", voxalign_image::ImageError::from(refused)));
    voxalign_io::unfinished::remove_all();
    std::process::exit(code)
}

/// Writes to standard error past its lock, which a thread may hold that will not go on.
fn say(text: &str) {
    #[cfg(unix)]
    {
        use std::os::fd::AsFd;
        if let Ok(own) = std::io::stderr().as_fd().try_clone_to_owned() {
            let _ = std::fs::File::from(own).write_all(text.as_bytes());
        }
    }
    #[cfg(not(unix))]
    let _ = std::io::stderr().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_an_answer_to_those_who_ask() {
        // No system has so much; without the mark the test's process would end here.
        assert!(memory::zeroed::<u8>(1 << 60).is_err());
        assert!(memory::room::<u64>(1 << 58).is_err());
    }

    #[test]
    fn what_was_set_aside_is_given_back_once() {
        Allocator::prepare();
        assert!(!RESERVES[1].load(Ordering::Acquire).is_null());
        give_back(1);
        assert!(RESERVES[1].load(Ordering::Acquire).is_null());
        give_back(1);
    }
}
