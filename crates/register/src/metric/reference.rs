//! Reference implementation of the correlation ratio, straight from its formula: voxel by voxel, one thread,
//! double precision. The fast operators are checked and timed against it.

use voxalign_image::{Affine, Vector3, Volume};

/// `1 - eta(moving | fixed)` (eqs. 2 to 4 of Li et al. 2015) with `bins` equal bins of the fixed
/// image between `low` and `high`; 1 where nothing overlaps. Positions between voxel centres are
/// interpolated linearly; positions beyond them do not count.
#[must_use]
pub fn correlation_ratio(
    fixed: &Volume<f32>,
    moving: &Volume<f32>,
    transform: &Affine,
    (low, high): (f32, f32),
    bins: usize,
) -> f64 {
    let map = fixed.grid().to_world().then(transform).then(moving.grid().to_index());
    let [nx, ny, nz] = fixed.dims();
    let mut sums = vec![[0.0f64; 3]; bins.max(1)];
    for z in 0..nz {
        for y in 0..ny {
            for x in 0..nx {
                let at = map.apply(Vector3::new(x as f64, y as f64, z as f64));
                let Some(value) = sample(moving, at) else { continue };
                let x = f64::from(fixed.data()[(z * ny + y) * nx + x]);
                let part = (x - f64::from(low)) / (f64::from(high) - f64::from(low));
                let bin = ((part * bins as f64).max(0.0) as usize).min(sums.len() - 1);
                sums[bin][0] += 1.0;
                sums[bin][1] += value;
                sums[bin][2] += value * value;
            }
        }
    }
    let total = sums.iter().fold([0.0; 3], |t, s| [t[0] + s[0], t[1] + s[1], t[2] + s[2]]);
    let within: f64 = sums.iter().filter(|s| s[0] > 0.0).map(|s| s[2] - s[1] * s[1] / s[0]).sum();
    let spread = total[2] - total[1] * total[1] / total[0].max(1.0);
    if spread > 0.0 { within / spread } else { 1.0 }
}

fn sample(image: &Volume<f32>, at: Vector3<f64>) -> Option<f64> {
    let dims = image.dims();
    let mut low = [0usize; 3];
    let mut part = [0.0; 3];
    for a in 0..3 {
        if !(at[a] >= 0.0 && at[a] <= dims[a] as f64 - 1.0) {
            return None;
        }
        low[a] = (at[a] as usize).min(dims[a].saturating_sub(2));
        part[a] = at[a] - low[a] as f64;
    }
    let mut sum = 0.0;
    for corner in 0..8 {
        let mut weight = 1.0;
        let mut i = [0usize; 3];
        for a in 0..3 {
            let up = corner >> a & 1;
            weight *= if up == 1 { part[a] } else { 1.0 - part[a] };
            i[a] = (low[a] + up).min(dims[a] - 1);
        }
        sum += weight * f64::from(image.data()[(i[2] * dims[1] + i[1]) * dims[0] + i[0]]);
    }
    Some(sum)
}
