//! The pictures of a report that compares a fixed and a moving image before and after registration.

use super::edges::{edges, outlines};
use super::intensity::{BINS, Joint, Lattice, Transfer};
use super::key::Key;
use super::picture::{Picture, diverging, diverging_style, sequential, signed_level};
use super::plane::{Plane, along, check_memory, planes_within};
use super::window::Window;
use super::{check_grids, gallery, mask};
use crate::error::Result;
use crate::text::number;
use std::fmt::Write as _;
use voxalign_image::{Grid, LabelMap, Volume};

/// Colour of the edges of the fixed image.
const EDGE: [u8; 3] = [255, 170, 20];
/// Colours of the outlines of the fixed image's regions, the moving image's, and of both.
const OUTLINES: [[u8; 3]; 3] = [[60, 190, 255], [255, 140, 0], [255, 255, 255]];
/// Slices of a mosaic.
const MOSAIC: usize = 12;
/// Squares along the longer side of a checkerboard.
const SQUARES: usize = 10;

/// The images of a report, all on the grid of the fixed image.
#[derive(Debug, Clone, Copy)]
pub struct Images<'a> {
    /// The fixed image.
    pub fixed: &'a Volume<f32>,
    /// The moving image as it was before: under the headers alone, under the start transform, or,
    /// for a deformation, under the affine part only.
    pub before: &'a Volume<f32>,
    /// The moving image under the result.
    pub after: &'a Volume<f32>,
    /// The fixed mask or weights (counting above 0), where there are any.
    pub fixed_mask: Option<&'a Volume<f32>>,
    /// Regions of the fixed image.
    pub fixed_labels: Option<&'a LabelMap>,
    /// Regions of the moving image as they were before.
    pub before_labels: Option<&'a LabelMap>,
    /// Regions of the moving image under the result.
    pub after_labels: Option<&'a LabelMap>,
}

impl<'a> Images<'a> {
    /// Images without mask and regions.
    #[must_use]
    pub fn new(fixed: &'a Volume<f32>, before: &'a Volume<f32>, after: &'a Volume<f32>) -> Self {
        Self {
            fixed,
            before,
            after,
            fixed_mask: None,
            fixed_labels: None,
            before_labels: None,
            after_labels: None,
        }
    }

    fn check(&self) -> Result<()> {
        let mut grids: Vec<(&'static str, &Grid)> =
            vec![("moving (before)", self.before.grid()), ("moving (after)", self.after.grid())];
        let labels = [
            ("fixed label", self.fixed_labels),
            ("moving label (before)", self.before_labels),
            ("moving label (after)", self.after_labels),
        ];
        grids.extend(self.fixed_mask.map(|mask| ("fixed mask", mask.grid())));
        grids.extend(labels.into_iter().filter_map(|(role, map)| Some((role, map?.grid()))));
        check_grids("fixed image", self.fixed.grid(), &grids)
    }
}

/// All that the figures are drawn from.
pub(crate) struct Studio<'a> {
    report: Images<'a>,
    pub(crate) planes: Vec<Plane>,
    drawn: Vec<Drawn>,
    pub(crate) fixed_window: Window,
    pub(crate) moving_window: Window,
    /// Descriptions of the windows of the fixed and of the moving image, where there are any.
    shown: [Option<&'static str>; 2],
    /// The windows of the joint histograms: all but the most extreme values.
    whole: [Window; 2],
    transfer: Transfer,
    joints: [Joint; 2],
    /// The difference that has full colour.
    pub(crate) difference_scale: f32,
}

/// The values of the images on one plane.
pub(crate) struct Drawn {
    pub(crate) fixed: Vec<f32>,
    /// Before and after.
    pub(crate) moving: [Vec<f32>; 2],
}

impl<'a> Studio<'a> {
    /// # Errors
    /// An image on another grid than the fixed one.
    pub(crate) fn new(report: Images<'a>) -> Result<Self> {
        Self::within(report, None)
    }

    /// As [`new`](Self::new), with longest sides of pictures of between these numbers of pixels.
    ///
    /// # Errors
    /// As of [`new`](Self::new).
    pub(crate) fn within(report: Images<'a>, pixels: Option<[f64; 2]>) -> Result<Self> {
        report.check()?;
        let grid = report.fixed.grid();
        let lattice = Lattice::new(grid.dims());
        let fixed = lattice.values(report.fixed);
        let before = lattice.values(report.before);
        let after = lattice.values(report.after);
        let (fixed_window, fixed_shown) = Window::shown(&fixed);
        let both: Vec<f32> = before.iter().chain(&after).copied().collect();
        let (moving_window, moving_shown) = Window::shown(&both);
        let whole = [Window::robust(&fixed), Window::robust(&both)];
        let joints =
            [&before, &after].map(|moving| Joint::new((&fixed, whole[0]), (moving, whole[1])));
        let transfer = Joint::new((&fixed, fixed_window), (&after, moving_window)).transfer();
        let centre = lattice.centre_of_mass(report.fixed, fixed_window);
        let planes = planes_within(grid, centre, pixels);
        check_memory(&planes)?;
        let draw = |plane: &Plane| Drawn {
            fixed: plane.draw(report.fixed, fixed_window.low),
            moving: [report.before, report.after]
                .map(|image: &Volume<f32>| plane.draw(image, moving_window.low)),
        };
        let drawn = planes.iter().map(draw).collect();
        let difference_scale = fixed_window.range() / 2.0;
        Ok(Self {
            report,
            planes,
            drawn,
            fixed_window,
            moving_window,
            shown: [fixed_shown, moving_shown],
            whole,
            transfer,
            joints,
            difference_scale,
        })
    }

    /// The grid of the fixed image.
    pub(crate) fn grid_of_fixed(&self) -> &Grid {
        self.report.fixed.grid()
    }

    /// A description of the grid, the positions of the slices and the orientation of the pictures.
    pub(crate) fn convention(&self) -> String {
        gallery::convention(&self.planes, self.report.fixed.grid(), "fixed") + &self.windows()
    }

    /// A description of the grey scale.
    fn windows(&self) -> String {
        let of = |window: Window, shown: Option<&str>| {
            let range = [window.low, window.high].map(|v| number(f64::from(v))).join(" to ");
            shown.map_or_else(|| range.clone(), |what| format!("{range} HU ({what})"))
        };
        format!(
            "From black to white, the fixed image is shown from {}, the moving image from {}.",
            of(self.fixed_window, self.shown[0]),
            of(self.moving_window, self.shown[1])
        )
    }

    /// The outline of the fixed mask for the pictures of a plane; nothing where there is none.
    fn mask(&self, plane: &Plane) -> String {
        self.report.fixed_mask.map_or_else(String::new, |mask| mask::outline(plane, mask))
    }

    /// The legend of the mask's outline, where there is one.
    fn mask_key(&self) -> String {
        self.report.fixed_mask.map_or_else(String::new, |_| mask::key())
    }

    /// Rows of pictures, one column a plane. `draw` gives the picture of row and plane.
    pub(crate) fn grid(
        &self,
        id: &str,
        rows: &[&str],
        draw: impl Fn(usize, &Plane, &Drawn) -> Picture,
    ) -> Result<String> {
        self.grid_with(id, rows, draw, |_| String::new())
    }

    /// As [`grid`](Self::grid), with the HTML that `over` gives for each plane upon its pictures.
    pub(crate) fn grid_with(
        &self,
        id: &str,
        rows: &[&str],
        draw: impl Fn(usize, &Plane, &Drawn) -> Picture,
        over: impl Fn(&Plane) -> String,
    ) -> Result<String> {
        let picture = |row: usize, at: usize| draw(row, &self.planes[at], &self.drawn[at]);
        gallery::rows(&self.planes, id, rows, picture, |_, at| over(&self.planes[at]))
    }

    /// The fixed image, and the moving one before and after, under these names.
    pub(crate) fn slices(&self, [before, after]: [&str; 2]) -> Result<String> {
        let rows = ["Fixed", before, after];
        let draw = |row, plane: &Plane, drawn: &Drawn| self.plain(row, plane, drawn);
        Ok(self.grid_with("slice", &rows, draw, |plane| self.mask(plane))? + &self.mask_key())
    }

    /// The fixed image on a plane, or the moving one before or after: row 0, 1 or 2.
    pub(crate) fn plain(&self, row: usize, plane: &Plane, drawn: &Drawn) -> Picture {
        match row.checked_sub(1) {
            None => Picture::of(plane, &drawn.fixed, self.fixed_window),
            Some(row) => Picture::of(plane, &drawn.moving[row], self.moving_window),
        }
    }

    /// Slices through all of the image, with the edges of the fixed image over the moving one after;
    /// nothing where there is but one slice.
    pub(crate) fn mosaic(&self) -> Option<Result<String>> {
        let (fixed, after) = (self.report.fixed, self.report.after);
        let (grid, plane) = (fixed.grid(), self.planes.first()?);
        if plane.letters.is_none() || grid.dims()[plane.axis] < 2 {
            return None;
        }
        let lattice = Lattice::new(grid.dims());
        let [low, high] = lattice.extent(fixed, self.fixed_window, plane.axis);
        let at = |i: usize| low + ((2 * i + 1) * (high - low + 1)) / (2 * MOSAIC);
        let mut slices: Vec<usize> = (0..MOSAIC).map(at).collect();
        slices.dedup();
        let draw = |plane: &Plane| {
            let ours = plane.draw(fixed, self.fixed_window.low);
            let theirs = plane.draw(after, self.moving_window.low);
            let lines = plane_edges(plane, &ours, self.fixed_window);
            Picture::with_lines(plane, &theirs, self.moving_window, &lines, EDGE)
        };
        Some(gallery::mosaic(grid, &along(grid, plane, &slices), draw))
    }

    /// The fixed image on the plane of a place in the list.
    pub(crate) fn fixed_picture(&self, at: usize) -> Picture {
        Picture::of(&self.planes[at], &self.drawn[at].fixed, self.fixed_window)
    }

    /// Squares of the fixed and the moving image in turn.
    pub(crate) fn checkerboards(&self) -> Result<String> {
        let draw = |row, plane: &Plane, drawn: &Drawn| self.checkerboard(row, plane, drawn);
        self.grid("checker", &["Before", "After"], draw)
    }

    /// The same on a plane, before or after: row 0 or 1.
    pub(crate) fn checkerboard(&self, row: usize, plane: &Plane, drawn: &Drawn) -> Picture {
        let longest = self.planes.iter().map(|p| p.width().max(p.height())).max().unwrap_or(1);
        let square = longest.div_ceil(SQUARES).max(1);
        let width = plane.width();
        let values = drawn.fixed.iter().zip(&drawn.moving[row]).enumerate();
        let values = values.map(|(i, (&f, &m))| {
            if (i % width / square + i / width / square).is_multiple_of(2) {
                self.fixed_window.unit(f)
            } else {
                self.moving_window.unit(m)
            }
        });
        Picture::grey(width, plane.height(), values)
    }

    /// The edges of the fixed image over the moving one.
    pub(crate) fn edge_overlays(&self) -> Result<String> {
        let draw = |row, plane: &Plane, drawn: &Drawn| self.edge_overlay(row, plane, drawn);
        self.grid("edge", &["Before", "After"], draw)
    }

    /// The same on a plane, before or after: row 0 or 1.
    pub(crate) fn edge_overlay(&self, row: usize, plane: &Plane, drawn: &Drawn) -> Picture {
        let lines = self.fixed_edges(plane, drawn);
        Picture::with_lines(plane, &drawn.moving[row], self.moving_window, &lines, EDGE)
    }

    /// The pixels of a plane on an edge of the fixed image.
    pub(crate) fn fixed_edges(&self, plane: &Plane, drawn: &Drawn) -> Vec<bool> {
        plane_edges(plane, &drawn.fixed, self.fixed_window)
    }

    /// Fixed minus moving, the moving intensities mapped onto those of the fixed image.
    pub(crate) fn differences(&self) -> Result<String> {
        let draw = |row, plane: &Plane, drawn: &Drawn| self.difference(row, plane, drawn);
        self.grid_with("difference", &["Before", "After"], draw, |plane| self.mask(plane))
    }

    /// The same on a plane, before or after: row 0 or 1.
    pub(crate) fn difference(&self, row: usize, plane: &Plane, drawn: &Drawn) -> Picture {
        let window = self.fixed_window;
        let pixels = drawn.fixed.iter().zip(&drawn.moving[row]).map(|(&f, &m)| {
            let difference = f.clamp(window.low, window.high) - self.transfer.apply(m);
            signed_level(f64::from(difference / self.difference_scale))
        });
        Picture::coloured(plane, pixels.collect(), diverging())
    }

    /// What `draw` makes of the plane at a place in the list.
    pub(crate) fn at(
        &self,
        place: usize,
        draw: impl Fn(&Plane, &Drawn) -> Picture,
    ) -> Option<Picture> {
        Some(draw(self.planes.get(place)?, self.drawn.get(place)?))
    }

    /// The colour bar of the differences.
    pub(crate) fn difference_key(&self) -> String {
        let scale = number(f64::from(self.difference_scale));
        let ends =
            [format!("\u{2212}{scale}, moving brighter"), format!("+{scale}, fixed brighter")];
        self.mask_key() + &Key::new().ramp(&diverging_style(), [&ends[0], &ends[1]]).html()
    }

    /// The legend of the edges.
    pub(crate) fn edge_key(&self) -> String {
        Key::new().line("#ffaa14", "edges of the fixed image").html()
    }

    /// The legend of the regions' outlines.
    pub(crate) fn label_key(&self) -> String {
        Key::new()
            .line("#3cbeff", "fixed only")
            .line("#ff8c00", "moving only")
            .line("#fff;outline:1px solid #888", "both")
            .html()
    }

    /// Outlines of the regions of both images over the fixed image; `None` without regions.
    pub(crate) fn label_outlines(&self) -> Option<Result<String>> {
        let maps = [self.report.before_labels, self.report.after_labels];
        let fixed = self.report.fixed_labels?;
        let rows: Vec<(&str, &LabelMap)> = ["Before", "After"]
            .into_iter()
            .zip(maps)
            .filter_map(|(name, map)| Some((name, map?)))
            .collect();
        if rows.is_empty() {
            return None;
        }
        let names: Vec<&str> = rows.iter().map(|r| r.0).collect();
        Some(self.grid("label", &names, |row, plane, drawn| {
            let width = plane.width();
            let ours = outlines(&plane.nearest(fixed), width);
            let theirs = outlines(&plane.nearest(rows[row].1), width);
            let greys = drawn.fixed.iter().map(|&v| self.fixed_window.unit(v));
            Picture::painted(plane.size(), greys, 0.7, &OUTLINES, |i| match (ours[i], theirs[i]) {
                (true, false) => Some(0),
                (false, true) => Some(1),
                (true, true) => Some(2),
                _ => None,
            })
        }))
    }

    /// How often each pair of intensities occurs, before and after.
    pub(crate) fn histograms(&self) -> Result<String> {
        let most = self.joints.iter().map(Joint::typical_peak).max().unwrap_or(1);
        let scale = f64::from(most).ln_1p();
        let mut out = "<div class=\"histograms\">".to_owned();
        for (joint, name) in self.joints.iter().zip(["Before", "After"]) {
            let rows = joint.counts.chunks_exact(BINS).rev().flatten();
            let level = |&n: &u32| match n {
                0 => 0,
                n => (30.0 + 225.0 * (f64::from(n).ln_1p() / scale).min(1.0)).round() as u8,
            };
            let picture = Picture {
                width: BINS,
                height: BINS,
                pixels: rows.map(level).collect(),
                palette: Some(sequential()),
            };
            let window = |w: Window| [w.low, w.high].map(|v| number(f64::from(v)));
            let [fixed_low, fixed_high] = window(self.whole[0]);
            let [moving_low, moving_high] = window(self.whole[1]);
            let _ = write!(
                out,
                "<div class=\"histogram\"><p class=\"row\">{name}</p>\
                 <div class=\"ylabel\"><span>{moving_high}</span><b>moving intensity</b>\
                 <span>{moving_low}</span></div>\
                 <img id=\"histogram-{}\" width=\"{BINS}\" height=\"{BINS}\" src=\"{}\" \
                 alt=\"Joint histogram {}: fixed intensity to the right, moving intensity up\">\
                 <div class=\"xlabel\"><span>{fixed_low}</span><b>fixed intensity</b>\
                 <span>{fixed_high}</span></div></div>",
                name.to_lowercase(),
                picture.data_uri()?,
                name.to_lowercase(),
            );
        }
        out.push_str("</div>");
        Ok(out)
    }
}

/// The pixels of an image on a plane that lie on an edge.
pub(crate) fn plane_edges(plane: &Plane, values: &[f32], window: Window) -> Vec<bool> {
    let unit: Vec<f32> = values.iter().map(|&v| window.unit(v)).collect();
    edges(&unit, plane.width(), plane.height())
}
