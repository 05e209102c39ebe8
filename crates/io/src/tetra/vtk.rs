//! Legacy VTK: the tetrahedra of unstructured grids.

use super::parts::Body;
use super::{LABEL, WriteOptions};
use crate::atomic;
use crate::error::{IoError, Result};
use crate::mesh::vtk::{Reader, Writer, dataset, write_data};
use std::io;
use std::path::Path;
use voxalign_image::TetraMesh;

/// The number of the type of a tetrahedron.
pub(super) const TETRAHEDRON: u8 = 10;

pub(super) fn read<'a>(path: &'a Path, bytes: &[u8]) -> Result<Body<'a>> {
    let Reader { mut parts, cells, types, cell_values, .. } = dataset(path, bytes, true)?;
    // Cells of polygonal data, and strips and polygons as the triangles that they are made of.
    let lower = [0, parts.line_ends.len(), parts.faces.len()];
    (parts.line_ends, parts.line_vertices, parts.faces) = Default::default();
    let mut body = Body::new(parts);
    body.ignored = lower;
    let Some(cells) = cells else { return Ok(body) };
    let types = types.ok_or_else(|| body.parts.wrong("there are CELLS without CELL_TYPES"))?;
    let kept = body.add_typed(&cells, &types)?;
    for array in cell_values.unwrap_or_default() {
        body.add_array(array, &kept, cells.len(), false)?;
    }
    Ok(body)
}

pub(super) fn write(path: &Path, mesh: &TetraMesh, options: &WriteOptions) -> Result<()> {
    if i32::try_from(5 * mesh.vertices().len().max(mesh.tetrahedra().len())).is_err() {
        let what = "legacy VTK counts by 32 bits, which are too few for this mesh";
        return Err(IoError::unsupported(path, what, "write .vtu"));
    }
    atomic::write_file(path, |sink| {
        write_to(&mut Writer::new(sink, options.as_text), mesh, options)
    })
}

fn write_to(to: &mut Writer<'_>, mesh: &TetraMesh, options: &WriteOptions) -> io::Result<()> {
    let cells = mesh.tetrahedra().len();
    to.points("UNSTRUCTURED_GRID", mesh.vertices(), options.space)?;
    writeln!(to.sink, "CELLS {cells} {}", 5 * cells)?;
    for corners in mesh.tetrahedra() {
        to.int(4)?;
        corners.iter().try_for_each(|&i| to.int(i as i32))?;
    }
    to.end()?;
    writeln!(to.sink, "CELL_TYPES {cells}")?;
    (0..cells).try_for_each(|_| to.int(TETRAHEDRON.into()))?;
    to.end()?;
    if !mesh.vertex_data().is_empty() {
        writeln!(to.sink, "POINT_DATA {}", mesh.vertices().len())?;
        write_data(to, mesh.vertex_data(), options.space)?;
    }
    if mesh.cell_data().is_empty() && mesh.labels().is_empty() {
        return Ok(());
    }
    writeln!(to.sink, "CELL_DATA {cells}")?;
    if !mesh.labels().is_empty() {
        writeln!(to.sink, "SCALARS {LABEL} int 1\nLOOKUP_TABLE default")?;
        mesh.labels().iter().try_for_each(|&label| to.int(label))?;
        to.end()?;
    }
    write_data(to, mesh.cell_data(), options.space)
}
