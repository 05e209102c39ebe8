//! Reduction of meshes for the view.

use super::Layer;
use crate::error::Result;
use std::collections::BTreeMap;
use voxalign_image::{Vector3, memory};

/// Most vertices of a layer: indices have 16 bits.
const VERTICES: usize = 1 << 16;

/// The part of a layer that is in the page.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Reduced {
    pub(super) vertices: Vec<Vector3<f64>>,
    pub(super) values: Vec<f32>,
    pub(super) faces: Vec<[u32; 3]>,
    pub(super) lines: Vec<Vec<u32>>,
    /// Whether the vertices are points.
    pub(super) are_points: bool,
    /// Whether anything was left out.
    pub(super) is_reduced: bool,
}

impl Reduced {
    /// A layer with at most this many faces, and this many points along lines.
    pub(super) fn of(layer: &Layer<'_>, most: usize) -> Result<Self> {
        let mesh = layer.mesh;
        let mut out =
            if mesh.faces().is_empty() { lines(layer, most)? } else { faces(layer, most)? };
        out.are_points = mesh.faces().is_empty() && mesh.line_ends().is_empty();
        Ok(out)
    }
}

/// A surface: its vertices are merged within cells of a grid that is made coarser until few enough are left.
fn faces(layer: &Layer<'_>, most: usize) -> Result<Reduced> {
    let (mesh, values) = (layer.mesh, layer.values);
    let all = mesh.vertices();
    let as_it_is = mesh.faces().len() <= most && all.len() <= VERTICES;
    if as_it_is && mesh.line_ends().is_empty() {
        return Ok(Reduced {
            vertices: memory::copied(all)?,
            values: memory::copied(values.unwrap_or_default())?,
            faces: memory::copied(mesh.faces())?,
            ..Reduced::default()
        });
    }
    // An area of cells of side c has about area / c² vertices, and twice as many faces.
    let mut cell = (2.0 * mesh.area() / most.max(1) as f64).sqrt().max(1e-9);
    loop {
        let found = merged(layer, cell)?;
        if found.faces.len() <= most && found.vertices.len() <= VERTICES {
            return Ok(found);
        }
        cell *= 1.15;
    }
}

fn merged(layer: &Layer<'_>, cell: f64) -> Result<Reduced> {
    let (mesh, values) = (layer.mesh, layer.values);
    let mut place: BTreeMap<[i64; 3], u32> = BTreeMap::new();
    let mut to = memory::room(mesh.vertices().len())?;
    let mut sums: Vec<(Vector3<f64>, f64, f64, f64)> = Vec::new();
    for (i, vertex) in mesh.vertices().iter().enumerate() {
        let key: [i64; 3] = vertex.map(|c| (c / cell).floor() as i64).into();
        let next = place.len() as u32;
        let index = *place.entry(key).or_insert(next);
        if index == next {
            sums.push((Vector3::zeros(), 0.0, 0.0, 0.0));
        }
        let sum = &mut sums[index as usize];
        sum.0 += vertex;
        sum.1 += 1.0;
        if let Some(value) = values.and_then(|v| v.get(i)).filter(|v| v.is_finite()) {
            sum.2 += f64::from(*value);
            sum.3 += 1.0;
        }
        to.push(index);
    }
    let mut kept = memory::room(mesh.faces().len())?;
    for face in mesh.faces() {
        let [a, b, c] = face.map(|i| to[i as usize]);
        if a != b && b != c && c != a {
            // Begun with the smallest index, so that the same face is found to be one.
            kept.push(match a.min(b).min(c) {
                least if least == a => [a, b, c],
                least if least == b => [b, c, a],
                _ => [c, a, b],
            });
        }
    }
    kept.sort_unstable();
    kept.dedup();
    Ok(Reduced {
        vertices: memory::collected(sums.iter().map(|s| s.0 / s.1))?,
        values: match values {
            Some(_) => memory::collected(sums.iter().map(|s| (s.2 / s.3) as f32))?,
            None => Vec::new(),
        },
        faces: kept,
        is_reduced: true,
        ..Reduced::default()
    })
}

/// Curves or points: a regular subset of them, evenly over the list, each curve with a regular subset of its
/// points.
fn lines(layer: &Layer<'_>, most: usize) -> Result<Reduced> {
    let mesh = layer.mesh;
    let most = most.min(VERTICES);
    let (all, value) = (mesh.vertices(), |i: usize| layer.values.and_then(|v| v.get(i)).copied());
    let mut out = Reduced::default();
    if mesh.line_ends().is_empty() {
        let step = all.len().div_ceil(most.max(1)).max(1);
        out.vertices = memory::collected(all.iter().step_by(step).copied())?;
        if layer.values.is_some() {
            out.values = (0..all.len()).step_by(step).filter_map(value).collect();
        }
        out.is_reduced = step > 1;
        return Ok(out);
    }
    // Half of the room goes to more curves, half to more points of each.
    let points = mesh.line_vertices().len();
    let excess = (points as f64 / most.max(1) as f64).max(1.0);
    let longest = points as f64 / mesh.line_ends().len() as f64;
    let along = (excess.sqrt().min(longest / 8.0).max(1.0)).floor() as usize;
    let mut step = (excess / along as f64).ceil().max(1.0) as usize;
    loop {
        out.vertices.clear();
        out.values.clear();
        out.lines.clear();
        for line in mesh.lines().step_by(step).filter(|line| line.len() > 1) {
            let last = line.len() - 1;
            let mut kept = Vec::new();
            for at in (0..last).step_by(along).chain([last]) {
                let i = line[at] as usize;
                kept.push(out.vertices.len() as u32);
                out.vertices.push(all[i]);
                out.values.extend(value(i));
            }
            out.lines.push(kept);
        }
        if out.vertices.len() <= most || out.lines.len() <= 1 {
            break;
        }
        step += 1 + step / 8;
    }
    out.is_reduced = step > 1 || along > 1;
    if out.vertices.len() > VERTICES {
        // One curve of more points than indices: evenly many of them.
        let step = out.vertices.len().div_ceil(VERTICES);
        out.vertices = out.vertices.into_iter().step_by(step).collect();
        out.values = out.values.into_iter().step_by(step).collect();
        out.lines = vec![(0..out.vertices.len() as u32).collect()];
        out.is_reduced = true;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::meshes::Colour;
    use voxalign_image::Mesh;

    /// A sheet of n x n vertices over 100 mm, its values the distance along x.
    fn sheet(n: u32) -> (Mesh, Vec<f32>) {
        let at = |i: u32| f64::from(i) * 100.0 / f64::from(n - 1);
        let vertices: Vec<_> =
            (0..n * n).map(|i| Vector3::new(at(i % n), at(i / n), 0.0)).collect();
        let cells = (0..n - 1).flat_map(|y| (0..n - 1).map(move |x| y * n + x));
        let faces = cells.flat_map(|i| [[i, i + 1, i + n], [i + 1, i + n + 1, i + n]]).collect();
        let values = vertices.iter().map(|v| v[0] as f32).collect();
        (Mesh::new(vertices, faces).unwrap(), values)
    }

    #[test]
    fn surfaces_keep_their_place_and_values() {
        let (mesh, values) = sheet(200);
        let layer = Layer::new("s", &mesh, Colour::Blue).with_values(&values);
        let few = Reduced::of(&layer, 5000).unwrap();
        assert!(few.is_reduced && (2000..=5000).contains(&few.faces.len()), "{}", few.faces.len());
        let same = few.vertices.iter().zip(&few.values);
        assert!(same.into_iter().all(|(v, &value)| (v[0] as f32 - value).abs() < 1e-3));
        let small = Mesh::new(few.vertices, few.faces).unwrap();
        assert!((small.area() - mesh.area()).abs() < 0.05 * mesh.area(), "{}", small.area());
        let all = Reduced::of(&layer, 1_000_000).unwrap();
        assert!(!all.is_reduced && all.faces == mesh.faces());
    }

    #[test]
    fn curves_and_points_are_thinned_evenly() {
        let vertices: Vec<_> = (0..100_000)
            .map(|i| Vector3::new(f64::from(i % 100), f64::from(i / 100), 0.0))
            .collect();
        let points = Mesh::new(vertices, vec![]).unwrap();
        let few = Reduced::of(&Layer::new("p", &points, Colour::Red), 3000).unwrap();
        assert!(few.are_points && few.is_reduced && (1500..=3000).contains(&few.vertices.len()));
        let ends = (1..=1000).map(|i| i * 100).collect();
        let lines = points.with_lines(ends, (0..100_000).collect()).unwrap();
        let few = Reduced::of(&Layer::new("l", &lines, Colour::Red), 3000).unwrap();
        assert!(
            !few.are_points && (1000..=3000).contains(&few.vertices.len()),
            "{}",
            few.vertices.len()
        );
        // The ends of curves stay.
        let last = few.lines.iter().map(|l| few.vertices[*l.last().unwrap() as usize][0]);
        assert!(last.into_iter().all(|x| x == 99.0));
        let one = Mesh::new(lines.vertices().to_vec(), vec![]).unwrap();
        let one = one.with_lines(vec![100_000], (0..100_000).collect()).unwrap();
        let few = Reduced::of(&Layer::new("l", &one, Colour::Red), 1_000_000).unwrap();
        assert!(few.vertices.len() <= VERTICES && few.lines.len() == 1);
    }
}
