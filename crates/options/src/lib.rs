//! Options declared once, beside the types they configure.
//!
//! A struct of parameters derives [`Parameters`]: its fields have the names, types and help of the options, and attributes say
//! defaults, units and ranges. An enumeration of kinds derives [`Choice`]; a variant may carry the parameters of its kind, so
//! that a parameter that would be ignored cannot be said. [`Given`] and [`Chosen`] hold what somebody said of them: as arguments
//! of a command line (feature `clap`), as data (JSON, TOML), and put over the defaults.
//!
//! ```
//! use voxalign_options::{Choice, Chosen, Parameters};
//!
//! /// Smoothing by a Gaussian.
//! #[derive(Debug, Clone, Copy, PartialEq, Parameters)]
//! struct Gaussian {
//!     /// Standard deviation of the Gaussian, voxels
//!     #[parameter(default = 1.732, unit = "VOX", above = 0.0, what = "number of voxels")]
//!     sigma: f64,
//! }
//!
//! #[derive(Debug, Clone, Copy, PartialEq, Choice)]
//! #[choice(option = "solver", heading = "Smoothness")]
//! /// How forces become velocities
//! enum Solver {
//!     /// Not at all
//!     None,
//!     /// Smoothed by a Gaussian
//!     Gaussian(Gaussian),
//! }
//!
//! let given: Chosen<Solver> = serde_json::from_str(r#"{"solver": "gaussian", "sigma": 2}"#)?;
//! assert_eq!(given.over(Solver::None)?, Solver::Gaussian(Gaussian { sigma: 2.0 }));
//! let ignored: Chosen<Solver> = serde_json::from_str(r#"{"sigma": 2}"#)?;
//! let error = ignored.over(Solver::None).unwrap_err();
//! assert_eq!(error.to_string(), "`sigma` is for `solver = gaussian`; leave it out");
//! let wrong = Gaussian { sigma: 0.0 }.check().unwrap_err();
//! assert_eq!(wrong.to_string(), "`sigma` is 0; give a number of voxels above 0");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

// What the macros write is found here, too.
#[cfg(test)]
extern crate self as voxalign_options;

#[cfg(feature = "clap")]
mod arguments;
mod choice;
#[cfg(feature = "clap")]
pub mod declared;
mod error;
mod given;
mod parameter;
mod text;
mod value;

pub use choice::Choice;
pub use error::{OptionError, Result};
pub use given::{Chosen, Given, UseOf, Usual, as_typed, by_value};
pub use parameter::{Parameter, Parameters};
pub use text::{Part, Text};
pub use value::Value;
pub use voxalign_options_macros::{Choice, Parameters, text};

/// What the macros refer to.
#[doc(hidden)]
pub mod private {
    #[cfg(feature = "clap")]
    pub use clap;
    pub use serde;
    pub use serde_json;

    pub use crate::text::{Argument, Nested, Shown};
}

/// `clap`'s enumeration of values for a [`Choice`], where this crate is built with it.
#[doc(hidden)]
#[cfg(feature = "clap")]
#[macro_export]
macro_rules! value_enum {
    ($kind:ty) => {
        impl $crate::private::clap::ValueEnum for $kind {
            fn value_variants<'a>() -> &'a [Self] {
                <Self as $crate::Choice>::ALL
            }

            fn to_possible_value(&self) -> Option<$crate::private::clap::builder::PossibleValue> {
                let name = $crate::Choice::name(*self);
                let value = $crate::private::clap::builder::PossibleValue::new(name);
                Some(value.help($crate::Choice::summary(*self)))
            }
        }
    };
}

/// Nothing, where this crate is built without `clap`.
#[doc(hidden)]
#[cfg(not(feature = "clap"))]
#[macro_export]
macro_rules! value_enum {
    ($kind:ty) => {};
}
