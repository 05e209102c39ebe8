//! Fronts as they move: what is inside on a few slices after some of many iterations.

use super::contour::{level_path, over};
use super::gallery::columns;
use super::intensity::Lattice;
use super::key::Key;
use super::meshes::Colour;
use super::picture::{Picture, Shown};
use super::plane::{Plane, planes_within};
use super::window::Window;
use crate::error::Result;
use crate::text::thousands;
use std::fmt::Write as _;
use voxalign_image::{LabelMap, Volume};

/// Most frames that are kept.
const FRAMES: usize = 40;
/// How many of them a figure shows.
const SHOWN: usize = 8;
/// Longest side of a slice, pixels: at least and at most.
const PIXELS: [f64; 2] = [128.0, 200.0];
/// Longest side of a slice by itself, pixels: at least and at most.
const LARGE: [f64; 2] = [256.0, 480.0];
/// The tolerance of drawn lines, pixels.
const TOLERANCE: f64 = 0.4;
/// Columns of pixels between slices side by side.
const GAP: usize = 4;

/// A picture of red, green and blue, rows from the top.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rgb {
    /// Width and height, pixels.
    pub size: [usize; 2],
    /// Three bytes a pixel.
    pub pixels: Vec<u8>,
}

/// What was inside on slices through an image, after some of the iterations: as many as a small film has, evenly spread, however many there
/// are.
#[derive(Debug, Clone)]
pub struct Fronts {
    dims: [usize; 3],
    planes: Vec<Plane>,
    /// The image on the planes, 0 to 1.
    greys: Vec<Vec<f32>>,
    frames: Vec<Frame>,
    /// Frames are kept of every so many iterations.
    stride: usize,
}

/// Labels on the planes.
#[derive(Debug, Clone, PartialEq)]
struct Frame {
    iteration: usize,
    labels: Vec<Vec<u8>>,
}

impl Fronts {
    /// On the slices through the centre of mass of an image.
    #[must_use]
    pub fn new(image: &Volume<f32>) -> Self {
        let lattice = Lattice::new(image.dims());
        let (window, _) = Window::shown(&lattice.values(image));
        let centre = lattice.centre_of_mass(image, window);
        let planes = planes_within(image.grid(), centre, Some(PIXELS));
        let grey = |plane: &Plane| {
            let values = plane.draw(image, window.low);
            values.into_iter().map(|v| window.unit(v)).collect()
        };
        let greys = planes.iter().map(grey).collect();
        Self { dims: image.dims(), planes, greys, frames: Vec::new(), stride: 1 }
    }

    /// Takes note of the labels of all voxels, by their numbers, after so many iterations; those of the start come first.
    pub fn add(&mut self, iteration: usize, label: impl Fn(usize) -> u8) {
        if !iteration.is_multiple_of(self.stride) {
            return;
        }
        self.put(iteration, label);
        if self.frames.len() > FRAMES {
            self.stride *= 2;
            let stride = self.stride;
            self.frames.retain(|frame| frame.iteration.is_multiple_of(stride));
        }
    }

    /// Takes note of the last state, which is always kept.
    pub fn end(&mut self, iteration: usize, label: impl Fn(usize) -> u8) {
        self.frames.retain(|frame| frame.iteration < iteration);
        if self.frames.len() >= FRAMES {
            self.frames.pop();
        }
        self.put(iteration, label);
    }

    /// Gives all labels other numbers: that at the place of each.
    pub fn rename(&mut self, new: &[u8]) {
        let all = self.frames.iter_mut().flat_map(|frame| &mut frame.labels).flatten();
        all.for_each(|label| *label = new.get(usize::from(*label)).copied().unwrap_or(*label));
    }

    fn put(&mut self, iteration: usize, label: impl Fn(usize) -> u8) {
        let of = |plane: &Plane| plane.nearest_of(self.dims, &label);
        let labels = self.planes.iter().map(of).collect();
        self.frames.push(Frame { iteration, labels });
    }

    /// The iterations after which there is a picture.
    #[must_use]
    pub fn iterations(&self) -> Vec<usize> {
        self.frames.iter().map(|frame| frame.iteration).collect()
    }

    /// One picture a frame, all of one size: the slices side by side, with lines along the borders of regions.
    #[must_use]
    pub fn pictures(&self) -> Vec<Rgb> {
        let height = self.planes.iter().map(Plane::height).max().unwrap_or(0);
        let gaps = GAP * self.planes.len().saturating_sub(1);
        let width = self.planes.iter().map(Plane::width).sum::<usize>() + gaps;
        let one = |frame: &Frame| {
            let mut picture = Rgb { size: [width, height], pixels: vec![0; 3 * width * height] };
            let mut left = 0;
            for ((plane, greys), labels) in self.planes.iter().zip(&self.greys).zip(&frame.labels) {
                let [columns, rows] = plane.size();
                let top = (height - rows) / 2;
                for y in 0..rows {
                    for x in 0..columns {
                        let colour = painted(greys, labels, [columns, rows], [x, y]);
                        let at = 3 * ((top + y) * width + left + x);
                        picture.pixels[at..at + 3].copy_from_slice(&colour);
                    }
                }
                left += columns + GAP;
            }
            picture
        };
        self.frames.iter().map(one).collect()
    }

    /// Some of the frames as a table of pictures, from the start to the end; nothing without frames.
    pub(crate) fn strip(&self) -> Result<String> {
        let last = self.frames.len().saturating_sub(1);
        let count = SHOWN.min(self.frames.len());
        let mut shown: Vec<&Frame> = Vec::new();
        for i in 0..count {
            // More of them at the beginning, where most happens.
            let part = if count > 1 { i as f64 / (count - 1) as f64 } else { 0.0 };
            let at = (part.powf(1.6) * last as f64).round() as usize;
            let at = at.max(i).min(last);
            shown.push(&self.frames[at]);
        }
        shown.dedup();
        if shown.is_empty() {
            return Ok(String::new());
        }
        let head = |frame: &&Frame| match frame.iteration {
            0 => "start".to_owned(),
            n => thousands(n as f64),
        };
        let heads: Vec<String> = shown.iter().map(head).collect();
        let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
        let mut out = format!("<div class=\"scroll\">{}", columns(&heads, "minmax(96px,300px)"));
        for (number, (plane, greys)) in self.planes.iter().zip(&self.greys).enumerate() {
            for (column, frame) in shown.iter().enumerate() {
                let picture =
                    Picture::grey(plane.width(), plane.height(), greys.iter().map(|v| v * DIM));
                let lines = outlines(plane, &frame.labels[number]);
                let alt = format!("{} slice, iteration {}", plane.name, frame.iteration);
                let mut attributes = Shown { alt: &alt, over: &lines, ..Shown::default() };
                if let (0, Some([left, right, ..])) = (column, plane.letters) {
                    attributes.sides[..2].clone_from_slice(&[left, right].map(String::from));
                }
                out += &picture.html(&attributes)?;
            }
        }
        Ok(out + "</div></div>")
    }
}

/// How much darker images are than what is drawn upon them.
const DIM: f32 = 0.85;

/// The colour of a region by its label.
pub(crate) fn colour(label: i32) -> Colour {
    Colour::of(usize::try_from(label.max(1) - 1).unwrap_or(0) + 1)
}

/// The colour of a pixel: that of its region along the border with another one, else grey.
fn painted(
    greys: &[f32],
    labels: &[u8],
    [columns, rows]: [usize; 2],
    [x, y]: [usize; 2],
) -> [u8; 3] {
    let at = y * columns + x;
    let own = labels[at];
    let beside = [
        (x > 0).then(|| at - 1),
        (x + 1 < columns).then_some(at + 1),
        (y > 0).then(|| at - columns),
        (y + 1 < rows).then_some(at + columns),
    ];
    // Of two regions the line is within the one of the higher label.
    if beside.into_iter().flatten().any(|other| labels[other] < own) {
        return rgb(colour(i32::from(own)));
    }
    [(greys[at].clamp(0.0, 1.0) * DIM * 255.0 + 0.5) as u8; 3]
}

/// A colour as three bytes.
fn rgb(colour: Colour) -> [u8; 3] {
    let hex = colour.hex();
    let byte = |i: usize| u8::from_str_radix(&hex[i..i + 2], 16).unwrap_or(255);
    [byte(1), byte(3), byte(5)]
}

/// The outlines of all regions but the background upon the picture of a plane, as SVG.
fn outlines(plane: &Plane, labels: &[u8]) -> String {
    let mut found: Vec<u8> = labels.iter().copied().filter(|l| *l != 0).collect();
    found.sort_unstable();
    found.dedup();
    let mut content = String::new();
    for label in found {
        let inside: Vec<f64> = labels.iter().map(|l| f64::from(u8::from(*l == label))).collect();
        let path = level_path(&inside, plane, 0.5, TOLERANCE);
        let _ =
            write!(content, "<path stroke=\"{}\" d=\"{path}\"/>", colour(i32::from(label)).hex());
    }
    over("over", plane.size(), &content)
}

/// Regions upon slices through an index, as a row of pictures with their key; labels with their names.
pub(crate) fn over_slices(
    image: &Volume<f32>,
    labels: &LabelMap,
    centre: [usize; 3],
    names: &[(i32, String)],
    id: &str,
) -> Result<String> {
    let (window, _) = Window::shown(&Lattice::new(image.dims()).values(image));
    let planes = planes_within(image.grid(), centre, Some(LARGE));
    super::plane::check_memory(&planes)?;
    let body = super::gallery::rows(
        &planes,
        id,
        &["Regions"],
        |_, at| {
            let plane = &planes[at];
            let values = plane.draw(image, window.low);
            let values = values.into_iter().map(|v| window.unit(v) * DIM);
            Picture::grey(plane.width(), plane.height(), values)
        },
        |_, at| {
            let small = |l: i32| u8::try_from(l).unwrap_or(u8::MAX);
            let found: Vec<u8> = planes[at].nearest(labels).into_iter().map(small).collect();
            outlines(&planes[at], &found)
        },
    )?;
    let key = names.iter().fold(Key::new(), |key, (l, name)| key.line(colour(*l).hex(), name));
    Ok(body + &key.html())
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_image::Grid;

    fn image() -> Volume<f32> {
        let grid = Grid::axis_aligned([20, 16, 12], [1.0, 1.0, 2.0]).unwrap();
        Volume::from_fn(grid, |x, y, z| (x + 2 * y + z) as f32)
    }

    #[test]
    fn a_long_film_has_a_start_an_end_and_not_too_many_frames() {
        for count in [1usize, 7, 40, 41, 1000] {
            let mut fronts = Fronts::new(&image());
            for i in 0..count {
                fronts.add(i, |voxel| u8::from(voxel % 20 < 5 + i % 10));
            }
            fronts.end(count, |_| 1);
            let found = fronts.iterations();
            assert!(found.len() <= FRAMES && found.len() >= count.min(FRAMES / 2), "{found:?}");
            assert_eq!((found[0], *found.last().unwrap()), (0, count));
            assert!(found.windows(2).all(|w| w[0] < w[1]), "{found:?}");
            let html = fronts.strip().unwrap();
            assert!(html.matches("<img").count() <= SHOWN * 3 && html.contains("start"), "{html}");
        }
        assert_eq!(Fronts::new(&image()).strip().unwrap(), "");
    }

    #[test]
    fn pictures_have_lines_along_borders() {
        let mut fronts = Fronts::new(&image());
        fronts.add(0, |voxel| u8::from(voxel % 20 < 5));
        fronts.add(1, |_| 0);
        let pictures = fronts.pictures();
        let grey = |rgb: &Rgb| rgb.pixels.chunks(3).filter(|p| p[0] != p[1]).count();
        assert!(grey(&pictures[0]) > 100 && grey(&pictures[1]) == 0);
        assert_eq!(pictures[0].size, pictures[1].size);
        fronts.rename(&[0, 2]);
        assert_ne!(fronts.pictures()[0], pictures[0]);
        assert_eq!(pictures[0].pixels.len(), 3 * pictures[0].size.iter().product::<usize>());
    }

    #[test]
    fn regions_upon_slices_have_their_colours() {
        let image = image();
        let labels = image.map(|v| {
            if *v < 12.0 {
                0
            } else if *v < 24.0 {
                1
            } else {
                2
            }
        });
        let names = [(1, "1 <a>".to_owned()), (2, "2".to_owned())];
        let html = over_slices(&image, &labels, [10, 8, 6], &names, "x").unwrap();
        assert_eq!(html.matches("<img").count(), 3);
        assert!(html.contains(colour(1).hex()) && html.contains(colour(2).hex()));
        assert!(html.contains("&lt;a&gt;") && !html.contains("<a>"));
    }
}
