//! Making and checking one surface.

use super::judge::{self, Shaped};
use super::object::Object;
use super::options::{ObjectOptions, ShapeOptions};
use crate::error::{Error, Result};
use crate::listener::{Level, Listener, check};
use crate::run::Clock;
use std::path::Path;
use voxalign_compute::select::AnyDevice;
use voxalign_image::{LabelMap, Mesh, Volume};
use voxalign_options::text;
use voxalign_register::Verdict;
use voxalign_register::compare::compare_meshes;
use voxalign_report::surface::{ObjectRecord, SurfaceFound};
use voxalign_surface::{Figures, decimated, isosurface, outlines, smoothed};

/// How a surface is made.
#[derive(Clone, Copy)]
pub(super) struct Making<'a> {
    /// The image, for messages.
    pub(super) path: &'a Path,
    pub(super) wanted: &'a ObjectOptions,
    pub(super) shape: &'a ShapeOptions,
    /// What the Gaussian runs on; not needed where there is none.
    pub(super) device: Option<&'a AnyDevice>,
    pub(super) listener: &'a dyn Listener,
}

impl Making<'_> {
    /// Makes it and judges it.
    pub(super) fn make(
        &self,
        mut object: Object,
        clock: &mut Clock,
    ) -> Result<(Shaped, SurfaceFound)> {
        let (wanted, shape) = (self.wanted, self.shape);
        let flat = object.grid.is_2d();
        if flat && (shape.triangles.is_some() || shape.keep.is_some()) {
            let option = if shape.keep.is_some() { "keep" } else { "triangles" };
            return Err(Error::input(text!(
                "'{}': a 2D image has outlines, and `{option}` is for triangles; leave it out",
                self.path.display()
            )));
        }
        let parts = if wanted.largest_component { Some(object.keep_largest()?) } else { None };
        let filled = if wanted.fill_holes { Some(object.fill()?) } else { None };
        let voxels = object.voxels();
        let matrix = object.grid.to_world().matrix;
        let pixel = matrix.column(0).cross(&matrix.column(1)).norm();
        let found = ObjectRecord {
            voxels,
            volume_mm3: voxels as f64 * object.grid.voxel_volume(),
            area_mm2: flat.then_some(voxels as f64 * pixel),
            parts,
            filled_voxels: filled,
            at_border: object.at_border,
        };
        // Geometry can be such that places are no numbers, which only the surface finds out.
        let named = |e: Error| match e.to_string().contains(&self.path.display().to_string()) {
            true => e,
            false => e.at(format!("'{}'", self.path.display())),
        };
        let shaped = self.shape(&object, clock).map_err(named)?;
        let verdict = judge::verdict(&shaped, &found, (wanted, shape.sigma, &object.grid));
        let found = SurfaceFound {
            object: found,
            isosurface: shaped.exact_figures.clone(),
            surface: shaped.figures.clone(),
            distance: shaped.distance.clone(),
            most_triangles: shape.most(shaped.exact_figures.triangles),
            verdict,
        };
        Ok((shaped, found))
    }

    fn shape(&self, object: &Object, clock: &mut Clock) -> Result<Shaped> {
        let (wanted, shape, listener) = (self.wanted, self.shape, self.listener);
        let around = |values: &Volume<f32>| match object.grid.is_2d() {
            true => outlines(values, object.level),
            false => isosurface(values, object.level),
        };
        let exact = around(object.values())?;
        let exact_figures = Figures::of(&exact)?;
        let say = |what: &str, mesh: &Mesh| {
            let amount = match mesh.faces().len() {
                0 => format!("{} lines", mesh.line_ends().len()),
                n => format!("{n} triangles"),
            };
            listener.say(Level::Verbose, format!("{what}: {amount}"));
        };
        say("isosurface", &exact);
        clock.lap("extract");
        let mut mesh = None;
        if shape.sigma > 0.0 {
            let device = self.device.ok_or_else(|| Error::Internal("no device".to_owned()))?;
            let mut soft = object.with_values(object.smoothed(device, shape.sigma, listener)?);
            if wanted.largest_component {
                soft.keep_largest()?;
            }
            let found = around(soft.values())?;
            if found.is_empty() {
                return Err(Error::input(text!(
                    "'{}': nothing is left after smoothing by `sigma` = {} mm; give less",
                    self.path.display(),
                    shape.sigma
                )));
            }
            say("smoothed voxels", &found);
            mesh = Some(found);
            clock.lap("filter");
        }
        check(listener)?;
        let iterations = shape.smoothing(!wanted.label.is_empty());
        if iterations > 0 {
            mesh = Some(smoothed(mesh.as_ref().unwrap_or(&exact), iterations)?);
            clock.lap("smooth");
        }
        check(listener)?;
        let before = mesh.as_ref().unwrap_or(&exact);
        if let Some(most) = shape.most(before.faces().len()).filter(|n| *n < before.faces().len()) {
            let fewer = decimated(before, most)?;
            say("decimated", &fewer);
            mesh = Some(fewer);
            clock.lap("decimate");
        }
        check(listener)?;
        let shaped = match mesh {
            None => {
                let mesh = exact.map(|v| *v)?;
                let figures = exact_figures.clone();
                Shaped { exact: None, exact_figures, mesh, figures, distance: None }
            }
            Some(mesh) => {
                let figures = Figures::of(&mesh)?;
                let distance = Some(compare_meshes(&exact, &mesh)?);
                Shaped { exact: Some(exact), exact_figures, mesh, figures, distance }
            }
        };
        clock.lap("measure");
        Ok(shaped)
    }
}

/// What a surface that another job takes is made of.
pub(crate) enum Of<'a> {
    /// A label map.
    Labels(&'a LabelMap),
    /// An image.
    Image(Box<Volume<f32>>),
}

/// The surface or the outlines of labels or of an image of this file, without a Gaussian, and the verdict on it.
///
/// # Errors
/// As of [`Job::run`](super::Job::run).
pub(crate) fn made(
    of: Of<'_>,
    path: &Path,
    (wanted, shape): (&ObjectOptions, &ShapeOptions),
    listener: &dyn Listener,
) -> Result<(Mesh, Verdict)> {
    let object = match (of, wanted.level) {
        (Of::Labels(labels), _) => Object::of_labels(labels, &wanted.label),
        (Of::Image(image), Some(level)) => Object::of_image(*image, level, wanted.below),
        (Of::Image(_), None) => Err(Error::Internal("an image without a level".to_owned())),
    };
    let object = object.map_err(|e| e.at(format!("'{}'", path.display())))?;
    let making = Making { path, wanted, shape, device: None, listener };
    let (shaped, found) = making.make(object, &mut Clock::start())?;
    Ok((shaped.mesh, found.verdict))
}
