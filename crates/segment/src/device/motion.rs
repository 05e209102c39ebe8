//! Forces as devices take them: the one place where every kind of force becomes one.

use std::borrow::Cow;

use voxalign_compute::ops::front as device;
use voxalign_image::memory;

use crate::error::Result;
use crate::force::{ChanVese, EdgeStop, Edges, GeodesicRegions, MeanCurvature, Object, Speed};

/// A force F = f - w κ + v · n whose terms devices know: f of each point, a constant w, or with edges b that constant times b and v = -w ∇b.
#[derive(Debug, Clone, PartialEq)]
pub struct Motion<'a> {
    /// f, the speed outwards that depends on neither the curvature nor the normal.
    pub speed: Speeds<'a>,
    /// The constant w.
    pub curvature: f64,
    /// b, one value a point.
    pub edges: Option<Cow<'a, [f32]>>,
}

/// The speed of a [`Motion`].
#[derive(Debug, Clone, PartialEq)]
pub enum Speeds<'a> {
    /// 0.
    None,
    /// One value a point.
    Field {
        /// The values.
        values: Cow<'a, [f32]>,
        /// Whether minus their sum inside is what the force lowers.
        lowers: bool,
    },
    /// That of two regions of one intensity each.
    TwoMeans(Intensities<'a>),
}

/// Two regions of one intensity each, as [`ChanVese`] has them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Intensities<'a> {
    /// One value a point.
    pub image: &'a [f32],
    /// λ₁ and λ₂.
    pub weights: [f64; 2],
    /// The means inside and outside, where they do not change.
    pub fixed: Option<[f64; 2]>,
    /// Which region is inside.
    pub object: Object,
}

impl Motion<'_> {
    /// The values that the speed is from.
    pub(super) fn values(&self) -> Option<&[f32]> {
        match &self.speed {
            Speeds::None => None,
            Speeds::Field { values, .. } => Some(values),
            Speeds::TwoMeans(of) => Some(of.image),
        }
    }
}

/// A force that devices know.
pub trait Movement {
    /// The force as devices take it.
    ///
    /// # Errors
    /// [`SegmentError::OutOfMemory`](crate::SegmentError::OutOfMemory).
    fn motion(&self) -> Result<Motion<'_>>;
}

impl Movement for MeanCurvature {
    fn motion(&self) -> Result<Motion<'_>> {
        Ok(Motion { speed: Speeds::None, curvature: 1.0, edges: None })
    }
}

impl Movement for Speed<'_> {
    fn motion(&self) -> Result<Motion<'_>> {
        let speed = Speeds::Field { values: Cow::Borrowed(self.values()), lowers: true };
        Ok(Motion { speed, curvature: self.curvature(), edges: None })
    }
}

impl Movement for ChanVese<'_> {
    fn motion(&self) -> Result<Motion<'_>> {
        let (speed, curvature) = (Speeds::TwoMeans(self.intensities()), self.curvature());
        Ok(Motion { speed, curvature, edges: None })
    }
}

/// b of edges, in single precision.
fn edges_of(stop: &EdgeStop) -> Result<Cow<'static, [f32]>> {
    Ok(Cow::Owned(memory::collected((0..stop.len()).map(|p| stop.value(p) as f32))?))
}

/// A speed of so many points.
fn field(points: usize, value: impl Fn(usize) -> f64, lowers: bool) -> Result<Speeds<'static>> {
    let values = memory::collected((0..points).map(|p| value(p) as f32))?;
    Ok(Speeds::Field { values: Cow::Owned(values), lowers })
}

impl Movement for Edges {
    fn motion(&self) -> Result<Motion<'_>> {
        let stop = self.stop();
        let speed = field(stop.len(), |p| self.pressure() * stop.value(p), false)?;
        Ok(Motion { speed, curvature: 1.0, edges: Some(edges_of(stop)?) })
    }
}

impl Movement for GeodesicRegions {
    fn motion(&self) -> Result<Motion<'_>> {
        let (stop, ratios, balance) = (self.stop(), self.ratios(), self.balance());
        let speed = field(ratios.len(), |p| balance * ratios[p], true)?;
        // Intensities alone have no use for edges.
        let edges = if balance < 1.0 { Some(edges_of(stop)?) } else { None };
        Ok(Motion { speed, curvature: 1.0 - balance, edges })
    }
}

impl From<Object> for device::Object {
    fn from(object: Object) -> Self {
        match object {
            Object::AsStarted => Self::AsStarted,
            Object::Brighter => Self::Brighter,
            Object::Darker => Self::Darker,
        }
    }
}
