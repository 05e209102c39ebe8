//! Quaternions of qforms in single precision.

use std::array::from_fn;

/// What a quaternion's vector part is written as. Its first number is not written and follows from the length of the others: where that is
/// next to 0, as of half a turn, what rounding takes from the length would be a turn of its own. Of the numbers next to the exact ones,
/// those are written whose rotation, as it is read, is nearest to the exact one.
pub(super) fn in_single(exact: [f64; 3]) -> [f32; 3] {
    let nearest = exact.map(|x| x as f32);
    let square: f64 = exact.iter().map(|x| x * x).sum();
    // Where the first number is larger, rounding changes it by less than single precision holds of the others.
    if square < 0.9 {
        return nearest;
    }
    let exact = unit(exact);
    let mut best = (f64::MAX, nearest);
    for combination in 0..27 {
        let tried: [f32; 3] =
            from_fn(|i| neighbour(nearest[i], combination / 3usize.pow(i as u32) % 3));
        // Readers refuse or remark a length beyond 1 that rounding does not explain.
        let length: f64 = tried.iter().map(|&x| f64::from(x).powi(2)).sum();
        let read = unit(tried.map(f64::from));
        let distance: f64 = exact.iter().zip(read).map(|(a, b)| (a - b).powi(2)).sum();
        if length < 1.0 + 2e-7 && distance < best.0 {
            best = (distance, tried);
        }
    }
    best.1
}

/// The quaternion as it is read: its first number makes the length 1, and is 0 where the others are longer.
fn unit(q: [f64; 3]) -> [f64; 4] {
    let square: f64 = q.iter().map(|x| x * x).sum();
    let length = square.max(1.0).sqrt();
    [(1.0 - square).max(0.0).sqrt(), q[0] / length, q[1] / length, q[2] / length]
}

/// The number itself (0), the next larger (1), the next smaller (2).
fn neighbour(x: f32, which: usize) -> f32 {
    match which {
        0 => x,
        1 => x.next_up(),
        _ => x.next_down(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn distance(a: [f64; 4], b: [f64; 4]) -> f64 {
        a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
    }

    proptest! {
        #[test]
        fn rotations_keep_their_angle(
            axis in prop::array::uniform3(-1.0..1.0f64),
            exponent in -9.0..0.0f64,
        ) {
            let norm = axis.iter().map(|x| x * x).sum::<f64>().sqrt();
            prop_assume!(norm > 0.01);
            // From a quarter turn to within 1e-9 of half a turn, where the first number vanishes.
            let first = 0.7 * 10f64.powf(exponent);
            let q = axis.map(|x| x / norm * (1.0 - first * first).sqrt());
            let written = in_single(q).map(f64::from);
            let off = distance(unit(q), unit(written));
            prop_assert!(off < 2e-4, "{off}");
            let plain = distance(unit(q), unit(q.map(|x| f64::from(x as f32))));
            prop_assert!(off <= plain, "{off} instead of {plain}");
            prop_assert!(written.iter().map(|x| x * x).sum::<f64>() < 1.0 + 2e-7);
        }
    }

    #[test]
    fn axes_stay_exact() {
        assert_eq!(in_single([0.0, 0.0, 1.0]), [0.0, 0.0, 1.0]);
        assert_eq!(in_single([0.0, -1.0, 0.0]), [0.0, -1.0, 0.0]);
        assert_eq!(in_single([0.5, 0.5, 0.5]), [0.5; 3]);
    }
}
