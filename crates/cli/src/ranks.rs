//! The processes of an MPI run, and how they end together.

use crate::failure::Failure;
use std::sync::OnceLock;
use voxalign_compute::comm::Communicator;

static WORLD: OnceLock<Communicator> = OnceLock::new();

/// The processes; the first call connects them.
///
/// # Errors
/// What MPI says, or that there is none in this build.
pub(crate) fn world() -> Result<&'static Communicator, Failure> {
    match WORLD.get() {
        Some(world) => Ok(world),
        None => {
            let world = Communicator::world()?;
            Ok(WORLD.get_or_init(|| world))
        }
    }
}

/// The processes, if they are connected and there are several.
fn several() -> Option<&'static Communicator> {
    WORLD.get().filter(|world| world.size() > 1)
}

/// Whether this is the process that prints.
pub(crate) fn is_first() -> bool {
    several().is_none_or(Communicator::is_first)
}

/// A message with the rank that has it, where there are several.
pub(crate) fn named(message: &str) -> String {
    several().map_or_else(
        || message.to_owned(),
        |world| format!("rank {} of {}: {message}", world.rank(), world.size()),
    )
}

/// Ends this process' part. One that failed by itself ends all of them with its exit code, as the
/// others may be waiting for it; its message has been shown. One that was told of the failure of
/// another waits for that.
pub(crate) fn end(failure: Option<&Failure>) {
    let Some(world) = WORLD.get() else { return };
    match failure {
        Some(failure) if several().is_some() && !matches!(failure, Failure::Peer(_)) => {
            let _ = world.abort(failure.code(), &failure.to_string());
        }
        // An error here comes after the work, and has no effect on it.
        _ => drop(world.finish()),
    }
}
