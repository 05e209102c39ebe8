//! What X-ray images and files of their views hold.

use super::{Facts, about_numbers};
use crate::failure::Failure;
use serde_json::{Value, json};
use std::path::Path;
use voxalign_image::XrayGeometry;
use voxalign_io::xray::{self, View, geometry};

/// Whether a name is that of a picture, of which only X-ray images are read.
pub(super) fn is_picture(file: &Path) -> bool {
    let extension = file.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    ["png", "tif", "tiff"].contains(&extension.as_str())
}

/// An X-ray image: PNG or TIFF.
pub(super) fn about_image(file: &Path) -> Result<Facts, Failure> {
    let image = xray::read(file)?;
    let mut facts = Facts::default();
    facts.put("file", file.display().to_string());
    facts.put("kind", "X-ray image");
    facts.put("columns", image.dims[0]);
    facts.put("rows", image.dims[1]);
    facts.put("frames", image.frames);
    facts.put("pixel_mm", image.pixel_size.map_or(Value::Null, |size| json!(size)));
    let mut odd: Vec<String> = image.oddities.iter().map(ToString::to_string).collect();
    about_numbers(&mut facts, &mut odd, &image.values, "pixels_not_finite");
    facts.put("odd", odd);
    Ok(facts)
}

/// A file of views.
pub(super) fn about_views(file: &Path) -> Result<Facts, Failure> {
    let views = geometry::read(file)?;
    let mut facts = Facts::default();
    facts.put("file", file.display().to_string());
    facts.put("kind", "views of X-ray images");
    facts.put("views", views.len());
    let mut odd = Vec::new();
    for (i, view) in views.iter().enumerate() {
        let name = view.name.clone().unwrap_or_else(|| format!("{}", i + 1));
        let part = about_view(view, &name, &mut odd)?;
        facts.part(format!("view '{name}'"), part);
    }
    facts.put("odd", odd);
    Ok(facts)
}

fn about_view(view: &View, name: &str, odd: &mut Vec<String>) -> Result<Facts, Failure> {
    let mut facts = Facts::default();
    facts.put("name", name);
    facts.put("image", view.image.as_ref().map(|image| image.display().to_string()));
    facts.put("region", view.region.map_or(Value::Null, |region| json!(region)));
    if !view.has_geometry() {
        odd.push(format!("view '{name}' says no geometry: the header of its image has to"));
        return Ok(facts);
    }
    let size = match (view.size(), &view.image) {
        (None, Some(image)) => Some(xray::read(image)?.dims),
        (size, _) => size,
    };
    if size.is_none() {
        odd.push(format!("view '{name}' says no size: that of its image is taken"));
        return Ok(facts);
    }
    about_geometry(&mut facts, &view.geometry(size)?);
    if view.assumes_distance() {
        odd.push(format!("view '{name}' does not say how far the detector is from the source"));
    }
    Ok(facts)
}

/// Source and detector.
fn about_geometry(facts: &mut Facts, view: &XrayGeometry) {
    facts.put("size", view.dims().to_vec());
    facts.put("pixel_mm", view.pixel_size().to_vec());
    facts.put("source_mm", view.source().as_slice().to_vec());
    facts.put("detector_centre_mm", view.centre().as_slice().to_vec());
    facts.put("source_to_detector_mm", view.source_to_detector());
}
