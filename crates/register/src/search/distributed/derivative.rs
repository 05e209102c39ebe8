//! From sums of slopes to the derivative in the map.

use voxalign_compute::Dims;
use voxalign_compute::ops::joint::{FixedPointMap, JointSlopes, PIXEL};
use voxalign_image::{Affine, ImageError, Index};

/// The derivative of a function of the joint histogram in the twelve entries of the map from fixed to moving pixels, row by row.
///
/// With a table `L = ∂F/∂n · scale` of derivatives in the entries `n` of the histogram, it is that of `F` where `unit` is [`JointSlopes::unit`] over `scale`.
/// The derivative in entry `(d, a)` is `Σ h_d i_a` over samples, with the fixed pixel `i = M⁻¹ (c − o)`: a sample has its moving coordinate
/// `c` alone, which is all that is sent to the rank that counts it. As `c` is rounded to 1/256 pixel, so is `i`, about. Moments are taken about the centre of
/// the moving image in whole numbers first, so that no digits are lost.
///
/// # Errors
/// A map that cannot be inverted.
pub fn in_map(
    slopes: &JointSlopes,
    map: &FixedPointMap,
    moving: Dims,
    unit: f64,
) -> Result<[f64; 12], ImageError> {
    let inverse = Affine::<Index, Index>::from_rows(map.to_affine()).inverse()?;
    let centre = moving.map(|n| PIXEL as i128 * n as i128 / 2);
    let at = centre.map(|c| c as f64 / PIXEL as f64);
    let fixed = inverse.apply(at.into());
    let mut out = [0.0; 12];
    for d in 0..3 {
        let force = slopes.force[d];
        let about =
            [0, 1, 2].map(|e| (slopes.moment[d][e] - force * centre[e]) as f64 / PIXEL as f64);
        for a in 0..3 {
            let turned: f64 = (0..3).map(|e| inverse.matrix[(a, e)] * about[e]).sum();
            out[4 * d + a] = unit * (turned + fixed[a] * force as f64);
        }
        out[4 * d + 3] = unit * force as f64;
    }
    Ok(out)
}
