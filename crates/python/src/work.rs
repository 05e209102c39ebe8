//! Work beside the interpreter: on threads of its own, with progress, warnings and Ctrl-C on the thread that asked for it.

mod teller;
mod watcher;

pub(crate) use teller::Teller;
pub(crate) use watcher::Watcher;

use crate::{error, json};
use pyo3::prelude::*;
use serde_json::Value;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use teller::Message;
use voxalign_compute::cpu::threads;
use voxalign_jobs::Error;
use voxalign_jobs::machine::thread_count;

/// How often signals are looked for.
const TICK: Duration = Duration::from_millis(50);

/// How long an input that is being read may take once the work is to stop, as from a pipe that nobody writes to.
const PATIENCE: Duration = Duration::from_millis(500);

/// The stack of each thread, bytes: that of a program.
const STACK: usize = 8 << 20;

/// Why work did not give what it was to.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An error of a job.
    Job(Error),
    /// The same of its options alone.
    Options(Error),
    /// A device that cannot be started.
    Device(Error),
    /// A defect, and what it says.
    Panic(String),
}

impl<E> From<E> for Failure
where
    Error: From<E>,
{
    fn from(error: E) -> Self {
        Self::Job(error.into())
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Job(e) => error::of_job(&e),
            Failure::Options(e) => error::of_options(&e),
            Failure::Device(e) => error::of_device(&e),
            Failure::Panic(said) => error::internal(&said),
        }
    }
}

/// The keyword argument `threads`, a number or a text of one.
pub(crate) fn threads_of(value: Option<&Bound<'_, PyAny>>) -> PyResult<Option<usize>> {
    let Some(value) = value.filter(|value| !value.is_none()) else { return Ok(None) };
    let text = match json::of_python(value) {
        Ok(Value::Number(number)) => number.to_string(),
        Ok(Value::String(text)) => text,
        _ => String::new(),
    };
    let counted = thread_count(&text);
    counted.map(Some).map_err(|remedy| json::refused("threads", value, &remedy))
}

/// Does work on so many threads, all of the machine where no number is given, while the interpreter is free. What the
/// work tells reaches the watcher on this thread. Where that raises, or Ctrl-C is pressed, the work is asked to stop, and
/// the exception goes on once it has.
pub(crate) fn run<T, F>(
    py: Python<'_>,
    number: Option<usize>,
    watcher: &Watcher,
    work: F,
) -> PyResult<T>
where
    T: Send + 'static,
    F: FnOnce(&Teller) -> Result<T, Failure> + Send + 'static,
{
    let (to, from) = channel();
    let teller = Arc::new(Teller::new(to.clone(), watcher.wants_steps()));
    let told = Arc::clone(&teller);
    let body = move || {
        let done = on_threads(number, || work(&told));
        // Nobody listens any more where the work was left alone.
        let _ = to.send(Message::Done(done));
    };
    let thread = std::thread::Builder::new().name("voxalign".to_owned()).stack_size(STACK);
    thread.spawn(body).map_err(|e| error::of(threads::refused(1, e)))?;
    let from = Mutex::new(from);
    let mut stopped: Option<(PyErr, Instant)> = None;
    loop {
        let message = py.detach(|| next(&from));
        let mut ended = None;
        let outcome = match message {
            Ok(Message::Done(done)) => {
                ended = Some(done);
                Ok(())
            }
            Ok(Message::Told(told)) if stopped.is_none() => watcher.tell(py, &told),
            Ok(Message::Told(_)) | Err(RecvTimeoutError::Timeout) => Ok(()),
            Err(RecvTimeoutError::Disconnected) => Err(error::internal("the work is gone")),
        };
        let outcome = outcome.and_then(|()| py.check_signals());
        if let (Err(e), None) = (outcome, &stopped) {
            teller.stop();
            stopped = Some((e, Instant::now()));
        }
        match (ended, stopped.take()) {
            (Some(_), Some((e, _))) => return Err(e),
            (Some(done), None) => return done.map_err(PyErr::from),
            // It ends by itself when the input comes, and writes nothing.
            (None, Some((e, since))) if teller.is_reading() && since.elapsed() > PATIENCE => {
                return Err(e);
            }
            (None, waiting) => stopped = waiting,
        }
    }
}

/// The next message.
fn next<T>(from: &Mutex<Receiver<Message<T>>>) -> Result<Message<T>, RecvTimeoutError> {
    from.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(TICK)
}

/// Does work in a pool of threads of its own; no panic leaves it.
fn on_threads<T: Send>(
    number: Option<usize>,
    work: impl FnOnce() -> Result<T, Failure> + Send,
) -> Result<T, Failure> {
    let count =
        number.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    threads::check(count)?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(count).stack_size(STACK);
    // A panic that nothing waits for ends no process.
    let pool = pool.panic_handler(|_| {}).build();
    let pool = pool.map_err(|e| threads::refused(count, e))?;
    catch_unwind(AssertUnwindSafe(|| pool.install(work)))
        .unwrap_or_else(|panic| Err(Failure::Panic(error::said(&*panic))))
}
