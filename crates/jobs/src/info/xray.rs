//! Contents of X-ray images and of files of views.

use super::{Facts, of_values, pyramid};
use crate::error::Result;
use serde_json::{Value, json};
use std::path::Path;
use voxalign_io::xray::{self, View, geometry};

/// Whether a name is that of a picture, of which only X-ray images are read.
pub(super) fn is_picture(file: &Path) -> bool {
    let extension = file.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    ["png", "tif", "tiff"].contains(&extension.as_str())
}

/// An X-ray image: PNG or TIFF.
pub(super) fn about_image(file: &Path) -> Result<Facts> {
    let image = xray::read(file)?;
    let mut facts = Facts::of_file(file, "X-ray image");
    facts.put("columns", image.dims[0]);
    facts.put("rows", image.dims[1]);
    facts.put("frames", image.frames);
    let size = image.pixel_size.or_else(|| pyramid::pixel_size(file));
    facts.put("pixel_mm", size.map_or(Value::Null, |size| json!(size)));
    facts.strange(&image.oddities);
    facts.add(of_values(&image.values, "pixels_not_finite").0);
    Ok(facts)
}

/// A file of views.
pub(super) fn about_views(file: &Path) -> Result<Facts> {
    let views = geometry::read(file)?;
    let mut facts = Facts::of_file(file, "views of X-ray images");
    facts.put("views", views.len());
    facts.odd = Some(Vec::new());
    for (i, view) in views.iter().enumerate() {
        let name = view.name.clone().unwrap_or_else(|| format!("{}", i + 1));
        let (part, odd) = about_view(view, &name)?;
        facts.strange(odd.map(|odd| format!("view '{name}' {odd}")));
        facts.parts.push((format!("view '{name}'"), part));
    }
    Ok(facts)
}

/// The facts of a view, and what is odd about it.
fn about_view(view: &View, name: &str) -> Result<(Facts, Option<&'static str>)> {
    let mut facts = Facts::default();
    facts.put("name", name);
    facts.put("image", view.image.as_ref().map(|image| image.display().to_string()));
    facts.put("region", view.region.map_or(Value::Null, |region| json!(region)));
    if !view.has_geometry() {
        return Ok((facts, Some("has no geometry: it must be in the header of its image")));
    }
    let size = match (view.size(), &view.image) {
        (None, Some(image)) => Some(xray::read(image)?.dims),
        (size, _) => size,
    };
    if size.is_none() {
        return Ok((facts, Some("has no size: that of its image is used")));
    }
    let geometry = view.geometry(size)?;
    facts.put("size", geometry.dims().to_vec());
    facts.put("pixel_mm", geometry.pixel_size().to_vec());
    facts.put("source_mm", geometry.source().as_slice().to_vec());
    facts.put("detector_centre_mm", geometry.centre().as_slice().to_vec());
    facts.put("source_to_detector_mm", geometry.source_to_detector());
    let assumes = "does not give the distance from the source to the detector";
    Ok((facts, view.assumes_distance().then_some(assumes)))
}
