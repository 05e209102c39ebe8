//! Where ranks that are threads of one process tell each other which messages are ready.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Where the messages for each rank begin, and how many they are.
pub(super) type Places = Vec<[usize; 2]>;

/// What all ranks have for all; nothing of a rank that has failed.
pub(super) type Round = Arc<Vec<Option<Places>>>;

/// Ranks meet here, round after round.
#[derive(Debug)]
pub(super) struct Meeting {
    state: Mutex<State>,
    news: Condvar,
}

#[derive(Debug)]
struct State {
    here: Vec<Option<Option<Places>>>,
    /// The number of rounds so far, and what the last one brought.
    past: u64,
    last: Round,
    /// Whether a rank will not come any more.
    left: bool,
}

impl Meeting {
    pub(super) fn new(ranks: usize) -> Self {
        let state = State { here: vec![None; ranks], past: 0, last: Round::default(), left: false };
        Self { state: Mutex::new(state), news: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells what a rank has, and waits for all others; nothing where one of them has left.
    pub(super) fn meet(&self, rank: usize, own: Option<Places>) -> Option<Round> {
        let mut state = self.state();
        state.here[rank] = Some(own);
        if state.here.iter().all(Option::is_some) {
            let all = state.here.iter_mut().map(|places| places.take().flatten());
            state.last = Arc::new(all.collect());
            state.past += 1;
            self.news.notify_all();
            return Some(Arc::clone(&state.last));
        }
        let past = state.past;
        while state.past == past && !state.left {
            state = self.news.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        // The next round does not end before this rank comes again.
        (state.past != past).then(|| Arc::clone(&state.last))
    }
}

/// A rank at the meeting: one that goes without a word, as its thread fails, lets nobody wait.
pub(super) struct Seat<'a> {
    meeting: &'a Meeting,
    kept: bool,
}

impl<'a> Seat<'a> {
    pub(super) fn new(meeting: &'a Meeting) -> Self {
        Self { meeting, kept: false }
    }

    /// Goes where all others go as well.
    pub(super) fn end(mut self) {
        self.kept = true;
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        if !self.kept {
            self.meeting.state().left = true;
            self.meeting.news.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ranks_hear_of_all_in_every_round() {
        let meeting = Meeting::new(3);
        std::thread::scope(|scope| {
            for rank in 0..3 {
                let meeting = &meeting;
                scope.spawn(move || {
                    for round in 0..500 {
                        // One of them fails from time to time.
                        let of = |rank: usize| (round % 7 != rank).then(|| vec![[round, rank]; 3]);
                        let found = meeting.meet(rank, of(rank)).unwrap();
                        assert_eq!(*found, [0, 1, 2].map(of));
                    }
                });
            }
        });
    }

    #[test]
    fn nobody_waits_for_one_that_has_left() {
        let meeting = Meeting::new(2);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| meeting.meet(0, None));
            drop(Seat::new(&meeting));
            assert!(waits.join().unwrap().is_none());
        });
        assert!(meeting.meet(0, None).is_none());
        let other = Meeting::new(1);
        Seat::new(&other).end();
        assert!(other.meet(0, Some(Vec::new())).is_some());
    }
}
