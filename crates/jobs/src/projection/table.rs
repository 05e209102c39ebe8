//! A table of views, from calibrations, other tables and DICOM X-ray images.

use super::names::stem;
use crate::error::{Error, Result};
use crate::files;
use crate::listener::{Level, Listener, reading};
use std::path::{Path, PathBuf};
use voxalign_io::xray::{self, View, geometry};
use voxalign_options::text;

/// What a table of views is made of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ViewTable {
    /// Calibrations, tables of views, and X-ray images whose headers say where they were taken from.
    pub inputs: Vec<PathBuf>,
    /// The image of each view, in their order; none where the inputs name them or nothing does.
    pub images: Vec<PathBuf>,
}

impl ViewTable {
    /// Writes the table; what is odd about an image becomes a warning.
    ///
    /// # Errors
    /// An output that is one of the inputs; a file that is missing, of another kind or wrong; an image whose header does not say
    /// where it was taken from; other numbers of views and images, or sizes of them; what cannot be written.
    pub fn write(&self, output: &Path, listener: &dyn Listener) -> Result<()> {
        let inputs = self.inputs.iter().chain(&self.images);
        files::check_output(output, inputs.map(PathBuf::as_path))?;
        let views = self.views(listener)?;
        Ok(geometry::write(output, &views)?)
    }

    /// The views of all inputs, with names and images.
    fn views(&self, listener: &dyn Listener) -> Result<Vec<View>> {
        let mut all = Vec::new();
        for path in &self.inputs {
            let views = read(path, listener)?;
            let several = views.len() > 1;
            for (i, mut view) in views.into_iter().enumerate() {
                let number = if several { format!("_{}", i + 1) } else { String::new() };
                let file = match &view.image {
                    Some(image) => stem(image),
                    None => {
                        let name = path.file_stem().unwrap_or_default();
                        format!("{}{number}", name.to_string_lossy())
                    }
                };
                // An image that is given says more than a calibration does.
                if self.images.is_empty() {
                    view.name.get_or_insert(file);
                }
                all.push((view, path));
            }
        }
        if self.images.is_empty() {
            return Ok(all.into_iter().map(|(view, _)| view).collect());
        }
        if self.images.len() != all.len() {
            return Err(Error::input(text!(
                "there are {} views and {} images by `image`; give an image for each view, in the same order",
                all.len(),
                self.images.len()
            )));
        }
        let shown = all.into_iter().zip(&self.images);
        shown.map(|((view, path), image)| with_image(view, path, image, listener)).collect()
    }
}

/// The views of an input.
fn read(path: &Path, listener: &dyn Listener) -> Result<Vec<View>> {
    if !path.exists() || geometry::is_views(path) {
        return reading(listener, || geometry::read(path));
    }
    let image = reading(listener, || xray::read(path))?;
    say_oddities(path, &image, listener);
    let Some(geometry) = image.geometry else {
        let missing = image.missing_attribute();
        let why = missing.map_or_else(String::new, |m| format!(" (its header lacks {m})"));
        return Err(Error::input(text!(
            "'{}': its geometry is unknown{why}; give a calibration, and this image by `image`",
            path.display()
        )));
    };
    let mut view = View::new(geometry);
    view.image = Some(path.to_owned());
    Ok(vec![view])
}

fn say_oddities(path: &Path, image: &xray::Xray, listener: &dyn Listener) {
    for oddity in &image.oddities {
        listener.say(Level::Warning, format!("'{}': {oddity}", path.display()));
    }
}

/// A view with its image, whose size it takes.
fn with_image(mut view: View, path: &Path, image: &Path, listener: &dyn Listener) -> Result<View> {
    if let Some(named) = &view.image {
        return Err(Error::input(text!(
            "'{}': a view has the image '{}'; leave `image` out",
            path.display(),
            named.display()
        )));
    }
    let read = reading(listener, || xray::read(image))?;
    say_oddities(image, &read, listener);
    let name = view.name.take().unwrap_or_else(|| stem(image));
    let mut view = view.sized(read.dims)?;
    view.name = Some(name);
    view.image = Some(image.to_owned());
    Ok(view)
}
