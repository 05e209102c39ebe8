//! Every operator where the memory of the device does not suffice: each request fails in turn, the
//! error says so, nothing is left behind, and the operator then gives the bits that it gave before.

use voxalign_compute::cpu::Cpu;
use voxalign_compute::cuda::{Cuda, MemoryLimit};
use voxalign_compute::ops::elastic::{Boundary, ElasticOperator};
use voxalign_compute::ops::expression::{param, x};
use voxalign_compute::ops::filter::GaussianMethod;
use voxalign_compute::ops::flow::{Inversion, Limit, Step};
use voxalign_compute::ops::fourier::spectrum_len;
use voxalign_compute::ops::front::{
    Gaussian, Layout, Log, Measured, Planned, Rule, Step as FrontStep, TOTALS, Tiles, Units,
};
use voxalign_compute::ops::histogram::{
    JointMethod, JointScheme, MovingView, Scheme, Schemes, Terms, Window,
};
use voxalign_compute::ops::raycast::{Along, Filtering, Pixels, RayView, Traversal};
use voxalign_compute::ops::reduce::Reduction;
use voxalign_compute::ops::regions::{Scores, Weights};
use voxalign_compute::ops::resample::{Interpolation, LabelInterpolation};
use voxalign_compute::ops::sort::KeyRange;
use voxalign_compute::ops::{Filter as _, Front as _, Reduce as _, Regions as _};
use voxalign_compute::select::AnyDevice;
use voxalign_compute::{ComputeError, Device, Dims, IDENTITY, Memory, Result};
use voxalign_image::memory::amount;

use voxalign_conformance::cases::{BINNING, COLUMNS, OPTIONS, image};
use voxalign_conformance::support::len;

use crate::devices::{emulated, gpu_number};

const DIMS: Dims = [9, 7, 6];
const SIGMA: [f64; 3] = [1.3, 0.7, 2.0];
const MAP: [[f64; 4]; 3] = [[0.9, 0.1, 0.0, 0.3], [0.0, 1.1, 0.0, -0.2], [0.1, 0.0, 1.0, 0.4]];
/// A map to a grid of twice the spacing.
const HALF: [[f64; 4]; 3] = [[2.0, 0.0, 0.0, 0.5], [0.0, 2.0, 0.0, 0.5], [0.0, 0.0, 2.0, 0.5]];

/// The bits of results.
type Bits = Vec<u64>;

fn of_image<D: Device>(device: &D, buffer: D::Buffer<f32>) -> Result<Bits> {
    Ok(device.into_host(buffer)?.into_iter().map(|v| v.to_bits().into()).collect())
}

fn of_numbers<D: Device>(device: &D, buffer: D::Buffer<f64>) -> Result<Bits> {
    Ok(device.into_host(buffer)?.into_iter().map(f64::to_bits).collect())
}

fn bits(numbers: &[Vec<f64>]) -> Bits {
    numbers.concat().into_iter().map(f64::to_bits).collect()
}

/// A field that moves by less than a voxel.
fn field() -> Vec<f32> {
    (0..3).flat_map(|c| image(DIMS, 11 + c)).map(|v| 0.2 * v).collect()
}

/// Runs an operator on memory that grows until it suffices, and then with each request in turn as
/// the first that is not met.
fn run_out(device: &Cuda, name: &str, run: impl Fn(&Cuda) -> Result<Bits>) {
    let attempt = |limit| {
        device.limit_memory(limit);
        let result = run(device);
        device.limit_memory(MemoryLimit::Device);
        assert_eq!(device.pool().live, 0, "{name}, {limit:?}: memory is left behind");
        match result {
            Ok(bits) => Ok(bits),
            Err(error @ ComputeError::OutOfMemory { bytes, free: Some(free), .. }) => {
                let said = error.to_string();
                assert!(said.contains(&amount(bytes)) && said.contains("out of memory"), "{said}");
                Err((bytes, free))
            }
            Err(error) => panic!("{name}, {limit:?}: {error}"),
        }
    };
    let (mut most, mut refused) = (0, 0);
    let found = loop {
        match attempt(MemoryLimit::Bytes(most)) {
            Ok(found) => break found,
            Err((bytes, free)) => {
                assert!(bytes > free, "{name}: {bytes} bytes were refused, {free} are free");
                assert!(free <= most);
                most += bytes - free;
                refused += 1;
            }
        }
    };
    assert!(refused > 0, "{name}: asks for no memory");
    let expected = attempt(MemoryLimit::Device).unwrap();
    assert_eq!(found, expected, "{name}: other bits");
    for requests in 0.. {
        match attempt(MemoryLimit::Requests(requests)) {
            Ok(found) => {
                assert!(requests > 0, "{name}");
                assert_eq!(found, expected, "{name}: other bits");
                break;
            }
            Err(_) => assert!(requests < 10_000, "{name}: asks for ever"),
        }
    }
    assert_eq!(attempt(MemoryLimit::Device), Ok(expected), "{name}: other bits afterwards");
}

macro_rules! families {
    ($($family:ident),* $(,)?) => {$(
        mod $family {
            #[test]
            fn emulated() {
                if let Some(device) = super::emulated() {
                    super::$family(&device);
                }
            }

            #[test]
            fn cuda() {
                // A handle of its own: what it has made is counted, and its memory bounded.
                if let Some(number) = super::gpu_number() {
                    super::$family(&super::Cuda::new(number).unwrap());
                }
            }
        }
    )*};
}

families!(
    elementwise,
    reduce,
    resample,
    labels_and_fields,
    stencil,
    filter,
    fourier,
    samples,
    binned,
    joint,
    sort,
    elastic,
    flow,
    similarity,
    raycast,
    textures,
    front,
    regions,
);

/// Runs an operator from one image to one of a length.
fn map(
    device: &Cuda,
    name: &str,
    src: &[f32],
    n: usize,
    f: impl Fn(&<Cuda as Memory>::Buffer<f32>, &mut <Cuda as Memory>::Buffer<f32>) -> Result<()>,
) {
    run_out(device, name, |d| {
        let src = d.upload(src)?;
        let mut out = d.alloc(n)?;
        f(&src, &mut out)?;
        of_image(d, out)
    });
}

fn elementwise(device: &Cuda) {
    use voxalign_compute::ops::Elementwise;
    let (a, n) = (image(DIMS, 3), len(DIMS));
    let expr = x(0).abs().sqrt() * param(0) + x(1);
    map(device, "eval", &a, n, |a, out| device.eval(&expr, &[a, a], &[2.5], None, out));
    let expr = x(0) * 0.5;
    run_out(device, "eval_in_place", |d| {
        let mut a = d.upload(&a)?;
        d.eval_in_place(&expr, &mut a, &[], &[], None)?;
        of_image(d, a)
    });
}

fn reduce(device: &Cuda) {
    use voxalign_compute::ops::Reduce;
    let a = image([41, 31, 7], 3);
    let what = [Reduction::Sum(0), Reduction::SumSquaredDifference(0, 1), Reduction::Max(1)];
    run_out(device, "reduce", |d| {
        let (a, b) = (d.upload(&a)?, d.upload(&a)?);
        Ok(d.reduce(&[&a, &b], &what)?.into_iter().map(f64::to_bits).collect())
    });
    run_out(device, "reduce_into", |d| {
        let (a, mut out) = (d.upload(&a)?, d.alloc(1)?);
        d.reduce_into(&[&a], &what[..1], &mut out)?;
        of_numbers(d, out)
    });
}

fn resample(device: &Cuda) {
    use voxalign_compute::ops::Resample;
    let (a, n) = (image(DIMS, 3), len(DIMS));
    for how in [Interpolation::Nearest, Interpolation::Linear, Interpolation::Cubic] {
        map(device, "warp_affine", &a, n, |a, out| {
            device.warp_affine(a, DIMS, &MAP, DIMS, how, -1.0, out)
        });
        map(device, "warp_field", &a, n, |a, out| {
            let field = device.upload(&field())?;
            device.warp_field(a, DIMS, &MAP, &field, DIMS, how, -1.0, out)
        });
    }
    map(device, "resize", &a, len([4, 3, 3]), |a, out| {
        device.resize(a, DIMS, &HALF, [4, 3, 3], 0.0, out)
    });
    run_out(device, "bspline_prefilter", |d| {
        let mut a = d.upload(&a)?;
        d.bspline_prefilter(&mut a, DIMS)?;
        of_image(d, a)
    });
}

fn labels_and_fields(device: &Cuda) {
    use voxalign_compute::ops::Resample;
    let n = len(DIMS);
    let labels: Vec<i32> = image(DIMS, 3).iter().map(|v| (2.0 * v) as i32).collect();
    for rule in [LabelInterpolation::Nearest, LabelInterpolation::Majority] {
        for with_field in [false, true] {
            run_out(device, "warp_labels", |d| {
                let labels = d.upload(&labels)?;
                let field = with_field.then(|| d.upload(&field())).transpose()?;
                let mut out = d.alloc::<i32>(n)?;
                d.warp_labels(&labels, DIMS, &MAP, field.as_ref(), DIMS, rule, 0, &mut out)?;
                Ok(d.into_host(out)?.into_iter().map(|v| v as u64).collect())
            });
        }
    }
    map(device, "compose_fields", &field(), 3 * n, |f, out| {
        device.compose_fields(f, DIMS, &IDENTITY, f, DIMS, out)
    });
    map(device, "resample_field", &field(), 3 * len([4, 3, 3]), |f, out| {
        device.resample_field(f, DIMS, &HALF, [4, 3, 3], out)
    });
}

fn stencil(device: &Cuda) {
    use voxalign_compute::ops::Stencil;
    let (a, n, h) = (image(DIMS, 3), len(DIMS), [1.0, 1.5, 0.7]);
    map(device, "gradient", &a, 3 * n, |a, out| device.gradient(a, DIMS, h, out));
    map(device, "laplacian", &a, n, |a, out| device.laplacian(a, DIMS, h, out));
    map(device, "divergence", &field(), n, |f, out| device.divergence(f, DIMS, h, out));
    map(device, "jacobian_determinant", &field(), n, |f, out| {
        device.jacobian_determinant(f, DIMS, out)
    });
}

fn filter(device: &Cuda) {
    use voxalign_compute::ops::Filter;
    let (a, n) = (image(DIMS, 3), len(DIMS));
    let wide = [3.0, 2.5, 2.0];
    for (method, sigma) in [
        (GaussianMethod::Recursive, SIGMA),
        (GaussianMethod::Recursive, wide),
        (GaussianMethod::Narrow, [1.7; 3]),
        (GaussianMethod::Narrow, [0.0, 0.7, 1.2]),
        (GaussianMethod::Fir, SIGMA),
        (GaussianMethod::Fir, [0.0, 0.0, 1.0]),
    ] {
        map(device, "gaussian", &a, n, |a, out| device.gaussian(a, DIMS, sigma, method, out));
        map(device, "gaussian of a field", &field(), 3 * n, |f, out| {
            device.gaussian(f, DIMS, sigma, method, out)
        });
    }
    map(device, "box_mean", &a, n, |a, out| device.box_mean(a, DIMS, [2, 1, 3], out));
}

fn fourier(device: &Cuda) {
    use voxalign_compute::ops::Fourier;
    for dims in [DIMS, [1, 7, 6]] {
        let (a, n, m) = (image(dims, 3), len(dims), spectrum_len(dims).unwrap());
        map(device, "forward", &a, m, |a, out| device.forward(a, dims, out));
        map(device, "inverse", &a, n, |a, out| {
            let mut spectrum = device.alloc(m)?;
            device.forward(a, dims, &mut spectrum)?;
            let factors = device.upload(&vec![0.5; m / 2])?;
            device.scale_spectrum(&mut spectrum, dims, &factors)?;
            device.inverse(&mut spectrum, dims, out)
        });
    }
    let a = image(DIMS, 3);
    run_out(device, "sine", |d| {
        let mut a = d.upload(&a)?;
        d.sine(&mut a, DIMS)?;
        of_image(d, a)
    });
}

/// The images of a histogram, and its samples.
fn with_samples(
    d: &Cuda,
    f: impl Fn(
        &<Cuda as voxalign_compute::ops::Histogram>::Samples,
        &MovingView<'_, Cuda>,
    ) -> Result<Bits>,
) -> Result<Bits> {
    use voxalign_compute::ops::Histogram;
    let (values, mask) = (d.upload(&image(DIMS, 5))?, d.upload(&vec![0.5; len(DIMS)])?);
    let fixed = d.upload(&image(DIMS, 3))?;
    let weights = d.upload(&vec![0.25; len(DIMS)])?;
    let samples = d.group_samples(&fixed, DIMS, Some(&weights), &OPTIONS)?;
    let view = MovingView { values: &values, mask: Some(&mask), dims: DIMS, border: [2.0; 3] };
    f(&samples, &view)
}

fn samples(device: &Cuda) {
    use voxalign_compute::ops::Histogram;
    run_out(device, "group_samples", |d| with_samples(d, |_, _| Ok(Vec::new())));
    run_out(device, "value_counts", |d| {
        let values = d.upload(&image(DIMS, 3))?;
        Ok(d.value_counts(&values, Some(&values), -0.5, 0.5, 20)?.counts)
    });
}

fn binned(device: &Cuda) {
    use voxalign_compute::ops::Histogram;
    let derivatives = |_: usize, sums: &[f64]| sums.iter().map(|s| s.sin()).collect();
    for scheme in Scheme::ALL {
        for terms in [Terms::Ratio, Terms::Moments] {
            run_out(device, scheme.name(), |d| {
                with_samples(d, |samples, view| {
                    let maps = [MAP, IDENTITY];
                    let sums = d.binned_sums(terms, scheme, samples, view, &maps)?;
                    let derivatives =
                        d.binned_gradient(terms, scheme, samples, view, &maps, &derivatives)?;
                    assert_eq!(derivatives.len(), 2);
                    Ok(if scheme.reproducible() { bits(&sums) } else { Vec::new() })
                })
            });
        }
    }
}

fn joint(device: &Cuda) {
    use voxalign_compute::ops::Histogram;
    for scheme in JointScheme::ALL {
        let window = match scheme {
            JointScheme::Default => Window::Cubic,
            _ => Window::Counts,
        };
        let method = JointMethod { scheme, window, ..JointMethod::default() };
        run_out(device, scheme.name(), |d| {
            with_samples(d, |samples, view| {
                let found = d.joint_histogram_with(&method, samples, view, &COLUMNS, &[MAP])?;
                Ok(bits(&found))
            })
        });
    }
    run_out(device, "joint_gradient", |d| {
        with_samples(d, |samples, view| {
            let table = vec![0.5; BINNING.bins * COLUMNS.count];
            let found = d.joint_gradient(samples, view, &COLUMNS, &[MAP], &[table])?;
            Ok(bits(&found.iter().map(|g| g.to_vec()).collect::<Vec<_>>()))
        })
    });
}

fn sort(device: &Cuda) {
    use voxalign_compute::ops::Sort;
    let keys: Vec<u32> = (0..700u32).map(|i| i.wrapping_mul(2_654_435_761) >> 7).collect();
    for range in [KeyRange::Full, KeyRange::Measured, KeyRange::Known { low: 0, high: 1 << 20 }] {
        run_out(device, "sort_pairs", |d| {
            let (keys, values) = (d.upload(&keys)?, d.upload(&keys)?);
            let (mut sorted, mut places) = (d.alloc::<u32>(700)?, d.alloc(700)?);
            d.sort_pairs(range, &keys, Some(&values), &mut sorted, &mut places)?;
            Ok(d.into_host(places)?.into_iter().map(u64::from).collect())
        });
        run_out(device, "sort_keys", |d| {
            let (keys, mut sorted) = (d.upload(&keys)?, d.alloc::<u32>(700)?);
            d.sort_keys(range, &keys, &mut sorted)?;
            Ok(d.into_host(sorted)?.into_iter().map(u64::from).collect())
        });
        run_out(device, "sort_segments", |d| {
            let (keys, starts) = (d.upload(&keys)?, d.upload(&[0u32, 100, 100, 350])?);
            let (mut sorted, mut places) = (d.alloc::<u32>(700)?, d.alloc(700)?);
            d.sort_segments(range, &keys, None, &starts, &mut sorted, &mut places)?;
            Ok(d.into_host(places)?.into_iter().map(u64::from).collect())
        });
    }
}

fn elastic(device: &Cuda) {
    use voxalign_compute::ops::Elastic;
    let n = 3 * len(DIMS);
    for boundary in [Boundary::Zero, Boundary::Periodic] {
        let operator =
            ElasticOperator { alpha: 1.0, beta: 0.3, gamma: 0.1, spacing: [1.0; 3], boundary };
        map(device, "elastic_product", &field(), n, |f, out| {
            device.elastic_product(&operator, f, DIMS, out)
        });
        map(device, "elastic_residual", &field(), n, |f, out| {
            device.elastic_residual(&operator, f, f, DIMS, out)
        });
        map(device, "elastic_sweep", &field(), n, |f, out| {
            device.elastic_sweep(&operator, 0.9, f, f, DIMS, out)
        });
        run_out(device, "elastic_symbol", |d| match boundary {
            Boundary::Periodic => {
                let len = 3 * spectrum_len(DIMS)?;
                let mut spectra = d.upload(&image([len, 1, 1], 7))?;
                d.elastic_symbol(&operator, &mut spectra, DIMS)?;
                of_image(d, spectra)
            }
            Boundary::Zero => {
                let mut coefficients = d.upload(&field())?;
                let operator = ElasticOperator { beta: 0.0, ..operator };
                d.elastic_eigenvalues(&operator, &mut coefficients, DIMS)?;
                of_image(d, coefficients)
            }
        });
    }
}

fn flow(device: &Cuda) {
    use voxalign_compute::ops::Flow;
    let (n, scale) = (len(DIMS), [1.0, 0.5, 2.0]);
    map(device, "advance", &field(), 3 * n, |f, out| {
        let mut norms = device.alloc::<f64>(3)?;
        device.field_norms(f, scale, &mut norms)?;
        let limit = Limit { largest: &norms, index: 0, step: 0.4, most: f64::INFINITY };
        device.advance(f, f, &Step { scale, limit: Some(limit) }, DIMS, out)
    });
    run_out(device, "invert_field", |d| {
        let (f, mut out) = (d.upload(&field())?, d.alloc(3 * n)?);
        let how = d.invert_field(&f, DIMS, Inversion::default(), &mut out)?;
        Ok([of_image(d, out)?, vec![how.largest.to_bits(), how.unconverged]].concat())
    });
    map(device, "force", &image(DIMS, 3), 3 * n, |a, out| {
        device.force(a, a, DIMS, scale, false, out)
    });
    // Of an image of one voxel, which is made two of, as well.
    for (src, dims) in [(image(DIMS, 3), DIMS), (vec![2.0], [1; 3])] {
        map(device, "force_at", &src, 3 * n, |src, out| {
            let (derivative, field) = (device.upload(&image(DIMS, 5))?, device.upload(&field())?);
            let units = [0, 1, 2].map(|a| [MAP[a][0], MAP[a][1], MAP[a][2]]);
            device.force_at(&derivative, src, dims, &MAP, &field, DIMS, &units, out)
        });
    }
    run_out(device, "field_energies", |d| {
        let (f, mut out) = (d.upload(&field())?, d.alloc::<f64>(2)?);
        d.field_energies(&f, DIMS, scale, scale, &mut out)?;
        of_numbers(d, out)
    });
    map(device, "field_lengths", &field(), n, |f, out| device.field_lengths(f, scale, out));
    map(device, "field_overshoot", &field(), n, |f, out| device.field_overshoot(f, DIMS, out));
    run_out(device, "blend_fields", |d| {
        let (f, weight) = (d.upload(&field())?, d.upload(&vec![0.3; n])?);
        let mut out = d.upload(&field())?;
        d.blend_fields(Some(&f), &weight, &mut out)?;
        of_image(d, out)
    });
    map(device, "halves", &field(), 3 * n, |f, out| {
        let mut half = device.alloc::<u16>(3 * n)?;
        device.to_half(f, &mut half)?;
        device.to_single(&half, out)
    });
}

fn similarity(device: &Cuda) {
    use voxalign_compute::ops::Similarity;
    use voxalign_compute::ops::similarity::Contexts;
    let (a, b, n) = (image(DIMS, 3), image(DIMS, 5), len(DIMS));
    for weighted in [false, true] {
        run_out(device, "local_correlation", |d| {
            let (a, b) = (d.upload(&a)?, d.upload(&b)?);
            let weights = weighted.then(|| d.upload(&vec![0.5; n])).transpose()?;
            let (mut derivative, mut energy) = (d.alloc(n)?, d.alloc(1)?);
            let (w, radius) = (weights.as_ref(), [2, 1, 2]);
            d.local_correlation(&a, &b, w, DIMS, radius, 1e-3, &mut derivative, &mut energy)?;
            Ok([of_image(d, derivative)?, of_numbers(d, energy)?].concat())
        });
        run_out(device, "local_correlation_of_both", |d| {
            let (a, b) = (d.upload(&a)?, d.upload(&b)?);
            let weights = weighted.then(|| d.upload(&vec![0.5; n])).transpose()?;
            let (mut in_a, mut in_b, mut energy) = (d.alloc(n)?, d.alloc(n)?, d.alloc(1)?);
            let (w, radius) = (weights.as_ref(), [2, 1, 2]);
            d.local_correlation_of_both(
                &a,
                &b,
                w,
                DIMS,
                radius,
                1e-3,
                &mut in_a,
                &mut in_b,
                &mut energy,
            )?;
            Ok([of_image(d, in_a)?, of_image(d, in_b)?, of_numbers(d, energy)?].concat())
        });
        run_out(device, "self_similarity", |d| {
            let (a, b) = (d.upload(&a)?, d.upload(&b)?);
            let weights = weighted.then(|| d.upload(&vec![0.5; n])).transpose()?;
            let (mut derivative, mut energy) = (d.alloc(n)?, d.alloc(1)?);
            let contexts = Contexts { radius: 1, distance: 1, noise: 1e-3 };
            let w = weights.as_ref();
            d.self_similarity(&a, &b, w, DIMS, &contexts, &mut derivative, &mut energy)?;
            Ok([of_image(d, derivative)?, of_numbers(d, energy)?].concat())
        });
        run_out(device, "self_similarity_of_both", |d| {
            let (a, b) = (d.upload(&a)?, d.upload(&b)?);
            let weights = weighted.then(|| d.upload(&vec![0.5; n])).transpose()?;
            let (mut in_a, mut in_b, mut energy) = (d.alloc(n)?, d.alloc(n)?, d.alloc(1)?);
            let contexts = Contexts { radius: 1, distance: 1, noise: 1e-3 };
            let (w, out) = (weights.as_ref(), &mut energy);
            d.self_similarity_of_both(&a, &b, w, DIMS, &contexts, &mut in_a, &mut in_b, out)?;
            Ok([of_image(d, in_a)?, of_image(d, in_b)?, of_numbers(d, energy)?].concat())
        });
        run_out(device, "map_values", |d| {
            let (a, mut mapped, mut derivative) = (d.upload(&a)?, d.alloc(n)?, d.alloc(n)?);
            let table = vec![0.5; COLUMNS.count];
            d.map_values(&a, &COLUMNS, &table, &mut mapped, &mut derivative)?;
            Ok([of_image(d, mapped)?, of_image(d, derivative)?].concat())
        });
        run_out(device, "pair_histogram", |d| {
            let (a, b) = (d.upload(&a)?, d.upload(&b)?);
            let weights = weighted.then(|| d.upload(&vec![0.5; n])).transpose()?;
            let table = d.pair_histogram(&a, &b, weights.as_ref(), &BINNING, &COLUMNS)?;
            let (w, mut derivative) = (weights.as_ref(), d.alloc(n)?);
            d.pair_derivatives(&a, &b, w, &BINNING, &COLUMNS, &table, &mut derivative)?;
            Ok([of_image(d, derivative)?, bits(&[table])].concat())
        });
    }
}

/// A view of the volumes here, and some of its pixels.
fn rays() -> ([RayView; 1], Pixels) {
    let world = [[4.0, 3.2, -60.0], [-2.0, -2.0, 60.0], [0.9, 0.1, 0.0], [0.0, 0.8, 0.1]];
    ([RayView { places: world, world }], Pixels::region([0, 0], [13, 9]))
}

fn raycast(device: &Cuda) {
    use voxalign_compute::ops::Raycast;
    let (a, n, (views, pixels)) = (image(DIMS, 3), len(DIMS), rays());
    let m = pixels.len();
    for how in [Traversal::trilinear(0.5), Traversal::Siddon, Traversal::Joseph] {
        map(device, "project", &a, m, |a, out| {
            let volume = device.ray_volume(a, DIMS)?;
            device.project(&volume, &views, &pixels, how, Along::Integral, out)
        });
        map(device, "backproject", &vec![0.7; m], n, |w, out| {
            device.backproject(w, &views, &pixels, how, DIMS, out)
        });
    }
    run_out(device, "project_with_derivatives", |d| {
        let volume = d.ray_volume(&d.upload(&a)?, DIMS)?;
        let (mut out, mut derivatives) = (d.alloc(m)?, d.alloc(6 * m)?);
        d.project_with_derivatives(&volume, &views, &pixels, 0.5, &mut out, &mut derivatives)?;
        let sums = d.view_derivatives(1, &pixels, &out, &derivatives)?;
        let sums = sums.iter().flatten().flatten().map(|s| s.to_bits()).collect();
        Ok([of_image(d, out)?, sums].concat())
    });
}

/// The copy of a volume for texture units is made when one is to read it, and once; without the memory for it all other rays go
/// on.
fn textures(device: &Cuda) {
    use voxalign_compute::ops::Raycast;
    let (a, (views, pixels)) = (image(DIMS, 3), rays());
    let volume = device.ray_volume(&device.upload(&a).unwrap(), DIMS).unwrap();
    let mut out = device.alloc(pixels.len()).unwrap();
    let mut project = |how, along| device.project(&volume, &views, &pixels, how, along, &mut out);
    let texture = Traversal::Trilinear { step: 0.5, filtering: Filtering::Texture };
    let copy = 4 * (DIMS[0] + 2) * (DIMS[1] + 2) * (DIMS[2] + 2);
    // Room for the numbers of a view, and not for the copy.
    let free = copy as u64 - 4;
    let short = MemoryLimit::Bytes(device.pool().live + free);
    device.limit_memory(short);
    for along in [Along::Integral, Along::Maximum] {
        for how in [Traversal::trilinear(0.5), Traversal::Siddon, Traversal::Joseph] {
            project(how, along).unwrap();
        }
        let error = project(texture, along).unwrap_err();
        let said = error.to_string();
        let ComputeError::TextureMemory { bytes, free: Some(left), .. } = error else {
            panic!("{said}")
        };
        // The numbers of a view are there meanwhile.
        assert!(bytes == copy as u64 && left < free, "{said}");
        assert!(said.contains("out of memory") && said.contains("trilinear without"), "{said}");
    }
    device.limit_memory(MemoryLimit::Device);
    project(texture, Along::Integral).unwrap();
    device.limit_memory(short);
    project(texture, Along::Maximum).unwrap();
    device.limit_memory(MemoryLimit::Device);
}

/// A device that was chosen at run time works on its own buffers alone.
#[test]
fn buffers_of_another_backend_are_refused() {
    let Some(cuda) = emulated() else { return };
    let cpu = AnyDevice::Cpu(Cpu::new(Some(1)).unwrap());
    let cuda = AnyDevice::Cuda(cuda);
    let n = len(DIMS);
    let (own, mut out) = (cpu.alloc::<f32>(n).unwrap(), cpu.alloc::<f32>(n).unwrap());
    let (other, mut elsewhere) = (cuda.alloc::<f32>(n).unwrap(), cuda.alloc::<f32>(n).unwrap());
    let method = GaussianMethod::Narrow;
    let errors = [
        cpu.gaussian(&other, DIMS, SIGMA, method, &mut out).unwrap_err(),
        cpu.gaussian(&own, DIMS, SIGMA, method, &mut elsewhere).unwrap_err(),
        cuda.gaussian(&own, DIMS, SIGMA, method, &mut elsewhere).unwrap_err(),
        cpu.reduce(&[&own, &other], &[Reduction::Sum(0)]).unwrap_err(),
        cpu.copy(&other, &mut out).unwrap_err(),
        cpu.into_host(other).unwrap_err(),
    ];
    for error in errors {
        assert!(error.to_string().contains("another device"), "{error}");
    }
    assert!(cpu.gaussian(&own, DIMS, SIGMA, method, &mut out).is_ok());
}

/// Points of a front, and its layout.
fn front_of_image() -> (Layout, Vec<bool>) {
    (Layout::new(DIMS, 1).unwrap(), image(DIMS, 4).iter().map(|v| *v > 0.0).collect())
}

fn front(device: &Cuda) {
    let (layout, set) = front_of_image();
    let units = Units::between(-4.0, 4.0, len(DIMS));
    let step = FrontStep { number: 0, ends_on_repeats: true };
    run_out(device, "front", |d| {
        let (speed, set) = (d.upload(&image(DIMS, 5))?, d.upload_vec(layout.pack(&set)?)?);
        let [mut next, mut signs] = [d.alloc::<u64>(layout.words())?, d.alloc(2 * layout.words())?];
        let [mut plan, mut tiles] = [d.alloc::<u32>(layout.tiles())?, d.alloc(2 * layout.tiles())?];
        let mut totals = d.alloc::<i64>(TOTALS)?;
        let mut log = d.alloc::<i64>(Log::len_of(3))?;
        let measured = Some(Measured { values: &speed, units });
        let gaussian = Gaussian::new(d, &layout, 1.2, [1.0; 3])?;
        let window = Some(gaussian.window());
        let rule = Rule { speed: Some(&speed), curvature: 0.4, window, ..Rule::NONE };
        d.front_begin(&layout, &set, measured, &mut tiles, &mut totals, &mut log)?;
        let by = Planned::Fronts;
        d.front_plan(&layout, step, by, &tiles, &totals, &mut plan, &mut log)?;
        let planned = Some(Tiles { plan: &plan, log: &log, step: 0 });
        d.front_signs(&layout, &rule, &set, &totals, planned, &mut signs)?;
        let (tiles, totals, log) = (&mut tiles, &mut totals, &mut log);
        d.front_step(&layout, step, &set, &signs, measured, &plan, &mut next, tiles, totals, log)?;
        d.into_host(next)
    });
}

fn regions(device: &Cuda) {
    let layout = Layout::new(DIMS, 2).unwrap();
    let labels: Vec<u8> = image(DIMS, 4).iter().map(|v| (v.abs() * 100.0) as u8 % 3).collect();
    run_out(device, "regions", |d| {
        let (values, labels) = (d.upload(&image(DIMS, 5))?, d.upload(&labels)?);
        let (mut sums, mut changed) = (d.alloc::<i64>(6)?, d.upload(&[0i64])?);
        d.label_sums(&values, &labels, Units::between(-4.0, 4.0, len(DIMS)), &mut sums)?;
        let weights = Weights::new(d, &layout, 1.2, [1.0; 3])?;
        let [mut scratch, mut shares] = [d.alloc::<f32>(len(DIMS))?, d.alloc(3 * len(DIMS))?];
        for label in 0..3 {
            let around = weights.around();
            d.label_shares(&layout, &around, label, &labels, &mut scratch, &mut shares)?;
        }
        let (means, mut next) = (d.upload(&[-0.5, 0.0, 0.5])?, d.alloc::<u8>(len(DIMS))?);
        let (image, means, given) = (Some(&values), Some(&means), None);
        let scores = Scores { image, means, given, shares: Some(&shares), weight: 0.3 };
        d.label_scan(&layout, &scores, 1, &labels, &mut next, &mut changed)?;
        let all = d.into_host(sums)?.into_iter().chain(d.into_host(changed)?);
        let all = all.map(|v| v as u64).collect::<Vec<_>>();
        Ok(all.into_iter().chain(d.into_host(next)?.into_iter().map(u64::from)).collect())
    });
}
