//! Registration of a volume to slices with an elastic body.

mod evidence;
mod input;
mod result;

use super::elastic::ElasticSetting;
use super::input::Intensities;
use super::part::{as_it_is, calibrated_within};
use crate::attachment::images::DeviceImage;
use crate::attachment::moving_mask::{MovingMask, fill};
use crate::diffeo::calibrate::{Calibration, TOP};
use crate::error::{RegisterError, Result, Role};
use crate::model::elastic::slices::{SliceBody, SliceImages, SliceStep, everywhere};
use crate::model::elastic::{ElasticResult, Sampling};
use crate::multiscale;
use crate::progress::Progress;
use std::sync::Arc;
use voxalign_compute::Device;
use voxalign_compute::ops::elementwise::x;
use voxalign_image::memory;

pub use evidence::{SliceEvidence, SlicesEvidence, check_slices};
pub use input::{SliceInput, SlicesInput};
pub use result::{SliceResult, SlicesResult};

/// Registers a volume to slices with an elastic body.
///
/// The body of the setting is at rest where the volume is in the world of the slices, to which the inverse of the affine map brings it:
/// its point `p` goes to `x = p + w(p)`, where the slices are. Every pixel of each slice is looked for in the deformed mesh at every
/// iteration, and what it shows is compared with the volume at `A(p)`, all slices at once (B. Marami, S. Sirouspour and D. W. Capson, "Model-based deformable
/// registration of preoperative 3D to intraoperative low-resolution 3D and 2D sequences of MR images", MICCAI 2011, and the thesis at
/// [`elastic`](crate::model::elastic), section 5.7). Pixels outside of the mesh do not count.
///
/// The energy of the images is a mean over the pixels that count, each with its weight times its area; times the pressure it counts for the volume
/// of slabs of half the thickness of the cells of the mesh, so that a pressure means beside a slice what it means for [two volumes](super::register_elastic).
///
/// At a scale the slices are reduced along their axes, and the volume, to pixels of about the smallest distance of pixels of all slices
/// times the factor. Where a step would invert a tetrahedron, however short it is, the scale ends, which the evidence and the verdict say. A state at the end is a [start](ElasticSetting::start) for the next slices.
///
/// # Errors
/// Those of [`SlicesInput::check`], and of [`ElasticSetting`] for its body and motion; [`RegisterError::Option`] for a lattice of samples, forces at vertices
/// alone; [`RegisterError::Slice`] for a slice of which no pixel lies in the mesh or shows something of the volume; [`RegisterError::Constant`] for a volume that is constant;
/// [`RegisterError::Elasticity`] for a solution whose residual is too large; [`RegisterError::Diverged`];
/// [`RegisterError::Compute`] when memory runs out; [`RegisterError::Stopped`] when the listener asks for it.
pub fn register_slices<D: Device>(
    device: &D,
    input: &SlicesInput<'_>,
    setting: &ElasticSetting,
    progress: &dyn Progress,
) -> Result<(SlicesResult, ElasticResult)> {
    input.check()?;
    setting.check_body()?;
    let ElasticSetting { body, elastic, multiscale, start, timed } = setting;
    if elastic.samples != Sampling::All {
        let remedy = "slices are compared at all of their pixels; give all";
        return Err(RegisterError::option("samples", elastic.samples, remedy));
    }
    let images = prepared(device, input)?;
    let how = (input.affine, input.similarity);
    let mut body = SliceBody::new(device, images, how, *elastic, Arc::clone(body), start.clone())?;
    body = body.timed(*timed);
    let (scales, rule) = (multiscale.scales(), multiscale.rule());
    let scales = multiscale::run(&mut body, &mut SliceStep, scales, &rule, progress)?;
    result::concluded(device, input, setting, body, scales)
}

/// The images on a device, calibrated: all slices together.
fn prepared<D: Device>(device: &D, input: &SlicesInput<'_>) -> Result<SliceImages<D>> {
    let kept = input.intensities == Intensities::AsTheyAre;
    let calibration = match kept {
        true => None,
        false => Some(calibration(device, input)?),
    };
    let (mut slices, mut weights) = (Vec::new(), Vec::new());
    for slice in &input.slices {
        let mut values = device.upload(slice.image.data())?;
        if let Some(calibration) = &calibration {
            calibration.apply_on(device, &mut values)?;
        }
        let grid = slice.image.grid().clone();
        slices.push(DeviceImage { grid, values, outside: 0.0, open: false });
        let of = slice.weights.map(|weights| {
            let mut values = device.upload(weights.data())?;
            device.eval_in_place(&x(0).max(0.0).min(1.0), &mut values, &[], &[], None)?;
            let grid = weights.grid().clone();
            Ok::<_, RegisterError>(DeviceImage { grid, values, outside: 0.0, open: false })
        });
        weights.push(of.transpose()?);
    }
    let (grid, role) = (input.moving.grid(), Role::Moving);
    let counts = match input.moving_mask {
        Some(mask) => Some(MovingMask::new(device, mask)?.on(device, grid)?),
        None => None,
    };
    let mut moving = match kept {
        true => as_it_is(device, role, input.moving)?,
        false => calibrated_within(device, role, input.moving, counts.as_ref())?,
    };
    let shown = match counts {
        Some(values) => {
            fill(device, &mut moving, &values)?;
            Some(DeviceImage { grid: grid.clone(), values, outside: 0.0, open: false })
        }
        // What is beyond is unknown.
        None if moving.open => Some(everywhere(device, grid)?),
        None => None,
    };
    Ok(SliceImages { slices, weights, moving, shown })
}

/// The calibration of all slices.
fn calibration<D: Device>(device: &D, input: &SlicesInput<'_>) -> Result<Calibration> {
    let mut all = memory::room(input.slices.iter().map(|s| s.image.data().len()).sum())?;
    input.slices.iter().for_each(|s| all.extend_from_slice(s.image.data()));
    Calibration::on(device, Role::Fixed, &device.upload_vec(all)?, None, TOP)
}
