//! Symmetric registration: both images flow to a middle.
//!
//! With the affine map `A = H ∘ H`, a point `m` of the middle shows the fixed image at
//! `H⁻¹(m + u_f(m))` and the moving image at `H(m + u_m(m))`. Each is the other's reference, and both are
//! treated alike in every step: exchanging the images exchanges the fields, and so inverts the
//! result. The grid of the middle does not depend on their order either.

use super::channel::{
    Buffers, ChannelSimilarity, DeviceImage, Moved, both, clamp_weights, coarser, factors_for, seen,
};
use super::greedy::finest;
use super::mend::{ERROR, REPAIRS, invert_consistently, mend, misses, smooth_near, widened};
use super::moving_mask::MovingMask;
use super::multiscale::{Deformation, Iteration, Scale};
use super::options::DeformOptions;
use super::side::{Kept, Mover, Side};
use crate::error::{RegisterError, Result};
use voxalign_compute::ops::elementwise::x;
use voxalign_compute::ops::flow::Inversion;
use voxalign_compute::ops::resample::Interpolation;
use voxalign_compute::{Device, DeviceBuffer, Dims};
use voxalign_image::{Affine, Grid, Matrix3, Matrix4, Vector3};

/// The map that done twice is `affine`, by the iteration of Denman and Beavers (1976).
///
/// # Errors
/// A map without a real square root, such as a reflection.
pub fn square_root(affine: &Affine) -> Result<Affine> {
    let failed = || RegisterError::Option {
        option: "model",
        value: "symmetric".to_owned(),
        remedy: "the affine transform mirrors or turns by 180 degrees, so that no transform lies \
                 half-way; use greedy"
            .to_owned(),
    };
    let full = affine.to_homogeneous();
    let (mut y, mut z) = (full, Matrix4::identity());
    for _ in 0..60 {
        let (Some(yi), Some(zi)) = (y.try_inverse(), z.try_inverse()) else {
            return Err(failed());
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
        Err(failed())
    }
}

/// The grid of the middle: it covers both fields of view at the finer spacing of the two, along the
/// axes of the images where these agree, else along those of the world.
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
        [0, 1, 2].map(|a| fixed.spacing()[a].min(moving.spacing()[a]))
    } else {
        [finest(fixed).min(finest(moving)); 3]
    };
    let mut low = Vector3::repeat(f64::MAX);
    let mut high = Vector3::repeat(f64::MIN);
    for (grid, map) in [(fixed, half), (moving, &back)] {
        let dims = grid.dims();
        for corner in 0..8usize {
            let index = Vector3::from_fn(|a, _| {
                let half = if dims[a] > 1 { 0.5 } else { 0.0 };
                if corner >> a & 1 == 1 { dims[a] as f64 - 1.0 + half } else { -half }
            });
            let at = to_axes * map.apply(grid.index_to_world(index));
            low = low.inf(&at);
            high = high.sup(&at);
        }
    }
    let dims = [0, 1, 2].map(|a| match (flat, a) {
        (true, 2) => 1,
        _ => (((high[a] - low[a]) / spacing[a] - 1e-3).ceil() as usize).max(1),
    });
    let middle = (low + high) * 0.5;
    let first = Vector3::from_fn(|a, _| middle[a] - 0.5 * (dims[a] as f64 - 1.0) * spacing[a]);
    let matrix = axes * Matrix3::from_diagonal(&Vector3::from(spacing));
    Ok(Grid::new(dims, Affine::new(matrix, axes * first))?)
}

/// Two sides that flow to a middle.
pub struct Middle<D: Device> {
    device: D,
    grid: Grid,
    finest: f64,
    /// The length of voxels at the scale at hand, mm, roughly.
    target: f64,
    half: Affine,
    /// Fixed, moving.
    sides: [Side<D>; 2],
    /// What counts of the fixed image.
    mask: Option<DeviceImage<D>>,
    /// What counts and both show at the beginning of the scale, where that is not all.
    weights: Option<D::Buffer<f32>>,
    moving_mask: Option<MovingMask<D>>,
}

impl<D: Device> Middle<D> {
    /// The images of both, a mask of the fixed ones, and the affine map from the fixed world to the
    /// moving one.
    ///
    /// # Errors
    /// A map without a half-way map; memory that runs out.
    pub fn new(
        device: D,
        fixed: Vec<DeviceImage<D>>,
        moving: Vec<DeviceImage<D>>,
        mask: Option<DeviceImage<D>>,
        affine: &Affine,
    ) -> Result<Self> {
        let half = square_root(affine)?;
        let (Some(f), Some(m)) = (fixed.first(), moving.first()) else {
            return Err(RegisterError::Option {
                option: "channel",
                value: "none".to_owned(),
                remedy: "give at least one pair of images".to_owned(),
            });
        };
        let grid = middle_grid(&f.grid, &m.grid, &half)?;
        let sides =
            [Side::new(&device, fixed, half.inverse()?)?, Side::new(&device, moving, half)?];
        let finest = finest(&grid);
        let target = finest;
        let (weights, moving_mask) = (None, None);
        Ok(Self { device, grid, finest, target, half, sides, mask, weights, moving_mask })
    }

    /// The same with a mask of the moving images, before the first scale.
    #[must_use]
    pub fn with_moving_mask(self, moving_mask: Option<MovingMask<D>>) -> Self {
        Self { moving_mask, ..self }
    }

    /// A middle on a grid of the fixed world, for fixed images that are [exchanged](Self::set_fixed) at
    /// every step: all of the affine map goes to the moving side, so that every image that flows to one
    /// template has its middle on the same grid. Moving images are [given](Self::set_moving) at every scale.
    ///
    /// # Errors
    /// Memory that runs out.
    pub fn on_fixed_grid(device: D, grid: &Grid, affine: &Affine) -> Result<Self> {
        let side = |affine| Side::new(&device, Vec::new(), affine);
        let sides = [side(Affine::identity())?, side(*affine)?];
        let (grid, half, finest) = (grid.clone(), Affine::identity(), finest(grid));
        let target = finest;
        let (mask, weights, moving_mask) = (None, None, None);
        Ok(Self { device, grid, finest, target, half, sides, mask, weights, moving_mask })
    }

    /// Exchanges the moving images for the next scale; without any the side keeps those of the scale at
    /// hand.
    pub fn set_moving(&mut self, images: Vec<DeviceImage<D>>) {
        self.sides[1].set_images(images);
    }

    /// The displacements of the fixed and of the moving side, and the moving images at the scale at hand:
    /// what there is beside buffers that every step fills anew.
    pub fn buffers(&mut self) -> Buffers<'_, D> {
        let [fixed, moving] = &mut self.sides;
        Buffers {
            changing: vec![&mut fixed.field, &mut moving.field],
            fixed: moving.moved.iter_mut().map(|m| &mut m.image.values).collect(),
        }
    }

    /// Looks anew at what the moving images show of the grid, where they are now.
    ///
    /// # Errors
    /// Memory that runs out.
    pub fn look_at_moving(&mut self) -> Result<()> {
        let side = &self.sides[1];
        self.weights = seen(&self.device, &side.moved, &side.field, side.dims)?;
        Ok(())
    }

    /// Lets go the fixed images, and what steps fill anew.
    ///
    /// # Errors
    /// Memory that runs out.
    pub fn clear_scratch(&mut self) -> Result<()> {
        self.sides[0].moved.clear();
        self.sides.iter_mut().try_for_each(|side| side.clear_scratch(&self.device))
    }

    /// Makes room for what [`clear_scratch`](Self::clear_scratch) let go.
    ///
    /// # Errors
    /// Memory that runs out.
    pub fn make_scratch(&mut self) -> Result<()> {
        self.sides.iter_mut().try_for_each(|side| side.make_scratch(&self.device))
    }

    /// Exchanges the fixed images at the scale at hand.
    ///
    /// # Errors
    /// Memory that runs out.
    pub fn set_fixed(&mut self, images: impl Iterator<Item = DeviceImage<D>>) -> Result<()> {
        let grid = coarser(&self.grid, factors_for(&self.grid, self.target))?;
        let back = self.half.inverse()?;
        self.sides[0].moved.clear();
        for image in images {
            self.sides[0].moved.push(Moved::new(&self.device, image, &grid, &back)?);
        }
        Ok(())
    }

    /// The displacement on a grid of the fixed world that carries fixed to moving points before `A`,
    /// voxels of it, at the scale at hand. `undone` is the start of an inversion, and gets its result:
    /// empty at the beginning of a scale.
    ///
    /// # Errors
    /// Memory that runs out.
    pub fn displacement(
        &self,
        fixed: &Grid,
        undone: &mut D::Buffer<f32>,
    ) -> Result<D::Buffer<f32>> {
        let device = &self.device;
        let [to_fixed, to_moving] = &self.sides;
        let dims = to_fixed.dims;
        let middle = coarser(&self.grid, factors_for(&self.grid, self.target))?;
        if undone.len() != to_fixed.field.len() {
            *undone = device.alloc(to_fixed.field.len())?;
        }
        device.invert_field(&to_fixed.field, dims, Inversion::default(), undone)?;
        let map = fixed.to_world().then(&self.half).then(middle.to_index()).rows();
        through(device, undone, &to_moving.field, dims, &map, fixed.dims())
    }

    /// The moving images at the scale at hand.
    #[must_use]
    pub fn moving(&self) -> &[Moved<D>] {
        &self.sides[1].moved
    }

    /// The displacements on the fixed grid that carry fixed to moving points before `A`, and moving
    /// points after `A⁻¹` back to fixed ones, in voxels of it, and the voxels that were smoothed, summed
    /// over rounds. Where going there and back misses by more than a result may
    /// ([`LARGEST`](super::mend::LARGEST)), both sides are smoothed at that place of the middle, which
    /// treats them alike, until it does not.
    ///
    /// # Errors
    /// Memory that runs out.
    pub fn into_fields(self, fixed: &Grid) -> Result<([D::Buffer<f32>; 2], usize)> {
        let (device, dims) = (self.device, fixed.dims());
        let map = fixed.to_world().then(&self.half).then(self.grid.to_index()).rows();
        let to_fixed = Moved::<D>::map_of(&self.grid, &self.half.inverse()?, fixed);
        let [(from, mut u_f), (_, mut u_m)] = self.sides.map(Side::into_field);
        let mut mended = mend(&device, &mut u_f, from)? + mend(&device, &mut u_m, from)?;
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
                mended += invert_consistently(&device, u, from, undo, 0.375 * ERROR)?;
            }
            let there = through(&device, &undo_f, &u_m, from, &map, dims)?;
            let back = through(&device, &undo_m, &u_f, from, &map, dims)?;
            let ways = [
                (misses(&device, fixed, &there, &back)?, &u_f),
                (misses(&device, fixed, &back, &there)?, &u_m),
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
                let off = widened(&device, &off, dims, 1)?;
                let mut here = device.alloc::<f32>(near.len())?;
                let linear = Interpolation::Linear;
                device.warp_field(&off, dims, &to_fixed, u, from, linear, 0.0, &mut here)?;
                device.eval_in_place(&x(0).max(x(1)), &mut near, &[&here], &[], None)?;
            }
            mended += smooth_near(&device, &mut u_f, from, &near)?;
            mended += smooth_near(&device, &mut u_m, from, &near)?;
            round += 1;
        }
    }
}

/// The displacement `first`, then `second`, both on the middle, on another grid.
fn through<D: Device>(
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

impl<D: Device> Deformation for Middle<D> {
    fn to_scale(&mut self, scale: &Scale) -> Result<()> {
        let target = self.finest * scale.factor as f64;
        self.target = target;
        let grid = coarser(&self.grid, factors_for(&self.grid, target))?;
        let device = &self.device;
        let [fixed, moving] = &mut self.sides;
        let seen_fixed = fixed.to_grid(device, &grid, target)?;
        let seen_moving = moving.to_grid(device, &grid, target)?;
        // The mask flows with the fixed image.
        let mask = match &self.mask {
            Some(mask) => {
                let mask = mask.at(device, target)?;
                let mut moved = Moved::new(device, mask, &grid, &self.half.inverse()?)?;
                moved.warp(device, &fixed.field, fixed.dims)?;
                clamp_weights(device, &mut moved.values)?;
                Some(moved.values)
            }
            None => None,
        };
        let of_fixed = both(device, mask, seen_fixed)?;
        self.weights = both(device, of_fixed, seen_moving)?;
        if let Some(mask) = &mut self.moving_mask {
            let (affine, field) = (moving.affine(), &moving.field);
            mask.to_scale(device, &grid, affine, target, field, self.weights.as_ref())?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        if self.sides[0].dims != self.grid.dims() {
            self.to_scale(&Scale { factor: 1, iterations: 0 })?;
        }
        Ok(())
    }
}

/// One symmetric step.
pub struct Symmetric<D: Device> {
    options: DeformOptions,
    metrics: Vec<ChannelSimilarity>,
    /// Those of the fixed and of the moving side.
    movers: Option<[Mover<D>; 2]>,
}

impl<D: Device> Symmetric<D> {
    /// With a metric for each channel.
    #[must_use]
    pub fn new(options: DeformOptions, metrics: Vec<ChannelSimilarity>) -> Self {
        Self { options, metrics, movers: None }
    }

    /// Makes one step of one of several middles on one grid, of which `kept` is what the last step of the
    /// same one left; none where it begins. The energy before the step.
    ///
    /// # Errors
    /// What fails on the device.
    pub fn step(
        &mut self,
        middle: &mut Middle<D>,
        kept: &mut [Option<Kept<D>>; 2],
        with_memory: bool,
    ) -> Result<f64> {
        if !with_memory {
            return self.iterate(middle);
        }
        self.exchange(&middle.device, kept)?;
        let energy = self.iterate(middle)?;
        self.exchange(&middle.device, kept)?;
        Ok(energy)
    }

    fn exchange(&mut self, device: &D, kept: &mut [Option<Kept<D>>; 2]) -> Result<()> {
        let first = 0.5 * self.options.step;
        let mut both = self.movers.iter_mut().flatten().zip(kept);
        both.try_for_each(|(mover, kept)| mover.exchange(device, kept, first))
    }
}

impl<D: Device> Iteration<Middle<D>> for Symmetric<D> {
    fn to_scale(&mut self, middle: &Middle<D>, scale: &Scale) -> Result<()> {
        let target = middle.finest * scale.factor as f64;
        let grid = coarser(&middle.grid, factors_for(&middle.grid, target))?;
        // Before there are new ones.
        self.movers = None;
        // Half the way each.
        let options = DeformOptions { step: 0.5 * self.options.step, ..self.options.clone() };
        let mover = || Mover::new(&middle.device, &grid, &options);
        self.movers = Some([mover()?, mover()?]);
        Ok(())
    }

    fn iterate(&mut self, middle: &mut Middle<D>) -> Result<f64> {
        let device = &middle.device;
        for side in &mut middle.sides {
            side.warp(device)?;
        }
        let weights = match &middle.moving_mask {
            Some(mask) => {
                let moving = &middle.sides[1];
                &mask.weights(device, &moving.field, moving.dims, middle.weights.as_ref())?
            }
            None => &middle.weights,
        };
        let Some(movers) = &mut self.movers else { return Ok(f64::NAN) };
        let moved = middle.sides.each_ref().map(|side| side.moved.iter().map(|m| &m.values));
        let energy = Mover::start_both(movers, device, moved, &self.metrics, weights.as_ref())?;
        let energy = energy.wait()?;
        for (mover, side) in movers.iter_mut().zip(&mut middle.sides) {
            mover.adapt(energy, self.options.step_rule);
            mover.advance(device, side, &self.options)?;
        }
        Ok(energy)
    }

    fn end_scale(&mut self, _: &mut Middle<D>) -> Result<Option<f64>> {
        let mut largest = None;
        for mover in self.movers.iter_mut().flatten() {
            if let Some(r) = mover.residual()? {
                largest = Some(f64::max(largest.unwrap_or(0.0), r));
            }
        }
        Ok(largest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn the_middle_does_not_depend_on_the_order() {
        let f = Grid::axis_aligned([20, 30, 40], [1.0, 1.2, 0.9]).unwrap();
        let m = Grid::axis_aligned([25, 20, 30], [1.1, 1.0, 1.3]).unwrap();
        let a = Affine::translation(Vector3::new(4.0, -2.0, 3.0));
        let h = square_root(&a).unwrap();
        let back = square_root(&a.inverse().unwrap()).unwrap();
        let (one, other) = (middle_grid(&f, &m, &h).unwrap(), middle_grid(&m, &f, &back).unwrap());
        assert!(one.approx_eq(&other, 1e-9), "{one} {other}");
    }
}
