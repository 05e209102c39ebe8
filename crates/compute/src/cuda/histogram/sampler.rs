//! Kernel parameters that describe the moving image and the maps.

use super::group::Tiling;
use crate::cuda::declare::{Cell, In, Kind, Parameter, Plain};
use crate::cuda::{Arg, Cuda, CudaBuffer};
use crate::error::Result;
use crate::ops::histogram::{MovingView, check_moving};
use crate::{AffineMap, Dims};

/// Threads that share a tile: `THREADS` of the kernels.
pub(super) const THREADS: u32 = 512;

plain! {
    /// The moving image without its voxels.
    pub(super) struct TargetShape {
        last: [f32; 3],
        derivative: [f32; 3],
        offset: [f32; 3],
        cell: [i32; 3],
        row: i32,
        slice: i32,
    }
}

impl TargetShape {
    /// Of a view that was checked.
    pub(super) fn new(view: &MovingView<'_, Cuda>) -> Self {
        let [nx, ny, nz] = view.dims;
        let flat = nz == 1;
        let ramps = view.ramps();
        Self {
            last: [(nx - 1) as f32, (ny - 1) as f32, if flat { 0.0 } else { (nz - 1) as f32 }],
            derivative: ramps.map(|r| r.0),
            offset: ramps.map(|r| r.1),
            cell: [nx as i32 - 2, ny as i32 - 2, if flat { 0 } else { nz as i32 - 2 }],
            row: nx as i32,
            slice: if flat { 0 } else { (nx * ny) as i32 },
        }
    }

    /// Whether the image has one slice.
    pub(super) fn is_flat(&self) -> bool {
        self.slice == 0
    }
}

plain! {
    /// The same and whether the image has one slice.
    struct MovingShape {
        of: TargetShape,
        flat: u32,
    }
}

plain! {
    /// Twelve numbers of a map, passed by value.
    struct OneMap {
        m: [f64; 12],
    }
}

/// The first parameters of kernels that sample the moving image: the tiles, the image and the maps.
#[derive(Debug)]
pub(super) struct Sampling {
    tiling: Tiling,
    moving: MovingShape,
    values: In<f32>,
    mask: In<f32>,
    /// Null if there is one map only.
    maps: In<f64>,
    /// The first map.
    one: OneMap,
}

impl Parameter for Sampling {
    const KINDS: &'static [Kind] = &[
        Tiling::KIND,
        MovingShape::KIND,
        Kind::In(f32::NAME),
        Kind::In(f32::NAME),
        Kind::In(f64::NAME),
        OneMap::KIND,
    ];

    fn push(self, args: &mut Vec<Arg>) {
        self.tiling.push(args);
        self.moving.push(args);
        self.values.push(args);
        self.mask.push(args);
        self.maps.push(args);
        self.one.push(args);
    }
}

/// The moving image and the maps, checked and ready for the kernels.
#[derive(Debug)]
pub(super) struct Moving<'a> {
    shape: MovingShape,
    dims: Dims,
    values: &'a CudaBuffer<f32>,
    mask: Option<&'a CudaBuffer<f32>>,
}

impl<'a> Moving<'a> {
    /// # Errors
    /// As [`check_moving`].
    pub(super) fn new(view: &'a MovingView<'_, Cuda>, maps: &[AffineMap]) -> Result<Self> {
        check_moving(view, maps)?;
        let of = TargetShape::new(view);
        let shape = MovingShape { of, flat: u32::from(of.is_flat()) };
        Ok(Self { shape, dims: view.dims, values: view.values, mask: view.mask })
    }

    /// The image as the samples of the tiles see it under the maps.
    pub(super) fn sampling(&self, tiling: Tiling, maps: &Maps) -> Sampling {
        Sampling {
            tiling,
            moving: self.shape,
            values: self.values.into(),
            mask: self.mask.into(),
            maps: maps.many.as_ref().into(),
            one: maps.one,
        }
    }

    /// The most floats that the box of any tile under any of the maps takes in shared memory, as
    /// `box_fits` counts them.
    fn box_of(&self, tiling: &Tiling, map: &AffineMap) -> usize {
        let extent = |r: usize| {
            let (mut span, mut far) = (0.0, map[r][3].abs());
            for c in 0..3 {
                span += map[r][c].abs() * f64::from((1u32 << tiling.axis_bits[c]) - 1);
                far += map[r][c].abs() * f64::from(tiling.size[c]);
            }
            // Rounding, the margin of the kernel, and the far corners of the last cells.
            let size = span + 2.0 * (2e-3 + 2e-6 * (far + span)) + 3.0;
            (size.min(self.dims[r] as f64) as usize).max(1)
        };
        let depth = if self.shape.flat == 0 { extent(2) } else { 1 };
        (extent(0) | 1).saturating_mul(extent(1)).saturating_mul(depth)
    }

    /// The number of floats of shared memory that blocks should have for their boxes, in addition to `other` bytes:
    /// enough for the boxes, if two blocks then still fit on a multiprocessor; else as many as a block can have. 0
    /// if that is too few for most of the maps: blocks whose box does not fit read the image from global memory.
    pub(super) fn room(
        &self,
        cuda: &Cuda,
        tiling: &Tiling,
        maps: &[AffineMap],
        other: usize,
    ) -> usize {
        let all = cuda.shared_memory();
        let floats = |bytes: usize| bytes.saturating_sub(other) / size_of::<f32>();
        // A multiprocessor keeps a kilobyte for itself with every block.
        let (half, full) = (floats((all + 1024) / 2 - 1024), floats(all));
        let mut boxes: Vec<usize> = maps.iter().map(|m| self.box_of(tiling, m)).collect();
        boxes.sort_unstable();
        let at = |part: usize| boxes.get((boxes.len() * part / 8).min(boxes.len().wrapping_sub(1)));
        match (boxes.last(), at(7), at(4)) {
            (Some(&most), _, _) if most <= half => most,
            (_, Some(&nearly_all), _) if nearly_all <= half => half,
            (Some(&most), _, _) if most <= full => most,
            (_, _, Some(&many)) if many <= full => full,
            _ => 0,
        }
    }
}

/// The maps of a launch.
#[derive(Debug)]
pub(super) struct Maps {
    many: Option<CudaBuffer<f64>>,
    one: OneMap,
}

impl Maps {
    /// One map is passed by value, more are uploaded to the device.
    pub(super) fn new(cuda: &Cuda, maps: &[AffineMap]) -> Result<Self> {
        use crate::device::Memory;
        let flat = |map: &AffineMap| -> [f64; 12] { std::array::from_fn(|i| map[i / 4][i % 4]) };
        let one = OneMap { m: maps.first().map_or([0.0; 12], flat) };
        let many = if maps.len() > 1 {
            Some(cuda.upload(maps.iter().flat_map(flat).collect::<Vec<_>>().as_slice())?)
        } else {
            None
        };
        Ok(Self { many, one })
    }
}
