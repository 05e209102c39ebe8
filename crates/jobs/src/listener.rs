//! Messages of a running job, and its interruption.

use crate::error::{Error, Result};
use voxalign_options::Text;
use voxalign_register::{Event, Progress, Silent};

/// How much somebody wants to know to be told a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Something to look at although the work goes on.
    Warning,
    /// What is done.
    Normal,
    /// Every step.
    Verbose,
}

/// A listener to a job: to the [`Progress`] of its registrations, which can stop it, and to lines about the
/// work.
pub trait Listener: Progress {
    /// Takes a line.
    fn tell(&self, level: Level, text: &Text);

    /// Reads or opens an input, which may take for ever, as of a pipe that nobody writes to; a program that is
    /// asked to stop meanwhile can end here.
    fn reading(&self, read: &mut dyn FnMut()) {
        read();
    }
}

impl dyn Listener + '_ {
    /// Tells a line.
    pub fn say(&self, level: Level, text: impl Into<Text>) {
        self.tell(level, &text.into());
    }
}

impl Listener for Silent {
    fn tell(&self, _: Level, _: &Text) {}
}

/// Ends the work where the listener asks for it.
///
/// # Errors
/// [`Error::Stopped`].
pub fn check(listener: &dyn Listener) -> Result<()> {
    if listener.stop() { Err(Error::Stopped) } else { Ok(()) }
}

/// [Reads](Listener::reading) an input, unless the work is to stop.
///
/// # Errors
/// [`Error::Stopped`]; what reading fails with.
pub(crate) fn reading<T, E>(
    listener: &dyn Listener,
    read: impl FnOnce() -> std::result::Result<T, E>,
) -> Result<T>
where
    Error: From<E>,
{
    check(listener)?;
    let (mut read, mut done) = (Some(read), None);
    listener.reading(&mut || done = read.take().map(|read| read()));
    match done {
        Some(done) => Ok(done?),
        None => Err(Error::Stopped),
    }
}

/// A listener that cannot stop the work any more.
pub(crate) struct Unstoppable<'l>(pub(crate) &'l dyn Listener);

impl Progress for Unstoppable<'_> {
    fn event(&self, event: &Event<'_>) {
        self.0.event(event);
    }
}

impl Listener for Unstoppable<'_> {
    fn tell(&self, level: Level, text: &Text) {
        self.0.tell(level, text);
    }

    fn reading(&self, read: &mut dyn FnMut()) {
        self.0.reading(read);
    }
}

/// A listener to work of which nobody needs to know: it can stop it.
pub(crate) struct Quiet<'l>(pub(crate) &'l dyn Listener);

impl Progress for Quiet<'_> {
    fn event(&self, _: &Event<'_>) {}

    fn stop(&self) -> bool {
        self.0.stop()
    }
}

impl Listener for Quiet<'_> {
    fn tell(&self, _: Level, _: &Text) {}

    fn reading(&self, read: &mut dyn FnMut()) {
        self.0.reading(read);
    }
}
