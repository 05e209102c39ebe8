//! What OME says of the arrays of an image.

use super::array::Array;
use super::metadata::{Json, said};
use crate::error::{IoError, Result, shorten};
use serde_json::Value;
use std::path::{Component, Path, PathBuf};

/// Levels that an image may have.
const LEVELS: usize = 64;

/// An image of several levels.
pub(super) struct Image {
    /// Of Zarr: 2 or 3.
    pub(super) version: u8,
    pub(super) axes: Axes,
    pub(super) datasets: Vec<Dataset>,
    pub(super) oddities: Vec<String>,
}

/// The places of axes among those of arrays.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Axes {
    pub(super) count: usize,
    pub(super) time: Option<usize>,
    pub(super) channel: Option<usize>,
    /// Of x, y and z.
    pub(super) space: [Option<usize>; 3],
    /// mm in the unit of x, y and z, where it is said.
    units: [Option<f64>; 3],
}

/// An array that is a level.
pub(super) struct Dataset {
    pub(super) path: String,
    scale: Vec<f64>,
    translation: Vec<f64>,
    pub(super) translated: bool,
}

/// Spacing and origin along x, y and z, mm.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) spacing: [f64; 3],
    pub(super) origin: [f64; 3],
    /// Whether units are said.
    pub(super) known: bool,
}

impl Image {
    pub(super) fn read(path: &Path) -> Result<Image> {
        let (third, second) = (path.join("zarr.json"), path.join(".zattrs"));
        let (version, json) =
            if third.is_file() { (3, Json::read(third)?) } else { (2, Json::read(second)?) };
        let attributes = if version == 3 { &json.value["attributes"]["ome"] } else { &json.value };
        let images = attributes["multiscales"].as_array().map(Vec::as_slice).unwrap_or_default();
        let Some(first) = images.first() else { return Err(no_image(&json, attributes)) };
        let mut oddities = Vec::new();
        if images.len() > 1 {
            oddities.push(format!("it has {} images; the first one is read", images.len()));
        }
        let axes = Axes::read(&json, &first["axes"])?;
        let all = transformations(&json, &first["coordinateTransformations"], axes.count)?;
        let list = first["datasets"].as_array().map(Vec::as_slice).unwrap_or_default();
        if list.is_empty() || list.len() > LEVELS {
            return Err(json.wrong(format!("it has {} 'datasets'", list.len())));
        }
        let mut datasets = Vec::new();
        for dataset in list {
            let path = dataset["path"].as_str().unwrap_or_default().to_owned();
            let own = &dataset["coordinateTransformations"];
            let mut own = transformations(&json, own, axes.count)?;
            for a in 0..axes.count {
                own.scale[a] *= all.scale[a];
                own.translation[a] = own.translation[a] * all.scale[a] + all.translation[a];
            }
            own.path = path;
            datasets.push(own);
        }
        Ok(Image { version, axes, datasets, oddities })
    }

    pub(super) fn place(&self, path: &Path, dataset: &Dataset) -> Result<Place> {
        let axes = &self.axes;
        let mut place = Place { spacing: [1.0; 3], origin: [0.0; 3], known: false };
        for a in 0..3 {
            let Some(axis) = axes.space[a] else { continue };
            let unit = axes.units[a].unwrap_or(1.0);
            place.known |= axes.units[a].is_some();
            let (spacing, origin) = (dataset.scale[axis] * unit, dataset.translation[axis] * unit);
            if !(spacing.is_finite() && spacing > 0.0 && origin.is_finite()) {
                let problem = format!(
                    "the level '{}' has the scale {} and the translation {} along {}",
                    shorten(&dataset.path),
                    dataset.scale[axis],
                    dataset.translation[axis],
                    ["x", "y", "z"][a]
                );
                return Err(IoError::malformed(path, problem, "correct its transformations"));
            }
            place.spacing[a] = spacing;
            place.origin[a] = origin;
        }
        Ok(place)
    }
}

fn no_image(json: &Json, attributes: &Value) -> IoError {
    let collection = !attributes["bioformats2raw.layout"].is_null()
        || !json.value["attributes"]["bioformats2raw.layout"].is_null();
    let (problem, remedy) = if collection {
        ("this is a collection of images", "name one of its folders, such as '0'")
    } else {
        ("there are no 'multiscales'", "name the folder of an image of OME-Zarr 0.4 or 0.5")
    };
    IoError::malformed(&json.path, problem, remedy)
}

impl Axes {
    fn read(json: &Json, list: &Value) -> Result<Axes> {
        let all = list.as_array().map(Vec::as_slice).unwrap_or_default();
        if !(2..=5).contains(&all.len()) {
            let problem = format!("the 'axes' are {}", said(list));
            let remedy = "write it as OME-Zarr 0.4 or 0.5, which have two to five of them";
            return Err(IoError::malformed(&json.path, problem, remedy));
        }
        let mut axes = Axes {
            count: all.len(),
            time: None,
            channel: None,
            space: [None; 3],
            units: [None; 3],
        };
        for (place, axis) in all.iter().enumerate() {
            let name = axis["name"].as_str().unwrap_or_default().to_ascii_lowercase();
            let slot = match name.as_str() {
                "t" => &mut axes.time,
                "c" => &mut axes.channel,
                "x" => &mut axes.space[0],
                "y" => &mut axes.space[1],
                "z" => &mut axes.space[2],
                _ => {
                    return Err(json.wrong(format!(
                        "an axis is {}, and not one of t, c, z, y, x",
                        said(axis)
                    )));
                }
            };
            if slot.replace(place).is_some() {
                return Err(json.wrong(format!("the axis '{name}' is there twice")));
            }
            if let Some(a) = ["x", "y", "z"].iter().position(|n| *n == name) {
                axes.units[a] = unit(json, &axis["unit"])?;
            }
        }
        if axes.space[0].is_none() || axes.space[1].is_none() {
            return Err(json.wrong("there is no axis x or y"));
        }
        Ok(axes)
    }

    /// How long an axis is in an array; 1 where there is none.
    pub(super) fn size(&self, array: &Array, axis: Option<usize>) -> usize {
        axis.and_then(|a| array.shape.get(a)).copied().unwrap_or(1)
    }

    pub(super) fn check(&self, array: &Array) -> Result<()> {
        if array.shape.len() == self.count {
            return Ok(());
        }
        Err(IoError::malformed(
            &array.folder,
            format!("the array has {} axes, but {} are named", array.shape.len(), self.count),
            "the metadata are damaged: copy or write the image again",
        ))
    }
}

/// mm in a unit; nothing where none is said.
fn unit(json: &Json, value: &Value) -> Result<Option<f64>> {
    let Some(name) = value.as_str() else { return Ok(None) };
    let name = name.to_ascii_lowercase().replace("metre", "meter");
    Ok(Some(match name.as_str() {
        "" | "pixel" | "voxel" => return Ok(None),
        "angstrom" => 1e-7,
        "picometer" | "pm" => 1e-9,
        "nanometer" | "nm" => 1e-6,
        "micrometer" | "micron" | "um" | "µm" | "μm" => 1e-3,
        "millimeter" | "mm" => 1.0,
        "centimeter" | "cm" => 10.0,
        "decimeter" | "dm" => 100.0,
        "meter" | "m" => 1000.0,
        "inch" => 25.4,
        "foot" => 304.8,
        _ => {
            let remedy = "name micrometer, millimeter or another unit of length";
            let problem = format!("the unit of length '{}' is not known", shorten(&name));
            return Err(IoError::malformed(&json.path, problem, remedy));
        }
    }))
}

/// Scale and translation of a list of transformations, applied one after the other.
fn transformations(json: &Json, list: &Value, axes: usize) -> Result<Dataset> {
    let mut out = Dataset {
        path: String::new(),
        scale: vec![1.0; axes],
        translation: vec![0.0; axes],
        translated: false,
    };
    for one in list.as_array().map(Vec::as_slice).unwrap_or_default() {
        let kind = one["type"].as_str().unwrap_or_default();
        if kind == "identity" {
            continue;
        }
        let values: Option<Vec<f64>> =
            one[kind].as_array().and_then(|v| v.iter().map(Value::as_f64).collect());
        let Some(values) = values.filter(|v| v.len() == axes) else {
            let remedy = "write a scale, and a translation if need be, a number an axis";
            let problem = format!("the transformation {} of {axes} axes is not read", said(one));
            return Err(IoError::malformed(&json.path, problem, remedy));
        };
        for (a, value) in values.iter().enumerate() {
            match kind {
                "scale" => {
                    out.scale[a] *= value;
                    out.translation[a] *= value;
                }
                "translation" => out.translation[a] += value,
                _ => {
                    return Err(
                        json.wrong(format!("the transformation {} is not known", said(one)))
                    );
                }
            }
        }
        out.translated |= kind == "translation";
    }
    Ok(out)
}

/// The folder of an array, which is in that of the image.
pub(super) fn folder(image: &Path, name: &str) -> Result<PathBuf> {
    let inside =
        Path::new(name).components().all(|c| matches!(c, Component::Normal(_) | Component::CurDir));
    if name.is_empty() || !inside {
        let problem = format!("a level has the path '{}'", shorten(name));
        return Err(IoError::malformed(image, problem, "levels are folders in that of the image"));
    }
    Ok(image.join(name))
}
