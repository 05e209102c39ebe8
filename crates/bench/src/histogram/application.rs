//! Whole registrations with every scheme.

use crate::Host;
use std::time::Instant;
use voxalign_compute::ops::histogram::{JointScheme, Scheme};
use voxalign_compute::ops::resample::Interpolation;
use voxalign_compute::select::AnyDevice;
use voxalign_image::{Transform, Volume};
use voxalign_jobs::Result;
use voxalign_jobs::Silent;
use voxalign_jobs::check;
use voxalign_jobs::demo::Pair;
use voxalign_register::Choice;
use voxalign_register::compare::compare_images;
use voxalign_register::linear::{AffineInput, AffineOptions, register_affine};
use voxalign_register::resample::MovingImage;
use voxalign_register::similarity::Similarity;

/// A whole registration.
#[derive(Debug, Clone)]
pub(super) struct Application {
    pub(super) scheme: &'static str,
    pub(super) cost: &'static str,
    pub(super) evaluations: usize,
    /// Seconds and RMS, or why it could not be done.
    pub(super) result: Result<(f64, f64), String>,
}

impl Application {
    pub(super) fn row(&self) -> Vec<String> {
        let (seconds, rms) = match &self.result {
            Ok((seconds, rms)) => (format!("{seconds:.3}"), format!("{rms:.4}")),
            Err(_) => ("-".into(), "-".into()),
        };
        vec![self.scheme.into(), self.cost.into(), seconds, self.evaluations.to_string(), rms]
    }
}

/// Registers the pair with every scheme that the device has.
pub(super) fn measure(
    device: &AnyDevice,
    volumes: Option<&(Volume<f32>, Volume<f32>)>,
    missing: &[&str],
    host: &dyn Host,
) -> Result<Vec<Application>> {
    let demo;
    let (fixed, moving) = match volumes {
        Some((fixed, moving)) => (fixed, moving),
        None => {
            demo = Pair::load()?;
            (&demo.fixed, &demo.moving)
        }
    };
    let default = AffineOptions::default;
    let ratio = Scheme::ALL.into_iter().map(|s| {
        let options =
            AffineOptions { similarity: Some(Similarity::CR), scheme: Some(s), ..default() };
        (s.name(), options)
    });
    let joint = JointScheme::ALL.into_iter().map(|joint| {
        (joint.name(), AffineOptions { similarity: Some(Similarity::MI), joint, ..default() })
    });
    let mut all = Vec::new();
    // The check of the others takes minutes on the CPU and tells nothing new.
    let left_out = |name: &str| missing.contains(&name) || name == Scheme::Direct.name();
    for (name, options) in ratio.chain(joint).filter(|(name, _)| !left_out(name)) {
        check(host)?;
        // A first registration on a GPU brings its kernels; it is not counted.
        if missing.is_empty() {
            let _ = register_affine(device, &AffineInput::new(fixed, moving), &options, &Silent);
        }
        let start = Instant::now();
        let found = register_affine(device, &AffineInput::new(fixed, moving), &options, &Silent);
        let seconds = start.elapsed().as_secs_f64();
        let (evaluations, result) = match found {
            Ok(found) => {
                let transform = Transform::Affine(found.transform);
                let rms = rms(device, fixed, moving, &transform)?;
                let evaluations = found.stages.iter().map(|s| s.evaluations).sum();
                (evaluations, Ok((seconds, rms)))
            }
            Err(e) => (0, Err(e.to_string())),
        };
        let cost = options.first_similarity().name();
        all.push(Application { scheme: name, cost, evaluations, result });
    }
    Ok(all)
}

/// Equation 5 of Li et al. (2015): the intensities as they are, over the overlap.
fn rms(
    device: &AnyDevice,
    fixed: &Volume<f32>,
    moving: &Volume<f32>,
    transform: &Transform,
) -> Result<f64> {
    let source = MovingImage::new(device, moving.clone())?;
    let warped = source.onto(fixed.grid(), transform, Interpolation::Linear, f32::NAN)?;
    Ok(compare_images(fixed, &warped, None, 2)?.rms)
}
