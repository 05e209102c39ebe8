//! Shared parts of the simulation of X-ray images and of poses: the CT as attenuations, and the views.

mod ct;
mod names;
mod numbers;
mod place;
mod table;
mod views;

pub use ct::{Ct, CtOptions, Tissue, Units};
pub use numbers::{Numbers, Whole};
pub use table::ViewTable;

pub use views::{Acquisition, Preset, ViewOptions};

/// The table of the views, in the folder that simulated images are written to.
pub(crate) const VIEWS: &str = "views.toml";

pub(crate) use names::{stem, unique};
pub(crate) use numbers::short;
pub(crate) use place::{behind, in_room, is_within, may_see, read_pose};
pub(crate) use views::{NamedView, check_region, counted};
