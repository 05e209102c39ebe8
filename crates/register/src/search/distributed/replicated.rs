//! All moving pixels on every device: the baseline.

use super::{Held, JointSums, Strategy, with_bricks};
use voxalign_compute::Device;
use voxalign_compute::comm::{Communicator, Result};
use voxalign_compute::ops::joint::{JointRule, Pixel};

/// All moving pixels on every device.
pub struct Replicated<D: Device, P: Pixel>(Held<D, P>);

impl<D: Device, P: Pixel> Replicated<D, P> {
    /// With what a plan of [`StrategyKind::Replicated`](super::StrategyKind::Replicated) names.
    #[must_use]
    pub fn new(held: Held<D, P>) -> Self {
        Self(held)
    }
}

impl<D: Device, P: Pixel> Strategy for Replicated<D, P> {
    fn sums(
        &self,
        ranks: &Communicator,
        rule: &JointRule,
        table: Option<&[i32]>,
    ) -> Result<JointSums> {
        with_bricks(ranks, &self.0, rule, table, &[self.0.own()])
    }
}
