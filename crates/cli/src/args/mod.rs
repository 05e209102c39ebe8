//! The options that several commands share: one option has one name and one meaning.

mod pair;
mod shared;
mod transform_arg;

pub(crate) use pair::PairArgs;
pub(crate) use shared::{
    GeometryArgs, HostArgs, JobArgs, JsonArgs, PointConventionName, RunArgs, WhichArgs, caller,
};
pub(crate) use transform_arg::TransformArg;
