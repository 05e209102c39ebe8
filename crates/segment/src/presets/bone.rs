//! Bone in computed tomography.

use crate::error::Result;
use crate::lattice::Lattice;
use voxalign_image::memory;

/// What soft tissue has, HU, and the spread of it beside noise.
const SOFT: f64 = 50.0;
const SPREAD: f64 = 100.0;

/// The greatest force, nats: dense bone and metal are no more certain than this.
const MOST: f64 = 8.0;

/// Noise is measured in what is denser, HU: not in air, which scanners cut off.
const DENSE: f32 = -300.0;

/// Bone against soft tissue: two Gaussians about the same distance from a threshold, whose spread is that of tissue and of the noise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bone {
    /// The intensity between both, HU.
    pub threshold: f64,
    /// The standard deviation of the noise, HU.
    pub noise: f64,
}

impl Bone {
    /// Bone above a threshold, HU, with the noise of an image: that of its second differences where it is denser than -300 HU, by their median, along the first axis of three points and
    /// more. Of smaller images the noise is 0.
    ///
    /// # Errors
    /// [`SegmentError::OutOfMemory`](crate::SegmentError::OutOfMemory).
    pub fn of(lattice: &Lattice, values: &[f32], threshold: f64) -> Result<Self> {
        let dims = lattice.dims();
        let Some(axis) = (0..3).find(|a| dims[*a] >= 3) else {
            return Ok(Self { threshold, noise: 0.0 });
        };
        let stride: usize = dims[..axis].iter().product();
        let inner =
            (0..values.len()).filter(|p| (1..dims[axis] - 1).contains(&(p / stride % dims[axis])));
        let dense = inner.filter(|p| values[*p] > DENSE);
        let second = dense.map(|p| values[p - stride] - 2.0 * values[p] + values[p + stride]);
        let mut second = memory::collected(second)?;
        let centre = median(&mut second);
        second.iter_mut().for_each(|v| *v = (*v - centre).abs());
        let noise = 1.4826 * f64::from(median(&mut second)) / 6f64.sqrt();
        Ok(Self { threshold, noise })
    }

    /// The logarithm of how much likelier an intensity is of bone, nats, within ±8.
    #[must_use]
    pub fn speed(&self, value: f64) -> f64 {
        let variance = SPREAD * SPREAD + self.noise * self.noise;
        let scale = 2.0 * (self.threshold - SOFT) / variance;
        (scale * (value - self.threshold)).clamp(-MOST, MOST)
    }

    /// That of many values.
    ///
    /// # Errors
    /// [`SegmentError::OutOfMemory`](crate::SegmentError::OutOfMemory).
    pub fn speeds(&self, values: &[f32]) -> Result<Vec<f32>> {
        Ok(memory::collected(values.iter().map(|v| self.speed(f64::from(*v)) as f32))?)
    }
}

/// The median, of an even number the greater of both in the middle; 0 of none.
fn median(values: &mut [f32]) -> f32 {
    let middle = values.len() / 2;
    match values.is_empty() {
        true => 0.0,
        false => *values.select_nth_unstable_by(middle, f32::total_cmp).1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Neighbourhood;
    use crate::tests::Random;

    #[test]
    fn noise_is_measured_beside_edges_and_air() {
        let lattice = Lattice::new([240, 20, 1], Neighbourhood::Four).unwrap();
        let mut random = Random(3);
        let value = |p: usize| match p % 240 {
            0..80 => -1000.0,
            80..180 => 40.0,
            _ => 900.0,
        };
        // Air has none, as scanners cut it off.
        let noise = |p: usize, of: f64| if p % 240 < 80 { 0.0 } else { 50.0 * of };
        let values: Vec<f32> =
            (0..4800).map(|p| (value(p) + noise(p, random.normal())) as f32).collect();
        let bone = Bone::of(&lattice, &values, 300.0).unwrap();
        assert!((bone.noise - 50.0).abs() < 5.0, "{bone:?}");
        assert_eq!(bone.speed(300.0), 0.0);
        assert!(
            bone.speed(301.0) > 0.0 && bone.speed(5000.0) == 8.0 && bone.speed(-5000.0) == -8.0
        );
        // The more noise, the less one voxel says.
        let clean = Bone { noise: 0.0, ..bone };
        assert!((clean.speed(340.0) - 2.0 * 250.0 / 1e4 * 40.0).abs() < 1e-9);
        assert!(bone.speed(340.0) < clean.speed(340.0));
        let speeds = bone.speeds(&values).unwrap();
        assert!(speeds.iter().zip(&values).all(|(s, v)| (*s > 0.0) == (*v > 300.0)));
        assert_eq!(Bone::of(&lattice, &vec![-1000.0; 4800], 300.0).unwrap().noise, 0.0);
        // The same along another axis where the first one has a point alone.
        let turned = Lattice::new([1, 240, 20], Neighbourhood::Six).unwrap();
        assert_eq!(Bone::of(&turned, &values, 300.0).unwrap(), bone);
        let few = Lattice::new([2, 2, 1], Neighbourhood::Four).unwrap();
        assert_eq!(Bone::of(&few, &values[..4], 300.0).unwrap().noise, 0.0);
    }
}
