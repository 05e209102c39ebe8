//! Tables of views.

use super::form::Form;
use super::keys::Keys;
use super::{Label, View};
use crate::error::{IoError, Result, shorten};
use std::path::Path;
use toml::{Table, Value};
use voxalign_image::{Affine, CArm, Gantry, Matrix3, Matrix3x4, Vector3};

/// What any view may have.
const COMMON: [&str; 5] = ["name", "image", "region", "world", "size"];
/// What says the rest of machines with an isocentre.
const ARM: [&str; 5] =
    ["source_to_isocentre", "source_to_detector", "isocentre", "pixel", "centre"];

/// A way to say a geometry, by its keys.
struct Kind {
    name: &'static str,
    /// Keys that no other has: one of them tells it.
    own: &'static [&'static str],
    /// Keys that go with them.
    further: &'static [&'static str],
    read: fn(&Keys<'_>) -> Result<Form>,
}

const KINDS: [Kind; 5] = [
    Kind {
        name: "a view by its 'source'",
        own: &["source", "origin", "column", "row"],
        further: &[],
        read: plain,
    },
    Kind { name: "a C-arm", own: &["primary", "secondary"], further: &ARM, read: c_arm },
    Kind { name: "a treatment machine", own: &["gantry"], further: &ARM, read: machine },
    Kind {
        name: "a camera",
        own: &["K", "R", "t"],
        further: &["source_to_detector", "pixel"],
        read: camera,
    },
    Kind {
        name: "a projection matrix",
        own: &["projection"],
        further: &["source_to_detector"],
        read: projection,
    },
];

/// What helps where a table has no geometry, or several.
const ONE: &str = "give one of: 'source', 'origin', 'column' and 'row'; 'primary' and 'secondary', or 'gantry', with \
                   distances, isocentre and pixel; 'K', 'R' and 't'; 'projection'";

/// The views of a text.
pub(super) fn views(path: &Path, text: &str) -> Result<Vec<View>> {
    let shape = "write a table '[[view]]' for each view, with 'image' or 'size', and where source and detector are";
    let file: Table = text.parse().map_err(|e: toml::de::Error| {
        let at = e.span().map_or(0, |span| span.start).min(text.len());
        let line = 1 + text.as_bytes()[..at].iter().filter(|&&b| b == b'\n').count();
        let said: String = e.message().chars().take(120).collect();
        IoError::malformed(path, format!("line {line}: {said}"), shape)
    })?;
    if let Some(other) = file.keys().find(|key| *key != "view") {
        let problem = format!("there is '{}' outside of a view", shorten(other));
        return Err(IoError::malformed(path, problem, shape));
    }
    let tables = match file.get("view") {
        Some(Value::Array(tables)) if !tables.is_empty() => tables.as_slice(),
        Some(Value::Table(_)) => {
            let problem = "'[view]' is one table, and there may be several";
            return Err(IoError::malformed(path, problem, "write '[[view]]' instead"));
        }
        _ => return Err(IoError::malformed(path, "there is no view in it", shape)),
    };
    tables
        .iter()
        .enumerate()
        .map(|(i, table)| match table {
            Value::Table(table) => view(path, i + 1, table),
            _ => Err(IoError::malformed(path, format!("view {} is not a table", i + 1), shape)),
        })
        .collect()
}

fn view(path: &Path, number: usize, table: &Table) -> Result<View> {
    let name = table.get("name").and_then(Value::as_str).map(shorten);
    let words = name.map_or(format!("view {number}: "), |n| format!("view {number} ('{n}'): "));
    let keys = Keys { table, label: Label { file: path.into(), view: words } };
    let label = &keys.label;
    let mut told = KINDS.iter().filter(|kind| kind.own.iter().any(|key| keys.has(key)));
    let kind = told.next();
    if let (Some(a), Some(b)) = (kind, told.next()) {
        let problem = format!("it has keys of {} and of {}", a.name, b.name);
        return Err(label.error(problem, ONE));
    }
    let known = || {
        let (own, further) = kind.map_or((&[][..], &[][..]), |kind| (kind.own, kind.further));
        COMMON.iter().chain(own).chain(further)
    };
    if let Some(other) = table.keys().find(|key| !known().any(|known| known == key)) {
        if kind.is_none() && ARM.contains(&other.as_str()) {
            let problem = format!("it has '{other}', but no angle of a machine");
            return Err(label.error(problem, ONE));
        }
        let all: Vec<String> = known().map(|key| format!("'{key}'")).collect();
        let of = kind.map_or("a view without geometry", |kind| kind.name);
        let problem = format!("{of} has no key '{}'", shorten(other));
        return Err(label.error(problem, format!("take it out; the keys are {}", all.join(", "))));
    }

    let mut view = View::empty(label.clone());
    view.name = keys.text("name")?.map(str::to_owned);
    let beside = |image: &str| path.parent().unwrap_or(Path::new("")).join(image);
    view.image = keys.text("image")?.map(beside);
    let remedy = "give whole numbers above 0: 'size = [columns, rows]'";
    view.size = keys.counts::<2>("size", 1, remedy)?;
    let remedy = "give 'region = [column, row, columns, rows]', whole numbers from 0 on";
    view.region = keys.counts::<4>("region", 0, remedy)?;
    if let Some([.., columns, rows]) = view.region.filter(|[.., c, r]| *c == 0 || *r == 0) {
        let problem = format!("'region' has {columns} x {rows} pixels");
        return Err(label.error(problem, remedy));
    }
    let Some(kind) = kind else {
        if view.image.is_none() {
            return Err(label.error("the positions of source and detector are missing", ONE));
        }
        return Ok(view);
    };
    view.form = Some((kind.read)(&keys)?);
    Ok(view)
}

/// Whether places are in LPS.
fn is_lps(keys: &Keys<'_>) -> Result<bool> {
    match keys.text("world")? {
        None | Some("ras") => Ok(false),
        Some("lps") => Ok(true),
        Some(other) => {
            let problem = format!("'world = \"{}\"' is not known", shorten(other));
            Err(keys.label.error(problem, "give \"ras\" or \"lps\""))
        }
    }
}

/// From the world of a table to RAS, or back.
fn flip(keys: &Keys<'_>) -> Result<Matrix3<f64>> {
    let sign = if is_lps(keys)? { -1.0 } else { 1.0 };
    Ok(Matrix3::from_diagonal(&Vector3::new(sign, sign, 1.0)))
}

fn plain(keys: &Keys<'_>) -> Result<Form> {
    let map: Affine = Affine::new(flip(keys)?, Vector3::zeros());
    let vector = |key| {
        let value = keys.needed(key, "a view by its 'source'", ONE)?;
        Ok::<_, IoError>(map.apply(keys.vector(key, value)?))
    };
    let [source, origin] = [vector("source")?, vector("origin")?];
    Ok(Form::Plain { source, origin, column: vector("column")?, row: vector("row")? })
}

/// The keys of machines with an isocentre.
fn arm(keys: &Keys<'_>, form: &str) -> Result<CArm> {
    let number = |key| {
        let remedy = "give a number of mm above 0";
        keys.length(key, keys.needed(key, form, remedy)?, remedy)
    };
    let place = keys.needed("isocentre", form, "give its x, y and z in mm")?;
    let isocentre = flip(keys)? * keys.vector("isocentre", place)?;
    let pixel = keys.needed("pixel", form, PIXEL)?;
    let remedy = "give the column and row that the ray through the isocentre meets";
    let centre = keys.table.get("centre").map(|v| keys.numbers::<2>("centre", v, remedy));
    Ok(CArm {
        source_to_isocentre: number("source_to_isocentre")?,
        source_to_detector: number("source_to_detector")?,
        isocentre,
        primary: 0.0,
        secondary: 0.0,
        pixel_size: pixel_size(keys, pixel)?,
        dims: [1, 1],
        centre: centre.transpose()?,
    })
}

const PIXEL: &str =
    "give its size in mm, or those along columns and rows: 'pixel = 0.4' or 'pixel = [0.4, 0.5]'";

fn pixel_size(keys: &Keys<'_>, value: &Value) -> Result<[f64; 2]> {
    let size = match value {
        Value::Array(_) => keys.numbers::<2>("pixel", value, PIXEL)?,
        _ => [keys.number("pixel", value, PIXEL)?; 2],
    };
    for length in size {
        keys.check_length("pixel", value, length, PIXEL)?;
    }
    if size.iter().any(|v| *v <= 0.0) {
        return Err(keys.label.error(format!("'pixel' is {size:?} mm"), PIXEL));
    }
    Ok(size)
}

fn angle(keys: &Keys<'_>, key: &str, form: &str) -> Result<f64> {
    let remedy = "give an angle in degrees, from -360 to 360";
    Ok(keys.angle(key, keys.needed(key, form, remedy)?, remedy)?.to_radians())
}

fn c_arm(keys: &Keys<'_>) -> Result<Form> {
    let (primary, secondary) =
        (angle(keys, "primary", "a C-arm")?, angle(keys, "secondary", "a C-arm")?);
    Ok(Form::Arm(CArm { primary, secondary, ..arm(keys, "a C-arm")? }))
}

fn machine(keys: &Keys<'_>) -> Result<Form> {
    let angle = angle(keys, "gantry", "a treatment machine")?;
    Ok(Form::Machine(Gantry { arm: arm(keys, "a treatment machine")?, angle }))
}

/// The distance of the detector, where that is given.
fn far(keys: &Keys<'_>) -> Result<Option<f64>> {
    let Some(value) = keys.table.get("source_to_detector") else { return Ok(None) };
    let remedy = "give a number of mm above 0, or leave it out";
    let far = keys.length("source_to_detector", value, remedy)?;
    if far > 0.0 {
        return Ok(Some(far));
    }
    let problem = format!("'source_to_detector' is {far} mm: the detector is behind the source");
    Err(keys.label.error(problem, remedy))
}

fn camera(keys: &Keys<'_>) -> Result<Form> {
    let needed = |key| keys.needed(key, "a camera", "give the matrices 'K' and 'R', and 't'");
    let k = Matrix3::from_rows(
        &keys.rows::<3>("K", needed("K")?)?.map(|r| Vector3::from(r).transpose()),
    );
    let r = Matrix3::from_rows(
        &keys.rows::<3>("R", needed("R")?)?.map(|r| Vector3::from(r).transpose()),
    );
    let t = keys.vector("t", needed("t")?)?;
    let label = &keys.label;
    let form = camera_of(&k, &r, &t, &flip(keys)?, ["K", "R"])
        .map_err(|(problem, remedy)| label.error(problem, remedy))?;
    let Form::Projection { matrix, .. } = form else { return Ok(form) };
    let mut distance = far(keys)?;
    if let Some(value) = keys.table.get("pixel") {
        if distance.is_some() {
            let problem = "it has 'source_to_detector' and 'pixel', and one follows from the other";
            return Err(label.error(problem, "leave one of them out"));
        }
        let [a, b] = pixel_size(keys, value)?;
        let [x, y] = [k[(0, 0)] * a, k[(1, 1)] * b];
        if (x - y).abs() > 0.01 * x.abs() {
            let problem = format!(
                "'pixel' is {a} x {b} mm, and by the lengths in 'K' the detector is {x:.1} and {y:.1} mm away"
            );
            return Err(label.error(problem, "give the sizes of a pixel along columns and rows"));
        }
        distance = Some(0.5 * (x + y));
    }
    Ok(Form::Projection { matrix, far: distance })
}

/// A camera as of OpenCV, in a world from which `flip` goes to RAS, whose file calls `k` and `r` by these names; otherwise what is wrong, and what helps.
pub(super) fn camera_of(
    k: &Matrix3<f64>,
    r: &Matrix3<f64>,
    t: &Vector3<f64>,
    flip: &Matrix3<f64>,
    [k_name, r_name]: [&str; 2],
) -> std::result::Result<Form, (String, &'static str)> {
    let last = [k[(2, 0)], k[(2, 1)], k[(2, 2)]];
    if last != [0.0, 0.0, 1.0] || k[(1, 0)] != 0.0 || k[(0, 0)] <= 0.0 || k[(1, 1)] <= 0.0 {
        let rows: Vec<Vec<f64>> = k.row_iter().map(|row| row.iter().copied().collect()).collect();
        return Err((
            format!("'{}' is {rows:?}", shorten(k_name)),
            "give [[fx, 0, cx], [0, fy, cy], [0, 0, 1]] in pixels, fx and fy above 0",
        ));
    }
    let off = (r * r.transpose() - Matrix3::identity()).abs().max();
    if off > 1e-3 || r.determinant() < 0.0 {
        return Err((
            format!(
                "'{}' is not a rotation: it is off by {off:.4}, with a determinant of {:.4}",
                shorten(r_name),
                r.determinant()
            ),
            "give the rotation from the world to the camera",
        ));
    }
    let left = k * r * flip;
    let mut matrix = Matrix3x4::zeros();
    matrix.fixed_columns_mut::<3>(0).copy_from(&left);
    matrix.set_column(3, &(k * t));
    Ok(Form::Projection { matrix, far: None })
}

fn projection(keys: &Keys<'_>) -> Result<Form> {
    let value = keys.needed("projection", "a projection matrix", "give 3 rows of 4 numbers")?;
    let rows = keys.rows::<4>("projection", value)?;
    let mut matrix = Matrix3x4::from_fn(|row, column| rows[row][column]);
    let left = matrix.fixed_columns::<3>(0) * flip(keys)?;
    matrix.fixed_columns_mut::<3>(0).copy_from(&left);
    Ok(Form::Projection { matrix, far: far(keys)? })
}
