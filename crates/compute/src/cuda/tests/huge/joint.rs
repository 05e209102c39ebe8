//! Joint histograms in whole numbers of more than 2^32 pixels, and of more than 2^33 in all.

use super::*;
use crate::ops::Joint;
use crate::ops::joint::{
    Block, Brick, FixedPart, FixedPointMap, JointRule, MovingBins, NO_SAMPLE, Pixels, WINDOW_SUM,
    Window,
};
use rayon::prelude::*;

/// The bin of a pixel: most are of one bin.
fn bin(i: usize) -> u8 {
    match i % 11 {
        0..6 => 1,
        6 => NO_SAMPLE,
        rest => (rest % 4) as u8,
    }
}

/// Equal images, each pixel of which falls on the place of its bin, added several times as so many ranks do.
pub(super) fn run(cuda: &Cuda, grids: &Grids) {
    const RANKS: i64 = 4;
    let dims = grids.plane;
    let n = len(dims);
    let mut data = crate::host::zeroed::<u8>(n).unwrap();
    data.par_iter_mut().enumerate().for_each(|(i, b)| *b = bin(i));
    let bins = cuda.upload(&data).unwrap();
    data.par_iter_mut().for_each(|b| *b = b.wrapping_mul(60));
    let pixels = cuda.upload(&data).unwrap();
    drop(data);
    let counted =
        |b: u8| (0..11).filter(|&i| bin(i) == b).map(|i| (n + 10 - i) / 11).sum::<usize>() as i64;
    let block = Block::whole(dims);
    let fixed = FixedPart { block, bins: &bins, part: block };
    let brick = Brick::new(block, dims, Pixels::<Cuda>::on_device::<u8>(&pixels));
    let map = FixedPointMap::new(&crate::IDENTITY).unwrap();
    let moving_bins = MovingBins::new(0, 255, 4).unwrap();
    for window in [Window::Plain, Window::Cubic] {
        let rule = JointRule::new(map, dims, 4, moving_bins, window);
        let mut out = cuda.alloc(rule.numbers(false)).unwrap();
        for _ in 0..RANKS {
            cuda.joint_add(&rule, &fixed, &[brick], None, &mut out).unwrap();
        }
        let found = cuda.download(&out).unwrap();
        let each = if window == Window::Plain { 1 } else { i64::from(WINDOW_SUM) };
        for b in 0..4u8 {
            let row = &found[usize::from(b) * rule.columns()..][..rule.columns()];
            assert_eq!(row.iter().sum::<i64>(), RANKS * each * counted(b), "{window:?}: bin {b}");
            if window == Window::Plain {
                let column = moving_bins.place((u32::from(b) * 60) << moving_bins.bits()) >> 8;
                assert_eq!(row[column as usize], RANKS * counted(b));
            }
        }
        let samples = (0..4).map(counted).sum::<i64>();
        assert_eq!(found[rule.entries()..], [RANKS * samples, 0]);
    }
}
