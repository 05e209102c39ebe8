//! Measurements of the operators on the device at hand, beside its own copy bandwidth.
//!
//! Each family has a file that adds its operators to a [`Bench`]; [`run`] goes through all of
//! them. Times are those of the device ([`Memory::seconds`]): medians of
//! several warm runs on buffers that are already there.

mod accumulate;
mod elastic;
mod elementwise;
#[cfg(feature = "baselines")]
pub mod explore;
mod filter;
mod flow;
mod fourier;
mod front;
mod histogram;
mod joint;
mod pairwise;
mod points;
mod raycast;
pub mod rays;
mod reduce;
mod regions;
mod resample;
mod similarity;
mod simplices;
mod sort;
mod sparse;
pub mod splat;
mod stencil;
mod tetrahedra;
mod values;

use std::time::{Duration, Instant};

use crate::Dims;
use crate::device::{Device, Memory};
use crate::error::{ComputeError, Result, voxels};

/// The time of one operator.
#[derive(Debug, Clone, PartialEq)]
pub struct Measurement {
    /// The family of operators.
    pub family: &'static str,
    /// The operator and its variant.
    pub operator: String,
    /// The sizes of the output.
    pub dims: Dims,
    /// The bytes that have to be moved: each input read once, each output written once.
    pub bytes: u64,
    /// The median time, in seconds.
    pub seconds: f64,
    /// `bytes` over `seconds`, in 10^9 bytes a second.
    pub gb_per_s: f64,
    /// The fraction of the copy bandwidth of the device, measured in the same run on the largest arrays that were
    /// copied ([`Settings::copy_bytes`]).
    pub of_copy: f64,
}

impl Measurement {
    /// Nanoseconds for each voxel of the output.
    pub fn ns_per_voxel(&self) -> f64 {
        self.seconds * 1e9 / self.dims.iter().product::<usize>() as f64
    }
}

/// The extent of the measurements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The sizes of the images.
    pub dims: Dims,
    /// The least size in bytes of the array whose copy defines the bandwidth of the device. An image of `dims` may
    /// partly fit in the caches, which would flatter; zero uses it as it is.
    pub copy_bytes: usize,
    /// The families to measure, of [`FAMILIES`]; none for all of them.
    pub families: Vec<String>,
}

impl Settings {
    /// Images of `dims`, and the copy of such an image as the bandwidth.
    #[must_use]
    pub fn new(dims: Dims) -> Self {
        Self { dims, copy_bytes: 0, families: Vec::new() }
    }

    fn has(&self, family: &str) -> bool {
        self.families.is_empty() || self.families.iter().any(|f| f == family)
    }

    /// The least memory that the measurements take, bytes of the device and of the host: that of the images that
    /// exist at once. The temporary memory of operators comes on top.
    ///
    /// # Errors
    /// Sizes that make no grid.
    pub fn least_memory(&self) -> Result<(u64, u64)> {
        let voxels = voxels("dims", self.dims)? as u64;
        let of = FAMILIES.iter().zip(BYTES_A_VOXEL).filter(|(family, _)| self.has(family));
        // Two images are copied to begin with; every family's images are made on the host.
        let most = of.map(|(_, bytes)| bytes).max().unwrap_or(0).max(8);
        let copied = 2 * self.copy_bytes as u64;
        Ok((voxels.saturating_mul(most).max(copied), voxels.saturating_mul(4).max(copied / 2)))
    }

    /// Checks that the device and the host have [so much](Self::least_memory).
    ///
    /// # Errors
    /// [`ComputeError::OutOfMemory`] with what is needed and what is free.
    pub fn check_memory<D: Device>(&self, device: &D) -> Result<()> {
        let (of_device, of_host) = self.least_memory()?;
        let host = crate::cpu::Cpu::new(Some(1))?;
        let free_of_host = Memory::memory(&host).free;
        let places = [
            (device.name(), device.memory().free, of_device),
            (Memory::name(&host), free_of_host, of_host),
        ];
        for (device, free, bytes) in places {
            if free.is_some_and(|free| bytes > free) {
                return Err(ComputeError::OutOfMemory { device, bytes, free });
            }
        }
        Ok(())
    }
}

/// Room for this many numbers on the host.
fn room<T>(len: usize) -> Result<Vec<T>> {
    let mut data = Vec::new();
    data.try_reserve_exact(len).map_err(|_| ComputeError::OutOfMemory {
        device: "cpu".into(),
        bytes: len.saturating_mul(size_of::<T>()) as u64,
        free: None,
    })?;
    Ok(data)
}

/// Calls whose times are shorter than this are timed in batches, so that starting a measurement
/// does not count; what each call costs to start does.
const SHORT: f64 = 1e-3;

/// The most calls of a batch.
const LONGEST_BATCH: usize = 64;

/// A run of measurements on a device.
#[derive(Debug)]
pub struct Bench<'a, D: Device> {
    device: &'a D,
    dims: Dims,
    copy_gb_per_s: f64,
    results: Vec<Measurement>,
}

impl<'a, D: Device> Bench<'a, D> {
    /// Starts a run by measuring the copy bandwidth.
    ///
    /// # Errors
    /// If the device has not the memory.
    pub fn new(device: &'a D, settings: &Settings) -> Result<Self> {
        let dims = settings.dims;
        let n = voxels("dims", dims)?;
        let mut bench = Self { device, dims, copy_gb_per_s: f64::NAN, results: Vec::new() };
        let from = bench.image()?;
        let mut to = device.alloc::<f32>(n)?;
        bench.measure("memory", "copy", 8 * n, || device.copy(&from, &mut to))?;
        drop((from, to));
        let times = settings.copy_bytes.div_ceil(size_of::<f32>() * n);
        if times > 1 {
            // The same image with more slices.
            bench.dims = [dims[0], dims[1], dims[2].saturating_mul(times)];
            let n = voxels("dims", bench.dims)?;
            let from = device.upload_vec(vec![1f32; n])?;
            let mut to = device.alloc::<f32>(n)?;
            bench.measure("memory", "copy, large", 8 * n, || device.copy(&from, &mut to))?;
            bench.dims = dims;
        }
        if let Some(bandwidth) = bench.results.last().map(|copy| copy.gb_per_s) {
            bench.copy_gb_per_s = bandwidth;
            for copy in &mut bench.results {
                copy.of_copy = copy.gb_per_s / bandwidth;
            }
        }
        Ok(bench)
    }

    /// An image of the grid of the run: smooth, without symmetries.
    ///
    /// # Errors
    /// If the device has not the memory.
    pub fn image(&self) -> Result<D::Buffer<f32>> {
        let [nx, ny, nz] = self.dims;
        let mut data = room(voxels("dims", self.dims)?)?;
        for z in 0..nz {
            for y in 0..ny {
                let (y, z) = (y as f32 * 0.13, z as f32 * 0.07);
                data.extend((0..nx).map(|x| 100.0 * ((x as f32 * 0.11 + y).sin() + (y + z).cos())));
            }
        }
        self.device.upload_vec(data)
    }

    /// A field of displacements of a few voxels, smooth as [`image`](Self::image) is.
    ///
    /// # Errors
    /// If the device has not the memory.
    pub fn field(&self) -> Result<D::Buffer<f32>> {
        let wave = self.device.into_host(self.image()?)?;
        let mut field = room(3 * wave.len())?;
        for factor in [0.02, 0.014, -0.01] {
            field.extend(wave.iter().map(|v| factor * v));
        }
        self.device.upload_vec(field)
    }

    /// An image like that of a head: about two thirds of it zeros around it; shells and smooth
    /// regions of tissue within, with noise.
    ///
    /// # Errors
    /// If the device has not the memory.
    pub fn head(&self) -> Result<D::Buffer<f32>> {
        let [nx, ny, nz] = self.dims;
        // From -1 to 1 over an axis.
        let place = |i: usize, n: usize| (2 * i + 1) as f32 / n as f32 - 1.0;
        let mut state = 0x9E37_79B9_7F4A_7C15u64;
        let mut data = room(voxels("dims", self.dims)?)?;
        for z in 0..nz {
            for y in 0..ny {
                let (y, z) = (place(y, ny), place(z, nz));
                data.extend((0..nx).map(|x| {
                    let x = place(x, nx);
                    let r2 = (x / 0.85).powi(2) + (y / 0.95).powi(2) + (z / 0.9).powi(2);
                    if r2 > 1.0 {
                        return 0.0;
                    }
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    let noise = ((state >> 32 & 0xffff) + (state >> 48)) as f32 / 65536.0 - 1.0;
                    let tissue = match r2.sqrt() {
                        r if r > 0.93 => 180.0,
                        r if r > 0.86 => 35.0,
                        r if r > 0.82 => 60.0,
                        r if r < 0.2 => 50.0,
                        r => {
                            // Folds of grey matter around white matter.
                            let folds =
                                (9.0 * x).sin() * (8.0 * y).cos() + (7.0 * z + 3.0 * x).sin();
                            let white = (4.0 * (0.62 - r + 0.12 * folds) + 0.5).clamp(0.0, 1.0);
                            105.0 + 45.0 * white + 10.0 * y
                        }
                    };
                    (tissue + 16.0 * noise).max(0.0)
                }));
            }
        }
        self.device.upload_vec(data)
    }

    /// Measures `f`, which moves `bytes` bytes.
    ///
    /// # Errors
    /// What `f` returns.
    pub fn measure(
        &mut self,
        family: &'static str,
        operator: impl Into<String>,
        bytes: usize,
        f: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        self.measure_each(family, operator, bytes, 1, f)
    }

    /// As [`measure`](Self::measure) for `f` that does the same `count` times at once: the time and
    /// the bytes are those of each.
    ///
    /// # Errors
    /// What `f` returns.
    pub fn measure_each(
        &mut self,
        family: &'static str,
        operator: impl Into<String>,
        bytes: usize,
        count: usize,
        mut f: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        // What happens only once, such as compiling a kernel, does not count.
        f()?;
        let once = self.device.seconds(&mut f)?;
        let batch = ((SHORT / once).ceil() as usize).clamp(1, LONGEST_BATCH);
        let mut calls = || (0..batch).try_for_each(|_| f());
        let start = Instant::now();
        let mut times = Vec::new();
        while times.len() < 5 || (times.len() < 50 && start.elapsed() < Duration::from_millis(300))
        {
            times.push(self.device.seconds(&mut calls)? / batch as f64);
        }
        times.sort_by(f64::total_cmp);
        let seconds = times[times.len() / 2] / count.max(1) as f64;
        let gb_per_s = bytes as f64 / seconds * 1e-9;
        self.results.push(Measurement {
            family,
            operator: operator.into(),
            dims: self.dims,
            bytes: bytes as u64,
            seconds,
            gb_per_s,
            of_copy: gb_per_s / self.copy_gb_per_s,
        });
        Ok(())
    }
}

/// Makes the lists of families of one.
macro_rules! families {
    ($($family:ident: $bytes:literal),* $(,)?) => {
        /// The families that are measured.
        pub const FAMILIES: [&str; COUNT] = [$(stringify!($family)),*];
        const COUNT: usize = [$($bytes),*].len();

        const BYTES_A_VOXEL: [u64; COUNT] = [$($bytes),*];

        fn runs<D: Device>() -> [Run<D>; COUNT] {
            [$($family::run),*]
        }
    };
}

// Each with the bytes a voxel of the images that are on the device at once, with the fields and the other
// numbers.
families! {
    accumulate: 16,
    elastic: 48,
    elementwise: 36,
    filter: 32,
    flow: 40,
    fourier: 14,
    front: 8,
    histogram: 12,
    joint: 8,
    pairwise: 4,
    points: 24,
    raycast: 12,
    reduce: 8,
    regions: 28,
    resample: 40,
    similarity: 16,
    simplices: 8,
    sort: 24,
    sparse: 24,
    splat: 32,
    stencil: 20,
    tetrahedra: 20,
    values: 8,
}

/// The measurements of a family.
type Run<D> = for<'a, 'b> fn(&'a mut Bench<'b, D>) -> Result<()>;

/// Measures the operators of the families on images of one size.
///
/// # Errors
/// If the device has not the memory, which is looked at before anything is made, or fails.
pub fn run<D: Device>(device: &D, settings: &Settings) -> Result<Vec<Measurement>> {
    settings.check_memory(device)?;
    let mut bench = Bench::new(device, settings)?;
    for (family, run) in FAMILIES.iter().zip(runs::<D>()) {
        if settings.has(family) {
            run(&mut bench)?;
        }
    }
    Ok(bench.results)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::Cpu;

    #[test]
    fn what_does_not_fit_is_not_begun() {
        let cpu = Cpu::new(Some(1)).unwrap();
        let mut settings = Settings::new([99_999; 3]);
        for families in [vec![], vec!["sort".to_owned()], vec!["reduce".to_owned()]] {
            settings.families = families;
            let Err(ComputeError::OutOfMemory { bytes, free, .. }) = run(&cpu, &settings) else {
                panic!("it was begun");
            };
            assert!(bytes >= 8 * 99_999u64.pow(3) && bytes > free.unwrap(), "{bytes} of {free:?}");
        }
        // All images of families are counted, and no more.
        let settings = |families: &[&str]| Settings {
            families: families.iter().map(|f| (*f).to_owned()).collect(),
            ..Settings::new([10, 10, 10])
        };
        assert_eq!(settings(&["reduce"]).least_memory(), Ok((8000, 4000)));
        assert_eq!(settings(&["reduce", "sort"]).least_memory(), Ok((24_000, 4000)));
        assert_eq!(settings(&[]).least_memory(), Ok((48_000, 4000)));
        assert!(Settings::new([usize::MAX, 2, 2]).least_memory().is_err());
    }

    #[test]
    fn the_largest_copy_is_the_bandwidth() {
        let cpu = Cpu::new(Some(1)).unwrap();
        let dims = [8, 4, 4];
        let mut bench =
            Bench::new(&cpu, &Settings { copy_bytes: 1500, ..Settings::new(dims) }).unwrap();
        let calls = std::cell::Cell::new(0);
        let count = || {
            calls.set(calls.get() + 1);
            Ok(())
        };
        bench.measure("memory", "nothing", 1024, count).unwrap();
        let [small, large, nothing] = &bench.results[..] else { panic!("{:?}", bench.results) };
        assert_eq!((small.dims, large.dims, nothing.dims), (dims, [8, 4, 12], dims));
        assert_eq!((small.bytes, large.bytes, large.of_copy), (1024, 3072, 1.0));
        assert!((small.of_copy - small.gb_per_s / large.gb_per_s).abs() < 1e-12);
        assert!(calls.get() >= 2 + 5 * LONGEST_BATCH, "{}", calls.get());
        assert_eq!(Bench::new(&cpu, &Settings::new(dims)).unwrap().results.len(), 1);
    }
}
