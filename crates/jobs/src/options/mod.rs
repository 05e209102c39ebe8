//! Options of jobs, as values with names: one name in files of options, messages and at the command line,
//! where words are joined by `-` instead of `_`. How a program runs (`device`, `threads`, `quiet`, ...) is not part of a job.
//!
//! Where nothing is given, the default is that of the job; what would be ignored is refused.

mod affine;
mod distributed;
mod geometry;
mod landmarks;
mod matching;
mod output;
mod products;
mod text;
mod values;

pub(crate) use affine::check_dof;
pub use affine::{AffineMethod, AffineWay, of_maps, usual_affine};
pub use distributed::{
    Around, Distributed, DistributedOptions, ImageMemory, Messages, MissingChunks, Spreading,
    ValueWindow,
};
pub use geometry::{GeometryOptions, PointOptions};
pub use landmarks::{LandmarkOptions, LandmarkWeight, usual_landmark_weight};
pub use matching::MatchingOptions;
pub use output::{OutputOptions, ReportOption};
pub use products::{Product, Products, of_affine, of_deform, of_elastic};
pub use text::{from_json, from_toml, toml_table};
pub use values::{
    InitChoice, Interpolation, Outside, PointConvention, not_negative, number, positive,
};

pub(crate) use geometry::grid_of;
pub(crate) use matching::recorded;
pub(crate) use text::{as_text, by_names, negated, texts};

use crate::error::{Error, Result};
use voxalign_options::Text;

/// Refuses an option that would be ignored; `is_for` is what it has a meaning for.
///
/// # Errors
/// Where it is given.
pub fn refuse(given: bool, option: &'static str, is_for: impl Into<Text>) -> Result<()> {
    if given { Err(Error::Ignored(option, is_for.into())) } else { Ok(()) }
}

/// The parser of a path that may be empty, which stands for one that is not given.
#[cfg(feature = "clap")]
pub(crate) fn path() -> impl clap::builder::TypedValueParser<Value = std::path::PathBuf> {
    use clap::builder::{OsStringValueParser, TypedValueParser};
    OsStringValueParser::new().map(std::path::PathBuf::from)
}
