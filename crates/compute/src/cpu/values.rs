//! Values of images on the CPU.

use super::flow::single;
use super::{Cpu, CpuBuffer};
use crate::Dims;
use crate::device::DeviceBuffer;
use crate::error::Result;
use crate::host::zeroed;
use crate::ops::Values;
use crate::ops::values::{
    Number, Strided, bin_of, check_pair_counts, check_slice_counts, check_values, slice_counts,
};

/// The voxels of a task, roughly.
const TASK: usize = 1 << 16;

/// The number at the beginning of some bytes, in their order in memory.
fn number(kind: Number, bytes: &[u8]) -> f32 {
    macro_rules! number {
        ($t:ty) => {
            <$t>::from_ne_bytes(std::array::from_fn(|i| bytes[i]))
        };
    }
    match kind {
        Number::Bool => f32::from(u8::from(bytes[0] != 0)),
        Number::I8 => f32::from(number!(i8)),
        Number::U8 => f32::from(bytes[0]),
        Number::I16 => f32::from(number!(i16)),
        Number::U16 => f32::from(number!(u16)),
        Number::I32 => number!(i32) as f32,
        Number::U32 => number!(u32) as f32,
        Number::I64 => number!(i64) as f32,
        Number::U64 => number!(u64) as f32,
        Number::F16 => single(number!(u16)),
        Number::F32 => number!(f32),
        Number::F64 => number!(f64) as f32,
    }
}

impl Values for Cpu {
    fn values_of(
        &self,
        bytes: &CpuBuffer<u8>,
        at: &Strided,
        dims: Dims,
        out: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        check_values(bytes.len(), at, dims, out.len())?;
        let [nx, ny, _] = dims;
        let (bytes, size, rows) = (bytes.as_slice(), at.number.bytes(), TASK.div_ceil(nx));
        let way = |index: usize, axis: usize| index as isize * at.steps[axis];
        self.chunks_mut(out.as_mut_slice(), rows * nx, |task, out| {
            for (k, out) in out.chunks_exact_mut(nx).enumerate() {
                let row = task * rows + k;
                let before = way(row % ny, 1) + way(row / ny, 2);
                for (x, out) in out.iter_mut().enumerate() {
                    // Within the bytes, which was checked.
                    let place = at.first.wrapping_add_signed(before + way(x, 0));
                    *out = number(at.number, &bytes[size * place..][..size]);
                }
            }
        });
        Ok(())
    }

    fn pair_counts(
        &self,
        first: &CpuBuffer<f32>,
        second: &CpuBuffer<f32>,
        weights: Option<&CpuBuffer<f32>>,
        ranges: [[f64; 2]; 2],
        bins: usize,
    ) -> Result<Vec<u64>> {
        let [first, second] = [first, second].map(CpuBuffer::as_slice);
        let weights = weights.map(CpuBuffer::as_slice);
        check_pair_counts([first.len(), second.len()], weights.map(<[f32]>::len), ranges, bins)?;
        // Tables of tasks are small beside their voxels.
        let size = TASK.max(first.len().div_ceil(4 * self.threads()));
        let parts = self.try_collect(first.len().div_ceil(size), |task| {
            let mut counts = zeroed::<u64>(bins * bins)?;
            for i in task * size..first.len().min((task + 1) * size) {
                let (a, b) = (first[i], second[i]);
                if a.is_finite() && b.is_finite() && weights.is_none_or(|w| w[i] > 0.0) {
                    let [column, row] = [(a, ranges[0]), (b, ranges[1])]
                        .map(|(v, r)| bin_of(f64::from(v), r, bins));
                    counts[row * bins + column] += 1;
                }
            }
            Ok(counts)
        })?;
        let mut counts = zeroed(bins * bins)?;
        for part in parts {
            counts.iter_mut().zip(part).for_each(|(sum, count): (&mut u64, u64)| *sum += count);
        }
        Ok(counts)
    }

    fn slice_counts(
        &self,
        image: &CpuBuffer<f32>,
        dims: Dims,
        above: f32,
    ) -> Result<[Vec<u64>; 3]> {
        check_slice_counts(image.len(), dims)?;
        self.install(|| slice_counts(image.as_slice(), dims, above))
    }
}
