//! Arguments shared by several commands.

mod shared;

pub(crate) use shared::{HostArgs, JobArgs, JsonArgs, RunArgs, caller};
