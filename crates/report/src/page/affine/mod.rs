//! The report on an affine registration.

pub(crate) mod evidence;
pub(crate) mod stages;

use super::comparison::{FIXED_AND_MOVING, comparison};
use super::{Heading, Page, course, distributed, pair, words};
use crate::draw::studio::{Images, Studio};
use crate::error::Result;
use crate::record::{Figure, RunRecord};

/// The content of a report on an affine registration.
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
    let all =
        [Figure::LabelOverlap, Figure::Overlap, Figure::Cost, Figure::Ncc, Figure::Mi, Figure::Nmi];
    let mut page = Page::on(record, words::highlights(record, &all, 4));
    page.add("Transform", words::transform(record, "The transform"));
    page.add("Compare", comparison(&studio.planes, &FIXED_AND_MOVING));
    pair::slices(
        &mut page,
        &studio,
        ["Moving, before", "Moving, after"],
        "the same slices of the fixed image, of the moving image before registration, and of the moving image \
         as aligned. Good alignment: the last matches the first in outline, size and position, whatever its contrast.",
    )?;
    page.figure(
        "Checkerboard",
        "fig-checkerboard",
        "Checkerboard",
        &studio.checkerboards()?,
        "alternating squares of the fixed and the moving image. Good alignment: outlines and folds continue \
         from square to square; brightness may jump at the seams, shapes may not.",
    );
    let edges = pair::edges(
        &studio,
        "the lines are edges of the fixed image, the grey picture is the moving image. Good alignment: the \
         lines lie on the moving image\u{2019}s own borders, around the outside and inside; lines that are all \
         shifted the same way mean a remaining offset.",
    )?;
    page.add("Edges", edges);
    page.add("Difference", pair::difference(&studio)?);
    page.add("", pair::regions(&studio, record)?);
    page.figure(
        "Histograms",
        "fig-histogram",
        "Joint histograms",
        &studio.histograms()?,
        "how often each fixed intensity (to the right) coincides with each moving intensity (up), on a \
         logarithmic scale from dark (never) to light (often), over a regular lattice of points. Good \
         alignment: narrow ridges and spots; a blurred cloud, or bands along both axes, means that different \
         tissues overlap.",
    );
    page.add("Evidence", evidence::section(record));
    let cost = record.parameters.get("cost");
    page.add("Cost", course::search(&record.stages, cost, words::is_flat(record)));
    page.add("", stages::choice(record));
    page.add("Blocks and ranks", distributed::section(record));
    page.add("", words::landmarks(record));
    page.add("", words::figures(record));
    Ok(page.finish(record, &Heading::of_pair(record, kind)))
}
