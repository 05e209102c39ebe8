//! The order of upload, execution and download, chosen by measurement (Ha 2011, section 4.5.2).

use super::model::{Model, Order};
use super::pipeline::{Listener, Pipeline};
use super::trace::Trace;
use crate::error::Result;
use std::time::Instant;

impl Pipeline<'_> {
    /// Runs all items, by the order of upload, execution and download that is fastest: each is tried
    /// on some of the first items, which are done by that, and the rest goes in the best of them. Where
    /// there are too few items to try, the order is the one that would be best for the times of the
    /// first items.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_measured(&self, count: usize, listener: &dyn Listener) -> Result<(Order, Trace)> {
        /// Items on which an order is tried: the first and the last of them overlap with nothing.
        const TRIED: usize = 6;
        /// One in this many items may be used for trials.
        const PART: usize = 3;
        let (begin, trace) = (Instant::now(), Trace::default());
        let mut trial = Trial { pipeline: self, listener, count, begin, done: 0, trace };
        let synchronises = self.stages.iter().any(|s| s.after.is_some());
        let best = if !synchronises {
            // Nothing waits for the one who asks, so that all orders are the same.
            Order::UED
        } else if count >= PART * TRIED * Order::ALL.len() {
            let mut best = (f64::INFINITY, Order::UED);
            for order in Order::ALL {
                let seconds = trial.step(order, TRIED)?;
                if seconds < best.0 {
                    best = (seconds, order);
                }
            }
            best.1
        } else {
            trial.step(Order::UED, 2)?;
            self.predicted_best(&trial.trace, count)?
        };
        let rest = count - trial.done;
        if rest > 0 {
            trial.step(best, rest)?;
        }
        Ok((best, trial.trace))
    }

    /// The order that would be best for the times that a trace has.
    fn predicted_best(&self, trace: &Trace, count: usize) -> Result<Order> {
        let mut seconds = vec![[f64::INFINITY; 2]; self.stages.len()];
        for t in &trace.tasks {
            let least = &mut seconds[t.stage][t.part];
            *least = least.min(t.end - t.start);
        }
        seconds.iter_mut().flatten().filter(|s| !s.is_finite()).for_each(|s| *s = 0.0);
        let mut best = (f64::INFINITY, Order::UED);
        for order in Order::ALL {
            let model = Model::HardwareIndependent(order);
            let wall = self.predict(0..count, model, &seconds)?.wall();
            if wall < best.0 {
                best = (wall, order);
            }
        }
        Ok(best.1)
    }
}

/// A run in parts, each with an order of its own.
struct Trial<'t, 'a> {
    pipeline: &'t Pipeline<'a>,
    listener: &'t dyn Listener,
    count: usize,
    begin: Instant,
    done: usize,
    trace: Trace,
}

impl Trial<'_, '_> {
    /// Runs the next items and gives the seconds that they took.
    fn step(&mut self, order: Order, items: usize) -> Result<f64> {
        let (start, after) = (Instant::now(), self.begin.elapsed().as_secs_f64());
        let until = (self.done + items).min(self.count);
        let part = Offset { listener: self.listener, done: self.done, count: self.count };
        let model = Model::HardwareIndependent(order);
        self.trace.append(self.pipeline.run(self.done..until, model, &part)?, after);
        self.done = until;
        Ok(start.elapsed().as_secs_f64())
    }
}

/// A listener to a part of a run.
struct Offset<'l> {
    listener: &'l dyn Listener,
    done: usize,
    count: usize,
}

impl Listener for Offset<'_> {
    fn ended(&self, done: usize, _: usize) {
        self.listener.ended(self.done + done, self.count);
    }
    fn stop(&self) -> bool {
        self.listener.stop()
    }
}
