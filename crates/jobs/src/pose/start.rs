//! Where the search for a pose starts.

use crate::error::{Error, Result};
use crate::listener::Listener;
use crate::options::as_text;
use crate::projection::{Numbers, in_room, read_pose};
use crate::run::{Input, Role};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use voxalign_image::{Affine, Grid, Vector3};

/// Where the search starts, and the centre of rotations.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Start"))]
#[serde(default)]
pub struct StartOptions {
    /// Where the search starts: a rigid transform file from the room to the world of the CT, as `voxalign pose` writes it
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE"))]
    pub init: Option<PathBuf>,
    /// Where the search starts: the CT turned in the room about x, y and z, in that order, through `centre`, degrees, as
    /// `voxalign drr --rotation` has it [default: 0,0,0]
    #[cfg_attr(feature = "clap", arg(long, value_name = "X,Y,Z", allow_hyphen_values = true))]
    #[serde(with = "as_text")]
    pub init_rotation: Option<Numbers<3>>,
    /// Where the search starts: the CT moved in the room, after it was turned, RAS mm [default: 0,0,0]
    #[cfg_attr(feature = "clap", arg(long, value_name = "X,Y,Z", allow_hyphen_values = true))]
    #[serde(with = "as_text")]
    pub init_translation: Option<Numbers<3>>,
    /// The point of the CT about which rotations are counted, in its own world, RAS mm [default: the middle of its grid]
    #[cfg_attr(feature = "clap", arg(long, value_name = "X,Y,Z", allow_hyphen_values = true))]
    #[serde(with = "as_text")]
    pub centre: Option<Numbers<3>>,
}

impl StartOptions {
    /// Refuses what says different things.
    pub(super) fn check(&self) -> Result<()> {
        let numbers = self.init_rotation.is_some() || self.init_translation.is_some();
        if self.init.is_some() && numbers {
            return Err(Error::input(
                "`init`, and `init_rotation` and `init_translation`, say different things about where the search \
                 starts; give one of them",
            ));
        }
        Ok(())
    }

    /// The files that are read.
    pub(super) fn files(&self) -> impl Iterator<Item = Input<'_>> {
        Input::those_given(&[(Role::Init, &self.init)]).collect::<Vec<_>>().into_iter()
    }

    /// The centre of rotations of a CT.
    pub(super) fn centre(&self, ct: &Grid) -> Vector3<f64> {
        self.centre.map_or_else(|| ct.centre(), |p| Vector3::from(p.0))
    }

    /// Where the search for the pose of a CT starts.
    pub(super) fn read(&self, ct: &Grid, listener: &dyn Listener) -> Result<Affine> {
        if let Some(path) = &self.init {
            return read_pose(path, ct, listener);
        }
        let numbers = |n: Option<Numbers<3>>| n.map_or([0.0; 3], |n| n.0);
        match (self.init_rotation, self.init_translation) {
            (None, None) => Ok(Affine::identity()),
            (turn, shift) => in_room(self.centre(ct), numbers(turn), numbers(shift)),
        }
    }
}
