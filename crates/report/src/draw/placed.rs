//! Pictures of slices that lie anywhere in the world, beside what a volume shows there.

use super::gallery;
use super::picture::{Picture, Shown};
use super::plane::Plane;
use super::studio::{Drawn, Images, Studio};
use crate::error::Result;
use crate::text::{escape, plain};
use voxalign_image::{Grid, Mesh, Vector3};

/// Longest sides of pictures, pixels, and where there are many of them.
const PIXELS: [[f64; 2]; 2] = [[320.0, 640.0], [240.0, 400.0]];
/// More slices than this are many.
const MANY: usize = 4;
/// Pictures are at most so many times as high as their column is wide.
const HIGHEST: f64 = 1.25;
/// A side of a picture is also named after directions down to this part of the main one: the sine of 15 degrees.
const ALONG: f64 = 0.2588;
/// The most directions that name a side.
const LETTERS: usize = 2;
/// Slices are oblique from this angle on, radians.
const OBLIQUE: f64 = 0.0088;

/// A slice that is drawn.
pub(crate) struct Placed<'a> {
    /// Its name, which is text.
    pub(crate) name: &'a str,
    pub(crate) studio: Studio<'a>,
    grid: &'a Grid,
}

impl<'a> Placed<'a> {
    /// A slice, and the volume at its pixels before and after; one of so many slices.
    ///
    /// # Errors
    /// An image of the volume on another grid than the slice.
    pub(crate) fn new(name: &'a str, images: Images<'a>, of: usize) -> Result<Self> {
        let studio = Studio::within(images, Some(PIXELS[usize::from(of > MANY)]))?;
        Ok(Self { name, grid: images.fixed.grid(), studio })
    }

    /// Its plane.
    pub(crate) fn plane(&self) -> Option<&Plane> {
        self.studio.planes.first()
    }

    /// Width over height in the world.
    pub(crate) fn ratio(&self) -> f64 {
        self.plane().map_or(1.0, |p| p.width() as f64 / p.height().max(1) as f64)
    }

    /// A picture of it with HTML upon it and the directions of its sides; nothing where it cannot be drawn.
    pub(crate) fn picture(
        &self,
        [id, group, what]: [&str; 3],
        draw: impl Fn(&Plane, &Drawn) -> Picture,
        over: &str,
    ) -> Result<String> {
        let Some(picture) = self.studio.at(0, draw) else { return Ok(String::new()) };
        let width = (100.0 * HIGHEST * self.ratio()).clamp(10.0, 100.0);
        let alt = format!("{}: {what}", self.name);
        let shown = Shown { id, group, alt: &alt, style: "", over, sides: self.sides() };
        Ok(format!("<div style=\"width:{width:.1}%\">{}</div>", picture.html(&shown)?))
    }

    /// The directions in the world from left to right and from top to bottom of its picture.
    fn directions(&self) -> Option<[Vector3<f64>; 2]> {
        let directions = self.grid.direction();
        let along = |(axis, middle): (usize, &[f64])| match middle {
            [a, .., b] => Some(directions.column(axis) * (b - a).signum()),
            _ => None,
        };
        let [across, down] = self.plane()?.sides();
        Some([along(across)?, along(down)?])
    }

    /// The directions at the left, right, top and bottom.
    fn sides(&self) -> [String; 4] {
        let [right, down] = self.directions().unwrap_or_default();
        [letters(-right), letters(right), letters(-down), letters(down)]
    }

    /// Where it lies, in words.
    pub(crate) fn place(&self) -> String {
        let Some([right, down]) = self.directions() else { return String::new() };
        let normal = right.cross(&down);
        let (axis, angle) =
            (normal.iamax(), (normal.amax() / normal.norm()).clamp(0.0, 1.0).acos());
        let name = ["sagittal", "coronal", "axial"][axis];
        let centre = self.grid.centre();
        if angle < OBLIQUE {
            return format!("{name} at {}\u{a0}mm", gallery::coordinate(centre, axis));
        }
        format!(
            "oblique, tilted by {:.0}\u{b0} against {name}, centre at {}\u{a0}mm",
            angle.to_degrees(),
            gallery::point(centre)
        )
    }

    /// The number and the size of its pixels, in words.
    pub(crate) fn pixels(&self) -> String {
        let Some(plane) = self.plane() else { return String::new() };
        let axes = plane.sides().map(|(axis, _)| axis);
        let count = axes.map(|a| self.grid.dims()[a].to_string()).join(" \u{d7} ");
        let size = axes.map(|a| plain(self.grid.spacing()[a])).join(" \u{d7} ");
        format!("{count} pixels of {size}\u{a0}mm")
    }

    /// What it covers of the world, as a rectangle.
    ///
    /// # Errors
    /// [`ReportError::Mesh`](crate::ReportError::Mesh) where its grid is not finite.
    pub(crate) fn outline(&self) -> Result<Mesh> {
        let Some(plane) = self.plane() else { return Ok(Mesh::default()) };
        let [across, down] = plane.sides().map(|(axis, _)| axis);
        let corner = |[i, j]: [bool; 2]| {
            let mut index = Vector3::zeros();
            index[plane.axis] = plane.slice as f64;
            for (axis, far) in [(across, i), (down, j)] {
                index[axis] = if far { self.grid.dims()[axis] as f64 - 0.5 } else { -0.5 };
            }
            self.grid.index_to_world(index)
        };
        let corners = [[false, false], [true, false], [true, true], [false, true]].map(corner);
        Ok(Mesh::new(corners.into(), vec![[0, 1, 2], [0, 2, 3]])?)
    }

    /// Its name and a remark, both in a line above its pictures, as HTML; the remark is HTML.
    pub(crate) fn line(&self, remark: &str) -> String {
        format!("<p class=\"row\">{}<small>{remark}</small></p>", escape(self.name))
    }
}

/// The letters of a direction, the main one first.
fn letters(direction: Vector3<f64>) -> String {
    let length = direction.norm();
    let mut axes = [0, 1, 2];
    axes.sort_by(|&a, &b| direction[b].abs().total_cmp(&direction[a].abs()));
    let near = axes.into_iter().filter(|&a| direction[a].abs() > ALONG * length);
    near.take(LETTERS).map(|a| gallery::LETTERS[a][usize::from(direction[a] > 0.0)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_image::{Affine, Matrix3, Volume};

    /// A slice whose rows run along one vector and its columns along another, mm.
    fn slice(x: [f64; 3], y: [f64; 3], flat: usize) -> Volume<f32> {
        let (x, y) = (Vector3::from(x), Vector3::from(y));
        let z = x.cross(&y).normalize() * 5.0;
        let mut columns = vec![x, y];
        columns.insert(flat, z);
        let matrix = Matrix3::from_columns(&columns);
        let mut dims = vec![30, 40];
        dims.insert(flat, 1);
        let to_world = Affine::new(matrix, Vector3::new(3.0, 4.0, 5.0));
        let grid = Grid::new([dims[0], dims[1], dims[2]], to_world).unwrap();
        Volume::from_fn(grid, |x, y, z| (x + 2 * y + 3 * z) as f32)
    }

    fn placed(image: &Volume<f32>) -> Placed<'_> {
        Placed::new("a", Images::new(image, image, image), 1).unwrap()
    }

    #[test]
    fn sides_are_named_whichever_axis_is_flat() {
        for flat in 0..3 {
            let axial = slice([1.0, 0.0, 0.0], [0.0, 2.0, 0.0], flat);
            let axial = placed(&axial);
            assert_eq!(axial.sides(), ["R", "L", "A", "P"], "{flat}");
            assert_eq!(axial.place(), "axial at S\u{a0}5.0\u{a0}mm");
            assert_eq!(axial.pixels(), "30 \u{d7} 40 pixels of 1 \u{d7} 2\u{a0}mm");
            assert!((axial.ratio() - 30.0 / 80.0).abs() < 0.01);
            let coronal = slice([0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], flat);
            assert_eq!(placed(&coronal).sides(), ["R", "L", "S", "I"], "{flat}");
            // 30 degrees about x: its rows are as before, its columns also rise.
            let (s, c) = 30f64.to_radians().sin_cos();
            let oblique = slice([-1.0, 0.0, 0.0], [0.0, c, s], flat);
            assert_eq!(placed(&oblique).sides(), ["R", "L", "AS", "PI"], "{flat}");
            assert!(
                placed(&oblique).place().starts_with("oblique, tilted by 30\u{b0} against axial")
            );
        }
    }

    #[test]
    fn the_outline_is_the_border_of_the_pixels() {
        let image = slice([1.0, 0.0, 0.0], [0.0, 2.0, 0.0], 1);
        let outline = placed(&image).outline().unwrap();
        let [low, high] = outline.bounds().unwrap();
        assert_eq!([low, high], [Vector3::new(2.5, 3.0, 5.0), Vector3::new(32.5, 83.0, 5.0)]);
        assert!((outline.area() - 30.0 * 80.0).abs() < 1e-9);
    }
}
