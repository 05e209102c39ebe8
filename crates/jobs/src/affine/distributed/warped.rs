//! The moving image at full resolution on the grid of the fixed one, written by all ranks.

use super::inputs::Images;
use super::{Blockwise, WARPED_BLOCKS};
use crate::blocks::opened;
use crate::blocks::warp::{Limits, Warp};
use crate::error::{Error, Result};
use crate::listener::check;
use std::path::Path;
use std::sync::Arc;
use voxalign_compute::comm::Communicator;
use voxalign_compute::select::AnyDevice;
use voxalign_image::{Transform, Volume};
use voxalign_io::pyramid::{
    PyramidFormat, PyramidOptions, PyramidSource, PyramidToWrite, PyramidWriter,
};
use voxalign_register::linear::spread::SpreadResult;

/// What was resampled.
pub(super) enum Written {
    /// All levels, without their final name; of ranks other than the first the first one gives it.
    Blocks(Box<PyramidWriter>),
    /// The whole, at the first rank.
    Volume(Box<Volume<f32>>),
    /// The whole, elsewhere.
    Elsewhere,
}

impl Blockwise<'_> {
    /// Resamples it under what was found.
    pub(super) fn warped(
        &self,
        device: &AnyDevice,
        world: &Communicator,
        images: &Images,
        (found, outside): (&SpreadResult, f32),
    ) -> Result<Written> {
        let sources = world.agree(self.channels(images))?;
        let transform = Transform::Affine(found.transform);
        let grid = images.grids()[0].clone();
        let warp = Warp {
            device,
            sources: &sources,
            grid: &grid,
            transform: &transform,
            interpolation: self.job.written.interpolation().of_image()?,
            outside,
            limits: Limits::default(),
        };
        if images.fixed().info().format == PyramidFormat::Image {
            let volume = match world.is_first() {
                true => warp.volume(self.listener).map(|(volume, _)| Some(volume)),
                false => Ok(None),
            };
            return Ok(match world.agree(volume)? {
                Some(volume) => Written::Volume(Box::new(volume)),
                None => Written::Elsewhere,
            });
        }
        let data_type = images.moving().info().data_type;
        let data_type = match images.moving().info().options.window {
            // Values as they were registered.
            Some(_) => voxalign_io::image::DataType::U16,
            None => data_type,
        };
        let mut to = PyramidToWrite::new(grid.clone(), data_type);
        to.channels = sources.len();
        let writer = self.writer(world, &to)?;
        let share = (world.rank(), world.size());
        world.agree(warp.write(&writer, data_type, share, self.listener).map(drop))?;
        for level in 1..writer.levels().len() {
            let reduced = check(self.listener)
                .and_then(|()| Ok(writer.reduce(level, world.rank(), world.size())?));
            world.agree(reduced)?;
        }
        Ok(Written::Blocks(Box::new(writer)))
    }

    /// The first rank begins it, and the others join.
    fn writer(&self, world: &Communicator, to: &PyramidToWrite) -> Result<PyramidWriter> {
        let path = self.job.output.join(WARPED_BLOCKS);
        let own = match world.is_first() {
            true => PyramidWriter::create(&path, to).map(Some),
            false => Ok(None),
        };
        let own = world.agree(own.map_err(Error::from))?;
        let place = own.as_ref().map(|writer| writer.place().to_string_lossy().into_owned());
        let mut place = place.unwrap_or_default().into_bytes();
        world.broadcast_bytes(&mut place, 0)?;
        let place = String::from_utf8_lossy(&place);
        let joined = match own {
            Some(own) => Ok(own),
            None => PyramidWriter::join(&path, Path::new(&*place), to).map_err(Error::from),
        };
        world.agree(joined)
    }

    /// The channels of the moving image, all of them where nothing was chosen; of files that are slow to read in parts what was registered.
    fn channels(&self, images: &Images) -> Result<Vec<Arc<dyn PyramidSource>>> {
        let info = images.moving().info();
        let one = || Ok(vec![Arc::clone(images.moving())]);
        if info.channels == 1 || info.options.channel.is_some() {
            return one();
        }
        let file = opened(&info.path, &info.options, self.listener)?;
        if file.levels()[0].slow {
            return one();
        }
        let channel = |number| {
            let options = PyramidOptions { channel: Some(number), ..info.options.clone() };
            opened(&info.path, &options, self.listener).map(Arc::from)
        };
        (0..info.channels).map(channel).collect()
    }
}
