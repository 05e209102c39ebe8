//! The mesh of a body: from a file, over the fixed image, or of a mask.

use crate::error::{Error, Result};
use crate::files;
use crate::listener::{Level, Listener, reading};
use crate::options::{PointConvention, refuse};
use crate::run::{Input, Role};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use voxalign_elasticity::{TetraBox, fitted, snapped};
use voxalign_image::{Grid, LabelMap, TetraMesh, Vector3, memory};
use voxalign_io::tetra;
use voxalign_io::text;
use voxalign_options::text;

/// The edges of cells where nothing is said, mm.
pub const USUAL_SPACING_MM: f64 = 10.0;

/// The mesh of a body, and where it is held.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "clap", command(next_help_heading = "Mesh"))]
#[serde(default)]
pub struct MeshOptions {
    /// Mesh of linear tetrahedra in the world of the fixed image (of the moving one where slices are fixed), mm: VTK (.vtu, .vtk) or Gmsh (.msh), in one part that faces
    /// connect
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE"))]
    pub mesh: Option<PathBuf>,
    /// World coordinates of the vertices of --mesh, if its file does not state them [default: ras]
    #[cfg_attr(feature = "clap", arg(long, value_enum))]
    pub point_convention: Option<PointConvention>,
    /// Edges of the cells, each of six tetrahedra, of a mesh that is made over the fixed image, over the moving one where slices are fixed, or of
    /// --mesh-mask, mm
    /// [default: 10]
    #[cfg_attr(feature = "clap", arg(long, value_name = "MM", value_parser = crate::options::positive, allow_hyphen_values = true))]
    pub mesh_spacing: Option<f64>,
    /// Mask of the body, on any grid in the same world: the mesh is fitted to its largest part, with the surface where
    /// that of the mask is; its values other than 0 are the labels of the tetrahedra
    #[cfg_attr(feature = "clap", arg(long, value_name = "IMAGE"))]
    pub mesh_mask: Option<PathBuf>,
    /// Label map on any grid in that world: each tetrahedron has the label at most of its corners, centre and middles
    /// of edges, the lowest of several
    #[cfg_attr(feature = "clap", arg(long, value_name = "LABELS"))]
    pub mesh_labels: Option<PathBuf>,
    /// Labels whose vertices are held where they are, separated by commas
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "N,...", value_delimiter = ',', allow_hyphen_values = true)
    )]
    pub fix_label: Vec<i32>,
    /// Text file of vertices that are held, the number of one a line, counted from 0
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE"))]
    pub fix_nodes: Option<PathBuf>,
}

/// A mesh that was made.
pub(super) struct Meshed {
    pub(super) mesh: TetraMesh,
    /// The box that it is, where it is one.
    pub(super) cells: Option<TetraBox>,
    /// What the reader of the result should know.
    pub(super) remarks: Vec<String>,
}

impl MeshOptions {
    /// Refuses what would be ignored.
    pub(super) fn check(&self) -> Result<()> {
        let made = || text!("a mesh that is made, without `mesh`");
        refuse(self.mesh.is_some() && self.mesh_spacing.is_some(), "mesh_spacing", made())?;
        refuse(self.mesh.is_some() && self.mesh_mask.is_some(), "mesh_mask", made())?;
        let given = self.point_convention.is_some();
        refuse(
            given && self.mesh.is_none(),
            "point_convention",
            text!("a mesh in a file, by `mesh`"),
        )?;
        refuse(!self.fix_label.is_empty() && !self.has_labels(), "fix_label", with_labels())?;
        if let Some(spacing) = self.mesh_spacing.filter(|s| !(*s > 0.0 && s.is_finite())) {
            return Err(Error::input(text!(
                "`mesh_spacing` is {spacing}; give a number above 0, in mm"
            )));
        }
        Ok(())
    }

    /// Whether tetrahedra may have labels.
    pub(super) fn has_labels(&self) -> bool {
        self.mesh.is_some() || self.mesh_mask.is_some() || self.mesh_labels.is_some()
    }

    /// The edges of cells, mm, of a mesh that is made.
    pub(super) fn spacing(&self) -> Option<f64> {
        self.mesh.is_none().then(|| self.mesh_spacing.unwrap_or(USUAL_SPACING_MM))
    }

    /// The same mesh with cells that are so many times as large, where it is one that is made.
    pub(super) fn coarser(&self, times: f64) -> Option<Self> {
        let spacing = self.spacing()?;
        // Vertices that numbers name are of one mesh.
        let mesh_spacing = self.fix_nodes.is_none().then_some(times * spacing)?;
        Some(Self { mesh_spacing: Some(mesh_spacing), ..self.clone() })
    }

    /// All files that are read.
    pub(super) fn files(&self) -> Vec<Input<'_>> {
        let all = [
            (Role::Mesh, &self.mesh),
            (Role::MeshMask, &self.mesh_mask),
            (Role::MeshLabels, &self.mesh_labels),
            (Role::FixedNodes, &self.fix_nodes),
        ];
        Input::those_given(&all).collect()
    }

    /// What was given, for the record.
    pub(super) fn parameters(&self) -> Map<String, Value> {
        let given = serde_json::to_value(self).unwrap_or_default();
        let given = given.as_object().into_iter().flatten();
        let said =
            given.filter(|(_, v)| !v.is_null() && v.as_array().is_none_or(|a| !a.is_empty()));
        let mut all: Map<_, _> = said.map(|(name, value)| (name.clone(), value.clone())).collect();
        all.extend(self.spacing().map(|mm| ("mesh_spacing".to_owned(), mm.into())));
        all
    }

    /// The mesh, with its labels, for an image on a grid.
    pub(super) fn made(&self, fixed: &Grid, listener: &dyn Listener) -> Result<Meshed> {
        let at =
            |option: &'static str| move |e: Error| e.at(voxalign_options::Text::option(option));
        let spacing = self.mesh_spacing.unwrap_or(USUAL_SPACING_MM);
        let mut remarks = Vec::new();
        let (mut mesh, cells) = if let Some(path) = &self.mesh {
            (self.read(path, listener).map_err(at("mesh"))?, None)
        } else if let Some(path) = &self.mesh_mask {
            let mask = files::labels(path, listener).map_err(at("mesh_mask"))?;
            let of = |e: voxalign_elasticity::ElasticityError| {
                Error::from(e).at(format!("'{}'", path.display()))
            };
            let fit = fitted(&mask, spacing).map_err(of).map_err(at("mesh_mask"))?;
            if fit.parts > 1 {
                remarks.push(format!(
                    "the mask of the mesh has {} parts that no face connects; the largest, with {} of {} cells, is the body",
                    fit.parts, fit.kept, fit.found
                ));
            }
            (snapped(&fit, &mask).map_err(of)?, None)
        } else {
            let cells = TetraBox::over(fixed, spacing).map_err(Error::from);
            let cells = cells.map_err(at("mesh_spacing"))?;
            (cells.mesh()?, Some(cells))
        };
        if let Some(path) = &self.mesh_labels {
            let map = files::labels(path, listener).map_err(at("mesh_labels"))?;
            let labels = labelled(&mesh, &map)?;
            mesh = mesh.with_labels(labels)?;
        }
        Ok(Meshed { mesh, cells, remarks })
    }

    /// Reads the file of a mesh; what is odd about it becomes a warning.
    fn read(&self, path: &Path, listener: &dyn Listener) -> Result<TetraMesh> {
        let space = self.point_convention.map(Into::into);
        let options = tetra::ReadOptions { space, ..Default::default() };
        let (mesh, info) = reading(listener, || tetra::read(path, &options))?;
        for oddity in &info.oddities {
            listener.say(Level::Warning, format!("'{}': {oddity}", path.display()));
        }
        Ok(mesh)
    }

    /// The numbers of vertices in the file of those that are held.
    pub(super) fn nodes(&self, listener: &dyn Listener) -> Result<Vec<u32>> {
        let Some(path) = &self.fix_nodes else { return Ok(Vec::new()) };
        let text = reading(listener, || text::read(path))?;
        let mut all = Vec::new();
        for (line, words) in text.lines().enumerate().map(|(i, l)| (i + 1, l.trim())) {
            if words.is_empty() || words.starts_with('#') {
                continue;
            }
            let number = words.parse().map_err(|_| {
                Error::input(text!(
                    "'{}': line {line} is '{}', which is no number of a vertex; give one whole number from 0 a line",
                    path.display(),
                    shortened(words)
                ))
            })?;
            all.push(number);
        }
        if all.is_empty() {
            return Err(Error::input(text!(
                "'{}' has no numbers of vertices; give one a line, or leave `fix_nodes` out",
                path.display()
            )));
        }
        Ok(all)
    }
}

/// What options of labels are for.
pub(super) fn with_labels() -> voxalign_options::Text {
    text!("a mesh with labels: give `mesh_labels`, `mesh_mask`, or a `mesh` that has some")
}

/// The beginning of words of a file, for messages.
pub(super) fn shortened(words: &str) -> String {
    words.chars().take(40).flat_map(char::escape_debug).collect()
}

/// Places where the label of a tetrahedron is looked for, as weights of its corners: these, its centre, the middles of its edges.
const PLACES: [[f64; 4]; 11] = [
    [1.0, 0.0, 0.0, 0.0],
    [0.0, 1.0, 0.0, 0.0],
    [0.0, 0.0, 1.0, 0.0],
    [0.0, 0.0, 0.0, 1.0],
    [0.25; 4],
    [0.5, 0.5, 0.0, 0.0],
    [0.5, 0.0, 0.5, 0.0],
    [0.5, 0.0, 0.0, 0.5],
    [0.0, 0.5, 0.5, 0.0],
    [0.0, 0.5, 0.0, 0.5],
    [0.0, 0.0, 0.5, 0.5],
];

/// The label of each tetrahedron of a mesh in the world of a label map: that of the nearest voxels of most of its corners, its centre and
/// the middles of its edges, the lowest of several; 0 outside of the map.
///
/// # Errors
/// Memory that runs out.
pub fn labelled(mesh: &TetraMesh, map: &LabelMap) -> Result<Vec<i32>> {
    let (grid, dims) = (map.grid(), map.dims());
    let at = |point: Vector3<f64>| {
        let index = grid.world_to_index(point);
        let inside = (0..3).all(|a| index[a] > -0.5 && index[a] < dims[a] as f64 - 0.5);
        let near = |a: usize| (index[a].round().max(0.0) as usize).min(dims[a] - 1);
        let value = if inside { map.get(near(0), near(1), near(2)).copied() } else { None };
        value.unwrap_or(0)
    };
    let of = |e: usize| {
        let corners = mesh.corners(e);
        let mut all = PLACES.map(|weights| {
            let parts = corners.iter().zip(weights).map(|(corner, weight)| corner * weight);
            at(parts.fold(Vector3::zeros(), |sum, part| sum + part))
        });
        all.sort_unstable();
        // The first of the longest runs is that of the lowest label.
        let runs = all.chunk_by(|a, b| a == b).rev();
        runs.max_by_key(|run| run.len()).map_or(0, |run| run[0])
    };
    let count = mesh.tetrahedra().len();
    Ok(memory::par_collected((0..count).into_par_iter().map(of))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Silent;
    use voxalign_image::Volume;

    fn grid() -> Grid {
        Grid::axis_aligned([12, 10, 8], [2.0; 3]).unwrap()
    }

    /// The rule, counted label by label.
    #[test]
    fn tetrahedra_have_the_label_of_most_places() {
        let map =
            Volume::from_fn(Grid::axis_aligned([40, 40, 40], [0.7; 3]).unwrap(), |x, y, z| {
                ((x / 5 + 2 * (y / 6) + 3 * (z / 7)) % 5) as i32 - 1
            });
        let mesh = TetraBox::over(&grid(), 5.0).unwrap().mesh().unwrap();
        let found = labelled(&mesh, &map).unwrap();
        let mut outside = 0;
        for (e, label) in found.iter().enumerate() {
            let c = mesh.corners(e);
            let mut places = c.to_vec();
            places.push((c[0] + c[1] + c[2] + c[3]) / 4.0);
            for a in 0..4 {
                (a + 1..4).for_each(|b| places.push((c[a] + c[b]) / 2.0));
            }
            let mut counts = std::collections::BTreeMap::new();
            for p in places {
                let i = (p / 0.7).map(f64::round);
                let of = map.get(i[0] as usize, i[1] as usize, i[2] as usize);
                let inside = i.iter().all(|v| *v >= 0.0);
                outside += usize::from(!inside || of.is_none());
                *counts.entry(of.copied().filter(|_| inside).unwrap_or(0)).or_insert(0) += 1;
            }
            let most = *counts.values().max().unwrap();
            let lowest = counts.iter().find(|(_, n)| **n == most).unwrap().0;
            assert_eq!(label, lowest, "{e}: {counts:?}");
        }
        assert!(outside > 0 && found.iter().collect::<std::collections::BTreeSet<_>>().len() == 5);
    }

    #[test]
    fn nodes_are_numbers_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nodes.txt");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let options = MeshOptions { fix_nodes: Some(path.clone()), ..Default::default() };
            options.nodes(&Silent).map_err(|e| e.to_string())
        };
        assert_eq!(read("# held\n3\n\n 0 \n"), Ok(vec![3, 0]));
        for (bad, said) in [("1\n-2\n", "line 2 is '-2'"), ("1.5", "line 1"), ("#\n", "no numbers")]
        {
            let error = read(bad).unwrap_err();
            assert!(error.contains(said) && error.contains("nodes.txt"), "{error}");
        }
    }

    #[test]
    fn what_would_be_ignored_is_refused() {
        let with = |text: &str| toml::from_str::<MeshOptions>(text).unwrap().check();
        assert!(with("mesh_spacing = 4\nmesh_mask = 'a.nii'\nfix_label = [1, -2]").is_ok());
        for (bad, said) in [
            ("mesh = 'a.vtu'\nmesh_spacing = 4", "`mesh_spacing` is for"),
            ("mesh = 'a.vtu'\nmesh_mask = 'a.nii'", "`mesh_mask` is for"),
            ("point_convention = 'lps'", "`point_convention` is for"),
            ("fix_label = [1]", "`fix_label` is for a mesh with labels"),
            ("mesh_spacing = 0.0", "`mesh_spacing` is 0"),
        ] {
            let error = with(bad).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
