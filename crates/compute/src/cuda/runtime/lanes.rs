//! Ordering of the work of several handles of one device on the same buffers.
//!
//! Every handle has a stream of its own, here a [`Lane`], and what is asked of it counts on. A buffer knows
//! its last [`Uses`]: the lane that changed it last, those that have read it since, and how far each had
//! counted. Before a lane reads a buffer it waits for the one that changed it; before it changes it or gives
//! its memory back, for all that read it, too. Nobody waits for what is known to be over, or for a lane
//! whose buffers it does not touch: copies and kernels of several lanes run at the same time.
//!
//! Rust's rules do the rest: whoever changes or drops a buffer holds it alone, and so after all others have
//! said what they asked for.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::gpu::Track;
use super::late::Backlog;
use crate::error::Result;

/// The work submitted to a stream, and how much of it has completed.
pub(in crate::cuda) struct Lane {
    /// Tells lanes apart.
    number: u64,
    /// The number of submissions. Incremented after the fact: whoever sees a count sees the work in the stream.
    asked: AtomicU64,
    /// Up to which count all is over.
    over: AtomicU64,
    /// For other lanes, by number, up to which count this one waits for them.
    after: Mutex<HashMap<u64, u64>>,
    /// The stream; none on an emulated device, which does one thing after the other.
    track: Option<Arc<Track>>,
    /// The pending work of an emulated late stream.
    pub(in crate::cuda) backlog: Option<Backlog>,
}

impl std::fmt::Debug for Lane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Lane {}", self.number)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Lane {
    pub(in crate::cuda) fn new(track: Option<Arc<Track>>, is_late: bool) -> Arc<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        Arc::new(Self {
            number: COUNT.fetch_add(1, Ordering::Relaxed),
            asked: AtomicU64::new(0),
            over: AtomicU64::new(0),
            after: Mutex::default(),
            track,
            backlog: is_late.then(Backlog::default),
        })
    }

    /// Its current count.
    pub(in crate::cuda) fn asked(&self) -> u64 {
        self.asked.load(Ordering::SeqCst)
    }

    /// Counts what has just been put into the stream.
    fn count(&self) -> u64 {
        self.asked.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Notes that all is over up to a count that was read before it was waited for.
    pub(in crate::cuda) fn ended(&self, count: u64) {
        self.over.fetch_max(count, Ordering::SeqCst);
    }

    /// Lets what is asked from now on come after what another lane had been asked for at a count. The caller
    /// does not wait.
    pub(in crate::cuda) fn wait_for(&self, other: &Arc<Self>, count: u64) -> Result<()> {
        if self.number == other.number || other.over.load(Ordering::SeqCst) >= count {
            return Ok(());
        }
        if lock(&self.after).get(&other.number).is_some_and(|&known| known >= count) {
            return Ok(());
        }
        // Read before: what is waited for is that much or more.
        let reached = other.asked();
        if let (Some(own), Some(track)) = (&self.track, &other.track) {
            own.wait_for(track)?;
        }
        if other.backlog.is_some() {
            let other = Arc::clone(other);
            self.perform(move || other.catch_up(reached))?;
        }
        let mut after = lock(&self.after);
        let known = after.entry(other.number).or_default();
        *known = reached.max(*known);
        Ok(())
    }
}

/// The kind of access to a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Change,
}

/// A lane, and its count at the time.
#[derive(Debug)]
struct Use {
    lane: Arc<Lane>,
    count: u64,
}

/// The last uses of a buffer.
#[derive(Debug)]
pub(in crate::cuda) struct Uses(Mutex<Last>);

#[derive(Debug)]
struct Last {
    change: Use,
    /// Since the change, one of each lane.
    reads: Vec<Use>,
}

impl Uses {
    /// The uses of memory that a lane has just allocated, which nobody may use before.
    pub(in crate::cuda) fn made_by(lane: &Arc<Lane>) -> Arc<Self> {
        let change = Use { lane: Arc::clone(lane), count: lane.count() };
        Arc::new(Self(Mutex::new(Last { change, reads: Vec::new() })))
    }

    /// Lets a lane come after the uses that a new one may not meet.
    pub(in crate::cuda) fn wait(&self, lane: &Lane, access: Access) -> Result<()> {
        let last = lock(&self.0);
        lane.wait_for(&last.change.lane, last.change.count)?;
        match access {
            Access::Read => Ok(()),
            Access::Change => last.reads.iter().try_for_each(|r| lane.wait_for(&r.lane, r.count)),
        }
    }

    /// Notes a use, which has waited for those before.
    fn note(&self, lane: &Arc<Lane>, access: Access, count: u64) {
        let mut last = lock(&self.0);
        if access == Access::Change {
            // Who waits for it waits for the reads that it waited for.
            last.reads.clear();
            if last.change.lane.number != lane.number {
                last.change.lane = Arc::clone(lane);
            }
            last.change.count = count;
            return;
        }
        match last.reads.iter_mut().find(|r| r.lane.number == lane.number) {
            Some(own) => own.count = count.max(own.count),
            None => {
                last.reads.retain(|r| r.lane.over.load(Ordering::SeqCst) < r.count);
                last.reads.push(Use { lane: Arc::clone(lane), count });
            }
        }
    }
}

/// A buffer that is about to be used.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Touch<'a> {
    pub(in crate::cuda) address: u64,
    /// The device that it is on.
    pub(in crate::cuda) owner: usize,
    pub(in crate::cuda) uses: &'a Arc<Uses>,
    pub(in crate::cuda) access: Access,
}

/// Does `work`, which puts something into the stream of a lane, after what others do with the buffers.
pub(in crate::cuda) fn in_order<'a, R>(
    lane: &Arc<Lane>,
    touched: impl Iterator<Item = (&'a Arc<Uses>, Access)> + Clone,
    work: impl FnOnce() -> Result<R>,
) -> Result<R> {
    touched.clone().try_for_each(|(uses, access)| uses.wait(lane, access))?;
    let result = work();
    // Whatever came of it: it may have begun.
    let count = lane.count();
    touched.for_each(|(uses, access)| uses.note(lane, access, count));
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three lanes that nobody synchronises, and a buffer of the first.
    fn lanes() -> ([Arc<Lane>; 3], Arc<Uses>) {
        let lanes = [(); 3].map(|()| Lane::new(None, false));
        let uses = Uses::made_by(&lanes[0]);
        (lanes, uses)
    }

    fn touch(lane: &Arc<Lane>, uses: &Arc<Uses>, access: Access) {
        in_order(lane, std::iter::once((uses, access)), || Ok(())).unwrap();
    }

    /// Up to which count a lane waits for another.
    fn waits(lane: &Lane, other: &Lane) -> u64 {
        lock(&lane.after).get(&other.number).copied().unwrap_or(0)
    }

    #[test]
    fn reads_wait_for_the_change_and_not_for_each_other() {
        let ([a, b, c], buffer) = lanes();
        touch(&b, &buffer, Access::Read);
        assert_eq!(waits(&b, &a), 1, "memory is there after it was asked for");
        touch(&c, &buffer, Access::Read);
        assert_eq!((waits(&c, &a), waits(&c, &b)), (1, 0));
        touch(&a, &buffer, Access::Read);
        assert_eq!((waits(&a, &b), waits(&a, &c)), (0, 0));
    }

    #[test]
    fn changes_wait_for_reads_and_changes() {
        let ([a, b, c], buffer) = lanes();
        touch(&b, &buffer, Access::Read);
        touch(&c, &buffer, Access::Change);
        assert_eq!((waits(&c, &a), waits(&c, &b)), (1, 1));
        touch(&b, &buffer, Access::Read);
        assert_eq!(waits(&b, &c), 1);
        touch(&a, &buffer, Access::Change);
        assert_eq!((waits(&a, &b), waits(&a, &c)), (2, 1));
        // What a memory is given back for is a change.
        touch(&b, &buffer, Access::Read);
        touch(&c, &buffer, Access::Read);
        buffer.wait(&a, Access::Change).unwrap();
        assert_eq!((waits(&a, &b), waits(&a, &c)), (3, 2));
    }

    #[test]
    fn nobody_waits_for_what_is_over_or_waited_for() {
        let ([a, b, c], buffer) = lanes();
        let other = Uses::made_by(&a);
        a.ended(a.asked());
        touch(&b, &buffer, Access::Change);
        assert_eq!(waits(&b, &a), 0);
        b.ended(b.asked());
        touch(&c, &buffer, Access::Change);
        assert_eq!(waits(&c, &b), 0);
        // Work of the second that has nothing to do with the buffer is not waited for.
        for _ in 0..9 {
            touch(&b, &other, Access::Change);
        }
        touch(&a, &buffer, Access::Read);
        assert_eq!((waits(&a, &b), waits(&a, &c)), (0, 1));
        // One wait is for all until then.
        touch(&c, &other, Access::Read);
        assert_eq!(waits(&c, &b), 10);
        touch(&c, &other, Access::Change);
        assert_eq!(waits(&c, &b), 10);
    }

    #[test]
    fn what_fails_counts_as_begun() {
        let ([_, b, c], buffer) = lanes();
        let failed = in_order(&b, std::iter::once((&buffer, Access::Change)), || {
            Err::<(), _>(crate::ComputeError::argument("a launch", "failed", "none"))
        });
        assert!(failed.is_err());
        touch(&c, &buffer, Access::Read);
        assert_eq!(waits(&c, &b), 1);
    }

    #[test]
    fn reads_that_are_over_are_forgotten() {
        let ([a, b, c], buffer) = lanes();
        for _ in 0..5 {
            touch(&b, &buffer, Access::Read);
            b.ended(b.asked());
            touch(&c, &buffer, Access::Read);
            c.ended(c.asked());
        }
        touch(&a, &buffer, Access::Read);
        assert_eq!(lock(&buffer.0).reads.len(), 1);
        let lanes: Vec<_> = (0..100).map(|_| Lane::new(None, false)).collect();
        for lane in &lanes {
            touch(lane, &buffer, Access::Read);
            lane.ended(lane.asked());
        }
        assert!(lock(&buffer.0).reads.len() <= 2);
    }
}
