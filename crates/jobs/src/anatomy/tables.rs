//! The tables of the file of an anatomy.

use super::chosen::{LabelKey, Many, Names, numbers};
use super::file::{Anatomy, Given, Kind, OfVoxels, Part, Source};
use crate::error::{Error, Result};
use crate::listener::{Listener, reading};
use crate::options::PointConvention;
use crate::surface::{ObjectOptions, ShapeOptions};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use voxalign_compute::ops::pairwise::KernelShape;
use voxalign_io::mesh::MeshSpace;
use voxalign_io::names::read_label_names;
use voxalign_options::text;
use voxalign_register::Choice;
use voxalign_register::similarity::Similarity;

impl Anatomy {
    /// Reads a file.
    ///
    /// # Errors
    /// A missing file; what is no TOML; keys that there are not, values that none may have, names that are given twice.
    pub fn read(path: &Path, listener: &dyn Listener) -> Result<Self> {
        let at = format!("'{}'", path.display());
        let text = reading(listener, || voxalign_io::text::read(path))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let names = |table: &Path| reading(listener, || read_label_names(table));
        let parts = parse(&text, folder, &names).map_err(|e| e.at(&at))?;
        Ok(Self { path: path.to_owned(), parts })
    }
}

/// The tables of a file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Tables {
    probability: Vec<OfProbability>,
    image: Vec<OfImage>,
    surface: Vec<OfMesh>,
    curve: Vec<OfMesh>,
    points: Vec<OfPoints>,
    landmarks: Vec<OfLandmarks>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OfProbability {
    name: String,
    image: Option<Many<PathBuf>>,
    volume: Option<Many<usize>>,
    labels: Option<PathBuf>,
    label: Option<Many<LabelKey>>,
    label_names: Option<PathBuf>,
    sigma: Option<f64>,
    weight: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OfImage {
    name: String,
    image: PathBuf,
    volume: Option<usize>,
    similarity: Option<String>,
    radius: Option<usize>,
    bins: Option<usize>,
    weight: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OfMesh {
    name: String,
    mesh: Option<PathBuf>,
    labels: Option<PathBuf>,
    label: Option<Many<LabelKey>>,
    label_names: Option<PathBuf>,
    image: Option<PathBuf>,
    volume: Option<usize>,
    level: Option<f64>,
    below: Option<bool>,
    largest_component: Option<bool>,
    fill_holes: Option<bool>,
    smoothing: Option<usize>,
    triangles: Option<usize>,
    keep: Option<f64>,
    space: Option<String>,
    oriented: Option<bool>,
    weight: Option<f64>,
    width: Option<f64>,
    kernel: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OfPoints {
    name: String,
    mesh: Option<PathBuf>,
    points: Option<PathBuf>,
    space: Option<String>,
    weight: Option<f64>,
    width: Option<f64>,
    kernel: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OfLandmarks {
    name: String,
    points: PathBuf,
    space: Option<String>,
    weight: Option<f64>,
}

/// The parts of a text; relative paths are relative to a folder, and `names` reads tables of label names.
fn parse(text: &str, folder: &Path, names: Names<'_>) -> Result<Vec<Part>> {
    let tables: Tables = toml::from_str(text).map_err(|e| {
        let start = e.span().map_or(0, |s| s.start.min(text.len()));
        let line = text[..start].matches('\n').count() + 1;
        // Backticks are for options of jobs.
        let said = e.message().replace('`', "'").replace('\n', " ");
        let said = said.replace(
            "data did not match any variant of untagged enum Many",
            "give one value, or a list of them",
        );
        Error::input(text!("line {line}: {said}"))
    })?;
    let mut parts = Vec::new();
    for of in tables.probability {
        let at = of.name.clone();
        let part = of.part(folder, names);
        parts.push(part.map_err(|e| e.at(format!("[[probability]] '{at}'")))?);
    }
    for of in tables.image {
        let at = of.name.clone();
        parts.push(of.part(folder).map_err(|e| e.at(format!("[[image]] '{at}'")))?);
    }
    for (kind, list) in [(Kind::Surface, tables.surface), (Kind::Curve, tables.curve)] {
        for of in list {
            let at = format!("[[{}]] '{}'", kind.name(), of.name);
            parts.push(of.part(kind, (folder, names)).map_err(|e| e.at(&at))?);
        }
    }
    for of in tables.points {
        let at = of.name.clone();
        parts.push(of.part(folder).map_err(|e| e.at(format!("[[points]] '{at}'")))?);
    }
    for of in tables.landmarks {
        let at = of.name.clone();
        parts.push(of.part(folder).map_err(|e| e.at(format!("[[landmarks]] '{at}'")))?);
    }
    check(&parts)?;
    Ok(parts)
}

/// Names become those of files, and each is that of one thing.
fn check(parts: &[Part]) -> Result<()> {
    if parts.is_empty() {
        return Err(Error::input(
            "an anatomy of nothing; list images, surfaces or points: [[probability]], [[image]], [[surface]], \
             [[curve]], [[points]], [[landmarks]]",
        ));
    }
    for (i, part) in parts.iter().enumerate() {
        let fits = |c: char| c.is_alphanumeric() || "_-+ .".contains(c);
        let begins = part.name.chars().next().is_some_and(char::is_alphanumeric);
        if !begins || !part.name.chars().all(fits) || part.name.len() > 100 {
            return Err(Error::input(text!(
                "{}: give a name of letters, digits, '_', '-', '+', '.' and spaces, 100 bytes at most, that begins \
                 with a letter or a digit: files are named so",
                part.words()
            )));
        }
        let same = |other: &&Part| other.name.eq_ignore_ascii_case(&part.name);
        if let Some(other) = parts[..i].iter().find(same) {
            return Err(Error::input(text!(
                "{} and {} have the same name, ignoring case; give each its own",
                other.words(),
                part.words()
            )));
        }
    }
    Ok(())
}

/// A number above 0.
fn above(key: &str, value: Option<f64>) -> Result<Option<f64>> {
    match value {
        Some(v) if !(v > 0.0 && v.is_finite()) => {
            Err(Error::input(text!("'{key}' is {v}; give a number above 0")))
        }
        value => Ok(value),
    }
}

fn space_of<T>(space: Option<&str>, [ras, lps]: [T; 2]) -> Result<Option<T>> {
    match space {
        None => Ok(None),
        Some("ras" | "RAS") => Ok(Some(ras)),
        Some("lps" | "LPS") => Ok(Some(lps)),
        Some(other) => Err(Error::input(text!("'space' is '{other}'; give ras or lps"))),
    }
}

fn kernel_of(name: Option<&str>) -> Result<Option<KernelShape>> {
    match name {
        None => Ok(None),
        Some("gaussian") => Ok(Some(KernelShape::Gaussian)),
        Some("cauchy") => Ok(Some(KernelShape::Cauchy)),
        Some(other) => Err(Error::input(text!("'kernel' is '{other}'; give gaussian or cauchy"))),
    }
}

/// The name of a kernel.
pub(super) fn kernel_name(kernel: KernelShape) -> &'static str {
    match kernel {
        KernelShape::Gaussian => "gaussian",
        KernelShape::Cauchy => "cauchy",
    }
}

impl OfProbability {
    fn part(self, folder: &Path, names: Names<'_>) -> Result<Part> {
        let weight = above("weight", self.weight)?;
        let source = match (self.image, self.labels) {
            (Some(image), None) => {
                for (key, given) in [
                    ("label", self.label.is_some()),
                    ("label_names", self.label_names.is_some()),
                    ("sigma", self.sigma.is_some()),
                ] {
                    if given {
                        return Err(Error::input(text!(
                            "'{key}' is for 'labels'; leave it out, or name the file of labels by 'labels'"
                        )));
                    }
                }
                Source::Images(with_volumes(image.list(), self.volume.map(Many::list), folder)?)
            }
            (None, Some(path)) => {
                if self.volume.is_some() {
                    return Err(Error::input("'volume' is for 'image'; leave it out"));
                }
                let table = self.label_names.map(|table| folder.join(table));
                let labels = numbers(self.label, table.as_deref(), names)?;
                let sigma = self.sigma.unwrap_or(1.0);
                if !(sigma >= 0.0 && sigma.is_finite()) {
                    return Err(Error::input(text!(
                        "'sigma' is {sigma}; give a number of 0 or more, mm"
                    )));
                }
                Source::Labels { path: folder.join(path), labels, sigma, names: table }
            }
            (Some(_), Some(_)) => {
                return Err(Error::input("'image' and 'labels' are both given; give one of them"));
            }
            (None, None) => {
                return Err(Error::input(
                    "give 'image', a file of probabilities, or several that are added, or 'labels' with 'label'",
                ));
            }
        };
        let given = Given { weight, ..Given::default() };
        Ok(Part { name: self.name, kind: Kind::Probability, source, given })
    }
}

/// Files with the numbers of their volumes: several volumes of one file, or one of each.
fn with_volumes(
    files: Vec<PathBuf>,
    volumes: Option<Vec<usize>>,
    folder: &Path,
) -> Result<Vec<(PathBuf, Option<usize>)>> {
    let files: Vec<PathBuf> = files.into_iter().map(|f| folder.join(f)).collect();
    match (&*files, volumes) {
        ([], _) => Err(Error::input("'image' is an empty list; name a file")),
        (_, None) => Ok(files.into_iter().map(|f| (f, None)).collect()),
        ([one], Some(volumes)) if !volumes.is_empty() => {
            Ok(volumes.into_iter().map(|v| (one.clone(), Some(v))).collect())
        }
        (all, Some(volumes)) if all.len() == volumes.len() => {
            Ok(files.into_iter().zip(volumes.into_iter().map(Some)).collect())
        }
        (all, Some(volumes)) => Err(Error::input(text!(
            "'volume' has {} numbers, 'image' {} files; give one for each, or several of one file",
            volumes.len(),
            all.len()
        ))),
    }
}

impl OfImage {
    fn part(self, folder: &Path) -> Result<Part> {
        let weight = above("weight", self.weight)?;
        let similarity = match &self.similarity {
            None => None,
            Some(name) => {
                let known = Similarity::ALL.iter().filter(|s| s.has_energy()).map(|s| s.name());
                let known = known.collect::<Vec<_>>().join(", ");
                let found = Similarity::named(name).filter(Similarity::has_energy);
                Some(found.ok_or_else(|| {
                    Error::input(text!("'similarity' is '{name}'; give one of {known}"))
                })?)
            }
        };
        let parameters = [("radius", self.radius), ("bins", self.bins)];
        let told = parameters.into_iter().any(|(_, value)| value.is_some());
        let similarity = match similarity {
            None if told => Some(Similarity::LNCC),
            similarity => similarity,
        };
        let similarity = similarity.map(|mut similarity| {
            for (key, value) in parameters {
                let Some(value) = value else { continue };
                if !similarity.set(key, &value.to_string())? {
                    return Err(Error::input(text!(
                        "'{key}' is not a parameter of the similarity {}; leave it out",
                        similarity.name()
                    )));
                }
            }
            similarity.check().map_err(|e| Error::from(e).of_keys())?;
            Ok(similarity)
        });
        let similarity = similarity.transpose()?;
        let source = Source::Images(vec![(folder.join(self.image), self.volume)]);
        let given = Given { weight, similarity, ..Given::default() };
        Ok(Part { name: self.name, kind: Kind::Image, source, given })
    }
}

impl OfMesh {
    fn part(self, kind: Kind, (folder, names): (&Path, Names<'_>)) -> Result<Part> {
        let given = Given {
            weight: above("weight", self.weight)?,
            width: above("width", self.width)?,
            kernel: kernel_of(self.kernel.as_deref())?,
            oriented: self.oriented,
            similarity: None,
        };
        let name = self.name.clone();
        let source = self.source(folder, names)?;
        Ok(Part { name, kind, source, given })
    }

    fn source(self, folder: &Path, names: Names<'_>) -> Result<Source> {
        let sources = [&self.mesh, &self.labels, &self.image].map(Option::is_some);
        let [of_mesh, of_labels, of_image] = sources;
        match sources.into_iter().filter(|s| *s).count() {
            1 => {}
            0 => {
                return Err(Error::input(
                    "give 'mesh', a file, or 'labels' with 'label', or 'image' with 'level', to make the surface from",
                ));
            }
            _ => {
                return Err(Error::input(
                    "several of 'mesh', 'labels' and 'image' are given; give one of them",
                ));
            }
        }
        let made = !of_mesh;
        for (key, given, fits, with) in [
            ("space", self.space.is_some(), of_mesh, "'mesh'"),
            ("label", self.label.is_some(), of_labels, "'labels'"),
            ("label_names", self.label_names.is_some(), of_labels, "'labels'"),
            ("level", self.level.is_some(), of_image, "'image'"),
            ("below", self.below.is_some(), of_image, "'image'"),
            ("volume", self.volume.is_some(), of_image, "'image'"),
            ("largest_component", self.largest_component.is_some(), made, "'labels' or 'image'"),
            ("fill_holes", self.fill_holes.is_some(), made, "'labels' or 'image'"),
            ("smoothing", self.smoothing.is_some(), made, "'labels' or 'image'"),
            ("triangles", self.triangles.is_some(), made, "'labels' or 'image'"),
            ("keep", self.keep.is_some(), made, "'labels' or 'image'"),
        ] {
            if given && !fits {
                return Err(Error::input(text!("'{key}' is for {with}; leave it out")));
            }
        }
        if let Some(path) = self.mesh {
            let space = space_of(self.space.as_deref(), [MeshSpace::Ras, MeshSpace::Lps])?;
            return Ok(Source::Mesh(folder.join(path), space));
        }
        let table = self.label_names.map(|table| folder.join(table));
        let label = match of_labels {
            true => numbers(self.label, table.as_deref(), names)?,
            false => Vec::new(),
        };
        if label.contains(&0) {
            return Err(Error::input(
                "'label' is 0, which is the background; give the numbers of structures",
            ));
        }
        if of_image && self.level.is_none() {
            return Err(Error::input("'image' needs an isovalue as 'level', such as level = 0.5"));
        }
        let object = ObjectOptions {
            label,
            level: self.level,
            below: self.below.unwrap_or_default(),
            largest_component: self.largest_component.unwrap_or_default(),
            fill_holes: self.fill_holes.unwrap_or_default(),
        };
        let (smoothing, triangles, keep) = (self.smoothing, self.triangles, self.keep);
        let shape = ShapeOptions { smoothing, triangles, keep, ..ShapeOptions::USUAL };
        let checked = object.check_all(false).and_then(|()| shape.check_all());
        checked.map_err(Error::of_keys)?;
        let path = folder.join(self.labels.or(self.image).unwrap_or_default());
        let volume = self.volume;
        Ok(Source::Voxels(Box::new(OfVoxels { path, volume, object, shape, names: table })))
    }
}

impl OfPoints {
    fn part(self, folder: &Path) -> Result<Part> {
        let given = Given {
            weight: above("weight", self.weight)?,
            width: above("width", self.width)?,
            kernel: kernel_of(self.kernel.as_deref())?,
            ..Given::default()
        };
        let space = self.space.as_deref();
        let source = match (self.points, self.mesh) {
            (Some(path), None) => {
                let both = [PointConvention::Ras, PointConvention::Lps];
                Source::List(folder.join(path), space_of(space, both)?)
            }
            (None, Some(path)) => {
                let space = space_of(space, [MeshSpace::Ras, MeshSpace::Lps])?;
                Source::Mesh(folder.join(path), space)
            }
            _ => {
                return Err(Error::input(
                    "give 'points', a list of points, or 'mesh', whose vertices are used",
                ));
            }
        };
        Ok(Part { name: self.name, kind: Kind::Points, source, given })
    }
}

impl OfLandmarks {
    fn part(self, folder: &Path) -> Result<Part> {
        let given = Given { weight: above("weight", self.weight)?, ..Given::default() };
        let both = [PointConvention::Ras, PointConvention::Lps];
        let space = space_of(self.space.as_deref(), both)?;
        let source = Source::List(folder.join(self.points), space);
        Ok(Part { name: self.name, kind: Kind::Landmarks, source, given })
    }
}

#[cfg(test)]
mod tests;
