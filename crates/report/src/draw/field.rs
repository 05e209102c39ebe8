//! Pictures of a deformation: its grid, its displacements.

use super::axis::{ends, round_up};
use super::contour::{add, level_lines, overlay, simplified};
use super::jacobian::VolumeChange;
use super::key::Key;
use super::picture::{Picture, level, sequential, sequential_style};
use super::plane::Plane;
use super::studio::Studio;
use crate::error::Result;
use crate::text::number;
use std::borrow::Cow;
use voxalign_image::{VectorField, Volume};

/// Squares of the grid along the longest side of the image.
const SQUARES: f64 = 28.0;
/// Pixels from sample to sample where lines are looked for.
const STEP: usize = 2;
/// The tolerance of drawn lines, pixels.
const TOLERANCE: f64 = 0.12;

/// The pictures of a deformation.
pub(crate) struct Deformation<'s, 'a> {
    studio: &'s Studio<'a>,
    /// Its Jacobian determinant.
    pub(crate) change: VolumeChange<'s, 'a>,
    /// The displacements on the grid of the fixed image, mm.
    field: Cow<'a, VectorField>,
    /// Distance of the lines of the grid, mm.
    square: f64,
    /// The displacement that has full colour, mm.
    reach: f64,
    /// Largest and mean displacement, mm.
    pub(crate) largest: f64,
    pub(crate) mean: f64,
}

impl<'s, 'a> Deformation<'s, 'a> {
    /// Of a determinant and displacements on a grid that divides the voxels of the fixed image, or on that of the image.
    pub(crate) fn new(
        studio: &'s Studio<'a>,
        jacobian: &'a Volume<f32>,
        field: &'a VectorField,
    ) -> Result<Self> {
        let grid = field.grid();
        let (mut largest, mut sum, mut count) = (0.0f64, 0.0, 0usize);
        let (xs, rest) = field.data().split_at(grid.len());
        let (ys, zs) = rest.split_at(grid.len());
        for ((x, y), z) in xs.iter().zip(ys).zip(zs) {
            let length = f64::from(x * x + y * y + z * z).sqrt();
            if length.is_finite() {
                largest = largest.max(length);
                sum += length;
                count += 1;
            }
        }
        let longest = (0..3)
            .filter(|&a| grid.dims()[a] > 1)
            .map(|a| grid.extent()[a])
            .fold(f64::MIN_POSITIVE, f64::max);
        Ok(Self {
            studio,
            change: VolumeChange::new(studio, jacobian)?,
            field: field.averaged_on(studio.grid_of_fixed())?,
            square: round_up(longest / SQUARES),
            reach: if largest > 0.0 { round_up(largest) } else { 1.0 },
            largest,
            mean: sum / count.max(1) as f64,
        })
    }

    /// The moving image as deformed with the lines of the grid upon it.
    pub(crate) fn grids(&self) -> Result<String> {
        let window = self.studio.moving_window;
        self.studio.grid_with(
            "grid",
            &["Deformed moving image with the deformed grid"],
            |_, plane, drawn| {
                let greys = drawn.moving[1].iter().map(|&v| window.unit(v) * 0.8);
                Picture::grey(plane.width(), plane.height(), greys)
            },
            |plane| self.lines(plane),
        )
    }

    /// The legend of the lines.
    pub(crate) fn grid_caption(&self) -> String {
        format!(
            "a regular grid over the moving image, with squares of {}\u{a0}mm along the axes of the fixed \
             image, was deformed with it: each line is where a plane of that grid crosses the slice. Good: the \
             lines bend smoothly and never cross their neighbours. Closed loops and lines that touch mean \
             folds; dense lines mean that the moving image was compressed there.",
            number(self.square)
        )
    }

    /// The three components of the displacements on a plane.
    fn components(&self, plane: &Plane) -> Vec<Vec<f32>> {
        let grid = self.field.grid();
        let all = self.field.data().chunks_exact(grid.len());
        all.map(|c| plane.draw_values(c, grid.dims(), 0.0)).collect()
    }

    /// The lines of the grid on a plane, as SVG.
    fn lines(&self, plane: &Plane) -> String {
        let (width, height) = (plane.width(), plane.height());
        let mut path = String::new();
        let grid = self.field.grid();
        let components = self.components(plane);
        let places = |n: usize| -> Vec<usize> {
            let mut all: Vec<usize> = (0..n).step_by(STEP).collect();
            if all.last().is_some_and(|l| l + 1 < n) {
                all.push(n - 1);
            }
            all
        };
        let (columns, rows) = (places(width), places(height));
        for (side, (axis, middle)) in plane.sides().into_iter().enumerate() {
            if grid.dims()[axis] < 2 {
                continue;
            }
            // Where the pixels are found in the moving image along this axis, in squares from the
            // middle of the grid.
            let spacing = grid.spacing()[axis];
            let (to_index, centre) = (grid.to_index().matrix, (grid.dims()[axis] - 1) as f64 / 2.0);
            let mut samples = Vec::with_capacity(columns.len() * rows.len());
            for &y in &rows {
                for &x in &columns {
                    let i = y * width + x;
                    let index = middle[if side == 0 { x } else { y }] - centre;
                    let moved: f64 =
                        (0..3).map(|c| to_index[(axis, c)] * f64::from(components[c][i])).sum();
                    samples.push((index + moved) * spacing / self.square);
                }
            }
            let finite = samples.iter().copied().filter(|v| v.is_finite());
            let Some([low, high]) = ends(finite) else { continue };
            // Twice as many lines as there can be without absurd displacements.
            let (low, high) = (low.max(-2.0 * SQUARES), high.min(2.0 * SQUARES));
            let mut level = low.ceil();
            while level <= high {
                for line in level_lines(&samples, columns.len(), rows.len(), level) {
                    let line: Vec<[f64; 2]> = line
                        .into_iter()
                        .map(|p| [between(&columns, p[0]) + 0.5, between(&rows, p[1]) + 0.5])
                        .collect();
                    add(&mut path, &simplified(&line, TOLERANCE));
                }
                level += 1.0;
            }
        }
        overlay("over", plane, &path)
    }

    /// The lengths of the displacements in colours.
    pub(crate) fn displacements(&self) -> Result<String> {
        self.studio.grid("displacement", &["Displacement magnitude"], |_, plane, _| {
            let parts = self.components(plane);
            let length =
                |i: usize| parts.iter().map(|c| f64::from(c[i]).powi(2)).sum::<f64>().sqrt();
            let pixels = 0..plane.width() * plane.height();
            let pixels = pixels.map(|i| level(length(i) / self.reach)).collect();
            Picture::coloured(plane, pixels, sequential())
        })
    }

    /// The colour bar of the displacements.
    pub(crate) fn displacement_key(&self) -> String {
        let reach = format!("{}\u{a0}mm", number(self.reach));
        Key::new().ramp(&sequential_style(), ["0", &reach]).html()
    }
}

/// The value at a fractional place of a list, linear between.
fn between(list: &[usize], at: f64) -> f64 {
    let low = (at as usize).min(list.len().saturating_sub(1));
    let high = (low + 1).min(list.len().saturating_sub(1));
    let value = |i: usize| list.get(i).map_or(0.0, |v| *v as f64);
    value(low) + (value(high) - value(low)) * (at - low as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::studio::Images;
    use voxalign_image::{Grid, Vector3};

    /// The x of the vertical lines on the one plane of a flat image that was shifted to the right of
    /// the patient.
    fn verticals(shift: f64) -> Vec<f64> {
        let grid = Grid::axis_aligned([64, 64, 1], [1.0; 3]).unwrap();
        let image = Volume::from_fn(grid.clone(), |x, _, _| x as f32);
        let jacobian = Volume::filled(grid.clone(), 1.0);
        let field = VectorField::from_world_fn(grid, |_| Vector3::new(shift, 0.0, 0.0));
        let studio = Studio::new(Images::new(&image, &image, &image)).unwrap();
        let deformation = Deformation::new(&studio, &jacobian, &field).unwrap();
        assert_eq!((deformation.change.folded, deformation.square), (0, 2.5));
        assert!((deformation.mean - shift).abs() < 1e-6);
        let svg = deformation.lines(&studio.planes[0]);
        let path = svg.split("d=\"").nth(1).unwrap().split('"').next().unwrap();
        let mut found: Vec<f64> = path
            .split('M')
            .filter(|line| line.contains("l0 "))
            .map(|line| line.split(' ').next().unwrap().parse().unwrap())
            .collect();
        found.sort_by(f64::total_cmp);
        found
    }

    #[test]
    fn the_grid_goes_where_the_moving_image_goes() {
        // What was at x in the moving image is found at x - 1 mm, which is 5 pixels to the right: R is
        // on the left.
        let (still, moved) = (verticals(0.0), verticals(1.0));
        assert!(still.len() == 25 && still.contains(&160.0), "{still:?}");
        for x in still.iter().filter(|x| **x < 310.0) {
            assert!(moved.iter().any(|m| (m - x - 5.0).abs() < 0.2), "{x} {moved:?}");
        }
    }

    #[test]
    fn values_are_linear_between_places() {
        assert_eq!(between(&[0, 2, 4, 5], 2.5), 4.5);
        assert_eq!(between(&[], 1.0), 0.0);
    }
}
