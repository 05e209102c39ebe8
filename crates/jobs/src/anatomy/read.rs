//! Reading and checking the files of two anatomies.

use super::file::{Kind, OfVoxels, Source};
use super::matched::Matched;
use crate::error::{Error, Result};
use crate::files;
use crate::listener::{Level, Listener, reading};
use crate::options::number;
use crate::run::Role;
use crate::surface;
use std::path::{Path, PathBuf};
use voxalign_image::{Grid, LabelMap, Mesh, PointSet, Vector3, Volume, memory};
use voxalign_io::image::ReadOptions;
use voxalign_io::mesh;
use voxalign_io::points;
use voxalign_options::text;
use voxalign_register::compare::{labels_of, same_grid};
use voxalign_register::fit::PointPairs;

/// How far beyond 0 and 1 a probability may be, as resampling and rounding leave it.
const BEYOND: f32 = 0.01;

/// What a file of an anatomy holds.
#[derive(Debug)]
pub(super) enum Data {
    /// An image, or a probability.
    Image(Volume<f32>),
    /// Labels of which some are a class, smoothed by so many mm.
    Class(LabelMap, Vec<i32>, f64),
    /// A surface, curves, or points, which have neither faces nor lines.
    Mesh(Mesh),
    /// Corresponding points.
    Landmarks(PointSet),
}

impl Data {
    /// The grid of an image.
    pub(super) fn grid(&self) -> Option<&Grid> {
        match self {
            Self::Image(image) => Some(image.grid()),
            Self::Class(labels, ..) => Some(labels.grid()),
            _ => None,
        }
    }

    /// Points that lie in the world, mm.
    pub(super) fn places(&self) -> &[Vector3<f64>] {
        match self {
            Self::Mesh(mesh) => mesh.vertices(),
            Self::Landmarks(points) => points.points(),
            _ => &[],
        }
    }
}

/// Something of both anatomies that was read.
#[derive(Debug)]
pub(super) struct Thing {
    /// What it is, and how it is compared.
    pub(super) of: Matched,
    /// The fixed and the moving one.
    pub(super) data: [Data; 2],
}

/// Something of one anatomy.
#[derive(Debug, Clone, Copy)]
pub(super) struct Own<'a> {
    pub(super) of: &'a Matched,
    pub(super) data: &'a Data,
}

/// What one of two anatomies has.
pub(super) fn of_side(things: &[Thing], side: usize) -> Vec<Own<'_>> {
    things.iter().map(|thing| Own { of: &thing.of, data: &thing.data[side] }).collect()
}

/// What messages call the two anatomies and their images.
pub(super) const CALLED: [[&str; 2]; 2] =
    [["the fixed anatomy", "the fixed image"], ["the moving anatomy", "the moving image"]];

/// Reads everything; gives remarks beside it.
pub(super) fn things(
    matched: Vec<Matched>,
    listener: &dyn Listener,
) -> Result<(Vec<Thing>, Vec<String>)> {
    let (mut maps, mut remarks) = ([None, None], Vec::new());
    let mut all = Vec::with_capacity(matched.len());
    // Lists of voxel indices are those of the first image of their side.
    let lists = matched.iter().any(|m| matches!(m.sources[0], Source::List(..)));
    let grid = |side: usize| -> Result<Option<Grid>> {
        let path = matched.iter().find_map(|m| match &m.sources[side] {
            Source::Images(images) => images.first().map(|i| &i.0),
            Source::Labels { path, .. } => Some(path),
            _ => None,
        });
        path.filter(|_| lists).map(|path| files::grid(path, listener)).transpose()
    };
    let grids = [grid(0)?, grid(1)?];
    for of in matched {
        let mut read = |side: usize| {
            let at = format!("{} of the {} anatomy", of.words(), SIDES[side]);
            let made = (&mut maps[side], &mut remarks);
            let source = (&of.sources[side], Some(side));
            let data = any(&of, source, grids[side].as_ref(), made, &at, listener);
            data.map_err(|e| e.at(&at))
        };
        let data = [read(0)?, read(1)?];
        let thing = Thing { of, data };
        let [fixed, moving] = &thing.data;
        check_alike(&thing.of, [fixed, moving], CALLED.map(|c| c[0]), listener)?;
        all.push(thing);
    }
    for side in 0..2 {
        one_grid(&all, side)?;
    }
    Ok((all, remarks))
}

/// A label map that was read, as several surfaces are often of one.
pub(super) type ReadMap = Option<(PathBuf, LabelMap)>;

/// What a source has, or what is made of it.
pub(super) fn any(
    of: &Matched,
    (source, side): (&Source, Option<usize>),
    grid: Option<&Grid>,
    made: (&mut ReadMap, &mut Vec<String>),
    at: &str,
    listener: &dyn Listener,
) -> Result<Data> {
    match source {
        Source::Voxels(voxels) => surface(of, voxels, made, at, listener),
        source => data(of, (source, side), grid, at, listener),
    }
}

/// A surface that is made of voxels, or their outlines.
fn surface(
    of: &Matched,
    voxels: &OfVoxels,
    (map, remarks): (&mut ReadMap, &mut Vec<String>),
    at: &str,
    listener: &dyn Listener,
) -> Result<Data> {
    let OfVoxels { path, volume, object, shape, .. } = voxels;
    let options = (object, shape);
    let (mesh, verdict) = if object.level.is_some() {
        let image = image(path, *volume, listener)?;
        surface::made(surface::Of::Image(Box::new(image)), path, options, listener)
    } else {
        let read = match map.take().filter(|read| read.0 == *path) {
            Some(read) => read,
            None => (path.clone(), files::labels(path, listener)?),
        };
        let (_, labels) = map.insert(read);
        surface::made(surface::Of::Labels(labels), path, options, listener)
    }
    .map_err(Error::of_keys)?;
    if !verdict.good {
        let remark = format!(
            "{at}: what was made of '{}' is {}; look at the labels or the level, or give other values of 'smoothing', \
             'triangles' or 'keep'",
            path.display(),
            verdict.summary()
        );
        listener.say(Level::Warning, &remark);
        remarks.push(remark);
    }
    Ok(Data::Mesh(whole(of, mesh, path, at, listener)?))
}

/// What the two anatomies are called.
pub(super) const SIDES: [&str; 2] = ["fixed", "moving"];

pub(super) fn data(
    of: &Matched,
    (source, side): (&Source, Option<usize>),
    grid: Option<&Grid>,
    at: &str,
    listener: &dyn Listener,
) -> Result<Data> {
    match source {
        Source::Images(sources) if of.kind == Kind::Probability => {
            Ok(Data::Image(probability(sources, listener)?))
        }
        Source::Images(sources) => match &**sources {
            [(path, volume)] => Ok(Data::Image(image(path, *volume, listener)?)),
            _ => Err(Error::Internal("several files of an image".into())),
        },
        Source::Labels { path, labels, sigma, .. } => {
            let map = files::labels(path, listener)?;
            let found = labels_of(&map);
            if let Some(missing) = labels.iter().find(|l| !found.contains(l)) {
                let known: Vec<_> = found.iter().take(20).map(ToString::to_string).collect();
                let more = if found.len() > known.len() { ", ..." } else { "" };
                return Err(Error::input(text!(
                    "'{}' has no label {missing}; it has {}{more}",
                    path.display(),
                    known.join(", ")
                )));
            }
            Ok(Data::Class(map, labels.clone(), *sigma))
        }
        Source::Voxels(_) => Err(Error::Internal("a surface that is yet to be made".into())),
        Source::Mesh(path, space) => {
            let options = mesh::ReadOptions { space: *space };
            let (mesh, info) = reading(listener, || mesh::read(path, &options))?;
            for oddity in &info.oddities {
                listener.say(Level::Warning, format!("'{}': {oddity}", path.display()));
            }
            Ok(Data::Mesh(whole(of, mesh, path, at, listener)?))
        }
        Source::List(path, convention) => {
            let convention = convention.map(Into::into);
            let options = points::ReadOptions { convention, grid, volume: None };
            let (points, _) = files::points_of_pair(path, &options, side, listener)?;
            if points.is_empty() {
                return Err(Error::input(text!("'{}' has no points", path.display())));
            }
            match of.kind {
                Kind::Landmarks => Ok(Data::Landmarks(points)),
                _ => Ok(Data::Mesh(Mesh::new(memory::copied(points.points())?, Vec::new())?)),
            }
        }
    }
}

/// An image of a file, with a word on how one of several is chosen.
fn image(path: &Path, volume: Option<usize>, listener: &dyn Listener) -> Result<Volume<f32>> {
    let which = ReadOptions { volume, ..ReadOptions::default() };
    let read = files::image_of(path, &which, listener);
    Ok(read.map_err(|e| e.choosing(Role::Ct).of_keys())?.0)
}

/// The sum of images, each of which is a probability.
fn probability(
    sources: &[(std::path::PathBuf, Option<usize>)],
    listener: &dyn Listener,
) -> Result<Volume<f32>> {
    let mut sum: Option<Volume<f32>> = None;
    for (path, volume) in sources {
        let mut one = image(path, *volume, listener)?;
        within_one(&one, &format!("'{}'", path.display()))?;
        if let Some(sum) = &sum {
            same_grid(sum.grid(), one.grid())
                .map_err(|e| Error::from(e).at("the images that are added to one class"))?;
            for (v, more) in one.data_mut().iter_mut().zip(sum.data()) {
                *v += more;
            }
        }
        sum = Some(one);
    }
    let mut sum = sum.ok_or_else(|| Error::Internal("a class without files".into()))?;
    if sources.len() > 1 {
        within_one(&sum, "the images that are added to one class")?;
    }
    sum.data_mut().iter_mut().for_each(|v| *v = v.clamp(0.0, 1.0));
    if sum.data().iter().all(|v| *v <= 0.0) {
        return Err(Error::input(
            "the class has no voxel above 0; check that these are the intended files",
        ));
    }
    Ok(sum)
}

/// Whether values are probabilities.
fn within_one(image: &Volume<f32>, what: &str) -> Result<()> {
    let (mut low, mut high, mut odd) = (f32::INFINITY, f32::NEG_INFINITY, 0usize);
    for &v in image.data() {
        if v.is_finite() {
            (low, high) = (low.min(v), high.max(v));
        } else {
            odd += 1;
        }
    }
    if odd > 0 {
        return Err(Error::input(text!(
            "{what}: {odd} voxels are not numbers, as probabilities must be; replace them first: `voxalign convert IN \
             OUT --replace-nan 0`"
        )));
    }
    if low < -BEYOND || high > 1.0 + BEYOND {
        let remedy = match high {
            _ if low < -BEYOND => "check that this is a map of probabilities",
            h if h <= 1.5 => "check that the classes that are added exclude each other",
            h if h <= 100.5 => {
                "divide percentages by 100 first, and list labels by 'labels' and 'label'"
            }
            _ => {
                "divide them by their largest value first, or list an ordinary image under [[image]]"
            }
        };
        return Err(Error::input(text!(
            "{what}: values from {low} to {high} are not probabilities, which range from 0 to 1; {remedy}"
        )));
    }
    Ok(())
}

/// A mesh as what it is said to be, without elements that have no size.
fn whole(of: &Matched, mesh: Mesh, path: &Path, at: &str, listener: &dyn Listener) -> Result<Mesh> {
    let at_path = path.display();
    if of.kind == Kind::Points {
        if mesh.is_empty() {
            return Err(Error::input(text!("'{at_path}' has no vertices")));
        }
        return Ok(Mesh::new(memory::copied(mesh.vertices())?, Vec::new())?);
    }
    let [faces, lines] = [!mesh.faces().is_empty(), mesh.lines().next().is_some()];
    let (has, what, other) = match of.kind {
        Kind::Surface => (faces, "faces", lines.then_some("[[curve]]")),
        _ => (lines, "lines", faces.then_some("[[surface]]")),
    };
    if !has {
        let other = other.unwrap_or("[[points]]");
        return Err(Error::input(text!("'{at_path}' has no {what}; list it under {other}")));
    }
    let (mesh, dropped) = mesh.without_degenerate()?;
    if dropped > 0 {
        listener.say(
            Level::Warning,
            format!("{at}: '{at_path}': {dropped} {what} without size are left out"),
        );
    }
    let left = match of.kind {
        Kind::Surface => !mesh.faces().is_empty(),
        _ => mesh.lines().next().is_some(),
    };
    if !left {
        let why = match of.kind {
            Kind::Surface => "no face has an area",
            _ => "no curve has two points at different places",
        };
        return Err(Error::input(text!("'{at_path}': {why}; check the file")));
    }
    let (numbers, directions): (Vec<_>, Vec<_>) =
        mesh.data().iter().cloned().partition(|array| !array.is_direction);
    if !directions.is_empty() {
        let names: Vec<_> = directions.iter().map(|array| &*array.name).collect();
        let names = names.join(", ");
        listener.say(
            Level::Normal,
            format!("{at}: '{at_path}': directions at vertices are left out: {names}"),
        );
    }
    let mesh = mesh.with_data(numbers)?;
    // Only what is compared.
    Ok(match of.kind {
        Kind::Surface => mesh.with_lines(Vec::new(), Vec::new())?,
        _ => {
            let (ends, vertices) =
                (memory::copied(mesh.line_ends())?, memory::copied(mesh.line_vertices())?);
            Mesh::new(memory::copied(mesh.vertices())?, Vec::new())?.with_lines(ends, vertices)?
        }
    })
}

/// The mean length of the sides of triangles, or of steps along lines, mm; nothing for points.
pub(super) fn mean_edge(mesh: &Mesh) -> Option<f64> {
    let place = |i: u32| mesh.vertices().get(i as usize).copied().unwrap_or_default();
    let between = |a: u32, b: u32| (place(a) - place(b)).norm();
    let (mut sum, mut count) = (0.0, 0usize);
    for &[a, b, c] in mesh.faces() {
        sum += between(a, b) + between(b, c) + between(c, a);
        count += 3;
    }
    if count == 0 {
        for step in mesh.lines().flat_map(|line| line.windows(2)) {
            sum += between(step[0], step[1]);
            count += 1;
        }
    }
    (count > 0).then(|| sum / count as f64)
}

/// What belongs together fits together; the anatomies are called so.
pub(super) fn check_alike(
    of: &Matched,
    data: [&Data; 2],
    called: [&str; 2],
    listener: &dyn Listener,
) -> Result<()> {
    let words = of.words();
    if let [Data::Landmarks(one), Data::Landmarks(other)] = data
        && one.len() != other.len()
    {
        return Err(Error::input(text!(
            "{words}: {} has {} points, {} {}: points correspond line by line, so give the same number",
            called[0],
            one.len(),
            called[1],
            other.len()
        )));
    }
    let [Data::Mesh(one), Data::Mesh(other)] = data else { return Ok(()) };
    for (called, mesh) in called.into_iter().zip([one, other]) {
        if let Some(edge) = mean_edge(mesh).filter(|edge| *edge > of.width) {
            return Err(Error::input(text!(
                "{words}: 'width' is {} mm, and the edges of the mesh of {called} have {edge:.2} mm in the mean: each \
                 element counts at its centre, so that what is narrower than elements are long sees gaps; give a \
                 width of {:.1} mm or more, or a finer mesh",
                of.width,
                (10.0 * edge).ceil() / 10.0
            )));
        }
    }
    if of.oriented
        && let [Some(first), Some(second)] = [one.volume()?, other.volume()?]
        && first * second < 0.0
    {
        let inside = called[usize::from(first > 0.0)];
        return Err(Error::input(text!(
            "{words}: the triangles of the mesh of {inside} go round as seen from inside, those of the other as seen from \
             outside, so that they would push each other away; turn the faces of one round, or give oriented = false"
        )));
    }
    let length = |mesh: &Mesh| mesh.bounds().map_or(0.0, |[low, high]| (high - low).norm());
    let [first, second] = [length(one), length(other)];
    if first.max(second) > 5.0 * first.min(second) {
        listener.say(
            Level::Warning,
            format!(
                "{words}: that of {} is {first:.1} mm large, that of {} {second:.1} mm: check that both are the same \
                 structure, in mm",
                called[0], called[1]
            ),
        );
    }
    Ok(())
}

/// What each of some points counts by a column `weight`, where they have one.
pub(super) fn weights_of(points: &PointSet, of: &Matched) -> Result<Option<Vec<f64>>> {
    let column = points.columns().iter().find(|(name, _)| name.eq_ignore_ascii_case("weight"));
    let Some((_, texts)) = column else { return Ok(None) };
    let weight = |(i, text): (usize, &String)| {
        number(text)
            .map_err(|e| Error::input(text!("{}: the weight of point {}: {e}", of.words(), i + 1)))
    };
    texts.iter().enumerate().map(weight).collect::<Result<_>>().map(Some)
}

impl Thing {
    /// Corresponding points, with what each counts.
    pub(super) fn pairs(&self) -> Result<Option<PointPairs>> {
        let [Data::Landmarks(fixed), Data::Landmarks(moving)] = &self.data else {
            return Ok(None);
        };
        let pairs = PointPairs::new(fixed, moving)?;
        let Some(each) = weights_of(fixed, &self.of)? else { return Ok(Some(pairs)) };
        let pairs = pairs.with_weights(each);
        Ok(Some(pairs.map_err(|e| Error::from(e).at(self.of.words()))?))
    }
}

/// Fixed images are on one grid, and so are the moving probabilities, which belong to one anatomy.
fn one_grid(things: &[Thing], side: usize) -> Result<()> {
    let on = |thing: &Thing| match side {
        0 => thing.of.kind.is_image(),
        _ => thing.of.kind == Kind::Probability,
    };
    let mut all = things.iter().filter(|t| on(t)).filter_map(|t| Some((t, t.data[side].grid()?)));
    let Some((first, grid)) = all.next() else { return Ok(()) };
    for (thing, other) in all {
        same_grids(&thing.of, CALLED[side][0], other, (&first.of, grid))?;
    }
    Ok(())
}

/// Refuses a part of an anatomy that is on another grid than another part.
pub(super) fn same_grids(
    of: &Matched,
    called: &str,
    grid: &Grid,
    (first, other): (&Matched, &Grid),
) -> Result<()> {
    if same_grid(grid, other).is_err() {
        return Err(Error::input(text!(
            "{} of {called} is on another grid than {}: {grid} against {other}; bring it there first, by `voxalign apply \
             -i IMAGE -r REFERENCE -o OUT`",
            of.words(),
            first.words()
        )));
    }
    Ok(())
}
