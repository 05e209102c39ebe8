//! Joint histograms of images whose pixels are spread over the devices of several ranks (A. Adinetz, J. Kraus, M. Axer, M. Huysegoms,
//! S. Köhnen, D. Pleiter, *Computation of mutual information metric for image registration on multiple GPUs*).
//!
//! Both images are cut into blocks, one for each rank. A rank looks at the pixels of its block of the fixed image; where the moving pixels of
//! a sample are not on its device, a [`Strategy`] says what is done:
//!
//! | strategy | moving pixels on a device | the others |
//! |---|---|---|
//! | [`Replicated`] | all | there are none |
//! | [`Halo`] | the own block with a halo | are read from a copy of the whole image in the memory of the host |
//! | [`List`] | the own block | are not read: fixed bin and moving coordinate are sent to the rank that has them, which counts |
//! | [`Peer`] | the own block | are read from the memory of the device that has them |
//! | [`Streamed`] | those that a chunk of samples meets | follow with the next chunk, from memory of the host or from files |
//!
//! Everything is whole numbers ([`voxalign_compute::ops::joint`]): all strategies, decompositions and numbers of ranks have the same counts and the
//! same sums of slopes. All ranks make the same calls in the same order, and all get the sums over all ranks.
//!
//! A [`Plan`] tells what a rank has to have in memory. Who reads images fills that, and gives it to a strategy as [`Held`].

mod derivative;
mod halo;
mod list;
mod met;
mod model;
mod peer;
mod plan;
mod replicated;
mod shared;
mod streamed;

pub use derivative::in_map;
pub use halo::Halo;
pub use list::{ChunkOrder, List, ListOptions};
pub use model::{Estimate, Machine, Rates, estimates};
pub use peer::Peer;
pub use plan::{Held, Plan, StrategyKind};
pub use replicated::Replicated;
pub(crate) use streamed::LEAST_MEMORY;
pub use streamed::{Streamed, Supply, streamed_memory};

use voxalign_compute::comm::{Communicator, Result};
use voxalign_compute::ops::joint::{
    Brick, FixedPart, JointRule, JointSlopes, MOST_SLOPE, Pixel, TALLIES,
};
use voxalign_compute::{ComputeError, Device};

/// A way to count samples whose pixels are spread over ranks.
pub trait Strategy: Send + Sync {
    /// The joint histogram under a rule, or, with a table of slopes, their sums: those over all ranks, at every rank.
    ///
    /// # Errors
    /// At every rank, what fails at one of them; a table with numbers above [`MOST_SLOPE`] in size.
    fn sums(
        &self,
        ranks: &Communicator,
        rule: &JointRule,
        table: Option<&[i32]>,
    ) -> Result<JointSums>;
}

/// What was moved for a joint histogram, over all ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// The samples.
    pub samples: u64,
    /// Those whose pixels were read from elsewhere than the memory of the own device.
    pub remote_reads: u64,
    /// Those that were sent to another rank.
    pub messages: u64,
    /// The bytes of all messages.
    pub bytes: u64,
}

/// Sums over all ranks.
#[derive(Debug, Clone)]
pub struct JointSums {
    numbers: Vec<i64>,
    /// What was moved.
    pub traffic: Traffic,
}

impl JointSums {
    /// The entries of the joint histogram, `fixed bins x columns`, in units of 1 with a plain window and of 1/4096 of a sample with a cubic one.
    #[must_use]
    pub fn counts(&self) -> &[i64] {
        &self.numbers[..self.numbers.len().saturating_sub(TALLIES)]
    }

    /// The sums of slopes, where there was a table.
    ///
    /// # Errors
    /// Where there was none.
    pub fn slopes(&self) -> Result<JointSlopes> {
        Ok(JointSlopes::from_numbers(&self.numbers)?)
    }

    /// Adds what all ranks have found.
    fn over(ranks: &Communicator, numbers: Vec<i64>, messages: [i64; 2]) -> Result<Self> {
        let mut all = numbers;
        all.extend(messages);
        ranks.all_reduce_sum(&mut all)?;
        let at = all.len() - messages.len();
        let [samples, remote_reads, messages, bytes] =
            [at - 2, at - 1, at, at + 1].map(|i| all[i] as u64);
        all.truncate(at);
        let traffic = Traffic { samples, remote_reads, messages, bytes };
        Ok(Self { numbers: all, traffic })
    }
}

/// A table of slopes on a device.
fn upload_table<D: Device>(device: &D, table: Option<&[i32]>) -> Result<Option<D::Buffer<i32>>> {
    let Some(table) = table else { return Ok(None) };
    match table.iter().find(|v| !(-MOST_SLOPE..=MOST_SLOPE).contains(v)) {
        None => Ok(Some(device.upload(table)?)),
        Some(value) => {
            let what = "a number of a table of slopes";
            Err(ComputeError::argument(what, value, "at most 2^22 in size").into())
        }
    }
}

/// What one rank adds with some bricks, and the sums over all ranks.
fn with_bricks<D: Device, P: Pixel>(
    ranks: &Communicator,
    held: &Held<D, P>,
    rule: &JointRule,
    table: Option<&[i32]>,
    bricks: &[Brick<'_, D>],
) -> Result<JointSums> {
    let own = || -> Result<Vec<i64>> {
        let device = &held.device;
        let table = upload_table(device, table)?;
        let mut out = device.alloc(rule.numbers(table.is_some()))?;
        let block = held.plan.fixed;
        let fixed = FixedPart { block, bins: &held.fixed, part: block };
        device.joint_add(rule, &fixed, bricks, table.as_ref(), &mut out)?;
        Ok(device.into_host(out)?)
    };
    JointSums::over(ranks, ranks.agree(own())?, [0; 2])
}

#[cfg(test)]
mod tests;
