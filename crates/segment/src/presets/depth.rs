//! How deep points lie within a set.

use crate::error::{Result, same_length};
use voxalign_image::memory;

/// The distance of each point of a set from the nearest point outside of it, in the units of the spacing, exactly (P. Felzenszwalb and D. Huttenlocher 2012); 0 outside,
/// infinite where nothing is outside. What is beyond the border of the lattice is not outside, unless `beyond_last` has it so behind the last plane along z.
///
/// # Errors
/// [`SegmentError::Length`](crate::SegmentError::Length), [`SegmentError::OutOfMemory`](crate::SegmentError::OutOfMemory).
pub fn depths(
    dims: [usize; 3],
    set: &[bool],
    spacing: [f64; 3],
    beyond_last: bool,
) -> Result<Vec<f32>> {
    same_length("the set", set.len(), dims.iter().product())?;
    let mut squares = memory::collected(set.iter().map(|s| if *s { f32::INFINITY } else { 0.0 }))?;
    let strides = [1, dims[0], dims[0] * dims[1]];
    let most = dims.iter().max().copied().unwrap_or(1) + 1;
    let mut line = memory::zeroed::<f64>(most)?;
    let mut hull = memory::zeroed::<(usize, f64)>(most)?;
    for axis in 0..3 {
        let (n, stride) = (dims[axis], strides[axis]);
        let has_end = axis == 2 && beyond_last;
        if n == 1 && !has_end {
            continue;
        }
        for first in (0..set.len()).filter(|p| (p / stride) % n == 0) {
            for i in 0..n {
                line[i] = f64::from(squares[first + i * stride]);
            }
            line[n] = 0.0;
            let all = n + usize::from(has_end);
            let hulls = lower_hull(&line[..all], spacing[axis], &mut hull);
            let Some(parabolas) = hulls else { continue };
            let mut k = 0;
            for i in 0..n {
                while k + 1 < parabolas && hull[k + 1].1 <= i as f64 {
                    k += 1;
                }
                let from = (i as f64 - hull[k].0 as f64) * spacing[axis];
                squares[first + i * stride] = (line[hull[k].0] + from * from) as f32;
            }
        }
    }
    squares.iter_mut().for_each(|s| *s = s.sqrt());
    Ok(squares)
}

/// The parabolas that are lowest somewhere, each with the place from which on it is; their number, or none where all are infinite.
fn lower_hull(line: &[f64], spacing: f64, hull: &mut [(usize, f64)]) -> Option<usize> {
    let square = spacing * spacing;
    let mut count = 0;
    for (i, value) in line.iter().enumerate().filter(|(_, v)| v.is_finite()) {
        let mut from = f64::NEG_INFINITY;
        while count > 0 {
            let (j, begins) = hull[count - 1];
            let (a, b) = (i as f64, j as f64);
            from = (value - line[j] + square * (a * a - b * b)) / (2.0 * square * (a - b));
            if from > begins {
                break;
            }
            count -= 1;
            from = f64::NEG_INFINITY;
        }
        hull[count] = (i, from);
        count += 1;
    }
    (count > 0).then_some(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Random;

    #[test]
    fn distances_are_those_of_all_pairs() {
        let (dims, spacing) = ([7, 6, 5], [1.0, 1.5, 2.5]);
        let mut random = Random(11);
        for round in 0..30 {
            let set: Vec<bool> = (0..210).map(|_| random.below(8) < 7).collect();
            let beyond = round % 2 == 0;
            let found = depths(dims, &set, spacing, beyond).unwrap();
            let place = |p: usize| [p % 7, p / 7 % 6, p / 42];
            for p in 0..210 {
                let at = place(p);
                let square = |q: usize| -> f64 {
                    (0..3).map(|a| (spacing[a] * (at[a] as f64 - place(q)[a] as f64)).powi(2)).sum()
                };
                let outside = (0..210).filter(|q| !set[*q]).map(square);
                let end =
                    if beyond { (spacing[2] * (5 - at[2]) as f64).powi(2) } else { f64::INFINITY };
                let least = outside.fold(end, f64::min).sqrt();
                let least = if set[p] { least } else { 0.0 };
                assert!((f64::from(found[p]) - least).abs() < 1e-5, "{p}: {} {least}", found[p]);
            }
        }
        assert!(
            depths([2, 2, 1], &[true; 4], [1.0; 3], false).unwrap().iter().all(|d| d.is_infinite())
        );
        assert!(depths([2, 2, 1], &[true; 3], [1.0; 3], false).is_err());
    }
}
