//! Text calibrations of other programs.

use super::form::Form;
use super::table::camera_of;
use super::{Label, View};
use crate::error::{IoError, Result, shorten};
use std::path::Path;
use voxalign_image::{Matrix3, Matrix3x4, Vector3};

/// The first line of a MayaCam 2 file.
const MAYACAM: &str = "image size";
/// The blocks of one, each a line with its name and lines of so many numbers.
const BLOCKS: [(&str, usize, usize); 4] =
    [(MAYACAM, 1, 2), ("camera matrix", 3, 3), ("rotation", 3, 3), ("translation", 3, 1)];

/// The first line that is not empty.
fn first(text: &str) -> &str {
    text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default()
}

/// Whether a text is a MayaCam 2 file, by its beginning.
pub(super) fn is_mayacam(text: &str) -> bool {
    first(text).eq_ignore_ascii_case(MAYACAM)
}

/// Whether a text begins with numbers, as plastimatch's do and nothing else that has views.
pub(super) fn is_plastimatch(text: &str) -> bool {
    let first = first(text);
    !first.is_empty() && first.split_whitespace().all(|w| w.parse::<f64>().is_ok())
}

/// Whether a text is one of plastimatch among files of any kind, by its beginning: a line of two numbers and a line of four.
pub(super) fn is_matrix(text: &str) -> bool {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    [2, 4].into_iter().all(|count| {
        let words: Vec<_> = lines.next().unwrap_or_default().split_whitespace().collect();
        words.len() == count && words.iter().all(|w| w.parse::<f64>().is_ok())
    })
}

fn finite(word: &str) -> Option<f64> {
    word.trim().parse().ok().filter(|v: &f64| v.is_finite())
}

/// A camera by XMALab: blocks of numbers with commas between them. The image is counted from its top, as OpenCV's
/// cameras are.
pub(super) fn mayacam(path: &Path, text: &str) -> Result<View> {
    let shape = "a MayaCam 2 file has the blocks 'image size', 'camera matrix', 'rotation' and 'translation'";
    let mut found: [Vec<f64>; 4] = Default::default();
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    while let Some((at, line)) = lines.next() {
        let name = line.trim().to_ascii_lowercase();
        let wrong = |at: usize, problem: String| {
            Err(IoError::malformed(path, format!("line {}: {problem}", at + 1), shape))
        };
        let Some(block) = BLOCKS.iter().position(|(known, ..)| *known == name) else {
            return wrong(
                at,
                format!("'{}' is not a block of a MayaCam 2 file", shorten(line.trim())),
            );
        };
        if !found[block].is_empty() {
            return wrong(at, format!("there is a second block '{name}'"));
        }
        let (_, rows, columns) = BLOCKS[block];
        for _ in 0..rows {
            let Some((at, line)) = lines.next() else {
                return wrong(at, format!("the block '{name}' is cut short"));
            };
            let numbers: Option<Vec<f64>> = line.split(',').map(finite).collect();
            match numbers.filter(|n| n.len() == columns) {
                Some(numbers) => found[block].extend(numbers),
                None => {
                    let line = shorten(line.trim());
                    return wrong(at, format!("'{line}' is not {columns} numbers of '{name}'"));
                }
            }
        }
    }
    let label = Label { file: path.into(), view: String::new() };
    if let Some(missing) = found.iter().position(Vec::is_empty) {
        return Err(label.error(format!("there is no block '{}'", BLOCKS[missing].0), shape));
    }
    let [size, k, r, t] = &found;
    let count = |v: f64| (v >= 1.0 && v.fract() == 0.0 && v < 1e9).then_some(v as usize);
    let (Some(columns), Some(rows)) = (count(size[0]), count(size[1])) else {
        return Err(label.error(format!("the image size is {} x {}", size[0], size[1]), shape));
    };
    let (k, r) = (Matrix3::from_row_slice(k), Matrix3::from_row_slice(r));
    let names = ["camera matrix", "rotation"];
    let form = camera_of(&k, &r, &Vector3::new(t[0], t[1], t[2]), &Matrix3::identity(), names)
        .map_err(|(problem, remedy)| label.error(problem, remedy))?;
    let mut view = View::empty(label);
    view.form = Some(form);
    view.size = Some([columns, rows]);
    Ok(view)
}

/// A projection matrix by plastimatch, which is LPS: the image's centre (column and row), which the matrix leaves out;
/// three rows of four numbers, the last of which is above 0 in front of the source; the distances of axis and detector from the source; a normal of the detector,
/// which some versions count towards the source and some away from it. That and the parts of the matrix that follow are not looked at.
pub(super) fn plastimatch(path: &Path, text: &str) -> Result<View> {
    const COUNT: usize = 2 + 12 + 1 + 1 + 3;
    let shape = "a projection matrix of plastimatch has the centre of the image, 3 rows of 4 numbers, the distances \
                 from the source to axis and detector, and the normal of the detector";
    let label = Label { file: path.into(), view: String::new() };
    let mut numbers = [0.0; COUNT];
    let mut words = text.split_whitespace().take_while(|w| !w.eq_ignore_ascii_case("extrinsic"));
    for (i, to) in numbers.iter_mut().enumerate() {
        let Some(word) = words.next() else {
            return Err(label.error(format!("it has {i} numbers instead of {COUNT}"), shape));
        };
        let Some(number) = finite(word) else {
            return Err(label.error(format!("'{}' is not a number", shorten(word)), shape));
        };
        *to = number;
    }
    if let Some(word) = words.next() {
        let problem = format!("there is '{}' after its {COUNT} numbers", shorten(word));
        return Err(label.error(problem, shape));
    }
    let [u, v] = [numbers[0], numbers[1]];
    let far = numbers[15];
    if far <= 0.0 {
        let problem = format!("the detector is {far} mm from the source, which is behind it");
        return Err(label.error(problem, "give a distance above 0"));
    }
    let mut matrix = Matrix3x4::from_row_slice(&numbers[2..14]);
    let depth = matrix.row(2).into_owned();
    for (row, centre) in [(0, u), (1, v)] {
        let whole = matrix.row(row) + depth * centre;
        matrix.set_row(row, &whole);
    }
    for column in [0, 1] {
        matrix.column_mut(column).neg_mut();
    }
    let mut view = View::empty(label);
    view.form = Some(Form::Projection { matrix, far: Some(far) });
    Ok(view)
}
