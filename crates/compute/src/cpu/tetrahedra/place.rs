//! Where samples are in a mesh, and their weights.

use crate::cpu::Cpu;
use crate::cpu::simplices::{Vector, cross, dot, minus, vector};
use crate::device::DeviceBuffer;
use crate::ops::tetrahedra::{BORDER, KuhnBox, Mesh, OUTSIDE, Placed, Samples, Way};
use crate::{AffineMap, Dims};

/// The nodes of the element of a sample, and its weights there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spot {
    pub(super) nodes: [usize; 4],
    pub(super) weights: [f64; 4],
}

/// Positions of samples, in the space of the nodes or in cells.
#[derive(Clone, Copy)]
pub(super) struct Positions<'a> {
    dims: Dims,
    map: AffineMap,
    points: Option<&'a [f32]>,
    count: usize,
}

impl<'a> Positions<'a> {
    pub(super) fn new(samples: &Samples<'a, Cpu>, way: &Way) -> Self {
        let points = samples.points.map(super::super::CpuBuffer::as_slice);
        Self { dims: samples.dims, map: way.map, points, count: way.samples }
    }

    #[inline]
    pub(super) fn of(&self, i: usize) -> Vector {
        let [nx, ny, _] = self.dims;
        match self.points {
            Some(points) => self.mapped(vector(points, self.count, i)),
            None => self.mapped([i % nx, i / nx % ny, i / nx / ny].map(|k| k as f64)),
        }
    }

    #[inline]
    pub(super) fn mapped(&self, p: Vector) -> Vector {
        self.map.map(|m| m[0] * p[0] + m[1] * p[1] + m[2] * p[2] + m[3])
    }
}

/// The elements of a mesh.
#[derive(Clone, Copy)]
pub(super) struct Elements<'a> {
    nodes: &'a [f32],
    pub(super) points: usize,
    corners: &'a [u32],
    /// Their number.
    pub(super) count: usize,
}

impl<'a> Elements<'a> {
    pub(super) fn new(mesh: &Mesh<'a, Cpu>) -> Self {
        let (nodes, corners) = (mesh.nodes.as_slice(), mesh.corners.as_slice());
        Self { nodes, points: nodes.len() / 3, corners, count: mesh.corners.len() / 4 }
    }

    /// The nodes of an element.
    #[inline]
    pub(super) fn nodes_of(&self, element: usize) -> [usize; 4] {
        [0, 1, 2, 3].map(|k| (self.corners[4 * element + k] as usize).min(self.points - 1))
    }

    /// What a list of three numbers a node has at the corners of an element.
    #[inline]
    pub(super) fn at_corners(&self, list: &[f32], element: usize) -> [Vector; 4] {
        self.nodes_of(element).map(|node| vector(list, self.points, node))
    }

    /// The positions of the corners of an element.
    #[inline]
    pub(super) fn corners_of(&self, element: usize) -> [Vector; 4] {
        self.at_corners(self.nodes, element)
    }

    /// The weights of a point in an element, whether it is in there or not; none in one without a positive volume.
    #[inline]
    pub(super) fn weights(&self, element: usize, p: Vector) -> Option<[f64; 4]> {
        let [o, a, b, c] = self.corners_of(element);
        let (d, [a, b, c]) = (minus(p, o), [minus(a, o), minus(b, o), minus(c, o)]);
        let normal = cross(b, c);
        let volume = dot(a, normal);
        if volume.is_nan() || volume <= 0.0 {
            return None;
        }
        let first = dot(d, normal) / volume;
        let second = dot(a, cross(d, c)) / volume;
        let third = dot(a, cross(b, d)) / volume;
        Some([1.0 - (first + second + third), first, second, third])
    }
}

/// The cell of a position in cells, and the place within it.
#[inline]
pub(super) fn cell_of(f: Vector, cells: [usize; 3]) -> Option<([usize; 3], Vector)> {
    let (mut cell, mut within) = ([0; 3], [0.0; 3]);
    for a in 0..3 {
        let n = cells[a] as f64;
        if !(f[a] >= -BORDER && f[a] <= n + BORDER) {
            return None;
        }
        let low = f[a].floor().max(0.0).min(n - 1.0);
        cell[a] = low as usize;
        // A sum with zero has no negative one.
        within[a] = (f[a] - low).clamp(0.0, 1.0) + 0.0;
    }
    Some((cell, within))
}

/// The number of a permutation, and its axes in the order of coordinates within a cell.
#[inline]
pub(super) fn path_of(s: Vector) -> (usize, [usize; 3]) {
    let [x, y, z] = s;
    if x >= y {
        if y >= z {
            (0, [0, 1, 2])
        } else if x >= z {
            (1, [0, 2, 1])
        } else {
            (4, [2, 0, 1])
        }
    } else if x >= z {
        (2, [1, 0, 2])
    } else if y >= z {
        (3, [1, 2, 0])
    } else {
        (5, [2, 1, 0])
    }
}

/// Whether the nodes in the middle of a path are exchanged.
#[inline]
fn is_odd(path: usize) -> bool {
    matches!(path, 1 | 2 | 5)
}

/// The number of an element of a box.
#[inline]
pub(super) fn element_in(kuhn: &KuhnBox, f: Vector) -> u32 {
    let Some(([i, j, k], s)) = cell_of(f, kuhn.cells) else { return OUTSIDE };
    let [nx, ny, _] = kuhn.cells;
    (6 * (i + nx * (j + ny * k)) + path_of(s).0) as u32
}

/// The path through a cell that a position is in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Path {
    number: usize,
    pub(super) axes: [usize; 3],
    /// From the lowest corner to the highest.
    pub(super) nodes: [usize; 4],
    /// The place within the cell.
    within: Vector,
}

/// The path of a position in cells.
#[inline]
fn path_in(kuhn: &KuhnBox, f: Vector) -> Option<Path> {
    let ([i, j, k], within) = cell_of(f, kuhn.cells)?;
    let [nx, ny] = [kuhn.cells[0] + 1, kuhn.cells[1] + 1];
    let steps = [1, nx, nx * ny];
    let (number, axes) = path_of(within);
    let low = i + nx * (j + ny * k);
    let (a, b) = (low + steps[axes[0]], low + steps[axes[0]] + steps[axes[1]]);
    Some(Path { number, axes, nodes: [low, a, b, b + steps[axes[2]]], within })
}

/// The nodes of the element of a position in cells, and the weights there.
#[inline]
fn spot_in(kuhn: &KuhnBox, f: Vector) -> Option<Spot> {
    let path = path_in(kuhn, f)?;
    let [first, second, third] = path.axes.map(|axis| path.within[axis]);
    let (mut nodes, mut weights) =
        (path.nodes, [1.0 - first, first - second, second - third, third]);
    if is_odd(path.number) {
        nodes.swap(1, 2);
        weights.swap(1, 2);
    }
    Some(Spot { nodes, weights })
}

/// Samples with what is needed to place them.
#[derive(Clone, Copy)]
pub(super) struct Places<'a> {
    positions: Positions<'a>,
    pub(super) elements: Elements<'a>,
    pub(super) kuhn: Option<KuhnBox>,
    located: &'a [u32],
}

impl<'a> Places<'a> {
    pub(super) fn new(placed: &Placed<'a, Cpu>, way: &Way) -> Self {
        Self {
            positions: Positions::new(&placed.samples, way),
            elements: Elements::new(&placed.mesh),
            kuhn: way.kuhn,
            located: placed.elements.map_or(&[], super::super::CpuBuffer::as_slice),
        }
    }

    /// Where a sample is; none outside of the mesh.
    #[inline]
    pub(super) fn spot(&self, i: usize) -> Option<Spot> {
        let p = self.positions.of(i);
        if let Some(kuhn) = &self.kuhn {
            return spot_in(kuhn, p);
        }
        let element = self.element(i)?;
        let weights = self.elements.weights(element, p)?.map(|w| if w > 0.0 { w } else { 0.0 });
        let sum = weights[0] + weights[1] + weights[2] + weights[3];
        let nodes = self.elements.nodes_of(element);
        Some(Spot { nodes, weights: weights.map(|w| w / sum) })
    }

    /// The element that is listed for a sample; none outside of the mesh.
    #[inline]
    pub(super) fn element(&self, i: usize) -> Option<usize> {
        let element = self.located[i];
        if element == OUTSIDE {
            return None;
        }
        Some((element as usize).min(self.elements.count.checked_sub(1)?))
    }

    /// The path that a sample in a box is in; none outside.
    #[inline]
    pub(super) fn path(&self, kuhn: &KuhnBox, i: usize) -> Option<Path> {
        path_in(kuhn, self.positions.of(i))
    }
}
