//! Displacement fields as files, written by other threads while the result is scored.

use crate::error::{Error, Result};
use crate::options::Product;
use crate::run::{self, Run};
use crate::staged::Staged;
use std::path::{Path, PathBuf};
use std::thread::ScopedJoinHandle;
use voxalign_compute::select::AnyDevice;
use voxalign_image::{Affine, Displacement, Grid, Transform, VectorField, Volume};
use voxalign_io::image::{self, WriteOptions};
use voxalign_io::transform::{self, Geometry};
use voxalign_register::resample::displacements;

/// Names of the files that are a deformation's own.
pub(crate) const WARP: &str = "warp.nii.gz";
pub(crate) const INVERSE_WARP: &str = "inverse_warp.nii.gz";
pub(crate) const COMPOSITE: &str = "composite.nii.gz";
pub(crate) const INVERSE_COMPOSITE: &str = "inverse_composite.nii.gz";
pub(crate) const JACOBIAN: &str = "jacobian.nii.gz";

/// Where the fields and their Jacobian are written to.
pub(crate) fn field_files(run: &Run<'_>, staged: &mut Staged<'_>) -> Result<Vec<FieldFile>> {
    let all = [
        (Product::InverseWarp, INVERSE_WARP),
        (Product::Warp, WARP),
        (Product::Jacobian, JACOBIAN),
    ];
    let written = all.into_iter().filter(|&(product, _)| run.writes(product));
    written
        .map(|(product, name)| {
            let path = staged.path(name)?;
            Ok(FieldFile { product, path, end: staged.final_path(name) })
        })
        .collect()
}

/// What is written while the result is scored.
pub(crate) struct Fields<'a> {
    /// The inverse affine map and field.
    pub(crate) back: Transform,
    pub(crate) whole: &'a Transform,
    /// On the grid of the fixed image.
    pub(crate) jacobian: &'a Volume<f32>,
    pub(crate) options: &'a WriteOptions,
}

/// A file of a field: where it is written, and the path that it will have.
pub(crate) struct FieldFile {
    product: Product,
    path: PathBuf,
    end: PathBuf,
}

impl Fields<'_> {
    pub(crate) fn write(&self, files: &[FieldFile]) -> Result<()> {
        let field = |transform: &Transform, path: &Path| match transform {
            Transform::Composite(parts) => parts
                .iter()
                .filter(|part| matches!(part, Transform::Displacement(_)))
                .try_for_each(|part| transform::write(path, part, &Geometry::default())),
            other => transform::write(path, other, &Geometry::default()),
        };
        for FieldFile { product, path, end } in files {
            match product {
                Product::InverseWarp => field(&self.back, path),
                Product::Warp => field(self.whole, path),
                _ => image::write_volume(path, self.jacobian, self.options),
            }
            .map_err(|e| e.instead_at(end))?;
        }
        Ok(())
    }
}

/// Threads that pack fields beside those of everything else, which would otherwise take turns with them; half
/// as many.
pub(crate) fn writers(threads: usize) -> Result<rayon::ThreadPool> {
    let count = (threads / 2).max(1);
    voxalign_compute::cpu::threads::check(count)?;
    let built = rayon::ThreadPoolBuilder::new().num_threads(count).build();
    built.map_err(|e| voxalign_compute::cpu::threads::refused(count, e).into())
}

/// A thread that writes fields. Whatever ends this waits for it, so that nothing is written into a folder that is
/// being removed.
pub(crate) struct Writing<'scope>(pub(crate) Option<ScopedJoinHandle<'scope, Result<()>>>);

impl Writing<'_> {
    pub(crate) fn wait(&mut self) -> Result<()> {
        let gone = |_| Error::Internal("the thread that wrote the fields is gone".into());
        self.0.take().map_or(Ok(()), |thread| thread.join().map_err(gone)?)
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        // What went wrong before says more.
        let _ = self.wait();
    }
}

/// A field as a transform.
pub(crate) fn displacement(field: VectorField) -> Transform {
    Transform::Displacement(Displacement::new(field))
}

/// Writes the affine part between a fixed and a moving grid, and what it makes with the displacement before it, to and fro, as one field each,
/// where these are asked for; the whole, from fixed to moving, and its inverse. The field of the whole is on the grid of the displacement, that of the
/// way back on `back_on`.
pub(crate) fn write_chains(
    run: &Run<'_>,
    staged: &mut Staged<'_>,
    device: &AnyDevice,
    ([forward, inverse], back_on): ([VectorField; 2], &Grid),
    affine: &Affine,
    [fixed, moving]: [&Grid; 2],
    dimensions: usize,
) -> Result<[Transform; 2]> {
    if run.writes(Product::Affine) {
        let geometry = Geometry { fixed: Some(fixed), moving: Some(moving) };
        run::write_affine(staged, affine, dimensions, &geometry)?;
    }
    let back =
        Transform::Composite(vec![Transform::Affine(affine.inverse()?), displacement(inverse)]);
    if run.writes(Product::InverseComposite) {
        let field = displacements(device, back_on, &back)?;
        write_transform(staged, INVERSE_COMPOSITE, &displacement(field))?;
    }
    let on = forward.grid().clone();
    let whole = Transform::Composite(vec![displacement(forward), Transform::Affine(*affine)]);
    if run.writes(Product::Composite) {
        let field = displacements(device, &on, &whole)?;
        write_transform(staged, COMPOSITE, &displacement(field))?;
    }
    Ok([whole, back])
}

/// Writes a field.
fn write_transform(staged: &mut Staged<'_>, name: &str, field: &Transform) -> Result<()> {
    staged.write(name, |path| transform::write(path, field, &Geometry::default()))
}
