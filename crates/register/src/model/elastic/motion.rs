//! Steps of a body in time: on the host with a direct solution, or on the device with an iterative one or with a dense inverse.

use super::body::{BodyLevel, planes, vectors};
use super::solvers::{Made, solver, sparse};
use super::{Elastic, StepSolver};
use crate::error::{RegisterError, Result};
use crate::model::solver::sparse::{SparseMatrix, Structure};
use crate::model::solver::{LinearOperator, Solver};
use crate::multiscale::Motion;
use std::sync::{Arc, LazyLock};
use voxalign_compute::Device;
use voxalign_compute::ops::elementwise::{Expr, constant, param, x};
use voxalign_compute::ops::reduce::Reduction;
use voxalign_compute::ops::tetrahedra::Mesh;
use voxalign_elasticity::cut::{LEAST_RATIO, Next};
use voxalign_elasticity::{Body, Cut, ElasticityError, Newmark, Sparse, State};
use voxalign_image::{Matrix3, memory};

/// Up to so many vertices a direct solution is faster than an iterative one.
const MOST_DIRECT: usize = 500;

/// What may be left where these do not reach that.
const MOST_RESIDUAL: f64 = 1e-3;

/// A body on its way, a step at a time.
pub(super) enum Mover<D: Device> {
    Host(Box<OnHost<D>>),
    Device(Box<OnDevice<D>>),
}

impl<D: Device> Mover<D> {
    /// Of a body in a state, with what its forces are [counted on](voxalign_elasticity::Motion::with_coupling) to change by.
    pub(super) fn new(
        device: &D,
        level: &BodyLevel,
        options: &Elastic,
        state: State,
        coupling: Option<&[Matrix3<f64>]>,
    ) -> Result<Self> {
        let (method, vertices) = (options.newmark(), level.body.mesh().vertices().len());
        let solver = match options.step_solver {
            StepSolver::Auto if vertices <= MOST_DIRECT => StepSolver::Direct,
            StepSolver::Auto => StepSolver::Chebyshev,
            solver => solver,
        };
        if solver == StepSolver::Direct {
            let (body, fixed) = (Arc::clone(&level.body), level.fixed.clone());
            let motion = voxalign_elasticity::Motion::with_coupling(body, fixed, method, coupling)?;
            let displacements = device.upload(&planes(&state.displacements))?;
            return Ok(Self::Host(Box::new(OnHost { motion, state, displacements })));
        }
        OnDevice::new(device, level, method, solver, &state, coupling)
            .map(|m| Self::Device(Box::new(m)))
    }

    /// Counts on another change of the forces from now on.
    pub(super) fn recouple(
        &mut self,
        device: &D,
        level: &BodyLevel,
        coupling: &[Matrix3<f64>],
    ) -> Result<()> {
        match self {
            Self::Host(host) => Ok(host.motion.recouple(coupling)?),
            Self::Device(on) => on.recouple(device, level, coupling),
        }
    }

    /// The displacements of the vertices, mm.
    pub(super) fn displacements(&self) -> &D::Buffer<f32> {
        match self {
            Self::Host(host) => &host.displacements,
            Self::Device(device) => &device.displacements,
        }
    }

    /// The state, on the host.
    pub(super) fn state(&self, device: &D) -> Result<State> {
        match self {
            Self::Host(host) => Ok(host.state.clone()),
            Self::Device(on) => Ok(State {
                displacements: vectors(&device.download(&on.displacements)?),
                velocities: vectors(&device.download(&on.velocities)?),
                accelerations: vectors(&device.download(&on.accelerations)?),
            }),
        }
    }

    /// One step under forces on the vertices, mN, on which no vertex moves farther than `most`, mm.
    pub(super) fn step(
        &mut self,
        device: &D,
        mesh: &Mesh<'_, D>,
        forces: &D::Buffer<f32>,
        most: f64,
    ) -> Result<Motion> {
        match self {
            Self::Host(host) => host.step(device, forces, most),
            Self::Device(on) => on.step(device, mesh, forces, most),
        }
    }

    /// The relative residual of the last solution, where it is not exact.
    pub(super) fn residual(&self) -> Option<f64> {
        match self {
            Self::Host(_) => None,
            Self::Device(on) => on.residual,
        }
    }
}

/// On the host, in double precision.
pub(super) struct OnHost<D: Device> {
    motion: voxalign_elasticity::Motion,
    state: State,
    displacements: D::Buffer<f32>,
}

impl<D: Device> OnHost<D> {
    fn step(&mut self, device: &D, forces: &D::Buffer<f32>, most: f64) -> Result<Motion> {
        let forces = vectors(&device.download(forces)?);
        let step = self.motion.step_within(&mut self.state, &forces, most)?;
        device.upload_into(&mut self.displacements, &planes(&self.state.displacements))?;
        Ok(Motion {
            kinetic_energy: self.motion.kinetic_energy(&self.state),
            strain_energy: self.motion.strain_energy(&self.state)?,
            unbalanced_force: self.motion.imbalance(&self.state, &forces, &step.cut)?,
            voxel_force: 0.0,
            voxel_kinetic: 0.0,
            least_jacobian: step.least.ratio,
            cuts: step.cut.halvings() as usize,
            held: step.cut.held(),
        })
    }
}

/// The updates of a step, in the words of [`voxalign_elasticity::newmark`].
struct Updates {
    damped: Expr,
    through: Expr,
    right: Expr,
    trial: Expr,
    trial_of_each: Expr,
    acceleration: Expr,
    velocity: Expr,
    balanced: Expr,
    unbalanced: Expr,
}

static UPDATES: LazyLock<Updates> = LazyLock::new(|| Updates {
    // w = a4 v + a5 a
    damped: param(0) * x(0) + param(1) * x(1),
    // a_K w − u
    through: param(0) * x(0) - x(1),
    // free (f + K (a_K w − u) + M (a2 v + a3 a + a_M w))
    right: x(6) * (x(0) + x(1) + x(5) * (param(0) * x(2) + param(1) * x(3) + param(2) * x(4))),
    // u + part d
    trial: x(0) + param(0) * x(1),
    // u + part own d
    trial_of_each: x(0) + param(0) * x(2) * x(1),
    // a0 d − a2 v − a3 a
    acceleration: param(0) * x(2) - param(1) * x(1) - param(2) * x(0),
    // v + before a + after a'
    velocity: x(0) + param(0) * x(1) + param(1) * x(2),
    // free ((f − K (u + a_K v)) / M − a_M v)
    balanced: x(4) * ((x(1) - x(0)) / x(3) - param(0) * x(2)),
    // free (f − K u)
    unbalanced: x(2) * (x(1) - x(0)),
});

/// How a step is cut, on the device: three times each vertex.
struct Cuts<D: Device> {
    /// The part of the step of the body that it makes.
    own: D::Buffer<f32>,
    /// 0 where it is held, else 1.
    moves: D::Buffer<f32>,
}

impl<D: Device> Cuts<D> {
    fn new(device: &D, cut: &Cut, vertices: usize) -> Result<Self> {
        let all = |of: &dyn Fn(usize) -> f64| {
            let all = memory::collected((0..3 * vertices).map(|i| of(i % vertices) as f32))?;
            Ok::<_, RegisterError>(device.upload_vec(all)?)
        };
        let moves = all(&|i| if cut.holds(i) { 0.0 } else { 1.0 })?;
        Ok(Self { own: all(&|i| cut.own(i))?, moves })
    }
}

/// On the device, in single precision.
pub(super) struct OnDevice<D: Device> {
    body: Arc<Body>,
    method: Newmark,
    /// Of which kind the solver is, and where its matrix has entries.
    kind: StepSolver,
    structure: Arc<Structure<D>>,
    solver: Box<dyn Solver<D>>,
    /// The bounds of the spectrum that it counts on.
    bounds: Option<[f64; 2]>,
    /// The matrix of a step without what is counted on of the forces.
    uncoupled: Sparse<Matrix3<f64>>,
    stiffness: SparseMatrix<D>,
    /// The mass of each vertex, kg, three times each; and 1 where it is free.
    mass: D::Buffer<f32>,
    free: D::Buffer<f32>,
    displacements: D::Buffer<f32>,
    velocities: D::Buffer<f32>,
    accelerations: D::Buffer<f32>,
    /// The solution of the last step, from which the next one starts.
    increments: D::Buffer<f32>,
    /// Forces of the strain, `K u`, of the displacements.
    elastic: D::Buffer<f32>,
    room: [D::Buffer<f32>; 3],
    ratios: D::Buffer<f32>,
    least: D::Buffer<f64>,
    norms: D::Buffer<f64>,
    residual: Option<f64>,
}

impl<D: Device> OnDevice<D> {
    fn new(
        device: &D,
        level: &BodyLevel,
        method: Newmark,
        kind: StepSolver,
        state: &State,
        coupling: Option<&[Matrix3<f64>]>,
    ) -> Result<Self> {
        method.check()?;
        let (body, fixed) = (&level.body, &level.fixed);
        let (stiffness, lumped) = (body.stiffness()?, body.lumped_mass()?);
        let n = lumped.len();
        let uncoupled = method.effective(&stiffness, &lumped, None, fixed)?;
        let effective = match coupling {
            Some(blocks) => uncoupled.with_blocks(blocks, fixed.mask())?,
            None => uncoupled.combined(1.0, |_| 0.0)?,
        };
        let pattern = body.pattern();
        let rows: Vec<u32> = memory::collected(pattern.rows().iter().map(|&r| r as u32))?;
        let structure = Arc::new(Structure::new(device, &rows, pattern.columns())?);
        let thrice = |of: &dyn Fn(usize) -> f32| {
            let all: Vec<f32> = (0..3 * n).map(|i| of(i % n)).collect();
            device.upload_vec(all)
        };
        let tetrahedra = body.mesh().tetrahedra().len();
        let vectors = || device.alloc::<f32>(3 * n);
        let Made { solver, bounds } = solver(device, kind, &structure, effective, None)?;
        let mut made = Self {
            body: Arc::clone(body),
            method,
            kind,
            solver,
            bounds,
            uncoupled,
            stiffness: sparse(device, &structure, stiffness.values())?,
            structure,
            mass: thrice(&|i| lumped[i] as f32)?,
            free: thrice(&|i| if fixed.mask()[i] { 0.0 } else { 1.0 })?,
            displacements: device.upload(&planes(&state.displacements))?,
            velocities: device.upload(&planes(&state.velocities))?,
            accelerations: device.upload(&planes(&state.accelerations))?,
            increments: vectors()?,
            elastic: vectors()?,
            room: [vectors()?, vectors()?, vectors()?],
            ratios: device.alloc(tetrahedra)?,
            least: device.alloc(2)?,
            norms: device.alloc(3)?,
            residual: None,
        };
        device.eval_in_place(&constant(0.0), &mut made.increments, &[], &[], None)?;
        made.stiffness.product(device, &made.displacements, &mut made.elastic)?;
        Ok(made)
    }

    /// As [`voxalign_elasticity::Motion::recouple`].
    fn recouple(&mut self, device: &D, level: &BodyLevel, coupling: &[Matrix3<f64>]) -> Result<()> {
        let effective = self.uncoupled.with_blocks(coupling, level.fixed.mask())?;
        let made = solver(device, self.kind, &self.structure, effective, self.bounds)?;
        (self.solver, self.bounds) = (made.solver, made.bounds);
        Ok(())
    }

    /// As [`voxalign_elasticity::Motion::step_within`].
    fn step(
        &mut self,
        device: &D,
        mesh: &Mesh<'_, D>,
        forces: &D::Buffer<f32>,
        most: f64,
    ) -> Result<Motion> {
        let [a0, _, a2, a3, a4, a5] = self.method.constants().map(|a| a as f32);
        let Newmark { step_s, gamma, mass_damping, stiffness_damping, .. } = self.method;
        let (mass_damping, stiffness_damping) = (mass_damping as f32, stiffness_damping as f32);
        let [damped, through, right] = &mut self.room;
        let (u, v, a) = (&self.displacements, &self.velocities, &self.accelerations);
        device.eval(&UPDATES.damped, &[v, a], &[a4, a5], None, damped)?;
        device.eval(&UPDATES.through, &[&*damped, u], &[stiffness_damping], None, through)?;
        // Room that gets the forces of the strain at the end of the step.
        self.stiffness.product(device, through, &mut self.elastic)?;
        let inputs = [forces, &self.elastic, v, a, &*damped, &self.mass, &self.free];
        let params = [a2, a3, mass_damping];
        device.eval(&UPDATES.right, &inputs, &params, None, right)?;
        let (tetrahedra, vertices) =
            (self.body.mesh().tetrahedra(), self.body.mesh().vertices().len());
        let (mut cut, mut cuts, mut solves) = (Cut::default(), None, true);
        let mut within = 1.0;
        let trial = through;
        let (part, least) = loop {
            if std::mem::take(&mut solves) {
                let solution = self.solver.solve(right, &mut self.increments)?;
                self.residual = solution.residual;
                let residual = solution.residual.unwrap_or(0.0);
                if residual.is_nan() || residual > MOST_RESIDUAL {
                    return Err(ElasticityError::Residual { residual, most: MOST_RESIDUAL }.into());
                }
                if most.is_finite() {
                    device.field_norms(&self.increments, [1.0; 3], &mut self.norms)?;
                    let farthest = device.download(&self.norms)?[0];
                    within = if farthest > most { most / farthest } else { 1.0 };
                }
            }
            let part = (within * cut.part()) as f32;
            let increments = &self.increments;
            match &cuts {
                None => device.eval(&UPDATES.trial, &[u, increments], &[part], None, trial)?,
                Some(Cuts { own, .. }) => {
                    let inputs = [u, increments, own];
                    device.eval(&UPDATES.trial_of_each, &inputs, &[part], None, trial)?;
                }
            }
            device.ratios(mesh, trial, &mut self.ratios, &mut self.least)?;
            let least = device.download(&self.least)?[0];
            if least >= LEAST_RATIO {
                break (part, least);
            }
            let ratios = device.download(&self.ratios)?;
            let ratios: Vec<f64> = memory::collected(ratios.iter().map(|&r| f64::from(r)))?;
            solves = match cut.look(tetrahedra, &ratios, vertices)? {
                Next::Serves => break (part, least),
                Next::Shorter => false,
                Next::Again => true,
            };
            if cut.held() > 0 {
                let made = Cuts::new(device, &cut, vertices)?;
                device.eval_in_place(&(x(0) * x(1)), right, &[&made.moves], &[], None)?;
                cuts = Some(made);
            }
        };
        let (new_a, new_v) = (damped, right);
        let params = [a0, a2, a3];
        device.eval(&UPDATES.acceleration, &[a, v, &self.increments], &params, None, new_a)?;
        let params = [(step_s * (1.0 - gamma)) as f32, (step_s * gamma) as f32];
        device.eval(&UPDATES.velocity, &[v, a, &*new_a], &params, None, new_v)?;
        std::mem::swap(&mut self.displacements, trial);
        std::mem::swap(&mut self.velocities, new_v);
        std::mem::swap(&mut self.accelerations, new_a);
        let [spare, other, _] = &mut self.room;
        if part < 1.0 {
            device.eval_in_place(&(param(0) * x(0)), &mut self.velocities, &[], &[part], None)?;
            let (u, v) = (&self.displacements, &self.velocities);
            let params = [stiffness_damping];
            device.eval(&(x(0) + param(0) * x(1)), &[u, v], &params, None, spare)?;
            self.stiffness.product(device, spare, other)?;
            let inputs = [&*other, forces, v, &self.mass, &self.free];
            let out = &mut self.accelerations;
            device.eval(&UPDATES.balanced, &inputs, &[mass_damping], None, out)?;
        }
        if let Some(Cuts { moves, .. }) = &cuts {
            for rates in [&mut self.velocities, &mut self.accelerations] {
                device.eval_in_place(&(x(0) * x(1)), rates, &[moves], &[], None)?;
            }
        }
        self.stiffness.product(device, &self.displacements, &mut self.elastic)?;
        let (free, times) = (&self.free, x(0) * x(1));
        device.eval(&UPDATES.unbalanced, &[&self.elastic, forces, free], &[], None, spare)?;
        device.eval(&times, &[&self.mass, &self.velocities], &[], None, other)?;
        if let Some(Cuts { moves, .. }) = &cuts {
            device.eval_in_place(&times, spare, &[moves], &[], None)?;
        }
        let inputs = [&*other, &self.velocities, &self.displacements, &self.elastic, &*spare];
        let sums = [Reduction::Dot(0, 1), Reduction::Dot(2, 3), Reduction::SumSquares(4)];
        let sums = device.reduce(&inputs, &sums)?;
        Ok(Motion {
            kinetic_energy: 0.5 * sums[0],
            strain_energy: 0.5 * sums[1],
            unbalanced_force: sums[2].sqrt(),
            voxel_force: 0.0,
            voxel_kinetic: 0.0,
            least_jacobian: least,
            cuts: cut.halvings() as usize,
            held: cut.held(),
        })
    }
}
