//! The frame of a page on a registration, and the sections that all such pages have.

use crate::error::{ReportError, Result};
use crate::html::{escape, title};
use crate::plane::Plane;
use crate::record::RunRecord;
use crate::words;
use std::fmt::Write as _;
use voxalign_image::Grid;

/// The page up to its first section: a report on a registration of some `kind`, with links to the
/// sections of these identifiers.
pub(crate) fn head(record: &RunRecord, kind: &str, sections: &[(&str, &str)]) -> String {
    let role = |role: &str| {
        let input = record.inputs.iter().find(|i| i.role == role);
        let name = input.map(|i| i.path.rsplit(['/', '\\']).next().unwrap_or(&i.path));
        escape(name.unwrap_or(role))
    };
    let (fixed, moving) = (role("fixed"), role("moving"));
    let heading = Heading {
        title: &format!("{moving} onto {fixed}: {} registration", escape(kind)),
        heading: &format!("{} registration", escape(&title(kind))),
        line: &format!("{moving} onto {fixed}"),
    };
    begin(record, &heading, sections)
}

/// How a page is headed; all is HTML.
pub(crate) struct Heading<'a> {
    /// The title of the window.
    pub(crate) title: &'a str,
    pub(crate) heading: &'a str,
    /// The line below the heading.
    pub(crate) line: &'a str,
}

/// The page up to its first section.
pub(crate) fn begin(record: &RunRecord, head: &Heading<'_>, sections: &[(&str, &str)]) -> String {
    let program = escape(&format!("{} {}", record.program, record.version));
    let date = escape(&record.date);
    let mut links = String::new();
    for (id, name) in sections {
        // The script shows what it makes.
        let hidden = if *id == "fig-compare" { " id=\"nav-compare\"" } else { "" };
        let attribute = if hidden.is_empty() { "" } else { " hidden" };
        let _ = write!(links, "<a{hidden} href=\"#{id}\"{attribute}>{name}</a>");
    }
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; \
         style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\
         <title>{}</title><style>{}</style></head><body>\
         <div class=\"page\"><header><h1>{}</h1><p>{}</p><p>{program}{}{date}</p></header>\
         <nav aria-label=\"Sections\">{links}</nav><main>",
        head.title,
        include_str!("style.css"),
        head.heading,
        head.line,
        if date.is_empty() { "" } else { " \u{b7} " },
    )
}

/// The page after its last section.
pub(crate) fn end() -> String {
    let mut page = "</main><footer>This file is self-contained: it loads nothing and sends \
                    nothing.</footer></div><script>"
        .to_owned();
    page += include_str!("script.js");
    page += "</script></body></html>\n";
    page
}

/// A figure with its heading and caption; all but the heading is HTML.
pub(crate) fn figure(id: &str, title: &str, body: &str, caption: &str) -> String {
    format!(
        "<figure id=\"{id}\"><h2>{}</h2>{body}<figcaption>{caption}</figcaption></figure>",
        escape(title)
    )
}

/// What the interactive comparison lets one compare; all is HTML.
pub(crate) struct Comparison<'a> {
    /// The two images, in words.
    pub(crate) images: &'a str,
    /// The rows of slices that may be compared with the first one, and what to call each pair. The
    /// first of them comes first.
    pub(crate) rows: &'a [(usize, &'a str)],
    /// What is in the first row.
    pub(crate) first: &'a str,
    /// How to read it.
    pub(crate) caption: &'a str,
}

/// The comparison of a fixed image with a moving one before and after.
pub(crate) const FIXED_AND_MOVING: Comparison<'_> = Comparison {
    images: "fixed and moving image",
    rows: &[(2, "fixed and moving after"), (1, "fixed and moving before")],
    first: "fixed image",
    caption: "drag the slider or a picture: the fixed image is on its left, the moving image on its \
              right. Good alignment: nothing jumps when the images blink, and borders run on across \
              the seam.",
};

/// The interactive comparison: an empty frame that the script fills and shows.
pub(crate) fn comparison(planes: &[Plane], what: &Comparison<'_>) -> String {
    let widths: Vec<_> = planes.iter().map(Plane::width).collect();
    comparison_of(&widths, what)
}

/// As [`comparison`], of pictures of any kind in columns of these widths.
pub(crate) fn comparison_of(widths: &[usize], what: &Comparison<'_>) -> String {
    let one = if widths.len() == 1 { " one" } else { "" };
    let widths: Vec<_> = widths.iter().map(|w| format!("minmax(0,{w}fr)")).collect();
    let mut choice = String::new();
    if what.rows.len() > 1 {
        let _ = write!(choice, "<fieldset aria-label=\"{} against\">", title(what.first));
        for (i, (row, name)) in what.rows.iter().enumerate() {
            let checked = if i == 0 { " checked" } else { "" };
            let _ = write!(
                choice,
                "<label><input type=\"radio\" name=\"compare-what\" value=\"{row}\"{checked}> \
                 {name}</label>"
            );
        }
        choice += "</fieldset>";
    }
    format!(
        "<noscript><section><p>With JavaScript enabled, a slider here compares {} in place; all \
         other figures work without it.</p></section></noscript>\
         <figure id=\"fig-compare\" hidden><h2>Compare in place</h2>\
         <div class=\"tools\" id=\"compare-tools\">{choice}\
         <fieldset aria-label=\"Manner\"><label><input type=\"radio\" name=\"compare-how\" \
         checked> wipe</label><label><input type=\"radio\" name=\"compare-how\" \
         id=\"compare-fade\"> fade</label></fieldset>\
         <button type=\"button\" id=\"compare-blink\" aria-pressed=\"false\">Blink</button>\
         <input type=\"range\" id=\"compare-range\" min=\"0\" max=\"100\" value=\"50\" \
         aria-label=\"Part of the {} that shows\"></div>\
         <div class=\"planes{one}\" id=\"compare-box\" data-row=\"{}\" \
         style=\"grid-template-columns:{}\"></div>\
         <figcaption><b>How to read it:</b> {}</figcaption></figure>",
        what.images,
        what.first,
        what.rows.first().map_or(1, |r| r.0),
        widths.join(" "),
        what.caption,
    )
}

/// All that is needed to repeat the run.
pub(crate) fn details(record: &RunRecord) -> String {
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

/// Whether images, each with its role, are on the grid of the fixed image.
pub(crate) fn check_grids(fixed: &Grid, grids: &[(&'static str, &Grid)]) -> Result<()> {
    let tolerance = fixed.spacing().into_iter().fold(f64::INFINITY, f64::min) * 0.01;
    for &(role, grid) in grids {
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
