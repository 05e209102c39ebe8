//! Contour lines of a picture of values, by marching squares.

use super::plane::Plane;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// An edge between two neighbouring samples: the first sample, and whether the second is below it
/// (else to its right).
type Edge = (usize, bool);

/// The lines on which samples on a lattice of `width` x `height` have a level, each a list of points
/// in units of the lattice. Linear along the edges of cells; in a cell with two diagonal pairs, the
/// mean decides. Cells with a value that is not finite have no line.
pub(crate) fn level_lines(
    samples: &[f64],
    width: usize,
    height: usize,
    level: f64,
) -> Vec<Vec<[f64; 2]>> {
    let mut next: BTreeMap<Edge, Vec<Edge>> = BTreeMap::new();
    let mut join = |a: Edge, b: Edge| {
        next.entry(a).or_default().push(b);
        next.entry(b).or_default().push(a);
    };
    for y in 0..height.saturating_sub(1) {
        for x in 0..width.saturating_sub(1) {
            let i = y * width + x;
            let corners = [i, i + 1, i + width + 1, i + width];
            let values = corners.map(|c| samples[c]);
            if values.iter().any(|v| !v.is_finite()) {
                continue;
            }
            let above = values.map(|v| v >= level);
            // Top, right, bottom, left.
            let edges: [Edge; 4] = [(i, false), (i + 1, true), (i + width, false), (i, true)];
            let crossed: Vec<usize> = (0..4).filter(|&e| above[e] != above[(e + 1) % 4]).collect();
            match crossed[..] {
                [a, b] => join(edges[a], edges[b]),
                [_, _, _, _] => {
                    let mean = values.iter().sum::<f64>() / 4.0;
                    // Lines cut off the two corners that are not of the side of the mean.
                    if (mean >= level) == above[0] {
                        join(edges[0], edges[1]);
                        join(edges[2], edges[3]);
                    } else {
                        join(edges[3], edges[0]);
                        join(edges[1], edges[2]);
                    }
                }
                _ => {}
            }
        }
    }
    let point = |(at, down): Edge| {
        let other = if down { at + width } else { at + 1 };
        let (a, b) = (samples[at], samples[other]);
        let part = if a == b { 0.5 } else { ((level - a) / (b - a)).clamp(0.0, 1.0) };
        let (x, y) = ((at % width) as f64, (at / width) as f64);
        if down { [x, y + part] } else { [x + part, y] }
    };
    chained(next, point)
}

/// The lines formed by steps from point to point: `next` lists the successors of each point. Open lines come first,
/// then the closed ones.
pub(crate) fn chained<E: Copy + Ord>(
    mut next: BTreeMap<E, Vec<E>>,
    point: impl Fn(E) -> [f64; 2],
) -> Vec<Vec<[f64; 2]>> {
    let mut lines = Vec::new();
    let starts: Vec<E> = next.keys().copied().collect();
    for open in [true, false] {
        for &start in &starts {
            let begins = |on: &Vec<E>| if open { on.len() == 1 } else { !on.is_empty() };
            while next.get(&start).is_some_and(begins) {
                let mut line = vec![point(start)];
                let mut at = start;
                while let Some(on) = next.get_mut(&at).and_then(Vec::pop) {
                    if let Some(back) = next.get_mut(&on)
                        && let Some(place) = back.iter().position(|e| *e == at)
                    {
                        back.swap_remove(place);
                    }
                    line.push(point(on));
                    at = on;
                }
                lines.push(line);
            }
        }
    }
    lines
}

/// The lines on which values at the centres of pixels have a level, as a path upon their picture; drawn lines may be
/// `tolerance` pixels from the exact ones.
pub(crate) fn level_path(values: &[f64], plane: &Plane, level: f64, tolerance: f64) -> String {
    let mut path = String::new();
    for line in level_lines(values, plane.width(), plane.height(), level) {
        // Centres of pixels are half a pixel from their corners.
        let line: Vec<[f64; 2]> = line.into_iter().map(|p| p.map(|v| v + 0.5)).collect();
        add(&mut path, &simplified(&line, tolerance));
    }
    path
}

/// Line simplification: drops points within `tolerance` of the line between those kept (U. Ramer 1972; D. Douglas,
/// T. Peucker 1973).
pub(crate) fn simplified(line: &[[f64; 2]], tolerance: f64) -> Vec<[f64; 2]> {
    let Some(last) = line.len().checked_sub(1) else { return Vec::new() };
    let mut keep = vec![false; line.len()];
    (keep[0], keep[last]) = (true, true);
    let mut open = vec![(0, last)];
    while let Some((a, b)) = open.pop() {
        let (p, q) = (line[a], line[b]);
        let along = [q[0] - p[0], q[1] - p[1]];
        let length = along[0].hypot(along[1]);
        let away = |i: usize| {
            let off = [line[i][0] - p[0], line[i][1] - p[1]];
            if length > 0.0 {
                (off[0] * along[1] - off[1] * along[0]).abs() / length
            } else {
                off[0].hypot(off[1])
            }
        };
        let farthest = (a + 1..b).map(|i| (i, away(i))).max_by(|u, v| u.1.total_cmp(&v.1));
        if let Some((i, distance)) = farthest
            && distance > tolerance
        {
            keep[i] = true;
            open.extend([(a, i), (i, b)]);
        }
    }
    line.iter().zip(keep).filter(|(_, k)| *k).map(|(p, _)| *p).collect()
}

/// Adds a line to a path, in tenths of pixels.
pub(crate) fn add(path: &mut String, line: &[[f64; 2]]) {
    let tenths = |p: &[f64; 2]| p.map(|v| (v * 10.0).round() as i64);
    let text = |v: i64| {
        let (sign, size) = (if v < 0 { "-" } else { "" }, v.unsigned_abs());
        match size % 10 {
            0 => format!("{sign}{}", size / 10),
            part if size < 10 => format!("{sign}.{part}"),
            part => format!("{sign}{}.{part}", size / 10),
        }
    };
    let Some(first) = line.first() else { return };
    let mut at = tenths(first);
    let _ = write!(path, "M{} {}l", text(at[0]), text(at[1]));
    for (i, point) in line[1..].iter().enumerate() {
        let to = tenths(point);
        let gap = if i == 0 { "" } else { " " };
        let _ = write!(path, "{gap}{} {}", text(to[0] - at[0]), text(to[1] - at[1]));
        at = to;
    }
}

/// A path of lines over the picture of a plane; `class` sets their style.
pub(crate) fn overlay(class: &str, plane: &Plane, path: &str) -> String {
    over(class, plane.size(), &format!("<path d=\"{path}\"/>"))
}

/// An SVG over a picture, with this many units across and down.
pub(crate) fn over(class: &str, [width, height]: [usize; 2], content: &str) -> String {
    format!(
        "<svg class=\"{class}\" viewBox=\"0 0 {width} {height}\" preserveAspectRatio=\"none\" \
         aria-hidden=\"true\">{content}</svg>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lattice(n: usize, f: impl Fn(f64, f64) -> f64) -> Vec<f64> {
        (0..n * n).map(|i| f((i % n) as f64, (i / n) as f64)).collect()
    }

    #[test]
    fn a_straight_line_is_one_line_from_border_to_border() {
        let lines = level_lines(&lattice(10, |x, y| x + 0.1 * y), 10, 10, 4.25);
        assert_eq!(lines.len(), 1);
        let line = &lines[0];
        assert!(line.iter().all(|p| (p[0] + 0.1 * p[1] - 4.25).abs() < 1e-9), "{line:?}");
        let ends = [line[0][1], line[line.len() - 1][1]];
        assert_eq!(ends[0].min(ends[1]), 0.0);
        assert_eq!(ends[0].max(ends[1]), 9.0);
        assert_eq!(simplified(line, 0.01).len(), 2);
    }

    #[test]
    fn a_circle_is_closed() {
        let lines = level_lines(&lattice(40, |x, y| (x - 20.0).hypot(y - 19.0)), 40, 40, 12.0);
        assert_eq!(lines.len(), 1);
        let line = &lines[0];
        assert_eq!(line[0], line[line.len() - 1]);
        assert!(line.iter().all(|p| ((p[0] - 20.0).hypot(p[1] - 19.0) - 12.0).abs() < 0.05));
        assert!(line.len() > 60);
        let fewer = simplified(line, 0.1);
        assert!(fewer.len() > 10 && fewer.len() < line.len() / 2, "{}", fewer.len());
    }

    #[test]
    fn saddles_and_odd_values_are_taken() {
        let saddle = level_lines(&lattice(9, |x, y| (x - 4.5) * (y - 4.5)), 9, 9, 0.1);
        assert_eq!(saddle.len(), 2);
        assert!(level_lines(&[f64::NAN; 9], 3, 3, 0.0).is_empty());
        assert!(level_lines(&[1.0; 9], 3, 3, 1.0).is_empty());
        assert!(level_lines(&[], 0, 0, 1.0).is_empty());
        assert!(level_lines(&[1.0, 2.0], 2, 1, 1.5).is_empty());
        let checks = lattice(8, |x, y| (x + y) % 2.0);
        let points: usize = level_lines(&checks, 8, 8, 0.5).iter().map(Vec::len).sum();
        assert!(points > 0);
        assert!(simplified(&[], 1.0).is_empty());
    }

    #[test]
    fn paths_are_short_and_right() {
        let mut path = String::new();
        add(&mut path, &[[1.0, 2.5], [1.25, 0.0], [10.0, -0.3]]);
        assert_eq!(path, "M1 2.5l.3 -2.5 8.7 -.3");
        add(&mut path, &[]);
        assert_eq!(path.len(), 22);
    }
}
