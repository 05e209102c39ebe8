//! Moments of an image: centre of mass, size and principal axes of its object.

use super::scales::Scaled;
use crate::error::Result;
use crate::metric::range::robust_range;
use voxalign_compute::Device;
use voxalign_image::{Grid, Vector3};

/// Centre of mass (world mm), root-mean-square distance from it, and principal axes (columns, by decreasing spread)
/// of an image: voxels are weighted by their weight times how far they are from the background, which is dark or bright.
#[derive(Debug, Clone)]
pub(super) struct Moments {
    pub(super) centre: Vector3<f64>,
    pub(super) radius: f64,
    pub(super) axes: nalgebra::Matrix3<f64>,
}

/// The moments of an image, which is read back for it, with a dark background or a bright one.
pub(super) fn moments<D: Device>(device: &D, image: &Scaled<D>, bright: bool) -> Result<Moments> {
    let values = device.download(&image.values)?;
    let weight = image.weight.as_ref().map(|w| device.download(w)).transpose()?;
    Ok(moments_of(&image.grid, &values, weight.as_deref(), bright))
}

fn moments_of(grid: &Grid, values: &[f32], weight: Option<&[f32]>, bright: bool) -> Moments {
    let (low, high) = robust_range(values, 0.02, 0.98).unwrap_or((0.0, 1.0));
    let height = |v: f32| if bright { high - v.max(low) } else { v.min(high) - low };
    let [nx, ny, _] = grid.dims();
    let mut n = 0.0;
    let mut s = Vector3::zeros();
    let mut ss = nalgebra::Matrix3::zeros();
    let origin = grid.centre();
    for (i, &v) in values.iter().enumerate() {
        let w = f64::from(height(v).max(0.0)) * weight.map_or(1.0, |w| f64::from(w[i]));
        if w > 0.0 {
            let index = Vector3::new((i % nx) as f64, (i / nx % ny) as f64, (i / (nx * ny)) as f64);
            let p = grid.index_to_world(index) - origin;
            n += w;
            s += p * w;
            ss += p * p.transpose() * w;
        }
    }
    if n <= 0.0 {
        let radius = grid.extent().iter().fold(0.0f64, |a, &b| a.max(b)) / 4.0;
        return Moments { centre: origin, radius, axes: nalgebra::Matrix3::identity() };
    }
    let mean = s / n;
    let spread = ss / n - mean * mean.transpose();
    let radius = spread.trace().max(1e-12).sqrt();
    let eigen = spread.symmetric_eigen();
    let mut order = [0, 1, 2];
    order.sort_by(|&a, &b| eigen.eigenvalues[b].total_cmp(&eigen.eigenvalues[a]));
    let axes =
        nalgebra::Matrix3::from_columns(&order.map(|k| eigen.eigenvectors.column(k).into_owned()));
    Moments { centre: origin + mean, radius, axes }
}
