//! Profiles of the cost along each parameter of a pose.

use super::search::{Search, look};
use crate::error::Result;
use crate::search::Objective;
use crate::search::pose::{Freedom, Model, Pose};
use crate::search::stage::Stage;

/// The names of the six parameters: how the CT moves in the room along its axes, mm, and turns about them, radians.
pub const PARAMETERS: [&str; 6] = ["x", "y", "z", "rotation x", "rotation y", "rotation z"];

/// The cost along a parameter.
#[derive(Debug, Clone, PartialEq)]
pub struct Landscape {
    /// The offset of the CT in the room from the result: mm, or radians.
    pub offsets: Vec<f64>,
    /// The costs there.
    pub costs: Vec<f64>,
}

/// Points on either side.
const POINTS: i32 = 12;

/// The costs along the parameters of `model`, whose axes are those of the room, through a pose, up to this many mm
/// on either side.
pub(super) fn find<D: voxalign_compute::Device>(
    search: &mut Search<'_, '_, D>,
    objective: &dyn Objective,
    model: &Model,
    best: &Pose,
    reach: f64,
) -> Result<Vec<Landscape>> {
    let places: Vec<f64> =
        (-POINTS..=POINTS).map(|i| reach * f64::from(i) / f64::from(POINTS)).collect();
    (0..6)
        .map(|axis| {
            let pose = |&by: &f64| {
                let mut q = [0.0; 6];
                // What moves the points of the room moves the CT the other way.
                q[axis] = -by;
                model.moved(best, Freedom::Rigid, &q)
            };
            let poses: Vec<Pose> = places.iter().map(pose).collect();
            let mut stage = Stage::new(model, search.options.optimiser, search.progress);
            let found = look(&mut stage, objective, &poses)?;
            search.evaluations += poses.len();
            let unit = if axis < 3 { 1.0 } else { 1.0 / model.radius };
            Ok(Landscape {
                offsets: places.iter().map(|p| p * unit).collect(),
                costs: found.iter().map(|c| c.cost).collect(),
            })
        })
        .collect()
}
