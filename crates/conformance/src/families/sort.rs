//! Sorts against a stable sort of the standard library.

use voxalign_compute::Device;
use voxalign_compute::ops::SortKey;
use voxalign_compute::ops::sort::KeyRange::{self, Approximate24, Full, Known, Measured};

use crate::support::{Random, Results};

/// About the sizes of warps and of the tiles of a GPU.
const LENGTHS: [usize; 18] =
    [0, 1, 2, 31, 32, 33, 257, 2687, 2688, 2689, 4223, 4224, 4225, 5376, 7679, 7680, 7681, 15_367];

/// Keys of random bits, of which only some differ.
fn keys<K>(n: usize, mask: u64, make: impl Fn(u64) -> K) -> Vec<K> {
    let mut random = Random::new(n as u64 ^ mask);
    let mut half = || (random.unit() * 4_294_967_296.0) as u64;
    (0..n).map(|_| make((half() << 32 | half()) & mask)).collect()
}

/// The positions of the keys, sorted by what `by` gives, segment by segment.
fn positions<K: SortKey>(keys: &[K], starts: &[u32], by: impl Fn(K) -> u64) -> Vec<u32> {
    let mut positions: Vec<u32> = (0..keys.len() as u32).collect();
    positions.sort_by_key(|&i| (starts.partition_point(|&s| s <= i), by(keys[i as usize])));
    positions
}

struct Sorted<K> {
    keys: Vec<K>,
    values: Vec<u32>,
}

fn sorted<D: Device, K: SortKey>(
    device: &D,
    range: KeyRange<K>,
    keys: &[K],
    values: Option<&[u32]>,
    starts: Option<&[u32]>,
) -> Sorted<K> {
    let from = device.upload(keys).unwrap();
    let values = values.map(|v| device.upload(v).unwrap());
    let mut to = device.alloc::<K>(keys.len()).unwrap();
    let mut to_values = device.alloc::<u32>(keys.len()).unwrap();
    match starts {
        None => device.sort_pairs(range, &from, values.as_ref(), &mut to, &mut to_values).unwrap(),
        Some(starts) => {
            let starts = device.upload(starts).unwrap();
            let values = values.as_ref();
            device.sort_segments(range, &from, values, &starts, &mut to, &mut to_values).unwrap();
        }
    }
    assert!(same(&device.into_host(from).unwrap(), keys), "the input has changed");
    Sorted { keys: device.into_host(to).unwrap(), values: device.into_host(to_values).unwrap() }
}

/// Whether keys have the same bits.
fn same<K: SortKey>(a: &[K], b: &[K]) -> bool {
    a.iter().map(|k| k.order()).eq(b.iter().map(|k| k.order()))
}

/// Asserts that a sort gives the right keys and values, with values and without.
fn assert_sorts<D: Device, K: SortKey>(
    device: &D,
    name: &str,
    range: KeyRange<K>,
    keys: &[K],
    by: impl Fn(K) -> u64,
) {
    let expected = positions(keys, &[], by);
    let expected_keys: Vec<K> = expected.iter().map(|&i| keys[i as usize]).collect();
    let found = sorted(device, range, keys, None, None);
    let name = format!("{}: {name}, {} keys, {range:?}", device.name(), keys.len());
    assert!(same(&found.keys, &expected_keys), "{name}: keys");
    assert!(found.values == expected, "{name}: positions");
}

pub(crate) fn every_length<D: Device>(device: &D) {
    for n in LENGTHS {
        assert_sorts(device, "u32", Full, &keys(n, 0xffff, |b| b as u32), u32::order);
        assert_sorts(device, "i64", Measured, &keys(n, 0xfff, |b| b as i64 - 2000), i64::order);
    }
}

pub(crate) fn kinds_of_data<D: Device>(device: &D) {
    let n = 8448 + 300;
    assert_sorts(device, "u32", Full, &keys(n, u64::MAX, |b| b as u32), u32::order);
    assert_sorts(device, "i32", Full, &keys(n, 0xf000_3007, |b| b as i32), i32::order);
    assert_sorts(device, "u64", Full, &keys(n, u64::MAX, |b| b), u64::order);
    assert_sorts(device, "i64", Full, &keys(n, 0xf000_0000_0070_0003, |b| b as i64), i64::order);
    let float = |b: u64| f32::from_bits(b as u32);
    assert_sorts(device, "f32", Full, &keys(n, u64::MAX, float), f32::order);
    let ascending: Vec<i32> = (0..n as i32).map(|i| i / 3 - 1000).collect();
    assert_sorts(device, "ascending", Full, &ascending, i32::order);
    let descending: Vec<i32> = ascending.iter().rev().copied().collect();
    assert_sorts(device, "descending", Measured, &descending, i32::order);
    assert_sorts(device, "constant", Full, &vec![7i32; n], i32::order);
    assert_sorts(device, "constant", Measured, &vec![-7i32; n], i32::order);

    let data = keys(n, 0xff, |b| b as u32);
    let values = keys(n, u64::MAX, |b| b as u32);
    let found = sorted(device, Full, &data, Some(&values), None);
    let expected: Vec<u32> =
        positions(&data, &[], u32::order).iter().map(|&i| values[i as usize]).collect();
    assert!(found.values == expected);
}

pub(crate) fn extreme_keys<D: Device>(device: &D) {
    let floats = [
        f32::NAN,
        -f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        0.0,
        -0.0,
        f32::MAX,
        f32::MIN,
        f32::MIN_POSITIVE,
        -1e-45,
        1.0,
        -1.0,
    ];
    let mut random = Random::new(5);
    let mut pick = |n: usize| (random.unit() * n as f64) as usize;
    let data: Vec<f32> = (0..600).map(|_| floats[pick(floats.len())]).collect();
    for range in [Full, Measured] {
        assert_sorts(device, "floats", range, &data, f32::order);
        let found = sorted(device, range, &data, None, None);
        let ordered = found.keys.windows(2).all(|k| k[0].total_cmp(&k[1]).is_le());
        assert!(ordered, "{}: not in total order", device.name());
    }
    let data: Vec<i64> = (0..600).map(|_| [i64::MIN, -1, 0, 1, i64::MAX][pick(5)]).collect();
    for range in [Full, Measured, Known { low: i64::MIN, high: i64::MAX }] {
        assert_sorts(device, "i64", range, &data, i64::order);
    }
    let data: Vec<u64> = (0..600).map(|_| [0, 1, u64::MAX - 1, u64::MAX][pick(4)]).collect();
    assert_sorts(device, "u64", Measured, &data, u64::order);
}

pub(crate) fn ranges<D: Device>(device: &D) {
    let n = 5000;
    // Ranges of a few bits beside high bits that all keys have.
    let far = |b: u64| (b as u32 & 0x1ff) + 0xfedc_ba00;
    for range in [Measured, Known { low: 0xfedc_ba00, high: 0xfedc_bbff }] {
        assert_sorts(device, "u32", range, &keys(n, u64::MAX, far), u32::order);
    }
    let far = |b: u64| (b & 0xfffff) as i64 - 5_000_000_000_000;
    assert_sorts(device, "i64", Measured, &keys(n, u64::MAX, far), i64::order);
    let near = |b: u64| 100.0 + (b & 0xffff) as f32 / 65536.0;
    assert_sorts(device, "f32", Measured, &keys(n, u64::MAX, near), f32::order);
    // Keys outside of the range count as its ends.
    let (low, high) = (-100, 1000);
    let clamped = |k: i32| k.clamp(low, high).order();
    let data = keys(n, 0x7ff, |b| b as i32 - 500);
    assert_sorts(device, "clamped", Known { low, high }, &data, clamped);
    let (low, high) = (-0.25f32, 0.5);
    let data = keys(n, 0xff, |b| b as f32 / 128.0 - 1.0);
    let clamped = |k: f32| k.clamp(low, high).order();
    assert_sorts(device, "clamped", Known { low, high }, &data, clamped);
    assert_sorts(device, "one key", Known { low: 3, high: 3 }, &keys(n, 7, |b| b as u32), |_| 0);
}

pub(crate) fn keys_alone<D: Device>(device: &D) {
    for n in [0, 1, 5381] {
        for range in [Full, Measured] {
            let mut data = keys(n, 0x0fff_ffff_0000_ffff, |b| b);
            let from = device.upload(&data).unwrap();
            let mut to = device.alloc(n).unwrap();
            device.sort_keys(range, &from, &mut to).unwrap();
            data.sort_unstable();
            assert!(device.into_host(to).unwrap() == data, "{}: {n} keys", device.name());
        }
    }
}

pub(crate) fn approximate<D: Device>(device: &D) {
    let mut random = Random::new(9);
    for (low, high) in [(0.0, 1.0), (-3e38, 3e38), (1000.0, 1000.01), (-1e-40, 1e-40), (2.0, 2.0)] {
        let mut data: Vec<f32> = (0..9000).map(|_| random.between(low, high) as f32).collect();
        for (i, odd) in [f32::NAN, f32::INFINITY, -f32::NAN, f32::NEG_INFINITY].iter().enumerate() {
            data[1000 * i + 17] = *odd;
        }
        let found = sorted(device, Approximate24, &data, None, None);
        assert!(found.keys[0].is_sign_negative() && found.keys[1].is_sign_negative());
        assert!(found.keys[..2].iter().chain(&found.keys[8998..]).all(|k| !k.is_finite()));
        let finite = &found.keys[2..8998];
        let bounds = data.iter().filter(|k| k.is_finite()).map(|&k| f64::from(k));
        let most = bounds.clone().fold(f64::NEG_INFINITY, f64::max);
        let least = bounds.fold(f64::INFINITY, f64::min);
        let bound = (most - least) / f64::from(1 << 23);
        let mut before = f64::NEG_INFINITY;
        for &key in finite {
            let key = f64::from(key);
            assert!(key >= before - bound, "{}: {key} after {before}", device.name());
            before = before.max(key);
        }
        for (key, &position) in found.keys.iter().zip(&found.values) {
            assert_eq!(key.to_bits(), data[position as usize].to_bits());
        }
        let mut all = found.values;
        all.sort_unstable();
        assert!(all.iter().enumerate().all(|(i, &p)| i == p as usize));
    }
    // Keys in the order of the input stay there, however near they are.
    let data: Vec<f32> = (0..3000).map(|i| 1.0 + i as f32 * f32::EPSILON).collect();
    let found = sorted(device, Approximate24, &data, None, None);
    assert!(same(&found.keys, &data));
    let nothing = [f32::NAN, f32::INFINITY, -f32::NAN];
    assert_eq!(sorted(device, Approximate24, &nothing, None, None).values, [2, 0, 1]);
}

pub(crate) fn segments<D: Device>(device: &D) {
    let n = 8448 + 900;
    let lists: [&[u32]; 5] = [
        &[],
        &[0],
        &[0, 0, 1, 1, 1, 33, 64, 64, 700, 8000, 9000, 9348, 9348],
        &[50, 51, 52, 9000],
        &[0, 20_000],
    ];
    let check = |starts: &[u32], with_values: bool| {
        let values = keys(n, u64::MAX, |b| b as u32);
        let values = with_values.then_some(&values[..]);
        let name = format!("{}: {} segments", device.name(), starts.len());
        macro_rules! check {
            ($range:expr, $data:expr, $by:expr) => {
                let data = $data;
                let found = sorted(device, $range, &data, values, Some(starts));
                let expected = positions(&data, starts, $by);
                let expected_keys: Vec<_> = expected.iter().map(|&i| data[i as usize]).collect();
                assert!(same(&found.keys, &expected_keys), "{name}: keys");
                let expected: Vec<u32> =
                    expected.iter().map(|&i| values.map_or(i, |v| v[i as usize])).collect();
                assert!(found.values == expected, "{name}: values");
            };
        }
        check!(Full, keys(n, 0xffff_0007, |b| f32::from_bits(b as u32)), f32::order);
        check!(Measured, keys(n, 0x1f, |b| b as i32 - 7), i32::order);
        // Too many bits for one key of segment and key.
        check!(Full, keys(n, 0xff00_0000_0000_000f, |b| b as i64), i64::order);
        check!(Measured, keys(n, 0xff, |b| b), u64::order);
    };
    for (i, starts) in lists.iter().enumerate() {
        check(starts, i % 2 == 0);
    }
    let many: Vec<u32> = (0..3000).map(|i| i * 3).collect();
    check(&many, true);
    let data = [3.0, 2.0, 1.0, 2.5, f32::NAN, 0.0];
    let found = sorted(device, Approximate24, &data, None, Some(&[2, 2, 5]));
    assert_eq!(found.values, [1, 0, 2, 3, 4, 5]);
    assert!(sorted::<D, u32>(device, Full, &[], None, Some(&[0, 0])).keys.is_empty());
}

pub(crate) fn errors<D: Device>(device: &D) {
    let a = device.alloc::<u32>(10).unwrap();
    let b = device.alloc::<u32>(11).unwrap();
    let mut to = device.alloc::<u32>(10).unwrap();
    let mut values = device.alloc::<u32>(10).unwrap();
    assert!(device.sort_pairs(Full, &a, Some(&b), &mut to, &mut values).is_err());
    assert!(device.sort_pairs(Full, &b, None, &mut to, &mut values).is_err());
    assert!(device.sort_keys(Full, &b, &mut to).is_err());
    assert!(device.sort_keys(Known { low: 2, high: 1 }, &a, &mut to).is_err());
    let error = device.sort_keys(Approximate24, &a, &mut to).unwrap_err().to_string();
    assert!(error.contains("f32"), "{error}");
    let mut short = device.alloc::<u32>(9).unwrap();
    assert!(device.sort_pairs(Full, &a, None, &mut to, &mut short).is_err());
    assert!(device.sort_segments(Full, &a, None, &b, &mut short, &mut values).is_err());
    assert!(device.sort_segments(Full, &a, Some(&b), &b, &mut to, &mut values).is_err());
}

pub(crate) fn bits<D: Device>(device: &D) -> Results {
    let data = keys(6000, 0xffff_ff00, |b| f32::from_bits(b as u32));
    [Full, Measured, Approximate24]
        .into_iter()
        .map(|range| {
            let found = sorted(device, range, &data, None, None);
            let positions = found.values.iter().map(|&v| v as f32);
            (format!("{range:?}"), found.keys.iter().copied().chain(positions).collect())
        })
        .collect()
}
