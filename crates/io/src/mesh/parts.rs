//! The contents of a mesh file while it is read.

use super::bytes::{AGAIN, Values};
use super::{MeshFormat, MeshInfo, MeshSpace, ReadOptions};
use crate::error::{IoError, Result};
use crate::image::Oddity;
use std::path::Path;
use voxalign_image::{Mesh, Vector3, VertexData, memory};

/// A mesh in the space of its file, and what was said about it.
#[derive(Debug)]
pub(crate) struct Parts<'a> {
    pub(crate) path: &'a Path,
    pub(crate) vertices: Vec<Vector3<f64>>,
    pub(crate) faces: Vec<[u32; 3]>,
    pub(crate) line_ends: Vec<usize>,
    pub(crate) line_vertices: Vec<u32>,
    pub(crate) data: Vec<VertexData>,
    /// The space that the file says.
    pub(crate) stated: Option<MeshSpace>,
    pub(crate) encoding: String,
    /// What the file calls its space.
    pub(crate) frame: Option<String>,
    pub(crate) oddities: Vec<Oddity>,
    polygons: usize,
    small: usize,
}

impl<'a> Parts<'a> {
    pub(crate) fn new(path: &'a Path, encoding: impl Into<String>) -> Self {
        Self {
            path,
            vertices: Vec::new(),
            faces: Vec::new(),
            line_ends: Vec::new(),
            line_vertices: Vec::new(),
            data: Vec::new(),
            stated: None,
            encoding: encoding.into(),
            frame: None,
            oddities: Vec::new(),
            polygons: 0,
            small: 0,
        }
    }

    pub(crate) fn say(&mut self, words: impl Into<String>) {
        let oddity = Oddity::Other(words.into());
        // A file of a thousand odd arrays is not told of at length.
        if self.oddities.len() < 20 && !self.oddities.contains(&oddity) {
            self.oddities.push(oddity);
        }
    }

    /// An error about the content.
    pub(crate) fn wrong(&self, problem: impl Into<String>) -> IoError {
        IoError::malformed(self.path, problem, AGAIN)
    }

    /// Appends vertices, three values each.
    pub(crate) fn add_vertices(&mut self, values: &Values<'_>) -> Result<()> {
        if !values.len().is_multiple_of(3) {
            let len = values.len();
            return Err(self.wrong(format!("there are {len} coordinates, not three a vertex")));
        }
        let more =
            (0..values.len() / 3).map(|i| Vector3::from_fn(|axis, _| values.at(3 * i + axis)));
        if self.vertices.is_empty() {
            let vertices = memory::collected(more);
            self.vertices = vertices.map_err(|e| IoError::memory(self.path, e))?;
            return Ok(());
        }
        more.into_iter().try_for_each(|vertex| self.add_vertex(vertex))
    }

    pub(crate) fn add_vertex(&mut self, vertex: Vector3<f64>) -> Result<()> {
        memory::push(&mut self.vertices, vertex).map_err(|e| IoError::memory(self.path, e))
    }

    pub(crate) fn add_face(&mut self, face: [u32; 3]) -> Result<()> {
        memory::push(&mut self.faces, face).map_err(|e| IoError::memory(self.path, e))
    }

    /// Appends a polygon, as triangles that share its first corner.
    pub(crate) fn add_polygon(&mut self, corners: &[u32]) -> Result<()> {
        match *corners {
            [a, b, c] => self.add_face([a, b, c]),
            [first, ref rest @ ..] if rest.len() > 2 => {
                self.polygons += 1;
                rest.windows(2).try_for_each(|pair| match *pair {
                    [a, b] => self.add_face([first, a, b]),
                    _ => Ok(()),
                })
            }
            _ => {
                self.small += 1;
                Ok(())
            }
        }
    }

    /// Appends a strip of triangles, every other of which goes round backwards.
    pub(crate) fn add_strip(&mut self, strip: &[u32]) -> Result<()> {
        strip.windows(3).enumerate().try_for_each(|(i, corners)| match *corners {
            [a, b, c] if i % 2 == 0 => self.add_face([a, b, c]),
            [a, b, c] => self.add_face([b, a, c]),
            _ => Ok(()),
        })
    }

    pub(crate) fn add_line(&mut self, line: impl IntoIterator<Item = u32>) -> Result<()> {
        let refused = |e| IoError::memory(self.path, e);
        for vertex in line {
            memory::push(&mut self.line_vertices, vertex).map_err(refused)?;
        }
        memory::push(&mut self.line_ends, self.line_vertices.len()).map_err(refused)
    }

    /// Appends the next vertex of a line that is not ended yet, by a vertex of its own.
    pub(crate) fn add_line_point(&mut self, point: Vector3<f64>) -> Result<()> {
        let index = u32::try_from(self.vertices.len());
        let index = index.map_err(|_| self.wrong("there are more than 2^32 points"))?;
        self.add_vertex(point)?;
        memory::push(&mut self.line_vertices, index).map_err(|e| IoError::memory(self.path, e))
    }

    /// Values at the vertices.
    pub(crate) fn add_data(
        &mut self,
        name: impl Into<String>,
        components: usize,
        values: &Values<'_>,
        is_direction: bool,
    ) -> Result<()> {
        let values = memory::collected(values.iter().map(|v| v as f32));
        let values = values.map_err(|e| IoError::memory(self.path, e))?;
        let is_direction = is_direction && components == 3;
        self.data.push(VertexData { name: name.into(), components, values, is_direction });
        Ok(())
    }

    /// The mesh in RAS.
    pub(crate) fn finish(
        mut self,
        format: MeshFormat,
        options: &ReadOptions,
    ) -> Result<(Mesh, MeshInfo)> {
        if self.polygons > 0 {
            let n = self.polygons;
            self.say(format!("{n} polygons of more than three corners were cut into triangles"));
        }
        if self.small > 0 {
            self.say(format!("{} polygons of fewer than three corners were left out", self.small));
        }
        let (space, assumed) = self.place(format.has_world(), options.space);
        let path = self.path;
        let mesh = Mesh::new(self.vertices, self.faces)
            .and_then(|mesh| mesh.with_lines(self.line_ends, self.line_vertices))
            .and_then(|mesh| mesh.with_data(self.data))
            .map_err(|e| IoError::image(path, e))?;
        let info = MeshInfo {
            format,
            encoding: self.encoding,
            vertices: mesh.vertices().len(),
            faces: mesh.faces().len(),
            lines: mesh.lines().len(),
            space,
            assumed,
            frame: self.frame,
            oddities: self.oddities,
        };
        Ok((mesh, info))
    }

    /// Brings vertices and directions to RAS: the space of the file's coordinates, and whether the file does not say it.
    pub(crate) fn place(&mut self, has_world: bool, asked: Option<MeshSpace>) -> (MeshSpace, bool) {
        let assumed = !has_world && self.stated.is_none();
        let space = self.space(has_world, asked);
        if space == MeshSpace::Lps {
            self.vertices.iter_mut().for_each(|v| *v = space.convert(*v));
            self.data.iter_mut().for_each(turn_directions);
        }
        (space, assumed)
    }

    /// The space of the file's coordinates.
    fn space(&mut self, has_world: bool, asked: Option<MeshSpace>) -> MeshSpace {
        let stated = if has_world { Some(MeshSpace::Ras) } else { self.stated };
        match (stated, asked) {
            (Some(stated), Some(asked)) if stated != asked => {
                let by = if has_world { "format" } else { "file" };
                self.say(format!(
                    "the {by} states that the coordinates are {stated}, which was used instead of {asked}"
                ));
                stated
            }
            (Some(space), _) | (None, Some(space)) => space,
            (None, None) => {
                self.say("the file does not state whether its coordinates are RAS or LPS: RAS was assumed");
                MeshSpace::Ras
            }
        }
    }
}

/// Turns directions from LPS to RAS.
pub(crate) fn turn_directions(array: &mut VertexData) {
    if array.is_direction {
        for one in array.values.chunks_exact_mut(3) {
            one.iter_mut().take(2).for_each(|v| *v = 0.0 - *v);
        }
    }
}

/// The space that a title or a comment states, as 3D Slicer writes it.
pub(crate) fn stated_space(text: &str) -> Option<MeshSpace> {
    let (_, after) = text.split_once("SPACE=")?;
    [("RAS", MeshSpace::Ras), ("LPS", MeshSpace::Lps)]
        .into_iter()
        .find_map(|(name, space)| after.starts_with(name).then_some(space))
}
