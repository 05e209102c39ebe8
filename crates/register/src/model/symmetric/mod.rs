//! The symmetric model: both images flow to a midpoint.
//!
//! With the affine map `A = H ∘ H`, a point `m` of the middle shows the fixed image at `H⁻¹(m + u_f(m))` and
//! the moving image at `H(m + u_m(m))`. Each is the other's reference, and both are treated alike in every
//! step: exchanging the images exchanges the fields, and so inverts the result. The grid of the middle does
//! not depend on their order either.
//!
//! Of several subjects all of the affine map goes to the moving side, so that all middles are on the grid of
//! the template, and the subjects share what a step needs.

mod middle;

use super::guard::Guard;
use super::held::{PointState, Way};
use super::kinds::{Kind, Matching};
use super::mover::{self, Flow, Kept, Mover, StepRule, has_memory};
use super::solver::SolverKind;
use super::{
    Borrower, Buffers, CohortModel, Counts, FixedImage, Found, Lent, Model, Pull, Shift,
    UseCohortModel,
};
use crate::attachment::images::{
    DeviceImage, Moved, both, clamp_weights, onto, seen, seen_at, with_divided_slices,
};
use crate::error::{RegisterError, Result};
use crate::multiscale::Scale;
use crate::similarity::{Images, PendingEnergies};
use middle::{grown, settled, through};
use voxalign_compute::ops::flow::Inversion;
use voxalign_compute::ops::reduce::Reduction;
use voxalign_compute::ops::resample::Interpolation;
use voxalign_compute::{Device, DeviceBuffer, IDENTITY};
use voxalign_image::{Affine, Grid};
use voxalign_options::Parameters;

pub use middle::{half_way, middle_grid, middle_spacing, square_root};

/// Both images flow to a middle.
#[derive(Debug, Clone, Copy, PartialEq, Parameters)]
pub struct Symmetric {
    /// Its steps.
    #[parameter(flatten)]
    pub flow: Flow,
}

impl Kind for Symmetric {
    type Model<D: Device> = SymmetricModel<D>;

    fn model<D: Device>(self, matching: &Matching, grid: &Grid) -> SymmetricModel<D> {
        SymmetricModel::new(self, matching.solver, grid)
    }

    fn with_cohort<D: Device, U: UseCohortModel<D>>(
        self,
        matching: &Matching,
        work: U,
    ) -> Option<U::Out> {
        Some(work.with(|grid| self.model(matching, grid)))
    }

    fn bytes_per_voxel(self) -> u64 {
        179
    }

    /// There has to be a half-way map.
    fn check_start(self, affine: &Affine) -> Result<()> {
        half_way(affine).map(|_| ())
    }

    fn meets_half_way(self) -> bool {
        true
    }
}

/// Symmetric steps.
pub struct SymmetricModel<D: Device> {
    flow: Flow,
    solver: SolverKind,
    grid: Grid,
    /// Whether there is one subject only.
    alone: bool,
    /// Whether steps leave something that another subject must not find.
    has_memory: bool,
    /// Made at the first step of a scale.
    work: Option<Work<D>>,
}

/// The workspace of a step: for the fixed and the moving side.
struct Work<D: Device> {
    mover: Mover<D>,
    /// The images on the grid, one a channel.
    values: [Vec<D::Buffer<f32>>; 2],
}

/// A subject with its middle.
pub struct SymmetricState<D: Device> {
    /// From the fixed world to that of the middle.
    to_middle: Affine,
    /// From the world of the middle to the fixed and to the moving one.
    sides: [Affine; 2],
    /// The moving images at the scale.
    moved: Vec<Moved<D>>,
    /// The grid of one of them, at any scale.
    shows: Option<Grid>,
    /// The displacements of the fixed and of the moving side, voxels of the grid.
    fields: [D::Buffer<f32>; 2],
    dims: [usize; 3],
    /// The inverse of the first, for one subject of several.
    undone: D::Buffer<f32>,
    /// The initial state of iterative solvers and adaptive steps.
    kept: Option<Kept<D>>,
    /// The state of points.
    points: PointState<D>,
    /// The lowest energy of the only subject at the scale.
    guard: Guard<D>,
}

impl<D: Device> SymmetricState<D> {
    fn new(device: &D, to_middle: Affine, to_moving: Affine) -> Result<Self> {
        Ok(Self {
            to_middle,
            sides: [to_middle.inverse()?, to_moving],
            moved: Vec::new(),
            shows: None,
            fields: [device.alloc(0)?, device.alloc(0)?],
            dims: [0; 3],
            undone: device.alloc(0)?,
            kept: None,
            points: PointState::default(),
            guard: Guard::default(),
        })
    }
}

impl<D: Device> SymmetricModel<D> {
    /// On a grid.
    #[must_use]
    pub fn new(Symmetric { flow }: Symmetric, solver: SolverKind, grid: &Grid) -> Self {
        let has_memory = has_memory(&flow, &solver);
        Self { flow, solver, grid: grid.clone(), alone: false, has_memory, work: None }
    }

    fn make_work(&mut self, device: &D, channels: usize) -> Result<()> {
        if self.work.is_some() {
            return Ok(());
        }
        let (step, sides) = (self.flow.step, (2, self.alone));
        let mover = Mover::new(device, &self.grid, &self.solver, step, sides)?;
        let image = |_| Ok(device.alloc(self.grid.len())?);
        let images = || (0..channels).map(image).collect::<Result<Vec<_>>>();
        self.work = Some(Work { mover, values: [images()?, images()?] });
        Ok(())
    }

    /// Where the fixed images [show](seen_at) something.
    fn shown_of(
        &self,
        device: &D,
        fixed: &[FixedImage<'_, D>],
        state: &SymmetricState<D>,
    ) -> Result<Option<D::Buffer<f32>>> {
        let map = |grid: &Grid| Moved::<D>::map_of(&self.grid, &state.sides[0], grid);
        let open = fixed.iter().filter(|f| f.open).map(|f| (f.grid, map(f.grid)));
        seen_at(device, open, 0, &state.fields[0], state.dims)
    }
}

impl<D: Device> Model<D> for SymmetricModel<D> {
    type State = SymmetricState<D>;
    type Extra = ();

    fn samples(fixed: &Grid, moving: &Grid, affine: &Affine) -> Result<Grid> {
        middle_grid(fixed, moving, &half_way(affine)?)
    }

    /// The mean of both, each warped to the midpoint.
    fn volume([fixed, moving]: [f64; 2], affine: &Affine) -> f64 {
        let half = affine.matrix.determinant().abs().sqrt();
        0.5 * (fixed * half + moving / half)
    }

    fn sides(&self) -> usize {
        2
    }

    fn begin(&mut self, device: &D, affine: &Affine, _: usize) -> Result<SymmetricState<D>> {
        (self.alone, self.has_memory) = (true, false);
        let half = half_way(affine)?;
        SymmetricState::new(device, half, half)
    }

    fn to_scale(&mut self, _: &Scale, grid: &Grid) {
        self.grid = grid.clone();
        self.work = None;
    }

    fn refine(
        &mut self,
        device: &D,
        images: Vec<DeviceImage<D>>,
        state: &mut SymmetricState<D>,
    ) -> Result<()> {
        (state.kept, state.points, state.guard) = (None, PointState::default(), Guard::default());
        state.shows = images.first().map(|image| image.grid.clone()).or(state.shows.take());
        state.moved = Moved::all(images, &self.grid, &state.sides[1]);
        let (from, to) = (state.dims, self.grid.dims());
        for field in &mut state.fields {
            if let Some(finer) = onto(device, field, from, to)? {
                *field = finer;
            }
        }
        state.dims = to;
        // Inversions begin at nothing, and from then on at what the last one found.
        let len = if self.alone { 0 } else { 3 * self.grid.len() };
        state.undone = device.alloc(len)?;
        Ok(())
    }

    fn counts(
        &self,
        device: &D,
        fixed: &[FixedImage<'_, D>],
        mask: Option<&DeviceImage<D>>,
        target: f64,
        state: &SymmetricState<D>,
    ) -> Result<Option<D::Buffer<f32>>> {
        let ([field, _], [to_fixed, _], dims) = (&state.fields, &state.sides, state.dims);
        // The mask flows with the fixed image.
        let mask = match mask {
            Some(mask) => {
                let moved = Moved::new(mask.at(device, target)?, &self.grid, to_fixed);
                let mut weights = device.alloc::<f32>(self.grid.len())?;
                moved.warp_to(device, field, dims, &mut weights)?;
                clamp_weights(device, &mut weights)?;
                Some(weights)
            }
            None => None,
        };
        let of_fixed = both(device, mask, self.shown_of(device, fixed, state)?)?;
        both(device, of_fixed, self.shown(device, state)?)
    }

    fn shown(&self, device: &D, state: &SymmetricState<D>) -> Result<Option<D::Buffer<f32>>> {
        seen(device, &state.moved, 0, &state.fields[1], state.dims)
    }

    fn lend(&self, _: &D, state: &SymmetricState<D>, work: &mut Borrower<'_, D>) -> Result<()> {
        work(&state.sides[1], &state.fields[1])
    }

    fn step(
        &mut self,
        device: &D,
        pull: Pull<'_, D>,
        state: &mut SymmetricState<D>,
    ) -> Result<PendingEnergies> {
        let Pull { mut sources, fixed, counts, .. } = pull;
        self.make_work(device, state.moved.len())?;
        // Among several, a subject counts where it shows something now.
        let shown = if self.alone { None } else { self.shown(device, state)? };
        let counts = if self.alone { counts } else { Counts { given: shown.as_ref(), ..counts } };
        let now = match self.alone && sources.leave_out_what_left() {
            true => both(device, self.shown_of(device, fixed, state)?, self.shown(device, state)?)?,
            false => None,
        };
        let (step, total_sigma) = (self.flow.step, self.flow.total_sigma);
        let Some(Work { mover, values }) = &mut self.work else {
            return Ok(PendingEnergies::default());
        };
        let [of_fixed, of_moving] = values;
        let dims = state.dims;
        for (f, out) in fixed.iter().zip(of_fixed.iter_mut()) {
            let map = Moved::<D>::map_of(&self.grid, &state.sides[0], f.grid);
            let (from, field, linear) = (f.grid.dims(), &state.fields[0], Interpolation::Linear);
            device.warp_field(f.values, from, &map, field, dims, linear, f.outside, out)?;
        }
        for (moved, out) in state.moved.iter().zip(of_moving.iter_mut()) {
            moved.warp_to(device, &state.fields[1], dims, out)?;
        }
        if self.has_memory {
            mover.exchange(device, &mut state.kept, step)?;
        }
        mover.fraction = state.guard.factor();
        let (grid, fields, sides) = (&self.grid, &state.fields, &state.sides);
        // A point of one side is that of the middle which leads there, and with it goes to the other side.
        let way = |from: usize| {
            let to_grid = sides[from].inverse()?.then(grid.to_index());
            let to_world = grid.to_world().then(&sides[1 - from]);
            let (from, field) = (Some(&fields[from]), &fields[1 - from]);
            Ok::<_, RegisterError>(Way { to_grid, from, field, to_world })
        };
        let (ways, points) = ([way(0)?, way(1)?], &mut state.points);
        let mut energies = counts.under(device, &fields[1], dims, now, |weights| {
            let pairs = of_fixed.iter().zip(&*of_moving);
            let images: Vec<_> = pairs
                .map(|(moved, reference)| Images {
                    reference,
                    moved,
                    weights,
                    dims,
                    reference_moves: true,
                })
                .collect();
            mover.start(device, &mut sources, &images, &ways, points)
        })?;
        if self.flow.step_rule == StepRule::Adaptive {
            energies = mover.adapt(energies)?;
        }
        // Points alone have steps of their own.
        if self.alone && energies.has_images {
            energies = state.guard.look(device, &state.fields, energies)?;
        }
        mover.carry(device, &mut state.fields, total_sigma)?;
        if self.has_memory {
            mover.exchange(device, &mut state.kept, step)?;
        }
        Ok(energies)
    }

    fn told(&mut self, state: &mut SymmetricState<D>, parts: &[f64]) {
        state.points.told(parts);
    }

    fn review(&mut self, device: &D, state: &mut SymmetricState<D>, energy: f64) -> Result<()> {
        state.guard.review(device, &mut state.fields, energy)
    }

    fn settling(&self, state: &SymmetricState<D>) -> usize {
        state.guard.settling()
    }

    fn settle(&mut self, state: &mut SymmetricState<D>) {
        state.guard.settle();
    }

    fn end_scale(&mut self, device: &D, state: &mut SymmetricState<D>) -> Result<()> {
        state.guard.end(device, &mut state.fields)
    }

    fn put_back(&self, state: &SymmetricState<D>) -> Option<f64> {
        state.guard.put_back()
    }

    fn residual(&mut self) -> Result<Option<f64>> {
        self.work.as_mut().map_or(Ok(None), |work| work.mover.residual())
    }

    /// About as fine across slices as the middle, which both ways pass through.
    fn fields_on(fixed: &Grid) -> Result<Grid> {
        with_divided_slices(fixed)
    }

    fn conclude(self, device: &D, on: &Grid, state: SymmetricState<D>) -> Result<Found<D>> {
        let part = self.grid.clone();
        drop(self);
        let SymmetricState { to_middle, sides, mut fields, shows, .. } = state;
        // Where nothing was registered, displacements go on as they end at the border; both ways are to be inverse to each other there, too. Farther
        // out than the largest displacement their inverses go on in the same way.
        let grid = match shows {
            Some(moving) => {
                let largest = [Reduction::MaxAbs(0), Reduction::MaxAbs(1)];
                let largest = device.reduce(&[&fields[0], &fields[1]], &largest)?;
                let most = largest[0].max(largest[1]).ceil() + 1.0;
                grown(&part, [(on, &to_middle), (&moving, &sides[1].inverse()?)], most)?
            }
            None => part.clone(),
        };
        if grid.dims() != part.dims() {
            let map = grid.to_world().then(part.to_index()).rows();
            for field in &mut fields {
                let mut out = device.alloc::<f32>(3 * grid.len())?;
                device.resample_field(field, part.dims(), &map, grid.dims(), &mut out)?;
                *field = out;
            }
        }
        let (fields, mended) = settled(device, &grid, &to_middle, fields, on)?;
        // Both directions were treated alike, and have been made consistent.
        Ok(Found { fields, settled: true, mended, path: None, extra: () })
    }
}

impl<D: Device> CohortModel<D> for SymmetricModel<D> {
    fn changing_lengths(&self, grid: &Grid) -> Vec<usize> {
        vec![3 * grid.len(); 3 + usize::from(self.has_memory)]
    }

    fn bytes_shared(&self, template: u64, channels: u64) -> u64 {
        // As for greedy steps, twice; and both sides' scratch.
        4 * template * (46 + 6 * channels)
    }

    fn refuses_masks(&self) -> Option<&'static str> {
        Some("the symmetric model takes no masks of subjects; use greedy or lddmm")
    }

    fn begin_among(&mut self, device: &D, affine: &Affine) -> Result<SymmetricState<D>> {
        SymmetricState::new(device, Affine::identity(), *affine)
    }

    fn buffers<'s>(&self, state: &'s mut SymmetricState<D>) -> Buffers<'s, D> {
        let mut changing: Vec<_> = state.fields.iter_mut().collect();
        changing.push(&mut state.undone);
        changing.extend(state.kept.iter_mut().map(|k| &mut k.velocity));
        changing.extend(state.points.buffers());
        Buffers { changing, fixed: state.moved.iter_mut().map(|m| &mut m.image.values).collect() }
    }

    fn numbers(&self, state: &mut SymmetricState<D>) -> Result<Vec<f64>> {
        mover::numbers(state.kept.as_ref(), &mut state.points)
    }

    fn set_numbers(
        &self,
        device: &D,
        state: &mut SymmetricState<D>,
        numbers: &[f64],
    ) -> Result<()> {
        let SymmetricState { kept, points, .. } = state;
        mover::set_numbers(device, self.grid.dims(), numbers, kept, points)
    }

    fn points_moved(&mut self, state: &mut SymmetricState<D>) {
        state.points.moved();
    }

    fn lend_displacement(
        &mut self,
        device: &D,
        state: &mut SymmetricState<D>,
        work: &mut Lent<'_, D>,
    ) -> Result<()> {
        let (dims, [to_fixed, to_moving]) = (state.dims, &state.fields);
        if state.undone.len() != to_fixed.len() {
            state.undone = device.alloc(to_fixed.len())?;
        }
        device.invert_field(to_fixed, dims, Inversion::default(), &mut state.undone)?;
        let map = self.grid.to_world().then(&state.to_middle).then(self.grid.to_index()).rows();
        work(&through(device, &state.undone, to_moving, dims, &map, dims)?, &state.moved)
    }

    fn takes_shifts(&self) -> bool {
        true
    }

    fn precede(
        &mut self,
        device: &D,
        shift: &Shift<D>,
        state: &mut SymmetricState<D>,
    ) -> Result<()> {
        // A point of the middle shows the template where it did, which has another name now.
        let (dims, [to_template, _]) = (state.dims, &mut state.fields);
        let mut out = device.alloc::<f32>(to_template.len())?;
        device.compose_fields(&shift.back, dims, &IDENTITY, to_template, dims, &mut out)?;
        *to_template = out;
        Ok(())
    }
}
