//! All subjects of an atlas, on the devices of all ranks, and the template, their mean.

use super::construction::Construction;
use super::crew::{Changes, Crew, Post, Visit};
use super::geometry::{self, EVERY, UNIT, bytes_each, starts};
use super::options::{AtlasChannel, AtlasOptions, Sharpness};
use super::subjects::memory::{MemoryPlan, Needs};
use super::subjects::source::{Source, Subject, check_subjects};
use super::template::measures::{entropy, gradient_energy};
use super::template::snapshot::Snapshot;
use crate::error::{PopulationError, Result};
use crate::stream::Listener;
use std::sync::Arc;
use voxalign_compute::comm::Team;
use voxalign_compute::ops::elementwise::x;
use voxalign_compute::ops::flow::Inversion;
use voxalign_compute::{Device, Memory};
use voxalign_image::{Affine, Grid, Volume};
use voxalign_register::Progress;
use voxalign_register::attachment::{Attachments, ChannelSimilarity};
use voxalign_register::model::{CohortModel, Shift};
use voxalign_register::multiscale::{Deformation, Iteration, Scale};
use voxalign_register::similarity::{Energies, PendingEnergies};

/// The subjects of an atlas.
pub(super) struct Cohort<'a, D: Device, M: CohortModel<D>> {
    pub(super) team: &'a Team<D>,
    pub(super) grid: Grid,
    pub(super) crews: Vec<Crew<'a, D, M>>,
    progress: Stop<'a>,
    /// Whether any subject has voxels that do not count.
    pub(super) masked: bool,
    pub(super) sharpness: Vec<Sharpness>,
    pub(super) snapshots: Vec<Snapshot>,
    /// Whether [snapshots](Snapshot) are taken.
    looks: bool,
    pub(super) scale: Scale,
    /// Whether all subjects are at the scale: not where one was stopped on the way.
    pub(super) together: bool,
}

/// Listens to nothing but the wish to stop.
#[derive(Clone, Copy)]
pub(super) struct Stop<'a>(pub(super) &'a dyn Progress);

impl Listener for Stop<'_> {
    fn stop(&self) -> bool {
        self.0.stop()
    }
}

/// The data terms each subject to the template: the images of all channels.
pub(super) fn attachments<D: Device>(options: &AtlasOptions, channels: usize) -> Attachments<D> {
    let usual = AtlasChannel { similarity: options.similarity, weight: 1.0 };
    let images = (0..channels).map(|channel| {
        let AtlasChannel { similarity, weight } =
            options.channels.get(channel).copied().unwrap_or(usual);
        ChannelSimilarity { channel, similarity, weight }
    });
    images.filter(|images| images.weight > 0.0).map(|images| Box::new(images) as _).collect()
}

/// The parts of the sum of all weights.
pub(super) fn parts(subjects: &[Subject]) -> Vec<f64> {
    let total: f64 = subjects.iter().map(|s| s.weight).sum();
    subjects.iter().map(|s| s.weight / total).collect()
}

/// Bytes of a device in addition to the subjects and the workspace of steps: those needed at the end, where the
/// fields of a subject are settled.
fn at_the_end(voxels: u64) -> u64 {
    4 * 30 * voxels
}

impl<'a, D: Device, M: CohortModel<D>> Cohort<'a, D, M> {
    /// The subjects of a source, of which nothing is read yet.
    pub(super) fn new(
        construction: &Construction<'a, D>,
        channels: usize,
        looks: bool,
        make: impl Fn(&Grid) -> M,
    ) -> Result<Self> {
        let &Construction { team, grid, source, options, memory, progress, .. } = construction;
        let n = grid.len() as u64;
        let subjects = source.subjects();
        check_subjects(subjects)?;
        let weights = &parts(subjects);
        let scratch = &memory.scratch.clone().unwrap_or_else(std::env::temp_dir);
        let all: Arc<[_]> = source.geometry().into();
        let coarsest = options.matching.multiscale.scales().first().map_or(1, |s| s.factor);
        let affines: Vec<Affine> = subjects.iter().map(|s| s.affine).collect();
        let template = match team.devices().first() {
            Some(device) => starts(device, &all, &affines, weights, coarsest),
            None => Ok(Vec::new()),
        };
        let template = Arc::new(team.ranks().agree(template)?);
        let crew = |own: voxalign_compute::comm::Member<'a, D>| {
            let (range, model) = (own.share(subjects.len()), make(grid));
            let attachments = attachments(options, channels);
            let voxels = voxels(source, range.clone())?;
            let needs = Needs {
                subjects: range.len(),
                shared: shared(&model, &attachments, grid, channels),
                each: model.bytes_each(grid, voxels) + bytes_each(&all),
                warped: 4 * n * channels as u64,
                images: 4 * voxels,
            };
            let plan = planned(construction, own.device, &needs);
            let geometry = geometry::Shared::new(Arc::clone(&all), Arc::clone(&template));
            let post = Post {
                model,
                attachments,
                geometry,
                grid,
                source,
                range,
                weights,
                channels,
                plan,
                scratch,
            };
            Crew::new(own.device, post)
        };
        let crews = team.ranks().agree(team.local().map(crew).collect::<Result<Vec<_>>>())?;
        Ok(Self {
            team,
            grid: grid.clone(),
            crews,
            progress: Stop(progress),
            masked: false,
            sharpness: Vec::new(),
            snapshots: Vec::new(),
            looks,
            scale: Scale { factor: 1, iterations: 0 },
            together: true,
        })
    }

    /// Where the subjects of the devices of this rank are.
    pub(super) fn plans(&self) -> Vec<MemoryPlan> {
        self.crews.iter().map(Crew::plan).collect()
    }

    /// Does some work with each device at the same time; an error of one is that of all.
    pub(super) fn each<R: Send>(
        &mut self,
        work: impl Fn(&mut Crew<'a, D, M>) -> Result<R> + Sync,
    ) -> Result<Vec<R>> {
        let result = self.team.each(&mut self.crews, |_, crew| work(crew));
        self.team.ranks().agree(result)
    }

    /// Adds up sums of all devices of all ranks; each of them has the result then.
    pub(super) fn reduce(
        &mut self,
        sums: impl for<'c> Fn(&'c mut Crew<'a, D, M>) -> &'c mut D::Buffer<i64>,
    ) -> Result<()> {
        if self.team.members() == 1 {
            return Ok(());
        }
        let mut all = Vec::with_capacity(self.crews.len());
        for (device, crew) in self.team.devices().iter().zip(&mut self.crews) {
            all.push(std::mem::replace(sums(crew), device.alloc(0)?));
        }
        self.team.all_reduce_sum(&mut all)?;
        for (crew, buffer) in self.crews.iter_mut().zip(all) {
            *sums(crew) = buffer;
        }
        Ok(())
    }

    /// Reads images that stay on the devices.
    pub(super) fn load(&mut self) -> Result<()> {
        let stop = self.progress;
        self.each(|crew| crew.load(&stop)).map(drop)
    }

    /// Begins a new average.
    pub(super) fn clear(&mut self) -> Result<()> {
        let masked = self.masked;
        self.each(|crew| crew.turn(|core| core.clear(masked))).map(drop)
    }

    /// Makes the average of the sums of all devices the template.
    pub(super) fn average(&mut self) -> Result<()> {
        let channels = self.crews.first().map_or(0, |c| c.core.sums.len());
        for c in 0..channels {
            self.reduce(|crew| &mut crew.core.sums[c])?;
        }
        if self.masked {
            self.reduce(|crew| &mut crew.core.counted[0])?;
            let mut everywhere = [self.crews.iter().map(|c| c.core.everywhere).sum::<i64>()];
            self.team.ranks().all_reduce_sum(&mut everywhere)?;
            self.crews.iter_mut().for_each(|c| c.core.everywhere = everywhere[0]);
        }
        self.each(|crew| crew.turn(|core| core.average())).map(drop)
    }

    /// Warps all subjects, and averages them.
    pub(super) fn average_all(&mut self) -> Result<()> {
        self.clear()?;
        let visit = Visit { load: false, changes: Changes::Usual };
        self.each(|crew| crew.visit(visit, &(), |core, member, _| core.place(member)))?;
        self.average()
    }

    /// The displacement that takes back the weighted mean of displacements of the template's grid, and that
    /// mean, for each device of this rank.
    pub(super) fn back_to_mean(&mut self) -> Result<Vec<Shift<D>>> {
        let visit = Visit { load: false, changes: Changes::Usual };
        let sums = self.each(|crew| {
            let n = crew.core.template.grid.len();
            let mut sums = crew.turn(|core| Ok(core.device.alloc::<i64>(3 * n)?))?;
            crew.visit(visit, &(), |core, member, _| {
                let Some(state) = &mut member.state else { return Ok(()) };
                let (device, unit) = (&core.device, member.weight * UNIT);
                Ok(core.model.lend_displacement(device, state, &mut |field, _| {
                    Ok(device.add_fixed(field, unit, &mut sums)?)
                })?)
            })?;
            Ok(sums)
        })?;
        let sums = self.all_reduced(sums)?;
        let result = self.team.each(&mut self.crews, |own, crew| {
            let sums = &sums[own.place];
            crew.turn(|core| {
                let (device, grid) = (&core.device, &core.template.grid);
                let mut mean = device.alloc::<f32>(3 * grid.len())?;
                device.fixed_to_float(sums, 1.0 / UNIT, &mut mean)?;
                let mut back = device.alloc::<f32>(3 * grid.len())?;
                device.eval(&(-x(0)), &[&mean], &[], None, &mut back)?;
                device.invert_field(&mean, grid.dims(), Inversion::default(), &mut back)?;
                Ok(Shift { there: back, back: mean })
            })
        });
        self.team.ranks().agree(result)
    }

    /// Sums over all devices of all ranks, one of each device of this rank.
    pub(super) fn all_reduced(&self, mut sums: Vec<D::Buffer<i64>>) -> Result<Vec<D::Buffer<i64>>> {
        if self.team.members() > 1 {
            self.team.all_reduce_sum(&mut sums)?;
        }
        Ok(sums)
    }

    /// Takes the mean displacement back from all subjects, where the model can.
    fn centre(&mut self) -> Result<()> {
        if !self.crews.iter().all(|c| c.core.model.takes_shifts()) {
            return Ok(());
        }
        let visit = Visit { load: false, changes: Changes::Usual };
        let back = self.back_to_mean()?;
        self.shift_template(&back)?;
        let result = self.team.each(&mut self.crews, |own, crew| {
            let back = &back[own.place];
            crew.visit(visit, &(), |core, member, _| {
                let Some(state) = &mut member.state else { return Ok(()) };
                Ok(core.model.precede(&core.device, back, state)?)
            })
        });
        self.team.ranks().agree::<_, PopulationError>(result)?;
        self.average_all()
    }

    /// Records the sharpness of the template, at the reporting rank; `last` after the last iteration of a scale.
    fn look(&mut self, iteration: usize, last: bool) -> Result<()> {
        let told = match self.team.ranks().is_first() {
            true => self.look_here(iteration, last),
            false => Ok(()),
        };
        self.team.ranks().agree(told)
    }

    fn look_here(&mut self, iteration: usize, last: bool) -> Result<()> {
        let (factor, looks) = (self.scale.factor, self.looks && (last || is_shown(iteration)));
        let Some(crew) = self.crews.first_mut() else { return Ok(()) };
        let found = crew.turn(|core| {
            let (device, grid) = (&core.device, &core.template.grid);
            let Some(first) = core.template.channels.first() else { return Ok(None) };
            let gradient_energy = gradient_energy(device, first, grid)?;
            let entropy = entropy(device, first)?;
            let image = match looks {
                true => Some(Volume::new(grid.clone(), device.download(first)?)?),
                false => None,
            };
            Ok(Some((Sharpness { factor, iteration, entropy, gradient_energy }, image)))
        })?;
        if let Some((sharpness, image)) = found {
            self.sharpness.push(sharpness);
            self.snapshots.extend(image.map(|i| Snapshot::of(&i, factor, iteration)));
        }
        Ok(())
    }

    /// One step of all subjects, and the template after it; the mean energies before. The geometry of the
    /// template moves first where it is `due`.
    fn step(&mut self, due: bool) -> Result<Energies> {
        self.clear()?;
        let due = due && self.has_geometry();
        if due {
            self.begin_tugs()?;
        }
        let visit = Visit { load: false, changes: Changes::Usual };
        let energies = self.each(|crew| {
            let mut known: Vec<(usize, Energies)> = Vec::new();
            let mut pending: Vec<(usize, PendingEnergies)> = Vec::new();
            let streams = !crew.plan().in_core();
            let trace = crew.visit(visit, &(), |core, member, _| {
                if due {
                    core.pull_template(member)?;
                }
                let energies = core.step(member)?;
                if streams {
                    let energies = energies.wait()?;
                    if let Some(state) = &mut member.state {
                        core.model.told(state, &energies.parts);
                    }
                    known.push((member.index, energies));
                } else {
                    pending.push((member.index, energies));
                }
                Ok(())
            })?;
            crew.trace = trace;
            for (index, energies) in pending {
                let energies = energies.wait()?;
                crew.tell(index, &energies.parts);
                known.push((index, energies));
            }
            Ok(known)
        })?;
        self.average()?;
        if due {
            self.move_template()?;
        }
        self.weighted_mean(energies)
    }

    /// The weighted mean of the energies of all subjects, each with its number.
    fn weighted_mean(&self, own: Vec<Vec<(usize, Energies)>>) -> Result<Energies> {
        let own: Vec<_> = own.into_iter().flatten().collect();
        let mut columns = [own.first().map_or(0, |(_, e)| 2 + e.parts.len()) as f64];
        self.team.ranks().all_reduce_max(&mut columns)?;
        let columns = columns[0] as usize;
        let row = |(index, e): &(usize, Energies)| {
            [*index as f64, e.total].into_iter().chain(e.parts.iter().copied()).collect::<Vec<_>>()
        };
        let flat: Vec<f64> = own.iter().flat_map(row).collect();
        let ranks = self.team.ranks();
        let all = if ranks.size() == 1 { flat } else { ranks.all_gather(&flat)?.concat() };
        let mut rows: Vec<&[f64]> = all.chunks_exact(columns.max(1)).collect();
        rows.sort_by(|a, b| a[0].total_cmp(&b[0]));
        let weights = parts(self.crews.first().map_or(&[][..], |c| c.source().subjects()));
        let mean = |c: usize| rows.iter().map(|row| weights[row[0] as usize] * row[c]).sum();
        let parts = (2..columns).map(mean).collect();
        Ok(Energies { total: if columns > 1 { mean(1) } else { 0.0 }, parts })
    }

    /// Rows of numbers of all subjects, at all ranks.
    pub(super) fn gathered<const N: usize>(
        &self,
        own: Vec<Vec<[f64; N]>>,
    ) -> Result<Vec<[f64; N]>> {
        let flat: Vec<f64> = own.into_iter().flatten().flatten().collect();
        let ranks = self.team.ranks();
        let all = if ranks.size() == 1 { vec![flat] } else { ranks.all_gather(&flat)? };
        let row = |c: &[f64]| std::array::from_fn(|i| c[i]);
        Ok(all.iter().flat_map(|block| block.chunks_exact(N).map(row)).collect())
    }

    /// Ends a run that is to stop, at all ranks together.
    fn stop(&self) -> Result<()> {
        let mut stop = [f64::from(u8::from(self.progress.stop()))];
        self.team.ranks().all_reduce_max(&mut stop)?;
        if stop[0] > 0.0 { Err(PopulationError::Stopped) } else { Ok(()) }
    }

    pub(super) fn bring(&mut self, scale: &Scale) -> Result<()> {
        self.scale = *scale;
        let stop = self.progress;
        self.together = false;
        self.each(|crew| crew.bring(scale, &stop))?;
        self.together = true;
        let mut masked = [f64::from(u8::from(self.crews.iter().any(Crew::is_masked)))];
        self.team.ranks().all_reduce_max(&mut masked)?;
        self.masked = masked[0] > 0.0;
        Ok(())
    }
}

/// Whether the template of an iteration is shown: the first ones, as later ones drift until the mean
/// displacement is taken back at the end of the scale.
fn is_shown(iteration: usize) -> bool {
    matches!(iteration, 0 | 1 | 2 | 5 | 10)
}

/// Voxels of the largest of some subjects.
fn voxels(source: &dyn Source, mut range: std::ops::Range<usize>) -> Result<u64> {
    range.try_fold(0, |most, index| Ok(source.size(index)?.voxels.max(most)))
}

/// Bytes of a device that its subjects share.
fn shared<D: Device, M: CohortModel<D>>(
    model: &M,
    attachments: &Attachments<D>,
    grid: &Grid,
    channels: usize,
) -> u64 {
    let n = grid.len() as u64;
    let of_attachments: u64 = attachments.iter().map(|a| a.bytes(grid)).sum();
    (model.bytes_shared(n, channels as u64) + of_attachments).max(at_the_end(n))
}

fn planned<D: Device>(construction: &Construction<'_, D>, device: &D, needs: &Needs) -> MemoryPlan {
    let &Construction { team, memory, .. } = construction;
    let [of_device, of_host] = [memory.device_memory, memory.host_memory].map(|b| Some(b?.0));
    let device = of_device.or_else(|| device.memory().free.map(|f| f / 10 * 9));
    let host = of_host.or_else(|| {
        let free = voxalign_compute::cpu::Cpu::new(Some(1)).ok()?.memory().free;
        free.map(|f| f / 10 * 6 / team.devices().len() as u64)
    });
    MemoryPlan::new(needs, device, host)
}

impl<D: Device, M: CohortModel<D>> Deformation for Cohort<'_, D, M> {
    type Error = PopulationError;

    fn to_scale(&mut self, scale: &Scale) -> Result<()> {
        let all = self.stop().and_then(|()| self.bring(scale)).and_then(|()| self.average_all());
        all.and_then(|()| self.look_at_object())
    }

    fn finish(&mut self) -> Result<()> {
        let dims = self.crews.first().map(|c| c.core.template.grid.dims());
        if dims.is_some_and(|dims| dims != self.grid.dims()) {
            self.to_scale(&Scale { factor: 1, iterations: 0 })?;
        }
        Ok(())
    }
}

/// Hears of nothing that would end a run between ranks at different places.
pub(super) struct Deaf<'a>(pub(super) &'a dyn Progress);

impl Progress for Deaf<'_> {
    fn event(&self, event: &voxalign_register::Event<'_>) {
        self.0.event(event);
    }
}

/// Steps of all subjects.
pub(super) struct Steps {
    centre: bool,
    pub(super) iteration: usize,
}

impl Steps {
    pub(super) fn new(options: &AtlasOptions) -> Self {
        Self { centre: options.centre, iteration: 0 }
    }
}

impl<D: Device, M: CohortModel<D>> Iteration<Cohort<'_, D, M>> for Steps {
    fn to_scale(&mut self, _: &Cohort<'_, D, M>, _: &Scale) -> Result<()> {
        self.iteration = 0;
        Ok(())
    }

    fn iterate(&mut self, cohort: &mut Cohort<'_, D, M>) -> Result<Energies> {
        cohort.stop()?;
        cohort.look(self.iteration, false)?;
        let due = self.iteration.is_multiple_of(EVERY);
        self.iteration += 1;
        cohort.step(due)
    }

    fn end_scale(&mut self, cohort: &mut Cohort<'_, D, M>) -> Result<Option<f64>> {
        if self.centre {
            cohort.centre()?;
        }
        cohort.look(self.iteration, true)?;
        Ok(None)
    }
}
