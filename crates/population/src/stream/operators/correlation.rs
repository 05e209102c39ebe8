//! The correlation of each image with a reference.

use super::energy::length;
use super::{Miso, Stack};
use crate::error::Result;
use voxalign_compute::Device;
use voxalign_compute::ops::reduce::Reduction;

/// The normalised cross-correlation of each image with a reference, from −1 to 1; 0 where one of them is
/// constant.
#[derive(Debug, Clone)]
pub struct Correlation<'a> {
    /// The values of the reference, on the grid of the images.
    pub reference: &'a [f32],
}

impl<D: Device> Miso<D> for Correlation<'_> {
    type State = (D::Buffer<f32>, Vec<f64>);
    type Output = Vec<f64>;

    fn start(&self, device: &D, stack: &Stack) -> Result<Self::State> {
        if self.reference.len() != stack.voxels() {
            return Err(length("reference", stack.voxels(), self.reference.len()).into());
        }
        Ok((device.upload(self.reference)?, vec![0.0; stack.count]))
    }

    fn add(
        &self,
        device: &D,
        item: usize,
        image: &D::Buffer<f32>,
        (reference, each): &mut Self::State,
    ) -> Result<()> {
        let sums = device.reduce(
            &[image, reference],
            &[
                Reduction::Sum(0),
                Reduction::Sum(1),
                Reduction::SumSquares(0),
                Reduction::SumSquares(1),
                Reduction::Dot(0, 1),
            ],
        )?;
        let n = self.reference.len() as f64;
        let [a, b, aa, bb, ab] = [0, 1, 2, 3, 4].map(|i| sums[i] / n);
        let (va, vb) = (aa - a * a, bb - b * b);
        // Of a constant image rounding leaves some 1e-16 of its square.
        let constant = va <= 1e-14 * aa || vb <= 1e-14 * bb;
        each[item] =
            if constant { 0.0 } else { ((ab - a * b) / (va * vb).sqrt()).clamp(-1.0, 1.0) };
        Ok(())
    }

    fn finish(&self, _: &D, _: &Stack, (_, each): Self::State) -> Result<Vec<f64>> {
        Ok(each)
    }
}
