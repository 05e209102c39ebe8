//! The images to register, and the timing of a registration.

use crate::Host;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use voxalign_compute::select::AnyDevice;
use voxalign_image::{Affine, Grid, Vector3, Volume};
use voxalign_io::image::read_volume;
use voxalign_jobs::{Error, Result, check};
use voxalign_register::diffeo::{DeformInput, DeformResult, Matching, register_deformable};
use voxalign_register::linear::{AffineInput, AffineOptions, register_affine};
use voxalign_register::similarity::Similarity;
use voxalign_register::{Event, Progress, Silent};

/// A pair of images.
pub(super) struct Images {
    /// A description of them.
    pub(super) name: String,
    pub(super) fixed: Volume<f32>,
    pub(super) moving: Volume<f32>,
    /// Where the deformation starts.
    pub(super) affine: Affine,
}

impl Images {
    /// Two files, with the affine map between them.
    pub(super) fn read(device: &AnyDevice, fixed: &Path, moving: &Path) -> Result<Self> {
        let name = format!("{} and {}", fixed.display(), moving.display());
        let (fixed, moving) = (read_volume(fixed)?, read_volume(moving)?);
        let found = register_affine(
            device,
            &AffineInput::new(&fixed, &moving),
            &AffineOptions::default(),
            &Silent,
        )?;
        Ok(Self { name, fixed, moving, affine: found.transform })
    }

    /// Something like a head, and the same deformed by some voxels.
    pub(super) fn synthetic(dims: [usize; 3]) -> Result<Self> {
        let grid = Grid::axis_aligned(dims, [1.0; 3])?;
        let half = Vector3::from(dims.map(|n| n as f64 / 2.0));
        let image = |deformation: f64| {
            let mut data = Vec::with_capacity(grid.len());
            for k in 0..dims[2] {
                for j in 0..dims[1] {
                    for i in 0..dims[0] {
                        let at = Vector3::new(i as f64, j as f64, k as f64);
                        let p = (at - half).component_div(&half);
                        let wave = |a: f64, b: f64| deformation * (a * 4.0).sin() * (b * 3.0).cos();
                        let moved =
                            p + Vector3::new(wave(p.y, p.z), wave(p.z, p.x), wave(p.x, p.y));
                        data.push(head(moved) as f32);
                    }
                }
            }
            data
        };
        Ok(Self {
            name: format!("synthetic heads, {}", super::Size(dims)),
            fixed: Volume::new(grid.clone(), image(0.0))?,
            moving: Volume::new(grid.clone(), image(0.04))?,
            affine: Affine::identity(),
        })
    }

    /// Registers them; `clip` states whether background is cropped.
    pub(super) fn register(
        &self,
        device: &AnyDevice,
        similarity: Similarity,
        (options, clip): (&Matching, bool),
        watch: &Watch<'_>,
    ) -> Result<DeformResult> {
        check(watch.host)?;
        let (fixed, moving) = (&self.fixed, &self.moving);
        let mut input = DeformInput::new(fixed, moving, similarity, self.affine);
        input.preparation.clip = clip;
        Ok(register_deformable(device, &input, options, watch)?)
    }

    /// Registers them for the steps alone: what comes after all but one is not done.
    pub(super) fn steps<'h>(
        &self,
        device: &AnyDevice,
        similarity: Similarity,
        options: (&Matching, bool),
        host: &'h dyn Host,
    ) -> Result<Watch<'h>> {
        let all: usize = options.0.multiscale.scales().iter().map(|s| s.iterations).sum();
        let watch = Watch { most: Some(all - 1), ..Watch::new(host) };
        match self.register(device, similarity, options, &watch) {
            Ok(_) => Ok(watch),
            // Stopped by the watch, and not by the user.
            Err(Error::Stopped) if !host.stop() => Ok(watch),
            Err(e) => Err(e),
        }
    }
}

/// The brightness of tissue at a place, from −1 to 1 along each axis.
fn head(p: Vector3<f64>) -> f64 {
    let within = |r: f64, radius: f64, width: f64| 1.0 / (1.0 + ((r - radius) / width).exp());
    let r = p.norm();
    let folds = (11.0 * p.x).sin() * (13.0 * p.y).cos() + (12.0 * p.z).sin() * (9.0 * p.x).cos();
    let brain = within(r + 0.03 * folds, 0.68, 0.015) * (0.7 + 0.15 * folds);
    let ventricles = within((p - Vector3::new(0.0, 0.1, 0.0)).norm() + 0.02 * folds, 0.2, 0.01);
    let skull = within((r - 0.82).abs(), 0.04, 0.01);
    brain * (1.0 - 0.8 * ventricles) + 0.9 * skull
}

/// Notes when steps were over.
pub(super) struct Watch<'h> {
    /// The listener that can stop it.
    host: &'h dyn Host,
    /// The registration is stopped after this many.
    most: Option<usize>,
    seen: Mutex<Seen>,
}

/// The observations of a watch.
#[derive(Default)]
pub(super) struct Seen {
    /// When the first scale began.
    pub(super) start: Option<Instant>,
    /// Scales begun.
    scales: usize,
    pub(super) steps: Vec<Step>,
}

/// A step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    /// Its scale, from 0.
    pub(super) scale: usize,
    /// The energy before it.
    pub(super) energy: f64,
    /// When it was over.
    pub(super) end: Instant,
}

impl<'h> Watch<'h> {
    /// Of a registration that is not stopped but by its host.
    pub(super) fn new(host: &'h dyn Host) -> Self {
        Self { host, most: None, seen: Mutex::default() }
    }

    /// All that was seen.
    pub(super) fn seen(self) -> Seen {
        self.seen.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress for Watch<'_> {
    fn event(&self, event: &Event<'_>) {
        let end = Instant::now();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match *event {
            Event::StageStart { .. } => {
                seen.start.get_or_insert(end);
                seen.scales += 1;
            }
            Event::Step { best, .. } => {
                let scale = seen.scales.saturating_sub(1);
                seen.steps.push(Step { scale, energy: best, end });
            }
            _ => {}
        }
    }

    fn stop(&self) -> bool {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        self.most.is_some_and(|most| seen.steps.len() >= most) || self.host.stop()
    }
}
