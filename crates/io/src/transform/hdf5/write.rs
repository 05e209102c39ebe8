//! Writing: everything has its place before the first byte is written, so that the file is made in one
//! pass and values of fields are never copied.

use super::checksum::lookup3;
use super::flip;
use super::input::UNDEFINED;
use super::object::{SIGNATURE, kind};
use crate::atomic;
use crate::error::{IoError, Result};
use crate::transform::itk::{self, Record};
use std::io::{self, Write};
use std::path::Path;
use voxalign_image::{Transform, VectorField};

/// Size of a heap of texts, bytes; HDF5 makes none smaller.
const HEAP: usize = 4096;
/// Values that are converted at once.
const BATCH: usize = 1 << 14;

/// Writes a transform; parts of composites within composites become parts of one.
pub(crate) fn write(path: &Path, transform: &Transform) -> Result<()> {
    let items = items(transform).map_err(|what| {
        IoError::unsupported(path, what, "write it as .nii.gz (a displacement field)")
    })?;
    write_items(path, &items)
}

/// Writes records of ITK.
pub(crate) fn write_records(path: &Path, records: Vec<Record>) -> Result<()> {
    write_items(path, &records.into_iter().map(Item::Record).collect::<Vec<_>>())
}

fn write_items(path: &Path, items: &[Item<'_>]) -> Result<()> {
    let mut file = Builder::new(items);
    file.place();
    let bytes = file.end();
    atomic::write_file(path, |w| file.write(w)).map_err(|error| error.needing(bytes))
}

/// One transform of a file.
enum Item<'t> {
    Record(Record),
    Field { field: &'t VectorField, planar: bool },
}

/// The transforms of the file.
fn items(transform: &Transform) -> std::result::Result<Vec<Item<'_>>, String> {
    let Transform::Composite(parts) = transform else {
        let planar = matches!(transform, Transform::Displacement(d) if in_the_plane(d.field()));
        return Ok(vec![item(transform, planar)?]);
    };
    let mut flat = Vec::new();
    itk::flatten(parts, &mut flat);
    if flat.is_empty() {
        return Ok(itk::records(transform)?.into_iter().map(Item::Record).collect());
    }
    // Of the plane only where all parts are, and a field says so: an affine map of space may keep it.
    let planar = flat.iter().any(|t| matches!(t, Transform::Displacement(_)))
        && flat.iter().all(|t| match t {
            Transform::Displacement(d) => in_the_plane(d.field()),
            linear => linear.to_affine().ok().and_then(|a| itk::record_2d(&a)).is_some(),
        });
    let class =
        if planar { "CompositeTransform_double_2_2" } else { "CompositeTransform_double_3_3" };
    let mut all = vec![Item::Record(Record { class: class.into(), ..Record::default() })];
    for part in flat.into_iter().rev() {
        all.push(item(part, planar)?);
    }
    Ok(all)
}

/// The transform of a part that is no composite.
fn item(transform: &Transform, planar: bool) -> std::result::Result<Item<'_>, String> {
    if let Transform::Displacement(d) = transform {
        let field = d.field();
        // Within a composite of space, a field of the plane is one of space.
        return Ok(Item::Field { field, planar });
    }
    if planar && let Some(record) = transform.to_affine().ok().and_then(|a| itk::record_2d(&a)) {
        return Ok(Item::Record(record));
    }
    match itk::records(transform)?.pop() {
        Some(record) => Ok(Item::Record(record)),
        None => Err("there is no transform".into()),
    }
}

/// Whether a field is one of ITK's plane, z = 0: it moves nothing along z, and lies there.
fn in_the_plane(field: &VectorField) -> bool {
    let grid = field.grid();
    let m = &grid.to_world().matrix;
    let near = |v: f64| v.abs() < 1e-6;
    let others = [m[(0, 2)], m[(1, 2)], m[(2, 0)], m[(2, 1)], grid.origin()[2]];
    grid.is_2d()
        && others.into_iter().all(near)
        && field.data()[2 * grid.len()..].iter().all(|&v| v == 0.0)
}

/// Values of a dataset.
enum Values<'t> {
    /// A text: which of the heap's, and its length.
    Text(usize, usize),
    Numbers(Vec<f64>),
    Field(&'t VectorField, bool),
}

impl Values<'_> {
    fn count(&self) -> u64 {
        match self {
            Values::Text(..) => 1,
            Values::Numbers(numbers) => numbers.len() as u64,
            Values::Field(field, planar) => field.grid().len() as u64 * if *planar { 2 } else { 3 },
        }
    }

    fn bytes(&self) -> u64 {
        self.count() * if matches!(self, Values::Text(..)) { 16 } else { 8 }
    }
}

enum Node<'t> {
    /// Names and numbers of other nodes.
    Group(Vec<(String, usize)>),
    Dataset {
        values: Values<'t>,
        at: u64,
    },
}

/// A file in the making: nodes, then heaps of texts, then values.
struct Builder<'t> {
    nodes: Vec<(Node<'t>, u64)>,
    texts: Vec<String>,
    /// The heap and the number in it of each text.
    heaps: Vec<(usize, u16)>,
    first_heap: u64,
    end: u64,
}

impl<'t> Builder<'t> {
    fn new(items: &[Item<'t>]) -> Self {
        let mut file =
            Self { nodes: Vec::new(), texts: Vec::new(), heaps: Vec::new(), first_heap: 0, end: 0 };
        // The root is the first node.
        file.nodes.push((Node::Group(Vec::new()), 0));
        let mut root = Vec::new();
        let version = concat!("voxalign ", env!("CARGO_PKG_VERSION"));
        for (name, text) in [
            ("ITKVersion", version),
            ("HDFVersion", "HDF5 file format 1.8"),
            ("OSName", "any"),
            ("OSVersion", "any"),
        ] {
            let text = file.text(text);
            root.push((name.to_owned(), text));
        }
        let mut groups = Vec::with_capacity(items.len());
        for (i, item) in items.iter().enumerate() {
            let (class, values) = contents(item);
            let mut members = vec![("TransformType".to_owned(), file.text(&class))];
            if let Some([fixed, parameters]) = values {
                members.push(("TransformFixedParameters".to_owned(), file.dataset(fixed)));
                members.push(("TransformParameters".to_owned(), file.dataset(parameters)));
            }
            groups.push((i.to_string(), file.node(Node::Group(members))));
        }
        let groups = file.node(Node::Group(groups));
        root.push((super::GROUP.to_owned(), groups));
        file.nodes[0].0 = Node::Group(root);
        file
    }

    fn node(&mut self, node: Node<'t>) -> usize {
        self.nodes.push((node, 0));
        self.nodes.len() - 1
    }

    fn dataset(&mut self, values: Values<'t>) -> usize {
        self.node(Node::Dataset { values, at: 0 })
    }

    fn text(&mut self, text: &str) -> usize {
        self.texts.push(text.to_owned());
        self.dataset(Values::Text(self.texts.len() - 1, text.len()))
    }

    /// Gives everything its address.
    fn place(&mut self) {
        let mut at = 48u64;
        for (node, address) in &mut self.nodes {
            *address = at;
            at += header_size(node);
        }
        at = at.next_multiple_of(8);
        self.first_heap = at;
        let (mut heap, mut number, mut used) = (0, 0, 16);
        for text in &self.texts {
            let size = 16 + text.len().next_multiple_of(8);
            // The free rest is an object, too.
            if used + size + 16 > HEAP {
                (heap, number, used) = (heap + 1, 0, 16);
            }
            number += 1;
            used += size;
            self.heaps.push((heap, number));
        }
        at += ((heap + 1) * HEAP) as u64;
        for (node, _) in &mut self.nodes {
            if let Node::Dataset { values, at: place } = node {
                *place = if values.count() == 0 { UNDEFINED } else { at };
                at += values.bytes();
            }
        }
        self.end = at;
    }

    /// The length of the file, bytes.
    fn end(&self) -> u64 {
        self.end
    }

    fn write(&self, w: &mut dyn Write) -> io::Result<()> {
        let mut head = SIGNATURE.to_vec();
        head.extend([2, 8, 8, 0]);
        for address in [0, UNDEFINED, self.end, self.nodes[0].1] {
            head.extend(address.to_le_bytes());
        }
        w.write_all(&sealed(head))?;
        let mut at = 48;
        for (node, _) in &self.nodes {
            let header = self.header(node);
            at += header.len() as u64;
            w.write_all(&header)?;
        }
        w.write_all(&vec![0; (self.first_heap - at) as usize])?;
        self.write_texts(w)?;
        for (node, _) in &self.nodes {
            match node {
                Node::Group(_) => {}
                Node::Dataset { values: Values::Text(index, len), .. } => {
                    let (heap, number) = self.heaps[*index];
                    w.write_all(&(*len as u32).to_le_bytes())?;
                    w.write_all(&(self.first_heap + (heap * HEAP) as u64).to_le_bytes())?;
                    w.write_all(&u32::from(number).to_le_bytes())?;
                }
                Node::Dataset { values: Values::Numbers(numbers), .. } => {
                    numbers.iter().try_for_each(|v| w.write_all(&v.to_le_bytes()))?;
                }
                Node::Dataset { values: Values::Field(field, planar), .. } => {
                    write_field(w, field, *planar)?;
                }
            }
        }
        Ok(())
    }

    fn write_texts(&self, w: &mut dyn Write) -> io::Result<()> {
        let mut texts = self.texts.iter().zip(&self.heaps).peekable();
        let last = self.heaps.last().map_or(0, |&(heap, _)| heap);
        for heap in 0..=last {
            let mut bytes = b"GCOL\x01\0\0\0".to_vec();
            bytes.extend((HEAP as u64).to_le_bytes());
            while let Some((text, (_, number))) = texts.next_if(|(_, place)| place.0 == heap) {
                bytes.extend(number.to_le_bytes());
                bytes.extend([0; 6]);
                bytes.extend((text.len() as u64).to_le_bytes());
                bytes.extend(text.as_bytes());
                bytes.resize(bytes.len().next_multiple_of(8), 0);
            }
            // The free rest has the number 0 and says how long it is with these words.
            let free = HEAP - bytes.len();
            bytes.extend([0; 8]);
            bytes.extend((free as u64).to_le_bytes());
            bytes.resize(HEAP, 0);
            w.write_all(&bytes)?;
        }
        Ok(())
    }

    /// The header of an object.
    fn header(&self, node: &Node<'_>) -> Vec<u8> {
        let mut messages = Vec::new();
        match node {
            Node::Group(members) => {
                let mut info = vec![0, 0];
                info.extend([0xff; 16]);
                message(&mut messages, kind::LINK_INFO, 0, &info);
                message(&mut messages, kind::GROUP_INFO, 1, &[0, 0]);
                for (name, number) in members {
                    let mut link = vec![1, 0, name.len() as u8];
                    link.extend(name.as_bytes());
                    link.extend(self.nodes[*number].1.to_le_bytes());
                    message(&mut messages, kind::LINK, 0, &link);
                }
            }
            Node::Dataset { values, at } => {
                let mut space = vec![2, 1, 0, 1];
                space.extend(values.count().to_le_bytes());
                message(&mut messages, kind::DATASPACE, 0, &space);
                let datatype: &[u8; 20] = match values {
                    // A text of variable length, made of bytes.
                    Values::Text(..) => b"\x19\x01\0\0\x10\0\0\0\x10\0\0\0\x01\0\0\0\0\0\x08\0",
                    _ => b"\x11\x20\x3f\0\x08\0\0\0\0\0\x40\0\x34\x0b\0\x34\xff\x03\0\0",
                };
                message(&mut messages, kind::DATATYPE, 1, datatype);
                message(&mut messages, kind::FILL_VALUE, 1, &[3, 0x0a]);
                let mut layout = vec![3, 1];
                layout.extend(at.to_le_bytes());
                layout.extend(values.bytes().to_le_bytes());
                message(&mut messages, kind::LAYOUT, 0, &layout);
            }
        }
        let mut header = b"OHDR\x02\x02".to_vec();
        header.extend((messages.len() as u32).to_le_bytes());
        header.extend(messages);
        sealed(header)
    }
}

/// The size of an object's header, bytes.
fn header_size(node: &Node<'_>) -> u64 {
    let messages = match node {
        Node::Group(members) => {
            let links = members.iter().map(|(name, _)| 4 + 11 + name.len());
            4 + 18 + 4 + 2 + links.sum::<usize>()
        }
        Node::Dataset { .. } => 4 + 12 + 4 + 20 + 4 + 2 + 4 + 18,
    };
    (10 + messages + 4) as u64
}

fn message(out: &mut Vec<u8>, kind: u16, flags: u8, data: &[u8]) {
    out.push(kind as u8);
    out.extend((data.len() as u16).to_le_bytes());
    out.push(flags);
    out.extend(data);
}

/// With the checksum at the end.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let sum = lookup3(&bytes);
    bytes.extend(sum.to_le_bytes());
    bytes
}

/// The class of a transform, and its fixed parameters and parameters.
fn contents<'t>(item: &Item<'t>) -> (String, Option<[Values<'t>; 2]>) {
    match item {
        Item::Record(record) => {
            let values = (!record.class.starts_with("Composite")).then(|| {
                [Values::Numbers(record.fixed.clone()), Values::Numbers(record.parameters.clone())]
            });
            (record.class.clone(), values)
        }
        Item::Field { field, planar } => {
            let axes = if *planar { 2 } else { 3 };
            let fixed = Values::Numbers(geometry(field, axes));
            let class = format!("DisplacementFieldTransform_double_{axes}_{axes}");
            (class, Some([fixed, Values::Field(field, *planar)]))
        }
    }
}

/// The fixed parameters of a field: sizes, origin, spacing and direction.
fn geometry(field: &VectorField, axes: usize) -> Vec<f64> {
    let grid = field.grid();
    let lps = flip(grid.to_world());
    let spacing = grid.spacing();
    let mut fixed: Vec<f64> = grid.dims()[..axes].iter().map(|&d| d as f64).collect();
    fixed.extend(lps.offset.iter().take(axes));
    fixed.extend(&spacing[..axes]);
    for r in 0..axes {
        fixed.extend((0..axes).map(|c| lps.matrix[(r, c)] / spacing[c]));
    }
    fixed
}

/// The vectors of a field, component fastest, in LPS.
fn write_field(w: &mut dyn Write, field: &VectorField, planar: bool) -> io::Result<()> {
    let n = field.grid().len();
    let components: Vec<&[f32]> = field.data().chunks(n).take(if planar { 2 } else { 3 }).collect();
    let mut bytes = Vec::new();
    let mut start = 0;
    while start < n {
        let end = n.min(start + BATCH);
        bytes.clear();
        for i in start..end {
            for (c, component) in components.iter().enumerate() {
                let v = f64::from(component[i]);
                bytes.extend((if c < 2 { 0.0 - v } else { v }).to_le_bytes());
            }
        }
        w.write_all(&bytes)?;
        start = end;
    }
    Ok(())
}
