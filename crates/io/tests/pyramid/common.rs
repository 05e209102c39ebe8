//! Values that follow from a formula, which `tools/make_pyramids.py` has as well.

#![allow(clippy::unwrap_used)]

use std::path::PathBuf;
use voxalign_io::image::Region;
use voxalign_io::pyramid::{Pixels, PyramidOptions, PyramidSource, open};

pub(crate) fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/pyramid/data").join(name)
}

pub(crate) fn opened(name: &str) -> Box<dyn PyramidSource> {
    open(data(name), &PyramidOptions::default()).unwrap()
}

/// The value at a pixel of a channel, before it is brought to the type.
pub(crate) fn formula(x: usize, y: usize, z: usize, c: usize) -> u32 {
    (523 * x + 1031 * y + 77 * z + 37 * ((x * y) % 97) + 4001 * c) as u32
}

pub(crate) fn grey16(region: &Region) -> Vec<u16> {
    each(region, |x, y, z| formula(x, y, z, 0) as u16)
}

pub(crate) fn grey8(region: &Region) -> Vec<u8> {
    each(region, |x, y, z| formula(x, y, z, 0) as u8)
}

pub(crate) fn each<T>(region: &Region, value: impl Fn(usize, usize, usize) -> T) -> Vec<T> {
    let mut out = Vec::new();
    for z in 0..region.size[2] {
        for y in 0..region.size[1] {
            for x in 0..region.size[0] {
                out.push(value(region.start[0] + x, region.start[1] + y, region.start[2] + z));
            }
        }
    }
    out
}

pub(crate) fn whole(source: &dyn PyramidSource, level: usize) -> Pixels {
    source.block(level, &Region::whole(source.levels()[level].dims())).unwrap()
}

/// Regions that cut tiles in all ways, of an image of these sizes.
pub(crate) fn regions(dims: [usize; 3]) -> Vec<Region> {
    let mut all = vec![Region::whole(dims)];
    let mut state = 12345usize;
    let mut below = |n: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % n
    };
    for _ in 0..40 {
        let start: [usize; 3] = std::array::from_fn(|a| below(dims[a]));
        let size = std::array::from_fn(|a| 1 + below(dims[a] - start[a]));
        all.push(Region { start, size });
    }
    all
}

/// Every region of the finest level has the values of the formula.
pub(crate) fn assert_grey16(source: &dyn PyramidSource) {
    for region in regions(source.levels()[0].dims()) {
        assert_eq!(source.block(0, &region).unwrap(), Pixels::U16(grey16(&region)), "{region:?}");
    }
}

pub(crate) fn assert_grey8(source: &dyn PyramidSource) {
    for region in regions(source.levels()[0].dims()) {
        assert_eq!(source.block(0, &region).unwrap(), Pixels::U8(grey8(&region)), "{region:?}");
    }
}

/// Each level is what [`reduced`](voxalign_io::pyramid::reduced) makes of the one before.
pub(crate) fn assert_reduced(source: &dyn PyramidSource) {
    use voxalign_io::pyramid::{halved_axes, reduced, reduced_grid};
    for level in 1..source.levels().len() {
        let [fine, coarse] = [level - 1, level].map(|l| &source.levels()[l]);
        let halved = halved_axes(fine.dims());
        assert!(coarse.grid.approx_eq(&reduced_grid(&fine.grid, halved).unwrap(), 1e-9), "{level}");
        let n = coarse.grid.len();
        let found = whole(source, level);
        match whole(source, level - 1) {
            Pixels::U8(block) => {
                let mut out = vec![0; n];
                assert!(reduced(&block, fine.dims(), halved, &mut out));
                assert_eq!(found, Pixels::U8(out), "level {level}");
            }
            Pixels::U16(block) => {
                let mut out = vec![0; n];
                assert!(reduced(&block, fine.dims(), halved, &mut out));
                assert_eq!(found, Pixels::U16(out), "level {level}");
            }
        }
    }
}
