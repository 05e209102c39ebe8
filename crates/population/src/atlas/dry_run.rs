//! The number of processes that pays for an atlas, estimated by a dry run (Ha 2011, section 2.3.8.3).

use super::cohort::attachments;
use super::geometry::UNIT;
use super::options::AtlasOptions;
use super::shared::Template;
use crate::error::{PopulationError, Result};
use std::time::Instant;
use voxalign_compute::Device;
use voxalign_compute::comm::Team;
use voxalign_compute::comm::balance::{Job, Network, Plan, Times, plan};
use voxalign_image::{Affine, Grid, memory};
use voxalign_register::attachment::images::DeviceImage;
use voxalign_register::model::{
    CohortModel, Counts, Pull, Sources, UseCohortModel, with_cohort_model,
};
use voxalign_register::multiscale::Scale;

/// The measurements of a dry run, and its conclusions.
#[derive(Debug, Clone, PartialEq)]
pub struct DryRun {
    /// Seconds of a step of one subject at the finest scale, and of the sum over the devices of a process.
    pub times: Times,
    /// Seconds of the sum over all processes.
    pub network: f64,
    /// The expected time of an iteration with fewer processes, and the best number of them.
    pub plan: Plan,
}

/// Makes a step of one image of zeros on each device and sums over all of them, and predicts from that the time of
/// an iteration over this many subjects with fewer processes, each with as many devices as this one. All ranks call
/// it, and get the same result.
///
/// # Errors
/// Options that cannot be used; memory that runs out; ranks that fail.
pub fn dry_run<D: Device>(
    team: &Team<D>,
    grid: &Grid,
    subjects: usize,
    channels: usize,
    options: &AtlasOptions,
) -> Result<DryRun> {
    options.check()?;
    let work = Measured { team, grid, channels, options };
    let [step, sum, network] = with_cohort_model(&options.matching, work)??;
    let ranks = team.ranks();
    let devices_per_node = team.members().div_ceil(ranks.size());
    let job = Job { images: subjects, devices_per_node, most_nodes: ranks.size() };
    let times = Times { per_image: step, node: (sum - network).max(0.0) };
    let of_nodes = Network::proportional(ranks.size(), network);
    let plan = plan(&job, &times, |nodes| of_nodes.seconds(nodes))?;
    Ok(DryRun { times, network, plan })
}

/// Seconds of a step on the slowest device, of the sums over all devices, and of that over ranks alone.
struct Measured<'a, D: Device> {
    team: &'a Team<D>,
    grid: &'a Grid,
    channels: usize,
    options: &'a AtlasOptions,
}

impl<D: Device> UseCohortModel<D> for Measured<'_, D> {
    type Out = Result<[f64; 3]>;

    fn with<M: CohortModel<D>>(self, make: impl Fn(&Grid) -> M + Sync) -> Result<[f64; 3]> {
        measured(self, make)
    }
}

fn measured<D: Device, M: CohortModel<D>>(
    work: Measured<'_, D>,
    make: impl Fn(&Grid) -> M + Sync,
) -> Result<[f64; 3]> {
    let Measured { team, grid, channels, options } = work;
    let (n, ranks) = (grid.len(), team.ranks());
    let found = team.each(&mut vec![(); team.devices().len()], |own, ()| {
        let (device, mut model) = (own.device, make(grid));
        let zeros = || -> Result<D::Buffer<f32>> { Ok(device.alloc(n)?) };
        let images = || (0..channels).map(|_| zeros()).collect::<Result<Vec<_>>>();
        let scale = Scale { factor: 1, iterations: 1 };
        model.to_scale(&scale, grid);
        let mut attachments = attachments(options, channels);
        for attachment in &mut attachments {
            attachment.to_scale(device, &scale, grid, model.sides())?;
        }
        let mut state = model.begin_among(device, &Affine::identity())?;
        let whole = images()?.into_iter().map(|values| DeviceImage {
            grid: grid.clone(),
            values,
            outside: 0.0,
            open: false,
        });
        model.refine(device, whole.collect(), &mut state)?;
        let template = Template { grid: grid.clone(), channels: images()? };
        let (mut warped, mut sums) = (images()?, device.alloc::<i64>(n)?);
        let mut seconds = 0.0;
        // The first step has kernels compiled and memory made.
        for _ in 0..2 {
            device.synchronize()?;
            let began = Instant::now();
            let (fixed, counts) = (template.images(), Counts::ALL);
            let (shared, own) = (&mut attachments, &mut Vec::new());
            let counted_volume = grid.len() as f64 * grid.voxel_volume();
            let sources = Sources { shared, own, share: 1.0, counted_volume };
            let pull = Pull { sources, fixed: &fixed, warped: &warped, counts };
            let energy = model.step(device, pull, &mut state)?;
            model.warp(device, &mut state, grid, &mut warped)?;
            for image in &warped {
                device.add_fixed(image, UNIT, &mut sums)?;
            }
            energy.wait()?;
            device.synchronize()?;
            seconds = began.elapsed().as_secs_f64();
        }
        Ok::<_, PopulationError>((seconds, sums))
    });
    let (seconds, mut sums): (Vec<f64>, Vec<_>) = ranks.agree(found)?.into_iter().unzip();
    let mut wire = memory::zeroed::<i64>(n)?;
    let mut times = [seconds.into_iter().fold(0.0, f64::max), 0.0, 0.0];
    for _ in 0..2 {
        ranks.barrier()?;
        let began = Instant::now();
        team.all_reduce_sum(&mut sums)?;
        times[1] = channels as f64 * began.elapsed().as_secs_f64();
        ranks.barrier()?;
        let began = Instant::now();
        ranks.all_reduce_sum(&mut wire)?;
        times[2] = channels as f64 * began.elapsed().as_secs_f64();
    }
    ranks.all_reduce_max(&mut times)?;
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_compute::comm::Communicator;
    use voxalign_compute::cpu::Cpu;
    use voxalign_register::diffeo::DeformModel;

    #[test]
    fn all_ranks_find_the_same() {
        let found: Vec<DryRun> = std::thread::scope(|scope| {
            let ranks = Communicator::local(3).into_iter();
            let threads: Vec<_> = ranks
                .map(|rank| {
                    scope.spawn(|| {
                        let team = Team::new(vec![Cpu::new(Some(1)).unwrap()], rank).unwrap();
                        let grid = Grid::axis_aligned([24, 20, 12], [2.0; 3]).unwrap();
                        let models =
                            [DeformModel::GREEDY, DeformModel::SYMMETRIC, DeformModel::LDDMM];
                        let all = models.map(|model| {
                            dry_run(&team, &grid, 7, 1, &AtlasOptions::of(model)).unwrap()
                        });
                        all.into_iter().next().unwrap()
                    })
                })
                .collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert!(found[1] == found[0] && found[2] == found[0]);
        let DryRun { times, plan, .. } = &found[0];
        assert!(times.per_image > 0.0 && times.per_image.is_finite());
        assert_eq!(plan.table.len(), 3);
        assert_eq!([7, 4, 3], [0, 1, 2].map(|i| plan.table[i].images_per_device));
        assert!(plan.table.iter().all(|p| p.total() >= plan.best.total()));
    }
}
