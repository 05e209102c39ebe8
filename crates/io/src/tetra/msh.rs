//! Gmsh, versions 2 and 4.1, ASCII and binary: four-node tetrahedra, physical groups, and values at nodes and elements.

mod kinds;
mod tags;

use super::parts::{Body, Cell};
use crate::error::{IoError, Result, shorten};
use crate::mesh::bytes::{AGAIN, Cursor, Number, Values};
use crate::mesh::cells::CellValues;
use crate::mesh::parts::{Parts, stated_space};
use kinds::Kind;
use std::collections::BTreeMap;
use std::path::Path;
use tags::Tags;
use voxalign_image::{Vector3, memory};

/// What labels are from.
const PHYSICAL: &str = "gmsh:physical";
const GEOMETRICAL: &str = "gmsh:geometrical";

/// The most components of a field.
const COMPONENTS: usize = 9;

/// What physical group and what volume of the geometry a tetrahedron is of; 0 for none.
#[derive(Debug, Clone, Copy)]
struct Groups {
    physical: i32,
    geometrical: i32,
}

struct Reader<'a, 'b> {
    cursor: Cursor<'b>,
    body: Body<'a>,
    binary: bool,
    big: bool,
    /// Version 2.
    is_old: bool,
    /// Numbers of nodes, and of tetrahedra.
    nodes: Tags,
    elements: Tags,
    groups: Vec<Groups>,
    /// The physical group of each volume.
    volumes: BTreeMap<i32, i32>,
    /// Names of groups of volumes.
    names: BTreeMap<i32, String>,
}

pub(super) fn read<'a>(path: &'a Path, bytes: &[u8]) -> Result<Body<'a>> {
    let mut reader = Reader {
        cursor: Cursor::new(path, bytes),
        body: Body::new(Parts::new(path, "")),
        binary: false,
        big: false,
        is_old: false,
        nodes: Tags::default(),
        elements: Tags::default(),
        groups: Vec::new(),
        volumes: BTreeMap::new(),
        names: BTreeMap::new(),
    };
    reader.sections()?;
    reader.labels()?;
    Ok(reader.body)
}

impl Reader<'_, '_> {
    fn wrong(&self, problem: impl Into<String>) -> IoError {
        self.body.parts.wrong(problem)
    }

    fn sections(&mut self) -> Result<()> {
        let mut is_known = false;
        while let Some(line) = self.cursor.text_line() {
            let name = line.trim();
            match name {
                "" => continue,
                "$MeshFormat" => {
                    self.format()?;
                    is_known = true;
                }
                "$Comments" => {
                    self.comments(name)?;
                    continue;
                }
                _ if !is_known || !name.starts_with('$') => {
                    let line = self.cursor.line_number();
                    let problem = format!("line {line}: '{}' is no section", shorten(name));
                    return Err(self.wrong(problem));
                }
                "$PhysicalNames" => self.physical_names()?,
                "$Entities" if !self.is_old => self.entities()?,
                "$Nodes" if self.is_old => self.old_nodes()?,
                "$Nodes" => self.new_nodes()?,
                "$Elements" if self.is_old && self.binary => self.old_binary_elements()?,
                "$Elements" if self.is_old => self.old_text_elements()?,
                "$Elements" => self.new_elements()?,
                "$NodeData" => self.data(true)?,
                "$ElementData" => self.data(false)?,
                other => {
                    if other == "$ElementNodeData" || other == "$PartitionedEntities" {
                        let name = other.trim_start_matches('$');
                        self.body.parts.say(format!("the section {name} was left out"));
                    }
                    self.skip(other)?;
                    continue;
                }
            }
            self.end(name)?;
        }
        if is_known { Ok(()) } else { Err(self.wrong("there is no $MeshFormat in it")) }
    }

    /// The end of a section.
    fn end(&mut self, name: &str) -> Result<()> {
        let expected = format!("$End{}", name.trim_start_matches('$'));
        match self.cursor.word() {
            Some(word) if word == expected.as_bytes() => Ok(()),
            Some(word) => {
                let word = shorten(&String::from_utf8_lossy(word));
                Err(self.wrong(format!("'{word}' is where {expected} should be")))
            }
            None => Err(self.wrong(format!("the file ends before {expected}"))),
        }
    }

    /// Goes beyond the end of a section that is not read.
    fn skip(&mut self, name: &str) -> Result<()> {
        let end = format!("$End{}", name.trim_start_matches('$'));
        while let Some(line) = self.cursor.line() {
            if line.trim_ascii() == end.as_bytes() {
                return Ok(());
            }
        }
        Err(self.wrong(format!("the file ends before {}", shorten(&end))))
    }

    fn comments(&mut self, name: &str) -> Result<()> {
        let mut ahead = self.cursor.clone();
        while let Some(line) = ahead.text_line().filter(|line| !line.starts_with('$')) {
            self.body.parts.stated = stated_space(&line).or(self.body.parts.stated);
        }
        self.skip(name)
    }

    fn format(&mut self) -> Result<()> {
        let line = self.cursor.text_line().unwrap_or_default();
        let words: Vec<&str> = line.split_whitespace().collect();
        let &[version, mode, size] = &words[..] else {
            return Err(self.wrong(format!("'{}' is not a version of Gmsh", shorten(&line))));
        };
        self.is_old = version == "2" || version.starts_with("2.");
        if !self.is_old && version != "4.1" {
            let what = format!("the version {} of Gmsh's files is not read", shorten(version));
            let remedy = "save it as version 4.1 or 2.2, for example with `gmsh -0 -format msh41`";
            return Err(IoError::unsupported(self.body.path(), what, remedy));
        }
        self.binary = match mode {
            "0" => false,
            "1" => true,
            other => {
                let problem = format!("'{}' is neither 0, for text, nor 1", shorten(other));
                return Err(self.wrong(problem));
            }
        };
        if self.binary && size != "8" {
            let what = format!("numbers have {} bytes, not 8", shorten(size));
            let remedy = "save it on a machine of 64 bits, or as text";
            return Err(IoError::unsupported(self.body.path(), what, remedy));
        }
        if self.binary {
            self.big = match self.cursor.take(4)? {
                [1, 0, 0, 0] => false,
                [0, 0, 0, 1] => true,
                _ => return Err(self.wrong("the order of bytes is not that of any machine")),
            };
        }
        let coding = if self.binary { "binary" } else { "ASCII" };
        self.body.parts.encoding = format!("{coding}, version {version}");
        Ok(())
    }

    fn physical_names(&mut self) -> Result<()> {
        let number = self.text_count("names")?;
        self.cursor.line();
        for _ in 0..number {
            let line = self.cursor.text_line().unwrap_or_default();
            let mut words = line.trim().splitn(3, char::is_whitespace);
            let tags = [words.next(), words.next()].map(|w| w.and_then(|w| w.parse::<i32>().ok()));
            let ([Some(dimensions), Some(tag)], Some(name)) = (tags, words.next()) else {
                let line = shorten(&line);
                return Err(self.wrong(format!("'{line}' is not the name of a physical group")));
            };
            if dimensions == 3 {
                self.names.insert(tag, name.trim().trim_matches('"').to_owned());
            }
        }
        Ok(())
    }

    /// The volumes of the geometry, and the physical groups that they are in.
    fn entities(&mut self) -> Result<()> {
        let mut counts = [0; 4];
        for count in &mut counts {
            *count = self.size()?;
        }
        for (dimensions, count) in counts.into_iter().enumerate() {
            for _ in 0..count {
                let tag = self.int()?;
                for _ in 0..if dimensions == 0 { 3 } else { 6 } {
                    self.double()?;
                }
                let groups = self.size()?;
                let mut first = 0;
                for group in 0..groups {
                    let tag = self.int()?;
                    first = if group == 0 { tag } else { first };
                }
                for _ in 0..if dimensions == 0 { 0 } else { self.size()? } {
                    self.int()?;
                }
                if dimensions == 3 && groups > 0 {
                    self.volumes.insert(tag, first);
                    self.say_several(groups);
                }
            }
        }
        Ok(())
    }

    fn say_several(&mut self, groups: u64) {
        if groups > 1 {
            self.body.parts.say("volumes of several physical groups have the label of the first");
        }
    }

    fn old_nodes(&mut self) -> Result<()> {
        let number = self.text_count("nodes")?;
        if self.binary {
            self.cursor.line();
        }
        for _ in 0..number {
            let tag = self.int()?;
            self.node(tag.unsigned_abs().into())?;
        }
        self.sort_nodes()
    }

    fn new_nodes(&mut self) -> Result<()> {
        let [blocks, _, _, _] = [self.size()?, self.size()?, self.size()?, self.size()?];
        for _ in 0..blocks {
            let (dimensions, _) = (self.int()?, self.int()?);
            let is_parametric = self.int()? != 0;
            let number = self.size()?;
            let mut tags = Vec::new();
            for _ in 0..number {
                let tag = self.size()?;
                memory::push(&mut tags, tag).map_err(|e| IoError::memory(self.body.path(), e))?;
            }
            for tag in tags {
                self.node(tag)?;
                for _ in 0..if is_parametric { dimensions.clamp(0, 3) } else { 0 } {
                    self.double()?;
                }
            }
        }
        self.sort_nodes()
    }

    /// The position of a node.
    fn node(&mut self, tag: u64) -> Result<()> {
        let position = Vector3::new(self.double()?, self.double()?, self.double()?);
        self.nodes.push(self.body.path(), tag)?;
        self.body.parts.add_vertex(position)
    }

    fn sort_nodes(&mut self) -> Result<()> {
        match self.nodes.sort() {
            None => Ok(()),
            Some(tag) => Err(self.wrong(format!("the node {tag} is there twice"))),
        }
    }

    fn old_text_elements(&mut self) -> Result<()> {
        for _ in 0..self.text_count("elements")? {
            let (tag, kind, tags) = (self.int()?, self.int()?, self.int()?);
            self.old_element(tag, kind, tags)?;
        }
        self.sort_elements()
    }

    fn old_binary_elements(&mut self) -> Result<()> {
        let number = self.text_count("elements")?;
        self.cursor.line();
        let mut done = 0;
        while done < number {
            let (kind, count, tags) = (self.int()?, self.int()?, self.int()?);
            if count < 1 {
                return Err(self.wrong(format!("a block has {count} elements")));
            }
            for _ in 0..count {
                let tag = self.int()?;
                self.old_element(tag, kind, tags)?;
            }
            done += u64::from(count.unsigned_abs());
        }
        self.sort_elements()
    }

    /// An element of version 2, whose groups come before its nodes.
    fn old_element(&mut self, tag: i32, kind: i32, tags: i32) -> Result<()> {
        let mut groups = Groups { physical: 0, geometrical: 0 };
        for i in 0..tags {
            let tag = self.int()?;
            match i {
                0 => groups.physical = tag.saturating_abs(),
                1 => groups.geometrical = tag.saturating_abs(),
                _ => {}
            }
        }
        let (cell, nodes) = self.kind(tag.unsigned_abs().into(), kind)?;
        let mut corners = [0; 4];
        for i in 0..nodes {
            let node = self.int()?;
            if let Some(corner) = corners.get_mut(i) {
                *corner = node.unsigned_abs().into();
            }
        }
        self.element(tag.unsigned_abs().into(), cell, corners, groups)
    }

    fn new_elements(&mut self) -> Result<()> {
        let [blocks, _, _, _] = [self.size()?, self.size()?, self.size()?, self.size()?];
        for _ in 0..blocks {
            let (_, geometrical, kind) = (self.int()?, self.int()?, self.int()?);
            let physical = self.volumes.get(&geometrical).copied().unwrap_or(0).saturating_abs();
            for _ in 0..self.size()? {
                let tag = self.size()?;
                let (cell, nodes) = self.kind(tag, kind)?;
                let mut corners = [0; 4];
                for i in 0..nodes {
                    let node = self.size()?;
                    if let Some(corner) = corners.get_mut(i) {
                        *corner = node;
                    }
                }
                self.element(tag, cell, corners, Groups { physical, geometrical })?;
            }
        }
        self.sort_elements()
    }

    /// What an element is for a mesh of tetrahedra, and the number of its nodes.
    fn kind(&self, tag: u64, number: i32) -> Result<(Cell, usize)> {
        let Some(Kind { nodes, dimensions, name }) = kinds::of(number) else {
            let problem = format!("the element {tag} has the type {number}, which is not known");
            return Err(self.wrong(problem));
        };
        match (number, dimensions) {
            (kinds::TETRAHEDRON, _) => Ok((Cell::Tetrahedron, nodes)),
            (_, 3) => {
                let kind = format!("{name} (type {number} of Gmsh)");
                Err(self.body.refused(format!("the element {tag}"), &kind))
            }
            (_, lower) => Ok((Cell::Lower(lower), nodes)),
        }
    }

    fn element(&mut self, tag: u64, cell: Cell, nodes: [u64; 4], groups: Groups) -> Result<()> {
        if let Cell::Lower(dimensions) = cell {
            self.body.ignore(dimensions, 1);
            return Ok(());
        }
        let mut corners = [0; 4];
        for (corner, node) in corners.iter_mut().zip(nodes) {
            *corner = self.nodes.find(node).ok_or_else(|| {
                self.wrong(format!("the element {tag} has the node {node}, which is not there"))
            })?;
        }
        let path = self.body.path();
        self.elements.push(path, tag)?;
        memory::push(&mut self.groups, groups).map_err(|e| IoError::memory(path, e))?;
        self.body.add(&corners, || format!("the element {tag}"))
    }

    fn sort_elements(&mut self) -> Result<()> {
        let Some(tag) = self.elements.sort() else { return Ok(()) };
        let problem = format!("the element {tag} is there twice, such as in two physical groups");
        let remedy = "save it as version 4.1, or put each volume into one physical group";
        Err(IoError::malformed(self.body.path(), problem, remedy))
    }

    /// Values at nodes or elements.
    fn data(&mut self, at_nodes: bool) -> Result<()> {
        let strings = self.text_count("texts")?;
        self.cursor.line();
        let mut name = String::new();
        for i in 0..strings {
            let Some(line) = self.cursor.text_line() else {
                return Err(self.wrong("the file ends within texts"));
            };
            if i == 0 {
                name = line.trim().trim_matches('"').to_owned();
            }
        }
        for _ in 0..self.text_count("numbers")? {
            self.cursor.text_number()?;
        }
        let (mut components, mut number) = (1, 0);
        for i in 0..self.text_count("whole numbers")? {
            let value = self.text_count("values")?;
            match i {
                1 => components = value as usize,
                2 => number = value,
                _ => {}
            }
        }
        if self.binary {
            self.cursor.line();
        }
        if !(1..=COMPONENTS).contains(&components) {
            let problem = format!("'{}' has {components} components, not 1 to 9", shorten(&name));
            return Err(self.wrong(problem));
        }
        self.values(at_nodes, name, components, number)
    }

    fn values(&mut self, at_nodes: bool, name: String, n: usize, number: u64) -> Result<()> {
        let path = self.body.path();
        let of = if at_nodes { self.nodes.len() } else { self.elements.len() };
        // Fewer values than there are nodes take no memory, however often they are said to be there.
        let room = if number < of as u64 { 0 } else { of };
        let refused = |e| IoError::memory(path, e);
        let mut values = memory::filled(n * room, 0.0).map_err(refused)?;
        let mut found = memory::filled(room, false).map_err(refused)?;
        for _ in 0..number {
            let tag = self.int()?.unsigned_abs().into();
            let tags = if at_nodes { &self.nodes } else { &self.elements };
            let index = tags.find(tag).map_or(usize::MAX, |index| index as usize);
            for i in 0..n {
                let value = self.double()?;
                if let Some(one) = found.get_mut(index) {
                    values[index * n + i] = value;
                    *one = true;
                }
            }
        }
        if room < of || !found.iter().all(|&found| found) {
            let what = if at_nodes { "node" } else { "tetrahedron" };
            let name = shorten(&name);
            self.body.parts.say(format!("'{name}', which not every {what} has, was left out"));
            return Ok(());
        }
        let (values, is_direction) = (Values::Text(values), n == 3);
        if at_nodes {
            return self.body.parts.add_data(name, n, &values, is_direction);
        }
        let all: Vec<usize> = memory::collected(0..of).map_err(refused)?;
        self.body.add_array(
            CellValues { name, components: n, values, is_direction },
            &all,
            of,
            false,
        )
    }

    /// Labels by physical groups, or by the volumes of the geometry where there are no groups.
    fn labels(&mut self) -> Result<()> {
        let without = self.groups.iter().filter(|groups| groups.physical == 0).count();
        let first = self.groups.first().map_or(0, |groups| groups.geometrical);
        let (name, pick): (_, fn(&Groups) -> i32) = if without < self.groups.len() {
            if without > 0 {
                let words = format!("{without} tetrahedra of no physical group have the label 0");
                self.body.parts.say(words);
            }
            self.body.label_names = std::mem::take(&mut self.names);
            (PHYSICAL, |groups| groups.physical)
        } else if self.groups.iter().any(|groups| groups.geometrical != first) {
            self.body.parts.say("there are no physical groups of volumes: the labels are the numbers of the volumes");
            (GEOMETRICAL, |groups| groups.geometrical)
        } else {
            return Ok(());
        };
        let labels = memory::collected(self.groups.iter().map(pick));
        let labels = labels.map_err(|e| IoError::memory(self.body.path(), e))?;
        self.body.labels = Some((name.to_owned(), labels));
        Ok(())
    }

    /// A number that is text in binary files, too.
    fn text_count(&mut self, what: &str) -> Result<u64> {
        let value = self.cursor.text_number()?;
        self.whole(value).map_err(|_| {
            let problem = format!("'{value}' is not a number of {what}");
            IoError::malformed(self.body.path(), problem, AGAIN)
        })
    }

    fn whole(&self, value: f64) -> Result<u64> {
        if value.fract() == 0.0 && (0.0..=(1u64 << 53) as f64).contains(&value) {
            return Ok(value as u64);
        }
        Err(self.wrong(format!(
            "{value} is not a number of a node or an element, or how many there are"
        )))
    }

    fn number(&mut self, number: Number) -> Result<f64> {
        if self.binary { self.cursor.number(number, self.big) } else { self.cursor.text_number() }
    }

    fn size(&mut self) -> Result<u64> {
        let value = self.number(Number::U64)?;
        self.whole(value)
    }

    fn int(&mut self) -> Result<i32> {
        let value = self.number(Number::I32)?;
        if value.fract() == 0.0 && value.abs() <= f64::from(i32::MAX) {
            return Ok(value as i32);
        }
        Err(self.wrong(format!("{value} is not a whole number within 32 bits")))
    }

    fn double(&mut self) -> Result<f64> {
        self.number(Number::F64)
    }
}
