//! Messages to the rank that has the pixels, which counts (section 4.2 of the paper).

use super::{Held, JointSums, Strategy, upload_table};
use std::sync::mpsc::{Receiver, Sender, channel};
use voxalign_compute::comm::{CommError, Communicator, Result};
use voxalign_compute::ops::joint::{
    Block, Collect, FixedPart, JointRule, MessageLayout, Outbox, Pixel, Sending,
};
use voxalign_compute::{Device, DeviceBuffer, Queue};

/// In which order a rank looks at the chunks of its block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ChunkOrder {
    /// Along x, then y, then z.
    Plain,
    /// Backwards along each axis on which the block has an odd place, so that neighbours are at their common border at the same time
    /// and ranks do not all send to one.
    #[default]
    Reflected,
}

/// How messages are made and sent; results do not depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListOptions {
    /// The most pixels of a chunk along each axis, after each of which ranks exchange messages.
    pub chunk: [usize; 3],
    /// How messages lie in memory.
    pub layout: MessageLayout,
    /// How they are collected.
    pub collect: Collect,
    /// The order of the chunks.
    pub order: ChunkOrder,
    /// The chunks that are worked on at once, each on a stream of its own: what one waits for while messages are on their way, others compute in.
    pub streams: usize,
}

impl Default for ListOptions {
    /// Chunks of 1536 x 1536 pixels on four streams, as in the paper.
    fn default() -> Self {
        Self {
            chunk: [1536, 1536, 1],
            layout: MessageLayout::default(),
            collect: Collect::default(),
            order: ChunkOrder::default(),
            streams: 4,
        }
    }
}

/// The moving block on the device, and messages for all others.
pub struct List<D: Device, P: Pixel> {
    held: Held<D, P>,
    options: ListOptions,
}

impl<D: Device, P: Pixel> List<D, P> {
    /// With what a plan of [`StrategyKind::List`](super::StrategyKind::List) names.
    #[must_use]
    pub fn new(held: Held<D, P>, options: ListOptions) -> Self {
        Self { held, options }
    }

    /// Other options from the next sums on; every rank needs the same.
    pub fn set_options(&mut self, options: ListOptions) {
        self.options = options;
    }

    /// The chunks of the own block in their order.
    fn chunks(&self) -> Vec<Block> {
        let plan = &self.held.plan;
        let chunks = plan.fixed.chunks(self.options.chunk);
        if self.options.order == ChunkOrder::Plain || chunks.is_empty() {
            return chunks;
        }
        let [px, py, _] = plan.fixed_blocks.parts();
        let place = [plan.rank % px, plan.rank / px % py, plan.rank / (px * py)];
        let counts = [0, 1, 2].map(|a| plan.fixed.dims[a].div_ceil(self.options.chunk[a].max(1)));
        let number = |k: usize| {
            let at = [k % counts[0], k / counts[0] % counts[1], k / (counts[0] * counts[1])];
            let at =
                [0, 1, 2].map(|a| if place[a] % 2 == 1 { counts[a] - 1 - at[a] } else { at[a] });
            at[0] + counts[0] * (at[1] + counts[1] * at[2])
        };
        (0..chunks.len()).map(|k| chunks[number(k)]).collect()
    }

    fn sending(&self, rule: &JointRule, chunks: &[Block]) -> Sending {
        let plan = &self.held.plan;
        Sending {
            owners: plan.moving_blocks,
            own: plan.rank,
            here: self.held.own().cells,
            layout: self.options.layout,
            collect: self.options.collect,
            most: chunks.iter().map(Block::len).max().unwrap_or(0),
            axes: rule.axes(),
        }
    }
}

impl<D: Device, P: Pixel> Strategy for List<D, P> {
    fn name(&self) -> &'static str {
        "list"
    }

    fn sums(
        &self,
        ranks: &Communicator,
        rule: &JointRule,
        table: Option<&[i32]>,
    ) -> Result<JointSums> {
        let chunks = self.chunks();
        let mut most = [chunks.len() as f64];
        ranks.all_reduce_max(&mut most)?;
        let rounds = most[0] as usize;
        let device = &self.held.device;
        let table = ranks.agree(upload_table(device, table))?;
        let sending = self.sending(rule, &chunks);
        let count = self.options.streams.clamp(1, rounds.max(1));
        let streams = (0..count).map(|_| Stream::new(self, rule, &sending, table.as_ref()));
        let mut streams = ranks.agree(streams.collect::<Result<Vec<_>>>())?;
        let done = std::thread::scope(|scope| {
            let (mut produced, mut arrived) = (Vec::new(), Vec::new());
            let chunks = &chunks;
            let started = streams.iter_mut().enumerate().try_for_each(|(s, stream)| {
                let ((to_ranks, lists), (back, from_ranks)) = (channel(), channel());
                produced.push(lists);
                arrived.push(back);
                let own = (s..rounds).step_by(count).map(|k| chunks.get(k).copied());
                let own: Vec<_> = own.collect();
                let work = move || stream.work(&own, &to_ranks, &from_ranks);
                let thread = std::thread::Builder::new().spawn_scoped(scope, work);
                thread.map(|_| ()).map_err(|e| {
                    CommError::Unavailable(format!(
                        "a thread for a stream could not be started: {e}"
                    ))
                })
            });
            ranks.agree(started)?;
            exchange(ranks, rounds, &produced, &arrived)
            // What is left of the channels ends here, and with it the wait of the threads.
        });
        // What failed, all ranks know of.
        let (messages, bytes) = done?;
        let own = || -> Result<Vec<i64>> {
            let mut numbers = vec![0; rule.numbers(table.is_some())];
            for stream in streams {
                stream.ended?;
                let part = device.download(&stream.out)?;
                numbers.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
            }
            Ok(numbers)
        };
        JointSums::over(ranks, ranks.agree(own())?, [messages, bytes])
    }
}

/// Messages for each rank, as bytes, and their number.
type Lists = (Vec<Vec<u8>>, i64);

/// Exchanges the messages of one chunk after the other, in one order at all ranks; how many were sent, and their bytes.
fn exchange(
    ranks: &Communicator,
    rounds: usize,
    produced: &[Receiver<Result<Lists>>],
    arrived: &[Sender<Vec<Vec<u8>>>],
) -> Result<(i64, i64)> {
    let (mut messages, mut bytes) = (0, 0);
    for round in 0..rounds {
        let stream = round % produced.len();
        let ended = || CommError::Unavailable("a stream ended before its chunks".into());
        let lists = produced[stream].recv().unwrap_or_else(|_| Err(ended()));
        let (lists, count) = ranks.agree(lists)?;
        messages += count;
        bytes += lists.iter().map(|list| list.len() as i64).sum::<i64>();
        // A stream that has ended has said so, or will in the next round.
        let _ = arrived[stream].send(ranks.all_to_all(lists)?);
    }
    Ok((messages, bytes))
}

/// What works on a part of the chunks.
struct Stream<'a, D: Device, P: Pixel> {
    held: &'a Held<D, P>,
    rule: &'a JointRule,
    sending: &'a Sending,
    table: Option<&'a D::Buffer<i32>>,
    queue: Queue<D>,
    outbox: Outbox<D>,
    out: D::Buffer<i64>,
    ended: Result<()>,
}

impl<'a, D: Device, P: Pixel> Stream<'a, D, P> {
    fn new(
        list: &'a List<D, P>,
        rule: &'a JointRule,
        sending: &'a Sending,
        table: Option<&'a D::Buffer<i32>>,
    ) -> Result<Self> {
        let device = &list.held.device;
        let (queue, outbox) = (device.queue()?, Outbox::new(device, sending)?);
        let out = device.alloc(rule.numbers(table.is_some()))?;
        Ok(Self { held: &list.held, rule, sending, table, queue, outbox, out, ended: Ok(()) })
    }

    /// Works on chunks, and on what other ranks send meanwhile; there may be fewer chunks than rounds.
    fn work(
        &mut self,
        chunks: &[Option<Block>],
        to_ranks: &Sender<Result<Lists>>,
        from_ranks: &Receiver<Vec<Vec<u8>>>,
    ) {
        for chunk in chunks {
            let lists = match chunk {
                Some(chunk) => self.send(chunk),
                None => Ok((vec![Vec::new(); self.sending.owners.ranks()], 0)),
            };
            let failed = lists.is_err();
            // Nobody listens where another rank has failed.
            if to_ranks.send(lists).is_err() || failed {
                return;
            }
            let Ok(lists) = from_ranks.recv() else { return };
            if let Err(e) = self.receive(&lists) {
                self.ended = Err(e.clone());
                let _ = to_ranks.send(Err(e));
                return;
            }
        }
    }

    /// Counts the samples of a chunk that are here, and makes messages of the others.
    fn send(&mut self, part: &Block) -> Result<Lists> {
        let Self { held, rule, sending, table, outbox, out, .. } = self;
        self.queue.run(|device| {
            let fixed = FixedPart { block: held.plan.fixed, bins: &held.fixed, part: *part };
            device.joint_add(rule, &fixed, &[held.own()], *table, out)?;
            let Outbox { words, counts, scratch } = outbox;
            device.joint_send(rule, &fixed, sending, words, counts, scratch)?;
            let lists = outbox.bytes(device, sending)?;
            let counts = lists.iter().map(|l| sending.layout.count(l.len(), sending.axes));
            let count: usize = counts.sum::<voxalign_compute::Result<usize>>()?;
            Ok((lists, count as i64))
        })
    }

    /// Counts what others have sent.
    fn receive(&mut self, lists: &[Vec<u8>]) -> Result<()> {
        let Self { held, rule, sending, table, out, .. } = self;
        let (words, count) = sending.layout.joined(lists, sending.axes)?;
        if count == 0 {
            return Ok(());
        }
        self.queue.run(|device| {
            let words = device.upload_vec(words)?;
            debug_assert!(!words.is_empty());
            let brick = held.own();
            device.joint_receive(rule, sending.layout, &words, count, &brick, *table, out)?;
            Ok(())
        })
    }
}
