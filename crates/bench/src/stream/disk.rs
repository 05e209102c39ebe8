//! Streaming between files: each stage alone, and all of them together (Ha 2011, section 4.6).

use super::Watch;
use super::functions::{NAMES, once};
use super::synthetic::{Lasting, pass_seconds};
use crate::Host;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use voxalign_compute::select::AnyDevice;
use voxalign_image::Grid;
use voxalign_io::image::{WriteOptions, write_values};
use voxalign_jobs::check;
use voxalign_jobs::{Error, Result};
use voxalign_population::stream::{
    Engine, Files, Kept, Model, OutputFiles, Pipeline, Ring, Sink, Source, Stage, StreamOptions,
    mimo,
};

/// Ratios of execution to reading and writing.
const RATIOS: [f64; 6] = [0.1, 0.5, 1.0, 2.0, 5.0, 10.0];

/// A stage by itself.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(super) struct Alone {
    /// From its begin to its end, over all images.
    pub(super) seconds: f64,
    /// Of all processors together, where the system reports it.
    pub(super) cpu_seconds: Option<f64>,
}

/// The times of all images between files.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    /// How the names of the files end.
    pub(super) files: &'static str,
    /// The operation on the images.
    pub(super) work: String,
    /// Reading by itself.
    pub(super) read: Alone,
    /// Upload, execution and download by themselves.
    pub(super) compute: Alone,
    /// Writing by itself.
    pub(super) write: Alone,
    /// The work of all processors, evenly shared among them.
    pub(super) shared: f64,
    /// The least that all of it can take.
    pub(super) bound: f64,
    /// All of it, streamed.
    pub(super) streamed: f64,
}

impl Row {
    /// A row with its bound: the longest of the stages, of the CPU time shared among `cores`, and of the time that
    /// the `readers` and the writer wait for the disk, which they share.
    fn new(
        files: &'static str,
        work: String,
        [read, compute, write]: [Alone; 3],
        streamed: f64,
        [readers, cores]: [usize; 2],
    ) -> Self {
        let all: Option<f64> = [read, compute, write].iter().map(|a| a.cpu_seconds).sum();
        let shared = all.unwrap_or(0.0) / cores as f64;
        let waits = |a: Alone, threads: usize| {
            a.cpu_seconds.map_or(0.0, |cpu| (a.seconds - cpu / threads as f64).max(0.0))
        };
        let disk = waits(read, readers.min(cores)) + waits(write, 1);
        let stages = [read.seconds, compute.seconds, write.seconds, shared, disk];
        let bound = stages.into_iter().fold(0.0, f64::max);
        Self { files, work, read, compute, write, shared, bound, streamed }
    }
}

/// CPU seconds of this process on all processors, where the system reports it.
fn cpu_seconds() -> Option<f64> {
    /// In which Linux counts them here, whatever its clock is.
    const PER_SECOND: f64 = 100.0;
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name, in parentheses, may have blanks.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |i: usize| fields.get(i)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / PER_SECOND)
}

/// The shortest of several times; of work that takes long the only one.
fn timed(
    host: &dyn Host,
    prepare: impl Fn(),
    mut work: impl FnMut() -> Result<()>,
) -> Result<Alone> {
    const TIMES: usize = 5;
    const LONG: f64 = 5.0;
    let (mut best, mut spent) = (None::<Alone>, 0.0);
    for _ in 0..TIMES {
        check(host)?;
        prepare();
        let (start, before) = (Instant::now(), cpu_seconds());
        work()?;
        let seconds = start.elapsed().as_secs_f64();
        let cpu_seconds = before.zip(cpu_seconds()).map(|(a, b)| b - a);
        if best.is_none_or(|b| seconds < b.seconds) {
            best = Some(Alone { seconds, cpu_seconds });
        }
        spent += seconds;
        if spent > LONG {
            break;
        }
    }
    Ok(best.unwrap_or_default())
}

/// Images that are there at once.
struct Still {
    grid: Grid,
    count: usize,
}

impl Source for Still {
    fn count(&self) -> usize {
        self.count
    }

    fn grid(&self) -> &Grid {
        &self.grid
    }

    fn read(&self, _: usize, out: &mut [f32]) -> voxalign_population::Result<()> {
        // The first time only: memory that was never written is no memory yet.
        if out.first() == Some(&0.0) {
            out.iter_mut().enumerate().for_each(|(i, v)| *v = (i % 1009 + 1) as f32);
        }
        Ok(())
    }
}

/// Takes images and forgets them.
struct Nowhere;

impl Sink for Nowhere {
    fn write(&self, _: usize, _: &[f32]) -> voxalign_population::Result<()> {
        Ok(())
    }
}

/// The operation on the images.
#[derive(Clone)]
enum Work {
    Function(&'static str),
    Lasting(f64, Lasting),
}

impl Work {
    fn name(&self) -> String {
        match self {
            Self::Function(name) => (*name).to_owned(),
            Self::Lasting(ratio, lasting) => {
                format!("E / (R + W) = {ratio:?}, {}", lasting.place())
            }
        }
    }

    /// Whether it makes an image of each.
    fn writes(&self) -> bool {
        !matches!(self, Self::Function("max" | "energy" | "average"))
    }

    fn run(
        &self,
        (device, host): (&AnyDevice, &dyn Host),
        source: &dyn Source,
        sink: &dyn Sink,
        reference: &[f32],
        options: &StreamOptions,
    ) -> Result<()> {
        match self {
            Self::Function(name) => once((device, host), name, source, sink, reference, options)?,
            Self::Lasting(_, l) => mimo(device, source, l, sink, options, &Watch(host))?.trace,
        };
        Ok(())
    }
}

/// A head: nothing around it, tissue with noise within, whole numbers as scanners give them.
fn head(grid: &Grid, seed: usize) -> Vec<f32> {
    let [nx, ny, nz] = grid.dims();
    let part = |i: usize, n: usize| (2 * i + 1) as f32 / n as f32 - 1.0;
    let mut values = Vec::with_capacity(grid.len());
    for (z, y) in (0..nz).flat_map(|z| (0..ny).map(move |y| (z, y))) {
        for x in 0..nx {
            let [px, py, pz] = [part(x, nx), part(y, ny), part(z, nz)];
            let noise = (values.len() + 977 * seed).wrapping_mul(2_654_435_761) >> 11 & 31;
            let tissue = 500.0 + 300.0 * (6.0 * px).sin() * (5.0 * py + seed as f32).cos();
            let inside = px * px + py * py + pz * pz < 0.8;
            values.push(if inside { tissue.round() + noise as f32 } else { 0.0 });
        }
    }
    values
}

/// The files of a measurement.
struct Bench<'d> {
    device: &'d AnyDevice,
    host: &'d dyn Host,
    grid: Grid,
    paths: Vec<PathBuf>,
    source: Files,
    sink: OutputFiles,
    reference: Vec<f32>,
    options: StreamOptions,
}

impl Bench<'_> {
    /// Takes older results away: to replace a file makes some systems wait for the disk.
    fn clear(&self) {
        for path in &self.sink.paths {
            // The first time there is none.
            let _ = std::fs::remove_file(path);
        }
    }

    /// Reading by itself, by all readers.
    fn reading(&self) -> Result<Alone> {
        let (n, size) = (self.grid.len(), self.options.readers + 1);
        timed(
            self.host,
            || {},
            || {
                let buffers: Vec<_> = (0..size).map(|_| Mutex::new(vec![0.0; n])).collect();
                let read = Stage::new("read", Engine::Reader, |t| {
                    let mut out =
                        buffers[t.item % size].lock().unwrap_or_else(PoisonError::into_inner);
                    self.source.read(t.item, &mut out)
                });
                let stages = vec![read.with_workers(self.options.readers)];
                let rings = vec![Ring { first: 0, last: 0, size, keep: 0 }];
                Pipeline::new(stages, rings)?.run(
                    0..self.paths.len(),
                    Model::default(),
                    &Watch(self.host),
                )?;
                Ok(())
            },
        )
    }

    /// Writing by itself, of images like those of the work.
    fn writing(&self, work: &Work) -> Result<Alone> {
        if !work.writes() {
            return Ok(Alone { seconds: 0.0, cpu_seconds: Some(0.0) });
        }
        let kept = Kept::default();
        let first = Files::open(self.paths[..1].to_vec())?;
        work.run((self.device, self.host), &first, &kept, &self.reference, &self.options)?;
        let image = kept.into_images().remove(0);
        timed(
            self.host,
            || self.clear(),
            || {
                let write =
                    Stage::new("write", Engine::Writer, |t| self.sink.write(t.item, &image));
                let pipeline = Pipeline::new(vec![write], Vec::new())?;
                pipeline.run(0..self.paths.len(), Model::default(), &Watch(self.host))?;
                Ok(())
            },
        )
    }

    fn row(&self, files: &'static str, work: &Work) -> Result<Row> {
        let still = Still { grid: self.grid.clone(), count: self.paths.len() };
        let run = |source: &dyn Source, sink: &dyn Sink| {
            work.run((self.device, self.host), source, sink, &self.reference, &self.options)
        };
        let read = self.reading()?;
        let compute = timed(self.host, || {}, || run(&still, &Nowhere))?;
        let write = self.writing(work)?;
        let streamed = timed(self.host, || self.clear(), || run(&self.source, &self.sink))?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = [self.options.readers, cores];
        Ok(Row::new(files, work.name(), [read, compute, write], streamed.seconds, threads))
    }

    /// Functions, and an execution of all ratios.
    fn all(&self, files: &'static str, gpu: bool) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        for name in NAMES.into_iter().filter(|n| !n.contains("host")) {
            rows.push(self.row(files, &Work::Function(name))?);
        }
        let resting = Work::Lasting(0.0, Lasting::Rest(0.0));
        let transfer = self.reading()?.seconds + self.writing(&resting)?.seconds;
        let transfer = transfer / self.paths.len() as f64;
        let pass = pass_seconds(self.device, self.grid.len())?;
        for apart in [true, false] {
            for ratio in RATIOS {
                let seconds = ratio * transfer;
                let lasting = if apart && !gpu {
                    Lasting::Rest(seconds)
                } else {
                    Lasting::Passes { count: (seconds / pass).round().max(1.0) as usize, gpu }
                };
                rows.push(self.row(files, &Work::Lasting(ratio, lasting))?);
            }
            if gpu {
                break;
            }
        }
        Ok(rows)
    }
}

/// Measures between files, which are made and removed.
pub(super) fn measure(
    (device, host): (&AnyDevice, &dyn Host),
    gpu: bool,
    dims: [usize; 3],
    images: usize,
    folder: &Path,
    options: StreamOptions,
) -> Result<Vec<Row>> {
    let grid = Grid::axis_aligned(dims, [1.0; 3])?;
    let mut rows = Vec::new();
    for files in [".nii", ".nii.gz"] {
        let folder = tempfile::Builder::new().prefix("voxalign-bench-").tempdir_in(folder);
        let folder = folder.map_err(|e| Error::input(format!("--disk: {e}")))?;
        let write = WriteOptions::default();
        let mut paths = Vec::new();
        for i in 0..images {
            check(host)?;
            let path = folder.path().join(format!("{i}{files}"));
            write_values(&path, &grid, &head(&grid, i), &write)?;
            paths.push(path);
        }
        let names = (0..images).map(|i| folder.path().join(format!("out{i}{files}")));
        let bench = Bench {
            device,
            host,
            source: Files::open(paths.clone())?,
            sink: OutputFiles { paths: names.collect(), grid: grid.clone(), options: write },
            reference: head(&grid, images),
            paths,
            grid: grid.clone(),
            options,
        };
        // The first time compiles kernels and touches memory.
        bench.row(files, &Work::Function("normalise"))?;
        rows.extend(bench.all(files, gpu)?);
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::super::functions::BOUND;
    use super::*;

    #[test]
    fn the_bound_is_of_what_is_shared() {
        let alone = |seconds, cpu| Alone { seconds, cpu_seconds: Some(cpu) };
        let bound = |stages| Row::new(".nii", String::new(), stages, 9.0, [2, 2]).bound;
        let nothing = alone(0.0, 0.0);
        // The slowest stage; all that the cores do; what both wait for the disk.
        assert_eq!(bound([alone(2.0, 1.0), alone(5.0, 0.0), alone(1.0, 1.0)]), 5.0);
        assert_eq!(bound([alone(2.0, 4.0), alone(2.0, 4.0), nothing]), 4.0);
        assert_eq!(bound([alone(3.0, 1.0), nothing, alone(2.5, 0.5)]), 4.5);
        let unknown = Alone { seconds: 2.0, cpu_seconds: None };
        assert_eq!(bound([unknown, alone(1.0, 2.0), nothing]), 2.0);
    }

    #[test]
    fn processors_are_counted() {
        let Some(before) = cpu_seconds() else { return };
        let start = Instant::now();
        while start.elapsed().as_secs_f64() < 0.3 {
            std::hint::spin_loop();
        }
        assert!(cpu_seconds().is_some_and(|after| after > before));
    }

    #[test]
    fn heads_are_within_the_bound() {
        let values = head(&Grid::axis_aligned([16, 12, 8], [1.0; 3]).unwrap(), 3);
        assert!(values.contains(&0.0) && values.iter().all(|v| f64::from(v.abs()) < BOUND));
        assert!(values.iter().any(|v| *v > 100.0));
    }
}
