//! Axes: padded ranges of values, scales from values to positions, and round tick marks with labels.

use super::svg::{Anchor, Svg};
use crate::text::{fixed, number, thousands};

/// Values over more than this factor take a logarithmic axis, where that is left to them.
const SPAN: f64 = 20.0;
/// The least that a logarithmic axis covers, decades: two lines of the grid, so that noise does not look like a finding.
const LEAST_DECADES: f64 = 0.75;
/// More decades than this have marks at powers of ten alone.
const MANY_DECADES: f64 = 3.5;

/// How values become places along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scale {
    /// In proportion.
    #[default]
    Linear,
    /// By their logarithms; values that are not above 0 are not drawn.
    Logarithmic,
    /// Logarithmic where all values are above 0 and the largest is more than 20 times the smallest, else linear.
    BySpan,
}

/// Where an axis has marks.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Marks {
    /// At round numbers.
    #[default]
    Round,
    /// At whole round numbers.
    Whole,
    /// At these values, which the axis covers.
    At(Vec<f64>),
    /// Nowhere.
    None,
}

/// The properties of an axis.
#[derive(Debug, Clone, Default)]
pub struct Axis {
    /// Its label, with the unit.
    pub label: String,
    /// How values become places.
    pub scale: Scale,
    /// Where it has marks.
    pub marks: Marks,
    /// The values at its ends; by default the range of the data, padded.
    pub ends: Option<[f64; 2]>,
    /// The least range that it covers, as a fraction of the largest value.
    pub least: f64,
    /// The text of a mark; numbers with as many decimals as they need where it is not given.
    pub text: Option<fn(f64) -> String>,
}

impl Axis {
    /// A linear axis with this label and round marks.
    pub fn new(label: impl Into<String>) -> Self {
        Self { label: label.into(), ..Self::default() }
    }

    /// The axis over these values with `room` around them (a part of their range), from pixel `from` to pixel `to`; none
    /// where no value is finite that it can show.
    pub fn over(
        &self,
        values: impl Iterator<Item = f64>,
        room: f64,
        [from, to]: [f64; 2],
    ) -> Option<Placed> {
        let given = match &self.marks {
            Marks::At(marks) => marks.as_slice(),
            _ => &[],
        };
        let shown = |v: &f64| v.is_finite() && (self.scale != Scale::Logarithmic || *v > 0.0);
        let [mut low, mut high] = ends(values.filter(shown))?;
        let logarithmic = match self.scale {
            Scale::Linear => false,
            Scale::Logarithmic => true,
            Scale::BySpan => low > 0.0 && high / low > SPAN,
        };
        if let Some([a, b]) = ends(given.iter().copied().filter(shown)) {
            (low, high) = (low.min(a), high.max(b));
        }
        if logarithmic {
            (low, high) = (low.log10(), high.log10());
            let widen = (LEAST_DECADES - (high - low)).max(0.0) / 2.0;
            (low, high) = (low - widen, high + widen);
        }
        let largest = high.abs().max(low.abs());
        let width = (high - low).max(self.least.max(1e-6) * largest).max(1e-12);
        let [low, high] = self.ends.unwrap_or([low - room * width, high + room * width]);
        Some(Placed { logarithmic, ends: [low, high], from, to })
    }

    /// The marks of the axis as it is placed, each with its text.
    #[must_use]
    pub fn marks(&self, placed: &Placed) -> Vec<(f64, String)> {
        let [low, high] = placed.ends;
        let (values, decimals) = match &self.marks {
            Marks::None => return Vec::new(),
            // Values that were given have the decimals that they need.
            Marks::At(values) => (values.clone(), None),
            _ if placed.logarithmic => (powers(low, high), None),
            marks => {
                let mut values = ticks(low, high);
                values.retain(|v| *marks != Marks::Whole || v.fract() == 0.0);
                let decimals = decimals_for(&values);
                (values, Some(decimals))
            }
        };
        let text = |value: f64| match (self.text, decimals) {
            (Some(text), _) => text(value),
            (None, Some(0)) if (1e4..1e7).contains(&value.abs()) => thousands(value),
            (None, Some(decimals)) if value.abs() < 1e7 => fixed(value, decimals),
            _ => number(value),
        };
        values.into_iter().map(|v| (v, text(v))).collect()
    }
}

/// The smallest and the largest of some values; none without any.
#[must_use]
pub fn ends(values: impl Iterator<Item = f64>) -> Option<[f64; 2]> {
    values.fold(None, |ends, v| {
        let [low, high] = ends.unwrap_or([v, v]);
        Some([low.min(v), high.max(v)])
    })
}

/// An axis that has its place: from values to pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Placed {
    logarithmic: bool,
    /// Values at both ends, or their decimal logarithms.
    ends: [f64; 2],
    from: f64,
    to: f64,
}

impl Placed {
    /// Whether the axis is logarithmic.
    #[must_use]
    pub fn is_logarithmic(&self) -> bool {
        self.logarithmic
    }

    /// Whether it can show a value.
    #[must_use]
    pub fn shows(&self, value: f64) -> bool {
        value.is_finite() && !(self.logarithmic && value <= 0.0)
    }

    /// The pixel of a value.
    #[must_use]
    pub fn at(&self, value: f64) -> f64 {
        let value = if self.logarithmic { value.log10() } else { value };
        let [low, high] = self.ends;
        // Halves, so that no difference of numbers of any size is infinite.
        self.from + (value / 2.0 - low / 2.0) / (high / 2.0 - low / 2.0) * (self.to - self.from)
    }
}

/// Lines of a grid at marks of an upright axis over columns `left` to `right`, with the texts at the left.
pub fn grid_up(svg: &mut Svg, marks: &[(f64, String)], up: &Placed, [left, right]: [f64; 2]) {
    for (value, text) in marks {
        let y = up.at(*value);
        svg.line([left, y], [right, y], "class=\"grid\"");
        svg.text([left - 6.0, y + 4.0], Anchor::End, "class=\"tick\"", text);
    }
}

/// Lines of a grid at marks of a level axis over rows `top` to `bottom`, with the texts at height `at`.
pub fn grid_across(
    svg: &mut Svg,
    marks: &[(f64, String)],
    across: &Placed,
    [top, bottom]: [f64; 2],
    at: f64,
) {
    for (value, text) in marks {
        let x = across.at(*value);
        svg.line([x, top], [x, bottom], "class=\"grid\"");
        svg.text([x, at], Anchor::Middle, "class=\"tick\"", text);
    }
}

/// Round numbers that span a range, some five of them.
#[must_use]
pub fn ticks(low: f64, high: f64) -> Vec<f64> {
    let raw = (high - low) / 4.0;
    let size = 10f64.powf(raw.log10().floor());
    if !(size.is_finite() && size > 0.0) {
        return vec![low];
    }
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0].map(|m| m * size);
    let step = steps.into_iter().find(|step| *step >= raw * 0.999).unwrap_or(raw);
    let first = (low / step).ceil();
    let all = (0..12).map(|i| (first + f64::from(i)) * step);
    all.take_while(|t| *t <= high + step * 1e-6).collect()
}

/// Powers of ten within a range of decimal logarithms, and twice and five times these where they are few.
fn powers(low: f64, high: f64) -> Vec<f64> {
    let steps: &[f64] = if high - low > MANY_DECADES { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let every = (((high - low) / 8.0).ceil() as i32).max(1);
    let all = (low.floor() as i32..=high.ceil() as i32).filter(|p| p % every == 0);
    let all = all.flat_map(|p| steps.iter().map(move |s| s * 10f64.powi(p)));
    all.filter(|v| (low..=high).contains(&v.log10())).collect()
}

/// The number of decimals that distinguishes neighbouring marks.
#[must_use]
pub fn decimals_for(marks: &[f64]) -> usize {
    let step = marks.windows(2).map(|w| w[1] - w[0]).fold(f64::INFINITY, f64::min);
    if !step.is_finite() || step <= 0.0 {
        return 4;
    }
    let tells = |decimals: &usize| {
        let scaled = step * 10f64.powi(*decimals as i32);
        (scaled - scaled.round()).abs() < 1e-6 * scaled.max(1.0) && scaled.round() >= 1.0
    };
    (0..8).find(tells).unwrap_or(8)
}

/// The next round number up: 1, 1.5, 2, 2.5, 3, 4, 5, 6 or 8 times a power of ten; 1 where there is none.
#[must_use]
pub fn round_up(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    let steps = [1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0].map(|s| s * power);
    steps.into_iter().find(|s| *s > 0.0 && s.is_finite() && *s >= value * 0.999).unwrap_or(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        let marks = ticks(0.113, 0.871);
        assert!(marks.len() >= 3 && marks.iter().all(|t| (0.113..=0.8711).contains(t)));
        assert_eq!(decimals_for(&marks), 1);
        assert_eq!(decimals_for(&ticks(0.12, 0.13)), 4);
        assert_eq!(ticks(1.0, 1.0), vec![1.0]);
    }

    #[test]
    fn axes_cover_their_values_and_marks() {
        let over =
            |axis: &Axis, values: &[f64]| axis.over(values.iter().copied(), 0.0, [0.0, 100.0]);
        let linear = Axis::new("x");
        let placed = over(&linear, &[10.0, f64::NAN, 20.0]).unwrap();
        assert_eq!([10.0, 15.0, 20.0].map(|v| placed.at(v)), [0.0, 50.0, 100.0]);
        assert_eq!(over(&linear, &[f64::INFINITY]), None);
        let given = Axis { marks: Marks::At(vec![0.0, 40.0]), ..linear.clone() };
        assert_eq!(over(&given, &[20.0]).unwrap().at(20.0), 50.0);
        let span = Axis { scale: Scale::BySpan, ..linear };
        assert!(!over(&span, &[1.0, 19.0]).unwrap().is_logarithmic());
        assert!(!over(&span, &[-1.0, 1900.0]).unwrap().is_logarithmic());
        let placed = over(&span, &[1.0, 100.0]).unwrap();
        assert!((placed.at(10.0) - 50.0).abs() < 1e-9 && !placed.shows(0.0));
        let texts: Vec<_> = span.marks(&placed).into_iter().map(|m| m.1).collect();
        assert_eq!(texts, ["1", "2", "5", "10", "20", "50", "100"]);
        let logarithmic = Axis { scale: Scale::Logarithmic, ..span };
        assert_eq!(over(&logarithmic, &[-1.0, 0.0]), None);
        let one = over(&logarithmic, &[1.0]).unwrap();
        assert!((one.at(1.0) - 50.0).abs() < 1e-9 && logarithmic.marks(&one).len() == 3);
    }

    #[test]
    fn ends_are_round() {
        assert_eq!([2.6, 1.0, 4.2, 7.3, 99.0].map(round_up), [3.0, 1.0, 5.0, 8.0, 100.0]);
        assert_eq!([0.0, f64::NAN, f64::INFINITY].map(round_up), [1.0; 3]);
    }
}
