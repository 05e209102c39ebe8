//! The pictures of an atlas: its slices, its sharpening, and the variation of the subjects.

use super::AtlasReport;
use crate::draw::axis::round_up;
use crate::draw::edges::outlines;
use crate::draw::intensity::Lattice;
use crate::draw::jacobian::EDGE;
use crate::draw::picture::{
    Picture, Shown, diverging, diverging_style, level, sequential, sequential_style, signed_level,
};
use crate::draw::plane::{Plane, check_memory, planes, small};
use crate::draw::studio::plane_edges;
use crate::draw::window::{Window, quantile};
use crate::draw::{Key, gallery};
use crate::error::Result;
use crate::page::deform::scale_name;
use crate::page::words::count;
use crate::text::{escape, fixed, plain};
use std::fmt::Write as _;
use voxalign_image::{Grid, Volume};
use voxalign_population::atlas::Snapshot;

/// Colours of the outlines of regions, in turns.
const REGIONS: [[u8; 3]; 6] = [
    [60, 190, 255],
    [255, 140, 0],
    [110, 225, 110],
    [255, 105, 180],
    [255, 230, 90],
    [190, 150, 255],
];
/// The fraction of the voxels whose values are within a colour scale.
const WITHIN: f64 = 0.999;
/// The smallest end of the colour scale in pictures of the mean log Jacobian: below, all is practically 0.
const LEAST_LOG: f64 = 0.05;
/// Most iterations that are shown.
const MOST: usize = 24;
/// The order of the pictures of an iteration.
const ORDER: [&str; 3] = ["axial", "coronal", "sagittal"];

/// All that the figures are drawn from.
pub(super) struct Pictures<'a> {
    report: AtlasReport<'a>,
    pub(super) planes: Vec<Plane>,
    /// The grey of the mean after affine alignment, of the atlas and of its iterations.
    window: Window,
    /// The atlas on each plane.
    atlas: Vec<Vec<f32>>,
    /// The ends of the colour scales: variance, entropy, and mean log Jacobian.
    reach: [f64; 3],
}

impl<'a> Pictures<'a> {
    pub(super) fn new(report: AtlasReport<'a>) -> Result<Self> {
        let grid = report.template.grid();
        let lattice = Lattice::new(grid.dims());
        let mut values = lattice.values(report.template);
        values.extend(lattice.values(report.affine_mean));
        let window = Window::robust(&values);
        let planes = planes(grid, lattice.centre_of_mass(report.template, window));
        check_memory(&planes)?;
        let atlas = planes.iter().map(|p| p.draw(report.template, window.low)).collect();
        let reach = |image| largest(&lattice.values(image));
        let log = reach(report.log_jacobian).max(LEAST_LOG);
        let reach = [reach(report.variance), reach(report.entropy), log].map(round_up);
        Ok(Self { report, planes, window, atlas, reach })
    }

    /// A description of the grid and of the grey scale.
    pub(super) fn convention(&self) -> String {
        let range = [self.window.low, self.window.high].map(|v| fixed(f64::from(v), 2));
        format!(
            "{}Both images are shown from {} (black) to {} (white); the intensities of each subject were \
             calibrated to the range 0 to 1.",
            gallery::convention(&self.planes, self.report.template.grid(), "atlas"),
            range[0],
            range[1]
        )
    }

    /// The mean after affine alignment, and the atlas.
    pub(super) fn slices(&self) -> Result<String> {
        let rows = ["Mean after affine alignment", "Atlas"];
        let draw = |row: usize, at: usize| match row {
            0 => {
                let values = self.planes[at].draw(self.report.affine_mean, self.window.low);
                Picture::of(&self.planes[at], &values, self.window)
            }
            _ => Picture::of(&self.planes[at], &self.atlas[at], self.window),
        };
        gallery::rows(&self.planes, "slice", &rows, draw, |_, _| String::new())
    }

    /// The atlas at some of its iterations, each with its scale; `None` where none was kept.
    pub(super) fn sharpening(&self) -> Result<Option<String>> {
        let all = self.report.snapshots;
        // Evenly thinned, with the first and the last.
        let step = (all.len().saturating_sub(1)).div_ceil(MOST - 1).max(1);
        let kept = all.iter().enumerate().filter(|(i, _)| i % step == 0 || i + 1 == all.len());
        let mut out = "<div class=\"strip\">".to_owned();
        let mut any = false;
        for (i, snapshot) in kept {
            let pictures = self.snapshot(i, snapshot)?;
            if !pictures.is_empty() {
                any = true;
                let _ = write!(
                    out,
                    "<div><p class=\"row\">{}<small>{}</small></p>{pictures}</div>",
                    escape(&scale_name(snapshot.factor, self.report.template.grid())),
                    when(snapshot.iteration)
                );
            }
        }
        Ok(any.then(|| out + "</div>"))
    }

    /// The pictures of an iteration; none of slices that are not sound.
    fn snapshot(&self, number: usize, snapshot: &Snapshot) -> Result<String> {
        let slices = snapshot.slices.iter().filter_map(|slice| slice.volume().ok());
        let mut drawn: Vec<(Plane, Volume<f32>)> = Vec::new();
        for image in slices {
            drawn.extend(small(image.grid()).into_iter().next().map(|plane| (plane, image)));
        }
        drawn.sort_by_key(|(plane, _)| ORDER.iter().position(|name| *name == plane.name));
        let mut out = String::new();
        for (plane, image) in drawn {
            let picture = Picture::of(&plane, &plane.draw(&image, self.window.low), self.window);
            let (name, when) = (plane.name, when(snapshot.iteration));
            let id = format!("snapshot-{number}-{name}");
            let alt = format!("Atlas at scale 1/{}, {when}, {name} slice", snapshot.factor);
            out += &picture.html(&Shown { id: &id, alt: &alt, ..Shown::default() })?;
        }
        Ok(out)
    }

    /// The variance over the subjects.
    pub(super) fn variance(&self) -> Result<String> {
        let reach = self.reach[0];
        let sd = fixed(reach.sqrt(), 3);
        let more = format!(" and more (a standard deviation of {sd})");
        Ok(self.warm("variance", "Variance", self.report.variance, reach)?
            + &sequential_key(reach, &more))
    }

    /// The entropy over the subjects.
    pub(super) fn entropy(&self) -> Result<String> {
        let reach = self.reach[1];
        Ok(self.warm("entropy", "Entropy", self.report.entropy, reach)?
            + &sequential_key(reach, "\u{a0}bits and more"))
    }

    /// Values from 0 up in colours.
    fn warm(&self, id: &str, name: &str, image: &Volume<f32>, reach: f64) -> Result<String> {
        let draw = |_: usize, at: usize| {
            let plane = &self.planes[at];
            let values = plane.draw(image, 0.0);
            let pixels = values.iter().map(|&v| level(f64::from(v) / reach)).collect();
            Picture::coloured(plane, pixels, sequential())
        };
        gallery::rows(&self.planes, id, &[name], draw, |_, _| String::new())
    }

    /// The mean logarithm of the Jacobian, with the edges of the atlas.
    pub(super) fn log_jacobian(&self) -> Result<String> {
        let colours = diverging();
        let mut palette = vec![EDGE];
        palette.extend_from_slice(&colours[1..]);
        let draw = |_: usize, at: usize| {
            let plane = &self.planes[at];
            let lines = plane_edges(plane, &self.atlas[at], self.window);
            let values = plane.draw(self.report.log_jacobian, 0.0);
            let pixels = values.iter().zip(lines).map(|(&v, edge)| match edge {
                true => 0,
                false => signed_level(f64::from(v) / self.reach[2]).max(1),
            });
            Picture::coloured(plane, pixels.collect(), palette.clone())
        };
        let name = "Mean log Jacobian determinant";
        let rows = gallery::rows(&self.planes, "logjacobian", &[name], draw, |_, _| String::new())?;
        let reach = plain(self.reach[2]);
        let percent = |v: f64| fixed((v.exp() - 1.0) * 100.0, 0);
        let (less, more) = (percent(-self.reach[2]), percent(self.reach[2]));
        let ends = [format!("\u{2212}{reach}"), format!("+{reach}")];
        let words = format!(
            "natural logarithm: volumes of the subjects relative to the atlas, from {less}\u{a0}% to +{more}\u{a0}%"
        );
        let key = Key::new().ticked(&diverging_style(), [&ends[0], "0", &ends[1]]).words(&words);
        Ok(rows + &key.html())
    }

    /// Outlines of the regions over the atlas; `None` without regions.
    pub(super) fn regions(&self) -> Option<Result<String>> {
        let labels = self.report.labels?;
        let draw = |_: usize, at: usize| {
            let plane = &self.planes[at];
            let regions = plane.nearest(labels);
            let lines = outlines(&regions, plane.width());
            let greys = self.atlas[at].iter().map(|&v| self.window.unit(v));
            // Regions take the colours in turns; what is outside of all has the first.
            let turn = |i: usize| regions[i].unsigned_abs().saturating_sub(1) as usize;
            Picture::painted(plane.size(), greys, 0.85, &REGIONS, |i| {
                lines[i].then(|| turn(i) % REGIONS.len())
            })
        };
        Some(gallery::rows(&self.planes, "label", &["Regions of the atlas"], draw, |_, _| {
            String::new()
        }))
    }
}

/// A description of when a snapshot of the template was taken.
fn when(iteration: usize) -> String {
    match iteration {
        0 => "at the start".to_owned(),
        n => format!("after {}", count(n, "iteration", "iterations")),
    }
}

/// The size that all but a few values are within.
fn largest(values: &[f32]) -> f64 {
    let sizes = values.iter().map(|v| v.abs()).filter(|v| v.is_finite());
    quantile(&mut sizes.collect::<Vec<_>>(), WITHIN).map_or(0.0, f64::from)
}

/// A colour bar from 0 up; `more` follows the last number.
fn sequential_key(reach: f64, more: &str) -> String {
    Key::new().ramp(&sequential_style(), ["0", &(plain(reach) + more)]).html()
}

/// A description of the size of a grid.
pub(super) fn size(grid: &Grid) -> String {
    let (dims, spacing) = (grid.dims(), grid.spacing());
    let used: Vec<usize> = (0..3).filter(|&a| !grid.is_2d() || dims[a] > 1).collect();
    let joined = |text: &dyn Fn(usize) -> String| {
        used.iter().map(|&a| text(a)).collect::<Vec<_>>().join(" \u{d7} ")
    };
    let voxels = joined(&|a| dims[a].to_string());
    let first = used.first().map_or(1.0, |&a| spacing[a]);
    let length = if used.iter().all(|&a| (spacing[a] - first).abs() < 1e-6) {
        plain(first)
    } else {
        joined(&|a| plain(spacing[a]))
    };
    format!("{voxels} voxels of {length}\u{a0}mm")
}
