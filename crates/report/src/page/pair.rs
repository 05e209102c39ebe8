//! The figures shared by reports on pairs of images.

use super::html::{Section, figure};
use super::{Page, labels};
use crate::draw::studio::Studio;
use crate::error::Result;
use crate::record::RunRecord;

/// Slices of the fixed image and of the moving one before and after, under these names; and slices throughout.
pub(crate) fn slices(
    page: &mut Page,
    studio: &Studio<'_>,
    names: [&str; 2],
    caption: &str,
) -> Result<()> {
    let convention = format!("<p class=\"convention\">{}</p>", studio.convention());
    page.figure("Slices", "fig-slices", "Slices", &(convention + &studio.slices(names)?), caption);
    page.figure(
        "",
        "fig-mosaic",
        "Slices throughout",
        &studio.mosaic().transpose()?.unwrap_or_default(),
        "slices of the moving image after registration, from one end of the fixed image to the other; the \
         orange lines are the edges of the fixed image. Good alignment: the lines lie on the moving \
         image\u{2019}s own borders in all of them.",
    );
    Ok(())
}

/// Edges of the fixed image over the moving one.
pub(crate) fn edges(studio: &Studio<'_>, caption: &str) -> Result<Section> {
    let body = studio.edge_overlays()? + &studio.edge_key();
    Ok(figure("fig-edges", "Edges of the fixed image over the moving image", &body, caption))
}

/// The difference of both images before and after.
pub(crate) fn difference(studio: &Studio<'_>) -> Result<Section> {
    Ok(figure(
        "fig-difference",
        "Difference",
        &(studio.differences()? + &studio.difference_key()),
        "fixed minus moving, in intensities of the fixed image, on the same scale before and after. Each \
         intensity of the moving image was replaced by the median intensity of the fixed image at the same \
         places after alignment, so that images of different contrast can be compared. Good alignment: the \
         picture after registration is dark, without outlines; pairs of blue and orange lines along a border \
         mean a shift across it.",
    ))
}

/// Outlines of the regions of both images, and how they fare; nothing where there are none.
pub(crate) fn regions(studio: &Studio<'_>, record: &RunRecord) -> Result<Section> {
    let Some(outlines) = studio.label_outlines().transpose()? else {
        return Ok(Section::default());
    };
    Ok(figure(
        "fig-labels",
        "Regions",
        &format!("{outlines}{}{}", studio.label_key(), labels::tables(&record.labels)),
        "outlines of the regions of both images over the fixed image. \
         Good alignment: blue and orange lines run close together, white where they coincide.",
    ))
}
