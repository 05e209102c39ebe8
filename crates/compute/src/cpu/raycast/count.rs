//! Counting of the samples of a ray without taking them.

use super::CpuRayVolume;
use super::march::LOOK;
use crate::ops::raycast::BRICK;

impl CpuRayVolume {
    /// The number of samples at whole `k` of a range that a ray has inside, and how many of them it takes on its
    /// own. Positions count from a voxel before the first.
    pub(crate) fn count(&self, place: [f32; 3], step: [f32; 3], range: [f32; 2]) -> [u64; 2] {
        let end = self.dims.map(|n| (n + 1) as f32);
        let [mut first, mut last] = range;
        for a in 0..3 {
            if step[a] == 0.0 {
                // A place that stays.
                if !(0.0..end[a]).contains(&place[a]) {
                    return [0, 0];
                }
                continue;
            }
            let (low, high) = (-place[a] / step[a], (end[a] - place[a]) / step[a]);
            first = first.max(low.min(high));
            last = last.min(low.max(high));
        }
        let (first, last) = (first.ceil(), last.floor());
        if first > last {
            return [0, 0];
        }
        let inside = (last - first) as u64 + 1;
        let reach = 0.999 / step.iter().fold(1e-6f32, |most, s| most.max(s.abs()));
        let (leaps, [bx, by, _]) = (self.leaps.as_slice(), self.bricks);
        let (mut k, mut taken) = (first, 0);
        while k <= last {
            let at = |a: usize| (place[a] + k * step[a]).clamp(0.0, end[a]) as usize / BRICK;
            let leap = leaps[at(0) + bx * (at(1) + by * at(2))];
            if leap >= 0.0 {
                k += (leap * reach).floor() + 1.0;
            } else {
                taken += LOOK.min((last - k) as usize + 1) as u64;
                k += LOOK as f32;
            }
        }
        [inside, taken]
    }
}
