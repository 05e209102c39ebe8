//! Slices of images with the intersection lines of meshes.

use super::cut::Screen;
use super::{Colour, Layer, bounds};
use crate::draw::contour::{add, over, simplified};
use crate::draw::intensity::Lattice;
use crate::draw::key::Key;
use crate::draw::picture::Picture;
use crate::draw::plane::{Plane, check_memory, planes};
use crate::draw::window::Window;
use crate::draw::{check_grids, gallery};
use crate::error::Result;
use crate::page::html::figure;
use std::fmt::Write as _;
use voxalign_image::{Affine, Grid, Vector3, Volume, memory};

/// The tolerance of drawn lines, pixels.
const TOLERANCE: f64 = 0.25;
/// The margin around meshes, as a fraction of their longest side.
const MARGIN: f64 = 0.25;
/// The least that is shown, mm.
const LEAST: f64 = 30.0;
/// An image is not cut for less than this part of its sides.
const WORTH: f64 = 0.7;

/// A row of slices with the meshes that are drawn upon them.
#[derive(Debug, Clone)]
pub struct Row<'a> {
    /// Its name.
    pub name: String,
    /// The images that are sliced; all images of a figure are on one grid.
    pub image: &'a Volume<f32>,
    /// The meshes drawn over them: surfaces where they cross the slice, curves and points near it.
    pub layers: Vec<Layer<'a>>,
}

/// Rows of slices, one above the other: axial, coronal and sagittal near the middle of the meshes where surfaces are, cut to
/// these where they are small in the image.
#[derive(Debug, Clone)]
pub struct Sections<'a> {
    /// From above.
    pub rows: Vec<Row<'a>>,
}

impl Sections<'_> {
    /// The figure, as HTML; empty without rows. The caption is HTML and explains how to read it.
    ///
    /// # Errors
    /// [`ReportError::OtherGrid`](crate::ReportError::OtherGrid) where images are on different grids,
    /// [`ReportError::OutOfMemory`](crate::ReportError::OutOfMemory), [`ReportError::Png`](crate::ReportError::Png).
    pub fn figure(&self, id: &str, title: &str, caption: &str) -> Result<String> {
        let Some(first) = self.rows.first() else { return Ok(String::new()) };
        let grid = first.image.grid();
        let grids: Vec<_> = self.rows.iter().map(|row| ("section's", row.image.grid())).collect();
        check_grids("first image", grid, &grids)?;
        let layers: Vec<&Layer<'_>> = self.rows.iter().flat_map(|row| &row.layers).collect();
        let mut area = Area::around(grid, bounds(layers.iter().copied()));
        area.through(grid, &layers);
        let cut = area.grid(grid)?;
        let planes = planes(&cut, area.middle);
        check_memory(&planes)?;
        let mut pictures = Vec::new();
        for row in &self.rows {
            let (window, _) = Window::shown(&Lattice::new(grid.dims()).values(row.image));
            let image = area.of(row.image, cut.clone())?;
            let draw = |plane: &Plane| {
                let values = plane.draw(&image, window.low);
                let values = values.into_iter().map(|v| window.unit(v) * 0.9);
                let picture = Picture::grey(plane.width(), plane.height(), values);
                (picture, overlay(&cut, plane, &row.layers))
            };
            pictures.push(planes.iter().map(draw).collect::<Vec<_>>());
        }
        let names: Vec<&str> = self.rows.iter().map(|row| row.name.as_str()).collect();
        let body = gallery::rows(
            &planes,
            id,
            &names,
            |row, at| pictures[row][at].0.clone(),
            |row, at| pictures[row][at].1.clone(),
        )?;
        let cut_out = if area.is_cut {
            "The slices are cropped to the surroundings of the meshes. "
        } else {
            ""
        };
        let places = gallery::places(&planes, &cut);
        let caption = format!("{caption} {cut_out}{places}");
        Ok(figure(id, title, &(body + &self.key()), caption.trim()).html)
    }

    /// The legend of the colours: each name once.
    fn key(&self) -> String {
        let mut known: Vec<(&str, Colour)> = Vec::new();
        for layer in self.rows.iter().flat_map(|row| &row.layers) {
            if !known.contains(&(layer.name.as_str(), layer.colour)) {
                known.push((&layer.name, layer.colour));
            }
        }
        known
            .into_iter()
            .fold(Key::new(), |key, (name, colour)| key.line(colour.hex(), name))
            .html()
    }
}

/// The lines of layers upon the picture of a plane, which may lie obliquely in the world, as SVG.
pub(crate) fn overlay(grid: &Grid, plane: &Plane, layers: &[Layer<'_>]) -> String {
    let screen = Screen::new(grid, plane);
    let mut out = String::new();
    for layer in layers {
        let cut = screen.cut(layer.mesh);
        let mut path = String::new();
        for line in &cut.lines {
            add(&mut path, &simplified(line, TOLERANCE));
        }
        // A point is a line of no length with round ends.
        for point in &cut.points {
            add(&mut path, &[*point, *point]);
        }
        if path.is_empty() {
            continue;
        }
        let class = if cut.lines.is_empty() { " class=\"dots\"" } else { "" };
        // What lets something through is thin.
        let thin = match layer.opacity {
            opacity if opacity < 1.0 => format!(";stroke-width:.6;stroke-opacity:{opacity}"),
            _ => String::new(),
        };
        let colour = layer.colour.hex();
        let _ = write!(out, "<path{class} style=\"stroke:{colour}{thin}\" d=\"{path}\"/>");
    }
    over("over cuts", plane.size(), &out)
}

/// The part of a grid that is shown.
struct Area {
    start: [usize; 3],
    dims: [usize; 3],
    /// The voxel of the part that slices go through.
    middle: [usize; 3],
    is_cut: bool,
}

impl Area {
    /// The surroundings of these bounds, mm; all where there are none, or where little would be cropped.
    fn around(grid: &Grid, bounds: Option<[Vector3<f64>; 2]>) -> Self {
        let size = grid.dims();
        let all = |middle| Self { start: [0; 3], dims: size, middle, is_cut: false };
        let Some([low, high]) = bounds else { return all(size.map(|n| n / 2)) };
        let corners =
            (0..8).map(|i| Vector3::from_fn(|a, _| if i >> a & 1 == 0 { low[a] } else { high[a] }));
        let spacing = grid.spacing();
        let (mut first, mut last) = ([f64::INFINITY; 3], [f64::NEG_INFINITY; 3]);
        for index in corners.map(|c| grid.world_to_index(c)) {
            for a in 0..3 {
                first[a] = first[a].min(index[a]);
                last[a] = last[a].max(index[a]);
            }
        }
        let voxel = |v: f64, a: usize| (v.round().max(0.0) as usize).min(size[a] - 1);
        let middle: [usize; 3] = std::array::from_fn(|a| voxel((first[a] + last[a]) / 2.0, a));
        let longest = (0..3).map(|a| (last[a] - first[a]) * spacing[a]).fold(0.0, f64::max);
        let reach = (longest * (1.0 + 2.0 * MARGIN)).max(LEAST);
        // Slices of a few voxels stay whole.
        let mut area = all(middle);
        for a in 0..3 {
            let own = (last[a] - first[a]) * spacing[a] + 2.0 * MARGIN * longest;
            let half = own.max(reach / 2.0) / spacing[a] / 2.0;
            let centre = (first[a] + last[a]) / 2.0;
            let [from, to] = [voxel((centre - half).floor(), a), voxel((centre + half).ceil(), a)];
            if to - from + 1 >= 8 {
                (area.start[a], area.dims[a]) = (from, to - from + 1);
            }
        }
        if (0..3).all(|a| area.dims[a] as f64 > WORTH * size[a] as f64) {
            return all(middle);
        }
        area.middle =
            std::array::from_fn(|a| middle[a].saturating_sub(area.start[a]).min(area.dims[a] - 1));
        area.is_cut = true;
        area
    }

    /// Moves the slices to where surfaces are: to the nearest ones to the middle that nearly as many faces cross as any.
    fn through(&mut self, grid: &Grid, layers: &[&Layer<'_>]) {
        let rows = grid.to_index().rows();
        for (axis, row) in rows.iter().enumerate() {
            let (start, count) = (self.start[axis] as f64, self.dims[axis]);
            // How many more faces cross a slice than the one before it.
            let mut more = vec![0i64; count + 1];
            for mesh in layers.iter().map(|layer| layer.mesh) {
                let at = |i: u32| {
                    let v = mesh.vertices().get(i as usize).copied().unwrap_or_default();
                    row[0] * v[0] + row[1] * v[1] + row[2] * v[2] + row[3] - start
                };
                for face in mesh.faces() {
                    let [a, b, c] = face.map(at);
                    let slice = |v: f64| (v.floor() + 1.0).clamp(0.0, count as f64) as usize;
                    more[slice(a.min(b).min(c))] += 1;
                    more[slice(a.max(b).max(c))] -= 1;
                }
            }
            let mut now = 0;
            let crossed: Vec<i64> = more
                .iter()
                .take(count)
                .map(|n| {
                    now += n;
                    now
                })
                .collect();
            let most = crossed.iter().copied().max().unwrap_or(0);
            let good = (0..count).filter(|&i| most > 0 && 10 * crossed[i] >= 7 * most);
            if let Some(nearest) = good.min_by_key(|&i| i.abs_diff(self.middle[axis])) {
                self.middle[axis] = nearest;
            }
        }
    }

    /// The grid of the part.
    fn grid(&self, of: &Grid) -> Result<Grid> {
        let matrix = of.to_world().matrix;
        let start = Vector3::from_fn(|a, _| self.start[a] as f64);
        // A part of a grid that is one is one.
        Ok(Grid::new(self.dims, Affine::new(matrix, of.index_to_world(start)))
            .unwrap_or_else(|_| of.clone()))
    }

    /// The values of the part.
    fn of(&self, image: &Volume<f32>, grid: Grid) -> Result<Volume<f32>> {
        let [nx, ny, _] = image.dims();
        let mut values = memory::room(grid.len())?;
        for z in 0..self.dims[2] {
            for y in 0..self.dims[1] {
                let from = ((self.start[2] + z) * ny + self.start[1] + y) * nx + self.start[0];
                values.extend_from_slice(&image.data()[from..from + self.dims[0]]);
            }
        }
        Ok(Volume::new(grid, values)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_image::Mesh;

    /// A box with its corners at these, mm.
    fn block(low: [f64; 3], high: [f64; 3]) -> Mesh {
        let corner =
            |i: usize| Vector3::from_fn(|a, _| if i >> a & 1 == 0 { low[a] } else { high[a] });
        let faces = [
            [0, 2, 1],
            [1, 2, 3],
            [4, 5, 6],
            [5, 7, 6],
            [0, 1, 4],
            [1, 5, 4],
            [2, 6, 3],
            [3, 6, 7],
            [0, 4, 2],
            [2, 4, 6],
            [1, 3, 5],
            [3, 7, 5],
        ];
        Mesh::new((0..8).map(corner).collect(), faces.into()).unwrap()
    }

    #[test]
    fn slices_are_cut_to_small_meshes_and_hold_their_lines() {
        let grid = Grid::axis_aligned([200, 180, 160], [1.0; 3]).unwrap();
        let image = Volume::from_fn(grid.clone(), |x, _, _| x as f32);
        let mesh = block([100.0, 40.0, 60.0], [140.0, 60.0, 80.0]);
        assert!((mesh.volume().unwrap().unwrap() - 16e3).abs() < 1e-6);
        let area = Area::around(&grid, mesh.bounds());
        assert_eq!((area.start, area.dims, area.is_cut), ([90, 30, 50], [61, 41, 41], true));
        assert_eq!(area.middle, [30, 20, 20]);
        let cut = area.of(&image, area.grid(&grid).unwrap()).unwrap();
        assert_eq!(cut.get(0, 0, 0), Some(&90.0));
        assert_eq!(cut.grid().index_to_world(Vector3::zeros()), Vector3::new(90.0, 30.0, 50.0));

        let layers = vec![Layer::new("<box>", &mesh, Colour::Blue)];
        let rows = vec![
            Row { name: "a".into(), image: &image, layers: layers.clone() },
            Row { name: "b".into(), image: &image, layers: Vec::new() },
        ];
        let html = Sections { rows }.figure("fig", "t", "c").unwrap();
        assert_eq!(html.matches("<img").count(), 6);
        assert_eq!(html.matches("<path").count(), 3);
        assert_eq!(html.matches("&lt;box&gt;").count(), 1);
        assert!(html.contains("cropped to the surroundings") && !html.contains("NaN"));
        // Between two parts there is nothing to see.
        let other = block([160.0, 40.0, 60.0], [180.0, 60.0, 80.0]);
        let both = [&mesh, &other].map(|m| Layer::new("m", m, Colour::Blue));
        let both: Vec<&Layer<'_>> = both.iter().collect();
        let mut area = Area::around(&grid, bounds(both.iter().copied()));
        assert_eq!(area.start[0] + area.middle[0], 140);
        area.middle[0] = 150 - area.start[0];
        area.through(&grid, &both);
        assert_eq!(area.start[0] + area.middle[0], 140);
        let large = block([5.0; 3], [150.0; 3]);
        assert!(!Area::around(&grid, large.bounds()).is_cut);
    }

    #[test]
    fn flat_images_and_meshes_elsewhere_are_taken() {
        let flat = Volume::filled(Grid::axis_aligned([40, 30, 1], [1.0, 1.0, 9.0]).unwrap(), 1.0);
        for mesh in
            [block([1e4; 3], [2e4; 3]), Mesh::default(), block([5.0, 5.0, -3.0], [9.0, 9.0, 3.0])]
        {
            let layers = vec![Layer::new("m", &mesh, Colour::Red)];
            let rows = vec![Row { name: "a".into(), image: &flat, layers }];
            let html = Sections { rows }.figure("fig", "t", "c").unwrap();
            assert_eq!(html.matches("<img").count(), 1);
        }
        assert_eq!(Sections { rows: vec![] }.figure("fig", "t", "c").unwrap(), "");
    }
}
