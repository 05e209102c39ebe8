//! Boxes on named rows over one axis: bar charts and timelines.

use super::axis::{Axis, grid_across};
use super::svg::{Anchor, Svg, colour};

/// A chart of named rows.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rows {
    /// Alternative text.
    pub what: String,
    /// The names of the rows, at the left, and the notes at the right.
    pub rows: Vec<[String; 2]>,
    /// The boxes.
    pub boxes: Vec<RowBox>,
    /// The names of the colours, above; may be empty.
    pub key: Vec<String>,
    /// The value at the right end of the axis, which begins at 0.
    pub end: f64,
    /// The unit of the axis.
    pub unit: String,
    /// Where a dashed line is drawn over all rows.
    pub line: Option<f64>,
    /// Room for the names, and for the notes at the right, pixels.
    pub room: [f64; 2],
}

/// A box on a row.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RowBox {
    /// The number of the row.
    pub row: usize,
    /// Where it begins and ends.
    pub ends: [f64; 2],
    /// Number of its colour in the style sheet.
    pub colour: usize,
    /// The text in it, where there is room.
    pub text: String,
    /// Its tooltip.
    pub title: String,
}

const WIDTH: f64 = 960.0;
/// Height of a row, and of its boxes.
const ROW: [f64; 2] = [26.0, 18.0];
/// Room for the axis above, and for a key above that.
const TOP: [f64; 2] = [26.0, 24.0];
/// Width of a letter in a box, and in a key, about.
const LETTER: [f64; 2] = [6.2, 7.0];
/// The most boxes drawn: more could not be told apart.
const MOST: usize = 6000;

impl Rows {
    /// The chart as SVG, 960 pixels wide; none without a row or where the axis has no length.
    #[must_use]
    pub fn svg(&self) -> Option<String> {
        let (left, right) = (self.room[0], WIDTH - self.room[1]);
        if self.rows.is_empty() || !(self.end.is_finite() && self.end > 0.0) {
            return None;
        }
        let axis = Axis { ends: Some([0.0, self.end]), ..Axis::default() };
        let x = axis.over([0.0, self.end].into_iter(), 0.0, [left, right])?;
        let top = TOP[0] + if self.key.is_empty() { 0.0 } else { TOP[1] };
        let bottom = top + ROW[0] * self.rows.len() as f64;
        let mut svg = Svg::new("", [WIDTH, bottom + 6.0], &self.what);
        let mut at = left;
        for (i, name) in self.key.iter().enumerate() {
            let look = format!("class=\"key\" rx=\"2\" style=\"fill:{}\"", colour(i));
            svg.rect([at, 4.0], [12.0; 2], &look, "");
            svg.text([at + 17.0, 14.0], Anchor::Start, "", name);
            at += 34.0 + LETTER[1] * name.chars().count() as f64;
        }
        let marks = axis.marks(&x).into_iter();
        let marks: Vec<_> = marks.map(|(v, text)| (v, format!("{text} {}", self.unit))).collect();
        grid_across(&mut svg, &marks, &x, [top - 6.0, bottom + 2.0], top - 12.0);
        let middle = |row: usize| top + ROW[0] * (row as f64 + 0.5);
        for (i, [name, said]) in self.rows.iter().enumerate() {
            let y = middle(i) + 4.0;
            svg.text([left - 8.0, y], Anchor::End, "class=\"side\"", name);
            svg.text([right + 10.0, y], Anchor::Start, "", said);
        }
        for one in self.boxes.iter().filter(|b| b.row < self.rows.len()).take(MOST) {
            let ([from, to], y) = (one.ends.map(|v| x.at(v)), middle(one.row));
            let look = format!("class=\"task\" rx=\"2\" style=\"fill:{}\"", colour(one.colour));
            let size = [(to - from).max(0.6), ROW[1]];
            svg.rect([from, y - ROW[1] / 2.0], size, &look, &one.title);
            if to - from > LETTER[0] * one.text.chars().count() as f64 + 5.0 {
                let at = [(from + to) / 2.0, y + 4.0];
                svg.text(at, Anchor::Middle, "class=\"within\"", &one.text);
            }
        }
        if let Some(x) = self.line.filter(|l| (0.0..=self.end).contains(l)).map(|l| x.at(l)) {
            svg.line([x, top - 4.0], [x, bottom + 4.0], "class=\"limit\"");
        }
        Some(svg.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_have_their_place_colour_and_text() {
        let one = |row, ends, colour, text: &str| RowBox {
            row,
            ends,
            colour,
            text: text.into(),
            title: "<it>".into(),
        };
        let rows = Rows {
            what: "a < b".into(),
            rows: vec![["x&y".into(), "7 ms".into()], Default::default()],
            boxes: vec![
                one(0, [0.0, 2.5], 1, "0"),
                one(1, [2.5, 2.51], 7, "12345"),
                one(9, [0.0, 1.0], 0, ""),
            ],
            key: vec!["upload".into()],
            end: 10.0,
            unit: "%".into(),
            line: Some(5.0),
            room: [160.0, 0.0],
        };
        let svg = rows.svg().unwrap();
        assert_eq!(svg.matches("class=\"task\"").count(), 2);
        assert!(svg.contains("a &lt; b") && svg.contains("x&amp;y") && svg.contains(">7 ms<"));
        assert!(svg.contains("fill:var(--s1)\" x=\"160.0\" y=\"54.0\" width=\"200.0\""), "{svg}");
        assert!(svg.contains(">0</text>") && !svg.contains(">12345<") && svg.contains(">5.0 %<"));
        assert!(svg.contains("class=\"limit\" x1=\"560.0\" x2=\"560.0\""), "{svg}");
        for end in [0.0, f64::NAN, f64::INFINITY] {
            assert_eq!(Rows { end, ..rows.clone() }.svg(), None);
        }
        assert_eq!(Rows { rows: Vec::new(), ..rows }.svg(), None);
    }
}
