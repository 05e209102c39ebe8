//! VTK cells: lists of vertex indices.

use super::bytes::{AGAIN, Values, index};
use super::parts::Parts;
use crate::error::{IoError, Result};
use std::path::Path;
use voxalign_image::memory;

/// Cells: their vertices, and where each ends among them.
#[derive(Debug, Default)]
pub(crate) struct Cells {
    ends: Vec<usize>,
    vertices: Vec<u32>,
}

impl Cells {
    /// Cells of which each is preceded by the number of its vertices.
    pub(crate) fn counted(path: &Path, values: &Values<'_>, number: usize) -> Result<Self> {
        let refused = |e| IoError::memory(path, e);
        if number > values.len() {
            let problem = format!("{number} cells are said to be in {} numbers", values.len());
            return Err(IoError::malformed(path, problem, AGAIN));
        }
        let mut ends = memory::room(number).map_err(refused)?;
        let mut vertices = memory::room(values.len() - number).map_err(refused)?;
        let mut at = 0usize;
        for cell in 0..number {
            let count = values.at(at);
            let end = (at + 1).saturating_add(index(path, count)? as usize);
            if at >= values.len() || end > values.len() {
                let problem = format!(
                    "cell {cell} of {count} vertices goes beyond the {} numbers of all cells",
                    values.len()
                );
                return Err(IoError::malformed(path, problem, AGAIN));
            }
            for i in at + 1..end {
                memory::push(&mut vertices, index(path, values.at(i))?).map_err(refused)?;
            }
            ends.push(vertices.len());
            at = end;
        }
        Ok(Self { ends, vertices })
    }

    /// Cells by where each ends; a first offset that is where the first begins is left out before by `skip`.
    pub(crate) fn ended(
        path: &Path,
        offsets: &Values<'_>,
        skip: usize,
        connectivity: &Values<'_>,
    ) -> Result<Self> {
        let refused = |e| IoError::memory(path, e);
        let mut ends = memory::room(offsets.len().saturating_sub(skip)).map_err(refused)?;
        let mut last = 0;
        for offset in offsets.iter().skip(skip) {
            let end = offset as usize;
            if offset.fract() != 0.0 || offset < last as f64 || end > connectivity.len() {
                let problem = format!(
                    "a cell ends at {offset}, after one that ends at {last}, of {} vertices",
                    connectivity.len()
                );
                return Err(IoError::malformed(path, problem, AGAIN));
            }
            ends.push(end);
            last = end;
        }
        Ok(Self { ends, vertices: connectivity.indices(path)? })
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u32]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| self.vertices.get(start..end).unwrap_or(&[]))
    }

    /// All vertices counted from another one.
    pub(crate) fn shift(&mut self, path: &Path, by: usize) -> Result<()> {
        let by = u32::try_from(by).unwrap_or(u32::MAX);
        for vertex in &mut self.vertices {
            *vertex = vertex.checked_add(by).ok_or_else(|| {
                IoError::malformed(path, format!("there is no vertex {vertex}"), AGAIN)
            })?;
        }
        Ok(())
    }

    /// Adds the cells of a kind to a mesh.
    pub(crate) fn add(&self, kind: Kind, parts: &mut Parts<'_>) -> Result<()> {
        match kind {
            Kind::Vertices => {
                if self.len() > 0 {
                    parts.say(format!("{} cells that are vertices were left out", self.len()));
                }
                Ok(())
            }
            Kind::Lines => self.iter().try_for_each(|line| parts.add_line(line.iter().copied())),
            Kind::Polygons => self.iter().try_for_each(|corners| parts.add_polygon(corners)),
            Kind::Strips => {
                if self.len() > 0 {
                    parts.say(format!("{} strips were cut into triangles", self.len()));
                }
                self.iter().try_for_each(|strip| parts.add_strip(strip))
            }
        }
    }
}

/// Values of cells, as a file has them.
#[derive(Debug)]
pub(crate) struct CellValues<'b> {
    pub(crate) name: String,
    pub(crate) components: usize,
    pub(crate) values: Values<'b>,
    pub(crate) is_direction: bool,
}

/// Kinds of cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Vertices,
    Lines,
    Polygons,
    Strips,
}

/// Adds cells whose kind is a number each, as in an unstructured grid.
pub(crate) fn add_typed(cells: &Cells, types: &Values<'_>, parts: &mut Parts<'_>) -> Result<()> {
    if types.len() != cells.len() {
        let (types, cells) = (types.len(), cells.len());
        return Err(parts.wrong(format!("there are {types} types of cells for {cells} cells")));
    }
    let mut points = 0;
    for (number, (cell, kind)) in cells.iter().zip(types.iter()).enumerate() {
        match (kind as u32, cell) {
            (1 | 2, _) => points += 1,
            (3 | 4, _) => parts.add_line(cell.iter().copied())?,
            (5 | 7 | 9, _) => parts.add_polygon(cell)?,
            (6, _) => parts.add_strip(cell)?,
            (8, &[a, b, c, d]) => parts.add_polygon(&[a, b, d, c])?,
            (other, _) => {
                let what =
                    format!("cell {number} is {}, not part of a surface or a curve", name(other));
                let remedy =
                    "extract the surface first, for example with ParaView's filter Extract Surface";
                return Err(IoError::unsupported(parts.path, what, remedy));
            }
        }
    }
    if points > 0 {
        parts.say(format!("{points} cells that are vertices were left out"));
    }
    Ok(())
}

/// A type of cells in words.
pub(crate) fn name(kind: u32) -> String {
    let name = match kind {
        8 => "a pixel of other than four corners",
        10 => "a tetrahedron",
        11 => "a voxel",
        12 => "a hexahedron",
        13 => "a wedge",
        14 => "a pyramid",
        21 => "a quadratic edge",
        22 => "a quadratic triangle",
        23 => "a quadratic quadrilateral",
        24 => "a quadratic tetrahedron",
        25 => "a quadratic hexahedron",
        41 => "a convex set of points",
        42 => "a polyhedron",
        _ => "a cell",
    };
    format!("{name} (type {kind} of VTK)")
}
