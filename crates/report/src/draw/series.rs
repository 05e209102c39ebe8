//! Series of points and their drawing over a pair of axes.

use super::axis::Placed;
use super::plot::Area;
use super::svg::{COLOURS, Svg, along};

/// How a series is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Shape {
    /// A line through all points.
    #[default]
    Curve,
    /// The same with a dot at each end; of many points some are left out.
    Course,
    /// A course whose value stays until the next point.
    Steps,
    /// A line with a dot at each point.
    Line,
    /// A line with dots and bars of the spread.
    Means,
    /// Small pale dots.
    Dots,
    /// Small dots; smaller ones where they are many.
    Spots,
    /// Diamonds, larger than dots.
    Diamonds,
    /// Upright lines without caps, from each point to its spread above it (below, where that is negative).
    Stems,
}

/// A series of a plot.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Series {
    /// How it is drawn.
    pub shape: Shape,
    /// Number of its colour in the style sheet; lines of the numbers after the last one are dashed.
    pub colour: usize,
    /// Its name in the key, and where one points at it; none where it is empty. Series of one name are one in the key.
    pub name: String,
    /// Its points; those that are not finite are left out.
    pub points: Vec<Point>,
}

/// A point of a plot, in the units of the axes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Point {
    /// Where it is across.
    pub x: f64,
    /// Where it is upwards.
    pub y: f64,
    /// Half the length of its bar, or the length of its stem.
    pub spread: f64,
    /// Its tooltip.
    pub title: String,
}

impl Point {
    /// A point without a spread and a title.
    #[must_use]
    pub fn at(x: f64, y: f64) -> Self {
        Self { x, y, ..Self::default() }
    }

    /// The same with a title.
    #[must_use]
    pub fn titled(self, title: impl Into<String>) -> Self {
        Self { title: title.into(), ..self }
    }
}

/// The radius of a dot, the least one of many, and that of a diamond.
const RADII: [f64; 3] = [3.5, 1.8, 6.0];
/// Most points, about, that are drawn of a course.
const POINTS: usize = 400;

/// The spread of a point, where it is a number.
pub(super) fn spread(point: &Point) -> f64 {
    if point.spread.is_finite() { point.spread } else { 0.0 }
}

impl Series {
    /// The attributes of its group.
    pub(super) fn look(&self) -> String {
        format!("class=\"s{}\"", self.colour % COLOURS)
    }

    pub(super) fn dash(&self) -> &'static str {
        if self.colour < COLOURS { "" } else { " stroke-dasharray=\"6 4\"" }
    }

    pub(super) fn has_line(&self) -> bool {
        !matches!(self.shape, Shape::Dots | Shape::Spots | Shape::Diamonds)
    }

    pub(super) fn draw(&self, svg: &mut Svg, area: &Area, (x, y): (&Placed, &Placed), aside: f64) {
        let shown = |p: &&Point| x.shows(p.x) && y.shows(p.y);
        let mut points: Vec<&Point> = self.points.iter().filter(shown).collect();
        if matches!(self.shape, Shape::Course | Shape::Steps) {
            points = thinned(points);
        }
        let places: Vec<[f64; 2]> = points.iter().map(|p| [x.at(p.x) + aside, y.at(p.y)]).collect();
        let Some(last) = places.len().checked_sub(1) else { return };
        svg.open(&self.look(), &self.name);
        let path = match self.shape {
            Shape::Curve | Shape::Course | Shape::Line | Shape::Means => along(&places),
            Shape::Steps => {
                let pairs = places.windows(2).flat_map(|w| [[w[1][0], w[0][1]], w[1]]);
                along(&[places[0]].into_iter().chain(pairs).collect::<Vec<_>>())
            }
            _ => String::new(),
        };
        if !path.is_empty() {
            svg.path(&path, &format!("class=\"curve\"{}", self.dash()), "");
        }
        let small =
            ((area.right - area.left) / places.len() as f64 / 3.0).clamp(RADII[1], RADII[0]);
        for (i, (point, &place)) in points.iter().zip(&places).enumerate() {
            let title = &point.title;
            match self.shape {
                Shape::Curve => {}
                Shape::Course | Shape::Steps if i > 0 && i < last => {}
                Shape::Stems => {
                    let end = [place[0], y.at(point.y + spread(point))];
                    svg.line(place, end, "class=\"grid\"");
                }
                Shape::Diamonds => {
                    let ([px, py], r) = (place, RADII[2]);
                    let path = format!("M{px:.1} {:.1}l{r} {r}l-{r} {r}l-{r} -{r}z", py - r);
                    svg.path(&path, "class=\"dot edge\"", title);
                }
                Shape::Dots => svg.circle(place, RADII[0], "class=\"dot pale\"", title),
                Shape::Spots => svg.circle(place, small, "class=\"dot\"", title),
                _ => {
                    if self.shape == Shape::Means && spread(point) > 0.0 {
                        svg.path(&bar(place[0], point, y), "class=\"bars\"", "");
                    }
                    svg.circle(place, RADII[0], "class=\"dot\"", title);
                }
            }
        }
        svg.close();
    }
}

/// The bar of a mean.
fn bar(x: f64, point: &Point, y: &Placed) -> String {
    let [top, bottom] = [1.0, -1.0].map(|side| y.at(point.y + side * point.spread));
    let (a, b) = (x - 3.5, x + 3.5);
    format!("M{x:.1} {top:.1}V{bottom:.1}M{a:.1} {top:.1}H{b:.1}M{a:.1} {bottom:.1}H{b:.1}")
}

/// A regular subset of some points in their order across, with both ends.
fn thinned(mut points: Vec<&Point>) -> Vec<&Point> {
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    let (step, last) = (points.len().div_ceil(POINTS).max(1), points.len().saturating_sub(1));
    let all = points.into_iter().enumerate();
    all.filter(|(i, _)| i % step == 0 || *i == last).map(|(_, p)| p).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn courses_are_thinned_but_keep_their_ends() {
        let points: Vec<Point> = (0..5001).map(|i| Point::at(f64::from(i), 1.0)).collect();
        let thin = thinned(points.iter().collect());
        assert!(thin.len() <= POINTS + 1);
        assert_eq!((thin[0].x, thin[thin.len() - 1].x), (0.0, 5000.0));
    }
}
