//! Unbiased atlases: the mean image of a population, and the deformation of each subject to it
//! (Joshi et al. 2004; Ha 2011, sections 1.3, 2.3.7 to 2.3.9 and 2.4).
//!
//! All subjects are matched to the template step by step, the template is their mean after each
//! step (Algorithms 4 and 5), and no subject is preferred: [`build`] gives the same bits whatever the
//! order in which images are given, as long as the [source](Source) has them in an order of its own.
//!
//! Sums over images are kept in [fixed point](voxalign_compute::ops::Accumulate).

mod align;
mod build;
mod checkpoint;
mod cohort;
mod construction;
mod crew;
mod dry_run;
mod geometry;
mod member;
mod options;
mod regress;
mod saving;
mod shared;
mod stability;
mod subjects;
mod template;
mod verdict;

pub use align::{AlignOptions, Aligned, align};
pub use build::{build, iterate};
pub use checkpoint::Checkpoints;
pub use construction::{Atlas, Construction, ENTROPY_BINS, Found, Sink, Times, unheard};
pub use dry_run::{DryRun, dry_run};
pub use geometry::{CarriedGeometry, Forms, Geometry, TemplateGeometry};
pub use options::{AtlasChannel, AtlasOptions, Sharpness};
pub use regress::{Kernel, effective_number, label_volumes, largest_labels};
pub use stability::{Cohorts, STABLE_PART, SplitMix64, Spread, draw_cohorts, stable_from};
pub use subjects::memory::{Bytes, Level, MemoryOptions, MemoryPlan};
pub use subjects::source::{Images, InMemory, Size, Source, Subject};
pub use subjects::weighted::Weighted;
pub use template::labels::{LabelFiles, mean_overlap, most_frequent, most_weight};
pub use template::snapshot::{Slice, Snapshot};
pub use verdict::{Judged, judge, outlying, root_mean_square};
