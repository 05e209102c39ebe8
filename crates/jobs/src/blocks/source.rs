//! Images of files as blocks of several scales.

use std::sync::Arc;
use voxalign_compute::ops::joint::Block;
use voxalign_image::{Grid, memory};
use voxalign_io::IoError;
use voxalign_io::image::Region;
use voxalign_io::pyramid::{PixelType, Pixels, PyramidSource};
use voxalign_register::RegisterError;
use voxalign_register::linear::spread::{ImageBlocks, PixelBlock};

/// An image of a file with all its levels, and where it counts.
#[derive(Debug, Clone)]
pub(crate) struct Blocks {
    source: Arc<dyn PyramidSource>,
    grids: Vec<Grid>,
    mask: Option<Arc<dyn PyramidSource>>,
}

impl Blocks {
    /// An image without a mask.
    pub(crate) fn new(source: Arc<dyn PyramidSource>) -> Self {
        let grids = source.levels().iter().map(|level| level.grid.clone()).collect();
        Self { source, grids, mask: None }
    }

    /// The same that counts where a mask on its finest grid is not 0.
    pub(crate) fn within(self, mask: Option<Arc<dyn PyramidSource>>) -> Self {
        Self { mask, ..self }
    }

    /// The file.
    pub(crate) fn source(&self) -> &Arc<dyn PyramidSource> {
        &self.source
    }
}

fn told(error: IoError) -> RegisterError {
    RegisterError::Unreadable(Box::new(error))
}

fn region(block: &Block) -> Region {
    Region { start: block.origin, size: block.dims }
}

impl ImageBlocks for Blocks {
    fn scales(&self) -> &[Grid] {
        &self.grids
    }

    fn is_wide(&self) -> bool {
        self.source.info().pixel_type == PixelType::U16
    }

    fn read(&self, scale: usize, block: &Block) -> Result<PixelBlock, RegisterError> {
        Ok(match self.source.block(scale, &region(block)).map_err(told)? {
            Pixels::U8(values) => PixelBlock::Bytes(values),
            Pixels::U16(values) => PixelBlock::Words(values),
        })
    }

    fn mask(&self, scale: usize, block: &Block) -> Result<Option<Vec<u8>>, RegisterError> {
        let Some(mask) = &self.mask else { return Ok(None) };
        let dims = self.grids[scale].dims();
        let levels: Vec<_> = mask.levels().iter().map(|level| level.dims()).collect();
        let level = nearest(&levels, dims);
        let axes = [0, 1, 2].map(|a| Along::new(block, a, dims[a], levels[level][a]));
        let needed = Region {
            start: [0, 1, 2].map(|a| axes[a].start),
            size: [0, 1, 2].map(|a| axes[a].size()),
        };
        let inside: Vec<bool> = match mask.block(level, &needed).map_err(told)? {
            Pixels::U8(values) => memory::collected(values.iter().map(|&v| v != 0))?,
            Pixels::U16(values) => memory::collected(values.iter().map(|&v| v != 0))?,
        };
        let mut out = memory::room(block.len())?;
        let [x, y, z] = &axes;
        for &k in &z.places {
            for &j in &y.places {
                let row = needed.size[0] * (j + needed.size[1] * k);
                out.extend(x.places.iter().map(|&i| u8::from(inside[row + i])));
            }
        }
        Ok(Some(out))
    }
}

/// The level of the sizes that are most alike to these.
fn nearest(levels: &[[usize; 3]], dims: [usize; 3]) -> usize {
    let far = |level: usize| -> f64 {
        (0..3).map(|a| (levels[level][a] as f64 / dims[a] as f64).ln().abs()).sum()
    };
    (0..levels.len()).min_by(|&a, &b| far(a).total_cmp(&far(b))).unwrap_or(0)
}

/// Which pixels of a mask are at those of a block, along an axis.
struct Along {
    /// The first that is read.
    start: usize,
    /// Of each pixel of the block, counted from there.
    places: Vec<usize>,
}

impl Along {
    fn new(block: &Block, axis: usize, image: usize, mask: usize) -> Self {
        let own = block.origin[axis]..block.origin[axis] + block.dims[axis];
        // The pixel in which the centre lies.
        let at = |i: usize| ((2 * i + 1) * mask / (2 * image)).min(mask.saturating_sub(1));
        let start = at(own.start);
        Self { start, places: own.map(|i| at(i) - start).collect() }
    }

    fn size(&self) -> usize {
        self.places.last().map_or(0, |last| last + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_io::image::DataType;
    use voxalign_io::pyramid::{PyramidOptions, PyramidToWrite, PyramidWriter, open, reduced_grid};

    /// A file with one level whose pixels follow a rule.
    fn written(
        folder: &std::path::Path,
        name: &str,
        dims: [usize; 3],
        value: impl Fn(usize, usize) -> u8,
    ) -> Arc<dyn PyramidSource> {
        let path = folder.join(name);
        let grid = Grid::axis_aligned(dims, [0.01; 3]).unwrap();
        let axes = voxalign_image::Matrix3::from_diagonal(&voxalign_image::Vector3::new(
            -0.01, -0.01, 0.01,
        ));
        let grid = Grid::new(
            grid.dims(),
            voxalign_image::Affine::new(axes, voxalign_image::Vector3::zeros()),
        )
        .unwrap();
        let writer =
            PyramidWriter::create(&path, &PyramidToWrite::new(grid, DataType::U8)).unwrap();
        let pixels = (0..dims[1]).flat_map(|y| (0..dims[0]).map(move |x| (x, y)));
        let pixels = Pixels::U8(pixels.map(|(x, y)| value(x, y)).collect());
        writer.write(&Region::whole(dims), pixels.view()).unwrap();
        writer.finish().unwrap();
        Arc::from(open(&path, &PyramidOptions::default()).unwrap())
    }

    #[test]
    fn a_mask_counts_where_the_image_is() {
        let folder = tempfile::tempdir().unwrap();
        let image = written(folder.path(), "image.ome.zarr", [40, 30, 1], |x, y| (x + y) as u8);
        let mask = written(folder.path(), "mask.ome.zarr", [40, 30, 1], |x, y| {
            u8::from(x >= 20 && y < 10)
        });
        let mut blocks = Blocks::new(image).within(Some(mask));
        let block = Block { origin: [18, 8, 0], dims: [4, 4, 1] };
        let inside = blocks.mask(0, &block).unwrap().unwrap();
        let expected: Vec<u8> =
            (8..12).flat_map(|y| (18..22).map(move |x| u8::from(x >= 20 && y < 10))).collect();
        assert_eq!(inside, expected);
        // A coarser scale of the image, of which the mask has no level.
        let coarse = reduced_grid(&blocks.grids[0], [true, true, false]).unwrap();
        blocks.grids.push(coarse);
        let inside =
            blocks.mask(1, &Block { origin: [9, 4, 0], dims: [3, 2, 1] }).unwrap().unwrap();
        assert_eq!(inside, [0, 1, 1, 0, 0, 0]);
        let pixels = blocks.read(0, &block).unwrap();
        assert_eq!(pixels.values().next(), Some(26));
    }
}
