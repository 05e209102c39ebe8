//! X-ray images and volumes.
//!
//! An X-ray image shows integrals of attenuation along rays: those of a volume are made by
//! [`Raycast`](voxalign_compute::ops::Raycast), those of a [phantom] are known exactly.

pub mod phantom;
