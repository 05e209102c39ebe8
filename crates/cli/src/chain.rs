//! Chains of transforms from the command line.

use crate::args::TransformArg;
use crate::device;
use crate::failure::Failure;
use crate::interrupt;
use crate::output;
use crate::progress::{Printer, Talk};
use std::path::{Path, PathBuf};
use voxalign_image::{Affine, Grid, Transform};
use voxalign_io::IoError;
use voxalign_io::image::Format;
use voxalign_io::transform::{self, Geometry, TransformFormat};
use voxalign_jobs::files::{self, Grids};
use voxalign_register::carry::{PointMap, Step};
use voxalign_register::fields::{self, Exactness};

/// A chain as it was given: a fixed point goes through the first link, then the next.
///
/// Inverses of displacement fields are made only where something is carried through them.
#[derive(Debug)]
pub(crate) struct Chain {
    links: Vec<Link>,
}

/// One transform of a chain.
#[derive(Debug)]
struct Link {
    path: PathBuf,
    /// What the file holds.
    transform: Transform,
    /// Whether its inverse is meant.
    inverse: bool,
    /// The inverse of a field that was given as a file.
    known: Option<Transform>,
}

impl Chain {
    /// Reads a chain. A matrix of FSL is relative to two images. They are those `given`; where the
    /// chain is a single transform, `usual` stands in for what is not given.
    pub(crate) fn load(
        chain: &[TransformArg],
        given: &Grids,
        usual: &Grids,
    ) -> Result<Self, Failure> {
        let mut links = Vec::with_capacity(chain.len());
        let mut relative = Vec::new();
        for link in chain {
            interrupt::check()?;
            if is_relative(&link.path) {
                relative.push(link);
            }
            if relative.len() > 1 {
                return Err(Failure::input(format!(
                    "'{}' and '{}' are both relative to their images, which may differ: convert \
                     them first, for example with `voxalign convert A.mat A.tfm --fixed-geometry \
                     IMAGE --moving-geometry IMAGE`",
                    relative[0].path.display(),
                    link.path.display()
                )));
            }
            let grids = if chain.len() == 1 {
                // The file of an inverse goes the other way than the chain.
                let (fixed, moving) = if link.inverse {
                    (&usual.moving, &usual.fixed)
                } else {
                    (&usual.fixed, &usual.moving)
                };
                Grids {
                    fixed: given.fixed.clone().or_else(|| fixed.clone()),
                    moving: given.moving.clone().or_else(|| moving.clone()),
                }
            } else {
                given.clone()
            };
            let images = [usual.fixed.as_ref(), usual.moving.as_ref()];
            let transform = files::transform_for(
                &link.path,
                &grids.geometry(),
                &images,
                &Printer::lines(Talk::Normal),
            )?;
            let transform = transform.simplified();
            warn_of_collapse(&transform, &link.path);
            let (path, inverse) = (link.path.clone(), link.inverse);
            links.push(Link { path, transform, inverse, known: None });
        }
        Ok(Self { links })
    }

    /// Takes a file for the inverse of the chain's displacement field; `backwards` says whether the
    /// chain will be used from its end to its start.
    pub(crate) fn know_inverse(&mut self, path: &Path, backwards: bool) -> Result<(), Failure> {
        let wanted = |l: &&mut Link| l.inverse != backwards && is_field(&l.transform);
        let mut fields = self.links.iter_mut().filter(wanted);
        let (Some(link), None) = (fields.next(), fields.next()) else {
            return Err(Failure::input(format!(
                "--inverse-warp '{}': it replaces the inverse of one displacement field, but the \
                 chain does not have exactly one to invert; leave it out, or give the file with -t",
                path.display()
            )));
        };
        let known = files::transform(path, &Geometry::default(), &Printer::lines(Talk::Normal))?;
        if !is_field(&known) {
            return Err(Failure::input(format!(
                "--inverse-warp: '{}' is not a displacement field",
                path.display()
            )));
        }
        link.known = Some(known);
        Ok(())
    }

    /// The chain as one transform; fields are inverted on their own grid where that is needed.
    pub(crate) fn into_transform(self, talk: Talk) -> Result<Transform, Failure> {
        let parts = self
            .links
            .into_iter()
            .map(|l| if l.inverse { l.inverted(talk) } else { Ok(l.transform) });
        let parts = parts.collect::<Result<Vec<_>, _>>()?;
        Ok(Transform::Composite(parts).simplified())
    }

    /// What carries points from the fixed to the moving image, or `backwards`.
    pub(crate) fn into_point_map(self, backwards: bool) -> Result<PointMap, Failure> {
        let mut steps = Vec::with_capacity(self.links.len());
        for link in self.links {
            steps.push(match (link.inverse != backwards, link.known) {
                (false, _) => Step::Forward(link.transform),
                (true, Some(known)) => Step::Forward(known),
                (true, None) => match link.transform.to_affine() {
                    Ok(affine) => Step::Forward(Transform::Affine(inverse(&affine, &link.path)?)),
                    Err(_) => Step::Backward(link.transform),
                },
            });
        }
        if backwards {
            steps.reverse();
        }
        Ok(PointMap::new(steps))
    }
}

impl Link {
    fn inverted(self, talk: Talk) -> Result<Transform, Failure> {
        if let Some(known) = self.known {
            return Ok(known);
        }
        inverted(&self.transform, &self.path, talk).map(|(inverse, _)| inverse)
    }
}

/// The inverse of a transform, and how exact that of each of its fields is; where fields fold is
/// told.
///
/// # Errors
/// A linear part without inverse; a field without inverse at more than one voxel in a thousand.
pub(crate) fn inverted(
    transform: &Transform,
    path: &Path,
    talk: Talk,
) -> Result<(Transform, Vec<Exactness>), Failure> {
    interrupt::check()?;
    let parts = match transform {
        Transform::Composite(parts) => &parts[..],
        one => std::slice::from_ref(one),
    };
    for affine in parts.iter().filter_map(|part| part.to_affine().ok()) {
        inverse(&affine, path)?;
    }
    let cpu = device::host()?;
    let (inverse, exactness) = fields::inverse_of(&cpu, transform)
        .map_err(|e| Failure::from(e).at(format!("'{}'", path.display())))?;
    for Exactness { round_trip, far, voxels, .. } in &exactness {
        let lost = round_trip.unconverged;
        if talk > Talk::Quiet && lost > 0 {
            output::warning(&format!(
                "'{}': mapped through the field and back, {lost} of {voxels} voxels end more than \
                 {far:.3} mm from where they were, up to {:.3} mm: the field folds there; see \
                 `voxalign info`",
                path.display(),
                round_trip.largest
            ));
        }
    }
    Ok((inverse, exactness))
}

/// The largest ratio of the lengths along the directions that a transform keeps longest and shortest
/// for which its inverse means something: files keep some seven digits.
const FLATTEST: f64 = 1e6;

/// Why a transform of points has no inverse that means something.
pub(crate) fn collapse(affine: &Affine) -> Option<String> {
    let lengths = affine.matrix.svd(false, false).singular_values;
    let (shortest, longest) = (lengths.min(), lengths.max());
    if shortest * FLATTEST > longest {
        return None;
    }
    Some(format!(
        "the matrix is singular: it shrinks lengths to {shortest:.3e} of themselves along one direction \
         and to {longest:.3e} along another, so that it has no inverse"
    ))
}

/// Says so where a transform of a chain squeezes space flat.
fn warn_of_collapse(transform: &Transform, path: &Path) {
    if let Some(what) = transform.to_affine().ok().as_ref().and_then(collapse) {
        output::warning(&format!(
            "'{}': {what}; check that it is the transform that was meant",
            path.display()
        ));
    }
}

fn inverse(affine: &Affine, path: &Path) -> Result<Affine, Failure> {
    if let Some(what) = collapse(affine) {
        let remedy = "check that it is the transform that was meant";
        return Err(Failure::input(format!("'{}': {what}; {remedy}", path.display())));
    }
    affine.inverse().map_err(|e| Failure::input(format!("'{}': {e}", path.display())))
}

/// The grid of the first displacement field of a transform.
pub(crate) fn own_grid(transform: &Transform) -> Option<&Grid> {
    match transform {
        Transform::Displacement(d) => Some(d.field().grid()),
        Transform::Composite(parts) => parts.iter().find_map(own_grid),
        _ => None,
    }
}

/// Whether a transform holds a displacement field.
fn is_field(transform: &Transform) -> bool {
    transform.to_affine().is_err()
}

/// Whether a transform file cannot be read without the images it is between. Fields, and files that
/// hold them, are large and told by their names.
fn is_relative(path: &Path) -> bool {
    let none = Geometry::default();
    Format::from_path(path).is_err()
        && !matches!(TransformFormat::from_path(path), Ok(TransformFormat::ItkHdf5))
        && matches!(transform::read(path, &none), Err(IoError::GeometryNeeded { .. }))
}
