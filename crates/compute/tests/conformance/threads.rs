//! Sums over overlaps on the CPU.

use voxalign_compute::cpu::{Cpu, Simd};
use voxalign_compute::ops::Histogram;
use voxalign_compute::ops::histogram::{JointScheme, Scheme, Terms};
use voxalign_conformance::cases::{COLUMNS, Case, OPTIONS, cases, image, naive_joint, with_device};

/// Any number of threads, any SIMD level, one map or many at once: the same bits.
#[test]
fn the_same_bits() {
    let dims = [90, 70, 65];
    let case = Case {
        fixed: image(dims, 1),
        fixed_dims: dims,
        weights: None,
        moving: image(dims, 2),
        moving_dims: dims,
        mask: None,
        border: [4.0; 3],
        map: cases()[0].map,
        options: OPTIONS,
    };
    let all = |device: &Cpu, maps: usize| {
        with_device(device, &case, |samples, view| {
            let maps = vec![case.map; maps];
            let table = vec![naive_joint(&case, &case.map); maps.len()];
            let scheme = Scheme::ConflictFree;
            let squares = |_: usize, sums: &[f64]| sums.to_vec();
            let binned = |terms| {
                let found = device.binned_gradient(terms, scheme, samples, view, &maps, &squares);
                found.unwrap().swap_remove(0)
            };
            let (ratio, moments) = (binned(Terms::Ratio), binned(Terms::Moments));
            let joint = device
                .joint_histogram(JointScheme::Default, samples, view, &COLUMNS, &maps)
                .unwrap();
            let gradient = device.joint_gradient(samples, view, &COLUMNS, &maps, &table).unwrap();
            (ratio, moments, joint[0].clone(), gradient[0])
        })
    };
    let first = all(&Cpu::new(Some(1)).unwrap(), 1);
    for threads in [1, 2, 4] {
        for maps in [1, 5] {
            for simd in Simd::available() {
                let device = Cpu::new(Some(threads)).unwrap().with_simd(simd).unwrap();
                assert_eq!(all(&device, maps), first, "{threads} threads, {maps} maps, {simd:?}");
            }
        }
    }
}
