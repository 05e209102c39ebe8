//! The cost of maps of images that are spread over ranks.

use crate::error::{RegisterError, Result};
use crate::metric::to_world;
use crate::progress::Progress;
use crate::search::distributed::{Strategy, in_map};
use crate::search::{Evaluation, Objective};
use crate::similarity::{CostAndDerivatives, overlap_term};
use voxalign_compute::comm::Communicator;
use voxalign_compute::ops::joint::{FixedPointMap, JointRule, JointSlopes, MOST_SLOPE};
use voxalign_image::{Affine, Grid};

/// A function of an exact joint histogram of one scale. All ranks evaluate the same maps in the same order.
pub struct SpreadObjective<'a> {
    /// The ranks.
    pub ranks: &'a Communicator,
    /// What counts.
    pub strategy: &'a dyn Strategy,
    /// The rule by which it does, under any map.
    pub rule: JointRule,
    /// Whether moving pixels have 16 bits.
    pub wide: bool,
    /// The similarity, of counts and the number of columns.
    pub cost: fn(&[f64], usize) -> CostAndDerivatives,
    /// The fixed and the moving image at this scale.
    pub grids: [&'a Grid; 2],
    /// The samples of a full overlap of the smaller image.
    pub full: f64,
    /// Who may ask to stop, at this rank; all ranks stop together.
    pub progress: &'a dyn Progress,
}

/// A map between worlds as one between pixels.
pub(super) fn index_map([fixed, moving]: [&Grid; 2], map: &Affine) -> Result<FixedPointMap> {
    let between = fixed.to_world().then(map).then(moving.to_index());
    Ok(FixedPointMap::new(&between.rows())?)
}

impl SpreadObjective<'_> {
    pub(super) fn index_map(&self, map: &Affine) -> Result<FixedPointMap> {
        index_map(self.grids, map)
    }

    fn one(&self, map: &Affine, gradient: bool) -> Result<Evaluation> {
        let mut stop = [f64::from(u8::from(self.progress.stop()))];
        self.ranks.all_reduce_max(&mut stop)?;
        if stop[0] > 0.0 {
            return Err(RegisterError::Stopped);
        }
        let rule = self.rule.under(self.index_map(map)?);
        let counted = self.strategy.sums(self.ranks, &rule, None)?;
        // Exact: of 2^40 samples.
        let counts: Vec<f64> = counted.counts().iter().map(|&n| n as f64).collect();
        let found = (self.cost)(&counts, rule.columns());
        let overlap = counted.traffic.samples as f64 / self.full;
        let cost = found.cost + overlap_term(overlap).0;
        if !gradient {
            return Ok(Evaluation { cost, gradient: None, overlap });
        }
        let Some((table, scale)) = table(&found.derivatives) else {
            return Ok(Evaluation { cost, gradient: Some([0.0; 12]), overlap });
        };
        let slopes = self.strategy.sums(self.ranks, &rule, Some(&table))?.slopes()?;
        let unit = JointSlopes::unit(&rule, self.wide) / scale;
        let of_map = in_map(&slopes, &rule.map, rule.moving, unit)?;
        let gradient = Some(to_world(&of_map, self.grids));
        Ok(Evaluation { cost, gradient, overlap })
    }
}

/// Derivatives in the entries of a histogram as whole numbers, and what they were multiplied by: the largest power of two with which all of them
/// are at most [`MOST_SLOPE`]. None where all are 0.
fn table(derivatives: &[f64]) -> Option<(Vec<i32>, f64)> {
    let largest = derivatives.iter().fold(0.0f64, |most, d| most.max(d.abs()));
    if largest == 0.0 || !largest.is_finite() {
        return None;
    }
    let scale = (f64::from(MOST_SLOPE) / largest).log2().floor().exp2();
    let whole = |d: &f64| (d * scale).round() as i32;
    Some((derivatives.iter().map(whole).collect(), scale))
}

impl Objective for SpreadObjective<'_> {
    fn batch(&self) -> usize {
        1
    }

    /// As for images of one device, but for the derivative of the term for small overlaps, which is left out: samples count or do not.
    fn evaluate(&self, maps: &[Affine], gradient: bool) -> Result<Vec<Evaluation>> {
        maps.iter().map(|map| self.one(map, gradient)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_use_the_range_of_slopes() {
        let (whole, scale) = table(&[0.0, 1.0 / 3.0, -0.2]).unwrap();
        assert_eq!(scale, (1u64 << 23) as f64);
        assert_eq!(whole, [0, 2_796_203, -1_677_722]);
        let (whole, _) = table(&[-3.0e-12, 1.0e-12]).unwrap();
        assert!(whole[0] <= -MOST_SLOPE / 2 && whole[0] >= -MOST_SLOPE);
        assert!(table(&[0.0; 3]).is_none() && table(&[f64::INFINITY]).is_none());
    }
}
