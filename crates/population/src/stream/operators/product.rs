//! The product of all images.

use super::{Miso, Stack};
use crate::error::{PopulationError, Result};
use rayon::prelude::*;
use voxalign_compute::Device;
use voxalign_image::memory;

/// The product of each voxel over all images.
///
/// Magnitudes are summed as logarithms in fixed point, signs and zeros counted apart, so that the
/// result is the same for any order of the images; it is within 1e-9 of the product, and then rounded.
/// The device brings the images back to the host for it, whose logarithms have the digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Product;

/// Logarithms to the base 2, and whether a factor was 0 or the product is negative.
#[derive(Debug)]
pub struct Factors {
    logarithms: Vec<i64>,
    flags: Vec<u8>,
    image: Vec<f32>,
    unit: f64,
}

const NEGATIVE: u8 = 1;
const ZERO: u8 = 2;
/// Voxels of a task.
const PIECE: usize = 1 << 15;
/// Most images: their logarithms still have 36 bits after the point.
const MOST: usize = 1 << 18;

impl<D: Device> Miso<D> for Product {
    type State = Factors;
    type Output = Vec<f32>;

    fn start(&self, _: &D, stack: &Stack) -> Result<Factors> {
        if stack.count > MOST {
            return Err(PopulationError::Images {
                found: format!("{} images are given", stack.count),
                remedy: "a product takes at most 262144".into(),
            });
        }
        let n = stack.voxels();
        // A logarithm is within 150.
        let bits = 62 - 8 - stack.count.next_power_of_two().ilog2();
        Ok(Factors {
            logarithms: memory::zeroed(n)?,
            flags: memory::zeroed(n)?,
            image: memory::zeroed(n)?,
            unit: f64::from(bits).exp2(),
        })
    }

    fn add(&self, device: &D, _: usize, image: &D::Buffer<f32>, all: &mut Factors) -> Result<()> {
        device.download_into(image, &mut all.image)?;
        let unit = all.unit;
        let pieces = all.logarithms.par_chunks_mut(PIECE).zip(all.flags.par_chunks_mut(PIECE));
        pieces.zip(all.image.par_chunks(PIECE)).for_each(|((logarithms, flags), image)| {
            for ((logarithm, flags), &value) in logarithms.iter_mut().zip(flags).zip(image) {
                if value == 0.0 {
                    *flags |= ZERO;
                } else {
                    let size = f64::from(value.abs()).log2();
                    *logarithm += (size * unit).round_ties_even() as i64;
                    *flags ^= if value < 0.0 { NEGATIVE } else { 0 };
                }
            }
        });
        Ok(())
    }

    fn finish(&self, _: &D, _: &Stack, all: Factors) -> Result<Vec<f32>> {
        let mut product = all.image;
        let factors = all.logarithms.par_iter().zip(&all.flags);
        product.par_iter_mut().zip(factors).for_each(|(out, (logarithm, flags))| {
            let size = (*logarithm as f64 / all.unit).exp2() as f32;
            *out = match *flags {
                flags if flags & ZERO != 0 => 0.0,
                flags if flags & NEGATIVE != 0 => -size,
                _ => size,
            };
        });
        Ok(product)
    }
}
