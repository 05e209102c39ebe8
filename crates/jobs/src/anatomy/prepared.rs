//! Input of the deformable registration, from two anatomies.

use super::drawing;
use super::file::Kind;
use super::matched::Matched;
use super::place;
use super::read::{CALLED, Data, Thing, of_side};
use crate::deform::{ChannelImages, Inputs};
use crate::error::{Error, Result};
use crate::listener::{Level, Listener};
use crate::pair::{MaskPaths, Pair};
use std::sync::Arc;
use voxalign_compute::Memory;
use voxalign_compute::ops::Filter;
use voxalign_compute::ops::filter::GaussianMethod;
use voxalign_compute::ops::pairwise::RadialKernel;
use voxalign_compute::select::AnyDevice;
use voxalign_image::{Affine, Grid, LabelMap, Mesh, PointSet, Vector3, Volume, memory};
use voxalign_register::attachment::Landmarks;
use voxalign_register::attachment::currents::{Shape, ShapeOptions, Summation, too_large};
use voxalign_register::diffeo::{Intensities, ShapeInput};
use voxalign_register::fit::{MapKind, PointPairs};
use voxalign_register::fit_shapes::{ShapeStart, fit_shapes};
use voxalign_register::similarity::Similarity;

/// What the first pair of images is, which is looked at and found by an affine registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    /// The first ordinary image.
    Image,
    /// The probabilities, each with a value of its own.
    Classes,
    /// The shapes and points, drawn.
    Drawing,
}

/// The classes of labels, and the drawings that are needed.
pub(super) struct Prepared {
    pub(super) inputs: Inputs,
    /// The similarity of the first pair.
    pub(super) similarity: Similarity,
    pub(super) shown: Shown,
    /// What is not in the inputs: meshes and landmarks.
    pub(super) things: Vec<Thing>,
    /// For the channels of the inputs, which of the things each was, with its name and kind.
    pub(super) channels: Vec<(String, Kind)>,
    /// The name of the first pair, where it is an image.
    pub(super) first: Option<String>,
    pub(super) remarks: Vec<String>,
}

/// Makes the inputs of a registration; `spacing` is that of grids around shapes that have no images.
pub(super) fn prepare(
    device: &AnyDevice,
    mut things: Vec<Thing>,
    spacing: Option<f64>,
    masks: &MaskPaths,
    listener: &dyn Listener,
) -> Result<Prepared> {
    for thing in &mut things {
        for data in &mut thing.data {
            if let Data::Class(labels, which, sigma) = data {
                *data = Data::Image(class(device, labels, which, *sigma)?);
            }
        }
    }
    let mut remarks = sums(&things);
    remarks.iter().for_each(|remark| listener.say(Level::Warning, remark));
    let first = things.iter().position(|t| t.of.kind == Kind::Image);
    let classes = |side: usize| -> Vec<&Volume<f32>> {
        let image = |t: &'_ Thing| matches!(t.data[side], Data::Image(_));
        let all = things.iter().filter(|t| t.of.kind == Kind::Probability && image(t));
        all.filter_map(|t| match &t.data[side] {
            Data::Image(image) => Some(image),
            _ => None,
        })
        .collect()
    };
    let (shown, pair) = match first {
        Some(_) => (Shown::Image, None),
        None if !classes(0).is_empty() => {
            let draw = |side| drawing::of_classes(classes(side).into_iter());
            (Shown::Classes, Some([draw(0)?, draw(1)?]))
        }
        None => {
            let spacing = spacing.unwrap_or_else(|| drawing::usual_spacing(&of_side(&things, 0)));
            let draw = |side| {
                let own = of_side(&things, side);
                drawing::of_shapes(device, &own, &drawing::around(&own, spacing)?)
            };
            (Shown::Drawing, Some([draw(0)?, draw(1)?]))
        }
    };
    let mut channels = Vec::new();
    let mut names = Vec::new();
    let (mut weight, mut similarity) = (0.0, Similarity::SSD);
    let mut images = pair;
    let (mut name, mut rest) = (None, Vec::new());
    let mut shapes = Vec::new();
    let mut marks: Vec<(PointPairs, f64)> = Vec::new();
    for (i, thing) in things.into_iter().enumerate() {
        let of = &thing.of;
        match thing.data {
            [Data::Image(fixed), Data::Image(moving)] => {
                if first == Some(i) {
                    (weight, similarity) = (of.weight, of.similarity);
                    name = Some(of.name.clone());
                    images = Some([fixed, moving]);
                    continue;
                }
                names.push((of.name.clone(), of.kind));
                let intensities = match of.kind {
                    Kind::Probability => Intensities::AsTheyAre,
                    _ => Intensities::Calibrated,
                };
                let (similarity, weight) = (of.similarity, of.weight);
                let images = [fixed.into(), moving.into()];
                channels.push(ChannelImages { images, similarity, weight, intensities });
            }
            data => {
                let thing = Thing { of: thing.of, data };
                if let [Data::Mesh(fixed), Data::Mesh(moving)] = &thing.data {
                    let [fixed, moving] =
                        [Arc::new(shape(&thing.of, fixed)?), Arc::new(shape(&thing.of, moving)?)];
                    let (kernel, width) = (thing.of.kernel, thing.of.width);
                    let (weight, summation) = (thing.of.weight, Summation::default());
                    let kernel_of_it = RadialKernel { shape: kernel, width };
                    if let Some(why) = too_large(summation, &kernel_of_it, [&fixed, &moving]) {
                        let remark = format!("{}: {why}", thing.of.words());
                        listener.say(Level::Warning, &remark);
                        remarks.push(remark);
                    }
                    let options = ShapeOptions { kernel, width, weight, summation };
                    shapes.push(ShapeInput { fixed, moving, options });
                }
                if let Some(pairs) = thing.pairs()? {
                    marks.push((pairs, thing.of.weight));
                }
                rest.push(thing);
            }
        }
    }
    let Some([fixed, moving]) = images else {
        return Err(Error::Internal("an anatomy of nothing".into()));
    };
    for (side, grid) in [fixed.grid(), moving.grid()].into_iter().enumerate() {
        if shown != Shown::Drawing {
            remarks.extend(place::check(&of_side(&rest, side), CALLED[side], grid)?);
        }
    }
    let pair = masks.read(Pair::new(fixed, moving), listener)?;
    let landmarks = together(marks)?;
    let inputs = Inputs { weight, channels, landmarks, shapes, ..Inputs::of(pair) };
    Ok(Prepared { inputs, similarity, shown, things: rest, channels: names, first: name, remarks })
}

/// Labels as the probability of a class.
pub(super) fn class(
    device: &AnyDevice,
    labels: &LabelMap,
    which: &[i32],
    sigma: f64,
) -> Result<Volume<f32>> {
    let image = labels.try_map(|l| if which.contains(l) { 1f32 } else { 0.0 })?;
    if sigma == 0.0 {
        return Ok(image);
    }
    let (grid, values) = image.into_parts();
    let values = device.upload_vec(values)?;
    let mut smooth = device.alloc::<f32>(grid.len())?;
    let sigmas = grid.spacing().map(|mm| sigma / mm);
    device.gaussian(&values, grid.dims(), sigmas, GaussianMethod::Narrow, &mut smooth)?;
    let mut smooth = device.into_host(smooth)?;
    smooth.iter_mut().for_each(|p| *p = p.clamp(0.0, 1.0));
    Ok(Volume::new(grid, smooth)?)
}

/// What the classes of each side add up to.
fn sums(things: &[Thing]) -> Vec<String> {
    /// The sum from which a place belongs to the classes as a whole, and how far from one the sum may be there.
    const WITHIN: (f32, f32) = (0.5, 0.05);
    let mut remarks = Vec::new();
    for (side, name) in super::read::SIDES.into_iter().enumerate() {
        let of = |t: &'_ Thing| t.of.kind == Kind::Probability;
        let classes: Vec<&Volume<f32>> = things
            .iter()
            .filter(|t| of(t))
            .filter_map(|t| match &t.data[side] {
                Data::Image(image) => Some(image),
                _ => None,
            })
            .collect();
        let Some(first) = classes.first().filter(|_| classes.len() > 1) else { continue };
        let (mut within, mut off, mut most) = (0usize, 0usize, 0f32);
        for i in 0..first.data().len() {
            let sum: f32 = classes.iter().map(|c| c.data()[i]).sum();
            most = most.max(sum);
            if sum > WITHIN.0 {
                within += 1;
                off += usize::from((sum - 1.0).abs() > WITHIN.1);
            }
        }
        if most > 1.0 + WITHIN.1 {
            remarks.push(format!(
                "the probabilities of the {name} anatomy sum to {most:.2} at most: classes that exclude each other sum to \
                 no more than 1"
            ));
        }
        if 4 * off > within {
            remarks.push(format!(
                "the probabilities of the {name} anatomy sum to one in {:.0} % of the voxels where they sum to more than a \
                 half: a class may be missing, or they overlap",
                100.0 * (within - off) as f64 / within.max(1) as f64
            ));
        }
    }
    remarks
}

/// A mesh as it is compared.
pub(super) fn shape(of: &Matched, mesh: &Mesh) -> Result<Shape> {
    let (vertices, oriented) = (mesh.vertices(), of.oriented);
    let made = match of.kind {
        Kind::Surface => Shape::surface(vertices, mesh.faces(), oriented),
        Kind::Curve => Shape::curves(vertices, mesh.lines(), oriented),
        _ => Shape::points(vertices),
    };
    made.map_err(|e| Error::from(e).at(of.words()))
}

/// All landmarks as one set: the weight of each list becomes that of its pairs beside the others.
fn together(marks: Vec<(PointPairs, f64)>) -> Result<Option<Landmarks>> {
    if marks.len() < 2 {
        let one = marks.into_iter().next();
        return one.map(|(pairs, weight)| Ok(Landmarks::of(pairs, weight)?)).transpose();
    }
    let total: usize = marks.iter().map(|m| m.0.len()).sum();
    let weight = marks.iter().map(|m| m.1).fold(0.0, f64::max);
    let [mut fixed, mut moving] = [memory::room(total)?, memory::room(total)?];
    let mut each = memory::room(total)?;
    for (pairs, own) in &marks {
        let [a, b] = pairs.points();
        fixed.extend_from_slice(a);
        moving.extend_from_slice(b);
        // The energy of a list is its weight times a mean.
        let factor = own / weight * total as f64 / pairs.len() as f64;
        each.extend((0..pairs.len()).map(|i| factor * pairs.weight(i)));
    }
    let sets: [PointSet; 2] =
        [fixed, moving].map(|points: Vec<Vector3<f64>>| PointSet::new(points));
    let pairs = PointPairs::new(&sets[0], &sets[1])?.with_weights(each)?;
    Ok(Some(Landmarks::of(pairs, weight)?))
}

/// The affine map that lays the shapes and landmarks of anatomies without images on each other.
pub(super) fn fitted(
    things: &[Thing],
    landmarks: Option<&Landmarks>,
    start: &ShapeStart,
) -> Result<Affine> {
    let meshes = things.iter().filter_map(|t| match &t.data {
        [Data::Mesh(fixed), Data::Mesh(moving)] => Some([fixed, moving]),
        _ => None,
    });
    let meshes: Vec<_> = meshes.collect();
    let points = landmarks.map(Landmarks::pairs);
    let found = fit_shapes(&meshes, points, MapKind::Affine, start)
        .map_err(|e| Error::from(e).at("the affine part of the shapes"))?;
    Ok(found.map)
}

/// The grid of a side before anything is prepared, where images have one.
pub(super) fn grid_of(things: &[Thing], side: usize) -> Option<&Grid> {
    let of =
        |kind: Kind| things.iter().find(|t| t.of.kind == kind).and_then(|t| t.data[side].grid());
    of(Kind::Image).or_else(|| of(Kind::Probability))
}
