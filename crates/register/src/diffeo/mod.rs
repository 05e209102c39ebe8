//! Diffeomorphic registration: deformations that can be undone, and are found by flowing along
//! velocities (Ha 2011, sections 1.3 and 2.2).

pub mod calibrate;
pub mod channel;
pub mod clip;
pub mod greedy;
pub mod lddmm;
pub mod measures;
pub mod mend;
pub mod multiscale;
pub mod options;
pub mod register;
pub mod result;
pub mod side;
pub mod solver;
pub mod symmetric;
mod verdict;

pub use options::{
    ChannelInput, DeformInput, DeformModel, DeformOptions, DeformSimilarity, StepRule,
};
pub use register::register_deformable;
pub use result::DeformResult;
