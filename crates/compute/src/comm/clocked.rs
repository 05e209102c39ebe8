//! A transport that notes how long its operations take, and how long ranks wait for each other before them.

use super::Communicator;
use super::error::{CommError, Result};
use super::transport::{Combine, Transport};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// One operation of a rank; times are seconds since the clock was started.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Operation {
    /// Its name.
    pub name: &'static str,
    /// When this rank came to it.
    pub came: f64,
    /// When all ranks were there.
    pub began: f64,
    /// When it was done.
    pub ended: f64,
    /// The bytes that this rank gave.
    pub bytes: u64,
}

/// The operations of a rank since the clock was started.
#[derive(Debug)]
pub struct Clock(Mutex<(Instant, Vec<Operation>)>);

impl Clock {
    /// Forgets what was noted, and begins at 0.
    pub fn start(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (Instant::now(), Vec::new());
    }

    /// Seconds since it was started.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0.elapsed().as_secs_f64()
    }

    /// What was noted since then.
    #[must_use]
    pub fn operations(&self) -> Vec<Operation> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1.clone()
    }

    /// Seconds between its start and a time after that.
    fn at(&self, time: Instant) -> f64 {
        let start = self.0.lock().unwrap_or_else(PoisonError::into_inner).0;
        time.saturating_duration_since(start).as_secs_f64()
    }

    fn note(&self, operation: Operation) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1.push(operation);
    }
}

impl Communicator {
    /// The same rank with a clock. Before every operation ranks wait for each other, so that waiting and exchanging are told apart: for
    /// measurements alone. All ranks have to call it.
    #[must_use]
    pub fn clocked(&self) -> (Self, Arc<Clock>) {
        let clock = Arc::new(Clock(Mutex::new((Instant::now(), Vec::new()))));
        let clocked = Clocked { inner: self.0.clone(), clock: Arc::clone(&clock) };
        (Self::over(clocked), clock)
    }
}

#[derive(Debug)]
struct Clocked {
    inner: Arc<dyn Transport>,
    clock: Arc<Clock>,
}

impl Clocked {
    fn timed<R>(
        &self,
        name: &'static str,
        bytes: usize,
        work: impl FnOnce() -> Result<R>,
    ) -> Result<R> {
        let came = self.clock.seconds();
        self.inner.barrier()?;
        let began = self.clock.seconds();
        let result = work();
        let ended = self.clock.seconds();
        self.clock.note(Operation { name, came, began, ended, bytes: bytes as u64 });
        result
    }
}

impl Transport for Clocked {
    fn rank(&self) -> usize {
        self.inner.rank()
    }

    fn size(&self) -> usize {
        self.inner.size()
    }

    fn name(&self) -> String {
        self.inner.name()
    }

    fn reduce(&self, values: &mut [i64], combine: Combine) -> Result<()> {
        self.timed("sum", size_of_val(values), || self.inner.reduce(values, combine))
    }

    fn broadcast(&self, bytes: &mut [u8], root: usize) -> Result<()> {
        let given = if root == self.rank() { bytes.len() } else { 0 };
        self.timed("broadcast", given, || self.inner.broadcast(bytes, root))
    }

    fn all_gather(&self, block: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.timed("gather", block.len(), || self.inner.all_gather(block))
    }

    fn gather(&self, block: &[u8], root: usize) -> Result<Option<Vec<Vec<u8>>>> {
        self.timed("gather", block.len(), || self.inner.gather(block, root))
    }

    fn all_to_all(&self, blocks: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
        let bytes = blocks.iter().map(Vec::len).sum();
        self.timed("exchange", bytes, || self.inner.all_to_all(blocks))
    }

    fn barrier(&self) -> Result<()> {
        self.timed("barrier", 0, || Ok(()))
    }

    fn first(&self, count: usize) -> Result<Option<Box<dyn Transport>>> {
        self.inner.first(count)
    }

    fn abort(&self, code: u8, message: &str) -> CommError {
        self.inner.abort(code, message)
    }

    fn finish(&self) -> Result<()> {
        self.inner.finish()
    }

    fn note(&self, name: &'static str, bytes: u64, times: [Instant; 3]) {
        let [came, began, ended] = times.map(|time| self.clock.at(time));
        self.clock.note(Operation { name, came, began, ended, bytes });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn ranks_that_are_early_wait() {
        let noted = std::thread::scope(|scope| {
            let work = |ranks: Communicator| {
                let (clocked, clock) = ranks.clocked();
                ranks.barrier().unwrap();
                clock.start();
                if ranks.rank() == 1 {
                    std::thread::sleep(Duration::from_millis(60));
                }
                let from = clocked.all_to_all(vec![vec![7; 3], vec![8; 4]]).unwrap();
                assert_eq!(from[0].len(), 3 + ranks.rank());
                clock.operations()
            };
            let threads: Vec<_> =
                Communicator::local(2).into_iter().map(|r| scope.spawn(move || work(r))).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect::<Vec<_>>()
        });
        let of = |rank: usize| *noted[rank].iter().find(|o| o.name == "exchange").unwrap();
        assert_eq!((of(0).bytes, of(1).bytes), (7, 7));
        // What the first operation of the two waited for is in its waiting.
        let waited = |rank: usize| noted[rank].iter().map(|o| o.began - o.came).sum::<f64>();
        assert!(waited(0) > 0.05 && waited(0) > waited(1), "{noted:?}");
        assert!(noted.iter().flatten().all(|o| o.came <= o.began && o.began <= o.ended));
    }

    #[test]
    fn what_ranks_do_by_themselves_is_noted_by_a_clock_alone() {
        let ranks = Communicator::single();
        let (clocked, clock) = ranks.clocked();
        let early = Instant::now();
        clock.start();
        let times = [0, 2, 5].map(|ms| early + Duration::from_millis(1000 + ms));
        ranks.note("an exchange", 3, times);
        assert!(clock.operations().is_empty());
        clocked.note("an exchange", 7, times);
        let noted = clock.operations()[0];
        assert_eq!((noted.name, noted.bytes), ("an exchange", 7));
        assert!(noted.came > 0.9 && noted.came <= 1.0);
        assert!((noted.began - noted.came - 0.002).abs() < 1e-9);
        assert!((noted.ended - noted.began - 0.003).abs() < 1e-9);
        // What was before the start is at 0.
        clocked.note("an exchange", 7, [early; 3]);
        assert_eq!(clock.operations()[1].ended, 0.0);
    }
}
