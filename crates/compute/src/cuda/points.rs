//! Affine maps of points, their displacement by fields, and their bounds on the GPU.

use std::sync::LazyLock;

use super::splat::{Space, slots_of_few};
use super::{Cuda, CudaBuffer, Shape};
use crate::AffineMap;
use crate::device::DeviceBuffer;
use crate::error::Result;
use crate::ops::points::{
    Bounds, Carriage, MOST_FIELDS, NOWHERE, check_bounds, check_carriage, check_pairs,
    check_points, check_push, of_covectors,
};
use crate::ops::splat::{Spline, bits_for};
use crate::ops::{Points, Splat};

kernels! { POINTS = "points/points.cu";
    fn map_points[256](map: Map, points: &[f32], n: u64, out: &mut [f32]);
    fn pull_pairs[256](
        points: &[f32], to: &[f32], stiffness: &[f32], n: u64, covectors: &mut [f32], add: u32,
        energies: &mut [f64],
    );
    fn energy_of_parts[256](parts: &[f64], count: u32, add: u32, energy: &mut [f64]);
    fn point_bounds[256](points: &[f32], n: u64, parts: &mut [f64]);
    fn bounds_of_parts[256](parts: &[f64], count: u32, out: &mut [f64]);
}

kernels! { CARRY = "points/carry.cu";
    fn carry_points[256](field: &[f32], space: Space, by: By, points: &[f32], out: &mut [f32]);
    fn pull_back[256](
        field: &[f32], space: Space, by: By, points: &[f32], covectors: &[f32], out: &mut [f32],
    );
    fn held_forces[256](
        field: &[f32], space: Space, by: By, points: &[f32], covectors: &[f32], reach: &[f32],
        stiffness: &[f32], bounds: PushBounds, first: &mut [f32], second: &mut [f32],
    );
    fn push_few[256](
        field: &[f32], space: Space, by: By, points: &[f32], covectors: &[f32], reach: &[f32],
        stiffness: &[f32], bounds: PushBounds, bits: i32, slots: u32, first: &mut [f32],
        second: &mut [f32],
    );
}

/// The kernels with linear and with cubic weights.
static CARRIERS: LazyLock<[CARRY; 2]> =
    LazyLock::new(|| [2i64, 4].map(|nodes| CARRY.with(&[("NODES", nodes)])));

fn carrier(spline: Spline) -> &'static CARRY {
    &CARRIERS[usize::from(spline == Spline::Cubic)]
}

plain! {
    /// The factors of a displacement, and the map after it.
    pub(crate) struct By as "Carriage" {
        scale: [f64; 3],
        map: AffineMap,
    }
}

plain! {
    /// Bounds of forces for each field.
    pub(crate) struct PushBounds {
        of: [[f64; 8]; MOST_FIELDS],
    }
}

impl PushBounds {
    fn new(bounds: &[Bounds]) -> Self {
        let mut of = [[0.0; 8]; MOST_FIELDS];
        for (of, bounds) in of.iter_mut().zip(bounds) {
            let (factors, numbers) = of.split_at_mut(3);
            factors.copy_from_slice(&bounds.factors);
            numbers.copy_from_slice(&bounds.numbers());
        }
        Self { of }
    }
}

plain! {
    /// The rows of a matrix with what is added.
    pub(crate) struct Map as "PointMap" {
        m: AffineMap,
    }
}

/// The most blocks that look for bounds, or add up energies.
const MOST_BLOCKS: usize = 1024;

/// The numbers of pairs that a block takes at least.
const PAIRED: usize = 4 * 256;

impl Cuda {
    fn mapped(
        &self,
        map: AffineMap,
        points: &CudaBuffer<f32>,
        count: usize,
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        if count == 0 {
            return Ok(());
        }
        let shape = Shape::covering(count, 256);
        // SAFETY: both buffers have three numbers for each of `count` points.
        unsafe { POINTS.map_points(self, shape, Map { m: map }, points, count as u64, out) }
    }
}

impl Points for Cuda {
    fn map_points(
        &self,
        map: &AffineMap,
        points: &CudaBuffer<f32>,
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let count = check_points(map, points.len(), out.len())?;
        self.mapped(*map, points, count, out)
    }

    fn map_covectors(
        &self,
        map: &AffineMap,
        covectors: &CudaBuffer<f32>,
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let count = check_points(map, covectors.len(), out.len())?;
        self.mapped(of_covectors(map), covectors, count, out)
    }

    fn carry_points(
        &self,
        carriage: &Carriage<'_, Self>,
        points: &CudaBuffer<f32>,
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let extent = check_carriage(carriage, points.len(), out.len())?;
        if extent.points == 0 {
            return Ok(());
        }
        let Carriage { field, lattice, scale, map } = *carriage;
        let (space, by) = (Space::new(extent, lattice, None), By { scale, map });
        let (shape, program) = (Shape::covering(extent.points, 256), carrier(lattice.spline));
        // SAFETY: cells are within the grid, of which the displacement has three components; there are three numbers for every
        // point.
        unsafe { program.carry_points(self, shape, field, space, by, points, out) }
    }

    fn pull_back(
        &self,
        carriage: &Carriage<'_, Self>,
        points: &CudaBuffer<f32>,
        covectors: &CudaBuffer<f32>,
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let extent = check_carriage(carriage, points.len(), out.len())?;
        check_points(&carriage.map, points.len(), covectors.len())?;
        if extent.points == 0 {
            return Ok(());
        }
        let Carriage { field, lattice, scale, map } = *carriage;
        let (space, by) = (Space::new(extent, lattice, None), By { scale, map });
        let (shape, program) = (Shape::covering(extent.points, 256), carrier(lattice.spline));
        // SAFETY: as above.
        unsafe { program.pull_back(self, shape, field, space, by, points, covectors, out) }
    }

    fn push_points(
        &self,
        carriage: &Carriage<'_, Self>,
        points: &CudaBuffer<f32>,
        covectors: &CudaBuffer<f32>,
        reach: &CudaBuffer<f32>,
        stiffness: &CudaBuffer<f32>,
        bounds: &[Bounds],
        out: &mut [&mut CudaBuffer<f32>],
    ) -> Result<()> {
        let each = [covectors, reach, stiffness].map(|list| list.len());
        let fields: Vec<usize> = out.iter().map(|o| o.len()).collect();
        let extent = check_push(carriage, points.len(), each, bounds.len(), &fields)?;
        let (count, blocks) = (extent.points, out.len());
        if count == 0 {
            return Ok(());
        }
        let Carriage { field, lattice, scale, map } = *carriage;
        let (space, by) = (Space::new(extent, lattice, None), By { scale, map });
        let (program, bounds) = (carrier(lattice.spline), PushBounds::new(bounds));
        if let Some(slots) = slots_of_few(count, lattice.spline) {
            let mut fields = out.iter_mut();
            let (first, second) = (fields.next(), fields.next());
            let (first, second) = (first.map(|f| &mut **f), second.map(|f| &mut **f));
            // SAFETY: as above; there is a block for each field, and the table has more slots than the points reach voxels.
            return unsafe {
                program.push_few(
                    self,
                    Shape::blocks(blocks, 256),
                    field,
                    space,
                    by,
                    points,
                    covectors,
                    reach,
                    stiffness,
                    bounds,
                    bits_for(count),
                    slots,
                    first,
                    second,
                )
            };
        }
        let mut first = self.alloc_unset::<f32>(3 * count)?;
        let mut second = match blocks {
            1 => None,
            _ => Some(self.alloc_unset::<f32>(3 * count)?),
        };
        // SAFETY: as above; there is room for the forces of each field.
        unsafe {
            program.held_forces(
                self,
                Shape::covering(count, 256),
                field,
                space,
                by,
                points,
                covectors,
                reach,
                stiffness,
                bounds,
                &mut first,
                second.as_mut(),
            )?;
        }
        for (forces, out) in std::iter::once(&first).chain(&second).zip(out) {
            self.add_splat(forces, points, lattice, out)?;
        }
        Ok(())
    }

    fn pull_pairs(
        &self,
        points: &CudaBuffer<f32>,
        to: &CudaBuffer<f32>,
        stiffness: &CudaBuffer<f32>,
        covectors: &mut CudaBuffer<f32>,
        add: bool,
        energy: &mut CudaBuffer<f64>,
    ) -> Result<()> {
        let (k, all) = (stiffness.len(), energy.len());
        check_pairs(points.len(), to.len(), k, covectors.len(), all)?;
        let (n, add) = (points.len(), u32::from(add));
        let blocks = n.div_ceil(PAIRED).clamp(1, MOST_BLOCKS);
        let shape = Shape::blocks(blocks, 256);
        // SAFETY: all lists have `n` numbers, and every block has room for its energy.
        unsafe {
            if blocks == 1 {
                return POINTS.pull_pairs(
                    self, shape, points, to, stiffness, n as u64, covectors, add, energy,
                );
            }
            let mut parts = self.alloc_unset::<f64>(blocks)?;
            POINTS.pull_pairs(
                self, shape, points, to, stiffness, n as u64, covectors, 0u32, &mut parts,
            )?;
            POINTS.energy_of_parts(self, Shape::blocks(1, 256), &parts, blocks as u32, add, energy)
        }
    }

    fn point_bounds(&self, points: &CudaBuffer<f32>, out: &mut CudaBuffer<f64>) -> Result<()> {
        let count = check_bounds(points.len(), out.len())?;
        let blocks = count.div_ceil(4 * 256).clamp(1, MOST_BLOCKS);
        let mut parts = self.alloc_unset::<f64>(NOWHERE.len() * blocks)?;
        let (shape, n) = (Shape::blocks(blocks, 256), count as u64);
        // SAFETY: points below `n` are read, and every block has room for its seven numbers.
        unsafe {
            POINTS.point_bounds(self, shape, points, n, &mut parts)?;
            POINTS.bounds_of_parts(self, Shape::blocks(1, 256), &parts, blocks as u32, out)
        }
    }
}
