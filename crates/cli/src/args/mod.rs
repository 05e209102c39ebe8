//! The options that several commands share: one option has one name and one meaning.

mod choice;
mod products;
mod shared;
mod values;

pub(crate) use choice::{choice, choice_of};
pub(crate) use products::{Product, Products, of_affine, of_deform};
pub(crate) use shared::{
    GeometryArgs, HostArgs, JsonArgs, MethodArgs, OutputArgs, PointConventionName, RunArgs,
    WhichArgs, of_maps,
};
pub(crate) use values::{InitChoice, Interpolation, Outside, TransformArg, number};
