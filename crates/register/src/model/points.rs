//! Points moved by fields, and forces at points, all on the device.
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
//! the velocity makes `α K f` voxels of a force. What [`push_points`](voxalign_compute::ops::Points::push_points) leaves of it, `f / (1 + α Σ K h)`, never goes beyond the place where
//! the energy is least (no eigenvalue of `K h` is above one once each column is divided by its sum, as
//! Gershgorin's theorem has it), and what moves a point by more than a largest step is cut to that. Where the pull is weak, that is the gradient of
//! the total energy; where it is strong, points come as near to the end of that as one step of the images.

use super::pull::Carried;
use crate::error::Result;
use voxalign_compute::ops::elementwise::{constant, param, scalar, x};
use voxalign_compute::ops::points::Carriage;
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

/// The factors that make forces by voxels those by the smallest voxel, times another one; none along axes of one voxel.
pub(super) fn by_smallest(dims: Dims, spacing: [f64; 3], factor: f64) -> [f64; 3] {
    [0, 1, 2].map(|a| if dims[a] > 1 { factor / spacing[a] } else { 0.0 })
}

/// Points of one side of an attachment at a scale.
pub(super) struct Held<D: Device> {
    /// Where they are on the side that they come from, voxels of the grid.
    on_side: D::Buffer<f32>,
    /// Where forces act on them, voxels of the grid; of models that move the side that points come from, else the same.
    at: Option<D::Buffer<f32>>,
    /// The map from voxels to the world that they go to, from the origin of the points there.
    map: AffineMap,
    /// Where they are in that world, mm, and the covectors there.
    there: D::Buffer<f32>,
    pub(super) covectors: D::Buffer<f32>,
    /// The displacement of each point by unit forces at all points, for each component; and the stiffness of the
    /// energy times that.
    pub(super) reach: Option<[D::Buffer<f32>; 2]>,
}

impl<D: Device> Held<D> {
    /// Points of a world by the map to voxels, and that from voxels to where they are carried.
    pub(super) fn new(
        device: &D,
        points: &D::Buffer<f32>,
        to_grid: &AffineMap,
        map: AffineMap,
    ) -> Result<Self> {
        let room = || device.alloc::<f32>(points.len());
        let (mut on_side, there, covectors) = (room()?, room()?, room()?);
        device.map_points(to_grid, points, &mut on_side)?;
        Ok(Self { on_side, at: None, map, there, covectors, reach: None })
    }

    /// All that it has on the device.
    pub(super) fn buffers(&mut self) -> impl Iterator<Item = &mut D::Buffer<f32>> {
        let rest = self.at.iter_mut().chain(self.reach.iter_mut().flatten());
        [&mut self.on_side, &mut self.there, &mut self.covectors].into_iter().chain(rest)
    }

    /// Its state apart from [buffers](Self::buffers): their length, which of the optional ones there are, and the
    /// map.
    pub(super) fn numbers(&self) -> impl Iterator<Item = f64> {
        let there = |is: bool| f64::from(u8::from(is));
        let of_buffers = [there(self.at.is_some()), there(self.reach.is_some())];
        let len = self.on_side.len() as f64;
        std::iter::once(len).chain(of_buffers).chain(self.map.into_iter().flatten())
    }

    /// The state given by [numbers](Self::numbers), with room for its buffers.
    ///
    /// # Errors
    /// Memory that runs out.
    pub(super) fn from_numbers(
        device: &D,
        numbers: &mut impl Iterator<Item = f64>,
    ) -> Result<Self> {
        let mut next = || numbers.next().unwrap_or_default();
        let [len, at, reach] = [next(), next(), next()];
        let map = std::array::from_fn(|_| std::array::from_fn(|_| next()));
        let room = || device.alloc::<f32>(len as usize);
        Ok(Self {
            on_side: room()?,
            at: if at > 0.0 { Some(room()?) } else { None },
            map,
            there: room()?,
            covectors: room()?,
            reach: if reach > 0.0 { Some([room()?, room()?]) } else { None },
        })
    }

    /// Where forces act on the points.
    pub(super) fn at(&self) -> &D::Buffer<f32> {
        self.at.as_ref().unwrap_or(&self.on_side)
    }

    /// Lets forces act where the displacement of the side that the points come from leads to them.
    pub(super) fn follow(
        &mut self,
        device: &D,
        field: &D::Buffer<f32>,
        lattice: Lattice,
    ) -> Result<()> {
        let at = match &mut self.at {
            Some(at) => at,
            none => {
                let mut at = device.alloc::<f32>(self.on_side.len())?;
                device.copy(&self.on_side, &mut at)?;
                none.insert(at)
            }
        };
        Ok(device.origins(field, lattice, &self.on_side, at)?)
    }

    /// Where the points have been [carried](Self::carry), with the room for their covectors.
    pub(super) fn carried(&mut self) -> Carried<'_, D> {
        (&self.there, &mut self.covectors)
    }

    /// The displacement of the points, voxels of the grid.
    pub(super) fn carriage<'a>(&self, field: &'a D::Buffer<f32>, dims: Dims) -> Carriage<'a, D> {
        Carriage { field, lattice: lattice(dims), scale: [1.0; 3], map: self.map }
    }

    /// Brings the points to where a displacement carries them.
    pub(super) fn carry(&mut self, device: &D, field: &D::Buffer<f32>, dims: Dims) -> Result<()> {
        let carriage = self.carriage(field, dims);
        let at = self.at.as_ref().unwrap_or(&self.on_side);
        Ok(device.carry_points(&carriage, at, &mut self.there)?)
    }
}

/// The effect of forces at all points on each of some lists of points: for unit forces, and for forces as large as
/// the stiffness of each; `solve` turns a force into a velocity, both of which there is room for. `smallest` is the
/// length of the smallest voxel, mm.
///
/// # Errors
/// What fails on the device.
pub(super) fn reaches<D: Device>(
    device: &D,
    dims: Dims,
    smallest: f64,
    mut points: Vec<(&mut Held<D>, &[f32])>,
    [force, velocity]: [&mut D::Buffer<f32>; 2],
    mut solve: impl FnMut(&D::Buffer<f32>, &mut D::Buffer<f32>) -> Result<()>,
) -> Result<()> {
    let mut found: [Vec<D::Buffer<f32>>; 2] = [Vec::new(), Vec::new()];
    let mut most = device.alloc::<f64>(1)?;
    for (what, found) in found.iter_mut().enumerate() {
        device.eval_in_place(&constant(0.0), force, &[], &[], None)?;
        for (held, stiffness) in &points {
            let unit = |h: &f32| if what == 0 { 1.0 } else { h * (smallest * smallest) as f32 };
            let each: Vec<f32> = stiffness.iter().map(unit).collect();
            let values = device.upload_vec(each.repeat(3))?;
            device.add_splat(&values, held.at(), lattice(dims), force)?;
        }
        solve(force, velocity)?;
        for (held, _) in &points {
            let mut values = device.alloc::<f32>(held.at().len())?;
            if !values.is_empty() {
                device.gather(velocity, lattice(dims), held.at(), None, &mut values)?;
                // Where next to nothing moves, at the border of some operators, nothing is divided by that.
                device.reduce_into(&[&values], &[Reduction::MaxAbs(0)], &mut most)?;
                let least = x(0).max((scalar(0) * param(0)).max(param(1)));
                let by = [LEAST as f32, 1e-30];
                device.eval_in_place(&least, &mut values, &[], &by, Some(&most))?;
            }
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
    use voxalign_compute::ops::points::Bounds;
    use voxalign_compute::ops::{Points, Splat};

    const DIMS: Dims = [11, 9, 7];

    /// However strong the forces, one step moves points no farther than to the minimum of the energy, nor farther
    /// than the largest step; for weak forces, the force is the gradient.
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
            let mut held = Held::new(&device, &at, &identity, identity).unwrap();
            let each = vec![stiff; 2];
            let voxels = || device.alloc::<f32>(3 * DIMS.iter().product::<usize>()).unwrap();
            let (mut force, mut velocity) = (voxels(), voxels());
            let room = [&mut force, &mut velocity];
            reaches(&device, DIMS, 1.0, vec![(&mut held, &each)], room, |force, velocity| {
                let mut list = device.download(force)?;
                smooth(&mut list);
                *velocity = device.upload(&list)?;
                Ok(())
            })
            .unwrap();
            let weak = stiff * off;
            held.covectors = device.upload(&[weak, weak, 0.0, 0.0, 0.0, 0.0]).unwrap();
            let bounds = Bounds { factors: [1.0; 3], step: 0.5, pace, share: 1.0, stiffness: 1.0 };
            let (still, mut field) = (voxels(), voxels());
            let (carriage, [reach, stiffness]) =
                (held.carriage(&still, DIMS), held.reach.as_ref().unwrap());
            let (at, of) = (held.at(), &held.covectors);
            device
                .push_points(&carriage, at, of, reach, stiffness, &[bounds], &mut [&mut field])
                .unwrap();
            let mut list = device.into_host(field).unwrap();
            if expected == 0.0 {
                let left = list.iter().sum::<f32>() / 2.0;
                assert!((left / weak - 1.0).abs() < 1e-2, "{left} of {weak}");
                continue;
            }
            smooth(&mut list);
            let field = device.upload(&list).unwrap();
            let mut moved = device.alloc::<f32>(6).unwrap();
            device.gather(&field, lattice(DIMS), held.at(), None, &mut moved).unwrap();
            let step = device.into_host(moved).unwrap()[0] as f64 * pace.unwrap_or(1.0);
            assert!((step - expected).abs() < 0.05 * expected, "{stiff}: {step}, not {expected}");
        }
    }
}
