//! `voxalign compare`: scores how well two images, label maps, point lists, meshes or transforms agree.

use crate::args::JsonArgs;
use crate::device::start_threads;
use crate::failure::{Failure, Outcome};
use crate::output::{self, Print, Table};
use crate::progress::{Printer, Talk};
use clap::Args;
use voxalign_jobs::compare::{Job, NamedLabel, Scores};
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
twice. Meshes: distances in mm from the vertices of each to the closest point of the other, without
correspondence: surfaces, curves or streamlines, or points. Transforms: distances in mm between the
points to which they map the voxels of the mask, else of --fixed-geometry, else of the first
displacement field;
`compose` joins a chain first."
)]
pub(crate) struct CompareArgs {
    #[command(flatten)]
    job: Job,
    #[command(flatten)]
    json: JsonArgs,
}

/// Compares and prints.
pub(crate) fn run(args: CompareArgs) -> Result<Outcome, Failure> {
    start_threads(None)?;
    let scores = args.job.run(&Printer::lines(Talk::Normal))?;
    if args.json.json {
        output::json(&scores)?;
    } else {
        print(&scores);
    }
    Ok(Outcome::Good)
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
