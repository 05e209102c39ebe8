//! What lists of points and meshes hold.

use super::{Facts, InfoArgs};
use crate::failure::Failure;
use crate::progress::{Printer, Talk};
use crate::words::typed;
use serde_json::{Value, json};
use std::path::Path;
use voxalign_image::{Mesh, Vector3};
use voxalign_io::mesh::{self, MeshInfo};
use voxalign_io::points;
use voxalign_jobs::carry::{Reading, mesh_remedy};
use voxalign_jobs::pair::landmark_remedy;
use voxalign_jobs::place::Place;
use voxalign_options::Text;

pub(super) fn about_points(file: &Path, args: &InfoArgs) -> Result<Facts, Failure> {
    let grid = args.points.grid(&Printer::lines(Talk::Normal))?;
    let reading = Reading { volume: args.which.volume, ..args.points.reading(grid.as_ref()) };
    let (set, info) = points::read(file, &reading.options())?;
    let mut facts = Facts::default();
    facts.put("file", file.display().to_string());
    facts.put("kind", "points");
    facts.put("format", info.format.to_string());
    let coordinates = info.convention.map_or("voxel indices".to_owned(), |c| c.to_string());
    facts.put("stored_coordinates", coordinates);
    facts.put("points", set.len());
    if info.without_position > 0 {
        facts.put("points_without_position", info.without_position);
    }
    let columns: Vec<_> = set.columns().iter().map(|(name, _)| name.clone()).collect();
    facts.put("further_columns", columns);
    if !set.is_empty() {
        let axes = if set.is_2d() { 2 } else { 3 };
        let fold = |f: fn(f64, f64) -> f64, start: f64| -> Vec<f64> {
            (0..axes).map(|a| set.points().iter().map(|p| p[a]).fold(start, f)).collect()
        };
        facts.put("smallest_mm", fold(f64::min, f64::MAX));
        facts.put("largest_mm", fold(f64::max, f64::MIN));
    }
    let mut odd: Vec<String> = info.oddities.iter().map(ToString::to_string).collect();
    if let Some(grid) = &grid {
        let place = Place::of(set.points(), grid);
        facts.put("points_on_the_image", place.inside);
        if 2 * place.inside < place.all {
            odd.push(typed(
                &Text::from(format!("{} of {} points lie on the image; ", place.inside, place.all))
                    .and(landmark_remedy(place.mistaken, &info)),
            ));
        }
    }
    facts.put("odd", odd);
    Ok(facts)
}

pub(super) fn about_mesh(file: &Path, args: &InfoArgs) -> Result<Facts, Failure> {
    let space = args.points.point_convention.map(Into::into);
    let (mesh, info) = mesh::read(file, &mesh::ReadOptions { space })?;
    let mut odd: Vec<String> = info.oddities.iter().map(ToString::to_string).collect();
    let mut facts = Facts::default();
    facts.put("file", file.display().to_string());
    facts.put("kind", "mesh");
    facts.put("format", info.format.to_string());
    facts.put("encoding", info.encoding.clone());
    facts.put("stored_coordinates", info.space.to_string());
    facts.put("coordinates_from", known_by(args, &info));
    facts.put("space", info.frame.clone().map_or(Value::Null, Value::from));
    facts.put("vertices", info.vertices);
    facts.put("triangles", info.faces);
    facts.put("lines", info.lines);
    facts.put("components", mesh.components()?);
    about_surface(&mut facts, &mut odd, &mesh)?;
    if info.lines > 0 {
        facts.put("length_mm", mesh.length());
    }
    if let Some([low, high]) = mesh.bounds() {
        let list = |v: Vector3<f64>| v.as_slice().to_vec();
        facts.put("smallest_mm", list(low));
        facts.put("largest_mm", list(high));
    }
    let array = |array: &voxalign_image::VertexData| {
        let direction = if array.is_direction { ", a direction" } else { "" };
        format!("{} ({}{direction})", array.name, array.components)
    };
    facts.put("arrays", mesh.data().iter().map(array).collect::<Vec<_>>());
    let counts = [
        (
            "degenerate_parts",
            mesh.without_degenerate()?.1,
            "faces without area, or steps of lines without length",
        ),
        ("duplicate_vertices", mesh.duplicate_vertices()?, "vertices at the place of another one"),
        ("unused_vertices", mesh.unused()?, "vertices that no face and no line has"),
    ];
    let alone = info.faces + info.lines == 0;
    for (name, count, words) in counts {
        facts.put(name, count);
        if count > 0 && !(alone && name == "unused_vertices") {
            odd.push(format!("{count} {words}"));
        }
    }
    about_place(&mut facts, &mut odd, args, &mesh, &info)?;
    facts.put("odd", odd);
    Ok(facts)
}

/// What says where the coordinates are.
fn known_by(args: &InfoArgs, info: &MeshInfo) -> &'static str {
    let unknown = info.frame.as_deref().is_some_and(|frame| frame.ends_with("UNKNOWN"));
    match (info.assumed, args.points.point_convention) {
        (false, _) if unknown => "the format; the file says that its space is unknown",
        (false, _) if info.format.has_world() => "the format",
        (false, _) => "the file",
        (true, Some(_)) => "--point-convention",
        (true, None) => "assumed: neither the file nor its format says it",
    }
}

fn about_surface(facts: &mut Facts, odd: &mut Vec<String>, mesh: &Mesh) -> Result<(), Failure> {
    if mesh.faces().is_empty() {
        return Ok(());
    }
    let boundary = mesh.boundary_edges()?;
    let contrary = mesh.contrary_edges()?;
    let volume = mesh.volume()?;
    facts.put("closed", boundary == 0);
    facts.put("boundary_edges", boundary);
    facts.put("area_mm2", mesh.area());
    facts.put("volume_mm3", json!(volume));
    if contrary > 0 {
        odd.push(format!("{contrary} edges whose faces are seen from different sides"));
    } else if volume.is_some_and(|v| v < 0.0) {
        odd.push("the surface is inside out: its faces are seen from within".to_owned());
    }
    Ok(())
}

/// Whether it lies on the image of --points-of.
fn about_place(
    facts: &mut Facts,
    odd: &mut Vec<String>,
    args: &InfoArgs,
    mesh: &Mesh,
    info: &MeshInfo,
) -> Result<(), Failure> {
    let Some(grid) = args.points.grid(&Printer::lines(Talk::Normal))? else { return Ok(()) };
    let place = Place::of(mesh.vertices(), &grid);
    facts.put("vertices_on_the_image", place.inside);
    if 2 * place.inside < place.all {
        odd.push(typed(
            &Text::from(format!("{} of {} vertices lie on the image; ", place.inside, place.all))
                .and(mesh_remedy(place.mistaken, info)),
        ));
    }
    Ok(())
}
