//! VTK XML of unstructured grids, in the coding that polygonal data have, too.

use super::parts::Body;
use super::vtk::TETRAHEDRON;
use super::{LABEL, WriteOptions};
use crate::error::Result;
use crate::mesh::cells::{CellValues, Cells};
use crate::mesh::parts::Parts;
use crate::mesh::vtp::{
    Opened, Section, data_section, join_data, open, points_section, write_sections, written,
};
use std::path::Path;
use voxalign_image::TetraMesh;

pub(super) fn read<'a>(path: &'a Path, bytes: &[u8]) -> Result<Body<'a>> {
    let file = open(path, bytes, "UnstructuredGrid")?;
    let mut body = Body::new(Parts::new(path, ""));
    for piece in 0..file.pieces() {
        add_piece(piece, &file, &mut body)?;
    }
    join_data(file.pieces(), &mut body.parts);
    file.state_space(&mut body.parts)?;
    Ok(body)
}

/// Adds a piece to the mesh.
fn add_piece(piece: usize, file: &Opened<'_>, body: &mut Body<'_>) -> Result<()> {
    let path = body.path();
    let before = file.add_points(piece, &mut body.parts)?;
    file.add_point_data(piece, &mut body.parts)?;
    let array = |name: &str| {
        let array = file.named(piece, "Cells", name);
        array.map(|array| file.values(path, array)).transpose()
    };
    let (Some(connectivity), Some(offsets), Some(types)) =
        (array("connectivity")?, array("offsets")?, array("types")?)
    else {
        return Ok(());
    };
    let mut cells = Cells::ended(path, &offsets, 0, &connectivity)?;
    cells.shift(path, before)?;
    let kept = body.add_typed(&cells, &types)?;
    for array in file.own(piece, "CellData") {
        if array.start.get("type") == Some("String") {
            continue;
        }
        let values = CellValues {
            name: array.start.get("Name").unwrap_or_default().to_owned(),
            components: array.components(path)?,
            values: file.values(path, array)?,
            is_direction: file.is_direction(piece, array),
        };
        body.add_array(values, &kept, cells.len(), piece > 0)?;
    }
    Ok(())
}

pub(super) fn write(path: &Path, mesh: &TetraMesh, options: &WriteOptions) -> Result<()> {
    let (points, cells) = (mesh.vertices().len(), mesh.tetrahedra().len());
    let counts = format!("NumberOfPoints=\"{points}\" NumberOfCells=\"{cells}\"");
    let (mut cell_tag, mut cell_arrays) = data_section("CellData", mesh.cell_data(), options.space);
    if !mesh.labels().is_empty() {
        let labels = || mesh.labels().iter().map(|label| label.to_le_bytes());
        cell_arrays.insert(0, written("Int32", LABEL, 1, cells, move || Box::new(labels())));
        cell_tag += &format!(" Scalars=\"{LABEL}\"");
    }
    let sections = [
        data_section("PointData", mesh.vertex_data(), options.space),
        (cell_tag, cell_arrays),
        points_section(mesh.vertices(), options.space),
        cells_section(mesh),
    ];
    write_sections(path, ["UnstructuredGrid", &counts], &sections, options.space, options.as_text)
}

fn cells_section(mesh: &TetraMesh) -> Section<'_> {
    let cells = mesh.tetrahedra().len();
    let arrays = vec![
        written("Int64", "connectivity", 1, 4 * cells, move || {
            Box::new(mesh.tetrahedra().iter().flatten().map(|&i| i64::from(i).to_le_bytes()))
        }),
        written("Int64", "offsets", 1, cells, move || {
            Box::new((1..=cells).map(|n| (4 * n as i64).to_le_bytes()))
        }),
        written("UInt8", "types", 1, cells, move || Box::new((0..cells).map(|_| [TETRAHEDRON]))),
    ];
    ("Cells".to_owned(), arrays)
}
