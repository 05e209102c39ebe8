//! Chains of transforms, from files or in memory, composed or applied to points.
//!
//! ```
//! use voxalign_compute::cpu::Cpu;
//! use voxalign_image::{Affine, Transform, Vector3};
//! use voxalign_jobs::{Silent, chain::Chain};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let shift = |x| Transform::Affine(Affine::translation(Vector3::new(x, 0.0, 0.0)));
//! let mut chain = Chain::default();
//! chain.push("first", shift(5.0), false);
//! chain.push("second", shift(2.0), true);
//! let whole = chain.into_transform(&Cpu::new(Some(1))?, &Silent)?;
//! assert_eq!(whole.apply(Vector3::zeros()), Vector3::new(3.0, 0.0, 0.0));
//! # Ok(())
//! # }
//! ```

use crate::error::{Error, Result};
use crate::files::{self, Grids};
use crate::listener::{Level, Listener, check};
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use voxalign_compute::Device;
use voxalign_image::{Affine, Grid, Transform};
use voxalign_io::IoError;
use voxalign_io::image::Format;
use voxalign_io::transform::{self, Geometry, TransformFormat};
use voxalign_options::text;
use voxalign_register::carry::{PointMap, Step};
use voxalign_register::fields::{self, Exactness};

/// A transform file of a chain, or the inverse of one. As text it is `FILE` or `inverse:FILE`; ANTs' `[FILE,0]` and
/// `[FILE,1]` are read as well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Link {
    /// The file.
    pub path: PathBuf,
    /// Whether the inverse of its transform is meant.
    pub inverse: bool,
}

impl FromStr for Link {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (path, inverse) = if let Some(path) = text.strip_prefix("inverse:") {
            (path, true)
        } else if let Some(inner) = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
            match inner.rsplit_once(',').map(|(p, flag)| (p.trim(), flag.trim())) {
                Some((path, "1")) => (path, true),
                Some((path, "0")) => (path, false),
                _ => return Err("use FILE, inverse:FILE or [FILE,1]".into()),
            }
        } else {
            (text, false)
        };
        if path.is_empty() {
            return Err("the file name is missing".into());
        }
        Ok(Self { path: path.into(), inverse })
    }
}

impl Display for Link {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        if self.inverse { write!(f, "inverse:{path}") } else { path.fmt(f) }
    }
}

impl TryFrom<String> for Link {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Link> for String {
    fn from(link: Link) -> Self {
        link.to_string()
    }
}

/// Transforms one after the other: a fixed point goes through the first one, then the next. Each may be meant inversely.
///
/// Displacement fields are inverted only where a whole transform is made of the chain; points go through their exact
/// inverse.
#[derive(Debug, Default)]
pub struct Chain {
    parts: Vec<Part>,
}

/// One transform of a chain.
#[derive(Debug)]
struct Part {
    /// What messages call it: the path of its file.
    name: String,
    transform: Transform,
    /// Whether its inverse is meant.
    inverse: bool,
    /// The inverse of a field that was given as a file.
    known: Option<Transform>,
}

impl Chain {
    /// Adds a transform at the end, or its inverse; messages call it by the name.
    pub fn push(&mut self, name: impl Into<String>, transform: Transform, inverse: bool) {
        let (name, transform) = (name.into(), transform.simplified());
        self.parts.push(Part { name, transform, inverse, known: None });
    }

    /// Reads a chain. A matrix of FSL is relative to two images. They are those `given`; where the
    /// chain is a single transform, `usual` stands in for what is not given. A transform that squeezes space flat becomes
    /// a warning.
    ///
    /// # Errors
    /// What is wrong with a file; several files that are relative to their images.
    pub fn load(
        links: &[Link],
        given: &Grids,
        usual: &Grids,
        listener: &dyn Listener,
    ) -> Result<Self> {
        let mut chain = Self::default();
        let mut relative = Vec::new();
        for link in links {
            check(listener)?;
            if is_relative(&link.path) {
                relative.push(link);
            }
            if let [first, second] = relative[..] {
                return Err(Error::input(text!(
                    "'{}' and '{}' are both relative to their images, which may differ: convert \
                     them first, for example with `voxalign convert A.mat A.tfm --fixed-geometry \
                     IMAGE --moving-geometry IMAGE`",
                    first.path.display(),
                    second.path.display()
                )));
            }
            let grids = if links.len() == 1 {
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
            let transform = files::transform_for(&link.path, &grids.geometry(), &images, listener)?;
            let transform = transform.simplified();
            let name = link.path.display().to_string();
            if let Some(what) = transform.to_affine().ok().as_ref().and_then(collapse) {
                let warning = format!("'{name}': {what}; {CHECK}");
                listener.say(Level::Warning, warning);
            }
            chain.push(name, transform, link.inverse);
        }
        Ok(chain)
    }

    /// Takes a file for the inverse of the chain's displacement field; `backwards` says whether the
    /// chain will be used from its end to its start.
    ///
    /// # Errors
    /// What is wrong with the file; one that is no field; a chain that has not exactly one field to invert.
    pub fn know_inverse(
        &mut self,
        path: &Path,
        backwards: bool,
        listener: &dyn Listener,
    ) -> Result<()> {
        let wanted = |p: &&mut Part| p.inverse != backwards && is_field(&p.transform);
        let mut fields = self.parts.iter_mut().filter(wanted);
        let (Some(part), None) = (fields.next(), fields.next()) else {
            return Err(Error::input(text!(
                "`inverse_warp` '{}': it replaces the inverse of one displacement field, but the \
                 chain does not have exactly one to invert; leave it out, or give the file with `transform`",
                path.display()
            )));
        };
        let known = files::transform(path, &Geometry::default(), listener)?;
        if !is_field(&known) {
            return Err(Error::input(text!(
                "`inverse_warp`: '{}' is not a displacement field",
                path.display()
            )));
        }
        part.known = Some(known);
        Ok(())
    }

    /// The chain as one transform; fields are inverted on their own grid where that is needed, and where they fold
    /// becomes a warning.
    ///
    /// # Errors
    /// As of [`inverted`].
    pub fn into_transform<D: Device>(
        self,
        device: &D,
        listener: &dyn Listener,
    ) -> Result<Transform> {
        let of = |part: Part| match (part.inverse, part.known) {
            (false, _) => Ok(part.transform),
            (true, Some(known)) => Ok(known),
            (true, None) => {
                inverted(device, &part.transform, &part.name, listener).map(|(inverse, _)| inverse)
            }
        };
        let parts = self.parts.into_iter().map(of).collect::<Result<Vec<_>>>()?;
        Ok(Transform::Composite(parts).simplified())
    }

    /// What carries points from the fixed to the moving image, or `backwards`.
    ///
    /// # Errors
    /// A linear part without inverse where that is needed.
    pub fn into_point_map(self, backwards: bool) -> Result<PointMap> {
        let mut steps = Vec::with_capacity(self.parts.len());
        for part in self.parts {
            steps.push(match (part.inverse != backwards, part.known) {
                (false, _) => Step::Forward(part.transform),
                (true, Some(known)) => Step::Forward(known),
                (true, None) => match part.transform.to_affine() {
                    Ok(affine) => Step::Forward(Transform::Affine(inverse(&affine, &part.name)?)),
                    Err(_) => Step::Backward(part.transform),
                },
            });
        }
        if backwards {
            steps.reverse();
        }
        Ok(PointMap::new(steps))
    }
}

/// The inverse of a transform, and how exact that of each of its fields is, last field first; where fields fold becomes a
/// warning. Messages call the transform by the name.
///
/// ```
/// use voxalign_compute::cpu::Cpu;
/// use voxalign_image::{Affine, Transform, Vector3};
/// use voxalign_jobs::{Silent, chain::inverted};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let shift = Transform::Affine(Affine::translation(Vector3::new(5.0, 0.0, 0.0)));
/// let (inverse, exactness) = inverted(&Cpu::new(Some(1))?, &shift, "shift", &Silent)?;
/// assert_eq!(inverse.apply(Vector3::zeros()), Vector3::new(-5.0, 0.0, 0.0));
/// assert!(exactness.is_empty(), "it has no field");
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// A linear part without inverse; a field without inverse at more than one voxel in a thousand; memory that runs out.
pub fn inverted<D: Device>(
    device: &D,
    transform: &Transform,
    name: &str,
    listener: &dyn Listener,
) -> Result<(Transform, Vec<Exactness>)> {
    check(listener)?;
    let parts = match transform {
        Transform::Composite(parts) => &parts[..],
        one => std::slice::from_ref(one),
    };
    for affine in parts.iter().filter_map(|part| part.to_affine().ok()) {
        inverse(&affine, name)?;
    }
    let (inverse, exactness) = fields::inverse_of(device, transform)
        .map_err(|e| Error::from(e).at(format!("'{name}'")))?;
    for Exactness { round_trip, far, voxels, .. } in &exactness {
        let lost = round_trip.unconverged;
        if lost > 0 {
            let warning = format!(
                "'{name}': mapped through the field and back, {lost} of {voxels} voxels end more than \
                 {far:.3} mm from where they were, up to {:.3} mm: the field folds there; see \
                 `voxalign info`",
                round_trip.largest
            );
            listener.say(Level::Warning, warning);
        }
    }
    Ok((inverse, exactness))
}

/// What helps against a transform that squeezes space flat.
const CHECK: &str = "check that it is the transform that was meant";

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

fn inverse(affine: &Affine, name: &str) -> Result<Affine> {
    if let Some(what) = collapse(affine) {
        return Err(Error::input(format!("'{name}': {what}; {CHECK}")));
    }
    affine.inverse().map_err(|e| Error::input(format!("'{name}': {e}")))
}

/// The grid of the first displacement field of a transform.
#[must_use]
pub fn own_grid(transform: &Transform) -> Option<&Grid> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_texts() {
        let parse = |t: &str| t.parse::<Link>().map(|a| (a.path, a.inverse));
        assert_eq!(parse("a.mat"), Ok(("a.mat".into(), false)));
        assert_eq!(parse("inverse:a.mat"), Ok(("a.mat".into(), true)));
        assert_eq!(parse("[a,b.mat,1]"), Ok(("a,b.mat".into(), true)));
        assert_eq!(parse("[a.mat, 0]"), Ok(("a.mat".into(), false)));
        for bad in ["", "inverse:", "[a.mat]", "[a.mat,2]", "[,1]"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        let links: Vec<Link> = serde_json::from_str("[\"a,b\", \"[c,1]\"]").unwrap();
        assert_eq!(serde_json::to_string(&links).unwrap(), "[\"a,b\",\"inverse:c\"]");
    }
}
