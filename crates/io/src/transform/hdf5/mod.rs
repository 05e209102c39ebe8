//! ITK's HDF5 transforms: `.h5`, as SimpleITK writes and ANTs with `--write-composite-transform 1`.
//!
//! A file has a group `/TransformGroup` with the groups `0`, `1`, ..., each with the datasets
//! `TransformType`, `TransformFixedParameters` and `TransformParameters` (in older files
//! `Tranform...`). A composite is number 0 and has no parameters; its parts follow, and ITK applies
//! the last one first. The parameters of a displacement field are its vectors in LPS mm, component
//! fastest; its fixed parameters are sizes, origin, spacing and direction (row by row).
//!
//! What ITK and h5py write of HDF5 is read: superblocks of versions 0 to 3, both kinds of object
//! headers, groups of all three kinds, texts of fixed and of variable length, numbers of 32 and 64
//! bits in either byte order, contiguous, compact and chunked, plain or packed by deflate. Checksums
//! of metadata are checked. What is written has the structure that ITK itself writes: superblock 2,
//! links in the groups' headers, contiguous numbers of 64 bits.
//!
//! Source: HDF5 File Format Specification Version 3.0, The HDF Group; the layout of transforms is
//! that of `itkHDF5TransformIO`.

mod checksum;
mod chunks;
mod dataset;
mod dense;
mod group;
mod input;
mod link;
mod object;
mod write;

use super::itk::{self, Record};
use crate::error::{IoError, Result, shorten};
use crate::source::Source;
use dataset::Dataset;
use input::{Fault, Input, damaged};
use link::Links;
use nalgebra::{Matrix3, Vector3};
use std::path::Path;
use voxalign_image::{Affine, Displacement, Grid, Index, Transform, VectorField, World, memory};

pub(crate) use write::{write, write_records};

/// How an HDF5 file begins.
pub(crate) const BEGINNING: &[u8] = b"\x89HDF";

const GROUP: &str = "TransformGroup";

/// Largest number of transforms in a file.
const LARGEST_LIST: usize = 10_000;
/// Largest number of parameters of a transform that is not a field.
const LARGEST_RECORD: u64 = 1 << 16;

/// Classes that are displacement fields, however they were found.
const FIELDS: [&str; 3] = [
    "DisplacementFieldTransform",
    "GaussianSmoothingOnUpdateDisplacementFieldTransform",
    "BSplineSmoothingOnUpdateDisplacementFieldTransform",
];

/// What is wrong with one of the transforms.
enum Wrong {
    File(Fault),
    Transform(String),
    Image(voxalign_image::ImageError),
}

impl From<Fault> for Wrong {
    fn from(fault: Fault) -> Self {
        Wrong::File(fault)
    }
}

/// The transform of a file, and whether it is one of the plane.
pub(crate) fn read(source: &Source<'_>) -> Result<(Transform, bool)> {
    let path = source.path();
    let input = Input::new(source).map_err(|fault| fault.at(path))?;
    let groups = groups(&input).map_err(|fault| fault.at(path))?;
    let mut kinds = Vec::with_capacity(groups.len());
    let mut classes = Vec::with_capacity(groups.len());
    for (i, group) in groups.into_iter().enumerate() {
        let (class, kind) = one(&input, group).map_err(|wrong| at(path, i, wrong))?;
        classes.push(class);
        kinds.push(kind);
    }
    let planar = itk::is_planar(classes.iter().map(String::as_str));
    let transform = itk::join(kinds).map_err(|problem| malformed(path, problem))?;
    Ok((transform, planar))
}

fn malformed(path: &Path, problem: String) -> IoError {
    let remedy = format!("known are {}, {}", itk::KNOWN, FIELDS[0]);
    IoError::malformed(path, problem, remedy)
}

fn at(path: &Path, number: usize, wrong: Wrong) -> IoError {
    let which = |problem: String| format!("transform {number}: {problem}");
    match wrong {
        Wrong::File(Fault::Damaged(problem)) => Fault::Damaged(which(problem)).at(path),
        Wrong::File(Fault::Unsupported(what)) => Fault::Unsupported(which(what)).at(path),
        Wrong::File(fault) => fault.at(path),
        Wrong::Transform(problem) => malformed(path, which(problem)),
        Wrong::Image(error) => IoError::image(path, error),
    }
}

/// The addresses of the groups `0`, `1`, ... in their order.
fn groups(input: &Input<'_>) -> std::result::Result<Vec<u64>, Fault> {
    let root = group::links(input, object::root(input)?)?;
    let Some(&group) = root.get(GROUP) else {
        let names: Vec<&str> = root.keys().map(String::as_str).take(5).collect();
        return damaged(format!(
            "this is not a transform of ITK: it has no group {GROUP}, but [{}]",
            shorten(&names.join(", "))
        ));
    };
    let links = group::links(input, group)?;
    if links.len() > LARGEST_LIST {
        return damaged(format!("more than {LARGEST_LIST} transforms"));
    }
    (0..links.len())
        .map(|i| match links.get(&i.to_string()) {
            Some(&address) => Ok(address),
            None => damaged(format!("{} transforms, but none has the number {i}", links.len())),
        })
        .collect()
}

/// The class of a transform and the transform; `None` for the mark that the others are its parts.
fn one(input: &Input<'_>, address: u64) -> std::result::Result<(String, Option<Transform>), Wrong> {
    let links = group::links(input, address)?;
    let Some(&kind) = links.get("TransformType") else {
        return Err(Wrong::Transform("it has no TransformType".into()));
    };
    let class = Dataset::read(input, kind)?.text()?;
    let name = class.split('_').next().unwrap_or_default();
    if FIELDS.contains(&name) {
        let field = field(input, &links, &class)?;
        return Ok((class, Some(Transform::Displacement(Displacement::new(field)))));
    }
    let numbers = |what: &str| match parameters(input, &links, what)? {
        Some(dataset) => dataset.vector(LARGEST_RECORD),
        None => Ok(Vec::new()),
    };
    if !itk::is_known(&class) {
        let name = shorten(&class);
        return Err(Wrong::Transform(format!("transforms of the type {name} are not supported")));
    }
    let mut record = Record { class, ..Record::default() };
    record.parameters = numbers("Parameters")?;
    record.fixed = numbers("FixedParameters")?;
    let kind = itk::parse(&record).map_err(Wrong::Transform)?;
    Ok((record.class, kind))
}

/// The dataset of a transform of this name, in both spellings.
fn parameters<'i, 'a>(
    input: &'i Input<'a>,
    links: &Links,
    what: &str,
) -> std::result::Result<Option<Dataset<'i, 'a>>, Fault> {
    let address =
        links.get(&format!("Transform{what}")).or_else(|| links.get(&format!("Tranform{what}")));
    address.map(|&address| Dataset::read(input, address)).transpose()
}

/// A displacement field.
fn field(input: &Input<'_>, links: &Links, class: &str) -> std::result::Result<VectorField, Wrong> {
    let name = shorten(class);
    let wrong = |problem: String| Err(Wrong::Transform(problem));
    let axes = match class.split('_').skip(1).collect::<Vec<_>>()[..] {
        ["double" | "float", "3", "3"] => 3,
        ["double" | "float", "2", "2"] => 2,
        _ => return wrong(format!("the transform {name} has unknown dimensions or precision")),
    };
    let need = |what: &str| match parameters(input, links, what)? {
        Some(dataset) => Ok(dataset),
        None => Err(Wrong::Transform(format!("it has no Transform{what}"))),
    };
    let fixed = need("FixedParameters")?.vector(LARGEST_RECORD)?;
    let grid = grid(&fixed, axes)?;
    let values = need("Parameters")?;
    let n = grid.len();
    if n as u64 * axes as u64 != values.count() {
        let dims = &grid.dims()[..axes];
        return wrong(format!("{} numbers for a field of the sizes {dims:?}", values.count()));
    }
    let mut data: Vec<f32> =
        memory::zeroed(3 * n).map_err(|refused| Wrong::File(refused.into()))?;
    let (mut voxel, mut component) = (0, 0);
    values.numbers(&mut |batch| {
        for &value in batch {
            let value = value as f32;
            if !value.is_finite() {
                return damaged(format!(
                    "component {component} of voxel {voxel} of the field is not a finite number \
                     of 32 bits"
                ));
            }
            data[component * n + voxel] = if component < 2 { 0.0 - value } else { value };
            component += 1;
            if component == axes {
                (voxel, component) = (voxel + 1, 0);
            }
        }
        Ok(())
    })?;
    VectorField::new(grid, data).map_err(Wrong::Image)
}

/// The grid of a field by its fixed parameters.
fn grid(fixed: &[f64], axes: usize) -> std::result::Result<Grid, Wrong> {
    if fixed.len() != 3 * axes + axes * axes {
        return Err(Wrong::Transform(format!(
            "a field has {} fixed parameters instead of {} (sizes, origin, spacing, direction)",
            fixed.len(),
            3 * axes + axes * axes
        )));
    }
    let (size, rest) = fixed.split_at(axes);
    let (origin, rest) = rest.split_at(axes);
    let (spacing, direction) = rest.split_at(axes);
    // Whole numbers up to this are exact.
    if size.iter().any(|&s| s.fract() != 0.0 || !(1.0..=9e15).contains(&s)) {
        return Err(Wrong::Transform(format!("a field has the sizes {size:?}")));
    }
    if spacing.iter().any(|&s| !s.is_finite() || s <= 0.0) {
        return Err(Wrong::Transform(format!("a field has the spacing {spacing:?}")));
    }
    let dims = std::array::from_fn(|a| size.get(a).map_or(1, |&s| s as usize));
    let matrix = Matrix3::from_fn(|r, c| match (r < axes, c < axes) {
        (true, true) => direction[r * axes + c] * spacing[c],
        _ => f64::from(u8::from(r == c)),
    });
    let offset = Vector3::from_fn(|r, _| origin.get(r).copied().unwrap_or(0.0));
    let lps = Affine::new(matrix, offset);
    Grid::new(dims, flip(&lps)).map_err(Wrong::Image)
}

/// LPS to RAS and back, of the world alone.
fn flip(affine: &Affine<Index, World>) -> Affine<Index, World> {
    let d = Matrix3::from_diagonal(&Vector3::new(-1.0, -1.0, 1.0));
    // Adding zero makes a negative zero positive.
    Affine::new((d * affine.matrix).add_scalar(0.0), (d * affine.offset).add_scalar(0.0))
}

#[cfg(test)]
mod tests;
