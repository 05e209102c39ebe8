//! Options of jobs, as values with names: one name in files of options, messages and at the command line,
//! where words are joined by `-` instead of `_`. How a program runs (`device`, `threads`, `quiet`, ...) is no part of a job.
//!
//! Where nothing is given, the default is that of the job; what would be ignored is refused.

mod affine;
#[cfg(feature = "clap")]
mod choice;
mod landmarks;
mod matching;
mod output;
mod products;
mod text;
mod values;

pub use affine::{AffineMethod, AffineWay, of_maps};
pub(crate) use affine::{check_cost, check_dof};
#[cfg(feature = "clap")]
pub use choice::{choice, choice_of};
pub use landmarks::{LandmarkOptions, PointConvention};
pub use matching::{Matching, Schedule};
pub use output::OutputOptions;
pub use products::{Product, Products, of_affine, of_deform};
pub use text::{from_json, from_toml};
pub use values::{
    Angles, InitChoice, Interpolation, Levels, Outside, Steps, not_negative, number, positive,
};

pub(crate) use matching::matching_parameters;
pub(crate) use text::{as_text, by_name, by_names, negated, texts};

use crate::error::{Error, Result};

/// Refuses an option that would be ignored.
///
/// # Errors
/// Where it is given.
pub fn refuse(given: bool, option: &str, is_for: &str) -> Result<()> {
    if given {
        return Err(Error::input(format!("`{option}` is for {is_for}; leave it out")));
    }
    Ok(())
}
