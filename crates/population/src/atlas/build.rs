//! The construction loop of an atlas.

use super::cohort::{Cohort, Deaf, Steps};
use super::construction::{Atlas, Construction, Sink, Times};
use super::saving::Saver;
use super::subjects::source::check_subjects;
use super::template::conclude::conclude;
use crate::error::{PopulationError, Result};
use std::time::Instant;
use voxalign_compute::Device;
use voxalign_image::Grid;
use voxalign_register::model::{CohortModel, UseCohortModel, with_cohort_model};
use voxalign_register::multiscale::{self, Course};

/// Builds an atlas. All ranks call it, and have the same afterwards; each finds the results of its own
/// subjects.
///
/// A stop that the listener asks for leaves a checkpoint, where these are kept.
///
/// # Errors
/// Options that cannot be used; fewer than two subjects; images that cannot be read, are constant, or
/// have values that are not finite; memory or disk space that runs out; a checkpoint of another run; ranks
/// that fail; [`PopulationError::Stopped`].
pub fn build<D: Device>(construction: &Construction<'_, D>, sink: &dyn Sink) -> Result<Atlas> {
    construction.check()?;
    with_cohort_model(&construction.options.matching, Whole { construction, sink })?
}

/// The iterations of [`build`] alone, for measurements; their results are discarded.
///
/// # Errors
/// As [`build`].
pub fn iterate<D: Device>(construction: &Construction<'_, D>) -> Result<Times> {
    construction.check()?;
    with_cohort_model(&construction.options.matching, Iterations { construction })?
}

/// The construction of an atlas with a model.
struct Whole<'c, 'a, D: Device> {
    construction: &'c Construction<'a, D>,
    sink: &'c dyn Sink,
}

impl<D: Device> UseCohortModel<D> for Whole<'_, '_, D> {
    type Out = Result<Atlas>;

    fn with<M: CohortModel<D>>(self, make: impl Fn(&Grid) -> M + Sync) -> Result<Atlas> {
        let Self { construction: c, sink } = self;
        let (times, cohort) = c.iterate(make, true)?;
        conclude(cohort, times, c.options.centre, c.progress, sink)
    }
}

/// Its iterations alone.
struct Iterations<'c, 'a, D: Device> {
    construction: &'c Construction<'a, D>,
}

impl<D: Device> UseCohortModel<D> for Iterations<'_, '_, D> {
    type Out = Result<Times>;

    fn with<M: CohortModel<D>>(self, make: impl Fn(&Grid) -> M + Sync) -> Result<Times> {
        self.construction.iterate(make, false).map(|(times, _)| times)
    }
}

impl<'a, D: Device> Construction<'a, D> {
    fn check(&self) -> Result<()> {
        check_subjects(self.source.subjects())?;
        self.options.check()
    }

    /// Checks the options against this number of channels.
    fn check_channels(&self, channels: usize) -> Result<()> {
        let found = self.options.channels.len();
        match found == 0 || found == channels {
            true => Ok(()),
            false => Err(PopulationError::option(
                "channels",
                format!("a list of {found}"),
                format!("give one for each of the {channels} channels, or none"),
            )),
        }
    }

    /// Reads the subjects and makes all iterations.
    fn iterate<M: CohortModel<D>>(
        &self,
        make: impl Fn(&Grid) -> M,
        looks: bool,
    ) -> Result<(Times, Cohort<'a, D, M>)> {
        let (options, source) = (self.options, self.source);
        let began = Instant::now();
        let channels = self.team.ranks().agree(source.size(0))?.channels;
        self.check_channels(channels)?;
        let mut cohort = Cohort::new(self, channels, looks, make)?;
        let plans = cohort.plans();
        (self.planned)(&plans);
        cohort.load()?;
        for device in self.team.devices() {
            device.synchronize()?;
        }
        let load = began.elapsed().as_secs_f64();
        let mut steps = Steps::new(options);
        let mut course = Course::default();
        if let (Some(checkpoints), true) = (self.checkpoints, self.resume)
            && let Some((iteration, saved)) = cohort.restore(checkpoints, self.progress)?
        {
            (steps.iteration, course) = (iteration, saved);
        }
        let mut saver = Saver::new(self.checkpoints, course.clone());
        let scales = multiscale::resume(
            &mut cohort,
            &mut steps,
            options.matching.multiscale.scales(),
            &options.matching.multiscale.rule(),
            &Deaf(self.progress),
            course,
            &mut saver,
        );
        let scales = match scales {
            Err(PopulationError::Stopped) => {
                saver.save(&mut cohort, &steps)?;
                return Err(PopulationError::Stopped);
            }
            other => other?,
        };
        cohort.settle_template()?;
        let trace = cohort.crews.first_mut().and_then(|c| c.trace.take());
        Ok((Times { load, scales, plans, trace }, cohort))
    }
}
