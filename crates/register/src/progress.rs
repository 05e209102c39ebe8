//! Progress of a running registration, and requests to stop.

/// A message from a running registration.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A stage begins.
    StageStart {
        /// Its number, from 0.
        index: usize,
        /// The number of stages.
        count: usize,
        /// Its name, such as `8 mm`.
        name: &'a str,
        /// The unit that it counts, such as `evaluations`.
        counts: &'static str,
        /// The name of the value that it lowers, such as `cost`.
        value: &'static str,
        /// Its expected fraction of the work of all stages, 0 to 1.
        share: f64,
    },
    /// Some of a stage's work is done.
    Step {
        /// Part of the stage done, 0 to 1.
        done: f64,
        /// Evaluations (or iterations) in this stage so far.
        evaluations: usize,
        /// The best cost (or the last energy) of this stage so far.
        best: f64,
        /// The current activity, such as `60 degree search`; empty where there is only one.
        what: &'a str,
    },
    /// A stage ended.
    StageEnd {
        /// Its name.
        name: &'a str,
        /// Evaluations (or iterations) made.
        evaluations: usize,
        /// The cost of the start transform at this stage's resolution.
        start: f64,
        /// The best cost.
        best: f64,
        /// Wall time, seconds.
        seconds: f64,
    },
    /// A remark for the user; the work goes on.
    Warning {
        /// The remark.
        text: &'a str,
    },
}

/// A listener to a running registration.
pub trait Progress: Sync {
    /// Takes a message; called from the thread that runs the registration.
    fn event(&self, event: &Event<'_>);
    /// Whether the registration should stop as soon as it can.
    fn stop(&self) -> bool {
        false
    }
}

/// A listener that does nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn event(&self, _: &Event<'_>) {}
}
