//! What simulated X-ray images and poses share: the CT as attenuations, and where views are taken from.

mod ct;
mod names;
mod numbers;
mod place;
mod table;
mod views;

pub use ct::{Ct, CtOptions, Units};
pub use numbers::{Numbers, Whole};
pub use table::ViewTable;

pub use views::{Preset, ViewOptions};

/// The table of the views, in the folder that simulated images are written to.
pub(crate) const VIEWS: &str = "views.toml";

pub(crate) use names::{stem, unique};
pub(crate) use numbers::short;
pub(crate) use place::{behind, in_room, is_within, may_see, read_pose};
pub(crate) use views::{NamedView, check_region, counted};
