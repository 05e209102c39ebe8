//! Rows of the frequency domain.

use crate::cpu::simd::kernel;

kernel! {
    /// `out / (x + rest)`
    pub(super) fn divide_row<V>(v, x: &[f32], rest: f32, out: &mut [f32]) {
        let _ = v;
        for (out, x) in out.iter_mut().zip(x) {
            *out /= x + rest;
        }
    }
}

kernel! {
    /// The inverse of the symbol at a row of frequencies: see [`ElasticOperator::symbol`].
    pub(super) fn symbol_row<V>(
        v,
        x: &[Vec<f32>; 3],
        at: [[f32; 3]; 2],
        gamma: f32,
        spectra: [&mut [f32]; 3],
    ) {
        let _ = v;
        let ([y, z], [f0, f1, f2]) = (at, spectra);
        let rest = gamma + y[0] + z[0];
        let n = f0.len();
        let (f1, f2) = (&mut f1[..n], &mut f2[..n]);
        let (x0, x1, x2) = (&x[0][..n], &x[1][..n], &x[2][..n]);
        for i in 0..n {
            let common = rest + x0[i];
            let inverse = [1.0 / (common + x1[i]), 1.0 / (common + y[1]), 1.0 / (common + z[1])];
            let c = [x2[i], y[2], z[2]];
            let g = [f0[i] * inverse[0], f1[i] * inverse[1], f2[i] * inverse[2]];
            let above = c[0] * g[0] + c[1] * g[1] + c[2] * g[2];
            let below = c[0] * c[0] * inverse[0] + c[1] * c[1] * inverse[1] + c[2] * c[2] * inverse[2];
            let s = above / (1.0 + below);
            f0[i] = g[0] - c[0] * inverse[0] * s;
            f1[i] = g[1] - c[1] * inverse[1] * s;
            f2[i] = g[2] - c[2] * inverse[2] * s;
        }
    }
}
