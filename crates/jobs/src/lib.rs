//! Whole tasks, from images or files to a judged and recorded result.
//!
//! | job | what it makes |
//! |---|---|
//! | [`affine`] | a rigid, similarity or affine transform between two images |
//! | [`deform`] | a deformation between two images, after an affine part, and its inverse |
//! | [`elastic`] | the same by an elastic body that the images move, with its strain |
//! | [`anatomy`] | the same of tissue probabilities, images, surfaces, curves and points together |
//! | [`atlas`] | the unbiased mean of many images, along a covariate, and how many it needs |
//! | [`stack`] | the mean, extremes, variance or product of many images, or one image of each |
//! | [`drr`] | X-ray images of a CT, simulated |
//! | [`pose`] | the rigid pose of a CT by X-ray images of it |
//! | [`segment`] | regions of an image, by fronts that move: level sets |
//! | [`surface`] | the surface of labels or of an image at a level |
//! | [`apply`] | an image, a label map, points or a mesh, carried through transforms |
//! | [`invert`], [`compose`] | the inverse of a transform, several transforms as one |
//! | [`compare`] | scores of how well two images, label maps, point lists, meshes or transforms agree |
//! | [`convert`] | the same content in another format |
//! | [`info`] | what a file holds, and what is odd about it |
//! | [`demo`] | a pair of brains to try it with |
//!
//! A job is a value with all its options and has one shape, [`Job`]. [`options::from_toml`] and [`options::from_json`] read it as well:
//! an option has one name in files, in records and here. Those from `apply` to `info` have no verdict and no folder of results: a `run` of
//! their own gives what they found as data. A job is checked before a device is started; what would be ignored is refused. It runs on
//! a [`machine::Machine`], tells a [`Listener`] what it does, and stops when that asks for it. What it gives back is the record
//! that it also writes, with its verdict; nothing is printed. Work of the host that is not the device's, such as packing files, runs in the thread pool that the job is
//! called in: rayon's global one, or one that the caller installs.
//!
//! In messages and remedies the names of options stand in backticks, such as `` `search_angles` `` or
//! `` `model = lddmm` ``; a program that has other words for them gives a [`Caller`] that knows how to say them.

pub mod about;
pub mod affine;
pub mod anatomy;
pub mod apply;
pub mod atlas;
mod background;
pub mod beside;
pub mod bids;
mod blocks;
pub mod carry;
pub mod chain;
pub mod compare;
pub mod compose;
pub mod convert;
pub mod deform;
pub mod demo;
pub mod drr;
pub mod elastic;
mod error;
pub mod files;
pub mod info;
pub mod invert;
pub mod invoked;
mod job;
pub mod list;
mod listener;
pub mod machine;
pub mod options;
pub mod pair;
pub mod place;
mod plan;
pub mod pose;
pub mod projection;
mod remedy;
pub mod results;
mod role;
mod run;
pub mod segment;
pub mod stack;
mod staged;
pub mod surface;
pub mod team;

pub use error::{Error, Result};
pub use job::{Job, OfPair};
pub use listener::{Level, Listener, check};
pub use plan::{Plan, Reads};
pub use run::{Caller, Done, Read};
pub use voxalign_register::Silent;
