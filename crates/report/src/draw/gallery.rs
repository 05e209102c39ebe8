//! Rows of pictures of planes with orientation letters, and a description of the planes.

use super::picture::{Picture, Shown};
use super::plane::Plane;
use crate::error::Result;
use crate::text::{escape, fixed};
use std::fmt::Write as _;
use voxalign_image::{Grid, Vector3};

/// The sides of each axis of the world: where coordinates are below 0, and above.
pub(super) const LETTERS: [[char; 2]; 3] = [['L', 'R'], ['P', 'A'], ['I', 'S']];

/// The beginning of a table of pictures with a column of some width under each heading.
pub(crate) fn columns(headings: &[&str], width: &str) -> String {
    let heads = headings.iter().map(|name| format!("<p class=\"head\">{}</p>", escape(name)));
    format!(
        "<div class=\"planes many\" style=\"grid-template-columns:repeat({},{width})\">{}",
        headings.len(),
        heads.collect::<String>()
    )
}

/// Rows of pictures, one column a plane. `draw` gives the picture of a row and of the plane at a
/// place of the list, `over` the HTML upon it.
pub(crate) fn rows(
    planes: &[Plane],
    id: &str,
    rows: &[&str],
    draw: impl Fn(usize, usize) -> Picture,
    over: impl Fn(usize, usize) -> String,
) -> Result<String> {
    let one = planes.len() == 1;
    let widths: Vec<String> = if one {
        rows.iter().map(|_| "minmax(0,1fr)".to_owned()).collect()
    } else {
        planes.iter().map(|p| format!("minmax(0,{}fr)", p.width())).collect()
    };
    let class = if one { "planes one" } else { "planes" };
    let mut out =
        format!("<div class=\"{class}\" style=\"grid-template-columns:{}\">", widths.join(" "));
    for (row, name) in rows.iter().enumerate() {
        if !one {
            // A line of its own, so that none is torn apart on paper.
            let _ = write!(out, "<div class=\"tier\"><p class=\"row\">{}</p>", escape(name));
        }
        for (at, plane) in planes.iter().enumerate() {
            let picture = draw(row, at);
            if one {
                let _ = write!(out, "<div><p class=\"row\">{}</p>", escape(name));
            }
            let id = format!("{id}-{row}-{}", plane.name);
            let alt = match sides(plane) {
                Some(sides) => format!("{name}, {} slice, {sides}", plane.name),
                None => (*name).to_owned(),
            };
            let sides = plane.letters.map_or_else(Default::default, |l| l.map(String::from));
            let over = over(row, at);
            let shown =
                Shown { id: &id, group: plane.name, alt: &alt, over: &over, sides, style: "" };
            out += &picture.html(&shown)?;
            if one {
                out.push_str("</div>");
            }
        }
        if !one {
            out.push_str("</div>");
        }
    }
    out.push_str("</div>");
    Ok(out)
}

/// A description of the grid of the image of some `role`, the positions of the slices and the orientation of the
/// pictures.
pub(crate) fn convention(planes: &[Plane], grid: &Grid, role: &str) -> String {
    if let Some(plane) = planes.first().filter(|p| p.letters.is_none()) {
        let [across, up] = match plane.name {
            "sagittal" => ["y", "z"],
            "coronal" => ["x", "z"],
            _ => ["x", "y"],
        };
        return format!(
            "The pictures show the {role} grid in true proportion; {across} of the world grows to the \
             left, {up} upwards. "
        );
    }
    let mut text = "All pictures follow the <strong>radiological convention</strong>: ".to_owned();
    let names: Vec<_> = planes.iter().map(|plane| plane.name).collect();
    text.push_str(match names.as_slice() {
        ["sagittal"] => "the front (A) is on the left of the picture. ",
        [_] => "the patient\u{2019}s right (R) is on the left of the picture. ",
        _ => {
            "the patient\u{2019}s right (R) is on the left of the picture, the front (A) on \
             the left of sagittal slices. "
        }
    });
    let tilt = grid.obliqueness().to_degrees();
    if tilt > 0.5 {
        let _ = write!(
            text,
            "The {role} image is oblique: its voxel axes are tilted by up to {tilt:.1}\u{b0} \
             against the world axes. Slices follow the voxel axes and the letters name the \
             nearest direction. "
        );
    }
    let _ = write!(
        text,
        "All slices are those of the {role} grid through the centre of mass of the {role} \
         image, in true proportion: "
    );
    let places: Vec<_> =
        planes.iter().map(|plane| format!("{} {}", plane.name, place(grid, plane))).collect();
    text + &places.join(", ") + ". "
}

/// A short description of the positions of slices and the orientation of their pictures.
pub(crate) fn places(planes: &[Plane], grid: &Grid) -> String {
    if planes.iter().any(|plane| plane.letters.is_none()) {
        return String::new();
    }
    let one = |plane: &Plane| format!("{} at {}", plane.name, position(grid, plane));
    let all: Vec<_> = planes.iter().map(one).collect();
    format!("Slices: {}; radiological convention.", all.join(", "))
}

/// Pictures of slices along one axis, with their places, and letters on the first. `draw` gives the
/// picture of a slice.
pub(crate) fn mosaic(
    grid: &Grid,
    slices: &[Plane],
    draw: impl Fn(&Plane) -> Picture,
) -> Result<String> {
    let mut out = "<div class=\"mosaic\">".to_owned();
    for (i, plane) in slices.iter().enumerate() {
        let place = position(grid, plane);
        let [left, right] = match plane.letters.filter(|_| i == 0) {
            Some([left, right, ..]) => [left, right].map(String::from),
            None => Default::default(),
        };
        let (id, alt) = (format!("mosaic-{i}"), format!("{} slice at {place}", plane.name));
        let sides = [left, right, String::new(), place];
        out += &draw(plane).html(&Shown { id: &id, alt: &alt, sides, ..Shown::default() })?;
    }
    Ok(out + "</div>")
}

/// A description of the sides of a picture.
fn sides(plane: &Plane) -> Option<String> {
    let word = |letter| match letter {
        'R' => "right",
        'L' => "left",
        'A' => "front",
        'P' => "back",
        'S' => "top",
        _ => "bottom",
    };
    let [left, _, top, _] = plane.letters?;
    Some(format!("the patient's {} on the left and {} above", word(left), word(top)))
}

/// A description of the position of a plane.
fn place(grid: &Grid, plane: &Plane) -> String {
    let count = grid.dims()[plane.axis];
    format!("at {} (slice {} of {count})", position(grid, plane), plane.slice + 1)
}

/// The coordinate of a plane along the world axis across it.
fn position(grid: &Grid, plane: &Plane) -> String {
    let mut index = Vector3::from_fn(|a, _| (grid.dims()[a] as f64 - 1.0) / 2.0);
    index[plane.axis] = plane.slice as f64;
    let world = match plane.name {
        "sagittal" => 0,
        "coronal" => 1,
        _ => 2,
    };
    coordinate(grid.index_to_world(index), world) + "\u{a0}mm"
}

/// A coordinate of a point of the world along an axis, mm, with the letter of its side.
pub(crate) fn coordinate(point: Vector3<f64>, axis: usize) -> String {
    let letter = LETTERS[axis][usize::from(point[axis] >= 0.0)];
    format!("{letter}\u{a0}{}", fixed(point[axis].abs(), 1))
}

/// A point of the world, mm, with the letters of its sides.
pub(crate) fn point(world: Vector3<f64>) -> String {
    [0, 1, 2].map(|axis| coordinate(world, axis)).join(", ")
}
