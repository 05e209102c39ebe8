//! Two anatomies of the pair of brains: their tissues as probabilities, and the hulls of the brains as surfaces.

use super::Pair;
use crate::anatomy::Job;
use crate::error::Result;
use crate::listener::Listener;
use crate::staged::Staged;
use std::collections::BTreeMap;
use std::path::Path;
use voxalign_image::{LabelMap, Mesh, Vector3};
use voxalign_io::mesh::{self, WriteOptions};

/// How often the triangles of a ball are cut into four.
const ROUNDS: usize = 4;
/// How far rays are looked along, mm, and in which steps.
const RAY: (f64, f64) = (150.0, 0.5);
/// How often radii are averaged with those around them.
const SMOOTH: usize = 3;

/// The file of an anatomy; weights and widths are those of the fixed one.
fn file(side: &str) -> String {
    let parameters = match side {
        "fixed" => {
            "width = 10.0                # of the kernel, mm: no less than triangles are long\n"
        }
        _ => "",
    };
    format!(
        "# The {side} anatomy of `voxalign demo anatomy`; paths are relative to this file.\n\n\
         [[probability]]\nname = \"grey\"\nlabels = \"{side}_labels.nii.gz\"\nlabel = 2\nsigma = 1.5                 # mm\n\n\
         [[probability]]\nname = \"white\"\nlabels = \"{side}_labels.nii.gz\"\nlabel = 3\nsigma = 1.5\n\n\
         [[surface]]\nname = \"hull\"\nmesh = \"{side}_hull.surf.gii\"\n{parameters}"
    )
}

/// Writes the pair with its hulls and the files of both anatomies into a folder, and gives the job that registers them.
///
/// # Errors
/// What the system says; memory that runs out.
pub fn write(folder: &Path, output: &Path, listener: &dyn Listener) -> Result<Job> {
    let pair = Pair::load()?;
    pair.write(folder, listener)?;
    let mut staged = Staged::new(folder, listener)?;
    for (side, labels) in [("fixed", &pair.fixed_labels), ("moving", &pair.moving_labels)] {
        let hull = hull(labels)?;
        let options = WriteOptions::default();
        staged
            .write(&format!("{side}_hull.surf.gii"), |path| mesh::write(path, &hull, &options))?;
        staged.write_text(&format!("{side}.toml"), &file(side))?;
    }
    staged.commit()?;
    Ok(Job::new(folder.join("fixed.toml"), folder.join("moving.toml"), output))
}

/// What rays from the middle of all labels meet last, as a closed surface.
fn hull(labels: &LabelMap) -> Result<Mesh> {
    let grid = labels.grid();
    let [nx, ny, _] = grid.dims();
    let (mut sum, mut count) = (Vector3::zeros(), 0usize);
    for (i, _) in labels.data().iter().enumerate().filter(|(_, l)| **l > 0) {
        sum += Vector3::new((i % nx) as f64, (i / nx % ny) as f64, (i / nx / ny) as f64);
        count += 1;
    }
    let middle = grid.index_to_world(sum / count.max(1) as f64);
    let (directions, faces) = ball();
    let is_inside = |p: Vector3<f64>| {
        let index = grid.world_to_index(p).map(f64::round);
        let fits = index.iter().all(|v| *v >= 0.0);
        fits && labels
            .get(index[0] as usize, index[1] as usize, index[2] as usize)
            .is_some_and(|l| *l > 0)
    };
    let steps = (RAY.0 / RAY.1) as usize;
    let radius = |d: &Vector3<f64>| {
        let last = (1..=steps).rev().find(|s| is_inside(middle + *s as f64 * RAY.1 * d));
        last.unwrap_or(1) as f64 * RAY.1
    };
    let mut radii: Vec<f64> = directions.iter().map(radius).collect();
    for _ in 0..SMOOTH {
        let mut sums: Vec<(f64, f64)> = radii.iter().map(|r| (*r, 1.0)).collect();
        for [a, b, c] in &faces {
            for (to, from) in [(a, b), (b, c), (c, a)] {
                // Each edge is one of two faces, once in either direction.
                sums[*to as usize].0 += radii[*from as usize];
                sums[*to as usize].1 += 1.0;
            }
        }
        radii = sums.into_iter().map(|(sum, count)| sum / count).collect();
    }
    let vertices = directions.iter().zip(&radii).map(|(d, r)| middle + *r * d).collect();
    Ok(Mesh::new(vertices, faces)?)
}

/// Directions that are spread evenly, and the triangles that they make, seen from outside.
fn ball() -> (Vec<Vector3<f64>>, Vec<[u32; 3]>) {
    let mut at: Vec<Vector3<f64>> =
        [Vector3::x(), -Vector3::x(), Vector3::y(), -Vector3::y(), Vector3::z(), -Vector3::z()]
            .into();
    let mut faces: Vec<[u32; 3]> = vec![
        [0, 2, 4],
        [2, 1, 4],
        [1, 3, 4],
        [3, 0, 4],
        [2, 0, 5],
        [1, 2, 5],
        [3, 1, 5],
        [0, 3, 5],
    ];
    for _ in 0..ROUNDS {
        let mut middles: BTreeMap<(u32, u32), u32> = BTreeMap::new();
        let mut finer = Vec::with_capacity(4 * faces.len());
        for [a, b, c] in faces {
            let mut middle = |p: u32, q: u32| {
                *middles.entry((p.min(q), p.max(q))).or_insert_with(|| {
                    at.push((at[p as usize] + at[q as usize]).normalize());
                    at.len() as u32 - 1
                })
            };
            let [ab, bc, ca] = [middle(a, b), middle(b, c), middle(c, a)];
            finer.extend([[a, ab, ca], [ab, b, bc], [ca, bc, c], [ab, bc, ca]]);
        }
        faces = finer;
    }
    (at, faces)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hulls_are_closed_and_as_large_as_brains() {
        let pair = Pair::load().unwrap();
        for labels in [&pair.fixed_labels, &pair.moving_labels] {
            let hull = hull(labels).unwrap();
            assert_eq!(hull.vertices().len(), 1026);
            let voxels = labels.data().iter().filter(|l| **l > 0).count() as f64;
            let volume = hull.volume().unwrap().unwrap() / (voxels * labels.grid().voxel_volume());
            assert!((0.9..1.5).contains(&volume), "{volume}");
        }
    }
}
