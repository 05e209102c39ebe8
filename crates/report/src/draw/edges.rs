//! Edges of a picture (Canny 1986: ridges of the smoothed gradient, followed down from the strong
//! ones), and outlines of regions.

/// The fraction of the pixels whose gradient counts as strong.
const STRONG: f64 = 0.09;
/// The weakest gradient that an edge is followed to, as a fraction of the strong threshold.
const WEAK: f32 = 0.45;
/// A gradient below this fraction of the picture's range is never an edge.
const LEAST: f32 = 0.02;

/// The pixels of a picture with values from 0 to 1 that lie on an edge.
pub(crate) fn edges(picture: &[f32], width: usize, height: usize) -> Vec<bool> {
    let mut on = vec![false; picture.len()];
    if width < 3 || height < 3 || picture.len() != width * height {
        return on;
    }
    let smooth = smooth(&smooth(picture, width), width);
    let mut gradient = vec![(0f32, 0f32); picture.len()];
    let mut size = vec![0f32; picture.len()];
    for y in 1..height - 1 {
        for x in 1..width - 1 {
            let i = y * width + x;
            let dx = (smooth[i + 1] - smooth[i - 1]) / 2.0;
            let dy = (smooth[i + width] - smooth[i - width]) / 2.0;
            gradient[i] = (dx, dy);
            size[i] = dx.hypot(dy);
        }
    }
    let mut sorted = size.clone();
    let at = ((1.0 - STRONG) * (sorted.len() - 1) as f64) as usize;
    let strong = sorted.select_nth_unstable_by(at, f32::total_cmp).1.max(LEAST);
    let weak = (strong * WEAK).max(LEAST);
    // Pixels on a ridge of the gradient.
    let ridge = |i: usize| {
        let (dx, dy) = gradient[i];
        let step = match (dx.abs() > 2.414 * dy.abs(), dy.abs() > 2.414 * dx.abs()) {
            (true, _) => 1,
            (_, true) => width,
            _ if (dx > 0.0) == (dy > 0.0) => width + 1,
            _ => width - 1,
        };
        size[i] >= size[i - step] && size[i] > size[i + step]
    };
    let mut open = Vec::new();
    let inner = |i: usize| {
        let (x, y) = (i % width, i / width);
        x > 0 && y > 0 && x < width - 1 && y < height - 1
    };
    for i in 0..size.len() {
        if size[i] >= strong && inner(i) && !on[i] && ridge(i) {
            on[i] = true;
            open.push(i);
        }
        while let Some(at) = open.pop() {
            for dy in 0..3 {
                for dx in 0..3 {
                    let next = at + dy * width + dx - width - 1;
                    if !on[next] && size[next] >= weak && inner(next) && ridge(next) {
                        on[next] = true;
                        open.push(next);
                    }
                }
            }
        }
    }
    on
}

/// A binomial filter of width 3 along both axes, the border held.
fn smooth(picture: &[f32], width: usize) -> Vec<f32> {
    let height = picture.len() / width;
    let mut rows = vec![0f32; picture.len()];
    for (to, from) in rows.chunks_exact_mut(width).zip(picture.chunks_exact(width)) {
        for (x, value) in to.iter_mut().enumerate() {
            let (left, right) = (from[x.saturating_sub(1)], from[(x + 1).min(width - 1)]);
            *value = (left + 2.0 * from[x] + right) / 4.0;
        }
    }
    let mut out = vec![0f32; picture.len()];
    for (y, to) in out.chunks_exact_mut(width).enumerate() {
        let row = |y: usize| &rows[y * width..][..width];
        let (above, here, below) = (row(y.saturating_sub(1)), row(y), row((y + 1).min(height - 1)));
        for (x, value) in to.iter_mut().enumerate() {
            *value = (above[x] + 2.0 * here[x] + below[x]) / 4.0;
        }
    }
    out
}

/// The pixels of a picture of regions that lie on the border of one.
pub(crate) fn outlines(labels: &[i32], width: usize) -> Vec<bool> {
    labels
        .iter()
        .enumerate()
        .map(|(i, label)| {
            let right = (i % width + 1 < width).then(|| labels[i + 1]);
            let below = labels.get(i + width).copied();
            [right, below].into_iter().flatten().any(|other| other != *label)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disc_has_a_closed_edge() {
        let n = 64;
        let radius = |i: usize| ((i % n) as f32 - 31.5).hypot((i / n) as f32 - 31.5);
        let disc: Vec<f32> = (0..n * n).map(|i| f32::from(radius(i) < 20.0)).collect();
        let on = edges(&disc, n, n);
        let found: Vec<_> = (0..n * n).filter(|&i| on[i]).map(radius).collect();
        assert!(found.len() > 100 && found.len() < 250, "{}", found.len());
        assert!(found.iter().all(|r| (r - 20.0).abs() < 2.0));
    }

    #[test]
    fn flat_and_tiny_pictures_have_none() {
        assert!(!edges(&[0.4; 100], 10, 10).contains(&true));
        assert!(!edges(&[0.0, 1.0], 2, 1).contains(&true));
        assert!(edges(&[], 0, 0).is_empty());
    }

    #[test]
    fn outlines_separate_regions() {
        let on = outlines(&[1, 1, 2, 1, 1, 2, 3, 3, 3], 3);
        assert_eq!(on, [false, true, false, true, true, true, false, false, false]);
    }
}
