//! Operators over many images against plain references in `f64`.

// A failure in a helper is a failure of the test; a check that is skipped says so.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

use voxalign_compute::Device;
use voxalign_compute::cpu::Cpu;
use voxalign_compute::cuda::Cuda;
use voxalign_compute::ops::filter::GaussianMethod;
use voxalign_image::{Grid, Volume};
use voxalign_population::stream::operators::{
    Correlation, Energy, Extreme, Mean, Mimo, Miso, Normalise, Numbers, Product, Smooth, Target,
    Variance, WindowMean,
};
use voxalign_population::stream::{
    Kept, Loaded, Model, Resident, ResidentSink, Source, StreamOptions, bound, mimo, miso,
    sliding_window,
};

mod files;
mod memory;

const SIZES: [[usize; 3]; 4] = [[1, 1, 1], [7, 5, 1], [9, 6, 5], [37, 30, 33]];

fn grid(dims: [usize; 3]) -> Grid {
    Grid::axis_aligned(dims, [1.0, 1.5, 2.0]).unwrap()
}

/// Images that differ, with values of both signs and of many sizes.
fn images(dims: [usize; 3], count: usize) -> Vec<Volume<f32>> {
    let image = |seed: usize| {
        Volume::from_fn(grid(dims), |x, y, z| {
            let at = (x + 31 * y + 977 * z + 7919 * seed).wrapping_mul(2_654_435_761) % 10_007;
            (at as f32 - 4000.0) * 0.037 + seed as f32 * 3.5
        })
    };
    (0..count).map(image).collect()
}

fn reference(images: &[Volume<f32>], f: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    (0..images[0].data().len())
        .map(|i| f(&images.iter().map(|v| f64::from(v.data()[i])).collect::<Vec<_>>()))
        .collect()
}

#[track_caller]
fn assert_close(name: &str, found: &[f32], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{name}");
    for (i, (&f, &e)) in found.iter().zip(expected).enumerate() {
        let allowed = tolerance * e.abs().max(1e-3);
        assert!((f64::from(f) - e).abs() <= allowed, "{name}: voxel {i} is {f}, not {e}");
    }
}

fn with(model: Option<Model>) -> StreamOptions {
    StreamOptions { model, ..StreamOptions::default() }
}

/// The models that differ in how items are done.
fn models() -> Vec<Option<Model>> {
    let mut all: Vec<_> = Model::all().into_iter().map(Some).collect();
    all.extend([None, Some(Model::Implicit { streams: Some(3) })]);
    all
}

/// The result of an operator on images in memory, the same for every model and any order of the images.
fn one<D: Device, O: Miso<D>>(device: &D, images: &[Volume<f32>], operator: &O) -> O::Output
where
    O::Output: PartialEq + std::fmt::Debug,
{
    let source = Loaded::new(images).unwrap();
    let run = |model| miso(device, &source, operator, &with(model), &()).unwrap();
    let first = run(None);
    assert_eq!(first.trace.stages.len(), 3);
    for model in models() {
        assert_eq!(run(model).value, first.value, "{model:?}");
    }
    first.value
}

fn image_of<D: Device, O: Miso<D, Output = Vec<f32>>>(
    device: &D,
    images: &[Volume<f32>],
    operator: &O,
) -> Vec<f32> {
    let found = one(device, images, operator);
    // Another order.
    let turned: Vec<_> = images.iter().rev().cloned().collect();
    let source = Loaded::new(&turned).unwrap();
    let again = miso(device, &source, operator, &with(None), &()).unwrap().value;
    assert!(found.iter().zip(&again).all(|(a, b)| a.to_bits() == b.to_bits()));
    found
}

fn each<D: Device, O: Mimo<D>>(device: &D, images: &[Volume<f32>], operator: &O) -> Vec<Vec<f32>> {
    let source = Loaded::new(images).unwrap();
    let run = |model| {
        let kept = Kept::default();
        let done = mimo(device, &source, operator, &kept, &with(model), &()).unwrap();
        assert_eq!(done.trace.stages.len(), 5);
        kept.into_images()
    };
    let first = run(None);
    for model in models() {
        assert_eq!(run(model), first, "{model:?}");
    }
    first
}

/// Two CPUs, whose results are compared to the bit, and the kernels of the GPU.
fn on_devices(check: impl Fn(&dyn Fn(Work<'_>))) {
    let cpus = [1, 3].map(|threads| Cpu::new(Some(threads)).unwrap());
    check(&|work| {
        let found = cpus.each_ref().map(|cpu| (work.cpu)(cpu));
        let bits =
            |all: &[Vec<f32>]| -> Vec<u32> { all.concat().iter().map(|v| v.to_bits()).collect() };
        assert_eq!(bits(&found[0]), bits(&found[1]));
    });
    if let Some(cuda) = emulated() {
        check(&|work| {
            (work.cuda)(&cuda);
        });
    }
}

/// The kernels compiled for the host; without a compiler nothing (and a line that says so), and a failure where
/// `VOXALIGN_REQUIRE_EMULATION` is set.
fn emulated() -> Option<Cuda> {
    match Cuda::emulated() {
        Ok(cuda) => Some(cuda),
        Err(e) => {
            assert!(std::env::var_os("VOXALIGN_REQUIRE_EMULATION").is_none(), "{e}");
            eprintln!("skipped: {e}");
            None
        }
    }
}

/// A check on each kind of device.
struct Work<'w> {
    cpu: &'w dyn Fn(&Cpu) -> Vec<Vec<f32>>,
    cuda: &'w dyn Fn(&Cuda) -> Vec<Vec<f32>>,
}

macro_rules! on_all {
    (|$device:ident| $body:expr) => {
        on_devices(|run| run(Work { cpu: &|$device| $body, cuda: &|$device| $body }))
    };
}

fn sizes<D: Device>(device: &D) -> Vec<([usize; 3], usize)> {
    // The emulation is slow.
    let few = device.name().contains("emulated");
    let cases = SIZES.iter().zip([2, 5, 9, 4]).map(|(&dims, count)| (dims, count));
    cases.take(if few { 3 } else { 4 }).collect()
}

fn mean_of<D: Device>(device: &D) -> Vec<Vec<f32>> {
    let mut all = Vec::new();
    for (dims, count) in sizes(device) {
        let images = images(dims, count);
        let largest = bound(device, &Loaded::new(&images).unwrap(), &with(None), &()).unwrap();
        let most = images.iter().flat_map(|v| v.data()).fold(0.0f32, |a, v| a.max(v.abs()));
        assert_eq!(largest, f64::from(most));
        let found = image_of(device, &images, &Mean::new(&[], largest).unwrap());
        let n = count as f64;
        assert_close("mean", &found, &reference(&images, |v| v.iter().sum::<f64>() / n), 1e-6);
        all.push(found);
        let weights: Vec<f64> = (0..count).map(|i| i as f64 * 0.7).collect();
        let sum: f64 = weights.iter().sum();
        let expected =
            reference(&images, |v| v.iter().zip(&weights).map(|(v, w)| v * w).sum::<f64>() / sum);
        let found = one(device, &images, &Mean::new(&weights, largest).unwrap());
        assert_close("weighted mean", &found, &expected, 1e-6);
        all.push(found);
    }
    all
}

#[test]
fn mean() {
    on_all!(|device| mean_of(device));
    assert!(Mean::new(&[1.0, -1.0], 1.0).is_err());
    assert!(Mean::new(&[0.0, 0.0], 1.0).is_err());
    assert!(Mean::new(&[f64::NAN], 1.0).is_err());
    assert!(Mean::new(&[], f64::INFINITY).is_err());
    let (cpu, images) = (Cpu::new(None).unwrap(), images([3, 2, 1], 3));
    let source = Loaded::new(&images).unwrap();
    let few = miso(&cpu, &source, &Mean::new(&[1.0, 2.0], 500.0).unwrap(), &with(None), &());
    assert!(few.unwrap_err().to_string().contains("2 for 3 images"));
    // Images without weight count as if they were not there.
    let mean = |images: &[Volume<f32>], weights: &[f64]| {
        let source = Loaded::new(images).unwrap();
        miso(&cpu, &source, &Mean::new(weights, 500.0).unwrap(), &with(None), &()).unwrap().value
    };
    assert_eq!(mean(&images, &[2.0, 2.0, 0.0]), mean(&images[..2], &[1.0, 1.0]));
}

/// A sum of whole numbers is exact, however many there are.
#[test]
fn means_of_whole_numbers_are_exact() {
    let cpu = Cpu::new(Some(2)).unwrap();
    let images: Vec<_> =
        (0..301).map(|i| Volume::filled(grid([5, 3, 2]), (i % 7) as f32 * 1e6)).collect();
    let expected: u64 = (0..301).map(|i| (i % 7) * 1_000_000).sum();
    let source = Loaded::new(&images).unwrap();
    let mean = Mean::new(&[], 6e6).unwrap();
    let found = miso(&cpu, &source, &mean, &with(None), &()).unwrap().value;
    assert!(found.iter().all(|&v| v == (expected as f64 / 301.0) as f32));
    // And so is their variance, which is 0 where all are the same.
    let same: Vec<_> = (0..300).map(|_| images[5].clone()).collect();
    let source = Loaded::new(&same).unwrap();
    let variance = Variance::new(6e6).unwrap();
    assert!(
        miso(&cpu, &source, &variance, &with(None), &()).unwrap().value.iter().all(|v| *v == 0.0)
    );
}

fn extremes_of<D: Device>(device: &D) -> Vec<Vec<f32>> {
    let mut all = Vec::new();
    for (dims, count) in sizes(device) {
        let images = images(dims, count);
        let max = image_of(device, &images, &Extreme::Max);
        let min = image_of(device, &images, &Extreme::Min);
        let most = reference(&images, |v| v.iter().fold(f64::NEG_INFINITY, |a, &b| a.max(b)));
        let least = reference(&images, |v| v.iter().fold(f64::INFINITY, |a, &b| a.min(b)));
        assert_close("max", &max, &most, 0.0);
        assert_close("min", &min, &least, 0.0);
        all.extend([max, min]);
    }
    let zeros = [0.0, -0.0].map(|v| Volume::filled(grid([4, 1, 1]), v));
    for extreme in [Extreme::Max, Extreme::Min] {
        assert!(image_of(device, &zeros, &extreme).iter().all(|v| v.to_bits() == 0));
    }
    all
}

#[test]
fn extremes() {
    on_all!(|device| extremes_of(device));
}

fn variance_of<D: Device>(device: &D) -> Vec<Vec<f32>> {
    let mut all = Vec::new();
    for (dims, count) in sizes(device) {
        for offset in [0.0, 20_000.0] {
            let images: Vec<_> =
                images(dims, count).iter().map(|v| v.map(|v| v + offset)).collect();
            let most = images.iter().flat_map(|v| v.data()).fold(0.0f32, |a, v| a.max(v.abs()));
            let found = image_of(device, &images, &Variance::new(most.into()).unwrap());
            let n = count as f64;
            let expected = reference(&images, |v| {
                let mean = v.iter().sum::<f64>() / n;
                v.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0)
            });
            assert_close("variance", &found, &expected, 1e-6);
            all.push(found);
        }
    }
    all
}

#[test]
fn variance() {
    on_all!(|device| variance_of(device));
    let cpu = Cpu::new(Some(1)).unwrap();
    for scale in [1e-20f32, 1e20] {
        let images: Vec<_> = images([6, 5, 2], 6).iter().map(|v| v.map(|v| v * scale)).collect();
        let most = images.iter().flat_map(|v| v.data()).fold(0.0f32, |a, v| a.max(v.abs()));
        let variance = Variance::new(most.into()).unwrap();
        let source = Loaded::new(&images).unwrap();
        // In 32 bits it is 0 or ∞, but the digits must be there until then.
        let found = miso(&cpu, &source, &variance, &with(None), &()).unwrap().value;
        assert!(
            found.iter().all(|v| *v == if scale < 1.0 { 0.0 } else { f32::INFINITY } || *v < 1e-35)
        );
    }
    let single = images([2, 2, 1], 1);
    let source = Loaded::new(&single).unwrap();
    let one = miso(&cpu, &source, &Variance::new(1e4).unwrap(), &with(None), &());
    assert!(one.unwrap_err().to_string().contains("at least two"));
}

fn energies_of<D: Device>(device: &D) -> Vec<Vec<f32>> {
    let mut all = Vec::new();
    for (dims, count) in sizes(device) {
        let images = images(dims, count);
        let base = images[count - 1].data();
        let sums = |other: &dyn Fn(usize) -> f64| -> Vec<f64> {
            let square = |(i, v): (usize, &f32)| (f64::from(*v) - other(i)).powi(2);
            images.iter().map(|v| v.data().iter().enumerate().map(square).sum()).collect()
        };
        for (reference, expected) in
            [(None, sums(&|_| 0.0)), (Some(base), sums(&|i| f64::from(base[i])))]
        {
            let found = one(device, &images, &Energy { reference });
            for (f, e) in found.each.iter().zip(&expected) {
                assert!((f - e).abs() <= 1e-9 * e, "{f} {e}");
            }
            let total: f64 = expected.iter().sum();
            assert!((found.total - total).abs() <= 1e-9 * total);
            all.push(found.each.iter().map(|v| *v as f32).collect());
        }
        let found = one(device, &images, &Correlation { reference: base });
        assert!(found.iter().all(|c| (-1.0..=1.0).contains(c)));
        assert_eq!(found[count - 1], if base.len() > 1 { 1.0 } else { 0.0 });
        for (image, f) in images.iter().zip(&found).filter(|_| base.len() > 1) {
            let n = base.len() as f64;
            let centre = |v: &[f32]| {
                let mean = v.iter().map(|&v| f64::from(v)).sum::<f64>() / n;
                v.iter().map(|&v| f64::from(v) - mean).collect::<Vec<_>>()
            };
            let (a, b) = (centre(image.data()), centre(base));
            let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
            let expected = dot(&a, &b) / (dot(&a, &a) * dot(&b, &b)).sqrt();
            assert!((f - expected).abs() < 1e-9, "{f} {expected}");
        }
    }
    all
}

#[test]
fn energy_and_correlation() {
    on_all!(|device| energies_of(device));
    let (cpu, images) = (Cpu::new(None).unwrap(), images([3, 2, 1], 3));
    let source = Loaded::new(&images).unwrap();
    let short = [1.0; 5];
    let energy = Energy { reference: Some(&short) };
    assert!(miso(&cpu, &source, &energy, &with(None), &()).is_err());
    let correlation = Correlation { reference: &short };
    assert!(miso(&cpu, &source, &correlation, &with(None), &()).is_err());
}

fn product_of<D: Device>(device: &D) -> Vec<Vec<f32>> {
    let mut all = Vec::new();
    for (dims, count) in sizes(device) {
        let images = images(dims, count);
        let found = image_of(device, &images, &Product);
        assert_close("product", &found, &reference(&images, |v| v.iter().product()), 2e-7);
        all.push(found);
    }
    let masks: Vec<_> = (0..5)
        .map(|i| Volume::from_fn(grid([8, 4, 1]), |x, _, _| if x == i { -0.0 } else { 1.0 }))
        .collect();
    let found = image_of(device, &masks, &Product);
    assert!(
        found
            .iter()
            .enumerate()
            .all(|(i, v)| v.to_bits() == if i % 8 < 5 { 0 } else { 0x3f80_0000 })
    );
    all
}

#[test]
fn product() {
    on_all!(|device| product_of(device));
}

fn normalised_of<D: Device>(device: &D) -> Vec<Vec<f32>> {
    let mut all = Vec::new();
    for (dims, count) in sizes(device) {
        let mut images = images(dims, count);
        // Far from 0, and one without contrast.
        images[0] = images[0].map(|v| v + 3e4);
        images[1] = Volume::filled(grid(dims), 17.25);
        for numbers in [Numbers::OnDevice, Numbers::OnHost] {
            for target in [Target::Range(-1.0, 3.0), Target::Standard] {
                let found = each(device, &images, &Normalise { target, numbers });
                for (image, found) in images.iter().zip(&found) {
                    let v: Vec<f64> = image.data().iter().map(|&v| v.into()).collect();
                    let n = v.len() as f64;
                    let mean = v.iter().sum::<f64>() / n;
                    let sd = (v.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n).sqrt();
                    let low = v.iter().copied().fold(f64::INFINITY, f64::min);
                    let high = v.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    for (&f, &v) in found.iter().zip(&v) {
                        let expected = match target {
                            Target::Range(..) if high == low => -1.0,
                            Target::Range(..) => (v - low) / (high - low) * 4.0 - 1.0,
                            Target::Standard if sd == 0.0 => 0.0,
                            Target::Standard => (v - mean) / sd,
                        };
                        // The digits of the image, in its own unit of contrast.
                        let unit = 3e4 / (high - low).max(1.0) * 4.0 * f64::from(f32::EPSILON);
                        assert!((f64::from(f) - expected).abs() < 4.0 * unit, "{f} {expected}");
                    }
                }
                all.extend(found);
            }
        }
    }
    all
}

#[test]
fn normalise() {
    on_all!(|device| normalised_of(device));
    let (cpu, images) = (Cpu::new(None).unwrap(), images([3, 2, 1], 3));
    let source = Loaded::new(&images).unwrap();
    let bad = Normalise::new(Target::Range(2.0, 2.0));
    assert!(mimo(&cpu, &source, &bad, &Kept::default(), &with(None), &()).is_err());
    // The trace of a stage that synchronises has both of its parts.
    let host = Normalise { target: Target::Standard, numbers: Numbers::OnHost };
    let done = mimo(&cpu, &source, &host, &Kept::default(), &with(None), &()).unwrap();
    assert_eq!(done.trace.tasks.iter().filter(|t| t.stage == 2).count(), 6);
    assert!(done.order.is_some());
}

fn smoothed_of<D: Device>(device: &D) -> Vec<Vec<f32>> {
    let images = images([11, 9, 6], 4);
    let operator = Smooth { sigma: 1.2, method: GaussianMethod::Fir };
    let found = each(device, &images, &operator);
    // One voxel after the other, along each axis; beyond the border the nearest voxel.
    let [nx, ny, nz] = [11isize, 9, 6];
    for (image, found) in images.iter().zip(&found) {
        let mut v: Vec<f64> = image.data().iter().map(|&v| v.into()).collect();
        for (axis, spacing) in [1.0, 1.5, 2.0].into_iter().enumerate() {
            let sigma = 1.2 / spacing;
            let radius = (5.0f64 * sigma).ceil() as isize;
            let weight = |d: isize| (-0.5 * (d as f64 / sigma).powi(2)).exp();
            let sum: f64 = (-radius..=radius).map(weight).sum();
            let at = |x: isize, y: isize, z: isize| {
                let c = |v: isize, n: isize| v.clamp(0, n - 1);
                v[(c(x, nx) + nx * (c(y, ny) + ny * c(z, nz))) as usize]
            };
            let mut out = Vec::new();
            for (z, y, x) in
                (0..nz).flat_map(|z| (0..ny).flat_map(move |y| (0..nx).map(move |x| (z, y, x))))
            {
                let value = |d: isize| match axis {
                    0 => at(x + d, y, z),
                    1 => at(x, y + d, z),
                    _ => at(x, y, z + d),
                };
                out.push((-radius..=radius).map(|d| weight(d) * value(d)).sum::<f64>() / sum);
            }
            v = out;
        }
        for (f, e) in found.iter().zip(&v) {
            assert!((f64::from(*f) - e).abs() < 1e-3, "{f} {e}");
        }
    }
    found
}

#[test]
fn smooth() {
    on_all!(|device| smoothed_of(device));
    let (cpu, images) = (Cpu::new(None).unwrap(), images([3, 2, 1], 2));
    let source = Loaded::new(&images).unwrap();
    let bad = Smooth { sigma: -1.0, method: GaussianMethod::Fir };
    assert!(mimo(&cpu, &source, &bad, &Kept::default(), &with(None), &()).is_err());
}

fn windows_of<D: Device>(device: &D) -> Vec<Vec<f32>> {
    let mut all = Vec::new();
    for (count, radius) in [(1, 0), (1, 2), (7, 0), (7, 1), (9, 3), (3, 5), (20, 9)] {
        let images = images([9, 6, 5], count);
        let source = Loaded::new(&images).unwrap();
        let mut first = None;
        for model in models() {
            let kept = Kept::default();
            let operator = WindowMean { radius };
            sliding_window(device, &source, &operator, &kept, &with(model), &()).unwrap();
            let found = kept.into_images();
            assert_eq!(found.len(), count);
            for (k, image) in found.iter().enumerate() {
                let of = &images[k.saturating_sub(radius)..(k + radius + 1).min(count)];
                let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
                for (f, e) in image.iter().zip(reference(of, mean)) {
                    assert!((f64::from(*f) - e).abs() < 2e-4, "{count} {radius} {k}: {f} {e}");
                }
            }
            assert_eq!(*first.get_or_insert_with(|| found.clone()), found, "{model:?}");
        }
        all.extend(first.unwrap());
    }
    all
}

#[test]
fn window_mean() {
    on_all!(|device| windows_of(device));
}

fn resident_of<D: Device>(device: &D) -> Vec<Vec<f32>> {
    let images = images([9, 6, 5], 6);
    let host = |image: &Volume<f32>| {
        let mut host = device.host_alloc(image.data().len()).unwrap();
        host.copy_from_slice(image.data());
        host
    };
    let buffers = images.iter().map(host).collect();
    let source = Resident::new(buffers, images[0].grid().clone(), 6, 1e4).unwrap();
    let operator = Normalise::new(Target::Range(0.0, 1.0));
    let expected = each(device, &images, &operator);
    for model in models() {
        let pieces = (0..6).map(|_| device.host_alloc(9 * 6 * 5).unwrap()).collect();
        let sink = ResidentSink::new(pieces);
        let done = mimo(device, &source, &operator, &sink, &with(model), &()).unwrap();
        // Nothing is read or written, and nothing is held on the host.
        assert_eq!((done.trace.stages.len(), done.bytes[0]), (3, 0));
        let found = sink.into_pieces();
        assert!(found.iter().zip(&expected).all(|(f, e)| f[..] == e[..]), "{model:?}");
        let mean = Mean::new(&[], 1e4).unwrap();
        let done = miso(device, &source, &mean, &with(model), &()).unwrap();
        assert_eq!(done.trace.stages.len(), 2);
        assert_eq!(done.value, one(device, &images, &mean));
    }
    // The source is as it was.
    assert!(images.iter().enumerate().all(|(i, v)| &source.resident(i).unwrap()[..] == v.data()));
    assert!(Resident::new(Vec::new(), images[0].grid().clone(), 6, 1e4).is_err());
    expected
}

#[test]
fn resident_images() {
    on_all!(|device| resident_of(device));
}
