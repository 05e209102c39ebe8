//! Saving and resuming of cohorts.

use super::checkpoint::{Checkpoints, Saved};
use super::cohort::{Cohort, Steps};
use super::crew::{Changes, Visit};
use super::geometry::TemplateGeometry;
use crate::error::Result;
use voxalign_compute::{Device, DeviceBuffer, Memory};
use voxalign_image::Vector3;
use voxalign_register::model::CohortModel;
use voxalign_register::multiscale::{Course, Keeper};
use voxalign_register::{Event, Progress};

impl<D: Device, M: CohortModel<D>> Cohort<'_, D, M> {
    /// Writes all that is needed to resume from here.
    pub(super) fn save(
        &mut self,
        checkpoints: &Checkpoints<'_>,
        iteration: usize,
        course: &Course,
    ) -> Result<()> {
        let ranks = self.team.ranks();
        let place = ranks.agree(checkpoints.begin(ranks.is_first(), iteration, course))?;
        let visit = Visit { load: false, changes: Changes::Nothing };
        self.each(|crew| {
            crew.visit(visit, &(), |core, member, _| {
                let Some(state) = &mut member.state else { return Ok(()) };
                let numbers = core.model.numbers(state)?;
                let buffers = core.model.buffers(state).changing;
                let buffers = buffers.into_iter().map(|b| Ok(core.device.download(b)?));
                let buffers = buffers.collect::<Result<Vec<_>>>()?;
                place.write_subject(member.index, &numbers, &buffers)
            })
        })?;
        let template = match self.crews.first_mut() {
            Some(crew) if self.team.ranks().is_first() => crew.turn(|core| {
                let channels = core.template.channels.iter();
                channels.map(|c| Ok(core.device.download(c)?)).collect::<Result<Vec<_>>>()
            }),
            _ => Ok(Vec::new()),
        };
        let saved = Saved {
            course: course.clone(),
            iteration,
            scale: self.scale,
            masked: self.masked,
            sharpness: self.sharpness.clone(),
            snapshots: self.snapshots.clone(),
            geometry: self.saved_geometry(),
            share: self.crews.first().map_or(1.0, |crew| crew.core.geometry.share),
            model: self.model(),
        };
        let done = match self.team.ranks().is_first() {
            true => template.and_then(|t| checkpoints.end(&place, &saved, &t)),
            false => template.map(drop),
        };
        self.team.ranks().agree(done)
    }

    fn saved_geometry(&self) -> Vec<(usize, Vec<[f64; 3]>)> {
        let vertices = |t: &TemplateGeometry| t.vertices.iter().map(|v| (*v).into()).collect();
        self.template_geometry().iter().map(|t| (t.from, vertices(t))).collect()
    }

    /// The model of the devices: their name without their number.
    fn model(&self) -> String {
        let name = self.team.devices().first().map(Memory::name).unwrap_or_default();
        let model = name.split_once('(').and_then(|(_, rest)| rest.rsplit_once(')'));
        model.map_or(name.clone(), |(model, _)| model.to_owned())
    }

    /// Restores the saved state of a run; the listener is told of a damaged checkpoint.
    pub(super) fn restore(
        &mut self,
        checkpoints: &Checkpoints<'_>,
        progress: &dyn Progress,
    ) -> Result<Option<(usize, Course)>> {
        let subjects: Vec<usize> =
            self.crews.iter().flat_map(|c| &c.members).map(|m| m.index).collect();
        let last = checkpoints.last(self.team.ranks(), &subjects, progress);
        let Some(place) = self.team.ranks().agree(last)? else { return Ok(None) };
        let (saved, template) = self.team.ranks().agree(place.read())?;
        let model = self.model();
        // The CPU has the same bits everywhere; some sums of a GPU depend on how many parts it has.
        if checkpoints.device != "cpu" && saved.model != model {
            let text = format!(
                "the checkpoint was made on a device '{}', and this run computes on '{model}': the last digits \
                 may differ from those of an uninterrupted run on one model",
                saved.model
            );
            progress.event(&Event::Warning { text: &text });
        }
        self.bring(&saved.scale)?;
        self.masked = saved.masked;
        let vertices = |all: Vec<[f64; 3]>| all.into_iter().map(Vector3::from).collect();
        let geometry = saved.geometry.into_iter();
        let geometry: Vec<_> = geometry
            .map(|(from, all)| TemplateGeometry { from, vertices: vertices(all) })
            .collect();
        if geometry.len() != self.template_geometry().len() {
            return Err(place.is_other());
        }
        self.set_geometry(geometry);
        self.crews.iter_mut().for_each(|crew| crew.core.geometry.share = saved.share);
        let visit = Visit { load: false, changes: Changes::Usual };
        self.each(|crew| {
            crew.visit(visit, &(), |core, member, _| {
                let (numbers, buffers) = place.read_subject(member.index)?;
                let Some(state) = &mut member.state else { return Ok(()) };
                core.model.set_numbers(&core.device, state, &numbers)?;
                let own = core.model.buffers(state).changing;
                if own.len() != buffers.len() {
                    return Err(place.is_other());
                }
                for (own, saved) in own.into_iter().zip(&buffers) {
                    if own.len() != saved.len() {
                        return Err(place.is_other());
                    }
                    core.device.upload_into(own, saved)?;
                }
                core.warp_again(member)
            })?;
            crew.turn(|core| {
                core.template.channels.clear();
                for values in &template {
                    if values.len() != core.template.grid.len() {
                        return Err(place.is_other());
                    }
                    core.template.channels.push(core.device.upload(values)?);
                }
                Ok(())
            })
        })?;
        self.sharpness = saved.sharpness;
        self.snapshots = saved.snapshots;
        Ok(Some((saved.iteration, saved.course)))
    }
}

/// Saves from time to time.
pub(super) struct Saver<'k> {
    checkpoints: Option<&'k Checkpoints<'k>>,
    last: std::time::Instant,
    /// The progress of the run when it was last checked.
    course: Course,
}

impl<'k> Saver<'k> {
    pub(super) fn new(checkpoints: Option<&'k Checkpoints<'k>>, course: Course) -> Self {
        Self { checkpoints, last: std::time::Instant::now(), course }
    }

    /// Saves where the run is, between two iterations.
    pub(super) fn save<D: Device, M: CohortModel<D>>(
        &self,
        cohort: &mut Cohort<'_, D, M>,
        steps: &Steps,
    ) -> Result<()> {
        match self.checkpoints {
            Some(checkpoints) if cohort.together && self.course != Course::default() => {
                cohort.save(checkpoints, steps.iteration, &self.course)
            }
            _ => Ok(()),
        }
    }
}

impl<D: Device, M: CohortModel<D>> Keeper<Cohort<'_, D, M>, Steps> for Saver<'_> {
    fn look(
        &mut self,
        cohort: &mut Cohort<'_, D, M>,
        steps: &mut Steps,
        course: &Course,
    ) -> Result<()> {
        let Some(checkpoints) = self.checkpoints else { return Ok(()) };
        self.course = course.clone();
        // The rank that tells has the clock.
        let mut due = [u64::from(self.last.elapsed() >= checkpoints.every)];
        let ranks = cohort.team.ranks();
        ranks.broadcast(&mut due, 0)?;
        if due[0] == 0 {
            return Ok(());
        }
        cohort.save(checkpoints, steps.iteration, course)?;
        self.last = std::time::Instant::now();
        Ok(())
    }
}
