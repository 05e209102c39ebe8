//! Outputs and messages shared by single atlases and those along a covariate.

pub(super) mod geometry;
pub(super) mod subjects;

use crate::error::Result;
use crate::files;
use crate::results::ResultFile;
use crate::staged::Staged;
use subjects::dimensions;
use voxalign_image::LabelMap;
use voxalign_io::image::{self, DataType};
use voxalign_population::atlas::{Atlas, root_mean_square};
use voxalign_report::{Figure, Figures, When};

const ATLAS: &str = "atlas.nii.gz";
const AFFINE_MEAN: &str = "atlas_affine.nii.gz";
const VARIANCE: &str = "variance.nii.gz";
const ENTROPY: &str = "entropy.nii.gz";
const LOG_JACOBIAN: &str = "log_jacobian.nii.gz";
/// The file that only atlases of subjects with labels have.
const LABELS: &str = "labels.nii.gz";

/// The images of an atlas, with what they are; further channels have their number in the name.
const IMAGES: [(&str, &str); 6] = [
    ("atlas", ATLAS),
    ("affine_mean", AFFINE_MEAN),
    ("variance", VARIANCE),
    ("entropy", ENTROPY),
    ("log_jacobian", LOG_JACOBIAN),
    ("labels", LABELS),
];

/// The images of an atlas, of subjects with or without labels, with what they are.
pub(super) fn images(labels: bool) -> impl Iterator<Item = (&'static str, &'static str)> {
    IMAGES.into_iter().filter(move |(_, name)| labels || *name != LABELS)
}

/// The files of atlases, for pipelines.
pub(in crate::atlas) fn results() -> Vec<ResultFile> {
    let about = |role: &str| match role {
        "atlas" => "The template: the mean of the subjects in their mean shape",
        "affine_mean" => "Their mean after affine alignment only",
        "variance" => "The variance over the subjects",
        "entropy" => "The entropy over the subjects at each voxel, bits",
        "log_jacobian" => "The mean logarithm of the subjects' changes of volume",
        _ => "The most frequent label",
    };
    let images = IMAGES.map(|(role, name)| ResultFile::of(role, name, about(role)));
    images.into_iter().chain(subjects::results()).collect()
}

/// Writes the images of an atlas, with `folder` before their names.
pub(super) fn write(
    staged: &mut Staged<'_>,
    folder: &str,
    atlas: &Atlas,
    labels: Option<&LabelMap>,
) -> Result<()> {
    let dimensions = dimensions(atlas.variance.grid());
    let options = files::write_options(DataType::F32, dimensions);
    let mut volume = |name: &str, volume| {
        staged.write(&format!("{folder}{name}"), |path| image::write_volume(path, volume, &options))
    };
    for (name, channels) in [(ATLAS, &atlas.template), (AFFINE_MEAN, &atlas.affine_mean)] {
        for (c, channel) in channels.iter().enumerate() {
            match c {
                0 => volume(name, channel)?,
                c => volume(&name.replace(".nii.gz", &format!("{}.nii.gz", c + 1)), channel)?,
            }
        }
    }
    volume(VARIANCE, &atlas.variance)?;
    volume(ENTROPY, &atlas.entropy)?;
    volume(LOG_JACOBIAN, &atlas.log_jacobian)?;
    let name = format!("{folder}{LABELS}");
    match labels {
        Some(labels) => {
            let options = files::write_options(DataType::I32, dimensions);
            staged.write(&name, |path| image::write_labels(path, labels, &options))
        }
        None => {
            staged.without(&name);
            Ok(())
        }
    }
}

/// The figures of an atlas; `overlap` is the mean of its subjects' labels, after the affine maps and after the
/// deformations.
pub(super) fn figures(atlas: &Atlas, overlap: [Option<f64>; 2]) -> Figures {
    let mut figures = Figures::default();
    for ((when, overlap), end) in
        [When::Before, When::After].into_iter().zip(overlap).zip(&atlas.ends)
    {
        figures.set_at(Figure::Entropy, when, end.entropy);
        figures.set_at(Figure::GradientEnergy, when, end.gradient_energy);
        if let Some(dice) = overlap {
            figures.set_at(Figure::LabelOverlap, when, dice);
        }
    }
    figures.set(Figure::LogJacobianRms, root_mean_square(&atlas.log_jacobian));
    figures
}
