//! From the coarse scale to full resolution.

use super::super::levels;
use super::super::plan::Until;
use super::super::problem::{check_dimensions, freedom_of};
use super::super::start::slice_frame;
use super::held::{Spread, held};
use super::objective::{SpreadObjective, index_map};
use super::options::{SpreadOptions, SpreadResult, SpreadScale};
use super::placed;
use super::scales::{self, Scales};
use super::source::ImageBlocks;
use crate::error::{RegisterError, Result};
use crate::linear::{
    AffineInput, AffineOptions, AffineResult, Init, Rescue, Search, register_affine,
};
use crate::metric::level::of_sums;
use crate::numbers::Levels;
use crate::progress::{Event, Progress};
use crate::search::pose::{Freedom, Model, Pose};
use crate::search::stage::{Stage, begin};
use crate::search::{Objective, StageRecord};
use crate::similarity::{CostAndDerivatives, Formula};
use crate::verdict::{Check, Remedy};
use voxalign_compute::Device;
use voxalign_compute::comm::Communicator;
use voxalign_compute::ops::joint::Block;
use voxalign_image::{Affine, Grid, Matrix3, Volume, memory};
use voxalign_options::Choice;

/// How exact a refinement is, in pixels of its scale: where a scale follows, and at the last one.
const EXACT: [f64; 2] = [0.1, 0.02];

/// A similarity, of counts and the number of columns.
pub(super) type Cost = fn(&[f64], usize) -> CostAndDerivatives;

/// Images that fit in memory.
#[derive(Debug)]
pub struct CoarseImages {
    /// The fixed image.
    pub fixed: Volume<f32>,
    /// The moving image.
    pub moving: Volume<f32>,
    /// What counts of the fixed image, above 0.
    pub fixed_mask: Option<Volume<f32>>,
}

/// Two images that are spread over ranks.
#[derive(Clone, Copy)]
pub struct SpreadInput<'a> {
    /// The fixed image.
    pub fixed: &'a dyn ImageBlocks,
    /// The moving image.
    pub moving: &'a dyn ImageBlocks,
}

/// Registers the moving image to the fixed one; all ranks call it, and all get the same transform. See the [module](super).
///
/// # Errors
/// At every rank: options out of range, images that cannot be registered or read, memory that runs out, a rank that has failed.
pub fn register_spread<D: Device>(
    device: &D,
    ranks: &Communicator,
    input: SpreadInput<'_>,
    options: &SpreadOptions,
    progress: &dyn Progress,
) -> Result<SpreadResult> {
    let SpreadInput { fixed, moving } = input;
    let finest = [&fixed.scales()[0], &moving.scales()[0]];
    check_dimensions(finest[0], finest[1])?;
    options.check()?;
    let bins = options.bins()?;
    let flat = finest[0].is_2d();
    let freedom = freedom_of(options.affine.dof, flat)?;
    let Formula::Joint(cost) = of_sums(&options.similarity)?.formula else {
        return Err(RegisterError::option(
            "cost",
            options.similarity.name().to_owned(),
            "give mi or nmi",
        ));
    };
    let scales = [fixed.scales(), moving.scales()];
    placed::check_memory(Some(ranks.size()), scales, moving.is_wide(), options)?;
    let plan = scales::plan(fixed.scales(), moving.scales());
    let whole = match ranks.is_first() {
        true => Some(whole(device, input, plan.whole, &options.affine, progress)),
        false => None,
    };
    let (whole, start) = shared(ranks, whole)?;
    let model = model(finest);
    let (mut pose, mut stages) = (model.pose_of(&start), Vec::with_capacity(plan.finer.len()));
    let (mut costs, mut spread_scales) = ([f64::NAN; 2], Vec::with_capacity(plan.finer.len()));
    let machine = placed::machine(device, ranks, options)?;
    let count = plan.finer.len();
    for (index, &scales) in plan.finer.iter().enumerate() {
        let grids = [&fixed.scales()[scales.fixed], &moving.scales()[scales.moving]];
        let between = index_map(grids, &model.affine(&pose))?;
        let placed = placed::placed(&machine, input, scales, &between, options)?;
        let spread =
            held(device, ranks, input, scales, (options, bins), (placed.strategy, &machine))?;
        let objective = objective(ranks, &spread, cost, grids, progress);
        let last = index + 1 == count;
        let refined =
            refine(&objective, &model, (pose, freedom), (index, count), options, progress)?;
        pose = refined.pose;
        if last {
            costs = [refined.record.cost_start, refined.record.cost_end];
        }
        let rule = spread.rule.under(objective.index_map(&model.affine(&pose))?);
        let traffic = spread.strategy.sums(ranks, &rule, None)?.traffic;
        let dims = grids.map(Grid::dims);
        let (strategy, estimates) = (placed.strategy, placed.estimates);
        spread_scales.push(SpreadScale { dims, strategy, estimates, machine, traffic });
        stages.push(refined.record);
    }
    let transform = model.affine(&pose);
    let corners = finest[0].corners();
    let moved = corners
        .map(|p| (transform.apply(p) - start.apply(p)).norm())
        .into_iter()
        .fold(0.0, f64::max);
    let judged = match &whole {
        Some(whole) => {
            Some(judged(device, input, plan.whole, (&options.affine, whole), transform, costs))
        }
        None => None,
    };
    let judged = ranks.agree(judged.transpose())?;
    Ok(SpreadResult { transform, whole, stages, moved, costs, scales: spread_scales, judged })
}

/// The result of the first rank and its transform, at every rank.
fn shared(
    ranks: &Communicator,
    whole: Option<Result<AffineResult>>,
) -> Result<(Option<AffineResult>, Affine)> {
    let whole = ranks.agree(whole.transpose())?;
    let mut numbers = whole.as_ref().map_or([[0.0; 4]; 3], |found| found.transform.rows()).concat();
    ranks.broadcast(&mut numbers, 0)?;
    let row = |r: usize| std::array::from_fn(|c| numbers[4 * r + c]);
    Ok((whole, Affine::from_rows([row(0), row(1), row(2)])))
}

/// Both images and the mask of the fixed one at the scale at which they are searched as wholes: some million pixels, by which the result
/// can be shown and scored.
///
/// # Errors
/// What cannot be read; too little memory.
pub fn coarse_images(input: SpreadInput<'_>) -> Result<CoarseImages> {
    let plan = scales::plan(input.fixed.scales(), input.moving.scales());
    let [fixed, moving] = images(input, plan.whole)?;
    Ok(CoarseImages { fixed, moving, fixed_mask: mask(input, plan.whole.fixed)? })
}

/// Both images at the scale at which they are searched as wholes.
fn images(input: SpreadInput<'_>, scales: Scales) -> Result<[Volume<f32>; 2]> {
    let read = |from: &dyn ImageBlocks, scale: usize| {
        let grid = from.scales()[scale].clone();
        let pixels = from.read(scale, &Block::whole(grid.dims()))?;
        let values =
            memory::collected(pixels.values().map(f32::from)).map_err(RegisterError::from)?;
        Ok::<_, RegisterError>(Volume::new(grid, values)?)
    };
    Ok([read(input.fixed, scales.fixed)?, read(input.moving, scales.moving)?])
}

/// The mask of the fixed image at that scale.
fn mask(input: SpreadInput<'_>, scale: usize) -> Result<Option<Volume<f32>>> {
    let grid = input.fixed.scales()[scale].clone();
    let Some(inside) = input.fixed.mask(scale, &Block::whole(grid.dims()))? else {
        return Ok(None);
    };
    let values = memory::collected(inside.into_iter().map(|v| f32::from(v != 0)))?;
    Ok(Some(Volume::new(grid, values)?))
}

/// The search of whole images at a coarse scale.
fn whole<D: Device>(
    device: &D,
    input: SpreadInput<'_>,
    scales: Scales,
    options: &AffineOptions,
    progress: &dyn Progress,
) -> Result<AffineResult> {
    let [fixed, moving] = images(input, scales)?;
    let mask = mask(input, scales.fixed)?;
    let mut pair = AffineInput::new(&fixed, &moving);
    pair.fixed_mask = mask.as_ref().map(Into::into);
    let further = || levels::down_to_data(fixed.grid(), moving.grid()).map(Levels);
    let levels = options.levels.clone().or_else(further);
    register_affine(device, &pair, &AffineOptions { levels, ..options.clone() }, progress)
}

/// The map of the finest scale with its verdict, by the images at the coarse one: as it is no better than where it began, what spoke against that
/// speaks against it, such as another alignment that matches nearly as well.
fn judged<D: Device>(
    device: &D,
    input: SpreadInput<'_>,
    scales: Scales,
    (options, coarse): (&AffineOptions, &AffineResult),
    transform: Affine,
    [before, after]: [f64; 2],
) -> Result<AffineResult> {
    let options = AffineOptions {
        init: Init::Given(transform),
        search: Search::None,
        rescue: Rescue::Off,
        ..options.clone()
    };
    let found = whole(device, input, scales, &options, &crate::Silent)?;
    let change = after - before;
    let name = "change in cost at full resolution";
    let falls = Check::new(name, change, "at most 0", change <= 1e-9).or(Remedy::SmallerSearch);
    let mut verdict = found.verdict.with(Some(falls));
    // Those of this one say that nothing was searched.
    verdict.remarks.clone_from(&coarse.verdict.remarks);
    let verdict = verdict.after("coarse scale", &coarse.verdict, Remedy::NearerStart);
    Ok(AffineResult { verdict, ..found })
}

/// Poses are moved about the middle of the fixed image.
fn model([fixed, moving]: [&Grid; 2]) -> Model {
    let flat = fixed.is_2d();
    let frame = |grid| if flat { slice_frame(grid) } else { Matrix3::identity() };
    let corners = fixed.corners();
    let centre = fixed.centre();
    let far = corners.iter().map(|p| (p - centre).norm()).fold(0.0, f64::max);
    Model { centre, frame: frame(fixed), target: frame(moving), radius: 0.5 * far, flat }
}

/// What is compared at a scale.
pub(super) fn objective<'a>(
    ranks: &'a Communicator,
    spread: &'a Spread<'a>,
    cost: Cost,
    grids: [&'a Grid; 2],
    progress: &'a dyn Progress,
) -> SpreadObjective<'a> {
    let ratio = grids[1].voxel_volume() / grids[0].voxel_volume();
    let full = (spread.samples as f64).min(grids[1].len() as f64 * ratio).max(1.0);
    let (strategy, rule, wide) = (&*spread.strategy, spread.rule, spread.wide);
    SpreadObjective { ranks, strategy, rule, wide, cost, grids, full, progress }
}

/// Images at the finest scale, and what is compared.
#[cfg(test)]
pub(super) fn at_finest<'a, D: Device>(
    device: &D,
    ranks: &Communicator,
    input: SpreadInput<'a>,
    options: &SpreadOptions,
    strategy: crate::search::distributed::StrategyKind,
) -> Result<(Spread<'a>, Cost)> {
    let Formula::Joint(cost) = of_sums(&options.similarity)?.formula else { unreachable!() };
    let scales = Scales { fixed: 0, moving: 0 };
    let machine = placed::machine(device, ranks, options)?;
    let placed = (strategy, &machine);
    Ok((held(device, ranks, input, scales, (options, options.bins()?), placed)?, cost))
}

/// Tells a listener, whose wish to stop is no matter of one rank alone.
struct Told<'a>(&'a dyn Progress);

impl Progress for Told<'_> {
    fn event(&self, event: &Event<'_>) {
        self.0.event(event);
    }
}

/// A pose that was refined at a scale.
struct Refined {
    pose: Pose,
    record: StageRecord,
}

/// Refines a pose at a scale; what is not better is not taken.
fn refine(
    objective: &SpreadObjective<'_>,
    model: &Model,
    (pose, freedom): (Pose, Freedom),
    (index, count): (usize, usize),
    options: &SpreadOptions,
    progress: &dyn Progress,
) -> Result<Refined> {
    let grid = objective.grids[0];
    let spacing = grid.spacing();
    let side = (0..3).filter(|&a| grid.dims()[a] > 1).map(|a| spacing[a]).fold(f64::MAX, f64::min);
    let name = format!("{side:.4} mm");
    begin(progress, &name, index, count);
    // Ranks end together: the objective asks all of them.
    let told = Told(progress);
    let mut stage = Stage::new(model, options.optimiser(), &told);
    stage.part("refine", 0.0, 1.0);
    let cost_start = objective.evaluate(&[model.affine(&pose)], false)?[0].cost;
    let steps = Until::Step(EXACT[usize::from(index + 1 == count)]).steps(side);
    let found = match options.affine.search.moves() {
        true => stage.refine(objective, &[pose], freedom, steps)?,
        // The start is scored as it is.
        false => Vec::new(),
    };
    let better = found.first().filter(|c| c.cost < cost_start);
    let (pose, cost_end) = better.map_or((pose, cost_start), |c| (c.pose, c.cost));
    let record = StageRecord {
        name,
        spacing,
        samples: objective.full as usize,
        cost: options.similarity.name().to_owned(),
        bins: objective.rule.fixed_bins,
        dof: vec![model.parameters(freedom)],
        candidates: [1, 1],
        cost_start,
        cost_end,
        ..StageRecord::default()
    };
    Ok(Refined { pose, record: stage.end(record) })
}
