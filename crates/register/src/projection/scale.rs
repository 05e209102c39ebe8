//! Downsampling of images and volumes by block means.

use crate::error::Result;
use rayon::prelude::*;
use voxalign_image::{Affine, Grid, Matrix3, Vector3, Volume, XrayGeometry, memory};

/// An X-ray image at a coarser scale.
pub(super) struct Binned {
    pub(super) geometry: XrayGeometry,
    pub(super) image: Vec<f32>,
    /// Whether each pixel is left out, where some are.
    pub(super) without: Option<Vec<bool>>,
}

/// The part of a coarse pixel that may be left out without the rest of it being left out as well.
const LEFT_OUT: usize = 4;

/// An X-ray image with pixels that are the means of those of `factor x factor` that are not left out.
///
/// # Errors
/// A factor that leaves no pixel.
pub(super) fn binned_image(
    geometry: &XrayGeometry,
    image: &[f32],
    without: Option<&[bool]>,
    factor: usize,
) -> Result<Binned> {
    if factor <= 1 {
        let without = without.map(memory::copied).transpose()?;
        return Ok(Binned { geometry: *geometry, image: memory::copied(image)?, without });
    }
    let coarse = geometry.binned(factor)?;
    let ([columns, rows], width) = (coarse.dims(), geometry.dims()[0]);
    let mut out = memory::zeroed::<f32>(columns * rows)?;
    let area = (factor * factor) as f64;
    out.par_chunks_mut(columns).enumerate().for_each(|(row, out)| {
        for (column, out) in out.iter_mut().enumerate() {
            let mut sum = 0.0;
            for y in row * factor..(row + 1) * factor {
                let part = &image[y * width + column * factor..][..factor];
                sum += part.iter().map(|&v| f64::from(v)).sum::<f64>();
            }
            *out = (sum / area) as f32;
        }
    });
    let mut left = None;
    if let Some(without) = without {
        let left = left.insert(memory::filled(columns * rows, false)?);
        for (i, (left, out)) in left.iter_mut().zip(&mut out).enumerate() {
            let (row, column) = (i / columns, i % columns);
            let (mut sum, mut count) = (0.0, 0);
            for y in row * factor..(row + 1) * factor {
                let part = y * width + column * factor..y * width + (column + 1) * factor;
                for (&v, _) in image[part.clone()].iter().zip(&without[part]).filter(|p| !*p.1) {
                    sum += f64::from(v);
                    count += 1;
                }
            }
            *left = LEFT_OUT * (factor * factor - count) > factor * factor;
            if count > 0 {
                *out = (sum / f64::from(u32::try_from(count).unwrap_or(u32::MAX))) as f32;
            }
        }
    }
    Ok(Binned { geometry: coarse, image: out, without: left })
}

/// A volume with voxels that are the means of `factors` along each axis; outside of it is 0.
///
/// # Errors
/// Too little memory.
pub(super) fn binned_volume(volume: &Volume<f32>, factors: [usize; 3]) -> Result<Volume<f32>> {
    let grid = volume.grid();
    let dims = grid.dims();
    let factors = [0, 1, 2].map(|a| factors[a].clamp(1, dims[a]));
    let coarse = [0, 1, 2].map(|a| dims[a].div_ceil(factors[a]));
    let by = Vector3::from(factors.map(|f| f as f64));
    let places = Affine::new(Matrix3::from_diagonal(&by), by.map(|f| (f - 1.0) / 2.0));
    let to_world = places.then(grid.to_world());
    let grid = Grid::new(coarse, to_world)?;
    let mut out = memory::zeroed::<f32>(grid.len())?;
    let (data, scale) = (volume.data(), 1.0 / factors.iter().product::<usize>() as f32);
    let [nx, ny, _] = dims;
    out.par_chunks_mut(coarse[0] * coarse[1]).enumerate().for_each(|(z, slice)| {
        for z in z * factors[2]..((z + 1) * factors[2]).min(dims[2]) {
            for y in 0..ny {
                let row = &mut slice[y / factors[1] * coarse[0]..][..coarse[0]];
                let from = &data[(z * ny + y) * nx..][..nx];
                for (out, from) in row.iter_mut().zip(from.chunks(factors[0])) {
                    *out += from.iter().sum::<f32>();
                }
            }
        }
        slice.iter_mut().for_each(|v| *v *= scale);
    });
    Ok(Volume::new(grid, out)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coarse_volumes_have_the_same_mass_in_the_same_place() {
        let to_world = Affine::new(
            Matrix3::new(0.9, 0.1, 0.0, -0.1, 1.1, 0.0, 0.0, 0.0, 2.0),
            Vector3::new(3.0, -4.0, 5.0),
        );
        let grid = Grid::new([13, 9, 7], to_world).unwrap();
        let fine = Volume::from_fn(grid, |x, y, z| ((x * 7 + y * 3 + z * 5) % 11) as f32);
        let coarse = binned_volume(&fine, [3, 2, 1]).unwrap();
        assert_eq!(coarse.grid().dims(), [5, 5, 7]);
        let mass = |v: &Volume<f32>| {
            let (mut sum, mut centre) = (0.0, Vector3::zeros());
            let [nx, ny, _] = v.grid().dims();
            for (i, &value) in v.data().iter().enumerate() {
                let at = [i % nx, i / nx % ny, i / nx / ny].map(|x| x as f64);
                let m = f64::from(value) * v.grid().voxel_volume();
                sum += m;
                centre += v.grid().index_to_world(Vector3::from(at)) * m;
            }
            (sum, centre / sum)
        };
        let ((a, p), (b, q)) = (mass(&fine), mass(&coarse));
        assert!((a - b).abs() < 1e-4 * a, "{a} {b}");
        // Each block's mass is at its middle instead of where it was.
        assert!((p - q).norm() < 0.3, "{p} {q}");
        assert_eq!(binned_volume(&fine, [1, 1, 1]).unwrap().data(), fine.data());
    }

    #[test]
    fn coarse_images_are_means() {
        let geometry = XrayGeometry::new(
            Vector3::new(0.0, 0.0, 100.0),
            Vector3::zeros(),
            Vector3::x(),
            Vector3::y(),
            [5, 4],
        )
        .unwrap();
        let image: Vec<f32> = (0..20).map(|i| i as f32).collect();
        let all = binned_image(&geometry, &image, None, 2).unwrap();
        assert_eq!((all.geometry.dims(), all.image), ([2, 2], vec![3.0, 5.0, 13.0, 15.0]));
        assert!(all.without.is_none() && binned_image(&geometry, &image, None, 5).is_err());
        // A quarter of a pixel is left out, and the half of another one.
        let without: Vec<bool> = (0..20).map(|i| [0, 12, 17].contains(&i)).collect();
        let some = binned_image(&geometry, &image, Some(&without), 2).unwrap();
        assert_eq!(some.image, [4.0, 5.0, 13.0, 15.5]);
        assert_eq!(some.without, Some(vec![false, false, false, true]));
        let same = binned_image(&geometry, &image, Some(&without), 1).unwrap();
        assert_eq!((same.image, same.without), (image, Some(without)));
    }
}
