//! Values taken over from bytes of any type and order, and counts, against one voxel at a time.

use voxalign_compute::ops::values::{MOST_BINS, Number, Strided};
use voxalign_compute::{Device, Dims};

use crate::support::{Random, Results, SIZES, assert_bits_of_cpu, indices, len, offset};

/// Numbers of a type that take all of its bits, in bytes, and as floats.
fn numbers(number: Number, count: usize) -> (Vec<u8>, Vec<f32>) {
    let mut random = Random::new(91);
    let (mut bytes, mut floats) = (Vec::new(), Vec::new());
    for i in 0..count {
        // Neighbours of halves, which are rounded to even ones, and numbers of all lengths.
        let [one, other] = [0, 21].map(|by| random.between(0.0, 1e6).to_bits().rotate_left(by));
        let wide = (one ^ other) >> (i % 61);
        macro_rules! number {
            ($t:ty) => {{
                let value =
                    if i % 5 == 0 { ((1u64 << 24) + 2 * i as u64 + 1) as $t } else { wide as $t };
                bytes.extend(value.to_ne_bytes());
                value as f32
            }};
        }
        floats.push(match number {
            Number::Bool => {
                let byte = [0, 1, 0, 255][i % 4];
                bytes.push(byte);
                f32::from(u8::from(byte != 0))
            }
            Number::I8 => number!(i8),
            Number::U8 => number!(u8),
            Number::I16 => number!(i16),
            Number::U16 => number!(u16),
            Number::I32 => number!(i32),
            Number::U32 => number!(u32),
            Number::I64 => number!(i64),
            Number::U64 => number!(u64),
            Number::F16 => {
                let (half, float) = HALVES[i % HALVES.len()];
                bytes.extend(half.to_ne_bytes());
                float
            }
            Number::F32 => {
                let value = random.between(-1e3, 1e3) as f32;
                let value = if i % 7 == 3 { NOT_NUMBERS[i % 2] } else { value };
                bytes.extend(value.to_ne_bytes());
                value
            }
            Number::F64 => {
                let not_a_number = f64::from(NOT_NUMBERS[i % 2]);
                let value =
                    [1e300, -1e300, 0.1, -0.0, not_a_number, 1e-50, 16_777_217.0, 3.5e38][i % 8];
                bytes.extend(f64::to_ne_bytes(value));
                value as f32
            }
        });
    }
    (bytes, floats)
}

/// Numbers of half precision: the least, the largest below 1, the largest, zeros, infinities and what is no number among
/// them.
const HALVES: [(u16, f32); 10] = [
    (0x0001, 5.960_464_5e-8),
    (0x03ff, 6.097_555_e-5),
    (0x3c00, 1.0),
    (0x3bff, 0.999_511_7),
    (0xfbff, -65504.0),
    (0x8000, -0.0),
    (0x7c00, f32::INFINITY),
    (0x3555, 0.333_251_95),
    (0x7e00, f32::NAN),
    (0xfc01, f32::NAN),
];

/// What is no number, of both signs.
const NOT_NUMBERS: [f32; 2] = [f32::NAN, -f32::NAN];

fn found<D: Device>(device: &D, bytes: &[u8], at: &Strided, dims: Dims) -> Vec<f32> {
    let bytes = device.upload(bytes).unwrap();
    let mut out = device.alloc(len(dims)).unwrap();
    device.values_of(&bytes, at, dims, &mut out).unwrap();
    device.into_host(out).unwrap()
}

/// The bits of values, which are any where these are not numbers.
fn to_bits(values: &[f32]) -> Vec<Option<u32>> {
    values.iter().map(|v| (!v.is_nan()).then(|| v.to_bits())).collect()
}

/// Numbers of all types, x first.
pub(crate) fn taken_over<D: Device>(device: &D) {
    for dims in SIZES {
        let [nx, ny, _] = dims.map(|n| n as isize);
        for number in Number::ALL {
            let (bytes, floats) = numbers(number, len(dims));
            let at = Strided { number, first: 0, steps: [1, nx, nx * ny] };
            let found = found(device, &bytes, &at, dims);
            assert_eq!(to_bits(&found), to_bits(&floats), "{number:?} {dims:?}");
        }
    }
}

/// Other orders, every second number, axes that run backwards, and one that stays.
pub(crate) fn places_apart<D: Device>(device: &D) {
    for dims in SIZES {
        let [nx, ny, nz] = dims.map(|n| n as isize);
        for number in [Number::U8, Number::I16, Number::F32, Number::F64] {
            for (first, steps) in [
                (0, [ny * nz, nz, 1]),
                (3, [2, 2 * nx, 2 * nx * ny]),
                (nx - 1, [-1, nx, nx * ny]),
                (nx * ny * nz - 1, [-ny * nz, -nz, -1]),
                (1, [1, 0, nx]),
            ] {
                let at = Strided { number, first: first as usize, steps };
                let (bytes, floats) = numbers(number, 3 + 2 * len(dims));
                let expected: Vec<f32> = indices(dims)
                    .map(|at| {
                        let way: isize =
                            at.iter().zip(steps).map(|(&i, step)| i as isize * step).sum();
                        floats[(first + way) as usize]
                    })
                    .collect();
                let found = found(device, &bytes, &at, dims);
                assert_eq!(to_bits(&found), to_bits(&expected), "{number:?} {dims:?} {steps:?}");
            }
        }
    }
}

/// Two images with values beyond their ranges and some that are not finite, and weights.
fn images(dims: Dims) -> [Vec<f32>; 3] {
    let mut random = Random::new(92);
    let [mut first, mut second, mut weights] = [(); 3].map(|()| random.image(dims));
    for (i, value) in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY].into_iter().enumerate() {
        let n = first.len();
        first[7 * i % n] = value;
        second[(5 * i + 2) % n] = value;
    }
    weights.iter_mut().for_each(|w| *w = w.min(0.0) + f32::from(*w > 50.0));
    [first, second, weights]
}

const RANGES: [[f64; 2]; 2] = [[-20.0, 150.0], [0.0, 200.0]];

pub(crate) fn pairs<D: Device>(device: &D) {
    let width = |[low, high]: [f64; 2]| if high > low { high - low } else { f64::INFINITY };
    // The last has several blocks.
    for dims in SIZES.into_iter().chain([[70, 41, 35]]) {
        let [first, second, weights] = images(dims);
        let [a, b, w] = [&first, &second, &weights].map(|v| device.upload(v).unwrap());
        for (ranges, bins) in
            [(RANGES, 1), (RANGES, 7), (RANGES, 64), (RANGES, 200), ([[3.0; 2], RANGES[1]], 16)]
        {
            for weighted in [false, true] {
                let mut expected = vec![0u64; bins * bins];
                for i in 0..len(dims) {
                    let (x, y) = (f64::from(first[i]), f64::from(second[i]));
                    if !x.is_finite() || !y.is_finite() || (weighted && weights[i] <= 0.0) {
                        continue;
                    }
                    let [column, row] = [(x, ranges[0]), (y, ranges[1])].map(|(v, range)| {
                        let at = ((v - range[0]) / width(range) * bins as f64).floor();
                        at.clamp(0.0, bins as f64 - 1.0) as usize
                    });
                    expected[row * bins + column] += 1;
                }
                let w = weighted.then_some(&w);
                let found = device.pair_counts(&a, &b, w, ranges, bins).unwrap();
                assert_eq!(found, expected, "{dims:?} {bins} bins");
            }
        }
    }
}

pub(crate) fn slices<D: Device>(device: &D) {
    for dims in SIZES.into_iter().chain([[70, 41, 35], [9000, 2, 1]]) {
        let image = images(dims)[0].clone();
        let on_device = device.upload(&image).unwrap();
        for above in [-1e9, 0.0, 100.0, 1e9] {
            let mut expected = dims.map(|n| vec![0u64; n]);
            for at in indices(dims).filter(|&at| image[offset(dims, at)] > above) {
                (0..3).for_each(|a| expected[a][at[a]] += 1);
            }
            let found = device.slice_counts(&on_device, dims, above).unwrap();
            assert_eq!(found, expected, "{dims:?} above {above}");
        }
    }
}

pub(crate) fn errors<D: Device>(device: &D) {
    let bytes = device.alloc::<u8>(4 * 24).unwrap();
    let mut out = device.alloc::<f32>(24).unwrap();
    let at = |first, steps| Strided { number: Number::F32, first, steps };
    let dims = [4, 3, 2];
    assert!(device.values_of(&bytes, &at(0, [1, 4, 12]), dims, &mut out).is_ok());
    for wrong in [at(1, [1, 4, 12]), at(0, [-1, 4, 12]), at(0, [1, 4, 13]), at(0, [isize::MAX; 3])]
    {
        assert!(device.values_of(&bytes, &wrong, dims, &mut out).is_err(), "{wrong:?}");
    }
    let wide = Strided { number: Number::F64, ..at(0, [1, 4, 12]) };
    assert!(device.values_of(&bytes, &wide, dims, &mut out).is_err());
    assert!(device.values_of(&bytes, &at(0, [1, 4, 12]), [4, 3, 1], &mut out).is_err());
    assert!(device.values_of(&bytes, &at(0, [1, 4, 12]), [4, 0, 2], &mut out).is_err());
    let short = device.alloc::<f32>(23).unwrap();
    let ranges = [[0.0, 1.0]; 2];
    assert!(device.pair_counts(&out, &out, None, ranges, 8).is_ok());
    assert!(device.pair_counts(&out, &short, None, ranges, 8).is_err());
    assert!(device.pair_counts(&out, &out, Some(&short), ranges, 8).is_err());
    assert!(device.pair_counts(&out, &out, None, ranges, 0).is_err());
    assert!(device.pair_counts(&out, &out, None, ranges, MOST_BINS + 1).is_err());
    assert!(device.pair_counts(&out, &out, None, [[0.0, f64::NAN]; 2], 8).is_err());
    assert!(device.slice_counts(&short, dims, 0.0).is_err());
}

pub(crate) fn bits_of_the_cpu<D: Device>(device: &D) {
    assert_bits_of_cpu(device, bits, bits);
}

pub(crate) fn bits<D: Device>(device: &D) -> Results {
    let dims = [70, 41, 35];
    let [first, second, _] = images(dims);
    let bytes: Vec<u8> = first.iter().flat_map(|v| v.to_ne_bytes()).collect();
    let at = Strided { number: Number::F32, first: 0, steps: [41 * 35, 35, 1] };
    let [a, b] = [&first, &second].map(|v| device.upload(v).unwrap());
    let counts = device.pair_counts(&a, &b, None, RANGES, 32).unwrap();
    let slices = device.slice_counts(&a, dims, 10.0).unwrap();
    let floats = |counts: Vec<u64>| counts.into_iter().map(|c| c as f32).collect();
    vec![
        ("turned".into(), found(device, &bytes, &at, dims)),
        ("pairs".into(), floats(counts)),
        ("slices".into(), floats(slices.concat())),
    ]
}
