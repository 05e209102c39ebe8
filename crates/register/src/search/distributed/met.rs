//! What a block of the fixed image meets of the moving image.

use voxalign_compute::Dims;
use voxalign_compute::ops::joint::{Block, COORDINATE_BITS, FixedPointMap};

/// All pixels of the moving image that samples of a block are interpolated from; none where all of them are outside of it.
pub(super) fn met(block: &Block, map: &FixedPointMap, dims: Dims) -> Block {
    if block.is_empty() {
        return Block::default();
    }
    let (mut low, mut high) = ([i64::MAX; 3], [i64::MIN; 3]);
    for corner in 0..8 {
        let end = |a: usize| if corner >> a & 1 == 1 { block.end(a) - 1 } else { block.origin[a] };
        let at = map.coordinate([0, 1, 2].map(end));
        for a in 0..3 {
            // The cell, with a pixel more on either side.
            low[a] = low[a].min((at[a] >> COORDINATE_BITS) - 1);
            high[a] = high[a].max((at[a] >> COORDINATE_BITS) + 2);
        }
    }
    let range = |a: usize| {
        let last = dims[a] as i64 - 1;
        (high[a] >= 0 && low[a] <= last).then(|| {
            let from = low[a].max(0) as usize;
            (from, high[a].min(last) as usize + 1 - from)
        })
    };
    match [range(0), range(1), range(2)] {
        [Some(x), Some(y), Some(z)] => Block { origin: [x.0, y.0, z.0], dims: [x.1, y.1, z.1] },
        _ => Block::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_met_has_all_cells_and_no_more_than_two_pixels_more() {
        let map = FixedPointMap::new(&[
            [0.6, -0.8, 0.0, 20.3],
            [0.8, 0.6, 0.0, -1.7],
            [0.0, 0.0, 1.0, 0.0],
        ])
        .unwrap();
        let (block, dims) = (Block { origin: [5, 6, 0], dims: [12, 9, 1] }, [40, 30, 1]);
        let found = met(&block, &map, dims);
        let (mut low, mut high) = ([usize::MAX; 2], [0; 2]);
        for y in 6..15 {
            for x in 5..17 {
                let at = map.coordinate([x, y, 0]);
                for a in 0..2 {
                    let cell = at[a].div_euclid(256);
                    if (0..dims[a] as i64 - 1).contains(&cell) {
                        low[a] = low[a].min(cell as usize);
                        high[a] = high[a].max(cell as usize + 2);
                    }
                }
            }
        }
        for a in 0..2 {
            assert!(found.origin[a] <= low[a] && low[a] - found.origin[a] <= 2);
            assert!(found.end(a) >= high[a] && found.end(a) - high[a] <= 2);
        }
        let far = FixedPointMap::new(&[
            [1.0, 0.0, 0.0, 200.0],
            [0.0, 1.0, 0.0, 0.0],
            [0.0, 0.0, 1.0, 0.0],
        ]);
        assert!(met(&block, &far.unwrap(), dims).is_empty());
    }
}
