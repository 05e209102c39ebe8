//! Between which bounds the eigenvalues of a matrix are once each row of blocks is divided by that on its diagonal.

use crate::error::{ElasticityError, Result};
use crate::sparse::{Sparse, dot};
use nalgebra::{DMatrix, Matrix3, SymmetricEigen};
use voxalign_image::{Vector3, memory};

/// Steps of Lanczos's method: the ends of the spectrum are found first.
const STEPS: usize = 24;

/// The smallest and the largest eigenvalue of `D⁻¹ A`, about, of a symmetric and positive definite matrix `A` with blocks `D` on its
/// diagonal, by the method of C. Lanczos (1950) in the inner product of `D`. What is found is within the spectrum.
///
/// # Errors
/// [`ElasticityError::NotDefinite`] for a block on the diagonal that has no inverse; [`ElasticityError::OutOfMemory`].
pub fn spectrum(matrix: &Sparse<Matrix3<f64>>) -> Result<[f64; 2]> {
    let n = matrix.pattern().vertices();
    let diagonal = memory::collected((0..n).map(|i| matrix.get(i, i).unwrap_or_default()))?;
    let inverses = inverses(&diagonal)?;
    let times = |blocks: &[Matrix3<f64>], v: &[Vector3<f64>]| {
        memory::collected(blocks.iter().zip(v).map(|(b, v)| b * v))
    };
    // Something of all eigenvectors, the same every time.
    let mut state = 1u64;
    let mut number = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as f64 / (1u64 << 30) as f64 - 1.0
    };
    let mut next = memory::collected((0..n).map(|_| Vector3::from_fn(|_, _| number())))?;
    let steps = STEPS.min(3 * n);
    let mut basis: Vec<[Vec<Vector3<f64>>; 2]> = memory::room(steps)?;
    let (mut alphas, mut betas) = (Vec::with_capacity(steps), Vec::with_capacity(steps));
    for _ in 0..steps {
        let weighed = times(&diagonal, &next)?;
        let norm = dot(&next, &weighed).max(0.0).sqrt();
        if !basis.is_empty() {
            // The space is exhausted.
            if norm <= 1e-10 {
                break;
            }
            betas.push(norm);
        }
        let scaled = |all: &[Vector3<f64>]| memory::collected(all.iter().map(|v| v / norm));
        let (vector, weighed) = (scaled(&next)?, scaled(&weighed)?);
        let product = matrix.product(&vector)?;
        alphas.push(dot(&vector, &product));
        next = times(&inverses, &product)?;
        basis.push([vector, weighed]);
        // Against all of the basis, twice: what rounding leaves of it would come back.
        for _ in 0..2 {
            for [vector, weighed] in &basis {
                let part = dot(&next, weighed);
                next.iter_mut().zip(vector).for_each(|(next, v)| *next -= v * part);
            }
        }
    }
    let size = alphas.len();
    let small = DMatrix::from_fn(size, size, |i, j| match i.abs_diff(j) {
        0 => alphas[i],
        1 => betas[i.min(j)],
        _ => 0.0,
    });
    let values = SymmetricEigen::new(small).eigenvalues;
    Ok([values.min(), values.max()])
}

/// The inverse of each block.
///
/// # Errors
/// [`ElasticityError::NotDefinite`] for one that has none; [`ElasticityError::OutOfMemory`].
pub fn inverses(blocks: &[Matrix3<f64>]) -> Result<Vec<Matrix3<f64>>> {
    let all = blocks.iter().map(|b| b.try_inverse().unwrap_or(Matrix3::repeat(f64::NAN)));
    let all: Vec<Matrix3<f64>> = memory::collected(all)?;
    match all.iter().all(|b| b.iter().all(|v| v.is_finite())) {
        true => Ok(all),
        false => Err(ElasticityError::NotDefinite { unknowns: 3 * blocks.len() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::cube;
    use crate::{Fixed, Newmark};

    /// Against the eigenvalues of the whole matrix.
    #[test]
    fn bounds_are_those_of_the_dense_matrix() {
        let body = cube();
        let (stiffness, mass) = (body.stiffness().unwrap(), body.lumped_mass().unwrap());
        let fixed = Fixed::whose(body.mesh(), |x| x.z == 0.0).unwrap();
        let method = Newmark::with_step(0.02);
        let matrix = method.effective(&stiffness, &mass, None, &fixed).unwrap();
        let n = 27;
        let dense = DMatrix::from_fn(3 * n, 3 * n, |r, c| {
            matrix.get(r / 3, c / 3).map_or(0.0, |b| b[(r % 3, c % 3)])
        });
        let root = DMatrix::from_fn(3 * n, 3 * n, |r, c| {
            let block = matrix.get(r / 3, r / 3).unwrap();
            let inverse = SymmetricEigen::new(block);
            let values = Matrix3::from_diagonal(&inverse.eigenvalues.map(|v| 1.0 / v.sqrt()));
            let root = inverse.eigenvectors * values * inverse.eigenvectors.transpose();
            if r / 3 == c / 3 { root[(r % 3, c % 3)] } else { 0.0 }
        });
        let values = SymmetricEigen::new(&root * dense * &root).eigenvalues;
        let [low, high] = spectrum(&matrix).unwrap();
        assert!((high / values.max() - 1.0).abs() < 0.02, "{high} {}", values.max());
        assert!(low >= values.min() - 1e-9 && low < 1.3 * values.min(), "{low} {}", values.min());
        assert!(matches!(inverses(&[Matrix3::zeros()]), Err(ElasticityError::NotDefinite { .. })));
    }
}
