//! `voxalign compare`: scores how well two images, label maps, point lists, meshes or transforms agree.

use crate::args::{GeometryArgs, JsonArgs, PointArgs, TransformArg};
use crate::chain::{Chain, own_grid};
use crate::device::start_threads;
use crate::failure::{Failure, Outcome};
use crate::output::{self, Print, Table};
use crate::progress::{Printer, Talk};
use clap::Args;
use serde::Serialize;
use std::path::{Path, PathBuf};
use voxalign_image::{Mesh, PointSet};
use voxalign_io::names::{LabelNames, read_label_names};
use voxalign_jobs::files::{self, Grids};
use voxalign_register::compare::{
    ImageScores, LabelScore, LandmarkScores, MeshScores, OverlapRule, OverlapScores,
    TransformScores, compare_images, compare_labels, compare_landmarks, compare_meshes,
    compare_transforms,
};
use voxalign_report::labels::title;

/// Arguments of `voxalign compare`.
#[derive(Debug, Clone, Args)]
#[command(
    arg_required_else_help = true,
    override_usage = "voxalign compare [OPTIONS] <FIXED> <WARPED>\n       \
                      voxalign compare [OPTIONS] --points <A> <B>\n       \
                      voxalign compare [OPTIONS] --meshes <A> <B>\n       \
                      voxalign compare [OPTIONS] --transforms <A> <B>",
    after_help = "\
Examples:
  voxalign compare fixed.nii.gz out/warped.nii.gz --mask brain.nii.gz
  voxalign compare fixed_labels.nii.gz warped_labels.nii.gz --labels --min-voxels 50
  voxalign compare --points fixed.csv carried.csv --json
  voxalign compare --points pairs.tag pairs.tag
  voxalign compare --meshes lh.pial.gii lh.pial_on_fixed.gii
  voxalign compare --transforms 1Warp.nii.gz other.nii.gz --mask brain.nii.gz

Images: root mean square of the difference, normalised cross correlation, mutual information in
nats and normalised mutual information, over the voxels where both are finite. Label maps: Dice
and change of volume for every label, and the mean Dice without background. Points: distances in
mm; point i of one list belongs to point i of the other; an MNI tag file of two volumes may be given
twice. Meshes: distances in mm from the vertices of each to the nearest place of the other, which need
no correspondence: of surfaces, of curves or streamlines, or of points. Transforms: distances in mm between where
they map the voxels of the mask, else of --fixed-geometry, else of the first displacement field;
`compose` joins a chain first."
)]
pub(crate) struct CompareArgs {
    /// The fixed image or label map
    #[arg(value_name = "FIXED", requires = "warped", required_unless_present_any = ["points", "meshes", "transforms"])]
    fixed: Option<PathBuf>,
    /// The other image or label map, on the same grid
    #[arg(value_name = "WARPED")]
    warped: Option<PathBuf>,
    /// FIXED and WARPED are label maps
    #[arg(long, requires = "fixed")]
    labels: bool,
    /// Compare only where this image is above 0
    #[arg(long, value_name = "IMAGE", conflicts_with_all = ["points", "meshes"])]
    mask: Option<PathBuf>,
    /// Number of bins along each axis of the joint histogram
    #[arg(long, value_name = "N", default_value_t = 64, conflicts_with = "labels",
        value_parser = clap::value_parser!(u16).range(2..=4096))]
    bins: u16,
    /// In the mean Dice, leave out labels with fewer voxels in one of the maps; with 0, a label
    /// that one map lacks counts as 0
    #[arg(long, value_name = "N", default_value_t = 0, requires = "labels")]
    min_voxels: usize,
    /// In the mean Dice, leave out labels below this
    #[arg(long, value_name = "LABEL", requires = "labels", allow_hyphen_values = true)]
    smallest_label: Option<i32>,
    /// Names of the labels: FreeSurfer's colour table, ITK-SNAP's label descriptions, or CSV or TSV
    /// with a number and a name in each line
    #[arg(long, value_name = "FILE", requires = "labels")]
    label_names: Option<PathBuf>,
    /// Two lists of corresponding points: CSV with world coordinates in mm, or lists of 3D Slicer, elastix, ANTs or MNI
    #[arg(long, num_args = 2, value_names = ["A", "B"])]
    points: Option<Vec<PathBuf>>,
    /// Two surfaces, or curves, or streamlines
    #[arg(long, num_args = 2, value_names = ["A", "B"], conflicts_with_all = ["fixed", "points"])]
    meshes: Option<Vec<PathBuf>>,
    #[command(flatten)]
    lists: PointArgs,
    /// Two transforms, each FILE or inverse:FILE
    #[arg(long, num_args = 2, value_names = ["A", "B"], conflicts_with_all = ["fixed", "points", "meshes"])]
    transforms: Option<Vec<TransformArg>>,
    #[command(flatten)]
    geometry: GeometryArgs,
    #[command(flatten)]
    json: JsonArgs,
}

/// All scores that were asked for.
#[derive(Debug, Default, Serialize)]
struct Scores {
    #[serde(skip_serializing_if = "Option::is_none")]
    images: Option<ImageScores>,
    #[serde(skip_serializing_if = "Option::is_none")]
    labels: Option<NamedOverlap>,
    #[serde(skip_serializing_if = "Option::is_none")]
    landmarks: Option<LandmarkScores>,
    #[serde(skip_serializing_if = "Option::is_none")]
    meshes: Option<MeshScores>,
    #[serde(skip_serializing_if = "Option::is_none")]
    transforms: Option<TransformScores>,
}

/// How label maps overlap, with the names of the labels.
#[derive(Debug, Serialize)]
struct NamedOverlap {
    labels: Vec<NamedLabel>,
    mean_dice: Option<f64>,
    counted: usize,
}

/// How one label fares, with its name where a table has one.
#[derive(Debug, Serialize)]
struct NamedLabel {
    #[serde(flatten)]
    score: LabelScore,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
}

impl NamedOverlap {
    fn new(scores: OverlapScores, names: &LabelNames) -> Self {
        let OverlapScores { labels, mean_dice, counted } = scores;
        let named =
            |score: LabelScore| NamedLabel { name: names.get(&score.label).cloned(), score };
        Self { labels: labels.into_iter().map(named).collect(), mean_dice, counted }
    }
}

/// Compares and prints.
pub(crate) fn run(args: CompareArgs) -> Result<Outcome, Failure> {
    let args = &args;
    start_threads(None)?;
    let talk = Talk::Normal;
    let printer = Printer::lines(talk);
    let mut scores = Scores::default();
    if let (Some(fixed), Some(warped)) = (&args.fixed, &args.warped) {
        let mask = args
            .mask
            .as_ref()
            .map(|p| files::image(p, &printer).map_err(|e| Failure::from(e).at("--mask")));
        let mask = mask.transpose()?;
        let mask = mask.as_ref();
        if args.labels {
            let rule = OverlapRule {
                min_voxels: args.min_voxels,
                smallest_label: args.smallest_label,
                only: None,
            };
            let (fixed, warped) =
                (files::labels(fixed, &printer)?, files::labels(warped, &printer)?);
            let names = label_names(args.label_names.as_deref())?;
            let found = compare_labels(&fixed, &warped, mask, &rule)?;
            scores.labels = Some(NamedOverlap::new(found, &names));
        } else {
            let (fixed, warped) = (files::image(fixed, &printer)?, files::image(warped, &printer)?);
            scores.images = Some(compare_images(&fixed, &warped, mask, usize::from(args.bins))?);
        }
    }
    if let Some([a, b]) = args.points.as_deref() {
        let grid = args.lists.grid(&printer)?;
        let options = args.lists.reading(grid.as_ref()).options();
        let read = |path: &Path, side: usize| -> Result<PointSet, Failure> {
            let side = (a == b).then_some(side);
            let (set, info) = files::points_of_pair(path, &options, side, &printer)?;
            if info.without_position > 0 {
                return Err(Failure::input(format!(
                    "--points: '{}' has {} points without a position, so that it is not known which belong together; \
                     place them, or delete them in both lists",
                    path.display(),
                    info.without_position
                )));
            }
            Ok(set)
        };
        let (first, second) = (read(a, 0)?, read(b, 1)?);
        if first.is_2d() != second.is_2d() {
            let (flat, other) = if first.is_2d() { (a, b) } else { (b, a) };
            return Err(Failure::input(format!(
                "--points: '{}' has no column z, and '{}' has one; give both lists of one kind",
                flat.display(),
                other.display()
            )));
        }
        scores.landmarks = Some(compare_landmarks(&first, &second)?);
    }
    if let Some([a, b]) = args.meshes.as_deref() {
        scores.meshes = Some(meshes(args, a, b)?);
    }
    let lists = args.lists.given();
    let lists: Vec<_> = lists.iter().filter(|(_, given)| *given).map(|(name, _)| *name).collect();
    match lists[..] {
        [name, ..] if args.points.is_none() && args.meshes.is_none() => {
            return Err(Failure::input(format!(
                "{name} is for --points and --meshes; leave it out"
            )));
        }
        _ if args.lists.points_of.is_some() && args.points.is_none() => {
            return Err(Failure::input("--points-of is for --points; leave it out"));
        }
        _ => {}
    }
    if let Some([a, b]) = args.transforms.as_deref() {
        scores.transforms = Some(transforms(args, a, b)?);
    } else if args.geometry.paths().next().is_some() {
        return Err(Failure::input(
            "--fixed-geometry and --moving-geometry are for --transforms; leave them out",
        ));
    }
    if args.json.json {
        output::json(&scores)?;
    } else {
        print(&scores);
    }
    Ok(Outcome::Good)
}

/// Two meshes of one kind.
fn meshes(args: &CompareArgs, a: &Path, b: &Path) -> Result<MeshScores, Failure> {
    let printer = Printer::lines(Talk::Normal);
    let read = |path: &Path| files::mesh(path, args.lists.point_convention, &printer);
    let (first, second) = (read(a)?.0, read(b)?.0);
    let kind = |mesh: &Mesh| match (mesh.faces().is_empty(), mesh.lines().len()) {
        (false, _) => "a surface",
        (true, 0) => "points alone",
        (true, _) => "curves",
    };
    let (of_first, of_second) = (kind(&first), kind(&second));
    if of_first != of_second {
        output::warning(&format!(
            "'{}' is {of_first}, and '{}' {of_second}: they are compared all the same",
            a.display(),
            b.display()
        ));
    }
    compare_meshes(&first, &second)
        .map_err(|e| Failure::from(e).at(format!("--meshes '{}' '{}'", a.display(), b.display())))
}

fn transforms(
    args: &CompareArgs,
    a: &TransformArg,
    b: &TransformArg,
) -> Result<TransformScores, Failure> {
    let talk = Talk::Normal;
    let printer = Printer::lines(talk);
    let mask = args
        .mask
        .as_ref()
        .map(|p| files::image(p, &printer).map_err(|e| Failure::from(e).at("--mask")));
    let mask = mask.transpose()?;
    let grids = args.geometry.grids()?;
    let load = |arg: &TransformArg| {
        Chain::load(std::slice::from_ref(arg), &grids, &Grids::default())?.into_transform(talk)
    };
    let (a, b) = (load(a)?, load(b)?);
    let grid = mask.as_ref().map(|m| m.grid().clone()).or(grids.fixed);
    let Some(grid) = grid.or_else(|| own_grid(&a).cloned()).or_else(|| own_grid(&b).cloned())
    else {
        return Err(Failure::input(
            "there is no grid on which to compare the transforms; give --mask or --fixed-geometry",
        ));
    };
    Ok(compare_transforms(&a, &b, &grid, mask.as_ref())?)
}

fn print(scores: &Scores) {
    let number = |v: Option<f64>| v.map_or_else(|| "-".to_owned(), |v| format!("{v:.4}"));
    if let Some(s) = &scores.images {
        let mut table = Table::default();
        table.row(["voxels compared", &s.voxels.to_string()]);
        if s.not_finite > 0 {
            table.row(["voxels left out (NaN or infinite)", &s.not_finite.to_string()]);
        }
        table.row(["root mean square of the difference", &format!("{:.6}", s.rms)]);
        table.row(["normalised cross correlation", &number(s.ncc)]);
        table.row(["mutual information, nats", &number(Some(s.mi))]);
        table.row(["normalised mutual information", &number(s.nmi)]);
        table.print();
    }
    if let Some(s) = &scores.labels {
        let headings = ["label", "Dice", "fixed mm³", "warped mm³", "change of volume"];
        let mut table = Table::new(headings);
        for NamedLabel { score: l, name } in &s.labels {
            let change = l.volume_change.map(|c| format!("{:+.1} %", c * 100.0));
            table.row([
                title(l.label, name.as_deref()) + if l.counted { "" } else { " (not counted)" },
                format!("{:.4}", l.dice),
                format!("{:.1}", l.volume_fixed),
                format!("{:.1}", l.volume_warped),
                change.unwrap_or_else(|| "-".to_owned()),
            ]);
        }
        table.gap();
        table.row([format!("mean of {} labels", s.counted), number(s.mean_dice)]);
        table.print();
    }
    if let Some(s) = &scores.transforms {
        let mut table = Table::default();
        let mm = |v: f64| format!("{v:.6} mm");
        let [x, y, z] = s.max_at;
        table.row(["voxels compared", &s.voxels.to_string()]);
        table.row(["mean distance", &mm(s.mean)]);
        table.row(["95th percentile", &mm(s.p95)]);
        table.row(["largest", &mm(s.max)]);
        table.row(["largest at, mm", &format!("({x:.2}, {y:.2}, {z:.2})")]);
        table.print();
    }
    if let Some(s) = &scores.meshes {
        let mut table = Table::default();
        let mm = |v: f64| format!("{v:.4} mm");
        table.row(["mean distance", &mm(s.mean)]);
        table.row(["95th percentile", &mm(s.p95)]);
        table.row(["largest (Hausdorff)", &mm(s.hausdorff)]);
        table.row(["mean from the first to the second", &mm(s.there)]);
        table.row(["mean from the second to the first", &mm(s.back)]);
        table.print();
    }
    if let Some(s) = &scores.landmarks {
        let mut table = Table::default();
        let mm = |v: f64| format!("{v:.4} mm");
        table.row(["points", &s.count.to_string()]);
        table.row(["mean distance", &mm(s.mean)]);
        table.row(["median", &mm(s.median)]);
        table.row(["95th percentile", &mm(s.p95)]);
        table.row(["largest", &mm(s.max)]);
        table.print();
    }
}

/// The names of labels; without a table no label has one.
fn label_names(path: Option<&Path>) -> Result<LabelNames, Failure> {
    let read = |p| read_label_names(p).map_err(|e| Failure::from(e).at("--label-names"));
    Ok(path.map(read).transpose()?.unwrap_or_default())
}
