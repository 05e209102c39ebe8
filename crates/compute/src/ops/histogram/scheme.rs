//! The schemes for binned sums and joint histograms.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

/// An enumeration whose kinds have names, some of them with a feature alone: each is written once.
macro_rules! named {
    ($(#[$meta:meta])* pub enum $Name:ident {
        $($(#[$of:meta])* $kind:ident = $name:literal $(if $feature:tt)?,)*
    }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub enum $Name {
            $($(#[$of])* $(#[cfg(feature = $feature)])? $kind,)*
        }

        impl $Name {
            const COUNT: usize = [$($(#[cfg(feature = $feature)])? $name,)*].len();

            /// All of them, in the order of the paper.
            pub const ALL: [$Name; Self::COUNT] = [
                $($(#[cfg(feature = $feature)])? $Name::$kind,)*
            ];

            /// The name, as programs show and take it.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $($(#[cfg(feature = $feature)])? $Name::$kind => $name,)*
                }
            }
        }

        impl FromStr for $Name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                Self::ALL.into_iter().find(|kind| kind.name() == text).ok_or_else(|| {
                    let names = Self::ALL.map(Self::name);
                    format!("'{text}' is not a scheme; use one of {}", names.join(", "))
                })
            }
        }
    };
}

named! {
    /// How the binned sums are made. All schemes give the same sums but for rounding.
    ///
    /// All but `ConflictFree` and `Direct` are baselines, which are there with the feature `baselines` of the
    /// crate alone. The first five are those of sections 3.2 to 3.5 of Li et al. (2015), the two after them what
    /// later GPUs allow. Schemes whose floating-point counters are met in any order
    /// ([`reproducible`](Self::reproducible) says which) differ in their last digits from run to run
    /// and are for comparison only. A single-precision counter that `n` samples meet is off by at most
    /// `n` parts in 2^24 of the sum of its summands' sizes, and in practice by far less.
    pub enum Scheme {
        /// Counters in global memory that all threads meet.
        GlobalAtomic = "global_atomic" if "baselines",
        /// A shadow histogram for every thread in global memory, merged in a fixed order.
        GlobalMerge = "global_merge" if "baselines",
        /// A shadow histogram for every block in shared memory, which meet in global memory.
        SharedAtomic = "shared_atomic" if "baselines",
        /// A shadow histogram for every block in shared memory, merged in a fixed order.
        SharedMerge = "shared_merge" if "baselines",
        /// A shadow histogram for every warp in shared memory, merged in a fixed order.
        SharedWarp = "shared_warp" if "baselines",
        /// As `SharedAtomic` in whole numbers (64 bits, a part in 2^26 of the largest summand): any
        /// order gives the same sums.
        FixedPoint = "fixed_point" if "baselines",
        /// As `SharedWarp`, but the lanes of a warp that meet in a bin add up first and one of them
        /// changes the counter: no atomics.
        WarpAggregated = "warp_aggregated" if "baselines",
        /// Samples grouped by bin; sums in registers. The default on every device: what is chosen does not
        /// hang on the machine or its load, so that ranks and runs agree.
        #[default]
        ConflictFree = "conflict_free",
        /// Every sample adds to the counters of its bin, in double precision: the check of the others.
        Direct = "direct",
    }
}

impl Scheme {
    /// Whether the sums have the same bits at every run on a GPU.
    #[must_use]
    pub fn reproducible(self) -> bool {
        match self {
            Scheme::ConflictFree | Scheme::Direct => true,
            #[cfg(feature = "baselines")]
            _ => matches!(self, Scheme::GlobalMerge | Scheme::FixedPoint | Scheme::WarpAggregated),
        }
    }

    /// Whether the CPU has it; the others need a GPU.
    #[must_use]
    pub fn on_cpu(self) -> bool {
        matches!(self, Scheme::ConflictFree | Scheme::Direct)
    }
}

impl Display for Scheme {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

voxalign_options::text_value!(Scheme, "NAME");

named! {
    /// How joint histograms are made: ours, or as others made them on GPUs (section 4.3 of Li et al.
    /// 2015), for comparison.
    ///
    /// All but the default are baselines, which are there with the feature `baselines` of the crate alone.
    /// All of them count in whole units of weight and have the same bits at every run; those of the baselines
    /// are 2^-18 of the largest weight of the fixed image, so that a sample's part of a column is off by at
    /// most half of that.
    pub enum JointScheme {
        /// The device's own.
        #[default]
        Default = "default",
        /// Shams and Kennedy (2007): a histogram for every warp in shared memory; where it does not fit, the image
        /// is processed several times, for some rows at a time.
        ShamsWarp = "shams_warp" if "baselines",
        /// Shams et al. (2010): blocks sort the cells of their samples and count runs, without atomics.
        SortAndCount = "sort_and_count" if "baselines",
        /// Chen et al. (2009): samples sorted by bin, so that a block keeps a few rows in shared memory.
        ChenSorted = "chen_sorted" if "baselines",
        /// Vetter and Westermann (2011): the same with extra counters for crowded columns.
        VetterCrowded = "vetter_crowded" if "baselines",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        Scheme::ALL.iter().for_each(|&s| assert_eq!(s.name().parse(), Ok(s)));
        JointScheme::ALL.iter().for_each(|&s| assert_eq!(s.name().parse(), Ok(s)));
        assert!("conflictfree".parse::<Scheme>().unwrap_err().contains("conflict_free"));
        assert!(Scheme::default().reproducible() && Scheme::default().on_cpu());
    }
}
