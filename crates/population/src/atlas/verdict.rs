//! The verdict on an atlas.

use super::build::Atlas;
use super::outliers::{lost, outlying};
use voxalign_image::Volume;
use voxalign_register::{Check, Remedy, Verdict};

/// What is judged of a subject.
#[derive(Debug, Clone, Copy)]
pub struct Judged<'a> {
    /// Its name.
    pub name: &'a str,
    /// The verdict on its deformation.
    pub deformation: &'a Verdict,
    /// That on its affine registration to the mean, where there was one.
    pub affine: Option<&'a Verdict>,
}

/// The largest root mean square of the mean logarithm of volume changes of an atlas without bias.
const BIAS: f64 = 0.1;

/// What interpolation may take from the correlation of subjects that are alike already.
const LOSS: f64 = -0.005;

/// Whether an atlas can be used, and which of its subjects are [unlike the others](outlying);
/// `subjects` in the order of the atlas.
#[must_use]
pub fn judge(atlas: &Atlas, subjects: &[Judged<'_>]) -> (Verdict, Vec<bool>) {
    let mean = |when: usize| {
        let sum: f64 = atlas.correlations.iter().map(|c| c[when]).sum();
        sum / atlas.correlations.len().max(1) as f64
    };
    let gain = mean(1) - mean(0);
    let bias = root_mean_square(&atlas.log_jacobian);
    let bad = subjects.iter().filter(|s| !s.deformation.good).map(|s| s.name.to_owned());
    let bad: Vec<String> = bad.collect();
    let gained = Check::new(
        "gain of the mean correlation with the template",
        gain,
        format!("above {LOSS}"),
        gain > LOSS,
    );
    let unbiased = Check::at_most("root mean square of the mean log Jacobian", bias, BIAS);
    let usable = Check::none("subjects whose deformation cannot be used", bad.len() as u64);
    let after: Vec<f64> = atlas.correlations.iter().map(|c| c[1]).collect();
    let gone = lost(&after);
    let gone = subjects.iter().zip(gone).filter(|(_, gone)| *gone);
    let gone: Vec<String> = gone.map(|(s, _)| s.name.to_owned()).collect();
    let there = Check::none("subjects that lie elsewhere than the template", gone.len() as u64);
    let checks = vec![
        there.of(gone).or(Remedy::LookAtSubjects),
        gained.or(Remedy::MoreAlike),
        unbiased.or(Remedy::Centred),
        usable.of(bad).or(Remedy::LookAtSubjects),
    ];
    let unlike = outlying(&after);
    let mut remarks = Vec::new();
    for ((subject, correlation), _) in
        subjects.iter().zip(&atlas.correlations).zip(&unlike).filter(|(_, unlike)| **unlike)
    {
        remarks.push(format!(
            "'{}' is unlike the others: its correlation with the template is {:.3}; look at it, and leave it \
             out if it does not belong there",
            subject.name, correlation[1]
        ));
    }
    for subject in subjects {
        if let Some(verdict) = subject.affine.filter(|v| !v.good) {
            remarks.push(format!(
                "the affine registration of '{}' to the mean: {}",
                subject.name,
                verdict.summary()
            ));
        }
    }
    (Verdict::new(checks, remarks), unlike)
}

/// The root of the mean square of an image.
#[must_use]
pub fn root_mean_square(image: &Volume<f32>) -> f64 {
    let sum: f64 = image.data().iter().map(|&v| f64::from(v).powi(2)).sum();
    (sum / image.data().len().max(1) as f64).sqrt()
}
