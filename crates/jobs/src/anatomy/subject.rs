//! Anatomies as the subjects of an atlas.

use super::drawing;
use super::file::{Anatomy, Given, Kind, Source};
use super::matched::{Matched, matched};
use super::place;
use super::prepared::{class, shape};
use super::read::{Data, Own, any, check_alike, data, same_grids, weights_of};
use crate::error::{Error, Result};
use crate::files;
use crate::listener::Listener;
use crate::run::{Input, Role};
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use voxalign_compute::cpu::Cpu;
use voxalign_compute::select::AnyDevice;
use voxalign_image::{Grid, Mesh, PointSet, Vector3, Volume};
use voxalign_io::image::ReadOptions;
use voxalign_population::atlas::{AtlasChannel, Forms, Geometry};
use voxalign_register::attachment::currents::{ShapeOptions, Summation};
use voxalign_register::similarity::Similarity;

/// What all of some anatomies have.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Common {
    /// How each part is compared, with where the first anatomy has it from.
    parts: Vec<Matched>,
    /// What the first of the images is.
    first: First,
}

/// The first channel of an atlas of anatomies: what subjects are first aligned by, and pictures show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum First {
    /// The first ordinary image.
    Image,
    /// The probabilities, each with a value of its own.
    Classes,
    /// The shapes and points, drawn.
    Shapes,
}

/// What one anatomy says of a part, and another one did not.
fn added(all: &mut Given, more: &Given) {
    all.weight = all.weight.or(more.weight);
    all.width = all.width.or(more.width);
    all.kernel = all.kernel.or(more.kernel);
    all.oriented = all.oriented.or(more.oriented);
    all.similarity = all.similarity.or(more.similarity);
}

impl Common {
    /// Matches anatomies by names. Parameters may be said in any of them, and have to be the same wherever they are said.
    ///
    /// # Errors
    /// Names that are not in all, or of other kinds; parameters that differ.
    pub(crate) fn of(all: &[&Anatomy]) -> Result<Self> {
        let merged = Self::merged(all);
        let parts = matched(&merged, &merged)?;
        for anatomy in all {
            matched(&merged, anatomy)?;
        }
        let has = |kind: Kind| parts.iter().any(|p| p.kind == kind);
        let first = match () {
            () if has(Kind::Image) => First::Image,
            () if has(Kind::Probability) => First::Classes,
            () => First::Shapes,
        };
        Ok(Self { parts, first })
    }

    /// The first of the anatomies with all that any of them says of its parts.
    fn merged(all: &[&Anatomy]) -> Anatomy {
        let mut merged = all.first().map(|a| (*a).clone()).unwrap_or_default();
        for part in &mut merged.parts {
            let others = all.iter().flat_map(|a| &a.parts);
            others.filter(|p| p.name == part.name).for_each(|p| added(&mut part.given, &p.given));
        }
        merged
    }

    /// Whether there are no images, so that grids are made around shapes.
    pub(crate) fn is_of_shapes_alone(&self) -> bool {
        self.first == First::Shapes
    }

    /// The images in the order of channels.
    fn images(&self) -> Vec<usize> {
        let is = |i: &usize| self.parts[*i].kind == Kind::Image;
        let first = (0..self.parts.len()).find(is);
        let rest = (0..self.parts.len()).filter(|i| self.parts[*i].kind.is_image());
        first.into_iter().chain(rest.filter(|i| Some(*i) != first)).collect()
    }

    /// Whether the first channel is a picture that pulls nothing.
    fn is_drawn(&self) -> bool {
        self.first != First::Image
    }

    /// How channels are compared.
    pub(crate) fn channels(&self) -> Vec<AtlasChannel> {
        let drawn = AtlasChannel { similarity: Similarity::SSD, weight: 0.0 };
        let of = |i: usize| {
            let Matched { similarity, weight, .. } = self.parts[i];
            AtlasChannel { similarity, weight }
        };
        let drawn = self.is_drawn().then_some(drawn);
        drawn.into_iter().chain(self.images().into_iter().map(of)).collect()
    }

    /// The names of channels; none of a picture.
    fn channel_names(&self) -> Vec<Option<&str>> {
        let of = |i: usize| Some(&*self.parts[i].name);
        let drawn = self.is_drawn().then_some(None);
        drawn.into_iter().chain(self.images().into_iter().map(of)).collect()
    }

    /// The channels whose values count as they are.
    pub(crate) fn as_they_are(&self) -> Vec<usize> {
        let drawn = usize::from(self.is_drawn());
        let images = self.images().into_iter().enumerate();
        let classes = images.filter(|(_, i)| self.parts[*i].kind == Kind::Probability);
        (0..drawn).chain(classes.map(|(channel, _)| drawn + channel)).collect()
    }

    /// What is neither, in the order of the geometry.
    pub(crate) fn geometry(&self) -> impl Iterator<Item = &Matched> {
        self.parts.iter().filter(|p| !p.kind.is_image())
    }

    /// Its parameters, for the record, without where they come from; the channels of images are counted from 1.
    pub(crate) fn parameters(&self) -> Value {
        let all = self.parts.iter().map(|part| {
            let mut all = part.parameters();
            if let Some(all) = all.as_object_mut() {
                all.retain(|key, _| key != "fixed" && key != "moving");
                let names = self.channel_names();
                if let Some(channel) = names.iter().position(|n| *n == Some(&*part.name)) {
                    all.insert("channel".to_owned(), (channel + 1).into());
                }
            }
            all
        });
        all.collect()
    }
}

/// All files of an anatomy, with what they are; each once.
pub(crate) fn files_of(anatomy: &Anatomy) -> Vec<Input<'_>> {
    let mut all = vec![Input::new(Role::Anatomy, &anatomy.path)];
    for part in &anatomy.parts {
        let role = match part.kind {
            Kind::Image => Role::Channel,
            Kind::Probability => Role::Probability,
            Kind::Landmarks => Role::Landmarks,
            _ if matches!(part.source, Source::Voxels(_)) => Role::ShapeImage,
            _ => Role::Shape,
        };
        let volumes: Vec<Option<usize>> = match &part.source {
            Source::Images(files) => files.iter().map(|f| f.1).collect(),
            Source::Voxels(of) => vec![of.volume],
            _ => vec![None],
        };
        for (path, volume) in part.source.paths().into_iter().zip(volumes) {
            if !all.iter().any(|other| other.is_file(path)) {
                let which = ReadOptions { volume, ..ReadOptions::default() };
                all.push(Input::new(role, path).of(which));
            }
        }
        let table = part.source.names().filter(|t| !all.iter().any(|other| other.is_file(t)));
        all.extend(table.map(|table| Input::new(Role::LabelNames, table)));
    }
    all
}

/// A subject of an atlas: what is not an image was read.
pub(crate) struct Subject {
    common: Arc<Common>,
    /// The same parts with where this one has them from.
    parts: Vec<Matched>,
    /// What messages call it.
    called: String,
    /// The parts that are no images.
    shapes: Vec<Data>,
    /// The grid of its picture, where there are no images.
    drawn: Option<Grid>,
    /// Voxels of all channels.
    voxels: u64,
}

impl Subject {
    /// Reads what is no image; `spacing` is that of grids around shapes alone.
    ///
    /// # Errors
    /// What is wrong with a file; shapes that lie elsewhere than the images.
    pub(crate) fn read(
        common: &Arc<Common>,
        anatomy: &Anatomy,
        spacing: Option<f64>,
        listener: &dyn Listener,
    ) -> Result<Self> {
        let merged = Anatomy {
            path: anatomy.path.clone(),
            parts: common
                .parts
                .iter()
                .filter_map(|p| anatomy.parts.iter().find(|part| part.name == p.name).cloned())
                .collect(),
        };
        let mut parts = common.parts.clone();
        for (part, own) in parts.iter_mut().zip(merged.parts) {
            part.sources[1] = own.source;
        }
        let called = format!("'{}'", anatomy.path.display());
        let mut subject = Self {
            common: Arc::clone(common),
            parts,
            called,
            shapes: Vec::new(),
            drawn: None,
            voxels: 0,
        };
        let grids = subject.grids(listener)?;
        // What is made of voxels says by itself what is odd about it.
        let (mut map, mut remarks) = (None, Vec::new());
        for part in subject.parts.iter().filter(|p| !p.kind.is_image()) {
            let at = format!("{} of {}", part.words(), subject.called);
            let (source, made) = ((&part.sources[1], None), (&mut map, &mut remarks));
            let read = any(part, source, grids.first(), made, &at, listener);
            subject.shapes.push(read.map_err(|e| e.at(&at))?);
        }
        let own = subject.own();
        match grids.first() {
            Some(grid) => {
                let called = [&*subject.called, "its image"];
                for remark in place::check(&own, called, grid)? {
                    listener.say(crate::listener::Level::Warning, &remark);
                }
                let drawn = if common.is_drawn() { grid.len() } else { 0 };
                let voxels = grids.iter().map(Grid::len).sum::<usize>() + drawn;
                subject.voxels = voxels as u64;
            }
            None => {
                let spacing = spacing.unwrap_or_else(|| drawing::usual_spacing(&own));
                let grid = drawing::around(&own, spacing)?;
                subject.voxels = grid.len() as u64;
                subject.drawn = Some(grid);
            }
        }
        Ok(subject)
    }

    /// The grids of its images, in the order of channels; classes are on one.
    fn grids(&self, listener: &dyn Listener) -> Result<Vec<Grid>> {
        let mut grids = Vec::new();
        let mut of_classes: Option<(&Matched, Grid)> = None;
        for part in self.common.images().into_iter().map(|i| &self.parts[i]) {
            let Some(path) = part.sources[1].paths().first().copied() else { continue };
            let grid = files::grid(path, listener)
                .map_err(|e| e.at(format!("{} of {}", part.words(), self.called)))?;
            match &of_classes {
                Some((first, other)) if part.kind == Kind::Probability => {
                    same_grids(part, &self.called, &grid, (first, other))?;
                }
                None if part.kind == Kind::Probability => of_classes = Some((part, grid.clone())),
                _ => {}
            }
            grids.push(grid);
        }
        Ok(grids)
    }

    /// What is no image.
    fn own(&self) -> Vec<Own<'_>> {
        let parts = self.parts.iter().filter(|p| !p.kind.is_image());
        parts.zip(&self.shapes).map(|(of, data)| Own { of, data }).collect()
    }

    /// How many channels it has, and voxels of all.
    pub(crate) fn size(&self) -> (usize, u64) {
        (self.common.channels().len(), self.voxels)
    }

    /// The channels whose values count as they are.
    pub(crate) fn as_they_are(&self) -> Vec<usize> {
        self.common.as_they_are()
    }

    /// Its images, one a channel.
    ///
    /// # Errors
    /// What is wrong with one.
    pub(crate) fn images(&self, listener: &dyn Listener) -> Result<Vec<Volume<f32>>> {
        let cpu = AnyDevice::Cpu(Cpu::new(None)?);
        let mut images = Vec::new();
        for part in self.common.images().into_iter().map(|i| &self.parts[i]) {
            let at = format!("{} of {}", part.words(), self.called);
            let read = data(part, (&part.sources[1], None), None, &at, listener);
            let image = match read.map_err(|e| e.at(&at))? {
                Data::Image(image) => image,
                Data::Class(labels, which, sigma) => class(&cpu, &labels, &which, sigma)?,
                _ => return Err(Error::Internal("an image that is none".into())),
            };
            images.push(image);
        }
        let drawn = match (self.common.first, &self.drawn) {
            (First::Image, _) => None,
            (First::Classes, _) => Some(drawing::of_classes(images.iter())?),
            (First::Shapes, Some(grid)) => Some(drawing::of_shapes(&cpu, &self.own(), grid)?),
            (First::Shapes, None) => return Err(Error::Internal("a picture of nothing".into())),
        };
        Ok(drawn.into_iter().chain(images).collect())
    }

    /// One of its meshes, in the order of the geometry; none of landmarks.
    pub(crate) fn mesh(&self, number: usize) -> Option<&Mesh> {
        match self.shapes.get(number) {
            Some(Data::Mesh(mesh)) => Some(mesh),
            _ => None,
        }
    }

    /// What is neither, in the order of the geometry.
    pub(crate) fn geometry(&self) -> impl Iterator<Item = &Matched> {
        self.common.geometry()
    }

    /// What each of its landmarks counts.
    ///
    /// # Errors
    /// Weights that are no numbers.
    pub(crate) fn weights(&self, number: usize) -> Result<Vec<f64>> {
        let Some(of) = self.common.geometry().nth(number) else { return Ok(Vec::new()) };
        Ok(marks(self, number, of)?.1)
    }

    /// The points of one of its meshes or landmarks, mm.
    pub(crate) fn places(&self, number: usize) -> &[Vector3<f64>] {
        self.shapes.get(number).map_or(&[], Data::places)
    }
}

/// Checks that what some subjects have fits together.
///
/// # Errors
/// Other numbers of landmarks, surfaces that are turned inside out, kernels narrower than the mesh allows.
pub(crate) fn check_all(all: &[Subject], listener: &dyn Listener) -> Result<()> {
    let Some((first, rest)) = all.split_first() else { return Ok(()) };
    for other in rest {
        for (of, (one, two)) in first.common.geometry().zip(first.shapes.iter().zip(&other.shapes))
        {
            check_alike(of, [one, two], [&first.called, &other.called], listener)?;
        }
    }
    Ok(())
}

/// What all subjects have beside images.
///
/// # Errors
/// Shapes that cannot be compared.
pub(crate) fn geometry(all: &[Subject]) -> Result<Vec<Geometry>> {
    let Some(first) = all.first() else { return Ok(Vec::new()) };
    let parts = first.common.geometry().enumerate();
    parts
        .map(|(number, of)| {
            let forms = match of.kind {
                Kind::Landmarks => {
                    let subjects = all.iter().map(|s| marks(s, number, of)).collect::<Result<_>>();
                    Forms::Landmarks { weight: of.weight, subjects: subjects? }
                }
                _ => {
                    let Matched { kernel, width, weight, .. } = *of;
                    let summation = Summation::default();
                    let options = ShapeOptions { kernel, width, weight, summation };
                    let one = |s: &Subject| match s.mesh(number) {
                        Some(mesh) => Ok(Arc::new(shape(of, mesh).map_err(|e| e.at(&s.called))?)),
                        None => Err(Error::Internal("a shape that is none".into())),
                    };
                    Forms::Shapes { options, subjects: all.iter().map(one).collect::<Result<_>>()? }
                }
            };
            Ok(Geometry { name: of.words(), forms })
        })
        .collect()
}

/// The landmarks of a subject, with what each counts.
fn marks(subject: &Subject, number: usize, of: &Matched) -> Result<(PointSet, Vec<f64>)> {
    match subject.shapes.get(number) {
        Some(Data::Landmarks(points)) => {
            let each = weights_of(points, of).map_err(|e| e.at(&subject.called))?;
            let each = each.unwrap_or_else(|| vec![1.0; points.len()]);
            Ok((PointSet::new(points.points().to_vec()), each))
        }
        _ => Err(Error::Internal("landmarks that are none".into())),
    }
}

/// Whether a path is that of an anatomy.
pub(crate) fn is_anatomy(path: &Path) -> bool {
    path.extension().is_some_and(|e| e.eq_ignore_ascii_case("toml"))
}
