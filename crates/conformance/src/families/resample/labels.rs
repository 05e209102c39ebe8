//! Warping of labels.

use voxalign_compute::ops::resample::{Interpolation, LabelInterpolation};
use voxalign_compute::{Device, Dims, IDENTITY};

use super::{displaced, field, is_at_jump, is_inside, maps, pairs, position, value};
use crate::support::{Random, Results, assert_bits_of_cpu, indices, len};

fn label_image(dims: Dims) -> Vec<i32> {
    let mut random = Random::new(9);
    (0..len(dims)).map(|_| [3, -1, 70_000, 8][(4.0 * random.unit()) as usize]).collect()
}

/// The labels by falling weight; ties in the order of the labels.
fn ranked(src: &[i32], dims: Dims, p: [f64; 3]) -> Vec<(f64, i32)> {
    let mut labels = src.to_vec();
    labels.sort_unstable();
    labels.dedup();
    let mut ranked: Vec<(f64, i32)> = labels
        .into_iter()
        .map(|label| {
            let mask: Vec<f64> = src.iter().map(|&l| if l == label { 1.0 } else { 0.0 }).collect();
            (value(&mask, dims, p, Interpolation::Linear), label)
        })
        .collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    ranked
}

pub(crate) fn labels<D: Device>(device: &D) {
    const NONE: i32 = i32::MIN;
    for (dims, out_dims) in pairs().into_iter().filter(|(dims, _)| len(*dims) < 1000) {
        let src = label_image(dims);
        let buffer = device.upload(&src).unwrap();
        let some = field(out_dims, 0.4);
        for map in maps(dims) {
            for (rule, field) in [
                (LabelInterpolation::Nearest, None),
                (LabelInterpolation::Nearest, Some(&some)),
                (LabelInterpolation::Majority, None),
                (LabelInterpolation::Majority, Some(&some)),
            ] {
                let mut out = device.alloc(len(out_dims)).unwrap();
                let uploaded = field.map(|f| device.upload(f).unwrap());
                device
                    .warp_labels(
                        &buffer,
                        dims,
                        &map,
                        uploaded.as_ref(),
                        out_dims,
                        rule,
                        NONE,
                        &mut out,
                    )
                    .unwrap();
                let out = device.into_host(out).unwrap();
                for (at, &found) in indices(out_dims).zip(&out) {
                    let p = field.map_or(at.map(|i| i as f64), |f| displaced(f, out_dims, at));
                    let p = position(&map, p);
                    if is_at_jump(p, dims, Interpolation::Nearest) {
                        continue;
                    }
                    if !is_inside(p, dims) {
                        assert_eq!(found, NONE);
                    } else if rule == LabelInterpolation::Nearest {
                        let mask: Vec<f64> = src.iter().map(|&l| f64::from(l)).collect();
                        assert_eq!(f64::from(found), value(&mask, dims, p, Interpolation::Nearest));
                    } else {
                        let ranked = ranked(&src, dims, p);
                        let best = ranked[0];
                        if ranked.len() == 1 || best.0 - ranked[1].0 > 1e-4 {
                            assert_eq!(found, best.1, "{dims:?} {map:?} at {at:?}: {ranked:?}");
                        }
                    }
                }
            }
        }
    }
    // Half-way between two labels the smaller is taken, whichever comes first.
    for src in [[5, 2], [2, 5]] {
        let buffer = device.upload(&src).unwrap();
        let mut out = device.alloc(1).unwrap();
        let half = [[1.0, 0.0, 0.0, 0.5], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]];
        let rule = LabelInterpolation::Majority;
        device.warp_labels(&buffer, [2, 1, 1], &half, None, [1; 3], rule, NONE, &mut out).unwrap();
        assert_eq!(device.into_host(out).unwrap(), [2]);
    }
}

pub(crate) fn bits_of_the_cpu<D: Device>(device: &D) {
    assert_bits_of_cpu(device, bits, bits);
}

/// Positions half-way between voxels, which are exact, go to the voxel of higher index.
pub(crate) fn ties<D: Device>(device: &D) {
    let (dims, out_dims) = ([300, 9, 4], [299, 8, 3]);
    let src: Vec<i32> = (0..len(dims)).map(|i| i as i32).collect();
    let buffer = device.upload(&src).unwrap();
    let half = [[1.0, 0.0, 0.0, 0.5], [0.0, 1.0, 0.0, 0.5], [0.0, 0.0, 1.0, 0.5]];
    let zero = device.alloc::<f32>(3 * len(out_dims)).unwrap();
    for field in [None, Some(&zero)] {
        let mut out = device.alloc(len(out_dims)).unwrap();
        let rule = LabelInterpolation::Nearest;
        device.warp_labels(&buffer, dims, &half, field, out_dims, rule, -1, &mut out).unwrap();
        let expected: Vec<i32> = indices(out_dims)
            .map(|at| src[crate::support::offset(dims, at.map(|i| i + 1))])
            .collect();
        assert_eq!(device.into_host(out).unwrap(), expected);
    }
}

pub(crate) fn errors<D: Device>(device: &D) {
    let (dims, rule) = ([4, 3, 2], LabelInterpolation::Majority);
    let (src, mut out) = (device.alloc::<i32>(24).unwrap(), device.alloc::<i32>(24).unwrap());
    let field = device.alloc::<f32>(24).unwrap();
    assert!(device.warp_labels(&src, dims, &IDENTITY, None, [4, 3, 1], rule, 0, &mut out).is_err());
    assert!(device.warp_labels(&src, [4, 3, 1], &IDENTITY, None, dims, rule, 0, &mut out).is_err());
    let field = Some(&field);
    assert!(device.warp_labels(&src, dims, &IDENTITY, field, dims, rule, 0, &mut out).is_err());
}

pub(crate) fn bits<D: Device>(device: &D) -> Results {
    let mut results = Results::new();
    for (dims, out_dims) in pairs().into_iter().chain([([40, 30, 20], [70, 41, 35])]) {
        let labels = device.upload(&label_image(dims)).unwrap();
        let field = device.upload(&field(out_dims, 0.7)).unwrap();
        for map in maps(dims) {
            for rule in [LabelInterpolation::Nearest, LabelInterpolation::Majority] {
                for field in [None, Some(&field)] {
                    let mut out = device.alloc(len(out_dims)).unwrap();
                    device
                        .warp_labels(&labels, dims, &map, field, out_dims, rule, 0, &mut out)
                        .unwrap();
                    let out = device.into_host(out).unwrap();
                    let name = format!("{rule:?} {dims:?} {map:?} {}", field.is_some());
                    results.push((name, out.iter().map(|&l| l as f32).collect()));
                }
            }
        }
    }
    results
}
