//! What voxels say about a front that has not seen them: the same segmentation of a thinned image, without every other voxel.

use super::evolve::{lattice, ordered};
use super::options::Preset;
use super::settings::Settings;
use super::stage::Stage;
use super::start::Masks;
use super::work::Work;
use crate::error::Result;
use crate::listener::Quiet;
use voxalign_image::{Affine, Grid, Matrix3, Volume, memory};
use voxalign_report::segment::HeldOutRecord;
use voxalign_segment::{HeldOut, without_odd};

/// Voxels of a thinned image along an axis, roughly, in 2D and 3D. Edges are a voxel or two wide there, whatever the image.
const THIN: [f64; 2] = [128.0, 44.0];

/// The spacing of thinned images of presets, mm: white matter and bone are thinner than what others find.
const FINE: f64 = 2.0;

/// The fewest voxels along an axis that such an image is thinned to.
const FEWEST: f64 = 16.0;

/// Every so many voxels of an image along its axes.
fn thinned(image: &Volume<f32>, settings: &Settings) -> Result<Volume<f32>> {
    let grid = image.grid();
    let dims = grid.dims();
    let most = THIN[usize::from(!grid.is_2d())];
    let steps = match settings.preset {
        Preset::None => dims.map(|n| n as f64 / most),
        // Some slices are always left.
        _ => [0, 1, 2].map(|a| (FINE / grid.spacing()[a]).min(dims[a] as f64 / FEWEST)),
    };
    let steps = steps.map(|n| (n.round() as usize).max(1));
    let [nx, ny, nz] = [0, 1, 2].map(|a| dims[a].div_ceil(steps[a]));
    let world = grid.to_world();
    let scale = Matrix3::from_diagonal(&steps.map(|s| s as f64).into());
    let thin = Grid::new([nx, ny, nz], Affine::new(world.matrix * scale, world.offset))?;
    let at = |i: usize| {
        let place = [i % nx, i / nx % ny, i / (nx * ny)];
        let [x, y, z] = [0, 1, 2].map(|a| place[a] * steps[a]);
        image.data()[x + dims[0] * (y + dims[1] * z)]
    };
    Ok(Volume::new(thin, memory::collected((0..nx * ny * nz).map(at))?)?)
}

/// What the voxels say of the front around the object, or of several regions of those between the regions below each but the first and all others; nothing where the
/// thinned image cannot be segmented.
pub(super) fn held_out(
    work: &Work<'_>,
    used: &serde_json::Map<String, serde_json::Value>,
) -> Result<Vec<HeldOutRecord>> {
    let Work { device, settings, files, listener, .. } = *work;
    let image = thinned(work.image, settings)?;
    let mut settings = *settings;
    if image.dims() == work.image.dims() {
        settings.keep_contrast(used.get("contrast").and_then(serde_json::Value::as_f64));
    }
    let settings = &settings;
    let first = image.data()[0];
    if image.data().iter().all(|v| *v == first) {
        return Ok(Vec::new());
    }
    let lattice = lattice(image.grid(), settings)?;
    let mut seen = without_odd(&lattice, image.data())?;
    if settings.preset == Preset::WhiteMatter {
        // The mask of the brain stays as it is.
        seen.iter_mut().zip(image.data()).filter(|(_, v)| **v <= 0.0).for_each(|(s, _)| *s = 0.0);
    }
    let seen = Volume::new(image.grid().clone(), seen)?;
    let thin =
        |mask: &Option<Volume<f32>>| mask.as_ref().map(|mask| thinned(mask, settings)).transpose();
    let (prior, initial) = (thin(&files.prior)?, thin(&files.initial)?);
    let masks = Masks { prior: prior.as_ref(), initial: initial.as_ref() };
    let found = Stage::new(&seen, None, masks, settings).and_then(|stage| {
        let Some(begin) = stage.start(false)? else { return Ok(None) };
        let evolved = stage.moving()?.run(device, &begin, &mut |_, _| {}, &Quiet(listener))?;
        stage.labels(evolved.labels).map(Some)
    });
    let mut labels = match found {
        Ok(Some(labels)) => labels,
        Ok(None) => return Ok(Vec::new()),
        // What serves the image may not serve one with fewer voxels.
        Err(error) if error.is_of_input() => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let regions = settings.evolution.regions;
    if regions > 2 {
        ordered(&mut labels, seen.data(), regions);
    }
    let mut all = Vec::new();
    for first in 1..regions {
        let set = memory::collected(labels.iter().map(|l| usize::from(*l) >= first))?;
        let found = HeldOut::of(&lattice, image.data(), &set)?;
        let HeldOut { contrast, share, separation, masked } = found;
        all.push(HeldOutRecord { contrast, share, separation, masked });
    }
    Ok(all)
}
