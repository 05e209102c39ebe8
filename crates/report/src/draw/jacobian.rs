//! Pictures of the volume change that a deformation makes.

use super::gallery::point;
use super::intensity::Lattice;
use super::key::Key;
use super::picture::{Picture, diverging, diverging_style};
use super::studio::Studio;
use super::window::quantile;
use crate::error::Result;
use crate::text::{fixed, number, thousands};
use std::borrow::Cow;
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
    /// The same on the grid of the fixed image.
    pictured: Cow<'a, Volume<f32>>,
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
    /// Of a determinant on a grid that divides the voxels of the fixed image, or on that of the image.
    pub(crate) fn new(studio: &'s Studio<'a>, jacobian: &'a Volume<f32>) -> Result<Self> {
        let (mut folded, mut smallest_at, mut range) = (0, 0, [f32::MAX, f32::MIN]);
        for (i, &j) in jacobian.data().iter().enumerate() {
            folded += usize::from(folds(j));
            if j < range[0] {
                (range[0], smallest_at) = (j, i);
            }
            range[1] = range[1].max(j);
        }
        if range[0] > range[1] {
            range = [f32::NAN; 2];
        }
        let pictured = pictured(jacobian, studio.grid_of_fixed())?;
        let mut logs: Vec<f32> = Lattice::new(pictured.dims()).values(&pictured);
        logs.retain(|j| *j > 0.0 && j.is_finite());
        logs.iter_mut().for_each(|j| *j = j.ln().abs());
        let typical = f64::from(quantile(&mut logs, 0.999).unwrap_or(0.0)).exp();
        let factor = FACTORS.into_iter().find(|f| *f >= typical).unwrap_or(8.0);
        let range = range.map(f64::from);
        Ok(Self { studio, jacobian, pictured, factor, folded, range, smallest_at })
    }

    /// The Jacobian determinant in colours.
    pub(crate) fn pictures(&self) -> Result<String> {
        let full = self.factor.ln();
        let colours = diverging();
        let mut palette = vec![FOLD, EDGE];
        palette.extend((0..254).map(|i| colours[1 + i]));
        palette[255] = colours[255];
        self.studio.grid("jacobian", &["Jacobian determinant"], |_, plane, drawn| {
            let folded = plane.any(&self.pictured, folds);
            let edges = self.studio.fixed_edges(plane, drawn);
            let values = plane.draw(&self.pictured, 1.0);
            let pixels = values
                .iter()
                .zip(folded.into_iter().zip(edges))
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
        let place = place(self.jacobian.grid(), self.smallest_at, self.pictured.grid());
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

/// Whether a mapping with this determinant folds.
fn folds(jacobian: f32) -> bool {
    jacobian.is_nan() || jacobian <= 0.0
}

/// A Jacobian determinant within each voxel of the fixed image: its mean there, or what it is where it folds.
fn pictured<'a>(jacobian: &'a Volume<f32>, fixed: &Grid) -> Result<Cow<'a, Volume<f32>>> {
    let mut shown = jacobian.averaged_on(fixed)?;
    let Cow::Owned(means) = &mut shown else { return Ok(shown) };
    let parts = jacobian.grid().parts_of(fixed)?;
    let ([nx, ny, _], [mx, my, _]) = (jacobian.dims(), fixed.dims());
    for (i, &j) in jacobian.data().iter().enumerate().filter(|(_, j)| folds(**j)) {
        let [x, y, z] = [i % nx / parts[0], i / nx % ny / parts[1], i / (nx * ny) / parts[2]];
        means.data_mut()[(z * my + y) * mx + x] = j;
    }
    Ok(shown)
}

/// A description of the position of a voxel of a grid, which names that of the fixed image there.
fn place(grid: &Grid, voxel: usize, image: &Grid) -> String {
    let [nx, ny, _] = grid.dims();
    let index = [voxel % nx, voxel / nx % ny, voxel / (nx * ny)];
    let world = grid.index_to_world(Vector3::from(index.map(|i| i as f64)));
    let index = image.world_to_index(world);
    let index = [0, 1, 2].map(|a| index[a].round().max(0.0) as usize);
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
    fn a_voxel_shows_the_mean_within_it_and_that_it_folds() {
        let fixed = Grid::axis_aligned([3, 2, 2], [1.0, 1.0, 3.0]).unwrap();
        let fine = fixed.with_spacing([1.0; 3]).unwrap();
        let mut jacobian = Volume::from_fn(fine, |x, _, z| (1 + x) as f32 + 0.25 * z as f32);
        jacobian.data_mut()[1 + 3 * (1 + 2 * 4)] = -0.5;
        let shown = pictured(&jacobian, &fixed).unwrap();
        assert_eq!(shown.data()[..3], [1.25, 2.25, 3.25]);
        assert_eq!(shown.data()[6..], [2.0, 3.0, 4.0, 2.0, -0.5, 4.0]);
        assert!(place(jacobian.grid(), 1 + 3 * (1 + 2 * 4), &fixed).contains("(voxel 1, 1, 1)"));
        assert!(matches!(pictured(&shown, &fixed).unwrap(), Cow::Borrowed(_)));
    }

    #[test]
    fn places_are_in_letters() {
        let grid = Grid::axis_aligned([4, 5, 6], [1.0, 2.0, 3.0]).unwrap();
        assert!(
            place(&grid, 1 + 4 * (2 + 5 * 3), &grid)
                .starts_with("at R\u{a0}1.0, A\u{a0}4.0, S\u{a0}9")
        );
    }
}
