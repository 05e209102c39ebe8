//! SVG elements of charts, as text.

use crate::text::escape;
use std::fmt::Write as _;

/// Colours of series that the style sheet has: `--s0`, `--s1`, ...; further series take them again.
pub const COLOURS: usize = 6;

/// The colour of a series by its number, as a style has it.
#[must_use]
pub fn colour(number: usize) -> String {
    format!("var(--s{})", number % COLOURS)
}

/// Which part of a text is at its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// Its left end.
    Start,
    /// Its middle.
    Middle,
    /// Its right end.
    End,
}

/// An SVG while it is drawn, one element upon the other. Places and lengths are pixels, `[across, down]` from the
/// upper left corner. A `look` is attributes as they stand in SVG, such as `class="grid"`; titles, where they are not
/// empty, are shown where one points at the element. Texts and titles are escaped.
#[derive(Debug, Clone, PartialEq)]
pub struct Svg(String);

impl Svg {
    /// An empty one of a width and a height, with `what` it shows as alternative text. Its `id` may be empty.
    #[must_use]
    pub fn new(id: &str, [width, height]: [f64; 2], what: &str) -> Self {
        let id = if id.is_empty() { String::new() } else { format!(" id=\"{}\"", escape(id)) };
        Self(format!(
            "<svg class=\"chart\"{id} viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" aria-label=\"{}\">",
            escape(what)
        ))
    }

    /// A straight line.
    pub fn line(&mut self, [x, y]: [f64; 2], [to_x, to_y]: [f64; 2], look: &str) {
        self.add(format_args!(
            "<line {look} x1=\"{x:.1}\" x2=\"{to_x:.1}\" y1=\"{y:.1}\" y2=\"{to_y:.1}\"/>"
        ));
    }

    /// A rectangle by its upper left corner, its width and its height.
    pub fn rect(&mut self, [x, y]: [f64; 2], [width, height]: [f64; 2], look: &str, title: &str) {
        let tag = format!(
            "<rect {look} x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\""
        );
        self.titled("rect", &tag, title);
    }

    /// A disc.
    pub fn circle(&mut self, [x, y]: [f64; 2], radius: f64, look: &str, title: &str) {
        let tag = format!("<circle {look} cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius:.1}\"");
        self.titled("circle", &tag, title);
    }

    /// A path by its commands.
    pub fn path(&mut self, commands: &str, look: &str, title: &str) {
        self.titled("path", &format!("<path {look} d=\"{commands}\""), title);
    }

    /// A text whose baseline is at a place.
    pub fn text(&mut self, [x, y]: [f64; 2], anchor: Anchor, look: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let text = escape(text);
        self.add(format_args!("<text {look} x=\"{x:.1}\" y=\"{y:.1}\"{anchor}>{text}</text>"));
    }

    /// Begins a group; [`close`](Self::close) ends it.
    pub fn open(&mut self, look: &str, title: &str) {
        self.add(format_args!("<g {look}>"));
        if !title.is_empty() {
            self.add(format_args!("<title>{}</title>", escape(title)));
        }
    }

    /// Ends the group that was begun last.
    pub fn close(&mut self) {
        self.0.push_str("</g>");
    }

    /// The text of the SVG.
    #[must_use]
    pub fn finish(self) -> String {
        self.0 + "</svg>"
    }

    fn titled(&mut self, tag: &str, element: &str, title: &str) {
        if title.is_empty() {
            self.add(format_args!("{element}/>"));
        } else {
            self.add(format_args!("{element}><title>{}</title></{tag}>", escape(title)));
        }
    }

    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a text does not fail.
        let _ = self.0.write_fmt(element);
    }
}

/// The commands of a path along points, with straight lines; empty without points.
#[must_use]
pub fn along(points: &[[f64; 2]]) -> String {
    let words = points.iter().map(|[x, y]| format!("{x:.1} {y:.1}")).collect::<Vec<_>>();
    if words.is_empty() { String::new() } else { format!("M{}", words.join("L")) }
}
