//! The start of a search.

use super::moments::Moments;
use super::options::Init;
use crate::error::Result;
use crate::fit::{MapKind, Plane, PointFit, PointPairs, fit_points};
use crate::search::pose::Freedom;
use voxalign_image::{Affine, Grid, Matrix3, Vector3};
use voxalign_options::{Text, text};

/// A description of a start.
pub(super) fn describe(init: &Init) -> String {
    match init {
        Init::Header => "the headers as they are",
        Init::Centre => "image centres aligned",
        Init::Moments => "centres of mass aligned",
        Init::Identity => "voxel grids aligned",
        Init::Given(_) => "the given transform",
        Init::Landmarks(_) => "the landmarks laid on each other",
    }
    .to_owned()
}

/// A right-handed orthonormal frame whose first two axes span a slice.
pub(super) fn slice_frame(grid: &Grid) -> Matrix3<f64> {
    let axes = grid.direction();
    let x = axes.column(0).into_owned();
    let y = axes.column(1).into_owned();
    let y = (y - x * x.dot(&y)).normalize();
    Matrix3::from_columns(&[x, y, x.cross(&y)])
}

/// The map that lays landmarks on each other, of the freedom that is asked for.
pub(super) fn fit(
    pairs: &PointPairs,
    fixed: &Grid,
    moving: &Grid,
    freedom: Freedom,
) -> Result<PointFit> {
    let asked = match freedom {
        Freedom::Translation | Freedom::TranslationScale => MapKind::Translation,
        Freedom::Rigid => MapKind::Rigid,
        Freedom::Similarity => MapKind::Similarity,
        Freedom::Scales => MapKind::Scales,
        Freedom::Affine => MapKind::Affine,
    };
    let plane = |grid: &Grid| Plane { frame: slice_frame(grid), origin: grid.centre() };
    fit_points(pairs, asked, fixed.is_2d().then(|| [plane(fixed), plane(moving)]))
}

/// Remarks on the landmarks that a search started from.
pub(super) fn remarks_on(fit: &PointFit, freedom: Freedom, count: usize) -> Vec<Text> {
    let mut remarks = Vec::new();
    let started = fit.kind.words();
    let doubts = fit.doubts();
    if fit.mirrored {
        let words = doubts.clone().unwrap_or_default();
        remarks.push(text!("{words}; the search started from {started}"));
    } else {
        let lie = match (fit.kind, freedom) {
            (MapKind::Translation, _) => "coincide",
            (MapKind::Line, _) => "are collinear, or nearly so",
            (MapKind::Rigid, Freedom::Similarity | Freedom::Scales | Freedom::Affine)
            | (MapKind::Similarity, Freedom::Scales | Freedom::Affine) => {
                "are too few for more, or coplanar or collinear, or nearly so"
            }
            _ => "",
        };
        if !lie.is_empty() {
            remarks.push(text!("the {count} landmarks {lie}: the search started from {started}"));
        }
    }
    remarks.extend(doubts.filter(|_| !fit.mirrored).map(Text::from));
    remarks
}

/// The start transform, fixed world to moving world, for a search of some freedom.
pub(super) fn start(
    init: &Init,
    fixed: &Grid,
    moving: &Grid,
    [fixed_moments, moving_moments]: &[Moments; 2],
    freedom: Freedom,
) -> Result<Affine> {
    let plane = if fixed.is_2d() { plane_to_plane(fixed, moving) } else { Matrix3::identity() };
    Ok(match init {
        Init::Given(a) => {
            a.inverse()?;
            *a
        }
        Init::Landmarks(pairs) => fit(pairs, fixed, moving, freedom)?.map,
        Init::Header => {
            let t = Affine::about(plane, fixed.centre(), Vector3::zeros());
            if fixed.is_2d() {
                // Only what lies in the plane is the header's: the slices are laid on each other.
                let normal = slice_frame(moving).column(2).into_owned();
                let off = (moving.centre() - t.apply(fixed.centre())).dot(&normal);
                Affine::new(t.matrix, t.offset + normal * off)
            } else {
                t
            }
        }
        Init::Centre => Affine::about(plane, fixed.centre(), moving.centre() - fixed.centre()),
        Init::Moments => {
            let shift = moving_moments.centre - fixed_moments.centre;
            Affine::about(plane, fixed_moments.centre, shift)
        }
        Init::Identity => grids_laid(fixed, moving),
    })
}

/// The smallest rotation that lays the plane of a flat fixed image onto that of the moving one.
fn plane_to_plane(fixed: &Grid, moving: &Grid) -> Matrix3<f64> {
    let a = slice_frame(fixed).column(2).into_owned();
    let mut b = slice_frame(moving).column(2).into_owned();
    if a.dot(&b) < 0.0 {
        b = -b;
    }
    nalgebra::Rotation3::rotation_between(&a, &b).map_or_else(Matrix3::identity, |r| *r.matrix())
}

/// The headers' orientations and origins ignored: first voxel on first voxel and axis on axis, in
/// mm. Where one grid is left-handed and the other is not, the fixed x axis is read backwards, so
/// that nothing is mirrored.
fn grids_laid(fixed: &Grid, moving: &Grid) -> Affine {
    let mut axes = fixed.direction();
    let mut origin = fixed.origin();
    if fixed.is_right_handed() != moving.is_right_handed() {
        let length = fixed.spacing()[0] * (fixed.dims()[0] as f64 - 1.0);
        origin += axes.column(0) * length;
        axes.column_mut(0).neg_mut();
    }
    let inverse = axes.try_inverse().unwrap_or_else(Matrix3::identity);
    let matrix = moving.direction() * inverse;
    Affine::new(matrix, moving.origin() - matrix * origin)
}
