//! Sums over all pairs against one pair at a time.

use voxalign_compute::Device;
use voxalign_compute::ops::pairwise::{KernelShape, RadialKernel};

use crate::support::{Random, Results};

const SHAPES: [KernelShape; 2] = [KernelShape::Gaussian, KernelShape::Cauchy];

struct Pairs {
    targets: Vec<f32>,
    moments: Vec<f32>,
    sources: Vec<f32>,
    weights: Vec<f32>,
}

fn pairs(targets: usize, sources: usize, components: usize) -> Pairs {
    let mut random = Random::new(12);
    let mut list = |n: usize, low, high| -> Vec<f32> {
        (0..n).map(|_| random.between(low, high) as f32).collect()
    };
    Pairs {
        targets: list(3 * targets, -30.0, 30.0),
        moments: list(components * targets, -1.0, 2.0),
        sources: list(3 * sources, -25.0, 35.0),
        weights: list(components * sources, -2.0, 1.0),
    }
}

/// The sums alone, and the same again with derivatives.
fn found<D: Device>(
    device: &D,
    kernel: &RadialKernel,
    pairs: &Pairs,
    components: usize,
) -> [Vec<f32>; 3] {
    let count = pairs.targets.len() / 3;
    let upload = |list: &[f32]| device.upload(list).unwrap();
    let (targets, moments) = (upload(&pairs.targets), upload(&pairs.moments));
    let (sources, weights) = (upload(&pairs.sources), upload(&pairs.weights));
    let alloc = |n: usize| device.alloc::<f32>(n).unwrap();
    let (mut alone, mut out) = (alloc(components * count), alloc(components * count));
    let mut derivatives = alloc(3 * count);
    device.pair_sums(kernel, &targets, &sources, &weights, &mut alone).unwrap();
    device
        .pair_sums_with_derivatives(
            kernel,
            &targets,
            &moments,
            &sources,
            &weights,
            &mut out,
            &mut derivatives,
        )
        .unwrap();
    [alone, out, derivatives].map(|b| device.into_host(b).unwrap())
}

/// The energy `Σ_ij k(x_i, y_j) α_i · β_j` of one target, where it is.
fn energy(kernel: &RadialKernel, pairs: &Pairs, components: usize, i: usize, at: [f64; 3]) -> f64 {
    let (count, n) = (pairs.targets.len() / 3, pairs.sources.len() / 3);
    let of_source = |j: usize| {
        let off = |a: usize| at[a] - f64::from(pairs.sources[a * n + j]);
        let distance = (0..3).map(|a| off(a).powi(2)).sum::<f64>().sqrt();
        let dot = |c: usize| {
            f64::from(pairs.moments[c * count + i]) * f64::from(pairs.weights[c * n + j])
        };
        kernel.at(distance) * (0..components).map(dot).sum::<f64>()
    };
    (0..n).map(of_source).sum()
}

/// Sizes that fill no block, and more sources than a block of a GPU takes.
const SIZES: [(usize, usize, usize); 6] =
    [(1, 1, 3), (5, 2, 1), (17, 300, 6), (130, 129, 3), (40, 8200, 1), (600, 31, 3)];

pub(crate) fn sums<D: Device>(device: &D) {
    for shape in SHAPES {
        for (count, n, components) in SIZES {
            for width in [0.5, 6.0, 80.0] {
                let (kernel, pairs) = (RadialKernel { shape, width }, pairs(count, n, components));
                let [alone, out, _] = found(device, &kernel, &pairs, components);
                for i in 0..count {
                    for c in 0..components {
                        let (mut sum, mut size) = (0.0, 0.0);
                        for j in 0..n {
                            let off = |a: usize| {
                                f64::from(pairs.targets[a * count + i])
                                    - f64::from(pairs.sources[a * n + j])
                            };
                            let distance = (0..3).map(|a| off(a).powi(2)).sum::<f64>().sqrt();
                            let part = kernel.at(distance) * f64::from(pairs.weights[c * n + j]);
                            sum += part;
                            // Places are rounded, which the kernel follows by its derivative.
                            let rounded = 2e-7 * 60.0 / width * 2.0 * distance / width;
                            size += part.abs() * (3e-6 + rounded);
                        }
                        for found in [alone[c * count + i], out[c * count + i]] {
                            let off = (f64::from(found) - sum).abs();
                            assert!(off <= size + 1e-30, "{kernel:?}: {found} not {sum}");
                        }
                    }
                }
            }
        }
    }
}

/// Derivatives are derivatives of the energy in the target.
pub(crate) fn derivatives<D: Device>(device: &D) {
    for shape in SHAPES {
        for (count, n, components) in SIZES {
            let (kernel, pairs) = (RadialKernel { shape, width: 9.0 }, pairs(count, n, components));
            let [_, _, derivatives] = found(device, &kernel, &pairs, components);
            let most = derivatives.iter().fold(1e-3f32, |m, s| m.max(s.abs()));
            for i in (0..count).step_by(1 + count / 20) {
                let at = [0, 1, 2].map(|a| f64::from(pairs.targets[a * count + i]));
                for a in 0..3 {
                    let value = |h: f64| {
                        let mut there = at;
                        there[a] += h;
                        energy(&kernel, &pairs, components, i, there)
                    };
                    let expected = (value(1e-4) - value(-1e-4)) / 2e-4;
                    let off = (f64::from(derivatives[a * count + i]) - expected).abs();
                    assert!(off <= 2e-5 * f64::from(most), "{kernel:?}: {off:e} of {most}");
                }
            }
        }
    }
}

/// Neighbours follow each other and most are far: what is passed by would have added nothing.
pub(crate) fn far<D: Device>(device: &D) {
    let line = |n: usize, off: f32| -> Vec<f32> {
        (0..3).flat_map(|a| (0..n).map(move |i| off + [0.05, 0.01, -0.02][a] * i as f32)).collect()
    };
    let mut pairs = pairs(1500, 2000, 3);
    (pairs.targets, pairs.sources) = (line(1500, 0.0), line(2000, 0.03));
    let kernel = RadialKernel { shape: KernelShape::Gaussian, width: 0.5 };
    let [alone, out, derivatives] = found(device, &kernel, &pairs, 3);
    for i in (0..1500).step_by(61) {
        for c in 0..3 {
            let at =
                |list: &[f32], n: usize, k: usize| [0, 1, 2].map(|a| f64::from(list[a * n + k]));
            let here = at(&pairs.targets, 1500, i);
            let (mut sum, mut size) = (0.0, 0.0);
            for j in 0..2000 {
                let there = at(&pairs.sources, 2000, j);
                let square: f64 = (0..3).map(|a| (here[a] - there[a]).powi(2)).sum();
                let part = kernel.at(square.sqrt()) * f64::from(pairs.weights[c * 2000 + j]);
                sum += part;
                size += part.abs() * (1e-5 + 1e-4 * square.sqrt());
            }
            for found in [alone[c * 1500 + i], out[c * 1500 + i]] {
                assert!((f64::from(found) - sum).abs() <= size, "{found} not {sum}");
            }
        }
    }
    assert!(derivatives.iter().all(|s| s.is_finite()) && derivatives.iter().any(|&s| s != 0.0));
    // Mixed up, nothing is passed by.
    let order = |n: usize| (0..n).map(move |i| i * 7919 % n).collect::<Vec<_>>();
    let mixed = |list: &[f32], n: usize| -> Vec<f32> {
        list.chunks_exact(n).flat_map(|l| order(n).into_iter().map(|i| l[i])).collect()
    };
    let mut other = Pairs { targets: mixed(&pairs.targets, 1500), ..pairs };
    other.moments = mixed(&other.moments, 1500);
    let [_, again, turned] = found(device, &kernel, &other, 3);
    assert!(again == mixed(&out, 1500) && turned == mixed(&derivatives, 1500), "other bits");
}

/// What is not a number is passed by nowhere.
pub(crate) fn not_finite<D: Device>(device: &D) {
    let kernel = RadialKernel { shape: KernelShape::Gaussian, width: 0.01 };
    for which in 0..4 {
        let mut pairs = pairs(40, 300, 3);
        let list = match which {
            0 => &mut pairs.targets,
            1 => &mut pairs.sources,
            2 => &mut pairs.weights,
            _ => &mut pairs.moments,
        };
        list[21] = f32::NAN;
        let [alone, out, derivatives] = found(device, &kernel, &pairs, 3);
        let some = |list: &[f32]| list.iter().any(|v| v.is_nan());
        assert!(some(&derivatives) && (which == 3 || some(&alone) && some(&out)), "{which}");
    }
}

pub(crate) fn nothing<D: Device>(device: &D) {
    let kernel = RadialKernel { shape: KernelShape::Gaussian, width: 2.0 };
    for (count, n) in [(0, 5), (5, 0), (0, 0)] {
        let found = found(device, &kernel, &pairs(count, n, 3), 3);
        assert!(found.iter().flatten().all(|&v| v == 0.0) && found[0].len() == 3 * count);
    }
}

pub(crate) fn errors<D: Device>(device: &D) {
    let alloc = |n: usize| device.alloc::<f32>(n).unwrap();
    let kernel = |width| RadialKernel { shape: KernelShape::Cauchy, width };
    let (targets, sources) = (alloc(6), alloc(9));
    let sum = |width, weights: usize, out: usize| {
        device.pair_sums(&kernel(width), &targets, &sources, &alloc(weights), &mut alloc(out))
    };
    assert!(sum(1.0, 9, 6).is_ok() && sum(1.0, 3, 2).is_ok());
    assert!(sum(1.0, 6, 4).is_err(), "two components");
    assert!(sum(1.0, 9, 5).is_err());
    for width in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(sum(width, 9, 6).is_err());
    }
    let (weights, moments) = (alloc(9), alloc(5));
    let (mut out, mut derivatives) = (alloc(6), alloc(6));
    let (kernel, moments) = (kernel(1.0), &moments);
    let wrong = device.pair_sums_with_derivatives(
        &kernel,
        &targets,
        moments,
        &sources,
        &weights,
        &mut out,
        &mut derivatives,
    );
    assert!(wrong.is_err());
}

pub(crate) fn bits<D: Device>(device: &D) -> Results {
    let mut results = Results::new();
    for shape in SHAPES {
        for (count, n, components) in SIZES {
            let (kernel, pairs) = (RadialKernel { shape, width: 4.0 }, pairs(count, n, components));
            for (k, list) in found(device, &kernel, &pairs, components).into_iter().enumerate() {
                results.push((format!("{kernel:?} {count} {n} {components} {k}"), list));
            }
        }
    }
    results
}
