//! Plots: series over one pair of axes, or several plots side by side.

use super::axis::{Axis, Placed, grid_across, grid_up};
use super::series::{Series, Shape, spread};
use super::svg::{Anchor, Svg};

/// A section of the horizontal axis with a name above it; every second one is shaded.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Band {
    /// Where it begins and ends.
    pub ends: [f64; 2],
    /// Its name.
    pub name: String,
    /// The text below the name.
    pub note: String,
}

/// Where the key of a plot is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeyPlace {
    /// There is none.
    #[default]
    Nowhere,
    /// Below the plot, in a line.
    Below,
    /// At the right, one name below the other.
    Right,
}

/// A plot.
#[derive(Debug, Clone, Default)]
pub struct Plot {
    /// The identifier of the SVG; may be empty.
    pub id: String,
    /// Alternative text.
    pub what: String,
    /// Above it, and a smaller line below that; both may be empty.
    pub title: [String; 2],
    /// The axis to the right.
    pub across: Axis,
    /// The axis upwards.
    pub up: Axis,
    /// Width and height, pixels.
    pub size: [f64; 2],
    /// Parts of the axis across.
    pub bands: Vec<Band>,
    /// The series, drawn one over the other.
    pub series: Vec<Series>,
    /// Where the key is.
    pub key: KeyPlace,
}

const LEFT: f64 = 84.0;
const RIGHT: f64 = 14.0;
const BOTTOM: f64 = 48.0;
/// Room above a plot: without a title, with one, and with a line below that.
const TOP: [f64; 3] = [16.0, 30.0, 44.0];
/// Room for a key below a plot, and at its right.
const KEY: [f64; 2] = [26.0, 200.0];
/// Room between plots side by side, with the numbers of the right one's axis.
const GAP: f64 = 64.0;
/// Room around what is drawn, as a part of its range: across and upwards.
const ROOM: [f64; 2] = [0.03, 0.07];
/// The offset between the bars of one series and those of the next.
const ASIDE: f64 = 8.0;
/// Widths of letters in names and keys, about.
const LETTER: f64 = 7.8;

/// Where a plot is within its SVG.
pub(super) struct Area {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
}

impl Plot {
    /// The plot as SVG; none where no point can be drawn.
    #[must_use]
    pub fn svg(&self) -> Option<String> {
        let [width, height] = self.size;
        let [below, beside] = match self.key {
            KeyPlace::Nowhere => [0.0; 2],
            KeyPlace::Below => [KEY[0], 0.0],
            KeyPlace::Right => [0.0, KEY[1]],
        };
        let area = Area {
            left: LEFT,
            right: width - RIGHT - beside,
            top: self.top(),
            bottom: height - BOTTOM - below,
        };
        let what = if self.what.is_empty() { &self.title[0] } else { &self.what };
        let mut svg = Svg::new(&self.id, self.size, what);
        let up = self.draw(&mut svg, &area)?;
        self.labels(&mut svg, &area, up.is_logarithmic());
        self.draw_key(&mut svg, &area);
        Some(svg.finish())
    }

    /// Room above it.
    fn top(&self) -> f64 {
        let lines = [&self.title[0], &self.title[1]].iter().filter(|t| !t.is_empty()).count();
        TOP[if self.bands.is_empty() { lines } else { 2 }]
    }

    /// The axis labels, at the left and below.
    fn labels(&self, svg: &mut Svg, area: &Area, logarithmic: bool) {
        let (centre, middle) = ((area.left + area.right) / 2.0, (area.top + area.bottom) / 2.0);
        let kind = if logarithmic { " (logarithmic)" } else { "" };
        let look = "class=\"label\"";
        svg.text([centre, area.bottom + 40.0], Anchor::Middle, look, &self.across.label);
        let look = format!("{look} transform=\"rotate(-90 14 {middle:.1})\"");
        svg.text([14.0, middle], Anchor::Middle, &look, &format!("{}{kind}", self.up.label));
    }

    /// The plot within an area; gives its axis upwards, none where there is nothing to draw.
    fn draw(&self, svg: &mut Svg, area: &Area) -> Option<Placed> {
        let Area { left, right, top, bottom } = *area;
        let title = |svg: &mut Svg, [from, to]: [f64; 2], name: &str, note: &str| {
            // Names that do not fit are cut, and left out where nothing of them would be told.
            let room = room(to - from);
            let short: String = name.chars().take(room).collect();
            let x = (from + to) / 2.0;
            if room >= name.chars().count().min(3) {
                svg.text([x, 18.0], Anchor::Middle, "class=\"name\"", &short);
                if room >= note.chars().count() {
                    svg.text([x, 34.0], Anchor::Middle, "class=\"tick\"", note);
                }
            }
        };
        title(svg, [left - GAP / 2.0, right + GAP / 2.0], &self.title[0], &self.title[1]);
        let all = || self.series.iter().flat_map(|s| s.points.iter().map(move |p| (s, p)));
        let finite = || all().filter(|(_, p)| p.x.is_finite() && p.y.is_finite());
        let across = finite().map(|(_, p)| p.x).chain(self.bands.iter().flat_map(|b| b.ends));
        let room = if self.bands.is_empty() { ROOM[0] } else { 0.0 };
        let x = self.across.over(across, room, [left, right]);
        let heights = finite().flat_map(|(s, p)| match s.shape {
            Shape::Means => [p.y - spread(p), p.y + spread(p)],
            Shape::Stems => [p.y, p.y + spread(p)],
            _ => [p.y; 2],
        });
        let y = self.up.over(heights, ROOM[1], [bottom, top]);
        if let Some(x) = &x {
            for (i, band) in self.bands.iter().enumerate() {
                let [from, to] = band.ends.map(|v| x.at(v));
                if i % 2 == 1 {
                    let size = [to - from, bottom - top];
                    svg.rect([from, top], size, "class=\"band\"", "");
                }
                if i > 0 {
                    let look = "class=\"grid\" stroke-dasharray=\"4 3\"";
                    svg.line([from, top - 34.0], [from, bottom], look);
                }
                title(svg, [from, to], &band.name, &band.note);
            }
            grid_across(svg, &self.across.marks(x), x, [top, bottom], bottom + 18.0);
        }
        if let Some(y) = &y {
            grid_up(svg, &self.up.marks(y), y, [left, right]);
        }
        svg.rect([left, top], [right - left, bottom - top], "class=\"panel\"", "");
        let (x, y) = (x?, y?);
        let means = self.series.iter().filter(|s| s.shape == Shape::Means).count() as f64;
        let mut aside = -0.5 * ASIDE * (means - 1.0);
        for series in &self.series {
            let mut beside = 0.0;
            if series.shape == Shape::Means {
                (beside, aside) = (aside, aside + ASIDE);
            }
            series.draw(svg, area, (&x, &y), beside);
        }
        Some(y)
    }

    /// The names of its series.
    fn draw_key(&self, svg: &mut Svg, area: &Area) {
        let mut known: Vec<&str> = Vec::new();
        let mut at = match self.key {
            KeyPlace::Nowhere => return,
            KeyPlace::Below => [area.left, area.bottom + BOTTOM + 8.0],
            KeyPlace::Right => [area.right + 16.0, area.top + 8.0],
        };
        let named = |s: &&Series| !s.name.is_empty() && !s.points.is_empty();
        for series in self.series.iter().filter(named) {
            if known.contains(&series.name.as_str()) {
                continue;
            }
            known.push(&series.name);
            svg.open(&series.look(), "");
            if series.has_line() {
                let end = [at[0] + 28.0, at[1]];
                svg.line(at, end, &format!("class=\"curve\"{}", series.dash()));
            } else {
                svg.circle([at[0] + 14.0, at[1]], 4.0, "class=\"dot\"", "");
            }
            svg.close();
            svg.text([at[0] + 36.0, at[1] + 4.0], Anchor::Start, "", &series.name);
            match self.key {
                KeyPlace::Right => at[1] += 20.0,
                _ => at[0] += 60.0 + LETTER * series.name.chars().count() as f64,
            }
        }
    }
}

/// How many letters fit into a width.
fn room(width: f64) -> usize {
    (width / LETTER) as usize
}

/// Plots side by side in one SVG of about this size, each with its own axes and title; the labels of the first one's axes
/// are those of all. None where no plot has a point.
#[must_use]
pub fn beside(id: &str, what: &str, plots: &[Plot], [width, height]: [f64; 2]) -> Option<String> {
    let first = plots.first()?;
    let each = ((width - LEFT + GAP) / plots.len() as f64 - GAP).max(GAP / 2.0);
    // The title of the last one may be wider than its plot.
    let title = plots.last().map_or(0, |plot| plot.title[0].chars().count().min(room(each + GAP)));
    let right = RIGHT.max((LETTER * title as f64 - each) / 2.0);
    let whole = LEFT + plots.len() as f64 * (each + GAP) - GAP + right;
    let mut svg = Svg::new(id, [whole, height], what);
    let (top, bottom) = (first.top(), height - BOTTOM);
    let mut any = false;
    for (i, plot) in plots.iter().enumerate() {
        let left = LEFT + i as f64 * (each + GAP);
        let area = Area { left, right: left + each, top, bottom };
        any |= plot.draw(&mut svg, &area).is_some();
    }
    first.labels(&mut svg, &Area { left: LEFT, right: whole - right, top, bottom }, false);
    any.then(|| svg.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::axis::{Marks, Scale};
    use crate::draw::series::Point;

    fn point(x: f64, y: f64, spread: f64) -> Point {
        Point { x, y, spread, title: "<it>".to_owned() }
    }

    fn plot(shape: Shape, points: Vec<Point>) -> Plot {
        Plot {
            title: ["age & more".to_owned(), String::new()],
            across: Axis::new("<x>"),
            up: Axis::new("y"),
            size: [400.0, 300.0],
            series: vec![Series { shape, name: "a&b".to_owned(), points, ..Series::default() }],
            ..Plot::default()
        }
    }

    const SHAPES: [Shape; 9] = [
        Shape::Curve,
        Shape::Course,
        Shape::Steps,
        Shape::Line,
        Shape::Means,
        Shape::Dots,
        Shape::Spots,
        Shape::Diamonds,
        Shape::Stems,
    ];

    fn is_sound(svg: &str) {
        let lower = svg.to_lowercase();
        assert!(!lower.contains("nan") && !lower.contains("inf"), "{svg}");
        assert_eq!(svg.matches("<g").count(), svg.matches("</g>").count());
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>"));
    }

    #[test]
    fn each_shape_draws_what_it_is() {
        let points = vec![
            point(60.0, 1e4, 0.0),
            point(65.0, 1.5e4, 0.0),
            point(70.0, 2e4, 500.0),
            point(75.0, 2e4, f64::NAN),
            point(80.0, f64::NAN, 0.0),
        ];
        for (shape, [dots, lines]) in SHAPES.into_iter().zip([
            [0, 1],
            [2, 1],
            [2, 1],
            [4, 1],
            [4, 1],
            [4, 0],
            [4, 0],
            [4, 0],
            [0, 0],
        ]) {
            let svg = plot(shape, points.clone()).svg().unwrap();
            is_sound(&svg);
            assert!(!svg.contains("<it>") && svg.contains("age &amp; more"));
            let drawn = svg.matches("<circle").count() + svg.matches("l6 6").count();
            assert_eq!(drawn, dots, "{shape:?}");
            assert_eq!(svg.matches("class=\"curve\"").count(), lines, "{shape:?}");
            assert_eq!(svg.matches("bars\"").count(), usize::from(shape == Shape::Means));
        }
    }

    #[test]
    fn places_are_in_proportion() {
        let points = [[0.0, 1.0], [5.0, 2.0], [10.0, 3.0]].map(|[x, y]| Point::at(x, y));
        let svg = plot(Shape::Dots, points.into()).svg().unwrap();
        for name in ["cx", "cy"] {
            let before = format!(" {name}=\"");
            let parts = svg.split(&before).skip(1);
            let found: Vec<f64> =
                parts.map(|p| p.split('"').next().unwrap().parse().unwrap()).collect();
            assert!((found[1] - (found[0] + found[2]) / 2.0).abs() < 0.11, "{found:?}");
            assert!((found[0] > found[2]) == (name == "cy"), "{found:?}");
        }
    }

    #[test]
    fn odd_values_draw_nothing_odd() {
        let odd: [&[[f64; 2]]; 7] = [
            &[[0.0, 0.0]],
            &[[5.0, -3.0], [5.0, -3.0]],
            &[[0.0, 1e300], [1.0, -1e300]],
            &[[0.0, f64::INFINITY], [1.0, 2.0]],
            &[[0.0, 1e-300], [7.0, 1e300]],
            &[[f64::NAN, 1.0]],
            &[],
        ];
        for (shape, scale) in SHAPES.into_iter().flat_map(|s| {
            [Scale::Linear, Scale::Logarithmic, Scale::BySpan].map(|scale| (s, scale))
        }) {
            for points in odd {
                let points: Vec<_> = points.iter().map(|[x, y]| Point::at(*x, *y)).collect();
                let mut plot = plot(shape, points.clone());
                (plot.up.scale, plot.key) = (scale, KeyPlace::Right);
                let drawn = plot.svg();
                drawn.iter().for_each(|svg| is_sound(svg));
                let any = points
                    .iter()
                    .any(|p| (p.x + p.y).is_finite() && (scale != Scale::Logarithmic || p.y > 0.0));
                assert_eq!(drawn.is_some(), any, "{points:?} {scale:?}");
            }
        }
        assert_eq!(Plot { series: Vec::new(), ..plot(Shape::Dots, Vec::new()) }.svg(), None);
    }

    #[test]
    fn keys_and_bands_are_named_once() {
        let mut plot = plot(Shape::Course, vec![Point::at(0.0, 1.0), Point::at(9.0, 2.0)]);
        plot.series.push(plot.series[0].clone());
        plot.across.marks = Marks::Whole;
        let band = |a, b, name: &str| Band { ends: [a, b], name: name.into(), note: "1 s".into() };
        plot.bands = vec![band(0.0, 6.0, "<8> mm"), band(6.0, 9.0, "4 mm")];
        for (key, times) in [(KeyPlace::Nowhere, 0), (KeyPlace::Below, 1), (KeyPlace::Right, 1)] {
            let svg = Plot { key, ..plot.clone() }.svg().unwrap();
            is_sound(&svg);
            assert_eq!(svg.matches(">a&amp;b</text>").count(), times);
            assert_eq!(svg.matches("class=\"band\"").count(), 1);
            assert!(svg.contains("&lt;8&gt; mm") && svg.contains("4 mm"));
        }
    }

    #[test]
    fn plots_beside_each_other_have_their_own_axes() {
        let one = plot(Shape::Steps, vec![Point::at(0.0, 1.0), Point::at(9.0, 2.0)]);
        let void = plot(Shape::Steps, vec![Point::at(0.0, f64::NAN)]);
        let svg = beside("a", "b", &[one.clone(), void.clone()], [900.0, 300.0]).unwrap();
        is_sound(&svg);
        assert_eq!([svg.matches("class=\"panel\"").count(), svg.matches("age &").count()], [2; 2]);
        let many = beside("a", "b", &vec![one.clone(); 40], [900.0, 300.0]).unwrap();
        assert!(many.contains("viewBox=\"0 0 3") && many.matches("class=\"panel\"").count() == 40);
        assert_eq!(beside("a", "b", &[void], [900.0, 300.0]), None);
        // The last of nine titles is within the drawing.
        let titled = Plot { title: ["0.0025 mm".to_owned(), String::new()], ..one };
        let svg = beside("a", "b", &vec![titled; 9], [960.0, 320.0]).unwrap();
        let after = |part: &str, mark: &str| {
            let number = part.split(mark).nth(1).unwrap();
            number.split(['"', ' ']).next().unwrap().parse::<f64>().unwrap()
        };
        let width = after(&svg, "viewBox=\"0 0 ");
        let last = svg.rsplit("class=\"name\"").next().unwrap();
        assert!(last.contains(">0.0025 mm<"), "{last}");
        assert!(after(last, "x=\"") + 4.5 * LETTER <= width + 0.5, "{width} {last}");
        assert_eq!(beside("a", "b", &[], [900.0, 300.0]), None);
    }
}
