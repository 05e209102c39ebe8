//! The options that several commands share: one option has one name and one meaning.

mod ct;
mod pair;
mod points;
mod shared;
mod transform_arg;

pub(crate) use ct::CtArgs;
pub(crate) use pair::PairArgs;
pub(crate) use points::PointArgs;
pub(crate) use shared::{GeometryArgs, HostArgs, JobArgs, JsonArgs, ReportArgs, RunArgs, caller};
pub(crate) use transform_arg::TransformArg;
