//! Gaussian and box filters on the GPU.
//!
//! Small windows of vector fields take one pass over memory; else each axis is a pass. The recursive Gaussian may work in place; filters
//! with a window read from one buffer and write to another.

use super::declare::{In, Out};
use super::smooth::Smooth;
use super::{Cuda, CudaBuffer, Shape};
use crate::Dims;
use crate::device::{DeviceBuffer, Memory};
use crate::error::Result;
use crate::ops::Filter;
use crate::ops::filter::{
    GaussianMethod, SIGMA_NONE, Section, check_gaussian, check_images, window,
};

kernels! { RECURSIVE = "filter/recursive.cu";
    fn recursive_columns[512](src: &[f32], out: &mut [f32], starts: &[f64], g: RecursiveLines, r: Sections,
        power: Powers);
    fn recursive_rows[512](src: &[f32], out: &mut [f32], starts: &[f64], g: RecursiveLines, r: Sections,
        power: Powers);
    fn ends_of_columns[512](src: &[f32], ends: &mut [f64], g: RecursiveLines, r: Sections, power: Powers);
    fn ends_of_rows[512](src: &[f32], ends: &mut [f64], g: RecursiveLines, r: Sections, power: Powers);
    fn chunk_starts[256](kept: &mut [f64], g: RecursiveLines, power: Powers);
}

/// A kernel of the recursion that writes its result.
type Recursion = unsafe fn(
    &RECURSIVE,
    &Cuda,
    Shape,
    In<f32>,
    Out<f32>,
    In<f64>,
    RecursiveLines,
    Sections,
    Powers,
) -> Result<()>;
/// A kernel of the recursion that writes what chunks leave.
type Ends = unsafe fn(
    &RECURSIVE,
    &Cuda,
    Shape,
    In<f32>,
    Out<f64>,
    RecursiveLines,
    Sections,
    Powers,
) -> Result<()>;

kernels! { WINDOWS = "filter/filter.cu";
    fn fir_columns[256](src: &[f32], out: &mut [f32], g: WindowLines, radius: u32, weights: Weights,
        more: &[f32]);
    fn fir_rows[256](src: &[f32], out: &mut [f32], g: WindowLines, radius: u32, weights: Weights,
        more: &[f32]);
    fn box_columns[256](src: &[f32], out: &mut [f32], g: WindowLines, radius: u64, segment: u64);
    fn box_rows[256](src: &[f32], out: &mut [f32], g: WindowLines, radius: u64, segment: u64,
        segments: u64);
}

/// A kernel of weighted means.
type Fir = unsafe fn(
    &WINDOWS,
    &Cuda,
    Shape,
    In<f32>,
    Out<f32>,
    WindowLines,
    u32,
    Weights,
    In<f32>,
) -> Result<()>;

/// Samples of a segment of the recursion, as `recursive.cu` has it.
const SAMPLES: usize = 32;
/// The most segments of a line that a block takes; lines with more are cut into chunks.
const MOST_SEGMENTS: usize = 64;
/// The segments of a chunk.
const CHUNK_SEGMENTS: usize = 16;
/// Bytes that a thread of the recursion keeps of its carries.
const CARRIES: usize = 64;
/// Weights that are passed by value.
const WEIGHTS: usize = 32;
/// Outputs of a thread of `fir_columns`.
const OUTPUTS: usize = 8;
/// The least samples of a running sum: of a thread across rows, of a warp along rows.
const RUN: [usize; 2] = [32, 256];

impl Filter for Cuda {
    fn gaussian(
        &self,
        src: &CudaBuffer<f32>,
        dims: Dims,
        sigma: [f64; 3],
        method: GaussianMethod,
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        check_gaussian(dims, src.len(), sigma, method, out.len())?;
        if let Some(smooth) = Smooth::new(dims, sigma, method, src.len()) {
            return smooth.run(self, src, dims, out);
        }
        self.run_passes(src, &gaussians(dims, sigma, method, src.len()), out)
    }

    fn box_mean(
        &self,
        src: &CudaBuffer<f32>,
        dims: Dims,
        radius: [usize; 3],
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        check_images(dims, src.len(), out.len())?;
        let passes = (0..3).filter(|&a| dims[a] > 1 && radius[a] > 0).map(|a| {
            // A window larger than the line is the line.
            let kind = Kind::Box(radius[a].min(dims[a]));
            Pass { lines: Lines::along(dims, a, src.len()), kind }
        });
        self.run_passes(src, &passes.collect::<Vec<_>>(), out)
    }
}

/// The Gaussians of those axes that have one, of `total` samples.
fn gaussians(dims: Dims, sigma: [f64; 3], method: GaussianMethod, total: usize) -> Vec<Pass> {
    let passes = (0..3).filter(|&a| dims[a] > 1 && sigma[a] >= SIGMA_NONE).map(|a| {
        let kind = match window(sigma[a], method) {
            Some(weights) => Kind::Fir(weights.iter().map(|&w| w as f32).collect()),
            None => Kind::Recursive(sigma[a]),
        };
        Pass { lines: Lines::along(dims, a, total), kind }
    });
    passes.collect()
}

/// A filter of one axis.
struct Pass {
    lines: Lines,
    kind: Kind,
}

impl Pass {
    /// Whether it may write where it reads.
    fn in_place(&self) -> bool {
        matches!(self.kind, Kind::Recursive(_))
    }
}

enum Kind {
    /// By its sigma.
    Recursive(f64),
    /// By its weights, from the centre to one side.
    Fir(Vec<f32>),
    /// By its radius.
    Box(usize),
}

/// The lines along an axis.
#[derive(Clone, Copy)]
struct Lines {
    lines: usize,
    stride: usize,
    n: usize,
}

impl Lines {
    /// Those of all images of `total` samples together: in memory the lines of the next image follow
    /// as those of the next slice do.
    fn along(dims: Dims, axis: usize, total: usize) -> Self {
        let n = dims[axis];
        Self { lines: total / n, stride: dims[..axis].iter().product(), n }
    }

    /// Whether the samples of a line are neighbours in memory.
    fn rows(self) -> bool {
        self.stride == 1
    }

    fn total(self) -> usize {
        self.lines * self.n
    }
}

plain! {
    /// `Lines` of `recursive.cu`.
    struct RecursiveLines as "Lines" {
        lines: u64,
        stride: u64,
        n: u64,
        line_blocks: u32,
        chunk: u32,
        chunks: u32,
        pitch: u32,
    }
}

plain! {
    /// The two sections of a recursion, as `recursive.cu` has them.
    struct Sections {
        of: [[f64; 7]; 2],
    }
}

plain! {
    /// The matrices that carry the states of both passes over a number of samples, in the layout of `recursive.cu`.
    struct Powers {
        of: [[f64; 4]; 2],
    }
}

plain! {
    /// `Lines` of `filter.cu`.
    struct WindowLines as "Lines" {
        lines: u64,
        stride: u64,
        n: u64,
        line_blocks: u32,
        reserved: u32,
    }
}

plain! {
    /// The weights that are passed by value.
    struct Weights {
        of: [f32; WEIGHTS],
    }
}

/// How a line is shared among the threads of blocks: the lines and the segments of a block, and the
/// samples of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Division {
    width: usize,
    segments: usize,
    chunk: usize,
    chunks: usize,
    /// Of the tile in shared memory, for lines that are rows.
    pitch: usize,
}

impl Division {
    /// For `lines` of `n` samples; `shared` is the shared memory that a block can have, bytes.
    fn new(lines: usize, n: usize, rows: bool, shared: usize) -> Self {
        let segments = n.div_ceil(SAMPLES);
        let whole = Self::of(lines, n, segments, n, rows, shared);
        if segments <= MOST_SEGMENTS && whole.shared() <= shared {
            return whole;
        }
        Self::of(lines, n, CHUNK_SEGMENTS, CHUNK_SEGMENTS * SAMPLES, rows, shared)
    }

    fn of(
        lines: usize,
        n: usize,
        segments: usize,
        chunk: usize,
        rows: bool,
        shared: usize,
    ) -> Self {
        // Whole pieces of 128 bytes of memory where that leaves not too many threads.
        let width = match segments {
            ..=8 => 256 / segments / 32 * 32,
            9..=16 => 32,
            17..=32 => 16,
            _ => 8,
        };
        let mut division = Self {
            width: width.min(lines.next_multiple_of(8)),
            segments,
            chunk,
            chunks: n.div_ceil(chunk),
            // An odd multiple of four.
            pitch: if rows { 4 * (chunk.div_ceil(4) | 1) } else { 0 },
        };
        while division.shared() > shared && division.width > 8 {
            division.width = (division.width / 2).next_multiple_of(8);
        }
        division
    }

    /// Bytes of shared memory: of the tile, and in its place of the carries.
    fn shared(&self) -> usize {
        let carries = if self.segments > 1 || self.chunks > 1 {
            CARRIES * self.width * self.segments
        } else {
            0
        };
        carries.max(4 * self.width * self.pitch)
    }
}

impl Cuda {
    /// Runs the passes one after the other; without any this is a copy.
    fn run_passes(
        &self,
        src: &CudaBuffer<f32>,
        passes: &[Pass],
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let Some(last) = passes.len().checked_sub(1) else {
            return self.copy(src, out);
        };
        // From the last pass to the first: whether it writes to `out`. A pass that cannot work in
        // place reads from the other buffer.
        let mut to_out = vec![true; passes.len()];
        for i in (0..last).rev() {
            to_out[i] = to_out[i + 1] == passes[i + 1].in_place();
        }
        let mut other = match to_out.contains(&false) {
            true => Some(self.alloc_unset::<f32>(src.len())?),
            false => None,
        };
        let (other, out) = (other.as_mut().map(Out::from), Out::from(out));
        for (i, pass) in passes.iter().enumerate() {
            let at = |to_out: bool| match (&other, to_out) {
                (Some(other), false) => other.clone(),
                _ => out.clone(),
            };
            let from = if i == 0 { In::from(src) } else { at(to_out[i - 1]).read() };
            let to = at(to_out[i]);
            self.run_pass(pass, from, to)?;
        }
        Ok(())
    }

    /// Filters along one axis, from one buffer to another, or in place if the pass can.
    fn run_pass(&self, pass: &Pass, from: In<f32>, to: Out<f32>) -> Result<()> {
        match &pass.kind {
            Kind::Recursive(sigma) => self.recursive(pass.lines, *sigma, from, to),
            Kind::Fir(weights) => self.fir(pass.lines, weights, from, to),
            Kind::Box(radius) => self.running_mean(pass.lines, *radius, from, to),
        }
    }

    /// The recursive Gaussian of one axis; `from` and `to` have the samples of all lines, and may be
    /// the same.
    fn recursive(&self, lines: Lines, sigma: f64, from: In<f32>, to: Out<f32>) -> Result<()> {
        let sections = Section::gaussian(sigma);
        let numbers = Sections {
            of: sections.map(|s| {
                let ([d, e], [n, m], [k, l]) = (s.feedback, s.forward, s.backward);
                [-d, -e, n, m, k, l, s.steady()]
            }),
        };
        let power = |samples: usize| Powers { of: sections.map(|s| s.power(samples as u32)) };
        let division = Division::new(lines.lines, lines.n, lines.rows(), self.shared_memory());
        let Division { width, segments, chunk, chunks, pitch } = division;
        let line_blocks = lines.lines.div_ceil(width);
        let geometry = RecursiveLines {
            lines: lines.lines as u64,
            stride: lines.stride as u64,
            n: lines.n as u64,
            line_blocks: line_blocks as u32,
            chunk: chunk as u32,
            chunks: chunks as u32,
            pitch: pitch as u32,
        };
        let shape = Shape {
            block: [width as u32, segments as u32, 1],
            ..Shape::blocks(line_blocks * chunks, 1)
        }
        .with_shared(division.shared());
        let (ends, filter): (Ends, Recursion) = if lines.rows() {
            (RECURSIVE::ends_of_rows, RECURSIVE::recursive_rows)
        } else {
            (RECURSIVE::ends_of_columns, RECURSIVE::recursive_columns)
        };
        let step = power(SAMPLES);
        let mut starts = None;
        if chunks > 1 {
            let mut kept = self.alloc_unset::<f64>(8 * chunks * lines.lines)?;
            let line_shape = Shape::covering(lines.lines, 256);
            // SAFETY: threads beyond the lines or beyond their ends neither read nor write; `kept` has
            // eight numbers a chunk of each line.
            unsafe {
                let (from, kept) = (from.clone(), Out::from(&mut kept));
                ends(&RECURSIVE, self, shape, from, kept.clone(), geometry, numbers, step)?;
                RECURSIVE.chunk_starts(self, line_shape, kept, geometry, power(chunk))?;
            }
            starts = Some(kept);
        }
        let starts = starts.as_ref().into();
        // SAFETY: as above; `starts` is read only where there are several chunks.
        unsafe { filter(&RECURSIVE, self, shape, from, to, starts, geometry, numbers, step) }
    }

    /// A symmetric weighted mean along one axis; `from` is not `to`.
    fn fir(&self, lines: Lines, weights: &[f32], from: In<f32>, to: Out<f32>) -> Result<()> {
        let mut passed = Weights { of: [0.0; WEIGHTS] };
        let more = if let Some((first, rest)) = weights.split_first_chunk::<WEIGHTS>() {
            passed.of = *first;
            Some(self.upload(rest)?)
        } else {
            passed.of[..weights.len()].copy_from_slice(weights);
            None
        };
        let (more, radius) = (more.as_ref().into(), (weights.len() - 1) as u32);
        let (kernel, geometry, shape): (Fir, _, _) = if lines.rows() {
            let shape = Shape::covering(lines.total(), 256);
            (WINDOWS::fir_rows, lines.windows(1), shape)
        } else {
            let (geometry, shape) = lines.across(OUTPUTS);
            (WINDOWS::fir_columns, geometry, shape)
        };
        // SAFETY: threads beyond the lines or beyond their ends neither read nor write, and samples
        // beyond the ends are those at the ends.
        unsafe { kernel(&WINDOWS, self, shape, from, to, geometry, radius, passed, more) }
    }

    /// The mean over a window along one axis; `from` is not `to`, and the radius is at most the
    /// length of the lines.
    fn running_mean(&self, lines: Lines, radius: usize, from: In<f32>, to: Out<f32>) -> Result<()> {
        let run = |least: usize| (2 * radius + 1).max(least).min(lines.n);
        let radius = radius as u64;
        // SAFETY: threads beyond the lines or beyond their ends neither read nor write, nor are samples
        // beyond the ends read.
        unsafe {
            if lines.rows() {
                let segment = run(RUN[1]);
                let segments = lines.n.div_ceil(segment);
                let shape = Shape::covering(32 * segments * lines.lines, 256);
                let (geometry, segment) = (lines.windows(1), segment as u64);
                let segments = segments as u64;
                WINDOWS.box_rows(self, shape, from, to, geometry, radius, segment, segments)
            } else {
                let segment = run(RUN[0]);
                let (geometry, shape) = lines.across(segment);
                WINDOWS.box_columns(self, shape, from, to, geometry, radius, segment as u64)
            }
        }
    }
}

impl Lines {
    fn windows(self, line_blocks: usize) -> WindowLines {
        WindowLines {
            lines: self.lines as u64,
            stride: self.stride as u64,
            n: self.n as u64,
            line_blocks: line_blocks as u32,
            reserved: 0,
        }
    }

    /// Blocks of 32 lines by eight pieces of `segment` samples.
    fn across(self, segment: usize) -> (WindowLines, Shape) {
        let line_blocks = self.lines.div_ceil(32);
        let groups = self.n.div_ceil(8 * segment);
        let shape = Shape { block: [32, 8, 1], ..Shape::blocks(line_blocks * groups, 1) };
        (self.windows(line_blocks), shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divisions_fit_their_blocks() {
        for n in (1..3000).chain([4096, 100_000]) {
            for (lines, rows, shared) in
                [(1, true, 64 << 10), (70_000, true, 227 << 10), (70_000, false, 48 << 10)]
            {
                let d = Division::new(lines, n, rows, shared);
                let threads = d.width * d.segments;
                assert!(d.width.is_multiple_of(8) && (8..=512).contains(&threads), "{n}: {d:?}");
                assert!(d.shared() <= shared, "{n}: {d:?}");
                assert!(d.segments * SAMPLES >= d.chunk && d.chunk * d.chunks >= n, "{n}: {d:?}");
                assert!(d.chunks == 1 || d.segments * SAMPLES == d.chunk, "{n}: {d:?}");
                assert!(!rows || d.pitch % 8 == 4, "{n}: {d:?}");
                assert!(!rows || d.pitch >= d.chunk.next_multiple_of(4), "{n}: {d:?}");
            }
        }
    }
}
