//! Mapping points and meshes through transforms, with warnings about any changes.

use crate::error::{Error, Result};
use crate::files;
use crate::listener::{Level, Listener};
use crate::options::PointConvention;
use crate::pair::landmark_remedy;
use crate::place::{Mistaken, Place, exchanged};
use std::path::Path;
use voxalign_image::{Grid, Mesh, PointSet, Vector3, memory};
use voxalign_io::mesh::{self, MeshFormat, MeshInfo, MeshSpace};
use voxalign_io::points::{self, PointFormat, PointInfo, ReadOptions};
use voxalign_options::{Text, text};
use voxalign_register::carry::{Carried, PointMap};

/// A distance in mm that is worth a word.
pub const WORTH_A_WORD: f64 = 0.01;

/// How the files of points and meshes are read.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reading<'a> {
    /// The world of files that do not say it.
    pub convention: Option<PointConvention>,
    /// The grid of the image that they belong to.
    pub grid: Option<&'a Grid>,
    /// Which points of a file that has those of two volumes.
    pub volume: Option<usize>,
}

impl<'a> Reading<'a> {
    /// As the reader of points takes it.
    #[must_use]
    pub fn options(&self) -> ReadOptions<'a> {
        ReadOptions {
            convention: self.convention.map(Into::into),
            grid: self.grid,
            volume: self.volume,
        }
    }
}

/// What was carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    /// How many points or vertices.
    pub count: usize,
    /// Whether none of them lies on the image that they belong to, or meets the fields of the transform: the result
    /// means nothing then.
    pub elsewhere: bool,
}

/// Carries the points of a file to another one, in the world and with the columns of the first where the second can have
/// them.
///
/// # Errors
/// What is wrong with the file; points in a plane that leave it; a file that cannot be written.
pub fn points_file(
    input: &Path,
    output: &Path,
    map: &PointMap,
    reading: &Reading<'_>,
    listener: &dyn Listener,
) -> Result<Done> {
    let (set, info) = files::points(input, &reading.options(), listener)?;
    let carried = map.carry(set.points())?;
    let mut to = carried.iter();
    let moved = set.map(|p| to.next().map_or(*p, |to| to.position));
    if set.is_2d() && moved.points().iter().any(|p| p[2].abs() > WORTH_A_WORD) {
        return Err(Error::input(text!(
            "'{}': its points have x and y alone, and the transform takes them out of that plane; give a transform \
             of 2D images, or points with a column z",
            input.display()
        )));
    }
    let remedy = |mistaken| landmark_remedy(mistaken, &info);
    let judged = Judged { what: "points", path: input, map, grid: reading.grid, remedy: &remedy };
    let elsewhere = judged.judge(set.points(), &carried, listener)?;
    let format = PointFormat::from_path(output)?;
    let convention = convention_to_write(format, &info, reading.convention.map(Into::into));
    let options = points::WriteOptions { convention, ..points::WriteOptions::default() };
    write_points(output, &moved, &options, listener)?;
    Ok(Done { count: set.len(), elsewhere })
}

/// The world in which points are written that were read from another file: that of the first where both are of one family
/// (CSV, 3D Slicer), else that which is asked for where the format has a choice.
#[must_use]
pub fn convention_to_write(
    format: PointFormat,
    read: &PointInfo,
    asked: Option<points::PointConvention>,
) -> Option<points::PointConvention> {
    let family = |format: PointFormat| match format {
        PointFormat::Csv | PointFormat::Ants => 0,
        PointFormat::Markups | PointFormat::Fcsv => 1,
        _ => 2,
    };
    match family(format) {
        2 => None,
        own if own == family(read.format) => read.convention,
        0 => asked,
        _ => None,
    }
}

/// Writes points; what the format does not hold becomes a warning.
///
/// # Errors
/// As of [`points::write`].
pub fn write_points(
    path: &Path,
    set: &PointSet,
    options: &points::WriteOptions<'_>,
    listener: &dyn Listener,
) -> Result<()> {
    for lost in points::write(path, set, options)? {
        listener.say(Level::Warning, format!("'{}': {lost}", path.display()));
    }
    Ok(())
}

/// Carries the mesh of a file to another one. Formats that may be in any space are written in that of the first file.
///
/// # Errors
/// What is wrong with the file; what the other format does not hold; a file that cannot be written.
pub fn mesh_file(
    input: &Path,
    output: &Path,
    map: &PointMap,
    reading: &Reading<'_>,
    listener: &dyn Listener,
) -> Result<Done> {
    let (mesh, info) = files::mesh(input, reading.convention, listener)?;
    let carried = map.carry_mesh(&mesh)?;
    let remedy = |mistaken| mesh_remedy(mistaken, &info);
    let judged = Judged { what: "vertices", path: input, map, grid: reading.grid, remedy: &remedy };
    let elsewhere = judged.judge(mesh.vertices(), &carried.vertices, listener)?;
    let say = |words: String| listener.say(Level::Normal, &words);
    if carried.mirrored && !mesh.faces().is_empty() {
        say("the transform mirrors: the vertex order of the faces was reversed to keep them facing outwards".into());
    }
    if !carried.normals.is_empty() {
        say(format!("normals ({}) were rotated with the surface", carried.normals.join(", ")));
    }
    if !carried.vectors.is_empty() {
        say(format!("directions ({}) were carried along as vectors", carried.vectors.join(", ")));
    }
    write_mesh(output, &carried.mesh, info.space, listener)?;
    Ok(Done { count: mesh.vertices().len(), elsewhere })
}

/// Writes a mesh, in this space where its format has a choice; what the format does not hold becomes a warning.
///
/// # Errors
/// As of [`mesh::write`].
pub fn write_mesh(
    path: &Path,
    mesh: &Mesh,
    space: MeshSpace,
    listener: &dyn Listener,
) -> Result<()> {
    let lost = mesh::losses(MeshFormat::from_path(path)?, mesh)?;
    mesh::write(path, mesh, &mesh::WriteOptions { space, ..mesh::WriteOptions::default() })?;
    for lost in lost {
        listener.say(Level::Warning, format!("'{}': {lost}", path.display()));
    }
    Ok(())
}

/// What helps where a mesh lies elsewhere than its image.
#[must_use]
pub fn mesh_remedy(mistaken: Option<Mistaken>, info: &MeshInfo) -> Text {
    let (other, name) = match info.space {
        MeshSpace::Ras => (MeshSpace::Lps, "lps"),
        MeshSpace::Lps => (MeshSpace::Ras, "ras"),
    };
    match mistaken {
        Some(Mistaken::Exchanged) if info.assumed => {
            text!("it lies there as {other}: give `point_convention = {name}`")
        }
        Some(Mistaken::Exchanged) => text!(
            "it lies there as {other}, but the file says that it is {}: write it again from the program that made it",
            info.space
        ),
        Some(Mistaken::Voxels) => "its coordinates look like voxel indices: export it in world coordinates (mm) from the \
                                   program that made it"
            .into(),
        Some(Mistaken::Centred) => "its coordinates look as if they were relative to the centre of the image \
                                    (FreeSurfer's tkRAS): `mris_convert --to-scanner` brings them to scanner coordinates"
            .into(),
        None => "check that the mesh belongs to the image that it is carried from, and that its coordinates are mm in \
                 the world"
            .into(),
    }
}

/// What is to be judged of points that were carried.
struct Judged<'a> {
    what: &'static str,
    path: &'a Path,
    map: &'a PointMap,
    grid: Option<&'a Grid>,
    remedy: &'a dyn Fn(Option<Mistaken>) -> Text,
}

impl Judged<'_> {
    /// Says what happened on the way; whether the points lie elsewhere than everything that they should meet.
    fn judge(
        &self,
        points: &[Vector3<f64>],
        carried: &[Carried],
        listener: &dyn Listener,
    ) -> Result<bool> {
        let (what, path, all) = (self.what, self.path.display(), points.len());
        let warn = |words: String| listener.say(Level::Warning, &words);
        let off = carried.iter().filter(|c| c.off > WORTH_A_WORD).count();
        if off > 0 {
            let largest = carried.iter().fold(0.0, |a: f64, c| a.max(c.off));
            warn(format!(
                "the displacement field folds: {off} {what} cannot be mapped exactly and are off by up to {largest:.3} mm"
            ));
        }
        let mut told = false;
        let mut elsewhere = false;
        if let Some(grid) = self.grid {
            let place = Place::of(points, grid);
            elsewhere = place.is_elsewhere();
            if 2 * place.inside < all {
                let count = if elsewhere { "none".to_owned() } else { place.inside.to_string() };
                let remedy = (self.remedy)(place.mistaken);
                let lie = format!(
                    "'{path}': {count} of {all} {what} lie on the image that they belong to; "
                );
                listener.say(Level::Warning, Text::from(lie).and(remedy));
                told = true;
            }
        }
        let outside = carried.iter().filter(|c| c.outside).count();
        if outside > 0 {
            elsewhere |= outside == all;
            let count = if outside == all { "all".to_owned() } else { outside.to_string() };
            let lie = format!(
                "'{path}': {count} of {all} {what} lie beyond the grid of a displacement field, where nothing is moved"
            );
            match 2 * outside > all && !told {
                true => {
                    let remedy = (self.remedy)(self.mistaken(points)?);
                    listener.say(Level::Warning, Text::from(format!("{lie}; ")).and(remedy));
                }
                false => warn(lie),
            }
        }
        Ok(elsewhere)
    }

    /// What points may be most of which miss the fields.
    fn mistaken(&self, points: &[Vector3<f64>]) -> Result<Option<Mistaken>> {
        if let Some(grid) = self.map.first_grid() {
            return Ok(Place::of(points, grid).mistaken);
        }
        let turned: Vec<_> = memory::collected(points.iter().map(exchanged))?;
        let inside = self.map.carry(&turned)?.iter().filter(|c| !c.outside).count();
        Ok((2 * inside > points.len()).then_some(Mistaken::Exchanged))
    }
}
