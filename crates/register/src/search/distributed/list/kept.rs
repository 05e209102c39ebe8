//! What stays from one evaluation to the next: streams, and room for messages.

use super::meeting::Meeting;
use crate::search::distributed::Held;
use crate::search::distributed::shared::exchange;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use voxalign_compute::comm::{CommError, Communicator, Result};
use voxalign_compute::ops::joint::{JointRule, Outbox, Pixel, Sending};
use voxalign_compute::{Device, Queue};

/// What room was made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) sending: Sending,
    /// The streams.
    pub(super) count: usize,
    /// Whether messages are to be read where they are.
    pub(super) direct: bool,
}

/// How messages come to other ranks.
pub(super) enum Way {
    /// As bytes, through memory of the host.
    Host,
    /// They stay, and ranks tell each other where.
    Direct(Arc<Meeting>),
}

/// What stays.
pub(super) struct Kept<D: Device> {
    pub(super) key: Key,
    pub(super) way: Way,
    pub(super) lanes: Vec<Lane<D>>,
    /// The room of all ranks, where messages are read there; else that of this one alone.
    pub(super) rooms: Vec<Arc<Rooms<D>>>,
}

/// A stream.
pub(super) struct Lane<D: Device> {
    pub(super) number: usize,
    pub(super) queue: Queue<D>,
}

/// The room of a rank: of each stream that for a chunk, or, where others read there, for two, so that they may read the messages of one while those of the next
/// are made.
pub(super) struct Rooms<D: Device> {
    pub(super) sending: Sending,
    outboxes: Vec<Vec<RwLock<Outbox<D>>>>,
    meeting: Arc<Meeting>,
}

impl<D: Device> Rooms<D> {
    fn new(device: &D, key: &Key, each: usize, ranks: usize) -> Result<Self> {
        let outbox = || Ok(RwLock::new(Outbox::new(device, &key.sending)?));
        let of_stream = |_| (0..each).map(|_| outbox()).collect::<Result<Vec<_>>>();
        let outboxes = (0..key.count).map(of_stream).collect::<Result<_>>()?;
        Ok(Self { sending: key.sending, outboxes, meeting: Arc::new(Meeting::new(ranks)) })
    }

    fn outbox(&self, stream: usize, turn: usize) -> &RwLock<Outbox<D>> {
        let of_stream = &self.outboxes[stream];
        &of_stream[turn % of_stream.len()]
    }

    /// The messages of a stream in one of its turns.
    pub(super) fn read(&self, stream: usize, turn: usize) -> RwLockReadGuard<'_, Outbox<D>> {
        self.outbox(stream, turn).read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same to be written.
    pub(super) fn write(&self, stream: usize, turn: usize) -> RwLockWriteGuard<'_, Outbox<D>> {
        self.outbox(stream, turn).write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: Device> Kept<D> {
    /// All ranks call it, and all have the same way.
    pub(super) fn new<P: Pixel>(
        ranks: &Communicator,
        held: &Held<D, P>,
        rule: &JointRule,
        key: Key,
    ) -> Result<Self> {
        let device = &held.device;
        let lane = |number| Ok(Lane { number, queue: device.queue()? });
        let lanes = ranks.agree((0..key.count).map(lane).collect::<Result<Vec<_>>>())?;
        if key.direct && ranks.size() > 1 {
            let own = ranks.agree(Rooms::new(device, &key, 2, ranks.size()))?;
            let found = exchange(ranks, &Arc::new(own));
            if let Some(rooms) = reached(ranks, held, rule, found)? {
                let way = Way::Direct(Arc::clone(&rooms[0].meeting));
                return Ok(Self { key, way, lanes, rooms });
            }
        }
        let own = ranks.agree(Rooms::new(device, &key, 1, ranks.size()))?;
        Ok(Self { key, way: Way::Host, lanes, rooms: vec![Arc::new(own)] })
    }
}

/// The room of all ranks, where every rank reaches that of all.
fn reached<D: Device, P: Pixel>(
    ranks: &Communicator,
    held: &Held<D, P>,
    rule: &JointRule,
    found: Result<Vec<Arc<Rooms<D>>>>,
) -> Result<Option<Vec<Arc<Rooms<D>>>>> {
    let rooms = match found {
        Ok(rooms) => rooms,
        // At all ranks.
        Err(CommError::Unavailable(_) | CommError::Peer { .. }) => return Ok(None),
        Err(e) => return Err(e),
    };
    // Tried with no messages.
    let tried = || -> Result<()> {
        let mut out = held.device.alloc(rule.numbers(false))?;
        for room in &rooms {
            let outbox = room.read(0, 0);
            let none = outbox.messages(&room.sending, [0, 0]);
            held.device.joint_receive(rule, &none, &held.own(), None, &mut out)?;
        }
        Ok(())
    };
    let mut all = [f64::from(u8::from(tried().is_ok()))];
    ranks.all_reduce_min(&mut all)?;
    Ok((all[0] > 0.0).then_some(rooms))
}
