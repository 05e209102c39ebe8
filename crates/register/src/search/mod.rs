//! Search over few parameters: an [objective](Objective) evaluates the costs of many maps at once, a transform
//! model converts their derivatives to its own parameters, and an [optimiser](mod@optimiser) proposes points
//! and is told their costs.
//!
//! What is compared (images at a scale, X-rays, images spread over machines) and how the minimum is found
//! know nothing of each other.

pub mod distributed;
pub mod objective;
pub mod optimiser;
pub(crate) mod pose;
pub(crate) mod refine;
pub mod stage;

pub use objective::{Evaluation, Objective};
pub use optimiser::{Optimiser, OptimiserKind, Steps};
pub use stage::{StageRecord, TracePoint};
