//! Which axes of an NRRD file are spatial, and where they lie.

use super::Fields;
use crate::error::shorten;
use crate::image::info::GridSource;
use crate::image::text;
use nalgebra::Vector3;
use voxalign_image::Grid;

/// The geometry and the sizes of all axes, spatial ones first.
pub(super) struct Geometry {
    pub(super) grid: Grid,
    pub(super) source: GridSource,
    pub(super) dims: Vec<usize>,
    /// The size of a first axis that is not spatial.
    pub(super) components: usize,
    /// How many axes the file has.
    pub(super) dimensions: usize,
}

pub(super) fn find(
    fields: &Fields,
    sizes: &[usize],
    oddities: &mut Vec<String>,
) -> Result<Geometry, String> {
    let signs = signs(fields, oddities)?;
    let directions = match fields.get("spacedirections") {
        Some(text) => Some(parse_vectors(text)?),
        None => None,
    };
    let known = directions.is_some();
    let vectors = match directions {
        Some(v) if v.len() == sizes.len() => v,
        Some(v) => {
            return Err(format!("there are {} space directions for {} axes", v.len(), sizes.len()));
        }
        None => by_spacings(fields, sizes, oddities)?,
    };
    let factor = unit_factor(fields, oddities);
    let mut axes = Vec::new();
    let mut dims = Vec::new();
    let mut further = Vec::new();
    for (vector, &size) in vectors.iter().zip(sizes) {
        match vector {
            Some(v) if axes.len() < 3 => {
                axes.push(signs.component_mul(v) * factor);
                dims.push(size);
            }
            _ => further.push(size),
        }
    }
    if dims.len() < 2 {
        return Err(format!("there are {} spatial axes, but an image has at least 2", dims.len()));
    }
    if !further.is_empty() && further.iter().any(|&n| n > 1) {
        oddities.push(format!("there are non-spatial axes of the sizes {further:?}"));
    }
    let origin = match fields.get("spaceorigin") {
        Some(text) => match parse_vectors(text)?.first() {
            Some(Some(v)) => *v,
            _ => return Err(format!("the space origin '{}' is not a vector", shorten(text))),
        },
        None => Vector3::zeros(),
    };
    let grid = text::grid(&dims, &axes, signs.component_mul(&origin) * factor)?;
    let source = if known { GridSource::Directions } else { GridSource::Assumed };
    let dimensions = dims.len() + further.len();
    let components = match (vectors.first(), sizes.first()) {
        (Some(None), Some(&size)) => size,
        _ => 1,
    };
    let mut dims = text::with_depth(dims);
    dims.extend(further);
    Ok(Geometry { grid, source, dims, components, dimensions })
}

/// Factors that turn a file's world axes into RAS.
fn signs(fields: &Fields, oddities: &mut Vec<String>) -> Result<Vector3<f64>, String> {
    let lps = Vector3::new(-1.0, -1.0, 1.0);
    let name = fields.get("space").unwrap_or_default().to_ascii_lowercase();
    Ok(match name.trim_end_matches("-time") {
        "right-anterior-superior" | "ras" | "rast" => Vector3::repeat(1.0),
        "left-anterior-superior" | "las" | "last" => Vector3::new(-1.0, 1.0, 1.0),
        "left-posterior-superior" | "lps" | "lpst" => lps,
        "" => {
            oddities.push(
                "the file names no space; left-posterior-superior is assumed, as ITK does".into(),
            );
            lps
        }
        "scanner-xyz" | "3d-right-handed" | "3d-left-handed" => {
            oddities.push(format!(
                "the space '{name}' does not say where the patient is; left-posterior-superior is \
                 assumed, as ITK does"
            ));
            lps
        }
        other => return Err(format!("the space '{}' is not known", shorten(other))),
    })
}

/// Millimetres in the file's unit of length.
fn unit_factor(fields: &Fields, oddities: &mut Vec<String>) -> f64 {
    let Some(units) = fields.get("spaceunits") else { return 1.0 };
    let unit = units.split('"').nth(1).unwrap_or("mm").trim();
    let factor = match unit {
        "" | "mm" | "millimeter" | "millimetre" | "millimeters" => return 1.0,
        "um" | "µm" | "μm" | "micron" | "microns" | "micrometer" | "micrometre" => 1e-3,
        "nm" => 1e-6,
        "cm" => 10.0,
        "m" => 1e3,
        _ => {
            oddities.push(format!(
                "the unit of length is '{}'; millimetres are assumed",
                shorten(unit)
            ));
            return 1.0;
        }
    };
    oddities.push(format!("the unit of length is {unit}; lengths are converted to millimetres"));
    factor
}

/// Vectors in parentheses of two or three components, or `none`.
fn parse_vectors(text: &str) -> Result<Vec<Option<Vector3<f64>>>, String> {
    let mut out = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix("none") {
            out.push(None);
            rest = after.trim_start();
            continue;
        }
        let (Some(inner), true) = (rest.find(')'), rest.starts_with('(')) else {
            return Err(format!("'{}' is not a vector", shorten(rest)));
        };
        let values = text::numbers(&rest[1..inner].replace(',', " "))?;
        match values[..] {
            [x, y] => out.push(Some(Vector3::new(x, y, 0.0))),
            [x, y, z] | [x, y, z, _] => out.push(Some(Vector3::new(x, y, z))),
            _ => return Err(format!("a vector has {} components", values.len())),
        }
        rest = rest[inner + 1..].trim_start();
    }
    Ok(out)
}

/// Axis vectors where the file gives spacings at most.
fn by_spacings(
    fields: &Fields,
    sizes: &[usize],
    oddities: &mut Vec<String>,
) -> Result<Vec<Option<Vector3<f64>>>, String> {
    let spatial: Vec<bool> = match fields.get("kinds") {
        Some(kinds) => kinds
            .split_whitespace()
            .map(|k| matches!(k.to_ascii_lowercase().as_str(), "domain" | "space" | "???"))
            .chain(std::iter::repeat(true))
            .take(sizes.len())
            .collect(),
        None => vec![true; sizes.len()],
    };
    let spacings: Vec<Option<f64>> = match fields.get("spacings") {
        Some(text) => text
            .split_whitespace()
            .map(|w| match w.parse::<f64>() {
                Ok(v) if v.is_nan() => Ok(None),
                Ok(v) if v.is_finite() && v != 0.0 => Ok(Some(v)),
                _ => Err(format!("the spacing '{}' is not a valid number", shorten(w))),
            })
            .collect::<Result<_, _>>()?,
        None => {
            oddities.push("the file gives no spacing; 1 mm is assumed".into());
            vec![Some(1.0); sizes.len()]
        }
    };
    if spacings.len() != sizes.len() {
        return Err(format!("there are {} spacings for {} axes", spacings.len(), sizes.len()));
    }
    let mut next = 0;
    Ok(spatial
        .into_iter()
        .zip(spacings)
        .map(|(is_spatial, spacing)| {
            if !is_spatial || next == 3 {
                return None;
            }
            let mut v = Vector3::zeros();
            v[next] = spacing.unwrap_or(1.0);
            next += 1;
            Some(v)
        })
        .collect())
}
