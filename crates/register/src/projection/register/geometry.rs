//! Parameters of the view geometry beside those of a pose: source-to-detector distance and principal point.

use super::options::{NUMBERS, Refinement};
use super::search::Change;
use crate::error::{RegisterError, Result};
use crate::projection::objective::View;
use voxalign_image::{Vector3, XrayGeometry};
use voxalign_options::Choice;

/// The number of views needed to separate geometries from poses.
pub(super) const VIEWS: usize = 2;
/// The largest logarithm of a distance, and the largest shift, mm.
const MOST: [f64; 2] = [0.5, 1000.0];

/// A number of a geometry that was refined.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Refined {
    /// The value given, mm.
    pub given: f64,
    /// The refined value, mm.
    pub found: f64,
    /// The 95 % bound on its error, mm, as far as the images tell; infinite where they do not.
    pub within: f64,
}

/// The geometry of a view that was refined.
#[derive(Debug, Clone, PartialEq)]
pub struct RefinedView {
    /// All of it.
    pub geometry: XrayGeometry,
    /// The distance of the detector from the source, where it was refined.
    pub source_to_detector: Option<Refined>,
    /// The shift of the detector along its columns and rows from the given geometry, where that was refined.
    pub shift: Option<[Refined; 2]>,
}

/// How the geometry of a view changes with its numbers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    /// The extent of the body, mm.
    radius: f64,
    magnification: f64,
    /// The distance of the detector from the source, mm.
    distance: f64,
}

impl Frame {
    /// Of a view of a body that has its middle at a place in the room.
    pub(super) fn new(view: &XrayGeometry, middle: Vector3<f64>, radius: f64) -> Self {
        let magnification = view.magnification(middle).unwrap_or(1.0);
        Self { radius, magnification, distance: view.source_to_detector() }
    }

    /// A unit of each number, mm: of the distance, and of the shifts.
    pub(super) fn units(self) -> [f64; NUMBERS] {
        [self.distance / self.radius, self.magnification, self.magnification]
    }

    /// A geometry with its numbers changed; changes of one view add up.
    pub(super) fn changed(self, view: &XrayGeometry, by: [f64; NUMBERS]) -> Result<XrayGeometry> {
        let log = (by[0] / self.radius).clamp(-MOST[0], MOST[0]);
        let shift = [1, 2].map(|i| by[i].clamp(-MOST[1], MOST[1]) * self.magnification);
        let (column, row) = (view.column(), view.row());
        let away = view.normal() * (view.source_to_detector() * log.exp_m1());
        let along = column.normalize() * shift[0] + row.normalize() * shift[1];
        let origin = view.origin() + away + along;
        Ok(XrayGeometry::new(view.source(), origin, column, row, view.dims())?)
    }

    /// The position of the detector relative to the given view, mm.
    pub(super) fn change(self, given: &XrayGeometry, by: [f64; NUMBERS]) -> Change {
        let shift = [1, 2].map(|i| by[i] * self.magnification);
        Change { given: given.source_to_detector(), shift }
    }

    /// The refined geometry of a view, and the variances of its refined parameters.
    pub(super) fn refined(
        self,
        geometry: &XrayGeometry,
        change: Change,
        refine: Option<Refinement>,
        variance: [f64; NUMBERS],
    ) -> RefinedView {
        let within = |i: usize| 1.96 * variance[i].max(0.0).sqrt() * self.units()[i];
        let found = geometry.source_to_detector();
        let distance = Refined { given: change.given, found, within: within(0) };
        let shift =
            [0, 1].map(|i| Refined { given: 0.0, found: change.shift[i], within: within(1 + i) });
        let has = |what| refine == Some(what);
        RefinedView {
            geometry: *geometry,
            source_to_detector: has(Refinement::Distance).then_some(distance),
            shift: has(Refinement::PrincipalPoint).then_some(shift),
        }
    }
}

/// Refuses views that do not determine their geometries.
pub(super) fn check(refine: Option<Refinement>, views: &[View<'_>]) -> Result<()> {
    let Some(refine) = refine.filter(|_| views.len() < VIEWS) else { return Ok(()) };
    Err(RegisterError::option(
        "refine",
        refine.name(),
        "one view cannot separate its geometry from the depth and the position of the CT: give another view, or \
         leave this out",
    ))
}

/// The numbers of a view with one of them changed.
pub(super) fn one(number: usize, by: f64) -> [f64; NUMBERS] {
    let mut all = [0.0; NUMBERS];
    all[number] = by;
    all
}
