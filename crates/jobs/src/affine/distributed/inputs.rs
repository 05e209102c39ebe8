//! The images of a registration in blocks: their files, with all levels.

use super::{Blockwise, PYRAMIDS, WARPED_BLOCKS};
use crate::blocks::source::Blocks;
use crate::blocks::{is_zarr, opened, record};
use crate::error::{Error, Result};
use crate::listener::Level;
use crate::options::refuse;
use crate::plan::Reads;
use crate::run::{Role, WARPED};
use std::path::PathBuf;
use std::sync::Arc;
use voxalign_compute::comm::Communicator;
use voxalign_image::Grid;
use voxalign_io::image::Oddity;
use voxalign_io::pyramid::{
    CompleteOptions, Completion, Missing, PixelType, PyramidFormat, PyramidOptions, PyramidSource,
    all_levels,
};
use voxalign_options::{Choice as _, Text, text};
use voxalign_register::RegisterError;
use voxalign_register::compare::same_grid;
use voxalign_register::linear::spread::{SpreadInput, check_memory};
use voxalign_report::{InputRecord, PyramidRecord};

/// A file with its role.
struct File {
    role: Role,
    source: Arc<dyn PyramidSource>,
}

/// The files: the fixed and the moving image, and the mask of the fixed one.
pub(super) struct Files {
    fixed: File,
    moving: File,
    mask: Option<File>,
}

impl Files {
    /// Reads what the files say of themselves.
    pub(super) fn open(run: &Blockwise<'_>) -> Result<Self> {
        let (paths, how) = (&run.job.paths, &run.job.distributed);
        let open = |role: Role, path: &PathBuf, options: PyramidOptions| {
            let source = opened(path, &options, run.listener).map_err(|e| e.choosing(role))?;
            for oddity in &source.info().oddities {
                run.listener.say(Level::Warning, format!("'{}': {oddity}", path.display()));
            }
            Ok::<_, Error>(File { role, source: Arc::from(source) })
        };
        let mask = paths.masks.fixed_mask.as_ref();
        let all = [Some(&paths.fixed), Some(&paths.moving), mask];
        let none = !all.into_iter().flatten().any(|path| is_zarr(path));
        refuse(how.missing.is_some() && none, "missing", "images in OME-Zarr")?;
        let image = |role, path: &PathBuf, volume| {
            let mut options = how.of(role, volume);
            // Nothing else has chunks.
            if !is_zarr(path) {
                options.missing = Missing::Error;
            }
            open(role, path, options)
        };
        let fixed = image(Role::Fixed, &paths.fixed, paths.which.fixed_volume)?;
        let moving = image(Role::Moving, &paths.moving, paths.which.moving_volume)?;
        let mask = mask.map(|path| image(Role::FixedMask, path, None)).transpose();
        let mask = mask.map_err(|e| e.at(Text::option("fixed_mask")))?;
        if let Some(mask) = &mask {
            same_grid(mask.grid(), fixed.grid())
                .map_err(|e| Error::from(e).at(text!("`fixed_mask` and the fixed image")))?;
        }
        let [flat, other] = [&fixed, &moving].map(|file| if file.grid().is_2d() { 2 } else { 3 });
        if flat != other {
            return Err(RegisterError::Dimensions { fixed: flat, moving: other }.into());
        }
        let files = Self { fixed, moving, mask };
        if let Some(unlike) = files.one_size() {
            run.listener.say(Level::Warning, unlike);
        }
        Ok(files)
    }

    /// A warning where one image says how large its pixels are, and the other does not.
    fn one_size(&self) -> Option<String> {
        let (known, other) = match [&self.fixed, &self.moving].map(File::knows_size) {
            [true, false] => (&self.fixed, &self.moving),
            [false, true] => (&self.moving, &self.fixed),
            [true, true] | [false, false] => return None,
        };
        // Without the noise of rounding.
        let size = (known.grid().spacing()[0] * 1e9).round() / 1e9;
        Some(format!(
            "pixels of '{}' are {size} mm by its file, and '{}' does not say how large its pixels are, so that 1 mm is assumed: the scales \
             of the images hardly agree; write the pixel size into that file (the resolution of a TIFF, or the scale of an OME-Zarr)",
            known.source.path().display(),
            other.source.path().display(),
        ))
    }

    /// Refuses too little memory of devices before anything is made or searched; `ranks` where their number is known.
    pub(super) fn check_memory(&self, run: &Blockwise<'_>, ranks: Option<usize>) -> Result<()> {
        let options = run.options(run.job.method.usual(false)?)?;
        let grids = |file: &File| -> Result<Vec<Grid>> {
            let levels = all_levels(file.source.info(), &CompleteOptions::default())?;
            Ok(levels.into_iter().map(|level| level.grid).collect())
        };
        let [fixed, moving] = [grids(&self.fixed)?, grids(&self.moving)?];
        let wide = self.moving.source.info().pixel_type == PixelType::U16;
        Ok(check_memory(ranks, [&fixed, &moving], wide, &options)?)
    }

    fn all(&self) -> impl Iterator<Item = &File> {
        [Some(&self.fixed), Some(&self.moving), self.mask.as_ref()].into_iter().flatten()
    }

    /// The name of the resampled image: in blocks, where the fixed one is of a kind that is written so.
    pub(super) fn warped(&self) -> &'static str {
        match self.fixed.source.info().format {
            PyramidFormat::Image => WARPED,
            _ => WARPED_BLOCKS,
        }
    }

    /// For a dry run.
    pub(super) fn reads(&self) -> impl Iterator<Item = Reads> {
        self.all().map(|file| Reads {
            role: file.role.name().to_owned(),
            path: file.source.path().to_owned(),
            dims: Some(file.grid().dims()),
            spacing_mm: Some(file.grid().spacing()),
        })
    }

    /// For the record of a run.
    pub(super) fn records(&self, run: &Blockwise<'_>) -> Result<Vec<InputRecord>> {
        self.all().map(|f| record(f.role.name(), f.source.info(), run.listener)).collect()
    }

    /// The same with all levels; all ranks make those that are missing together.
    pub(super) fn completed(&self, run: &Blockwise<'_>, world: &Communicator) -> Result<Images> {
        let own = run.job.output.join(PYRAMIDS);
        let work = run.job.distributed.work.as_ref().unwrap_or(&own);
        let mut sources = Vec::new();
        let (mut made, mut folders) = (Vec::new(), Vec::new());
        for file in self.all() {
            let options = CompleteOptions::default();
            let completion = Completion::new(Arc::clone(&file.source), work, &options);
            let completion = world.agree(completion.map_err(Error::from))?;
            let steps = completion.steps();
            folders.extend(completion.folder().map(ToOwned::to_owned));
            if steps > 0 {
                let (path, levels) =
                    (file.source.path().display(), if steps == 1 { "level" } else { "levels" });
                let told = format!("'{path}': {steps} coarser {levels} in '{}'", work.display());
                run.listener.say(Level::Normal, told);
            }
            for step in 0..steps {
                let stop = || run.listener.stop();
                let built = completion.build(step, world.rank(), world.size(), &stop);
                let built = match built {
                    Ok(true) => Ok(()),
                    Ok(false) => Err(Error::Stopped),
                    Err(e) => Err(e.into()),
                };
                world.agree(built)?;
            }
            // What the first one finishes, the others read.
            let rank = world.rank();
            let (mut completion, mut source) = (Some(completion), None);
            for turn in 0..2 {
                let own = if usize::from(rank != 0) == turn { completion.take() } else { None };
                let finished = own.map(|completion| completion.finish(rank)).transpose();
                source = source.or(world.agree(finished.map_err(Error::from))?);
            }
            let source = source.ok_or_else(|| Error::Internal("a pyramid is not there".into()))?;
            made.push(pyramid(file, &*source, steps));
            sources.push(Arc::<dyn PyramidSource>::from(source));
        }
        let mask = sources.get(2).cloned();
        let [fixed, moving, ..] = &sources[..] else {
            return Err(Error::Internal("an image is not there".into()));
        };
        Ok(Images {
            fixed: Blocks::new(Arc::clone(fixed)).within(mask),
            moving: Blocks::new(Arc::clone(moving)),
            one_size: self.one_size(),
            made,
            folders,
        })
    }
}

impl File {
    fn grid(&self) -> &Grid {
        &self.source.levels()[0].grid
    }

    fn knows_size(&self) -> bool {
        self.source.info().pixel_size_known
    }
}

fn pyramid(file: &File, whole: &dyn PyramidSource, made: usize) -> PyramidRecord {
    let info = whole.info();
    PyramidRecord {
        role: file.role.name().to_owned(),
        format: info.format.to_string(),
        bits: 8 * info.pixel_type.size(),
        channels: info.channels,
        levels: info.levels.iter().map(|level| level.dims()).collect(),
        made,
    }
}

/// The images with all levels.
pub(super) struct Images {
    fixed: Blocks,
    moving: Blocks,
    /// What is to be said where one image alone says how large its pixels are.
    one_size: Option<String>,
    made: Vec<PyramidRecord>,
    /// Those of levels that were made.
    folders: Vec<PathBuf>,
}

impl Images {
    pub(super) fn input(&self) -> SpreadInput<'_> {
        SpreadInput { fixed: &self.fixed, moving: &self.moving }
    }

    /// The moving image.
    pub(super) fn moving(&self) -> &Arc<dyn PyramidSource> {
        self.moving.source()
    }

    /// The fixed image.
    pub(super) fn fixed(&self) -> &Arc<dyn PyramidSource> {
        self.fixed.source()
    }

    /// Of full resolution.
    pub(super) fn grids(&self) -> [Grid; 2] {
        [&self.fixed, &self.moving].map(|image| image.source().levels()[0].grid.clone())
    }

    /// What pixels have added to the values of their files.
    pub(super) fn offsets(&self) -> [i32; 2] {
        [&self.fixed, &self.moving].map(|image| image.source().info().offset)
    }

    pub(super) fn records(&self) -> Vec<PyramidRecord> {
        self.made.clone()
    }

    /// What the reader of the result should know of the files. That colours became luminance was said as they were opened, and is among the
    /// channels of the report.
    pub(super) fn remarks(&self) -> Vec<Text> {
        let of = |role: &str, image: &Blocks| -> Vec<Text> {
            let info = image.source().info();
            let usual = |o: &&Oddity| o.is_normal_geometry() || matches!(o, Oddity::Colour(_));
            let odd = info.oddities.iter().filter(|o| !usual(o));
            odd.map(|o| text!("the file of the {role} image: {o}")).collect()
        };
        let one_size = self.one_size.iter().cloned().map(Text::from).collect();
        [one_size, of("fixed", &self.fixed), of("moving", &self.moving)].concat()
    }

    /// Removes the levels that were made, unless they were asked for.
    pub(super) fn clear(self, run: &Blockwise<'_>) {
        if run.job.distributed.work.is_some() {
            return;
        }
        let Self { folders, .. } = self;
        for folder in folders {
            // What cannot be removed is of use to a later run.
            let _ = std::fs::remove_dir_all(folder);
        }
        let _ = std::fs::remove_dir(run.job.output.join(PYRAMIDS));
    }
}
