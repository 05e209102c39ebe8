//! The ways in which binned sums and joint histograms can be made.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

/// How the binned sums are made. All schemes give the same sums but for rounding.
///
/// The first five are those of sections 3.2 to 3.5 of Li et al. (2015), the two after them what
/// later GPUs allow. Schemes whose floating-point counters are met in any order
/// ([`reproducible`](Self::reproducible) says which) differ in their last digits from run to run
/// and are for comparison only. A single-precision counter that `n` samples meet is off by at most
/// `n` parts in 2^24 of the sum of its summands' sizes, and in practice by far less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Scheme {
    /// Counters in global memory that all threads meet.
    GlobalAtomic,
    /// A shadow histogram for every thread in global memory, merged in a fixed order.
    GlobalMerge,
    /// A shadow histogram for every block in shared memory, which meet in global memory.
    SharedAtomic,
    /// A shadow histogram for every block in shared memory, merged in a fixed order.
    SharedMerge,
    /// A shadow histogram for every warp in shared memory, merged in a fixed order.
    SharedWarp,
    /// As `SharedAtomic` in whole numbers (64 bits, a part in 2^26 of the largest summand): any
    /// order gives the same sums.
    FixedPoint,
    /// As `SharedWarp`, but the lanes of a warp that meet in a bin add up first and one of them
    /// changes the counter: no atomics.
    WarpAggregated,
    /// Samples grouped by bin; sums in registers. The default on every device: what is chosen does not
    /// hang on the machine or its load, so that ranks and runs agree.
    #[default]
    ConflictFree,
    /// Every sample adds to the counters of its bin, in double precision: the check of the others.
    Direct,
}

impl Scheme {
    /// All of them, in the order of the paper.
    pub const ALL: [Scheme; 9] = [
        Scheme::GlobalAtomic,
        Scheme::GlobalMerge,
        Scheme::SharedAtomic,
        Scheme::SharedMerge,
        Scheme::SharedWarp,
        Scheme::FixedPoint,
        Scheme::WarpAggregated,
        Scheme::ConflictFree,
        Scheme::Direct,
    ];

    /// The name, as programs show and take it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Scheme::GlobalAtomic => "global_atomic",
            Scheme::GlobalMerge => "global_merge",
            Scheme::SharedAtomic => "shared_atomic",
            Scheme::SharedMerge => "shared_merge",
            Scheme::SharedWarp => "shared_warp",
            Scheme::FixedPoint => "fixed_point",
            Scheme::WarpAggregated => "warp_aggregated",
            Scheme::ConflictFree => "conflict_free",
            Scheme::Direct => "direct",
        }
    }

    /// Whether the sums have the same bits at every run on a GPU.
    #[must_use]
    pub fn reproducible(self) -> bool {
        matches!(
            self,
            Scheme::GlobalMerge
                | Scheme::FixedPoint
                | Scheme::WarpAggregated
                | Scheme::ConflictFree
                | Scheme::Direct
        )
    }

    /// Whether the CPU has it; the others need a GPU.
    #[must_use]
    pub fn on_cpu(self) -> bool {
        matches!(self, Scheme::ConflictFree | Scheme::Direct)
    }
}

impl FromStr for Scheme {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        by_name(text, &Self::ALL, Self::name)
    }
}

impl Display for Scheme {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

voxalign_options::text_value!(Scheme, "NAME");

/// How joint histograms are made: ours, or as others made them on GPUs (section 4.3 of Li et al.
/// 2015), for comparison. All of them count in whole units of weight and have the same bits at
/// every run; those of the baselines are 2^-18 of the largest weight of the fixed image, so that a
/// sample's part of a column is off by at most half of that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum JointScheme {
    /// The device's own.
    #[default]
    Default,
    /// Shams and Kennedy (2007): a histogram for every warp in shared memory; where it does not
    /// fit, the image is gone through for some rows at a time.
    ShamsWarp,
    /// Shams et al. (2010): blocks sort the cells of their samples and count runs, without atomics.
    SortAndCount,
    /// Chen et al. (2009): samples sorted by bin, so that a block keeps a few rows in shared memory.
    ChenSorted,
    /// Vetter and Westermann (2011): the same with extra counters for crowded columns.
    VetterCrowded,
}

impl JointScheme {
    /// All of them.
    pub const ALL: [JointScheme; 5] = [
        JointScheme::Default,
        JointScheme::ShamsWarp,
        JointScheme::SortAndCount,
        JointScheme::ChenSorted,
        JointScheme::VetterCrowded,
    ];

    /// The name, as programs show and take it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            JointScheme::Default => "default",
            JointScheme::ShamsWarp => "shams_warp",
            JointScheme::SortAndCount => "sort_and_count",
            JointScheme::ChenSorted => "chen_sorted",
            JointScheme::VetterCrowded => "vetter_crowded",
        }
    }
}

impl FromStr for JointScheme {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        by_name(text, &Self::ALL, Self::name)
    }
}

fn by_name<T: Copy>(text: &str, all: &[T], name: fn(T) -> &'static str) -> Result<T, String> {
    all.iter().copied().find(|&s| name(s) == text).ok_or_else(|| {
        let names: Vec<_> = all.iter().map(|&s| name(s)).collect();
        format!("'{text}' is not a scheme; use one of {}", names.join(", "))
    })
}

/// The columns that a value of the moving image counts in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Window {
    /// Four, by a cubic B-spline.
    #[default]
    Cubic,
    /// The nearest.
    Counts,
}

/// Blocks and threads of a scheme on a GPU; what is not given the device chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SchemeSettings {
    /// Blocks a map.
    pub blocks: Option<usize>,
    /// Threads a block: a multiple of 32, at most 1024.
    pub threads: Option<usize>,
}

/// How a joint histogram is to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct JointMethod {
    /// The scheme.
    pub scheme: JointScheme,
    /// The windows; the default scheme has cubic ones only.
    pub window: Window,
    /// Blocks and threads.
    pub settings: SchemeSettings,
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
