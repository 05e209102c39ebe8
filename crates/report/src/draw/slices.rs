//! Middle slices of several images side by side.

use super::gallery::columns;
use super::picture::{Picture, Shown};
use super::plane::{Plane, planes};
use super::window::Window;
use crate::error::Result;
use crate::text::escape;
use std::fmt::Write as _;
use voxalign_image::Volume;

/// The planes through the middle of an image, as pages show them: the image itself need not be kept.
#[derive(Debug, Clone, PartialEq)]
pub struct MiddleSlices {
    slices: Vec<Slice>,
}

/// One plane.
#[derive(Debug, Clone, PartialEq)]
struct Slice {
    name: &'static str,
    width: usize,
    height: usize,
    /// The letters at the left and right, where they are known.
    letters: Option<[char; 2]>,
    values: Vec<f32>,
}

impl MiddleSlices {
    /// Those of an image: axial, coronal and sagittal, of a flat image the one there is.
    #[must_use]
    pub fn of(image: &Volume<f32>) -> Self {
        let draw = |plane: &Plane| Slice {
            name: plane.name,
            width: plane.width(),
            height: plane.height(),
            letters: plane.letters.map(|[left, right, ..]| [left, right]),
            values: plane.draw(image, 0.0),
        };
        let found = planes(image.grid(), image.dims().map(|n| n / 2));
        Self { slices: found.iter().map(draw).collect() }
    }

    /// The same with the first plane only.
    #[must_use]
    pub fn first_plane(mut self) -> Self {
        self.slices.truncate(1);
        self
    }
}

/// A part of a picture: the first pixel across and down, and the one after the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Area {
    start: [usize; 2],
    end: [usize; 2],
}

/// Values below this fraction of the window count as background.
const DARK: f32 = 0.06;
/// The margin around the object, as a fraction of the longer side of a picture.
const MARGIN: f64 = 0.03;

impl Area {
    /// Around what is not dark in any of the pictures, with a margin; all where nothing is bright.
    fn around<'a>(slices: impl Iterator<Item = &'a Slice>, window: Window) -> Self {
        let (mut start, mut end, mut margin) = ([usize::MAX; 2], [0; 2], 0);
        for slice in slices {
            margin = margin.max((MARGIN * slice.width.max(slice.height) as f64).ceil() as usize);
            let bright = slice.values.iter().enumerate().filter(|(_, v)| window.unit(**v) > DARK);
            for (i, _) in bright {
                let at = [i % slice.width, i / slice.width];
                for a in 0..2 {
                    start[a] = start[a].min(at[a]);
                    end[a] = end[a].max(at[a] + 1);
                }
            }
        }
        if end[0] == 0 {
            return Self { start: [0; 2], end: [usize::MAX; 2] };
        }
        let start = start.map(|s| s.saturating_sub(margin));
        Self { start, end: end.map(|e| e + margin) }
    }

    /// The part of it that a picture has; all of one that has none.
    fn within(self, slice: &Slice) -> Self {
        let size = [slice.width, slice.height];
        let end = [0, 1].map(|a| self.end[a].min(size[a]));
        let whole = Self { start: [0; 2], end: size };
        if (0..2).all(|a| self.start[a] < end[a]) { Self { end, ..self } } else { whole }
    }

    fn size(self) -> [usize; 2] {
        [0, 1].map(|a| self.end[a] - self.start[a])
    }

    /// The values of a picture here, rows from the top.
    fn values(self, slice: &Slice) -> impl Iterator<Item = f32> {
        let rows = slice.values.chunks(slice.width).take(self.end[1]).skip(self.start[1]);
        rows.flat_map(move |row| row[self.start[0]..self.end[0]].iter().copied())
    }
}

/// A table of pictures: a column for each heading, a row for each name and plane. All are drawn with
/// the same black and white. `rows` are names with the images of all columns. Nothing without pictures.
pub(crate) fn table(headings: &[String], rows: &[(&str, Vec<&MiddleSlices>)]) -> Result<String> {
    let all = || rows.iter().flat_map(|(_, images)| images.iter().flat_map(|i| &i.slices));
    if all().next().is_none() {
        return Ok(String::new());
    }
    let values: Vec<f32> = all().flat_map(|s| s.values.iter().copied()).collect();
    let window = Window::robust(&values);
    let planes = rows.iter().flat_map(|(_, images)| images).map(|i| i.slices.len()).max();
    let shown: Vec<Area> = (0..planes.unwrap_or(0))
        .map(|plane| {
            let images = rows.iter().flat_map(|(_, images)| images);
            Area::around(images.filter_map(|i| i.slices.get(plane)), window)
        })
        .collect();
    let heads: Vec<&str> = headings.iter().map(String::as_str).collect();
    let mut out = format!("<div class=\"scroll\">{}", columns(&heads, "minmax(100px,280px)"));
    for (name, images) in rows {
        let planes = images.iter().map(|i| i.slices.len()).min().unwrap_or(0);
        if !name.is_empty() {
            let _ = write!(out, "<p class=\"row\">{}</p>", escape(name));
        }
        for (plane, area) in shown.iter().enumerate().take(planes) {
            for (column, image) in images.iter().enumerate() {
                let slice = &image.slices[plane];
                let area = area.within(slice);
                let [width, height] = area.size();
                let values = area.values(slice).map(|v| window.unit(v));
                let picture = Picture::grey(width, height, values);
                let heading = headings.get(column).map_or("", String::as_str);
                let comma = if name.is_empty() { "" } else { ", " };
                let alt = format!("{name}{comma}{heading}, {} slice", slice.name);
                let mut shown = Shown { alt: &alt, ..Shown::default() };
                if let (0, Some([left, right])) = (column, slice.letters) {
                    shown.sides[..2].clone_from_slice(&[left, right].map(String::from));
                }
                out += &picture.html(&shown)?;
            }
        }
    }
    Ok(out + "</div></div>")
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_image::Grid;

    #[test]
    fn pictures_are_cut_around_what_they_show() {
        let slice = |bright: &[(usize, usize)]| {
            let mut values = vec![0.0; 40 * 30];
            bright.iter().for_each(|(x, y)| values[y * 40 + x] = 1.0);
            Slice { name: "axial", width: 40, height: 30, letters: Some(['R', 'L']), values }
        };
        let window = Window { low: 0.0, high: 1.0 };
        let both = [slice(&[(10, 8)]), slice(&[(20, 28), (12, 9)])];
        // Two pixels of margin, as far as there are any.
        let area = Area::around(both.iter(), window).within(&both[0]);
        assert_eq!(area, Area { start: [8, 6], end: [23, 30] });
        let cut: Vec<f32> = area.values(&both[0]).collect();
        assert_eq!((cut.len(), area.size()), (15 * 24, [15, 24]));
        assert_eq!(cut.iter().position(|v| *v > 0.0), Some(2 * 15 + 2));
        let dark = [slice(&[])];
        assert_eq!(Area::around(dark.iter(), window).within(&dark[0]).size(), [40, 30]);
    }

    #[test]
    fn tables_have_a_picture_for_each_image_and_plane() {
        let solid = Volume::filled(Grid::axis_aligned([8, 9, 10], [1.0; 3]).unwrap(), 1.0);
        let flat = Volume::filled(Grid::axis_aligned([8, 9, 1], [1.0; 3]).unwrap(), 1.0);
        for (image, planes) in [(&solid, 3), (&flat, 1)] {
            let slices = MiddleSlices::of(image);
            assert_eq!(slices.slices.len(), planes);
            let headings = ["a < b".to_owned(), "c".to_owned()];
            let rows = [("above", vec![&slices; 2]), ("", vec![&slices; 2])];
            let html = table(&headings, &rows).unwrap();
            assert_eq!(html.matches("<img").count(), 4 * planes);
            assert_eq!(html.matches("<div").count(), html.matches("</div>").count());
            assert!(html.contains("a &lt; b") && !html.contains("a < b"));
        }
        assert_eq!(table(&[], &[]).unwrap(), "");
    }
}
