//! The safeguards against folding, extreme volume changes and inverses that miss.

use crate::attachment::images::finest;
use crate::error::Result;
use crate::limits::DEFORMATION;
use crate::measures::stays_inside;
use voxalign_compute::ops::elementwise::{param, select, x};
use voxalign_compute::ops::filter::GaussianMethod;
use voxalign_compute::ops::flow::Inversion;
use voxalign_compute::ops::reduce::Reduction;
use voxalign_compute::{Device, DeviceBuffer, Dims, IDENTITY};
use voxalign_image::Grid;

/// The least and the most that volumes may change, as determinants of the Jacobian. Beyond them the
/// inverse is too coarsely sampled to be consistent.
const VOLUMES: (f64, f64) = (0.2, 5.0);
/// The most rounds.
const ROUNDS: usize = 60;
/// Voxels around such a place that are smoothed with it.
const REACH: usize = 3;

/// Smooths a displacement field near voxels where it changes volumes to less than a fifth or to more
/// than five times, and nowhere else, until there are none (or a number of rounds is over); the
/// voxels that were touched, summed over the rounds.
///
/// # Errors
/// What fails on the device.
pub fn mend<D: Device>(device: &D, field: &mut D::Buffer<f32>, dims: Dims) -> Result<usize> {
    let (smallest, largest) = VOLUMES;
    let n = dims.iter().product::<usize>();
    let mut jacobian = device.alloc::<f32>(n)?;
    let mut touched = 0;
    for _ in 0..ROUNDS {
        device.jacobian_determinant(field, dims, &mut jacobian)?;
        let ends = device.reduce(&[&jacobian], &[Reduction::Min(0), Reduction::Max(0)])?;
        if ends[0] >= smallest && ends[1] <= largest {
            break;
        }
        let near = x(0).lt(param(0)).max(x(0).gt(param(1)));
        let mut mask = device.alloc::<f32>(n)?;
        device.eval(&near, &[&jacobian], &[smallest as f32, largest as f32], None, &mut mask)?;
        touched += smooth_near(device, field, dims, &mask, [1.0; 3])?;
    }
    Ok(touched)
}

/// The largest inverse-consistency error that is usually left as it is, in smallest voxels.
pub const ERROR: f64 = 0.4;
/// The largest inverse-consistency error that a result may have, in smallest voxels.
pub const LARGEST: f64 = DEFORMATION.largest_inverse_error;
/// The most rounds of smoothing for consistency.
pub const REPAIRS: usize = 20;

/// Inverts a field, and where going there and back misses by more than `error` smallest voxels, because
/// the inverse changes too fast to be interpolated, smooths the field and inverts it again; the
/// voxels that were touched, summed over the rounds. `inverse` is the start, and gets the inverse.
///
/// # Errors
/// What fails on the device.
pub fn invert_consistently<D: Device>(
    device: &D,
    field: &mut D::Buffer<f32>,
    grid: &Grid,
    inverse: &mut D::Buffer<f32>,
    error: f64,
) -> Result<usize> {
    let (dims, n, error) = (grid.dims(), grid.len(), error * finest(grid));
    let mut touched = 0;
    for round in 0..=REPAIRS {
        device.invert_field(field, dims, Inversion::default(), inverse)?;
        if round == REPAIRS {
            break;
        }
        let mut off = device.alloc::<f32>(3 * n)?;
        device.compose_fields(inverse, dims, &IDENTITY, field, dims, &mut off)?;
        let mut mask = device.alloc::<f32>(n)?;
        device.field_lengths(&off, grid.spacing(), &mut mask)?;
        drop(off);
        // Beyond the grid the inverse is not known.
        let inside = stays_inside(device, field, dims)?;
        device.eval_in_place(&(x(0) * x(1)), &mut mask, &[&inside], &[], None)?;
        drop(inside);
        if device.reduce(&[&mask], &[Reduction::Max(0)])?[0] <= error {
            break;
        }
        device.eval_in_place(&x(0).gt(param(0)), &mut mask, &[], &[error as f32], None)?;
        let sigma = across_slices(grid.spacing(), dims);
        touched += smooth_near(device, field, dims, &mask, sigma)?;
    }
    Ok(touched)
}

/// How much a field is smoothed along each axis, voxels, where its inverse misses too much on voxels with these edges, mm: 1 along the longest,
/// less along others. Between thick slices it is what changes from one to the next that an inverse misses.
#[must_use]
pub fn across_slices(edges: [f64; 3], dims: Dims) -> [f64; 3] {
    let longest = (0..3).filter(|&a| dims[a] > 1).map(|a| edges[a]).fold(0.0, f64::max);
    // Edges that are equal but for rounding count as equal.
    edges.map(|edge| if edge > 0.99 * longest { 1.0 } else { edge / longest })
}

/// Where going by the displacement `first` and then by `second`, voxels of the grid, ends too far from
/// the beginning: 1 where it misses by more than [`ERROR`] smallest voxels, else 0. `None` where it
/// misses by more than [`LARGEST`] nowhere. Ways that leave the grid do not count.
///
/// # Errors
/// What fails on the device.
pub fn misses<D: Device>(
    device: &D,
    grid: &Grid,
    first: &D::Buffer<f32>,
    second: &D::Buffer<f32>,
) -> Result<Option<D::Buffer<f32>>> {
    let (dims, n, voxel) = (grid.dims(), grid.len(), finest(grid));
    let mut off = device.alloc::<f32>(3 * n)?;
    device.compose_fields(second, dims, &IDENTITY, first, dims, &mut off)?;
    let mut lengths = device.alloc::<f32>(n)?;
    device.field_lengths(&off, grid.spacing(), &mut lengths)?;
    drop(off);
    let inside = stays_inside(device, first, dims)?;
    let counted = select(x(1).gt(0.0), x(0), param(0));
    device.eval_in_place(&counted, &mut lengths, &[&inside], &[0.0], None)?;
    if device.reduce(&[&lengths], &[Reduction::Max(0)])?[0] <= LARGEST * voxel {
        return Ok(None);
    }
    let error = (ERROR * voxel) as f32;
    device.eval_in_place(&x(0).gt(param(0)), &mut lengths, &[], &[error], None)?;
    Ok(Some(lengths))
}

/// Smooths a field around the voxels where `mask` is above 0, fading over a few voxels, by a Gaussian of the standard deviation `sigma` along each
/// axis, voxels; the voxels touched.
///
/// # Errors
/// What fails on the device.
pub fn smooth_near<D: Device>(
    device: &D,
    field: &mut D::Buffer<f32>,
    dims: Dims,
    mask: &D::Buffer<f32>,
    sigma: [f64; 3],
) -> Result<usize> {
    let near = widened(device, mask, dims, REACH)?;
    let touched = device.reduce(&[&near], &[Reduction::Sum(0)])?[0] as usize;
    let mut wide = device.alloc::<f32>(mask.len())?;
    device.gaussian(&near, dims, [1.0; 3], GaussianMethod::Recursive, &mut wide)?;
    drop(near);
    let mut smooth = device.alloc::<f32>(field.len())?;
    device.gaussian(field, dims, sigma, GaussianMethod::Narrow, &mut smooth)?;
    device.blend_fields(Some(&smooth), &wide, field)?;
    Ok(touched)
}

/// 1 where `mask` is above 0 within some voxels along each axis, else 0.
///
/// # Errors
/// What fails on the device.
pub fn widened<D: Device>(
    device: &D,
    mask: &D::Buffer<f32>,
    dims: Dims,
    reach: usize,
) -> Result<D::Buffer<f32>> {
    let mut wide = device.alloc::<f32>(mask.len())?;
    device.box_mean(mask, dims, [reach; 3], &mut wide)?;
    device.eval_in_place(&x(0).gt(param(0)), &mut wide, &[], &[1e-6], None)?;
    Ok(wide)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measures::FieldMeasures;
    use voxalign_compute::Memory;
    use voxalign_compute::cpu::Cpu;
    use voxalign_compute::ops::Flow;
    use voxalign_image::{Affine, Matrix3, Vector3};

    type Values = <Cpu as Memory>::Buffer<f32>;

    #[test]
    fn what_is_smoothed_is_what_changes_across_slices() {
        assert_eq!(across_slices([1.0, 1.0 + 1e-9, 1.0], [9; 3]), [1.0; 3]);
        assert_eq!(across_slices([1.0, 1.0, 5.0], [9; 3]), [0.2, 0.2, 1.0]);
        assert_eq!(across_slices([1.0, 2.0, 5.0], [9, 9, 1]), [0.5, 1.0, 1.0]);
    }

    #[test]
    fn thick_slices_are_inverted_to_a_part_of_the_smallest_voxel() {
        let device = Cpu::new(Some(1)).unwrap();
        // What is 0.35 of a slice is 2.8 mm.
        let to_world =
            Affine::new(Matrix3::from_diagonal(&Vector3::new(1.0, 1.0, 8.0)), Vector3::zeros());
        let grid = Grid::new([24, 24, 16], to_world).unwrap();
        let n = grid.len();
        let mut values = vec![0f32; 3 * n];
        for z in 0..16 {
            for y in 0..24 {
                for x in 0..24 {
                    let at = x + 24 * (y + 24 * z);
                    let near =
                        (-((x as f32 - 12.0).powi(2) + (y as f32 - 12.0).powi(2)) / 60.0).exp();
                    values[2 * n + at] = 0.42 * near * (1.9 * z as f32).sin();
                }
            }
        }
        let mut field = device.upload(&values).unwrap();
        let mut inverse = device.alloc::<f32>(3 * n).unwrap();
        device.invert_field(&field, grid.dims(), Inversion::default(), &mut inverse).unwrap();
        // mm, as the verdict has it.
        let missed = |field: &Values, inverse: &Values| {
            let found = FieldMeasures::new(&device, &grid, field, Some(inverse), None).unwrap();
            found.inverse_consistency.unwrap().largest
        };
        let before = missed(&field, &inverse);
        assert!(before > LARGEST && before < 8.0 * ERROR, "{before}");
        let touched = invert_consistently(&device, &mut field, &grid, &mut inverse, ERROR).unwrap();
        let after = missed(&field, &inverse);
        assert!(touched > 0 && after <= ERROR, "{before} mm before, {after} mm after");
    }
}
