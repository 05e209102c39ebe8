//! What is refused, and what is not.

use super::*;
use crate::IDENTITY;
use crate::ops::histogram::{
    Binning, JointScheme, LayoutOptions, MAX_MOVING, MovingView, ParzenBins, SampleSet, Scheme,
    Terms,
};
use crate::ops::resample::{Interpolation, LabelInterpolation, MAX_VOXELS};
use crate::ops::sort::{KeyRange, MOST_KEYS};
use crate::ops::{Histogram, Resample, Sort};

/// One voxel more than is taken.
const TOO_MANY: Dims = [2048, 2048, 512];

fn refused<T>(what: &str, done: Result<T>) {
    match done {
        Err(ComputeError::Argument { expected, .. }) => {
            assert!(
                expected.contains("2^31 - 1") || expected.contains("2147483647"),
                "{what}: {expected}"
            );
        }
        Err(other) => panic!("{what}: another error: {other}"),
        Ok(_) => panic!("{what}: not refused"),
    }
}

pub(super) fn run(cuda: &Cuda) {
    assert_eq!(len(TOO_MANY), MAX_VOXELS + 1);
    assert_eq!((MAX_VOXELS, MAX_MOVING, MOST_KEYS), (i32::MAX as usize, MAX_VOXELS, MAX_VOXELS));
    // Sizes are looked at before lengths: no large buffer is needed.
    let image = cuda.alloc::<f32>(8).unwrap();
    let labels = cuda.alloc::<i32>(8).unwrap();
    let field = cuda.alloc::<f32>(24).unwrap();
    let (mut out, mut out_labels, mut out_field) =
        (cuda.alloc(8).unwrap(), cuda.alloc(8).unwrap(), cuda.alloc(24).unwrap());
    let small = [2, 2, 2];
    for kind in [Interpolation::Nearest, Interpolation::Linear, Interpolation::Cubic] {
        let done = cuda.warp_affine(&image, TOO_MANY, &IDENTITY, small, kind, 0.0, &mut out);
        refused("an image", done);
        let done = cuda.warp_field(&image, TOO_MANY, &IDENTITY, &field, small, kind, 0.0, &mut out);
        refused("an image by a field", done);
    }
    let rule = LabelInterpolation::Nearest;
    let done =
        cuda.warp_labels(&labels, TOO_MANY, &IDENTITY, None, small, rule, 0, &mut out_labels);
    refused("labels", done);
    refused(
        "an outer field",
        cuda.compose_fields(&field, TOO_MANY, &IDENTITY, &field, small, &mut out_field),
    );
    refused("a field", cuda.resample_field(&field, TOO_MANY, &IDENTITY, small, &mut out_field));
    refused("resized", cuda.resize(&image, TOO_MANY, &IDENTITY, small, 0.0, &mut out));

    let options = LayoutOptions {
        binning: Binning { low: 0.0, high: 8.0, bins: 8 },
        workload: 1 << 16,
        keep_values: false,
    };
    let samples = cuda.group_samples(&image, small, None, &options).unwrap();
    let moving = MovingView { values: &image, mask: None, dims: TOO_MANY, border: [0.0; 3] };
    let columns = ParzenBins { low: 0.0, high: 1.0, count: 8 };
    let maps = [IDENTITY];
    for scheme in Scheme::ALL {
        refused("binned sums", cuda.binned_sums(Terms::Ratio, scheme, &samples, &moving, &maps));
    }
    let derivatives = |_: usize, sums: &[f64]| sums.to_vec();
    refused(
        "a gradient",
        cuda.binned_gradient(
            Terms::Ratio,
            Scheme::ConflictFree,
            &samples,
            &moving,
            &maps,
            &derivatives,
        ),
    );
    refused(
        "a joint histogram",
        cuda.joint_histogram(JointScheme::Default, &samples, &moving, &columns, &maps),
    );
    let tables = [vec![0.0; 64]];
    refused("its gradient", cuda.joint_gradient(&samples, &moving, &columns, &maps, &tables));

    // A sort looks at its buffers.
    let done = crate::ops::sort::check::<u32>(KeyRange::Full, MOST_KEYS + 1, None, &[]);
    refused("keys", done);
    if !cuda.is_emulated() {
        sorts(cuda);
        fixed_images(cuda, &options);
    }
}

fn sorts(cuda: &Cuda) {
    let keys = cuda.alloc::<u32>(MOST_KEYS + 1).unwrap();
    let (mut sorted, mut values) =
        (cuda.alloc(MOST_KEYS + 1).unwrap(), cuda.alloc(MOST_KEYS + 1).unwrap());
    let starts = cuda.alloc::<u32>(1).unwrap();
    refused("keys", cuda.sort_keys(KeyRange::Full, &keys, &mut sorted));
    refused("pairs", cuda.sort_pairs(KeyRange::Full, &keys, None, &mut sorted, &mut values));
    refused(
        "segments",
        cuda.sort_segments(KeyRange::Full, &keys, None, &starts, &mut sorted, &mut values),
    );
    // As many as are taken come sorted: zeros, and two that are not.
    let n = MOST_KEYS;
    let (mut keys, mut sorted) = (cuda.alloc::<u32>(n).unwrap(), cuda.alloc::<u32>(n).unwrap());
    drop(values);
    cuda.write(&[7u32], &mut keys, 0).unwrap();
    cuda.write(&[5u32], &mut keys, n - 9).unwrap();
    let mut positions = cuda.alloc::<u32>(n).unwrap();
    cuda.sort_pairs(KeyRange::Known { low: 0, high: 7 }, &keys, None, &mut sorted, &mut positions)
        .unwrap();
    let (mut last, mut from) = ([0; 3], [0; 3]);
    cuda.read(&sorted, n - 3, &mut last).unwrap();
    cuda.read(&positions, n - 3, &mut from).unwrap();
    assert_eq!((last, from), ([0, 5, 7], [n as u32 - 1, n as u32 - 9, 0]));
}

/// The fixed image may have more.
fn fixed_images(cuda: &Cuda, options: &LayoutOptions) {
    use crate::ops::elementwise::x;
    let dims = [2048, 2048, 520];
    let n = len(dims);
    let mut fixed = cuda.alloc::<f32>(n).unwrap();
    cuda.eval_in_place(&(x(0) + 2.5), &mut fixed, &[], &[], None).unwrap();
    // The last voxels are of another bin.
    cuda.write(&[6.5f32; 100], &mut fixed, n - 100).unwrap();
    let samples = cuda.group_samples(&fixed, dims, None, options).unwrap();
    assert_eq!(samples.len(), n);
    let mut image = cuda.alloc::<f32>(1000).unwrap();
    cuda.eval_in_place(&(x(0) + 3.0), &mut image, &[], &[], None).unwrap();
    let moving = MovingView { values: &image, mask: None, dims: [10; 3], border: [0.0; 3] };
    let mut map = [[0.0; 4]; 3];
    for a in 0..3 {
        (map[a][a], map[a][3]) = (8.0 / dims[a] as f64, 0.5);
    }
    let sums = cuda
        .binned_sums(Terms::Ratio, Scheme::ConflictFree, &samples, &moving, &[map])
        .unwrap()
        .remove(0);
    let close = |found: f64, expected: f64| (found - expected).abs() <= 1e-6 * expected;
    for (bin, count) in [(2, n - 100), (6, 100)] {
        let count = count as f64;
        let of_bin = &sums[3 * bin..3 * bin + 3];
        let expected = [count, 3.0 * count, 9.0 * count];
        assert!(
            of_bin.iter().zip(expected).all(|(f, e)| close(*f, e)),
            "{of_bin:?}, not {expected:?}"
        );
    }
}
