//! The result of a registration of slices with a volume.

use super::super::clip::IndexBox;
use super::super::elastic::ElasticSetting;
use super::super::input::Intensities;
use super::super::register::{Conclusion, object_on, to_world};
use super::super::result::DeformResult;
use super::super::verdict::{Findings, judge};
use super::evidence::{Pair, SliceEvidence, SlicesEvidence, check_slices};
use super::{SliceInput, SlicesInput};
use crate::attachment::images::finest;
use crate::diffeo::calibrate::foreground_threshold;
use crate::error::Result;
use crate::measures::FieldMeasures;
use crate::model::elastic::slices::{SliceBody, inside, points};
use crate::model::elastic::{ElasticResult, ended_at_rest};
use crate::multiscale::ScaleRecord;
use crate::verdict::{Check, Remedy, Verdict};
use rayon::prelude::*;
use voxalign_compute::ops::elementwise::{param, x};
use voxalign_compute::ops::points::Carriage;
use voxalign_compute::ops::resample::Interpolation;
use voxalign_compute::ops::splat::{Beyond, Lattice};
use voxalign_compute::{Device, IDENTITY};
use voxalign_image::{Affine, Grid, ImageView, Vector3, Volume, memory};

/// A volume that was brought to slices.
#[derive(Debug, Clone, PartialEq)]
pub struct SlicesResult {
    /// The deformation: a point `x` of the slices shows what is at `A(x + u(x))` in the volume, and what is at `y` in the volume, with `p = A⁻¹ y`, has come to
    /// `p + w(p)`. Fields are on the grid of the volume, brought into the world of the slices by `A⁻¹`. `w` is the
    /// displacement of the body, falling off around it, and `u` takes it back. What is said of the fixed image is of all slices.
    ///
    /// The verdict is on the fields, the energy, the part of the slices that lies in the body, and how slices and volume
    /// [agree](super::check_slices).
    pub deform: DeformResult,
    /// What each slice shows of the volume.
    pub slices: Vec<SliceResult>,
    /// What slices and volume have in common, and what became of the body.
    pub evidence: SlicesEvidence,
}

/// The volume at the pixels of a slice, in its own intensities, interpolated linearly; its background outside of it.
#[derive(Debug, Clone, PartialEq)]
pub struct SliceResult {
    /// Under the affine map alone.
    pub before: Volume<f32>,
    /// Under the transform that was found.
    pub after: Volume<f32>,
}

/// What is made of a body that has been moved.
pub(super) fn concluded<D: Device>(
    device: &D,
    input: &SlicesInput<'_>,
    setting: &ElasticSetting,
    body: SliceBody<D>,
    scales: Vec<ScaleRecord>,
) -> Result<(SlicesResult, ElasticResult)> {
    let grid = input.moving.grid().moved(&input.affine.inverse()?)?;
    let stopped = body.stopped();
    let (inverse, found) = body.conclude(&grid)?;
    let mut forward = device.alloc(3 * grid.len())?;
    device.eval(&(-x(0)), &[&inverse], &[], None, &mut forward)?;
    let conclusion = Conclusion::new(device, &grid, [inverse, forward], false)?;
    let (mended, [inverse, forward]) = (conclusion.mended, conclusion.fields);
    let mut jacobian = conclusion.jacobian;
    device.jacobian_determinant(&forward, grid.dims(), &mut jacobian)?;
    let foreground = foregrounds(input);
    let object = object(device, input, foreground[1], &grid, &forward)?;
    let measures = FieldMeasures::new(device, &grid, &forward, Some(&inverse), object.as_ref())?;
    drop(object);
    let slices = shown(device, input, &grid, &forward)?;
    let lies = lies_inside(device, input, setting, &found)?;
    let mut evidence = evidence(input, &slices, &lies)?;
    (evidence.folded, evidence.least_jacobian) = (measures.folded, measures.smallest_jacobian);
    evidence.least_ratio = found.body.least_ratio(&found.state.displacements)?.ratio;
    evidence.at_rest = !stopped && ended_at_rest(&scales, setting.elastic.tolerance);
    evidence.stopped = stopped;
    let mut verdict = judge(&Findings {
        measures: &measures,
        scales: &scales,
        overlap: evidence.inside[0],
        masked: [input.slices.iter().any(|s| s.weights.is_some()), input.moving_mask.is_some()],
        mended,
        voxels: grid.len(),
        voxel: finest(&grid),
    });
    let name = "scales that ended where a tetrahedron would have been inverted";
    let check = Check::none(name, u64::from(stopped)).or(Remedy::Smoother);
    verdict.checks.push(check);
    verdict.checks.push(check_slices(&evidence.slices, &input.similarity));
    let verdict = Verdict::new(verdict.checks, verdict.remarks);
    let deform = DeformResult {
        jacobian: Volume::new(grid.clone(), device.into_host(jacobian)?)?,
        forward: to_world(&grid, device.into_host(forward)?)?,
        inverse: to_world(&grid, device.into_host(inverse)?)?,
        affine: input.affine,
        measures,
        scales,
        path: None,
        foreground,
        clipped: IndexBox::whole(&grid),
        mended,
        verdict,
    };
    Ok((SlicesResult { deform, slices, evidence }, found))
}

/// The values that the foregrounds of the slices and of the volume are above.
fn foregrounds(input: &SlicesInput<'_>) -> [Option<f32>; 2] {
    let of = |values: &[f32]| foreground_threshold(values).map(|(_, above)| above);
    let mut all = Vec::new();
    input.slices.iter().for_each(|s| all.extend_from_slice(s.image.data()));
    [of(&all), of(input.moving.data())]
}

/// 1 where the object of the volume has come to, else 0.
fn object<D: Device>(
    device: &D,
    input: &SlicesInput<'_>,
    foreground: Option<f32>,
    grid: &Grid,
    forward: &D::Buffer<f32>,
) -> Result<Option<D::Buffer<f32>>> {
    let Some(at_rest) = object_on(device, (input.moving, foreground), input.moving_mask)? else {
        return Ok(None);
    };
    let (dims, linear) = (grid.dims(), Interpolation::Linear);
    let mut moved = device.alloc(grid.len())?;
    device.warp_field(&at_rest, dims, &IDENTITY, forward, dims, linear, 0.0, &mut moved)?;
    device.eval_in_place(&x(0).gt(0.5), &mut moved, &[], &[], None)?;
    Ok(Some(moved))
}

/// The volume at the pixels of each slice, before and after.
fn shown<D: Device>(
    device: &D,
    input: &SlicesInput<'_>,
    grid: &Grid,
    forward: &D::Buffer<f32>,
) -> Result<Vec<SliceResult>> {
    let background = match input.intensities {
        Intensities::AsTheyAre => 0.0,
        Intensities::Calibrated => foreground_threshold(input.moving.data()).map_or(0.0, |t| t.0),
    };
    let mut moving = device.upload(input.moving.data())?;
    device.eval_in_place(&(x(0) - param(0)), &mut moving, &[], &[background], None)?;
    let lattice = Lattice::linear(grid.dims(), Beyond::Nothing);
    let to_voxels = Affine::from_rows(grid.to_index().rows());
    let (field, scale, map) = (forward, [1.0; 3], IDENTITY);
    let at = |slice: ImageView<'_>, positions: &D::Buffer<f32>| {
        let mut out = device.alloc(slice.data().len())?;
        device.gather(&moving, lattice, positions, None, &mut out)?;
        device.eval_in_place(&(x(0) + param(0)), &mut out, &[], &[background], None)?;
        Ok::<_, crate::RegisterError>(Volume::new(slice.grid().clone(), device.into_host(out)?)?)
    };
    let mut all = Vec::with_capacity(input.slices.len());
    for SliceInput { image, .. } in &input.slices {
        // Voxels of the volume and of its grid in the world of the slices are the same.
        let pixels = device.upload_vec(points(std::slice::from_ref(image.grid()), &to_voxels)?)?;
        let before = at(*image, &pixels)?;
        let mut carried = device.alloc(3 * image.data().len())?;
        let carriage = Carriage { field, lattice, scale, map };
        device.carry_points(&carriage, &pixels, &mut carried)?;
        all.push(SliceResult { before, after: at(*image, &carried)? });
    }
    Ok(all)
}

/// For each pixel of all slices whether it lies in the body, at rest and as it was found.
fn lies_inside<D: Device>(
    device: &D,
    input: &SlicesInput<'_>,
    setting: &ElasticSetting,
    found: &ElasticResult,
) -> Result<[Vec<bool>; 2]> {
    let mut pixels = memory::room(input.slices.iter().map(|s| s.image.data().len()).sum())?;
    for SliceInput { image, .. } in &input.slices {
        let (grid, [nx, ny, _]) = (image.grid(), image.dims());
        let index = |v: usize| [v % nx, v / nx % ny, v / nx / ny].map(|i| i as f64);
        pixels.extend((0..grid.len()).map(|v| grid.index_to_world(Vector3::from(index(v)))));
    }
    let level = setting.body.finest();
    let rest = memory::filled(found.state.displacements.len(), Vector3::zeros())?;
    let at_rest = inside(device, level, &rest, &pixels)?;
    Ok([at_rest, inside(device, level, &found.state.displacements, &pixels)?])
}

/// Compares each slice with what it shows of the volume.
fn evidence(
    input: &SlicesInput<'_>,
    shown: &[SliceResult],
    [at_rest, found]: &[Vec<bool>; 2],
) -> Result<SlicesEvidence> {
    let starts: Vec<usize> = input
        .slices
        .iter()
        .scan(0, |start, s| Some(std::mem::replace(start, *start + s.image.data().len())))
        .collect();
    let slices: Vec<SliceEvidence> = input
        .slices
        .par_iter()
        .zip(shown)
        .zip(&starts)
        .map(|((slice, shown), &start)| {
            let range = start..start + slice.image.data().len();
            of_slice(slice, shown, [&at_rest[range.clone()], &found[range]])
        })
        .collect::<Result<_>>()?;
    let pixels = slices.iter().map(|s| s.pixels).sum::<usize>().max(1) as f64;
    let inside =
        [0, 1].map(|k| slices.iter().map(|s| s.inside[k] * s.pixels as f64).sum::<f64>() / pixels);
    Ok(SlicesEvidence { slices, inside, ..SlicesEvidence::default() })
}

fn of_slice(
    slice: &SliceInput<'_>,
    shown: &SliceResult,
    lies: [&[bool]; 2],
) -> Result<SliceEvidence> {
    let weighs = |i: usize| slice.weights.is_none_or(|w| w.data()[i] > 0.0);
    let n = slice.image.data().len();
    let pixels = (0..n).filter(|&i| weighs(i)).count();
    let inside = lies
        .map(|lies| (0..n).filter(|&i| weighs(i) && lies[i]).count() as f64 / pixels.max(1) as f64);
    let counts = memory::collected((0..n).map(|i| weighs(i) && lies[0][i] && lies[1][i]))?;
    let mut sizes = slice.image.dims().into_iter().filter(|&n| n > 1);
    let size = [sizes.next().unwrap_or(1), sizes.next().unwrap_or(1)];
    let pair = |volume| {
        let (volume, counts): (&Volume<f32>, _) = (volume, &counts);
        Pair { size, slice: slice.image.data(), volume: volume.data(), counts }
    };
    let [before, after] = [pair(&shown.before), pair(&shown.after)];
    Ok(SliceEvidence {
        pixels,
        inside,
        correlation: [before.correlation(), after.correlation()],
        local: [before.local([0, 0]), after.local([0, 0])],
        elsewhere: after.elsewhere(),
    })
}
