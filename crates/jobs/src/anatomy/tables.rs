//! The tables of the file of an anatomy.

use super::file::{Given, Kind, Part, Source};
use crate::error::{Error, Result};
use crate::options::PointConvention;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use voxalign_compute::ops::pairwise::KernelShape;
use voxalign_io::mesh::MeshSpace;
use voxalign_register::Choice;
use voxalign_register::similarity::Similarity;

/// One, or a list of them.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Many<T> {
    One(T),
    List(Vec<T>),
}

impl<T> Many<T> {
    fn list(self) -> Vec<T> {
        match self {
            Self::One(one) => vec![one],
            Self::List(all) => all,
        }
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
    label: Option<Many<i32>>,
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
    mesh: PathBuf,
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

/// The parts of a text; relative paths are relative to a folder.
pub(super) fn parse(text: &str, folder: &Path) -> Result<Vec<Part>> {
    let tables: Tables = toml::from_str(text).map_err(|e| {
        let start = e.span().map_or(0, |s| s.start.min(text.len()));
        let line = text[..start].matches('\n').count() + 1;
        // Backticks are for options of jobs.
        let said = e.message().replace('`', "'").replace('\n', " ");
        let said = said.replace(
            "data did not match any variant of untagged enum Many",
            "give one value, or a list of them",
        );
        Error::input(format!("line {line}: {said}"))
    })?;
    let mut parts = Vec::new();
    for of in tables.probability {
        let at = of.name.clone();
        parts.push(of.part(folder).map_err(|e| e.at(&format!("[[probability]] '{at}'")))?);
    }
    for of in tables.image {
        let at = of.name.clone();
        parts.push(of.part(folder).map_err(|e| e.at(&format!("[[image]] '{at}'")))?);
    }
    for (kind, list) in [(Kind::Surface, tables.surface), (Kind::Curve, tables.curve)] {
        for of in list {
            let at = format!("[[{}]] '{}'", kind.name(), of.name);
            parts.push(of.part(kind, folder).map_err(|e| e.at(&at))?);
        }
    }
    for of in tables.points {
        let at = of.name.clone();
        parts.push(of.part(folder).map_err(|e| e.at(&format!("[[points]] '{at}'")))?);
    }
    for of in tables.landmarks {
        let at = of.name.clone();
        parts.push(of.part(folder).map_err(|e| e.at(&format!("[[landmarks]] '{at}'")))?);
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
            return Err(Error::input(format!(
                "{}: give a name of letters, digits, '_', '-', '+', '.' and spaces, 100 bytes at most, that begins \
                 with a letter or a digit: files are named so",
                part.words()
            )));
        }
        let same = |other: &&Part| other.name.eq_ignore_ascii_case(&part.name);
        if let Some(other) = parts[..i].iter().find(same) {
            return Err(Error::input(format!(
                "{} and {} have one name, in capitals or not; give each its own",
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
            Err(Error::input(format!("'{key}' is {v}; give a number above 0")))
        }
        value => Ok(value),
    }
}

fn space_of<T>(space: Option<&str>, [ras, lps]: [T; 2]) -> Result<Option<T>> {
    match space {
        None => Ok(None),
        Some("ras" | "RAS") => Ok(Some(ras)),
        Some("lps" | "LPS") => Ok(Some(lps)),
        Some(other) => Err(Error::input(format!("'space' is '{other}'; give ras or lps"))),
    }
}

fn kernel_of(name: Option<&str>) -> Result<Option<KernelShape>> {
    match name {
        None => Ok(None),
        Some("gaussian") => Ok(Some(KernelShape::Gaussian)),
        Some("cauchy") => Ok(Some(KernelShape::Cauchy)),
        Some(other) => Err(Error::input(format!("'kernel' is '{other}'; give gaussian or cauchy"))),
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
    fn part(self, folder: &Path) -> Result<Part> {
        let weight = above("weight", self.weight)?;
        let source = match (self.image, self.labels) {
            (Some(image), None) => {
                for (key, given) in
                    [("label", self.label.is_some()), ("sigma", self.sigma.is_some())]
                {
                    if given {
                        return Err(Error::input(format!(
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
                let labels = self.label.map(Many::list).unwrap_or_default();
                if labels.is_empty() {
                    return Err(Error::input(
                        "'labels' takes the numbers that count by 'label', such as label = [2, 41]",
                    ));
                }
                let sigma = self.sigma.unwrap_or(1.0);
                if !(sigma >= 0.0 && sigma.is_finite()) {
                    return Err(Error::input(format!(
                        "'sigma' is {sigma}; give a number of 0 or more, mm"
                    )));
                }
                Source::Labels { path: folder.join(path), labels, sigma }
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
        (all, Some(volumes)) => Err(Error::input(format!(
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
                    Error::input(format!("'similarity' is '{name}'; give one of {known}"))
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
                if similarity.get(key).is_none() {
                    return Err(Error::input(format!(
                        "'{key}' is no parameter of the similarity {}; leave it out",
                        similarity.name()
                    )));
                }
                similarity.set(key, value);
            }
            similarity.check().map_err(Error::from)?;
            Ok(similarity)
        });
        let similarity = similarity.transpose()?;
        let source = Source::Images(vec![(folder.join(self.image), self.volume)]);
        let given = Given { weight, similarity, ..Given::default() };
        Ok(Part { name: self.name, kind: Kind::Image, source, given })
    }
}

impl OfMesh {
    fn part(self, kind: Kind, folder: &Path) -> Result<Part> {
        let given = Given {
            weight: above("weight", self.weight)?,
            width: above("width", self.width)?,
            kernel: kernel_of(self.kernel.as_deref())?,
            oriented: self.oriented,
            similarity: None,
        };
        let space = space_of(self.space.as_deref(), [MeshSpace::Ras, MeshSpace::Lps])?;
        Ok(Part {
            name: self.name,
            kind,
            source: Source::Mesh(folder.join(self.mesh), space),
            given,
        })
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
                    "give 'points', a list of points, or 'mesh', of which the vertices are taken",
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
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Vec<Part>> {
        parse(text, Path::new("folder"))
    }

    #[test]
    fn all_that_can_be_said() {
        let parts = of("
            [[probability]]
            name = 'white'
            image = ['a.nii.gz', 'b.nii.gz']
            weight = 2
            [[probability]]
            name = 'grey'
            image = 'all.nii.gz'
            volume = [0, 3]
            [[probability]]
            name = 'csf'
            labels = '/labels.nii.gz'
            label = [4, 43]
            sigma = 1.5
            [[image]]
            name = 't1'
            image = 't1.nii.gz'
            volume = 1
            similarity = 'mi'
            bins = 32
            [[surface]]
            name = 'left'
            mesh = 'left.stl'
            space = 'lps'
            oriented = false
            kernel = 'cauchy'
            width = 4.0
            [[curve]]
            name = 'sulcus'
            mesh = 'sulcus.vtk'
            [[points]]
            name = 'cloud'
            points = 'cloud.csv'
            [[landmarks]]
            name = 'marks'
            points = 'marks.csv'
            space = 'lps'
            weight = 0.001
        ")
        .unwrap();
        let kinds: Vec<_> = parts.iter().map(|p| p.kind.name()).collect();
        assert_eq!(
            kinds,
            [
                "probability",
                "probability",
                "probability",
                "image",
                "surface",
                "curve",
                "points",
                "landmarks"
            ]
        );
        let paths = |i: usize| parts[i].source.paths().to_vec();
        assert_eq!(paths(0), [Path::new("folder/a.nii.gz"), Path::new("folder/b.nii.gz")]);
        let Source::Images(volumes) = &parts[1].source else { panic!() };
        assert_eq!(volumes.iter().map(|v| v.1).collect::<Vec<_>>(), [Some(0), Some(3)]);
        assert_eq!(
            parts[2].source,
            Source::Labels { path: "/labels.nii.gz".into(), labels: vec![4, 43], sigma: 1.5 }
        );
        let similarity = parts[3].given.similarity.unwrap();
        assert_eq!((similarity.name(), similarity.get("bins")), ("mi", Some(32)));
        assert_eq!(parts[4].given.oriented, Some(false));
        assert_eq!(parts[4].given.kernel, Some(KernelShape::Cauchy));
        assert_eq!(parts[4].source, Source::Mesh("folder/left.stl".into(), Some(MeshSpace::Lps)));
        let list = Source::List("folder/marks.csv".into(), Some(PointConvention::Lps));
        assert_eq!((&parts[7].source, parts[7].given.weight), (&list, Some(0.001)));
        // Labels are smoothed by a millimetre where nothing is said.
        let parts = of("[[probability]]\nname='a'\nlabels='l.nii'\nlabel=3").unwrap();
        assert!(matches!(parts[0].source, Source::Labels { sigma: 1.0, .. }));
    }

    #[test]
    fn what_cannot_be_is_told_with_its_place() {
        let surface = "[[surface]]\nname = 'a'\nmesh = 'a.gii'\n";
        for (text, said) in [
            (String::new(), "anatomy of nothing"),
            ("[[surfaces]]\nname = 'a'".into(), "line 1: unknown field 'surfaces'"),
            (format!("{surface}widht = 3"), "line 4: unknown field 'widht'"),
            (format!("{surface}width = 0"), "[[surface]] 'a': 'width' is 0"),
            (format!("{surface}weight = nan"), "'weight' is NaN"),
            (format!("{surface}kernel = 'box'"), "give gaussian or cauchy"),
            (format!("{surface}space = 'tkras'"), "give ras or lps"),
            (format!("{surface}oriented = 'no'"), "line 4"),
            (format!("{surface}similarity = 'ssd'"), "unknown field 'similarity'"),
            ("[[surface]]\nname = 'a'".into(), "missing field 'mesh'"),
            ("[[surface]]\nname = 'a/b'\nmesh = 'a'".into(), "give a name of letters"),
            ("[[surface]]\nname = '.a'\nmesh = 'a'".into(), "begins with a letter"),
            (
                format!("{surface}[[curve]]\nname = 'A'\nmesh = 'b.vtk'"),
                "[[surface]] 'a' and [[curve]] 'A' have one name",
            ),
            ("[[probability]]\nname = 'a'".into(), "give 'image'"),
            ("[[probability]]\nname = 'a'\nimage = []".into(), "an empty list"),
            ("[[probability]]\nname = 'a'\nimage = 3".into(), "line 3: give one value, or a list"),
            (
                "[[probability]]\nname = 'a'\nimage = 'b'\nsigma = 1".into(),
                "'sigma' is for 'labels'",
            ),
            (
                "[[probability]]\nname = 'a'\nimage = ['b', 'c']\nvolume = 1".into(),
                "'volume' has 1 numbers, 'image' 2 files",
            ),
            ("[[probability]]\nname = 'a'\nimage = 'b'\nlabels = 'c'".into(), "give one of them"),
            ("[[probability]]\nname = 'a'\nlabels = 'c'".into(), "label = [2, 41]"),
            (
                "[[probability]]\nname = 'a'\nlabels = 'c'\nlabel = 1\nsigma = -1".into(),
                "'sigma' is -1",
            ),
            ("[[image]]\nname = 'a'\nimage = 'b'\nsimilarity = 'cr'".into(), "give one of"),
            (
                "[[image]]\nname = 'a'\nimage = 'b'\nsimilarity = 'ssd'\nbins = 3".into(),
                "'bins' is no parameter",
            ),
            (
                "[[image]]\nname = 'a'\nimage = 'b'\nbins = 3".into(),
                "no parameter of the similarity lncc",
            ),
            ("[[points]]\nname = 'a'".into(), "give 'points'"),
            ("[[image]\nname = 'a'".into(), "line 1"),
        ] {
            let error = of(&text).unwrap_err().to_string();
            assert!(error.contains(said), "{text}\n{error}");
            assert!(!error.contains('`'), "{error}");
        }
    }
}
