//! Shi's evolution: a front under a force, from a start to where it stays.

use crate::bounds::Bounds;
use crate::error::{Result, SegmentError};
use crate::force::{Force, MeanCurvature, fits};
use crate::front::{Front, Switched};
use crate::gaussian::Gaussian;
use crate::lattice::Lattice;
use voxalign_image::memory;

/// When an evolution ends that has not come to rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Limit {
    /// After as many iterations as the largest connected part of the start has points, which are always enough for a force that does not change
    /// ([`Bounds::max_region_size`]).
    #[default]
    Bound,
    /// After so many iterations.
    Iterations(usize),
}

/// Iterations by curvature alone, between those by the force (Y. Shi and W. Karl 2008).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Smoothing {
    /// After how many iterations by the force, at least 1; also once after the last one.
    pub every: usize,
    /// How many of them, at least 1.
    pub iterations: usize,
    /// The standard deviation of the Gaussian, in the unit of the spacing.
    pub sigma: f64,
}

impl Smoothing {
    /// Refuses numbers of iterations that cannot be.
    pub(crate) fn check(&self) -> Result<()> {
        let remedy = "give a number of at least 1";
        for (name, value) in [
            ("the number of iterations between smoothing", self.every),
            ("the number of iterations of smoothing", self.iterations),
        ] {
            if value == 0 {
                return Err(SegmentError::Parameter { name, value: 0.0, remedy });
            }
        }
        Ok(())
    }
}

/// How a front evolves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// When it ends at the latest.
    pub limit: Limit,
    /// The standard deviation σ of the Gaussian that curvature and normals are from, in the unit of the spacing.
    ///
    /// An iteration by curvature alone takes the front as far as the equation does in a time of σ²/2, or by a point where that is less. Where σ is
    /// small nothing moves: below 2.5 points most fronts stay where they are.
    pub sigma: f64,
    /// Distances of the points along x, y, z.
    pub spacing: [f64; 3],
    /// Smoothing, where there is to be any.
    pub smoothing: Option<Smoothing>,
}

impl Default for Options {
    fn default() -> Self {
        Self { limit: Limit::Bound, sigma: 3.0, spacing: [1.0; 3], smoothing: None }
    }
}

/// Why an evolution ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// No point of either list is to be switched.
    Steady,
    /// The set is empty.
    Vanished,
    /// The set has all points.
    Filled,
    /// The set is what it was before, so that it will be again for ever.
    Repeating {
        /// After so many iterations (with smoothing: times so many that smoothing took place).
        period: usize,
    },
    /// The limit of iterations.
    Limit,
}

/// What there was before an iteration, or at the end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct State {
    /// How many points are inside.
    pub size: usize,
    /// How many of them have a neighbour outside.
    pub inner: usize,
    /// How many points outside have a neighbour inside.
    pub outer: usize,
    /// The energy of the force, where it has one.
    pub energy: Option<f64>,
    /// What the iteration before did, smoothing not counted.
    pub switched: Switched,
}

/// A finished evolution.
#[derive(Debug, Clone, PartialEq)]
pub struct Evolution {
    /// Whether each point is inside in the end.
    pub set: Vec<bool>,
    /// How many iterations by the force there were. One that would have switched nothing is not made.
    pub iterations: usize,
    /// How many iterations of smoothing there were.
    pub smoothing_iterations: usize,
    /// Why it ended.
    pub ending: Ending,
    /// The start, and what there was after each iteration.
    pub history: Vec<State>,
    /// What the start says about the iterations that may be needed.
    pub bounds: Bounds,
}

impl Evolution {
    /// A front from a start, under a force, by Algorithm 3.3: the force at all points of both lists is computed first; where no point is to be
    /// switched, or at the limit, it ends; otherwise [`Front::advance`].
    ///
    /// # Errors
    /// [`SegmentError::NoFront`], [`SegmentError::Length`], [`SegmentError::Parameter`], [`SegmentError::NotFinite`] for a force that is not a
    /// number, [`SegmentError::OutOfMemory`].
    pub fn run(
        lattice: &Lattice,
        start: &[bool],
        force: &mut dyn Force,
        options: &Options,
    ) -> Result<Self> {
        Self::watched(lattice, start, force, options, |_| {})
    }

    /// The same, and calls with the front at the start and after each iteration.
    ///
    /// # Errors
    /// As [`Evolution::run`].
    pub fn watched(
        lattice: &Lattice,
        start: &[bool],
        force: &mut dyn Force,
        options: &Options,
        mut watch: impl FnMut(&Front),
    ) -> Result<Self> {
        let mut front = Front::new(lattice, start)?;
        fits(force, lattice.len())?;
        let bounds = Bounds::of(lattice, start)?;
        let limit = match options.limit {
            Limit::Bound => bounds.max_region_size,
            Limit::Iterations(most) => most,
        };
        let gaussian = Gaussian::new(lattice, options.sigma, options.spacing)?;
        let mut smoother = Smoother::new(lattice, options)?;
        let mut repeats = Repeats::new();
        let mut signs = memory::filled(lattice.len(), 0)?;
        let (mut iterations, mut switched) = (0, Switched::default());
        let mut history = Vec::new();
        let ending = loop {
            watch(&front);
            let is_inside = |point| front.is_inside(point);
            force.update(&is_inside)?;
            let energy = force.energy(&is_inside);
            let (inner, outer) = (front.inner().len(), front.outer().len());
            memory::push(
                &mut history,
                State { size: front.size(), inner, outer, energy, switched },
            )?;
            if let Some(ending) = ended(&front) {
                break ending;
            }
            let moves = look(&front, force, &gaussian, &mut signs)?;
            if moves == 0 {
                break Ending::Steady;
            }
            if iterations == limit {
                break Ending::Limit;
            }
            switched = front.advance(&signs)?;
            iterations += 1;
            if smoother.is_due(iterations) {
                smoother.smooth(&mut front, &mut signs)?;
            }
            if smoother.ends_a_cycle(iterations)
                && let Some(period) = repeats.period(front.set()?)
            {
                break Ending::Repeating { period };
            }
        };
        if iterations > 0 && !smoother.is_due(iterations) {
            smoother.smooth(&mut front, &mut signs)?;
        }
        let smoothing_iterations = smoother.iterations;
        Ok(Self { set: front.set()?, iterations, smoothing_iterations, ending, history, bounds })
    }

    /// Whether the front came to rest with points on both sides.
    #[must_use]
    pub fn converged(&self) -> bool {
        self.ending == Ending::Steady
    }
}

/// Whether there is no front.
fn ended(front: &Front) -> Option<Ending> {
    match front.size() {
        0 => Some(Ending::Vanished),
        all if all == front.lattice().len() => Some(Ending::Filled),
        _ => None,
    }
}

/// The signs of the force at the points of both lists, and how many points are to be switched.
fn look(front: &Front, force: &dyn Force, gaussian: &Gaussian, signs: &mut [i8]) -> Result<usize> {
    let mut moves = 0;
    for (list, outwards) in [(front.outer(), true), (front.inner(), false)] {
        for &point in list {
            let value = value(front, force, gaussian, point);
            if value.is_nan() {
                return Err(SegmentError::NotFinite { what: "the force", value, index: point });
            }
            signs[point] = i8::from(value > 0.0) - i8::from(value < 0.0);
            moves += usize::from(signs[point] == if outwards { 1 } else { -1 });
        }
    }
    Ok(moves)
}

/// The speed outwards at a point of a front, its curvature and normal by a Gaussian.
fn value(front: &Front, force: &dyn Force, gaussian: &Gaussian, point: usize) -> f64 {
    let terms = force.terms(point);
    let mut value = terms.speed;
    if terms.curvature != 0.0 {
        value -= terms.curvature * gaussian.curvature(front, point);
    }
    if terms.flow != [0.0; 3] {
        let normal = gaussian.normal(front, point);
        value += terms.flow.iter().zip(normal).map(|(v, n)| v * n).sum::<f64>();
    }
    value
}

/// Does the smoothing, and counts it.
struct Smoother {
    options: Option<(Smoothing, Gaussian)>,
    iterations: usize,
}

impl Smoother {
    fn new(lattice: &Lattice, options: &Options) -> Result<Self> {
        let Some(smoothing) = options.smoothing else {
            return Ok(Self { options: None, iterations: 0 });
        };
        smoothing.check()?;
        let gaussian = Gaussian::new(lattice, smoothing.sigma, options.spacing)?;
        Ok(Self { options: Some((smoothing, gaussian)), iterations: 0 })
    }

    fn is_due(&self, iterations: usize) -> bool {
        self.options.as_ref().is_some_and(|(s, _)| iterations.is_multiple_of(s.every))
    }

    fn ends_a_cycle(&self, iterations: usize) -> bool {
        self.options.is_none() || self.is_due(iterations)
    }

    fn smooth(&mut self, front: &mut Front, signs: &mut [i8]) -> Result<()> {
        let Some((smoothing, gaussian)) = &self.options else { return Ok(()) };
        for _ in 0..smoothing.iterations {
            if ended(front).is_some() || look(front, &MeanCurvature, gaussian, signs)? == 0 {
                break;
            }
            front.advance(signs)?;
            self.iterations += 1;
        }
        Ok(())
    }
}

/// Tells whether a set, or labels, were there one or two times before.
pub(crate) struct Repeats<T> {
    before: [Vec<T>; 2],
}

impl<T: PartialEq> Repeats<T> {
    pub(crate) fn new() -> Self {
        Self { before: [Vec::new(), Vec::new()] }
    }

    /// After how many iterations what there is now was there before, where that is known; to be asked after each.
    pub(crate) fn period(&mut self, now: Vec<T>) -> Option<usize> {
        let period = self.before.iter().position(|b| *b == now).map(|i| i + 1);
        self.before.swap(0, 1);
        self.before[0] = now;
        period
    }
}
