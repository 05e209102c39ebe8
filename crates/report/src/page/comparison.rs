//! The interactive comparison of two pictures in place.

use super::html::Section;
use crate::draw::plane::Plane;
use crate::text::title;
use std::fmt::Write as _;

/// The content of the interactive comparison; all is HTML.
pub(crate) struct Comparison<'a> {
    /// A description of the two images.
    pub(crate) images: &'a str,
    /// The rows of slices that may be compared with the first one, and what to call each pair. The
    /// first of them comes first.
    pub(crate) rows: &'a [(usize, &'a str)],
    /// The name of the first row.
    pub(crate) first: &'a str,
    /// How to read it.
    pub(crate) caption: &'a str,
}

/// The comparison of a fixed image with a moving one before and after.
pub(crate) const FIXED_AND_MOVING: Comparison<'_> = Comparison {
    images: "fixed and moving image",
    rows: &[(2, "fixed and moving after"), (1, "fixed and moving before")],
    first: "fixed image",
    caption: "drag the slider or a picture: the fixed image is on the left, the moving image on the right. Good \
        alignment: nothing jumps when the images blink, and borders continue across the seam.",
};

/// The interactive comparison: an empty frame that the script fills and shows.
pub(crate) fn comparison(planes: &[Plane], what: &Comparison<'_>) -> Section {
    comparison_of(&planes.iter().map(Plane::width).collect::<Vec<_>>(), what)
}

/// As [`comparison`], of pictures of any kind in columns of these widths.
pub(crate) fn comparison_of(widths: &[usize], what: &Comparison<'_>) -> Section {
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
    let html = format!(
        "<noscript><section><p>With JavaScript enabled, a slider here compares {} in place; all \
         other figures work without it.</p></section></noscript>\
         <figure id=\"fig-compare\" hidden><h2>Compare in place</h2>\
         <div class=\"tools\" id=\"compare-tools\">{choice}\
         <fieldset aria-label=\"Mode\"><label><input type=\"radio\" name=\"compare-how\" \
         checked> wipe</label><label><input type=\"radio\" name=\"compare-how\" \
         id=\"compare-fade\"> fade</label></fieldset>\
         <button type=\"button\" id=\"compare-blink\" aria-pressed=\"false\">Blink</button>\
         <input type=\"range\" id=\"compare-range\" min=\"0\" max=\"100\" value=\"50\" \
         aria-label=\"Fraction of the {} shown\"></div>\
         <div class=\"planes{one}\" id=\"compare-box\" data-row=\"{}\" \
         style=\"grid-template-columns:{}\"></div>\
         <figcaption><b>How to read it:</b> {}</figcaption></figure>",
        what.images,
        what.first,
        what.rows.first().map_or(1, |r| r.0),
        widths.join(" "),
        what.caption,
    );
    Section::new("fig-compare", html)
}
