//! Expected errors at target points of the CT.

use super::input::XrayInput;
use crate::error::Result;
use crate::files;
use crate::listener::Listener;
use std::path::Path;
use voxalign_image::Vector3;
use voxalign_io::points::ReadOptions;
use voxalign_register::projection::PoseResult;
use voxalign_report::pose::ExpectedErrorRecord;

/// Columns that name a point, the first one that there is.
const NAMES: [&str; 3] = ["label", "name", "id"];
/// What the middle of the CT is called.
const MIDDLE: &str = "middle of the CT";

/// Points with their names, or their numbers from 1.
pub(super) fn read(
    path: Option<&Path>,
    listener: &dyn Listener,
) -> Result<Vec<(String, Vector3<f64>)>> {
    let Some(path) = path else { return Ok(Vec::new()) };
    let (set, _) = files::points(path, &ReadOptions::default(), listener)?;
    let columns = set.columns();
    let names = NAMES.iter().find_map(|name| {
        columns.iter().find(|(column, _)| column.eq_ignore_ascii_case(name)).map(|(_, names)| names)
    });
    let name = |i: usize| match names.and_then(|names| names.get(i)).map(|name| name.trim()) {
        Some(name) if !name.is_empty() => name.to_owned(),
        _ => (i + 1).to_string(),
    };
    Ok(set.points().iter().enumerate().map(|(i, &point)| (name(i), point)).collect())
}

/// Of the middle of what attenuates, and of the targets; none where the images do not tell.
pub(super) fn expected(
    found: &PoseResult,
    targets: &[(String, Vector3<f64>)],
    views: &[XrayInput],
) -> Vec<ExpectedErrorRecord> {
    let middle = [(MIDDLE.to_owned(), found.middle)];
    let all = middle.iter().chain(targets).filter_map(|(name, point)| {
        let expected = found.expected_error(*point, views.iter().map(|v| &v.geometry))?;
        Some(ExpectedErrorRecord {
            name: name.clone(),
            point_mm: (*point).into(),
            within_mm: expected.within,
            in_plane_mm: expected.in_plane,
            depth_mm: expected.depth,
        })
    });
    all.collect()
}
