//! Starting pose from corresponding points in the CT and in X-ray images.

use crate::error::{Error, Result};
use crate::files;
use crate::listener::{Level, Listener, reading};
use std::path::{Path, PathBuf};
use voxalign_image::{Affine, Vector3, XrayGeometry};
use voxalign_io::points::ReadOptions;
use voxalign_options::text;
use voxalign_register::projection::{SeenPoint, pose_by_points};

/// Columns that name a point, the first one that there is.
const NAMES: [&str; 3] = ["label", "name", "id"];

/// A named point of the CT.
struct Known {
    name: String,
    point: Vector3<f64>,
    seen: bool,
}

/// The pose by which points of the CT are where views, with their names, show them.
pub(super) fn start(
    [ct, xray]: &[PathBuf; 2],
    views: &[(&str, XrayGeometry)],
    listener: &dyn Listener,
) -> Result<Affine> {
    let mut known = known(ct, listener)?;
    let at = |what: String| Error::input(text!("'{}': {what}", xray.display()));
    let text = reading(listener, || voxalign_io::text::read(xray))?;
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
    let columns = reader.headers().map_err(|e| at(format!("{e}; {TABLE}")))?.clone();
    let place = |name: &str| columns.iter().position(|n| n.eq_ignore_ascii_case(name));
    let name = NAMES.iter().find_map(|n| place(n));
    let (Some(name), Some(column), Some(row)) = (name, place("column"), place("row")) else {
        return Err(at(format!("it lacks a column of names, 'column' or 'row'; {TABLE}")));
    };
    let view = place("view");
    if view.is_none() && views.len() > 1 {
        let all = views.len();
        return Err(at(format!("there are {all} views, and no column 'view' says which; {TABLE}")));
    }
    let mut all: Vec<SeenPoint<'_>> = Vec::new();
    let mut told: Vec<(usize, usize)> = Vec::new();
    for (number, line) in reader.records().enumerate() {
        let of = |what: String| at(format!("line {}: {what}", number + 2));
        let line = line.map_err(|e| of(format!("{e}; {TABLE}")))?;
        let cell = |place: usize| line.get(place).unwrap_or_default();
        let called = cell(name);
        let Some(which) = known.iter().position(|k| k.name == called) else {
            return Err(of(format!(
                "the point '{called}' is not in '{}'; give it there as well, or take it out",
                ct.display()
            )));
        };
        let number = match view.map(cell) {
            None => 0,
            Some(text) => by_name(text, views).ok_or_else(|| {
                let names: Vec<_> = views.iter().map(|(name, _)| *name).collect();
                of(format!("there is no view '{text}'; the views are {}", names.join(", ")))
            })?,
        };
        if told.contains(&(which, number)) {
            return Err(of(format!("the point '{called}' occurs twice in this view")));
        }
        told.push((which, number));
        let value = |place: usize| {
            cell(place).parse::<f64>().ok().filter(|v| v.is_finite()).ok_or_else(|| {
                of(format!("'{}' is not a number; give columns and rows, from 0", cell(place)))
            })
        };
        let pixel = [value(column)?, value(row)?];
        known[which].seen = true;
        all.push(SeenPoint { view: &views[number].1, number, point: known[which].point, pixel });
    }
    if let Some(one) = known.iter().find(|k| !k.seen) {
        return Err(at(format!(
            "the point '{}' of '{}' is in no view; give its position in a view, or remove it",
            one.name,
            ct.display()
        )));
    }
    let found = pose_by_points(&all).map_err(|e| at(e.to_string()))?;
    listener.say(
        Level::Normal,
        format!(
            "start by {} points, seen {} times: {:.2} mm from them at the detector (root mean square)",
            known.len(),
            all.len(),
            found.residual
        ),
    );
    Ok(found.pose)
}

const TABLE: &str = "give a table with commas and the columns label, view, column, row";

/// The number of a view by its name, or from 1.
fn by_name(text: &str, views: &[(&str, XrayGeometry)]) -> Option<usize> {
    let named = views.iter().position(|(name, _)| *name == text);
    let counted = || text.parse::<usize>().ok().filter(|n| (1..=views.len()).contains(n));
    named.or_else(|| counted().map(|n| n - 1))
}

/// The points of the CT with their names.
fn known(path: &Path, listener: &dyn Listener) -> Result<Vec<Known>> {
    let at = |what: String| Error::input(text!("'{}': {what}", path.display()));
    let (set, _) = files::points(path, &ReadOptions::default(), listener)?;
    let names = NAMES.iter().find_map(|name| {
        set.columns().iter().find(|(column, _)| column.eq_ignore_ascii_case(name))
    });
    let Some((_, names)) = names else {
        return Err(at("its points have no names; give a column 'label'".to_owned()));
    };
    let mut known: Vec<Known> = Vec::new();
    for (name, &point) in names.iter().zip(set.points()) {
        let name = name.trim();
        if name.is_empty() {
            return Err(at("a point has no name; give one to each".to_owned()));
        }
        if known.iter().any(|k| k.name == name) {
            return Err(at(format!("the name '{name}' occurs twice; give each point its own")));
        }
        known.push(Known { name: name.to_owned(), point, seen: false });
    }
    Ok(known)
}
