//! The options that several commands share: one option has one name and one meaning.

mod points;
mod shared;
mod transform_arg;

pub(crate) use points::PointArgs;
pub(crate) use shared::{GeometryArgs, HostArgs, JobArgs, JsonArgs, RunArgs, caller};
pub(crate) use transform_arg::TransformArg;
