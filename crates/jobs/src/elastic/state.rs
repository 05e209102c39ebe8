//! The state of a body as a mesh with values, which is written, looked at, and continued from.

use super::measures::Measures;
use crate::error::{Error, Result};
use crate::listener::{Listener, reading};
use std::path::Path;
use voxalign_elasticity::State;
use voxalign_image::{TetraMesh, Vector3, VertexData, memory};
use voxalign_io::tetra;
use voxalign_options::text;
use voxalign_register::model::elastic::ElasticResult;

/// The names of the values of vertices.
const OF_STATE: [&str; 3] = ["displacement", "velocity", "acceleration"];

/// How far vertices of the same mesh at rest may be apart after both went through a file, mm.
const SAME_MM: f64 = 1e-3;

/// A body as it ended: the mesh with its vertices at rest and their displacements added, in the fixed world before the affine part.
///
/// Its vertices have a displacement (mm), a velocity (mm/s) and an acceleration (mm/s²), its tetrahedra the label (0 without one), the
/// strain from rest (xx, yy, zz, yz, zx, xy with engineering shears), the equivalent stress of von Mises (kPa), and the volume over that
/// at rest.
///
/// # Errors
/// Memory that runs out.
pub fn deformed(body: &ElasticResult, measures: &Measures) -> Result<TetraMesh> {
    let rest = body.body.mesh();
    let State { displacements, velocities, accelerations } = &body.state;
    let moved = rest.vertices().iter().zip(displacements).map(|(at, by)| at + by);
    let mesh = TetraMesh::new(memory::collected(moved)?, memory::copied(rest.tetrahedra())?)?;
    let labels = match rest.labels() {
        [] => memory::filled(rest.tetrahedra().len(), 0)?,
        labels => memory::copied(labels)?,
    };
    let data = |name: &str, components: usize, values: Vec<f32>, is_direction: bool| VertexData {
        name: name.to_owned(),
        components,
        values,
        is_direction,
    };
    let mut of_vertices = Vec::new();
    for (name, vectors) in OF_STATE.into_iter().zip([displacements, velocities, accelerations]) {
        let mut values = memory::room(3 * vectors.len())?;
        values.extend(vectors.iter().flat_map(|v| [v.x as f32, v.y as f32, v.z as f32]));
        of_vertices.push(data(name, 3, values, true));
    }
    let mut strain = memory::room(6 * measures.strains.len())?;
    strain.extend(measures.strains.iter().flatten().map(|v| *v as f32));
    let single = |values: &[f64]| memory::collected(values.iter().map(|v| *v as f32));
    let of_cells = vec![
        data("strain", 6, strain, false),
        data("von_mises", 1, single(&measures.von_mises)?, false),
        data("volume_ratio", 1, single(&measures.ratios)?, false),
    ];
    Ok(mesh.with_labels(labels)?.with_data(of_vertices, of_cells)?)
}

/// Reads where a body was and how it moved from the `mesh.vtu` of an earlier run with the same mesh, which `rest` is.
///
/// # Errors
/// A file that is no mesh, one without these values, and one of another mesh.
pub fn read_state(path: &Path, rest: &TetraMesh, listener: &dyn Listener) -> Result<State> {
    let (mesh, _) = reading(listener, || tetra::read(path, &tetra::ReadOptions::default()))?;
    let wrong = |what: String| Error::input(text!("'{}': {what}", path.display()));
    let values = |name: &str| {
        let of = mesh.vertex_data().iter().find(|d| d.name == name && d.components == 3);
        let of = of.ok_or_else(|| {
            wrong(format!(
                "its vertices have no {name} of three components; give the mesh.vtu of an earlier run"
            ))
        })?;
        if !of.values.iter().all(|v| v.is_finite()) {
            return Err(wrong(format!("its {name} is not finite; give that of another run")));
        }
        let vector = |v: &[f32]| Vector3::from_iterator(v.iter().map(|c| f64::from(*c)));
        Ok(memory::collected(of.values.chunks_exact(3).map(vector))?)
    };
    let [displacements, velocities, accelerations] =
        [values(OF_STATE[0])?, values(OF_STATE[1])?, values(OF_STATE[2])?];
    let count = [mesh.vertices().len(), rest.vertices().len()];
    let places = mesh.vertices().iter().zip(&displacements).zip(rest.vertices());
    let apart = places.map(|((at, by), rest)| (at - by - rest).norm()).fold(0.0, f64::max);
    if count[0] != count[1] || mesh.tetrahedra() != rest.tetrahedra() {
        return Err(wrong(format!(
            "it is of another mesh: it has {} vertices and {} tetrahedra, this one {} and {}; give the same options of the mesh as \
             in the run that wrote it",
            count[0],
            mesh.tetrahedra().len(),
            count[1],
            rest.tetrahedra().len()
        )));
    }
    if apart > SAME_MM {
        return Err(wrong(format!(
            "it is of another mesh: vertices at rest are up to {apart:.3} mm away from those of this one; give the same options of \
             the mesh and the same fixed image as in the run that wrote it"
        )));
    }
    Ok(State { displacements, velocities, accelerations })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Silent;
    use crate::elastic::of_image;
    use std::sync::Arc;
    use voxalign_image::Grid;

    /// What is written is read as it was, to the digits of 32 bits, and is of its mesh alone.
    #[test]
    fn a_state_goes_through_a_file() {
        let made = |spacing: f64| {
            let grid = Grid::axis_aligned([10, 12, 9], [2.0; 3]).unwrap();
            of_image(&grid, spacing, Default::default()).unwrap()
        };
        let made_of = made(6.0);
        let level = made_of.finest();
        let rest = level.body.mesh();
        let vectors = |scale: f64| -> Vec<Vector3<f64>> {
            let of = |v: &Vector3<f64>| Vector3::new((v.y / 9.0).sin(), v.x / 40.0, 0.1) * scale;
            rest.vertices().iter().map(of).collect()
        };
        let (displacements, velocities, accelerations) =
            (vectors(1.0), vectors(-3.0), vectors(7.0));
        let body = ElasticResult {
            body: Arc::clone(&level.body),
            fixed: level.fixed.clone(),
            state: State { displacements, velocities, accelerations },
            cuts: 0,
            held: Default::default(),
            times: Default::default(),
            setup_seconds: 0.0,
        };
        let measures = Measures::of(&body, &[], 0.02).unwrap();
        assert!(!measures.at_rest && measures.least.ratio < 1.0);
        let mesh = deformed(&body, &measures).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mesh.vtu");
        tetra::write(&path, &mesh, &tetra::WriteOptions::default()).unwrap();
        let read = read_state(&path, rest, &Silent).unwrap();
        for (a, b) in [
            (&read.displacements, &body.state.displacements),
            (&read.velocities, &body.state.velocities),
            (&read.accelerations, &body.state.accelerations),
        ] {
            let apart = a.iter().zip(b).map(|(a, b)| (a - b).norm()).fold(0.0, f64::max);
            assert!(a.len() == b.len() && apart < 1e-5, "{apart}");
        }
        let finer = made(4.0);
        let error = read_state(&path, finer.finest().body.mesh(), &Silent).unwrap_err().to_string();
        assert!(error.contains("another mesh") && error.contains("mesh.vtu"), "{error}");
        let elsewhere = rest.vertices().iter().map(|v| v + Vector3::new(0.0, 0.0, 0.01)).collect();
        let elsewhere = rest.clone().with_vertices(elsewhere).unwrap();
        let error = read_state(&path, &elsewhere, &Silent).unwrap_err().to_string();
        assert!(error.contains("0.010 mm away"), "{error}");
        tetra::write(&path, rest, &tetra::WriteOptions::default()).unwrap();
        let error = read_state(&path, rest, &Silent).unwrap_err().to_string();
        assert!(error.contains("no displacement"), "{error}");
    }
}
