//! Lists of points: CSV, also that of ANTs, markups of 3D Slicer, elastix' and transformix' lists, and MNI's tags.
//!
//! [`read`] sees the format from the content; [`write()`] takes it from the name, or as it is asked to. Points are
//! RAS mm inside the program. Markups and tags say where they are, and elastix' lists are what elastix takes them for; of CSV
//! [`ReadOptions::convention`] says it.
//!
//! ```
//! use voxalign_io::points::{self, PointFormat, ReadOptions, WriteOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = tempfile::tempdir()?;
//! let fcsv = folder.path().join("landmarks.fcsv");
//! let text = "# Markups fiducial file version = 4.11\n# CoordinateSystem = LPS\n\
//!             ## columns = id,x,y,z,ow,ox,oy,oz,vis,sel,lock,label,desc,associatedNodeID\n\
//!             1,10,20,30,0,0,0,1,1,1,0,nose,,\n";
//! std::fs::write(&fcsv, text)?;
//! let (set, info) = points::read(&fcsv, &ReadOptions::default())?;
//! assert_eq!(info.format, PointFormat::Fcsv);
//! assert_eq!(set.points()[0].as_slice(), [-10.0, -20.0, 30.0]);
//! // Lists of elastix have no names: what a format cannot hold is said.
//! let lost = points::write(folder.path().join("points.txt"), &set, &WriteOptions::default())?;
//! assert_eq!(lost, ["elastix lists hold no column 'label': it is left out"]);
//! # Ok(())
//! # }
//! ```

mod columns;
mod csv;
mod elastix;
mod fcsv;
mod markups;
mod tag;

use crate::error::{IoError, Result, shorten};
use crate::image::Oddity;
use crate::source::Source;
use crate::text;
use nalgebra::Vector3;
use std::fmt::{self, Display, Formatter};
use std::path::Path;
use voxalign_image::{Grid, PointSet, memory};

/// Names of files, for messages.
const KNOWN: &str = ".csv, .fcsv, .mrk.json, .txt or .pts (elastix), .tag";

/// The world in which a file's points are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum PointConvention {
    /// RAS+ mm, as everywhere in this program.
    #[default]
    Ras,
    /// LPS+ mm, as ITK, ANTs (`antsApplyTransformsToPoints`), elastix and DICOM.
    Lps,
}

impl PointConvention {
    /// From the convention to RAS, or back.
    fn convert(self, p: Vector3<f64>) -> Vector3<f64> {
        match self {
            PointConvention::Ras => p,
            // No zero becomes a negative one.
            PointConvention::Lps => Vector3::new(0.0 - p[0], 0.0 - p[1], p[2]),
        }
    }
}

impl Display for PointConvention {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ras => "RAS",
            Self::Lps => "LPS",
        })
    }
}

/// A format of lists of points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PointFormat {
    /// Comma-separated, with a header line that has `x`, `y` and `z`.
    Csv,
    /// The same as ANTs has it: `x,y,z,t,label,comment`, LPS.
    Ants,
    /// 3D Slicer's markups in JSON.
    Markups,
    /// 3D Slicer's fiducials in comma-separated lines.
    Fcsv,
    /// elastix' list of points in LPS mm.
    ElastixPoint,
    /// elastix' list of voxel indices.
    ElastixIndex,
    /// What transformix writes of points (`outputpoints.txt`); read only.
    Transformix,
    /// MNI's tags, of one or two volumes.
    Tag,
}

impl PointFormat {
    /// The format that a name says; that of `.txt` and `.pts` is elastix' list of points.
    ///
    /// # Errors
    /// [`IoError::UnknownExtension`].
    pub fn from_path(path: &Path) -> Result<Self> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        let ends = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
        match () {
            () if ends(&[".fcsv"]) => Ok(Self::Fcsv),
            () if ends(&[".csv"]) => Ok(Self::Csv),
            () if ends(&[".json"]) => Ok(Self::Markups),
            () if ends(&[".txt", ".pts"]) => Ok(Self::ElastixPoint),
            () if ends(&[".tag"]) => Ok(Self::Tag),
            () => {
                let hint = ends(&[".tsv", ".xlsx", ".ods"])
                    .then(|| "save the table as comma-separated text (.csv)".to_owned());
                let (path, purpose) = (path.into(), "a list of points");
                Err(IoError::UnknownExtension { path, purpose, known: KNOWN, hint })
            }
        }
    }

    /// The format that a text begins as; nothing where it is no other than comma-separated lines may be.
    fn of_text(text: &str) -> Option<Self> {
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let first = lines.next()?;
        match first {
            _ if first.starts_with('{') => Some(Self::Markups),
            _ if first.starts_with("MNI Tag Point File") => Some(Self::Tag),
            "point" => Some(Self::ElastixPoint),
            "index" => Some(Self::ElastixIndex),
            _ if first.starts_with("Point") && first.contains("OutputPoint") => {
                Some(Self::Transformix)
            }
            _ if first.starts_with('#') && fcsv::is_head(text) => Some(Self::Fcsv),
            // A number of points, and indices.
            _ if first.parse::<u64>().is_ok()
                && lines.next().is_some_and(|next| {
                    next.split_whitespace().count() > 1 && !next.contains(',')
                }) =>
            {
                Some(Self::ElastixIndex)
            }
            _ => None,
        }
    }

    /// Whether the format, or a file of it, says in which world its points are.
    #[must_use]
    pub fn has_world(self) -> bool {
        !matches!(self, Self::Csv | Self::Ants)
    }

    /// The convention of files that are written where none is asked for.
    fn usual(self) -> PointConvention {
        match self {
            Self::Csv | Self::Tag => PointConvention::Ras,
            _ => PointConvention::Lps,
        }
    }

    /// The one convention that the format has.
    fn only(self) -> Option<PointConvention> {
        match self {
            Self::Csv | Self::Markups | Self::Fcsv | Self::ElastixIndex => None,
            Self::Ants | Self::ElastixPoint | Self::Transformix => Some(PointConvention::Lps),
            Self::Tag => Some(PointConvention::Ras),
        }
    }
}

impl Display for PointFormat {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Csv => "CSV",
            Self::Ants => "CSV of ANTs",
            Self::Markups => "3D Slicer markups",
            Self::Fcsv => "3D Slicer fiducials",
            Self::ElastixPoint => "elastix points",
            Self::ElastixIndex => "elastix indices",
            Self::Transformix => "transformix output",
            Self::Tag => "MNI tags",
        })
    }
}

/// How points are read.
#[derive(Debug, Clone, Default)]
pub struct ReadOptions<'a> {
    /// The world of a file that does not say it; RAS where this does not either, of ANTs' CSV LPS.
    pub convention: Option<PointConvention>,
    /// The grid of the image that the points belong to: lists of voxel indices need it.
    pub grid: Option<&'a Grid>,
    /// Which points of a tag file that has those of two volumes, from 0.
    pub volume: Option<usize>,
}

impl ReadOptions<'_> {
    /// Files that do not say it are in this convention.
    #[must_use]
    pub fn in_convention(convention: PointConvention) -> Self {
        Self { convention: Some(convention), ..Self::default() }
    }
}

/// What a file says beside its points.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PointInfo {
    /// The format.
    pub format: PointFormat,
    /// The world of the file's coordinates, which were brought to RAS; none of voxel indices.
    pub convention: Option<PointConvention>,
    /// Whether that was an assumption, which an option changes.
    pub assumed: bool,
    /// Points of the file that have no position, and were left out.
    pub without_position: usize,
    /// How many lists the file has: two where tags are those of two volumes.
    pub volumes: usize,
    /// Everything unusual, a sentence each.
    pub oddities: Vec<Oddity>,
}

impl PointInfo {
    fn new(format: PointFormat) -> Self {
        let convention = format.only();
        Self {
            format,
            convention,
            assumed: false,
            without_position: 0,
            volumes: 1,
            oddities: Vec::new(),
        }
    }

    fn say(&mut self, words: impl Into<String>) {
        self.oddities.push(Oddity::Other(words.into()));
    }

    /// The world of coordinates that the file or its format states, else that which was asked for.
    fn world(
        &mut self,
        stated: Option<PointConvention>,
        options: &ReadOptions<'_>,
    ) -> PointConvention {
        let stated = stated.or(self.format.only());
        let convention = match (stated, options.convention) {
            (Some(stated), Some(asked)) if stated != asked => {
                let by = if self.format.only().is_some() { "format" } else { "file" };
                self.say(format!(
                    "the {by} states that the coordinates are {stated}, which was used instead of {asked}"
                ));
                stated
            }
            (Some(stated), _) => stated,
            (None, asked) => {
                self.assumed = true;
                asked.unwrap_or_default()
            }
        };
        self.convention = Some(convention);
        convention
    }
}

/// Largest size of a point file, bytes.
const LARGEST: u64 = 1 << 32;

/// Reads points, in a format that is seen from the content.
///
/// # Errors
/// A missing or malformed file; a coordinate that is not a finite number; numbers of points that do not agree; a list of
/// indices without a grid; too little memory.
pub fn read(path: impl AsRef<Path>, options: &ReadOptions<'_>) -> Result<(PointSet, PointInfo)> {
    let path = path.as_ref();
    let bytes = Source::open(path)?.read_all(LARGEST)?;
    read_from_bytes(path, &bytes, options)
}

/// As [`read`], from the bytes of a file; `name` appears in messages.
///
/// # Errors
/// As [`read`].
pub fn read_from_bytes(
    name: impl AsRef<Path>,
    bytes: &[u8],
    options: &ReadOptions<'_>,
) -> Result<(PointSet, PointInfo)> {
    let path = name.as_ref();
    let text =
        text::utf8(bytes).map_err(|problem| IoError::malformed(path, problem, text::SAVE_AS))?;
    let format = PointFormat::of_text(text).unwrap_or(PointFormat::Csv);
    let (set, mut info) = match format {
        PointFormat::Markups => markups::read(path, text, options),
        PointFormat::Fcsv => fcsv::read(path, text, options),
        PointFormat::ElastixPoint | PointFormat::ElastixIndex => {
            elastix::read(path, text, format, options)
        }
        PointFormat::Transformix => elastix::read_output(path, text, options),
        PointFormat::Tag => tag::read(path, text, options),
        PointFormat::Csv | PointFormat::Ants => csv::read(path, text, options),
    }?;
    if options.volume.is_some() && info.volumes < 2 {
        let problem = "the file has one list of points";
        return Err(IoError::malformed(path, problem, "leave `volume` out"));
    }
    let found = info.format;
    let meant = |named: PointFormat| match (named, found) {
        (PointFormat::Csv, PointFormat::Ants) => true,
        (PointFormat::ElastixPoint, _) => true,
        _ => named == found,
    };
    if let Ok(named) = PointFormat::from_path(path)
        && !meant(named)
    {
        info.say(format!("by its name the file would be {named}; by its content it is {found}"));
    }
    Ok((set, info))
}

/// Whether an existing file begins as a list of points does, but for comma-separated ones.
#[must_use]
pub fn is_list(path: &Path) -> bool {
    let Ok((bytes, _)) = Source::open(path).and_then(|source| source.head(1 << 14)) else {
        return false;
    };
    // The end may cut a letter.
    let text = String::from_utf8_lossy(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes));
    match PointFormat::of_text(&text) {
        Some(PointFormat::Markups) => text.contains("markups") || text.contains("controlPoints"),
        Some(_) => true,
        None => false,
    }
}

/// How many lists of points a file has: two where it is MNI's tags of two volumes.
#[must_use]
pub fn volumes(path: &Path) -> usize {
    let Ok((bytes, _)) = Source::open(path).and_then(|source| source.head(1 << 14)) else {
        return 1;
    };
    tag::volumes(&String::from_utf8_lossy(&bytes)).unwrap_or(1)
}

/// How points are written.
#[derive(Debug, Clone, Default)]
pub struct WriteOptions<'a> {
    /// The world of the coordinates in formats that may be in any: CSV (RAS where nothing is asked for) and those of 3D
    /// Slicer (LPS).
    pub convention: Option<PointConvention>,
    /// The format, where it is not the one of the name.
    pub format: Option<PointFormat>,
    /// The grid of the image that the points belong to, for lists of voxel indices.
    pub grid: Option<&'a Grid>,
}

/// Writes points; gives what the format does not hold and was left out, a sentence each.
///
/// # Errors
/// An unknown extension; a convention that the format does not have; indices without a grid; a folder that cannot be
/// written.
pub fn write(
    path: impl AsRef<Path>,
    set: &PointSet,
    options: &WriteOptions<'_>,
) -> Result<Vec<String>> {
    let path = path.as_ref();
    let format = match options.format {
        Some(format) => format,
        None => PointFormat::from_path(path)?,
    };
    let convention = options.convention.unwrap_or(format.usual());
    if let Some(only) = format.only().filter(|only| *only != convention) {
        let what = format!("{format} are {only} always, not {convention}");
        return Err(IoError::unsupported(path, what, "leave the convention out"));
    }
    match format {
        PointFormat::Csv => csv::write(path, set, convention),
        PointFormat::Ants => csv::write_ants(path, set),
        PointFormat::Markups => markups::write(path, set, convention),
        PointFormat::Fcsv => fcsv::write(path, set, convention),
        PointFormat::ElastixPoint => elastix::write(path, set, None),
        PointFormat::ElastixIndex => match options.grid {
            Some(grid) => elastix::write(path, set, Some(grid)),
            None => Err(elastix::no_grid(path)),
        },
        PointFormat::Tag => tag::write(path, set),
        PointFormat::Transformix => {
            let what = "what transformix prints is read, and not written";
            Err(IoError::unsupported(path, what, "write an elastix list of points"))
        }
    }
}

/// A coordinate; `place` says where it is.
fn coordinate(path: &Path, place: &dyn Display, text: &str) -> Result<f64> {
    text.parse().ok().filter(|v: &f64| v.is_finite()).ok_or_else(|| {
        let problem = format!("{place}: the coordinate '{}' is not a number", shorten(text));
        IoError::malformed(path, problem, "correct the line")
    })
}

/// Points while they are read, with columns of text.
struct Gathered<'a> {
    path: &'a Path,
    points: Vec<Vector3<f64>>,
    columns: Vec<(String, Vec<String>)>,
}

impl<'a> Gathered<'a> {
    fn new(path: &'a Path, columns: &[&str]) -> Self {
        let columns = columns.iter().map(|name| ((*name).to_owned(), Vec::new())).collect();
        Self { path, points: Vec::new(), columns }
    }

    /// A point, and as many texts as there are columns.
    fn add<'t>(
        &mut self,
        point: Vector3<f64>,
        texts: impl IntoIterator<Item = &'t str>,
    ) -> Result<()> {
        let refused = |e| IoError::memory(self.path, e);
        memory::push(&mut self.points, point).map_err(refused)?;
        for ((_, values), text) in self.columns.iter_mut().zip(texts) {
            memory::push(values, text.to_owned()).map_err(refused)?;
        }
        Ok(())
    }

    /// The set, without columns in which nothing was ever said.
    fn finish(mut self) -> Result<PointSet> {
        self.columns.retain(|(_, values)| values.iter().any(|v| !v.is_empty()));
        PointSet::with_columns(self.points, self.columns).map_err(|e| IoError::image(self.path, e))
    }
}

#[cfg(test)]
mod tests;
