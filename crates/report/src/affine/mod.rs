//! The report on an affine registration.

mod pictures;
mod words;

use crate::chart;
use crate::error::{ReportError, Result};
use crate::html::{escape, title};
use crate::record::RunRecord;
use pictures::Studio;
use voxalign_image::{Grid, LabelMap, Volume};

/// What a report on an affine registration is made of.
///
/// All images are on the grid of the fixed image.
#[derive(Debug, Clone, Copy)]
pub struct AffineReport<'a> {
    /// The record of the run.
    pub record: &'a RunRecord,
    /// The fixed image.
    pub fixed: &'a Volume<f32>,
    /// The moving image, resampled onto the fixed grid as it was before: under the headers alone,
    /// or under the start transform.
    pub before: &'a Volume<f32>,
    /// The moving image, resampled onto the fixed grid under the result.
    pub after: &'a Volume<f32>,
    /// Regions of the fixed image.
    pub fixed_labels: Option<&'a LabelMap>,
    /// Regions of the moving image as they were before.
    pub before_labels: Option<&'a LabelMap>,
    /// Regions of the moving image under the result.
    pub after_labels: Option<&'a LabelMap>,
}

/// The report as one HTML file that needs nothing else.
///
/// The page opens from disk in any browser, loads nothing and has no more than a small script of
/// its own, without which all but the interactive comparison stays. Its size does not grow with
/// that of the images, and only some slices and a lattice of samples of them are read.
///
/// # Errors
/// [`ReportError::OtherGrid`] where an image is not on the grid of the fixed image,
/// [`ReportError::Png`] where a picture cannot be compressed.
pub fn render(report: &AffineReport<'_>) -> Result<String> {
    check_grids(report)?;
    let record = report.record;
    let studio = Studio::new(report);
    let mut page = head(record);
    page += &words::verdict(record);
    page += &words::highlights(record);
    page += &words::transform(&record.transform);
    page += &comparison(&studio);
    page += &figure(
        "fig-slices",
        "Slices",
        &format!("<p class=\"convention\">{}</p>{}", studio.convention(), studio.slices()?),
        "<b>How to read it:</b> the same slices of the fixed image, of the moving image where it \
         was, and of the moving image as aligned. Good alignment: the last has the outline, size \
         and position of the first, whatever its contrast.",
    );
    page += &figure(
        "fig-checkerboard",
        "Checkerboard",
        &studio.checkerboards()?,
        "<b>How to read it:</b> squares of the fixed and of the moving image in turn. Good \
         alignment: outlines and folds run on from square to square; brightness may jump at the \
         seams, shapes may not.",
    );
    page += &figure(
        "fig-edges",
        "Edges of the fixed image over the moving image",
        &format!(
            "{}<div class=\"key\"><span class=\"line\" style=\"background:#ffaa14\"></span>edges \
             of the fixed image</div>",
            studio.edge_overlays()?
        ),
        "<b>How to read it:</b> the lines belong to the fixed image, the grey picture is the \
         moving image. Good alignment: the lines lie on the moving image\u{2019}s own borders \
         all around and inside; lines on one side of a border, all shifted the same way, mean an \
         offset that is left.",
    );
    let scale = studio.difference_scale();
    page += &figure(
        "fig-difference",
        "Difference",
        &format!(
            "{}<div class=\"key\"><span>\u{2212}{scale}, moving brighter</span><span \
             class=\"ramp\" style=\"background:linear-gradient(90deg,#bae0ff,#3a88c8,#123e68,#000,\
             #6c3210,#d67022,#ffdea0)\"></span><span>+{scale}, fixed brighter</span></div>",
            studio.differences()?
        ),
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
            &format!(
                "{}<div class=\"key\"><span class=\"line\" style=\"background:#3cbeff\"></span>\
                 fixed only<span class=\"line\" style=\"background:#ff8c00\"></span>moving only\
                 <span class=\"line\" style=\"background:#fff;outline:1px solid #888\"></span>both\
                 </div>",
                outlines?
            ),
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
    page += &search(record);
    page += &words::figures(record);
    page += &details(record);
    page += "</main><footer>This file is complete in itself: it loads nothing and sends nothing.\
             </footer></div><script>";
    page += include_str!("script.js");
    page += "</script></body></html>\n";
    Ok(page)
}

/// The page up to its first section.
fn head(record: &RunRecord) -> String {
    let role = |role: &str| {
        let input = record.inputs.iter().find(|i| i.role == role);
        let name = input.map(|i| i.path.rsplit(['/', '\\']).next().unwrap_or(&i.path));
        escape(name.unwrap_or(role))
    };
    let (fixed, moving) = (role("fixed"), role("moving"));
    let program = escape(&format!("{} {}", record.program, record.version));
    let date = escape(&record.date);
    let kind = record.program.split_whitespace().last();
    let kind = kind.filter(|k| ["rigid", "similarity"].contains(k)).unwrap_or("affine");
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; \
         style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\
         <title>{moving} onto {fixed}: {} registration</title><style>{}</style></head><body>\
         <div class=\"page\"><header><h1>{} registration</h1>\
         <p>{moving} onto {fixed}</p><p>{program}{}{date}</p></header>\
         <nav aria-label=\"Sections\"><a href=\"#verdict\">Verdict</a>\
         <a href=\"#transform\">Transform</a>\
         <a id=\"nav-compare\" href=\"#fig-compare\" hidden>Compare</a>\
         <a href=\"#fig-slices\">Slices</a><a href=\"#fig-checkerboard\">Checkerboard</a>\
         <a href=\"#fig-edges\">Edges</a><a href=\"#fig-difference\">Difference</a>\
         <a href=\"#fig-histogram\">Histograms</a><a href=\"#fig-cost\">Cost</a>\
         <a href=\"#details\">Details</a></nav><main>",
        kind,
        include_str!("../style.css"),
        title(kind),
        if date.is_empty() { "" } else { " \u{b7} " },
    )
}

/// A figure with its heading and caption; all but the heading is HTML.
fn figure(id: &str, title: &str, body: &str, caption: &str) -> String {
    format!(
        "<figure id=\"{id}\"><h2>{}</h2>{body}<figcaption>{caption}</figcaption></figure>",
        escape(title)
    )
}

/// The interactive comparison: an empty frame that the script fills and shows.
fn comparison(studio: &Studio<'_>) -> String {
    let widths: Vec<_> =
        studio.planes.iter().map(|p| format!("minmax(0,{}fr)", p.width())).collect();
    let one = if widths.len() == 1 { " one" } else { "" };
    format!(
        "<noscript><section><p>With scripts allowed, a slider here compares fixed and moving \
         image in place; all other figures do without.</p></section></noscript>\
         <figure id=\"fig-compare\" hidden><h2>Compare in place</h2>\
         <div class=\"tools\" id=\"compare-tools\"><fieldset aria-label=\"Fixed against\">\
         <label><input type=\"radio\" name=\"compare-what\" value=\"2\" checked> fixed and \
         moving after</label><label><input type=\"radio\" name=\"compare-what\" value=\"1\"> \
         fixed and moving before</label></fieldset>\
         <fieldset aria-label=\"Manner\"><label><input type=\"radio\" name=\"compare-how\" \
         checked> wipe</label><label><input type=\"radio\" name=\"compare-how\" \
         id=\"compare-fade\"> fade</label></fieldset>\
         <button type=\"button\" id=\"compare-blink\" aria-pressed=\"false\">Blink</button>\
         <input type=\"range\" id=\"compare-range\" min=\"0\" max=\"100\" value=\"50\" \
         aria-label=\"Part of the fixed image that shows\"></div>\
         <div class=\"planes{one}\" id=\"compare-box\" style=\"grid-template-columns:{}\"></div>\
         <figcaption><b>How to read it:</b> drag the slider or a picture: the fixed image is on \
         its left, the moving image on its right. Good alignment: nothing jumps when the images \
         blink, and borders run on across the seam.</figcaption></figure>",
        widths.join(" ")
    )
}

/// The course of the search.
fn search(record: &RunRecord) -> String {
    let cost = match record.parameters.get("cost").and_then(|c| c.as_str()) {
        Some(name) => format!("cost ({name})"),
        None => "cost".to_owned(),
    };
    let chart = match chart::costs(&record.stages, &cost) {
        Some(svg) => format!("<div class=\"scroll\">{svg}</div>"),
        None => "<p>No cost was recorded.</p>".to_owned(),
    };
    let table = if record.stages.is_empty() {
        "<p>There were no stages.</p>".to_owned()
    } else {
        words::stages(record)
    };
    figure(
        "fig-cost",
        "Cost over evaluations",
        &(chart + &table),
        "<b>How to read it:</b> the lowest cost so far of the candidate that led in the end, stage \
         by stage from coarse to fine. A good search falls steeply at first and ends flat in each \
         stage. Costs of different stages are taken at different resolutions, so each has its own \
         axis. A curve that still falls at the end of the last stage may not have converged.",
    )
}

/// All that is needed to repeat the run.
fn details(record: &RunRecord) -> String {
    format!(
        "<section id=\"details\"><h2>Command</h2>{}</section>\
         <section id=\"files\"><h2>Files</h2>{}</section>\
         <div class=\"two\"><section id=\"timings\"><h2>Time</h2>{}</section>\
         <section id=\"facts\"><h2>Machine</h2>{}</section></div>\
         <section id=\"parameters\"><h2>Parameters</h2>{}</section>",
        words::command(record),
        words::files(record),
        words::timings(record),
        words::facts(record),
        words::parameters(record),
    )
}

/// Whether all images are on the grid of the fixed image.
fn check_grids(report: &AffineReport<'_>) -> Result<()> {
    let fixed = report.fixed.grid();
    let tolerance = fixed.spacing().into_iter().fold(f64::INFINITY, f64::min) * 0.01;
    let mut grids: Vec<(&'static str, &Grid)> =
        vec![("moving (before)", report.before.grid()), ("moving (after)", report.after.grid())];
    let labels = [
        ("fixed label", report.fixed_labels),
        ("moving label (before)", report.before_labels),
        ("moving label (after)", report.after_labels),
    ];
    grids.extend(labels.into_iter().filter_map(|(role, map)| Some((role, map?.grid()))));
    for (role, grid) in grids {
        if !grid.approx_eq(fixed, tolerance) {
            return Err(ReportError::OtherGrid {
                role,
                found: grid.to_string(),
                fixed: fixed.to_string(),
            });
        }
    }
    Ok(())
}
