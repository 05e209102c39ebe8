//! Evolutions on a device: the same fronts by the operators of [`voxalign_compute::ops::front`], and of several regions by those of [`voxalign_compute::ops::regions`], on any
//! backend.
//!
//! A front is a set of bits. Its iterations go over the tiles that can change ([`Form::Tiles`]), or over all points, 64 a word ([`Form::Words`]); several are asked
//! for at once, and the host reads what they counted.
//!
//! Under a force that does not change, sets, counts and endings are those of [`Evolution::run`](crate::Evolution::run) at each iteration, in both forms and on every
//! device. Other forces differ in rounding: means are of sums in fixed point, curvatures of sums in single precision, so that a sign may differ where a force is as
//! good as 0. All devices have the same bits.
//!
//! ```
//! use voxalign_compute::cpu::Cpu;
//! use voxalign_segment::device::{Form, Movement, evolve};
//! use voxalign_segment::{Lattice, Neighbourhood, Options, Speed};
//!
//! # fn main() -> Result<(), voxalign_segment::SegmentError> {
//! // A line of five points, of which the middle three are the object.
//! let lattice = Lattice::new([5, 1, 1], Neighbourhood::Four)?;
//! let force = Speed::new(&lattice, &[-1.0, 1.0, 1.0, 1.0, -1.0])?;
//! let start = [false, true, false, false, false];
//! let (cpu, options) = (Cpu::new(None)?, Options::default());
//! let evolution = evolve(&cpu, &lattice, &start, &force.motion()?, &options, Form::Tiles)?;
//! assert_eq!(evolution.set, [false, true, true, true, false]);
//! assert!(evolution.converged() && evolution.iterations == 2);
//! # Ok(())
//! # }
//! ```

mod course;
mod energy;
mod labels;
mod motion;

use voxalign_compute::ops::front::{Gaussian, Layout, Measured, Rule, TwoMeans};
use voxalign_compute::{ComputeError, Device};
use voxalign_image::memory;

use crate::bounds::Bounds;
use crate::error::{Result, SegmentError, finite, same_length};
use crate::evolution::{Ending, Limit, Options, State};
use crate::front::Switched;
use crate::lattice::Lattice;
use course::{Course, Law, Watch};
use energy::Energy;

pub use labels::{DevicePartition, Fits, LabelState, Labelling, evolve_labels};
pub use motion::{Intensities, Motion, Movement, Speeds};

/// What an iteration goes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Form {
    /// The tiles that can change: the planner and the evolution of tiles of the source, section 3.8.2.
    #[default]
    Tiles,
    /// All points, 64 a word: the cellular form. For forces without curvature; iterations of smoothing go over tiles all the same.
    Words,
}

/// A finished evolution on a device.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceEvolution {
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
}

impl DeviceEvolution {
    /// Whether the front came to rest with points on both sides.
    #[must_use]
    pub fn converged(&self) -> bool {
        self.ending == Ending::Steady
    }
}

/// A front from a start, on a device. All is as of [`Evolution::run`](crate::Evolution::run), but for what the [module](self) says of rounding.
///
/// # Errors
/// [`SegmentError::NoFront`], [`SegmentError::Length`], [`SegmentError::Parameter`], [`SegmentError::NotFinite`], [`SegmentError::OutOfMemory`]; what the device
/// refuses as [`SegmentError::Compute`], such as a Gaussian that reaches more than 31 points in the plane or 15 in a volume, and a force with curvature in
/// [`Form::Words`].
pub fn evolve<D: Device>(
    device: &D,
    lattice: &Lattice,
    start: &[bool],
    motion: &Motion<'_>,
    options: &Options,
    form: Form,
) -> Result<DeviceEvolution> {
    run(device, lattice, start, motion, options, form, None)
}

/// The same, and calls with the number of iterations and the set at the start, and then after every so many iterations (at least 1).
///
/// # Errors
/// As [`evolve`]; what `watch` says.
#[allow(clippy::too_many_arguments)]
pub fn evolve_watched<D: Device>(
    device: &D,
    lattice: &Lattice,
    start: &[bool],
    motion: &Motion<'_>,
    options: &Options,
    form: Form,
    every: usize,
    watch: &mut dyn FnMut(usize, &[bool]) -> Result<()>,
) -> Result<DeviceEvolution> {
    let watch = Watch { every: every.max(1), call: watch };
    run(device, lattice, start, motion, options, form, Some(watch))
}

/// The device's buffers of a motion.
struct Fields<D: Device> {
    values: Option<D::Buffer<f32>>,
    edges: Option<D::Buffer<f32>>,
}

fn run<D: Device>(
    device: &D,
    lattice: &Lattice,
    start: &[bool],
    motion: &Motion<'_>,
    options: &Options,
    form: Form,
    mut watch: Option<Watch<'_>>,
) -> Result<DeviceEvolution> {
    same_length("the initial set", start.len(), lattice.len())?;
    let inside = start.iter().filter(|s| **s).count();
    if inside == 0 || inside == start.len() {
        return Err(SegmentError::NoFront { inside });
    }
    for values in [motion.values(), motion.edges.as_deref()].into_iter().flatten() {
        same_length("the force", values.len(), lattice.len())?;
        finite("the force", values)?;
    }
    let limit = match options.limit {
        Limit::Bound => Bounds::of(lattice, start)?.max_region_size,
        Limit::Iterations(most) => most,
    };
    let layout = Layout::new(lattice.dims(), lattice.neighbourhood().axes())?;
    if form == Form::Words && motion.curvature != 0.0 {
        let (what, expected) = ("curvature in the form of words", "0; use tiles");
        return Err(ComputeError::argument(what, motion.curvature, expected).into());
    }
    let window = match motion.curvature != 0.0 {
        true => Some(Gaussian::new(device, &layout, options.sigma, options.spacing)?),
        false => None,
    };
    let smoothing = match options.smoothing {
        Some(smoothing) => {
            smoothing.check()?;
            let gaussian = Gaussian::new(device, &layout, smoothing.sigma, options.spacing)?;
            Some((smoothing, gaussian))
        }
        None => None,
    };
    let up = |values: Option<&[f32]>| values.map(|v| device.upload(v)).transpose();
    let fields: Fields<D> =
        Fields { values: up(motion.values())?, edges: up(motion.edges.as_deref())? };
    let mut energy = Energy::of(motion, lattice.len());
    let units = energy.units();
    let mut rule = Rule {
        curvature: motion.curvature,
        edges: fields.edges.as_ref(),
        window: window.as_ref().map(Gaussian::window),
        ..Rule::NONE
    };
    match (&motion.speed, &fields.values) {
        (Speeds::Field { .. }, values) => rule.speed = values.as_ref(),
        (Speeds::TwoMeans(of), Some(image)) => {
            let Intensities { weights, fixed, object, .. } = *of;
            let object = object.into();
            rule.means = Some(TwoMeans { image, weights, fixed, object, units });
        }
        _ => {}
    }
    let measured = match energy.is_measured() {
        true => fields.values.as_ref().map(|values| Measured { values, units }),
        false => None,
    };
    let law = Law { rule, measured, form };
    let mut course = Course::new(device, layout, start)?;
    let mut history: Vec<State> = Vec::new();
    let (mut iterations, mut smoothing_iterations) = (0, 0);
    let mut switched = Switched::default();
    let mut before: [Vec<u64>; 2] = Default::default();
    let ending = loop {
        let left = limit - iterations;
        // With smoothing a phase is one cycle. The last iteration is looked at, and not made.
        let (most, is_last) = match &smoothing {
            Some((smoothing, _)) if left >= smoothing.every => (smoothing.every, false),
            _ => (left, true),
        };
        let repeats = smoothing.is_none();
        let phase = course.phase(&law, most, is_last, repeats, iterations, watch.as_mut())?;
        for seen in &phase.seen {
            let energy = energy.of_set(&seen.totals);
            let [size, inner, outer] =
                [seen.totals.size, seen.inner, seen.outer].map(|n| usize::try_from(n).unwrap_or(0));
            memory::push(&mut history, State { size, inner, outer, energy, switched })?;
            switched = seen.switched.unwrap_or(switched);
        }
        iterations += phase.made;
        if let Some(ending) = phase.ending {
            break ending;
        }
        let Some((smoothing, gaussian)) = &smoothing else { break Ending::Limit };
        smoothing_iterations += course.smooth(gaussian.window(), smoothing.iterations)?;
        let set = course.words()?;
        if let Some(place) = before.iter().position(|b| *b == set) {
            break Ending::Repeating { period: place + 1 };
        }
        before.swap(0, 1);
        before[0] = set;
    };
    if let Some((smoothing, gaussian)) = &smoothing
        && iterations > 0
        && !iterations.is_multiple_of(smoothing.every)
    {
        smoothing_iterations += course.smooth(gaussian.window(), smoothing.iterations)?;
    }
    let set = course.set()?;
    Ok(DeviceEvolution { set, iterations, smoothing_iterations, ending, history })
}
