//! Ctrl-C and termination: the work stops at its next step and leaves no incomplete file.

use crate::failure::Failure;
use crate::output;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use voxalign_io::unfinished;

static STOP: AtomicBool = AtomicBool::new(false);

/// How many inputs are being opened or read.
static READING: AtomicUsize = AtomicUsize::new(0);

/// How long an input that is being read when the program is asked to stop may take.
const PATIENCE: Duration = Duration::from_millis(250);

/// Starts to listen. The first interrupt asks the work to stop, the second ends the program at once; so does the
/// first where the program waits for an input, as for a pipe that nobody writes to.
///
/// A file that becomes longer than the system allows is an error of its writer from here on, rather than the
/// end of the program.
pub(crate) fn listen() {
    // Without a handler the default one ends the program, which is no worse than before.
    let _ = ctrlc::set_handler(|| {
        if STOP.swap(true, Ordering::SeqCst) || waits_for_input() {
            end();
        }
    });
    #[cfg(unix)]
    {
        use signal_hook::{consts::SIGXFSZ, flag};
        let _ = flag::register(SIGXFSZ, std::sync::Arc::new(AtomicBool::new(false)));
    }
}

/// Whether an input that is being read takes longer than it may.
fn waits_for_input() -> bool {
    let step = PATIENCE / 25;
    (0..25).all(|_| {
        let reads = READING.load(Ordering::SeqCst) > 0;
        if reads {
            std::thread::sleep(step);
        }
        reads
    })
}

/// Ends the program at once, with nothing left.
fn end() {
    unfinished::end(|| {
        output::error(&Failure::Stopped.to_string());
        std::process::exit(i32::from(Failure::Stopped.code()));
    });
}

/// Whether the user asked to stop.
pub(crate) fn requested() -> bool {
    STOP.load(Ordering::SeqCst)
}

/// Opens or reads an input, which may take for ever: where the user asks to stop meanwhile, the program ends.
pub(crate) fn reading<T>(read: impl FnOnce() -> T) -> T {
    struct Reading;
    impl Drop for Reading {
        fn drop(&mut self) {
            READING.fetch_sub(1, Ordering::SeqCst);
        }
    }
    READING.fetch_add(1, Ordering::SeqCst);
    let _reading = Reading;
    if requested() {
        // Asked to stop just before: nobody sees that this begins.
        end();
    }
    read()
}
