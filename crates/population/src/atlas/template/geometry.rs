//! The geometry of the template of a [`Cohort`], which moves with it.

use crate::atlas::cohort::Cohort;
use crate::atlas::crew::{Changes, Visit};
use crate::atlas::geometry::{AT_END, TemplateGeometry};
use crate::error::Result;
use std::sync::Arc;
use voxalign_compute::Device;
use voxalign_register::model::{CohortModel, Shift};

impl<D: Device, M: CohortModel<D>> Cohort<'_, D, M> {
    /// Whether the subjects have more than images.
    pub(in crate::atlas) fn has_geometry(&self) -> bool {
        self.crews.first().is_some_and(|crew| !crew.core.geometry.is_empty())
    }

    /// The geometry of the template.
    pub(in crate::atlas) fn template_geometry(&self) -> Arc<Vec<TemplateGeometry>> {
        self.crews.first().map(|c| Arc::clone(&c.core.geometry.template)).unwrap_or_default()
    }

    /// Gives the template another geometry.
    pub(in crate::atlas) fn set_geometry(&mut self, template: Vec<TemplateGeometry>) {
        let template = Arc::new(template);
        for crew in &mut self.crews {
            crew.core.geometry.template = Arc::clone(&template);
            for member in &mut crew.members {
                member.pulls = None;
                if let Some(state) = &mut member.state {
                    crew.core.model.points_moved(state);
                }
            }
        }
    }

    pub(in crate::atlas) fn begin_tugs(&mut self) -> Result<()> {
        self.each(|crew| crew.turn(|core| core.geometry.begin(&core.device))).map(drop)
    }

    /// Moves the geometry of the template to where all subjects have pulled it.
    pub(in crate::atlas) fn move_template(&mut self) -> Result<()> {
        for i in 0..self.template_geometry().len() {
            self.reduce(|crew| &mut crew.core.geometry.tugs[i].forces)?;
            self.reduce(|crew| &mut crew.core.geometry.tugs[i].stiffness)?;
        }
        let moved = match self.crews.first_mut() {
            Some(crew) => crew.turn(|core| core.geometry.moved(&core.device, core.target)),
            None => Ok(Vec::new()),
        };
        let moved = self.team.ranks().agree(moved)?;
        self.set_geometry(moved);
        Ok(())
    }

    /// Takes the geometry of the template to where its mean displacement is taken back.
    pub(in crate::atlas) fn shift_template(&mut self, back: &[Shift<D>]) -> Result<()> {
        if !self.has_geometry() {
            return Ok(());
        }
        let (Some(crew), Some(back)) = (self.crews.first_mut(), back.first()) else {
            return Ok(());
        };
        let shifted =
            crew.turn(|core| core.geometry.shifted(&core.device, &core.template.grid, &back.back));
        let shifted = self.team.ranks().agree(shifted)?;
        self.set_geometry(shifted);
        Ok(())
    }

    /// Brings the geometry of the template to rest, where the subjects are.
    pub(in crate::atlas) fn settle_template(&mut self) -> Result<()> {
        if !self.has_geometry() {
            return Ok(());
        }
        for _ in 0..AT_END {
            self.begin_tugs()?;
            let visit = Visit { load: false, changes: Changes::Nothing };
            self.each(|crew| crew.visit(visit, &(), |core, member, _| core.pull_template(member)))?;
            self.move_template()?;
        }
        Ok(())
    }

    /// Measures the fraction of the template that is the object, at the beginning of a scale.
    pub(in crate::atlas) fn look_at_object(&mut self) -> Result<()> {
        if !self.has_geometry() {
            return Ok(());
        }
        let shares = self.each(|crew| crew.turn(|core| core.object_share()))?;
        if let Some(&share) = shares.first() {
            self.crews.iter_mut().for_each(|crew| crew.core.geometry.share = share);
        }
        Ok(())
    }
}
