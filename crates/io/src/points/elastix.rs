//! elastix' lists of points: `point` or `index`, their number, and coordinates. Points are those of ITK, LPS mm, and
//! indices count voxels from 0 in the order in which the image's file has them. Source: the manual of elastix, "transformix".

use super::columns::Columns;
use super::{Gathered, PointConvention, PointFormat, PointInfo, ReadOptions, coordinate};
use crate::atomic;
use crate::error::{IoError, Result, shorten};
use nalgebra::Vector3;
use std::path::Path;
use voxalign_image::{Grid, PointSet};

/// A list of indices without the image that they count in.
pub(super) fn no_grid(path: &Path) -> IoError {
    let problem = "this is an elastix list of voxel indices, which mean a place in an image only";
    IoError::malformed(path, problem, "name the image that they belong to as `points_of`")
}

/// Reads a list; that which begins with the number has indices, as elastix takes it.
pub(super) fn read(
    path: &Path,
    text: &str,
    format: PointFormat,
    options: &ReadOptions<'_>,
) -> Result<(PointSet, PointInfo)> {
    let mut info = PointInfo::new(format);
    let is_index = format == PointFormat::ElastixIndex;
    let grid = match (is_index, options.grid) {
        (true, None) => return Err(no_grid(path)),
        (true, Some(grid)) => {
            if options.convention == Some(PointConvention::Lps) {
                info.say(
                    "its voxel indices are neither RAS nor LPS: the image says where they are",
                );
            }
            Some(grid)
        }
        (false, _) => {
            info.world(None, options);
            None
        }
    };
    let mut lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let mut first = lines.next();
    if first.is_some_and(|(_, line)| line.trim().parse::<u64>().is_err()) {
        first = lines.next();
    } else {
        info.say(
            "its first line is neither 'point' nor 'index': elastix takes such a list for indices",
        );
    }
    let count = first.map_or("", |(_, line)| line.trim());
    let count: usize = count.parse().map_err(|_| {
        let line = first.map_or(2, |(line, _)| line);
        let problem = format!("line {line}: '{}' is not the number of the points", shorten(count));
        IoError::malformed(path, problem, "write how many points there are on the second line")
    })?;
    let mut gathered = Gathered::new(path, &[]);
    let mut axes = 3;
    for (number, line) in lines {
        let mut p = Vector3::zeros();
        let mut given = 0;
        for (i, word) in line.split_whitespace().enumerate() {
            let value = coordinate(path, &format_args!("line {number}"), word)?;
            if let Some(one) = p.get_mut(i) {
                *one = value;
            }
            given = i + 1;
        }
        if gathered.points.is_empty() && (given == 2 || given == 3) {
            axes = given;
        }
        if given != axes {
            let problem = format!(
                "line {number}: there are {given} coordinates where the points have {axes}"
            );
            return Err(IoError::malformed(
                path,
                problem,
                "write the coordinates of one point on each line, with spaces between them",
            ));
        }
        gathered.add(p, [])?;
    }
    let found = gathered.points.len();
    if found != count {
        let problem =
            format!("its second line says that there are {count} points, but {found} follow");
        let remedy = "correct the number, or copy the file again";
        return Err(IoError::malformed(path, problem, remedy));
    }
    for p in &mut gathered.points {
        *p = match grid {
            Some(grid) => grid.index_to_world(*p),
            None => PointConvention::Lps.convert(*p),
        };
    }
    let set = gathered.finish()?;
    if axes == 3 {
        return Ok((set, info));
    }
    // Of an image that lies elsewhere than in the plane of z = 0, indices have a third coordinate in the world.
    let in_plane = grid.is_none() || set.points().iter().all(|p| p[2] == 0.0);
    Ok((if in_plane { set.in_plane() } else { set }, info))
}

/// Reads what transformix writes about points: where each was carried to.
pub(super) fn read_output(
    path: &Path,
    text: &str,
    options: &ReadOptions<'_>,
) -> Result<(PointSet, PointInfo)> {
    let mut info = PointInfo::new(PointFormat::Transformix);
    info.world(None, options);
    info.say("of the fields that transformix lists for each point, the transformed position was read (OutputPoint)");
    let mut gathered = Gathered::new(path, &[]);
    let mut axes = 3;
    let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    for (number, line) in lines {
        let after = line.split_once("OutputPoint").and_then(|(_, rest)| rest.split_once('['));
        let inside = after.and_then(|(_, rest)| rest.split_once(']'));
        let Some((inside, _)) = inside else {
            let problem = format!("line {number} has no 'OutputPoint = [ … ]'");
            let remedy = "give the outputpoints.txt of one run of transformix, as it is";
            return Err(IoError::malformed(path, problem, remedy));
        };
        let words: Vec<&str> = inside.split_whitespace().take(4).collect();
        if gathered.points.is_empty() && words.len() == 2 {
            axes = 2;
        }
        if words.len() != axes {
            let problem = format!("line {number}: OutputPoint has not {axes} coordinates");
            return Err(IoError::malformed(path, problem, "copy the file again"));
        }
        let mut p = Vector3::zeros();
        for (one, word) in p.iter_mut().zip(words) {
            *one = coordinate(path, &format_args!("line {number}"), word)?;
        }
        gathered.add(PointConvention::Lps.convert(p), [])?;
    }
    let set = gathered.finish()?;
    Ok((if axes == 2 { set.in_plane() } else { set }, info))
}

/// Writes a list of points, or of indices of a grid.
pub(super) fn write(path: &Path, set: &PointSet, grid: Option<&Grid>) -> Result<Vec<String>> {
    let lost = Columns::new(set).lost("elastix lists");
    let axes = if set.is_2d() { 2 } else { 3 };
    atomic::write_file(path, |sink| {
        writeln!(sink, "{}", if grid.is_some() { "index" } else { "point" })?;
        writeln!(sink, "{}", set.len())?;
        for &p in set.points() {
            let p = match grid {
                Some(grid) => grid.world_to_index(p).map(settled),
                None => PointConvention::Lps.convert(p),
            };
            let words: Vec<String> = p.iter().take(axes).map(ToString::to_string).collect();
            writeln!(sink, "{}", words.join(" "))?;
        }
        Ok(())
    })?;
    Ok(lost)
}

/// A whole number that rounding has left by less than matters.
fn settled(index: f64) -> f64 {
    let whole = index.round();
    if (index - whole).abs() < 1e-9 * whole.abs().max(1.0) { whole + 0.0 } else { index }
}
