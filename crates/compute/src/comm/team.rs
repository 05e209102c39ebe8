//! The devices of this rank together with those of all others.

use std::ops::Range;

use super::error::{CommError, Result};
use super::sums::{self, DeviceSums};
use super::{Communicator, HostSums, balance};
use crate::device::{DeviceBuffer, Memory};

/// The devices of this rank, and the ranks. Every device of every rank is a member with a number of
/// its own: those of rank 0 first.
///
/// All ranks have to make the same calls in the same order.
pub struct Team<D: Memory> {
    devices: Vec<D>,
    ranks: Communicator,
    sums: Box<dyn DeviceSums<D>>,
    first: usize,
    members: usize,
}

impl<D: Memory> std::fmt::Debug for Team<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.devices.iter().map(Memory::name).collect();
        write!(f, "Team {{ devices: {names:?}, ranks: {:?} }}", self.ranks)
    }
}

/// One of the devices of this rank.
#[derive(Debug)]
pub struct Member<'a, D> {
    /// The device.
    pub device: &'a D,
    /// Its place among the devices of this rank.
    pub place: usize,
    /// Its number among the devices of all ranks.
    pub number: usize,
    /// The number of devices of all ranks.
    pub members: usize,
}

impl<D> Member<'_, D> {
    /// Its share of this many images: [`balance::share`].
    #[must_use]
    pub fn share(&self, images: usize) -> Range<usize> {
        balance::share(images, self.members, self.number)
    }
}

impl<D: Memory> Team<D> {
    /// The devices of this rank with those of the other ranks, whose number may differ from rank to rank. Sums over
    /// devices use the best method of the backend: see [`Memory::sums`].
    ///
    /// # Errors
    /// At every rank, if one of them has no device; those of ranks that do not hear from each other.
    pub fn new(devices: Vec<D>, ranks: Communicator) -> Result<Self> {
        let sums = D::sums(&devices);
        Self::with(devices, ranks, sums)
    }

    /// The same with sums over devices that go through the host.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn through_host(devices: Vec<D>, ranks: Communicator) -> Result<Self> {
        Self::with(devices, ranks, Box::new(HostSums::default()))
    }

    fn with(devices: Vec<D>, ranks: Communicator, sums: Box<dyn DeviceSums<D>>) -> Result<Self> {
        let some = if devices.is_empty() { Err(sums::no_device().into()) } else { Ok(()) };
        ranks.agree::<_, CommError>(some)?;
        let counts: Vec<usize> = ranks
            .all_gather(&[devices.len() as u64])?
            .into_iter()
            .map(|count| count.iter().sum::<u64>() as usize)
            .collect();
        let first = counts[..ranks.rank().min(counts.len())].iter().sum();
        Ok(Self { devices, ranks, sums, first, members: counts.iter().sum() })
    }

    /// The devices of this rank.
    #[must_use]
    pub fn devices(&self) -> &[D] {
        &self.devices
    }

    /// The ranks.
    #[must_use]
    pub fn ranks(&self) -> &Communicator {
        &self.ranks
    }

    /// The number of devices of all ranks.
    #[must_use]
    pub fn members(&self) -> usize {
        self.members
    }

    /// A description of how sums over the devices of this rank are computed.
    #[must_use]
    pub fn sums(&self) -> String {
        self.sums.name()
    }

    /// The devices of this rank as members.
    pub fn local(&self) -> impl Iterator<Item = Member<'_, D>> {
        let (first, members) = (self.first, self.members);
        let member =
            move |(place, device)| Member { device, place, number: first + place, members };
        self.devices.iter().enumerate().map(member)
    }

    /// The images, out of this many, that the devices of this rank share.
    #[must_use]
    pub fn images(&self, images: usize) -> Range<usize> {
        let start = balance::share(images, self.members, self.first).start;
        let last = self.first + self.devices.len() - 1;
        start..balance::share(images, self.members, last).end
    }

    /// Runs `work` for every device of this rank at the same time, each in a thread of its own, with
    /// a state of its own; gives what they return, in the order of the devices. Other ranks are not
    /// waited for: [`Communicator::agree`] does that.
    ///
    /// # Errors
    /// The first error, in the order of the devices, once all have ended; states that are not one of
    /// each device.
    ///
    /// # Panics
    /// If `work` does.
    pub fn each<S, R, E>(
        &self,
        states: &mut [S],
        work: impl Fn(Member<'_, D>, &mut S) -> std::result::Result<R, E> + Sync,
    ) -> std::result::Result<Vec<R>, E>
    where
        S: Send,
        R: Send,
        E: Send + From<CommError>,
    {
        let expected = self.devices.len();
        let checked = crate::error::check_len("states, one of each device", expected, states.len());
        checked.map_err(CommError::from)?;
        if expected > 1 {
            crate::cpu::threads::check(expected - 1).map_err(CommError::from)?;
        }
        let mut jobs = self.local().zip(states);
        let first = jobs.next();
        let results: Vec<_> = std::thread::scope(|scope| {
            let work = &work;
            // The first runs here: one device needs no thread.
            let start = |(member, state)| {
                let thread = std::thread::Builder::new();
                thread.spawn_scoped(scope, move || work(member, state))
            };
            let others: Vec<_> = jobs.map(start).collect();
            let first = first.map(|(member, state)| work(member, state));
            let ended = others.into_iter().map(|thread| match thread.map(|t| t.join()) {
                Ok(Ok(result)) => result,
                Ok(Err(panic)) => std::panic::resume_unwind(panic),
                Err(e) => Err(E::from(CommError::from(crate::cpu::threads::refused(1, e)))),
            });
            first.into_iter().chain(ended).collect()
        });
        results.into_iter().collect()
    }

    /// The sums over the buffers of all devices of all ranks, one buffer of each device of this rank
    /// and all equally long, place by place; every buffer then holds the sum. First over the devices
    /// of a rank, then over ranks (Ha 2011, figure 2.11). Exact, as
    /// [`Communicator::all_reduce_sum`].
    ///
    /// # Errors
    /// At every rank, if one of them fails: buffers that do not fit the devices or each other, what a
    /// device or MPI says, a rank that is gone.
    pub fn all_reduce_sum(&self, buffers: &mut [D::Buffer<i64>]) -> Result<()> {
        let mut all: Vec<_> = buffers.iter_mut().collect();
        let summed = self.sums.all_reduce_sum(&self.devices, &mut all).map_err(CommError::from);
        if self.ranks.size() == 1 {
            return summed;
        }
        // All devices of the rank have the same now; that of one goes to the other ranks.
        let own = summed.and_then(|()| match (self.devices.first(), buffers.first()) {
            (Some(device), Some(buffer)) if !buffer.is_empty() => Ok(device.download(buffer)?),
            _ => Ok(Vec::new()),
        });
        let mut sum = self.ranks.agree(own)?;
        self.ranks.all_reduce_sum(&mut sum)?;
        let back = self.devices.iter().zip(buffers).try_for_each(|(d, b)| d.upload_into(b, &sum));
        self.ranks.agree(back.map_err(CommError::from))
    }
}
