//! The border that a collimator leaves around an X-ray image: it says nothing of the CT, and its edges are stronger than any outline.

/// The part of the range of values by which those of a border differ at most, and by which what is inside differs at least.
const ALIKE: f32 = 0.01;
const UNLIKE: f32 = 0.1;
/// The part of the pixels along an edge that differ from the border.
const SHARP: f64 = 0.5;
/// Pixels of what is inside that an edge has part of.
const PENUMBRA: usize = 1;
/// Columns and rows that are inside at least.
const FEWEST: usize = 16;

/// What is inside of a border of one value: the first column and row, and how many; none where there is no border. A border as where
/// nothing absorbs may be the air around a body or where a CT ends: it is one where the left or the right edge is as sharp as a
/// collimator's.
pub(super) fn inside(values: &[f32], [columns, rows]: [usize; 2]) -> Option<[usize; 4]> {
    let finite = || values.iter().copied().filter(|v| v.is_finite());
    let (low, high) =
        finite().fold((f32::INFINITY, f32::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
    let range = high - low;
    if !(range > 0.0 && range.is_finite()) || values.len() != columns * rows {
        return None;
    }
    let corners = [0, columns - 1, (rows - 1) * columns, rows * columns - 1].map(|i| values[i]);
    let value = corners[0];
    let border = |v: f32| (v - value).abs() <= ALIKE * range;
    if !corners.iter().all(|&v| border(v)) {
        return None;
    }
    let row = |y: usize| values[y * columns..][..columns].iter().all(|&v| border(v));
    let column = |x: usize| (0..rows).all(|y| border(values[y * columns + x]));
    let top = (0..rows).find(|&y| !row(y))?;
    let bottom = (0..rows).rev().find(|&y| !row(y))?;
    let left = (0..columns).find(|&x| !column(x))?;
    let right = (0..columns).rev().find(|&x| !column(x))?;
    let along = |edge: &mut dyn Iterator<Item = usize>| {
        let (mut all, mut unlike) = (0, 0);
        for i in edge {
            all += 1;
            unlike += usize::from((values[i] - value).abs() > UNLIKE * range);
        }
        unlike as f64 >= SHARP * (all.max(1)) as f64
    };
    // A pixel further inside, as those of an edge have a part of both.
    let inner = |first: usize, last: usize| {
        ((first + PENUMBRA).min(last), last.saturating_sub(PENUMBRA).max(first))
    };
    let ((x0, x1), (y0, y1)) = (inner(left, right), inner(top, bottom));
    let sharp = [
        left > 0 && along(&mut (top..=bottom).map(|y| y * columns + x0)),
        right + 1 < columns && along(&mut (top..=bottom).map(|y| y * columns + x1)),
        top > 0 && along(&mut (left..=right).map(|x| y0 * columns + x)),
        bottom + 1 < rows && along(&mut (left..=right).map(|x| y1 * columns + x)),
    ];
    let as_air = value - low <= ALIKE * range;
    let counts = if as_air { sharp[0] || sharp[1] } else { sharp.contains(&true) };
    if !counts {
        return None;
    }
    let x = if sharp[0] { x0 } else { 0 };
    let y = if sharp[2] { y0 } else { 0 };
    let end_x = if sharp[1] { x1 + 1 } else { columns };
    let end_y = if sharp[3] { y1 + 1 } else { rows };
    let (width, height) = (end_x.checked_sub(x)?, end_y.checked_sub(y)?);
    (width >= FEWEST && height >= FEWEST).then_some([x, y, width, height])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disc on `around`, with a border of `value` outside of columns 20 to 79 and rows 30 to 89.
    fn image(around: f32, value: Option<f32>) -> Vec<f32> {
        let pixel = |i: usize| {
            let (x, y) = (i % 100, i / 100);
            let inside = (20..80).contains(&x) && (30..90).contains(&y);
            let from = (x as f32 - 50.0).hypot(y as f32 - 60.0);
            match value {
                Some(value) if !inside => value,
                _ if from < 24.0 => 3.0 + 0.02 * x as f32,
                _ => around,
            }
        };
        (0..100 * 120).map(pixel).collect()
    }

    #[test]
    fn a_border_is_found_and_air_is_none() {
        let found = |image: &[f32]| inside(image, [100, 120]);
        assert_eq!(found(&image(1.0, Some(9.0))), Some([21, 31, 58, 58]));
        assert_eq!(found(&image(1.0, Some(0.0))), Some([21, 31, 58, 58]));
        // A body in air, with a border in which it ends nowhere.
        assert_eq!(found(&image(0.0, None)), None);
        assert_eq!(found(&image(0.0, Some(0.0))), None);
        assert_eq!(found(&[2.0; 12_000]), None);
        // A CT that ends below: a sharp edge, but no collimator.
        let mut ends = image(0.0, None);
        ends[6000..].fill(0.0);
        assert_eq!(found(&ends), None);
    }

    #[test]
    fn a_border_on_two_sides_leaves_the_others() {
        let mut image = image(1.0, None);
        for row in image.chunks_mut(100) {
            row[..15].fill(8.0);
            row[90..].fill(8.0);
        }
        assert_eq!(inside(&image, [100, 120]), Some([16, 0, 73, 120]));
    }
}
