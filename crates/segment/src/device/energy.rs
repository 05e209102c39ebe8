//! What a force lowers, of what a device has counted.

use voxalign_compute::ops::front::{Totals, Units};

use super::motion::{Intensities, Motion, Speeds};
use crate::force::Object;

/// The energy of a force, as its [`energy`](crate::Force::energy) has it.
pub(super) struct Energy {
    units: Units,
    points: i64,
    kind: Kind,
}

enum Kind {
    None,
    /// Minus the sum of the speed inside.
    Speed,
    TwoMeans {
        weights: [f64; 2],
        means: [f64; 2],
        fixed: bool,
        object: Object,
    },
}

impl Energy {
    pub(super) fn of(motion: &Motion<'_>, points: usize) -> Self {
        let values = motion.values().unwrap_or_default();
        let (low, high) =
            values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| {
                (low.min(f64::from(*v)), high.max(f64::from(*v)))
            });
        let (low, high) = if low <= high { (low, high) } else { (0.0, 1.0) };
        let kind = match &motion.speed {
            Speeds::Field { lowers: true, .. } => Kind::Speed,
            Speeds::Field { .. } | Speeds::None => Kind::None,
            Speeds::TwoMeans(Intensities { weights, fixed, object, .. }) => Kind::TwoMeans {
                weights: *weights,
                means: fixed.unwrap_or_default(),
                fixed: fixed.is_some(),
                object: *object,
            },
        };
        Self { units: Units::between(low, high, points), points: points as i64, kind }
    }

    pub(super) fn units(&self) -> Units {
        self.units
    }

    /// Whether it is of sums over the points inside.
    pub(super) fn is_measured(&self) -> bool {
        !matches!(self.kind, Kind::None)
    }

    /// The energy of a set; sets have to come in the order of iterations, as a side without points keeps its mean.
    pub(super) fn of_set(&mut self, totals: &Totals) -> Option<f64> {
        let (units, outside) = (&self.units, self.points - totals.size);
        match &mut self.kind {
            Kind::None => None,
            Kind::Speed => Some(-units.sum(totals.sum, totals.size)),
            Kind::TwoMeans { weights, means, fixed, object } => {
                let sums = [totals.sum, totals.all.wrapping_sub(totals.sum)];
                let squares = [totals.squares, totals.all_squares.wrapping_sub(totals.squares)];
                let counts = [totals.size, outside];
                if !*fixed {
                    for side in 0..2 {
                        if counts[side] > 0 {
                            means[side] = units.mean(sums[side], counts[side]);
                        }
                    }
                    if object.is_wrong(*means) {
                        means.swap(0, 1);
                    }
                }
                let of = |s: usize| {
                    weights[s] * units.spread([sums[s], squares[s]], counts[s], means[s])
                };
                Some(of(0) + of(1))
            }
        }
    }
}
