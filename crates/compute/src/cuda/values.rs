//! Values of images on the GPU.

use super::declare::In;
use super::{Cuda, CudaBuffer, Shape};
use crate::Dims;
use crate::device::{DeviceBuffer, Memory};
use crate::error::Result;
use crate::ops::Values;
use crate::ops::values::{Number, Strided, check_pair_counts, check_slice_counts, check_values};

kernels! { VALUES = "values/values.cu";
    fn values_of[256](
        bytes: &[u8], of_two: &[u16], of_four: &[u32], of_eight: &[u64], at: Places, number: u32, n: u64,
        out: &mut [f32],
    );
    fn count_pairs[256](
        first: &[f32], second: &[f32], weights: &[f32], n: u64, ranges: Ranges, bins: u32, here: u32,
        counts: &mut [u64],
    );
    fn count_slices[256](
        image: &[f32], nx: u32, ny: u32, rows: u64, above: f32, here: u32, counts: &mut [u64],
    );
}

plain! {
    /// Places of voxels.
    pub(crate) struct Places {
        first: i64,
        steps: [i64; 3],
        dims: [u64; 2],
    }
}

plain! {
    /// The ends of the ranges of both images.
    pub(crate) struct Ranges {
        of: [[f64; 2]; 2],
    }
}

const THREADS: u32 = 256;

/// Counters that fit in shared memory with several blocks on a multiprocessor.
const MOST_HERE: usize = 8192;

/// Counters of a block in shared memory.
fn here(counters: usize) -> usize {
    if counters <= MOST_HERE { counters } else { 0 }
}

impl Values for Cuda {
    fn values_of(
        &self,
        bytes: &CudaBuffer<u8>,
        at: &Strided,
        dims: Dims,
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let n = check_values(bytes.len(), at, dims, out.len())?;
        let number = Number::ALL.iter().position(|n| *n == at.number).unwrap_or_default() as u32;
        let places = Places {
            first: at.first as i64,
            steps: at.steps.map(|step| step as i64),
            dims: [dims[0] as u64, dims[1] as u64],
        };
        let shape = Shape::covering(n, THREADS);
        // SAFETY: the places of all voxels are within the bytes, and `n` numbers are written.
        unsafe {
            VALUES.values_of(
                self,
                shape,
                bytes,
                In::cast(bytes),
                In::cast(bytes),
                In::cast(bytes),
                places,
                number,
                n as u64,
                out,
            )
        }
    }

    fn pair_counts(
        &self,
        first: &CudaBuffer<f32>,
        second: &CudaBuffer<f32>,
        weights: Option<&CudaBuffer<f32>>,
        ranges: [[f64; 2]; 2],
        bins: usize,
    ) -> Result<Vec<u64>> {
        let n = first.len();
        check_pair_counts([n, second.len()], weights.map(DeviceBuffer::len), ranges, bins)?;
        let (mut counts, here) = (self.alloc::<u64>(bins * bins)?, here(bins * bins));
        // Counts of a block have 32 bits.
        let most = (4 * self.multiprocessors()).max(n >> 31);
        let blocks = n.div_ceil(32 * THREADS as usize).clamp(1, most);
        let shape = Shape::blocks(blocks, THREADS).with_shared(here * size_of::<u32>());
        // SAFETY: all images have `n` values; there are as many counts as pairs of bins, below which these are kept.
        unsafe {
            VALUES.count_pairs(
                self,
                shape,
                first,
                second,
                weights,
                n as u64,
                Ranges { of: ranges },
                bins as u32,
                here as u32,
                &mut counts,
            )?;
        }
        self.into_host(counts)
    }

    fn slice_counts(
        &self,
        image: &CudaBuffer<f32>,
        dims: Dims,
        above: f32,
    ) -> Result<[Vec<u64>; 3]> {
        check_slice_counts(image.len(), dims)?;
        let [nx, ny, nz] = dims;
        let (mut counts, here, rows) = (self.alloc::<u64>(nx + ny + nz)?, here(nx), ny * nz);
        // A warp has a row; counts of a block have 32 bits.
        let warps = THREADS as usize / 32;
        let most = (8 * self.multiprocessors()).max(rows >> 24);
        let blocks = rows.div_ceil(4 * warps).clamp(1, most);
        let shape = Shape::blocks(blocks, THREADS).with_shared(here * size_of::<u32>());
        // SAFETY: the image has `rows` rows of `nx` values; there is a count for each slice.
        unsafe {
            VALUES.count_slices(
                self,
                shape,
                image,
                nx as u32,
                ny as u32,
                rows as u64,
                above,
                here as u32,
                &mut counts,
            )?;
        }
        let mut x = self.into_host(counts)?;
        let mut y = x.split_off(nx);
        let z = y.split_off(ny);
        Ok([x, y, z])
    }
}
