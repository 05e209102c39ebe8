//! Intensities: samples, typical values, joint histograms.
//!
//! Everything here looks at a regular lattice of at most some 250 000 voxels, the same for all
//! images of a report, so that the time does not grow with the images.

use super::window::Window;
use voxalign_image::Volume;

/// Most voxels that are looked at.
const SAMPLES: usize = 250_000;
/// Bins along each axis of a joint histogram.
pub(crate) const BINS: usize = 64;

/// A regular subset of the voxels along each axis, at most [`SAMPLES`] in all.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Lattice {
    dims: [usize; 3],
    step: [usize; 3],
}

impl Lattice {
    /// The lattice over images of these sizes.
    pub(crate) fn new(dims: [usize; 3]) -> Self {
        let mut step = [1usize; 3];
        let count = |step: &[usize; 3], a: usize| dims[a].div_ceil(step[a]);
        while (0..3).map(|a| count(&step, a)).product::<usize>() > SAMPLES {
            let widest = (0..3).max_by_key(|&a| count(&step, a)).unwrap_or(0);
            // Large steps grow by a part of themselves, so that this ends soon on any image.
            step[widest] += 1 + step[widest] / 8;
        }
        Self { dims, step }
    }

    /// Index and linear index of each of its voxels.
    fn voxels(&self) -> impl Iterator<Item = ([usize; 3], usize)> {
        let ([nx, ny, nz], step) = (self.dims, self.step);
        let start = |a: usize| step[a].min(self.dims[a]) / 2;
        let (x0, y0, z0) = (start(0), start(1), start(2));
        (z0..nz).step_by(step[2]).flat_map(move |z| {
            (y0..ny).step_by(step[1]).flat_map(move |y| {
                let row = (z * ny + y) * nx;
                (x0..nx).step_by(step[0]).map(move |x| ([x, y, z], row + x))
            })
        })
    }

    /// Its values of an image.
    pub(crate) fn values<T: Copy>(&self, image: &Volume<T>) -> Vec<T> {
        self.voxels().map(|(_, i)| image.data()[i]).collect()
    }

    /// The voxel nearest to the centre of mass of all values above a tenth of the window; the middle where there
    /// are none.
    pub(crate) fn centre_of_mass(&self, image: &Volume<f32>, window: Window) -> [usize; 3] {
        let mut sum = [0.0; 3];
        let mut mass = 0.0;
        for (index, i) in self.voxels() {
            let weight = f64::from(window.unit(image.data()[i]));
            if weight > 0.1 {
                mass += weight;
                (0..3).for_each(|a| sum[a] += weight * index[a] as f64);
            }
        }
        std::array::from_fn(|a| {
            let middle = (self.dims[a] - 1) / 2;
            if mass > 0.0 {
                ((sum[a] / mass).round() as usize).min(self.dims[a] - 1)
            } else {
                middle
            }
        })
    }

    /// The first and the last voxel along an axis with a value above a tenth of the window, as far as the lattice
    /// shows; all where there are none.
    pub(crate) fn extent(&self, image: &Volume<f32>, window: Window, axis: usize) -> [usize; 2] {
        let bright = self.voxels().filter(|(_, i)| window.unit(image.data()[*i]) > 0.1);
        let ends =
            bright.map(|(index, _)| index[axis]).fold(None, |ends: Option<[usize; 2]>, at| {
                Some(ends.map_or([at; 2], |[low, high]| [low.min(at), high.max(at)]))
            });
        ends.unwrap_or([0, self.dims[axis] - 1])
    }
}

/// The bin of a value in a window.
fn bin(window: Window, value: f32) -> usize {
    ((window.unit(value) * BINS as f32) as usize).min(BINS - 1)
}

/// How often each pair of intensities occurs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Joint {
    /// Counts, the fixed image's bin fastest.
    pub(crate) counts: Vec<u32>,
    fixed_window: Window,
    moving_window: Window,
}

impl Joint {
    /// From the values of two images at the same places.
    pub(crate) fn new(fixed: (&[f32], Window), moving: (&[f32], Window)) -> Self {
        let mut counts = vec![0u32; BINS * BINS];
        for (&f, &m) in fixed.0.iter().zip(moving.0) {
            if f.is_finite() && m.is_finite() {
                counts[bin(moving.1, m) * BINS + bin(fixed.1, f)] += 1;
            }
        }
        Self { counts, fixed_window: fixed.1, moving_window: moving.1 }
    }

    /// The median intensity of the fixed image for each intensity of the moving one.
    ///
    /// The median, for the mean would draw all tissues towards each other wherever borders do not
    /// meet exactly.
    pub(crate) fn transfer(&self) -> Transfer {
        let mut medians: Vec<Option<f32>> = (0..BINS).map(|bin| self.median(bin)).collect();
        let mut last = medians.iter().flatten().next().copied().unwrap_or(0.0);
        for median in &mut medians {
            last = *median.get_or_insert(last);
        }
        let medians = medians.into_iter().map(|m| m.unwrap_or(last)).collect();
        Transfer { window: self.moving_window, medians }
    }

    /// The median of the fixed intensities that meet one bin of the moving image, its neighbours
    /// counted half; linear within bins.
    fn median(&self, bin: usize) -> Option<f32> {
        let mut row = [0.0f64; BINS];
        let neighbours = [(bin.checked_sub(1), 1.0), (Some(bin), 2.0), (Some(bin + 1), 1.0)];
        for (at, weight) in neighbours {
            let Some(at) = at.filter(|&at| at < BINS) else { continue };
            for (sum, &n) in row.iter_mut().zip(&self.counts[at * BINS..]) {
                *sum += weight * f64::from(n);
            }
        }
        let half = row.iter().sum::<f64>() / 2.0;
        let mut below = 0.0;
        for (i, &n) in row.iter().enumerate() {
            if n > 0.0 && below + n >= half {
                // The outermost bins hold the ends of the window themselves (the background).
                let part = match i {
                    0 => 0.0,
                    _ if i == BINS - 1 => 1.0,
                    _ => (half - below) / n,
                };
                let unit = ((i as f64 + part) / BINS as f64) as f32;
                return Some(self.fixed_window.low + unit * self.fixed_window.range());
            }
            below += n;
        }
        None
    }

    /// A count that only few bins reach, for a scale that the background alone does not set.
    pub(crate) fn typical_peak(&self) -> u32 {
        let mut counts: Vec<u32> = self.counts.iter().copied().filter(|&n| n > 0).collect();
        let Some(last) = counts.len().checked_sub(1) else { return 1 };
        let at = last - counts.len() / 100;
        *counts.select_nth_unstable(at).1
    }
}

/// The map from moving to fixed intensities.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Transfer {
    window: Window,
    medians: Vec<f32>,
}

impl Transfer {
    /// The fixed intensity that goes with a moving one.
    pub(crate) fn apply(&self, value: f32) -> f32 {
        let last = self.medians.len() - 1;
        let position = (self.window.unit(value) * BINS as f32 - 0.5).clamp(0.0, last as f32);
        let low = position as usize;
        let high = (low + 1).min(last);
        let part = position - low as f32;
        self.medians[low] + (self.medians[high] - self.medians[low]) * part
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_image::Grid;

    #[test]
    fn lattices_are_small_and_inside() {
        let sizes =
            [[1, 1, 1], [182, 218, 182], [20_000, 30_000, 1], [1, 1, 1 << 40], [9, 1, 700_000]];
        for dims in sizes {
            let lattice = Lattice::new(dims);
            let all: Vec<_> = lattice.voxels().collect();
            assert!(!all.is_empty() && all.len() <= SAMPLES, "{dims:?} {}", all.len());
            assert!(all.iter().all(|(i, _)| (0..3).all(|a| i[a] < dims[a])));
        }
        assert_eq!(Lattice::new([3, 4, 5]).values(&image(|x| x as f32)).len(), 60);
    }

    fn image(f: impl Fn(usize) -> f32) -> Volume<f32> {
        let grid = Grid::axis_aligned([3, 4, 5], [1.0; 3]).unwrap();
        Volume::from_fn(grid, |x, _, _| f(x))
    }

    #[test]
    fn centre_of_mass_and_its_fallback() {
        let bright = image(|x| if x == 2 { 1.0 } else { 0.0 });
        let lattice = Lattice::new(bright.dims());
        let window = Window { low: 0.0, high: 1.0 };
        assert_eq!(lattice.centre_of_mass(&bright, window), [2, 2, 2]);
        assert_eq!(lattice.centre_of_mass(&image(|_| 0.0), window), [1, 1, 2]);
    }

    #[test]
    fn transfer_turns_an_inverted_image_back() {
        let moving: Vec<f32> = (0..10_000).map(|i| i as f32 / 10_000.0).collect();
        let fixed: Vec<f32> = moving.iter().map(|v| 5.0 - 3.0 * v).collect();
        let windows = (Window::robust(&fixed), Window::robust(&moving));
        let joint = Joint::new((&fixed, windows.0), (&moving, windows.1));
        assert_eq!(joint.counts.iter().sum::<u32>(), 10_000);
        let transfer = joint.transfer();
        for v in [0.1f32, 0.35, 0.5, 0.8] {
            assert!((transfer.apply(v) - (5.0 - 3.0 * v)).abs() < 0.05);
        }
        let empty = Joint::new((&[], windows.0), (&[], windows.1)).transfer();
        assert_eq!(empty.apply(f32::NAN), 0.0);
    }
}
