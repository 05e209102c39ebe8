//! Contents of point lists and meshes.

use super::{Facts, Job};
use crate::carry::{Reading, mesh_remedy};
use crate::error::Result;
use crate::listener::Listener;
use crate::pair::landmark_remedy;
use crate::place::{Mistaken, Place};
use crate::run::Caller;
use serde_json::{Value, json};
use std::path::Path;
use voxalign_image::{Grid, Mesh, PointSet, Vector3, VertexData};
use voxalign_io::mesh::{self, MeshInfo};
use voxalign_io::points;
use voxalign_options::Text;

pub(super) fn about_points(
    file: &Path,
    job: &Job,
    caller: &Caller,
    listener: &dyn Listener,
) -> Result<Facts> {
    let grid = job.points.grid(listener)?;
    let reading = Reading { volume: job.which.volume, ..job.points.reading(grid.as_ref()) };
    let (set, info) = points::read(file, &reading.options())?;
    let mut facts = Facts::of_file(file, "points");
    facts.put("format", info.format.to_string());
    let coordinates = info.convention.map_or("voxel indices".to_owned(), |c| c.to_string());
    facts.put("stored_coordinates", coordinates);
    let mut own = of_points(&set);
    if info.without_position > 0 {
        own.list.insert(1, ("points_without_position".to_owned(), info.without_position.into()));
    }
    facts.add(own);
    facts.strange(&info.oddities);
    if let Some(grid) = &grid {
        let remedy = |mistaken| landmark_remedy(mistaken, &info);
        facts.add(about_place("points", set.points(), grid, &remedy, caller));
    }
    Ok(facts)
}

/// How many points there are and where, mm.
#[must_use]
pub fn of_points(set: &PointSet) -> Facts {
    let mut facts = Facts::default();
    facts.put("points", set.len());
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
    facts
}

pub(super) fn about_mesh(
    file: &Path,
    job: &Job,
    caller: &Caller,
    listener: &dyn Listener,
) -> Result<Facts> {
    let space = job.points.point_convention.map(Into::into);
    let (mesh, info) = mesh::read(file, &mesh::ReadOptions { space })?;
    let mut facts = Facts::of_file(file, "mesh");
    facts.put("format", info.format.to_string());
    facts.put("encoding", info.encoding.clone());
    facts.put("stored_coordinates", info.space.to_string());
    facts.put("coordinates_from", known_by(job, &info, caller));
    facts.put("space", info.frame.clone().map_or(Value::Null, Value::from));
    facts.strange(&info.oddities);
    facts.add(of_mesh(&mesh)?);
    if let Some(grid) = job.points.grid(listener)? {
        let remedy = |mistaken| mesh_remedy(mistaken, &info);
        facts.add(about_place("vertices", mesh.vertices(), &grid, &remedy, caller));
    }
    Ok(facts)
}

/// What says where the coordinates are.
fn known_by(job: &Job, info: &MeshInfo, caller: &Caller) -> String {
    let unknown = info.frame.as_deref().is_some_and(|frame| frame.ends_with("UNKNOWN"));
    match (info.assumed, job.points.point_convention) {
        (false, _) if unknown => "the format; the file states that its space is unknown".into(),
        (false, _) if info.format.has_world() => "the format".into(),
        (false, _) => "the file".into(),
        (true, Some(_)) => caller.say(Text::option("point_convention")),
        (true, None) => "assumed: neither the file nor its format states it".into(),
    }
}

/// What a mesh is made of, how large it is and where, mm, and whether it is closed.
///
/// # Errors
/// Memory that runs out.
pub fn of_mesh(mesh: &Mesh) -> Result<Facts> {
    let mut facts = Facts::default();
    let (faces, lines) = (mesh.faces().len(), mesh.lines().len());
    facts.put("vertices", mesh.vertices().len());
    facts.put("triangles", faces);
    facts.put("lines", lines);
    facts.put("components", mesh.components()?);
    if faces > 0 {
        facts.add(of_surface(mesh)?);
    }
    if lines > 0 {
        facts.put("length_mm", mesh.length());
    }
    if let Some([low, high]) = mesh.bounds() {
        let list = |v: Vector3<f64>| v.as_slice().to_vec();
        facts.put("smallest_mm", list(low));
        facts.put("largest_mm", list(high));
    }
    let array = |array: &VertexData| {
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
    let alone = faces + lines == 0;
    for (name, count, words) in counts {
        facts.put(name, count);
        let odd = count > 0 && !(alone && name == "unused_vertices");
        facts.strange(odd.then(|| format!("{count} {words}")));
    }
    Ok(facts)
}

fn of_surface(mesh: &Mesh) -> Result<Facts> {
    let mut facts = Facts::default();
    let boundary = mesh.boundary_edges()?;
    let contrary = mesh.contrary_edges()?;
    let volume = mesh.volume()?;
    facts.put("closed", boundary == 0);
    facts.put("boundary_edges", boundary);
    facts.put("area_mm2", mesh.area());
    facts.put("volume_mm3", json!(volume));
    if contrary > 0 {
        facts.strange([format!("{contrary} edges whose faces have opposite orientations")]);
    } else if volume.is_some_and(|v| v < 0.0) {
        facts.strange(["the surface is inside out: its faces are seen from within"]);
    }
    Ok(facts)
}

/// Whether points or vertices lie on the image that they belong to.
fn about_place(
    what: &str,
    points: &[Vector3<f64>],
    grid: &Grid,
    remedy: &dyn Fn(Option<Mistaken>) -> Text,
    caller: &Caller,
) -> Facts {
    let mut facts = Facts::default();
    let place = Place::of(points, grid);
    facts.put(&format!("{what}_on_the_image"), place.inside);
    if 2 * place.inside < place.all {
        let lie = format!("{} of {} {what} lie on the image; ", place.inside, place.all);
        facts.strange([caller.say(Text::from(lie).and(remedy(place.mistaken)))]);
    }
    facts
}
