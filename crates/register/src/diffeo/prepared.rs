//! A pair of images that is ready for a model of any kind.

use super::clip::{Guard, IndexBox, crop_grid, paste_field};
use super::input::DeformInput;
use super::pair::{OneStep, Pair, Prepared};
use super::register::{Conclusion, Foregrounds, check_input, clip_boxes, object_on, to_world};
use super::result::DeformResult;
use super::verdict::{Findings, judge};
use crate::attachment::images::finest;
use crate::compare::field_overlap;
use crate::error::Result;
use crate::model::{Found, Model, Multiscale};
use crate::multiscale::{self, ScaleRecord};
use crate::progress::Progress;
use voxalign_compute::Device;
use voxalign_compute::ops::resample::Interpolation;
use voxalign_image::{Grid, Volume};

/// The parts of the fixed grid that a model can be computed on.
#[derive(Clone, Copy)]
pub enum Parts<'s> {
    /// All of the grid only.
    Whole,
    /// Any box with room around it; axes of it get a number of voxels for which this is true.
    Suiting(&'s dyn Fn(usize) -> bool),
    /// A grid of its own between both images, for which boxes with room around them are looked for in both.
    Between,
}

/// Pairs of images that have been checked and prepared on a device for a model of any kind.
///
/// [`register_deformable`](super::register_deformable) makes the model of a [`Matching`](super::Matching); who has another one brings it to
/// [`run_with`](Self::run_with).
pub struct PreparedPair<'a, D: Device> {
    images: Prepared<D>,
    setting: Setting<'a, D>,
}

/// What of a pair is needed before and after its images are.
struct Setting<'a, D: Device> {
    device: &'a D,
    input: &'a DeformInput<'a>,
    foregrounds: Vec<Foregrounds>,
    /// The part of the fixed grid that is computed on.
    to: IndexBox,
    /// Its grid.
    grid: Grid,
    /// The grids of the parts of both images where something is to be registered.
    parts: [Grid; 2],
}

impl<'a, D: Device> PreparedPair<'a, D> {
    /// Of images and what else pulls, for a model that can be computed on some `parts` of the fixed grid.
    ///
    /// # Errors
    /// As [`register_deformable`](super::register_deformable), but for those of the model.
    pub fn new(device: &'a D, input: &'a DeformInput<'a>, parts: Parts<'_>) -> Result<Self> {
        check_input(input)?;
        let of = |channel| Foregrounds::of(device, channel);
        let foregrounds: Vec<_> = input.channels.iter().map(of).collect::<Result<_>>()?;
        let whole = [input.channels[0].fixed.grid(), input.channels[0].moving.grid()];
        let [of_fixed, of_moving] = clip_boxes(device, input, &foregrounds, parts)?;
        // Between both images neither is cut: they are treated alike.
        let between = matches!(parts, Parts::Between);
        let to = if between { IndexBox::whole(whole[0]) } else { of_fixed };
        let grid = crop_grid(whole[0], &to)?;
        let parts = [crop_grid(whole[0], &of_fixed)?, crop_grid(whole[1], &of_moving)?];
        let images = Prepared::new(device, input, &foregrounds, &to)?;
        let setting = Setting { device, input, foregrounds, to, grid, parts };
        Ok(Self { images, setting })
    }

    /// The part of the fixed grid that is computed on.
    #[must_use]
    pub fn grid(&self) -> &Grid {
        &self.setting.grid
    }

    /// Registers them with a model: `make` makes it on the grid where the images are
    /// [brought together](Model::samples). With the result comes what the model found [beside fields](Model::Extra), of which
    /// the verdict knows nothing.
    ///
    /// # Errors
    /// As [`register_deformable`](super::register_deformable).
    pub fn run_with<M: Model<D>>(
        self,
        multiscale: &Multiscale,
        progress: &dyn Progress,
        make: impl Fn(&Grid) -> M,
    ) -> Result<(DeformResult, M::Extra)> {
        let Self { images, setting } = self;
        let Setting { device, input, to, grid, parts, .. } = &setting;
        let mut pair = Pair::new(*device, images, parts, &input.affine, make)?;
        let (scales, rule) = (multiscale.scales(), multiscale.rule());
        let scales = multiscale::run(&mut pair, &mut OneStep, scales, &rule, progress)?;
        // Fields of a part are pasted into the whole grid.
        let on = match to.is_whole(input.channels[0].fixed.grid()) {
            true => M::fields_on(grid)?,
            false => grid.clone(),
        };
        let Found { fields, settled, mended, path, extra } = pair.conclude(&on)?;
        let found = Found { fields, settled, mended, path, extra: () };
        Ok((setting.result(found, on, scales)?, extra))
    }
}

impl<D: Device> Setting<'_, D> {
    /// What is made of what was found, on the grid of its fields.
    fn result(
        self,
        mut found: Found<D>,
        mut on: Grid,
        scales: Vec<ScaleRecord>,
    ) -> Result<DeformResult> {
        let Self { device, input, foregrounds, to, .. } = self;
        let whole = input.channels[0].fixed.grid();
        if !to.is_whole(whole) {
            for field in &mut found.fields {
                *field = paste_field(device, field, whole, &to, Guard::default())?;
            }
            on = whole.clone();
        }
        let result = Conclusion::new(device, &on, found.fields, found.settled)?;
        let mended = result.mended + found.mended;
        let foreground = foregrounds[0].0;
        let object = object_on(device, (input.channels[0].fixed, foreground[0]), input.fixed_mask)?;
        let object = object.map(|object| on_voxels_of(device, object, whole, &on)).transpose()?;
        let measures = result.measures(device, &on, object.as_ref())?;
        drop(object);
        let [forward, inverse] = result.fields;
        let jacobian = Volume::new(on.clone(), device.into_host(result.jacobian)?)?;
        let forward = to_world(&on, device.into_host(forward)?)?;
        let inverse = to_world(&on, device.into_host(inverse)?)?;
        let verdict = judge(&Findings {
            measures: &measures,
            scales: &scales,
            overlap: field_overlap(whole, input.channels[0].moving.grid(), &input.affine),
            masked: [input.fixed_mask.is_some(), input.moving_mask.is_some()],
            mended,
            voxels: on.len(),
            voxel: finest(whole),
        });
        Ok(DeformResult {
            forward,
            inverse,
            affine: input.affine,
            jacobian,
            measures,
            scales,
            path: found.path,
            foreground,
            clipped: to,
            mended,
            verdict,
        })
    }
}

/// What is in each voxel of a grid, on another grid: that of the voxel which has its centre.
fn on_voxels_of<D: Device>(
    device: &D,
    values: D::Buffer<f32>,
    from: &Grid,
    to: &Grid,
) -> Result<D::Buffer<f32>> {
    if from.dims() == to.dims() {
        return Ok(values);
    }
    let map = to.to_world().then(from.to_index()).rows();
    let mut out = device.alloc::<f32>(to.len())?;
    let nearest = Interpolation::Nearest;
    device.warp_affine(&values, from.dims(), &map, to.dims(), nearest, 0.0, &mut out)?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::super::clip::crop;
    use super::*;
    use crate::attachment::images::DeviceImage;
    use crate::diffeo::{Greedy, Intensities, Matching, register_deformable};
    use crate::model::{Borrower, Kind, Pull};
    use crate::multiscale::{Course, Motion, Scale, Schedule};
    use crate::progress::Silent;
    use crate::similarity::{PendingEnergies, PendingEnergy, Similarity};
    use voxalign_compute::Memory;
    use voxalign_compute::cpu::Cpu;
    use voxalign_image::Affine;

    /// A ball, mm.
    fn ball(centre: f64) -> Volume<f32> {
        let grid = Grid::axis_aligned([20, 18, 16], [1.0, 1.5, 2.0]).unwrap();
        Volume::from_fn(grid, |i, j, k| {
            let [i, j, k] = [i, j, k].map(|v| v as f64);
            let of = (i - centre).powi(2) + (1.5 * j - 13.0).powi(2) + (2.0 * k - 15.0).powi(2);
            1.0 / (1.0 + (of.sqrt() - 5.0).exp()) as f32
        })
    }

    fn input<'a>(fixed: &'a Volume<f32>, moving: &'a Volume<f32>) -> DeformInput<'a> {
        let mut input = DeformInput::new(fixed, moving, Similarity::SSD, Affine::identity());
        input.channels[0].intensities = Intensities::AsTheyAre;
        input
    }

    fn multiscale() -> Multiscale {
        let schedule = Schedule::of(&[(2, 12), (1, 6)]);
        Multiscale { schedule, ..Multiscale::default() }
    }

    /// A model that is brought has the bits of the same one of the list.
    #[test]
    fn who_brings_the_model_does_not_matter() {
        let device = Cpu::new(Some(2)).unwrap();
        let (fixed, moving) = (ball(9.0), ball(10.5));
        let input = input(&fixed, &moving);
        let greedy = Greedy::USUAL;
        let matching = Matching { multiscale: multiscale(), ..Matching::of(greedy.into()) };
        let listed = register_deformable(&device, &input, &matching, &Silent).unwrap();
        let suits = |n: usize| matching.solver.suits(n);
        let pair = PreparedPair::new(&device, &input, Parts::Suiting(&suits)).unwrap();
        assert_eq!(pair.grid().dims(), listed.clipped.size);
        let make = |grid: &Grid| Kind::model::<Cpu>(greedy, &matching, grid);
        let (brought, ()) = pair.run_with(&matching.multiscale, &Silent, make).unwrap();
        assert!(brought.forward == listed.forward && brought.inverse == listed.inverse);
        assert!(listed.forward.data().iter().any(|v| v.abs() > 0.1));
    }

    /// What a slab does not show of a body is not computed on, but for a guard of 24 voxels.
    #[test]
    fn a_body_is_computed_on_around_what_a_slab_of_it_shows() {
        let device = Cpu::new(Some(1)).unwrap();
        let body =
            Volume::from_fn(Grid::axis_aligned([40, 40, 80], [2.0; 3]).unwrap(), |i, j, k| {
                let out = (i as f32 - 20.0).hypot(j as f32 - 20.0) - 14.0;
                let tissue = 1.0 + 0.3 * ((i / 4 + j / 4 + k / 4) % 2) as f32;
                tissue / (1.0 + (2.0 * out).exp())
            });
        let slab = IndexBox { start: [0, 0, 30], size: [40, 40, 20] };
        let slab = crop(&body, &slab).unwrap();
        for (fixed, moving, along) in [(&body, &slab, 68), (&slab, &body, 20), (&body, &body, 80)] {
            let input = input(fixed, moving);
            let pair = PreparedPair::new(&device, &input, Parts::Suiting(&|_| true)).unwrap();
            assert_eq!(pair.grid().dims(), [40, 40, along]);
        }
    }

    /// A point on a spring: nothing of it is a field. It is at rest after some steps, and tells of each of them.
    struct Spring {
        grid: Grid,
        rests_after: usize,
    }

    /// How far out the point is, mm, and the volumes that it was told, mm³.
    struct SpringState {
        out: f64,
        volumes: Vec<f64>,
    }

    impl Model<Cpu> for Spring {
        type State = SpringState;
        type Extra = SpringState;

        fn begin(&mut self, _: &Cpu, _: &Affine, _: usize) -> Result<SpringState> {
            Ok(SpringState { out: 1.0, volumes: Vec::new() })
        }

        fn to_scale(&mut self, _: &Scale, grid: &Grid) {
            self.grid = grid.clone();
        }

        fn refine(&mut self, _: &Cpu, _: Vec<DeviceImage<Cpu>>, _: &mut SpringState) -> Result<()> {
            Ok(())
        }

        fn shown(&self, _: &Cpu, _: &SpringState) -> Result<Option<<Cpu as Memory>::Buffer<f32>>> {
            Ok(None)
        }

        fn lend(&self, device: &Cpu, _: &SpringState, work: &mut Borrower<'_, Cpu>) -> Result<()> {
            work(&Affine::identity(), &device.upload(&vec![0.0; 3 * self.grid.len()])?)
        }

        fn step(
            &mut self,
            _: &Cpu,
            pull: Pull<'_, Cpu>,
            state: &mut SpringState,
        ) -> Result<PendingEnergies> {
            state.volumes.push(pull.sources.counted_volume);
            let images = PendingEnergy::known(0.5 * state.out * state.out);
            state.out *= 0.5;
            Ok(PendingEnergies { images, ..PendingEnergies::default() })
        }

        fn at_rest(&self, _: &SpringState, course: &Course) -> Option<bool> {
            Some(course.energies.len() >= self.rests_after)
        }

        fn motion(&self, state: &SpringState) -> Option<Motion> {
            let strain_energy = 0.5 * state.out * state.out;
            let (kinetic_energy, unbalanced_force) = (0.0, state.out);
            let (voxel_force, voxel_kinetic) = (1.0, 1.0);
            let (least_jacobian, cuts, held) = (1.0, 0, 0);
            Some(Motion {
                kinetic_energy,
                strain_energy,
                unbalanced_force,
                voxel_force,
                voxel_kinetic,
                least_jacobian,
                cuts,
                held,
            })
        }

        fn conclude(
            self,
            device: &Cpu,
            fixed: &Grid,
            state: SpringState,
        ) -> Result<Found<Cpu, SpringState>> {
            let still = || device.upload(&vec![0.0f32; 3 * fixed.len()]);
            let fields = [still()?, still()?];
            Ok(Found { fields, settled: true, mended: 0, path: None, extra: state })
        }
    }

    #[test]
    fn a_model_needs_no_field() {
        let device = Cpu::new(Some(2)).unwrap();
        let (fixed, moving) = (ball(9.0), ball(10.5));
        let input = input(&fixed, &moving);
        let pair = PreparedPair::new(&device, &input, Parts::Whole).unwrap();
        assert_eq!(pair.grid(), fixed.grid());
        let make = |grid: &Grid| Spring { grid: grid.clone(), rests_after: 4 };
        let (result, found) = pair.run_with(&multiscale(), &Silent, make).unwrap();
        assert!(result.forward.data().iter().all(|v| *v == 0.0));
        assert_eq!(found.out, 0.5f64.powi(8));
        let motion: Vec<_> = result.scales.iter().flat_map(|s| &s.motion).collect();
        assert_eq!(motion.len(), 8);
        assert_eq!(motion[7].unbalanced_force, found.out);
        // Everything counts, at every scale.
        let whole = fixed.grid().len() as f64 * fixed.grid().voxel_volume();
        assert_eq!(found.volumes.len(), 8);
        for volume in found.volumes {
            assert!((volume - whole).abs() < 1e-9 * whole, "{volume} is not {whole}");
        }
    }
}
