//! The elements of shapes on a device, ordered so that neighbours in space are neighbours in memory: blocks of
//! nearby points splat together and skip elements that are far from all of them.

use super::super::shape::{Elements, Shape};
use crate::error::{RegisterError, Result};
use voxalign_compute::Device;
use voxalign_compute::ops::simplices::{Element, incidence};
use voxalign_image::{Vector3, memory};

/// How the vertices of a shape make elements.
pub(super) struct Topology<D: Device> {
    pub(super) kind: Element,
    pub(super) corners: D::Buffer<u32>,
    pub(super) starts: D::Buffer<u32>,
    pub(super) lists: D::Buffer<u32>,
}

/// The elements of a shape that stays: relative to the origin, mm.
pub(super) struct Placed<D: Device> {
    pub(super) centres: D::Buffer<f32>,
    pub(super) moments: D::Buffer<f32>,
    /// Bounds of its vertices.
    pub(super) bounds: [[f64; 3]; 2],
}

/// Vertices relative to an origin, all x, then all y, then all z.
pub(super) fn relative(vertices: &[Vector3<f64>], origin: &Vector3<f64>) -> Result<Vec<f32>> {
    let mut list = memory::room(3 * vertices.len())?;
    for a in 0..3 {
        list.extend(vertices.iter().map(|v| (v[a] - origin[a]) as f32));
    }
    Ok(list)
}

/// Bits of a code along an axis.
const BITS: u32 = 10;

/// The place of a point along a curve that fills space (G. M. Morton, 1966): its bits in turn.
fn code(at: [u32; 3]) -> u32 {
    (0..BITS).map(|b| (0..3).map(|a| (at[a] >> b & 1) << (3 * b + a as u32)).sum::<u32>()).sum()
}

/// The order of points along the curve.
fn order(centres: impl Iterator<Item = Vector3<f64>>, bounds: &[[f64; 3]; 2]) -> Result<Vec<u32>> {
    let cell = (super::sums::longest(bounds) / f64::from((1u32 << BITS) - 1)).max(1e-300);
    let mut keys: Vec<(u32, u32)> = memory::room(centres.size_hint().0)?;
    for (number, centre) in centres.enumerate() {
        let at = [0, 1, 2].map(|a| ((centre[a] - bounds[0][a]) / cell) as u32);
        keys.push((code(at), number as u32));
    }
    keys.sort_unstable();
    let mut order = memory::room(keys.len())?;
    order.extend(keys.iter().map(|k| k.1));
    Ok(order)
}

/// Corners of elements in the order of the curve.
fn ordered(shape: &Shape, kind: Element, corners: &[u32]) -> Result<Vec<u32>> {
    let (n, vertices, each) = (shape.len(), shape.vertices(), kind.corners());
    let at = |k: usize, i: usize| vertices[corners[k * n + i] as usize];
    let centre = |i: usize| (0..each).map(|k| at(k, i)).sum::<Vector3<f64>>() / each as f64;
    let order = order((0..n).map(centre), &Shape::bounds(vertices))?;
    let mut list = memory::room(corners.len())?;
    for corners in corners.chunks_exact(n) {
        list.extend(order.iter().map(|&i| corners[i as usize]));
    }
    Ok(list)
}

impl<D: Device> Topology<D> {
    /// None of points.
    pub(super) fn new(device: &D, shape: &Shape) -> Result<Option<Self>> {
        let Elements::Simplices(kind, corners) = shape.elements() else { return Ok(None) };
        let corners = ordered(shape, *kind, corners)?;
        let [starts, lists] = incidence(shape.vertices().len(), &corners)?;
        let (starts, lists) = (device.upload_vec(starts)?, device.upload_vec(lists)?);
        Ok(Some(Self { kind: *kind, corners: device.upload_vec(corners)?, starts, lists }))
    }
}

impl<D: Device> Placed<D> {
    /// A shape where it is.
    pub(super) fn new(device: &D, shape: &Shape, origin: &Vector3<f64>) -> Result<Self> {
        let found = Shape::bounds(shape.vertices());
        let bounds = found.map(|end| [0, 1, 2].map(|a| end[a] - origin[a]));
        let (n, components) = (shape.len(), shape.components());
        let (centres, moments) = match shape.elements() {
            Elements::Points(masses) => {
                let order = order(shape.vertices().iter().copied(), &found)?;
                let mut vertices = memory::room(n)?;
                vertices.extend(order.iter().map(|&i| shape.vertices()[i as usize]));
                let mut ordered: Vec<f32> = memory::room(n)?;
                ordered.extend(order.iter().map(|&i| masses[i as usize]));
                (device.upload_vec(relative(&vertices, origin)?)?, device.upload_vec(ordered)?)
            }
            Elements::Simplices(kind, corners) => {
                let vertices = device.upload_vec(relative(shape.vertices(), origin)?)?;
                let corners = device.upload_vec(ordered(shape, *kind, corners)?)?;
                let mut centres = device.alloc(3 * n)?;
                let mut moments = device.alloc(components * n)?;
                device.measures(*kind, &vertices, &corners, &mut centres, &mut moments)?;
                (centres, moments)
            }
        };
        Ok(Self { centres, moments, bounds })
    }
}

/// Refuses pairs that are made of other elements.
pub(super) fn check_alike(shape: &Shape, target: &Shape) -> Result<()> {
    if shape.is_like(target) {
        return Ok(());
    }
    Err(RegisterError::option(
        "shape",
        "a pair of shapes with different elements",
        "compare surfaces with surfaces, curves with curves, points with points",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_curve_fills_space() {
        assert_eq!([[1, 0, 0], [0, 1, 0], [0, 0, 1], [3, 0, 0]].map(code), [1, 2, 4, 9]);
        assert_eq!(code([1023; 3]), (1 << 30) - 1);
        // Eight corners of a cube and its middle, which comes last of the first octant or first of the last.
        let ends = [0.0, 1.0];
        let corner = |i: usize| Vector3::new(ends[i & 1], ends[i >> 1 & 1], ends[i >> 2 & 1]);
        let found = order((0..8).rev().map(corner), &[[0.0; 3], [1.0; 3]]).unwrap();
        assert_eq!(found, [7, 6, 5, 4, 3, 2, 1, 0]);
        // Points at one place keep their order.
        let same = order((0..3).map(|_| corner(0)), &[[0.0; 3]; 2]).unwrap();
        assert_eq!(same, [0, 1, 2]);
    }
}
