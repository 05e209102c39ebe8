//! The surface within a cell of eight voxels, for each of the 256 combinations of voxels inside and outside.
//!
//! The cases follow from one rule and are no table (after W. Lorensen, H. Cline 1987): on every side of a cell each run
//! of voxels that are inside is cut off by a segment, so that voxels that touch along a diagonal alone are apart. Both
//! cells of a side see the same segments, each in the other direction; in a cell they join to polygons. Every crossed
//! edge of the lattice has one vertex, around which the polygons of its four cells make one cycle; no diagonal of a
//! polygon lies in a side of its cell. So each edge of the surface has two faces and each vertex one fan of them.

/// The corners around each side of a cell, counterclockwise where it is seen from outside; the bits of a corner are its
/// x, y and z.
const SIDES: [[u8; 4]; 6] =
    [[0, 4, 6, 2], [1, 3, 7, 5], [0, 1, 5, 4], [2, 6, 7, 3], [0, 2, 3, 1], [4, 5, 7, 6]];

/// An edge of a cell: the axis along it, and the corner where it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Edge {
    pub(crate) axis: usize,
    pub(crate) corner: u8,
}

/// The edge of a number from 0 to 11.
pub(crate) fn edge(number: u8) -> Edge {
    let (axis, place) = (usize::from(number / 4), number % 4);
    // The two bits of the place are those of the other axes.
    let corner = match axis {
        0 => place << 1,
        1 => place & 1 | (place & 2) << 1,
        _ => place,
    };
    Edge { axis, corner }
}

/// The number of the edge between two corners.
fn between(a: u8, b: u8) -> u8 {
    let (axis, corner) = ((a ^ b).trailing_zeros() as u8, a & b);
    axis * 4
        + match axis {
            0 => corner >> 1,
            1 => corner & 1 | corner >> 1 & 2,
            _ => corner,
        }
}

/// A corner of a triangle: a crossed edge, or the middle of a polygon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Corner {
    /// The vertex on an edge.
    Edge(u8),
    /// The mean of the vertices of a polygon of the case.
    Middle(u8),
}

/// The surface within a cell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Case {
    /// Polygons that have a vertex in their middle: their edges.
    pub(crate) middles: Vec<Vec<u8>>,
    pub(crate) triangles: Vec<[Corner; 3]>,
}

/// All cases, indexed by the corners that are inside.
pub(crate) fn cases() -> Vec<Case> {
    (0..=255).map(case).collect()
}

fn case(inside: u8) -> Case {
    let is_in = |corner: u8| inside >> corner & 1 == 1;
    let mut next = [None; 12];
    for side in SIDES {
        for i in 0..4 {
            let (a, b) = (side[i], side[(i + 1) % 4]);
            if is_in(a) || !is_in(b) {
                continue;
            }
            // A run begins at b: where it ends the segment ends.
            let last = (1..4).find(|&n| !is_in(side[(i + 1 + n) % 4])).unwrap_or(3);
            let (c, d) = (side[(i + last) % 4], side[(i + last + 1) % 4]);
            next[usize::from(between(a, b))] = Some(between(c, d));
        }
    }
    let mut case = Case::default();
    for start in 0..12 {
        let mut polygon = Vec::new();
        let mut at = start;
        while let Some(on) = next[usize::from(at)].take() {
            polygon.push(at);
            at = on;
        }
        if polygon.len() >= 3 {
            triangulate(&mut case, polygon);
        }
    }
    case
}

/// Splits a polygon into triangles by diagonals from one vertex, none of which lies in a side of the cell; without
/// such a vertex, from a new one in its centre.
fn triangulate(case: &mut Case, polygon: Vec<u8>) {
    let n = polygon.len();
    let at = |i: usize| polygon[i % n];
    let clear = |apex: usize| (2..n - 1).all(|i| !in_one_side(at(apex), at(apex + i)));
    if let Some(apex) = (0..n).find(|&apex| clear(apex)) {
        let fan = (1..n - 1).map(|i| [apex, apex + i, apex + i + 1].map(|i| Corner::Edge(at(i))));
        case.triangles.extend(fan);
        return;
    }
    let middle = Corner::Middle(case.middles.len() as u8);
    let around = (0..n).map(|i| [Corner::Edge(at(i)), Corner::Edge(at(i + 1)), middle]);
    case.triangles.extend(around);
    case.middles.push(polygon);
}

/// Whether two edges belong to one side of a cell.
fn in_one_side(a: u8, b: u8) -> bool {
    let [p, q] = [a, b].map(|number| {
        let Edge { axis, corner } = edge(number);
        (corner, corner | 1 << axis)
    });
    SIDES.iter().any(|side| [p.0, p.1, q.0, q.1].iter().all(|c| side.contains(c)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_have_numbers() {
        for number in 0..12 {
            let Edge { axis, corner } = edge(number);
            assert_eq!(corner >> axis & 1, 0);
            assert_eq!(between(corner, corner | 1 << axis), number);
        }
        // Every edge is in two sides, once in each direction.
        for side in SIDES {
            assert!((0..4).all(|i| (side[i] ^ side[(i + 1) % 4]).count_ones() == 1));
        }
    }

    #[test]
    fn every_crossed_edge_is_used() {
        let all = cases();
        let mut with_middle = 0;
        for (inside, case) in all.iter().enumerate() {
            with_middle += usize::from(!case.middles.is_empty());
            for number in 0..12 {
                let Edge { axis, corner } = edge(number);
                let ends = [corner, corner | 1 << axis].map(|c| inside >> c & 1);
                let used = case.triangles.iter().flatten().any(|c| *c == Corner::Edge(number));
                assert_eq!(used, ends[0] != ends[1], "case {inside}, edge {number}");
            }
        }
        assert!(all[0].triangles.is_empty() && all[255].triangles.is_empty());
        assert!(with_middle < 60, "{with_middle}");
        assert_eq!(all[1].triangles.len(), 1);
        // The whole of a cell: twice two triangles for two corners across.
        assert_eq!(all[0b1000_0001].triangles.len(), 2);
    }
}
