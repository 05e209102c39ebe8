//! Threads of one process as ranks, which communicate through shared memory.

use super::error::{CommError, Result};
use super::transport::{Combine, Transport};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Numbers that a rank adds under one lock.
const SEGMENT: usize = 1 << 16;

/// Segments that are combined before all ranks have to read them: this bounds the memory of sums in addition to the
/// buffers of the ranks.
const SEGMENTS: usize = 64;

/// The operation that a rank called. All ranks have to call the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Asked {
    operation: &'static str,
    /// The rank that has or gets the data, where there is one.
    root: Option<usize>,
}

/// The state shared by the ranks.
#[derive(Debug, Default)]
struct Meeting {
    /// The number of meetings so far.
    past: u64,
    /// The operations called by the ranks that have arrived.
    here: Vec<Option<Asked>>,
    /// Why there will be none any more.
    end: Option<End>,
}

#[derive(Debug, Clone)]
enum End {
    Gone(usize),
    Error(CommError),
}

/// Numbers of which every rank adds its own, and then reads the result.
#[derive(Debug, Default)]
struct Segment {
    values: Vec<i64>,
    added: usize,
    read: usize,
}

#[derive(Debug)]
struct Shared {
    size: usize,
    meeting: Mutex<Meeting>,
    news: Condvar,
    /// The data that a rank provides to others.
    blocks: Vec<Mutex<Vec<u8>>>,
    /// The blocks that a rank provides, one for each.
    mail: Vec<Mutex<Vec<Vec<u8>>>>,
    segments: Vec<Mutex<Segment>>,
    /// Ranks of a smaller group that have not arrived yet.
    group: Mutex<Vec<Option<Local>>>,
}

/// One of the threads. When it is dropped, also because its thread fails, the others wait for it no
/// longer.
#[derive(Debug)]
pub(super) struct Local {
    rank: usize,
    shared: Arc<Shared>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Local {
    /// The ranks of a group.
    pub(super) fn group(size: usize) -> Vec<Self> {
        let shared = Arc::new(Shared {
            size,
            meeting: Mutex::new(Meeting { here: vec![None; size], ..Meeting::default() }),
            news: Condvar::new(),
            blocks: (0..size).map(|_| Mutex::default()).collect(),
            mail: (0..size).map(|_| Mutex::default()).collect(),
            segments: (0..SEGMENTS).map(|_| Mutex::default()).collect(),
            group: Mutex::default(),
        });
        (0..size).map(|rank| Self { rank, shared: Arc::clone(&shared) }).collect()
    }

    /// Waits until all ranks are here and ask for the same.
    fn meet(&self, operation: &'static str, root: Option<usize>) -> Result<()> {
        let asked = Asked { operation, root };
        let shared = &*self.shared;
        let failed = |end: &End| match *end {
            End::Gone(rank) => CommError::Gone { rank, waiting: self.rank, operation },
            End::Error(ref error) => error.clone(),
        };
        let mut meeting = lock(&shared.meeting);
        if let Some(end) = &meeting.end {
            return Err(failed(end));
        }
        let other = meeting.here.iter().enumerate().find_map(|(r, a)| a.map(|a| (r, a)));
        if let Some((rank, other)) = other.filter(|&(_, other)| other != asked) {
            let words = |rank: usize, asked: Asked| {
                let root = asked.root.map_or_else(String::new, |r| format!(" with root {r}"));
                format!("rank {rank} is in {}{root}", asked.operation)
            };
            let what = format!("{}, {}", words(rank, other), words(self.rank, asked));
            let error = CommError::Mismatch { what };
            meeting.end = Some(End::Error(error.clone()));
            shared.news.notify_all();
            return Err(error);
        }
        meeting.here[self.rank] = Some(asked);
        if meeting.here.iter().all(Option::is_some) {
            meeting.here.fill(None);
            meeting.past += 1;
            shared.news.notify_all();
            return Ok(());
        }
        let past = meeting.past;
        while meeting.past == past && meeting.end.is_none() {
            meeting = shared.news.wait(meeting).unwrap_or_else(PoisonError::into_inner);
        }
        // A rank that ends after all were here is not missed.
        match &meeting.end {
            Some(end) if meeting.past == past => Err(failed(end)),
            _ => Ok(()),
        }
    }

    /// Says that there will be no more meetings; the first reason stays.
    fn end(&self, end: End) {
        lock(&self.shared.meeting).end.get_or_insert(end);
        self.shared.news.notify_all();
    }

    /// Combines numbers that fit in the segments.
    fn reduce_part(&self, values: &mut [i64], combine: Combine) -> Result<()> {
        let shared = &*self.shared;
        let mut pieces: Vec<(&Mutex<Segment>, &mut [i64])> =
            shared.segments.iter().zip(values.chunks_mut(SEGMENT)).collect();
        // Ranks begin at different pieces, so as not to wait for each other's locks.
        let first = self.rank * pieces.len() / shared.size;
        pieces.rotate_left(first);
        for (segment, own) in &pieces {
            let mut segment = lock(segment);
            if segment.added == 0 {
                segment.values.clear();
                segment.values.extend_from_slice(own);
            } else {
                for (sum, value) in segment.values.iter_mut().zip(own.iter()) {
                    *sum = combine.apply(*sum, *value);
                }
            }
            segment.added += 1;
        }
        self.meet(operation(combine), None)?;
        for (segment, own) in &mut pieces {
            let mut segment = lock(segment);
            if own.len() == segment.values.len() {
                own.copy_from_slice(&segment.values);
            }
            segment.read += 1;
            if segment.read == shared.size {
                (segment.added, segment.read) = (0, 0);
            }
        }
        // Before anyone adds again, all have read.
        self.meet(operation(combine), None)
    }
}

fn operation(combine: Combine) -> &'static str {
    match combine {
        Combine::Sum => "a sum",
        Combine::Max => "a maximum",
        Combine::Min => "a minimum",
    }
}

impl Transport for Local {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.shared.size
    }

    fn name(&self) -> String {
        "threads of one process".into()
    }

    fn reduce(&self, values: &mut [i64], combine: Combine) -> Result<()> {
        self.meet(operation(combine), None)?;
        values.chunks_mut(SEGMENT * SEGMENTS).try_for_each(|part| self.reduce_part(part, combine))
    }

    fn broadcast(&self, bytes: &mut [u8], root: usize) -> Result<()> {
        let operation = "a broadcast";
        if self.rank == root {
            *lock(&self.shared.blocks[root]) = bytes.to_vec();
        }
        self.meet(operation, Some(root))?;
        if self.rank != root {
            let block = lock(&self.shared.blocks[root]);
            if block.len() == bytes.len() {
                bytes.copy_from_slice(&block);
            }
        }
        self.meet(operation, Some(root))?;
        if self.rank == root {
            lock(&self.shared.blocks[root]).clear();
        }
        Ok(())
    }

    fn all_gather(&self, block: &[u8]) -> Result<Vec<Vec<u8>>> {
        let operation = "a gathering at all ranks";
        *lock(&self.shared.blocks[self.rank]) = block.to_vec();
        self.meet(operation, None)?;
        let found = self.shared.blocks.iter().map(|b| lock(b).clone()).collect();
        self.meet(operation, None)?;
        lock(&self.shared.blocks[self.rank]).clear();
        Ok(found)
    }

    fn gather(&self, block: &[u8], root: usize) -> Result<Option<Vec<Vec<u8>>>> {
        let operation = "a gathering";
        *lock(&self.shared.blocks[self.rank]) = block.to_vec();
        self.meet(operation, Some(root))?;
        let found = (self.rank == root)
            .then(|| self.shared.blocks.iter().map(|b| std::mem::take(&mut *lock(b))).collect());
        self.meet(operation, Some(root))?;
        Ok(found)
    }

    fn all_to_all(&self, blocks: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
        let operation = "an exchange of blocks";
        *lock(&self.shared.mail[self.rank]) = blocks;
        self.meet(operation, None)?;
        let own = |mail: &Mutex<Vec<Vec<u8>>>| lock(mail).get_mut(self.rank).map(std::mem::take);
        let found = self.shared.mail.iter().map(|mail| own(mail).unwrap_or_default()).collect();
        // Before anyone puts new ones there, all have taken theirs.
        self.meet(operation, None)?;
        Ok(found)
    }

    fn barrier(&self) -> Result<()> {
        self.meet("a barrier", None)
    }

    fn first(&self, count: usize) -> Result<Option<Box<dyn Transport>>> {
        let operation = "a smaller group";
        if self.rank == 0 {
            *lock(&self.shared.group) = Self::group(count).into_iter().map(Some).collect();
        }
        self.meet(operation, Some(count))?;
        let own = lock(&self.shared.group).get_mut(self.rank).and_then(Option::take);
        self.meet(operation, Some(count))?;
        Ok(own.map(|own| Box::new(own) as Box<dyn Transport>))
    }

    fn abort(&self, code: u8, message: &str) -> CommError {
        let error = CommError::Aborted { rank: self.rank, code, message: message.into() };
        self.end(End::Error(error.clone()));
        error
    }

    fn finish(&self) -> Result<()> {
        self.end(End::Gone(self.rank));
        Ok(())
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.end(End::Gone(self.rank));
    }
}
