//! What works on a part of the chunks.

use super::kept::{Kept, Lane, Way};
use super::meeting::Places;
use crate::search::distributed::Held;
use crate::search::distributed::met::met;
use std::sync::mpsc::{Receiver, Sender};
use voxalign_compute::comm::Result;
use voxalign_compute::ops::joint::{Block, FixedPart, JointRule, Messages, Pixel};
use voxalign_compute::{Device, DeviceBuffer};

/// What a stream has for all ranks.
pub(super) enum Sent {
    /// Messages as bytes, and their number.
    Lists(Vec<Vec<u8>>, i64),
    /// Where the messages for each rank are in the outbox.
    Places(Places),
}

/// What all ranks have for this one.
pub(super) enum Arrived {
    Lists(Vec<Vec<u8>>),
    Places(Places),
}

/// A stream with its sums.
pub(super) struct Stream<'a, D: Device, P: Pixel> {
    held: &'a Held<D, P>,
    rule: &'a JointRule,
    kept: &'a Kept<D>,
    lane: &'a Lane<D>,
    table: Option<&'a D::Buffer<i32>>,
    out: D::Buffer<i64>,
    ended: Result<()>,
}

impl<'a, D: Device, P: Pixel> Stream<'a, D, P> {
    pub(super) fn new(
        held: &'a Held<D, P>,
        rule: &'a JointRule,
        kept: &'a Kept<D>,
        lane: &'a Lane<D>,
        table: Option<&'a D::Buffer<i32>>,
        out: D::Buffer<i64>,
    ) -> Self {
        Self { held, rule, kept, lane, table, out, ended: Ok(()) }
    }

    /// Its sums.
    pub(super) fn out(self) -> Result<D::Buffer<i64>> {
        self.ended.map(|()| self.out)
    }

    /// Works on chunks, and on what other ranks send meanwhile; there may be fewer chunks than rounds.
    pub(super) fn work(
        &mut self,
        chunks: &[Option<Block>],
        to_ranks: &Sender<Result<Sent>>,
        from_ranks: &Receiver<Arrived>,
    ) {
        for (turn, chunk) in chunks.iter().enumerate() {
            let sent = match chunk {
                Some(chunk) => self.send(chunk, turn),
                None => Ok(self.nothing()),
            };
            let failed = sent.is_err();
            // Nobody listens where another rank has failed.
            if to_ranks.send(sent).is_err() || failed {
                return;
            }
            let Ok(arrived) = from_ranks.recv() else { return };
            if let Err(e) = self.receive(&arrived, turn) {
                self.ended = Err(e.clone());
                let _ = to_ranks.send(Err(e));
                return;
            }
        }
    }

    /// No messages.
    fn nothing(&self) -> Sent {
        let ranks = self.kept.key.sending.owners.ranks();
        match self.kept.way {
            Way::Host => Sent::Lists(vec![Vec::new(); ranks], 0),
            Way::Direct(_) => Sent::Places(vec![[0; 2]; ranks]),
        }
    }

    /// Counts the samples of a chunk that are here, and makes messages of the others; where there are none of one kind, nothing is asked of the device.
    fn send(&mut self, part: &Block, turn: usize) -> Result<Sent> {
        let nothing = self.nothing();
        let Self { held, rule, kept, lane, table, out, .. } = self;
        let (own, sending) = (held.own(), &kept.key.sending);
        let met = met(part, &rule.map, held.plan.moving_blocks.dims());
        let (here, there) = (!met.common(&own.stored).is_empty(), !own.stored.encloses(&met));
        if !here && !there {
            return Ok(nothing);
        }
        let rooms = match &kept.way {
            Way::Host => &kept.rooms[0],
            Way::Direct(_) => &kept.rooms[held.plan.rank],
        };
        lane.queue.run(|device| {
            let fixed = FixedPart { block: held.plan.fixed, bins: &held.fixed, part: *part };
            if here {
                device.joint_add(rule, &fixed, &[own], *table, out)?;
            }
            if !there {
                return Ok(nothing);
            }
            let mut outbox = rooms.write(lane.number, turn);
            let outbox = &mut *outbox;
            let (words, counts) = (&mut outbox.words, &mut outbox.counts);
            device.joint_send(rule, &fixed, sending, words, counts, &mut outbox.scratch)?;
            if let Way::Direct(_) = kept.way {
                let counts = device.download(&outbox.counts)?;
                let starts = sending.starts(&counts);
                let places = starts.into_iter().zip(&counts).map(|(s, &n)| [s, n as usize]);
                return Ok(Sent::Places(places.collect()));
            }
            let lists = outbox.bytes(device, sending)?;
            let counts = lists.iter().map(|l| sending.layout.count(l.len(), sending.axes));
            let count: usize = counts.sum::<voxalign_compute::Result<usize>>()?;
            Ok(Sent::Lists(lists, count as i64))
        })
    }

    /// Counts what others have sent in a turn.
    fn receive(&mut self, arrived: &Arrived, turn: usize) -> Result<()> {
        let Self { held, rule, kept, lane, table, out, .. } = self;
        let brick = held.own();
        match arrived {
            Arrived::Lists(lists) => {
                let sending = &kept.key.sending;
                let (words, count) = sending.layout.joined(lists, sending.axes)?;
                if count == 0 {
                    return Ok(());
                }
                lane.queue.run(|device| {
                    let words = device.upload_vec(words)?;
                    debug_assert!(!words.is_empty());
                    let messages = Messages::list(&words, sending.layout, count);
                    device.joint_receive(rule, &messages, &brick, *table, out)?;
                    Ok(())
                })
            }
            Arrived::Places(places) if places.iter().all(|&[_, count]| count == 0) => Ok(()),
            Arrived::Places(places) => lane.queue.run(|device| {
                let all = kept.rooms.iter().zip(places);
                for (rooms, &place) in all.filter(|(_, place)| place[1] > 0) {
                    let outbox = rooms.read(lane.number, turn);
                    let messages = outbox.messages(&rooms.sending, place);
                    device.joint_receive(rule, &messages, &brick, *table, out)?;
                }
                Ok(())
            }),
        }
    }
}
