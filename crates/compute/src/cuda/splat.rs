//! Interpolation at points and its adjoint on the GPU.

use super::declare::{In, Out};
use super::{Cuda, CudaBuffer, Shape};
use crate::Dims;
use crate::device::{DeviceBuffer, Memory};
use crate::error::Result;
use crate::ops::flow::SINGULAR;
use crate::ops::reduce::Reduction;
use crate::ops::sort::KeyRange;
use crate::ops::splat::{
    Beyond, Extent, Lattice, ORIGIN_NEAR, ORIGIN_STEPS, SplatScheme, Spline, bits_for, check,
    check_derivatives, check_origins,
};
use crate::ops::{Reduce, Sort, Splat};
use std::sync::LazyLock;

kernels! { SPLAT = "splat/splat.cu";
    fn gather_values[256](image: &[f32], space: Space, positions: &[f32], out: &mut [f32]);
    fn gather_gradients[256](
        image: &[f32], space: Space, positions: &[f32], moments: &[f32], out: &mut [f32], derivatives: &mut [f32],
    );
    fn origins[256](
        field: &[f32], space: Space, positions: &[f32], steps: u32, near: f64, singular: f64, out: &mut [f32],
    );
    fn splat_atomic[256](
        values: &[f32], space: Space, positions: &[f32], range: &[f64], bits: i32, sums: &mut [i64],
    );
    fn splat_shared[256](
        values: &[f32], space: Space, positions: &[f32], range: &[f64], bits: i32, sums: &mut [i64],
    );
    fn splat_values[256](sums: &[i64], range: &[f64], bits: i32, n: u64, out: &mut [f32]);
    fn splat_add[256](
        values: &[f32], space: Space, positions: &[f32], range: &[f64], bits: i32, slots: u32,
        keys: &mut [u32], sums: &mut [i64],
    );
    fn splat_added[256](
        space: Space, range: &[f64], bits: i32, slots: u32, keys: &[u32], sums: &[i64], out: &mut [f32],
    );
    fn splat_few[256](
        values: &[f32], space: Space, positions: &[f32], bits: i32, slots: u32, out: &mut [f32],
    );
    fn splat_keys[256](space: Space, positions: &[f32], keys: &mut [u32]);
    fn splat_scan[256](
        values: &[f32], space: Space, positions: &[f32], range: &[f64], bits: i32, order: &[u32],
        n: u64, running: &mut [i64], totals: &mut [i64],
    );
    fn splat_scan_totals[1024](n: u64, totals: &mut [i64]);
    fn splat_segments[256](
        keys: &[u32], n: u64, voxels: u64, running: &[i64], totals: &[i64], begins: u32,
        sums: &mut [i64],
    );
}

/// The kernels with linear and with cubic weights.
static PROGRAMS: LazyLock<[SPLAT; 2]> =
    LazyLock::new(|| [2i64, 4].map(|nodes| SPLAT.with(&[("NODES", nodes)])));

fn program_of(spline: Spline) -> &'static SPLAT {
    &PROGRAMS[usize::from(spline == Spline::Cubic)]
}

plain! {
    /// The grid and the points.
    pub(crate) struct Space as "SplatSpace" {
        count: u64,
        dims: [u32; 3],
        beyond: u32,
        of: [u32; 3],
        tiles: [u32; 2],
        components: u32,
    }
}

/// The points of a block with shared memory, and the tile of a displaced grid that they make.
const BLOCK: usize = 512;
const TILE: Dims = [16, 8, 4];
/// The contributions that a block scans.
const SCANNED: usize = 256 * 8;

/// The most contributions of points to voxels that one block adds.
const FEW: usize = 1024;

/// The slots of the table that a block adds few points in; none of more points.
pub(super) fn slots_of_few(points: usize, spline: Spline) -> Option<u32> {
    let contributions = points * spline.nodes().pow(3);
    (contributions <= FEW).then(|| (2 * contributions).next_power_of_two().max(256) as u32)
}

impl Space {
    pub(super) fn new(extent: Extent, lattice: Lattice, of: Option<Dims>) -> Self {
        let of = of.unwrap_or_default();
        let numbers = |sizes: Dims| sizes.map(|n| n as u32);
        let tiles = [0, 1].map(|a| of[a].div_ceil(TILE[a]) as u32);
        let Lattice { dims, beyond, .. } = lattice;
        let beyond = match beyond {
            Beyond::Nothing => 0,
            Beyond::Nearest => 1,
            Beyond::Wrapped => 2,
        };
        let (count, components) = (extent.points as u64, extent.components as u32);
        Self { count, dims: numbers(dims), beyond, of: numbers(of), tiles, components }
    }

    /// The blocks that go through all points in tiles.
    fn blocks(&self) -> usize {
        match self.of {
            [0, ..] => (self.count as usize).div_ceil(BLOCK),
            of => (0..3).map(|a| (of[a] as usize).div_ceil(TILE[a])).product(),
        }
    }
}

impl Cuda {
    /// Sums without atomic operations, of one component.
    #[allow(clippy::too_many_arguments)]
    fn sorted(
        &self,
        program: &SPLAT,
        values: In<f32>,
        space: Space,
        positions: &CudaBuffer<f32>,
        (keys, order): (&CudaBuffer<u32>, &CudaBuffer<u32>),
        range: &CudaBuffer<f64>,
        bits: i32,
        voxels: usize,
        sums: impl Fn() -> Out<i64>,
    ) -> Result<()> {
        let n = keys.len();
        let blocks = n.div_ceil(SCANNED);
        let mut running = self.alloc_unset::<i64>(n)?;
        let mut totals = self.alloc_unset::<i64>(blocks)?;
        let (shape, all) = (Shape::blocks(blocks, 256), n as u64);
        // SAFETY: there is a running sum for every contribution and a total for every block; numbers in `order` are those
        // of contributions, eight a point, and voxels in `keys` are compared with their number.
        unsafe {
            program.splat_scan(
                self,
                shape,
                values,
                space,
                positions,
                range,
                bits,
                order,
                all,
                &mut running,
                &mut totals,
            )?;
            program.splat_scan_totals(self, Shape::blocks(1, 1024), blocks as u64, &mut totals)?;
            for begins in [0u32, 1] {
                let shape = Shape::covering(n, 256);
                let (running, totals, sums) = (&running, &totals, sums());
                program.splat_segments(
                    self,
                    shape,
                    keys,
                    all,
                    voxels as u64,
                    running,
                    totals,
                    begins,
                    sums,
                )?;
            }
        }
        Ok(())
    }
}

impl Splat for Cuda {
    fn splat(
        &self,
        values: &CudaBuffer<f32>,
        positions: &CudaBuffer<f32>,
        of: Option<Dims>,
        lattice: Lattice,
        scheme: SplatScheme,
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let extent = check(lattice, positions.len(), of, out.len(), values.len())?;
        let space = Space::new(extent, lattice, of);
        let (points, bits) = (extent.points, bits_for(extent.points));
        let (program, each) = (program_of(lattice.spline), lattice.spline.nodes().pow(3));
        let mut range = self.alloc::<f64>(2)?;
        let what = [Reduction::MaxAbs(0), Reduction::CountNonFinite(0)];
        self.reduce_into(&[values], &what, &mut range)?;
        let n = out.len();
        let mut sums = self.alloc::<i64>(n)?;
        if points > 0 {
            // SAFETY: there are values and a position for every point; cells are within the grid, of which `sums`
            // has all voxels in every component.
            unsafe {
                match scheme {
                    SplatScheme::Atomic => {
                        let shape = Shape::covering(points, 256);
                        program.splat_atomic(
                            self, shape, values, space, positions, &range, bits, &mut sums,
                        )?;
                    }
                    SplatScheme::Shared => {
                        let shape = Shape::blocks(space.blocks(), 256);
                        program.splat_shared(
                            self, shape, values, space, positions, &range, bits, &mut sums,
                        )?;
                    }
                    SplatScheme::Sorted => {
                        let mut keys = self.alloc_unset::<u32>(each * points)?;
                        let shape = Shape::covering(points, 256);
                        program.splat_keys(self, shape, space, positions, &mut keys)?;
                        let mut sorted = self.alloc_unset::<u32>(each * points)?;
                        let mut order = self.alloc_unset::<u32>(each * points)?;
                        self.sort_pairs(KeyRange::Full, &keys, None, &mut sorted, &mut order)?;
                        drop(keys);
                        for c in 0..extent.components {
                            let values = In::from_element(values, c * points);
                            let first = c * extent.voxels;
                            let sums = Out::from_element(&mut sums, first);
                            let lists = (&sorted, &order);
                            let voxels = extent.voxels;
                            self.sorted(
                                program,
                                values,
                                space,
                                positions,
                                lists,
                                &range,
                                bits,
                                voxels,
                                || sums.clone(),
                            )?;
                        }
                    }
                }
            }
        }
        // SAFETY: both have `n` numbers.
        unsafe {
            program.splat_values(self, Shape::covering(n, 256), &sums, &range, bits, n as u64, out)
        }
    }

    fn add_splat(
        &self,
        values: &CudaBuffer<f32>,
        positions: &CudaBuffer<f32>,
        lattice: Lattice,
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let extent = check(lattice, positions.len(), None, out.len(), values.len())?;
        let (points, bits) = (extent.points, bits_for(extent.points));
        if points == 0 {
            return Ok(());
        }
        let space = Space::new(extent, lattice, None);
        let (program, each) = (program_of(lattice.spline), lattice.spline.nodes().pow(3));
        if let Some(slots) = slots_of_few(points, lattice.spline) {
            let shape = Shape::blocks(1, 256);
            // SAFETY: as below; the table has more slots than the points reach voxels.
            return unsafe {
                program.splat_few(self, shape, values, space, positions, bits, slots, out)
            };
        }
        let mut range = self.alloc::<f64>(2)?;
        let what = [Reduction::MaxAbs(0), Reduction::CountNonFinite(0)];
        self.reduce_into(&[values], &what, &mut range)?;
        // A table with a slot for every voxel that is reached, at most half full.
        let slots = (2 * each * points.min(extent.voxels)).next_power_of_two();
        let mut keys = self.alloc::<u32>(slots)?;
        let mut sums = self.alloc::<i64>(extent.components * slots)?;
        // SAFETY: there are values and a position for every point; a key is one more than a voxel of the grid, of which
        // `out` has every component; slots are found below their number, a power of two that no points fill.
        unsafe {
            program.splat_add(
                self,
                Shape::covering(points, 256),
                values,
                space,
                positions,
                &range,
                bits,
                slots as u32,
                &mut keys,
                &mut sums,
            )?;
            let shape = Shape::covering(slots, 256);
            program.splat_added(self, shape, space, &range, bits, slots as u32, &keys, &sums, out)
        }
    }

    fn origins(
        &self,
        field: &CudaBuffer<f32>,
        lattice: Lattice,
        positions: &CudaBuffer<f32>,
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let points = check_origins(lattice, field.len(), positions.len(), out.len())?;
        if points == 0 {
            return Ok(());
        }
        let extent = Extent { points, voxels: field.len() / 3, components: 3 };
        let (space, shape) = (Space::new(extent, lattice, None), Shape::covering(points, 256));
        let (steps, near) = (ORIGIN_STEPS as u32, ORIGIN_NEAR * ORIGIN_NEAR);
        let program = program_of(lattice.spline);
        // SAFETY: cells are within the grid, and there are a position and a start for every point.
        unsafe {
            program.origins(
                self,
                shape,
                field,
                space,
                positions,
                steps,
                near,
                f64::from(SINGULAR),
                out,
            )
        }
    }

    fn gather(
        &self,
        image: &CudaBuffer<f32>,
        lattice: Lattice,
        positions: &CudaBuffer<f32>,
        of: Option<Dims>,
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let extent = check(lattice, positions.len(), of, image.len(), out.len())?;
        if extent.points == 0 {
            return Ok(());
        }
        let space = Space::new(extent, lattice, of);
        let shape = Shape::covering(extent.points, 256);
        // SAFETY: cells are within the grid, and there is a position and room for the values of every point.
        unsafe {
            program_of(lattice.spline).gather_values(self, shape, image, space, positions, out)
        }
    }

    fn gather_with_gradients(
        &self,
        image: &CudaBuffer<f32>,
        lattice: Lattice,
        positions: &CudaBuffer<f32>,
        of: Option<Dims>,
        moments: &CudaBuffer<f32>,
        out: &mut CudaBuffer<f32>,
        derivatives: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let extent = check(lattice, positions.len(), of, image.len(), out.len())?;
        check_derivatives(&extent, moments.len(), derivatives.len())?;
        if extent.points == 0 {
            return Ok(());
        }
        let space = Space::new(extent, lattice, of);
        let shape = Shape::covering(extent.points, 256);
        // SAFETY: as above; there are a moment for every value and three derivatives for every point.
        unsafe {
            program_of(lattice.spline).gather_gradients(
                self,
                shape,
                image,
                space,
                positions,
                moments,
                out,
                derivatives,
            )
        }
    }
}
