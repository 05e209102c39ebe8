//! The elements of discrete curves and surfaces as vector-valued Dirac masses, for currents and varifolds, and
//! the derivative of functions of them.
//!
//! An element has a centre, the mean of its corners, and a moment:
//!
//! | element | corners | components | moment |
//! |---|---|---|---|
//! | [`Segment`](Element::Segment) | 2 | 3 | the tangent `τ = x₁ − x₀`, as long as the segment (L. K. Ha, 2011, equation 3.12) |
//! | [`Triangle`](Element::Triangle) | 3 | 3 | the normal `η = ½ (x₁ − x₀) × (x₂ − x₀)`, as long as the area (equation 3.7) |
//! | [`UnorientedSegment`](Element::UnorientedSegment) | 2 | 6 | `τ τᵀ / |τ|` |
//! | [`UnorientedTriangle`](Element::UnorientedTriangle) | 3 | 6 | `η ηᵀ / |η|` |
//!
//! The unoriented ones are symmetric matrices, as `xx, yy, zz, √2 xy, √2 xz, √2 yz`, so that the inner product of two
//! of them is that of varifolds with the Binet kernel: `a b ⟨n, m⟩²` of elements of sizes `a` and `b` with directions `n` and `m`
//! (N. Charon, A. Trouvé, "The varifold representation of nonoriented shapes", SIAM J. Imaging Sciences 6(4), 2013). They do not
//! change when an element is turned round.

use voxalign_compute_macros::forwarded;

use crate::device::{DeviceBuffer, Memory};
use crate::error::{ComputeError, Result, check_len};

/// The kinds of elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Element {
    /// Segments of curves, with their direction.
    Segment,
    /// Triangles of surfaces, with their side.
    Triangle,
    /// Segments whose direction does not matter.
    UnorientedSegment,
    /// Triangles whose side does not matter.
    UnorientedTriangle,
}

impl Element {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::Segment, Self::Triangle, Self::UnorientedSegment, Self::UnorientedTriangle];

    /// The corners of an element.
    #[must_use]
    pub fn corners(self) -> usize {
        match self {
            Self::Segment | Self::UnorientedSegment => 2,
            Self::Triangle | Self::UnorientedTriangle => 3,
        }
    }

    /// The components of its moment.
    #[must_use]
    pub fn components(self) -> usize {
        if self.is_oriented() { 3 } else { 6 }
    }

    /// Whether it matters which way round it is.
    #[must_use]
    pub fn is_oriented(self) -> bool {
        matches!(self, Self::Segment | Self::Triangle)
    }
}

/// The elements at every vertex: those of vertex `v` are `corners[starts[v]..starts[v + 1]]`, each as the place of the
/// vertex in the list of corners. [`incidence`] makes the lists.
#[derive(Debug)]
#[forwarded]
pub struct Incidence<'a, D: Memory> {
    /// One more than there are vertices.
    pub starts: &'a D::Buffer<u32>,
    /// One per corner.
    pub corners: &'a D::Buffer<u32>,
}

/// Elements of meshes.
///
/// Vertices, centres and covectors are three floats each: all x, then all y, then all z. Corners are indices of vertices:
/// the first of all elements, then the second of all, then the third. They must be below the number of vertices, as
/// [`incidence`] makes sure; one that is not is taken for the last. Numbers are computed in `f64` and rounded, so that all devices give the same bits.
///
/// # Errors
/// Both operators: wrong lengths.
#[forwarded]
pub trait Simplices: Memory {
    /// The centre and the moment of every element.
    ///
    /// # Errors
    /// As said at [`Simplices`].
    fn measures(
        &self,
        kind: Element,
        vertices: &Self::Buffer<f32>,
        corners: &Self::Buffer<u32>,
        centres: &mut Self::Buffer<f32>,
        moments: &mut Self::Buffer<f32>,
    ) -> Result<()>;

    /// The derivative of an energy in the vertices, given that in the centres and in the moments: the adjoint of
    /// the derivative of [`measures`](Self::measures). Each vertex gathers from its elements, in the order of the incidence.
    /// An element without size gives what its centre gives.
    ///
    /// # Errors
    /// As said at [`Simplices`].
    #[allow(clippy::too_many_arguments)]
    fn measure_covectors(
        &self,
        kind: Element,
        vertices: &Self::Buffer<f32>,
        corners: &Self::Buffer<u32>,
        incidence: &Incidence<'_, Self>,
        by_centre: &Self::Buffer<f32>,
        by_moment: &Self::Buffer<f32>,
        out: &mut Self::Buffer<f32>,
    ) -> Result<()>;
}

/// The lists of an [`Incidence`]: starts and corners.
///
/// # Errors
/// A corner that is no vertex; more than 2^31 − 1 corners; memory.
pub fn incidence(vertices: usize, corners: &[u32]) -> Result<[Vec<u32>; 2]> {
    if corners.len() > i32::MAX as usize {
        return Err(ComputeError::argument(
            "number of corners",
            corners.len(),
            "at most 2147483647",
        ));
    }
    let mut starts: Vec<u32> = voxalign_image::memory::room(vertices + 1)?;
    starts.resize(vertices + 1, 0);
    for &corner in corners {
        match starts.get_mut(corner as usize + 1) {
            Some(count) => *count += 1,
            None => {
                let corner = format!("{corner} of {vertices} vertices");
                let allowed = "an index below their number";
                return Err(ComputeError::argument("corner of an element", corner, allowed));
            }
        }
    }
    for i in 0..vertices {
        starts[i + 1] += starts[i];
    }
    let mut next = starts.clone();
    let mut lists: Vec<u32> = voxalign_image::memory::room(corners.len())?;
    lists.resize(corners.len(), 0);
    for (place, &corner) in corners.iter().enumerate() {
        let next = &mut next[corner as usize];
        lists[*next as usize] = place as u32;
        *next += 1;
    }
    Ok([starts, lists])
}

/// Checks the lengths of vertices, corners, centres and moments; the numbers of vertices and elements.
pub(crate) fn check(
    kind: Element,
    [vertices, corners, centres, moments]: [usize; 4],
) -> Result<(usize, usize)> {
    let (points, elements) = (vertices / 3, corners / kind.corners());
    check_len("vertices", 3 * points, vertices)?;
    check_len("corners", kind.corners() * elements, corners)?;
    check_len("centres", 3 * elements, centres)?;
    check_len("moments", kind.components() * elements, moments)?;
    if points == 0 && elements > 0 {
        // No corner is a vertex.
        check_len("vertices", 3, vertices)?;
    }
    Ok((points, elements))
}

/// The same with what else a covector is made of.
pub(crate) fn check_covectors<D: Memory>(
    kind: Element,
    lengths: [usize; 4],
    incidence: &Incidence<'_, D>,
    out: usize,
) -> Result<(usize, usize)> {
    let (points, elements) = check(kind, lengths)?;
    check_len("starts of the incidence", points + 1, incidence.starts.len())?;
    check_len("corners of the incidence", lengths[1], incidence.corners.len())?;
    check_len("covectors", 3 * points, out)?;
    Ok((points, elements))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vertices_know_their_elements() {
        // Two triangles with a common side; vertex 4 has none.
        let corners = [0, 1, 1, 2, 2, 3];
        let [starts, lists] = incidence(5, &corners).unwrap();
        assert_eq!(starts, [0, 1, 3, 5, 6, 6]);
        assert_eq!(lists, [0, 1, 2, 3, 4, 5]);
        assert!(incidence(3, &corners).is_err());
    }
}
