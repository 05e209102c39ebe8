//! Conversion of operator arguments to those of the chosen backend.

use super::{AnyBuffer, AnyRayVolume, AnySamples, Backend};
use crate::device::Element;
use crate::error::Result;

/// The arguments of an operator of an [`AnyDevice`](crate::select::AnyDevice), converted for its backend.
/// Structures of buffers implement it by `#[forwarded]`.
pub(crate) trait Behind<B: Backend> {
    /// The backend's argument, or a guard that lends it.
    type Own;

    /// # Errors
    /// What another backend made.
    fn behind(self) -> Result<Self::Own>;
}

impl<'a, B: Backend, T: Element> Behind<B> for &'a AnyBuffer<T> {
    type Own = &'a B::Buffer<T>;

    fn behind(self) -> Result<Self::Own> {
        B::of(self)
    }
}

impl<'a, B: Backend, T: Element> Behind<B> for &'a mut AnyBuffer<T> {
    type Own = &'a mut B::Buffer<T>;

    fn behind(self) -> Result<Self::Own> {
        B::of_mut(self)
    }
}

impl<'a, B: Backend> Behind<B> for &'a AnySamples {
    type Own = &'a B::Samples;

    fn behind(self) -> Result<Self::Own> {
        B::samples(self)
    }
}

impl<'a, B: Backend> Behind<B> for &'a AnyRayVolume {
    type Own = &'a B::RayVolume;

    fn behind(self) -> Result<Self::Own> {
        B::ray_volume_of(self)
    }
}

/// A structure that is lent.
impl<B: Backend, A: Behind<B> + Copy> Behind<B> for &A {
    type Own = A::Own;

    fn behind(self) -> Result<Self::Own> {
        (*self).behind()
    }
}

impl<B: Backend, A: Behind<B>> Behind<B> for Option<A> {
    type Own = Option<A::Own>;

    fn behind(self) -> Result<Self::Own> {
        self.map(A::behind).transpose()
    }
}

impl<B: Backend, A: Behind<B> + Copy> Behind<B> for &[A] {
    type Own = Vec<A::Own>;

    fn behind(self) -> Result<Self::Own> {
        self.iter().map(|&one| one.behind()).collect()
    }
}

impl<'a, B: Backend, T: Element> Behind<B> for &'a mut [&mut AnyBuffer<T>] {
    type Own = Vec<&'a mut B::Buffer<T>>;

    fn behind(self) -> Result<Self::Own> {
        self.iter_mut().map(|buffer| B::of_mut(buffer)).collect()
    }
}
