//! Messages to the rank that has the pixels, which counts (section 4.2 of the paper).

mod kept;
mod meeting;
mod stream;

use super::{Held, JointSums, Plan, Strategy, upload_table};
use kept::{Kept, Key, Way};
use meeting::{Meeting, Round, Seat};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use stream::{Arrived, Sent, Stream};
use voxalign_compute::Device;
use voxalign_compute::comm::{CommError, Communicator, Result};
use voxalign_compute::ops::joint::{Block, Collect, JointRule, MessageLayout, Pixel, Sending};

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
    /// Whether messages are read where they were collected, by ranks that are threads of one process and whose devices reach each other's memory. Else, and
    /// wherever that cannot be, they pass through memory of the host.
    pub direct: bool,
}

impl Default for ListOptions {
    /// Chunks of 1536 x 1536 pixels on four streams, as in the paper, whose messages are read where they were collected.
    fn default() -> Self {
        Self {
            chunk: [1536, 1536, 1],
            layout: MessageLayout::default(),
            collect: Collect::default(),
            order: ChunkOrder::default(),
            streams: 4,
            direct: true,
        }
    }
}

impl ListOptions {
    /// Memory of the device for messages, bytes, at most: those that are collected and those that arrive, of all streams.
    #[must_use]
    pub fn memory(&self, plan: &Plan) -> u64 {
        let chunks: usize = plan.fixed.chunk_counts(self.chunk).iter().product();
        let sending = self.sending(plan);
        let own = sending.words() + sending.scratch() + sending.owners.ranks();
        // Those of a second chunk, or at most all pixels of a chunk of all others.
        let others = sending.owners.ranks().saturating_sub(1);
        let arriving = self.layout.words(sending.most * others, sending.axes);
        let each = own + if self.direct { own.max(arriving) } else { arriving };
        4 * (each * self.streams.clamp(1, chunks.max(1))) as u64
    }

    fn sending(&self, plan: &Plan) -> Sending {
        // The first chunk is as large as any.
        let largest = [0, 1, 2].map(|a| plan.fixed.dims[a].min(self.chunk[a].max(1)));
        let [.., planes] = plan.moving_blocks.dims();
        Sending {
            owners: plan.moving_blocks,
            own: plan.rank,
            here: plan.moving,
            layout: self.layout,
            collect: self.collect,
            most: largest.iter().product(),
            axes: if planes == 1 { 2 } else { 3 },
        }
    }
}

/// The moving block on the device, and messages for all others.
pub struct List<D: Device, P: Pixel> {
    held: Held<D, P>,
    options: ListOptions,
    /// Streams with room for messages, from the first sums on.
    kept: Mutex<Option<Kept<D>>>,
}

impl<D: Device, P: Pixel> List<D, P> {
    /// With what a plan of [`StrategyKind::List`](super::StrategyKind::List) names.
    #[must_use]
    pub fn new(held: Held<D, P>, options: ListOptions) -> Self {
        Self { held, options, kept: Mutex::new(None) }
    }

    /// Other options from the next sums on; every rank needs the same.
    pub fn set_options(&mut self, options: ListOptions) {
        if self.options != options {
            self.options = options;
            // The room of the others is not the same.
            *self.kept.get_mut().unwrap_or_else(PoisonError::into_inner) = None;
        }
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
        let counts = plan.fixed.chunk_counts(self.options.chunk);
        let number = |k: usize| {
            let at = [k % counts[0], k / counts[0] % counts[1], k / (counts[0] * counts[1])];
            let at =
                [0, 1, 2].map(|a| if place[a] % 2 == 1 { counts[a] - 1 - at[a] } else { at[a] });
            at[0] + counts[0] * (at[1] + counts[1] * at[2])
        };
        (0..chunks.len()).map(|k| chunks[number(k)]).collect()
    }

    fn sending(&self) -> Sending {
        let here = self.held.own().cells;
        Sending { here, ..self.options.sending(&self.held.plan) }
    }
}

impl<D: Device, P: Pixel> List<D, P> {
    /// Counts with the streams that are there, or with new ones.
    fn counted(
        &self,
        kept: &mut Option<Kept<D>>,
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
        let count = self.options.streams.clamp(1, rounds.max(1));
        let key = Key { sending: self.sending(), count, direct: self.options.direct };
        let kept = match kept.take().filter(|kept| kept.key == key) {
            Some(same) => kept.insert(same),
            None => kept.insert(Kept::new(ranks, &self.held, rule, key)?),
        };
        let streams = kept.lanes.iter().map(|lane| {
            let out = device.alloc(rule.numbers(table.is_some()))?;
            Ok(Stream::new(&self.held, rule, kept, lane, table.as_ref(), out))
        });
        let mut streams = ranks.agree(streams.collect::<Result<Vec<_>>>())?;
        let (messages, bytes) = run(ranks, kept, rounds, &chunks, &mut streams)?;
        let own = || -> Result<Vec<i64>> {
            let mut numbers = vec![0; rule.numbers(table.is_some())];
            for stream in streams {
                let part = device.download(&stream.out()?)?;
                numbers.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
            }
            Ok(numbers)
        };
        JointSums::over(ranks, ranks.agree(own())?, [messages, bytes])
    }
}

impl<D: Device, P: Pixel> Strategy for List<D, P> {
    fn sums(
        &self,
        ranks: &Communicator,
        rule: &JointRule,
        table: Option<&[i32]>,
    ) -> Result<JointSums> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let sums = self.counted(&mut kept, ranks, rule, table);
        if sums.is_err() {
            // Some ranks may have gone on where others have not.
            *kept = None;
        }
        sums
    }
}

/// Lets streams work on all chunks, and ranks exchange their messages; how many this rank sent, and their bytes.
fn run<D: Device, P: Pixel>(
    ranks: &Communicator,
    kept: &Kept<D>,
    rounds: usize,
    chunks: &[Block],
    streams: &mut [Stream<'_, D, P>],
) -> Result<(i64, i64)> {
    std::thread::scope(|scope| {
        let (mut produced, mut arrived) = (Vec::new(), Vec::new());
        let count = streams.len();
        let started = streams.iter_mut().enumerate().try_for_each(|(s, stream)| {
            let ((to_ranks, sent), (back, from_ranks)) = (channel(), channel());
            produced.push(sent);
            arrived.push(back);
            // There may be fewer chunks than rounds.
            let own: Vec<_> = (s..rounds).step_by(count).map(|k| chunks.get(k).copied()).collect();
            let work = move || stream.work(&own, &to_ranks, &from_ranks);
            let thread = std::thread::Builder::new().spawn_scoped(scope, work);
            thread.map(|_| ()).map_err(|e| {
                CommError::Unavailable(format!("a thread for a stream could not be started: {e}"))
            })
        });
        ranks.agree(started)?;
        match &kept.way {
            Way::Host => through_host(ranks, rounds, &produced, &arrived),
            Way::Direct(meeting) => {
                directly(ranks, (meeting, &kept.key.sending), rounds, &produced, &arrived)
            }
        }
        // What is left of the channels ends here, and with it the wait of the threads.
    })
}

/// What a stream has sent in a round.
fn next(produced: &[Receiver<Result<Sent>>], round: usize) -> Result<Sent> {
    let ended = || CommError::Unavailable("a stream ended before its chunks".into());
    produced[round % produced.len()].recv().unwrap_or_else(|_| Err(ended()))
}

/// Exchanges the messages of one chunk after the other, in one order at all ranks.
fn through_host(
    ranks: &Communicator,
    rounds: usize,
    produced: &[Receiver<Result<Sent>>],
    arrived: &[Sender<Arrived>],
) -> Result<(i64, i64)> {
    let (mut messages, mut bytes) = (0, 0);
    for round in 0..rounds {
        let (lists, count) = match ranks.agree(next(produced, round))? {
            Sent::Lists(lists, count) => (lists, count),
            Sent::Places(_) => (vec![Vec::new(); ranks.size()], 0),
        };
        messages += count;
        bytes += lists.iter().map(|list| list.len() as i64).sum::<i64>();
        // A stream that has ended has said so, or will in the next round.
        let _ = arrived[round % arrived.len()].send(Arrived::Lists(ranks.all_to_all(lists)?));
    }
    Ok((messages, bytes))
}

/// Tells ranks where the messages of one chunk after the other are.
fn directly(
    ranks: &Communicator,
    (meeting, sending): (&Meeting, &Sending),
    rounds: usize,
    produced: &[Receiver<Result<Sent>>],
    arrived: &[Sender<Arrived>],
) -> Result<(i64, i64)> {
    let seat = Seat::new(meeting);
    let (mut messages, mut bytes) = (0, 0);
    for round in 0..rounds {
        let (own, failed) = match next(produced, round) {
            Ok(Sent::Places(places)) => (Some(places), None),
            Ok(Sent::Lists(..)) => (Some(vec![[0; 2]; ranks.size()]), None),
            Err(e) => (None, Some(e)),
        };
        let counts = own.iter().flatten().map(|&[_, count]| count);
        let words: usize = counts.clone().map(|n| sending.layout.words(n, sending.axes)).sum();
        messages += counts.sum::<usize>() as i64;
        bytes += 4 * words as i64;
        let came = Instant::now();
        let all: Option<Round> = meeting.meet(ranks.rank(), own);
        let began = Instant::now();
        let of_all: Option<Vec<_>> =
            all.as_ref().and_then(|all| all.iter().map(Option::as_ref).collect());
        let Some(of_all) = of_all else {
            // All ranks come here, but for one that has left.
            seat.end();
            let gone = || CommError::Unavailable("another rank has failed".into());
            return ranks.agree(match (failed, all) {
                (Some(e), _) => Err(e),
                (None, Some(_)) => Ok((messages, bytes)),
                (None, None) => Err(gone()),
            });
        };
        let own = of_all.iter().map(|places| places[ranks.rank()]).collect();
        // As above.
        let _ = arrived[round % arrived.len()].send(Arrived::Places(own));
        ranks.note("exchange", 4 * words as u64, [came, began, Instant::now()]);
    }
    seat.end();
    Ok((messages, bytes))
}

#[cfg(test)]
mod tests;
