//! Meshes that are fitted to masks.

use crate::boxes::{TetraBox, counts};
use crate::error::{ElasticityError, Result};
use voxalign_image::{Affine, Grid, Index, LabelMap, Matrix3, TetraMesh, Vector3, World, memory};

/// A cell belongs to the body where at least this share of it is in the mask.
const SHARE: f64 = 0.5;

/// No cell, no tetrahedron.
const NONE: u32 = u32::MAX;

/// A mesh of the body of a mask: whole cells of a box, in one part that faces connect.
#[derive(Debug, Clone, PartialEq)]
pub struct Fitted {
    /// The mesh. Its labels are those of the mask: each tetrahedron has that of most voxels whose centres it holds, the lowest of
    /// several; where it holds none, that of the voxel which is nearest to its own centre, of those that its cell meets.
    pub mesh: TetraMesh,
    /// The box that the cells are from.
    pub cells: TetraBox,
    /// The number of parts that faces connect, of which the largest one was kept.
    pub parts: usize,
    /// How many cells there were in all parts.
    pub found: usize,
    /// How many of them were kept.
    pub kept: usize,
}

/// A mesh of what a label map has other than 0, in cells whose edges are nearest to a spacing, mm, along the axes of the image.
/// A cell is kept where at least half of its volume is in the mask; of the parts that faces connect the largest one is, the first
/// of several. The surface is one of whole cells, with steps.
///
/// # Errors
/// [`ElasticityError::Spacing`] for a spacing that is not a number above 0, [`ElasticityError::Flat`] for an image without depth,
/// [`ElasticityError::NoBody`] where no cell is kept, [`ElasticityError::TooFine`], [`ElasticityError::OutOfMemory`].
pub fn fitted(mask: &LabelMap, spacing: f64) -> Result<Fitted> {
    let (cells, voxels) = around(mask, spacing)?;
    let shares = shares(mask, &cells)?;
    let mut parts = memory::collected(shares.iter().map(|&s| if s >= SHARE { 0 } else { NONE }))?;
    let found = parts.iter().filter(|&&part| part != NONE).count();
    let sizes = connect(&mut parts, cells.cells())?;
    // The first of the largest ones.
    let largest = (0..sizes.len()).rev().max_by_key(|&part| sizes[part]);
    let Some(largest) = largest else {
        return Err(ElasticityError::NoBody { spacing, voxels });
    };
    let (mesh, numbers) = kept(&cells, &parts, largest as u32)?;
    let labels = labels(mask, &cells, &mesh, &numbers)?;
    let (parts, kept) = (sizes.len(), sizes[largest]);
    Ok(Fitted { mesh: mesh.with_labels(labels)?, cells, parts, found, kept })
}

/// A box around the mask with a cell to spare on each side, and the number of voxels of the mask.
fn around(mask: &LabelMap, spacing: f64) -> Result<(TetraBox, usize)> {
    let (grid, dims) = (mask.grid(), mask.dims());
    if dims.contains(&1) {
        return Err(ElasticityError::Flat { dims });
    }
    let (mut low, mut high, mut voxels) = (dims, [0; 3], 0);
    visit(mask, |at, _| {
        voxels += 1;
        for a in 0..3 {
            low[a] = low[a].min(at[a]);
            high[a] = high[a].max(at[a] + 1);
        }
    });
    if voxels == 0 {
        return Err(ElasticityError::NoBody { spacing, voxels });
    }
    let size: [f64; 3] = std::array::from_fn(|a| (high[a] - low[a]) as f64);
    let counts = counts(std::array::from_fn(|a| size[a] * grid.spacing()[a]), spacing)?;
    let step = Vector3::from_fn(|a, _| size[a] / counts[a] as f64);
    let first = Vector3::from_fn(|a, _| low[a] as f64 - 0.5 - step[a]);
    let matrix = grid.to_world().matrix * Matrix3::from_diagonal(&step);
    let to_world: Affine<Index, World> = Affine::new(matrix, grid.index_to_world(first));
    let vertices = Grid::new(counts.map(|n| n + 3), to_world)?;
    Ok((TetraBox::new(vertices)?, voxels))
}

/// Calls for each voxel of the mask, x fastest, with its label.
fn visit(mask: &LabelMap, mut call: impl FnMut([usize; 3], i32)) {
    let [nx, ny, _] = mask.dims();
    for (row, values) in mask.data().chunks_exact(nx).enumerate() {
        for (x, &label) in values.iter().enumerate().filter(|(_, l)| **l != 0) {
            call([x, row % ny, row / ny], label);
        }
    }
}

/// The share of each cell that is in the mask, exactly.
fn shares(mask: &LabelMap, cells: &TetraBox) -> Result<Vec<f64>> {
    let n = cells.cells();
    let mut shares = memory::zeroed(n.iter().product())?;
    let axes: [Vec<Vec<(usize, f64)>>; 3] = [
        overlaps(mask.grid(), cells, 0),
        overlaps(mask.grid(), cells, 1),
        overlaps(mask.grid(), cells, 2),
    ];
    visit(mask, |[x, y, z], _| {
        for &(k, c) in &axes[2][z] {
            for &(j, b) in &axes[1][y] {
                for &(i, a) in &axes[0][x] {
                    shares[i + n[0] * (j + n[1] * k)] += a * b * c;
                }
            }
        }
    });
    // Rounding must not decide about a cell that is exactly half in the mask.
    shares.iter_mut().for_each(|s: &mut f64| *s += 1e-9);
    Ok(shares)
}

/// For each voxel along an axis the cells that it overlaps, and which part of their edges it covers.
fn overlaps(image: &Grid, cells: &TetraBox, axis: usize) -> Vec<Vec<(usize, f64)>> {
    let box_grid = cells.vertices();
    let origin = image.world_to_index(box_grid.origin())[axis];
    let edge = box_grid.spacing()[axis] / image.spacing()[axis];
    let count = cells.cells()[axis];
    let of = |voxel: usize| {
        let low = (voxel as f64 - 0.5 - origin) / edge;
        let high = (voxel as f64 + 0.5 - origin) / edge;
        let last = (high.ceil().max(0.0) as usize).min(count);
        (low.max(0.0) as usize..last)
            .map(|cell| (cell, high.min(cell as f64 + 1.0) - low.max(cell as f64)))
            .filter(|&(_, part)| part > 0.0)
            .collect()
    };
    (0..image.dims()[axis]).map(of).collect()
}

/// Numbers the parts of what is not [`NONE`] that faces of cells connect, in the order of their first cells, and gives their sizes.
fn connect(parts: &mut [u32], dims: [usize; 3]) -> Result<Vec<usize>> {
    let mut seen = memory::filled(parts.len(), false)?;
    let (mut sizes, mut front) = (Vec::new(), Vec::new());
    let steps = [1, dims[0], dims[0] * dims[1]];
    for start in 0..parts.len() {
        if seen[start] || parts[start] == NONE {
            continue;
        }
        seen[start] = true;
        memory::push(&mut front, start)?;
        let mut size = 0;
        while let Some(cell) = front.pop() {
            parts[cell] = sizes.len() as u32;
            size += 1;
            for a in 0..3 {
                let at = cell / steps[a] % dims[a];
                let before = (at > 0).then(|| cell - steps[a]);
                let after = (at + 1 < dims[a]).then(|| cell + steps[a]);
                for next in before.into_iter().chain(after) {
                    if parts[next] != NONE && !seen[next] {
                        seen[next] = true;
                        memory::push(&mut front, next)?;
                    }
                }
            }
        }
        sizes.push(size);
    }
    Ok(sizes)
}

/// The mesh of the cells of one part, and the first of the six tetrahedra of each cell of the box in it.
fn kept(cells: &TetraBox, parts: &[u32], part: u32) -> Result<(TetraMesh, Vec<u32>)> {
    let whole = cells.mesh()?;
    let mut numbers = memory::filled(parts.len(), NONE)?;
    let mut names = memory::filled(whole.vertices().len(), NONE)?;
    let mut tetrahedra: Vec<[u32; 4]> = Vec::new();
    for (cell, _) in parts.iter().enumerate().filter(|(_, p)| **p == part) {
        numbers[cell] = tetrahedra.len() as u32;
        for corners in &whole.tetrahedra()[6 * cell..6 * cell + 6] {
            corners.iter().for_each(|&i| names[i as usize] = 0);
            memory::push(&mut tetrahedra, *corners)?;
        }
    }
    let mut vertices = Vec::new();
    for (name, vertex) in names.iter_mut().zip(whole.vertices()).filter(|(n, _)| **n != NONE) {
        *name = vertices.len() as u32;
        memory::push(&mut vertices, *vertex)?;
    }
    tetrahedra.iter_mut().flatten().for_each(|i| *i = names[*i as usize]);
    Ok((TetraMesh::new(vertices, tetrahedra)?, numbers))
}

/// The label of each tetrahedron.
fn labels(
    mask: &LabelMap,
    cells: &TetraBox,
    mesh: &TetraMesh,
    numbers: &[u32],
) -> Result<Vec<i32>> {
    let grid = mask.grid();
    let mut held = Vec::new();
    let mut refused = Ok(());
    visit(mask, |[x, y, z], label| {
        let found = cells.locate(grid.index_to_world(Vector3::new(x as f64, y as f64, z as f64)));
        let number = numbers[found.tetrahedron as usize / 6];
        if number != NONE && refused.is_ok() {
            refused = memory::push(&mut held, (number + found.tetrahedron % 6, label));
        }
    });
    refused?;
    held.sort_unstable();
    let count = mesh.tetrahedra().len();
    let mut labels = memory::filled(count, 0)?;
    for same in held.chunk_by(|a, b| a.0 == b.0) {
        labels[same[0].0 as usize] = most(same);
    }
    for (e, label) in labels.iter_mut().enumerate().filter(|(_, label)| **label == 0) {
        *label = nearest(mask, mesh, e);
    }
    Ok(labels)
}

/// The label that most have, the lowest of several; they are sorted by label.
fn most(held: &[(u32, i32)]) -> i32 {
    let runs = held.chunk_by(|a, b| a.1 == b.1);
    runs.rev().max_by_key(|run| run.len()).map_or(0, |run| run[0].1)
}

/// The label of the voxel of the mask that is nearest to the centre of a tetrahedron, of those that its cell meets; the first of
/// several, x fastest.
fn nearest(mask: &LabelMap, mesh: &TetraMesh, e: usize) -> i32 {
    let (grid, corners) = (mask.grid(), mesh.corners(e));
    let centre = corners.iter().sum::<Vector3<f64>>() / 4.0;
    // The first and the last corner, and those between them, span the cell.
    let places = corners.map(|c| grid.world_to_index(c));
    let low = places.iter().fold(places[0], |low, p| low.inf(p));
    let high = places.iter().fold(places[0], |high, p| high.sup(p));
    let range = |a: usize| {
        let last = mask.dims()[a] - 1;
        let voxel = |at: f64| (at.round().max(0.0) as usize).min(last);
        voxel(low[a])..=voxel(high[a])
    };
    let mut best = (f64::INFINITY, 0);
    for (z, y) in range(2).flat_map(|z| range(1).map(move |y| (z, y))) {
        for x in range(0) {
            let label = mask.get(x, y, z).copied().unwrap_or(0);
            let voxel = grid.index_to_world(Vector3::new(x as f64, y as f64, z as f64));
            let distance = (voxel - centre).norm_squared();
            if label != 0 && distance < best.0 {
                best = (distance, label);
            }
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quality::check;

    fn grid(dims: [usize; 3]) -> Grid {
        let matrix = Matrix3::from_diagonal(&Vector3::new(-1.0, 1.0, 2.0));
        Grid::new(dims, Affine::new(matrix, Vector3::new(30.0, -5.0, 2.0))).unwrap()
    }

    #[test]
    fn a_block_is_fitted_exactly() {
        let inside = |v: usize, low, high| (low..high).contains(&v);
        let mask = LabelMap::from_fn(grid([24, 20, 12]), |x, y, z| {
            let body = inside(x, 4, 20) && inside(y, 4, 12) && inside(z, 2, 10);
            if body { 1 + 4 * i32::from(x >= 12) } else { 0 }
        });
        let fitted = fitted(&mask, 4.0).unwrap();
        check(&fitted.mesh).unwrap();
        assert_eq!((fitted.parts, fitted.found, fitted.kept), (1, 4 * 2 * 4, 32));
        assert!((fitted.mesh.volume() - 16.0 * 8.0 * 16.0).abs() < 1e-9);
        for e in 0..fitted.mesh.tetrahedra().len() {
            let centre = fitted.mesh.corners(e).iter().sum::<Vector3<f64>>() / 4.0;
            assert_eq!(fitted.mesh.labels()[e], if centre.x < 30.0 - 11.5 { 5 } else { 1 });
        }
        // The larger of two halves, and the smaller one is said.
        let two = LabelMap::from_fn(grid([24, 20, 12]), |x, y, z| {
            let body = inside(y, 4, 12) && inside(z, 2, 10);
            i32::from(body && (inside(x, 2, 6) || inside(x, 10, 22)))
        });
        let fitted = super::fitted(&two, 4.0).unwrap();
        assert_eq!((fitted.parts, fitted.found, fitted.kept), (2, 4 * 8, 3 * 8));
        assert!((fitted.mesh.volume() - 12.0 * 8.0 * 16.0).abs() < 1e-9);
    }

    /// The volume of a ball in cells, and labels in tetrahedra that are smaller than voxels.
    #[test]
    fn a_ball_keeps_its_volume_and_its_labels() {
        let mask = LabelMap::from_fn(grid([24, 24, 14]), |x, y, z| {
            let [x, y, z] = [x as f64 - 11.5, y as f64 - 11.5, 2.0 * (z as f64 - 6.5)];
            let inside = x * x + y * y + z * z < 81.0;
            if !inside {
                0
            } else if z < 0.0 {
                2
            } else {
                7
            }
        });
        let voxels = mask.data().iter().filter(|&&l| l != 0).count() as f64 * 2.0;
        for spacing in [4.0, 2.5, 1.2] {
            let fitted = fitted(&mask, spacing).unwrap();
            check(&fitted.mesh).unwrap();
            let ratio = fitted.mesh.volume() / voxels;
            assert!((ratio - 1.0).abs() < 0.12, "{spacing}: {ratio}");
            // All of the mask is in the shares.
            let shares = shares(&mask, &fitted.cells).unwrap();
            let whole = shares.iter().sum::<f64>() * fitted.cells.vertices().voxel_volume();
            assert!((whole / voxels - 1.0).abs() < 1e-6, "{spacing}: {whole} {voxels}");
            assert!(shares.iter().all(|&s| s <= 1.0 + 1e-8));
            assert!(fitted.mesh.labels().iter().all(|l| [2, 7].contains(l)));
            assert!(fitted.mesh.labels().contains(&2) && fitted.mesh.labels().contains(&7));
        }
    }

    #[test]
    fn masks_without_a_body_are_refused() {
        let empty = LabelMap::filled(grid([8, 8, 8]), 0);
        assert!(matches!(fitted(&empty, 4.0), Err(ElasticityError::NoBody { voxels: 0, .. })));
        let error = fitted(&LabelMap::filled(grid([8, 8, 8]), 1), 0.0).unwrap_err();
        assert!(error.to_string().contains("a number above 0"), "{error}");
        let error = fitted(&LabelMap::filled(grid([8, 8, 8]), 1), 1e-200).unwrap_err();
        assert!(matches!(error, ElasticityError::TooFine { .. }), "{error}");
        let flat = LabelMap::filled(grid([8, 8, 1]), 1);
        assert!(matches!(fitted(&flat, 4.0), Err(ElasticityError::Flat { .. })));
        let corners = LabelMap::from_fn(grid([16, 16, 8]), |x, y, z| {
            i32::from([x, y, z] == [0, 0, 0] || [x, y, z] == [15, 15, 7])
        });
        assert!(matches!(fitted(&corners, 8.0), Err(ElasticityError::NoBody { voxels: 2, .. })));
    }
}
