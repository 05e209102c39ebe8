//! The options that several commands share: one option has one name and one meaning.

mod shared;

pub(crate) use shared::{HostArgs, JobArgs, JsonArgs, RunArgs, caller};
