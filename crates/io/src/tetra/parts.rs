//! What a file gives of a mesh of tetrahedra while it is read.

use super::{ReadOptions, TetraFormat, TetraInfo};
use crate::error::{IoError, Result, shorten};
use crate::mesh::bytes::Values;
use crate::mesh::parts::{Parts, turn_directions};
use crate::mesh::{MeshSpace, cells};
use std::collections::BTreeMap;
use std::path::Path;
use voxalign_image::tetra::volume;
use voxalign_image::{TetraMesh, Vector3, VertexData, memory};

/// Six volumes that are below this share of the cube of the longest edge are those of a tetrahedron without volume.
const FLAT: f64 = 1e-9;

/// Numbers that are listed in a message.
const LISTED: usize = 10;

/// Names of arrays that have labels, in the order in which they are looked for; without letters other than those here.
const LABELS: [&str; 24] = [
    "label",
    "labels",
    "labelid",
    "labelids",
    "material",
    "materials",
    "materialid",
    "materialids",
    "tissue",
    "tissues",
    "tissueid",
    "tissueids",
    "region",
    "regions",
    "regionid",
    "regionids",
    "subdomain",
    "subdomains",
    "attribute",
    "attributes",
    "gmsh:physical",
    "medit:ref",
    "cellentityid",
    "cellentityids",
];

/// Values of the tetrahedra alone.
#[derive(Debug)]
struct CellArray {
    name: String,
    components: usize,
    values: Vec<f64>,
    is_direction: bool,
}

/// What a cell is for a mesh of tetrahedra.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cell {
    Tetrahedron,
    /// Of so many dimensions, 0 to 2: left out.
    Lower(usize),
    /// Refused.
    Volume,
}

/// A mesh of tetrahedra in the space of its file, and what was said about it.
#[derive(Debug)]
pub(super) struct Body<'a> {
    /// Vertices and their values, and remarks.
    pub(super) parts: Parts<'a>,
    pub(super) tetrahedra: Vec<[u32; 4]>,
    /// What labels are from, and a label a tetrahedron.
    pub(super) labels: Option<(String, Vec<i32>)>,
    pub(super) label_names: BTreeMap<i32, String>,
    /// Vertices, lines and cells of surfaces that were left out.
    pub(super) ignored: [usize; 3],
    arrays: Vec<CellArray>,
}

impl<'a> Body<'a> {
    pub(super) fn new(parts: Parts<'a>) -> Self {
        Self {
            parts,
            tetrahedra: Vec::new(),
            labels: None,
            label_names: BTreeMap::new(),
            ignored: [0; 3],
            arrays: Vec::new(),
        }
    }

    pub(super) fn path(&self) -> &'a Path {
        self.parts.path
    }

    pub(super) fn ignore(&mut self, dimensions: usize, number: usize) {
        if let Some(count) = self.ignored.get_mut(dimensions) {
            *count = count.saturating_add(number);
        }
    }

    /// Adds a tetrahedron; `what` names it in messages.
    pub(super) fn add(&mut self, corners: &[u32], what: impl Fn() -> String) -> Result<()> {
        let Ok(corners) = corners.try_into() else {
            let problem = format!("{} has {} corners, not four", what(), corners.len());
            return Err(self.parts.wrong(problem));
        };
        memory::push(&mut self.tetrahedra, corners).map_err(|e| IoError::memory(self.path(), e))
    }

    /// An error about a cell of a volume that is no linear tetrahedron.
    pub(super) fn refused(&self, number: impl std::fmt::Display, kind: &str) -> IoError {
        let what = format!("{number} is {kind}, and only linear tetrahedra are read");
        let remedy = "mesh the volume with tetrahedra of four corners, for example with Gmsh (`gmsh -3 -order 1`)";
        IoError::unsupported(self.path(), what, remedy)
    }

    /// Adds cells of VTK, each with its type; the numbers of those that are tetrahedra.
    pub(super) fn add_typed(
        &mut self,
        all: &cells::Cells,
        types: &Values<'_>,
    ) -> Result<Vec<usize>> {
        if types.len() != all.len() {
            let (types, cells) = (types.len(), all.len());
            let problem = format!("there are {types} types of cells for {cells} cells");
            return Err(self.parts.wrong(problem));
        }
        let mut kept = Vec::new();
        for (number, (corners, kind)) in all.iter().zip(types.iter()).enumerate() {
            match of_vtk(kind) {
                Cell::Tetrahedron => {
                    self.add(corners, || format!("cell {number}"))?;
                    memory::push(&mut kept, number)
                        .map_err(|e| IoError::memory(self.parts.path, e))?;
                }
                Cell::Lower(dimensions) => self.ignore(dimensions, 1),
                Cell::Volume => {
                    let kind = cells::name(kind as u32);
                    return Err(self.refused(format!("cell {number}"), &kind));
                }
            }
        }
        Ok(kept)
    }

    /// Adds values of cells, of which `kept` are those of the tetrahedra; to the array of the same name of earlier pieces
    /// where there are any.
    pub(super) fn add_array(
        &mut self,
        array: cells::CellValues<'_>,
        kept: &[usize],
        cells: usize,
        is_later: bool,
    ) -> Result<()> {
        let cells::CellValues { name, components, values, is_direction } = array;
        if components == 0 || components.checked_mul(cells) != Some(values.len()) {
            let (found, name) = (values.len(), shorten(&name));
            let problem =
                format!("'{name}' has {found} values for {cells} cells of {components} values");
            return Err(self.parts.wrong(problem));
        }
        let of = |&cell: &usize| (0..components).map(move |i| cell * components + i);
        let chosen = kept.iter().flat_map(of).map(|i| values.at(i));
        let refused = |e| IoError::memory(self.parts.path, e);
        let same = |old: &&mut CellArray| old.name == name && old.components == components;
        if let Some(old) = self.arrays.iter_mut().find(same).filter(|_| is_later) {
            for value in chosen {
                memory::push(&mut old.values, value).map_err(refused)?;
            }
            return Ok(());
        }
        let mut all = memory::room(kept.len() * components).map_err(refused)?;
        all.extend(chosen);
        let is_direction = is_direction && components == 3;
        self.arrays.push(CellArray { name, components, values: all, is_direction });
        Ok(())
    }

    /// The mesh in RAS.
    pub(super) fn finish(
        mut self,
        format: TetraFormat,
        options: &ReadOptions,
    ) -> Result<(TetraMesh, TetraInfo)> {
        self.say_ignored();
        if self.tetrahedra.is_empty() {
            let problem = "there is no tetrahedron in the file";
            let remedy = "give the mesh of a volume; that of a surface has to be filled first, for example with Gmsh or TetGen";
            return Err(IoError::malformed(self.path(), problem, remedy));
        }
        self.drop_partial();
        self.choose_labels(options.labels.as_deref())?;
        let vertices = self.parts.vertices.len();
        let is_valid = self.parts.vertices.iter().flat_map(|v| v.iter()).all(|c| c.is_finite())
            && self.tetrahedra.iter().flatten().all(|&i| (i as usize) < vertices);
        // What is not valid is refused below, where the mesh is made.
        if is_valid {
            self.orient()?;
            self.drop_unused()?;
        }
        let mut cell_data = self.cell_data()?;
        drop_twins(&mut self.parts.data);
        drop_twins(&mut cell_data);
        let (space, assumed) = self.parts.place(false, options.space);
        if space == MeshSpace::Lps {
            cell_data.iter_mut().for_each(turn_directions);
            self.say_unmarked(&cell_data);
        }
        let path = self.path();
        let (labels_from, labels) = self.labels.unzip();
        let mut mesh = TetraMesh::new(self.parts.vertices, self.tetrahedra)
            .and_then(|mesh| mesh.with_data(self.parts.data, cell_data))
            .map_err(|e| IoError::image(path, e))?;
        if let Some(labels) = labels {
            mesh = mesh.with_labels(labels).map_err(|e| IoError::image(path, e))?;
        }
        let info = TetraInfo {
            format,
            encoding: self.parts.encoding,
            vertices: mesh.vertices().len(),
            tetrahedra: mesh.tetrahedra().len(),
            space,
            assumed,
            labels: labels_from,
            label_names: self.label_names,
            oddities: self.parts.oddities,
        };
        Ok((mesh, info))
    }

    fn say_ignored(&mut self) {
        for (what, count) in ["vertices", "lines", "cells of surfaces"].iter().zip(self.ignored) {
            if count > 0 {
                self.parts.say(format!(
                    "{count} {what} were left out: only tetrahedra are taken of a mesh of tetrahedra"
                ));
            }
        }
    }

    /// Says which arrays were not turned from LPS, although they may be directions.
    fn say_unmarked(&mut self, cell_data: &[VertexData]) {
        let all = self.parts.data.iter().chain(cell_data);
        let unmarked = all.filter(|array| array.components == 3 && !array.is_direction);
        let names: Vec<String> = unmarked.map(|array| shorten(&array.name)).collect();
        for name in names {
            self.parts.say(format!(
                "'{name}' has three components, but is not marked as a direction: it was not turned from LPS to RAS"
            ));
        }
    }

    /// Leaves out arrays of cells that some pieces do not have.
    fn drop_partial(&mut self) {
        let (of, parts) = (self.tetrahedra.len(), &mut self.parts);
        self.arrays.retain(|array| {
            let is_whole = array.values.len() == array.components * of;
            if !is_whole {
                let name = shorten(&array.name);
                parts.say(format!("'{name}', which not every piece has, was left out"));
            }
            is_whole
        });
    }

    /// Takes labels from the array that was asked for, or from one whose name says that it has some.
    fn choose_labels(&mut self, asked: Option<&str>) -> Result<()> {
        if let Some(asked) = asked {
            return self.take_asked(asked);
        }
        if self.labels.is_some() {
            return Ok(());
        }
        for known in LABELS {
            let Some(at) = self.arrays.iter().position(|array| plain(&array.name) == known) else {
                continue;
            };
            match labels_of(&self.arrays[at]) {
                Ok(labels) => {
                    let labels = labels.map_err(|e| IoError::memory(self.path(), e))?;
                    self.labels = Some((self.arrays.remove(at).name, labels));
                    return Ok(());
                }
                Err(reason) => {
                    let name = shorten(&self.arrays[at].name);
                    self.parts.say(format!("'{name}' was not taken for labels: {reason}"));
                }
            }
        }
        Ok(())
    }

    fn take_asked(&mut self, asked: &str) -> Result<()> {
        if self.labels.as_ref().is_some_and(|(from, _)| from == asked) {
            return Ok(());
        }
        let Some(at) = self.arrays.iter().position(|array| array.name == asked) else {
            let names: Vec<_> =
                self.arrays.iter().take(5).map(|a| format!("'{}'", shorten(&a.name))).collect();
            let there = if names.is_empty() {
                "none".to_owned()
            } else {
                format!("only {}", names.join(", "))
            };
            let problem = format!("there are no cell values named '{}', {there}", shorten(asked));
            return Err(IoError::malformed(
                self.path(),
                problem,
                "name one of the file as `labels`",
            ));
        };
        match labels_of(&self.arrays[at]) {
            Ok(labels) => {
                let labels = labels.map_err(|e| IoError::memory(self.path(), e))?;
                self.labels = Some((self.arrays.remove(at).name, labels));
                Ok(())
            }
            Err(reason) => {
                let problem = format!("'{}' has no labels: {reason}", shorten(asked));
                Err(IoError::malformed(self.path(), problem, "name another array as `labels`"))
            }
        }
    }

    /// Turns all tetrahedra round where all are inside out.
    fn orient(&mut self) -> Result<()> {
        let vertices = &self.parts.vertices;
        let at = |i: u32| vertices.get(i as usize).copied().unwrap_or_default();
        let sign = |corners: &[u32; 4]| sign(corners.map(at));
        let count = |wanted: i8| self.tetrahedra.iter().filter(|t| sign(t) == wanted).count();
        let (negative, positive) = (count(-1), count(1));
        if negative == 0 {
            return Ok(());
        }
        if positive > 0 {
            let of = self.tetrahedra.len();
            let numbers: Vec<String> = (0..of)
                .filter(|&e| sign(&self.tetrahedra[e]) < 0)
                .take(LISTED)
                .map(|e| e.to_string())
                .collect();
            let more = if negative > LISTED { ", …" } else { "" };
            let problem = format!(
                "{negative} of {of} tetrahedra are turned inside out, the others are not: numbers {}{more}, counted from 0",
                numbers.join(", ")
            );
            let remedy =
                "order the corners of all alike, or make the mesh anew if it is folded there";
            return Err(IoError::malformed(self.path(), problem, remedy));
        }
        self.tetrahedra.iter_mut().for_each(|corners| corners.swap(2, 3));
        self.parts
            .say("all tetrahedra were turned inside out: their last two corners were exchanged");
        Ok(())
    }

    /// Leaves out vertices of no tetrahedron, and their values.
    fn drop_unused(&mut self) -> Result<()> {
        let (path, of) = (self.parts.path, self.parts.vertices.len());
        let mut numbers = memory::filled(of, u32::MAX).map_err(|e| IoError::memory(path, e))?;
        for &i in self.tetrahedra.iter().flatten() {
            numbers[i as usize] = 0;
        }
        let unused = numbers.iter().filter(|&&number| number == u32::MAX).count();
        if unused == 0 {
            return Ok(());
        }
        let used = numbers.iter_mut().filter(|number| **number == 0);
        used.zip(0..).for_each(|(number, new)| *number = new);
        self.tetrahedra.iter_mut().flatten().for_each(|i| *i = numbers[*i as usize]);
        let is_used = |i: usize| numbers.get(i).is_some_and(|&number| number != u32::MAX);
        retain(&mut self.parts.vertices, 1, is_used);
        for array in &mut self.parts.data {
            retain(&mut array.values, array.components, is_used);
        }
        self.parts.say(format!(
            "{unused} vertices of no tetrahedron were left out; those that stay are numbered in the same order"
        ));
        Ok(())
    }

    /// Values of the tetrahedra.
    fn cell_data(&mut self) -> Result<Vec<VertexData>> {
        let path = self.path();
        let one = |array: CellArray| {
            let CellArray { name, components, values, is_direction } = array;
            let values = memory::collected(values.iter().map(|&value| value as f32));
            let values = values.map_err(|e| IoError::memory(path, e))?;
            Ok(VertexData { name, components, values, is_direction })
        };
        std::mem::take(&mut self.arrays).into_iter().map(one).collect()
    }
}

/// Leaves out arrays that are there once more as directions: VTK writes the same values as scalars and as vectors.
fn drop_twins(data: &mut Vec<VertexData>) {
    let is_twin = |array: &VertexData| {
        let same = |other: &VertexData| {
            other.is_direction && other.name == array.name && other.values == array.values
        };
        !array.is_direction && data.iter().any(same)
    };
    let keep: Vec<bool> = data.iter().map(|array| !is_twin(array)).collect();
    let mut keep = keep.into_iter();
    data.retain(|_| keep.next().unwrap_or(true));
}

/// Keeps those of a list of tuples whose numbers are wanted.
fn retain<T>(list: &mut Vec<T>, components: usize, wanted: impl Fn(usize) -> bool) {
    let mut i = 0;
    list.retain(|_| {
        i += 1;
        wanted((i - 1) / components.max(1))
    });
}

/// A name in small letters, without what stands between words.
fn plain(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, ' ' | '_' | '-')).map(|c| c.to_ascii_lowercase()).collect()
}

/// The values of an array as labels, or why they are none.
fn labels_of(
    array: &CellArray,
) -> std::result::Result<std::result::Result<Vec<i32>, memory::OutOfMemory>, String> {
    if array.components != 1 {
        return Err(format!("it has {} values a cell", array.components));
    }
    let is_label = |value: f64| value.fract() == 0.0 && value.abs() <= f64::from(i32::MAX);
    match array.values.iter().position(|&value| !is_label(value)) {
        Some(at) => {
            let value = array.values[at];
            Err(format!("{value} of tetrahedron {at} is not a whole number within 32 bits"))
        }
        None => Ok(memory::collected(array.values.iter().map(|&value| value as i32))),
    }
}

/// 1 for a tetrahedron whose volume is above 0, -1 for one that is inside out, 0 for a flat one.
fn sign(corners: [Vector3<f64>; 4]) -> i8 {
    let [a, b, c, d] = corners;
    let edges = [b - a, c - a, d - a, c - b, d - b, d - c];
    let longest = edges.iter().map(|edge| edge.norm()).fold(0.0, f64::max);
    let (six, least) = (6.0 * volume(corners), FLAT * longest.powi(3));
    i8::from(six > least) - i8::from(six < -least)
}

/// What a type of VTK's cells is.
fn of_vtk(kind: f64) -> Cell {
    match kind as u32 {
        10 => Cell::Tetrahedron,
        0..=2 => Cell::Lower(0),
        3 | 4 | 21 | 35 | 68 | 75 => Cell::Lower(1),
        5..=9 | 22 | 23 | 28 | 30 | 34 | 36 | 69 | 70 | 76 | 77 => Cell::Lower(2),
        _ => Cell::Volume,
    }
}
