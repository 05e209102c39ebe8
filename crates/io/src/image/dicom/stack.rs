//! The grid of a stack of slices, from their positions.

use super::distinct;
use super::header::Frame;
use super::uneven::Between;
use crate::image::dicom::uneven;
use crate::image::text::flip_lps;
use nalgebra::{Matrix3, Vector3};
use voxalign_image::{Affine, Grid};

/// Slices nearer to each other than this are at one place, in steps, and mm where there is no step.
const SAME: f64 = 0.01;
const SAME_MM: f64 = 1e-3;
/// How far a slice may be from its place on the even grid, in steps, and from where on it is said.
const UNEVEN: f64 = 0.05;
const SAID: f64 = 2e-4;

/// What is wrong with a set of slices, and what helps.
pub(super) type Refused = (String, String);

/// Slices in their order.
#[derive(Debug)]
pub(super) struct Stack {
    pub(super) grid: Grid,
    /// For each volume the numbers of its frames, in the order of the slices.
    pub(super) volumes: Vec<Vec<usize>>,
    /// What distinguishes the volumes, with what each has of it.
    pub(super) by: Vec<&'static str>,
    pub(super) values: Vec<String>,
    /// Where slices are interpolated, for each between which slices it lies.
    pub(super) between: Option<Vec<Between>>,
    /// Whether the header says where the image is.
    pub(super) placed: bool,
    pub(super) oddities: Vec<String>,
}

/// Sorts frames of one size, direction and spacing; `name` names the file of a frame.
pub(super) fn stack(
    frames: &[&Frame],
    [columns, rows]: [usize; 2],
    even: bool,
    name: &dyn Fn(usize) -> String,
) -> Result<Stack, Refused> {
    let mut oddities = Vec::new();
    let [along, down] = frames[0].orientation.unwrap_or([Vector3::x(), Vector3::y()]);
    let normal = along.cross(&down);
    let spacing = frames[0].spacing.unwrap_or_else(|| {
        oddities.push("no PixelSpacing; 1 mm is assumed".into());
        [1.0; 2]
    });
    let placed = frames.iter().all(|f| f.position.is_some()) && frames[0].orientation.is_some();
    if !placed && frames.len() > 1 {
        return Err((
            format!(
                "its {} slices have no positions (ImagePositionPatient and ImageOrientationPatient), so \
                 that their order and distance are not known",
                frames.len()
            ),
            "convert it with a program that knows its kind, or read one of its files alone".into(),
        ));
    }
    if !placed {
        oddities
            .push("no position and orientation; left-posterior-superior axes are assumed".into());
    }
    let place: Vec<Vector3<f64>> =
        frames.iter().map(|f| f.position.unwrap_or_else(Vector3::zeros)).collect();
    let height: Vec<f64> = place.iter().map(|p| p.dot(&normal)).collect();
    let mut order: Vec<usize> = (0..frames.len()).collect();
    order.sort_by(|&a, &b| height[a].total_cmp(&height[b]).then(a.cmp(&b)));
    let places = places(&order, &height);
    let volumes = volumes(frames, &places, &|at| format!("{:.3} mm", height[at]), name)?;
    let first = &volumes.frames[0];
    let mut between = None;
    let step = match first[..] {
        [one] => {
            if frames[one].depth.is_none() && placed {
                oddities.push(
                    "neither SliceThickness nor SpacingBetweenSlices of its one slice is known; 1 mm is assumed"
                        .into(),
                );
            }
            normal * frames[one].depth.unwrap_or(1.0)
        }
        _ if even => {
            let heights: Vec<f64> = first.iter().map(|&i| height[i]).collect();
            let (distance, found) = uneven::even(&heights, &mut oddities);
            between = found;
            let direction = line(first, &place, normal)?;
            direction * distance
        }
        _ => steps(first, &place, &height, normal, name, &mut oddities)?,
    };
    let slices = between.as_ref().map_or(first.len(), Vec::len);
    let lps = Affine::new(
        Matrix3::from_columns(&[along * spacing[0], down * spacing[1], step]),
        place[first[0]],
    );
    let grid = Grid::new([columns, rows, slices], flip_lps(&lps))
        .map_err(|e| (e.to_string(), "correct the geometry in the header first".to_string()))?;
    let distinct::Volumes { frames: volumes, by, values } = volumes;
    Ok(Stack { grid, volumes, by, values, between, placed, oddities })
}

/// The frames at each place, from the lowest up: what is much nearer than usual is at one place.
fn places(order: &[usize], height: &[f64]) -> Vec<Vec<usize>> {
    let within = |same: f64| {
        let mut places: Vec<Vec<usize>> = Vec::new();
        for &i in order {
            match places.last_mut() {
                Some(at) if height[i] - height[at[0]] < same => at.push(i),
                _ => places.push(vec![i]),
            }
        }
        places
    };
    // What is equal but for rounding is no step; the widest of the steps is one between places for certain.
    let widest = order.windows(2).map(|w| height[w[1]] - height[w[0]]).fold(0.0, f64::max);
    let apart = |w: &[usize]| height[w[1]] - height[w[0]];
    let mut steps: Vec<f64> = order.windows(2).map(apart).filter(|&s| s > 0.1 * widest).collect();
    if steps.is_empty() {
        return within(SAME_MM);
    }
    steps.sort_by(f64::total_cmp);
    within(SAME * steps[(steps.len() - 1) / 2])
}

/// The direction of a straight line through slices, of which one step leads 1 mm up.
fn line(
    slices: &[usize],
    place: &[Vector3<f64>],
    normal: Vector3<f64>,
) -> Result<Vector3<f64>, Refused> {
    let (first, last) = (place[slices[0]], place[slices[slices.len() - 1]]);
    let extent = (last - first).dot(&normal);
    let direction = (last - first) / extent;
    let aside = slices.iter().map(|&i| {
        let off = place[i] - first;
        (off - direction * off.dot(&normal)).norm()
    });
    let aside = aside.fold(0.0, f64::max);
    let tilt = direction.dot(&normal) / direction.norm();
    if aside > UNEVEN * extent / (slices.len() - 1) as f64 || tilt < 0.5 {
        return Err((
            format!(
                "the slices are not on a straight line: they deviate from it by up to {aside:.3} mm"
            ),
            "this is not a stack of parallel slices of one scan; choose the files that are".into(),
        ));
    }
    Ok(direction)
}

/// The volumes of frames of which several are at one place.
fn volumes(
    frames: &[&Frame],
    places: &[Vec<usize>],
    height: &dyn Fn(usize) -> String,
    name: &dyn Fn(usize) -> String,
) -> Result<distinct::Volumes, Refused> {
    if places.iter().all(|at| at.len() == 1) {
        let frames = vec![places.iter().map(|at| at[0]).collect()];
        return Ok(distinct::Volumes { frames, by: Vec::new(), values: Vec::new() });
    }
    if let Some(found) = distinct::volumes(frames, places) {
        return Ok(found);
    }
    let doubled: Vec<_> = places.iter().filter(|at| at.len() > 1).collect();
    let some = doubled.iter().take(3).map(|at| {
        let names: Vec<String> = at.iter().take(3).map(|&i| name(i)).collect();
        let more = if at.len() > 3 { format!(" and {} more", at.len() - 3) } else { String::new() };
        format!("{} ({}{more})", height(at[0]), names.join(", "))
    });
    let some: Vec<String> = some.collect();
    let more =
        if doubled.len() > 3 { format!(" and {} more", doubled.len() - 3) } else { String::new() };
    Err((
        format!("several slices are at the same place, at {}{more}", some.join(", ")),
        "take the copies out of the folder; where these are images of several times, echoes or kinds, put \
         each into a folder of its own, or convert them with dcm2niix"
            .into(),
    ))
}

/// The vector from a slice to the next; slices that are missing, or not even, are refused.
fn steps(
    slices: &[usize],
    place: &[Vector3<f64>],
    height: &[f64],
    normal: Vector3<f64>,
    name: &dyn Fn(usize) -> String,
    oddities: &mut Vec<String>,
) -> Result<Vector3<f64>, Refused> {
    let n = slices.len();
    let between: Vec<f64> = slices.windows(2).map(|w| height[w[1]] - height[w[0]]).collect();
    let mut sorted = between.clone();
    sorted.sort_by(f64::total_cmp);
    let usual = sorted[(sorted.len() - 1) / 2];
    let (low, high) = (sorted[0], sorted[sorted.len() - 1]);
    let gaps: Vec<usize> = (0..n - 1)
        .filter(|&i| {
            let ratio = between[i] / usual;
            ratio > 1.5 && (ratio - ratio.round()).abs() < 0.1 * ratio
        })
        .collect();
    if !gaps.is_empty() {
        let missing: f64 = gaps.iter().map(|&i| (between[i] / usual).round() - 1.0).sum();
        let some: Vec<String> = gaps
            .iter()
            .take(3)
            .map(|&i| {
                let (a, b) = (slices[i], slices[i + 1]);
                format!("{:.3} mm ({}) and {:.3} mm ({})", height[a], name(a), height[b], name(b))
            })
            .collect();
        let more =
            if gaps.len() > 3 { format!(" and {} more", gaps.len() - 3) } else { String::new() };
        return Err((
            format!(
                "slices are missing (about {missing}): between {}{more}, while others are {usual:.3} mm apart",
                some.join(", between ")
            ),
            "put the missing files into the folder; where there are none, convert it with `even`, which \
             interpolates between the slices that there are"
                .into(),
        ));
    }
    let step = (place[slices[n - 1]] - place[slices[0]]) / (n - 1) as f64;
    let off = |i: usize| place[slices[i]] - place[slices[0]] - step * i as f64;
    let along = (0..n).map(|i| off(i).dot(&normal).abs()).fold(0.0, f64::max);
    let aside = (0..n)
        .map(|i| {
            let off = off(i);
            (off - normal * off.dot(&normal)).norm()
        })
        .fold(0.0, f64::max);
    let unit = step.norm();
    if along > UNEVEN * unit {
        return Err((
            format!(
                "the slices are not evenly spaced: they are {low:.3} to {high:.3} mm apart, and up to {along:.3} \
                 mm from even places"
            ),
            "convert it with `even`, which interpolates linearly between slices".into(),
        ));
    }
    if aside > UNEVEN * unit {
        return Err((
            format!(
                "the slices are not on a straight line: they deviate from it by up to {aside:.3} mm"
            ),
            "this is not a stack of parallel slices of one scan; choose the files that are".into(),
        ));
    }
    let worst = along.max(aside);
    if worst > SAID * unit {
        oddities.push(format!(
            "the slices are not quite evenly spaced ({low:.4} to {high:.4} mm); their mean distance is used, \
             which is off by up to {worst:.4} mm"
        ));
    }
    let tilt = (step.dot(&normal) / unit).clamp(-1.0, 1.0).acos().to_degrees();
    if tilt > 60.0 {
        return Err((
            format!("the slices follow each other {tilt:.1} degrees off their normal"),
            "this is not a stack of slices of one scan; choose the files that are".into(),
        ));
    }
    if tilt > 0.05 {
        oddities.push(format!(
            "the slices are shifted against each other, as by a tilt of the gantry of {tilt:.2} degrees; the \
             grid is sheared just so"
        ));
    }
    Ok(step)
}
