//! The midpoint of two images, and transforms composed of the halves that lead to it.

use crate::attachment::images::{Moved, box_around, finer_slices, finest};
use crate::error::{RegisterError, Result};
use crate::measures::stays_inside;
use crate::model::mend::{
    ERROR, REPAIRS, across_slices, invert_consistently, mend, misses, smooth_near, widened,
};
use voxalign_compute::ops::elementwise::{constant, x};
use voxalign_compute::ops::resample::Interpolation;
use voxalign_compute::{Device, DeviceBuffer, Dims, IDENTITY};
use voxalign_image::{Affine, Grid, Matrix3, Matrix4, Vector3};

fn no_half_way() -> RegisterError {
    RegisterError::option(
        "model",
        "symmetric",
        "the affine transform mirrors or rotates by 180 degrees, so there is no transform half-way; use greedy",
    )
}

/// The map that done twice is `affine`, by the iteration of Denman and Beavers (1976).
///
/// # Errors
/// A map without a real square root, such as a reflection.
pub fn square_root(affine: &Affine) -> Result<Affine> {
    let full = affine.to_homogeneous();
    let (mut y, mut z) = (full, Matrix4::identity());
    for _ in 0..60 {
        let (Some(yi), Some(zi)) = (y.try_inverse(), z.try_inverse()) else {
            return Err(no_half_way());
        };
        let next = (y + zi) * 0.5;
        z = (z + yi) * 0.5;
        let change = (next - y).abs().max();
        y = next;
        if change < 1e-13 * y.abs().max() {
            break;
        }
    }
    let error = (y * y - full).abs().max();
    if error.is_finite() && error < 1e-8 * full.abs().max() {
        Ok(Affine::from_homogeneous(&y))
    } else {
        Err(no_half_way())
    }
}

/// How many times as unequal the scalings of the half-way map may be as those of the whole map. Close to half a turn with unequal scalings they
/// grow without bound, and so does the grid that shows both images.
const STRETCH: f64 = 2.0;

/// The [square root](square_root) of the map between two images, for their middle.
///
/// # Errors
/// A map without one, or next to such a map: one that turns by half a turn and scales unequally along its axes.
pub fn half_way(affine: &Affine) -> Result<Affine> {
    let half = square_root(affine)?;
    let unequal = |affine: &Affine| {
        let scalings = affine.matrix.singular_values();
        scalings.max() / scalings.min()
    };
    if unequal(&half) <= STRETCH * unequal(affine) { Ok(half) } else { Err(no_half_way()) }
}

/// The spacing of the middle of images with the same axes: the finer one along each, but nowhere below half of the finest of the coarser
/// image, which tells nothing so fine; and of thick slices finer than that, as a deformation along an axis is only as fine as the grid that it
/// is found on.
#[must_use]
pub fn middle_spacing(of: [[f64; 3]; 2], flat: bool) -> [f64; 3] {
    let axes = if flat { 2 } else { 3 };
    let finest = of.map(|spacing| spacing[..axes].iter().copied().fold(f64::MAX, f64::min));
    let least = fine_enough(finest);
    let both = [0, 1, 2].map(|a| {
        let h = of[0][a].min(of[1][a]);
        if a < axes { h.max(least) } else { h }
    });
    finer_slices(both, flat)
}

/// The spacing that is fine enough for two images whose finest spacings these are.
fn fine_enough([fixed, moving]: [f64; 2]) -> f64 {
    fixed.min(moving).max(0.5 * fixed.max(moving))
}

/// The least and the largest coordinates of a grid under an affine map of its indices, with so much of a voxel around the centres of the outermost.
fn reach(
    grid: &Grid,
    around: f64,
    map: impl Fn(Vector3<f64>) -> Vector3<f64>,
) -> [Vector3<f64>; 2] {
    let dims = grid.dims();
    let around = dims.map(|n| if n > 1 { around } else { 0.0 });
    let last = Vector3::from_fn(|a, _| dims[a] as f64 - 1.0 + around[a]);
    box_around([-Vector3::from(around), last], map)
}

/// The grid of the middle: it covers what either image shows, at the [spacing](middle_spacing) of both, along the axes of the images where these
/// agree, else along those of the world. Its voxels lie half-way between those of both images, so that as little as may be is interpolated.
///
/// # Errors
/// Sizes that make no grid.
pub fn middle_grid(fixed: &Grid, moving: &Grid, half: &Affine) -> Result<Grid> {
    let back = half.inverse()?;
    let same = (fixed.direction() - moving.direction()).abs().max() < 1e-4;
    let flat = fixed.is_2d();
    let axes = if same || flat { fixed.direction() } else { Matrix3::identity() };
    let to_axes = axes.try_inverse().unwrap_or_else(Matrix3::identity);
    let spacing = if same || flat {
        middle_spacing([fixed.spacing(), moving.spacing()], flat)
    } else {
        [fine_enough([finest(fixed), finest(moving)]); 3]
    };
    let [fixed_reach, moving_reach] = [(fixed, half), (moving, &back)]
        .map(|(grid, map)| reach(grid, 0.5, |at| to_axes * map.apply(grid.index_to_world(at))));
    let low = fixed_reach[0].inf(&moving_reach[0]);
    let high = fixed_reach[1].sup(&moving_reach[1]);
    // The middle voxels of both images, which those of the middle are half-way between.
    let voxels = [(fixed, half), (moving, &back)].map(|(grid, map)| {
        let centre = grid.dims().map(|n| ((n - 1) / 2) as f64);
        to_axes * map.apply(grid.index_to_world(Vector3::from(centre)))
    });
    let (mut dims, mut first) = ([1; 3], (low + high) * 0.5);
    for a in (0..3).filter(|&a| !(flat && a == 2)) {
        let phases = [0, 1].map(|side| (voxels[side][a] / spacing[a]).rem_euclid(1.0));
        let (sum, apart) = (phases[0] + phases[1], (phases[0] - phases[1]).abs());
        let phase = 0.5 * if apart > 0.5 { sum + 1.0 } else { sum };
        // In voxels of the middle; a thousandth more than the images reach is no reason for another voxel.
        let (low, high) = (low[a] / spacing[a] + 0.5, high[a] / spacing[a] - 0.5);
        let start = (low - phase + 1e-3).floor() + phase;
        dims[a] = (high - start - 1e-3).ceil().max(0.0) as usize + 1;
        first[a] = start * spacing[a];
    }
    let matrix = axes * Matrix3::from_diagonal(&Vector3::from(spacing));
    Ok(Grid::new(dims, Affine::new(matrix, axes * first))?)
}

/// A grid of the middle, grown by whole voxels until it has all of two grids that lead to it by their maps, but by no more than `most` voxels
/// on each side.
///
/// # Errors
/// Sizes that make no grid.
pub(super) fn grown(grid: &Grid, all: [(&Grid, &Affine); 2], most: f64) -> Result<Grid> {
    let dims = grid.dims();
    let mut first = [0.0f64; 3];
    let mut last = dims.map(|n| (n - 1) as f64);
    for (other, map) in all {
        let to = other.to_world().then(map).then(grid.to_index());
        let [low, high] = reach(other, 0.0, |at| to.apply(at));
        for a in (0..3).filter(|&a| dims[a] > 1) {
            first[a] = first[a].min((low[a] + 1e-3).floor());
            last[a] = last[a].max((high[a] - 1e-3).ceil());
        }
    }
    for a in (0..3).filter(|&a| dims[a] > 1) {
        first[a] = first[a].max(-most);
        last[a] = last[a].min((dims[a] - 1) as f64 + most);
    }
    let sizes = [0, 1, 2].map(|a| (last[a] - first[a]) as usize + 1);
    let offset = grid.index_to_world(Vector3::from(first));
    Ok(Grid::new(sizes, Affine::new(grid.to_world().matrix, offset))?)
}

/// Of the displacements that lead from the middle, with grid `grid`, to the fixed and to the moving image:
/// the displacements on a grid `on` of the fixed world that carry fixed to moving points before `A`, and moving points after
/// `A⁻¹` back to fixed ones, in voxels of it, and the voxels that were smoothed, summed over rounds. `half` is
/// half of `A`. Where going there and back misses by more than a result may
/// ([`LARGEST`](crate::model::mend::LARGEST)), both sides are smoothed at that place of the middle, which
/// treats them alike, until it does not.
pub(super) fn settled<D: Device>(
    device: &D,
    grid: &Grid,
    half: &Affine,
    fields: [D::Buffer<f32>; 2],
    on: &Grid,
) -> Result<([D::Buffer<f32>; 2], usize)> {
    let (from, dims) = (grid.dims(), on.dims());
    let map = on.to_world().then(half).then(grid.to_index()).rows();
    let to_fixed = Moved::<D>::map_of(grid, &half.inverse()?, on);
    // Of a voxel of that grid along the axes of the middle, in voxels of the middle.
    let edges =
        [0, 1, 2].map(|a| to_fixed.iter().map(|row| row[a] * row[a]).sum::<f64>().powf(-0.5));
    let [mut u_f, mut u_m] = fields;
    let mut mended = mend(device, &mut u_f, from)? + mend(device, &mut u_m, from)?;
    let undone = |u: &D::Buffer<f32>| -> Result<_> {
        let mut undone = device.alloc::<f32>(u.len())?;
        device.eval(&(-x(0)), &[u], &[], None, &mut undone)?;
        Ok(undone)
    };
    let (mut undo_f, mut undo_m) = (undone(&u_f)?, undone(&u_m)?);
    let mut round = 0;
    loop {
        for (u, undo) in [(&mut u_f, &mut undo_f), (&mut u_m, &mut undo_m)] {
            // The errors of both sides add up, and one side stretches those of the other.
            mended += invert_consistently(device, u, grid, undo, 0.375 * ERROR)?;
        }
        let there = through(device, &undo_f, &u_m, from, &map, dims)?;
        let back = through(device, &undo_m, &u_f, from, &map, dims)?;
        let [there, back] = agreed(device, [there, back], dims)?;
        let ways = [
            (misses(device, on, &there, &back)?, &u_f),
            (misses(device, on, &back, &there)?, &u_m),
        ];
        if round == REPAIRS || ways.iter().all(|(off, _)| off.is_none()) {
            return Ok(([there, back], mended));
        }
        drop((there, back));
        // Both ways pass through the middle, the one along the side of the fixed image, the other
        // along that of the moving one.
        let mut near = device.alloc::<f32>(from.iter().product())?;
        for (off, u) in ways {
            let Some(off) = off else { continue };
            let off = widened(device, &off, dims, 1)?;
            let mut here = device.alloc::<f32>(near.len())?;
            let linear = Interpolation::Linear;
            device.warp_field(&off, dims, &to_fixed, u, from, linear, 0.0, &mut here)?;
            device.eval_in_place(&x(0).max(x(1)), &mut near, &[&here], &[], None)?;
        }
        let mut sigma = across_slices([0, 1, 2].map(|a| edges[a] * grid.spacing()[a]), from);
        if round >= REPAIRS / 2 {
            // What is left takes a voxel of the grid of the results.
            (0..3).for_each(|a| sigma[a] *= edges[a].max(1.0));
        }
        mended += smooth_near(device, &mut u_f, from, &near, sigma)?;
        mended += smooth_near(device, &mut u_m, from, &near, sigma)?;
        round += 1;
    }
}

/// Two fields that are nearly inverse to each other, each moved by half of what the way through the other one and back misses where it leads: as
/// far as the fields are linear between voxels, nothing is missed then. Ways that leave the grid change nothing.
fn agreed<D: Device>(
    device: &D,
    [there, back]: [D::Buffer<f32>; 2],
    dims: Dims,
) -> Result<[D::Buffer<f32>; 2]> {
    let moved = |field: &D::Buffer<f32>, other: &D::Buffer<f32>| -> Result<_> {
        let mut missed = device.alloc::<f32>(field.len())?;
        device.compose_fields(field, dims, &IDENTITY, other, dims, &mut missed)?;
        // All of it is taken away where the other way leaves the grid, else half.
        let mut less = stays_inside(device, other, dims)?;
        device.eval_in_place(&(constant(1.0) - x(0) * 0.5), &mut less, &[], &[], None)?;
        device.blend_fields(None, &less, &mut missed)?;
        let mut beyond = device.alloc::<f32>(field.len())?;
        device.compose_fields(&missed, dims, &IDENTITY, field, dims, &mut beyond)?;
        device.eval_in_place(&(x(1) * 2.0 - x(0)), &mut beyond, &[field], &[], None)?;
        Ok(beyond)
    };
    Ok([moved(&there, &back)?, moved(&back, &there)?])
}

/// The displacement `first`, then `second`, both on the middle, on another grid.
pub(super) fn through<D: Device>(
    device: &D,
    first: &D::Buffer<f32>,
    second: &D::Buffer<f32>,
    middle: Dims,
    map: &voxalign_compute::AffineMap,
    dims: Dims,
) -> Result<D::Buffer<f32>> {
    let n: usize = dims.iter().product();
    let mut inner = device.alloc::<f32>(3 * n)?;
    device.resample_field(first, middle, map, dims, &mut inner)?;
    let mut out = device.alloc::<f32>(3 * n)?;
    device.compose_fields(second, middle, map, &inner, dims, &mut out)?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attachment::images::with_divided_slices;
    use voxalign_compute::Memory;
    use voxalign_compute::cpu::Cpu;
    use voxalign_compute::ops::Resample;

    #[test]
    fn half_the_way_twice_is_the_way() {
        let a = Affine::about(
            nalgebra::Rotation3::from_euler_angles(0.3, -0.4, 0.8).matrix()
                * Matrix3::new(1.1, 0.1, 0.0, 0.0, 0.9, 0.05, 0.0, 0.0, 1.2),
            Vector3::new(3.0, 5.0, -7.0),
            Vector3::new(10.0, -4.0, 2.0),
        );
        let h = square_root(&a).unwrap();
        let twice = h.then(&h);
        for p in [Vector3::zeros(), Vector3::new(50.0, -20.0, 80.0)] {
            assert!((twice.apply(p) - a.apply(p)).norm() < 1e-9);
        }
        let mirror =
            Affine::from_rows([[-1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]]);
        assert!(square_root(&mirror).is_err());
    }

    #[test]
    fn thick_slices_have_several_of_the_middle() {
        let thin = [0.9, 0.9, 1.2];
        assert_eq!(middle_spacing([thin, thin], false), thin);
        assert_eq!(middle_spacing([[1.0, 1.0, 3.0]; 2], false), [1.0; 3]);
        let found = middle_spacing([[0.9, 0.9, 5.4], [1.0, 1.0, 6.0]], false);
        assert!(found[..2] == [0.9; 2] && (found[2] - 1.8).abs() < 1e-12, "{found:?}");
        assert_eq!(middle_spacing([[1.0, 1.0, 3.0], [2.0; 3]], false), [1.0, 1.0, 1.0]);
        assert_eq!(middle_spacing([[1.0, 1.0, 30.0]; 2], true), [1.0, 1.0, 30.0]);
        // What the coarser image shows is not finer than half of its voxels.
        assert_eq!(middle_spacing([[1.0; 3], [0.4, 2.0, 0.4]], false), [0.5; 3]);
        assert_eq!(middle_spacing([[1.0, 1.0, 9.0], [0.1, 0.1, 9.0]], true), [0.5, 0.5, 9.0]);
        // An image that ends between two slices of the other one is covered.
        let grid = Grid::axis_aligned([20, 30, 9], [1.0, 1.0, 3.0]).unwrap();
        let middle = middle_grid(&grid, &grid, &Affine::identity()).unwrap();
        assert_eq!((middle.dims(), middle.spacing()), ([20, 30, 27], [1.0; 3]));
    }

    #[test]
    fn fields_divide_thick_slices_into_whole_voxels() {
        let parts = |dims: [usize; 3], spacing: [f64; 3]| {
            let grid = Grid::axis_aligned(dims, spacing).unwrap();
            with_divided_slices(&grid).unwrap().parts_of(&grid).unwrap()
        };
        let dims = [20, 30, 9];
        assert_eq!(parts(dims, [1.0, 1.0, 1.4]), [1; 3]);
        assert_eq!(parts(dims, [1.0, 1.0, 1.6]), [1, 1, 2]);
        assert_eq!(parts(dims, [1.0, 1.0, 2.4]), [1, 1, 2]);
        assert_eq!(parts(dims, [1.4, 1.4, 10.0]), [1, 1, 3]);
        assert_eq!(parts(dims, [0.4, 2.0, 0.4]), [1, 3, 1]);
        assert_eq!(parts([20, 1, 9], [0.4, 2.0, 0.8]), [1, 1, 2]);
        assert_eq!(parts([20, 30, 1], [1.0, 3.0, 8.0]), [1; 3]);
    }

    #[test]
    fn fields_that_are_nearly_inverse_agree_better() {
        let device = Cpu::new(Some(1)).unwrap();
        let grid = Grid::axis_aligned([30, 26, 28], [1.0; 3]).unwrap();
        let (dims, n) = (grid.dims(), grid.len());
        let mut values = vec![0f32; 3 * n];
        for at in 0..n {
            let index = [at % dims[0], at / dims[0] % dims[1], at / (dims[0] * dims[1])];
            for a in 0..3 {
                let b = (a + 1) % 3;
                // Up to 1.5 voxels, and on the border nothing leaves the grid.
                let fade = (0..3)
                    .map(|k| (index[k] as f64 / (dims[k] - 1) as f64 * std::f64::consts::PI).sin())
                    .product::<f64>();
                let wave = (0.35 * index[b] as f64 + a as f64).sin();
                values[a * n + at] = (1.5 * fade * wave) as f32;
            }
        }
        let there = device.upload(&values).unwrap();
        // To first order alone: what it misses is a known part of a voxel.
        let back: Vec<f32> = values.iter().map(|v| -v).collect();
        let fields = [there, device.upload(&back).unwrap()];
        let missed = |fields: &[<Cpu as Memory>::Buffer<f32>; 2]| {
            [(0, 1), (1, 0)].map(|(first, second)| {
                let mut off = device.alloc::<f32>(3 * n).unwrap();
                let (outer, inner) = (&fields[second], &fields[first]);
                device.compose_fields(outer, dims, &IDENTITY, inner, dims, &mut off).unwrap();
                let off = device.download(&off).unwrap();
                off.iter().map(|v| f64::from(v.abs())).sum::<f64>() / off.len() as f64
            })
        };
        let values = |fields: &[<Cpu as Memory>::Buffer<f32>; 2]| {
            [0, 1].map(|side| device.download(&fields[side]).unwrap())
        };
        let before = missed(&fields);
        let exchanged = values(&fields).map(|side| device.upload(&side).unwrap());
        let [one, other] = exchanged;
        let found = agreed(&device, fields, dims).unwrap();
        let after = missed(&found);
        assert!(before.iter().all(|&miss| miss > 0.03), "{before:?}");
        assert!((0..2).all(|way| after[way] < 0.25 * before[way]), "{before:?}, {after:?}");
        // Which of both is the first makes no difference.
        let again = agreed(&device, [other, one], dims).unwrap();
        let [a, b] = values(&again);
        assert!([b, a] == values(&found));
    }

    #[test]
    fn next_to_half_a_turn_there_is_no_half_way() {
        let turned = |degrees: f64, scalings: [f64; 3]| {
            let turn =
                nalgebra::Rotation3::from_axis_angle(&Vector3::z_axis(), degrees.to_radians());
            let scale = Matrix3::from_diagonal(&Vector3::from(scalings));
            Affine::new(turn.matrix() * scale, Vector3::new(5.0, 3.0, -2.0))
        };
        for (degrees, scalings) in
            [(179.0, [1.1; 3]), (90.0, [1.2, 0.8, 1.0]), (30.0, [2.0, 0.5, 1.0])]
        {
            let affine = turned(degrees, scalings);
            let half = half_way(&affine).unwrap();
            assert_eq!(half.to_homogeneous(), square_root(&affine).unwrap().to_homogeneous());
        }
        // The scalings of the half-way map are 190 to one.
        let close = turned(169.5, [1.2, 1.0 / 1.2, 1.0]);
        assert!(square_root(&close).is_ok());
        assert!(half_way(&close).unwrap_err().to_string().contains("half-way"));
    }

    #[test]
    fn the_middle_does_not_depend_on_the_order() {
        let f = Grid::axis_aligned([20, 30, 40], [1.0, 1.2, 0.9]).unwrap();
        let m = Grid::axis_aligned([25, 20, 30], [1.1, 1.0, 1.3]).unwrap();
        let a = Affine::translation(Vector3::new(4.0, -2.0, 3.0));
        let h = square_root(&a).unwrap();
        let back = square_root(&a.inverse().unwrap()).unwrap();
        let (one, other) = (middle_grid(&f, &m, &h).unwrap(), middle_grid(&m, &f, &back).unwrap());
        assert!(one.approx_eq(&other, 1e-9), "{one} {other}");
    }

    /// Farther out than the largest displacement nothing changes any more, so that the grid need not have all of both images.
    #[test]
    fn what_is_far_beyond_the_middle_need_not_be_computed() {
        let device = Cpu::new(Some(2)).unwrap();
        let fixed = Grid::axis_aligned([48, 40, 44], [1.0; 3]).unwrap();
        let offset = Vector3::new(15.0, 11.5, 14.0);
        let half = Affine::translation(Vector3::new(0.5, -0.25, 1.0));
        let part = Grid::new([18, 20, 12], Affine::new(Matrix3::identity(), offset)).unwrap();
        let field = |grid: &Grid, phase: f64| {
            let (dims, n) = (part.dims(), part.len());
            let mut values = vec![0.0f32; 3 * n];
            for at in 0..n {
                let index = [at % dims[0], at / dims[0] % dims[1], at / (dims[0] * dims[1])];
                for a in 0..3 {
                    let b = (a + 1) % 3;
                    let wave = (0.12 * index[b] as f64 + phase + a as f64).sin();
                    values[a * n + at] = (3.0 * wave * (0.07 * index[a] as f64).cos()) as f32;
                }
            }
            let part_values = device.upload(&values).unwrap();
            let map = grid.to_world().then(part.to_index()).rows();
            let mut out = device.alloc::<f32>(3 * grid.len()).unwrap();
            device.resample_field(&part_values, dims, &map, grid.dims(), &mut out).unwrap();
            out
        };
        let back = half.inverse().unwrap();
        let found = [f64::INFINITY, 4.0].map(|most| {
            let grid = grown(&part, [(&fixed, &half), (&fixed, &back)], most).unwrap();
            let fields = [field(&grid, 0.0), field(&grid, 1.7)];
            let (fields, mended) = settled(&device, &grid, &half, fields, &fixed).unwrap();
            (grid.dims(), fields.map(|field| device.download(&field).unwrap()), mended)
        });
        assert_eq!([found[0].0, found[1].0], [[50, 41, 46], [26, 28, 20]]);
        for (all, near) in found[0].1.iter().zip(&found[1].1) {
            let most = all.iter().zip(near).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            let moved = all.iter().fold(0.0f32, |most, v| most.max(v.abs()));
            assert!(
                most < 2e-3 && moved > 3.0,
                "{most} of {moved} voxels, {} and {}",
                found[0].2,
                found[1].2
            );
        }
    }
}
