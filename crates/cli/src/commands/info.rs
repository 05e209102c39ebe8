//! `voxalign info`: shows what a file holds and what is odd about it.

mod shapes;
mod xray;

use crate::args::{GeometryArgs, JsonArgs, PointArgs};
use crate::chain::collapse;
use crate::device::{self, start_threads};
use crate::failure::{Failure, Outcome};
use crate::interrupt;
use crate::output::{self, Print, Table};
use crate::progress::{Printer, Talk};
use clap::Args;
use rayon::prelude::*;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use voxalign_image::{Affine, AffineParameters, Grid, Transform, Vector3, VectorField};
use voxalign_io::image::{self, ImageInfo, ReadOptions, SeriesInfo};
use voxalign_io::xray::geometry;
use voxalign_jobs::files::{self, Kind, WhichImage};
use voxalign_register::fields::jacobian_determinants;

/// Arguments of `voxalign info`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  voxalign info t1.nii.gz
  voxalign info out/affine.tfm --json
  voxalign info --header-only subjects/*.nii.gz
      of several files, one after the other; with --json a list
  voxalign info 1Warp.nii.gz
  voxalign info out/affine.fsl.mat --fixed-geometry fixed.nii.gz --moving-geometry moving.nii.gz
  voxalign info landmarks.csv
  voxalign info lh.pial.gii
  voxalign info sim/ap.png sim/views.toml")]
pub(crate) struct InfoArgs {
    /// Images, transforms, lists of points, meshes, X-ray images (PNG, TIFF) and files of their views
    /// (TOML); a folder is that of a DICOM series
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Read the header only, not the voxels
    #[arg(long)]
    header_only: bool,
    #[command(flatten)]
    points: PointArgs,
    #[command(flatten)]
    which: WhichImage,
    #[command(flatten)]
    geometry: GeometryArgs,
    #[command(flatten)]
    json: JsonArgs,
}

/// Facts in order, for people and programs alike.
#[derive(Debug, Default)]
struct Facts {
    list: Vec<(String, Value)>,
    /// Whether people need no third axis in the map from index to world.
    flat: bool,
    /// The facts of parts: those of a composite transform, or the views of a file.
    parts: Vec<(String, Facts)>,
}

impl Facts {
    fn put(&mut self, name: &str, value: impl Into<Value>) {
        self.list.push((name.to_owned(), value.into()));
    }

    fn part(&mut self, name: String, facts: Facts) {
        self.parts.push((name, facts));
    }

    fn print(&self) {
        let mut table = Table::default();
        for (name, value) in &self.list {
            let in_plane = (self.flat && name == "index_to_world").then(|| in_plane(value));
            let value = in_plane.as_ref().unwrap_or(value);
            let name = name.replace('_', " ");
            match value {
                Value::Null => {}
                Value::Array(list) if list.is_empty() => {
                    table.row([name, "none".to_owned()]);
                }
                Value::Array(rows) if rows.iter().any(Value::is_array) => {
                    for (i, row) in rows.iter().enumerate() {
                        let label = if i == 0 { name.as_str() } else { "" };
                        table.row([label.to_owned(), text(row)]);
                    }
                }
                Value::Array(lines) if lines.iter().any(Value::is_string) => {
                    for (i, line) in lines.iter().take(MOST_LINES).enumerate() {
                        let label = if i == 0 { name.as_str() } else { "" };
                        table.row([label.to_owned(), text(line)]);
                    }
                    if lines.len() > MOST_LINES {
                        let more = lines.len() - MOST_LINES;
                        table.row([String::new(), format!("and {more} more (--json has all)")]);
                    }
                }
                _ => table.row([name, text(value)]),
            }
        }
        table.print_left();
        for (name, part) in &self.parts {
            output::line(&format!("\n{name}"));
            part.print();
        }
    }

    fn json(self) -> Value {
        let mut object: serde_json::Map<_, _> = self.list.into_iter().collect();
        if !self.parts.is_empty() {
            let parts = self.parts.into_iter().map(|(_, part)| part.json()).collect();
            object.insert("parts".to_owned(), Value::Array(parts));
        }
        Value::Object(object)
    }
}

/// Most lines of a list that people are shown.
const MOST_LINES: usize = 100;

/// The first two rows of a matrix, without the column of the third axis.
fn in_plane(matrix: &Value) -> Value {
    let row = |row: &Value| json!([row[0], row[1], row[3]]);
    json!([row(&matrix[0]), row(&matrix[1])])
}

/// A value for people.
fn text(value: &Value) -> String {
    match value {
        Value::String(s) => s.clone(),
        Value::Bool(b) => (if *b { "yes" } else { "no" }).to_owned(),
        Value::Number(n) => match n.as_f64() {
            Some(v) if n.is_f64() => number(v),
            _ => n.to_string(),
        },
        Value::Array(values) => values.iter().map(text).collect::<Vec<_>>().join("  "),
        other => other.to_string(),
    }
}

/// A number without noise in its last digits.
fn number(value: f64) -> String {
    let short = format!("{value:.6}");
    let short = short.trim_end_matches('0').trim_end_matches('.');
    match short {
        "-0" => "0".to_owned(),
        _ => short.to_owned(),
    }
}

/// Shows the files. A file that cannot be read ends the command, after those before it.
pub(crate) fn run(args: InfoArgs) -> Result<Outcome, Failure> {
    let args = &args;
    start_threads(None)?;
    if let Some((option, _)) = args.points.given().iter().find(|(_, given)| *given) {
        let kinds = args.files.iter().map(|file| files::kind_to_read(file));
        let kinds = kinds.collect::<Result<Vec<_>, _>>()?;
        if !kinds.iter().any(|kind| matches!(kind, Kind::Points | Kind::Mesh)) {
            return Err(Failure::input(format!(
                "{option} is for points and meshes, and none is given; leave it out"
            )));
        }
    }
    let several = args.files.len() > 1;
    let mut all = Vec::new();
    for (i, file) in args.files.iter().enumerate() {
        interrupt::check()?;
        // Nothing is lost where it is stopped.
        let facts = interrupt::reading(|| about(file, args))?;
        if args.json.json {
            all.push(facts.json());
            continue;
        }
        if i > 0 {
            output::line("");
        }
        facts.print();
    }
    match (args.json.json, all.pop()) {
        (true, Some(last)) if several => {
            all.push(last);
            output::json(&Value::Array(all))?;
        }
        (true, Some(only)) => output::json(&only)?,
        _ => {}
    }
    Ok(Outcome::Good)
}

fn about(file: &Path, args: &InfoArgs) -> Result<Facts, Failure> {
    if file.exists() && !args.which.is_given() {
        if xray::is_picture(file) {
            return xray::about_image(file);
        }
        if geometry::is_views(file) {
            return xray::about_views(file);
        }
    }
    let kind = files::kind_to_read(file)?;
    let chosen = args.which.series.is_some() || args.which.volume.is_some() && kind != Kind::Points;
    if kind != Kind::Image && chosen {
        return Err(Failure::input(format!(
            "--volume and --series are for images, but '{}' is none; leave them out",
            file.display()
        )));
    }
    match kind {
        Kind::Points => shapes::about_points(file, args),
        Kind::Mesh => shapes::about_mesh(file, args),
        Kind::Transform => about_transform(file, args),
        Kind::Image => {
            if args.which.series.is_none() && file.is_dir() {
                let series = image::list_series(file)?;
                if series.len() > 1 {
                    return Ok(about_series(file, &series));
                }
            }
            let info = image::read_info_of(file, &args.which.options())?;
            if files::is_field(&info) {
                about_transform(file, args)
            } else {
                about_image(file, args, &info)
            }
        }
    }
}

/// Several series of one folder.
fn about_series(folder: &Path, series: &[SeriesInfo]) -> Facts {
    let mut facts = Facts::default();
    facts.put("file", folder.display().to_string());
    facts.put("format", "DICOM");
    facts.put("series", series.iter().map(SeriesInfo::to_string).collect::<Vec<_>>());
    facts
}

fn about_grid(facts: &mut Facts, grid: &Grid) {
    let degrees = |r: f64| r.to_degrees();
    facts.put("spacing_mm", grid.spacing().to_vec());
    facts.put("extent_mm", grid.extent().to_vec());
    facts.put("orientation", grid.orientation());
    facts.put("handedness", if grid.is_right_handed() { "right" } else { "left" });
    facts.put("obliqueness_degrees", degrees(grid.obliqueness()));
    facts.put("skewness_degrees", degrees(grid.skewness()));
    facts.put("origin_mm", grid.origin().as_slice().to_vec());
    facts.put("centre_mm", grid.centre().as_slice().to_vec());
    facts.put("index_to_world", json!(grid.to_world().rows()));
}

fn about_image(file: &Path, args: &InfoArgs, info: &ImageInfo) -> Result<Facts, Failure> {
    let mut facts = Facts::default();
    facts.put("file", file.display().to_string());
    facts.put("kind", "image");
    facts.put("format", info.format_name.clone());
    if info.data_path != info.path {
        facts.put("data_file", info.data_path.display().to_string());
    }
    facts.put("dims", info.dims.clone());
    facts.put("volumes", info.volumes());
    if !info.volume_names.is_empty() {
        facts.put("volume_names", info.volume_names.clone());
    }
    facts.put("data_type", info.data_type.to_string());
    facts.put("byte_order", info.byte_order.to_string());
    facts.put("compression", info.compression.to_string());
    facts.put("slope", info.slope);
    facts.put("intercept", info.intercept);
    about_grid(&mut facts, &info.grid);
    facts.put("geometry_from", info.grid_source.to_string());
    if info.format_name.starts_with("NIfTI") {
        facts.put("qform_code", info.qform_code);
        facts.put("sform_code", info.sform_code);
    }
    facts.put("qform_sform_difference_mm", info.form_difference_mm);
    let some = |s: &str| if s.is_empty() { Value::Null } else { s.into() };
    facts.put("intent", some(&info.intent));
    facts.put("description", some(&info.description));
    let m = &info.grid.to_world().matrix;
    facts.flat =
        info.dimensions == 2 && [(2, 0), (2, 1), (0, 2), (1, 2)].iter().all(|&at| m[at] == 0.0);
    let (notes, odd): (Vec<_>, Vec<_>) =
        info.oddities.iter().partition(|oddity| oddity.is_normal_geometry());
    let [notes, mut odd] =
        [notes, odd].map(|all| all.into_iter().map(ToString::to_string).collect::<Vec<_>>());
    if !notes.is_empty() {
        facts.put("notes", notes);
    }
    let one = info.volumes() == 1 || args.which.volume.is_some();
    if !args.header_only && one {
        about_values(&mut facts, &mut odd, file, &args.which.options())?;
    }
    if !one {
        odd.push(
            "several volumes: registration takes one; the values were not read (--volume N for those of one)"
                .to_owned(),
        );
    }
    facts.put("odd", odd);
    Ok(facts)
}

fn about_values(
    facts: &mut Facts,
    odd: &mut Vec<String>,
    file: &Path,
    which: &ReadOptions,
) -> Result<(), Failure> {
    let (volume, _) = image::read_volume_of(file, which)?;
    let not_finite = about_numbers(facts, odd, volume.data(), "voxels_not_finite");
    if not_finite > 0 {
        odd.push(format!(
            "{not_finite} voxels are NaN or infinite; `voxalign convert --replace-nan 0` \
             replaces them"
        ));
    }
    Ok(())
}

/// The range and the mean of values that are finite; gives how many are not, which is a fact of the name `others`.
fn about_numbers(facts: &mut Facts, odd: &mut Vec<String>, values: &[f32], others: &str) -> usize {
    let finite = || values.iter().filter(|v| v.is_finite()).map(|&v| f64::from(v));
    let count = finite().count();
    let not_finite = values.len() - count;
    facts.put(others, not_finite);
    if count > 0 {
        let (low, high) = finite().fold((f64::MAX, f64::MIN), |(l, h), v| (l.min(v), h.max(v)));
        facts.put("smallest_value", low);
        facts.put("largest_value", high);
        facts.put("mean_value", finite().sum::<f64>() / count as f64);
        if low >= high {
            odd.push(format!("the image is constant: {low} everywhere"));
        }
    }
    not_finite
}

fn about_transform(file: &Path, args: &InfoArgs) -> Result<Facts, Failure> {
    let grids = args.geometry.grids()?;
    let transform =
        files::transform(file, &grids.geometry(), &Printer::lines(Talk::Normal))?.simplified();
    let mut facts = Facts::default();
    facts.put("file", file.display().to_string());
    facts.put("kind", "transform");
    facts.put("direction", "fixed world to moving world, RAS+ mm");
    let centre = grids.fixed.as_ref().map_or_else(Vector3::zeros, Grid::centre);
    if let Transform::Composite(parts) = &transform {
        let count = parts.len();
        facts.put("model", format!("{count} transforms, one after the other"));
        let mut folded = None;
        for (i, part) in parts.iter().enumerate() {
            let mut one = Facts::default();
            folded = about_part(&mut one, file, part, centre)?
                .map(|n| folded.unwrap_or(0) + n)
                .or(folded);
            facts.part(
                format!(
                    "part {} of {count}, in the order in which a point goes through them",
                    i + 1
                ),
                one,
            );
        }
        facts.put("folded_voxels", folded);
        return Ok(facts);
    }
    about_part(&mut facts, file, &transform, centre)?;
    Ok(facts)
}

/// One transform that is no composite; gives the number of voxels at which a field folds.
fn about_part(
    facts: &mut Facts,
    file: &Path,
    transform: &Transform,
    centre: Vector3<f64>,
) -> Result<Option<usize>, Failure> {
    if let Transform::Displacement(d) = transform {
        return about_field(facts, file, d.field()).map(Some);
    }
    about_affine(facts, &transform.to_affine()?, centre);
    Ok(None)
}

fn about_field(facts: &mut Facts, file: &Path, field: &VectorField) -> Result<usize, Failure> {
    facts.put("model", "displacement field");
    let mut odd = Vec::new();
    // Fields are images but for those in ITK's HDF5.
    if image::Format::from_path(file).is_ok() {
        let info = image::read_info(file)?;
        facts.put("format", info.format_name);
        facts.put("stored_sizes", info.dims);
        facts.put("data_type", info.data_type.to_string());
        odd = info.oddities.iter().map(ToString::to_string).collect();
    }
    facts.put("dims", field.grid().dims().to_vec());
    about_grid(facts, field.grid());
    let stats = FieldStats::of(field);
    facts.put("mean_displacement_mm", stats.mean);
    facts.put("largest_displacement_mm", stats.largest);
    facts.put("smallest_components_mm", stats.low.to_vec());
    facts.put("largest_components_mm", stats.high.to_vec());
    facts.put("largest_displacement_at_border_mm", stats.at_border);
    // By central differences of the displacements in voxels.
    let determinants = jacobian_determinants(&device::host()?, field)?;
    let (low, high) = determinants
        .par_iter()
        .map(|&d| (d, d))
        .reduce(|| (f32::MAX, f32::MIN), |a, b| (a.0.min(b.0), a.1.max(b.1)));
    let folded = determinants.par_iter().filter(|&&d| d <= 0.0).count();
    facts.put("smallest_jacobian_determinant", f64::from(low));
    facts.put("largest_jacobian_determinant", f64::from(high));
    facts.put("folded_voxels", folded);
    if folded > 0 {
        odd.push(format!("the field folds at {folded} voxels: it has no inverse there"));
    }
    facts.put("odd", odd);
    Ok(folded)
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

fn about_affine(facts: &mut Facts, affine: &Affine, centre: Vector3<f64>) {
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
    let mut odd = Vec::new();
    if affine.determinant() < 0.0 {
        odd.push("the transform mirrors".to_owned());
    }
    match collapse(affine) {
        Some(what) => odd.push(what),
        None if affine.inverse().is_err() => odd.push("the transform has no inverse".to_owned()),
        None => {
            let lengths = affine.matrix.svd(false, false).singular_values;
            for length in [lengths.max(), lengths.min()] {
                if !(1.0 / EXTREME..=EXTREME).contains(&length) {
                    odd.push(format!(
                        "lengths become {} times as long along one direction",
                        factor(length)
                    ));
                }
            }
        }
    }
    facts.put("odd", odd);
}

/// How much longer or shorter transforms of images rarely make anything.
const EXTREME: f64 = 10.0;

/// A factor in few digits.
fn factor(value: f64) -> String {
    if (1e-3..1e6).contains(&value) { number(value) } else { format!("{value:.3e}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(number(2.0), "2");
        assert_eq!(number(-1e-12), "0");
        assert_eq!(number(0.1 + 0.2), "0.3");
        assert_eq!(text(&json!([1.5, 2.0])), "1.5  2");
    }
}
