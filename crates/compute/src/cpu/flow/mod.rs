//! Flows of displacement fields on the CPU.

mod advance;
mod blend;
mod cells;
mod energies;
mod force;
mod force_at;
mod half;
mod invert;
mod norms;

pub(super) use half::single;

use super::{Cpu, CpuBuffer};
use crate::device::DeviceBuffer;
use crate::error::{Result, check_len};
use crate::ops::flow::{
    Flow, Inversion, Inverted, Step, check_advance, check_blend, check_energies, check_force,
    check_force_at, check_inversion, check_lengths, check_norms, check_overshoot, factor,
};
use crate::{AffineMap, Dims};

impl Flow for Cpu {
    fn advance(
        &self,
        field: &CpuBuffer<f32>,
        velocity: &CpuBuffer<f32>,
        step: &Step<'_, Self>,
        dims: Dims,
        out: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        check_advance(field.len(), velocity.len(), step, dims, out.len())?;
        let mut by = 1.0;
        if let Some(limit) = &step.limit {
            by = factor(limit.largest.as_slice()[limit.index], limit.step, limit.most);
        }
        let scale = step.scale.map(|s| (by * s) as f32);
        let (field, velocity) = (field.as_slice(), velocity.as_slice());
        advance::advance(self, field, velocity, scale, dims, out.as_mut_slice());
        Ok(())
    }

    fn invert_field(
        &self,
        field: &CpuBuffer<f32>,
        dims: Dims,
        how: Inversion,
        out: &mut CpuBuffer<f32>,
    ) -> Result<Inverted> {
        check_inversion(field.len(), dims, &how, out.len())?;
        Ok(invert::invert(self, field.as_slice(), dims, how, out.as_mut_slice()))
    }

    fn force(
        &self,
        derivative: &CpuBuffer<f32>,
        image: &CpuBuffer<f32>,
        dims: Dims,
        spacing: [f64; 3],
        add: bool,
        out: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        check_force(derivative.len(), image.len(), dims, spacing, out.len())?;
        let (derivative, image) = (derivative.as_slice(), image.as_slice());
        force::force(self, derivative, image, dims, spacing, add, out.as_mut_slice());
        Ok(())
    }

    fn force_at(
        &self,
        derivative: &CpuBuffer<f32>,
        src: &CpuBuffer<f32>,
        src_dims: Dims,
        map: &AffineMap,
        field: &CpuBuffer<f32>,
        out_dims: Dims,
        units: &[[f64; 3]; 3],
        out: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        let (of_src, of_field) = ((src.len(), src_dims), (field.len(), out_dims));
        check_force_at(derivative.len(), of_src, map, of_field, units, out.len())?;
        let source = force_at::Source::new(self, src.as_slice(), src_dims, map, units);
        let (derivative, field) = (derivative.as_slice(), field.as_slice());
        force_at::force_at(self, derivative, &source, field, out_dims, out.as_mut_slice());
        Ok(())
    }

    fn field_norms(
        &self,
        field: &CpuBuffer<f32>,
        scale: [f64; 3],
        out: &mut CpuBuffer<f64>,
    ) -> Result<()> {
        check_norms(field.len(), scale, out.len())?;
        out.as_mut_slice().copy_from_slice(&norms::norms(self, field.as_slice(), scale));
        Ok(())
    }

    fn field_energies(
        &self,
        field: &CpuBuffer<f32>,
        dims: Dims,
        scale: [f64; 3],
        spacing: [f64; 3],
        out: &mut CpuBuffer<f64>,
    ) -> Result<()> {
        let factors = check_energies(field.len(), dims, scale, spacing, out.len())?;
        let sums = energies::energies(self, field.as_slice(), dims, scale, spacing, factors);
        out.as_mut_slice().copy_from_slice(&sums);
        Ok(())
    }

    fn field_lengths(
        &self,
        field: &CpuBuffer<f32>,
        scale: [f64; 3],
        out: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        check_lengths(field.len(), scale, out.len())?;
        blend::lengths(self, field.as_slice(), scale, out.as_mut_slice());
        Ok(())
    }

    fn field_overshoot(
        &self,
        field: &CpuBuffer<f32>,
        dims: Dims,
        out: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        check_overshoot(field.len(), dims, out.len())?;
        blend::overshoot(self, field.as_slice(), dims, out.as_mut_slice());
        Ok(())
    }

    fn blend_fields(
        &self,
        other: Option<&CpuBuffer<f32>>,
        weight: &CpuBuffer<f32>,
        field: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        check_blend(other.map(DeviceBuffer::len), weight.len(), field.len())?;
        let other = other.map(CpuBuffer::as_slice);
        blend::blend(self, other, weight.as_slice(), field.as_mut_slice());
        Ok(())
    }

    fn to_half(&self, src: &CpuBuffer<f32>, out: &mut CpuBuffer<u16>) -> Result<()> {
        check_len("output", src.len(), out.len())?;
        half::to_half(self, src.as_slice(), out.as_mut_slice());
        Ok(())
    }

    fn to_single(&self, src: &CpuBuffer<u16>, out: &mut CpuBuffer<f32>) -> Result<()> {
        check_len("output", src.len(), out.len())?;
        half::to_single(self, src.as_slice(), out.as_mut_slice());
        Ok(())
    }
}
