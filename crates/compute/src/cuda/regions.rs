//! Updates of labels on the GPU.

use super::declare::{In, Out};
use super::{Cuda, CudaBuffer, Shape};
use crate::device::DeviceBuffer;
use crate::error::Result;
use crate::ops::Regions;
use crate::ops::front::{Layout, Units};
use crate::ops::regions::{Around, Scores, check_scan, check_shares, check_sums};

plain! {
    /// Sizes along the axes, and along how many axes neighbours may differ.
    struct RegionShape {
        dims: [u32; 3],
        axes: u32,
    }
}

plain! {
    /// What values are summed in.
    struct RegionUnits {
        offset: f64,
        scale: f64,
    }
}

plain! {
    /// How well labels fit points.
    struct RegionScores {
        has_means: u32,
        has_shares: u32,
        count: u32,
        padding: u32,
        weight: f64,
    }
}

kernels! { REGIONS = "regions/regions.cu";
    fn label_sums[256](image: &[f32], labels: &[u8], points: u64, count: u32, units: RegionUnits, sums: &mut [u64]);
    fn label_share_x[256](
        labels: &[u8], shape: RegionShape, points: u64, label: u32, weights: &[f32], radius: u32, to: u64, out: &mut [f32],
    );
    fn label_share_along[256](
        values: &[f32], from: u64, n: u32, stride: u64, points: u64, weights: &[f32], first: u32, radius: u32, to: u64,
        out: &mut [f32],
    );
    fn label_scan[256](
        shape: RegionShape, points: u64, label: u32, scores: RegionScores, image: &[f32], means: &[f64], given: &[f32],
        shares: &[f32], labels: &[u8], next: &mut [u8], changed: &mut [u64],
    );
}

/// Blocks of sums for each multiprocessor.
const BLOCKS: usize = 8;

impl RegionShape {
    fn new(layout: &Layout) -> Self {
        Self { dims: layout.dims().map(|n| n as u32), axes: layout.axes() as u32 }
    }
}

impl Regions for Cuda {
    fn label_sums(
        &self,
        image: &CudaBuffer<f32>,
        labels: &CudaBuffer<u8>,
        units: Units,
        sums: &mut CudaBuffer<i64>,
    ) -> Result<()> {
        let count = check_sums(&units, [image.len(), labels.len(), sums.len()])?;
        self.zero(sums)?;
        let blocks = image.len().div_ceil(256).min(BLOCKS * self.multiprocessors());
        let (shape, points) = (Shape::blocks(blocks, 256), image.len() as u64);
        let units = RegionUnits { offset: units.offset, scale: units.scale };
        let sums = Out::<u64>::cast(sums);
        // SAFETY: a value and a label of each point are read, and two sums of each label written.
        unsafe {
            REGIONS.label_sums(
                self,
                shape,
                In::from(image),
                In::from(labels),
                points,
                count as u32,
                units,
                sums,
            )
        }
    }

    fn label_shares(
        &self,
        layout: &Layout,
        around: &Around<'_, Self>,
        label: u8,
        labels: &CudaBuffer<u8>,
        scratch: &mut CudaBuffer<f32>,
        shares: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let radius = around.radius;
        let lengths = [around.values.len(), labels.len(), scratch.len(), shares.len()];
        check_shares(layout, radius, label, lengths)?;
        let (points, [nx, ny, nz]) = (layout.points() as u64, layout.dims().map(|n| n as u64));
        let shape = Shape::blocks(layout.points().div_ceil(256), 256);
        let at = u64::from(label) * points;
        let [rx, ry, rz] = radius.map(|r| r as u32);
        let (of_y, of_z) = (2 * rx + 1, 2 * rx + 1 + 2 * ry + 1);
        let (weights, label) = (around.values, u32::from(label));
        // SAFETY: labels, weights and shares of all points are read, and written at the places of one label.
        unsafe {
            REGIONS.label_share_x(
                self,
                shape,
                In::from(labels),
                RegionShape::new(layout),
                points,
                label,
                In::from(weights),
                rx,
                at,
                Out::from(&mut *shares),
            )?;
            REGIONS.label_share_along(
                self,
                shape,
                In::from(&*shares),
                at,
                ny as u32,
                nx,
                points,
                In::from(weights),
                of_y,
                ry,
                0u64,
                Out::from(&mut *scratch),
            )?;
            REGIONS.label_share_along(
                self,
                shape,
                In::from(&*scratch),
                0u64,
                nz as u32,
                nx * ny,
                points,
                In::from(weights),
                of_z,
                rz,
                at,
                Out::from(shares),
            )
        }
    }

    fn label_scan(
        &self,
        layout: &Layout,
        scores: &Scores<'_, Self>,
        label: u8,
        labels: &CudaBuffer<u8>,
        next: &mut CudaBuffer<u8>,
        changed: &mut CudaBuffer<i64>,
    ) -> Result<()> {
        let lengths = [labels.len(), next.len(), changed.len()];
        let count = check_scan(layout, scores, label, lengths)?;
        let of = RegionScores {
            has_means: u32::from(scores.means.is_some()),
            has_shares: u32::from(scores.shares.is_some()),
            count: count as u32,
            padding: 0,
            weight: scores.weight,
        };
        let shape = Shape::blocks(layout.points().div_ceil(256), 256);
        // SAFETY: a label of each point and its neighbours is read, with the numbers of the scores, and one is written.
        unsafe {
            REGIONS.label_scan(
                self,
                shape,
                RegionShape::new(layout),
                layout.points() as u64,
                u32::from(label),
                of,
                In::from(scores.image),
                In::from(scores.means),
                In::from(scores.given),
                In::from(scores.shares),
                In::from(labels),
                Out::from(next),
                Out::<u64>::cast(changed),
            )
        }
    }
}
