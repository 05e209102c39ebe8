//! A registration of images that are read in blocks, and spread over the devices of all ranks.
//!
//! Each rank reads its own blocks. What is not of blocks, the search of whole images at a coarse scale, the verdict, the record and the
//! report, is the first rank's; all of them write the resampled image together.

mod inputs;
mod record;
mod warped;

use super::{Job, Registered, scored};
use crate::error::{Error, Result};
use crate::listener::{Level, Listener};
use crate::machine::Machine;
use crate::options::{Distributed, InitChoice, Product};
use crate::pair::{Distances, Pair, landmark_remarks, score_figures};
use crate::plan::Plan;
use crate::run::{self, Caller, Done, Input, Output};
use crate::staged::Staged;
use crate::team::as_ranks;
use inputs::{Files, Images};
use std::path::PathBuf;
use voxalign_compute::comm::{Communicator, Team};
use voxalign_compute::ops::joint::{BlockRule, PixelsPerThread};
use voxalign_compute::select::AnyDevice;
use voxalign_image::{Transform, Volume};
use voxalign_io::transform::Geometry;
use voxalign_options::text;
use voxalign_register::linear::spread::{SpreadOptions, SpreadResult, register_spread};
use voxalign_register::linear::{AffineOptions, AffineResult, Init, spread};
use voxalign_register::similarity::{Mi, Similarity};
use voxalign_register::{Progress, Silent, Verdict};
use voxalign_report::RunRecord;
use voxalign_report::affine::{AffineReport, render};
use warped::Written;

/// The resampled image, where the fixed one is of a kind that is written in blocks.
const WARPED_BLOCKS: &str = "warped.ome.zarr";

/// The folder of the levels that files lack, in that of the results.
const PYRAMIDS: &str = "pyramids";

/// What each file is, if the resampled image has this name.
fn outputs(warped: &'static str) -> [Output; 5] {
    let mut all = super::OUTPUTS;
    all[2] = Output::new("resampled", warped, Some(Product::Warped));
    all
}

/// A registration in blocks.
pub(super) struct Blockwise<'a> {
    pub(super) job: &'a Job,
    pub(super) kind: Distributed,
    pub(super) caller: &'a Caller,
    pub(super) listener: &'a dyn Listener,
}

/// The images at the coarse scale, the result with its scores, and their sizes.
type Shown = (Pair, Registered, [[usize; 3]; 2]);

/// What was found, at every rank.
struct Found {
    result: SpreadResult,
    options: AffineOptions,
}

impl Blockwise<'_> {
    /// What is for images that are registered as wholes.
    pub(super) fn check_options(&self) -> Result<()> {
        let Job { paths, fixed_weight, method, bids, .. } = self.job;
        let (masks, which) = (&paths.masks, &paths.which);
        let given = [
            ("moving_mask", masks.moving_mask.is_some()),
            ("fixed_weight", fixed_weight.is_some()),
            ("fixed_labels", masks.fixed_labels.is_some()),
            ("moving_labels", masks.moving_labels.is_some()),
            ("label_names", masks.label_names.is_some()),
            ("fixed_series", which.fixed_series.is_some()),
            ("moving_series", which.moving_series.is_some()),
            ("bids", bids.bids.is_some()),
        ];
        if let Some((option, _)) = given.into_iter().find(|(_, given)| *given) {
            let whole = "images that are registered as wholes, without ";
            return Err(Error::Ignored(option, text!("{whole}`distributed`")));
        }
        self.options(method.usual(false)?)?.check()?;
        Ok(())
    }

    /// As a registration takes them.
    fn options(&self, affine: AffineOptions) -> Result<SpreadOptions> {
        let similarity = affine.first_similarity();
        Ok(SpreadOptions {
            similarity,
            placement: self.kind.placement(),
            memory: self.job.distributed.memory()?,
            blocks: BlockRule::default(),
            list: self.kind.list(),
            pixels_per_thread: PixelsPerThread::default(),
            // All scales compare by the same measure.
            affine: AffineOptions { similarity: Some(similarity), ..affine },
        })
    }

    /// All files with what they are.
    fn files(&self) -> Vec<Input<'_>> {
        let mut all = self.job.paths.all();
        all.extend(self.job.method.init.iter().flat_map(InitChoice::inputs));
        all
    }

    /// What can be checked before a device is started.
    pub(super) fn check(&self) -> Result<()> {
        // An older resampled image in blocks is a folder, and may be there.
        let run = self.job.as_run(self.caller, self.listener);
        run.check(&outputs(run::WARPED), &self.files())?;
        let paths = &self.job.paths;
        let images = [Some(&paths.fixed), Some(&paths.moving), paths.masks.fixed_mask.as_ref()];
        let written = self.job.output.join(WARPED_BLOCKS);
        let same = |image: &&PathBuf| match (image.canonicalize(), written.canonicalize()) {
            (Ok(a), Ok(b)) => a.starts_with(b),
            _ => false,
        };
        match images.into_iter().flatten().find(same) {
            Some(image) => Err(Error::input(text!(
                "'{}' is both an input and an output; inputs are never overwritten: choose another folder as `output`",
                image.display()
            ))),
            None => Ok(()),
        }
    }

    /// What it would read and write.
    pub(super) fn plan(&self) -> Result<Plan> {
        let files = Files::open(self)?;
        files.check_memory(self, None)?;
        let run = self.job.as_run(self.caller, self.listener);
        let others: Vec<_> = self.files().into_iter().filter(|i| !i.is_image()).collect();
        let mut plan = run.plan(&others, &outputs(files.warped()))?;
        plan.reads.splice(0..0, files.reads());
        Ok(plan)
    }

    /// Does it all.
    pub(super) fn run(&self, machine: &Machine) -> Result<Done<RunRecord>> {
        let alone;
        let team = match &machine.team {
            Some(team) => team,
            None => {
                alone = Team::new(vec![machine.device.clone()], Communicator::single())?;
                &alone
            }
        };
        let world = team.ranks();
        let done = self.whole(machine, team);
        // The others wait until all is written.
        world.agree(done)
    }

    fn whole(&self, machine: &Machine, team: &Team<AnyDevice>) -> Result<Done<RunRecord>> {
        let (job, world, listener) = (self.job, team.ranks(), self.listener);
        let run = job.as_run(self.caller, listener);
        let mut clock = run::Clock::start();
        if machine.gpu().is_some() {
            clock.add("device", machine.seconds);
        }
        let files = world.agree(Files::open(self))?;
        let count = world.size().max(team.devices().len());
        world.agree(files.check_memory(self, Some(count)))?;
        let staged = match world.is_first() {
            true => Staged::new(&job.output, listener).map(Some),
            false => Ok(None),
        };
        let staged = world.agree(staged)?;
        clock.lap("read");
        let images = files.completed(self, world)?;
        clock.lap("pyramid");

        let grids = images.grids();
        let geometry = Geometry { fixed: Some(&grids[0]), moving: Some(&grids[1]) };
        let mut options = world.agree(job.method.options(&geometry, listener))?;
        if grids.iter().all(|grid| grid.dims()[2] == 1) {
            // At the landmarks of eight pairs of stained sections the worst median error is 1.19 times that of the landmarks' own best affine
            // map; by nmi it is 1.25, of a map that nmi holds for better.
            options.similarity.get_or_insert(Similarity::Mi(Mi::default()));
        }
        run.say_grids(&grids);
        let found = self.found(team, &images, options)?;
        clock.lap("register");
        listener.say(Level::Normal, record::in_words(count, &found.result));
        let (shown, writer) = self.shown(machine, world, &images, &found.result)?;
        clock.lap("resample");

        let ranks = record::ranks(world, team.devices())?;
        let (Some(mut staged), Some((pair, registered, whole))) = (staged, shown) else {
            let record =
                RunRecord { verdict: Verdict::new(vec![], vec![]), ..RunRecord::default() };
            return Ok(Done::new(record, &job.output));
        };
        let Registered { result, views, remarks, outside } = registered;
        if run.writes(Product::Affine) {
            run::write_affine(&mut staged, &result.transform, pair.dimensions, &geometry)?;
        }
        let (warped, writer) = match writer {
            Some(Written::Blocks(writer)) => (WARPED_BLOCKS, Some(writer)),
            Some(Written::Volume(volume)) => {
                let as_floats =
                    crate::files::write_options(voxalign_io::image::DataType::F32, pair.dimensions);
                staged.write(run::WARPED, |path| {
                    voxalign_io::image::write_volume(path, &volume, &as_floats)
                })?;
                (run::WARPED, None)
            }
            Some(Written::Elsewhere) | None => (files.warped(), None),
        };
        // A result of an earlier run would seem to belong to this one.
        for older in [run::WARPED, WARPED_BLOCKS].into_iter().filter(|name| *name != warped) {
            staged.without(older);
        }
        clock.lap("write");

        let Found { result: spread, options } = found;
        let mut record = super::record::record(
            job,
            &run,
            machine,
            &options,
            (&result, grids[0].is_2d()),
            outside,
        );
        record.inputs = files.records(self)?;
        record.inputs.extend(run.inputs(&self.others())?);
        clock.lap("checksums");
        record.verdict.remarks.extend(remarks);
        record.transform = super::record::transform(&result, &grids[0]);
        record.figures = super::record::figures(&result);
        if let Init::Landmarks(pairs) = &options.init {
            let found = Transform::Affine(result.transform);
            let distances = Distances::of(pairs, &Transform::identity(), &found, &grids[0]);
            record.verdict.remarks.extend(landmark_remarks(pairs, [&grids[0], &grids[1]]));
            record.landmarks = distances.note(&mut record.figures);
        }
        score_figures(&mut record, &views, &pair.label_names);
        record.distributed =
            Some(record::record(self.kind, (ranks, images.records()), &spread, whole));
        record::add_parameters(&mut record, job, self.kind)?;
        let report = |record: &_| render(&AffineReport { record, images: views.images(&pair) });
        let rest = || {
            if let Some(writer) = writer {
                writer.finish_reduced()?;
            }
            Ok(())
        };
        let done = run.finish(staged, clock, record, &outputs(warped), rest, report)?;
        images.clear(self);
        Ok(done)
    }

    /// Files that are no images.
    fn others(&self) -> Vec<Input<'_>> {
        self.job.method.init.iter().flat_map(InitChoice::inputs).collect()
    }

    /// The transform.
    fn found(
        &self,
        team: &Team<AnyDevice>,
        images: &Images,
        affine: AffineOptions,
    ) -> Result<Found> {
        let options = self.options(affine)?;
        let register = |ranks: &Communicator, device: &AnyDevice| {
            let progress: &dyn Progress = match ranks.is_first() {
                true => self.listener,
                false => &Silent,
            };
            register_spread(device, ranks, images.input(), &options, progress)
                .map_err(|e| run::blamed(e, &self.files()))
        };
        let (world, devices) = (team.ranks(), team.devices());
        let result = match (world.size(), devices) {
            (1, [_, _, ..]) => as_ranks(devices, register)?,
            (_, [device, ..]) => register(world, device)?,
            (_, []) => return Err(Error::Internal("a rank has no device".into())),
        };
        Ok(Found { result, options: options.affine })
    }

    /// Images and scores of the coarse scale, at the first rank, and the resampled image at full resolution.
    fn shown(
        &self,
        machine: &Machine,
        world: &Communicator,
        images: &Images,
        found: &SpreadResult,
    ) -> Result<(Option<Shown>, Option<Written>)> {
        let own = match (&found.whole, &found.judged) {
            (Some(whole), Some(judged)) => {
                Some(self.scored(machine, images, merged(found, whole, judged)))
            }
            _ => None,
        };
        let own = world.agree(own.transpose())?;
        let mut outside = [own.as_ref().map_or(0.0, |(_, registered, _)| registered.outside)];
        world.broadcast(&mut outside, 0)?;
        let wanted = self.job.outputs.as_ref().is_none_or(|o| o.contains(Product::Warped));
        let written = match wanted {
            true => Some(self.warped(&machine.device, world, images, (found, outside[0]))?),
            false => None,
        };
        Ok((own, written))
    }

    /// Images and scores of the coarse scale.
    fn scored(&self, machine: &Machine, images: &Images, result: AffineResult) -> Result<Shown> {
        let coarse = spread::coarse_images(images.input())?;
        let [fixed, moving] = images.offsets();
        let mut pair = Pair::new(shifted(coarse.fixed, fixed)?, shifted(coarse.moving, moving)?);
        pair.fixed_mask = coarse.fixed_mask;
        let whole = [pair.fixed.grid().dims(), pair.moving.grid().dims()];
        let moving = pair.take_moving()?;
        let mut registered = scored(&machine.device, &pair, moving, result, &self.job.written)?;
        registered.remarks.extend(images.remarks());
        Ok((pair, registered, whole))
    }
}

/// The result of all scales in the form of one of whole images.
fn merged(spread: &SpreadResult, whole: &AffineResult, judged: &AffineResult) -> AffineResult {
    AffineResult {
        transform: spread.transform,
        cost_after: judged.cost_after,
        overlap: judged.overlap,
        evidence: judged.evidence,
        unmasked: judged.unmasked,
        verdict: judged.verdict.clone(),
        stages: whole.stages.iter().chain(&spread.stages).cloned().collect(),
        ..whole.clone()
    }
}

/// An image with the values of its file, of pixels that have so much added.
fn shifted(image: Volume<f32>, offset: i32) -> Result<Volume<f32>> {
    if offset == 0 {
        return Ok(image);
    }
    let (grid, mut values) = image.into_parts();
    values.iter_mut().for_each(|v| *v -= offset as f32);
    Ok(Volume::new(grid, values)?)
}
