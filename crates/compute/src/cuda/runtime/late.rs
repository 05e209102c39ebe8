//! Emulated streams that run as late as possible: work is done when somebody waits for it, and not before. A
//! missing synchronisation thus shows at once, at every run, without a GPU.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use super::lanes::Lane;
use crate::error::Result;

/// Which streams of an emulated device are late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Late {
    /// Those of queues and other forks.
    Forks,
    /// That of the handle that they are made of.
    First,
}

type Job = Box<dyn FnOnce() -> Result<()> + Send>;

/// Pending work, each item with the count of its lane at which it is complete.
#[derive(Default)]
pub(in crate::cuda) struct Backlog(Mutex<VecDeque<(u64, Job)>>);

/// Jobs of all late lanes are done one after the other, by whatever thread.
static TURN: Mutex<()> = Mutex::new(());

thread_local! {
    /// Whether this thread does a job, which may need others to be done first.
    static AT_WORK: Cell<bool> = const { Cell::new(false) };
}

impl Lane {
    /// Runs work for the lane: now, or on a late lane when somebody waits for it.
    pub(in crate::cuda) fn perform(
        &self,
        job: impl FnOnce() -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let Some(Backlog(jobs)) = &self.backlog else { return job() };
        let mut jobs = jobs.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.push_back((self.asked() + 1, Box::new(job)));
        Ok(())
    }

    /// Runs the pending work up to a count; returns the first error.
    pub(in crate::cuda) fn catch_up(&self, count: u64) -> Result<()> {
        let Some(Backlog(jobs)) = &self.backlog else { return Ok(()) };
        let next = || {
            let mut jobs = jobs.lock().unwrap_or_else(PoisonError::into_inner);
            let is_due = jobs.front().is_some_and(|(at, _)| *at <= count);
            is_due.then(|| jobs.pop_front()).flatten()
        };
        let all = || {
            let mut result = Ok(());
            while let Some((_, job)) = next() {
                result = result.and(job());
            }
            result
        };
        if AT_WORK.get() {
            return all();
        }
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        AT_WORK.set(true);
        let result = all();
        AT_WORK.set(false);
        result
    }
}
