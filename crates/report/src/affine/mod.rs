//! The report on an affine registration.

pub(crate) mod evidence;
mod stages;

use crate::chart;
use crate::error::Result;
use crate::figure::Figure;
use crate::labels;
use crate::page::{self, figure};
use crate::record::RunRecord;
use crate::studio::{Images, Studio};
use crate::words;
use voxalign_register::search::StageRecord;

/// The sections that the page links to.
const SECTIONS: [(&str, &str); 11] = [
    ("verdict", "Verdict"),
    ("transform", "Transform"),
    ("fig-compare", "Compare"),
    ("fig-slices", "Slices"),
    ("fig-checkerboard", "Checkerboard"),
    ("fig-edges", "Edges"),
    ("fig-difference", "Difference"),
    ("fig-histogram", "Histograms"),
    ("evidence", "Evidence"),
    ("fig-cost", "Cost"),
    ("details", "Details"),
];

/// What a report on an affine registration is made of.
#[derive(Debug, Clone, Copy)]
pub struct AffineReport<'a> {
    /// The record of the run.
    pub record: &'a RunRecord,
    /// The images before and after.
    pub images: Images<'a>,
}

/// The report as one HTML file that needs nothing else.
///
/// The page opens from disk in any browser, loads nothing and has no more than a small script of
/// its own, without which all but the interactive comparison stays. Its size does not grow with
/// that of the images, and only some slices and a lattice of samples of them are read.
///
/// # Errors
/// [`ReportError::OtherGrid`](crate::ReportError::OtherGrid) where an image is not on the grid of the fixed image,
/// [`ReportError::Png`](crate::ReportError::Png) where a picture cannot be compressed.
pub fn render(report: &AffineReport<'_>) -> Result<String> {
    let record = report.record;
    let studio = Studio::new(report.images)?;
    let kind = record.program.split_whitespace().last();
    let kind = kind.filter(|k| ["rigid", "similarity"].contains(k)).unwrap_or("affine");
    let mut page = page::head(record, kind, &SECTIONS);
    page += &words::verdict(record);
    let all =
        [Figure::LabelOverlap, Figure::Overlap, Figure::Cost, Figure::Ncc, Figure::Mi, Figure::Nmi];
    page += &words::cards(record, words::highlights(record, &all, 4));
    page += &words::transform(&record.transform, "What was done");
    page += &page::comparison(&studio.planes, &page::FIXED_AND_MOVING);
    page += &figure(
        "fig-slices",
        "Slices",
        &format!(
            "<p class=\"convention\">{}</p>{}",
            studio.convention(),
            studio.slices(["Moving, before", "Moving, after"])?
        ),
        "<b>How to read it:</b> the same slices of the fixed image, of the moving image where it \
         was, and of the moving image as aligned. Good alignment: the last has the outline, size \
         and position of the first, whatever its contrast.",
    );
    if let Some(mosaic) = studio.mosaic() {
        page += &figure("fig-mosaic", "Slices throughout", &mosaic?, words::MOSAIC);
    }
    page += &figure(
        "fig-checkerboard",
        "Checkerboard",
        &studio.checkerboards()?,
        "<b>How to read it:</b> alternating squares of the fixed and the moving image. Good \
         alignment: outlines and folds run on from square to square; brightness may jump at the \
         seams, shapes may not.",
    );
    page += &figure(
        "fig-edges",
        "Edges of the fixed image over the moving image",
        &format!("{}{}", studio.edge_overlays()?, studio.edge_key()),
        "<b>How to read it:</b> the lines belong to the fixed image, the grey picture is the \
         moving image. Good alignment: the lines lie on the moving image\u{2019}s own borders \
         all around and inside; lines on one side of a border, all shifted the same way, mean a \
         remaining offset.",
    );
    page += &figure(
        "fig-difference",
        "Difference",
        &format!("{}{}", studio.differences()?, studio.difference_key()),
        "<b>How to read it:</b> fixed minus moving, in intensities of the fixed image. Each \
         intensity of the moving image was replaced by the median intensity that the fixed image \
         has in the same places after alignment, so that images of different contrast can be \
         compared. Good alignment: dark without outlines; pairs of blue and orange lines along a \
         border mean a shift across it.",
    );
    if let Some(outlines) = studio.label_outlines() {
        page += &figure(
            "fig-labels",
            "Regions",
            &format!("{}{}{}", outlines?, studio.label_key(), labels::tables(&record.labels)),
            "<b>How to read it:</b> outlines of the regions of both images over the fixed image. \
             Good alignment: blue and orange lines run close together, white where they coincide.",
        );
    }
    page += &figure(
        "fig-histogram",
        "Joint histograms",
        &studio.histograms()?,
        "<b>How to read it:</b> how often a fixed intensity (to the right) meets a moving \
         intensity (up), on a logarithmic scale from dark (never) to light (often), over a regular \
         lattice of voxels. Good alignment: narrow ridges and spots; a blurred cloud, or bands \
         along both axes, mean that different tissues meet.",
    );
    page += &evidence::section(record);
    page += &search(&record.stages, record.parameters.get("cost"));
    page += &stages::choice(record);
    page += &words::landmarks(record);
    page += &words::figures(record);
    page += &page::details(record);
    page += &page::end();
    Ok(page)
}

/// The course of a search by a cost of this name.
pub(crate) fn search(stages: &[StageRecord], cost: Option<&serde_json::Value>) -> String {
    let mut names: Vec<&str> = stages.iter().map(|s| &*s.cost).filter(|c| !c.is_empty()).collect();
    names.dedup();
    let cost = match (names.len() > 1, cost.and_then(|c| c.as_str())) {
        (true, _) => format!("cost ({})", names.join(", then ")),
        (false, Some(name)) => format!("cost ({name})"),
        (false, None) => "cost".to_owned(),
    };
    let chart = match chart::costs(stages, &cost) {
        Some(svg) => format!("<div class=\"scroll\">{svg}</div>"),
        None => "<p>No cost was recorded.</p>".to_owned(),
    };
    let table = if stages.is_empty() {
        "<p>There were no stages.</p>".to_owned()
    } else {
        stages::table(stages)
    };
    figure(
        "fig-cost",
        "Cost over evaluations",
        &(chart + &table),
        "<b>How to read it:</b> the lowest cost so far of the candidate that won in the end, stage \
         by stage from coarse to fine. A good search falls steeply at first and ends flat in each \
         stage. Costs of different stages are taken at different resolutions, so each has its own \
         axis. A curve that still falls at the end of the last stage may not have converged.",
    )
}
