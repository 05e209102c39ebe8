//! Pictures of the volume change that a deformation makes.

use super::gallery::point;
use super::intensity::Lattice;
use super::key::Key;
use super::picture::{Picture, diverging, diverging_style};
use super::studio::Studio;
use super::window::quantile;
use crate::error::Result;
use crate::text::{fixed, number, thousands};
use voxalign_image::{Grid, Vector3, Volume};

/// Colours of voxels that fold and of the edges of the fixed image.
const FOLD: [u8; 3] = [255, 0, 255];
pub(crate) const EDGE: [u8; 3] = [122, 122, 130];
/// Factors that the scale may end at.
const FACTORS: [f64; 9] = [1.05, 1.1, 1.2, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0];

/// The Jacobian determinant of a deformation.
pub(crate) struct VolumeChange<'s, 'a> {
    studio: &'s Studio<'a>,
    jacobian: &'a Volume<f32>,
    /// The factor that has full colour.
    factor: f64,
    /// Voxels at which it is not above 0.
    pub(crate) folded: usize,
    /// The smallest and the largest.
    pub(crate) range: [f64; 2],
    /// The voxel of the smallest.
    smallest_at: usize,
}

impl<'s, 'a> VolumeChange<'s, 'a> {
    pub(crate) fn new(studio: &'s Studio<'a>, jacobian: &'a Volume<f32>) -> Self {
        let (mut folded, mut smallest_at, mut range) = (0, 0, [f32::MAX, f32::MIN]);
        for (i, &j) in jacobian.data().iter().enumerate() {
            folded += usize::from(j.is_nan() || j <= 0.0);
            if j < range[0] {
                (range[0], smallest_at) = (j, i);
            }
            range[1] = range[1].max(j);
        }
        if range[0] > range[1] {
            range = [f32::NAN; 2];
        }
        let mut logs: Vec<f32> = Lattice::new(jacobian.dims()).values(jacobian);
        logs.retain(|j| *j > 0.0 && j.is_finite());
        logs.iter_mut().for_each(|j| *j = j.ln().abs());
        let typical = f64::from(quantile(&mut logs, 0.999).unwrap_or(0.0)).exp();
        let factor = FACTORS.into_iter().find(|f| *f >= typical).unwrap_or(8.0);
        Self { studio, jacobian, factor, folded, range: range.map(f64::from), smallest_at }
    }

    /// The Jacobian determinant in colours.
    pub(crate) fn pictures(&self) -> Result<String> {
        let full = self.factor.ln();
        let colours = diverging();
        let mut palette = vec![FOLD, EDGE];
        palette.extend((0..254).map(|i| colours[1 + i]));
        palette[255] = colours[255];
        self.studio.grid("jacobian", &["Jacobian determinant"], |_, plane, drawn| {
            let folds = plane.any(self.jacobian, |j| j.is_nan() || j <= 0.0);
            let edges = self.studio.fixed_edges(plane, drawn);
            let values = plane.draw(self.jacobian, 1.0);
            let pixels = values
                .iter()
                .zip(folds.into_iter().zip(edges))
                .map(|(&j, marks)| match marks {
                    (true, _) => 0,
                    (_, true) => 1,
                    _ => {
                        let t = (f64::from(j.max(1e-6)).ln() / full).clamp(-1.0, 1.0);
                        // 129 is black; the two marks come before the lightest blue.
                        (129.0 + 126.5 * t).round().clamp(2.0, 255.0) as u8
                    }
                })
                .collect();
            Picture::coloured(plane, pixels, palette.clone())
        })
    }

    /// The colour bar, and where the mapping folds or is next to it.
    pub(crate) fn key(&self) -> String {
        let [low, _] = self.range;
        let place = place(self.jacobian.grid(), self.smallest_at);
        let words = match self.folded {
            0 => format!("no voxel folds; the smallest, {}, is {place}", number(low)),
            n => format!(
                "<strong class=\"fail\">{} of {} voxels fold</strong>; the smallest, {}, is {place}",
                thousands(n as f64),
                thousands(self.jacobian.data().len() as f64),
                number(low)
            ),
        };
        let words = if low.is_finite() { words } else { "no value is finite".to_owned() };
        let ends = ["\u{f7}", "\u{d7}"].map(|sign| format!("{sign}\u{a0}{}", self.factor));
        Key::new()
            .ticked(&diverging_style(), [&ends[0], "1", &ends[1]])
            .line("#f0f;height:12px", "folded")
            .words(&words)
            .html()
    }
}

/// A description of the position of a voxel.
fn place(grid: &Grid, voxel: usize) -> String {
    let [nx, ny, _] = grid.dims();
    let index = [voxel % nx, voxel / nx % ny, voxel / (nx * ny)];
    let world = grid.index_to_world(Vector3::from(index.map(|i| i as f64)));
    if grid.is_2d() {
        let [x, y] = [fixed(world[0], 1), fixed(world[1], 1)];
        return format!("at x {x}, y {y}\u{a0}mm (voxel {}, {})", index[0], index[1]);
    }
    format!("at {}\u{a0}mm (voxel {}, {}, {})", point(world), index[0], index[1], index[2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_in_letters() {
        let grid = Grid::axis_aligned([4, 5, 6], [1.0, 2.0, 3.0]).unwrap();
        assert!(
            place(&grid, 1 + 4 * (2 + 5 * 3)).starts_with("at R\u{a0}1.0, A\u{a0}4.0, S\u{a0}9")
        );
    }
}
