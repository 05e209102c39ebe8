//! The threads of the program, and the device of a command.

use crate::failure::Failure;
use std::error::Error;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use voxalign_compute::cpu::threads;
use voxalign_compute::select::AnyDevice;
use voxalign_jobs::Listener;
use voxalign_jobs::machine::{Auto, Machine, MachineOptions, may_be_gpu};

/// Starts the device that the options name, and the threads of what is not its own.
pub(crate) fn start(
    options: MachineOptions,
    auto: Auto,
    listener: &dyn Listener,
) -> Result<Machine, Failure> {
    let machine = Machine::start(options, auto)?;
    start_threads(Some(machine.threads))?;
    keep(&machine);
    machine.explain(listener);
    Ok(machine)
}

/// A GPU is given back with the process, which takes no longer then.
pub(crate) fn keep(machine: &Machine) {
    static KEPT: OnceLock<AnyDevice> = OnceLock::new();
    if machine.gpu().is_some() {
        KEPT.get_or_init(|| machine.device.clone());
    }
}

/// Does something while the device starts. What the device says comes first.
pub(crate) fn start_beside<T>(
    options: MachineOptions,
    auto: Auto,
    listener: &dyn Listener,
    work: impl FnOnce() -> Result<T, Failure>,
) -> Result<(Machine, T), Failure> {
    if !may_be_gpu(options, auto)? {
        let machine = start(options, auto, listener)?;
        return Ok((machine, work()?));
    }
    start_threads(options.threads)?;
    let starting = Machine::starting(options, auto)?;
    let done = work();
    let machine = starting.wait()?;
    keep(&machine);
    machine.explain(listener);
    Ok((machine, done?))
}

/// Starts the threads of what is not a device's, such as the compression of files; all that the machine
/// has where no number is given. They can be started once only: a second command of the same process
/// keeps the first one's.
pub(crate) fn start_threads(number: Option<usize>) -> Result<(), Failure> {
    static STARTED: AtomicBool = AtomicBool::new(false);
    if STARTED.load(Ordering::Acquire) {
        return Ok(());
    }
    let count =
        number.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    threads::check(count)?;
    let built = rayon::ThreadPoolBuilder::new().num_threads(number.unwrap_or(0)).build_global();
    match built {
        // The system refused a thread; else there are some already.
        Err(e) if e.source().is_some() => Err(threads::refused(count, e).into()),
        _ => {
            // As those of a device, they have what they need once they have begun.
            rayon::broadcast(|_| rayon::yield_now());
            STARTED.store(true, Ordering::Release);
            Ok(())
        }
    }
}
