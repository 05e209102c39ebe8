//! Affine maps of points on the GPU, and their bounds.

use super::{Cuda, CudaBuffer, Shape};
use crate::AffineMap;
use crate::device::DeviceBuffer;
use crate::error::Result;
use crate::ops::Points;
use crate::ops::points::{NOWHERE, check_bounds, check_points, of_covectors};

kernels! { POINTS = "points/points.cu";
    fn map_points[256](map: Map, points: &[f32], n: u64, out: &mut [f32]);
    fn point_bounds[256](points: &[f32], n: u64, parts: &mut [f64]);
    fn bounds_of_parts[256](parts: &[f64], count: u32, out: &mut [f64]);
}

plain! {
    /// The rows of a matrix with what is added.
    pub(crate) struct Map as "PointMap" {
        m: AffineMap,
    }
}

/// The most blocks that look for bounds.
const MOST_BLOCKS: usize = 1024;

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
