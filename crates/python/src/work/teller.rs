//! What a job tells, as messages to another thread.

use super::Failure;
use serde_json::Value;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use voxalign_jobs::{Level, Listener};
use voxalign_options::Text;
use voxalign_register::{Event, Progress};

/// What is told.
#[derive(Debug, Clone)]
pub(crate) enum Told {
    /// A line about the work.
    Line(Level, Text),
    /// A stage begins: its number from 0, how many there are, its name, and its part of all work.
    Stage { index: usize, count: usize, name: String, share: f64 },
    /// The part of the stage that is done, and the best value so far.
    Step { done: f64, best: f64 },
    /// A stage ended, with its best value.
    End { name: String, best: f64, seconds: f64 },
    /// A frame of a sequence is done, with its record.
    Frame(Value),
}

/// A message of the work.
pub(crate) enum Message<T> {
    /// It tells something.
    Told(Told),
    /// It ended.
    Done(Result<T, Failure>),
}

/// Passes on what is told; one for all kinds of result.
type Pass = Box<dyn Fn(Told) + Send + Sync>;

/// A listener that passes on what it is told, and can be stopped from another thread.
pub(crate) struct Teller {
    stopped: AtomicBool,
    reading: AtomicUsize,
    pass: Pass,
    steps: bool,
}

impl Teller {
    pub(super) fn new<T: Send + 'static>(to: Sender<Message<T>>, steps: bool) -> Self {
        // Nobody listens any more where the work was left alone.
        let pass: Pass = Box::new(move |told| drop(to.send(Message::Told(told))));
        Self { stopped: AtomicBool::new(false), reading: AtomicUsize::new(0), pass, steps }
    }

    /// Tells a frame of a sequence.
    pub(crate) fn frame(&self, frame: Value) {
        if self.steps {
            (self.pass)(Told::Frame(frame));
        }
    }

    /// Asks the work to stop.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
    }

    /// Whether an input is being opened or read.
    pub(super) fn is_reading(&self) -> bool {
        self.reading.load(Ordering::SeqCst) > 0
    }
}

impl Progress for Teller {
    fn event(&self, event: &Event<'_>) {
        match *event {
            Event::Warning { text } => (self.pass)(Told::Line(Level::Warning, text.into())),
            _ if !self.steps => {}
            Event::StageStart { index, count, name, share, .. } => {
                (self.pass)(Told::Stage { index, count, name: name.to_owned(), share });
            }
            Event::Step { done, best, .. } => (self.pass)(Told::Step { done, best }),
            Event::StageEnd { name, best, seconds, .. } => {
                (self.pass)(Told::End { name: name.to_owned(), best, seconds });
            }
            _ => {}
        }
    }

    fn stop(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }
}

impl Listener for Teller {
    fn tell(&self, level: Level, text: &Text) {
        if level == Level::Warning || self.steps {
            (self.pass)(Told::Line(level, text.clone()));
        }
    }

    fn reading(&self, read: &mut dyn FnMut()) {
        self.reading.fetch_add(1, Ordering::SeqCst);
        read();
        self.reading.fetch_sub(1, Ordering::SeqCst);
    }
}
