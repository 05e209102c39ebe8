//! Middle slices of several images side by side.

use crate::error::Result;
use crate::html::escape;
use crate::picture::Picture;
use crate::plane::planes;
use crate::window::Window;
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
    /// What is to the left and right.
    letters: [char; 2],
    values: Vec<f32>,
}

impl MiddleSlices {
    /// Those of an image: axial, coronal and sagittal, of a flat image the one there is.
    #[must_use]
    pub fn of(image: &Volume<f32>) -> Self {
        let draw = |plane: &crate::plane::Plane| Slice {
            name: plane.name,
            width: plane.width(),
            height: plane.height(),
            letters: [plane.letters[0], plane.letters[1]],
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

/// A table of pictures: a column for each heading, a row for each name and plane. All are drawn with
/// the same black and white. `rows` are names with the images of all columns.
pub(crate) fn table(
    headings: &[String],
    rows: &[(&str, Vec<&MiddleSlices>)],
) -> Result<Option<String>> {
    let all = || rows.iter().flat_map(|(_, images)| images.iter().flat_map(|i| &i.slices));
    if all().next().is_none() {
        return Ok(None);
    }
    let values: Vec<f32> = all().flat_map(|s| s.values.iter().copied()).collect();
    let window = Window::robust(&values);
    let mut out = format!(
        "<div class=\"scroll\"><div class=\"planes many\" \
         style=\"grid-template-columns:repeat({},minmax(100px,280px))\">",
        headings.len()
    );
    for heading in headings {
        let _ = write!(out, "<p class=\"head\">{}</p>", escape(heading));
    }
    for (name, images) in rows {
        let planes = images.iter().map(|i| i.slices.len()).min().unwrap_or(0);
        if !name.is_empty() {
            let _ = write!(out, "<p class=\"row\">{}</p>", escape(name));
        }
        for plane in 0..planes {
            for (column, image) in images.iter().enumerate() {
                let slice = &image.slices[plane];
                let pixels = slice.values.iter().map(|&v| window.unit(v));
                let picture = Picture::grey(slice.width, slice.height, pixels);
                let heading = headings.get(column).map_or("", String::as_str);
                let comma = if name.is_empty() { "" } else { ", " };
                let alt = format!("{name}{comma}{heading}, {} slice", slice.name);
                let _ = write!(
                    out,
                    "<div class=\"pic\"><img src=\"{}\" width=\"{}\" height=\"{}\" alt=\"{}\">",
                    picture.data_uri()?,
                    slice.width,
                    slice.height,
                    escape(&alt)
                );
                if column == 0 {
                    let [left, right] = slice.letters;
                    let _ = write!(out, "<i class=\"l\">{left}</i><i class=\"r\">{right}</i>");
                }
                out.push_str("</div>");
            }
        }
    }
    Ok(Some(out + "</div></div>"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_image::Grid;

    #[test]
    fn tables_have_a_picture_for_each_image_and_plane() {
        let solid = Volume::filled(Grid::axis_aligned([8, 9, 10], [1.0; 3]).unwrap(), 1.0);
        let flat = Volume::filled(Grid::axis_aligned([8, 9, 1], [1.0; 3]).unwrap(), 1.0);
        for (image, planes) in [(&solid, 3), (&flat, 1)] {
            let slices = MiddleSlices::of(image);
            assert_eq!(slices.slices.len(), planes);
            let headings = ["a < b".to_owned(), "c".to_owned()];
            let rows = [("above", vec![&slices; 2]), ("", vec![&slices; 2])];
            let html = table(&headings, &rows).unwrap().unwrap();
            assert_eq!(html.matches("<img").count(), 4 * planes);
            assert_eq!(html.matches("<div").count(), html.matches("</div>").count());
            assert!(html.contains("a &lt; b") && !html.contains("a < b"));
        }
        assert_eq!(table(&[], &[]).unwrap(), None);
    }
}
