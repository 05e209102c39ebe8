//! Arguments of operators on meshes, checked for all backends.

use super::{BinGrid, BinLists, Gather, Hint, KuhnBox, MOST_ELEMENTS, Mesh, Placed, Samples};
use crate::AffineMap;
use crate::device::{DeviceBuffer, Memory};
use crate::error::{ComputeError, Result, check_len, voxels};

/// The numbers of nodes and elements of a mesh.
pub(crate) fn check_elements<D: Memory>(mesh: &Mesh<'_, D>) -> Result<(usize, usize)> {
    let (nodes, elements) = (mesh.nodes.len() / 3, mesh.corners.len() / 4);
    check_len("nodes", 3 * nodes, mesh.nodes.len())?;
    check_len("corners of tetrahedra", 4 * elements, mesh.corners.len())?;
    if elements > MOST_ELEMENTS {
        return Err(ComputeError::argument("number of tetrahedra", elements, "at most 536870911"));
    }
    if nodes == 0 && elements > 0 {
        // No corner is a node.
        check_len("nodes", 3, mesh.nodes.len())?;
    }
    if let Some(of) = mesh.kuhn {
        check_map("map of a box of tetrahedra", &of.map)?;
        voxels("cells of a box of tetrahedra", of.cells)?;
        check_len("nodes", of.nodes().saturating_mul(3), mesh.nodes.len())?;
        check_len("corners of tetrahedra", of.elements().saturating_mul(4), mesh.corners.len())?;
    }
    Ok((nodes, elements))
}

fn check_map(what: &'static str, map: &AffineMap) -> Result<()> {
    if map.iter().flatten().all(|v| v.is_finite()) {
        return Ok(());
    }
    Err(ComputeError::argument(what, format!("{map:?}"), "finite"))
}

/// The number of samples.
fn check_samples<D: Memory>(samples: &Samples<'_, D>) -> Result<usize> {
    check_map("map of samples", &samples.map)?;
    let Some(points) = samples.points else { return voxels("grid of samples", samples.dims) };
    check_len("points", points.len() / 3 * 3, points.len())?;
    Ok(points.len() / 3)
}

/// How elements of samples are found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Way {
    /// The number of samples.
    pub(crate) samples: usize,
    /// From what samples are given by to the space of the nodes, or to cells in a box.
    pub(crate) map: AffineMap,
    /// The box, where samples are in one.
    pub(crate) kuhn: Option<KuhnBox>,
}

/// A map after another one.
fn composed(outer: &AffineMap, inner: &AffineMap) -> AffineMap {
    let mut map = [[0.0; 4]; 3];
    for (row, outer) in map.iter_mut().zip(outer) {
        for (c, value) in row.iter_mut().enumerate() {
            *value = outer[0] * inner[0][c] + outer[1] * inner[1][c] + outer[2] * inner[2][c];
        }
        row[3] += outer[3];
    }
    map
}

fn way<D: Memory>(mesh: &Mesh<'_, D>, samples: &Samples<'_, D>) -> Result<Way> {
    let count = check_samples(samples)?;
    let map = mesh.kuhn.map_or(samples.map, |kuhn| composed(&kuhn.map, &samples.map));
    check_map("map of samples", &map)?;
    Ok(Way { samples: count, map, kuhn: mesh.kuhn })
}

/// Checks the arguments of [`Tetrahedra::locate`](super::Tetrahedra::locate).
pub(crate) fn check_locate<D: Memory>(
    mesh: &Mesh<'_, D>,
    samples: &Samples<'_, D>,
    bins: Option<&BinLists<'_, D>>,
    hint: Option<&Hint<'_, D>>,
    found: usize,
) -> Result<Way> {
    let (_, elements) = check_elements(mesh)?;
    let way = way(mesh, samples)?;
    check_len("elements of samples", way.samples, found)?;
    match bins {
        Some(bins) => {
            let count = check_grid(&bins.grid)?;
            check_len("starts of bins", count + 1, bins.starts.len())?;
        }
        None if mesh.kuhn.is_some() => {}
        None => {
            return Err(ComputeError::argument("bins of a mesh", "none", "given, but for a box"));
        }
    }
    if let Some(hint) = hint {
        check_len("elements where samples were", way.samples, hint.elements.len())?;
        check_len("neighbours of elements", 4 * elements, hint.neighbours.len())?;
    }
    Ok(way)
}

/// Checks samples that are placed.
pub(crate) fn check_placed<D: Memory>(placed: &Placed<'_, D>) -> Result<Way> {
    check_elements(&placed.mesh)?;
    let way = way(&placed.mesh, &placed.samples)?;
    match placed.elements {
        _ if way.kuhn.is_some() => {}
        Some(elements) => check_len("elements of samples", way.samples, elements.len())?,
        None => {
            let expected = "given, but for a box";
            return Err(ComputeError::argument("elements of samples", "none", expected));
        }
    }
    Ok(way)
}

/// The number of components of values at nodes and at samples: 1 or 3.
pub(crate) fn values_of(
    nodes: usize,
    at_nodes: usize,
    samples: usize,
    at_samples: usize,
) -> Result<usize> {
    // Without nodes the samples tell.
    let is_one = if nodes > 0 { at_nodes == nodes } else { at_samples == samples };
    let components = if is_one { 1 } else { 3 };
    check_len("values at nodes", components * nodes, at_nodes)?;
    check_len("values at samples", components * samples, at_samples)?;
    Ok(components)
}

/// Checks the arguments of [`Tetrahedra::field`](super::Tetrahedra::field).
pub(crate) fn check_field<D: Memory>(
    placed: &Placed<'_, D>,
    displacements: usize,
    units: &[[f64; 3]; 3],
    out: usize,
) -> Result<Way> {
    let way = check_placed(placed)?;
    check_len("displacements of nodes", placed.mesh.nodes.len(), displacements)?;
    check_len("displacements of samples", way.samples.saturating_mul(3), out)?;
    if units.iter().flatten().all(|v| v.is_finite()) {
        return Ok(way);
    }
    Err(ComputeError::argument("units of a displacement", format!("{units:?}"), "finite"))
}

/// Checks the arguments of [`Tetrahedra::to_nodes`](super::Tetrahedra::to_nodes); the lists, where they are gone by: not for voxels in a box.
pub(crate) fn check_nodes<'a, D: Memory>(
    placed: &Placed<'_, D>,
    lists: Option<Gather<'a, D>>,
) -> Result<Option<Gather<'a, D>>> {
    if placed.mesh.kuhn.is_some() && placed.samples.points.is_none() {
        return Ok(None);
    }
    let (nodes, elements) = check_elements(&placed.mesh)?;
    let Some(lists) = lists else {
        let expected = "given, but for the voxels of a grid in a box";
        return Err(ComputeError::argument("lists of samples", "none", expected));
    };
    check_len("starts of samples", elements + 1, lists.starts.len())?;
    check_len("listed samples", check_samples(&placed.samples)?, lists.samples.len())?;
    check_len("starts of the incidence", nodes + 1, lists.incidence.starts.len())?;
    check_len("corners of the incidence", 4 * elements, lists.incidence.corners.len())?;
    Ok(Some(lists))
}

/// Checks the arguments of [`Tetrahedra::sample_covectors`](super::Tetrahedra::sample_covectors).
pub(crate) fn check_covectors<D: Memory>(
    placed: &Placed<'_, D>,
    nodes: usize,
    covectors: usize,
    out: usize,
) -> Result<Way> {
    let way = check_placed(placed)?;
    check_len("other positions of nodes", placed.mesh.nodes.len(), nodes)?;
    check_len("covectors of samples", way.samples.saturating_mul(3), covectors)?;
    check_len("output", covectors, out)?;
    Ok(way)
}

/// The inverse of a map, from cells to indices of voxels.
pub(crate) fn inverse_of(map: &AffineMap) -> Result<AffineMap> {
    let m = |r: usize, c: usize| map[r % 3][c % 3];
    let cofactor =
        |r: usize, c: usize| m(r + 1, c + 1) * m(r + 2, c + 2) - m(r + 1, c + 2) * m(r + 2, c + 1);
    let determinant: f64 = (0..3).map(|c| m(0, c) * cofactor(0, c)).sum();
    let mut inverse = [[0.0; 4]; 3];
    for (r, row) in inverse.iter_mut().enumerate() {
        for c in 0..3 {
            row[c] = cofactor(c, r) / determinant;
        }
        row[3] = -(row[0] * map[0][3] + row[1] * map[1][3] + row[2] * map[2][3]);
    }
    if inverse.iter().flatten().all(|v| v.is_finite()) {
        return Ok(inverse);
    }
    Err(ComputeError::argument("map from voxels to cells", format!("{map:?}"), "invertible"))
}

/// Checks a grid of bins; their number.
fn check_grid(grid: &BinGrid) -> Result<usize> {
    let count = voxels("bins", grid.dims)?;
    if count > i32::MAX as usize {
        return Err(ComputeError::argument("number of bins", count, "at most 2147483647"));
    }
    if !(grid.edge > 0.0 && grid.edge.is_finite() && grid.origin.iter().all(|v| v.is_finite())) {
        return Err(ComputeError::argument("grid of bins", format!("{grid:?}"), "finite"));
    }
    Ok(count)
}

/// Checks the arguments of [`Tetrahedra::bin_offsets`](super::Tetrahedra::bin_offsets); the numbers of nodes and elements.
pub(crate) fn check_bins<D: Memory>(
    mesh: &Mesh<'_, D>,
    grid: &BinGrid,
    offsets: usize,
    count: usize,
) -> Result<(usize, usize)> {
    let (nodes, elements) = check_elements(mesh)?;
    check_grid(grid)?;
    check_len("offsets of bins", elements, offsets)?;
    check_len("number of pairs", 1, count)?;
    Ok((nodes, elements))
}

/// Checks the arguments of [`Tetrahedra::bin_pairs`](super::Tetrahedra::bin_pairs); the numbers of nodes and elements.
pub(crate) fn check_pairs<D: Memory>(
    mesh: &Mesh<'_, D>,
    grid: &BinGrid,
    offsets: usize,
    bins: usize,
    elements: usize,
) -> Result<(usize, usize)> {
    check_len("elements in bins", bins, elements)?;
    check_bins(mesh, grid, offsets, 1)
}

/// Checks the arguments of [`Tetrahedra::key_starts`](super::Tetrahedra::key_starts).
pub(crate) fn check_starts(keys: usize, starts: usize) -> Result<()> {
    let most = u32::MAX as usize;
    if keys > most || starts > most {
        let expected = "at most 4294967295";
        return Err(ComputeError::argument("number of keys", keys.max(starts), expected));
    }
    Ok(())
}

/// Checks the arguments of [`Tetrahedra::ratios`](super::Tetrahedra::ratios); the numbers of nodes and elements.
pub(crate) fn check_ratios<D: Memory>(
    mesh: &Mesh<'_, D>,
    displacements: usize,
    ratios: usize,
    least: usize,
) -> Result<(usize, usize)> {
    let (nodes, elements) = check_elements(mesh)?;
    check_len("displacements of nodes", 3 * nodes, displacements)?;
    check_len("ratios of volumes", elements, ratios)?;
    check_len("least ratio and its element", 2, least)?;
    Ok((nodes, elements))
}

/// Checks the arguments of [`Tetrahedra::strain`](super::Tetrahedra::strain); the numbers of nodes and elements.
pub(crate) fn check_strain<D: Memory>(
    mesh: &Mesh<'_, D>,
    displacements: usize,
    shear: usize,
    strains: usize,
    mises: usize,
) -> Result<(usize, usize)> {
    let (nodes, elements) = check_elements(mesh)?;
    check_len("displacements of nodes", 3 * nodes, displacements)?;
    check_len("shear moduli", elements, shear)?;
    check_len("strains", 6 * elements, strains)?;
    check_len("stresses of von Mises", elements, mises)?;
    Ok((nodes, elements))
}
