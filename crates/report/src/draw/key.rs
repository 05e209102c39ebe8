//! Legends of pictures and charts, as HTML.

use super::series::Shape;
use super::svg::colour;
use crate::text::escape;
use std::fmt::Write as _;

/// A key while it is made, one entry after the other. Names are text; colours are as a style has them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Key(String);

impl Key {
    /// One without entries.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// With a line of a colour.
    #[must_use]
    pub fn line(mut self, colour: &str, name: &str) -> Self {
        let _ = write!(
            self.0,
            "<span><span class=\"line\" style=\"background:{colour}\"></span>&nbsp; {}</span>",
            escape(name)
        );
        self
    }

    /// With the mark of a series by the number of its colour.
    #[must_use]
    pub fn series(self, shape: Shape, number: usize, name: &str) -> Self {
        let style = match shape {
            Shape::Dots => ";width:8px;height:8px;border-radius:50%;opacity:.55",
            Shape::Spots => ";width:8px;height:8px;border-radius:50%",
            Shape::Diamonds => ";width:9px;height:9px;border-radius:0;transform:rotate(45deg)",
            _ => "",
        };
        self.line(&format!("{}{style}", colour(number)), name)
    }

    /// With a bar of colours (a gradient) between what both ends mean, which is text.
    #[must_use]
    pub fn ramp(mut self, colours: &str, [low, high]: [&str; 2]) -> Self {
        let _ = write!(
            self.0,
            "<span>{}</span><span class=\"ramp\" style=\"background:{colours}\"></span><span>{}</span>",
            escape(low),
            escape(high)
        );
        self
    }

    /// With a bar of colours above what its ends and its middle mean, which is text.
    #[must_use]
    pub fn ticked(mut self, colours: &str, marks: [&str; 3]) -> Self {
        let marks = marks.map(|mark| format!("<span>{}</span>", escape(mark))).concat();
        let _ = write!(
            self.0,
            "<span class=\"ticked\"><span class=\"ramp\" style=\"background:{colours}\"></span>{marks}</span>"
        );
        self
    }

    /// With words, which are HTML.
    #[must_use]
    pub fn words(mut self, words: &str) -> Self {
        let _ = write!(self.0, "<span>{words}</span>");
        self
    }

    /// The key as HTML; nothing where it has no entry.
    #[must_use]
    pub fn html(self) -> String {
        if self.0.is_empty() { self.0 } else { format!("<div class=\"key\">{}</div>", self.0) }
    }
}
