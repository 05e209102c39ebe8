//! Properties of transforms.

use super::Job;
use super::facts::{Facts, number, of_grid};
use crate::chain::collapse;
use crate::error::Result;
use crate::files;
use crate::listener::Listener;
use crate::machine::host;
use rayon::prelude::*;
use serde_json::{Value, json};
use std::path::Path;
use voxalign_compute::Device;
use voxalign_image::{Affine, AffineParameters, Grid, Transform, Vector3, VectorField};
use voxalign_io::image;
use voxalign_register::fields::jacobian_determinants;

pub(super) fn about(file: &Path, job: &Job, listener: &dyn Listener) -> Result<Facts> {
    let grids = job.geometry.grids(listener)?;
    let transform = files::transform(file, &grids.geometry(), listener)?.simplified();
    let mut facts = Facts::of_file(file, "transform");
    facts.put("direction", "fixed world to moving world, RAS+ mm");
    let centre = grids.fixed.as_ref().map_or_else(Vector3::zeros, Grid::centre);
    let Transform::Composite(parts) = &transform else {
        facts.add(about_part(file, &transform, centre)?);
        return Ok(facts);
    };
    let count = parts.len();
    facts.put("model", format!("{count} transforms, one after the other"));
    let mut folded = None;
    for (i, part) in parts.iter().enumerate() {
        let part = about_part(file, part, centre)?;
        if let Some(n) = part.get("folded_voxels").and_then(Value::as_u64) {
            folded = Some(folded.unwrap_or(0) + n);
        }
        let heading = format!("part {} of {count}, in the order applied to a point", i + 1);
        facts.parts.push((heading, part));
    }
    facts.put("folded_voxels", folded);
    Ok(facts)
}

/// One transform that is no composite.
fn about_part(file: &Path, transform: &Transform, centre: Vector3<f64>) -> Result<Facts> {
    let Transform::Displacement(displacement) = transform else {
        return Ok(of_affine(&transform.to_affine()?, centre));
    };
    let mut facts = Facts::default();
    facts.put("model", "displacement field");
    // Fields are images but for those in ITK's HDF5.
    if image::Format::from_path(file).is_ok() {
        let info = image::read_info(file)?;
        facts.put("format", info.format_name);
        facts.put("stored_sizes", info.dims);
        facts.put("data_type", info.data_type.to_string());
        facts.strange(info.oddities);
    }
    facts.add(of_field(&host()?, displacement.field())?);
    Ok(facts)
}

/// How far a displacement field moves, mm, and where it folds.
///
/// # Errors
/// Memory that runs out.
pub fn of_field<D: Device>(device: &D, field: &VectorField) -> Result<Facts> {
    let mut facts = Facts::default();
    facts.put("dims", field.grid().dims().to_vec());
    facts.add(of_grid(field.grid()));
    let stats = FieldStats::of(field);
    facts.put("mean_displacement_mm", stats.mean);
    facts.put("largest_displacement_mm", stats.largest);
    facts.put("smallest_components_mm", stats.low.to_vec());
    facts.put("largest_components_mm", stats.high.to_vec());
    facts.put("largest_displacement_at_border_mm", stats.at_border);
    // By central differences of the displacements in voxels.
    let determinants = jacobian_determinants(device, field)?;
    let (low, high) = determinants
        .par_iter()
        .map(|&d| (d, d))
        .reduce(|| (f32::MAX, f32::MIN), |a, b| (a.0.min(b.0), a.1.max(b.1)));
    let folded = determinants.par_iter().filter(|&&d| d <= 0.0).count();
    facts.put("smallest_jacobian_determinant", f64::from(low));
    facts.put("largest_jacobian_determinant", f64::from(high));
    facts.put("folded_voxels", folded);
    let folds = format!("the field folds at {folded} voxels: it has no inverse there");
    facts.strange((folded > 0).then_some(folds));
    Ok(facts)
}

/// Numbers about the displacements of a field, mm.
struct FieldStats {
    mean: f64,
    largest: f64,
    low: [f64; 3],
    high: [f64; 3],
    /// The largest at a voxel of the border, beyond which nothing is moved.
    at_border: f64,
}

impl FieldStats {
    fn of(field: &VectorField) -> Self {
        let [nx, ny, nz] = field.grid().dims();
        let last = [nx, ny, nz].map(|n| n - 1);
        let none = Self { mean: 0.0, largest: 0.0, low: [0.0; 3], high: [0.0; 3], at_border: 0.0 };
        let rows: Vec<_> = (0..ny * nz)
            .into_par_iter()
            .map(|row| {
                let mut s = Self { low: [f64::MAX; 3], high: [f64::MIN; 3], ..none };
                for x in 0..nx {
                    let v = field.get(row * nx + x);
                    let norm = v.norm();
                    s.mean += norm;
                    s.largest = s.largest.max(norm);
                    let at = [x, row % ny, row / ny];
                    // An axis of one voxel has no border.
                    if (0..3).any(|a| last[a] > 0 && (at[a] == 0 || at[a] == last[a])) {
                        s.at_border = s.at_border.max(norm);
                    }
                    for a in 0..3 {
                        s.low[a] = s.low[a].min(v[a]);
                        s.high[a] = s.high[a].max(v[a]);
                    }
                }
                s
            })
            .collect();
        let mut all = Self { low: [f64::MAX; 3], high: [f64::MIN; 3], ..none };
        for row in rows {
            all.mean += row.mean / field.grid().len() as f64;
            all.largest = all.largest.max(row.largest);
            all.at_border = all.at_border.max(row.at_border);
            for a in 0..3 {
                all.low[a] = all.low[a].min(row.low[a]);
                all.high[a] = all.high[a].max(row.high[a]);
            }
        }
        all
    }
}

/// An affine map and its parts about a centre, mm.
#[must_use]
pub fn of_affine(affine: &Affine, centre: Vector3<f64>) -> Facts {
    let mut facts = Facts::default();
    let parts = AffineParameters::from_affine(affine, centre);
    let list = |v: Vector3<f64>| v.as_slice().to_vec();
    facts.put("model", "affine");
    facts.put("matrix", json!(affine.rows()));
    facts.put("parts_about_mm", list(centre));
    facts.put("translation_mm", list(parts.translation));
    facts.put("rotation_degrees", list(parts.rotation.map(f64::to_degrees)));
    facts.put("rotation_total_degrees", parts.angle().to_degrees());
    facts.put("scale", list(parts.scale));
    facts.put("shear", list(parts.shear));
    facts.put("determinant", affine.determinant());
    facts.strange((affine.determinant() < 0.0).then_some("the transform mirrors"));
    match collapse(affine) {
        Some(what) => facts.strange([what]),
        None if affine.inverse().is_err() => facts.strange(["the transform has no inverse"]),
        None => {
            let lengths = affine.matrix.svd(false, false).singular_values;
            let extreme = [lengths.max(), lengths.min()].into_iter();
            let extreme = extreme.filter(|length| !(1.0 / EXTREME..=EXTREME).contains(length));
            facts.strange(extreme.map(|length| {
                format!("lengths are scaled by {} along one direction", factor(length))
            }));
        }
    }
    facts
}

/// How much longer or shorter transforms of images rarely make anything.
const EXTREME: f64 = 10.0;

/// A factor in few digits.
fn factor(value: f64) -> String {
    if (1e-3..1e6).contains(&value) { number(value) } else { format!("{value:.3e}") }
}
