//! Properties that hold for all images, sizes and maps.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use voxalign_compute::cpu::Cpu;
use voxalign_compute::ops::filter::GaussianMethod;
use voxalign_compute::ops::reduce::Reduction::{Dot, Max, Min, Sum};
use voxalign_compute::ops::resample::{Interpolation, LabelInterpolation};
use voxalign_compute::ops::{Filter, Reduce, Resample, Stencil};
use voxalign_compute::{AffineMap, Dims, IDENTITY, Memory};

fn cpu() -> Cpu {
    Cpu::new(Some(1)).unwrap()
}

fn dims() -> impl Strategy<Value = Dims> {
    [1usize..40, 1usize..20, 1usize..9]
}

fn image(dims: Dims) -> impl Strategy<Value = Vec<f32>> {
    prop::collection::vec(-100f32..100.0, dims.iter().product::<usize>())
}

/// Sizes and two images of them.
fn two_images() -> impl Strategy<Value = (Dims, Vec<f32>, Vec<f32>)> {
    dims().prop_flat_map(|d| (Just(d), image(d), image(d)))
}

/// Any finite map, of any size.
fn wild_map() -> impl Strategy<Value = AffineMap> {
    let number = prop_oneof![-3f64..3.0, -1e6f64..1e6, prop::num::f64::NORMAL, Just(0.0)];
    prop::array::uniform3(prop::array::uniform4(number))
}

fn dot(cpu: &Cpu, a: &[f32], b: &[f32]) -> f64 {
    let (a, b) = (cpu.upload(a).unwrap(), cpu.upload(b).unwrap());
    cpu.reduce(&[&a, &b], &[Dot(0, 1)]).unwrap()[0]
}

fn smoothed(
    cpu: &Cpu,
    src: &[f32],
    dims: Dims,
    sigma: [f64; 3],
    method: GaussianMethod,
) -> Vec<f32> {
    let src = cpu.upload(src).unwrap();
    let mut out = cpu.alloc(src.as_slice().len()).unwrap();
    cpu.gaussian(&src, dims, sigma, method, &mut out).unwrap();
    cpu.into_host(out).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// No map, however wild, reads outside of the source, and no value is outside its range.
    #[test]
    fn warps_stay_in_range(
        (src_dims, src, _) in two_images(),
        (out_dims, displacement, _) in two_images(),
        map in wild_map(),
        outside in -100f32..100.0,
    ) {
        let cpu = cpu();
        let n = displacement.len();
        let labels = cpu.upload_vec((0..src.len() as i32).collect::<Vec<_>>()).unwrap();
        let src = cpu.upload(&src).unwrap();
        let range = cpu.reduce(&[&src], &[Min(0), Max(0)]).unwrap();
        let field = cpu.upload_vec([&displacement[..]; 3].concat()).unwrap();
        let mut out = cpu.alloc::<f32>(n).unwrap();
        for kind in [Interpolation::Nearest, Interpolation::Linear, Interpolation::Cubic] {
            for by_field in [false, true] {
                if by_field {
                    cpu.warp_field(&src, src_dims, &map, &field, out_dims, kind, outside, &mut out).unwrap();
                } else {
                    cpu.warp_affine(&src, src_dims, &map, out_dims, kind, outside, &mut out).unwrap();
                }
                if kind != Interpolation::Cubic {
                    for &v in out.as_slice() {
                        let inside = f64::from(v) >= range[0] - 1e-4 && f64::from(v) <= range[1] + 1e-4;
                        prop_assert!(v == outside || inside, "{v} outside {range:?}");
                    }
                }
            }
        }
        let mut chosen = cpu.alloc::<i32>(n).unwrap();
        for rule in [LabelInterpolation::Nearest, LabelInterpolation::Majority] {
            for field in [None, Some(&field)] {
                cpu.warp_labels(&labels, src_dims, &map, field, out_dims, rule, -1, &mut chosen).unwrap();
                prop_assert!(chosen.as_slice().iter().all(|&l| l >= -1 && l < labels.as_slice().len() as i32));
            }
        }
    }

    /// Composing with no displacement changes nothing.
    #[test]
    fn composition_with_identity(dims in dims(), seed in 0u32..1000) {
        let cpu = cpu();
        let n: usize = dims.iter().product();
        let field: Vec<f32> =
            (0..3 * n as u32).map(|i| ((i * 7 + seed) % 31) as f32 * 0.1 - 1.5).collect();
        let field = cpu.upload_vec(field).unwrap();
        let zero = cpu.alloc(3 * n).unwrap();
        let mut out = cpu.alloc(3 * n).unwrap();
        for (outer, inner) in [(&field, &zero), (&zero, &field)] {
            cpu.compose_fields(outer, dims, &IDENTITY, inner, dims, &mut out).unwrap();
            for (a, b) in out.as_slice().iter().zip(field.as_slice()) {
                prop_assert!((a - b).abs() < 1e-6);
            }
        }
    }

    /// A Gaussian is linear, and does not leave the range of the values (but for the fit).
    #[test]
    fn gaussian_is_linear(
        (dims, a, b) in two_images(),
        sigma in [0f64..6.0, 0f64..6.0, 0f64..6.0],
        method in proptest::sample::select(vec![
            GaussianMethod::Recursive,
            GaussianMethod::Narrow,
            GaussianMethod::Fir,
        ]),
    ) {
        let cpu = cpu();
        let sum: Vec<f32> = a.iter().zip(&b).map(|(a, b)| 2.0 * a - b).collect();
        let [a, b, sum] = [a, b, sum].map(|v| smoothed(&cpu, &v, dims, sigma, method));
        for ((a, b), sum) in a.iter().zip(&b).zip(&sum) {
            prop_assert!((2.0 * a - b - sum).abs() < 1e-3);
            prop_assert!(a.abs() < 100.3);
        }
    }

    /// Along an axis, the mean over boxes times their sizes is symmetric.
    #[test]
    fn box_sums_are_symmetric((dims, a, b) in two_images(), radius in [0usize..5, 0usize..30, 0usize..4]) {
        let cpu = cpu();
        let boxes = |src: &[f32]| -> Vec<f32> {
            let src = cpu.upload(src).unwrap();
            let mut out = cpu.alloc(src.as_slice().len()).unwrap();
            cpu.box_mean(&src, dims, radius, &mut out).unwrap();
            let count = |i: usize, a: usize| (i + radius[a]).min(dims[a] - 1) - i.saturating_sub(radius[a]) + 1;
            let means = cpu.into_host(out).unwrap();
            means.iter().enumerate().map(|(i, v)| {
                let at = [i % dims[0], i / dims[0] % dims[1], i / dims[0] / dims[1]];
                v * (0..3).map(|a| count(at[a], a) as f32).product::<f32>()
            }).collect()
        };
        let (left, right) = (dot(&cpu, &boxes(&a), &b), dot(&cpu, &a, &boxes(&b)));
        prop_assert!((left - right).abs() < 1e-4 * (left.abs() + right.abs()) + 1.0);
    }

    /// The gradient sums to the difference of the ends, each voxel between counted fully.
    #[test]
    fn gradient_of_reversed_is_reversed((dims, a, _) in two_images(), h in 0.1f64..5.0) {
        let cpu = cpu();
        let n = a.len();
        let gradient = |src: &[f32], h: f64| {
            let src = cpu.upload(src).unwrap();
            let mut out = cpu.alloc(3 * n).unwrap();
            cpu.gradient(&src, dims, [h; 3], &mut out).unwrap();
            cpu.into_host(out).unwrap()
        };
        let mut reversed = a.clone();
        reversed.reverse();
        let (forward, backward) = (gradient(&a, h), gradient(&reversed, -h));
        for axis in 0..3 {
            for i in 0..n {
                prop_assert_eq!(forward[axis * n + i], backward[axis * n + n - 1 - i]);
            }
        }
    }

    /// Sums do not depend on the number of threads.
    #[test]
    fn sums_have_the_same_bits(values in prop::collection::vec(-1e6f32..1e6, 0..40_000), threads in 2usize..6) {
        let many = Cpu::new(Some(threads)).unwrap();
        let a = many.upload(&values).unwrap();
        let [one, many] = [&cpu(), &many].map(|d| d.reduce(&[&a], &[Sum(0)]).unwrap()[0]);
        prop_assert_eq!(one.to_bits(), many.to_bits());
    }
}
