//! 2D-3D registration: simulated X-ray images of a CT, and the pose of a CT from X-ray images (Tornai 2014,
//! chapter 2).
//!
//! The world of the X-ray images, the *room*, is the fixed one, that of the CT the moving one: a pose maps the room to the CT, as every
//! transform maps fixed to moving points, and its inverse says where in the room a point of the CT is.
//!
//! - [`Attenuation`] makes linear attenuation coefficients of Hounsfield units, for a photon energy.
//! - [`ray_view`] brings the [geometry](voxalign_image::XrayGeometry) of an image and a pose to rays through the voxels of the CT.
//! - A [`Simulator`] makes images of a volume; those of a [`phantom`] of ellipsoids are known exactly.
//! - [`XraySimilarity`]: how alike a simulated image and an X-ray image are, with the derivative in every pixel.
//! - [`XrayObjective`]: the cost of poses by any number of views, for every optimiser of [`search`](mod@crate::search).
//! - [`register_pose`] finds the pose of a CT by X-ray images, a [`PreparedCt`] any number of them.
//! - [`pose_by_points`] finds it by points that are seen in images.
//! - A [`Tracker`] follows a CT over a sequence of them.

pub mod attenuation;
mod middle;
mod numbers;
pub mod objective;
pub mod phantom;
mod points;
pub mod register;
mod rotations;
mod scale;
pub mod similarity;
pub mod simulator;
pub mod view;

pub use attenuation::Attenuation;
pub use middle::in_the_middle;
pub use numbers::{motion_of, pose_of};
pub use objective::{View, XrayObjective};
pub use points::{PointPose, SeenPoint, pose_by_points};
pub use register::{
    PoseInput, PoseOptions, PoseResult, PoseSearch, PreparedCt, TrackOptions, Tracker,
    register_pose,
};
pub use similarity::XraySimilarity;
pub use simulator::Simulator;
pub use view::{ray_view, to_map};
