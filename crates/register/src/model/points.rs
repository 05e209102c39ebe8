//! Points that fields carry, and forces at points, all on the device.
//!
//! A point in voxels `p` of a grid is carried by a displacement `u` to `M(p + u(p))` in mm, with an affine map `M` after it and linear
//! interpolation, that of images. A covector `c` there is the force `(1 + ∂u)ᵀ Mᵀ c` at `p`, and is shared out among the voxels around.
//!
//! # What a force at a point is worth
//!
//! Forces of images are spread over the grid, those of points are concentrated in few voxels: a solver makes a peak of them,
//! and if that set the step of all, images would stand still while points move. So points are held back where they would go too
//! far, and the largest velocity stays that of the images. With the solver `K`, a force
//! `f_i` moves all points by `K(p_j, p_i) f_i`; `reach` is how far unit forces at all points move each, and the second
//! part of it what forces as large as the second derivatives `h` of the energy do: `Σ_j K(p_i, p_j) h_j`. A step `α` along
//! the velocity makes `α K f` voxels of a force. What [`Held::hold_back`] leaves of it, `f / (1 + α Σ K h)`, never goes beyond the place where
//! the energy is least (no eigenvalue of `K h` is above one once each column is divided by its sum, as
//! Gershgorin's theorem has it), and what moves a point by more than a largest step is cut to that. Where the pull is weak, that is the gradient of
//! the total energy; where it is strong, points come as near to the end of that as one step of the images.

use crate::error::Result;
use voxalign_compute::ops::elementwise::{constant, param, x};
use voxalign_compute::ops::reduce::Reduction;
use voxalign_compute::ops::splat::{Beyond, Lattice};
use voxalign_compute::{AffineMap, Device, DeviceBuffer, Dims};
use voxalign_image::{Affine, Vector3};

/// How points see the grid of a model: as images do, held at the border.
pub(super) fn lattice(dims: Dims) -> Lattice {
    Lattice::linear(dims, Beyond::Nearest)
}

/// An affine map of points that count from one origin to points that count from another one.
pub(super) fn between<A, B>(
    map: &Affine<A, B>,
    from: &Vector3<f64>,
    to: &Vector3<f64>,
) -> AffineMap {
    Affine::<A, B>::new(map.matrix, map.apply(*from) - to).rows()
}

/// A map that multiplies each component.
pub(super) fn diagonal(factors: [f64; 3]) -> AffineMap {
    let [x, y, z] = factors;
    [[x, 0.0, 0.0, 0.0], [0.0, y, 0.0, 0.0], [0.0, 0.0, z, 0.0]]
}

/// Where points `at` are, voxels, after the displacement `field`, by a map that is applied last.
///
/// # Errors
/// What fails on the device.
pub(super) fn carried<D: Device>(
    device: &D,
    field: &D::Buffer<f32>,
    dims: Dims,
    at: &D::Buffer<f32>,
    map: &AffineMap,
) -> Result<D::Buffer<f32>> {
    let [mut there, mut to] = [device.alloc::<f32>(at.len())?, device.alloc::<f32>(at.len())?];
    device.gather(field, lattice(dims), at, None, &mut there)?;
    device.eval_in_place(&(x(0) + x(1)), &mut there, &[at], &[], None)?;
    device.map_points(map, &there, &mut to)?;
    Ok(to)
}

/// The forces at points that [`carried`] has carried, given covectors where they are, in voxels, each component multiplied
/// by a factor.
///
/// # Errors
/// What fails on the device.
pub(super) fn forces<D: Device>(
    device: &D,
    field: &D::Buffer<f32>,
    dims: Dims,
    at: &D::Buffer<f32>,
    map: &AffineMap,
    covectors: &D::Buffer<f32>,
    factors: [f64; 3],
) -> Result<D::Buffer<f32>> {
    let len = at.len();
    let [mut moments, mut values] = [device.alloc::<f32>(len)?, device.alloc::<f32>(len)?];
    let mut slopes = device.alloc::<f32>(len)?;
    device.map_covectors(map, covectors, &mut moments)?;
    device.gather_with_slopes(
        field,
        lattice(dims),
        at,
        None,
        &moments,
        &mut values,
        &mut slopes,
    )?;
    device.eval_in_place(&(x(0) + x(1)), &mut slopes, &[&moments], &[], None)?;
    device.map_points(&diagonal(factors), &slopes, &mut values)?;
    Ok(values)
}

/// The factors that make forces by voxels those by the smallest voxel, times another one; none along axes of one voxel.
pub(super) fn by_smallest(dims: Dims, spacing: [f64; 3], factor: f64) -> [f64; 3] {
    [0, 1, 2].map(|a| if dims[a] > 1 { factor / spacing[a] } else { 0.0 })
}

/// Points of one side of an attachment at a scale.
pub(super) struct Held<D: Device> {
    /// Where they are on the side that they come from, voxels of the grid.
    pub(super) on_side: D::Buffer<f32>,
    /// Where forces act on them, voxels of the grid; of models that move the side that points come from, else the same.
    pub(super) at: Option<D::Buffer<f32>>,
    /// How far unit forces at all points move each, once for each component; and the stiffness of the energy times that.
    pub(super) reach: Option<[D::Buffer<f32>; 2]>,
}

/// How far points may go in a step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// The largest step, smallest voxels.
    pub(super) step: f64,
    /// Voxels that a unit of velocity makes; none where points alone move, each as far as its energy asks for.
    pub(super) pace: Option<f64>,
    /// What the energy of points counts beside that of images.
    pub(super) share: f64,
    /// What the stiffness counts: more where a force moves two sides, less where it is known to be too much.
    pub(super) stiffness: f64,
}

impl<D: Device> Held<D> {
    /// Points of a world by the map to voxels.
    pub(super) fn new(device: &D, points: &D::Buffer<f32>, map: &AffineMap) -> Result<Self> {
        let mut on_side = device.alloc::<f32>(points.len())?;
        device.map_points(map, points, &mut on_side)?;
        Ok(Self { on_side, at: None, reach: None })
    }

    /// All that it has on the device.
    pub(super) fn buffers(&mut self) -> impl Iterator<Item = &mut D::Buffer<f32>> {
        let rest = self.at.iter_mut().chain(self.reach.iter_mut().flatten());
        std::iter::once(&mut self.on_side).chain(rest)
    }

    /// What [buffers](Self::buffers) there are: their length, and whether there are those that may be left out.
    pub(super) fn numbers(&self) -> [f64; 3] {
        let there = |is: bool| f64::from(u8::from(is));
        [self.on_side.len() as f64, there(self.at.is_some()), there(self.reach.is_some())]
    }

    /// Room for what [numbers](Self::numbers) say.
    ///
    /// # Errors
    /// Memory that runs out.
    pub(super) fn from_numbers(
        device: &D,
        numbers: &mut impl Iterator<Item = f64>,
    ) -> Result<Self> {
        let [len, at, reach] = [0; 3].map(|_| numbers.next().unwrap_or_default());
        let room = || device.alloc::<f32>(len as usize);
        Ok(Self {
            on_side: room()?,
            at: if at > 0.0 { Some(room()?) } else { None },
            reach: if reach > 0.0 { Some([room()?, room()?]) } else { None },
        })
    }

    /// Where forces act on the points.
    pub(super) fn at(&self) -> &D::Buffer<f32> {
        self.at.as_ref().unwrap_or(&self.on_side)
    }

    /// Cuts forces by the smallest voxel to what brings the points nearer to the least energy, as the head of this file
    /// has it. What is left is in units of which `pace`, or 1, makes voxels.
    ///
    /// # Errors
    /// What fails on the device.
    pub(super) fn hold_back(
        &self,
        device: &D,
        forces: &mut D::Buffer<f32>,
        bounds: Bounds,
    ) -> Result<()> {
        let Some([reach, stiffness]) = &self.reach else { return Ok(()) };
        let Bounds { step, pace, share, stiffness: weight } = bounds;
        let mut squares = device.alloc::<f32>(forces.len())?;
        device.eval(&(x(0) * x(0)), &[&*forces], &[], None, &mut squares)?;
        let mut lengths = device.alloc::<f32>(forces.len())?;
        // Their sum, in the place of each component.
        device.map_points(&[[1.0, 1.0, 1.0, 0.0]; 3], &squares, &mut lengths)?;
        // Voxels that a unit of force makes, and at most; `param(0)` units of velocity make one.
        let wanted = param(1) / (param(0) + x(3) * param(2) + 1e-30);
        let allowed = param(3) / (x(2) * x(1).sqrt() + 1e-30);
        let held = x(0) * wanted.min(allowed) * param(4);
        let inverse = pace.map_or(0.0, |pace| 1.0 / pace);
        let unit = pace.map_or(1.0, |pace| 1.0 / pace);
        let by = [inverse, share, share * weight, step, unit].map(|v| v as f32);
        device.eval_in_place(&held, forces, &[&lengths, reach, stiffness], &by, None)?;
        Ok(())
    }
}

/// What each of some lists of points feels of forces at all of them: of unit forces, and of ones as large as the stiffness of
/// each; `solve` makes velocities of forces in place. `smallest` is the length of the smallest voxel, mm.
///
/// # Errors
/// What fails on the device.
pub(super) fn reaches<D: Device>(
    device: &D,
    dims: Dims,
    smallest: f64,
    mut points: Vec<(&mut Held<D>, &[f32])>,
    mut solve: impl FnMut(&mut D::Buffer<f32>) -> Result<()>,
) -> Result<()> {
    let mut field = device.alloc::<f32>(3 * dims.iter().product::<usize>())?;
    let mut found: [Vec<D::Buffer<f32>>; 2] = [Vec::new(), Vec::new()];
    for (what, found) in found.iter_mut().enumerate() {
        device.eval_in_place(&constant(0.0), &mut field, &[], &[], None)?;
        for (held, stiffness) in &points {
            let unit = |h: &f32| if what == 0 { 1.0 } else { h * (smallest * smallest) as f32 };
            let each: Vec<f32> = stiffness.iter().map(unit).collect();
            let values = device.upload_vec(each.repeat(3))?;
            device.add_splat(&values, held.at(), lattice(dims), &mut field)?;
        }
        solve(&mut field)?;
        for (held, _) in &points {
            let mut values = device.alloc::<f32>(held.at().len())?;
            if values.is_empty() {
                found.push(values);
                continue;
            }
            device.gather(&field, lattice(dims), held.at(), None, &mut values)?;
            // Where next to nothing moves, at the border of some operators, nothing is divided by that.
            let most = device.reduce(&[&values], &[Reduction::MaxAbs(0)])?[0];
            let least = (LEAST * most).max(1e-30) as f32;
            device.eval_in_place(&x(0).max(param(0)), &mut values, &[], &[least], None)?;
            found.push(values);
        }
    }
    let [units, stiff] = found;
    for ((held, _), reach) in points.iter_mut().zip(units.into_iter().zip(stiff)) {
        held.reach = Some([reach.0, reach.1]);
    }
    Ok(())
}

/// The least reach of a point, of that of the one that reaches farthest.
const LEAST: f64 = 1e-3;

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_compute::Memory;
    use voxalign_compute::cpu::Cpu;
    use voxalign_compute::ops::Splat;

    const DIMS: Dims = [11, 9, 7];

    fn field() -> Vec<f32> {
        let n: usize = DIMS.iter().product();
        (0..3 * n).map(|i| (i as f32 * 0.61).sin() * 0.3).collect()
    }

    fn points(count: usize) -> Vec<f32> {
        let at = |i: usize| 0.5 + 0.45 * ((i * 3) as f64 * 1.7).sin();
        (0..3 * count).map(|i| (at(i) * (DIMS[i / count] as f64 - 1.0)) as f32).collect()
    }

    /// Forces are the derivative of what covectors say of carried points.
    #[test]
    fn forces_are_derivatives() {
        let device = Cpu::new(Some(2)).unwrap();
        let field = device.upload(&field()).unwrap();
        let map = [[1.5, 0.2, 0.0, -3.0], [-0.1, 1.4, 0.3, 2.0], [0.0, 0.1, 2.0, 5.0]];
        let (count, way) = (12, |i: usize| ((i * 7) as f64 * 0.9).cos());
        let covectors: Vec<f32> = (0..3 * count).map(|i| (i as f32 * 0.37).sin()).collect();
        let value = |t: f64| -> f64 {
            let at: Vec<f32> =
                points(count).iter().enumerate().map(|(i, p)| p + (t * way(i)) as f32).collect();
            let to = carried(&device, &field, DIMS, &device.upload(&at).unwrap(), &map).unwrap();
            let to = device.into_host(to).unwrap();
            to.iter().zip(&covectors).map(|(p, c)| f64::from(*p) * f64::from(*c)).sum()
        };
        let (at, c) = (device.upload(&points(count)).unwrap(), device.upload(&covectors).unwrap());
        let found = forces(&device, &field, DIMS, &at, &map, &c, [1.0; 3]).unwrap();
        let found = device.into_host(found).unwrap();
        let found: f64 = found.iter().enumerate().map(|(i, f)| f64::from(*f) * way(i)).sum();
        let expected = (value(1e-2) - value(-1e-2)) / 2e-2;
        assert!((found - expected).abs() < 3e-3 * expected.abs(), "{found} is not {expected}");
    }

    /// However strong they pull, one step brings points no farther than where the energy is least, nor farther than the largest
    /// step; where they pull little, the force is the gradient.
    #[test]
    fn points_are_held_back() {
        let device = Cpu::new(Some(2)).unwrap();
        let at = device.upload(&[5.0f32, 5.5, 4.0, 4.0, 3.0, 3.0]).unwrap();
        let identity = diagonal([1.0; 3]);
        let smooth = |field: &mut Vec<f32>| {
            let f = device.upload(field).unwrap();
            let mut out = device.alloc::<f32>(field.len()).unwrap();
            use voxalign_compute::ops::Filter;
            use voxalign_compute::ops::filter::GaussianMethod;
            device.gaussian(&f, DIMS, [1.5; 3], GaussianMethod::Narrow, &mut out).unwrap();
            *field = device.into_host(out).unwrap();
        };
        // Two points near each other that are to go by the same vector.
        for (stiff, off, pace, expected) in [
            (1e6f32, 0.2f32, Some(0.3), 0.2),
            (1e6, 30.0, Some(0.3), 0.5),
            (1e-3, 0.2, Some(0.3), 0.0),
            (7.0, 0.2, None, 0.2),
        ] {
            let mut held = Held::new(&device, &at, &identity).unwrap();
            let each = vec![stiff; 2];
            reaches(&device, DIMS, 1.0, vec![(&mut held, &each)], |field| {
                let mut list = device.download(field)?;
                smooth(&mut list);
                *field = device.upload(&list)?;
                Ok(())
            })
            .unwrap();
            let mut forces =
                device.upload(&[stiff * off, stiff * off, 0.0, 0.0, 0.0, 0.0]).unwrap();
            let bounds = Bounds { step: 0.5, pace, share: 1.0, stiffness: 1.0 };
            let weak = stiff * off;
            held.hold_back(&device, &mut forces, bounds).unwrap();
            if expected == 0.0 {
                let left = device.into_host(forces).unwrap()[0];
                assert!((left / weak - 1.0).abs() < 1e-2, "{left} of {weak}");
                continue;
            }
            let mut field = device.alloc::<f32>(3 * DIMS.iter().product::<usize>()).unwrap();
            device.add_splat(&forces, held.at(), lattice(DIMS), &mut field).unwrap();
            let mut list = device.into_host(field).unwrap();
            smooth(&mut list);
            let field = device.upload(&list).unwrap();
            let mut moved = device.alloc::<f32>(6).unwrap();
            device.gather(&field, lattice(DIMS), held.at(), None, &mut moved).unwrap();
            let step = device.into_host(moved).unwrap()[0] as f64 * pace.unwrap_or(1.0);
            assert!((step - expected).abs() < 0.05 * expected, "{stiff}: {step}, not {expected}");
        }
    }
}
