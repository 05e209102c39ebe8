//! Images of any size, which are resampled block by block.

use super::checks::fits;
use super::{Applied, Job};
pub(super) use crate::blocks::is_pyramid;
use crate::blocks::warp::{Limits, Warp, Warped, background};
use crate::blocks::{has, there};
use crate::error::{Error, Result};
use crate::files::{self, Kind};
use crate::listener::{Level, Listener, check, reading};
use crate::machine::Machine;
use std::path::Path;
use std::sync::Arc;
use voxalign_compute::select::AnyDevice;
use voxalign_compute::{Device, ops};
use voxalign_image::{Grid, Transform, Vector3};
use voxalign_io::image::{DataType, read_info, write_volume};
use voxalign_io::pyramid::{PyramidOptions, PyramidSource, PyramidToWrite, PyramidWriter, open};
use voxalign_options::text;

/// Extensions of files that are written in blocks.
const WRITTEN: [&str; 4] = ["zarr", "tif", "tiff", "btf"];

/// An image that is read in blocks, a channel each.
#[derive(Debug)]
pub(super) struct Large {
    channels: Vec<Arc<dyn PyramidSource>>,
    /// The only channel, or the luminance.
    grey: Arc<dyn PyramidSource>,
}

/// Whether a file of this name is written in blocks.
pub(super) fn is_written(path: &Path) -> bool {
    has(path, &WRITTEN)
}

/// What a file of this name will hold; where an image has none of the names that can be written, all of these are said.
pub(super) fn kind_to_write(path: &Path, from: Kind) -> Result<Kind> {
    if is_written(path) {
        return Ok(Kind::Image);
    }
    files::kind_to_write(path, from).map_err(|error| match from {
        Kind::Image if !path.is_dir() => Error::input(text!(
            "'{}': images are not written with this extension; use one of .nii, .nii.gz, .hdr, .img, .mha, .mhd, .nrrd, .nhdr, or, for \
             an image in blocks with coarser levels, .zarr, .tif, .tiff, .btf",
            path.display()
        )),
        _ => error,
    })
}

/// As [`files::check_output`]; an OME-Zarr is a folder that may be there.
pub(super) fn check_output<'a>(
    output: &Path,
    inputs: impl IntoIterator<Item = &'a Path>,
) -> Result<()> {
    if !has(output, &["zarr"]) || !output.is_dir() {
        return files::check_output(output, inputs);
    }
    let same = |input: &Path| match (input.canonicalize(), output.canonicalize()) {
        (Ok(a), Ok(b)) => a.starts_with(b),
        _ => false,
    };
    if inputs.into_iter().any(same) {
        return Err(Error::input(text!(
            "'{}' is both an input and an output; inputs are never overwritten: choose another name for the output",
            output.display()
        )));
    }
    Ok(())
}

/// The grid of the reference and its dimensions: of a pyramid that of the finest level.
pub(super) fn reference(path: &Path, listener: &dyn Listener) -> Result<(Grid, usize)> {
    if !is_pyramid(path) {
        let info = reading(listener, || read_info(path))?;
        return Ok((info.grid, info.dimensions));
    }
    let source = opened(path, listener)?;
    let grid = source.levels()[0].grid.clone();
    let dimensions = if grid.is_2d() { 2 } else { 3 };
    Ok((grid, dimensions))
}

/// The file; of several channels their luminance, or the first where there is none.
fn opened(path: &Path, listener: &dyn Listener) -> Result<Box<dyn PyramidSource>> {
    there(path)?;
    reading(listener, || {
        open(path, &PyramidOptions::default()).or_else(|error| {
            let first = PyramidOptions { channel: Some(0), ..Default::default() };
            open(path, &first).ok().filter(|source| source.info().channels > 1).ok_or(error)
        })
    })
}

impl Large {
    /// Reads what the file says of itself; `written` where the result has all channels.
    pub(super) fn open(path: &Path, written: bool, listener: &dyn Listener) -> Result<Self> {
        let grey: Arc<dyn PyramidSource> = Arc::from(opened(path, listener)?);
        let count = grey.info().channels;
        let mut channels = Vec::new();
        for number in 0..count {
            if count == 1 {
                channels.push(grey.clone());
                continue;
            }
            let options = PyramidOptions { channel: Some(number), ..Default::default() };
            channels.push(Arc::from(reading(listener, || open(path, &options))?));
        }
        // What is read: where all channels are written none becomes the luminance.
        let read = if written { channels.first() } else { None };
        for oddity in &read.unwrap_or(&grey).info().oddities {
            listener.say(Level::Warning, format!("'{}': {oddity}", path.display()));
        }
        Ok(Self { channels, grey })
    }

    fn grid(&self) -> &Grid {
        &self.grey.levels()[0].grid
    }
}

impl Job {
    /// Resamples an image block by block.
    pub(super) fn large(
        &self,
        machine: &Machine,
        (reference, dimensions): (&Grid, usize),
        large: &Large,
        listener: &dyn Listener,
    ) -> Result<Applied> {
        let rule = self.interpolation.unwrap_or_default().of_image()?;
        let transform = self.transform(machine, reference, large.grid(), listener)?;
        self.check_plane(reference, large.grid(), &transform)?;
        let limits = Limits::default();
        let outside = match self.outside {
            Some(given) => given.0,
            None => background(&*large.grey, limits, listener)?,
        };
        let stored = large.grey.info().data_type;
        let data_type = match self.data_type {
            Some(given) => given,
            None if is_written(&self.output) || rule == ops::resample::Interpolation::Nearest => {
                stored
            }
            None => DataType::F32,
        };
        if !fits(outside, data_type) {
            return Err(Error::input(text!(
                "`outside = {outside}` cannot be stored as {data_type}; give a whole number that it holds"
            )));
        }
        let what = What { reference, dimensions, data_type, rule, outside, limits };
        let warped = match &machine.device {
            AnyDevice::Cpu(cpu) => self.blocks(cpu, large, &transform, &what, listener)?,
            AnyDevice::Cuda(gpu) => self.blocks(gpu, large, &transform, &what, listener)?,
        };
        Ok(Applied { kind: Kind::Image, count: reference.len(), met: warped.met })
    }

    fn blocks<D: Device>(
        &self,
        device: &D,
        large: &Large,
        transform: &Transform,
        what: &What<'_>,
        listener: &dyn Listener,
    ) -> Result<Warped> {
        let pyramid = is_written(&self.output);
        let grey = [large.grey.clone()];
        let warp = Warp {
            device,
            sources: if pyramid { &large.channels } else { &grey },
            grid: what.reference,
            transform,
            interpolation: what.rule,
            outside: what.outside,
            limits: what.limits,
        };
        if !pyramid {
            let (volume, warped) = warp.volume(listener)?;
            check(listener)?;
            files::warn_of_rounding(volume.data(), what.data_type, listener);
            let options = files::write_options(what.data_type, what.dimensions);
            write_volume(&self.output, &volume, &options)?;
            return Ok(warped);
        }
        let mut to = PyramidToWrite::new(what.reference.clone(), what.data_type);
        to.channels = large.channels.len();
        let writer = PyramidWriter::create(&self.output, &to)?;
        let warped = warp.write(&writer, what.data_type, (0, 1), listener)?;
        for level in 1..writer.levels().len() {
            check(listener)?;
            writer.reduce(level, 0, 1)?;
        }
        check(listener)?;
        writer.finish_reduced()?;
        // That values between pixels are rounded to the type of the image goes without saying.
        if self.data_type.is_some_and(|given| given != large.grey.info().data_type) {
            files::say_changes((warped.clamped, warped.rounded), what.data_type, listener);
        }
        Ok(warped)
    }

    /// An error where a transform leads from one plane out of the other, in which there is nothing.
    fn check_plane(&self, reference: &Grid, moving: &Grid, transform: &Transform) -> Result<()> {
        if !(reference.is_2d() && moving.is_2d()) {
            return Ok(());
        }
        let dims = reference.dims();
        let off = |i: usize| {
            let corner =
                Vector3::from_fn(|a, _| if i >> a & 1 == 1 { (dims[a] - 1) as f64 } else { 0.0 });
            let to = transform.apply(reference.index_to_world(corner));
            moving.world_to_index(to)[2]
        };
        let farthest =
            (0..4).map(off).fold(0.0f64, |far, z| if z.abs() > far.abs() { z } else { far });
        if farthest.abs() <= 0.5 {
            return Ok(());
        }
        Err(Error::input(text!(
            "the transform leads out of the plane of '{}', by up to {:.4} mm, where it has nothing; give a transform of two \
             dimensions for images of a single slice",
            self.input.display(),
            farthest.abs() * moving.spacing()[2]
        )))
    }
}

/// What becomes of the image.
struct What<'a> {
    reference: &'a Grid,
    dimensions: usize,
    data_type: DataType,
    rule: ops::resample::Interpolation,
    outside: f32,
    limits: Limits,
}
