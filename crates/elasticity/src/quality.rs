//! The shape of tetrahedra, and whether a mesh can be that of a body.

use crate::error::{ElasticityError, LISTED, Result};
use std::cmp::Ordering;
use voxalign_image::{TetraMesh, Vector3, tetra};

/// Six times the volume of a tetrahedron below this part of the cube of its longest edge is that of one without volume.
const FLAT: f64 = 1e-9;

/// The edges of a tetrahedron, and the two corners that an edge does not have.
const EDGES: [[usize; 4]; 6] =
    [[0, 1, 2, 3], [0, 2, 1, 3], [0, 3, 1, 2], [1, 2, 0, 3], [1, 3, 0, 2], [2, 3, 0, 1]];

/// The shape of a tetrahedron.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quality {
    /// Volume, mm³; below 0 where it is inverted.
    pub volume: f64,
    /// `12 (3 V)^(2/3)` over the sum of the squares of its edges (A. Liu and B. Joe 1994): 1 for a regular tetrahedron, 0 for a flat one,
    /// below 0 for an inverted one.
    pub mean_ratio: f64,
    /// Three times the radius of the sphere inside over that of the sphere around it: 1 for a regular one, 0 for a flat one.
    pub radius_ratio: f64,
    /// The smallest and the largest angle between two of its faces, degrees.
    pub dihedral_degrees: [f64; 2],
    /// The shortest and the longest edge, mm.
    pub edges: [f64; 2],
}

impl Quality {
    /// Of the tetrahedron with these corners, mm.
    #[must_use]
    pub fn of(corners: [Vector3<f64>; 4]) -> Self {
        let volume = tetra::volume(corners);
        let length = |[a, b, ..]: [usize; 4]| (corners[b] - corners[a]).norm();
        let lengths = EDGES.map(length);
        let squares: f64 = lengths.iter().map(|l| l * l).sum();
        let mean_ratio = volume.signum() * 12.0 * (3.0 * volume.abs()).powf(2.0 / 3.0) / squares;
        let area = |[a, b, c]: [usize; 3]| {
            (corners[b] - corners[a]).cross(&(corners[c] - corners[a])).norm() / 2.0
        };
        let areas: f64 = [[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]].map(area).iter().sum();
        let inside = 3.0 * volume.abs() / areas;
        // Products of opposite edges.
        let [a, b, c] = [lengths[0] * lengths[5], lengths[1] * lengths[4], lengths[2] * lengths[3]];
        let product = (a + b + c) * (a + b - c) * (a - b + c) * (b + c - a);
        let around = product.max(0.0).sqrt() / (24.0 * volume.abs());
        let radius_ratio = if volume == 0.0 { 0.0 } else { 3.0 * inside / around };
        let angles = EDGES.map(|[a, b, c, d]| {
            let along = (corners[b] - corners[a]).normalize();
            let across = |i: usize| {
                let side = corners[i] - corners[a];
                side - along * along.dot(&side)
            };
            across(c).angle(&across(d)).to_degrees()
        });
        let ends = |values: [f64; 6]| {
            let low = values.iter().copied().fold(f64::INFINITY, f64::min);
            [low, values.iter().copied().fold(f64::NEG_INFINITY, f64::max)]
        };
        Self {
            volume,
            mean_ratio,
            radius_ratio,
            dihedral_degrees: ends(angles),
            edges: ends(lengths),
        }
    }
}

/// Checks that a mesh can be that of a body in one part: it has tetrahedra, none of them flat or inverted, faces have one or two
/// sides, every vertex belongs to a tetrahedron, and faces connect all tetrahedra.
///
/// # Errors
/// [`ElasticityError::Empty`], [`Inverted`](ElasticityError::Inverted), [`Faces`](ElasticityError::Faces),
/// [`Unused`](ElasticityError::Unused), [`Disconnected`](ElasticityError::Disconnected), with the numbers of what is wrong;
/// [`OutOfMemory`](ElasticityError::OutOfMemory).
pub fn check(mesh: &TetraMesh) -> Result<()> {
    let of = mesh.tetrahedra().len();
    if of == 0 {
        return Err(ElasticityError::Empty);
    }
    let bad = |&e: &usize| {
        let q = Quality::of(mesh.corners(e));
        // A volume that is too large to be a number is bad, too.
        let least = FLAT * q.edges[1].powi(3);
        (6.0 * q.volume).partial_cmp(&least) != Some(Ordering::Greater)
    };
    let (numbers, count) = first((0..of).filter(bad));
    if count > 0 {
        return Err(ElasticityError::Inverted { numbers, count, of });
    }
    let faults = mesh.faults()?;
    if let Some(fault) = faults.first() {
        let numbers = fault.iter().map(|&e| e as usize).collect();
        return Err(ElasticityError::Faces { numbers, count: faults.len() });
    }
    let used = mesh.used()?;
    let (numbers, count) = first((0..used.len()).filter(|&i| !used[i]));
    if count > 0 {
        return Err(ElasticityError::Unused { numbers, count });
    }
    let parts = mesh.parts()?;
    if let Some(first) = parts.iter().position(|&part| part == 1) {
        let parts = parts.iter().max().map_or(0, |&most| most as usize + 1);
        return Err(ElasticityError::Disconnected { parts, first });
    }
    Ok(())
}

/// The first numbers of a list, and how many it has.
fn first(numbers: impl Iterator<Item = usize>) -> (Vec<usize>, usize) {
    numbers.fold((Vec::new(), 0), |(mut few, count), number| {
        if few.len() < LISTED {
            few.push(number);
        }
        (few, count + 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TetraBox;
    use voxalign_image::Grid;

    #[test]
    fn a_regular_tetrahedron_is_perfect_and_a_flat_one_is_not() {
        let regular =
            [[1., 1., 1.], [-1., 1., -1.], [1., -1., -1.], [-1., -1., 1.]].map(Vector3::from);
        let q = Quality::of(regular);
        assert!(
            (q.mean_ratio - 1.0).abs() < 1e-12 && (q.radius_ratio - 1.0).abs() < 1e-12,
            "{q:?}"
        );
        assert!((q.dihedral_degrees[0] - (1.0f64 / 3.0).acos().to_degrees()).abs() < 1e-9);
        let [a, b, c, d] = regular;
        assert!((Quality::of([a, c, b, d]).mean_ratio + 1.0).abs() < 1e-12);
        let flat = Quality::of(
            [[0., 0., 0.], [1., 0., 0.], [0., 1., 0.], [1., 1., 0.]].map(Vector3::from),
        );
        assert!(flat.mean_ratio == 0.0 && flat.radius_ratio == 0.0, "{flat:?}");
    }

    #[test]
    fn what_is_wrong_with_a_mesh_is_named() {
        let cells = TetraBox::new(Grid::axis_aligned([3; 3], [5.0; 3]).unwrap()).unwrap();
        let mesh = cells.mesh().unwrap();
        check(&mesh).unwrap();
        assert_eq!(check(&TetraMesh::default()).unwrap_err(), ElasticityError::Empty);

        let mut tetrahedra = mesh.tetrahedra().to_vec();
        tetrahedra[7].swap(0, 1);
        tetrahedra[9][0] = tetrahedra[9][1];
        let vertices = mesh.vertices().to_vec();
        let inverted = TetraMesh::new(vertices.clone(), tetrahedra).unwrap();
        let error = check(&inverted).unwrap_err();
        assert!(
            error.to_string().starts_with("2 of 48 tetrahedra are flat or inverted: numbers 7, 9;"),
            "{error}"
        );

        let mut twice = mesh.tetrahedra().to_vec();
        twice.push(twice[3]);
        let error = check(&TetraMesh::new(vertices.clone(), twice).unwrap()).unwrap_err();
        assert!(
            matches!(&error, ElasticityError::Faces { numbers, count: 4 } if numbers.len() >= 2),
            "{error}"
        );

        let mut more = vertices.clone();
        more.push(Vector3::repeat(99.0));
        let unused = TetraMesh::new(more, mesh.tetrahedra().to_vec()).unwrap();
        assert_eq!(
            check(&unused).unwrap_err(),
            ElasticityError::Unused { numbers: vec![27], count: 1 }
        );

        // Cells 0 and 7 touch in the middle vertex alone.
        let all = mesh.tetrahedra();
        let apart = [&all[..6], &all[42..]].concat();
        let mut used = vec![false; 27];
        apart.iter().flatten().for_each(|&i| used[i as usize] = true);
        let number: Vec<u32> = used
            .iter()
            .scan(0, |n, &u| {
                let this = *n;
                *n += u32::from(u);
                Some(this)
            })
            .collect();
        let kept = vertices.iter().zip(&used).filter(|(_, u)| **u).map(|(v, _)| *v).collect();
        let apart = apart.iter().map(|t| t.map(|i| number[i as usize])).collect();
        let error = check(&TetraMesh::new(kept, apart).unwrap()).unwrap_err();
        assert_eq!(error, ElasticityError::Disconnected { parts: 2, first: 6 });
    }
}
