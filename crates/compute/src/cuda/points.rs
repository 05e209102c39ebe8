//! Affine maps of points on the GPU.

use super::{Cuda, CudaBuffer, Shape};
use crate::AffineMap;
use crate::device::DeviceBuffer;
use crate::error::Result;
use crate::ops::Points;
use crate::ops::points::{check_points, of_covectors};

kernels! { POINTS = "points/points.cu";
    fn map_points[256](map: Map, points: &[f32], n: u64, out: &mut [f32]);
}

plain! {
    /// The rows of a matrix with what is added.
    pub(crate) struct Map as "PointMap" {
        m: AffineMap,
    }
}

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
}
